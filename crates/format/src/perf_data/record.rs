//! Records back to back: their headers, and those that carry more than they say.
//!
//! A header is u32 type, u16 misc, u16 size, where the size includes the header. Two types that perf itself writes are followed by
//! data that the size does not count: format files in a pipe (TRACING_DATA) and traces of processors (AUXTRACE).
use crate::bytes::Words;
use crate::{Error, Result};

/// `PERF_RECORD_*`. Those below 64 come from the kernel, the others from perf.
pub(super) struct Kind;

impl Kind {
    pub const MMAP: u32 = 1;
    pub const COMM: u32 = 3;
    pub const FORK: u32 = 7;
    pub const SAMPLE: u32 = 9;
    pub const MMAP2: u32 = 10;
    pub const SWITCH: u32 = 14;
    pub const SWITCH_CPU_WIDE: u32 = 15;
    pub const USER: u32 = 64;
    pub const ATTR: u32 = 64;
    pub const TRACING_DATA: u32 = 66;
    pub const ID_INDEX: u32 = 69;
    pub const AUXTRACE: u32 = 71;
    pub const THREAD_MAP: u32 = 73;
    pub const EVENT_UPDATE: u32 = 78;
    pub const FEATURE: u32 = 80;
    pub const COMPRESSED: u32 = 81;
    pub const COMPRESSED2: u32 = 83;
}

pub(super) const HEADER_BYTES: usize = 8;

/// The first 8 bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub kind: u32,
    pub misc: u16,
    pub size: usize,
}

impl Header {
    /// `words`: from the header on. Only that the size holds a header is certain.
    #[inline]
    pub fn read(words: Words<'_>, offset: u64) -> Result<Header> {
        let header = words
            .u32(0)
            .zip(words.u16(4))
            .zip(words.u16(6))
            .map(|((kind, misc), size)| Header { kind, misc, size: usize::from(size) });
        match header {
            Some(header) if header.size >= HEADER_BYTES => Ok(header),
            Some(header) => Err(Error::damaged(
                "perf record header",
                offset + 6,
                format!("size {}", header.size),
                "at least 8",
            )),
            None => Err(Error::truncated(
                "perf record header",
                offset,
                words.bytes.len() as u64,
                HEADER_BYTES as u64,
            )),
        }
    }
}

/// Length of a record with what follows it uncounted: format files of a pipe, traces of processors.
#[inline]
pub(super) fn record_end(header: Header, words: Words<'_>, offset: u64) -> Result<usize> {
    let more = match header.kind {
        Kind::TRACING_DATA => words.u32(8).map_or(0, |n| u64::from(n).next_multiple_of(8)),
        Kind::AUXTRACE => words.u64(8).unwrap_or(0),
        _ => 0,
    };
    let end = (header.size as u64).saturating_add(more);
    if end > words.bytes.len() as u64 {
        let have = words.bytes.len() as u64;
        return Err(Error::truncated("perf record", offset, have, end));
    }
    Ok(end as usize)
}
