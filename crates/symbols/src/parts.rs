//! The parts of an ELF file that say what it loads: segments, sections, notes, libraries. Read piece by piece.
//!
//! For files of strangers that a privileged process looks into: each piece is copied before it is looked at, so a file that
//! changes meanwhile gives nonsense at worst, and no piece is larger than [`MOST_BYTES`], whatever the file says.
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Bytes of one piece.
const MOST_BYTES: u64 = 8 << 20;
/// Headers of segments or sections that are read.
const MOST_HEADERS: u64 = 1 << 14;

/// Something that can be read at any place.
pub trait ReadAt {
    /// Fills `out` from `at` on; none: it is shorter, or cannot be read.
    fn read_at(&self, at: u64, out: &mut [u8]) -> Option<()>;
    /// Its size.
    fn bytes(&self) -> u64;
}

impl ReadAt for &[u8] {
    fn read_at(&self, at: u64, out: &mut [u8]) -> Option<()> {
        let at = usize::try_from(at).ok()?;
        let end = at.checked_add(out.len())?;
        out.copy_from_slice(self.get(at..end)?);
        Some(())
    }

    fn bytes(&self) -> u64 {
        self.len() as u64
    }
}

impl ReadAt for File {
    fn read_at(&self, at: u64, out: &mut [u8]) -> Option<()> {
        self.read_exact_at(out, at).ok()
    }

    fn bytes(&self) -> u64 {
        self.metadata().map_or(0, |m| m.len())
    }
}

/// A part of the file that is loaded, or that a program header names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    /// PT_LOAD, PT_DYNAMIC, PT_INTERP...
    pub kind: u64,
    /// PF_X, PF_W, PF_R.
    pub flags: u64,
    /// Where it is in the file.
    pub offset: u64,
    /// Where it is in memory, as the file numbers it.
    pub address: u64,
    /// Bytes in the file.
    pub bytes: u64,
}

/// A section.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    /// Its name.
    pub name: Vec<u8>,
    /// Where it is in memory.
    pub address: u64,
    /// Where it is in the file.
    pub offset: u64,
    /// Bytes in the file.
    pub bytes: u64,
}

/// PT_LOAD.
pub(crate) const LOAD: u64 = 1;
/// PT_DYNAMIC.
const DYNAMIC: u64 = 2;
/// PT_INTERP.
const INTERP: u64 = 3;
/// PF_X.
pub(crate) const EXECUTABLE: u64 = 1;
/// PF_W.
pub(crate) const WRITABLE: u64 = 2;
/// SHT_NOBITS.
const NO_BITS: u64 = 8;

/// An ELF file.
pub(crate) struct Elf<'f> {
    file: &'f dyn ReadAt,
    is_little: bool,
    /// Bytes of an address: 4 or 8.
    pub word: usize,
    /// e_machine.
    pub machine: u64,
    /// Its program headers.
    pub segments: Vec<Segment>,
    sections: (u64, u64, u64, u64),
}

