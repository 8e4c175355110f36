//! The start of a recording: all steps up to the moment at which the program runs.
//!
//! `prepare` opens the directory, the kernel source and the session. `begin` makes the program's process, switches
//! the kernel on (before that with tracefs, after it with perf) and releases the program last, so that no event of it
//! is missed. When a step fails, `abandon` removes everything.
use super::{CHUNK_BYTES, Recorder, TICK_MAX, TICK_MIN, children_cpu_ns, cpu_ns};
use crate::budget::Budget;
use crate::clock::{self, StampClock};
use crate::error::{Error, Result};
use crate::files::directory::{self, Directory};
use crate::files::output;
use crate::files::pack::Amend;
use crate::files::remote::Remote;
use crate::files::stream::{Origin, Stream};
use crate::flight::FlightRecorder;
use crate::guard::{apart, held};
use crate::kernel::source::{self, Opened, Source};
use crate::kernel::usdt::{Price, Watch};
use crate::live::Live;
use crate::losses::Losses;
use crate::notice::{Notice, Notify, Summary};
use crate::options::{Options, Stacks, Target};
use crate::program::child::{Child, OpenFiles, keep_cpu_when_waking, pin_process};
use crate::program::limits::Limits;
use crate::program::procs::{self, Snapshots};
use crate::program::signals::Signals;
use crate::program::{collector, ends, locks, namespaces, openmp};
use crate::rings::attach::{self, Attachment};
use crate::rings::collector::Collector;
use crate::rings::session::{Session, SessionOptions, policy_name};
use crate::stacks::{Plan, Sampler};
use kasuri_format::meta::{AnnotationsMeta, META_VERSION, Meta, UsdtProbe};
use kasuri_format::ring::Policy;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Chunks in a client's first segment, half a MiB: one for each thread of a small program.
const FIRST_CHUNKS: u32 = 16;
/// Flight recorder: chunks per thread, 2 MiB or 130,000 short events.
const FLIGHT_CHUNKS: u32 = 64;

