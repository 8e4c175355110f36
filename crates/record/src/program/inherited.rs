//! What this process was started with that it changes for itself, and gives back to the program that it starts.
//!
//! | signal | here | why |
//! |---|---|---|
//! | SIGPIPE | ignored, by Rust's start, before `main` | a closed pipe is an error of a write |
//! | SIGCHLD | default | where it is ignored (daemons, `trap '' CHLD`) the kernel forgets children that end, and none could be waited for |
//! | SIGXFSZ | ignored while recording | a file beyond RLIMIT_FSIZE is an error of a write, as on a full disk |
//!
//! A signal that is ignored stays so over exec(2): the program gets what it would have got alone. Rust's start also opens /dev/null in the
//! place of each of the first three descriptors that is closed: these are closed again.
use crate::program::signals::is_ignored;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bit N: signal N was ignored when this process began. Relaxed: written before there is a second thread.
static IGNORED: AtomicU32 = AtomicU32::new(0);

/// Bit N: descriptor N was closed when this process began. Relaxed: as above.
static CLOSED: AtomicU32 = AtomicU32::new(0);

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
}

// SAFETY: the C library calls each function of this array once, before `main`; this one makes system calls alone.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

/// For `main`: children can be waited for.
pub fn wait_for_children() {
    set(libc::SIGCHLD, libc::SIG_DFL);
}

/// Before the first file is written for a recording: one that becomes too long is an error of a write, not the end of this process.
pub fn outlive_long_files() {
    set(libc::SIGXFSZ, libc::SIG_IGN);
}

/// A program that is started, or becomes this process, with these signals and descriptors as they were.
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

/// Between fork and exec: these signals and descriptors as they were. Async-signal-safe.
pub(crate) fn give_back() {
    let ignored = IGNORED.load(Ordering::Relaxed);
    for signal in CHANGED {
        let action = if ignored >> signal & 1 == 1 {
            libc::SIG_IGN
        } else {
            libc::SIG_DFL
        };
        set(signal, action);
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
