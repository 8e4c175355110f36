//! Profiles of the Firefox Profiler: the processed form, as samply and `kasuri export` write it.
//!
//! The format is described by src/types/profile.ts of the profiler. Tables are columns; until some version each thread had its own, later all share them,
//! and the names of some columns differ. What is read of either:
//!
//! | profile | becomes |
//! |---|---|
//! | a sample with weight `tracing-ms` | so much time from then on; on a CPU where the next sample has CPU time (`threadCPUDelta`) |
//! | another sample | weight times the interval; on a CPU unless it has 0 as CPU time |
//! | `weightType` `bytes` | nothing: it is no time |
//! | functions, lines, resources or libs, sources | frames with modules and files |
//! | markers, counters | nothing |
//!
//! A profile has no switches, so its samples weigh what it says, as those of perf.data without switches do. Kasuri's own exports have
//! states as stacks of one frame: these are time without a call path.
use crate::paths::{self, CodeFrame, PathRows, Sample};
use crate::profile::{NamedThread, number_them};
use crate::{Clock, Error, File, Kind, Opened, Options};
use kasuri_format::{Error as FormatError, ErrorKind};
use kasuri_model::input::{KnownThread, Setup};
use kasuri_model::{
    Duration, FrameIx, FrameKind, Info, PathIx, SampleKind, StrIx, Strings, ThreadIx, ThreadState,
    Time, Trace,
};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::HashMap;

const WHAT: &str = "Firefox profile";
/// The version that tells a processed profile from others.
const KEY: &[u8] = b"\"preprocessedProfileVersion\"";
/// The key is looked for in so many bytes at the beginning: `meta` is first, and marker schemas are a part of it.
const DETECT_BYTES: usize = 256 << 10;
/// States of Kasuri's own exports: the first stacks.
const N_STATES: usize = 9;

