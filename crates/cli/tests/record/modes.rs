//! `-p`, `-a`, `--flight`, `--duration`, without privileges, doctor: each way to record, with a real program.
use crate::support::*;
use kasuri_testkit::{Need, skip_for};
use rustix::process::Signal;
use std::process::{Command, Stdio};

#[test]
fn attaching_switches_on_the_annotations_of_a_running_program() {
    let dir = scratch();
    // It would go on for hours.
    let steps = program("steps");
    let mut program = Command::new(steps).arg("10000000").spawn_guarded();
    wait_for_switches(program.id(), 5);
    let pid = program.id().to_string();
    // In half a second there is time for 100 steps, for none where others have the CPUs: events are wanted of the next one.
    let output = run(kasuri(dir.path()).args([
        "record",
        "-o",
        "run.kasuri",
        "-p",
        &pid,
        "--duration",
        "500ms",
    ]));
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(facts(&dir.path().join("run.kasuri")).mode, "pid");
    assert!(program.try_wait().unwrap().is_none(), "it goes on");
    assert!(!std::path::Path::new(&format!("/dev/shm/kasuri-attach-{pid}")).exists());
    // And once more, until it ends.
    let mut again =
        start(kasuri(dir.path()).args(["record", "-q", "-o", "again.kasuri", "-p", &pid]));
    wait_for_ring(again.id(), program.id());
    wait_for_switches(program.id(), 5);
    signal(program.id(), Signal::TERM);
    assert!(program.wait().unwrap().success());
    assert!(again.wait().unwrap().success());
    assert!(facts(&dir.path().join("again.kasuri")).annotations > 0);
}

/// An upgrade replaces the file of a server that runs: its gates are found all the same, by root and by the server's own user.
#[test]
fn a_program_whose_file_was_replaced_is_attached_to() {
    let dir = scratch();
    let mine = dir.path().join("server");
    copy_program(program("steps"), &mine);
    let mut server = Command::new(&mine).arg("10000000").spawn_guarded();
    wait_for_switches(server.id(), 5);
    // Another file under its name, as a package manager leaves it; then none.
    copy_program("/bin/true", dir.path().join("new"));
    std::fs::rename(dir.path().join("new"), &mine).unwrap();
    for is_there in [true, false] {
        let pid = server.id().to_string();
        let record = ["record", "-q", "--no-kernel", "-o", "run.kasuri", "-p", &pid];
        let mut recorder = start(kasuri(dir.path()).args(record));
        wait_for_ring(recorder.id(), server.id());
        wait_for_switches(server.id(), 10);
        signal(recorder.id(), Signal::TERM);
        assert!(recorder.wait().unwrap().success());
        let facts = facts(&dir.path().join("run.kasuri"));
        assert!(facts.annotations > 0, "{is_there}: {facts:?}");
        let _ = std::fs::remove_file(&mine);
        std::fs::remove_file(dir.path().join("run.kasuri")).unwrap();
    }
    server.kill().unwrap();
}

/// More recordings of one process than a client has entries for segments: the last has its events, and the process has
/// no more memory mapped than after the first few. (`annotate.ten_thousand_recordings_leave_nothing` does more.)
#[test]
fn a_server_is_recorded_again_and_again() {
    let dir = scratch();
    let mut program = Command::new(program("steps")).arg("10000000").spawn_guarded();
    wait_for_switches(program.id(), 5);
    let pid = program.id().to_string();
    let record = |duration: &str| {
        let output = run(kasuri(dir.path())
            .args(["record", "-q", "--no-kernel", "--no-pack", "-o", "run.kasuri"])
            .args(["--duration", duration, "-p", &pid]));
        assert!(output.status.success(), "{}", said(&output));
        let _ = std::fs::remove_dir_all(dir.path().join("run.kasuri.d"));
    };
    let mapped = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmSize:"));
        line.unwrap().to_owned()
    };
    // It attaches at its next slice, 5 ms later; where others have the CPUs, not every time.
    (0..10).for_each(|_| record("30ms"));
    let before = mapped();
    (0..140).for_each(|_| record("30ms"));
    assert_eq!(mapped(), before);
    let last = ["record", "--no-kernel", "-o", "run.kasuri", "-p", &pid];
    let mut recorder = start(kasuri(dir.path()).args(last));
    wait_for_ring(recorder.id(), program.id());
    wait_for_switches(program.id(), 5);
    signal(recorder.id(), Signal::TERM);
    assert!(recorder.wait().unwrap().success());
    assert!(facts(&dir.path().join("run.kasuri")).annotations > 0);
    program.kill().unwrap();
    program.wait().unwrap();
}

