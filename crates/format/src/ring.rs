//! Annotation rings: the mirror of `annotate/include/kasuri.h` part 1, and the reader of what programs wrote.
//!
//! Spec: docs/format.md, chapter "Rings". The structs here and the C header assert the same offsets.
use crate::{Error, ErrorKind, Result};
use std::mem::{offset_of, size_of};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub use crate::sites::{Site, SiteTable, Sites};
pub use kasuri_base::annotation::*;

/// `KASURI_ABI_VERSION`.
pub const ABI_VERSION: u32 = 1;
/// `KASURI_MAGIC_CONTROL`.
pub const MAGIC_CONTROL: u64 = u64::from_le_bytes(*b"KSICTRL1");
/// `KASURI_MAGIC_SITES`.
pub const MAGIC_SITES: u64 = u64::from_le_bytes(*b"KSSITES1");
/// `KASURI_MAGIC_SEGMENT`.
pub const MAGIC_SEGMENT: u64 = u64::from_le_bytes(*b"KRNGSEG1");
/// `KASURI_SLOT_BYTES`.
pub const SLOT_BYTES: usize = 16;
/// `KASURI_EVENT_MAX`: payload bytes of the longest event.
pub const EVENT_MAX: usize = 2032;
/// `KASURI_LOST_CAUSES`.
pub const LOST_CAUSES: usize = 8;
/// `KASURI_HINDRANCES`.
pub const HINDRANCES: usize = 8;

/// `struct kasuri_control`.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Control {
    /// [`MAGIC_CONTROL`].
    pub magic: u64,
    /// [`ABI_VERSION`].
    pub version: u32,
    /// `size_of::<Control>()`.
    pub struct_size: u32,
    /// [`SessionState`].
    pub state: u32,
    /// [`Policy`].
    pub policy: u32,
    /// [`Clock`].
    pub clock: u32,
    /// Power of two, 4096..1 MiB.
    pub chunk_bytes: u32,
    /// Ring memory one process may take.
    pub max_bytes: u64,
    /// Chunks in a client's first segment.
    pub first_chunks: u32,
    /// Overwrite: chunks per thread.
    pub flight_chunks: u32,
    /// Programs add 1; the recorder saves a snapshot for each change.
    pub trigger: u32,
    /// For messages only.
    pub recorder_pid: u32,
    /// The recorder adds 1 when it has freed chunks.
    pub freed: u32,
    /// Clients that found no room for their files or for one chunk.
    pub refused: u32,
    /// Events lost by clients that have no segment.
    pub lost: [u64; LOST_CAUSES],
    /// Clients that cannot take part: of another byte order, or without the clock.
    pub foreign: u32,
    /// 0.
    pub reserved: u32,
    /// The first error of each [`crate::hindrance::Cause`] that kept rings or names of programs from growing.
    pub hindrance: [u32; HINDRANCES],
    /// The limit that goes with it; all ones: none.
    pub hindrance_limit: [u64; HINDRANCES],
}

/// `struct kasuri_sites_header`.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct SitesHeader {
    /// [`MAGIC_SITES`].
    pub magic: u64,
    /// [`ABI_VERSION`].
    pub version: u32,
    /// `size_of::<SitesHeader>()`.
    pub struct_size: u32,
    /// Process.
    pub pid: u32,
    /// Client of that process.
    pub generation: u32,
    /// Forked child: whose file defines the ids below `parent_next_id`; 0: none.
    pub parent_pid: u32,
    /// Client of the parent.
    pub parent_gen: u32,
    /// First id that is not the parent's.
    pub parent_next_id: u32,
    /// 0.
    pub reserved: [u32; 7],
}

/// `struct kasuri_site_def`; name, file and function follow.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct SiteDef {
    /// Whole record with padding.
    pub bytes: u32,
    /// 1..
    pub id: u32,
    /// 0: unknown.
    pub line: u32,
    /// Without the NUL.
    pub name_len: u16,
    /// Without the NUL.
    pub file_len: u16,
    /// Without the NUL.
    pub func_len: u16,
    /// 0.
    pub reserved: u16,
    /// 0.
    pub reserved2: u32,
}

