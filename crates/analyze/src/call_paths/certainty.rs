//! How far the shares that samples tell may be from the true ones.
//!
//! Samples that stand for unequal times tell less than as many equal ones: as much as [`Independent::number`] of a clock that
//! is in step with nothing (L. Kish, "Survey Sampling", 1965, 11.7). A share among so many has Wilson's interval (E. B. Wilson, JASA 22,
//! 1927), which stays true where the share is 0 or 1, or the samples are few: one standard error is no bound there. Programs whose
//! parts last for longer than the time between two samples are told better than that. docs/design/call-paths.md, "How certain".
use kasuri_model::Trace;

/// Standard errors: 95 of 100 shares lie within so many.
const ERRORS: f64 = 2.0;

/// Adds up how much samples tell together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Independent {
    sum: f64,
    squares: f64,
}

impl Independent {
    /// A sample stands for so much time.
    pub fn add(&mut self, ns: i64) {
        self.sum += ns as f64;
        self.squares += ns as f64 * ns as f64;
    }

    /// The number of samples of equal weight that would tell shares as certainly. `None`: there are none, or nobody knows, since no
    /// clock of its own took them. Those of the kernel's timer interrupt may be in step with the program.
    pub fn number(self, trace: &Trace) -> Option<u64> {
        let is_from = |clock| trace.sampling.iter().any(|row| row.source == clock);
        let is_known = self.sum > 0.0 && is_from("cpu-clock") && !is_from("tick");
        is_known.then_some((self.sum * self.sum / self.squares) as u64)
    }
}

/// How many points a share of so many independent samples may be off the true one, which 95 of 100 are not.
pub fn points_off(share: f64, independent: u64) -> f64 {
    let n = independent.max(1) as f64;
    let more = ERRORS * ERRORS / n;
    let middle = (share + more / 2.0) / (1.0 + more);
    let half = (share * (1.0 - share) * more + more * more / 4.0).sqrt() / (1.0 + more);
    100.0 * ((middle - share).abs() + half)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kasuri_model::SamplingChange;

    fn clocks(sources: &[&str]) -> Trace {
        let row = |source: &&str| SamplingChange {
            source: (*source).to_owned(),
            ..SamplingChange::default()
        };
        Trace { sampling: sources.iter().map(row).collect(), ..Trace::default() }
    }

    #[test]
    fn equal_samples_count_as_many_and_one_that_stands_for_all_as_one() {
        let of_clocks = |weights: &[i64], sources: &[&str]| {
            let mut sum = Independent::default();
            weights.iter().for_each(|&ns| sum.add(ns));
            sum.number(&clocks(sources))
        };
        for unknown in [["read"].as_slice(), &["tick"], &["cpu-clock", "tick"]] {
            assert_eq!(of_clocks(&[7; 300], unknown), None);
        }
        let of = |weights: &[i64]| of_clocks(weights, &["read", "cpu-clock"]);
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[7; 300]), Some(300));
        assert_eq!(of(&[1_000_000_000, 1, 1, 1]), Some(1));
        // One half by 10, the other by 30.
        assert_eq!(of(&[[3; 10].as_slice(), &[1; 30]].concat()), Some(30));
    }

    /// Of all outcomes of n samples, by their probability: how often the true share lies within the points.
    #[test]
    fn true_shares_lie_within_however_few_the_samples_and_small_the_share() {
        for n in [5u64, 20, 100, 1000] {
            for truth in [0.002, 0.02, 0.1, 0.3, 0.5, 0.9, 0.99_f64] {
                // The logarithm of the probability of so many hits: that of none is too small a number.
                let (mut within, mut ln) = (0.0, n as f64 * (1.0 - truth).ln());
                let odds = (truth / (1.0 - truth)).ln();
                for hits in 0..=n {
                    let share = hits as f64 / n as f64;
                    if (share - truth).abs() * 100.0 <= points_off(share, n) {
                        within += ln.exp();
                    }
                    ln += ((n - hits) as f64 / (hits + 1) as f64).ln() + odds;
                }
                assert!(within > 0.92, "{truth} of {n}: {within}");
            }
        }
        assert!(points_off(1.0, 3) > 50.0, "a few that are all alike");
        assert!((points_off(0.5, 2500) - 2.0).abs() < 0.01);
    }
}
