//! The head of a trace.dat that `perf.data` carries: the format files of the events that were recorded.
//!
//! perf writes it as trace-cmd's version 0.5 or 0.6: magic, version text, byte order, size of a `long`, page size, then the
//! parts of `parts`, kallsyms and the formats of trace_printk (both skipped), and from 0.6 on the command lines.
use super::reader::Reader;
use super::{MAGIC, TraceDat, parts};
use crate::Result;
use std::collections::BTreeMap;

/// The description of tracepoints that perf needs.
#[derive(Clone, Debug, Default)]
pub(crate) struct TracingData {
    /// Text of each event's format file, by `system/event`.
    pub formats: BTreeMap<String, String>,
    /// Thread ids and names that the kernel knew.
    pub cmdlines: Vec<(i32, String)>,
}

impl TracingData {
    /// `base`: where `bytes` begin in the file. Versions 0.5 and 0.6, the first without command lines.
    pub(crate) fn parse(bytes: &[u8], base: u64) -> Result<TracingData> {
        let what = "format files in perf.data";
        let mut reader = Reader::based(bytes, 0, base, false, what);
        reader.expect(MAGIC)?;
        let has_cmdlines = reader.text()?.as_str() >= "0.6";
        reader.big_endian = match reader.u8()? {
            0 => false,
            1 => true,
            other => return Err(reader.damaged(format!("byte order {other}"), "0 or 1")),
        };
        // Bytes of a long, page size.
        reader.take(5)?;
        let mut file = TraceDat::default();
        parts::headers(&mut file, &mut reader)?;
        parts::ftrace_formats(&mut file, &mut reader)?;
        parts::event_formats(&mut file, &mut reader)?;
        // kallsyms, formats of trace_printk.
        parts::skip(&mut reader)?;
        parts::skip(&mut reader)?;
        if has_cmdlines {
            parts::cmdlines(&mut file, &mut reader)?;
        }
        Ok(TracingData { formats: file.formats, cmdlines: file.cmdlines })
    }
}
