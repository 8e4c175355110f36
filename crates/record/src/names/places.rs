//! Places in files, as other tools' recordings have them, to addresses, as symbol tables have them.
use crate::guard::safefs;
use kasuri_format::call_paths::{ModuleKind, Tables};
use std::io::Read;
use std::path::Path;

/// Bytes of a file that have its program headers.
const HEAD_BYTES: u64 = 64 << 10;
/// Files that are looked at.
const FILES_MAX: usize = 4096;

/// Replaces the offsets in ELF files by those files' own addresses, where the files are here. Whether a file is the one that ran is
/// decided by its build-id when it names code.
pub fn offsets_to_addresses(tables: &mut Tables) {
    let files = tables.modules.iter().enumerate();
    let files = files.filter(|(_, module)| module.kind == ModuleKind::Elf);
    let loaded: std::collections::HashMap<u32, Vec<(u64, u64, u64)>> = files
        .take(FILES_MAX)
        .filter_map(|(row, module)| Some((row as u32, loaded(Path::new(&module.path))?)))
        .collect();
    for frame in &mut tables.frames {
        let pieces = loaded.get(&frame.module).map_or(&[][..], Vec::as_slice);
        let holds = |&&(offset, len, _): &&(u64, u64, u64)| {
            frame
                .address
                .checked_sub(offset)
                .is_some_and(|into| into < len)
        };
        if let Some((offset, _, address)) = pieces.iter().find(holds) {
            frame.address = (frame.address - offset).wrapping_add(*address);
        }
    }
}

fn loaded(path: &Path) -> Option<Vec<(u64, u64, u64)>> {
    let mut head = Vec::new();
    let file = safefs::open_regular(path).ok()?;
    file.take(HEAD_BYTES).read_to_end(&mut head).ok()?;
    Some(kasuri_symbols::loaded(&head))
}
