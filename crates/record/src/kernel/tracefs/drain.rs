//! Moves full pages (sub-buffers of the ring, which may be larger than a page of memory) from the kernel to files
//! without looking at them.
//!
//! splice(2) moves only pages that are full. A read(2) always hands over a whole page, even when it holds one event,
//! so it is used only at the very end and for events that wait long (reading all the time wrote ten times the bytes
//! in the same test).
use super::open_file;
use crate::error::{Error, Result};
use crate::guard::safefs::{Access, Held};
use rustix::fs::{OFlags, SeekFrom, ftruncate, seek};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Bytes moved in one round.
#[derive(Clone, Copy, Debug, Default)]
pub struct Drained {
    /// Bytes of all CPUs together.
    pub bytes: u64,
    /// Bytes of the busiest CPU.
    pub most: u64,
}

#[derive(Debug)]
struct CpuFile {
    source: OwnedFd,
    target: OwnedFd,
    path: PathBuf,
    bytes: u64,
    /// Whole pages that left the kernel and could not be written yet.
    unwritten: Vec<u8>,
}

/// The open buffers of an instance, each with its file.
#[derive(Debug)]
pub struct Drain {
    cpus: Vec<CpuFile>,
    pipe_read: OwnedFd,
    pipe_write: OwnedFd,
    pipe_bytes: usize,
    page_bytes: usize,
    page: Vec<u8>,
}

impl Drain {
    /// Opens `trace_pipe_raw` of each CPU below `instance` and makes `cpu<N>.raw` in `dir`.
    ///
    /// # Errors
    /// When a file cannot be opened or made.
    pub fn open(instance: impl AsFd, cpus: &[u32], page_bytes: u32, dir: &Held) -> Result<Drain> {
        let (pipe_read, pipe_write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)
            .map_err(|e| Error::system("make a pipe", e))?;
        // 256 pages in one call; an unprivileged limit may leave a smaller pipe, which only costs more calls.
        let pipe_bytes = fcntl_setpipe_size(&pipe_write, 1 << 20).unwrap_or(65536);
        let page_bytes = page_bytes as usize;
        let mut drain = Drain {
            cpus: Vec::with_capacity(cpus.len()),
            pipe_read,
            pipe_write,
            pipe_bytes: pipe_bytes.max(page_bytes),
            page_bytes,
            page: vec![0; page_bytes],
        };
        for &cpu in cpus {
            let name = format!("per_cpu/cpu{cpu}/trace_pipe_raw");
            let source = open_file(&instance, &name, OFlags::NONBLOCK)
                .map_err(|e| Error::file("open", Path::new(&name), e))?;
            let name = format!("cpu{cpu}.raw");
            let path = dir.named(&name);
            let target =
                dir.file(&name, Access::Replace).map_err(|e| Error::file("make", &path, e))?;
            drain.cpus.push(CpuFile {
                source,
                target: target.into(),
                path,
                bytes: 0,
                unwritten: Vec::new(),
            });
        }
        Ok(drain)
    }

    /// Moves all full pages.
    ///
    /// When a file cannot be written. Each file then still ends on a whole page, and the data that was on its way is
    /// tried again first the next time.
    pub fn full_pages(&mut self) -> Result<Drained> {
        let mut sum = Drained::default();
        for ix in 0..self.cpus.len() {
            let before = self.cpus[ix].bytes;
            self.write_waiting(ix)?;
            while self.splice_once(ix)? {}
            let moved = self.cpus[ix].bytes - before;
            sum.bytes += moved;
            sum.most = sum.most.max(moved);
        }
        Ok(sum)
    }

    /// Moves all data, the last page of each CPU too; tracing must be off.
    ///
    /// # Errors
    /// As [`Drain::full_pages`].
    pub fn rest(&mut self) -> Result<()> {
        self.full_pages()?;
        for ix in 0..self.cpus.len() {
            while self.read_page(ix)? {}
        }
        Ok(())
    }

    /// The pages of each CPU that left the kernel and could not be written.
    pub fn unwritten(&self) -> impl Iterator<Item = &[u8]> {
        self.cpus.iter().map(|cpu| &cpu.unwritten[..])
    }

    /// Bytes written so far.
    pub fn bytes(&self) -> u64 {
        self.cpus.iter().map(|cpu| cpu.bytes).sum()
    }

    /// Bytes in each CPU's file.
    pub fn sizes(&self) -> Vec<u64> {
        self.cpus.iter().map(|cpu| cpu.bytes).collect()
    }

