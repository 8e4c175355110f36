//! Names for the places in code that a probe left in its sites: `parallel main:12` for `parallel prog+0x11d0`.
//!
//! The OpenMP probe finds only the module and the offset in it (probes/common/site.c). A site of function `kasuri.place` is
//! named at packing, by the process without privileges that names call paths ([`crate::names`]), since lines come from
//! debug information. Without lines the name has the function; without symbols it stays as it is.
use crate::guard::safefs;
use crate::names::{Naming, Request, build_id};
use kasuri_format::call_paths::{Call, Frame, Module, ModuleKind, Tables};
use kasuri_format::meta::Meta;
use kasuri_format::ring::{Site, SiteTable};
use std::collections::HashMap;
use std::io::Read;
use std::path::Path;

/// `func` of a site that stands for a place.
const PLACE: &str = "kasuri.place";
/// Files that are looked at.
const FILES_MAX: usize = 4096;
/// Bytes of a file that have its program headers and its build-id.
const HEAD_BYTES: u64 = 64 << 10;
/// Program headers that are looked at.
const SEGMENTS_MAX: u64 = 64;

/// Names the places in all tables.
pub(crate) fn name_places(tables: &mut [SiteTable], meta: &Meta, pids: &[i32]) {
    let mut asked = Asked::default();
    let sites = tables.iter_mut().flat_map(|table| &mut table.sites);
    for site in sites.filter(|site| site.function == PLACE) {
        site.function.clear();
        if let Some((_, place)) = site.name.rsplit_once(' ')
            && let Some((_, digits)) = place.rsplit_once("+0x")
            && let Ok(offset) = u64::from_str_radix(digits, 16)
        {
            let path = site.file.clone();
            asked.add(&path, offset, site);
        }
    }
    if asked.sites.is_empty() {
        return;
    }
    let request = Request::of(asked.tables, meta, pids.iter().copied());
    let found = Naming::start(request).finish();
    for names in &found.names {
        let Some(call) = kasuri_symbols::place(&names.calls) else {
            continue;
        };
        for site in asked.sites.get_mut(&names.frame).into_iter().flatten() {
            apply(site, call);
        }
    }
}

/// Places to name, and the sites that wait for each.
#[derive(Default)]
struct Asked<'a> {
    tables: Tables,
    /// By path: the row of its module and its lowest address; none: it cannot be read.
    modules: HashMap<String, Option<(u32, u64)>>,
    frames: HashMap<Frame, u32>,
    sites: HashMap<u32, Vec<&'a mut Site>>,
}

impl<'a> Asked<'a> {
    fn add(&mut self, path: &str, offset: u64, site: &'a mut Site) {
        let Some((module, base)) = self.module(path) else {
            return;
        };
        // The address behind a call; names are those of the call.
        let address = base.wrapping_add(offset).wrapping_sub(1);
        let frame = Frame { module, address };
        let tables = &mut self.tables;
        let row = *self.frames.entry(frame).or_insert_with(|| {
            tables.frames.push(frame);
            (tables.frames.len() - 1) as u32
        });
        self.sites.entry(row).or_default().push(site);
    }

    fn module(&mut self, path: &str) -> Option<(u32, u64)> {
        if let Some(known) = self.modules.get(path) {
            return *known;
        }
        let facts = (self.modules.len() < FILES_MAX).then(|| facts(Path::new(path))).flatten();
        let known = facts.map(|(build_id, base)| {
            self.tables.modules.push(Module {
                kind: ModuleKind::Elf,
                path: path.to_owned(),
                build_id,
                pid: 0,
            });
            ((self.tables.modules.len() - 1) as u32, base)
        });
        self.modules.insert(path.to_owned(), known);
        known
    }
}

/// Build-id and lowest address of a file. The program chose its name: it may be a FIFO or a device, or written to lead us
/// astray. So only its first bytes are read, in which linkers put both.
fn facts(path: &Path) -> Option<(Vec<u8>, u64)> {
    let mut head = Vec::new();
    let file = safefs::open_regular(path).ok()?;
    file.take(HEAD_BYTES).read_to_end(&mut head).ok()?;
    let lowest = segments(&head).filter(|s| s.kind == PT_LOAD);
    let lowest = lowest.map(|s| s.address).min()?;
    let notes = segments(&head).filter(|s| s.kind == PT_NOTE);
    let build_id = notes.filter_map(|s| build_id(s.bytes(&head)?)).next();
    Some((build_id.unwrap_or_default(), lowest & !0xfff))
}

const PT_LOAD: u64 = 1;
const PT_NOTE: u64 = 4;

/// A row of an ELF file's program headers.
struct Segment {
    kind: u64,
    offset: usize,
    address: u64,
    size: usize,
}

impl Segment {
    fn bytes<'h>(&self, head: &'h [u8]) -> Option<&'h [u8]> {
        head.get(self.offset..self.offset.checked_add(self.size)?)
    }
}

