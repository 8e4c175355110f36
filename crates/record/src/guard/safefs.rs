//! Files in directories that others may write.
//!
//! The recorder often runs as root, and works in directories of other users: the session that it gave to the user of
//! an attached program, `/dev/shm`, a recording directory out of another user's archive. Any user who may write there
//! can at any moment put a link, a FIFO or another directory in the place of a name. So:
//!
//! - a directory is opened once ([`Held`]), and everything in it is done through that descriptor, with names of one component;
//! - nothing is ever followed: a link where a file should be is an error ([`Access`]);
//! - nothing blocks: files are opened without blocking, and anything but a regular file is refused;
//! - a file to be replaced is unlinked and made anew, so no other name of the same file is written.
//!
//! This module is the only one of the crate that changes owners, modes or names, removes files, or opens files that
//! other users may have put there; `tests/lint/session-paths` refuses such calls elsewhere.
use rustix::fs::{
    AtFlags, FileType, FlockOperation, Mode, OFlags, ResolveFlags, Stat, fchmod, fchown, flock,
    fstat, linkat, mkdirat, open, openat, openat2, readlinkat, renameat, statat, symlinkat,
    unlinkat,
};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The purpose for which a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading a file that is there.
    Read,
    /// Reading and writing a file that is there, shared with others.
    Shared,
    /// Writing a file that must not be there yet.
    New,
    /// Writing an empty file; one that is there loses its name first.
    Replace,
    /// Writing at the end of a file, made if need be.
    Append,
}

/// An open directory. All access to its entries goes through the descriptor, so another directory under its name has
/// no effect.
#[derive(Clone, Debug)]
pub struct Held {
    fd: Arc<OwnedFd>,
    path: PathBuf,
}

impl AsFd for Held {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);

impl Held {
    /// Opens a directory that our own user named: the user may have put links on the way to it.
    ///
    /// # Errors
    /// When it is no directory or may not be read.
    pub fn open(path: &Path) -> io::Result<Held> {
        Held::of(open(path, DIRECTORY, Mode::empty())?, path)
    }

    /// Opens the directory that holds `path`. Also returns the name of `path` in it.
    ///
    /// # Errors
    /// When there is none, or `path` names no entry of a directory (`..`, `/`).
    pub fn parent_of(path: &Path) -> io::Result<(Held, OsString)> {
        let name = path.file_name();
        let name = name.ok_or_else(|| io::Error::other("no usable name for a file"))?;
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        Ok((Held::open(parent)?, name.to_owned()))
    }

    fn of(fd: OwnedFd, path: &Path) -> io::Result<Held> {
        Ok(Held { fd: Arc::new(fd), path: path.to_owned() })
    }

    /// Makes a directory for our user alone. The name must be free.
    ///
    /// # Errors
    /// When it cannot be made, or another directory has its name by the time it is opened.
    pub fn make(&self, name: impl AsRef<OsStr>) -> io::Result<Held> {
        let made = Mode::from_raw_mode(0o700);
        mkdirat(&self.fd, component(&name)?, made)?;
        let dir = self.directory(&name)?;
        // A user who may rename entries here could have put another directory in its place.
        if dir.stat()?.st_uid != rustix::process::geteuid().as_raw() {
            return Err(io::Error::other("another user has replaced it"));
        }
        // mkdirat(2) applies the umask.
        fchmod(&dir.fd, made)?;
        Ok(dir)
    }

    /// Opens a directory in this one; a link to one is refused.
    ///
    /// # Errors
    /// When it is no directory.
    pub fn directory(&self, name: impl AsRef<OsStr>) -> io::Result<Held> {
        let fd = beneath(&self.fd, component(&name)?, DIRECTORY, Mode::empty())?;
        Held::of(fd, &self.path.join(name.as_ref()))
    }

    /// The same directory, with the name that the user knows.
    pub fn called(self, path: &Path) -> Held {
        Held { path: path.to_owned(), ..self }
    }

    /// Its name when it was opened: for messages only.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The name of a file in it: for messages only.
    pub fn named(&self, name: impl AsRef<OsStr>) -> PathBuf {
        self.path.join(name.as_ref())
    }

