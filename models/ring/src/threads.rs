//! Writer against recorder, under loom.
//!
//! A chunk goes FREE -> OWNED (a writer takes it by compare-and-swap) -> FULL (the writer hands it over) -> FREE (the recorder
//! has read and zeroed it). Its payload is plain memory, so loom reports every access that the state does not order. Beside
//! it: a flight recorder's chunk that its owner empties while a snapshot copies it ([`FlightChunk`]), and a process that changes
//! sessions while a thread starts a chunk ([`Session`]).

use loom::cell::UnsafeCell;
use loom::sync::atomic::{
    AtomicU32, AtomicUsize,
    Ordering::{self, Acquire, Relaxed, Release, SeqCst},
    fence,
};

/// Free: all zero, any thread may take it.
pub const FREE: u32 = 0;
/// A thread writes it.
pub const OWNED: u32 = 1;
/// The recorder may read, zero and free it.
pub const FULL: u32 = 2;
/// Events a model chunk holds.
pub const SLOTS: usize = 2;

/// The value that the owner stores into `seq` before it empties a chunk.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// `KASURI_SEQ_EMPTYING`.
    Emptying,
    /// The number of its next use: looks enough, is not.
    NewSeq,
    /// Nothing.
    Nothing,
}

/// The orders of the protocol; a control breaks one.
#[derive(Clone, Copy)]
pub struct Orders {
    /// Writer: OWNED -> FULL.
    pub full: Ordering,
    /// Recorder: FULL -> FREE.
    pub free: Ordering,
    /// Writer: the stamp of an event.
    pub stamp: Ordering,
    /// Recorder zeroes before it frees, not after.
    pub zero_first: bool,
    /// Chunks are taken by compare-and-swap, not by load and store.
    pub take_by_cas: bool,
    /// OVERWRITE: what `seq` is set to before the first zero.
    pub mark: Mark,
    /// OVERWRITE: the new `seq` after the last zero.
    pub new_seq: Ordering,
    /// Attaching elsewhere and starting a chunk have a seq_cst fence between store and load.
    pub fences: bool,
}

impl Orders {
    /// As in kasuri.h.
    pub const RIGHT: Orders = Orders {
        full: Release,
        free: Release,
        stamp: Release,
        zero_first: true,
        take_by_cas: true,
        mark: Mark::Emptying,
        new_seq: Release,
        fences: true,
    };
}

/// One chunk. `payload` is plain memory: loom reports any access to it that is not ordered.
pub struct Chunk {
    /// FREE, OWNED, FULL.
    pub state: AtomicU32,
    used: UnsafeCell<usize>,
    stamp: [AtomicUsize; SLOTS],
    payload: [UnsafeCell<usize>; SLOTS],
}

impl Chunk {
    /// A zeroed chunk.
    pub fn new(state: u32) -> Chunk {
        Chunk {
            state: AtomicU32::new(state),
            used: UnsafeCell::new(0),
            stamp: [AtomicUsize::new(0), AtomicUsize::new(0)],
            payload: [UnsafeCell::new(0), UnsafeCell::new(0)],
        }
    }

    /// Take it if it is free.
    pub fn take(&self, o: Orders) -> bool {
        if o.take_by_cas {
            self.state.compare_exchange(FREE, OWNED, Acquire, Relaxed).is_ok()
        } else if self.state.load(Acquire) == FREE {
            self.state.store(OWNED, Relaxed);
            true
        } else {
            false
        }
    }

    /// Owner: one event. The slot must be as the recorder left it: zero.
    pub fn emit(&self, slot: usize, value: usize, o: Orders) {
        self.payload[slot].with_mut(|p| {
            // SAFETY: only the owner gets here; loom checks that.
            unsafe {
                assert_eq!(*p, 0, "slot not zeroed");
                *p = value;
            }
        });
        self.stamp[slot].store(value, o.stamp);
    }

    /// Owner: give it to the recorder.
    pub fn hand_over(&self, used: usize, o: Orders) {
        // SAFETY: still the owner.
        self.used.with_mut(|p| unsafe { *p = used });
        self.state.store(FULL, o.full);
    }

    /// Recorder, FULL chunk: its events, then zero and free.
    pub fn drain(&self, o: Orders) -> usize {
        // SAFETY: FULL was read with acquire, so the owner has left.
        let used = self.used.with(|p| unsafe { *p });
        let kept = (0..used).filter(|&i| self.read(i) != 0).count();
        if !o.zero_first {
            self.state.store(FREE, o.free);
        }
        self.zero();
        if o.zero_first {
            self.state.store(FREE, o.free);
        }
        kept
    }

