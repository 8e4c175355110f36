//! Encoding and deflating on all CPUs, and where everything ends up in the file.
//!
//! A *block* is the piece that the viewer inflates at once: one unit of a long line, or the units of many short ones.
//! Blocks are base64, because a browser opens that faster than a page of raw bytes in a one-byte charset, although it
//! is a quarter larger, and because no server's charset header can break it. Blocks stand in *tags* (`<script>`
//! elements) of about [`TAG_BYTES`]: many such tags are parsed faster than one.
//!
//! [`Job::new`] builds the levels of detail of all lines in parallel; [`Layout::of`] lists the blocks ([`sources`]), and so
//! knows where everything will be before any of it is encoded. A page that is served ([`super::Served`]) needs no more: its
//! blocks are encoded when they are asked for ([`Job::bytes`]). For a file [`pack`] encodes and deflates all blocks in
//! parallel, and assigns them to tags ([`tags`]). The order of the file is the order in which the viewer needs the blocks:
//!
//! 1. overviews and mixes, for the first picture;
//! 2. lines too short to have levels, complete;
//! 3. finer levels of long lines, in tiles: those of one time beside each other, coarse to fine;
//! 4. items of long lines;
//! 5. tables of tasks and flows;
//! 6. call paths.
use super::call_paths::Spread;
use super::columns::{self, Objects, Raw, UNIT_ITEMS, Unit, column};
use super::lod::Level;
use super::plan::{Kind, Line, Plan};
use super::{Options, call_paths, lod};
use base64::Engine;
use flate2::{Compress, Compression, FlushCompress};
use kasuri_analyze::call_paths::Piece;
use kasuri_model::{SliceKind, ThreadIx, Time, Trace};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Base64 text of one tag, roughly.
const TAG_BYTES: usize = 1_400_000;
/// Undeflated size up to which short units share a block.
const BLOCK_BYTES: usize = 128 * 1024;
/// Base64 text that stands before the viewer's code besides the overview: short lines, complete. More would delay the
/// first picture.
const FIRST_BYTES: usize = 600_000;
/// Rows of the task and flow tables in one unit.
const TABLE_ROWS: usize = 65_536;

/// A line's levels of detail.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Levels {
    /// Buckets of the finest level; 0: there are none.
    pub buckets: u32,
    /// The tiles of the levels that are stored ([`lod::stored`]), from the coarsest, which is one tile, to the finest.
    pub tiles: Vec<Unit>,
}

/// A deflated block.
#[derive(Clone, Debug, Default)]
pub struct Block {
    /// Deflated, base64.
    pub text: String,
    /// Undeflated size, bytes.
    pub raw: u32,
    /// Number of its tag, and offset in the tag's text.
    pub tag: u32,
    /// See `tag`.
    pub offset: u32,
}

/// Where everything is: known before anything is encoded.
#[derive(Debug, Default)]
pub struct Layout {
    /// What each block holds, in the order of the file.
    blocks: Vec<Vec<Source>>,
    /// How many blocks stand before the viewer's code at least.
    first: usize,
    /// Units of each line.
    pub units: Vec<Vec<Unit>>,
    /// Levels of each line.
    pub levels: Vec<Levels>,
    /// Units of the task table.
    pub tasks: Vec<Unit>,
    /// Units of the flow table.
    pub flows: Vec<Unit>,
    /// Units of the table of code frames.
    pub frames: Vec<Unit>,
    /// Units of the tree of paths.
    pub paths: Vec<Unit>,
    /// Units of samples, each of one thread: the thread's row, and the unit.
    pub samples: Vec<(u32, Unit)>,
    /// Units of the table of unsampled time, and the cells that a thread's time is cut into.
    pub unsampled: Vec<Unit>,
    /// See `unsampled`.
    pub cells: usize,
    /// Units of pieces, each of one CPU: the CPU's number, and the unit.
    pub pieces: Vec<(u32, Unit)>,
    /// Mixes of the account's lines.
    pub mixes: Vec<Unit>,
}

