//! Is one of two commands faster, from runs in pairs?
//!
//! Wilcoxon's signed-rank test, exact. Which of a pair ran first was drawn by chance; so if the two do not differ, the sign of each
//! pair's difference is a coin's, whatever the machine did meanwhile: neither the distribution of times nor their drift matters.
//! Estimate (Hodges and Lehmann: the median of the means of all pairs of differences) and interval (the shifts that the test does
//! not reject) come from the same test, so that an interval without 0 and p below its level say the same.
//!
//! Rejected: the t test (one run of a busy machine decides it); the sign test, whose interval is half as wide again.
//!
//! Source: M. Hollander, D. Wolfe, "Nonparametric Statistical Methods", sections 3.1 to 3.3.

use statrs::distribution::{ContinuousCDF, Normal};

/// What differences of pairs say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Paired {
    /// Hodges and Lehmann's estimate of the difference.
    pub estimate: f64,
    /// An interval that covers it as often as was asked for; none with too few pairs.
    pub interval: Option<(f64, f64)>,
    /// How often a coin's signs get as far from 0, in either direction.
    pub p_value: f64,
    /// Number of pairs.
    pub n: usize,
}

/// What `differences` say, with an interval that covers the truth with probability `coverage` (0..1) or more. None without
/// differences; those that are no numbers are left out.
pub fn paired(differences: &[f64], coverage: f64) -> Option<Paired> {
    let differences: Vec<f64> = differences.iter().copied().filter(|d| d.is_finite()).collect();
    let n = differences.len();
    if n == 0 {
        return None;
    }
    let mut means = Vec::with_capacity(n * (n + 1) / 2);
    for (i, a) in differences.iter().enumerate() {
        means.extend(differences[i..].iter().map(|b| (a + b) / 2.0));
    }
    means.sort_by(f64::total_cmp);
    let m = means.len();
    // The interval ends k means from either end: as often as the rank sum is below k, twice, it misses.
    let ranks: Vec<usize> = (1..=n).map(|rank| 2 * rank).collect();
    let share = sums(&ranks);
    let mut missed = 0.0;
    let mut k = 0;
    while 2 * k < m {
        missed += 2.0 * share[2 * k];
        if missed > 1.0 - coverage + 1e-12 {
            break;
        }
        k += 1;
    }
    Some(Paired {
        estimate: (means[(m - 1) / 2] + means[m / 2]) / 2.0,
        interval: (k > 0).then(|| (means[k - 1], means[m - k])),
        p_value: p_value(&differences),
        n,
    })
}

/// The two-sided p. Differences of 0 say nothing; equal ones share their ranks.
fn p_value(differences: &[f64]) -> f64 {
    let mut told: Vec<f64> = differences.iter().copied().filter(|&d| d != 0.0).collect();
    if told.is_empty() {
        return 1.0;
    }
    told.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    let mut ranks = vec![0; told.len()];
    let mut from = 0;
    while from < told.len() {
        let equal = told[from..].iter().take_while(|d| d.abs() == told[from].abs());
        let to = from + equal.count();
        // Twice the mean of the ranks from + 1 ..= to, which is a whole number.
        ranks[from..to].fill(from + to + 1);
        from = to;
    }
    let positive = told.iter().zip(&ranks).filter(|(d, _)| **d > 0.0);
    let sum: usize = positive.map(|(_, rank)| rank).sum();
    let share = sums(&ranks);
    let below: f64 = share[..=sum].iter().sum();
    let above: f64 = share[sum..].iter().sum();
    (2.0 * below.min(above)).min(1.0)
}

/// `[s]`: in which share of all ways to choose from `ranks` those chosen sum to s.
fn sums(ranks: &[usize]) -> Vec<f64> {
    let mut share = vec![0.0; ranks.iter().sum::<usize>() + 1];
    share[0] = 1.0;
    let mut largest = 0;
    for &rank in ranks {
        largest += rank;
        for sum in (0..=largest).rev() {
            let without = match sum >= rank {
                true => share[sum - rank],
                false => 0.0,
            };
            share[sum] = (share[sum] + without) / 2.0;
        }
    }
    share
}

/// What `after` is to `before` where runs are no pairs: the estimate is of `after - before`. Wilcoxon's rank-sum test; equal values share
/// their ranks. Unlike pairs it takes drift between the two for a difference. None without values on both sides.
///
/// Source: M. Hollander, D. Wolfe, "Nonparametric Statistical Methods", sections 4.1 to 4.3.
pub fn unpaired(before: &[f64], after: &[f64], coverage: f64) -> Option<Paired> {
    let finite =
        |values: &[f64]| -> Vec<f64> { values.iter().copied().filter(|v| v.is_finite()).collect() };
    let (before, after) = (finite(before), finite(after));
    let (m, n) = (before.len(), after.len());
    if m == 0 || n == 0 {
        return None;
    }
    let mut differences: Vec<f64> =
        after.iter().flat_map(|a| before.iter().map(move |b| a - b)).collect();
    differences.sort_by(f64::total_cmp);
    let all = m * n;
    // Twice the number of pairs in which `after` is larger; equal ones count half.
    let twice: usize =
        differences.iter().map(|&d| if d > 0.0 { 2 } else { usize::from(d == 0.0) }).sum();
    let at_most = at_most(m, n);
    // With ties the sum may lie between two: the one nearer to the middle says less.
    let low = twice.div_ceil(2).min(all - twice / 2);
    let p_value = (2.0 * at_most[low.min(all)]).min(1.0);
    let missed = |k: usize| 2.0 * at_most[k];
    let mut k = 0;
    while 2 * k < all && missed(k) <= 1.0 - coverage + 1e-12 {
        k += 1;
    }
    Some(Paired {
        estimate: (differences[(all - 1) / 2] + differences[all / 2]) / 2.0,
        interval: (k > 0).then(|| (differences[k - 1], differences[all - k])),
        p_value,
        n: m.min(n),
    })
}

