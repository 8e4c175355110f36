//! Switching on the annotations of a program that runs already.
//!
//! kasuri.h puts a gate of 16 bytes into section `.kasuri.gate` of each object file. The recorder leaves the
//! session's name where the program looks for it, then writes "a recorder asks to be attached to" into
//! each gate; the program does the rest at its next annotation, in its own thread. Nothing is injected
//! and no thread is stopped.
//!
//! The addresses of the gates are read from the object files. A file that was replaced while its program runs (an
//! upgrade) has lost its name; its gates are then found by their magic number, in the writable memory that the file
//! is mapped to. That needs no more rights than writing the gates does: /proc/PID/map_files, the other way to such a
//! file, is for root alone.
//!
//! The program may be hostile, and controls its files, addresses and memory. [`MAX_GATES`] and [`MAX_SEARCHED`] bound the cost of
//! what it claims, and only its own memory is written. Its pages and files may also never come: whatever touches them is done by a process of its
//! own, which is given up after [`LIMIT`].
use crate::error::{Error, Result};
use crate::guard::apart;
use crate::guard::bounds::{MAX_GATES, MAX_SEARCHED};
use crate::guard::held;
use crate::guard::safefs::{self, Held};
use crate::guard::sigbus::Guarded;
use crate::program::locks::find_program;
use crate::program::{namespaces, procs};
use crate::rings::session;
use object::{Object, ObjectSection, ObjectSegment};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

const GATE_SECTION: &str = ".kasuri.gate";
const GATE_BYTES: usize = 16;
const GATE_MAGIC: u64 = u64::from_le_bytes(*b"KSGATE01");
const GATE_OFF: u32 = 0;
const GATE_ON: u32 = 1;
const GATE_ASKED: u32 = 2;

/// Longest time in which a process's gates are found, written or closed.
const LIMIT: Duration = Duration::from_millis(400);

/// The mark in /proc/PID/maps of a file that has lost its name.
const DELETED: &str = " (deleted)";

/// Gates that were asked to open; closed again when dropped.
#[derive(Debug)]
pub struct Attachment {
    pid: i32,
    gates: Vec<u64>,
    /// The directory of the link that names the session; `None`: no gate was found.
    place: Option<Held>,
    link: String,
    session: PathBuf,
}

/// A mapping of a file in the process.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mapped {
    range: Range<u64>,
    /// Of the mapping's first byte in the file.
    offset: u64,
    /// Its own pages, which it may write.
    is_data: bool,
}

impl Attachment {
    /// Asks all annotated object files of `pid` to attach to `session`. No gates at all: the program is not annotated.
    ///
    /// # Errors
    /// When the process may not be written to.
    pub fn attach(pid: i32, session: &Path) -> Result<Attachment> {
        let mut attachment = Attachment {
            pid,
            gates: find_apart(pid)?,
            place: None,
            link: link_name(pid),
            session: session.to_owned(),
        };
        if attachment.gates.is_empty() {
            return Ok(attachment);
        }
        let place = Path::new("/dev/shm");
        let place = Held::open(place).map_err(|e| Error::file("open", place, e))?;
        claim(&place, &attachment.link, pid, session)?;
        if let Some((uid, gid)) = procs::owner(pid) {
            // The program follows the link only when its owner is the program's user or root.
            let _ = place.give_link(&attachment.link, uid, gid);
        }
        attachment.place = Some(place);
        let gates = &attachment.gates;
        let asked = || gates.iter().map(|&gate| u8::from(ask(pid, gate))).collect();
        let mut asked = apart::ask(LIMIT, asked).ok_or_else(|| no_answer(pid))?.into_iter();
        attachment.gates.retain(|_| asked.next() == Some(1));
        Ok(attachment)
    }

    /// Whether no object file was asked: none is annotated.
    pub fn is_empty(&self) -> bool {
        self.gates.is_empty()
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        let (pid, gates) = (self.pid, &self.gates);
        if !gates.is_empty() {
            apart::ask(LIMIT, || {
                close(pid, gates);
                Vec::new()
            });
        }
        if let Some(place) = &self.place {
            // Another recorder may have taken our place, if we were stopped for long.
            if place.link(&self.link).is_ok_and(|at| at == self.session) {
                let _ = place.remove(&self.link);
            }
        }
    }
}

