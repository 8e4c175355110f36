//! Work and span of a graph of tasks; a greedy schedule of it.
//!
//! Sources: R. Brent, JACM 1974; R. Graham 1969: any schedule that leaves no CPU idle while a task is ready takes at most
//! work/P + span (1 - 1/P), at least max(work/P, span). The greedy simulation gives the number in between, with a cost
//! for each task that starts on another CPU than the one that made it ready (a steal). Knows nothing of locks.
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Tasks that depend on earlier ones: edges go from lower to higher numbers.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// Time of each task.
    pub time: Vec<f64>,
    /// Tasks that each task must wait for.
    pub after: Vec<Vec<u32>>,
}

impl Graph {
    /// Adds a task; `after` are numbers of earlier tasks.
    pub fn task(&mut self, time: f64, after: Vec<u32>) -> u32 {
        debug_assert!(after.iter().all(|&a| (a as usize) < self.time.len()));
        self.time.push(time);
        self.after.push(after);
        self.time.len() as u32 - 1
    }

    /// Total time.
    pub fn work(&self) -> f64 {
        self.time.iter().sum()
    }

    /// Time of the longest chain.
    pub fn span(&self) -> f64 {
        let mut end = vec![0.0_f64; self.time.len()];
        for i in 0..end.len() {
            let ready = self.after[i].iter().map(|&a| end[a as usize]).fold(0.0, f64::max);
            end[i] = ready + self.time[i];
        }
        end.into_iter().fold(0.0, f64::max)
    }

    /// Time on `n_cpus` of a schedule that never leaves a CPU idle while a task is ready.
    pub fn greedy(&self, n_cpus: usize, steal: f64) -> f64 {
        let n = self.time.len();
        let mut missing: Vec<usize> = self.after.iter().map(Vec::len).collect();
        let mut then: Vec<Vec<u32>> = vec![Vec::new(); n];
        for (i, after) in self.after.iter().enumerate() {
            after.iter().for_each(|&a| then[a as usize].push(i as u32));
        }
        // Ready tasks with the CPU that made them so.
        let mut ready: VecDeque<(u32, usize)> =
            (0..n).filter(|&i| missing[i] == 0).map(|i| (i as u32, usize::MAX)).collect();
        let mut idle: Vec<usize> = (0..n_cpus.max(1)).rev().collect();
        // Times are positive, so their bits order as they do.
        let mut running: BinaryHeap<Reverse<(u64, usize, u32)>> = BinaryHeap::new();
        let mut now = 0.0_f64;
        loop {
            while let (Some(&(task, from)), true) = (ready.front(), !idle.is_empty()) {
                ready.pop_front();
                let own = idle.iter().position(|&c| c == from);
                let cpu = idle.swap_remove(own.unwrap_or(idle.len() - 1));
                let cost = if own.is_some() || from == usize::MAX { 0.0 } else { steal };
                let end = now + cost + self.time[task as usize];
                running.push(Reverse((end.to_bits(), cpu, task)));
            }
            let Some(Reverse((end, cpu, task))) = running.pop() else {
                return now;
            };
            now = f64::from_bits(end);
            idle.push(cpu);
            for &next in &then[task as usize] {
                missing[next as usize] -= 1;
                if missing[next as usize] == 0 {
                    ready.push_back((next, cpu));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kasuri_base::random::Rng;

    #[test]
    fn workspan_by_hand() {
        // 1 -> (4, 2, 2) -> 1: work 10, span 6; two CPUs: 1 + 4 + 1.
        let mut g = Graph::default();
        let a = g.task(1.0, vec![]);
        let middle: Vec<u32> = [4.0, 2.0, 2.0].map(|t| g.task(t, vec![a])).into();
        g.task(1.0, middle);
        assert_eq!((g.work(), g.span()), (10.0, 6.0));
        assert_eq!([1, 2, 3].map(|p| g.greedy(p, 0.0)), [10.0, 6.0, 6.0]);
    }

    #[test]
    fn workspan_brents_bounds_hold_in_random_graphs() {
        let seed = 99;
        let mut rng = Rng::new(seed);
        for case in 0..800 {
            let mut g = Graph::default();
            for i in 0..1 + rng.below(60) {
                let n_after = if i == 0 { 0 } else { rng.below(3.min(i + 1)) };
                let mut after: Vec<u32> = (0..n_after).map(|_| rng.below(i) as u32).collect();
                after.sort_unstable();
                after.dedup();
                g.task(rng.exponential(1.0), after);
            }
            let (work, span) = (g.work(), g.span());
            for p in [1, 2, 3, 7, 64] {
                let time = g.greedy(p, 0.0);
                let cpus = p as f64;
                let (low, high) =
                    ((work / cpus).max(span), work / cpus + span * (1.0 - 1.0 / cpus));
                assert!(
                    time >= low - 1e-9 && time <= high + 1e-9,
                    "seed {seed} case {case} on {p}: {low} {time} {high}"
                );
            }
        }
    }
}
