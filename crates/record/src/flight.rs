//! The flight recorder: nothing is drained; rings and kernel buffers overwrite their oldest events until a snapshot
//! is requested, by a signal, a program or the end of the recording.
//!
//! A snapshot freezes both sides first, so that it is one cut through the whole system. It copies them to a recording
//! directory of its own, lets both continue, and only then packs. Events that programs emit meanwhile and have no
//! room for are counted as lost (cause: frozen).
use crate::clock;
use crate::error::{Error, Result};
use crate::files::directory::{self, Directory};
use crate::files::output::{self, Kind};
use crate::files::pack;
use crate::kernel::source::Source;
use crate::live::Live;
use crate::notice::{Notice, Notify};
use crate::options::Flight;
use crate::program::procs::{self, Snapshots};
use crate::rings::collector::write_unplaced;
use crate::rings::slices::{OnSlice, SliceWatch};
use kasuri_format::clock::ClockMap;
use kasuri_format::meta::{Anchor, LimitRow, Meta};
use kasuri_format::ring::SessionState;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The loss of a failed snapshot: reading the kernel's buffers empties them.
const UNSAVED_KERNEL: &str = "kernel events of a snapshot that could not be saved";

/// A flight recorder, and its state between snapshots. It may run for months, so the kept time bounds all of that
/// state.
#[derive(Debug)]
pub(crate) struct FlightRecorder {
    keep_ns: u64,
    anchors: Vec<Anchor>,
    limits: Vec<LimitRow>,
    triggers_seen: u32,
    snapshots: u32,
    /// The last snapshot is in a directory or a file.
    is_saved: bool,
    on_slices: Vec<OnSlice>,
    watch: SliceWatch,
    /// When a slice made it save last.
    last_slice_ns: Option<u64>,
}

impl FlightRecorder {
    pub(crate) fn new(flight: Flight, on_slices: &[OnSlice]) -> FlightRecorder {
        let keep_ns = u64::try_from(flight.keep.as_nanos()).unwrap_or(u64::MAX);
        FlightRecorder {
            keep_ns,
            anchors: Vec::new(),
            limits: Vec::new(),
            triggers_seen: 0,
            snapshots: 0,
            is_saved: false,
            on_slices: on_slices.to_vec(),
            watch: SliceWatch::new(on_slices),
            last_slice_ns: None,
        }
    }

    /// Whether the last snapshot is in a directory or a file.
    pub(crate) fn is_saved(&self) -> bool {
        self.is_saved
    }

    /// Adds an anchor and forgets those that no kept event needs: all but one before the kept time.
    pub(crate) fn add_anchor(&mut self, anchor: Anchor) {
        self.anchors.push(anchor);
        let oldest = anchor.monotonic_ns.saturating_sub(self.keep_ns);
        let needless = self.anchors.partition_point(|a| a.monotonic_ns < oldest).saturating_sub(2);
        self.anchors.drain(..needless);
    }

    /// Adds CPU limits. Of those before the kept time the last of each kind is still in force. The cgroup of a
    /// process that has ended since does not matter any more.
    pub(crate) fn add_limits(
        &mut self,
        rows: Vec<LimitRow>,
        now_ns: u64,
        lives: impl Fn(i32) -> bool,
    ) {
        self.limits.extend(rows);
        let oldest = now_ns.saturating_sub(self.keep_ns);
        let mut later: HashSet<(i32, String, bool)> = HashSet::new();
        let mut kept: Vec<LimitRow> = Vec::new();
        for row in self.limits.drain(..).rev() {
            let in_force = later.insert((row.pid, row.group.clone(), row.cpus.is_empty()));
            let matters = row.pid == 0 || lives(row.pid);
            if row.monotonic_ns >= oldest || (in_force && matters) {
                kept.push(row);
            }
        }
        kept.reverse();
        self.limits = kept;
    }

