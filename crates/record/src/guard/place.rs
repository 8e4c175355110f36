//! Where a thread waits: its registers, and in a system call what it waits at: a pipe, a socket, a file...
//!
//! The call's number and first argument are where its registers are, in /proc/PID/task/TID/syscall; what the descriptor leads to is a link in
//! /proc/PID/task/TID/fd, since a thread may have descriptors of its own, and the first thread may have ended. Another thread of the program may have put
//! something else at the number since the call began: then that is told.
use kasuri_base::words::harmless;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;

/// Most bytes of a file's path.
const PATH_BYTES_MAX: usize = 512;
/// Stacks of 32-bit programs, whose system calls have other numbers, end below.
const END_OF_32_BIT: u64 = 1 << 32;

/// System calls that wait at the descriptor which is their first argument.
const CALLS: [libc::c_long; 23] = [
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_preadv2,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_pwritev2,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_connect,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_flock,
    // Waits for a lock only.
    libc::SYS_fcntl,
];

/// What the call waits at, whose `words` are its number and arguments, in hexadecimal but for the number; `None`: at no descriptor, or it is not known.
fn waits_at(pid: i32, tid: i32, words: &[&str], sp: u64) -> Option<String> {
    let [number, descriptor, ..] = words else {
        return None;
    };
    if sp < END_OF_32_BIT || !CALLS.contains(&number.parse().ok()?) {
        return None;
    }
    // Of a number of 32 bits, the register may hold anything above.
    let descriptor = u64::from_str_radix(descriptor.strip_prefix("0x")?, 16).ok()? as u32;
    let link = std::fs::read_link(format!("/proc/{pid}/task/{tid}/fd/{descriptor}")).ok()?;
    Some(name(link.as_os_str().as_bytes()))
}

/// What a link to a descriptor leads to, in words.
fn name(link: &[u8]) -> String {
    let kinds: [(&[u8], &str); 6] = [
        (b"pipe:", "pipe"),
        (b"socket:", "socket"),
        (b"anon_inode:[eventfd", "eventfd"),
        (b"anon_inode:[timerfd", "timer"),
        (b"anon_inode:[eventpoll", "epoll"),
        (b"anon_inode:[signalfd", "signals"),
    ];
    if let Some((_, name)) = kinds.iter().find(|(start, _)| link.starts_with(start)) {
        return (*name).to_owned();
    }
    let path = &link[..link.len().min(PATH_BYTES_MAX)];
    let path = harmless(&String::from_utf8_lossy(path));
    format!("file {path}")
}

/// How often a thread got a CPU; `None`: it has ended, or this kernel does not count. Takes no lock of a program's.
pub(crate) fn times_run(pid: i32, tid: i32) -> Option<u64> {
    let text = small_file(&format!("/proc/{pid}/task/{tid}/schedstat"))?;
    text.split_ascii_whitespace().nth(2)?.parse().ok()
}

/// The CPU that a thread was on last.
pub(crate) fn last_cpu(pid: i32, tid: i32) -> Option<usize> {
    let text = small_file(&format!("/proc/{pid}/task/{tid}/stat"))?;
    let (_, rest) = text.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(36)?.parse().ok()
}

/// A system call: its number and arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) number: libc::c_long,
    pub(crate) args: [u64; 6],
}

impl Call {
    /// Out of /proc/PID/task/TID/syscall; `None`: the thread runs, is in no call, or is of a 32-bit program.
    pub(crate) fn parse(text: &str) -> Option<Call> {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let hex = |word: &str| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok();
        let [number, args @ .., sp, _] = &words[..] else {
            return None;
        };
        let mut call = Call { number: number.parse().ok().filter(|&n| n >= 0)?, args: [0; 6] };
        for (arg, word) in call.args.iter_mut().zip(args) {
            *arg = hex(word)?;
        }
        (args.len() == 6 && hex(sp)? >= END_OF_32_BIT).then_some(call)
    }
}

/// Where a thread waits.
pub(super) struct Place {
    pub(super) sp: u64,
    pub(super) ip: u64,
    /// The file, pipe or socket.
    pub(super) at: Option<String>,
}

/// `None`: it runs, or has ended.
pub(super) fn place(pid: i32, tid: i32) -> Option<Place> {
    // NUMBER ARGUMENTS... STACK-POINTER INSTRUCTION-POINTER, or "running".
    let text = small_file(&format!("/proc/{pid}/task/{tid}/syscall"))?;
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let [ref call @ .., sp, ip] = words[..] else {
        return None;
    };
    let hex = |word: &str| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok();
    let (sp, ip) = hex(sp).zip(hex(ip))?;
    let at = waits_at(pid, tid, call, sp);
    Some(Place { sp, ip, at })
}

pub(crate) fn small_file(path: &str) -> Option<String> {
    let mut bytes = [0; 512];
    let n = File::open(path).ok()?.read(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes[..n]).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn links_have_names() {
        for (link, expected) in [
            ("pipe:[123]", "pipe"),
            ("socket:[5]", "socket"),
            ("anon_inode:[eventfd]", "eventfd"),
            ("anon_inode:[timerfd]", "timer"),
            ("/tmp/pipe:[1]", "file /tmp/pipe:[1]"),
            ("/tmp/\u{1b}[2J", "file /tmp/\u{fffd}[2J"),
        ] {
            assert_eq!(name(link.as_bytes()), expected);
        }
        let long = [b'/'; 5000];
        assert_eq!(name(&long).len(), "file ".len() + PATH_BYTES_MAX);
    }

    #[test]
    fn the_first_argument_is_a_descriptor_in_some_calls_only() {
        let pid = std::process::id() as i32;
        let file = std::fs::File::open("/dev/null").unwrap();
        // The upper half of the register is not the number's.
        let at = format!("0xdead0000{:08x}", file.as_raw_fd());
        let of = |call: libc::c_long, sp| waits_at(pid, pid, &[&call.to_string(), &at, "0x0"], sp);
        let sp = 0x7fff_0000_0000;
        assert_eq!(of(libc::SYS_read, sp).as_deref(), Some("file /dev/null"));
        assert_eq!(of(libc::SYS_read, 0xffff_0000), None, "a 32-bit program");
        assert_eq!(of(libc::SYS_futex, sp), None);
        assert_eq!(waits_at(pid, pid, &["-1", "0x7fff00000000"], sp), None);
        assert_eq!(waits_at(pid, pid, &["0", "0xffffffff"], sp), None, "not open");
        assert_eq!(waits_at(pid, pid, &["running"], sp), None);
    }

    #[test]
    fn a_thread_may_have_descriptors_of_its_own() {
        let pid = std::process::id() as i32;
        let null = std::fs::File::open("/dev/null").unwrap();
        let own = std::thread::spawn(move || {
            // SAFETY: from here on the thread has a copy of the table of descriptors, in which it puts another file in one's place.
            unsafe {
                assert_eq!(libc::unshare(libc::CLONE_FILES), 0);
                let zero = libc::open(c"/dev/zero".as_ptr(), libc::O_RDONLY);
                assert!(libc::dup2(zero, null.as_raw_fd()) >= 0);
            }
            let words = ["0", &format!("{:#x}", null.as_raw_fd())];
            let tid = rustix::thread::gettid().as_raw_nonzero().get();
            let of = |tid| waits_at(pid, tid, &words, 0x7fff_0000_0000);
            (of(tid), of(pid), null)
        });
        let (own, first, _null) = own.join().unwrap();
        assert_eq!(own.as_deref(), Some("file /dev/zero"));
        assert_eq!(first.as_deref(), Some("file /dev/null"));
    }
}
