//! Dependences between threads, for both the walk and the replay.
//!
//! Three kinds of edge: a thread wakes another; a thread makes another; a thread that spins at a barrier or for a lock goes
//! on because another arrives or gives the lock back. The first two are in the states (`by`, birth). The last leaves no
//! kernel event, so it is derived from the slices ([`Spin`]).
use super::uses::Uses;
use crate::account::barrier::{self, BarrierWait};
use crate::account::throttle::Throttled;
use crate::account::track::{self, NONE, Track};
use kasuri_model::{SliceKind, StrIx, ThreadIx, ThreadState, Time, Trace};
use std::collections::HashMap;
use std::ops::Range;

/// A wait that a thread spends on a CPU, and the thread that ends it: `by` at `until`, within start..end of the slice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spin {
    pub thread: ThreadIx,
    pub start: Time,
    pub until: Time,
    pub by: ThreadIx,
}

pub(super) struct Graph<'t> {
    pub trace: &'t Trace,
    pub is_target: Vec<bool>,
    /// First and last moment of the program; none: nothing is known of it.
    pub span: Option<Range<Time>>,
    pub barriers: Vec<BarrierWait>,
    /// By (thread, start).
    pub spins: Vec<Spin>,
    pub codes: Vec<Option<Track>>,
    pub uses: Uses,
}

