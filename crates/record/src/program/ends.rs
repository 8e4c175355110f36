//! What each thread of the program does at the end of a recording: since when it waits, and for whom.
//!
//! Goal: of a program that hangs, who waits for whom. Its threads raise no event that could tell. Method: the kernel's files say where
//! a thread waits (/proc/PID/task/TID/syscall) and when it last had a CPU (`sched`); the lock's own words in the program's memory say who
//! has it, where the C library or the kernel keeps that there. Nothing is stopped, and what may never come (memory, the call of a thread)
//! is asked of [`Readers`].
//!
//! | wait | who is named |
//! |---|---|
//! | futex with priority inheritance, robust mutex | the word is the owner's thread id |
//! | pthread_mutex, pthread_rwlock that is written (glibc) | the owner's thread id, beside the word that is waited at |
//! | pthread_join | the word is the thread's id until it ends |
//! | wait4, waitid | the child, or all children that live |
//! | flock, fcntl | who /proc/locks says has it |
//! | read and write of a pipe, a TCP connection on this machine | the processes that have the other end open |
//!
//! A number out of the program's memory names a thread only if the program has such a thread. Without an owner nobody is named.
//!
//! Rejected: ptrace(2), which stops the program and may leave it stopped.
use super::procs;
use crate::clock;
use crate::guard::apart;
use crate::guard::place::{Call, last_cpu, small_file};
use crate::guard::reader::Readers;
use crate::guard::safefs;
use kasuri_format::meta::{AtEnd, ENDS_MAX, Peer, Proc};
use std::collections::{HashMap, HashSet};
use std::fs::read_link;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Longest time that all of it takes; what is not looked at by then is not told.
const MOST: Duration = Duration::from_millis(500);
/// Most processes that a wait names.
const PEERS_MAX: usize = 4;
/// Most descriptors of other processes that are looked at.
const LINKS_MAX: usize = 1 << 16;
/// Most bytes of a list of the kernel's that anyone can make longer; of a longer one nothing is told.
const LIST_BYTES_MAX: u64 = 16 << 20;
/// Bytes of a lock, from the word that is waited at on.
const LOCK_BYTES: usize = 24;
/// A futex word of the kernel's (PI, robust): who owns it, and that others wait.
const OWNER_BITS: u32 = 0x3fff_ffff;
const WAITERS: u32 = 0x8000_0000;

/// A thread that waits.
struct Waiting {
    row: Proc,
    call: Call,
}

/// Rows about the threads of these processes at the end.
pub(crate) fn look(pids: &[i32], readers: &Readers) -> Vec<Proc> {
    let until = Instant::now() + MOST;
    let mut rows = states(pids);
    rows.iter_mut().for_each(|row| row.at_end = Some(AtEnd::default()));
    since(&mut rows);
    let mut ends = Vec::new();
    let mut waiting = Vec::new();
    for row in rows {
        match row.state == "S" || row.state == "D" {
            true => waiting.push(row),
            false => ends.push(row),
        }
    }
    let mut calls = HashMap::new();
    for &pid in pids {
        let tids: Vec<i32> = waiting.iter().filter(|r| r.pid == pid).map(|r| r.tid).collect();
        calls.extend(readers.calls(pid, &tids));
    }
    let mut other_ends = OtherEnds::default();
    for row in waiting {
        let Some(call) = calls.remove(&row.tid).filter(|_| Instant::now() < until) else {
            ends.push(row);
            continue;
        };
        let mut waiting = Waiting { row, call };
        waiting.find(readers, &mut other_ends);
        ends.push(waiting.row);
    }
    other_ends.find(&mut ends, until);
    ends
}

