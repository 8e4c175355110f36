//! Amdahl's law: a part of the work is serial, the rest splits evenly.
//!
//! Source: G. Amdahl, AFIPS 1967. Assumes that the serial part never overlaps anything. With the lock ratio as the
//! serial part it errs both ways: too low while few threads meet at the lock (two threads do not always collide), too
//! high when waking a waiter costs something. Valid as a bound only for parts that are serial whatever happens.

/// Speed-up on `n_cpus` when `serial` (0..1) of the one-CPU time cannot be split.
pub fn speedup(serial: f64, n_cpus: usize) -> f64 {
    1.0 / (serial + (1.0 - serial) / n_cpus.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amdahl_known_values() {
        assert_eq!(speedup(0.0, 8), 8.0);
        assert_eq!(speedup(1.0, 8), 1.0);
        // 1 / (0.1 + 0.9 / 9) = 5.
        assert!((speedup(0.1, 9) - 5.0).abs() < 1e-12);
    }
}
