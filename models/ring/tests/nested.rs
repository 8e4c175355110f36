//! Annotations interrupted by handlers that annotate, at every step.

use kasuri_model_ring::nested::{Broken, search};

#[test]
fn nested_handlers_corrupt_nothing_and_lose_nothing() {
    for events in 1..=5 {
        let n = search(Broken::default(), 3, 2, events).expect("a wrong schedule");
        assert!(n > 100, "only {n} schedules");
    }
}

#[test]
fn control_separate_end_corrupts() {
    let broken = Broken { separate_end: true, ..Broken::default() };
    assert!((1..=5).any(|events| search(broken, 3, 2, events).is_err()));
}

#[test]
fn control_hand_over_with_open_slot_loses() {
    let broken = Broken { ignore_open: true, ..Broken::default() };
    assert!((1..=5).any(|events| search(broken, 3, 2, events).is_err()));
}

/// A handler gets the thread's first chunk between the look at the position and the look at the limit.
#[test]
fn control_offset_without_a_chunk_corrupts() {
    let broken = Broken { offset_alone: true, ..Broken::default() };
    assert!((1..=5).any(|events| search(broken, 3, 2, events).is_err()));
}

#[test]
fn control_reserve_in_two_steps_corrupts() {
    let broken = Broken { split_reserve: true, ..Broken::default() };
    assert!((1..=5).any(|events| search(broken, 3, 2, events).is_err()));
}