/// The link's name in the place where the program looks: it has the program's own number, which in a container
/// differs from ours.
fn link_name(pid: i32) -> String {
    format!("kasuri-attach-{}", namespaces::own_number(pid))
}

/// Makes the link by which the program finds the session. One that a dead recorder left is replaced.
///
/// The link of a living one is not: programs go by their own numbers, and two in different containers may have the same one. Each
/// would be led to the session that was named last, which is another program's recording.
fn claim(place: &Held, link: &str, pid: i32, session: &Path) -> Result<()> {
    let taken =
        |by: &Path| Error::AlreadyAttached { pid, link: place.named(link), session: by.to_owned() };
    if let Ok(other) = place.link(link) {
        // A stranger's link leads no program anywhere: kasuri.h follows those of its own user and of root.
        let made_by = place.stat_of(link).map(|stat| stat.st_uid).ok();
        let of_program = procs::owner(pid).map(|(uid, _)| uid);
        let counts = made_by == Some(0) || (made_by.is_some() && made_by == of_program);
        if counts && other != session && session::is_live_at(&other) {
            return Err(taken(&other));
        }
        let _ = place.remove(link);
    }
    place.make_link(session, link).map_err(|e| match e.kind() {
        // Made in this moment, or by another user who may keep it.
        std::io::ErrorKind::AlreadyExists => taken(&place.link(link).unwrap_or_default()),
        _ => Error::file("make", &place.named(link), e),
    })
}

fn ask(pid: i32, gate: u64) -> bool {
    // On already: it belongs to another recorder, or to one that died; the program finds out which
    // when it is asked, and keeps the one that lives.
    matches!(read_gate(pid, gate), Some(GATE_OFF | GATE_ON | GATE_ASKED))
        && write_memory(pid, gate + 8, GATE_ASKED).is_ok()
}

fn close(pid: i32, gates: &[u64]) {
    for &gate in gates {
        if read_gate(pid, gate).is_some_and(|value| value != GATE_OFF) {
            let _ = write_memory(pid, gate + 8, GATE_OFF);
        }
    }
}

/// What a process says that does not answer.
fn no_answer(pid: i32) -> Error {
    let ms = LIMIT.as_millis();
    let why = format!("its memory or a file of it did not answer within {ms} ms");
    Error::file("read", Path::new(&format!("/proc/{pid}/maps")), std::io::Error::other(why))
}

/// The addresses of all gates of a process, found by a process of its own.
fn find_apart(pid: i32) -> Result<Vec<u64>> {
    const FOUND: u8 = 0;
    const NO_PROCESS: u8 = 1;
    let answer = apart::ask(LIMIT, || match find_gates(pid) {
        Ok(gates) => {
            let words = gates.iter().flat_map(|gate| gate.to_ne_bytes());
            std::iter::once(FOUND).chain(words).collect()
        }
        Err(Error::NoProcess { .. }) => vec![NO_PROCESS],
        Err(_) => vec![2],
    });
    let answer = answer.ok_or_else(|| no_answer(pid))?;
    match answer.split_first() {
        Some((&FOUND, words)) => {
            let words = words.as_chunks::<8>().0;
            Ok(words.iter().map(|word| u64::from_ne_bytes(*word)).collect())
        }
        Some((&NO_PROCESS, _)) => Err(Error::NoProcess { pid }),
        _ => {
            let path = PathBuf::from(format!("/proc/{pid}/maps"));
            let cause = std::fs::File::open(&path).err();
            let cause = cause.unwrap_or_else(|| std::io::ErrorKind::PermissionDenied.into());
            Err(Error::file("read", &path, cause))
        }
    }
}

/// The addresses of all gates of a process.
fn find_gates(pid: i32) -> Result<Vec<u64>> {
    let path = PathBuf::from(format!("/proc/{pid}/maps"));
    let maps = held::time(held::By::Memory, || std::fs::read_to_string(&path));
    let maps = maps.map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => Error::NoProcess { pid },
        _ => Error::file("read", &path, e),
    })?;
    let mut gates = Vec::new();
    let mut left = MAX_SEARCHED;
    for (file, mappings) in by_file(&maps) {
        let found = match open_mapped(pid, file) {
            Some(map) => gates_in(map.bytes(), &mappings),
            None if file.ends_with(DELETED) => search(pid, &mappings, &mut left),
            None => continue,
        };
        gates.extend(found.into_iter().take(MAX_GATES - gates.len()));
    }
    gates.retain(|&gate| read_gate(pid, gate).is_some());
    gates.sort_unstable();
    gates.dedup();
    Ok(gates)
}

