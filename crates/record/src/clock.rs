//! Chooses the clocks of a recording, and reads the anchors that join them.
//!
//! Annotations carry the CPU's own counter where the kernel itself trusts it, because reading it
//! costs half of clock_gettime. A reader turns counts into CLOCK_MONOTONIC by straight lines
//! between anchors about a second apart, so a slow drift or an NTP slew costs nanoseconds.
use crate::prim;
use kasuri_format::meta::Anchor;
use rustix::time::{ClockId, clock_gettime};

/// CLOCK_MONOTONIC now, ns.
pub fn monotonic_ns() -> u64 {
    read(ClockId::Monotonic)
}

/// CLOCK_BOOTTIME now, ns: it goes on while the machine sleeps.
pub fn boottime_ns() -> u64 {
    read(ClockId::Boottime)
}

/// CPU time of the calling thread, ns.
pub fn thread_cpu_ns() -> u64 {
    read(ClockId::ThreadCPUTime)
}

fn read(clock: ClockId) -> u64 {
    let t = clock_gettime(clock);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Tries per anchor. The best of 8 is within 1 ns of the best of 30 and costs 0.5 us.
const TRIES: u32 = 8;

/// Reads all clocks at (nearly) one instant: each clock between two reads of the counter, the
/// narrowest bracket of several wins, so that an interrupt in the middle does not count.
pub fn anchor() -> Anchor {
    let mut best = Anchor::default();
    let mut best_width = u64::MAX;
    for _ in 0..TRIES {
        let before = prim::counter();
        let monotonic_ns = read(ClockId::Monotonic);
        let after = prim::counter();
        let realtime_ns = read(ClockId::Realtime);
        let width = after.wrapping_sub(before);
        if width < best_width {
            best_width = width;
            best = Anchor { native: before + width / 2, monotonic_ns, realtime_ns };
        }
    }
    best
}

/// The clock of annotation stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StampClock {
    /// The CPU's counter.
    Native,
    /// CLOCK_MONOTONIC, ns.
    Monotonic,
}

impl StampClock {
    /// The counter when the kernel vouches for it, else CLOCK_MONOTONIC.
    pub fn choose() -> StampClock {
        match current_clocksource() {
            Some(name) if prim::HAS_COUNTER && prim::CLOCKSOURCES.contains(&name.as_str()) => {
                StampClock::Native
            }
            _ => StampClock::Monotonic,
        }
    }

    /// As `meta.json` writes it.
    pub fn name(self) -> &'static str {
        match self {
            StampClock::Native => "native",
            StampClock::Monotonic => "monotonic",
        }
    }
}

/// The kernel's clock source, such as "tsc".
pub fn current_clocksource() -> Option<String> {
    let text =
        std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource")
            .ok()?;
    Some(text.trim().to_owned())
}

/// Whether two anchors lie in the same boot of one machine: the difference of its clocks is the time at which it
/// started.
pub(crate) fn same_boot(then: &Anchor, now: &Anchor) -> bool {
    let started = |a: &Anchor| i128::from(a.realtime_ns) - i128::from(a.monotonic_ns);
    now.monotonic_ns > then.monotonic_ns
        && now.native > then.native
        && started(then).abs_diff(started(now)) < 60_000_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_do_not_run_backwards() {
        let mut last = anchor();
        for _ in 0..100 {
            let next = anchor();
            assert!(next.monotonic_ns >= last.monotonic_ns);
            assert!(StampClock::choose() != StampClock::Native || next.native >= last.native);
            last = next;
        }
    }

    #[test]
    fn an_anchor_of_another_boot_is_told_apart() {
        let then = Anchor { native: 10, monotonic_ns: 1_000, realtime_ns: 1_000_000_000_000 };
        let later = Anchor { native: 20, monotonic_ns: 6_000, realtime_ns: 1_000_000_005_100 };
        let rebooted = Anchor { native: 20, monotonic_ns: 6_000, realtime_ns: 2_000_000_000_000 };
        assert!(same_boot(&then, &later));
        assert!(!same_boot(&then, &rebooted));
        assert!(!same_boot(&later, &then));
    }
}
