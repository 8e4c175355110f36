//! Profiles of the Firefox Profiler: the processed form, as samply and `kasuri export` write it.
//!
//! The format is described by src/types/profile.ts of the profiler. Tables are columns; until some version each thread had its own, later all share them,
//! and the names of some columns differ. What is read of either:
//!
//! | profile | becomes |
//! |---|---|
//! | a sample with weight `tracing-ms` | so much time from then on; on a CPU where the next sample has CPU time (`threadCPUDelta`) |
//! | another sample | weight times the interval: its CPU time on a CPU, the rest of it waiting; all of it on a CPU where no CPU time is said, or in cycles (0: waiting) |
//! | one without CPU time in a frame of the category `Idle` | waiting |
//! | `weightType` `bytes` | nothing: it is no time |
//! | functions, lines, resources or libs, sources | frames with modules and files |
//! | markers, counters | nothing |
//!
//! A profile has no switches, so its samples weigh what it says, as those of perf.data without switches do. Kasuri's own exports have
//! states as stacks of one frame: these are time without a call path.
use crate::json_path::json_path;
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
/// A profile as Firefox itself writes it, without spaces: its tables have another form.
const RAW: &[u8] = br#"{"meta":{"version":"#;
const REMEDY: &str = "load it in profiler.firefox.com and save it again";
/// Most characters of what was found.
const FOUND_MAX: usize = 200;
/// The name that Firefox gives to the main thread of each process.
const MAIN: &str = "GeckoMain";
/// States of Kasuri's own exports: the first stacks.
const N_STATES: usize = 9;

