//! Replays of one program, remembered: the limits, the what-ifs and the classes ask for the same
//! ones.
use crate::costs::{Costs, Variant};
use crate::extract::Extract;
use crate::machine::Machine;
use crate::program::Program;
use crate::replay::{Outcome, Setup, replay};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Jobs that run at a time, where there are as many CPUs: each may have a changed copy of the
/// program.
const AT_ONCE: usize = 3;
/// The answer of each job. In which order they come about changes none.
pub fn at_once<J: Sync, T: Send>(jobs: &[J], answer: impl Fn(&J) -> T + Sync) -> Vec<T> {
    let n_cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let work = || {
        let take = || next.fetch_add(1, Ordering::Relaxed);
        let mine = std::iter::from_fn(|| Some(take())).take_while(|&at| at < jobs.len());
        mine.map(|at| (at, answer(&jobs[at]))).collect::<Vec<_>>()
    };
    let mut all = std::thread::scope(|scope| {
        let more = AT_ONCE.min(n_cpus).min(jobs.len()).saturating_sub(1);
        let others: Vec<_> = (0..more).map(|_| scope.spawn(work)).collect();
        let mut all = work();
        for other in others {
            all.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        all
    });
    all.sort_unstable_by_key(|one| one.0);
    all.into_iter().map(|one| one.1).collect()
}

/// A speed-up, at most as many times as there are CPUs; 1 for a program of no time.
pub fn over(one: f64, many: f64, cpus: usize) -> f64 {
    if one <= 0.0 {
        return 1.0;
    }
    (one / many.max(1.0)).min(cpus.max(1) as f64)
}

/// A program beside the recorded one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Other {
    /// With the waits that one CPU hides.
    Tied,
    /// The second recording.
    Second,
}

/// The replays of one program.
pub struct Replays<'a> {
    /// What was recorded.
    pub first: &'a Extract,
    /// Of a long program a sample, which most replays are of: see [`crate::sample`].
    pub sample: Option<Program>,
    /// What they cost there.
    pub costs: Costs,
    seeds: u64,
    known: HashMap<(usize, Variant), Arc<(f64, Outcome)>>,
    /// Wall times of other programs on each number of CPUs.
    others: HashMap<(Other, usize), f64>,
}

