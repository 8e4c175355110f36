//! Packs a recording directory into one `.kasuri` file.
//!
//! The encoders of kasuri-format do the work, in as many threads as there are CPUs, a bounded number of slices at a
//! time. The file appears under its name only when it is whole; until then the directory is the recording.
//!
//! The input is `cpu<N>.raw` (kernel pages), `perf<N>.raw`, `p<pid>-<gen>.chunks` with `.sites` and `.lost` for each
//! client, and the tables and metadata of [`super::directory`]. The directory may come from another user or be
//! damaged: each damaged part is left out and named in [`Packed::damage`], and the number of lost events then counts
//! as unknown.
use crate::error::{Error, Result};
use crate::files::directory::{CALL_PATHS, SAMPLING};
use crate::files::divide;
use crate::files::output::{self, Out, Readers, Sink};
use crate::files::places::name_places;
use crate::files::symbols::Symbols;
use crate::guard::bounds::{MAX_META_BYTES, MAX_NAMES, MAX_SITES_BYTES, MAX_TABLE_BYTES};
use crate::guard::safefs::{Access, Held};
use crate::guard::sigbus::Guarded;
use crate::kernel::perf;
use crate::losses::Losses;
use crate::names::{DEBUG_BYTES_PER_SAMPLE, Found, Naming, Request};
use crate::notice::{Notice, Notify, Summary};
use crate::sent::Sent;
use kasuri_base::words::shell_word;
use kasuri_format::call_paths::{Log, SampleKind, Tables, read_log};
use kasuri_format::container::{
    BlockKind, EncodeOptions, EncodedBlocks, Recording, Writer, encode_annotation_blocks,
    encode_kernel_blocks, encode_perf_blocks, encode_sample_blocks,
};
use kasuri_format::meta::{
    Anchor, ClientLoss, KernelLoss, LimitRow, Meta, Proc, SamplingRow, parse_lines,
};
use kasuri_format::ring::{Chunk, LOST_CAUSES, Lost, SiteTable, parse_chunks, streams};
use kasuri_format::tracefs::{EventTable, PageLayout};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Frames whose names are in one block.
pub(crate) const NAMES_IN_BLOCK: usize = 1 << 16;
/// Most raw bytes that one thread encodes at a time.
const SLICE_BYTES: usize = 8 << 20;

/// The contents of a packed file.
#[derive(Clone, Debug, Default)]
pub struct Packed {
    /// Kernel events kept.
    pub kernel_events: u64,
    /// Annotations kept.
    pub annotation_events: u64,
    /// Samples of call paths.
    pub samples: u64,
    /// Events that the file lacks.
    pub losses: Losses,
    /// Bytes of the file.
    pub bytes: u64,
    /// Damaged parts that were left out.
    pub damage: Vec<String>,
}

impl Packed {
    /// Adds it to a recording's summary.
    pub fn add_to(&self, summary: &mut Summary) {
        summary.kernel_events += self.kernel_events;
        summary.annotation_events += self.annotation_events;
        summary.losses.add(&self.losses);
        summary.damage.extend_from_slice(&self.damage);
        summary.bytes += self.bytes;
    }

    /// Counts the losses that a packed file states.
    pub(crate) fn count_recording(&mut self, recording: &Recording<'_>) {
        self.count_kernel_losses(recording.kernel_losses());
        self.count_known(recording.meta());
        for client in recording.client_losses() {
            self.count_annotations(client.lost, recording.meta());
        }
        let blocks = recording.blocks().iter().enumerate();
        for (ix, _) in blocks.filter(|(_, b)| b.kind == BlockKind::Annotation) {
            let Ok(block) = recording.annotation_block(ix) else {
                continue;
            };
            for loss in &block.losses {
                let cause = usize::from(loss.cause);
                if cause < LOST_CAUSES {
                    let mut counts = [0; LOST_CAUSES];
                    counts[cause] = loss.count;
                    self.count_annotations(counts, recording.meta());
                }
            }
        }
    }

    /// Takes what the metadata say of losses.
    fn count_known(&mut self, meta: &Meta) {
        self.losses.hindrances.clone_from(&meta.annotations.hindrances);
        self.losses.unknown.clone_from(&meta.uncounted);
    }

