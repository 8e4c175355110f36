//! Process and thread ids. Writers number as they like: from 0 in each process, with 64 bits, or with text.
use super::event::{integer, text};
use kasuri_model::{StrIx, Strings};
use serde_json::value::RawValue;
use std::collections::HashMap;

/// Ids that the kernel could not give are numbered from here.
const FOREIGN: i32 = 0x6000_0000;

/// Ids met so far.
#[derive(Debug, Default)]
pub(super) struct Ids {
    pids: HashMap<String, i32>,
    tids: HashMap<(i32, String), i32>,
    /// Process of each asynchronous id.
    pub async_pid: HashMap<(i32, u64), i32>,
}

impl Ids {
    /// The process; one that is no number is named by its text.
    pub fn pid(
        &mut self,
        raw: Option<&RawValue>,
        strings: &mut Strings,
        names: &mut HashMap<i32, StrIx>,
    ) -> i32 {
        let written = text(raw);
        if let Some(pid) = small(&written) {
            return pid;
        }
        let next = FOREIGN + self.pids.len() as i32;
        if let Some(&pid) = self.pids.get(&*written) {
            return pid;
        }
        self.pids.insert(written.clone().into_owned(), next);
        names.insert(next, strings.intern(&format!("process {written}")));
        next
    }

    /// The thread; with a name when it is new and no number that the kernel gives.
    pub fn tid(&mut self, pid: i32, raw: Option<&RawValue>) -> (i32, Option<String>) {
        let written = text(raw);
        if let Some(tid) = small(&written) {
            return (tid, None);
        }
        let key = (pid, written.into_owned());
        if let Some(&tid) = self.tids.get(&key) {
            return (tid, None);
        }
        let tid = FOREIGN + self.tids.len() as i32;
        let name = format!("thread {}", key.1);
        self.tids.insert(key, tid);
        (tid, Some(name))
    }
}

/// Absent ids are 0.
fn small(text: &str) -> Option<i32> {
    if text.is_empty() {
        return Some(0);
    }
    integer(text)
        .and_then(|id| i32::try_from(id).ok())
        .filter(|&id| id < FOREIGN)
}
