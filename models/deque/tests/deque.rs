//! Every schedule of owner and thieves, and of each broken protocol.
//!
//! The scripts are the owner's operations: `LAST` races for the last item, `TWO` pops two items in a row, `GROW` outgrows the
//! first array. A `control_*` test breaks one step and expects the search to find a violation.

use kasuri_model_deque::deque::Op::{Pop, Push};
use kasuri_model_deque::deque::{Broken, Deque, Op};
use kasuri_model_deque::machine::search;

const LAST: &[Op] = &[Push, Pop, Push, Pop];
const TWO: &[Op] = &[Push, Push, Pop, Pop];
const GROW: &[Op] = &[Push, Push, Push, Pop, Pop, Pop];

fn run(ops: &[Op], thieves: usize, force: bool, broken: Broken) -> Result<usize, &'static str> {
    search(&Deque {
        ops: ops.to_vec(),
        thieves,
        attempts: if thieves == 1 { 2 } else { 1 },
        force,
        broken,
    })
}

#[test]
fn each_item_is_taken_once() {
    for ops in [LAST, TWO, GROW] {
        for force in [false, true] {
            // Two thieves and a growing array are 10 million states, a minute; they pass too.
            for thieves in if ops == GROW { 1..=1 } else { 1..=2 } {
                let states = run(ops, thieves, force, Broken::default()).unwrap();
                assert!(states > 100, "{states} states: the thieves never met the owner");
            }
        }
    }
}

/// The control must fail, on some script, for this reason.
fn fails(broken: Broken, force: bool) -> Vec<&'static str> {
    let wrongs: Vec<_> =
        [LAST, TWO, GROW].iter().filter_map(|ops| run(ops, 1, force, broken).err()).collect();
    assert!(!wrongs.is_empty(), "the broken protocol passes");
    wrongs
}

#[test]
fn control_no_release() {
    // The thief reads what the slot held before: nothing, or an item that was taken.
    fails(Broken { no_release: true, ..Broken::default() }, true);
}

#[test]
fn control_no_membarrier() {
    let wrongs = fails(Broken { no_membarrier: true, ..Broken::default() }, true);
    assert!(wrongs.contains(&"an item was taken twice"), "{wrongs:?}");
}

#[test]
fn control_limit_late() {
    fails(Broken { limit_late: true, ..Broken::default() }, true);
}

#[test]
fn control_look_first() {
    fails(Broken { look_first: true, ..Broken::default() }, true);
}

#[test]
fn control_no_lock() {
    fails(Broken { no_lock: true, ..Broken::default() }, true);
}

#[test]
fn control_grow_unlocked() {
    fails(Broken { grow_unlocked: true, ..Broken::default() }, true);
}

/// Not every change is wrong: a limit left too high only makes the owner take the lock once more.
#[test]
fn a_limit_that_stays_high_is_only_slow() {
    let broken = Broken { limit_stays: true, ..Broken::default() };
    for ops in [LAST, TWO, GROW] {
        run(ops, 1, true, broken).unwrap();
    }
}