    /// Marks the loss as unknown, because damaged parts may have held events.
    pub(crate) fn doubt(&mut self) {
        if !self.damage.is_empty() {
            let why = left_out(&self.damage[0]);
            if !self.losses.unknown.contains(&why) {
                self.losses.unknown.push(why);
            }
        }
    }
}

/// Why losses are not known where a part is damaged.
fn left_out(damage: &str) -> String {
    format!("{damage} left out")
}

/// A file mapped for reading.
struct Input {
    path: PathBuf,
    map: Guarded,
    /// Where what was not sent begins.
    from: u64,
}

impl Input {
    fn bytes(&self) -> &[u8] {
        &self.map.bytes()[self.from as usize..]
    }
}

/// One client's annotations.
struct ClientInput<'a> {
    pid: u32,
    generation: u32,
    streams: Vec<Vec<Chunk<'a>>>,
}

/// A piece of an event file, to be encoded.
pub(crate) enum Job<'a> {
    Kernel { cpu: u32, path: &'a Path, offset: u64, pages: &'a [u8] },
    Perf { cpu: u32, path: &'a Path, bytes: &'a [u8] },
    Annotations { pid: u32, generation: u32, chunks: &'a [Chunk<'a>] },
}

/// Packs `dir` into `output`. The directory is not touched.
///
/// # Errors
/// [`Error::Pack`], with the directory to try again with.
pub fn pack(dir: &Path, output: &Path, notify: Notify<'_>) -> Result<Packed> {
    let held = Held::open(dir).map_err(|e| Error::file("open", dir, e))?;
    pack_amended(&[&held], output, &Amend::default(), &|| false, notify)
}

/// Metadata that replaces or completes that of the directory. It is not written there, because the disk may be full.
#[derive(Debug, Default)]
pub(crate) struct Amend {
    /// Replaces `meta.json`.
    pub(crate) meta: Option<Meta>,
    /// Follow those of `anchors.jsonl`.
    pub(crate) anchors: Vec<Anchor>,
    /// Bytes that the recording may take in memory ([`crate::Options::memory`]); none: as many threads as there are CPUs, with large pieces.
    pub(crate) memory: Option<u64>,
}

/// [`pack`] with amendments, which ends early when `stop` returns true.
///
/// `dirs`: the recording directory, then those that took what it had no room for.
pub(crate) fn pack_amended(
    dirs: &[&Held],
    output: &Path,
    amend: &Amend,
    stop: &dyn Fn() -> bool,
    notify: Notify<'_>,
) -> Result<Packed> {
    let mut pack = || {
        let made = output::create(output, Readers::Private);
        let (file, pending) = made.map_err(|e| format!("cannot make {}: {e}", output.display()))?;
        let mut outside = Outside { output, is_sent: false, stop, notify };
        let packed = pack_into(dirs, amend, Begun::File(file), &mut outside)?;
        crate::testhook::point("rename");
        let appeared = pending.commit();
        appeared.map_err(|e| format!("cannot make {}: {e}", output.display()))?;
        Ok(packed)
    };
    pack().map_err(|why| Error::Pack { dir: dirs[0].path().to_owned(), why })
}

/// Completes a recording that was sent while it was made: metadata, sites and call paths; events and rows of tables are in it.
///
/// # Errors
/// [`Error::Unsent`], with the directory that has what was not sent.
pub(crate) fn complete(
    dir: &Held,
    output: &Path,
    amend: &Amend,
    sent: (Writer<Out>, Packed),
    stop: &dyn Fn() -> bool,
    notify: Notify<'_>,
) -> Result<Packed> {
    let mut outside = Outside { output, is_sent: true, stop, notify };
    let begun = Begun::Stream(Box::new(sent));
    pack_into(&[dir], amend, begun, &mut outside)
        .map_err(|why| Error::Unsent { dir: dir.path().to_owned(), why })
}

