//! Strands while they are made: what each thread is in, and the time that it was on a CPU there.
use super::NONE;
use crate::cut::Cut;
use kasuri_model::{TaskIx, ThreadIx, ThreadState, Time};

/// What a thread does, and the time up to which it was counted.
#[derive(Clone, Default)]
struct Running {
    /// What is open, innermost last: in the order of its slices.
    open: Vec<Open>,
    counted: Time,
    /// Row of the thread's states that `counted` lies in.
    state: usize,
}

/// Something that a thread is in. `at`: 1 + the row of its slice; 0: what has none, and is around all that have.
#[derive(Clone, Copy)]
struct Open {
    at: u32,
    what: Doing,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Doing {
    /// A task, or an implicit one.
    Task(TaskIx),
    /// A wait, which weighs nothing.
    Wait,
}

/// What the sweep knows of a task.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// Its first strand, and the one it is in now.
    pub first: u32,
    pub now: u32,
    /// The strand of its parent that ended with its creation.
    pub creator: u32,
    /// Thread that runs it now, or ran it last.
    pub thread: ThreadIx,
}

impl Place {
    pub const NONE: Place = Place { first: NONE, now: NONE, creator: NONE, thread: ThreadIx::NONE };
}

pub(super) struct Making<'c, 't> {
    pub cut: &'c Cut<'t>,
    /// Of the tasks, then of the implicit ones.
    pub places: Vec<Place>,
    running: Vec<Running>,
    /// CPU time and task of each strand, and the one before it in its task; of the first one its creator's.
    pub ns: Vec<i64>,
    pub task: Vec<TaskIx>,
    pub before: Vec<u32>,
    /// (strand, task that has to end before it).
    pub needs: Vec<(u32, TaskIx)>,
    /// (strand, strand that comes before it).
    pub cross: Vec<(u32, u32)>,
    pub work_ns: i64,
    pub unknown_ns: i64,
}

impl<'c, 't> Making<'c, 't> {
    pub fn new(cut: &'c Cut<'t>) -> Making<'c, 't> {
        let trace = cut.trace;
        Making {
            cut,
            places: vec![Place::NONE; trace.tasks.len()],
            running: (trace.threads.iter())
                .map(|t| Running { state: t.states.start as usize, ..Running::default() })
                .collect(),
            ns: Vec::new(),
            task: Vec::new(),
            before: Vec::new(),
            needs: Vec::new(),
            cross: Vec::new(),
            work_ns: 0,
            unknown_ns: 0,
        }
    }

    /// The thread is in the slice from now on; none: in what is around all slices. The order of those that began at once is
    /// that of their rows.
    pub fn open(&mut self, thread: ThreadIx, row: Option<usize>, what: Doing) {
        let open = &mut self.running[thread.ix()].open;
        let at = row.map_or(0, |row| row as u32 + 1);
        let inside = open.iter().rev().take_while(|o| o.at > at).count();
        open.insert(open.len() - inside, Open { at, what });
    }

    /// And no longer. Nearly always its last; not when the next began at the same stamp.
    pub fn close(&mut self, thread: ThreadIx, row: Option<usize>) {
        let open = &mut self.running[thread.ix()].open;
        let at = row.map_or(0, |row| row as u32 + 1);
        if let Some(at) = open.iter().rposition(|o| o.at == at) {
            open.remove(at);
        }
    }

    /// The task that the thread is in, if it waits there or not; none: code outside of tasks that the graph does not have.
    pub fn doing(&self, thread: ThreadIx) -> Option<TaskIx> {
        let open = &self.running.get(thread.ix())?.open;
        open.iter().rev().find_map(|o| match o.what {
            Doing::Task(task) => Some(task),
            Doing::Wait => None,
        })
    }

    pub fn new_task(&mut self, thread: ThreadIx, creator: u32) -> TaskIx {
        self.places.push(Place { creator, thread, ..Place::NONE });
        let task = TaskIx(self.places.len() as u32 - 1);
        self.enter(task);
        task
    }

    /// The task goes on in a new strand. Returns the one before and the new one.
    pub fn next_strand(&mut self, task: TaskIx) -> (u32, u32) {
        // It has begun, if only at this stamp.
        self.enter(task);
        let from = self.places[task.ix()].now;
        let now = self.new_strand(task, from);
        self.places[task.ix()].now = now;
        (from, now)
    }

    pub fn new_strand(&mut self, task: TaskIx, before: u32) -> u32 {
        self.ns.push(0);
        self.task.push(task);
        self.before.push(before);
        (self.ns.len() - 1) as u32
    }

    /// The task is in a strand from now on.
    pub fn enter(&mut self, task: TaskIx) {
        let place = self.places[task.ix()];
        if place.now == NONE {
            let first = self.new_strand(task, place.creator);
            let place = &mut self.places[task.ix()];
            (place.first, place.now) = (first, first);
        }
    }

    /// Counts what `task` has run until `time`.
    pub fn catch_up(&mut self, task: TaskIx, time: Time) {
        if let Some(&Place { thread, .. }) = self.places.get(task.ix())
            && thread.is_some()
        {
            self.count(thread, time);
        }
    }

    /// Adds the thread's time on a CPU since it was last counted to the task that runs there.
    pub fn count(&mut self, thread: ThreadIx, time: Time) {
        let running = &mut self.running[thread.ix()];
        let from = running.counted;
        running.counted = from.max(time);
        let Some(&Open { what: Doing::Task(task), .. }) = running.open.last() else {
            return;
        };
        let (from, to) = (from.max(self.cut.from), time.min(self.cut.to));
        if from >= to {
            return;
        }
        let (on_cpu, unknown) = on_cpu(self.cut.trace, thread, &mut running.state, from, to);
        self.work_ns += on_cpu;
        self.unknown_ns += unknown;
        let now = self.places[task.ix()].now;
        self.ns[now as usize] += on_cpu;
    }
}

/// Time for which the thread was on a CPU in from..to, and the part of it that is assumed because a task ran.
/// `state`: the row of its states that contains `from` or one before it; moved on.
fn on_cpu(
    trace: &kasuri_model::Trace,
    thread: ThreadIx,
    state: &mut usize,
    from: Time,
    to: Time,
) -> (i64, i64) {
    let (s, info) = (&trace.states, &trace.threads[thread.ix()]);
    let end = info.states.end as usize;
    if info.states.is_empty() {
        return ((to - from).ns(), (to - from).ns());
    }
    let until = |row: usize| {
        if row + 1 < end { s.start[row + 1] } else { Time::MAX }
    };
    let (mut running, mut unknown) = (0, 0);
    while *state + 1 < end && until(*state) <= from {
        *state += 1;
    }
    let mut row = *state;
    loop {
        let (a, b) = (s.start[row].max(from), until(row).min(to));
        let ns = (b - a).ns().max(0);
        match s.state[row] {
            ThreadState::Running => running += ns,
            ThreadState::Unknown => {
                running += ns;
                unknown += ns;
            }
            _ => {}
        }
        if until(row) >= to {
            break;
        }
        row += 1;
    }
    *state = row;
    (running, unknown)
}
