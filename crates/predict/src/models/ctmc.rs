//! One blocking lock, P CPUs, exactly: a Markov chain in which the lock's holder needs a CPU too.
//!
//! Source: simultaneous resource possession by global balance, as in textbooks of queueing networks (E. Lazowska et al.,
//! Quantitative System Performance, 1984, ch. 9). State: threads at the lock (the first holds it), threads in I/O. The
//! others compute. Computing threads and the holder share P CPUs evenly (processor sharing, what a fair scheduler does to
//! threads that compute long); waiting threads need none. Exact for exponential times and free hand-over; insensitive
//! enough that constant times stay within 2 %. States grow as N^2, so for one lock and up to some hundred threads.
use super::Load;

/// Rounds per unit of time on `n_cpus`; `None`: more than one lock, or too many states.
pub fn throughput(load: &Load, n_cpus: usize) -> Option<f64> {
    let n = load.n_threads;
    if load.holds.len() > 1 || n == 0 || n > 300 {
        return None;
    }
    let hold = load.holds.first().copied().unwrap_or(0.0);
    if hold <= 0.0 {
        return None;
    }
    if load.delay <= 0.0 {
        return Some(without_io(n, load.compute, hold, n_cpus));
    }
    with_io(load, hold, n_cpus)
}

/// A birth-death chain over the number at the lock: product form.
fn without_io(n: usize, compute: f64, hold: f64, n_cpus: usize) -> f64 {
    let share = |at_lock: usize| {
        let runnable = n - at_lock + usize::from(at_lock > 0);
        (n_cpus as f64 / runnable as f64).min(1.0)
    };
    if compute <= 0.0 {
        return 1.0 / hold;
    }
    let mut log_weight = 0.0_f64;
    let mut weights = vec![0.0_f64; n + 1];
    for (at_lock, weight) in weights.iter_mut().enumerate().skip(1) {
        let arrives = (n - at_lock + 1) as f64 * share(at_lock - 1) / compute;
        let leaves = share(at_lock) / hold;
        log_weight += (arrives / leaves).ln();
        *weight = log_weight;
    }
    let high = weights.iter().copied().fold(f64::MIN, f64::max);
    let p: Vec<f64> = weights.iter().map(|w| (w - high).exp()).collect();
    let total: f64 = p.iter().sum();
    (1..=n).map(|k| p[k] / total * share(k) / hold).sum()
}

/// Balance equations over (at the lock, in I/O), by elimination without subtractions (W. Grassmann et al., Operations
/// Research 1985): iterating over this chain, which goes round in circles, hardly converges.
fn with_io(load: &Load, hold: f64, n_cpus: usize) -> Option<f64> {
    let n = load.n_threads;
    if n > 24 {
        return None;
    }
    let states: Vec<(usize, usize)> =
        (0..=n).flat_map(|k| (0..=n - k).map(move |m| (k, m))).collect();
    let number = |k: usize, m: usize| states.iter().position(|&s| s == (k, m)).expect("a state");
    let share = |k: usize, m: usize| {
        let runnable = n - k - m + usize::from(k > 0);
        (n_cpus as f64 / runnable.max(1) as f64).min(1.0)
    };
    // A round: compute, then the lock, then I/O.
    let compute = load.compute.max(1e-9 * (hold + load.delay));
    let size = states.len();
    let mut rate = vec![vec![0.0; size]; size];
    for (from, &(k, m)) in states.iter().enumerate() {
        if k + m < n {
            rate[from][number(k + 1, m)] = (n - k - m) as f64 * share(k, m) / compute;
        }
        if k > 0 {
            rate[from][number(k - 1, m + 1)] = share(k, m) / hold;
        }
        if m > 0 {
            rate[from][number(k, m - 1)] = m as f64 / load.delay;
        }
    }
    let p = stationary(rate);
    Some(
        states
            .iter()
            .zip(&p)
            .filter(|((k, _), _)| *k > 0)
            .map(|(&(k, m), p)| p * share(k, m) / hold)
            .sum(),
    )
}

fn stationary(mut rate: Vec<Vec<f64>>) -> Vec<f64> {
    let size = rate.len();
    for last in (1..size).rev() {
        let (rest, row) = rate.split_at_mut(last);
        let row = &row[0];
        let out: f64 = row[..last].iter().sum();
        for from in rest.iter_mut().filter(|from| from[last] > 0.0) {
            from[last] /= out;
            let through = from[last];
            for to in 0..last {
                from[to] += through * row[to];
            }
        }
    }
    let mut p = vec![1.0; size];
    for state in 1..size {
        p[state] = (0..state).map(|from| p[from] * rate[from][state]).sum();
    }
    let total: f64 = p.iter().sum();
    p.iter_mut().for_each(|x| *x /= total);
    p
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(n: usize, compute: f64, delay: f64, hold: f64) -> Load {
        Load { n_threads: n, compute, delay, holds: vec![hold] }
    }

    #[test]
    fn ctmc_one_cpu_is_always_busy() {
        let x = throughput(&load(5, 3.0, 0.0, 1.0), 1).unwrap();
        assert!((x - 0.25).abs() < 1e-12, "{x}");
    }

    #[test]
    fn ctmc_with_cpus_for_all_is_the_repairman() {
        for n in [2, 3, 8] {
            let l = load(n, 5.0, 0.0, 1.0);
            let x = throughput(&l, n).unwrap();
            assert!((x / super::super::with_cpus_for_all(&l) - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn ctmc_io_vanishes_smoothly() {
        let without = throughput(&load(6, 4.0, 0.0, 1.0), 2).unwrap();
        let little = throughput(&load(6, 4.0, 1e-6, 1.0), 2).unwrap();
        assert!((little / without - 1.0).abs() < 1e-4, "{little} {without}");
        // I/O and as many CPUs as threads: the repairman with a longer delay.
        let l = load(4, 4.0, 2.0, 1.0);
        let x = throughput(&l, 4).unwrap();
        let want = super::super::with_cpus_for_all(&l);
        assert!((x / want - 1.0).abs() < 1e-6, "{x} {want}");
    }

    #[test]
    fn ctmc_grows_with_cpus() {
        for n in [2, 5, 12] {
            let mut last = 0.0;
            for p in 1..=n {
                let x = throughput(&load(n, 6.0, 1.0, 1.0), p).unwrap();
                assert!(x >= last - 1e-9, "{n} threads, {p} CPUs");
                last = x;
            }
        }
    }
}
