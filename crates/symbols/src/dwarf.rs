//! Functions, inlined calls, files and lines from DWARF, by `addr2line`.
use crate::elf::Facts;
use crate::scopes::{Scopes, has_scopes};
use gimli::{EndianSlice, RunTimeEndian};
use kasuri_format::call_paths::Call;
use object::{CompressionFormat, Object, ObjectSection};
use std::borrow::Cow;
use std::cell::RefCell;

/// Most bytes of one debug section, unpacked.
const SECTION_BYTES_MAX: u64 = 2 << 30;
/// Debug sections unpack to three to five times their size.
const USUAL_RATIO: u64 = 6;
/// Most calls of one address.
const CALLS_MAX: usize = 256;

type Reader<'d> = EndianSlice<'d, RunTimeEndian>;
type Sections<'d> = gimli::DwarfSections<Cow<'d, [u8]>>;

/// The debug sections of a file, unpacked. Threads share it, and each makes a [`Lines`] of its own.
pub(crate) struct Debug<'d> {
    sections: Sections<'d>,
    shared: Option<Sections<'d>>,
    endian: RunTimeEndian,
}

impl<'d> Debug<'d> {
    /// None: the file has no readable DWARF.
    pub fn read(bytes: &'d [u8], shared: Option<&'d [u8]>) -> Option<Debug<'d>> {
        if !Facts::of(bytes)?.has_lines {
            return None;
        }
        let file = object::File::parse(bytes).ok()?;
        let endian = match file.is_little_endian() {
            true => RunTimeEndian::Little,
            false => RunTimeEndian::Big,
        };
        let shared = shared.and_then(|b| object::File::parse(b).ok());
        Some(Debug {
            sections: sections(&file),
            shared: shared.map(|file| sections(&file)),
            endian,
        })
    }

    /// Reads the headers of all units: some ms for each 100 MB.
    pub fn lines(&self) -> Option<Lines<'_>> {
        let slice = |bytes| EndianSlice::new(bytes, self.endian);
        let mut dwarf = self.sections.borrow(|bytes: &Cow<'d, [u8]>| slice(&**bytes));
        if let Some(shared) = &self.shared {
            dwarf.set_sup(shared.borrow(|bytes: &Cow<'d, [u8]>| slice(&**bytes)));
        }
        let context = addr2line::Context::from_dwarf(dwarf).ok()?;
        Some(Lines { context, scopes: RefCell::new(None) })
    }
}

/// Answers for addresses.
pub(crate) struct Lines<'d> {
    context: addr2line::Context<Reader<'d>>,
    /// Of the unit that was asked for last.
    scopes: RefCell<Option<Scopes<Reader<'d>>>>,
}

impl Lines<'_> {
    /// What the source has at the address, innermost first. A call whose function is not known has an empty name.
    pub fn at(&self, address: u64) -> Vec<Call> {
        let mut calls = Vec::new();
        // Units in files of their own (`-gsplit-dwarf`) are not read: the main file has their lines.
        let Ok(mut frames) = self.context.find_frames(address).skip_all_loads() else {
            return calls;
        };
        while let Ok(Some(frame)) = frames.next() {
            let place = frame.location.as_ref();
            calls.push(Call {
                function: self.name(address, &frame),
                file: place.and_then(|p| p.file).unwrap_or_default().to_owned(),
                line: place.and_then(|p| p.line).unwrap_or(0),
            });
            if calls.len() == CALLS_MAX {
                break;
            }
        }
        calls
    }

    /// The name of a call's function; empty: it has none.
    fn name(&self, address: u64, frame: &addr2line::Frame<'_, Reader<'_>>) -> String {
        let Some(function) = &frame.function else {
            return String::new();
        };
        let name = function.raw_name().unwrap_or_default();
        if has_scopes(function.language, &name)
            && let Some(call) = frame.dw_die_offset
            && let Some(unit) = self.context.find_dwarf_and_unit(address).skip_all_loads()
        {
            return Scopes::around(&mut self.scopes.borrow_mut(), unit, call) + &name;
        }
        name.into_owned()
    }
}