/// `struct kasuri_segment`, without the chunk states that follow.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Segment {
    /// [`MAGIC_SEGMENT`].
    pub magic: u64,
    /// [`ABI_VERSION`].
    pub version: u32,
    /// `size_of::<Segment>()`.
    pub struct_size: u32,
    /// Process.
    pub pid: u32,
    /// Client of that process.
    pub generation: u32,
    /// k of `.ring<k>`.
    pub index: u32,
    /// Bytes of each chunk.
    pub chunk_bytes: u32,
    /// Number of chunks.
    pub n_chunks: u32,
    /// Offset of the first chunk; multiple of 4096.
    pub chunks_offset: u32,
    /// [`Clock`].
    pub clock: u32,
    /// 0.
    pub reserved0: u32,
    /// Client's clock when it attached.
    pub start_stamp: u64,
    /// Events lost by threads that never got a chunk; segment 0 only.
    pub lost: [u64; LOST_CAUSES],
    /// 0.
    pub reserved: [u64; 17],
}

/// `seq` of a chunk whose owner is emptying it for its next use: its content is not valid (KASURI_SEQ_EMPTYING).
pub const SEQ_EMPTYING: u64 = u64::MAX;
/// Whether `seq` says so: by its high half, as CPUs with registers of 32 bits store no more than that.
pub const fn is_emptying(seq: u64) -> bool {
    seq >> 32 == SEQ_EMPTYING >> 32
}

/// `flags` of a chunk whose words were stored as two halves (KASURI_CHUNK_HALVES): the low one is the last of a stamp, and not 0.
pub const CHUNK_HALVES: u32 = 1;
/// What a stamp says of a chunk with these `flags`; 0: its event is not committed.
pub const fn committed_stamp(stamp: u64, flags: u32) -> u64 {
    if flags & CHUNK_HALVES != 0 && stamp as u32 == 0 { 0 } else { stamp }
}

/// `struct kasuri_chunk`: start of each chunk.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct ChunkHeader {
    /// This stream's chunks: 0, 1, 2...
    pub seq: u64,
    /// A thread's events in one client; 1..
    pub stream: u32,
    /// Thread.
    pub tid: u32,
    /// Bytes with header.
    pub used: u32,
    /// [`CHUNK_HALVES`]; others mean nothing.
    pub flags: u32,
    /// Stamp of the first event lost after this chunk's events; 0: none.
    pub lost_first: u64,
    /// Stamp of the last one.
    pub lost_last: u64,
    /// Events lost, by [`Lost`].
    pub lost: [u32; LOST_CAUSES],
    /// 0.
    pub reserved: [u32; 14],
}

macro_rules! layout {
    ($type:ty, $size:literal, $($field:ident = $offset:literal),*) => {
        const _: () = {
            assert!(size_of::<$type>() == $size);
            $(assert!(offset_of!($type, $field) == $offset);)*
        };
    };
}
layout!(
    Control,
    232,
    magic = 0,
    version = 8,
    struct_size = 12,
    state = 16,
    policy = 20,
    clock = 24,
    chunk_bytes = 28,
    max_bytes = 32,
    first_chunks = 40,
    flight_chunks = 44,
    trigger = 48,
    recorder_pid = 52,
    freed = 56,
    refused = 60,
    lost = 64,
    foreign = 128,
    reserved = 132,
    hindrance = 136,
    hindrance_limit = 168
);
layout!(
    SitesHeader,
    64,
    magic = 0,
    version = 8,
    struct_size = 12,
    pid = 16,
    generation = 20,
    parent_pid = 24,
    parent_gen = 28,
    parent_next_id = 32,
    reserved = 36
);
layout!(
    SiteDef,
    24,
    bytes = 0,
    id = 4,
    line = 8,
    name_len = 12,
    file_len = 14,
    func_len = 16,
    reserved = 18,
    reserved2 = 20
);
layout!(
    Segment,
    256,
    magic = 0,
    version = 8,
    struct_size = 12,
    pid = 16,
    generation = 20,
    index = 24,
    chunk_bytes = 28,
    n_chunks = 32,
    chunks_offset = 36,
    clock = 40,
    reserved0 = 44,
    start_stamp = 48,
    lost = 56,
    reserved = 120
);
layout!(
    ChunkHeader,
    128,
    seq = 0,
    stream = 8,
    tid = 12,
    used = 16,
    flags = 20,
    lost_first = 24,
    lost_last = 32,
    lost = 40,
    reserved = 72
);

