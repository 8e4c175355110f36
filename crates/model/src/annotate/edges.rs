//! Edges of the task graph that a task's own row does not hold: dependences, and every join of a task but its first.
//!
//! They name tasks by the program's ids, which may be used again, and both tasks may be dead by then: the map of living
//! tasks does not know them. So they are kept as they came until the process is done, and then looked up in one list of its
//! tasks by id. A program without them pays nothing.
use crate::{TaskEdgeKind, TaskEdges, TaskIx, Time};

/// An edge as the program said it.
#[derive(Clone, Copy, Debug)]
struct Said {
    time: Time,
    kind: TaskEdgeKind,
    /// The program's id of the task that goes on or starts; 0: none.
    task: u64,
    /// The same of the one before it.
    on: u64,
}

/// What is known of a task's life for the look-up.
pub(super) struct Life {
    pub id: u64,
    pub task: TaskIx,
    /// First seen; `Time::MIN`: only others spoke of it.
    pub since: Time,
    pub ended: Time,
}

/// The edges of all processes, and those of the current one that wait for their tasks.
#[derive(Debug, Default)]
pub(super) struct Edges {
    pub known: TaskEdges,
    said: Vec<Said>,
}

impl Edges {
    pub fn say(&mut self, time: Time, kind: TaskEdgeKind, task: u64, on: u64) {
        self.said.push(Said { time, kind, task, on });
    }

    /// Forgets what the current process said.
    pub fn restart(&mut self) {
        self.said.clear();
    }

    /// The current process is done; `lives`: its tasks, in any order.
    pub fn settle(&mut self, lives: impl Iterator<Item = Life>) {
        if self.said.is_empty() {
            return;
        }
        let mut lives: Vec<Life> = lives.collect();
        lives.sort_unstable_by_key(|l| (l.id, l.since, l.task));
        let of = |id: u64| {
            let from = lives.partition_point(|l| l.id < id);
            let n = lives[from..].partition_point(|l| l.id == id);
            &lives[from..from + n]
        };
        for said in std::mem::take(&mut self.said) {
            let on = last_before(of(said.on), said.time).map(|(_, life)| life.task);
            let task = match said.task {
                0 => Some(TaskIx::NONE),
                id => next_to_run(of(id), said),
            };
            let edges = &mut self.known;
            match (task, on) {
                (Some(task), Some(on)) if task.is_some() || said.kind == TaskEdgeKind::Join => {
                    edges.kind.push(said.kind);
                    edges.time.push(said.time);
                    edges.task.push(task);
                    edges.on.push(on);
                }
                _ => edges.n_unknown += 1,
            }
        }
    }
}

/// The life that began last at or before `time`, else the first.
fn last_before(lives: &[Life], time: Time) -> Option<(usize, &Life)> {
    let at = lives.partition_point(|l| l.since <= time).saturating_sub(1);
    lives.get(at).map(|life| (at, life))
}

/// The life that goes on, or is yet to start: a task that has ended depends on nothing any more, so that its id is
/// the next task's.
fn next_to_run(lives: &[Life], said: Said) -> Option<TaskIx> {
    let (at, life) = last_before(lives, said.time)?;
    let is_over = said.kind == TaskEdgeKind::Depends && life.ended < said.time;
    let next = lives.get(at + 1).filter(|_| is_over);
    Some(next.unwrap_or(life).task)
}
