//! Finds the process and thread numbers of a program that runs in a pid name space of its own.
//!
//! A client names its files and chunks by what getpid(2) and gettid(2) say. Inside a container these are small numbers that
//! mean other processes out here, whose numbers the kernel's events bear. So before a client is believed to be /proc/PID,
//! that process must have the client's ring file mapped; else the one is looked for that has, and whose innermost
//! number (`NSpid` of its status) is the client's. Its threads are translated in the same way, each when its
//! first chunk is seen: a number cannot be looked up when its thread is gone.
//!
//! A client that was gone before anybody looked is *in doubt*; the recording says so, and its reader goes by the kernel's
//! events. Nothing here trusts what the program wrote but its own claim to a number: a process can claim no other's.
use kasuri_format::meta::Proc;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

/// (pid, generation) as the client's files are named.
type ClientId = (u32, u32);

/// The initial pid name space, by its fixed inode number (PROC_PID_INIT_INO).
const INITIAL: &str = "pid:[4026531836]";

/// Listing all processes takes milliseconds on a large machine: it may take a twentieth of the time.
const REST_FACTOR: u32 = 20;

/// Where a client's process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It is /proc/PID.
    Here,
    /// It is /proc/N, another number than its own.
    Elsewhere(i32),
    /// No living process has its ring file.
    Doubt,
    /// Not looked for yet: processes were listed too short a time ago.
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
    /// The list is younger than any client that is asked about.
    is_fresh: bool,
    /// Threads that were written to the recording: client, inner and outer number.
    said: HashSet<(ClientId, i32, i32)>,
    /// Of each client elsewhere: what its threads are called inside, by their number out here.
    threads: HashMap<ClientId, HashMap<i32, i32>>,
    /// For `procs.jsonl`; so many of them were taken.
    rows: Vec<Proc>,
    taken: usize,
}

impl NameSpaces {
    /// Where the process of a client is, the path of whose ring file ends in `end` (`/session/p2-0.ring0`).
    pub fn place(&mut self, id: ClientId, end: &str) -> Place {
        // We map all rings.
        let is_other = id.0 != std::process::id();
        if is_other && crate::program::procs::maps(id.0 as i32, end) {
            return Place::Here;
        }
        let is_fresh = self.list();
        let claims = |at: &&Inner| at.inner == id.0 as i32;
        let owner = self.listed.iter().filter(claims).map(|at| at.outer);
        match owner
            .into_iter()
            .find(|&pid| crate::program::procs::maps(pid, end))
        {
            Some(outer) => {
                self.say_threads(id, outer);
                Place::Elsewhere(outer)
            }
            None if !is_fresh => Place::Later,
            None => {
                self.rows.push(Proc {
                    monotonic_ns: crate::clock::monotonic_ns(),
                    ns_pid: id.0 as i32,
                    ns_gen: id.1,
                    ..Proc::default()
                });
                Place::Doubt
            }
        }
    }

    /// Translates a thread of a client that is /proc/OUTER, when that was not done yet. False: it is not there any more.
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
        ids.filter_map(|tid| innermost(&status(outer, tid)?).map(|(inner, _)| inner))
            .collect()
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

    /// Reads the status of each thread that is new.
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
                });
            }
        }
    }

    /// New clients may have come: the list is old. `hurry`: the end, no client is put off any more.
    pub fn begin_round(&mut self, hurry: bool) {
        self.is_fresh = false;
        if hurry {
            self.listed_at = None;
        }
    }

    /// Lists the processes that have more than one number, once a round. False: that was done too short a time ago.
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

/// The innermost number of `NSpid`, and how many there are; `None`: the kernel does not say (before 4.1).
fn innermost(status: &str) -> Option<(i32, usize)> {
    let numbers = status.lines().find_map(|l| l.strip_prefix("NSpid:"))?;
    let numbers: Vec<i32> = numbers
        .split_ascii_whitespace()
        .filter_map(|n| n.parse().ok())
        .collect();
    Some((*numbers.last()?, numbers.len()))
}

/// The number by which a process calls itself; that of /proc where nothing else is known.
pub fn own_number(pid: i32) -> i32 {
    let text = status(pid, pid);
    text.and_then(|text| innermost(&text))
        .map_or(pid, |(inner, _)| inner)
}

/// Whether this process lives in the name space whose numbers the kernel's events bear.
pub fn is_initial() -> bool {
    let name = std::fs::read_link("/proc/self/ns/pid");
    name.map_or(true, |name| name.to_str() == Some(INITIAL))
}

/// Whether /proc shows this process under its own number; with `unshare -pf` and the outer /proc it does not, and
/// every number in there means somebody else.
pub fn proc_is_ours() -> bool {
    let own = std::fs::read_link("/proc/self");
    own.map_or(true, |own| {
        own.to_str() == Some(&std::process::id().to_string())
    })
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
        // Process 2 is kthreadd, or nobody: it maps no such file.
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
}
