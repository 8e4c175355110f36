//! The sample that each instant of a thread belongs to.
//!
//! On a CPU: samples are points on the thread's own CPU-time axis, on which only its running counts. An instant belongs to the
//! nearest point, at most [`REACH`] periods away. Blocked: to the sample of that block (`waits`). What no sample reaches is unsampled.
//!
//! The cover of a thread is a list of stretches, each with a sample or none, from its first state to its last. Sums over any
//! part of it are exact, and parts add up, since an instant belongs to one sample whichever range is asked for.
use super::period::Periods;
use super::waits::{TOLERANCE_NS, WaitSamples};
use kasuri_model::{Duration, SampleKind, StateRow, ThreadIx, ThreadState, Time, Trace};
use std::ops::Range;

/// An instant may be so many periods of CPU time from the sample that stands for it: single samples may be lost, but a thread that
/// was not sampled for longer was not sampled.
const REACH: i64 = 4;

/// The sample that a stretch belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner(u32);

impl Owner {
    /// No sample.
    pub const NONE: Owner = Owner(u32::MAX);
    /// The thread neither ran nor was blocked: it waited for a CPU, or what it did is not known.
    pub const OFF: Owner = Owner(u32::MAX - 1);
    /// The sample was taken in another, similar block.
    const ESTIMATED: u32 = 1 << 31;

    fn of(sample: u32, is_estimated: bool) -> Owner {
        Owner(sample | if is_estimated { Owner::ESTIMATED } else { 0 })
    }

    /// Row of [`Trace::samples`].
    pub fn sample(self) -> Option<usize> {
        self.is_some()
            .then_some((self.0 & !Owner::ESTIMATED) as usize)
    }

    /// Whether it was taken in another, similar block.
    pub fn is_estimated(self) -> bool {
        self.is_some() && self.0 & Owner::ESTIMATED != 0
    }

    fn is_some(self) -> bool {
        self != Owner::NONE && self != Owner::OFF
    }
}

/// The samples to which each thread's instants belong. Threads without samples have no stretches: all of their time is unsampled.
#[derive(Clone, Debug, Default)]
pub struct Cover {
    /// Stretches of each thread, by row of [`Trace::threads`].
    threads: Vec<Range<u32>>,
    /// When a stretch begins; it lasts until the thread's next.
    start: Vec<Time>,
    owner: Vec<Owner>,
    misfits: u64,
}

/// Time of a thread that no sample stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Unsampled {
    /// On a CPU.
    pub on_cpu: Duration,
    /// Blocked.
    pub blocked: Duration,
}

/// The time that samples stand for. For each thread: the weights of its on-CPU samples and [`Unsampled::on_cpu`] add up to the time
/// that it ran, those of its other samples and [`Unsampled::blocked`] to the time for which it was blocked, to the nanosecond.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Weights {
    /// One for each row of [`Trace::samples`].
    pub sample: Vec<Duration>,
    /// One for each row of [`Trace::threads`].
    pub unsampled: Vec<Unsampled>,
    /// Of the weights of wait samples: from other blocks, similar to those in which they were taken.
    pub estimated: Duration,
    /// Samples at times when the thread did nothing of the kind; their weight is 0.
    pub misfits: u64,
}

/// A thread's running on its own CPU-time axis.
struct Runs {
    rows: Vec<StateRow>,
    /// CPU time before each row.
    before: Vec<i64>,
}

/// On-CPU samples of a thread as points on its CPU-time axis.
#[derive(Default)]
struct Points {
    sample: Vec<u32>,
    at: Vec<i64>,
    misfits: u64,
}

