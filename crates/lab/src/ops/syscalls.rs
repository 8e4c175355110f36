//! Operations that are one system call or a pair of them.
use super::{Operation, check, repeat};
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};

/// A file that every Linux has. LMbench takes a file of its own, which makes no difference in the path.
const A_FILE: &std::ffi::CStr = c"/dev/null";

/// Calls getppid() through syscall(2), because a C library might remember its result.
pub fn null_call() -> io::Result<Box<dyn Operation>> {
    repeat(|| {
        // SAFETY: no arguments, no effects.
        check(unsafe { libc::syscall(libc::SYS_getppid) }).map(|_| ())
    })
}

/// Reads and writes a byte by turns: one operation is the mean of both.
pub fn null_io() -> io::Result<Box<dyn Operation>> {
    let mut zero = File::open("/dev/zero")?;
    let mut null = File::options().write(true).open("/dev/null")?;
    let mut read = false;
    repeat(move || {
        read = !read;
        if read { zero.read_exact(&mut [0]) } else { null.write_all(&[0]) }
    })
}

pub fn stat() -> io::Result<Box<dyn Operation>> {
    repeat(|| {
        // SAFETY: a zeroed stat is a valid place for the kernel to write one.
        let rc = unsafe {
            let mut out: libc::stat = std::mem::zeroed();
            libc::stat(A_FILE.as_ptr(), &mut out)
        };
        check(rc).map(|_| ())
    })
}

pub fn open_close() -> io::Result<Box<dyn Operation>> {
    repeat(|| {
        // SAFETY: a NUL-terminated path; the descriptor is ours to close.
        let fd = check(unsafe { libc::open(A_FILE.as_ptr(), libc::O_RDONLY) })?;
        // SAFETY: just opened; no other code owns it.
        check(unsafe { libc::close(fd as i32) }).map(|_| ())
    })
}

/// Duplicates one end of a connection: select(2) asks the socket behind each descriptor.
pub fn select_tcp() -> io::Result<Box<dyn Operation>> {
    const DESCRIPTORS: usize = 100;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let client = TcpStream::connect(listener.local_addr()?)?;
    let (server, _) = listener.accept()?;
    let copies = (0..DESCRIPTORS)
        .map(|_| client.try_clone().map(OwnedFd::from))
        .collect::<io::Result<Vec<_>>>()?;
    let last = copies.iter().map(AsRawFd::as_raw_fd).max().unwrap_or(0);
    if last as usize >= libc::FD_SETSIZE {
        return Err(io::Error::other("too many descriptors are open"));
    }
    repeat(move || {
        let _peer = &server;
        // SAFETY: the sets are zeroed before use and all descriptors are below FD_SETSIZE.
        let rc = unsafe {
            let mut set: libc::fd_set = std::mem::zeroed();
            for fd in &copies {
                libc::FD_SET(fd.as_raw_fd(), &mut set);
            }
            let mut at_once: libc::timeval = std::mem::zeroed();
            let none = std::ptr::null_mut();
            libc::select(last + 1, &mut set, none, none, &mut at_once)
        };
        check(rc).map(|_| ())
    })
}

extern "C" fn handler(_signal: libc::c_int) {}

fn install() -> io::Result<()> {
    // SAFETY: a zeroed sigaction with a handler that does nothing is valid; no other code in the worker uses the
    // signal.
    let rc = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut())
    };
    check(rc).map(|_| ())
}

pub fn signal_install() -> io::Result<Box<dyn Operation>> {
    repeat(install)
}

pub fn signal_handle() -> io::Result<Box<dyn Operation>> {
    install()?;
    // SAFETY: no arguments.
    let me = unsafe { libc::getpid() };
    repeat(move || {
        // SAFETY: the handler is installed and does nothing.
        check(unsafe { libc::kill(me, libc::SIGUSR1) }).map(|_| ())
    })
}
