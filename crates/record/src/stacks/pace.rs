//! How many stacks are followed, and how well: so that the recorder takes no more than its share of
//! a CPU, and copies enough.
use crate::clock;
use kasuri_format::call_paths::PathEnd;
use kasuri_format::meta::SamplingRow;

/// Share of one CPU that following stacks may take; more, and only some are followed.
const SHARE_MAX: f64 = 0.2;
/// Time over which that is judged, ns.
const JUDGE_NS: u64 = 250_000_000;
/// Copies of stacks after which all before count half.
const JUDGED_MAX: u64 = 1024;

/// Follows one stack in `every`, so that the recorder takes no more than its share of a CPU.
#[derive(Debug)]
pub(super) struct Pace {
    every: u64,
    count: u64,
    began_ns: u64,
    since_ns: u64,
    used_ns: u64,
}

impl Pace {
    /// All are followed.
    pub(super) fn new() -> Pace {
        Pace { every: 1, count: 0, began_ns: 0, since_ns: clock::monotonic_ns(), used_ns: 0 }
    }

    /// Samples are taken out of the rings, and followed, from here...
    pub(super) fn begin(&mut self) {
        self.began_ns = clock::thread_cpu_ns();
    }

    /// ...to here. What changes, if anything does.
    pub(super) fn end(&mut self, now: u64) -> Option<SamplingRow> {
        self.used_ns += clock::thread_cpu_ns().saturating_sub(self.began_ns);
        let passed = now.saturating_sub(self.since_ns);
        if passed < JUDGE_NS {
            return None;
        }
        let share = self.used_ns as f64 / passed as f64;
        (self.since_ns, self.used_ns) = (now, 0);
        self.judge(share)
    }

    /// Follows fewer stacks where this takes more than `SHARE_MAX` of a CPU, and more again below a
    /// quarter of that; the distance between the two keeps the pace from changing to and fro.
    fn judge(&mut self, share: f64) -> Option<SamplingRow> {
        let before = self.every;
        if share > SHARE_MAX {
            self.every = (before * 2).min(1024);
        } else if share < SHARE_MAX / 4.0 {
            self.every = (before / 2).max(1);
        }
        let every = self.every;
        (every != before).then(|| SamplingRow {
            source: "follow".to_owned(),
            on: true,
            reason: format!(
                "following stacks took {:.0} % of a CPU: 1 of {every} is followed from now on",
                share * 100.0
            ),
            ..SamplingRow::default()
        })
    }

    /// One more sample: whether it is followed.
    pub(super) fn is_followed(&mut self) -> bool {
        self.count += 1;
        self.count.is_multiple_of(self.every)
    }

    /// Samples that there were.
    pub(super) fn sampled(&self) -> u64 {
        self.count
    }
}

/// Copies of stacks, older ones counted less, and those among them that were too short.
#[derive(Debug, Default)]
pub(super) struct Copies {
    judged: u64,
    cut: u64,
}

impl Copies {
    /// One was followed to this end.
    pub(super) fn add(&mut self, end: PathEnd) {
        self.judged += 1;
        self.cut += u64::from(end == PathEnd::StackCut);
        if self.judged == JUDGED_MAX {
            (self.judged, self.cut) = (self.judged / 2, self.cut / 2);
        }
    }

    /// Those since [`Copies::forget`], and of them those that were too short.
    pub(super) fn judged(&self) -> (u64, u64) {
        (self.judged, self.cut)
    }

    /// Copies have another length from now on.
    pub(super) fn forget(&mut self) {
        *self = Copies::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_are_followed_above_the_share_and_more_again_well_below_it() {
        let mut pace = Pace::new();
        let mut every = |share: f64| {
            let is_said = pace.judge(share).is_some();
            let followed = (0..64).filter(|_| pace.is_followed()).count();
            (is_said, followed)
        };
        assert_eq!(every(0.3), (true, 32));
        assert_eq!(every(0.21), (true, 16));
        assert_eq!(every(0.1), (false, 16), "between a quarter of the share and all of it");
        assert_eq!(every(0.04), (true, 32));
        assert_eq!(every(0.0), (true, 64));
        assert_eq!(every(0.0), (false, 64));
    }
}