/// The sections that lines and inlined calls are found with. Others, as the places of variables, are as large, and unpacking
/// them takes as long.
const SECTIONS: [gimli::SectionId; 10] = [
    gimli::SectionId::DebugAbbrev,
    gimli::SectionId::DebugAddr,
    gimli::SectionId::DebugAranges,
    gimli::SectionId::DebugInfo,
    gimli::SectionId::DebugLine,
    gimli::SectionId::DebugLineStr,
    gimli::SectionId::DebugRanges,
    gimli::SectionId::DebugRngLists,
    gimli::SectionId::DebugStr,
    gimli::SectionId::DebugStrOffsets,
];

fn sections<'d>(file: &object::File<'d>) -> Sections<'d> {
    let load = |id: gimli::SectionId| -> Result<Cow<'d, [u8]>, std::convert::Infallible> {
        let is_read = SECTIONS.contains(&id);
        let bytes = is_read.then(|| section(file, id.name())).flatten();
        Ok(bytes.unwrap_or_default())
    };
    match Sections::load(load) {
        Ok(sections) => sections,
        Err(never) => match never {},
    }
}

/// Bytes to which the compressed sections say that they unpack; no more are ever unpacked.
pub(crate) fn unpacked_bytes(bytes: &[u8]) -> u64 {
    let Ok(file) = object::File::parse(bytes) else {
        return 0;
    };
    let size = |id: &gimli::SectionId| {
        let Some(section) = file.section_by_name(id.name()) else {
            return Some(old_header(&file, id.name())?.0);
        };
        let data = section.compressed_data().ok()?;
        let is_packed = data.format != CompressionFormat::None;
        is_packed.then_some(data.uncompressed_size.min(SECTION_BYTES_MAX))
    };
    SECTIONS.iter().filter_map(size).sum()
}

fn section<'d>(file: &object::File<'d>, name: &str) -> Option<Cow<'d, [u8]>> {
    use std::io::Read;
    let Some(section) = file.section_by_name(name) else {
        return old_section(file, name);
    };
    let data = section.compressed_data().ok()?;
    let bytes = data.uncompressed_size.min(SECTION_BYTES_MAX);
    // The size is a claim of the file: beyond the usual, memory is taken as the contents come.
    let usual = bytes.min(data.data.len() as u64 * USUAL_RATIO);
    let mut unpacked = Vec::with_capacity(usual as usize);
    match data.format {
        CompressionFormat::None => return Some(Cow::Borrowed(data.data)),
        CompressionFormat::Zlib => {
            let reader = flate2::bufread::ZlibDecoder::new(data.data);
            reader.take(bytes).read_to_end(&mut unpacked).ok()?;
        }
        CompressionFormat::Zstandard => {
            let reader = zstd::stream::read::Decoder::new(data.data).ok()?;
            reader.take(bytes).read_to_end(&mut unpacked).ok()?;
        }
        _ => return None,
    }
    Some(Cow::Owned(unpacked))
}

/// A section as GNU tools compressed it before ELF had a way: `.zdebug_*`, with "ZLIB" and the size before the data.
fn old_section<'d>(file: &object::File<'d>, name: &str) -> Option<Cow<'d, [u8]>> {
    use std::io::Read;
    let (bytes, data) = old_header(file, name)?;
    let mut unpacked = Vec::new();
    let mut reader = flate2::read::ZlibDecoder::new(data).take(bytes);
    reader.read_to_end(&mut unpacked).ok()?;
    Some(Cow::Owned(unpacked))
}

/// The bytes to which such a section unpacks, and its data.
fn old_header<'d>(file: &object::File<'d>, name: &str) -> Option<(u64, &'d [u8])> {
    let name = format!(".z{}", name.strip_prefix('.')?);
    let data = file.section_by_name(&name)?.data().ok()?;
    let (size, data) = data.strip_prefix(b"ZLIB")?.split_first_chunk()?;
    Some((u64::from_be_bytes(*size).min(SECTION_BYTES_MAX), data))
}
