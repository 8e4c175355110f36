//! The stacks of threads that wait, read from outside.
//!
//! The stack of a blocked thread does not move. So the recorder reads it like a file, which costs the program nothing and
//! needs no privileges: where the thread stands from /proc/PID/task/TID/syscall, the bytes by process_vm_readv(2), up to the
//! top of the stack. That the thread did not run meanwhile is shown by the kernel's count of the times that it got a CPU
//! (third number of `schedstat`): it is read before and after, and must be the same. The sample's time lies between the two,
//! so at this time the thread was blocked with this stack.
//!
//! A thread is looked at each 20 ms, less often while nothing changes, and read once for each count: once a wait. Waits
//! shorter than that are mostly not seen.
//!
//! Of everyone's threads (`-a`) most wait all the time. Those are looked at up to once a second only, and of stacks no more are read
//! than the mappings of their processes can be learnt meanwhile.
use super::descriptor;
use crate::clock;
use kasuri_format::call_paths::PathEnd;
use kasuri_unwind::{Cpu, Registers, Stack};
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::Read;

/// Most looks a second, each of one to four system calls on /proc.
const LOOKS_PER_S: u64 = 2000;
/// Most looks at once.
const LOOKS_MAX: u64 = 40;
/// Share of a CPU that following stacks may take here, and the time for which it may be saved: a stack may be made to be costly.
const SHARE_MAX: f64 = 0.2;
const SAVED_NS: u64 = 100_000_000;
/// Time between two looks at a thread, ns; up to four times as long while nothing changes, and up to 50 times with everyone's.
const LOOK_NS: u64 = 20_000_000;
const LONGER: u64 = 4;
const LONGER_OF_ALL: u64 = 50;
/// Most stacks that are read a second, of everyone's threads: mappings are read of 320 processes a second.
const READS_PER_S_OF_ALL: u64 = 250;
const EACH_READ_NS: u64 = 1_000_000_000 / READS_PER_S_OF_ALL;
/// Most of them at once.
const READS_MAX_OF_ALL: u64 = 25;
/// Most threads that are watched.
const THREADS_MAX: usize = 1 << 16;
/// Entries of the queue that are passed over at once.
const PASSED_MAX: usize = 1024;
/// Bytes of a stack that are read at first; then eight times as many each time, while they are too few.
const FIRST_BYTES: usize = 16 << 10;
const MOST_BYTES: usize = 1 << 20;

/// A thread that is watched.
#[derive(Clone, Copy, Debug, Default)]
struct Watched {
    pid: i32,
    /// How often it had got a CPU at the last look.
    times_run: u64,
    /// Whether its wait since then was read.
    is_read: bool,
    /// Looks without a change.
    same: u32,
    next_ns: u64,
}

/// The threads of the program.
#[derive(Debug)]
pub(super) struct Waits {
    cpu: Cpu,
    /// Everyone's threads.
    of_all: bool,
    /// Of everyone's: reads are allowed from here on: one each 1/250 s.
    reads_allowed_ns: u64,
    /// The last stack that was asked for cannot be read.
    is_unreadable: bool,
    threads: HashMap<i32, Watched>,
    queue: VecDeque<i32>,
    /// Looks are allowed from here on: one each 1/2000 s.
    allowed_ns: u64,
    /// CPU time may be spent from here on: what took 1 ms is followed by 5 ms without looks.
    rested_ns: u64,
    bytes: Vec<u8>,
    /// Reads that were refused.
    pub(super) refused: u64,
}

/// What follows the stack of a process' thread that was read: into a sample or, where the copy is too short, nothing yet.
pub(super) type Follow<'f> = dyn FnMut(i32, i32, &Registers, Stack<'_>) -> Followed + 'f;

/// A stack that was followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Followed {
    pub(super) path: u32,
    pub(super) end: PathEnd,
    /// CPU time that it took.
    pub(super) took_ns: u64,
}

/// A wait whose stack was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    pub(super) pid: i32,
    pub(super) tid: i32,
    pub(super) time_ns: u64,
    pub(super) path: Followed,
    /// The file, pipe or socket at which it waits, in words.
    pub(super) at: Option<String>,
}

impl Waits {
    pub(super) fn new(cpu: Cpu, of_all: bool) -> Waits {
        Waits {
            cpu,
            of_all,
            reads_allowed_ns: 0,
            is_unreadable: false,
            threads: HashMap::new(),
            queue: VecDeque::new(),
            allowed_ns: 0,
            rested_ns: 0,
            bytes: Vec::new(),
            refused: 0,
        }
    }

