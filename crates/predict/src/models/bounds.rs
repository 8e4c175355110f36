//! The speed-up that no schedule can beat.
//!
//! Source: asymptotic bounds, P. Denning and J. Buzen, Computing Surveys 1978. They need no assumption about
//! distributions or order of service.
use super::Load;

/// Upper bound of the speed-up of a load on `n_cpus`: all threads at work, all CPUs busy, or the busiest lock never free.
pub fn speedup(load: &Load, n_cpus: usize) -> f64 {
    let n = load.n_threads.max(1) as f64;
    let best = (n / (load.delay + load.cpu()))
        .min(n_cpus as f64 / load.cpu())
        .min(1.0 / load.worst_hold());
    best / load.one_cpu_rate()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::with_cpus_for_all;
    use kasuri_base::random::Rng;

    #[test]
    fn no_load_is_faster_than_its_bound_and_some_reach_it() {
        let seed = 20_240_717;
        let mut rng = Rng::new(seed);
        let mut nearest = 0.0_f64;
        for case in 0..10_000 {
            let load = Load {
                n_threads: 1 + rng.below(24),
                compute: rng.exponential(5.0),
                delay: if rng.uniform() < 0.3 { 0.0 } else { rng.exponential(5.0) },
                holds: (0..1 + rng.below(5))
                    .map(|_| 10f64.powf(rng.uniform() * 3.0 - 2.0))
                    .collect(),
            };
            let real = with_cpus_for_all(&load) / load.one_cpu_rate();
            let bound = speedup(&load, load.n_threads);
            assert!(
                real <= bound * (1.0 + 1e-9),
                "seed {seed} case {case}: {load:?} {real} {bound}"
            );
            nearest = nearest.max(real / bound);
        }
        // A bound that is never reached would hold as well.
        assert!(nearest > 0.999, "{nearest}");
    }
}
