//! The part of a trace that is looked at, and percentiles.
//!
//! All tables of `kasuri stat` take a [`Cut`]: the trace with the time range of `--range`, clamped to what was recorded. A time
//! belongs to the range if from <= time < to; the range of the whole recording also includes its last instant.
use crate::summary_rows::Latency;
use kasuri_model::{ThreadIx, Time, Trace};
use std::ops::Range;

/// Options of a summary.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Only this part of the recording; none: all of it. Cut to the recording's span.
    pub range: Option<Range<Time>>,
    /// Threads of all processes, not only the target's. The totals above the tables stay the target's.
    pub all_processes: bool,
    /// Without [`crate::Summary::migration_list`], which may be as long as there are wake-ups; groups of moves are told in any case.
    pub omits_moves: bool,
    /// Also [`crate::Answers::pieces`], the account's time with the code that explains it, which only a report draws.
    pub pieces: bool,
}

/// A trace and a time range of it.
pub(crate) struct Cut<'t> {
    pub trace: &'t Trace,
    pub from: Time,
    pub to: Time,
    /// The range is the whole recording.
    pub whole: bool,
    pub all_processes: bool,
    pub omits_moves: bool,
    pub pieces: bool,
}

impl<'t> Cut<'t> {
    pub fn new(trace: &'t Trace, options: &Options) -> Cut<'t> {
        let range = options.range.clone().unwrap_or(trace.span.clone());
        let from = range.start.max(trace.span.start).min(trace.span.end);
        let to = range.end.min(trace.span.end).max(from);
        Cut {
            trace,
            from,
            to,
            whole: from == trace.span.start && to == trace.span.end,
            all_processes: options.all_processes,
            omits_moves: options.omits_moves,
            pieces: options.pieces,
        }
    }

    /// The part of start..end that lies in the range, ns.
    pub fn overlap(&self, start: Time, end: Time) -> i64 {
        end.min(self.to).0.saturating_sub(start.max(self.from).0).max(0)
    }

    pub fn contains(&self, time: Time) -> bool {
        (self.from <= time && time < self.to) || (self.whole && time == self.to)
    }

    /// Whether a slice from start to end is looked at: it touches the range.
    pub fn touches(&self, start: Time, end: Time) -> bool {
        self.overlap(start, end) > 0 || (start == end && self.contains(start))
    }

    pub fn is_target(&self, thread: ThreadIx) -> bool {
        self.trace.is_target(thread)
    }

    /// Whether the thread's row is wanted in the tables.
    pub fn is_shown(&self, thread: ThreadIx) -> bool {
        self.all_processes || self.is_target(thread)
    }

    pub fn threads(&self) -> impl Iterator<Item = ThreadIx> + use<> {
        (0..self.trace.threads.len() as u32).map(ThreadIx)
    }
}

/// Percentile `p` by nearest rank: the ceil(p/100 * n)-th smallest value. Reorders `values`.
pub(crate) fn percentile(values: &mut [i64], p: u64) -> i64 {
    let n = values.len() as u64;
    if n == 0 {
        return 0;
    }
    let rank = (n * p).div_ceil(100).clamp(1, n) as usize;
    *values.select_nth_unstable(rank - 1).1
}

/// None without values.
pub(crate) fn latency(values: &mut [i64]) -> Option<Latency> {
    let max = *values.iter().max()?;
    Some(Latency { p50: percentile(values, 50), p99: percentile(values, 99), max })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_rank() {
        // n = 4: the 50th is the ceil(0.5 * 4) = 2nd smallest, the 99th the ceil(3.96) = 4th.
        assert_eq!(percentile(&mut [40, 10, 30, 20], 50), 20);
        assert_eq!(percentile(&mut [40, 10, 30, 20], 99), 40);
        // n = 5: the ceil(2.5) = 3rd.
        assert_eq!(percentile(&mut [5, 1, 4, 2, 3], 50), 3);
        let mut hundred: Vec<i64> = (1..=100).rev().collect();
        assert_eq!(percentile(&mut hundred, 99), 99);
        assert_eq!(percentile(&mut [7], 50), 7);
        assert_eq!(latency(&mut []), None);
    }
}
