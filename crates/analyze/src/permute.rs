//! Is the difference between two groups of runs more than noise?
//!
//! There are few runs, with times of unknown distribution, and many regions are compared at once. So: an exact permutation test
//! of Welch's statistic with the maximum over all measures (Westfall and Young's single-step maxT). If nothing had
//! changed, which runs are called "before" would be arbitrary; for each way to call them, the largest statistic of any
//! measure is what chance produces. A measure's p is the share of ways in which chance gets at least as far as it did.
//! - It needs no distribution, and does not find something among a hundred regions only because they are a hundred.
//! - With n runs each, p cannot be below 2 / (2n choose n): 4 runs each are the least that can show p < 0.05.
//!
//! Welch's statistic is that of the logarithms: changes are factors, and a run on a busy machine is twice as long and
//! not so many seconds longer.
//!
//! Rejected: a t test (outliers of busy machines), Mann-Whitney with Holm's correction (with 4 runs each it could never
//! find anything among two regions).

use kasuri_base::random::Rng;

/// More ways than this are sampled instead of gone through.
const MAX_WAYS: u64 = 20_000;
/// Smaller differences than this share count as none: measures that never vary would else have an infinite
/// statistic. A value below this share of the mean counts as this share: 0 has no logarithm.
const FLOOR: f64 = 0.001;

/// Runs of one measure.
pub(crate) struct Measure {
    pub before: Vec<f64>,
    pub after: Vec<f64>,
}

/// For each measure, how often chance alone gets as far; none when there are too few runs for any result at 5 %.
/// All measures must have as many runs before as the first, and after.
pub(crate) fn p_values(measures: &[Measure]) -> Option<Vec<f64>> {
    let first = measures.first()?;
    let ways = choose(first.before.len() + first.after.len(), first.before.len());
    p_values_of(measures, ways)
}

/// The same for a given number of ways.
fn p_values_of(measures: &[Measure], ways: u64) -> Option<Vec<f64>> {
    let (n, m) = (measures.first()?.before.len(), measures.first()?.after.len());
    // Calling all runs by the other name changes nothing: with as many on both sides each way counts twice.
    let least = if n == m { 2.0 } else { 1.0 } / ways as f64;
    if n < 2 || m < 2 || least > 0.05 {
        return None;
    }
    let pooled: Vec<Vec<f64>> = measures.iter().map(logarithms).collect();
    let truth: Vec<bool> = (0..n + m).map(|run| run < n).collect();
    let observed: Vec<f64> = pooled.iter().map(|runs| statistic(runs, &truth)).collect();
    let mut as_far = vec![0u64; measures.len()];
    let mut tried = 0u64;
    for_each_way(n + m, n, ways, |is_before| {
        tried += 1;
        let far = pooled.iter().map(|runs| statistic(runs, is_before));
        let far = far.fold(0.0, f64::max);
        for (count, &own) in as_far.iter_mut().zip(&observed) {
            // Sums in another order differ in their last bits.
            *count += u64::from(far >= own * (1.0 - 1e-9));
        }
    });
    Some(as_far.iter().map(|&k| k as f64 / tried as f64).collect())
}

fn logarithms(measure: &Measure) -> Vec<f64> {
    let runs = || measure.before.iter().chain(&measure.after);
    let mean = runs().map(|x| x.abs()).sum::<f64>() / runs().count() as f64;
    let least = (mean * FLOOR).max(f64::MIN_POSITIVE);
    runs().map(|x| x.max(least).ln()).collect()
}

/// n choose k; from 2^64 on `u64::MAX`: more than can be enumerated; the sampling begins far below.
fn choose(n: usize, k: usize) -> u64 {
    let mut ways: u64 = 1;
    // The smaller of k and n - k: else a count that fits may pass through products that do not.
    for i in 0..k.min(n - k) as u128 {
        // Each is a binomial coefficient itself, so the division leaves no rest.
        match u64::try_from(u128::from(ways) * (n as u128 - i) / (i + 1)) {
            Ok(more) => ways = more,
            Err(_) => return u64::MAX,
        }
    }
    ways
}

