//! Whether threads that wait at one place take turns, as at a lock, or go on together, as at a barrier.
//!
//! A semaphore or a condition is what the program makes of it: a lock, a barrier, a queue. Where the code that waits is the code that ends such waits, times
//! tell. Who was woken *has its turn* until it waits again, or wakes another thread. At a lock one thread at a time has it.
use super::waits::TOLERANCE_NS;
use crate::wakers::{self, End};
use kasuri_base::quick::{QuickMap, QuickSet};
use kasuri_model::{PathIx, ProcessIx, StateRow, ThreadIx, ThreadState, Time, Trace};

/// Who runs for less looked, and found that it was another's turn.
const TURN_NS: i64 = 100_000;
/// Threads are woken together if no more lies between.
const TOGETHER_NS: i64 = 100_000;
/// A block lies no more rows of its thread before the end of what a sample of it may show: nobody changes state so often in
/// twice [`TOLERANCE_NS`].
const NEAR: usize = 256;
/// One thread at a time had its turn if fewer than this part of the turns lay beside others.
const PART: usize = 4;

/// A turn of one thread.
#[derive(Clone, Copy)]
struct Turn {
    woken: Time,
    /// It runs from...
    from: Time,
    /// ...to.
    to: Time,
    thread: ThreadIx,
    /// Who gave it.
    by: ThreadIx,
}

/// Functions of the program's that wait, by what their threads do when a wait ends.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns {
    /// Several go on at once.
    together: QuickSet<u32>,
    /// One goes on, and is woken by one that waits for its turn itself; so many threads do.
    one_by_one: QuickMap<u32, usize>,
}

impl Turns {
    /// Reads the whole recording. `at`: the number of the function that waits at a path of this kind; none: it waits for something else.
    pub fn new(trace: &Trace, at: impl Fn(PathIx) -> Option<u32>) -> Turns {
        let s = &trace.samples;
        let mut of_path: QuickMap<PathIx, Option<u32>> = QuickMap::default();
        let mut turns: QuickMap<(ProcessIx, u32), Vec<Turn>> = QuickMap::default();
        let mut found: Vec<(ThreadIx, Time, u32)> = Vec::new();
        for row in (0..s.time.len()).filter(|&row| s.kind[row].is_wait()) {
            let (path, thread) = (s.path[row], s.thread[row]);
            if path.is_some()
                && trace.is_target(thread)
                && let Some(function) = *of_path.entry(path).or_insert_with(|| at(path))
            {
                found.push((thread, s.time[row], function));
            }
        }
        if found.is_empty() {
            return Turns::default();
        }
        let wakes = wakes(trace);
        for (thread, time, function) in found {
            if let Some(turn) = turn_after(trace, &wakes, thread, time) {
                let process = trace.threads[thread.ix()].process;
                turns.entry((process, function)).or_default().push(turn);
            }
        }
        let mut out = Turns::default();
        for ((_, function), mut turns) in turns {
            turns.sort_by_key(|turn| (turn.woken, turn.thread));
            turns.dedup_by_key(|turn| (turn.woken, turn.thread));
            if are_together(&turns) {
                out.together.insert(function);
            } else if let Some(threads) = one_by_one(&turns) {
                out.one_by_one.insert(function, threads);
            }
        }
        out
    }

    pub fn are_together(&self, function: u32) -> bool {
        self.together.contains(&function)
    }

    /// How many threads take turns; 0: they do not.
    pub fn one_by_one(&self, function: u32) -> usize {
        self.one_by_one.get(&function).copied().unwrap_or(0)
    }
}

/// When each thread woke another.
fn wakes(trace: &Trace) -> QuickMap<ThreadIx, Vec<Time>> {
    let w = &trace.wakeups;
    let mut out: QuickMap<ThreadIx, Vec<Time>> = QuickMap::default();
    for row in (0..w.time.len()).filter(|&row| w.waker[row].is_some()) {
        if trace.is_target(w.waker[row]) && trace.is_target(w.wakee[row]) {
            out.entry(w.waker[row]).or_default().push(w.time[row]);
        }
    }
    out
}

