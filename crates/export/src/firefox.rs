//! Firefox Profiler's processed profile, version 70.
//!
//! The format is described by the types in the profiler's sources (src/types/profile.ts), and its changes by
//! docs-developer/CHANGELOG-formats.md there. It is made for sampled stacks; a recording is mapped onto it so:
//!
//! | recording | profile |
//! |---|---|
//! | kernel states of a thread | samples, each with a stack of one frame, the state, and the CPU time before it |
//! | samples of call paths | samples inside the states, each for exactly the time that it stands for |
//! | modules and source files | resources (libraries) and sources of functions |
//! | slices, waits, instants, wake-ups, system calls | markers |
//! | counters | counters |
//!
//! A table is an object with a list for each column and a `length`. Tables are thus written by passes over the
//! model's columns, thread by thread of the program; memory is that of the largest thread, and 4 bytes for each wake-up and kernel
//! span. Times are milliseconds since the recording's start.
use crate::Exported;
use crate::args::ArgCursor;
use crate::exported;
use crate::json::{self, Decimal, Millis};
use crate::samples;
use kasuri_analyze::call_paths::{Cover, Whereabouts, state_parts};
use kasuri_analyze::{Options, Session};
use kasuri_model::label;
use kasuri_model::{
    ArgValue, FrameKind, InstantIx, KernelSpanKind, PathIx, ProgramBy, SampleKind, SliceIx,
    SliceKind, StrIx, ThreadIx, ThreadState, Time, Trace,
};
use serde::ser::{Serialize, SerializeSeq, Serializer};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashMap;
use std::io::{self, Write};

/// `preprocessedProfileVersion`: the site converts older versions when it loads a file.
const VERSION: u32 = 70;

/// States in the order of their numbers, with the colours of their categories.
const STATES: [(ThreadState, &str); 9] = [
    (ThreadState::Unknown, "grey"),
    (ThreadState::Running, "blue"),
    (ThreadState::RunnableWoken, "orange"),
    (ThreadState::RunnablePreempted, "red"),
    (ThreadState::Sleeping, "transparent"),
    (ThreadState::DiskSleep, "magenta"),
    (ThreadState::Stopped, "brown"),
    (ThreadState::Idle, "transparent"),
    (ThreadState::Dead, "transparent"),
];

/// Categories of markers follow those of states: one for each kind of slice, then these.
const N_STATES: usize = STATES.len();
const INSTANT: usize = N_STATES + label::KINDS.len();
const KERNEL: usize = INSTANT + 1;
const WAKEUP: usize = INSTANT + 2;

/// A library among the types of resources.
const LIBRARY: u32 = 1;

/// Strings that follow the recording's in `stringArray`; behind them stand the names of states, then those of kinds.
const OWN_STRINGS: [&str; 3] = ["", "wake-up", "slice"];

/// Writes the whole recording into `out`.
///
/// # Errors
/// Those of `out`.
pub fn write<W: Write>(trace: &Trace, out: W) -> io::Result<Exported> {
    let records = Cell::new(0);
    let session = Session::new(trace, &Options::default());
    let profile = Profile {
        trace,
        cover: session.cover(),
        records: &records,
        threads: exported::of_program(trace),
        wakes: by_thread(&trace.wakeups.wakee),
        spans: by_thread(&trace.kernel_spans.thread),
    };
    let file = File {
        meta: meta(trace),
        libs: [],
        shared: shared(trace),
        threads: Threads(&profile),
        counters: Counters(&profile),
    };
    // The document and its threads: a thread has a line, of columns.
    json::write(&file, 2, out)?;
    Ok(Exported { records: records.get(), left_out: left_out(trace) })
}

/// The document.
#[derive(serde::Serialize)]
struct File<'a> {
    meta: Value,
    libs: [(); 0],
    shared: Value,
    threads: Threads<'a>,
    counters: Counters<'a>,
}

