//! How long a thread was busy: on a CPU, before annotated waits are taken off.
use crate::cut::Cut;
use kasuri_model::{ThreadIx, ThreadState, Time};
use std::cell::Cell;

/// A thread's busy time, before annotated waits are taken off.
pub(crate) struct BusyClock<'t> {
    /// Its states; none: all time is busy.
    starts: &'t [Time],
    states: &'t [ThreadState],
    /// Busy time from the first row to each row's start.
    before: Vec<i64>,
    /// Rows that began up to the time that was last asked for: slices come in order, so the next is near.
    near: Cell<usize>,
}

impl<'t> BusyClock<'t> {
    pub fn new(cut: &Cut<'t>, thread: ThreadIx) -> BusyClock<'t> {
        let rows = &cut.trace.threads[thread.ix()].states;
        let rows = match knows_states(cut) {
            true => rows.start as usize..rows.end as usize,
            false => 0..0,
        };
        let mut clock = BusyClock {
            starts: &cut.trace.states.start[rows.clone()],
            states: &cut.trace.states.state[rows.clone()],
            before: Vec::with_capacity(rows.len()),
            near: Cell::new(0),
        };
        let mut sum = 0;
        for row in 0..clock.starts.len() {
            if row > 0 {
                sum += clock.of_row(row - 1, clock.starts[row]);
            }
            clock.before.push(sum);
        }
        clock
    }

    fn of_row(&self, row: usize, until: Time) -> i64 {
        match self.states[row] {
            ThreadState::Running | ThreadState::Unknown => (until - self.starts[row]).ns(),
            _ => 0,
        }
    }

    /// Number of rows that begin up to `time`: searched for in steps that double, from where the last was.
    fn begun(&self, time: Time) -> usize {
        let (near, n) = (self.near.get(), self.starts.len());
        let mut step = 1;
        let rows = if near > 0 && self.starts[near - 1] > time {
            while step < near && self.starts[near - 1 - step] > time {
                step *= 2;
            }
            near.saturating_sub(1 + step)..near
        } else {
            while near + step <= n && self.starts[near + step - 1] <= time {
                step *= 2;
            }
            near..(near + step).min(n)
        };
        let begun = rows.start + self.starts[rows.clone()].partition_point(|&start| start <= time);
        self.near.set(begun);
        begun
    }

    /// Busy time up to `time`, from an origin of the thread's own.
    fn until(&self, time: Time) -> i64 {
        let Some(&first) = self.starts.first() else {
            return time.ns();
        };
        match self.begun(time) {
            0 => (time - first).ns(),
            after => self.before[after - 1] + self.of_row(after - 1, time),
        }
    }

    pub fn between(&self, start: Time, end: Time) -> i64 {
        (self.until(end) - self.until(start)).max(0)
    }

    /// As much of start..end as lies in the range.
    pub fn inside(&self, cut: &Cut<'_>, start: Time, end: Time) -> i64 {
        self.between(start.max(cut.from), end.min(cut.to))
    }
}

/// Whether the kernel's events show the states of threads.
pub(crate) fn knows_states(cut: &Cut<'_>) -> bool {
    matches!(cut.trace.info.kernel_source.as_str(), "tracefs" | "perf")
}
