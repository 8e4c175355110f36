//! What a second recording, on more CPUs, says of a prediction: the measurement is believed, the replay only extends it.
//!
//! Let `R1(P)` be the speed-up that the replay of the first recording gives on P CPUs, after it has learned from the second
//! how much slower code and holds became, `R2(P)` the same of the second recording, and `M` the speed-up that was measured on
//! `n` CPUs: the first recording's wall time over the second's. What the replay lacks is the factor `lack = R1(n) / M`: above
//! 1 the program loses time to something that is in no event of the first recording (a shared line, the kernel, spinning),
//! below 1 it loses less (threads that spun on one CPU while the others had none).
//!
//! | on P CPUs | speed-up |
//! |---|---|
//! | n | `M` |
//! | fewer | `R1(P) / lack^((P-1)/(n-1))`: of a loss, the part that fewer CPUs bring with them |
//! | more | between `M R1(P)/R1(n)` and `M R2(P)/R2(n)` if the lack stays as it is, and `R1(P) / (1 + (lack-1)(P-1)/(n-1))` if it grows with each CPU |
//!
//! For more CPUs than `n` the expected value is the geometric mean of the lowest and the highest, the range has both. More CPUs than
//! threads change nothing.
use crate::extract::Extract;
use schemars::JsonSchema;
use serde::Serialize;

/// What the second recording measured, against the replay.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SecondRun {
    /// CPUs that it had.
    pub cpus: usize,
    /// Its wall time, ns.
    pub wall_ns: u64,
    /// ...of it, time that other programs took, ns.
    pub lost_ns: u64,
    /// Measured by each pair of runs, without what others took: the first recording's time over this one's; then those of further pairs.
    pub runs: Vec<f64>,
    /// Their median.
    pub speedup: f64,
    /// The least of them, where the others' time is taken to have cost nothing, or the least; and what is not seen of so few runs.
    pub low: f64,
    /// As above, the most.
    pub high: f64,
    /// The replay's speed-up on as many CPUs, after it learned how much slower code is there.
    pub replayed: f64,
    /// `replayed / speedup`: above 1, the program loses time to what the replay lacks.
    pub lack: f64,
    /// CPU time there / CPU time on one CPU, without recognised spinning.
    pub work_growth: f64,
    /// Recognised spinning there / all CPU time there.
    pub spinning: f64,
    /// Share of its CPUs that stood idle.
    pub idle: f64,
}

/// Beyond the lowest and the highest of [`SOME_RUNS`] and more pairs of runs, as a share.
pub(crate) const SCATTER: f64 = 0.04;
/// The same around fewer: of the eight tuning programs of `bench/predict/run --set meet` the median of seven pairs lay within
/// that of one pair's for seven.
const ONE_RUN: f64 = 0.2;
/// From so many pairs on their own spread is believed.
const SOME_RUNS: usize = 3;

/// The speed-ups of both replays on some number of CPUs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replayed {
    /// Of the first recording.
    pub first: f64,
    /// Of the second.
    pub second: f64,
}

impl SecondRun {
    /// `again`: the speed-ups of further pairs of runs.
    pub(crate) fn new(
        first: &Extract,
        second: &Extract,
        replayed: f64,
        again: &[f64],
    ) -> SecondRun {
        let ratio = |a: u64, b: u64| a as f64 / b.max(1) as f64;
        let mut runs = vec![ratio(first.quiet_ns(), second.quiet_ns())];
        runs.extend_from_slice(again);
        let speedup = median(&runs);
        let least = runs.iter().copied().fold(f64::INFINITY, f64::min);
        let most = runs.iter().copied().fold(0.0, f64::max);
        let beyond = if runs.len() < SOME_RUNS { ONE_RUN } else { SCATTER };
        // Others' time may have cost the program nothing, or its owner may have been waited for by all.
        let (a, b) =
            (ratio(first.quiet_ns(), second.wall_ns), ratio(first.wall_ns, second.quiet_ns()));
        let used = second.program.work_ns() + second.spinning_ns;
        let cpus = second.had_cpus(first.n_cpus + 1);
        SecondRun {
            cpus,
            wall_ns: second.wall_ns,
            lost_ns: second.lost_ns,
            runs,
            speedup,
            low: a.min(least) * (1.0 - beyond),
            high: b.max(most) * (1.0 + beyond),
            replayed,
            lack: replayed / speedup.max(1e-9),
            work_growth: ratio(second.program.work_ns(), first.program.work_ns()),
            spinning: ratio(second.spinning_ns, used),
            idle: (1.0 - ratio(used, cpus as u64 * second.quiet_ns())).max(0.0),
        }
    }