#[test]
fn attaching_to_nobody_is_an_error() {
    let dir = scratch();
    let output = run(kasuri(dir.path()).args(["record", "-p", "999999999"]));
    assert_eq!(output.status.code(), Some(125));
    assert!(said(&output).contains("no process 999999999"), "{}", said(&output));
}

#[test]
fn attaching_to_another_users_process_says_who_may() {
    if !is_root() {
        return skip("needs root");
    }
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    std::os::unix::fs::chown(dir.path(), Some(65534), Some(65534)).unwrap();
    copy_program(env!("CARGO_BIN_EXE_kasuri"), dir.path().join("kasuri"));
    let me = std::process::id();
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .args(["./kasuri", "record", "-o", "run.kasuri", "-p"])
        .arg(me.to_string())
        .current_dir(dir.path())
        .stdin(Stdio::null())
        .output();
    let Ok(output) = output else {
        return skip("no setpriv");
    };
    assert_eq!(output.status.code(), Some(125));
    // At once: nothing is measured for a recording that will not be.
    let want = format!(
        "kasuri: error: process {me} belongs to user 0, and you are not root: run as root: `sudo kasuri record -p {me} ...`\n"
    );
    assert_eq!(String::from_utf8_lossy(&output.stderr), want);
    assert!(!dir.path().join("run.kasuri.d").exists());
}

#[test]
fn attaching_to_a_program_without_annotations_says_so() {
    let dir = scratch();
    let mut program = Command::new("sleep").arg("30").spawn_guarded();
    let pid = program.id().to_string();
    let output = run(kasuri(dir.path()).args([
        "record",
        "-o",
        "run.kasuri",
        "-p",
        &pid,
        "--duration",
        "100ms",
    ]));
    assert!(
        output.status.success() && said(&output).contains("no annotations"),
        "{}",
        said(&output)
    );
    program.kill().unwrap();
    program.wait().unwrap();
}

#[test]
fn the_whole_system_is_recorded_for_a_time() {
    if !can_trace() {
        return;
    }
    let dir = scratch();
    let output =
        run(kasuri(dir.path()).args(["record", "-a", "--duration", "300ms", "-o", "run.kasuri"]));
    assert!(output.status.success(), "{}", said(&output));
    let facts = facts(&dir.path().join("run.kasuri"));
    assert!(facts.kernel > 0 && facts.mode == "system" && facts.source == "tracefs", "{facts:?}");
}

/// A program that is annotated and knows nothing of triggers: its slice is told while it goes on, by its name; short ones are not.
#[test]
fn the_flight_recorder_saves_when_a_slice_takes_too_long() {
    let dir = scratch();
    let slow = program("slow_slice");
    // It ends its slice once that was saved.
    let slices = ["--on-slice=quick=30s", "--on-slice=slow=100ms"];
    let mut command = kasuri(dir.path());
    command.args(["record", "--no-kernel", "--flight", "-o", "y.kasuri"]);
    let out = run(command.args(slices).arg("--").arg(slow));
    let said = said(&out);
    assert!(out.status.success(), "{said}");
    let told = said.lines().filter(|line| line.contains("saving: slice"));
    let told: Vec<&str> = told.collect();
    assert!(
        told.len() == 1
            && told[0].contains("slice slow of thread")
            && told[0].contains("has taken"),
        "{said}"
    );
    assert!(dir.path().join("y.2.kasuri").exists(), "the end is saved too");
}

