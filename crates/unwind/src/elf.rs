//! The parts of an ELF file that unwinding needs: where its segments are loaded, its build-id, `.eh_frame`.
//!
//! Program headers are used where possible, so that files without sections work too: the kernel and the dynamic linker use
//! no other. The file may be anything that a program has mapped, so that every number in it is checked before use.
use crate::cpu::Cpu;
use std::fmt;
use std::ops::{Deref, Range};
use std::rc::Rc;

/// Most bytes of unwind information that are read of one file; the largest browsers have 30 MB.
pub(crate) const UNWIND_BYTES_MAX: u64 = 64 << 20;
/// Most program headers: `e_phnum` of real files is below 20.
const SEGMENTS_MAX: usize = 256;
/// Most section headers, and most bytes of their names.
const SECTIONS_MAX: usize = 1 << 12;
const NAMES_BYTES_MAX: u64 = 1 << 20;
/// Most bytes of notes in which the build-id is looked for.
const NOTE_BYTES_MAX: u64 = 64 << 10;
/// Longest build-id.
const BUILD_ID_MAX: usize = 64;
const PAGE: u64 = 4096;

/// Most bytes of a table of exported symbols, and of their names.
const SYMBOLS_BYTES_MAX: u64 = 16 << 20;
const SHT_DYNSYM: u32 = 11;

const PT_LOAD: u32 = 1;
const PT_NOTE: u32 = 4;
const PT_GNU_EH_FRAME: u32 = 0x6474_e550;
const PF_X: u32 = 1;
const NT_GNU_BUILD_ID: u32 = 3;

/// Bytes that can be read at any place.
pub trait ReadAt {
    /// Exactly `len` bytes from `offset` on; `None`: there are fewer, or they cannot be read.
    fn read_at(&self, offset: u64, len: usize) -> Option<Vec<u8>>;

    /// The same, for long: a mapped file need not copy them.
    fn part(&self, offset: u64, len: usize) -> Option<Bytes> {
        let bytes = self.read_at(offset, len)?;
        Bytes::of(Rc::new(bytes), 0..len)
    }
}

/// A part of what may be shared: of a mapped file, or of memory.
#[derive(Clone)]
pub struct Bytes {
    all: Rc<dyn AsRef<[u8]>>,
    range: Range<usize>,
}

impl Bytes {
    /// A part of these bytes, whose length must not change; `None`: they are fewer.
    pub fn of(all: Rc<dyn AsRef<[u8]>>, range: Range<usize>) -> Option<Bytes> {
        (*all).as_ref().get(range.clone())?;
        Some(Bytes { all, range })
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let all = (*self.all).as_ref();
        all.get(self.range.clone()).unwrap_or_default()
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bytes({})", self.range.len())
    }
}

impl ReadAt for Vec<u8> {
    fn read_at(&self, offset: u64, len: usize) -> Option<Vec<u8>> {
        let start = usize::try_from(offset).ok()?;
        Some(self.get(start..start.checked_add(len)?)?.to_vec())
    }
}

impl ReadAt for std::fs::File {
    fn read_at(&self, offset: u64, len: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; len];
        std::os::unix::fs::FileExt::read_exact_at(self, &mut bytes, offset).ok()?;
        Some(bytes)
    }
}

/// A piece of the file that is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    file_bytes: u64,
}

/// A part of the file, and its address as the file states it.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) address: u64,
    pub(crate) bytes: Bytes,
}

/// What unwinding needs of one file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Elf {
    segments: Vec<Segment>,
    /// Where the kernel begins to run the file; 0: nowhere.
    pub(crate) entry: u64,
    pub(crate) build_id: Vec<u8>,
    pub(crate) unwind: Option<Unwind>,
    /// Code of the Go compiler, which has frame pointers and no unwind information of this kind.
    pub(crate) is_go: bool,
}

/// The unwind information of a file.
#[derive(Clone, Debug)]
pub(crate) struct Unwind {
    /// The table of its functions, `.eh_frame_hdr`; `None`: it lacks one, as static programs of some distributions do.
    pub(crate) table: Option<Part>,
    /// `.eh_frame`, to its end or that of its segment.
    pub(crate) frames: Part,
}

