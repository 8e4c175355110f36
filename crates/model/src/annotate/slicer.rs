//! One thread's annotations -> its slices, instants and arguments.
//!
//! Rows are pushed when something begins, so they come out in order of their start; what is rare (an end whose
//! beginning was not seen, critical sections, equal stamps) is put right in [`Slicer::finish`], which costs nothing
//! for threads that have none of it.
use super::locks::LockFacts;
use super::open::{Carried, DefaultNames, Orphan};
use super::shared::Shared;
use super::tidy;
use crate::input::Annotation;
use crate::{
    ArgValue, Args, InstantIx, Instants, SliceIx, SliceKind, Slices, StrIx, TaskIx, ThreadIx, Time,
    open,
};
use kasuri_base::annotation::{ArgType, Kind, WaitKind};

/// KASURI_LOCK_SHARED.
const LOCK_SHARED: u16 = 1;
/// `enum kasuri_task_start`: runs as a call of the task that runs there.
const START_IN_PLACE: u16 = 2;
/// Deeper nesting than this is a program that begins and never ends: beyond it slices are left out.
const MAX_DEPTH: usize = 4096;
/// More ends without a beginning than this are a program that only ends: the rest is left out.
const MAX_ORPHANS: usize = 256;

/// A wait whose time limit ends it and that begins again within this time is one wait: the thread looks for something
/// else to do, and waits on (CPython does so every 5 ms for its global lock).
const SAME_WAIT_NS: i64 = 1_000_000;
/// So many critical sections may lie between the two at most; the mutex of a condition is one.
const SAME_WAIT_ROWS: usize = 8;

/// In [`Slicer::nest`]: the place of a slice whose task was stolen while what it had created ran on above.
const STOLEN: u32 = u32::MAX;

/// The output of one pass over threads; rows of several threads one after the other.
#[derive(Debug, Default)]
pub(crate) struct Out {
    pub slices: Slices,
    pub args: Args,
    pub instants: Instants,
    pub locks: LockFacts,
}

/// A task that runs on a thread.
#[derive(Clone, Copy, Debug)]
struct Running {
    task: TaskIx,
    /// Its place in [`Slicer::nest`]; the length of that for one that is too deep for it.
    place: usize,
    /// It is a call of the task below it, and goes where that one goes.
    is_in_place: bool,
}

/// One thread's state while its events go by.
#[derive(Debug)]
pub(crate) struct Slicer {
    pub thread: ThreadIx,
    alive: std::ops::Range<Time>,
    /// First rows of this thread in the output.
    base: usize,
    /// Rows of the open nested slices, outermost first; or [`STOLEN`], never the last.
    nest: Vec<u32>,
    /// Begun beyond [`MAX_DEPTH`].
    too_deep: u32,
    /// Rows of the open critical sections.
    holds: Vec<u32>,
    pub(super) orphans: Vec<Orphan>,
    has_holds: bool,
    /// Tasks that run here, outermost first.
    tasks: Vec<Running>,
    /// Row of the last wait, if a time limit ended it.
    timed_out: Option<usize>,
    /// Instant that the next argument belongs to.
    last_instant: InstantIx,
    /// Time of the last event.
    pub now: Time,
    pub name: StrIx,
    pub n_events: u64,
}

impl Slicer {
    pub fn new(thread: ThreadIx, alive: std::ops::Range<Time>, out: &Out) -> Slicer {
        Slicer {
            thread,
            now: alive.start,
            alive,
            base: out.slices.start.len(),
            nest: Vec::new(),
            too_deep: 0,
            holds: Vec::new(),
            orphans: Vec::new(),
            has_holds: false,
            tasks: Vec::new(),
            timed_out: None,
            last_instant: InstantIx::NONE,
            name: StrIx::NONE,
            n_events: 0,
        }
    }

    /// Whether the event is about a task: those need all threads of the process in time order.
    pub fn is_task(kind: u8) -> bool {
        (Kind::TaskCreate as u8..=Kind::TaskEnd as u8).contains(&kind)
            || kind == Kind::TaskJoin as u8
            || kind == Kind::TaskDepends as u8
            || kind == Kind::TaskFolded as u8
    }

