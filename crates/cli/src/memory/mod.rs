//! The memory of every command: the system's allocator, huge pages for large blocks, and files for what memory has no room for.
//!
//! Goal: reading a trace fills columns of hundreds of megabytes once. Each small page of them costs a fault, and the faults
//! cost as much as decoding. Linux gives huge pages to whoever asks for them ("madvise", what most distributions set), and
//! glibc asks only when an environment variable says so. A block that grows keeps the advice when the kernel moves it.
//!
//! A trace may be larger than memory. [`bound`] sets how many bytes of blocks that count ([`COUNTED`]) are held in it; those
//! that would go beyond are put into files without names ([`files`]), whose pages the kernel writes out and reads again as they are
//! used. Columns are filled and swept from front to back, so that costs the disk's speed and no more. All columns of all formats
//! and analyses go the same way, since none of them knows. Rejected: columns of a type of their own, which every crate would
//! have to know, and which leaves out what analyses make for themselves.
mod available;
mod files;

use rustix::mm::{Advice, madvise};
use rustix::param::page_size;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Blocks from here on: glibc maps each of them on its own, so advice never concerns others, and what the last huge page
/// has beyond the block's end is little beside it.
const LARGE: usize = 32 << 20;

/// Blocks from here on count: columns and what is made of them. All smaller ones together are little.
const COUNTED: usize = 1 << 20;

/// Bytes of counted blocks in memory, and the most of them. Relaxed: no other memory is read by them, and threads that add at
/// the same time may go beyond by their blocks.
static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(usize::MAX);

/// For commands that read recordings: from now on large blocks beyond a part of the memory there is are held in files.
///
/// # Errors
/// The variable that says how much is no number of bytes.
pub fn bound() -> anyhow::Result<()> {
    // Once: what is held since is no longer available.
    if MOST.load(Relaxed) == usize::MAX
        && let Some(most) = available::most()?
    {
        files::find_place();
        MOST.store(most, Relaxed);
    }
    Ok(())
}

/// The system's allocator.
pub struct Memory;

fn advise(block: *mut u8, bytes: usize) {
    if block.is_null() || bytes < LARGE {
        return;
    }
    // From the start of its first page, with malloc's header: the kernel keeps the advice for the mapping as a whole and
    // can go on moving it as one.
    let before = block.addr() % page_size();
    let bytes = (bytes + before).next_multiple_of(page_size());
    // SAFETY: the advice changes how the kernel backs these pages, not what is in them; all of them belong to the block's
    // mapping. A kernel without huge pages says so, which changes nothing.
    let _ = unsafe { madvise(block.sub(before).cast(), bytes, Advice::LinuxHugepage) };
}

/// Whether memory has no room for `more` beside what is held.
fn is_full(more: usize) -> bool {
    HELD.load(Relaxed).saturating_add(more) > MOST.load(Relaxed)
}

/// A counted block from `make`, which may fail.
fn counted(bytes: usize, make: impl FnOnce() -> *mut u8) -> *mut u8 {
    let block = make();
    if !block.is_null() {
        HELD.fetch_add(bytes, Relaxed);
        advise(block, bytes);
    }
    block
}

/// A block in a file, where memory has no room for `more` and a file has.
fn beyond(more: usize, layout: Layout) -> Option<*mut u8> {
    (is_full(more) && layout.align() <= page_size()).then(|| files::take(layout.size())).flatten()
}

impl Memory {
    /// `realloc`, where the block or what becomes of it counts.
    ///
    /// # Safety
    /// As for `realloc`.
    #[cold]
    unsafe fn resize(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        let size = layout.size();
        // SAFETY: not 0, and no overflow with the alignment, as the caller promises.
        let wanted = unsafe { Layout::from_size_align_unchecked(bytes, layout.align()) };
        let new = if size >= COUNTED && files::has(block) {
            let resized = (bytes >= COUNTED).then(|| files::resize(block, bytes));
            if let Some(block) = resized.flatten() {
                return block;
            }
            // SAFETY: see above.
            unsafe { self.alloc(wanted) }
        } else {
            let grows = bytes.checked_sub(size);
            let Some(new) = grows.and_then(|more| beyond(more, wanted)) else {
                // SAFETY: the caller's promises are those that System asks for, and the block is its.
                return unsafe { self.resize_in_memory(block, layout, bytes) };
            };
            new
        };
        if !new.is_null() {
            // SAFETY: two blocks of at least these sizes, of which one is new; the old one is the caller's to give.
            unsafe {
                new.copy_from_nonoverlapping(block, size.min(bytes));
                self.dealloc(block, layout);
            }
        }
        new
    }

