//! ELF files: build-ids, links to debug files, and the function that a symbol table has for an address.
use crate::stubs::stubs;
use object::elf;
use object::read::elf::{ElfFile, FileHeader, ProgramHeader};
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, SectionKind, SymbolKind};
use std::ops::Range;

/// Sections of code of one file that count; programs have some five.
const CODE_RANGES_MAX: usize = 64;

/// Facts about a file of code that decide whether, and with what, it can name addresses.
pub(crate) struct Facts<'a> {
    /// GNU build-id; empty: none.
    pub build_id: Vec<u8>,
    /// Whether the build-id is loaded into memory, where a recorder sees it. Go's linker writes one for tools only.
    pub id_is_loaded: bool,
    /// Name and CRC-32 of the separate debug file.
    pub debug_link: Option<(&'a [u8], u32)>,
    /// Path and build-id of the file that holds what several debug files have in common.
    pub shared_link: Option<(&'a [u8], &'a [u8])>,
    /// Whether it has DWARF of its own.
    pub has_lines: bool,
}

impl<'a> Facts<'a> {
    /// None: it is no ELF file.
    pub fn of(bytes: &'a [u8]) -> Option<Facts<'a>> {
        let file = object::File::parse(bytes).ok()?;
        let has = |name: &str| {
            let section = file.section_by_name(name);
            section.is_some_and(|s| s.size() > 0 && s.file_range().is_some_and(|(_, n)| n > 0))
        };
        Some(Facts {
            build_id: file.build_id().ok().flatten().unwrap_or(&[]).to_vec(),
            id_is_loaded: match &file {
                object::File::Elf32(f) => has_loaded_id(f),
                object::File::Elf64(f) => has_loaded_id(f),
                _ => false,
            },
            debug_link: file.gnu_debuglink().ok().flatten(),
            shared_link: file.gnu_debugaltlink().ok().flatten(),
            has_lines: has(".debug_info") || has(".zdebug_info"),
        })
    }
}

fn has_loaded_id<H: FileHeader>(file: &ElfFile<'_, H>) -> bool {
    let (endian, data) = (file.endian(), file.data());
    let segments = file.elf_program_headers().iter();
    let notes = segments.filter_map(|segment| segment.notes(endian, data).ok().flatten());
    notes
        .flat_map(|mut notes| std::iter::from_fn(move || notes.next().ok().flatten()))
        .any(|n| n.name() == elf::ELF_NOTE_GNU && n.n_type(endian) == elf::NT_GNU_BUILD_ID)
}

/// The GNU build-id of an ELF file; empty: it has none, or is no ELF file.
pub fn build_id(bytes: &[u8]) -> Vec<u8> {
    Facts::of(bytes).map_or_else(Vec::new, |f| f.build_id)
}

/// A place in a file, and that place in memory as the file numbers it: of each loaded piece of an ELF file.
pub(crate) struct Loaded(Vec<(Range<u64>, u64)>);

impl Loaded {
    pub fn of(bytes: &[u8]) -> Loaded {
        let pieces = |file: &object::File<'_>| {
            let pieces = file.segments().map(|piece| {
                let (offset, len) = piece.file_range();
                (offset..offset.saturating_add(len), piece.address())
            });
            pieces.collect()
        };
        Loaded(object::File::parse(bytes).as_ref().map_or_else(|_| Vec::new(), pieces))
    }

    /// None: no piece has the byte at this place.
    pub fn address(&self, offset: u64) -> Option<u64> {
        let (place, address) = self.0.iter().find(|(place, _)| place.contains(&offset))?;
        Some((offset - place.start).wrapping_add(*address))
    }
}

/// What is asked of symbol tables: one name for each of the sorted addresses.
pub(crate) struct Lookup<'a, 'd> {
    addresses: &'a [(u64, u32)],
    /// The innermost symbol whose extent has the address.
    covering: Vec<Option<Symbol<'d>>>,
    /// The last symbol without an extent (assembly) at or before the address, if it is after the address before.
    open: Vec<Option<Symbol<'d>>>,
    /// The last start of any symbol at or before the address, if it is after the address before.
    last_start: Vec<u64>,
    /// Where the file has code.
    code: Vec<Range<u64>>,
}

/// What symbol tables say about an address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// The file has no code there.
    Outside,
    /// In code; the function, if one is named.
    Code(Option<String>),
}

#[derive(Clone, Copy)]
struct Symbol<'d> {
    start: u64,
    is_global: bool,
    name: &'d str,
    /// It is only jumped to from there: objdump's `name@plt`.
    is_stub: bool,
}

impl Place {
    pub fn function(&self) -> Option<&str> {
        match self {
            Place::Code(Some(name)) => Some(name),
            _ => None,
        }
    }
}

impl<'a, 'd> Lookup<'a, 'd> {
    pub fn new(addresses: &'a [(u64, u32)]) -> Lookup<'a, 'd> {
        Lookup {
            addresses,
            covering: vec![None; addresses.len()],
            open: vec![None; addresses.len()],
            last_start: vec![0; addresses.len()],
            code: Vec::new(),
        }
    }