impl Cover {
    /// Reads the whole recording: also a range's instants belong to samples that may lie outside of it.
    pub fn new(trace: &Trace) -> Cover {
        let threads = (0..trace.threads.len() as u32).map(ThreadIx);
        let mut distances = Vec::new();
        let mut points: Vec<Points> = Vec::new();
        for thread in threads.clone() {
            let of_thread = match trace.samples_of(thread).is_empty() {
                true => Points::default(),
                false => Points::new(trace, thread, &Runs::new(trace, thread)),
            };
            let near = of_thread.at.windows(2).map(|pair| pair[1] - pair[0]);
            distances.extend(near.filter(|&ns| ns > 0));
            points.push(of_thread);
        }
        let periods = Periods::new(trace, &mut distances);
        let mut cover = Cover::default();
        for thread in threads {
            let first = cover.start.len() as u32;
            if !trace.samples_of(thread).is_empty() {
                cover.add(trace, thread, &points[thread.ix()], &periods);
            }
            cover.threads.push(first..cover.start.len() as u32);
        }
        cover
    }

    fn add(&mut self, trace: &Trace, thread: ThreadIx, points: &Points, periods: &Periods) {
        let (first, mut ran, mut point, mut block) = (self.start.len(), 0, 0, 0);
        let blocked = |row: &StateRow| row.state.is_blocked();
        let blocks: Vec<StateRow> = trace.states_of(thread).filter(blocked).collect();
        let waits = WaitSamples::new(trace, &blocks, trace.samples_of(thread));
        self.misfits += points.misfits + waits.misfits;
        for row in trace.states_of(thread) {
            if row.state == ThreadState::Running {
                self.add_run(first, &row, ran, points, &mut point, |sample| {
                    periods.at(trace.samples.time[sample as usize])
                });
                ran += (row.end - row.start).ns();
                continue;
            }
            let mut owner = Owner::OFF;
            if row.state.is_blocked() {
                let sample = waits.of_block[block];
                owner = sample.map_or(Owner::NONE, |(row, guess)| Owner::of(row, guess));
                block += 1;
            }
            self.push(first, row.start, owner);
        }
        self.push(first, trace.threads[thread.ix()].alive.end, Owner::NONE);
    }

    /// Cuts a run where the nearest sample changes. `ran`: the thread's CPU time before it; `point`: a cursor.
    fn add_run(
        &mut self,
        first: usize,
        row: &StateRow,
        ran: i64,
        points: &Points,
        point: &mut usize,
        period: impl Fn(u32) -> i64,
    ) {
        let end = ran + (row.end - row.start).ns();
        let mut at = ran;
        while at < end {
            // Points whose last instant is behind us are done with.
            while points.until(*point).is_some_and(|until| until <= at) {
                *point += 1;
            }
            let mut next = points.until(*point).unwrap_or(i64::MAX).min(end);
            let mut owner = Owner::NONE;
            if let Some(&sample) = points.sample.get(*point) {
                let reach = period(sample).saturating_mul(REACH);
                let reached = points.at[*point].saturating_sub(reach)
                    ..points.at[*point].saturating_add(reach);
                if at < reached.start {
                    next = next.min(reached.start);
                } else if at < reached.end {
                    next = next.min(reached.end);
                    owner = Owner::of(sample, false);
                }
            }
            self.push(first, row.start + Duration(at - ran), owner);
            at = next;
        }
    }

    /// Equal neighbours are one stretch, also over a change of state: a thread's time by state is never asked of it.
    fn push(&mut self, first: usize, start: Time, owner: Owner) {
        if self.start.len() > first && self.owner.last() == Some(&owner) {
            return;
        }
        // A state without length.
        if self.start.len() > first && self.start.last() == Some(&start) {
            self.owner.pop();
            self.start.pop();
            return self.push(first, start, owner);
        }
        self.start.push(start);
        self.owner.push(owner);
    }

