//! What the replay of a recording does not know, and what follows: a wider range, or no number at all.
//!
//! A number that is wrong and sure of itself is worse than none. So each thing that the replay has no model of is looked for in
//! the recording, and where it is more than a bound the speed-ups are left out, with the reason; the bounds are those beyond
//! which programs of `bench/predict/run --set meet` had errors above a quarter. A second run brings the number that was
//! measured, for its number of CPUs and for those that change nothing.
use crate::answer::Prediction;
use crate::extract::Extract;

/// The replay's time may differ from the recorded one by this share, with [`crate::answer`]'s bound for a warning below it.
const REPLAY: f64 = 0.25;
/// Spinning of which nothing in the program can have been the end, as a share of the CPU time.
const SPINNING: f64 = 0.05;
/// Time in libraries that run tasks, as a share of the CPU time: of the bench's programs, loops with a region each 0.5 ms have 6 %
/// and are predicted right, tasks of 0.4 us have 13 to 34 %.
const RUNTIME: f64 = 0.1;
/// Tasks as a share of the work: where they are more, which worker runs which task decides.
const TASKS: f64 = 0.2;
/// Fewer tasks are pieces of work like others.
const SOME_TASKS: u64 = 20;
/// Speed-ups with and without the waits that one CPU hides may differ by this factor: their middle is then within a quarter of both.
const HIDDEN: f64 = 1.5;
/// The same of the speed-ups with all costs of the machine at their best and at their worst.
const COSTS: f64 = 1.6;

/// Speed-ups on the first number of CPUs.
pub(crate) struct Apart {
    /// With and without hidden waits, the greater over the lesser.
    pub(crate) hidden: f64,
    /// With the machine's costs at their worst, and at their best.
    pub(crate) costs: (f64, f64),
}

/// Why there is no number, each a clause; empty: there is no reason.
pub(crate) fn reasons(p: &Prediction, first: &Extract, apart: &Apart) -> Vec<String> {
    let mut out = Vec::new();
    let used = (p.work_ns + first.spinning_ns).max(1) as f64;
    let share = |ns: u64| ns as f64 / used;
    if p.replay_error().is_none_or(|error| error.abs() > REPLAY) {
        out.push(format!("the replay on the recorded CPUs {}", p.replay_check()));
    }
    if share(first.spinning_for_unknown_ns) > SPINNING {
        out.push(format!(
            "{:.0} % of the CPU time is spinning, and the recording does not show for which thread",
            100.0 * share(first.spinning_for_unknown_ns)
        ));
    }
    if share(first.runtime_ns) > RUNTIME {
        out.push(format!(
            "{:.0} % of the CPU time is in the library that hands out tasks, whose locks and searches cost more on more CPUs",
            100.0 * share(first.runtime_ns)
        ));
    }
    let (n, ns) = first.tasks;
    if n >= SOME_TASKS && share(ns) > TASKS {
        out.push(format!(
            "{n} tasks of {:.1} us each go to whichever worker is free, and the replay has each where one CPU had it (`kasuri plan` schedules them)",
            ns as f64 / n as f64 / 1e3
        ));
    }
    if p.second.is_none() {
        out.extend(undecided(p, first, apart));
    }
    out
}

/// Of what decides the answer, what only a second run can tell.
fn undecided(p: &Prediction, first: &Extract, apart: &Apart) -> Vec<String> {
    let mut out = Vec::new();
    let often = |n: u64| n as f64 * 1e6 / first.wall_ns.max(1) as f64;
    let (hidden, (worst, best)) = (apart.hidden, apart.costs);
    if hidden > HIDDEN {
        out.push(format!(
            "threads hand over {:.1} times a ms to one that takes their CPU, and whether they wait for it is not recorded: the \
             speed-ups with and without that differ by a factor of {hidden:.1} (a recording by `kasuri predict -- PROGRAM` has more of that, \
             and a second run measures it)",
            often(first.hand_overs)
        ));
    }
    if best > COSTS * worst {
        let whose = if p.machine.is_measured {
            "as measured here, more or less a half"
        } else {
            "not measured here"
        };
        let holds = p.locks.iter().map(|lock| lock.n).sum();
        let counts = [
            (u64::from(first.program.n_events), "threads wait for each other"),
            (holds, "locks are taken"),
        ];
        let counts: Vec<String> = (counts.iter().filter(|(n, _)| often(*n) >= 0.05))
            .map(|(n, what)| format!("{what} {:.1} times a ms", often(*n)))
            .collect();
        let counts = match counts.is_empty() {
            true => String::new(),
            false => format!(": {}", counts.join(", ")),
        };
        out.push(format!(
            "what waking threads and handing locks over takes decides ({whose}){counts}; the speed-up is from {worst:.2}x to {best:.2}x"
        ));
    }
    out
}

/// Threads that spin for each other need a CPU each: else it depends on the scheduler whether the one that is waited for has one.
/// Returns how many those are; none: there is not much spinning.
fn spinners(work_ns: u64, first: &Extract) -> Option<usize> {
    let used = (work_ns + first.spinning_ns).max(1) as f64;
    (first.spinning_ns as f64 / used > SPINNING).then_some(first.spinners)
}

impl Prediction {
    /// Leaves out the speed-ups of which nothing is known: all, or those on fewer CPUs than threads that spin; with a second run, not
    /// that of its number of CPUs.
    pub(crate) fn refuse(&mut self, mut reasons: Vec<String>, first: &Extract) {
        let threads = self.threads.max(1);
        let measured = self.second.as_ref().map(|s| s.cpus.min(threads));
        let spinners = spinners(self.work_ns, first).unwrap_or(0);
        let is_all = !reasons.is_empty();
        let is_known: Vec<bool> = (self.points.iter())
            .map(|p| {
                measured == Some(p.cpus.min(threads)) || !is_all && p.cpus >= spinners.min(threads)
            })
            .collect();
        if !is_all && is_known.iter().all(|&is| is) {
            return;
        }
        if !is_all {
            reasons.push(format!(
                "{spinners} threads spin for each other, and on fewer CPUs the scheduler decides whether the one waited for has one"
            ));
        }
        self.refused = reasons;
        keep(&mut self.points, &is_known);
        self.models.iter_mut().for_each(|m| keep(&mut m.speedup, &is_known));
        self.what_if.clear();
        if self.points.is_empty() {
            self.models.clear();
        }
    }
}

fn keep<T>(of: &mut Vec<T>, wanted: &[bool]) {
    let mut wanted = wanted.iter();
    of.retain(|_| wanted.next().is_some_and(|&is| is));
}