    /// Looks for triggers of programs.
    pub(crate) fn tick(&mut self, live: &mut Live<'_>, notify: Notify<'_>) {
        live.collector.discover();
        if let Some(stacks) = &mut live.stacks {
            stacks.drain();
        }
        let triggers = live.session.triggers();
        if self.triggers_seen != triggers {
            self.triggers_seen = triggers;
            self.save(live, notify);
        }
        if !self.on_slices.is_empty() {
            self.watch_slices(live, notify);
        }
    }

    /// Saves when a slice took too long, but no more often than once in the kept time: the snapshots would have the same in them.
    fn watch_slices(&mut self, live: &mut Live<'_>, notify: Notify<'_>) {
        let now_ns = clock::monotonic_ns();
        let native = live.meta.annotations.clock == "native";
        let map = match native {
            false => ClockMap::identity(),
            true => match ClockMap::from_anchors(&self.anchors) {
                Ok(map) => map,
                // Until the second anchor, in the first second.
                Err(_) => return,
            },
        };
        let now = map.stamp_at(now_ns);
        let before = |time: Duration| {
            let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
            map.stamp_at(now_ns.saturating_sub(ns))
        };
        let limits = self.on_slices.iter();
        let limits: Vec<u64> = limits.map(|on| now.saturating_sub(before(on.least))).collect();
        let long = live.collector.watch(&mut self.watch, &limits, now);
        let rests = |last: u64| now_ns.saturating_sub(last) < self.keep_ns;
        let Some(long) = long.first().filter(|_| !self.last_slice_ns.is_some_and(rests)) else {
            return;
        };
        self.last_slice_ns = Some(now_ns);
        let ns = now_ns.saturating_sub(map.monotonic_ns(now.saturating_sub(long.ticks)) as u64);
        let said = if long.goes_on { "has taken" } else { "took" };
        notify(Notice::Note(format!(
            "saving: slice {} of thread {} (process {}) {said} {} ms",
            self.on_slices[long.which].name,
            long.tid,
            long.pid,
            ns / 1_000_000
        )));
        self.save(live, notify);
    }

    /// Once a second: reads clocks and limits, and frees the chunks of threads that ended before the kept time.
    pub(crate) fn second(&mut self, live: &mut Live<'_>) {
        self.add_anchor(clock::anchor());
        self.read_limits(live, false);
        if let Some(stacks) = &mut live.stacks {
            stacks.keep_from(clock::monotonic_ns().saturating_sub(self.keep_ns));
        }
        let native = live.meta.annotations.clock == "native";
        if live.collector.free_old(self.cutoff(native)) > 0 {
            live.session.add_freed();
        }
    }

    /// Saves a snapshot, or reports why it could not be saved.
    pub(crate) fn save(&mut self, live: &mut Live<'_>, notify: Notify<'_>) {
        let saved = self.snapshot(live, notify);
        let Err(error) = saved else {
            self.is_saved = true;
            return;
        };
        notify(Notice::Warning(format!("snapshot not saved: {error}")));
        // A snapshot that could not be packed is still in its directory.
        self.is_saved = matches!(error, Error::Pack { .. });
        if !self.is_saved && matches!(live.source, Source::Tracefs(_)) {
            let why = UNSAVED_KERNEL.to_owned();
            live.summary.losses.unknown.push(why);
        }
        live.summary.failure.get_or_insert(error);
    }

    /// Leaves the rings of a last snapshot that could not be saved to `kasuri recover`, and writes the rest of what
    /// that needs to the recording directory.
    pub(crate) fn leave_rings(&mut self, live: &mut Live<'_>, dir: &mut Directory) {
        live.leave_rings();
        let end = clock::anchor();
        live.meta.end = Some(end);
        if matches!(live.source, Source::Tracefs(_)) {
            live.meta.missing.push(UNSAVED_KERNEL.to_owned());
        }
        dir.use_reserve();
        let written =
            dir.add_anchors(&self.anchors_until(end)).and_then(|()| dir.add_limits(&self.limits));
        if let Err(error) = written {
            live.summary.failure.get_or_insert(error);
        }
    }

