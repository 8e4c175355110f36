//! One recording from its start to its end.
//!
//! One thread does everything, in ticks of at most 20 ms: it moves full kernel pages and full chunks to files,
//! and about once a second looks at clocks, loss counts, threads. The order of the steps at both ends is
//! what makes the recording whole:
//! start: directory, kernel source (still off), ring session, anchor, /proc, kernel on, program released;
//! end: kernel off, programs told to stop, anchor, last pages, last chunks, loss counts, meta complete.
use crate::clock::{self, StampClock};
use crate::error::{Error, Result};
use crate::files::directory::{self, Directory};
use crate::files::pack::Amend;
use crate::kernel::source::{self, Source};
use crate::losses::Losses;
use crate::options::{Options, Target};
use crate::program::attach::Attachment;
use crate::program::child::{Child, OpenFiles};
use crate::program::limits::Limits;
use crate::program::procs::Snapshots;
use crate::program::signals::{ENDING, Signals};
use crate::rings::collector::{self, Collector};
use crate::rings::session::{self, Session, SessionOptions, policy_name};
use kasuri_format::meta::{AnnotationsMeta, META_VERSION, Meta};
use kasuri_format::ring::{Policy, SessionState};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Bytes of a chunk: 2,040 events of 16 bytes, so a hand-over costs a hundredth of a nanosecond per event.
const CHUNK_BYTES: u32 = 32 * 1024;
/// Chunks in a client's first segment: a thread each for a small program, half a MiB.
const FIRST_CHUNKS: u32 = 16;
/// Flight recorder: chunks per thread, 2 MiB or 130,000 short events.
const FLIGHT_CHUNKS: u32 = 64;

/// Longest and shortest wait between two ticks. The buffers would allow twice the longest; ring memory that a
/// program must take until we look again is what it costs.
const TICK_MAX: Duration = Duration::from_millis(20);
const TICK_MIN: Duration = Duration::from_millis(1);
/// How long a program that was told to stop may take to finish the event it is writing.
const STOP_GRACE: Duration = Duration::from_millis(2);

/// What the recorder has to say while it runs.
#[derive(Debug)]
#[non_exhaustive]
pub enum Notice<'a> {
    /// Recording has begun; what it cannot show.
    Started {
        /// As `meta.json` lists it.
        missing: &'a [String],
    },
    /// Something the user should know now.
    Warning(String),
    /// Something good to know.
    Note(String),
    /// The recording ends; what follows is packing.
    Stopped,
    /// Packing: bytes done of bytes in all.
    Packing {
        /// Done.
        done: u64,
        /// In all.
        total: u64,
    },
    /// The flight recorder saved a file.
    Saved(&'a std::path::Path),
}

/// Receives notices.
pub type Notify<'a> = &'a mut dyn FnMut(Notice<'_>);

/// What came of a recording.
#[derive(Debug, Default)]
pub struct Summary {
    /// The program's exit status, as a shell shows it.
    pub exit_status: Option<i32>,
    /// Packed files, in order; more than one from a flight recorder.
    pub files: Vec<PathBuf>,
    /// The recording directory, when it is still there.
    pub dir: Option<PathBuf>,
    /// Kernel events kept (known once packed).
    pub kernel_events: u64,
    /// Annotations kept (known once packed).
    pub annotation_events: u64,
    /// What was lost.
    pub losses: Losses,
    /// What the files do not have because it was damaged.
    pub damage: Vec<String>,
    /// What programs had written and no file took: kept in shared memory for `kasuri recover`.
    pub left: Option<LeftInRings>,
    /// Bytes of the packed files; of the directory when it was not packed.
    pub bytes: u64,
    /// Bytes recorded, before packing.
    pub raw_bytes: u64,
    /// CPU time of this process while recording, ns.
    pub recorder_cpu_ns: u64,
    /// With a budget: what kernel events cost as a share of the CPU time used, and how often some were switched.
    pub budget: Option<(f64, usize)>,
    /// What the recording cannot show.
    pub missing: Vec<String>,
    /// Why the recording is not all it should be; what was kept is readable.
    pub failure: Option<Error>,
}

/// Annotations that could be written nowhere, and wait for room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftInRings {
    /// The session's directory.
    pub session: PathBuf,
    /// How much there is.
    pub bytes: u64,
}

