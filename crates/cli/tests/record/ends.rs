//! However a recorder ends, the kernel and /dev/shm are left as they were found.
use crate::support::*;
use rustix::process::Signal;
use std::process::Command;

/// Records `sleep`, sends `sent` to the recorder; the exit status.
fn ends_by(sent: Signal) -> i32 {
    let dir = scratch();
    let mut recorder =
        start(kasuri(dir.path()).args(["record", "-q", "-o", "run.kasuri", "--", "sleep", "300"]));
    let pid = recorder.id();
    program_of(&recorder, "sleep");
    assert_eq!(instances_of(pid).len(), 1);
    signal(pid, sent);
    let status = recorder.wait().expect("it ends");
    assert_eq!(instances_of(pid), Vec::<String>::new());
    assert_eq!(sessions_of(pid), Vec::<String>::new());
    assert!(!dir.path().join("run.kasuri.d").exists());
    let facts = facts(&dir.path().join("run.kasuri"));
    assert!(facts.complete && facts.kernel > 0, "{facts:?}");
    status.code().expect("it exits by itself")
}

#[test]
fn signals_reach_the_program_and_leave_nothing_behind() {
    if !can_trace() {
        return;
    }
    assert_eq!(ends_by(Signal::INT), 130);
    assert_eq!(ends_by(Signal::TERM), 143);
    assert_eq!(ends_by(Signal::HUP), 129);
    assert_eq!(ends_by(Signal::QUIT), 131);
}

/// Between its first and its last instant, too: clocks drift, and a kill loses the end.
#[test]
fn the_clocks_are_compared_each_second() {
    let dir = scratch();
    let record = ["record", "-q", "--no-kernel", "--no-pack", "-o", "run.kasuri"];
    let output = run(kasuri(dir.path()).args(record).args(["--", "sleep", "2.5"]));
    assert!(output.status.success(), "{}", said(&output));
    let anchors = std::fs::read_to_string(dir.path().join("run.kasuri.d/anchors.jsonl")).unwrap();
    assert!(anchors.lines().count() >= 4, "{anchors}");
}

#[test]
fn second_interrupt_ends_the_recording_of_a_program_that_ignores_it() {
    two_interrupts(|_| ());
}

/// Interrupts a recording, calls `once`, and interrupts it more than a second later.
fn two_interrupts(once: impl Fn(u32)) {
    let dir = scratch();
    let script = "trap '' INT; echo $$ > pid; sleep 300";
    let mut recorder = start(kasuri(dir.path()).args([
        "record",
        "-q",
        "-o",
        "run.kasuri",
        "--",
        "sh",
        "-c",
        script,
    ]));
    let pid_file = dir.path().join("pid");
    wait_until("the program runs", || {
        std::fs::read_to_string(&pid_file).is_ok_and(|s| s.ends_with('\n'))
    });
    let program: u32 = std::fs::read_to_string(&pid_file).unwrap().trim().parse().unwrap();
    signal(recorder.id(), Signal::INT);
    // Two that come before it looks are one to it.
    wait_until("it has seen the first", || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", recorder.id())).unwrap();
        let pending = status.lines().find_map(|line| line.strip_prefix("ShdPnd:"));
        let pending = u64::from_str_radix(pending.unwrap().trim(), 16).unwrap();
        pending >> (Signal::INT.as_raw() - 1) & 1 == 0
    });
    once(recorder.id());
    std::thread::sleep(std::time::Duration::from_millis(1100));
    assert!(recorder.try_wait().unwrap().is_none(), "one interrupt is the program's business");
    signal(recorder.id(), Signal::INT);
    wait_until("it does not wait for the program", || recorder.try_wait().unwrap().is_some());
    assert!(facts(&dir.path().join("run.kasuri")).complete);
    assert!(std::path::Path::new(&format!("/proc/{program}")).exists(), "the program goes on");
    let _ = Command::new("pkill").args(["-P", &program.to_string()]).status();
}

/// timeout(1) interrupts the program it started and then its whole group: both reach the recorder, one after the other, and the
/// second must not be taken for the wish to leave the recording unpacked.
#[test]
fn two_interrupts_at_once_leave_a_packed_recording() {
    // With this many events packing takes long enough to meet the second; wherever it comes, the answer is the same.
    let emitter = program("emitter");
    for pause_ms in [0, 1, 3, 10, 30, 100] {
        let dir = scratch();
        let mut recorder = start(
            kasuri(dir.path())
                .args(["record", "-q", "--no-kernel", "-o", "run.kasuri", "--"])
                .arg(&emitter)
                .args(["2", "1000000000", "counts", "1"]),
        );
        let chunks = dir.path().join("run.kasuri.d");
        wait_until("there is something to pack", || {
            let files = std::fs::read_dir(&chunks).into_iter().flatten().flatten();
            let sizes = files.filter_map(|f| Some(f.metadata().ok()?.len()));
            sizes.sum::<u64>() > 8 << 20
        });
        signal(recorder.id(), Signal::INT);
        std::thread::sleep(std::time::Duration::from_millis(pause_ms));
        if recorder.try_wait().unwrap().is_none() {
            signal(recorder.id(), Signal::INT);
        }
        recorder.wait().unwrap();
        assert!(!chunks.exists(), "{pause_ms} ms: it was not packed");
        assert!(facts(&dir.path().join("run.kasuri")).annotations > 0);
    }
}

