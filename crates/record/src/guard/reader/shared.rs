//! What the recorder and a reader share: questions and answers in memory, and a socket that says
//! when.
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use std::fs::File;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64};

/// Most questions at once.
pub(crate) const ASKS_MAX: usize = 64;

/// Bytes for answers: the mappings of a process, at most. Memory that was never written takes none.
pub(crate) const ROOM: usize = 16 << 20;

/// Beyond this, memory is given back when an answer was taken.
pub(super) const KEPT_ROOM: usize = 1 << 20;

/// Most bytes of the name of what a thread waits at.
pub(super) const AT_BYTES_MAX: usize = 520;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum What {
    /// How often a thread got a CPU, and if that is as often as told, its stack: so many bytes, if
    /// any.
    Wait,
    /// A piece of memory.
    Memory,
    /// The system call that a thread is in, as /proc/PID/task/TID/syscall has it.
    Call,
    /// The list of mappings.
    Maps,
    /// A file that it has mapped, opened for reading: the mapping itself, and its path in the root
    /// directory of the process and in ours.
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
    pub(super) what: What,
    pub(super) pid: i32,
    pub(super) tid: i32,
    /// Most bytes, and where they go.
    pub(super) bytes: u32,
    pub(super) room_at: u64,
    pub(super) address: u64,
    pub(super) times_run: u64,
    /// Of a mapping that is to be opened: where it ends, and the device; its path is in the room.
    pub(super) end: u64,
    pub(super) device: (u32, u32),
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
    pub(super) at_len: u32,
    pub(super) at: [u8; AT_BYTES_MAX],
}

impl Answer {
    pub(super) const NONE: Answer = Answer {
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

impl Ask {
    /// The stack of a thread that has got a CPU so many times.
    pub(crate) fn wait(pid: i32, tid: i32, times_run: u64, len: usize, room_at: usize) -> Ask {
        Ask { what: What::Wait, tid, times_run, ..Ask::memory(pid, 0, len, room_at) }
    }

    pub(super) fn maps(pid: i32) -> Ask {
        Ask { what: What::Maps, ..Ask::memory(pid, 0, ROOM, 0) }
    }

    pub(super) fn memory(pid: i32, address: u64, len: usize, room_at: usize) -> Ask {
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

/// A mapping of it, which each side has of its own: what one that was given up may write yet,
/// nobody else reads.
#[derive(Debug)]
pub(super) struct Mapping(*mut Shared);

// SAFETY: both sides reach into it by copies to and from raw places, each place by one side at a
// time: the recorder's before it asks and once `done` says so, the reader's in between.
unsafe impl Send for Mapping {}

// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    pub(super) fn new() -> Option<Mapping> {
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping.
        let at = unsafe {
            libc::mmap(std::ptr::null_mut(), size_of::<Shared>(), protection, flags, -1, 0)
        };
        (at != libc::MAP_FAILED).then(|| Mapping(at.cast()))
    }

    pub(super) fn done(&self) -> &AtomicU32 {
        // SAFETY: zeroes are such a number; it is only reached as this.
        unsafe { &(*self.0).done }
    }

    pub(super) fn tid(&self) -> &AtomicI32 {
        // SAFETY: as above.
        unsafe { &(*self.0).tid }
    }

    pub(super) fn used_ns(&self) -> &AtomicU64 {
        // SAFETY: as above.
        unsafe { &(*self.0).used_ns }
    }

    pub(super) fn ask(&self, ix: usize) -> Ask {
        // SAFETY: within the array; the recorder wrote it before it asked.
        unsafe { (&raw const (*self.0).asks[ix]).read() }
    }

    pub(super) fn set_ask(&self, ix: usize, ask: Ask) {
        // SAFETY: within the array; nobody reads it before it is asked.
        unsafe { (&raw mut (*self.0).asks[ix]).write(ask) }
    }

    pub(super) fn answer(&self, ix: usize) -> Answer {
        // SAFETY: within the array; the reader wrote it before it counted it.
        unsafe { (&raw const (*self.0).answers[ix]).read() }
    }

    /// Tells what a question needs more.
    pub(super) fn put(&self, ask: &Ask, bytes: &[u8]) {
        let (place, room) = self.room(ask);
        // SAFETY: within the room; nobody reads it before it is asked.
        unsafe { place.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len().min(room)) };
    }

    pub(super) fn set_answer(&self, ix: usize, answer: &Answer) {
        // SAFETY: within the array; nobody reads it before it is counted.
        unsafe { (&raw mut (*self.0).answers[ix]).write(*answer) }
    }

    /// Where an answer's bytes go, at most so many.
    pub(super) fn room(&self, ask: &Ask) -> (*mut u8, usize) {
        let at = (ask.room_at as usize).min(ROOM);
        // SAFETY: within the room, or at its end.
        let place = unsafe { (&raw mut (*self.0).room).cast::<u8>().add(at) };
        (place, (ask.bytes as usize).min(ROOM - at))
    }

    /// Gives back what an unusually long answer took.
    pub(super) fn shrink(&self) {
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

/// Sends a number, and a file if there is one.
pub(super) fn send(socket: &OwnedFd, n: u32, file: Option<&File>) -> bool {
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

pub(super) enum Received {
    Number(u32, Option<OwnedFd>),
    Nothing,
    /// The other end is closed.
    End,
}

pub(super) fn receive(socket: &OwnedFd, flags: RecvFlags) -> Received {
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

pub(super) fn pair() -> Option<(OwnedFd, OwnedFd)> {
    let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
    rustix::net::socketpair(AddressFamily::UNIX, kind, flags, None).ok()
}
