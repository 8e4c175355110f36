//! Reads memory, mappings and files of other processes in a process of its own, which may hang.
//!
//! A page belongs to whoever made it: one that is served by a program (userfaultfd, a file of FUSE) comes when that program likes, or
//! never, and so does what takes the lock of the memory that such a page belongs to. Nothing ends such a wait but
//! SIGKILL, and not always. So the recorder asks another process, by memory that both have and a socket that says when, and waits for it no
//! longer than [`WAIT_NS`]. One that sleeps over one question for [`GIVE_UP_NS`] is killed, whether it dies or not, and the process
//! that it was asked about is not read again. Of those that were left behind there are few, and then none is made any more.
//!
//! There are two: one reads the stacks of threads that wait, many at a time, and nobody waits for it ([`Lane::Waits`]); the other answers
//! at once ([`Lane::Now`]).
//!
//! Where Yama lets only a program's ancestors read it, the reader is a thread: a process beside the program would be refused. Other
//! users' processes cannot be read there, so only a user's own program can leave that user's recorder with a thread that does not end.
//!
//! Rejected: to look first whether a page is there (/proc/PID/pagemap): it may go before it is read. A signal: these waits end by
//! SIGKILL only.
use super::apart::{self, is_readable};
use super::held;
use super::place::{Call, place, small_file, times_run};
use super::safefs;
use crate::clock;
use kasuri_base::words::harmless;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use rustix::process::Pid;
use std::cell::RefCell;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{IoSlice, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// Longest wait for an answer.
pub(crate) const WAIT_NS: u64 = 50_000_000;
/// Time after which a reader that sleeps over a question is given up. Nobody waits so long: a page on a slow disk may need it.
pub(crate) const GIVE_UP_NS: u64 = 500_000_000;
/// Most readers that are given up in a recording, and most that are left behind, since they do not die.
const GIVEN_UP_MAX: usize = 32;
const LEFT_MAX: usize = 4;
/// After so long without a question it is looked whether the recorder is urgent now.
const URGENT_NS: u64 = 1_000_000;
/// Most questions at once.
pub(crate) const ASKS_MAX: usize = 64;
/// Bytes for answers: the mappings of a process, at most. Memory that was never written takes none.
pub(crate) const ROOM: usize = 16 << 20;
/// Beyond this, memory is given back when an answer was taken.
const KEPT_ROOM: usize = 1 << 20;
/// Most bytes of the text about a thread's system call.
const CALL_BYTES: usize = 256;
/// Most bytes of the name of what a thread waits at.
const AT_BYTES_MAX: usize = 520;

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Stacks of threads that wait, later.
    Waits,
    /// Now.
    Now,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
enum What {
    /// How often a thread got a CPU, and if that is as often as told, its stack: so many bytes, if any.
    Wait,
    /// A piece of memory.
    Memory,
    /// The system call that a thread is in, as /proc/PID/task/TID/syscall has it.
    Call,
    /// The list of mappings.
    Maps,
    /// A file that it has mapped, opened for reading: the mapping itself, and its path in the root directory of the process and in ours.
    OpenMapping,
    OpenInItsRoot,
    OpenInOurRoot,
    /// No answer.
    #[cfg(test)]
    Nothing,
}

/// A question.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Ask {
    what: What,
    pid: i32,
    tid: i32,
    /// Most bytes, and where they go.
    bytes: u32,
    room_at: u64,
    address: u64,
    times_run: u64,
    /// Of a mapping that is to be opened: where it ends, and the device; its path is in the room.
    end: u64,
    device: (u32, u32),
}

/// How a question was answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Found {
    /// There is no such thread or process, or this kernel does not say.
    #[default]
    Nothing,
    /// The thread has run since.
    Ran,
    /// It has not, and no stack was asked for.
    Waits,
    /// It has not, but runs, or ended.
    NoPlace,
    /// It has not, and what was asked for cannot be read; or may not be.
    Unreadable,
    Refused,
    /// Here it is.
    Bytes,
}

/// An answer.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Answer {
    pub(crate) found: Found,
    /// Bytes that were read.
    pub(crate) n: u32,
    pub(crate) times_run: u64,
    pub(crate) time_ns: u64,
    pub(crate) sp: u64,
    pub(crate) ip: u64,
    at_len: u32,
    at: [u8; AT_BYTES_MAX],
}

impl Answer {
    const NONE: Answer = Answer {
        found: Found::Nothing,
        n: 0,
        times_run: 0,
        time_ns: 0,
        sp: 0,
        ip: 0,
        at_len: 0,
        at: [0; AT_BYTES_MAX],
    };

    /// The file, pipe or socket at which the thread waits, in words.
    pub(crate) fn at(&self) -> Option<String> {
        let name = self.at.get(..self.at_len as usize)?;
        (!name.is_empty()).then(|| String::from_utf8_lossy(name).into_owned())
    }
}

/// What both have.
#[repr(C)]
struct Shared {
    /// Questions that were answered.
    done: AtomicU32,
    /// The reader's thread, and the CPU time that it has used, ns.
    tid: AtomicI32,
    used_ns: AtomicU64,
    asks: [Ask; ASKS_MAX],
    answers: [Answer; ASKS_MAX],
    room: [u8; ROOM],
}

