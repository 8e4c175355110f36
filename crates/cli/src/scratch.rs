//! A directory for what a command writes for itself alone. Its command removes it; who is killed leaves it to the next command that
//! makes one of the same kind in the same place. Whose command lives is told by a lock on the directory, which ends with its process.
use crate::cmd::shm_dir;
use anyhow::Context;
use kasuri_record::safefs::Held;
use kasuri_record::session;
use rustix::fs::{FlockOperation, flock};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Letters and digits by which the names of one kind differ: more than a person gives a name by chance.
const RANDOM: usize = 16;
/// Most names that are looked at for what others left.
const NAMES_MAX: usize = 65_536;

/// Such a directory, removed when dropped.
pub struct Scratch {
    dir: tempfile::TempDir,
    _lock: Held,
}

impl Scratch {
    /// In the directory for temporary files, for a command of this kind: a word.
    ///
    /// # Errors
    /// When none can be made.
    pub fn new(kind: &str) -> anyhow::Result<Scratch> {
        Scratch::new_in(kind, &std::env::temp_dir())
    }

    /// As [`Scratch::new`], in `parent`.
    ///
    /// # Errors
    /// As there.
    pub fn new_in(kind: &str, parent: &Path) -> anyhow::Result<Scratch> {
        let prefix = format!("kasuri-{kind}-");
        let cannot = || format!("{}: cannot make a directory for `{kind}`", parent.display());
        remove_left(&prefix, parent);
        loop {
            let dir = tempfile::Builder::new()
                .prefix(&prefix)
                .rand_bytes(RANDOM)
                .permissions(Permissions::from_mode(0o700))
                .tempdir_in(parent)
                .with_context(cannot)?;
            let held = Held::open(dir.path()).with_context(cannot)?;
            let locked = flock(&held, FlockOperation::NonBlockingLockExclusive);
            // Another command may have taken it for a dead one's, before it had its lock.
            if locked.is_ok() && held.stat()?.st_nlink > 0 {
                return Ok(Scratch { dir, _lock: held });
            }
        }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }
}

/// Removes what commands of our user left that were killed; whatever cannot be removed stays.
fn remove_left(prefix: &str, parent: &Path) {
    let Ok(place) = Held::open(parent) else {
        return;
    };
    let is_one = |name: &str| {
        let random = name.strip_prefix(prefix).unwrap_or_default();
        random.len() == RANDOM && random.bytes().all(|b| b.is_ascii_alphanumeric())
    };
    let names = place.names(NAMES_MAX).unwrap_or_default();
    for name in names.iter().filter(|name| is_one(name)) {
        let Ok(left) = place.directory(name) else {
            continue;
        };
        let me = rustix::process::geteuid().as_raw();
        let is_ours =
            left.stat().is_ok_and(|stat| stat.st_uid == me && stat.st_mode & 0o7777 == 0o700);
        if is_ours && flock(&left, FlockOperation::NonBlockingLockExclusive).is_ok() {
            empty(&left);
            let _ = place.remove_directory(name, &left);
        }
    }
}

/// Removes all in it, and the rings of recordings that it holds. Links are removed, not followed.
fn empty(dir: &Held) {
    session::discard(dir, &shm_dir());
    for name in dir.names(usize::MAX).unwrap_or_default() {
        if let Ok(inner) = dir.directory(&name) {
            empty(&inner);
            let _ = dir.remove_directory(&name, &inner);
        } else {
            let _ = dir.remove(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn what_a_killed_command_left_goes_and_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let make = |name: &str, mode: u32| {
            let dir = place.path().join(name);
            std::fs::create_dir_all(dir.join("s.kasuri.d")).unwrap();
            std::fs::write(dir.join("s.kasuri.d/meta.json"), "{}").unwrap();
            std::fs::set_permissions(&dir, Permissions::from_mode(mode)).unwrap();
            dir
        };
        let thesis = make("thesis", 0o700);
        let left = make("kasuri-try-0123456789abcdef", 0o700);
        symlink(&thesis, left.join("link")).unwrap();
        symlink(&thesis, left.join("s.kasuri.d/session")).unwrap();
        symlink(&thesis, place.path().join("kasuri-try-00000000000000aa")).unwrap();
        let others = [
            make("kasuri-try-my-notes", 0o700),
            make("kasuri-try-fedcba9876543210", 0o755),
            make("kasuri-lab-0123456789abcdef", 0o700),
        ];
        let lives = Scratch::new_in("try", place.path()).unwrap();
        assert!(!left.exists());
        let second = Scratch::new_in("try", place.path()).unwrap();
        assert!(lives.path().exists() && second.path().exists());
        for other in others.iter().chain([&thesis]) {
            assert!(other.join("s.kasuri.d/meta.json").exists(), "{other:?}");
        }
    }
}
