//! Payload of a record whose length was not there at the first look is never an event.
#![cfg(loom)]

use kasuri_model_ring::lengths::*;
use loom::sync::Arc;
use loom::sync::atomic::Ordering::Relaxed;
use loom::thread;

fn read(o: Orders) {
    loom::model(move || {
        let record = Arc::new(Record::default());
        let shared = record.clone();
        let writer = thread::spawn(move || shared.emit(o));
        assert!(!record.is_payload_taken_for_an_event(o));
        writer.join().unwrap();
    });
}

#[test]
fn payload_is_no_event() {
    read(Orders::RIGHT);
}

// Negative controls.
#[test]
#[should_panic]
fn control_no_release_at_payload() {
    read(Orders { payload: Relaxed, ..Orders::RIGHT });
}
#[test]
#[should_panic]
fn control_no_fence_before_the_second_look() {
    read(Orders { fence: false, ..Orders::RIGHT });
}
#[test]
#[should_panic]
fn control_no_second_look_at_the_length() {
    read(Orders { looks_again: false, ..Orders::RIGHT });
}