/// The file, in the process's own root directory: it may live in a container. Something else may have the name by now, a FIFO or a
/// link, and the file may be cut while it is parsed.
fn open_mapped(pid: i32, file: &str) -> Option<Guarded> {
    let opened = safefs::open_in_root_of(pid, Path::new(file)).ok()?;
    Guarded::read_only(&opened).ok()
}

/// Mappings of each file, as /proc/PID/maps lists them.
fn by_file(maps: &str) -> BTreeMap<&str, Vec<Mapped>> {
    let mut files: BTreeMap<&str, Vec<Mapped>> = BTreeMap::new();
    for line in maps.lines() {
        if let Some((file, mapped)) = parse_mapping(line) {
            files.entry(file).or_default().push(mapped);
        }
    }
    files
}

/// `START-END PERMISSIONS OFFSET DEVICE INODE   FILE`; none: no file, or none that holds gates.
fn parse_mapping(line: &str) -> Option<(&str, Mapped)> {
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let permissions = fields.next()?;
    let offset = hex(fields.next()?)?;
    let file = fields.nth(2)?.trim_start();
    let has_gates = file.starts_with('/') && !file.starts_with("/dev/");
    has_gates.then_some(())?;
    let mapped = Mapped {
        range: hex(start)?..hex(end)?,
        offset,
        is_data: permissions.starts_with("rw") && permissions.ends_with('p'),
    };
    Some((file, mapped))
}

/// Whether the program of this name annotates: then it attaches before its `main`, if it can.
pub(crate) fn is_annotated(program: &OsStr) -> bool {
    find_program(program)
        .and_then(|path| safefs::open_regular(&path).ok())
        .is_some_and(|file| holds_gates(&file))
}

/// Whether the file at `path` annotates. Another one that has its name by now does not count.
pub(crate) fn has_gates(path: &Path, inode: u64) -> bool {
    safefs::open_regular(path)
        .ok()
        .filter(|file| file.metadata().is_ok_and(|meta| meta.ino() == inode))
        .is_some_and(|file| holds_gates(&file))
}

fn holds_gates(file: &std::fs::File) -> bool {
    Guarded::read_only(file).is_ok_and(|map| {
        object::File::parse(map.bytes())
            .is_ok_and(|elf| elf.section_by_name(GATE_SECTION).is_some())
    })
}

/// Addresses of the gates of one file, for each time it is mapped.
fn gates_in(bytes: &[u8], mappings: &[Mapped]) -> Vec<u64> {
    let Ok(elf) = object::File::parse(bytes) else {
        return Vec::new();
    };
    let Some(section) = elf.section_by_name(GATE_SECTION) else {
        return Vec::new();
    };
    let n_gates = section.size() / GATE_BYTES as u64;
    let mut gates = Vec::new();
    for mapped in mappings {
        // Load address of the file = where a mapping is - where its segment wants to be. The file may claim any numbers: a wrong
        // address is no gate's.
        let segment = elf.segments().find(|s| {
            let (offset, size) = s.file_range();
            (offset & !0xfff..offset.saturating_add(size)).contains(&mapped.offset)
                && (s.address()..s.address().saturating_add(s.size())).contains(&section.address())
        });
        let Some(segment) = segment else { continue };
        let wanted =
            segment.address().wrapping_sub(segment.file_range().0).wrapping_add(mapped.offset);
        let first = mapped.range.start.wrapping_sub(wanted).wrapping_add(section.address());
        let more = (0..n_gates).map(|i| first.wrapping_add(i * GATE_BYTES as u64));
        gates.extend(more.take(MAX_GATES - gates.len()));
    }
    gates
}

