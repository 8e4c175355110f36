//! Writes the file that a user named, for every command.
//!
//! A regular file is written beside its name and renamed when it is whole, so it is either complete or absent. Other
//! kinds of file are never replaced: a character device or a FIFO is written through (`-o /dev/null`), anything else
//! is refused. A symbolic link is refused as well, whatever its target: in a directory that other users may write,
//! any of them may have put it there to make root write to its target. Only the system's own names for open files
//! (`/dev/stdout`, `/dev/fd/1`) are followed; standard output is written as it was opened, also where it is a socket, and
//! behind what is in it.
use crate::files::remote::Remote;
use crate::guard::safefs::{self, Access, Held};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, open, statat};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// The way in which the file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Beside its name, then renamed.
    File,
    /// Directly: it exists and is no regular file.
    Stream,
}

/// Where a recording goes.
pub(crate) enum Sink {
    /// A file, a device or a pipe.
    File(File),
    /// Another machine.
    Remote(Box<Remote>),
}

/// What recordings are written with.
pub(crate) type Out = BufWriter<Sink>;

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Sink::File(file) => file.write(bytes),
            Sink::Remote(remote) => remote.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Sink::File(file) => file.flush(),
            Sink::Remote(remote) => remote.flush(),
        }
    }
}

impl Sink {
    /// Says that nothing follows.
    ///
    /// # Errors
    /// When it did not arrive.
    pub(crate) fn close(self) -> io::Result<()> {
        match self {
            Sink::File(mut file) => file.flush(),
            Sink::Remote(remote) => remote.close(),
        }
    }
}

/// The users who may read a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// As the umask says.
    Umask,
    /// Those of the umask who may also read a file of these permissions: what the result was made of.
    Of(u32),
    /// Only root, when root writes it: a recording names all programs of the machine, and holds their annotations.
    Private,
}

impl Readers {
    /// Those of a result that is made of the file or directory at `path`; where that is neither, of the umask.
    pub fn of_file(path: &Path) -> Readers {
        use FileType::{Directory, RegularFile};
        let permissions = |stat: Stat| match FileType::from_raw_mode(stat.st_mode) {
            RegularFile | Directory => Readers::Of(stat.st_mode & 0o777),
            _ => Readers::Umask,
        };
        rustix::fs::stat(path).map_or(Readers::Umask, permissions)
    }

    /// Those who are among both.
    #[must_use]
    pub fn and(self, other: Readers) -> Readers {
        match (self, other) {
            (Readers::Umask, other) | (other, Readers::Umask) => other,
            (Readers::Of(a), Readers::Of(b)) => Readers::Of(a & b),
            (Readers::Private, _) | (_, Readers::Private) => Readers::Private,
        }
    }

    /// Permissions of a file for them; its user may always read and write it.
    pub fn mode(self) -> u32 {
        let all = 0o666 & !umask();
        match self {
            Readers::Umask => all,
            Readers::Of(mode) => 0o600 | all & mode,
            Readers::Private if rustix::process::geteuid().is_root() => 0o600,
            Readers::Private => all,
        }
    }

    /// Permissions of a directory of such files: whoever may read them may enter it.
    pub fn directory_mode(self) -> u32 {
        let mode = self.mode();
        mode | (mode & 0o444) >> 2
    }
}

/// A result that is being written; nothing appears under its name unless it is committed.
#[derive(Debug)]
pub struct Pending {
    /// None: written through.
    beside: Option<Beside>,
}

#[derive(Debug)]
struct Beside {
    dir: Held,
    name: OsString,
    part: OsString,
    /// Device and inode of the file being written.
    id: (u64, u64),
    /// The file, where it is given to the user who called sudo.
    given: Option<(File, u32, u32)>,
    done: bool,
}

/// The user who called sudo, and that user's group, where this is root's by it.
fn called_sudo() -> Option<(u32, u32)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let number = |name| std::env::var(name).ok()?.parse::<u32>().ok();
    let (uid, gid) = (number("SUDO_UID")?, number("SUDO_GID")?);
    (uid != 0 && uid != u32::MAX && gid != u32::MAX).then_some((uid, gid))
}

/// The name of standard output.
pub const STANDARD: &str = "/dev/stdout";

/// Longest wait for a reader of a FIFO.
const FIFO_PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);

/// The way in which a result at `path` would be written. Called before any work is done, to fail early.
///
/// # Errors
/// When it must not be written; the message has the reason and a remedy.
pub fn kind(path: &Path) -> io::Result<Kind> {
    if is_standard(path) {
        // It needs no name: where nobody runs udev there is no /dev/stdout.
        return Ok(Kind::Stream);
    }
    match statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => kind_of(path, &stat),
        Err(rustix::io::Errno::NOENT) => Ok(Kind::File),
        Err(e) => Err(e.into()),
    }
}

