//! Reads Kasuri's own recordings (`.kasuri`, docs/format.md).
//!
//! Opening reads the index and the small blocks: META, threads, sites, limits. Event blocks are decoded one by one when
//! the passes ask for events, so memory stays small. META has the recording's start, so times are shifted to it while
//! stamps are decoded, and [`Opened`] need not do it again.
//!
//! Kernel stamps and annotation stamps may be ticks of the CPU's counter; `Clocks` converts them to CLOCK_MONOTONIC
//! with the anchors that the recorder wrote. A recording has either kernel blocks or perf blocks: kernel blocks take
//! precedence.
//!
//! | module | reads |
//! |---|---|
//! | `kernel` | kernel blocks: columns of tracepoints, by CPU |
//! | `perf` | perf blocks: switches of an unprivileged recording, by CPU |
//! | `annotation` | annotation blocks, by thread |
//! | `losses` | counters and gaps of missing events |
//! | `call_paths` | functions, call paths and samples |
//! | `limits` | CPUs and quotas that the program was allowed |
//! | `payers` | the threads in whose time events were written |
mod annotation;
mod call_paths;
mod kernel;
mod limits;
mod losses;
mod payers;
mod perf;

use crate::ahead::{Pool, lock};
use crate::error::source;
use crate::usdt;
use crate::{Clock, Error, File, Kind, Opened, Options, Source};
use annotation::{Clients, SiteNames, Stream};
use kasuri_base::cost;
use kasuri_base::parallel::ParallelCosts;
use kasuri_base::usdt::COUNTED;
use kasuri_format::clock::ClockMap;
use kasuri_format::container::{BlockKind, Recording};
use kasuri_format::meta::{self, Anchor, Meta, Proc};
use kasuri_format::{Error as FormatError, ErrorKind};
use kasuri_model::input::{AnnotationEvents, KnownThread, Setup};
use kasuri_model::{
    Duration, EventCost, HeldUp, Info, InnerThread, Peer, Places, Process, Strings, Thread,
    ThreadEnd, ThreadIx, ThreadState, Time, TimedCalls, Trace,
};
use kernel::{Kernel, KernelCpu, MetGap};
use payers::Payers;
use perf::PerfCpu;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

/// Whether it is a single file that begins as a recording.
pub(crate) fn detect(files: &[File<'_>]) -> bool {
    matches!(files, [file] if !file.bytes.is_empty() && Recording::is_one(file.bytes))
}

/// Reads the index; events are decoded when the passes ask for them.
///
/// # Errors
/// Damage, unless `options.salvage` passes over it; a file of an unknown version; stamps that need clock anchors which
/// the recording lacks.
pub(crate) fn open<'a>(
    files: &'a [File<'a>],
    options: &Options,
    strings: &mut Strings,
) -> Result<Opened<'a>, Error> {
    let file = files.first().copied().unwrap_or_default();
    let (recording, damage) = parse(file.name, file.bytes, options.salvage)?;
    let pool = Pool::new(options, file.bytes.len());
    let mut opened = streams_of(recording, pool, strings)?;
    opened.damage = damage;
    Ok(opened)
}

/// Parses the recording in the bytes of a file, and returns the damage that was passed over. `name` is for messages.
///
/// # Errors
/// As [`open`], except that missing clock anchors are no error.
pub fn parse<'a>(
    name: &str,
    bytes: &'a [u8],
    salvage: bool,
) -> Result<(Recording<'a>, Vec<FormatError>), Error> {
    let failed = |error| Error::format(name, error);
    if !salvage {
        return Ok((Recording::parse(bytes).map_err(failed)?, Vec::new()));
    }
    let (recording, errors) = Recording::salvage(bytes);
    // Nothing can be salvaged from a file that is no recording, or from one of an unknown version.
    let is_foreign = |e: &&FormatError| matches!(e.kind, ErrorKind::Foreign | ErrorKind::Version);
    match errors.iter().find(is_foreign) {
        Some(error) => Err(failed(error.clone())),
        None => Ok((recording, errors)),
    }
}

