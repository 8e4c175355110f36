//! The sample that each instant of a thread belongs to.
//!
//! On a CPU: samples are points on the thread's own CPU-time axis, on which only its running counts. An instant belongs to the
//! nearest point, at most [`REACH`] periods away. Blocked: to the sample of that block (`waits`). What no sample reaches is unsampled.
//!
//! The cover of a thread is a list of stretches, each with a sample or none, from its first state to its last. Sums over any
//! part of it are exact, and parts add up, since an instant belongs to one sample whichever range is asked for.
use super::axes::{Axes, Axis};
use super::cursor::move_on;
use super::period::Periods;
use super::waits::{SHARE_WITHIN_NS, WaitSamples};
use kasuri_model::{Duration, StateRow, ThreadIx, ThreadState, Time, Trace};
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
    /// The sample was taken in another, similar block, or in another short thread.
    const ESTIMATED: u32 = 1 << 31;

    fn of(sample: u32, is_estimated: bool) -> Owner {
        Owner(sample | if is_estimated { Owner::ESTIMATED } else { 0 })
    }

    /// Row of [`Trace::samples`].
    pub fn sample(self) -> Option<usize> {
        self.is_some().then_some((self.0 & !Owner::ESTIMATED) as usize)
    }

    /// Whether it was taken in another, similar block, or in another short thread.
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
    periods: Periods,
}

/// Time of a thread that no sample stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Unsampled {
    /// On a CPU.
    pub on_cpu: Duration,
    /// Blocked.
    pub blocked: Duration,
}

/// The time that samples stand for. The weights of a thread's on-CPU samples and [`Unsampled::on_cpu`] add up to the time that it
/// ran, for short threads those of all that share an axis; those of its other samples and [`Unsampled::blocked`] to the time for which it was blocked. All to the nanosecond.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Weights {
    /// One for each row of [`Trace::samples`].
    pub sample: Vec<Duration>,
    /// One for each row of [`Trace::threads`].
    pub unsampled: Vec<Unsampled>,
    /// Of the weights: from other blocks, similar to those in which the samples were taken, and from other short threads.
    pub estimated: Duration,
    /// Samples at times when the thread did nothing of the kind; their weight is 0.
    pub misfits: u64,
}

/// A way along an axis, from run to run.
struct Along<'a> {
    axis: Axis<'a>,
    /// Of the axis' runs, the next one.
    run: usize,
    /// Where the last one ended.
    place: i64,
    /// The point that is nearest there.
    point: usize,
}

impl<'a> Along<'a> {
    fn new(axis: Axis<'a>) -> Along<'a> {
        let point = axis.points.nearest(axis.starts.first().copied().unwrap_or(0));
        Along { axis, run: 0, place: 0, point }
    }

    /// The places of the next run.
    fn pass(&mut self, run: &StateRow) -> Range<i64> {
        let start = match run.start < run.end {
            true => self.axis.starts.get(self.run).copied().unwrap_or(self.place),
            // It is none of the axis.
            false => return self.place..self.place,
        };
        self.run += 1;
        self.place = start + (run.end - run.start).ns();
        start..self.place
    }
}

impl Cover {
    /// Reads the whole recording: also a range's instants belong to samples that may lie outside of it.
    pub(crate) fn new(trace: &Trace) -> Cover {
        crate::built::count(crate::built::Built::Cover);
        let mut cover = Cover::default();
        if trace.samples.time.is_empty() {
            return cover;
        }
        let mut axes = Axes::new(trace);
        let periods = Periods::new(trace, || axes.distances());
        axes.share(trace, &periods);
        cover.misfits = axes.misfits();
        for thread in (0..trace.threads.len() as u32).map(ThreadIx) {
            let first = cover.start.len() as u32;
            let lives = trace.execs.of(thread).len() + 1;
            let mut all = (0..lives).map(|nth| axes.of(thread, nth));
            if !trace.samples_of(thread).is_empty() || all.any(|axis| !axis.points.at.is_empty()) {
                cover.add(trace, thread, &axes, &periods);
            }
            cover.threads.push(first..cover.start.len() as u32);
        }
        cover.periods = periods;
        cover
    }

