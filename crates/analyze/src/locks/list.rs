//! Acquisitions one by one, for tables.
use super::holds;
use crate::session::Session;
use kasuri_model::{ProcessIx, StrIx, ThreadIx, Time};
use std::collections::HashMap;
use std::ops::Range;

/// One acquisition of a lock, or a wait that led to none.
#[derive(Clone, Debug, PartialEq)]
pub struct Acquired {
    /// The thread.
    pub thread: ThreadIx,
    /// The lock's process.
    pub process: ProcessIx,
    /// Its address.
    pub object: u64,
    /// Place that asked for it, when known.
    pub site: StrIx,
    /// Requested..acquired; none: the request was not seen.
    pub wait: Option<Range<Time>>,
    /// Acquired..released; none: given up.
    pub hold: Option<Range<Time>>,
    /// Of the hold, ns: on a CPU...
    pub hold_cpu_ns: i64,
    /// ...ready without one...
    pub hold_preempted_ns: i64,
    /// ...asleep...
    pub hold_blocked_ns: i64,
    /// ...not known.
    pub hold_unknown_ns: i64,
    /// Of the wait, ns: on a CPU.
    pub wait_spin_ns: i64,
}

impl Session<'_> {
    /// Each acquisition that touches the range, by thread in order of the requests.
    pub fn acquisitions(&self) -> impl Iterator<Item = Acquired> {
        self.read().all.iter().map(|a| Acquired {
            thread: a.thread,
            process: a.lock.0,
            object: a.lock.1,
            site: a.site,
            wait: a.wait.map(|(from, to)| from..to),
            hold: a.hold.map(|(from, to)| from..to),
            hold_cpu_ns: a.running_ns,
            hold_preempted_ns: a.preempted_ns,
            hold_blocked_ns: a.blocked_ns,
            hold_unknown_ns: a.unknown_ns,
            wait_spin_ns: a.spun_ns,
        })
    }

    /// What their locks are called.
    pub fn lock_names(&self) -> HashMap<(ProcessIx, u64), String> {
        holds::names(self.trace(), self.read())
    }
}
