//! Finding the ring files of a session, however many others its programs put there.
//!
//! A file is opened when its name is first seen. One that its program is still making is put to the end of a queue, of which each
//! look takes a few: thousands of files that never become rings cost each tick the same as none.
use crate::error::{Error, Result};
use crate::guard::safefs::Held;
use crate::rings::ringfile::{DirWatch, NotYet, RingName, Segment, is_shortage};
use crate::rings::shm::Shared;
use std::collections::{HashSet, VecDeque};

/// Unfinished files that one look tries.
const TRIES: usize = 256;
/// Below so many remembered names none is forgotten.
const FEW_NAMES: usize = 4096;

/// Looks for ring files in one session.
#[derive(Debug)]
pub struct Discovery {
    session: Held,
    watch: DirWatch,
    /// Names that need no more looking at: opened, refused, or in the queue.
    seen: HashSet<String>,
    waiting: VecDeque<(String, RingName)>,
}

impl Discovery {
    /// In this session.
    pub fn new(session: &Held) -> Discovery {
        Discovery {
            session: session.clone(),
            watch: DirWatch::new(session),
            seen: HashSet::new(),
            waiting: VecDeque::new(),
        }
    }

    /// Ring files that are new and ready; with `all`, every unfinished one is tried once more. `room` says whether a client's
    /// file may still be opened.
    pub fn look(
        &mut self,
        all: bool,
        mut room: impl FnMut(&RingName) -> bool,
    ) -> Vec<(RingName, Segment)> {
        if all {
            self.watch.force();
        }
        let first_tries = self.list(&mut room);
        let tries = match all {
            true => self.waiting.len(),
            false => first_tries + TRIES,
        };
        let mut ready = Vec::new();
        for _ in 0..tries.min(self.waiting.len()) {
            // The newest first: those that were tried before are at the front.
            let Some((name, ring)) = self.waiting.pop_back() else {
                break;
            };
            match Segment::open(&self.session, &name, &ring) {
                Ok(segment) => ready.push((ring, segment)),
                Err(NotYet) => self.waiting.push_front((name, ring)),
            }
        }
        ready
    }

    /// Whether all files that are rings could be opened; to be asked at the end.
    ///
    /// # Errors
    /// When one could not be for want of descriptors or memory.
    pub fn check(&self) -> Result<()> {
        self.waiting.iter().try_for_each(|(name, _)| match Shared::open(&self.session, name) {
            Err(e) if is_shortage(&e) => Err(Error::file("open", &self.session.named(name), e)),
            _ => Ok(()),
        })
    }

    /// Puts what is new into the queue; says how many.
    fn list(&mut self, room: &mut impl FnMut(&RingName) -> bool) -> usize {
        let Some(names) = self.watch.changed() else {
            return 0;
        };
        // Names of files that are gone would add up.
        if self.seen.len() > 2 * names.len() + FEW_NAMES {
            let there: HashSet<&String> = names.iter().collect();
            self.seen.retain(|name| there.contains(name));
            self.waiting.retain(|(name, _)| there.contains(name));
        }
        let before = self.waiting.len();
        for name in names {
            let Some(ring) = RingName::parse(&name) else {
                continue;
            };
            if !self.seen.insert(name.clone()) {
                continue;
            }
            if room(&ring) {
                self.waiting.push_back((name, ring));
            }
        }
        self.waiting.len() - before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_becomes_a_ring_is_found_behind_thousands_that_do_not() {
        let scratch = tempfile::tempdir().unwrap();
        let session = Held::open(scratch.path()).unwrap();
        let put = |name: &str, bytes: &[u8]| std::fs::write(scratch.path().join(name), bytes);
        for pid in 0..3000 {
            put(&format!("p{pid}-0.ring0"), b"").unwrap();
        }
        put("p7000-0.ring0", b"half").unwrap();
        let mut discovery = Discovery::new(&session);
        let looks = |discovery: &mut Discovery, n: usize| -> usize {
            (0..n).map(|_| discovery.look(false, |_| true).len()).sum()
        };
        assert_eq!(looks(&mut discovery, 3), 0);
        put("p7000-0.ring0", &crate::rings::ringfile::tests::one_chunk_bytes(1)).unwrap();
        assert_eq!(looks(&mut discovery, 3001 / TRIES + 2), 1);
        assert_eq!(discovery.look(true, |_| true).len(), 0);
    }

    #[test]
    fn what_there_is_no_room_for_is_asked_about_once() {
        let scratch = tempfile::tempdir().unwrap();
        let session = Held::open(scratch.path()).unwrap();
        std::fs::write(scratch.path().join("p1-0.ring0"), b"").unwrap();
        let mut discovery = Discovery::new(&session);
        let mut asked = 0;
        for _ in 0..3 {
            discovery.look(true, |_| {
                asked += 1;
                false
            });
        }
        assert_eq!((asked, discovery.waiting.len()), (1, 0));
    }
}