/// The program headers of a 64-bit little-endian ELF file, from its first bytes.
fn segments(head: &[u8]) -> impl Iterator<Item = Segment> {
    let word = |at: usize, n: usize| -> Option<u64> {
        let bytes = head.get(at..at.checked_add(n)?)?;
        Some(bytes.iter().rev().fold(0, |v, &b| v << 8 | u64::from(b)))
    };
    let is_elf = head.starts_with(b"\x7fELF\x02\x01");
    let first = word(32, 8).unwrap_or(u64::MAX) as usize;
    let n = word(56, 2).filter(|_| is_elf).unwrap_or(0);
    (0..n.min(SEGMENTS_MAX) as usize).filter_map(move |ix| {
        let at = first.checked_add(ix * 56)?;
        Some(Segment {
            kind: word(at, 4)?,
            offset: word(at.checked_add(8)?, 8)? as usize,
            address: word(at.checked_add(16)?, 8)?,
            size: word(at.checked_add(32)?, 8)? as usize,
        })
    })
}

/// `parallel prog+0x11d0` and `main._omp_fn.0` in line 12 -> `parallel main:12`.
fn apply(site: &mut Site, call: &Call) {
    let Some((what, _)) = site.name.rsplit_once(' ') else {
        return;
    };
    let function = written(&call.function);
    let file = call.file.rsplit('/').next().unwrap_or_default();
    site.name = match call.line {
        0 => format!("{what} {function}"),
        line if function.starts_with('.') && !file.is_empty() => format!("{what} {file}:{line}"),
        line => format!("{what} {function}:{line}"),
    };
    site.function = function.to_owned();
    site.line = call.line;
    if !call.file.is_empty() {
        site.file.clone_from(&call.file);
    }
}

/// The function in the source that the compiler made this one from: gcc's `main._omp_fn.0`, clang's `.omp_outlined.` and
/// `main.omp_outlined`.
fn written(function: &str) -> &str {
    ["._omp_fn.", "._omp_cpyfn.", ".omp_outlined"]
        .iter()
        .filter_map(|mark| function.find(mark))
        .filter(|at| *at > 0)
        .min()
        .map_or(function, |at| &function[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(name: &str, file: &str, function: &str) -> Site {
        Site {
            id: 1,
            name: name.to_owned(),
            file: file.to_owned(),
            function: function.to_owned(),
            line: 0,
        }
    }

    #[test]
    fn a_place_has_the_function_that_was_written_and_its_line() {
        let mut it = site("for dynamic prog+0x11d0", "/x/prog", "");
        let call = |function: &str, line| Call {
            function: function.to_owned(),
            file: "prog.c".to_owned(),
            line,
        };
        apply(&mut it, &call("main._omp_fn.0", 12));
        assert_eq!(
            (&*it.name, &*it.function, &*it.file, it.line),
            ("for dynamic main:12", "main", "prog.c", 12)
        );
        apply(&mut it, &call("sub_.constprop.0._omp_fn.3", 0));
        assert_eq!(it.name, "for dynamic sub_.constprop.0");
        let mut it = site("for dynamic prog+0x11d0", "/x/prog", "");
        apply(&mut it, &call(".omp_outlined._debug__.4", 7));
        assert_eq!(it.name, "for dynamic prog.c:7", "clang says of no other function");
        assert_eq!(written("main.omp_outlined_debug__"), "main");
    }

    #[test]
    fn this_programs_facts_are_those_of_a_reader_of_all_of_it() {
        let path = std::env::current_exe().unwrap();
        let (build_id, lowest) = facts(&path).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(build_id, kasuri_symbols::build_id(&bytes));
        assert_eq!(lowest, 0);
        for cut in [0, 10, 63, 64, 100, 500] {
            assert!(segments(&bytes[..cut]).count() < 64);
        }
        let mut wild = vec![0xff; 4096];
        wild[..6].copy_from_slice(b"\x7fELF\x02\x01");
        assert_eq!(segments(&wild).count(), 0);
        wild[32..40].copy_from_slice(&64u64.to_le_bytes());
        let wild: Vec<Segment> = segments(&wild).collect();
        assert!(wild.iter().all(|s| s.bytes(&[0; 4096]).is_none()));
    }

    #[test]
    fn places_that_cannot_be_named_stay_and_others_are_not_touched() {
        let mut tables = [SiteTable {
            sites: vec![
                site("parallel gone+0x10", "/nonexistent/gone", PLACE),
                site("parallel 0x1234", "", PLACE),
                site("parallel null+0x10", "/dev/null", PLACE),
                site("mine", "main.c", "main"),
            ],
            ..SiteTable::default()
        }];
        name_places(&mut tables, &Meta::default(), &[]);
        let names: Vec<&str> = tables[0].sites.iter().map(|s| &*s.name).collect();
        assert_eq!(names, ["parallel gone+0x10", "parallel 0x1234", "parallel null+0x10", "mine"]);
        let functions: Vec<&str> = tables[0].sites.iter().map(|s| &*s.function).collect();
        assert_eq!(functions, ["", "", "", "main"]);
    }
}
