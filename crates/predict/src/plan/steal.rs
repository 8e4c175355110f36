//! Work stealing: a worker puts what it makes ready at the bottom of its deque and takes from there; one that has nothing
//! steals from the top of a random other one that has, at once and at no cost but the transfer.
use super::{Arrival, Graph, Schedule, Workers};
use kasuri_base::random::Rng;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

pub(super) fn schedule(graph: &Graph, workers: Workers, seed: u64) -> Schedule {
    let followers = graph.followers();
    let mut missing = graph.missing();
    let mut rng = Rng::new(seed);
    let mut out = Schedule::new(graph.len());
    let mut deques: Vec<VecDeque<u32>> = vec![VecDeque::new(); workers.n];
    // The first of them at the bottom, taken first.
    deques[0].extend((0..graph.len() as u32).rev().filter(|&s| missing[s as usize] == 0));
    let mut idle: Vec<usize> = (0..workers.n).collect();
    let mut running: BinaryHeap<Reverse<(u64, usize, u32)>> = BinaryHeap::new();
    let mut now = 0;
    loop {
        // Owners first: they are there already.
        let mut waiting = Vec::new();
        for worker in std::mem::take(&mut idle) {
            let own = deques[worker].pop_back();
            waiting.push((worker, own));
        }
        let mut full: Vec<usize> = (0..workers.n).filter(|&w| !deques[w].is_empty()).collect();
        for (worker, own) in waiting {
            let strand = own.or_else(|| steal(&mut deques, &mut full, &mut rng));
            let Some(strand) = strand else {
                idle.push(worker);
                continue;
            };
            let arrival = Arrival::new(graph, &out, strand as usize, workers.transfer_ns);
            let start = arrival.at(worker).max(now);
            let end = out.put(strand as usize, worker, start, graph.ns[strand as usize]);
            running.push(Reverse((end, worker, strand)));
        }
        let Some(&Reverse((time, ..))) = running.peek() else {
            return out;
        };
        now = time;
        while let Some(&Reverse((end, worker, strand))) = running.peek()
            && end == now
        {
            running.pop();
            idle.push(worker);
            for &next in followers.of(strand as usize) {
                missing[next as usize] -= 1;
                if missing[next as usize] == 0 {
                    deques[worker].push_back(next);
                }
            }
        }
    }
}

/// From the top of a random deque that is not empty; `full`: those.
fn steal(deques: &mut [VecDeque<u32>], full: &mut Vec<usize>, rng: &mut Rng) -> Option<u32> {
    if full.is_empty() {
        return None;
    }
    let at = rng.below(full.len());
    let victim = full[at];
    let strand = deques[victim].pop_front();
    if deques[victim].is_empty() {
        full.swap_remove(at);
    }
    strand
}
