//! Waits with a time limit that a thread begins again each time that it comes.
//!
//! `while (!done) pthread_cond_timedwait(...)`: the kernel sees many sleeps, each ended by a timer but the last. To the program it is one
//! wait, ended by whoever signals. So waits at one place in the code, between which the thread hardly ran and woke nobody, are one.
//!
//! Who looks in Python asks for the global lock each time: that wait, and to whom the thread gives the lock, are parts of looking.
//!
//! A wait that is lengthened so has no wake-up by its thread inside of it. So whoever ended another wait meanwhile ends this one later
//! than that, and no chain of waits is endless.
use super::calls::Call;
use super::cover::{Cover, Owner};
use super::frames::Frames;
use super::turns::blocked_at;
use crate::wakers::{self, End};
use kasuri_base::quick::{QuickMap, QuickSet};
use kasuri_model::{FrameKind, PathIx, ThreadIx, ThreadState, Time, Trace};
use std::ops::Range;

/// Between two waits it may run this part of the first one, or so many ns.
const RUNS_PART: i64 = 16;
const RUNS_NS: i64 = 20_000;
/// So many of them that nobody ended are a series of tries.
const LEAST: usize = 4;

/// Where such waits end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rearmed {
    /// By row of [`Trace::states`] in which a thread waits: the first row of the whole, and the row that follows it.
    whole: QuickMap<u32, (u32, u32)>,
    /// Rows in which the thread waits for Python's lock, only to look.
    asks: QuickSet<u32>,
}

impl Rearmed {
    /// Reads the whole recording.
    pub fn new(trace: &Trace, cover: &Cover, frames: &Frames<'_>) -> Rearmed {
        let mut out = Rearmed::default();
        let wakes = wakes_by_waker(trace);
        for thread in (0..trace.threads.len() as u32).map(ThreadIx) {
            if trace.is_target(thread) {
                let own = wakes.get(&thread).map_or(&[][..], Vec::as_slice);
                out.add(trace, cover, frames, thread, own);
            }
        }
        out
    }

    /// The rows of the whole wait of which this row is a part; others are the thread's short runs.
    pub fn whole(&self, row: usize) -> Range<usize> {
        let whole = self.whole.get(&(row as u32));
        whole.map_or(row..row + 1, |&(first, end)| first as usize..end as usize)
    }

    /// Whether the wait in this row is a part of a longer one.
    pub fn is_part(&self, row: usize) -> bool {
        self.whole.contains_key(&(row as u32))
    }

    /// Whether the wait in this row is for Python's lock, only to look.
    pub fn asks(&self, row: usize) -> bool {
        self.asks.contains(&(row as u32))
    }

    /// `wakes`: when the thread woke which threads of the program, in order.
    fn add(
        &mut self,
        trace: &Trace,
        cover: &Cover,
        frames: &Frames<'_>,
        thread: ThreadIx,
        wakes: &[(Time, ThreadIx)],
    ) {
        let states = &trace.states;
        let rows = trace.threads[thread.ix()].states.clone();
        let end = rows.end as usize;
        // The waits that their limit ended, the place of all of them, and what the thread ran since the last.
        let (mut parts, mut asks): (Vec<u32>, Vec<u32>) = (Vec::new(), Vec::new());
        let mut begun = 0;
        let (mut place, mut ran) = (PathIx::NONE, 0);
        for row in rows.start as usize..end {
            let (from, state) = (states.start[row], states.state[row]);
            let to = match row + 1 < end {
                true => states.start[row + 1],
                false => trace.threads[thread.ix()].alive.end,
            };
            match state {
                ThreadState::Running => ran += (to - from).ns(),
                ThreadState::Unknown => parts.clear(),
                _ => {}
            }
            if state != ThreadState::Sleeping {
                continue;
            }
            if parts.is_empty() {
                asks.clear();
            }
            let ended = match row + 1 < end {
                true => Some(wakers::end(trace, thread, row + 1)),
                false => None,
            };
            if parts.is_empty() && ended != Some(End::Interrupt) {
                continue;
            }
            let owner = cover.between_from(&mut begun, thread, from, to).next();
            let owner = owner.map_or(Owner::NONE, |(owner, _)| owner);
            let here = place_of(trace, frames, owner);
            if let Some(&last) = parts.last() {
                let (began, limit) = (states.start[last as usize], states.start[last as usize + 1]);
                let is_short = ran <= RUNS_NS.max((limit - began).ns() / RUNS_PART);
                let is_ask = asks_to_look(trace, frames, owner) && frames.gil(place).is_none();
                if is_ask && is_short {
                    asks.push(row as u32);
                    ran = 0;
                    continue;
                }
                let has_asked = asks.last().is_some_and(|&ask| ask > last);
                let next = wakes.partition_point(|&(time, _)| time < limit);
                let mut own = wakes[next..].iter().take_while(|&&(time, _)| time <= from);
                let has_woken = own.any(|&(time, wakee)| {
                    // It had the lock meanwhile, and gave it to one that has asked for it since.
                    let waits = || blocked_at(trace, wakee, time);
                    !(has_asked && waits().is_some_and(|row| states.start[row] >= limit))
                });
                if here != place || !is_short || has_woken {
                    self.seen_with_lock(trace, thread, &parts, &asks);
                    parts.clear();
                    asks.clear();
                }
            }
            (place, ran) = (here, 0);
            match ended {
                Some(End::Interrupt) if here.is_some() => parts.push(row as u32),
                None | Some(End::Thread(_)) if !parts.is_empty() => {
                    parts.push(row as u32);
                    self.join(&parts, &asks, row as u32 + 1);
                    parts.clear();
                }
                _ => parts.clear(),
            }
        }
        self.seen_with_lock(trace, thread, &parts, &asks);
    }

