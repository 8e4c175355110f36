//! The ring session: the directory through which programs hand their annotations to this recorder.
//!
//! Layout and protocol: annotate/include/kasuri.h part 1, docs/design/ring.md.
//!
//! The directory lies where any user may make files, and with `-p` it belongs to another user in the end. So all work
//! in it goes through [`crate::guard::safefs`], and it is given away last, when nothing is left to be made in it by
//! name.
use crate::clock::StampClock;
use crate::error::{Error, Result};
use crate::guard::bounds::MAX_NAMES;
use crate::guard::foreign::{self, Foreign};
use crate::guard::safefs::{self, Access, Held};
use crate::rings::shm::Shared;
use kasuri_format::hindrance::Hindrance;
use kasuri_format::ring::{
    ABI_VERSION, Clock, Control, LOST_CAUSES, MAGIC_CONTROL, Policy, SessionState,
};
use std::fs::File;
use std::mem::{offset_of, size_of};
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

/// The options of a session.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// The policy of programs whose rings are full.
    pub policy: Policy,
    /// The clock of the stamps.
    pub clock: StampClock,
    /// Bytes of a chunk: power of two, 4096..1 MiB.
    pub chunk_bytes: u32,
    /// Ring memory one process may take, bytes.
    pub max_bytes: u64,
    /// Chunks in a client's first segment.
    pub first_chunks: u32,
    /// Chunks per thread under [`Policy::Overwrite`].
    pub flight_chunks: u32,
    /// Directory in which sessions are made when it has room: a tmpfs.
    pub shm_dir: PathBuf,
    /// Uid and gid of the programs, when not ours.
    pub owner: Option<(u32, u32)>,
}

/// A live session; its directory is removed when dropped.
#[derive(Debug)]
pub struct Session {
    parent: Held,
    name: String,
    dir: Held,
    control: Shared,
    /// The user to whom [`Session::tie`] gives it.
    owner: Option<(u32, u32)>,
    /// The control file. Holds the write lock by which programs and `kasuri recover` know that this recorder lives.
    lock: File,
    /// It stays when it is dropped.
    kept: bool,
}

impl Session {
    /// Makes the directory in shared memory, or in `fallback` where there is none.
    ///
    /// # Errors
    /// When neither place can be written.
    pub fn create(options: &SessionOptions, fallback: &Path) -> Result<Session> {
        let made = Session::create_in(&options.shm_dir, options);
        match (made, options.owner) {
            (Ok(session), _) => Ok(session),
            // The recording's directory is ours alone: a program of another user could not come in.
            (Err(error), Some(_)) => Err(error),
            (Err(_), None) => Session::create_in(fallback, options),
        }
    }

    fn create_in(parent: &Path, options: &SessionOptions) -> Result<Session> {
        let name = format!("kasuri-{}-{:08x}", std::process::id(), crate::random::random_u32());
        let parent = std::path::absolute(parent)
            .and_then(|path| Held::open(&path))
            .map_err(|e| Error::file("open", parent, e))?;
        let path = parent.named(&name);
        let dir = parent.make(&name).map_err(|e| Error::file("make", &path, e))?;
        let filled = fill(&dir, options).map_err(|e| Error::file("make", &dir.named(CONTROL), e));
        match filled {
            Ok((control, lock)) => {
                Ok(Session { parent, name, dir, control, owner: options.owner, lock, kept: false })
            }
            Err(error) => {
                remove(&parent, &name, &dir);
                Err(error)
            }
        }
    }