/// Most pairs for which the distribution is computed exactly, in 25 million steps. Beyond them the normal one is within 0.0005.
const EXACT_MOST: usize = 10_000;

/// `[u]`: in which share of all orders of m and n values u or fewer of the m * n pairs have the second one larger.
fn at_most(m: usize, n: usize) -> Vec<f64> {
    if m * n > EXACT_MOST {
        return normal_at_most(m, n);
    }
    let mut sum = 0.0;
    let add = |share: f64| {
        sum += share;
        sum
    };
    rank_sums(m, n).into_iter().map(add).collect()
}

/// The same by the normal distribution, corrected for continuity (section 4.1, the large-sample approximation).
fn normal_at_most(m: usize, n: usize) -> Vec<f64> {
    let all = (m * n) as f64;
    let deviation = (all * (m + n + 1) as f64 / 12.0).sqrt();
    let normal = Normal::new(all / 2.0, deviation).expect("a mean and a deviation above 0");
    (0..=m * n).map(|u| normal.cdf(u as f64 + 0.5)).collect()
}

/// `[u]`: in which share of all orders of m and n values u of the m * n pairs have the second one larger. Where the largest of all values
/// is one of the n, it is larger than all m; else it adds nothing.
fn rank_sums(m: usize, n: usize) -> Vec<f64> {
    // Rows of n for the m before, and for this one.
    let mut rows: Vec<Vec<f64>> = (0..=n).map(|_| vec![1.0]).collect();
    for i in 1..=m {
        let mut now: Vec<Vec<f64>> = vec![vec![1.0]];
        for j in 1..=n {
            let mut ways = vec![0.0; i * j + 1];
            let last_is_second = j as f64 / (i + j) as f64;
            for (u, share) in now[j - 1].iter().enumerate() {
                ways[u + i] += share * last_is_second;
            }
            for (u, share) in rows[j].iter().enumerate() {
                ways[u] += share * (1.0 - last_is_second);
            }
            now.push(ways);
        }
        rows = now;
    }
    rows.pop().unwrap_or_default()
}

