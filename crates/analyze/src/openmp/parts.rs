//! What each thread did in each parallel region: its part of the region, of the region's loops, and of their chunks.
//!
//! A part of a region is a slice `parallel P` and the wait `barrier of parallel P` that begins when it ends; a loop is a slice
//! `for SCHEDULE P` or `sections P` in it, a chunk a slice in the loop. The probe writes them so (probes/openmp); slices
//! that anyone else gave such names lack the wait, and are none.
use crate::account::is_dock_name;
use crate::busy::BusyClock;
use crate::cut::Cut;
use kasuri_model::{ArgValue, ProcessIx, SliceIx, SliceKind, StrIx, ThreadIx, Time};
use std::ops::Range;

/// A barrier before which the thread was busy for no longer than this after a loop's end is the loop's.
const AT_ONCE_NS: i64 = 10_000;

/// One thread's part in one execution of a region.
pub(super) struct Part {
    pub process: ProcessIx,
    pub name: StrIx,
    pub start: Time,
    /// When the region's last wait ended: the same in all its threads.
    pub end: Time,
    /// What its threads wait at.
    pub team: u64,
    /// The thread went to the dock afterwards: another one is its master.
    pub is_worker: bool,
    /// Busy time up to the end of each wait at a barrier, from the last.
    pub phases_ns: Vec<i64>,
    /// Time at its barriers, without the tasks that ran there.
    pub barrier_ns: i64,
    pub loops: Vec<LoopPart>,
}

/// One thread's part in one execution of a loop.
pub(super) struct LoopPart {
    pub name: StrIx,
    pub start: Time,
    pub end: Time,
    /// Busy time since the region's start, or the last barrier in it.
    pub came_ns: i64,
    pub busy_ns: i64,
    /// Waits inside it, of the kinds that the account knows.
    pub waits_ns: i64,
    /// Time at the barrier that follows at once; none: another thing follows.
    pub barrier_ns: Option<i64>,
    /// In order of time.
    pub chunks: Vec<Chunk>,
}

/// Iterations that a thread was given at once.
#[derive(Clone, Copy)]
pub(super) struct Chunk {
    /// The loop's variable in the first of them; none where it was not recorded, as of a section.
    pub first: Option<i64>,
    pub n: u64,
    pub busy_ns: i64,
    /// From the end of the thread's chunk before; none for its first.
    pub gap_ns: Option<i64>,
    end: Time,
}

/// What names of slices mean, found once for each name.
#[derive(Clone, Copy, PartialEq)]
enum What {
    Region,
    /// The wait at a region's end.
    RegionEnd,
    Loop,
    Chunk,
    Dock,
    Other,
}

fn what(name: &str) -> What {
    let begins = |word: &str| name.starts_with(word);
    if begins("parallel ") {
        What::Region
    } else if begins("barrier of parallel ") {
        What::RegionEnd
    } else if begins("for ") || begins("sections ") {
        What::Loop
    } else if begins("chunk ") || begins("section ") {
        What::Chunk
    } else if is_dock_name(name) {
        What::Dock
    } else {
        What::Other
    }
}

/// A thread's waiting: intervals in order, and how much of them lies before each.
#[derive(Default)]
struct Waits {
    all: Vec<(Time, Time)>,
    /// On the busy clock.
    all_before: Vec<i64>,
    barriers: Vec<(Time, Time)>,
    barriers_before: Vec<i64>,
}

impl Waits {
    /// Of the thread's slices in `rows`. What a task does that runs inside of a wait is none.
    fn new(cut: &Cut<'_>, clock: &BusyClock<'_>, rows: Range<usize>) -> Waits {
        let s = &cut.trace.slices;
        let mut out = Waits::default();
        // Waits and tasks around the current time, and that time.
        let mut open: Vec<(Time, SliceKind)> = Vec::new();
        let mut now = Time::MIN;
        for row in rows {
            let (start, end, kind) = (s.start[row], s.end[row], s.kind[row]);
            if matches!(kind, SliceKind::Work | SliceKind::LockHold) {
                continue;
            }
            while let Some(&(until, _)) = open.last().filter(|(until, _)| *until <= start) {
                out.add(clock, open.pop(), &mut now, until);
            }
            out.add(clock, open.last().copied(), &mut now, start);
            open.push((end, kind));
        }
        while let Some(&(until, _)) = open.last() {
            out.add(clock, open.pop(), &mut now, until);
        }
        out
    }