impl Elf {
    /// Reads it; `None`: no 64-bit little-endian ELF file of this CPU.
    pub(crate) fn read(file: &dyn ReadAt, cpu: Cpu) -> Option<Elf> {
        let header = file.read_at(0, 64)?;
        let is_ours =
            header.starts_with(b"\x7fELF\x02\x01") && u16_at(&header, 18)? == cpu.machine();
        let (at, size, n) = (u64_at(&header, 32)?, u16_at(&header, 54)?, u16_at(&header, 56)?);
        let n = usize::from(n);
        if !is_ours || size != 56 || n > SEGMENTS_MAX {
            return None;
        }
        let table = file.read_at(at, n * 56)?;
        let segments = table.chunks_exact(56).filter_map(segment).collect();
        let mut elf = Elf { segments, entry: u64_at(&header, 24)?, ..Elf::default() };
        let notes = elf.notes(file);
        elf.build_id = notes.iter().find_map(|n| build_id(n)).unwrap_or_default();
        elf.is_go = notes.iter().any(|n| n.get(12..16) == Some(b"Go\0\0"));
        elf.unwind = elf.read_unwind(file).or_else(|| read_unwind_section(file, &header));
        Some(elf)
    }

    /// The difference between addresses in memory and addresses in the file, for a mapping at `start` of the file's bytes from `offset` on.
    pub(crate) fn bias(&self, start: u64, offset: u64) -> Option<u64> {
        let covers = |s: &&Segment| {
            let first = s.offset & !(PAGE - 1);
            s.kind == PT_LOAD && first <= offset && offset < s.offset.saturating_add(s.file_bytes)
        };
        let loads = || self.segments.iter().filter(covers);
        let segment = loads().find(|s| s.flags & PF_X != 0).or_else(|| loads().next())?;
        let file_to_address = segment.address.wrapping_sub(segment.offset);
        Some(start.wrapping_sub(offset).wrapping_sub(file_to_address))
    }

    /// The bytes from an address on to the end of its segment, at most `limit`.
    fn part(&self, file: &dyn ReadAt, address: u64, limit: u64) -> Option<Part> {
        let mut loads = self.segments.iter().filter(|s| s.kind == PT_LOAD);
        let holds = |s: &&Segment| address.checked_sub(s.address).is_some_and(|o| o < s.file_bytes);
        let segment = loads.find(holds)?;
        let skipped = address - segment.address;
        let len = (segment.file_bytes - skipped).min(limit);
        let bytes = file.part(segment.offset.checked_add(skipped)?, usize::try_from(len).ok()?)?;
        Some(Part { address, bytes })
    }

    /// The part of `start..end` that lies in the executable segment which holds `start` or begins after it, and its bytes.
    pub(crate) fn code(&self, file: &dyn ReadAt, start: u64, end: u64, limit: u64) -> Option<Part> {
        let mut loads = self.segments.iter().filter(|s| s.kind == PT_LOAD);
        let segment = loads.find(|s| {
            s.flags & PF_X != 0 && s.address < end && start < s.address.saturating_add(s.file_bytes)
        })?;
        let start = start.max(segment.address);
        let end = end.min(segment.address.saturating_add(segment.file_bytes));
        let len = end.checked_sub(start)?;
        (len <= limit).then(|| self.part(file, start, len)).flatten()
    }

    fn read_unwind(&self, file: &dyn ReadAt) -> Option<Unwind> {
        let table = self.segments.iter().find(|s| s.kind == PT_GNU_EH_FRAME)?;
        if table.file_bytes > UNWIND_BYTES_MAX {
            return None;
        }
        let table = self.part(file, table.address, table.file_bytes)?;
        let bases = gimli::BaseAddresses::default().set_eh_frame_hdr(table.address);
        let parsed = gimli::EhFrameHdr::new(&table.bytes, gimli::LittleEndian).parse(&bases, 8);
        let start = parsed.ok()?.eh_frame_ptr().direct().ok()?;
        Some(Unwind { table: Some(table), frames: self.part(file, start, UNWIND_BYTES_MAX)? })
    }

    /// The bytes at an address: exactly `len` of them, in one segment.
    pub(crate) fn bytes_at(&self, file: &dyn ReadAt, address: u64, len: u64) -> Option<Bytes> {
        let part = self.part(file, address, len)?;
        (part.bytes.len() as u64 == len).then_some(part.bytes)
    }

    fn notes(&self, file: &dyn ReadAt) -> Vec<Vec<u8>> {
        let notes = self.segments.iter().filter(|s| s.kind == PT_NOTE);
        notes
            .filter(|s| s.file_bytes <= NOTE_BYTES_MAX)
            .filter_map(|s| file.read_at(s.offset, s.file_bytes as usize))
            .collect()
    }
}

