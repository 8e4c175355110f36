//! Mapped files of other programs, which may be cut at any moment.
//!
//! A page beyond the end of a file raises SIGBUS, and any program of a session may truncate its ring while the
//! recorder reads it. Sealed memory (memfd) could not be cut, but a service would have to hand over its descriptor,
//! where the protocol has only names, and it does not outlive a killed recorder; pread(2) has no atomics. So the
//! recorder handles the signal: its handler puts zero pages over the rest of that mapping and marks it *broken*; the
//! access is repeated and reads zeroes, which the protocol takes for an empty slot. A reader must call
//! [`Guarded::is_broken`] before it uses the bytes. Any other SIGBUS ends the process as before.
use std::fs::File;
use std::io;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, Once};

/// The range of one mapping. Slots live for ever, in a list that only grows, so that the handler needs no lock.
struct Slot {
    /// 0: free. Written before `end` is; see [`Guarded::register`].
    start: AtomicUsize,
    end: AtomicUsize,
    broken: AtomicBool,
    next: *const Slot,
}

// SAFETY: `next` is written once, before the slot is published, and points to a slot that lives for ever.
unsafe impl Sync for Slot {}
// SAFETY: as above.
unsafe impl Send for Slot {}

static SLOTS: AtomicPtr<Slot> = AtomicPtr::new(null_mut());
static FREE: Mutex<Vec<&'static Slot>> = Mutex::new(Vec::new());
static PAGE_BYTES: AtomicUsize = AtomicUsize::new(4096);

/// A mapping that stays readable when its file is cut.
pub struct Guarded {
    map: memmap2::MmapRaw,
    slot: &'static Slot,
}

impl std::fmt::Debug for Guarded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Guarded({:p}, {})", self.map.as_ptr(), self.map.len())
    }
}

impl Guarded {
    /// Maps the whole file, to read and to write, shared. Processes that are forked do not get it: one that lives on would keep the memory,
    /// and count as another writer of the file.
    ///
    /// # Errors
    /// When it cannot be mapped.
    pub fn shared(file: &File) -> io::Result<Guarded> {
        let map = memmap2::MmapOptions::new().map_raw(file)?;
        // SAFETY: the range is that of the mapping, whose bytes stay as they are in this process.
        unsafe { libc::madvise(map.as_mut_ptr().cast(), map.len(), libc::MADV_DONTFORK) };
        Ok(Guarded::register(map))
    }

    /// Maps the whole file to read.
    ///
    /// # Errors
    /// When it cannot be mapped.
    pub fn read_only(file: &File) -> io::Result<Guarded> {
        Ok(Guarded::register(memmap2::MmapOptions::new().map_raw_read_only(file)?))
    }

    fn register(map: memmap2::MmapRaw) -> Guarded {
        install();
        let recycled = FREE.lock().unwrap_or_else(|e| e.into_inner()).pop();
        let slot = recycled.unwrap_or_else(new_slot);
        let start = map.as_ptr() as usize;
        slot.broken.store(false, Ordering::Relaxed);
        slot.end.store(start + map.len(), Ordering::Relaxed);
        // ORDER release; pairs with the acquire load in the handler: a slot with a start has its end.
        slot.start.store(start, Ordering::Release);
        Guarded { map, slot }
    }

    /// Whether the file was cut: reads beyond the cut returned zeroes that the file does not have.
    pub fn is_broken(&self) -> bool {
        // ORDER relaxed: the handler that sets it ran in this thread, in the middle of the access in question.
        self.slot.broken.load(Ordering::Relaxed)
    }

    /// Marks the file as cut, after a system call that reads it has failed for that reason.
    pub fn set_broken(&self) {
        self.slot.broken.store(true, Ordering::Relaxed);
    }

    /// Bytes mapped.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// The first byte of the mapping.
    pub fn as_mut_ptr(&self) -> *mut u8 {
        self.map.as_mut_ptr()
    }

    /// The bytes, for a parser. The file may change meanwhile, so the parser must not rely on reading the same value
    /// twice.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: mapped for its length as long as `self` lives; a file that is cut reads as zeroes. Other processes
        // may change the bytes meanwhile, as in any mapped file: parsers check each value they use.
        unsafe { std::slice::from_raw_parts(self.map.as_ptr(), self.map.len()) }
    }
}

