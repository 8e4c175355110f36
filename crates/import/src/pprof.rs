//! pprof's profiles: stacks with values and labels, and no moments.
//!
//! A profile has no switches, so its samples weigh what it says (as those of perf.data without switches do):
//!
//! | sample type | becomes |
//! |---|---|
//! | `cpu`, `on_cpu` or the like in a unit of time; else a count, times a period that is time | weight of on-CPU samples |
//! | `delay`, `blocked`, `wait`, `off_cpu` in a unit of time | weight of wait samples |
//! | all others | nothing |
//!
//! Threads are told by labels, as Kasuri's own export and others write them; without labels all samples are one thread's. All samples lie at the
//! beginning of the profile: it does not say when they were taken.
use crate::paths::{self, CodeFrame, PathRows, Sample};
use crate::profile::{NamedThread, number_them};
use crate::{Clock, Error, File, Kind, Opened, Options};
use kasuri_format::pprof::{self, Label, Profile, Text, ValueType};
use kasuri_format::{Error as FormatError, ErrorKind};
use kasuri_model::input::{KnownThread, Setup};
use kasuri_model::{
    Duration, FrameIx, FrameKind, Info, PathIx, SampleKind, SamplingChange, StrIx, Strings, Time,
    Trace,
};
use std::collections::HashMap;

/// How Kasuri's own export calls time without a sample.
const NO_PATH: &str = "[no call path]";
/// Keys of labels for the same thing, by different writers.
const TID: &[&str] = &["tid", "thread_id", "thread id"];
const PID: &[&str] = &["pid", "process_id", "process id"];
const THREAD: &[&str] = &["thread", "thread_name", "thread name"];
const PROCESS: &[&str] = &["process", "process_name", "process name", "comm"];

/// Whether it is a single file that begins as a profile.
pub(crate) fn detect(files: &[File<'_>]) -> bool {
    matches!(files, [file] if pprof::is(file.bytes))
}

/// Reads the whole profile.
///
/// # Errors
/// Damage, unless `options.salvage` passes over it; a profile of something else than time; times below 0.
pub(crate) fn open<'a>(
    files: &'a [File<'a>],
    options: &Options,
    _strings: &mut Strings,
) -> Result<Opened<'a>, Error> {
    let file = files.first().copied().unwrap_or_default();
    let wrong = |error| Error::format(file.name, error);
    let (profile, damage) = match options.salvage {
        true => {
            let (kept, _, errors) = Profile::salvage(file.bytes);
            (kept, errors)
        }
        false => (Profile::parse(file.bytes).map_err(wrong)?, Vec::new()),
    };
    let uses = Uses::of(&profile).map_err(wrong)?;
    let rows = weigh(&profile, &uses).map_err(wrong)?;
    let threads = Threads::of(&profile, &rows);
    let clock = match profile.time_ns {
        0 => Clock::Other,
        _ => Clock::Realtime,
    };
    let mut opened = Opened::new(Kind::Pprof, clock);
    opened.realtime_offset_ns = (profile.time_ns != 0).then_some(0);
    let start = Time(profile.time_ns.max(0)).0;
    let length = match profile.duration_ns {
        ns if ns > 0 => ns,
        _ => rows.iter().map(|row| row.ns).max().unwrap_or(0),
    };
    let length = Time(length).within_horizon().0;
    opened.setup = Setup {
        span: Time(start)..Time(start.saturating_add(length)),
        known: threads.known.clone(),
        root_pids: threads.known.iter().map(|known| known.pid).collect(),
        ..Setup::default()
    };
    for known in &mut opened.setup.known {
        known.time = Time(start);
    }
    opened.info = info(&profile, &uses, &threads);
    opened.damage = damage;
    opened.finish = Box::new(move |trace| finish(trace, &profile, &uses, &threads, &rows));
    Ok(opened)
}

/// What one of a sample's values says.
struct Use {
    /// Column of the values.
    column: usize,
    /// ns of one unit.
    ns: i64,
    kind: SampleKind,
}

/// The columns of values that are read.
struct Uses {
    columns: Vec<Use>,
    /// CPU time between two samples, ns; 0: not known.
    period_ns: i64,
    /// The on-CPU column is the time of a clock on the wall.
    is_wall: bool,
}

