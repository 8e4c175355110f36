//! HEFT: strands by the heaviest chain below them, each to the worker where it ends first, also into a gap between two that
//! were placed before.
use super::{Arrival, Graph, Schedule, Workers};

/// Gaps that a worker remembers, the latest: a bound, since a graph of millions leaves as many.
const GAPS: usize = 64;

/// A worker's time line.
#[derive(Clone, Default)]
struct Line {
    /// Idle from..to, in order of time.
    gaps: Vec<(u64, u64)>,
    end: u64,
}

impl Line {
    /// When it can run `ns` that are ready at `ready`, and in which gap.
    fn fit(&self, ready: u64, ns: u64) -> (u64, Option<usize>) {
        for (ix, &(from, to)) in self.gaps.iter().enumerate() {
            let start = from.max(ready);
            if start + ns <= to && start < to {
                return (start, Some(ix));
            }
        }
        (self.end.max(ready), None)
    }

    fn take(&mut self, start: u64, ns: u64, gap: Option<usize>) {
        let new = |from: u64, to: u64| (from < to).then_some((from, to));
        match gap {
            Some(ix) => {
                let (from, to) = self.gaps[ix];
                let rest = [new(from, start), new(start + ns, to)];
                self.gaps.splice(ix..=ix, rest.into_iter().flatten());
            }
            None => {
                self.gaps.extend(new(self.end, start));
                self.end = start + ns;
            }
        }
        if self.gaps.len() > GAPS {
            self.gaps.remove(0);
        }
    }
}

pub(super) fn schedule(graph: &Graph, workers: Workers) -> Schedule {
    let ranks = graph.levels(workers.transfer_ns * (workers.n as u64 - 1) / workers.n as u64);
    let mut order: Vec<usize> = (0..graph.len()).collect();
    // Of equal ranks the lower number: it may be what the higher one needs.
    order.sort_by_key(|&s| (std::cmp::Reverse(ranks[s]), s));
    let mut out = Schedule::new(graph.len());
    let mut lines = vec![Line::default(); workers.n];
    for strand in order {
        let arrival = Arrival::new(graph, &out, strand, workers.transfer_ns);
        let ns = graph.ns[strand];
        let fits = lines.iter().enumerate().map(|(worker, line)| {
            let (start, gap) = line.fit(arrival.at(worker), ns);
            (start, worker, gap)
        });
        let Some((start, worker, gap)) = fits.min() else {
            break;
        };
        lines[worker].take(start, ns, gap);
        out.put(strand, worker, start, ns);
    }
    out
}
