//! Which kernel this is, to tell whether another tool's recording is of the same one.
use crate::guard::safefs;
use std::io::Read;
use std::path::Path;

/// Bytes of the list of the kernel's symbols in which its first is.
const KALLSYMS_BYTES: u64 = 1 << 20;
/// Bytes of the kernel's notes.
const NOTES_BYTES: u64 = 64 << 10;
const BUILD_ID: u32 = 3;

/// Where the kernel's code begins in memory since this machine was started; none: hidden.
pub fn kernel_start() -> Option<u64> {
    let list = safefs::open_regular(Path::new("/proc/kallsyms")).ok()?;
    let mut text = String::new();
    // Symbols are sorted by address but for those of CPUs, which come first.
    list.take(KALLSYMS_BYTES).read_to_string(&mut text).ok()?;
    let row = text.lines().find(|row| row.ends_with(" T _text"))?;
    let address = u64::from_str_radix(row.split(' ').next()?, 16).ok()?;
    (address != 0).then_some(address)
}

/// The build-id of the kernel that runs; empty: not known.
pub fn kernel_build_id() -> Vec<u8> {
    let mut notes = Vec::new();
    let file = safefs::open_regular(Path::new("/sys/kernel/notes"));
    let read = file.and_then(|file| file.take(NOTES_BYTES).read_to_end(&mut notes));
    read.ok().and_then(|_| build_id(&notes)).unwrap_or_default()
}

/// The build-id among ELF notes. Each is: u32 length of the name, of the content, kind; name and content, each up to a multiple of 4.
pub(crate) fn build_id(mut notes: &[u8]) -> Option<Vec<u8>> {
    let whole = |n: usize| Some(n.checked_add(3)? & !3);
    loop {
        let (head, rest) = notes.split_at_checked(12)?;
        let word =
            |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (name_len, len) = (word(0) as usize, word(4) as usize);
        let (name, rest) = rest.split_at_checked(whole(name_len)?)?;
        let content = rest.get(..len)?;
        if word(8) == BUILD_ID && name.starts_with(b"GNU\0") {
            return Some(content.to_vec());
        }
        notes = rest.get(whole(len)?..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_build_id_is_found_among_other_notes() {
        let note = |kind: u32, name: &[u8; 4], content: &[u8]| {
            let mut out = [4u32, content.len() as u32, kind].map(u32::to_le_bytes).concat();
            out.extend(name);
            out.extend(content);
            out.resize(out.len().next_multiple_of(4), 0);
            out
        };
        let notes = [note(6, b"Lin\0", b"abcde"), note(3, b"GNU\0", &[7; 20])].concat();
        assert_eq!(build_id(&notes), Some(vec![7; 20]));
        for cut in 0..notes.len() {
            assert_eq!(build_id(&notes[..cut]), None);
        }
        assert_eq!(build_id(&[0xff; 64]), None);
    }
}
