//! The folders whose files may be read, and opening what is in them.
//!
//! The client's names are not trusted: whoever writes them may have read them in a stranger's recording. So the kernel resolves each name beneath a held
//! descriptor of its folder (openat2, RESOLVE_BENEATH): `..`, absolute links and links that are exchanged at the last moment cannot lead out.
use anyhow::{Context, bail};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, openat2};
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

/// Entries of a folder that are looked at.
const ENTRIES: usize = 10_000;
/// Bytes of a name from the client.
const NAME: usize = 4096;

/// A folder.
struct Root {
    fd: OwnedFd,
    path: PathBuf,
}

/// All of them.
pub struct Roots(Vec<Root>);

/// Device, inode, length, and time of the last change of a file: what tells it from others, and from itself before a change.
pub type Identity = (u64, u64, u64, i64, i64);

/// A file that was opened.
pub struct Opened {
    file: File,
    /// Its name, for people.
    pub name: String,
    /// See [`Identity`].
    pub identity: Identity,
}

impl Opened {
    /// A path under which a process of the same user opens the same file, while this is alive.
    pub fn path(&self) -> String {
        descriptor_path(self.file.as_raw_fd())
    }
}

/// A place for a new file.
pub struct Place {
    dir: OwnedFd,
    file: String,
    /// Its name, for people.
    pub name: String,
}

impl Place {
    /// See [`Opened::path`].
    pub fn path(&self) -> String {
        format!("{}/{}", descriptor_path(self.dir.as_raw_fd()), self.file)
    }
}

fn descriptor_path(fd: i32) -> String {
    format!("/proc/{}/fd/{fd}", std::process::id())
}

impl Roots {
    /// Opens the folders.
    ///
    /// # Errors
    /// The first that cannot be opened.
    pub fn open(paths: &[PathBuf]) -> anyhow::Result<Roots> {
        let open = |path: &PathBuf| {
            let path = path
                .canonicalize()
                .with_context(|| format!("--root {}: cannot open", path.display()))?;
            let fd = rustix::fs::open(
                &path,
                OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
                Mode::empty(),
            )
            .with_context(|| format!("--root {}: cannot open, needed a folder", path.display()))?;
            Ok(Root { fd, path })
        };
        Ok(Roots(paths.iter().map(open).collect::<anyhow::Result<_>>()?))
    }

