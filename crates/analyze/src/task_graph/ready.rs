//! When each task could have started: from its creation to its first run it waits for the tasks that it depends on, and
//! then, ready, for a worker.
use super::teams::Implicit;
use kasuri_model::{SliceKind, Task, TaskEdgeKind, ThreadIx, Time, Trace};
use std::collections::HashMap;

/// Time between a task's creation and its first run, ns: of one task, or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queued {
    /// Until the last task that it depends on had ended.
    pub waiting_ns: i64,
    /// From then on, until a worker ran it.
    pub ready_ns: i64,
}

/// The sum over all tasks whose creation and first run were seen.
pub(crate) fn queued(trace: &Trace) -> Queued {
    let mut out = Queued::default();
    for one in queued_by_task(trace).into_iter().flatten() {
        // Stamps may be anything: a program that misbehaves has tasks that wait for centuries.
        out.waiting_ns = out.waiting_ns.saturating_add(one.waiting_ns);
        out.ready_ns = out.ready_ns.saturating_add(one.ready_ns);
    }
    out
}

/// By task; none when its creation or its first run was not seen.
pub fn queued_by_task(trace: &Trace) -> Vec<Option<Queued>> {
    let edges = &trace.task_edges;
    let mut ready: Vec<Time> = trace.tasks.iter().map(|t| t.created).collect();
    for row in (0..edges.kind.len()).filter(|&row| edges.kind[row] == TaskEdgeKind::Depends) {
        let ready = &mut ready[edges.task[row].ix()];
        *ready = (*ready).max(trace.tasks[edges.on[row].ix()].ended);
    }
    (trace.tasks.iter().zip(ready))
        .map(|(task, ready)| {
            if task.created == Time::MIN || task.started == Time::MAX {
                return None;
            }
            // Stamps of two CPUs, a wrong dependence: it started before it was created, or ready.
            let started = task.started.max(task.created);
            let ready = ready.min(started);
            Some(Queued {
                waiting_ns: (ready - task.created).ns(),
                ready_ns: (started - ready).ns(),
            })
        })
        .collect()
}

/// Dependences in numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Depends {
    /// Their number.
    pub count: u64,
    /// Those whose task started before the other had ended.
    pub early: u64,
}

/// Counts them.
pub fn depends(trace: &Trace) -> Depends {
    let edges = &trace.task_edges;
    let mut out = Depends::default();
    for row in (0..edges.kind.len()).filter(|&row| edges.kind[row] == TaskEdgeKind::Depends) {
        let (task, on) = (edges.task[row], edges.on[row]);
        let started = trace.tasks[task.ix()].started;
        out.count += 1;
        out.early += u64::from(started != Time::MAX && started < trace.tasks[on.ix()].ended);
    }
    out
}

/// Joins and barriers outside of tasks that end between the creations of tasks that have no parent, on the thread that creates
/// them; without those in code that the graph has.
pub(super) fn waits_outside(trace: &Trace, known: &[Implicit]) -> u64 {
    let mut creates: HashMap<ThreadIx, (Time, Time)> = HashMap::new();
    let of_nobody = |t: &&Task| !t.parent.is_some() && t.creator.is_some();
    for task in trace.tasks.iter().filter(of_nobody) {
        let seen = creates.entry(task.creator);
        let (first, last) = seen.or_insert((task.created, task.created));
        (*first, *last) = ((*first).min(task.created), (*last).max(task.created));
    }
    // Of each thread in the order of their beginnings.
    let mut known_of: HashMap<ThreadIx, Vec<(Time, Time)>> = HashMap::new();
    for of in known {
        known_of.entry(of.thread).or_default().push((of.start, of.end));
    }
    let s = &trace.slices;
    let mut waits = 0;
    for (thread, (first, last)) in creates {
        let mut run_ends = Time::MIN;
        let known = known_of.get(&thread).map_or(&[][..], |known| known);
        let (mut next, mut known_until) = (0, Time::MIN);
        let rows = trace.threads[thread.ix()].slices.clone();
        for row in rows.start as usize..rows.end as usize {
            while let Some((_, end)) = known.get(next).filter(|of| of.0 <= s.start[row]) {
                known_until = known_until.max(*end);
                next += 1;
            }
            match s.kind[row] {
                SliceKind::TaskRun => run_ends = run_ends.max(s.end[row]),
                SliceKind::Join | SliceKind::Barrier => {
                    let is_between = (first..=last).contains(&s.end[row]);
                    let is_outside = s.start[row] >= run_ends && s.start[row] >= known_until;
                    waits += u64::from(is_between && is_outside);
                }
                _ => {}
            }
        }
    }
    waits
}