fn kind_of(path: &Path, stat: &Stat) -> io::Result<Kind> {
    let refused = |why: &str| Err(io::Error::other(why.to_owned()));
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(Kind::File),
        FileType::CharacterDevice => Ok(Kind::Stream),
        FileType::Fifo => {
            let me = rustix::process::geteuid().as_raw();
            match stat.st_uid == me || stat.st_uid == 0 {
                true => Ok(Kind::Stream),
                false => refused("it is a FIFO of another user"),
            }
        }
        FileType::Symlink if is_open_file(path) => Ok(Kind::Stream),
        FileType::Symlink => refused("it is a symbolic link; use the path it points to"),
        FileType::Directory => refused("it is a directory; use the path of a file in it"),
        FileType::BlockDevice => refused("it is a disk"),
        _ => refused("it is no file"),
    }
}

/// Whether `path` is one of the system's names for a file that is open already.
fn is_open_file(path: &Path) -> bool {
    let names = [STANDARD, "/dev/stderr"];
    let number = |below: &str| {
        path.strip_prefix(below).is_ok_and(|n| n.to_str().is_some_and(|n| n.parse::<u32>().is_ok()))
    };
    names.iter().any(|name| path == Path::new(name)) || number("/dev/fd") || number("/proc/self/fd")
}

/// Whether `path` is this process's standard output.
pub fn is_standard(path: &Path) -> bool {
    path == Path::new(STANDARD) || path == Path::new("/dev/fd/1")
}

/// Whether what is written to `path` goes on to another program at once: standard output, or a FIFO. A recording is sent there while it
/// is made.
pub(crate) fn is_pipe(path: &Path) -> bool {
    is_standard(path)
        || statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo)
}

/// Opens the file to write for `path`: see the module.
///
/// # Errors
/// As [`kind`], or when it cannot be made.
pub fn create(path: &Path, readers: Readers) -> io::Result<(File, Pending)> {
    if kind(path)? == Kind::Stream {
        return Ok((open_stream(path)?, Pending { beside: None }));
    }
    let (dir, name) = Held::parent_of(path)?;
    let mut part = name.clone();
    part.push(".part");
    let file = dir.file(&part, Access::Replace)?;
    rustix::fs::fchmod(&file, Mode::from_raw_mode(readers.mode()))?;
    let stat = fstat(&file)?;
    let id = (stat.st_dev, stat.st_ino);
    // What root writes by sudo into a folder of its caller is the caller's, who could put anything in its place.
    let given = match called_sudo() {
        Some((uid, gid)) if dir.stat()?.st_uid == uid => Some((file.try_clone()?, uid, gid)),
        _ => None,
    };
    let beside = Some(Beside { dir, name, part, id, given, done: false });
    Ok((file, Pending { beside }))
}

fn open_stream(path: &Path) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
    let begun = std::time::Instant::now();
    let file = loop {
        if is_standard(path) {
            break rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
        }
        match open(path, flags | OFlags::NONBLOCK, Mode::empty()) {
            // No process reads the FIFO yet.
            Err(rustix::io::Errno::NXIO) if begun.elapsed() < FIFO_PATIENCE => {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            Err(rustix::io::Errno::NXIO) if is_pipe(path) => {
                return Err(io::Error::other("no process reads this FIFO"));
            }
            other => break other?,
        }
    };
    // The file may have been exchanged since its kind was determined; a disk is not written in any case.
    if FileType::from_raw_mode(fstat(&file)?.st_mode) == FileType::BlockDevice {
        return Err(io::Error::other("it is a disk"));
    }
    if is_standard(path) {
        // Its flags are those of whoever opened it.
        return Ok(File::from(file));
    }
    let flags = rustix::fs::fcntl_getfl(&file)?;
    rustix::fs::fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
    Ok(File::from(file))
}

/// Reads the umask from /proc. umask(2) can only exchange it, which would affect files that other threads make
/// meanwhile.
fn umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("Umask:"));
    line.and_then(|octal| u32::from_str_radix(octal.trim(), 8).ok()).unwrap_or(0o022)
}

