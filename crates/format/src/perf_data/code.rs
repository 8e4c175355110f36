//! Samples with their call chains, and what says which file's code was at an address: mappings, forks, execs.
//!
//! A chain is a list of u64, innermost first. Values from [`CONTEXT_FIRST`] on are no addresses: they say whose code follows. The
//! record of a mapping is u32 pid, u32 tid, u64 address, u64 length, u64 offset in the file, in the second form 24 bytes that say which file it
//! is (its build-id, or device and inode), u32 protection and flags, then the path.
use super::PerfData;
use super::attr::SampleLayout;
use super::record::{self, HEADER_BYTES, Header, Kind};
use crate::bytes::Words;
use crate::perf::{self, RecordKind};

/// PERF_CONTEXT_MAX: greater values of a chain are marks.
const CONTEXT_FIRST: u64 = (-4095i64) as u64;
const CONTEXT_KERNEL: u64 = (-128i64) as u64;
const CONTEXT_USER: u64 = (-512i64) as u64;
/// Whose code a sample's own address is in: bits of the header's `misc`.
const MISC_CPUMODE: u16 = 7;
const MISC_KERNEL: u16 = 1;
const MISC_USER: u16 = 2;
/// The mapping's identity is a build-id.
const MISC_MMAP_BUILD_ID: u16 = 1 << 14;
/// Mapped for data only.
const MISC_MMAP_DATA: u16 = 1 << 13;

/// A record about code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CodeRecord {
    /// On the recording's clock, ns; 0: there when recording began.
    pub time: u64,
    /// The process that it is about; -1: the kernel's code, or not known.
    pub pid: i32,
    /// Its content.
    pub what: CodeWhat,
}

/// Content of a [`CodeRecord`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CodeWhat {
    /// A file, or memory, was mapped to run.
    Mapping(Box<Mapping>),
    /// The process was made, with its parent's mappings.
    Fork {
        /// The parent.
        parent: i32,
    },
    /// It began another program.
    Exec,
    /// A sample; [`PerfData::code_sample`] reads it.
    Sample {
        /// Its place among the records.
        at: u64,
    },
}

/// A mapping.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// Bytes.
    pub len: u64,
    /// Offset in the file.
    pub offset: u64,
    /// The file; `//anon`, `[vdso]`, `[kernel.kallsyms]_text`.
    pub path: String,
    /// Build-id; empty: not in this record.
    pub build_id: Vec<u8>,
    /// Of the kernel.
    pub is_kernel: bool,
}

/// A sample.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CodeSample {
    /// Process.
    pub pid: i32,
    /// Thread.
    pub tid: i32,
    /// CPU; none: not recorded.
    pub cpu: Option<u32>,
    /// Row of [`PerfData::attrs`]: the event.
    pub event: usize,
    /// Events since the sample before; 0: not recorded.
    pub period: u64,
    /// Addresses with whether they are the kernel's, innermost first; callers' are return addresses.
    pub chain: Vec<(u64, bool)>,
}

