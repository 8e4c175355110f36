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
//!
//! There may be as many moves as wake-ups, so what is found of each is kept as a byte and a number.
use crate::cut::Cut;
use crate::{Migration, MigrationGroup};
use kasuri_base::quick::QuickMap;
use kasuri_model::{ThreadIx, ThreadState, Time, Trace};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::Range;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Why {
    /// The thread is not shown, or the moment not in the range.
    NotShown,
    WakeUp,
    Balance,
    Affinity,
    Unknown,
}

impl Why {
    fn word(self) -> &'static str {
        match self {
            Why::WakeUp => "wake-up",
            Why::Balance => "balance",
            Why::Affinity => "affinity",
            Why::Unknown | Why::NotShown => "unknown",
        }
    }
}

/// What was found of each row of [`Trace::migrations`].
pub(crate) struct Moves<'t> {
    trace: &'t Trace,
    why: Vec<Why>,
    /// Negative: not known.
    off_cpu_ns: Vec<i64>,
}

/// The moves of the shown threads.
pub(crate) fn migrations<'t>(cut: &Cut<'t>) -> Moves<'t> {
    let trace = cut.trace;
    let moves = &trace.migrations;
    let n = moves.time.len();
    let is_meant = |thread: ThreadIx, time| cut.is_shown(thread) && cut.contains(time);
    let mut found = Moves { trace, why: vec![Why::NotShown; n], off_cpu_ns: vec![-1; n] };
    let rows = by_thread(trace, |ix| {
        let thread = moves.thread[ix];
        thread.is_some() && is_meant(thread, moves.time[ix])
    });
    let stoppers = Stoppers::new(cut, !rows.is_empty());
    for ix in rows.into_iter().map(|ix| ix as usize) {
        let (thread, time) = (moves.thread[ix], moves.time[ix]);
        let around = Around::new(trace, thread, time);
        found.why[ix] = around.reason(cut, &stoppers, thread, moves.to_cpu[ix]);
        found.off_cpu_ns[ix] = around.off_cpu_ns().unwrap_or(-1);
    }
    found
}

/// Rows of the moves that are meant, those of each thread together: its states are then near each other.
fn by_thread(trace: &Trace, is_meant: impl Fn(usize) -> bool) -> Vec<u32> {
    let moves = &trace.migrations;
    let rows = (0..moves.time.len()).filter(|&ix| is_meant(ix));
    let mut at = vec![0u32; trace.threads.len() + 1];
    for ix in rows.clone() {
        at[moves.thread[ix].ix() + 1] += 1;
    }
    for thread in 0..trace.threads.len() {
        at[thread + 1] += at[thread];
    }
    let mut out = vec![0; at[trace.threads.len()] as usize];
    for ix in rows {
        let place = &mut at[moves.thread[ix].ix()];
        out[*place as usize] = ix as u32;
        *place += 1;
    }
    out
}

impl Moves<'_> {
    /// In time order.
    fn rows(&self) -> impl Iterator<Item = usize> {
        (0..self.why.len()).filter(|&ix| self.why[ix] != Why::NotShown)
    }

    fn off_cpu_ns(&self, ix: usize) -> Option<i64> {
        Some(self.off_cpu_ns[ix]).filter(|ns| *ns >= 0)
    }

    /// Each, in time order.
    pub fn list(&self) -> Vec<Migration> {
        let moves = &self.trace.migrations;
        let row = |ix: usize| {
            let info = &self.trace.threads[moves.thread[ix].ix()];
            Migration {
                time_ns: moves.time[ix].ns(),
                tid: info.tid,
                thread: self.trace.strings.get(info.name).into(),
                from_cpu: moves.from_cpu[ix],
                to_cpu: moves.to_cpu[ix],
                why: self.why[ix].word(),
                off_cpu_ns: self.off_cpu_ns(ix),
            }
        };
        self.rows().map(row).collect()
    }

    /// By thread and cause, most time off a CPU first.
    pub fn groups(&self) -> Vec<MigrationGroup> {
        let moves = &self.trace.migrations;
        let mut groups: QuickMap<(i32, u8), MigrationGroup> = QuickMap::default();
        let mut ways: QuickMap<(i32, u8, u16, u16), u64> = QuickMap::default();
        for ix in self.rows() {
            let info = &self.trace.threads[moves.thread[ix].ix()];
            let (tid, why) = (info.tid, self.why[ix]);
            let (from, to) = (moves.from_cpu[ix], moves.to_cpu[ix]);
            let group = groups.entry((tid, why as u8)).or_insert_with(|| MigrationGroup {
                tid,
                thread: self.trace.strings.get(info.name).into(),
                why: why.word(),
                ..MigrationGroup::default()
            });
            let off = self.off_cpu_ns(ix).unwrap_or(0);
            group.count += 1;
            group.off_cpu_ns += off;
            group.longest_ns = group.longest_ns.max(off);
            let way = ways.entry((tid, why as u8, from, to)).or_default();
            *way += 1;
            // Of equals the first to get there stays: an order that depends on the trace alone.
            if *way > group.way_count {
                (group.from_cpu, group.to_cpu, group.way_count) = (from, to, *way);
            }
        }
        let mut out: Vec<MigrationGroup> = groups.into_values().collect();
        out.sort_by_key(|g| (Reverse(g.off_cpu_ns), Reverse(g.count), g.tid, g.why));
        out
    }
}