impl<'t> Graph<'t> {
    pub fn new(trace: &'t Trace) -> Graph<'t> {
        let is_target: Vec<bool> = trace
            .threads
            .iter()
            .enumerate()
            .map(|(t, row)| trace.is_target(ThreadIx(t as u32)) && !row.states.is_empty())
            .collect();
        let barriers = barrier::waits(trace, &is_target, &Throttled::new(trace));
        let mut graph = Graph {
            span: program_span(trace, &is_target),
            spins: Vec::new(),
            codes: vec![None; trace.threads.len()],
            uses: Uses::none(trace),
            trace,
            is_target,
            barriers,
        };
        graph.spins = graph.find_spins();
        graph
    }

    /// Waits at barriers until the last thread comes, and at locks until the holder before gives it back.
    fn find_spins(&self) -> Vec<Spin> {
        let s = &self.trace.slices;
        let mut spins = Vec::new();
        for wait in &self.barriers {
            let row = wait.row as usize;
            let is_waiting = wait.late.is_some() && wait.late != s.thread[row];
            if is_waiting && wait.arrival > s.start[row] {
                spins.push(Spin {
                    thread: s.thread[row],
                    start: s.start[row],
                    until: wait.arrival.min(s.end[row]),
                    by: wait.late,
                });
            }
        }
        let releases = self.releases();
        for row in (0..s.kind.len()).filter(|&r| s.kind[r] == SliceKind::LockWait) {
            let (thread, start, end) = (s.thread[row], s.start[row], s.end[row]);
            if !self.is_target[thread.ix()] {
                continue;
            }
            let process = self.trace.threads[thread.ix()].process;
            let Some(of_lock) = releases.get(&(process.0, s.object[row])) else {
                continue;
            };
            let after = of_lock.partition_point(|&(time, _)| time <= end);
            let last = after.checked_sub(1).map(|at| of_lock[at]);
            if let Some((until, by)) = last.filter(|&(time, by)| time > start && by != thread) {
                spins.push(Spin { thread, start, until, by });
            }
        }
        spins.sort_by_key(|s| (s.thread, s.start, s.until));
        spins
    }

    /// By (process, lock): times of its releases, and the threads that released it.
    fn releases(&self) -> HashMap<(u32, u64), Vec<(Time, ThreadIx)>> {
        let s = &self.trace.slices;
        let mut out: HashMap<(u32, u64), Vec<(Time, ThreadIx)>> = HashMap::new();
        for row in (0..s.kind.len()).filter(|&r| s.kind[r] == SliceKind::LockHold) {
            let thread = s.thread[row];
            if self.is_target[thread.ix()] {
                let key = (self.trace.threads[thread.ix()].process.0, s.object[row]);
                out.entry(key).or_default().push((s.end[row], thread));
            }
        }
        out.values_mut().for_each(|v| v.sort_unstable());
        out
    }

    /// Locks by the time that threads waited for them, most first; with their names.
    pub fn locks_by_wait(&self) -> Vec<(u64, StrIx)> {
        let s = &self.trace.slices;
        let mut waited: HashMap<u64, (i64, StrIx)> = HashMap::new();
        for row in (0..s.kind.len()).filter(|&r| s.kind[r] == SliceKind::LockWait) {
            if self.is_target[s.thread[row].ix()] {
                let sum = waited.entry(s.object[row]).or_insert((0, s.name[row]));
                sum.0 += (s.end[row] - s.start[row]).ns();
            }
        }
        let mut out: Vec<(u64, (i64, StrIx))> = waited.into_iter().collect();
        out.sort_by_key(|&(object, (ns, _))| (std::cmp::Reverse(ns), object));
        out.into_iter().map(|(object, (_, name))| (object, name)).collect()
    }

    /// The thread's spins.
    pub fn spins_of(&self, thread: ThreadIx) -> &[Spin] {
        let first = self.spins.partition_point(|s| s.thread < thread);
        let after = self.spins.partition_point(|s| s.thread <= thread);
        &self.spins[first..after]
    }

    /// The name of what the thread does at `time`, and since when, as far back as `from`.
    pub fn code_before(&mut self, thread: ThreadIx, from: Time, time: Time) -> (StrIx, Time) {
        let track = self.codes[thread.ix()].get_or_insert_with(|| track::code(self.trace, thread));
        let (name, since) = track.before(time);
        let name = if name == NONE { StrIx::NONE } else { StrIx(name) };
        (name, since.max(from))
    }

    /// See [`active_end`].
    pub fn active_end(&self, thread: ThreadIx) -> Time {
        active_end(self.trace, thread)
    }

    /// The row of the thread's states that holds just before `time`.
    pub fn row_before(&self, thread: ThreadIx, time: Time) -> Option<usize> {
        let rows = self.trace.threads[thread.ix()].states.clone();
        let rows = rows.start as usize..rows.end as usize;
        let n = self.trace.states.start[rows.clone()].partition_point(|&s| s < time);
        (n > 0).then(|| rows.start + n - 1)
    }

    /// The waker of the thread at `time`; none: no thread of the program.
    pub fn waker(&self, thread: ThreadIx, row: usize, time: Time) -> Option<ThreadIx> {
        let by = self.trace.states.by[row];
        if self.trace.states.state[row] == ThreadState::RunnableWoken {
            return Some(by).filter(|by| by.is_some() && self.is_target[by.ix()]);
        }
        let wakes = &self.trace.wakeups;
        let first = wakes.time.partition_point(|&t| t < time);
        (first..wakes.time.len())
            .take_while(|&at| wakes.time[at] == time)
            .filter(|&at| wakes.wakee[at] == thread)
            .map(|at| wakes.waker[at])
            .find(|by| by.is_some() && self.is_target[by.ix()])
    }
}

/// From the first moment of a thread of the program to the last at which one was not asleep for good.
fn program_span(trace: &Trace, is_target: &[bool]) -> Option<Range<Time>> {
    let own = || (0..trace.threads.len()).filter(|&t| is_target[t]);
    let start = own().map(|t| trace.threads[t].alive.start).min()?;
    let end = own().map(|t| active_end(trace, ThreadIx(t as u32))).max()?;
    (end > start).then_some(start..end)
}

/// The thread's last moment, without a sleep that it did not wake from.
fn active_end(trace: &Trace, thread: ThreadIx) -> Time {
    let info = &trace.threads[thread.ix()];
    let last = info.states.end.wrapping_sub(1) as usize;
    match info.states.is_empty() || !trace.states.state[last].is_blocked() {
        true => info.alive.end.min(trace.span.end),
        false => trace.states.start[last],
    }
}
