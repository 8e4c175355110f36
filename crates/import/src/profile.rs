//! What readers of profiles share: threads that are told by names rather than numbers.
use kasuri_model::input::KnownThread;
use std::collections::{HashMap, HashSet};

/// A thread as a profile tells it.
#[derive(Clone, PartialEq, Eq, Hash, Default, Debug)]
pub(crate) struct NamedThread<'a> {
    /// 0: not known.
    pub tid: i32,
    /// 0: not known.
    pub pid: i32,
    /// "": not known.
    pub name: &'a str,
    /// "": not known.
    pub process: &'a str,
}

/// Threads with numbers of their own, in the same order: those that have none, or another's, get the lowest that are free. Those without any name
/// have `program`'s.
pub(crate) fn number_them<'n>(all: &[NamedThread<'n>], program: &str) -> Vec<KnownThread> {
    let mut taken: HashSet<i32> = all.iter().flat_map(|t| [t.tid, t.pid]).collect();
    let mut given = HashSet::new();
    let mut next = 1;
    let mut free = || {
        while !taken.insert(next) {
            next += 1;
        }
        next
    };
    // Of processes without a number, by their names.
    let mut pids: HashMap<&'n str, i32> = HashMap::new();
    let row = |t: &NamedThread<'n>| {
        let pid = match t.pid {
            0 => *pids.entry(t.process).or_insert_with(&mut free),
            pid => pid,
        };
        let tid = match t.tid {
            0 if given.insert(pid) => pid,
            0 => free(),
            tid if given.insert(tid) => tid,
            _ => free(),
        };
        let name = [t.name, t.process].into_iter().find(|name| !name.is_empty());
        KnownThread { pid, tid, comm: name.unwrap_or(program).to_owned(), ..KnownThread::default() }
    };
    all.iter().map(row).collect()
}
