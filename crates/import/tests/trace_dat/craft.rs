//! Golden files written anew as another machine would have recorded them, or compressed in another way: what no
//! trace-cmd of this machine writes.
use kasuri_format::trace_dat::{Buffer, TraceDat};
use kasuri_format::tracefs::{EventFormat, Field, FieldKind, Page, PageLayout, RawEvent};
use std::collections::BTreeMap;
use std::io::Write;

/// Numbers in a byte order.
struct Out {
    bytes: Vec<u8>,
    big_endian: bool,
}

impl Out {
    fn int(&mut self, value: u64, size: usize) {
        let le = value.to_le_bytes();
        let bytes = &le[..size];
        match self.big_endian {
            true => self.bytes.extend(bytes.iter().rev()),
            false => self.bytes.extend(bytes),
        }
    }

    fn text(&mut self, text: &str) {
        self.bytes.extend(text.as_bytes());
        self.bytes.push(0);
    }

    fn blob(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
    }

    fn align(&mut self, to: usize) {
        let len = self.bytes.len().next_multiple_of(to);
        self.bytes.resize(len, 0);
    }
}

/// The pages of each CPU with any.
fn pages(file: &[u8], dat: &TraceDat<'_>, buffer: &Buffer) -> Vec<(u32, Vec<u8>)> {
    let of = |cpu| {
        let chunks = buffer.chunks(cpu, file, dat.big_endian);
        chunks.flat_map(|c| c.unwrap().pages.into_owned()).collect()
    };
    buffer.cpus.iter().map(|c| (c.cpu, of(c))).collect()
}

// ------------------------------------------------------------------------------------------------
// Another machine
// ------------------------------------------------------------------------------------------------

/// A version 6 file of this machine as one with another byte order and other longs would have recorded it.
pub fn for_machine(file: &[u8], big_endian: bool, long_bytes: usize) -> Vec<u8> {
    let dat = TraceDat::parse(file).unwrap();
    let [buffer] = &dat.buffers[..] else { panic!("one buffer") };
    let types: BTreeMap<u16, Moved> = (dat.formats.iter())
        .map(|(name, text)| {
            let format = EventFormat::parse(name, text).unwrap();
            (format.id, Moved::new(format, text, long_bytes))
        })
        .collect();
    let mut out = Out { bytes: kasuri_format::trace_dat::MAGIC.to_vec(), big_endian };
    out.text("6");
    out.blob(&[big_endian as u8, long_bytes as u8]);
    out.int(4096, 4);
    let data_at = 8 + long_bytes;
    let header_page = format!(
        "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\tfield: local_t commit;\toffset:8;\tsize:{long_bytes};\tsigned:1;\n\
         \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\tfield: char data;\toffset:{data_at};\tsize:{};\tsigned:1;\n",
        4096 - data_at
    );
    out.text("header_page");
    out.int(header_page.len() as u64, 8);
    out.blob(header_page.as_bytes());
    out.text("header_event");
    out.int(0, 8);
    let mut systems: BTreeMap<&str, Vec<&Moved>> = BTreeMap::new();
    for moved in types.values() {
        let (system, _) = moved.old.name.split_once('/').unwrap();
        systems.entry(system).or_default().push(moved);
    }
    let formats = |out: &mut Out, all: &[&Moved]| {
        out.int(all.len() as u64, 4);
        for moved in all {
            out.int(moved.text.len() as u64, 8);
            out.blob(moved.text.as_bytes());
        }
    };
    formats(&mut out, &systems.remove("ftrace").unwrap());
    out.int(systems.len() as u64, 4);
    for (system, all) in systems {
        out.text(system);
        formats(&mut out, &all);
    }
    out.int(0, 4); // symbols
    out.int(0, 4); // formats of trace_printk
    let cmdlines: String =
        (dat.cmdlines.iter()).map(|(tid, comm)| format!("{tid} {comm}\n")).collect();
    out.int(cmdlines.len() as u64, 8);
    out.blob(cmdlines.as_bytes());
    out.int(buffer.cpus.len() as u64, 4);
    out.text("options  ");
    for (id, text) in [(4, "[mono]"), (5, "Linux vm 6.1.0 armv7l"), (9, "3.1.6")] {
        out.int(id, 2);
        out.int(text.len() as u64 + 1, 4);
        out.text(text);
    }
    out.int(0, 2);
    out.text("flyrecord");
    let cpus: Vec<Vec<u8>> = (pages(file, &dat, buffer).iter())
        .map(|(_, pages)| other_pages(pages, &types, big_endian, long_bytes))
        .collect();
    let mut at = (out.bytes.len() + 16 * cpus.len() + 16).next_multiple_of(4096);
    for pages in &cpus {
        out.int(at as u64, 8);
        out.int(pages.len() as u64, 8);
        at += pages.len();
    }
    out.int(7, 8);
    out.text("[mono]");
    out.align(4096);
    cpus.iter().for_each(|pages| out.blob(pages));
    out.bytes
}