impl<'f> Elf<'f> {
    /// None: it is none, or its headers are damaged.
    pub fn of(file: &'f dyn ReadAt) -> Option<Elf<'f>> {
        let mut head = [0; 64];
        // The shortest has 52 bytes.
        let n = file.bytes().min(64) as usize;
        file.read_at(0, &mut head[..n])?;
        if head[..4] != *b"\x7fELF" {
            return None;
        }
        let word = match head[4] {
            1 => 4,
            2 => 8,
            _ => return None,
        };
        let is_little = head[5] == 1;
        let mut elf =
            Elf { file, is_little, word, machine: 0, segments: Vec::new(), sections: (0, 0, 0, 0) };
        let fields = &head[24 + word..];
        let number = |at: usize, n: usize| elf.number(fields.get(at..at + n).unwrap_or(&[]));
        // e_phoff, e_shoff, e_flags, e_ehsize, then the sizes and numbers of headers.
        let (segments_at, sections_at) = (number(0, word), number(word, word));
        let small = |ix: usize| number(2 * word + 6 + 2 * ix, 2);
        let (segment_bytes, n_segments) = (small(0), small(1));
        elf.sections = (sections_at, small(2), small(3), small(4));
        elf.machine = elf.number(&head[18..20]);
        elf.segments = elf.read_segments(segments_at, segment_bytes, n_segments)?;
        Some(elf)
    }

    /// A number of the file's byte order.
    pub fn number(&self, bytes: &[u8]) -> u64 {
        let add = |n: u64, &b: &u8| n << 8 | u64::from(b);
        match self.is_little {
            true => bytes.iter().rev().fold(0, add),
            false => bytes.iter().fold(0, add),
        }
    }

    /// A piece of the file; none: it is not there, or too large.
    pub fn piece(&self, offset: u64, bytes: u64) -> Option<Vec<u8>> {
        if bytes > MOST_BYTES || offset.checked_add(bytes)? > self.file.bytes() {
            return None;
        }
        let mut out = vec![0; bytes as usize];
        self.file.read_at(offset, &mut out)?;
        Some(out)
    }

    fn headers(&self, offset: u64, each: u64, n: u64) -> Option<Vec<u8>> {
        let fits = n <= MOST_HEADERS && each >= 4;
        fits.then(|| self.piece(offset, n * each))?
    }

    fn read_segments(&self, offset: u64, each: u64, n: u64) -> Option<Vec<Segment>> {
        let least = if self.word == 8 { 56 } else { 32 };
        if n == 0 {
            return Some(Vec::new());
        }
        if each < least {
            return None;
        }
        let bytes = self.headers(offset, each, n)?;
        let one = |header: &[u8]| {
            let at = |at: usize, n: usize| self.number(&header[at..at + n]);
            match self.word {
                8 => Segment {
                    kind: at(0, 4),
                    flags: at(4, 4),
                    offset: at(8, 8),
                    address: at(16, 8),
                    bytes: at(32, 8),
                },
                _ => Segment {
                    kind: at(0, 4),
                    offset: at(4, 4),
                    address: at(8, 4),
                    bytes: at(16, 4),
                    flags: at(24, 4),
                },
            }
        };
        Some(bytes.chunks_exact(each as usize).map(one).collect())
    }

    /// Its sections; those without bytes in the file have none.
    pub fn sections(&self) -> Vec<Section> {
        self.read_sections().unwrap_or_default()
    }

    fn read_sections(&self) -> Option<Vec<Section>> {
        let (offset, each, n, names) = self.sections;
        if each < if self.word == 8 { 64 } else { 40 } {
            return None;
        }
        let bytes = self.headers(offset, each, n)?;
        let w = self.word;
        // sh_name, sh_type, then sh_flags, sh_addr, sh_offset, sh_size.
        let fields = |header: &[u8]| {
            let long = |ix: usize| self.number(&header[8 + ix * w..8 + (ix + 1) * w]);
            let short = |at: usize| self.number(&header[at..at + 4]);
            (short(0), short(4), long(1), long(2), long(3))
        };
        let all: Vec<_> = bytes.chunks_exact(each as usize).map(fields).collect();
        let &(_, _, _, at, size) = all.get(usize::try_from(names).ok()?)?;
        let names = self.piece(at, size)?;
        let section = |&(name, kind, address, offset, bytes): &(u64, u64, u64, u64, u64)| {
            let name = names.get(name as usize..).unwrap_or_default();
            // Longer names are none that anybody asks for.
            let name = name[..name.len().min(64)].split(|&b| b == 0).next();
            Section {
                name: name.unwrap_or_default().to_vec(),
                address,
                offset,
                bytes: if kind == NO_BITS { 0 } else { bytes },
            }
        };
        Some(all.iter().map(section).collect())
    }

    /// The place in the file of `n` bytes at an address, in a loaded segment with this flag.
    pub fn place(&self, address: u64, n: u64, flag: u64) -> Option<u64> {
        let segment = self.segments.iter().find(|s| {
            let inside = address.checked_sub(s.address);
            let is_loaded = s.kind == LOAD && s.flags & flag == flag;
            is_loaded && inside.is_some_and(|at| n <= s.bytes && at <= s.bytes - n)
        })?;
        let offset = (address - segment.address).checked_add(segment.offset)?;
        (offset < self.file.bytes()).then_some(offset)
    }
}

/// What the loader brings into a program with this file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Links {
    /// The loader (PT_INTERP).
    pub loader: Option<String>,
    /// The libraries (DT_NEEDED).
    pub needed: Vec<String>,
    /// Directories to look in (DT_RPATH, DT_RUNPATH), as the file has them.
    pub directories: Vec<String>,
}

/// Libraries of one file.
const MOST_NEEDED: usize = 1024;

/// The loader and libraries that an ELF file names; none: it is no ELF file. Any bytes may be given.
pub fn links(file: &dyn ReadAt) -> Option<Links> {
    let elf = Elf::of(file)?;
    let mut out = Links::default();
    let of_kind = |kind| elf.segments.iter().find(|s| s.kind == kind);
    if let Some(bytes) = of_kind(INTERP).and_then(|s| elf.piece(s.offset, s.bytes.min(4096))) {
        out.loader = text_at(&bytes, 0);
    }
    let Some(dynamic) = of_kind(DYNAMIC).and_then(|s| elf.piece(s.offset, s.bytes)) else {
        return Some(out);
    };
    let entries: Vec<(u64, u64)> = dynamic
        .chunks_exact(2 * elf.word)
        .map(|e| (elf.number(&e[..elf.word]), elf.number(&e[elf.word..])))
        .take_while(|&(tag, _)| tag != 0)
        .collect();
    // DT_STRTAB and DT_STRSZ.
    let of_tag = |tag| entries.iter().find(|e| e.0 == tag).map(|e| e.1);
    let strings = match (of_tag(5), of_tag(10)) {
        (Some(at), Some(n)) => elf.place(at, n, 0).and_then(|offset| elf.piece(offset, n)),
        _ => None,
    };
    let strings = strings.unwrap_or_default();
    for (tag, at) in entries {
        let text = || text_at(&strings, at);
        match tag {
            1 if out.needed.len() < MOST_NEEDED => out.needed.extend(text()),
            15 | 29 => {
                let text = text().unwrap_or_default();
                let directories = text.split(':').filter(|d| !d.is_empty());
                out.directories.extend(directories.map(str::to_owned));
            }
            _ => {}
        }
    }
    Some(out)
}

fn text_at(bytes: &[u8], at: u64) -> Option<String> {
    let rest = bytes.get(usize::try_from(at).ok()?..)?;
    let text = &rest[..rest.iter().position(|&b| b == 0)?];
    let fits = (1..4096).contains(&text.len());
    fits.then(|| String::from_utf8_lossy(text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_test_names_its_loader_and_libraries() {
        let file = File::open(std::env::current_exe().unwrap()).unwrap();
        let links = links(&file).unwrap();
        assert!(links.needed.iter().any(|n| n.starts_with("libc.")));
        assert!(links.loader.unwrap().contains("ld"));
        let mut sections = Elf::of(&file).unwrap().sections().into_iter();
        assert!(sections.any(|s| s.name == b".text" && s.bytes > 0));
    }

    #[test]
    fn what_is_no_elf_file_is_none() {
        for odd in [&b""[..], b"\x7fELF", b"#!/bin/sh\n", &[0x7f; 100]] {
            assert!(Elf::of(&odd).is_none_or(|elf| elf.sections().is_empty()));
        }
    }
}
