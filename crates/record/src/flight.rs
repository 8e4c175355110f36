//! The flight recorder: nothing is drained; rings and kernel buffers overwrite their oldest until a
//! snapshot is asked for.
//!
//! A snapshot freezes both sides first, so that it is one cut through the whole system, copies them to
//! a recording directory of its own, lets both go on, and only then packs. What programs wanted to
//! write meanwhile, and had no room for, they count as lost (cause: frozen).
use crate::clock;
use crate::error::{Error, Result};
use crate::files::directory::{self, Directory};
use crate::files::output::{self, Kind};
use crate::kernel::source::Source;
use crate::options::Flight;
use crate::program::procs::Snapshots;
use crate::program::signals::Signals;
use crate::recorder::{LeftInRings, Notice, Notify, Recorder, Summary};
use kasuri_format::clock::ClockMap;
use kasuri_format::meta::{Anchor, Meta};
use kasuri_format::ring::SessionState;
use std::path::{Path, PathBuf};

/// Kernel buffers are emptied by reading them.
const UNSAVED_KERNEL: &str = "kernel events of a snapshot that could not be saved";

/// What a flight recorder remembers between snapshots.
#[derive(Debug)]
pub(crate) struct FlightState {
    keep_ns: u64,
    anchors: Vec<Anchor>,
    triggers_seen: u32,
    snapshots: u32,
}

impl FlightState {
    pub(crate) fn new(flight: Flight) -> FlightState {
        let keep_ns = u64::try_from(flight.keep.as_nanos()).unwrap_or(u64::MAX);
        FlightState {
            keep_ns,
            anchors: Vec::new(),
            triggers_seen: 0,
            snapshots: 0,
        }
    }

    /// Adds an anchor and forgets those that no kept event needs: all but one before the kept time.
    pub(crate) fn add_anchor(&mut self, anchor: Anchor) {
        self.anchors.push(anchor);
        let oldest = anchor.monotonic_ns.saturating_sub(self.keep_ns);
        let needless = self
            .anchors
            .partition_point(|a| a.monotonic_ns < oldest)
            .saturating_sub(2);
        self.anchors.drain(..needless);
    }

    /// The stamp, in the annotations' clock, before which nothing is kept.
    fn cutoff(&self, native: bool) -> u64 {
        let oldest = clock::monotonic_ns().saturating_sub(self.keep_ns);
        match native {
            false => oldest,
            true => ClockMap::from_anchors(&self.anchors).map_or(0, |map| map.stamp_at(oldest)),
        }
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
    // A device stays what it is.
    if matches!(output::kind(output), Ok(Kind::Stream)) {
        return output.to_owned();
    }
    let stem = output
        .file_stem()
        .unwrap_or(output.as_os_str())
        .to_string_lossy()
        .into_owned();
    let extension = output
        .extension()
        .map_or(String::new(), |e| format!(".{}", e.to_string_lossy()));
    output.with_file_name(format!("{stem}.{number}{extension}"))
}

impl Recorder<'_> {
    /// A snapshot was asked for by signal.
    pub(crate) fn trigger(&mut self, notify: Notify<'_>) {
        if let Err(error) = self.snapshot(notify) {
            notify(Notice::Warning(format!("snapshot not saved: {error}")));
            let is_kept = matches!(error, Error::Pack { .. });
            if !is_kept && matches!(self.source, Source::Tracefs(_)) {
                let why = UNSAVED_KERNEL.to_owned();
                self.summary.losses.unknown.push(why);
            }
            self.copied = is_kept;
            self.summary.failure.get_or_insert(error);
        } else {
            self.copied = true;
        }
    }

    /// Looks for triggers of programs.
    pub(crate) fn flight_tick(&mut self, notify: Notify<'_>) {
        self.collector.discover();
        let triggers = self.session.triggers();
        let Some(flight) = &mut self.flight else {
            return;
        };
        if flight.triggers_seen != triggers {
            flight.triggers_seen = triggers;
            self.trigger(notify);
        }
    }

    /// Frees the chunks of threads that ended longer ago than is kept.
    pub(crate) fn flight_second(&mut self) {
        let native = self.meta.annotations.clock == "native";
        let cutoff = self
            .flight
            .as_ref()
            .map_or(0, |flight| flight.cutoff(native));
        if self.collector.free_old(cutoff) > 0 {
            self.session.add_freed();
        }
    }

