//! Every move of a thread to another CPU: from, to, why, and how long it was off a CPU around the move.
//!
//! The kernel's event does not give a reason. The events around it do:
//!
//! - `wake-up`: the thread had just been woken, and its waker chose another CPU than its last (the model keeps that in
//!   the woken row, docs/design/states.md).
//! - `balance`: it was waiting in one CPU's queue, and another CPU took it.
//! - A running thread can be moved only by the stopper of its CPU (the kernel thread `migration/N`), which takes the CPU
//!   from it first. The waker of the stopper gives the reason: the thread itself, or another thread of the program on a CPU other
//!   than the new one: `affinity` (also what the kernel does at exec); the CPU that gets the thread: `balance`.
//! - `unknown`: none of these; and every move, where the recording has no event for moves and shows them only by the CPU a thread comes on (perf).
use crate::cut::Cut;
use crate::{Migration, MigrationGroup};
use kasuri_model::{StateRow, ThreadIx, ThreadState, Time};
use std::cmp::Reverse;
use std::collections::HashMap;

/// The moves of the shown threads in time order.
pub(crate) fn migrations(cut: &Cut<'_>) -> Vec<Migration> {
    let moves = &cut.trace.migrations;
    let mut of_thread: HashMap<ThreadIx, Vec<usize>> = HashMap::new();
    for ix in 0..moves.time.len() {
        let thread = moves.thread[ix];
        if thread.is_some() && cut.is_shown(thread) && cut.contains(moves.time[ix]) {
            of_thread.entry(thread).or_default().push(ix);
        }
    }
    let stoppers = Stoppers::new(cut, !of_thread.is_empty());
    let mut out: Vec<(usize, Migration)> = Vec::new();
    for (thread, rows) in of_thread {
        let states: Vec<StateRow> = cut.trace.states_of(thread).collect();
        let info = &cut.trace.threads[thread.ix()];
        for ix in rows {
            let (time, to) = (moves.time[ix], moves.to_cpu[ix]);
            let around = Around::new(&states, time);
            let row = Migration {
                time_ns: time.ns(),
                tid: info.tid,
                thread: cut.trace.strings.get(info.name).into(),
                from_cpu: moves.from_cpu[ix],
                to_cpu: to,
                why: around.reason(cut, &stoppers, thread, to),
                off_cpu_ns: around.off_cpu_ns(),
            };
            out.push((ix, row));
        }
    }
    out.sort_by_key(|(ix, _)| *ix);
    out.into_iter().map(|(_, row)| row).collect()
}

/// By thread and cause, most time off a CPU first.
pub(crate) fn groups(moves: &[Migration]) -> Vec<MigrationGroup> {
    let mut groups: HashMap<(i32, &'static str), MigrationGroup> = HashMap::new();
    let mut ways: HashMap<(i32, &'static str, u16, u16), u64> = HashMap::new();
    for m in moves {
        let group = groups
            .entry((m.tid, m.why))
            .or_insert_with(|| MigrationGroup {
                tid: m.tid,
                thread: m.thread.clone(),
                why: m.why,
                ..MigrationGroup::default()
            });
        let off = m.off_cpu_ns.unwrap_or(0);
        group.count += 1;
        group.off_cpu_ns += off;
        group.longest_ns = group.longest_ns.max(off);
        let way = ways
            .entry((m.tid, m.why, m.from_cpu, m.to_cpu))
            .or_default();
        *way += 1;
        // Of equals the first to get there stays: an order that depends on the trace alone.
        if *way > group.way_count {
            (group.from_cpu, group.to_cpu, group.way_count) = (m.from_cpu, m.to_cpu, *way);
        }
    }
    let mut out: Vec<MigrationGroup> = groups.into_values().collect();
    out.sort_by_key(|g| (Reverse(g.off_cpu_ns), Reverse(g.count), g.tid, g.why));
    out
}

/// A thread's states around a move.
struct Around<'s> {
    states: &'s [StateRow],
    /// The row that holds the moment; none: before the first.
    at: Option<usize>,
    time: Time,
}

impl<'s> Around<'s> {
    fn new(states: &'s [StateRow], time: Time) -> Around<'s> {
        let at = states
            .partition_point(|row| row.start <= time)
            .checked_sub(1);
        Around { states, at, time }
    }

    /// From when it last ran to when it next does; none when one of them was not seen.
    fn off_cpu_ns(&self) -> Option<i64> {
        let at = self.at?;
        let is_running = |row: &&StateRow| row.state == ThreadState::Running;
        let before = self.states[..=at].iter().rev().find(is_running)?;
        let after = self.states[at..].iter().find(is_running)?;
        Some((after.start - before.end).ns().max(0))
    }

    fn reason(
        &self,
        cut: &Cut<'_>,
        stoppers: &Stoppers,
        thread: ThreadIx,
        to: u16,
    ) -> &'static str {
        let Some(at) = self.at.filter(|_| stoppers.is_known) else {
            return "unknown";
        };
        let row = &self.states[at];
        // A move out of a queue ends the row of that queue: the row that holds the moment begins then.
        let queued = at
            .checked_sub(1)
            .map(|ix| &self.states[ix])
            .filter(|before| {
                row.start == self.time && before.state.is_runnable() && row.state.is_runnable()
            });
        match queued {
            Some(before) if stoppers.is_one(before.by) => {
                stoppers.reason(cut, before.by, self.time, thread, to)
            }
            Some(_) => "balance",
            None if row.state == ThreadState::RunnableWoken => "wake-up",
            None => "unknown",
        }
    }
}

/// The kernel's `migration/N` threads and the threads that woke them.
struct Stoppers {
    /// Whether moves and wake-ups are events of their own.
    is_known: bool,
    /// (time, waker, CPU), in order.
    woken: HashMap<ThreadIx, Vec<(Time, ThreadIx, u16)>>,
}

impl Stoppers {
    fn new(cut: &Cut<'_>, is_needed: bool) -> Stoppers {
        let trace = cut.trace;
        let mut woken: HashMap<ThreadIx, Vec<_>> = HashMap::new();
        if is_needed {
            let is_stopper = |t: &ThreadIx| {
                trace
                    .strings
                    .get(trace.threads[t.ix()].name)
                    .starts_with("migration/")
            };
            woken = cut
                .threads()
                .filter(is_stopper)
                .map(|t| (t, Vec::new()))
                .collect();
            let wakeups = &trace.wakeups;
            for ix in 0..wakeups.time.len() {
                if let Some(list) = woken.get_mut(&wakeups.wakee[ix]) {
                    list.push((wakeups.time[ix], wakeups.waker[ix], wakeups.cpu[ix]));
                }
            }
        }
        Stoppers {
            is_known: trace.info.kernel_source != "perf",
            woken,
        }
    }

    fn is_one(&self, thread: ThreadIx) -> bool {
        self.woken.contains_key(&thread)
    }

    fn reason(
        &self,
        cut: &Cut<'_>,
        stopper: ThreadIx,
        time: Time,
        thread: ThreadIx,
        to: u16,
    ) -> &'static str {
        let woken = self.woken.get(&stopper).map_or(&[][..], Vec::as_slice);
        let last = woken.partition_point(|w| w.0 <= time).checked_sub(1);
        let Some((_, waker, cpu)) = last.map(|ix| woken[ix]) else {
            return "unknown";
        };
        let is_ours = waker.is_some()
            && cut.trace.threads[waker.ix()].process == cut.trace.threads[thread.ix()].process;
        match waker == thread || (is_ours && cpu != to) {
            true => "affinity",
            false => "balance",
        }
    }
}