impl AsRef<[u8]> for Guarded {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // Before the range is unmapped: the kernel may then give it to another mapping, over which the handler must
        // not map.
        // ORDER relaxed: no thread accesses this mapping any more.
        self.slot.start.store(0, Ordering::Relaxed);
        FREE.lock().unwrap_or_else(|e| e.into_inner()).push(self.slot);
    }
}

fn new_slot() -> &'static Slot {
    // Only one thread at a time may read the head and replace it.
    let _alone = FREE.lock().unwrap_or_else(|e| e.into_inner());
    let slot = Box::leak(Box::new(Slot {
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        broken: AtomicBool::new(false),
        next: SLOTS.load(Ordering::Relaxed),
    }));
    // ORDER release; pairs with the acquire load in the handler: the slot's fields are there.
    SLOTS.store(slot, Ordering::Release);
    slot
}

/// The action for a SIGBUS outside of our mappings: the one that was set before (Rust's own detects stack overflows).
struct Before(std::cell::UnsafeCell<libc::sigaction>);
// SAFETY: written once, before the handler that reads it is installed.
unsafe impl Sync for Before {}
// SAFETY: all zero is a valid sigaction: the default.
static BEFORE: Before = Before(std::cell::UnsafeCell::new(unsafe { std::mem::zeroed() }));

fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        PAGE_BYTES.store(rustix::param::page_size(), Ordering::Relaxed);
        // SAFETY: `action` is a valid sigaction whose handler makes only async-signal-safe calls; the old one goes to
        // memory that no handler reads before ours is installed.
        unsafe {
            libc::sigaction(libc::SIGBUS, std::ptr::null(), BEFORE.0.get());
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_sigbus as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
            libc::sigaction(libc::SIGBUS, &action, null_mut());
        }
    });
}

/// Async-signal-safe: atomics, mmap(2), sigaction(2).
extern "C" fn on_sigbus(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo; for SIGBUS by a fault it holds an address.
    let address = unsafe { (*info).si_addr() } as usize;
    let page = address & !(PAGE_BYTES.load(Ordering::Relaxed) - 1);
    let mut at = SLOTS.load(Ordering::Acquire).cast_const();
    // SAFETY: the list holds slots that live for ever.
    while let Some(slot) = unsafe { at.as_ref() } {
        let start = slot.start.load(Ordering::Acquire);
        let end = slot.end.load(Ordering::Relaxed);
        if start != 0 && (start..end).contains(&address) {
            // To the end: the pages after the first missing one are missing as well, and one mapping stays one or
            // two.
            // SAFETY: the range is that of a mapping which lives; it is replaced by zeroes of the same extent.
            let mapped = unsafe {
                libc::mmap(
                    page as *mut libc::c_void,
                    end - page,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                    -1,
                    0,
                )
            };
            if mapped != libc::MAP_FAILED {
                slot.broken.store(true, Ordering::Relaxed);
                return;
            }
        }
        at = slot.next;
    }
    // No mapping of ours: the access is repeated under the previous action.
    // SAFETY: BEFORE was filled before this handler was installed.
    unsafe { libc::sigaction(libc::SIGBUS, BEFORE.0.get(), null_mut()) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file(bytes: usize) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![7u8; bytes]).unwrap();
        file
    }

    #[test]
    fn a_file_cut_under_our_hands_reads_as_zeroes_and_says_so() {
        for map in [Guarded::shared, Guarded::read_only] {
            let file = file(5 * 4096);
            let cut = map(&file).unwrap();
            let whole = map(&file).unwrap();
            assert_eq!(cut.bytes()[4 * 4096], 7);
            file.set_len(4096).unwrap();
            assert!(!cut.is_broken(), "nothing was read yet");
            assert_eq!((cut.bytes()[3 * 4096], cut.bytes()[4 * 4096]), (0, 0));
            assert!(cut.is_broken() && !whole.is_broken());
            // The rest of the file is still read, and so are the pages before the first missing one.
            assert_eq!((cut.bytes()[0], cut.bytes()[4096]), (7, 0));
        }
    }

    #[test]
    fn a_place_that_is_used_again_is_whole_again() {
        for _ in 0..3 {
            let file = file(8192);
            let map = Guarded::shared(&file).unwrap();
            assert!(!map.is_broken());
            file.set_len(0).unwrap();
            assert_eq!(map.bytes()[100], 0);
            assert!(map.is_broken());
        }
    }
}
