//! Processes for what may never end: a stranger's page or file that does not answer.
//!
//! A thread that waits for such a page cannot be stopped, and where a server of FUSE has taken the request, not even be killed: a
//! process with such a thread never goes away, whoever waits for it. A process of its own is left behind, with nothing of the recorder's open.
//!
//! They are forked, not executed, as `names/helper.rs` says of its own.
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

/// Descriptors that are closed one by one where the kernel closes no range of them.
const DESCRIPTORS: RawFd = 4096;
/// Most bytes of an answer.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Does some work in a process of its own, which keeps one descriptor and ends with this thread. `None`: there is no process left.
pub(crate) fn fork(kept: RawFd, work: impl FnOnce()) -> Option<Pid> {
    let parent = rustix::process::getpid();
    // Until it has none of the recorder's descriptors, a handler of the recorder would write to the recorder's pipes. What a file that was
    // cut leads to is handled as ever.
    let before = block_signals();
    // SAFETY: the child uses memory of its own copy, and ends by _exit(2); see the module.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
        if rustix::process::getppid() == Some(parent) {
            close_all_but(kept);
            quiet();
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        }
        // SAFETY: ends this process without running what the parent has set up for its own end.
        unsafe { libc::_exit(0) }
    }
    // SAFETY: the set that the call before gave.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
    Pid::from_raw(pid.max(0))
}

/// Blocks all signals but those that tell of a fault; those that were blocked before.
pub(crate) fn block_signals() -> libc::sigset_t {
    // SAFETY: both sets are made by the calls that fill them.
    unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut all);
        for fault in [libc::SIGBUS, libc::SIGSEGV, libc::SIGILL, libc::SIGFPE] {
            libc::sigdelset(&raw mut all, fault);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, &raw mut before);
        before
    }
}

/// What `work` answers, from a process of its own. `None`: it did not answer in this time, and was given up.
pub(crate) fn ask(limit: Duration, work: impl FnOnce() -> Vec<u8>) -> Option<Vec<u8>> {
    let until = Instant::now() + limit;
    let (mut read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
        .map(|(read, write)| (File::from(read), File::from(write)))
        .ok()?;
    let pid = fork(write.as_raw_fd(), || {
        let bytes = work();
        let mut pipe = &write;
        // A last byte shows that all have come.
        let _ = pipe.write_all(&bytes).and_then(|()| pipe.write_all(&[1]));
    })?;
    drop(write);
    let answer = read_until(&mut read, until);
    give_up(pid);
    answer
}

fn read_until(pipe: &mut File, until: Instant) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut part = [0; 1 << 12];
    loop {
        let left = until.checked_duration_since(Instant::now())?;
        if !is_readable(pipe.as_raw_fd(), left) {
            continue;
        }
        match pipe.read(&mut part).ok()? {
            0 => return (bytes.pop() == Some(1)).then_some(bytes),
            n => bytes.extend_from_slice(&part[..n]),
        }
        if bytes.len() > ANSWER_BYTES_MAX {
            return None;
        }
    }
}

/// Waits until a descriptor can be read or has ended; `false`: not in this time, or a signal came.
pub(crate) fn is_readable(fd: RawFd, limit: Duration) -> bool {
    let mut wanted = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let left = libc::timespec { tv_sec: limit.as_secs() as _, tv_nsec: limit.subsec_nanos() as _ };
    // SAFETY: the kernel reads the time and writes to the one entry.
    unsafe { libc::ppoll(&raw mut wanted, 1, &raw const left, std::ptr::null()) > 0 }
}

/// Ends a process that [`fork`] made. `false`: it waits for what does not answer, and is left behind; [`is_gone`] may be asked later.
pub(crate) fn give_up(pid: Pid) -> bool {
    let _ = kill_process(pid, Signal::KILL);
    // As a rule it is gone within a fraction of a ms.
    (0..20).any(|n| {
        std::thread::sleep(Duration::from_micros(n * 50));
        is_gone(pid)
    })
}

/// Whether a process that was given up has ended; then its number is free.
pub(crate) fn is_gone(pid: Pid) -> bool {
    !matches!(waitpid(Some(pid), WaitOptions::NOHANG), Ok(None))
}

/// Closes what came from the parent, but for the first three: who reads strangers' files holds neither what root has opened nor the
/// locks that say that a recorder lives.
pub(crate) fn close_all_but(kept: RawFd) {
    let close = |first: RawFd, last: libc::c_uint| {
        // SAFETY: of the descriptors' owners, which are the parent's, none is used or dropped in this process.
        let closed = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } == 0;
        // Before Linux 5.9.
        if !closed {
            for fd in first..=RawFd::try_from(last).unwrap_or(RawFd::MAX).min(DESCRIPTORS) {
                // SAFETY: as above.
                unsafe { libc::close(fd) };
            }
        }
    };
    if kept > 3 {
        close(3, kept as libc::c_uint - 1);
    }
    close(kept.max(2) + 1, libc::c_uint::MAX);
}

/// Says nothing: a library that panics, or an allocation that fails, would write to the user's screen.
pub(crate) fn quiet() {
    // SAFETY: system calls on numbers and a constant; nothing in this process owns the two descriptors.
    unsafe {
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        if null >= 0 {
            libc::dup2(null, 1);
            libc::dup2(null, 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_answer_is_given_up_and_what_does_is_told_whole() {
        let long = vec![7; 1 << 20];
        let second = Duration::from_secs(10);
        assert_eq!(ask(second, || long.clone()).as_ref(), Some(&long));
        assert_eq!(ask(second, Vec::new), Some(Vec::new()));
        assert_eq!(ask(second, || panic!("no answer")), None);
        let never = || loop {
            std::thread::sleep(second);
        };
        assert_eq!(ask(Duration::from_millis(50), never), None);
    }
}
