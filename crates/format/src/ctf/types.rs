//! Content of CTF metadata, in either of its languages: TSDL (CTF 1.8) or JSON (CTF 2).
//!
//! [`Metadata`] has the clocks, the stream classes and their event classes; these have the [`Type`] trees: packet header
//! and context, event header, common and specific context, payload. Types are shared (`Rc`), because a declared name
//! may be used many times. `limits` bounds their size and depth while they are built.
use std::rc::Rc;

/// Metadata of one trace.
#[derive(Clone, Debug, Default)]
pub struct Metadata {
    /// 1: CTF 1.8, 2: CTF 2.
    pub major: u32,
    /// Of the trace, when it says so.
    pub uuid: Option<[u8; 16]>,
    /// Whether numbers are big-endian unless they say otherwise.
    pub big_endian: bool,
    /// Facts about where the trace was made.
    pub env: Vec<(String, EnvValue)>,
    /// Clocks.
    pub clocks: Vec<Clock>,
    /// Layout of each packet's head.
    pub packet_header: Option<Rc<Type>>,
    /// Kinds of streams.
    pub streams: Vec<StreamClass>,
}

impl Metadata {
    /// The text of an environment entry.
    pub fn env_text(&self, name: &str) -> Option<&str> {
        self.env.iter().find_map(|(n, value)| match value {
            EnvValue::Text(text) if n == name => Some(text.as_str()),
            _ => None,
        })
    }

    /// The number of an environment entry.
    pub fn env_int(&self, name: &str) -> Option<i64> {
        self.env.iter().find_map(|(n, value)| match value {
            EnvValue::Int(int) if n == name => Some(*int),
            _ => None,
        })
    }
}

/// Value of an environment entry.
#[derive(Clone, PartialEq, Debug)]
pub enum EnvValue {
    /// A number.
    Int(i64),
    /// Text.
    Text(String),
}

/// A clock whose cycles stamps count.
#[derive(Clone, Debug)]
pub struct Clock {
    /// The name by which fields and streams refer to it.
    pub id: String,
    /// Its name for people; often the same.
    pub name: String,
    /// Its description, for people.
    pub description: String,
    /// Two clocks with equal ones are the same clock.
    pub uuid: String,
    /// Cycles of one second.
    pub frequency: u64,
    /// Whole seconds from the origin to its zero.
    pub offset_s: i64,
    /// Cycles more.
    pub offset: i64,
    /// Whether the origin is the Unix epoch: the clock can be compared with every other such clock.
    pub absolute: bool,
}

impl Default for Clock {
    fn default() -> Clock {
        Clock {
            id: String::new(),
            name: String::new(),
            description: String::new(),
            uuid: String::new(),
            frequency: 1_000_000_000,
            offset_s: 0,
            offset: 0,
            absolute: false,
        }
    }
}

impl Clock {
    /// Nanoseconds in so many cycles, rounded down; saturates.
    pub fn ns(&self, cycles: u64) -> i64 {
        if self.frequency == 1_000_000_000 {
            return i64::try_from(cycles).unwrap_or(i64::MAX);
        }
        let ns = u128::from(cycles) * 1_000_000_000 / u128::from(self.frequency.max(1));
        i64::try_from(ns).unwrap_or(i64::MAX)
    }

    /// Nanoseconds from the origin to the clock's zero; saturates.
    pub fn offset_ns(&self) -> i64 {
        let cycles = i128::from(self.offset) * 1_000_000_000;
        let part = cycles.div_euclid(i128::from(self.frequency.max(1)));
        let ns = i128::from(self.offset_s) * 1_000_000_000 + part;
        ns.clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }
}

/// A kind of stream.
#[derive(Clone, Debug, Default)]
pub struct StreamClass {
    /// As packet headers have it.
    pub id: u64,
    /// Its name, when it has one.
    pub name: String,
    /// The clock of its stamps: index into [`Metadata::clocks`].
    pub clock: Option<usize>,
    /// Layout of what follows the packet header.
    pub packet_context: Option<Rc<Type>>,
    /// Layout of each event's head.
    pub event_header: Option<Rc<Type>>,
    /// Layout of what follows the head in every event.
    pub event_context: Option<Rc<Type>>,
    /// Kinds of events.
    pub events: Vec<EventClass>,
}

/// A kind of event.
#[derive(Clone, Debug, Default)]
pub struct EventClass {
    /// As event headers have it.
    pub id: u64,
    /// Its name: "sched_switch", "provider:event".
    pub name: String,
    /// Layout of its own context.
    pub context: Option<Rc<Type>>,
    /// Layout of its fields.
    pub payload: Option<Rc<Type>>,
}

