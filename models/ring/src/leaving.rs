//! Leaving a session whose memory is given back, under loom: `kasuri__settle` against an emit that may be anywhere.
//!
//! The thread's addition to its position is one instruction without a lock: another CPU's store may fall between its
//! load and its store, a barrier of all threads (membarrier) may not. So the two are two steps here, inside a mutex that
//! the barrier takes. The position itself is behind a mutex of its own, since loom lets a load and a store of one thread
//! overtake an exchange of another, which no cache does.

use loom::sync::Mutex;
use loom::sync::atomic::{
    AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

/// Start of the chunk: a position below lies in none.
const CHUNK: usize = 8;
const SLOTS: usize = 2;

/// The steps of the thread that leaves; a control omits one.
#[derive(Clone, Copy)]
pub struct Steps {
    /// The position is taken by an exchange, not by a load and a store.
    pub exchange: bool,
    /// A barrier of all threads comes before the second look at the position.
    pub barrier: bool,
    /// Slots reserved and not committed keep the memory.
    pub looks_for_open: bool,
}

impl Steps {
    /// As in kasuri.h.
    pub const RIGHT: Steps = Steps { exchange: true, barrier: true, looks_for_open: true };
}

/// A thread with a chunk.
pub struct Leaving {
    instruction: Mutex<()>,
    pos: Mutex<usize>,
    stamps: [AtomicUsize; SLOTS],
    mapped: AtomicUsize,
}

impl Leaving {
    /// Its chunk is empty.
    pub fn new() -> Leaving {
        Leaving {
            instruction: Mutex::new(()),
            pos: Mutex::new(CHUNK),
            stamps: [AtomicUsize::new(0), AtomicUsize::new(0)],
            mapped: AtomicUsize::new(1),
        }
    }

    /// The thread: one event. A reservation that fits is filled, whatever has become of the session.
    pub fn emit(&self) {
        let at = {
            let _one = self.instruction.lock();
            let at = self.swap(None);
            self.swap(Some(at + 1));
            at
        };
        if (CHUNK..CHUNK + SLOTS).contains(&at) {
            assert_eq!(self.mapped.load(Relaxed), 1, "written into unmapped memory");
            self.stamps[at - CHUNK].store(1, Release);
        }
    }

    /// One access to the position: its value before, and the one to store.
    fn swap(&self, new: Option<usize>) -> usize {
        let mut pos = self.pos.lock().expect("nobody panics with it");
        let before = *pos;
        *pos = new.unwrap_or(before);
        before
    }

    fn barrier(&self, steps: Steps) {
        if steps.barrier {
            drop(self.instruction.lock());
        }
    }

    /// Another thread leaves the session. Returns whether the memory was given back.
    pub fn leave(&self, steps: Steps) -> bool {
        let mut left = 0;
        for round in 0.. {
            let at = self.swap(None);
            if at < CHUNK {
                break;
            }
            if round == 3 {
                return false;
            }
            left = at;
            if steps.exchange {
                left = self.swap(Some(0));
            } else {
                self.swap(Some(0));
            }
            self.barrier(steps);
        }
        let reserved = left.saturating_sub(CHUNK).min(SLOTS);
        // Each is looked at, as the acquire loads order what their writers did before this.
        let open = (0..reserved).filter(|&i| self.stamps[i].load(Acquire) == 0).count();
        if open > 0 && steps.looks_for_open {
            return false;
        }
        self.mapped.store(0, Relaxed);
        true
    }
}

impl Default for Leaving {
    fn default() -> Self {
        Leaving::new()
    }
}