    /// Looks at all symbols of a file. One pass without sorting them: there are far more symbols than addresses. `stop` ends it.
    pub fn read(&mut self, bytes: &'d [u8], stop: &dyn Fn() -> bool) {
        let Ok(file) = object::File::parse(bytes) else {
            return;
        };
        self.code.extend(code_of(&file));
        for (n, symbol) in file.symbols().chain(file.dynamic_symbols()).enumerate() {
            if n % 1024 == 1023 && stop() {
                return;
            }
            let (start, size) = (symbol.address(), symbol.size());
            // Most symbols end here, before their names are read.
            if !self.wants(start, size) || !is_code(&file, &symbol) {
                continue;
            }
            let Ok(name) = symbol.name() else { continue };
            // `$x` and the like mark what follows, on ARM and RISC-V.
            if name.is_empty() || name.starts_with('$') {
                continue;
            }
            let is_global = symbol.is_global();
            self.add(Symbol { start, is_global, name, is_stub: false }, size);
        }
        for (range, name) in stubs(&file, self.addresses.iter().map(|(a, _)| *a)) {
            let stub = Symbol { start: range.start, is_global: false, name, is_stub: true };
            self.add(stub, range.end - range.start);
        }
    }

    /// Whether a symbol with this extent may change what is known.
    fn wants(&self, start: u64, size: u64) -> bool {
        let from = self.addresses.partition_point(|(a, _)| *a < start);
        let Some(&(address, _)) = self.addresses.get(from) else {
            return false;
        };
        size == 0 || address < start.saturating_add(size) || start > self.last_start[from]
    }

    fn add(&mut self, symbol: Symbol<'d>, size: u64) {
        let from = self.addresses.partition_point(|(a, _)| *a < symbol.start);
        let Some(last_start) = self.last_start.get_mut(from) else {
            return;
        };
        *last_start = symbol.start.max(*last_start);
        let better = |old: &Option<Symbol<'d>>| old.is_none_or(|old| symbol.is_better_than(&old));
        if size == 0 {
            if better(&self.open[from]) {
                self.open[from] = Some(symbol);
            }
            return;
        }
        let end = symbol.start.saturating_add(size);
        for (at, (address, _)) in self.addresses.iter().enumerate().skip(from) {
            if *address >= end {
                break;
            }
            if better(&self.covering[at]) {
                self.covering[at] = Some(symbol);
            }
        }
    }

    /// What is known, in the order of the addresses.
    pub fn places(self) -> Vec<Place> {
        let mut open: Option<Symbol<'d>> = None;
        let mut last_start = 0;
        let mut places = Vec::with_capacity(self.addresses.len());
        for (at, (address, _)) in self.addresses.iter().enumerate() {
            last_start = self.last_start[at].max(last_start);
            open = self.open[at].or(open);
            let Some(code) = self.code.iter().find(|r| r.contains(address)) else {
                places.push(Place::Outside);
                continue;
            };
            // Another symbol that begins between the two ends the code of one without an extent, and so does its section.
            let open = open.filter(|s| s.start == last_start && code.contains(&s.start));
            let found = self.covering[at].or(open);
            let name = |s: Symbol<'_>| s.name.to_owned() + if s.is_stub { "@plt" } else { "" };
            places.push(Place::Code(found.map(name)));
        }
        places
    }
}

fn is_code<'d>(file: &object::File<'d>, symbol: &object::Symbol<'d, '_>) -> bool {
    let is_code = match symbol.kind() {
        SymbolKind::Text => true,
        // A label in assembly has no type.
        SymbolKind::Unknown => (symbol.section_index())
            .and_then(|ix| file.section_by_index(ix).ok())
            .is_some_and(|s| s.kind() == SectionKind::Text),
        _ => false,
    };
    is_code && !symbol.is_undefined()
}

/// Sections of code; segments, of a file that has no sections.
fn code_of(file: &object::File<'_>) -> Vec<Range<u64>> {
    const PF_X: u32 = 1;
    let range = |start: u64, size: u64| start..start.saturating_add(size);
    let sections = file.sections().filter(|s| s.kind() == SectionKind::Text);
    let mut ranges: Vec<_> = sections.map(|s| range(s.address(), s.size())).collect();
    if ranges.is_empty() {
        let is_code = |flags| matches!(flags, object::SegmentFlags::Elf { p_flags, .. } if p_flags.0 & PF_X != 0);
        let segments = file.segments().filter(|s| is_code(s.flags()));
        ranges = segments.map(|s| range(s.address(), s.size())).collect();
    }
    ranges.truncate(CODE_RANGES_MAX);
    ranges
}

impl Symbol<'_> {
    /// The inner of two nested symbols; of several names of one place (glibc) the one that programmers use.
    fn is_better_than(&self, old: &Symbol<'_>) -> bool {
        let key = |s: &Symbol<'_>| {
            let underscores = s.name.bytes().take_while(|b| *b == b'_').count();
            // A mangled name begins with one, or on some systems two.
            let underscores =
                if s.name.starts_with("_Z") || s.name.starts_with("_R") { 0 } else { underscores };
            (std::cmp::Reverse(s.start), !s.is_global, underscores, s.name.len())
        };
        (key(self), self.name) < (key(old), old.name)
    }
}
