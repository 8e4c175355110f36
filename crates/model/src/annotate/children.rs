//! Waits of tasks for all that they have created, as OpenMP's `taskwait` is: joins of each of these that nobody has joined.
//!
//! Such a wait is told by its object, which is the waiting task itself. It is settled when the process's tasks are all known: a
//! creation may be seen after it, where stamps of two threads are equal.
use crate::{Task, TaskIx, Time};
use std::collections::HashMap;

/// Waits of the current process, in the order of their ends by thread.
#[derive(Debug, Default)]
pub(super) struct Awaited(Vec<(TaskIx, Time)>);

impl Awaited {
    /// `task` goes on at `time` after the ends of all that it has created.
    pub fn say(&mut self, task: TaskIx, time: Time) {
        self.0.push((task, time));
    }

    pub fn restart(&mut self) {
        self.0.clear();
    }

    /// The process is done; its tasks are those from `first` on.
    pub fn settle(&mut self, tasks: &mut [Task], first: usize) {
        if self.0.is_empty() {
            return;
        }
        let mut waits: HashMap<TaskIx, Vec<Time>> = HashMap::new();
        for (task, time) in self.0.drain(..) {
            waits.entry(task).or_default().push(time);
        }
        waits.values_mut().for_each(|times| times.sort_unstable());
        for task in &mut tasks[first..] {
            let is_free = task.joined == Time::MAX && task.created != Time::MIN;
            let Some(times) = waits.get(&task.parent).filter(|_| is_free) else {
                continue;
            };
            // The first wait that ends after the creation.
            let next = times.partition_point(|time| *time < task.created);
            if let Some(&time) = times.get(next) {
                (task.joined, task.joiner) = (time, task.parent);
            }
        }
    }
}
