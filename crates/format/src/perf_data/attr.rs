//! The request for each event, `struct perf_event_attr`, and the layout of records that follows from it.
//!
//! A sample has one u64 for each bit of `sample_type` that is set, in the fixed order of perf_event_open(2): identifier, ip, tid,
//! time, addr, id, stream id, cpu, period; then the parts without a fixed length, counters, call chain, raw bytes. Other
//! records end with tid, time, id, stream id, cpu, identifier when `sample_id_all` is set, so those are found from the end.
//! Both layouts are computed once for each event and not for each record.
use crate::bytes::Words;
use crate::{Error, Result};

const IP: u64 = 1 << 0;
const TID: u64 = 1 << 1;
const TIME: u64 = 1 << 2;
const ADDR: u64 = 1 << 3;
const READ: u64 = 1 << 4;
const CALLCHAIN: u64 = 1 << 5;
const ID: u64 = 1 << 6;
const CPU: u64 = 1 << 7;
const PERIOD: u64 = 1 << 8;
const STREAM_ID: u64 = 1 << 9;
const RAW: u64 = 1 << 10;
const STACK_USER: u64 = 1 << 13;
const IDENTIFIER: u64 = 1 << 16;

const READ_TIME_ENABLED: u64 = 1 << 0;
const READ_TIME_RUNNING: u64 = 1 << 1;
const READ_ID: u64 = 1 << 2;
const READ_GROUP: u64 = 1 << 3;
const READ_LOST: u64 = 1 << 4;

/// Bits of the flags word, counted from its first bit on either byte order.
const FLAG_INHERIT: u32 = 1;
const FLAG_FREQ: u32 = 10;
const FLAG_ENABLE_ON_EXEC: u32 = 12;
const FLAG_SAMPLE_ID_ALL: u32 = 18;
const FLAG_USE_CLOCKID: u32 = 25;
const FLAG_CONTEXT_SWITCH: u32 = 26;

/// PERF_ATTR_SIZE_VER0: no attribute is shorter.
pub(super) const ATTR_BYTES_MIN: usize = 64;
/// The kernel refuses longer ones.
pub(super) const ATTR_BYTES_MAX: usize = 4096;
const TYPE_HARDWARE: u32 = 0;
const TYPE_SOFTWARE: u32 = 1;
const TYPE_TRACEPOINT: u32 = 2;
const TYPE_RAW: u32 = 4;
const TYPE_BREAKPOINT: u32 = 5;
const HARDWARE_CYCLES: u64 = 0;
const SOFTWARE_CPU_CLOCK: u64 = 0;
const SOFTWARE_TASK_CLOCK: u64 = 1;
const SOFTWARE_DUMMY: u64 = 9;

/// One event that was opened.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Attr {
    /// PERF_TYPE_*: 0 hardware, 1 software, 2 tracepoint, ...
    pub kind: u32,
    /// The event within that type; tracepoints: the event id.
    pub config: u64,
    /// Events from one sample to the next, or with `freq` samples a second.
    pub period: u64,
    /// `period` is a frequency, which the kernel holds by choosing periods.
    pub freq: bool,
    /// PERF_SAMPLE_*: what its records hold.
    pub sample_type: u64,
    /// PERF_FORMAT_*: the layout of counters in records.
    pub read_format: u64,
    /// Other records than samples end with time, CPU and so on.
    pub sample_id_all: bool,
    /// Switches are recorded.
    pub context_switch: bool,
    /// Children are recorded too.
    pub inherit: bool,
    /// Recording began with the program that perf started.
    pub enable_on_exec: bool,
    /// The clock, when not perf's own: a CLOCK_* number.
    pub clockid: Option<i32>,
    /// The ids by which records name it.
    pub ids: Vec<u64>,
    /// Its name, when the file says so.
    pub name: String,
}

impl Attr {
    /// `bytes`: as many as the file says; more than are known are ignored, missing ones are 0.
    pub(super) fn parse(bytes: &[u8], big_endian: bool, offset: u64) -> Result<Attr> {
        let words = Words::new(bytes, big_endian);
        let truncated = || {
            let need = ATTR_BYTES_MIN as u64;
            Error::truncated("perf event attribute", offset, bytes.len() as u64, need)
        };
        let u64_at = |at| words.u64(at).ok_or_else(truncated);
        let flags = u64_at(40)?;
        // Bit fields begin at the low bit of a little-endian word and at the high bit of a big-endian one.
        let flag = |bit: u32| flags >> if big_endian { 63 - bit } else { bit } & 1 != 0;
        Ok(Attr {
            kind: words.u32(0).ok_or_else(truncated)?,
            config: u64_at(8)?,
            period: u64_at(16)?,
            freq: flag(FLAG_FREQ),
            sample_type: u64_at(24)?,
            read_format: u64_at(32)?,
            sample_id_all: flag(FLAG_SAMPLE_ID_ALL),
            context_switch: flag(FLAG_CONTEXT_SWITCH),
            inherit: flag(FLAG_INHERIT),
            enable_on_exec: flag(FLAG_ENABLE_ON_EXEC),
            clockid: flag(FLAG_USE_CLOCKID).then(|| words.i32(92).unwrap_or(0)),
            ids: Vec::new(),
            name: String::new(),
        })
    }

    /// Whether it is a tracepoint.
    pub fn is_tracepoint(&self) -> bool {
        self.kind == TYPE_TRACEPOINT
    }

    /// Whether its samples hold copies of the program's stack instead of its call chain.
    pub fn copies_stacks(&self) -> bool {
        self.sample_type & STACK_USER != 0
    }

