//! Which processes of the program have mapped which files as code, for the one question whether one of them should have come with
//! annotations.
use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;

/// Most files that are known, and most pairs of a file and a process. Of others nothing is said.
const FILES_MAX: usize = 1 << 12;
const PAIRS_MAX: usize = 1 << 16;

/// Files by device and inode.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    files: HashMap<((u32, u32), u64), LoadedFile>,
    n_pairs: usize,
}

/// A file that processes have mapped as code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoadedFile {
    /// Its name at that time, in the root directory of the process.
    pub(crate) path: PathBuf,
    pub(crate) inode: u64,
    pub(crate) pids: BTreeSet<i32>,
}

impl Loaded {
    /// Notes a mapping. What has no file is not noted.
    pub(super) fn add(&mut self, pid: i32, path: &str, device: (u32, u32), inode: u64) {
        let key = (device, inode);
        let fits = self.n_pairs < PAIRS_MAX
            && (self.files.len() < FILES_MAX || self.files.contains_key(&key));
        if inode == 0 || !path.starts_with('/') || !fits {
            return;
        }
        let file = self.files.entry(key).or_insert_with(|| LoadedFile {
            path: path.into(),
            inode,
            pids: BTreeSet::new(),
        });
        self.n_pairs += usize::from(file.pids.insert(pid));
    }

    /// All of them, by their names.
    pub(super) fn files(&self) -> Vec<LoadedFile> {
        let mut files: Vec<LoadedFile> = self.files.values().cloned().collect();
        files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        files
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_mapped_without_end_take_bounded_memory() {
        let mut loaded = Loaded::default();
        for inode in 0..2 * FILES_MAX as u64 {
            loaded.add(1, "/a", (8, 1), inode);
        }
        assert_eq!(loaded.files().len(), FILES_MAX);
        for pid in 0..2 * PAIRS_MAX as i32 {
            loaded.add(pid, "/a", (8, 1), 1);
        }
        let pairs: usize = loaded.files().iter().map(|file| file.pids.len()).sum();
        assert_eq!(pairs, PAIRS_MAX);
    }

    #[test]
    fn a_file_has_the_processes_that_mapped_it() {
        let mut loaded = Loaded::default();
        for (pid, path, inode) in [(1, "/b", 5), (2, "/b", 5), (2, "/a", 6), (3, "[vdso]", 0)] {
            loaded.add(pid, path, (8, 1), inode);
        }
        let is = |path: &str, pids: &[i32]| (PathBuf::from(path), pids.iter().copied().collect());
        let files = loaded.files().into_iter().map(|file| (file.path, file.pids));
        assert_eq!(files.collect::<Vec<_>>(), [is("/a", &[2]), is("/b", &[1, 2])]);
    }
}