/// Makes a recording. Blocks until it is over and packed.
///
/// Must be called by the only thread of the process: it forks, and it takes the signals that
/// end a process for itself until it returns.
///
/// # Errors
/// When recording could not begin, or the program could not be run; nothing is left behind then. Failures
/// later are in [`Summary::failure`].
pub fn record(options: &Options, notify: Notify<'_>) -> Result<Summary> {
    let signals = Signals::block(options.flight.is_some())?;
    let mut recorder = Recorder::prepare(options)?;
    match recorder.begin(&signals, notify) {
        Ok(()) => {}
        Err(error) => {
            recorder.abandon();
            return Err(error);
        }
    }
    recorder.run(&signals, notify);
    recorder.end(&signals, notify)
}

/// Why the loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    GoOn,
    End,
}

pub(crate) struct Recorder<'a> {
    pub(crate) options: &'a Options,
    pub(crate) dir: Directory,
    pub(crate) session: Session,
    pub(crate) collector: Collector,
    pub(crate) source: Source,
    pub(crate) meta: Meta,
    pub(crate) snapshots: Snapshots,
    limits: Limits,
    pub(crate) flight: Option<crate::flight::FlightState>,
    budget: Option<crate::budget::Budget>,
    pub(crate) summary: Summary,
    removed: Vec<String>,
    refused_said: bool,
    /// The last snapshot is in a directory or a file.
    pub(crate) copied: bool,
    /// Anchors and metadata for which the disk had no room.
    pub(crate) amend: Amend,
    child: Option<Child>,
    attachment: Option<Attachment>,
    pidfd: Option<OwnedFd>,
    open_files: OpenFiles,
    /// What the lock probe adds to the program's environment.
    lock_probe: Vec<(OsString, OsString)>,
    ending_signals: u32,
    child_changed: bool,
    tick: Duration,
    tick_max: Duration,
    cpu_at_start: u64,
    children_at_start: u64,
}