/// Makes the streams of a recording, and the closure that adds its other blocks to the finished trace.
fn streams_of<'a>(
    recording: Recording<'a>,
    pool: Option<Arc<Pool<'a>>>,
    strings: &mut Strings,
) -> Result<Opened<'a>, Error> {
    let recording = Arc::new(recording);
    let meta = recording.meta();
    let clocks = Clocks::new(&recording).map_err(source)?;
    let origin_ns = origin(meta, &recording, &clocks);
    let mut places = Places::new();
    let names = SiteNames::new(&recording, strings, &mut places);
    let clients = Clients::new(recording.clone(), pool.clone(), clocks.client.clone(), origin_ns);
    let clients = Rc::new(clients);
    let gaps = Arc::new(Mutex::new(Vec::new()));
    let mut setup = setup(&recording, &clocks, origin_ns);
    let start = setup.span.start;
    let kernel_cpus = blocks_by_cpu(&recording, BlockKind::Kernel);
    let mut cpus = Vec::new();
    let mut kernel = None;
    if kernel_cpus.is_empty() {
        for (cpu, blocks) in blocks_by_cpu(&recording, BlockKind::Perf) {
            let gaps = gaps.clone();
            let events = PerfCpu::new(recording.clone(), gaps, cpu, &blocks, origin_ns, start);
            cpus.push((cpu, Source::Apart(Box::new(events))));
        }
    } else {
        let shared = Arc::new(Kernel::new(&recording, clocks.kernel.clone(), origin_ns));
        setup.has_migrations = shared.has_migrations();
        for (cpu, blocks) in kernel_cpus {
            let (shared, gaps) = (shared.clone(), gaps.clone());
            let events = KernelCpu::new(recording.clone(), shared, gaps, cpu, &blocks, start);
            cpus.push((cpu, Source::Apart(Box::new(events))));
        }
        kernel = Some(shared);
    }
    let streams = streams(&recording, &clients, &names);
    let mut opened = Opened::new(Kind::Kasuri, Clock::Monotonic);
    opened.origin_ns = Some(origin_ns);
    opened.realtime_offset_ns = realtime_offset(meta);
    opened.setup = setup;
    opened.cpus = cpus;
    opened.streams = streams;
    opened.info = info(meta);
    opened.places = places;
    opened.pool = pool;
    let rest = Rest { recording: recording.clone(), clients, kernel, gaps };
    opened.finish = Box::new(move |trace| rest.add_to(trace));
    Ok(opened)
}

/// The blocks that are not events, and the counts from reading the events. They complete the finished trace.
struct Rest<'a> {
    recording: Arc<Recording<'a>>,
    clients: Rc<Clients<'a>>,
    kernel: Option<Arc<Kernel>>,
    gaps: Arc<Mutex<Vec<MetGap>>>,
}

impl Rest<'_> {
    /// Adds what the passes leave to the reader: limits, call paths, the budget, losses.
    fn add_to(self, trace: &mut Trace) {
        let (recording, meta) = (&self.recording, self.recording.meta());
        let origin_ns = trace.origin_monotonic_ns;
        let at = |ns| time_at(ns, origin_ns);
        let (limits, left_out) = limits::limits(recording.limits(), &mut trace.strings, at);
        trace.limits = limits;
        trace.info.missing.extend(left_out);
        trace.ends =
            ends(recording.procs(), &trace.threads, &trace.processes, |ns| time_at(ns, origin_ns));
        let unknown = call_paths::add_to(trace, recording, |ns| time_at(ns, origin_ns));
        if unknown > 0 {
            trace.info.missing.push(format!(
                "samples of call paths whose threads are not in the recording: {unknown}"
            ));
        }
        let missing = kept_budget(meta, trace);
        trace.info.missing.extend(missing);
        let missing = nameless(trace);
        trace.info.missing.extend(missing);
        let events = |kind| {
            let blocks = recording.blocks().iter().filter(|b| b.kind == kind);
            blocks.map(|b| b.n_events).sum::<u64>()
        };
        trace.n_kernel_events = events(BlockKind::Kernel) + events(BlockKind::Perf);
        trace.n_annotation_events = events(BlockKind::Annotation);
        let kernel = self.kernel.as_ref();
        trace.info.events_apart_ns = kernel.and_then(|kernel| kernel.apart_ns());
        let payers = kernel.map_or_else(Vec::new, |kernel| kernel.payers());
        trace.info.event_costs = event_costs(recording, &payers, trace);
        trace.losses = losses::losses(trace, recording, &self.clients, &lock(&self.gaps));
    }
}

