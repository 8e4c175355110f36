//! Medians with intervals that assume nothing about the distribution: this is timing on shared machines.
use schemars::JsonSchema;
use serde::Serialize;

/// A median with its confidence interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Estimate {
    /// The median.
    pub median: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Number of values.
    pub n: usize,
}

impl Estimate {
    /// Whether `value` lies in the interval.
    pub fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

/// The median of `values` and an interval that covers the true median in at least 95 % of all cases: from the k-th
/// smallest to the k-th largest value, k the largest for which the binomial distribution with p = 1/2 grants
/// that (W. J. Conover, "Practical Nonparametric Statistics", section 3.2). With fewer than six values there is no such k:
/// the interval is then all of them, and covers less. None without values.
pub fn median(values: &[f64]) -> Option<Estimate> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    if n == 0 {
        return None;
    }
    let middle = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0;
    let k = rank(n, 0.95);
    Some(Estimate { median: middle, low: sorted[k - 1], high: sorted[n - k], n })
}

/// The largest k >= 1 with P(k <= B(n, 1/2) <= n - k) >= confidence, else 1.
fn rank(n: usize, confidence: f64) -> usize {
    // Term i of the binomial distribution, from the one before: n is small, but not so small that 2^n fits.
    let mut term = 0.5f64.powi(n as i32);
    let mut tail = 0.0;
    let mut k = 0;
    for i in 0..n / 2 {
        tail += term;
        if 1.0 - 2.0 * tail < confidence {
            break;
        }
        k = i + 1;
        term *= (n - i) as f64 / (i + 1) as f64;
    }
    k.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranks_are_those_of_the_tables() {
        // Conover, table A3: the sign test's 95 % limits.
        for (n, k) in [(5, 1), (6, 1), (8, 1), (9, 2), (11, 2), (12, 3), (15, 4), (20, 6), (25, 8)]
        {
            assert_eq!(rank(n, 0.95), k, "n = {n}");
        }
    }

    #[test]
    fn interval_covers_the_median_as_often_as_it_says() {
        // A skewed distribution with the known median ln 2: exponential, by inverting its function. A fixed
        // linear congruential generator, so the count is always the same.
        let mut state = 0x2545_f491_4f6c_dd1du64;
        let mut uniform = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            ((state >> 11) as f64 + 0.5) / (1u64 << 53) as f64
        };
        for n in [7, 11, 25] {
            let trials = 4000;
            let covered = (0..trials)
                .filter(|_| {
                    let values: Vec<f64> = (0..n).map(|_| -uniform().ln()).collect();
                    median(&values).unwrap().contains(std::f64::consts::LN_2)
                })
                .count();
            let share = covered as f64 / trials as f64;
            assert!((0.945..=0.995).contains(&share), "n = {n}: {share}");
        }
    }

    #[test]
    fn nothing_has_no_median() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[f64::NAN]), None);
    }

    proptest! {
        #[test]
        fn median_lies_within_its_interval(values in prop::collection::vec(-1e9f64..1e9, 1..60)) {
            let e = median(&values).unwrap();
            prop_assert!(e.low <= e.median && e.median <= e.high);
            prop_assert_eq!(e.n, values.len());
        }
    }
}