    /// The owners of a thread's instants from `from` to `to`, in order, with the length of each stretch; together they are as long as
    /// from..to.
    pub fn between(
        &self,
        thread: ThreadIx,
        from: Time,
        to: Time,
    ) -> impl Iterator<Item = (Owner, Duration)> + '_ {
        let rows = self.threads.get(thread.ix()).cloned().unwrap_or(0..0);
        let rows = rows.start as usize..rows.end as usize;
        let begun = self.start[rows.clone()].partition_point(|&start| start <= from);
        let mut next = rows.start + begun;
        let mut owner = match begun {
            0 => Owner::NONE,
            _ => self.owner[next - 1],
        };
        let mut at = from;
        std::iter::from_fn(move || {
            if at >= to {
                return None;
            }
            let (start, of) = (at, owner);
            at = to;
            if next < rows.end && self.start[next] < to {
                (at, owner) = (self.start[next], self.owner[next]);
                next += 1;
            }
            Some((of, at - start))
        })
    }

    /// Samples at times when the thread did nothing of the kind.
    pub fn misfits(&self) -> u64 {
        self.misfits
    }

    /// Weights of a part of the recording.
    pub fn weights(&self, trace: &Trace, range: Range<Time>) -> Weights {
        let mut out = Weights {
            sample: vec![Duration::ZERO; trace.samples.time.len()],
            unsampled: vec![Unsampled::default(); trace.threads.len()],
            misfits: self.misfits,
            ..Weights::default()
        };
        for thread in (0..trace.threads.len() as u32).map(ThreadIx) {
            for row in trace.states_of(thread) {
                let (from, to) = (row.start.max(range.start), row.end.min(range.end));
                let is_blocked = row.state.is_blocked();
                if !is_blocked && row.state != ThreadState::Running {
                    continue;
                }
                for (owner, length) in self.between(thread, from, to) {
                    let unsampled = &mut out.unsampled[thread.ix()];
                    match owner.sample() {
                        Some(sample) => out.sample[sample] += length,
                        None if is_blocked => unsampled.blocked += length,
                        None => unsampled.on_cpu += length,
                    }
                    if owner.is_estimated() {
                        out.estimated += length;
                    }
                }
            }
        }
        out
    }
}

impl Runs {
    fn new(trace: &Trace, thread: ThreadIx) -> Runs {
        let running = |row: &StateRow| row.state == ThreadState::Running;
        let rows: Vec<StateRow> = trace.states_of(thread).filter(running).collect();
        let mut ran = 0;
        let before = rows.iter().map(|row| {
            let before = ran;
            ran += (row.end - row.start).ns();
            before
        });
        Runs {
            before: before.collect(),
            rows,
        }
    }

    /// The place of a moment on the axis: where the thread ran then, or nearly.
    fn place(&self, time: Time) -> Option<i64> {
        let begun = self.rows.partition_point(|row| row.start <= time);
        let last = begun.checked_sub(1).map(|at| {
            let row = &self.rows[at];
            let end = self.before[at] + (row.end - row.start).ns();
            let late = time.0.saturating_sub(row.end.0).max(0);
            (
                late,
                end.min(self.before[at].saturating_add(time.0.saturating_sub(row.start.0))),
            )
        });
        let next = self.rows.get(begun).map(|row| {
            let early = row.start.0.saturating_sub(time.0);
            (early, self.before[begun])
        });
        let nearest = last.into_iter().chain(next).min_by_key(|&(off, _)| off)?;
        (nearest.0 <= TOLERANCE_NS).then_some(nearest.1)
    }
}

impl Points {
    fn new(trace: &Trace, thread: ThreadIx, runs: &Runs) -> Points {
        let mut out = Points::default();
        let s = &trace.samples;
        for sample in trace.samples_of(thread) {
            if s.kind[sample] != SampleKind::OnCpu {
                continue;
            }
            match runs.place(s.time[sample]) {
                Some(at) => {
                    out.at.push(at.max(out.at.last().copied().unwrap_or(0)));
                    out.sample.push(sample as u32);
                }
                None => out.misfits += 1,
            }
        }
        out
    }

    /// Up to which place on the axis a point is the nearest: half of the way to the next.
    fn until(&self, point: usize) -> Option<i64> {
        let next = self.at.get(point + 1)?;
        let at = self.at[point];
        Some(at + (next - at) / 2)
    }
}