    /// Ties the session to its recording, each by a link to the other, then gives it to the programs' user: from here on the
    /// recorder makes nothing in it.
    ///
    /// # Errors
    /// When a link cannot be made, or the directory not be given away.
    pub fn tie(&self, recording: &Held) -> Result<()> {
        let absolute = std::path::absolute(recording.path())
            .map_err(|e| Error::file("find", recording.path(), e))?;
        self.dir
            .make_link(&absolute, RECORDING)
            .map_err(|e| Error::file("make", &self.dir.named(RECORDING), e))?;
        recording
            .make_link(self.path(), SESSION)
            .map_err(|e| Error::file("make", &recording.named(SESSION), e))?;
        let Some((uid, gid)) = self.owner else {
            return Ok(());
        };
        // The file first: in a directory of theirs another one could stand in its place. Both by descriptor all the same.
        safefs::give(&self.lock, uid, gid)
            .and_then(|()| safefs::give(&self.dir, uid, gid))
            .map_err(|e| Error::file("give away", self.path(), e))
    }

    /// Its directory, held.
    pub fn dir(&self) -> &Held {
        &self.dir
    }

    /// The directory, for KASURI_SESSION.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Ends it and removes it. Returns the files of others that keep it where it is.
    pub(crate) fn end(mut self) -> Option<Foreign> {
        self.set_state(SessionState::Stopped);
        self.kept = true;
        remove(&self.parent, &self.name, &self.dir)
    }

    /// Ends it and leaves its files, because their events could not be written.
    pub fn keep(mut self) {
        self.kept = true;
    }

    /// Tells all programs.
    pub fn set_state(&self, state: SessionState) {
        // ORDER release; pairs with the acquire load of `state` in kasuri.h. What was done before, such as
        // freeing chunks ahead of RECORDING, is seen by a program that sees the new state.
        self.control.u32_at(offset_of!(Control, state)).store(state as u32, Ordering::Release);
    }

    /// The number of times that programs asked for a snapshot.
    pub fn triggers(&self) -> u32 {
        // ORDER acquire; pairs with the release increment in kasuri_trigger(): the events before the
        // trigger are in the rings when it is seen.
        self.control.u32_at(offset_of!(Control, trigger)).load(Ordering::Acquire)
    }

    /// The number of clients that found no room for their files or for one chunk.
    pub fn refused(&self) -> u32 {
        self.control.load_u32(offset_of!(Control, refused))
    }

    /// The number of clients that cannot take part: of another byte order, or without the clock of the stamps.
    pub fn foreign(&self) -> u32 {
        self.control.load_u32(offset_of!(Control, foreign))
    }

    /// Events lost by clients that have no room.
    pub fn lost(&self) -> [u64; LOST_CAUSES] {
        lost(&self.control)
    }

    /// What kept rings or names of programs from growing.
    pub fn hindrances(&self) -> Vec<Hindrance> {
        hindrances(&self.control)
    }

    /// Tells programs that chunks were freed.
    pub fn add_freed(&self) {
        // ORDER release; pairs with the acquire load of `freed` by a thread that found no chunk: the
        // chunk states stored before are seen as FREE.
        self.control.u32_at(offset_of!(Control, freed)).fetch_add(1, Ordering::Release);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.set_state(SessionState::Stopped);
        // In a panic it stays, and the recording directory with the link to it: `kasuri recover` takes it from there.
        if !std::thread::panicking() && !self.kept {
            remove(&self.parent, &self.name, &self.dir);
        }
    }
}

/// Makes the control file and takes its lock.
fn fill(dir: &Held, options: &SessionOptions) -> std::io::Result<(Shared, File)> {
    let file = dir.file(CONTROL, Access::New)?;
    // Allocated, not only sized: a page that cannot be had is an error here and a SIGBUS later.
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, CONTROL_BYTES)?;
    lock(&file, libc::F_WRLCK)?;
    let control = Shared::map(&file)?;
    announce(&control, options);
    Ok((control, file))
}

/// Removes a session. Its two marks go last: until they are gone [`Left::of`] finds the session whose recorder was killed meanwhile.
fn remove(parent: &Held, name: &str, dir: &Held) -> Option<Foreign> {
    foreign::remove(parent, name, dir, is_session_file, &[CONTROL, RECORDING])
}

