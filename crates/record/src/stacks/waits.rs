//! The stacks of threads that wait, read from outside.
//!
//! The stack of a blocked thread does not move. So the recorder reads it like a file, which costs the program nothing and
//! needs no privileges: where the thread stands from /proc/PID/task/TID/syscall, the bytes by process_vm_readv(2), up to the
//! top of the stack. That the thread did not run meanwhile is shown by the kernel's count of the times that it got a CPU
//! (third number of `schedstat`): it is read before and after, and must be the same. The sample's time lies between the two,
//! so at this time the thread was blocked with this stack.
//!
//! All of that is done by a process of its own ([`crate::guard::reader`]), since a page of the stack may never come. It is asked about many threads
//! at once, and answers are taken when they are there: at one of the next looks.
//!
//! A thread is looked at each 10 to 20 ms, as chance has it, less often while nothing changes, and read once for each count: once a wait. Waits
//! shorter than that are mostly not seen.
//!
//! Of everyone's threads (`-a`) most wait all the time. Those are looked at up to once a second only, and of stacks no more are read
//! than the mappings of their processes can be learnt meanwhile.
use crate::guard::place::times_run;
use crate::guard::reader::{Answer, Ask, Found, Lane, ROOM, Readers, WAIT_NS};
use kasuri_format::call_paths::PathEnd;
use kasuri_unwind::{Cpu, Registers, Stack};
use std::collections::{HashMap, HashSet, VecDeque};

/// Most looks a second, each of one to four system calls on /proc.
const LOOKS_PER_S: u64 = 2000;
const EACH_LOOK_NS: u64 = 1_000_000_000 / LOOKS_PER_S;
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
/// Longest wait for the answers to what was asked; as a rule they are there within a fraction of that.
const SOON_NS: u64 = 2_000_000;
/// Most threads that are watched.
const THREADS_MAX: usize = 1 << 16;
/// Entries of the queue that are passed over at once.
const PASSED_MAX: usize = 1024;
/// Bytes of a stack that are read at first; then eight times as many each time, while they are too few.
const FIRST_BYTES: usize = 16 << 10;
const MOST_BYTES: usize = 1 << 20;
/// Most of those that are read again at once.
const WIDER_MAX: usize = 8;
// All answers have room.
const _: () = assert!(LOOKS_MAX as usize * FIRST_BYTES + WIDER_MAX * MOST_BYTES <= ROOM);

/// A thread that is watched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    threads: HashMap<i32, Watched>,
    queue: VecDeque<i32>,
    /// Looks are allowed from here on: one each 1/2000 s.
    allowed_ns: u64,
    /// CPU time may be spent from here on: what took 1 ms is followed by 5 ms without looks.
    rested_ns: u64,
    readers: Readers,
    /// What was asked about, in this order, and the next answer to take.
    asked: Vec<Asked>,
    next: usize,
    /// Processes that began another program since.
    changed: HashSet<i32>,
    /// Waits of which more is to be read.
    wider: Vec<Asked>,
    bytes: Vec<u8>,
    /// Reads that were refused.
    pub(super) refused: u64,
}

/// A thread that was asked about.
#[derive(Clone, Copy, Debug)]
struct Asked {
    tid: i32,
    watched: Watched,
    /// When.
    time_ns: u64,
    /// Most bytes of its stack; 0: none.
    bytes: usize,
    /// Its stack was not read before.
    is_wanted: bool,
}

/// What comes after a stack was followed.
enum Step {
    /// More of it is to be read.
    Wider(Asked),
    Done(Option<Wait>),
}

/// What follows the stack of a process' thread that was read: into a sample or, where the copy is too short, nothing yet.
/// The last is the time at which it was read.
pub(super) type Follow<'f> = dyn FnMut(i32, i32, &Registers, Stack<'_>, u64) -> Followed + 'f;

