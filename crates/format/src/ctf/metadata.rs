//! A trace's `metadata` file: text, or text in packets.
//!
//! A packet has a head of 37 bytes: u32 magic 0x75d11d57 (which tells the byte order), the trace's UUID, u32 checksum, u32 bits
//! of content with the head, u32 bits of the packet with padding, three bytes that must be 0 (compression, encryption,
//! checksum), two of the version. The contents of all packets together are the text. Text that begins with the byte 0x1e
//! is CTF 2 (`json`), any other is TSDL (`tsdl`).
use super::types::Metadata;
use super::{json, tsdl};
use crate::bytes::uint;
use crate::{Error, ErrorKind, Result};
use std::borrow::Cow;

/// Begins each packet of metadata.
const MAGIC: u32 = 0x75d1_1d57;
/// Bytes of a packet's head.
const HEAD: usize = 37;
/// Metadata of thousands of events has a few MiB.
const MAX_BYTES: usize = 256 << 20;

/// Whether these bytes begin as CTF metadata does.
pub fn is_metadata(bytes: &[u8]) -> bool {
    byte_order(bytes).is_some() || bytes.starts_with(b"/* CTF 1") || bytes.first() == Some(&0x1e)
}

/// The byte order of packets of metadata; none: these are none.
fn byte_order(bytes: &[u8]) -> Option<bool> {
    let head = bytes.get(..4)?;
    let is = |big: bool| uint(head, big) == u64::from(MAGIC);
    is(false).then_some(false).or(is(true).then_some(true))
}

impl Metadata {
    /// Reads a `metadata` file of any kind.
    ///
    /// # Errors
    /// A description with an offset, counted in the text without the heads of its packets.
    pub fn parse(bytes: &[u8]) -> Result<Metadata> {
        if bytes.is_empty() {
            return Err(Error::truncated("CTF metadata", 0, 0, 1));
        }
        if bytes.len() > MAX_BYTES {
            return Err(Error::new(
                ErrorKind::Limit,
                "CTF metadata",
                0,
                format!("{} bytes", bytes.len()),
                format!("at most {MAX_BYTES}"),
            ));
        }
        let text = match byte_order(bytes) {
            Some(big_endian) => Cow::Owned(unpack(bytes, big_endian)?),
            None => Cow::Borrowed(bytes),
        };
        if text.first() == Some(&0x1e) {
            return json::parse(&text);
        }
        let text = std::str::from_utf8(&text).map_err(|e| {
            Error::damaged(
                "CTF metadata",
                e.valid_up_to() as u64,
                "bytes that are no UTF-8",
                "text",
            )
        })?;
        tsdl::parse(text)
    }
}

/// The text of all packets.
fn unpack(bytes: &[u8], big_endian: bool) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let packet = &bytes[at..];
        let offset = at as u64;
        let Some(head) = packet.get(..HEAD) else {
            return Err(Error::truncated(
                "CTF metadata packet",
                offset,
                packet.len() as u64,
                HEAD as u64,
            ));
        };
        let number = |from: usize, n: usize| uint(&head[from..from + n], big_endian);
        let damaged = |found: String, needed: &'static str| {
            Error::damaged("CTF metadata packet", offset, found, needed)
        };
        if number(0, 4) != u64::from(MAGIC) {
            return Err(damaged(format!("magic {:#x}", number(0, 4)), "0x75d11d57"));
        }
        let (content, size) = (number(24, 4) / 8, number(28, 4) / 8);
        if head[32..35] != [0, 0, 0] {
            return Err(damaged(
                "compressed, encrypted or checksummed metadata".into(),
                "plain metadata",
            ));
        }
        if content < HEAD as u64 || size < content {
            return Err(damaged(
                format!("{content} bytes of content in {size}"),
                "37 bytes or more, and no more than the packet has",
            ));
        }
        let Some(text) = packet.get(HEAD..content as usize) else {
            return Err(Error::truncated(
                "CTF metadata packet",
                offset,
                packet.len() as u64,
                content,
            ));
        };
        out.extend_from_slice(text);
        at += (size as usize).min(packet.len());
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(text: &str, big_endian: bool, padding: usize) -> Vec<u8> {
        let number = |n: u32| {
            if big_endian { n.to_be_bytes() } else { n.to_le_bytes() }
        };
        let mut out = number(MAGIC).to_vec();
        out.extend([0; 20]);
        out.extend(number((HEAD + text.len()) as u32 * 8));
        out.extend(number((HEAD + text.len() + padding) as u32 * 8));
        out.extend([0, 0, 0, 1, 8]);
        out.extend(text.as_bytes());
        out.resize(out.len() + padding, 0);
        out
    }

    #[test]
    fn text_of_all_packets_is_joined() {
        for big_endian in [false, true] {
            let mut bytes = packet("/* CTF 1.8 */ env { a = ", big_endian, 9);
            bytes.extend(packet("\"b\"; };", big_endian, 0));
            assert!(is_metadata(&bytes));
            let metadata = Metadata::parse(&bytes).unwrap();
            assert_eq!(metadata.env_text("a"), Some("b"));
            assert_eq!((metadata.major, metadata.big_endian), (1, false));
        }
    }

    #[test]
    fn a_claim_beyond_the_file_is_refused() {
        let mut bytes = packet("/* CTF 1.8 */", false, 0);
        bytes[24..28].copy_from_slice(&u32::MAX.to_le_bytes());
        bytes[28..32].copy_from_slice(&u32::MAX.to_le_bytes());
        let error = Metadata::parse(&bytes).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Truncated);
    }
}
