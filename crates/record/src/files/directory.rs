//! The recording directory. Spec: docs/format.md.
//!
//! [`Directory`] is the recorder's side: it makes the directory, holds its lock, and appends rows to the tables
//! (`anchors.jsonl`, `kernel-loss.jsonl`, `procs.jsonl`, `limits.jsonl`, `sampling.jsonl`) and to `call-paths.log`. A row is one line of JSON; a write that
//! fails in the middle is cut off again. The free functions work on a directory whose recorder is dead. All access
//! goes through [`crate::guard::safefs`].
use crate::error::{Error, Result};
use crate::files::output::{self, Kind};
use crate::guard::foreign::{self, Foreign};
use crate::guard::safefs::{self, Access, Held};
use crate::sent::{SENT, SENT_NEW};
use kasuri_format::meta::{Anchor, KernelLoss, LimitRow, Meta, Proc, SamplingRow, to_lines};
use serde::Serialize;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// A file that only takes room. The end of a recording frees it, and can then write metadata, loss counts and anchors
/// even on a full disk.
const RESERVE: &str = "reserve";
/// Size of the reserve. Metadata with the format of every event takes most of it.
const RESERVE_BYTES: u64 = 512 << 10;
/// Facts about the recording. A directory without it is none.
const META: &str = "meta.json";
/// Modules, frames, paths and samples, in the form of kasuri_format::call_paths.
pub(crate) const CALL_PATHS: &str = "call-paths.log";
/// Changes in how they are sampled.
pub(crate) const SAMPLING: &str = "sampling.jsonl";

/// A recording directory being written. It holds a flock(2) on the directory, by which other processes know that its
/// recorder lives.
#[derive(Debug)]
pub struct Directory {
    held: Held,
    anchors: File,
    losses: File,
    procs: File,
    limits: File,
    call_paths: File,
    sampling: File,
}

/// `NAME.kasuri.d` for `NAME.kasuri`.
pub fn path_for(output: &Path) -> PathBuf {
    let mut name = output.as_os_str().to_owned();
    name.push(".d");
    PathBuf::from(name)
}

/// The directory in which to record for `output`: beside it, or among temporary files for a device or a pipe, which
/// has no directory of its own.
///
/// # Errors
/// When `output` is something that must not be written.
pub fn place_for(output: &Path) -> Result<PathBuf> {
    let kind = output::kind(output).map_err(|e| Error::file("write", output, e))?;
    Ok(match kind {
        Kind::File => path_for(output),
        Kind::Stream => temporary(&std::env::temp_dir()),
    })
}

/// The directory for a recording that is sent while it is made: in `memory`, unless the user says where temporary files are.
pub(crate) fn place_for_stream(memory: &Path) -> PathBuf {
    let place = std::env::var_os("TMPDIR").map(PathBuf::from);
    temporary(place.as_deref().unwrap_or(memory))
}

fn temporary(place: &Path) -> PathBuf {
    let (pid, random) = (std::process::id(), crate::random::random_u32());
    place.join(format!("kasuri-{pid}-{random:08x}.kasuri.d"))
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
pub fn lock(dir: &Held) -> Result<()> {
    match safefs::lock_soon(dir) {
        Err(rustix::io::Errno::WOULDBLOCK) => Err(Error::Busy { path: dir.path().to_owned() }),
        // A file system without locks (some network ones): go on without.
        _ => Ok(()),
    }
}

impl Directory {
    /// Makes the directory, for its user alone.
    ///
    /// # Errors
    /// When it exists, with the reason, or cannot be made.
    pub fn create(path: &Path) -> Result<Directory> {
        let failed = |e| Error::file("make", path, e);
        let (parent, name) = Held::parent_of(path).map_err(failed)?;
        let held = match parent.make(&name) {
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
                let left = Held::open(path).map_err(|e| Error::file("open", path, e))?;
                lock(&left)?;
                if !remove_rest(&left) {
                    return Err(Error::LeftOver { path: path.to_owned() });
                }
                parent.make(&name).map_err(failed)?.called(path)
            }
            other => other.map_err(failed)?.called(path),
        };
        lock(&held)?;
        let file = |name: &str| {
            held.file(name, Access::New).map_err(|e| Error::file("make", &held.named(name), e))
        };
        Ok(Directory {
            anchors: file("anchors.jsonl")?,
            losses: file("kernel-loss.jsonl")?,
            procs: file("procs.jsonl")?,
            limits: file("limits.jsonl")?,
            call_paths: file(CALL_PATHS)?,
            sampling: file(SAMPLING)?,
            held,
        })
    }

    /// Allocates the space that the end of the recording needs. If the disk lacks even that, it is soon full, and the
    /// recording ends without the reserve.
    pub fn reserve(&self) {
        let allocate = |file: File| {
            rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, RESERVE_BYTES)
        };
        let made = self.held.file(RESERVE, Access::Replace);
        if made.is_ok_and(|file| allocate(file).is_err()) {
            self.use_reserve();
        }
    }

    /// Frees the reserved space for the next writes.
    pub fn use_reserve(&self) {
        use_reserve(&self.held);
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        self.held.path()
    }

    /// The open directory.
    pub fn held(&self) -> &Held {
        &self.held
    }

    /// Free bytes of its disk, for this user; `None` when unknown.
    pub fn free_bytes(&self) -> Option<u64> {
        crate::host::free_on_disk(&self.held)
    }

    /// Replaces `meta.json` as a whole.
    ///
    /// # Errors
    /// When it cannot be written; the old one is still there.
    pub fn write_meta(&self, meta: &Meta) -> Result<()> {
        write_meta(&self.held, meta)
    }

    /// Adds clock anchors.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn add_anchors(&mut self, rows: &[Anchor]) -> Result<()> {
        append(&mut self.anchors, &self.held, "anchors.jsonl", rows)
    }

    /// Adds loss counts.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn add_losses(&mut self, rows: &[KernelLoss]) -> Result<()> {
        append(&mut self.losses, &self.held, "kernel-loss.jsonl", rows)
    }

    /// Adds threads.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn add_procs(&mut self, rows: &[Proc]) -> Result<()> {
        append(&mut self.procs, &self.held, "procs.jsonl", rows)
    }

    /// Adds CPU limits.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn add_limits(&mut self, rows: &[LimitRow]) -> Result<()> {
        append(&mut self.limits, &self.held, "limits.jsonl", rows)
    }

    /// Adds records to the log of call paths.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn add_call_paths(&mut self, bytes: &[u8]) -> Result<()> {
        append_bytes(&mut self.call_paths, &self.held, CALL_PATHS, bytes)
    }

    /// Adds changes in how call paths are sampled.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn add_sampling(&mut self, rows: &[SamplingRow]) -> Result<()> {
        append(&mut self.sampling, &self.held, SAMPLING, rows)
    }

    /// Removes it with all files that a recorder makes. Returns the files of other programs that keep it in place.
    pub(crate) fn discard(self) -> Option<Foreign> {
        remove(&self.held)
    }
}

