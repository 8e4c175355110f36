//! State that the threads of one process share: tasks, counters, ends of flows.
//!
//! Task ids are the program's and unique in its process at one moment only: an id is used again when its task has
//! ended, so the map from id to row holds living tasks, and is emptied at each process ([`Shared::enter`]). The
//! columns grow over all processes. [`Shared::restart`] cuts them back to where the process began, for the second pass
//! over a process that turns out to have tasks.
use super::children::Awaited;
use super::edges::{Edges, Life};
use super::folded::Folded;
use super::open::{Carried, DefaultNames};
use crate::input::Annotation;
use crate::{
    Counter, Flows, FoldedTasks, ProcessIx, StrIx, Task, TaskEdgeKind, TaskEdges, TaskIx, ThreadIx,
    Time,
};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;

/// Multiply and fold: task ids are addresses or counts chosen by the traced program, which is not an adversary of
/// its own trace; SipHash would take half of the time that a task event may cost.
#[derive(Default)]
pub(crate) struct FoldHasher(u64);

impl Hasher for FoldHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        let wide = u128::from(self.0 ^ value ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
        self.0 = (wide as u64) ^ ((wide >> 64) as u64);
    }
}

/// `enum kasuri_task_start`: taken from another thread.
const START_STOLEN: u16 = 1;

/// `enum kasuri_task_create`: nothing that runs.
const CREATE_POINT: u16 = 1;
/// The same: one of those that were counted in its parent.
const CREATE_UNFOLDED: u16 = 2;

type FoldMap<V> = HashMap<u64, V, BuildHasherDefault<FoldHasher>>;

/// One end of an arrow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowEnd {
    process: ProcessIx,
    id: u64,
    time: Time,
    is_in: bool,
    thread: ThreadIx,
    name: StrIx,
}

/// The rows of all processes, which are published, and the maps by which those of the current process are found.
#[derive(Debug)]
pub(crate) struct Shared {
    pub names: DefaultNames,
    pub span: Range<Time>,
    process: ProcessIx,
    pub tasks: Vec<Task>,
    task_of: FoldMap<TaskIx>,
    edges: Edges,
    awaited: Awaited,
    folded: Folded,
    carried: HashMap<TaskIx, Vec<Carried>>,
    pub counters: Vec<Counter>,
    counter_of: FoldMap<usize>,
    last_counter: (StrIx, usize),
    pub flow_ends: Vec<FlowEnd>,
    /// Arrows that are whole already.
    steals: Vec<(FlowEnd, FlowEnd)>,
    /// Lengths at the start of the process, to begin it again.
    lengths: (usize, usize, usize, usize),
}

impl Shared {
    pub fn new(names: DefaultNames, span: Range<Time>) -> Shared {
        Shared {
            names,
            span,
            process: ProcessIx::NONE,
            tasks: Vec::new(),
            task_of: FoldMap::default(),
            edges: Edges::default(),
            awaited: Awaited::default(),
            folded: Folded::default(),
            carried: HashMap::new(),
            counters: Vec::new(),
            counter_of: FoldMap::default(),
            last_counter: (StrIx::NONE, 0),
            flow_ends: Vec::new(),
            steals: Vec::new(),
            lengths: (0, 0, 0, 0),
        }
    }

    /// The events that follow are this process's.
    pub fn enter(&mut self, process: ProcessIx) {
        self.settle_edges();
        self.process = process;
        self.lengths =
            (self.tasks.len(), self.counters.len(), self.flow_ends.len(), self.steals.len());
        self.forget();
    }

    /// Undoes all since [`Shared::enter`].
    pub fn restart(&mut self) {
        self.edges.restart();
        self.awaited.restart();
        self.folded.restart();
        self.tasks.truncate(self.lengths.0);
        self.counters.truncate(self.lengths.1);
        self.flow_ends.truncate(self.lengths.2);
        self.steals.truncate(self.lengths.3);
        self.forget();
    }

    /// The current process's tasks are all known: its edges get theirs.
    fn settle_edges(&mut self) {
        let first = self.lengths.0;
        self.awaited.settle(&mut self.tasks, first);
        self.folded.settle();
        let lives = self.tasks[first..].iter().enumerate().map(|(ix, t)| Life {
            id: t.id,
            task: TaskIx((first + ix) as u32),
            since: match t.created {
                Time::MIN if t.started != Time::MAX => t.started,
                created => created,
            },
            ended: t.ended,
        });
        self.edges.settle(lives);
    }

