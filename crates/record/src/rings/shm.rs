//! Memory shared with annotating programs.
//!
//! Everything here is written by other processes at any time, so no `&[u8]` or `&T` of plain data is
//! ever made of it: words are read as atomics, bulk bytes leave only through copies and write(2).
//! Its length is theirs too: see [`crate::guard::sigbus`].
use crate::guard::safefs::{Access, Held};
use crate::guard::sigbus::Guarded;
use rustix::fs::fstat;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A shared mapping of a whole file.
#[derive(Debug)]
pub struct Shared {
    map: Guarded,
}

impl Shared {
    /// Maps `file` as long as it is now.
    ///
    /// # Errors
    /// When it cannot be mapped, or when memory for it was not all allocated: touching a hole of a
    /// full file system is a SIGBUS.
    pub fn map(file: &File) -> io::Result<Shared> {
        let stat = fstat(file)?;
        if (stat.st_blocks as u64).saturating_mul(512) < stat.st_size as u64 {
            return Err(io::Error::new(io::ErrorKind::WouldBlock, "not all allocated"));
        }
        Ok(Shared { map: Guarded::shared(file)? })
    }

    /// Opens and maps `name` in `dir`.
    ///
    /// # Errors
    /// As [`Shared::map`], or when the file cannot be opened.
    pub fn open(dir: &Held, name: &str) -> io::Result<Shared> {
        Shared::map(&dir.file(name, Access::Shared)?)
    }

    /// Whether its program cut the file: what was read since may be zeroes that it does not hold.
    pub fn is_broken(&self) -> bool {
        self.map.is_broken()
    }

    /// Marks it as cut: a system call that reads it has said so.
    pub fn set_broken(&self) {
        self.map.set_broken();
    }

    /// Whether no other process has `name` mapped or open for writing; true when unknown. Takes and gives back a
    /// write lease, which the kernel grants to the only writer of a file. Unlike a look into /proc that works across
    /// pid namespaces, and is not misled by reused pids.
    ///
    /// # Errors
    /// When the file cannot be mapped anew.
    pub fn is_only_ours(&mut self, dir: &Held, name: &str) -> io::Result<bool> {
        let file = dir.file(name, Access::Shared)?;
        // Our earlier mapping counts as another writer; from here on there is one, and it is this file's.
        let anew = Shared::map(&file)?;
        if self.is_broken() || anew.len() < self.len() {
            self.set_broken();
            return Err(io::Error::other("it was cut"));
        }
        *self = anew;
        let fd = file.as_raw_fd();
        // SAFETY: the descriptor is open; a lease that is given back at once never signals any process.
        let granted = unsafe { libc::fcntl(fd, libc::F_SETLEASE, libc::F_WRLCK) } == 0;
        if !granted {
            return Ok(io::Error::last_os_error().raw_os_error() != Some(libc::EAGAIN));
        }
        // SAFETY: as above.
        unsafe { libc::fcntl(fd, libc::F_SETLEASE, libc::F_UNLCK) };
        Ok(true)
    }

    /// Bytes mapped.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// The 32-bit word at `offset`.
    ///
    /// # Panics
    /// When it lies outside the mapping or is not aligned: offsets are checked where they are read.
    pub fn u32_at(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4) && offset + 4 <= self.len());
        // SAFETY: in bounds and aligned (asserted; mappings start on a page), mapped as long as
        // `self` lives, and only ever accessed as an atomic by this process.
        unsafe { AtomicU32::from_ptr(self.map.as_mut_ptr().add(offset).cast()) }
    }

    /// The 64-bit word at `offset`.
    ///
    /// # Panics
    /// As [`Shared::u32_at`].
    pub fn u64_at(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset + 8 <= self.len());
        // SAFETY: as above.
        unsafe { AtomicU64::from_ptr(self.map.as_mut_ptr().add(offset).cast()) }
    }

    /// A plain value written before the file was announced.
    pub fn load_u32(&self, offset: usize) -> u32 {
        self.u32_at(offset).load(Ordering::Relaxed)
    }

    /// As [`Shared::load_u32`].
    pub fn load_u64(&self, offset: usize) -> u64 {
        self.u64_at(offset).load(Ordering::Relaxed)
    }

    /// Copies bytes out; what is being written meanwhile comes out old or new, word by word.
    ///
    /// # Panics
    /// When the range lies outside the mapping.
    pub fn copy_to(&self, offset: usize, out: &mut [u8]) {
        assert!(offset <= self.len() && out.len() <= self.len() - offset);
        // SAFETY: both ranges are valid (asserted) and disjoint: `out` is not in the mapping. The
        // program may write concurrently, which is why nothing is deduced from the bytes but what
        // the protocol says is committed.
        unsafe {
            std::ptr::copy_nonoverlapping(
                self.map.as_mut_ptr().cast_const().add(offset),
                out.as_mut_ptr(),
                out.len(),
            )
        }
    }

    /// Sets bytes to zero.
    ///
    /// # Panics
    /// When the range lies outside the mapping.
    pub fn zero(&self, offset: usize, len: usize) {
        assert!(offset <= self.len() && len <= self.len() - offset);
        // SAFETY: in bounds (asserted); the protocol gives this range to the recorder alone now.
        unsafe { std::ptr::write_bytes(self.map.as_mut_ptr().add(offset), 0, len) }
    }

    /// The address of `offset`, for writev(2).
    ///
    /// # Panics
    /// When the range lies outside the mapping.
    pub fn pointer(&self, offset: usize, len: usize) -> *const u8 {
        assert!(offset <= self.len() && len <= self.len() - offset);
        self.map.as_mut_ptr().cast_const().wrapping_add(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::apart;
    use std::time::Duration;

    #[test]
    fn another_mapping_is_noticed_until_it_ends() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = Held::open(scratch.path()).unwrap();
        let name = "p1-0.ring0";
        std::fs::write(scratch.path().join(name), vec![1u8; 8192]).unwrap();
        let mut ours = Shared::open(&dir, name).unwrap();
        assert!(ours.is_only_ours(&dir, name).unwrap());
        let theirs = Shared::open(&dir, name).unwrap();
        assert!(!ours.is_only_ours(&dir, name).unwrap());
        drop(theirs);
        assert!(ours.is_only_ours(&dir, name).unwrap());
        assert_eq!(ours.load_u32(4096), 0x0101_0101);
        // A process that the recorder makes is none.
        let (read, write) = rustix::pipe::pipe().unwrap();
        let (read_fd, write_fd) = (read.as_raw_fd(), write.as_raw_fd());
        let until_told = || {
            apart::is_readable(read_fd, Duration::from_secs(100));
        };
        let helper = apart::fork(read_fd, until_told).unwrap();
        assert!(ours.is_only_ours(&dir, name).unwrap());
        assert!(write_fd >= 0 && !apart::is_gone(helper));
        drop(write);
        assert!(apart::give_up(helper));
    }
}
