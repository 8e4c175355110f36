//! Reads memory, mappings and files of other processes in a process of its own, which may hang.
//!
//! A page belongs to whoever made it: one that is served by a program (userfaultfd, a file of FUSE)
//! comes when that program likes, or never, and so does what takes the lock of the memory that such
//! a page belongs to. Nothing ends such a wait but SIGKILL, and not always. So the recorder asks
//! another process, by memory that both have and a socket that says when, and waits for it no
//! longer than [`WAIT_NS`]. One that sleeps over one question for [`GIVE_UP_NS`] is killed, whether
//! it dies or not, and the process that it was asked about is not read again. Of those that were
//! left behind there are few, and then none is made any more.
//!
//! There are two: one reads the stacks of threads that wait, many at a time, and nobody waits for
//! it ([`Lane::Waits`]); the other answers at once ([`Lane::Now`]).
//!
//! Where Yama lets only a program's ancestors read it, the reader is a thread: a process beside the
//! program would be refused. Other users' processes cannot be read there, so only a user's own
//! program can leave that user's recorder with a thread that does not end.
//!
//! Rejected: to look first whether a page is there (/proc/PID/pagemap): it may go before it is
//! read. A signal: these waits end by SIGKILL only.
//!
//! `shared` is what both sides have, `answers` what a reader does.
mod answers;
mod shared;

pub(crate) use shared::{ASKS_MAX, Answer, Ask, Found, ROOM};

use super::apart::{self, is_readable};
use super::held;
use super::place::{Call, small_file};
use crate::clock;
use kasuri_base::words::harmless;
use rustix::net::RecvFlags;
use rustix::process::Pid;
use std::cell::RefCell;
use std::collections::HashSet;
use std::fs::File;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use answers::serve;
use shared::{KEPT_ROOM, Mapping, Received, What, pair, receive, send};

/// Longest wait for an answer.
pub(crate) const WAIT_NS: u64 = 50_000_000;
/// Time after which a reader that sleeps over a question is given up. Nobody waits so long: a page
/// on a slow disk may need it.
pub(crate) const GIVE_UP_NS: u64 = 500_000_000;
/// Most readers that are given up in a recording, and most that are left behind, since they do not
/// die.
const GIVEN_UP_MAX: usize = 32;
const LEFT_MAX: usize = 4;
/// After so long without a question it is looked whether the recorder is urgent now.
const URGENT_NS: u64 = 1_000_000;
/// Most bytes of the text about a thread's system call.
const CALL_BYTES: usize = 256;

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Stacks of threads that wait, later.
    Waits,
    /// Now.
    Now,
}

/// Whether a process that is no ancestor of a program may read it (Yama's `ptrace_scope`).
fn may_be_a_process() -> bool {
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    let is_free = scope.map_or(true, |text| text.trim() == "0");
    let traces = rustix::thread::CapabilitySet::SYS_PTRACE;
    is_free || rustix::thread::capabilities(None).is_ok_and(|has| has.effective.contains(traces))
}

/// What answers.
#[derive(Debug)]
enum Who {
    Process(Pid),
    Thread(std::thread::JoinHandle<()>),
}

impl Who {
    /// Ends it; itself, if it does not.
    fn end(self) -> Option<Who> {
        let is_gone = match &self {
            Who::Process(pid) => apart::give_up(*pid),
            // It ends by the end of the socket.
            Who::Thread(_) => self.is_gone(),
        };
        (!is_gone).then_some(self)
    }

    fn is_gone(&self) -> bool {
        match self {
            Who::Process(pid) => apart::is_gone(*pid),
            Who::Thread(thread) => thread.is_finished(),
        }
    }
}

/// One that runs.
#[derive(Debug)]
struct Reader {
    who: Who,
    socket: OwnedFd,
    shared: Arc<Mapping>,
    is_urgent: bool,
}

impl Reader {
    fn start() -> Option<Reader> {
        let shared = Arc::new(Mapping::new()?);
        let (socket, other) = pair()?;
        let who = match may_be_a_process() {
            true => Who::Process(apart::fork(other.as_raw_fd(), || {
                name();
                serve(&other, &shared);
            })?),
            false => {
                let shared = shared.clone();
                let work = move || {
                    apart::block_signals();
                    serve(&other, &shared);
                };
                Who::Thread(std::thread::Builder::new().name(NAME.to_owned()).spawn(work).ok()?)
            }
        };
        Some(Reader { who, socket, shared, is_urgent: false })
    }

