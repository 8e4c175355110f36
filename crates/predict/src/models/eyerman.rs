//! Amdahl's law with critical sections that collide by chance.
//!
//! Source: S. Eyerman and L. Eeckhout, "Modeling critical sections in Amdahl's law", ISCA 2010. A section is serial only
//! when another thread is inside one (chance `p_inside`) and that is the same lock (chance `p_same`); the slowest
//! thread may wait for all of the others' sections, hence the maximum of two terms. Assumes that sections come at random
//! moments, that waiting costs nothing else, and as many threads as CPUs. Valid for short sections and few CPUs.

/// Speed-up on `n_cpus`. `holds`: time inside each lock as a share of the one-CPU time; `serial`: the share that is
/// serial anyway.
pub fn speedup(serial: f64, holds: &[f64], n_cpus: usize) -> f64 {
    let n = n_cpus.max(1) as f64;
    let inside: f64 = holds.iter().sum();
    if n == 1.0 {
        return 1.0;
    }
    let outside = (1.0 - serial - inside).max(0.0);
    if inside <= 0.0 {
        return 1.0 / (serial + outside / n);
    }
    let p_inside = inside / (inside + outside);
    let p_same: f64 = holds.iter().map(|h| (h / inside) * (h / inside)).sum();
    let average = inside * p_inside * p_same + (inside * (1.0 - p_inside * p_same) + outside) / n;
    let slowest = inside * p_same + (inside * (1.0 - p_same) + outside) / (2.0 * n);
    1.0 / (serial + average.max(slowest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::amdahl;

    #[test]
    fn eyerman_ends_are_amdahls() {
        // No sections: Amdahl's law. Nothing but one lock: no speed-up.
        assert!((speedup(0.2, &[], 4) - amdahl::speedup(0.2, 4)).abs() < 1e-12);
        assert!((speedup(0.0, &[1.0], 4) - 1.0).abs() < 1e-12);
        // One lock, 20 %, 4 CPUs: average 0.2*0.2 + (0.2*0.8 + 0.8)/4 = 0.28; slowest 0.2 + 0.8/8 = 0.3.
        assert!((speedup(0.0, &[0.2], 4) - 1.0 / 0.3).abs() < 1e-12);
    }

    #[test]
    fn eyerman_more_locks_never_hurt() {
        for n in [2, 4, 16] {
            let one = speedup(0.05, &[0.4], n);
            let four = speedup(0.05, &[0.1; 4], n);
            assert!(four >= one && one >= amdahl::speedup(0.45, n) - 1e-12);
        }
    }
}