/// Lists what a reader of the file will not find.
fn left_out(trace: &Trace) -> Vec<String> {
    let of_cpu = |k: &KernelSpanKind| matches!(k, KernelSpanKind::Irq | KernelSpanKind::Softirq);
    let mut out: Vec<String> = exported::threads_of_others(trace).into_iter().collect();
    let is_shown = |process: kasuri_model::ProcessIx| {
        let process = trace.processes.get(process.ix());
        process.is_none_or(|p| p.threads.clone().any(|t| trace.is_target(ThreadIx(t))))
    };
    match (trace.counters.iter()).filter(|c| !is_shown(c.process)).count() {
        0 => {}
        n => out.push(format!("{n} counters of other programs")),
    }
    for (n, what) in [
        (trace.occupancy.start.len(), exported::NO_EVENTS),
        (trace.cpus.len(), "rows of CPUs (a wake-up says on which CPU)"),
        (trace.flows.id.len() + trace.tasks.len() + trace.task_edges.kind.len(), "arrows"),
        (trace.kernel_spans.kind.iter().filter(|k| of_cpu(k)).count(), "interrupts"),
        (trace.losses.len(), "losses"),
        (
            usize::from(samples::has(trace, |kind| kind == SampleKind::Waker)),
            "call paths of wake-ups",
        ),
    ] {
        if n > 0 {
            out.push(what.to_owned());
        }
    }
    out
}

/// Facts about the recording, the categories with their colours, and how each type of marker is shown.
fn meta(trace: &Trace) -> Value {
    let info = &trace.info;
    let mut categories: Vec<Value> =
        STATES.iter().map(|&(state, color)| category(label::state(state), color)).collect();
    for kind in label::KINDS {
        let color = match kind {
            SliceKind::Work | SliceKind::TaskRun => "green",
            SliceKind::LockHold => "yellow",
            _ => "purple",
        };
        categories.push(category(label::kind(kind), color));
    }
    categories.push(category("instant", "grey"));
    categories.push(category("kernel", "lightblue"));
    categories.push(category("wake-up", "darkgrey"));
    let field = |key: &str, label: &str, format: &str| json!({"key": key, "label": label, "format": format});
    let places = json!(["marker-chart", "marker-table", "timeline-overview"]);
    let schema = json!([
        {
            "name": "Slice",
            "tooltipLabel": "{marker.name}",
            "tableLabel": "{marker.name} {marker.data.args}",
            "chartLabel": "{marker.name}",
            "display": ["marker-chart", "marker-table", "timeline-overview", "stack-chart"],
            "isStackBased": true,
            "fields": [field("args", "Arguments", "string"), field("object", "Object", "string"), field("notSeen", "Not seen", "string")],
        },
        {
            "name": "Held",
            "tooltipLabel": "{marker.name}",
            "display": places,
            "fields": [field("args", "Arguments", "string"), field("object", "Object", "string"), field("notSeen", "Not seen", "string")],
        },
        {
            "name": "Wakeup",
            "tooltipLabel": "woken by {marker.data.by}",
            "tableLabel": "by {marker.data.by} on CPU {marker.data.cpu}",
            "display": ["marker-table"],
            "fields": [field("by", "By", "string"), field("cpu", "On CPU", "integer"), field("latency", "Until it ran", "duration")],
        },
    ]);
    let start = match trace.origin_realtime_ns {
        0 => 0,
        ns => ns.saturating_add(trace.span.start.ns()),
    };
    let monotonic = trace.origin_monotonic_ns.saturating_add(trace.span.start.ns());
    let mut meta = json!({
        "interval": 1.0,
        "startTime": start as f64 / 1e6,
        "startTimeAsClockMonotonicNanosecondsSinceBoot": monotonic,
        "profilingStartTime": 0.0,
        "profilingEndTime": (trace.span.end - trace.span.start).ns() as f64 / 1e6,
        "processType": 0,
        "product": kasuri_analyze::program(trace).title(&info.command),
        "stackwalk": 0,
        "version": 36,
        "preprocessedProfileVersion": VERSION,
        "categories": categories,
        "markerSchema": schema,
        "sampleUnits": {"time": "ms", "eventDelay": "ms", "threadCPUDelta": "ns"},
        "symbolicated": true,
        "symbolicationNotSupported": true,
        "usesOnlyOneStackType": true,
        "importedFrom": "Kasuri",
        "platform": "Linux",
        "oscpu": format!("Linux {} {}", info.kernel, info.machine).trim(),
        "CPUName": info.cpu_model,
        "logicalCPUs": trace.cpus.len(),
    });
    // Of a program all threads are shown at first; of a whole system those that the profiler finds busy.
    if trace.program_by != ProgramBy::Nobody {
        let n_threads = exported::of_program(trace).len();
        meta["initialVisibleThreads"] = (0..n_threads).collect();
    }
    meta
}

