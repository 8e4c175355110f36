//! Keeps a user's small files between runs, in the first of several directories that this user can write.
//!
//! Some of these directories lie where any user may make files, and root may run with another user's environment. So
//! a directory is taken only when it is no link, belongs to this user, and no other user may write in it. Its files
//! are reached through its descriptor only, so that a later exchange of its name has no effect.
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Bytes of a file that is read.
const MAX_BYTES: u64 = 16 << 20;

/// Directories for this user's files, best first: `$XDG_CACHE_HOME`, usually `~/.cache`, and for users without a home that they can write
/// `$XDG_RUNTIME_DIR`, which lasts until they log out, and /tmp, which lasts until the machine restarts.
fn places(variable: impl Fn(&str) -> Option<PathBuf>) -> Vec<PathBuf> {
    let absolute = |name: &str| variable(name).filter(|path| path.is_absolute());
    let uid = rustix::process::geteuid().as_raw();
    let cache = absolute("XDG_CACHE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
        .map(|dir| dir.join("kasuri"));
    let runtime = absolute("XDG_RUNTIME_DIR").map(|dir| dir.join("kasuri"));
    let temporary = PathBuf::from(format!("/tmp/kasuri-cache-{uid}"));
    [cache, runtime, Some(temporary)].into_iter().flatten().collect()
}

fn all_places() -> Vec<PathBuf> {
    places(|name| std::env::var_os(name).map(PathBuf::from))
}

/// The file `name` from each place that has one.
pub fn read_all(name: &str) -> Vec<Vec<u8>> {
    let places = all_places().into_iter();
    places.filter_map(|place| read(&open(&place).ok()?, name).ok()).collect()
}

/// Replaces the file `name` as a whole, in the first place that takes it. Returns false when none does.
pub fn write(name: &str, bytes: &[u8]) -> bool {
    write_in(&all_places(), name, bytes)
}

fn write_in(places: &[PathBuf], name: &str, bytes: &[u8]) -> bool {
    places.iter().any(|place| make(place).and_then(|dir| replace(&dir, name, bytes)).is_ok())
}

/// Opens a place, and makes it first if it is not there.
fn make(place: &Path) -> io::Result<OwnedFd> {
    if let Some(parent) = place.parent() {
        std::fs::create_dir_all(parent)?;
    }
    match rustix::fs::mkdir(place, Mode::from_raw_mode(0o700)) {
        Ok(()) | Err(Errno::EXIST) => open(place),
        Err(e) => Err(e.into()),
    }
}

fn open(place: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
    let dir = rustix::fs::open(place, flags, Mode::empty())?;
    is_ours(&rustix::fs::fstat(&dir)?, FileType::Directory)?;
    Ok(dir)
}

fn read(dir: &OwnedFd, name: &str) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(dir, name, flags, Mode::empty())?;
    is_ours(&rustix::fs::fstat(&file)?, FileType::RegularFile)?;
    let mut bytes = Vec::new();
    File::from(file).take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn replace(dir: &OwnedFd, name: &str, bytes: &[u8]) -> io::Result<()> {
    let part = format!("{name}.{}.part", std::process::id());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o600);
    // A process with this number may have left it when it was killed.
    let _ = rustix::fs::unlinkat(dir, &part, AtFlags::empty());
    let written = rustix::fs::openat(dir, &part, flags, mode)
        .map_err(io::Error::from)
        .and_then(|file| File::from(file).write_all(bytes))
        .and_then(|()| Ok(rustix::fs::renameat(dir, &part, dir, name)?));
    if written.is_err() {
        let _ = rustix::fs::unlinkat(dir, &part, AtFlags::empty());
    }
    written
}

fn is_ours(stat: &Stat, kind: FileType) -> io::Result<()> {
    let right = FileType::from_raw_mode(stat.st_mode) == kind
        && stat.st_uid == rustix::process::geteuid().as_raw()
        && stat.st_mode & 0o022 == 0;
    match right {
        true => Ok(()),
        false => Err(io::ErrorKind::PermissionDenied.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_user_without_a_home_has_places_too() {
        let with = |known: &[(&str, &str)]| {
            let places = places(|name| {
                let found = known.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| PathBuf::from(value))
            });
            let texts = places.iter().map(|p| p.display().to_string());
            texts.collect::<Vec<_>>()
        };
        let tmp = format!("/tmp/kasuri-cache-{}", rustix::process::geteuid().as_raw());
        assert_eq!(with(&[]), [tmp.as_str()]);
        assert_eq!(
            with(&[("HOME", "/h"), ("XDG_RUNTIME_DIR", "/run/user/1")]),
            ["/h/.cache/kasuri", "/run/user/1/kasuri", &tmp]
        );
        assert_eq!(with(&[("HOME", "/h"), ("XDG_CACHE_HOME", "/c")]), ["/c/kasuri", &tmp]);
        assert_eq!(with(&[("HOME", "relative")]), [tmp.as_str()]);
    }

    #[test]
    fn what_cannot_be_written_or_belongs_to_others_is_passed_over() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        // No directory; a link to one of ours; one in which others may write; none of that.
        std::fs::write(at("file"), "").unwrap();
        std::fs::create_dir(at("victim")).unwrap();
        symlink(at("victim"), at("link")).unwrap();
        std::fs::create_dir(at("open")).unwrap();
        std::fs::set_permissions(at("open"), PermissionsExt::from_mode(0o777)).unwrap();
        let places = [at("file/kasuri"), at("link"), at("open"), at("new/kasuri")];
        for text in ["one", "two"] {
            assert!(write_in(&places, "costs.json", text.as_bytes()));
            let dir = open(&places[3]).unwrap();
            assert_eq!(read(&dir, "costs.json").unwrap(), text.as_bytes());
        }
        assert_eq!(std::fs::read_dir(at("victim")).unwrap().count(), 0);
        assert_eq!(std::fs::read_dir(at("open")).unwrap().count(), 0);
        assert_eq!(std::fs::read_dir(&places[3]).unwrap().count(), 1);
        let mode = std::fs::metadata(&places[3]).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        assert!(!write_in(&places[..3], "costs.json", b"x"));
        // A link in place of the file is not followed: it is not read, and a write replaces it.
        std::fs::remove_file(places[3].join("costs.json")).unwrap();
        std::fs::write(at("secret"), "secret").unwrap();
        symlink(at("secret"), places[3].join("costs.json")).unwrap();
        let dir = open(&places[3]).unwrap();
        assert!(read(&dir, "costs.json").is_err());
        assert!(write_in(&places, "costs.json", b"new"));
        assert_eq!(std::fs::read(at("secret")).unwrap(), b"secret");
    }
}
