//! The kernel's trace file system: finds it, and does small reads and writes in it.
//!
//! All paths are relative to an open directory, never looked up from `/` again: the file system may
//! be mounted nowhere at all (a detached mount of our own that vanishes with its descriptor).
mod drain;
mod events;
mod hidden;
mod instance;
mod probes;
mod stats;

pub use drain::{Drain, Drained};
pub use events::{Catalogue, DEFAULT_EVENTS, IRQ_EVENTS, LOCK_EVENTS, SYSCALL_EVENTS};
pub use hidden::{Hides, RUN_TIME_EVENTS, hides_switches};
pub use instance::{Instance, InstanceOptions, reap_dead, stale};
pub use probes::{Probes, Uprobe};
pub use stats::{CpuStats, StatsFiles};

use rustix::fs::{CWD, Mode, OFlags, openat, statfs};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// statfs(2) f_type of tracefs.
const TRACEFS_MAGIC: u64 = 0x7472_6163;

/// Until when to try again what is busy.
fn patience() -> Instant {
    Instant::now() + Duration::from_millis(100)
}

/// Does what the kernel may refuse for a moment, while files that were closed are still on their way out.
fn once_free(until: Instant, act: impl Fn() -> io::Result<()>) -> io::Result<()> {
    loop {
        match act() {
            Err(e) if e.raw_os_error() == Some(libc::EBUSY) && Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(2));
            }
            other => return other,
        }
    }
}

/// An open trace file system.
#[derive(Debug)]
pub struct Tracefs {
    root: OwnedFd,
    place: String,
}

/// The reason why tracefs is not available to us, in words for `missing` and doctor.
#[derive(Clone, Debug)]
pub struct Unavailable {
    /// The state of the machine that prevents it.
    pub why: String,
    /// The command that changes it.
    pub remedy: String,
}

impl Tracefs {
    /// Opens the trace file system where it is mounted, or mounts it for ourselves alone.
    ///
    /// # Errors
    /// When the kernel has none or the caller may not use it.
    pub fn open() -> Result<Tracefs, Unavailable> {
        let mut denied = None;
        for place in ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"]
            .map(str::to_owned)
            .into_iter()
            .chain(mounted())
        {
            match open_mounted(&place) {
                Ok(Some(root)) => return Ok(Tracefs { root, place }),
                Ok(None) => {}
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => denied = Some(place),
                Err(_) => {}
            }
        }
        match mount_detached() {
            Ok(root) => Ok(Tracefs { root, place: "mounted by kasuri".to_owned() }),
            Err(e) => Err(unavailable(denied, &e)),
        }
    }

    /// The root directory.
    pub fn root(&self) -> &OwnedFd {
        &self.root
    }

    /// Whether places in programs can be probed.
    pub fn has_uprobes(&self) -> bool {
        read(&self.root, "uprobe_events").is_ok()
    }

    /// Counts of hits of all uprobes: `FILE EVENT HITS`, a line each. Empty: they cannot be read.
    pub fn hits(&self) -> String {
        read(&self.root, "uprobe_profile").unwrap_or_default()
    }

    /// The place where it was found, for messages.
    pub fn place(&self) -> &str {
        &self.place
    }
}

fn unavailable(denied: Option<String>, e: &io::Error) -> Unavailable {
    let root = rustix::process::geteuid().is_root();
    match denied {
        Some(place) => Unavailable {
            why: format!("this user may not use {place}"),
            remedy: "run as root: `sudo kasuri record ...`".to_owned(),
        },
        None if !root => Unavailable {
            why: "tracefs needs root".to_owned(),
            remedy: "run as root: `sudo kasuri record ...`".to_owned(),
        },
        None => Unavailable {
            why: format!("tracefs cannot be mounted ({e})"),
            remedy: "`mount -t tracefs nodev /sys/kernel/tracing`; in a container start it with `--privileged`; \
                     the kernel needs CONFIG_FTRACE and CONFIG_EVENT_TRACING"
                .to_owned(),
        },
    }
}

/// Mount points of tracefs in other places.
fn mounted() -> Vec<String> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    fields.filter(|f| f.get(2) == Some(&"tracefs")).map(|f| f[1].replace("\\040", " ")).collect()
}

/// Opens the mount point `place`. `None`: another file system lies there.
fn open_mounted(place: &str) -> io::Result<Option<OwnedFd>> {
    if statfs(place)?.f_type as u64 != TRACEFS_MAGIC {
        return Ok(None);
    }
    let root = open_dir(CWD, place)?;
    // The directory may be listable although none of its entries may be used.
    open_dir(&root, "instances")?;
    rustix::fs::accessat(
        &root,
        "instances",
        rustix::fs::Access::WRITE_OK,
        rustix::fs::AtFlags::empty(),
    )?;
    Ok(Some(root))
}

/// Mounts tracefs for this process alone. Nothing appears in any mount table, and nothing has to be undone: the mount
/// ends with its descriptor.
fn mount_detached() -> io::Result<OwnedFd> {
    let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?)
}

/// Opens a directory below `dir`.
pub(crate) fn open_dir(dir: impl AsFd, path: &str) -> io::Result<OwnedFd> {
    Ok(openat(dir, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Opens a file below `dir` for reading.
pub(crate) fn open_file(dir: impl AsFd, path: &str, extra: OFlags) -> io::Result<OwnedFd> {
    Ok(openat(dir, path, OFlags::RDONLY | OFlags::CLOEXEC | extra, Mode::empty())?)
}

/// The text of a small file below `dir`.
pub(crate) fn read(dir: impl AsFd, path: &str) -> io::Result<String> {
    let mut file = File::from(open_file(dir, path, OFlags::empty())?);
    let mut bytes = Vec::new();
    let mut buffer = vec![0u8; 64 * 1024];
    // Not read_to_end, which begins with a read of 32 bytes; after that, `header_page` reports its end.
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(String::from_utf8_lossy(&bytes).into_owned()),
            n => bytes.extend_from_slice(&buffer[..n]),
        }
    }
}

/// Empties the buffers of an instance.
pub(crate) fn empty(dir: impl AsFd) -> io::Result<()> {
    // Opening it so is all that it takes.
    let flags = OFlags::WRONLY | OFlags::TRUNC | OFlags::CLOEXEC;
    openat(dir, "trace", flags, Mode::empty()).map(drop)?;
    Ok(())
}

/// Writes a setting below `dir`.
pub(crate) fn write(dir: impl AsFd, path: &str, text: &str) -> io::Result<()> {
    // No O_TRUNC: truncating `trace` or `set_event` has a meaning of its own.
    let fd = openat(dir, path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    File::from(fd).write_all(text.as_bytes())
}
