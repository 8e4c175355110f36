//! A recording and the answers about it: each is made once, when it is first asked for, and so is what several of them are made of.
//!
//! A command that wants more than one answer asks one session for all of them: the cover of a million samples, the sweep of the account
//! and the acquisitions of locks are then read once. The constructors of these are private to this crate, so that nothing else makes them.
use crate::Stat;
use crate::account::Account;
use crate::at_end::AtEnd;
use crate::call_paths::{Cover, OffWork, Piece, Sampled};
use crate::cut::{Cut, Options};
use crate::locks::{Locks, Read};
use crate::summary::Summary;
use kasuri_model::Trace;
use std::cell::OnceCell;

/// See the [module](self).
pub struct Session<'t> {
    trace: &'t Trace,
    options: Options,
    cover: OnceCell<Cover>,
    sampled: OnceCell<Sampled>,
    off_work: OnceCell<OffWork>,
    stat: OnceCell<Stat>,
    read: OnceCell<Read>,
    locks: OnceCell<Locks>,
}

/// What a report draws, without the session that it is from.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// See [`Session::summary`].
    pub summary: Summary,
    /// The account, of the same range.
    pub account: Account,
    /// Its time in pieces, see [`Options::pieces`].
    pub pieces: Vec<Piece>,
    /// The samples that instants belong to.
    pub cover: Cover,
    /// See [`Session::locks`].
    pub locks: Locks,
}

impl<'t> Session<'t> {
    /// Reads nothing yet.
    pub fn new(trace: &'t Trace, options: &Options) -> Session<'t> {
        Session {
            trace,
            options: options.clone(),
            cover: OnceCell::new(),
            sampled: OnceCell::new(),
            off_work: OnceCell::new(),
            stat: OnceCell::new(),
            read: OnceCell::new(),
            locks: OnceCell::new(),
        }
    }

    /// The recording.
    pub fn trace(&self) -> &'t Trace {
        self.trace
    }

    /// The part of the recording that is looked at.
    pub(crate) fn cut(&self) -> Cut<'t> {
        Cut::new(self.trace, &self.options)
    }

    /// The samples that instants belong to, over the whole recording.
    pub fn cover(&self) -> &Cover {
        self.cover.get_or_init(|| Cover::new(self.trace))
    }

    /// What samples say of running and waiting threads, over the whole recording.
    pub(crate) fn sampled(&self) -> &Sampled {
        let made = || Sampled::new(self.trace, self.cover());
        self.sampled.get_or_init(made)
    }

    /// When threads ran without doing the program's work, over the whole recording.
    pub fn off_work(&self) -> &OffWork {
        let made = || OffWork::new(self.trace, self.sampled());
        self.off_work.get_or_init(made)
    }

    fn stat(&self) -> &Stat {
        let made = || crate::stat(&self.cut(), self.cover(), self.sampled());
        self.stat.get_or_init(made)
    }

    /// The recording in numbers: every table, unabridged. Never fails: what is not known is 0 or none, see [`crate::Known`].
    pub fn summary(&self) -> &Summary {
        &self.stat().summary
    }

    /// Each acquisition of a lock that touches the range.
    pub(crate) fn read(&self) -> &Read {
        self.read.get_or_init(|| Read::new(&self.cut()))
    }

    /// Whether some lock was waited for and no hold of it is recorded, without making [`Session::locks`].
    pub fn waits_for_unheld(&self) -> bool {
        crate::locks::waits_for_unheld(&self.cut())
    }

    /// The locks of the target (of all processes when the options say so).
    pub fn locks(&self) -> &Locks {
        let made = || crate::locks::answer(&self.cut(), self.read());
        self.locks.get_or_init(made)
    }

    /// What each thread of the program does when the recording ends; none: the recorder did not look.
    pub fn at_end(&self) -> Option<AtEnd> {
        crate::at_end::at_end(self.trace, self.cover())
    }

    /// All that a report draws.
    pub fn into_answers(self) -> Answers {
        self.stat();
        self.locks();
        self.cover();
        let stat = self.stat.into_inner().unwrap_or_default();
        Answers {
            summary: stat.summary,
            account: stat.account,
            pieces: stat.pieces,
            cover: self.cover.into_inner().unwrap_or_default(),
            locks: self.locks.into_inner().unwrap_or_default(),
        }
    }
}

impl std::fmt::Debug for Session<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("options", &self.options).finish_non_exhaustive()
    }
}

/// The summary, where no other answer is asked for. See [`Session::summary`].
pub fn summary(trace: &Trace, options: &Options) -> Summary {
    let session = Session::new(trace, options);
    session.stat();
    session.stat.into_inner().unwrap_or_default().summary
}

/// The locks, where no other answer is asked for. See [`Session::locks`].
pub fn locks(trace: &Trace, options: &Options) -> Locks {
    let session = Session::new(trace, options);
    session.locks();
    session.locks.into_inner().unwrap_or_default()
}