    /// From `now` until `until` the thread was in this.
    fn add(
        &mut self,
        clock: &BusyClock<'_>,
        within: Option<(Time, SliceKind)>,
        now: &mut Time,
        until: Time,
    ) {
        let from = std::mem::replace(now, (*now).max(until));
        let Some((_, kind)) = within.filter(|(_, kind)| *kind != SliceKind::TaskRun) else {
            return;
        };
        if until <= from {
            return;
        }
        let sum = |all: &[(Time, Time)], before: &[i64], of: &dyn Fn(Time, Time) -> i64| {
            let last = all.last().zip(before.last());
            last.map_or(0, |(&(a, b), before)| before + of(a, b))
        };
        let busy = |a: Time, b: Time| clock.between(a, b);
        self.all_before.push(sum(&self.all, &self.all_before, &busy));
        self.all.push((from, until));
        if kind == SliceKind::Barrier {
            let wall = |a: Time, b: Time| (b - a).ns();
            self.barriers_before.push(sum(&self.barriers, &self.barriers_before, &wall));
            self.barriers.push((from, until));
        }
    }

    /// How much of the waits lies before `time`.
    fn before(
        all: &[(Time, Time)],
        before: &[i64],
        time: Time,
        of: impl Fn(Time, Time) -> i64,
    ) -> i64 {
        match all.partition_point(|(start, _)| *start < time) {
            0 => 0,
            after => before[after - 1] + of(all[after - 1].0, all[after - 1].1.min(time)),
        }
    }

    /// Time at barriers, from start to end.
    fn at_barriers(&self, start: Time, end: Time) -> i64 {
        let before =
            |time| Waits::before(&self.barriers, &self.barriers_before, time, |a, b| (b - a).ns());
        before(end) - before(start)
    }

    /// Time on the busy clock in waits of any kind, from start to end.
    fn on_clock(&self, clock: &BusyClock<'_>, start: Time, end: Time) -> i64 {
        let before =
            |time| Waits::before(&self.all, &self.all_before, time, |a, b| clock.between(a, b));
        before(end) - before(start)
    }
}

/// Parts of all regions of the recording that ended, in no particular order.
pub(super) fn parts(cut: &Cut<'_>) -> Vec<Part> {
    let names: Vec<What> = cut.trace.strings.iter().map(what).collect();
    let mut out = Vec::new();
    if !names.contains(&What::RegionEnd) {
        return out;
    }
    for thread in cut.threads().filter(|t| cut.is_shown(*t)) {
        let rows = cut.trace.threads[thread.ix()].slices.clone();
        let rows = rows.start as usize..rows.end as usize;
        let s = &cut.trace.slices;
        let known = |row: usize| names.get(s.name[row].ix()).copied();
        let known = |row: usize| known(row).unwrap_or(What::Other);
        if !rows.clone().any(|row| known(row) == What::RegionEnd) {
            continue;
        }
        let clock = BusyClock::new(cut, thread);
        let waits = Waits::new(cut, &clock, rows.clone());
        let mut scan =
            Scan { cut, clock, waits, thread, open: Vec::new(), done: &mut out, last: None };
        rows.for_each(|row| scan.row(row, known(row)));
    }
    out
}

/// A thread's slices, one after the other.
struct Scan<'s, 't> {
    cut: &'s Cut<'t>,
    clock: BusyClock<'t>,
    waits: Waits,
    thread: ThreadIx,
    /// Regions around the current slice; `until`: the region's slice ends, `from`: its last barrier wait ended.
    open: Vec<Open>,
    done: &'s mut Vec<Part>,
    /// The thread's last part, in `done`.
    last: Option<usize>,
}

struct Open {
    part: Part,
    until: Time,
    from: Time,
}

impl Scan<'_, '_> {
    fn busy(&self, start: Time, end: Time) -> i64 {
        (self.clock.between(start, end) - self.waits.on_clock(&self.clock, start, end)).max(0)
    }