    /// The folders' paths.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().map(|root| root.path.as_path())
    }

    /// The first folder.
    pub fn first(&self) -> &Path {
        &self.0[0].path
    }

    /// Opens a regular file by its name: beneath the first folder that has it, or by a path that begins with a folder's.
    ///
    /// # Errors
    /// That there is none, or why it is not opened.
    pub fn file(&self, name: &str) -> anyhow::Result<Opened> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = File::from(self.beneath(name, flags)?);
        let facts = file.metadata().with_context(|| format!("{name}: cannot look at"))?;
        if !facts.is_file() {
            bail!("{name}: is no regular file, needed a recording; list_recordings lists them");
        }
        use std::os::unix::fs::MetadataExt;
        Ok(Opened {
            name: name.to_owned(),
            identity: (facts.dev(), facts.ino(), facts.len(), facts.mtime(), facts.mtime_nsec()),
            file,
        })
    }

    /// A place for a new recording, where nothing is.
    ///
    /// # Errors
    /// That there is something, or no such folder.
    pub fn place(&self, name: &str) -> anyhow::Result<Place> {
        let path = Path::new(name);
        let file = path.file_name().and_then(|file| file.to_str()).unwrap_or_default();
        if !file.ends_with(".kasuri") || file.starts_with('.') || name.ends_with('/') {
            bail!("{name}: needed the name of a new file that ends with .kasuri");
        }
        let parent = match path.parent().map(|parent| parent.to_string_lossy()) {
            Some(parent) if !parent.is_empty() => parent.into_owned(),
            _ => ".".to_owned(),
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = self.beneath(&parent, flags)?;
        let no_links = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
        if rustix::fs::statat(&dir, file, no_links).is_ok() {
            bail!("{name}: is there already, needed a new name");
        }
        Ok(Place { dir, file: file.to_owned(), name: name.to_owned() })
    }

    /// A line for each recording or other trace in a folder, and each folder in it.
    ///
    /// # Errors
    /// When there is no such folder.
    pub fn list(&self, folder: &str) -> anyhow::Result<String> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let dir = self.beneath(folder, flags)?;
        let mut lines = Vec::new();
        let mut more = false;
        let entries = rustix::fs::Dir::read_from(&dir).context("cannot list")?;
        for (n, entry) in entries.enumerate() {
            more = n >= ENTRIES;
            if more {
                break;
            }
            let entry = entry.context("cannot list")?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with('.') {
                continue;
            }
            let no_links = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
            let Ok(facts) = rustix::fs::statat(&dir, entry.file_name(), no_links) else {
                continue;
            };
            let path = match folder {
                "." => name,
                folder => format!("{}/{name}", folder.trim_end_matches('/')),
            };
            // A JSON string: names may hold anything.
            let path = serde_json::to_string(&path)?;
            match FileType::from_raw_mode(facts.st_mode) {
                FileType::Directory => lines.push(format!("{path} folder")),
                FileType::RegularFile => lines.push(format!("{path} {} bytes", facts.st_size)),
                _ => {}
            }
        }
        lines.sort();
        if more {
            lines.push(format!("more than {ENTRIES} entries: the others are left out"));
        }
        if lines.is_empty() {
            lines.push("nothing here".into());
        }
        Ok(lines.join("\n") + "\n")
    }

    fn beneath(&self, name: &str, flags: OFlags) -> anyhow::Result<OwnedFd> {
        if name.is_empty() || name.len() > NAME || name.contains('\0') {
            bail!("needed a file's name of 1 to {NAME} bytes without NUL");
        }
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let mut why = None;
        for root in &self.0 {
            let path = Path::new(name);
            let relative = match path.is_absolute() {
                true => match path.strip_prefix(&root.path) {
                    Ok(rest) if rest.as_os_str().is_empty() => Path::new("."),
                    Ok(rest) => rest,
                    Err(_) => continue,
                },
                false => path,
            };
            if relative.components().any(|part| part == Component::ParentDir) {
                bail!("{name}: leads out of the folders that may be read");
            }
            match openat2(&root.fd, relative, flags, Mode::empty(), resolve) {
                Ok(fd) => return Ok(fd),
                Err(error) => why = Some(error),
            }
        }
        use rustix::io::Errno;
        match why {
            Some(Errno::XDEV | Errno::LOOP) | None => {
                bail!("{name}: leads out of the folders that may be read")
            }
            Some(Errno::NOSYS) => bail!("this kernel has no openat2, needed Linux 5.6 or later"),
            Some(error) => {
                bail!("{name}: cannot open: {error}; list_recordings lists what there is")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn setting() -> (tempfile::TempDir, Roots) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("root/in")).unwrap();
        std::fs::write(dir.path().join("secret"), "secret").unwrap();
        std::fs::write(dir.path().join("root/in/a.kasuri"), "a").unwrap();
        let roots = Roots::open(&[dir.path().join("root")]).unwrap();
        (dir, roots)
    }

    fn why<T>(result: anyhow::Result<T>) -> String {
        result.err().map_or_else(String::new, |error| error.to_string())
    }

    #[test]
    fn only_files_beneath_a_root_are_opened() {
        let (dir, roots) = setting();
        let root = dir.path().canonicalize().unwrap().join("root");
        symlink("../secret", root.join("out")).unwrap();
        symlink(dir.path().join("secret"), root.join("absolute")).unwrap();
        symlink("/proc/self/cwd/Cargo.toml", root.join("magic")).unwrap();
        symlink("in/a.kasuri", root.join("inside")).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, root.join("fifo"), FileType::Fifo, Mode::RUSR, 0)
            .unwrap();
        for good in ["in/a.kasuri", "./in/a.kasuri", "inside"] {
            assert!(roots.file(good).is_ok(), "{good}");
        }
        assert!(roots.file(root.join("in/a.kasuri").to_str().unwrap()).is_ok());
        let outside = dir.path().join("secret");
        for bad in [
            "../secret",
            "out",
            "absolute",
            "magic",
            "in/../../secret",
            outside.to_str().unwrap(),
            "/etc/passwd",
        ] {
            assert!(why(roots.file(bad)).contains("leads out"), "{bad}");
        }
        for bad in ["fifo", "in", "."] {
            assert!(why(roots.file(bad)).contains("no regular file"), "{bad}");
        }
        for bad in ["", "a\0b", &"x".repeat(5000)] {
            assert!(why(roots.file(bad)).contains("needed a file's name"), "{bad:?}");
        }
        let list = roots.list(".").unwrap();
        assert!(
            list.contains("\"in\" folder") && !list.contains("fifo") && !list.contains("out"),
            "{list}"
        );
        assert!(why(roots.list("..")).contains("leads out"));
    }

    #[test]
    fn new_files_are_beneath_a_root_and_replace_nothing() {
        let (dir, roots) = setting();
        symlink("../", dir.path().join("root/up")).unwrap();
        assert!(roots.place("in/b.kasuri").is_ok());
        assert!(why(roots.place("in/a.kasuri")).contains("already"));
        for bad in ["up/b.kasuri", "../b.kasuri", "/tmp/b.kasuri"] {
            assert!(why(roots.place(bad)).contains("leads out"), "{bad}");
        }
        for bad in ["b", "in/.kasuri", "b.kasuri/", "..", ""] {
            assert!(roots.place(bad).is_err(), "{bad}");
        }
    }

    /// A folder that is exchanged for a link out, again and again, while files are opened through it.
    #[test]
    fn a_link_that_takes_a_folders_place_leads_nowhere() {
        let (dir, roots) = setting();
        let (root, stop) = (dir.path().join("root"), AtomicBool::new(false));
        std::fs::create_dir(dir.path().join("elsewhere")).unwrap();
        std::fs::write(dir.path().join("elsewhere/a.kasuri"), "secret").unwrap();
        symlink("../elsewhere", root.join("link")).unwrap();
        let opened = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let exchange = rustix::fs::RenameFlags::EXCHANGE;
                    let cwd = rustix::fs::CWD;
                    rustix::fs::renameat_with(
                        cwd,
                        root.join("in"),
                        cwd,
                        root.join("link"),
                        exchange,
                    )
                    .unwrap();
                }
            });
            let mut opened = [0, 0];
            for _ in 0..20_000 {
                match roots.file("in/a.kasuri") {
                    Ok(file) => {
                        assert_eq!(file.identity.2, 1, "the file inside has one byte");
                        opened[0] += 1;
                    }
                    Err(_) => opened[1] += 1,
                }
            }
            stop.store(true, Ordering::Relaxed);
            opened
        });
        assert!(opened.iter().all(|&n| n > 0), "both were met: {opened:?}");
    }
}
