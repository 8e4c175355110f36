//! Finds the clock that the traces of a directory share.
//!
//! A CTF clock counts cycles, and has a frequency and an offset from 1970. Streams of several traces can be compared in
//! two ways: on the kernel's clock, if all are CLOCK_MONOTONIC of one boot, or since 1970, if all offsets are absolute.
//! The first is exact; the second is as good as the offsets.
use crate::Clock;
use kasuri_format::ctf::{self, Layout};
use std::rc::Rc;

/// The common clock, and the conversion to its ns.
pub(super) struct Clocks {
    /// The common clock.
    pub domain: Clock,
    /// CLOCK_REALTIME minus that clock, ns; none: unknown.
    pub realtime_offset_ns: Option<i64>,
}

/// Converts cycles of one stream class to ns.
#[derive(Clone, Debug, Default)]
pub(super) struct ToNs {
    clock: Option<ctf::Clock>,
    offset: i64,
}

impl ToNs {
    /// The stamp in ns. Without a clock, cycles count as ns.
    #[inline]
    pub fn ns(&self, cycles: u64) -> i64 {
        match &self.clock {
            Some(clock) => clock.ns(cycles).saturating_add(self.offset),
            None => i64::try_from(cycles).unwrap_or(i64::MAX),
        }
    }
}

/// Whether it is LTTng's own clock, by its name or, in copies that babeltrace made, by its description.
fn is_monotonic(clock: &ctf::Clock) -> bool {
    clock.name == "monotonic" || clock.description == "Monotonic Clock"
}

impl Clocks {
    /// Chooses the common clock of all traces.
    ///
    /// The tracers of an LTTng session share one clock, but each measures the offset from the epoch for itself, with
    /// differences of some hundred ns. So stamps of one boot (equal UUIDs) are compared as the kernel gave them,
    /// without offsets; this also fits other recordings of that boot. Clocks of different boots or machines have only
    /// the epoch in common.
    pub fn of(layouts: &[Rc<Layout>]) -> Clocks {
        let clocks = || {
            let streams =
                layouts.iter().flat_map(|l| (0..l.streams.len()).map(move |s| l.clock(s)));
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
        Clocks { domain, realtime_offset_ns }
    }

    /// The conversion for a stream class of a trace.
    pub fn to_ns(&self, layout: &Layout, stream: usize) -> ToNs {
        let clock = layout.clock(stream).cloned();
        let offset = match (&clock, self.domain) {
            (None, _) | (_, Clock::Monotonic) => 0,
            (Some(clock), _) => clock.offset_ns(),
        };
        ToNs { clock, offset }
    }
}
