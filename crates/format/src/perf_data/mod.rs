//! `perf.data`: what `perf record` and `perf sched record` write, to a file or to a pipe.
//!
//! | file | does |
//! |---|---|
//! | `file` | the header of a file and of a pipe; where the parts are |
//! | `attr` | the request for each event, and the layout of its records that follows |
//! | `features` | facts about machine and recording |
//! | `record` | headers of records |
//! | `expand` | compressed records |
//! | `code` | samples with their call chains, and the mappings that say which file's code they were in |
//! | `index` | which records belong to which CPU, in time order |
//!
//! Records are read by CPU: [`PerfData::cpus`], then a [`CpuReader`] for each. Tracepoints come as the raw bytes that
//! tracefs would have stored, with the format files of [`PerfData::formats`]; switches, forks, exits, names and losses
//! as [`crate::perf::RecordKind`].
mod attr;
mod code;
mod expand;
mod features;
mod file;
mod index;
mod record;

pub use attr::Attr;
pub use code::{CodeRecord, CodeSample, CodeWhat, Mapping};
pub use features::Features;

use crate::bytes::Words;
use crate::perf::{self, RecordKind};
use crate::{Error, Result};
use attr::{IdLayout, SampleLayout};
use index::{Merge, Pieces};
use record::{Header, Kind};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

/// No machine has more; a damaged number must not make a table of them.
const CPUS_MAX: u32 = 8192;

/// A thread that was there when recording began.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FoundThread {
    /// Its process.
    pub pid: i32,
    /// Its id.
    pub tid: i32,
    /// The process's parent; 0: not known.
    pub ppid: i32,
    /// Its name.
    pub comm: String,
}

/// One file.
#[derive(Clone, Debug, Default)]
pub struct PerfData<'a> {
    /// Written by a big-endian machine.
    pub big_endian: bool,
    /// Written to a pipe (`perf record -o -`).
    pub pipe: bool,
    /// Records were compressed (`-z`).
    pub compressed: bool,
    /// The events that were opened.
    pub attrs: Vec<Attr>,
    /// Facts.
    pub features: Features,
    /// Text of each tracepoint's format file, by `system/event`.
    pub formats: BTreeMap<String, String>,
    /// Names of threads as the kernel had them at the end.
    pub cmdlines: Vec<(i32, String)>,
    /// Threads that perf found in /proc.
    pub threads: Vec<FoundThread>,
    /// Whether all threads of the machine were recorded, when the file says so.
    pub system_wide: Option<bool>,
    /// Processes that were asked for (`-p`), when the file says so.
    pub asked_pids: Vec<i32>,
    /// Switches are recorded as records, not only as tracepoints.
    pub has_switches: bool,
    /// Records that say something, but not on which CPU.
    pub n_without_cpu: u64,
    /// Records of events that the file does not describe; they are left out.
    pub n_foreign: u64,
    /// Header features that could not be read, and without which the records can be.
    pub unread: Vec<Error>,
    /// Records that say something, but not when.
    pub n_without_time: u64,
    /// Lowest and highest stamp; the lowest of samples and switches when there are any. perf records forks and names for
    /// a while before it begins with the rest.
    pub span: Option<(u64, u64)>,
    /// Programs that were begun meanwhile: process and name; the first thousand.
    pub execs: Vec<(i32, String)>,
    /// `span` begins with a sample or a switch.
    span_is_of_samples: bool,
    /// By CPU.
    cpus: Vec<Pieces>,
    records: Cow<'a, [u8]>,
    /// Offset of `records` in the file.
    base: u64,
    samples: Layouts<SampleLayout>,
    ids: Layouts<IdLayout>,
    cpu_of_id: HashMap<u64, u32>,
    /// Row of `attrs`.
    event_of_id: HashMap<u64, usize>,
}

/// Layouts of records: one for all, or by the id of their event.
#[derive(Clone, Debug, Default)]
struct Layouts<L> {
    first: L,
    /// Empty: all are like the first.
    by_id: HashMap<u64, L>,
    /// Position of the id.
    id: Option<usize>,
}