/// Whether Kasuri makes files of this name in a session.
fn is_session_file(name: &str) -> bool {
    let is_sites = |name: &str| {
        let client = name.strip_suffix(".sites");
        client.is_some_and(|client| crate::rings::ringfile::client_id(client).is_some())
    };
    name == CONTROL
        || name == RECORDING
        || crate::rings::ringfile::RingName::parse(name).is_some()
        || is_sites(name)
}

fn lost(control: &Shared) -> [u64; LOST_CAUSES] {
    std::array::from_fn(|cause| control.load_u64(offset_of!(Control, lost) + 8 * cause))
}

fn hindrances(control: &Shared) -> Vec<Hindrance> {
    // ORDER acquire; pairs with the release in kasuri__store_hindrance(). Publishes the limit that goes with the error.
    let error =
        |at: usize| control.u32_at(offset_of!(Control, hindrance) + 4 * at).load(Ordering::Acquire);
    let errors = std::array::from_fn(error);
    let limit = |at: usize| control.load_u64(offset_of!(Control, hindrance_limit) + 8 * at);
    Hindrance::all(errors, std::array::from_fn(limit))
}

/// Whether this machine's byte order is that of the parsers of rings.
pub const READS_RINGS: bool = cfg!(target_endian = "little");

fn announce(control: &Shared, options: &SessionOptions) {
    let put = |offset: usize, value: u32| control.u32_at(offset).store(value, Ordering::Relaxed);
    let clock = match options.clock {
        StampClock::Native => Clock::Native,
        StampClock::Monotonic => Clock::Monotonic,
    };
    put(offset_of!(Control, version), ABI_VERSION);
    put(offset_of!(Control, struct_size), size_of::<Control>() as u32);
    put(offset_of!(Control, policy), options.policy as u32);
    put(offset_of!(Control, clock), clock as u32);
    put(offset_of!(Control, chunk_bytes), options.chunk_bytes);
    put(offset_of!(Control, first_chunks), options.first_chunks);
    put(offset_of!(Control, flight_chunks), options.flight_chunks);
    put(offset_of!(Control, recorder_pid), std::process::id());
    control.u64_at(offset_of!(Control, max_bytes)).store(options.max_bytes, Ordering::Relaxed);
    // The parsers read little-endian numbers: on other machines programs are not to write any.
    let state = match READS_RINGS {
        true => SessionState::Recording,
        false => SessionState::Stopped,
    };
    put(offset_of!(Control, state), state as u32);
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
pub fn is_alive(dir: &Held) -> bool {
    use std::os::fd::AsRawFd;
    let Ok(file) = dir.file(CONTROL, Access::Read) else {
        return false;
    };
    let mut lock = flock_of(libc::F_WRLCK);
    // SAFETY: as in `lock`; the kernel writes into the struct.
    let rc = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &mut lock) };
    rc == 0 && lock.l_type != libc::F_UNLCK as libc::c_short
}

/// Whether `path` is the session of a recorder that lives; for our user, and for root of any user.
pub(crate) fn is_live_at(path: &Path) -> bool {
    let live = || -> std::io::Result<bool> {
        let (parent, name) = Held::parent_of(path)?;
        Ok(is_alive(&genuine(&parent, &name.to_string_lossy())?))
    };
    live().unwrap_or(false)
}

fn flock_of(kind: libc::c_int) -> libc::flock {
    // SAFETY: all zero is a valid struct flock: the whole file from its start, no pid.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock
}

/// The page that tells programs about the session.
const CONTROL: &str = "control";
/// A link in the session's directory to the recording directory, so that a dead recorder's session tells whose it was.
const RECORDING: &str = "recording";
/// A link in the recording directory to the session.
pub(crate) const SESSION: &str = "session";

/// A session whose recorder was killed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Orphan {
    /// Its directory.
    pub path: PathBuf,
    /// The recording directory that it was made for; none: not known. It may have been moved or removed since.
    pub recording: Option<PathBuf>,
    /// Whether that directory is there, belongs to us or to the session's owner, and names this session.
    pub recording_agrees: bool,
}

