//! Kills at chosen points: what is left is readable, and emitted == kept + lost.
//!
//! `KASURI_TEST_KILL` names a point in the recorder at which it kills itself. The emitter counts what it emitted in a file of
//! its own, so the sum can be checked from outside.
use crate::support::*;
use kasuri_format::container::{BlockKind, Recording};
use kasuri_format::meta::KernelMeta;
use kasuri_format::tracefs::{Page, PageLayout};
use kasuri_record::tracefs::{Drain, Instance, InstanceOptions, Tracefs};
use rustix::process::Signal;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Command, Stdio};

const THREADS: u64 = 2;

/// Kept + lost may exceed what the emitter counted by the event that each thread had emitted and not yet counted when it was
/// killed.
fn assert_balance(file: &Path, counts: &Path, what: &str) {
    let (facts, emitted) = (facts(file), counted(counts));
    let found = facts.annotations + facts.lost;
    assert!(
        (emitted..=emitted + THREADS).contains(&found),
        "{what}: emitted {emitted}, kept {} + lost {}",
        facts.annotations,
        facts.lost
    );
    // At the first tick the program may not have come to its first event.
    assert!(found > 0 || what == "tick:1", "{what}: nothing was kept");
}

fn record_emitter(dir: &Path, events: &str) -> Command {
    let mut command = kasuri(dir);
    command
        .args(["record", "-q", "-o", "run.kasuri", "--"])
        .arg(program("emitter"))
        .args(["2", events, "counts", "2000"])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

#[test]
fn recorder_killed_at_any_point_leaves_a_readable_recording() {
    if !cfg!(debug_assertions) {
        return skip("the points at which it can be killed are in debug builds only");
    }
    let points = [
        "tick:1", "tick:3", "tick:8", "free:1", "free:2", "free:5", "free:40", "zero:1", "zero:3",
        "zero:30", "end:1", "meta:1", "pack:1", "pack:2", "rename:1",
    ];
    for point in points {
        let dir = scratch();
        // Ticks come with time, the other points with events: there must be time enough for eight of them.
        let events = if point.starts_with("tick:") { "3000000" } else { "300000" };
        let status =
            record_emitter(dir.path(), events).env("KASURI_TEST_KILL", point).status().unwrap();
        assert_eq!(status.code(), None, "{point}: it was killed");
        let counts = dir.path().join("counts");
        // The program goes on without its recorder and ends as it would have.
        wait_until("the program ends", || !runs_here(dir.path()));
        let output = run(kasuri(dir.path()).args(["recover", "run.kasuri.d"]));
        assert!(output.status.success(), "{point}: {}", said(&output));
        assert!(!dir.path().join("run.kasuri.d").exists(), "{point}");
        assert_balance(&dir.path().join("run.kasuri"), &counts, point);
    }
}

#[test]
fn recorder_killed_while_it_removes_what_it_packed_leaves_the_recording() {
    if !cfg!(debug_assertions) {
        return skip("the points at which it can be killed are in debug builds only");
    }
    let (mut n_torn, mut n_sessions) = (0, 0);
    for n in 1..16 {
        let dir = scratch();
        let point = format!("unlink:{n}");
        let mut recorder =
            record_emitter(dir.path(), "20000").env("KASURI_TEST_KILL", &point).spawn().unwrap();
        let (pid, status) = (recorder.id(), recorder.wait().unwrap());
        let file = dir.path().join("run.kasuri");
        // Killed while it removed the session, before it packed.
        if !file.exists() {
            assert_eq!(status.code(), None, "{point}: it was killed");
            let output = run(kasuri(dir.path()).args(["recover", "run.kasuri.d"]));
            assert!(output.status.success(), "{point}: {}", said(&output));
            assert_balance(&file, &dir.path().join("counts"), &point);
            n_sessions += 1;
            assert_eq!(sessions_of(pid), Vec::<String>::new(), "{point}");
            continue;
        }
        let whole = std::fs::read(&file).unwrap();
        assert_balance(&file, &dir.path().join("counts"), &point);
        let is_torn = dir.path().join("run.kasuri.d").exists();
        n_torn += u32::from(is_torn);
        if is_torn {
            // Says that there is nothing to save, or that it is saved; and the next recording may have the name.
            run(kasuri(dir.path()).args(["recover", "run.kasuri.d"]));
            assert_eq!(std::fs::read(&file).unwrap(), whole, "{point}");
        }
        let again = record_emitter(dir.path(), "1000").status().unwrap();
        assert!(again.success(), "{point}: recorded again");
    }
    assert!(n_torn >= 5, "killed in the middle of it: {n_torn} times");
    assert!(n_sessions >= 3, "killed in the session: {n_sessions} times");
}

#[test]
fn recover_killed_at_any_point_can_be_repeated() {
    if !cfg!(debug_assertions) {
        return skip("the points at which it can be killed are in debug builds only");
    }
    for point in
        ["recovered:1", "pack:1", "rename:1", "unlink:1", "unlink:3", "unlink:6", "unlink:9"]
    {
        let dir = scratch();
        record_emitter(dir.path(), "300000").env("KASURI_TEST_KILL", "free:3").status().unwrap();
        wait_until("the program ends", || !runs_here(dir.path()));
        let killed = run(kasuri(dir.path())
            .args(["recover", "run.kasuri.d"])
            .env("KASURI_TEST_KILL", point));
        assert_eq!(killed.status.code(), None, "{point}: {}", said(&killed));
        let output = run(kasuri(dir.path()).args(["recover", "run.kasuri.d"]));
        // Killed while it removed the directory: the file is whole, and what is left of the directory no recording.
        let is_rest = said(&output).contains("while it removed what it had packed");
        assert!(output.status.success() || is_rest, "{point}: {}", said(&output));
        assert_balance(&dir.path().join("run.kasuri"), &dir.path().join("counts"), point);
    }
}

#[test]
fn program_killed_at_any_time_loses_at_most_the_open_event() {
    for after_ms in [5, 12, 30, 60] {
        let dir = scratch();
        let mut recorder = record_emitter(dir.path(), "100000000").spawn_guarded();
        let counts = dir.path().join("counts");
        wait_until("it emits", || {
            std::fs::metadata(&counts).is_ok_and(|m| m.len() > 0) && counted(&counts) > 1000
        });
        std::thread::sleep(std::time::Duration::from_millis(after_ms));
        signal(program_of(&recorder, "emitter"), Signal::KILL);
        assert_eq!(recorder.wait().unwrap().code(), Some(137));
        assert_balance(&dir.path().join("run.kasuri"), &counts, &format!("after {after_ms} ms"));
    }
}

#[test]
fn recover_refuses_while_the_recorder_lives() {
    let dir = scratch();
    let mut recorder =
        start(kasuri(dir.path()).args(["record", "-q", "-o", "run.kasuri", "--", "sleep", "300"]));
    wait_until("metadata is written", || dir.path().join("run.kasuri.d/meta.json").exists());
    let output = run(kasuri(dir.path()).args(["recover", "run.kasuri.d"]));
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("another recorder"), "{}", said(&output));
    let second = run(kasuri(dir.path()).args(["record", "-o", "run.kasuri", "--", "true"]));
    assert_eq!(second.status.code(), Some(125), "{}", said(&second));
    signal(recorder.id(), Signal::INT);
    recorder.wait().unwrap();
    assert!(facts(&dir.path().join("run.kasuri")).complete);
}

