//! Functions that ask for a lock on behalf of several others.
//!
//! The name of a `lock(&mutex)` that the whole program calls says no more than `pthread_mutex_lock`; a function that several call
//! to look something up under its lock is the place to know. Threads wait in either for several callers. Where no thread of the
//! program ever ended such a wait, the lock was not given on: threads asked for locks in different orders, and the callers are
//! the places to know. Who gives up, because its own time came, and gives back what it had, ends the other's wait, too.
use super::calls::Call;
use super::frames::Frames;
use super::killed::Killed;
use super::turns::blocked_at;
use crate::wakers::{self, End};
use kasuri_base::quick::{QuickMap, QuickSet};
use kasuri_model::{PathIx, ThreadIx, Time, Trace};

/// A function with more waits is no dead-lock's.
const MOST: usize = 100;

/// By number of the function, see [`Frames::function`].
#[derive(Debug, Default)]
pub(super) struct Wrappers(QuickSet<u32>);

/// A wait, and who of the program ended it.
#[derive(Clone, Copy)]
struct Wait {
    thread: ThreadIx,
    from: Time,
    to: Time,
    by: Option<ThreadIx>,
}

/// What was seen of a function that asks for a lock.
#[derive(Default)]
struct Asker {
    callers: QuickSet<u32>,
    waits: Vec<Wait>,
}

impl Asker {
    /// Whether the lock is given on by one that did not wait for it itself meanwhile, until its time came.
    fn is_given(&self) -> bool {
        let ns = |from: Time, to: Time| (to - from).ns();
        let gave_up = |wait: &Wait, by: ThreadIx| {
            let own = self.waits.iter().filter(|own| own.thread == by && own.by.is_none());
            let beside = own.map(|own| ns(own.from.max(wait.from), own.to.min(wait.to)));
            beside.max().is_some_and(|most| most * 2 > ns(wait.from, wait.to))
        };
        let ended = |wait: &Wait| wait.by.is_some_and(|by| !gave_up(wait, by));
        // Who waits so often does not wait for ever.
        self.waits.len() > MOST || self.waits.iter().any(ended)
    }
}

impl Wrappers {
    /// Reads the whole recording.
    pub fn new(trace: &Trace, frames: &Frames<'_>, killed: &Killed) -> Wrappers {
        let s = &trace.samples;
        let mut of_path: QuickMap<PathIx, Option<(u32, u32)>> = QuickMap::default();
        let mut askers: QuickMap<u32, Asker> = QuickMap::default();
        for row in (0..s.time.len()).filter(|&row| s.kind[row].is_wait()) {
            let (path, thread) = (s.path[row], s.thread[row]);
            if !path.is_some() || !trace.is_target(thread) {
                continue;
            }
            let asks = *of_path.entry(path).or_insert_with(|| {
                let is_lock = frames.call(path) == Call::Lock && frames.gil(path).is_none();
                let (asker, caller) = frames.asker_and_caller(path).filter(|_| is_lock)?;
                Some((frames.function(asker), frames.function(caller)))
            });
            let Some((asker, caller)) = asks else {
                continue;
            };
            let asker = askers.entry(asker).or_default();
            asker.callers.insert(caller);
            if asker.waits.len() <= MOST
                && let Some(wait) = blocked_at(trace, thread, s.time[row])
            {
                let by = match wakers::end(trace, thread, wait + 1) {
                    End::Thread(by) if trace.is_target(by) && !killed.has(wait) => Some(by),
                    _ => None,
                };
                let (from, to) = (trace.states.start[wait], trace.states.start[wait + 1]);
                asker.waits.push(Wait { thread, from, to, by });
            }
        }
        askers.retain(|_, asker| asker.callers.len() > 1 && !asker.is_given());
        Wrappers(askers.into_keys().collect())
    }

    pub fn has(&self, function: u32) -> bool {
        self.0.contains(&function)
    }
}
