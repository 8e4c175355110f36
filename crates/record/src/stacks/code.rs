//! Finds the code of processes: opens the files that they have mapped, reads their maps, finds kernel symbols.
use crate::guard::reader::Readers;
use crate::guard::sigbus::Guarded;
use kasuri_unwind::{Backing, Bytes, File, Files, Mapping, ReadAt, parse_maps};
use std::cell::{Cell, OnceCell};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::rc::Rc;

/// Opens the files behind mappings.
#[derive(Debug, Default)]
pub(crate) struct MappedFiles {
    /// Mappings that there are: each stays as long as a file's unwind information is used.
    n_maps: Rc<Cell<usize>>,
    readers: Readers,
}

/// Most files that are mapped; of further ones the unwind information is copied. The kernel allows 65,530 mappings.
const MAPS_MAX: usize = 4096;

/// A file of code. Of its unwind information, which is mapped, only the pages that are needed are read. What is cut reads as
/// zeroes, which are no rules.
struct CodeFile {
    file: std::fs::File,
    map: OnceCell<Option<Rc<Counted>>>,
    n_maps: Rc<Cell<usize>>,
}

/// A mapping that counts.
struct Counted {
    map: Guarded,
    n_maps: Rc<Cell<usize>>,
}

impl Counted {
    /// `None`: it cannot be mapped, or there are too many.
    fn new(file: &std::fs::File, n_maps: &Rc<Cell<usize>>) -> Option<Counted> {
        let n = n_maps.get();
        let map = (n < MAPS_MAX).then(|| Guarded::read_only(file).ok());
        let map = map.flatten()?;
        n_maps.set(n + 1);
        let n_maps = n_maps.clone();
        Some(Counted { map, n_maps })
    }
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        self.map.bytes()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.n_maps.set(self.n_maps.get() - 1);
    }
}

impl CodeFile {
    fn map(&self) -> Option<Rc<Counted>> {
        let map = || Counted::new(&self.file, &self.n_maps).map(Rc::new);
        self.map.get_or_init(map).clone()
    }
}

impl ReadAt for CodeFile {
    fn read_at(&self, offset: u64, len: usize) -> Option<Vec<u8>> {
        self.file.read_at(offset, len)
    }

    fn part(&self, offset: u64, len: usize) -> Option<Bytes> {
        let Some(map) = self.map() else {
            return Bytes::of(Rc::new(self.read_at(offset, len)?), 0..len);
        };
        let start = usize::try_from(offset).ok()?;
        Bytes::of(map, start..start.checked_add(len)?)
    }
}

impl MappedFiles {
    pub(super) fn new(readers: Readers) -> MappedFiles {
        MappedFiles { readers, ..MappedFiles::default() }
    }
}

impl Files for MappedFiles {
    /// Who opens it is a process that may hang ([`Readers::open`]). It must be the file that was mapped: since the sample was taken, another may
    /// have come to the same addresses (dlclose and dlopen), and to the same path.
    fn open(&mut self, pid: i32, mapping: &Mapping) -> Option<File> {
        let Backing::File { path, device, .. } = &mapping.backing else {
            return None;
        };
        let range = mapping.start..mapping.end;
        let is_it = |file: &std::fs::File| is_behind(file, pid, mapping, &self.readers);
        let file = (self.readers).open(pid, range, *device, Path::new(path), is_it)?;
        let key = key(&file.metadata().ok()?);
        Some(File {
            key,
            bytes: Box::new(CodeFile { file, map: OnceCell::new(), n_maps: self.n_maps.clone() }),
        })
    }

    fn vdso(&mut self) -> Option<Vec<u8>> {
        crate::host::vdso()
    }

    fn cpu_ns(&self) -> u64 {
        crate::clock::thread_cpu_ns()
    }
}

/// Whether this is the file of the mapping.
fn is_behind(file: &std::fs::File, pid: i32, mapping: &Mapping, readers: &Readers) -> bool {
    let Backing::File { inode, device, .. } = &mapping.backing else {
        return false;
    };
    let Ok(meta) = file.metadata() else {
        return false;
    };
    let of_meta = (libc::major(meta.dev()), libc::minor(meta.dev()));
    if (meta.ino(), of_meta) == (inode.0, *device) {
        return true;
    }
    // Lists of mappings may have other numbers than stat(2) for a file: other devices (btrfs), the layer below (overlayfs, in the records
    // of some kernels also where the lists have not). Then what counts is how a mapping of this file is listed.
    let Some(listed) = listed(file).filter(|&listed| listed != (meta.ino(), of_meta)) else {
        return false;
    };
    let is_alike = |backing: &Backing| matches!(backing, Backing::File { inode, device, .. } if (inode.0, *device) == listed);
    // A list has one numbering for both: it tells whether the file is the one that is mapped now.
    let is_same = |now: &Mapping| {
        let place = |m: &Mapping| (m.start, m.end, m.offset);
        let path = |m: &Mapping| match &m.backing {
            Backing::File { path, .. } => path.clone(),
            _ => String::new(),
        };
        place(now) == place(mapping) && path(now) == path(mapping) && is_alike(&now.backing)
    };
    is_alike(&mapping.backing) || maps(pid, readers).is_some_and(|all| all.iter().any(is_same))
}

