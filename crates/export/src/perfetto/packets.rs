//! Framing and interning: packets go out one by one, so memory does not grow with the recording.
//!
//! A string is written once, with the first event that uses it ("interned"), and later events have its number only.
//! The format has separate numbers for event names, argument names and argument values; here they are the string's
//! number in the recording + 1, and [`Packets`] keeps three bits for each string. Strings of Kasuri's own, such as
//! categories, have numbers from [`OWN_IID`] on.
use super::proto::*;
use crate::exported::Counted;
use kasuri_model::label;
use kasuri_model::{StrIx, Trace};
use prost::Message;
use std::io::{self, Write};

/// All track events are one packet sequence, so they share one set of interned strings.
const SEQUENCE: u32 = 1;

/// Interning ids of strings that are not the recording's own start here.
const OWN_IID: u64 = 1 << 40;

/// Writes packets.
pub struct Packets<'a, W> {
    trace: &'a Trace,
    sink: Counted<W>,
    buffer: Vec<u8>,
    /// For each string of the recording, bit 0: sent as event name, 1: as argument name, 2: as argument value.
    sent: Vec<u8>,
    /// Strings that go out with the next event.
    pending: InternedData,
}

/// The uses of a string; the number is the bit in `sent`.
#[derive(Clone, Copy)]
enum Use {
    Name = 0,
    ArgName = 1,
    ArgValue = 2,
}

impl<'a, W: Write> Packets<'a, W> {
    /// A writer of `trace`'s packets into `out`.
    pub fn new(trace: &'a Trace, out: W) -> Self {
        Packets {
            trace,
            sink: Counted { out, records: 0 },
            buffer: Vec::new(),
            sent: vec![0; trace.strings.len()],
            pending: InternedData::default(),
        }
    }

    /// CLOCK_MONOTONIC of a model time.
    pub fn stamp(&self, time: kasuri_model::Time) -> u64 {
        self.trace.origin_monotonic_ns.saturating_add(time.ns()).max(0) as u64
    }

    /// Writes one packet.
    pub fn packet(&mut self, packet: &TracePacket) -> io::Result<()> {
        self.buffer.clear();
        // Field 1 (`packet`) of the message `Trace`, length-delimited: a file is these fields, one after the other.
        self.buffer.push(0x0a);
        prost::encoding::encode_varint(packet.encoded_len() as u64, &mut self.buffer);
        packet.encode_raw(&mut self.buffer);
        self.sink.records += 1;
        self.sink.out.write_all(&self.buffer)
    }

    /// Writes a packet without a stamp.
    pub fn describe(&mut self, data: Data) -> io::Result<()> {
        self.packet(&TracePacket {
            trusted_packet_sequence_id: Some(SEQUENCE),
            data: Some(data),
            ..Default::default()
        })
    }

    /// Starts the sequence of track events: interned strings before this packet would be forgotten.
    pub fn begin_sequence(&mut self) -> io::Result<()> {
        let own = |iid: usize, text: &str| Interned {
            iid: Some(OWN_IID + iid as u64),
            text: Some(text.into()),
        };
        let categories: Vec<Interned> =
            CATEGORIES.iter().enumerate().map(|(i, c)| own(i, c)).collect();
        let interned = InternedData {
            event_names: categories.clone(),
            debug_annotation_names: OWN_ARGS.iter().enumerate().map(|(i, c)| own(i, c)).collect(),
            event_categories: categories,
            ..Default::default()
        };
        self.packet(&TracePacket {
            trusted_packet_sequence_id: Some(SEQUENCE),
            sequence_flags: Some(SEQ_INCREMENTAL_STATE_CLEARED),
            interned_data: Some(interned),
            ..Default::default()
        })
    }

    /// Writes one track event with the strings it is the first to use.
    pub fn event(&mut self, time: kasuri_model::Time, event: TrackEvent) -> io::Result<()> {
        let pending = std::mem::take(&mut self.pending);
        let interned_data = (pending != InternedData::default()).then_some(pending);
        self.packet(&TracePacket {
            timestamp: Some(self.stamp(time)),
            trusted_packet_sequence_id: Some(SEQUENCE),
            sequence_flags: Some(SEQ_NEEDS_INCREMENTAL_STATE),
            interned_data,
            data: Some(Data::TrackEvent(event)),
        })
    }

    /// Writes a bundle of one CPU's scheduler events. Bundles are a sequence of their own.
    pub fn bundle(&mut self, bundle: FtraceEventBundle) -> io::Result<()> {
        self.packet(&TracePacket {
            trusted_packet_sequence_id: Some(SEQUENCE + 1),
            data: Some(Data::Ftrace(bundle)),
            ..Default::default()
        })
    }

