//! CPU-time axes: a thread's running laid end to end, with its on-CPU samples as points on it. A thread that replaces its program (exec)
//! begins another axis: no sample of one program stands for the other. What follows says *thread* for the life of one program.
//!
//! The time before a thread's first sample belongs to that sample, and the time after its last one to that: at both ends what a thread
//! runs for less than a period gets too little, and what follows or precedes it too much, up to an eighth of a period. That is nothing in a
//! long thread, and much of a short one; programs that start a thread for each request or a process for each file consist of
//! such threads. Those of one name in processes of one name have an axis together, thread after thread in the order of their
//! beginnings. A sample near an end stands for the time around it there too: what one thread's end loses another's wins. But the
//! nearer the two samples around a border of threads are to it, the less time lies between them: ends would get too little
//! again, if the border between two samples was half of the way there too. So [`ALIKE`] neighbours stand for equal times.
use super::cursor::move_on;
use super::period::Periods;
use super::waits::TOLERANCE_NS;
use kasuri_model::{Life, SampleKind, StateRow, StrIx, ThreadIx, ThreadState, Time, Trace};
use std::collections::HashMap;

/// A thread that ran for less than so many periods shares its axis: the ends of a longer one move less than half a point of its time.
const SHORT: i64 = 32;

/// So many neighbouring samples on a shared axis stand for equal times.
const ALIKE: usize = 8;

/// The axes of all threads.
pub(super) struct Axes {
    /// One for each life, by thread, then those that are shared.
    points: Vec<Points>,
    /// By row of [`Trace::threads`]: its first life.
    first: Vec<u32>,
    /// Of lives on a shared axis: which, and the place where each of their runs begins.
    shared: HashMap<usize, (usize, Vec<i64>)>,
}

/// The axis of one thread.
pub(super) struct Axis<'a> {
    pub points: &'a Points,
    /// Where each of the thread's runs begins; empty: behind the one before it.
    pub starts: &'a [i64],
}

/// On-CPU samples as points on an axis, in order.
#[derive(Default)]
pub(super) struct Points {
    /// Row of [`Trace::samples`].
    pub sample: Vec<u32>,
    /// Its place: ns of CPU time.
    pub at: Vec<i64>,
    /// Up to which place it stands for the time; the last one has no such place.
    until: Vec<i64>,
    misfits: u64,
}

/// One of those that share an axis.
struct Kin {
    /// Its own one.
    axis: usize,
    life: Life,
    runs: Runs,
}

/// A thread's running on an axis.
struct Runs {
    rows: Vec<StateRow>,
    /// The place where each row begins.
    starts: Vec<i64>,
}

impl Axes {
    /// Each life with an axis of its own.
    pub fn new(trace: &Trace) -> Axes {
        let mut axes = Axes { points: Vec::new(), first: Vec::new(), shared: HashMap::new() };
        for thread in (0..trace.threads.len() as u32).map(ThreadIx) {
            axes.first.push(axes.points.len() as u32);
            let is_sampled = !trace.samples_of(thread).is_empty();
            axes.points.extend(trace.lives_of(thread).map(|life| match is_sampled {
                true => Points::new(trace, &life, &Runs::new(trace, &life)),
                false => Points::default(),
            }));
        }
        axes
    }

    /// Distances of neighbouring samples of a thread: ns of CPU time.
    pub fn distances(&self) -> Vec<i64> {
        let near = |points: &Points| -> Vec<i64> {
            points.at.windows(2).map(|pair| pair[1] - pair[0]).collect()
        };
        let all = self.points.iter().flat_map(near);
        all.filter(|&ns| ns > 0).collect()
    }

    /// Samples at times when their thread did not run.
    pub fn misfits(&self) -> u64 {
        self.points.iter().map(|points| points.misfits).sum()
    }

    /// Puts short threads of one name on an axis together.
    pub fn share(&mut self, trace: &Trace, periods: &Periods) {
        let mut alike: HashMap<(StrIx, StrIx, usize), Vec<Kin>> = HashMap::new();
        for (row, thread) in trace.threads.iter().enumerate() {
            let first = self.first[row] as usize;
            for (nth, life) in trace.lives_of(ThreadIx(row as u32)).enumerate() {
                let Some(begin) = running(trace, &life).next() else {
                    continue;
                };
                let short = SHORT.saturating_mul(periods.at(begin.start));
                if runs_for_less(trace, &life, short) {
                    let runs = Runs::new(trace, &life);
                    let process = trace.processes[thread.process.ix()].name;
                    let kin = alike.entry((process, thread.name, life.follow)).or_default();
                    kin.push(Kin { axis: first + nth, life, runs });
                }
            }
        }
        for mut kin in alike.into_values() {
            let is_sampled = |of: &Kin| !self.points[of.axis].at.is_empty();
            if kin.len() > 1 && kin.iter().any(is_sampled) {
                lay_out(&mut kin);
                self.add_shared(trace, kin);
            }
        }
    }

    fn add_shared(&mut self, trace: &Trace, kin: Vec<Kin>) {
        let mut points: Vec<(i64, u32)> = Vec::new();
        for Kin { axis, life, runs } in kin {
            let own = Points::new(trace, &life, &runs);
            points.extend(own.at.into_iter().zip(own.sample));
            self.shared.insert(axis, (self.points.len(), runs.starts));
        }
        points.sort_unstable();
        let (at, sample): (Vec<i64>, Vec<u32>) = points.into_iter().unzip();
        self.points.push(Points { sample, until: even(&at), at, misfits: 0 });
    }

