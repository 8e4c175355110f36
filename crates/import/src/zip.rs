//! Finds the one file inside of a zip archive.
//!
//! The directory at the archive's end counts, not the heads before the files: a writer that streams leaves sizes and
//! checksums out there. Numbers are little-endian, at the offsets of PKWARE's APPNOTE.TXT, sections 4.3.7 (head), 4.3.12
//! (directory) and 4.3.16 (its end).

/// What a zip archive with a file begins with.
pub(crate) const MAGIC: &[u8] = b"PK\x03\x04";
/// Begins an entry of the directory.
const ENTRY: &[u8] = b"PK\x01\x02";
/// Begins the end of the directory, which is [`END_BYTES`] long and may have a comment behind it.
const END: &[u8] = b"PK\x05\x06";
const END_BYTES: usize = 22;
const ENTRY_BYTES: usize = 46;
const HEAD_BYTES: usize = 30;
/// Longest comment behind the end.
const MAX_COMMENT: usize = 0xffff;
/// Names in a message.
const NAMED: usize = 5;

/// A file in an archive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry<'a> {
    /// Its bytes as they are stored.
    pub packed: &'a [u8],
    /// How: 0 as it is, 8 deflate, 93 zstd.
    pub method: u16,
    /// CRC-32 of its content.
    pub crc: u32,
}

/// The only file of the archive. Folders do not count, nor what macOS adds to each file.
///
/// # Errors
/// In words: damage, another number of files, files that are encrypted or above 4 GiB.
pub(crate) fn only_file(bytes: &[u8]) -> Result<Entry<'_>, String> {
    let cut = || "its list of files, which is at the end, is not there".to_owned();
    let from = bytes.len().saturating_sub(END_BYTES + MAX_COMMENT);
    let end = (bytes[from..].windows(END.len()))
        .rposition(|part| part == END)
        .map(|at| from + at)
        .filter(|at| bytes.len() - at >= END_BYTES)
        .ok_or_else(cut)?;
    let n_entries = u16_at(bytes, end + 10).ok_or_else(cut)?;
    let mut at = u32_at(bytes, end + 16).ok_or_else(cut)? as usize;
    let mut files: Vec<(String, usize)> = Vec::new();
    for _ in 0..n_entries {
        let damaged = || format!("its list of files is damaged at byte {at}");
        let entry = bytes.get(at..end).filter(|entry| entry.starts_with(ENTRY));
        let entry = entry.ok_or_else(damaged)?;
        let length = |offset| u16_at(entry, offset).map(usize::from);
        let n_name = length(28).ok_or_else(damaged)?;
        let n_more = length(30).zip(length(32)).ok_or_else(damaged)?;
        let name = entry.get(ENTRY_BYTES..ENTRY_BYTES + n_name);
        let name = String::from_utf8_lossy(name.ok_or_else(damaged)?);
        if !name.ends_with('/') && !name.starts_with("__MACOSX/") {
            files.push((name.into_owned(), at));
        }
        at += ENTRY_BYTES + n_name + n_more.0 + n_more.1;
    }
    match files[..] {
        [(_, at)] => file(bytes, at),
        [] => Err("there is no file in it".to_owned()),
        _ => {
            let names: Vec<String> = (files.iter().take(NAMED))
                .map(|(name, _)| name.escape_debug().to_string())
                .collect();
            let dots = if files.len() > NAMED { ", ..." } else { "" };
            let (n, names) = (files.len(), names.join(", "));
            Err(format!("it has {n} files ({names}{dots}): unpack it and choose one"))
        }
    }
}

/// The file of the directory's entry at `at`.
fn file(bytes: &[u8], at: usize) -> Result<Entry<'_>, String> {
    let damaged = |at: usize| format!("damaged at byte {at}");
    let short = |offset| u16_at(bytes, at + offset).ok_or_else(|| damaged(at));
    let long = |offset| u32_at(bytes, at + offset).ok_or_else(|| damaged(at));
    if short(8)? & 1 != 0 {
        return Err("its file is encrypted".to_owned());
    }
    let (size, head) = (long(20)?, long(42)?);
    if size == u32::MAX || head == u32::MAX {
        return Err("its file is above 4 GiB (zip64): unpack it by hand".to_owned());
    }
    let (size, head) = (size as usize, head as usize);
    let name = u16_at(bytes, head + 26).zip(u16_at(bytes, head + 28));
    let (n_name, n_more) = name.ok_or_else(|| damaged(head))?;
    let start = head + HEAD_BYTES + usize::from(n_name) + usize::from(n_more);
    let packed = bytes.get(start..start + size);
    Ok(Entry { packed: packed.ok_or_else(|| damaged(head))?, method: short(10)?, crc: long(16)? })
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}
