//! Switching on the annotations of a program that runs already.
//!
//! kasuri.h puts a gate of 16 bytes into section `.kasuri.gate` of each object file. The recorder leaves the
//! session's name where the program looks for it, then writes "a recorder asks to be attached to" into
//! each gate; the program does the rest at its next annotation, in its own thread. Nothing is injected
//! and no thread is stopped.
use crate::error::{Error, Result};
use crate::guard::safefs::{self, Held};
use crate::guard::sigbus::Guarded;
use object::{Object, ObjectSection, ObjectSegment};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const GATE_SECTION: &str = ".kasuri.gate";
const GATE_BYTES: usize = 16;
const GATE_MAGIC: u64 = u64::from_le_bytes(*b"KSGATE01");
const GATE_OFF: u32 = 0;
const GATE_ON: u32 = 1;
const GATE_ASKED: u32 = 2;

/// Gates that were asked to open; closed again when dropped.
#[derive(Debug)]
pub struct Attachment {
    pid: i32,
    gates: Vec<u64>,
    /// Where the link lies that names the session; none: no gate was found.
    place: Option<Held>,
    link: String,
}

/// One file mapped by the process.
struct Mapped {
    start: u64,
    offset: u64,
}

impl Attachment {
    /// Asks all annotated object files of `pid` to attach to `session`. No gates at all: the program is not annotated.
    ///
    /// # Errors
    /// When the process may not be written to.
    pub fn attach(pid: i32, session: &Path) -> Result<Attachment> {
        let mut attachment = Attachment {
            pid,
            gates: find_gates(pid)?,
            place: None,
            link: link_name(pid),
        };
        if attachment.gates.is_empty() {
            return Ok(attachment);
        }
        let place = Path::new("/dev/shm");
        let place = Held::open(place).map_err(|e| Error::file("open", place, e))?;
        let _ = place.remove(&attachment.link);
        place
            .make_link(session, &attachment.link)
            .map_err(|e| Error::file("make", &place.named(&attachment.link), e))?;
        if let Some((uid, gid)) = crate::program::procs::owner(pid) {
            // The program follows the link only when its owner is the program's user or root.
            let _ = place.give_link(&attachment.link, uid, gid);
        }
        attachment.place = Some(place);
        attachment.gates.retain(|&gate| ask(pid, gate));
        Ok(attachment)
    }

    /// Whether no object file was asked: none is annotated.
    pub fn is_empty(&self) -> bool {
        self.gates.is_empty()
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        for &gate in &self.gates {
            if read_gate(self.pid, gate).is_some_and(|value| value != GATE_OFF) {
                let _ = write_memory(self.pid, gate + 8, GATE_OFF);
            }
        }
        if let Some(place) = &self.place {
            let _ = place.remove(&self.link);
        }
    }
}

/// Where the program looks: it goes by its own number, which in a container is not ours.
fn link_name(pid: i32) -> String {
    let number = crate::program::namespaces::own_number(pid);
    format!("kasuri-attach-{number}")
}

fn ask(pid: i32, gate: u64) -> bool {
    // On already: it belongs to another recorder, or to one that died; the program finds out which
    // when it is asked, and keeps the one that lives.
    matches!(read_gate(pid, gate), Some(GATE_OFF | GATE_ON | GATE_ASKED))
        && write_memory(pid, gate + 8, GATE_ASKED).is_ok()
}

/// The addresses of all gates of a process.
fn find_gates(pid: i32) -> Result<Vec<u64>> {
    let path = PathBuf::from(format!("/proc/{pid}/maps"));
    let maps = std::fs::read_to_string(&path).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => Error::NoProcess { pid },
        _ => Error::file("read", &path, e),
    })?;
    let mut gates = Vec::new();
    for (file, mappings) in by_file(&maps) {
        // In the process's own root directory: it may live in a container. Something else may have the name by now, a FIFO
        // or a link, and the file may be cut while it is parsed.
        let Ok(opened) = safefs::open_in_root_of(pid, Path::new(file)) else {
            continue;
        };
        let Ok(map) = Guarded::read_only(&opened) else {
            continue;
        };
        gates.extend(gates_in(map.bytes(), &mappings));
    }
    gates.retain(|&gate| read_gate(pid, gate).is_some());
    gates.sort_unstable();
    gates.dedup();
    Ok(gates)
}

fn by_file(maps: &str) -> BTreeMap<&str, Vec<Mapped>> {
    let mut files: BTreeMap<&str, Vec<Mapped>> = BTreeMap::new();
    for line in maps.lines() {
        let mut fields = line.splitn(6, ' ');
        let (Some(range), Some(_), Some(offset)) = (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let Some(file) = fields
            .nth(2)
            .map(str::trim_start)
            .filter(|f| f.starts_with('/') && !f.starts_with("/dev/"))
        else {
            continue;
        };
        let (Some((start, _)), Ok(offset)) =
            (range.split_once('-'), u64::from_str_radix(offset, 16))
        else {
            continue;
        };
        if let Ok(start) = u64::from_str_radix(start, 16) {
            files
                .entry(file)
                .or_default()
                .push(Mapped { start, offset });
        }
    }
    files
}

/// Addresses of the gates of one file, for each time it is mapped.
fn gates_in(bytes: &[u8], mappings: &[Mapped]) -> Vec<u64> {
    let Ok(elf) = object::File::parse(bytes) else {
        return Vec::new();
    };
    let Some(section) = elf.section_by_name(GATE_SECTION) else {
        return Vec::new();
    };
    let mut gates = Vec::new();
    for mapped in mappings {
        // Load address of the file = where a mapping is - where its segment wants to be.
        let segment = elf.segments().find(|s| {
            let (offset, size) = s.file_range();
            (offset & !0xfff..offset + size).contains(&mapped.offset)
                && (s.address()..s.address() + s.size()).contains(&section.address())
        });
        let Some(segment) = segment else { continue };
        let wanted = (segment.address() - segment.file_range().0).wrapping_add(mapped.offset);
        let first = mapped
            .start
            .wrapping_sub(wanted)
            .wrapping_add(section.address());
        gates.extend(
            (0..section.size() / GATE_BYTES as u64)
                .map(|i| first.wrapping_add(i * GATE_BYTES as u64)),
        );
    }
    gates
}

/// The gate's value; `None`: there is no gate at this address.
fn read_gate(pid: i32, address: u64) -> Option<u32> {
    let mut bytes = [0u8; GATE_BYTES];
    let local = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: GATE_BYTES,
    };
    let remote = libc::iovec {
        iov_base: address as *mut libc::c_void,
        iov_len: GATE_BYTES,
    };
    // SAFETY: the local part is writable for its length; the kernel checks the remote one.
    let n = unsafe { libc::process_vm_readv(pid, &local, 1, &remote, 1, 0) };
    let magic = u64::from_ne_bytes(bytes[..8].try_into().ok()?);
    (n == GATE_BYTES as isize && magic == GATE_MAGIC)
        .then(|| u32::from_ne_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]))
}

fn write_memory(pid: i32, address: u64, value: u32) -> std::io::Result<()> {
    let mut bytes = value.to_ne_bytes();
    let local = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: 4,
    };
    let remote = libc::iovec {
        iov_base: address as *mut libc::c_void,
        iov_len: 4,
    };
    // SAFETY: as above. The word is aligned, so the program sees the old or the new value.
    match unsafe { libc::process_vm_writev(pid, &local, 1, &remote, 1, 0) } {
        4 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}
