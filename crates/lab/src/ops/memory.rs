//! Operations on mappings of a file whose pages are all in memory.
use super::{Operation, check, timed};
use rustix::fs::MemfdFlags;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// The kernel maps up to this much around a page that a read faults in (fault_around_bytes): touches must be
/// farther apart, or most of them are no faults.
const FAULT_AROUND: usize = 64 * 1024;
const FAULTS: usize = 256;
/// LMbench's lat_mmap writes a byte at regular distances in the first tenth of the mapping.
const MAPPED: usize = 1 << 20;
const TOUCHED: usize = MAPPED / 10;
const STEP: usize = 16 * 1024;

fn file(bytes: usize) -> io::Result<OwnedFd> {
    let fd = rustix::fs::memfd_create("kasuri-lab", MemfdFlags::CLOEXEC)?;
    rustix::fs::fallocate(&fd, rustix::fs::FallocateFlags::empty(), 0, bytes as u64)?;
    Ok(fd)
}

/// A shared mapping.
struct Mapping {
    at: *mut libc::c_void,
    bytes: usize,
}

impl Mapping {
    fn new(fd: &OwnedFd, bytes: usize, access: libc::c_int) -> io::Result<Mapping> {
        // SAFETY: a new mapping at an address of the kernel's choice.
        let at = unsafe {
            libc::mmap(std::ptr::null_mut(), bytes, access, libc::MAP_SHARED, fd.as_raw_fd(), 0)
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Mapping { at, bytes })
    }

    fn touch(&self, offset: usize) {
        assert!(offset < self.bytes);
        // SAFETY: within the mapping, whose file is as long as the mapping and never shrinks.
        unsafe { std::ptr::read_volatile(self.at.cast::<u8>().add(offset)) };
    }

    /// Needs a mapping for writing.
    fn write(&self, offset: usize) {
        assert!(offset < self.bytes);
        // SAFETY: as in `touch`; no other code reads the file.
        unsafe { std::ptr::write_volatile(self.at.cast::<u8>().add(offset), 1) };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: our own mapping; no reference into it is left.
        unsafe { libc::munmap(self.at, self.bytes) };
    }
}

/// Most work that [`Memory::work`] does.
pub const WORK_MOST: u32 = 5;

/// Bytes read for each amount of work: up to more than the nearest caches hold.
const WALKED: [usize; WORK_MOST as usize + 1] = [0, 0, 4, 16, 64, 256];
const KIB: usize = 1024;
const PAGE: usize = 4096;
const LINE: usize = 64;

/// Imitates the work of a program between two events, in the kernel and on its own memory: maps pages, writes to some
/// of them, reads through a table. This evicts the tracer's code and data from the nearest caches; more work evicts
/// more.
pub struct Memory {
    table: Vec<u8>,
}

impl Default for Memory {
    fn default() -> Memory {
        Memory { table: vec![1; WALKED[WORK_MOST as usize] * KIB] }
    }
}

impl Memory {
    /// Amount 1 maps and unmaps only; each further one writes to twice as many new pages and walks through four times as much.
    pub fn work(&mut self, amount: u32) -> io::Result<()> {
        const BYTES: usize = 16 * PAGE;
        let pages = (1usize << amount.min(WORK_MOST)) >> 2;
        // SAFETY: a new mapping at an address of the kernel's choice, written to within its bounds and unmapped; no
        // other code has its address.
        unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let at = libc::mmap(std::ptr::null_mut(), BYTES, access, flags, -1, 0);
            if at == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            for offset in (0..pages * PAGE).step_by(PAGE) {
                std::ptr::write_volatile(at.cast::<u8>().add(offset), 1);
            }
            libc::munmap(at, BYTES);
        }
        let walked = WALKED[amount.min(WORK_MOST) as usize] * KIB;
        for byte in self.table[..walked].iter_mut().step_by(LINE) {
            *byte = std::hint::black_box(byte.wrapping_add(1));
        }
        Ok(())
    }
}

struct PageFault(Mapping);

pub fn page_fault() -> io::Result<Box<dyn Operation>> {
    let bytes = FAULTS * FAULT_AROUND;
    let fd = file(bytes)?;
    Ok(Box::new(PageFault(Mapping::new(&fd, bytes, libc::PROT_READ)?)))
}

impl Operation for PageFault {
    fn run(&mut self, n: u64, annotated: bool) -> io::Result<f64> {
        let mut total = 0.0;
        let mut left = n;
        while left > 0 {
            // Forgets the page tables; the pages stay in the file. Not timed.
            // SAFETY: our own mapping, a file's: its contents stay.
            check(unsafe { libc::madvise(self.0.at, self.0.bytes, libc::MADV_DONTNEED) })?;
            let batch = left.min(FAULTS as u64);
            let mut ix = 0usize;
            total += timed(batch, annotated, &mut || {
                // 97 and 256 have no common factor: each window is touched once, in an order that no readahead
                // predicts.
                ix = (ix + 97) % FAULTS;
                self.0.touch(ix * FAULT_AROUND);
                Ok(())
            })?;
            left -= batch;
        }
        Ok(total)
    }
}

struct MapUnmap(OwnedFd);

pub fn map_unmap() -> io::Result<Box<dyn Operation>> {
    Ok(Box::new(MapUnmap(file(MAPPED)?)))
}

impl Operation for MapUnmap {
    fn run(&mut self, n: u64, annotated: bool) -> io::Result<f64> {
        timed(n, annotated, &mut || {
            let mapping = Mapping::new(&self.0, MAPPED, libc::PROT_READ | libc::PROT_WRITE)?;
            (0..TOUCHED).step_by(STEP).for_each(|at| mapping.write(at));
            Ok(())
        })
    }
}