    /// Reads a page of the `ix`-th file, `at` bytes into it.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read_back(&self, ix: usize, at: u64) -> Result<Vec<u8>> {
        let cpu = &self.cpus[ix];
        let mut page = vec![0; self.page_bytes];
        let n = rustix::io::pread(&cpu.target, &mut page, at)
            .map_err(|e| Error::file("read", &cpu.path, e))?;
        page.truncate(n);
        Ok(page)
    }

    /// Moves one pipe full. Returns false when there was no full page.
    fn splice_once(&mut self, ix: usize) -> Result<bool> {
        let cpu = &mut self.cpus[ix];
        let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
        let moved = match splice(&cpu.source, None, &self.pipe_write, None, self.pipe_bytes, flags)
        {
            Ok(n) if n > 0 => n,
            Ok(_) | Err(Errno::AGAIN) => return Ok(false),
            // The CPU went away, or the kernel cannot splice pages of this size: read(2) at the end still works.
            Err(Errno::INVAL | Errno::NODEV | Errno::INTR) => return Ok(false),
            Err(e) => return Err(Error::file("read the buffer for", &cpu.path, e)),
        };
        let mut left = moved;
        while left > 0 {
            match splice(&self.pipe_read, None, &cpu.target, None, left, SpliceFlags::MOVE) {
                Ok(n) if n > 0 => {
                    left -= n;
                    cpu.bytes += n as u64;
                }
                Err(Errno::INTR) => {}
                failed => {
                    let e = failed.err().unwrap_or(Errno::NOSPC);
                    self.take_back(ix);
                    return Err(Error::file("write", &self.cpus[ix].path, e));
                }
            }
        }
        Ok(true)
    }

    /// Moves one page of the `ix`-th CPU by read(2), full or not. Returns false when the buffer is empty.
    ///
    /// # Errors
    /// As [`Drain::full_pages`].
    pub fn read_page(&mut self, ix: usize) -> Result<bool> {
        self.write_waiting(ix)?;
        let cpu = &mut self.cpus[ix];
        let n = match rustix::io::read(&cpu.source, &mut self.page[..]) {
            Ok(0) | Err(Errno::AGAIN | Errno::NODEV) => return Ok(false),
            Err(Errno::INTR) => return Ok(true),
            Ok(n) => n,
            Err(e) => return Err(Error::file("read the buffer for", &cpu.path, e)),
        };
        let cpu = &mut self.cpus[ix];
        cpu.unwritten.extend_from_slice(&self.page[..n]);
        cpu.unwritten.resize(self.page_bytes, 0);
        self.write_waiting(ix)?;
        Ok(true)
    }

    /// Writes the pages in memory: all of them, or none.
    fn write_waiting(&mut self, ix: usize) -> Result<()> {
        let cpu = &mut self.cpus[ix];
        if cpu.unwritten.is_empty() {
            return Ok(());
        }
        // The unused end, mostly all of a page that was read, is left as a hole and takes no room on the disk.
        let used = cpu.unwritten.iter().rposition(|&b| b != 0);
        let used = used.map_or(0, |last| last + 1);
        let mut done = 0;
        let mut written = Ok(());
        while done < used && written.is_ok() {
            match rustix::io::write(&cpu.target, &cpu.unwritten[done..used]) {
                Ok(0) => written = Err(Errno::NOSPC),
                Ok(n) => done += n,
                Err(Errno::INTR) => {}
                Err(e) => written = Err(e),
            }
        }
        let end = cpu.bytes + cpu.unwritten.len() as u64;
        let extended = written
            .and_then(|()| ftruncate(&cpu.target, end))
            .and_then(|()| seek(&cpu.target, SeekFrom::Start(end)));
        if let Err(e) = extended {
            cpu.cut();
            return Err(Error::file("write", &cpu.path, e));
        }
        cpu.bytes = end;
        cpu.unwritten = Vec::new();
        Ok(())
    }

    /// After a failed write of spliced pages: takes the half page at the end of the file, and the rest in the pipe,
    /// into memory.
    fn take_back(&mut self, ix: usize) {
        let cpu = &mut self.cpus[ix];
        let half = (cpu.bytes % self.page_bytes as u64) as usize;
        cpu.bytes -= half as u64;
        cpu.unwritten.resize(half, 0);
        let mut done = 0;
        while done < half {
            match rustix::io::pread(
                &cpu.target,
                &mut cpu.unwritten[done..],
                cpu.bytes + done as u64,
            ) {
                Ok(n) if n > 0 => done += n,
                Err(Errno::INTR) => {}
                // A part that cannot be read back stays zero, which reads as an empty page, or half of one.
                _ => break,
            }
        }
        loop {
            match rustix::io::read(&self.pipe_read, &mut self.page[..]) {
                Ok(n) if n > 0 => cpu.unwritten.extend_from_slice(&self.page[..n]),
                Err(Errno::INTR) => {}
                _ => break,
            }
        }
        cpu.cut();
    }
}

impl CpuFile {
    /// Cuts off the bytes beyond the last whole page.
    fn cut(&self) {
        let _ = ftruncate(&self.target, self.bytes);
        let _ = seek(&self.target, SeekFrom::Start(self.bytes));
    }
}