impl Uses {
    fn of(profile: &Profile<'_>) -> Result<Uses, FormatError> {
        let name =
            |of: &ValueType| (profile.text(of.of).to_lowercase(), unit_ns(profile.text(of.unit)));
        let types: Vec<(String, Option<i64>)> = profile.types.iter().map(name).collect();
        let of_time = || {
            types.iter().enumerate().filter_map(|(at, (of, ns))| Some((at, of.as_str(), (*ns)?)))
        };
        let period = profile.period_type.as_ref().map(name).and_then(|(_, ns)| ns);
        let period = period.map_or(0, |ns| profile.period.max(0).saturating_mul(ns));
        let is_wait =
            |of: &str| ["delay", "block", "wait", "off", "sleep"].iter().any(|w| of.contains(w));
        let is_known = |of: &str| of != "account" && of != "wall";
        let wait = of_time().find(|(_, of, _)| is_wait(of));
        let cpu = of_time().find(|(_, of, _)| of.contains("cpu") && !is_wait(of));
        let other = || of_time().find(|(_, of, _)| !is_wait(of) && is_known(of));
        let wall = || of_time().find(|(_, of, _)| *of == "wall");
        let counted = || {
            let at = types.iter().position(|(of, _)| of == "samples" || of == "cpu")?;
            (period > 0).then_some((at, "samples", period))
        };
        let on_cpu = cpu.or_else(other);
        let on_cpu = on_cpu.or_else(|| if wait.is_some() { None } else { counted().or_else(wall) });
        let column = |kind| move |(column, _, ns)| Use { column, ns, kind };
        let columns: Vec<Use> = (on_cpu.map(column(SampleKind::OnCpu)).into_iter())
            .chain(wait.map(column(SampleKind::BlockedRead)))
            .collect();
        if columns.is_empty() {
            let text =
                |of: &ValueType| format!("{}/{}", profile.text(of.of), profile.text(of.unit));
            let found: Vec<String> = profile.types.iter().take(4).map(text).collect();
            let found = format!("sample types {}", found.join(", "));
            let needed = "time on a CPU or in waits";
            let error = FormatError::new(ErrorKind::Absent, "pprof profile", 0, found, needed);
            return Err(error.remedy("Go's /debug/pprof/profile and /debug/pprof/block have it; `go tool pprof` shows profiles of memory"));
        }
        Ok(Uses {
            columns,
            period_ns: period,
            is_wall: on_cpu.is_some_and(|(_, of, _)| of == "wall"),
        })
    }
}

/// ns of a unit; none: it is no time.
fn unit_ns(unit: &str) -> Option<i64> {
    match unit.to_lowercase().as_str() {
        "ns" | "nanosecond" | "nanoseconds" => Some(1),
        "us" | "µs" | "microsecond" | "microseconds" => Some(1000),
        "ms" | "millisecond" | "milliseconds" => Some(1_000_000),
        "s" | "sec" | "second" | "seconds" => Some(1_000_000_000),
        _ => None,
    }
}

/// A sample with the time of one column.
struct Row {
    /// Row of the profile's samples.
    sample: usize,
    kind: SampleKind,
    ns: i64,
}

/// The samples with their times; those without any are left out, as they say nothing.
fn weigh(profile: &Profile<'_>, uses: &Uses) -> Result<Vec<Row>, FormatError> {
    let mut rows = Vec::new();
    for (sample, values) in profile.values.chunks_exact(profile.types.len().max(1)).enumerate() {
        for of in &uses.columns {
            let value = values[of.column];
            if value < 0 {
                let at = profile.samples[sample].offset;
                let found = format!("{value} as the time of a sample");
                let error =
                    FormatError::damaged("pprof profile", at, found, "times of 0 and above");
                return Err(error.remedy(
                    "a difference of two profiles is no profile: `kasuri report A B` shows two",
                ));
            }
            if value > 0 {
                let (kind, ns) = (of.kind, value.saturating_mul(of.ns));
                rows.push(Row { sample, kind, ns });
            }
        }
    }
    Ok(rows)
}

/// Threads of the samples.
struct Threads {
    /// Position in `known` of each row's thread.
    of_row: Vec<u32>,
    known: Vec<KnownThread>,
    /// Some samples have no label of a thread.
    some_unknown: bool,
}

