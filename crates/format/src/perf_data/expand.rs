//! Compressed records (`perf record -z`) undone.
//!
//! perf compresses what it copies from the rings as one zstd stream that it cuts into records of at most 64 KiB: a
//! record's content goes on with the history of the one before, and may end inside an event. So the whole is undone
//! in order, into memory.
use super::record::{Header, Kind, record_end};
use crate::bytes::Words;
use crate::{Error, ErrorKind, Result};
use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

/// Scheduler events pack to a fifth or a tenth; records of nothing but zeros to a five-hundredth.
const RATIO_MAX: usize = 1000;
/// Size to which any file may unpack, however small it is.
const ALWAYS: usize = 64 << 20;
const STEP: usize = 1 << 20;

/// `bytes`, records back to back, with the compressed ones replaced by what they hold. The rest is kept on an error
/// when `keep` takes it.
pub(super) fn expand(
    bytes: &[u8],
    big_endian: bool,
    base: u64,
    keep: &mut dyn FnMut(Error) -> Result<()>,
) -> Result<Vec<u8>> {
    let limit = bytes.len().saturating_mul(RATIO_MAX).max(ALWAYS);
    let mut decoder = Decoder::new().map_err(|e| bad(base, &e.to_string()))?;
    let mut out = Vec::with_capacity(bytes.len().saturating_mul(4).min(1 << 30));
    let mut step = vec![0; STEP];
    let mut at = 0;
    while at < bytes.len() {
        let words = Words::new(&bytes[at..], big_endian);
        let end = Header::read(words, base + at as u64)
            .and_then(|header| Ok((header, record_end(header, words, base + at as u64)?)));
        let (header, end) = match end {
            Ok(found) => found,
            Err(error) => {
                keep(error)?;
                break;
            }
        };
        let record = &words.bytes[..end];
        match packed(header.kind, record, big_endian) {
            Some(packed) => {
                let offset = base + at as u64;
                let done = stream(&mut decoder, packed, &mut out, &mut step, limit);
                if let Err(error) = done.map_err(|e| e.offset_by(offset)) {
                    // The stream's history is gone: nothing after it can be undone.
                    keep(error)?;
                    break;
                }
            }
            None => out.extend_from_slice(record),
        }
        at += end;
    }
    Ok(out)
}

/// The compressed content of a record; none: it is not compressed.
fn packed(kind: u32, record: &[u8], big_endian: bool) -> Option<&[u8]> {
    match kind {
        Kind::COMPRESSED => record.get(8..),
        // u64 length; padding follows.
        Kind::COMPRESSED2 => {
            let n = usize::try_from(Words::new(record, big_endian).u64(8)?).ok()?;
            Some(record.get(16..)?.get(..n).unwrap_or(&[]))
        }
        _ => None,
    }
}

fn stream(
    decoder: &mut Decoder<'_>,
    packed: &[u8],
    out: &mut Vec<u8>,
    step: &mut [u8],
    limit: usize,
) -> Result<()> {
    let mut input = InBuffer::around(packed);
    loop {
        let mut output = OutBuffer::around(step);
        decoder.run(&mut input, &mut output).map_err(|e| bad(0, &e.to_string()))?;
        let n = output.pos();
        if out.len() + n > limit {
            return Err(Error::new(
                ErrorKind::Limit,
                "compressed perf records",
                0,
                format!("more than {limit} bytes"),
                format!("at most {RATIO_MAX} times the size of the file"),
            ));
        }
        out.extend_from_slice(&step[..n]);
        if input.pos() == packed.len() && n < step.len() {
            return Ok(());
        }
    }
}

fn bad(offset: u64, why: &str) -> Error {
    Error::damaged(
        "compressed perf records",
        offset,
        format!("a bad stream ({why})"),
        "a zstd stream",
    )
}
