//! Finds the code of processes: opens the files that they have mapped, reads their maps, finds kernel symbols.
use crate::guard::safefs::{open_in_root_of, open_regular, read_at_most};
use crate::guard::sigbus::Guarded;
use kasuri_unwind::{Backing, Bytes, File, Files, Mapping, ReadAt, parse_maps};
use std::cell::{Cell, OnceCell};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::rc::Rc;

/// Most bytes of /proc/PID/maps: the kernel's limit of 65,530 mappings, with paths of usual length.
const MAPS_BYTES_MAX: u64 = 16 << 20;

/// Opens the files behind mappings.
#[derive(Debug, Default)]
pub(crate) struct MappedFiles {
    /// Mappings made so far: each stays as long as a file's unwind information is used.
    n_maps: Rc<Cell<usize>>,
}

/// Most files that are mapped; of further ones the unwind information is copied. The kernel allows 65,530 mappings.
const MAPS_MAX: usize = 4096;

/// A file of code. Of its unwind information, which is mapped, only the pages that are needed are read. What is cut reads as
/// zeroes, which are no rules.
struct CodeFile {
    file: std::fs::File,
    map: OnceCell<Option<Rc<Guarded>>>,
    n_maps: Rc<Cell<usize>>,
}

impl CodeFile {
    fn map(&self) -> Option<Rc<Guarded>> {
        let n = self.n_maps.get();
        let map = || {
            self.n_maps.set(n + 1);
            Guarded::read_only(&self.file).ok().map(Rc::new)
        };
        let map = self.map.get_or_init(|| (n < MAPS_MAX).then(map).flatten());
        map.clone()
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

impl Files for MappedFiles {
    /// In this order: the mapping itself, which works for removed files and in other mount name spaces, but needs
    /// CAP_CHECKPOINT_RESTORE; the path in the root directory of the process; for a process that has ended, the path in
    /// ours. A path must lead to the inode that is mapped.
    fn open(&mut self, pid: i32, mapping: &Mapping) -> Option<File> {
        let Backing::File { path, inode, .. } = &mapping.backing else {
            return None;
        };
        let range = format!(
            "/proc/{pid}/map_files/{:x}-{:x}",
            mapping.start, mapping.end
        );
        let is_it = |file: &std::fs::File| file.metadata().is_ok_and(|meta| meta.ino() == inode.0);
        let file = open_regular(Path::new(&range))
            .ok()
            .or_else(|| open_in_root_of(pid, Path::new(path)).ok().filter(is_it))
            .or_else(|| open_regular(Path::new(path)).ok().filter(is_it))?;
        let key = key(&file.metadata().ok()?);
        Some(File {
            key,
            bytes: Box::new(CodeFile {
                file,
                map: OnceCell::new(),
                n_maps: self.n_maps.clone(),
            }),
        })
    }

    fn vdso(&mut self) -> Option<Vec<u8>> {
        crate::host::vdso()
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

/// The executable mappings of a process; `None`: they cannot be read, since it has ended or is not ours.
pub(crate) fn maps(pid: i32) -> Option<Vec<Mapping>> {
    let file = std::fs::File::open(format!("/proc/{pid}/maps")).ok()?;
    let text = read_at_most(file, MAPS_BYTES_MAX).ok()?;
    let mappings = parse_maps(&String::from_utf8_lossy(&text));
    (!mappings.is_empty()).then_some(mappings)
}