/// A category; every category needs a subcategory.
fn category(name: &str, color: &str) -> Value {
    json!({"name": name, "color": color, "subcategories": ["Other"]})
}

/// Tables that threads share: a stack of one frame for each state, the call paths of samples, and every name.
fn shared(trace: &Trace) -> Value {
    let code = Code::new(trace);
    let (n_frames, n_funcs) = (code.category.len(), code.name.len());
    let all = |value: Value| vec![value; n_frames];
    let func = |value: Value| vec![value; n_funcs];
    let mut strings: Vec<&str> = trace.strings.iter().collect();
    strings.extend(OWN_STRINGS);
    strings.extend(STATES.iter().map(|&(state, _)| label::state(state)));
    strings.extend(label::KINDS.iter().map(|&kind| label::kind(kind)));
    strings.extend(code.strings.iter().map(String::as_str));
    let (n_stacks, n_sources) = (code.stack_frame.len(), code.files.len());
    json!({
        "stackTable": {"frame": code.stack_frame, "prefixOffset": code.prefix_offset, "length": n_stacks},
        "frameTable": {
            "address": all((-1).into()), "lib": all((-1).into()), "inlineDepth": all(0.into()),
            "category": code.category, "subcategory": all(0.into()), "func": code.func,
            "nativeSymbol": all(Value::Null), "innerWindowID": all(Value::Null),
            "line": code.line, "column": all(Value::Null),
            "originalLocation": all(Value::Null), "length": n_frames,
        },
        "funcTable": {
            "name": code.name, "isJS": func(false.into()), "relevantForJS": func(false.into()),
            "resource": code.resource, "source": code.source, "lineNumber": func(Value::Null),
            "columnNumber": func(Value::Null), "originalLocation": func(Value::Null), "length": n_funcs,
        },
        "resourceTable": {
            "length": code.modules.len(), "name": code.modules, "host": vec![Value::Null; code.modules.len()],
            "type": vec![LIBRARY; code.modules.len()],
        },
        "nativeSymbols": {"libIndex": [], "address": [], "name": [], "functionSize": [], "length": 0},
        "sources": {
            "length": n_sources, "id": vec![Value::Null; n_sources], "filename": code.files, "startLine": vec![1; n_sources],
            "startColumn": vec![1; n_sources], "sourceMapURL": vec![Value::Null; n_sources], "content": vec![Value::Null; n_sources],
        },
        "sourceLocationTable": {"source": [], "line": [], "column": [], "length": 0},
        "stringArray": strings,
    })
}

/// Columns of stacks, frames and functions: first those of states, then those of samples where there are any.
struct Code {
    stack_frame: Vec<usize>,
    /// Distance to the caller's row; 0: outermost.
    prefix_offset: Vec<usize>,
    category: Vec<usize>,
    func: Vec<usize>,
    line: Vec<Option<u32>>,
    /// Of functions: positions in `stringArray`.
    name: Vec<usize>,
    /// Of functions: rows of `modules`; -1: none.
    resource: Vec<i64>,
    /// Of functions: rows of `files`.
    source: Vec<Option<usize>>,
    /// Positions of paths in `stringArray`.
    modules: Vec<usize>,
    files: Vec<usize>,
    /// Names of functions, behind all other strings.
    strings: Vec<String>,
}

/// The row of a path in a table of paths, new where it is not there yet; none for no path.
fn row_of(path: StrIx, rows: &mut HashMap<StrIx, usize>, table: &mut Vec<usize>) -> Option<usize> {
    path.is_some().then(|| {
        *rows.entry(path).or_insert_with(|| {
            table.push(path.ix());
            table.len() - 1
        })
    })
}

impl Code {
    fn new(trace: &Trace) -> Code {
        let first_name = trace.strings.len() + OWN_STRINGS.len();
        let mut code = Code {
            stack_frame: (0..N_STATES).collect(),
            prefix_offset: vec![0; N_STATES],
            category: (0..N_STATES).collect(),
            func: (0..N_STATES).collect(),
            line: vec![None; N_STATES],
            name: (first_name..first_name + N_STATES).collect(),
            resource: vec![-1; N_STATES],
            source: vec![None; N_STATES],
            modules: Vec::new(),
            files: Vec::new(),
            strings: Vec::new(),
        };
        if !trace.samples.time.is_empty() {
            code.add_frames(trace, first_name + N_STATES + label::KINDS.len());
            code.add_stacks(trace);
        }
        code
    }

