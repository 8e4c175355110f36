//! A thread's time on a CPU as running sums.
//!
//! The time on a CPU within a slice is the difference of two sums. Slices come in order of their beginnings, so a cursor
//! moves along with them, and only a slice's end is searched for, in steps that double: short slices cost nearly nothing.
use kasuri_model::{ThreadIx, ThreadState, Time, Trace};

/// Time on a CPU within intervals of one thread that begin in ascending order.
#[derive(Debug)]
pub struct OnCpu {
    /// Start of each running interval, end, and the running time before it.
    start: Vec<Time>,
    end: Vec<Time>,
    before: Vec<i64>,
    at: usize,
}

impl OnCpu {
    /// Those of one thread.
    pub fn new(trace: &Trace, thread: ThreadIx) -> OnCpu {
        let mut out = OnCpu { start: Vec::new(), end: Vec::new(), before: Vec::new(), at: 0 };
        let mut sum = 0;
        for row in trace.states_of(thread).filter(|r| r.state == ThreadState::Running) {
            out.start.push(row.start);
            out.end.push(row.end);
            out.before.push(sum);
            sum += (row.end - row.start).ns();
        }
        out
    }

    /// Nanoseconds on a CPU from..to; `from` must not be earlier than in the call before.
    pub fn within(&mut self, from: Time, to: Time) -> i64 {
        while self.end.get(self.at).is_some_and(|&end| end <= from) {
            self.at += 1;
        }
        if to <= from {
            return 0;
        }
        // Most slices are shorter than the time between two switches: look near before searching.
        let mut step = 1;
        while self.start.get(self.at + step).is_some_and(|&start| start < to) {
            step *= 2;
        }
        let last = (self.at + step).min(self.start.len());
        let end = self.at + self.start[self.at..last].partition_point(|&start| start < to);
        self.until(end, to)
            - self.until(
                self.at + usize::from(self.start.get(self.at).is_some_and(|&s| s < from)),
                from,
            )
    }

    /// Running time before `time`, of which `rows` intervals have begun.
    fn until(&self, rows: usize, time: Time) -> i64 {
        match rows.checked_sub(1) {
            Some(last) => self.before[last] + (self.end[last].min(time) - self.start[last]).ns(),
            None => 0,
        }
    }
}
