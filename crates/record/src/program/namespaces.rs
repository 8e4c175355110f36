//! Finds the process and thread numbers of a program that runs in a pid name space of its own.
//!
//! A client names its files and chunks by the results of getpid(2) and gettid(2). In a container these are small
//! numbers, which outside belong to other processes; the kernel's events have the outer numbers. So before a client
//! is taken to be /proc/PID, that process must have the client's ring file mapped. If it has not, another process is
//! searched that has it mapped and whose innermost number (`NSpid` in its status) is the client's. Its threads are
//! translated in the same way, each when its first chunk is seen, because a number cannot be looked up after its
//! thread has ended.
//!
//! Example: a container's process 7 with thread 9 may be process 4711 with thread 4713 outside; its row in
//! `procs.jsonl` connects the two pairs.
//!
//! A client that ended before it was looked up is *in doubt*. The recording says so, and its reader goes by the
//! kernel's events. This module trusts nothing that the program wrote except its claim to a number, and a process can
//! claim no number but its own.
use crate::guard::reader::Readers;
use kasuri_format::meta::Proc;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

/// (pid, generation) as the client's files are named.
type ClientId = (u32, u32);

/// The initial pid name space, by its fixed inode number (PROC_PID_INIT_INO).
const INITIAL: &str = "pid:[4026531836]";

/// Listing all processes takes milliseconds on a large machine: it may take one part in so many of the time.
const REST_FACTOR: u32 = 20;

/// The place of a client's process in /proc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It is /proc/PID.
    Here,
    /// It is /proc/N; N differs from its own number.
    Elsewhere(i32),
    /// No living process has its ring file.
    Doubt,
    /// Not searched yet: the processes were listed too short a time ago, or one did not say in time what it has mapped.
    Later,
}

/// A process that has a number of its own in an inner name space.
#[derive(Clone, Copy, Debug)]
struct Inner {
    outer: i32,
    inner: i32,
}

/// The clients in other name spaces that were found so far.
#[derive(Debug, Default)]
pub struct NameSpaces {
    listed: Vec<Inner>,
    listed_at: Option<Instant>,
    rest: Duration,
    /// The list is younger than any client that is looked up in it.
    is_fresh: bool,
    /// Threads that were written to the recording: client, inner and outer number.
    said: HashSet<(ClientId, i32, i32)>,
    /// For each client elsewhere, the inner numbers of its threads by their outer numbers.
    threads: HashMap<ClientId, HashMap<i32, i32>>,
    /// For `procs.jsonl`, and the number of rows that were taken.
    rows: Vec<Proc>,
    taken: usize,
    /// Who lists mappings: the lock that this takes may be held by who waits for a page that never comes.
    readers: Readers,
    /// Nothing is put off any more.
    is_last: bool,
}

impl NameSpaces {
    pub(crate) fn readers(&self) -> &Readers {
        &self.readers
    }

    /// Whether a process has a file mapped whose path ends in `end`; `None`: it is not known yet. Asked once per process: the kernel
    /// stops the process for some microseconds meanwhile.
    fn has_mapped(&self, pid: i32, end: &str) -> Option<bool> {
        // Nobody need be asked about one that has ended.
        if crate::program::procs::start_time(pid).is_none() {
            return Some(false);
        }
        match self.readers.maps(pid) {
            Some(text) => {
                Some(text.split(|&b| b == b'\n').any(|line| line.ends_with(end.as_bytes())))
            }
            None if !self.is_last && self.readers.is_busy() => None,
            None => Some(false),
        }
    }

    /// Finds the process of a client whose ring file has a path that ends in `end` (`/session/p2-0.ring0`).
    pub fn place(&mut self, id: ClientId, end: &str) -> Place {
        // The recorder itself maps all rings.
        let is_other = id.0 != std::process::id();
        match is_other.then(|| self.has_mapped(id.0 as i32, end)) {
            Some(Some(true)) => return Place::Here,
            Some(None) => return Place::Later,
            _ => {}
        }
        let is_fresh = self.list();
        let claims = self.listed.iter().filter(|at| at.inner == id.0 as i32);
        let claims: Vec<i32> = claims.map(|at| at.outer).collect();
        for outer in claims {
            match self.has_mapped(outer, end) {
                Some(true) => {
                    self.say_threads(id, outer);
                    return Place::Elsewhere(outer);
                }
                Some(false) => {}
                None => return Place::Later,
            }
        }
        if !is_fresh {
            return Place::Later;
        }
        self.doubt(id);
        Place::Doubt
    }

