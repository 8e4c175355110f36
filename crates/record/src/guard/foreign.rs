//! Removes directories of Kasuri in which other programs may have put files.
use crate::guard::bounds::MAX_NAMES;
use crate::guard::safefs::Held;
use kasuri_base::words::shell_word;
use std::ffi::OsStr;
use std::path::PathBuf;

/// Files that Kasuri did not make, which keep a directory of its own where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Foreign {
    dir: PathBuf,
    n_files: usize,
    /// Names of some of them.
    examples: Vec<String>,
}

impl std::fmt::Display for Foreign {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} stays, with {} files that Kasuri did not make (such as {}); `rm -r {}` removes it",
            self.dir.display(),
            self.n_files,
            self.examples.join(", "),
            shell_word(&self.dir)
        )
    }
}

/// Removes the files of `dir` whose names Kasuri gives (`is_ours`), one by one, those named in `last` after the others and in that
/// order, then `dir` itself, which is `name` in `parent`. Anything else stays, and the directory with it, because its owner is unknown
/// and may want it.
pub(crate) fn remove(
    parent: &Held,
    name: impl AsRef<OsStr>,
    dir: &Held,
    is_ours: impl Fn(&str) -> bool,
    last: &[&str],
) -> Option<Foreign> {
    let mut foreign = Foreign { dir: dir.path().to_owned(), n_files: 0, examples: Vec::new() };
    let mut files = dir.names(MAX_NAMES).unwrap_or_default();
    files.sort_by_key(|file| last.iter().position(|name| name == file));
    for file in files {
        crate::testhook::point("unlink");
        // An entry with one of our names may be a directory, which stays.
        if !is_ours(&file) || dir.remove(&file).is_err() && dir.stat_of(&file).is_ok() {
            foreign.n_files += 1;
            if foreign.examples.len() < 3 {
                foreign.examples.push(file);
            }
        }
    }
    let removed = parent.remove_directory(name, dir);
    (removed.is_err() && foreign.n_files > 0).then_some(foreign)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory() -> (tempfile::TempDir, Held, Held) {
        let scratch = tempfile::tempdir().unwrap();
        let parent = Held::open(scratch.path()).unwrap();
        let dir = parent.make("session").unwrap();
        std::fs::write(scratch.path().join("session/ours"), "").unwrap();
        (scratch, parent, dir)
    }

    #[test]
    fn a_directory_of_our_files_goes() {
        let (scratch, parent, dir) = directory();
        assert_eq!(remove(&parent, "session", &dir, |n| n == "ours", &[]), None);
        assert!(!scratch.path().join("session").exists());
    }

    #[test]
    fn what_others_put_there_stays_and_is_named() {
        let (scratch, parent, dir) = directory();
        let at = |name: &str| scratch.path().join("session").join(name);
        for name in ["a", "b", "c", "d e"] {
            std::fs::write(at(name), "").unwrap();
        }
        let foreign = remove(&parent, "session", &dir, |n| n == "ours", &[]).unwrap();
        assert!(!at("ours").exists() && at("d e").exists());
        assert_eq!((foreign.n_files, foreign.examples.len()), (4, 3));
        let said = foreign.to_string();
        assert!(said.contains("4 files") && said.contains("`rm -r /"), "{said}");
    }

    #[test]
    fn a_directory_under_the_name_of_a_file_of_ours_is_named() {
        let (scratch, parent, dir) = directory();
        std::fs::create_dir(scratch.path().join("session/control")).unwrap();
        let foreign = remove(&parent, "session", &dir, |_| true, &[]).unwrap();
        assert_eq!(foreign.examples, ["control"]);
    }

    #[test]
    fn another_directory_that_took_the_name_stays() {
        let (scratch, parent, dir) = directory();
        let at = |name: &str| scratch.path().join(name);
        std::fs::rename(at("session"), at("moved")).unwrap();
        std::fs::create_dir(at("session")).unwrap();
        assert_eq!(remove(&parent, "session", &dir, |n| n == "ours", &[]), None);
        assert!(at("session").exists() && !at("moved/ours").exists());
    }
}
