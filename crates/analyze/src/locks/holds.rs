//! Slices -> acquisitions: each with its wait, its hold, and what its thread did during both.
use crate::cut::Cut;
use kasuri_base::quick::{Numbers, QuickMap};
use kasuri_model::{ProcessIx, SliceKind, StrIx, TaskIx, ThreadIx, ThreadState, Time, Trace, open};
use std::cell::Cell;
use std::collections::{HashMap, HashSet};

/// A lock: its process and address.
pub(super) type LockKey = (ProcessIx, u64);

/// The owner of a lock: a task of a runtime, wherever it runs, else a thread.
pub(super) type Owner = (TaskIx, ThreadIx);

/// One acquisition, or a wait that led to none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Acquisition {
    /// The thread on which it was taken.
    pub thread: ThreadIx,
    /// The task that took it, if one did.
    pub task: TaskIx,
    pub lock: LockKey,
    /// The lock's row in [`Read::locks`].
    pub lock_ix: u32,
    /// Place that asked for it, when known.
    pub site: StrIx,
    /// Requested..acquired; none: not seen.
    pub wait: Option<(Time, Time)>,
    /// Acquired..released; none: given up.
    pub hold: Option<(Time, Time)>,
    pub running_ns: i64,
    pub preempted_ns: i64,
    pub blocked_ns: i64,
    pub unknown_ns: i64,
    /// On a CPU while waiting.
    pub spun_ns: i64,
    /// Held together with others.
    pub is_shared: bool,
    /// On a CPU in the part of the hold that no earlier hold of its owner covers: of nested holds each moment counts once.
    pub inside_ns: i64,
}

impl Acquisition {
    /// One of which neither wait nor hold is filled in.
    fn of(span: &Span, lock_ix: u32) -> Acquisition {
        Acquisition {
            thread: span.thread,
            task: span.owner.0,
            lock: span.lock,
            lock_ix,
            site: StrIx::NONE,
            wait: None,
            hold: None,
            running_ns: 0,
            preempted_ns: 0,
            blocked_ns: 0,
            unknown_ns: 0,
            spun_ns: 0,
            is_shared: false,
            inside_ns: 0,
        }
    }

    pub fn owner(&self) -> Owner {
        owner(self.task, self.thread)
    }

    pub fn hold_ns(&self) -> Option<i64> {
        self.hold.map(|(a, b)| (b - a).ns())
    }

    pub fn wait_ns(&self) -> Option<i64> {
        self.wait.map(|(a, b)| (b - a).ns())
    }
}

/// Acquisitions read from a recording.
pub(crate) struct Read {
    /// By thread, in order of the requests.
    pub(super) all: Vec<Acquisition>,
    /// The locks in order, with their names.
    pub(super) locks: Vec<(LockKey, StrIx)>,
}

fn owner(task: TaskIx, thread: ThreadIx) -> Owner {
    match task.is_some() {
        true => (task, ThreadIx::NONE),
        false => (TaskIx::NONE, thread),
    }
}

/// A wait or a hold, or the part of one between two suspensions of its task.
#[derive(Clone, Copy)]
pub(super) struct Span {
    pub owner: Owner,
    pub lock: LockKey,
    pub kind: SliceKind,
    pub name: StrIx,
    pub from: Time,
    pub to: Time,
    thread: ThreadIx,
    site: StrIx,
    open: u8,
    /// Running, ready, asleep, unknown.
    states: [i64; 4],
}

impl Read {
    /// All acquisitions that touch the range, cut to it.
    pub(crate) fn new(cut: &Cut<'_>) -> Read {
        crate::built::count(crate::built::Built::Acquisitions);
        let reader =
            Reader::new(cut, |kind| matches!(kind, SliceKind::LockWait | SliceKind::LockHold));
        let mut pairing = Pairing {
            all: Vec::with_capacity(reader.most()),
            locks: Numbers::default(),
            names: Vec::new(),
            owner: None,
            waits: HashMap::new(),
            outer: QuickMap::default(),
            covered: Time::MIN,
            states: StatesOf::new(cut.trace),
        };
        if cut.trace.tasks.is_empty() {
            // Each thread owns its own: one at a time takes the memory of one.
            let mut spans = Vec::new();
            for thread in reader.threads() {
                reader.read(thread, &mut spans);
                spans = joined(spans);
                pairing.add_all(&mut spans);
                spans.clear();
            }
        } else {
            pairing.add_all(&mut reader.all());
        }
        pairing.finish()
    }
}

