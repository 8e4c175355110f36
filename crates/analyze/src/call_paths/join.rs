//! Joins the account with call paths: each class of CPU time with the code that explains it.
//!
//! The account's sweep tells each stretch of a CPU's time with its cause and the threads that explain it. For most classes that is
//! two questions: what a thread did that others waited for, and where they waited. Each question is answered for the whole
//! stretch by the cover of the thread in question, so the answers of a class add up to its time.
use super::chains::{Chains, WaitChains};
use super::cover::{Cover, Owner};
use super::explained::{Explained, Gaps, explained};
use super::frames::Frames;
use super::hot::PathTime;
use super::pieces::{Pieces, Whereabouts};
use super::sampled::Sampled;
use super::waits::TOLERANCE_NS;
use crate::account::{Class, Note, Stretch};
use kasuri_base::quick::QuickMap;
use kasuri_model::{Duration, PathIx, ProcessIx, SampleKind, SliceKind, ThreadIx, Time, Trace};
use std::collections::HashMap;

/// The question that a path answers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Question {
    /// What explains the class best: the code that ran, or the call that waited.
    First = 0,
    /// The other side: what the thread did that is waited for, or where the others waited.
    Meanwhile = 1,
}

/// Time of a class without a path.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Rest {
    /// The thread ran or was blocked, and no sample with a path stands for it.
    pub unsampled: i64,
    /// There was no code: no thread is known, or it had no CPU.
    pub without_code: i64,
}

/// Times by class, question, and the thread that was asked about; none: no thread is known.
type Asked = (Class, Question, ThreadIx);

/// What is known of a question. There may be a million samples, each at a path of its own.
#[derive(Default)]
struct Times {
    /// By path, and whether the thread waited there.
    paths: QuickMap<(PathIx, bool), i64>,
    rest: Rest,
}

/// Times by class, question, thread and path.
pub(super) struct Join<'t> {
    trace: &'t Trace,
    cover: &'t Cover,
    holds: Holds,
    times: QuickMap<Asked, Times>,
    /// By thread: see [`Cover::between_from`].
    begun: Vec<usize>,
    /// Of the first question, in classes that the program's own code can explain.
    gaps: Gaps,
    /// Time of lock waits whose holders are the threads that ended them.
    pub likely_holders_ns: i64,
    /// None: not asked for.
    chains: Option<Chains<'t>>,
    /// What answers the first question at each instant, for those who want that.
    pieces: Option<Pieces>,
}

