//! Naps between tries: `while (!done) usleep(500);`
//!
//! The kernel sees sleeps that the program chose. To the program they are one wait, for something that another thread does and that no
//! wake-up tells. So naps at one place in the code, of which the thread only looked between one and the next, and after the last of which
//! it went on to something else, are a wait. Who looks in Python asks for the global lock each time, and that is a part of looking. A thread that does a little at regular times never goes on to anything else.
use super::calls::Call;
use super::cover::{Cover, Owner};
use super::frames::Frames;
use super::rearmed::asks_to_look;
use crate::wakers::{self, End};
use kasuri_base::quick::QuickSet;
use kasuri_model::{PathIx, StrIx, ThreadIx, ThreadState, Trace};

/// So many naps are tries, at least.
const LEAST: usize = 4;
/// To look takes no longer than this between two naps, or than this part of a nap.
const LOOK_NS: i64 = 50_000;
const LOOK_PART: i64 = 32;
/// What it goes on to takes so many times as long as it ever took to look.
const GOES_ON: i64 = 8;

/// Naps that are tries.
#[derive(Clone, Debug, Default)]
pub(crate) struct Polls {
    /// Rows of [`Trace::states`].
    naps: QuickSet<u32>,
    /// The same where the thread waits for Python's lock, only to look; they are in `naps`, too.
    asks: QuickSet<u32>,
}

/// A series of naps of one thread.
#[derive(Default)]
struct Series {
    naps: Vec<u32>,
    asks: Vec<u32>,
    /// The function that naps.
    at: StrIx,
    /// The longest look between two of them, and what the thread ran since the last one.
    look: i64,
    ran: i64,
}

impl Polls {
    /// Reads the whole recording.
    pub fn new(trace: &Trace, cover: &Cover, frames: &Frames<'_>) -> Polls {
        let mut out = Polls::default();
        let threads = (0..trace.threads.len() as u32).map(ThreadIx);
        for thread in threads.filter(|&thread| trace.is_target(thread)) {
            out.add(trace, cover, frames, thread);
        }
        out
    }

    /// Whether the sleep in this row is one of them.
    pub fn is_part(&self, row: usize) -> bool {
        self.naps.contains(&(row as u32))
    }

    /// Whether the wait in this row is for Python's lock, only to look.
    pub fn asks(&self, row: usize) -> bool {
        self.asks.contains(&(row as u32))
    }

    fn add(&mut self, trace: &Trace, cover: &Cover, frames: &Frames<'_>, thread: ThreadIx) {
        let rows = trace.threads[thread.ix()].states.clone();
        let (mut series, mut begun) = (Series::default(), 0);
        for (row, state) in (rows.start..).zip(trace.states_of(thread)) {
            let length = (state.end - state.start).ns();
            match state.state {
                ThreadState::Running => series.ran += length,
                ThreadState::Unknown => series = Series::default(),
                state if state.is_runnable() => {}
                ThreadState::Sleeping => {
                    let by_timer = row + 1 < rows.end
                        && wakers::end(trace, thread, row as usize + 1) == End::Interrupt;
                    let owner =
                        cover.between_from(&mut begun, thread, state.start, state.end).next();
                    let is_ask = owner.is_some_and(|(owner, _)| asks_to_look(trace, frames, owner));
                    if is_ask && !series.naps.is_empty() {
                        series.asks.push(row);
                        continue;
                    }
                    let at = match owner {
                        Some((owner, _)) if by_timer => naps_in(trace, frames, owner),
                        _ => StrIx::NONE,
                    };
                    let is_look = series.ran <= LOOK_NS.max(length / LOOK_PART);
                    let is_first = series.naps.is_empty();
                    if !is_first && (at != series.at || !is_look) {
                        let elsewhere = at != series.at;
                        self.keep(&mut series, elsewhere);
                    } else if !is_first {
                        series.look = series.look.max(series.ran);
                    }
                    if at.is_some() {
                        series.naps.push(row);
                        series.at = at;
                    }
                    series.ran = 0;
                }
                _ => self.keep(&mut series, true),
            }
        }
        self.keep(&mut series, true);
    }

    /// The series has ended; `elsewhere`: with a wait at another place, or the thread.
    fn keep(&mut self, series: &mut Series, elsewhere: bool) {
        let done = std::mem::take(series);
        let goes_on = elsewhere || done.ran >= done.look.saturating_mul(GOES_ON);
        if done.naps.len() >= LEAST && goes_on {
            self.asks.extend(done.asks.iter().copied());
            self.naps.extend(done.naps.into_iter().chain(done.asks));
        }
    }
}

/// The function that naps, if the sample of the wait says that.
fn naps_in(trace: &Trace, frames: &Frames<'_>, owner: Owner) -> StrIx {
    let path = owner.sample().map_or(PathIx::NONE, |row| trace.samples.path[row]);
    match path.is_some() && frames.call(path) == Call::Sleep {
        true => frames.caller(path).map_or(StrIx::NONE, |at| trace.frames.function[at.ix()]),
        false => StrIx::NONE,
    }
}
