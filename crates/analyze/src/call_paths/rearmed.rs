//! Waits with a time limit that a thread begins again each time that it comes.
//!
//! `while (!done) pthread_cond_timedwait(...)`: the kernel sees many sleeps, each ended by a timer but the last. To the program it is one
//! wait, ended by whoever signals. So waits at one place in the code, between which the thread hardly ran and woke nobody, are one.
//!
//! A wait that is lengthened so has no wake-up by its thread inside of it. So whoever ended another wait meanwhile ends this one later
//! than that, and no chain of waits is endless.
use super::calls::Call;
use super::cover::{Cover, Owner};
use super::frames::Frames;
use crate::wakers::{self, End};
use kasuri_base::quick::QuickMap;
use kasuri_model::{FrameKind, PathIx, ThreadIx, ThreadState, Time, Trace};
use std::ops::Range;

/// Between two waits it may run this part of the first one, or so many ns.
const RUNS_PART: i64 = 16;
const RUNS_NS: i64 = 20_000;

/// Where such waits end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rearmed {
    /// By row of [`Trace::states`] in which a thread waits: the first row of the whole, and the row that follows it.
    whole: QuickMap<u32, (u32, u32)>,
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

    /// `wakes`: when the thread woke threads of the program, in order.
    fn add(
        &mut self,
        trace: &Trace,
        cover: &Cover,
        frames: &Frames<'_>,
        thread: ThreadIx,
        wakes: &[Time],
    ) {
        let states = &trace.states;
        let rows = trace.threads[thread.ix()].states.clone();
        let end = rows.end as usize;
        // The waits that their limit ended, the place of all of them, and what the thread ran since the last.
        let mut parts: Vec<u32> = Vec::new();
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
                let next = wakes.partition_point(|&time| time < limit);
                let has_woken = wakes.get(next).is_some_and(|&time| time <= from);
                if here != place || !is_short || has_woken {
                    parts.clear();
                }
            }
            (place, ran) = (here, 0);
            match ended {
                Some(End::Interrupt) if here.is_some() => parts.push(row as u32),
                None | Some(End::Thread(_)) if !parts.is_empty() => {
                    parts.push(row as u32);
                    let whole = (parts[0], row as u32 + 1);
                    self.whole.extend(parts.drain(..).map(|part| (part, whole)));
                }
                _ => parts.clear(),
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

/// When each thread woke threads of the program: a thread asks for each of its waits, and all wake-ups of a long one are too many to walk.
fn wakes_by_waker(trace: &Trace) -> QuickMap<ThreadIx, Vec<Time>> {
    let wakes = &trace.wakeups;
    let mut out: QuickMap<ThreadIx, Vec<Time>> = QuickMap::default();
    for at in 0..wakes.time.len() {
        if wakes.waker[at].is_some() && trace.is_target(wakes.wakee[at]) {
            out.entry(wakes.waker[at]).or_default().push(wakes.time[at]);
        }
    }
    out
}
