//! Answers as JSON: `docs/schema/stat-1.json`, `docs/schema/compare-1.json`.
use serde::Serialize;
use std::io::{self, Write};

/// Writes an answer, indented, with a line feed at the end.
///
/// # Errors
/// Those of `out`.
pub fn write<T: Serialize, W: Write>(answer: &T, mut out: W) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut out, answer).map_err(io::Error::from)?;
    out.write_all(b"\n")?;
    out.flush()
}