/// Whether some lock was waited for and has no hold. Holds may be very many, and locks that were waited for are few.
pub(crate) fn waits_for_unheld(cut: &Cut<'_>) -> bool {
    let s = &cut.trace.slices;
    let threads = || cut.threads().filter(|&t| cut.is_shown(t));
    let rows_of = |kind| {
        threads().flat_map(move |thread| {
            let info = &cut.trace.threads[thread.ix()];
            let rows = info.slices.start as usize..info.slices.end as usize;
            let wanted = rows.filter(move |&row| s.kind[row] == kind);
            let touching = wanted.filter(|&row| cut.touches(s.start[row], s.end[row]));
            touching.map(|row| (row, (info.process, s.object[row])))
        })
    };
    let waits = rows_of(SliceKind::LockWait).map(|(_, lock)| lock);
    let mut unheld: HashSet<LockKey> = waits.collect();
    for (row, lock) in rows_of(SliceKind::LockHold) {
        if unheld.is_empty() {
            break;
        }
        if s.open[row] & open::BEGIN_UNSEEN == 0 {
            unheld.remove(&lock);
        }
    }
    !unheld.is_empty()
}

/// Makes acquisitions of waits and holds, which come by owner and in order of time: a hold belongs to the wait for its
/// lock that ended as the hold began.
struct Pairing<'t> {
    all: Vec<Acquisition>,
    /// The locks in the order in which they came, and their names.
    locks: Numbers<LockKey>,
    names: Vec<StrIx>,
    /// The owner of the spans that come.
    owner: Option<Owner>,
    /// Waits not yet followed by their hold, by lock and end: the last of each.
    waits: HashMap<(u32, Time), usize>,
    /// Until when each lock is held: a recursive lock's inner holds are part of the outer one.
    outer: QuickMap<u32, Time>,
    /// Until when the owner's holds so far last.
    covered: Time,
    states: StatesOf<'t>,
}

impl Pairing<'_> {
    fn add_all(&mut self, spans: &mut [Span]) {
        spans.sort_by_key(|s| (s.owner, s.from, s.kind));
        spans.iter().for_each(|span| self.add(span));
    }

    fn add(&mut self, span: &Span) {
        if self.owner != Some(span.owner) {
            self.owner = Some(span.owner);
            self.waits.clear();
            self.outer.clear();
            self.covered = Time::MIN;
        }
        let lock = self.locks.number(span.lock);
        if lock as usize == self.names.len() {
            self.names.push(span.name);
        }
        match span.kind {
            SliceKind::LockWait => self.add_wait(span, lock),
            _ => self.add_hold(span, lock),
        }
    }

    /// All that were read, and the locks numbered in their order.
    fn finish(self) -> Read {
        let came = self.locks.keys().iter().zip(self.names);
        let mut locks: Vec<(LockKey, StrIx, usize)> =
            came.enumerate().map(|(n, (&lock, name))| (lock, name, n)).collect();
        locks.sort_unstable();
        let mut place = vec![0; locks.len()];
        for (ix, &(.., came)) in locks.iter().enumerate() {
            place[came] = ix as u32;
        }
        let mut all = self.all;
        all.iter_mut().for_each(|a| a.lock_ix = place[a.lock_ix as usize]);
        let asked = |a: &Acquisition| a.wait.or(a.hold).map(|(from, _)| from);
        all.sort_by_key(|a| (a.thread, asked(a)));
        let locks = locks.into_iter().map(|(lock, name, _)| (lock, name)).collect();
        Read { all, locks }
    }

    fn add_wait(&mut self, span: &Span, lock: u32) {
        self.waits.insert((lock, span.to), self.all.len());
        self.all.push(Acquisition {
            site: span.site,
            wait: Some((span.from, span.to)),
            spun_ns: span.states[0],
            ..Acquisition::of(span, lock)
        });
    }

    fn add_hold(&mut self, span: &Span, lock: u32) {
        let held_until = self.outer.get(&lock);
        if held_until.is_some_and(|&until| span.from < until) {
            return;
        }
        self.outer.insert(lock, span.to);
        let all = &mut self.all;
        // Most holds had no wait, and to look into an empty map costs its hash all the same.
        let wait = match self.waits.is_empty() {
            true => None,
            false => self.waits.remove(&(lock, span.from)),
        };
        let at = match wait {
            Some(wait) => wait,
            None => {
                all.push(Acquisition::of(span, lock));
                all.len() - 1
            }
        };
        let inside_ns = self.uncovered_ns(span, self.all[at].task);
        let a = &mut self.all[at];
        a.hold = Some((span.from, span.to));
        a.is_shared = span.open & open::SHARED != 0;
        [a.running_ns, a.preempted_ns, a.blocked_ns, a.unknown_ns] = span.states;
        a.inside_ns = inside_ns;
        self.covered = self.covered.max(span.to);
    }

    /// CPU time in the part of a hold that no earlier hold of its owner covers.
    fn uncovered_ns(&mut self, span: &Span, task: TaskIx) -> i64 {
        let running_ns = span.states[0];
        match self.covered {
            until if until <= span.from => running_ns,
            until if until >= span.to => 0,
            // A task's parts are on several threads: of it the share.
            until if task.is_some() => {
                let share = (span.to - until).ns() as f64 / (span.to - span.from).ns() as f64;
                (running_ns as f64 * share) as i64
            }
            until => self.states.of(span.thread).within(until, span.to)[0],
        }
    }
}

