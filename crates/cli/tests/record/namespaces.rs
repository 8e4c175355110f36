//! Programs in pid name spaces of their own: an annotation belongs to the thread that wrote it, or to a nameless thread, never
//! to a stranger with the same number outside.
use crate::support::*;
use kasuri_model::Trace;
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs `script` in a shell under `kasuri record`; `$0` is the program. None: this machine has no such name spaces.
fn record(dir: &Path, script: &str) -> Option<Trace> {
    let inner = program("inner");
    let mut command = kasuri(dir);
    command.args(["record", "-o", "run.kasuri", "--", "sh", "-c", script]);
    let output = run(command.arg(&inner));
    if said(&output).contains("unshare failed") {
        skip("no pid name spaces");
        return None;
    }
    assert!(output.status.success(), "{}", said(&output));
    Some(load(&dir.join("run.kasuri")))
}

fn load(path: &Path) -> Trace {
    let bytes = std::fs::read(path).expect("a recording");
    let file = kasuri_import::File { name: "run.kasuri", bytes: &bytes };
    kasuri_import::load(&[file], &Default::default()).expect("a sound recording")
}

/// What `trace` says of messages: texts whose thread has that very name, and how many are with nameless threads.
fn attribution(trace: &Trace) -> (BTreeSet<String>, usize) {
    let (mut right, mut nameless) = (BTreeSet::new(), 0);
    for (&thread, &text) in trace.instants.thread.iter().zip(&trace.instants.name) {
        let row = &trace.threads[thread.ix()];
        let (name, text) = (trace.strings.get(row.name), trace.strings.get(text));
        let process = &trace.processes[row.process.ix()];
        assert!(process.is_target, "{text}: with {name}, not of the program");
        if row.tid < 0 {
            assert!(name.ends_with("(name space)"), "{text}: with {name}");
            assert!(row.states.is_empty());
            nameless += 1;
        } else {
            // Names come with switches: one that was never seen to leave its CPU after it had named itself has its maker's name.
            assert!(name == text || name == "inner", "{text}: with {name}, thread {}", row.tid);
            right.insert(text.to_owned());
        }
    }
    let said = trace.info.missing.iter().any(|m| m.contains("name space"));
    assert_eq!(said, nameless > 0, "{:?}", trace.info.missing);
    (right, nameless)
}

fn names(label: &str, n: usize) -> BTreeSet<String> {
    (0..=n).map(|i| format!("{label}-{i}")).collect()
}

#[test]
fn annotations_in_a_name_space_belong_to_who_wrote_them() {
    if !is_root() || !can_trace() {
        return;
    }
    for unshare in [
        "unshare -pf --mount-proc $0 a 3 60",
        "unshare -pf $0 a 3 60",
        "unshare -pf --mount-proc unshare -pf --mount-proc $0 a 3 60",
        "unshare -Urpf --mount-proc $0 a 3 60",
    ] {
        let dir = scratch();
        let Some(trace) = record(dir.path(), unshare) else {
            return;
        };
        assert_eq!(attribution(&trace), (names("a", 3), 0), "{unshare}");
    }
}

#[test]
fn equal_numbers_in_two_name_spaces_are_two_programs() {
    if !is_root() || !can_trace() {
        return;
    }
    let dir = scratch();
    let script = "unshare -pf --mount-proc $0 a 2 60 & unshare -pf --mount-proc $0 b 2 60; wait";
    let Some(trace) = record(dir.path(), script) else {
        return;
    };
    let both = &names("a", 2) | &names("b", 2);
    assert_eq!(attribution(&trace), (both, 0));
}

/// Most of these threads have ended before the recorder looks: only the kernel's events can name them.
#[test]
fn threads_of_microseconds_in_a_name_space_are_no_strangers() {
    if !is_root() || !can_trace() {
        return;
    }
    let dir = scratch();
    let script = "for i in 1 2 3 4 5; do unshare -pf --mount-proc $0 s$i 8 0; done";
    let Some(trace) = record(dir.path(), script) else {
        return;
    };
    let (right, nameless) = attribution(&trace);
    let n_messages = trace.instants.time.len();
    assert_eq!(n_messages, 5 * 9);
    assert!(right.len() + nameless >= n_messages);
}

