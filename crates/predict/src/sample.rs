//! A long program in a sample of its rounds: as much of it as tells two replays apart.
//!
//! Replays take a time in proportion to a program's steps, and an answer takes dozens of them: each number of CPUs, each cost at its
//! best and at its worst, each change. Of the whole program are three then: with the costs as they are expected, on one CPU, on those of
//! the recording and on the most. The others are replays of a sample: with expected costs they are scaled to what the whole takes on one
//! CPU and on most, of the rest only the ratio to the sample's own replay with expected costs is used. What a sample does not have (the
//! last turns of threads are a larger part of it, and starting them is) both sides of the ratio lack.
//!
//! A *stretch* is what a thread does without waiting for other threads, but for locks. It is cut into blocks, at moments at which the
//! thread holds no lock; of each `one_in` blocks in a row one is kept, drawn by chance. Its times are then scaled, by a little, so that
//! each stretch keeps its share of the work to the nanosecond. All else is kept as it is, in as much less time: so is a step that is
//! long beside all that is kept of its stretch (an interrupt, a page that was not there), which a draw would have tenfold or not at all.
use crate::program::{Program, Script, Step};
use kasuri_base::random::Rng;
use std::ops::Range;

/// Steps that a sample has about as many of; programs of less than twice that are replayed whole.
const STEPS: usize = 1_000_000;
/// Turns on a CPU that the longest thread keeps: the last ones of all threads end at different times.
const TURNS: f64 = 16.0;
/// Steps of a block, about.
const BLOCK: usize = 256;
/// Blocks that a stretch keeps, else it is kept whole.
const SOME: usize = 8;
/// What is kept whole and takes locks may have this share of the work: its holds are shorter in the sample, and as many.
const WHOLE: f64 = 0.02;
/// The blocks kept may have so many times the time of all, or of it all so much more; else the stretch is kept whole.
const UNEQUAL: f64 = 1.25;
/// Draws until they are alike.
const DRAWS: usize = 16;
/// A step that takes more than this share of what is kept of its stretch is in no draw.
const LONG: f64 = 0.1;

/// The sample; none where the program is short, or waits so often that there is little to leave out.
pub(crate) fn draw(program: &Program, slice_ns: f64) -> Option<Program> {
    let n_steps = |p: &Program| p.scripts.iter().map(|s| s.steps.len()).sum::<usize>();
    let longest = program.scripts.iter().map(Script::work_ns).max()?;
    let turns = longest as f64 / (TURNS * slice_ns.max(1.0));
    let one_in = (n_steps(program) / STEPS).min(turns as usize);
    let sample = (one_in > 1).then(|| one_of(program, one_in))??;
    (n_steps(&sample) * one_in < 2 * n_steps(program)).then_some(sample)
}

fn one_of(program: &Program, one_in: usize) -> Option<Program> {
    let mut rng = Rng::new(11);
    let (mut work_ns, mut whole_ns) = (0.0, 0.0);
    let mut scripts = Vec::with_capacity(program.scripts.len());
    for script in &program.scripts {
        let mut sampler = Sampler {
            one_in,
            held: 0,
            whole_ns: 0.0,
            out: Vec::with_capacity(script.steps.len() / one_in),
        };
        for part in script.steps.chunk_by(|a, b| is_own(a) && is_own(b)) {
            match part {
                [step] if !is_own(step) => sampler.out.push(*step),
                stretch => sampler.stretch(stretch, &mut rng),
            }
        }
        work_ns += ns(&script.steps);
        whole_ns += sampler.whole_ns;
        scripts.push(Script { name: script.name.clone(), steps: sampler.out, ..*script });
    }
    (whole_ns <= WHOLE * work_ns).then(|| Program {
        scripts,
        locks: program.locks.clone(),
        n_events: program.n_events,
        rounds: program.rounds.clone(),
    })
}

/// Whether the thread needs no other one for it.
fn is_own(step: &Step) -> bool {
    matches!(step, Step::Compute(_) | Step::Acquire(..) | Step::Release(_) | Step::Delay(_))
}

/// Time that the steps take by themselves, ns.
fn ns(steps: &[Step]) -> f64 {
    let of = |step: &Step| match *step {
        Step::Compute(ns) | Step::Delay(ns) => ns as f64,
        _ => 0.0,
    };
    steps.iter().map(of).sum()
}

/// A part of a stretch; the thread holds no lock as it begins and ends.
struct Block {
    steps: Range<usize>,
    /// Time of its steps but for those that are long beside all that is kept, ns.
    ns: f64,
    /// Long steps outside locks.
    long: Vec<usize>,
    /// A long step is inside a lock: no other block is like this one.
    is_odd: bool,
}

impl Block {
    fn from(at: usize) -> Block {
        Block { steps: at..at, ns: 0.0, long: Vec::new(), is_odd: false }
    }
}