/// Addresses of what looks like a gate in the data that a file is mapped to; of no more bytes than are `left`.
fn search(pid: i32, mappings: &[Mapped], left: &mut u64) -> Vec<u64> {
    const BLOCK: u64 = 1 << 16;
    let mut gates = Vec::new();
    let mut block = vec![0u8; BLOCK as usize];
    for mapped in mappings.iter().filter(|m| m.is_data) {
        let mut at = mapped.range.start;
        while at < mapped.range.end && *left > 0 {
            let n = BLOCK.min(mapped.range.end - at).min(*left);
            let part = &mut block[..n as usize];
            if read_memory(pid, at, part).is_ok() {
                // Gates are 16 bytes long, and aligned to that.
                let found = part.chunks_exact(GATE_BYTES).enumerate();
                let found = found.filter(|(_, bytes)| bytes[..8] == GATE_MAGIC.to_ne_bytes());
                gates.extend(found.map(|(i, _)| at + (i * GATE_BYTES) as u64));
            }
            at += n;
            *left -= n;
        }
    }
    gates.truncate(MAX_GATES);
    gates
}

/// The gate's value; `None`: there is no gate at this address.
fn read_gate(pid: i32, address: u64) -> Option<u32> {
    let mut bytes = [0u8; GATE_BYTES];
    read_memory(pid, address, &mut bytes).ok()?;
    let magic = u64::from_ne_bytes(bytes[..8].try_into().ok()?);
    (magic == GATE_MAGIC).then(|| u32::from_ne_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]))
}

/// Fills `bytes` from the process's memory, or fails.
fn read_memory(pid: i32, address: u64, bytes: &mut [u8]) -> std::io::Result<()> {
    let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: bytes.len() };
    // SAFETY: the local part is writable for its length; the kernel checks the remote one.
    let n = held::time(held::By::Memory, || unsafe {
        libc::process_vm_readv(pid, &local, 1, &remote, 1, 0)
    });
    match usize::try_from(n) {
        Ok(n) if n == bytes.len() => Ok(()),
        Ok(_) => Err(std::io::ErrorKind::UnexpectedEof.into()),
        Err(_) => Err(std::io::Error::last_os_error()),
    }
}

