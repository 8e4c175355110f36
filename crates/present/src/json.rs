//! The summary as JSON: `docs/schema/stat-1.json`.
use kasuri_analyze::Summary;
use std::io::{self, Write};

/// Writes the summary, indented, with a line feed at the end.
///
/// # Errors
/// Those of `out`.
pub fn write<W: Write>(summary: &Summary, mut out: W) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut out, summary).map_err(io::Error::from)?;
    out.write_all(b"\n")?;
    out.flush()
}