    /// The stamp, in the annotations' clock, before which nothing is kept.
    fn cutoff(&self, native: bool) -> u64 {
        let oldest = clock::monotonic_ns().saturating_sub(self.keep_ns);
        match native {
            false => oldest,
            true => ClockMap::from_anchors(&self.anchors).map_or(0, |map| map.stamp_at(oldest)),
        }
    }

    fn anchors_until(&self, end: Anchor) -> Vec<Anchor> {
        self.anchors.iter().copied().chain([end]).collect()
    }

    fn read_limits(&mut self, live: &mut Live<'_>, all: bool) {
        let rows = live.read_limits(all);
        let lives = |pid| procs::start_time(pid).is_some();
        self.add_limits(rows, clock::monotonic_ns(), lives);
    }

    fn snapshot(&mut self, live: &mut Live<'_>, notify: Notify<'_>) -> Result<()> {
        self.snapshots += 1;
        let output = numbered_output(&live.options.output, self.snapshots);
        // The first name without a number is that of the flight recorder's own directory.
        let beside = with_number(&live.options.output, self.snapshots);
        let mut dir = Directory::create(&directory::place_for(&beside)?)?;
        match self.copy_frozen(live, &mut dir) {
            Ok(raw_bytes) => live.summary.raw_bytes += raw_bytes,
            // Half a snapshot is useless, and takes the room that the next one needs. The rings still have all of it.
            Err(error) => {
                dir.discard();
                return Err(error);
            }
        }
        if !live.options.pack {
            live.summary.dir = Some(dir.path().to_owned());
            live.summary.losses.add(&pack::losses(dir.held()));
            return Ok(());
        }
        let packed = pack::pack(dir.path(), &output, notify)?;
        packed.add_to(&mut live.summary);
        dir.discard();
        notify(Notice::Saved(&output));
        live.summary.files.push(output);
        Ok(())
    }

    /// Freezes, copies, and lets both sides continue, as soon as the copy is made. Then writes the tables that belong
    /// to the copy. Returns the bytes copied.
    fn copy_frozen(&mut self, live: &mut Live<'_>, dir: &mut Directory) -> Result<u64> {
        self.read_limits(live, true);
        live.session.set_state(SessionState::Frozen);
        live.source.stop();
        let end = clock::anchor();
        let source = &mut live.source;
        let kernel = source.redirect(dir.held()).and_then(|()| source.finish());
        let kernel_bytes = source.bytes();
        let rings = live.collector.snapshot(dir.held());
        let from_ns = end.monotonic_ns.saturating_sub(self.keep_ns);
        let samples = live.stacks.as_mut().map(|s| s.snapshot(from_ns));
        let unplaced = write_unplaced(dir.held(), live.unplaced());
        live.source.resume();
        live.session.set_state(SessionState::Recording);
        live.session.add_freed();
        kernel?;
        let ring_bytes = rings?;
        unplaced?;
        if let Some((log, rows)) = samples {
            dir.add_call_paths(&log)?;
            dir.add_sampling(&rows)?;
        }
        self.write_tables(live, dir, end)?;
        Ok(kernel_bytes + ring_bytes)
    }

    fn write_tables(&self, live: &Live<'_>, dir: &mut Directory, end: Anchor) -> Result<()> {
        let anchors = self.anchors_until(end);
        dir.add_anchors(&anchors)?;
        dir.add_limits(&self.limits)?;
        dir.add_procs(&Snapshots::default().everything())?;
        dir.add_procs(live.collector.names())?;
        let mut meta =
            Meta { start: anchors[0], end: Some(end), complete: true, ..live.meta.clone() };
        let refused = live.collector.refused();
        meta.missing.extend(refused.iter().cloned());
        meta.uncounted.extend(refused);
        meta.annotations.hindrances = live.session.hindrances();
        dir.write_meta(&meta)
    }
}