    /// Whether it counts ns of CPU time, so that a sample's period is a time.
    pub fn is_clock(&self) -> bool {
        self.kind == TYPE_SOFTWARE
            && matches!(self.config, SOFTWARE_CPU_CLOCK | SOFTWARE_TASK_CLOCK)
    }

    /// How well its samples show what a CPU's time went to, the lowest best: clocks, cycles, other events of the processor. None: not at all.
    pub fn clock_rank(&self) -> Option<u8> {
        // The upper half says which unit of a processor with several kinds of cores.
        match (self.kind, self.config & u64::from(u32::MAX)) {
            _ if self.is_clock() => Some(0),
            (TYPE_HARDWARE, HARDWARE_CYCLES) => Some(1),
            (TYPE_HARDWARE | TYPE_RAW, _) => Some(2),
            // A processor's own unit, numbered by the kernel: `cpu_core/cycles/`.
            (kind, _) if kind > TYPE_BREAKPOINT => Some(2),
            _ => None,
        }
    }

    /// It is there for the records of processes only, and never samples.
    pub(super) fn is_dummy(&self) -> bool {
        self.kind == TYPE_SOFTWARE && self.config == SOFTWARE_DUMMY
    }

    /// Layout of its samples.
    pub(super) fn sample_layout(&self) -> SampleLayout {
        let mut at = 0;
        let mut place = |bit: u64| {
            let has = self.sample_type & bit != 0;
            at += usize::from(has) * 8;
            has.then(|| at - 8)
        };
        let identifier = place(IDENTIFIER);
        let ip = place(IP);
        let (tid, time) = (place(TID), place(TIME));
        place(ADDR);
        let id = place(ID);
        place(STREAM_ID);
        let cpu = place(CPU);
        let period = place(PERIOD);
        SampleLayout {
            ip,
            period,
            tid,
            time,
            id: identifier.or(id),
            cpu,
            fixed_bytes: at,
            read: (self.sample_type & READ != 0).then_some(self.read_format),
            callchain: self.sample_type & CALLCHAIN != 0,
            raw: self.sample_type & RAW != 0,
        }
    }

    /// Layout of the fields at the end of other records than samples; offsets are counted from the end.
    pub(super) fn id_layout(&self) -> IdLayout {
        let kinds = [TID, TIME, ID, STREAM_ID, CPU, IDENTIFIER];
        let mut bytes = 0;
        let mut place = [None; 6];
        for (place, kind) in place.iter_mut().zip(kinds).rev() {
            if self.sample_id_all && self.sample_type & kind != 0 {
                bytes += 8;
                *place = Some(bytes);
            }
        }
        let [tid, time, id, _, cpu, identifier] = place;
        IdLayout { tid, time, id: identifier.or(id), cpu, bytes }
    }
}

/// Places in a sample, bytes after its header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct SampleLayout {
    pub ip: Option<usize>,
    pub period: Option<usize>,
    pub tid: Option<usize>,
    pub time: Option<usize>,
    pub id: Option<usize>,
    pub cpu: Option<usize>,
    /// Offset of the first part without a fixed length.
    fixed_bytes: usize,
    read: Option<u64>,
    callchain: bool,
    raw: bool,
}

impl SampleLayout {
    /// The call chain in a sample, 8 bytes an entry; empty: the event has none. None: it is not inside.
    pub fn chain<'a>(&self, body: Words<'a>) -> Option<&'a [u8]> {
        if !self.callchain {
            return Some(&[]);
        }
        let at = self.after_counters(body)?;
        let n = usize::try_from(body.u64(at)?).ok()?;
        body.bytes.get(at + 8..)?.get(..n.checked_mul(8)?)
    }

    /// Where the parts behind the counters begin.
    #[inline]
    fn after_counters(&self, body: Words<'_>) -> Option<usize> {
        match self.read {
            Some(format) => {
                let at = self.fixed_bytes;
                at.checked_add(read_bytes(body, at, format)?)
            }
            None => Some(self.fixed_bytes),
        }
    }

    /// The tracepoint's bytes in a sample; none: it has none, or they are not inside.
    #[inline]
    pub fn raw<'a>(&self, body: Words<'a>) -> Option<&'a [u8]> {
        if !self.raw {
            return None;
        }
        let mut at = self.after_counters(body)?;
        if self.callchain {
            let n = usize::try_from(body.u64(at)?).ok()?;
            at = n.checked_mul(8)?.checked_add(8)?.checked_add(at)?;
        }
        let n = body.u32(at)? as usize;
        body.bytes.get(at + 4..)?.get(..n)
    }
}

/// Length of the counters at `at`.
fn read_bytes(body: Words<'_>, at: usize, format: u64) -> Option<usize> {
    let words = |bits: u64| (format & bits).count_ones() as usize;
    let times = words(READ_TIME_ENABLED | READ_TIME_RUNNING);
    let each = 1 + words(READ_ID | READ_LOST);
    let n = if format & READ_GROUP == 0 {
        times + each
    } else {
        let members = usize::try_from(body.u64(at)?).ok()?;
        members.checked_mul(each)?.checked_add(1 + times)?
    };
    n.checked_mul(8)
}

/// Places in the end of other records, bytes from their end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct IdLayout {
    pub tid: Option<usize>,
    pub time: Option<usize>,
    pub id: Option<usize>,
    pub cpu: Option<usize>,
    /// Length of it all.
    pub bytes: usize,
}
