//! Operations that make a process.
use super::{Operation, check, repeat};
use std::ffi::CStr;
use std::io;

/// LMbench runs a program of its own that prints a line; true(1) is on every machine and prints nothing.
fn a_program() -> io::Result<&'static CStr> {
    [c"/bin/true", c"/usr/bin/true"]
        .into_iter()
        // SAFETY: a NUL-terminated path.
        .find(|path| unsafe { libc::access(path.as_ptr(), libc::X_OK) } == 0)
        .ok_or_else(|| io::Error::other("there is no /bin/true"))
}

/// Forks, lets the child do `f`, which must not return, and waits for it.
fn child(f: impl FnOnce()) -> io::Result<()> {
    // SAFETY: the worker has one thread, so the child may call any function; it ends in _exit or exec.
    let pid = check(unsafe { libc::fork() })?;
    if pid == 0 {
        f();
        // SAFETY: exec failed, or there was nothing to run; no handlers of the parent run.
        unsafe { libc::_exit(127) };
    }
    let mut status = 0;
    // SAFETY: our own child.
    check(unsafe { libc::waitpid(pid as i32, &mut status, 0) })?;
    if libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0 {
        Ok(())
    } else {
        Err(io::Error::other(format!("the child ended with status {status:#x}")))
    }
}

pub fn fork_exit() -> io::Result<Box<dyn Operation>> {
    repeat(|| {
        // SAFETY: as in `child`.
        child(|| unsafe { libc::_exit(0) })
    })
}

fn exec(path: &CStr, arguments: &[&CStr]) {
    let pointers: Vec<_> = arguments.iter().map(|a| a.as_ptr()).chain([std::ptr::null()]).collect();
    // SAFETY: a NULL-terminated vector of NUL-terminated strings; returns only when it failed.
    unsafe { libc::execv(path.as_ptr(), pointers.as_ptr()) };
}

pub fn fork_exec() -> io::Result<Box<dyn Operation>> {
    let program = a_program()?;
    repeat(move || child(|| exec(program, &[program])))
}

pub fn fork_shell() -> io::Result<Box<dyn Operation>> {
    let program = a_program()?;
    repeat(move || child(|| exec(c"/bin/sh", &[c"sh", c"-c", program])))
}
