//! What takes long to learn of this machine and stays true until it is started again is kept on the disk.
//!
//! Each is a file that only the user who made it can read, in a directory that nobody else can change. What another user may have
//! written is not read. docs/security.md.
use crate::guard::safefs::{self, Access, Held};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Bytes of a file below /proc or /sys.
const FACT_BYTES_MAX: u64 = 1 << 20;
/// Bytes of a number that tells one boot from others.
pub(crate) const BOOT_BYTES: usize = 16;

/// The directory.
pub(crate) struct Kept {
    dir: Held,
}

impl Kept {
    /// The user's, made if need be; `None`: there is none that this user alone can change.
    pub(crate) fn own() -> Option<Kept> {
        let path = directory_path(&|name| std::env::var_os(name).map(PathBuf::from))?;
        Kept::at(&path)
    }

    pub(crate) fn at(path: &Path) -> Option<Kept> {
        let (parent, name) = Held::parent_of(path).ok()?;
        let dir = parent.directory(&name).or_else(|_| parent.make(&name));
        let dir = dir.ok()?;
        (dir.is_ours_alone().unwrap_or(false)).then_some(Kept { dir })
    }

    /// A file, if nobody else can have written it.
    pub(crate) fn file(&self, name: &str) -> Option<File> {
        let file = self.dir.file(name, Access::Read).ok()?;
        let meta = file.metadata().ok()?;
        let is_ours = meta.uid() == rustix::process::geteuid().as_raw();
        (is_ours && meta.mode() & 0o077 == 0).then_some(file)
    }

    /// Keeps a file. Where that is not possible it is learned again the next time.
    pub(crate) fn put(&self, name: &str, bytes: &[u8]) {
        let _ = self.dir.publish(name, format!("{name}.new"), bytes);
    }
}

/// Root's is not where a user's variables lead, which sudo(8) may leave.
fn directory_path(variable: &dyn Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let absolute = |path: PathBuf| path.is_absolute().then_some(path);
    if let Some(given) = variable("KASURI_CACHE_DIR") {
        return absolute(given);
    }
    if rustix::process::geteuid().is_root() {
        return Some("/var/cache/kasuri".into());
    }
    let cache = variable("XDG_CACHE_HOME").and_then(absolute);
    let cache = cache.or_else(|| Some(variable("HOME").and_then(absolute)?.join(".cache")));
    Some(cache?.join("kasuri"))
}

/// Tells this boot of the machine from others.
pub(crate) fn boot() -> Option<[u8; BOOT_BYTES]> {
    let text = fact("/proc/sys/kernel/random/boot_id")?;
    let mut boot = [0; BOOT_BYTES];
    let digits = text.iter().filter_map(|b| char::from(*b).to_digit(16));
    for (at, digit) in digits.take(2 * BOOT_BYTES).enumerate() {
        boot[at / 2] = boot[at / 2] << 4 | digit as u8;
    }
    Some(boot)
}

/// A file below /proc or /sys.
pub(crate) fn fact(path: &str) -> Option<Vec<u8>> {
    let file = safefs::open_regular(Path::new(path)).ok()?;
    safefs::read_at_most(file, FACT_BYTES_MAX).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_files_are_not_where_a_users_variables_lead() {
        let is_root = rustix::process::geteuid().is_root();
        let users = |name: &str| (name != "KASURI_CACHE_DIR").then(|| "/home/a".into());
        let expected = if is_root { "/var/cache/kasuri" } else { "/home/a/kasuri" };
        assert_eq!(directory_path(&users), Some(expected.into()));
        assert_eq!(directory_path(&|_| Some("/given".into())), Some("/given".into()));
        assert_eq!(directory_path(&|_| Some("not/absolute".into())), None);
    }
}
