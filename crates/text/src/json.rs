//! Answers as JSON, for programs.
//!
//! The structs of the analysis crates are the format: their fields are the keys, and docs/schema has a schema for each
//! command, such as stat-1.json. A number in a schema's name changes when a key is removed or changes its meaning.
//!
//! They may be read on a terminal, too: in names, characters that would steer it are escaped, as JSON allows.
use kasuri_base::words::steers;
use serde::Serialize;
use std::io::{self, Write};

/// Writes an answer, indented, with a line feed at the end.
///
/// # Errors
/// Those of `out`.
pub fn write<T: Serialize, W: Write>(answer: &T, mut out: W) -> io::Result<()> {
    let text = serde_json::to_string_pretty(answer).map_err(io::Error::from)?;
    escaped(&text, &mut out)?;
    out.flush()
}

/// Writes an answer on one line, one of many.
///
/// # Errors
/// Those of `out`.
pub fn write_line<T: Serialize, W: Write>(answer: &T, mut out: W) -> io::Result<()> {
    let text = serde_json::to_string(answer).map_err(io::Error::from)?;
    escaped(&text, &mut out)
}

fn escaped(text: &str, out: &mut impl Write) -> io::Result<()> {
    // Outside of strings there is none but line feeds.
    let is_special = |c: char| steers(c) && c != '\n';
    let mut rest = text;
    while let Some(at) = rest.find(is_special) {
        let (before, after) = rest.split_at(at);
        out.write_all(before.as_bytes())?;
        let mut chars = after.chars();
        // All of them are in the first plane.
        let special = chars.next().map_or(0, u32::from);
        write!(out, "\\u{special:04x}")?;
        rest = chars.as_str();
    }
    out.write_all(rest.as_bytes())?;
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_steers_a_terminal_is_escaped_and_read_back() {
        let name = "a\u{202e}b\u{9b}\u{7f}\u{1b}é\n";
        let mut out = Vec::new();
        super::write(&[name], &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "[\n  \"a\\u202eb\\u009b\\u007f\\u001bé\\n\"\n]\n");
        assert_eq!(serde_json::from_str::<[String; 1]>(&text).unwrap(), [name]);
        let mut out = Vec::new();
        super::write_line(&[name], &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "[\"a\\u202eb\\u009b\\u007f\\u001bé\\n\"]\n");
    }
}
