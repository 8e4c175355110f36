//! The kernel's side of waiting: system calls by process, the kernel's own locks by type and caller, futex waits that no lock explains.
//!
//! The first two come from spans that are recorded only when asked for. A futex wait that overlaps no
//! annotated wait of its thread is one for a lock that the probe does not see: the answer gives their sum, so that a
//! program with locks of its own does not look as if it had none.
use super::answer::{KernelLockRow, SyscallRow};
use super::holds::StatesOf;
use crate::cut::Cut;
use kasuri_model::{KernelSpanKind, ProcessIx, SliceKind, StrIx, ThreadIx, Time};
use std::cmp::Reverse;
use std::collections::HashMap;

/// Rows of the shown threads' spans of a kind that touch the range.
fn rows<'c>(cut: &'c Cut<'_>, kind: KernelSpanKind) -> impl Iterator<Item = usize> + 'c {
    let k = &cut.trace.kernel_spans;
    (0..k.start.len()).filter(move |&row| {
        k.kind[row] == kind
            && k.thread[row].is_some()
            && cut.is_shown(k.thread[row])
            && cut.touches(k.start[row], k.end[row])
    })
}

/// System calls by process and call, most CPU time first.
pub(super) fn syscalls(cut: &Cut<'_>) -> Vec<SyscallRow> {
    let (trace, k) = (cut.trace, &cut.trace.kernel_spans);
    let mut states = StatesOf::new(trace);
    let mut sums: HashMap<(ProcessIx, StrIx), SyscallRow> = HashMap::new();
    for row in rows(cut, KernelSpanKind::Syscall) {
        let thread = k.thread[row];
        let process = trace.threads[thread.ix()].process;
        let sum = sums.entry((process, k.name[row])).or_insert_with(|| {
            let info = &trace.processes[process.ix()];
            SyscallRow {
                process: trace.strings.get(info.name).into(),
                pid: info.pid,
                name: trace.strings.get(k.name[row]).into(),
                ..SyscallRow::default()
            }
        });
        let ns = cut.overlap(k.start[row], k.end[row]);
        sum.count += 1;
        sum.wall_ns += ns;
        sum.cpu_ns += states.on_cpu(cut, thread, k.start[row], k.end[row]);
        sum.max_ns = sum.max_ns.max(ns);
    }
    let mut out: Vec<SyscallRow> = sums.into_values().collect();
    out.sort_by(|a, b| {
        (Reverse((a.cpu_ns, a.wall_ns)), a.pid, &a.name).cmp(&(
            Reverse((b.cpu_ns, b.wall_ns)),
            b.pid,
            &b.name,
        ))
    });
    out
}

/// Waits for the kernel's own locks by type and caller, most waited for first. The caller is the system call that the thread was in.
pub(super) fn kernel_locks(cut: &Cut<'_>) -> Vec<KernelLockRow> {
    let (trace, k) = (cut.trace, &cut.trace.kernel_spans);
    let mut calls: HashMap<ThreadIx, Vec<(Time, Time, StrIx)>> = HashMap::new();
    for row in rows(cut, KernelSpanKind::Syscall) {
        let call = (k.start[row], k.end[row], k.name[row]);
        calls.entry(k.thread[row]).or_default().push(call);
    }
    calls.values_mut().for_each(|calls| calls.sort_unstable());
    let caller_at = |thread: ThreadIx, time: Time| {
        let calls = calls.get(&thread)?;
        let before = calls.partition_point(|c| c.0 <= time).checked_sub(1)?;
        (time < calls[before].1).then_some(calls[before].2)
    };
    let mut sums: HashMap<(StrIx, StrIx), KernelLockRow> = HashMap::new();
    for row in rows(cut, KernelSpanKind::LockContention) {
        let caller = caller_at(k.thread[row], k.start[row]).unwrap_or_default();
        let sum = sums.entry((k.name[row], caller)).or_insert_with(|| KernelLockRow {
            kind: trace.strings.get(k.name[row]).into(),
            caller: trace.strings.get(caller).into(),
            ..KernelLockRow::default()
        });
        let ns = cut.overlap(k.start[row], k.end[row]);
        sum.count += 1;
        sum.wait_ns += ns;
        sum.max_ns = sum.max_ns.max(ns);
    }
    let mut out: Vec<KernelLockRow> = sums.into_values().collect();
    out.sort_by(|a, b| {
        (Reverse(a.wait_ns), &a.kind, &a.caller).cmp(&(Reverse(b.wait_ns), &b.kind, &b.caller))
    });
    out
}

/// Time asleep in futex calls outside all waits that a probe or an annotation reported: locks that no probe sees.
/// `None`: system calls were not recorded.
pub(super) fn unseen_futex_ns(cut: &Cut<'_>) -> Option<i64> {
    let (trace, k) = (cut.trace, &cut.trace.kernel_spans);
    rows(cut, KernelSpanKind::Syscall).next()?;
    let is_futex: Vec<bool> = (0..trace.strings.len())
        .map(|ix| trace.strings.get(StrIx(ix as u32)).starts_with("futex"))
        .collect();
    let mut states = StatesOf::new(trace);
    let mut total = 0;
    for row in rows(cut, KernelSpanKind::Syscall).filter(|&r| is_futex[k.name[r].0 as usize]) {
        let thread = k.thread[row];
        let (from, to) = (k.start[row].max(cut.from), k.end[row].min(cut.to));
        if is_explained(cut, thread, from, to) {
            continue;
        }
        total += (to - from).ns() - states.on_cpu(cut, thread, from, to);
    }
    Some(total)
}

/// Whether a recorded wait of the thread overlaps the call.
fn is_explained(cut: &Cut<'_>, thread: ThreadIx, from: Time, to: Time) -> bool {
    let s = &cut.trace.slices;
    let rows = cut.trace.threads[thread.ix()].slices.clone();
    let (first, last) = (rows.start as usize, rows.end as usize);
    let before = first + s.start[first..last].partition_point(|&start| start < to);
    // A wait is short beside what encloses it: it began not many slices before.
    (first..before).rev().take(64).any(|row| {
        s.end[row] > from
            && matches!(
                s.kind[row],
                SliceKind::Barrier
                    | SliceKind::Join
                    | SliceKind::Cond
                    | SliceKind::OtherWait
                    | SliceKind::LockWait
            )
    })
}
