//! The program as it would be after a change.
//!
//! Each function takes a [`Program`] and returns a changed copy, which the replay runs like the recorded one: a lock split in
//! k, critical sections made shorter, locks removed, the work dealt to more threads. A change keeps the invariant of
//! [`crate::program`] (releases follow acquisitions, events are posted once), and keeps the total work unless it is the
//! change itself.
use crate::program::{Lock, Program, Script, Step};
use kasuri_base::random::Rng;

/// Lock `lock` becomes `k` locks; each acquisition takes one of them by lot.
pub fn split(program: &Program, lock: u32, k: u32) -> Program {
    let mut out = program.clone();
    let first = out.locks.len() as u32;
    let old = out.locks[lock as usize].clone();
    out.locks
        .extend((1..k).map(|i| Lock { name: format!("{}/{}", old.name, i + 1), ..old.clone() }));
    let mut rng = Rng::new(7);
    for script in &mut out.scripts {
        let mut now = lock;
        for step in &mut script.steps {
            match step {
                Step::Acquire(l, _) if *l == lock => {
                    let part = rng.below(k.max(1) as usize) as u32;
                    now = if part == 0 { lock } else { first + part - 1 };
                    *l = now;
                }
                Step::Release(l) if *l == lock => *l = now,
                _ => {}
            }
        }
    }
    out
}

/// Computing inside the lock takes `factor` of the time it did.
pub fn scale_holds(program: &Program, lock: u32, factor: f64) -> Program {
    let mut out = program.clone();
    for script in &mut out.scripts {
        let mut inside = false;
        for step in &mut script.steps {
            match step {
                Step::Acquire(l, _) if *l == lock => inside = true,
                Step::Release(l) if *l == lock => inside = false,
                Step::Compute(ns) if inside => *ns = (*ns as f64 * factor).round() as u64,
                _ => {}
            }
        }
    }
    out
}

/// The same work without one lock, or without any if `lock` is none.
pub fn without_lock(program: &Program, lock: Option<u32>) -> Program {
    let stays = |step: &&Step| match step {
        Step::Acquire(l, _) | Step::Release(l) => lock.is_some_and(|lock| lock != *l),
        _ => true,
    };
    let without = |script: &Script| {
        let all = || script.steps.iter().filter(stays);
        let mut steps = Vec::with_capacity(all().count());
        steps.extend(all());
        Script { name: script.name.clone(), steps, ..*script }
    };
    Program {
        scripts: program.scripts.iter().map(without).collect(),
        locks: program.locks.clone(),
        n_events: program.n_events,
        rounds: program.rounds.clone(),
    }
}

/// The same work by more threads: every worker's script is dealt out, a stretch between two moments without locks at a
/// time, to `k` threads. `None` when the workers wait for each other in the middle: then more threads would be another program.
pub fn more_threads(program: &Program, k: usize) -> Option<Program> {
    let most = program.scripts.iter().map(|s| s.work_ns()).max().unwrap_or(0);
    let mut out = Program {
        scripts: Vec::new(),
        locks: program.locks.clone(),
        n_events: program.n_events,
        rounds: program.rounds.clone(),
    };
    for script in &program.scripts {
        if script.work_ns() * 20 < most.max(1) {
            out.scripts.push(script.clone());
            continue;
        }
        // Its waits before the work, and the events it posts afterwards, stay with the first part.
        let is_work = |s: &Step| {
            matches!(s, Step::Compute(_) | Step::Acquire(..) | Step::Release(_) | Step::Delay(_))
        };
        let from = script.steps.iter().position(is_work)?;
        let to = script.steps.iter().rposition(is_work)? + 1;
        if !script.steps[from..to].iter().all(is_work) {
            return None;
        }
        let mut parts: Vec<Vec<Step>> = vec![Vec::new(); k];
        parts[0].extend(&script.steps[..from]);
        deal(&script.steps[from..to], &mut parts);
        parts[0].extend(&script.steps[to..]);
        for (i, steps) in parts.into_iter().enumerate() {
            let steps = if i > 0 && matches!(script.steps.first(), Some(Step::Wait(_))) {
                // All parts begin when the thread did.
                follow(&mut out, &script.steps[0], steps)?
            } else {
                steps
            };
            out.scripts.push(Script { name: format!("{}.{i}", script.name), steps, ..*script });
        }
    }
    Some(out)
}

fn deal(steps: &[Step], parts: &mut [Vec<Step>]) {
    let whole: u64 = steps
        .iter()
        .map(|s| if let Step::Compute(ns) | Step::Delay(ns) = s { *ns } else { 0 })
        .sum();
    let k = parts.len();
    let mut given = vec![0u64; k];
    let mut at = 0;
    let mut held = 0;
    for &step in steps {
        match step {
            Step::Compute(ns) if held == 0 && ns as f64 > whole as f64 / (4 * k) as f64 => {
                // A long stretch is itself divisible work.
                for (part, given) in parts.iter_mut().zip(&mut given) {
                    part.push(Step::Compute(ns / k as u64));
                    *given += ns / k as u64;
                }
                continue;
            }
            Step::Compute(ns) | Step::Delay(ns) => given[at] += ns,
            Step::Acquire(..) => held += 1,
            Step::Release(_) => held -= 1,
            _ => {}
        }
        parts[at].push(step);
        if held == 0 && matches!(step, Step::Release(_) | Step::Delay(_)) {
            at = (0..k).min_by_key(|&i| given[i]).unwrap_or(0);
        }
    }
}

/// A wait for the same moment, through an event of its own, posted right after the original one.
fn follow(program: &mut Program, wait: &Step, steps: Vec<Step>) -> Option<Vec<Step>> {
    let Step::Wait(event) = *wait else {
        return None;
    };
    let own = program.n_events;
    program.n_events += 1;
    let poster = program.scripts.iter_mut().find_map(|s| {
        let at = s.steps.iter().position(|s| *s == Step::Post(event))?;
        Some((s, at))
    });
    if let Some((script, at)) = poster {
        script.steps.insert(at + 1, Step::Post(own));
        return Some([Step::Wait(own)].into_iter().chain(steps).collect());
    }
    Some(steps)
}
