//! A copy of a chunk that its owner may still be writing: at the end of a recording, and in a flight recorder's snapshot.
//!
//! A slot whose two words are 0 is the end of the events, or the start of a record of which nothing is written yet.
//! Only its owner knows the length of that record, so a reader that goes on slot by slot may take its payload,
//! written meanwhile, for an event. It cannot stop there either: signal handlers commit events behind it.
//!
//! Programs store word 1, which has the length, before any of the payload, and the stamp last. So whatever a reader has
//! seen of a payload, a *second* look at the word 1 of its record finds the length. [`committed`] takes the next slot that
//! is not 0 for the start of a record only when, after it was read, word 1 of every slot skipped before it is still 0.
//! Model, with controls: `models/ring/src/lengths.rs`; docs/design/ring.md, race 13.
use std::sync::atomic::{Ordering, fence};

/// Words that a program writes meanwhile; slot `s` is the words `2 * s` and `2 * s + 1`.
pub(crate) trait Words {
    /// The number of words.
    fn count(&self) -> usize;
    /// A stamp. ORDER acquire; pairs with the release store that commits an event: its other words are seen with it.
    fn stamp(&self, at: usize) -> u64;
    /// Any other word. ORDER relaxed: of a committed event it was ordered by its stamp.
    fn word(&self, at: usize) -> u64;
}

/// A program that plays tricks could let us look for ever: looks, for each slot.
const MOST_LOOKS: usize = 32;

/// The committed records, where they lie; open ones with their length where that is known, all else 0. It ends with the
/// last committed one.
pub(crate) fn committed(words: &impl Words) -> Vec<u64> {
    let slots = words.count() / 2;
    let mut looks = slots * MOST_LOOKS;
    let mut out = vec![0; 2 * slots];
    let (mut at, mut end) = (0, 0);
    while at < slots && looks > 0 {
        looks -= 1;
        let (stamp, word) = (words.stamp(2 * at), words.word(2 * at + 1));
        if stamp == 0 && word == 0 {
            match after_hole(words, at, slots, &mut looks) {
                Some(next) => at = next,
                None => break,
            }
            continue;
        }
        let next = at + ((word >> 8 & 0xff) as usize).max(1);
        if next > slots {
            break;
        }
        out[2 * at + 1] = word;
        if stamp != 0 {
            out[2 * at] = stamp;
            (2 * at + 2..2 * next).for_each(|i| out[i] = words.word(i));
            end = next;
        }
        at = next;
    }
    out.truncate(2 * end);
    out
}