/// One thread's.
struct Sampler {
    one_in: usize,
    /// Locks held.
    held: usize,
    /// Time of what takes locks and is kept whole, ns.
    whole_ns: f64,
    out: Vec<Step>,
}

impl Sampler {
    fn stretch(&mut self, steps: &[Step], rng: &mut Rng) {
        let blocks = self.blocks(steps);
        let one_in = self.one_in;
        let n_groups = blocks.len() / one_in;
        if n_groups < SOME {
            return self.whole(steps);
        }
        // What is left over is part of the last group.
        let group = |n: usize| match n + 1 < n_groups {
            true => &blocks[n * one_in..(n + 1) * one_in],
            false => &blocks[n * one_in..],
        };
        let all = blocks.iter().filter(|b| !b.is_odd).map(|b| b.ns).sum::<f64>();
        let all = all / one_in as f64;
        let mut draw = || {
            let of = |n| {
                let alike: Vec<&Block> = group(n).iter().filter(|b| !b.is_odd).collect();
                (!alike.is_empty()).then(|| alike[rng.below(alike.len())])
            };
            let kept: Vec<Option<&Block>> = (0..n_groups).map(of).collect();
            let some = kept.iter().flatten().map(|b| b.ns).sum::<f64>();
            (kept, some)
        };
        let is_like_all = |(_, some): &(_, f64)| all <= UNEQUAL * some && *some <= UNEQUAL * all;
        let Some((kept, some)) = (0..DRAWS).map(|_| draw()).find(is_like_all) else {
            return self.whole(steps);
        };
        let factor = if some > 0.0 { all / some } else { 1.0 };
        self.whole(&steps[..blocks[0].steps.start]);
        let mut left = 0.0;
        for (n, block) in kept.into_iter().enumerate() {
            for at in block.into_iter().flat_map(|b| b.steps.clone()) {
                if block.is_some_and(|b| !b.long.contains(&at)) {
                    self.scaled(&steps[at..=at], factor, &mut left);
                }
            }
            for other in group(n) {
                if other.is_odd {
                    self.whole_ns += other.ns;
                    self.shrunk(&steps[other.steps.clone()]);
                } else {
                    other.long.iter().for_each(|&at| self.shrunk(&steps[at..=at]));
                }
            }
        }
        self.whole(&steps[blocks[blocks.len() - 1].steps.end..]);
    }

    fn blocks(&mut self, steps: &[Step]) -> Vec<Block> {
        let longest = LONG * ns(steps) / self.one_in as f64;
        let mut blocks = Vec::new();
        let mut block = (self.held == 0).then(|| Block::from(0));
        for (at, step) in steps.iter().enumerate() {
            match step {
                Step::Acquire(..) => self.held += 1,
                Step::Release(_) => self.held = self.held.saturating_sub(1),
                _ => {
                    let ns = ns(&steps[at..=at]);
                    match &mut block {
                        Some(block) if ns <= longest => block.ns += ns,
                        Some(block) if self.held == 0 => block.long.push(at),
                        Some(block) => block.is_odd = true,
                        None => {}
                    }
                    continue;
                }
            }
            let is_full = |b: &Block| at + 1 - b.steps.start >= BLOCK;
            if self.held == 0 && block.as_ref().is_none_or(is_full) {
                let full = block.replace(Block::from(at + 1));
                blocks.extend(full.map(|b| Block { steps: b.steps.start..at + 1, ..b }));
            }
        }
        blocks
    }

    fn whole(&mut self, steps: &[Step]) {
        let takes = |step: &Step| matches!(step, Step::Acquire(..) | Step::Release(_));
        if steps.iter().any(takes) {
            self.whole_ns += ns(steps);
        }
        self.shrunk(steps);
    }

    /// All steps, in as much less time.
    fn shrunk(&mut self, steps: &[Step]) {
        self.scaled(steps, 1.0 / self.one_in as f64, &mut 0.0);
    }

