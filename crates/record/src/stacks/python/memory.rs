//! The memory of another process, read a page at a time, each page once a drain.
//!
//! Another process does that (`guard/reader.rs`), since a page may never come. To ask it takes as long as to read ten pages, and each time
//! much the same pages are needed: so with the first one all are read that the last drains needed.
//!
//! What is read belongs to the program: it may be anything, and change while it is read. So nothing here trusts it: numbers of
//! reads are bounded, and whoever uses a word checks what it leads to.
use std::collections::HashMap;

pub(super) const PAGE: usize = 4096;
/// Most pages that are read of one process in a drain: 2 MiB.
const PAGES_MAX: usize = 512;
/// Most of them that are read before they are needed, and for how many times after one at which they were.
const LIKELY_MAX: usize = 63;
const LIKELY_FOR: u8 = 16;
/// Most bytes of one piece.
const PIECE_MAX: usize = 256 << 10;
/// Steps that looking at one process may take in a drain, of some 5 ns each; then nothing more of it is known.
const STEPS_MAX: u64 = 1 << 20;
/// Bytes that are copied in one step.
const STEP_BYTES: usize = 64;

/// A page.
pub(super) type Page = [u8; PAGE];

/// Where pages come from.
pub(super) trait Source {
    /// Reads the page at an address; `None`: there is none, or it may not be read.
    fn page(&mut self, address: u64) -> Option<Box<Page>>;

    /// Reads several, and hands over those that there are.
    fn pages(&mut self, addresses: &[u64], take: &mut dyn FnMut(u64, Box<Page>)) {
        for &address in addresses {
            if let Some(page) = self.page(address) {
                take(address, page);
            }
        }
    }
}

/// A page, if there is one, and whether it was needed.
#[derive(Debug, Default)]
struct Known {
    page: Option<Box<Page>>,
    is_needed: bool,
}

/// Memory, and the pages of it that were read.
#[derive(Debug)]
pub(super) struct Memory<S> {
    source: S,
    pages: HashMap<u64, Known>,
    /// Pages that are likely to be needed, and for how many more times.
    likely: HashMap<u64, u8>,
    steps: u64,
}

impl<S: Source> Memory<S> {
    pub(super) fn new(source: S) -> Memory<S> {
        Memory { source, pages: HashMap::new(), likely: HashMap::new(), steps: 0 }
    }

    /// Forgets what was read: it may have changed.
    pub(super) fn forget(&mut self) {
        if !self.pages.is_empty() {
            self.likely.values_mut().for_each(|left| *left -= 1);
            self.likely.retain(|_, left| *left > 0);
            // Of those that there are: what is no program's memory is not asked for.
            let is_likely = |known: &Known| known.is_needed && known.page.is_some();
            for (&at, _) in self.pages.iter().filter(|(_, known)| is_likely(known)) {
                if self.likely.len() < LIKELY_MAX || self.likely.contains_key(&at) {
                    self.likely.insert(at, LIKELY_FOR);
                }
            }
            self.pages.clear();
        }
        self.steps = 0;
    }

    /// Counts work that what was read leads to: frames that call each other, or code that is found at many, may make much of few pages.
    /// `None`: it was too much.
    pub(super) fn step(&mut self, n: usize) -> Option<()> {
        self.steps = self.steps.saturating_add(n as u64);
        (self.steps <= STEPS_MAX).then_some(())
    }

    /// The page that holds an address.
    pub(super) fn page(&mut self, address: u64) -> Option<&Page> {
        let start = address & !(PAGE as u64 - 1);
        if !self.pages.contains_key(&start) {
            // No program has memory there.
            let may_be = (0x1_0000..1 << 56).contains(&start);
            if self.pages.len() >= PAGES_MAX {
                return None;
            }
            if may_be {
                self.read(start);
            }
        }
        let known = self.pages.entry(start).or_default();
        known.is_needed = true;
        known.page.as_deref()
    }

    /// Reads a page, and for the first one also those that are likely to be needed.
    fn read(&mut self, start: u64) {
        let mut wanted = vec![start];
        if self.pages.is_empty() {
            wanted.extend(self.likely.keys().filter(|&&at| at != start));
        }
        let pages = &mut self.pages;
        self.source.pages(&wanted, &mut |at, page| {
            let page = Some(page);
            pages.insert(at, Known { page, is_needed: false });
        });
    }

    /// Copies what lies at an address; `None`: not all of it can be read.
    pub(super) fn copy(&mut self, address: u64, out: &mut [u8]) -> Option<()> {
        self.step(1 + out.len() / STEP_BYTES)?;
        let mut at = address;
        let mut rest = out;
        while !rest.is_empty() {
            let offset = at as usize % PAGE;
            let n = rest.len().min(PAGE - offset);
            let page = self.page(at)?;
            let (now, later) = rest.split_at_mut(n);
            now.copy_from_slice(&page[offset..offset + n]);
            rest = later;
            at = at.checked_add(n as u64)?;
        }
        Some(())
    }

    pub(super) fn bytes(&mut self, address: u64, len: usize) -> Option<Vec<u8>> {
        if len > PIECE_MAX {
            return None;
        }
        let mut bytes = vec![0; len];
        self.copy(address, &mut bytes)?;
        Some(bytes)
    }

    pub(super) fn word(&mut self, address: u64) -> Option<u64> {
        let mut word = [0; 8];
        self.copy(address, &mut word)?;
        Some(u64::from_le_bytes(word))
    }

    pub(super) fn u32(&mut self, address: u64) -> Option<u32> {
        let mut word = [0; 4];
        self.copy(address, &mut word)?;
        Some(u32::from_le_bytes(word))
    }

    pub(super) fn u8(&mut self, address: u64) -> Option<u8> {
        let mut byte = [0];
        self.copy(address, &mut byte)?;
        Some(byte[0])
    }
}