/// `run.kasuri`, `run.2.kasuri`, `run.3.kasuri`...
fn numbered_output(output: &Path, number: u32) -> PathBuf {
    if number == 1 {
        return output.to_owned();
    }
    with_number(output, number)
}

fn with_number(output: &Path, number: u32) -> PathBuf {
    // A device keeps its name.
    if matches!(output::kind(output), Ok(Kind::Stream)) {
        return output.to_owned();
    }
    let stem = output.file_stem().unwrap_or(output.as_os_str()).to_string_lossy().into_owned();
    let extension =
        output.extension().map_or(String::new(), |e| format!(".{}", e.to_string_lossy()));
    output.with_file_name(format!("{stem}.{number}{extension}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIVE_SECONDS: Flight = Flight { keep: Duration::from_secs(5) };

    #[test]
    fn snapshots_are_numbered_from_the_second_on() {
        let output = Path::new("dir/run.kasuri");
        assert_eq!(numbered_output(output, 1), Path::new("dir/run.kasuri"));
        assert_eq!(numbered_output(output, 2), Path::new("dir/run.2.kasuri"));
        assert_eq!(numbered_output(Path::new("x"), 3), Path::new("x.3"));
    }

    #[test]
    fn anchors_are_kept_as_long_as_events_are() {
        let mut state = FlightRecorder::new(FIVE_SECONDS, &[]);
        for second in 0..100 {
            state.add_anchor(Anchor {
                native: second,
                monotonic_ns: second * 1_000_000_000,
                realtime_ns: 0,
            });
        }
        assert!(state.anchors[0].monotonic_ns <= 94_000_000_000);
        assert!(state.anchors.len() < 10);
    }

    fn row(second: u64, change: impl FnOnce(&mut LimitRow)) -> LimitRow {
        let mut row = LimitRow { monotonic_ns: second * 1_000_000_000, ..LimitRow::default() };
        change(&mut row);
        row
    }

    /// However old: what was in force when the kept time began is known, and nothing else of before.
    #[test]
    fn limits_in_force_are_kept_and_those_before_them_are_not() {
        let mut state = FlightRecorder::new(FIVE_SECONDS, &[]);
        let group = |second, throttled_ns| {
            row(second, |row| {
                row.group = "/g".into();
                row.throttled_ns = throttled_ns;
            })
        };
        let cpus = |second, cpus: &str| row(second, |row| row.cpus = cpus.into());
        let member = |second, pid| {
            row(second, |row| {
                row.pid = pid;
                row.group = "/g".into();
            })
        };
        let first = vec![cpus(1, "0-3"), member(1, 10), member(1, 11), group(1, 0), cpus(2, "0")];
        state.add_limits(first, 2_000_000_000, |_| true);
        assert_eq!(state.limits.len(), 5, "all of it is new");
        state.add_limits(vec![group(3, 5), group(97, 6), group(99, 7)], 100_000_000_000, |pid| {
            pid == 10
        });
        let kept: Vec<(u64, i32, u64)> = state
            .limits
            .iter()
            .map(|row| (row.monotonic_ns / 1_000_000_000, row.pid, row.throttled_ns))
            .collect();
        assert_eq!(kept, [(1, 10, 0), (2, 0, 0), (97, 0, 6), (99, 0, 7)]);
        assert_eq!(state.limits[1].cpus, "0");
    }

    #[test]
    fn a_flight_recorder_of_months_remembers_little() {
        let mut state = FlightRecorder::new(FIVE_SECONDS, &[]);
        for second in 0..10_000 {
            let rows = vec![
                row(second, |row| row.pid = second as i32 + 2),
                row(second, |row| row.group = "/g".into()),
            ];
            state.add_limits(rows, second * 1_000_000_000, |_| false);
            assert!(state.limits.len() <= 2 * 7, "{second}: {}", state.limits.len());
        }
    }
}
