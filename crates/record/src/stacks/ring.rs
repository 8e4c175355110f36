//! The rings through which the kernel hands over samples, and their records.
//!
//! Records of one ring are in order of time; rings of several CPUs are merged by time, so that a process's mappings are
//! known before its samples. Layouts: perf_event_open(2).
use crate::kernel::perf::map_ring;
use crate::stacks::registers;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

/// Offsets in the first page of a ring (struct perf_event_mmap_page).
const DATA_HEAD: usize = 1024;
const DATA_TAIL: usize = 1032;
/// pid, tid; time; CPU; number of the event: the end of each record that is no sample.
const ID_BYTES: usize = 32;
/// Addresses from here up in a call chain are marks: of the kernel's part, of the user's.
const MARKS: u64 = u64::MAX - 4095;
const MARK_KERNEL: u64 = (-128i64) as u64;

/// The ring of one CPU.
#[derive(Debug)]
pub(crate) struct Ring {
    map: memmap2::MmapRaw,
    page_bytes: usize,
    data_bytes: u64,
    /// Records up to here were there at the last [`Ring::look`].
    head: u64,
    tail: u64,
    /// Records up to here have given their room back.
    given_back: u64,
    /// A record that lies across the end of the ring, in one piece.
    joined: Vec<u8>,
}

/// One record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'a> {
    pub(crate) kind: u32,
    pub(crate) misc: u16,
    /// All of it.
    bytes: &'a [u8],
}

/// The fields that every record has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Common {
    pub(crate) pid: i32,
    pub(crate) tid: i32,
    pub(crate) time_ns: u64,
    pub(crate) cpu: u32,
    pub(crate) event: u64,
}

pub(crate) const MMAP2: u32 = 10;
pub(crate) const LOST: u32 = 2;
pub(crate) const COMM: u32 = 3;
pub(crate) const EXIT: u32 = 4;
pub(crate) const THROTTLE: u32 = 5;
pub(crate) const UNTHROTTLE: u32 = 6;
pub(crate) const FORK: u32 = 7;
pub(crate) const SAMPLE: u32 = 9;
/// `misc` of a [`COMM`] that exec(2) caused.
pub(crate) const COMM_EXEC: u16 = 1 << 13;

/// A sample.
#[derive(Debug)]
pub(crate) struct Taken<'a> {
    pub(crate) common: Common,
    /// Words of the call chain that the kernel followed in itself, innermost first.
    pub(crate) chain: &'a [u8],
    /// perf's words for the user's registers; `None`: a thread without a user's part.
    pub(crate) registers: Option<[u64; registers::N]>,
    /// Whether it runs 64-bit code.
    pub(crate) is_64_bit: bool,
    /// The copy of the stack, and whether the stack goes on after it.
    pub(crate) stack: &'a [u8],
    pub(crate) is_cut: bool,
}

/// The ring of one CPU, and the events that write to it.
#[derive(Debug)]
pub(super) struct PerCpu {
    pub(super) cpu: u32,
    pub(super) ring: Ring,
    /// Its ring is the one above.
    pub(super) leader: OwnedFd,
    /// Of further threads.
    pub(super) _changes: Vec<OwnedFd>,
    pub(super) samples: Vec<OwnedFd>,
    /// Until when its samples wake the recorder (CLOCK_MONOTONIC, ns).
    pub(super) wakes_until_ns: u64,
}

impl Ring {
    /// Maps the ring of an event.
    ///
    /// # Errors
    /// When there is no memory for it, or none that the user may lock.
    pub(crate) fn map(event: &OwnedFd, pages: usize) -> io::Result<Ring> {
        let (map, page_bytes) = map_ring(event, pages)?;
        Ok(Ring {
            data_bytes: (map.len() - page_bytes) as u64,
            map,
            page_bytes,
            head: 0,
            tail: 0,
            given_back: 0,
            joined: Vec::new(),
        })
    }

    /// Bytes for records.
    pub(crate) fn data_bytes(&self) -> u64 {
        self.data_bytes
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: both offsets used lie in the first page, aligned; the kernel updates them atomically.
        unsafe { AtomicU64::from_ptr(self.map.as_mut_ptr().add(offset).cast()) }
    }

    /// Notes which records are there now; gives their bytes.
    pub(crate) fn look(&mut self) -> u64 {
        // ORDER acquire; pairs with the kernel's barrier before it moves data_head: the records up to head are visible.
        self.head = self.word(DATA_HEAD).load(Ordering::Acquire);
        self.head - self.tail
    }

    /// The time of the next record.
    pub(crate) fn next_time(&mut self) -> Option<u64> {
        Some(self.peek()?.common()?.time_ns)
    }

