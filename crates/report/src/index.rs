//! The index: names, rows and places of the bytes, which the viewer needs before it draws. JSON, deflated.
//!
//! The index is the first tag of a recording. Everything that grows with the number of slices is left to the blocks;
//! the index has one row for each process, thread, counter, line, lock and name, and for each unit its block, offset
//! and time range, so that the viewer finds the units of any range without decoding others. The types here are the
//! file format: a field that is added, removed or renamed must change in viewer/src too, together with
//! [`FORMAT_VERSION`].
use super::account::{self, AccountRow};
use super::blocks::{Job, Layout, Packed};
use super::columns::Unit;
use super::names::{self, NameRow};
use super::panel::{self, PanelRow};
use super::plan::{Lock, Plan};
use super::{Candidate, Error, FORMAT_VERSION, Options};
use kasuri_model::{Process, StrIx, Thread, Time, Trace};
use serde::Serialize;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Number of [`kasuri_model::ThreadState`]s.
const STATES: usize = 9;

/// The index; every time is in ns on the file's axis, every `...Ix` a position in the list it names, -1 none.
#[derive(Serialize)]
struct Index<'a> {
    version: u32,
    title: String,
    label: &'a str,
    info: Info<'a>,
    /// ns from the recording's origin to the axis's 0.
    base: i64,
    length: u64,
    /// The recording's own span.
    span: [u64; 2],
    /// Its part without the time stamps that stand apart; absent where none do.
    #[serde(skip_serializing_if = "Option::is_none")]
    without_stray: Option<[u64; 2]>,
    strings: Vec<Cow<'a, str>>,
    processes: Vec<ProcessRow>,
    threads: Vec<ThreadRow>,
    /// For each CPU: recorded or not.
    cpus: Vec<u8>,
    counters: Vec<CounterRow>,
    lines: Vec<LineRow>,
    /// tag, offset, characters, undeflated bytes of each block; none when the page is served, and asks for blocks.
    blocks: Vec<u32>,
    names: Vec<NameRow>,
    locks: Vec<LockRow>,
    /// Number of locks that have no rows, because others matter more.
    locks_without_row: usize,
    /// Addresses as text: JavaScript's numbers have 53 bits.
    objects: Vec<String>,
    places: BTreeMap<u32, &'a str>,
    losses: Vec<LossRow<'a>>,
    tasks: Vec<[u64; 5]>,
    flows: Vec<[u64; 5]>,
    n_tasks: usize,
    n_flows: usize,
    headline: &'a str,
    summary: Option<&'a serde_json::Value>,
    panels: Vec<PanelRow<'a>>,
    account: Option<AccountRow<'a>>,
    /// Names of planned tasks, with how late these were: 0 early to 3 very late; absent without a plan.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    lateness: Vec<[u32; 2]>,
    /// Absent where the recording names its program.
    #[serde(skip_serializing_if = "<[Candidate]>::is_empty")]
    candidates: &'a [Candidate],
    /// Absent without samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    call_paths: Option<CallPathsRow>,
}

/// Where the code that threads ran and waited in is.
#[derive(Serialize)]
struct CallPathsRow {
    n_frames: usize,
    n_paths: usize,
    n_samples: usize,
    /// Equal parts of the time axis in the table of unsampled time.
    cells: usize,
    unsampled: Vec<[u64; 5]>,
    frames: Vec<[u64; 5]>,
    paths: Vec<[u64; 5]>,
    /// Row of the thread, then block, part, samples, first and last instant.
    samples: Vec<[u64; 6]>,
    /// The same of pieces, by number of the CPU.
    pieces: Vec<[u64; 6]>,
}

/// Facts about the run and the machine, for the details panel.
#[derive(Serialize)]
struct Info<'a> {
    command: &'a [String],
    root_pid: i32,
    exit_status: Option<i32>,
    host: &'a str,
    kernel: &'a str,
    machine: &'a str,
    cpu_model: &'a str,
    kernel_source: &'a str,
    kernel_clock: &'a str,
    missing: Vec<String>,
    recorder: &'a str,
    /// ns since 1970 at the axis's 0 as text; "" unknown.
    realtime_ns: String,
    kernel_events: u64,
    annotation_events: u64,
    slices: usize,
}

/// A process; `threads` is a range of positions in the list of threads.
#[derive(Serialize)]
struct ProcessRow {
    pid: i32,
    name: u32,
    parent: i64,
    target: bool,
    threads: [u32; 2],
}

/// A thread; `alive` are its first and last instant.
#[derive(Serialize)]
struct ThreadRow {
    process: i64,
    tid: i32,
    name: u32,
    alive: [u64; 2],
    preempted: u32,
    switches: u32,
    migrations: u32,
    /// ns in each state.
    states: [u64; STATES],
}

/// A counter, with the range of its values for the chart's scale.
#[derive(Serialize)]
struct CounterRow {
    name: u32,
    process: i64,
    min: f64,
    max: f64,
}

