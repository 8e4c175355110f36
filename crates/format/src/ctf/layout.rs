//! A trace's metadata made ready to read its streams: all its types, compiled.
//!
//! A packet is read in the order packet header, packet context, then for each event its header, the contexts and its own
//! fields. The header's id selects the program for the rest. Small ids are an index into a vector and large ones are hashed,
//! since the id is looked up once for each event. LTTng's two standard event headers are recognised and decoded by code
//! of their own ([`HeaderShape`]), because every event of its traces has one.
use super::compile::Compiler;
use super::program::{Op, Program};
use super::types::*;
use crate::{Error, Result};
use std::collections::HashMap;
use std::rc::Rc;

/// Layout of the events of one trace in its files.
#[derive(Debug)]
pub struct Layout {
    /// The metadata it was compiled from.
    pub metadata: Metadata,
    pub(crate) packet_header: Program,
    /// As [`Metadata::streams`].
    pub streams: Vec<StreamLayout>,
    /// Slots that any program needs.
    pub(crate) n_slots: usize,
}

/// Layout of the events of one stream class in its packets.
#[derive(Debug)]
pub struct StreamLayout {
    pub(crate) context: Program,
    /// The context's field for the CPU's number.
    pub(crate) cpu: Option<u32>,
    pub(crate) header: Program,
    pub(crate) shape: HeaderShape,
    /// Kinds of events, in the order of the metadata.
    pub events: Vec<EventLayout>,
    /// Event ids -> `events`, where ids are small.
    by_small_id: Vec<u32>,
    by_id: HashMap<u64, u32>,
}

/// The fields after the head in one kind of event: contexts, then its own fields.
#[derive(Debug)]
pub struct EventLayout {
    /// Its name.
    pub name: String,
    /// The fields.
    pub program: Program,
}

/// Heads that have a shorter way than running their program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HeaderShape {
    /// LTTng: 5 bits id, 27 bits stamp; id 31: 32 bits id, 64 bits stamp, all at byte begins.
    Compact,
    /// LTTng: 16 bits id, 32 bits stamp; id 65535 likewise.
    Large,
    /// Any other.
    Other,
}

/// Ids below are looked up in a table.
const SMALL_IDS: u64 = 1 << 12;

impl Layout {
    /// Makes programs of metadata.
    ///
    /// # Errors
    /// When a field depends on one that is not there.
    pub fn new(metadata: Metadata) -> Result<Layout> {
        let mut base = Compiler::new(metadata.major);
        let header = metadata.packet_header.clone();
        let packet_header = base.program(&[(Scope::PacketHeader, header.as_ref())], true)?;
        let mut out =
            Layout { packet_header, streams: Vec::new(), n_slots: base.n_slots(), metadata };
        for class in &out.metadata.streams {
            let mut compiler = base.clone();
            let stream = StreamLayout::new(class, &mut compiler, &mut out.n_slots)?;
            *base.n_ops() = *compiler.n_ops();
            out.streams.push(stream);
        }
        Ok(out)
    }

    /// The clock of a stream class's stamps.
    pub fn clock(&self, stream: usize) -> Option<&Clock> {
        let clock = self.metadata.streams.get(stream)?.clock?;
        self.metadata.clocks.get(clock)
    }

    /// The stream class of that id; where headers have none, the only one.
    pub(crate) fn stream_of(&self, id: Option<u64>, offset: u64) -> Result<usize> {
        let streams = &self.metadata.streams;
        match id {
            None if !streams.is_empty() => Ok(0),
            None => Err(Error::damaged("CTF metadata", 0, "no stream class", "one")),
            Some(id) => streams.iter().position(|s| s.id == id).ok_or_else(|| {
                Error::damaged(
                    "CTF packet header",
                    offset,
                    format!("stream class {id}"),
                    "one of the metadata",
                )
            }),
        }
    }
}

