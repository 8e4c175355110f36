//! One run of a line: what it took, and what it wrote.
//!
//! The program is a process group of its own, without input. Its output is read and thrown away, but for a digest and a part that is
//! kept. When it ends, or its time is up, or the user wants no more, the rest of its group is killed before its first process is
//! waited for, so the group's number is surely still its own: no run leaves processes that disturb the next. A program that makes
//! groups or sessions of its own (a daemon) is not followed. Where we are killed ourselves, the kernel kills the first process; others of
//! its group go on to their own end.
use crate::line::Line;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use serde::Serialize;
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Most of its output that is kept.
const KEPT: usize = 16 << 20;
/// Most of what it said on stderr that is kept: the end.
const COMPLAINT: usize = 2000;
/// How often stop and time are looked at. Its end is noticed at once.
const PATIENCE: Duration = Duration::from_millis(100);
/// From being asked to end to being killed, where nothing else is wanted.
pub const GRACE: Duration = Duration::from_secs(2);
/// Most files that are noted as mapped.
const FILES: usize = 1000;

/// What a run took: its first process and all descendants that were waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Usage {
    /// From start to end, ns.
    pub wall_ns: u64,
    /// User and system time, ns.
    pub cpu_ns: u64,
    /// Times a thread gave its CPU up to wait.
    pub switches: u64,
    /// Times a thread lost its CPU to another.
    pub preemptions: u64,
    /// Page faults without I/O.
    pub faults: u64,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself; the exit status as a shell shows it (128 + N: signal N).
    Status(i32),
    /// Its time was up.
    TooLong,
    /// The user wanted no more.
    Stopped,
}

/// A run.
#[derive(Debug)]
pub struct Run {
    /// What it took.
    pub usage: Usage,
    /// How it ended.
    pub end: End,
    /// A digest of all of its stdout. Against mistakes, not against somebody who seeks two texts of one digest.
    pub digest: u64,
    /// Its stdout, at most 16 MiB.
    pub output: Vec<u8>,
    /// Whether that is all of it.
    pub whole: bool,
    /// The end of its stderr.
    pub complaint: String,
    /// Files that it and its children had mapped as code, where that was asked for.
    pub mapped: BTreeSet<PathBuf>,
}

/// How a run is watched.
pub struct Watch<'a> {
    /// When it has run too long.
    pub limit: Option<Duration>,
    /// Whether the user wants no more.
    pub stop: &'a dyn Fn() -> bool,
    /// From being asked to end (SIGTERM) to being killed.
    pub grace: Duration,
    /// Whether mapped files are noted: costs the program a little, so only in runs that are not timed.
    pub mapped: bool,
}

