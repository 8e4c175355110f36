//! What the rings held of the events of `blocks`.
use super::ring::{Record, SAMPLE};
use kasuri_format::call_paths::{PathEnd, SampleKind};
use std::collections::{HashMap, HashSet, VecDeque};

/// Samples of a closed event may be so long in a ring, ns.
const LATE_NS: u64 = 1_000_000_000;

/// What the rings held since `blocks` looked last.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// By the kernel's number of an event.
    pub(super) events: HashMap<u64, Count>,
    /// Samples of all of them.
    pub(super) samples: u64,
    /// Those of them that are of other programs.
    pub(super) foreign: u64,
    /// Stacks that were followed, and those of them whose copy was too short.
    pub(super) judged: u64,
    pub(super) cut: u64,
    /// CPUs that lost records.
    pub(super) lost: HashSet<u32>,
    /// Events that were closed, and when: their last samples may still be in a ring.
    closed: VecDeque<(u64, u64)>,
}

/// Samples of one event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Count {
    pub(super) kind: SampleKind,
    pub(super) samples: u64,
    /// Time of the last.
    pub(super) last_ns: u64,
}

impl Seen {
    /// The kind of sample that the record is, if it is of one of these events; counts it.
    pub(super) fn kind(&mut self, record: &Record<'_>) -> Option<SampleKind> {
        if record.kind != SAMPLE || self.events.is_empty() {
            return None;
        }
        let common = record.common()?;
        let count = self.events.get_mut(&common.event)?;
        count.samples += 1;
        count.last_ns = common.time_ns;
        self.samples += 1;
        Some(count.kind)
    }

    /// An event was closed.
    pub(super) fn close(&mut self, id: u64, now: u64) {
        while let Some(&(time, old)) = self.closed.front()
            && time + LATE_NS <= now
        {
            self.closed.pop_front();
            self.events.remove(&old);
        }
        self.closed.push_back((now, id));
    }

    /// Notes how following a stack ended.
    pub(super) fn judge(&mut self, end: PathEnd) {
        self.judged += 1;
        self.cut += u64::from(end == PathEnd::StackCut);
    }
}