/// The slot at which the walk continues after the slot `hole`, which was all 0: the next record, or `hole` again when
/// its length is there by now. `None`: nothing follows.
fn after_hole(words: &impl Words, hole: usize, slots: usize, looks: &mut usize) -> Option<usize> {
    let mut next =
        (hole + 1..slots).find(|&s| words.stamp(2 * s) != 0 || words.word(2 * s + 1) != 0)?;
    loop {
        *looks = looks.saturating_sub(next - hole);
        // ORDER acquire; pairs with the release between word 1 and payload in kasuri.h: if what was read of `next` is the
        // payload of a record that starts before it, then the length of that record is seen now.
        fence(Ordering::Acquire);
        match (hole..next).find(|&s| words.word(2 * s + 1) != 0) {
            None => return Some(next),
            Some(start) if start == hole => return Some(hole),
            // A record's start, or payload of one that started before it: looked at in the same way.
            Some(start) => next = start,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kasuri_format::ring::{ChunkHeader, Kind, parse_chunks};
    use std::cell::{Cell, RefCell};
    use std::mem::{offset_of, size_of};

    /// A program that takes `steps[i].1` of its steps when the reader makes its look number `steps[i].0`.
    struct Program {
        words: RefCell<[u64; 16]>,
        script: Vec<(usize, u64)>,
        done: Cell<usize>,
        looks: Cell<usize>,
        steps: [(usize, usize); 2],
    }

    fn word1(kind: Kind, slots: u64) -> u64 {
        kind as u64 | slots << 8
    }

    impl Program {
        /// An emit of two slots is open in slot 0, nothing of it written; a handler above it has committed slot 2. Then
        /// the handler returns, the emit goes on, and one of three slots follows. All payload looks like an event.
        fn new(steps: [(usize, usize); 2]) -> Program {
            let looks_like = |kind| [66, word1(kind, 1)];
            let mut words = [0; 16];
            words[4..6].copy_from_slice(&[10, word1(Kind::Begin, 1)]);
            let [a, b] = looks_like(Kind::Trigger);
            let [c, d] = looks_like(Kind::Message);
            let script = vec![
                (1, word1(Kind::TaskCreate, 2)),
                (2, a),
                (3, b),
                (0, 20),
                (7, word1(Kind::ThreadName, 3)),
                (11, d),
                (10, c),
                (8, a),
                (9, b),
                (6, 30),
            ];
            Program {
                words: RefCell::new(words),
                script,
                done: Cell::new(0),
                looks: Cell::new(0),
                steps,
            }
        }

        fn look(&self, at: usize) -> u64 {
            let now = self.looks.replace(self.looks.get() + 1);
            for (_, n) in self.steps.iter().filter(|(look, _)| *look == now) {
                for &(word, value) in self.script.iter().skip(self.done.get()).take(*n) {
                    self.words.borrow_mut()[word] = value;
                }
                self.done.set(self.done.get() + n);
            }
            self.words.borrow()[at]
        }
    }

    impl Words for Program {
        fn count(&self) -> usize {
            16
        }
        fn stamp(&self, at: usize) -> u64 {
            self.look(at)
        }
        fn word(&self, at: usize) -> u64 {
            self.look(at)
        }
    }

    /// Slot by slot where no length is written, then all in one go.
    fn slot_by_slot(words: &impl Words) -> Vec<u64> {
        let (mut at, mut end) = (0, 0);
        while at < words.count() / 2 {
            let stamp = words.stamp(2 * at);
            at += ((words.word(2 * at + 1) >> 8 & 0xff) as usize).max(1);
            if stamp != 0 && 2 * at <= words.count() {
                end = at;
            }
        }
        (0..2 * end).map(|i| words.word(i)).collect()
    }

    /// Whether a copy has the handler's event, and of the others no more than what the program wrote.
    fn is_true(copy: &[u64]) -> bool {
        let mut bytes = vec![0; size_of::<ChunkHeader>()];
        bytes.extend(copy.iter().flat_map(|word| word.to_le_bytes()));
        let used = bytes.len() as u32;
        bytes[offset_of!(ChunkHeader, stream)] = 1;
        bytes[offset_of!(ChunkHeader, used)..][..4].copy_from_slice(&used.to_le_bytes());
        let (chunks, error) = parse_chunks(&bytes);
        let mut events = chunks[0].events();
        let kinds: Vec<(u64, u8, usize)> =
            (&mut events).map(|e| (e.stamp, e.kind, e.payload.len())).collect();
        let written = [
            (20, Kind::TaskCreate as u8, 16),
            (10, Kind::Begin as u8, 0),
            (30, Kind::ThreadName as u8, 32),
        ];
        error.is_none()
            && events.damaged == 0
            && kinds.contains(&written[1])
            && kinds.iter().all(|e| written.contains(e))
    }

    /// The number of schedules in which the program goes on at two moments and the copy is false.
    fn false_copies(read: impl Fn(&Program) -> Vec<u64>) -> usize {
        let mut wrong = 0;
        for first in 0..50 {
            for second in first..50 {
                for (n, m) in (0..=10).flat_map(|n| (0..=10 - n).map(move |m| (n, m))) {
                    wrong += usize::from(!is_true(&read(&Program::new([(first, n), (second, m)]))));
                }
            }
        }
        wrong
    }

    #[test]
    fn payload_that_is_being_written_is_no_event() {
        assert_eq!(false_copies(committed), 0);
        // All that was written before the reader came is there.
        let copy = committed(&Program::new([(0, 10), (0, 0)]));
        assert!(copy.len() == 12 && copy[0] == 20 && copy[6] == 30);
    }

    #[test]
    fn control_stepping_slot_by_slot_takes_payload_for_an_event() {
        assert!(false_copies(slot_by_slot) > 0);
    }

    /// Each look finds something else.
    struct Liar(Cell<u64>);
    impl Words for Liar {
        fn count(&self) -> usize {
            1 << 16
        }
        fn stamp(&self, _: usize) -> u64 {
            0
        }
        fn word(&self, _: usize) -> u64 {
            self.0.set(self.0.get().wrapping_mul(0x5851_f42d_4c95_7f2d) + 1);
            self.0.get() >> 63 << 8
        }
    }

    #[test]
    fn a_program_that_plays_tricks_is_left() {
        committed(&Liar(Cell::new(1)));
    }
}
