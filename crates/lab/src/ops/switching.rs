//! Operations in which processes wake each other. The worker and all its children share one CPU, so each hand-over is
//! one context switch and no interrupt to another CPU. A hand-over is one byte in a pipe or a socket; a child ends
//! when its descriptors close.
use super::{Operation, check, timed};
use rustix::fd::OwnedFd;
use rustix::pipe::pipe;
use std::io;

/// Forks a child that ends when its descriptors close, that is, when the worker ends.
fn child(f: impl FnOnce()) -> io::Result<libc::pid_t> {
    // SAFETY: the worker has one thread; the child ends in _exit.
    let pid = check(unsafe { libc::fork() })? as libc::pid_t;
    if pid == 0 {
        f();
        // SAFETY: no handlers of the parent are to run.
        unsafe { libc::_exit(0) };
    }
    Ok(pid)
}

/// Children that are ended with their operation.
struct Children(Vec<libc::pid_t>);

impl Drop for Children {
    fn drop(&mut self) {
        for &pid in &self.0 {
            // SAFETY: our own children, not yet waited for, so the ids are theirs.
            unsafe {
                libc::kill(pid, libc::SIGKILL);
                libc::waitpid(pid, std::ptr::null_mut(), 0);
            }
        }
    }
}

fn send(fd: &OwnedFd) -> io::Result<()> {
    rustix::io::write(fd, &[1]).map(|_| ()).map_err(Into::into)
}

/// Receives the token. Returns false when the other end is closed.
fn receive(fd: &OwnedFd) -> io::Result<bool> {
    Ok(rustix::io::read(fd, &mut [0u8; 1])? == 1)
}

/// Reads the whole working set, as LMbench sums its array. Not inlined: the loops with annotations and without would
/// each have a copy, and on a large set two compiled copies differ by more than an annotation costs.
#[inline(never)]
fn touch(set: &[u64]) {
    std::hint::black_box(set.iter().fold(0u64, |sum, word| sum.wrapping_add(*word)));
}

/// Parts of a run.
const PARTS: u64 = 4;

/// A token through `n` processes, each of which reads its working set before it passes it on.
struct Ring {
    n: u64,
    first: OwnedFd,
    last: OwnedFd,
    set: Vec<u64>,
    /// For the overhead: as many pipes and working sets in this process alone.
    own: Vec<(OwnedFd, OwnedFd, Vec<u64>)>,
    _children: Children,
}

/// The result is the time of one switch: a pass of the token, less the time of the same reads, writes and working
/// sets in one process, over `n`.
pub fn ring(n: usize, kib: usize) -> io::Result<Box<dyn Operation>> {
    let new_set = || vec![1u64; kib * 1024 / 8];
    let mut children = Children(Vec::new());
    let (mut from, first) = pipe()?;
    for _ in 1..n {
        let (next, to) = pipe()?;
        let set = new_set();
        children.0.push(child(|| {
            while receive(&from).unwrap_or(false) {
                touch(&set);
                if send(&to).is_err() {
                    break;
                }
            }
        })?);
        from = next;
    }
    let own = (0..n)
        .map(|_| {
            let (from, to) = pipe()?;
            Ok((from, to, new_set()))
        })
        .collect::<io::Result<Vec<_>>>()?;
    Ok(Box::new(Ring { n: n as u64, first, last: from, set: new_set(), own, _children: children }))
}

impl Operation for Ring {
    fn run(&mut self, n: u64, annotated: bool) -> io::Result<f64> {
        // `n` switches, in whole passes. The shortest part of each kind stands for all: the difference of two times
        // is meaningless when one of them was disturbed.
        let passes = n.div_ceil(self.n * PARTS).max(1);
        let (mut ring, mut overhead) = (f64::INFINITY, f64::INFINITY);
        for _ in 0..PARTS {
            let part = timed(passes, annotated, &mut || {
                send(&self.first)?;
                receive(&self.last)?;
                touch(&self.set);
                Ok(())
            })?;
            ring = ring.min(part);
            let part = timed(passes, false, &mut || {
                for (from, to, set) in &self.own {
                    send(to)?;
                    receive(from)?;
                    touch(set);
                }
                Ok(())
            })?;
            overhead = overhead.min(part);
        }
        Ok((ring - overhead) * n as f64 / (passes * self.n) as f64)
    }
}

struct RoundTrip {
    to: OwnedFd,
    from: OwnedFd,
    _child: Children,
}

impl Operation for RoundTrip {
    fn run(&mut self, n: u64, annotated: bool) -> io::Result<f64> {
        timed(n, annotated, &mut || {
            send(&self.to)?;
            receive(&self.from).map(|_| ())
        })
    }
}

fn echo(from: &OwnedFd, to: &OwnedFd) {
    while receive(from).unwrap_or(false) && send(to).is_ok() {}
}

pub fn pipe_round_trip() -> io::Result<Box<dyn Operation>> {
    let (there, to) = pipe()?;
    let (from, back) = pipe()?;
    let pid = child(|| echo(&there, &back))?;
    Ok(Box::new(RoundTrip { to, from, _child: Children(vec![pid]) }))
}

pub fn unix_round_trip() -> io::Result<Box<dyn Operation>> {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    let theirs = OwnedFd::from(theirs);
    let pid = child(|| echo(&theirs, &theirs))?;
    Ok(Box::new(RoundTrip {
        to: OwnedFd::from(ours.try_clone()?),
        from: OwnedFd::from(ours),
        _child: Children(vec![pid]),
    }))
}