    /// The next record, which stays.
    pub(crate) fn peek(&mut self) -> Option<Record<'_>> {
        if self.head - self.tail < 8 {
            return None;
        }
        let data = self.map.as_ptr();
        let at = (self.tail % self.data_bytes) as usize;
        // SAFETY: the kernel writes nothing between tail and head. Records are aligned to 8 bytes, and so is the ring: a
        // header never lies across its end.
        let header = unsafe { std::slice::from_raw_parts(data.add(self.page_bytes + at), 8) };
        let size = usize::from(u16::from_ne_bytes([header[6], header[7]])).max(8);
        let size = size.min((self.head - self.tail) as usize);
        let kind = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]);
        let misc = u16::from_ne_bytes([header[4], header[5]]);
        let first = size.min(self.data_bytes as usize - at);
        // SAFETY: as above; both pieces lie in the data pages.
        let pieces = unsafe {
            [
                std::slice::from_raw_parts(data.add(self.page_bytes + at), first),
                std::slice::from_raw_parts(data.add(self.page_bytes), size - first),
            ]
        };
        let bytes = match pieces[1].is_empty() {
            true => pieces[0],
            false => {
                if self.joined.is_empty() {
                    self.joined.extend_from_slice(pieces[0]);
                    self.joined.extend_from_slice(pieces[1]);
                }
                &self.joined
            }
        };
        Some(Record { kind, misc, bytes })
    }

    /// Passes over the next record. The kernel gets its room with [`Ring::give_back`], or here once there is much of it: the
    /// first stack of a program may take long to follow, and the ring must not fill meanwhile.
    pub(crate) fn pass(&mut self) {
        if let Some(record) = self.peek() {
            self.tail += record.bytes.len() as u64;
            self.joined.clear();
            if self.tail - self.given_back >= self.data_bytes / 16 {
                self.give_back();
            }
        }
    }

    /// Gives the room of passed records back to the kernel.
    pub(crate) fn give_back(&mut self) {
        self.given_back = self.tail;
        // ORDER release; pairs with the kernel's read of data_tail: our reads are done before it overwrites.
        self.word(DATA_TAIL).store(self.tail, Ordering::Release);
    }
}

impl<'a> Record<'a> {
    pub(crate) fn common(&self) -> Option<Common> {
        let at = match self.kind {
            // Identifier, pid, tid, time, CPU.
            SAMPLE => 16,
            _ => self.bytes.len().checked_sub(ID_BYTES)?,
        };
        let event_at = match self.kind {
            SAMPLE => 8,
            _ => at + 24,
        };
        Some(Common {
            pid: self.u32(at)? as i32,
            tid: self.u32(at + 4)? as i32,
            time_ns: self.u64(at + 8)?,
            cpu: self.u32(at + 16)?,
            event: self.u64(event_at)?,
        })
    }

    pub(crate) fn u32(&self, at: usize) -> Option<u32> {
        Some(u32::from_ne_bytes(*self.bytes.get(at..)?.first_chunk()?))
    }

    pub(crate) fn u64(&self, at: usize) -> Option<u64> {
        Some(u64::from_ne_bytes(*self.bytes.get(at..)?.first_chunk()?))
    }

    /// The text from `at` on to the first zero byte.
    pub(crate) fn text(&self, at: usize) -> Option<String> {
        let end = self.bytes.len().checked_sub(ID_BYTES)?;
        let bytes = self.bytes.get(at..end)?;
        let text = bytes.split(|&b| b == 0).next().unwrap_or_default();
        Some(String::from_utf8_lossy(text).into_owned())
    }

    /// A [`SAMPLE`]. `has_chain`: the event asked for the kernel's call chain.
    pub(crate) fn sample(&self, has_chain: bool) -> Option<Taken<'a>> {
        let common = self.common()?;
        let mut at = 40;
        let mut chain: &[u8] = &[];
        if has_chain {
            let n = usize::try_from(self.u64(at)?).ok()?;
            let end = (at + 8).checked_add(n.checked_mul(8)?)?;
            chain = self.bytes.get(at + 8..end)?;
            at = end;
        }
        let abi = self.u64(at)?;
        at += 8;
        let mut words = None;
        if abi != 0 {
            let mut values = [0; registers::N];
            for value in &mut values {
                *value = self.u64(at)?;
                at += 8;
            }
            words = Some(values);
        }
        let asked = usize::try_from(self.u64(at)?).ok()?;
        at += 8;
        let mut copied = 0;
        if asked > 0 {
            copied = usize::try_from(self.u64(at.checked_add(asked)?)?).ok()?.min(asked);
        }
        Some(Taken {
            common,
            chain,
            registers: words,
            is_64_bit: abi == 2,
            stack: self.bytes.get(at..at + copied)?,
            is_cut: copied == asked,
        })
    }
}

/// The kernel's addresses of a call chain, innermost first, each inside of its call.
pub(crate) fn kernel_part(chain: &[u8]) -> Vec<u64> {
    let words =
        chain.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("eight bytes")));
    let mut in_kernel = false;
    let mut addresses = Vec::new();
    for word in words {
        match word {
            MARKS.. => in_kernel = word == MARK_KERNEL,
            // The first was interrupted; the others called.
            _ if in_kernel => addresses.push(word - u64::from(!addresses.is_empty())),
            _ => {}
        }
    }
    addresses
}
