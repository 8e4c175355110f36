//! The small symbol table that some distributions leave in stripped files (`.gnu_debugdata`): an ELF file, compressed by xz, with the functions that the
//! dynamic symbol table lacks.
//!
//! Read with `lzma-rust2`: it is safe Rust without its feature `optimization`, has a limit for the memory that a block may ask for, and is kept up
//! to date (the crate `zip` uses it). `lzma-rs` has had no release since 2023; `liblzma` is C, and this reads files that strangers wrote.
use lzma_rust2::XzReader;
use object::{Object, ObjectSection};
use std::io::Read;

/// Most bytes of a table. Those of large programs are 1 to 10 MB.
const BYTES_MAX: usize = 64 << 20;
/// Most memory for the decoder, KiB; `xz -9` needs 65 MiB.
const MEMORY_MAX_KIB: u32 = 80 << 10;
/// Bytes between two looks at the time.
const PIECE: u64 = 1 << 20;

/// The table of a file, unless it is damaged or too large, or `stop` says that the time is over.
pub(crate) fn table(file: &[u8], stop: &dyn Fn() -> bool) -> Option<Vec<u8>> {
    let file = object::File::parse(file).ok()?;
    let section = file.section_by_name(".gnu_debugdata")?;
    let mut reader = XzReader::new_mem_limit(section.data().ok()?, false, MEMORY_MAX_KIB);
    let mut bytes = Vec::new();
    while !stop() {
        let n = reader.by_ref().take(PIECE).read_to_end(&mut bytes).ok()?;
        if bytes.len() > BYTES_MAX {
            return None;
        }
        if n == 0 {
            return Some(bytes);
        }
    }
    None
}