/// The row of [`Trace::states`] that a sample of a blocked thread shows; none: nothing ended that wait.
pub(super) fn blocked_at(trace: &Trace, thread: ThreadIx, time: Time) -> Option<usize> {
    let states = &trace.states;
    let rows = trace.threads[thread.ix()].states.clone();
    let rows = rows.start as usize..rows.end as usize;
    // A sample at the switch may have a stamp just before it.
    let begun = states.start[rows.clone()].partition_point(|t| t.0 <= time.0 + TOLERANCE_NS);
    let begun = rows.start + begun;
    let row = (rows.start..begun).rev().take(NEAR).find(|&row| states.state[row].is_blocked())?;
    (row + 1 < rows.end).then_some(row)
}

/// The turn that follows the wait which a sample shows; none: no thread of the program gave one, or it was too short to be one.
fn turn_after(
    trace: &Trace,
    wakes: &QuickMap<ThreadIx, Vec<Time>>,
    thread: ThreadIx,
    time: Time,
) -> Option<Turn> {
    let states = &trace.states;
    let rows = trace.threads[thread.ix()].states.clone();
    let row = blocked_at(trace, thread, time)? + 1;
    let End::Thread(by) = wakers::end(trace, thread, row) else {
        return None;
    };
    let own = wakes.get(&thread).map_or(&[][..], Vec::as_slice);
    let woken = states.start[row];
    let wakes = own.get(own.partition_point(|&t| t <= woken)).copied();
    let after = trace.states_of(thread).skip(row - rows.start as usize);
    let turn = after.take_while(|row| !row.state.is_blocked());
    let runs = turn.filter(|row| row.state == ThreadState::Running);
    let until = |row: &StateRow| wakes.map_or(row.end, |wakes| row.end.min(wakes).max(row.start));
    let runs: Vec<(Time, Time)> = runs.map(|row| (row.start, until(&row))).collect();
    let ran: i64 = runs.iter().map(|(from, to)| (*to - *from).ns()).sum();
    let (from, to) = (runs.first()?.0, runs.iter().rfind(|(from, to)| to > from)?.1);
    let is_turn = ran >= TURN_NS && trace.is_target(by);
    is_turn.then_some(Turn { woken, from, to, thread, by })
}

/// Whether threads that one thread wakes go on together. The turns are in order.
fn are_together(turns: &[Turn]) -> bool {
    let is_with = |a: &Turn, b: &Turn| {
        a.by == b.by && a.thread != b.thread && (b.woken - a.woken).ns() <= TOGETHER_NS
    };
    let n = (0..turns.len()).filter(|&at| {
        let before = at.checked_sub(1).map(|before| &turns[before]);
        before.is_some_and(|before| is_with(before, &turns[at]))
            || turns.get(at + 1).is_some_and(|after| is_with(&turns[at], after))
    });
    n.count() * PART >= turns.len()
}

/// How many threads have turns, if one at a time has its turn, and most are given by threads that get turns themselves.
fn one_by_one(turns: &[Turn]) -> Option<usize> {
    let mut given: QuickMap<ThreadIx, (usize, usize)> = QuickMap::default();
    let (mut until, mut beside) = (Time::MIN, 0);
    let mut turns = turns.to_vec();
    turns.sort_by_key(|turn| turn.from);
    for turn in &turns {
        given.entry(turn.by).or_default().0 += 1;
        given.entry(turn.thread).or_default().1 += 1;
        beside += usize::from(turn.from < until);
        until = until.max(turn.to);
    }
    let by_others = given.values().filter(|(gave, got)| got * PART < *gave);
    let by_others: usize = by_others.map(|(gave, _)| gave).sum();
    let threads = given.values().filter(|(_, got)| *got > 0).count();
    (beside * PART < turns.len() && by_others * PART < turns.len()).then_some(threads)
}
