//! Firefox Profiler's processed profile, version 70: a thread's kernel states are its samples, with the CPU time of each
//! stretch; slices, waits, points and wake-ups are markers; counters are counters.
//!
//! Tables are columns, so each is written by passes over the model's: memory does not grow with the recording.
use crate::Exported;
use crate::args::ArgCursor;
use crate::exported::Counted;
use kasuri_model::label;
use kasuri_model::{
    ArgValue, InstantIx, KernelSpanKind, SliceIx, SliceKind, ThreadIx, ThreadState, Time, Trace,
};
use serde_json::{Value, json};
use std::io::{self, Write};

/// `preprocessedProfileVersion`: the site upgrades older ones when it loads them.
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

/// Strings of our own stand behind the recording's.
const OWN_STRINGS: [&str; 3] = ["", "wake-up", "slice"];

/// Writes the whole recording into `out`.
///
/// # Errors
/// Those of `out`.
pub fn write<W: Write>(trace: &Trace, out: W) -> io::Result<Exported> {
    let mut profile = Profile {
        trace,
        sink: Counted { out, records: 0 },
        wakes: by_thread(&trace.wakeups.wakee),
        spans: by_thread(&trace.kernel_spans.thread),
    };
    write!(
        profile.sink.out,
        "{{\"meta\":{},\n\"libs\":[],\n\"shared\":{},\n\"threads\":[",
        meta(trace),
        shared(trace)
    )?;
    let (mut args, mut instant_args) = (ArgCursor::default(), ArgCursor::default());
    let mut instants = 0;
    for i in 0..trace.threads.len() as u32 {
        if i > 0 {
            profile.text(",")?;
        }
        profile.thread(ThreadIx(i), &mut args, &mut instant_args, &mut instants)?;
    }
    profile.text("\n],\n\"counters\":[")?;
    profile.counters()?;
    profile.text("]}\n")?;
    profile.sink.out.flush()?;
    Ok(Exported {
        records: profile.sink.records,
        left_out: left_out(trace),
    })
}

fn left_out(trace: &Trace) -> Vec<String> {
    let of_cpu = |k: &KernelSpanKind| matches!(k, KernelSpanKind::Irq | KernelSpanKind::Softirq);
    let mut out = Vec::new();
    for (n, what) in [
        (trace.occupancy.start.len(), crate::exported::NO_EVENTS),
        (
            trace.cpus.len(),
            "rows of CPUs (a wake-up says on which CPU)",
        ),
        (trace.flows.id.len() + trace.tasks.len(), "arrows"),
        (
            trace.kernel_spans.kind.iter().filter(|k| of_cpu(k)).count(),
            "interrupts",
        ),
        (trace.losses.len(), "losses"),
    ] {
        if n > 0 {
            out.push(what.to_owned());
        }
    }
    out
}

/// Milliseconds with every nanosecond.
fn ms(ns: i64) -> String {
    let (sign, ns) = (if ns < 0 { "-" } else { "" }, ns.unsigned_abs());
    format!("{sign}{}.{:06}", ns / 1_000_000, ns % 1_000_000)
}

fn meta(trace: &Trace) -> Value {
    let info = &trace.info;
    let mut categories: Vec<Value> = STATES
        .iter()
        .map(|&(state, color)| category(label::state(state), color))
        .collect();
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
    let monotonic = trace
        .origin_monotonic_ns
        .saturating_add(trace.span.start.ns());
    let product = match info.command.is_empty() {
        true => "whole system".to_owned(),
        false => info.command.join(" "),
    };
    json!({
        "interval": 1.0,
        "startTime": start as f64 / 1e6,
        "startTimeAsClockMonotonicNanosecondsSinceBoot": monotonic,
        "profilingStartTime": 0.0,
        "profilingEndTime": (trace.span.end - trace.span.start).ns() as f64 / 1e6,
        "processType": 0,
        "product": product,
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
    })
}

fn category(name: &str, color: &str) -> Value {
    json!({"name": name, "color": color, "subcategories": ["Other"]})
}

