//! List schedulers: whenever a worker is free and a strand is ready, one of the ready ones begins on a free worker.
use super::{Arrival, Graph, Schedule, Scheduler, Workers};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

/// Ready strands that ETF and DT/MISF weigh against each other, best first: a bound, since there may be millions.
const WINDOW: usize = 16;

/// Strands that one needs whose workers are looked at: a bound, since a ready strand is weighed again and again.
const NEEDS: usize = 256;

/// What is better is greater: two ranks, then the older strand.
type Key = (u64, u64, Reverse<u32>);

struct List<'g> {
    graph: &'g Graph,
    by: Scheduler,
    out: Schedule,
    ready: BTreeSet<Key>,
    /// Of each strand that is ready or was.
    arrival: Vec<Arrival>,
    free: BTreeSet<usize>,
}

pub(super) fn schedule(graph: &Graph, workers: Workers, by: Scheduler) -> Schedule {
    let n = graph.len();
    let (levels, followers) = (graph.levels(0), graph.followers());
    let key = |s: u32| -> Key {
        let (level, many) = (levels[s as usize], followers.of(s as usize).len() as u64);
        match by {
            Scheduler::DtMisf => (many, level, Reverse(s)),
            _ => (level, many, Reverse(s)),
        }
    };
    let mut missing = graph.missing();
    let roots = (0..n as u32).filter(|&s| missing[s as usize] == 0);
    let mut list = List {
        graph,
        by,
        out: Schedule::new(n),
        ready: roots.map(key).collect(),
        arrival: vec![Arrival::default(); n],
        free: (0..workers.n).collect(),
    };
    let mut running: BinaryHeap<Reverse<(u64, usize, u32)>> = BinaryHeap::new();
    let mut now = 0;
    loop {
        while let Some((strand, worker)) = list.choose(now) {
            let start = list.arrival[strand].at(worker).max(now);
            let end = list.out.put(strand, worker, start, graph.ns[strand]);
            running.push(Reverse((end, worker, strand as u32)));
        }
        let Some(&Reverse((time, ..))) = running.peek() else {
            return list.out;
        };
        now = time;
        // All that end now, before the next choice.
        while let Some(&Reverse((end, worker, strand))) = running.peek()
            && end == now
        {
            running.pop();
            list.free.insert(worker);
            for &next in followers.of(strand as usize) {
                missing[next as usize] -= 1;
                if missing[next as usize] == 0 {
                    list.arrival[next as usize] =
                        Arrival::new(graph, &list.out, next as usize, workers.transfer_ns);
                    list.ready.insert(key(next));
                }
            }
        }
    }
}

impl List<'_> {
    /// The next strand and its worker; none: nothing is ready, or no worker is free.
    fn choose(&mut self, now: u64) -> Option<(usize, usize)> {
        let window = match self.by {
            Scheduler::Cp => 1,
            _ => WINDOW,
        };
        let mut best: Option<((u64, u64), Key, usize)> = None;
        for &key in self.ready.iter().rev().take(window) {
            let strand = key.2.0 as usize;
            let Some((cost, worker)) = self.worker_for(strand, now) else {
                break;
            };
            // What is to be transferred only chooses ETF's worker.
            let cost = match self.by {
                Scheduler::DtMisf => cost,
                _ => (cost.0, 0),
            };
            if best.is_none_or(|(least, ..)| cost < least) {
                best = Some((cost, key, worker));
            }
        }
        let (_, key, worker) = best?;
        self.ready.remove(&key);
        self.free.remove(&worker);
        Some((key.2.0 as usize, worker))
    }

    /// The free worker that is best for a strand, with its cost: DT/MISF counts what is to be transferred, the others when it starts.
    fn worker_for(&self, strand: usize, now: u64) -> Option<((u64, u64), usize)> {
        let arrival = self.arrival[strand];
        let needs = self.graph.after(strand);
        let needs = &needs[..needs.len().min(NEEDS)];
        // Workers that ran nothing that it needs are all the same: one of them is enough.
        let own = needs.iter().map(|&p| self.out.worker[p as usize] as usize);
        let mut candidates: Vec<usize> = own.filter(|w| self.free.contains(w)).collect();
        candidates.sort_unstable();
        candidates.dedup();
        candidates.extend(self.free.first());
        let cost = |worker: usize| {
            let start = arrival.at(worker).max(now);
            let is_remote = |p: &&u32| self.out.worker[**p as usize] as usize != worker;
            let remote = needs.iter().filter(is_remote).count() as u64;
            match self.by {
                Scheduler::DtMisf => (remote, start),
                _ => (start, remote),
            }
        };
        candidates.into_iter().map(|w| (cost(w), w)).min()
    }
}