    /// Questions that were answered.
    fn n_done(&self) -> usize {
        // ORDER acquire; pairs with the release store in `serve`. Without it an answer could be
        // read before it is whole.
        self.shared.done().load(Ordering::Acquire) as usize
    }

    /// Whether it sleeps: one that runs, or waits for a CPU or is stopped, is only late.
    fn sleeps(&self) -> bool {
        let tid = self.shared.tid().load(Ordering::Relaxed);
        let pid = match &self.who {
            Who::Process(pid) => pid.as_raw_nonzero().get(),
            Who::Thread(_) => std::process::id() as i32,
        };
        let stat = small_file(&format!("/proc/{pid}/task/{tid}/stat"));
        let state =
            stat.and_then(|text| text.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()));
        matches!(state, Some('S' | 'D'))
    }

    /// Comes before other threads as its caller does: it would be late for it else.
    fn be_as_urgent(&mut self) {
        // SAFETY: the call has no pointers.
        let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) } as i32;
        let policy = policy & !libc::SCHED_RESET_ON_FORK;
        let is_urgent = policy == libc::SCHED_FIFO;
        let tid = self.shared.tid().load(Ordering::Relaxed);
        if is_urgent == self.is_urgent || tid == 0 {
            return;
        }
        self.is_urgent = is_urgent;
        let (policy, priority) = match is_urgent {
            true => (libc::SCHED_FIFO, 1),
            false => (libc::SCHED_OTHER, 0),
        };
        // SAFETY: the kernel reads its struct sched_param, one number.
        unsafe { libc::syscall(libc::SYS_sched_setscheduler, tid, policy, &raw const priority) };
    }
}

/// The name of a reader.
const NAME: &str = "kasuri-reader";

fn name() {
    let _ = rustix::thread::set_name(c"kasuri-reader");
}

/// What one of them was asked.
#[derive(Debug, Default)]
struct Asked {
    reader: Option<Reader>,
    /// Where its answers are, also of one that was given up.
    shared: Option<Arc<Mapping>>,
    asks: Vec<Ask>,
    /// Answers that can be taken; `None`: it is not through.
    ready: Option<usize>,
    /// How many were answered, and since when.
    n_done: usize,
    since_ns: u64,
    /// Bytes of the room that answers have.
    used: usize,
    /// The file that was asked for.
    opened: Option<File>,
}

/// The readers, and what they were not answered.
#[derive(Debug, Default)]
struct Inner {
    waits: Asked,
    now: Asked,
    /// Processes that did not answer.
    silent: HashSet<i32>,
    given_up: usize,
    /// Those that were given up and have not ended.
    left: Vec<Who>,
    said: Vec<String>,
    is_closed: bool,
}

/// The readers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Readers(Rc<RefCell<Inner>>);

impl Readers {
    /// Whether this process did not answer before, or nobody may be asked any more.
    pub(crate) fn is_silent(&self, pid: i32) -> bool {
        let inner = self.0.borrow();
        inner.is_closed || inner.silent.contains(&pid)
    }

    /// The process has ended: its number may be another's.
    pub(crate) fn forget(&self, pid: i32) {
        self.0.borrow_mut().silent.remove(&pid);
    }

    /// Asks, after all answers before were taken. `false`: nobody can be asked.
    pub(crate) fn ask(&self, lane: Lane, asks: Vec<Ask>) -> bool {
        self.0.borrow_mut().ask(lane, asks, &[])
    }

    /// The number of questions that have answers now, from the first one on; `None`: not yet, or
    /// nothing was asked.
    pub(crate) fn ready(&self, lane: Lane) -> Option<usize> {
        self.0.borrow_mut().ready(lane, clock::monotonic_ns())
    }

