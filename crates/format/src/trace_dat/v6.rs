//! Version 6: parts one after the other.
//!
//! ```text
//! header page | ftrace formats | event formats | kallsyms | printk formats | command lines | u32 CPUs
//! "options  \0" options
//! "flyrecord\0" table of CPUs: u64 offset, u64 bytes each; clock       (or "latency  \0" text up to the end)
//! pages of all CPUs
//! ```
//!
//! Each instance has a table of its own, at the offset that its option gives. Nothing but the order says where a part begins, so
//! damage ends reading; format files that were read until then are kept.
use super::buffer::{Buffer, OptionBuffer, cpu_table, rest_as_text};
use super::clock::current_clock;
use super::options::id;
use super::reader::Reader;
use super::{Faults, TraceDat, parts};
use crate::Result;

/// More CPUs than any machine has; a damaged number must not make a table of them.
const CPUS_MAX: u32 = 8192;

pub(super) fn read<'a>(
    file: &mut TraceDat<'a>,
    mut reader: Reader<'a>,
    faults: &mut Faults,
) -> Result<()> {
    reader.rename("trace.dat header page");
    parts::headers(file, &mut reader)?;
    reader.rename("trace.dat format files");
    parts::ftrace_formats(file, &mut reader)?;
    parts::event_formats(file, &mut reader)?;
    // From here on all is in one row: after a fault nothing has a known place.
    let rest = rest(file, reader, faults);
    faults.keep(rest)
}

fn rest<'a>(file: &mut TraceDat<'a>, mut reader: Reader<'a>, faults: &mut Faults) -> Result<()> {
    reader.rename("trace.dat symbols");
    parts::skip(&mut reader)?;
    parts::skip(&mut reader)?;
    reader.rename("trace.dat command lines");
    parts::cmdlines(file, &mut reader)?;
    reader.rename("trace.dat options");
    file.n_cpus = reader.u32()?;
    if file.n_cpus > CPUS_MAX {
        return Err(reader.damaged(format!("{} CPUs", file.n_cpus), format!("at most {CPUS_MAX}")));
    }
    let mut instances = Vec::new();
    let mut kind = reader.take(10)?;
    if kind == b"options  \0" {
        options(file, &mut reader, &mut instances)?;
        kind = reader.take(10)?;
    }
    let top = data(file, &mut reader, kind, String::new());
    faults.keep(top)?;
    for instance in instances {
        let read = reader.at(instance.offset, "trace.dat instance").and_then(|mut reader| {
            let kind = reader.take(10)?;
            data(file, &mut reader, kind, instance.buffer.name)
        });
        faults.keep(read)?;
    }
    Ok(())
}

fn options(
    file: &mut TraceDat<'_>,
    reader: &mut Reader<'_>,
    instances: &mut Vec<OptionBuffer>,
) -> Result<()> {
    loop {
        let id = reader.u16()?;
        if id == id::DONE {
            return Ok(());
        }
        let n = reader.u32()?;
        let at = reader.offset();
        let bytes = reader.take64(u64::from(n))?;
        let data = Reader::based(bytes, 0, at, file.big_endian, "trace.dat option");
        file.option(id, data, instances)?;
    }
}

/// The data of one buffer: text up to the end, or a table of where each CPU's pages are, and the clock's name.
fn data<'a>(
    file: &mut TraceDat<'a>,
    reader: &mut Reader<'a>,
    kind: &[u8],
    name: String,
) -> Result<()> {
    match kind {
        b"latency  \0" => {
            file.texts.push(rest_as_text(reader, &name));
            Ok(())
        }
        b"flyrecord\0" => {
            let cpus = cpu_table(reader, file.n_cpus)?;
            // Older writers end here.
            let mut after = reader.clone();
            let clock = after.u64().and_then(|n| after.take64(n.min(1024)));
            let clock = clock.map_or(String::new(), |bytes| {
                let text = super::text(bytes);
                match text.contains('[') {
                    true => current_clock(&text),
                    false => String::new(),
                }
            });
            file.buffers.push(Buffer {
                name,
                clock,
                page_bytes: file.sub_buffer_bytes(),
                cpus,
                ..Buffer::default()
            });
            Ok(())
        }
        other => Err(reader.damaged(
            format!("{:?}", String::from_utf8_lossy(other)),
            "options, latency or flyrecord",
        )),
    }
}
