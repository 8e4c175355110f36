//! The recording directory. Spec: docs/format.md.
use crate::error::{Error, Result};
use kasuri_format::meta::{Anchor, KernelLoss, Meta, Proc, to_lines};
use rustix::fs::{FlockOperation, flock};
use serde::Serialize;
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// A recording directory being written. It holds a flock(2) on the directory, by which others know.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    anchors: File,
    losses: File,
    procs: File,
    _lock: OwnedFd,
}

/// `NAME.kasuri.d` for `NAME.kasuri`.
pub fn path_for(output: &Path) -> PathBuf {
    let mut name = output.as_os_str().to_owned();
    name.push(".d");
    PathBuf::from(name)
}

/// `NAME.kasuri` for `NAME.kasuri.d`, and for `NAME`.
pub fn output_for(dir: &Path) -> PathBuf {
    let name = dir.as_os_str().to_string_lossy();
    let name = name.trim_end_matches('/');
    let name = name.strip_suffix(".d").unwrap_or(name);
    PathBuf::from(if name.ends_with(".kasuri") {
        name.to_owned()
    } else {
        format!("{name}.kasuri")
    })
}

/// Takes the lock of a recording directory.
///
/// # Errors
/// [`Error::Busy`] when a recorder has it.
pub fn lock(path: &Path) -> Result<OwnedFd> {
    let open = crate::tracefs::open_dir(rustix::fs::CWD, &path.to_string_lossy());
    let dir = open.map_err(|e| Error::file("open", path, e))?;
    match flock(&dir, FlockOperation::NonBlockingLockExclusive) {
        Err(rustix::io::Errno::WOULDBLOCK) => Err(Error::Busy {
            path: path.to_owned(),
        }),
        // A file system without locks (some network ones): go on without.
        _ => Ok(dir),
    }
}

impl Directory {
    /// Makes the directory.
    ///
    /// # Errors
    /// When it exists, with the reason, or cannot be made.
    pub fn create(path: &Path) -> Result<Directory> {
        match std::fs::create_dir(path) {
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
                lock(path)?;
                return Err(Error::LeftOver {
                    path: path.to_owned(),
                });
            }
            other => other.map_err(|e| Error::file("make", path, e))?,
        }
        let lock = lock(path)?;
        let file = |name: &str| {
            let path = path.join(name);
            File::options()
                .create(true)
                .append(true)
                .open(&path)
                .map_err(|e| Error::file("make", &path, e))
        };
        Ok(Directory {
            path: path.to_owned(),
            anchors: file("anchors.jsonl")?,
            losses: file("kernel-loss.jsonl")?,
            procs: file("procs.jsonl")?,
            _lock: lock,
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces `meta.json` as a whole.
    ///
    /// # Errors
    /// When it cannot be written; the old one is still there.
    pub fn write_meta(&self, meta: &Meta) -> Result<()> {
        write_meta(&self.path, meta)
    }

    /// Adds clock anchors.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn add_anchors(&mut self, rows: &[Anchor]) -> Result<()> {
        append(&mut self.anchors, &self.path, "anchors.jsonl", rows)
    }

    /// Adds loss counts.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn add_losses(&mut self, rows: &[KernelLoss]) -> Result<()> {
        append(&mut self.losses, &self.path, "kernel-loss.jsonl", rows)
    }

    /// Adds threads.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn add_procs(&mut self, rows: &[Proc]) -> Result<()> {
        append(&mut self.procs, &self.path, "procs.jsonl", rows)
    }

    /// Removes it with all it holds.
    pub fn discard(self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

fn append<T: Serialize>(file: &mut File, dir: &Path, name: &str, rows: &[T]) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    file.write_all(to_lines(rows).as_bytes())
        .map_err(|e| Error::file("write", &dir.join(name), e))
}

/// Replaces `meta.json` in `dir` as a whole.
///
/// # Errors
/// When it cannot be written; the old one is still there.
pub fn write_meta(dir: &Path, meta: &Meta) -> Result<()> {
    let (new, path) = (dir.join("meta.json.new"), dir.join("meta.json"));
    std::fs::write(&new, meta.to_json()).map_err(|e| Error::file("write", &new, e))?;
    std::fs::rename(&new, &path).map_err(|e| Error::file("rename", &new, e))
}
