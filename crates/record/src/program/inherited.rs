//! What this process was started with that it changes for itself, and gives back to the program that it starts.
//!
//! | signal | here | why |
//! |---|---|---|
//! | SIGPIPE | ignored, by Rust's start, before `main` | a closed pipe is an error of a write |
//! | SIGCHLD | default | where it is ignored (daemons, `trap '' CHLD`) the kernel forgets children that end, and none could be waited for |
//! | SIGXFSZ | ignored while recording | a file beyond RLIMIT_FSIZE is an error of a write, as on a full disk |
//!
//! A signal that is ignored stays so over exec(2): the program gets what it would have got alone. Rust's start also opens /dev/null in the
//! place of each of the first three descriptors that is closed: these are closed again. And a stack that is too small for this process
//! (`ulimit -Ss 200`) may grow here, as far as this user may let it, and no further in the program than before; where it
//! may not, a thread with a stack of its own does the work.
use crate::guard::apart;
use crate::program::signals::is_ignored;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Bit N: signal N was ignored when this process began. Relaxed: written before there is a second thread.
static IGNORED: AtomicU32 = AtomicU32::new(0);

/// Bit N: descriptor N was closed when this process began. Relaxed: as above.
static CLOSED: AtomicU32 = AtomicU32::new(0);

/// The limits of the stack, soft and hard, when this process began with less than [`STACK`]; else 0. Relaxed: as above.
static STACK_BEFORE: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
/// What systems give by default.
const STACK: u64 = 8 << 20;
/// What is enough for this process.
const ENOUGH: u64 = 1 << 20;

const CHANGED: [i32; 3] = [libc::SIGPIPE, libc::SIGCHLD, libc::SIGXFSZ];

/// Runs before Rust's start, which ignores SIGPIPE and opens what is closed.
extern "C" fn look() {
    let ignored = CHANGED.into_iter().filter(|&signal| is_ignored(signal));
    let bits = ignored.fold(0, |bits, signal| bits | 1 << signal);
    IGNORED.store(bits, Ordering::Relaxed);
    // SAFETY: asks for a flag of a descriptor, whatever it is.
    let closed = (0..3).filter(|&fd| unsafe { libc::fcntl(fd, libc::F_GETFD) } == -1);
    let bits = closed.fold(0, |bits, fd| bits | 1 << fd);
    CLOSED.store(bits, Ordering::Relaxed);
    if let Some(before) = stack_limits().filter(|before| before.rlim_cur < STACK) {
        STACK_BEFORE[0].store(before.rlim_cur, Ordering::Relaxed);
        STACK_BEFORE[1].store(before.rlim_max, Ordering::Relaxed);
        // Root may go beyond the hard limit.
        let _ = limit_stack(STACK, before.rlim_max.max(STACK))
            || limit_stack(STACK.min(before.rlim_max), before.rlim_max);
    }
}

fn stack_limits() -> Option<libc::rlimit> {
    let mut limits = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes into the struct.
    (unsafe { libc::getrlimit(libc::RLIMIT_STACK, &raw mut limits) } == 0).then_some(limits)
}

fn limit_stack(soft: u64, hard: u64) -> bool {
    let limits = libc::rlimit { rlim_cur: soft, rlim_max: hard };
    // SAFETY: the kernel reads the struct.
    unsafe { libc::setrlimit(libc::RLIMIT_STACK, &raw const limits) == 0 }
}

// SAFETY: the C library calls each function of this array once, before `main`; this one makes system calls alone.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

/// For `main`: does the work on a stack that is large enough, by a thread of its own where this one's may not grow (`ulimit -s 200`).
/// Signals come to that thread alone.
///
/// # Panics
/// When there is no memory for a thread.
pub fn with_stack<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    if stack_limits().is_none_or(|limits| limits.rlim_cur >= ENOUGH) {
        return work();
    }
    let before = apart::block_signals();
    let work = move || {
        // SAFETY: the set that the call before gave.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut())
        };
        work()
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK as usize);
        let thread = thread.spawn_scoped(scope, work).expect("a thread");
        (thread.join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// For `main`: children can be waited for.
pub fn wait_for_children() {
    set(libc::SIGCHLD, libc::SIG_DFL);
}

/// Before the first file is written for a recording: one that becomes too long is an error of a write, not the end of this process.
pub fn outlive_long_files() {
    set(libc::SIGXFSZ, libc::SIG_IGN);
}

/// A program that is started, or becomes this process, with these signals, limits and descriptors as they were.
pub fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    // SAFETY: between fork and exec `give_back` makes system calls alone.
    unsafe {
        command.pre_exec(|| {
            give_back();
            Ok(())
        })
    };
    command
}

/// Between fork and exec: these signals, limits and descriptors as they were. Async-signal-safe.
pub(crate) fn give_back() {
    let ignored = IGNORED.load(Ordering::Relaxed);
    for signal in CHANGED {
        let action = if ignored >> signal & 1 == 1 { libc::SIG_IGN } else { libc::SIG_DFL };
        set(signal, action);
    }
    let before = [0, 1].map(|i| STACK_BEFORE[i].load(Ordering::Relaxed));
    if before[0] != 0 {
        limit_stack(before[0], before[1]);
    }
    let closed = CLOSED.load(Ordering::Relaxed);
    for fd in (0..3).filter(|fd| closed >> fd & 1 == 1) {
        // SAFETY: what lies there is Rust's own; nothing of this process is written between here and exec.
        unsafe { libc::close(fd) };
    }
}

fn set(signal: i32, action: libc::sighandler_t) {
    // SAFETY: no handler is installed, only one of the two actions that the kernel itself performs.
    unsafe { libc::signal(signal, action) };
}