    /// The edges of all processes.
    pub fn take_edges(&mut self) -> TaskEdges {
        self.settle_edges();
        std::mem::take(&mut self.edges.known)
    }

    /// The counts of all processes.
    pub fn take_folded(&mut self) -> FoldedTasks {
        self.folded.settle();
        self.folded.take()
    }

    fn forget(&mut self) {
        self.task_of.clear();
        self.carried.clear();
        self.counter_of.clear();
        self.last_counter = (StrIx::NONE, 0);
    }

    pub fn counter(&mut self, name: StrIx, time: Time, value: f64) {
        if self.last_counter.0 != name || self.counters.is_empty() {
            let next = self.counters.len();
            let at = *self.counter_of.entry(u64::from(name.0)).or_insert(next);
            if at == next {
                self.counters.push(Counter { name, process: self.process, ..Counter::default() });
            }
            self.last_counter = (name, at);
        }
        let counter = &mut self.counters[self.last_counter.1];
        counter.time.push(time);
        counter.value.push(value);
    }

    /// The living task with this id; made when there is none.
    pub fn task(&mut self, id: u64, name: StrIx) -> TaskIx {
        if let Some(&task) = self.task_of.get(&id) {
            return task;
        }
        self.new_task(id, name)
    }

    fn new_task(&mut self, id: u64, name: StrIx) -> TaskIx {
        let task = TaskIx(self.tasks.len() as u32);
        self.tasks.push(Task {
            id,
            process: self.process,
            name,
            parent: TaskIx::NONE,
            creator: ThreadIx::NONE,
            created: Time::MIN,
            started: Time::MAX,
            ended: Time::MAX,
            joined: Time::MAX,
            joiner: TaskIx::NONE,
            is_point: false,
        });
        self.task_of.insert(id, task);
        task
    }

    pub fn task_name(&self, task: TaskIx) -> StrIx {
        self.tasks.get(task.ix()).map_or(StrIx::NONE, |t| t.name)
    }

    /// An id that comes again after its task was created or ended is another task's (ids may be addresses).
    pub fn task_created(&mut self, e: &Annotation, now: Time, creator: ThreadIx, running: TaskIx) {
        let parent = match e.b {
            0 => running,
            id => self.task_of.get(&id).copied().unwrap_or(TaskIx::NONE),
        };
        let task = match self.task_of.get(&e.a) {
            Some(&task) if self.is_same_life(task) => task,
            _ => self.new_task(e.a, e.name),
        };
        let row = &mut self.tasks[task.ix()];
        (row.created, row.creator, row.parent) = (now, creator, parent);
        row.is_point = e.aux == CREATE_POINT;
        if e.name.is_some() {
            row.name = e.name;
        }
        let name = row.name;
        if e.aux == CREATE_UNFOLDED && parent.is_some() {
            self.folded.say(parent, name, -1);
        }
    }

    /// The task was seen running before its creation (stamps of two threads may be equal): the creation is this task's.
    fn is_same_life(&self, task: TaskIx) -> bool {
        let task = &self.tasks[task.ix()];
        task.created == Time::MIN && task.ended == Time::MAX
    }

    pub fn task_started(&mut self, e: &Annotation, now: Time, thread: ThreadIx) -> TaskIx {
        let mut task = self.task(e.a, e.name);
        if self.tasks[task.ix()].ended != Time::MAX {
            task = self.new_task(e.a, e.name);
        }
        let row = &mut self.tasks[task.ix()];
        row.started = row.started.min(now);
        if !row.name.is_some() {
            row.name = e.name;
        }
        if e.aux == START_STOLEN {
            let from = (row.created, row.creator);
            self.stolen(task, from, (now, thread));
        }
        task
    }

    pub fn task_ended(&mut self, e: &Annotation, now: Time) -> TaskIx {
        let task = self.task(e.a, StrIx::NONE);
        self.tasks[task.ix()].ended = now;
        task
    }