impl StreamLayout {
    fn new(
        class: &StreamClass,
        compiler: &mut Compiler,
        n_slots: &mut usize,
    ) -> Result<StreamLayout> {
        let context = class.packet_context.as_ref();
        let context = compiler.program(&[(Scope::PacketContext, context)], false)?;
        let cpu = context.leaf("cpu_id");
        let n_before = compiler.n_slots() as u32;
        let header = class.event_header.as_ref();
        let header_program = compiler.program(&[(Scope::EventHeader, header)], false)?;
        let aligned = compiler.ends_aligned();
        let heads = compiler.n_slots();
        let before_header = n_before;
        let mut out = StreamLayout {
            context,
            cpu,
            shape: shape(class.event_header.as_ref(), &header_program),
            header: header_program,
            events: Vec::with_capacity(class.events.len()),
            by_small_id: Vec::new(),
            by_id: HashMap::new(),
        };
        for event in &class.events {
            compiler.forget_events(heads);
            let parts = [
                (Scope::CommonContext, class.event_context.as_ref()),
                (Scope::SpecificContext, event.context.as_ref()),
                (Scope::Payload, event.payload.as_ref()),
            ];
            let program = compiler.program(&parts, aligned)?;
            *n_slots = (*n_slots).max(compiler.n_slots());
            // The short ways do not keep the head's numbers.
            if program.uses(before_header..heads as u32) {
                out.shape = HeaderShape::Other;
            }
            out.add(event, program);
        }
        *n_slots = (*n_slots).max(heads);
        Ok(out)
    }

    fn add(&mut self, event: &EventClass, program: Program) {
        let ix = self.events.len() as u32;
        self.events.push(EventLayout { name: event.name.clone(), program });
        if event.id < SMALL_IDS {
            let id = event.id as usize;
            if self.by_small_id.len() <= id {
                self.by_small_id.resize(id + 1, u32::MAX);
            }
            self.by_small_id[id] = ix;
        } else {
            self.by_id.insert(event.id, ix);
        }
    }

    /// The kind of event of that id.
    #[inline]
    pub(crate) fn event(&self, id: u64) -> Option<u32> {
        match self.by_small_id.get(id as usize) {
            Some(&ix) if ix != u32::MAX => Some(ix),
            _ => self.by_id.get(&id).copied(),
        }
    }
}

/// Whether this is one of LTTng's two heads: recognised by their operations, not by names alone.
fn shape(ty: Option<&Rc<Type>>, program: &Program) -> HeaderShape {
    let Some(Type::Struct { .. }) = ty.map(|t| &**t) else {
        return HeaderShape::Other;
    };
    let role = |leaf: &u32| program.leaves[*leaf as usize].role;
    // After alignment to bytes: id; then by id either a stamp, or an id and a stamp.
    let [Op::Align(8), id, Op::Switch { choices, .. }, rest @ ..] = &program.ops[..] else {
        return HeaderShape::Other;
    };
    let little = |op: &Op, n: u8, wanted: Role| match op {
        Op::Bits { bits, signed: false, big_endian: false, reversed: false, leaf, .. } => {
            *bits == n && role(leaf) == wanted
        }
        Op::Whole { bytes, signed: false, big_endian: false, leaf, .. } => {
            *bytes * 8 == n && role(leaf) == wanted
        }
        _ => false,
    };
    let is = |id_bits: u8, stamp_bits: u8| {
        let last = (1i128 << id_bits) - 1;
        let spans =
            choices.len() == 2 && choices[0].0 == [(0, last - 1)] && choices[1].0 == [(last, last)];
        // Structures of whole bytes align themselves after the five bits; at that place that is no step in LTTng's
        // own metadata, whose 27 bits need none.
        spans
            && little(id, id_bits, Role::EventClassId)
            && match rest {
                [stamp, Op::Align(8), long_id, long_stamp] | [stamp, long_id, long_stamp] => {
                    little(stamp, stamp_bits, Role::Stamp)
                        && little(long_id, 32, Role::EventClassId)
                        && little(long_stamp, 64, Role::Stamp)
                }
                _ => false,
            }
    };
    match () {
        () if is(5, 27) => HeaderShape::Compact,
        () if is(16, 32) => HeaderShape::Large,
        () => HeaderShape::Other,
    }
}