impl<'a> Recorder<'a> {
    /// Opens the sources and files of a recording; the kernel does not write yet.
    pub(super) fn prepare(options: &'a Options) -> Result<Recorder<'a>> {
        if !namespaces::proc_is_ours() {
            return Err(Error::ForeignProc);
        }
        may_record(&options.target)?;
        let remote = connect(options)?;
        let cpu_at_start = cpu_ns();
        let open_files = OpenFiles::raise();
        let dir = Directory::create(&place(options)?)?;
        held::begin();
        let opened = source::open(options, dir.held()).and_then(|mut opened| {
            let removed = std::mem::take(&mut opened.removed);
            Ok((open_live(options, &dir, opened)?, removed))
        });
        let (live, removed) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                dir.discard();
                return Err(error);
            }
        };
        let tick_max = live.source.patience().clamp(TICK_MIN, TICK_MAX);
        Ok(Recorder {
            options,
            dir,
            live,
            threads: Snapshots::default(),
            at_end: Vec::new(),
            flight: options.flight.map(|flight| FlightRecorder::new(flight, &options.on_slices)),
            budget: None,
            usdt: None,
            removed,
            refused_said: false,
            is_annotated: false,
            amend: Amend { memory: options.memory, ..Amend::default() },
            stream: None,
            remote,
            stream_told: Instant::now(),
            child: None,
            attachment: None,
            pidfd: None,
            open_files,
            probes: Vec::new(),
            ending_signals: 0,
            child_changed: false,
            // A flight recorder drains nothing: it only looks for triggers.
            tick: match options.flight {
                Some(_) => tick_max,
                None => TICK_MIN,
            },
            tick_max,
            room_looked_at: 0,
            cpu_at_start,
            children_at_start: children_cpu_ns(),
        })
    }

    /// Makes the steps up to and including the moment at which the program runs.
    pub(super) fn begin(&mut self, signals: &Signals, notify: Notify<'_>) -> Result<()> {
        for name in std::mem::take(&mut self.removed) {
            notify(Notice::Note(format!(
                "removed tracing instance {name}, left by a killed recorder"
            )));
        }
        if let (Target::System(_), Source::None) = (&self.options.target, &self.live.source) {
            return Err(Error::Nothing { why: self.live.meta.missing.join("; ") });
        }
        self.prepare_probes()?;
        let plan = self.plan_stacks();
        // The program must not wait for this, nor may the recording show that it did. Events of single threads need the threads.
        let (early_plan, late_plan) = match plan {
            Some(plan) if plan.sees_all() => (Some(plan), None),
            plan => (None, plan),
        };
        self.open_stacks(early_plan);
        self.write_beginning()?;
        // With tracefs the kernel is on before the fork, and the recording knows the program's threads from their
        // first instant. perf events need the child, on which they are opened.
        let early = matches!(self.live.source, Source::Tracefs(_));
        if early {
            self.start_kernel()?;
        }
        self.fork(signals)?;
        self.open_stacks(late_plan);
        if !early {
            self.start_kernel()?;
        }
        if let Some(stacks) = &mut self.live.stacks {
            stacks.begin(&self.live.meta.root_pids, self.child.is_none());
        }
        // A thread that waits from now on raises no event that tells so.
        if let Target::Process(pid) = self.options.target {
            self.dir.add_procs(&ends::states(&[pid]))?;
        }
        if let Some(budget) = self.options.budget {
            let meta = &self.live.meta;
            self.budget = Budget::new(budget, self.options, meta);
        }
        self.usdt = Watch::new(&self.live.meta.usdt, self.options.usdt_limit);
        let limits = self.live.read_limits(false);
        self.dir.add_limits(&limits)?;
        if let Some(flight) = &mut self.flight {
            flight.add_limits(limits, clock::monotonic_ns(), |_| true);
        }
        self.dir.write_meta(&self.live.meta)?;
        notify(Notice::Started { missing: &self.live.meta.missing });
        self.begin_stream()?;
        self.release(notify)
    }

    /// Begins to send the recording where it goes on at once.
    fn begin_stream(&mut self) -> Result<()> {
        let options = self.options;
        if !is_stream(options) {
            return Ok(());
        }
        self.stream = Some(Stream::begin(Origin {
            output: &options.output,
            remote: self.remote.take(),
            dir: self.dir.held(),
            session: self.live.session.dir(),
            meta: &self.live.meta,
            // A budget reads what was recorded.
            frees: self.budget.is_none(),
            most_waiting: options.most_waiting(),
        })?);
        Ok(())
    }

    /// Removes everything: no event was recorded.
    pub(super) fn abandon(self) {
        drop(self.child);
        drop(self.live);
        self.dir.discard();
    }

    /// The variables with which the program loads what annotates it.
    fn prepare_probes(&mut self) -> Result<()> {
        self.prepare_lock_probe()?;
        let (command, missing) = (self.options.command(), &mut self.live.meta.missing);
        if self.options.openmp {
            openmp::environment(command, &mut self.probes, missing)?;
        }
        for &with in &self.options.annotated {
            collector::environment(with, command, &mut self.probes, missing)?;
        }
        Ok(())
    }

    /// Finds the probe's library. The locks that it cannot see are named as missing.
    fn prepare_lock_probe(&mut self) -> Result<()> {
        let Some(probe) = self.options.locks else {
            return Ok(());
        };
        self.live.meta.lock_probe = probe.name().to_owned();
        let missing = &mut self.live.meta.missing;
        let before = missing.len();
        self.probes = locks::environment(probe, self.options.command(), missing)?;
        // The locks of these functions are recorded by uprobes.
        if !self.live.meta.lock_functions.is_empty() {
            missing.truncate(before);
        }
        Ok(())
    }

    /// Writes the beginning of the recording. From here on `kasuri recover` can read the remains of a crash.
    fn write_beginning(&mut self) -> Result<()> {
        let procs = self.threads.everything();
        self.live.meta.start = clock::anchor();
        self.dir.write_meta(&self.live.meta)?;
        self.dir.add_anchors(&[self.live.meta.start])?;
        self.dir.add_procs(&procs)?;
        self.dir.reserve();
        if let Some(flight) = &mut self.flight {
            flight.add_anchor(self.live.meta.start);
        }
        let losses = self.live.source.losses(true);
        self.dir.add_losses(&losses)
    }

    /// Makes the process that will become the program, or opens the one to attach to.
    fn fork(&mut self, signals: &Signals) -> Result<()> {
        if let Some(program) = self.options.command().first() {
            self.is_annotated = attach::is_annotated(program);
            let child = Child::fork(
                self.options.command(),
                Some(self.live.session.path()),
                &self.probes,
                signals.mask_before(),
                &self.open_files,
                output::is_standard(&self.options.output),
            )?;
            // Sets the program's affinity, not ours: the recorder must not take its CPU.
            pin_process(child.pid(), &self.options.cpus)?;
            if self.options.batch {
                keep_cpu_when_waking(child.pid());
            }
            self.live.meta.root_pids = vec![child.pid()];
            self.child = Some(child);
        }
        if let Target::Process(pid) = self.options.target {
            self.live.meta.root_pids = vec![pid];
            self.pidfd =
                Pid::from_raw(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        }
        Ok(())
    }

    /// Switches the kernel on. A perf source that is refused for this target is only named as missing.
    fn start_kernel(&mut self) -> Result<()> {
        let live = &mut self.live;
        let tids: Vec<i32> = match self.options.target {
            Target::Process(pid) => procs::threads(pid).into_iter().collect(),
            _ => live.meta.root_pids.clone(),
        };
        let started = live.source.start(&tids, self.dir.held());
        match (&live.source, started) {
            (Source::Perf { .. }, Err(error)) => {
                live.meta
                    .missing
                    .push(format!("no context switches: {error}; `sudo kasuri record ...`"));
                live.source = Source::None;
                live.meta.kernel = live.source.meta();
                Ok(())
            }
            (_, result) => result,
        }
    }

    /// Chooses what samples of call paths are taken with. A recording without them is complete in all else.
    fn plan_stacks(&mut self) -> Option<Plan> {
        if self.options.stacks == Stacks::Off {
            return None;
        }
        let plan = Plan::choose(self.options);
        plan.map_err(|why| self.live.meta.missing.push(why)).ok()
    }

    /// Opens the events that take samples of call paths.
    fn open_stacks(&mut self, plan: Option<Plan>) {
        let Some(plan) = plan else {
            return;
        };
        let live = &mut self.live;
        let pids = &live.meta.root_pids;
        let tids: Vec<i32> = pids.iter().flat_map(|&pid| procs::threads(pid)).collect();
        match Sampler::open(plan, &tids, self.options.flight.is_some(), live.collector.readers()) {
            Ok(sampler) => live.stacks = Some(sampler),
            Err(why) => live.meta.missing.push(why),
        }
    }

    /// Lets the program run, or switches on the annotations of the running process.
    fn release(&mut self, notify: Notify<'_>) -> Result<()> {
        if let Some(child) = &mut self.child {
            child.release()?;
        }
        if let Target::Process(pid) = self.options.target {
            match Attachment::attach(pid, self.live.session.path()) {
                Ok(attachment) if attachment.is_empty() => {
                    notify(Notice::Note(format!(
                        "process {pid} has no annotations: only kernel events are recorded"
                    )));
                }
                Ok(attachment) => self.attachment = Some(attachment),
                Err(error) => {
                    let missing = &mut self.live.meta.missing;
                    missing.push(format!("annotations of process {pid}: {error}"));
                    notify(Notice::Warning(format!(
                        "cannot enable the annotations of process {pid}: {error}"
                    )));
                }
            }
        }
        Ok(())
    }
}

