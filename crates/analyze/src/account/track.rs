//! A value over time, for one thread or CPU, as a list of changes; and nested slices flattened into one.
//!
//! The sweep asks at each moment what a thread is inside of. Its slices nest, so the answer by search would cost a walk up the
//! parents; a [`Track`] is that answer for all times, made once, with a cursor that moves along with the sweep.
use kasuri_model::{KernelSpanKind, SliceKind, StrIx, ThreadIx, Time, Trace};
use std::cell::Cell;

/// Nothing holds.
pub(crate) const NONE: u32 = u32::MAX;

/// A step function of time with a cursor: times asked for must not go back by much to be cheap.
#[derive(Clone, Debug, Default)]
pub(crate) struct Track {
    /// When a value begins to hold...
    start: Vec<Time>,
    /// ...and the value; [`NONE`]: nothing.
    value: Vec<u32>,
    /// Changes at or before the last time asked for.
    at: Cell<usize>,
}

impl Track {
    pub fn is_empty(&self) -> bool {
        self.start.is_empty()
    }

    /// The times at which it changes.
    pub fn changes(&self) -> impl Iterator<Item = Time> + '_ {
        self.start.iter().copied()
    }

    /// From when to when it is which value; the last one until `end`.
    pub fn stretches(&self, end: Time) -> impl Iterator<Item = (Time, Time, u32)> + '_ {
        let ends = self.start.iter().skip(1).copied().chain([end]);
        let starts = self.start.iter().zip(&self.value);
        starts.zip(ends).map(|((&start, &value), end)| (start, end, value))
    }

    /// From `time` on it is `value`. Times ascend; of equal ones the last counts.
    pub fn change(&mut self, time: Time, value: u32) {
        match self.start.last() {
            Some(&last) if last >= time => {
                if let Some(slot) = self.value.last_mut() {
                    *slot = value;
                }
            }
            _ => {
                self.start.push(time);
                self.value.push(value);
            }
        }
    }

    /// The same, where it was not so before. Nothing before the first value is no change.
    pub fn change_to(&mut self, time: Time, value: u32) {
        if self.value.last().copied().unwrap_or(NONE) != value {
            self.change(time, value);
        }
    }

    /// The value at `time`, and until when it holds.
    #[inline]
    pub fn get(&self, time: Time) -> (u32, Time) {
        let mut at = self.at.get();
        while at > 0 && self.start[at - 1] > time {
            // Going back is rare and far: search.
            at = self.start.partition_point(|&s| s <= time);
        }
        while self.start.get(at).is_some_and(|&s| s <= time) {
            at += 1;
        }
        self.at.set(at);
        let value = match at {
            0 => NONE,
            at => self.value[at - 1],
        };
        (value, self.start.get(at).copied().unwrap_or(Time::MAX))
    }

    /// The same without the cursor: for times in no order.
    pub fn look(&self, time: Time) -> (u32, Time) {
        let next = self.start.partition_point(|&s| s <= time);
        let value = match next {
            0 => NONE,
            next => self.value[next - 1],
        };
        (value, self.start.get(next).copied().unwrap_or(Time::MAX))
    }

    /// The value just before `time`, and since when it has held.
    pub fn before(&self, time: Time) -> (u32, Time) {
        match self.start.partition_point(|&s| s < time) {
            0 => (NONE, Time::MIN),
            n => (self.value[n - 1], self.start[n - 1]),
        }
    }

    /// Intervals that nest or overlap -> which began last. They come by start, the outer first.
    fn from_nested(intervals: impl Iterator<Item = (Time, Time, u32)>) -> Track {
        let mut track = Track::default();
        let mut open: Vec<(Time, u32)> = Vec::new();
        for (start, end, value) in intervals {
            close(&mut track, &mut open, start);
            track.change(start, value);
            open.push((end, value));
        }
        close(&mut track, &mut open, Time::MAX);
        track
    }
}

/// Ends what ends by `until`.
fn close(track: &mut Track, open: &mut Vec<(Time, u32)>, until: Time) {
    while let Some(&(end, _)) = open.last().filter(|(end, _)| *end <= until) {
        open.pop();
        if end == Time::MAX {
            continue;
        }
        // The span that it interrupted may have ended meanwhile.
        while open.last().is_some_and(|(outer, _)| *outer <= end) {
            open.pop();
        }
        track.change(end, open.last().map_or(NONE, |&(_, value)| value));
    }
}

/// Whether time in such a slice is no work of the program's own.
pub(crate) fn is_wait(kind: SliceKind) -> bool {
    !matches!(kind, SliceKind::Work | SliceKind::TaskRun | SliceKind::LockHold)
}

/// The slices that decide about a thread's time on a CPU: the innermost slice where that is a wait or belongs to a task
/// runtime, or is inside of one; value: the slice's row. Threads without such slices have an empty track.
pub(crate) fn specials(
    trace: &Trace,
    thread: ThreadIx,
    is_worker: bool,
    is_runtime: impl Fn(StrIx) -> bool,
) -> Track {
    let s = &trace.slices;
    let rows = trace.threads[thread.ix()].slices.clone();
    let rows = rows.start as usize..rows.end as usize;
    let is_special = |row: usize| {
        is_wait(s.kind[row])
            || (is_worker && s.kind[row] == SliceKind::TaskRun)
            || (s.kind[row] == SliceKind::Work && is_runtime(s.name[row]))
    };
    let mut until = Time::MIN;
    let chosen = rows
        .filter(|&row| s.kind[row] != SliceKind::LockHold && s.end[row] > s.start[row])
        .filter(move |&row| {
            let special = is_special(row);
            if special {
                until = until.max(s.end[row]);
            }
            special || s.start[row] < until
        });
    Track::from_nested(chosen.map(|row| (s.start[row], s.end[row], row as u32)))
}

