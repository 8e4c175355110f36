//! Parts that both versions store in the same way: header page, format files, command lines.
//!
//! ```text
//! "header_page\0" u64 length, text; "header_event\0" u64 length, text
//! ftrace's own events:  u32 number; each u64 length, text of the format file
//! all other events:     u32 systems; each name\0, u32 number; each u64 length, text
//! command lines:        u64 length, lines `TID NAME`
//! ```
//!
//! Version 6 has them in a row, version 7 in a section each; `perf.data` has the same bytes in its tracing data.
use super::reader::Reader;
use super::{TraceDat, text};
use crate::Result;

/// `header_page` and `header_event`.
pub(super) fn headers(file: &mut TraceDat<'_>, reader: &mut Reader<'_>) -> Result<()> {
    reader.expect(b"header_page\0")?;
    let n = reader.u64()?;
    file.header_page = text(reader.take64(n)?);
    reader.expect(b"header_event\0")?;
    let n = reader.u64()?;
    reader.take64(n)?;
    Ok(())
}

/// ftrace's own events: no system is named.
pub(super) fn ftrace_formats(file: &mut TraceDat<'_>, reader: &mut Reader<'_>) -> Result<()> {
    formats(file, reader, "ftrace")
}

/// All others, by system.
pub(super) fn event_formats(file: &mut TraceDat<'_>, reader: &mut Reader<'_>) -> Result<()> {
    for _ in 0..reader.count(5)? {
        let system = reader.text()?;
        formats(file, reader, &system)?;
    }
    Ok(())
}

fn formats(file: &mut TraceDat<'_>, reader: &mut Reader<'_>, system: &str) -> Result<()> {
    for _ in 0..reader.count(8)? {
        let n = reader.u64()?;
        let format = text(reader.take64(n)?);
        if let Some(name) = event_name(&format) {
            file.formats.insert(format!("{system}/{name}"), format);
        }
    }
    Ok(())
}

fn event_name(format: &str) -> Option<&str> {
    let line = format.lines().find_map(|l| l.strip_prefix("name:"))?;
    Some(line.trim())
}

/// `TID NAME` lines. A machine whose list is full has many without a name: `<...>`.
pub(super) fn cmdlines(file: &mut TraceDat<'_>, reader: &mut Reader<'_>) -> Result<()> {
    let n = reader.u64()?;
    let lines = text(reader.take64(n)?);
    for line in lines.lines() {
        if let Some((tid, comm)) = line.trim_start().split_once(' ')
            && let Ok(tid) = tid.parse()
            && comm != "<...>"
        {
            file.cmdlines.push((tid, comm.to_owned()));
        }
    }
    Ok(())
}

/// A part that is not used: kallsyms, formats of trace_printk. Its length is a u32.
pub(super) fn skip(reader: &mut Reader<'_>) -> Result<()> {
    let n = reader.u32()?;
    reader.take64(u64::from(n))?;
    Ok(())
}
