//! What samples say of a thread's time: on a CPU, where that was no work, spinning, or in a task runtime; asleep, waiting for a lock, or for a
//! time that the program chose.
//!
//! The account's sweep knows that a thread runs or sleeps, not where. A sample stands for the instants around it (`cover`), so they
//! are what its path says; an instant without a sample is what it would be without samples at all.
use super::calls::Call;
use super::cover::Cover;
use super::frames::{Frames, NotWork};
use super::killed::Killed;
use super::phases::Phases;
use super::polls::Polls;
use super::rearmed::Rearmed;
use super::wrappers::Wrappers;
use crate::account::Class;
use crate::account::track::{NONE, Track};
use crate::languages;
use kasuri_base::quick::QuickMap;
use kasuri_model::{FrameIx, PathIx, StrIx, ThreadIx, Time, Trace};

/// A place in the code at which no work is done.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Place {
    /// On a CPU.
    pub is_awake: bool,
    /// `Spinning`, `TaskRuntime`, `LockWait`; asleep `LockWait`, `LoadImbalance` at a barrier, `ExternalWait` for a time that it chose,
    /// and `LowParallelism` where a runtime's own thread has nothing to do.
    pub class: Class,
    /// `Spinning`: the function that was called to wait. Asleep: the function that asks for the lock, or to sleep, or has the barrier (see [`Frames::asker`]).
    pub name: StrIx,
    /// `Spinning`: the function that called it, or spins itself. `TaskRuntime`: the library. `LockWait`: what is the lock, see [`Frames::lock`].
    pub code: StrIx,
}

/// Where a runtime's own thread waits for something to do.
const IDLE: Place =
    Place { is_awake: false, class: Class::LowParallelism, name: StrIx::NONE, code: StrIx::NONE };

/// Of each thread, when it was at which place.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sampled {
    /// By row of [`Trace::threads`]. Value: row of `places`. It says nothing about times at which the thread is ready.
    pub tracks: Vec<Track>,
    pub places: Vec<Place>,
    /// Waits with a limit that are parts of longer ones.
    pub rearmed: Rearmed,
    /// Naps between tries.
    pub polls: Polls,
    /// Waits that only the end of the process ended.
    pub killed: Killed,
    /// When threads ran what others ran, too.
    pub phases: Phases,
}

impl Sampled {
    /// Nothing is known.
    pub fn none(trace: &Trace) -> Sampled {
        Sampled {
            tracks: vec![Track::default(); trace.threads.len()],
            places: Vec::new(),
            rearmed: Rearmed::default(),
            polls: Polls::default(),
            killed: Killed::default(),
            phases: Phases::default(),
        }
    }

    /// Reads the whole recording.
    pub fn new(trace: &Trace, cover: &Cover) -> Sampled {
        crate::built::count(crate::built::Built::Sampled);
        let mut out = Sampled::none(trace);
        if trace.samples.time.is_empty() {
            return out;
        }
        let frames = Frames::new(trace);
        out.rearmed = Rearmed::new(trace, cover, &frames);
        out.polls = Polls::new(trace, cover, &frames);
        out.killed = Killed::new(trace, cover, &frames);
        out.phases = Phases::new(trace, cover, &frames, &out.polls, |path| frames.spins(path));
        let wrappers = Wrappers::new(trace, &frames, &out.killed);
        let mut rows: QuickMap<Place, u32> = QuickMap::default();
        let mut of_path: QuickMap<(PathIx, bool, bool), u32> = QuickMap::default();
        for thread in (0..trace.threads.len() as u32).map(ThreadIx) {
            if !trace.is_target(thread) {
                continue;
            }
            let name = trace.strings.get(trace.threads[thread.ix()].name);
            let serves_java = languages::serves_java(name);
            let track = &mut out.tracks[thread.ix()];
            for (start, owner) in cover.stretches(thread) {
                let sample = owner.sample();
                let sample = sample.filter(|&row| trace.samples.path[row].is_some());
                let value = match sample
                    .map(|row| (trace.samples.path[row], trace.samples.kind[row]))
                {
                    Some((path, kind)) => {
                        let key = (path, kind.is_wait(), serves_java);
                        *of_path.entry(key).or_insert_with(|| {
                            let place = match kind.is_wait() {
                                true if serves_java && waits_in_java(&frames, path) => Some(IDLE),
                                true => wait(trace, &frames, &wrappers, path),
                                false => place(trace, &frames, path),
                            };
                            let Some(place) = place else {
                                return NONE;
                            };
                            *rows.entry(place).or_insert_with(|| {
                                out.places.push(place);
                                out.places.len() as u32 - 1
                            })
                        })
                    }
                    None => NONE,
                };
                track.change_to(start, value);
            }
        }
        out
    }