#[test]
fn a_crashed_recording_is_not_overwritten() {
    let dir = scratch();
    let mut recorder =
        start(kasuri(dir.path()).args(["record", "-q", "-o", "run.kasuri", "--", "sleep", "300"]));
    let program = program_of(&recorder, "sleep");
    signal(recorder.id(), Signal::KILL);
    recorder.wait().unwrap();
    signal(program, Signal::KILL);
    wait_until("the program ends", || !runs_here(dir.path()));
    let output = run(kasuri(dir.path()).args(["record", "-o", "run.kasuri", "--", "true"]));
    assert_eq!(output.status.code(), Some(125));
    assert!(said(&output).contains("kasuri recover run.kasuri.d"), "{}", said(&output));
    assert!(run(kasuri(dir.path()).args(["recover", "run.kasuri.d"])).status.success());
}

#[test]
fn the_whole_blocks_of_a_damaged_file_are_saved() {
    let dir = scratch();
    let output = record_emitter(dir.path(), "400000").output().unwrap();
    assert!(output.status.success());
    let file = dir.path().join("run.kasuri");
    let whole = facts(&file);
    let bytes = std::fs::read(&file).unwrap();
    // The middle of a block of events: what lies at a share of the file's length is another thing each time.
    let middle = {
        let recording = Recording::parse(&bytes).unwrap();
        let mut blocks = recording.blocks().iter();
        let block = blocks.rfind(|b| b.kind == BlockKind::Annotation);
        block.map(|b| (b.offset + b.payload_bytes / 2) as usize)
    };
    let middle = middle.expect("a block of annotations");
    for (name, damaged) in [
        ("cut", bytes[..middle].to_vec()),
        ("flipped", {
            let mut bytes = bytes.clone();
            bytes[middle] ^= 0x10;
            bytes
        }),
    ] {
        let path = dir.path().join(format!("{name}.kasuri"));
        std::fs::write(&path, damaged).unwrap();
        let output = run(kasuri(dir.path()).arg("recover").arg(&path));
        assert!(output.status.success(), "{name}: {}", said(&output));
        assert!(said(&output).contains("left out"), "{name}: {}", said(&output));
        let saved = facts(&dir.path().join(format!("{name}.recovered.kasuri")));
        let (kept, all) = (saved.annotations + saved.kernel, whole.annotations + whole.kernel);
        assert!(kept > 0 && kept < all, "{name}: {kept} of {all}");
    }
}

