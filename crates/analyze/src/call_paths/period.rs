//! The CPU time from one on-CPU sample to the next, as a function of time.
//!
//! The recorder says which period it asked for. Where it does not (another tool's trace), the median distance between a
//! thread's samples takes its place.
use kasuri_model::{Time, Trace};
use std::collections::{BTreeMap, BTreeSet};

/// Where neither the recorder nor two samples tell: 100 samples a second.
const UNKNOWN_NS: i64 = 10_000_000;

/// A step function.
#[derive(Clone, Debug, Default)]
pub(super) struct Periods {
    /// From then on, so many ns; by time.
    steps: Vec<(Time, i64)>,
    /// Where no step says anything.
    otherwise: i64,
}

impl Periods {
    /// `distances`: ns of CPU time between neighbouring samples of a thread; asked for where the recorder does not say.
    pub fn new(trace: &Trace, distances: impl FnOnce() -> Vec<i64>) -> Periods {
        let mut on: BTreeMap<(&str, Option<u16>), i64> = BTreeMap::new();
        let mut by_period = BTreeSet::new();
        let mut steps: Vec<(Time, i64)> = Vec::new();
        for row in &trace.sampling {
            if !matches!(row.source.as_str(), "tick" | "cpu-clock") {
                continue;
            }
            let key = (row.source.as_str(), row.cpu);
            let asked = i64::try_from(row.period_ns).ok().filter(|&ns| row.on && ns > 0);
            if asked.is_some() || !row.on {
                if let Some(before) = on.remove(&key) {
                    by_period.remove(&(before, key));
                }
                if let Some(ns) = asked {
                    on.insert(key, ns);
                    by_period.insert((ns, key));
                }
            }
            // Sources are on together: the denser decides how far an instant may be from a sample.
            if let Some(&(ns, _)) = by_period.first() {
                steps.push((row.time, ns));
            }
        }
        let mut distances = match steps.is_empty() {
            true => distances(),
            false => Vec::new(),
        };
        let otherwise = match distances.len() {
            0 => UNKNOWN_NS,
            n => *distances.select_nth_unstable(n / 2).1,
        };
        Periods { steps, otherwise }
    }

    /// ns at this time; before the first step what that says.
    pub fn at(&self, time: Time) -> i64 {
        let begun = self.steps.partition_point(|&(since, _)| since <= time);
        let step = self.steps.get(begun.saturating_sub(1));
        step.map_or(self.otherwise, |&(_, ns)| ns)
    }
}