/// The headers of all sections, 64 bytes each, and the number of the one that holds their names.
fn sections(file: &dyn ReadAt, header: &[u8]) -> Option<(Vec<u8>, u16)> {
    let (at, size) = (u64_at(header, 40)?, u16_at(header, 58)?);
    let (n, names_ix) = (usize::from(u16_at(header, 60)?), u16_at(header, 62)?);
    if size != 64 || n > SECTIONS_MAX {
        return None;
    }
    Some((file.read_at(at, n * 64)?, names_ix))
}

/// The addresses and sizes of symbols that the file exports; `None`: it does not export one of that name.
pub(crate) fn exported<const N: usize>(
    file: &dyn ReadAt,
    names: [&str; N],
) -> [Option<Range<u64>>; N] {
    let mut found = [const { None }; N];
    let tables = || {
        let header = file.read_at(0, 64)?;
        let (table, _) = sections(file, &header)?;
        let headers: Vec<&[u8]> = table.chunks_exact(64).collect();
        let is_it = |h: &&&[u8]| u32_at(h, 4) == Some(SHT_DYNSYM);
        let symbols = headers.iter().find(is_it)?;
        let strings = headers.get(u32_at(symbols, 40)? as usize)?;
        let read = |h: &[u8]| {
            let (offset, len) = (u64_at(h, 24)?, u64_at(h, 32)?);
            (len <= SYMBOLS_BYTES_MAX).then(|| file.part(offset, len as usize)).flatten()
        };
        Some((read(symbols)?, read(strings)?))
    };
    let Some((symbols, strings)) = tables() else {
        return found;
    };
    for symbol in symbols.chunks_exact(24) {
        let (Some(name), Some(section), Some(start), Some(len)) = (
            u32_at(symbol, 0).and_then(|at| strings.get(at as usize..)),
            u16_at(symbol, 6),
            u64_at(symbol, 8),
            u64_at(symbol, 16),
        ) else {
            continue;
        };
        let is_it = |wanted: &&str| {
            name.starts_with(wanted.as_bytes()) && name.get(wanted.len()) == Some(&0)
        };
        // Section 0: it is another file's.
        if section != 0
            && let Some(ix) = names.iter().position(is_it)
        {
            found[ix] = Some(start..start.saturating_add(len));
        }
    }
    found
}

/// The section `.eh_frame` of a file without a table of its functions.
fn read_unwind_section(file: &dyn ReadAt, header: &[u8]) -> Option<Unwind> {
    let (table, names_ix) = sections(file, header)?;
    // Fields of a section header: name, type, flags, address, offset, size.
    let headers: Vec<&[u8]> = table.chunks_exact(64).collect();
    let place = |header: &[u8]| Some((u64_at(header, 24)?, u64_at(header, 32)?));
    let (names_at, names_bytes) = place(headers.get(usize::from(names_ix))?)?;
    if names_bytes > NAMES_BYTES_MAX {
        return None;
    }
    let names = file.read_at(names_at, names_bytes as usize)?;
    let is_it = |header: &&&[u8]| {
        let name = u32_at(header, 0).and_then(|at| names.get(at as usize..));
        name.is_some_and(|name| name.starts_with(b".eh_frame\0"))
    };
    let header = headers.iter().find(is_it)?;
    let (offset, len) = place(header)?;
    if len > UNWIND_BYTES_MAX {
        return None;
    }
    Some(Unwind {
        table: None,
        frames: Part { address: u64_at(header, 16)?, bytes: file.part(offset, len as usize)? },
    })
}

fn segment(header: &[u8]) -> Option<Segment> {
    Some(Segment {
        kind: u32_at(header, 0)?,
        flags: u32_at(header, 4)?,
        offset: u64_at(header, 8)?,
        address: u64_at(header, 16)?,
        file_bytes: u64_at(header, 32)?,
    })
}

/// The build-id among notes: each is lengths of name and content, a type, the name, the content; padded to 4 bytes.
fn build_id(mut notes: &[u8]) -> Option<Vec<u8>> {
    loop {
        let (name, content) = (u32_at(notes, 0)? as usize, u32_at(notes, 4)? as usize);
        let kind = u32_at(notes, 8)?;
        let content_at = 12usize.checked_add(name.checked_next_multiple_of(4)?)?;
        let end = content_at.checked_add(content)?;
        if kind == NT_GNU_BUILD_ID && notes.get(12..12 + name)? == b"GNU\0" {
            let id = notes.get(content_at..end)?;
            return (id.len() <= BUILD_ID_MAX).then(|| id.to_vec());
        }
        notes = notes.get(end.checked_next_multiple_of(4)?..)?;
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}
