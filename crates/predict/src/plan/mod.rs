//! Schedules of a task graph on P workers: list schedulers and work stealing, and the bounds that none can beat.
//!
//! | module | does |
//! |---|---|
//! | `graph` | the graph: weights and edges, levels |
//! | `list` | schedulers that give a free worker a ready strand: critical path, least transfer, earliest start |
//! | `heft` | places strands one after the other, also into gaps |
//! | `steal` | deques and thieves |
//! | `answer` | all of them on a recording: what `kasuri plan` shows |
//!
//! A strand runs to its end on one worker. A strand that needs one of another worker may start `transfer_ns` after that one's
//! end; 0: handing over costs nothing. No schedule is shorter than the span, nor than work / P. One that leaves no worker idle
//! while a strand is ready (all here but HEFT's) is at most 2 - 1/P times as long as the best one if nothing is transferred
//! (R. Graham 1969).
//!
//! Sources: CP/MISF and its kin: H. Kasahara, S. Narita, IEEE Trans. Computers 1984. ETF: J.-J. Hwang et al., SIAM J. Computing
//! 1989. HEFT: H. Topcuoglu et al., IEEE TPDS 2002. Work stealing: R. Blumofe, C. Leiserson, JACM 1999.
mod answer;
mod graph;
mod heft;
mod list;
mod steal;

pub use answer::*;
pub use graph::Graph;

use schemars::JsonSchema;
use serde::Serialize;

/// A way to schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    /// Critical path first; of equal ones that with most immediate successors (CP/MISF).
    Cp,
    /// Least data to transfer, then most immediate successors (DT/MISF).
    DtMisf,
    /// Heterogeneous earliest finish time: by critical path, also into gaps.
    Heft,
    /// Earliest start first; of equal ones the critical path.
    Etf,
    /// Work stealing from random victims.
    Steal,
}

impl Scheduler {
    /// All.
    pub const ALL: [Scheduler; 5] =
        [Scheduler::Cp, Scheduler::DtMisf, Scheduler::Heft, Scheduler::Etf, Scheduler::Steal];

    /// As on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Scheduler::Cp => "cp",
            Scheduler::DtMisf => "dt-misf",
            Scheduler::Heft => "heft",
            Scheduler::Etf => "etf",
            Scheduler::Steal => "steal",
        }
    }
}

/// The machine of a plan.
#[derive(Clone, Copy, Debug)]
pub struct Workers {
    /// Their number, at least 1.
    pub n: usize,
    /// Until a strand of another worker can be used, ns.
    pub transfer_ns: u64,
}

/// The worker that runs each strand, and when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// Worker of each.
    pub worker: Vec<u32>,
    /// Begin of each, ns.
    pub start: Vec<u64>,
    /// End of the last, ns.
    pub makespan: u64,
}

impl Schedule {
    fn new(n: usize) -> Schedule {
        Schedule { worker: vec![0; n], start: vec![0; n], makespan: 0 }
    }

    fn put(&mut self, strand: usize, worker: usize, start: u64, ns: u64) -> u64 {
        (self.worker[strand], self.start[strand]) = (worker as u32, start);
        self.makespan = self.makespan.max(start + ns);
        start + ns
    }
}

/// The schedule of `graph`. `seed`: of the thieves' choices.
pub fn schedule(graph: &Graph, workers: Workers, by: Scheduler, seed: u64) -> Schedule {
    let workers = Workers { n: workers.n.max(1), ..workers };
    match by {
        Scheduler::Heft => heft::schedule(graph, workers),
        Scheduler::Steal => steal::schedule(graph, workers, seed),
        _ => list::schedule(graph, workers, by),
    }
}

/// When a strand's input is there, on any worker.
#[derive(Clone, Copy, Default)]
struct Arrival {
    transfer_ns: u64,
    /// The latest end of a strand that it needs, and that one's worker; the latest of those of other workers.
    latest: (u64, u32),
    others: u64,
}

impl Arrival {
    fn new(graph: &Graph, done: &Schedule, strand: usize, transfer_ns: u64) -> Arrival {
        let mut out = Arrival { transfer_ns, latest: (0, u32::MAX), others: 0 };
        for &p in graph.after(strand) {
            let (end, worker) =
                (done.start[p as usize] + graph.ns[p as usize], done.worker[p as usize]);
            if worker == out.latest.1 {
                out.latest.0 = out.latest.0.max(end);
            } else if end > out.latest.0 {
                out.others = out.others.max(out.latest.0);
                out.latest = (end, worker);
            } else {
                out.others = out.others.max(end);
            }
        }
        out
    }

    /// On this worker.
    fn at(&self, worker: usize) -> u64 {
        let remote = |end: u64| if end > 0 { end + self.transfer_ns } else { 0 };
        if self.latest.1 == worker as u32 {
            self.latest.0.max(remote(self.others))
        } else {
            remote(self.latest.0)
        }
    }
}