/// Meaning of a field to readers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Role {
    /// Nothing.
    #[default]
    None,
    /// 0xc1fc1fc1.
    Magic,
    /// The trace's UUID.
    Uuid,
    /// Id of its stream class.
    StreamClassId,
    /// Id of its stream.
    StreamId,
    /// Bits of the packet with padding.
    PacketBits,
    /// Bits of the packet without padding.
    ContentBits,
    /// Stamp of the packet's begin, or of the event.
    Stamp,
    /// Stamp of the packet's end.
    EndStamp,
    /// Events discarded so far in this stream.
    Discarded,
    /// Number of the packet in its stream.
    Sequence,
    /// Id of its event class.
    EventClassId,
}

/// Location of a length or a selector.
#[derive(Clone, Debug, Default)]
pub struct Location {
    /// In which structure it begins; none: search from the inside out.
    pub scope: Option<Scope>,
    /// Names from there; none: the structure around.
    pub path: Vec<Option<String>>,
}

/// The structures of a packet and its events, in the order in which they lie there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Scope {
    /// Packet header.
    PacketHeader,
    /// Packet context.
    PacketContext,
    /// Event header.
    EventHeader,
    /// Context that all events of a stream class have.
    CommonContext,
    /// Context of one event class.
    SpecificContext,
    /// An event's own fields.
    Payload,
}

/// Inclusive.
pub type Span = (i128, i128);

/// Names for ranges of values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mapping {
    /// The name.
    pub label: String,
    /// The values.
    pub spans: Vec<Span>,
}

/// Number of elements.
#[derive(Clone, Debug)]
pub enum Length {
    /// So many.
    Fixed(u64),
    /// As many as an earlier field says.
    Field(Location),
}

/// A whole number of a fixed number of bits.
#[derive(Clone, Debug, Default)]
pub struct Int {
    /// 1..=64.
    pub bits: u8,
    /// In bits, a power of two.
    pub align: u64,
    /// Two's complement.
    pub signed: bool,
    /// Byte order.
    pub big_endian: bool,
    /// The first bit is not where this byte order has it by default (CTF 2 only).
    pub reversed: bool,
    /// A character of text, when in an array.
    pub text: bool,
    /// Names of values.
    pub mappings: Option<Rc<Vec<Mapping>>>,
    /// Index of the clock that it is a stamp of.
    pub clock: Option<usize>,
    /// Its meaning (CTF 2).
    pub roles: Vec<Role>,
}

/// A member of a structure.
#[derive(Clone, Debug)]
pub struct Member {
    /// As written.
    pub name: String,
    /// Its type.
    pub ty: Rc<Type>,
}

/// One choice of a variant.
#[derive(Clone, Debug)]
pub struct Choice {
    /// As written.
    pub name: String,
    /// Values of the selector that choose it; none: those that the selector's mapping of the same name has.
    pub spans: Option<Vec<Span>>,
    /// Its type.
    pub ty: Rc<Type>,
}

/// The layout of a field.
#[derive(Clone, Debug)]
pub enum Type {
    /// A whole number.
    Int(Int),
    /// LEB128.
    VarInt {
        /// Two's complement.
        signed: bool,
        /// Names of values.
        mappings: Option<Rc<Vec<Mapping>>>,
        /// Its meaning.
        roles: Vec<Role>,
    },
    /// IEEE 754.
    Float {
        /// 16, 32, 64.
        bits: u8,
        /// In bits.
        align: u64,
        /// Byte order.
        big_endian: bool,
    },
    /// Text that ends with a zero.
    Str {
        /// Bytes of one code unit.
        unit: u8,
    },
    /// Bytes of a known number.
    Bytes {
        /// Number of bytes.
        length: Length,
        /// Text, or anything.
        text: bool,
        /// Their meaning.
        roles: Vec<Role>,
    },
    /// Members one after the other.
    Struct {
        /// They.
        members: Vec<Member>,
        /// At least, in bits.
        align: u64,
    },
    /// Equal elements one after the other.
    Array {
        /// Type of each element.
        element: Rc<Type>,
        /// Number of elements.
        length: Length,
        /// At least, in bits.
        align: u64,
    },
    /// One of several.
    Variant {
        /// The field that selects the option; none: a TSDL variant without its tag.
        selector: Option<Location>,
        /// Among what.
        choices: Vec<Choice>,
    },
    /// Something, or nothing.
    Optional {
        /// The field that decides whether it is there.
        selector: Location,
        /// Values that say there is something; none: any but zero.
        spans: Option<Vec<Span>>,
        /// Type of the value if it is there.
        ty: Rc<Type>,
    },
}

impl Type {
    /// Alignment in bits.
    pub fn align(&self) -> u64 {
        match self {
            Type::Int(int) => int.align,
            Type::Float { align, .. } => *align,
            Type::VarInt { .. } | Type::Str { .. } | Type::Bytes { .. } => 8,
            Type::Struct { members, align } => {
                members.iter().map(|m| m.ty.align()).fold(*align, u64::max)
            }
            Type::Array { element, align, .. } => element.align().max(*align),
            // Each choice aligns itself.
            Type::Variant { .. } | Type::Optional { .. } => 1,
        }
    }
}