/// The losses of a recording directory that is not packed.
pub(crate) fn losses(dir: &Held) -> Losses {
    let mut packed = Packed::default();
    let count = |packed: &mut Packed| -> Text<()> {
        let meta = read_meta(dir)?;
        let rows: Vec<KernelLoss> = lines(dir, "kernel-loss.jsonl", packed);
        packed.count_kernel_losses(&rows);
        packed.count_known(&meta);
        read_client_losses(&[dir], &meta, packed)?;
        for (id, input) in inputs(&[dir], "p", ".chunks")? {
            client(id, &[(id, input)], &meta, packed);
        }
        for (_, input) in inputs(&[dir], "perf", ".raw")? {
            let lost = perf::lost(input.bytes());
            packed.losses.kernel = packed.losses.kernel.saturating_add(lost);
        }
        Ok(())
    };
    if let Err(why) = count(&mut packed) {
        packed.damage.push(why);
    }
    packed.doubt();
    packed.losses
}

/// Errors inside this module are texts; [`Error::Pack`] carries them out.
pub(crate) type Text<T> = std::result::Result<T, String>;

/// Everything that packing uses besides the directory.
struct Outside<'a> {
    output: &'a Path,
    /// Whether the output went on to elsewhere.
    is_sent: bool,
    stop: &'a dyn Fn() -> bool,
    notify: Notify<'a>,
}

/// What a recording is packed into.
enum Begun {
    /// A new file.
    File(File),
    /// A stream that has the events and the rows of tables, and what they are.
    Stream(Box<(Writer<Out>, Packed)>),
}

fn pack_into(
    dirs: &[&Held],
    amend: &Amend,
    begun: Begun,
    outside: &mut Outside<'_>,
) -> Text<Packed> {
    let output = outside.output;
    let mut meta = match &amend.meta {
        Some(meta) => meta.clone(),
        None => read_meta(dirs[0])?,
    };
    let torn = torn_files(dirs[0], &std::mem::take(&mut meta.files));
    meta.complete &= torn.is_empty();
    meta.missing.extend(torn.iter().cloned());
    meta.uncounted.extend(torn.first().map(|torn| left_out(torn)));
    let write_error = |e: io::Error| format!("cannot write {}: {e}", output.display());
    let is_sent = matches!(begun, Begun::Stream(..));
    let (mut writer, mut packed) = match begun {
        Begun::File(file) => {
            let out = BufWriter::with_capacity(1 << 20, Sink::File(file));
            let writer = Writer::new(out, &meta).map_err(write_error)?;
            (writer, Packed::default())
        }
        Begun::Stream(sent) => {
            let (mut writer, packed) = *sent;
            writer.meta(&meta).map_err(write_error)?;
            (writer, packed)
        }
    };
    packed.damage.extend(torn);
    let rows = read_rows(dirs, &mut packed);
    packed.count_kernel_losses(&rows.losses);
    packed.count_known(&meta);
    if !is_sent {
        write_rows(&rows, &mut writer).map_err(write_error)?;
    }
    if !amend.anchors.is_empty() {
        writer.anchors(&amend.anchors).map_err(write_error)?;
    }
    let procs = rows.procs;
    let client_losses = read_client_losses(dirs, &meta, &mut packed)?;
    writer.client_losses(&client_losses).map_err(write_error)?;
    let pids: Vec<i32> = procs.iter().map(|p| p.pid).collect();
    for table in named_sites(dirs, &meta, &pids, &mut packed)? {
        writer.sites(&table).map_err(write_error)?;
    }
    let log = read_call_paths(dirs[0], &mut writer, &mut packed).map_err(write_error)?;
    let mut naming = None;
    if let Some(mut log) = log {
        let request = |log: &Log, tables| request(log, tables, &procs, &meta);
        if divide::has_dump(&log.tables) {
            // Which functions a sample has is known by its names only.
            let found = Naming::start(request(&log, log.tables.clone())).finish();
            divide::divide(&mut log, &found.timed);
            write_call_paths(&log, &mut writer, &mut packed).map_err(write_error)?;
            write_names(&found, &mut writer, outside).map_err(write_error)?;
        } else {
            write_call_paths(&log, &mut writer, &mut packed).map_err(write_error)?;
            let tables = std::mem::take(&mut log.tables);
            // Begun before the threads that encode are made, and finished after them.
            naming = Some(Naming::start(request(&log, tables)));
        }
    }
    if !is_sent {
        let (slice, n_threads) = match amend.memory {
            Some(memory) => ((memory / 32).clamp(1 << 17, SLICE_BYTES as u64) as usize, 1),
            None => {
                let n = std::thread::available_parallelism();
                (SLICE_BYTES, n.map_or(1, |n| n.get()))
            }
        };
        let by = (slice, n_threads);
        write_events(dirs, &meta, by, &mut writer, &mut packed, outside)?;
    }
    if let Some(naming) = naming {
        write_names(&naming.finish(), &mut writer, outside).map_err(write_error)?;
    }
    let (out, bytes) = writer.finish().map_err(write_error)?;
    let sink = out.into_inner().map_err(|e| write_error(e.into_error()))?;
    sink.close().map_err(write_error)?;
    packed.bytes = bytes;
    packed.doubt();
    Ok(packed)
}