    /// # Safety
    /// As for `realloc`; the block is in memory.
    unsafe fn resize_in_memory(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: as the caller promises.
        let new = unsafe { System.realloc(block, layout, bytes) };
        if !new.is_null() {
            if layout.size() >= COUNTED {
                HELD.fetch_sub(layout.size(), Relaxed);
            }
            if bytes >= COUNTED {
                HELD.fetch_add(bytes, Relaxed);
                advise(new, bytes);
            }
        }
        new
    }
}

// SAFETY: all blocks are the system allocator's, or mappings of files of which each holds one block.
unsafe impl GlobalAlloc for Memory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are those that System asks for; so below.
        let in_memory = || unsafe { System.alloc(layout) };
        match layout.size() >= COUNTED {
            true => {
                beyond(layout.size(), layout).unwrap_or_else(|| counted(layout.size(), in_memory))
            }
            false => in_memory(),
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: see `alloc`. Files begin as zeros too.
        let in_memory = || unsafe { System.alloc_zeroed(layout) };
        match layout.size() >= COUNTED {
            true => {
                beyond(layout.size(), layout).unwrap_or_else(|| counted(layout.size(), in_memory))
            }
            false => in_memory(),
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        match layout.size().max(bytes) >= COUNTED {
            // SAFETY: see `alloc`.
            true => unsafe { self.resize(block, layout, bytes) },
            // SAFETY: see `alloc`.
            false => unsafe { System.realloc(block, layout, bytes) },
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if layout.size() >= COUNTED {
            if files::give_back(block) {
                return;
            }
            HELD.fetch_sub(layout.size(), Relaxed);
        }
        // SAFETY: see `alloc`.
        unsafe { System.dealloc(block, layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(bytes: usize) -> Layout {
        Layout::from_size_align(bytes, 8).expect("a layout")
    }

    /// What is in the block: its own number, every 4096 bytes.
    fn fill(block: *mut u8, bytes: usize) {
        for at in (0..bytes).step_by(4096) {
            // SAFETY: within the block.
            unsafe { block.add(at).write(at as u8 ^ (at >> 12) as u8 | 1) };
        }
    }

    fn is_filled(block: *mut u8, bytes: usize) -> bool {
        // SAFETY: within the block.
        (0..bytes)
            .step_by(4096)
            .all(|at| unsafe { block.add(at).read() } == (at as u8 ^ (at >> 12) as u8 | 1))
    }

    /// One test, because the bound is the process's: others run beside it, with blocks of any kind.
    #[test]
    fn blocks_keep_what_is_in_them_on_their_way_between_memory_and_files() {
        let before = MOST.load(Relaxed);
        let (small, counts, more) = (COUNTED - 4096, COUNTED, 5 * COUNTED);
        files::find_place();
        for (first, is_bounded_first) in [(counts, true), (counts, false), (small, false)] {
            MOST.store(if is_bounded_first { 0 } else { before }, Relaxed);
            // SAFETY: sizes are not 0; each block is given back once, with the layout it has then.
            unsafe {
                let block = Memory.alloc(layout(first));
                fill(block, first);
                assert_eq!(files::has(block), is_bounded_first);
                MOST.store(0, Relaxed);
                let block = Memory.realloc(block, layout(first), more);
                assert!(files::has(block) && is_filled(block, first));
                fill(block, more);
                let block = Memory.realloc(block, layout(more), counts);
                assert!(files::has(block) && is_filled(block, counts));
                let block = Memory.realloc(block, layout(counts), small);
                assert!(!files::has(block) && is_filled(block, small));
                Memory.dealloc(block, layout(small));
                let block = Memory.alloc_zeroed(layout(more));
                assert!(files::has(block) && (0..more).all(|at| *block.add(at) == 0));
                Memory.dealloc(block, layout(more));
                assert!(!files::has(block));
            }
        }
        MOST.store(before, Relaxed);
    }
}