/// Holm's correction: each p in terms of the whole family of `family` tests, of which those not given count as 1. In order of `p_values`.
pub fn holm(p_values: &[f64], family: usize) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    let mut out = vec![1.0; p_values.len()];
    let mut so_far: f64 = 0.0;
    for (place, &ix) in order.iter().enumerate() {
        let tests = family.max(p_values.len()) - place;
        so_far = so_far.max((p_values[ix] * tests as f64).min(1.0));
        out[ix] = so_far;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use kasuri_base::random::Rng;
    use proptest::prelude::*;

    #[test]
    fn p_values_are_those_of_the_tables() {
        // Hollander and Wolfe, table A.4, one side: P(T+ >= 39) = 0.027 for n = 9 (14 of 512 ways), P(T+ >= 28) = 0.008 for n = 7.
        let with_sum = |n: i32, negative: &[i32]| -> f64 {
            let values: Vec<f64> = (1..=n)
                .map(|rank| f64::from(if negative.contains(&rank) { -rank } else { rank }))
                .collect();
            paired(&values, 0.95).unwrap().p_value
        };
        assert!((with_sum(9, &[6]) / 2.0 - 14.0 / 512.0).abs() < 1e-12);
        assert!((with_sum(7, &[]) - 2.0 / 128.0).abs() < 1e-12);
        assert!((with_sum(9, &[]) - 2.0 / 512.0).abs() < 1e-12);
    }

    #[test]
    fn zeros_and_ties_are_counted_by_hand() {
        assert_eq!(paired(&[0.0, 0.0], 0.95).unwrap().p_value, 1.0);
        // |d| = 1, 1, 2: ranks 1.5, 1.5, 3. Sums of 8 ways: 0, 1.5 (2), 3 (2), 4.5 (2), 6. Observed 4.5: above 3 of 8.
        let p = paired(&[1.0, -1.0, 2.0, 0.0], 0.95).unwrap().p_value;
        assert!((p - 0.75).abs() < 1e-12, "{p}");
        assert_eq!(paired(&[f64::NAN], 0.95), None);
    }

    #[test]
    fn rank_sums_are_those_of_the_tables() {
        // Of the 20 orders of 3 and 3, one each has u = 0 and 9; of those of 4 and 4 (70), 1, 1, 2, 3 have u = 0, 1, 2, 3.
        let p = |before: &[f64], after: &[f64]| unpaired(before, after, 0.95).unwrap();
        let told = p(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]);
        assert!((told.p_value - 0.1).abs() < 1e-12 && told.interval.is_none());
        assert_eq!(told.estimate, 3.0);
        let told = p(&[1.0, 2.0, 3.0, 4.5], &[4.0, 5.0, 6.0, 7.0]);
        assert!((told.p_value - 2.0 * 2.0 / 70.0).abs() < 1e-12, "{told:?}");
        let back = p(&[4.0, 5.0, 6.0, 7.0], &[1.0, 2.0, 3.0, 4.5]);
        assert_eq!((back.p_value, back.estimate), (told.p_value, -told.estimate));
        assert_eq!(p(&[1.0, 1.0], &[1.0, 1.0]).p_value, 1.0);
        assert_eq!(unpaired(&[], &[1.0], 0.95), None);
    }

    /// A thousand runs on either side, as many as `kasuri bench` makes: exactly that would take 4 GB.
    #[test]
    fn many_runs_are_told_apart_by_the_normal_distribution() {
        let (exact, normal) = (at_most(100, 100), normal_at_most(100, 100));
        assert_eq!(exact.len(), normal.len());
        for (u, (exact, normal)) in exact.iter().zip(&normal).enumerate() {
            assert!((exact - normal).abs() < 5e-4, "{u}: {exact} {normal}");
        }
        let side = |shift: f64| (0..1000).map(|n| f64::from(n) + shift).collect::<Vec<f64>>();
        assert!(unpaired(&side(0.0), &side(0.5), 0.95).unwrap().p_value > 0.9);
        let told = unpaired(&side(0.0), &side(50.0), 0.95).unwrap();
        assert!(told.p_value < 1e-3 && told.interval.unwrap().0 > 0.0, "{told:?}");
    }

    /// The interval covers the shift as often as it says, and equal sides are told apart in 5 % of cases or fewer.
    #[test]
    fn unpaired_intervals_cover() {
        let (mut covered, mut alarms) = (0, 0);
        for seed in 0..2000 {
            let mut rng = Rng::new(seed);
            let mut side = |shift: f64| -> Vec<f64> {
                (0..12).map(|_| rng.exponential(1.0) + shift).collect()
            };
            let (before, after, same) = (side(0.0), side(0.5), side(0.0));
            let (low, high) = unpaired(&before, &after, 0.95).unwrap().interval.unwrap();
            covered += usize::from((low..=high).contains(&0.5));
            alarms += usize::from(unpaired(&before, &same, 0.95).unwrap().p_value <= 0.05);
        }
        assert!((1880..=1940).contains(&covered), "{covered}");
        assert!((60..=120).contains(&alarms), "{alarms}");
    }

    #[test]
    fn intervals_need_enough_pairs() {
        let n = |n: usize| paired(&vec![1.0; n], 0.95).unwrap().interval;
        assert_eq!(n(5), None, "2 / 32 > 0.05");
        assert_eq!(n(6), Some((1.0, 1.0)));
    }

    #[test]
    fn an_interval_covers_as_often_as_it_says() {
        let mut rng = Rng::new(20);
        for (n, coverage) in [(6, 0.95), (12, 0.95), (24, 0.8)] {
            let trials = 3000;
            let hit = (0..trials).filter(|_| {
                // Pairs of exponential times whose logarithms differ by 0.3.
                let values: Vec<f64> = (0..n)
                    .map(|_| 0.3 + (rng.exponential(1.0) / rng.exponential(1.0)).ln())
                    .collect();
                let (low, high) = paired(&values, coverage).unwrap().interval.unwrap();
                (low..=high).contains(&0.3)
            });
            let share = hit.count() as f64 / f64::from(trials);
            assert!((coverage - 0.012..coverage + 0.04).contains(&share), "n = {n}: {share}");
        }
    }

    #[test]
    fn holms_correction_by_hand() {
        // The least times 4, the next times 3 and never below the one before.
        let told = holm(&[0.02, 0.01, 0.9], 4);
        assert!(
            (told[1] - 0.04).abs() < 1e-12 && (told[0] - 0.06).abs() < 1e-12 && told[2] == 1.0,
            "{told:?}"
        );
    }

    proptest! {
        #[test]
        fn interval_and_p_agree(values in prop::collection::vec(-1f64..1.2, 6..30)) {
            let told = paired(&values, 0.95).unwrap();
            let (low, high) = told.interval.unwrap();
            prop_assert!(low <= told.estimate && told.estimate <= high);
            prop_assert_eq!(told.p_value <= 0.05, low > 0.0 || high < 0.0);
            let turned: Vec<f64> = values.iter().map(|v| -v).collect();
            let other = paired(&turned, 0.95).unwrap();
            prop_assert!((told.p_value - other.p_value).abs() < 1e-12);
            prop_assert!((told.estimate + other.estimate).abs() < 1e-12);
        }
    }
}