/// Frees the space that was reserved for the end of a recording.
pub fn use_reserve(dir: &Held) {
    let _ = dir.remove(RESERVE);
}

/// Removes the files that a recorder makes in a recording directory, then the directory. Returns the files of other
/// programs that keep it in place.
///
/// Whoever is killed on the way leaves what is no recording any more: `meta.json` goes first.
pub(crate) fn remove(dir: &Held) -> Option<Foreign> {
    let _ = dir.remove(META);
    let place = std::path::absolute(dir.path()).and_then(|path| Held::parent_of(&path));
    let (parent, name) = place.ok()?;
    foreign::remove(&parent, &name, dir, is_recording_file, &[])
}

/// Removes a recording directory whose recorder was killed before it began: without `meta.json` nothing can be recovered. Returns
/// whether it is gone; with files of others in it, it stays.
///
/// # Errors
/// When it cannot be opened.
pub fn remove_unbegun(path: &Path) -> std::io::Result<bool> {
    let dir = Held::open(path)?;
    let has_begun = dir.stat_of(META).is_ok();
    Ok(!has_begun && remove(&dir).is_none())
}

/// Removes what is no recording any more: a directory of this user with files of a recorder alone and without `meta.json`, whose
/// recorder was killed before it began, or while it removed what it had packed. Whether it is gone.
fn remove_rest(dir: &Held) -> bool {
    let is_ours = dir.stat().is_ok_and(|s| s.st_uid == rustix::process::geteuid().as_raw());
    let names = dir.names(crate::guard::bounds::MAX_NAMES);
    let is_rest = names.is_ok_and(|names| names.iter().all(|n| n != META && is_recording_file(n)));
    is_ours && is_rest && remove(dir).is_none()
}

/// Whether a recorder makes files of this name.
fn is_recording_file(name: &str) -> bool {
    let of_cpu = |prefix: &str| {
        let number = name.strip_prefix(prefix).and_then(|n| n.strip_suffix(".raw"));
        number.is_some_and(|n| n.parse::<u32>().is_ok())
    };
    let of_client = |suffix: &str| {
        let client = name.strip_suffix(suffix);
        client.is_some_and(|client| crate::rings::ringfile::client_id(client).is_some())
    };
    FILES.contains(&name)
        || of_cpu("cpu")
        || of_cpu("perf")
        || [".chunks", ".sites", ".lost"].into_iter().any(of_client)
}

/// Files of every recording directory; besides them one for each CPU and some for each client.
const FILES: [&str; 12] = [
    META,
    "meta.json.new",
    RESERVE,
    "anchors.jsonl",
    "kernel-loss.jsonl",
    "procs.jsonl",
    "limits.jsonl",
    CALL_PATHS,
    SAMPLING,
    SENT,
    SENT_NEW,
    crate::rings::session::SESSION,
];

fn append<T: Serialize>(file: &mut File, dir: &Held, name: &str, rows: &[T]) -> Result<()> {
    append_bytes(file, dir, name, to_lines(rows).as_bytes())
}

/// Appends all of `bytes` or, when there is no room for them, nothing.
fn append_bytes(file: &mut File, dir: &Held, name: &str, bytes: &[u8]) -> Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    let failed = |e| Error::file("write", &dir.named(name), e);
    let before = file.metadata().map_err(failed)?.len();
    file.write_all(bytes).map_err(|e| {
        // Half a record would hide the rows written after it, once there is room again.
        let _ = file.set_len(before);
        let _ = file.seek(SeekFrom::Start(before));
        failed(e)
    })
}

/// Appends threads to a recording directory whose recorder is dead.
///
/// # Errors
/// When they cannot be written.
pub fn append_procs(dir: &Held, rows: &[Proc]) -> Result<()> {
    let file = dir.file("procs.jsonl", Access::Append);
    let mut file = file.map_err(|e| Error::file("open", &dir.named("procs.jsonl"), e))?;
    append(&mut file, dir, "procs.jsonl", rows)
}

/// Replaces `meta.json` in `dir` as a whole.
///
/// # Errors
/// When it cannot be written; the old one is still there.
pub fn write_meta(dir: &Held, meta: &Meta) -> Result<()> {
    let (new, name) = ("meta.json.new", "meta.json");
    dir.file(new, Access::Replace)
        .and_then(|mut file| file.write_all(meta.to_json().as_bytes()))
        .map_err(|e| Error::file("write", &dir.named(new), e))?;
    dir.rename(new, name).map_err(|e| Error::file("rename", &dir.named(new), e))
}
