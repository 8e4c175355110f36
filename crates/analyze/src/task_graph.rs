//! Work, span and parallelism of the task graph.
//!
//! A task is a chain of strands: stretches between the points at which it creates or joins others. A strand weighs the
//! time that the task was on a CPU in it, without the tasks that its thread ran inside. Work (T1) is the weight of all
//! strands, span (Tinf) that of the heaviest chain: no number of CPUs makes the program faster than its span, and a
//! greedy scheduler on P of them needs at most work / P + span (R. Brent 1974; R. Blumofe and C. Leiserson 1999).
//!
//! Method: one sweep in time order over beginnings and ends of runs, creations and joins. Each task carries the weight of
//! the heaviest chain that ends where the task is now: it grows by what the task weighs, a creation hands it to the new
//! task, a join raises it to the joined task's. Joins and creations are the only edges: a lock that makes one task wait
//! for another does not lengthen the span, because another order of the two was possible.
//!
//! Rejected: a graph in memory with a topological sort; the sweep needs 24 bytes a task beside the sorted points.
use crate::cut::Cut;
use crate::{PathPart, TaskGraph};
use kasuri_model::{SliceKind, StrIx, TaskIx, ThreadIx, ThreadState, Time};
use std::collections::HashMap;

/// An event of a task; with equal stamps in this order: creation, begin, end, join.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u32)]
enum Step {
    Create = 0,
    Begin = 1,
    End = 2,
    Join = 3,
}

/// A point: time, step and the row (task or slice) it is about.
#[derive(Clone, Copy)]
struct Point {
    time: Time,
    /// Step in the upper two bits. Rows of joins are complemented: of two at the same time, the younger task's goes first.
    what: u32,
}

const ROW: u32 = (1 << 30) - 1;

impl Point {
    fn new(time: Time, step: Step, row: usize) -> Point {
        let row = row as u32 & ROW;
        let row = if step == Step::Join { !row & ROW } else { row };
        Point {
            time,
            what: (step as u32) << 30 | row,
        }
    }

    fn step(self) -> Step {
        [Step::Create, Step::Begin, Step::End, Step::Join][(self.what >> 30) as usize]
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

/// The heaviest chain to a task's current point, and the join or the beginning that it goes back to.
#[derive(Clone, Copy, Debug)]
struct Chain {
    /// Weight of the heaviest chain up to here.
    span: i64,
    /// The same at the task's beginning.
    start: i64,
    /// The task whose join raised `span` last; none: it comes from the task's own beginning.
    via: TaskIx,
    /// The same of its parent when it created this task.
    parent_via: TaskIx,
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

struct Sweep<'c, 't> {
    cut: &'c Cut<'t>,
    chains: Vec<Chain>,
    running: Vec<Running>,
    /// Thread that runs a task now, or ran it last.
    thread_of: Vec<ThreadIx>,
    work_ns: i64,
    unknown_ns: i64,
}

/// The graph; none without tasks that ran.
pub(crate) fn task_graph(cut: &Cut<'_>) -> Option<TaskGraph> {
    let trace = cut.trace;
    if trace.tasks.is_empty() || trace.tasks.len().max(trace.slices.start.len()) >= ROW as usize {
        return None;
    }
    let points = points(cut);
    let states_of = |thread: &kasuri_model::Thread| thread.states.start as usize;
    let mut sweep = Sweep {
        cut,
        chains: vec![
            Chain {
                span: 0,
                start: 0,
                via: TaskIx::NONE,
                parent_via: TaskIx::NONE
            };
            trace.tasks.len()
        ],
        running: trace
            .threads
            .iter()
            .map(|t| Running {
                state: states_of(t),
                ..Running::default()
            })
            .collect(),
        thread_of: vec![ThreadIx::NONE; trace.tasks.len()],
        work_ns: 0,
        unknown_ns: 0,
    };
    for point in points {
        sweep.step(point);
    }
    sweep.answer()
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
    points.sort_unstable_by_key(|p| (p.time, p.what));
    points
}

impl Sweep<'_, '_> {
    fn step(&mut self, point: Point) {
        let row = point.row();
        let trace = self.cut.trace;
        match point.step() {
            Step::Create => {
                let parent = trace.tasks[row].parent;
                self.catch_up(parent, point.time);
                if let Some(&from) = self.chains.get(parent.ix()) {
                    let to = &mut self.chains[row];
                    (to.span, to.start, to.parent_via) = (from.span, from.span, from.via);
                }
            }
            Step::Begin => {
                let thread = trace.slices.thread[row];
                self.count(thread, point.time);
                self.running[thread.ix()].runs.push(row);
                self.thread_of[trace.slices.task[row].ix()] = thread;
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
            Step::Join => {
                let joiner = trace.tasks[row].joiner;
                self.catch_up(joiner, point.time);
                self.catch_up(TaskIx(row as u32), point.time);
                let from = self.chains[row].span;
                if let Some(to) = self.chains.get_mut(joiner.ix())
                    && from > to.span
                {
                    (to.span, to.via) = (from, TaskIx(row as u32));
                }
            }
        }
    }

    /// Counts what `task` has run until `time`.
    fn catch_up(&mut self, task: TaskIx, time: Time) {
        if let Some(&thread) = self.thread_of.get(task.ix())
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
        self.chains[self.cut.trace.slices.task[run].ix()].span += on_cpu;
    }

    fn answer(self) -> Option<TaskGraph> {
        let last = (0..self.chains.len())
            .max_by_key(|&row| (self.chains[row].span, std::cmp::Reverse(row)))?;
        let span_ns = self.chains[last].span;
        if self.work_ns <= 0 {
            return None;
        }
        let mut path = self.path(TaskIx(last as u32));
        path.sort_by(|a, b| b.ns.cmp(&a.ns).then_with(|| a.name.cmp(&b.name)));
        Some(TaskGraph {
            work_ns: self.work_ns,
            span_ns,
            parallelism: self.work_ns as f64 / span_ns.max(1) as f64,
            unknown_ns: self.unknown_ns,
            path,
        })
    }

    /// The heaviest chain from its end back to its beginning, by name of the tasks.
    fn path(&self, last: TaskIx) -> Vec<PathPart> {
        let tasks = &self.cut.trace.tasks;
        let mut parts: HashMap<StrIx, (i64, u64)> = HashMap::new();
        let mut seen = TaskIx::NONE;
        let mut add = |task: TaskIx, ns: i64| {
            let part = parts.entry(tasks[task.ix()].name).or_default();
            part.0 += ns;
            part.1 += u64::from(task != seen);
            seen = task;
        };
        let (mut task, mut span) = (last, self.chains[last.ix()].span);
        let mut via = self.chains[last.ix()].via;
        // A chain passes each join and each creation once, but in a damaged recording, where tasks create or join each
        // other in a circle.
        for _ in 0..=2 * tasks.len() {
            let chain = self.chains[task.ix()];
            if via.is_some() {
                // The strands since that join, then on from the end of what was joined.
                let joined = self.chains[via.ix()];
                add(task, span - joined.span);
                (task, span, via) = (via, joined.span, joined.via);
            } else {
                add(task, span - chain.start);
                let parent = tasks[task.ix()].parent;
                if !parent.is_some() || tasks[task.ix()].created == Time::MIN {
                    break;
                }
                (task, span, via) = (parent, chain.start, chain.parent_via);
            }
        }
        let name = |ix: StrIx| self.cut.trace.strings.get(ix).to_string();
        parts
            .into_iter()
            .map(|(ix, (ns, tasks))| PathPart {
                name: name(ix),
                tasks,
                ns,
            })
            .collect()
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
