//! The ring session: the directory through which programs hand their annotations to this recorder.
//!
//! Layout and protocol: annotate/include/kasuri.h part 1, docs/design/ring.md.
use crate::clock::StampClock;
use crate::error::{Error, Result};
use crate::shm::Shared;
use kasuri_format::ring::{ABI_VERSION, Clock, Control, MAGIC_CONTROL, Policy, SessionState};
use rustix::fs::{Mode, mkdir};
use std::fs::File;
use std::mem::{offset_of, size_of};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// Bytes of the control file.
const CONTROL_BYTES: u64 = 4096;

/// As `meta.json` writes a policy.
pub fn policy_name(policy: Policy) -> &'static str {
    match policy {
        Policy::Grow => "grow",
        Policy::Discard => "discard",
        Policy::Overwrite => "overwrite",
    }
}

/// How a session is made.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// What to do when rings are full.
    pub policy: Policy,
    /// What stamps count.
    pub clock: StampClock,
    /// Bytes of a chunk: power of two, 4096..1 MiB.
    pub chunk_bytes: u32,
    /// Ring memory one process may take, bytes.
    pub max_bytes: u64,
    /// Chunks in a client's first segment.
    pub first_chunks: u32,
    /// Chunks per thread under [`Policy::Overwrite`].
    pub flight_chunks: u32,
    /// Where sessions are made when there is room: a tmpfs.
    pub shm_dir: PathBuf,
    /// Uid and gid of the programs, when not ours.
    pub owner: Option<(u32, u32)>,
}

/// A live session; its directory is removed when dropped.
#[derive(Debug)]
pub struct Session {
    path: PathBuf,
    control: Shared,
    /// Holds the write lock by which programs and `kasuri recover` know that this recorder lives.
    _lock: File,
}

impl Session {
    /// Makes the directory in shared memory, or below `fallback` where there is none.
    ///
    /// # Errors
    /// When neither place can be written.
    pub fn create(options: &SessionOptions, fallback: &Path) -> Result<Session> {
        match Session::create_in(&options.shm_dir, options) {
            Ok(session) => Ok(session),
            Err(_) => Session::create_in(fallback, options),
        }
    }

    fn create_in(parent: &Path, options: &SessionOptions) -> Result<Session> {
        let name = format!("kasuri-{}-{:08x}", std::process::id(), crate::random_u32());
        let path = std::path::absolute(parent)
            .map_err(|e| Error::file("find", parent, e))?
            .join(name);
        mkdir(&path, Mode::from_raw_mode(0o700)).map_err(|e| Error::file("make", &path, e))?;
        let made = Session::fill(&path, options);
        if made.is_err() {
            let _ = std::fs::remove_dir_all(&path);
        }
        made
    }