/// Tables that threads share: a stack of one frame for each state, and every name.
fn shared(trace: &Trace) -> Value {
    let n = STATES.len();
    let all = |value: Value| vec![value; n];
    let own = trace.strings.len();
    let mut strings: Vec<&str> = trace.strings.iter().collect();
    strings.extend(OWN_STRINGS);
    strings.extend(STATES.iter().map(|&(state, _)| label::state(state)));
    strings.extend(label::KINDS.iter().map(|&kind| label::kind(kind)));
    let names: Vec<usize> = (0..n).map(|i| own + OWN_STRINGS.len() + i).collect();
    let numbers: Vec<usize> = (0..n).collect();
    json!({
        "stackTable": {"frame": numbers, "prefixOffset": all(0.into()), "length": n},
        "frameTable": {
            "address": all((-1).into()), "lib": all((-1).into()), "inlineDepth": all(0.into()),
            "category": numbers, "subcategory": all(0.into()), "func": numbers,
            "nativeSymbol": all(Value::Null), "innerWindowID": all(Value::Null),
            "line": all(Value::Null), "column": all(Value::Null),
            "originalLocation": all(Value::Null), "length": n,
        },
        "funcTable": {
            "name": names, "isJS": all(false.into()), "relevantForJS": all(false.into()),
            "resource": all((-1).into()), "source": all(Value::Null), "lineNumber": all(Value::Null),
            "columnNumber": all(Value::Null), "originalLocation": all(Value::Null), "length": n,
        },
        "resourceTable": {"length": 0, "name": [], "host": [], "type": []},
        "nativeSymbols": {"libIndex": [], "address": [], "name": [], "functionSize": [], "length": 0},
        "sources": {"length": 0, "id": [], "filename": [], "startLine": [], "startColumn": [], "sourceMapURL": [], "content": []},
        "sourceLocationTable": {"source": [], "line": [], "column": [], "length": 0},
        "stringArray": strings,
    })
}

/// Rows of a table, sorted by their thread.
fn by_thread(threads: &[ThreadIx]) -> Vec<u32> {
    let mut rows: Vec<u32> = (0..threads.len() as u32).collect();
    rows.sort_by_key(|&row| threads[row as usize]);
    rows
}

/// Those of one thread.
fn of_thread<'a>(
    rows: &'a [u32],
    threads: &'a [ThreadIx],
    ix: ThreadIx,
) -> impl Iterator<Item = usize> + 'a {
    let first = rows.partition_point(|&row| threads[row as usize] < ix);
    let own = rows[first..].iter().map(|&row| row as usize);
    own.take_while(move |&row| threads[row] == ix)
}

struct Profile<'a, W> {
    trace: &'a Trace,
    sink: Counted<W>,
    wakes: Vec<u32>,
    spans: Vec<u32>,
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

