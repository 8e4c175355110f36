//! Events of tasks in time order -> strands.
use super::implicit::Teams;
use super::making::{Doing, Making};
use super::{NONE, Strands, order};
use crate::cut::Cut;
use kasuri_model::{SliceKind, TaskEdgeKind, TaskIx, Time};

/// An event of a task; with equal stamps in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u32)]
enum Step {
    /// A wait, or a `taskloop`, is over.
    Waited = 0,
    /// A team's region is over, or begins; its row is the team's number.
    Leave = 1,
    Fork = 2,
    /// A thread begins its part of a region; its row is the part's number.
    Enter = 3,
    Create = 4,
    Begin = 5,
    End = 6,
    /// A task's first join, which its row holds.
    Join = 7,
    /// A further one, a row of the edges.
    JoinAgain = 8,
    Wait = 9,
}

/// A point: time, step and the row (task, slice, edge, team or part) it is about.
#[derive(Clone, Copy)]
struct Point {
    time: Time,
    /// Step in the upper four bits. Rows of joins are complemented: of two at the same time, the younger task's goes first.
    what: u32,
}

const ROW_BITS: u32 = 28;
pub(super) const MAX_ROWS: usize = (1 << ROW_BITS) - 1;
const ROW: u32 = MAX_ROWS as u32;

impl Point {
    fn new(time: Time, step: Step, row: usize) -> Point {
        let row = row as u32 & ROW;
        let row = if step == Step::Join { !row & ROW } else { row };
        Point { time, what: (step as u32) << ROW_BITS | row }
    }

    fn step(self) -> Step {
        use Step::*;
        let steps = [Waited, Leave, Fork, Enter, Create, Begin, End, Join, JoinAgain, Wait];
        steps[(self.what >> ROW_BITS) as usize]
    }

    fn row(self) -> usize {
        let row = self.what & ROW;
        (if self.step() == Step::Join { !row & ROW } else { row }) as usize
    }
}

struct Sweep<'c, 't> {
    made: Making<'c, 't>,
    teams: Teams,
}

/// The strands of all tasks that ran, or that edges speak of, and of the code outside of tasks in parallel regions.
pub(super) fn strands(cut: &Cut<'_>) -> Strands {
    let mut sweep = Sweep { made: Making::new(cut), teams: Teams::new(cut.trace) };
    for point in points(cut, &sweep.teams) {
        sweep.step(point);
    }
    sweep.depends();
    sweep.finish()
}