/// A mapping of it, which each side has of its own: what one that was given up may write yet, nobody else reads.
#[derive(Debug)]
struct Mapping(*mut Shared);

// SAFETY: both sides reach into it by copies to and from raw places, each place by one side at a time: the recorder's before it
// asks and once `done` says so, the reader's in between.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new() -> Option<Mapping> {
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping.
        let at = unsafe {
            libc::mmap(std::ptr::null_mut(), size_of::<Shared>(), protection, flags, -1, 0)
        };
        (at != libc::MAP_FAILED).then(|| Mapping(at.cast()))
    }

    fn done(&self) -> &AtomicU32 {
        // SAFETY: zeroes are such a number; it is only reached as this.
        unsafe { &(*self.0).done }
    }

    fn tid(&self) -> &AtomicI32 {
        // SAFETY: as above.
        unsafe { &(*self.0).tid }
    }

    fn used_ns(&self) -> &AtomicU64 {
        // SAFETY: as above.
        unsafe { &(*self.0).used_ns }
    }

    fn ask(&self, ix: usize) -> Ask {
        // SAFETY: within the array; the recorder wrote it before it asked.
        unsafe { (&raw const (*self.0).asks[ix]).read() }
    }

    fn set_ask(&self, ix: usize, ask: Ask) {
        // SAFETY: within the array; nobody reads it before it is asked.
        unsafe { (&raw mut (*self.0).asks[ix]).write(ask) }
    }

    fn answer(&self, ix: usize) -> Answer {
        // SAFETY: within the array; the reader wrote it before it counted it.
        unsafe { (&raw const (*self.0).answers[ix]).read() }
    }

    /// Tells what a question needs more.
    fn put(&self, ask: &Ask, bytes: &[u8]) {
        let (place, room) = self.room(ask);
        // SAFETY: within the room; nobody reads it before it is asked.
        unsafe { place.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len().min(room)) };
    }

    fn set_answer(&self, ix: usize, answer: &Answer) {
        // SAFETY: within the array; nobody reads it before it is counted.
        unsafe { (&raw mut (*self.0).answers[ix]).write(*answer) }
    }

    /// Where an answer's bytes go, at most so many.
    fn room(&self, ask: &Ask) -> (*mut u8, usize) {
        let at = (ask.room_at as usize).min(ROOM);
        // SAFETY: within the room, or at its end.
        let place = unsafe { (&raw mut (*self.0).room).cast::<u8>().add(at) };
        (place, (ask.bytes as usize).min(ROOM - at))
    }

    /// Gives back what an unusually long answer took.
    fn shrink(&self) {
        let (page, room) = (1 << 16, std::mem::offset_of!(Shared, room));
        let from = (room + KEPT_ROOM).next_multiple_of(page);
        let at = self.0 as usize + from;
        // SAFETY: pages of this mapping that hold nothing but answers that were taken.
        unsafe { libc::madvise(at as *mut _, size_of::<Shared>() - from, libc::MADV_REMOVE) };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this one's own.
        unsafe { libc::munmap(self.0.cast(), size_of::<Shared>()) };
    }
}

/// What the reader does until the recorder's end of the socket is closed.
fn serve(socket: &OwnedFd, shared: &Mapping) {
    shared.tid().store(rustix::thread::gettid().as_raw_nonzero().get(), Ordering::Relaxed);
    while let Received::Number(n, _) = receive(socket, RecvFlags::empty()) {
        let mut opened = None;
        for ix in 0..(n as usize).min(ASKS_MAX) {
            let answer = answer(&shared.ask(ix), shared, &mut opened);
            shared.set_answer(ix, &answer);
            // ORDER release; pairs with the acquire load in `Reader::n_done`. Publishes the answer and its bytes.
            shared.done().store(ix as u32 + 1, Ordering::Release);
        }
        shared.used_ns().store(clock::thread_cpu_ns(), Ordering::Relaxed);
        if !send(socket, n, opened.as_ref()) {
            return;
        }
    }
}

/// Sends a number, and a file if there is one.
fn send(socket: &OwnedFd, n: u32, file: Option<&File>) -> bool {
    let bytes = n.to_ne_bytes();
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut more = SendAncillaryBuffer::new(&mut room);
    let files = file.map(|file| [file.as_fd()]);
    if let Some(files) = &files {
        more.push(SendAncillaryMessage::ScmRights(files));
    }
    let flags = SendFlags::NOSIGNAL;
    rustix::net::sendmsg(socket, &[IoSlice::new(&bytes)], &mut more, flags) == Ok(bytes.len())
}

enum Received {
    Number(u32, Option<OwnedFd>),
    Nothing,
    /// The other end is closed.
    End,
}