/// The tables that grow while a recording is made.
struct Rows {
    anchors: Vec<Anchor>,
    procs: Vec<Proc>,
    limits: Vec<LimitRow>,
    losses: Vec<KernelLoss>,
}

fn read_rows(dirs: &[&Held], packed: &mut Packed) -> Rows {
    let anchors = lines(dirs[0], "anchors.jsonl", packed);
    let procs = dirs.iter().map(|dir| lines(dir, "procs.jsonl", packed));
    Rows {
        anchors,
        procs: procs.collect::<Vec<_>>().concat(),
        limits: lines(dirs[0], "limits.jsonl", packed),
        losses: lines(dirs[0], "kernel-loss.jsonl", packed),
    }
}

fn write_rows(rows: &Rows, writer: &mut Writer<Out>) -> io::Result<()> {
    writer.anchors(&rows.anchors)?;
    writer.procs(&rows.procs)?;
    if !rows.limits.is_empty() {
        writer.limits(&rows.limits)?;
    }
    writer.kernel_losses(&rows.losses)
}

/// All clients' sites, with names for what probes could only tell by its address.
fn named_sites(
    dirs: &[&Held],
    meta: &Meta,
    pids: &[i32],
    packed: &mut Packed,
) -> Text<Vec<SiteTable>> {
    let mut symbols = Symbols::default();
    let mut tables = Vec::new();
    for (id, (dir, name)) in newest(dirs, "p", ".sites")? {
        if let Some(mut table) = read_sites(dir, &name, id, packed) {
            symbols.name_sites(&mut table);
            tables.push(table);
        }
    }
    name_places(&mut tables, meta, pids);
    Ok(tables)
}

/// What to name: the frames of a log.
fn request(log: &Log, tables: Tables, procs: &[Proc], meta: &Meta) -> Request {
    let on_cpu = log.samples.iter().filter(|s| s.kind == SampleKind::OnCpu);
    let sampled = log.samples.iter().map(|s| s.pid).collect();
    Request {
        debug_bytes: (on_cpu.count() as u64).saturating_mul(DEBUG_BYTES_PER_SAMPLE),
        ..Request::of(tables, meta, where_from(sampled, procs, meta))
    }
}

/// These processes, those that they come from, and the program's first: where their files are, each of them shows, and some of them
/// still live. Others are not asked, which would take 10 us for each process of the machine.
fn where_from(mut pids: BTreeSet<i32>, procs: &[Proc], meta: &Meta) -> BTreeSet<i32> {
    let parents: HashMap<i32, i32> = procs.iter().map(|p| (p.pid, p.ppid)).collect();
    let mut from: Vec<i32> = pids.iter().copied().collect();
    while let Some(pid) = from.pop() {
        let parent = parents.get(&pid).filter(|parent| pids.insert(**parent));
        from.extend(parent);
    }
    pids.extend(&meta.root_pids);
    pids
}

/// Reads the log of call paths, and writes how its samples were taken. A log that a kill cut off ends in half a record;
/// what is before it is whole.
fn read_call_paths(
    dir: &Held,
    writer: &mut Writer<Out>,
    packed: &mut Packed,
) -> io::Result<Option<Log>> {
    let rows: Vec<SamplingRow> = lines(dir, SAMPLING, packed);
    if !rows.is_empty() {
        writer.sampling(&rows)?;
    }
    let input = match map(dir, CALL_PATHS) {
        Ok(Some(input)) => input,
        Ok(None) => return Ok(None),
        Err(_) if dir.stat_of(CALL_PATHS).is_err() => return Ok(None),
        Err(why) => {
            packed.damage.push(why);
            return Ok(None);
        }
    };
    let (log, error) = read_log(input.map.bytes(), 0);
    let damaged = error.filter(|e| e.kind != kasuri_format::ErrorKind::Truncated);
    packed.damage.extend(damaged.map(|e| format!("{}: {e}", input.path.display())));
    Ok(Some(log))
}