    fn add(&mut self, trace: &Trace, thread: ThreadIx, axes: &Axes, periods: &Periods) {
        let (first, mut block) = (self.start.len(), 0);
        let blocked = |row: &StateRow| row.state.is_blocked();
        let blocks: Vec<StateRow> = trace.states_of(thread).filter(blocked).collect();
        let execs = trace.execs.of(thread);
        let waits = WaitSamples::new(trace, &blocks, trace.samples_of(thread), execs);
        self.misfits += waits.misfits;
        let mut along = Along::new(axes.of(thread, 0));
        let (mut begun, mut life) = (0, 0);
        for row in trace.states_of(thread) {
            if row.state == ThreadState::Running {
                let next = move_on(&mut begun, execs, |&exec| exec <= row.start);
                let cuts = execs[next..].iter().copied().take_while(|&exec| exec < row.end);
                let mut start = row.start;
                for (nth, end) in cuts.chain([row.end]).enumerate() {
                    let part = StateRow { start: std::mem::replace(&mut start, end), end, ..row };
                    if next + nth > life {
                        life = next + nth;
                        along = Along::new(axes.of(thread, life));
                    }
                    self.add_run(first, &part, &mut along, |sample| {
                        let (at, of) = (trace.samples.time[sample], trace.samples.thread[sample]);
                        let is_far = (at.0 - row.start.0).abs() > SHARE_WITHIN_NS;
                        match of == thread {
                            false if is_far => (0, Owner::NONE),
                            is_own => (periods.at(at), Owner::of(sample as u32, !is_own)),
                        }
                    });
                }
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

    /// Cuts a run where the nearest sample changes. `period_and_owner`: by row of [`Trace::samples`].
    fn add_run(
        &mut self,
        first: usize,
        row: &StateRow,
        along: &mut Along<'_>,
        period_and_owner: impl Fn(usize) -> (i64, Owner),
    ) {
        let places = along.pass(row);
        let (place, end) = (places.start, places.end);
        let (points, point) = (along.axis.points, &mut along.point);
        let mut at = place;
        while at < end {
            // Points whose last instant is behind us are done with.
            while points.until(*point).is_some_and(|until| until <= at) {
                *point += 1;
            }
            let mut next = points.until(*point).unwrap_or(i64::MAX).min(end);
            let mut owner = Owner::NONE;
            if let Some(&sample) = points.sample.get(*point) {
                let (period, of) = period_and_owner(sample as usize);
                let reach = period.saturating_mul(REACH);
                let reached = points.at[*point].saturating_sub(reach)
                    ..points.at[*point].saturating_add(reach);
                if at < reached.start {
                    next = next.min(reached.start);
                } else if at < reached.end {
                    next = next.min(reached.end);
                    owner = of;
                }
            }
            self.push(first, row.start + Duration(at - place), owner);
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
        self.between_from(&mut 0, thread, from, to)
    }

    /// The same, cheaper for one who asks of a thread in order of time. `begun`: a cursor, any number: the stretches that had begun by the
    /// time asked for last.
    pub fn between_from(
        &self,
        begun: &mut usize,
        thread: ThreadIx,
        from: Time,
        to: Time,
    ) -> impl Iterator<Item = (Owner, Duration)> + use<'_> {
        let rows = self.threads.get(thread.ix()).cloned().unwrap_or(0..0);
        let rows = rows.start as usize..rows.end as usize;
        let begun = move_on(begun, &self.start[rows.clone()], |&start| start <= from);
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

    /// The stretches of a thread: when each begins, and its owner.
    pub(crate) fn stretches(&self, thread: ThreadIx) -> impl Iterator<Item = (Time, Owner)> + '_ {
        let rows = self.threads.get(thread.ix()).cloned().unwrap_or(0..0);
        let rows = rows.start as usize..rows.end as usize;
        self.start[rows.clone()].iter().copied().zip(self.owner[rows].iter().copied())
    }

    /// CPU time from one on-CPU sample to the next at this time, ns.
    pub(super) fn period_ns(&self, time: Time) -> i64 {
        self.periods.at(time)
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
        if trace.is_weighed() {
            let samples = &trace.samples;
            let times = samples.time.iter().zip(&samples.weight);
            let within = times.map(|(time, &weight)| match range.contains(time) {
                true => weight,
                false => Duration::ZERO,
            });
            out.sample = within.collect();
            return out;
        }
        for thread in (0..trace.threads.len() as u32).map(ThreadIx) {
            let mut begun = 0;
            for row in trace.states_of(thread) {
                let (from, to) = (row.start.max(range.start), row.end.min(range.end));
                let is_blocked = row.state.is_blocked();
                if !is_blocked && row.state != ThreadState::Running {
                    continue;
                }
                for (owner, length) in self.between_from(&mut begun, thread, from, to) {
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
