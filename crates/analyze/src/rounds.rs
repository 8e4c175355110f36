//! Statistics over the rounds of one parallel region: how much is lost, which threads cause it, how it is distributed.
//!
//! Is it always the same thread? Two questions, because with many rounds the smallest difference is significant, and
//! with few the largest may be chance:
//!
//! - *Could chance do it?* Friedman's test: in each round the threads are ranked by their busy time; if the work were
//!   dealt by chance anew in each round, the threads' mean ranks would be alike. It needs no distribution of the times,
//!   and a slow round weighs as much as a fast one. The test by the share of rounds in which one thread is the slowest
//!   was rejected: of 16 threads, one with 5 % more work is significantly late and yet rarely the slowest.
//! - *How much of the cost is it?* The threads' sums over all rounds leave an imbalance of their own. A constant, better
//!   split would save that much and no more: `static_cost_ns <= cost_ns`, because the maximum of sums is at most the
//!   sum of maxima.
use crate::cut::Cut;
use crate::{Imbalance, ImbalanceThread, Rounds};
use kasuri_model::{ThreadIx, Time};
use statrs::distribution::{ChiSquared, ContinuousCDF};
use std::cmp::Reverse;

/// One execution by all threads together.
pub(crate) struct Round {
    pub start: Time,
    /// [n_threads], ns.
    pub busy_ns: Vec<i64>,
}

/// Fewer rounds give no result: the test's distribution is an approximation, poor for so few.
const MIN_ROUNDS: usize = 8;
/// A difference between threads that chance makes less often than this is one.
const SIGNIFICANT: f64 = 0.01;

/// Fills in the statistics of the rounds; none when no thread was ever busy.
pub(crate) fn fill(
    out: &mut Imbalance,
    cut: &Cut<'_>,
    threads: &[ThreadIx],
    rounds: &[Round],
) -> Option<()> {
    let mut sums = vec![0i64; threads.len()];
    let mut slowest = vec![0u64; threads.len()];
    let mut shares: Vec<(f64, &Round)> = Vec::with_capacity(rounds.len());
    for round in rounds {
        let busy = &round.busy_ns;
        let n = busy.len() as f64;
        let worst = first_max(busy)?;
        let (max, mean) = (busy[worst], busy.iter().sum::<i64>() as f64 / n);
        sums.iter_mut().zip(busy).for_each(|(sum, b)| *sum += b);
        slowest[worst] += 1;
        out.max_busy_ns += max;
        out.mean_busy_ns += mean;
        out.cost_ns += n * (max as f64 - mean);
        shares.push((ratio(max as f64 - mean, max as f64), round));
    }
    if out.max_busy_ns <= 0 {
        return None;
    }
    out.instances = rounds.len() as u64;
    out.threads = threads.len() as u32;
    out.imbalance = ratio(out.max_busy_ns as f64 - out.mean_busy_ns, out.max_busy_ns as f64);
    let heaviest = sums.iter().copied().max().unwrap_or(0) as f64;
    out.static_cost_ns = (threads.len() as f64 * heaviest) - sums.iter().sum::<i64>() as f64;
    out.p_value = (rounds.len() >= MIN_ROUNDS).then(|| friedman(rounds)).flatten();
    out.cause = cause(out.p_value, ratio(out.static_cost_ns, out.cost_ns));
    let worst = slowest_most_often(&slowest, &sums)?;
    let name = |thread: &ThreadIx| {
        let row = &cut.trace.threads[thread.ix()];
        (row.tid, cut.trace.strings.get(row.name).to_string())
    };
    (out.worst_tid, out.worst_thread) = name(&threads[worst]);
    out.worst_share = slowest[worst] as f64 / out.instances as f64;
    out.is_static = out.instances >= 3 && out.worst_share >= 0.8;
    out.by_thread = (threads.iter().zip(sums).zip(slowest))
        .map(|((thread, busy_ns), slowest)| {
            let (tid, name) = name(thread);
            ImbalanceThread { tid, name, busy_ns, slowest }
        })
        .collect();
    out.by_thread.sort_by_key(|t| (Reverse(t.busy_ns), t.tid));
    out.rounds = distribution(shares);
    Some(())
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

fn first_max(values: &[i64]) -> Option<usize> {
    (0..values.len()).max_by_key(|&ix| (values[ix], Reverse(ix)))
}

fn slowest_most_often(times: &[u64], sums: &[i64]) -> Option<usize> {
    (0..times.len()).max_by_key(|&ix| (times[ix], sums[ix], Reverse(ix)))
}

/// The word for the pattern of late threads. Half of the cost: a better split is then the first thing to do.
fn cause(p: Option<f64>, static_share: f64) -> &'static str {
    match p {
        None => "unknown",
        Some(p) if p < SIGNIFICANT && static_share >= 0.5 => "static",
        Some(p) if p < SIGNIFICANT && static_share >= 0.1 => "mixed",
        Some(_) => "changing",
    }
}

