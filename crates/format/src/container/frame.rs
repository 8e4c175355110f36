//! The file's frame: header, block headers, index, trailer. All numbers are little-endian.
//!
//! ```text
//! file header 64 bytes | block | block | ... | index block | trailer 32 bytes
//! block: header 64 bytes | payload | 0 to 7 zero bytes, up to a multiple of 8
//! ```
//!
//! Header and payload of a block have a CRC-32 each. The header's tells whether a block begins here at all, which is how
//! `walk` in `recording.rs` finds blocks after damage; the payload's is checked when the block is decoded. The index repeats
//! all block headers, so that opening a file reads its end and the small tables and no event.
use crate::{Error, ErrorKind, Result};
use std::mem::size_of;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, LE, U16, U32, U64};

/// First bytes of the file. Like PNG's: a byte no text has, and both line ends, so that a transfer as text shows.
pub const MAGIC: [u8; 8] = *b"\x89KSR\r\n\x1a\n";
/// Version of the packed file.
pub const FORMAT_VERSION: u32 = 1;
pub(crate) const BLOCK_MAGIC: [u8; 4] = *b"KBLK";
pub(crate) const TRAILER_MAGIC: [u8; 8] = *b"KSR_END\n";
/// A block whose payload claims more is refused.
const PAYLOAD_MAX: u64 = 1 << 30;