#[test]
fn the_flight_recorder_saves_on_signal_trigger_and_end() {
    let dir = scratch();
    let mut recorder = start(
        kasuri(dir.path())
            .args(["record", "-q", "--flight", "--keep", "1s", "-o", "run.kasuri", "--"])
            .arg(program("steps"))
            .arg("10000000"),
    );
    let pid = program_of(&recorder, "steps");
    wait_for_ring(recorder.id(), pid);
    wait_for_switches(pid, 10);
    for (to, sent, saved) in
        [(recorder.id(), Signal::USR2, "run.kasuri"), (pid, Signal::USR1, "run.2.kasuri")]
    {
        signal(to, sent);
        wait_until(saved, || dir.path().join(saved).exists());
        wait_for_switches(pid, 10);
    }
    signal(pid, Signal::TERM);
    assert!(recorder.wait().unwrap().success());
    let saved: Vec<_> = ["run.kasuri", "run.2.kasuri", "run.3.kasuri"]
        .iter()
        .map(|name| facts(&dir.path().join(name)))
        .collect();
    assert!(!dir.path().join("run.4.kasuri").exists() && !dir.path().join("run.kasuri.d").exists());
    assert!(saved.iter().all(|f| f.mode == "flight" && f.annotations > 0), "{saved:?}");
    assert!(
        saved[0].annotations < saved[1].annotations && saved[1].annotations < saved[2].annotations,
        "{saved:?}"
    );
    let last = &saved[2];
    assert!(
        last.lost == 0 && last.annotations % 2 == 1,
        "two for each step, and a trigger, fit into the rings: {last:?}"
    );
}

/// CPU limits are read while nothing is drained: those in force when a snapshot begins are in it, however old they are.
#[test]
fn the_flight_recorder_knows_what_cpus_its_program_may_use() {
    use kasuri_format::container::Recording;
    let dir = scratch();
    let mut recorder = start(
        kasuri(dir.path())
            .args(["record", "-q", "--no-kernel", "--flight", "--keep", "100ms"])
            .args(["-o", "run.kasuri", "--", "taskset", "-c", "0"])
            .arg(program("steps"))
            .arg("10000000"),
    );
    let pid = program_of(&recorder, "steps");
    wait_for_ring(recorder.id(), pid);
    wait_for_switches(pid, 200);
    signal(pid, Signal::TERM);
    assert!(recorder.wait().unwrap().success());
    let bytes = std::fs::read(dir.path().join("run.kasuri")).unwrap();
    let recording = Recording::parse(&bytes).unwrap();
    let cpus: Vec<&str> = recording.limits().iter().map(|row| &*row.cpus).collect();
    assert!(cpus.contains(&"0"), "{:?}", recording.limits());
}

#[test]
fn the_flight_recorder_keeps_the_newest_events() {
    let dir = scratch();
    let output = run(kasuri(dir.path())
        .args(["record", "-q", "--flight", "-o", "run.kasuri", "--"])
        .arg(program("emitter"))
        .args(["2", "1000000", "counts"]));
    assert!(output.status.success(), "{}", said(&output));
    let facts = facts(&dir.path().join("run.kasuri"));
    assert!(facts.annotations > 100_000 && facts.annotations < 1_000_000, "{facts:?}");
    assert_eq!(facts.annotations + facts.lost, counted(&dir.path().join("counts")));
}

#[test]
fn duration_ends_the_recording_and_not_the_program() {
    let dir = scratch();
    let script = "sleep 1; echo done > done; exit 5";
    let output = run(kasuri(dir.path()).args([
        "record",
        "-q",
        "--duration",
        "200ms",
        "-o",
        "run.kasuri",
        "--",
        "sh",
        "-c",
        script,
    ]));
    assert_eq!(output.status.code(), Some(5), "{}", said(&output));
    assert!(dir.path().join("done").exists());
}