/// Everything, deflated.
#[derive(Debug, Default)]
pub struct Packed {
    /// Blocks in the order of the file.
    pub blocks: Vec<Block>,
    /// Blocks of each tag.
    pub tags: Vec<std::ops::Range<usize>>,
    /// Tags that stand before the viewer's code.
    pub first_tags: usize,
    /// See [`super::Stats::clamped`].
    pub clamped: u64,
}

/// The contents of a piece of a block. `line` is a position in [`Plan::lines`], `from` and `to` are rows.
#[derive(Clone, Debug)]
enum Source {
    Items {
        line: usize,
        from: usize,
        to: usize,
    },
    /// `level` is a position in the line's stored levels, `tile` one in the level.
    Tile {
        line: usize,
        level: usize,
        tile: usize,
    },
    Mix {
        line: usize,
    },
    Tasks {
        from: usize,
        to: usize,
    },
    Flows {
        from: usize,
        to: usize,
    },
    Frames {
        from: usize,
        to: usize,
    },
    Paths {
        from: usize,
        to: usize,
    },
    Samples {
        from: usize,
        to: usize,
    },
    Unsampled {
        from: usize,
        to: usize,
    },
    Pieces {
        from: usize,
        to: usize,
    },
}

/// What encodes a block: shared by all threads.
pub struct Job<'a> {
    /// The recording.
    pub trace: &'a Trace,
    /// Its lines.
    pub plan: Plan,
    /// Lock and wait objects.
    pub objects: Objects,
    runs: Vec<Runs>,
    spread: Spread,
    pieces: &'a [Piece],
    /// The stored levels of each line, coarse to fine.
    levels: Vec<Vec<Level>>,
    level: Compression,
    workers: usize,
}

/// A summary of a task's [`SliceKind::TaskRun`] slices.
#[derive(Clone, Copy)]
struct Runs {
    /// The thread that ran it first.
    runner: ThreadIx,
    /// When that thread began to run it.
    since: Time,
    /// How long it ran in all.
    ns: u64,
}

/// The runs of each task.
fn runs(trace: &Trace) -> Vec<Runs> {
    let none = Runs { runner: ThreadIx::NONE, since: Time::MAX, ns: 0 };
    let mut runs = vec![none; trace.tasks.len()];
    if runs.is_empty() {
        return runs;
    }
    let slices = &trace.slices;
    for (row, kind) in slices.kind.iter().enumerate() {
        if *kind != SliceKind::TaskRun {
            continue;
        }
        let Some(run) = runs.get_mut(slices.task[row].ix()) else {
            continue;
        };
        run.ns += (slices.end[row].0 - slices.start[row].0).max(0) as u64;
        if slices.start[row] < run.since {
            (run.runner, run.since) = (slices.thread[row], slices.start[row]);
        }
    }
    runs
}

impl<'a> Job<'a> {
    /// Builds the levels of detail, and gathers what encoding needs.
    pub fn new(trace: &'a Trace, plan: Plan, options: &Options<'a>) -> Job<'a> {
        let workers = match options.workers {
            0 => std::thread::available_parallelism().map_or(1, |n| n.get()),
            n => n,
        };
        let longest = lod::longest(trace, &plan);
        let levels = each(workers, plan.lines.len(), Vec::new, |share, i| {
            levels_of(trace, &plan, &longest, share, i)
        });
        Job {
            trace,
            objects: Objects::of(trace),
            runs: runs(trace),
            spread: Spread::of(trace, &plan, options.cover),
            pieces: options.pieces,
            levels,
            level: Compression::new(options.level.clamp(1, 9)),
            workers,
            plan,
        }
    }
}

/// Encodes and deflates everything.
pub fn pack(job: &Job<'_>, layout: &Layout) -> Packed {
    let coders = || (Compress::new(job.level, false), Raw::default());
    let blocks = &layout.blocks;
    let done = each(job.workers, blocks.len(), coders, |(deflate, raw), i| {
        job.block(&blocks[i], deflate, raw)
    });
    let mut packed = Packed::default();
    for (block, clamped) in done {
        packed.blocks.push(block);
        packed.clamped += clamped;
    }
    tags(&mut packed, layout.first);
    packed
}