/// Whether the recording is sent while it is made.
fn is_stream(options: &Options) -> bool {
    let goes_on = options.to.is_some() || output::is_pipe(&options.output);
    options.flight.is_none() && options.pack && goes_on
}

/// Connects to the machine that the recording goes to.
fn connect(options: &Options) -> Result<Option<Remote>> {
    let Some(to) = &options.to else {
        return Ok(None);
    };
    let connected = Remote::connect(&to.address, &to.key);
    connected.map(Some).map_err(|cause| Error::NoReceiver { address: to.address.clone(), cause })
}

fn place(options: &Options) -> Result<PathBuf> {
    match is_stream(options) {
        true => Ok(directory::place_for_stream(&options.shm_dir)),
        false => directory::place_for(&options.output),
    }
}

/// Makes the ring session for the kernel source that was opened.
fn open_live<'a>(options: &'a Options, dir: &Directory, mut opened: Opened) -> Result<Live<'a>> {
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
        command: command_line(options, &mut opened.missing),
        host: crate::host::host(),
        kernel: opened.source.meta(),
        annotations: AnnotationsMeta {
            clock: stamps.name().to_owned(),
            policy: policy_name(policy).to_owned(),
            chunk_bytes: CHUNK_BYTES,
            hindrances: Vec::new(),
        },
        missing: opened.missing,
        lock_functions: opened.lock_functions,
        event_costs: event_costs(options, &opened.usdt, opened.usdt_price),
        usdt: opened.usdt,
        recorder_pid: namespaces::is_initial().then(|| std::process::id() as i32),
        keep_ns: options.flight.map(|flight| flight.keep.as_nanos() as u64),
        event_costs_apart: options.costs.apart.clone(),
        parallel_costs: options
            .costs
            .parallel
            .iter()
            .flat_map(|costs| costs.named())
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
        ..Meta::default()
    };
    Ok(Live {
        options,
        session,
        collector,
        source: opened.source,
        stacks: None,
        stack_bytes: 0,
        limits: Limits::new(&crate::host::cpu_list("online")),
        meta,
        summary: Summary {
            losses: Losses { rings_were_small: options.rings_are_small(), ..Losses::default() },
            ..Summary::default()
        },
    })
}