/// A stamp of CLOCK_MONOTONIC as time.
fn time_at(ns: u64, origin_ns: i64) -> Time {
    let ns = i64::try_from(ns).unwrap_or(i64::MAX);
    Time(ns.saturating_sub(origin_ns))
}

/// Conversions to CLOCK_MONOTONIC.
struct Clocks {
    kernel: ClockMap,
    client: ClockMap,
}

impl Clocks {
    fn new(recording: &Recording<'_>) -> Result<Clocks, FormatError> {
        let meta = recording.meta();
        let anchors = recording.all_anchors();
        let map = |is_ticks: bool, kind| clock(is_ticks, &anchors, recording, kind);
        Ok(Clocks {
            kernel: map(meta.kernel.clock == "x86-tsc", BlockKind::Kernel)?,
            client: map(meta.annotations.clock == "native", BlockKind::Annotation)?,
        })
    }
}

/// The conversion for blocks of a kind: the identity, unless such blocks exist and hold ticks.
fn clock(
    ticks: bool,
    anchors: &[Anchor],
    recording: &Recording<'_>,
    kind: BlockKind,
) -> Result<ClockMap, FormatError> {
    if !ticks || !recording.blocks().iter().any(|b| b.kind == kind) {
        return Ok(ClockMap::identity());
    }
    ClockMap::from_anchors(anchors)
}

/// Lowest and highest CLOCK_MONOTONIC of all events, ns, from the index.
fn extent(recording: &Recording<'_>, clocks: &Clocks) -> Option<(i64, i64)> {
    let mut extent: Option<(i64, i64)> = None;
    for block in recording.blocks().iter().filter(|b| b.n_events > 0) {
        let clock = match block.kind {
            BlockKind::Kernel => &clocks.kernel,
            BlockKind::Annotation => &clocks.client,
            // The recorder asks perf for CLOCK_MONOTONIC.
            _ => &ClockMap::identity(),
        };
        let (first, last) =
            (clock.monotonic_ns(block.first_stamp), clock.monotonic_ns(block.last_stamp));
        let (low, high) = extent.unwrap_or((first, last));
        extent = Some((low.min(first), high.max(last)));
    }
    extent
}

/// CLOCK_MONOTONIC at `Time(0)`: the recording's start, or the first event if the META block was lost.
fn origin(meta: &Meta, recording: &Recording<'_>, clocks: &Clocks) -> i64 {
    match meta.start.monotonic_ns {
        0 => extent(recording, clocks).map_or(0, |(first, _)| first),
        ns => i64::try_from(ns).unwrap_or(0),
    }
}

/// CLOCK_REALTIME minus CLOCK_MONOTONIC, ns; none: the recording does not say.
fn realtime_offset(meta: &Meta) -> Option<i64> {
    match meta.start.realtime_ns {
        0 => None,
        ns => Some((ns as i64).wrapping_sub(meta.start.monotonic_ns as i64)),
    }
}

/// The facts that the passes need before the first event.
///
/// The span of a flight recording begins where the buffers do, but not before the time that the recorder was asked to
/// keep; that of any other begins with the recording. Rows with `pid` 0 name clients in a pid namespace whose process
/// could not be identified.
fn setup(recording: &Recording<'_>, clocks: &Clocks, origin_ns: i64) -> Setup {
    let meta = recording.meta();
    let in_doubt = recording.procs().iter().filter(|p| p.pid == 0);
    let recorded = match meta.kernel.source.as_str() {
        "none" => Vec::new(),
        _ => meta.host.online.clone(),
    };
    Setup {
        inner: inner_threads(recording, origin_ns),
        in_doubt: in_doubt.map(|p| (p.ns_pid, p.ns_gen)).collect(),
        span: span(recording, clocks, origin_ns),
        n_cpus: (meta.host.n_cpus as usize).min(usize::from(u16::MAX)),
        root_pids: meta.root_pids.clone(),
        known: known_threads(recording, origin_ns),
        did: match recorded.is_empty() {
            true => Vec::new(),
            false => states(recording.procs(), origin_ns),
        },
        recorded,
        starts_late: keeps_the_end(recording),
        ..Setup::default()
    }
}

