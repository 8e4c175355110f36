//! A recording that is sent while it is made: for machines without the room for one.
//!
//! Goal: a pipe or another machine gets a packed file, block by block, and the recording directory never holds more than what was not sent
//! yet. A stream that is cut is a file without its end, which `kasuri recover` opens.
//!
//! The recorder writes its files as always, and says now and then how long they are. A thread of its own encodes what is new, sends it,
//! notes in the directory how far it got ([`crate::sent`]), and only then gives the room back, by making a hole: in this order, whoever is killed, what
//! is not in the stream is in the directory. When the other side is slow, [`Stream::is_full`] has the recorder leave events in the
//! kernel's buffers and in the rings, where those that find no room are counted.
//!
//! What stays in the directory to the end: call paths (their names are looked up then), sites once more with the names of what probes saw,
//! and the tables, which grow by a few hundred bytes a second.
//!
//! Rejected: encoding in the recorder's own thread. A write that blocks would stop it from emptying the buffers.
use crate::error::{Error, Result};
use crate::files::output::{self, Out, Readers, Sink};
use crate::files::pack::{Encoding, Job, Packed, Text};
use crate::files::remote::Remote;
use crate::guard::bounds::{MAX_NAMES, MAX_SITES_BYTES};
use crate::guard::safefs::{Access, Held, read_at_most};
use crate::rings::ringfile::client_id;
use crate::sent;
use kasuri_format::container::Writer;
use kasuri_format::meta::{Meta, SentRow, parse_lines};
use kasuri_format::ring::{Chunk, SiteTable, parse_chunks, streams};
use rustix::fs::FallocateFlags;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, HashMap};
use std::io::{self, BufWriter};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Most bytes that are encoded at a time.
const SLICE_BYTES: u64 = 1 << 20;
/// A file with so much to send is sent at the next look; one with less once a second.
const SOON_BYTES: u64 = 256 << 10;
/// Time between two looks.
const LOOK: Duration = Duration::from_millis(200);
/// Looks from one at which everything is sent to the next.
const LOOKS: u32 = 5;

/// The recorder's side of a stream.
#[derive(Debug)]
pub(crate) struct Stream {
    shared: Arc<Shared>,
    thread: JoinHandle<Text<(Writer<Out>, Packed)>>,
    dir: PathBuf,
    /// Bytes that may wait in the directory.
    most_waiting: u64,
}

