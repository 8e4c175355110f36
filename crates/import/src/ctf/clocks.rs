//! Which clock a directory's traces share.
use crate::Clock;
use kasuri_format::ctf::{self, Layout};
use std::rc::Rc;

/// Cycles of each trace's streams -> ns on one clock.
pub(super) struct Clocks {
    /// What the ns count.
    pub domain: Clock,
    /// ns since 1970 where that clock is 0.
    pub realtime_offset_ns: Option<i64>,
}

/// Cycles of one stream class -> ns.
#[derive(Clone, Debug, Default)]
pub(super) struct ToNs {
    clock: Option<ctf::Clock>,
    offset: i64,
}

impl ToNs {
    #[inline]
    pub fn ns(&self, cycles: u64) -> i64 {
        match &self.clock {
            Some(clock) => clock.ns(cycles).saturating_add(self.offset),
            None => i64::try_from(cycles).unwrap_or(i64::MAX),
        }
    }
}

/// LTTng's own clock, also in what babeltrace copied from it.
fn is_monotonic(clock: &ctf::Clock) -> bool {
    clock.name == "monotonic" || clock.description == "Monotonic Clock"
}

impl Clocks {
    /// LTTng's sessions have one clock, whose offset from the epoch each tracer measured for itself: some hundred ns
    /// apart. So stamps of one boot (equal UUIDs) are compared as the kernel gave them, without offsets, and other
    /// recordings of that run too. Clocks of different boots or machines only have the epoch in common.
    pub fn of(layouts: &[Rc<Layout>]) -> Clocks {
        let clocks = || {
            let streams = layouts
                .iter()
                .flat_map(|l| (0..l.streams.len()).map(move |s| l.clock(s)));
            streams.flatten()
        };
        let mut domain = Clock::Other;
        let mut realtime_offset_ns = None;
        if let Some(first) = clocks().next() {
            if clocks()
                .all(|c| is_monotonic(c) && c.uuid == first.uuid && c.frequency == first.frequency)
            {
                domain = Clock::Monotonic;
                realtime_offset_ns = Some(first.offset_ns()).filter(|&ns| ns != 0);
            } else if clocks().all(|c| c.absolute) {
                domain = Clock::Realtime;
                realtime_offset_ns = Some(0);
            }
        }
        Clocks {
            domain,
            realtime_offset_ns,
        }
    }

    pub fn to_ns(&self, layout: &Layout, stream: usize) -> ToNs {
        let clock = layout.clock(stream).cloned();
        let offset = match (&clock, self.domain) {
            (None, _) | (_, Clock::Monotonic) => 0,
            (Some(clock), _) => clock.offset_ns(),
        };
        ToNs { clock, offset }
    }
}
