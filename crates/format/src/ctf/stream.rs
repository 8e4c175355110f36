//! A stream file: packets, and events in them.
//!
//! [`packets`] steps over all packets by their headers; a packet that does not give its size is the rest of the file.
//! [`Reader`] then reads the events of the packets in any order: [`Reader::enter`] a packet, [`Reader::head`] for an event's
//! head, and [`Reader::body`], [`Reader::fixed`] or [`Reader::skip`] for its fields.
//!
//! Stamps are the low bits of a clock (27 or 32 are usual). The full count starts at the packet's begin and goes on by the
//! difference modulo the stamp's width, which is right as long as no two events of a packet are a whole wrap apart.
use super::bits::Bits;
use super::layout::{EventLayout, HeaderShape, Layout};
use super::program::{Program, Value, whole};
use super::types::{Metadata, Role};
use crate::{Error, ErrorKind, Result};
use std::rc::Rc;

/// Begins each packet, where headers say so.
const MAGIC: u64 = 0xc1fc_1fc1;

/// One packet of a stream file.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Packet {
    /// Offset in its file, bytes.
    pub offset: u64,
    /// With padding.
    pub bytes: u64,
    /// Bits without padding.
    pub content_bits: u64,
    /// First bit of its first event.
    pub first_bit: u64,
    /// Stream class: index into [`Layout::streams`].
    pub stream: usize,
    /// Id of the stream within that class.
    pub stream_id: Option<u64>,
    /// Cycles at its begin.
    pub begin: Option<u64>,
    /// Cycles at its end.
    pub end: Option<u64>,
    /// Events discarded in this stream up to its end.
    pub discarded: Option<u64>,
    /// Its number in the stream.
    pub sequence: Option<u64>,
    /// CPU that wrote it.
    pub cpu: Option<u64>,
}

/// The head of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// Index into [`StreamLayout::events`](super::StreamLayout::events).
    pub class: u32,
    /// Cycles of the stream's clock; 0 where there is none.
    pub cycles: u64,
}

/// Values found in the header and context of a packet.
#[derive(Default)]
struct Facts {
    magic: Option<u64>,
    uuid: Vec<u8>,
    stream_class: Option<u64>,
    stream_id: Option<u64>,
    packet_bits: Option<u64>,
    content_bits: Option<u64>,
    begin: Option<u64>,
    end: Option<u64>,
    discarded: Option<u64>,
    sequence: Option<u64>,
    cpu: Option<u64>,
}

impl Facts {
    fn read(
        &mut self,
        program: &Program,
        cpu: Option<u32>,
        bits: &mut Bits<'_>,
        slots: &mut [u64],
    ) -> Result<()> {
        program.run(bits, slots, &mut |leaf, value| {
            let role = program.leaves[leaf as usize].role;
            let n = match value {
                Value::Int(n) => n as u64,
                Value::Uint(n) => n,
                Value::Bytes(bytes) if role == Role::Uuid => {
                    self.uuid.extend(bytes.iter().take(16));
                    return;
                }
                _ => return,
            };
            if Some(leaf) == cpu {
                self.cpu = Some(n);
            }
            match role {
                Role::Magic => self.magic = Some(n),
                Role::Uuid if self.uuid.len() < 16 => self.uuid.push(n as u8),
                Role::StreamClassId => self.stream_class = Some(n),
                Role::StreamId => self.stream_id = Some(n),
                Role::PacketBits => self.packet_bits = Some(n),
                Role::ContentBits => self.content_bits = Some(n),
                Role::Stamp => self.begin = Some(n),
                Role::EndStamp => self.end = Some(n),
                Role::Discarded => self.discarded = Some(n),
                Role::Sequence => self.sequence = Some(n),
                _ => {}
            }
        })
    }
}

/// Whether a file begins as a stream file of this trace does.
pub fn is_stream(layout: &Layout, bytes: &[u8]) -> bool {
    packet(layout, bytes, 0, &mut vec![0; layout.n_slots]).is_ok()
}

/// The packets of a file, and what is wrong after the last of them.
pub fn packets(layout: &Layout, bytes: &[u8]) -> (Vec<Packet>, Option<Error>) {
    let mut slots = vec![0; layout.n_slots];
    let mut out = Vec::new();
    let mut at = 0;
    while (at as usize) < bytes.len() {
        match packet(layout, bytes, at, &mut slots) {
            Ok(packet) => {
                at += packet.bytes;
                out.push(packet);
            }
            Err(error) => return (out, Some(error)),
        }
    }
    (out, None)
}