#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub(crate) struct FileHeader {
    pub(crate) magic: [u8; 8],
    pub(crate) version: U32<LE>,
    pub(crate) header_bytes: U32<LE>,
    pub(crate) reserved: [u8; 48],
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub(crate) struct BlockHeader {
    pub(crate) magic: [u8; 4],
    pub(crate) kind: U16<LE>,
    pub(crate) header_bytes: U16<LE>,
    pub(crate) payload_bytes: U64<LE>,
    pub(crate) n_events: U64<LE>,
    pub(crate) first_stamp: U64<LE>,
    pub(crate) last_stamp: U64<LE>,
    pub(crate) ids: [U32<LE>; 4],
    pub(crate) payload_crc: U32<LE>,
    /// Of the 60 bytes before.
    pub(crate) header_crc: U32<LE>,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub(crate) struct IndexEntry {
    pub(crate) offset: U64<LE>,
    pub(crate) header: BlockHeader,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub(crate) struct Trailer {
    pub(crate) index_offset: U64<LE>,
    pub(crate) file_bytes: U64<LE>,
    pub(crate) n_blocks: U32<LE>,
    /// Of the 20 bytes before.
    pub(crate) crc: U32<LE>,
    pub(crate) magic: [u8; 8],
}

const _: () = assert!(size_of::<FileHeader>() == 64);
const _: () = assert!(size_of::<BlockHeader>() == 64);
const _: () = assert!(size_of::<IndexEntry>() == 72);
const _: () = assert!(size_of::<Trailer>() == 32);
pub(crate) const FILE_HEADER_BYTES: u64 = size_of::<FileHeader>() as u64;
pub(crate) const BLOCK_HEADER_BYTES: u64 = size_of::<BlockHeader>() as u64;
pub(crate) const TRAILER_BYTES: u64 = size_of::<Trailer>() as u64;

/// Content of a block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u16)]
pub enum BlockKind {
    /// `meta.json`.
    Meta = 1,
    /// Clock anchors.
    Anchors = 2,
    /// Threads known from /proc.
    Procs = 3,
    /// `limits.jsonl`.
    Limits = 7,
    /// Losses of the kernel's buffers.
    KernelLosses = 4,
    /// Losses of threads without a chunk.
    ClientLosses = 5,
    /// Site definitions of one client.
    Sites = 6,
    /// Modules, frames and call paths.
    CallPaths = 8,
    /// What the source calls the frames of the call paths.
    Names = 9,
    /// `sampling.jsonl`.
    Sampling = 10,
    /// Kernel events of one CPU.
    Kernel = 16,
    /// Annotations of one stream.
    Annotation = 17,
    /// perf records of one CPU.
    Perf = 18,
    /// Samples of call paths.
    Samples = 19,
    /// The index; after it there are no blocks.
    Index = 32,
}

impl BlockKind {
    /// The kind with this number.
    pub const fn from_number(number: u16) -> Option<BlockKind> {
        Some(match number {
            1 => BlockKind::Meta,
            2 => BlockKind::Anchors,
            3 => BlockKind::Procs,
            7 => BlockKind::Limits,
            4 => BlockKind::KernelLosses,
            5 => BlockKind::ClientLosses,
            6 => BlockKind::Sites,
            8 => BlockKind::CallPaths,
            9 => BlockKind::Names,
            10 => BlockKind::Sampling,
            16 => BlockKind::Kernel,
            17 => BlockKind::Annotation,
            18 => BlockKind::Perf,
            19 => BlockKind::Samples,
            32 => BlockKind::Index,
            _ => return None,
        })
    }

    /// Whether it holds events.
    pub const fn has_events(self) -> bool {
        matches!(
            self,
            BlockKind::Kernel | BlockKind::Annotation | BlockKind::Perf | BlockKind::Samples
        )
    }
}

/// A block's entry in the index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockInfo {
    /// Its content.
    pub kind: BlockKind,
    /// Offset of its header, bytes from the start of the file.
    pub offset: u64,
    /// Bytes of its payload.
    pub payload_bytes: u64,
    /// Number of events.
    pub n_events: u64,
    /// Lowest stamp.
    pub first_stamp: u64,
    /// Highest stamp.
    pub last_stamp: u64,
    /// Kernel, perf: CPU, 0, 0, 0. Annotation: pid, generation, stream, tid. Sites: pid, generation, 0, 0.
    pub ids: [u32; 4],
    payload_at: u64,
    payload_crc: u32,
}

/// Bytes of a block with this payload, padding included.
pub(crate) fn block_bytes(payload: u64) -> u64 {
    BLOCK_HEADER_BYTES + payload.next_multiple_of(8)
}

impl BlockHeader {
    pub(crate) fn new(
        kind: BlockKind,
        ids: [u32; 4],
        n_events: u64,
        stamps: [u64; 2],
        payload: &[u8],
    ) -> BlockHeader {
        let mut header = BlockHeader {
            magic: BLOCK_MAGIC,
            kind: (kind as u16).into(),
            header_bytes: (BLOCK_HEADER_BYTES as u16).into(),
            payload_bytes: (payload.len() as u64).into(),
            n_events: n_events.into(),
            first_stamp: stamps[0].into(),
            last_stamp: stamps[1].into(),
            ids: ids.map(Into::into),
            payload_crc: crc32fast::hash(payload).into(),
            header_crc: 0.into(),
        };
        header.header_crc = header.crc().into();
        header
    }

    fn crc(&self) -> u32 {
        crc32fast::hash(&self.as_bytes()[..size_of::<BlockHeader>() - 4])
    }

    /// Reads and checks the block header at `offset` of a file; `end` is where blocks must have ended.
    /// A block of a kind this code does not know gives `None` and its end.
    pub(crate) fn parse(file: &[u8], offset: u64, end: u64) -> Result<(Option<BlockInfo>, u64)> {
        let what = "block header";
        let rest = usize::try_from(offset).ok().and_then(|at| file.get(at..)).unwrap_or_default();
        let Ok((header, _)) = BlockHeader::read_from_prefix(rest) else {
            return Err(Error::truncated(what, offset, rest.len() as u64, BLOCK_HEADER_BYTES));
        };
        let damaged = |at: u64, found: String, needed: String| {
            Err(Error::damaged(what, offset + at, found, needed))
        };
        if header.magic != BLOCK_MAGIC {
            return damaged(
                0,
                format!("magic {:02x?}", header.magic),
                format!("{BLOCK_MAGIC:02x?}"),
            );
        }
        if header.header_crc.get() != header.crc() {
            return damaged(
                60,
                format!("checksum {:#010x}", header.header_crc),
                format!("{:#010x}", header.crc()),
            );
        }
        let payload_bytes = header.payload_bytes.get();
        if payload_bytes > PAYLOAD_MAX {
            let needed = format!("at most {PAYLOAD_MAX}");
            return Err(Error::new(
                ErrorKind::Limit,
                what,
                offset + 8,
                format!("{payload_bytes} bytes"),
                needed,
            ));
        }
        if header.n_events.get() > super::BLOCK_EVENTS_MAX {
            let needed = format!("at most {}", super::BLOCK_EVENTS_MAX);
            return Err(Error::new(
                ErrorKind::Limit,
                what,
                offset + 16,
                format!("{} events", header.n_events),
                needed,
            ));
        }
        let payload_at = offset + u64::from(header.header_bytes.get());
        let block_end = payload_at + payload_bytes.next_multiple_of(8);
        if block_end > end || u64::from(header.header_bytes.get()) < BLOCK_HEADER_BYTES {
            return Err(Error::truncated(
                "block",
                offset,
                end.saturating_sub(offset),
                block_end - offset,
            ));
        }
        let info = BlockKind::from_number(header.kind.get()).map(|kind| BlockInfo {
            kind,
            offset,
            payload_bytes,
            n_events: header.n_events.get(),
            first_stamp: header.first_stamp.get(),
            last_stamp: header.last_stamp.get(),
            ids: header.ids.map(Into::into),
            payload_at,
            payload_crc: header.payload_crc.get(),
        });
        Ok((info, block_end))
    }
}

impl BlockInfo {
    /// The payload, its checksum checked, and where it is.
    pub(crate) fn payload<'a>(&self, file: &'a [u8]) -> Result<(&'a [u8], u64)> {
        let from = self.payload_at as usize;
        let Some(payload) = file.get(from..from.saturating_add(self.payload_bytes as usize)) else {
            return Err(Error::truncated(
                "block",
                self.offset,
                file.len() as u64,
                self.payload_at + self.payload_bytes,
            ));
        };
        let crc = crc32fast::hash(payload);
        if crc != self.payload_crc {
            let found = format!("checksum {crc:#010x} over {} bytes", payload.len());
            return Err(Error::damaged(
                "block payload",
                self.payload_at,
                found,
                format!("{:#010x}", self.payload_crc),
            )
            .remedy("`kasuri recover` keeps the other blocks"));
        }
        Ok((payload, self.payload_at))
    }
}

