//! Tasks that a runtime counts and does not record one by one.
//!
//! A count comes after the tasks that it counts, in parts; one of them may be recorded after all, by another thread, which says so at
//! its creation and may do so before the count is told. So counts are added up with their signs until the process is done.
use crate::{
    ArgValue, Args, FoldedTasks, InstantIx, SliceIx, SliceKind, Slices, StrIx, Strings, TaskIx,
};
use std::collections::HashMap;

/// Counts of the current process, and those of all before.
#[derive(Debug, Default)]
pub(super) struct Folded {
    counts: HashMap<(TaskIx, StrIx), i64>,
    known: FoldedTasks,
}

impl Folded {
    /// `count` tasks of this name are a part of `task`; negative: no longer.
    pub fn say(&mut self, task: TaskIx, name: StrIx, count: i64) {
        let sum = self.counts.entry((task, name)).or_default();
        *sum = sum.saturating_add(count);
    }

    /// Forgets what the current process said.
    pub fn restart(&mut self) {
        self.counts.clear();
    }

    /// The process is done. Its tasks come after those of the processes before.
    pub fn settle(&mut self) {
        let mut rows: Vec<_> = self.counts.drain().filter(|(_, n)| *n > 0).collect();
        rows.sort_unstable_by_key(|(key, _)| *key);
        for ((task, name), count) in rows {
            self.known.task.push(task);
            self.known.name.push(name);
            self.known.count.push(count.unsigned_abs());
        }
    }

    /// The counts of all processes.
    pub fn take(&mut self) -> FoldedTasks {
        std::mem::take(&mut self.known)
    }
}

/// The first run of each task says how many are folded in it: an argument for each name.
pub(super) fn say_in_slices(
    folded: &FoldedTasks,
    slices: &Slices,
    args: &mut Args,
    strings: &mut Strings,
) {
    if folded.task.is_empty() {
        return;
    }
    let mut first: HashMap<TaskIx, usize> = folded.task.iter().map(|t| (*t, usize::MAX)).collect();
    for row in (0..slices.start.len()).filter(|&row| slices.kind[row] == SliceKind::TaskRun) {
        if let Some(known) = first.get_mut(&slices.task[row])
            && (*known == usize::MAX || slices.start[row] < slices.start[*known])
        {
            *known = row;
        }
    }
    for row in 0..folded.task.len() {
        let slice = first[&folded.task[row]];
        if slice != usize::MAX {
            let name = format!("{} folded", strings.get(folded.name[row]));
            args.slice.push(SliceIx(slice as u32));
            args.instant.push(InstantIx::NONE);
            args.name.push(strings.intern(&name));
            args.value.push(ArgValue::Uint(folded.count[row]));
        }
    }
}