/// Whether it is a single file that begins as a processed profile.
pub(crate) fn detect(files: &[File<'_>]) -> bool {
    let [file] = files else {
        return false;
    };
    let head = &file.bytes[..file.bytes.len().min(DETECT_BYTES)];
    head.trim_ascii_start().starts_with(b"{") && head.windows(KEY.len()).any(|part| part == KEY)
}

#[derive(Deserialize)]
struct Document<'a> {
    meta: Meta,
    #[serde(default)]
    libs: Vec<Lib>,
    #[serde(borrow)]
    threads: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    shared: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Meta {
    /// ms.
    interval: f64,
    /// ms since 1970.
    start_time: f64,
    profiling_start_time: Option<f64>,
    profiling_end_time: Option<f64>,
    product: Option<String>,
    imported_from: Option<String>,
    /// In Kasuri's own exports: the program's.
    initial_visible_threads: Vec<usize>,
    categories: Vec<Category>,
    symbolicated: Option<bool>,
    oscpu: Option<String>,
    #[serde(rename = "CPUName")]
    cpu_name: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Category {
    name: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Lib {
    path: String,
    name: String,
}

/// The tables of a thread, or of all.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Tables {
    stack_table: StackTable,
    frame_table: FrameTable,
    func_table: FuncTable,
    resource_table: ResourceTable,
    sources: Sources,
    #[serde(alias = "stringTable")]
    string_array: Vec<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct StackTable {
    frame: Vec<u32>,
    /// Row of the caller.
    prefix: Vec<Option<u32>>,
    /// The same as a distance; 0: outermost.
    prefix_offset: Vec<u32>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct FrameTable {
    func: Vec<u32>,
    /// In the library; -1: not known.
    address: Vec<Option<i64>>,
    inline_depth: Vec<u32>,
    category: Vec<Option<u32>>,
    line: Vec<Option<u32>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct FuncTable {
    name: Vec<u32>,
    resource: Vec<Option<i64>>,
    file_name: Vec<Option<u32>>,
    source: Vec<Option<u32>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ResourceTable {
    name: Vec<u32>,
    lib: Vec<Option<i64>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Sources {
    filename: Vec<u32>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Thread {
    name: String,
    process_name: Option<String>,
    pid: Value,
    tid: Value,
    samples: Samples,
    markers: Length,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Length {
    length: u64,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Samples {
    stack: Vec<Option<u32>>,
    time: Vec<f64>,
    time_deltas: Vec<f64>,
    weight: Option<Vec<Option<f64>>>,
    weight_type: Option<String>,
    #[serde(rename = "threadCPUDelta")]
    thread_cpu_delta: Option<Vec<Option<f64>>>,
}

/// A sample with its time.
struct Row {
    thread: usize,
    /// Row of the stacks of its tables; none: no path is known.
    stack: Option<u32>,
    time: Time,
    kind: SampleKind,
    ns: i64,
}

/// What is read, before there are columns to put it in.
struct Profile {
    meta: Meta,
    libs: Vec<Lib>,
    /// One for all threads, or one for each.
    tables: Vec<Tables>,
    threads: Vec<Thread>,
    rows: Vec<Row>,
    known: Vec<KnownThread>,
    is_salvage: bool,
    damage: Vec<FormatError>,
}

/// Reads the whole profile.
///
/// # Errors
/// What is no JSON, lacks what is needed, or refers to what is not there, unless `options.salvage` passes over it; a profile without times.
pub(crate) fn open<'a>(
    files: &'a [File<'a>],
    options: &Options,
    _strings: &mut Strings,
) -> Result<Opened<'a>, Error> {
    let file = files.first().copied().unwrap_or_default();
    let mut profile =
        Profile::read(file, options.salvage).map_err(|e| Error::format(file.name, e))?;
    let mut opened = Opened::new(Kind::Firefox, Clock::Realtime);
    let start = time(profile.meta.start_time).0.max(0);
    opened.realtime_offset_ns = (start > 0).then_some(0);
    opened.origin_ns = Some(start);
    let times = profile.rows.iter().map(|row| row.time);
    let first = profile.meta.profiling_start_time.map(time);
    let last = profile.meta.profiling_end_time.map(time);
    let first = first
        .or(times.clone().min())
        .unwrap_or_default()
        .within_horizon();
    let last = last.or(times.max()).unwrap_or_default().within_horizon();
    let known = std::mem::take(&mut profile.known);
    opened.setup = Setup {
        span: first..last.max(first),
        root_pids: profile.own_pids(&known),
        known: known
            .iter()
            .map(|known| KnownThread {
                time: first,
                ..known.clone()
            })
            .collect(),
        ..Setup::default()
    };
    opened.info = profile.info();
    if opened.setup.root_pids.len() < known.len() {
        let strangers = "threads of other programs are not read: nothing of their code was sampled";
        opened.info.missing.push(strangers.to_owned());
    }
    opened.damage = std::mem::take(&mut profile.damage);
    opened.finish = Box::new(move |trace| profile.finish(trace, &known));
    Ok(opened)
}

/// ms as time. Whole ones apart: ns since 1970 do not fit into a double.
fn time(ms: f64) -> Time {
    let whole = ms.trunc();
    let rest = ((ms - whole) * 1e6).round() as i64;
    Time(
        (whole as i64)
            .saturating_mul(1_000_000)
            .saturating_add(rest),
    )
}

/// JSON that is a part of the file.
fn part<'a, T: Deserialize<'a>>(file: &File<'_>, text: &'a str) -> Result<T, FormatError> {
    serde_json::from_str(text).map_err(|error| {
        let before: usize = text
            .lines()
            .take(error.line().saturating_sub(1))
            .map(|line| line.len() + 1)
            .sum();
        let at = offset_in(file, text) + (before + error.column().saturating_sub(1)) as u64;
        FormatError::damaged(WHAT, at, error.to_string(), "a processed profile in JSON")
    })
}

/// Where a part of the file begins.
fn offset_in(file: &File<'_>, text: &str) -> u64 {
    (text.as_ptr() as usize).saturating_sub(file.bytes.as_ptr() as usize) as u64
}

impl Profile {
    fn read(file: File<'_>, is_salvage: bool) -> Result<Profile, FormatError> {
        let text = str::from_utf8(file.bytes).map_err(|error| {
            let at = error.valid_up_to() as u64;
            FormatError::damaged(
                WHAT,
                at,
                "bytes that are no UTF-8",
                "a processed profile in JSON",
            )
        })?;
        let document: Document<'_> = part(&file, text)?;
        let mut out = Profile {
            meta: document.meta,
            libs: document.libs,
            tables: Vec::new(),
            threads: Vec::new(),
            rows: Vec::new(),
            known: Vec::new(),
            is_salvage,
            damage: Vec::new(),
        };
        if let Some(shared) = document.shared {
            let tables = part(&file, shared.get())?;
            out.add_tables(tables, offset_in(&file, shared.get()))?;
        }
        for raw in document.threads {
            let at = offset_in(&file, raw.get());
            let thread: Thread = part(&file, raw.get())?;
            if document.shared.is_none() {
                let tables = part(&file, raw.get())?;
                out.add_tables(tables, at)?;
            }
            out.add_samples(&thread, at)?;
            out.threads.push(thread);
        }
        if out.rows.is_empty()
            && out
                .threads
                .iter()
                .any(|t| t.samples.weight_type.as_deref() == Some("bytes"))
        {
            let error = FormatError::new(
                ErrorKind::Absent,
                WHAT,
                0,
                "samples that weigh bytes",
                "samples of time",
            );
            return Err(error.remedy("profiler.firefox.com shows profiles of memory"));
        }
        out.known = out.number_threads();
        Ok(out)
    }

    /// Passes over damage, if that is wanted.
    fn wrong(&mut self, at: u64, found: String, needed: &str) -> Result<(), FormatError> {
        let error = FormatError::damaged(WHAT, at, found, needed.to_owned());
        match self.is_salvage {
            true if self.damage.len() < 100 => self.damage.push(error),
            true => {}
            false => return Err(error),
        }
        Ok(())
    }

    /// Keeps tables in which stacks refer to earlier ones and to frames that are there.
    fn add_tables(&mut self, mut tables: Tables, at: u64) -> Result<(), FormatError> {
        let s = &mut tables.stack_table;
        if s.prefix.is_empty() {
            let prefix = |(row, &offset): (usize, &u32)| {
                (offset > 0).then(|| (row as u32).wrapping_sub(offset))
            };
            s.prefix = s.prefix_offset.iter().enumerate().map(prefix).collect();
        }
        let n = s.frame.len();
        let n_frames = tables.frame_table.func.len();
        if s.prefix.len() != n {
            let found = format!("{} callers of {n} stacks", s.prefix.len());
            self.wrong(at, found, "as many as stacks")?;
            s.prefix.resize(n, None);
        }
        let is_wrong = |row: usize| {
            s.prefix[row].is_some_and(|prefix| prefix as usize >= row)
                || s.frame[row] as usize >= n_frames
        };
        if let Some(row) = (0..n).find(|&row| is_wrong(row)) {
            let found = format!(
                "stack {row} with frame {} and caller {:?}",
                s.frame[row], s.prefix[row]
            );
            self.wrong(at, found, "an earlier stack, and a frame that is there")?;
            s.frame.truncate(row);
            s.prefix.truncate(row);
        }
        self.tables.push(tables);
        Ok(())
    }

    fn add_samples(&mut self, thread: &Thread, at: u64) -> Result<(), FormatError> {
        let s = &thread.samples;
        if s.weight_type.as_deref() == Some("bytes") {
            return Ok(());
        }
        let mut times = s.time.clone();
        if times.is_empty() {
            let mut now = 0.0;
            let later = |delta: &f64| {
                now += delta;
                now
            };
            times = s.time_deltas.iter().map(later).collect();
        }
        let n = s.stack.len();
        let lengths = [
            Some(times.len()),
            s.weight.as_ref().map(Vec::len),
            s.thread_cpu_delta.as_ref().map(Vec::len),
        ];
        if let Some(length) = lengths.into_iter().flatten().find(|&length| length != n) {
            return self.wrong(
                at,
                format!("columns of {n} and {length} samples"),
                "columns of one length",
            );
        }
        let is_traced = s.weight_type.as_deref() == Some("tracing-ms");
        let interval_ns = if is_traced {
            1e6
        } else {
            self.meta.interval.max(0.0) * 1e6
        };
        let n_stacks = self
            .tables
            .last()
            .map_or(0, |tables| tables.stack_table.frame.len());
        for row in 0..n {
            let weight = s
                .weight
                .as_ref()
                .map_or(1.0, |weights| weights[row].unwrap_or(1.0));
            let (stack, ns) = (s.stack[row], (weight * interval_ns).round() as i64);
            if stack.is_some_and(|stack| stack as usize >= n_stacks) || ns < 0 {
                self.wrong(
                    at,
                    format!("stack {stack:?} with weight {weight}"),
                    "a stack that is there, and times of 0 and above",
                )?;
                continue;
            }
            let cpu = s
                .thread_cpu_delta
                .as_ref()
                .and_then(|deltas| *deltas.get(row + usize::from(is_traced))?);
            let kind = match cpu {
                Some(cpu) if cpu <= 0.0 => SampleKind::BlockedRead,
                _ => SampleKind::OnCpu,
            };
            let Some((stack, kind)) = self.without_states(stack, kind).filter(|_| ns > 0) else {
                continue;
            };
            self.rows.push(Row {
                thread: self.threads.len(),
                stack,
                time: time(times[row]).within_horizon(),
                kind,
                ns,
            });
        }
        Ok(())
    }

    fn is_own_export(&self) -> bool {
        self.meta.imported_from.as_deref() == Some("Kasuri")
    }

    /// Processes that the profile is about: of Kasuri's own exports those of the program.
    fn own_pids(&self, known: &[KnownThread]) -> Vec<i32> {
        let own = self.meta.initial_visible_threads.iter();
        let own: Vec<i32> = own.filter_map(|&row| Some(known.get(row)?.pid)).collect();
        match self.is_own_export() && !own.is_empty() {
            true => own,
            false => known.iter().map(|known| known.pid).collect(),
        }
    }

    /// In Kasuri's own exports a stack may be a state: then no path is known, or the thread neither ran nor was blocked.
    fn without_states(
        &self,
        stack: Option<u32>,
        kind: SampleKind,
    ) -> Option<(Option<u32>, SampleKind)> {
        match stack {
            Some(row) if self.is_own_export() && (row as usize) < N_STATES => {
                match ThreadState::from_number(row as u8) {
                    ThreadState::Running => Some((None, SampleKind::OnCpu)),
                    state if state.is_blocked() => Some((None, SampleKind::BlockedRead)),
                    _ => None,
                }
            }
            stack => Some((stack, kind)),
        }
    }

    fn number_threads(&self) -> Vec<KnownThread> {
        let mut named = Vec::with_capacity(self.threads.len());
        for thread in &self.threads {
            named.push(NamedThread {
                tid: number(&thread.tid),
                pid: number(&thread.pid),
                name: &thread.name,
                process: thread.process_name.as_deref().unwrap_or_default(),
            });
        }
        number_them(&named, self.meta.product.as_deref().unwrap_or_default())
    }

    fn info(&self) -> Info {
        let mut missing = vec![
            "a profile has samples and no switches: there is no account; `kasuri record` has it"
                .to_owned(),
        ];
        let n_markers: u64 = self.threads.iter().map(|t| t.markers.length).sum();
        if n_markers > 0 {
            missing.push(format!(
                "{n_markers} markers are not read; the profiler shows them"
            ));
        }
        if self.meta.symbolicated == Some(false) {
            missing.push("functions have no names: the profile was not symbolicated; `samply load`, then \"Upload\" or \"Save\" in the profiler, adds them".to_owned());
        }
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        Info {
            command: self.meta.product.iter().cloned().collect(),
            recorder: text(&self.meta.imported_from),
            cpu_model: text(&self.meta.cpu_name),
            kernel_source: "none".into(),
            missing,
            ..Info::default()
        }
    }

    /// Adds the samples and their call paths.
    fn finish(&self, trace: &mut Trace, known: &[KnownThread]) {
        let mut rows = PathRows::default();
        let paths: Vec<Vec<PathIx>> = (self.tables.iter())
            .map(|tables| self.paths(tables, trace, &mut rows))
            .collect();
        let by_tid: HashMap<i32, u32> = (trace.threads.iter().enumerate())
            .map(|(row, thread)| (thread.tid, row as u32))
            .collect();
        let sample = |row: &Row| {
            let of_thread = paths
                .get(row.thread)
                .filter(|_| paths.len() == self.threads.len());
            let paths = of_thread.or(paths.first());
            let path = row
                .stack
                .and_then(|stack| paths?.get(stack as usize).copied());
            Some(Sample {
                thread: ThreadIx(*by_tid.get(&known[row.thread].tid)?),
                time: row.time,
                cpu: u16::MAX,
                kind: row.kind,
                // Whether a stack was cut is not said.
                is_complete: false,
                path: path.unwrap_or_default(),
                weight: Duration(row.ns),
            })
        };
        let samples = self.rows.iter().filter_map(sample).collect();
        paths::add_samples(trace, samples, true);
    }

    /// The path of each stack. Callers stand before what they call.
    fn paths(&self, tables: &Tables, trace: &mut Trace, rows: &mut PathRows) -> Vec<PathIx> {
        let frames: Vec<FrameIx> = (0..tables.frame_table.func.len())
            .map(|row| rows.frame(self.frame(tables, row, trace), trace))
            .collect();
        let mut out: Vec<PathIx> = Vec::with_capacity(tables.stack_table.frame.len());
        for (prefix, &frame) in tables
            .stack_table
            .prefix
            .iter()
            .zip(&tables.stack_table.frame)
        {
            let caller = prefix.map_or(PathIx::NONE, |prefix| out[prefix as usize]);
            out.push(rows.path(caller, frames[frame as usize], trace));
        }
        out
    }

    fn frame(&self, tables: &Tables, row: usize, trace: &mut Trace) -> CodeFrame {
        let (f, funcs) = (&tables.frame_table, &tables.func_table);
        let func = f.func[row] as usize;
        let text = |row: Option<&u32>| {
            row.and_then(|&row| tables.string_array.get(row as usize))
                .map_or("", |text| text)
        };
        let resource = funcs
            .resource
            .get(func)
            .copied()
            .flatten()
            .and_then(|row| usize::try_from(row).ok());
        let lib = resource.and_then(|row| tables.resource_table.lib.get(row).copied().flatten());
        let lib = lib.and_then(|lib| self.libs.get(usize::try_from(lib).ok()?));
        let path = lib.map(|lib| {
            if lib.path.is_empty() {
                lib.name.as_str()
            } else {
                lib.path.as_str()
            }
        });
        let path = path
            .unwrap_or_else(|| text(resource.and_then(|row| tables.resource_table.name.get(row))));
        let own_file = funcs.file_name.get(func).and_then(Option::as_ref);
        let source = funcs.source.get(func).copied().flatten();
        let file = own_file.or(source.and_then(|row| tables.sources.filename.get(row as usize)));
        let category = f
            .category
            .get(row)
            .copied()
            .flatten()
            .and_then(|row| self.meta.categories.get(row as usize));
        let kind = match f.inline_depth.get(row) {
            Some(1..) => FrameKind::Inlined,
            _ if category.is_some_and(|c| c.name.eq_ignore_ascii_case("kernel")) => {
                FrameKind::Kernel
            }
            _ => FrameKind::Native,
        };
        let name = text(funcs.name.get(func));
        let mut intern = |text: &str| match text {
            "" => StrIx::NONE,
            text => trace.strings.intern(text),
        };
        let module = intern(path);
        if let Some(address) = nameless(name, path) {
            return CodeFrame {
                module,
                address,
                kind,
                ..CodeFrame::default()
            };
        }
        CodeFrame {
            function: intern(name),
            module,
            file: intern(text(file)),
            line: f.line.get(row).copied().flatten().unwrap_or(0),
            address: 0,
            kind,
        }
    }
}

/// The address of a place without a name: writers call it `0x1234` or, as Kasuri, `libc.so.6+0x1234`.
fn nameless(name: &str, module: &str) -> Option<u64> {
    let base = module.rsplit('/').next().unwrap_or_default();
    let address = match name
        .strip_prefix(base)
        .and_then(|rest| rest.strip_prefix('+'))
    {
        Some(address) if !base.is_empty() => address,
        _ => name,
    };
    u64::from_str_radix(address.strip_prefix("0x")?, 16).ok()
}

/// A number as number or text; of `1234.1`, the second life of a number, the number. 0: none.
fn number(value: &Value) -> i32 {
    let number = match value {
        Value::Number(number) => number
            .as_i64()
            .and_then(|number| i32::try_from(number).ok()),
        Value::String(text) => text.split('.').next().and_then(|text| text.parse().ok()),
        _ => None,
    };
    number.filter(|&number| number > 0).unwrap_or(0)
}