    /// Of events of several clients with one stamp, the one with the lowest turn came first: what belongs to the event before it, then
    /// ends from the innermost on, then the end of the task around them, what begins as a task, and what begins in it.
    pub fn turn(&self, e: &Annotation, out: &Out) -> u8 {
        let Some(kind) = Kind::from_number(e.kind) else {
            return 0;
        };
        match kind {
            Kind::Arg => 0,
            Kind::End => {
                let s = &out.slices;
                let is_work = |row: u32| s.kind[row as usize] == SliceKind::Work;
                let here = self.of_task();
                let top = here.last().filter(|row| is_work(**row));
                match top.is_some_and(|row| e.name.is_some() && s.name[*row as usize] == e.name) {
                    true => 1,
                    false if here.iter().any(|row| *row != STOLEN && is_work(*row)) => 2,
                    false => 4,
                }
            }
            Kind::WaitEnd | Kind::LockAcquired | Kind::LockGivenUp => 2,
            Kind::TaskEnd | Kind::TaskSuspend => 3,
            Kind::TaskStart | Kind::TaskResume => 5,
            _ => 6,
        }
    }

    /// The open slices of the task that runs.
    fn of_task(&self) -> &[u32] {
        let floor = self.tasks.last().map_or(0, |run| run.place + 1);
        &self.nest[floor.min(self.nest.len())..]
    }

    /// The thread's next event.
    #[inline]
    pub fn event(&mut self, e: &Annotation, out: &mut Out, shared: &mut Shared) {
        self.n_events += 1;
        self.now = self.now.max(e.time.min(shared.span.end));
        let Some(kind) = Kind::from_number(e.kind) else {
            return;
        };
        match kind {
            Kind::Begin => self.begin(or(e.name, shared.names.unnamed), SliceKind::Work, 0, 0, out),
            Kind::End => self.end(e.name, shared.names.began_unseen, out),
            Kind::Instant | Kind::Trigger | Kind::Message => {
                self.instant(or(e.name, shared.names.unnamed), out)
            }
            Kind::Counter => shared.counter(e.name, self.now, f64::from_bits(e.a)),
            Kind::WaitBegin => self.begin_wait(e, &shared.names, out),
            Kind::WaitEnd => {
                self.end_wait(e, &shared.names, out);
                if WaitKind::from_number(e.aux) == Some(WaitKind::Join) {
                    shared.waited(self.task(), e.a, self.now);
                }
            }
            Kind::LockRequest => {
                out.locks.request(self.thread, self.now, e);
                let name = or(e.name, shared.names.lock);
                self.begin(name, SliceKind::LockWait, e.a, mode_bits(e.aux), out)
            }
            Kind::LockAcquired => {
                self.acquired(or(e.name, shared.names.lock), e.a, mode_bits(e.aux), out)
            }
            Kind::LockReleased => self.released(or(e.name, shared.names.lock), e.a, out),
            Kind::LockTaken => self.acquired(shared.names.lock, e.a, 0, out),
            Kind::LockLeft => self.left(e.a, out),
            Kind::LockGivenUp => {
                self.end_of(SliceKind::LockWait, e.a, or(e.name, shared.names.lock), out)
            }
            Kind::LockDefine => out.locks.define(self.thread, self.now, e),
            Kind::LockCount => out.locks.count(self.thread, self.now, e),
            Kind::TaskCreate => shared.task_created(e, self.now, self.thread, self.task()),
            Kind::TaskStart => {
                let task = shared.task_started(e, self.now, self.thread);
                self.run_task(task, e.aux == START_IN_PLACE, shared, out);
            }
            Kind::TaskSuspend => {
                let task = shared.task(e.a, e.name);
                let carried = self.leave_task(task, true, shared, out);
                shared.suspended(task, carried);
            }
            Kind::TaskResume => self.resume_task(shared.task(e.a, StrIx::NONE), shared, out),
            Kind::TaskEnd => {
                let task = shared.task_ended(e, self.now);
                self.leave_task(task, false, shared, out);
            }
            Kind::TaskJoin => shared.task_joined(e, self.now),
            Kind::TaskDepends => shared.task_depends(e, self.now),
            Kind::TaskFolded => shared.task_folded(e),
            Kind::FlowOut | Kind::FlowIn => {
                shared.flow_end(e, self.now, self.thread, kind == Kind::FlowOut)
            }
            Kind::Arg => self.arg(e, out),
            Kind::ThreadName => self.name = e.name,
        }
    }