impl<L: Copy + PartialEq + Default> Layouts<L> {
    fn new<'s>(
        attrs: impl Iterator<Item = &'s Attr> + Clone,
        layout: impl Fn(&Attr) -> L,
        id: impl Fn(&L) -> Option<usize>,
    ) -> Result<Layouts<L>> {
        let first = attrs.clone().next().map(&layout).unwrap_or_default();
        let mut out = Layouts { first, by_id: HashMap::new(), id: id(&first) };
        if attrs.clone().all(|attr| layout(attr) == first) {
            return Ok(out);
        }
        for attr in attrs {
            let layout = layout(attr);
            if id(&layout) != out.id || out.id.is_none() {
                return Err(Error::damaged(
                    "perf event attributes",
                    0,
                    "events whose records differ and do not say at one place which is theirs",
                    "PERF_SAMPLE_IDENTIFIER",
                ));
            }
            out.by_id.extend(attr.ids.iter().map(|&id| (id, layout)));
        }
        Ok(out)
    }

    #[inline]
    fn get(&self, id: impl FnOnce(usize) -> Option<u64>) -> Option<&L> {
        if self.by_id.is_empty() {
            return Some(&self.first);
        }
        match id(self.id?)? {
            // Made up by perf and not by the kernel: as records of the first event.
            0 => Some(&self.first),
            id => self.by_id.get(&id),
        }
    }

    /// Whether `id` is of no event, so that the rest of its record cannot be found.
    fn is_foreign(&self, id: impl FnOnce(usize) -> Option<u64>) -> bool {
        let id = match self.by_id.is_empty() {
            true => None,
            false => self.id.and_then(id),
        };
        id.is_some_and(|id| id != 0 && !self.by_id.contains_key(&id))
    }
}

/// A record of one CPU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CpuRecord<'a> {
    /// On the recording's clock, ns.
    pub time: u64,
    /// Its offset: in the file, or in the expanded form of its compressed records.
    pub offset: u64,
    /// Its content.
    pub what: RecordWhat<'a>,
}

/// Content of a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RecordWhat<'a> {
    /// A tracepoint: its bytes as its format file describes them.
    Tracepoint(&'a [u8]),
    /// Another event was sampled.
    Sample,
    /// Something about threads, or a loss.
    Record {
        /// Process that it is about.
        pid: i32,
        /// Thread that it is about.
        tid: i32,
        /// Thread that was on the CPU; negative: not known.
        context: i32,
        /// The kind of event.
        kind: RecordKind,
    },
}

/// Reads the records of one CPU.
#[derive(Clone, Debug)]
pub struct CpuReader {
    cpu: u16,
    merge: Merge,
}

impl<'a> PerfData<'a> {
    /// Whether `bytes` begin as such a file does.
    pub fn is(bytes: &[u8]) -> bool {
        bytes.starts_with(file::MAGIC) || bytes.starts_with(file::MAGIC_SWAPPED)
    }

    /// Reads all but the records, and notes where those are.
    ///
    /// # Errors
    /// The first thing that is wrong, and where.
    pub fn parse(bytes: &'a [u8]) -> Result<PerfData<'a>> {
        PerfData::read(bytes, &mut Err)
    }

    /// Reads what can be read, and says what could not.
    ///
    /// # Errors
    /// When it is no such file, or nothing can be understood without what is damaged.
    pub fn salvage(bytes: &'a [u8]) -> Result<(PerfData<'a>, Vec<Error>)> {
        let mut errors = Vec::new();
        let data = PerfData::read(bytes, &mut |error| {
            errors.push(error);
            Ok(())
        })?;
        Ok((data, errors))
    }

    fn read(bytes: &'a [u8], keep: &mut Keep<'_>) -> Result<PerfData<'a>> {
        let mut data = file::read(bytes, keep)?;
        if !data.pipe {
            data.set_layouts()?;
        }
        if data.index(keep)? {
            data.compressed = true;
            let expanded = expand::expand(&data.records, data.big_endian, data.base, keep)?;
            data.records = Cow::Owned(expanded);
            data.base = 0;
            // The scan starts over, but keeps what a pipe carries before its first compressed record.
            data.cpus.clear();
            data.threads.clear();
            data.execs.clear();
            (data.n_foreign, data.n_without_cpu, data.n_without_time) = (0, 0, 0);
            if data.pipe {
                data.attrs.clear();
                data.unread.clear();
            }
            data.index(keep)?;
        }
        data.cpus.iter_mut().for_each(Pieces::sort);
        data.set_events();
        Ok(data)
    }

