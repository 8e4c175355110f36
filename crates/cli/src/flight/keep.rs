//! The directory of the recordings, and which of them stay.
//!
//! The service may be root's. So the directory must be its own, nobody else may write there, and only what bears the name of a snapshot and is a regular file is
//! ever removed.
use anyhow::{Context, bail};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Entries that are looked at.
const ENTRIES: usize = 100_000;

/// A saved recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// When it was last written, seconds since 1970.
    pub time: i64,
    /// Its name in the directory.
    pub name: String,
    /// Its length.
    pub bytes: u64,
}

/// The directory.
pub struct Kept(OwnedFd);

impl Kept {
    /// Opens it.
    ///
    /// # Errors
    /// When it is not there.
    pub fn open(dir: &Path) -> anyhow::Result<Kept> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(dir, flags, Mode::empty());
        Ok(Kept(fd.with_context(|| format!("{}: cannot open", dir.display()))?))
    }

    /// Makes it, if it is not there, and opens it.
    ///
    /// # Errors
    /// When others may write there.
    pub fn own(dir: &Path) -> anyhow::Result<Kept> {
        match rustix::fs::mkdir(dir, Mode::RWXU) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => bail!("{}: cannot make: {error}", dir.display()),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let fd = rustix::fs::open(dir, flags, Mode::empty());
        let kept = Kept(fd.with_context(|| {
            format!("{}: cannot open, needed a directory that is no link", dir.display())
        })?);
        let facts = rustix::fs::fstat(&kept.0).context("cannot look at the directory")?;
        let me = rustix::process::geteuid().as_raw();
        if facts.st_uid != me || facts.st_mode & 0o022 != 0 {
            bail!(
                "{}: belongs to user {} with mode {:o}, needed a directory of user {me} that nobody else may write",
                dir.display(),
                facts.st_uid,
                facts.st_mode & 0o7777
            );
        }
        Ok(kept)
    }

    /// The recordings, oldest first.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn list(&self) -> anyhow::Result<Vec<File>> {
        let mut files = Vec::new();
        for name in self.names()? {
            let Some(facts) = self.facts(&name).filter(|_| snapshot(&name).is_some()) else {
                continue;
            };
            if FileType::from_raw_mode(facts.st_mode) == FileType::RegularFile {
                files.push(File { time: facts.st_mtime, name, bytes: facts.st_size as u64 });
            }
        }
        files.sort_by(|a, b| (a.time, &a.name).cmp(&(b.time, &b.name)));
        Ok(files)
    }

    /// Directories of recorders that were killed, and for each the name of a recording that is free.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn left(&self) -> anyhow::Result<Vec<(String, String)>> {
        let names = self.names()?;
        let mut left = Vec::new();
        for name in &names {
            let recording = name.strip_suffix(".d").and_then(snapshot);
            let Some((began, 1)) = recording else {
                continue;
            };
            let same = names.iter().filter_map(|name| snapshot(name));
            let last = same.filter(|found| found.0 == began).map(|found| found.1).max();
            let is_directory = |facts: rustix::fs::Stat| {
                FileType::from_raw_mode(facts.st_mode) == FileType::Directory
            };
            if self.facts(name).is_some_and(is_directory) {
                let free = match last {
                    None => format!("flight-{began}.kasuri"),
                    Some(last) => format!("flight-{began}.{}.kasuri", last.saturating_add(1)),
                };
                left.push((name.clone(), free));
            }
        }
        Ok(left)
    }

    /// The first second from this one on of which there is no recording: a recorder that is started again within a second must not write over the one before.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn free_second(&self, mut second: i64) -> anyhow::Result<i64> {
        let names = self.names()?;
        let found = |name: &String| {
            snapshot(name.strip_suffix(".d").unwrap_or(name)).map(|s| s.0.to_owned())
        };
        let taken: HashSet<String> = names.iter().filter_map(found).collect();
        while taken.contains(&second.to_string()) {
            second += 1;
        }
        Ok(second)
    }

    /// Removes what was being packed when its recorder was killed.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn remove_parts(&self) -> anyhow::Result<()> {
        for name in self.names()? {
            if name.strip_suffix(".part").and_then(snapshot).is_some() {
                let _ = rustix::fs::unlinkat(&self.0, &name, AtFlags::empty());
            }
        }
        Ok(())
    }

    fn names(&self) -> anyhow::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.0).context("cannot list")?.take(ENTRIES) {
            let entry = entry.context("cannot list")?;
            names.extend(entry.file_name().to_str().ok().map(str::to_owned));
        }
        Ok(names)
    }

    fn facts(&self, name: &str) -> Option<rustix::fs::Stat> {
        rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW).ok()
    }

    /// Removes the oldest beyond so many bytes in all, and all that are older. Returns the names.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn tidy(&self, bytes: u64, age_s: i64, now_s: i64) -> anyhow::Result<Vec<String>> {
        let mut removed = Vec::new();
        for name in too_many(&self.list()?, bytes, age_s, now_s) {
            if rustix::fs::unlinkat(&self.0, &name, AtFlags::empty()).is_ok() {
                removed.push(name);
            }
        }
        Ok(removed)
    }
}