/// |difference of the means| over its standard error.
fn statistic(runs: &[f64], is_before: &[bool]) -> f64 {
    let side = |which: bool| {
        let of = || runs.iter().zip(is_before).filter(move |(_, b)| **b == which).map(|(x, _)| *x);
        let n = of().count() as f64;
        let mean = of().sum::<f64>() / n;
        let variance = of().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
        (mean, variance / n)
    };
    let ((a, va), (b, vb)) = (side(true), side(false));
    let floor = FLOOR * (a.abs() + b.abs()) / 2.0;
    let error = (va + vb).sqrt() + floor;
    if error > 0.0 { (a - b).abs() / error } else { 0.0 }
}

fn for_each_way(n: usize, k: usize, ways: u64, mut visit: impl FnMut(&[bool])) {
    let mut is_before: Vec<bool> = (0..n).map(|run| run < k).collect();
    if ways > MAX_WAYS {
        // A fixed seed: the same question has the same answer.
        let mut random = Rng::new(1);
        // The way things were is one of those that chance may produce.
        visit(&is_before);
        for _ in 1..MAX_WAYS {
            random.shuffle(&mut is_before);
            visit(&is_before);
        }
        return;
    }
    let mut chosen: Vec<usize> = (0..k).collect();
    loop {
        is_before.iter_mut().for_each(|b| *b = false);
        chosen.iter().for_each(|&run| is_before[run] = true);
        visit(&is_before);
        // The next combination: move the last that can move, the ones after it follow closely.
        let Some(at) = (0..k).rev().find(|&i| chosen[i] < n - k + i) else {
            return;
        };
        chosen[at] += 1;
        for i in at + 1..k {
            chosen[i] = chosen[i - 1] + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measure(before: &[f64], after: &[f64]) -> Measure {
        Measure { before: before.to_vec(), after: after.to_vec() }
    }

    #[test]
    fn p_of_separate_groups_is_the_least_there_is() {
        // 4 and 4 runs without overlap: only this way and its mirror image get as far, of 70.
        let p = p_values(&[measure(&[1.0, 1.1, 1.2, 1.3], &[2.0, 2.1, 2.2, 2.3])]).unwrap();
        assert!((p[0] - 2.0 / 70.0).abs() < 1e-12, "{p:?}");
    }

    #[test]
    fn p_of_the_same_runs_is_one_and_few_runs_have_none() {
        let p = p_values(&[measure(&[1.0, 2.0, 3.0, 4.0], &[1.0, 2.0, 3.0, 4.0])]).unwrap();
        assert_eq!(p, [1.0]);
        assert!(p_values(&[measure(&[1.0, 1.1, 1.2], &[2.0, 2.1, 2.2])]).is_none());
        assert!(p_values(&[measure(&[1.0], &[2.0])]).is_none());
        assert!(p_values(&[]).is_none());
    }

    #[test]
    fn p_counts_that_many_were_looked_at() {
        // Noise in twenty measures: in a family that changed nothing, false findings in at most about 5 % of families.
        let mut seed = 7u64;
        let mut noise = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) as f64 / f64::from(1u32 << 31)
        };
        let mut found = 0;
        for _ in 0..40 {
            let family: Vec<Measure> = (0..20)
                .map(|_| {
                    let runs: Vec<f64> = (0..10).map(|_| 1.0 + noise()).collect();
                    measure(&runs[..5], &runs[5..])
                })
                .collect();
            let p = p_values(&family).unwrap();
            found += i32::from(p.iter().any(|&p| p <= 0.05));
        }
        assert!(found <= 6, "{found} of 40 families of noise");
        // Negative control: one that did change is found among them.
        let mut family: Vec<Measure> = (0..20)
            .map(|_| {
                let runs: Vec<f64> = (0..10).map(|_| 1.0 + noise()).collect();
                measure(&runs[..5], &runs[5..])
            })
            .collect();
        family.push(measure(&[1.0, 1.01, 0.99, 1.0, 1.0], &[1.2, 1.21, 1.2, 1.19, 1.2]));
        let p = p_values(&family).unwrap();
        assert!(p[20] <= 0.05, "{}", p[20]);
    }

    #[test]
    fn ways_are_counted_or_more_than_fit() {
        assert_eq!((choose(8, 4), choose(5, 0), choose(5, 5)), (70, 1, 1));
        // 62 over 31 fits, a product on the way to it does in 128 bits only; 67 over 33 is the last that fits.
        assert_eq!(choose(62, 31), 465_428_353_255_261_088);
        assert_eq!(choose(67, 33), 14_226_520_737_620_288_370);
        assert_eq!(choose(68, 34), u64::MAX);
        assert_eq!(choose(400, 200), u64::MAX);
        // One run beside very many: as many ways as runs.
        assert_eq!(choose(1_000_001, 1_000_000), 1_000_001);
    }

    #[test]
    fn p_of_many_runs_a_side_is_known() {
        for n in [31, 32, 33, 34, 40, 200] {
            let before: Vec<f64> = (0..n).map(|i| 1.0 + f64::from(i % 7) * 0.01).collect();
            let after: Vec<f64> = before.iter().map(|x| x * 1.2).collect();
            let p = p_values(&[measure(&before, &after), measure(&before, &before)])
                .unwrap_or_else(|| panic!("{n} a side are not too few"));
            // Only the way things were gets as far: one of those sampled. Equal groups: every way does.
            assert_eq!(p, [1.0 / MAX_WAYS as f64, 1.0], "{n} a side");
        }
    }

    #[test]
    fn sampled_p_is_the_exact_one() {
        // 8 and 8 runs have 12,870 ways, gone through; sampled, the same p comes out but for the scatter of a share
        // of 20,000: sqrt(p (1 - p) / 20,000), times five.
        let mut seed = 3u64;
        let mut noise = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) as f64 / f64::from(1u32 << 31)
        };
        for case in 0..8 {
            let shift = 0.1 * f64::from(case);
            let before: Vec<f64> = (0..8).map(|_| 1.0 + noise()).collect();
            let after: Vec<f64> = (0..8).map(|_| 1.0 + shift + noise()).collect();
            let m = [measure(&before, &after)];
            let exact = p_values(&m).unwrap()[0];
            let sampled = p_values_of(&m, u64::MAX).unwrap()[0];
            let scatter = (exact * (1.0 - exact) / MAX_WAYS as f64).sqrt();
            assert!(
                (sampled - exact).abs() <= 5.0 * scatter + 1.0 / MAX_WAYS as f64,
                "case {case}: {sampled} sampled, {exact} exact"
            );
        }
    }

    #[test]
    fn sampled_p_finds_chance_as_often_as_it_says() {
        // Noise against noise, 34 runs a side, whose ways no 64 bits count: p <= 0.05 in about one of twenty.
        let mut seed = 11u64;
        let mut noise = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) as f64 / f64::from(1u32 << 31)
        };
        let found = (0..40)
            .filter(|_| {
                let runs: Vec<f64> = (0..68).map(|_| 1.0 + noise()).collect();
                p_values(&[measure(&runs[..34], &runs[34..])]).unwrap()[0] <= 0.05
            })
            .count();
        // More than 8 once in 5,000 times for a true 5 %; the seed is fixed.
        assert!(found <= 8, "{found} of 40");
    }

    #[test]
    fn many_runs_are_sampled() {
        let before: Vec<f64> = (0..12).map(|i| 1.0 + f64::from(i % 3) * 0.01).collect();
        let after: Vec<f64> = before.iter().map(|x| x * 1.1).collect();
        let p = p_values(&[measure(&before, &after), measure(&before, &before)]).unwrap();
        assert!(p[0] < 0.001 && p[1] > 0.9, "{p:?}");
    }
}
