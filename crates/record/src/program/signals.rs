//! Signals that can be waited for together with a timer tick.
//!
//! The recorder must stop in order whatever ends it, so the signals that would end it are blocked and read from a
//! descriptor (signalfd(2)). Signals that were ignored when it started stay ignored: shells and nohup ignore some for
//! background jobs.
use crate::error::{Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::cell::Cell;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// A signal that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Its number.
    pub signal: i32,
    /// The terminal's driver sent it to the whole foreground group, so the program has received it too.
    pub from_terminal: bool,
    /// It ends a recording, and belongs to the same request as one that came less than [`ONE_REQUEST`] before.
    pub is_repeated: bool,
}

/// Ending signals within this time of the first are one request: timeout(1) sends its signal to the program it
/// started and then to the whole group, an init system sends SIGTERM and SIGHUP. For a second request the user
/// presses the key again later.
pub const ONE_REQUEST: Duration = Duration::from_secs(1);

/// Signals that end a recording.
pub const ENDING: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// The blocked signals of this thread; unblocked when dropped.
#[derive(Debug)]
pub struct Signals {
    fd: OwnedFd,
    before: libc::sigset_t,
    /// The time of the last request to end that did not repeat an earlier one.
    asked: Cell<Option<Instant>>,
    /// The end of the last look. A signal that a look finds came after the look before, perhaps long ago when the
    /// recorder was busy.
    looked: Cell<Instant>,
}

impl Signals {
    /// Blocks the ending signals, SIGCHLD and, when `trigger`, SIGUSR2 in the calling thread. Threads made later
    /// inherit the mask; other threads of the process should not exist yet, or they receive the signals instead.
    ///
    /// # Errors
    /// When the descriptor cannot be made.
    pub fn block(trigger: bool) -> Result<Signals> {
        let mut before = empty();
        let mut set = empty();
        for signal in ENDING
            .into_iter()
            .filter(|&s| !is_ignored(s))
            .chain([libc::SIGCHLD])
            .chain(trigger.then_some(libc::SIGUSR2))
        {
            // SAFETY: `set` is an initialised set and the number is a signal's.
            unsafe { libc::sigaddset(&mut set, signal) };
        }
        // SAFETY: both sets are valid; the calls only change this thread's mask and make a descriptor.
        let fd = unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, &set, &mut before);
            libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
        };
        if fd < 0 {
            return Err(Error::system("make a signal descriptor", std::io::Error::last_os_error()));
        }
        // SAFETY: signalfd returned a new descriptor that no other code owns.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Signals { fd, before, asked: Cell::new(None), looked: Cell::new(Instant::now()) })
    }

    /// The previous mask, for a program to start with.
    pub fn mask_before(&self) -> &libc::sigset_t {
        &self.before
    }

    /// Waits for a signal, for one of `others` to become readable or to have no writer any more, or for the time to pass. Returns
    /// the signals that came, and what is known of each of `others`; nothing, if it is nothing of any.
    pub fn wait(
        &self,
        others: &[BorrowedFd<'_>],
        time: Duration,
    ) -> (Vec<Arrived>, Vec<PollFlags>) {
        let mine = [self.fd.as_fd()];
        let all = mine.iter().chain(others);
        let mut fds: Vec<PollFd<'_>> =
            all.map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
        let time =
            Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
        let found = match poll(&mut fds, Some(&time)) {
            Ok(n) if n > 0 => {
                let arrived = if fds[0].revents().is_empty() { Vec::new() } else { self.take() };
                (arrived, fds[1..].iter().map(PollFd::revents).collect())
            }
            _ => (Vec::new(), Vec::new()),
        };
        self.looked.set(Instant::now());
        found
    }

    /// Whether the user has requested an end since the last look; a repetition of an earlier request does not count.
    pub fn is_ending(&self) -> bool {
        self.wait(&[], Duration::ZERO)
            .0
            .iter()
            .any(|arrived| ENDING.contains(&arrived.signal) && !arrived.is_repeated)
    }

    /// Whether an ending signal that is found now belongs to the request before. If not, it is noted as a new
    /// request.
    fn repeats(&self) -> bool {
        let came = self.looked.get();
        let repeats =
            self.asked.get().is_some_and(|then| came.saturating_duration_since(then) < ONE_REQUEST);
        if !repeats {
            self.asked.set(Some(Instant::now()));
        }
        repeats
    }

    fn take(&self) -> Vec<Arrived> {
        let mut arrived = Vec::new();
        loop {
            // SAFETY: all zero is a valid signalfd_siginfo; the kernel fills exactly one or fails.
            let mut info: libc::signalfd_siginfo = unsafe { zeroed() };
            let size = size_of::<libc::signalfd_siginfo>();
            // SAFETY: the buffer has the length that is passed.
            let n = unsafe { libc::read(self.fd.as_raw_fd(), (&raw mut info).cast(), size) };
            if n != size as isize {
                return arrived;
            }
            let signal = info.ssi_signo as i32;
            arrived.push(Arrived {
                signal,
                from_terminal: info.ssi_code == libc::SI_KERNEL,
                is_repeated: ENDING.contains(&signal) && self.repeats(),
            });
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // A signal that is still pending was meant for the recording that has ended. SIGCHLD does no harm.
        let _ = self.take();
        // SAFETY: `before` was filled by pthread_sigmask.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
    }
}

fn empty() -> libc::sigset_t {
    // SAFETY: sigemptyset initialises the set it is given.
    unsafe {
        let mut set = zeroed();
        libc::sigemptyset(&mut set);
        set
    }
}

/// Whether the process ignores this signal, as under `nohup`, or in the background of a script: then it stays so.
pub fn is_ignored(signal: i32) -> bool {
    // SAFETY: a null new action only asks; all zero is a valid sigaction to fill.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut action) == 0
            && action.sa_sigaction == libc::SIG_IGN
    }
}