    /// As [`Readers::ready`], after `most_ns` at most.
    pub(crate) fn wait(&self, lane: Lane, most_ns: u64) -> Option<usize> {
        let mut inner = self.0.borrow_mut();
        if inner.lane(lane).asks.is_empty() {
            return None;
        }
        let mut now = clock::monotonic_ns();
        let until = now + most_ns;
        loop {
            if let Some(reader) = &inner.lane(lane).reader {
                let left = Duration::from_nanos(until.saturating_sub(now));
                is_readable(reader.socket.as_raw_fd(), left);
            }
            now = clock::monotonic_ns();
            let ready = inner.ready(lane, now);
            if ready.is_some() || now >= until {
                return ready;
            }
        }
    }

    /// An answer, and its bytes.
    pub(crate) fn take(&self, lane: Lane, ix: usize, bytes: &mut Vec<u8>) -> Answer {
        bytes.clear();
        let mut inner = self.0.borrow_mut();
        let asked = inner.lane(lane);
        let is_there = asked.ready.is_some_and(|n| ix < n);
        let ask = asked.asks.get(ix).filter(|_| is_there);
        let (Some(shared), Some(ask)) = (&asked.shared, ask) else {
            return Answer::NONE;
        };
        let answer = shared.answer(ix);
        let (room, most) = shared.room(ask);
        let n = (answer.n as usize).min(most);
        // SAFETY: the answer is ready: nobody writes to its room before another is asked for.
        bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(room, n) });
        asked.used = asked.used.max(ask.room_at as usize + n);
        answer
    }

    /// All answers were taken.
    pub(crate) fn taken(&self, lane: Lane) {
        let mut inner = self.0.borrow_mut();
        let asked = inner.lane(lane);
        if asked.ready.take().is_some() {
            asked.asks.clear();
            asked.opened = None;
        }
        if std::mem::take(&mut asked.used) > KEPT_ROOM
            && let Some(shared) = &asked.shared
        {
            shared.shrink();
        }
    }

    /// CPU time that answering at once has taken, by the reader that does so now, ns.
    pub(crate) fn used_ns(&self) -> u64 {
        let inner = self.0.borrow();
        let reader = inner.now.reader.as_ref();
        reader.map_or(0, |reader| reader.shared.used_ns().load(Ordering::Relaxed))
    }

    /// What was not answered since the last time, in words.
    pub(crate) fn take_said(&self) -> Vec<String> {
        std::mem::take(&mut self.0.borrow_mut().said)
    }

    /// Whether nobody is asked any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.borrow().is_closed
    }

    /// The list of a process' mappings; `None`: it cannot be read, or did not come in time
    /// ([`Readers::is_busy`]). Then it may be asked for again.
    pub(crate) fn maps(&self, pid: i32) -> Option<Vec<u8>> {
        let is_it = |ask: &Ask| ask.what == What::Maps && ask.pid == pid;
        // One that came too late the last time.
        let was_asked = self.0.borrow().now.asks.first().is_some_and(is_it);
        if !was_asked && !self.ask_now(pid, vec![Ask::maps(pid)], &[]) {
            return None;
        }
        self.wait(Lane::Now, WAIT_NS)?;
        let mut bytes = Vec::new();
        let answer = self.take(Lane::Now, 0, &mut bytes);
        self.taken(Lane::Now);
        (answer.found == Found::Bytes).then_some(bytes)
    }

    /// Asks what has no answer.
    #[cfg(test)]
    pub(crate) fn be_silent_about(&self, pid: i32) {
        let ask = Ask { what: What::Nothing, ..Ask::memory(pid, 0, 8, 0) };
        assert!(self.ask_now(pid, vec![ask], &[]));
    }

    /// Whether the reader is still at what it was asked now.
    pub(crate) fn is_busy(&self) -> bool {
        let mut inner = self.0.borrow_mut();
        !inner.now.asks.is_empty() && inner.ready(Lane::Now, clock::monotonic_ns()).is_none()
    }

    /// A file that a process has mapped, opened for reading, if it is as asked for. In this order:
    /// the mapping itself, which works for removed files and in other mount name spaces, but needs
    /// CAP_CHECKPOINT_RESTORE; the path in the root directory of the process; for a process that
    /// has ended, the path in ours. As root nothing of FUSE is opened.
    pub(crate) fn open(
        &self,
        pid: i32,
        range: Range<u64>,
        device: (u32, u32),
        path: &Path,
        is_it: impl Fn(&File) -> bool,
    ) -> Option<File> {
        let ways = [What::OpenMapping, What::OpenInItsRoot, What::OpenInOurRoot];
        ways.into_iter().find_map(|what| {
            let file = self.open_by(what, pid, range.clone(), device, path)?;
            is_it(&file).then_some(file)
        })
    }

    /// As [`Readers::open`], by the mapping itself alone: it is that file.
    pub(crate) fn open_mapping(
        &self,
        pid: i32,
        range: Range<u64>,
        device: (u32, u32),
    ) -> Option<File> {
        self.open_by(What::OpenMapping, pid, range, device, Path::new(""))
    }

    fn open_by(
        &self,
        what: What,
        pid: i32,
        range: Range<u64>,
        device: (u32, u32),
        path: &Path,
    ) -> Option<File> {
        let path = path.as_os_str().as_bytes();
        let ask =
            Ask { what, end: range.end, device, ..Ask::memory(pid, range.start, path.len(), 0) };
        if path.len() > ROOM || !self.ask_now(pid, vec![ask], path) {
            return None;
        }
        self.wait_while_it_runs(Lane::Now)?;
        let file = self.0.borrow_mut().now.opened.take();
        self.taken(Lane::Now);
        file
    }

    /// As [`Readers::wait`], and on for [`GIVE_UP_NS`] while the reader does not sleep: the machine
    /// is busy.
    fn wait_while_it_runs(&self, lane: Lane) -> Option<usize> {
        (0..GIVE_UP_NS / WAIT_NS).find_map(|n| {
            let sleeps =
                |inner: &mut Inner| inner.lane(lane).reader.as_ref().is_none_or(Reader::sleeps);
            let goes_on = n == 0 || !sleeps(&mut self.0.borrow_mut());
            goes_on.then(|| self.wait(lane, WAIT_NS)).flatten()
        })
    }

    /// Pieces of memory of equal length, by their addresses.
    pub(crate) fn memory(
        &self,
        pid: i32,
        addresses: &[u64],
        len: usize,
        take: impl FnMut(usize, &[u8]),
    ) {
        let ask = |&address: &u64, room_at| Ask::memory(pid, address, len, room_at);
        self.pieces(pid, addresses, len, ask, take);
    }

    /// The system calls that threads of a process are in, by thread.
    pub(crate) fn calls(&self, pid: i32, tids: &[i32]) -> Vec<(i32, Call)> {
        let mut calls = Vec::new();
        let ask = |&tid: &i32, room_at| Ask {
            what: What::Call,
            tid,
            ..Ask::memory(pid, 0, CALL_BYTES, room_at)
        };
        self.pieces(pid, tids, CALL_BYTES, ask, |ix, bytes| {
            let call = Call::parse(&String::from_utf8_lossy(bytes));
            calls.extend(call.map(|call| (tids[ix], call)));
        });
        calls
    }

    /// Asks about each of `all`; an answer has at most `len` bytes.
    fn pieces<T>(
        &self,
        pid: i32,
        all: &[T],
        len: usize,
        ask: impl Fn(&T, usize) -> Ask,
        mut take: impl FnMut(usize, &[u8]),
    ) {
        let mut bytes = Vec::new();
        for (nth, part) in all.chunks(ASKS_MAX).enumerate() {
            let asks = part.iter().enumerate();
            let asks = asks.map(|(ix, of)| ask(of, ix * len)).collect();
            let Some(n) =
                self.ask_now(pid, asks, &[]).then(|| self.wait(Lane::Now, WAIT_NS)).flatten()
            else {
                return;
            };
            for ix in 0..n {
                let answer = self.take(Lane::Now, ix, &mut bytes);
                if answer.found == Found::Bytes {
                    take(nth * ASKS_MAX + ix, &bytes);
                }
            }
            self.taken(Lane::Now);
        }
    }

    /// Asks for what is needed now; not while the reader is still at something else.
    fn ask_now(&self, pid: i32, asks: Vec<Ask>, more: &[u8]) -> bool {
        if self.is_silent(pid) {
            return false;
        }
        if self.is_busy() {
            return false;
        }
        let mut inner = self.0.borrow_mut();
        // It came too late for whoever asked.
        inner.now.ready = None;
        inner.now.opened = None;
        inner.now.asks.clear();
        !inner.silent.contains(&pid) && inner.ask(Lane::Now, asks, more)
    }
}