    /// CPUs with records, and how many.
    pub fn cpus(&self) -> impl Iterator<Item = (u16, u64)> {
        let all = self.cpus.iter().enumerate();
        all.filter(|(_, pieces)| pieces.n > 0).map(|(cpu, pieces)| (cpu as u16, pieces.n))
    }

    /// Reads the records of `cpu` from the first on.
    pub fn reader(&self, cpu: u16) -> CpuReader {
        CpuReader { cpu, merge: Merge::default() }
    }

    fn set_layouts(&mut self) -> Result<()> {
        let samples = self.attrs.iter().filter(|attr| !attr.is_dummy());
        self.samples = Layouts::new(samples, Attr::sample_layout, |layout| layout.id)?;
        self.ids = Layouts::new(self.attrs.iter(), Attr::id_layout, |layout| layout.id)?;
        Ok(())
    }

    /// Notes what each record is for. `true`: some are compressed, nothing after the first of them was looked at.
    fn index(&mut self, keep: &mut Keep<'_>) -> Result<bool> {
        let records = std::mem::take(&mut self.records);
        let done = self.index_all(&records, keep);
        self.records = records;
        done
    }

    fn index_all(&mut self, records: &[u8], keep: &mut Keep<'_>) -> Result<bool> {
        let mut at = 0;
        let mut faults = 0;
        while at < records.len() {
            let offset = self.base + at as u64;
            let words = Words::new(&records[at..], self.big_endian);
            let end = Header::read(words, offset)
                .and_then(|header| Ok((header, record::record_end(header, words, offset)?)));
            let (header, end) = match end {
                Ok(found) => found,
                Err(error) => {
                    // The start of the next record is not known.
                    keep(error)?;
                    break;
                }
            };
            let body = Words::new(&words.bytes[record::HEADER_BYTES..end], self.big_endian);
            if matches!(header.kind, Kind::COMPRESSED | Kind::COMPRESSED2) {
                return Ok(true);
            }
            if let Err(error) = self.note(header, body, at as u64, offset) {
                faults += 1;
                // A file of noise has one error a record.
                if faults <= 100 {
                    keep(error)?;
                }
            }
            at += end;
        }
        Ok(false)
    }

    /// Notes one record: body `body`, `at` bytes into the records, `offset` into the file.
    #[inline]
    fn note(&mut self, header: Header, body: Words<'_>, at: u64, offset: u64) -> Result<()> {
        if header.kind >= Kind::USER {
            return file::user_record(self, header, body, offset);
        }
        let wanted = header.kind == Kind::SAMPLE || perf::says_something(header.kind);
        if !wanted {
            return Ok(());
        }
        let Some(place) = self.place(header, body) else {
            if self.is_foreign(header, body) {
                self.n_foreign += 1;
                return Ok(());
            }
            return Err(no_room(header, offset));
        };
        if place.time == 0 {
            match header.kind {
                Kind::COMM | Kind::FORK => self.found_thread(header, body),
                _ => self.n_without_time += 1,
            }
            return Ok(());
        }
        self.has_switches |= matches!(header.kind, Kind::SWITCH | Kind::SWITCH_CPU_WIDE);
        if header.kind == Kind::SWITCH_CPU_WIDE {
            self.system_wide = Some(true);
        }
        let cpu = match place.cpu {
            Some(cpu) if cpu < CPUS_MAX => cpu as u16,
            Some(cpu) => {
                return Err(Error::damaged(
                    "perf record",
                    offset,
                    format!("CPU {cpu}"),
                    format!("below {CPUS_MAX}"),
                ));
            }
            None => {
                self.n_without_cpu += 1;
                0
            }
        };
        self.note_time(header.kind, place.time);
        if header.kind == Kind::COMM {
            self.note_exec(header, body);
        }
        if usize::from(cpu) >= self.cpus.len() {
            self.cpus.resize(usize::from(cpu) + 1, Pieces::default());
        }
        self.cpus[usize::from(cpu)].add(place.time, at, at + header.size as u64);
        Ok(())
    }