    /// A function with several lines has a frame for each: the profiler adds up functions.
    fn add_frames(&mut self, trace: &Trace, first_name: usize) {
        let f = &trace.frames;
        let mut functions = HashMap::new();
        let (mut modules, mut files) = (HashMap::new(), HashMap::new());
        for row in 0..f.function.len() {
            let next = N_STATES + functions.len();
            let key = (f.function[row], f.module[row], f.address[row], f.file[row]);
            let func = *functions.entry(key).or_insert(next);
            if func == next {
                self.name.push(first_name + self.strings.len());
                self.strings.push(samples::frame_name(trace, row));
                let module = row_of(f.module[row], &mut modules, &mut self.modules);
                self.resource.push(module.map_or(-1, |row| row as i64));
                self.source.push(row_of(f.file[row], &mut files, &mut self.files));
            }
            self.func.push(func);
            self.line.push((f.line[row] > 0).then_some(f.line[row]));
            self.category.push(match f.kind[row] {
                FrameKind::Kernel => KERNEL,
                _ => ThreadState::Running as usize,
            });
        }
    }

    fn add_stacks(&mut self, trace: &Trace) {
        for (row, (caller, frame)) in
            (trace.paths.caller.iter().zip(&trace.paths.frame)).enumerate()
        {
            self.stack_frame.push(N_STATES + frame.ix());
            let is_inner = caller.is_some();
            self.prefix_offset.push(if is_inner { row - caller.ix() } else { 0 });
        }
    }
}

/// Rows of a table, sorted by their thread.
fn by_thread(threads: &[ThreadIx]) -> Vec<u32> {
    let mut rows: Vec<u32> = (0..threads.len() as u32).collect();
    rows.sort_by_key(|&row| threads[row as usize]);
    rows
}

/// The rows of one thread, from rows sorted by [`by_thread`].
fn of_thread<'a>(
    rows: &'a [u32],
    threads: &'a [ThreadIx],
    ix: ThreadIx,
) -> impl Iterator<Item = usize> + 'a {
    let first = rows.partition_point(|&row| threads[row as usize] < ix);
    let own = rows[first..].iter().map(|&row| row as usize);
    own.take_while(move |&row| threads[row] == ix)
}

/// The source of all threads and counters.
struct Profile<'a> {
    trace: &'a Trace,
    /// The time that each sample stands for.
    cover: &'a Cover,
    /// Markers and counter values written so far.
    records: &'a Cell<u64>,
    /// The threads of the profile.
    threads: Vec<ThreadIx>,
    /// Rows of wake-ups and of kernel spans, sorted by their thread.
    wakes: Vec<u32>,
    spans: Vec<u32>,
}

/// A stretch of a thread's time with one stack.
struct Point {
    time: Time,
    ns: i64,
    is_on_cpu: bool,
    /// Row of the table of stacks.
    stack: usize,
}

/// The row of a call path in the table of stacks; of a state where no path is known.
fn stack_of(path: PathIx, state: ThreadState) -> usize {
    match path.is_some() {
        true => N_STATES + path.ix(),
        false => state as usize,
    }
}

/// A row of the marker table.
struct Marker {
    name: usize,
    start: Time,
    /// None: a point.
    end: Option<Time>,
    category: usize,
    data: Value,
}

/// One thread of the profile. Times are ms since the recording's start.
#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct Thread<'a> {
    process_type: &'static str,
    process_startup_time: u32,
    process_shutdown_time: (),
    register_time: Millis,
    unregister_time: Millis,
    paused_ranges: [(); 0],
    show_markers_in_timeline: bool,
    name: Cow<'a, str>,
    is_main_thread: bool,
    process_name: &'a str,
    pid: String,
    tid: i32,
    samples: Samples,
    markers: Markers<'a>,
}