/// The packet that begins at `offset`.
fn packet(layout: &Layout, file: &[u8], offset: u64, slots: &mut [u64]) -> Result<Packet> {
    let bytes = &file[offset as usize..];
    let mut bits = Bits::new(bytes, 0, u64::MAX, offset);
    let mut facts = Facts::default();
    facts.read(&layout.packet_header, None, &mut bits, slots)?;
    check(&facts, &layout.metadata, offset)?;
    let stream = layout.stream_of(facts.stream_class, offset)?;
    let class = &layout.streams[stream];
    facts.read(&class.context, class.cpu, &mut bits, slots)?;
    let left = bytes.len() as u64;
    let damaged =
        |found: String, needed: String| Error::damaged("CTF packet", offset, found, needed);
    // A packet that does not say its size is the rest of the file.
    let size = facts.packet_bits.unwrap_or(left * 8);
    let content = facts.content_bits.unwrap_or(size);
    if !size.is_multiple_of(8) || content > size || content < bits.at {
        return Err(damaged(
            format!("{content} bits of content in a packet of {size}"),
            format!("at least {} bits, in whole bytes that hold them", bits.at),
        ));
    }
    if size / 8 > left {
        return Err(Error::truncated("CTF packet", offset, left, size / 8));
    }
    if size == 0 {
        return Err(damaged("an empty packet".into(), "one with a size".into()));
    }
    Ok(Packet {
        offset,
        bytes: size / 8,
        content_bits: content,
        first_bit: bits.at,
        stream,
        stream_id: facts.stream_id,
        begin: facts.begin,
        end: facts.end,
        discarded: facts.discarded,
        sequence: facts.sequence,
        cpu: facts.cpu,
    })
}

fn check(facts: &Facts, metadata: &Metadata, offset: u64) -> Result<()> {
    if let Some(magic) = facts.magic.filter(|&magic| magic != MAGIC) {
        return Err(Error::new(
            ErrorKind::Damaged,
            "CTF packet header",
            offset,
            format!("magic {magic:#x}"),
            format!("{MAGIC:#x}"),
        ));
    }
    match metadata.uuid {
        Some(uuid) if facts.uuid.len() == 16 && facts.uuid != uuid => Err(Error::damaged(
            "CTF packet header",
            offset,
            format!("a packet of trace {:02x?}", facts.uuid),
            format!("one of {uuid:02x?}, as the metadata says"),
        )),
        _ => Ok(()),
    }
}

/// Reads the events of a file, packet by packet.
#[derive(Debug)]
pub struct Reader<'a> {
    layout: Rc<Layout>,
    file: &'a [u8],
    stream: usize,
    bits: Bits<'a>,
    slots: Vec<u64>,
    now: u64,
    /// Offset of the event whose head was read last.
    event_at: u64,
}

