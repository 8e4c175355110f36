//! CPU-time axes: a thread's running laid end to end, with its on-CPU samples as points on it.
//!
//! A thread that ran for less than [`SHORT`] periods has one sample or none: programs that start a thread for each request or a
//! process for each file consist of such threads. Those of one name in processes of one name have an axis together, on which their runs stand
//! in order of time. So a sample stands for the time around it there too, and the time of many short threads is divided as that of a long one.
use super::cursor::move_on;
use super::period::Periods;
use super::waits::TOLERANCE_NS;
use kasuri_model::{SampleKind, StateRow, StrIx, ThreadIx, ThreadState, Time, Trace};
use std::collections::HashMap;

/// A thread that ran for less than so many periods shares its axis.
pub(super) const SHORT: i64 = 2;

/// The axes of all threads.
pub(super) struct Axes {
    /// One for each row of [`Trace::threads`], then those that are shared.
    points: Vec<Points>,
    /// Of threads on a shared axis: which, and the place where each of their runs begins.
    shared: HashMap<ThreadIx, (usize, Vec<i64>)>,
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
    misfits: u64,
}

/// A thread's running on an axis.
struct Runs {
    rows: Vec<StateRow>,
    /// The place where each row begins.
    starts: Vec<i64>,
}

impl Axes {
    /// Each thread with an axis of its own.
    pub fn new(trace: &Trace) -> Axes {
        let threads = (0..trace.threads.len() as u32).map(ThreadIx);
        let points = threads.map(|thread| match trace.samples_of(thread).is_empty() {
            true => Points::default(),
            false => Points::new(trace, thread, &Runs::new(trace, thread)),
        });
        Axes {
            points: points.collect(),
            shared: HashMap::new(),
        }
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
        let mut alike: HashMap<(StrIx, StrIx), Vec<(ThreadIx, Runs)>> = HashMap::new();
        for (row, thread) in trace.threads.iter().enumerate() {
            let row = ThreadIx(row as u32);
            let Some(first) = running(trace, row).next() else {
                continue;
            };
            let short = SHORT.saturating_mul(periods.at(first.start));
            if runs_for_less(trace, row, short) {
                let runs = Runs::new(trace, row);
                let process = trace.processes[thread.process.ix()].name;
                let kin = alike.entry((process, thread.name)).or_default();
                kin.push((row, runs));
            }
        }
        for mut kin in alike.into_values() {
            let is_sampled =
                |(thread, _): &(ThreadIx, Runs)| !self.points[thread.ix()].at.is_empty();
            if kin.len() > 1 && kin.iter().any(is_sampled) {
                lay_out(&mut kin);
                self.add_shared(trace, kin);
            }
        }
    }

    fn add_shared(&mut self, trace: &Trace, kin: Vec<(ThreadIx, Runs)>) {
        let mut points: Vec<(i64, u32)> = Vec::new();
        for (thread, runs) in kin {
            let own = Points::new(trace, thread, &runs);
            points.extend(own.at.into_iter().zip(own.sample));
            self.shared.insert(thread, (self.points.len(), runs.starts));
        }
        points.sort_unstable();
        let (at, sample) = points.into_iter().unzip();
        self.points.push(Points {
            sample,
            at,
            misfits: 0,
        });
    }

    /// The axis of a thread.
    pub fn of(&self, thread: ThreadIx) -> Axis<'_> {
        match self.shared.get(&thread) {
            Some((axis, starts)) => Axis {
                points: &self.points[*axis],
                starts,
            },
            None => Axis {
                points: &self.points[thread.ix()],
                starts: &[],
            },
        }
    }
}

/// Gives all runs of these threads, in order of time, places one behind the other.
fn lay_out(kin: &mut [(ThreadIx, Runs)]) {
    let all = kin.iter().enumerate().flat_map(|(of, (_, runs))| {
        let starts = runs.rows.iter().enumerate();
        starts.map(move |(run, row)| (row.start, of, run))
    });
    let mut order: Vec<(Time, usize, usize)> = all.collect();
    order.sort_unstable();
    let mut ran = 0;
    for (_, of, run) in order {
        let runs = &mut kin[of].1;
        runs.starts[run] = ran;
        ran += length(&runs.rows[run]);
    }
}

/// A thread's runs.
fn running(trace: &Trace, thread: ThreadIx) -> impl Iterator<Item = StateRow> + '_ {
    let rows = trace.states_of(thread);
    rows.filter(|row| row.state == ThreadState::Running)
}

/// Whether a thread ran for less than so many ns in all. Of one that ran for longer only the first runs are read.
fn runs_for_less(trace: &Trace, thread: ThreadIx, ns: i64) -> bool {
    let mut ran = 0i64;
    running(trace, thread).all(|row| {
        ran = ran.saturating_add(length(&row));
        ran < ns
    })
}

fn length(row: &StateRow) -> i64 {
    (row.end - row.start).ns()
}

impl Runs {
    /// One behind the other from 0.
    fn new(trace: &Trace, thread: ThreadIx) -> Runs {
        let rows: Vec<StateRow> = running(trace, thread).collect();
        let mut ran = 0;
        let starts = rows.iter().map(|row| {
            let start = ran;
            ran += length(row);
            start
        });
        Runs {
            starts: starts.collect(),
            rows,
        }
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
    fn new(trace: &Trace, thread: ThreadIx, runs: &Runs) -> Points {
        let mut out = Points::default();
        let s = &trace.samples;
        let mut begun = 0;
        for sample in trace.samples_of(thread) {
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
        out
    }

    /// Up to which place on the axis a point is the nearest: half of the way to the next.
    pub fn until(&self, point: usize) -> Option<i64> {
        let next = self.at.get(point + 1)?;
        let at = self.at[point];
        Some(at + (next - at) / 2)
    }

    /// The point that is the nearest to a place.
    pub fn nearest(&self, place: i64) -> usize {
        let middle = |pair: &[i64]| pair[0] + (pair[1] - pair[0]) / 2;
        // Borders rise with the points.
        let (mut low, mut high) = (0, self.at.len().saturating_sub(1));
        while low < high {
            let at = low + (high - low) / 2;
            match middle(&self.at[at..at + 2]) <= place {
                true => low = at + 1,
                false => high = at,
            }
        }
        low
    }
}