/// A stack that was followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Followed {
    pub(super) path: u32,
    pub(super) end: PathEnd,
    /// CPU time that it took.
    pub(super) took_ns: u64,
    /// Other memory of the process was read too: it is only true if the thread has not run since its stack was.
    pub(super) is_of_now: bool,
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
    pub(super) fn new(cpu: Cpu, of_all: bool, readers: Readers) -> Waits {
        Waits {
            cpu,
            of_all,
            reads_allowed_ns: 0,
            threads: HashMap::new(),
            queue: VecDeque::new(),
            allowed_ns: 0,
            rested_ns: 0,
            readers,
            asked: Vec::new(),
            next: 0,
            changed: HashSet::new(),
            wider: Vec::new(),
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
        let new = Watched { pid, next_ns, ..Watched::default() };
        if self.threads.insert(tid, new).is_none() {
            self.queue.push_back(tid);
        }
    }

    /// The thread ended.
    pub(super) fn remove(&mut self, tid: i32) {
        self.threads.remove(&tid);
    }

    /// A process runs another program: what was read of the one before is not followed.
    pub(super) fn changed(&mut self, pid: i32) {
        if !self.asked.is_empty() || !self.wider.is_empty() {
            self.changed.insert(pid);
        }
    }

    /// Takes what was found out about the threads that were asked about, then asks about those whose turn it is. Answers that do not come soon
    /// are taken later; the sooner, the fewer of the waits have ended.
    pub(super) fn look(&mut self, now: u64, follow: &mut Follow<'_>) -> Vec<Wait> {
        let saved_ns = LOOKS_MAX * EACH_LOOK_NS;
        self.allowed_ns = self.allowed_ns.max(now.saturating_sub(saved_ns));
        self.rested_ns = self.rested_ns.max(now.saturating_sub(SAVED_NS));
        let saved_ns = READS_MAX_OF_ALL * EACH_READ_NS;
        self.reads_allowed_ns = self.reads_allowed_ns.max(now.saturating_sub(saved_ns));
        let mut found = match self.readers.ready(Lane::Waits) {
            Some(n) => self.take(n, now, follow),
            None => Vec::new(),
        };
        if self.asked.is_empty() {
            self.ask(now);
            if let Some(n) = self.readers.wait(Lane::Waits, SOON_NS) {
                found.extend(self.take(n, now, follow));
            }
        }
        found
    }

    /// Takes the last answers: waits for them for a short time.
    pub(super) fn finish(&mut self, now: u64, follow: &mut Follow<'_>) -> Vec<Wait> {
        match self.readers.wait(Lane::Waits, WAIT_NS) {
            Some(n) => self.take(n, now, follow),
            None => Vec::new(),
        }
    }

    /// Asks about the threads whose turn it is.
    fn ask(&mut self, now: u64) {
        let n_wider = self.wider.len().min(WIDER_MAX);
        let mut asked: Vec<Asked> = self.wider.drain(..n_wider).collect();
        let mut reads_allowed_ns = self.reads_allowed_ns;
        for _ in 0..self.queue.len().min(PASSED_MAX) {
            if self.allowed_ns + EACH_LOOK_NS > now || self.rested_ns > now {
                break;
            }
            let Some(tid) = self.queue.pop_front() else {
                break;
            };
            let Some(&watched) = self.threads.get(&tid) else {
                continue;
            };
            if self.readers.is_silent(watched.pid) {
                self.threads.remove(&tid);
                continue;
            }
            self.queue.push_back(tid);
            if watched.next_ns > now || asked.iter().any(|a| a.tid == tid) {
                continue;
            }
            self.allowed_ns += EACH_LOOK_NS;
            let is_wanted = !watched.is_read;
            let may_read = !self.of_all || reads_allowed_ns + EACH_READ_NS <= now;
            let mut bytes = 0;
            if is_wanted && may_read {
                bytes = FIRST_BYTES;
                reads_allowed_ns += EACH_READ_NS;
            }
            asked.push(Asked { tid, watched, time_ns: now, bytes, is_wanted });
        }
        let mut room_at = 0;
        let asks = asked.iter().map(|a| {
            let ask = Ask::wait(a.watched.pid, a.tid, a.watched.times_run, a.bytes, room_at);
            room_at += a.bytes;
            ask
        });
        if self.readers.ask(Lane::Waits, asks.collect()) {
            self.asked = asked;
        }
    }

    /// Takes the first `n` answers, as long as following them does not take too much.
    fn take(&mut self, n: usize, now: u64, follow: &mut Follow<'_>) -> Vec<Wait> {
        let n = n.min(self.asked.len());
        let mut found = Vec::new();
        let mut bytes = std::mem::take(&mut self.bytes);
        while self.next < n && self.rested_ns <= now {
            let asked = self.asked[self.next];
            let answer = self.readers.take(Lane::Waits, self.next, &mut bytes);
            self.next += 1;
            // It may have ended, and its number be another's.
            let is_same = self.threads.get(&asked.tid) == Some(&asked.watched);
            if is_same && !self.changed.contains(&asked.watched.pid) {
                found.extend(self.answered(&asked, &answer, &bytes, follow));
            }
        }
        self.bytes = bytes;
        if self.next >= n {
            self.readers.taken(Lane::Waits);
            self.asked.clear();
            (self.wider).retain(|a| !self.changed.contains(&a.watched.pid));
            self.changed.clear();
            self.next = 0;
        }
        found
    }

    /// Notes what was found out about a thread.
    fn answered(
        &mut self,
        asked: &Asked,
        answer: &Answer,
        bytes: &[u8],
        follow: &mut Follow<'_>,
    ) -> Option<Wait> {
        let Asked { tid, watched, .. } = *asked;
        // The ticks, of 10 to 20 ms, are drawn by chance; so are the looks.
        let later = |n: u64| asked.time_ns + n * LOOK_NS - LOOK_NS / 2;
        let mut next = watched;
        next.same = watched.same.saturating_add(1);
        let longest = match self.of_all {
            true => LONGER_OF_ALL,
            false => LONGER,
        };
        next.next_ns = later(u64::from(next.same).min(longest));
        let mut wait = None;
        match answer.found {
            Found::Nothing => (next.same, next.next_ns) = (watched.same, later(50)),
            Found::Ran => {
                next.times_run = answer.times_run;
                (next.is_read, next.same, next.next_ns) = (false, 0, later(1));
            }
            // Its turn comes at one of the next looks, which are not put off for this.
            Found::Waits if asked.is_wanted => {
                (next.same, next.next_ns) = (watched.same, later(1));
            }
            Found::Waits | Found::NoPlace => {}
            // Of everyone's, also threads that cannot be read are many: they are asked again when they have run.
            Found::Unreadable | Found::Refused => {
                self.reads_allowed_ns += EACH_READ_NS;
                self.refused += u64::from(answer.found == Found::Refused);
                next.is_read = self.of_all;
            }
            Found::Bytes => {
                self.reads_allowed_ns += EACH_READ_NS;
                match self.follow(asked, answer, bytes, follow) {
                    // The answer with more of it is the one that counts.
                    Step::Wider(asked) => {
                        self.wider.push(asked);
                        return None;
                    }
                    Step::Done(done) => wait = done,
                }
                next.is_read = wait.is_some();
            }
        }
        self.threads.insert(tid, next);
        wait
    }

    /// Follows a stack that was read.
    fn follow(
        &mut self,
        asked: &Asked,
        answer: &Answer,
        bytes: &[u8],
        follow: &mut Follow<'_>,
    ) -> Step {
        let (pid, tid) = (asked.watched.pid, asked.tid);
        let mut registers = Registers::new(answer.ip);
        registers.set(self.cpu.sp(), answer.sp);
        let may_be_wider = asked.bytes < MOST_BYTES;
        let stack =
            Stack { base: answer.sp, bytes, is_cut: bytes.len() == asked.bytes && may_be_wider };
        let path = follow(pid, tid, &registers, stack, answer.time_ns);
        self.rested_ns += (path.took_ns as f64 / SHARE_MAX) as u64;
        if path.end == PathEnd::StackCut && may_be_wider {
            let bytes = (asked.bytes * 8).min(MOST_BYTES);
            return Step::Wider(Asked { bytes, ..*asked });
        }
        let is_true = !path.is_of_now || times_run(pid, tid) == Some(answer.times_run);
        Step::Done(is_true.then(|| Wait {
            pid,
            tid,
            time_ns: answer.time_ns,
            path,
            at: answer.at(),
        }))
    }
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
        let mut waits = Waits::new(cpu, false, Readers::default());
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
        told.iter().take(THREADS).for_each(|tid| waits.add(pid, tid));
        let mut look = |now: u64| {
            let mut n = 0;
            waits.look(now, &mut |_, _, _, _, _| {
                n += 1;
                Followed { path: 0, end: PathEnd::Complete, took_ns: costly_ns, is_of_now: false }
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
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert!(read.iter().sum::<usize>() >= THREADS, "{read:?}");
        assert!(read.iter().all(|&n| n <= 6), "{read:?}");
        for (end, thread) in threads {
            drop(end);
            assert!(thread.join().is_ok());
        }
    }
}