impl<'a> Reader<'a> {
    /// At no packet yet.
    pub fn new(layout: Rc<Layout>, file: &'a [u8]) -> Reader<'a> {
        Reader {
            slots: vec![0; layout.n_slots],
            layout,
            file,
            stream: 0,
            bits: Bits::new(&[], 0, 0, 0),
            now: 0,
            event_at: 0,
        }
    }

    /// Goes to a packet of this file: one that [`packets`] found.
    ///
    /// # Errors
    /// Heads that cannot be read, which [`packets`] has read already.
    pub fn enter(&mut self, packet: &Packet) -> Result<()> {
        let (start, end) = (packet.offset as usize, (packet.offset + packet.bytes) as usize);
        let Some(bytes) = self.file.get(start..end) else {
            return Err(Error::truncated("CTF packet", packet.offset, 0, packet.bytes));
        };
        self.bits = Bits::new(bytes, 0, packet.content_bits, packet.offset);
        self.stream = packet.stream;
        // Events may depend on fields of the packet's head.
        let ignore = &mut |_, _| ();
        self.layout.packet_header.run(&mut self.bits, &mut self.slots, ignore)?;
        self.layout.streams[self.stream].context.run(&mut self.bits, &mut self.slots, ignore)?;
        if let Some(begin) = packet.begin {
            self.now = begin;
        }
        Ok(())
    }

    /// Leaves the rest of the packet.
    pub fn leave(&mut self) {
        self.bits.at = self.bits.end;
    }

    /// The next event's head; none at the packet's end. Its body must be read or skipped before the next.
    ///
    /// # Errors
    /// When bits are missing, or the event is of no known kind.
    #[inline]
    pub fn head(&mut self) -> Result<Option<Head>> {
        self.event_at = self.bits.at;
        if self.bits.at >= self.bits.end {
            return Ok(None);
        }
        let id = match self.layout.streams[self.stream].shape {
            HeaderShape::Compact => self.compact()?,
            HeaderShape::Large => self.large()?,
            HeaderShape::Other => self.other()?,
        };
        match self.layout.streams[self.stream].event(id) {
            Some(class) => {
                let cycles = self.now;
                Ok(Some(Head { class, cycles }))
            }
            None => Err(self.unknown(id)),
        }
    }

    #[cold]
    fn unknown(&self, id: u64) -> Error {
        Error::damaged(
            "CTF event",
            self.bits.base + self.event_at / 8,
            format!("event class {id}"),
            "one of the metadata",
        )
    }

    #[inline]
    fn compact(&mut self) -> Result<u64> {
        self.bits.align(8)?;
        let word = whole(self.bits.take(4)?, false);
        if word & 31 != 31 {
            self.tick(word >> 5, 27);
            return Ok(word & 31);
        }
        // The long form begins at the next byte.
        self.bits.at -= 24;
        self.long()
    }

    #[inline]
    fn large(&mut self) -> Result<u64> {
        self.bits.align(8)?;
        let id = whole(self.bits.take(2)?, false);
        if id != 0xffff {
            let stamp = whole(self.bits.take(4)?, false);
            self.tick(stamp, 32);
            return Ok(id);
        }
        self.long()
    }

    fn long(&mut self) -> Result<u64> {
        let id = whole(self.bits.take(4)?, false);
        self.now = whole(self.bits.take(8)?, false);
        Ok(id)
    }

    /// The clock's low bits are `stamp`: it went on by less than one wrap.
    #[inline]
    fn tick(&mut self, stamp: u64, bits: u8) {
        if bits >= 64 {
            self.now = stamp;
            return;
        }
        let mask = (1 << bits) - 1;
        let ahead = stamp.wrapping_sub(self.now) & mask;
        self.now = self.now.wrapping_add(ahead);
    }

    fn other(&mut self) -> Result<u64> {
        let program = &self.layout.streams[self.stream].header;
        let mut id = 0;
        let mut stamp = None;
        program.run(&mut self.bits, &mut self.slots, &mut |leaf, value| {
            let leaf = &program.leaves[leaf as usize];
            match (leaf.role, value.int()) {
                (Role::EventClassId, Some(n)) => id = n as u64,
                (Role::Stamp, Some(n)) => {
                    if let super::program::LeafKind::Int { bits, .. } = leaf.kind {
                        stamp = Some((n as u64, bits));
                    }
                }
                _ => {}
            }
        })?;
        if let Some((value, bits)) = stamp {
            self.tick(value, bits);
        }
        Ok(id)
    }

    /// The layout of an event whose head was just read.
    pub fn event(&self, head: Head) -> &EventLayout {
        &self.layout.streams[self.stream].events[head.class as usize]
    }

    /// The bytes of an event of fixed layout.
    ///
    /// # Errors
    /// When there are fewer.
    #[inline]
    pub fn fixed(&mut self, bytes: u32) -> Result<&'a [u8]> {
        self.bits.take(u64::from(bytes))
    }

    /// Decodes the fields of the event whose head was just read.
    ///
    /// # Errors
    /// When bits are missing or make no sense.
    pub fn body(&mut self, head: Head, mut each: impl FnMut(u32, Value<'a>)) -> Result<()> {
        let stream = &self.layout.streams[self.stream];
        let program = &stream.events[head.class as usize].program;
        program.run(&mut self.bits, &mut self.slots, &mut each)?;
        self.progress()
    }

    /// Goes on to the next event.
    ///
    /// # Errors
    /// As [`Self::body`].
    #[inline]
    pub fn skip(&mut self, head: Head) -> Result<()> {
        match self.event(head).program.fixed {
            Some(bytes) => {
                self.bits.take(u64::from(bytes))?;
                self.progress()
            }
            None => self.body(head, |_, _| ()),
        }
    }

    /// An event that takes no room would come again for ever.
    #[inline]
    fn progress(&mut self) -> Result<()> {
        match self.bits.at > self.event_at {
            true => Ok(()),
            false => Err(Error::damaged(
                "CTF event",
                self.bits.offset(),
                "an event of no bits",
                "at least one",
            )),
        }
    }
}
