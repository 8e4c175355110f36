//! Answers as JSON, for programs.
//!
//! The structs of the analysis crates are the format: their fields are the keys, and docs/schema has a schema for each
//! command, such as stat-1.json. A number in a schema's name changes when a key is removed or changes its meaning.
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
