//! All times by thread and call path: what other tools' formats of profiles hold.
//!
//! Each nanosecond that a thread of the program ran or was blocked is in one row, and so is each that the account charges to a class.
use super::cover::{Cover, Owner};
use super::join::Join;
use super::pieces::Whereabouts;
use crate::account::{Account, Class, Stretch};
use crate::{Options, Session};
use kasuri_model::{Duration, PathIx, SampleKind, ThreadIx, ThreadState, Time, Trace};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// What a time is a part of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TimeOf {
    /// The time that the thread was on a CPU.
    OnCpu,
    /// The time that it was blocked: asleep, in uninterruptible sleep, stopped, idle or dead.
    Blocked,
    /// CPU time of a class of the account; the row's thread is the one whose code explains it.
    Class(Class),
}

/// Time of a thread at a call path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ThreadTime {
    /// What it is a part of.
    pub of: TimeOf,
    /// The thread; none: the class says nothing of a thread.
    pub thread: ThreadIx,
    /// Where it was.
    pub at: Whereabouts,
    /// ns, above 0 where there is no sample.
    pub ns: i64,
    /// Samples that were taken there; 0 in classes, whose time is that of samples counted elsewhere.
    pub samples: u64,
}

type Rows = BTreeMap<(TimeOf, ThreadIx, Whereabouts), (i64, u64)>;

/// All times of the program's threads, and of all classes, over the whole recording; no two rows differ in time and samples alone. The rows of a thread
/// [on a CPU](TimeOf::OnCpu) and [blocked](TimeOf::Blocked) add up to its states, those of a class to the account. A profile with weights of its own has
/// no states: its times are what it says, and it has no classes.
pub fn thread_times(trace: &Trace) -> Vec<ThreadTime> {
    let session = Session::new(trace, &Options::default());
    let mut rows = Rows::new();
    for thread in (0..trace.threads.len() as u32).map(ThreadIx) {
        if trace.is_target(thread) {
            count_samples(trace, thread, &mut rows);
            add_states(trace, session.cover(), thread, &mut rows);
        }
    }
    if !trace.is_weighed() {
        add_classes(&session, &mut rows);
    }
    let used = rows.into_iter().filter(|(_, value)| *value != (0, 0));
    let row = |((of, thread, at), (ns, samples))| ThreadTime { of, thread, at, ns, samples };
    used.map(row).collect()
}

/// Adds the samples of a thread, with their weights where the file has them.
fn count_samples(trace: &Trace, thread: ThreadIx, rows: &mut Rows) {
    let s = &trace.samples;
    for row in trace.samples_of(thread) {
        let of = match s.kind[row] {
            SampleKind::OnCpu => TimeOf::OnCpu,
            SampleKind::Waker => continue,
            _ => TimeOf::Blocked,
        };
        let value = rows.entry((of, thread, whereabouts(s.path[row]))).or_default();
        value.0 += s.weight.get(row).map_or(0, |weight| weight.ns());
        value.1 += 1;
    }
}

fn whereabouts(path: PathIx) -> Whereabouts {
    match path.is_some() {
        true => Whereabouts::At(path),
        false => Whereabouts::Unsampled,
    }
}

/// A part of a thread's time, in one state and at one call path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StatePart {
    /// When it begins.
    pub from: Time,
    /// When it ends.
    pub to: Time,
    /// The thread's state.
    pub state: ThreadState,
    /// Where the thread was; a thread that neither ran nor was blocked had no code.
    pub at: Whereabouts,
}

impl StatePart {
    /// The time that it is a part of; none: the thread neither ran nor was blocked.
    pub fn of(&self) -> Option<TimeOf> {
        match self.state {
            ThreadState::Running => Some(TimeOf::OnCpu),
            state if state.is_blocked() => Some(TimeOf::Blocked),
            _ => None,
        }
    }

    /// Its length.
    pub fn length(&self) -> Duration {
        self.to - self.from
    }
}

/// The parts of a thread's time, in order and without gaps: its states, each cut where another sample begins to stand for it.
pub fn state_parts<'a>(
    trace: &'a Trace,
    cover: &'a Cover,
    thread: ThreadIx,
) -> impl Iterator<Item = StatePart> + 'a {
    trace.states_of(thread).flat_map(move |row| {
        let mut from = row.start;
        let has_code = row.state == ThreadState::Running || row.state.is_blocked();
        cover.between(thread, row.start, row.end).map(move |(owner, length)| {
            let at = match has_code {
                true => place(trace, owner),
                false => Whereabouts::WithoutCode,
            };
            let part = StatePart { from, to: from + length, state: row.state, at };
            from = part.to;
            part
        })
    })
}

/// Adds the time that a thread ran or was blocked.
fn add_states(trace: &Trace, cover: &Cover, thread: ThreadIx, rows: &mut Rows) {
    for part in state_parts(trace, cover, thread) {
        if let Some(of) = part.of() {
            rows.entry((of, thread, part.at)).or_default().0 += part.length().ns();
        }
    }
}

fn place(trace: &Trace, owner: Owner) -> Whereabouts {
    let path = owner.sample().map(|row| trace.samples.path[row]);
    whereabouts(path.unwrap_or_default())
}

/// Adds the account.
fn add_classes(session: &Session<'_>, rows: &mut Rows) {
    let trace = session.trace();
    let join = RefCell::new(Join::new(trace, session.cover()));
    let add = |stretch: &Stretch| join.borrow_mut().add(stretch);
    let range = Time::MIN..Time::MAX;
    Account::telling(trace, range, session.sampled(), Some(Box::new(add)));
    let join = join.into_inner();
    let mut put = |class, thread, at, ns: i64| {
        rows.entry((TimeOf::Class(class), thread, at)).or_default().0 += ns;
    };
    for (class, thread, path, ns) in join.by_thread() {
        put(class, thread, whereabouts(path), ns);
    }
    for (class, thread, rest) in join.rest_by_thread() {
        put(class, thread, Whereabouts::Unsampled, rest.unsampled);
        put(class, thread, Whereabouts::WithoutCode, rest.without_code);
    }
}
