//! Memory of a session that was left is given back only when no thread can write there any more.
#![cfg(loom)]

use kasuri_model_ring::leaving::*;
use loom::sync::Arc;
use loom::thread;
use std::sync::atomic::{AtomicUsize, Ordering};

fn leave(steps: Steps) -> usize {
    let given_back = std::sync::Arc::new(AtomicUsize::new(0));
    let count = given_back.clone();
    loom::model(move || {
        let ring = Arc::new(Leaving::new());
        let shared = ring.clone();
        let writer = thread::spawn(move || {
            shared.emit();
            shared.emit();
        });
        count.fetch_add(usize::from(ring.leave(steps)), Ordering::Relaxed);
        writer.join().unwrap();
    });
    given_back.load(Ordering::Relaxed)
}

#[test]
fn nobody_writes_into_memory_given_back() {
    assert!(leave(Steps::RIGHT) > 0, "it never is given back");
}

// Negative controls.
#[test]
#[should_panic]
fn control_positions_taken_by_load_and_store() {
    leave(Steps { exchange: false, ..Steps::RIGHT });
}
#[test]
#[should_panic]
fn control_no_barrier_when_leaving() {
    leave(Steps { barrier: false, ..Steps::RIGHT });
}
#[test]
#[should_panic]
fn control_open_slots_ignored() {
    leave(Steps { looks_for_open: false, ..Steps::RIGHT });
}