/// The sessions in `shm_dir` whose recorders were killed: ours, and for root those of all users.
pub fn orphans(shm_dir: &Path) -> Vec<Orphan> {
    let Ok(parent) = Held::open(shm_dir) else {
        return Vec::new();
    };
    let names = parent.names(MAX_NAMES).unwrap_or_default();
    let mut orphans: Vec<Orphan> = names
        .iter()
        .filter_map(|name| Some((name, genuine(&parent, name).ok()?)))
        .filter(|(_, dir)| !is_alive(dir))
        .map(|(name, dir)| {
            let path = shm_dir.join(name);
            let recording = dir.link(RECORDING).ok();
            let recording_agrees = recording.as_deref().is_some_and(|r| names_it(r, &dir));
            Orphan { path, recording, recording_agrees }
        })
        .collect();
    orphans.sort_by(|a, b| a.path.cmp(&b.path));
    orphans
}

/// Whether the recording directory at `path` is one of ours or of the session's user, and its link names this session.
fn names_it(path: &Path, session: &Held) -> bool {
    let agrees = || -> std::io::Result<bool> {
        let (parent, name) = Held::parent_of(path)?;
        let recording = parent.directory(&name)?;
        let owner = recording.stat()?.st_uid;
        let ours = owner == rustix::process::geteuid().as_raw();
        let theirs = owner == session.stat()?.st_uid;
        let back = recording.link(SESSION)?;
        Ok((ours || theirs) && back.file_name() == session.path().file_name())
    };
    agrees().unwrap_or(false)
}

/// Whether both are the same directory.
fn is_same(a: &Held, b: &Held) -> std::io::Result<bool> {
    let (a, b) = (a.stat()?, b.stat()?);
    Ok((a.st_dev, a.st_ino) == (b.st_dev, b.st_ino))
}

/// Removes what [`remove`] leaves when it is killed after the control file: a directory of our user (for root: any) with the link to `recording`
/// alone, or with nothing. Return: whether that was it.
fn remove_rest(parent: &Held, name: &str, recording: &Held) -> bool {
    let rest = || -> std::io::Result<bool> {
        let dir = parent.directory(name)?;
        let me = rustix::process::geteuid();
        let is_ours = me.is_root() || dir.stat()?.st_uid == me.as_raw();
        let belongs = match dir.names(2)?.as_slice() {
            [] => true,
            [only] if only == RECORDING => is_same(&Held::open(&dir.link(RECORDING)?)?, recording)?,
            _ => false,
        };
        Ok(is_session_name(name) && is_ours && belongs && remove(parent, name, &dir).is_none())
    };
    rest().unwrap_or(false)
}

/// Opens the entry `name` of `parent` if it is a session: named like one, with a control file that says so, both of one owner, who is
/// our own user (for root, which gives sessions away: any).
///
/// # Errors
/// The first thing that is not as it must be.
fn genuine(parent: &Held, name: &str) -> std::io::Result<Held> {
    let not = |why: &str| std::io::Error::other(why.to_owned());
    if !is_session_name(name) {
        return Err(not("its name is not that of a session"));
    }
    let dir = parent.directory(name)?;
    let (of_dir, me) = (dir.stat()?, rustix::process::geteuid());
    if of_dir.st_uid != me.as_raw() && !me.is_root() {
        return Err(not("it belongs to another user"));
    }
    let control = dir.file(CONTROL, Access::Read)?;
    let of_control = rustix::fs::fstat(&control)?;
    if of_control.st_uid != of_dir.st_uid {
        return Err(not("its control file belongs to another user than it does"));
    }
    let mut magic = [0u8; 8];
    rustix::io::pread(&control, &mut magic[..], 0)?;
    match u64::from_le_bytes(magic) == MAGIC_CONTROL {
        true => Ok(dir),
        false => Err(not("its control file does not begin as one")),
    }
}

