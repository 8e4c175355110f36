//! A Rust program leaves the events it emits in a session.

use kasuri_annotate::*;
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Command;

/// The annotated program; runs in a process of its own that has a session.
#[test]
fn annotated_program() {
    let lock = 1;
    {
        let _slice = slice!("slice");
        arg!("i64", -1i64);
        arg!("u64", 1u64);
        arg!("f64", 0.5);
        arg!("str", "text");
        instant!("instant");
    }
    counter!("counter", 1.0);
    message!("hello {lock}");
    thread_name("rust");
    wait_begin(Name::NONE, Wait::Barrier, 1);
    wait_end(Name::NONE, Wait::Barrier, 1);
    lock_request(Name::NONE, Mode::Exclusive, lock);
    lock_acquired(Name::NONE, Mode::Exclusive, lock);
    lock_released(Name::NONE, Mode::Exclusive, lock);
    task(Task::Create, name!("task"), 1, 0);
    task(Task::End, Name::NONE, 1, 0);
    flow_out(name!("flow"), 1);
    flow_in(name!("flow"), 1);
    trigger(name!("trigger"));
    assert_eq!(Name::new("slice"), Name::new("slice"));
    assert_eq!(Name::new("nul\0"), Name::NONE);
}
const EVENTS: usize = 20;

/// A session as in kasuri.h part 1; the file keeps the lock.
fn make_session(dir: &Path) -> File {
    let mut page = vec![0u8; 4096];
    let mut put = |at: usize, bytes: &[u8]| page[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &0x314c_5254_4349_534b_u64.to_le_bytes());
    for (at, v) in [(8, 1u32), (12, 128), (16, 1), (20, 1), (24, 2), (28, 4096), (40, 4)] {
        put(at, &v.to_le_bytes());
    }
    put(32, &(1u64 << 20).to_le_bytes());
    let path = dir.join("control");
    std::fs::write(&path, &page).unwrap();
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    // SAFETY: flock is plain data, all zero is valid.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::F_WRLCK as libc::c_short;
    // SAFETY: an open descriptor and a valid flock.
    let locked = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &lock) };
    assert_eq!(locked, 0);
    file
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// Committed events of a first segment with chunks of 4096 bytes.
fn events(segment: &[u8]) -> usize {
    let n_chunks = word(segment, 32) as u32 as usize;
    let first = (word(segment, 32) >> 32) as usize;
    let mut n = 0;
    for chunk in (0..n_chunks).map(|i| &segment[first + i * 4096..first + (i + 1) * 4096]) {
        let mut at = 128;
        while at < 4096 {
            let slots = ((word(chunk, at + 8) >> 8) & 0xff).max(1) as usize;
            n += usize::from(word(chunk, at) != 0);
            at += slots * 16;
        }
    }
    n
}

#[test]
fn session_gets_every_event() {
    let dir = tempfile::tempdir().unwrap();
    let _lock = make_session(dir.path());
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "annotated_program"])
        .env("KASURI_SESSION", dir.path())
        .spawn()
        .unwrap();
    let pid = child.id();
    assert!(child.wait().unwrap().success());
    let segment = std::fs::read(dir.path().join(format!("p{pid}-0.ring0"))).unwrap();
    assert_eq!(events(&segment), EVENTS);
    let sites = std::fs::read(dir.path().join(format!("p{pid}-0.sites"))).unwrap();
    assert!(sites.windows(8).any(|w| w == b"\0counter" || w == b"counter\0"));
}