/// Writes modules, frames and paths, then the samples that refer to them.
fn write_call_paths(log: &Log, writer: &mut Writer<Out>, packed: &mut Packed) -> io::Result<()> {
    writer.call_paths(&log.tables)?;
    // Names that the recorder knew already: of functions that interpreters ran.
    for some in log.tables.names.chunks(NAMES_IN_BLOCK) {
        writer.names(some)?;
    }
    let blocks = encode_sample_blocks(&log.samples, &EncodeOptions::default());
    packed.samples += log.samples.len() as u64;
    writer.blocks(&blocks)
}

/// Writes the names that were found, and says when there was no time for all.
fn write_names(
    found: &Found,
    writer: &mut Writer<Out>,
    outside: &mut Outside<'_>,
) -> io::Result<()> {
    // In blocks that are read whole.
    for some in found.names.chunks(NAMES_IN_BLOCK) {
        writer.names(some)?;
    }
    let late = found.n_not_reached();
    let file = match outside.is_sent {
        true => "FILE".to_owned(),
        false => shell_word(outside.output),
    };
    if late > 0 {
        (outside.notify)(Notice::Note(format!(
            "{late} of {} places in the code have no name yet, because it would have taken too long; \
             `kasuri symbolize {file}` names them",
            found.n_asked,
        )));
    } else if let [first, others @ ..] = &found.without_lines[..] {
        let more = match others.len() {
            0 => String::new(),
            1 => " and one other file".to_owned(),
            n => format!(" and {n} other files"),
        };
        (outside.notify)(Notice::Note(format!(
            "lines and inlined calls of {first}{more} are not all known yet, because it would have taken too long; \
             `kasuri symbolize {file}` adds them"
        )));
    }
    Ok(())
}

/// Reads `meta.json`.
/// Files that are shorter than when their recorder ended, in words.
fn torn_files(dir: &Held, files: &BTreeMap<String, u64>) -> Vec<String> {
    let there = |name: &str| dir.stat_of(name).map_or(0, |stat| stat.st_size.max(0) as u64);
    let torn = files.iter().filter(|(name, bytes)| there(name) < **bytes);
    torn.map(|(name, bytes)| {
        let lacks = bytes - there(name);
        format!("{}: {lacks} of its {bytes} bytes are not there", dir.named(name).display())
    })
    .collect()
}

pub(crate) fn read_meta(dir: &Held) -> Text<Meta> {
    let path = dir.named("meta.json");
    let bytes = dir.read("meta.json", MAX_META_BYTES);
    let bytes = bytes.map_err(|e| format!("cannot read {}: {e}", path.display()))?;
    Meta::parse(&bytes).map_err(|e| format!("{}: {e}", path.display()))
}

/// Rows of a `.jsonl` file up to the first bad line. A file that cannot be read is damage; one that does not exist is
/// not.
pub(crate) fn lines<T: serde::de::DeserializeOwned>(
    dir: &Held,
    name: &'static str,
    packed: &mut Packed,
) -> Vec<T> {
    let bytes = match dir.read(name, MAX_TABLE_BYTES) {
        Ok(bytes) => bytes,
        Err(e) => {
            let missing = e.kind() == io::ErrorKind::NotFound;
            packed.damage.extend((!missing).then(|| format!("{}: {e}", dir.named(name).display())));
            return Vec::new();
        }
    };
    let (rows, error) = parse_lines(name, &bytes);
    packed.damage.extend(error.map(|e| e.to_string()));
    rows
}