/// What a stream is made of.
pub(crate) struct Origin<'a> {
    pub(crate) output: &'a Path,
    /// The other machine that it goes to.
    pub(crate) remote: Option<Remote>,
    pub(crate) dir: &'a Held,
    pub(crate) session: &'a Held,
    pub(crate) meta: &'a Meta,
    /// Whether what was sent may leave the directory.
    pub(crate) frees: bool,
    /// Bytes that may wait in the directory.
    pub(crate) most_waiting: u64,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Bytes in each event file.
    written: BTreeMap<String, u64>,
    /// Whether these are the last lengths.
    is_last: bool,
    /// Bytes of event files that were sent.
    sent: u64,
    /// Whether the thread has ended.
    has_ended: bool,
    failure: Option<String>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stream {
    /// Begins to send. The process has no other thread, and will fork none that may call more than async-signal-safe functions until
    /// [`Stream::finish`].
    ///
    /// # Errors
    /// When the thread cannot be made.
    pub(crate) fn begin(origin: Origin<'_>) -> Result<Stream> {
        let shared = Arc::new(Shared::default());
        let sender = Sender {
            shared: Arc::clone(&shared),
            dir: origin.dir.clone(),
            session: origin.session.clone(),
            meta: origin.meta.clone(),
            frees: origin.frees,
            // A late chunk must not hold up the file until the recorder stops writing: then it would never come.
            patience: origin.most_waiting / 4,
            slice: (origin.most_waiting / 16).clamp(1 << 16, SLICE_BYTES),
            files: BTreeMap::new(),
            tables: Tables::default(),
            sites: HashMap::new(),
            packed: Packed::default(),
        };
        let (output, remote) = (origin.output.to_owned(), origin.remote);
        let run = move || {
            let shared = Arc::clone(&sender.shared);
            let result = sender.run(&output, remote);
            let mut state = shared.state();
            state.failure = result.as_ref().err().cloned();
            state.has_ended = true;
            drop(state);
            shared.changed.notify_all();
            result
        };
        let thread = std::thread::Builder::new().name("kasuri-send".into());
        let thread = thread
            .spawn(run)
            .map_err(|e| Error::system("make a thread that sends the recording", e))?;
        Ok(Stream {
            shared,
            thread,
            dir: origin.dir.path().to_owned(),
            most_waiting: origin.most_waiting,
        })
    }

    /// Says how long the event files are: whole pages, records and chunks up to there.
    pub(crate) fn written(&self, files: Vec<(String, u64)>) {
        self.shared.state().written.extend(files);
    }

    /// Bytes of events that wait to be sent.
    pub(crate) fn waiting(&self) -> u64 {
        let state = self.shared.state();
        let written: u64 = state.written.values().sum();
        written.saturating_sub(state.sent)
    }

    /// Whether so much waits that the recorder should write no more.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting() >= self.most_waiting
    }

    /// The error that ended it.
    pub(crate) fn failure(&self) -> Option<Error> {
        let why = self.shared.state().failure.clone()?;
        Some(self.unsent(why))
    }

    fn unsent(&self, why: String) -> Error {
        Error::Unsent { dir: self.dir.clone(), why }
    }

    /// Sends the rest, with the last lengths. Returns what the file is completed with.
    ///
    /// # Errors
    /// [`Error::Unsent`]; also when `stop` says that nobody wants to wait for the other side.
    pub(crate) fn finish(
        self,
        files: Vec<(String, u64)>,
        stop: &dyn Fn() -> bool,
    ) -> Result<(Writer<Out>, Packed)> {
        let mut state = self.shared.state();
        state.written.extend(files);
        state.is_last = true;
        self.shared.changed.notify_all();
        while !state.has_ended {
            if stop() {
                drop(state);
                return Err(self.unsent("it was interrupted".to_owned()));
            }
            let waited = self.shared.changed.wait_timeout(state, LOOK);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(state);
        let dir = self.dir.clone();
        match self.thread.join() {
            Ok(result) => result.map_err(|why| Error::Unsent { dir, why }),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

/// The thread's side.
struct Sender {
    shared: Arc<Shared>,
    dir: Held,
    session: Held,
    meta: Meta,
    frees: bool,
    /// Chunks that came before earlier ones of their stream wait for these up to so many bytes; then they are sent as they came.
    patience: u64,
    /// Bytes that are encoded at a time.
    slice: u64,
    files: BTreeMap<String, Progress>,
    tables: Tables,
    /// Of each client: the highest id sent, and the bytes of its definitions.
    sites: HashMap<(u32, u32), (u32, u64)>,
    packed: Packed,
}

/// How far an event file was sent.
#[derive(Debug, Default)]
struct Progress {
    bytes: u64,
    /// Chunk files: the next chunk of each stream. Chunks before it that are beyond `bytes` were sent, too.
    next: HashMap<u32, u64>,
}

/// Bytes of the tables that were sent.
#[derive(Debug, Default)]
struct Tables {
    anchors: u64,
    procs: u64,
    limits: u64,
    losses: u64,
}

impl Sender {
    fn run(mut self, output: &Path, remote: Option<Remote>) -> Text<(Writer<Out>, Packed)> {
        let name = output.display().to_string();
        let failed = |e: io::Error| format!("cannot write {name}: {e}");
        let sink = match remote {
            Some(remote) => Sink::Remote(Box::new(remote)),
            // A FIFO may have to wait for its reader.
            None => Sink::File(output::create(output, Readers::Private).map_err(failed)?.0),
        };
        let out = BufWriter::with_capacity(1 << 18, sink);
        let mut writer = Writer::new(out, &self.meta).map_err(failed)?;
        let encoding = Encoding::of(&self.meta, &mut self.packed)?;
        let mut looks = 0;
        loop {
            let (written, is_last) = self.next_look();
            looks += 1;
            let all = is_last || looks % LOOKS == 0;
            if all {
                self.tables(&mut writer).map_err(failed)?;
                self.sites(&mut writer).map_err(failed)?;
            }
            let mut parts = Vec::new();
            for (name, bytes) in written {
                let sent = self.files.get(&name).map_or(0, |p| p.bytes);
                let least = if all { 1 } else { SOON_BYTES };
                if bytes.saturating_sub(sent) >= least {
                    self.file(&name, bytes, is_last, &encoding, &mut writer).map_err(failed)?;
                    parts.push(name);
                }
            }
            writer.flush().map_err(failed)?;
            self.free(&parts).map_err(failed)?;
            if is_last {
                return Ok((writer, self.packed));
            }
        }
    }

    /// Waits for the next look; sooner when the recording ends.
    fn next_look(&self) -> (BTreeMap<String, u64>, bool) {
        let until = Instant::now() + LOOK;
        let mut state = self.shared.state();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if state.is_last || left.is_zero() {
                return (state.written.clone(), state.is_last);
            }
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Sends what an event file has up to `end`, slice by slice.
    fn file(
        &mut self,
        name: &str,
        end: u64,
        is_last: bool,
        encoding: &Encoding,
        writer: &mut Writer<Out>,
    ) -> io::Result<()> {
        let file = self.dir.file(name, Access::Shared)?;
        let path = self.dir.named(name);
        let (stem, suffix) = name.rsplit_once('.').unwrap_or((name, ""));
        let cpu = |prefix: &str| stem.strip_prefix(prefix).and_then(|n| n.parse().ok());
        let mut progress = self.files.remove(name).unwrap_or_default();
        while progress.bytes < end {
            let from = progress.bytes;
            let n = (end - from).min(self.slice.max(encoding.page_bytes() as u64));
            let mut slice = vec![0; n as usize];
            file.read_exact_at(&mut slice, from)?;
            let taken = match (client_id(stem), suffix) {
                (Some(id), "chunks") => {
                    let all = is_last || end - from > self.patience;
                    self.chunks(id, &slice, all, &mut progress, encoding, writer)?
                }
                _ => {
                    let job = match (cpu("cpu"), cpu("perf")) {
                        (Some(cpu), _) => {
                            let page = encoding.page_bytes();
                            Job::Kernel {
                                cpu,
                                path: &path,
                                offset: from,
                                pages: &slice[..slice.len() / page * page],
                            }
                        }
                        (None, Some(cpu)) => {
                            Job::Perf { cpu, path: &path, bytes: whole_records(&slice) }
                        }
                        (None, None) => break,
                    };
                    self.job(&job, encoding, writer)?;
                    job.bytes()
                }
            };
            if taken == 0 {
                break;
            }
            progress.bytes += taken;
            writer.flush()?;
            self.shared.state().sent += taken;
        }
        self.files.insert(name.to_owned(), progress);
        Ok(())
    }

    fn job(
        &mut self,
        job: &Job<'_>,
        encoding: &Encoding,
        writer: &mut Writer<Out>,
    ) -> io::Result<()> {
        let blocks = encoding.encode(job);
        self.packed.count(job, &blocks);
        writer.blocks(&blocks)
    }

    /// Sends the chunks of a slice whose turn it is in their streams, or all of them. Returns the bytes up to the first that was not sent.
    fn chunks(
        &mut self,
        (pid, generation): (u32, u32),
        slice: &[u8],
        all: bool,
        progress: &mut Progress,
        encoding: &Encoding,
        writer: &mut Writer<Out>,
    ) -> io::Result<u64> {
        // No event comes before its name.
        self.client_sites((pid, generation), writer)?;
        let (chunks, _) = parse_chunks(slice);
        let mut end = chunks.last().map_or(0, |c| c.offset + used(c));
        for stream in streams(&chunks) {
            let next = progress.next.entry(stream[0].header.stream).or_default();
            let mut turn = Vec::new();
            for chunk in stream {
                let seq = chunk.header.seq;
                if seq < *next {
                    continue;
                }
                if seq == *next || all {
                    *next = seq.saturating_add(1);
                    turn.push(chunk);
                } else {
                    end = end.min(chunk.offset);
                }
            }
            self.packed.count_chunk_losses(&turn, &self.meta);
            let job = Job::Annotations { pid, generation, chunks: &turn };
            self.job(&job, encoding, writer)?;
        }
        Ok(end)
    }

    /// Notes what was sent, then gives the room of these files back. Once in a look: there may be files of thousands of clients.
    fn free(&self, names: &[String]) -> io::Result<()> {
        let row = |(file, progress): (&String, &Progress)| SentRow {
            file: file.clone(),
            bytes: progress.bytes,
        };
        if !self.frees || names.is_empty() {
            return Ok(());
        }
        let rows: Vec<SentRow> = self.files.iter().map(row).collect();
        sent::write(&self.dir, &rows)?;
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        for name in names {
            let file = self.dir.file(name, Access::Shared)?;
            let bytes = self.files.get(name).map_or(0, |p| p.bytes);
            // A file system without holes keeps it all.
            let _ = rustix::fs::fallocate(file, hole, 0, bytes);
        }
        Ok(())
    }

    /// Sends the rows that the tables got.
    fn tables(&mut self, writer: &mut Writer<Out>) -> io::Result<()> {
        let dir = &self.dir;
        let sent = &mut self.tables;
        let anchors = new_rows(dir, "anchors.jsonl", &mut sent.anchors)?;
        if !anchors.is_empty() {
            writer.anchors(&anchors)?;
        }
        let procs = new_rows(dir, "procs.jsonl", &mut sent.procs)?;
        if !procs.is_empty() {
            writer.procs(&procs)?;
        }
        let limits = new_rows(dir, "limits.jsonl", &mut sent.limits)?;
        if !limits.is_empty() {
            writer.limits(&limits)?;
        }
        let losses = new_rows(dir, "kernel-loss.jsonl", &mut sent.losses)?;
        match losses.is_empty() {
            true => Ok(()),
            false => writer.kernel_losses(&losses),
        }
    }

    /// Sends the sites that programs defined since the last time, for whoever opens a stream that was cut. At the end they come with the
    /// tables.
    fn sites(&mut self, writer: &mut Writer<Out>) -> io::Result<()> {
        // At the very end the session is gone.
        for name in self.session.names(MAX_NAMES).unwrap_or_default() {
            if let Some(id) = name.strip_suffix(".sites").and_then(client_id) {
                self.client_sites(id, writer)?;
            }
        }
        Ok(())
    }

    fn client_sites(&mut self, id: (u32, u32), writer: &mut Writer<Out>) -> io::Result<()> {
        let name = format!("p{}-{}.sites", id.0, id.1);
        let (highest, bytes) = self.sites.entry(id).or_default();
        // What cannot be read now is told at the end.
        let Ok(file) = self.session.file(&name, Access::Read) else {
            return Ok(());
        };
        let length = file.metadata()?.len();
        // A program that rewrites its file cannot make us send more than it may define.
        if length <= *bytes || *bytes >= MAX_SITES_BYTES {
            return Ok(());
        }
        *bytes = length;
        let content = read_at_most(file, MAX_SITES_BYTES).unwrap_or_default();
        let Ok((mut table, _)) = SiteTable::salvage(&content) else {
            return Ok(());
        };
        table.sites.retain(|site| site.id > *highest);
        (table.pid, table.generation) = id;
        match table.sites.last() {
            Some(last) => {
                *highest = last.id;
                writer.sites(&table)
            }
            None => Ok(()),
        }
    }
}

fn used(chunk: &Chunk<'_>) -> u64 {
    u64::from(chunk.header.used)
}

/// The records of perf that are whole.
fn whole_records(bytes: &[u8]) -> &[u8] {
    let mut end = 0;
    while let Some(size) = bytes.get(end + 6..end + 8) {
        let size = usize::from(u16::from_ne_bytes([size[0], size[1]]));
        if size < 8 || end + size > bytes.len() {
            break;
        }
        end += size;
    }
    // A damaged record: the parser says so.
    if end == 0 { bytes } else { &bytes[..end] }
}

/// The rows that a table got beyond `sent`; of half a line the rest comes later.
fn new_rows<T: DeserializeOwned>(
    dir: &Held,
    name: &'static str,
    sent: &mut u64,
) -> io::Result<Vec<T>> {
    let file = dir.file(name, Access::Read)?;
    let length = file.metadata()?.len();
    let mut bytes = vec![0; length.saturating_sub(*sent) as usize];
    file.read_exact_at(&mut bytes, *sent)?;
    let whole = bytes.iter().rposition(|&b| b == b'\n').map_or(0, |n| n + 1);
    *sent += whole as u64;
    // A line that is none is told at the end, when the table is read once more.
    Ok(parse_lines(name, &bytes[..whole]).0)
}