/// Whether it is a single file that begins as a profile.
pub(crate) fn detect(files: &[File<'_>]) -> bool {
    let [file] = files else {
        return false;
    };
    let head = &file.bytes[..file.bytes.len().min(DETECT_BYTES)];
    is_raw(head)
        || head.trim_ascii_start().starts_with(b"{")
            && head.windows(KEY.len()).any(|part| part == KEY)
}

fn is_raw(bytes: &[u8]) -> bool {
    let text = bytes.iter().filter(|b| !b.is_ascii_whitespace());
    text.take(RAW.len()).eq(RAW)
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
    sample_units: Option<Units>,
    categories: Vec<Category>,
    symbolicated: Option<bool>,
    oscpu: Option<String>,
    #[serde(rename = "CPUName")]
    cpu_name: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Units {
    #[serde(rename = "threadCPUDelta")]
    thread_cpu_delta: String,
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
    /// In older profiles; later ones have those of frames.
    category: Vec<Option<u32>>,
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
    #[serde(rename = "isJS")]
    is_js: Vec<bool>,
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

impl Samples {
    /// Whether weights are ms.
    fn is_traced(&self) -> bool {
        self.weight_type.as_deref() == Some("tracing-ms")
    }

    /// ms of each.
    fn times(&self) -> Vec<f64> {
        if !self.time.is_empty() {
            return self.time.clone();
        }
        let mut now = 0.0;
        let later = |delta: &f64| {
            now += delta;
            now
        };
        self.time_deltas.iter().map(later).collect()
    }
}

/// A part of the file.
#[derive(Clone)]
struct Place {
    /// Where it begins.
    at: u64,
    path: String,
}

impl Place {
    fn new(whole: &str, text: &str, path: &str) -> Place {
        Place { at: offset_in(whole, text), path: path.to_owned() }
    }
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
    /// Of one sample without a weight, where a weight is no time.
    interval_ns: f64,
    /// Where that is not said.
    is_guessed: bool,
    /// For each row of `tables`, the stacks that wait.
    idle: Vec<Vec<bool>>,
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
    // Samples may lie outside of what is said.
    let first = first.into_iter().chain(times.clone()).min();
    let last = last.into_iter().chain(times).max();
    let first = first.unwrap_or_default().within_horizon();
    let last = last.unwrap_or_default().within_horizon();
    let known = std::mem::take(&mut profile.known);
    opened.setup = Setup {
        span: first..last.max(first),
        root_pids: profile.own_pids(&known),
        known: known.iter().map(|known| KnownThread { time: first, ..known.clone() }).collect(),
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
    Time((whole as i64).saturating_mul(1_000_000).saturating_add(rest))
}

/// What is wrong with JSON that is a part of the file, whose text `whole` is. The place is looked for from the beginning of both.
fn damage(whole: &str, text: &str, error: &serde_json::Error) -> FormatError {
    let lines = text.split_inclusive('\n');
    let before: usize = (lines.take(error.line().saturating_sub(1))).map(str::len).sum();
    let at = offset_in(whole, text) + (before + error.column().saturating_sub(1)) as u64;
    let kind = match error.is_eof() {
        true => ErrorKind::Truncated,
        false => ErrorKind::Damaged,
    };
    let said = error.to_string();
    // That place is in the part.
    let found = said.rsplit_once(" at line ").map_or(&*said, |(said, _)| said);
    // It may quote a value of any length.
    let found: String = found.chars().take(FOUND_MAX).collect();
    let what = at_path(&json_path(whole, at as usize));
    let needed = "a processed profile in JSON";
    FormatError::new(kind, what, at, found, needed).remedy(REMEDY)
}

/// What is read, with the place in it.
fn at_path(path: &str) -> String {
    match path {
        "" => WHAT.to_owned(),
        path => format!("{WHAT}, {path}"),
    }
}

/// Where a part of the file begins.
fn offset_in(whole: &str, text: &str) -> u64 {
    (text.as_ptr() as usize).saturating_sub(whole.as_ptr() as usize) as u64
}

impl Profile {
    fn read(file: File<'_>, is_salvage: bool) -> Result<Profile, FormatError> {
        if is_raw(file.bytes) {
            let found = "a profile as Firefox itself writes it";
            let needed = "a processed profile";
            let error = FormatError::new(ErrorKind::Version, WHAT, 0, found, needed);
            return Err(error.remedy(REMEDY));
        }
        let whole = str::from_utf8(file.bytes).map_err(|error| {
            let at = error.valid_up_to() as u64;
            let found = "bytes that are no UTF-8";
            FormatError::damaged(WHAT, at, found, "a processed profile in JSON").remedy(REMEDY)
        })?;
        let document: Document<'_> =
            serde_json::from_str(whole).map_err(|error| damage(whole, whole, &error))?;
        let mut out = Profile {
            meta: document.meta,
            libs: document.libs,
            tables: Vec::new(),
            threads: Vec::new(),
            rows: Vec::new(),
            interval_ns: 0.0,
            is_guessed: false,
            idle: Vec::new(),
            known: Vec::new(),
            is_salvage,
            damage: Vec::new(),
        };
        if let Some(shared) = document.shared {
            let shared = shared.get();
            let tables =
                serde_json::from_str(shared).map_err(|error| damage(whole, shared, &error))?;
            out.add_tables(tables, Place::new(whole, shared, "shared"))?;
        }
        let mut places = Vec::new();
        for (nth, raw) in document.threads.iter().enumerate() {
            let text = raw.get();
            let place = Place::new(whole, text, &format!("threads[{nth}]"));
            let read = || -> serde_json::Result<(Thread, Option<Tables>)> {
                let own = document.shared.is_none();
                let tables = own.then(|| serde_json::from_str(text)).transpose()?;
                Ok((serde_json::from_str(text)?, tables))
            };
            match read() {
                Ok((thread, tables)) => {
                    if let Some(tables) = tables {
                        out.add_tables(tables, place.clone())?;
                    }
                    places.push(place);
                    out.threads.push(thread);
                }
                Err(error) => out.pass_over(|| damage(whole, text, &error))?,
            }
        }
        out.set_interval();
        for (nth, place) in places.into_iter().enumerate() {
            out.add_samples(nth, &place)?;
        }
        if out.rows.is_empty()
            && out.threads.iter().any(|t| t.samples.weight_type.as_deref() == Some("bytes"))
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

    /// Passes over damage, if that is wanted. What it is is asked for where it is told: a profile may have millions of wrong values.
    fn pass_over(&mut self, damage: impl FnOnce() -> FormatError) -> Result<(), FormatError> {
        match self.is_salvage {
            true if self.damage.len() < 100 => self.damage.push(damage()),
            true => {}
            false => return Err(damage()),
        }
        Ok(())
    }

    /// Something wrong in a part of the profile.
    fn wrong(
        &mut self,
        place: &Place,
        path: &str,
        found: String,
        needed: &str,
    ) -> Result<(), FormatError> {
        self.pass_over(|| {
            let what = at_path(&format!("{}.{path}", place.path));
            FormatError::damaged(what, place.at, found, needed.to_owned()).remedy(REMEDY)
        })
    }

    /// Where the profile does not say the interval (profiles that were converted from lists without one), it is the median distance between two samples of a thread.
    fn set_interval(&mut self) {
        self.interval_ns = self.meta.interval.max(0.0) * 1e6;
        let needs_one = |t: &Thread| !t.samples.is_traced() && !t.samples.stack.is_empty();
        if self.interval_ns > 0.0 || !self.threads.iter().any(needs_one) {
            return;
        }
        let counted = self.threads.iter().filter(|t| needs_one(t));
        let mut distances: Vec<i64> = Vec::new();
        for thread in counted {
            let times = thread.samples.times();
            let times = times.windows(2).map(|pair| time(pair[1]).0 - time(pair[0]).0);
            distances.extend(times.filter(|ns| *ns > 0));
        }
        let middle = distances.len() / 2;
        if middle < distances.len() {
            self.interval_ns = *distances.select_nth_unstable(middle).1 as f64;
            self.is_guessed = true;
        }
    }

    /// Keeps tables in which stacks refer to earlier ones and to frames that are there.
    fn add_tables(&mut self, mut tables: Tables, place: Place) -> Result<(), FormatError> {
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
            self.wrong(&place, "stackTable.prefix", found, "as many as stacks")?;
            s.prefix.resize(n, None);
        }
        let is_wrong = |row: usize| {
            s.prefix[row].is_some_and(|prefix| prefix as usize >= row)
                || s.frame[row] as usize >= n_frames
        };
        if let Some(row) = (0..n).find(|&row| is_wrong(row)) {
            let found = match s.prefix[row] {
                Some(caller) => format!("frame {} and caller {caller}", s.frame[row]),
                None => format!("frame {}", s.frame[row]),
            };
            let needed = format!("an earlier stack, and a frame below {n_frames}");
            self.wrong(&place, &format!("stackTable[{row}]"), found, &needed)?;
            s.frame.truncate(row);
            s.prefix.truncate(row);
        }
        let idle = self.idle(&tables);
        self.idle.push(idle);
        self.tables.push(tables);
        Ok(())
    }

    /// Of each stack, whether its innermost frame with a category is of Firefox's category of waits.
    fn idle(&self, tables: &Tables) -> Vec<bool> {
        let s = &tables.stack_table;
        let mut idle: Vec<bool> = Vec::with_capacity(s.frame.len());
        for (row, (&frame, prefix)) in s.frame.iter().zip(&s.prefix).enumerate() {
            let of_stack = s.category.get(row).copied().flatten();
            let of_frame = tables.frame_table.category.get(frame as usize);
            let category = of_stack.or(of_frame.copied().flatten());
            idle.push(match category {
                Some(category) => {
                    let category = self.meta.categories.get(category as usize);
                    category.is_some_and(|category| category.name == "Idle")
                }
                None => prefix.is_some_and(|prefix| idle[prefix as usize]),
            });
        }
        idle
    }

    fn add_samples(&mut self, nth: usize, place: &Place) -> Result<(), FormatError> {
        let samples = std::mem::take(&mut self.threads[nth].samples);
        let added = self.add_samples_of(nth, &samples, place);
        self.threads[nth].samples.weight_type = samples.weight_type;
        added
    }

    fn add_samples_of(
        &mut self,
        nth: usize,
        s: &Samples,
        place: &Place,
    ) -> Result<(), FormatError> {
        if s.weight_type.as_deref() == Some("bytes") {
            return Ok(());
        }
        let times = s.times();
        let n = s.stack.len();
        let lengths = [
            Some(("time", times.len())),
            s.weight.as_ref().map(|weights| ("weight", weights.len())),
            (s.thread_cpu_delta.as_ref()).map(|deltas| ("threadCPUDelta", deltas.len())),
        ];
        if let Some((column, length)) = lengths.into_iter().flatten().find(|(_, len)| *len != n) {
            let path = format!("samples.{column}");
            let found = format!("{length} values for {n} stacks");
            return self.wrong(place, &path, found, "columns of one length");
        }
        let tables = nth.min(self.tables.len().saturating_sub(1));
        let n_stacks = self.idle.get(tables).map_or(0, Vec::len);
        for (row, &ms) in times.iter().enumerate() {
            let weight = s.weight.as_ref().map_or(1.0, |w| w[row].unwrap_or(1.0));
            let unit_ns = if s.is_traced() { 1e6 } else { self.interval_ns };
            let (stack, ns) = (s.stack[row], (weight * unit_ns).round() as i64);
            if let Some(stack) = stack.filter(|stack| *stack as usize >= n_stacks) {
                let needed = format!("a stack below {n_stacks}");
                let path = format!("samples.stack[{row}]");
                self.wrong(place, &path, stack.to_string(), &needed)?;
                continue;
            }
            if ns < 0 {
                let path = format!("samples.weight[{row}]");
                let needed = "times of 0 and above (the difference of two profiles is not read)";
                self.wrong(place, &path, weight.to_string(), needed)?;
                continue;
            }
            let is_idle = stack.is_some_and(|stack| self.idle[tables][stack as usize]);
            let on_cpu_ns = self.on_cpu_ns(s, row, ns, is_idle);
            let parts = [(SampleKind::OnCpu, on_cpu_ns), (SampleKind::BlockedRead, ns - on_cpu_ns)];
            for (kind, ns) in parts.into_iter().filter(|(_, ns)| *ns > 0) {
                if let Some((stack, kind)) = self.without_states(stack, kind) {
                    self.rows.push(Row {
                        thread: nth,
                        stack,
                        time: time(ms).within_horizon(),
                        kind,
                        ns,
                    });
                }
            }
        }
        Ok(())
    }

    /// The part of a sample's `ns` for which its thread was on a CPU.
    fn on_cpu_ns(&self, s: &Samples, row: usize, ns: i64, is_idle: bool) -> i64 {
        let deltas = s.thread_cpu_delta.as_ref();
        // A sample of a span has the CPU time of the span at the next one.
        let cpu = deltas.and_then(|deltas| *deltas.get(row + usize::from(s.is_traced()))?);
        let units = self.meta.sample_units.as_ref();
        let unit_ns = match units.map(|units| &*units.thread_cpu_delta) {
            Some("ns") => Some(1.0),
            Some("µs" | "\u{3bc}s" | "us") => Some(1e3),
            // Cycles, whose length is not known.
            _ => None,
        };
        match (cpu, unit_ns) {
            (None, _) if is_idle => 0,
            (None, _) => ns,
            (Some(cpu), _) if cpu <= 0.0 => 0,
            (Some(cpu), Some(unit_ns)) if !s.is_traced() => {
                ((cpu * unit_ns).round() as i64).clamp(0, ns)
            }
            (Some(_), _) => ns,
        }
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
            let process = thread.process_name.as_deref().unwrap_or_default();
            named.push(NamedThread {
                tid: number(&thread.tid),
                pid: number(&thread.pid),
                // All processes of Firefox have one of this name.
                name: match &*thread.name {
                    MAIN if !process.is_empty() => process,
                    name => name,
                },
                process,
            });
        }
        number_them(&named, self.meta.product.as_deref().unwrap_or_default())
    }

    fn info(&self) -> Info {
        let mut missing = vec![
            "a profile has samples and no switches: there is no account; `kasuri record` has it"
                .to_owned(),
        ];
        if self.is_guessed {
            missing.push(format!(
                "the profile does not say its interval: samples weigh {:.3} ms, the median distance between two",
                self.interval_ns / 1e6
            ));
        }
        let n_markers: u64 = self.threads.iter().map(|t| t.markers.length).sum();
        if n_markers > 0 {
            missing.push(format!("{n_markers} markers are not read; the profiler shows them"));
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
        let paths: Vec<Vec<PathIx>> =
            (self.tables.iter()).map(|tables| self.paths(tables, trace, &mut rows)).collect();
        let by_tid: HashMap<i32, u32> = (trace.threads.iter().enumerate())
            .map(|(row, thread)| (thread.tid, row as u32))
            .collect();
        let sample = |row: &Row| {
            let of_thread = paths.get(row.thread).filter(|_| paths.len() == self.threads.len());
            let paths = of_thread.or(paths.first());
            let path = row.stack.and_then(|stack| paths?.get(stack as usize).copied());
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
        for (prefix, &frame) in tables.stack_table.prefix.iter().zip(&tables.stack_table.frame) {
            let caller = prefix.map_or(PathIx::NONE, |prefix| out[prefix as usize]);
            out.push(rows.path(caller, frames[frame as usize], trace));
        }
        out
    }

    fn frame(&self, tables: &Tables, row: usize, trace: &mut Trace) -> CodeFrame {
        let (f, funcs) = (&tables.frame_table, &tables.func_table);
        let func = f.func[row] as usize;
        let text = |row: Option<&u32>| {
            row.and_then(|&row| tables.string_array.get(row as usize)).map_or("", |text| text)
        };
        let resource =
            funcs.resource.get(func).copied().flatten().and_then(|row| usize::try_from(row).ok());
        let lib = resource.and_then(|row| tables.resource_table.lib.get(row).copied().flatten());
        let lib = lib.and_then(|lib| self.libs.get(usize::try_from(lib).ok()?));
        let path =
            lib.map(|lib| if lib.path.is_empty() { lib.name.as_str() } else { lib.path.as_str() });
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
            _ if funcs.is_js.get(func) == Some(&true) => FrameKind::Interpreted,
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
            return CodeFrame { module, address, kind, ..CodeFrame::default() };
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
    let address = match name.strip_prefix(base).and_then(|rest| rest.strip_prefix('+')) {
        Some(address) if !base.is_empty() => address,
        _ => name,
    };
    u64::from_str_radix(address.strip_prefix("0x")?, 16).ok()
}

/// A number as number or text; of `1234.1`, the second life of a number, the number. 0: none.
fn number(value: &Value) -> i32 {
    let number = match value {
        Value::Number(number) => number.as_i64().and_then(|number| i32::try_from(number).ok()),
        Value::String(text) => text.split('.').next().and_then(|text| text.parse().ok()),
        _ => None,
    };
    number.filter(|&number| number > 0).unwrap_or(0)
}