    /// The process of a client ended before it was found.
    pub fn doubt(&mut self, id: ClientId) {
        self.rows.push(Proc {
            monotonic_ns: crate::clock::monotonic_ns(),
            ns_pid: id.0 as i32,
            ns_gen: id.1,
            ..Proc::default()
        });
    }

    /// Translates a thread of a client that is /proc/OUTER, unless that was done before. Returns false when the
    /// thread has ended.
    pub fn thread(&mut self, id: ClientId, outer: i32, inner: i32) -> bool {
        let known = |names: &NameSpaces| {
            let threads = names.threads.get(&id);
            threads.is_some_and(|t| t.values().any(|&n| n == inner))
        };
        known(self) || {
            self.say_threads(id, outer);
            known(self)
        }
    }

    /// Inner numbers of the living threads of /proc/OUTER.
    pub fn living(outer: i32) -> HashSet<i32> {
        let ids = crate::program::procs::threads(outer).into_iter();
        ids.filter_map(|tid| innermost(&status(outer, tid)?).map(|(inner, _)| inner)).collect()
    }

    /// Rows that were added since the last call.
    pub fn take_rows(&mut self) -> Vec<Proc> {
        let from = std::mem::replace(&mut self.taken, self.rows.len());
        self.rows[from..].to_vec()
    }

    /// All rows so far.
    pub fn rows(&self) -> &[Proc] {
        &self.rows
    }

    /// Adds a row for each new thread, from its status.
    fn say_threads(&mut self, id: ClientId, outer: i32) {
        let listed = crate::program::procs::threads(outer);
        let known = self.threads.entry(id).or_default();
        known.retain(|tid, _| listed.contains(tid));
        let ppid = crate::program::procs::parent(outer);
        for tid in listed {
            if known.contains_key(&tid) {
                continue;
            }
            let Some(text) = status(outer, tid) else {
                continue;
            };
            let Some((inner, _)) = innermost(&text) else {
                continue;
            };
            known.insert(tid, inner);
            if self.said.insert((id, inner, tid)) {
                self.rows.push(Proc {
                    monotonic_ns: crate::clock::monotonic_ns(),
                    pid: outer,
                    tid,
                    ppid,
                    comm: name(&text),
                    ns_pid: id.0 as i32,
                    ns_tid: inner,
                    ns_gen: id.1,
                    ..Proc::default()
                });
            }
        }
    }

    /// Begins a round: new clients may have come, so the list is old. `hurry`: this is the end, and no client is put
    /// off any more.
    pub fn begin_round(&mut self, hurry: bool) {
        self.is_fresh = false;
        self.is_last = hurry;
        if hurry {
            self.listed_at = None;
        }
    }

    /// Lists the processes that have more than one number, once a round. Returns false when the last list is too
    /// recent.
    fn list(&mut self) -> bool {
        if self.is_fresh {
            return true;
        }
        let now = Instant::now();
        if self.listed_at.is_some_and(|at| now < at + self.rest) {
            return false;
        }
        self.listed = crate::program::procs::all()
            .filter_map(|outer| {
                let (inner, levels) = innermost(&status(outer, outer)?)?;
                (levels > 1).then_some(Inner { outer, inner })
            })
            .collect();
        self.rest = now.elapsed() * REST_FACTOR;
        self.listed_at = Some(Instant::now());
        self.is_fresh = true;
        true
    }
}

