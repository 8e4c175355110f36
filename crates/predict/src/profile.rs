//! A [`Program`] in a few numbers: what the analytical models need.
//!
//! [`load`] averages all workers' rounds into one for the queueing models; [`graph`] keeps the order of the waits for each
//! other and drops the locks, for the work and span model.
use crate::models::{Load, workspan::Graph};
use crate::program::{Program, Step, Sums};

/// The average round of a worker: what it does from one acquisition to the next. Without locks, all it does.
pub fn load(sums: &Sums) -> Load {
    let n: u64 = sums.acquisitions.iter().sum();
    let n_threads = sums.workers.max(1);
    let rounds = if n == 0 { n_threads as f64 } else { n as f64 };
    let mut outside = sums.work_ns.saturating_sub(sums.inside_ns);
    let mut holds: Vec<u64> = sums.hold_ns.iter().copied().filter(|&h| h > 0).collect();
    if holds.len() > MOST_LOCKS {
        // Each of the others is held so little that threads rarely meet there.
        holds.sort_unstable_by(|a, b| b.cmp(a));
        outside += holds.drain(MOST_LOCKS..).sum::<u64>();
    }
    Load {
        n_threads,
        compute: outside as f64 / rounds,
        delay: sums.delay_ns as f64 / rounds,
        holds: holds.iter().map(|&h| h as f64 / rounds).collect(),
    }
}

/// Locks that the models tell apart, most held first.
const MOST_LOCKS: usize = 256;

/// The program's parts between waits for each other as a graph; locks are left out, delays count as time.
pub fn graph(program: &Program) -> Graph {
    let n = program.scripts.len();
    let mut walk = Walk {
        program,
        graph: Graph::default(),
        open: vec![Open::default(); n],
        pc: vec![0; n],
        posted: vec![None; program.n_events as usize],
        waiter: vec![Vec::new(); program.n_events as usize],
        arrived: vec![Vec::new(); program.rounds.len()],
        ready: (0..n).rev().collect(),
    };
    while let Some(thread) = walk.ready.pop() {
        walk.go(thread);
    }
    for thread in walk.open {
        walk.graph.task(thread.time, thread.after);
    }
    walk.graph
}

#[derive(Clone, Default)]
struct Open {
    time: f64,
    after: Vec<u32>,
}

/// All threads on their way through the program; each step is made once.
struct Walk<'a> {
    program: &'a Program,
    graph: Graph,
    open: Vec<Open>,
    pc: Vec<usize>,
    posted: Vec<Option<u32>>,
    /// The threads that wait for each event.
    waiter: Vec<Vec<usize>>,
    arrived: Vec<Vec<usize>>,
    /// Those that can go on.
    ready: Vec<usize>,
}

impl Walk<'_> {
    /// Ends the thread's open task; the next one comes after it.
    fn close(&mut self, thread: usize) -> u32 {
        let open = std::mem::take(&mut self.open[thread]);
        let task = self.graph.task(open.time, open.after);
        self.open[thread].after.push(task);
        task
    }

    fn go(&mut self, thread: usize) {
        while let Some(&step) = self.program.scripts[thread].steps.get(self.pc[thread]) {
            match step {
                Step::Compute(ns) | Step::Delay(ns) => self.open[thread].time += ns as f64,
                Step::Post(event) => {
                    let task = self.close(thread);
                    self.posted[event as usize] = Some(task);
                    self.ready.append(&mut self.waiter[event as usize]);
                }
                Step::Wait(event) | Step::Spin(event) => {
                    let Some(task) = self.posted[event as usize] else {
                        return self.waiter[event as usize].push(thread);
                    };
                    self.close(thread);
                    self.open[thread].after.push(task);
                }
                Step::Barrier(round) => {
                    self.arrived[round as usize].push(thread);
                    // A thread that stands here continues after it.
                    self.pc[thread] += 1;
                    if self.arrived[round as usize].len()
                        == self.program.rounds[round as usize] as usize
                    {
                        self.pass(round);
                    }
                    return;
                }
                Step::Acquire(..) | Step::Release(_) => {}
            }
            self.pc[thread] += 1;
        }
    }

    /// All have come: through one task of no time, as each after each would be a square of edges.
    fn pass(&mut self, round: u32) {
        let here = std::mem::take(&mut self.arrived[round as usize]);
        let tasks = here.iter().map(|&thread| self.close(thread)).collect();
        let met = self.graph.task(0.0, tasks);
        for &thread in &here {
            self.open[thread].after = vec![met];
        }
        self.ready.extend(here);
    }
}