/// A thread's states around a move.
struct Around<'t> {
    trace: &'t Trace,
    thread: ThreadIx,
    /// Rows of its states.
    rows: Range<usize>,
    /// The row that holds the moment; none: before the first.
    at: Option<usize>,
    time: Time,
}

impl<'t> Around<'t> {
    fn new(trace: &'t Trace, thread: ThreadIx, time: Time) -> Around<'t> {
        let rows = &trace.threads[thread.ix()].states;
        let rows = rows.start as usize..rows.end as usize;
        let begun = trace.states.start[rows.clone()].partition_point(|start| *start <= time);
        Around { trace, thread, at: begun.checked_sub(1).map(|last| rows.start + last), rows, time }
    }

    /// From when it last ran to when it next does; none when one of them was not seen.
    fn off_cpu_ns(&self) -> Option<i64> {
        let at = self.at?;
        let states = &self.trace.states;
        let is_running = |row: &usize| states.state[*row] == ThreadState::Running;
        let before = (self.rows.start..=at).rev().find(is_running)?;
        let after = (at..self.rows.end).find(is_running)?;
        let ended = match before + 1 < self.rows.end {
            true => states.start[before + 1],
            false => self.trace.threads[self.thread.ix()].alive.end,
        };
        Some((states.start[after] - ended.max(states.start[before])).ns().max(0))
    }

    fn reason(&self, cut: &Cut<'_>, stoppers: &Stoppers, thread: ThreadIx, to: u16) -> Why {
        let Some(at) = self.at.filter(|_| stoppers.is_known) else {
            return Why::Unknown;
        };
        let states = &self.trace.states;
        let state = states.state[at];
        // A move out of a queue ends the row of that queue: the row that holds the moment begins then.
        let queued = (at > self.rows.start && states.start[at] == self.time)
            .then(|| at - 1)
            .filter(|&before| states.state[before].is_runnable() && state.is_runnable());
        match queued.map(|before| states.by[before]) {
            Some(by) if stoppers.is_one(by) => stoppers.reason(cut, by, self.time, thread, to),
            Some(_) => Why::Balance,
            None if state == ThreadState::RunnableWoken => Why::WakeUp,
            None => Why::Unknown,
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
                trace.strings.get(trace.threads[t.ix()].name).starts_with("migration/")
            };
            woken = cut.threads().filter(is_stopper).map(|t| (t, Vec::new())).collect();
            let wakeups = &trace.wakeups;
            for ix in 0..wakeups.time.len() {
                if let Some(list) = woken.get_mut(&wakeups.wakee[ix]) {
                    list.push((wakeups.time[ix], wakeups.waker[ix], wakeups.cpu[ix]));
                }
            }
        }
        Stoppers { is_known: trace.info.kernel_source != "perf", woken }
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
    ) -> Why {
        let woken = self.woken.get(&stopper).map_or(&[][..], Vec::as_slice);
        let last = woken.partition_point(|w| w.0 <= time).checked_sub(1);
        let Some((_, waker, cpu)) = last.map(|ix| woken[ix]) else {
            return Why::Unknown;
        };
        let is_ours = waker.is_some()
            && cut.trace.threads[waker.ix()].process == cut.trace.threads[thread.ix()].process;
        match waker == thread || (is_ours && cpu != to) {
            true => Why::Affinity,
            false => Why::Balance,
        }
    }
}
