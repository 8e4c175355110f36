//! Waits that one CPU hides: a thread lost its CPU to one that it had just woken, and when it has it again, what it would have waited
//! for has been done meanwhile (the answer to a request); or it would not have waited.
//!
//! What it does where it keeps the CPU tells which: a server with more requests in its queue goes on with those, one with a single
//! client sleeps at once. Where it never or seldom keeps the CPU, both are possible.
use super::Reader;
use crate::program::Step;
use kasuri_model::{StateRow, ThreadIx, ThreadState, Time};
use std::collections::HashMap;

/// From waking a thread until it has the CPU of the one that woke it, if it takes that: the rest of a system call. A thread
/// whose turn ends later than that after it woke another is one of many that share a CPU.
const JUST_NS: i64 = 50_000;

/// A thread that woke another one so often, and kept its CPU, has a habit; if three of four times (`MOST`) are of one kind.
const SOME: u32 = 20;
const MOST: f64 = 0.75;

/// What a thread does after it woke a certain other one.
#[derive(Clone, Copy, Debug, Default)]
struct Habit {
    /// How often it slept then, until the other one woke it, with less than half of its turn on the CPU after the call.
    waited: u32,
    /// How often it went on for longer, or slept for something else.
    went_on: u32,
}

impl Habit {
    /// Whether it waits for the other one; none: not known.
    fn waits(self) -> Option<bool> {
        let all = self.waited + self.went_on;
        let most = |part: u32| f64::from(part) >= MOST * f64::from(all);
        match () {
            () if all < SOME => None,
            () if most(self.waited) => Some(true),
            () if most(self.went_on) => Some(false),
            () => None,
        }
    }
}

impl Reader<'_> {
    /// Adds the hidden waits that are known, and with `is_tied` those that are possible. Returns the time of the possible ones, ns,
    /// and how often they were.
    pub(super) fn hidden_waits(&mut self, is_tied: bool) -> (u64, u64) {
        let habits = self.habits();
        let (mut hidden, mut times) = (0, 0);
        for thread in self.threads() {
            let rows: Vec<StateRow> = self.trace.states_of(thread).collect();
            let lost = |pair: &&[StateRow]| {
                pair[0].state == ThreadState::Running
                    && pair[1].state == ThreadState::RunnablePreempted
                    && self.is_script(pair[1].by)
            };
            let pairs: Vec<_> = rows.windows(2).filter(lost).map(|p| (p[0], p[1])).collect();
            for (ran, waits) in pairs {
                let Some(until) = self.ran_instead(thread, &ran, &waits) else {
                    continue;
                };
                let habit = habits.get(&(thread, waits.by)).and_then(|h| h.waits());
                if habit.is_none() {
                    hidden += (until - waits.start).ns().max(0) as u64;
                    times += 1;
                }
                if habit.unwrap_or(is_tied) {
                    let event = self.program.n_events;
                    self.program.n_events += 1;
                    self.add_step(thread, waits.start, Step::Wait(event));
                    self.add_step(waits.by, until, Step::Post(event));
                }
            }
        }
        (hidden, times)
    }

    /// What threads do that keep their CPU after they woke another one.
    fn habits(&self) -> HashMap<(ThreadIx, ThreadIx), Habit> {
        let mut out: HashMap<(ThreadIx, ThreadIx), Habit> = HashMap::new();
        for wakee in self.threads() {
            for row in self.trace.states_of(wakee) {
                if row.state == ThreadState::RunnableWoken
                    && self.is_script(row.by)
                    && let Some(waited) = self.waited(row.by, row.start, wakee)
                {
                    let habit = out.entry((row.by, wakee)).or_default();
                    let count = if waited { &mut habit.waited } else { &mut habit.went_on };
                    *count += 1;
                }
            }
        }
        out
    }

    /// Whether a thread that woke another one at `time` then soon slept until that one woke it; none: it did not end its turn itself.
    fn waited(&self, thread: ThreadIx, time: Time, wakee: ThreadIx) -> Option<bool> {
        let s = &self.trace.states;
        let rows = &self.trace.threads[thread.ix()].states;
        let (first, end) = (rows.start as usize, rows.end as usize);
        let after = first + s.start[first..end].partition_point(|&start| start <= time);
        // The turn, the sleep, and the wake-up.
        if after == first || after + 1 >= end {
            return None;
        }
        let (start, until) = (s.start[after - 1], s.start[after]);
        if s.state[after - 1] != ThreadState::Running || !s.state[after].is_blocked() {
            return None;
        }
        let is_woken_by_it =
            s.state[after + 1] == ThreadState::RunnableWoken && s.by[after + 1] == wakee;
        Some(is_woken_by_it && (until - time).ns() * 2 < (until - start).ns())
    }

    /// Until when the thread that took the CPU kept it, if the one that lost it had just woken it.
    fn ran_instead(&self, thread: ThreadIx, ran: &StateRow, waits: &StateRow) -> Option<Time> {
        let (info, s) = (&self.trace.threads[waits.by.ix()], &self.trace.states);
        let rows = info.states.start as usize..info.states.end as usize;
        // By position: the rows before may be millions, for each of as many calls.
        let from = rows.start + s.start[rows.clone()].partition_point(|&start| start < ran.start);
        let until = rows.start + s.start[rows.clone()].partition_point(|&start| start < waits.end);
        let mut woken = None;
        for row in from..until {
            match s.state[row] {
                ThreadState::RunnableWoken if s.by[row] == thread => woken = Some(s.start[row]),
                ThreadState::Running if s.start[row] == waits.start => {
                    let just = woken.is_some_and(|at| (waits.start - at).ns() <= JUST_NS);
                    let end = s.start[row + 1..rows.end].first();
                    let end = end.map_or(info.alive.end, |&end| end);
                    return just.then_some(end.min(waits.end));
                }
                _ => {}
            }
        }
        None
    }
}