/// The threads of these processes, and their states.
pub(crate) fn states(pids: &[i32]) -> Vec<Proc> {
    let mut rows = Vec::new();
    for &pid in pids {
        for tid in procs::threads(pid) {
            let Some((state, ppid, comm)) = procs::thread_state(pid, tid) else {
                continue;
            };
            // A first thread that has ended stays in the list as long as others live.
            if matches!(state, 'Z' | 'X') {
                continue;
            }
            if rows.len() >= ENDS_MAX {
                return rows;
            }
            rows.push(Proc {
                monotonic_ns: clock::monotonic_ns(),
                pid,
                tid,
                ppid,
                comm,
                state: state.to_string(),
                ..Proc::default()
            });
        }
    }
    rows
}

/// Adds since when they have had no CPU. The kernel counts that by a clock of each CPU's own, which stands still while the CPU does
/// other things than running threads: it is read on the CPU where a thread was last. So a wait may be longer than told.
fn since(rows: &mut [Proc]) {
    let mut by_cpu: HashMap<usize, Vec<usize>> = HashMap::new();
    for (ix, row) in rows.iter().enumerate() {
        if let Some(cpu) = last_cpu(row.pid, row.tid) {
            by_cpu.entry(cpu).or_default().push(ix);
        }
    }
    // On a thread of its own: its CPUs are changed.
    let now = std::thread::scope(|scope| {
        let read = || {
            apart::block_signals();
            let on = |&cpu: &usize| Some((cpu, clock_of(cpu)?));
            by_cpu.keys().filter_map(on).collect::<HashMap<_, _>>()
        };
        scope.spawn(read).join().unwrap_or_default()
    });
    for (cpu, of_cpu) in by_cpu {
        let Some(&(cpu_ns, monotonic_ns)) = now.get(&cpu) else {
            continue;
        };
        for ix in of_cpu {
            let row = &mut rows[ix];
            let last = last_run_ns(row.pid, row.tid).filter(|_| row.state != "R");
            if let (Some(at_end), Some(last)) = (&mut row.at_end, last) {
                at_end.since_ns = monotonic_ns.saturating_sub(cpu_ns.saturating_sub(last)).max(1);
            }
        }
    }
}

/// The time on a CPU's own clock, and on CLOCK_MONOTONIC.
fn clock_of(cpu: usize) -> Option<(u64, u64)> {
    let mut set = rustix::thread::CpuSet::new();
    (cpu < rustix::thread::CpuSet::MAX_CPU).then(|| set.set(cpu))?;
    rustix::thread::sched_setaffinity(None, &set).ok()?;
    // Its time is counted up when it comes back to its CPU.
    std::thread::sleep(Duration::from_micros(100));
    let me = rustix::thread::gettid().as_raw_nonzero().get();
    Some((last_run_ns(std::process::id() as i32, me)?, clock::monotonic_ns()))
}

/// When a thread last had a CPU, by the clock of that CPU (`se.exec_start`, ms).
fn last_run_ns(pid: i32, tid: i32) -> Option<u64> {
    let text = small_file(&format!("/proc/{pid}/task/{tid}/sched"))?;
    let line = text.lines().find(|line| line.starts_with("se.exec_start"))?;
    let (ms, ns) = line.rsplit_once(':')?.1.trim().split_once('.')?;
    let (ms, ns) = (ms.parse::<u64>().ok()?, ns.parse::<u64>().ok()?);
    ms.checked_mul(1_000_000)?.checked_add(ns)
}

impl Waiting {
    fn set(&mut self, on: &str, by: Vec<Peer>) {
        if let Some(at_end) = &mut self.row.at_end {
            at_end.on = on.to_owned();
            at_end.by = by;
        }
    }

    /// A thread of the same process, by the number that it has itself.
    fn own_thread(&self, tid: u32) -> Option<Peer> {
        let pid = self.row.pid;
        let tid = i32::try_from(tid).ok().filter(|&tid| tid > 0)?;
        let outer = match procs::is_in_our_pid_namespace(pid) {
            true => procs::threads(pid).contains(&tid).then_some(tid)?,
            false => (procs::threads(pid).into_iter())
                .find(|&outer| procs::inner_tid(pid, outer) == Some(tid))?,
        };
        peer(pid, outer)
    }

