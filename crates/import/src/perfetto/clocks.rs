//! Converts stamps of many clocks to the trace's clock.
//!
//! A snapshot (`ClockSnapshot`) has the readings of several clocks at one moment. A stamp is converted with the last
//! snapshot before it, by adding the difference; between two snapshots all clocks are assumed to run equally fast. If
//! no snapshot has both clocks, the conversion goes over other clocks, up to [`HOPS`] of them.
//!
//! Clocks 64 to 127 are private to a writer. Such a clock may count in units of several ns, and may be incremental: its
//! stamps are differences to the previous one, so they must be converted in the order of the file.
use kasuri_format::perfetto::ClockSnapshot;
use std::collections::HashMap;

// `BuiltinClock` (protos/perfetto/common/builtin_clock.proto).
pub(super) const REALTIME: u32 = 1;
pub(super) const MONOTONIC: u32 = 3;
pub(super) const MONOTONIC_RAW: u32 = 5;
pub(super) const BOOTTIME: u32 = 6;

/// Clocks that are private to a writer.
const OWN: std::ops::Range<u32> = 64..128;

/// A clock and, if it is private, its writer; else 0.
type ClockId = (u32, u32);

/// All snapshots of a trace.
#[derive(Debug)]
pub(super) struct Clocks {
    /// The clock of the trace.
    pub trace: u32,
    /// The readings of two clocks at the same moment, in ns, sorted by the first clock's; all pairs of each snapshot.
    pairs: HashMap<(ClockId, ClockId), Vec<(i64, i64)>>,
    /// The clocks that share a snapshot with a clock.
    beside: HashMap<ClockId, Vec<ClockId>>,
    units: HashMap<ClockId, Unit>,
    /// The last stamp of incremental clocks, ns.
    last: HashMap<ClockId, i64>,
}

/// How the stamps of a clock count: in `ns` each, from the clock's zero or from the stamp before.
#[derive(Clone, Copy, Debug)]
struct Unit {
    ns: i64,
    is_incremental: bool,
}

impl Default for Clocks {
    fn default() -> Clocks {
        Clocks {
            trace: BOOTTIME,
            pairs: HashMap::new(),
            beside: HashMap::new(),
            units: HashMap::new(),
            last: HashMap::new(),
        }
    }
}

/// The clock with this number, as a writer means it.
fn key(clock: u32, sequence: u32) -> ClockId {
    (clock, if OWN.contains(&clock) { sequence } else { 0 })
}

/// Most intermediate clocks of a conversion.
const HOPS: u32 = 3;
/// Most clocks of one snapshot. Tools write six, and a few private ones; pairs grow with the square.
const MAX_CLOCKS: usize = 32;

impl Clocks {
    /// Takes in a snapshot of the writer `sequence`.
    pub fn add(&mut self, snapshot: &ClockSnapshot, sequence: u32) {
        if let Some(primary) = snapshot.primary.filter(|&clock| clock != 0) {
            self.trace = primary;
        }
        let mut row = Vec::new();
        for clock in snapshot.clocks.iter().take(MAX_CLOCKS) {
            let id = key(clock.id, sequence);
            let unit = Unit {
                ns: i64::try_from(clock.unit_ns).unwrap_or(1).max(1),
                is_incremental: clock.is_incremental,
            };
            self.units.insert(id, unit);
            let ns = (clock.timestamp as i64).saturating_mul(unit.ns);
            row.push((id, ns));
        }
        for &(from, ns) in &row {
            for &(to, there) in row.iter().filter(|(to, _)| *to != from) {
                let pairs = self.pairs.entry((from, to)).or_default();
                if pairs.is_empty() {
                    self.beside.entry(from).or_default().push(to);
                }
                pairs.push((ns, there));
            }
        }
    }

    /// Sorts the readings, after the last snapshot was added and before the first conversion.
    pub fn sort(&mut self) {
        self.pairs.values_mut().for_each(|pairs| pairs.sort());
    }

    /// Passes a snapshot again while events are read: the incremental clocks restart from it.
    pub fn pass(&mut self, snapshot: &ClockSnapshot, sequence: u32) {
        for clock in &snapshot.clocks {
            let id = key(clock.id, sequence);
            let unit = self.units.get(&id).map_or(1, |unit| unit.ns);
            self.last.insert(id, (clock.timestamp as i64).saturating_mul(unit));
        }
    }

