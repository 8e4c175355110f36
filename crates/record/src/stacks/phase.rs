//! Clocks that no program is in step with for long.
//!
//! A timer of a fixed period meets a program that repeats itself always at the same places, where one period is a simple multiple of
//! the other: then some functions have all samples, and others none. So the clock of each CPU has a period drawn by chance, and
//! another one after some tens of samples. As the periods lie between a half and one and a half times their mean, the samples of a
//! program of any period scatter about as much as if each was taken at a time of its own (docs/design/call-paths.md).
use super::events;
use super::plan::Plan;
use super::ring::PerCpu;
use crate::clock;
use crate::kernel::perf::Reach;
use kasuri_base::random::Rng;

/// The first samples are this far apart, ns, also where they cost more than they may later: a program that runs for a second
/// needs them, and one that runs for long can spare them.
const FIRST_NS: u64 = 1_000_000;
/// How many these are, and when at the latest they end.
const FIRST_SAMPLES: u64 = 500;
const FIRST_UNTIL_NS: u64 = 10_000_000_000;
/// Mean time for which a clock has one period: so many ns, and so many times the period, at least.
const LEAST_NS: u64 = 30_000_000;
const LEAST_PERIODS: u64 = 10;
/// Another period costs an interrupt of the clock's CPU. Of one CPU, changing all clocks takes one part in so many at most.
const SHARE: u64 = 200;
/// Samples that wake the recorder are at least so many times as far apart as one of them costs it.
/// A mean that would change by less than one part in so many stays.
const PRICE_TIMES: u64 = 100;
/// But no farther: shares of a program of some seconds would not be certain any more.
const PRICE_LONGEST_NS: u64 = 10_007_003;
const NEAR: u64 = 4;

/// The periods of the clocks.
#[derive(Debug)]
pub(super) struct Phases {
    /// The mean of the periods, ns.
    pub(super) mean_ns: u64,
    later_ns: u64,
    /// `None`: one period for good. A clock that counts the CPU time of a thread begins anew with each change, and would never be
    /// through with a thread that seldom runs.
    chance: Option<Rng>,
    began_ns: u64,
    /// When to change them.
    next_ns: u64,
}

impl Phases {
    pub(super) fn new(plan: &Plan, now: u64) -> Phases {
        let (mean_ns, chance) = match plan.reach {
            Reach::System => (plan.period_ns.min(FIRST_NS), Some(Rng::new(now))),
            Reach::Own => (plan.period_ns, None),
        };
        Phases { mean_ns, later_ns: plan.period_ns, chance, began_ns: now, next_ns: 0 }
    }

    /// The period for a clock.
    pub(super) fn period_ns(&mut self) -> u64 {
        let chance = self.chance.as_mut();
        chance.map_or(self.mean_ns, |chance| near(self.mean_ns, chance))
    }

    /// Gives each clock another period, if it is time to. `taken`: samples of the program so far;
    /// `price_ns`: what each of them costs the recorder, as far as they wake it. Whether their mean
    /// is another one from now on.
    pub(super) fn change(&mut self, cpus: &[PerCpu], taken: u64, price_ns: u64, now: u64) -> bool {
        let Some(chance) = self.chance.as_mut().filter(|_| now >= self.next_ns) else {
            return false;
        };
        let is_first = taken < FIRST_SAMPLES && now < self.began_ns + FIRST_UNTIL_NS;
        let before = self.mean_ns;
        if !is_first {
            self.mean_ns = mean(self.mean_ns, self.later_ns, price_ns);
        }
        let cost_began = clock::thread_cpu_ns();
        for event in cpus.iter().flat_map(|per_cpu| &per_cpu.samples) {
            // It cannot fail: a CPU that went offline keeps its event, which is at rest.
            let _ = events::set_period(event, near(self.mean_ns, chance));
        }
        let cost = clock::thread_cpu_ns().saturating_sub(cost_began);
        let least = LEAST_NS.max(LEAST_PERIODS * self.mean_ns);
        // Not at regular times: the time right after a change has fewer samples.
        self.next_ns = now + near(least.max(cost * SHARE), chance);
        self.mean_ns != before
    }
}

/// The mean that follows on `before`, at least `least_ns`, where a sample costs `price_ns`.
fn mean(before: u64, least_ns: u64, price_ns: u64) -> u64 {
    let wanted = price_ns.saturating_mul(PRICE_TIMES).min(PRICE_LONGEST_NS).max(least_ns);
    let is_near = before >= least_ns && wanted.abs_diff(before) <= before / NEAR;
    if wanted == least_ns || !is_near { wanted } else { before }
}

/// Between a half and one and a half times `mean`.
fn near(mean: u64, chance: &mut Rng) -> u64 {
    mean / 2 + (chance.uniform() * mean as f64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_as_far_apart_as_their_price_allows() {
        let ms = 1_000_000;
        assert_eq!(mean(ms, ms, 0), ms, "they wake nobody");
        assert_eq!(mean(ms, 4 * ms, 30_000), 4 * ms, "their interrupts cost more");
        assert_eq!(mean(ms, ms, 60_000), 6 * ms);
        assert_eq!(mean(6 * ms, ms, 65_000), 6 * ms, "nearly the same");
        assert_eq!(mean(6 * ms, ms, 40_000), 4 * ms);
        assert_eq!(mean(6 * ms, ms, 5_000_000), PRICE_LONGEST_NS);
        assert_eq!(mean(6 * ms, 20 * ms, 5_000_000), 20 * ms, "their interrupts cost still more");
        assert_eq!(mean(6 * ms, ms, 0), ms, "no longer");
    }
}
