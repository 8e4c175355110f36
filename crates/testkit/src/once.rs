//! Files that several test processes need, made by the first of them.
use rustix::fs::{FlockOperation, flock};
use std::path::Path;

/// Makes `target` unless `is_made` says that it is there and new enough. Processes that come meanwhile wait, and then find it made.
/// The lock is a file of its own, `target` with `.lock`: what is locked must not be replaced.
///
/// # Panics
/// If the lock file cannot be made, or `make` panics. Then the next process makes it.
pub fn made_once(target: &Path, is_made: impl FnOnce() -> bool, make: impl FnOnce()) {
    let mut lock = target.as_os_str().to_owned();
    lock.push(".lock");
    let file = std::fs::File::options().write(true).create(true).truncate(false).open(&lock);
    let file = file.unwrap_or_else(|e| panic!("{}: {e}", lock.display()));
    // Given up when it is closed, however this ends.
    flock(&file, FlockOperation::LockExclusive).expect("a lock");
    if !is_made() {
        make();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn of_many_at_once_one_makes_it() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("made");
        let n = AtomicU32::new(0);
        std::thread::scope(|s| {
            for _ in 0..8 {
                s.spawn(|| {
                    let make = || {
                        n.fetch_add(1, Ordering::Relaxed);
                        std::fs::write(&target, "made").unwrap();
                    };
                    made_once(&target, || target.exists(), make);
                    assert_eq!(std::fs::read(&target).unwrap(), b"made");
                });
            }
        });
        assert_eq!(n.into_inner(), 1);
    }
}