kasuri_base::numbered!(
    /// `enum kasuri_clock`: what stamps count.
    Clock: u32 {
        /// The CPU's counter.
        Native = 1,
        /// CLOCK_MONOTONIC, ns.
        Monotonic = 2,
    }
);
kasuri_base::numbered!(
    /// `enum kasuri_policy`: what a thread does without a free chunk.
    Policy: u32 {
        /// Map another segment.
        Grow = 1,
        /// Drop the new event.
        Discard = 2,
        /// Reuse the oldest chunk.
        Overwrite = 3,
    }
);
kasuri_base::numbered!(
    /// `enum kasuri_session_state`.
    SessionState: u32 {
        /// Events are taken.
        Recording = 1,
        /// A snapshot is being copied.
        Frozen = 2,
        /// No more events.
        Stopped = 3,
    }
);
kasuri_base::numbered!(
    /// `enum kasuri_chunk_state`.
    ChunkState: u32 {
        /// Free for any thread, all zero.
        Free = 0,
        /// A thread's.
        Owned = 1,
        /// The recorder's.
        Full = 2,
    }
);
kasuri_base::numbered!(
    /// `enum kasuri_lost`: why an event was not kept; an index into arrays of counts.
    Lost: u8 {
        /// No chunk was free.
        Full = 0,
        /// Its chunk was reused (flight recorder).
        Overwritten = 1,
        /// Longer than [`EVENT_MAX`].
        Big = 2,
        /// Its name could not be stored.
        Site = 3,
        /// Dropped while a snapshot was copied.
        Frozen = 4,
        /// No chunk was free, and the file system of the rings was full.
        Space = 5,
        /// No chunk was free, and a limit of the program kept its rings from growing.
        Limit = 6,
    }
);
impl Lost {
    /// Word for tables and messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Lost::Full => "ring full",
            Lost::Overwritten => "overwritten",
            Lost::Big => "too big",
            Lost::Site => "no site",
            Lost::Frozen => "frozen",
            Lost::Space => "no space for rings",
            Lost::Limit => "limit of the program",
        }
    }
}

/// Kind of an event's payload, as far as columns distinguish it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Shape {
    /// No payload.
    Bare = 0,
    /// Two numbers.
    Pair = 1,
    /// Bytes.
    Blob = 2,
}

/// One committed event, its payload still in the chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingEvent<'a> {
    /// The client's clock.
    pub stamp: u64,
    /// [`Kind`] as a number: newer programs may write kinds this code does not know.
    pub kind: u8,
    /// Meaning by kind.
    pub aux: u16,
    /// Site id; 0: none.
    pub site: u32,
    /// All payload slots.
    pub payload: &'a [u8],
}

impl<'a> RingEvent<'a> {
    /// Kind of the payload.
    pub fn shape(&self) -> Shape {
        let text = match Kind::from_number(self.kind) {
            Some(Kind::Message | Kind::ThreadName) | None => true,
            Some(Kind::Arg) => self.aux & 15 == ArgType::Str as u16,
            Some(_) => false,
        };
        match self.payload.len() {
            _ if text && Kind::from_number(self.kind).is_some() => Shape::Blob,
            0 => Shape::Bare,
            16 if !text => Shape::Pair,
            _ => Shape::Blob,
        }
    }