/// `kasuri-<pid>-<8 hexadecimal digits>`.
fn is_session_name(name: &str) -> bool {
    let parts = name.strip_prefix("kasuri-").and_then(|n| n.split_once('-'));
    parts.is_some_and(|(pid, random)| {
        pid.parse::<u32>().is_ok()
            && random.len() == 8
            && random.bytes().all(|b| b.is_ascii_hexdigit())
    })
}

/// Removes the session that a recording directory names, where its recorder is dead: for a recording that nobody wants.
pub fn discard(recording: &Held, shm_dir: &Path) {
    if let Ok(Some(left)) = Left::of(recording, shm_dir)
        && !is_alive(left.dir())
    {
        left.stop();
        left.remove();
    }
}

/// The session of a dead recorder, which a recording directory names.
#[derive(Debug)]
pub struct Left {
    parent: Held,
    name: String,
    dir: Held,
}

impl Left {
    /// Opens the session that the link in `recording` names; none: the link or the session is not there any more. What is left of a
    /// session whose recorder was killed while it removed it goes: it was read to its end before.
    ///
    /// # Errors
    /// When the link leads to anything but a session of this recording. The recording may come from any user, and its
    /// link may name anything.
    pub fn of(recording: &Held, shm_dir: &Path) -> std::io::Result<Option<Left>> {
        let Ok(path) = recording.link(SESSION) else {
            return Ok(None);
        };
        if path.symlink_metadata().is_err() {
            return Ok(None);
        }
        let not = |why: String| std::io::Error::other(format!("{}: {why}", path.display()));
        let (parent, name) = Held::parent_of(&path).map_err(|e| not(e.to_string()))?;
        let name = name.to_string_lossy().into_owned();
        // Shared memory, or the recording itself where there was none.
        let is_in = |place: std::io::Result<Held>| {
            let same = |place: Held| {
                let (a, b) = (place.stat().ok()?, parent.stat().ok()?);
                Some((a.st_dev, a.st_ino) == (b.st_dev, b.st_ino))
            };
            place.ok().and_then(same).unwrap_or(false)
        };
        if !is_in(Held::open(shm_dir)) && !is_in(Ok(recording.clone())) {
            return Err(not(format!(
                "it does not lie in {}, where sessions are; set KASURI_SHM_DIR when it was recorded with that",
                shm_dir.display()
            )));
        }
        let dir = match genuine(&parent, &name) {
            Ok(dir) => dir,
            Err(_) if remove_rest(&parent, &name, recording) => return Ok(None),
            Err(e) => return Err(not(e.to_string())),
        };
        let back = dir.link(RECORDING).map_err(|e| not(e.to_string()))?;
        // A recording that was moved is found where it is now; one that is still there is another one.
        if let Ok(other) = Held::open(&back)
            && !is_same(&other, recording)?
        {
            return Err(not(format!("it belongs to {}", back.display())));
        }
        Ok(Some(Left { parent, name, dir }))
    }

    /// Its directory, held.
    pub fn dir(&self) -> &Held {
        &self.dir
    }

    fn control(&self) -> Option<Shared> {
        let control = Shared::open(&self.dir, CONTROL).ok()?;
        (control.len() >= size_of::<Control>() && control.load_u64(0) == MAGIC_CONTROL)
            .then_some(control)
    }

    /// Events lost by programs without room.
    pub fn lost(&self) -> [u64; LOST_CAUSES] {
        self.control().as_ref().map_or([0; LOST_CAUSES], lost)
    }

    /// What kept rings or names of programs from growing.
    pub fn hindrances(&self) -> Vec<Hindrance> {
        self.control().as_ref().map_or_else(Vec::new, hindrances)
    }

