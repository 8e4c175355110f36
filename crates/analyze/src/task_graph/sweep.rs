//! Events of tasks in time order -> strands.
use super::{NONE, Strands, order};
use crate::cut::Cut;
use kasuri_model::{SliceKind, TaskEdgeKind, TaskIx, ThreadIx, ThreadState, Time};

/// An event of a task; with equal stamps in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u32)]
enum Step {
    Create = 0,
    Begin = 1,
    End = 2,
    /// A task's first join, which its row holds.
    Join = 3,
    /// A further one, a row of the edges.
    JoinAgain = 4,
}

/// A point: time, step and the row (task, slice or edge) it is about.
#[derive(Clone, Copy)]
struct Point {
    time: Time,
    /// Step in the upper three bits. Rows of joins are complemented: of two at the same time, the younger task's goes first.
    what: u32,
}

const ROW_BITS: u32 = 29;
pub(super) const MAX_ROWS: usize = (1 << ROW_BITS) - 1;
const ROW: u32 = MAX_ROWS as u32;

impl Point {
    fn new(time: Time, step: Step, row: usize) -> Point {
        let row = row as u32 & ROW;
        let row = if step == Step::Join { !row & ROW } else { row };
        Point {
            time,
            what: (step as u32) << ROW_BITS | row,
        }
    }

    fn step(self) -> Step {
        use Step::*;
        [Create, Begin, End, Join, JoinAgain][(self.what >> ROW_BITS) as usize]
    }

    fn row(self) -> usize {
        let row = self.what & ROW;
        (if self.step() == Step::Join {
            !row & ROW
        } else {
            row
        }) as usize
    }
}

/// The task that runs on a thread, and the time up to which it was counted.
#[derive(Clone, Default)]
struct Running {
    /// Slice rows of open runs, innermost last.
    runs: Vec<usize>,
    counted: Time,
    /// Row of the thread's states that `counted` lies in.
    state: usize,
}

/// What the sweep knows of a task.
#[derive(Clone, Copy)]
struct Place {
    /// Its first strand, and the one it is in now.
    first: u32,
    now: u32,
    /// The strand of its parent that ended with its creation.
    creator: u32,
    /// Thread that runs it now, or ran it last.
    thread: ThreadIx,
}

struct Sweep<'c, 't> {
    cut: &'c Cut<'t>,
    places: Vec<Place>,
    running: Vec<Running>,
    /// CPU time and task of each strand, and the one before it in its task; of the first one its creator's.
    ns: Vec<i64>,
    task: Vec<TaskIx>,
    before: Vec<u32>,
    /// (strand, task that has to end before it).
    needs: Vec<(u32, TaskIx)>,
    work_ns: i64,
    unknown_ns: i64,
}

/// The strands of all tasks that ran, or that edges speak of.
pub(super) fn strands(cut: &Cut<'_>) -> Strands {
    let trace = cut.trace;
    let mut sweep = Sweep {
        cut,
        places: vec![
            Place {
                first: NONE,
                now: NONE,
                creator: NONE,
                thread: ThreadIx::NONE,
            };
            trace.tasks.len()
        ],
        running: (trace.threads.iter())
            .map(|t| Running {
                state: t.states.start as usize,
                ..Running::default()
            })
            .collect(),
        ns: Vec::new(),
        task: Vec::new(),
        before: Vec::new(),
        needs: Vec::new(),
        work_ns: 0,
        unknown_ns: 0,
    };
    for point in points(cut) {
        sweep.step(point);
    }
    sweep.depends();
    sweep.finish()
}

/// All points in order.
fn points(cut: &Cut<'_>) -> Vec<Point> {
    let (trace, s) = (cut.trace, &cut.trace.slices);
    let is_run = |row: &usize| s.kind[*row] == SliceKind::TaskRun && s.task[*row].is_some();
    let n_runs = (0..s.start.len()).filter(is_run).count();
    let mut points = Vec::with_capacity(2 * n_runs + 2 * trace.tasks.len());
    for row in (0..s.start.len()).filter(is_run) {
        points.push(Point::new(s.start[row], Step::Begin, row));
        points.push(Point::new(s.end[row], Step::End, row));
    }
    for (row, task) in trace.tasks.iter().enumerate() {
        if task.created != Time::MIN {
            points.push(Point::new(task.created, Step::Create, row));
        }
        if task.joined != Time::MAX {
            points.push(Point::new(task.joined, Step::Join, row));
        }
    }
    let edges = &trace.task_edges;
    for row in 0..edges.kind.len() {
        if edges.kind[row] == TaskEdgeKind::Join {
            points.push(Point::new(edges.time[row], Step::JoinAgain, row));
        }
    }
    points.sort_unstable_by_key(|p| (p.time, p.what));
    points
}

