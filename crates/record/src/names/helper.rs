//! The process that reads strangers' symbol tables and debug information.
//!
//! It is forked, not executed: it needs no program and no protocol to be given its work. It opens the files first, then gives
//! up root, and only then reads more of them than their headers. When it dies, loops or takes too much memory, the parent goes
//! on with the names that it has told.
//!
//! Threads of the parent do not exist in it, and a lock that one of them held at that moment stays taken for ever; the C
//! library takes care of its own. It uses no other lock of the parent than that of the list of mappings (`guard/sigbus.rs`),
//! and should it ever wait for that, the parent's limit ends it.
use super::Request;
use super::finder::Finder;
use crate::guard::apart::{close_all_but, quiet};
use kasuri_format::call_paths::{LogWriter, Names};
use kasuri_symbols::{Event, Phase, Timed, Why};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Memory that the helper may take, beyond that of the parent.
const MEMORY_BYTES: u64 = 1536 << 20;
/// Bytes of names in one message, about.
const MESSAGE_BYTES: usize = 1 << 20;
/// Most bytes of a message: one frame may have 256 calls with two texts of 16 KiB.
const MESSAGE_BYTES_MAX: usize = 16 << 20;
/// Nobody, on all Linux systems.
const NOBODY: u32 = 65534;

const TASK: u8 = 1;
const BEGAN: u8 = 2;
const ENDED: u8 = 3;
const NAMELESS: u8 = 4;
const NAMES: u8 = 5;
const TIMED: u8 = 6;
const OWN_LINES: u8 = 7;

/// What the helper tells. Tasks are numbers.
#[derive(Debug)]
pub(super) enum Message {
    /// A task and its module.
    Task(u32, u32),
    Began(u32, Phase),
    Ended(u32, Phase),
    Nameless(u32, Why),
    /// The task's file has debug information of its own.
    OwnLines(u32),
    /// Records of [`LogWriter::names`].
    Names(Vec<u8>),
    /// A record of [`LogWriter::names`] that holds from this time on.
    Timed(u64, Vec<u8>),
}

/// A helper that runs.
#[derive(Debug)]
pub(super) struct Helper {
    pid: Pid,
    pipe: File,
    ended_well: Option<bool>,
}

