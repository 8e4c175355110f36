//! The end of a recording: takes the last events, removes what the recorder made in the system, packs.
//!
//! Everything here must go as far as it can when the disk is full: each source is written even if another one failed,
//! annotations that fit nowhere stay in the rings for `kasuri recover`, and the tables use the space that was
//! reserved at the start. The first error becomes the recording's failure.
use super::{Recorder, children_cpu_ns, cpu_ns};
use crate::clock;
use crate::error::{Error, Result};
use crate::files::directory::Directory;
use crate::files::pack::{self, Amend};
use crate::files::stream::Stream;
use crate::guard::held;
use crate::notice::{Notice, Notify, Summary};
use crate::options::{Options, Target};
use crate::program::child::Child;
use crate::program::ends;
use crate::program::signals::{ENDING, Signals};
use crate::rings::collector::write_unplaced;
use crate::rings::session;
use crate::stacks::Sampler;
use kasuri_format::meta::HeldUp;
use kasuri_format::ring::SessionState;
use std::time::Duration;

/// Time that programs get to finish the event they are writing, after they were told to stop.
const STOP_GRACE: Duration = Duration::from_millis(2);

impl Recorder<'_> {
    /// Ends the recording, and packs it.
    pub(super) fn end(mut self, signals: &Signals, notify: Notify<'_>) -> Result<Summary> {
        self.live.source.stop();
        if let Some(stacks) = &mut self.live.stacks {
            stacks.stop();
        }
        self.look_at_threads();
        self.name_refused(notify);
        match self.flight.is_some() {
            true => self.end_flight(notify),
            false => self.end_ordinary(notify),
        }
        self.close(signals, notify)
    }

    /// Looks at what the program's threads do, and for whom they wait.
    fn look_at_threads(&mut self) {
        // The number of a program that has ended may be another's.
        let has_ended = (self.child.as_ref()).is_some_and(|child| child.status().is_some());
        let is_of_all = matches!(self.options.target, Target::System(_));
        if self.flight.is_none() && !has_ended && !is_of_all {
            let readers = (self.live.stacks.as_ref()).map(Sampler::readers);
            self.at_end = ends::look(&self.live.meta.root_pids, &readers.unwrap_or_default());
        }
    }

    /// Stops the programs, takes the events that they and the kernel have written, completes the metadata.
    fn end_ordinary(&mut self, notify: Notify<'_>) {
        self.live.session.set_state(SessionState::Stopped);
        drop(self.attachment.take());
        let is_running = |child: &Child| child.status().is_none();
        if self.child.as_ref().is_none_or(is_running) {
            std::thread::sleep(STOP_GRACE);
        }
        crate::testhook::point("end");
        self.complete_meta();
        if let Err(error) = self.write_rest() {
            let text = error.to_string();
            let first = self.live.summary.failure.get_or_insert(error);
            if first.to_string() != text {
                notify(Notice::Warning(text));
            }
        }
        for line in self.live.collector.refused() {
            notify(Notice::Warning(line.clone()));
            self.live.meta.uncounted.push(line.clone());
            self.live.meta.missing.push(line);
        }
        self.name_absent(notify);
        let unwatched = self.live.limits.missing();
        self.live.meta.missing.extend(unwatched);
        self.live.summary.raw_bytes = self.live.bytes();
    }

    /// Saves a last snapshot. The end of the program is a reason to save, too: it may have crashed.
    fn end_flight(&mut self, notify: Notify<'_>) {
        self.live.meta.exit_status = self.exit_status();
        self.live.meta.recorder_cpu_ns = Some(self.cpu_so_far());
        self.live.meta.held_up = held::so_far();
        let Some(flight) = &mut self.flight else {
            return;
        };
        // Also when an earlier snapshot could not be saved: there may be room now.
        flight.save(&mut self.live, notify);
        self.live.session.set_state(SessionState::Stopped);
        if !flight.is_saved() {
            flight.leave_rings(&mut self.live, &mut self.dir);
        }
    }

    fn complete_meta(&mut self) {
        let exit_status = self.exit_status();
        let live = &mut self.live;
        live.meta.end = Some(clock::anchor());
        live.meta.exit_status = exit_status;
        if exit_status.is_some() {
            let used = children_cpu_ns().saturating_sub(self.children_at_start);
            live.meta.program_cpu_ns = Some(used);
        }
        live.meta.held_up = held::so_far();
        let recorded = live.meta.end.map_or(0, |end| {
            let start = live.meta.start.monotonic_ns;
            end.monotonic_ns.saturating_sub(start)
        });
        (live.meta.missing).extend(live.meta.held_up.and_then(|of| held_long(of, recorded)));
        if let Some(budget) = &self.budget {
            live.meta.budget = budget.changes.clone();
            live.summary.budget = Some(budget.result());
        }
    }

    /// Writes the rest of each source; a failure of one does not keep the others from being written. Annotations that
    /// cannot be written stay in the rings, kernel events are counted, and space for the tables was reserved at the
    /// start.
    fn write_rest(&mut self) -> Result<()> {
        let live = &mut self.live;
        let kernel = live.source.finish();
        if kernel.is_err() {
            live.source.count_unwritten();
        }
        let rings = live.collector.finish();
        self.dir.use_reserve();
        let unplaced = write_unplaced(self.dir.held(), live.unplaced());
        if rings.is_err() || unplaced.is_err() {
            live.leave_rings();
        }
        if let Some(stacks) = &mut self.live.stacks {
            stacks.finish();
        }
        let stacks = self.write_stacks();
        let tables = self.write_last_rows();
        kernel.and(rings).and(unplaced).and(stacks).and(tables)
    }

    fn write_last_rows(&mut self) -> Result<()> {
        let live = &mut self.live;
        let losses = self.dir.add_losses(&live.source.losses(true));
        let anchors = self.dir.add_anchors(live.meta.end.as_slice());
        if anchors.is_err() {
            self.amend.anchors.extend(live.meta.end);
        }
        let mut news = self.threads.news(live.pids());
        news.extend(live.collector.take_names());
        news.append(&mut self.at_end);
        let procs = self.dir.add_procs(&news);
        let limits = self.dir.add_limits(&live.read_limits(true));
        losses.and(anchors).and(procs).and(limits)
    }

    /// Removes the tracing instance and the session, then packs.
    fn close(mut self, signals: &Signals, notify: Notify<'_>) -> Result<Summary> {
        drop(self.attachment.take());
        self.write_last_meta();
        let written = self.live.written();
        let mut live = self.live;
        // Their mappings of thousands of rings would be beside those of packing.
        drop(live.source);
        drop(live.collector);
        let is_left = live.summary.left.is_some();
        if is_left {
            live.session.keep();
        } else {
            // The link goes last: a recorder that is killed before leaves a session that `recover` finds.
            if let Some(foreign) = live.session.end() {
                notify(Notice::Warning(foreign.to_string()));
            }
            let _ = self.dir.held().remove(session::SESSION);
        }
        live.summary.exit_status = live.meta.exit_status;
        live.summary.missing = live.meta.missing;
        let mut summary = live.summary;
        notify(Notice::Stopped);
        match self.flight {
            Some(_) if !is_left => drop(self.dir.discard()),
            // The rings hold a part of it: once packed, the recording could not take that part any more.
            _ if is_left => leave(&self.dir, &mut summary),
            _ => {
                let end = PackEnd {
                    options: self.options,
                    amend: &self.amend,
                    stream: self.stream.map(|stream| (stream, written)),
                    signals,
                };
                end.pack(self.dir, &mut summary, notify);
            }
        }
        if let (Some(child), Some(_)) = (&mut self.child, self.options.duration) {
            summary.exit_status = Some(wait_for(child, signals));
        }
        Ok(summary)
    }

    fn write_last_meta(&mut self) {
        self.dir.use_reserve();
        let cpu_ns = self.cpu_so_far();
        let live = &mut self.live;
        live.meta.annotations.hindrances = live.session.hindrances();
        live.summary.recorder_cpu_ns = cpu_ns;
        live.meta.recorder_cpu_ns = Some(cpu_ns);
        live.meta.complete = live.summary.failure.is_none();
        // What is sent while it is made leaves the files.
        if self.stream.is_none() {
            live.meta.files = live.written().into_iter().collect();
        }
        crate::testhook::point("meta");
        if let Err(error) = self.dir.write_meta(&live.meta) {
            live.summary.failure.get_or_insert(error);
            self.amend.meta = Some(live.meta.clone());
        }
    }

    fn exit_status(&self) -> Option<i32> {
        self.child.as_ref().and_then(Child::status)
    }

    fn cpu_so_far(&self) -> u64 {
        cpu_ns().saturating_sub(self.cpu_at_start)
    }
}