impl Inner {
    fn lane(&mut self, lane: Lane) -> &mut Asked {
        match lane {
            Lane::Waits => &mut self.waits,
            Lane::Now => &mut self.now,
        }
    }

    /// `more`: what the first question needs more.
    fn ask(&mut self, lane: Lane, asks: Vec<Ask>, more: &[u8]) -> bool {
        self.left.retain(|left| !left.is_gone());
        if self.is_closed || !self.lane(lane).asks.is_empty() || asks.is_empty() {
            return false;
        }
        let asked = self.lane(lane);
        if asked.reader.is_none() {
            asked.reader = Reader::start();
        }
        let Some(reader) = &mut asked.reader else {
            self.close("there is no process for it");
            return false;
        };
        let now = clock::monotonic_ns();
        if now.saturating_sub(asked.since_ns) > URGENT_NS {
            reader.be_as_urgent();
        }
        let asks: Vec<Ask> = asks.into_iter().take(ASKS_MAX).collect();
        asks.iter().enumerate().for_each(|(ix, ask)| reader.shared.set_ask(ix, *ask));
        reader.shared.put(&asks[0], more);
        reader.shared.done().store(0, Ordering::Relaxed);
        let is_sent = send(&reader.socket, asks.len() as u32, None);
        asked.shared = Some(reader.shared.clone());
        (asked.asks, asked.ready) = (asks, None);
        (asked.n_done, asked.since_ns) = (0, now);
        if !is_sent {
            // It died, by another's hand.
            self.give_up(lane, None);
        }
        true
    }