    /// Writes a sample with the rows it is the first to use. Samples are a sequence of their own.
    pub fn sample(
        &mut self,
        time: kasuri_model::Time,
        sample: PerfSample,
        pending: InternedData,
        is_first: bool,
    ) -> io::Result<()> {
        let cleared = if is_first { SEQ_INCREMENTAL_STATE_CLEARED } else { 0 };
        self.packet(&TracePacket {
            timestamp: Some(self.stamp(time)),
            trusted_packet_sequence_id: Some(SEQUENCE + 2),
            sequence_flags: Some(SEQ_NEEDS_INCREMENTAL_STATE | cleared),
            interned_data: (pending != InternedData::default()).then_some(pending),
            data: Some(Data::PerfSample(sample)),
        })
    }

    /// The id of an event name; of `otherwise` when the recording has none.
    pub fn name(&mut self, name: StrIx, otherwise: Category) -> u64 {
        self.intern(name, Use::Name).unwrap_or(OWN_IID + otherwise.0)
    }

    /// The id of an argument's name.
    pub fn arg_name(&mut self, name: StrIx) -> u64 {
        self.intern(name, Use::ArgName).unwrap_or(OWN_IID)
    }

    /// The id of an argument's text.
    pub fn arg_value(&mut self, text: StrIx) -> u64 {
        self.intern(text, Use::ArgValue).unwrap_or(0)
    }

    /// The number of a string in one use; the string is sent with the next event if it was not yet. None: not a string
    /// of the recording, or an empty event name.
    fn intern(&mut self, text: StrIx, used: Use) -> Option<u64> {
        let iid = u64::from(text.0) + 1;
        let sent = self.sent.get_mut(text.ix())?;
        // Event names must not be empty; an argument may.
        if matches!(used, Use::Name) && self.trace.strings.get(text).is_empty() {
            return None;
        }
        if *sent & (1 << used as u8) == 0 {
            *sent |= 1 << used as u8;
            let entry =
                Interned { iid: Some(iid), text: Some(self.trace.strings.get(text).into()) };
            match used {
                Use::Name => self.pending.event_names.push(entry),
                Use::ArgName => self.pending.debug_annotation_names.push(entry),
                Use::ArgValue => self.pending.debug_annotation_string_values.push(entry),
            }
        }
        Some(iid)
    }

    /// Flushes what was written.
    pub fn finish(mut self) -> io::Result<u64> {
        self.sink.out.flush()?;
        Ok(self.sink.records)
    }
}

/// A category of track events; also the name of an event that has none.
#[derive(Clone, Copy)]
pub struct Category(pub u64);

const N_KINDS: usize = label::KINDS.len();
/// Names of categories: first one for each kind of slice, in the order of the kinds.
const CATEGORIES: [&str; N_KINDS + 5] = [
    "work",
    "barrier wait",
    "join wait",
    "condition wait",
    "I/O wait",
    "wait",
    "lock wait",
    "lock held",
    "task",
    "instant",
    "arrow",
    "counter",
    "kernel",
    "lost events",
];

impl Category {
    /// Instants.
    pub const INSTANT: Category = Category(N_KINDS as u64);
    /// Ends of arrows.
    pub const ARROW: Category = Category(N_KINDS as u64 + 1);
    /// Time inside the kernel.
    pub const KERNEL: Category = Category(N_KINDS as u64 + 3);
    /// Losses.
    pub const LOSS: Category = Category(N_KINDS as u64 + 4);

    /// The category of a kind of slice.
    pub fn of(kind: kasuri_model::SliceKind) -> Category {
        Category(kind as u64)
    }

    /// Its id in the sequence.
    pub fn iid(self) -> u64 {
        OWN_IID + self.0
    }
}

/// Names of arguments; a position is a value of [`OwnArg`].
const OWN_ARGS: [&str; 6] = ["arg", "object", "task", "count", "remedy", "not seen"];

/// Names of arguments that are Kasuri's own.
#[derive(Clone, Copy)]
pub enum OwnArg {
    /// Address of a lock or of what is waited for.
    Object = 1,
    /// Task id.
    Task = 2,
    /// Number of lost events.
    Count = 3,
    /// Which end of the slice was not recorded.
    NotSeen = 5,
}

impl OwnArg {
    /// An argument of this name.
    pub fn with(self, value: Value) -> DebugAnnotation {
        DebugAnnotation { name_iid: Some(OWN_IID + self as u64), value: Some(value) }
    }
}