fn write_memory(pid: i32, address: u64, value: u32) -> std::io::Result<()> {
    let mut bytes = value.to_ne_bytes();
    let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: 4 };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: 4 };
    // SAFETY: as above. The word is aligned, so the program sees the old or the new value.
    let n = held::time(held::By::Memory, || unsafe {
        libc::process_vm_writev(pid, &local, 1, &remote, 1, 0)
    });
    match n {
        4 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::StampClock;
    use crate::rings::session::{Session, SessionOptions};
    use kasuri_format::ring::Policy;
    use std::os::unix::fs::symlink;

    const NONE: [u64; 0] = [];

    /// An ELF file with one segment, [address, file offset, bytes], and a section of gates, [address, bytes].
    fn elf(segment: [u64; 3], gates: [u64; 2]) -> Vec<u8> {
        const NAMES: &[u8] = b"\0.kasuri.gate\0.shstrtab\0";
        let names_at = 64 + 56;
        let sections_at = (names_at + NAMES.len()).next_multiple_of(8);
        let mut file = vec![0u8; 64];
        file[..16].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
        let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
        put(16, &3u16.to_le_bytes());
        put(18, &62u16.to_le_bytes());
        put(20, &1u32.to_le_bytes());
        put(32, &64u64.to_le_bytes());
        put(40, &(sections_at as u64).to_le_bytes());
        for (at, n) in [(52, 64u16), (54, 56), (56, 1), (58, 64), (60, 3), (62, 2)] {
            put(at, &n.to_le_bytes());
        }
        let [address, offset, bytes] = segment;
        file.extend([1u32, 6].iter().flat_map(|n| n.to_le_bytes()));
        let words = [offset, address, address, bytes, bytes, 0x1000];
        file.extend(words.iter().flat_map(|n| n.to_le_bytes()));
        file.extend_from_slice(NAMES);
        file.resize(sections_at, 0);
        let nothing = [[0u64; 2]; 4];
        let gates = [[1 | 8 << 32, 3], gates, [0, 0], [0, 16]];
        let gates = [gates[0], [gates[1][0], 0], [gates[1][1], 0], [16, 0]];
        let names = [[14 | 3 << 32, 0], [0, names_at as u64], [NAMES.len() as u64, 0], [1, 0]];
        for section in [nothing, gates, names] {
            file.extend(section.as_flattened().iter().flat_map(|n| n.to_le_bytes()));
        }
        file
    }

    fn mapped(start: u64, offset: u64) -> Mapped {
        Mapped { range: start..start + 0x1000, offset, is_data: true }
    }

    #[test]
    fn gates_are_where_the_file_is_mapped_and_once_for_each_time() {
        // Linked at 0x4000 from offset 0x3000, where 0x40 bytes of gates begin at 0x4010.
        let file = elf([0x4000, 0x3000, 0x800], [0x4010, 0x40]);
        let gates = gates_in(&file, &[mapped(0x7000_0000, 0x3000), mapped(0x9000_0000, 0x3000)]);
        let expected: Vec<u64> = [0x7000_0010u64, 0x9000_0010]
            .iter()
            .flat_map(|first| (0..4).map(move |i| first + 16 * i))
            .collect();
        assert_eq!(gates, expected);
        assert_eq!(gates_in(&file, &[mapped(0x7000_0000, 0)]), NONE, "another part of the file");
        assert_eq!(gates_in(&file[..100], &[mapped(0x7000_0000, 0x3000)]), NONE);
        assert_eq!(gates_in(b"#!/bin/sh", &[mapped(0x7000_0000, 0)]), NONE);
    }

    #[test]
    fn claims_without_end_are_bounded() {
        let far = u64::MAX - 0xfff;
        for (segment, gates) in [
            ([0x4000, 0x3000, 0x800], [0x4010, u64::MAX]),
            ([0, far, u64::MAX], [0x10, u64::MAX]),
            ([far, 0, u64::MAX], [far, 1 << 40]),
            ([0x1000, 0x3000, 0x800], [0x1000, 1 << 40]),
        ] {
            let file = elf(segment, gates);
            let mappings: Vec<Mapped> =
                (0..64).map(|i| mapped(0x1000 * i, segment[1] & !0xfff)).collect();
            assert!(gates_in(&file, &mappings).len() <= MAX_GATES, "{segment:x?} {gates:x?}");
        }
        let file = elf([0x4000, 0x3000, 0x800], [0x4010, u64::MAX]);
        assert_eq!(gates_in(&file, &[mapped(0x7000_0000, 0x3000)]).len(), MAX_GATES);
    }

    /// The lines of a real process, and such as a file's name makes.
    #[test]
    fn mappings_are_told_from_what_a_name_looks_like() {
        let maps = "\
            55d0c0a00000-55d0c0a01000 r--p 00000000 fe:01 1837 /usr/bin/server (deleted)\n\
            55d0c0a03000-55d0c0a04000 rw-p 00002000 fe:01 1837 /usr/bin/server (deleted)\n\
            55d0c0b00000-55d0c0b21000 rw-p 00000000 00:00 0    [heap]\n\
            7f0000000000-7f0000001000 rw-p 00000000 00:00 0 \n\
            7f0000002000-7f0000003000 rw-s 00000000 00:05 7    /dev/zero (deleted)\n\
            7f0000004000-7f0000005000 rw-s 00001000 fe:01 99   /var/a name with  spaces\n\
            not a line\n\
            zz-7f0000005000 rw-p 00001000 fe:01 99 /bad\n";
        let files = by_file(maps);
        let names: Vec<&str> = files.keys().copied().collect();
        assert_eq!(names, ["/usr/bin/server (deleted)", "/var/a name with  spaces"]);
        let server = &files["/usr/bin/server (deleted)"];
        let facts: Vec<(u64, u64, bool)> =
            server.iter().map(|m| (m.range.start, m.offset, m.is_data)).collect();
        assert_eq!(facts, [(0x55d0_c0a0_0000, 0, false), (0x55d0_c0a0_3000, 0x2000, true)]);
        assert!(!files["/var/a name with  spaces"][0].is_data, "others may write it too");
    }

    /// Of our own memory, as if it were a program's.
    fn memory(gates: &[usize]) -> (Vec<u8>, Mapped) {
        let mut bytes = vec![0u8; 3 << 16];
        let first = bytes.as_ptr().align_offset(4096);
        for &at in gates {
            bytes[first + at..first + at + 8].copy_from_slice(&GATE_MAGIC.to_ne_bytes());
        }
        let start = bytes.as_ptr() as u64 + first as u64;
        let mapped = Mapped { range: start..start + (2 << 16), offset: 0, is_data: true };
        (bytes, mapped)
    }

    #[test]
    fn gates_of_a_file_without_a_name_are_found_in_its_memory() {
        let me = std::process::id() as i32;
        let (_bytes, mapped) = memory(&[0, 16, 0x8008, 0x10000, 0x1fff0]);
        let start = mapped.range.start;
        let found = |mapped: &Mapped, left: u64| {
            let mut left = left;
            search(me, std::slice::from_ref(mapped), &mut left)
        };
        // A gate is aligned.
        let all = [0, 16, 0x10000, 0x1fff0].map(|at| start + at);
        assert_eq!(found(&mapped, u64::MAX), all);
        assert!(all.iter().all(|&gate| read_gate(me, gate) == Some(GATE_OFF)));
        assert_eq!(read_gate(me, start + 32), None);
        let shared = Mapped { is_data: false, ..mapped };
        assert_eq!(found(&shared, u64::MAX), NONE);
    }

    #[test]
    fn a_search_reads_no_more_than_it_may() {
        let me = std::process::id() as i32;
        let (_bytes, mapped) = memory(&[0, 0x10000]);
        let (start, mut left) = (mapped.range.start, 0x10000);
        let mappings = [mapped.clone(), mapped.clone()];
        assert_eq!(search(me, &mappings, &mut left), [start]);
        assert_eq!(left, 0);
        // Memory that is not there is passed over, and paid for.
        let nothing = Mapped { range: 0..1 << 16, ..mapped.clone() };
        let mut left = 2 << 16;
        assert_eq!(search(me, &[nothing, mapped], &mut left), [start]);
    }

    fn session(shm_dir: &Path) -> Session {
        let options = SessionOptions {
            policy: Policy::Grow,
            clock: StampClock::Monotonic,
            chunk_bytes: 4096,
            max_bytes: 1 << 20,
            first_chunks: 1,
            flight_chunks: 1,
            shm_dir: shm_dir.to_owned(),
            owner: None,
        };
        Session::create(&options, shm_dir).unwrap()
    }

    #[test]
    fn the_link_of_a_living_recorder_stays() {
        let scratch = tempfile::tempdir().unwrap();
        let place = Held::open(scratch.path()).unwrap();
        let me = std::process::id() as i32;
        let (first, second) = (session(scratch.path()), session(scratch.path()));
        claim(&place, "link", me, first.path()).unwrap();
        claim(&place, "link", me, first.path()).unwrap();
        let refused = claim(&place, "link", me, second.path()).unwrap_err();
        assert!(
            matches!(&refused, Error::AlreadyAttached { session, .. } if session == first.path()),
            "{refused}"
        );
        assert_eq!(place.link("link").unwrap(), first.path());
        // Of one that has ended, or what is no session at all, nothing is left.
        drop(first);
        claim(&place, "link", me, second.path()).unwrap();
        assert_eq!(place.link("link").unwrap(), second.path());
        std::fs::remove_file(scratch.path().join("link")).unwrap();
        symlink("/etc", scratch.path().join("link")).unwrap();
        claim(&place, "link", me, second.path()).unwrap();
        assert_eq!(place.link("link").unwrap(), second.path());
    }

    #[test]
    fn the_link_of_a_stranger_does_not_count() {
        if !rustix::process::geteuid().is_root() {
            return kasuri_testkit::skip("needs root");
        }
        let scratch = tempfile::tempdir().unwrap();
        let place = Held::open(scratch.path()).unwrap();
        let me = std::process::id() as i32;
        let (theirs, ours) = (session(scratch.path()), session(scratch.path()));
        place.make_link(theirs.path(), "link").unwrap();
        place.give_link("link", 65534, 65534).unwrap();
        claim(&place, "link", me, ours.path()).unwrap();
        assert_eq!(place.link("link").unwrap(), ours.path());
    }
}