/// Whether the recording has only its last part: a flight recorder, or `--keep`.
fn keeps_the_end(recording: &Recording<'_>) -> bool {
    let meta = recording.meta();
    meta.mode == "flight" || meta.keep_ns.is_some()
}

/// The recording's span: from its start, or from where the part that was kept begins, to its end.
fn span(recording: &Recording<'_>, clocks: &Clocks, origin_ns: i64) -> Range<Time> {
    let meta = recording.meta();
    let time = |ns: i64| Time(ns.saturating_sub(origin_ns));
    let extent = extent(recording, clocks).map(|(first, last)| (time(first), time(last)));
    let (first, last) = extent.unwrap_or((Time(0), Time(0)));
    let end = (meta.end).map_or(last, |end| time_at(end.monotonic_ns, origin_ns));
    let kept = meta
        .keep_ns
        .map_or(Time(0), |ns| Time(end.0.saturating_sub(i64::try_from(ns).unwrap_or(i64::MAX))));
    let start = match keeps_the_end(recording) {
        true => first.max(kept).max(Time(0)),
        false => Time(0),
    };
    start..end.max(start)
}

/// The threads that the recorder saw in /proc, in order of time.
fn known_threads(recording: &Recording<'_>, origin_ns: i64) -> Vec<KnownThread> {
    let seen = recording.procs().iter().filter(|p| p.pid != 0);
    let known = seen.map(|p| KnownThread {
        time: time_at(p.monotonic_ns, origin_ns),
        pid: p.pid,
        tid: p.tid,
        ppid: p.ppid,
        comm: p.comm.clone(),
    });
    let mut known: Vec<KnownThread> = known.collect();
    known.sort_by_key(|k| k.time);
    known
}

/// What threads did when the recorder looked, in order of time.
fn states(rows: &[Proc], origin_ns: i64) -> Vec<(i32, Time, ThreadState)> {
    let told = rows.iter().filter(|row| row.pid != 0 && !row.state.is_empty());
    let told = told.map(|row| (row.tid, time_at(row.monotonic_ns, origin_ns), state(&row.state)));
    let mut told: Vec<_> = told.collect();
    told.sort_by_key(|&(_, time, _)| time);
    told
}

/// The state by its letter in /proc.
fn state(letter: &str) -> ThreadState {
    match letter {
        "R" => ThreadState::Running,
        "S" => ThreadState::Sleeping,
        "D" => ThreadState::DiskSleep,
        "T" | "t" => ThreadState::Stopped,
        _ => ThreadState::Unknown,
    }
}

/// What threads did at the end. `at` converts a stamp of CLOCK_MONOTONIC, in ns.
fn ends(
    rows: &[Proc],
    threads: &[Thread],
    processes: &[Process],
    at: impl Fn(u64) -> Time,
) -> Vec<ThreadEnd> {
    let rows = rows.iter().filter_map(|row| Some((row, row.at_end.as_ref()?))).take(meta::ENDS_MAX);
    let ends = rows.filter_map(|(row, end)| {
        let is_it = |t: &Thread| {
            t.tid == row.tid && (processes.get(t.process.ix())).is_some_and(|p| p.pid == row.pid)
        };
        // Of several with this number the last lives.
        let thread = threads.iter().rposition(is_it)?;
        let peer =
            |peer: &meta::Peer| Peer { pid: peer.pid, tid: peer.tid, name: peer.comm.clone() };
        Some(ThreadEnd {
            thread: ThreadIx(thread as u32),
            state: state(&row.state),
            since: (end.since_ns > 0).then(|| at(end.since_ns)),
            on: end.on.clone(),
            by: end.by.iter().map(peer).collect(),
        })
    });
    ends.collect()
}

/// Of these, the ones whose process has numbers of its own in a pid name space.
fn inner_threads(recording: &Recording<'_>, origin_ns: i64) -> Vec<InnerThread> {
    let seen = recording.procs().iter();
    let inner = seen.filter(|p| p.pid != 0 && p.ns_pid != 0);
    let inner = inner.map(|p| InnerThread {
        time: time_at(p.monotonic_ns, origin_ns),
        pid: p.pid,
        tid: p.tid,
        client: (p.ns_pid, p.ns_gen),
        ns_tid: p.ns_tid,
    });
    inner.collect()
}

