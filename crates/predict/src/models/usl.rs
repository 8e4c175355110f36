//! The universal scalability law, fitted to measured speed-ups.
//!
//! Source: N. Gunther, "A simple capacity model of massively parallel transaction systems", CMG 1993. A curve with two parameters,
//! contention and coherence, not a model of the program: good between the measured CPU counts, 20 % off when
//! extrapolated from 1..4 to 16 CPUs (docs/design/predict.md). Shown when at least two runs besides one CPU are given.

/// `n / (1 + contention (n - 1) + coherence n (n - 1))`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Usl {
    /// Share that is serial.
    pub contention: f64,
    /// Cost of keeping the CPUs consistent.
    pub coherence: f64,
}

impl Usl {
    /// Speed-up on `n` CPUs.
    pub fn speedup(&self, n: usize) -> f64 {
        let n = n as f64;
        n / (1.0 + self.contention * (n - 1.0) + self.coherence * n * (n - 1.0))
    }

    /// Least squares of n/S - 1 over (n - 1) and n (n - 1), neither parameter negative; `None` with fewer than two points
    /// besides n = 1.
    pub fn fit(points: &[(usize, f64)]) -> Option<Usl> {
        let rows: Vec<(f64, f64, f64)> = points
            .iter()
            .filter(|&&(n, s)| n > 1 && s > 0.0)
            .map(|&(n, s)| {
                let n = n as f64;
                (n - 1.0, n * (n - 1.0), n / s - 1.0)
            })
            .collect();
        if rows.len() < 2 {
            return None;
        }
        let sum = |f: fn(&(f64, f64, f64)) -> f64| rows.iter().map(f).sum::<f64>();
        let (aa, ab, bb) = (sum(|r| r.0 * r.0), sum(|r| r.0 * r.1), sum(|r| r.1 * r.1));
        let (ay, by) = (sum(|r| r.0 * r.2), sum(|r| r.1 * r.2));
        let det = aa * bb - ab * ab;
        let (mut a, mut b) = if det > 1e-12 * aa * bb {
            ((ay * bb - by * ab) / det, (by * aa - ay * ab) / det)
        } else {
            (ay / aa, 0.0)
        };
        if b < 0.0 {
            (a, b) = (ay / aa, 0.0);
        }
        if a < 0.0 {
            (a, b) = (0.0, (by / bb).max(0.0));
        }
        Some(Usl {
            contention: a,
            coherence: b,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usl_finds_its_own_parameters() {
        let truth = Usl {
            contention: 0.03,
            coherence: 0.0007,
        };
        let points: Vec<_> = [1, 2, 4, 8, 16].map(|n| (n, truth.speedup(n))).into();
        let found = Usl::fit(&points).unwrap();
        assert!((found.contention - 0.03).abs() < 1e-9 && (found.coherence - 0.0007).abs() < 1e-9);
    }

    #[test]
    fn usl_without_coherence_is_amdahl() {
        let points: Vec<_> = [2, 4, 8]
            .map(|n| (n, crate::models::amdahl::speedup(0.1, n)))
            .into();
        let found = Usl::fit(&points).unwrap();
        assert!((found.speedup(64) / crate::models::amdahl::speedup(0.1, 64) - 1.0).abs() < 1e-6);
        assert_eq!(Usl::fit(&points[..1]), None);
    }
}