/// Checks the start of a file; gives where blocks begin.
pub(crate) fn check_file_header(file: &[u8]) -> Result<u64> {
    let what = "kasuri file";
    if file.is_empty() {
        return Err(Error::new(ErrorKind::Foreign, what, 0, "an empty file", "a recording"));
    }
    let head = &file[..file.len().min(MAGIC.len())];
    if !MAGIC.starts_with(head) {
        return Err(Error::new(
            ErrorKind::Foreign,
            what,
            0,
            format!("magic {head:02x?}"),
            format!("{MAGIC:02x?}"),
        )
        .remedy("this is no packed recording"));
    }
    let Ok((header, _)) = FileHeader::read_from_prefix(file) else {
        return Err(Error::truncated(what, 0, file.len() as u64, FILE_HEADER_BYTES));
    };
    if header.version.get() != FORMAT_VERSION {
        let needed = format!("version {FORMAT_VERSION}");
        return Err(Error::new(
            ErrorKind::Version,
            what,
            8,
            format!("version {}", header.version),
            needed,
        )
        .remedy("read it with the kasuri that packed it"));
    }
    let header_bytes = u64::from(header.header_bytes.get());
    if !(FILE_HEADER_BYTES..=4096).contains(&header_bytes) || !header_bytes.is_multiple_of(8) {
        return Err(Error::damaged(
            what,
            12,
            format!("a header of {header_bytes} bytes"),
            "64 bytes",
        ));
    }
    Ok(header_bytes)
}

/// Reads the trailer; gives the offset of the index block and the number of blocks.
pub(crate) fn check_trailer(file: &[u8]) -> Result<(u64, u32)> {
    let what = "kasuri file trailer";
    let at = (file.len() as u64).saturating_sub(TRAILER_BYTES);
    let Ok((_, trailer)) = Trailer::read_from_suffix(file) else {
        return Err(Error::truncated(what, 0, file.len() as u64, TRAILER_BYTES));
    };
    let crc = crc32fast::hash(&trailer.as_bytes()[..20]);
    if trailer.magic != TRAILER_MAGIC
        || trailer.crc.get() != crc
        || trailer.file_bytes.get() != file.len() as u64
    {
        let found = format!("{:02x?} after {} bytes", trailer.magic, file.len());
        let needed = format!("{TRAILER_MAGIC:02x?} and the file's length");
        return Err(Error::new(ErrorKind::Truncated, what, at, found, needed).remedy(
            "the file was cut or never finished: `kasuri recover` keeps its whole blocks",
        ));
    }
    Ok((trailer.index_offset.get(), trailer.n_blocks.get()))
}