/// A line of the chart: what it shows, and where its bytes are.
#[derive(Serialize)]
struct LineRow {
    kind: u8,
    owner: u32,
    depth: u32,
    items: usize,
    /// Buckets of the finest level, then block and part of each tile, coarse to fine; absent: no levels.
    #[serde(skip_serializing_if = "Option::is_none")]
    lod: Option<Vec<u32>>,
    /// Block, part, items, from, to of each unit.
    units: Vec<u64>,
}

/// A lock that has rows in the chart, with its numbers for the details panel.
#[derive(Serialize)]
struct LockRow {
    object: String,
    process: i64,
    name: u32,
    hold_lanes: u32,
    holds: u64,
    waits: u64,
    hold_ns: u64,
    wait_ns: u64,
    unshown: u64,
}

/// A time in which events were lost.
#[derive(Serialize)]
struct LossRow<'a> {
    cause: &'a str,
    cpu: i64,
    thread: i64,
    from: u64,
    to: u64,
    count: u64,
    remedy: &'a str,
}

/// The index as JSON; `packed` is what stands in the same file.
pub fn encode(
    job: &Job<'_>,
    layout: &Layout,
    packed: Option<&Packed>,
    options: &Options,
) -> Result<Vec<u8>, Error> {
    let (trace, plan) = (job.trace, &job.plan);
    let mut migrations = vec![0u32; trace.threads.len()];
    for thread in &trace.migrations.thread {
        // A damaged recording may name a thread that is not there.
        if let Some(n) = migrations.get_mut(thread.ix()) {
            *n += 1;
        }
    }
    let index = Index {
        version: FORMAT_VERSION,
        title: title(trace, options),
        label: &options.label,
        info: info(trace, plan),
        base: plan.base,
        length: plan.length,
        span: [plan.at(trace.span.start), plan.at(trace.span.end)],
        without_stray: (trace.stray())
            .map(|stray| [plan.at(stray.rest.start), plan.at(stray.rest.end)]),
        strings: (0..trace.strings.len())
            // Names are demangled here and not in the viewer, which has no demangler.
            .map(|i| kasuri_analyze::demangled(trace.strings.get(StrIx(i as u32))))
            .collect(),
        processes: trace.processes.iter().map(process).collect(),
        threads: trace
            .threads
            .iter()
            .zip(migrations)
            .map(|(t, m)| thread(trace, plan, t, m))
            .collect(),
        cpus: trace.cpus.iter().map(|cpu| cpu.recorded as u8).collect(),
        counters: counters(trace),
        lines: lines(plan, layout),
        blocks: (packed.into_iter())
            .flat_map(|packed| &packed.blocks)
            .flat_map(|b| [b.tag, b.offset, b.text.len() as u32, b.raw])
            .collect(),
        names: names::rows(trace, plan),
        locks: plan.locks.iter().map(lock).collect(),
        locks_without_row: plan.locks_without_row,
        objects: (job.objects.addresses().iter()).map(|address| format!("{address:#x}")).collect(),
        places: options
            .places
            .unwrap_or(&trace.places)
            .iter()
            .map(|(k, v)| (k.0, v.as_str()))
            .collect(),
        losses: losses(trace, plan),
        tasks: layout.tasks.iter().map(unit).collect(),
        flows: layout.flows.iter().map(unit).collect(),
        n_tasks: trace.tasks.len(),
        n_flows: trace.flows.id.len(),
        lateness: (options.lateness.iter())
            .map(|&(name, lateness)| [name.0, lateness as u32])
            .collect(),
        candidates: &options.candidates,
        headline: &options.headline,
        summary: options.summary.as_ref(),
        panels: options.panels.iter().map(|p| panel::encode(p, trace)).collect(),
        account: options
            .account
            // A trace without any length has no columns to draw the account in.
            .filter(|_| plan.segments.buckets > 0)
            .map(|_| account::encode(&options.waits, options.pieces, plan, &layout.mixes)),
        call_paths: call_paths(trace, layout),
    };
    Ok(serde_json::to_vec(&index)?)
}

/// The page's heading.
pub fn title(trace: &Trace, options: &Options) -> String {
    match options.title.as_str() {
        "" => kasuri_analyze::program(trace).title(&trace.info.command),
        title => title.to_owned(),
    }
}

fn call_paths(trace: &Trace, layout: &Layout) -> Option<CallPathsRow> {
    let owned = |(owner, piece): &(u32, Unit)| {
        let [block, part, items, from, to] = unit(piece);
        [u64::from(*owner), block, part, items, from, to]
    };
    (!layout.samples.is_empty()).then(|| CallPathsRow {
        n_frames: trace.frames.kind.len(),
        n_paths: trace.paths.frame.len(),
        n_samples: trace.samples.time.len(),
        cells: layout.cells,
        unsampled: layout.unsampled.iter().map(unit).collect(),
        frames: layout.frames.iter().map(unit).collect(),
        paths: layout.paths.iter().map(unit).collect(),
        samples: layout.samples.iter().map(owned).collect(),
        pieces: layout.pieces.iter().map(owned).collect(),
    })
}

