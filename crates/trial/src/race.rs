//! Arms in random blocks: which beats the baseline?
//!
//! Each *block* runs every arm once, in an order drawn anew: the machine's drift hits all. An arm's difference in a block is the
//! logarithm of the baseline's cost over its own. Arm 0 is the baseline; arm 1 is the baseline again (A/A), which shows the noise.
//!
//! **Claims.** Looked at twice, after half of the blocks with a level of 0.01 and at the end with 0.04: together at most 5 % of races
//! in which nothing helps claim anything. At a look, Holm's correction over *all* remedies (those dropped count as p = 1). A claim
//! also needs an estimate of at least `least`, and above the interval of A/A.
//!
//! **Dropping** costs no error: it only takes claims away. From the sixth block on an arm goes when it is not worth its runs (the upper end
//! of its 80 % interval is below `least`), or when the best of those that stay beats it (95 %).
//!
//! That time ends a race changes nothing: a block takes as long whichever of its runs was the baseline's.
//!
//! Source: O. Maron, A. Moore, "The Racing Algorithm" (1997); S. Holm (1979). Rejected: looking after each block at 5 %: a third of
//! such races claim something (tests/simulated.rs, control).
use crate::paired::{holm, paired};
use kasuri_base::random::Rng;
use serde::Serialize;

/// The baseline's number.
pub const BASELINE: usize = 0;
/// The number of the baseline's second arm.
pub const AGAIN: usize = 1;
/// Levels of the look in the middle and at the end.
const LEVELS: [f64; 2] = [0.01, 0.04];
/// Blocks before an arm may be dropped: the least with an interval of 95 %.
const BEFORE_DROPPING: usize = 6;
const COVERAGE: f64 = 0.95;
/// Of the interval whose upper end decides whether an arm is worth its runs.
const WORTH_COVERAGE: f64 = 0.8;

/// What is raced, and how long.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Number of arms with the baseline's two; 2 or more.
    pub arms: usize,
    /// Blocks at most.
    pub blocks: usize,
    /// The least speed-up that is worth a claim, as a factor: 1.02.
    pub least: f64,
    /// Seed of the orders.
    pub seed: u64,
}

/// What came of one run.
#[derive(Clone, Debug, PartialEq)]
pub enum Ran {
    /// Its cost: a time, or another positive number that is better when it is smaller.
    Cost(f64),
    /// It is no valid run of the program, and why. An arm's first ends the arm, the baseline's the race.
    Invalid(String),
    /// The user or the clock ended it: the block does not count, the race ends.
    Stopped,
}

/// What is said of an arm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "is", content = "why")]
pub enum Verdict {
    /// Faster than the baseline by more than noise.
    Faster,
    /// Slower by more than noise.
    Slower,
    /// No speed-up was shown; it may be slower, too.
    NotShown,
    /// Dropped because another remedy was faster; not tested against the baseline.
    Beaten,
    /// Not a valid run.
    Disqualified(String),
}

/// One arm's result.
#[derive(Clone, Debug, Serialize)]
pub struct Result {
    /// Costs of its runs in whole blocks, in their order.
    pub costs: Vec<f64>,
    /// Baseline over arm: above 1 is faster. None without a whole block.
    pub speed_up: Option<f64>,
    /// The interval that covers it in 95 % of cases; none with less than six blocks.
    pub interval: Option<(f64, f64)>,
    /// p, corrected for all remedies (A/A: as it is).
    pub p_value: Option<f64>,
    /// The block after which it was dropped.
    pub dropped_after: Option<usize>,
    /// What is said of it.
    pub verdict: Verdict,
}

/// How a race ended.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// By number; the baseline's own has no speed-up.
    pub arms: Vec<Result>,
    /// Whole blocks.
    pub blocks: usize,
    /// Runs in whole blocks.
    pub runs: usize,
    /// Whether it was ended before all was told.
    pub stopped: bool,
    /// Why the baseline is no baseline; then nothing is claimed.
    pub broken: Option<String>,
}

impl Outcome {
    /// The number of the arm that is claimed to be the fastest.
    pub fn best(&self) -> Option<usize> {
        (0..self.arms.len()).filter(|&arm| self.arms[arm].verdict == Verdict::Faster).max_by(
            |&a, &b| {
                self.arms[a]
                    .speed_up
                    .partial_cmp(&self.arms[b].speed_up)
                    .expect("claims are numbers")
            },
        )
    }
}

/// Races the arms; `run` runs one of them.
pub fn race(plan: &Plan, mut run: impl FnMut(usize) -> Ran) -> Outcome {
    let mut state = Race::new(plan);
    let mut rng = Rng::new(plan.seed);
    while state.blocks < plan.blocks && state.is_open() {
        let mut order: Vec<usize> = (0..plan.arms).filter(|&arm| state.alive[arm]).collect();
        rng.shuffle(&mut order);
        if !state.block(&order, &mut run) {
            break;
        }
        if state.blocks == plan.blocks / 2 {
            state.claim(LEVELS[0]);
        }
        state.drop_hopeless();
    }
    state.finish()
}