    /// The axis of a thread's life, the `nth` of them.
    pub fn of(&self, thread: ThreadIx, nth: usize) -> Axis<'_> {
        let own = self.first[thread.ix()] as usize + nth;
        match self.shared.get(&own) {
            Some((axis, starts)) => Axis { points: &self.points[*axis], starts },
            None => Axis { points: &self.points[own], starts: &[] },
        }
    }
}

/// Gives the runs of these threads places one behind the other.
fn lay_out(kin: &mut [Kin]) {
    kin.sort_by_key(|of| of.runs.rows.first().map(|row| row.start));
    let mut ran = 0;
    for Kin { runs, .. } in kin {
        runs.starts.iter_mut().for_each(|start| *start += ran);
        ran += runs.rows.iter().map(length).sum::<i64>();
    }
}

/// A life's runs.
fn running<'a>(trace: &'a Trace, life: &Life) -> impl Iterator<Item = StateRow> + 'a {
    let rows = trace.states_in(life.thread, &life.time);
    let time = life.time.clone();
    let part = move |row: StateRow| StateRow {
        start: row.start.max(time.start),
        end: row.end.min(time.end),
        ..row
    };
    let runs = rows.filter(|row| row.state == ThreadState::Running).map(part);
    runs.filter(|run| run.start < run.end)
}

/// Whether a thread ran for less than so many ns in all. Of one that ran for longer only the first runs are read.
fn runs_for_less(trace: &Trace, life: &Life, ns: i64) -> bool {
    let mut ran = 0i64;
    running(trace, life).all(|row| {
        ran = ran.saturating_add(length(&row));
        ran < ns
    })
}

fn length(row: &StateRow) -> i64 {
    (row.end - row.start).ns()
}

impl Runs {
    /// One behind the other from 0.
    fn new(trace: &Trace, life: &Life) -> Runs {
        let rows: Vec<StateRow> = running(trace, life).collect();
        let mut ran = 0;
        let starts = rows.iter().map(|row| {
            let start = ran;
            ran += length(row);
            start
        });
        Runs { starts: starts.collect(), rows }
    }

    /// The place of a moment on the axis: where the thread ran then, or nearly. `begun`: a cursor, for moments in order.
    fn place(&self, time: Time, begun: &mut usize) -> Option<i64> {
        let begun = move_on(begun, &self.rows, |row| row.start <= time);
        let last = begun.checked_sub(1).map(|at| {
            let row = &self.rows[at];
            let late = time.0.saturating_sub(row.end.0).max(0);
            let into = time.0.saturating_sub(row.start.0).min(length(row));
            (late, self.starts[at].saturating_add(into))
        });
        let next = self.rows.get(begun).map(|row| {
            let early = row.start.0.saturating_sub(time.0);
            (early, self.starts[begun])
        });
        let nearest = last.into_iter().chain(next).min_by_key(|&(off, _)| off)?;
        (nearest.0 <= TOLERANCE_NS).then_some(nearest.1)
    }
}

impl Points {
    fn new(trace: &Trace, life: &Life, runs: &Runs) -> Points {
        let mut out = Points::default();
        let s = &trace.samples;
        let mut begun = 0;
        let samples = trace.samples_of(life.thread);
        let first =
            samples.start + s.time[samples.clone()].partition_point(|&t| t < life.time.start);
        let end = samples.start + s.time[samples].partition_point(|&t| t < life.time.end);
        for sample in first..end {
            if s.kind[sample] != SampleKind::OnCpu {
                continue;
            }
            match runs.place(s.time[sample], &mut begun) {
                Some(at) => {
                    out.at.push(at.max(out.at.last().copied().unwrap_or(0)));
                    out.sample.push(sample as u32);
                }
                None => out.misfits += 1,
            }
        }
        out.until = out.at.windows(2).map(middle).collect();
        out
    }

    /// Up to which place on the axis a point stands for the time.
    pub fn until(&self, point: usize) -> Option<i64> {
        self.until.get(point).copied()
    }

    /// The point that stands for a place.
    pub fn nearest(&self, place: i64) -> usize {
        // Borders rise with the points.
        self.until.partition_point(|&until| until <= place)
    }
}

fn middle(pair: &[i64]) -> i64 {
    pair[0] + (pair[1] - pair[0]) / 2
}

/// The borders between the points `at` of a shared axis: each [`ALIKE`] neighbours stand for equal times.
fn even(at: &[i64]) -> Vec<i64> {
    let mut until: Vec<i64> = at.windows(2).map(middle).collect();
    for begin in (0..at.len()).step_by(ALIKE) {
        let n = ALIKE.min(at.len() - begin);
        if n < 2 {
            break;
        }
        let from = match begin {
            // The outermost points stand for as much on one side as on the other.
            0 => at[0] - (until[0] - at[0]),
            _ => until[begin - 1],
        };
        let last = begin + n - 1;
        let to = until.get(last).copied();
        let to = to.unwrap_or_else(|| at[last] + (at[last] - until[last - 1]));
        for nth in 1..n {
            until[begin + nth - 1] = from + (to - from) / n as i64 * nth as i64;
        }
    }
    until
}