    fn row(&mut self, row: usize, what: What) {
        let s = &self.cut.trace.slices;
        let (start, end, kind) = (s.start[row], s.end[row], s.kind[row]);
        if what == What::RegionEnd && kind == SliceKind::Barrier {
            return self.region_ends(row);
        }
        self.leave_before(start);
        match (what, kind) {
            (What::Region, SliceKind::Work) => self.open.push(Open {
                part: Part {
                    process: self.cut.trace.threads[self.thread.ix()].process,
                    name: s.name[row],
                    start,
                    end,
                    team: 0,
                    is_worker: false,
                    phases_ns: Vec::new(),
                    barrier_ns: 0,
                    loops: Vec::new(),
                },
                until: end,
                from: start,
            }),
            (What::Loop, SliceKind::Work) => self.loop_begins(row),
            (What::Chunk, SliceKind::Work) => self.chunk(row),
            (What::Dock, SliceKind::Work) => {
                let last = self.last.map(|at| &mut self.done[at]);
                if let Some(part) = last.filter(|part| part.end == start) {
                    part.is_worker = true;
                }
            }
            (_, SliceKind::Barrier) => self.barrier(start, end),
            _ => {}
        }
    }

    /// Regions that ended before this without their wait, as by exit: they are no executions. Of regions in each other the inner ones end first.
    fn leave_before(&mut self, start: Time) {
        while self.open.pop_if(|open| open.until < start).is_some() {}
    }

    /// The wait at a region's end: of the innermost that ends where it begins.
    fn region_ends(&mut self, row: usize) {
        let s = &self.cut.trace.slices;
        let start = s.start[row];
        let name = self.cut.trace.strings.get(s.name[row]);
        let region = name.strip_prefix("barrier of ").unwrap_or(name);
        self.leave_before(start);
        let is_its = |open: &&Open| {
            open.until == start && self.cut.trace.strings.get(open.part.name) == region
        };
        if self.open.last().filter(is_its).is_none() {
            return;
        }
        self.barrier(start, s.end[row]);
        let Some(Open { mut part, .. }) = self.open.pop() else {
            return;
        };
        part.end = s.end[row];
        part.team = s.object[row];
        part.is_worker = s.open[row] & kasuri_model::open::END_UNSEEN != 0;
        self.last = Some(self.done.len());
        self.done.push(part);
    }

    /// A wait at a barrier of the innermost region.
    fn barrier(&mut self, start: Time, end: Time) {
        let Some(from) = self.open.last().map(|open| open.from) else {
            return;
        };
        let (waited, busy) = (self.waits.at_barriers(start, end), self.busy(from, end));
        let Some(open) = self.open.last_mut() else {
            return;
        };
        open.from = end;
        open.part.barrier_ns += waited;
        open.part.phases_ns.push(busy);
        let last = open.part.loops.last_mut();
        if let Some(last) = last.filter(|l| l.barrier_ns.is_none() && l.end <= start)
            && self.clock.between(last.end, start) <= AT_ONCE_NS
        {
            last.barrier_ns = Some(waited);
        }
    }

    fn loop_begins(&mut self, row: usize) {
        let s = &self.cut.trace.slices;
        let (start, end) = (s.start[row], s.end[row]);
        let (busy_ns, waits_ns) =
            (self.busy(start, end), self.waits.on_clock(&self.clock, start, end));
        let from = self.open.last().map_or(start, |open| open.from);
        let came_ns = self.busy(from, start);
        if let Some(open) = self.open.last_mut() {
            open.part.loops.push(LoopPart {
                name: s.name[row],
                start,
                end,
                came_ns,
                busy_ns,
                waits_ns,
                barrier_ns: None,
                chunks: Vec::new(),
            });
        }
    }

    fn chunk(&mut self, row: usize) {
        let s = &self.cut.trace.slices;
        let (start, end) = (s.start[row], s.end[row]);
        let (first, n) = self.iterations(row);
        let busy_ns = self.busy(start, end);
        let last = self.open.last_mut().and_then(|o| o.part.loops.last_mut());
        if let Some(last) = last.filter(|last| last.start <= start && end <= last.end) {
            let gap_ns = last.chunks.last().map(|before| (start - before.end).ns());
            last.chunks.push(Chunk { first, n, busy_ns, gap_ns, end });
        }
    }

    /// The arguments of a chunk: the first iteration, and how many.
    fn iterations(&self, row: usize) -> (Option<i64>, u64) {
        let (args, strings) = (&self.cut.trace.args, &self.cut.trace.strings);
        let slice = SliceIx(row as u32);
        // Those of instants come last, and have no slice.
        let from = args.slice.partition_point(|s| *s < slice);
        let own = (from..args.slice.len()).take_while(|&at| args.slice[at] == slice);
        let (mut first, mut n) = (None, 0);
        for at in own {
            match (strings.get(args.name[at]), args.value[at]) {
                ("first", ArgValue::Int(value)) => first = Some(value),
                ("iterations", ArgValue::Uint(value)) => n = value,
                _ => {}
            }
        }
        (first, n)
    }
}