impl Pending {
    /// Makes the result appear under its name.
    ///
    /// # Errors
    /// When another file got that name meanwhile.
    pub fn commit(mut self) -> io::Result<()> {
        let Some(beside) = &mut self.beside else {
            return Ok(());
        };
        let now = beside.dir.stat_of(&beside.part)?;
        if (now.st_dev, now.st_ino) != beside.id {
            return Err(io::Error::other("another process is writing it"));
        }
        if let Ok(stat) = beside.dir.stat_of(&beside.name)
            && FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile
        {
            return Err(io::Error::other("it has become something other than a file"));
        }
        if let Some((file, uid, gid)) = &beside.given {
            safefs::give(file, *uid, *gid)?;
        }
        beside.dir.rename(&beside.part, &beside.name)?;
        beside.done = true;
        Ok(())
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let mine = self.dir.stat_of(&self.part);
        if !self.done && mine.is_ok_and(|s| (s.st_dev, s.st_ino) == self.id) {
            let _ = self.dir.remove(&self.part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};

    fn put(path: &Path, text: &str) -> io::Result<()> {
        let (mut file, pending) = create(path, Readers::Private)?;
        file.write_all(text.as_bytes())?;
        pending.commit()
    }

    #[test]
    fn only_regular_files_are_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        put(&at("file"), "one").unwrap();
        put(&at("file"), "two").unwrap();
        assert_eq!(std::fs::read(at("file")).unwrap(), b"two");
        symlink(at("file"), at("link")).unwrap();
        symlink(at("nowhere"), at("dangling")).unwrap();
        std::fs::create_dir(at("dir")).unwrap();
        for name in ["link", "dangling", "dir"] {
            put(&at(name), "three").unwrap_err();
        }
        assert_eq!(std::fs::read(at("file")).unwrap(), b"two");
        assert!(at("link").is_symlink() && !at("nowhere").exists());
        let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().flatten().collect();
        assert_eq!(left.len(), 4, "no half file: {left:?}");
        let mode = std::fs::metadata(at("file")).unwrap().permissions().mode();
        if rustix::process::geteuid().is_root() {
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    #[test]
    fn devices_and_fifos_are_written_through() {
        put(Path::new("/dev/null"), "gone").unwrap();
        let null = std::fs::metadata("/dev/null").unwrap().file_type();
        assert!(null.is_char_device());
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fifo");
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(CWD, &path, FileType::Fifo, mode, 0).unwrap();
        let reader = std::thread::spawn({
            let path = path.clone();
            move || std::fs::read(path).unwrap()
        });
        put(&path, "through").unwrap();
        assert_eq!(reader.join().unwrap(), b"through");
        let fifo = std::fs::symlink_metadata(&path).unwrap().file_type();
        assert!(fifo.is_fifo());
    }

    #[test]
    fn what_came_to_lie_there_meanwhile_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run");
        let (_file, pending) = create(&path, Readers::Umask).unwrap();
        let bait = dir.path().join("bait");
        std::fs::write(&bait, "precious").unwrap();
        symlink(&bait, &path).unwrap();
        pending.commit().unwrap_err();
        assert!(path.is_symlink());
        assert_eq!(std::fs::read(&bait).unwrap(), b"precious");
        std::fs::remove_file(&path).unwrap();
        let (_file, pending) = create(&path, Readers::Umask).unwrap();
        let (_other, theirs) = create(&path, Readers::Umask).unwrap();
        pending.commit().unwrap_err();
        theirs.commit().unwrap();
    }

    #[test]
    fn what_is_made_of_a_file_has_no_other_readers() {
        let dir = tempfile::tempdir().unwrap();
        let (all, from) = (0o666 & !umask(), dir.path().join("from"));
        std::fs::write(&from, "").unwrap();
        let mode_of = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        for (mode, want) in [(0o600, 0), (0o640, 0o040), (0o444, 0o044), (0o777, 0o066)] {
            std::fs::set_permissions(&from, std::fs::Permissions::from_mode(mode)).unwrap();
            let (readers, to) = (Readers::of_file(&from), dir.path().join("to"));
            create(&to, readers).unwrap().1.commit().unwrap();
            assert_eq!(mode_of(&to), 0o600 | all & want, "{mode:o}");
            let enter = readers.directory_mode();
            assert_eq!(enter, mode_of(&to) | (mode_of(&to) & 0o444) >> 2);
        }
        let both = Readers::Of(0o640).and(Readers::Of(0o604));
        assert_eq!(both, Readers::Of(0o600));
        assert_eq!(Readers::Umask.and(Readers::Of(0o600)), Readers::Of(0o600));
        assert_eq!(Readers::of_file(Path::new("/dev/null")), Readers::Umask);
    }

    #[test]
    fn an_uncommitted_result_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        drop(create(&dir.path().join("run"), Readers::Umask).unwrap());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