impl<'a> Replays<'a> {
    /// None yet.
    pub fn new(first: &'a Extract, machine: Machine) -> Replays<'a> {
        let steps: usize = first.program.scripts.iter().map(|s| s.steps.len()).sum();
        Replays {
            first,
            sample: None,
            costs: Costs::new(first, machine),
            seeds: if steps > 1_000_000 { 1 } else { 3 },
            known: HashMap::new(),
            others: HashMap::new(),
        }
    }

    pub fn run(&self, program: &Program, cpus: usize, variant: Variant, seed: u64) -> Outcome {
        let machine = self.costs.machine_of(variant);
        let mut setup = Setup::new(&machine, cpus);
        setup.seed = seed;
        // A changed program may have more locks: those are parts of the last ones.
        setup.transfer = &self.costs.transfer;
        replay(program, &setup)
    }

    /// Mean wall time, with one of the outcomes.
    pub fn mean(&self, program: &Program, cpus: usize) -> (f64, Outcome) {
        let runs: Vec<Outcome> =
            (1..=self.seeds).map(|seed| self.run(program, cpus, Variant::Expected, seed)).collect();
        let mean = runs.iter().map(|r| r.wall_ns).sum::<f64>() / runs.len() as f64;
        (mean, runs.into_iter().next().unwrap_or_default())
    }

    /// The program that is replayed with other costs, and changed.
    pub fn changeable(&self) -> &Program {
        self.sample.as_ref().unwrap_or(&self.first.program)
    }

    /// The recorded program on so many CPUs; more CPUs than threads change nothing.
    pub fn get(&mut self, cpus: usize, variant: Variant) -> Arc<(f64, Outcome)> {
        let cpus = cpus.min(self.first.program.scripts.len()).max(1);
        let variant = match variant {
            Variant::Sampled if self.sample.is_none() => Variant::Expected,
            other => other,
        };
        if let Some(known) = self.known.get(&(cpus, variant)) {
            return known.clone();
        }
        let answer = self.made(cpus, variant);
        self.keep(cpus, variant, answer)
    }

    pub fn made(&self, cpus: usize, variant: Variant) -> (f64, Outcome) {
        match variant {
            Variant::Expected => self.scaled(cpus).map_or_else(
                || self.mean(&self.first.program, cpus),
                |outcome| (outcome.wall_ns, outcome),
            ),
            _ => {
                let outcome = self.run(self.changeable(), cpus, variant, 1);
                (outcome.wall_ns, outcome)
            }
        }
    }

    /// The whole program between fewest and most CPUs, on which both it and the sample were
    /// replayed: the sample, in so many times the time.
    pub fn scaled(&self, cpus: usize) -> Option<Outcome> {
        let sampled = self.known.get(&(cpus, Variant::Sampled))?;
        let replayed = self.known.keys().filter(|key| key.1 == Variant::Expected);
        let most = replayed.map(|key| key.0).max().filter(|&most| cpus < most)?;
        let times = |cpus: usize| {
            let wall = |variant| self.known.get(&(cpus, variant)).map(|run| run.0);
            Some(wall(Variant::Expected)? / wall(Variant::Sampled)?.max(1.0))
        };
        let (one, all) = (times(1)?, times(most)?);
        let share = (1.0 - 1.0 / cpus as f64) / (1.0 - 1.0 / most as f64);
        Some(sampled.1.times(one + (all - one) * share))
    }

    pub fn keep(
        &mut self,
        cpus: usize,
        variant: Variant,
        answer: (f64, Outcome),
    ) -> Arc<(f64, Outcome)> {
        let answer = Arc::new(answer);
        self.known.insert((cpus, variant), answer.clone());
        answer
    }

    /// Makes the replays that these numbers of CPUs ask for, several at a time.
    pub fn ahead(&mut self, cpus: &[usize]) {
        let n = self.first.program.scripts.len();
        let counts: BTreeSet<usize> =
            (cpus.iter().map(|&cpus| cpus.min(n).max(1))).chain([1]).collect();
        let is_end =
            |cpus| [counts.first(), counts.last(), Some(&self.first.n_cpus)].contains(&Some(cpus));
        let whole = counts.iter().filter(|cpus| self.sample.is_none() || is_end(cpus));
        let sampled = self.sample.as_ref().map(|_| Variant::Sampled);
        let others = [Variant::Cheap, Variant::Dear].into_iter().chain(sampled);
        let others = others.flat_map(|variant| counts.iter().map(move |&cpus| (cpus, variant)));
        // The longest first.
        let mut wanted: Vec<(usize, Variant)> =
            whole.map(|&cpus| (cpus, Variant::Expected)).chain(others).collect();
        wanted.retain(|key| !self.known.contains_key(key));
        let made = at_once(&wanted, |&(cpus, variant)| self.made(cpus, variant));
        for ((cpus, variant), answer) in wanted.into_iter().zip(made) {
            self.keep(cpus, variant, answer);
        }
    }

    /// Over the same program on one CPU. More than there are CPUs is not said: there it would be
    /// one CPU that loses time, not many that gain.
    pub fn speedup(&mut self, cpus: usize, variant: Variant) -> f64 {
        let one = self.get(1, variant).0;
        over(one, self.get(cpus, variant).0, cpus)
    }

    /// The whole program's with other costs: as many times the expected one as the sample's is.
    pub fn speedup_at(&mut self, cpus: usize, costs: Variant) -> f64 {
        let other = self.speedup(cpus, costs);
        if self.sample.is_none() {
            return other;
        }
        let (whole, sampled) =
            (self.speedup(cpus, Variant::Expected), self.speedup(cpus, Variant::Sampled));
        (other * whole / sampled.max(1e-9)).min(cpus.max(1) as f64)
    }

    pub fn wall_of(&mut self, which: Other, program: &Program, cpus: usize) -> f64 {
        let cpus = cpus.min(program.scripts.len()).max(1);
        if let Some(&known) = self.others.get(&(which, cpus)) {
            return known;
        }
        let wall = self.run(program, cpus, Variant::Expected, 1).wall_ns;
        self.others.insert((which, cpus), wall);
        wall
    }

    /// The recorded program's wall time on as many CPUs as it was recorded on.
    pub fn replayed_wall(&self, cpus: usize) -> f64 {
        let known = self.known.get(&(cpus, Variant::Expected));
        known.map_or_else(|| self.mean(&self.first.program, cpus).0, |known| known.0)
    }

    /// The most waits that one replay had to break, but for circles of locks.
    pub fn forced(&self) -> u64 {
        let forced = |run: &Arc<(f64, Outcome)>| run.1.forced - run.1.deadlocks;
        self.known.values().map(forced).max().unwrap_or(0)
    }

    /// The locks of such circles, each once.
    pub fn deadlocked(&self) -> BTreeSet<&Vec<u32>> {
        self.known.values().flat_map(|run| &run.1.deadlocked).collect()
    }

    /// The highest speed-up that a replay of the whole program reached; at least 1.
    pub fn reached(&self, one: f64) -> f64 {
        let reached = self.known.iter().filter(|((_, v), _)| *v == Variant::Expected);
        reached.map(|((cpus, _), run)| over(one, run.0, *cpus)).fold(1.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::at_once;

    #[test]
    fn answers_of_jobs_come_in_their_order_and_a_panic_is_passed_on() {
        let jobs: Vec<usize> = (0..100).collect();
        assert_eq!(
            at_once(&jobs, |&job| 2 * job),
            jobs.iter().map(|job| 2 * job).collect::<Vec<_>>()
        );
        assert!(at_once(&[], |job: &usize| *job).is_empty());
        let panics = || at_once(&jobs, |&job| assert_ne!(job, 50));
        assert!(std::panic::catch_unwind(panics).is_err());
    }
}