struct Race<'a> {
    plan: &'a Plan,
    alive: Vec<bool>,
    arms: Vec<Result>,
    blocks: usize,
    looked: bool,
    stopped: bool,
    broken: Option<String>,
}

impl Race<'_> {
    fn new(plan: &Plan) -> Race<'_> {
        let arm = Result {
            costs: Vec::new(),
            speed_up: None,
            interval: None,
            p_value: None,
            dropped_after: None,
            verdict: Verdict::NotShown,
        };
        Race {
            plan,
            alive: vec![true; plan.arms],
            arms: vec![arm; plan.arms],
            blocks: 0,
            looked: false,
            stopped: false,
            broken: None,
        }
    }

    /// Whether any remedy's fate is open. Without remedies there is only the noise to measure.
    fn is_open(&self) -> bool {
        let open = |arm: usize| self.alive[arm] && self.arms[arm].verdict == Verdict::NotShown;
        self.plan.arms == AGAIN + 1 || (AGAIN + 1..self.plan.arms).any(open)
    }

    /// Runs one block; whether the race goes on. Costs count when all of the block is there.
    fn block(&mut self, order: &[usize], run: &mut impl FnMut(usize) -> Ran) -> bool {
        let mut costs = Vec::with_capacity(order.len());
        for &arm in order {
            match run(arm) {
                Ran::Cost(cost) if cost.is_finite() && cost > 0.0 => costs.push((arm, cost)),
                Ran::Cost(cost) => {
                    self.disqualify(arm, format!("its cost was {cost}, needed a number above 0"))
                }
                Ran::Invalid(why) => self.disqualify(arm, why),
                Ran::Stopped => {
                    self.stopped = true;
                    return false;
                }
            }
            if self.broken.is_some() {
                return false;
            }
        }
        for (arm, cost) in costs {
            self.arms[arm].costs.push(cost);
        }
        self.blocks += 1;
        true
    }

    fn disqualify(&mut self, arm: usize, why: String) {
        if arm <= AGAIN {
            self.broken = Some(why);
            return;
        }
        self.alive[arm] = false;
        self.arms[arm].verdict = Verdict::Disqualified(why);
    }

    /// ln(cost of `of` / cost of `arm`), block by block.
    fn differences(&self, of: usize, arm: usize) -> Vec<f64> {
        let pairs = self.arms[of].costs.iter().zip(&self.arms[arm].costs);
        pairs.map(|(of, arm)| (of / arm).ln()).collect()
    }

    /// A look: claims what its level allows.
    fn claim(&mut self, level: f64) {
        self.looked = true;
        let floor = paired(&self.differences(BASELINE, AGAIN), COVERAGE)
            .and_then(|again| again.interval)
            .map_or(f64::INFINITY, |(_, high)| high);
        let alive: Vec<usize> =
            (AGAIN + 1..self.plan.arms).filter(|&arm| self.alive[arm]).collect();
        let told: Vec<_> = alive
            .iter()
            .filter_map(|&arm| paired(&self.differences(BASELINE, arm), COVERAGE))
            .collect();
        let p_values: Vec<f64> = told.iter().map(|told| told.p_value).collect();
        let corrected = holm(&p_values, self.plan.arms - 2);
        for ((&arm, told), p_value) in alive.iter().zip(&told).zip(corrected) {
            self.arms[arm].p_value = Some(p_value);
            if p_value > level || self.arms[arm].verdict != Verdict::NotShown {
                continue;
            }
            if told.estimate >= self.plan.least.ln().max(floor) {
                self.arms[arm].verdict = Verdict::Faster;
            } else if told.estimate <= -self.plan.least.ln() {
                self.arms[arm].verdict = Verdict::Slower;
            }
        }
    }

    /// Drops arms that are not worth their runs.
    fn drop_hopeless(&mut self) {
        if self.blocks < BEFORE_DROPPING {
            return;
        }
        let estimate = |race: &Self, arm| {
            paired(&race.differences(BASELINE, arm), COVERAGE).map_or(0.0, |told| told.estimate)
        };
        let alive = (AGAIN + 1..self.plan.arms).filter(|&arm| self.alive[arm]);
        let best = alive.max_by(|&a, &b| estimate(self, a).total_cmp(&estimate(self, b)));
        for arm in AGAIN + 1..self.plan.arms {
            if !self.alive[arm] {
                continue;
            }
            let useless = paired(&self.differences(BASELINE, arm), WORTH_COVERAGE)
                .and_then(|told| told.interval)
                .is_some_and(|(_, high)| high < self.plan.least.ln());
            let beaten = best.is_some_and(|best| {
                let behind = paired(&self.differences(best, arm), COVERAGE);
                best != arm
                    && behind.and_then(|told| told.interval).is_some_and(|(_, high)| high < 0.0)
            });
            if useless || beaten {
                self.alive[arm] = false;
                self.arms[arm].dropped_after = Some(self.blocks);
                if !useless && self.arms[arm].verdict == Verdict::NotShown {
                    self.arms[arm].verdict = Verdict::Beaten;
                }
            }
        }
    }

    fn finish(mut self) -> Outcome {
        if self.broken.is_none() && self.is_open() {
            // A race that ended before its middle has both levels left.
            self.claim(match self.looked {
                true => LEVELS[1],
                false => LEVELS[0] + LEVELS[1],
            });
        }
        for arm in AGAIN..self.plan.arms {
            let Some(told) = paired(&self.differences(BASELINE, arm), COVERAGE) else {
                continue;
            };
            let result = &mut self.arms[arm];
            result.speed_up = Some(told.estimate.exp());
            result.interval = told.interval.map(|(low, high)| (low.exp(), high.exp()));
            if arm == AGAIN {
                result.p_value = Some(told.p_value);
            } else if matches!(result.verdict, Verdict::NotShown | Verdict::Beaten)
                && result.dropped_after.is_some()
            {
                // It was dropped for what it showed: no test of it is left.
                result.p_value = None;
            }
        }
        if self.broken.is_some() {
            self.arms.iter_mut().for_each(|arm| arm.verdict = Verdict::NotShown);
        }
        Outcome {
            runs: self.arms.iter().map(|arm| arm.costs.len()).sum(),
            arms: self.arms,
            blocks: self.blocks,
            stopped: self.stopped,
            broken: self.broken,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(arms: usize) -> Plan {
        Plan { arms, blocks: 24, least: 1.02, seed: 1 }
    }

    /// A tenth of a per cent of noise, the same in each race.
    fn noise(rng: &mut Rng) -> f64 {
        1.0 + 0.001 * rng.uniform()
    }

    #[test]
    fn the_fastest_is_best_and_the_rest_is_dropped() {
        let mut rng = Rng::new(3);
        let costs = [1.0, 1.0, 0.9, 0.5, 1.0, 1.4];
        let told = race(&plan(6), |arm| Ran::Cost(costs[arm] * noise(&mut rng)));
        assert_eq!(told.best(), Some(3));
        assert!((told.arms[3].speed_up.unwrap() - 2.0).abs() < 0.01);
        assert_eq!((told.blocks, told.arms[3].costs.len()), (12, 12), "claimed at the first look");
        for arm in [2, 4, 5] {
            assert_eq!(told.arms[arm].dropped_after, Some(6), "arm {arm}");
        }
        let verdict = |arm: usize| &told.arms[arm].verdict;
        assert_eq!((verdict(2), verdict(4)), (&Verdict::Beaten, &Verdict::NotShown));
    }

    #[test]
    fn an_arm_that_fails_is_out_and_the_others_go_on() {
        let mut rng = Rng::new(4);
        let told = race(&plan(4), |arm| match arm {
            2 => Ran::Invalid("another result".into()),
            3 => Ran::Cost(0.7 * noise(&mut rng)),
            _ => Ran::Cost(noise(&mut rng)),
        });
        assert_eq!(told.arms[2].verdict, Verdict::Disqualified("another result".into()));
        assert_eq!(told.best(), Some(3));
        assert_eq!(told.arms[2].costs, [] as [f64; 0]);
    }

    #[test]
    fn a_baseline_that_fails_ends_it_without_a_claim() {
        let mut runs = 0;
        let told = race(&plan(3), |arm| {
            runs += 1;
            match (arm, runs > 50) {
                (BASELINE, true) => Ran::Invalid("status 1".into()),
                (2, _) => Ran::Cost(0.5 + 0.001 * f64::from(runs)),
                _ => Ran::Cost(1.0),
            }
        });
        // By then it may have been claimed, and then the race was over.
        assert!(told.broken.is_none() || told.best().is_none());
        let told = race(&plan(3), |_| Ran::Invalid("status 1".into()));
        assert_eq!((told.broken.as_deref(), told.blocks), (Some("status 1"), 0));
    }

    #[test]
    fn a_race_that_is_stopped_says_what_it_knows() {
        for (runs, claimed) in [(2, false), (3 * 4 + 1, false), (3 * 9 + 2, true)] {
            let mut rng = Rng::new(5);
            let mut done = 0;
            let told = race(&plan(3), |arm| {
                done += 1;
                match (done > runs, arm) {
                    (true, _) => Ran::Stopped,
                    (_, 2) => Ran::Cost(0.5 * noise(&mut rng)),
                    _ => Ran::Cost(noise(&mut rng)),
                }
            });
            assert!(told.stopped);
            assert_eq!(told.blocks, runs / 3, "only whole blocks count");
            assert_eq!(told.best().is_some(), claimed, "{runs} runs");
        }
    }

    #[test]
    fn the_same_seed_has_the_same_orders_and_orders_vary() {
        let order = |seed| {
            let mut seen = Vec::new();
            let plan = Plan { seed, ..plan(4) };
            race(&plan, |arm| {
                seen.push(arm);
                Ran::Cost(1.0)
            });
            seen
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
        let firsts: std::collections::HashSet<usize> =
            order(1).chunks(4).map(|block| block[0]).collect();
        assert!(firsts.len() > 1);
    }
}
