//! Spin locks: the machine-repairman model.
//!
//! Source: the machine interference problem (C. Palm, 1943), applied to locks. As many threads as CPUs: computing is a delay, since
//! every thread has its CPU, also while it spins; each lock is a repairman. Exact for exponential times and one lock in
//! order of arrival; measured against simulation within 1.7 % for constant holds (docs/design/predict.md). Threads
//! beyond the CPUs make a spinner hold up the holder: not in this model.
use super::{Load, mva};

/// Rounds per unit of time of the threads on at least as many CPUs.
pub fn throughput(load: &Load) -> f64 {
    mva::throughput(&network(load), load.n_threads)
}

/// Share of the threads' time spent waiting for locks.
pub fn wait_ratio(load: &Load) -> f64 {
    let answer = mva::within(&network(load), load.n_threads, 4_000_000);
    let waiting: f64 = answer.response.iter().sum::<f64>() - load.hold();
    waiting.max(0.0) * answer.throughput / load.n_threads as f64
}

fn network(load: &Load) -> mva::Network {
    mva::Network {
        delay: load.compute + load.delay,
        stations: load
            .holds
            .iter()
            .map(|&h| mva::Station::new(h, 1))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repairman_two_threads() {
        // Two threads, one lock: X = 2 / (u + h + h^2/(u + h)); waits h^2/(u + h) of each round.
        let load = Load {
            n_threads: 2,
            compute: 3.0,
            delay: 0.0,
            holds: vec![1.0],
        };
        let round = 4.0 + 1.0 / 4.0;
        assert!((throughput(&load) - 2.0 / round).abs() < 1e-12);
        assert!((wait_ratio(&load) - 0.25 / round).abs() < 1e-12);
    }
}
