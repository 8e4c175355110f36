//! Call paths of any format as columns of the model.
//!
//! A file has paths of addresses, with names for addresses ([`expand`]), or paths of functions ([`PathRows`]). Either way each function that was inlined has a
//! frame of its own, and chains that are the same in the source become one path.
use kasuri_base::call_path::IN_PYTHON;
use kasuri_format::call_paths::{Call, ModuleKind, Names, Tables};
use kasuri_model::{
    Duration, FrameIx, FrameKind, PathIx, SampleKind, StrIx, ThreadIx, Time, Trace,
};
use std::collections::HashMap;

/// Most ns that the samples of a file may weigh together.
const WEIGHTS_MAX: i64 = 1 << 61;

/// A row of [`kasuri_model::CodeFrames`].
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct CodeFrame {
    pub function: StrIx,
    pub module: StrIx,
    pub file: StrIx,
    pub line: u32,
    pub address: u64,
    pub kind: FrameKind,
}

/// The frames and paths of a trace while they are made: equal ones are one row.
#[derive(Default)]
pub(crate) struct PathRows {
    /// The row of each different function, so that a function called from many addresses is one.
    frames: HashMap<CodeFrame, FrameIx>,
    /// The row of each different (caller, function), which makes chains with the same functions one path.
    paths: HashMap<(PathIx, FrameIx), PathIx>,
}

impl PathRows {
    /// The row of a frame, new if no frame is equal.
    pub fn frame(&mut self, frame: CodeFrame, trace: &mut Trace) -> FrameIx {
        let frames = &mut trace.frames;
        *self.frames.entry(frame.clone()).or_insert_with(|| {
            frames.function.push(frame.function);
            frames.module.push(frame.module);
            frames.file.push(frame.file);
            frames.line.push(frame.line);
            frames.address.push(frame.address);
            frames.kind.push(frame.kind);
            FrameIx(frames.function.len() as u32 - 1)
        })
    }

    /// The row of the path to `frame` from its caller, which is none for an outermost frame.
    pub fn path(&mut self, caller: PathIx, frame: FrameIx, trace: &mut Trace) -> PathIx {
        let paths = &mut trace.paths;
        *self.paths.entry((caller, frame)).or_insert_with(|| {
            paths.caller.push(caller);
            paths.frame.push(frame);
            PathIx(paths.frame.len() as u32 - 1)
        })
    }
}

/// Adds all frames and paths of `tables`; gives the path in `trace` of each path there.
pub(crate) fn expand(tables: &Tables, trace: &mut Trace) -> Vec<PathIx> {
    for module in tables.modules.iter().filter(|m| !m.path.is_empty()) {
        if !module.build_id.is_empty() {
            let path = trace.strings.intern(&module.path);
            let id = || module.build_id.clone().into_boxed_slice();
            trace.build_ids.entry(path).or_insert_with(id);
        }
    }
    Expansion::new(tables).paths(trace)
}

/// Turns addresses into functions.
struct Expansion<'a> {
    tables: &'a Tables,
    /// Row of `tables.names` for a row of `tables.frames`.
    /// Names are a table of their own because they may come later than the frames, from `kasuri symbolize`.
    names: HashMap<u32, usize>,
    rows: PathRows,
}