impl<'t> Join<'t> {
    pub fn new(trace: &'t Trace, cover: &'t Cover) -> Join<'t> {
        Join {
            trace,
            cover,
            holds: Holds::new(trace),
            times: QuickMap::default(),
            begun: vec![0; trace.threads.len()],
            gaps: Gaps::default(),
            likely_holders_ns: 0,
            chains: None,
            pieces: None,
        }
    }

    /// Also follows waits to those that ended them.
    pub fn with_chains(mut self, sampled: &'t Sampled) -> Join<'t> {
        self.chains = Some(Chains::new(self.trace, self.cover, sampled));
        self
    }

    /// Also keeps the answer to the first question at each instant.
    pub fn with_pieces(mut self) -> Join<'t> {
        self.pieces = Some(Pieces::default());
        self
    }

    /// See [`Join::with_pieces`].
    pub fn into_pieces(self) -> Pieces {
        self.pieces.unwrap_or_default()
    }

    /// Adds a stretch of a CPU's time.
    pub fn add(&mut self, s: &Stretch) {
        let (class, none) = (s.cause.class, ThreadIx::NONE);
        if let Some(pieces) = &mut self.pieces {
            pieces.begin(s.cpu, class, s.from);
        }
        let is_serial = s.cause.note == Note::SerialPhase;
        let is_sampled = s.cause.note == Note::BySamples;
        let (first, meanwhile) = match class {
            // Where nobody ran alone, no code explains it: who waits meanwhile is the other side.
            Class::LowParallelism | Class::LoadImbalance => (s.runner, s.waiter),
            Class::Interference | Class::Oversubscription => (s.runner, none),
            Class::Interrupts => (none, none),
            Class::LockWait | Class::WaitingForOwnThreads | Class::Spinning => (s.waiter, s.runner),
            _ => (s.waiter, none),
        };
        self.ask(class, Question::First, first, s.from, s.to);
        let is_followed = match class {
            Class::LowParallelism => is_serial,
            Class::WaitingForOwnThreads | Class::IoWait | Class::ExternalWait => true,
            Class::LockWait => is_sampled,
            _ => false,
        };
        let chains = self.chains.as_mut();
        if let Some(chains) = chains.filter(|_| is_followed && s.head.is_some()) {
            chains.add(s.cause, s.head, s.from, s.to);
        }
        match class {
            Class::LockWait if is_sampled => self.ask_likely_holders(s),
            Class::LockWait => self.ask_holders(s),
            _ => self.ask(class, Question::Meanwhile, meanwhile, s.from, s.to),
        }
    }

    /// Adds what the thread did from `from` to `to`.
    fn ask(&mut self, class: Class, question: Question, thread: ThreadIx, from: Time, to: Time) {
        let mut pieces = self.pieces.as_mut().filter(|_| question == Question::First);
        let times = self.times.entry((class, question, thread)).or_default();
        let Times { paths, rest } = times;
        if !thread.is_some() {
            rest.without_code += (to - from).ns();
            if let Some(pieces) = &mut pieces {
                pieces.add(to - from, Whereabouts::WithoutCode, false);
            }
            return;
        }
        let samples = &self.trace.samples;
        let is_woken = (class, question) == (Class::WaitingForOwnThreads, Question::Meanwhile);
        let is_own = question == Question::First && is_explained_by_own_code(class);
        let mut at = from;
        let begun = &mut self.begun[thread.ix()];
        for (owner, length) in self.cover.between_from(begun, thread, from, to) {
            let begin = at;
            at = at + length;
            let sample = owner.sample().filter(|&row| samples.path[row].is_some());
            let sample = match sample {
                None if is_woken && owner == Owner::NONE => wake_up(self.trace, thread, from, to),
                known => known,
            };
            if let Some(pieces) = &mut pieces {
                let at = match sample {
                    Some(row) => Whereabouts::At(samples.path[row]),
                    None if owner == Owner::OFF => Whereabouts::WithoutCode,
                    None => Whereabouts::Unsampled,
                };
                pieces.add(length, at, sample.is_some_and(|row| samples.is_complete[row]));
            }
            match sample {
                Some(row) => {
                    let is_wait = samples.kind[row].is_wait();
                    *paths.entry((samples.path[row], is_wait)).or_default() += length.ns();
                }
                None if owner == Owner::OFF => rest.without_code += length.ns(),
                None => {
                    rest.unsampled += length.ns();
                    if is_own {
                        self.gaps.add(self.trace, self.cover, thread, begin, at);
                    }
                }
            }
        }
    }

    /// What those did that probably held the lock meanwhile: nothing tells but the wake-ups.
    fn ask_likely_holders(&mut self, s: &Stretch) {
        self.likely_holders_ns += (s.to - s.from).ns();
        let holders = match &mut self.chains {
            Some(chains) if s.waiter.is_some() => chains.holders(s.waiter, s.from, s.to),
            _ => vec![(ThreadIx::NONE, s.from, s.to)],
        };
        for (holder, from, to) in holders {
            self.ask(Class::LockWait, Question::Meanwhile, holder, from, to);
        }
    }

    /// What those did that held the lock meanwhile.
    fn ask_holders(&mut self, s: &Stretch) {
        let process = match s.waiter.is_some() {
            true => self.trace.threads[s.waiter.ix()].process,
            false => ProcessIx::NONE,
        };
        let holds = self.holds.during(process, s.cause.object, s.from, s.to);
        let (class, question) = (Class::LockWait, Question::Meanwhile);
        let mut at = s.from;
        for hold in holds {
            let (from, to) = (hold.start.max(at), hold.end.min(s.to));
            if to > from && hold.thread != s.waiter {
                self.ask(class, question, ThreadIx::NONE, at, from);
                self.ask(class, question, hold.thread, from, to);
                at = to;
            }
        }
        self.ask(class, question, ThreadIx::NONE, at, s.to);
    }

    /// The waits of a class, and what ended them.
    pub fn chains_of(&mut self, class: Class) -> Option<WaitChains> {
        self.chains.as_mut()?.of(class)
    }

    /// What is known of the time that the program's own code can explain.
    pub fn explained(&self, frames: &mut Frames<'_>) -> Explained {
        let own = Class::ALL.into_iter().filter(|&c| is_explained_by_own_code(c));
        let times: Vec<PathTime> =
            own.flat_map(|class| self.of(class, Question::First).0).collect();
        explained(self.trace, frames, &times, &self.gaps)
    }

    /// Paths of a class, in a fixed order, and its time without one: of the threads that are wanted, of which [`ThreadIx::NONE`] may be one.
    pub fn of_threads(
        &self,
        class: Class,
        question: Question,
        is_wanted: impl Fn(ThreadIx) -> bool,
    ) -> (Vec<PathTime>, Rest) {
        let mut by_path: QuickMap<(PathIx, bool), i64> = QuickMap::default();
        let mut rest = Rest::default();
        for (asked, of_thread) in &self.times {
            if (asked.0, asked.1) != (class, question) || !is_wanted(asked.2) {
                continue;
            }
            for (&key, ns) in &of_thread.paths {
                *by_path.entry(key).or_default() += ns;
            }
            rest.unsampled += of_thread.rest.unsampled;
            rest.without_code += of_thread.rest.without_code;
        }
        let time = |((path, is_wait), ns)| PathTime { path, is_wait, ns };
        let mut times: Vec<PathTime> = by_path.into_iter().map(time).collect();
        times.sort_by_key(|time| (time.path, time.is_wait));
        (times, rest)
    }

    /// The same of all threads.
    pub fn of(&self, class: Class, question: Question) -> (Vec<PathTime>, Rest) {
        self.of_threads(class, question, |_| true)
    }

    /// Of all classes what explains them best: class, thread, path and time, in no order.
    pub fn by_thread(&self) -> impl Iterator<Item = (Class, ThreadIx, PathIx, i64)> + '_ {
        self.first().flat_map(|(class, thread, times)| {
            let paths = times.paths.iter();
            paths.map(move |(&(path, _), &ns)| (class, thread, path, ns))
        })
    }

    /// The times that [`Join::by_thread`] lacks.
    pub fn rest_by_thread(&self) -> impl Iterator<Item = (Class, ThreadIx, Rest)> + '_ {
        self.first().map(|(class, thread, times)| (class, thread, times.rest))
    }

    /// The answers to the first question of all classes.
    fn first(&self) -> impl Iterator<Item = (Class, ThreadIx, &Times)> + '_ {
        let first = self.times.iter().filter(|(asked, _)| asked.1 == Question::First);
        first.map(|(&(class, _, thread), times)| (class, thread, times))
    }
}