/// A thread's samples, by columns.
#[derive(Default, serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct Samples {
    /// The stack of the state that begins here; null at the thread's end.
    stack: Vec<Option<usize>>,
    time: Vec<Millis>,
    weight: Vec<Millis>,
    /// ns of CPU time since the sample before; null for the first.
    #[serde(rename = "threadCPUDelta")]
    thread_cpu_delta: Vec<Option<i64>>,
    weight_type: &'static str,
    length: usize,
}

/// A thread's markers, by columns.
#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct Markers<'a> {
    data: Vec<&'a Value>,
    name: Vec<usize>,
    start_time: Vec<Millis>,
    end_time: Vec<Option<Millis>>,
    /// MarkerPhase: 0 a point, 1 an interval.
    phase: Vec<u8>,
    category: Vec<usize>,
    length: usize,
}

/// A counter; each value is the difference from the one before.
#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct Counter<'a> {
    name: &'a str,
    category: &'static str,
    description: &'a str,
    pid: String,
    main_thread_index: usize,
    display: Value,
    samples: CounterSamples,
}

#[derive(Default, serde::Serialize)]
struct CounterSamples {
    time: Vec<Millis>,
    count: Vec<f64>,
    length: usize,
}

/// The threads, one after the other.
struct Threads<'a>(&'a Profile<'a>);

impl Serialize for Threads<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(None)?;
        let mut tables = Cursors::default();
        for &ix in &self.0.threads {
            let markers = self.0.all_markers(ix, &mut tables);
            seq.serialize_element(&self.0.thread(ix, &markers))?;
        }
        seq.end()
    }
}

/// The counters, one after the other.
struct Counters<'a>(&'a Profile<'a>);

impl Serialize for Counters<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let all = self.0.trace.counters.iter();
        serializer.collect_seq(all.filter_map(|counter| self.0.counter(counter)))
    }
}

/// Positions in the tables that are sorted by thread: threads are written in the same order.
#[derive(Default)]
struct Cursors {
    slice_args: ArgCursor,
    instant_args: ArgCursor,
    instants: usize,
}