/// Indices of the blocks of a kind, by CPU, in the order of the file.
fn blocks_by_cpu(recording: &Recording<'_>, kind: BlockKind) -> BTreeMap<u16, Vec<usize>> {
    let mut cpus: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
    for (ix, block) in recording.blocks().iter().enumerate() {
        // No machine has more CPUs; a damaged number must not size a table.
        if block.kind == kind && block.ids[0] < 8192 {
            cpus.entry(block.ids[0] as u16).or_default().push(ix);
        }
    }
    cpus
}

/// One stream for each thread of each client. Blocks with the same four ids belong together.
fn streams<'r>(
    recording: &Recording<'_>,
    clients: &Rc<Clients<'r>>,
    names: &SiteNames,
) -> Vec<Box<dyn AnnotationEvents + 'r>> {
    let mut by_id: HashMap<[u32; 4], usize> = HashMap::new();
    let mut blocks: Vec<Vec<usize>> = Vec::new();
    for (ix, block) in recording.blocks().iter().enumerate() {
        if block.kind == BlockKind::Annotation {
            let next = blocks.len();
            let at = *by_id.entry(block.ids).or_insert(next);
            if at == next {
                blocks.push(Vec::new());
            }
            blocks[at].push(ix);
        }
    }
    blocks
        .into_iter()
        .map(|blocks| Stream::new(clients.clone(), names, blocks))
        .map(|stream| Box::new(stream) as Box<dyn AnnotationEvents + 'r>)
        .collect()
}

/// Facts for people.
fn info(meta: &Meta) -> Info {
    let mut missing = meta.missing.clone();
    if !meta.complete {
        missing.push("the recorder was killed: the last events may be missing, and what ran at the end is truncated".into());
    }
    Info {
        format: "kasuri".into(),
        command: meta.command.clone(),
        root_pid: meta.root_pids.first().copied().unwrap_or(0),
        exit_status: meta.exit_status,
        host: meta.host.hostname.clone(),
        kernel: meta.host.kernel.clone(),
        machine: meta.host.machine.clone(),
        cpu_model: meta.host.cpu_model.clone(),
        kernel_source: meta.kernel.source.clone(),
        kernel_clock: meta.kernel.clock.clone(),
        missing,
        recorder: meta.recorder.clone(),
        event_costs: Vec::new(),
        events_apart_ns: None,
        parallel_costs: ParallelCosts::from_named(|name| meta.parallel_costs.get(name).copied()),
        program_cpu: meta.program_cpu_ns.map(span_of),
        recorder_pid: meta.recorder_pid,
        held_up: meta.held_up.map(held_up),
        recorder_cpu: meta.recorder_cpu_ns.map(span_of),
        buffer_bytes: (u64::from(meta.kernel.buffer_kb) << 10)
            .saturating_mul(meta.host.online.len() as u64),
        lock_probe: meta.lock_probe.clone(),
    }
}

fn held_up(of: meta::HeldUp) -> HeldUp {
    let [memory, probes] = [of.memory, of.probes].map(|calls| TimedCalls {
        n: calls.n,
        longest: span_of(calls.longest_ns),
        sum: span_of(calls.sum_ns),
    });
    HeldUp { memory, probes }
}

/// A file may say more than a time can be: that is the longest, never a negative one.
fn span_of(ns: u64) -> Duration {
    Duration(i64::try_from(ns).unwrap_or(i64::MAX))
}

