//! Two CPUs and one big lock: critical sections that run slower when their data moves between CPUs.
//!
//! The round of one of two threads on two CPUs, after A. Kaieda et al., "Classification of Parallel Programs by Analyzing
//! Lock Ratios", whose measurements it reproduces: with u the time outside and d inside the lock on one CPU,
//!
//! ```text
//! round = g u + f d + (f d)^2 / (g u + f d)
//! ```
//!
//! g: how much slower code outside runs on two CPUs (memory), f: how much slower code inside does. The last term is the
//! exact wait of the machine repairman with two machines. f belongs to the program (how much shared data its critical
//! sections touch): it must be measured or bounded, one value for all programs misses by 9 % on average.

/// The model's result for a program with u + d = 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TwoCpus {
    /// Speed-up on two CPUs.
    pub speedup: f64,
    /// Share of the time spent waiting for the lock.
    pub wait_ratio: f64,
}

/// A program that is inside the lock for `ratio` of its one-CPU time.
pub fn two_cpus(ratio: f64, g: f64, f: f64) -> TwoCpus {
    let (outside, inside) = (g * (1.0 - ratio), f * ratio);
    let alone = outside + inside;
    let wait = inside * inside / alone;
    TwoCpus {
        speedup: 2.0 / (alone + wait),
        wait_ratio: wait / (alone + wait),
    }
}

/// The f at which the model gives this speed-up; at least 1/4, at most 100.
pub fn from_speedup(ratio: f64, g: f64, speedup: f64) -> f64 {
    solve(|f| speedup - two_cpus(ratio, g, f).speedup)
}

/// The f at which the model gives this wait ratio.
pub fn from_wait_ratio(ratio: f64, g: f64, wait_ratio: f64) -> f64 {
    solve(|f| two_cpus(ratio, g, f).wait_ratio - wait_ratio)
}

/// Root of a function that grows with f.
fn solve(error: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (0.25_f64, 100.0_f64);
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if error(middle) < 0.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

/// One row of the source's table: two CPUs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Published {
    /// The program.
    pub name: &'static str,
    /// Time inside critical sections / execution time, on one CPU.
    pub lock_ratio: f64,
    /// Speed-up on two CPUs.
    pub speedup: f64,
    /// Time waiting for critical sections / execution time, on two CPUs.
    pub wait_ratio: f64,
}

/// The source's table.
pub const PUBLISHED: [Published; 4] = [
    Published {
        name: "matrix product",
        lock_ratio: 0.001,
        speedup: 1.95,
        wait_ratio: 0.001,
    },
    Published {
        name: "parallel make",
        lock_ratio: 0.0511,
        speedup: 1.82,
        wait_ratio: 0.0161,
    },
    Published {
        name: "web server, 15 KB",
        lock_ratio: 0.281,
        speedup: 0.97,
        wait_ratio: 0.226,
    },
    Published {
        name: "web server, 150 KB",
        lock_ratio: 0.517,
        speedup: 0.91,
        wait_ratio: 0.304,
    },
];

/// Code outside the lock on the source's machine: what its matrix product, which has next to no critical section, loses.
pub const PUBLISHED_G: f64 = 2.0 / 1.95;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inflation_round_by_hand() {
        // u = 0.75, d = 0.25, no inflation: round 1 + 0.0625.
        let two = two_cpus(0.25, 1.0, 1.0);
        assert!((two.speedup - 2.0 / 1.0625).abs() < 1e-12);
        assert!((two.wait_ratio - 0.0625 / 1.0625).abs() < 1e-12);
    }

    #[test]
    fn inflation_fits_are_inverse() {
        for ratio in [0.01, 0.2, 0.6] {
            for f in [0.8, 1.0, 2.5] {
                let two = two_cpus(ratio, 1.02, f);
                assert!((from_speedup(ratio, 1.02, two.speedup) - f).abs() < 1e-9);
                assert!((from_wait_ratio(ratio, 1.02, two.wait_ratio) - f).abs() < 1e-9);
            }
        }
    }

    /// The golden table: from the lock ratio and the speed-up the wait ratio, and the other way round.
    #[test]
    fn inflation_reproduces_the_published_table() {
        for row in PUBLISHED {
            let f = from_speedup(row.lock_ratio, PUBLISHED_G, row.speedup);
            let two = two_cpus(row.lock_ratio, PUBLISHED_G, f);
            let points = 100.0 * (two.wait_ratio - row.wait_ratio);
            assert!(
                points.abs() <= 1.0,
                "{}: wait ratio off by {points:.2} points",
                row.name
            );
            assert!(
                (two.speedup / row.speedup - 1.0).abs() < 0.01,
                "{}",
                row.name
            );
            let f = from_wait_ratio(row.lock_ratio, PUBLISHED_G, row.wait_ratio);
            let two = two_cpus(row.lock_ratio, PUBLISHED_G, f);
            let error = two.speedup / row.speedup - 1.0;
            assert!(
                error.abs() <= 0.05,
                "{}: speed-up off by {:.1} %",
                row.name,
                100.0 * error
            );
        }
        // Negative control: without inflation the web server's speed-up is missed by far.
        let naive = two_cpus(0.281, PUBLISHED_G, 1.0);
        assert!(naive.speedup / 0.97 > 1.5);
    }
}
