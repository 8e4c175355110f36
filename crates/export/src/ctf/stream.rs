//! Packets of one stream file.
//!
//! A packet, little-endian (the metadata in `class.rs` describes the same to readers):
//!
//! | bytes | header: the same in each packet |
//! |---|---|
//! | 0..4 | magic number 0xc1fc1fc1 |
//! | 4..20 | UUID of the trace |
//! | 20..24 | stream class, 0 |
//! | 24..32 | stream instance: which file of the trace |
//!
//! | bytes | context |
//! |---|---|
//! | 32..48 | stamps of begin and end, ns |
//! | 48..64 | bits of content and bits of the packet; equal, as nothing is padded |
//! | 64..72 | sequence number |
//! | 72..80 | events discarded so far: a counter, whose rise from the packet before is a loss |
//! | 80..84 | kernel streams: the CPU |
//!
//! Then events. The context is known only when the packet is full, so it is filled in at the end.
use kasuri_model::Time;
use std::io::{self, Write};

/// Bytes of a packet; one that is full is written and another begun.
const PACKET_BYTES: usize = 128 << 10;
/// Offset of the context, behind magic number, UUID, class and instance. It has six numbers of 64 bits, and the CPU's.
const CONTEXT_AT: usize = 4 + 16 + 4 + 8;

/// Writes events in order of time.
pub(super) struct StreamWriter<W> {
    out: W,
    uuid: [u8; 16],
    instance: u64,
    cpu: Option<u32>,
    /// ns on the clock at Time(0).
    origin: i64,
    packet: Vec<u8>,
    head: usize,
    begin: u64,
    last: u64,
    sequence: u64,
    discarded: u64,
    pub events: u64,
}

impl<W: Write> StreamWriter<W> {
    pub fn new(
        out: W,
        uuid: [u8; 16],
        instance: u64,
        cpu: Option<u32>,
        origin: i64,
        begin: Time,
    ) -> StreamWriter<W> {
        let mut writer = StreamWriter {
            out,
            uuid,
            instance,
            cpu,
            origin,
            packet: Vec::with_capacity(PACKET_BYTES + 4096),
            head: 0,
            begin: 0,
            last: 0,
            sequence: 0,
            discarded: 0,
            events: 0,
        };
        writer.last = writer.stamp(begin);
        writer.open();
        writer
    }

    /// ns on the clock; times before its zero are moved to it.
    fn stamp(&self, time: Time) -> u64 {
        u64::try_from(time.ns().saturating_add(self.origin)).unwrap_or(0)
    }

    /// Begins a packet, with room for its context.
    fn open(&mut self) {
        self.begin = self.last;
        self.packet.clear();
        self.packet.extend(0xc1fc_1fc1u32.to_le_bytes());
        self.packet.extend(self.uuid);
        self.packet.extend(0u32.to_le_bytes());
        self.packet.extend(self.instance.to_le_bytes());
        self.packet.extend([0; 48]);
        self.packet.extend(self.cpu.iter().flat_map(|cpu| cpu.to_le_bytes()));
        self.head = self.packet.len();
    }

    /// Fills in the context and writes the packet.
    fn close(&mut self, end: u64) -> io::Result<()> {
        let bits = self.packet.len() as u64 * 8;
        let context = [self.begin, end.max(self.last), bits, bits, self.sequence, self.discarded];
        let context: Vec<u8> = context.iter().flat_map(|n| n.to_le_bytes()).collect();
        self.packet[CONTEXT_AT..CONTEXT_AT + 48].copy_from_slice(&context);
        self.out.write_all(&self.packet)?;
        self.sequence += 1;
        Ok(())
    }

    /// Records that events are missing from here on, at least one: readers compare the counters of two packets.
    pub fn lost(&mut self, count: u64) -> io::Result<()> {
        self.discarded += count.max(1);
        self.close(self.last)?;
        self.open();
        Ok(())
    }

    /// Writes an event of class `id`; `body` appends its fields.
    ///
    /// The compact header has the low 32 bits of the stamp, which a reader completes from the stamp before. That works
    /// while less than 2^32 ns (4.3 s) lie between; after a longer silence the extended header has all 64 bits.
    #[inline]
    pub fn event(
        &mut self,
        time: Time,
        id: u16,
        body: impl FnOnce(&mut Vec<u8>),
    ) -> io::Result<()> {
        if self.packet.len() >= PACKET_BYTES {
            self.close(self.last)?;
            self.open();
        }
        let stamp = self.stamp(time).max(self.last);
        if stamp - self.last < 1 << 32 {
            self.packet.extend(id.to_le_bytes());
            self.packet.extend((stamp as u32).to_le_bytes());
        } else {
            self.packet.extend(u16::MAX.to_le_bytes());
            self.packet.extend(u32::from(id).to_le_bytes());
            self.packet.extend(stamp.to_le_bytes());
        }
        self.last = stamp;
        self.events += 1;
        body(&mut self.packet);
        Ok(())
    }

    /// The last packet; it ends at `end`.
    pub fn finish(mut self, end: Time) -> io::Result<u64> {
        let end = self.stamp(end);
        self.close(end)?;
        self.out.flush()?;
        Ok(self.events)
    }
}

/// A thread's name in its 16 bytes: cut at a character, with a zero at the end.
pub(super) fn comm(out: &mut Vec<u8>, name: &str) {
    let mut end = name.len().min(15);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    let start = out.len();
    out.extend(&name.as_bytes()[..end]);
    out.resize(start + 16, 0);
}

/// Text up to a zero that it may have, and the zero at its end.
pub(super) fn text(out: &mut Vec<u8>, text: &str) {
    let end = text.find('\0').unwrap_or(text.len());
    out.extend(&text.as_bytes()[..end]);
    out.push(0);
}
