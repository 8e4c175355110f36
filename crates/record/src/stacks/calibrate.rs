//! The rate of a timer of our own that costs little on this machine.
//!
//! An interrupt cost 22 to 38 us on a virtual machine whose timers the host must set, and costs far less elsewhere. So it is
//! measured: the same work with and without an event that fires often, some milliseconds of it at the start of a recording.
use super::events::{enable, open_samples};
use crate::kernel::perf::Reach;
use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;

/// Share of the program's CPU time that samples may cost by this measurement. It is quick, so its caches are warm: a sample
/// of a program may cost more (docs/design/call-paths.md).
const SHARE: f64 = 0.005;
/// Shortest and longest time between two samples, ns: a little off round numbers, so that they do not stay in step with the
/// program's own periods.
const SHORTEST_NS: u64 = 1_003_009;
const LONGEST_NS: u64 = 20_011_001;
/// The period while it is measured, ns.
const OFTEN_NS: u64 = 100_000;
/// Pairs of pieces of work, each some 500 us; the fastest count, since other programs only slow them down.
const PAIRS: usize = 12;
const STEPS: u64 = 300_000;

/// CPU time between two samples, ns.
pub(super) fn period_ns() -> u64 {
    let cost = interrupt_ns().unwrap_or(25_000.0);
    ((cost / SHARE) as u64).clamp(SHORTEST_NS, LONGEST_NS)
}

/// What one sample costs the thread that it interrupts, ns.
fn interrupt_ns() -> Option<f64> {
    let mut plain = u64::MAX;
    let mut sampled = u64::MAX;
    for _ in 0..PAIRS {
        plain = plain.min(work_ns());
        let cpu = rustix::thread::sched_getcpu();
        let event = open_samples(OFTEN_NS, Reach::Own, 4096, 0, cpu as u32).ok()?;
        enable(&event).ok()?;
        sampled = sampled.min(work_ns());
    }
    let samples = (sampled / OFTEN_NS).max(1);
    Some(sampled.saturating_sub(plain) as f64 / samples as f64)
}

/// CPU time of a fixed piece of work, ns.
fn work_ns() -> u64 {
    let now = || {
        let t = clock_gettime(ClockId::ThreadCPUTime);
        t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
    };
    let start = now();
    let mut x = black_box(88_172_645_463_325_252u64);
    for _ in 0..STEPS {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    black_box(x);
    now().saturating_sub(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_period_is_within_its_bounds_whatever_was_measured() {
        assert!((SHORTEST_NS..=LONGEST_NS).contains(&period_ns()));
    }
}
