//! Bounds that no schedule can beat, and that any fair schedule reaches.
//!
//! Sources: asymptotic bounds, P. Denning and J. Buzen, Computing Surveys 1978; balanced-job bounds, J. Zahorjan et al., CACM
//! 1982. The asymptotic upper bound needs no assumption about distributions or order of service. The lower ones assume
//! that no CPU idles while work waits and that waiting costs nothing: a mutex whose hand-over costs time can fall below.
use super::{Load, mva::Network};

/// Lower and upper bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// Not less than this.
    pub low: f64,
    /// Not more than this.
    pub high: f64,
}

/// Asymptotic bounds of the throughput of `n` customers.
pub fn asymptotic(network: &Network, n: usize) -> Bounds {
    let total: f64 = network.stations.iter().map(|s| s.demand).sum();
    let bottleneck = network
        .stations
        .iter()
        .map(|s| s.demand / s.n_servers as f64)
        .fold(0.0, f64::max);
    let n = n as f64;
    Bounds {
        low: n / (network.delay + n * total),
        high: (n / (network.delay + total)).min(1.0 / bottleneck),
    }
}

/// Balanced-job bounds of the throughput; single servers only (`None` otherwise).
pub fn balanced_job(network: &Network, n: usize) -> Option<Bounds> {
    if network.stations.is_empty() || network.stations.iter().any(|s| s.n_servers != 1) {
        return None;
    }
    let total: f64 = network.stations.iter().map(|s| s.demand).sum();
    if total <= 0.0 {
        return None;
    }
    let worst = network
        .stations
        .iter()
        .map(|s| s.demand)
        .fold(0.0, f64::max);
    let average = total / network.stations.len() as f64;
    let (n, z) = (n as f64, network.delay);
    Some(Bounds {
        low: n / (total + z + (n - 1.0) * worst / (1.0 + z / (n * total))),
        high: (1.0 / worst).min(n / (total + z + (n - 1.0) * average / (1.0 + z / total))),
    })
}

/// Bounds of the speed-up of a load on `n_cpus`. The upper one holds for every order of service; the lower one is a
/// work-conserving machine with free hand-over that runs one thread at a time.
pub fn speedup(load: &Load, n_cpus: usize) -> Bounds {
    let n = load.n_threads.max(1) as f64;
    let one = load.one_cpu_rate();
    let best = (n / (load.delay + load.cpu()))
        .min(n_cpus as f64 / load.cpu())
        .min(1.0 / load.worst_hold());
    Bounds {
        low: 1.0_f64.min(best / one),
        high: best / one,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::mva::{Station, throughput};
    use kasuri_base::random::Rng;

    #[test]
    fn bounds_hold_in_ten_thousand_random_networks() {
        let seed = 20_240_717;
        let mut rng = Rng::new(seed);
        for case in 0..10_000 {
            let single = case % 2 == 0;
            let stations = (0..1 + rng.below(5))
                .map(|_| {
                    let servers = if single { 1 } else { 1 + rng.below(16) };
                    Station::new(10f64.powf(rng.uniform() * 3.0 - 2.0), servers)
                })
                .collect();
            let delay = if rng.uniform() < 0.3 {
                0.0
            } else {
                rng.exponential(5.0)
            };
            let net = Network { delay, stations };
            let n = 1 + rng.below(24);
            let x = throughput(&net, n);
            let near = 1e-9 * x;
            let a = asymptotic(&net, n);
            assert!(
                a.low <= x + near && x <= a.high + near,
                "seed {seed} case {case}: {a:?} {x}"
            );
            if let Some(b) = balanced_job(&net, n) {
                assert!(
                    b.low <= x + near && x <= b.high + near,
                    "seed {seed} case {case}: {b:?} {x}"
                );
                assert!(
                    b.low >= a.low - near && b.high <= a.high + near,
                    "tighter: {case}"
                );
            }
        }
    }

    #[test]
    fn bounds_bite() {
        // Negative control: a throughput 1 % above a saturated station's is outside.
        let net = Network {
            delay: 0.0,
            stations: vec![Station::new(1.0, 1)],
        };
        assert!(throughput(&net, 50) * 1.01 > asymptotic(&net, 50).high);
    }
}