impl Threads {
    fn of(profile: &Profile<'_>, rows: &[Row]) -> Threads {
        let mut named: HashMap<NamedThread<'_>, u32> = HashMap::new();
        let mut all: Vec<NamedThread<'_>> = Vec::new();
        let mut of_row = Vec::with_capacity(rows.len());
        for row in rows {
            let sample = &profile.samples[row.sample];
            let labels = &profile.labels[sample.labels.start as usize..sample.labels.end as usize];
            let thread = NamedThread {
                tid: number(profile, labels, TID),
                pid: number(profile, labels, PID),
                name: profile.text(text(profile, labels, THREAD)),
                process: profile.text(text(profile, labels, PROCESS)),
            };
            of_row.push(*named.entry(thread).or_insert_with_key(|thread| {
                all.push(thread.clone());
                all.len() as u32 - 1
            }));
        }
        Threads {
            of_row,
            some_unknown: all.iter().any(|t| t.tid == 0 && t.name.is_empty()),
            known: number_them(&all, program(profile)),
        }
    }
}

/// The program's name.
fn program<'p>(profile: &'p Profile<'_>) -> &'p str {
    let path = profile.mappings.first().map_or("", |m| profile.text(m.file));
    path.rsplit('/').next().unwrap_or_default()
}

/// The number that one of these labels has, also as text; 0 without one.
fn number(profile: &Profile<'_>, labels: &[Label], keys: &[&str]) -> i32 {
    let found = labels.iter().find(|label| keys.contains(&profile.text(label.key)));
    let number = found.and_then(|label| match profile.text(label.text) {
        "" => i32::try_from(label.num).ok(),
        text => text.parse().ok(),
    });
    number.filter(|&number| number > 0).unwrap_or(0)
}

fn text(profile: &Profile<'_>, labels: &[Label], keys: &[&str]) -> Text {
    let is_meant = |label: &&Label| {
        keys.contains(&profile.text(label.key)) && !profile.text(label.text).is_empty()
    };
    labels.iter().find(is_meant).map_or(0, |label| label.text)
}

/// Facts for people.
fn info(profile: &Profile<'_>, uses: &Uses, threads: &Threads) -> Info {
    let mut missing = vec!["a pprof profile says how much time, not when: there is no timeline and no account; `kasuri record` has them".to_owned()];
    if uses.is_wall {
        missing.push("time on the wall: whether the threads ran or waited is not known".to_owned());
    }
    if threads.some_unknown {
        missing.push(
            "not all samples have a label with their thread: they are shown as one".to_owned(),
        );
    }
    let program = profile.mappings.first().map_or("", |m| profile.text(m.file));
    Info {
        command: match program {
            "" => Vec::new(),
            path => vec![path.to_owned()],
        },
        kernel_source: "none".into(),
        missing,
        ..Info::default()
    }
}

/// Adds the samples and their call paths.
fn finish(trace: &mut Trace, profile: &Profile<'_>, uses: &Uses, threads: &Threads, rows: &[Row]) {
    add_build_ids(trace, profile);
    let frames = Frames::new(trace, profile);
    let mut path_rows = PathRows::default();
    let locations: Vec<Vec<FrameIx>> = (0..profile.locations.len())
        .map(|row| frames.of_location(row, trace, profile, &mut path_rows))
        .collect();
    let by_tid: HashMap<i32, u32> =
        (trace.threads.iter().enumerate()).map(|(row, thread)| (thread.tid, row as u32)).collect();
    let mut path_of: HashMap<usize, PathIx> = HashMap::new();
    let mut samples = Vec::with_capacity(rows.len());
    for (row, &thread) in rows.iter().zip(&threads.of_row) {
        let tid = threads.known[thread as usize].tid;
        let Some(&thread) = by_tid.get(&tid) else {
            continue;
        };
        let path = *path_of.entry(row.sample).or_insert_with(|| {
            let stack = &profile.samples[row.sample].stack;
            let stack = &profile.stacks[stack.start as usize..stack.end as usize];
            let mut path = PathIx::NONE;
            for &frame in stack.iter().rev().flat_map(|&at| &locations[at as usize]) {
                path = path_rows.path(path, frame, trace);
            }
            path
        });
        samples.push(Sample {
            thread: kasuri_model::ThreadIx(thread),
            time: trace.span.start,
            cpu: u16::MAX,
            kind: row.kind,
            // Whether a stack was cut is not said.
            is_complete: false,
            path,
            weight: Duration(row.ns),
        });
    }
    if uses.period_ns > 0 {
        trace.sampling.push(SamplingChange {
            time: trace.span.start,
            source: "cpu-clock".into(),
            on: true,
            period_ns: uses.period_ns as u64,
            reason: "pprof profile".into(),
            ..SamplingChange::default()
        });
    }
    paths::add_samples(trace, samples, true);
}

