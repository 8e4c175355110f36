//! Schedulers on random graphs: valid, never below the bounds, and near the best schedule that there is.
use kasuri_base::random::Rng;
use kasuri_predict::plan::{Graph, Input, Recorded, Schedule, Scheduler, Workers, schedule};

fn random(rng: &mut Rng, n: usize, most: usize) -> Graph {
    let mut graph = Graph::default();
    for s in 0..n {
        let mut after: Vec<u32> =
            (0..rng.below(4.min(s + 1))).map(|_| rng.below(s) as u32).collect();
        after.sort_unstable();
        after.dedup();
        graph.push(rng.below(most) as u64, after);
    }
    graph
}

/// No worker runs two at once, and each strand has what it needs.
fn check(graph: &Graph, workers: Workers, s: &Schedule, what: &str) {
    let end = |at: usize| s.start[at] + graph.ns[at];
    for at in 0..graph.len() {
        assert!((s.worker[at] as usize) < workers.n, "{what}");
        for &p in graph.after(at) {
            let p = p as usize;
            let is_far = s.worker[p] != s.worker[at] && end(p) > 0;
            let transfer = u64::from(is_far) * workers.transfer_ns;
            assert!(s.start[at] >= end(p) + transfer, "{what}: {at} before {p}");
        }
    }
    let mut by_worker: Vec<usize> = (0..graph.len()).filter(|&at| graph.ns[at] > 0).collect();
    by_worker.sort_by_key(|&at| (s.worker[at], s.start[at]));
    for two in by_worker.windows(2) {
        let apart = s.worker[two[0]] != s.worker[two[1]] || end(two[0]) <= s.start[two[1]];
        assert!(apart, "{what}: {two:?} at once");
    }
    let makespan = (0..graph.len()).map(end).max().unwrap_or(0);
    assert_eq!(s.makespan, makespan, "{what}");
}

/// The shortest schedule: all orders of the strands, each begun as early as its order allows, but those that cannot be better
/// than the best so far.
struct Best<'g> {
    graph: &'g Graph,
    below: Vec<u64>,
    best: u64,
}

impl Best<'_> {
    fn of(graph: &Graph, n_workers: usize, at_most: u64) -> u64 {
        let mut below = graph.ns.clone();
        for s in (0..graph.len()).rev() {
            for &p in graph.after(s) {
                below[p as usize] = below[p as usize].max(graph.ns[p as usize] + below[s]);
            }
        }
        let mut search = Best { graph, below, best: at_most };
        let mut free = vec![0; n_workers];
        search.go(&mut vec![None; graph.len()], &mut free, graph.work(), 0);
        search.best
    }

    fn go(&mut self, end: &mut Vec<Option<u64>>, free: &mut Vec<u64>, left: u64, now: u64) {
        if end.iter().all(Option::is_some) {
            self.best = self.best.min(end.iter().flatten().copied().max().unwrap_or(0));
            return;
        }
        // What is left, spread evenly over the workers from when they are free.
        if (free.iter().sum::<u64>() + left).div_ceil(free.len() as u64) >= self.best {
            return;
        }
        for s in 0..end.len() {
            if end[s].is_some() {
                continue;
            }
            let needs: Option<Vec<u64>> =
                (self.graph.after(s).iter().map(|&p| end[p as usize])).collect();
            let Some(needs) = needs else { continue };
            let (worker, &at) = free.iter().enumerate().min_by_key(|f| f.1).unwrap();
            let start = needs.into_iter().fold(at, u64::max);
            // Begins in order of time: another order makes the same schedule.
            if start < now || start + self.below[s] >= self.best {
                continue;
            }
            let ns = self.graph.ns[s];
            end[s] = Some(start + ns);
            free[worker] = start + ns;
            self.go(end, free, left - ns, start);
            free[worker] = at;
            end[s] = None;
        }
    }
}