impl Profile<'_> {
    /// ms since the recording's start.
    fn at(&self, time: Time) -> Millis {
        Decimal((time - self.trace.span.start).ns())
    }

    /// One thread with its samples and markers.
    fn thread<'m>(&'m self, ix: ThreadIx, markers: &'m [Marker]) -> Thread<'m> {
        let trace = self.trace;
        let row = &trace.threads[ix.ix()];
        let process = trace.processes.get(row.process.ix());
        let pid = process.map_or(row.tid, |p| p.pid);
        Thread {
            process_type: "default",
            process_startup_time: 0,
            process_shutdown_time: (),
            register_time: self.at(row.alive.start),
            unregister_time: self.at(row.alive.end),
            paused_ranges: [],
            show_markers_in_timeline: true,
            name: label::thread(trace, ix),
            is_main_thread: row.tid == pid,
            process_name: process.map_or("", |p| trace.strings.get(p.name)),
            pid: pid.to_string(),
            tid: row.tid,
            samples: self.samples(ix),
            markers: self.markers(markers),
        }
    }

    /// A thread's markers, in order of time.
    fn all_markers(&self, ix: ThreadIx, tables: &mut Cursors) -> Vec<Marker> {
        let mut markers = Vec::new();
        self.slices(ix, &mut tables.slice_args, &mut markers);
        let instants = &mut tables.instants;
        self.points(ix, &mut tables.instant_args, instants, &mut markers);
        self.kernel_spans(ix, &mut markers);
        self.wakeups(ix, &mut markers);
        markers.sort_by_key(|m| m.start);
        self.records.set(self.records.get() + markers.len() as u64);
        markers
    }

    /// A sample for each state and each call path, and one at the thread's end: the profiler draws each sample up to the next one.
    fn samples(&self, ix: ThreadIx) -> Samples {
        let row = &self.trace.threads[ix.ix()];
        let mut out = Samples { weight_type: "tracing-ms", ..Samples::default() };
        // CPU time of the stretch before the next sample.
        let mut on_cpu_ns = None;
        for point in self.points_of_samples(ix) {
            out.stack.push(Some(point.stack));
            out.time.push(self.at(point.time));
            out.weight.push(Decimal(point.ns));
            out.thread_cpu_delta.push(on_cpu_ns);
            on_cpu_ns = Some(if point.is_on_cpu { point.ns } else { 0 });
        }
        if !out.stack.is_empty() {
            out.stack.push(None);
            out.time.push(self.at(row.alive.end));
            out.weight.push(Decimal(0));
            out.thread_cpu_delta.push(on_cpu_ns);
        }
        out.length = out.stack.len();
        out
    }

    /// When the thread's stack changes: states, and inside them the call paths that samples say. The samples of a profile with weights of its own are
    /// points, which weigh what it says.
    fn points_of_samples(&self, ix: ThreadIx) -> Vec<Point> {
        let (trace, s) = (self.trace, &self.trace.samples);
        if trace.is_weighed() {
            let own = trace.samples_of(ix).filter(|&row| s.kind[row] != SampleKind::Waker);
            let point = |row: usize| {
                let is_on_cpu = s.kind[row] == SampleKind::OnCpu;
                let state = if is_on_cpu { ThreadState::Running } else { ThreadState::Sleeping };
                Point {
                    time: s.time[row],
                    ns: s.weight[row].ns(),
                    is_on_cpu,
                    stack: stack_of(s.path[row], state),
                }
            };
            return own.map(point).collect();
        }
        let point = |part: kasuri_analyze::call_paths::StatePart| Point {
            time: part.from,
            ns: part.length().ns(),
            is_on_cpu: part.state == ThreadState::Running,
            stack: match part.at {
                Whereabouts::At(path) => stack_of(path, part.state),
                _ => part.state as usize,
            },
        };
        state_parts(trace, self.cover, ix).map(point).collect()
    }

    /// The position in `stringArray` of a kind's name, for slices without a name.
    fn string_of_kind(&self, kind: SliceKind) -> usize {
        self.trace.strings.len() + OWN_STRINGS.len() + N_STATES + kind as usize
    }

    /// A marker for each slice of a thread.
    fn slices(&self, ix: ThreadIx, args: &mut ArgCursor, markers: &mut Vec<Marker>) {
        let slices = &self.trace.slices;
        for i in self.trace.threads[ix.ix()].slices.clone().map(|i| i as usize) {
            let kind = slices.kind[i];
            let is_named = !self.trace.strings.get(slices.name[i]).is_empty();
            let name = if is_named { slices.name[i].ix() } else { self.string_of_kind(kind) };
            let of_type = if kind == SliceKind::LockHold { "Held" } else { "Slice" };
            let mut data = json!({ "type": of_type });
            let own = args.of_slice(&self.trace.args, SliceIx(i as u32));
            self.add_args(own, &mut data);
            if slices.object[i] != 0 {
                data["object"] = format!("{:#x}", slices.object[i]).into();
            }
            if !label::not_seen(slices.open[i]).is_empty() {
                data["notSeen"] = label::not_seen(slices.open[i]).into();
            }
            markers.push(Marker {
                name,
                start: slices.start[i],
                end: Some(slices.end[i]),
                category: N_STATES + kind as usize,
                data,
            });
        }
    }

    /// Adds arguments to a marker as one text, `name=value, name=value`: the schema cannot have fields by the slice.
    fn add_args(&self, rows: std::ops::Range<usize>, data: &mut Value) {
        let (table, strings) = (&self.trace.args, &self.trace.strings);
        let texts = rows.map(|row| {
            let name = strings.get(table.name[row]);
            match table.value[row] {
                ArgValue::Int(v) => format!("{name}={v}"),
                ArgValue::Uint(v) => format!("{name}={v}"),
                ArgValue::Float(v) => format!("{name}={v}"),
                ArgValue::Str(s) => format!("{name}={}", strings.get(s)),
            }
        });
        let texts: Vec<String> = texts.collect();
        if !texts.is_empty() {
            data["args"] = texts.join(", ").into();
        }
    }

    /// A marker without length for each instant of a thread. `next` is the position in the table of instants, which is
    /// sorted by thread.
    fn points(
        &self,
        ix: ThreadIx,
        args: &mut ArgCursor,
        next: &mut usize,
        markers: &mut Vec<Marker>,
    ) {
        let instants = &self.trace.instants;
        while *next < instants.time.len() && instants.thread[*next] <= ix {
            let i = *next;
            *next += 1;
            if instants.thread[i] != ix {
                continue;
            }
            let mut data = json!({"type": "Slice"});
            let own = args.of_instant(&self.trace.args, InstantIx(i as u32));
            self.add_args(own, &mut data);
            let name = Some(instants.name[i].ix()).filter(|&ix| ix < self.trace.strings.len());
            markers.push(Marker {
                name: name.unwrap_or(self.trace.strings.len()),
                start: instants.time[i],
                end: None,
                category: INSTANT,
                data,
            });
        }
    }

    /// A marker for each system call and each wait for a kernel lock of a thread.
    fn kernel_spans(&self, ix: ThreadIx, markers: &mut Vec<Marker>) {
        let spans = &self.trace.kernel_spans;
        for i in of_thread(&self.spans, &spans.thread, ix) {
            if matches!(spans.kind[i], KernelSpanKind::Irq | KernelSpanKind::Softirq) {
                continue;
            }
            markers.push(Marker {
                name: spans.name[i].ix().min(self.trace.strings.len()),
                start: spans.start[i],
                end: Some(spans.end[i]),
                category: KERNEL,
                data: json!({"type": "Held"}),
            });
        }
    }

    /// A marker for each time that the thread was woken, with the thread or interrupt that woke it.
    fn wakeups(&self, ix: ThreadIx, markers: &mut Vec<Marker>) {
        let (trace, wakeups) = (self.trace, &self.trace.wakeups);
        for i in of_thread(&self.wakes, &wakeups.wakee, ix) {
            let waker = wakeups.waker[i];
            let by = match trace.threads.get(waker.ix()) {
                Some(row) => format!("{} {}", label::thread(trace, waker), row.tid),
                None => "an interrupt".to_owned(),
            };
            let mut data = json!({"type": "Wakeup", "by": by, "cpu": wakeups.cpu[i]});
            if wakeups.latency[i].ns() >= 0 {
                data["latency"] = (wakeups.latency[i].ns() as f64 / 1e6).into();
            }
            markers.push(Marker {
                name: trace.strings.len() + 1,
                start: wakeups.time[i],
                end: None,
                category: WAKEUP,
                data,
            });
        }
    }

    /// Markers as columns.
    fn markers<'m>(&self, markers: &'m [Marker]) -> Markers<'m> {
        let ends = markers.iter().map(|m| m.end.map(|end| self.at(end)));
        let phases = markers.iter().map(|m| u8::from(m.end.is_some()));
        Markers {
            data: markers.iter().map(|m| &m.data).collect(),
            name: markers.iter().map(|m| m.name).collect(),
            start_time: markers.iter().map(|m| self.at(m.start)).collect(),
            end_time: ends.collect(),
            phase: phases.collect(),
            category: markers.iter().map(|m| m.category).collect(),
            length: markers.len(),
        }
    }

    /// A counter of the profile; none: it is of a process without threads here.
    fn counter<'c>(&'c self, counter: &'c kasuri_model::Counter) -> Option<Counter<'c>> {
        let trace = self.trace;
        let process = trace.processes.get(counter.process.ix());
        let main_thread = match process {
            Some(process) => {
                let first = (self.threads).partition_point(|ix| ix.0 < process.threads.start);
                let is_here =
                    (self.threads.get(first)).is_some_and(|ix| ix.0 < process.threads.end);
                is_here.then_some(first)?
            }
            None => 0,
        };
        let name = label::named(trace, counter.name, "counter");
        let mut samples = CounterSamples::default();
        // Each value is the difference from the one before, and must be a number.
        let mut before = 0.0;
        for (&time, &value) in counter.time.iter().zip(&counter.value) {
            if value.is_finite() {
                samples.time.push(self.at(time));
                samples.count.push(value - before);
                before = value;
            }
        }
        samples.length = samples.time.len();
        self.records.set(self.records.get() + samples.length as u64);
        Some(Counter {
            name,
            category: "kasuri",
            description: name,
            pid: process.map_or(0, |p| p.pid).to_string(),
            main_thread_index: main_thread,
            display: json!({
                "graphType": "line-accumulated", "unit": "", "color": "teal", "markerSchemaLocation": null,
                "sortWeight": 50, "label": name,
                "tooltipRows": [{"type": "value", "source": "accumulated", "format": {"unit": "number"}, "label": name}],
            }),
            samples,
        })
    }
}