/// Inode and device of a file as lists of mappings have them.
fn listed(file: &std::fs::File) -> Option<(u64, (u32, u32))> {
    let map = Guarded::read_only(file).ok()?;
    let start = format!("{:x}-", map.as_mut_ptr() as usize);
    let text = std::fs::read_to_string("/proc/self/maps").ok()?;
    let line = text.lines().find(|line| line.starts_with(&start))?;
    // Only executable mappings are read: this one is listed as if it were.
    let line = line.replacen(" r--", " r-x", 1);
    match parse_maps(&line).pop()?.backing {
        Backing::File { inode, device, .. } => Some((inode.0, device)),
        _ => None,
    }
}

fn key(meta: &Metadata) -> [u64; 6] {
    [
        meta.dev(),
        meta.ino(),
        meta.size(),
        meta.mtime() as u64,
        meta.mtime_nsec() as u64,
        meta.ctime_nsec() as u64,
    ]
}

/// The executable mappings of a process; `None`: they cannot be read, since it has ended, is not ours or does not answer.
pub(super) fn maps(pid: i32, readers: &Readers) -> Option<Vec<Mapping>> {
    let text = readers.maps(pid)?;
    let mappings = parse_maps(&String::from_utf8_lossy(&text));
    (!mappings.is_empty()).then_some(mappings)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An executable mapping of a file in this process, at `address` if one is given.
    fn map(path: &Path, address: u64) -> Mapping {
        use std::os::fd::AsRawFd;
        let file = std::fs::File::open(path).unwrap();
        let fixed = if address == 0 { 0 } else { libc::MAP_FIXED };
        // SAFETY: a new mapping, or one in the place of that which this test made; nobody refers to its bytes.
        let at = unsafe {
            libc::mmap(
                address as *mut _,
                4096,
                libc::PROT_READ | libc::PROT_EXEC,
                libc::MAP_PRIVATE | fixed,
                file.as_raw_fd(),
                0,
            )
        };
        assert_ne!(at, libc::MAP_FAILED);
        let all = maps(std::process::id() as i32, &Readers::default()).unwrap();
        let is_it = |m: &Mapping| m.start == at as u64;
        all.into_iter().find(is_it).unwrap()
    }

    #[test]
    fn a_file_that_came_to_the_same_addresses_is_not_taken_for_the_one_before() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let [first, second] = ["first", "second"].map(|name| dir.path().join(name));
        std::fs::write(&first, [1; 5000]).unwrap();
        std::fs::write(&second, [2; 6000]).unwrap();
        let before = map(&first, 0);
        let after = map(&second, before.start);
        assert_eq!(before.start, after.start);
        let pid = std::process::id() as i32;
        let mut files = MappedFiles::default();
        let size = |files: &mut MappedFiles, mapping| files.open(pid, mapping).map(|f| f.key[2]);
        assert_eq!(size(&mut files, &before), Some(5000));
        assert_eq!(size(&mut files, &after), Some(6000));
        // Nor is another file at its path.
        std::fs::rename(&second, &first).unwrap();
        assert_eq!(size(&mut files, &before), None);
    }

    #[test]
    fn a_file_that_is_forgotten_makes_room_for_another() {
        let mut files = MappedFiles::default();
        let pid = std::process::id() as i32;
        let own = maps(pid, &Readers::default()).unwrap();
        let is_file = |m: &&Mapping| matches!(m.backing, Backing::File { .. });
        let mapping = own.iter().find(is_file).unwrap();
        let file = files.open(pid, mapping).unwrap();
        let part = file.bytes.part(0, 64).unwrap();
        drop(file);
        assert_eq!(files.n_maps.get(), 1, "a part of it is in use");
        drop(part);
        assert_eq!(files.n_maps.get(), 0);
    }

    #[test]
    fn a_file_is_listed_as_its_mappings_are() {
        let path = std::env::current_exe().unwrap();
        let file = std::fs::File::open(path).unwrap();
        let (inode, device) = listed(&file).unwrap();
        let is_it = |m: &Mapping| matches!(&m.backing, Backing::File { inode: i, device: d, .. } if (i.0, *d) == (inode, device));
        let all = maps(std::process::id() as i32, &Readers::default()).unwrap();
        assert!(all.iter().any(is_it), "{inode} {device:?} in {all:?}");
    }
}