    /// A stamp on the trace's clock, ns; none: no snapshot relates the clocks.
    pub fn time(&mut self, clock: u32, sequence: u32, stamp: u64) -> Option<i64> {
        let id = key(clock, sequence);
        let mut ns = stamp as i64;
        if let Some(&unit) = self.units.get(&id) {
            ns = ns.saturating_mul(unit.ns);
            if unit.is_incremental {
                let last = self.last.entry(id).or_default();
                *last = last.saturating_add(ns);
                ns = *last;
            }
        }
        self.convert(id, ns)
    }

    /// The reading of the trace's clock at the moment when `id` showed `ns`.
    pub fn convert(&self, id: ClockId, ns: i64) -> Option<i64> {
        self.between(id, (self.trace, 0), ns, HOPS)
    }

    /// `to` minus `from` in the first snapshot of both, ns.
    pub fn offset(&self, from: u32, to: u32) -> Option<i64> {
        let pairs = self.pairs.get(&((from, 0), (to, 0)))?;
        pairs.first().map(|(ns, there)| there.saturating_sub(*ns))
    }

    /// Readings of the trace's clock in first and last snapshots.
    pub fn extent(&self) -> Vec<i64> {
        let trace = (self.trace, 0);
        let pairs = self.pairs.iter().filter(|((from, _), _)| *from == trace);
        let times = pairs.flat_map(|(_, pairs)| pairs.first().into_iter().chain(pairs.last()));
        times.map(|(ns, _)| *ns).collect()
    }

    /// Converts between two clocks, directly or over at most `hops` others. A stamp before the first snapshot uses
    /// that.
    fn between(&self, from: ClockId, to: ClockId, ns: i64, hops: u32) -> Option<i64> {
        if from == to {
            return Some(ns);
        }
        if let Some(pairs) = self.pairs.get(&(from, to)) {
            let after = pairs.partition_point(|(at, _)| *at <= ns);
            let (at, there) = pairs.get(after.saturating_sub(1))?;
            return Some(there.saturating_add(ns.saturating_sub(*at)));
        }
        if hops == 0 {
            return None;
        }
        self.beside.get(&from)?.iter().find_map(|&next| {
            let there = self.between(from, next, ns, 0)?;
            self.between(next, to, there, hops - 1)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kasuri_format::perfetto::ClockReading;

    fn snapshot(clocks: &[(u32, u64)]) -> ClockSnapshot {
        let clocks = clocks.iter().map(|&(id, timestamp)| ClockReading {
            id,
            timestamp,
            is_incremental: id == 64,
            unit_ns: if id == 64 { 1000 } else { 0 },
        });
        ClockSnapshot { clocks: clocks.collect(), primary: None }
    }

    #[test]
    fn stamps_follow_the_snapshot_before_them() {
        let mut clocks = Clocks::default();
        clocks.add(&snapshot(&[(BOOTTIME, 1000), (MONOTONIC, 900)]), 1);
        clocks.add(&snapshot(&[(BOOTTIME, 5000), (MONOTONIC, 1900), (REALTIME, 77)]), 1);
        clocks.sort();
        assert_eq!(clocks.time(BOOTTIME, 1, 5), Some(5));
        assert_eq!(clocks.time(MONOTONIC, 1, 850), Some(950));
        assert_eq!(clocks.time(MONOTONIC, 2, 950), Some(1050));
        assert_eq!(clocks.time(MONOTONIC, 2, 2000), Some(5100));
        assert_eq!(clocks.time(9, 2, 2000), None, "no snapshot has it");
        assert_eq!(clocks.offset(BOOTTIME, REALTIME), Some(77 - 5000));
    }

    #[test]
    fn own_clocks_are_their_sequences_and_incremental() {
        let mut clocks = Clocks::default();
        let own = snapshot(&[(64, 100), (BOOTTIME, 7000)]);
        clocks.add(&own, 1);
        clocks.sort();
        clocks.pass(&own, 1);
        assert_eq!(clocks.time(64, 1, 3), Some(10_000));
        assert_eq!(clocks.time(64, 1, 2), Some(12_000));
        assert_eq!(clocks.time(64, 2, 2), None, "another sequence's");
    }

    #[test]
    fn clocks_that_share_no_snapshot_with_the_traces_go_over_others() {
        let mut clocks = Clocks::default();
        clocks.add(&snapshot(&[(130, 10), (MONOTONIC, 20)]), 1);
        clocks.add(&snapshot(&[(MONOTONIC, 10), (BOOTTIME, 500)]), 1);
        clocks.sort();
        assert_eq!(clocks.time(130, 0, 15), Some(515));
    }
}
