//! The distribution of waits for a CPU, in buckets that are an eighth of their value wide or less.
//!
//! 8 buckets to each doubling: a percentile is at most 1/8 above the wait that it stands for. Up to 2^44 ns, nearly five hours; what
//! is longer counts as that.

/// Buckets to each doubling, as a power of two.
const SUB_BITS: u32 = 3;
const SUB: usize = 1 << SUB_BITS;
const DOUBLINGS: usize = 42;

/// Counts of waits by length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// Empty: no wait yet.
    counts: Vec<u32>,
}

impl Latencies {
    /// Adds a wait.
    pub fn add(&mut self, ns: u64) {
        if self.counts.is_empty() {
            self.counts = vec![0; SUB * DOUBLINGS];
        }
        let last = self.counts.len() - 1;
        self.counts[bucket(ns).min(last)] += 1;
    }

    /// Adds those of another distribution.
    pub fn merge(&mut self, other: &Latencies) {
        if other.counts.is_empty() {
            return;
        }
        if self.counts.is_empty() {
            self.counts = other.counts.clone();
            return;
        }
        for (to, from) in self.counts.iter_mut().zip(&other.counts) {
            *to += from;
        }
    }

    /// The number of waits.
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|&n| u64::from(n)).sum()
    }

    /// A length that `share` (0..1) of the waits do not exceed, ns: the end of its bucket. `None`: there were no waits.
    pub fn percentile(&self, share: f64) -> Option<u64> {
        let all = self.count();
        let rank = ((all as f64 * share).ceil() as u64).clamp(1, all.max(1));
        let mut seen = 0;
        let of = self.counts.iter().position(|&n| {
            seen += u64::from(n);
            seen >= rank
        });
        of.map(end)
    }
}

/// The bucket of a wait: its leading bit and the three after it.
fn bucket(ns: u64) -> usize {
    let n = ns.max(1);
    let log = 63 - n.leading_zeros();
    if log < SUB_BITS {
        return n as usize;
    }
    let sub = (n >> (log - SUB_BITS)) as usize & (SUB - 1);
    ((log - SUB_BITS + 1) as usize) * SUB + sub
}

/// The last length of a bucket.
fn end(bucket: usize) -> u64 {
    let (row, sub) = (bucket / SUB, (bucket % SUB) as u64);
    if row == 0 {
        return sub;
    }
    ((SUB as u64 + sub + 1) << (row - 1)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_what_ends_at_its_end_and_is_an_eighth_wide() {
        for ns in (1..2000).chain([1 << 20, (1 << 20) + 1, 999_999_999, 1 << 43]) {
            let end = end(bucket(ns));
            assert!(end >= ns && end - ns <= ns / 8, "{ns}: {end}");
            assert!(ns == 1 || super::end(bucket(ns) - 1) < ns, "{ns}");
        }
    }

    #[test]
    fn percentiles_are_those_of_the_sorted_waits() {
        let mut waits = Latencies::default();
        assert_eq!(waits.percentile(0.5), None);
        (1..=1000).for_each(|n| waits.add(n * 1000));
        assert_eq!(waits.count(), 1000);
        for (share, exact) in [(0.5, 500_000), (0.99, 990_000), (1.0, 1_000_000)] {
            let found = waits.percentile(share).unwrap();
            assert!(found >= exact && found <= exact + exact / 8, "{share}: {found}");
        }
        let mut twice = waits.clone();
        twice.merge(&waits);
        assert_eq!(twice.percentile(0.5), waits.percentile(0.5));
        waits.add(u64::MAX);
        assert!(waits.percentile(1.0) > Some(1 << 43));
    }
}
