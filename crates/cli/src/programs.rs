//! Programs that Kasuri starts by itself: found on the user's PATH, never in the working directory.
//!
//! A program that the user named (`kasuri record -- PROGRAM`) is another matter: it is what the user's shell would start.
use std::path::PathBuf;

/// The programs of that name on the PATH, in order. Entries that are empty or relative mean the working directory, where a stranger's
/// recording may lie beside a stranger's `duckdb`: they are left out.
pub fn all(name: &str) -> impl Iterator<Item = PathBuf> {
    in_dirs(&std::env::var_os("PATH").unwrap_or_default(), name).into_iter()
}

/// The first of them.
pub fn find(name: &str) -> Option<PathBuf> {
    all(name).next()
}

fn in_dirs(path: &std::ffi::OsStr, name: &str) -> Vec<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let is_program = |path: &PathBuf| {
        let meta = std::fs::metadata(path);
        meta.is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(path)
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join(name))
        .filter(is_program)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_working_directory_is_not_searched() {
        // Only absolute entries count: neither the current directory nor a path relative to it.
        let here = std::env::current_dir().unwrap();
        let sh = in_dirs("/nowhere:/bin".as_ref(), "sh");
        assert_eq!(sh, [PathBuf::from("/bin/sh")]);
        let up = "../".repeat(here.components().count());
        for path in ["", ".", ":", &format!("{up}bin"), "::.:"] {
            assert_eq!(in_dirs(path.as_ref(), "sh"), Vec::<PathBuf>::new(), "{path}");
        }
        let listed = in_dirs("/etc".as_ref(), "passwd");
        assert!(listed.is_empty(), "not executable: {listed:?}");
    }
}