    fn zero(&self) {
        // SAFETY: as in drain.
        self.used.with_mut(|p| unsafe { *p = 0 });
        for i in 0..SLOTS {
            self.stamp[i].store(0, Relaxed);
            // SAFETY: as in drain.
            self.payload[i].with_mut(|p| unsafe { *p = 0 });
        }
    }

    /// Any thread, at any time: the event in a slot, 0 when it is not committed.
    pub fn read(&self, slot: usize) -> usize {
        let stamp = self.stamp[slot].load(Acquire);
        if stamp == 0 {
            return 0;
        }
        // SAFETY: committed events do not change while the chunk is not freed.
        let value = self.payload[slot].with(|p| unsafe { *p });
        assert_eq!(value, stamp, "a committed event without its payload");
        value
    }

    /// At the end, when owner and recorder have been joined.
    pub fn committed(&self) -> usize {
        (0..SLOTS).filter(|&i| self.read(i) != 0).count()
    }
}

/// A writer that emits `n` events into `chunks`, discarding when none is free. Starts without a chunk.
/// Returns the number of lost events.
pub fn write(chunks: &[Chunk], n: usize, o: Orders) -> usize {
    let (mut now, mut used, mut lost) = (None, 0, 0);
    for value in 1..=n {
        if now.is_none() || used == SLOTS {
            let Some(next) = (0..chunks.len()).find(|&i| chunks[i].take(o)) else {
                lost += 1;
                continue;
            };
            if let Some(old) = now {
                let old: &Chunk = &chunks[old];
                old.hand_over(used, o);
            }
            now = Some(next);
            used = 0;
        }
        if let Some(i) = now {
            chunks[i].emit(used, value, o);
            used += 1;
        }
    }
    lost
}

/// One pass of the recorder. Returns the number of events kept.
pub fn drain_once(chunks: &[Chunk], o: Orders) -> usize {
    chunks.iter().filter(|c| c.state.load(Acquire) == FULL).map(|c| c.drain(o)).sum()
}

/// Being emptied.
pub const EMPTYING: usize = usize::MAX;

/// OVERWRITE: a chunk of the flight recorder that its owner reuses while a snapshot copies it.
pub struct FlightChunk {
    seq: AtomicUsize,
    words: [AtomicUsize; 2],
}

impl FlightChunk {
    /// Chunk 1 of its stream, full of ones.
    pub fn new() -> FlightChunk {
        FlightChunk { seq: AtomicUsize::new(1), words: [AtomicUsize::new(1), AtomicUsize::new(1)] }
    }

    /// Owner: empty it, then write chunk 2's events (twos).
    pub fn reuse(&self, o: Orders) {
        if o.mark != Mark::Nothing {
            let mark = if o.mark == Mark::NewSeq { 2 } else { EMPTYING };
            self.seq.store(mark, Relaxed);
            fence(Release);
        }
        for w in &self.words {
            w.store(0, Relaxed);
        }
        self.seq.store(2, o.new_seq);
        for w in &self.words {
            w.store(2, Release);
        }
    }

    /// Recorder: a copy, if it is known to be of one use of the chunk: its seq and its words (2 may still be empty).
    pub fn copy(&self) -> Option<(usize, [usize; 2])> {
        let seq = self.seq.load(Acquire);
        let copy = [self.words[0].load(Relaxed), self.words[1].load(Relaxed)];
        fence(Acquire);
        (seq != EMPTYING && self.seq.load(Relaxed) == seq).then_some((seq, copy))
    }
}

impl Default for FlightChunk {
    fn default() -> Self {
        FlightChunk::new()
    }
}

/// The fields that start_chunk() and end_session() in kasuri.h share.
pub struct Session {
    /// Counts sessions.
    pub epoch: AtomicUsize,
    /// A thread's room for fast events, 0: none.
    pub limit: AtomicUsize,
}

impl Session {
    /// In session 1, without a chunk.
    pub fn new() -> Session {
        Session { epoch: AtomicUsize::new(1), limit: AtomicUsize::new(0) }
    }

    /// The thread opens a chunk that it took in session 1.
    pub fn start_chunk(&self, o: Orders) {
        self.limit.store(1, Relaxed);
        if o.fences {
            fence(SeqCst);
        }
        if self.epoch.load(Relaxed) != 1 {
            self.limit.store(0, Relaxed);
        }
    }

    /// Another thread takes the process to session 2.
    pub fn leave(&self, o: Orders) {
        self.epoch.store(2, Relaxed);
        if o.fences {
            fence(SeqCst);
        }
        self.limit.store(0, Relaxed);
    }
}

impl Default for Session {
    fn default() -> Self {
        Session::new()
    }
}