impl<'a> Recorder<'a> {
    fn prepare(options: &'a Options) -> Result<Recorder<'a>> {
        if !crate::program::namespaces::proc_is_ours() {
            return Err(Error::ForeignProc);
        }
        if let Target::Process(pid) = options.target
            && crate::program::procs::start_time(pid).is_none()
        {
            return Err(Error::NoProcess { pid });
        }
        let cpu_at_start = cpu_ns();
        let open_files = OpenFiles::raise();
        let dir = Directory::create(&directory::place_for(&options.output)?)?;
        match Recorder::prepare_in(options, &dir) {
            Ok((session, collector, opened, meta, tick_max)) => Ok(Recorder {
                options,
                dir,
                session,
                collector,
                source: opened.source,
                meta,
                snapshots: Snapshots::default(),
                limits: Limits::new(&crate::host::cpu_list("online")),
                flight: options.flight.map(crate::flight::FlightState::new),
                budget: None,
                summary: Summary::default(),
                removed: opened.removed,
                refused_said: false,
                copied: false,
                amend: Amend::default(),
                child: None,
                attachment: None,
                pidfd: None,
                open_files,
                lock_probe: Vec::new(),
                ending_signals: 0,
                child_changed: false,
                tick: TICK_MIN,
                tick_max,
                cpu_at_start,
                children_at_start: children_cpu_ns(),
            }),
            Err(error) => {
                dir.discard();
                Err(error)
            }
        }
    }

    fn prepare_in(
        options: &Options,
        dir: &Directory,
    ) -> Result<(Session, Collector, source::Opened, Meta, Duration)> {
        let opened = source::open(options, dir.held())?;
        let stamps = StampClock::choose();
        let policy = match (options.flight.is_some(), options.discard) {
            (true, _) => Policy::Overwrite,
            (false, true) => Policy::Discard,
            (false, false) => Policy::Grow,
        };
        let session_options = SessionOptions {
            policy,
            clock: stamps,
            chunk_bytes: CHUNK_BYTES,
            max_bytes: options.ring_bytes(),
            first_chunks: FIRST_CHUNKS,
            flight_chunks: FLIGHT_CHUNKS,
            shm_dir: options.shm_dir.clone(),
            owner: foreign_owner(&options.target),
        };
        let session = Session::create(&session_options, dir.path())?;
        session.tie(dir.held())?;
        let collector = Collector::new(session.dir(), dir.held());
        let meta = Meta {
            version: META_VERSION,
            recorder: concat!("kasuri ", env!("CARGO_PKG_VERSION")).to_owned(),
            mode: options.mode().to_owned(),
            command: command_line(options),
            host: crate::host::host(),
            kernel: opened.source.meta(),
            annotations: AnnotationsMeta {
                clock: stamps.name().to_owned(),
                policy: policy_name(policy).to_owned(),
                chunk_bytes: CHUNK_BYTES,
            },
            missing: opened.missing.clone(),
            lock_functions: opened.lock_functions.clone(),
            keep_ns: options.flight.map(|flight| flight.keep.as_nanos() as u64),
            event_costs: options.costs.warm.clone(),
            event_costs_apart: options.costs.apart.clone(),
            ..Meta::default()
        };
        let tick_max = opened.source.patience().clamp(TICK_MIN, TICK_MAX);
        Ok((session, collector, opened, meta, tick_max))
    }

    /// Up to and including the moment at which the program runs.
    fn begin(&mut self, signals: &Signals, notify: Notify<'_>) -> Result<()> {
        for name in std::mem::take(&mut self.removed) {
            notify(Notice::Note(format!(
                "removed tracing instance {name} of a recorder that was killed"
            )));
        }
        if let (Target::System(_), Source::None) = (&self.options.target, &self.source) {
            return Err(Error::Nothing {
                why: self.meta.missing.join("; "),
            });
        }
        self.prepare_lock_probe()?;
        let procs = self.snapshots.everything();
        self.meta.start = clock::anchor();
        // Now already: from here on a crash leaves something that `kasuri recover` understands.
        self.dir.write_meta(&self.meta)?;
        self.dir.add_anchors(&[self.meta.start])?;
        self.dir.add_procs(&procs)?;
        self.dir.reserve();
        if let Some(flight) = &mut self.flight {
            flight.add_anchor(self.meta.start);
        }
        let losses = self.source.losses(true);
        self.dir.add_losses(&losses)?;
        // tracefs sees the fork then, and knows the program's threads from their first instant. perf events need
        // the child to be opened on.
        let early = matches!(self.source, Source::Tracefs(_));
        if early {
            self.start_kernel()?;
        }
        self.fork(signals)?;
        if !early {
            self.start_kernel()?;
        }
        if let Some(budget) = self.options.budget {
            self.budget = crate::budget::Budget::new(
                budget,
                self.options,
                &self.meta.kernel,
                &self.meta.root_pids,
            );
        }
        let limits = self.limits.look(&self.meta.root_pids, false);
        self.dir.add_limits(&limits)?;
        self.dir.write_meta(&self.meta)?;
        notify(Notice::Started {
            missing: &self.meta.missing,
        });
        self.release(notify)
    }

    /// Finds the probe's library. What it cannot see is named as missing.
    fn prepare_lock_probe(&mut self) -> Result<()> {
        let Some(probe) = self.options.locks else {
            return Ok(());
        };
        self.meta.lock_probe = probe.name().to_owned();
        let missing = &mut self.meta.missing;
        let before = missing.len();
        self.lock_probe =
            crate::program::locks::environment(probe, self.options.command(), missing)?;
        // Its own locks are seen otherwise.
        if !self.meta.lock_functions.is_empty() {
            missing.truncate(before);
        }
        Ok(())
    }

    /// Makes the process that will become the program, or opens the one to attach to.
    fn fork(&mut self, signals: &Signals) -> Result<()> {
        if !self.options.command().is_empty() {
            let child = Child::fork(
                self.options.command(),
                Some(self.session.path()),
                &self.lock_probe,
                signals.mask_before(),
                &self.open_files,
            )?;
            // The program's affinity, not ours: the recorder must not take its CPU.
            crate::program::child::pin_process(child.pid(), &self.options.cpus)?;
            self.meta.root_pids = vec![child.pid()];
            self.child = Some(child);
        }
        if let Target::Process(pid) = self.options.target {
            self.meta.root_pids = vec![pid];
            self.pidfd =
                Pid::from_raw(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        }
        Ok(())
    }

    /// A perf source that turns out to be refused for this target is named as missing, no more.
    fn start_kernel(&mut self) -> Result<()> {
        let tids: Vec<i32> = match self.options.target {
            Target::Process(pid) => crate::program::procs::threads(pid).into_iter().collect(),
            _ => self.meta.root_pids.clone(),
        };
        let started = self.source.start(&tids, self.dir.held());
        match (&self.source, started) {
            (Source::Perf { .. }, Err(error)) => {
                self.meta.missing.push(format!(
                    "no context switches: {error}; `sudo kasuri record ...`"
                ));
                self.source = Source::None;
                self.meta.kernel = self.source.meta();
                Ok(())
            }
            (_, result) => result,
        }
    }

    fn release(&mut self, notify: Notify<'_>) -> Result<()> {
        if let Some(child) = &mut self.child {
            child.release()?;
        }
        if let Target::Process(pid) = self.options.target {
            match Attachment::attach(pid, self.session.path()) {
                Ok(attachment) if attachment.is_empty() => {
                    notify(Notice::Note(format!(
                        "process {pid} has no annotations: only kernel events are recorded"
                    )));
                }
                Ok(attachment) => self.attachment = Some(attachment),
                Err(error) => notify(Notice::Warning(format!(
                    "annotations of process {pid} cannot be switched on: {error}"
                ))),
            }
        }
        Ok(())
    }

    /// Nothing was recorded: leaves nothing behind.
    fn abandon(self) {
        drop(self.child);
        drop(self.source);
        drop(self.session);
        self.dir.discard();
    }

    fn run(&mut self, signals: &Signals, notify: Notify<'_>) {
        let started = Instant::now();
        let mut next_second = started + Duration::from_secs(1);
        loop {
            let wait = self.options.duration.map_or(self.tick, |d| {
                self.tick.min(d.saturating_sub(started.elapsed()))
            });
            let (arrived, target_ended) =
                signals.wait(self.pidfd.as_ref().map(|fd| fd.as_fd()), wait);
            let mut step = Step::GoOn;
            for signal in arrived {
                if self.on_signal(signal, notify) == Step::End {
                    step = Step::End;
                }
            }
            crate::testhook::point("tick");
            self.on_tick(notify);
            let now = Instant::now();
            let look = now >= next_second;
            if look {
                next_second = now + Duration::from_secs(1);
                self.on_second(notify);
            }
            let timed_out = self.options.duration.is_some_and(|d| now - started >= d);
            if step == Step::End || target_ended || timed_out || self.is_over(look) {
                return;
            }
        }
    }

    /// Whether the program has ended: asked when SIGCHLD came, and now and then in case it did not.
    fn is_over(&mut self, look: bool) -> bool {
        let look = std::mem::take(&mut self.child_changed) || look;
        match (&mut self.child, &self.options.target) {
            (Some(child), _) => look && child.poll_status().is_some(),
            (None, Target::Process(pid)) => {
                look && crate::program::procs::start_time(*pid).is_none()
            }
            (None, _) => false,
        }
    }

    /// The program's signals are passed on: it decides whether to end. The second request ends the recording. Signals within a
    /// second are one request; without a program the first ends the recording.
    fn on_signal(&mut self, signal: crate::program::signals::Arrived, notify: Notify<'_>) -> Step {
        if signal.signal == libc::SIGUSR2 {
            self.trigger(notify);
            return Step::GoOn;
        }
        if !ENDING.contains(&signal.signal) {
            self.child_changed = true;
            return Step::GoOn;
        }
        let Some(child) = &self.child else {
            return Step::End;
        };
        if !signal.from_terminal {
            child.signal(signal.signal);
        }
        if signal.is_repeated {
            return Step::GoOn;
        }
        self.ending_signals += 1;
        if self.ending_signals > 1 {
            notify(Notice::Note(
                "recording stopped; the program goes on".to_owned(),
            ));
            return Step::End;
        }
        Step::GoOn
    }

    fn on_tick(&mut self, notify: Notify<'_>) {
        if self.flight.is_some() {
            self.flight_tick(notify);
            return;
        }
        if self.summary.failure.is_some() {
            return;
        }
        let moved = match self.source.drain() {
            Ok(moved) => moved,
            Err(error) => return self.stop_writing(error, notify),
        };
        if let Some(budget) = &mut self.budget
            && let Err(error) = budget.tick(&mut self.source)
        {
            return self.stop_writing(error, notify);
        }
        let collected = match self.collector.tick(Some(&self.session)) {
            Ok(collected) => collected,
            Err(error) => return self.stop_writing(error, notify),
        };
        let limits = self.limits.look(&self.meta.root_pids, false);
        if let Err(error) = self.dir.add_limits(&limits) {
            return self.stop_writing(error, notify);
        }
        let names = self.collector.take_names();
        if let Err(error) = self.dir.add_procs(&names) {
            return self.stop_writing(error, notify);
        }
        // Buffers hold at least ten ticks of what came now, or we look more often.
        let freed = collected.freed * u64::from(CHUNK_BYTES);
        let busy = moved.fill > 0.1 || freed > 4 << 20;
        let calm = moved.fill < 0.02 && freed < 1 << 20;
        if busy {
            self.tick = (self.tick / 2).max(TICK_MIN);
        } else if calm {
            self.tick = (self.tick * 2).min(self.tick_max);
        }
    }

    fn on_second(&mut self, notify: Notify<'_>) {
        if self.summary.failure.is_some() && self.flight.is_none() {
            return;
        }
        if self.session.refused() > 0 {
            // Those who found no room try again when something was freed: somebody else may have made room.
            self.session.add_freed();
            self.say_refused(notify);
        }
        if let Err(error) = self.second() {
            self.stop_writing(error, notify);
        }
    }

    /// Programs that found no room for their annotations, and what helps.
    fn refusal(&self) -> String {
        let place = self.session.path().parent().unwrap_or(self.session.path());
        format!(
            "{} annotated programs found no room for their annotations in {}, so that some or all of those are missing; each needs 40 kB at least and up to --ring-mb: `mount -o remount,size=1G {}`, `docker run --shm-size=1g`, or another place in KASURI_SHM_DIR",
            self.session.refused(),
            place.display(),
            place.display()
        )
    }

    fn say_refused(&mut self, notify: Notify<'_>) {
        if !std::mem::replace(&mut self.refused_said, true) {
            notify(Notice::Warning(self.refusal()));
        }
    }

    fn name_refused(&mut self, notify: Notify<'_>) {
        if self.session.refused() > 0 {
            self.say_refused(notify);
            self.meta.missing.push(self.refusal());
        }
    }

    fn second(&mut self) -> Result<()> {
        let anchor = clock::anchor();
        if let Some(flight) = &mut self.flight {
            // Nothing goes to the directory: a flight recorder may run for months.
            flight.add_anchor(anchor);
            self.flight_second();
            return Ok(());
        }
        self.dir.add_anchors(&[anchor])?;
        if let Some(budget) = &self.budget
            && budget.changes.len() != self.meta.budget.len()
        {
            // Pauses of the last second are all that a kill can lose.
            self.meta.budget = budget.changes.clone();
            self.dir.write_meta(&self.meta)?;
        }
        let losses = self.source.losses(false);
        self.dir.add_losses(&losses)?;
        self.source.drain_waiting()?;
        let pids: Vec<i32> = self
            .meta
            .root_pids
            .iter()
            .copied()
            .chain(self.collector.pids().map(|p| p as i32))
            .collect();
        let news = self.snapshots.news(pids);
        self.dir.add_procs(&news)?;
        self.collector.reap(Some(&self.session)).map(|_| ())
    }

    /// The disk is full, or broken: programs and kernel stop writing, what is written stays, the program goes on.
    pub(crate) fn stop_writing(&mut self, error: Error, notify: Notify<'_>) {
        self.source.stop();
        self.session.set_state(SessionState::Stopped);
        let kept = self.source.bytes() + self.collector.bytes();
        notify(Notice::Warning(format!(
            "{error}; recording stopped, the first {:.1} MB are kept, the program goes on",
            kept as f64 / 1e6
        )));
        self.summary.failure = Some(error);
    }

    fn end(mut self, signals: &Signals, notify: Notify<'_>) -> Result<Summary> {
        self.source.stop();
        self.name_refused(notify);
        if self.flight.is_some() {
            return self.flight_end(signals, notify);
        }
        self.session.set_state(SessionState::Stopped);
        drop(self.attachment.take());
        if self
            .child
            .as_ref()
            .is_none_or(|child| child.status().is_none())
        {
            std::thread::sleep(STOP_GRACE);
        }
        crate::testhook::point("end");
        self.meta.end = Some(clock::anchor());
        self.meta.exit_status = self.exit_status();
        if self.meta.exit_status.is_some() {
            let used = children_cpu_ns().saturating_sub(self.children_at_start);
            self.meta.program_cpu_ns = Some(used);
        }
        if let Some(budget) = &self.budget {
            self.meta.budget = budget.changes.clone();
            self.summary.budget = Some(budget.result());
        }
        if let Err(error) = self.write_rest() {
            let text = error.to_string();
            let first = self.summary.failure.get_or_insert(error);
            if first.to_string() != text {
                notify(Notice::Warning(text));
            }
        }
        for line in self.collector.refused() {
            notify(Notice::Warning(line.clone()));
            self.summary.losses.unknown.push(line.clone());
            self.meta.missing.push(line);
        }
        self.summary.raw_bytes = self.source.bytes() + self.collector.bytes();
        self.close(signals, notify)
    }

    /// Tidies up the kernel and shared memory, then packs.
    pub(crate) fn close(mut self, signals: &Signals, notify: Notify<'_>) -> Result<Summary> {
        drop(self.attachment.take());
        let session = self.session;
        drop(self.source);
        let mut summary = self.summary;
        self.dir.use_reserve();
        summary.recorder_cpu_ns = cpu_ns().saturating_sub(self.cpu_at_start);
        self.meta.recorder_cpu_ns = Some(summary.recorder_cpu_ns);
        self.meta.complete = summary.failure.is_none();
        crate::testhook::point("meta");
        if let Err(error) = self.dir.write_meta(&self.meta) {
            summary.failure.get_or_insert(error);
            self.amend.meta = Some(self.meta.clone());
        }
        let is_left = summary.left.is_some();
        if is_left {
            session.keep();
        } else {
            let _ = self.dir.held().remove(session::SESSION);
            drop(session);
        }
        summary.exit_status = self.meta.exit_status;
        summary.missing = self.meta.missing;
        notify(Notice::Stopped);
        match self.flight {
            Some(_) if !is_left => self.dir.discard(),
            // Packed without what is left, it would never come to the rest of it.
            _ if is_left => leave(&self.dir, &mut summary),
            _ => finish_pack(
                self.options,
                self.dir,
                &self.amend,
                &mut summary,
                signals,
                notify,
            ),
        }
        if let Some(child) = self
            .child
            .as_mut()
            .filter(|_| self.options.duration.is_some())
        {
            summary.exit_status = Some(wait_for(child, signals));
        }
        Ok(summary)
    }

    pub(crate) fn exit_status(&self) -> Option<i32> {
        self.child.as_ref().and_then(Child::status)
    }

    pub(crate) fn cpu_so_far(&self) -> u64 {
        cpu_ns().saturating_sub(self.cpu_at_start)
    }

    /// Each part is tried whatever became of the others. What the rings still hold then stays there; kernel events for which there is no
    /// room are counted, and the rest is little: room was kept for it.
    fn write_rest(&mut self) -> Result<()> {
        let kernel = self.source.finish();
        if kernel.is_err() {
            self.source.count_unwritten();
        }
        let rings = self.collector.finish();
        self.dir.use_reserve();
        let unplaced = collector::write_unplaced(self.dir.held(), self.session.lost());
        if rings.is_err() || unplaced.is_err() {
            self.summary.left = Some(LeftInRings {
                session: self.session.path().to_owned(),
                bytes: self.collector.waiting(),
            });
        }
        let losses = self.source.losses(true);
        let losses = self.dir.add_losses(&losses);
        let anchors = self.dir.add_anchors(self.meta.end.as_slice());
        if anchors.is_err() {
            self.amend.anchors.extend(self.meta.end);
        }
        let pids: Vec<i32> = self
            .meta
            .root_pids
            .iter()
            .copied()
            .chain(self.collector.pids().map(|p| p as i32))
            .collect();
        let mut news = self.snapshots.news(pids);
        news.extend(self.collector.take_names());
        let limits = self.limits.look(&self.meta.root_pids, true);
        let limits = self.dir.add_limits(&limits);
        let procs = self.dir.add_procs(&news).and(limits);
        kernel
            .and(rings)
            .and(unplaced)
            .and(losses)
            .and(anchors)
            .and(procs)
    }
}

/// Packs, and says in the summary what came of it.
fn finish_pack(
    options: &Options,
    dir: Directory,
    amend: &Amend,
    summary: &mut Summary,
    signals: &Signals,
    notify: Notify<'_>,
) {
    if !options.pack {
        return leave(&dir, summary);
    }
    match crate::files::pack::pack_amended(
        &[dir.held()],
        &options.output,
        amend,
        &|| signals.is_ending(),
        notify,
    ) {
        Ok(packed) => {
            packed.add_to(summary);
            dir.discard();
            summary.files.push(options.output.clone());
        }
        Err(error) => {
            leave(&dir, summary);
            // That the disk was full is no news; what to do now is.
            notify(Notice::Warning(error.to_string()));
            summary.failure.get_or_insert(error);
        }
    }
}

/// The directory is the recording.
fn leave(dir: &Directory, summary: &mut Summary) {
    summary.dir = Some(dir.path().to_owned());
    summary.bytes = summary.raw_bytes;
    summary.losses.add(&crate::files::pack::losses(dir.held()));
    if summary.left.is_some() {
        // Half a file here, its whole there: all of it is counted then.
        summary.losses.unknown = vec!["`kasuri recover` will count it".to_owned()];
    }
}

/// The recording is over and the program goes on: only its signals and its exit status are still our business.
fn wait_for(child: &mut Child, signals: &Signals) -> i32 {
    loop {
        if let Some(status) = child.poll_status() {
            return status;
        }
        for arrived in signals.wait(None, Duration::from_secs(1)).0 {
            if ENDING.contains(&arrived.signal) && !arrived.from_terminal {
                child.signal(arrived.signal);
            }
        }
    }
}

/// User and group of the programs, when they are not ours.
fn foreign_owner(target: &Target) -> Option<(u32, u32)> {
    let Target::Process(pid) = target else {
        return None;
    };
    crate::program::procs::owner(*pid)
        .filter(|&(uid, _)| uid != rustix::process::geteuid().as_raw())
}

/// CPU time of all children that ended, and of theirs, ns.
pub fn children_cpu_ns() -> u64 {
    // SAFETY: the kernel fills a struct of plain numbers, which may be all 0 before.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage);
        usage
    };
    let ns = |t: libc::timeval| t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1000;
    ns(usage.ru_utime) + ns(usage.ru_stime)
}

/// CPU time of this process, ns.
fn cpu_ns() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// What to call the recording: the program's command line, in `-p` mode that of the running process.
fn command_line(options: &Options) -> Vec<String> {
    if let Target::Process(pid) = options.target {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        return line
            .split(|&byte| byte == 0)
            .filter(|word| !word.is_empty())
            .map(|word| String::from_utf8_lossy(word).into_owned())
            .collect();
    }
    let words = options.command().iter();
    words.map(|s| s.to_string_lossy().into_owned()).collect()
}
