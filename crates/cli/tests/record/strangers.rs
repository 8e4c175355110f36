//! Things that other users of the machine, or the sender of a recording, can put into our way: links, FIFOs, directories, names.
use crate::support::*;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Runs it under `timeout`, which says 124 or 137 of what waits for a stranger.
fn in_time(dir: &Path, args: &[&str]) -> Output {
    let output = Command::new("timeout")
        .args(["-k", "1", "100", env!("CARGO_BIN_EXE_kasuri")])
        .args(args)
        .current_dir(dir)
        .env_remove("KASURI_SESSION")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let code = output.status.code();
    assert!(!matches!(code, None | Some(124 | 137)), "{args:?}: {}", said(&output));
    output
}

/// A recording directory as a killed recorder leaves it: the program's events are in the session.
fn left_behind(dir: &Path) -> (PathBuf, PathBuf) {
    let mut command = kasuri(dir);
    command.args(["record", "-q", "--no-kernel", "-o", "run.kasuri", "--"]);
    let status = command
        .arg(program("emitter"))
        .args(["2", "1000", "counts"])
        .env("KASURI_TEST_KILL", "end:1")
        .status()
        .unwrap();
    assert_eq!(status.code(), None, "it was killed");
    let recording = dir.join("run.kasuri.d");
    let session = std::fs::read_link(recording.join("session")).unwrap();
    assert!(session.join("control").exists());
    (recording, session)
}

fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap().flatten();
    let mut names: Vec<_> = entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn recover_removes_nothing_that_a_recording_names() {
    if !cfg!(debug_assertions) {
        return skip("the points at which it can be killed are in debug builds only");
    }
    let dir = scratch();
    let (recording, session) = left_behind(dir.path());
    let victim = dir.path().join("victim");
    std::fs::create_dir(&victim).unwrap();
    std::fs::write(victim.join("thesis"), "years").unwrap();
    // A stranger's own idea of a session, with all that one needs but its place; and one that belongs to another recording.
    let forged = dir.path().join("kasuri-1-0123abcd");
    std::fs::create_dir(&forged).unwrap();
    std::fs::copy(session.join("control"), forged.join("control")).unwrap();
    symlink(recording.canonicalize().unwrap(), forged.join("recording")).unwrap();
    let link = recording.join("session");
    for target in [&victim, &forged] {
        std::fs::remove_file(&link).unwrap();
        symlink(target, &link).unwrap();
        let before = names(target);
        let output = in_time(dir.path(), &["recover", "run.kasuri.d"]);
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        assert!(said(&output).contains("session"), "{}", said(&output));
        assert_eq!(names(target), before);
        assert!(recording.exists() && session.exists());
    }
    let other = dir.path().join("other.kasuri.d");
    std::fs::create_dir(&other).unwrap();
    std::fs::copy(recording.join("meta.json"), other.join("meta.json")).unwrap();
    symlink(&session, other.join("session")).unwrap();
    let output = in_time(dir.path(), &["recover", "other.kasuri.d"]);
    assert!(said(&output).contains("belongs to"), "{}", said(&output));
    assert!(session.join("control").exists());
    // The right one is believed, also where it was moved to; foreign files stay in both places.
    std::fs::remove_file(&link).unwrap();
    symlink(&session, &link).unwrap();
    std::fs::write(session.join("notes"), "mine").unwrap();
    let moved = dir.path().join("moved.kasuri.d");
    std::fs::rename(&recording, &moved).unwrap();
    std::fs::write(moved.join("notes"), "mine").unwrap();
    let output = in_time(dir.path(), &["recover", "moved.kasuri.d"]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!((names(&session), names(&moved)), (vec!["notes".into()], vec!["notes".into()]));
    let facts = facts(&dir.path().join("moved.kasuri"));
    assert_eq!(facts.annotations + facts.lost, 2000);
    std::fs::remove_dir_all(session).unwrap();
}

#[test]
fn recover_neither_waits_for_nor_writes_through_what_lies_in_a_recording() {
    if !cfg!(debug_assertions) {
        return skip("the points at which it can be killed are in debug builds only");
    }
    let dir = scratch();
    let (recording, session) = left_behind(dir.path());
    let victim = dir.path().join("victim");
    std::fs::write(&victim, "precious").unwrap();
    let clients: Vec<String> = names(&session)
        .iter()
        .filter_map(|name| Some(name.strip_suffix(".sites")?.to_owned()))
        .collect();
    assert_eq!(clients.len(), 1);
    for suffix in ["lost", "sites"] {
        let _ = std::fs::remove_file(recording.join(format!("{}.{suffix}", clients[0])));
        symlink(&victim, recording.join(format!("{}.{suffix}", clients[0]))).unwrap();
    }
    // A file of chunks is cut and appended to: a link there is an error, not a file to write.
    let chunks = recording.join("p1-0.chunks");
    symlink(&victim, &chunks).unwrap();
    let output = in_time(dir.path(), &["recover", "run.kasuri.d"]);
    assert!(said(&output).contains("symbolic link"), "{}", said(&output));
    std::fs::remove_file(&chunks).unwrap();
    let meta = recording.join("meta.json");
    std::fs::rename(&meta, dir.path().join("meta")).unwrap();
    let made = Command::new("mkfifo").arg(&meta).status().unwrap();
    assert!(made.success());
    let output = in_time(dir.path(), &["recover", "run.kasuri.d"]);
    assert!(said(&output).contains("FIFO"), "{}", said(&output));
    std::fs::rename(dir.path().join("meta"), &meta).unwrap();
    let output = in_time(dir.path(), &["recover", "run.kasuri.d"]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
    assert!(!session.exists() && !recording.exists());
}

#[test]
fn recordings_replace_files_only() {
    let dir = scratch();
    let at = |name: &str| dir.path().join(name);
    std::fs::write(at("victim"), "precious").unwrap();
    symlink(at("victim"), at("link.kasuri")).unwrap();
    symlink("/dev/full", at("device.kasuri")).unwrap();
    let record = |output: &str| {
        in_time(dir.path(), &["record", "-q", "--no-kernel", "-o", output, "--", "touch", "ran"])
    };
    for name in ["link.kasuri", "device.kasuri", "."] {
        let output = record(name);
        assert!(said(&output).contains("cannot write"), "{}", said(&output));
        assert!(!at("ran").exists(), "told before the program runs");
    }
    assert!(at("link.kasuri").is_symlink());
    assert_eq!(std::fs::read(at("victim")).unwrap(), b"precious");
    // A device of our own making, so that a defect does not cost the machine its /dev/null.
    if is_root() {
        let made = Command::new("mknod").arg(at("null")).args(["c", "1", "3"]).status();
        assert!(made.unwrap().success());
        let output = record("null");
        assert!(output.status.success() && at("ran").exists(), "{}", said(&output));
        assert!(at("null").metadata().unwrap().file_type().is_char_device());
    }
    assert_eq!(names(dir.path()).iter().filter(|n| n.ends_with(".d")).count(), 0);
}

#[test]
fn recordings_of_root_are_roots_alone() {
    if !is_root() {
        return skip("needs root");
    }
    let dir = scratch();
    let output = in_time(
        dir.path(),
        &[
            "record",
            "-q",
            "--no-kernel",
            "-o",
            "run.kasuri",
            "--",
            "stat",
            "-c",
            "%a",
            "run.kasuri.d",
        ],
    );
    assert_eq!(String::from_utf8_lossy(&output.stdout), "700\n", "{}", said(&output));
    let mode = |name: &str| {
        let meta = std::fs::metadata(dir.path().join(name)).unwrap();
        meta.permissions().mode() & 0o777
    };
    assert_eq!(mode("run.kasuri"), 0o600);
    let made = [
        ("report run.kasuri -o page.html", "page.html", 0o600),
        ("export --format perfetto run.kasuri -o a.pftrace", "a.pftrace", 0o600),
        ("export --format paraver run.kasuri -o a.prv", "a.pcf", 0o600),
        ("export --format ctf run.kasuri -o ctf", "ctf", 0o700),
        ("export --format csv run.kasuri -o tables", "tables/slice.csv", 0o600),
    ];
    for (command, file, want) in made {
        let output = run(kasuri(dir.path()).args(command.split(' ')));
        assert!(output.status.success(), "{command}: {}", said(&output));
        assert_eq!(mode(file), want, "{command}");
    }
}

#[test]
fn root_records_the_process_of_another_user_and_owns_nothing_it_can_change() {
    if !is_root() {
        return skip("needs root");
    }
    let dir = scratch();
    // Where that user may come in.
    let place = tempfile::tempdir_in("/tmp").unwrap();
    std::fs::set_permissions(place.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let steps = place.path().join("steps");
    copy_program(program("steps"), &steps);
    let mut target = Command::new(steps);
    let mut target = target.arg("10000000").uid(65534).gid(65534).spawn_guarded();
    wait_for_switches(target.id(), 5);
    let pid = target.id().to_string();
    let mut recorder =
        start(kasuri(dir.path()).args(["record", "-q", "-o", "run.kasuri", "-p", &pid]));
    wait_for_ring(recorder.id(), target.id());
    let session = Path::new("/dev/shm").join(&sessions_of(recorder.id())[0]);
    for path in [&session, &session.join("control")] {
        let meta = std::fs::symlink_metadata(path).unwrap();
        assert_eq!((meta.uid(), meta.gid()), (65534, 65534), "{}", path.display());
    }
    // The user may do with it what it likes.
    std::fs::remove_file(session.join("control")).unwrap();
    let bait = dir.path().join("bait");
    std::fs::write(&bait, "precious").unwrap();
    symlink(&bait, session.join("control")).unwrap();
    wait_for_switches(target.id(), 50);
    signal(recorder.id(), rustix::process::Signal::TERM);
    assert!(recorder.wait().unwrap().success());
    assert!(facts(&dir.path().join("run.kasuri")).annotations > 0);
    assert_eq!(std::fs::metadata(&bait).unwrap().uid(), 0);
    assert_eq!(std::fs::read(&bait).unwrap(), b"precious");
    assert!(!session.exists());
    target.kill().unwrap();
    target.wait().unwrap();
}

#[test]
fn doctor_believes_no_session_that_a_stranger_made_up() {
    let dir = scratch();
    let shm = dir.path().join("shm");
    let session = |name: &str| {
        let path = shm.join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    };
    std::fs::write(dir.path().join("victim"), vec![0u8; 4096]).unwrap();
    let waits = session("kasuri-1-00000001");
    let made = Command::new("mkfifo").arg(waits.join("control")).status();
    assert!(made.unwrap().success());
    symlink(dir.path().join("victim"), session("kasuri-1-00000002").join("control")).unwrap();
    std::fs::write(session("kasuri-1-00000003").join("control"), vec![7u8; 4096]).unwrap();
    // One whose control page is right, with a recording that only looks like a path.
    let mut page = vec![0u8; 4096];
    page[..8].copy_from_slice(&kasuri_format::ring::MAGIC_CONTROL.to_le_bytes());
    let evil = session("kasuri-1-00000004");
    std::fs::write(evil.join("control"), page).unwrap();
    let name = "$(touch pwned)\u{1b}[31m'; touch pwned '";
    std::fs::create_dir(dir.path().join("x")).unwrap();
    symlink(Path::new("x").join(name), evil.join("recording")).unwrap();
    let output = Command::new("timeout")
        .args(["-k", "1", "100", env!("CARGO_BIN_EXE_kasuri"), "doctor"])
        .current_dir(dir.path())
        .env("KASURI_SHM_DIR", &shm)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("kasuri-1-00000004"), "{text}");
    for stranger in 1..=3 {
        assert!(!text.contains(&format!("kasuri-1-0000000{stranger}")), "{text}");
    }
    assert!(text.chars().all(|c| !c.is_control() || c == '\n'), "{text:?}");
    assert!(!text.contains("`kasuri recover $"), "no command with that name: {text}");
    // What is offered can be pasted.
    for command in text.split('`').skip(1).step_by(2).filter(|c| c.starts_with("rm -r ")) {
        let words = format!("printf '%s\\n' {}", command.trim_start_matches("rm -r "));
        let said = Command::new("bash").args(["-c", &words]).current_dir(dir.path()).output();
        assert!(said.unwrap().stdout.starts_with(b"/"), "{command}");
    }
    assert!(!dir.path().join("pwned").exists());
}

/// A directory into which others put a file, the session's or the recording's, is not removed, and a message says so.
#[test]
fn directories_that_stay_for_files_of_others_are_named() {
    let dir = scratch();
    let script = "echo mine >$KASURI_SESSION/notes; echo mine >run.kasuri.d/diary; echo $KASURI_SESSION >session";
    let record = ["record", "--no-kernel", "-o", "run.kasuri", "--", "sh", "-c", script];
    let output = run(kasuri(dir.path()).args(record));
    let text = said(&output);
    assert!(output.status.success(), "{text}");
    let session = std::fs::read_to_string(dir.path().join("session")).unwrap();
    let session = Path::new(session.trim());
    for (place, file) in [(session, "notes"), (&dir.path().join("run.kasuri.d"), "diary")] {
        assert!(text.contains(&format!("such as {file}")), "{text}");
        assert!(text.contains(&format!("{}`", place.file_name().unwrap().display())), "{text}");
        let left: Vec<_> = std::fs::read_dir(place).unwrap().flatten().collect();
        assert_eq!(left.len(), 1, "{left:?}");
        std::fs::remove_dir_all(place).unwrap();
    }
}