    /// A wait begins, unless it goes on with the one that a time limit ended just before.
    #[inline]
    fn begin_wait(&mut self, e: &Annotation, names: &DefaultNames, out: &mut Out) {
        let (kind, name) = wait_kind(e.aux, names);
        if kind == SliceKind::Cond && e.b != 0 {
            out.locks.condition(self.thread, e.a, e.b);
        }
        if !self.waits_on(kind, e.a, out) {
            self.begin(or(e.name, name), kind, e.a, 0, out);
        }
    }

    /// A wait ends; `e.b` is 1 if its time limit ended it.
    #[inline]
    fn end_wait(&mut self, e: &Annotation, names: &DefaultNames, out: &mut Out) {
        let (kind, name) = wait_kind(e.aux, names);
        let innermost = self.nest.last().copied();
        self.end_of(kind, e.a, or(e.name, name), out);
        let row = innermost.filter(|&row| row != STOLEN).map(|row| row as usize);
        self.timed_out = row.filter(|&row| {
            e.b == 1 && out.slices.kind[row] == kind && out.slices.object[row] == e.a
        });
    }

    /// A suspended task goes on here, with the slices that were open in it and the tasks that ran in its place.
    fn resume_task(&mut self, task: TaskIx, shared: &mut Shared, out: &mut Out) {
        self.run_task(task, false, shared, out);
        for slice in shared.resumed(task) {
            let bits = open::CONTINUED | slice.bits;
            match slice.kind {
                SliceKind::TaskRun => self.run_task(slice.task, true, shared, out),
                SliceKind::LockHold => self.hold(slice.name, slice.object, bits, out),
                kind => self.begin(slice.name, kind, slice.object, bits, out),
            }
        }
    }

    fn task(&self) -> TaskIx {
        self.tasks.last().map_or(TaskIx::NONE, |run| run.task)
    }

    #[inline]
    fn push(&mut self, name: StrIx, kind: SliceKind, object: u64, open: u8, out: &mut Out) -> u32 {
        let s = &mut out.slices;
        let row = s.start.len() as u32;
        s.start.push(self.now);
        s.end.push(Time::MAX);
        s.thread.push(self.thread);
        s.name.push(name);
        s.depth.push(self.nest.len() as u16);
        s.parent.push(self.nest.last().map_or(SliceIx::NONE, |&p| SliceIx(p)));
        s.kind.push(kind);
        s.task.push(self.task());
        s.object.push(object);
        s.open.push(open);
        self.last_instant = InstantIx::NONE;
        row
    }

    #[inline]
    fn begin(&mut self, name: StrIx, kind: SliceKind, object: u64, open: u8, out: &mut Out) {
        if self.nest.len() >= MAX_DEPTH {
            self.too_deep += 1;
            return;
        }
        let row = self.push(name, kind, object, open, out);
        self.nest.push(row);
    }

    /// Closes `nest[at..]`; what lies above `at` did not say that it ended.
    #[inline]
    fn close_from(&mut self, at: usize, bits_above: u8, out: &mut Out) {
        for (ix, &row) in self.nest[at..].iter().enumerate() {
            if row == STOLEN {
                continue;
            }
            out.slices.end[row as usize] = self.now;
            if ix > 0 && bits_above != 0 {
                out.slices.open[row as usize] |= bits_above;
            }
        }
        self.nest.truncate(at);
        self.trim();
        while self.tasks.last().is_some_and(|run| run.place >= at) {
            self.tasks.pop();
        }
        self.last_instant = InstantIx::NONE;
    }

    fn trim(&mut self) {
        while self.nest.last() == Some(&STOLEN) {
            self.nest.pop();
        }
    }

    /// END closes the innermost work slice. If it names an outer one, the ends of the slices in between were lost.
    #[inline]
    fn end(&mut self, name: StrIx, unseen: StrIx, out: &mut Out) {
        if self.too_deep > 0 {
            self.too_deep -= 1;
            return;
        }
        let s = &out.slices;
        if let Some(&top) = self.nest.last()
            && s.kind[top as usize] == SliceKind::Work
            && (!name.is_some() || s.name[top as usize] == name)
        {
            return self.close_from(self.nest.len() - 1, 0, out);
        }
        // Not beyond the task that runs: its slices are not the caller's.
        let floor = self.tasks.last().map_or(0, |run| run.place + 1);
        let is_work = |&row: &u32| row != STOLEN && s.kind[row as usize] == SliceKind::Work;
        let here = self.of_task();
        let named = here
            .iter()
            .rposition(|row| is_work(row) && name.is_some() && s.name[*row as usize] == name);
        match named.or_else(|| here.iter().rposition(is_work)) {
            Some(at) => self.close_from(floor + at, open::END_UNSEEN, out),
            None => self.orphan(SliceKind::Work, or(name, unseen), TaskIx::NONE, 0, out),
        }
    }