impl<'a> Expansion<'a> {
    fn new(tables: &'a Tables) -> Expansion<'a> {
        let names = tables.names.iter().enumerate();
        Expansion {
            tables,
            names: names.map(|(row, names)| (names.frame, row)).collect(),
            rows: PathRows::default(),
        }
    }

    /// Adds all frames and paths; gives the path in `trace` of each path of the recording.
    fn paths(&mut self, trace: &mut Trace) -> Vec<PathIx> {
        let mut functions: Vec<Vec<FrameIx>> = Vec::with_capacity(self.tables.frames.len());
        for frame in 0..self.tables.frames.len() {
            functions.push(self.functions(frame, trace));
        }
        let mut rows: Vec<PathIx> = Vec::with_capacity(self.tables.paths.len());
        // Paths refer to earlier paths (kasuri_format refuses others), so the row of the caller is known. `NONE` lies
        // behind all rows: an outermost frame.
        for path in &self.tables.paths {
            let mut row = rows.get(path.caller as usize).copied().unwrap_or_default();
            for &frame in functions.get(path.frame as usize).into_iter().flatten() {
                row = self.rows.path(row, frame, trace);
            }
            rows.push(row);
        }
        rows
    }

    /// The functions that one address stands for, outermost first.
    fn functions(&mut self, frame: usize, trace: &mut Trace) -> Vec<FrameIx> {
        let place = self.tables.frames[frame];
        let module = self.tables.modules.get(place.module as usize);
        let kind = match module.map(|m| m.kind) {
            Some(ModuleKind::Kernel) => FrameKind::Kernel,
            Some(ModuleKind::Jit) => FrameKind::Jit,
            _ => FrameKind::Native,
        };
        let module = match module {
            Some(module) if !module.path.is_empty() => trace.strings.intern(&module.path),
            _ => StrIx::NONE,
        };
        let names: Option<&Names> =
            self.names.get(&(frame as u32)).map(|&row| &self.tables.names[row]);
        // Innermost first: the function whose code was inlined deepest, and last the one that the symbol table names.
        let calls: &[Call] = names.map_or(&[], |names| &names.calls);
        // Kasuri's own code is not the program's: what it calls is called by who called it.
        if is_own_module(trace.strings.get(module)) {
            return Vec::new();
        }
        if calls.is_empty() {
            let nameless = CodeFrame {
                function: StrIx::NONE,
                module,
                file: StrIx::NONE,
                line: 0,
                address: place.address,
                kind,
            };
            return vec![self.rows.frame(nameless, trace)];
        }
        let outermost = calls.len() - 1;
        let mut rows = Vec::with_capacity(calls.len());
        for (ix, call) in calls.iter().enumerate().rev() {
            if is_own_function(call) {
                continue;
            }
            let mut intern = |text: &str| match text {
                "" => StrIx::NONE,
                text => trace.strings.intern(text),
            };
            let function = intern(&call.function);
            let named = CodeFrame {
                function,
                module,
                file: intern(&call.file),
                line: call.line,
                // A named function is one frame wherever in it the thread was. A nameless place keeps its address, by
                // which it may still be told from others.
                address: if function.is_some() { 0 } else { place.address },
                kind: match kind {
                    FrameKind::Native if ix != outermost => FrameKind::Inlined,
                    FrameKind::Jit if call.function.starts_with(IN_PYTHON) => {
                        FrameKind::Interpreted
                    }
                    kind => kind,
                },
            };
            rows.push(self.rows.frame(named, trace));
        }
        rows
    }
}

/// Whether the path of a library is one of Kasuri's, which a program has because it is recorded: `libkasuri.so.0`, `libkasuri-locks.so`.
fn is_own_module(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let rest = name.strip_prefix("libkasuri").unwrap_or_default();
    rest.starts_with(['.', '-']) && rest.contains(".so")
}

/// Whether a function comes from the annotations' header, which programs compile in.
fn is_own_function(call: &Call) -> bool {
    let file = call.file.rsplit('/').next().unwrap_or_default();
    file == "kasuri.h" || (call.function.starts_with("kasuri__") && !call.function.contains("::"))
}

/// Rows of threads by tid, to find the one that lived at a moment.
pub(crate) struct Lives(HashMap<i32, Vec<ThreadIx>>);

impl Lives {
    pub fn new(trace: &Trace) -> Lives {
        let mut threads: HashMap<i32, Vec<ThreadIx>> = HashMap::new();
        for (row, thread) in trace.threads.iter().enumerate() {
            let of_tid = threads.entry(thread.tid).or_default();
            of_tid.push(ThreadIx(row as u32));
        }
        for lives in threads.values_mut() {
            // Stable: of two that begin at once the later row stays the later one.
            lives.sort_by_key(|thread| trace.threads[thread.ix()].alive.start);
        }
        Lives(threads)
    }

    /// Of several lives of one number the last that had begun; stamps of births may be a little late. A moment before all births belongs to the
    /// earliest life. None: no thread has this number.
    pub fn of(&self, trace: &Trace, tid: i32, time: Time) -> Option<ThreadIx> {
        let lives = self.0.get(&tid)?;
        let start = |thread: &ThreadIx| trace.threads[thread.ix()].alive.start;
        let begun = lives.partition_point(|thread| start(thread) <= time);
        lives.get(begun.saturating_sub(1)).copied()
    }
}

/// A row of [`kasuri_model::Samples`].
#[derive(Clone, Copy)]
pub(crate) struct Sample {
    pub thread: ThreadIx,
    pub time: Time,
    /// u16::MAX: not known.
    pub cpu: u16,
    pub kind: SampleKind,
    pub is_complete: bool,
    pub path: PathIx,
    /// CPU time that it stands for, where the file says so.
    pub weight: Duration,
}

/// Adds samples in the model's order. `is_weighed`: the file has no scheduler's events, so the samples' own weights are all that is known.
pub(crate) fn add_samples(trace: &mut Trace, mut rows: Vec<Sample>, is_weighed: bool) {
    // Stable: two samples at one instant stay in the order of the file.
    rows.sort_by_key(|row| (row.thread, row.time));
    let samples = &mut trace.samples;
    // What a file claims beyond this is damage: no sum of weights may leave the range of times.
    let (mut left, mut is_cut) = (WEIGHTS_MAX, false);
    for row in rows {
        samples.time.push(row.time);
        samples.thread.push(row.thread);
        samples.cpu.push(row.cpu);
        samples.kind.push(row.kind);
        samples.is_complete.push(row.is_complete);
        samples.path.push(row.path);
        if is_weighed {
            let weight = row.weight.0.clamp(0, left);
            left -= weight;
            samples.weight.push(Duration(weight));
            is_cut |= weight < row.weight.0;
        }
    }
    if is_cut {
        let missing = "samples claim more time than 73 years together: what is beyond is left out";
        trace.info.missing.push(missing.to_owned());
    }
}