#[test]
fn next_run_removes_the_instance_of_a_killed_recorder_and_only_that() {
    if !can_trace() {
        return;
    }
    let dir = scratch();
    let mut living = start(kasuri(dir.path()).args([
        "record",
        "-q",
        "-o",
        "living.kasuri",
        "--",
        "sleep",
        "300",
    ]));
    let mut dead =
        start(kasuri(dir.path()).args(["record", "-q", "-o", "dead.kasuri", "--", "sleep", "300"]));
    wait_until("both trace", || {
        let begun = |name: &str| dir.path().join(name).join("meta.json").exists();
        begun("living.kasuri.d") && begun("dead.kasuri.d")
    });
    assert_eq!(instances_of(living.id()).len() + instances_of(dead.id()).len(), 2);
    let program = program_of(&dead, "sleep");
    // It cannot clean up; another test that records at this moment may do so before `next`.
    signal(dead.id(), Signal::KILL);
    dead.wait().unwrap();
    signal(program, Signal::KILL);
    let next = run(kasuri(dir.path()).args(["record", "-o", "next.kasuri", "--", "true"]));
    assert!(next.status.success(), "{}", said(&next));
    wait_until("it is gone", || instances_of(dead.id()).is_empty());
    assert_eq!(instances_of(living.id()).len(), 1);
    signal(living.id(), Signal::INT);
    living.wait().unwrap();
    assert!(facts(&dir.path().join("living.kasuri")).kernel > 0);
    let recovered = run(kasuri(dir.path()).args(["recover", "dead.kasuri.d"]));
    assert!(recovered.status.success(), "{}", said(&recovered));
    assert_eq!(sessions_of(dead.id()), Vec::<String>::new());
}

/// Rings of a killed recorder stay until they are recovered; doctor says how, also when the recording is gone.
#[test]
fn doctor_tells_whose_the_rings_of_killed_recorders_are() {
    let dir = scratch();
    let killed = |name: &str| {
        let program = ["record", "-q", "-o", name, "--", "sleep", "30"];
        let mut recorder = start(kasuri(dir.path()).args(program));
        let recording = dir.path().join(format!("{name}.d"));
        wait_until("it records", || recording.join("meta.json").exists());
        signal(recorder.id(), Signal::KILL);
        recorder.wait().unwrap();
        let [session] = &sessions_of(recorder.id())[..] else {
            panic!("SIGKILL leaves its session");
        };
        (recording, session.clone())
    };
    let (kept, _) = killed("kept.kasuri");
    let (removed, session) = killed("removed.kasuri");
    std::fs::remove_dir_all(removed).unwrap();
    let doctor = run(kasuri(dir.path()).arg("doctor"));
    let text = String::from_utf8_lossy(&doctor.stdout).into_owned();
    let recover = format!("`kasuri recover {}`", kept.display());
    let remove = format!("`rm -r /dev/shm/{session}`");
    assert!(text.contains(&recover) && text.contains(&remove), "{text}");
    let recovered = run(kasuri(dir.path()).args(["recover", "kept.kasuri.d"]));
    assert!(recovered.status.success(), "{}", said(&recovered));
    std::fs::remove_dir_all(format!("/dev/shm/{session}")).unwrap();
}

#[test]
fn a_panic_leaves_no_instance() {
    use kasuri_record::tracefs::{Instance, InstanceOptions, Tracefs};
    if !can_trace() {
        return;
    }
    let options = InstanceOptions {
        buffer_kb: 64,
        tsc: false,
        events: vec![("sched/sched_switch".into(), String::new())],
        uprobes: Vec::new(),
    };
    let name = std::sync::Mutex::new(String::new());
    let panicked = std::panic::catch_unwind(|| {
        let instance = Instance::create(&Tracefs::open().unwrap(), &options).unwrap();
        *name.lock().unwrap() = instance.name().to_owned();
        instance.set_tracing(true).unwrap();
        // Not panic!(): the message is no part of the test's output.
        std::panic::resume_unwind(Box::new(()));
    });
    assert!(panicked.is_err());
    let name = name.lock().unwrap().clone();
    assert!(!name.is_empty() && !instances_of(std::process::id()).contains(&name));
}

/// The tests' own hygiene: what a test started is gone when it panics, also a program whose recorder was killed before.
#[test]
fn a_failing_test_leaves_no_process() {
    let dir = scratch();
    let failed = std::panic::catch_unwind(|| {
        let record = ["record", "-q", "-o", "run.kasuri", "--", "sleep", "300"];
        let mut recorder = start(kasuri(dir.path()).args(record));
        program_of(&recorder, "sleep");
        signal(recorder.id(), Signal::KILL);
        recorder.wait().unwrap();
        assert!(runs_here(dir.path()));
        std::panic::resume_unwind(Box::new(()));
    });
    assert!(failed.is_err());
    wait_until("the program is gone", || !runs_here(dir.path()));
    assert!(run(kasuri(dir.path()).args(["recover", "run.kasuri.d"])).status.success());
}

/// Claims about times: each runs alone (`make test-measure`), on a quiet machine.
mod measured {
    use super::*;

    #[test]
    fn two_interrupts_within_a_second_are_one() {
        measure(|| two_interrupts(|recorder| signal(recorder, Signal::INT)));
    }
}
