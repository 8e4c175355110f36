//! A recording, and the answers about it that tables need: each worked out when first asked for.
use kasuri_analyze::{Acquired, Options, Session, Summary};
use kasuri_model::{ProcessIx, ThreadIx, Trace};
use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap};

/// The source of all tables.
pub struct Source<'t> {
    session: Session<'t>,
    labels: BTreeMap<String, String>,
    acquisitions: OnceCell<Acquisitions>,
}

/// Acquisitions, and the locks they are of in the order of their ids.
pub(crate) struct Acquisitions {
    pub all: Vec<Acquired>,
    pub names: HashMap<(ProcessIx, u64), String>,
    pub locks: Vec<(ProcessIx, u64)>,
}

impl<'t> Source<'t> {
    /// The tables of `trace`. `labels`: what to know the run by, beside what the recording says itself.
    pub fn new(trace: &'t Trace, labels: BTreeMap<String, String>) -> Source<'t> {
        let options = Options { all_processes: true, omits_moves: true, ..Options::default() };
        Source { session: Session::new(trace, &options), labels, acquisitions: OnceCell::new() }
    }

    /// The recording.
    pub fn trace(&self) -> &'t Trace {
        self.session.trace()
    }

    /// The answers about all of its processes.
    pub(crate) fn session(&self) -> &Session<'t> {
        &self.session
    }

    /// The run's labels.
    pub fn labels(&self) -> &BTreeMap<String, String> {
        &self.labels
    }

    pub(crate) fn summary(&self) -> &Summary {
        self.session.summary()
    }

    pub(crate) fn acquisitions(&self) -> &Acquisitions {
        self.acquisitions.get_or_init(|| {
            let all = self.session.acquisitions().collect();
            let names = self.session.lock_names();
            let known = self.trace().locks.iter().map(|l| (l.process, l.object));
            let mut locks: Vec<_> = names.keys().copied().chain(known).collect();
            locks.sort_unstable();
            locks.dedup();
            Acquisitions { all, names, locks }
        })
    }

    pub(crate) fn pid(&self, process: ProcessIx) -> i32 {
        self.trace().processes.get(process.ix()).map_or(-1, |process| process.pid)
    }

    /// (pid, tid).
    pub(crate) fn pid_tid(&self, thread: ThreadIx) -> (i32, i32) {
        match self.trace().threads.get(thread.ix()) {
            Some(row) => (self.pid(row.process), row.tid),
            None => (-1, -1),
        }
    }
}

impl Acquisitions {
    pub fn id_of(&self, process: ProcessIx, object: u64) -> Option<i64> {
        let at = self.locks.binary_search(&(process, object)).ok()?;
        Some(at as i64)
    }
}

impl std::fmt::Debug for Source<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source").field("labels", &self.labels).finish_non_exhaustive()
    }
}
