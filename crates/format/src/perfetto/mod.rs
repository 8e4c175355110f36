//! Perfetto's trace format: packets, and those of their messages that are about threads. Read in place.
//!
//! Field numbers are those of perfetto.dev/docs/reference/trace-packet-proto; kinds that are not read are told by their numbers.
//!
//! | module | does |
//! |---|---|
//! | `wire` | protobuf's fields, whatever message they are of |
//! | `describe` | clocks, processes, the machine, tracks, names |
//! | `ftrace` | bundles of kernel events |
//! | `marks` | of these, the events that are annotations: texts of `trace_marker`, drivers' slices, the kernel's counters |
//! | `generic_kernel` | threads' states on kernels other than Linux |
//! | `counts` | how many kernel events of each kind bundles hold |
//! | `names` | names of kinds |
//! | `log` | messages that programs logged |
//! | `stats`, `sys_stats` | memory and CPU time of processes and of the machine, from /proc |
//! | `service` | what the recorder lost |
//! | `track_event` | slices, points, counters, arrows, arguments |
//!
//! A trace is a row of packets, each of one writer (*sequence*). Packets of a sequence depend on earlier ones of it: names are
//! interned once and then referred to by number, stamps may be differences. This crate reads single packets; the importer
//! keeps the state of the sequences.
mod counts;
mod describe;
mod ftrace;
mod generic_kernel;
mod log;
mod marks;
pub mod names;
mod service;
mod stats;
mod sys_stats;
mod track_event;
pub mod wire;

pub use counts::EventCounts;
pub use describe::{
    ClockReading, ClockSnapshot, KnownProcess, SystemInfo, TrackDescriptor, interned, processes,
};
pub use ftrace::{Bundle, Ftrace, FtraceEvent, Name, READ_EVENTS};
pub use generic_kernel::{Task, TaskState, cpu_frequency, task_rename, tasks};
pub use log::{LogEntry, android_log, journal_entry};
pub use marks::{MARKS, Mark, MarkEvent, Of};
pub use service::{CpuBuffer, FtraceStats, ServiceBuffer, service_buffers};
pub use stats::process_stats;
pub use sys_stats::sys_stats;
pub use track_event::{ArgValue, Legacy, MAX_ARGS, Number, TrackEvent, each_arg};

use crate::{Error, Result};
use wire::{Message, varint};

/// The packets of a trace, or of a compressed packet.
#[derive(Clone, Copy, Debug)]
pub struct Packets<'a>(Message<'a>);

/// One packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Packet<'a> {
    /// Offset of its content in the file.
    pub offset: u64,
    /// Stamp, of `clock`.
    pub timestamp: Option<u64>,
    /// Clock of the stamp; none: the sequence's, else the trace's.
    pub clock: Option<u32>,
    /// The writer.
    pub sequence: u32,
    /// Names before this packet are forgotten.
    pub state_cleared: bool,
    /// Needs names of earlier packets.
    pub needs_state: bool,
    /// Earlier packets of this writer are missing.
    pub previous_dropped: bool,
    /// Names that later packets refer to.
    pub interned: Option<Message<'a>>,
    /// `TracePacketDefaults`.
    pub defaults: Option<Message<'a>>,
    /// Its content.
    pub data: Data<'a>,
    /// Number of the field with the content, see [`names::packet`]; 0: it has none.
    pub kind: u32,
}

/// Fields of a packet that are about its writer or its stamp, not its content: `timestamp` and its clock, the ids of user, process,
/// machine and sequence, interned data, defaults, and the flags of the sequence.
const AROUND: &[u32] = &[3, 8, 10, 12, 13, 41, 42, 58, 59, 79, 87, 98];