/// Runs `line` to its end.
///
/// # Errors
/// When it cannot be started or watched.
pub fn run(line: &Line, watch: &Watch<'_>) -> io::Result<Run> {
    let (program, arguments) = line.command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    for (name, value) in &line.env {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let us = rustix::process::getpid();
    // SAFETY: between fork and exec this makes two system calls and allocates nothing.
    unsafe {
        command.pre_exec(move || {
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
            // We may have ended before.
            match rustix::process::getppid() == Some(us) {
                true => Ok(()),
                false => Err(io::ErrorKind::BrokenPipe.into()),
            }
        });
    }
    let start = Instant::now();
    let mut running = Running::new(command.spawn()?, start)?;
    let end = running.follow(watch);
    // Whatever went wrong, nothing of it stays.
    running.sweep();
    let (status, mut usage) = running.reap()?;
    let end = end?.unwrap_or(End::Status(status));
    usage.wall_ns = running.wall.as_nanos() as u64;
    Ok(Run {
        usage,
        end,
        digest: running.digest.finish(),
        output: running.output,
        whole: running.whole,
        complaint: String::from_utf8_lossy(&running.complaint).into_owned(),
        mapped: running.mapped,
    })
}

struct Running {
    child: Child,
    pid: Pid,
    pidfd: rustix::fd::OwnedFd,
    start: Instant,
    wall: Duration,
    digest: DefaultHasher,
    output: Vec<u8>,
    whole: bool,
    complaint: Vec<u8>,
    mapped: BTreeSet<PathBuf>,
}

impl Running {
    fn new(mut child: Child, start: Instant) -> io::Result<Running> {
        let pid = Pid::from_child(&child);
        let ready = || -> io::Result<rustix::fd::OwnedFd> {
            let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
            // After the program's end a descendant may hold the pipes open: reading must not wait for it.
            rustix::io::ioctl_fionbio(child.stdout.as_ref().expect("piped"), true)?;
            rustix::io::ioctl_fionbio(child.stderr.as_ref().expect("piped"), true)?;
            Ok(pidfd)
        };
        match ready() {
            Ok(pidfd) => Ok(Running {
                child,
                pid,
                pidfd,
                start,
                wall: Duration::ZERO,
                digest: DefaultHasher::new(),
                output: Vec::new(),
                whole: true,
                complaint: Vec::new(),
                mapped: BTreeSet::new(),
            }),
            Err(error) => {
                let _ = kill_process_group(pid, Signal::KILL);
                let _ = child.wait();
                Err(error)
            }
        }
    }

    /// Reads until the program ended; says why if it was ended.
    fn follow(&mut self, watch: &Watch<'_>) -> io::Result<Option<End>> {
        let mut ended: Option<(End, Instant)> = None;
        let mut look = Duration::from_millis(2);
        let (mut out_open, mut err_open) = (true, true);
        loop {
            let wait = if watch.mapped { look } else { PATIENCE };
            if self.wait(wait, &mut out_open, &mut err_open)? {
                self.wall = self.start.elapsed();
                self.read_out();
                self.read_err();
                return Ok(ended.map(|(end, _)| end));
            }
            if watch.mapped {
                look = (look * 3 / 2).min(PATIENCE);
                self.note_mapped(self.pid.as_raw_nonzero().get(), 0);
            }
            match ended {
                Some((_, since)) if since.elapsed() > watch.grace => {
                    let _ = kill_process_group(self.pid, Signal::KILL);
                }
                Some(_) => {}
                None => {
                    let over = watch.limit.is_some_and(|limit| self.start.elapsed() > limit);
                    let end = if (watch.stop)() { End::Stopped } else { End::TooLong };
                    if over || end == End::Stopped {
                        let _ = kill_process_group(self.pid, Signal::TERM);
                        ended = Some((end, Instant::now()));
                    }
                }
            }
        }
    }

    /// Waits for the program's end or `wait`, reading meanwhile; whether it ended.
    fn wait(
        &mut self,
        wait: Duration,
        out_open: &mut bool,
        err_open: &mut bool,
    ) -> io::Result<bool> {
        let (out, err) = (
            self.child.stdout.as_ref().expect("piped"),
            self.child.stderr.as_ref().expect("piped"),
        );
        let mut fds = vec![PollFd::new(&self.pidfd, PollFlags::IN)];
        // A closed pipe is always ready.
        let out_at = out_open.then(|| {
            fds.push(PollFd::new(out, PollFlags::IN));
            fds.len() - 1
        });
        let err_at = err_open.then(|| {
            fds.push(PollFd::new(err, PollFlags::IN));
            fds.len() - 1
        });
        let timeout = Timespec { tv_sec: 0, tv_nsec: wait.subsec_nanos().into() };
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_ready = |at: Option<usize>| at.is_some_and(|at| !fds[at].revents().is_empty());
        let (ended, out_ready, err_ready) = (is_ready(Some(0)), is_ready(out_at), is_ready(err_at));
        if out_ready {
            *out_open = self.read_out();
        }
        if err_ready {
            *err_open = self.read_err();
        }
        Ok(ended)
    }

    /// Reads what there is of stdout; false at its end.
    fn read_out(&mut self) -> bool {
        let (digest, output, whole) = (&mut self.digest, &mut self.output, &mut self.whole);
        drain(self.child.stdout.as_mut().expect("piped"), |bytes| {
            digest.write(bytes);
            let kept = bytes.len().min(KEPT - output.len());
            output.extend_from_slice(&bytes[..kept]);
            *whole &= kept == bytes.len();
        })
    }

    fn read_err(&mut self) -> bool {
        let complaint = &mut self.complaint;
        drain(self.child.stderr.as_mut().expect("piped"), |bytes| {
            complaint.extend_from_slice(bytes);
            complaint.drain(..complaint.len().saturating_sub(COMPLAINT));
        })
    }

    /// Files mapped as code, of process `pid` and its children, four generations deep.
    fn note_mapped(&mut self, pid: i32, depth: usize) {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        let code =
            maps.lines().filter(|line| line.split(' ').nth(1).is_some_and(|how| how.contains('x')));
        for path in code.filter_map(|line| line.find('/').map(|at| &line[at..])) {
            if self.mapped.len() < FILES {
                self.mapped.insert(PathBuf::from(path));
            }
        }
        let children =
            std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        if depth < 4 {
            for child in children.split_whitespace().take(8).filter_map(|child| child.parse().ok())
            {
                self.note_mapped(child, depth + 1);
            }
        }
    }

    /// Kills what is left of the group. Its first process was not waited for yet, so the number is its own.
    fn sweep(&self) {
        let _ = kill_process_group(self.pid, Signal::KILL);
    }

    /// Waits for the first process: its status, and what it used.
    fn reap(&self) -> io::Result<(i32, Usage)> {
        let (mut status, pid) = (0, self.pid.as_raw_nonzero().get());
        // SAFETY: a struct of integers, for which zeros are a value.
        let mut used: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: both pointers lead to variables of this function.
        while unsafe { libc::wait4(pid, &mut status, 0, &mut used) } < 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        let status = match libc::WIFSIGNALED(status) {
            true => 128 + libc::WTERMSIG(status),
            false => libc::WEXITSTATUS(status),
        };
        let ns =
            |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
        let usage = Usage {
            wall_ns: 0,
            cpu_ns: ns(used.ru_utime) + ns(used.ru_stime),
            switches: used.ru_nvcsw as u64,
            preemptions: used.ru_nivcsw as u64,
            faults: used.ru_minflt as u64,
        };
        Ok((status, usage))
    }
}

/// Reads what a pipe holds, at most a few megabytes at a time; false at its end.
fn drain(pipe: &mut impl Read, mut take: impl FnMut(&[u8])) -> bool {
    let mut bytes = [0; 1 << 16];
    for _ in 0..64 {
        match pipe.read(&mut bytes) {
            Ok(0) => return false,
            Ok(n) => take(&bytes[..n]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn sh(script: &str) -> Line {
        Line { env: Vec::new(), command: ["/bin/sh", "-c", script].map(Into::into).to_vec() }
    }

    fn plainly(line: &Line) -> Run {
        run(line, &Watch { limit: None, stop: &|| false, grace: GRACE, mapped: false }).unwrap()
    }

    #[test]
    fn a_run_has_its_times_status_and_output() {
        let told = plainly(&sh(
            "echo out; echo err >&2; i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done; exit 3",
        ));
        assert_eq!(told.end, End::Status(3));
        assert_eq!((told.output.as_slice(), told.complaint.as_str()), (&b"out\n"[..], "err\n"));
        assert!(told.usage.cpu_ns > 1_000_000 && told.usage.faults > 10, "{:?}", told.usage);
        assert!(told.usage.wall_ns > 1_000_000);
        assert_eq!(plainly(&sh("kill -9 $$")).end, End::Status(137));
        assert!(
            run(
                &Line::of(&["/nowhere/x".into()]),
                &Watch { limit: None, stop: &|| false, grace: GRACE, mapped: false }
            )
            .is_err()
        );
    }

    #[test]
    fn equal_output_has_an_equal_digest() {
        let digest = |script| plainly(&sh(script)).digest;
        assert_eq!(digest("echo a; sleep 0.01; echo b"), digest("printf 'a\\nb\\n'"));
        assert_ne!(digest("echo a"), digest("echo b"));
    }

    #[test]
    fn much_output_is_read_and_bounded() {
        let told = plainly(&sh("head -c 40000000 /dev/zero; head -c 9000000 /dev/zero >&2"));
        assert_eq!((told.output.len(), told.whole, told.end), (KEPT, false, End::Status(0)));
        assert!(told.complaint.len() <= 3 * COMPLAINT);
    }

    /// Each part of its output is a look at what is mapped: hundreds of them.
    #[test]
    fn files_of_a_program_that_prints_much_are_noted() {
        let line = sh("i=0; while [ $i -lt 3000 ]; do echo $i; echo $i >&2; i=$((i+1)); done");
        let watch = Watch { limit: None, stop: &|| false, grace: GRACE, mapped: true };
        let told = run(&line, &watch).unwrap();
        assert_eq!(told.end, End::Status(0));
        assert!(!told.mapped.is_empty());
    }

    #[test]
    fn the_environment_is_set_and_removed() {
        let mut line = sh("echo \"$A-$HOME\"");
        line.env = vec![("A".into(), Some("1".into())), ("HOME".into(), None)];
        assert_eq!(plainly(&line).output, b"1-\n");
    }

    #[test]
    fn what_runs_too_long_or_is_stopped_is_ended_with_all_it_started() {
        // It ignores SIGTERM, and so does its child, whose number it tells.
        let script = "trap '' TERM; sleep 1000 & echo $!; while :; do sleep 0.05; done";
        let limit = Some(Duration::from_millis(300));
        let told = run(&sh(script), &Watch { limit, stop: &|| false, grace: GRACE, mapped: false })
            .unwrap();
        assert_eq!(told.end, End::TooLong);
        assert_gone(&told.output);
        let asked = Cell::new(0);
        let stop = || asked.replace(asked.get() + 1) > 2;
        let told =
            run(&sh(script), &Watch { limit: None, stop: &stop, grace: GRACE, mapped: false })
                .unwrap();
        assert_eq!(told.end, End::Stopped);
        assert_gone(&told.output);
    }

    #[test]
    fn what_a_run_left_running_is_ended_and_does_not_hold_it_up() {
        let start = Instant::now();
        let told = plainly(&sh("sleep 1000 & echo $!"));
        assert_eq!(told.end, End::Status(0));
        assert!(start.elapsed() < Duration::from_secs(100));
        assert_gone(&told.output);
    }

    /// The process whose number was written is gone, or about to be: killed.
    fn assert_gone(output: &[u8]) {
        let pid: i32 = std::str::from_utf8(output).unwrap().trim().parse().unwrap();
        let gone = || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.is_empty() || stat.contains(") Z ")
        };
        let start = Instant::now();
        while !gone() {
            assert!(start.elapsed() < Duration::from_secs(10), "{pid} still runs");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn mapped_files_are_noted() {
        let watch = Watch { limit: None, stop: &|| false, grace: GRACE, mapped: true };
        let told = run(&sh("sleep 0.3; :"), &watch).unwrap();
        let names: Vec<String> =
            told.mapped.iter().map(|path| path.display().to_string()).collect();
        assert!(
            names.iter().any(|name| name.contains("libc.so") || name.contains("libc-")),
            "{names:?}"
        );
        assert!(names.iter().any(|name| name.ends_with("/sleep")), "a child's: {names:?}");
    }
}
