//! Functions that ask for a lock on behalf of several others.
//!
//! The name of a `lock(&mutex)` that the whole program calls says no more than `pthread_mutex_lock`; a function that several call
//! to look something up under its lock is the place to know. Threads wait in either for several callers. Where no thread of the
//! program ever ended such a wait, the lock was not given on: threads asked for locks in different orders, and the callers are
//! the places to know.
use super::calls::Call;
use super::frames::Frames;
use super::killed::Killed;
use super::turns::blocked_at;
use crate::wakers::{self, End};
use kasuri_base::quick::{QuickMap, QuickSet};
use kasuri_model::{PathIx, Trace};

/// By number of the function, see [`Frames::function`].
#[derive(Debug, Default)]
pub(super) struct Wrappers(QuickSet<u32>);

/// What was seen of a function that asks for a lock.
#[derive(Default)]
struct Asker {
    callers: QuickSet<u32>,
    /// A thread of the program ended a wait in it.
    is_given: bool,
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
            if !asker.is_given
                && let Some(wait) = blocked_at(trace, thread, s.time[row])
                && !killed.has(wait)
            {
                let end = wakers::end(trace, thread, wait + 1);
                asker.is_given = matches!(end, End::Thread(by) if trace.is_target(by));
            }
        }
        askers.retain(|_, asker| asker.callers.len() > 1 && !asker.is_given);
        Wrappers(askers.into_keys().collect())
    }

    pub fn has(&self, function: u32) -> bool {
        self.0.contains(&function)
    }
}