/// Such a user may watch all threads, and lock no more memory than others: the rings of samples leave some to that of switches.
#[test]
fn with_the_capability_to_watch_alone_switches_are_recorded() {
    if !is_root() {
        return skip("needs root");
    }
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    std::os::unix::fs::chown(dir.path(), Some(65534), Some(65534)).unwrap();
    copy_program(env!("CARGO_BIN_EXE_kasuri"), dir.path().join("kasuri"));
    let caps = "-all,+perfmon,+sys_ptrace";
    let output = Command::new("sh")
        .args(["-c", "ulimit -l 8192; exec setpriv \"$@\"", "sh"])
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .args(["--inh-caps", caps, "--ambient-caps", caps])
        .args(["--bounding-set", caps, "./kasuri", "record", "-o"])
        .args(["run.kasuri", "--", "sleep", "0.1"])
        .current_dir(dir.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = said(&output);
    if said.contains("setpriv") {
        return skip("setpriv does not know the capabilities");
    }
    assert!(output.status.success(), "{said}");
    assert!(!said.contains("no context switches"), "{said}");
    assert!(!said.contains("no call paths"), "{said}");
}

#[test]
fn without_root_annotations_and_own_switches_are_recorded() {
    if !is_root() {
        return skip("needs root");
    }
    // Root becomes nobody; what an ordinary user gets depends on perf_event_paranoid, which CI leaves at 2.
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    let own = |p: &std::path::Path| std::os::unix::fs::chown(p, Some(65534), Some(65534)).unwrap();
    own(dir.path());
    for (from, to) in [(program("steps"), "steps"), (env!("CARGO_BIN_EXE_kasuri").into(), "kasuri")]
    {
        copy_program(from, dir.path().join(to));
    }
    let output = Command::new("setpriv")
        .args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "./kasuri",
            "record",
            "-o",
            "run.kasuri",
            "--",
            "./steps",
            "50",
        ])
        .current_dir(dir.path())
        .stdin(Stdio::null())
        .output();
    let Ok(output) = output else {
        return skip("no setpriv");
    };
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("sudo kasuri record"), "the remedy is named: {}", said(&output));
    let facts = facts(&dir.path().join("run.kasuri"));
    assert_eq!((facts.annotations, facts.lost), (100, 0));
    let paranoid: i32 = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid")
        .map_or(9, |s| s.trim().parse().unwrap_or(9));
    if paranoid > 2 {
        return skip("perf_event_paranoid is above 2");
    }
    assert_eq!(facts.source, "perf");
    // 50 sleeps are 50 switches out and 50 in; the kernel of some virtual machines hides part of them.
    assert!(facts.kernel >= 25, "{facts:?}");
    assert!(!facts.missing.is_empty());
}

#[test]
fn doctor_says_what_is_missing_and_how_to_get_it() {
    let dir = scratch();
    let output = run(kasuri(dir.path()).args(["doctor", "--json"]));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["schema"], "kasuri.doctor/1");
    let degraded: Vec<_> =
        report["checks"].as_array().unwrap().iter().filter(|c| c["state"] == "degraded").collect();
    assert_eq!(output.status.code(), Some(i32::from(!degraded.is_empty())));
    assert!(degraded.iter().all(|c| c["lost"] != ""), "{degraded:?}");
    let text = run(kasuri(dir.path()).arg("doctor"));
    assert!(String::from_utf8_lossy(&text.stdout).contains("clock source"));
    if !can_trace() {
        return;
    }
    // It names the clock that a recording gets.
    let mut checks = report["checks"].as_array().unwrap().iter();
    let clock = checks.find(|c| c["name"] == "trace clock").expect("listed");
    let record = ["record", "-q", "-o", "run.kasuri", "--", "true"];
    assert!(run(kasuri(dir.path()).args(record)).status.success());
    assert_eq!(clock["found"], facts(&dir.path().join("run.kasuri")).clock);
}