    fn fill(path: &Path, options: &SessionOptions) -> Result<Session> {
        let file_path = path.join("control");
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&file_path)
            .map_err(|e| Error::file("make", &file_path, e))?;
        // Allocated, not only sized: a page that cannot be had is an error here and a SIGBUS later.
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, CONTROL_BYTES)
            .map_err(|e| Error::file("allocate", &file_path, e))?;
        lock(&file, libc::F_WRLCK).map_err(|e| Error::file("lock", &file_path, e))?;
        let control = Shared::map(&file).map_err(|e| Error::file("map", &file_path, e))?;
        announce(&control, options);
        if let Some((uid, gid)) = options.owner {
            for p in [path, file_path.as_path()] {
                std::os::unix::fs::chown(p, Some(uid), Some(gid))
                    .map_err(|e| Error::file("give away", p, e))?;
            }
        }
        let _ = std::fs::set_permissions(path, PermissionsExt::from_mode(0o700));
        Ok(Session {
            path: path.to_owned(),
            control,
            _lock: file,
        })
    }

    /// The directory, for KASURI_SESSION.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Tells all programs.
    pub fn set_state(&self, state: SessionState) {
        // ORDER release; pairs with the acquire load of `state` in kasuri.h. What was done before, such as
        // freeing chunks ahead of RECORDING, is seen by a program that sees the new state.
        self.control
            .u32_at(offset_of!(Control, state))
            .store(state as u32, Ordering::Release);
    }

    /// How often programs asked for a snapshot.
    pub fn triggers(&self) -> u32 {
        // ORDER acquire; pairs with the release increment in kasuri_trigger(): the events before the
        // trigger are in the rings when it is seen.
        self.control
            .u32_at(offset_of!(Control, trigger))
            .load(Ordering::Acquire)
    }

    /// Tells programs that chunks were freed.
    pub fn add_freed(&self) {
        // ORDER release; pairs with the acquire load of `freed` by a thread that found no chunk: the
        // chunk states stored before are seen as FREE.
        self.control
            .u32_at(offset_of!(Control, freed))
            .fetch_add(1, Ordering::Release);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.set_state(SessionState::Stopped);
        // In a panic it stays, and the recording directory with the link to it: `kasuri recover` takes it from there.
        if !std::thread::panicking() {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

fn announce(control: &Shared, options: &SessionOptions) {
    let put = |offset: usize, value: u32| control.u32_at(offset).store(value, Ordering::Relaxed);
    let clock = match options.clock {
        StampClock::Native => Clock::Native,
        StampClock::Monotonic => Clock::Monotonic,
    };
    put(offset_of!(Control, version), ABI_VERSION);
    put(
        offset_of!(Control, struct_size),
        size_of::<Control>() as u32,
    );
    put(offset_of!(Control, policy), options.policy as u32);
    put(offset_of!(Control, clock), clock as u32);
    put(offset_of!(Control, chunk_bytes), options.chunk_bytes);
    put(offset_of!(Control, first_chunks), options.first_chunks);
    put(offset_of!(Control, flight_chunks), options.flight_chunks);
    put(offset_of!(Control, recorder_pid), std::process::id());
    control
        .u64_at(offset_of!(Control, max_bytes))
        .store(options.max_bytes, Ordering::Relaxed);
    put(offset_of!(Control, state), SessionState::Recording as u32);
    // ORDER release; pairs with the acquire load of `magic` in kasuri.h: with the magic, everything
    // above is seen. The directory's name reaches programs later still, through exec.
    control.u64_at(0).store(MAGIC_CONTROL, Ordering::Release);
}

/// An open-file-description lock on the whole file.
fn lock(file: &File, kind: libc::c_int) -> std::io::Result<()> {
    use std::os::fd::AsRawFd;
    let lock = flock_of(kind);
    // SAFETY: the descriptor is open and `lock` is a valid struct flock.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &lock) } {
        -1 => Err(std::io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Whether a recorder holds the session in `dir`.
pub fn is_alive(dir: &Path) -> bool {
    use std::os::fd::AsRawFd;
    let Ok(file) = File::options()
        .read(true)
        .write(true)
        .open(dir.join("control"))
    else {
        return false;
    };
    let mut lock = flock_of(libc::F_WRLCK);
    // SAFETY: as in `lock`; the kernel writes into the struct.
    let rc = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &mut lock) };
    rc == 0 && lock.l_type != libc::F_UNLCK as libc::c_short
}

fn flock_of(kind: libc::c_int) -> libc::flock {
    // SAFETY: all zero is a valid struct flock: the whole file from its start, no pid.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock
}

/// A link in the session's directory to the recording directory, so that a dead recorder's session tells whose it was.
const RECORDING: &str = "recording";

/// Ties a session to its recording, each by a link to the other.
///
/// # Errors
/// When a link cannot be made.
pub fn tie(session: &Path, recording: &Path) -> Result<()> {
    let link = |target: &Path, link: PathBuf| {
        std::os::unix::fs::symlink(target, &link).map_err(|e| Error::file("make", &link, e))
    };
    let absolute = std::path::absolute(recording).map_err(|e| Error::file("find", recording, e))?;
    link(&absolute, session.join(RECORDING))?;
    link(session, recording.join("session"))
}

/// A session whose recorder was killed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Orphan {
    /// Its directory.
    pub path: PathBuf,
    /// The recording directory that it was made for; none: not known. It may have been moved or removed since.
    pub recording: Option<PathBuf>,
}

/// The sessions in `shm_dir` whose recorders were killed.
pub fn orphans(shm_dir: &Path) -> Vec<Orphan> {
    let entries = std::fs::read_dir(shm_dir).into_iter().flatten().flatten();
    let ours = entries.filter(|e| e.file_name().to_string_lossy().starts_with("kasuri-"));
    let mut orphans: Vec<Orphan> = ours
        .map(|entry| entry.path())
        .filter(|path| path.join("control").exists() && !is_alive(path))
        .map(|path| Orphan {
            recording: std::fs::read_link(path.join(RECORDING)).ok(),
            path,
        })
        .collect();
    orphans.sort_by(|a, b| a.path.cmp(&b.path));
    orphans
}

/// Tells the programs of a dead recorder's session to stop writing.
pub fn stop_orphaned(dir: &Path) {
    if let Ok(control) = Shared::open(&dir.join("control"))
        && control.len() >= 128
        && control.load_u64(0) == MAGIC_CONTROL
    {
        // ORDER release; as Session::set_state.
        control
            .u32_at(offset_of!(Control, state))
            .store(SessionState::Stopped as u32, Ordering::Release);
    }
}
