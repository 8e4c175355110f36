//! The rate of a timer of our own that costs little on this machine.
//!
//! An interrupt cost 22 to 38 us on a virtual machine whose timers the host must set, and costs far less elsewhere. So it is
//! measured: the same work with and without an event that fires often. That takes 16 ms, so the cost is kept for a day, until the
//! machine is started again at most.
use super::events::{enable, open_samples};
use crate::guard::safefs;
use crate::kernel::kept::{self, BOOT_BYTES, Kept};
use crate::kernel::perf::Reach;
use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::time::Duration;

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

/// The file of the cost: the boot that it was measured in, and ns.
const NAME: &str = "sample-cost";
/// A virtual machine may go on elsewhere, so the cost is measured again after that.
const LASTS: Duration = Duration::from_secs(24 * 60 * 60);

/// CPU time between two samples, ns.
pub(super) fn period_ns() -> u64 {
    let kept = kept::boot().and_then(|boot| Some((Kept::own()?, boot)));
    let cost = match &kept {
        Some((dir, boot)) => known_ns(dir, boot, interrupt_ns),
        None => interrupt_ns(),
    };
    let cost = cost.unwrap_or(25_000.0);
    ((cost / SHARE) as u64).clamp(SHORTEST_NS, LONGEST_NS)
}

/// The cost that is kept, else the measured one.
fn known_ns(
    dir: &Kept,
    boot: &[u8; BOOT_BYTES],
    measure: impl FnOnce() -> Option<f64>,
) -> Option<f64> {
    if let Some(cost) = kept_ns(dir, boot) {
        return Some(cost);
    }
    let cost = measure()?;
    dir.put(NAME, &[&boot[..], &cost.to_le_bytes()].concat());
    Some(cost)
}

fn kept_ns(dir: &Kept, boot: &[u8; BOOT_BYTES]) -> Option<f64> {
    let file = dir.file(NAME)?;
    let age = file.metadata().ok()?.modified().ok()?.elapsed().ok()?;
    let bytes = safefs::read_at_most(file, 2 * BOOT_BYTES as u64).ok()?;
    let cost = bytes.strip_prefix(boot)?.try_into().ok()?;
    let cost = f64::from_le_bytes(cost);
    (age < LASTS && cost.is_finite()).then_some(cost)
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
    fn the_cost_is_measured_once_a_day_in_a_boot() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("kasuri");
        let dir = Kept::at(&path).unwrap();
        let (boot, other) = ([1; BOOT_BYTES], [2; BOOT_BYTES]);
        let never = || panic!("it is kept");
        assert_eq!(known_ns(&dir, &boot, || None), None);
        assert_eq!(known_ns(&dir, &boot, || Some(7e3)), Some(7e3));
        assert_eq!(known_ns(&dir, &boot, never), Some(7e3));
        assert_eq!(known_ns(&dir, &other, || Some(8e3)), Some(8e3));
        let put = |bytes: &[u8]| dir.put(NAME, bytes);
        let whole = [&boot[..], &9e3f64.to_le_bytes()].concat();
        put(&whole);
        assert_eq!(known_ns(&dir, &boot, never), Some(9e3));
        let not_a_number = [&boot[..], &f64::NAN.to_le_bytes()].concat();
        let too_long = [&whole[..], &[0]].concat();
        for damaged in [&whole[..23], &[], &too_long, &not_a_number] {
            put(damaged);
            assert_eq!(kept_ns(&dir, &boot), None, "{damaged:?}");
        }
        put(&whole);
        let file = std::fs::File::options().write(true).open(path.join(NAME));
        let yesterday = std::time::SystemTime::now() - LASTS;
        file.unwrap().set_modified(yesterday).unwrap();
        assert_eq!(kept_ns(&dir, &boot), None);
    }

    #[test]
    fn the_period_is_within_its_bounds_whatever_was_measured() {
        assert!((SHORTEST_NS..=LONGEST_NS).contains(&period_ns()));
    }
}