impl PerfData<'_> {
    /// All records about code, in the order of the file, which is not that of time. Those that cannot be read are passed over: the records
    /// of the CPUs report them. Of samples only those of events (rows of [`PerfData::attrs`]) that `wants` takes: there may be millions of others.
    pub fn code<'s>(
        &'s self,
        wants: impl Fn(usize) -> bool + 's,
    ) -> impl Iterator<Item = CodeRecord> + 's {
        let mut at = 0;
        std::iter::from_fn(move || {
            while at < self.records.len() {
                let words = Words::new(&self.records[at..], self.big_endian);
                let header = Header::read(words, at as u64).ok()?;
                let end = record::record_end(header, words, at as u64).ok()?;
                let body = Words::new(&words.bytes[HEADER_BYTES..header.size], self.big_endian);
                let found = self.code_record(header, body, at as u64, &wants);
                at += end;
                if found.is_some() {
                    return found;
                }
            }
            None
        })
    }

    fn code_record(
        &self,
        header: Header,
        body: Words<'_>,
        at: u64,
        wants: impl Fn(usize) -> bool,
    ) -> Option<CodeRecord> {
        let (pid, what) = match header.kind {
            Kind::SAMPLE => {
                let layout = self.samples.get(|at| body.u64(at))?;
                let event = self.event_of(layout.id.and_then(|at| body.u64(at)))?;
                if !wants(event) {
                    return None;
                }
                (-1, CodeWhat::Sample { at })
            }
            Kind::MMAP | Kind::MMAP2 if header.misc & MISC_MMAP_DATA == 0 => {
                (body.i32(0)?, CodeWhat::Mapping(Box::new(mapping(header, body)?)))
            }
            Kind::FORK => (body.i32(0)?, CodeWhat::Fork { parent: body.i32(4)? }),
            Kind::COMM => {
                let said = perf::decode(header.kind, header.misc, body)?;
                match said.kind {
                    RecordKind::Comm { exec: true, .. } => (body.i32(0)?, CodeWhat::Exec),
                    _ => return None,
                }
            }
            _ => return None,
        };
        let time = self.place(header, body)?.time;
        Some(CodeRecord { time, pid, what })
    }

    /// The sample at a place that [`PerfData::code`] gave; none: it is too short for its type, or of no known event.
    pub fn code_sample(&self, at: u64) -> Option<CodeSample> {
        let (header, body) = self.record(at)?;
        let layout: &SampleLayout = self.samples.get(|at| body.u64(at))?;
        let number = |at: Option<usize>| at.and_then(|at| body.u64(at));
        let tid_at = layout.tid?;
        let mut chain = Vec::new();
        // Until a mark says otherwise, the addresses are where the sample itself is.
        let mode = header.misc & MISC_CPUMODE;
        let mut whose = match mode {
            MISC_KERNEL => Some(true),
            MISC_USER => Some(false),
            _ => None,
        };
        for entry in layout.chain(body)?.chunks_exact(8) {
            let address = Words::new(entry, self.big_endian).u64(0)?;
            match address {
                CONTEXT_KERNEL => whose = Some(true),
                CONTEXT_USER => whose = Some(false),
                // Guests' code.
                CONTEXT_FIRST.. => whose = None,
                _ => chain.extend(whose.map(|is_kernel| (address, is_kernel))),
            }
        }
        if let (true, Some(ip), MISC_KERNEL | MISC_USER) =
            (chain.is_empty(), number(layout.ip), mode)
        {
            chain.push((ip, mode == MISC_KERNEL));
        }
        let id = number(layout.id);
        let place = self.place(header, body)?;
        Some(CodeSample {
            pid: body.i32(tid_at)?,
            tid: body.i32(tid_at + 4)?,
            cpu: place.cpu,
            event: self.event_of(id)?,
            period: number(layout.period).unwrap_or(0),
            chain,
        })
    }

    /// The event of a sample; without an id the only one that samples.
    fn event_of(&self, id: Option<u64>) -> Option<usize> {
        let of_id = id.and_then(|id| self.event_of_id.get(&id).copied());
        of_id.or_else(|| self.attrs.iter().position(|attr| !attr.is_dummy()))
    }

    /// Notes which event each id is.
    pub(super) fn set_events(&mut self) {
        let ids = self.attrs.iter().enumerate();
        self.event_of_id =
            ids.flat_map(|(row, attr)| attr.ids.iter().map(move |&id| (id, row))).collect();
    }
}

fn mapping(header: Header, body: Words<'_>) -> Option<Mapping> {
    let has_identity = header.kind == Kind::MMAP2;
    let mut out = Mapping {
        start: body.u64(8)?,
        len: body.u64(16)?,
        offset: body.u64(24)?,
        path: body.text(if has_identity { 64 } else { 32 })?,
        build_id: Vec::new(),
        is_kernel: header.misc & MISC_CPUMODE == MISC_KERNEL,
    };
    if has_identity && header.misc & MISC_MMAP_BUILD_ID != 0 {
        let n = usize::from(*body.bytes.get(32)?);
        out.build_id = body.bytes.get(36..36 + n.min(20))?.to_vec();
    }
    Some(out)
}
