//! Maps process and thread ids to those of the model.
//!
//! Writers number threads from 0 in each process, with 64 bits, or with text. An id below [`FOREIGN`] is used as it is.
//! Any other gets the next number from there on, and a name with the file's text, such as `thread 0x7f0012345678`. The
//! same text always gets the same number.
use super::event::{integer, text};
use kasuri_model::{StrIx, Strings};
use serde_json::value::RawValue;
use std::collections::HashMap;

/// The first number for foreign ids. The kernel's ids end at 2^22, so there is no conflict.
const FOREIGN: i32 = 0x6000_0000;

/// The ids seen so far.
#[derive(Debug, Default)]
pub(super) struct Ids {
    pids: HashMap<String, i32>,
    tids: HashMap<(i32, String), i32>,
    /// The process that owns the track of an asynchronous id, by scope (0: the whole trace) and key.
    pub async_pid: HashMap<(i32, u64), i32>,
}

impl Ids {
    /// The process id. A foreign one is named after its text in `names`.
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

    /// The thread id, and a name if the id is foreign and new.
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

/// The id as a number of the kernel; none: it is foreign. An absent id is 0.
fn small(text: &str) -> Option<i32> {
    if text.is_empty() {
        return Some(0);
    }
    integer(text).and_then(|id| i32::try_from(id).ok()).filter(|&id| id < FOREIGN)
}