/// Whether the program's own code can explain a class; in the others another program had the CPU.
fn is_explained_by_own_code(class: Class) -> bool {
    !matches!(class, Class::Interference | Class::Oversubscription)
}

/// Where a thread was that ran from `from` to `to` and then ended another's wait, if it has no sample of its own: its last wake-up
/// then. A moment says nothing of what was long before it.
fn wake_up(trace: &Trace, thread: ThreadIx, from: Time, to: Time) -> Option<usize> {
    const LONGEST_NS: i64 = 1_000_000;
    if (to - from).ns() > LONGEST_NS {
        return None;
    }
    let (rows, s) = (trace.samples_of(thread), &trace.samples);
    let until = to + Duration(TOLERANCE_NS);
    let end = rows.start + s.time[rows.clone()].partition_point(|&time| time <= until);
    let mut inside = (rows.start..end).rev().take_while(|&row| s.time[row] >= from);
    inside.find(|&row| s.kind[row] == SampleKind::Waker && s.path[row].is_some())
}

/// One holding of a lock.
#[derive(Clone, Copy, Debug)]
struct Hold {
    start: Time,
    end: Time,
    thread: ThreadIx,
    /// The latest end of this hold and those before it.
    latest: Time,
}

/// Holds by lock, in order of their starts.
struct Holds(HashMap<(ProcessIx, u64), Vec<Hold>>);

impl Holds {
    fn new(trace: &Trace) -> Holds {
        let s = &trace.slices;
        let mut holds: HashMap<(ProcessIx, u64), Vec<Hold>> = HashMap::new();
        let held = (0..s.start.len()).filter(|&row| s.kind[row] == SliceKind::LockHold);
        for row in held {
            let process = trace.threads[s.thread[row].ix()].process;
            holds.entry((process, s.object[row])).or_default().push(Hold {
                start: s.start[row],
                end: s.end[row],
                thread: s.thread[row],
                latest: Time::MIN,
            });
        }
        for of_lock in holds.values_mut() {
            of_lock.sort_by_key(|hold| (hold.start, hold.thread));
            let mut latest = Time::MIN;
            for hold in of_lock {
                latest = latest.max(hold.end);
                hold.latest = latest;
            }
        }
        Holds(holds)
    }

    /// Holds of a lock that touch from..to.
    fn during(&self, process: ProcessIx, object: u64, from: Time, to: Time) -> Vec<Hold> {
        let all = self.0.get(&(process, object)).map_or(&[][..], |holds| holds);
        let first = all.partition_point(|hold| hold.latest <= from);
        let begun = all[first..].iter().take_while(|hold| hold.start < to);
        begun.filter(|hold| hold.end > from).copied().collect()
    }
}