    /// Tells the programs to stop writing.
    pub fn stop(&self) {
        if let Some(control) = self.control() {
            // ORDER release; as Session::set_state.
            control
                .u32_at(offset_of!(Control, state))
                .store(SessionState::Stopped as u32, Ordering::Release);
        }
    }

    /// Removes the files that Kasuri made. Returns the files of others that keep the directory where it is.
    pub(crate) fn remove(&self) -> Option<Foreign> {
        remove(&self.parent, &self.name, &self.dir)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, symlink};

    fn session_for(owner: Option<(u32, u32)>, shm_dir: &Path) -> Session {
        let options = SessionOptions {
            policy: Policy::Grow,
            clock: StampClock::Monotonic,
            chunk_bytes: 4096,
            max_bytes: 1 << 20,
            first_chunks: 1,
            flight_chunks: 1,
            shm_dir: shm_dir.to_owned(),
            owner,
        };
        Session::create(&options, shm_dir).unwrap()
    }

    /// The future owner of the session puts a link in the place of its control file, and a directory in that of the
    /// session, at the worst moment: just before both are given away.
    #[test]
    fn what_was_made_is_given_away_and_not_what_bears_its_name() {
        if !rustix::process::geteuid().is_root() {
            return kasuri_testkit::skip("needs root");
        }
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        for name in ["shm", "recording", "roots"] {
            std::fs::create_dir(at(name)).unwrap();
        }
        std::fs::write(at("shadow"), "precious").unwrap();
        let session = session_for(Some((65534, 65534)), &at("shm"));
        let made = at("made");
        std::fs::rename(session.path().join("control"), at("control")).unwrap();
        symlink(at("shadow"), session.path().join("control")).unwrap();
        std::fs::rename(session.path(), &made).unwrap();
        symlink(at("roots"), session.path()).unwrap();
        session.tie(&Held::open(&at("recording")).unwrap()).unwrap();
        let owner = |path: PathBuf| std::fs::symlink_metadata(path).unwrap().uid();
        assert_eq!((owner(at("shadow")), owner(at("roots"))), (0, 0));
        assert_eq!((owner(at("control")), owner(made)), (65534, 65534));
        drop(session);
        assert!(at("shadow").exists() && at("roots").exists());
    }

    /// After it was found to be one: by a program that it was given to.
    #[test]
    fn a_control_page_that_was_replaced_is_neither_read_nor_written() {
        let scratch = tempfile::tempdir().unwrap();
        let session = session_for(None, scratch.path());
        let (parent, name) = Held::parent_of(session.path()).unwrap();
        let left =
            Left { parent, name: name.to_string_lossy().into_owned(), dir: session.dir().clone() };
        let lost = session.control.u64_at(offset_of!(Control, lost));
        lost.store(7, Ordering::Relaxed);
        assert_eq!(left.lost()[0], 7);
        let control = session.path().join(CONTROL);
        let page = std::fs::read(&control).unwrap();
        let mut other = page.clone();
        other[0] ^= 1;
        for bytes in [&other[..], &page[..64]] {
            std::fs::remove_file(&control).unwrap();
            std::fs::write(&control, bytes).unwrap();
            assert_eq!(left.lost(), [0; LOST_CAUSES]);
            left.stop();
            assert_eq!(std::fs::read(&control).unwrap(), bytes);
        }
    }

    #[test]
    fn only_what_kasuri_makes_is_removed() {
        let ours = ["control", "recording", "p1-0.ring0", "p4294967295-7.ring12", "p12-3.sites"];
        let others = ["control2", "p1.ring0", "p1-0.chunks", "x.sites", "notes", ".."];
        assert!(ours.iter().all(|name| is_session_file(name)));
        assert!(!others.iter().any(|name| is_session_file(name)));
        assert!(is_session_name("kasuri-12-0123abcd"));
        for name in
            ["kasuri-attach-12", "kasuri-12", "kasuri-x-0123abcd", "kasuri-1-012/abcd", "home"]
        {
            assert!(!is_session_name(name), "{name}");
        }
    }
}