/// Probability that threads whose work is dealt by chance in each round differ as much as these; none when all are
/// always equal. Ties share their mean rank.
fn friedman(rounds: &[Round]) -> Option<f64> {
    let threads = rounds.first()?.busy_ns.len();
    let mut rank_sums = vec![0.0; threads];
    let mut squares = 0.0;
    let mut order: Vec<usize> = (0..threads).collect();
    for round in rounds {
        let busy = &round.busy_ns;
        order.sort_by_key(|&ix| busy[ix]);
        let mut from = 0;
        while from < threads {
            let same = order[from..].iter().take_while(|&&ix| busy[ix] == busy[order[from]]);
            let to = from + same.count();
            // Ranks from+1..=to share their mean.
            let rank = (from + 1 + to) as f64 / 2.0;
            for &ix in &order[from..to] {
                rank_sums[ix] += rank;
            }
            squares += rank * rank * (to - from) as f64;
            from = to;
        }
    }
    let (n, k) = (rounds.len() as f64, threads as f64);
    let mean = n * (k + 1.0) / 2.0;
    let between: f64 = rank_sums.iter().map(|sum| (sum - mean).powi(2)).sum();
    let within = squares - n * k * (k + 1.0).powi(2) / 4.0;
    if within <= 0.0 {
        return None;
    }
    let chi_squared = ChiSquared::new(k - 1.0).ok()?;
    Some(chi_squared.sf((k - 1.0) * between / within))
}

/// Over the rounds: each round's own imbalance.
fn distribution(mut shares: Vec<(f64, &Round)>) -> Rounds {
    shares.sort_by(|a, b| a.0.total_cmp(&b.0));
    let n = shares.len();
    let at = |percent: usize| shares[(n * percent).div_ceil(100).clamp(1, n) - 1].0;
    let mut histogram = vec![0; 10];
    for (share, _) in &shares {
        histogram[((share * 10.0) as usize).min(9)] += 1;
    }
    let (max, worst) = &shares[n - 1];
    Rounds {
        p10: at(10),
        p50: at(50),
        p90: at(90),
        max: *max,
        worst_at_ns: worst.start.ns(),
        histogram,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(busy: &[&[i64]]) -> Vec<Round> {
        let round =
            |(ix, busy): (usize, &&[i64])| Round { start: Time(ix as i64), busy_ns: busy.to_vec() };
        busy.iter().enumerate().map(round).collect()
    }

    #[test]
    fn friedman_agrees_with_a_worked_example() {
        // Ranks of 4 rounds of 3: (1 2 3), (2 1 3), (1 2 3), (1 3 2): sums 5 8 11.
        // Q = 12 / (4*3*4) * (25 + 64 + 121) - 3*4*4 = 52.5 - 48 = 4.5; chi squared of 2: p = exp(-2.25).
        let found = friedman(&rounds(&[&[1, 2, 3], &[5, 4, 9], &[0, 7, 8], &[1, 6, 4]])).unwrap();
        assert!((found - (-2.25f64).exp()).abs() < 1e-12, "{found}");
    }

    #[test]
    fn friedman_with_ties_and_without_any_difference() {
        // Ranks (1.5 1.5 3), (1 2 3): sums 2.5 3.5 6, squares 13.5 + 14.
        // Q = 2 * (2.25 + 0.25 + 4) / (27.5 - 24) = 13 / 3.5; p = exp(-Q / 2).
        let found = friedman(&rounds(&[&[4, 4, 5], &[1, 2, 3]])).unwrap();
        assert!((found - (-6.5f64 / 3.5).exp()).abs() < 1e-12, "{found}");
        assert_eq!(friedman(&rounds(&[&[4, 4], &[1, 1]])), None);
    }

    #[test]
    fn cause_needs_both_significance_and_size() {
        assert_eq!(cause(Some(0.001), 0.9), "static");
        assert_eq!(cause(Some(0.001), 0.3), "mixed");
        assert_eq!(cause(Some(0.001), 0.01), "changing");
        assert_eq!(cause(Some(0.2), 0.9), "changing");
        assert_eq!(cause(None, 1.0), "unknown");
    }
}