    fn find(&mut self, readers: &Readers, other_ends: &mut OtherEnds) {
        let [first, second, third, ..] = self.call.args;
        match self.call.number {
            libc::SYS_futex => self.futex(first, second as i32, third as u32, readers),
            libc::SYS_wait4 => self.child(first as i32 > 0, first as i32),
            libc::SYS_waitid => self.child(first as i32 == libc::P_PID as i32, second as i32),
            libc::SYS_flock => self.file_lock(),
            libc::SYS_fcntl if [libc::F_SETLKW, 38].contains(&(second as i32)) => self.file_lock(),
            libc::SYS_read | libc::SYS_readv | libc::SYS_recvfrom | libc::SYS_recvmsg => {
                self.descriptor(first as u32, false, other_ends);
            }
            libc::SYS_write | libc::SYS_writev | libc::SYS_sendto | libc::SYS_sendmsg => {
                self.descriptor(first as u32, true, other_ends);
            }
            _ => {}
        }
    }

    fn futex(&mut self, address: u64, operation: i32, value: u32, readers: &Readers) {
        const LOCKS_PI: [i32; 2] = [libc::FUTEX_LOCK_PI, 13];
        const WAITS: [i32; 2] = [libc::FUTEX_WAIT, libc::FUTEX_WAIT_BITSET];
        let mut words = [0u32; LOCK_BYTES / 4];
        let mut n = 0;
        readers.memory(self.row.pid, &[address], LOCK_BYTES, |_, bytes| {
            for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(4)) {
                *word = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
                n += 1;
            }
        });
        if n == 0 {
            return;
        }
        let operation = operation & libc::FUTEX_CMD_MASK;
        if LOCKS_PI.contains(&operation) {
            let owner = self.own_thread(words[0] & OWNER_BITS);
            return self.set("mutex", owner.into_iter().collect());
        }
        if !WAITS.contains(&operation) || words[0] != value {
            return;
        }
        // The words of glibc's locks: mutex: lock, count, owner; rwlock: from the word on at which readers or writers wait.
        let candidates = match value {
            2 => [("mutex", words[2]), ("rwlock", words[4])],
            3 => [("rwlock", words[4]), ("rwlock", words[3])],
            _ if value & WAITERS != 0 => [("mutex", value & OWNER_BITS), ("", 0)],
            _ => [("thread", value), ("", 0)],
        };
        for (on, tid) in candidates {
            if let Some(owner) = self.own_thread(tid) {
                return self.set(on, vec![owner]);
            }
        }
    }

    fn child(&mut self, is_one: bool, child: i32) {
        let pid = self.row.pid;
        let in_ours = procs::is_in_our_pid_namespace(pid);
        let children = procs::all().filter(|&other| procs::parent(other) == pid);
        let lives = |&other: &i32| procs::start_time(other).is_some();
        let is_it = |&other: &i32| !is_one || !in_ours || other == child;
        let children = children.filter(lives).filter(is_it).take(PEERS_MAX);
        self.set("child", children.filter_map(|other| peer(other, other)).collect());
    }

    /// Who has the lock, as /proc/locks has it: `7: FLOCK ADVISORY WRITE PID ...`, and below it `7: -> FLOCK ADVISORY WRITE PID`.
    fn file_lock(&mut self) {
        let text = list("/proc/locks");
        let pid = self.row.pid.to_string();
        let mut holder = None;
        for line in text.lines() {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            match words[..] {
                [_, "->", _, _, _, waits, ..] if waits == pid => {
                    let by = holder.and_then(|pid: i32| peer(pid, pid));
                    return self.set("file lock", by.into_iter().collect());
                }
                [_, "->", ..] => {}
                [_, _, _, _, has, ..] => holder = has.parse().ok().filter(|&pid| pid > 0),
                _ => {}
            }
        }
        self.set("file lock", Vec::new());
    }

    /// Who has the other end is found later, for all together.
    fn descriptor(&mut self, number: u32, writes: bool, other_ends: &mut OtherEnds) {
        let (pid, tid) = (self.row.pid, self.row.tid);
        let Ok(link) = read_link(format!("/proc/{pid}/task/{tid}/fd/{number}")) else {
            return;
        };
        let text = link.to_string_lossy();
        if text.starts_with("pipe:[") {
            self.set("pipe", Vec::new());
            let end = End { link, needs: Some(!writes) };
            other_ends.wanted.entry(end).or_default().push(tid);
        } else if let Some(inode) = text.strip_prefix("socket:[").and_then(|t| t.strip_suffix(']'))
        {
            self.set("socket", Vec::new());
            if let Some(other) = tcp_peer(pid, inode) {
                let link = PathBuf::from(format!("socket:[{other}]"));
                let end = End { link, needs: None };
                other_ends.wanted.entry(end).or_default().push(tid);
            }
        }
    }
}

