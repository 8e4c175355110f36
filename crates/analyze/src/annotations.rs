//! Annotated slices by name, waits by object, tasks.
//!
//! A slice counts where it touches the range, with its part inside the range. *Self* time is a slice's time without the slices
//! directly inside it; critical sections may cross the borders of work slices, so they are not subtracted. Times on a CPU come
//! from the thread's states (`on_cpu`) and are absent where the scheduler's events were not recorded.
use crate::cut::{Cut, percentile};
use crate::on_cpu::OnCpu;
use crate::{AnnotationSummary, SwitchedOffSummary, TaskSummary, WaitSummary, task_graph};
use kasuri_base::quick::Numbers;
use kasuri_model::{ProcessIx, SliceKind, StrIx, ThreadIx, Time, open};
use std::collections::HashMap;

/// The word for a kind of slice in tables and JSON.
pub fn kind_name(kind: SliceKind) -> &'static str {
    match kind {
        SliceKind::Work => "work",
        SliceKind::Barrier => "barrier",
        SliceKind::Join => "join",
        SliceKind::Cond => "cond",
        SliceKind::Io => "io",
        SliceKind::OtherWait => "wait",
        SliceKind::LockWait => "lock_wait",
        SliceKind::LockHold => "lock_hold",
        SliceKind::TaskRun => "task",
    }
}

/// The call that a slice of this name stands for: one that waited in the kernel while another kernel thread ran ito's worker
/// (threads/src/seen/trace.c).
pub fn handed_over_in(name: &str) -> Option<&str> {
    name.strip_prefix("handed over: ")
}

/// What a slice of this name says that a light thread was tied to a kernel thread for, from its beginning on
/// (threads/pthread/told.c).
pub fn pinned_for(name: &str) -> Option<&str> {
    name.strip_prefix("pinned: ")
}

/// Why a program that asked for light threads has none, in a slice without length (same file).
pub fn no_light_threads(name: &str) -> Option<&str> {
    name.strip_prefix("no light threads: ")
}

const KINDS: usize = 9;

/// Sums for one name and kind, or one object.
#[derive(Default)]
struct Group {
    lengths: Vec<i64>,
    total_ns: i64,
    children_ns: i64,
    on_cpu_ns: i64,
    open: u64,
    threads: u32,
    last_thread: ThreadIx,
}

impl Group {
    fn add(&mut self, thread: ThreadIx, ns: i64, on_cpu_ns: i64, open: bool) {
        self.lengths.push(ns);
        self.total_ns += ns;
        self.on_cpu_ns += on_cpu_ns;
        self.open += u64::from(open);
        // Slices come sorted by thread.
        self.threads += u32::from(self.last_thread != thread);
        self.last_thread = thread;
    }
}

/// Rows of the annotations table, most time first.
pub(crate) fn annotations(cut: &Cut<'_>, knows_switches: bool) -> Vec<AnnotationSummary> {
    let trace = cut.trace;
    let mut of_name = vec![u32::MAX; trace.strings.len() * KINDS];
    let mut groups: Vec<(StrIx, SliceKind, Group)> = Vec::new();
    for thread in cut.threads().filter(|t| cut.is_shown(*t)) {
        by_thread(cut, thread, &mut of_name, &mut groups);
    }
    let mut out: Vec<AnnotationSummary> = groups
        .into_iter()
        .map(|(name, kind, mut group)| AnnotationSummary {
            name: trace.strings.get(name).into(),
            place: trace.places.get(&name).cloned(),
            kind: kind_name(kind),
            count: group.lengths.len() as u64,
            threads: group.threads,
            total_ns: group.total_ns,
            self_ns: group.total_ns - group.children_ns,
            on_cpu_ns: knows_switches.then_some(group.on_cpu_ns),
            mean_ns: group.total_ns as f64 / group.lengths.len().max(1) as f64,
            p50_ns: percentile(&mut group.lengths, 50),
            p99_ns: percentile(&mut group.lengths, 99),
            max_ns: group.lengths.iter().copied().max().unwrap_or(0),
            open: group.open,
        })
        .collect();
    out.sort_by(|a, b| {
        b.total_ns.cmp(&a.total_ns).then_with(|| (&a.name, a.kind).cmp(&(&b.name, b.kind)))
    });
    out
}

/// Rows of what was switched off until the range's end, most slices first.
pub(crate) fn switched_off(cut: &Cut<'_>) -> Vec<SwitchedOffSummary> {
    let trace = cut.trace;
    let off = kasuri_model::switched_off::switched_off(trace);
    let mut counts: HashMap<(ProcessIx, StrIx), u64> =
        off.iter().map(|o| ((o.process, o.name), 0)).collect();
    if counts.is_empty() {
        return Vec::new();
    }
    let s = &trace.slices;
    for row in 0..s.start.len() {
        let process = trace.threads[s.thread[row].ix()].process;
        if s.kind[row] == SliceKind::Work
            && cut.touches(s.start[row], s.end[row])
            && let Some(n) = counts.get_mut(&(process, s.name[row]))
        {
            *n += 1;
        }
    }
    let mut out: Vec<SwitchedOffSummary> = off
        .iter()
        .filter(|o| o.at.is_none_or(|at| at < cut.to))
        .map(|o| SwitchedOffSummary {
            name: trace.strings.get(o.name).into(),
            place: trace.places.get(&o.name).cloned(),
            pid: trace.processes[o.process.ix()].pid,
            count: counts[&(o.process, o.name)],
            mean_ns: o.mean_ns,
            off_ns: o.at.map(Time::ns),
        })
        .collect();
    out.sort_by(|a, b| (b.count, &a.name, a.pid).cmp(&(a.count, &b.name, b.pid)));
    out
}