/// All points in order.
fn points(cut: &Cut<'_>, teams: &Teams) -> Vec<Point> {
    let (trace, s) = (cut.trace, &cut.trace.slices);
    let kind = |row: usize| match s.kind[row] {
        SliceKind::TaskRun if s.task[row].is_some() => Some((Step::Begin, Step::End)),
        SliceKind::Work if teams.is_taskloop(s.name[row]) => Some((Step::Wait, Step::Waited)),
        SliceKind::TaskRun | SliceKind::Work | SliceKind::LockHold => None,
        _ => Some((Step::Wait, Step::Waited)),
    };
    let n_slices = (0..s.start.len()).filter(|&row| kind(row).is_some()).count();
    let n_parts = teams.parts().count();
    let mut points = Vec::with_capacity(2 * (n_slices + n_parts + trace.tasks.len()));
    for row in 0..s.start.len() {
        if let Some((begin, end)) = kind(row) {
            points.push(Point::new(s.start[row], begin, row));
            points.push(Point::new(s.end[row], end, row));
        }
    }
    for (number, team) in teams.all.iter().enumerate() {
        points.push(Point::new(team.start, Step::Fork, number));
        points.push(Point::new(team.end, Step::Leave, number));
    }
    for (number, part) in teams.parts().enumerate() {
        points.push(Point::new(part.start, Step::Enter, number));
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
        let (made, teams) = (&mut self.made, &mut self.teams);
        let (row, time) = (point.row(), point.time);
        let trace = made.cut.trace;
        match point.step() {
            Step::Waited => {
                // One of no length: its end comes before its beginning.
                if trace.slices.start[row] == time {
                    teams.waits(made, row);
                }
                let thread = trace.slices.thread[row];
                made.count(thread, time);
                made.close(thread, Some(row));
                teams.waited(made, row);
            }
            Step::Leave => teams.leave(made, row, time),
            Step::Fork => teams.fork(made, row, time),
            Step::Enter => teams.enter(made, row, time),
            Step::Create => self.created(row, time),
            Step::Begin => {
                let thread = trace.slices.thread[row];
                made.count(thread, time);
                let task = trace.slices.task[row];
                made.open(thread, Some(row), Doing::Task(task));
                made.enter(task);
                made.places[task.ix()].thread = thread;
            }
            Step::End => {
                let thread = trace.slices.thread[row];
                made.count(thread, time);
                made.close(thread, Some(row));
            }
            Step::Join => self.joined(trace.tasks[row].joiner, TaskIx(row as u32), time),
            Step::JoinAgain => {
                let (task, on) = (trace.task_edges.task[row], trace.task_edges.on[row]);
                self.joined(task, on, time);
            }
            Step::Wait => {
                if trace.slices.end[row] > time {
                    let thread = trace.slices.thread[row];
                    made.count(thread, time);
                    teams.waits(made, row);
                    made.open(thread, Some(row), Doing::Wait);
                }
            }
        }
    }

    fn created(&mut self, row: usize, time: Time) {
        let made = &mut self.made;
        let task = &made.cut.trace.tasks[row];
        let is_child = task.parent.is_some();
        made.catch_up(task.parent, time);
        if !is_child && made.cut.trace.threads.get(task.creator.ix()).is_some() {
            made.count(task.creator, time);
        }
        let from = match self.teams.creates(made, row) {
            Some(from) => from,
            None if is_child && task.parent.ix() < made.places.len() && task.parent.ix() != row => {
                made.next_strand(task.parent).0
            }
            None => return,
        };
        made.places[row].creator = from;
        // Stamps of two CPUs may put the first run before the creation.
        let first = made.places[row].first;
        if first != NONE {
            made.before[first as usize] = from;
        }
    }

    fn joined(&mut self, joiner: TaskIx, joined: TaskIx, time: Time) {
        let made = &mut self.made;
        made.catch_up(joiner, time);
        if joiner.ix() >= made.places.len() {
            return;
        }
        made.enter(joiner);
        let mut now = made.places[joiner.ix()].now;
        // Nothing was done in it, and nobody comes after it so far: it may wait for one more.
        if made.ns[now as usize] > 0 {
            now = made.new_strand(joiner, now);
            made.places[joiner.ix()].now = now;
        }
        made.needs.push((now, joined));
    }

    /// A dependence holds up a task's first strand.
    fn depends(&mut self) {
        let made = &mut self.made;
        let edges = &made.cut.trace.task_edges;
        for row in 0..edges.kind.len() {
            if edges.kind[row] == TaskEdgeKind::Depends {
                made.enter(edges.task[row]);
                let first = made.places[edges.task[row].ix()].first;
                made.needs.push((first, edges.on[row]));
            }
        }
    }

    /// All strands are known: edges that name tasks become edges between strands.
    fn finish(self) -> Strands {
        let mut made = self.made;
        let mut cross = std::mem::take(&mut made.cross);
        cross.reserve(made.needs.len());
        for (strand, on) in std::mem::take(&mut made.needs) {
            // Never ran, but what it needs itself holds up those that need it.
            made.enter(on);
            cross.push((strand, made.places[on.ix()].now));
        }
        let (after, order, n_circular) = order::order(&made.before, cross);
        Strands {
            ns: made.ns,
            task: made.task,
            after,
            order,
            n_circular,
            work_ns: made.work_ns,
            unknown_ns: made.unknown_ns,
            implicit: self.teams.implicit,
        }
    }
}