fn receive(socket: &OwnedFd, flags: RecvFlags) -> Received {
    let mut bytes = [0; 4];
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    loop {
        let mut more = RecvAncillaryBuffer::new(&mut room);
        let parts = &mut [IoSliceMut::new(&mut bytes)];
        let flags = flags | RecvFlags::CMSG_CLOEXEC;
        match rustix::net::recvmsg(socket, parts, &mut more, flags) {
            Ok(got) if got.bytes == bytes.len() => {
                let files = more.drain().find_map(|message| match message {
                    RecvAncillaryMessage::ScmRights(mut files) => files.next(),
                    _ => None,
                });
                return Received::Number(u32::from_ne_bytes(bytes), files);
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Received::Nothing,
            _ => return Received::End,
        }
    }
}

fn answer(ask: &Ask, shared: &Mapping, opened: &mut Option<File>) -> Answer {
    let (room, len) = shared.room(ask);
    let mut answer = Answer::NONE;
    match ask.what {
        What::Wait => wait(ask, room, len, &mut answer),
        What::Memory => {
            copy(ask.tid, ask.address, room, len, &mut answer);
            if answer.found == Found::Unreadable
                && let Some(tid) = heir(ask.tid)
            {
                copy(tid, ask.address, room, len, &mut answer);
            }
        }
        What::Call => {
            let text = small_file(&format!("/proc/{}/task/{}/syscall", ask.pid, ask.tid));
            if let Some(text) = text.filter(|text| text.len() <= len) {
                // SAFETY: the room has as many bytes, and is the reader's while it answers.
                unsafe { room.copy_from_nonoverlapping(text.as_ptr(), text.len()) };
                (answer.found, answer.n) = (Found::Bytes, text.len() as u32);
            }
        }
        What::Maps => {
            // SAFETY: the room is the reader's while it answers.
            let room = unsafe { std::slice::from_raw_parts_mut(room, len) };
            let mut list = |path: &str| held::time(held::By::Memory, || whole(path, room));
            let n = match list(&format!("/proc/{}/maps", ask.pid)) {
                Some(0) => heir(ask.pid)
                    .and_then(|tid| list(&format!("/proc/{}/task/{tid}/maps", ask.pid))),
                n => n,
            };
            if let Some(n) = n {
                (answer.found, answer.n) = (Found::Bytes, n as u32);
            }
        }
        What::OpenMapping | What::OpenInItsRoot | What::OpenInOurRoot => {
            // SAFETY: the room is the reader's while it answers.
            let path = unsafe { std::slice::from_raw_parts(room, len) };
            *opened = open(ask, Path::new(OsStr::from_bytes(path)));
        }
        #[cfg(test)]
        What::Nothing => loop {
            std::thread::sleep(Duration::from_secs(1));
        },
    }
    answer
}

/// A process whose first thread has ended has its memory by the others' numbers only: one of these.
fn heir(pid: i32) -> Option<i32> {
    let text = small_file(&format!("/proc/{pid}/stat"))?;
    let (_, rest) = text.rsplit_once(") ")?;
    let is_other = |&tid: &i32| tid != pid;
    (rest.starts_with('Z'))
        .then(|| crate::program::procs::threads(pid).into_iter().find(is_other))?
}

/// Opens what a process has mapped. `None`: it cannot be read, or it is not to be opened.
fn open(ask: &Ask, path: &Path) -> Option<File> {
    let is_root = rustix::process::geteuid().is_root();
    if is_root && may_never_come(ask.pid, ask.device) {
        return None;
    }
    let range = format!("/proc/{}/map_files/{:x}-{:x}", ask.pid, ask.address, ask.end);
    let file = match ask.what {
        What::OpenMapping => {
            held::time(held::By::Memory, || safefs::open_regular(Path::new(&range)))
        }
        What::OpenInItsRoot => safefs::open_in_root_of(ask.pid, path),
        _ => safefs::open_regular(path),
    };
    // Another file may have come to this place since.
    file.ok().filter(|file| !is_root || !is_served(file))
}

/// Whether the files of a device are served by a user's program (FUSE), which may answer when it likes or never: root does not open them.
/// A user's own are as slow as they like. No request is made to know it. A file system that is mounted nowhere any more may be one too.
fn may_never_come(pid: i32, device: (u32, u32)) -> bool {
    let lists = [format!("/proc/{pid}/mountinfo"), "/proc/self/mountinfo".to_owned()];
    let text = |list: &String| std::fs::read_to_string(list).ok();
    let kind = lists.iter().find_map(|list| kind_of(&text(list)?, device));
    let of_root =
        || std::fs::metadata(format!("/proc/{pid}")).is_ok_and(|process| process.uid() == 0);
    match kind {
        Some(kind) => kind == "fuse" || kind == "fuseblk" || kind.starts_with("fuse."),
        None => device.0 == 0 && !of_root(),
    }
}

/// The kind of the file system of a device, in a list of mounts (proc_pid_mountinfo(5)).
fn kind_of(mounts: &str, (major, minor): (u32, u32)) -> Option<String> {
    let wanted = format!("{major}:{minor}");
    let line = mounts.lines().find(|line| line.split(' ').nth(2) == Some(&wanted))?;
    let (_, rest) = line.split_once(" - ")?;
    rest.split(' ').next().map(str::to_owned)
}

/// Whether a file is of FUSE (statfs(2)).
fn is_served(file: &File) -> bool {
    const FUSE: u64 = 0x6573_5546;
    rustix::fs::fstatfs(file).is_ok_and(|of| of.f_type as u64 == FUSE)
}

fn wait(ask: &Ask, room: *mut u8, len: usize, answer: &mut Answer) {
    let Some(times) = times_run(ask.pid, ask.tid) else {
        return;
    };
    answer.times_run = times;
    if times != ask.times_run {
        answer.found = Found::Ran;
        return;
    }
    answer.found = Found::Waits;
    if len == 0 {
        return;
    }
    answer.found = Found::NoPlace;
    let Some(place) = place(ask.pid, ask.tid) else {
        return;
    };
    copy(ask.tid, place.sp, room, len, answer);
    (answer.sp, answer.ip) = (place.sp, place.ip);
    answer.time_ns = clock::monotonic_ns();
    if let Some(at) = place.at {
        // A name that is longer is none: it would be another's.
        let n = if at.len() > AT_BYTES_MAX { 0 } else { at.len() };
        answer.at[..n].copy_from_slice(&at.as_bytes()[..n]);
        answer.at_len = n as u32;
    }
    if answer.found == Found::Bytes && times_run(ask.pid, ask.tid) != Some(times) {
        answer.found = Found::NoPlace;
    }
}

/// Copies at most `len` bytes of a thread's memory.
fn copy(tid: i32, from: u64, room: *mut u8, len: usize, answer: &mut Answer) {
    let local = libc::iovec { iov_base: room.cast(), iov_len: len };
    let remote = libc::iovec { iov_base: from as *mut libc::c_void, iov_len: len };
    // SAFETY: the kernel writes at most `len` bytes to the room, which has as many; the other address is only read, in the
    // other process.
    let copied = held::time(held::By::Memory, || unsafe {
        libc::process_vm_readv(tid, &raw const local, 1, &raw const remote, 1, 0)
    });
    answer.found = match copied {
        1.. => Found::Bytes,
        _ if std::io::Error::last_os_error().raw_os_error() == Some(libc::EPERM) => Found::Refused,
        _ => Found::Unreadable,
    };
    answer.n = copied.max(0) as u32;
}

/// `None`: it cannot be read, or is longer.
fn whole(path: &str, room: &mut [u8]) -> Option<usize> {
    let mut file = File::open(path).ok()?;
    let mut n = 0;
    loop {
        match file.read(&mut room[n..]) {
            Ok(0) => return (n < room.len()).then_some(n),
            Ok(more) => n += more,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
}

/// Whether a process that is no ancestor of a program may read it (Yama's `ptrace_scope`).
fn may_be_a_process() -> bool {
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    let is_free = scope.map_or(true, |text| text.trim() == "0");
    let traces = rustix::thread::CapabilitySet::SYS_PTRACE;
    is_free || rustix::thread::capabilities(None).is_ok_and(|has| has.effective.contains(traces))
}

/// What answers.
#[derive(Debug)]
enum Who {
    Process(Pid),
    Thread(std::thread::JoinHandle<()>),
}

impl Who {
    /// Ends it; itself, if it does not.
    fn end(self) -> Option<Who> {
        let is_gone = match &self {
            Who::Process(pid) => apart::give_up(*pid),
            // It ends by the end of the socket.
            Who::Thread(_) => self.is_gone(),
        };
        (!is_gone).then_some(self)
    }

    fn is_gone(&self) -> bool {
        match self {
            Who::Process(pid) => apart::is_gone(*pid),
            Who::Thread(thread) => thread.is_finished(),
        }
    }
}

/// One that runs.
#[derive(Debug)]
struct Reader {
    who: Who,
    socket: OwnedFd,
    shared: Arc<Mapping>,
    is_urgent: bool,
}

impl Reader {
    fn start() -> Option<Reader> {
        let shared = Arc::new(Mapping::new()?);
        let (socket, other) = pair()?;
        let who = match may_be_a_process() {
            true => Who::Process(apart::fork(other.as_raw_fd(), || {
                name();
                serve(&other, &shared);
            })?),
            false => {
                let shared = shared.clone();
                let work = move || {
                    apart::block_signals();
                    serve(&other, &shared);
                };
                Who::Thread(std::thread::Builder::new().name(NAME.to_owned()).spawn(work).ok()?)
            }
        };
        Some(Reader { who, socket, shared, is_urgent: false })
    }

    /// Questions that were answered.
    fn n_done(&self) -> usize {
        // ORDER acquire; pairs with the release store in `serve`. Without it an answer could be read before it is whole.
        self.shared.done().load(Ordering::Acquire) as usize
    }

    /// Whether it sleeps: one that runs, or waits for a CPU or is stopped, is only late.
    fn sleeps(&self) -> bool {
        let tid = self.shared.tid().load(Ordering::Relaxed);
        let pid = match &self.who {
            Who::Process(pid) => pid.as_raw_nonzero().get(),
            Who::Thread(_) => std::process::id() as i32,
        };
        let stat = small_file(&format!("/proc/{pid}/task/{tid}/stat"));
        let state =
            stat.and_then(|text| text.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()));
        matches!(state, Some('S' | 'D'))
    }

    /// Comes before other threads as its caller does: it would be late for it else.
    fn be_as_urgent(&mut self) {
        // SAFETY: the call has no pointers.
        let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) } as i32;
        let policy = policy & !libc::SCHED_RESET_ON_FORK;
        let is_urgent = policy == libc::SCHED_FIFO;
        let tid = self.shared.tid().load(Ordering::Relaxed);
        if is_urgent == self.is_urgent || tid == 0 {
            return;
        }
        self.is_urgent = is_urgent;
        let (policy, priority) = match is_urgent {
            true => (libc::SCHED_FIFO, 1),
            false => (libc::SCHED_OTHER, 0),
        };
        // SAFETY: the kernel reads its struct sched_param, one number.
        unsafe { libc::syscall(libc::SYS_sched_setscheduler, tid, policy, &raw const priority) };
    }
}