    /// The two numbers of a [`Shape::Pair`].
    pub fn pair(&self) -> (u64, u64) {
        let word =
            |at: usize| self.payload.get(at..at + 8).map_or(0, |b| crate::bytes::uint(b, false));
        (word(0), word(8))
    }

    /// The bytes of a [`Shape::Blob`]: text cut to its length, all payload of unknown kinds.
    pub fn blob(&self) -> &'a [u8] {
        let length = match Kind::from_number(self.kind) {
            Some(Kind::Message | Kind::ThreadName) => usize::from(self.aux),
            Some(Kind::Arg) => usize::from(self.aux >> 4),
            _ => self.payload.len(),
        };
        &self.payload[..length.min(self.payload.len())]
    }
}

/// One chunk: its header and its slots.
#[derive(Clone, Copy, Debug)]
pub struct Chunk<'a> {
    /// Its header.
    pub header: ChunkHeader,
    /// Its event slots: bytes 128..used.
    pub slots: &'a [u8],
    /// Offset of the chunk, bytes from the start of what was parsed.
    pub offset: u64,
}

const CHUNK_BYTES_MAX: u32 = 1 << 20;

impl<'a> Chunk<'a> {
    /// Reads the chunk at the start of `bytes`, which begin `offset` bytes into the file.
    ///
    /// # Errors
    /// When the header is cut short or its `used` is impossible.
    pub fn parse(bytes: &'a [u8], offset: u64) -> Result<Chunk<'a>> {
        let Ok((header, _)) = ChunkHeader::read_from_prefix(bytes) else {
            return Err(Error::truncated(
                "chunk header",
                offset,
                bytes.len() as u64,
                size_of::<ChunkHeader>() as u64,
            ));
        };
        let used = header.used;
        let bad = |at, found: String, needed: &'static str| {
            Err(Error::damaged("chunk header", offset + at, found, needed))
        };
        if used < size_of::<ChunkHeader>() as u32
            || used > CHUNK_BYTES_MAX
            || !used.is_multiple_of(SLOT_BYTES as u32)
        {
            return bad(16, format!("used = {used}"), "a multiple of 16 from 128 to 1 MiB");
        }
        if header.stream == 0 {
            return bad(8, "stream 0".into(), "a stream number from 1");
        }
        let Some(slots) = bytes.get(size_of::<ChunkHeader>()..used as usize) else {
            return Err(Error::truncated("chunk", offset, bytes.len() as u64, u64::from(used)));
        };
        Ok(Chunk { header, slots, offset })
    }

    /// The committed events in the order in which their room was reserved.
    pub fn events(&self) -> Events<'a> {
        Events { slots: self.slots, flags: self.header.flags, damaged: 0, open: 0 }
    }
}

/// Iterator over the committed events of a chunk. An open record (its writer died, or a signal
/// handler still writes) is stepped over: its second word, when written, says how long it is.
#[derive(Clone, Debug)]
pub struct Events<'a> {
    slots: &'a [u8],
    flags: u32,
    /// Records stepped over so far whose length was impossible.
    pub damaged: u32,
    /// Records stepped over so far that were never committed.
    pub open: u32,
}

impl<'a> Iterator for Events<'a> {
    type Item = RingEvent<'a>;

    fn next(&mut self) -> Option<RingEvent<'a>> {
        loop {
            let head = self.slots.first_chunk::<SLOT_BYTES>()?;
            let (stamp, word) = (
                committed_stamp(crate::bytes::uint(&head[..8], false), self.flags),
                crate::bytes::uint(&head[8..], false),
            );
            let n_slots = (word >> 8 & 0xff) as usize;
            let record = self.slots.get(SLOT_BYTES..n_slots * SLOT_BYTES);
            let step = if record.is_some() { n_slots } else { 1 };
            self.slots = &self.slots[step * SLOT_BYTES..];
            match record {
                _ if stamp == 0 => self.open += u32::from(word != 0),
                None => self.damaged += 1,
                Some(payload) => {
                    let (kind, aux, site) = (word as u8, (word >> 16) as u16, (word >> 32) as u32);
                    return Some(RingEvent { stamp, kind, aux, site, payload });
                }
            }
        }
    }
}