    /// Expected, lowest and highest speed-up on `cpus` CPUs by what was measured; `here` and `there`: both replays on the
    /// second run's number of CPUs and on `cpus`.
    pub(crate) fn extend(&self, cpus: usize, here: Replayed, there: Replayed) -> (f64, f64, f64) {
        let (low, high) = (self.low / self.speedup, self.high / self.speedup);
        if cpus == self.cpus || there.first == here.first && there.second == here.second {
            return (self.speedup, self.low, self.high);
        }
        let steps = (cpus.max(1) - 1) as f64 / (self.cpus.max(2) - 1) as f64;
        if cpus < self.cpus {
            let expected = there.first / self.lack.powf(steps);
            return (expected, expected * low, expected * high);
        }
        let grown = there.first / (1.0 + (self.lack - 1.0).max(0.0) * steps);
        let stays = self.speedup * there.first / here.first.max(1e-9);
        let again = self.speedup * there.second / here.second.max(1e-9);
        let all = if self.lack > 1.0 { [grown, stays, again] } else { [stays, stays, again] };
        let least = all.into_iter().fold(f64::INFINITY, f64::min);
        let most = all.into_iter().fold(0.0, f64::max);
        ((least * most).sqrt(), least * low, most * high)
    }
}

/// Of an even number, the mean of the two in the middle.
fn median(of: &[f64]) -> f64 {
    let mut sorted = of.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
    low + (high - low) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{Program, Script, Step};

    fn recorded(n_cpus: usize, wall_ns: u64, lost_ns: u64) -> Extract {
        let script = Script { steps: vec![Step::Compute(50_000_000)], ..Script::default() };
        Extract {
            wall_ns,
            lost_ns,
            n_cpus,
            program: Program { scripts: vec![script; 4], ..Program::default() },
            ..Extract::default()
        }
    }

    fn both(value: f64) -> Replayed {
        Replayed { first: value, second: value }
    }

    #[test]
    fn the_measurement_is_the_answer_where_it_was_made() {
        // 7.37 s on one CPU, 0.2 s on two: threads that spun while the other had no CPU. The replay said 2.06.
        let run = SecondRun::new(&recorded(1, 7_370, 0), &recorded(2, 200, 0), 2.06, &[]);
        let (expected, low, high) = run.extend(2, both(2.06), both(2.06));
        assert!((expected - 36.85).abs() < 1e-9, "{expected}");
        assert!(low < expected && expected < high);
        // On four, where the replays see no more to gain, neither does the answer.
        assert_eq!(run.extend(4, both(2.0), both(2.0)), (expected, low, high));
    }

    #[test]
    fn a_loss_stays_or_grows_on_more_cpus_and_shrinks_on_fewer() {
        // A counter that all add to: four CPUs were to give 4, and give 2.
        let run = SecondRun::new(&recorded(1, 4_000, 0), &recorded(4, 2_000, 0), 4.0, &[]);
        assert!((run.lack - 2.0).abs() < 1e-9);
        let (two, ..) = run.extend(2, both(4.0), both(2.0));
        assert!((two - 2.0 / 2f64.powf(1.0 / 3.0)).abs() < 1e-9, "{two}");
        let (eight, low, high) = run.extend(8, both(4.0), both(8.0));
        // Stays: 2 * 8 / 4. Grows by a third with each CPU: 8 / (1 + 7 / 3).
        assert!((eight - (4.0f64 * 2.4).sqrt()).abs() < 1e-9, "{eight}");
        assert!(low <= 2.4 && high >= 4.0, "{low} {high}");
    }

    #[test]
    fn the_range_is_that_of_the_runs_where_there_are_some() {
        let run =
            |again: &[f64]| SecondRun::new(&recorded(1, 150, 0), &recorded(2, 100, 0), 2.0, again);
        let (one, three) = (run(&[]), run(&[1.0, 1.3]));
        assert!((one.speedup - 1.5).abs() < 1e-9 && (three.speedup - 1.3).abs() < 1e-9);
        assert!((one.low - 1.2).abs() < 1e-9 && (one.high - 1.8).abs() < 1e-9);
        assert!((three.low - 0.96).abs() < 1e-9 && (three.high - 1.56).abs() < 1e-9);
        // Runs that agree leave less doubt than one, and two are no spread.
        assert!(run(&[1.5, 1.5]).low > one.low);
        assert!((run(&[1.3]).speedup - 1.4).abs() < 1e-9 && run(&[1.3]).low < 1.1);
        assert_eq!(three.runs, [1.5, 1.0, 1.3]);
    }

    #[test]
    fn time_that_others_took_widens_the_range_and_is_no_part_of_the_time() {
        let quiet = SecondRun::new(&recorded(1, 1_000, 0), &recorded(2, 500, 0), 2.0, &[]);
        let busy = SecondRun::new(&recorded(1, 1_200, 200), &recorded(2, 700, 200), 2.0, &[]);
        assert!((quiet.speedup - 2.0).abs() < 1e-9 && (busy.speedup - 2.0).abs() < 1e-9);
        assert!(busy.low < quiet.low && busy.high > quiet.high);
        assert!(busy.low < 1_000.0 / 700.0 && busy.high > 1_200.0 / 500.0);
    }
}