    /// These are one wait, until this row.
    fn join(&mut self, parts: &[u32], asks: &[u32], end: u32) {
        let whole = (parts[0], end);
        self.asks.extend(asks.iter().copied());
        self.whole.extend(parts.iter().chain(asks).map(|&part| (part, whole)));
    }

    /// The thread looked again and again, and went on: who gave Python's lock to it at last ends the wait.
    fn seen_with_lock(&mut self, trace: &Trace, thread: ThreadIx, parts: &[u32], asks: &[u32]) {
        let end = trace.threads[thread.ix()].states.end;
        let is_given = |&&ask: &&u32| {
            let next = ask + 1;
            next < end && matches!(wakers::end(trace, thread, next as usize), End::Thread(_))
        };
        if let Some(&last) = asks.iter().rev().find(is_given) {
            let before = |rows: &[u32]| rows.partition_point(|&row| row <= last);
            let (parts, asks) = (&parts[..before(parts)], &asks[..before(asks)]);
            if parts.len() >= LEAST {
                self.join(parts, asks, last + 1);
            }
        }
    }
}

/// Where in the code the thread waits, if in a call that may have a limit.
fn place_of(trace: &Trace, frames: &Frames<'_>, owner: Owner) -> PathIx {
    let path = owner.sample().map_or(PathIx::NONE, |row| trace.samples.path[row]);
    if !path.is_some()
        || !matches!(
            frames.call(path),
            Call::Condition | Call::Poll | Call::Join | Call::Lock | Call::Read
        )
    {
        return PathIx::NONE;
    }
    // What the kernel did there may differ, and is seen in some samples only.
    let mut at = path;
    while at.is_some() && trace.frames.kind[trace.paths.frame[at.ix()].ix()] == FrameKind::Kernel {
        at = trace.paths.caller[at.ix()];
    }
    at
}

/// Whether a thread that waits so asks for Python's lock.
pub(super) fn asks_to_look(trace: &Trace, frames: &Frames<'_>, owner: Owner) -> bool {
    let path = owner.sample().map_or(PathIx::NONE, |row| trace.samples.path[row]);
    path.is_some() && frames.gil(path).is_some()
}

/// When each thread woke which threads of the program: a thread asks for each of its waits, and all wake-ups of a long one are too many to walk.
fn wakes_by_waker(trace: &Trace) -> QuickMap<ThreadIx, Vec<(Time, ThreadIx)>> {
    let wakes = &trace.wakeups;
    let mut out: QuickMap<ThreadIx, Vec<(Time, ThreadIx)>> = QuickMap::default();
    for at in 0..wakes.time.len() {
        if wakes.waker[at].is_some() && trace.is_target(wakes.wakee[at]) {
            out.entry(wakes.waker[at]).or_default().push((wakes.time[at], wakes.wakee[at]));
        }
    }
    out
}