impl Helper {
    /// None: there is no process or descriptor left.
    pub fn fork(request: &Request, skip: &[(usize, Phase)], deadline: Instant) -> Option<Helper> {
        let pipe = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).ok()?;
        // SAFETY: the child uses memory of its own copy, makes its own threads, and ends by _exit(2); see the module.
        match unsafe { libc::fork() } {
            -1 => None,
            0 => {
                close_all_but(pipe.1.as_raw_fd());
                let work = || in_child(request, skip, deadline, File::from(pipe.1));
                let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
                // SAFETY: ends this process without running what the parent has set up for its own end.
                unsafe { libc::_exit(i32::from(ended.is_err())) }
            }
            pid => Some(Helper {
                pid: Pid::from_raw(pid)?,
                pipe: File::from(pipe.0),
                ended_well: None,
            }),
        }
    }

    /// The next message. None: there are no more; it ended, or it told nothing for `patience`, or it is later than `end`, and
    /// was killed for that.
    pub fn next(&mut self, patience: Duration, end: Instant) -> Option<Message> {
        let until = (Instant::now() + patience).min(end);
        let mut head = [0; 9];
        let read = self.read(&mut head, until).and_then(|()| {
            let number = |at: usize| {
                u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]])
            };
            let (task, more) = (number(1), number(5));
            Some(match head[0] {
                TASK => Message::Task(task, more),
                BEGAN => Message::Began(task, phase(more)?),
                ENDED => Message::Ended(task, phase(more)?),
                NAMELESS => Message::Nameless(task, why(more)?),
                OWN_LINES => Message::OwnLines(task),
                NAMES if more as usize <= MESSAGE_BYTES_MAX => {
                    let mut bytes = vec![0; more as usize];
                    self.read(&mut bytes, until)?;
                    Message::Names(bytes)
                }
                TIMED if (8..=MESSAGE_BYTES_MAX).contains(&(more as usize)) => {
                    let mut from_ns = [0; 8];
                    self.read(&mut from_ns, until)?;
                    let mut bytes = vec![0; more as usize - from_ns.len()];
                    self.read(&mut bytes, until)?;
                    Message::Timed(u64::from_le_bytes(from_ns), bytes)
                }
                _ => return None,
            })
        });
        if read.is_none() {
            self.end();
        }
        read
    }

    /// Whether it came to its end, after the last message.
    pub fn ended_well(&self) -> bool {
        self.ended_well == Some(true)
    }

    fn read(&mut self, mut bytes: &mut [u8], until: Instant) -> Option<()> {
        while !bytes.is_empty() {
            let left = until.checked_duration_since(Instant::now())?;
            let left = rustix::time::Timespec::try_from(left).ok()?;
            let mut ready = [rustix::event::PollFd::new(&self.pipe, rustix::event::PollFlags::IN)];
            match rustix::event::poll(&mut ready, Some(&left)) {
                Ok(0) => return None,
                Err(e) if e != rustix::io::Errno::INTR => return None,
                Err(_) => continue,
                Ok(_) => {}
            }
            match self.pipe.read(bytes) {
                Ok(0) | Err(_) => return None,
                Ok(n) => bytes = &mut bytes[n..],
            }
        }
        Some(())
    }

    /// Ends it, if it has not ended, and takes note of how.
    fn end(&mut self) {
        if self.ended_well.is_some() {
            return;
        }
        // At the end of the pipe it is about to end by itself.
        for _ in 0..20 {
            if let Ok(Some((_, status))) = waitpid(Some(self.pid), WaitOptions::NOHANG) {
                self.ended_well = Some(status.exit_status() == Some(0));
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ = kill_process(self.pid, Signal::KILL);
        let _ = waitpid(Some(self.pid), WaitOptions::empty());
        self.ended_well = Some(false);
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.end();
    }
}

fn phase(number: u32) -> Option<Phase> {
    [Phase::Symbols, Phase::Lines].into_iter().find(|p| *p as u32 == number)
}

fn why(number: u32) -> Option<Why> {
    let all = [
        Why::Missing,
        Why::Replaced,
        Why::NoSymbol,
        Why::KernelHidden,
        Why::NoJitMap,
        Why::Reused,
        Why::NoModule,
        Why::OtherBoot,
        Why::NotReached,
    ];
    all.into_iter().find(|w| *w as u32 == number)
}

fn in_child(request: &Request, skip: &[(usize, Phase)], deadline: Instant, pipe: File) {
    quiet();
    limit(request.limit);
    let finder = Finder::new(request);
    let tasks = kasuri_symbols::tasks(&request.tables, &request.wanted, request.numbering, &finder);
    drop(finder);
    if !give_up_root() {
        return;
    }
    // After giving up root, which would undo it.
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    let teller = Teller { pipe: Mutex::new(pipe) };
    for (ix, task) in tasks.iter().enumerate() {
        teller.tell(TASK, ix, task.module, &[]);
        if task.has_own_lines() {
            teller.tell(OWN_LINES, ix, 0, &[]);
        }
    }
    let stop = || Instant::now() >= deadline;
    let costly = kasuri_symbols::costly(&tasks, request.debug_bytes);
    let costly_to_unpack = kasuri_symbols::costly_to_unpack(&tasks, request.unpacked_bytes);
    let skip = [skip, &costly, &costly_to_unpack].concat();
    kasuri_symbols::run(&tasks, request.n_threads, &skip, &stop, &|event| match event {
        Event::Began(ix, phase) => {
            teller.tell(BEGAN, ix, phase as u32, &[]);
            #[cfg(test)]
            super::tests::misbehave(request, tasks[ix].module);
        }
        Event::Ended(ix, phase) => teller.tell(ENDED, ix, phase as u32, &[]),
        Event::Nameless(ix, why) => teller.tell(NAMELESS, ix, why as u32, &[]),
        Event::Names(names) => teller.names(&names),
        Event::Timed(timed) => timed.iter().for_each(|one| teller.timed(one)),
    });
}

fn limit(time: Duration) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let at_most = |resource, value: u64| {
        let maximum = getrlimit(resource).maximum.unwrap_or(u64::MAX).min(value);
        let both = Some(maximum);
        let _ = setrlimit(resource, Rlimit { current: both, maximum: both });
    };
    at_most(Resource::Core, 0);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let data = status.lines().find_map(|line| line.strip_prefix("VmData:"));
    let kib = data.and_then(|d| d.trim().trim_end_matches(" kB").parse::<u64>().ok());
    at_most(Resource::Data, kib.unwrap_or(0).saturating_mul(1024).saturating_add(MEMORY_BYTES));
    at_most(Resource::Cpu, time.as_secs().saturating_mul(64).saturating_add(64));
}

/// What is read from here on could be read by anybody, and what it leads to could be done by anybody. A user name space
/// without other users (`unshare -r`) has no nobody: there this process stays the user who made it, without the capabilities.
/// Returns whether it has neither root's number nor a capability left; with some, no file may be read.
fn give_up_root() -> bool {
    use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
    let _ = rustix::thread::set_no_new_privs(true);
    let may_be_nobody = has_nobody();
    if rustix::process::geteuid().is_root() {
        // SAFETY: system calls on numbers; this process has one thread.
        let is_nobody = unsafe {
            libc::setgroups(0, std::ptr::null()) == 0
                && libc::setresgid(NOBODY, NOBODY, NOBODY) == 0
                && libc::setresuid(NOBODY, NOBODY, NOBODY) == 0
        };
        if may_be_nobody && !is_nobody {
            return false;
        }
    }
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    let _ = set_capabilities(None, none);
    capabilities(None).is_ok_and(|has| has == none)
}