fn add_build_ids(trace: &mut Trace, profile: &Profile<'_>) {
    for mapping in &profile.mappings {
        let (path, id) = (profile.text(mapping.file), profile.text(mapping.build_id));
        let byte = |at: usize| u8::from_str_radix(id.get(at..at + 2)?, 16).ok();
        let bytes: Option<Vec<u8>> = (0..id.len()).step_by(2).map(byte).collect();
        // Go's own ids of builds are texts of another kind.
        if let Some(bytes) = bytes.filter(|bytes| !bytes.is_empty() && !path.is_empty()) {
            let path = trace.strings.intern(path);
            trace.build_ids.entry(path).or_insert(bytes.into());
        }
    }
}

/// Makes frames of locations.
struct Frames {
    /// By row of the profile's mappings.
    modules: Vec<(StrIx, FrameKind)>,
}

impl Frames {
    fn new(trace: &mut Trace, profile: &Profile<'_>) -> Frames {
        let module = |mapping: &pprof::Mapping| {
            let path = profile.text(mapping.file);
            let kind = match path.starts_with("[kernel") {
                true => FrameKind::Kernel,
                false => FrameKind::Native,
            };
            match path {
                "" => (StrIx::NONE, kind),
                path => (trace.strings.intern(path), kind),
            }
        };
        Frames { modules: profile.mappings.iter().map(module).collect() }
    }

    /// The functions of a location, outermost first; none where it stands for no code.
    fn of_location(
        &self,
        row: usize,
        trace: &mut Trace,
        profile: &Profile<'_>,
        rows: &mut PathRows,
    ) -> Vec<FrameIx> {
        let location = &profile.locations[row];
        let (module, kind) =
            location.mapping.map_or((StrIx::NONE, FrameKind::Native), |m| self.modules[m as usize]);
        let lines = &profile.lines[location.lines.start as usize..location.lines.end as usize];
        let mut out = Vec::with_capacity(lines.len().max(1));
        let nameless =
            CodeFrame { module, address: location.address, kind, ..CodeFrame::default() };
        if lines.is_empty() {
            return vec![rows.frame(nameless, trace)];
        }
        for (at, line) in lines.iter().enumerate().rev() {
            let function =
                line.function.map(|row| profile.functions[row as usize]).unwrap_or_default();
            let names = [function.system_name, function.name].map(|name| profile.text(name));
            let name = names.into_iter().find(|name| !name.is_empty()).unwrap_or_default();
            let is_last = at + 1 == lines.len();
            if location.mapping.is_none() && lines.len() == 1 && name == NO_PATH {
                return Vec::new();
            }
            if is_last && (name.is_empty() || name == place(trace, module, location.address)) {
                out.push(rows.frame(nameless.clone(), trace));
                continue;
            }
            let mut intern = |text: &str| match text {
                "" => StrIx::NONE,
                text => trace.strings.intern(text),
            };
            let frame = CodeFrame {
                function: intern(name),
                module,
                file: intern(profile.text(function.file)),
                line: u32::try_from(line.line).unwrap_or(0),
                address: 0,
                kind: if is_last { kind } else { FrameKind::Inlined },
            };
            out.push(rows.frame(frame, trace));
        }
        out
    }
}

/// How Kasuri's export calls a place without a name.
fn place(trace: &Trace, module: StrIx, address: u64) -> String {
    let base = trace.strings.get(module).rsplit('/').next().unwrap_or_default();
    match base {
        "" => format!("{address:#x}"),
        base => format!("{base}+{address:#x}"),
    }
}