/// Files `<prefix><numbers><suffix>` with their numbers: `cpu3.raw`, `p12-0.chunks`.
fn numbered(dir: &Held, prefix: &str, suffix: &str) -> Text<Vec<((u32, u32), String)>> {
    let names = dir.names(MAX_NAMES);
    let names = names.map_err(|e| format!("cannot read {}: {e}", dir.path().display()))?;
    let mut files = Vec::new();
    for name in names {
        let Some(middle) = name.strip_prefix(prefix).and_then(|n| n.strip_suffix(suffix)) else {
            continue;
        };
        let (first, second) = middle.split_once('-').unwrap_or((middle, "0"));
        if let (Ok(first), Ok(second)) = (first.parse(), second.parse()) {
            files.push(((first, second), name));
        }
    }
    files.sort();
    Ok(files)
}

fn map(dir: &Held, name: &str) -> Text<Option<Input>> {
    let path = dir.named(name);
    let map = || -> io::Result<Option<Guarded>> {
        let file = dir.file(name, Access::Read)?;
        match file.metadata()?.len() {
            0 => Ok(None),
            _ => Guarded::read_only(&file).map(Some),
        }
    };
    let map = map().map_err(|e| format!("cannot read {}: {e}", path.display()))?;
    Ok(map.map(|map| Input { path, map, from: 0 }))
}

/// Directory and name of a file, by its number.
type Newest<'d> = BTreeMap<(u32, u32), (&'d Held, String)>;

/// For each number, the file in the last directory that has one. For kinds of files of which a later one replaces the
/// earlier.
fn newest<'d>(dirs: &[&'d Held], prefix: &str, suffix: &str) -> Text<Newest<'d>> {
    let mut files = BTreeMap::new();
    for &dir in dirs {
        let found = numbered(dir, prefix, suffix)?.into_iter();
        files.extend(found.map(|(id, name)| (id, (dir, name))));
    }
    Ok(files)
}

/// All files with these names, by number. For kinds of files of which a later one continues the earlier.
fn inputs(dirs: &[&Held], prefix: &str, suffix: &str) -> Text<Vec<((u32, u32), Input)>> {
    let mut all = Vec::new();
    for dir in dirs {
        let sent = Sent::of(dir);
        for (id, name) in numbered(dir, prefix, suffix)? {
            let Some(mut input) = map(dir, &name)? else {
                continue;
            };
            input.from = sent.rest(&name, input.map.bytes()).1;
            all.push((id, input));
        }
    }
    all.sort_by_key(|(id, _)| *id);
    Ok(all)
}

fn read_client_losses(dirs: &[&Held], meta: &Meta, packed: &mut Packed) -> Text<Vec<ClientLoss>> {
    let mut rows = Vec::new();
    for ((pid, generation), (dir, name)) in newest(dirs, "p", ".lost")? {
        let path = dir.named(&name);
        let bytes = dir.read(&name, MAX_META_BYTES);
        let bytes = bytes.map_err(|e| format!("cannot read {}: {e}", path.display()))?;
        match ClientLoss::parse(pid, generation, &bytes) {
            Ok(loss) if loss.lost.iter().all(|&n| n == 0) => {}
            Ok(loss) => {
                packed.count_annotations(loss.lost, meta);
                rows.push(loss);
            }
            Err(error) => packed.damage.push(format!("{}: {error}", path.display())),
        }
    }
    Ok(rows)
}

fn read_sites(dir: &Held, name: &str, id: (u32, u32), packed: &mut Packed) -> Option<SiteTable> {
    let path = dir.named(name);
    let read = dir.read(name, MAX_SITES_BYTES);
    let salvaged = read
        .map_err(|e| e.to_string())
        .and_then(|bytes| SiteTable::salvage(&bytes).map_err(|e| e.to_string()));
    match salvaged {
        Ok((mut table, error)) => {
            packed.damage.extend(error.map(|e| format!("{}: {e}", path.display())));
            (table.pid, table.generation) = id;
            Some(table)
        }
        Err(error) => {
            packed.damage.push(format!("{}: {error}", path.display()));
            None
        }
    }
}