/// Whether this process's user name space has the number of nobody.
fn has_nobody() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let holds = |row: &str| {
        let mut numbers = row.split_whitespace().map(str::parse::<u64>);
        let (first, _, len) = (numbers.next()?, numbers.next()?, numbers.next()?);
        let offset = u64::from(NOBODY).checked_sub(first.ok()?)?;
        Some(offset < len.ok()?)
    };
    map.lines().any(|row| holds(row) == Some(true))
}

/// Writes messages; threads take turns.
struct Teller {
    pipe: Mutex<File>,
}

impl Teller {
    fn tell(&self, tag: u8, task: usize, more: u32, bytes: &[u8]) {
        let mut message = vec![tag];
        message.extend((task as u32).to_le_bytes());
        message.extend(more.to_le_bytes());
        message.extend(bytes);
        let mut pipe = self.pipe.lock().unwrap_or_else(|e| e.into_inner());
        // Nobody listens any more: the parent has died, and this process with it.
        let _ = pipe.write_all(&message);
    }

    fn timed(&self, timed: &Timed) {
        let mut log = LogWriter::default();
        log.names(&timed.names);
        let bytes = [&timed.from_ns.to_le_bytes(), log.bytes()].concat();
        self.tell(TIMED, 0, bytes.len() as u32, &bytes);
    }

    fn names(&self, names: &[Names]) {
        let mut log = LogWriter::default();
        for (n, names_of_one) in names.iter().enumerate() {
            log.names(names_of_one);
            if n + 1 == names.len() || log.bytes().len() > MESSAGE_BYTES {
                let bytes = log.take();
                self.tell(NAMES, 0, bytes.len() as u32, &bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::RawFd;

    /// Whether [`give_up_root`] says that it has, and whether the process then has neither capabilities nor the number 0 as seen
    /// from outside of a name space in which it has been made root before; `None`: it may not make one.
    fn in_a_process(alone: bool) -> Option<(bool, bool)> {
        let uid = rustix::process::geteuid().as_raw();
        // SAFETY: the child makes system calls, allocates, and ends by _exit(2), like the helper itself.
        let pid = match unsafe { libc::fork() } {
            0 => {
                close_all_but(2);
                let is_alone = || {
                    // SAFETY: a system call on a number; this process has one thread.
                    let made = unsafe { libc::unshare(libc::CLONE_NEWUSER) } == 0;
                    made && std::fs::write("/proc/self/uid_map", format!("0 {uid} 1")).is_ok()
                };
                let code = match alone && !is_alone() {
                    true => 4,
                    false => {
                        let said = give_up_root();
                        let status =
                            std::fs::read_to_string("/proc/self/status").unwrap_or_default();
                        let row = |key: &str| {
                            status.lines().find_map(|l| l.strip_prefix(key)).unwrap_or_default()
                        };
                        let none = ["CapEff:", "CapPrm:", "CapInh:"]
                            .iter()
                            .all(|key| row(key).trim() == "0000000000000000");
                        let is_root = row("Uid:").split_whitespace().any(|uid| uid == "0");
                        i32::from(said) | i32::from(none && (alone || !is_root)) << 1
                    }
                };
                // SAFETY: ends this process.
                unsafe { libc::_exit(code) }
            }
            pid => Pid::from_raw(pid)?,
        };
        let (_, status) = waitpid(Some(pid), WaitOptions::empty()).ok()??;
        let code = status.exit_status()?;
        (code < 4).then_some((code & 1 == 1, code & 2 == 2))
    }

    /// The child tells by its status how many descriptors it has beyond the first three and the one that lists them.
    #[test]
    fn nothing_that_the_parent_has_opened_is_left() {
        let opened: Vec<File> = (0..8).map(|_| File::open("/dev/null").unwrap()).collect();
        for kept in [opened[0].as_raw_fd(), opened[5].as_raw_fd()] {
            // SAFETY: as in `in_a_process`.
            let pid = match unsafe { libc::fork() } {
                0 => {
                    close_all_but(kept);
                    let left = std::fs::read_dir("/proc/self/fd").map_or(0, |rows| {
                        let number =
                            |row: std::fs::DirEntry| row.file_name().to_str()?.parse().ok();
                        let numbers = rows.flatten().filter_map(number);
                        numbers.filter(|&fd: &RawFd| fd > 2 && fd != kept).count()
                    });
                    // SAFETY: as above.
                    unsafe { libc::_exit(left as i32) }
                }
                pid => Pid::from_raw(pid).unwrap(),
            };
            let (_, status) = waitpid(Some(pid), WaitOptions::empty()).unwrap().unwrap();
            assert_eq!(status.exit_status(), Some(1));
        }
        drop(opened);
    }

    #[test]
    fn nothing_of_root_is_left() {
        assert_eq!(in_a_process(false), Some((true, true)));
    }

    #[test]
    fn where_nobody_else_exists_capabilities_are_given_up() {
        match in_a_process(true) {
            None => kasuri_testkit::skip_for(kasuri_testkit::Need::Machine, "no user name spaces"),
            both => assert_eq!(both, Some((true, true))),
        }
    }
}
