//! Opens the files that can name code, for [`kasuri_symbols::tasks`]: here, and as the programs that live see them.
//!
//! Paths come from the recorded programs. Only regular files are opened, without blocking; the reader of the bytes decides by
//! their build-id whether they are the ones that ran.
use super::Request;
use crate::guard::safefs::{self, Access, Held};
use crate::guard::sigbus::Guarded;
use crate::kernel::kallsyms;
use crate::program::procs;
use kasuri_symbols::{Bytes, Files, List, Opened, Why};
use rustix::process::geteuid;
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Name spaces in which files are looked for, other than ours.
const SPACES_MAX: usize = 15;
/// Processes that are asked for theirs.
const PIDS_MAX: usize = 4096;
/// Bytes of a list of symbols in text.
const LIST_BYTES_MAX: u64 = 256 << 20;

pub(super) struct Finder<'a> {
    request: &'a Request,
    /// One process of each mount name space and root that is not ours.
    spaces: Vec<i32>,
}

impl<'a> Finder<'a> {
    pub fn new(request: &'a Request) -> Finder<'a> {
        let mut spaces = HashMap::new();
        let ours = space_of("self");
        let pids = request.pids.iter().filter(|_| request.is_this_boot);
        for &pid in pids.take(PIDS_MAX) {
            match space_of(&pid.to_string()) {
                Some(space) if Some(&space) != ours.as_ref() && spaces.len() < SPACES_MAX => {
                    spaces.entry(space).or_insert(pid);
                }
                _ => {}
            }
        }
        Finder { request, spaces: spaces.into_values().collect() }
    }
}

impl Files for Finder<'_> {
    fn open(&self, path: &Path, nth: usize) -> Option<Result<Opened, ()>> {
        let file = match nth.checked_sub(1) {
            None => safefs::open_regular(path),
            Some(n) => safefs::open_in_root_of(*self.spaces.get(n)?, path),
        };
        Some(file.ok().and_then(|file| opened(&file)).ok_or(()))
    }

    fn debug_dirs(&self) -> &[PathBuf] {
        &self.request.debug_dirs
    }

    fn fetch(&self, build_id: &[u8]) -> Option<Bytes> {
        let path = self.request.fetched.get(build_id)?;
        Some(opened(&safefs::open_regular(path).ok()?)?.bytes)
    }

    fn vdso(&self) -> Option<Bytes> {
        crate::host::vdso().map(|bytes| Arc::new(bytes) as Bytes)
    }

    fn kernel(&self, addresses: &[(u64, u32)]) -> Result<List, Why> {
        if !self.request.is_this_boot {
            return Err(Why::OtherBoot);
        }
        kallsyms::list(addresses).ok_or(Why::KernelHidden)
    }

    fn jit_map(&self, pid: i32) -> Result<Bytes, Why> {
        if !self.request.is_this_boot {
            return Err(Why::OtherBoot);
        }
        let name = |inner_pid: i32| Some(format!("perf-{inner_pid}.map").into());
        let file = own_file(pid, self.request, Path::new("/tmp"), name);
        file.and_then(read).ok_or(Why::NoJitMap)
    }

    fn jit_dump(&self, pid: i32, path: &Path) -> Option<Bytes> {
        if !self.request.is_this_boot {
            return None;
        }
        // Mapped, not read: most of it is code, which nobody looks at.
        let file =
            own_file(pid, self.request, path.parent()?, |_| path.file_name().map(Into::into))?;
        Some(opened(&file)?.bytes)
    }

    fn began_ns(&self) -> u64 {
        self.request.began_ns
    }
}

fn read(list: File) -> Option<Bytes> {
    let bytes = safefs::read_at_most(list, LIST_BYTES_MAX).ok()?;
    Some(Arc::new(bytes))
}

fn opened(file: &File) -> Option<Opened> {
    let changed_ns = changed_ns(file)?;
    let map = Guarded::read_only(file).ok()?;
    Some(Opened { bytes: Arc::new(map), changed_ns })
}

/// When a file's contents, owner or name last changed. CLOCK_REALTIME.
fn changed_ns(file: &File) -> Option<u64> {
    let meta = file.metadata().ok()?;
    let ns = |s: i64, ns: i64| {
        u64::try_from(s).map_or(0, |s| s.saturating_mul(1_000_000_000) + ns as u64)
    };
    Some(ns(meta.mtime(), meta.mtime_nsec()).max(ns(meta.ctime(), meta.ctime_nsec())))
}

/// Mount name space and root directory of a process.
fn space_of(pid: &str) -> Option<(PathBuf, PathBuf)> {
    let mounts = std::fs::read_link(format!("/proc/{pid}/ns/mnt")).ok()?;
    let root = std::fs::read_link(format!("/proc/{pid}/root")).ok()?;
    Some((mounts, root))
}

/// A list of code that a process must have written itself: any user may make files in /tmp. `name`: its name, by the number that the process
/// has for itself.
///
/// A process that lives has its own /tmp and its own number. Of one that has ended only its number here is known: its file
/// must be our user's, and younger than the recording, because the number may have been another's before.
fn own_file(
    pid: i32,
    request: &Request,
    dir: &Path,
    name: impl Fn(i32) -> Option<OsString>,
) -> Option<File> {
    if let Some(process) = Process::of(pid, request.ended_ns) {
        let dir = safefs::directory_in_root_of(pid, dir).ok()?;
        let file = dir.file(name(process.inner_pid)?, Access::Read).ok()?;
        return (file.metadata().ok()?.uid() == process.uid).then_some(file);
    }
    let file = Held::open(dir).ok()?.file(name(pid)?, Access::Read).ok()?;
    let is_ours = file.metadata().ok()?.uid() == geteuid().as_raw();
    (is_ours && changed_ns(&file)? >= request.began_ns).then_some(file)
}

struct Process {
    uid: u32,
    /// Its number in its own pid name space.
    inner_pid: i32,
}

impl Process {
    /// The process of this number in a recording that ended at this time. None: it has ended.
    fn of(pid: i32, ended_ns: Option<u64>) -> Option<Process> {
        if ended_ns.is_some_and(|end| procs::start_ns(pid).is_some_and(|start| start > end)) {
            return None;
        }
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let row = |key: &str| status.lines().find_map(|line| line.strip_prefix(key));
        if row("State:")?.trim_start().starts_with('Z') {
            return None;
        }
        // Real, effective, saved, file system.
        let uid = row("Uid:")?.split_whitespace().nth(1)?.parse().ok()?;
        let inner = row("NSpid:").and_then(|r| r.split_whitespace().last()?.parse().ok());
        Some(Process { uid, inner_pid: inner.unwrap_or(pid) })
    }
}
