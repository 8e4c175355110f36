//! Runs the program: the child waits before exec until the recorder is ready for it.
//!
//! std::process::Command cannot do that: its spawn() returns only after exec. And vfork-like spawning would leave no
//! moment at which perf events can be opened on a child that runs no program yet.
//!
//! Two pipes connect parent and child. The child reads the *gate*: one byte lets it call exec, the end of the file
//! (the recorder died or gave up) lets it exit. It writes errno to the *verdict* when exec fails; the descriptor
//! closes on exec, so the end of the file means that the program runs.
use crate::error::{Error, Result};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// A program that was started.
#[derive(Debug)]
pub struct Child {
    pid: Pid,
    program: String,
    gate: Option<File>,
    verdict: File,
    status: Option<i32>,
}

/// The limit of open files, raised: the recorder needs some for each CPU. The program gets the previous limit,
/// because some programs close or count all descriptors that they might have.
#[derive(Debug)]
pub struct OpenFiles {
    before: Option<libc::rlimit>,
}

impl OpenFiles {
    /// Raises the soft limit to the hard one.
    pub fn raise() -> OpenFiles {
        let mut before = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: both calls get valid pointers to struct rlimit.
        let raised = unsafe {
            libc::getrlimit(libc::RLIMIT_NOFILE, &mut before) == 0
                && libc::setrlimit(
                    libc::RLIMIT_NOFILE,
                    &libc::rlimit { rlim_cur: before.rlim_max, ..before },
                ) == 0
        };
        OpenFiles { before: raised.then_some(before) }
    }
}

/// Null-terminated pointers to strings, which live as long as the pointers.
struct Strings {
    _owned: Vec<CString>,
    pointers: Vec<*const libc::c_char>,
}

impl Strings {
    fn new(strings: Vec<OsString>) -> Result<Strings> {
        let owned: Vec<CString> = strings
            .into_iter()
            .map(|s| CString::new(s.into_vec()))
            .collect::<std::result::Result<_, _>>()
            .map_err(|_| {
                Error::system(
                    "start the program",
                    std::io::Error::other("an argument holds a zero byte"),
                )
            })?;
        let pointers = owned.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect();
        Ok(Strings { _owned: owned, pointers })
    }
}

impl Child {
    /// Forks a child with the soft limit `open_files` of open files. It waits for [`Child::release`] to become
    /// `command`, with `session` and `more` in its environment and the signal mask `mask`. What it prints goes to
    /// standard error if `is_muted`, because standard output is for something else. The calling process must have no
    /// other threads.
    ///
    /// # Errors
    /// When there is no process or descriptor left.
    pub fn fork(
        command: &[OsString],
        session: Option<&Path>,
        more: &[(OsString, OsString)],
        mask: &libc::sigset_t,
        open_files: &OpenFiles,
        is_muted: bool,
    ) -> Result<Child> {
        let program = command.first().map(|p| p.to_string_lossy().into_owned()).unwrap_or_default();
        let arguments = Strings::new(command.to_vec())?;
        let environment = Strings::new(environment(session, more))?;
        let pipe = || {
            rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
                .map_err(|e| Error::system("make a pipe", e))
        };
        let gate = pipe()?;
        let (verdict_read, verdict_write) = pipe()?;
        // SAFETY: the child calls nothing but async-signal-safe functions on memory prepared here.
        match unsafe { libc::fork() } {
            -1 => Err(Error::system("start a process", std::io::Error::last_os_error())),
            0 => in_child(
                &gate,
                &verdict_write,
                mask,
                open_files,
                &arguments,
                &environment,
                is_muted,
            ),
            pid => Ok(Child {
                pid: Pid::from_raw(pid).expect("fork returns a positive pid"),
                program,
                gate: Some(File::from(gate.1)),
                verdict: File::from(verdict_read),
                status: None,
            }),
        }
    }