fn write_events(
    dirs: &[&Held],
    meta: &Meta,
    (slice_bytes, n_threads): (usize, usize),
    writer: &mut Writer<Out>,
    packed: &mut Packed,
    outside: &mut Outside<'_>,
) -> Text<()> {
    let encoding = Encoding::of(meta, packed)?;
    let (kernel, perf, chunks) = (
        inputs(dirs, "cpu", ".raw")?,
        inputs(dirs, "perf", ".raw")?,
        inputs(dirs, "p", ".chunks")?,
    );
    let clients: Vec<ClientInput<'_>> = chunks
        .chunk_by(|(a, _), (b, _)| a == b)
        .map(|files| client(files[0].0, files, meta, packed))
        .collect();
    let sizes = (encoding.page_bytes(), slice_bytes);
    let jobs = jobs(&kernel, &perf, &clients, sizes, packed);
    let encode = |job: &Job<'_>| encoding.encode(job);
    let total: u64 = jobs.iter().map(Job::bytes).sum();
    let mut done = 0;
    for wave in jobs.chunks(n_threads * 4) {
        for (job, blocks) in wave.iter().zip(in_parallel(wave, n_threads, &encode)) {
            crate::testhook::point("pack");
            writer
                .blocks(&blocks)
                .map_err(|e| format!("cannot write {}: {e}", outside.output.display()))?;
            packed.count(job, &blocks);
            done += job.bytes();
        }
        if (outside.stop)() {
            return Err("it was interrupted".to_owned());
        }
        (outside.notify)(Notice::Packing { done, total });
    }
    Ok(())
}

/// How a recording's events become blocks.
pub(crate) struct Encoding {
    table: EventTable,
    layout: PageLayout,
    big_endian: bool,
    options: EncodeOptions,
}

impl Encoding {
    /// For a recording with this metadata. Formats that are not understood are damage.
    pub(crate) fn of(meta: &Meta, packed: &mut Packed) -> Text<Encoding> {
        let (table, errors) = EventTable::salvage(&meta.kernel);
        packed.damage.extend(errors.iter().map(|e| e.to_string()));
        Ok(Encoding {
            table,
            layout: PageLayout::from_meta(&meta.kernel).map_err(|e| e.to_string())?,
            big_endian: meta.kernel.big_endian,
            options: EncodeOptions::default(),
        })
    }

    /// Bytes of a page of the kernel's.
    pub(crate) fn page_bytes(&self) -> usize {
        self.layout.page_bytes
    }

    /// The blocks of a piece.
    pub(crate) fn encode(&self, job: &Job<'_>) -> EncodedBlocks {
        let options = &self.options;
        match *job {
            Job::Kernel { cpu, pages, .. } => {
                encode_kernel_blocks(&self.table, &self.layout, cpu, pages, options)
            }
            Job::Perf { cpu, bytes, .. } => {
                encode_perf_blocks(cpu, bytes, self.big_endian, options)
            }
            Job::Annotations { pid, generation, chunks } => {
                encode_annotation_blocks(pid, generation, chunks, options)
            }
        }
    }
}

/// Runs the jobs in parallel. Returns the results in the order of the jobs.
fn in_parallel<'a>(
    jobs: &[Job<'a>],
    n_threads: usize,
    encode: &(impl Fn(&Job<'a>) -> EncodedBlocks + Sync),
) -> Vec<EncodedBlocks> {
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut results = Vec::new();
        loop {
            // ORDER relaxed: the counter only hands out numbers; results travel through join().
            let ix = next.fetch_add(1, Ordering::Relaxed);
            match jobs.get(ix) {
                Some(job) => results.push((ix, encode(job))),
                None => return results,
            }
        }
    };
    let mut results: Vec<(usize, EncodedBlocks)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (1..n_threads.min(jobs.len())).map(|_| scope.spawn(worker)).collect();
        let mut results = worker();
        for thread in threads {
            match thread.join() {
                Ok(more) => results.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        results
    });
    results.sort_by_key(|(ix, _)| *ix);
    results.into_iter().map(|(_, blocks)| blocks).collect()
}

fn client<'a>(
    id: (u32, u32),
    files: &'a [((u32, u32), Input)],
    meta: &Meta,
    packed: &mut Packed,
) -> ClientInput<'a> {
    let mut chunks = Vec::new();
    for (_, input) in files {
        let (more, error) = parse_chunks(input.bytes());
        chunks.extend(more);
        packed.damage.extend(error.map(|e| format!("{}: {e}", input.path.display())));
    }
    packed.count_chunk_losses(&chunks, meta);
    ClientInput { pid: id.0, generation: id.1, streams: streams(&chunks) }
}

