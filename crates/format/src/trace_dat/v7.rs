//! Version 7: sections that options point at.
//!
//! The header ends with the name and version of the compression and the offset of the first section of options. A section is
//! u16 kind, u16 flags (1: compressed), u32 description, u64 bytes, then its content; compressed content is u32 packed length,
//! u32 unpacked length, packed bytes. A section of options ends with an option that points at the next such section.
//!
//! So damage in one section costs that section only, unless it holds the format files, without which no event can be read.
use super::buffer::{Buffer, OptionBuffer, TextBuffer};
use super::compression::Compression;
use super::options::id;
use super::reader::Reader;
use super::{Bytes, Faults, TraceDat, parts};
use crate::{Error, Result};

const COMPRESSED: u16 = 1;
/// Chains of options sections longer than this are loops.
const OPTION_SECTIONS_MAX: usize = 1024;

/// A section, unpacked.
struct Section<'a> {
    bytes: Bytes<'a>,
    /// Its offset in the file; in a packed one, offsets count on from there.
    base: u64,
}

impl<'a> Section<'a> {
    fn read(
        file: &TraceDat<'_>,
        reader: &Reader<'a>,
        offset: u64,
        wanted: u16,
        what: &'static str,
    ) -> Result<Section<'a>> {
        let mut reader = reader.at(offset, what)?;
        let id = reader.u16()?;
        if id != wanted {
            return Err(Error::damaged(
                what,
                offset,
                format!("a section of kind {id}"),
                format!("kind {wanted}"),
            ));
        }
        let flags = reader.u16()?;
        let _description = reader.u32()?;
        let size = reader.u64()?;
        let base = reader.offset();
        if flags & COMPRESSED == 0 {
            let bytes = Bytes::Borrowed(reader.take64(size)?);
            return Ok(Section { bytes, base });
        }
        let packed = reader.u32()?;
        let unpacked = reader.u32()? as usize;
        let at = reader.offset();
        let packed = reader.take64(u64::from(packed))?;
        let bytes = Bytes::Owned(file.compression.unpack(packed, unpacked, at)?);
        Ok(Section { bytes, base })
    }

    fn reader<'s>(&'s self, file: &TraceDat<'_>, what: &'static str) -> Reader<'s> {
        Reader::based(&self.bytes, 0, self.base, file.big_endian, what)
    }
}

/// Locations of the sections.
#[derive(Default)]
struct Places {
    headers: Option<u64>,
    ftrace: Option<u64>,
    events: Option<u64>,
    cmdlines: Option<u64>,
}

pub(super) fn read<'a>(
    file: &mut TraceDat<'a>,
    mut reader: Reader<'a>,
    faults: &mut Faults,
) -> Result<()> {
    let at = reader.offset();
    let name = reader.text()?;
    let _version = reader.text()?;
    file.compression = Compression::from_name(&name, at)?;
    let first = reader.u64()?;
    let mut places = Places::default();
    let mut buffers = Vec::new();
    let options = options(file, &reader, first, &mut places, &mut buffers);
    faults.keep(options)?;
    let Some((headers, events)) = places.headers.zip(places.events) else {
        return Err(Error::damaged(
            "trace.dat options",
            first,
            "no place of header page and format files",
            "options 16 and 18",
        ));
    };
    let section = Section::read(file, &reader, headers, id::HEADER_INFO, "trace.dat header page")?;
    parts::headers(file, &mut section.reader(file, "trace.dat header page"))?;
    let what = "trace.dat format files";
    if let Some(offset) = places.ftrace {
        let section = Section::read(file, &reader, offset, id::FTRACE_EVENTS, what)?;
        parts::ftrace_formats(file, &mut section.reader(file, what))?;
    }
    let section = Section::read(file, &reader, events, id::EVENT_FORMATS, what)?;
    parts::event_formats(file, &mut section.reader(file, what))?;
    if let Some(offset) = places.cmdlines {
        let what = "trace.dat command lines";
        let read = Section::read(file, &reader, offset, id::CMDLINES, what)
            .and_then(|s| parts::cmdlines(file, &mut s.reader(file, what)));
        faults.keep(read)?;
    }
    for option in buffers {
        let buffer = buffer(file, &reader, option);
        faults.keep(buffer)?;
    }
    file.n_cpus = file.options.cpu_count.max(highest_cpu(&file.buffers));
    Ok(())
}

fn highest_cpu(buffers: &[Buffer]) -> u32 {
    let cpus = buffers.iter().flat_map(|b| &b.cpus);
    cpus.map(|c| c.cpu.saturating_add(1)).max().unwrap_or(0)
}

fn options<'a>(
    file: &mut TraceDat<'a>,
    reader: &Reader<'a>,
    first: u64,
    places: &mut Places,
    buffers: &mut Vec<OptionBuffer>,
) -> Result<()> {
    let what = "trace.dat options";
    let mut next = first;
    for _ in 0..OPTION_SECTIONS_MAX {
        if next == 0 {
            return Ok(());
        }
        let section = Section::read(file, reader, next, id::DONE, what)?;
        let mut options = section.reader(file, what);
        next = 0;
        while options.left() > 0 {
            let id = options.u16()?;
            let n = options.u32()?;
            let at = options.offset();
            let bytes = options.take64(u64::from(n))?;
            let mut data = Reader::based(bytes, 0, at, file.big_endian, "trace.dat option");
            match id {
                id::DONE => {
                    next = data.u64()?;
                    break;
                }
                id::HEADER_INFO => places.headers = Some(data.u64()?),
                id::FTRACE_EVENTS => places.ftrace = Some(data.u64()?),
                id::EVENT_FORMATS => places.events = Some(data.u64()?),
                id::CMDLINES => places.cmdlines = Some(data.u64()?),
                id => file.option(id, data, buffers)?,
            }
        }
    }
    Err(Error::damaged(
        what,
        next,
        format!("more than {OPTION_SECTIONS_MAX} sections"),
        "the last, whose DONE option says 0",
    ))
}

fn buffer<'a>(file: &mut TraceDat<'a>, reader: &Reader<'a>, option: OptionBuffer) -> Result<()> {
    if option.is_text {
        let section =
            Section::read(file, reader, option.offset, id::BUFFER_TEXT, "trace.dat text")?;
        file.texts.push(TextBuffer {
            name: option.buffer.name,
            clock: option.buffer.clock,
            text: section.bytes,
        });
        return Ok(());
    }
    let mut buffer = option.buffer;
    let what = "trace.dat buffer";
    let mut at = reader.at(option.offset, what)?;
    let found = at.u16()?;
    if found != id::BUFFER {
        return Err(Error::damaged(
            what,
            option.offset,
            format!("a section of kind {found}"),
            format!("kind {}", id::BUFFER),
        ));
    }
    if at.u16()? & COMPRESSED != 0 {
        buffer.packed = file.compression;
    }
    if !buffer.page_bytes.is_power_of_two() || !(4096..=1 << 20).contains(&buffer.page_bytes) {
        buffer.page_bytes = file.sub_buffer_bytes();
    }
    file.buffers.push(buffer);
    Ok(())
}