    /// Lets the program run.
    ///
    /// # Errors
    /// When the program cannot be run; the child has ended then.
    pub fn release(&mut self) -> Result<()> {
        if let Some(mut gate) = self.gate.take() {
            let _ = gate.write_all(&[1]);
        }
        let mut errno = [0u8; 4];
        // End of file: exec closed the descriptor, so the program runs.
        if self.verdict.read_exact(&mut errno).is_err() {
            return Ok(());
        }
        let _ = waitpid(Some(self.pid), WaitOptions::empty());
        self.status = Some(127);
        let cause = std::io::Error::from_raw_os_error(i32::from_ne_bytes(errno));
        let program = self.program.clone();
        match cause.kind() {
            std::io::ErrorKind::NotFound if !Path::new(&program).exists() => {
                Err(Error::ProgramNotFound { program })
            }
            _ => Err(Error::ProgramNotRunnable { program, cause }),
        }
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// The exit status as a shell shows it, if the program has ended.
    pub fn poll_status(&mut self) -> Option<i32> {
        if self.status.is_none() {
            match waitpid(Some(self.pid), WaitOptions::NOHANG) {
                Ok(Some((_, status))) => self.status = shell_status(status),
                // Somebody else has waited for it: it has ended, and its number may be another's by now.
                Err(rustix::io::Errno::CHILD) => self.status = Some(UNKNOWN_STATUS),
                _ => {}
            }
        }
        self.status
    }

    /// The exit status, if the end of the program was noticed.
    pub fn status(&self) -> Option<i32> {
        self.status
    }

    /// Passes a signal on.
    pub fn signal(&self, number: i32) {
        if self.status.is_none()
            && let Some(signal) = Signal::from_named_raw(number)
        {
            let _ = kill_process(self.pid, signal);
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Never released: the child reads the end of the gate and exits; no code of the program has run.
        if self.gate.take().is_some() {
            let _ = waitpid(Some(self.pid), WaitOptions::empty());
        }
    }
}

/// Of a program that has ended without leaving a status.
const UNKNOWN_STATUS: i32 = 255;

fn shell_status(status: rustix::process::WaitStatus) -> Option<i32> {
    status.terminating_signal().map(|signal| 128 + signal).or(status.exit_status())
}

fn environment(session: Option<&Path>, more: &[(OsString, OsString)]) -> Vec<OsString> {
    let ours = |key: &OsString| {
        ["KASURI_SESSION", "KASURI_LOCKS", "KASURI_TEST_KILL"].iter().any(|name| key == name)
            || more.iter().any(|(name, _)| name == key)
    };
    let inherited = std::env::vars_os().filter(|(key, _)| !ours(key));
    let mut strings = Vec::new();
    for (key, value) in inherited.chain(more.iter().cloned()) {
        let mut pair = key;
        pair.push("=");
        pair.push(value);
        strings.push(pair);
    }
    if let Some(session) = session {
        let mut pair = b"KASURI_SESSION=".to_vec();
        pair.extend_from_slice(session.as_os_str().as_bytes());
        strings.push(OsString::from_vec(pair));
    }
    strings
}

/// Runs in the child between fork and exec. Only async-signal-safe calls; no allocation, no locks, no panics.
fn in_child(
    gate: &(OwnedFd, OwnedFd),
    verdict: &OwnedFd,
    mask: &libc::sigset_t,
    open_files: &OpenFiles,
    arguments: &Strings,
    environment: &Strings,
    is_muted: bool,
) -> ! {
    // SAFETY: all calls are async-signal-safe; pointers were made before fork and end in null.
    unsafe {
        // Our own copy of the writing end would keep the gate open after the recorder died.
        libc::close(gate.1.as_raw_fd());
        let mut byte = 0u8;
        let n = loop {
            let n = libc::read(gate.0.as_raw_fd(), (&raw mut byte).cast(), 1);
            if n >= 0 || *libc::__errno_location() != libc::EINTR {
                break n;
            }
        };
        if n != 1 {
            libc::_exit(125);
        }
        if is_muted {
            libc::dup2(libc::STDERR_FILENO, libc::STDOUT_FILENO);
        }
        crate::program::inherited::give_back();
        libc::pthread_sigmask(libc::SIG_SETMASK, mask, std::ptr::null_mut());
        if let Some(before) = &open_files.before {
            libc::setrlimit(libc::RLIMIT_NOFILE, before);
        }
        libc::execvpe(
            arguments.pointers[0],
            arguments.pointers.as_ptr(),
            environment.pointers.as_ptr(),
        );
        let errno = *libc::__errno_location();
        libc::write(verdict.as_raw_fd(), (&raw const errno).cast(), 4);
        libc::_exit(127)
    }
}

/// Restricts a process, and its later children, to these CPUs; an empty list changes nothing.
///
/// # Errors
/// When they do not exist or are not allowed.
pub fn pin_process(pid: i32, cpus: &[usize]) -> Result<()> {
    if cpus.is_empty() {
        return Ok(());
    }
    let mut set = rustix::thread::CpuSet::new();
    let max = rustix::thread::CpuSet::MAX_CPU;
    cpus.iter().filter(|&&cpu| cpu < max).for_each(|&cpu| set.set(cpu));
    rustix::thread::sched_setaffinity(rustix::process::Pid::from_raw(pid), &set)
        .map_err(|e| Error::system("give the program its CPUs", e))
}

/// Gives a process, and its later children, the policy under which a woken thread does not take the CPU of the one that woke it, if
/// it has the usual one. Where that is refused the program runs as always.
pub fn keep_cpu_when_waking(pid: i32) {
    // SAFETY: the struct is plain numbers, of which musl's has more, and 0 is the priority wanted; the call gets a valid pointer to it.
    // The system calls themselves, because musl's functions always fail.
    unsafe {
        let param: libc::sched_param = std::mem::zeroed();
        if libc::syscall(libc::SYS_sched_getscheduler, pid) == i64::from(libc::SCHED_OTHER) {
            libc::syscall(libc::SYS_sched_setscheduler, pid, libc::SCHED_BATCH, &raw const param);
        }
    }
}