/// Each within Graham's 2 - 1/P of the best one, which is never below the bounds; the best list schedule is often the best.
#[test]
fn schedules_are_near_the_exhaustive_optimum() {
    let seed = 7;
    let mut rng = Rng::new(seed);
    let (mut n_best, mut n_worse) = (0, 0);
    for case in 0..120 {
        let n = 1 + rng.below(12);
        let graph = random(&mut rng, n, 10);
        for p in [1, 2, 3, 4] {
            let workers = Workers { n: p, transfer_ns: 0 };
            let all = Scheduler::ALL.map(|by| schedule(&graph, workers, by, case));
            let least = all.iter().map(|s| s.makespan).min().unwrap();
            let best = Best::of(&graph, p, least);
            let bound = graph.span().max(graph.work().div_ceil(p as u64));
            assert!(best >= bound && best <= least, "seed {seed} case {case}");
            for (by, s) in Scheduler::ALL.into_iter().zip(&all) {
                let what = format!("seed {seed} case {case} {by:?} on {p}");
                check(&graph, workers, s, &what);
                // makespan <= (2 - 1/p) best
                let within = s.makespan * p as u64 <= (2 * p as u64 - 1) * best;
                assert!(within, "{what}: {} of {best}", s.makespan);
            }
            n_best += u32::from(all[0].makespan == best);
            n_worse += u32::from(all[0].makespan > best);
        }
    }
    assert!(n_best > 400, "critical path first is the best {n_best} times of 480");
    assert!(n_worse > 0, "the search finds nothing that is better");
}

/// Larger graphs, with and without transfers: valid, and Brent's bound for those that leave no worker idle.
#[test]
fn schedules_of_larger_graphs_are_valid() {
    let seed = 8;
    let mut rng = Rng::new(seed);
    for case in 0..100 {
        let n = 1 + rng.below(300);
        let graph = random(&mut rng, n, 50);
        let (work, span) = (graph.work(), graph.span());
        for (p, transfer_ns) in [(1, 0), (2, 0), (7, 0), (64, 0), (3, 20), (16, 5)] {
            let workers = Workers { n: p, transfer_ns };
            for by in Scheduler::ALL {
                let what = format!("seed {seed} case {case} {by:?} on {p}, {transfer_ns} ns");
                let s = schedule(&graph, workers, by, case);
                check(&graph, workers, &s, &what);
                let cpus = p as u64;
                assert!(s.makespan >= span.max(work.div_ceil(cpus)), "{what}");
                if transfer_ns == 0 && by == Scheduler::Etf {
                    let cp = schedule(&graph, workers, Scheduler::Cp, case);
                    assert_eq!(s.makespan, cp.makespan, "{what}: all start at once");
                }
                if transfer_ns == 0 && by != Scheduler::Heft {
                    let most = work + span * (cpus - 1);
                    assert!(s.makespan * cpus <= most, "{what}: {}", s.makespan);
                }
            }
        }
    }
}

/// One long and three short strands after it on two workers: the long chain first, whatever stands first in the list.
#[test]
fn the_critical_path_goes_first() {
    let mut graph = Graph::default();
    for ns in [10, 10, 10, 30] {
        graph.push(ns, []);
    }
    let workers = Workers { n: 2, transfer_ns: 0 };
    for by in [Scheduler::Cp, Scheduler::Etf, Scheduler::Heft] {
        let s = schedule(&graph, workers, by, 0);
        assert_eq!((s.makespan, s.start[3]), (30, 0), "{by:?}");
    }
}

/// Two chains on two workers: with a costly transfer nobody changes the worker.
#[test]
fn a_transfer_keeps_chains_together() {
    let mut graph = Graph::default();
    let (a, b) = (graph.push(10, []), graph.push(10, []));
    let (c, d) = (graph.push(10, [b]), graph.push(10, [a]));
    let workers = Workers { n: 2, transfer_ns: 100 };
    for by in [Scheduler::Cp, Scheduler::DtMisf, Scheduler::Etf, Scheduler::Heft] {
        let s = schedule(&graph, workers, by, 0);
        let worker = |strand: u32| s.worker[strand as usize];
        assert_eq!(s.makespan, 20, "{by:?}");
        assert_eq!((worker(a), worker(b)), (worker(d), worker(c)), "{by:?}");
    }
}

/// A task that made another and joined it costs its own two strands, not what the other took between them; one that never ended has
/// no cost.
#[test]
fn costs_are_those_of_the_task_alone() {
    let mut input = Input::default();
    for (task, ns, after) in [(0, 10, vec![]), (1, 500, vec![0]), (0, 30, vec![1]), (2, 7, vec![])]
    {
        input.graph.push(ns, after);
        input.task.push(task);
    }
    for id in [40, 41, 42] {
        input.tasks.push(Recorded {
            id,
            start_ns: Some(0),
            end_ns: (id != 42).then_some(900),
            ..Recorded::default()
        });
    }
    assert_eq!(input.costs(), [(40, 40), (41, 500)]);
}