    fn ready(&mut self, lane: Lane, now: u64) -> Option<usize> {
        let asked = self.lane(lane);
        if asked.asks.is_empty() || asked.ready.is_some() {
            return asked.ready;
        }
        let reader = asked.reader.as_ref()?;
        match receive(&reader.socket, RecvFlags::DONTWAIT) {
            Received::Number(_, file) => {
                asked.opened = file.map(File::from);
                asked.ready = Some(asked.asks.len());
                return asked.ready;
            }
            Received::End => {
                self.give_up(lane, None);
                return self.lane(lane).ready;
            }
            Received::Nothing => {}
        }
        let n_done = reader.n_done();
        if n_done != asked.n_done {
            (asked.n_done, asked.since_ns) = (n_done, now);
        }
        let is_late = now.saturating_sub(asked.since_ns) >= GIVE_UP_NS;
        if is_late && reader.sleeps() {
            let pid = asked.asks.get(n_done).map(|ask| ask.pid);
            self.give_up(lane, pid);
        }
        self.lane(lane).ready
    }

    /// Takes what a reader has answered, and goes on without it.
    fn give_up(&mut self, lane: Lane, silent: Option<i32>) {
        let asked = self.lane(lane);
        let Some(reader) = asked.reader.take() else {
            return;
        };
        asked.ready = Some(reader.n_done().min(asked.asks.len()));
        let waited_ns = clock::monotonic_ns().saturating_sub(asked.since_ns);
        let Reader { who, socket, .. } = reader;
        drop(socket);
        self.left.extend(who.end());
        self.given_up += 1;
        if let Some(pid) = silent {
            // It is still at it, and was killed.
            held::add(held::By::Memory, waited_ns);
            self.silent.insert(pid);
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            let name = harmless(name.trim_end());
            self.said.push(format!(
                "the memory of process {pid} ({name}) did not answer within {} ms: it is not read from now on, so the call paths of its waits are not known",
                GIVE_UP_NS / 1_000_000
            ));
        }
        if self.given_up >= GIVEN_UP_MAX {
            self.close(&format!("{GIVEN_UP_MAX} times a process did not answer"));
        } else if self.left.len() >= LEFT_MAX {
            self.close(&format!(
                "{LEFT_MAX} readers wait for processes that do not answer, and cannot be ended"
            ));
        }
    }