    /// Goes on with the wait that a time limit has just ended, if this is the same again and nothing else was in between.
    #[inline]
    fn waits_on(&mut self, kind: SliceKind, object: u64, out: &mut Out) -> bool {
        let Some(row) = self.timed_out.take() else {
            return false;
        };
        let s = &mut out.slices;
        let is_same = s.kind[row] == kind
            && s.object[row] == object
            && usize::from(s.depth[row]) == self.nest.len()
            && (self.now - s.end[row]).ns() <= SAME_WAIT_NS
            && s.start.len() - row <= SAME_WAIT_ROWS
            && s.kind[row + 1..].iter().all(|k| *k == SliceKind::LockHold);
        if is_same {
            s.end[row] = Time::MAX;
            self.nest.push(row as u32);
            self.last_instant = InstantIx::NONE;
        }
        is_same
    }

    /// The end of a wait of this kind at this object.
    fn end_of(&mut self, kind: SliceKind, object: u64, name: StrIx, out: &mut Out) {
        let s = &out.slices;
        let matches = |row: &u32| {
            *row != STOLEN && s.kind[*row as usize] == kind && s.object[*row as usize] == object
        };
        match self.nest.iter().rposition(matches) {
            Some(at) => self.close_from(at, open::END_UNSEEN, out),
            None => self.orphan(kind, name, TaskIx::NONE, object, out),
        }
    }

    /// The slice that ends now began before anything that is known of this thread. With something open it cannot have: its
    /// beginning was lost in between, and nothing is known of it.
    #[cold]
    fn orphan(&mut self, kind: SliceKind, name: StrIx, task: TaskIx, object: u64, out: &Out) {
        if self.nest.is_empty() && self.orphans.len() < MAX_ORPHANS {
            let rows_before = out.slices.start.len() - self.base;
            self.orphans.push(Orphan { end: self.now, name, kind, task, object, rows_before });
        }
    }

    fn acquired(&mut self, name: StrIx, object: u64, bits: u8, out: &mut Out) {
        let s = &out.slices;
        let waits = |row: &u32| {
            *row != STOLEN
                && s.kind[*row as usize] == SliceKind::LockWait
                && s.object[*row as usize] == object
        };
        if let Some(at) = self.nest.iter().rposition(waits) {
            self.close_from(at, open::END_UNSEEN, out);
        }
        self.hold(name, object, bits, out);
    }

    fn hold(&mut self, name: StrIx, object: u64, bits: u8, out: &mut Out) {
        if self.holds.len() < MAX_DEPTH {
            let row = self.push(name, SliceKind::LockHold, object, bits, out);
            self.holds.push(row);
            self.has_holds = true;
        }
    }

    /// The open hold of this lock that is to end: the running task's, else any task's.
    fn open_hold(&self, object: u64, out: &Out) -> Option<usize> {
        let s = &out.slices;
        let is_it = |row: &u32| s.object[*row as usize] == object;
        let task = self.task();
        self.holds
            .iter()
            .rposition(|row| is_it(row) && s.task[*row as usize] == task)
            .or_else(|| self.holds.iter().rposition(is_it))
    }

    /// Takes away the holds of tasks that leave this thread at `when`.
    fn carry_holds(
        &mut self,
        mut tasks: Vec<TaskIx>,
        when: Time,
        carried: &mut Vec<Carried>,
        out: &mut Out,
    ) {
        let s = &mut out.slices;
        tasks.sort_unstable();
        self.holds.retain(|&row| {
            let row = row as usize;
            let task = s.task[row];
            if tasks.binary_search(&task).is_err() {
                return true;
            }
            s.end[row] = when.max(s.start[row]);
            s.open[row] |= open::CONTINUES;
            carried.push(Carried {
                name: s.name[row],
                kind: s.kind[row],
                task,
                object: s.object[row],
                bits: s.open[row] & open::SHARED,
            });
            false
        });
    }