/// A unit of a table: block, part, rows, first and last instant.
fn unit(unit: &Unit) -> [u64; 5] {
    [unit.block as u64, unit.part as u64, unit.items as u64, unit.from, unit.to]
}

/// A lock of the plan.
fn lock(lock: &Lock) -> LockRow {
    LockRow {
        object: format!("{:#x}", lock.object),
        process: link(lock.process.0),
        name: lock.name.0,
        hold_lanes: lock.hold_lanes,
        holds: lock.holds,
        waits: lock.waits,
        hold_ns: lock.hold_ns,
        wait_ns: lock.wait_ns,
        unshown: lock.unshown,
    }
}

/// A position in a list; -1: none.
fn link(ix: u32) -> i64 {
    if ix == u32::MAX { -1 } else { ix as i64 }
}

/// Facts about the run.
fn info<'a>(trace: &'a Trace, plan: &Plan) -> Info<'a> {
    let i = &trace.info;
    let realtime = trace.origin_realtime_ns.saturating_add(plan.base);
    Info {
        command: &i.command,
        root_pid: i.root_pid,
        exit_status: i.exit_status,
        host: &i.host,
        kernel: &i.kernel,
        machine: &i.machine,
        cpu_model: &i.cpu_model,
        kernel_source: &i.kernel_source,
        kernel_clock: &i.kernel_clock,
        missing: trace.missing(),
        recorder: &i.recorder,
        realtime_ns: if trace.origin_realtime_ns == 0 {
            String::new()
        } else {
            realtime.to_string()
        },
        kernel_events: trace.n_kernel_events,
        annotation_events: trace.n_annotation_events,
        slices: trace.slices.start.len(),
    }
}

/// A process; its threads are a range of the list of threads.
fn process(p: &Process) -> ProcessRow {
    ProcessRow {
        pid: p.pid,
        name: p.name.0,
        parent: link(p.parent.0),
        target: p.is_target,
        threads: [p.threads.start, p.threads.end],
    }
}

/// A thread with its time in each state. A state lasts until the next one of its thread.
fn thread(trace: &Trace, plan: &Plan, t: &Thread, migrations: u32) -> ThreadRow {
    let mut states = [0; STATES];
    for i in t.states.start as usize..t.states.end as usize {
        let end: Time =
            if i + 1 < t.states.end as usize { trace.states.start[i + 1] } else { t.alive.end };
        states[trace.states.state[i] as usize] +=
            plan.at(end).saturating_sub(plan.at(trace.states.start[i]));
    }
    ThreadRow {
        process: link(t.process.0),
        tid: t.tid,
        name: t.name.0,
        alive: [plan.at(t.alive.start), plan.at(t.alive.end)],
        preempted: t.preemptions,
        switches: t.switches_out,
        migrations,
        states,
    }
}

/// The counters with the range of their values, which scales their curves.
fn counters(trace: &Trace) -> Vec<CounterRow> {
    // JSON has no NaN and no infinity.
    let finite =
        |values: &[f64]| values.iter().copied().filter(|v| v.is_finite()).collect::<Vec<_>>();
    trace
        .counters
        .iter()
        .map(|c| {
            let values = finite(&c.value);
            CounterRow {
                name: c.name.0,
                process: link(c.process.0),
                min: values.iter().copied().reduce(f64::min).unwrap_or(0.0),
                max: values.iter().copied().reduce(f64::max).unwrap_or(0.0),
            }
        })
        .collect()
}

/// The lines, each with the places of its levels and items.
fn lines(plan: &Plan, layout: &Layout) -> Vec<LineRow> {
    let row = |i: usize| {
        let (line, levels) = (&plan.lines[i], &layout.levels[i]);
        let tiles = levels.tiles.iter().flat_map(|tile| [tile.block, tile.part]);
        LineRow {
            kind: line.kind as u8,
            owner: line.owner,
            depth: line.depth,
            items: line.rows.len(),
            lod: (levels.buckets > 0)
                .then(|| std::iter::once(levels.buckets).chain(tiles).collect()),
            units: layout.units[i].iter().flat_map(unit).collect(),
        }
    };
    (0..plan.lines.len()).map(row).collect()
}

/// The losses, in order of time.
fn losses<'a>(trace: &'a Trace, plan: &Plan) -> Vec<LossRow<'a>> {
    trace
        .losses
        .iter()
        .map(|loss| LossRow {
            cause: &loss.cause,
            cpu: loss.cpu.map_or(-1, i64::from),
            thread: link(loss.thread.0),
            from: plan.at(loss.when.start),
            to: plan.at(loss.when.end),
            count: loss.count,
            remedy: &loss.remedy,
        })
        .collect()
}