    fn snapshot(&mut self, notify: Notify<'_>) -> Result<()> {
        let Some(flight) = &mut self.flight else {
            return Ok(());
        };
        flight.snapshots += 1;
        let number = flight.snapshots;
        let output = numbered_output(&self.options.output, number);
        let mut dir = Directory::create(&directory::place_for(&with_number(
            &self.options.output,
            number,
        ))?)?;
        match self.copy_frozen(&mut dir) {
            Ok(raw_bytes) => self.summary.raw_bytes += raw_bytes,
            // Half a snapshot is none, and takes the room that the next one needs. The rings still have it all.
            Err(error) => {
                dir.discard();
                return Err(error);
            }
        }
        if !self.options.pack {
            self.summary.dir = Some(dir.path().to_owned());
            self.summary
                .losses
                .add(&crate::files::pack::losses(dir.held()));
            return Ok(());
        }
        let packed = crate::files::pack::pack(dir.path(), &output, notify)?;
        packed.add_to(&mut self.summary);
        dir.discard();
        notify(Notice::Saved(&output));
        self.summary.files.push(output);
        Ok(())
    }

    /// The rings of a snapshot that could not be saved at the end stay for `kasuri recover`; what it needs besides goes to the
    /// recording directory.
    fn leave_rings(&mut self) {
        self.summary.left = Some(LeftInRings {
            session: self.session.path().to_owned(),
            bytes: self.collector.waiting(),
        });
        let end = clock::anchor();
        self.meta.end = Some(end);
        if matches!(self.source, Source::Tracefs(_)) {
            self.meta.missing.push(UNSAVED_KERNEL.to_owned());
        }
        self.dir.use_reserve();
        let anchors: Vec<Anchor> = match &self.flight {
            Some(flight) => flight.anchors.iter().copied().chain([end]).collect(),
            None => vec![end],
        };
        if let Err(error) = self.dir.add_anchors(&anchors) {
            self.summary.failure.get_or_insert(error);
        }
    }

    /// The frozen part: as short as copying allows.
    fn copy_frozen(&mut self, dir: &mut Directory) -> Result<u64> {
        self.session.set_state(SessionState::Frozen);
        self.source.stop();
        let end = clock::anchor();
        let kernel = self
            .source
            .redirect(dir.held())
            .and_then(|()| self.source.finish());
        let kernel_bytes = self.source.bytes();
        let rings = self.collector.snapshot(dir.held());
        let unplaced = crate::rings::collector::write_unplaced(dir.held(), self.session.lost());
        self.source.resume();
        self.session.set_state(SessionState::Recording);
        self.session.add_freed();
        kernel?;
        let ring_bytes = rings?;
        unplaced?;
        let anchors: Vec<Anchor> = match &self.flight {
            Some(flight) => flight.anchors.iter().copied().chain([end]).collect(),
            None => vec![end],
        };
        dir.add_anchors(&anchors)?;
        dir.add_procs(&Snapshots::default().everything())?;
        dir.add_procs(self.collector.names())?;
        let start = anchors[0];
        let mut meta = Meta {
            start,
            end: Some(end),
            complete: true,
            ..self.meta.clone()
        };
        meta.missing.extend(self.collector.refused());
        dir.write_meta(&meta)?;
        Ok(kernel_bytes + ring_bytes)
    }

    /// The end of the program is a reason to save, too: it may have crashed.
    pub(crate) fn flight_end(mut self, signals: &Signals, notify: Notify<'_>) -> Result<Summary> {
        self.meta.exit_status = self.exit_status();
        self.meta.recorder_cpu_ns = Some(self.cpu_so_far());
        // Also when one before could not be saved: there may be room now.
        self.trigger(notify);
        self.session.set_state(SessionState::Stopped);
        if !self.copied {
            self.leave_rings();
        }
        self.close(signals, notify)
    }
}

/// Kernel events need buffers that overwrite: tracefs has them.
pub(crate) fn only_overwriting(source: &mut Source, missing: &mut Vec<String>) {
    if matches!(source, Source::Perf { .. }) {
        *source = Source::None;
        missing.push("the flight recorder needs tracefs for kernel events; `sudo kasuri record --flight ...`".to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn snapshots_are_numbered_from_the_second_on() {
        let output = Path::new("dir/run.kasuri");
        assert_eq!(numbered_output(output, 1), Path::new("dir/run.kasuri"));
        assert_eq!(numbered_output(output, 2), Path::new("dir/run.2.kasuri"));
        assert_eq!(numbered_output(Path::new("x"), 3), Path::new("x.3"));
    }

    #[test]
    fn anchors_are_kept_as_long_as_events_are() {
        let mut state = FlightState::new(Flight {
            keep: Duration::from_secs(5),
        });
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
}