    fn released(&mut self, name: StrIx, object: u64, out: &mut Out) {
        match self.open_hold(object, out) {
            Some(at) => {
                let row = self.holds.remove(at) as usize;
                out.slices.end[row] = self.now;
            }
            None if self.orphans.len() < MAX_ORPHANS => {
                self.has_holds = true;
                let orphan = Orphan {
                    end: self.now,
                    name,
                    kind: SliceKind::LockHold,
                    task: TaskIx::NONE,
                    object,
                    rows_before: 0,
                };
                self.orphans.push(orphan);
            }
            None => {}
        }
    }

    /// The probe saw every acquisition: a release without one is a program that releases what it does not hold.
    fn left(&mut self, object: u64, out: &mut Out) {
        if let Some(at) = self.open_hold(object, out) {
            let row = self.holds.remove(at) as usize;
            out.slices.end[row] = self.now;
        }
    }

    fn run_task(&mut self, task: TaskIx, is_in_place: bool, shared: &Shared, out: &mut Out) {
        let place = self.nest.len();
        self.tasks.push(Running { task, place, is_in_place });
        if place >= MAX_DEPTH {
            return;
        }
        self.begin(or(shared.task_name(task), shared.names.task), SliceKind::TaskRun, 0, 0, out);
    }

    /// The task stops running here, for good or to go on elsewhere with its open slices.
    fn leave_task(
        &mut self,
        task: TaskIx,
        carry: bool,
        shared: &Shared,
        out: &mut Out,
    ) -> Vec<Carried> {
        let Some(ix) = self.tasks.iter().rposition(|run| run.task == task) else {
            self.orphan(
                SliceKind::TaskRun,
                or(shared.task_name(task), shared.names.task),
                task,
                0,
                out,
            );
            return Vec::new();
        };
        let at = self.tasks[ix].place;
        if at >= self.nest.len() {
            self.tasks.retain(|run| run.task != task);
            return Vec::new();
        }
        if !carry {
            self.close_from(at, open::END_UNSEEN, out);
            return Vec::new();
        }
        let tasks = self.with_calls(ix);
        let mut carried = self.carried(ix + tasks.len(), at + 1..self.nest.len(), out);
        self.close_from(at, open::CONTINUES, out);
        self.carry_holds(tasks, self.now, &mut carried, out);
        carried
    }

    /// The task at `ix` of those that run here, and those that run in its place.
    fn with_calls(&self, ix: usize) -> Vec<TaskIx> {
        let above = self.tasks[ix + 1..].iter();
        let calls = above.take_while(|run| run.is_in_place);
        let all = std::iter::once(&self.tasks[ix]).chain(calls);
        all.map(|run| run.task).collect()
    }

    /// The open slices at these places; of runs of tasks those below the task at `next`, which does not come along.
    fn carried(&self, next: usize, places: std::ops::Range<usize>, out: &Out) -> Vec<Carried> {
        let s = &out.slices;
        let runs_below = self.tasks.get(next).map_or(usize::MAX, |run| run.place);
        let goes = |&(place, &row): &(usize, &u32)| {
            let is_run = row != STOLEN && s.kind[row as usize] == SliceKind::TaskRun;
            row != STOLEN && (!is_run || place < runs_below)
        };
        (places.clone().zip(&self.nest[places]))
            .filter(goes)
            .map(|(_, &row)| row as usize)
            .map(|row| Carried {
                name: s.name[row],
                kind: s.kind[row],
                task: s.task[row],
                object: s.object[row],
                bits: s.open[row] & open::SHARED,
            })
            .collect()
    }

