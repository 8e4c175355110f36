//! How long the recorder may have held threads of programs up.
//!
//! Whoever reads another process's memory or the list of its mappings has the lock of that memory meanwhile, and whoever makes a uprobe
//! writes to the code of all processes that have mapped it. A thread that maps memory, or that touches a page for the first time, may
//! wait until that is done. Whether one did, only the kernel's events tell; here each such call is timed, whoever waited. So these are
//! upper bounds: a call also takes its time when the recorder is without a CPU.
//!
//! The clock lies in memory that processes which the recorder forks for such calls have too ([`super::apart`]).
use crate::clock::monotonic_ns;
use kasuri_format::meta::{HeldUp, TimedCalls};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Why a program's thread may have waited.
#[derive(Clone, Copy, Debug)]
pub(crate) enum By {
    /// Its memory was read, or its mappings were listed.
    Memory,
    /// A uprobe was switched on or off.
    Probe,
}

/// Sums of the calls of one kind. Relaxed: they are read when those who add to them have ended, or later than that does not matter.
#[derive(Debug, Default)]
struct Calls {
    n: AtomicU64,
    longest_ns: AtomicU64,
    sum_ns: AtomicU64,
}

impl Calls {
    fn add(&self, ns: u64) {
        self.n.fetch_add(1, Ordering::Relaxed);
        self.longest_ns.fetch_max(ns, Ordering::Relaxed);
        self.sum_ns.fetch_add(ns, Ordering::Relaxed);
    }

    fn read(&self) -> TimedCalls {
        TimedCalls {
            n: self.n.load(Ordering::Relaxed),
            longest_ns: self.longest_ns.load(Ordering::Relaxed),
            sum_ns: self.sum_ns.load(Ordering::Relaxed),
        }
    }
}

/// Calls by [`By`].
type Shared = [Calls; 2];

/// `None`: there was no memory for it, so nothing is measured.
fn shared() -> Option<&'static Shared> {
    static SHARED: OnceLock<Option<&'static Shared>> = OnceLock::new();
    *SHARED.get_or_init(|| {
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let bytes = size_of::<Shared>();
        // SAFETY: a new mapping.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
        // SAFETY: it is there until the process ends, and zeroes are such numbers, which are reached as this only.
        (at != libc::MAP_FAILED).then(|| unsafe { &*at.cast::<Shared>() })
    })
}

/// A recording begins: what was before is no part of it. Processes that are forked from here on add to the same sums.
pub(crate) fn begin() {
    for calls in shared().into_iter().flatten() {
        for number in [&calls.n, &calls.longest_ns, &calls.sum_ns] {
            number.store(0, Ordering::Relaxed);
        }
    }
}

/// Times a call for which a thread of a program may have to wait.
pub(crate) fn time<T>(by: By, call: impl FnOnce() -> T) -> T {
    let began = monotonic_ns();
    let result = call();
    add(by, monotonic_ns().saturating_sub(began));
    result
}

/// A call took so long, or more: whoever made it does not say.
pub(crate) fn add(by: By, ns: u64) {
    if let Some(shared) = shared() {
        shared[by as usize].add(ns);
    }
}

/// What the calls since [`begin`] took; `None`: not measured.
pub(crate) fn so_far() -> Option<HeldUp> {
    let [memory, probes] = shared()?;
    Some(HeldUp { memory: memory.read(), probes: probes.read() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::apart;
    use std::time::Duration;

    #[test]
    fn calls_of_forked_processes_are_in_the_sums() {
        begin();
        time(By::Probe, || std::thread::sleep(Duration::from_millis(2)));
        let nap = || time(By::Memory, || std::thread::sleep(Duration::from_millis(3)));
        let limit = Duration::from_secs(60);
        assert!(apart::ask(limit, || Vec::from([nap()].map(|()| 1))).is_some());
        let HeldUp { memory, probes } = so_far().unwrap();
        assert_eq!((memory.n, probes.n), (1, 1));
        assert!(memory.longest_ns >= 3_000_000 && memory.sum_ns == memory.longest_ns);
        assert!(probes.longest_ns >= 2_000_000);
        add(By::Memory, 1);
        let longest = memory.longest_ns;
        let memory = so_far().unwrap().memory;
        assert_eq!((memory.n, memory.longest_ns, memory.sum_ns), (2, longest, longest + 1));
        begin();
        assert_eq!(so_far(), Some(HeldUp::default()));
    }
}