impl<W: Write> Profile<'_, W> {
    fn text(&mut self, text: &str) -> io::Result<()> {
        self.sink.out.write_all(text.as_bytes())
    }

    /// ms since the recording's start.
    fn at(&self, time: Time) -> String {
        ms((time - self.trace.span.start).ns())
    }

    /// A column of a table.
    fn column(&mut self, name: &str, values: impl Iterator<Item = String>) -> io::Result<()> {
        write!(self.sink.out, "\"{name}\":[")?;
        for (i, value) in values.enumerate() {
            let comma = if i == 0 { "" } else { "," };
            write!(self.sink.out, "{comma}{value}")?;
        }
        self.text("],")
    }

    fn thread(
        &mut self,
        ix: ThreadIx,
        args: &mut ArgCursor,
        instant_args: &mut ArgCursor,
        instants: &mut usize,
    ) -> io::Result<()> {
        let trace = self.trace;
        let row = &trace.threads[ix.ix()];
        let process = trace.processes.get(row.process.ix());
        let pid = process.map_or(row.tid, |p| p.pid);
        let process_name = process.map_or("", |p| trace.strings.get(p.name));
        write!(
            self.sink.out,
            "\n{{\"processType\":\"default\",\"processStartupTime\":0,\"processShutdownTime\":null,\
             \"registerTime\":{},\"unregisterTime\":{},\"pausedRanges\":[],\"showMarkersInTimeline\":true,\
             \"name\":{},\"isMainThread\":{},\"processName\":{},\"pid\":\"{pid}\",\"tid\":{},\n\"samples\":{{",
            self.at(row.alive.start),
            self.at(row.alive.end),
            Value::from(label::thread(trace, ix).as_ref()),
            row.tid == pid,
            Value::from(process_name),
            row.tid,
        )?;
        self.samples(ix)?;
        self.text("},\n\"markers\":{")?;
        let mut markers = Vec::new();
        self.slices(ix, args, &mut markers);
        self.points(ix, instant_args, instants, &mut markers);
        self.kernel_spans(ix, &mut markers);
        self.wakeups(ix, &mut markers);
        markers.sort_by_key(|m| m.start);
        self.markers(&markers)?;
        self.text("}}")
    }

    /// A sample for each state, and one at the thread's end: how the profiler draws a stretch from one to the next.
    fn samples(&mut self, ix: ThreadIx) -> io::Result<()> {
        let (trace, row) = (self.trace, &self.trace.threads[ix.ix()]);
        let rows: Vec<usize> = row.states.clone().map(|i| i as usize).collect();
        let end_of = |i: usize| match rows.last() {
            Some(&last) if last > i => trace.states.start[i + 1],
            _ => row.alive.end,
        };
        let n = rows.len() + usize::from(!rows.is_empty());
        let last = rows.last().map(|&i| end_of(i));
        let starts = rows.iter().map(|&i| trace.states.start[i]).chain(last);
        let times: Vec<String> = starts.map(|t| self.at(t)).collect();
        let numbers = rows.iter().map(|&i| trace.states.state[i] as usize);
        let stacks = numbers.map(|n| n.to_string());
        let stacks = stacks.chain(last.map(|_| "null".to_owned()));
        self.column("stack", stacks)?;
        self.column("time", times.into_iter())?;
        let lengths = rows
            .iter()
            .map(|&i| (end_of(i) - trace.states.start[i]).ns());
        let weights = lengths.map(ms).chain(last.map(|_| "0".to_owned()));
        self.column("weight", weights)?;
        // CPU time since the sample before.
        let on_cpu = rows.iter().map(|&i| match trace.states.state[i] {
            ThreadState::Running => (end_of(i) - trace.states.start[i]).ns().to_string(),
            _ => "0".to_owned(),
        });
        let deltas = last.map(|_| "null".to_owned()).into_iter().chain(on_cpu);
        self.column("threadCPUDelta", deltas)?;
        write!(
            self.sink.out,
            "\"weightType\":\"tracing-ms\",\"length\":{n}"
        )
    }

    fn string_of_kind(&self, kind: SliceKind) -> usize {
        self.trace.strings.len() + OWN_STRINGS.len() + N_STATES + kind as usize
    }

    fn slices(&self, ix: ThreadIx, args: &mut ArgCursor, markers: &mut Vec<Marker>) {
        let slices = &self.trace.slices;
        for i in self.trace.threads[ix.ix()]
            .slices
            .clone()
            .map(|i| i as usize)
        {
            let kind = slices.kind[i];
            let is_named = !self.trace.strings.get(slices.name[i]).is_empty();
            let name = if is_named {
                slices.name[i].ix()
            } else {
                self.string_of_kind(kind)
            };
            let of_type = if kind == SliceKind::LockHold {
                "Held"
            } else {
                "Slice"
            };
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

    fn markers(&mut self, markers: &[Marker]) -> io::Result<()> {
        self.sink.records += markers.len() as u64;
        let starts: Vec<String> = markers.iter().map(|m| self.at(m.start)).collect();
        let ends = markers
            .iter()
            .map(|m| m.end.map_or("null".to_owned(), |end| self.at(end)));
        let ends: Vec<String> = ends.collect();
        self.column("data", markers.iter().map(|m| m.data.to_string()))?;
        self.column("name", markers.iter().map(|m| m.name.to_string()))?;
        self.column("startTime", starts.into_iter())?;
        self.column("endTime", ends.into_iter())?;
        // MarkerPhase: 0 a point, 1 an interval.
        let phases = markers
            .iter()
            .map(|m| u8::from(m.end.is_some()).to_string());
        self.column("phase", phases)?;
        self.column("category", markers.iter().map(|m| m.category.to_string()))?;
        write!(self.sink.out, "\"length\":{}", markers.len())
    }

    fn counters(&mut self) -> io::Result<()> {
        let trace = self.trace;
        for (n, counter) in trace.counters.iter().enumerate() {
            let process = trace.processes.get(counter.process.ix());
            let pid = process.map_or(0, |p| p.pid);
            let thread = process.map_or(0, |p| p.threads.start);
            let name = label::named(trace, counter.name, "counter");
            // Values are told as differences, and must be numbers.
            let mut before = 0.0;
            let (mut times, mut counts) = (Vec::new(), Vec::new());
            for (&time, &value) in counter.time.iter().zip(&counter.value) {
                if value.is_finite() {
                    times.push(self.at(time));
                    counts.push(Value::from(value - before).to_string());
                    before = value;
                }
            }
            self.sink.records += times.len() as u64;
            let comma = if n > 0 { "," } else { "" };
            let display = json!({
                "graphType": "line-accumulated", "unit": "", "color": "teal", "markerSchemaLocation": null,
                "sortWeight": 50, "label": name,
                "tooltipRows": [{"type": "value", "source": "accumulated", "format": {"unit": "number"}, "label": name}],
            });
            write!(
                self.sink.out,
                "{comma}\n{{\"name\":{0},\"category\":\"kasuri\",\"description\":{0},\"pid\":\"{pid}\",\"mainThreadIndex\":{thread},\
                 \"display\":{display},\"samples\":{{\"time\":[{1}],\"count\":[{2}],\"length\":{3}}}}}",
                Value::from(name),
                times.join(","),
                counts.join(","),
                times.len()
            )?;
        }
        Ok(())
    }
}
