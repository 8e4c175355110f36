//! Processes and threads as /proc shows them.
//!
//! Scheduler events name a thread by its tid only. Its process is known from fork events, and from here if it was
//! running before the recording. Format: proc(5), /proc/PID/stat. Nothing here takes the lock
//! of a process's memory, which may be held for ever: that is for `guard/reader.rs`.
use crate::clock;
use crate::guard::held;
use kasuri_format::meta::Proc;
use std::collections::{HashMap, HashSet};
use std::fs::read_dir;

/// The start of the process in clock ticks since boot; `None`: it does not exist, or only as a zombie. One whose first thread has ended lives
/// on in the others.
pub fn start_time(pid: i32) -> Option<u64> {
    let (state, _, start) = stat(pid)?;
    let lives = !matches!(state, 'Z' | 'X') || threads(pid).iter().any(|&tid| tid != pid);
    lives.then_some(start)
}

/// The start of the process: CLOCK_MONOTONIC, ns, or up to one of the kernel's clock ticks earlier.
pub fn start_ns(pid: i32) -> Option<u64> {
    let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
    let since_boot_ns = start_time(pid)?.checked_mul(tick_ns)?;
    // The kernel counts from the start of the machine, also while that sleeps.
    let monotonic_ns = clock::monotonic_ns();
    let slept_ns = clock::boottime_ns().saturating_sub(monotonic_ns);
    Some(since_boot_ns.saturating_sub(slept_ns))
}

/// State, parent and name of a thread.
pub fn thread_state(pid: i32, tid: i32) -> Option<(char, i32, String)> {
    let text = std::fs::read(format!("/proc/{pid}/task/{tid}/stat")).ok()?;
    let text = String::from_utf8_lossy(&text);
    let (name, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    Some((
        fields.next()?.chars().next()?,
        fields.next()?.parse().ok()?,
        name.split_once('(')?.1.to_owned(),
    ))
}

/// Whether a process calls its threads as we do.
pub fn is_in_our_pid_namespace(pid: i32) -> bool {
    let of = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/pid")).ok();
    let its = of(&pid.to_string());
    its.is_none() || its == of("self")
}

/// The number that a thread has in its own pid name space.
pub fn inner_tid(pid: i32, tid: i32) -> Option<i32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_ascii_whitespace().next_back()?.parse().ok()
}

/// State, parent and start time.
fn stat(pid: i32) -> Option<(char, i32, u64)> {
    let text = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let text = String::from_utf8_lossy(&text);
    // The name may hold spaces and parentheses; the last one closes it.
    let fields: Vec<&str> = text[text.rfind(')')? + 1..].split_ascii_whitespace().collect();
    Some((
        fields.first()?.chars().next()?,
        fields.get(1)?.parse().ok()?,
        fields.get(19)?.parse().ok()?,
    ))
}

/// The words of the command line, each with a zero behind it. It is in the process's memory, whose pages may never come.
///
/// /proc/PID/cmdline would hold the lock of that memory until they do, and with it whatever of the program's threads maps memory: it is
/// asked only where the kernel lets nobody else read.
pub fn command_line(pid: i32) -> Vec<u8> {
    const MOST: u64 = 1 << 20;
    let read = || {
        let text = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
        let text = String::from_utf8_lossy(&text);
        let fields = text[text.rfind(')')? + 1..].split_ascii_whitespace();
        // arg_start and arg_end; 0 for who may not know them.
        let mut ends = fields.skip(45).map(|field| field.parse::<u64>().ok());
        let (start, end) = (ends.next()??, ends.next()??);
        let n = end.checked_sub(start).filter(|&n| n > 0)?.min(MOST) as usize;
        let mut bytes = vec![0; n];
        let [local, remote] = [bytes.as_mut_ptr() as u64, start]
            .map(|at| libc::iovec { iov_base: at as *mut libc::c_void, iov_len: n });
        // SAFETY: the kernel writes at most `n` bytes to `bytes`, and checks the other process's addresses.
        let n = held::time(held::By::Memory, || unsafe {
            libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0)
        });
        bytes.truncate(usize::try_from(n).ok()?);
        Some(bytes)
    };
    let ask = || std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    read().unwrap_or_else(|| held::time(held::By::Memory, ask))
}

/// Thread ids of a process; empty when it has ended. While threads end, the kernel's list may leave out living ones:
/// ask [`has_thread`] about threads that are not in it.
pub fn threads(pid: i32) -> HashSet<i32> {
    ids(&format!("/proc/{pid}/task")).collect()
}

/// Whether a process has a thread. An ended leader whose other threads live counts, and so does a thread that we have
/// no permission to see.
pub fn has_thread(pid: i32, tid: i32) -> bool {
    let looked = std::fs::metadata(format!("/proc/{pid}/task/{tid}"));
    !looked.is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound)
}

/// All processes.
pub fn all() -> impl Iterator<Item = i32> {
    ids("/proc")
}

/// The process's parent; 0 when unknown.
pub fn parent(pid: i32) -> i32 {
    stat(pid).map_or(0, |(_, ppid, _)| ppid)
}

fn ids(dir: &str) -> impl Iterator<Item = i32> {
    read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// User and group of a process.
pub fn owner(pid: i32) -> Option<(u32, u32)> {
    use std::os::unix::fs::MetadataExt;
    let meta = std::fs::metadata(format!("/proc/{pid}")).ok()?;
    Some((meta.uid(), meta.gid()))
}

/// Remembers the threads that were written, so that each is written once, and again when its name changes.
#[derive(Debug, Default)]
pub struct Snapshots {
    known: HashMap<i32, (i32, String)>,
}

impl Snapshots {
    /// All threads of the system.
    pub fn everything(&mut self) -> Vec<Proc> {
        let mut rows = Vec::new();
        for pid in ids("/proc") {
            self.process(pid, &mut rows);
        }
        rows
    }

    /// The threads of `pids` that are new or were renamed.
    pub fn news(&mut self, pids: impl IntoIterator<Item = i32>) -> Vec<Proc> {
        let mut rows = Vec::new();
        for pid in pids {
            self.process(pid, &mut rows);
        }
        rows
    }

    fn process(&mut self, pid: i32, rows: &mut Vec<Proc>) {
        let ppid = stat(pid).map_or(0, |(_, ppid, _)| ppid);
        let monotonic_ns = crate::clock::monotonic_ns();
        for tid in ids(&format!("/proc/{pid}/task")) {
            let Ok(comm) = std::fs::read(format!("/proc/{pid}/task/{tid}/comm")) else {
                continue;
            };
            let comm = String::from_utf8_lossy(comm.trim_ascii_end()).into_owned();
            let news = (pid, comm.clone());
            if self.known.get(&tid) != Some(&news) {
                self.known.insert(tid, news);
                rows.push(Proc { monotonic_ns, pid, tid, ppid, comm, ..Proc::default() });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_found_once() {
        let me = std::process::id() as i32;
        assert!(start_time(me).is_some());
        let listed = std::fs::read(format!("/proc/{me}/cmdline")).unwrap();
        assert_eq!(command_line(me), listed);
        assert!(command_line(i32::MAX).is_empty());
        assert!(threads(me).contains(&me));
        let mut snapshots = Snapshots::default();
        let rows = snapshots.everything();
        let mine = rows.iter().find(|row| row.tid == me).unwrap();
        assert_eq!(mine.pid, me);
        assert!(mine.ppid > 0 && !mine.comm.is_empty());
        assert!(!snapshots.news([me]).iter().any(|row| row.tid == me));
    }
}