fn status(pid: i32, tid: i32) -> Option<String> {
    let bytes = std::fs::read(format!("/proc/{pid}/task/{tid}/status")).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn name(status: &str) -> String {
    let line = status.lines().find_map(|line| line.strip_prefix("Name:"));
    line.unwrap_or_default().trim().to_owned()
}

/// The innermost number of `NSpid`, and the count of numbers; `None`: the kernel does not have the field (before
/// 4.1).
fn innermost(status: &str) -> Option<(i32, usize)> {
    let numbers = status.lines().find_map(|l| l.strip_prefix("NSpid:"))?;
    let numbers: Vec<i32> =
        numbers.split_ascii_whitespace().filter_map(|n| n.parse().ok()).collect();
    Some((*numbers.last()?, numbers.len()))
}

/// The number by which a process knows itself; its number in /proc where the kernel does not show it.
pub fn own_number(pid: i32) -> i32 {
    let text = status(pid, pid);
    text.and_then(|text| innermost(&text)).map_or(pid, |(inner, _)| inner)
}

/// Whether this process lives in the initial name space, whose numbers the kernel's events carry.
pub fn is_initial() -> bool {
    let name = std::fs::read_link("/proc/self/ns/pid");
    name.map_or(true, |name| name.to_str() == Some(INITIAL))
}

/// Whether /proc shows this process under its own number. With `unshare -pf` and the outer /proc it does not, and
/// every number in there means another process.
pub fn proc_is_ours() -> bool {
    let own = std::fs::read_link("/proc/self");
    own.map_or(true, |own| own.to_str() == Some(&std::process::id().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_number_is_the_last() {
        let status = "Name:\tx y\nNSpid:\t4711\t12\t3\n";
        assert_eq!(innermost(status), Some((3, 3)));
        assert_eq!(name(status), "x y");
        assert_eq!(innermost("Name:\tx\nNSpid:\t7\n"), Some((7, 1)));
        assert_eq!(innermost("Name:\tx\n"), None);
    }

    #[test]
    fn a_client_whose_ring_nobody_maps_is_in_doubt_and_said_once() {
        let mut names = NameSpaces::default();
        let ring = "/kasuri-none/p2-7.ring0";
        // Process 2 is kthreadd or does not exist; in both cases it maps no such file.
        assert_eq!(names.place((2, 7), ring), Place::Doubt);
        let rows = names.take_rows();
        // The list of this round serves all its clients; the next one waits.
        assert_eq!(names.place((3, 7), ring), Place::Doubt);
        names.begin_round(false);
        assert_eq!(names.place((4, 7), ring), Place::Later);
        names.begin_round(true);
        assert_eq!(names.place((4, 7), ring), Place::Doubt);
        assert_eq!((rows[0].pid, rows[0].ns_pid, rows[0].ns_gen), (0, 2, 7));
        assert_eq!(names.take_rows().len(), 2);
        assert_eq!(names.rows().len(), 3);
    }

    /// What a process has mapped is asked of another process, which the lock of that memory may keep.
    #[test]
    fn a_process_that_does_not_say_what_it_has_mapped_is_put_off_and_then_in_doubt() {
        let mut names = NameSpaces::default();
        let me = std::process::id() as i32;
        let mapped = std::env::current_exe().unwrap();
        let mapped = mapped.to_str().unwrap();
        assert_eq!(names.has_mapped(me, mapped), Some(true));
        assert_eq!(names.has_mapped(me, "/no/such/file"), Some(false));
        assert_eq!(names.has_mapped(i32::MAX, "x"), Some(false));
        // The parent is asked about, and the reader does not come back.
        let other = rustix::process::getppid().unwrap().as_raw_nonzero().get();
        names.readers.be_silent_about(other);
        let id = (other as u32, 0);
        assert_eq!(names.place(id, mapped), Place::Later);
        while names.readers.is_busy() {
            std::thread::sleep(Duration::from_millis(5));
        }
        names.begin_round(false);
        assert_eq!(names.has_mapped(other, mapped), Some(false));
        // At the end nothing is put off.
        names.readers.be_silent_about(me);
        names.begin_round(true);
        assert_eq!(names.place(id, mapped), Place::Doubt);
    }
}