/// The name of a reader.
const NAME: &str = "kasuri-reader";

fn name() {
    let _ = rustix::thread::set_name(c"kasuri-reader");
}

fn pair() -> Option<(OwnedFd, OwnedFd)> {
    let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
    rustix::net::socketpair(AddressFamily::UNIX, kind, flags, None).ok()
}

/// What one of them was asked.
#[derive(Debug, Default)]
struct Asked {
    reader: Option<Reader>,
    /// Where its answers are, also of one that was given up.
    shared: Option<Arc<Mapping>>,
    asks: Vec<Ask>,
    /// Answers that can be taken; `None`: it is not through.
    ready: Option<usize>,
    /// How many were answered, and since when.
    n_done: usize,
    since_ns: u64,
    /// Bytes of the room that answers have.
    used: usize,
    /// The file that was asked for.
    opened: Option<File>,
}

/// The readers, and what they were not answered.
#[derive(Debug, Default)]
struct Inner {
    waits: Asked,
    now: Asked,
    /// Processes that did not answer.
    silent: HashSet<i32>,
    given_up: usize,
    /// Those that were given up and have not ended.
    left: Vec<Who>,
    said: Vec<String>,
    is_closed: bool,
}

/// The readers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Readers(Rc<RefCell<Inner>>);

impl Readers {
    /// Whether this process did not answer before, or nobody may be asked any more.
    pub(crate) fn is_silent(&self, pid: i32) -> bool {
        let inner = self.0.borrow();
        inner.is_closed || inner.silent.contains(&pid)
    }

