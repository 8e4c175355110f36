//! Owners of locks other than threads, sources of lock events, and waits for things that are not locks.
//!
//! A task may take a lock on one thread and give it back on another, so it is an owner of its own. Tasks are summed by name
//! and process, since a program may have millions. Their CPU time is that of their runs, without the runs of other tasks
//! that their thread did inside them.
use super::answer::{TaskRow, Use, WaitRow};
use super::holds::{Acquisition, LockKey, Owner, Reader, States};
use crate::cut::Cut;
use kasuri_model::{LockKind, ProcessIx, SliceKind, StrIx, TaskIx, Trace};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// All tasks of one name in one process.
type Named = (ProcessIx, StrIx);

/// Tasks that took locks, by name.
pub(super) fn tasks(cut: &Cut<'_>, all: &[Acquisition]) -> Vec<TaskRow> {
    let trace = cut.trace;
    let mut rows: BTreeMap<Named, (Use, Vec<i64>, BTreeSet<TaskIx>)> = BTreeMap::new();
    for a in all.iter().filter(|a| a.task.is_some()) {
        let task = &trace.tasks[a.task.ix()];
        let row = rows.entry((task.process, task.name)).or_default();
        row.0.add(a);
        row.1.extend(a.hold_ns());
        row.2.insert(a.task);
    }
    if rows.is_empty() {
        return Vec::new();
    }
    let cpu = cpu_of_tasks(cut);
    let mut out: Vec<TaskRow> = rows
        .into_iter()
        .map(|(key, (mut used, mut lengths, tasks))| {
            used.finish(&mut lengths, cpu.get(&key).copied().unwrap_or(0));
            TaskRow {
                name: trace.strings.get(key.1).into(),
                pid: trace.processes[key.0.ix()].pid,
                tasks: tasks.len() as u32,
                used,
            }
        })
        .collect();
    out.sort_by_key(|t| Reverse((t.used.wait_ns, t.used.hold_cpu_ns)));
    out
}

/// CPU time of each name's tasks: of their runs, without the runs of others inside them.
fn cpu_of_tasks(cut: &Cut<'_>) -> HashMap<Named, i64> {
    let trace = cut.trace;
    let s = &trace.slices;
    let mut out: HashMap<Named, i64> = HashMap::new();
    for thread in cut.threads().filter(|&t| cut.is_shown(t)) {
        let states = States::new(trace, thread);
        let rows = trace.threads[thread.ix()].slices.clone();
        let mut open: Vec<(u16, Named)> = Vec::new();
        for row in rows.start as usize..rows.end as usize {
            if s.kind[row] != SliceKind::TaskRun || !s.task[row].is_some() {
                continue;
            }
            // Depths of those open grow inwards.
            while open.last().is_some_and(|o| o.0 >= s.depth[row]) {
                open.pop();
            }
            let (from, to) = (s.start[row].max(cut.from), s.end[row].min(cut.to));
            let ns = if from < to { states.within(from, to)[0] } else { 0 };
            let task = &trace.tasks[s.task[row].ix()];
            let key = (task.process, task.name);
            if let Some((_, around)) = open.last() {
                *out.entry(*around).or_default() -= ns;
            }
            *out.entry(key).or_default() += ns;
            open.push((s.depth[row], key));
        }
    }
    out
}

/// Waits for conditions, barriers, semaphores, ends of threads, by place and object.
pub(super) fn waits(cut: &Cut<'_>) -> Vec<WaitRow> {
    let trace = cut.trace;
    let spans = Reader::new(cut, |kind| kind_of_wait(kind).is_some()).all();
    let mut rows: BTreeMap<(LockKey, SliceKind, StrIx), (WaitRow, BTreeSet<Owner>)> =
        BTreeMap::new();
    for span in spans {
        let row = rows.entry((span.lock, span.kind, span.name)).or_default();
        let ns = (span.to - span.from).ns();
        row.0.count += 1;
        row.0.wait_ns += ns;
        row.0.wait_max_ns = row.0.wait_max_ns.max(ns);
        row.1.insert(span.owner);
    }
    let mut out: Vec<WaitRow> = rows
        .into_iter()
        .map(|(((process, object), kind, name), (row, owners))| WaitRow {
            kind: kind_of_wait(kind).unwrap_or_default(),
            place: trace.strings.get(name).trim_start_matches('&').into(),
            pid: trace.processes[process.ix()].pid,
            object,
            threads: owners.len() as u32,
            ..row
        })
        .collect();
    out.sort_by_key(|w| Reverse((w.wait_ns, w.count)));
    out
}

fn kind_of_wait(kind: SliceKind) -> Option<&'static str> {
    match kind {
        SliceKind::Barrier => Some("barrier"),
        SliceKind::Join => Some("join"),
        SliceKind::Cond => Some("condition"),
        SliceKind::Io => Some("I/O"),
        SliceKind::OtherWait => Some("other"),
        _ => None,
    }
}

/// A lock's kind, and the source of its events.
pub(super) fn kind_and_source(trace: &Trace, lock: LockKey) -> (&'static str, &'static str) {
    let Some(ix) = trace.lock_of(lock.0, lock.1, kasuri_model::Time::MAX) else {
        return ("lock", "annotation");
    };
    let lock = &trace.locks[ix.ix()];
    (word_of(lock.kind), lock.source.word())
}

fn word_of(kind: LockKind) -> &'static str {
    match kind {
        LockKind::Mutex => "mutex",
        LockKind::Adaptive => "adaptive mutex",
        LockKind::Recursive => "recursive mutex",
        LockKind::ErrorCheck => "errorcheck mutex",
        LockKind::RwLock => "rwlock",
        LockKind::Spin => "spin lock",
        LockKind::Other => "lock",
    }
}