/// Content of a packet.
#[derive(Clone, Copy, Debug, Default)]
pub enum Data<'a> {
    /// Nothing that is read.
    #[default]
    Other,
    /// Kernel events of one CPU.
    Ftrace(Message<'a>),
    /// Processes and threads.
    ProcessTree(Message<'a>),
    /// Readings of several clocks at one moment.
    ClockSnapshot(Message<'a>),
    /// A slice's begin or end, a point, a counter's value.
    TrackEvent(Message<'a>),
    /// Memory and CPU time of processes.
    ProcessStats(Message<'a>),
    /// Messages of Android's log.
    AndroidLog(Message<'a>),
    /// A message of systemd's journal.
    Journal(Message<'a>),
    /// Description of a track.
    TrackDescriptor(Message<'a>),
    /// The sequence's thread (old writers).
    ThreadDescriptor(Message<'a>),
    /// The sequence's process (old writers).
    ProcessDescriptor(Message<'a>),
    /// The machine.
    SystemInfo(Message<'a>),
    /// Memory, CPU time, frequencies of the machine.
    SysStats(Message<'a>),
    /// Losses in the kernel's buffers.
    FtraceStats(Message<'a>),
    /// Losses in the recorder's buffers.
    TraceStats(Message<'a>),
    /// A thread's new state, on a kernel other than Linux.
    TaskState(Message<'a>),
    /// A thread's new name there.
    TaskRename(Message<'a>),
    /// A CPU's new frequency there.
    CpuFrequency(Message<'a>),
    /// Processes and threads there.
    GenericTree(Message<'a>),
    /// zlib of packets.
    Deflated(Message<'a>),
    /// zstd of packets.
    Zstd(Message<'a>),
}

const PACKET: u8 = 0x0a;

impl<'a> Packets<'a> {
    /// The packets in `bytes`, which begin `base` bytes into the file.
    pub fn new(bytes: &'a [u8], base: u64) -> Packets<'a> {
        Packets(Message::new(bytes, base))
    }

    /// Offset of the next packet.
    pub fn offset(&self) -> u64 {
        self.0.offset()
    }

    /// The next packet; none at the end.
    ///
    /// # Errors
    /// Bytes that are no packet.
    pub fn next_packet(&mut self) -> Result<Option<Packet<'a>>> {
        while let Some(field) = self.0.next_field()? {
            if field.number == 1 {
                return Packet::parse(field.message()).map(Some);
            }
        }
        Ok(None)
    }
}

impl<'a> Packet<'a> {
    fn parse(mut message: Message<'a>) -> Result<Packet<'a>> {
        let mut packet = Packet { offset: message.offset(), ..Packet::default() };
        while let Some(field) = message.next_field()? {
            if !AROUND.contains(&field.number) {
                packet.kind = field.number;
            }
            match field.number {
                1 => packet.data = Data::Ftrace(field.message()),
                2 => packet.data = Data::ProcessTree(field.message()),
                6 => packet.data = Data::ClockSnapshot(field.message()),
                7 => packet.data = Data::SysStats(field.message()),
                8 => packet.timestamp = Some(field.u64()),
                9 => packet.data = Data::ProcessStats(field.message()),
                10 => packet.sequence = field.u32(),
                11 => packet.data = Data::TrackEvent(field.message()),
                12 => packet.interned = Some(field.message()),
                13 => {
                    packet.state_cleared |= field.u64() & 1 != 0;
                    packet.needs_state = field.u64() & 2 != 0;
                }
                34 => packet.data = Data::FtraceStats(field.message()),
                35 => packet.data = Data::TraceStats(field.message()),
                39 => packet.data = Data::AndroidLog(field.message()),
                41 => packet.state_cleared |= field.bool(),
                42 => packet.previous_dropped = field.bool(),
                43 => packet.data = Data::ProcessDescriptor(field.message()),
                44 => packet.data = Data::ThreadDescriptor(field.message()),
                45 => packet.data = Data::SystemInfo(field.message()),
                50 => packet.data = Data::Deflated(field.message()),
                58 => packet.clock = Some(field.u32()),
                59 => packet.defaults = Some(field.message()),
                60 => packet.data = Data::TrackDescriptor(field.message()),
                117 => packet.data = Data::TaskState(field.message()),
                118 => packet.data = Data::CpuFrequency(field.message()),
                120 => packet.data = Data::TaskRename(field.message()),
                122 => packet.data = Data::GenericTree(field.message()),
                132 => packet.data = Data::Journal(field.message()),
                133 => packet.data = Data::Zstd(field.message()),
                _ => {}
            }
        }
        Ok(packet)
    }
}

/// Whether a file begins as a trace does: with a packet whose fields can be walked, and then another. The first may be
/// cut, in a file that is.
pub fn is_trace(bytes: &[u8]) -> bool {
    let Some((&PACKET, rest)) = bytes.split_first() else {
        return false;
    };
    let Some((length, used)) = varint(rest) else {
        return false;
    };
    let body = &rest[used..];
    let is_cut = length > body.len() as u64;
    let body = &body[..body.len().min(usize::try_from(length).unwrap_or(usize::MAX))];
    let next = rest.get(used + body.len());
    let mut message = Message::new(body, 0);
    let mut n_fields = 0;
    loop {
        match message.next_field() {
            // The highest numbers that packets have are those of tests and of extensions.
            Ok(Some(field)) if field.number <= 2000 => n_fields += 1,
            Ok(Some(_)) => return false,
            Ok(None) => return n_fields > 0 && next.is_none_or(|&tag| tag == PACKET),
            Err(_) => return is_cut && n_fields > 0,
        }
    }
}

/// Bytes that a compressed packet may unpack to: tools write at most some MB in one.
pub const MAX_UNPACKED: u64 = 256 << 20;

/// A compressed packet that is too large, or cannot be unpacked.
pub fn unpack_error(offset: u64, found: String) -> Error {
    Error::damaged("compressed packet", offset, found, "packed packets of at most 256 MiB")
}