/// Reads slices of some kinds, cut to the range.
pub(super) struct Reader<'a, 't, W> {
    cut: &'a Cut<'t>,
    wanted: W,
    sites: HashMap<(ThreadIx, Time, u64), StrIx>,
}

impl<'a, 't, W: Fn(SliceKind) -> bool> Reader<'a, 't, W> {
    pub fn new(cut: &'a Cut<'t>, wanted: W) -> Reader<'a, 't, W> {
        let w = &cut.trace.lock_waits;
        let rows = match wanted(SliceKind::LockWait) {
            true => 0..w.start.len(),
            false => 0..0,
        };
        Reader {
            cut,
            wanted,
            sites: rows.map(|i| ((w.thread[i], w.start[i], w.object[i]), w.site[i])).collect(),
        }
    }

    fn threads(&self) -> impl Iterator<Item = ThreadIx> {
        let cut = self.cut;
        cut.threads().filter(move |&t| cut.is_shown(t))
    }

    /// As many slices as there may be.
    fn most(&self) -> usize {
        let trace = self.cut.trace;
        let of = |t: ThreadIx| {
            let rows = &trace.threads[t.ix()].slices;
            let kinds = &trace.slices.kind[rows.start as usize..rows.end as usize];
            kinds.iter().filter(|&&kind| (self.wanted)(kind)).count()
        };
        self.threads().map(of).sum()
    }

    fn read(&self, thread: ThreadIx, out: &mut Vec<Span>) {
        let (cut, trace) = (self.cut, self.cut.trace);
        let s = &trace.slices;
        let info = &trace.threads[thread.ix()];
        let states = States::new(trace, thread);
        for row in info.slices.start as usize..info.slices.end as usize {
            let kind = s.kind[row];
            let is_hold = kind == SliceKind::LockHold;
            if !(self.wanted)(kind)
                || !cut.touches(s.start[row], s.end[row])
                || is_hold && s.open[row] & open::BEGIN_UNSEEN != 0
            {
                continue;
            }
            let (from, to) = (s.start[row].max(cut.from), s.end[row].min(cut.to));
            let site = match is_hold {
                true => None,
                false => (self.sites).get(&(thread, s.start[row], s.object[row])).copied(),
            };
            out.push(Span {
                owner: owner(s.task[row], thread),
                lock: (info.process, s.object[row]),
                kind,
                name: s.name[row],
                from,
                to,
                thread,
                site: site.unwrap_or_default(),
                open: s.open[row],
                states: states.within(from, to),
            });
        }
    }

    /// Those of all threads; of one task joined.
    pub fn all(&self) -> Vec<Span> {
        let mut out = Vec::new();
        self.threads().for_each(|thread| self.read(thread, &mut out));
        joined(out)
    }
}

/// A task that is suspended takes its waits and holds along: the parts are one, and it sleeps in between.
fn joined(mut spans: Vec<Span>) -> Vec<Span> {
    let is_part = |s: &Span| s.open & (open::CONTINUES | open::CONTINUED) != 0;
    if !spans.iter().any(is_part) {
        return spans;
    }
    spans.sort_by_key(|s| (s.owner, s.lock, s.kind, s.from));
    let mut out: Vec<Span> = Vec::with_capacity(spans.len());
    for part in spans {
        let goes_on = part.open & open::CONTINUED != 0;
        let before = out.last_mut().filter(|w| {
            goes_on
                && w.open & open::CONTINUES != 0
                && (w.owner, w.lock, w.kind) == (part.owner, part.lock, part.kind)
        });
        let Some(whole) = before else {
            out.push(part);
            continue;
        };
        whole.states[2] += (part.from - whole.to).ns().max(0);
        (0..4).for_each(|i| whole.states[i] += part.states[i]);
        whole.to = part.to;
        whole.open = part.open;
        if whole.kind != SliceKind::LockHold {
            // The thread on which it got the lock.
            whole.thread = part.thread;
        }
    }
    out
}

/// Rows between two running sums of [`States`].
const MARK: usize = 16;