/// An event type there and here.
struct Moved {
    old: EventFormat,
    new: Vec<Field>,
    fixed: usize,
    text: String,
}

impl Moved {
    fn new(old: EventFormat, text: &str, long_bytes: usize) -> Moved {
        let mut at = 0usize;
        let mut new = Vec::new();
        let mut lines = text.to_owned();
        for field in &old.fields {
            let mut moved = field.clone();
            let is_long = (field.type_name.contains("long") || field.type_name.contains('*'))
                && !field.type_name.contains("long long");
            if is_long && field.size == 8 {
                moved.size = long_bytes as u32;
            }
            let unit = match moved.kind {
                FieldKind::Int => moved.size as usize,
                FieldKind::Ints { elem, .. } => elem as usize,
                FieldKind::DataLoc | FieldKind::RelLoc | FieldKind::Tail => 4,
                FieldKind::Bytes => 1,
            };
            if at != field.offset as usize || long_bytes != 8 {
                at = at.next_multiple_of(unit.max(1));
            }
            moved.offset = at as u32;
            at += moved.size as usize;
            let line = |f: &Field| format!("\toffset:{};\tsize:{};", f.offset, f.size);
            // The line of this field only: names of fields are unique.
            let start = lines.find(&format!("{};", declared(&lines, field))).unwrap();
            let tail = lines[start..].replacen(&line(field), &line(&moved), 1);
            lines.replace_range(start.., &tail);
            new.push(moved);
        }
        Moved { old, new, fixed: at, text: lines }
    }

    fn event(&self, data: &[u8], big_endian: bool) -> Vec<u8> {
        let mut out = vec![0; self.fixed];
        for (old, new) in self.old.fields.iter().zip(&self.new) {
            let at = new.offset as usize;
            let size = new.size as usize;
            let mut put = |value: u64, at: usize, size: usize| {
                let mut n = Out { bytes: Vec::new(), big_endian };
                n.int(value, size);
                out[at..at + size].copy_from_slice(&n.bytes);
            };
            match old.kind {
                FieldKind::Int => put(old.int(data, 0, false).unwrap() as u64, at, size),
                FieldKind::Ints { elem, count } => {
                    for ix in 0..count as usize {
                        let value = old.int(data, ix, false).unwrap() as u64;
                        put(value, at + ix * elem as usize, elem as usize);
                    }
                }
                FieldKind::Bytes => {
                    let bytes = old.bytes(data, false).unwrap();
                    out[at..at + size].copy_from_slice(bytes);
                }
                FieldKind::DataLoc => {
                    let bytes = old.bytes(data, false).unwrap();
                    let loc = out.len() as u64 | (bytes.len() as u64) << 16;
                    let mut n = Out { bytes: Vec::new(), big_endian };
                    n.int(loc, 4);
                    out[at..at + 4].copy_from_slice(&n.bytes);
                    out.extend(bytes);
                }
                FieldKind::RelLoc => unreachable!("none in the golden file"),
                FieldKind::Tail => out.extend(old.bytes(data, false).unwrap()),
            }
        }
        let len = out.len().next_multiple_of(4);
        out.resize(len, 0);
        out
    }
}

/// `TYPE NAME` or `TYPE NAME[n]` as its line has it.
fn declared(text: &str, field: &Field) -> String {
    let lines = text.lines().filter_map(|l| l.trim().strip_prefix("field:"));
    let mut declarations = lines.filter_map(|l| l.split(';').next());
    let is = |d: &&str| {
        let name = d.split('[').next().unwrap_or(d);
        let name = match d.starts_with("__data_loc") || d.starts_with("__rel_loc") {
            true => d.rsplit(' ').next().unwrap_or(d),
            false => name.rsplit([' ', '*']).next().unwrap_or(name),
        };
        name == field.name
    };
    declarations.find(is).unwrap().to_owned()
}

fn other_pages(
    pages: &[u8],
    types: &BTreeMap<u16, Moved>,
    big_endian: bool,
    long_bytes: usize,
) -> Vec<u8> {
    let mut out = Vec::new();
    for page in pages.chunks(4096) {
        let page = Page::parse(page, &PageLayout::LE64, 0).unwrap();
        let mut events = Out { bytes: Vec::new(), big_endian };
        let mut last = page.stamp;
        for event in page.events() {
            let event: RawEvent<'_> = event.unwrap();
            let id = event.id(false).unwrap();
            let data = types[&id].event(event.data, big_endian);
            let mut delta = event.stamp - last;
            last = event.stamp;
            let word = |type_len: u64, delta: u64| match big_endian {
                true => type_len << 27 | delta,
                false => delta << 5 | type_len,
            };
            if delta >= 1 << 27 {
                events.int(word(30, delta & ((1 << 27) - 1)), 4);
                events.int(delta >> 27, 4);
                delta = 0;
            }
            if data.len() <= 112 {
                events.int(word(data.len() as u64 / 4, delta), 4);
            } else {
                events.int(word(0, delta), 4);
                events.int(data.len() as u64 + 4, 4);
            }
            events.blob(&data);
        }
        let mut page_out = Out { bytes: Vec::new(), big_endian };
        page_out.int(page.stamp, 8);
        page_out.int(events.bytes.len() as u64, long_bytes);
        page_out.blob(&events.bytes);
        assert!(page_out.bytes.len() <= 4096, "the page has no room");
        page_out.align(4096);
        out.extend(page_out.bytes);
    }
    out
}