    /// The process has ended: its number may be another's.
    pub(crate) fn forget(&self, pid: i32) {
        self.0.borrow_mut().silent.remove(&pid);
    }

    /// Asks, after all answers before were taken. `false`: nobody can be asked.
    pub(crate) fn ask(&self, lane: Lane, asks: Vec<Ask>) -> bool {
        self.0.borrow_mut().ask(lane, asks, &[])
    }

    /// The number of questions that have answers now, from the first one on; `None`: not yet, or nothing was asked.
    pub(crate) fn ready(&self, lane: Lane) -> Option<usize> {
        self.0.borrow_mut().ready(lane, clock::monotonic_ns())
    }

    /// As [`Readers::ready`], after `most_ns` at most.
    pub(crate) fn wait(&self, lane: Lane, most_ns: u64) -> Option<usize> {
        let mut inner = self.0.borrow_mut();
        if inner.lane(lane).asks.is_empty() {
            return None;
        }
        let mut now = clock::monotonic_ns();
        let until = now + most_ns;
        loop {
            if let Some(reader) = &inner.lane(lane).reader {
                let left = Duration::from_nanos(until.saturating_sub(now));
                is_readable(reader.socket.as_raw_fd(), left);
            }
            now = clock::monotonic_ns();
            let ready = inner.ready(lane, now);
            if ready.is_some() || now >= until {
                return ready;
            }
        }
    }

