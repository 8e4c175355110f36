//! A [`Program`] in a few numbers: what the analytical models need.
use crate::models::{Load, workspan::Graph};
use crate::program::{Program, Step};

/// The average round of a worker: what it does from one acquisition to the next. Without locks, all it does.
pub fn load(program: &Program) -> Load {
    let holds = program.hold_ns();
    let n: u64 = program.acquisitions().iter().sum();
    let n_threads = program.workers().max(1);
    let rounds = if n == 0 { n_threads as f64 } else { n as f64 };
    let outside = program.work_ns().saturating_sub(program.inside_ns());
    Load {
        n_threads,
        compute: outside as f64 / rounds,
        delay: program.delay_ns() as f64 / rounds,
        holds: holds
            .iter()
            .filter(|&&h| h > 0)
            .map(|&h| h as f64 / rounds)
            .collect(),
    }
}

/// The program's parts between waits for each other as a graph; locks are left out, delays count as time.
pub fn graph(program: &Program) -> Graph {
    #[derive(Clone, Default)]
    struct Open {
        time: f64,
        after: Vec<u32>,
    }
    let n = program.scripts.len();
    let mut graph = Graph::default();
    let mut open = vec![Open::default(); n];
    let mut pc = vec![0; n];
    let mut posted: Vec<Option<u32>> = vec![None; program.n_events as usize];
    let mut arrived: Vec<Vec<usize>> = vec![Vec::new(); program.rounds.len()];
    // Threads that stand at a barrier.
    let mut stands = vec![false; n];
    let close = |graph: &mut Graph, open: &mut Open| {
        let task = graph.task(open.time, std::mem::take(&mut open.after));
        *open = Open {
            time: 0.0,
            after: vec![task],
        };
        task
    };
    let mut moved = true;
    while moved {
        moved = false;
        for thread in 0..n {
            while !stands[thread]
                && let Some(&step) = program.scripts[thread].steps.get(pc[thread])
            {
                match step {
                    Step::Compute(ns) | Step::Delay(ns) => open[thread].time += ns as f64,
                    Step::Post(event) => {
                        posted[event as usize] = Some(close(&mut graph, &mut open[thread]))
                    }
                    Step::Wait(event) => {
                        let Some(task) = posted[event as usize] else {
                            break;
                        };
                        close(&mut graph, &mut open[thread]);
                        open[thread].after.push(task);
                    }
                    Step::Barrier(round) => {
                        let all = program.rounds[round as usize] as usize;
                        let here = &mut arrived[round as usize];
                        here.push(thread);
                        stands[thread] = true;
                        if here.len() == all {
                            let here = std::mem::take(here);
                            let tasks: Vec<u32> = here
                                .iter()
                                .map(|&t| close(&mut graph, &mut open[t]))
                                .collect();
                            for &t in &here {
                                open[t].after = tasks.clone();
                                stands[t] = false;
                                pc[t] += usize::from(t != thread);
                            }
                            stands[thread] = false;
                        }
                        if stands[thread] {
                            moved = true;
                            break;
                        }
                    }
                    Step::Acquire(..) | Step::Release(_) => {}
                }
                pc[thread] += 1;
                moved = true;
            }
        }
    }
    for thread in open {
        graph.task(thread.time, thread.after);
    }
    graph
}