    /// Opens a regular file that has no other name. Never blocks, never follows a link.
    ///
    /// # Errors
    /// When it is missing (or there, for [`Access::New`]), is no regular file, or has another name.
    pub fn file(&self, name: impl AsRef<OsStr>, access: Access) -> io::Result<File> {
        let name = component(&name)?;
        let how = match access {
            Access::Read => OFlags::RDONLY,
            Access::Shared => OFlags::RDWR,
            Access::New | Access::Replace => OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
            Access::Append => OFlags::RDWR | OFlags::CREATE | OFlags::APPEND,
        };
        if access == Access::Replace {
            match unlinkat(&self.fd, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(e) => return Err(e.into()),
            }
        }
        // Its type is checked before it is opened: opening a device may already have an effect.
        match statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => regular(&stat)?,
            Err(Errno::NOENT) if how.contains(OFlags::CREATE) => {}
            Err(e) => return Err(e.into()),
        }
        let flags = how | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let fd = beneath(&self.fd, name, flags, Mode::from_raw_mode(0o600))?;
        let stat = fstat(&fd)?;
        regular(&stat)?;
        if stat.st_nlink > 1 {
            return Err(io::Error::other("it is a file with a second name"));
        }
        Ok(File::from(fd))
    }

    /// All of a file of at most `limit` bytes.
    ///
    /// # Errors
    /// As [`Held::file`], or when it is longer.
    pub fn read(&self, name: impl AsRef<OsStr>, limit: u64) -> io::Result<Vec<u8>> {
        read_at_most(self.file(name, Access::Read)?, limit)
    }

    /// Whether it and what is in it can be changed by our user alone (and by root).
    ///
    /// # Errors
    /// When the file system fails.
    pub fn is_ours_alone(&self) -> io::Result<bool> {
        let stat = self.stat()?;
        let others = Mode::WGRP | Mode::WOTH;
        let is_ours = stat.st_uid == rustix::process::geteuid().as_raw();
        Ok(is_ours && !Mode::from_raw_mode(stat.st_mode).intersects(others))
    }

    /// Puts a file with these bytes under a name, in place of what has it; for our user alone. Whoever opens the name gets all of
    /// the old file or all of the new one. `on_the_way` is a second name, which is free again at the end.
    ///
    /// # Errors
    /// When a name is a directory's, or the file system is full or makes no files without a name.
    pub fn publish(
        &self,
        name: impl AsRef<OsStr>,
        on_the_way: impl AsRef<OsStr>,
        bytes: &[u8],
    ) -> io::Result<()> {
        use std::io::Write;
        let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
        let made = Mode::from_raw_mode(0o600);
        let mut file = File::from(openat(&self.fd, ".", flags, made)?);
        file.write_all(bytes)?;
        // linkat(2) replaces nothing, so the whole file gets a name first, and then the other's place. Of two that do this at once
        // one may rename the other's file, which is whole, too.
        let on_the_way = component(&on_the_way)?;
        match unlinkat(&self.fd, on_the_way, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(e) => return Err(e.into()),
        }
        let nameless = format!("/proc/self/fd/{}", file.as_raw_fd());
        let follow = AtFlags::SYMLINK_FOLLOW;
        linkat(rustix::fs::CWD, nameless, &self.fd, on_the_way, follow)?;
        self.rename(on_the_way, name)
    }

    /// At most `limit` names of its entries, in no order; names that are not UTF-8 are left out.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn names(&self, limit: usize) -> io::Result<Vec<String>> {
        let entries = rustix::fs::Dir::read_from(&self.fd)?.filter_map(Result::ok);
        let names = entries.filter_map(|e| Some(e.file_name().to_str().ok()?.to_owned()));
        Ok(names.filter(|n| n != "." && n != "..").take(limit).collect())
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// When it is no symbolic link.
    pub fn link(&self, name: impl AsRef<OsStr>) -> io::Result<PathBuf> {
        let target = readlinkat(&self.fd, component(&name)?, Vec::new())?;
        Ok(PathBuf::from(OsString::from_vec(target.into_bytes())))
    }

    /// Makes a symbolic link. A name that is taken is an error, and stays as it is.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn make_link(&self, target: &Path, name: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(symlinkat(target, &self.fd, component(&name)?)?)
    }

    /// Gives the link `name` to another user. The link changes its owner, its target does not.
    ///
    /// # Errors
    /// When we have no permission.
    pub fn give_link(&self, name: impl AsRef<OsStr>, uid: u32, gid: u32) -> io::Result<()> {
        let owner = (Some(rustix::fs::Uid::from_raw(uid)), Some(rustix::fs::Gid::from_raw(gid)));
        let name = component(&name)?;
        Ok(rustix::fs::chownat(&self.fd, name, owner.0, owner.1, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Type and owner of an entry; a link is not followed.
    ///
    /// # Errors
    /// When it is not there.
    pub fn stat_of(&self, name: impl AsRef<OsStr>) -> io::Result<Stat> {
        Ok(statat(&self.fd, component(&name)?, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Type and owner of the directory itself.
    ///
    /// # Errors
    /// When the file system fails.
    pub fn stat(&self) -> io::Result<Stat> {
        Ok(fstat(&self.fd)?)
    }

    /// Removes an entry that is not a directory.
    ///
    /// # Errors
    /// When it is a directory, or does not exist.
    pub fn remove(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(unlinkat(&self.fd, component(&name)?, AtFlags::empty())?)
    }

    /// Removes the empty directory `dir`, which is `name` in here. If another directory has that name by now, it
    /// stays.
    ///
    /// # Errors
    /// When it is not empty, or does not exist.
    pub fn remove_directory(&self, name: impl AsRef<OsStr>, dir: &Held) -> io::Result<()> {
        let (now, then) = (self.stat_of(&name)?, dir.stat()?);
        if (now.st_dev, now.st_ino) != (then.st_dev, then.st_ino) {
            return Err(io::Error::other("it has been replaced"));
        }
        Ok(unlinkat(&self.fd, component(&name)?, AtFlags::REMOVEDIR)?)
    }

    /// Renames an entry within the directory.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn rename(&self, from: impl AsRef<OsStr>, to: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(renameat(&self.fd, component(&from)?, &self.fd, component(&to)?)?)
    }
}

/// Gives an open file or directory to another user.
///
/// # Errors
/// When we have no permission.
pub fn give(file: impl AsFd, uid: u32, gid: u32) -> io::Result<()> {
    let owner = Some(rustix::fs::Uid::from_raw(uid));
    let group = Some(rustix::fs::Gid::from_raw(gid));
    Ok(fchown(file, owner, group)?)
}

/// Opens a regular file for reading whose name another user may have chosen: no device is opened, and nothing blocks.
///
/// # Errors
/// When it does not exist or is no regular file.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let seen = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    reopen(&seen)
}

/// Opens a regular file by its name inside the root directory of process `pid`. Absolute links are resolved as that
/// process would resolve them.
///
/// # Errors
/// As [`open_regular`].
pub fn open_in_root_of(pid: i32, path: &Path) -> io::Result<File> {
    let root = open(
        format!("/proc/{pid}/root"),
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    reopen(&look_in_root(&root, path)?)
}

/// Opens a directory by its name inside the root directory of process `pid`, as [`open_in_root_of`] does files.
///
/// # Errors
/// When it does not exist or is no directory.
pub fn directory_in_root_of(pid: i32, path: &Path) -> io::Result<Held> {
    let root = open(
        format!("/proc/{pid}/root"),
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let seen = look_in_root(&root, path)?;
    // Opened again: it was opened as a name only.
    Held::of(openat(&seen, ".", DIRECTORY, Mode::empty())?, path)
}

fn look_in_root(root: &OwnedFd, path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let inside = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    match openat2(root, path, flags, Mode::empty(), inside) {
        Err(e) if lacks_openat2(e) => walk(root, path),
        other => Ok(other?),
    }
}

/// The way without openat2(2): one component after another. Any link is refused; the names in the kernel's lists
/// contain none.
fn walk(root: &OwnedFd, path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mut at = openat(root, ".", flags | OFlags::DIRECTORY, Mode::empty())?;
    for part in path.components() {
        let std::path::Component::Normal(part) = part else {
            continue;
        };
        at = openat(&at, part, flags, Mode::empty())?;
        if FileType::from_raw_mode(fstat(&at)?.st_mode) == FileType::Symlink {
            return Err(Errno::LOOP.into());
        }
    }
    Ok(at)
}

/// Opens for reading a file that was opened with O_PATH.
fn reopen(seen: &OwnedFd) -> io::Result<File> {
    regular(&fstat(seen)?)?;
    let path = format!("/proc/self/fd/{}", seen.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    Ok(File::from(open(path, flags, Mode::empty())?))
}

/// Takes a lock. A recorder that was killed leaves its locks for a moment to processes that it had just forked, which have not yet
/// closed its files; so this tries for half a second.
pub(crate) fn lock_soon(file: impl AsFd) -> Result<(), Errno> {
    let until = Instant::now() + Duration::from_millis(500);
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(2));
            }
            other => return other,
        }
    }
}

/// All bytes of a file that has at most `limit`.
///
/// # Errors
/// When it has more.
pub fn read_at_most(file: File, limit: u64) -> io::Result<Vec<u8>> {
    use std::io::Read;
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > limit {
        true => Err(io::Error::other(format!("it has more than {limit} bytes"))),
        false => Ok(bytes),
    }
}

fn regular(stat: &Stat) -> io::Result<()> {
    let what = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => return Ok(()),
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a FIFO",
        FileType::Directory => "a directory",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        _ => "something else",
    };
    Err(io::Error::other(format!("it is {what}, needed a regular file")))
}

/// A name that cannot lead out of its directory.
fn component(name: &impl AsRef<OsStr>) -> io::Result<&OsStr> {
    let name = name.as_ref();
    match name.as_encoded_bytes() {
        b"" | b"." | b".." => Err(Errno::INVAL.into()),
        bytes if bytes.contains(&b'/') => Err(Errno::INVAL.into()),
        _ => Ok(name),
    }
}

/// openat(2) that follows no link and stays beneath `dir`.
fn beneath(dir: &OwnedFd, name: &OsStr, flags: OFlags, mode: Mode) -> rustix::io::Result<OwnedFd> {
    // openat2(2) refuses a mode that it has no use for.
    let mode = match flags.contains(OFlags::CREATE) {
        true => mode,
        false => Mode::empty(),
    };
    let strictly = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match openat2(dir, name, flags, mode, strictly) {
        // For one component that is no link, openat(2) with NOFOLLOW does the same.
        Err(e) if lacks_openat2(e) => openat(dir, name, flags | OFlags::NOFOLLOW, mode),
        other => other,
    }
}

/// True before Linux 5.6, and in containers whose filter does not know the call. Where a permission is really
/// missing, the older call fails as well.
fn lacks_openat2(e: Errno) -> bool {
    matches!(e, Errno::NOSYS | Errno::PERM)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn held() -> (tempfile::TempDir, Held) {
        let dir = tempfile::tempdir().expect("a directory");
        let held = Held::open(dir.path()).expect("it opens");
        (dir, held)
    }

    #[test]
    fn links_fifos_and_second_names_are_refused_without_waiting() {
        let (dir, held) = held();
        let outside = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(outside.path(), "precious").unwrap();
        symlink(outside.path(), dir.path().join("link")).unwrap();
        rustix::fs::mknodat(&held, "fifo", FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        std::fs::write(dir.path().join("one"), "x").unwrap();
        std::fs::hard_link(dir.path().join("one"), dir.path().join("two")).unwrap();
        for name in ["link", "fifo", "two", "missing"] {
            for access in [Access::Read, Access::Shared] {
                assert!(held.file(name, access).is_err(), "{name} {access:?}");
            }
        }
        for name in ["link", "fifo", "two"] {
            assert!(held.file(name, Access::New).is_err(), "{name}");
            assert!(held.file(name, Access::Append).is_err(), "{name}");
        }
        // Replaced, not written through.
        for name in ["link", "fifo", "two"] {
            std::io::Write::write_all(&mut held.file(name, Access::Replace).unwrap(), b"new")
                .unwrap();
            assert_eq!(held.read(name, 3).unwrap(), b"new");
        }
        assert_eq!(std::fs::read(outside.path()).unwrap(), b"precious");
        assert_eq!(held.read("one", 1).unwrap(), b"x");
        assert!(held.read("two", 2).is_err(), "longer than allowed");
    }

    #[test]
    fn a_published_file_takes_the_place_of_anything_but_a_directory() {
        let (dir, held) = held();
        let outside = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(outside.path(), "precious").unwrap();
        let publish = |bytes: &[u8]| held.publish("it", "it.new", bytes);
        publish(b"first").unwrap();
        publish(b"second").unwrap();
        assert_eq!(held.read("it", 6).unwrap(), b"second");
        for name in ["it", "it.new"] {
            let _ = std::fs::remove_file(dir.path().join(name));
            symlink(outside.path(), dir.path().join(name)).unwrap();
            publish(b"third").unwrap();
            assert_eq!(held.read("it", 5).unwrap(), b"third", "{name}");
        }
        let mode = held.stat_of("it").unwrap().st_mode;
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(held.names(9).unwrap(), ["it"]);
        assert_eq!(std::fs::read(outside.path()).unwrap(), b"precious");
        assert!(held.publish("../it", "it.new", b"").is_err());
        std::fs::create_dir(dir.path().join("taken")).unwrap();
        assert!(held.publish("taken", "it.new", b"").is_err());
    }

    #[test]
    fn a_directory_that_others_may_change_is_not_ours_alone() {
        use std::os::unix::fs::PermissionsExt;
        let (dir, held) = held();
        for (mode, is_ours) in [(0o700, true), (0o755, true), (0o770, false), (0o1777, false)] {
            std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(mode)).unwrap();
            assert_eq!(held.is_ours_alone().unwrap(), is_ours, "{mode:o}");
        }
        let root = Held::open(Path::new("/")).unwrap();
        let is_root = rustix::process::geteuid().is_root();
        assert_eq!(root.is_ours_alone().unwrap(), is_root);
    }

    #[test]
    fn names_cannot_lead_out() {
        let (dir, held) = held();
        // A file that may be lost, if they can.
        let outside = tempfile::tempdir_in(dir.path().parent().unwrap()).unwrap();
        let bait = outside.path().join("bait");
        std::fs::write(&bait, "precious").unwrap();
        let absolute = bait.to_str().unwrap();
        let name = outside.path().file_name().unwrap().to_string_lossy();
        let beside = [format!("../{name}/bait"), format!("../{name}/new")];
        for name in ["", ".", "..", &beside[0], &beside[1], absolute, "a/b"] {
            assert!(held.file(name, Access::New).is_err(), "{name}");
            assert!(held.remove(name).is_err(), "{name}");
            assert!(held.make(name).is_err(), "{name}");
        }
        assert_eq!(std::fs::read(&bait).unwrap(), b"precious");
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
        std::fs::create_dir(dir.path().join("real")).unwrap();
        symlink("real", dir.path().join("alias")).unwrap();
        assert!(held.directory("real").is_ok());
        assert!(held.directory("alias").is_err());
    }

    #[test]
    fn a_directory_that_was_replaced_is_not_removed() {
        let (dir, held) = held();
        let mine = held.make("mine").unwrap();
        std::fs::rename(dir.path().join("mine"), dir.path().join("moved")).unwrap();
        std::fs::create_dir(dir.path().join("mine")).unwrap();
        assert!(held.remove_directory("mine", &mine).is_err());
        // The descriptor still reaches the directory that was made.
        mine.file("here", Access::New).unwrap();
        assert!(dir.path().join("moved/here").exists());
    }

    #[test]
    fn absolute_links_stay_inside_the_root_of_a_process() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("etc")).unwrap();
        std::fs::write(dir.path().join("etc/passwd"), "inside").unwrap();
        symlink("/etc/passwd", dir.path().join("lib.so")).unwrap();
        symlink("../../../../etc/passwd", dir.path().join("up")).unwrap();
        let root =
            open(dir.path(), OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
                .unwrap();
        for name in ["/lib.so", "/up"] {
            let found = look_in_root(&root, Path::new(name)).unwrap();
            let bytes = read_at_most(reopen(&found).unwrap(), 100).unwrap();
            assert_eq!(bytes, b"inside", "{name}");
            assert!(walk(&root, Path::new(name)).is_err(), "{name}: no links");
        }
        let found = walk(&root, Path::new("/etc/passwd")).unwrap();
        assert_eq!(read_at_most(reopen(&found).unwrap(), 100).unwrap(), b"inside");
    }

    #[test]
    fn devices_are_not_opened() {
        assert!(open_regular(Path::new("/dev/zero")).is_err());
        assert!(open_regular(Path::new("/proc/self/exe")).is_ok());
    }
}