    /// An answer, and its bytes.
    pub(crate) fn take(&self, lane: Lane, ix: usize, bytes: &mut Vec<u8>) -> Answer {
        bytes.clear();
        let mut inner = self.0.borrow_mut();
        let asked = inner.lane(lane);
        let is_there = asked.ready.is_some_and(|n| ix < n);
        let ask = asked.asks.get(ix).filter(|_| is_there);
        let (Some(shared), Some(ask)) = (&asked.shared, ask) else {
            return Answer::NONE;
        };
        let answer = shared.answer(ix);
        let (room, most) = shared.room(ask);
        let n = (answer.n as usize).min(most);
        // SAFETY: the answer is ready: nobody writes to its room before another is asked for.
        bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(room, n) });
        asked.used = asked.used.max(ask.room_at as usize + n);
        answer
    }

    /// All answers were taken.
    pub(crate) fn taken(&self, lane: Lane) {
        let mut inner = self.0.borrow_mut();
        let asked = inner.lane(lane);
        if asked.ready.take().is_some() {
            asked.asks.clear();
            asked.opened = None;
        }
        if std::mem::take(&mut asked.used) > KEPT_ROOM
            && let Some(shared) = &asked.shared
        {
            shared.shrink();
        }
    }

    /// CPU time that answering at once has taken, by the reader that does so now, ns.
    pub(crate) fn used_ns(&self) -> u64 {
        let inner = self.0.borrow();
        let reader = inner.now.reader.as_ref();
        reader.map_or(0, |reader| reader.shared.used_ns().load(Ordering::Relaxed))
    }

    /// What was not answered since the last time, in words.
    pub(crate) fn take_said(&self) -> Vec<String> {
        std::mem::take(&mut self.0.borrow_mut().said)
    }

    /// Whether nobody is asked any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.borrow().is_closed
    }

    /// The list of a process' mappings; `None`: it cannot be read, or did not come in time ([`Readers::is_busy`]). Then it may be asked for again.
    pub(crate) fn maps(&self, pid: i32) -> Option<Vec<u8>> {
        let is_it = |ask: &Ask| ask.what == What::Maps && ask.pid == pid;
        // One that came too late the last time.
        let was_asked = self.0.borrow().now.asks.first().is_some_and(is_it);
        if !was_asked && !self.ask_now(pid, vec![Ask::maps(pid)], &[]) {
            return None;
        }
        self.wait(Lane::Now, WAIT_NS)?;
        let mut bytes = Vec::new();
        let answer = self.take(Lane::Now, 0, &mut bytes);
        self.taken(Lane::Now);
        (answer.found == Found::Bytes).then_some(bytes)
    }

    /// Asks what has no answer.
    #[cfg(test)]
    pub(crate) fn be_silent_about(&self, pid: i32) {
        let ask = Ask { what: What::Nothing, ..Ask::memory(pid, 0, 8, 0) };
        assert!(self.ask_now(pid, vec![ask], &[]));
    }

    /// Whether the reader is still at what it was asked now.
    pub(crate) fn is_busy(&self) -> bool {
        let mut inner = self.0.borrow_mut();
        !inner.now.asks.is_empty() && inner.ready(Lane::Now, clock::monotonic_ns()).is_none()
    }

    /// A file that a process has mapped, opened for reading, if it is as asked for. In this order: the mapping itself, which works for removed
    /// files and in other mount name spaces, but needs CAP_CHECKPOINT_RESTORE; the path in the root directory of the process; for a process that has ended,
    /// the path in ours. As root nothing of FUSE is opened.
    pub(crate) fn open(
        &self,
        pid: i32,
        range: Range<u64>,
        device: (u32, u32),
        path: &Path,
        is_it: impl Fn(&File) -> bool,
    ) -> Option<File> {
        let ways = [What::OpenMapping, What::OpenInItsRoot, What::OpenInOurRoot];
        ways.into_iter().find_map(|what| {
            let file = self.open_by(what, pid, range.clone(), device, path)?;
            is_it(&file).then_some(file)
        })
    }

    /// As [`Readers::open`], by the mapping itself alone: it is that file.
    pub(crate) fn open_mapping(
        &self,
        pid: i32,
        range: Range<u64>,
        device: (u32, u32),
    ) -> Option<File> {
        self.open_by(What::OpenMapping, pid, range, device, Path::new(""))
    }

    fn open_by(
        &self,
        what: What,
        pid: i32,
        range: Range<u64>,
        device: (u32, u32),
        path: &Path,
    ) -> Option<File> {
        let path = path.as_os_str().as_bytes();
        let ask =
            Ask { what, end: range.end, device, ..Ask::memory(pid, range.start, path.len(), 0) };
        if path.len() > ROOM || !self.ask_now(pid, vec![ask], path) {
            return None;
        }
        self.wait_while_it_runs(Lane::Now)?;
        let file = self.0.borrow_mut().now.opened.take();
        self.taken(Lane::Now);
        file
    }

    /// As [`Readers::wait`], and on for [`GIVE_UP_NS`] while the reader does not sleep: the machine is busy.
    fn wait_while_it_runs(&self, lane: Lane) -> Option<usize> {
        (0..GIVE_UP_NS / WAIT_NS).find_map(|n| {
            let sleeps =
                |inner: &mut Inner| inner.lane(lane).reader.as_ref().is_none_or(Reader::sleeps);
            let goes_on = n == 0 || !sleeps(&mut self.0.borrow_mut());
            goes_on.then(|| self.wait(lane, WAIT_NS)).flatten()
        })
    }

    /// Pieces of memory of equal length, by their addresses.
    pub(crate) fn memory(
        &self,
        pid: i32,
        addresses: &[u64],
        len: usize,
        take: impl FnMut(usize, &[u8]),
    ) {
        let ask = |&address: &u64, room_at| Ask::memory(pid, address, len, room_at);
        self.pieces(pid, addresses, len, ask, take);
    }

    /// The system calls that threads of a process are in, by thread.
    pub(crate) fn calls(&self, pid: i32, tids: &[i32]) -> Vec<(i32, Call)> {
        let mut calls = Vec::new();
        let ask = |&tid: &i32, room_at| Ask {
            what: What::Call,
            tid,
            ..Ask::memory(pid, 0, CALL_BYTES, room_at)
        };
        self.pieces(pid, tids, CALL_BYTES, ask, |ix, bytes| {
            let call = Call::parse(&String::from_utf8_lossy(bytes));
            calls.extend(call.map(|call| (tids[ix], call)));
        });
        calls
    }

    /// Asks about each of `all`; an answer has at most `len` bytes.
    fn pieces<T>(
        &self,
        pid: i32,
        all: &[T],
        len: usize,
        ask: impl Fn(&T, usize) -> Ask,
        mut take: impl FnMut(usize, &[u8]),
    ) {
        let mut bytes = Vec::new();
        for (nth, part) in all.chunks(ASKS_MAX).enumerate() {
            let asks = part.iter().enumerate();
            let asks = asks.map(|(ix, of)| ask(of, ix * len)).collect();
            let Some(n) =
                self.ask_now(pid, asks, &[]).then(|| self.wait(Lane::Now, WAIT_NS)).flatten()
            else {
                return;
            };
            for ix in 0..n {
                let answer = self.take(Lane::Now, ix, &mut bytes);
                if answer.found == Found::Bytes {
                    take(nth * ASKS_MAX + ix, &bytes);
                }
            }
            self.taken(Lane::Now);
        }
    }

    /// Asks for what is needed now; not while the reader is still at something else.
    fn ask_now(&self, pid: i32, asks: Vec<Ask>, more: &[u8]) -> bool {
        if self.is_silent(pid) {
            return false;
        }
        if self.is_busy() {
            return false;
        }
        let mut inner = self.0.borrow_mut();
        // It came too late for whoever asked.
        inner.now.ready = None;
        inner.now.opened = None;
        inner.now.asks.clear();
        !inner.silent.contains(&pid) && inner.ask(Lane::Now, asks, more)
    }
}