    /// The row of `places` at which the thread sleeps, which is blocked at `now`; [`NONE`]: it is not known.
    pub fn wait(&self, thread: usize, now: Time) -> u32 {
        let row = self.tracks[thread].get(now).0;
        match self.class(row) {
            Some(_) if !self.is_awake(row) => row,
            _ => NONE,
        }
    }

    /// Whether a thread waits in this row of [`Trace::states`] for Python's lock only to look whether something is so: it is
    /// that for which it waits.
    pub fn asks_to_look(&self, row: usize) -> bool {
        self.rearmed.asks(row) || self.polls.asks(row)
    }

    /// The class of a row of `places`; none for [`NONE`].
    pub fn class(&self, row: u32) -> Option<Class> {
        self.places.get(row as usize).map(|place| place.class)
    }

    /// Whether the thread, which runs at `now`, is spinning: for another thread, or for a lock.
    pub fn is_spinning(&self, thread: usize, now: Time) -> bool {
        let row = self.tracks[thread].get(now).0;
        self.is_awake(row) && self.class(row) != Some(Class::TaskRuntime)
    }

    /// Whether a row of `places` is one on a CPU.
    pub fn is_awake(&self, row: u32) -> bool {
        self.places.get(row as usize).is_some_and(|place| place.is_awake)
    }
}

/// Whether a Java machine's thread waits here, and not for a lock that finalisers of the program may ask for.
fn waits_in_java(frames: &Frames<'_>, path: PathIx) -> bool {
    frames.is_in_java(path) && frames.call(path) != Call::Lock
}

/// What a blocked thread at this path waits for: a lock, the others at a barrier, or a time that it chose.
fn wait(trace: &Trace, frames: &Frames<'_>, wrappers: &Wrappers, path: PathIx) -> Option<Place> {
    let class = match frames.call(path) {
        Call::Lock => Class::LockWait,
        Call::Sleep => Class::ExternalWait,
        _ if frames.is_barrier(path) => Class::LoadImbalance,
        _ if frames.is_idle(path) => Class::LowParallelism,
        _ => return None,
    };
    let asks = frames.asker_and_caller(path).filter(|_| class == Class::LockWait);
    let caller = asks.filter(|&(asker, _)| wrappers.has(frames.function(asker)));
    Some(Place {
        is_awake: false,
        class,
        name: match caller {
            Some((_, caller)) => trace.frames.function[caller.ix()],
            None => frames.asker(path),
        },
        code: match class {
            Class::LockWait => frames.lock(path),
            _ => StrIx::NONE,
        },
    })
}

fn place(trace: &Trace, frames: &Frames<'_>, path: PathIx) -> Option<Place> {
    let function =
        |frame: Option<FrameIx>| frame.map_or(StrIx::NONE, |f| trace.frames.function[f.ix()]);
    Some(match frames.not_work(path)? {
        NotWork::Spin { at, by } if at.is_some_and(|at| frames.asks_for_lock(at)) => {
            Place { is_awake: true, class: Class::LockWait, name: function(by), code: StrIx::NONE }
        }
        NotWork::Spin { at, by } => {
            Place { is_awake: true, class: Class::Spinning, name: function(at), code: function(by) }
        }
        NotWork::Runtime(frame) => Place {
            is_awake: true,
            class: Class::TaskRuntime,
            name: StrIx::NONE,
            code: trace.frames.module[frame.ix()],
        },
    })
}