/// Splits a `.chunks` file. Gives the chunks before the first bad one, and the error there: no length, no next chunk.
pub fn parse_chunks(bytes: &[u8]) -> (Vec<Chunk<'_>>, Option<Error>) {
    let mut chunks = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        match Chunk::parse(&bytes[at..], at as u64) {
            Ok(chunk) => {
                at += chunk.header.used as usize;
                chunks.push(chunk);
            }
            Err(error) => return (chunks, Some(error)),
        }
    }
    (chunks, None)
}

/// Groups chunks by stream, each in order of `seq` (file order for equal ones), streams in order of their number.
pub fn streams<'a>(chunks: &[Chunk<'a>]) -> Vec<Vec<Chunk<'a>>> {
    let mut sorted = chunks.to_vec();
    sorted.sort_by_key(|c| (c.header.stream, c.header.seq));
    let mut out: Vec<Vec<Chunk<'a>>> = Vec::new();
    for chunk in sorted {
        match out.last_mut() {
            Some(stream) if stream[0].header.stream == chunk.header.stream => stream.push(chunk),
            _ => out.push(vec![chunk]),
        }
    }
    out
}

/// Checks the magic, version and size at the start of one of the structs above.
pub(crate) fn check_head(
    what: &'static str,
    found: (u64, u32, u32),
    magic: u64,
    size: u32,
) -> Result<()> {
    if found.0 != magic {
        let text = format!("{:#018x}", found.0);
        return Err(Error::new(ErrorKind::Foreign, what, 0, text, format!("magic {magic:#018x}")));
    }
    if found.1 != ABI_VERSION {
        return Err(Error::new(
            ErrorKind::Version,
            what,
            8,
            format!("version {}", found.1),
            format!("version {ABI_VERSION}"),
        )
        .remedy("read it with the kasuri that recorded it"));
    }
    if found.2 < size {
        return Err(Error::damaged(
            what,
            12,
            format!("struct_size {}", found.2),
            format!("at least {size}"),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    fn chunk(stream: u32, seq: u64, words: &[u64]) -> Vec<u8> {
        let mut header = ChunkHeader::new_zeroed();
        (header.stream, header.seq) = (stream, seq);
        header.used = (size_of::<ChunkHeader>() + words.len() * 8) as u32;
        let mut out = header.as_bytes().to_vec();
        words.iter().for_each(|w| out.extend_from_slice(&w.to_le_bytes()));
        out
    }

    fn word1(kind: Kind, slots: u64) -> u64 {
        kind as u64 | slots << 8 | 7 << 16 | 9 << 32
    }

    #[test]
    fn open_records_are_stepped_over_by_what_they_say_of_their_length() {
        let words = [
            // Open, two slots: its writer died before the stamp.
            [0, word1(Kind::Counter, 2)],
            [111, 222],
            // Nothing written: one slot.
            [0, 0],
            // Committed.
            [50, word1(Kind::Begin, 1)],
            // Damaged: no slots; then: longer than the chunk.
            [60, word1(Kind::Begin, 0)],
            [70, word1(Kind::Begin, 9)],
            [80, word1(Kind::Counter, 2)],
            [5, 0],
        ];
        let bytes = chunk(1, 0, words.as_flattened());
        let (chunks, error) = parse_chunks(&bytes);
        assert_eq!(error, None);
        let mut events = chunks[0].events();
        let got: Vec<RingEvent> = (&mut events).collect();
        assert_eq!((events.open, events.damaged), (1, 2));
        assert_eq!(got.iter().map(|e| e.stamp).collect::<Vec<_>>(), [50, 80]);
        assert_eq!((got[0].kind, got[0].aux, got[0].site), (Kind::Begin as u8, 7, 9));
        assert_eq!((got[1].shape(), got[1].pair()), (Shape::Pair, (5, 0)));
    }

    /// A program of 32 bits was killed between the halves of a stamp, of which the high one is first.
    #[test]
    fn half_a_stamp_commits_nothing() {
        let words =
            [[5 << 32, word1(Kind::Counter, 2)], [7, 0], [5 << 32 | 1, word1(Kind::Begin, 1)]];
        let mut bytes = chunk(1, 0, words.as_flattened());
        for (flags, stamps, open) in [
            (CHUNK_HALVES, vec![5 << 32 | 1], 1),
            (u32::MAX, vec![5 << 32 | 1], 1),
            (0, vec![5 << 32, 5 << 32 | 1], 0),
        ] {
            let field = offset_of!(ChunkHeader, flags);
            bytes[field..field + 4].copy_from_slice(&flags.to_le_bytes());
            let mut events = Chunk::parse(&bytes, 0).unwrap().events();
            let got: Vec<u64> = (&mut events).map(|e| e.stamp).collect();
            assert_eq!((got, events.open), (stamps, open), "{flags:x}");
        }
        assert!(is_emptying(SEQ_EMPTYING) && is_emptying(SEQ_EMPTYING << 32));
        assert!(!is_emptying(u64::from(u32::MAX)));
    }

    #[test]
    fn text_is_cut_to_its_length_and_unknown_kinds_keep_their_payload() {
        let event = |kind, aux, payload| RingEvent { stamp: 1, kind, aux, site: 0, payload };
        let payload = b"hello world\0\0\0\0\0";
        assert_eq!(event(Kind::Message as u8, 5, payload).blob(), b"hello");
        assert_eq!(event(Kind::Message as u8, 500, payload).blob(), payload);
        assert_eq!(
            event(Kind::Arg as u8, ArgType::Str as u16 | 11 << 4, payload).blob(),
            b"hello world"
        );
        assert_eq!(event(Kind::Arg as u8, ArgType::F64 as u16, payload).shape(), Shape::Pair);
        assert_eq!(event(200, 3, payload).shape(), Shape::Blob);
        assert_eq!(event(200, 3, payload).blob(), payload);
        assert_eq!(event(200, 3, &[]).shape(), Shape::Bare);
        assert_eq!(
            event(Kind::ThreadName as u8, 0, &[]).shape(),
            Shape::Blob,
            "an empty name is a name"
        );
    }

    #[test]
    fn chunks_before_a_bad_one_are_kept() {
        let good = chunk(1, 0, &[5, word1(Kind::Begin, 1)]);
        for (at, value) in [(16usize, 0u32), (16, 129), (16, 1 << 21), (8, 0)] {
            let mut bad = chunk(1, 1, &[5, word1(Kind::Begin, 1)]);
            bad[at..at + 4].copy_from_slice(&value.to_le_bytes());
            let bytes = [good.clone(), bad].concat();
            let (chunks, error) = parse_chunks(&bytes);
            assert_eq!(chunks.len(), 1);
            assert_eq!(error.unwrap().offset, (good.len() + at) as u64);
        }
        let (chunks, error) = parse_chunks(&good[..140]);
        assert_eq!((chunks.len(), error.unwrap().kind), (0, ErrorKind::Truncated));
    }

    #[test]
    fn streams_are_in_order_of_seq_whatever_the_order_of_the_file() {
        let bytes =
            [chunk(2, 1, &[]), chunk(1, 3, &[]), chunk(2, 0, &[]), chunk(1, 1, &[])].concat();
        let (chunks, _) = parse_chunks(&bytes);
        let got: Vec<Vec<(u32, u64)>> = streams(&chunks)
            .iter()
            .map(|s| s.iter().map(|c| (c.header.stream, c.header.seq)).collect())
            .collect();
        assert_eq!(got, [vec![(1, 1), (1, 3)], vec![(2, 0), (2, 1)]]);
    }
}
