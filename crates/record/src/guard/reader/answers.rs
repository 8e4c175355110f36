//! What a reader does: it answers questions about other processes, and may wait for any of them
//! without end.
use super::shared::{
    ASKS_MAX, AT_BYTES_MAX, Answer, Ask, Found, Mapping, Received, What, receive, send,
};
use crate::clock;
use crate::guard::place::{place, small_file, times_run};
use crate::guard::{held, safefs};
use rustix::net::RecvFlags;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::Ordering;

/// What the reader does until the recorder's end of the socket is closed.
pub(super) fn serve(socket: &OwnedFd, shared: &Mapping) {
    shared.tid().store(rustix::thread::gettid().as_raw_nonzero().get(), Ordering::Relaxed);
    while let Received::Number(n, _) = receive(socket, RecvFlags::empty()) {
        let mut opened = None;
        for ix in 0..(n as usize).min(ASKS_MAX) {
            let answer = answer(&shared.ask(ix), shared, &mut opened);
            shared.set_answer(ix, &answer);
            // ORDER release; pairs with the acquire load in `Reader::n_done`. Publishes the answer
            // and its bytes.
            shared.done().store(ix as u32 + 1, Ordering::Release);
        }
        shared.used_ns().store(clock::thread_cpu_ns(), Ordering::Relaxed);
        if !send(socket, n, opened.as_ref()) {
            return;
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
            std::thread::sleep(std::time::Duration::from_secs(1));
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

/// Whether the files of a device are served by a user's program (FUSE), which may answer when it
/// likes or never: root does not open them. A user's own are as slow as they like. No request is
/// made to know it. A file system that is mounted nowhere any more may be one too.
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
    // SAFETY: the kernel writes at most `len` bytes to the room, which has as many; the other
    // address is only read, in the other process.
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

#[cfg(test)]
mod tests {
    use super::kind_of;

    #[test]
    fn the_kind_of_a_file_system_is_that_of_its_device() {
        let mounts = "22 1 254:0 / / rw,noatime - ext4 /dev/vda rw\n\
            30 22 0:40 / /home/a\\040-\\040x rw,nosuid shared:3 - fuse.sshfs a:/ rw,user_id=1000\n";
        assert_eq!(kind_of(mounts, (254, 0)).as_deref(), Some("ext4"));
        assert_eq!(kind_of(mounts, (0, 40)).as_deref(), Some("fuse.sshfs"));
        assert_eq!(kind_of(mounts, (0, 4)), None);
    }
}