/// A thread's states with running sums every [`MARK`] rows: how much of each lies in an interval, however long.
pub(super) struct States<'t> {
    start: &'t [Time],
    state: &'t [ThreadState],
    /// Time before each `MARK`th row: running, ready, asleep, unknown.
    marks: Vec<[i64; 4]>,
    /// When the last row ends.
    end: Time,
    /// The row last asked for, with the sums before it: the next question is mostly about the same.
    last: Cell<(usize, [i64; 4])>,
}

impl<'t> States<'t> {
    pub fn new(trace: &'t Trace, thread: ThreadIx) -> States<'t> {
        let info = &trace.threads[thread.ix()];
        let rows = info.states.start as usize..info.states.end as usize;
        let start = &trace.states.start[rows.clone()];
        let mut out = States {
            start,
            state: &trace.states.state[rows],
            marks: Vec::with_capacity(start.len() / MARK + 1),
            end: start.last().map_or(Time::MIN, |&s| s.max(info.alive.end)),
            last: Cell::new((0, [0; 4])),
        };
        let mut sums = [0; 4];
        for row in 0..start.len() {
            if row % MARK == 0 {
                out.marks.push(sums);
            }
            out.add(row, &mut sums);
        }
        out
    }

    fn add(&self, row: usize, sums: &mut [i64; 4]) {
        let end = self.start.get(row + 1).copied().unwrap_or(self.end);
        sums[class(self.state[row])] += (end - self.start[row]).ns();
    }

    fn until(&self, time: Time) -> [i64; 4] {
        let (mut row, mut sums) = self.last.get();
        let is_in = |row: usize| self.start.get(row).is_some_and(|&s| s <= time);
        if !is_in(row) || is_in(row + 1) {
            let Some(other) = self.start.partition_point(|&s| s <= time).checked_sub(1) else {
                return [0; 4];
            };
            (row, sums) = (other, self.marks[other / MARK]);
            (row / MARK * MARK..row).for_each(|row| self.add(row, &mut sums));
            self.last.set((row, sums));
        }
        sums[class(self.state[row])] += (time.min(self.end) - self.start[row]).ns().max(0);
        sums
    }

    /// Running, ready, asleep, unknown.
    pub fn within(&self, from: Time, to: Time) -> [i64; 4] {
        let (a, b) = (self.until(from), self.until(to));
        let mut out = [0, 1, 2, 3].map(|i| b[i] - a[i]);
        // The stretches in which the thread's state is not known.
        out[3] += (to - from).ns() - out.iter().sum::<i64>();
        out
    }
}

fn class(state: ThreadState) -> usize {
    match state {
        ThreadState::Running => 0,
        ThreadState::RunnableWoken | ThreadState::RunnablePreempted => 1,
        ThreadState::Unknown => 3,
        _ => 2,
    }
}

/// The [`States`] of threads, made when first asked for.
pub(super) struct StatesOf<'t> {
    trace: &'t Trace,
    known: HashMap<ThreadIx, States<'t>>,
}

impl<'t> StatesOf<'t> {
    pub fn new(trace: &'t Trace) -> StatesOf<'t> {
        StatesOf { trace, known: HashMap::new() }
    }

    pub fn of(&mut self, thread: ThreadIx) -> &States<'t> {
        let trace = self.trace;
        self.known.entry(thread).or_insert_with(|| States::new(trace, thread))
    }

    /// A thread's CPU time in an interval, cut to the range.
    pub fn on_cpu(&mut self, cut: &Cut<'_>, thread: ThreadIx, from: Time, to: Time) -> i64 {
        let (from, to) = (from.max(cut.from), to.min(cut.to));
        match from < to {
            true => self.of(thread).within(from, to)[0],
            false => 0,
        }
    }
}

/// Each lock's name: as annotated, else its address. Several of one name in a process are numbered by address.
pub(super) fn names(trace: &Trace, read: &Read) -> HashMap<LockKey, String> {
    let text = |name: StrIx| trace.strings.get(name).trim_start_matches('&');
    let mut of_name: HashMap<(ProcessIx, &str), u32> = HashMap::new();
    for &(key, name) in &read.locks {
        *of_name.entry((key.0, text(name))).or_default() += 1;
    }
    let mut seen: HashMap<(ProcessIx, &str), u32> = HashMap::new();
    let mut name = |key: LockKey, name: StrIx| match text(name) {
        "" => format!("{:#x}", key.1),
        text if of_name[&(key.0, text)] == 1 => text.into(),
        text => {
            let n = seen.entry((key.0, text)).or_default();
            *n += 1;
            format!("{text} [{n}]")
        }
    };
    let named = |&(key, of): &(LockKey, StrIx)| (key, name(key, of));
    read.locks.iter().map(named).collect()
}
