//! Processes that hang until they are killed.
//!
//! Each thread waits for what another of its process must do, or sleeps for a time, and none of them ends that: the process is killed. The
//! kernel wakes the threads then, so that whoever kills looks like the one that was waited for. Told by all threads together: a single one
//! whose wait another process ends, and which ends soon after, may have been given what it waited for.
use super::calls::Call;
use super::cover::Cover;
use super::frames::Frames;
use crate::wakers::{self, End};
use kasuri_base::quick::{QuickMap, QuickSet};
use kasuri_model::{PathIx, ProcessIx, ThreadIx, ThreadState, Trace};

/// To end takes no longer, though the last thread gives back the memory of the process; the hang lasts longer.
const ENDS_NS: i64 = 20_000_000;
/// A wait without a sample that is no longer than one in so many parts of the others takes no part in them.
const SHORT_PART: i64 = 10;

/// A thread's last wait, after which it did nothing but end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastWait {
    pub thread: ThreadIx,
    /// Of [`Trace::states`].
    pub row: usize,
    /// None: no sample stands for it.
    pub path: PathIx,
}

/// The last waits for own threads, of processes in which all waited so until they were killed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Killed {
    /// In order of threads.
    waits: Vec<LastWait>,
    /// Their rows.
    rows: QuickSet<u32>,
}

impl Killed {
    /// Reads the whole recording.
    pub fn new(trace: &Trace, cover: &Cover, frames: &Frames<'_>) -> Killed {
        let waits = killed(trace, cover, frames);
        let rows = waits.iter().map(|last| last.row as u32).collect();
        Killed { waits, rows }
    }

    /// All of them.
    pub fn waits(&self) -> &[LastWait] {
        &self.waits
    }

    /// Whether only the end of the process ended the wait in this row of [`Trace::states`].
    pub fn has(&self, row: usize) -> bool {
        self.rows.contains(&(row as u32))
    }
}

fn killed(trace: &Trace, cover: &Cover, frames: &Frames<'_>) -> Vec<LastWait> {
    let mut of_process: QuickMap<ProcessIx, Vec<LastWait>> = QuickMap::default();
    let targets = (0..trace.threads.len() as u32).map(ThreadIx);
    for thread in targets.filter(|&thread| trace.is_target(thread)) {
        if let Some(last) = last_wait(trace, cover, thread) {
            of_process.entry(trace.threads[thread.ix()].process).or_default().push(last);
        }
    }
    let mut out = Vec::new();
    for (process, waits) in of_process {
        out.extend(hung(trace, frames, process, waits));
    }
    out.sort_by_key(|last| last.thread);
    out
}

/// Of the last waits in a process, in order of threads, those for its own threads; empty: it was not killed, or a thread did something else.
fn hung(
    trace: &Trace,
    frames: &Frames<'_>,
    process: ProcessIx,
    waits: Vec<LastWait>,
) -> Vec<LastWait> {
    let ended = |last: &LastWait| trace.states.start[last.row + 1];
    let by_other = |last: &LastWait| match wakers::end(trace, last.thread, last.row + 1) {
        End::Thread(by) => trace.threads[by.ix()].process != process,
        _ => false,
    };
    let Some(since) = waits.iter().filter(|last| by_other(last)).map(ended).min() else {
        return Vec::new();
    };
    let threads = trace.processes[process.ix()].threads.clone();
    let there = (threads.start..threads.end).map(ThreadIx).filter(|thread| {
        let alive = &trace.threads[thread.ix()].alive;
        alive.start < since && alive.end > since
    });
    let waits_for_own = |last: &LastWait| {
        ended(last) >= since && last.path.is_some() && frames.waits_for_threads(last.path)
    };
    let ns = |last: &LastWait| (ended(last) - trace.states.start[last.row]).ns();
    let own = || waits.iter().filter(|last| waits_for_own(last));
    let shortest = own().map(ns).min().unwrap_or(0);
    // A timer's thread comes and goes while the others wait.
    let is_no_part = |last: &LastWait| match last.path.is_some() {
        true => frames.call(last.path) == Call::Sleep,
        false => ns(last).saturating_mul(SHORT_PART) <= shortest,
    };
    let hangs = |last: &LastWait| ended(last) >= since && (waits_for_own(last) || is_no_part(last));
    let mut there = there.map(|thread| {
        let at = waits.binary_search_by_key(&thread, |last| last.thread).ok()?;
        waits.get(at)
    });
    match own().count() > 1 && shortest > ENDS_NS && there.all(|last| last.is_some_and(hangs)) {
        true => own().copied().collect(),
        false => Vec::new(),
    }
}

/// None: it did something after its last wait, or its end is not known.
fn last_wait(trace: &Trace, cover: &Cover, thread: ThreadIx) -> Option<LastWait> {
    if trace.threads[thread.ix()].alive.end >= trace.span.end {
        return None;
    }
    let rows = trace.threads[thread.ix()].states.clone();
    let mut ran = 0;
    for (at, state) in trace.states_of(thread).enumerate().rev() {
        match state.state {
            ThreadState::Running => ran += (state.end - state.start).ns(),
            ThreadState::Dead => {}
            state if state.is_runnable() => {}
            of_wait if of_wait.is_blocked() && at + 1 < rows.len() => {
                let mut owners = cover.between(thread, state.start, state.end);
                let sample = owners.find_map(|(owner, _)| owner.sample());
                let path = sample.map_or(PathIx::NONE, |row| trace.samples.path[row]);
                return Some(LastWait { thread, row: rows.start as usize + at, path });
            }
            _ => return None,
        }
        if ran >= ENDS_NS {
            return None;
        }
    }
    None
}