/// As in `ssh board kasuri record -o - -- ./program > FILE`: the pipe has the recording alone, and a pipe that breaks loses nothing.
#[test]
fn a_recording_goes_through_a_pipe() {
    let dir = scratch();
    let record = |stdout: Stdio| {
        let mut command = kasuri(dir.path());
        command
            .env("TMPDIR", dir.path())
            .args(["record", "--no-kernel", "-o", "-", "--"])
            .args(["sh", "-c", "echo printed; exec \"$0\" 100"])
            .arg(program("steps"))
            .stdout(stdout)
            .stderr(Stdio::piped());
        command
    };
    let left = || {
        let names = std::fs::read_dir(dir.path()).unwrap().flatten();
        let mut names = names.map(|entry| entry.path());
        names.find(|path| path.extension().is_some_and(|e| e == "d"))
    };
    let output = record(Stdio::piped()).output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && words.contains("printed") && words.contains("standard output"),
        "{words}"
    );
    let file = dir.path().join("piped.kasuri");
    std::fs::write(&file, &output.stdout).unwrap();
    let whole = facts(&file).annotations;
    assert!(whole > 0 && left().is_none(), "{:?}", left());

    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = record(writer.into()).output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{words}");
    assert!(words.contains("Broken pipe") && words.contains("kasuri recover"), "{words}");
    let left = left().expect("the recording remains");
    let output = run(kasuri(dir.path()).arg("recover").arg(&left));
    assert!(output.status.success(), "{}", said(&output));
    let recovered = facts(&left.with_extension("")).annotations;
    assert_eq!(recovered, whole);
}

#[test]
fn what_cannot_go_through_a_pipe_is_refused_with_the_reason() {
    let dir = scratch();
    for option in ["--flight", "--no-pack", "--check-overhead"] {
        let output = run(kasuri(dir.path()).args(["record", "-o", "-", option, "--", "true"]));
        let words = said(&output);
        assert!(!output.status.success(), "{option}");
        assert!(words.contains("name a file") && words.contains(option), "{words}");
    }
}

/// What docs/guide/recording.md tells a group of users to do.
#[test]
fn a_user_with_the_files_capabilities_sees_all_switches_and_gives_none_of_them_away() {
    if !is_root() || kasuri_record::perf::reach().is_none() {
        return skip("needs root and perf events");
    }
    let dir = tempfile::tempdir_in("/tmp").expect("a directory");
    std::os::unix::fs::chown(dir.path(), Some(65534), Some(65534)).expect("chown");
    // struct vfs_cap_data of linux/capability.h, version 2: CAP_IPC_LOCK (14) and CAP_PERFMON (38), effective at once.
    let words: [u32; 5] = [0x0200_0001, 1 << 14, 0, 1 << (38 - 32), 0];
    let granted: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    for (from, to) in [(env!("CARGO_BIN_EXE_kasuri"), "kasuri"), ("/bin/cat", "cat")] {
        let to = dir.path().join(to);
        copy_program(from, &to);
        let flags = rustix::fs::XattrFlags::empty();
        if rustix::fs::setxattr(&to, "security.capability", &granted, flags).is_err() {
            return skip_for(Need::Machine, "this file system keeps no capabilities");
        }
    }
    let as_nobody = |args: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).args(args);
        let output = run(command.current_dir(dir.path()).env("HOME", dir.path()));
        (String::from_utf8_lossy(&output.stdout).into_owned(), said(&output))
    };
    if as_nobody(&["./cat", "/proc/self/status"]).0.contains("CapEff:\t0000000000000000") {
        return skip_for(Need::Machine, "capabilities of files are not given here");
    }
    let (doctor, _) = as_nobody(&["./kasuri", "doctor"]);
    assert!(doctor.contains("context switches of all threads"), "{doctor}");
    assert!(!doctor.contains("other programs"), "{doctor}");
    let record = ["./kasuri", "record", "-o", "run.kasuri", "--", "/bin/cat", "/proc/self/status"];
    let (program, told) = as_nobody(&record);
    for set in ["CapPrm", "CapEff", "CapAmb"] {
        assert!(program.contains(&format!("{set}:\t0000000000000000")), "{program}\n{told}");
    }
    assert!(told.contains("without wake-ups") && !told.contains("other programs"), "{told}");
}
