//! The reader of an open chunk against an emit whose length it does not know, under loom: `after_hole` in
//! crates/record/src/rings/openchunk.rs. That file's own tests try the schedules; here are the orders.
//!
//! The program writes word 1 (with the record's length), then the payload, then the stamp. A recorder that reads a record of two
//! slots between these steps may find word 1 still 0, step over one slot, and take the payload for the stamp of the next
//! record. So it looks at word 1 again after reading what may be payload: a load of payload that was written must make
//! word 1 visible too.

use loom::sync::atomic::{
    AtomicUsize,
    Ordering::{self, Acquire, Relaxed, Release},
    fence,
};

/// The orders of the protocol; a control breaks one.
#[derive(Clone, Copy)]
pub struct Orders {
    /// Program: a payload word, after word 1.
    pub payload: Ordering,
    /// Recorder: a fence between what may be payload and the second look at word 1.
    pub fence: bool,
    /// Recorder: the second look itself.
    pub looks_again: bool,
}

impl Orders {
    /// As in kasuri.h and openchunk.rs.
    pub const RIGHT: Orders = Orders { payload: Release, fence: true, looks_again: true };
}

/// A record of two slots, of which nothing is written at first: stamp, word 1, and one word of payload, which is where a
/// record of one slot would have its successor's stamp.
#[derive(Default)]
pub struct Record {
    stamp: AtomicUsize,
    word1: AtomicUsize,
    payload: AtomicUsize,
}

impl Record {
    /// The program fills and commits it.
    pub fn emit(&self, o: Orders) {
        self.word1.store(2, Relaxed);
        self.payload.store(66, o.payload);
        self.stamp.store(10, Release);
    }

    /// The recorder: whether it takes the payload for the stamp of a second event.
    pub fn is_payload_taken_for_an_event(&self, o: Orders) -> bool {
        let stamp = self.stamp.load(Acquire);
        if stamp != 0 || self.word1.load(Relaxed) != 0 {
            return false;
        }
        // Relaxed: of the next slot its word 1 may be all that is seen.
        if self.payload.load(Relaxed) == 0 {
            return false;
        }
        if o.fence {
            fence(Acquire);
        }
        !o.looks_again || self.word1.load(Relaxed) == 0
    }
}