    fn close(&mut self, why: &str) {
        if !std::mem::replace(&mut self.is_closed, true) {
            self.said.push(format!("no other process is read from now on: {why}"));
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        for asked in [&mut self.waits, &mut self.now] {
            if let Some(Reader { who, socket, .. }) = asked.reader.take() {
                drop(socket);
                // One that does not end is left behind.
                who.end();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing(pid: i32) -> Ask {
        Ask { what: What::Nothing, ..Ask::memory(pid, 0, 8, 0) }
    }

    /// Looks until there is an answer, as a recorder's loop does.
    fn later(readers: &Readers, lane: Lane) -> usize {
        loop {
            if let Some(n) = readers.ready(lane) {
                return n;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn memory_and_mappings_are_those_of_the_process() {
        let readers = Readers::default();
        let pid = std::process::id() as i32;
        let words: Vec<u64> = (0..200).map(|n| n * 0x0101_0101).collect();
        let addresses: Vec<u64> = words.iter().map(|word| &raw const *word as u64).collect();
        let mut found = vec![None; words.len()];
        readers.memory(pid, &[&addresses[..], &[8]].concat(), 8, |ix, bytes| {
            found[ix] = bytes.try_into().ok().map(u64::from_ne_bytes);
        });
        assert!(found.iter().zip(&words).all(|(f, w)| *f == Some(*w)));
        let maps = readers.maps(pid).unwrap();
        assert!(String::from_utf8_lossy(&maps).contains("[stack]"));
        assert!(readers.maps(i32::MAX).is_none());
        assert!(readers.take_said().is_empty());
    }

    #[test]
    fn who_does_not_answer_is_given_up_and_others_are_answered() {
        let readers = Readers::default();
        let pid = std::process::id() as i32;
        let word = 7u64;
        let at = &raw const word as u64;
        // Another's question after it is not answered with it.
        let asks = vec![Ask::memory(pid, at, 8, 0), nothing(5), Ask::memory(pid, at, 8, 8)];
        assert!(readers.ask(Lane::Waits, asks));
        let began = clock::monotonic_ns();
        assert!(readers.wait(Lane::Waits, WAIT_NS).is_none());
        // Meanwhile what is asked now has an answer.
        assert!(readers.maps(pid).is_some());
        assert_eq!(later(&readers, Lane::Waits), 1);
        assert!(clock::monotonic_ns() - began >= GIVE_UP_NS);
        let mut bytes = Vec::new();
        assert_eq!(readers.take(Lane::Waits, 0, &mut bytes).found, Found::Bytes);
        assert_eq!(bytes, word.to_ne_bytes());
        assert_eq!(readers.take(Lane::Waits, 1, &mut bytes).found, Found::Nothing);
        readers.taken(Lane::Waits);
        assert!(readers.is_silent(5) && !readers.is_silent(pid));
        let said = readers.take_said();
        assert!(said.len() == 1 && said[0].contains("process 5"), "{said:?}");
        // Another one is there.
        assert!(readers.ask(Lane::Waits, vec![Ask::memory(pid, at, 8, 0)]));
        assert_eq!(later(&readers, Lane::Waits), 1);
        assert_eq!(readers.take(Lane::Waits, 0, &mut bytes).found, Found::Bytes);
        readers.forget(5);
        assert!(!readers.is_silent(5));
    }

    #[test]
    fn nobody_is_asked_any_more_after_many_that_did_not_answer() {
        let readers = Readers::default();
        readers.0.borrow_mut().given_up = GIVEN_UP_MAX - 1;
        assert!(readers.ask(Lane::Now, vec![nothing(5)]));
        later(&readers, Lane::Now);
        assert!(readers.is_closed() && readers.is_silent(6));
        assert!(readers.maps(std::process::id() as i32).is_none());
        assert_eq!(readers.take_said().len(), 2);
        readers.taken(Lane::Now);
        assert!(!readers.ask(Lane::Now, vec![nothing(6)]));
    }

    #[test]
    fn a_reader_that_dies_is_replaced() {
        let readers = Readers::default();
        let pid = std::process::id() as i32;
        assert!(readers.maps(pid).is_some());
        let who = match &readers.0.borrow().now.reader.as_ref().unwrap().who {
            Who::Process(pid) => *pid,
            Who::Thread(_) => return,
        };
        rustix::process::kill_process(who, rustix::process::Signal::KILL).unwrap();
        // The one that was lost may be the next.
        assert!((0..3).any(|_| readers.maps(pid).is_some()));
        assert!(!readers.is_silent(pid));
    }
}