fn jobs<'a>(
    kernel: &'a [((u32, u32), Input)],
    perf: &'a [((u32, u32), Input)],
    clients: &'a [ClientInput<'a>],
    (page_bytes, slice_bytes): (usize, usize),
    packed: &mut Packed,
) -> Vec<Job<'a>> {
    let mut jobs = Vec::new();
    let pages_bytes = (slice_bytes / page_bytes).max(1) * page_bytes;
    for ((cpu, _), input) in kernel {
        let bytes = input.bytes();
        let whole = bytes.len() - bytes.len() % page_bytes;
        if whole < bytes.len() {
            let path = input.path.display();
            packed.damage.push(format!(
                "{path}: byte {}: found {} bytes, needed a page",
                input.from + whole as u64,
                bytes.len() - whole
            ));
        }
        for (i, pages) in bytes[..whole].chunks(pages_bytes).enumerate() {
            jobs.push(Job::Kernel {
                cpu: *cpu,
                path: &input.path,
                offset: input.from + (i * pages_bytes) as u64,
                pages,
            });
        }
    }
    for ((cpu, _), input) in perf {
        jobs.push(Job::Perf { cpu: *cpu, path: &input.path, bytes: input.bytes() });
    }
    for client in clients {
        let (pid, generation) = (client.pid, client.generation);
        for stream in &client.streams {
            let per_slice = (slice_bytes / stream[0].header.used.max(4096) as usize).max(1);
            jobs.extend(stream.chunks(per_slice).map(|chunks| Job::Annotations {
                pid,
                generation,
                chunks,
            }));
        }
    }
    jobs
}

impl Job<'_> {
    /// Its raw bytes.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Job::Kernel { pages, .. } => pages.len() as u64,
            Job::Perf { bytes, .. } => bytes.len() as u64,
            Job::Annotations { chunks, .. } => {
                chunks.iter().map(|c| u64::from(c.header.used)).sum()
            }
        }
    }
}

impl Packed {
    /// What a flight recorder overwrote it dropped by design.
    fn count_annotations(&mut self, mut lost: [u64; LOST_CAUSES], meta: &Meta) {
        if meta.mode == "flight" {
            let older = std::mem::take(&mut lost[Lost::Overwritten as usize]);
            self.losses.overwritten = self.losses.overwritten.saturating_add(older);
        }
        for (sum, n) in self.losses.annotations.iter_mut().zip(lost) {
            *sum = sum.saturating_add(n);
        }
    }

    /// Counts the losses that chunks state.
    pub(crate) fn count_chunk_losses(&mut self, chunks: &[Chunk<'_>], meta: &Meta) {
        for chunk in chunks {
            let lost = chunk.header.lost.map(u64::from);
            self.count_annotations(lost, meta);
        }
    }

    /// The counts of each CPU only rise, so its last row has the total.
    fn count_kernel_losses(&mut self, rows: &[KernelLoss]) {
        let last: HashMap<u32, &KernelLoss> = rows.iter().map(|row| (row.cpu, row)).collect();
        for row in last.values() {
            for n in [row.overrun, row.dropped, row.commit_overrun] {
                self.losses.kernel = self.losses.kernel.saturating_add(n);
            }
            self.losses.kernel_unwritten =
                self.losses.kernel_unwritten.saturating_add(row.unwritten);
        }
    }

    pub(crate) fn count(&mut self, job: &Job<'_>, blocks: &EncodedBlocks) {
        let (path, offset) = match job {
            Job::Kernel { path, offset, .. } => (path.display().to_string(), *offset),
            Job::Perf { path, .. } => (path.display().to_string(), 0),
            Job::Annotations { pid, generation, .. } => (format!("p{pid}-{generation}.chunks"), 0),
        };
        match job {
            Job::Annotations { .. } => self.annotation_events += blocks.n_events,
            Job::Kernel { .. } => self.kernel_events += blocks.n_events,
            Job::Perf { bytes, .. } => {
                self.kernel_events += blocks.n_events;
                self.losses.kernel = self.losses.kernel.saturating_add(perf::lost(bytes));
            }
        }
        for error in &blocks.errors {
            self.damage.push(format!("{path}: {}", error.clone().offset_by(offset)));
        }
    }
}