#[test]
fn recover_names_what_is_no_recording() {
    let dir = scratch();
    std::fs::create_dir(dir.path().join("empty.kasuri.d")).unwrap();
    std::fs::write(dir.path().join("empty.kasuri"), "").unwrap();
    std::fs::write(dir.path().join("text.kasuri"), "hello").unwrap();
    for name in ["empty.kasuri.d", "empty.kasuri", "text.kasuri", "nowhere"] {
        let output = run(kasuri(dir.path()).args(["recover", name]));
        assert_eq!(output.status.code(), Some(1), "{name}");
        assert!(said(&output).contains(name), "{name}: {}", said(&output));
    }
}

#[test]
fn what_is_read_before_its_page_is_full_is_read_once() {
    if !can_trace() {
        return;
    }
    let options =
        InstanceOptions { buffer_kb: 4096, tsc: false, events: Vec::new(), uprobes: Vec::new() };
    let instance = Instance::create(&Tracefs::open().unwrap(), &options).unwrap();
    let (files, page_bytes) = (scratch(), instance.page_bytes);
    let held = kasuri_record::safefs::Held::open(files.path()).unwrap();
    let mut drain = Drain::open(instance.dir(), &instance.cpus, page_bytes, &held).unwrap();
    instance.set_tracing(true).unwrap();
    let marker = format!("/proc/self/fd/{}/trace_marker", instance.dir().as_raw_fd());
    let mut marker = File::options().write(true).open(marker).unwrap();
    let mut write_marks = |from: u32, to: u32| {
        for n in from..to {
            let mark = format!("{n} of some, with text that fills pages sooner");
            marker.write_all(mark.as_bytes()).unwrap();
        }
    };
    // A few hundred bytes, then a good part of a page, then pages.
    let several = 4 * page_bytes / 40;
    for (from, to) in [(0, 10), (10, 30), (30, 31), (31, several)] {
        write_marks(from, to);
        for ix in 0..instance.cpus.len() {
            drain.read_page(ix).unwrap();
        }
    }
    write_marks(several, 2 * several);
    drain.full_pages().unwrap();
    instance.set_tracing(false).unwrap();
    drain.rest().unwrap();

    let layout = PageLayout::from_meta(&KernelMeta {
        page_bytes,
        header_page: instance.header_page.clone(),
        big_endian: cfg!(target_endian = "big"),
        ..KernelMeta::default()
    })
    .unwrap();
    let mut seen = vec![0; 2 * several as usize];
    for cpu in &instance.cpus {
        let bytes = std::fs::read(files.path().join(format!("cpu{cpu}.raw"))).unwrap();
        assert_eq!(bytes.len() % page_bytes as usize, 0);
        for page in bytes.chunks_exact(page_bytes as usize) {
            for event in Page::parse(page, &layout, 0).unwrap().events() {
                // Type, flags, preempt count and thread; the address of the writer; the text.
                let text = String::from_utf8_lossy(&event.unwrap().data[16..]).into_owned();
                let number = text.split(' ').next().unwrap().parse::<usize>().unwrap();
                seen[number] += 1;
            }
        }
    }
    assert!(seen.iter().all(|&times| times == 1), "{seen:?}");
}

/// Claims about times, shares and races: each runs alone (`make test-measure`), on a quiet machine.
mod measured {
    use super::*;

    /// What a recorder leaves when it is killed: pages that fill are handed over at once, one that does not is read after a while.
    #[test]
    fn events_wait_seconds_for_their_page_to_fill_and_no_longer() {
        if !can_trace() {
            return;
        }
        // The recorder itself wakes fifty times a second: a tenth of a page. On a machine that does much else pages fill, and this shows nothing.
        measure(|| {
            let dir = scratch();
            let record = ["record", "-q", "-o", "run.kasuri", "--", "sleep", "300"];
            let mut recorder = start(kasuri(dir.path()).args(record));
            let recording = dir.path().join("run.kasuri.d");
            wait_until("it records", || recording.join("meta.json").exists());
            let program = program_of(&recorder, "sleep");
            std::thread::sleep(std::time::Duration::from_secs(5));
            signal(recorder.id(), Signal::KILL);
            recorder.wait().unwrap();
            signal(program, Signal::KILL);
            let recovered = run(kasuri(dir.path()).args(["recover", "run.kasuri.d"]));
            assert!(recovered.status.success(), "{}", said(&recovered));
            assert!(facts(&dir.path().join("run.kasuri")).kernel > 100);
        });
    }
}