    /// `left`: of the steps before, what is less than a nanosecond.
    fn scaled(&mut self, steps: &[Step], factor: f64, left: &mut f64) {
        let mut scale = |ns: u64| {
            let exact = ns as f64 * factor + *left;
            let whole = exact.round().max(0.0);
            *left = exact - whole;
            whole as u64
        };
        self.out.extend(steps.iter().map(|step| match *step {
            Step::Compute(ns) => Step::Compute(scale(ns)),
            Step::Delay(ns) => Step::Delay(scale(ns)),
            step => step,
        }));
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::program::Lock;

    /// Threads of as many rounds: computing, and a hold of one of some locks, in the second half a third as long. `each` adds
    /// to a round.
    pub(crate) fn rounds(
        n_threads: usize,
        n: usize,
        mut each: impl FnMut(usize, &mut Vec<Step>),
    ) -> Program {
        let mut rng = Rng::new(5);
        let script = |thread: usize| {
            let mut steps = Vec::with_capacity(4 * n);
            for round in 0..n {
                let lock = rng.below(4) as u32;
                let hold = if 2 * round < n { 600 } else { 200 };
                steps.push(Step::Acquire(lock, false));
                steps.push(Step::Compute(hold + rng.below(100) as u64));
                steps.push(Step::Release(lock));
                steps.push(Step::Compute(700 + rng.below(900) as u64));
                each(thread, &mut steps);
            }
            Script { steps, ..Script::default() }
        };
        Program {
            scripts: (0..n_threads).map(script).collect(),
            locks: vec![Lock::default(); 4],
            ..Program::default()
        }
    }

    #[test]
    fn a_sample_keeps_each_threads_share_of_the_work_and_balanced_locks() {
        let program = rounds(3, 100_000, |_, _| ());
        let sample = one_of(&program, 10).unwrap();
        let (all, some) = (program.sums(), sample.sums());
        for (a, b) in program.scripts.iter().zip(&sample.scripts) {
            assert!((a.work_ns() as f64 / 10.0 - b.work_ns() as f64).abs() <= 1_000.0);
            let steps = b.steps.len() as f64 / a.steps.len() as f64;
            assert!((0.095..0.105).contains(&steps), "{steps}");
            let mut held = [0; 4];
            for step in &b.steps {
                match *step {
                    Step::Acquire(lock, _) => held[lock as usize] += 1,
                    Step::Release(lock) => held[lock as usize] -= 1,
                    _ => (),
                }
            }
            assert_eq!(held, [0; 4]);
        }
        let inside = |sums: &crate::program::Sums| sums.inside_ns as f64 / sums.work_ns as f64;
        assert!((inside(&all) - inside(&some)).abs() < 0.005);
    }

    #[test]
    fn one_long_step_neither_counts_tenfold_nor_forbids_a_sample() {
        for (most, is_inside) in [(2, false), (7, true), (40, false), (40, true)] {
            let mut n = 0;
            let program = rounds(3, 100_000, |_, steps| {
                n += 1;
                if n % (100_000 / most) == 77 {
                    let long = Step::Compute(40_000_000);
                    match is_inside {
                        true => steps.extend([Step::Acquire(0, false), long, Step::Release(0)]),
                        false => steps.push(long),
                    }
                }
            });
            let sample = one_of(&program, 10).unwrap();
            let longest = |p: &Program| {
                let steps = p.scripts.iter().flat_map(|s| &s.steps);
                steps.filter(|&&step| ns(&[step]) >= 1e6).map(|&step| ns(&[step])).sum::<f64>()
            };
            assert_eq!(longest(&program), 10.0 * longest(&sample));
            for (a, b) in program.scripts.iter().zip(&sample.scripts) {
                assert!((a.work_ns() as f64 / 10.0 - b.work_ns() as f64).abs() <= 1_000.0);
            }
        }
    }

    #[test]
    fn short_programs_and_those_whose_threads_wait_for_each_other_are_replayed_whole() {
        let few = rounds(4, 100_000, |_, _| ());
        assert!(draw(&few, 1_000.0).is_none());
        // Of these rounds a sample could be had, if they were not so few turns on a CPU.
        let many = rounds(4, 150_000, |_, _| ());
        assert!(draw(&many, 1_000.0).is_some());
        assert!(draw(&many, 20_000_000.0).is_none());
        let mut event = 0;
        let waiting = rounds(4, 150_000, |thread, steps| {
            event += u32::from(thread == 0);
            steps.push(match thread {
                0 => Step::Post(event - 1),
                _ => Step::Compute(1),
            });
        });
        assert!(draw(&waiting, 1_000.0).is_none());
    }

    #[test]
    fn a_lock_that_is_held_over_a_wait_is_given_back() {
        let mut program = rounds(1, 20_000, |_, _| ());
        let steps = &mut program.scripts[0].steps;
        steps.splice(0..0, [Step::Acquire(3, false), Step::Post(0)]);
        // Inside of it no block begins, so all is kept.
        steps.retain(|step| !matches!(step, Step::Acquire(3, _) | Step::Release(3)));
        steps.insert(0, Step::Acquire(3, false));
        steps.insert(2, Step::Compute(40));
        steps.insert(3, Step::Release(3));
        program.n_events = 1;
        let sample = one_of(&program, 4).unwrap();
        let of = |wanted: Step| sample.scripts[0].steps.iter().position(|&s| s == wanted);
        assert_eq!(of(Step::Acquire(3, false)), Some(0));
        assert_eq!(of(Step::Post(0)), Some(1));
        assert_eq!(of(Step::Release(3)), Some(3));
        assert!(sample.scripts[0].steps.len() < program.scripts[0].steps.len() / 3);
    }
}
