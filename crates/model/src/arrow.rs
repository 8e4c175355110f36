//! Arrows between threads: the program's own flows, from a task's creation to its first run, and from the end of a task to the
//! first run of one that depends on it.
//!
//! Exports treat all kinds alike, so all come as [`Arrow`] with ids that are unique in the recording: formats such as Chrome's and Perfetto's pair
//! the two ends of an arrow by id.
use crate::{SliceKind, StrIx, TaskEdgeKind, ThreadIx, Time, Trace};

/// One arrow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arrow {
    /// Unique in the recording; the program's own flow ids may repeat.
    pub id: u64,
    /// Its name.
    pub name: StrIx,
    /// Tail.
    pub from: (Time, ThreadIx),
    /// Head.
    pub to: (Time, ThreadIx),
}

/// Every arrow whose two ends are known: first the flows, which have both, then the tasks that have, then the dependences
/// (named as the task that had to end), unless the dependent task started first.
pub fn arrows(trace: &Trace) -> impl Iterator<Item = Arrow> + '_ {
    let flows = (0..trace.flows.id.len()).map(|i| Arrow {
        id: i as u64 + 1,
        name: trace.flows.name[i],
        from: (trace.flows.from_time[i], trace.flows.from_thread[i]),
        to: (trace.flows.to_time[i], trace.flows.to_thread[i]),
    });
    let (runs, last) = (first_runs(trace), last_runs(trace));
    let edges = &trace.task_edges;
    let first_task_id = trace.flows.id.len() as u64 + 1;
    let first_edge_id = first_task_id + trace.tasks.len() as u64;
    let depends: Vec<Arrow> = (0..edges.kind.len())
        .filter(|&row| edges.kind[row] == TaskEdgeKind::Depends)
        .filter_map(|row| {
            let (from, to) = (last[edges.on[row].ix()]?, runs[edges.task[row].ix()]?);
            (from.0 <= to.0).then_some(Arrow {
                id: first_edge_id + row as u64,
                name: trace.tasks[edges.on[row].ix()].name,
                from,
                to,
            })
        })
        .collect();
    let tasks = trace.tasks.iter().enumerate().filter_map(move |(i, task)| {
        let to = runs[i]?;
        (task.created != Time::MIN && task.creator.is_some()).then_some(Arrow {
            id: first_task_id + i as u64,
            name: task.name,
            from: (task.created, task.creator),
            to,
        })
    });
    flows.chain(tasks).chain(depends)
}

/// When and where each task that others depend on last ran, if it ended.
fn last_runs(trace: &Trace) -> Vec<Option<(Time, ThreadIx)>> {
    let mut runs: Vec<Option<(Time, ThreadIx)>> = Vec::new();
    if trace.task_edges.kind.is_empty() {
        return runs;
    }
    runs.resize(trace.tasks.len(), None);
    for (i, &kind) in trace.slices.kind.iter().enumerate() {
        let task = trace.slices.task[i];
        if kind == SliceKind::TaskRun && task.is_some() && trace.tasks[task.ix()].ended != Time::MAX
        {
            let run = (trace.slices.end[i], trace.slices.thread[i]);
            let last = runs[task.ix()].get_or_insert(run);
            if run.0 > last.0 {
                *last = run;
            }
        }
    }
    runs
}

/// When and where each task first ran.
fn first_runs(trace: &Trace) -> Vec<Option<(Time, ThreadIx)>> {
    let mut runs: Vec<Option<(Time, ThreadIx)>> = vec![None; trace.tasks.len()];
    if trace.tasks.is_empty() {
        return runs;
    }
    for (i, &kind) in trace.slices.kind.iter().enumerate() {
        let task = trace.slices.task[i];
        if kind == SliceKind::TaskRun && task.is_some() {
            let run = (trace.slices.start[i], trace.slices.thread[i]);
            let first = runs[task.ix()].get_or_insert(run);
            if run.0 < first.0 {
                *first = run;
            }
        }
    }
    runs
}
