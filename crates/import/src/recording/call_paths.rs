//! Turns the call paths of a recording into columns.
//!
//! A recording has one path for each chain of addresses, and names for addresses. Here each address becomes the functions that it
//! stands for, what was inlined included, and chains that are the same in the source become one path.
use kasuri_format::call_paths::{
    Call, ModuleKind, NONE, Names, PathEnd, SampleKind as Kind, Tables,
};
use kasuri_format::container::{BlockKind, Recording};
use kasuri_format::meta::SamplingRow;
use kasuri_model::{
    FrameIx, FrameKind, PathIx, SampleKind, SamplingChange, StrIx, ThreadIx, Time, Trace,
};
use std::collections::HashMap;

/// Fills `trace.frames`, `paths`, `samples` and `sampling`; gives the number of samples whose thread is not known.
/// Blocks that cannot be decoded were reported when the recording was opened, or are passed over.
pub(super) fn add_to(
    trace: &mut Trace,
    recording: &Recording<'_>,
    at: impl Fn(u64) -> Time,
) -> u64 {
    let mut expansion = Expansion::new(recording.call_paths());
    let path_of = expansion.paths(trace);
    trace.sampling = recording
        .sampling()
        .iter()
        .map(|row| change(row, &at))
        .collect();
    // Readers look the changes up by time.
    trace.sampling.sort_by_key(|change| change.time);
    add_samples(trace, recording, &path_of, at)
}

/// One change of the sampling, in the model's types. A CPU number that the model cannot hold counts as all CPUs.
fn change(row: &SamplingRow, at: impl Fn(u64) -> Time) -> SamplingChange {
    SamplingChange {
        time: at(row.monotonic_ns),
        source: row.source.clone(),
        on: row.on,
        cpu: row.cpu.and_then(|cpu| u16::try_from(cpu).ok()),
        period_ns: row.period_ns,
        lost: row.lost,
        reason: row.reason.clone(),
    }
}

/// A row of [`kasuri_model::CodeFrames`].
#[derive(Clone, PartialEq, Eq, Hash)]
struct CodeFrame {
    function: StrIx,
    module: StrIx,
    file: StrIx,
    line: u32,
    address: u64,
    kind: FrameKind,
}

/// Turns addresses into functions.
struct Expansion<'a> {
    tables: &'a Tables,
    /// Row of `tables.names` for a row of `tables.frames`.
    /// Names are a table of their own because they may come later than the frames, from `kasuri symbolize`.
    names: HashMap<u32, usize>,
    /// The row of each different function, so that a function called from many addresses is one.
    frame_rows: HashMap<CodeFrame, FrameIx>,
    /// The row of each different (caller, function), which makes chains with the same functions one path.
    path_rows: HashMap<(PathIx, FrameIx), PathIx>,
}

impl<'a> Expansion<'a> {
    fn new(tables: &'a Tables) -> Expansion<'a> {
        let names = tables.names.iter().enumerate();
        Expansion {
            tables,
            names: names.map(|(row, names)| (names.frame, row)).collect(),
            frame_rows: HashMap::new(),
            path_rows: HashMap::new(),
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
                row = *self.path_rows.entry((row, frame)).or_insert_with(|| {
                    trace.paths.caller.push(row);
                    trace.paths.frame.push(frame);
                    PathIx(trace.paths.frame.len() as u32 - 1)
                });
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
        let names: Option<&Names> = self
            .names
            .get(&(frame as u32))
            .map(|&row| &self.tables.names[row]);
        // Innermost first: the function whose code was inlined deepest, and last the one that the symbol table names.
        let calls: &[Call] = names.map_or(&[], |names| &names.calls);
        if calls.is_empty() {
            let nameless = CodeFrame {
                function: StrIx::NONE,
                module,
                file: StrIx::NONE,
                line: 0,
                address: place.address,
                kind,
            };
            return vec![self.frame_row(nameless, trace)];
        }
        let outermost = calls.len() - 1;
        let mut rows = Vec::with_capacity(calls.len());
        for (ix, call) in calls.iter().enumerate().rev() {
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
                    kind => kind,
                },
            };
            rows.push(self.frame_row(named, trace));
        }
        rows
    }

    /// The row of a frame, new if no frame is equal.
    fn frame_row(&mut self, frame: CodeFrame, trace: &mut Trace) -> FrameIx {
        let frames = &mut trace.frames;
        *self.frame_rows.entry(frame.clone()).or_insert_with(|| {
            frames.function.push(frame.function);
            frames.module.push(frame.module);
            frames.file.push(frame.file);
            frames.line.push(frame.line);
            frames.address.push(frame.address);
            frames.kind.push(frame.kind);
            FrameIx(frames.function.len() as u32 - 1)
        })
    }
}

/// Rows of threads by tid, to find the one that lived at a moment.
fn threads_by_tid(trace: &Trace) -> HashMap<i32, Vec<ThreadIx>> {
    let mut threads: HashMap<i32, Vec<ThreadIx>> = HashMap::new();
    for (row, thread) in trace.threads.iter().enumerate() {
        threads
            .entry(thread.tid)
            .or_default()
            .push(ThreadIx(row as u32));
    }
    threads
}

fn add_samples(
    trace: &mut Trace,
    recording: &Recording<'_>,
    path_of: &[PathIx],
    at: impl Fn(u64) -> Time,
) -> u64 {
    let threads = threads_by_tid(trace);
    let mut rows = Vec::new();
    let mut unknown = 0;
    for (ix, block) in recording.blocks().iter().enumerate() {
        if block.kind != BlockKind::Samples {
            continue;
        }
        // A block that cannot be decoded has no samples here; `add_to` says where that is reported.
        for sample in recording.sample_block(ix).unwrap_or_default() {
            let time = at(sample.time_ns);
            let lives = threads.get(&sample.tid).map_or(&[][..], |lives| lives);
            // Of several lives of one number the last that had begun; stamps of births may be a little late.
            let start = |thread: &&ThreadIx| trace.threads[thread.ix()].alive.start;
            let begun = lives.iter().filter(|thread| start(thread) <= time);
            // A sample before all births belongs to the earliest life, as the stamp of its birth is the late one.
            let first = || lives.iter().min_by_key(start);
            let Some(&thread) = begun.max_by_key(start).or_else(first) else {
                unknown += 1;
                continue;
            };
            rows.push((thread, time, sample));
        }
    }
    // The model's order. Stable: two samples at one instant stay in the recorder's order.
    rows.sort_by_key(|&(thread, time, _)| (thread, time));
    let samples = &mut trace.samples;
    for (thread, time, sample) in rows {
        // A stack that was read from outside, while the thread slept, belongs to no CPU; the file has 0.
        let is_read = sample.kind == Kind::BlockedRead;
        samples.time.push(time);
        samples.thread.push(thread);
        samples.cpu.push(match u16::try_from(sample.cpu) {
            Ok(cpu) if !is_read => cpu,
            _ => u16::MAX,
        });
        samples.kind.push(match sample.kind {
            Kind::OnCpu => SampleKind::OnCpu,
            Kind::Blocked => SampleKind::Blocked,
            Kind::BlockedRead => SampleKind::BlockedRead,
            Kind::Waker => SampleKind::Waker,
            Kind::LockWait => SampleKind::LockWait,
        });
        samples.is_complete.push(sample.end == PathEnd::Complete);
        samples.path.push(match sample.path {
            NONE => PathIx::NONE,
            path => path_of.get(path as usize).copied().unwrap_or_default(),
        });
    }
    unknown
}