/// Runs `work(scratch, i)` for `i` in `0..n` on `workers` threads; the results in order.
fn each<S, T: Send>(
    workers: usize,
    n: usize,
    scratch: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, usize) -> T + Sync,
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, T)>> = Mutex::new(Vec::with_capacity(n));
    std::thread::scope(|scope| {
        for _ in 0..workers.min(n) {
            scope.spawn(|| {
                // Each thread has scratch of its own, such as a compressor.
                let mut own = scratch();
                loop {
                    // ORDER relaxed: only hands out numbers; the results are published by the mutex and the join.
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    if i >= n {
                        return;
                    }
                    let result = work(&mut own, i);
                    done.lock().unwrap_or_else(|e| e.into_inner()).push((i, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(|e| e.into_inner());
    // Threads finish in any order.
    done.sort_unstable_by_key(|&(i, _)| i);
    done.into_iter().map(|(_, result)| result).collect()
}

/// The stored levels of a line, coarse to fine; none for counters and short lines. `share` is scratch.
fn levels_of(
    trace: &Trace,
    plan: &Plan,
    longest: &[(i64, u32)],
    share: &mut Vec<u64>,
    line: usize,
) -> Vec<Level> {
    let line = &plan.lines[line];
    let mut levels = Vec::new();
    let Some(finest) = finest(line) else {
        return levels;
    };
    let mut level = lod::build(trace, plan, longest, line, finest, share);
    for n in lod::stored(finest).into_iter().rev() {
        while level.value.len() > n {
            level = level.halve(line.kind);
        }
        levels.push(level.clone());
    }
    levels.reverse();
    levels
}

/// Buckets of a line's finest level; none: it has no levels. Counters are drawn as heights, which a level does not hold.
fn finest(line: &Line) -> Option<usize> {
    let n = lod::buckets(line.rows.len());
    (n > 0 && line.kind != Kind::Counter).then_some(n)
}

/// The blocks in the order of the file, and how many of them stand before the viewer's code at least.
fn sources(job: &Job<'_>) -> (Vec<Vec<Source>>, usize) {
    let (trace, plan) = (job.trace, &job.plan);
    let mut packer = Packer::default();
    let n = plan.lines.len();
    // Those of one instant beside each other, since rows are looked at together.
    let mut tiles: Vec<(usize, usize, usize, usize)> = Vec::new();
    for (line, levels) in job.levels.iter().enumerate() {
        for (level, buckets) in levels.iter().map(|level| level.value.len()).enumerate() {
            tiles.extend((0..buckets / lod::OVERVIEW).map(|tile| (buckets, tile, line, level)));
        }
    }
    tiles.sort_unstable();
    let (overviews, finer) = tiles.split_at(tiles.partition_point(|tile| tile.0 == lod::OVERVIEW));
    let push = |packer: &mut Packer, &(_, tile, line, level): &(usize, usize, usize, usize)| {
        packer.push(Source::Tile { line, level, tile }, lod::OVERVIEW * 4);
    };
    overviews.iter().for_each(|tile| push(&mut packer, tile));
    packer.flush();
    // The picture of the account is part of the first picture.
    for line in (0..n).filter(|&line| plan.lines[line].kind == Kind::Account) {
        packer.push(Source::Mix { line }, plan.segments.buckets * 16);
    }
    packer.flush();
    let first = packer.blocks.len();
    let items = |packer: &mut Packer, line: usize| {
        let len = plan.lines[line].rows.len();
        for from in (0..len).step_by(UNIT_ITEMS) {
            let to = (from + UNIT_ITEMS).min(len);
            packer.push(Source::Items { line, from, to }, (to - from) * 10);
        }
    };
    (0..n).filter(|&line| job.levels[line].is_empty()).for_each(|line| items(&mut packer, line));
    packer.flush();
    finer.iter().for_each(|tile| push(&mut packer, tile));
    packer.flush();
    (0..n).filter(|&line| !job.levels[line].is_empty()).for_each(|line| items(&mut packer, line));
    packer.flush();
    let table = |packer: &mut Packer, rows: usize, source: fn(usize, usize) -> Source| {
        for from in (0..rows).step_by(TABLE_ROWS) {
            packer.push(source(from, (from + TABLE_ROWS).min(rows)), TABLE_ROWS * 8);
        }
        packer.flush();
    };
    table(&mut packer, trace.tasks.len(), |from, to| Source::Tasks { from, to });
    table(&mut packer, trace.flows.id.len(), |from, to| Source::Flows { from, to });
    if !trace.samples.time.is_empty() {
        code_sources(job, &mut packer, table);
    }
    (packer.blocks, first)
}

/// The blocks of call paths. Without samples nobody asks for the code that they were in.
fn code_sources(
    job: &Job<'_>,
    packer: &mut Packer,
    table: impl Fn(&mut Packer, usize, fn(usize, usize) -> Source),
) {
    let Trace { frames, paths, samples, .. } = job.trace;
    table(packer, frames.kind.len(), |from, to| Source::Frames { from, to });
    table(packer, paths.frame.len(), |from, to| Source::Paths { from, to });
    let holes = job.spread.holes.len();
    table(packer, holes, |from, to| Source::Unsampled { from, to });
    for (from, to) in call_paths::units(samples.thread.len(), |row| samples.thread[row]) {
        packer.push(Source::Samples { from, to }, (to - from) * 10);
    }
    packer.flush();
    for (from, to) in call_paths::units(job.pieces.len(), |row| job.pieces[row].cpu) {
        packer.push(Source::Pieces { from, to }, (to - from) * 8);
    }
    packer.flush();
}

/// Groups pieces into blocks of about [`BLOCK_BYTES`], by estimates of their size.
#[derive(Default)]
struct Packer {
    blocks: Vec<Vec<Source>>,
    open: Vec<Source>,
    bytes: usize,
}

impl Packer {
    /// Adds a source, and begins a new block where this one is full.
    fn push(&mut self, source: Source, bytes: usize) {
        if self.bytes + bytes > BLOCK_BYTES {
            self.flush();
        }
        self.open.push(source);
        self.bytes += bytes;
    }

    /// Ends the open block. Called between groups too, so that no block mixes what is needed at different times.
    fn flush(&mut self) {
        if !self.open.is_empty() {
            self.blocks.push(std::mem::take(&mut self.open));
        }
        self.bytes = 0;
    }
}

impl Layout {
    /// Where everything of `job` is.
    pub fn of(job: &Job<'_>) -> Layout {
        let (blocks, first) = sources(job);
        let n = job.plan.lines.len();
        let mut layout = Layout {
            first,
            cells: job.spread.cells,
            units: vec![Vec::new(); n],
            levels: vec![Levels::default(); n],
            ..Layout::default()
        };
        for (block, sources) in blocks.iter().enumerate() {
            for (part, source) in sources.iter().enumerate() {
                let unit = Unit { block: block as u32, part: part as u32, ..job.extent(source) };
                layout.put(job, source, unit);
            }
        }
        layout.blocks = blocks;
        layout
    }

    /// Enters a unit into the list that it is looked for in.
    fn put(&mut self, job: &Job<'_>, source: &Source, unit: Unit) {
        match *source {
            Source::Items { line, .. } => self.units[line].push(unit),
            Source::Tile { line, level, .. } => {
                let buckets = job.levels[line][level].value.len() as u32;
                let levels = &mut self.levels[line];
                levels.buckets = levels.buckets.max(buckets);
                levels.tiles.push(unit);
            }
            Source::Mix { .. } => self.mixes.push(unit),
            Source::Tasks { .. } => self.tasks.push(unit),
            Source::Flows { .. } => self.flows.push(unit),
            Source::Frames { .. } => self.frames.push(unit),
            Source::Paths { .. } => self.paths.push(unit),
            Source::Unsampled { .. } => self.unsampled.push(unit),
            Source::Pieces { from, .. } => {
                self.pieces.push((job.pieces[from].cpu.into(), unit));
            }
            Source::Samples { from, .. } => {
                self.samples.push((job.trace.samples.thread[from].0, unit));
            }
        }
    }

    /// What block `number` holds, as the viewer reads it; none: there is no such block.
    pub fn bytes(&self, job: &Job<'_>, number: usize) -> Option<Vec<u8>> {
        let mut raw = Raw::default();
        job.encode(self.blocks.get(number)?, &mut raw);
        Some(raw.bytes)
    }
}

impl Job<'_> {
    /// Encodes and deflates a block; also how many items had to be cut.
    fn block(&self, sources: &[Source], deflate: &mut Compress, raw: &mut Raw) -> (Block, u64) {
        raw.clear();
        let clamped = self.encode(sources, raw);
        let block = Block {
            text: deflated(deflate, &raw.bytes, &raw.cuts),
            raw: raw.bytes.len() as u32,
            tag: 0,
            offset: 0,
        };
        (block, clamped)
    }

    /// Encodes a block: where each of its units begins (u32), then the units. Returns how many items had to be cut.
    fn encode(&self, sources: &[Source], raw: &mut Raw) -> u64 {
        raw.bytes.resize(4 * sources.len(), 0);
        let mut clamped = 0;
        for (part, source) in sources.iter().enumerate() {
            let at = raw.bytes.len() as u32;
            raw.bytes[4 * part..4 * part + 4].copy_from_slice(&at.to_le_bytes());
            clamped += self.unit(source, raw);
        }
        clamped
    }

    /// The items and the time of a unit.
    fn extent(&self, source: &Source) -> Unit {
        let (from, to) = match *source {
            Source::Tile { .. } => (0, lod::OVERVIEW),
            Source::Mix { .. } => (0, self.plan.segments.buckets),
            Source::Items { from, to, .. }
            | Source::Tasks { from, to }
            | Source::Flows { from, to }
            | Source::Frames { from, to }
            | Source::Paths { from, to }
            | Source::Samples { from, to }
            | Source::Unsampled { from, to }
            | Source::Pieces { from, to } => (from, to),
        };
        let mut unit = Unit { items: (to - from) as u32, ..Unit::default() };
        let at = |time: Time| self.plan.at(time);
        (unit.from, unit.to) = match *source {
            Source::Items { line, .. } => {
                let item = |i| self.plan.item(self.trace, &self.plan.lines[line], i);
                (item(from).start, item(to - 1).end)
            }
            Source::Flows { .. } => {
                let times = &self.trace.flows.from_time;
                (at(times[from]), at(times[to - 1]))
            }
            Source::Pieces { .. } => (at(self.pieces[from].from), at(self.pieces[to - 1].to)),
            Source::Samples { .. } => {
                let times = &self.trace.samples.time;
                (at(times[from]), at(times[to - 1]))
            }
            _ => (0, 0),
        };
        unit
    }

    /// Encodes one piece into `raw`. Returns how many items had to be cut.
    fn unit(&self, source: &Source, raw: &mut Raw) -> u64 {
        let (trace, plan) = (self.trace, &self.plan);
        match *source {
            Source::Items { line, from, to } => {
                let line = &plan.lines[line];
                return columns::encode(trace, plan, &self.objects, line, from, to, raw);
            }
            Source::Tile { line, level, tile } => {
                let from = tile * lod::OVERVIEW;
                self.levels[line][level].encode(from..from + lod::OVERVIEW, raw);
            }
            Source::Mix { line } => super::account::mix(plan, &plan.lines[line], raw),
            Source::Tasks { from, to } => self.tasks(from, to, raw),
            Source::Flows { from, to } => self.flows(from, to, raw),
            Source::Frames { from, to } => call_paths::frames(trace, from, to, raw),
            Source::Paths { from, to } => call_paths::paths(trace, from, to, raw),
            Source::Unsampled { from, to } => call_paths::unsampled(&self.spread, from, to, raw),
            Source::Pieces { from, to } => call_paths::pieces(plan, self.pieces, from, to, raw),
            Source::Samples { from, to } => {
                call_paths::samples(trace, plan, &self.spread, from, to, raw);
            }
        }
        0
    }

    /// Columns of the task table; references and times are stored + 1, 0 is unknown.
    fn tasks(&self, from: usize, to: usize, raw: &mut Raw) {
        let tasks = &self.trace.tasks[from..to];
        let runs = &self.runs[from..to];
        let at = |t: Time| {
            if t == Time::MIN || t == Time::MAX { 0 } else { self.plan.at(t) + 1 }
        };
        column(raw, tasks.iter().map(|t| t.id));
        column(raw, tasks.iter().map(|t| t.process.0.wrapping_add(1) as u64));
        column(raw, tasks.iter().map(|t| t.name.0.wrapping_add(1) as u64));
        column(raw, tasks.iter().map(|t| t.parent.0.wrapping_add(1) as u64));
        column(raw, tasks.iter().map(|t| t.creator.0.wrapping_add(1) as u64));
        column(raw, tasks.iter().map(|t| at(t.created)));
        column(raw, tasks.iter().map(|t| at(t.started)));
        column(raw, tasks.iter().map(|t| at(t.ended)));
        column(raw, runs.iter().map(|r| r.runner.0.wrapping_add(1) as u64));
        column(raw, runs.iter().map(|r| r.ns));
    }

    /// Columns of the flow table; references are stored + 1, 0 is unknown.
    fn flows(&self, from: usize, to: usize, raw: &mut Raw) {
        let flows = &self.trace.flows;
        column(raw, flows.id[from..to].iter().copied());
        column(raw, flows.name[from..to].iter().map(|n| n.0.wrapping_add(1) as u64));
        column(raw, flows.from_time[from..to].iter().map(|&t| self.plan.at(t)));
        column(raw, flows.from_thread[from..to].iter().map(|t| t.0.wrapping_add(1) as u64));
        column(raw, flows.to_time[from..to].iter().map(|&t| self.plan.at(t)));
        column(raw, flows.to_thread[from..to].iter().map(|t| t.0.wrapping_add(1) as u64));
    }
}

/// `raw`, deflated without a header (RFC 1951), in base64. Bytes between two `cuts` have Huffman codes of their own: a
/// partial flush ends the deflate block there.
pub fn deflated(deflate: &mut Compress, raw: &[u8], cuts: &[usize]) -> String {
    deflate.reset();
    let mut out = Vec::with_capacity(raw.len() / 2 + 1024);
    let mut from = 0;
    for &cut in cuts.iter().filter(|&&cut| cut > 0 && cut < raw.len()) {
        if cut > from {
            feed(deflate, &raw[from..cut], FlushCompress::Partial, &mut out);
            from = cut;
        }
    }
    feed(deflate, &raw[from..], FlushCompress::Finish, &mut out);
    base64::engine::general_purpose::STANDARD.encode(&out)
}

/// Deflates all of `raw` to the end of `out`.
fn feed(deflate: &mut Compress, raw: &[u8], flush: FlushCompress, out: &mut Vec<u8>) {
    let begun = deflate.total_in();
    loop {
        let taken = (deflate.total_in() - begun) as usize;
        let had = out.capacity() - out.len();
        let before = out.len();
        // With all of the input at hand deflating cannot fail, it can only ask for more room.
        let status = deflate.compress_vec(&raw[taken..], out, flush);
        let full = out.len() - before == had;
        let taken_all = (deflate.total_in() - begun) as usize == raw.len();
        match flush {
            FlushCompress::Finish if matches!(status, Ok(flate2::Status::StreamEnd)) => return,
            FlushCompress::Finish => {}
            _ if taken_all && !full => return,
            _ => {}
        }
        out.reserve(raw.len() / 4 + 1024);
    }
}

/// Puts the blocks into tags; those before the viewer's code are cut smaller.
fn tags(packed: &mut Packed, first: usize) {
    let (mut from, mut bytes, mut before) = (0, 0, 0);
    let mut code_at = None;
    for i in 0..packed.blocks.len() {
        let len = packed.blocks[i].text.len();
        let enough = i >= first && before + len > FIRST_BYTES;
        let cut = bytes + len > TAG_BYTES || (code_at.is_none() && enough);
        if cut && i > from {
            packed.tags.push(from..i);
            (from, bytes) = (i, 0);
        }
        if code_at.is_none() && enough {
            code_at = Some(packed.tags.len());
        }
        packed.blocks[i].tag = packed.tags.len() as u32;
        packed.blocks[i].offset = bytes as u32;
        bytes += len;
        before += len;
    }
    if from < packed.blocks.len() {
        packed.tags.push(from..packed.blocks.len());
    }
    packed.first_tags = code_at.unwrap_or(packed.tags.len());
}