#[test]
fn attaching_from_outside_finds_the_program_inside() {
    if !is_root() || !can_trace() {
        return;
    }
    let dir = scratch();
    let mut outer = Command::new("unshare")
        .args(["-pf", "--mount-proc"])
        .arg(program("inner"))
        .args(["p", "2", "20", "5"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn_guarded();
    let children = format!("/proc/{0}/task/{0}/children", outer.id());
    let mut pid = String::new();
    wait_until("the program runs", || {
        let list = std::fs::read_to_string(&children).unwrap_or_default();
        pid = list.trim().to_owned();
        let comm = std::fs::read_to_string(format!("/proc/{pid}/comm"));
        comm.is_ok_and(|comm| comm.trim_end() == "p-0" || comm.trim_end() == "inner")
            || outer.try_wait().expect("a child").is_some()
    });
    if outer.try_wait().expect("a child").is_some() {
        return skip("no pid name spaces");
    }
    let mut recorder = start(kasuri(dir.path()).args(["record", "-o", "run.kasuri", "-p", &pid]));
    // To itself it is process 1.
    wait_for_ring(recorder.id(), 1);
    wait_for_switches(pid.parse().expect("a pid"), 40);
    signal(recorder.id(), Signal::INT);
    let status = recorder.wait().expect("it ends");
    drop(outer.stdin.take());
    outer.wait().expect("it ends");
    assert!(status.success());
    let trace = load(&dir.path().join("run.kasuri"));
    let (right, nameless) = attribution(&trace);
    // Its threads live for 20 ms: on a busy machine the recorder may come too late for some of hundreds.
    assert_eq!(right, names("p", 2), "{nameless} nameless messages");
}

#[test]
fn a_recorder_inside_a_name_space_says_what_it_lacks_and_names_nobody_wrongly() {
    if !is_root() || !can_trace() {
        return;
    }
    let dir = scratch();
    let output = Command::new("unshare")
        .args(["-pf", "--mount-proc", env!("CARGO_BIN_EXE_kasuri")])
        .args(["record", "-o", "run.kasuri", "--"])
        .arg(program("inner"))
        .args(["i", "3", "60"])
        .current_dir(dir.path())
        .env_remove("KASURI_SESSION")
        .output()
        .expect("unshare");
    if said(&output).contains("unshare failed") {
        return skip("no pid name spaces");
    }
    assert!(output.status.success(), "{}", said(&output));
    let trace = load(&dir.path().join("run.kasuri"));
    assert_ne!(trace.info.kernel_source, "tracefs");
    assert!(said(&output).contains("on the host"), "{}", said(&output));
    for (&thread, &text) in trace.instants.thread.iter().zip(&trace.instants.name) {
        let row = &trace.threads[thread.ix()];
        assert!(trace.processes[row.process.ix()].is_target);
        assert_eq!(trace.strings.get(row.name), trace.strings.get(text));
    }
    // /proc of the outer name space: every number in it is another process's.
    let output = Command::new("unshare")
        .args(["-pf", env!("CARGO_BIN_EXE_kasuri"), "record", "--", "true"])
        .current_dir(dir.path())
        .output()
        .expect("unshare");
    assert!(!output.status.success());
    assert!(said(&output).contains("mount -t proc"), "{}", said(&output));
}

/// Two containers that share /dev/shm, each with a program that is process 1 to itself, and would look for its recorder under the
/// same name: the second recorder says so, and neither gets the other program's annotations.
#[test]
fn programs_of_one_number_are_not_mistaken_for_each_other() {
    if !is_root() {
        return skip("needs root");
    }
    let dir = scratch();
    let inside = |name: &str| {
        Command::new("unshare")
            .args(["-pf", "--mount-proc"])
            .arg(program("inner"))
            .args([name, "2", "20", "5"])
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn_guarded()
    };
    let mut outer = [inside("a"), inside("b")];
    let mut pids = Vec::new();
    for outer in &mut outer {
        let children = format!("/proc/{0}/task/{0}/children", outer.id());
        let mut pid = String::new();
        wait_until("the program runs", || {
            let list = std::fs::read_to_string(&children).unwrap_or_default();
            pid = list.trim().to_owned();
            std::fs::read_to_string(format!("/proc/{pid}/comm"))
                .is_ok_and(|comm| comm.trim_end() != "unshare")
                || outer.try_wait().unwrap().is_some()
        });
        if outer.try_wait().unwrap().is_some() {
            return skip("no pid name spaces");
        }
        pids.push(pid);
    }
    let record = ["record", "--no-kernel", "-o"];
    let mut first = start(kasuri(dir.path()).args(record).args(["a.kasuri", "-p", &pids[0]]));
    wait_for_ring(first.id(), 1);
    let second = ["b.kasuri", "--duration", "300ms", "-p", &pids[1]];
    let second = run(kasuri(dir.path()).args(record).args(second));
    let text = said(&second);
    assert!(text.contains("its number in another container"), "{text}");
    signal(first.id(), Signal::INT);
    assert!(first.wait().unwrap().success());
    assert_eq!(facts(&dir.path().join("b.kasuri")).annotations, 0, "{text}");
    assert!(facts(&dir.path().join("a.kasuri")).annotations > 0);
    // And it can be recorded once the first has ended.
    let mut third = start(kasuri(dir.path()).args(record).args(["c.kasuri", "-p", &pids[1]]));
    wait_for_ring(third.id(), 1);
    signal(third.id(), Signal::INT);
    assert!(third.wait().unwrap().success());
}
