//! How much of each event file of a recording directory went into a stream. The file keeps its length, and nothing before that
//! place is in it any more: packing and recovery begin there.
use crate::guard::bounds::MAX_TABLE_BYTES;
use crate::guard::safefs::{Access, Held};
use kasuri_format::meta::{SentRow, parse_lines, to_lines};
use std::collections::HashMap;
use std::io::{self, Write};

/// The file that says so; a recording that was not sent has none.
pub(crate) const SENT: &str = "sent.jsonl";
/// Its new content, until it is whole.
pub(crate) const SENT_NEW: &str = "sent.jsonl.new";

/// Bytes sent, by the name of the file.
#[derive(Debug, Default)]
pub(crate) struct Sent(HashMap<String, u64>);

impl Sent {
    /// Reads it; nothing was sent of a file of which it says nothing.
    pub(crate) fn of(dir: &Held) -> Sent {
        let bytes = dir.read(SENT, MAX_TABLE_BYTES).unwrap_or_default();
        let (rows, _): (Vec<SentRow>, _) = parse_lines(SENT, &bytes);
        Sent(rows.into_iter().map(|row| (row.file, row.bytes)).collect())
    }

    /// Bytes of all files.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.values().fold(0, |sum, &n| sum.saturating_add(n))
    }

    /// The part of a file that was not sent, and where it begins.
    pub(crate) fn rest<'a>(&self, name: &str, bytes: &'a [u8]) -> (&'a [u8], u64) {
        let sent = self.0.get(name).copied().unwrap_or(0);
        let from = sent.min(bytes.len() as u64);
        (&bytes[from as usize..], from)
    }
}

/// Replaces it as a whole.
///
/// # Errors
/// When it cannot be written; the old one is still there.
pub(crate) fn write(dir: &Held, rows: &[SentRow]) -> io::Result<()> {
    dir.file(SENT_NEW, Access::Replace)?.write_all(to_lines(rows).as_bytes())?;
    dir.rename(SENT_NEW, SENT)
}