    /// Watches a thread.
    pub(super) fn add(&mut self, pid: i32, tid: i32) {
        self.add_from(pid, tid, 0);
    }

    /// Watches a thread from this time on.
    pub(super) fn add_from(&mut self, pid: i32, tid: i32, next_ns: u64) {
        if self.threads.len() >= THREADS_MAX {
            return;
        }
        let new = Watched {
            pid,
            next_ns,
            ..Watched::default()
        };
        if self.threads.insert(tid, new).is_none() {
            self.queue.push_back(tid);
        }
    }

    /// The thread ended.
    pub(super) fn remove(&mut self, tid: i32) {
        self.threads.remove(&tid);
    }

    /// Looks at the threads whose turn it is.
    pub(super) fn look(&mut self, now: u64, follow: &mut Follow<'_>) -> Vec<Wait> {
        let mut found = Vec::new();
        let each = 1_000_000_000 / LOOKS_PER_S;
        self.allowed_ns = self.allowed_ns.max(now.saturating_sub(LOOKS_MAX * each));
        self.rested_ns = self.rested_ns.max(now.saturating_sub(SAVED_NS));
        let saved = READS_MAX_OF_ALL * EACH_READ_NS;
        self.reads_allowed_ns = self.reads_allowed_ns.max(now.saturating_sub(saved));
        for _ in 0..self.queue.len().min(PASSED_MAX) {
            if self.allowed_ns + each > now || self.rested_ns > now {
                break;
            }
            let Some(tid) = self.queue.pop_front() else {
                break;
            };
            let Some(&watched) = self.threads.get(&tid) else {
                continue;
            };
            self.queue.push_back(tid);
            if watched.next_ns > now {
                continue;
            }
            self.allowed_ns += each;
            let (next, wait) = self.look_at(tid, watched, now, follow);
            self.threads.insert(tid, next);
            found.extend(wait);
        }
        found
    }

    fn look_at(
        &mut self,
        tid: i32,
        watched: Watched,
        now: u64,
        follow: &mut Follow<'_>,
    ) -> (Watched, Option<Wait>) {
        let later = |n: u64| now + n * LOOK_NS;
        let mut next = watched;
        let Some(times_run) = times_run(watched.pid, tid) else {
            next.next_ns = later(50);
            return (next, None);
        };
        if times_run != watched.times_run {
            next.times_run = times_run;
            (next.is_read, next.same, next.next_ns) = (false, 0, later(1));
            return (next, None);
        }
        next.same = watched.same.saturating_add(1);
        let longest = match self.of_all {
            true => LONGER_OF_ALL,
            false => LONGER,
        };
        next.next_ns = later(u64::from(next.same).min(longest));
        if watched.is_read {
            return (next, None);
        }
        if self.of_all && self.reads_allowed_ns + EACH_READ_NS > now {
            // Its turn comes at one of the next looks, which are not put off for this.
            (next.same, next.next_ns) = (watched.same, later(1));
            return (next, None);
        }
        let wait = self.read(watched.pid, tid, times_run, follow);
        // Of everyone's, also threads that cannot be read are many: they are asked again when they have run.
        let is_unreadable = std::mem::take(&mut self.is_unreadable);
        next.is_read = wait.is_some() || (self.of_all && is_unreadable);
        (next, wait)
    }

    /// Reads and follows the stack of a thread that has got a CPU so many times.
    fn read(&mut self, pid: i32, tid: i32, before: u64, follow: &mut Follow<'_>) -> Option<Wait> {
        let Place { sp, ip, at } = place(pid, tid)?;
        let mut registers = Registers::new(ip);
        registers.set(self.cpu.sp(), sp);
        let mut bytes = FIRST_BYTES;
        loop {
            self.reads_allowed_ns += EACH_READ_NS;
            let Some(n) = self.copy(tid, sp, bytes) else {
                self.is_unreadable = true;
                return None;
            };
            let stack = Stack {
                base: sp,
                bytes: &self.bytes[..n],
                is_cut: n == bytes && bytes < MOST_BYTES,
            };
            let path = follow(pid, tid, &registers, stack);
            self.rested_ns += (path.took_ns as f64 / SHARE_MAX) as u64;
            if path.end == PathEnd::StackCut && bytes < MOST_BYTES {
                bytes *= 8;
                bytes = bytes.min(MOST_BYTES);
                continue;
            }
            let time_ns = clock::monotonic_ns();
            let same = times_run(pid, tid) == Some(before);
            return same.then_some(Wait {
                pid,
                tid,
                time_ns,
                path,
                at,
            });
        }
    }