/// What the reader of a recording has to know where waits for the recorder may be a tenth of the time recorded, or more.
fn held_long(of: HeldUp, recorded_ns: u64) -> Option<String> {
    let calls = [of.memory, of.probes];
    let sum_ns = calls.iter().fold(0, |sum: u64, of| sum.saturating_add(of.sum_ns));
    let longest_ns = calls.iter().map(|of| of.longest_ns).max()?;
    let is_long = sum_ns > 0 && sum_ns.saturating_mul(10) >= recorded_ns;
    let ms = |ns| ns as f64 / 1e6;
    is_long.then(|| {
        format!(
            "threads of programs may have waited for the recorder, which read their memory or set their probes: up to {:.1} ms, once up to {:.1} ms; \
             those waits that were are `tracing` in the account",
            ms(sum_ns),
            ms(longest_ns)
        )
    })
}

/// What packing uses besides the directory.
struct PackEnd<'a> {
    options: &'a Options,
    amend: &'a Amend,
    /// The stream that has most of the recording, and the last lengths of the files.
    stream: Option<(Stream, Vec<(String, u64)>)>,
    signals: &'a Signals,
}

impl PackEnd<'_> {
    /// Packs, or sends the end, and puts the result into the summary.
    fn pack(self, dir: Directory, summary: &mut Summary, notify: Notify<'_>) {
        if !self.options.pack {
            return leave(&dir, summary);
        }
        let output = &self.options.output;
        let stop = || self.signals.is_ending();
        let packed = match self.stream {
            Some((stream, written)) => stream.finish(written, &stop).and_then(|sent| {
                pack::complete(dir.held(), output, self.amend, sent, &stop, notify)
            }),
            None => pack::pack_amended(&[dir.held()], output, self.amend, &stop, notify),
        };
        match packed {
            Ok(packed) => {
                packed.add_to(summary);
                if let Some(foreign) = dir.discard() {
                    notify(Notice::Warning(foreign.to_string()));
                }
                summary.files.push(output.clone());
            }
            Err(error) => {
                leave(&dir, summary);
                // The summary tells one failure. Where that is the full disk, or the cut stream, this one has the remedy.
                if summary.failure.is_some() && matches!(error, Error::Pack { .. }) {
                    notify(Notice::Warning(error.to_string()));
                }
                summary.failure.get_or_insert(error);
            }
        }
    }
}

/// Leaves the directory as the recording.
fn leave(dir: &Directory, summary: &mut Summary) {
    summary.dir = Some(dir.path().to_owned());
    summary.bytes = summary.raw_bytes;
    summary.losses.add(&pack::losses(dir.held()));
    if summary.left.is_some() {
        // A part is in the files and the rest in the rings: `kasuri recover` counts the losses of both together.
        summary.losses.unknown = vec!["`kasuri recover` will count it".to_owned()];
    }
}

/// Waits for the end of a program that runs longer than the recording, to pass on signals and return its exit status.
fn wait_for(child: &mut Child, signals: &Signals) -> i32 {
    loop {
        if let Some(status) = child.poll_status() {
            return status;
        }
        for arrived in signals.wait(&[], Duration::from_secs(1)).0 {
            if ENDING.contains(&arrived.signal) && !arrived.from_terminal {
                child.signal(arrived.signal);
            }
        }
    }
}