/// What each kind of event costs: as the lab measured it, and a hit of a probe as measured a moment ago.
fn event_costs(
    options: &Options,
    probes: &[UsdtProbe],
    price: Option<Price>,
) -> BTreeMap<String, [f64; 3]> {
    let mut costs = options.costs.warm.clone();
    let price = |probe: &UsdtProbe| Some((probe.event.clone(), price?.of(probe)));
    costs.extend(probes.iter().filter_map(price));
    costs
}

/// Whether the process to attach to is there, and this user may give it its part of a session.
///
/// # Errors
/// [`Error::NoProcess`], [`Error::NotYours`].
pub fn may_record(target: &Target) -> Result<()> {
    let Target::Process(pid) = *target else {
        return Ok(());
    };
    if procs::start_time(pid).is_none() {
        return Err(Error::NoProcess { pid });
    }
    let capabilities = rustix::thread::capabilities(None);
    let may_give =
        capabilities.is_ok_and(|of| of.effective.contains(rustix::thread::CapabilitySet::CHOWN));
    match foreign_owner(target) {
        Some((owner, _)) if !may_give => Err(Error::NotYours { pid, owner }),
        _ => Ok(()),
    }
}

/// User and group of the programs, when they differ from ours.
fn foreign_owner(target: &Target) -> Option<(u32, u32)> {
    let Target::Process(pid) = target else {
        return None;
    };
    procs::owner(*pid).filter(|&(uid, _)| uid != rustix::process::geteuid().as_raw())
}

/// The command line for the recording's metadata; with `-p` that of the running process. It is in that process's memory, whose pages may
/// never come.
fn command_line(options: &Options, missing: &mut Vec<String>) -> Vec<String> {
    const LIMIT: Duration = Duration::from_millis(300);
    if let Target::Process(pid) = options.target {
        let read = || procs::command_line(pid);
        let Some(line) = apart::ask(LIMIT, read) else {
            let ms = LIMIT.as_millis();
            missing.push(format!(
                "the command line of process {pid}: its memory did not answer within {ms} ms"
            ));
            return Vec::new();
        };
        return line
            .split(|&byte| byte == 0)
            .filter(|word| !word.is_empty())
            .map(|word| String::from_utf8_lossy(word).into_owned())
            .collect();
    }
    let words = options.command().iter();
    words.map(|s| s.to_string_lossy().into_owned()).collect()
}