impl Ask {
    /// The stack of a thread that has got a CPU so many times.
    pub(crate) fn wait(pid: i32, tid: i32, times_run: u64, len: usize, room_at: usize) -> Ask {
        Ask { what: What::Wait, tid, times_run, ..Ask::memory(pid, 0, len, room_at) }
    }

    fn maps(pid: i32) -> Ask {
        Ask { what: What::Maps, ..Ask::memory(pid, 0, ROOM, 0) }
    }

    fn memory(pid: i32, address: u64, len: usize, room_at: usize) -> Ask {
        Ask {
            what: What::Memory,
            pid,
            tid: pid,
            bytes: len as u32,
            room_at: room_at as u64,
            address,
            times_run: 0,
            end: 0,
            device: (0, 0),
        }
    }
}

impl Inner {
    fn lane(&mut self, lane: Lane) -> &mut Asked {
        match lane {
            Lane::Waits => &mut self.waits,
            Lane::Now => &mut self.now,
        }
    }

    /// `more`: what the first question needs more.
    fn ask(&mut self, lane: Lane, asks: Vec<Ask>, more: &[u8]) -> bool {
        self.left.retain(|left| !left.is_gone());
        if self.is_closed || !self.lane(lane).asks.is_empty() || asks.is_empty() {
            return false;
        }
        let asked = self.lane(lane);
        if asked.reader.is_none() {
            asked.reader = Reader::start();
        }
        let Some(reader) = &mut asked.reader else {
            self.close("there is no process for it");
            return false;
        };
        let now = clock::monotonic_ns();
        if now.saturating_sub(asked.since_ns) > URGENT_NS {
            reader.be_as_urgent();
        }
        let asks: Vec<Ask> = asks.into_iter().take(ASKS_MAX).collect();
        asks.iter().enumerate().for_each(|(ix, ask)| reader.shared.set_ask(ix, *ask));
        reader.shared.put(&asks[0], more);
        reader.shared.done().store(0, Ordering::Relaxed);
        let is_sent = send(&reader.socket, asks.len() as u32, None);
        asked.shared = Some(reader.shared.clone());
        (asked.asks, asked.ready) = (asks, None);
        (asked.n_done, asked.since_ns) = (0, now);
        if !is_sent {
            // It died, by another's hand.
            self.give_up(lane, None);
        }
        true
    }

    fn ready(&mut self, lane: Lane, now: u64) -> Option<usize> {
        let asked = self.lane(lane);
        if asked.asks.is_empty() || asked.ready.is_some() {
            return asked.ready;
        }
        let reader = asked.reader.as_ref()?;
        match receive(&reader.socket, RecvFlags::DONTWAIT) {
            Received::Number(_, file) => {
                asked.opened = file.map(File::from);
                asked.ready = Some(asked.asks.len());
                return asked.ready;
            }
            Received::End => {
                self.give_up(lane, None);
                return self.lane(lane).ready;
            }
            Received::Nothing => {}
        }
        let n_done = reader.n_done();
        if n_done != asked.n_done {
            (asked.n_done, asked.since_ns) = (n_done, now);
        }
        let is_late = now.saturating_sub(asked.since_ns) >= GIVE_UP_NS;
        if is_late && reader.sleeps() {
            let pid = asked.asks.get(n_done).map(|ask| ask.pid);
            self.give_up(lane, pid);
        }
        self.lane(lane).ready
    }

    /// Takes what a reader has answered, and goes on without it.
    fn give_up(&mut self, lane: Lane, silent: Option<i32>) {
        let asked = self.lane(lane);
        let Some(reader) = asked.reader.take() else {
            return;
        };
        asked.ready = Some(reader.n_done().min(asked.asks.len()));
        let waited_ns = clock::monotonic_ns().saturating_sub(asked.since_ns);
        let Reader { who, socket, .. } = reader;
        drop(socket);
        self.left.extend(who.end());
        self.given_up += 1;
        if let Some(pid) = silent {
            // It is still at it, and was killed.
            held::add(held::By::Memory, waited_ns);
            self.silent.insert(pid);
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            let name = harmless(name.trim_end());
            self.said.push(format!(
                "the memory of process {pid} ({name}) did not answer within {} ms: it is not read from now on, so the call paths of its waits are not known",
                GIVE_UP_NS / 1_000_000
            ));
        }
        if self.given_up >= GIVEN_UP_MAX {
            self.close(&format!("{GIVEN_UP_MAX} times a process did not answer"));
        } else if self.left.len() >= LEFT_MAX {
            self.close(&format!(
                "{LEFT_MAX} readers wait for processes that do not answer, and cannot be ended"
            ));
        }
    }