fn by_thread(
    cut: &Cut<'_>,
    thread: ThreadIx,
    of_name: &mut [u32],
    groups: &mut Vec<(StrIx, SliceKind, Group)>,
) {
    let s = &cut.trace.slices;
    let mut on_cpu = OnCpu::new(cut.trace, thread);
    let rows = cut.trace.threads[thread.ix()].slices.clone();
    let first = rows.start as usize;
    // Group of each of the thread's slices, for what is inside it.
    let mut group_of: Vec<u32> = Vec::with_capacity(rows.len());
    for row in rows.start as usize..rows.end as usize {
        let (start, end, kind) = (s.start[row], s.end[row], s.kind[row]);
        if !cut.touches(start, end) {
            group_of.push(u32::MAX);
            continue;
        }
        let slot = &mut of_name[s.name[row].ix().min(cut.trace.strings.len().saturating_sub(1))
            * KINDS
            + kind as usize];
        if *slot == u32::MAX {
            *slot = groups.len() as u32;
            groups.push((s.name[row], kind, Group::default()));
        }
        group_of.push(*slot);
        let ns = cut.overlap(start, end);
        let cpu_ns = on_cpu.within(start.max(cut.from), end.min(cut.to));
        groups[*slot as usize].2.add(thread, ns, cpu_ns, s.open[row] & !open::SHARED != 0);
        // Critical sections cross work slices: their time is not subtracted from any slice's own time.
        let parent = s.parent[row];
        if kind != SliceKind::LockHold
            && parent.is_some()
            && let Some(&group) = parent.ix().checked_sub(first).and_then(|ix| group_of.get(ix))
            && group != u32::MAX
        {
            groups[group as usize].2.children_ns += ns;
        }
    }
}

/// Waits and critical sections by process, kind and object, most time first.
pub(crate) fn waits(cut: &Cut<'_>) -> Vec<WaitSummary> {
    let trace = cut.trace;
    let s = &trace.slices;
    let mut keys: Numbers<(u32, SliceKind, u64)> = Numbers::default();
    let mut groups: Vec<(StrIx, Group)> = Vec::new();
    for row in 0..s.start.len() {
        let (kind, thread) = (s.kind[row], s.thread[row]);
        let is_wait = !matches!(kind, SliceKind::Work | SliceKind::TaskRun);
        if !is_wait || !cut.is_shown(thread) || !cut.touches(s.start[row], s.end[row]) {
            continue;
        }
        let key = (trace.threads[thread.ix()].process.0, kind, s.object[row]);
        let at = keys.number(key) as usize;
        if at == groups.len() {
            groups.push((s.name[row], Group::default()));
        }
        groups[at].1.add(thread, cut.overlap(s.start[row], s.end[row]), 0, false);
    }
    let mut out: Vec<WaitSummary> = (keys.keys().iter().zip(groups))
        .map(|(&(process, kind, object), (name, mut group))| WaitSummary {
            kind: kind_name(kind),
            name: trace.strings.get(name).into(),
            pid: trace.processes[process as usize].pid,
            object,
            count: group.lengths.len() as u64,
            threads: group.threads,
            total_ns: group.total_ns,
            p50_ns: percentile(&mut group.lengths, 50),
            p99_ns: percentile(&mut group.lengths, 99),
            max_ns: group.lengths.iter().copied().max().unwrap_or(0),
        })
        .collect();
    out.sort_by_key(|w| (std::cmp::Reverse(w.total_ns), w.kind, w.object, w.pid));
    out
}

/// Totals over the annotated tasks.
pub(crate) fn tasks(cut: &Cut<'_>) -> TaskSummary {
    let trace = cut.trace;
    let s = &trace.slices;
    let ended = trace.tasks.iter().filter(|t| t.ended != Time::MAX);
    let queued = task_graph::queued(trace);
    let folded = &trace.folded_tasks;
    let in_ended = (folded.task.iter().zip(&folded.count))
        .filter(|(task, _)| trace.tasks[task.ix()].ended != Time::MAX)
        .fold(0u64, |sum, (_, n)| sum.saturating_add(*n));
    let recorded = trace.tasks.iter().filter(|t| !t.is_point).count() as u64;
    let mut out = TaskSummary {
        count: recorded.saturating_add(folded.total()),
        ended: in_ended.saturating_add(ended.count() as u64),
        folded: folded.total(),
        queued_ns: queued.waiting_ns.saturating_add(queued.ready_ns),
        ..TaskSummary::default()
    };
    let mut runs: Vec<(u32, Time, ThreadIx)> = Vec::new();
    let mut covered = (ThreadIx::NONE, Time::MIN);
    for row in (0..s.start.len()).filter(|&row| s.kind[row] == SliceKind::TaskRun) {
        if !cut.touches(s.start[row], s.end[row]) {
            continue;
        }
        if covered.0 != s.thread[row] {
            covered = (s.thread[row], Time::MIN);
        }
        out.runs += 1;
        out.run_ns += cut.overlap(s.start[row].max(covered.1), s.end[row]);
        covered.1 = covered.1.max(s.end[row]);
        runs.push((s.task[row].0, s.start[row], s.thread[row]));
    }
    runs.sort_unstable_by_key(|r| (r.0, r.1));
    out.moved = runs.windows(2).filter(|p| p[0].0 == p[1].0 && p[0].2 != p[1].2).count() as u64;
    out.graph = task_graph::task_graph(cut, queued);
    out
}