impl Sweep<'_, '_> {
    fn step(&mut self, point: Point) {
        let row = point.row();
        let trace = self.cut.trace;
        match point.step() {
            Step::Create => self.created(row, point.time),
            Step::Begin => {
                let thread = trace.slices.thread[row];
                self.count(thread, point.time);
                self.running[thread.ix()].runs.push(row);
                let task = trace.slices.task[row];
                self.enter(task);
                self.places[task.ix()].thread = thread;
            }
            Step::End => {
                let thread = trace.slices.thread[row];
                self.count(thread, point.time);
                // Nearly always the last; not when the next began at the same stamp.
                let runs = &mut self.running[thread.ix()].runs;
                if let Some(at) = runs.iter().rposition(|&r| r == row) {
                    runs.remove(at);
                }
            }
            Step::Join => self.joined(trace.tasks[row].joiner, TaskIx(row as u32), point.time),
            Step::JoinAgain => {
                let (task, on) = (trace.task_edges.task[row], trace.task_edges.on[row]);
                self.joined(task, on, point.time);
            }
        }
    }

    fn new_strand(&mut self, task: TaskIx, before: u32) -> u32 {
        self.ns.push(0);
        self.task.push(task);
        self.before.push(before);
        (self.ns.len() - 1) as u32
    }

    /// The task is in a strand from now on.
    fn enter(&mut self, task: TaskIx) {
        let place = self.places[task.ix()];
        if place.now == NONE {
            let first = self.new_strand(task, place.creator);
            let place = &mut self.places[task.ix()];
            (place.first, place.now) = (first, first);
        }
    }

    fn created(&mut self, row: usize, time: Time) {
        let parent = self.cut.trace.tasks[row].parent;
        self.catch_up(parent, time);
        if parent.ix() >= self.places.len() || parent.ix() == row {
            return;
        }
        // It has begun, if only at this stamp.
        self.enter(parent);
        let from = self.places[parent.ix()].now;
        self.places[row].creator = from;
        self.places[parent.ix()].now = self.new_strand(parent, from);
        // Stamps of two CPUs may put the first run before the creation.
        let first = self.places[row].first;
        if first != NONE {
            self.before[first as usize] = from;
        }
    }

    fn joined(&mut self, joiner: TaskIx, joined: TaskIx, time: Time) {
        self.catch_up(joiner, time);
        if joiner.ix() >= self.places.len() {
            return;
        }
        self.enter(joiner);
        let mut now = self.places[joiner.ix()].now;
        // Nothing was done in it, and nobody comes after it so far: it may wait for one more.
        if self.ns[now as usize] > 0 {
            now = self.new_strand(joiner, now);
            self.places[joiner.ix()].now = now;
        }
        self.needs.push((now, joined));
    }

    /// A dependence holds up a task's first strand.
    fn depends(&mut self) {
        let edges = &self.cut.trace.task_edges;
        for row in 0..edges.kind.len() {
            if edges.kind[row] == TaskEdgeKind::Depends {
                self.enter(edges.task[row]);
                let first = self.places[edges.task[row].ix()].first;
                self.needs.push((first, edges.on[row]));
            }
        }
    }

    /// Counts what `task` has run until `time`.
    fn catch_up(&mut self, task: TaskIx, time: Time) {
        if let Some(&Place { thread, .. }) = self.places.get(task.ix())
            && thread.is_some()
        {
            self.count(thread, time);
        }
    }

    /// Adds the thread's time on a CPU since it was last counted to the task that runs there.
    fn count(&mut self, thread: ThreadIx, time: Time) {
        let running = &mut self.running[thread.ix()];
        let from = running.counted;
        running.counted = from.max(time);
        let Some(&run) = running.runs.last() else {
            return;
        };
        let (from, to) = (from.max(self.cut.from), time.min(self.cut.to));
        if from >= to {
            return;
        }
        let (on_cpu, unknown) = on_cpu(self.cut.trace, thread, &mut running.state, from, to);
        self.work_ns += on_cpu;
        self.unknown_ns += unknown;
        let now = self.places[self.cut.trace.slices.task[run].ix()].now;
        self.ns[now as usize] += on_cpu;
    }

    /// All strands are known: edges that name tasks become edges between strands.
    fn finish(mut self) -> Strands {
        let mut cross = Vec::with_capacity(self.needs.len());
        for (strand, on) in std::mem::take(&mut self.needs) {
            // Never ran, but what it needs itself holds up those that need it.
            self.enter(on);
            cross.push((strand, self.places[on.ix()].now));
        }
        let (after, order, n_circular) = order::order(&self.before, cross);
        Strands {
            ns: self.ns,
            task: self.task,
            after,
            order,
            n_circular,
            work_ns: self.work_ns,
            unknown_ns: self.unknown_ns,
        }
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
        if row + 1 < end {
            s.start[row + 1]
        } else {
            Time::MAX
        }
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
