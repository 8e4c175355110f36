//! The account of generated recordings whose truth is known to the nanosecond: random mixes of imbalance, lock waits
//! (asleep and spinning), serial phases, I/O, interference and oversubscription.
mod phases;
mod scene;

use crate::account::story::by_cause;
use kasuri_analyze::account::{Account, Class};
use kasuri_model::Trace;
use scene::{Dice, Scene, Truth};
use std::collections::BTreeMap;

/// A program of up to 24 phases on up to 8 CPUs.
fn generate(seed: u64) -> (Trace, Truth) {
    let mut dice = Dice(seed);
    let n = dice.range(1, 9) as usize;
    let mut scene = Scene::new(n);
    for thread in 0..n {
        scene.now[thread] = 10_000 + dice.range(0, 1_000);
    }
    for number in 0..dice.range(4, 25) {
        match dice.range(0, 7) {
            0 => phases::work(&mut scene, &mut dice),
            1 => phases::imbalance(&mut scene, &mut dice),
            2 => phases::late_by_interference(&mut scene, &mut dice),
            3 => phases::serial(&mut scene, &mut dice),
            4 => phases::too_many_threads(&mut scene, &mut dice, number as i32),
            _ => phases::mixture(&mut scene, &mut dice),
        }
    }
    let end = scene.latest() + dice.range(1, 1_000_000);
    scene.finish(end)
}

fn by_class<'n>(
    rows: impl Iterator<Item = (&'static str, &'n str, i64)>,
) -> BTreeMap<&'static str, i64> {
    let mut sums = BTreeMap::new();
    for (class, _, ns) in rows {
        *sums.entry(class).or_default() += ns;
    }
    sums.retain(|_, ns| *ns != 0);
    sums
}

/// Losses, most first.
fn ranking(classes: &BTreeMap<&'static str, i64>) -> Vec<&'static str> {
    let mut losses: Vec<_> = classes.iter().filter(|(c, _)| **c != "work").collect();
    losses.sort_by_key(|(class, ns)| (std::cmp::Reverse(**ns), **class));
    losses.into_iter().map(|(class, _)| *class).collect()
}

#[test]
fn account_of_planted_causes_is_exact() {
    let mut planted: BTreeMap<&str, u32> = BTreeMap::new();
    for seed in 0..400 {
        let (trace, truth) = generate(seed);
        assert_eq!(trace.broken_rules(), Vec::<String>::new(), "seed {seed}");
        let account = Account::new(&trace, trace.span.clone());
        let sums = account.sums(account.from, account.to);
        let capacity = (account.to - account.from).ns() * trace.cpus.len() as i64;
        assert_eq!(sums.iter().sum::<i64>(), capacity, "seed {seed}");
        let found = by_class((0..Class::ALL.len()).map(|c| (Class::ALL[c].key(), "", sums[c])));
        let known = by_class(truth.iter().map(|((class, name), ns)| (*class, *name, *ns)));
        assert_eq!(found, known, "seed {seed}");
        assert_eq!(ranking(&found), ranking(&known), "seed {seed}");
        // And each lock, barrier, condition and stranger by its name.
        let mut named = Truth::new();
        for (cause, ns) in account.causes.iter().zip(by_cause(&account)) {
            let name = match trace.strings.get(cause.name) {
                _ if matches!(
                    cause.class,
                    Class::Work
                        | Class::LowParallelism
                        | Class::SchedulingDelay
                        | Class::Oversubscription
                ) =>
                {
                    ""
                }
                name => truth.keys().map(|k| k.1).find(|n| *n == name).unwrap_or("?"),
            };
            *named.entry((cause.class.key(), name)).or_default() += ns;
        }
        named.retain(|_, ns| *ns != 0);
        assert_eq!(named, truth, "seed {seed}");
        for class in known.keys() {
            *planted.entry(class).or_default() += 1;
        }
    }
    // The mixes are mixes: each cause is in many of them.
    println!("recordings with each class: {planted:?}");
    let classes = [
        "load_imbalance",
        "interference",
        "io_wait",
        "lock_wait",
        "low_parallelism",
        "oversubscription",
        "scheduling_delay",
        "waiting_for_own_threads",
    ];
    for class in classes {
        assert!(planted.get(class).is_some_and(|&n| n >= 40), "{class}");
    }
}

#[test]
fn a_wrong_truth_is_noticed() {
    // Negative control: the comparison above is not one of a thing with itself.
    let (trace, truth) = generate(1);
    let account = Account::new(&trace, trace.span.clone());
    let sums = account.sums(account.from, account.to);
    let found = by_class((0..Class::ALL.len()).map(|c| (Class::ALL[c].key(), "", sums[c])));
    let mut known = by_class(truth.iter().map(|((class, name), ns)| (*class, *name, *ns)));
    *known.entry("lock_wait").or_default() += 1;
    assert_ne!(found, known);
}