    fn close(&mut self, why: &str) {
        if !std::mem::replace(&mut self.is_closed, true) {
            self.said.push(format!("no other process is read from now on: {why}"));
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        for asked in [&mut self.waits, &mut self.now] {
            if let Some(Reader { who, socket, .. }) = asked.reader.take() {
                drop(socket);
                // One that does not end is left behind.
                who.end();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing(pid: i32) -> Ask {
        Ask { what: What::Nothing, ..Ask::memory(pid, 0, 8, 0) }
    }

    /// Looks until there is an answer, as a recorder's loop does.
    fn later(readers: &Readers, lane: Lane) -> usize {
        loop {
            if let Some(n) = readers.ready(lane) {
                return n;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn memory_and_mappings_are_those_of_the_process() {
        let readers = Readers::default();
        let pid = std::process::id() as i32;
        let words: Vec<u64> = (0..200).map(|n| n * 0x0101_0101).collect();
        let addresses: Vec<u64> = words.iter().map(|word| &raw const *word as u64).collect();
        let mut found = vec![None; words.len()];
        readers.memory(pid, &[&addresses[..], &[8]].concat(), 8, |ix, bytes| {
            found[ix] = bytes.try_into().ok().map(u64::from_ne_bytes);
        });
        assert!(found.iter().zip(&words).all(|(f, w)| *f == Some(*w)));
        let maps = readers.maps(pid).unwrap();
        assert!(String::from_utf8_lossy(&maps).contains("[stack]"));
        assert!(readers.maps(i32::MAX).is_none());
        assert!(readers.take_said().is_empty());
    }

    #[test]
    fn who_does_not_answer_is_given_up_and_others_are_answered() {
        let readers = Readers::default();
        let pid = std::process::id() as i32;
        let word = 7u64;
        let at = &raw const word as u64;
        // Another's question after it is not answered with it.
        let asks = vec![Ask::memory(pid, at, 8, 0), nothing(5), Ask::memory(pid, at, 8, 8)];
        assert!(readers.ask(Lane::Waits, asks));
        let began = clock::monotonic_ns();
        assert!(readers.wait(Lane::Waits, WAIT_NS).is_none());
        // Meanwhile what is asked now has an answer.
        assert!(readers.maps(pid).is_some());
        assert_eq!(later(&readers, Lane::Waits), 1);
        assert!(clock::monotonic_ns() - began >= GIVE_UP_NS);
        let mut bytes = Vec::new();
        assert_eq!(readers.take(Lane::Waits, 0, &mut bytes).found, Found::Bytes);
        assert_eq!(bytes, word.to_ne_bytes());
        assert_eq!(readers.take(Lane::Waits, 1, &mut bytes).found, Found::Nothing);
        readers.taken(Lane::Waits);
        assert!(readers.is_silent(5) && !readers.is_silent(pid));
        let said = readers.take_said();
        assert!(said.len() == 1 && said[0].contains("process 5"), "{said:?}");
        // Another one is there.
        assert!(readers.ask(Lane::Waits, vec![Ask::memory(pid, at, 8, 0)]));
        assert_eq!(later(&readers, Lane::Waits), 1);
        assert_eq!(readers.take(Lane::Waits, 0, &mut bytes).found, Found::Bytes);
        readers.forget(5);
        assert!(!readers.is_silent(5));
    }

    #[test]
    fn nobody_is_asked_any_more_after_many_that_did_not_answer() {
        let readers = Readers::default();
        readers.0.borrow_mut().given_up = GIVEN_UP_MAX - 1;
        assert!(readers.ask(Lane::Now, vec![nothing(5)]));
        later(&readers, Lane::Now);
        assert!(readers.is_closed() && readers.is_silent(6));
        assert!(readers.maps(std::process::id() as i32).is_none());
        assert_eq!(readers.take_said().len(), 2);
        readers.taken(Lane::Now);
        assert!(!readers.ask(Lane::Now, vec![nothing(6)]));
    }

    #[test]
    fn a_reader_that_dies_is_replaced() {
        let readers = Readers::default();
        let pid = std::process::id() as i32;
        assert!(readers.maps(pid).is_some());
        let who = match &readers.0.borrow().now.reader.as_ref().unwrap().who {
            Who::Process(pid) => *pid,
            Who::Thread(_) => return,
        };
        rustix::process::kill_process(who, rustix::process::Signal::KILL).unwrap();
        // The one that was lost may be the next.
        assert!((0..3).any(|_| readers.maps(pid).is_some()));
        assert!(!readers.is_silent(pid));
    }

    #[test]
    fn the_kind_of_a_file_system_is_that_of_its_device() {
        let mounts = "22 1 254:0 / / rw,noatime - ext4 /dev/vda rw\n\
            30 22 0:40 / /home/a\\040-\\040x rw,nosuid shared:3 - fuse.sshfs a:/ rw,user_id=1000\n";
        assert_eq!(kind_of(mounts, (254, 0)).as_deref(), Some("ext4"));
        assert_eq!(kind_of(mounts, (0, 40)).as_deref(), Some("fuse.sshfs"));
        assert_eq!(kind_of(mounts, (0, 4)), None);
    }
}
