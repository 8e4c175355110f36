//! Full disks, full shared memory, floods of events.
use crate::support::*;
use std::path::Path;
use std::process::{Command, Output};

/// Runs a shell script in a mount namespace of its own; `None`: not allowed here.
fn in_namespace(dir: &Path, script: &str) -> Option<Output> {
    if !is_root() {
        return None;
    }
    let probe = Command::new("unshare").args(["-m", "true"]).status();
    if !probe.is_ok_and(|s| s.success()) {
        skip("unshare -m is not allowed");
        return None;
    }
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", script])
        .current_dir(dir)
        .env("KASURI", env!("CARGO_BIN_EXE_kasuri"))
        .env("EMITTER", program("emitter"))
        .output();
    Some(output.expect("unshare runs"))
}

#[test]
fn a_full_disk_ends_the_recording_and_not_the_program() {
    let dir = scratch();
    let script = "mkdir full && mount -t tmpfs -o size=3m none full && cd full && \
        $KASURI record -o run.kasuri -- sh -c '$EMITTER 2 2000000 ../counts 0; echo done > ../done'; echo $? > ../status; \
        ls -la . >&2; $KASURI recover run.kasuri.d -o ../saved.kasuri >&2";
    let Some(output) = in_namespace(dir.path(), script) else {
        return;
    };
    let text = said(&output);
    assert_eq!(
        std::fs::read_to_string(dir.path().join("done")).unwrap(),
        "done\n",
        "the program ended well: {text}"
    );
    assert_eq!(
        std::fs::read_to_string(dir.path().join("status"))
            .unwrap()
            .trim(),
        "125",
        "{text}"
    );
    assert!(
        text.contains("No space left") && text.contains("MB are kept"),
        "{text}"
    );
    let facts = facts(&dir.path().join("saved.kasuri"));
    assert!(facts.annotations > 1_000, "{facts:?}\n{text}");
}

#[test]
fn full_shared_memory_costs_counted_events_and_harms_nobody() {
    let dir = scratch();
    let script = "mount -t tmpfs -o size=1m none /dev/shm && \
        $KASURI record -q -o run.kasuri -- $EMITTER 4 400000 counts 0";
    let Some(output) = in_namespace(dir.path(), script) else {
        return;
    };
    assert!(output.status.success(), "{}", said(&output));
    let facts = facts(&dir.path().join("run.kasuri"));
    let emitted = counted(&dir.path().join("counts"));
    assert_eq!(
        facts.annotations + facts.lost,
        emitted,
        "{} lost",
        facts.lost
    );
    assert!(facts.annotations > 0);
}

/// /dev/shm too small for one chunk: each event is counted, and what to do is said.
#[test]
fn shared_memory_too_small_for_a_chunk_is_said_and_counted() {
    let dir = scratch();
    // Control page, links and names fit, 32 KiB do not.
    let script = "mount -t tmpfs -o size=28k none /dev/shm && \
        $KASURI record -o run.kasuri -- $EMITTER 4 40000 counts 0";
    let Some(output) = in_namespace(dir.path(), script) else {
        return;
    };
    assert!(output.status.success(), "{}", said(&output));
    let facts = facts(&dir.path().join("run.kasuri"));
    let emitted = counted(&dir.path().join("counts"));
    assert_eq!((facts.annotations, facts.lost), (0, emitted));
    assert_eq!(emitted, 160_000);
    let said = said(&output);
    assert!(said.contains("160000 annotations LOST"), "{said}");
    assert!(said.contains("--shm-size"), "{said}");
}

/// A recording directory may lie as deep as a path can be long, and the session in it.
#[test]
fn a_session_below_a_long_path_records() {
    let dir = scratch();
    let mut deep = dir.path().to_owned();
    while deep.as_os_str().len() < 1500 {
        deep.push("a-build-directory-with-a-name-of-some-sixty-four-bytes-and-so-on");
    }
    std::fs::create_dir_all(&deep).expect("a deep directory");
    let output = run(kasuri(&deep)
        .env("KASURI_SHM_DIR", dir.path().join("nowhere"))
        .args(["record", "-q", "-o", "run.kasuri", "--"])
        .arg(program("emitter"))
        .args(["2", "10000", "counts"]));
    assert!(output.status.success(), "{}", said(&output));
    let facts = facts(&deep.join("run.kasuri"));
    assert_eq!((facts.annotations, facts.lost), (20_000, 0));
}

#[test]
fn without_shared_memory_rings_go_to_the_disk() {
    let dir = scratch();
    let output = run(kasuri(dir.path())
        .env("KASURI_SHM_DIR", dir.path().join("nowhere"))
        .args(["record", "-q", "-o", "run.kasuri", "--"])
        .arg(program("emitter"))
        .args(["2", "10000", "counts"]));
    assert!(output.status.success(), "{}", said(&output));
    let facts = facts(&dir.path().join("run.kasuri"));
    assert_eq!((facts.annotations, facts.lost), (20_000, 0));
}

#[test]
fn a_flood_of_context_switches_loses_nothing() {
    if !can_trace() {
        return;
    }
    // A recorder that gets no CPU for as long as its buffer lasts loses some.
    in_one_of_five(|| {
        let dir = scratch();
        let output = run(kasuri(dir.path())
            .args(["record", "-q", "-o", "run.kasuri", "--"])
            .arg(program("pingpong"))
            .arg("200000"));
        assert!(output.status.success(), "{}", said(&output));
        let facts = facts(&dir.path().join("run.kasuri"));
        let switches: u64 = String::from_utf8_lossy(&output.stdout)
            .trim()
            .parse()
            .unwrap();
        assert!(switches > 200_000, "it was a flood: {switches}");
        // Each has a wake-up beside it, and the kernel of some virtual machines hides part of both.
        assert!(
            2 * facts.kernel > switches,
            "{switches} switches by the kernel's own count: {}",
            facts.kernel
        );
        assert_eq!(facts.kernel_lost, 0);
    });
}

#[test]
fn kernel_losses_are_counted() {
    if !can_trace() {
        return;
    }
    // The negative control of the test above: a recorder that is stopped cannot drain, and says what that cost. The program goes on
    // until there is more than its buffer holds.
    let dir = scratch();
    let mut recorder = start(
        kasuri(dir.path())
            .args(["record", "-q", "--buffer-mb", "1", "-o", "run.kasuri", "--"])
            .arg(program("pingpong"))
            .arg("1000000000"),
    );
    let program = program_of(&recorder, "pingpong");
    wait_until("pages are written", || {
        let files = std::fs::read_dir(dir.path().join("run.kasuri.d"))
            .into_iter()
            .flatten()
            .flatten();
        let raw = files.filter(|f| f.file_name().to_string_lossy().ends_with(".raw"));
        raw.filter_map(|f| f.metadata().ok()).any(|m| m.len() > 0)
    });
    signal(recorder.id(), rustix::process::Signal::STOP);
    wait_for_switches(program, 50_000);
    signal(recorder.id(), rustix::process::Signal::CONT);
    signal(recorder.id(), rustix::process::Signal::TERM);
    assert_eq!(recorder.wait().unwrap().code(), Some(143));
    let facts = facts(&dir.path().join("run.kasuri"));
    assert!(facts.kernel_lost > 0 && facts.kernel > 0, "{facts:?}");
}
