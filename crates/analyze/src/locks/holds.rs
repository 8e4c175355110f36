//! Slices -> acquisitions: each with its wait, its hold, and what its thread did during both.
use crate::cut::Cut;
use kasuri_model::{ProcessIx, SliceKind, StrIx, TaskIx, ThreadIx, ThreadState, Time, Trace, open};
use std::collections::HashMap;

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
    fn of(span: &Span) -> Acquisition {
        Acquisition {
            thread: span.thread,
            task: span.owner.0,
            lock: span.lock,
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
    pub(super) names: HashMap<LockKey, StrIx>,
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
        let mut spans = spans(cut, |kind| {
            matches!(kind, SliceKind::LockWait | SliceKind::LockHold)
        });
        spans.sort_by_key(|s| (s.owner, s.from, s.kind));
        let mut pairing = Pairing {
            read: Read {
                all: Vec::new(),
                names: HashMap::new(),
            },
            owner: None,
            waits: HashMap::new(),
            outer: HashMap::new(),
            covered: Time::MIN,
            states: StatesOf::new(cut.trace),
        };
        for span in &spans {
            pairing.add(span);
        }
        let mut out = pairing.read;
        let asked = |a: &Acquisition| a.wait.or(a.hold).map(|(from, _)| from);
        out.all.sort_by_key(|a| (a.thread, asked(a)));
        out
    }
}

/// Makes acquisitions of waits and holds, which come by owner and in order of time: a hold belongs to the wait for its
/// lock that ended as the hold began.
struct Pairing<'t> {
    read: Read,
    /// The owner of the spans that come.
    owner: Option<Owner>,
    /// Waits not yet followed by their hold, by lock and end: the last of each.
    waits: HashMap<(LockKey, Time), usize>,
    /// Until when each lock is held: a recursive lock's inner holds are part of the outer one.
    outer: HashMap<LockKey, Time>,
    /// Until when the owner's holds so far last.
    covered: Time,
    states: StatesOf<'t>,
}

impl Pairing<'_> {
    fn add(&mut self, span: &Span) {
        if self.owner != Some(span.owner) {
            self.owner = Some(span.owner);
            self.waits.clear();
            self.outer.clear();
            self.covered = Time::MIN;
        }
        self.read.names.entry(span.lock).or_insert(span.name);
        match span.kind {
            SliceKind::LockWait => self.add_wait(span),
            _ => self.add_hold(span),
        }
    }

    fn add_wait(&mut self, span: &Span) {
        let at = self.read.all.len();
        self.waits.insert((span.lock, span.to), at);
        self.read.all.push(Acquisition {
            site: span.site,
            wait: Some((span.from, span.to)),
            spun_ns: span.states[0],
            ..Acquisition::of(span)
        });
    }

    fn add_hold(&mut self, span: &Span) {
        let held_until = self.outer.get(&span.lock);
        if held_until.is_some_and(|&until| span.from < until) {
            return;
        }
        self.outer.insert(span.lock, span.to);
        let all = &mut self.read.all;
        let at = match self.waits.remove(&(span.lock, span.from)) {
            Some(wait) => wait,
            None => {
                all.push(Acquisition::of(span));
                all.len() - 1
            }
        };
        let inside_ns = self.uncovered_ns(span, self.read.all[at].task);
        let a = &mut self.read.all[at];
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

/// Slices of these kinds, cut to the range; those of one task joined.
pub(super) fn spans(cut: &Cut<'_>, wanted: impl Fn(SliceKind) -> bool) -> Vec<Span> {
    let trace = cut.trace;
    let s = &trace.slices;
    let w = &trace.lock_waits;
    let sites: HashMap<(ThreadIx, Time, u64), StrIx> = (0..w.start.len())
        .map(|i| ((w.thread[i], w.start[i], w.object[i]), w.site[i]))
        .collect();
    let mut out = Vec::new();
    for thread in cut.threads().filter(|&t| cut.is_shown(t)) {
        let info = &trace.threads[thread.ix()];
        let states = States::new(trace, thread);
        for row in info.slices.start as usize..info.slices.end as usize {
            let kind = s.kind[row];
            let is_hold = kind == SliceKind::LockHold;
            if !wanted(kind)
                || !cut.touches(s.start[row], s.end[row])
                || is_hold && s.open[row] & open::BEGIN_UNSEEN != 0
            {
                continue;
            }
            let (from, to) = (s.start[row].max(cut.from), s.end[row].min(cut.to));
            let site = match is_hold {
                true => None,
                false => sites.get(&(thread, s.start[row], s.object[row])).copied(),
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
    let is_part = |s: &Span| s.open & (open::CONTINUES | open::CONTINUED) != 0;
    match out.iter().any(is_part) {
        true => joined(out),
        false => out,
    }
}

/// A task that is suspended takes its waits and holds along: the parts are one, and it sleeps in between.
fn joined(mut spans: Vec<Span>) -> Vec<Span> {
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
        let Some(row) = self.start.partition_point(|&s| s <= time).checked_sub(1) else {
            return [0; 4];
        };
        let mut sums = self.marks[row / MARK];
        (row / MARK * MARK..row).for_each(|row| self.add(row, &mut sums));
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
        StatesOf {
            trace,
            known: HashMap::new(),
        }
    }

    pub fn of(&mut self, thread: ThreadIx) -> &States<'t> {
        let trace = self.trace;
        self.known
            .entry(thread)
            .or_insert_with(|| States::new(trace, thread))
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
    let mut keys: Vec<LockKey> = read.names.keys().copied().collect();
    keys.sort_unstable();
    let text = |key: &LockKey| trace.strings.get(read.names[key]).trim_start_matches('&');
    let mut of_name: HashMap<(ProcessIx, &str), u32> = HashMap::new();
    keys.iter()
        .for_each(|key| *of_name.entry((key.0, text(key))).or_default() += 1);
    let mut seen: HashMap<(ProcessIx, &str), u32> = HashMap::new();
    let mut name = |key: &LockKey| match text(key) {
        "" => format!("{:#x}", key.1),
        text if of_name[&(key.0, text)] == 1 => text.into(),
        text => {
            let n = seen.entry((key.0, text)).or_default();
            *n += 1;
            format!("{text} [{n}]")
        }
    };
    keys.iter().map(|key| (*key, name(key))).collect()
}