fn list(path: &str) -> String {
    let file = safefs::open_regular(Path::new(path)).ok();
    let bytes = file.and_then(|file| safefs::read_at_most(file, LIST_BYTES_MAX).ok());
    String::from_utf8(bytes.unwrap_or_default()).unwrap_or_default()
}

/// A thread with its name.
fn peer(pid: i32, tid: i32) -> Option<Peer> {
    let (_, _, comm) = procs::thread_state(pid, tid)?;
    Some(Peer { pid, tid, comm })
}

/// An end of a pipe or connection: what its descriptors lead to, and whether they must be for writing.
#[derive(PartialEq, Eq, Hash)]
struct End {
    link: PathBuf,
    needs: Option<bool>,
}

/// Ends that others have, and the threads that wait for something to come from there.
#[derive(Default)]
struct OtherEnds {
    wanted: HashMap<End, Vec<i32>>,
}

impl OtherEnds {
    /// Looks through the descriptors of all processes that we may look at.
    fn find(&self, ends: &mut [Proc], until: Instant) {
        if self.wanted.is_empty() {
            return;
        }
        let mut found: HashMap<i32, Vec<Peer>> = HashMap::new();
        let mut n_links = 0;
        for pid in procs::all() {
            let mut of_process: HashSet<i32> = HashSet::new();
            for entry in
                std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten()
            {
                n_links += 1;
                if n_links > LINKS_MAX || Instant::now() > until {
                    return;
                }
                let Ok(link) = read_link(entry.path()) else {
                    continue;
                };
                let mode = std::fs::symlink_metadata(entry.path()).map_or(0, |meta| meta.mode());
                for needs in [None, Some(true), Some(false)] {
                    let fits =
                        needs.is_none_or(|writes| mode & if writes { 0o200 } else { 0o400 } != 0);
                    let end = End { link: link.clone(), needs };
                    if let Some(tids) = self.wanted.get(&end).filter(|_| fits) {
                        of_process.extend(tids);
                    }
                }
            }
            for tid in of_process {
                found.entry(tid).or_default().extend(peer(pid, pid));
            }
        }
        for row in ends {
            if let (Some(at_end), Some(by)) = (&mut row.at_end, found.remove(&row.tid)) {
                at_end.by = by.into_iter().take(PEERS_MAX).collect();
            }
        }
    }
}

/// The inode of the socket at the other end of a TCP connection of this machine, as /proc/PID/net/tcp has it.
fn tcp_peer(pid: i32, inode: &str) -> Option<String> {
    for file in ["tcp", "tcp6"] {
        let text = list(&format!("/proc/{pid}/net/{file}"));
        let rows = || {
            text.lines().skip(1).filter_map(|line| {
                let words: Vec<&str> = line.split_ascii_whitespace().collect();
                Some((*words.get(1)?, *words.get(2)?, *words.get(9)?))
            })
        };
        let Some((local, remote, _)) = rows().find(|row| row.2 == inode) else {
            continue;
        };
        let other = rows().find(|row| row.0 == remote && row.1 == local && row.2 != "0");
        return other.map(|row| row.2.to_owned());
    }
    None
}
