//! Costs of parallel work on this machine: measured in passes of [`crate::machine`], and cached in a file.
//!
//! A recording carries them, so that predictions from it are the same at each read. They are measured before it begins and
//! remembered, as those of events are ([`crate::costs`]): at its end they would cost a short program a tenth of a second, and one
//! pass there, beside whatever runs then, is further from the next than several at different times are.
use crate::costs::{is_old, machine, now};
use crate::stats::median;
use kasuri_base::parallel::ParallelCosts;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Passes that are remembered. They span what the machine is like: a virtual CPU wakes up differently from one minute to the next.
const PASSES: usize = 9;
/// Of the first ones, none begins after this time: the user waits.
const PATIENCE: Duration = Duration::from_secs(2);
/// The file of measurements; for its directory see `cache`.
const FILE: &str = "parallel-costs.json";

/// All measurements of one machine.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Passes {
    /// [`machine`], when they were made.
    machine: [String; 3],
    /// Costs by name, the oldest first.
    passes: Vec<BTreeMap<String, f64>>,
    /// When the last was made, seconds since 1970.
    at: u64,
}

/// Those for a recording that begins now: a tenth of a second passes before it, for one more pass, if the last was long ago. `None`: this
/// process may use one CPU only, and nothing is remembered.
pub fn for_recording() -> Option<ParallelCosts> {
    Passes::load().learnt(1, is_old)
}

/// Those for a recording of this machine that has none: what is remembered, so that the next reader has the same. Where nothing is yet,
/// all passes are made.
pub fn for_reading() -> Option<ParallelCosts> {
    Passes::load().learnt(PASSES, |_| false)
}

impl Passes {
    fn load() -> Passes {
        let known = crate::cache::read_all(FILE).into_iter();
        known
            .filter_map(|text| serde_json::from_slice::<Passes>(&text).ok())
            .filter(|known| known.machine == machine())
            .map(Passes::whole)
            .max_by_key(|known| known.at)
            .unwrap_or_else(|| Passes { machine: machine(), ..Passes::default() })
    }

    /// Without passes of another version, or of whoever wrote the file, that lack a cost or have an impossible one: of them alone
    /// nothing could be told, and nothing would be measured either. And without more than are ever remembered.
    fn whole(mut self) -> Passes {
        let is_whole = |pass: &BTreeMap<String, f64>| {
            ParallelCosts::from_named(|name| pass.get(name).copied()).is_some()
        };
        self.passes.retain(is_whole);
        self.forget_oldest();
        self
    }

    /// The costs, with one more pass when `is_due`, or the `first` ones when there are none.
    fn learnt(mut self, first: usize, is_due: impl Fn(u64) -> bool) -> Option<ParallelCosts> {
        let wanted = match self.passes.len() {
            0 => first,
            _ => usize::from(is_due(self.at)),
        };
        let start = Instant::now();
        for pass in 0..wanted {
            if pass > 0 && start.elapsed() > PATIENCE {
                break;
            }
            let Some(costs) = crate::machine::measure() else {
                break;
            };
            self.add(&costs, now());
        }
        if wanted > 0 && !self.passes.is_empty() {
            // What cannot be remembered is measured anew.
            let _ = serde_json::to_vec(&self).is_ok_and(|text| crate::cache::write(FILE, &text));
        }
        self.costs()
    }

    fn add(&mut self, costs: &ParallelCosts, now: u64) {
        self.passes
            .push(costs.named().into_iter().map(|(name, ns)| (name.to_owned(), ns)).collect());
        self.forget_oldest();
        self.at = now;
    }

    fn forget_oldest(&mut self) {
        self.passes.drain(..self.passes.len().saturating_sub(PASSES));
    }

    /// The middle of the passes: other programs make some costs dearer, and waking cheaper, as they keep CPUs from sleeping.
    fn costs(&self) -> Option<ParallelCosts> {
        ParallelCosts::from_named(|name| {
            let values = self.passes.iter().filter_map(|pass| pass.get(name).copied());
            median(&values.collect::<Vec<f64>>()).map(|middle| middle.median)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flat(ns: f64) -> ParallelCosts {
        let of = |name: &str| Some(if name == "slowdown" { 1.0 } else { ns });
        ParallelCosts::from_named(of).expect("costs that a machine can have")
    }

    #[test]
    fn the_middle_of_the_latest_passes_counts() {
        let mut passes = Passes::default();
        assert_eq!(passes.costs(), None);
        passes.add(&flat(5.0), 1);
        assert_eq!(passes.costs(), Some(flat(5.0)));
        // One that others made dear, and one that came out too cheap, change nothing.
        for ns in [4.0, 8040.0, 0.1, 4.0] {
            passes.add(&flat(ns), 2);
        }
        assert_eq!(passes.costs(), Some(flat(4.0)));
        // The oldest are forgotten.
        (0..PASSES).for_each(|_| passes.add(&flat(9.0), 3));
        assert_eq!((passes.costs(), passes.passes.len(), passes.at), (Some(flat(9.0)), PASSES, 3));
    }

    #[test]
    fn passes_that_lack_a_cost_are_none() {
        let mut passes = Passes::default();
        passes.add(&flat(3.0), 1);
        passes.passes.push([("transfer_ns".to_owned(), 5.0)].into());
        passes
            .passes
            .push(flat(1.0).named().iter().map(|(name, _)| ((*name).to_owned(), -1.0)).collect());
        let mut passes = passes.whole();
        assert_eq!((passes.costs(), passes.passes.len()), (Some(flat(3.0)), 1));
        // Nor do more count than are remembered.
        (0..2 * PASSES).for_each(|_| passes.passes.insert(0, passes.passes[0].clone()));
        assert_eq!(passes.whole().passes.len(), PASSES);
    }

    #[test]
    fn what_is_known_is_not_measured_again() {
        let mut passes = Passes::default();
        passes.add(&flat(3.0), now());
        assert_eq!(passes.clone().learnt(1, is_old), Some(flat(3.0)));
        passes.at = 0;
        assert_eq!(passes.learnt(1, |_| false), Some(flat(3.0)));
    }
}
