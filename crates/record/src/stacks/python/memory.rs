//! The memory of another process, read a page at a time, each page once a drain.
//!
//! What is read belongs to the program: it may be anything, and change while it is read. So nothing here trusts it: numbers of
//! reads are bounded, and whoever uses a word checks what it leads to.
use std::collections::HashMap;

const PAGE: usize = 4096;
/// Most pages that are read of one process in a drain: 2 MiB.
const PAGES_MAX: usize = 512;
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
}

/// A process.
#[derive(Debug)]
pub(super) struct Process(pub(super) i32);

impl Source for Process {
    fn page(&mut self, address: u64) -> Option<Box<Page>> {
        let mut page = Box::new([0; PAGE]);
        let local = libc::iovec {
            iov_base: page.as_mut_ptr().cast(),
            iov_len: PAGE,
        };
        let remote = libc::iovec {
            iov_base: address as *mut libc::c_void,
            iov_len: PAGE,
        };
        // SAFETY: the kernel writes at most a page to `page`; the other address is only read, in the other process.
        let n = unsafe { libc::process_vm_readv(self.0, &local, 1, &remote, 1, 0) };
        (n == PAGE as isize).then_some(page)
    }
}

/// Memory, and the pages of it that were read.
#[derive(Debug)]
pub(super) struct Memory<S> {
    source: S,
    pages: HashMap<u64, Option<Box<Page>>>,
    steps: u64,
}

impl<S: Source> Memory<S> {
    pub(super) fn new(source: S) -> Memory<S> {
        Memory {
            source,
            pages: HashMap::new(),
            steps: 0,
        }
    }

    /// Forgets what was read: it may have changed.
    pub(super) fn forget(&mut self) {
        self.pages.clear();
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
            let may_be = (0x1_0000..1 << 56).contains(&start) && self.pages.len() < PAGES_MAX;
            let page = may_be.then(|| self.source.page(start)).flatten();
            if self.pages.len() < PAGES_MAX {
                self.pages.insert(start, page);
            }
        }
        self.pages.get(&start)?.as_deref()
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
