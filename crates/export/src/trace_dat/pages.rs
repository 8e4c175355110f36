//! Ring-buffer pages as the kernel would have written them: little-endian, 64-bit, 4 KiB.
//!
//! The layout is that of kernel/trace/ring_buffer.c and include/linux/ring_buffer.h:
//!
//! | bytes of a page | contents |
//! |---|---|
//! | 0..8 | stamp of the page, ns |
//! | 8..16 | `commit`: bytes of events in the low bits; bit 31: events were lost before this page |
//! | 16.. | events, each at a multiple of 4 bytes |
//!
//! An event is a word (type in the low 5 bits, ns since the event before in the upper 27) and its data. Types 1 to 28
//! are the number of data words; type 0 has the size in bytes, its own word included, in a word of its own. A delta
//! that does not fit in 27 bits (134 ms) has a word of type 30 before it, and its upper bits in the word after that.

pub const PAGE: usize = 4096;
/// Bytes of a page behind its header.
const DATA: usize = PAGE - 16;
/// Data of an event that fits in any page, with the words before it.
pub const EVENT_MAX: usize = 1024;
/// Bits of an event's delta.
const DELTA_BITS: u32 = 27;
/// RINGBUF_TYPE_TIME_EXTEND.
const TIME_EXTEND: u32 = 30;
/// Type numbers up to this count words of data.
const WORDS_MAX: usize = 28;
/// RB_MISSED_EVENTS.
const MISSED: u64 = 1 << 31;

/// Pages of one CPU. Stamps are the deltas' sums from the page's own, so each page can be read alone.
#[derive(Default)]
pub struct Pages {
    /// Full ones.
    pub bytes: Vec<u8>,
    pub n_events: u64,
    open: Vec<u8>,
    first: u64,
    last: u64,
    missed: bool,
}

impl Pages {
    /// Appends an event; `data` is a multiple of 4 bytes, at most [`EVENT_MAX`]. Stamps that go back are not kept: the
    /// event gets that of the one before it.
    pub fn push(&mut self, stamp: u64, data: &[u8]) {
        debug_assert!(data.len().is_multiple_of(4) && data.len() <= EVENT_MAX);
        // Two words at most before the data, two more for a large delta.
        if self.open.len() + data.len() + 16 > DATA {
            self.close();
        }
        if self.open.is_empty() {
            self.first = stamp.max(self.last);
            self.last = self.first;
        }
        let delta = stamp.saturating_sub(self.last);
        self.last += delta;
        let mut low = delta as u32 & ((1 << DELTA_BITS) - 1);
        if delta >> DELTA_BITS != 0 {
            self.word(low << 5 | TIME_EXTEND);
            self.word((delta >> DELTA_BITS) as u32);
            low = 0;
        }
        let words = data.len() / 4;
        if words <= WORDS_MAX {
            self.word(low << 5 | words as u32);
        } else {
            self.word(low << 5);
            self.word(data.len() as u32 + 4);
        }
        self.open.extend_from_slice(data);
        self.n_events += 1;
    }

    fn word(&mut self, word: u32) {
        self.open.extend_from_slice(&word.to_le_bytes());
    }

    /// Events are missing between the last and the next.
    pub fn gap(&mut self) {
        self.close();
        self.missed = true;
    }

    /// Ends the open page.
    pub fn close(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let flags = if self.missed { MISSED } else { 0 };
        let commit = self.open.len() as u64 | flags;
        self.bytes.extend_from_slice(&self.first.to_le_bytes());
        self.bytes.extend_from_slice(&commit.to_le_bytes());
        self.bytes.append(&mut self.open);
        let whole = self.bytes.len().next_multiple_of(PAGE);
        self.bytes.resize(whole, 0);
        self.missed = false;
    }
}
