//! Counts events by kind and by the thread that pays for recording them.
//!
//! Writing an event costs CPU time of the thread in whose context it is written. `sched_switch` is the exception: the
//! kernel has read its clock for the leaving thread before it writes the event, so the time goes to the arriving thread
//! (`__schedule`: `update_rq_clock`, then `trace_sched_switch`). An event in an interrupt is charged to the interrupted
//! thread. Thread 0 is the idle CPU, whose time no thread pays.
//!
//! The account's class *tracing* multiplies these counts by the measured cost of one event. [`Apart`] measures how
//! densely events follow each other, because an event costs more if the CPU did something else before it.
use std::collections::HashMap;

/// Threads whose counts are cached while a block is counted: few threads take turns on a CPU, so most events find their
/// counter without hashing.
const SLOTS: usize = 64;

/// Events of one kind.
#[derive(Clone, Debug, Default)]
pub(super) struct Payers {
    /// Number of all events.
    pub n: u64,
    by_tid: HashMap<i64, u64>,
}

impl Payers {
    /// Adds `n` events. `tids` has the thread of each, or is empty if the recording does not say.
    pub fn add(&mut self, n: usize, tids: &[i64]) {
        self.n += n as u64;
        let mut slots = [(0i64, 0u64); SLOTS];
        for &tid in tids {
            let slot = &mut slots[tid as usize % SLOTS];
            if slot.0 != tid {
                self.keep(*slot);
                *slot = (tid, 0);
            }
            slot.1 += 1;
        }
        slots.into_iter().for_each(|slot| self.keep(slot));
    }

    /// Adds a cached count to the map.
    fn keep(&mut self, (tid, n): (i64, u64)) {
        if n > 0 {
            *self.by_tid.entry(tid).or_default() += n;
        }
    }

    /// Adds those of another CPU.
    pub fn join(&mut self, other: &Payers) {
        self.n += other.n;
        for (tid, n) in &other.by_tid {
            *self.by_tid.entry(*tid).or_default() += n;
        }
    }

    /// Number of events paid by the threads that `is_ours` selects; none: the recording does not say.
    pub fn paid_by(&self, is_ours: impl Fn(i64) -> bool) -> Option<u64> {
        let ours = self.by_tid.iter().filter(|(tid, _)| is_ours(**tid));
        (!self.by_tid.is_empty() || self.n == 0).then(|| ours.map(|(_, n)| n).sum())
    }
}

/// Events whose mean distance is taken at once. Events come in small groups (a call's begin and end, a wake-up and its
/// switch), so the distance of two neighbours does not show how long the CPU did something else.
const NEIGHBOURS: usize = 32;

/// The geometric mean of the distances between events on a CPU: a burst and a quiet phase count by their events.
#[derive(Clone, Debug, Default)]
pub(super) struct Apart {
    /// Sum of the logarithms of the distances in ns, weighted by events.
    logs: f64,
    n: u64,
}

impl Apart {
    /// Adds events of one CPU. `times`: their times in ns, ascending.
    pub fn add(&mut self, times: &[i64]) {
        for group in times.chunks(NEIGHBOURS) {
            let (Some(first), Some(last), 2..) = (group.first(), group.last(), group.len()) else {
                continue;
            };
            let between = (group.len() - 1) as f64;
            let apart_ns = (last.saturating_sub(*first) as f64 / between).max(1.0);
            self.logs += apart_ns.ln() * group.len() as f64;
            self.n += group.len() as u64;
        }
    }

    /// Adds those of another CPU.
    pub fn join(&mut self, other: &Apart) {
        self.logs += other.logs;
        self.n += other.n;
    }

    /// The mean distance, ns.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.n > 0).then(|| (self.logs / self.n as f64).exp())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_and_a_rest_count_by_their_events() {
        let every = |n: i64, apart: i64| (0..n).map(|i| i * apart).collect::<Vec<_>>();
        let mut apart = Apart::default();
        assert_eq!(apart.mean_ns(), None);
        apart.add(&every(3200, 100));
        apart.add(&every(3200, 10_000));
        let mean = apart.mean_ns().unwrap();
        assert!((mean - 1000.0).abs() < 1e-6, "{mean}");
        // A single event is apart from nothing.
        apart.add(&[7]);
        assert_eq!(apart.mean_ns(), Some(mean));
    }

    #[test]
    fn threads_that_share_a_slot_are_told_apart() {
        let mut payers = Payers::default();
        let far = SLOTS as i64;
        payers.add(7, &[1, 1 + far, 1, 1 + far, 1, -1, 0]);
        payers.add(2, &[1, 2]);
        assert_eq!(payers.n, 9);
        for (tid, n) in [(1, 4), (1 + far, 2), (-1, 1), (0, 1), (2, 1), (3, 0)] {
            assert_eq!(payers.paid_by(|t| t == tid), Some(n), "{tid}");
        }
    }

    #[test]
    fn a_kind_without_threads_is_not_known_to_cost_nothing() {
        let mut payers = Payers::default();
        payers.add(5, &[]);
        assert_eq!((payers.n, payers.paid_by(|_| true)), (5, None));
    }
}
