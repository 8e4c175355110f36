//! The operations of LMbench, written to the definitions of L. McVoy and C. Staelin, "lmbench: Portable
//! Tools for Performance Analysis" (USENIX 1996); where a size is ours to choose the table says it.
//!
//! Each operation is set up once, on its first use, and then timed in batches by the worker
//! ([`crate::worker`]), which is single threaded: they fork.
mod memory;
mod processes;
mod switching;
mod syscalls;

pub use memory::WORK_MOST;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

/// An operation that was set up.
pub trait Operation {
    /// Does it `n` times, each between two annotations when `annotated`; the time it took, ns. Operations that
    /// define their own overhead (context switches) have subtracted it: the result may then be negative.
    ///
    /// # Errors
    /// When the system refuses.
    fn run(&mut self, n: u64, annotated: bool) -> io::Result<f64>;
}

/// One row of the table.
#[derive(Clone, Copy)]
pub struct Definition {
    /// Short, as LMbench's summary heads its columns.
    pub name: &'static str,
    /// Description of one operation.
    pub what: &'static str,
    /// Whether the kernel switches between threads in it.
    pub switches: bool,
    /// Whether the time of the same work without switches is subtracted from it.
    pub subtracts: bool,
    /// Sets it up.
    pub open: fn() -> io::Result<Box<dyn Operation>>,
}

/// All of them, in the order in which tables print them.
pub const ALL: &[Definition] = &[
    Definition {
        name: "null call",
        what: "getppid(2)",
        switches: false,
        subtracts: false,
        open: syscalls::null_call,
    },
    Definition {
        name: "null I/O",
        what: "half of: read(2) a byte of /dev/zero, write(2) a byte to /dev/null",
        switches: false,
        subtracts: false,
        open: syscalls::null_io,
    },
    Definition {
        name: "stat",
        what: "stat(2) of a file",
        switches: false,
        subtracts: false,
        open: syscalls::stat,
    },
    Definition {
        name: "open/close",
        what: "open(2) and close(2) of a file",
        switches: false,
        subtracts: false,
        open: syscalls::open_close,
    },
    Definition {
        name: "select TCP",
        what: "select(2) on 100 descriptors of a TCP connection",
        switches: false,
        subtracts: false,
        open: syscalls::select_tcp,
    },
    Definition {
        name: "sig inst",
        what: "sigaction(2)",
        switches: false,
        subtracts: false,
        open: syscalls::signal_install,
    },
    Definition {
        name: "sig hndl",
        what: "kill(2) to oneself and the handler",
        switches: false,
        subtracts: false,
        open: syscalls::signal_handle,
    },
    Definition {
        name: "fork proc",
        what: "fork, exit of the child, wait",
        switches: true,
        subtracts: false,
        open: processes::fork_exit,
    },
    Definition {
        name: "exec proc",
        what: "fork, exec of true(1), wait",
        switches: true,
        subtracts: false,
        open: processes::fork_exec,
    },
    Definition {
        name: "sh proc",
        what: "fork, sh -c true(1), wait",
        switches: true,
        subtracts: false,
        open: processes::fork_shell,
    },
    Definition {
        name: "2p/0K",
        what: "context switch among 2 processes, no working set",
        switches: true,
        subtracts: true,
        open: || switching::ring(2, 0),
    },
    Definition {
        name: "2p/16K",
        what: "context switch among 2 processes of 16 KiB",
        switches: true,
        subtracts: true,
        open: || switching::ring(2, 16),
    },
    Definition {
        name: "2p/64K",
        what: "context switch among 2 processes of 64 KiB",
        switches: true,
        subtracts: true,
        open: || switching::ring(2, 64),
    },
    Definition {
        name: "8p/16K",
        what: "context switch among 8 processes of 16 KiB",
        switches: true,
        subtracts: true,
        open: || switching::ring(8, 16),
    },
    Definition {
        name: "8p/64K",
        what: "context switch among 8 processes of 64 KiB",
        switches: true,
        subtracts: true,
        open: || switching::ring(8, 64),
    },
    Definition {
        name: "16p/16K",
        what: "context switch among 16 processes of 16 KiB",
        switches: true,
        subtracts: true,
        open: || switching::ring(16, 16),
    },
    Definition {
        name: "16p/64K",
        what: "context switch among 16 processes of 64 KiB",
        switches: true,
        subtracts: true,
        open: || switching::ring(16, 64),
    },
    Definition {
        name: "pipe",
        what: "round trip of a byte through two pipes",
        switches: true,
        subtracts: false,
        open: switching::pipe_round_trip,
    },
    Definition {
        name: "AF_UNIX",
        what: "round trip of a byte through a socket pair",
        switches: true,
        subtracts: false,
        open: switching::unix_round_trip,
    },
    Definition {
        name: "page fault",
        what: "first touch of a page of a file in memory",
        switches: false,
        subtracts: false,
        open: memory::page_fault,
    },
    Definition {
        name: "mmap",
        what: "mmap(2) of 1 MiB of a file, a write each 16 KiB of its first tenth, munmap(2)",
        switches: false,
        subtracts: false,
        open: memory::map_unmap,
    },
];

/// Amount of other work before each operation. The worker has one thread.
static WORK: AtomicU32 = AtomicU32::new(0);

/// Sets the amount of other work before each operation from now on, from none (0) to [`WORK_MOST`], as in a program
/// whose events lie that far apart. The more work, the less of the tracer's code and data is left in the caches.
pub fn set_work(amount: u32) {
    WORK.store(amount, Ordering::Relaxed);
}

/// Does `f` `n` times, timed, with an annotated slice around each when asked for. Both loops call the same code of
/// `f`: with a copy in each loop, the place of the copy in memory alone made two percent of a page fault.
fn timed(n: u64, annotated: bool, f: &mut dyn FnMut() -> io::Result<()>) -> io::Result<f64> {
    let start = std::time::Instant::now();
    let work = WORK.load(Ordering::Relaxed);
    if work > 0 {
        let mut memory = memory::Memory::default();
        for _ in 0..n {
            memory.work(work)?;
            f()?;
        }
    } else if annotated {
        for _ in 0..n {
            let _slice = kasuri_annotate::slice!("operation");
            f()?;
        }
    } else {
        for _ in 0..n {
            f()?;
        }
    }
    Ok(start.elapsed().as_nanos() as f64)
}

/// The result of a system call; -1 becomes the error in errno.
fn check(rc: impl Into<i64>) -> io::Result<i64> {
    match rc.into() {
        -1 => Err(io::Error::last_os_error()),
        value => Ok(value),
    }
}

/// An operation that is a closure.
struct Repeat<F>(F);

impl<F: FnMut() -> io::Result<()>> Operation for Repeat<F> {
    fn run(&mut self, n: u64, annotated: bool) -> io::Result<f64> {
        timed(n, annotated, &mut self.0)
    }
}

fn repeat<F: FnMut() -> io::Result<()> + 'static>(f: F) -> io::Result<Box<dyn Operation>> {
    Ok(Box::new(Repeat(f)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_runs_and_takes_time() {
        for definition in ALL {
            let mut operation = (definition.open)()
                .unwrap_or_else(|e| panic!("{} cannot be set up: {e}", definition.name));
            let ns =
                operation.run(20, false).unwrap_or_else(|e| panic!("{}: {e}", definition.name));
            // Context switches have their overhead subtracted: twenty of them may come out as anything.
            assert!(ns > 0.0 || definition.subtracts, "{}: {ns}", definition.name);
        }
    }

    #[test]
    fn names_are_distinct() {
        let mut names: Vec<_> = ALL.iter().map(|d| d.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
    }
}