/// `flight-1795813200.kasuri`, `flight-1795813200.2.kasuri`: when the recorder began, in seconds since 1970, and the number of the snapshot. `None`: it is the name of
/// something else.
fn snapshot(name: &str) -> Option<(&str, u64)> {
    let middle = name.strip_prefix("flight-")?.strip_suffix(".kasuri")?;
    let (began, number) = middle.split_once('.').unwrap_or((middle, "1"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    (is_number(began) && is_number(number)).then_some(())?;
    Some((began, number.parse().ok()?))
}

fn too_many(files: &[File], bytes: u64, age_s: i64, now_s: i64) -> Vec<String> {
    let mut sum: u64 = files.iter().map(|file| file.bytes).sum();
    let mut out = Vec::new();
    for file in files {
        if sum > bytes || now_s.saturating_sub(file.time) > age_s {
            sum -= file.bytes;
            out.push(file.name.clone());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_snapshots_have_the_name_of_one() {
        for good in ["flight-1795813200.kasuri", "flight-1795813200.12.kasuri"] {
            assert!(snapshot(good).is_some(), "{good}");
        }
        for bad in [
            "flight-.kasuri",
            "flight-1795813200.kasuri.d",
            "flight-1795813200..kasuri",
            "flight-1795813200.a.kasuri",
            "flight-1795813200.1.2.kasuri",
            "run.kasuri",
            "flight-1795813200",
        ] {
            assert_eq!(snapshot(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_oldest_go_first_and_no_more_than_needed() {
        let file = |time, bytes| File { time, name: time.to_string(), bytes };
        let files = [file(10, 5), file(20, 5), file(30, 5)];
        let none: Vec<String> = Vec::new();
        assert_eq!(too_many(&files, 15, 100, 40), none);
        assert_eq!(too_many(&files, 14, 100, 40), ["10"]);
        assert_eq!(too_many(&files, 15, 15, 40), ["10", "20"]);
        assert_eq!(too_many(&files, 0, 100, 40).len(), 3);
    }

    #[test]
    fn what_killed_recorders_left_is_found_and_gets_a_free_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path();
        for name in ["flight-7.kasuri.d", "flight-8.kasuri.d", "other.kasuri.d"] {
            std::fs::create_dir(path.join(name)).unwrap();
        }
        for name in [
            "flight-8.kasuri",
            "flight-8.4.kasuri",
            "flight-9.kasuri.d",
            "flight-8.5.kasuri.part",
            "my.part",
        ] {
            std::fs::write(path.join(name), "x").unwrap();
        }
        let kept = Kept::own(path).unwrap();
        let mut left = kept.left().unwrap();
        left.sort();
        let expected =
            [("flight-7.kasuri.d", "flight-7.kasuri"), ("flight-8.kasuri.d", "flight-8.5.kasuri")];
        assert_eq!(left, expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
        assert_eq!(kept.free_second(6).unwrap(), 6);
        assert_eq!(kept.free_second(7).unwrap(), 10);
        kept.remove_parts().unwrap();
        assert!(!path.join("flight-8.5.kasuri.part").exists());
        assert!(path.join("my.part").exists());
    }

    #[test]
    fn what_is_no_snapshot_stays_and_shared_directories_are_refused() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path();
        let outside = tempfile::NamedTempFile::new().unwrap();
        let name = "flight-1795813200.kasuri";
        std::fs::write(path.join(name), "x").unwrap();
        symlink(outside.path(), path.join("flight-1795813200.2.kasuri")).unwrap();
        std::fs::write(path.join("precious"), "x").unwrap();
        let removed = Kept::own(path).unwrap().tidy(0, 0, i64::MAX).unwrap();
        assert_eq!(removed, [name]);
        assert!(outside.path().exists() && path.join("precious").exists());
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
        let why = Kept::own(path).err().unwrap().to_string();
        assert!(why.contains("nobody else may write"), "{why}");
    }
}