    #[inline]
    fn note_time(&mut self, kind: u32, time: u64) {
        let is_sample = matches!(kind, Kind::SAMPLE | Kind::SWITCH | Kind::SWITCH_CPU_WIDE);
        let (low, high) = self.span.unwrap_or((time, time));
        let low = match (is_sample, self.span_is_of_samples) {
            (true, false) => time,
            (false, true) => low,
            _ => low.min(time),
        };
        self.span_is_of_samples |= is_sample;
        self.span = Some((low, high.max(time)));
    }

    fn note_exec(&mut self, header: Header, body: Words<'_>) {
        if let Some(said) = perf::decode(header.kind, header.misc, body)
            && let Some((pid, _)) = said.about
            && let RecordKind::Comm { exec: true, comm } = said.kind
            && self.execs.len() < 1000
        {
            self.execs.push((pid, comm));
        }
    }

    /// Whether a record is of an event that the file does not describe.
    fn is_foreign(&self, header: Header, body: Words<'_>) -> bool {
        match header.kind == Kind::SAMPLE {
            true => self.samples.is_foreign(|at| body.u64(at)),
            false => {
                let n = body.bytes.len();
                self.ids.is_foreign(|back| body.u64(n.checked_sub(back)?))
            }
        }
    }

    /// When and where a record was written; none: it is too short for its type.
    #[inline]
    fn place(&self, header: Header, body: Words<'_>) -> Option<Place> {
        let (time, cpu, id) = if header.kind == Kind::SAMPLE {
            let layout = self.samples.get(|at| body.u64(at))?;
            let read = |at: Option<usize>| at.map_or(Some(None), |at| body.u64(at).map(Some));
            // A CPU is a u32 with another beside it.
            let cpu = layout.cpu.map_or(Some(None), |at| body.u32(at).map(Some))?;
            (read(layout.time)?, cpu, read(layout.id)?)
        } else {
            let n = body.bytes.len();
            let layout = self.ids.get(|back| body.u64(n.checked_sub(back)?))?;
            let read = |back: Option<usize>| match back {
                Some(back) => body.u64(n.checked_sub(back)?).map(Some),
                None => Some(None),
            };
            let cpu = match layout.cpu {
                Some(back) => Some(body.u32(n.checked_sub(back)?)?),
                None => None,
            };
            (read(layout.time)?, cpu, read(layout.id)?)
        };
        let cpu = cpu.or_else(|| self.cpu_of_id.get(&id?).copied());
        Some(Place { time: time.unwrap_or(0), cpu })
    }

    /// A record that perf made up from /proc when it began: it has no time.
    fn found_thread(&mut self, header: Header, body: Words<'_>) {
        let Some(said) = perf::decode(header.kind, header.misc, body) else {
            return;
        };
        let Some((pid, tid)) = said.about else {
            return;
        };
        // Both records of a thread stand beside each other.
        let near = self.threads.len().saturating_sub(4);
        let ix = match self.threads[near..].iter().position(|t| t.tid == tid) {
            Some(ix) => near + ix,
            None => {
                self.threads.push(FoundThread { pid, tid, ..FoundThread::default() });
                self.threads.len() - 1
            }
        };
        match said.kind {
            RecordKind::Comm { comm, .. } => self.threads[ix].comm = comm,
            RecordKind::Fork { ppid, .. } => self.threads[ix].ppid = ppid,
            _ => {}
        }
    }