// ------------------------------------------------------------------------------------------------
// Another compression
// ------------------------------------------------------------------------------------------------

fn pack(bytes: &[u8], algorithm: &str) -> Vec<u8> {
    match algorithm {
        "zlib" => {
            let level = flate2::Compression::fast();
            let mut out = flate2::write::ZlibEncoder::new(Vec::new(), level);
            out.write_all(bytes).unwrap();
            out.finish().unwrap()
        }
        _ => zstd::encode_all(bytes, 1).unwrap(),
    }
}

fn u16_at(file: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(file[at..at + 2].try_into().unwrap())
}

fn u32_at(file: &[u8], at: usize) -> usize {
    u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize
}

fn u64_at(file: &[u8], at: usize) -> usize {
    u64::from_le_bytes(file[at..at + 8].try_into().unwrap()) as usize
}

/// A version 7 file without compression as one with. Written by this from the specification alone, not by what the
/// reader does.
pub fn compressed(file: &[u8], algorithm: &str) -> Vec<u8> {
    let dat = TraceDat::parse(file).unwrap();
    let mut out = Out {
        bytes: file[..18].to_vec(), // magic, version, byte order, long, page size
        big_endian: false,
    };
    out.text(algorithm);
    out.text("1");
    let name_end = 18 + file[18..].iter().position(|&b| b == 0).unwrap() + 1;
    let version_end = name_end + file[name_end..].iter().position(|&b| b == 0).unwrap() + 1;
    let mut next = u64_at(file, version_end);
    let first_at = out.bytes.len();
    out.int(0, 8);
    let mut options: Vec<(u16, Vec<u8>)> = Vec::new();
    while next != 0 {
        let mut at = next + 16;
        loop {
            let (id, n) = (u16_at(file, at), u32_at(file, at + 2));
            let data = &file[at + 6..at + 6 + n];
            at += 6 + n;
            match id {
                0 => {
                    next = u64_at(data, 0);
                    break;
                }
                16..=21 => {
                    let section = u64_at(data, 0);
                    let size = u64_at(file, section + 8);
                    let content = &file[section + 16..section + 16 + size];
                    let place = out.bytes.len() as u64;
                    let packed = pack(content, algorithm);
                    out.int(id.into(), 2);
                    out.int(1, 2);
                    out.int(0, 4);
                    out.int(packed.len() as u64 + 8, 8);
                    out.int(packed.len() as u64, 4);
                    out.int(content.len() as u64, 4);
                    out.blob(&packed);
                    options.push((id, place.to_le_bytes().to_vec()));
                }
                3 => {}
                _ => options.push((id, data.to_vec())),
            }
        }
    }
    for buffer in &dat.buffers {
        let option = packed_buffer(&mut out, file, &dat, buffer, algorithm);
        options.push((3, option));
    }
    let place = out.bytes.len() as u64;
    out.bytes[first_at..first_at + 8].copy_from_slice(&place.to_le_bytes());
    options.push((0, vec![0; 8]));
    out.int(0, 2);
    out.int(0, 2);
    out.int(0, 4);
    let size: usize = options.iter().map(|(_, data)| 6 + data.len()).sum();
    out.int(size as u64, 8);
    for (id, data) in options {
        out.int(id.into(), 2);
        out.int(data.len() as u64, 4);
        out.blob(&data);
    }
    out.bytes
}

/// Writes a buffer in chunks of two pages; gives its option.
fn packed_buffer(
    out: &mut Out,
    file: &[u8],
    dat: &TraceDat<'_>,
    buffer: &Buffer,
    algorithm: &str,
) -> Vec<u8> {
    let place = out.bytes.len() as u64;
    out.int(3, 2);
    out.int(1, 2);
    out.int(0, 4);
    out.int(0, 8);
    let mut option = Out { bytes: Vec::new(), big_endian: false };
    option.int(place, 8);
    option.text(&buffer.name);
    option.text(dat.clock(buffer));
    option.int(4096, 4);
    let cpus = pages(file, dat, buffer);
    option.int(cpus.len() as u64, 4);
    for (cpu, pages) in cpus {
        out.align(4096);
        let at = out.bytes.len();
        let chunks: Vec<&[u8]> = pages.chunks(2 * 4096).collect();
        out.int(chunks.len() as u64, 4);
        for chunk in chunks {
            let packed = pack(chunk, algorithm);
            out.int(packed.len() as u64, 4);
            out.int(chunk.len() as u64, 4);
            out.blob(&packed);
        }
        option.int(cpu.into(), 4);
        option.int(at as u64, 8);
        option.int((out.bytes.len() - at - 4) as u64, 8);
    }
    option.bytes
}
