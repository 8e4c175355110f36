//! zstd with claimed sizes checked before memory is taken, and the sections of a block.
//!
//! *Packed bytes* are a u32 length and a zstd frame, or u32 0 and the bytes as they are where compressing saves too little; their
//! unpacked length is stored elsewhere. *Sections* are u32 number, u32 length of each, then the sections without gaps, so that
//! one can be found without decoding the others.
use crate::bytes::Cursor;
use crate::{Error, ErrorKind, Result};
use std::cell::RefCell;

/// A frame that expands more than this is no recording.
const RATIO_MAX: usize = 1 << 14;

thread_local! {
    // A context is 150 KB and more to set up than a small frame to decode.
    static DECOMPRESSOR: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
    static COMPRESSOR: RefCell<Option<(i32, zstd::bulk::Compressor<'static>)>> = const { RefCell::new(None) };
}

/// One zstd frame; `None` when that saves less than 1/16, and raw bytes are the better choice.
pub(crate) fn compress(bytes: &[u8], level: i32) -> Option<Vec<u8>> {
    if bytes.len() < 32 {
        return None;
    }
    let packed = COMPRESSOR.with_borrow_mut(|slot| {
        if slot.as_ref().is_none_or(|(l, _)| *l != level) {
            *slot = zstd::bulk::Compressor::new(level).ok().map(|c| (level, c));
        }
        slot.as_mut()?.1.compress(bytes).ok()
    })?;
    let pays = packed.len() + bytes.len() / 16 < bytes.len();
    (pays && bytes.len() / RATIO_MAX <= packed.len()).then_some(packed)
}

/// Expands one frame to exactly `n` bytes; `base` is where it stands in the file.
pub(crate) fn decompress(packed: &[u8], base: u64, n: usize) -> Result<Vec<u8>> {
    let bad = |found: String| Error::damaged("compressed data", base, found, format!("{n} bytes"));
    if n / RATIO_MAX > packed.len() {
        return Err(Error::new(
            ErrorKind::Limit,
            "compressed data",
            base,
            format!("{n} bytes from {}", packed.len()),
            format!("at most {RATIO_MAX} times as many"),
        ));
    }
    DECOMPRESSOR.with_borrow_mut(|slot| {
        if slot.is_none() {
            *slot = zstd::bulk::Decompressor::new().ok();
        }
        let Some(zstd) = slot else {
            return Err(bad("no memory for a decoder".into()));
        };
        let bytes = zstd.decompress(packed, n).map_err(|e| bad(format!("a bad frame ({e})")))?;
        if bytes.len() == n { Ok(bytes) } else { Err(bad(format!("{} bytes", bytes.len()))) }
    })
}

/// Appends u32 packed length (0: stored) and the bytes, compressed when that helps. Their own length is stored elsewhere.
pub(crate) fn put(out: &mut Vec<u8>, bytes: &[u8], level: i32) {
    match compress(bytes, level) {
        Some(packed) => {
            out.extend_from_slice(&(packed.len() as u32).to_le_bytes());
            out.extend_from_slice(&packed);
        }
        None => {
            out.extend_from_slice(&[0; 4]);
            out.extend_from_slice(bytes);
        }
    }
}

/// Reads what [`put`] wrote: `n` bytes.
pub(crate) fn take(cursor: &mut Cursor<'_>, n: usize) -> Result<Vec<u8>> {
    match cursor.u32()? as usize {
        0 => Ok(cursor.take(n)?.to_vec()),
        packed => {
            let at = cursor.offset();
            decompress(cursor.take(packed)?, at, n)
        }
    }
}

/// The parts of a block: u32 count, u32 length of each, then the parts.
pub(crate) fn join_sections(sections: &[Vec<u8>]) -> Vec<u8> {
    let total: usize = sections.iter().map(Vec::len).sum();
    let mut out = Vec::with_capacity(4 + 4 * sections.len() + total);
    out.extend_from_slice(&(sections.len() as u32).to_le_bytes());
    for section in sections {
        out.extend_from_slice(&(section.len() as u32).to_le_bytes());
    }
    sections.iter().for_each(|s| out.extend_from_slice(s));
    out
}

/// The parts of a block, found without decoding any.
#[derive(Clone, Debug)]
pub(crate) struct Sections<'a> {
    payload: &'a [u8],
    base: u64,
    /// Start of each section in `payload`, and the end of the last.
    bounds: Vec<usize>,
}

impl<'a> Sections<'a> {
    pub(crate) fn parse(payload: &'a [u8], base: u64) -> Result<Sections<'a>> {
        let mut cursor = Cursor::new(payload, base, "block sections");
        let n = cursor.count(payload.len() / 4)?;
        let mut at = 4 + 4 * n;
        let mut bounds = Vec::with_capacity(n + 1);
        bounds.push(at);
        for _ in 0..n {
            at = at.saturating_add(cursor.u32()? as usize);
            bounds.push(at);
        }
        if at != payload.len() {
            return Err(cursor
                .damaged(format!("sections of {at} bytes"), format!("{} bytes", payload.len())));
        }
        Ok(Sections { payload, base, bounds })
    }

    pub(crate) fn len(&self) -> usize {
        self.bounds.len() - 1
    }

    /// One section and where it stands in the file.
    pub(crate) fn get(&self, ix: usize) -> Result<(&'a [u8], u64)> {
        match (self.bounds.get(ix), self.bounds.get(ix + 1)) {
            (Some(&from), Some(&to)) => Ok((&self.payload[from..to], self.base + from as u64)),
            _ => Err(Error::damaged(
                "block sections",
                self.base,
                format!("{} sections", self.len()),
                format!("more than {ix}"),
            )),
        }
    }

    pub(crate) fn cursor(&self, ix: usize, what: &'static str) -> Result<Cursor<'a>> {
        let (bytes, base) = self.get(ix)?;
        Ok(Cursor::new(bytes, base, what))
    }
}