    /// The record at `at`, which was noted before.
    fn record(&self, at: u64) -> Option<(Header, Words<'_>)> {
        let words = Words::new(self.records.get(at as usize..)?, self.big_endian);
        let header = Header::read(words, at).ok()?;
        let body = words.bytes.get(record::HEADER_BYTES..header.size)?;
        Some((header, Words::new(body, self.big_endian)))
    }

    /// The next record of `cpu` after the one at `at` and before `end`: its stamp and place.
    fn after(&self, cpu: u16, at: u64, end: u64) -> Option<(u64, u64)> {
        let mut at = at;
        let mut words = Words::new(self.records.get(at as usize..)?, self.big_endian);
        loop {
            let header = Header::read(words, at).ok()?;
            let size = record::record_end(header, words, at).ok()?;
            at += size as u64;
            if at >= end {
                return None;
            }
            words = Words::new(&words.bytes[size..], self.big_endian);
            let header = Header::read(words, at).ok()?;
            let says = header.kind == Kind::SAMPLE || perf::says_something(header.kind);
            let body = words.bytes.get(record::HEADER_BYTES..header.size)?;
            if says
                && let Some(place) = self.place(header, Words::new(body, self.big_endian))
                && place.time != 0
                && place.cpu.unwrap_or(0) == u32::from(cpu)
            {
                return Some((place.time, at));
            }
        }
    }

    fn decode(&self, at: u64) -> Option<CpuRecord<'_>> {
        let (header, body) = self.record(at)?;
        let time = self.place(header, body)?.time;
        let what = if header.kind == Kind::SAMPLE {
            let layout = self.samples.get(|at| body.u64(at))?;
            layout.raw(body).map_or(RecordWhat::Sample, RecordWhat::Tracepoint)
        } else {
            let n = body.bytes.len();
            let layout = self.ids.get(|back| body.u64(n.checked_sub(back)?))?;
            let (said, id) = body.bytes.split_at(n.checked_sub(layout.bytes)?);
            let said = perf::decode(header.kind, header.misc, Words::new(said, self.big_endian))?;
            let own = || {
                let at = layout.bytes.checked_sub(layout.tid?)?;
                let id = Words::new(id, self.big_endian);
                Some((id.i32(at)?, id.i32(at + 4)?))
            };
            let own = own().unwrap_or((-1, -1));
            let (pid, tid) = said.about.unwrap_or(own);
            RecordWhat::Record { pid, tid, context: own.1, kind: said.kind }
        };
        Some(CpuRecord { time, offset: self.base + at, what })
    }
}

type Keep<'k> = dyn FnMut(Error) -> Result<()> + 'k;

struct Place {
    time: u64,
    cpu: Option<u32>,
}

fn no_room(header: Header, offset: u64) -> Error {
    Error::damaged(
        "perf record",
        offset,
        format!("a record of type {} with {} bytes", header.kind, header.size),
        "room for its fields and sample_id, and an id of the attributes",
    )
}

impl CpuReader {
    /// The next record in time order.
    ///
    /// # Errors
    /// A record that is too short for what it claims to hold; the next call goes on after it.
    #[inline]
    pub fn next<'d>(&mut self, data: &'d PerfData<'_>) -> Option<Result<CpuRecord<'d>>> {
        let pieces = data.cpus.get(usize::from(self.cpu))?;
        let after = |at, end| data.after(self.cpu, at, end);
        let at = self.merge.next(&pieces.all, after)?;
        Some(data.decode(at).ok_or_else(|| match data.record(at) {
            Some((header, _)) => no_room(header, data.base + at),
            None => Error::truncated("perf record", data.base + at, 0, 8),
        }))
    }
}