/// Shorter slices do not name what a thread does for long: what is around them does.
const LASTING_NS: i64 = 50_000;

/// Name of the code that a thread runs, for people: the innermost work slice that lasts; where there is none, a run of short ones
/// goes by the name of the first. Value: the name. At most one change in [`LASTING_NS`], give or take.
pub(crate) fn code(trace: &Trace, thread: ThreadIx) -> Track {
    let s = &trace.slices;
    let rows = trace.threads[thread.ix()].slices.clone();
    let mut track = Track::default();
    let mut open: Vec<(Time, u32)> = Vec::new();
    // Start and end of the current run of short slices.
    let mut run = (Time::MIN, Time::MIN);
    for row in rows.start as usize..rows.end as usize {
        if !matches!(s.kind[row], SliceKind::Work | SliceKind::TaskRun) {
            continue;
        }
        let (start, end, name) = (s.start[row], s.end[row], s.name[row].0);
        if (end - start).ns() >= LASTING_NS {
            end_run(&mut track, &mut run, start);
            close(&mut track, &mut open, start);
            track.change(start, name);
            open.push((end, name));
        } else if open.last().is_none_or(|(until, _)| *until <= start) {
            close(&mut track, &mut open, start);
            let goes_on = run.1 != Time::MIN && start.ns() - run.1.ns() < LASTING_NS;
            let is_same = track.value.last() == Some(&name);
            let is_soon = start.ns().saturating_sub(run.0.ns()) < LASTING_NS;
            if !(goes_on && (is_same || is_soon)) {
                end_run(&mut track, &mut run, start);
                track.change(start, name);
                run.0 = start;
            }
            run.1 = run.1.max(end);
        }
    }
    end_run(&mut track, &mut run, Time::MAX);
    close(&mut track, &mut open, Time::MAX);
    track
}

fn end_run(track: &mut Track, run: &mut (Time, Time), until: Time) {
    if run.1 != Time::MIN {
        track.change(run.1.min(until), NONE);
        *run = (Time::MIN, Time::MIN);
    }
}

/// Interrupt handlers by CPU and system calls by thread; value: the row of the span. Empty when not recorded.
pub(crate) struct KernelTracks {
    pub irq: Vec<Track>,
    pub syscall: Vec<Track>,
}

impl KernelTracks {
    pub fn new(trace: &Trace) -> KernelTracks {
        let spans = &trace.kernel_spans;
        let n_cpus = trace.cpus.len();
        let mut irq: Vec<Vec<(Time, Time, u32)>> = vec![Vec::new(); n_cpus];
        let mut syscall: Vec<Vec<(Time, Time, u32)>> = Vec::new();
        for row in 0..spans.start.len() {
            let span = (spans.start[row], spans.end[row], row as u32);
            if spans.end[row] <= spans.start[row] {
                continue;
            }
            match spans.kind[row] {
                KernelSpanKind::Irq | KernelSpanKind::Softirq => {
                    if let Some(own) = irq.get_mut(usize::from(spans.cpu[row])) {
                        own.push(span);
                    }
                }
                // Inside system calls, faults and interrupts.
                KernelSpanKind::LockContention => {}
                KernelSpanKind::Syscall => {
                    syscall.resize(trace.threads.len(), Vec::new());
                    if let Some(own) = syscall.get_mut(spans.thread[row].ix()) {
                        own.push(span);
                    }
                }
            }
        }
        let track = |mut spans: Vec<(Time, Time, u32)>| {
            spans.sort_by_key(|&(start, end, _)| (start, std::cmp::Reverse(end)));
            Track::from_nested(spans.into_iter())
        };
        KernelTracks {
            irq: irq.into_iter().map(track).collect(),
            syscall: syscall.into_iter().map(track).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(track: &Track, times: std::ops::Range<i64>) -> Vec<u32> {
        times.map(|t| track.get(Time(t)).0).collect()
    }

    #[test]
    fn innermost_interval_counts_and_the_outer_one_after_it() {
        let spans = [(0, 8, 1), (2, 4, 2), (4, 5, 3), (9, 10, 4)];
        let nested = spans.map(|(a, b, v)| (Time(a), Time(b), v));
        let track = Track::from_nested(nested.into_iter());
        assert_eq!(values(&track, 0..11), [1, 1, 2, 2, 3, 1, 1, 1, NONE, 4, NONE]);
        assert_eq!(track.get(Time(2)), (2, Time(4)), "going back is right too");
    }

    #[test]
    fn overlapping_intervals_leave_nothing_open() {
        let spans = [(0, 4, 1), (2, 6, 2), (8, 9, 3)];
        let crossed = spans.map(|(a, b, v)| (Time(a), Time(b), v));
        let track = Track::from_nested(crossed.into_iter());
        assert_eq!(values(&track, 0..10), [1, 1, 2, 2, 2, 2, NONE, NONE, 3, NONE]);
    }
}