/// Number of events by kind, with the measured cost of one. `payers`: by event type of the recording.
fn event_costs(recording: &Recording<'_>, payers: &[Payers], trace: &Trace) -> Vec<EventCost> {
    let costs = &recording.meta().event_costs;
    let apart = &recording.meta().event_costs_apart;
    let targets = trace.processes.iter().filter(|p| p.is_target);
    let threads =
        targets.flat_map(|p| &trace.threads[p.threads.start as usize..p.threads.end as usize]);
    let ours: HashSet<i64> = threads.map(|t| i64::from(t.tid)).filter(|&t| t > 0).collect();
    let kinds = recording.event_types().iter().map(|t| t.name.as_str());
    let kernel = kinds.zip(payers).map(|(name, payers)| {
        let n_program = payers.paid_by(|tid| ours.contains(&tid));
        (name, payers.n, n_program.unwrap_or(payers.n))
    });
    let annotations = trace.n_annotation_events;
    let probes = recording.meta().usdt.iter();
    let probes: HashMap<&str, &str> = probes.map(|p| (&*p.event, &*p.name)).collect();
    let mut out: Vec<EventCost> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    for (name, n, n_program) in kernel.chain([("annotation", annotations, annotations)]) {
        let shown = probes.get(name).map_or(name.to_owned(), |p| usdt::counted_as(p));
        // A probe may have several places.
        if let Some(&ix) = known.get(&shown) {
            out[ix].n += n;
            out[ix].n_program += n_program;
            continue;
        }
        known.insert(shown.clone(), out.len());
        out.push(EventCost {
            name: shown,
            n,
            n_program,
            ns: costs.get(name).copied().filter(|ns| cost::is_possible(ns)),
            apart: apart.get(name).filter(|rows| cost::is_curve(rows)).cloned().unwrap_or_default(),
        });
    }
    out.retain(|cost| cost.n > 0 || cost.name.starts_with(COUNTED));
    out
}

/// Sentences about the events that were not recorded in order to keep the budget (`record --budget`), by event kind.
///
/// META has the changes of the budget's governor by time; each lasts until the next.
fn kept_budget(meta: &Meta, trace: &Trace) -> Vec<String> {
    let end = meta.end.map_or(0, |end| end.monotonic_ns);
    let ends = meta.budget.iter().skip(1).map(|c| c.monotonic_ns).chain([end]);
    let mut off: BTreeMap<&str, u64> = BTreeMap::new();
    let mut paused = 0;
    for (change, end) in meta.budget.iter().zip(ends) {
        let ns = end.saturating_sub(change.monotonic_ns);
        if change.paused {
            paused = u64::saturating_add(paused, ns);
        } else {
            for event in &change.off {
                let sum = off.entry(event).or_default();
                *sum = u64::saturating_add(*sum, ns);
            }
        }
    }
    let span = (trace.span.end - trace.span.start).ns().max(1) as f64;
    let budget = meta.budget.first().map_or(0.0, |c| c.budget) * 100.0;
    let percent = |ns: u64| (ns as f64 / span * 100.0).min(100.0);
    let mut out = Vec::new();
    if paused > 0 {
        out.push(format!(
            "kernel events were paused for {:.0} % of the time to keep the budget of {budget} %: states there are unknown, \
             and all counts and times are those of the rest; a larger --budget records more",
            percent(paused)
        ));
    }
    let mut named: BTreeMap<String, u64> = BTreeMap::new();
    let probes: HashMap<&str, &str> = meta.usdt.iter().map(|p| (&*p.event, &*p.name)).collect();
    for (event, ns) in off {
        let name = probes.get(event).map_or(event.to_owned(), |name| usdt::counted_as(name));
        // The places of a probe may have been off for different times.
        let longest = named.entry(name).or_default();
        *longest = ns.max(*longest);
    }
    out.extend(named.into_iter().map(|(event, ns)| {
        format!(
            "{event} was off for {:.0} % of the time to keep the budget of {budget} %: what it records is missing there",
            percent(ns)
        )
    }));
    out
}

/// A sentence about threads of a pid namespace whose global ids are unknown; none: there are no such threads.
fn nameless(trace: &Trace) -> Option<String> {
    let mut threads: Vec<_> = trace.inner_names.iter().map(|name| name.thread).collect();
    threads.retain(|t| trace.threads[t.ix()].tid < 0);
    threads.sort_unstable();
    threads.dedup();
    (!threads.is_empty()).then(|| {
        format!(
            "{} of a pid name space (a container) ended before the kernel's number of it was known: its annotations are \
             shown under \"thread N of PID (name space)\", N and PID being its own numbers, without what the scheduler did with it",
            match threads.len() {
                1 => "1 thread".to_owned(),
                n => format!("{n} threads"),
            }
        )
    })
}