    /// Another thread went on with `task` at `time`, although it was not suspended here: a runtime that runs a new task
    /// at once and leaves the rest of the old one to be stolen emits no event when it does so, for that would be two
    /// events for each task. The old one's run here ended where the new one's began.
    /// Returns when that was, and what the task takes along; none when it does not run here.
    pub fn stolen(
        &mut self,
        task: TaskIx,
        time: Time,
        out: &mut Out,
    ) -> Option<(Time, Vec<Carried>)> {
        let ix = self.tasks.iter().position(|run| run.task == task)?;
        let tasks = self.with_calls(ix);
        let next = ix + tasks.len();
        let at = self.tasks[ix].place.min(self.nest.len());
        let above = self.tasks.get(next).map(|run| run.place);
        self.now = self.now.max(time);
        let end = above.unwrap_or(self.nest.len()).min(self.nest.len());
        let (when, created) = match self.nest.get(end) {
            Some(&row) => (out.slices.start[row as usize], Some(row as usize)),
            None => (self.now, None),
        };
        let mut carried = self.carried(next, (at + 1).min(end)..end, out);
        self.carry_holds(tasks, when, &mut carried, out);
        for place in at..end {
            let row = std::mem::replace(&mut self.nest[place], STOLEN) as usize;
            if row != STOLEN as usize {
                out.slices.end[row] = when;
                if place > at {
                    out.slices.open[row] |= open::CONTINUES;
                }
            }
        }
        if let Some(created) = created {
            let below = self.nest[..at].iter().rfind(|&&row| row != STOLEN);
            out.slices.parent[created] = below.map_or(SliceIx::NONE, |&row| SliceIx(row));
        }
        self.tasks.drain(ix..next);
        self.trim();
        Some((when, carried))
    }

    fn instant(&mut self, name: StrIx, out: &mut Out) {
        self.last_instant = InstantIx(out.instants.time.len() as u32);
        out.instants.time.push(self.now);
        out.instants.thread.push(self.thread);
        out.instants.name.push(name);
    }

    fn arg(&mut self, e: &Annotation, out: &mut Out) {
        let value = match ArgType::from_number(e.aux & 15) {
            Some(ArgType::I64) => ArgValue::Int(e.a as i64),
            Some(ArgType::U64) => ArgValue::Uint(e.a),
            Some(ArgType::F64) => ArgValue::Float(f64::from_bits(e.a)),
            Some(ArgType::Str) => ArgValue::Str(StrIx(e.a as u32)),
            None => return,
        };
        // Importers know arguments of a slice that come with its end, when instants were in between.
        let instant = match e.b {
            0 => self.last_instant,
            _ => InstantIx::NONE,
        };
        let slice = match (instant.is_some(), self.nest.last()) {
            (true, _) => SliceIx::NONE,
            (false, Some(&row)) => SliceIx(row),
            (false, None) => return,
        };
        out.args.slice.push(slice);
        out.args.instant.push(instant);
        out.args.name.push(e.name);
        out.args.value.push(value);
    }

    /// Closes what is open and puts the thread's rows in their final order. Returns the number of levels.
    pub fn finish(&mut self, out: &mut Out) -> u16 {
        self.now = self.now.max(self.alive.end);
        self.close_from_end(out);
        if self.base == out.slices.start.len() && self.orphans.is_empty() {
            return 0;
        }
        tidy::finish(
            &mut out.slices,
            &mut out.args,
            self.base,
            self.thread,
            self.alive.start,
            &self.orphans,
            self.has_holds,
        )
    }

    fn close_from_end(&mut self, out: &mut Out) {
        let open = self.nest.iter().filter(|&&row| row != STOLEN);
        for &row in open.chain(&self.holds) {
            out.slices.end[row as usize] = self.now;
            out.slices.open[row as usize] |= open::END_UNSEEN;
        }
        self.nest.clear();
        self.holds.clear();
    }
}

/// [`open`] bits of a lock's mode.
fn mode_bits(mode: u16) -> u8 {
    if mode == LOCK_SHARED { open::SHARED } else { 0 }
}

fn or(name: StrIx, otherwise: StrIx) -> StrIx {
    if name.is_some() { name } else { otherwise }
}

fn wait_kind(aux: u16, names: &DefaultNames) -> (SliceKind, StrIx) {
    match WaitKind::from_number(aux) {
        Some(WaitKind::Barrier) => (SliceKind::Barrier, names.waits[1]),
        Some(WaitKind::Join) => (SliceKind::Join, names.waits[2]),
        Some(WaitKind::Cond) => (SliceKind::Cond, names.waits[3]),
        Some(WaitKind::Io) => (SliceKind::Io, names.waits[4]),
        Some(WaitKind::Sem) => (SliceKind::OtherWait, names.waits[5]),
        Some(WaitKind::Once) => (SliceKind::OtherWait, names.waits[6]),
        Some(WaitKind::Other) | None => (SliceKind::OtherWait, names.waits[0]),
    }
}