    /// Copies at most `n` bytes of a thread's memory; the number copied.
    fn copy(&mut self, tid: i32, from: u64, n: usize) -> Option<usize> {
        self.bytes.resize(self.bytes.len().max(n), 0);
        let local = libc::iovec {
            iov_base: self.bytes.as_mut_ptr().cast(),
            iov_len: n,
        };
        let remote = libc::iovec {
            iov_base: from as *mut libc::c_void,
            iov_len: n,
        };
        // SAFETY: the kernel writes at most `n` bytes to `bytes`, which has as many; the other address is only read, in the
        // other process.
        let copied = unsafe { libc::process_vm_readv(tid, &local, 1, &remote, 1, 0) };
        if copied < 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EPERM) {
            self.refused += 1;
        }
        usize::try_from(copied).ok().filter(|&n| n > 0)
    }
}

/// How often a thread got a CPU; `None`: it has ended, or this kernel does not count.
fn times_run(pid: i32, tid: i32) -> Option<u64> {
    let text = small_file(&format!("/proc/{pid}/task/{tid}/schedstat"))?;
    text.split_ascii_whitespace().nth(2)?.parse().ok()
}

/// Where a thread waits.
struct Place {
    sp: u64,
    ip: u64,
    /// The file, pipe or socket.
    at: Option<String>,
}

/// `None`: it runs, or has ended.
fn place(pid: i32, tid: i32) -> Option<Place> {
    // NUMBER ARGUMENTS... STACK-POINTER INSTRUCTION-POINTER, or "running".
    let text = small_file(&format!("/proc/{pid}/task/{tid}/syscall"))?;
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let [ref call @ .., sp, ip] = words[..] else {
        return None;
    };
    let hex = |word: &str| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok();
    let (sp, ip) = hex(sp).zip(hex(ip))?;
    let at = descriptor::waits_at(pid, tid, call, sp);
    Some(Place { sp, ip, at })
}

fn small_file(path: &str) -> Option<String> {
    let mut bytes = [0; 512];
    let n = File::open(path).ok()?.read(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes[..n]).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn stacks_that_are_costly_to_follow_are_read_in_turn() {
        const THREADS: usize = 12;
        // A fifth of what may be saved.
        let costly_ns = (SAVED_NS as f64 * SHARE_MAX / 5.0) as u64;
        let Some(cpu) = Cpu::own() else {
            let need = kasuri_testkit::Need::Machine;
            return kasuri_testkit::skip_for(need, "no call paths on this CPU");
        };
        let mut waits = Waits::new(cpu, false);
        let (tell, told) = mpsc::channel();
        let wait = || {
            let (end, ended) = mpsc::channel::<()>();
            let tell = tell.clone();
            let thread = std::thread::spawn(move || {
                let _ = tell.send(rustix::thread::gettid().as_raw_nonzero().get());
                ended.recv()
            });
            (end, thread)
        };
        let threads: Vec<_> = (0..THREADS).map(|_| wait()).collect();
        let pid = std::process::id() as i32;
        told.iter()
            .take(THREADS)
            .for_each(|tid| waits.add(pid, tid));
        let mut look = |now: u64| {
            let mut n = 0;
            waits.look(now, &mut |_, _, _, _| {
                n += 1;
                Followed {
                    path: 0,
                    end: PathEnd::Complete,
                    took_ns: costly_ns,
                }
            });
            n
        };
        // The seconds are told, not waited for; a thread may take a while to wait.
        let mut read = Vec::new();
        for n in 1..1000 {
            read.push(look(n * 1_000_000_000));
            if read.iter().sum::<usize>() >= THREADS {
                break;
            }
            std::thread::yield_now();
        }
        assert!(read.iter().sum::<usize>() >= THREADS, "{read:?}");
        assert!(read.iter().all(|&n| n <= 6), "{read:?}");
        for (end, thread) in threads {
            drop(end);
            assert!(thread.join().is_ok());
        }
    }
}