    /// `a` goes on after the end of `b`, whose id leaves the map of the living: a program of ten million tasks has few alive.
    /// Joins after the first are edges that find their tasks at the end.
    pub fn task_joined(&mut self, e: &Annotation, now: Time) {
        let is_first = |task: &&TaskIx| self.tasks[task.ix()].joined == Time::MAX;
        let Some(&joined) = self.task_of.get(&e.b).filter(is_first) else {
            return self.edges.say(now, TaskEdgeKind::Join, e.a, e.b);
        };
        let joiner = match e.a {
            0 => TaskIx::NONE,
            id => self.task(id, StrIx::NONE),
        };
        let row = &mut self.tasks[joined.ix()];
        (row.joined, row.joiner) = (now, joiner);
        // Stamps of two CPUs may put the end after the join: then it is still to come.
        if row.ended != Time::MAX {
            self.task_of.remove(&e.b);
        }
    }

    /// `task` goes on after a wait whose object has this id: if that is itself, after the ends of all that it has created.
    pub fn waited(&mut self, task: TaskIx, object: u64, now: Time) {
        if self.tasks.get(task.ix()).is_some_and(|t| t.id == object) {
            self.awaited.say(task, now);
        }
    }

    /// `a` cannot start before the end of `b`.
    pub fn task_depends(&mut self, e: &Annotation, now: Time) {
        self.edges.say(now, TaskEdgeKind::Depends, e.a, e.b);
    }

    /// `b` tasks of this name are a part of `a`.
    pub fn task_folded(&mut self, e: &Annotation) {
        let task = self.task(e.a, StrIx::NONE);
        let name = if e.name.is_some() { e.name } else { self.names.task };
        self.folded.say(task, name, i64::try_from(e.b).unwrap_or(i64::MAX));
    }

    /// An arrow from where `task` was left, or created, to where another thread took it up.
    pub fn stolen(&mut self, task: TaskIx, from: (Time, ThreadIx), to: (Time, ThreadIx)) {
        if !from.1.is_some() || from.1 == to.1 || from.0 > to.0 {
            return;
        }
        let end = |(time, thread), is_in| FlowEnd {
            process: self.process,
            id: self.tasks[task.ix()].id,
            time,
            is_in,
            thread,
            name: self.names.steal,
        };
        self.steals.push((end(from, false), end(to, true)));
    }

    pub fn suspended(&mut self, task: TaskIx, carried: Vec<Carried>) {
        if !carried.is_empty() {
            self.carried.insert(task, carried);
        }
    }

    pub fn resumed(&mut self, task: TaskIx) -> Vec<Carried> {
        if self.carried.is_empty() {
            Vec::new()
        } else {
            self.carried.remove(&task).unwrap_or_default()
        }
    }

    pub fn flow_end(&mut self, e: &Annotation, time: Time, thread: ThreadIx, is_out: bool) {
        let end =
            FlowEnd { process: self.process, id: e.a, time, is_in: !is_out, thread, name: e.name };
        self.flow_ends.push(end);
    }

    /// The arrows: each head takes the oldest tail of its process and id that is not younger and not taken.
    pub fn join_flows(&mut self) -> Flows {
        let mut ends = std::mem::take(&mut self.flow_ends);
        ends.sort_by_key(|e| (e.process, e.id, e.time, e.is_in));
        let mut arrows = std::mem::take(&mut self.steals);
        for same in ends.chunk_by(|a, b| (a.process, a.id) == (b.process, b.id)) {
            let mut tails = same.iter().filter(|e| !e.is_in).peekable();
            for head in same.iter().filter(|e| e.is_in) {
                if let Some(tail) = tails.next_if(|tail| tail.time <= head.time) {
                    arrows.push((*tail, *head));
                }
            }
        }
        arrows.sort_by_key(|(tail, head)| (tail.time, head.time));
        let mut flows = Flows::default();
        for (tail, head) in &arrows {
            flows.id.push(tail.id);
            flows.name.push(if tail.name.is_some() { tail.name } else { head.name });
            flows.from_time.push(tail.time);
            flows.from_thread.push(tail.thread);
            flows.to_time.push(head.time);
            flows.to_thread.push(head.thread);
        }
        flows
    }

    /// The counters, each in order of time.
    pub fn take_counters(&mut self) -> Vec<Counter> {
        let mut counters = std::mem::take(&mut self.counters);
        for counter in counters.iter_mut().filter(|c| !c.time.is_sorted()) {
            let mut order: Vec<usize> = (0..counter.time.len()).collect();
            order.sort_by_key(|&row| counter.time[row]);
            counter.time = order.iter().map(|&row| counter.time[row]).collect();
            counter.value = order.iter().map(|&row| counter.value[row]).collect();
        }
        counters
    }
}
