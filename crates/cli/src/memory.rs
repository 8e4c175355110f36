//! The memory of every command: the system's allocator, and huge pages for large blocks.
//!
//! Goal: reading a trace fills columns of hundreds of megabytes once. Each small page of them costs a fault, and the faults
//! cost as much as decoding. Linux gives huge pages to whoever asks for them ("madvise", what most distributions set), and
//! glibc asks only when an environment variable says so. A block that grows keeps the advice when the kernel moves it.
use rustix::mm::{Advice, madvise};
use rustix::param::page_size;
use std::alloc::{GlobalAlloc, Layout, System};

/// Blocks from here on: glibc maps each of them on its own, so advice never concerns others, and what the last huge page
/// has beyond the block's end is little beside it.
const LARGE: usize = 32 << 20;

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

// SAFETY: all blocks are the system allocator's.
unsafe impl GlobalAlloc for Memory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are those that System asks for; so below.
        let block = unsafe { System.alloc(layout) };
        advise(block, layout.size());
        block
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: see `alloc`.
        let block = unsafe { System.alloc_zeroed(layout) };
        advise(block, layout.size());
        block
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: see `alloc`.
        let block = unsafe { System.realloc(block, layout, bytes) };
        advise(block, bytes);
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: see `alloc`.
        unsafe { System.dealloc(block, layout) }
    }
}
