//! Locks that the lock probe does not see: those of ito, which say so themselves, and those of functions that the user names.
use crate::support;
use crate::support::{can_trace, kasuri, measure, repository, run, said, scratch};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", said(output));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", said(output)))
}

fn row<'v>(table: &'v Value, name: &str) -> &'v Value {
    let rows = table.as_array().expect("a table");
    let found = rows.iter().find(|row| row["name"] == name);
    found.unwrap_or_else(|| panic!("no `{name}` in {table}"))
}

fn sum(table: &Value, key: &str) -> i64 {
    let rows = table.as_array().expect("a table");
    rows.iter().map(|row| row[key].as_i64().unwrap()).sum()
}

fn compiled(dir: &Path, source: &str, more: &[&str]) -> PathBuf {
    let program = dir.join(Path::new(source).file_stem().unwrap());
    let status = Command::new("cc")
        .current_dir(repository())
        .args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", source])
        .arg("-o")
        .arg(&program)
        .args(more)
        .arg("-pthread")
        .status()
        .expect("a C compiler");
    assert!(status.success(), "{source} does not compile");
    program
}

fn locks(dir: &Path, more: &[&str], program: &[&str]) -> Value {
    let mut command = kasuri(dir);
    command.args(["locks", "--json"]).args(more).arg("--").args(program);
    json(&run(&mut command))
}

/// Whether the kernel hid switches from this recording, as that of some virtual machines does (docs/design/states.md): who ran
/// unreported counts as asleep, so CPU times are up to a third too low.
fn hides_switches(dir: &Path, recording: &str) -> bool {
    let missing = &json(&run(kasuri(dir).args(["stat", "--json", recording])))["missing"];
    let mut texts = missing.as_array().unwrap().iter();
    texts.any(|text| text.as_str().unwrap().contains("hid switches"))
}

/// Probes of ours in programs of this directory.
fn probes_left(dir: &Path) -> String {
    use std::os::fd::AsRawFd;
    let dir = dir.display().to_string();
    // Where it is mounted, or as kasuri mounts it for itself.
    let tracefs = kasuri_record::tracefs::Tracefs::open().expect("tracefs");
    let file = format!("/proc/self/fd/{}/uprobe_events", tracefs.root().as_raw_fd());
    let text = std::fs::read_to_string(file).expect("a kernel with uprobes");
    text.lines()
        .filter(|line| line.contains(":kasuri_") && line.contains(&dir))
        .map(|line| format!("{line}\n"))
        .collect()
}

/// Records tests/locks/ito.c: four writers, 20 rounds of 1 ms each, half of it with `shared` held: a hold goes on while its task waits for
/// its turn. `check` has the answer of `kasuri locks --json`, how many workers it was, and whether the kernel hid switches.
fn with_own_locks(check: impl Fn(&Value, &str, bool)) {
    let library = repository().join("build/threads/libito.a");
    if !library.exists() {
        return support::skip("ito is not built: make c");
    }
    if !can_trace() {
        return;
    }
    let dir = scratch();
    let library = library.display().to_string();
    let program = compiled(dir.path(), "tests/locks/ito.c", &["-Ithreads/include", &library]);
    for workers in ["1", "2"] {
        let mut command = kasuri(dir.path());
        command
            .env("ITO_WORKERS", workers)
            .args(["locks", "--json", "-o", "run.kasuri", "--"])
            .args([program.as_os_str(), "20".as_ref()]);
        let answer = json(&run(&mut command));
        let hides = hides_switches(dir.path(), "run.kasuri");
        check(&answer, workers, hides);
    }
    let mut command = kasuri(dir.path());
    let out = run(command.args(["locks", "run.kasuri"]));
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success() && text.contains("SOURCE") && text.contains("TASK"), "{text}");
}

#[test]
fn ito_reports_its_own_locks() {
    with_own_locks(|answer, _, _| every_acquisition_is_there(answer));
}

fn every_acquisition_is_there(answer: &Value) {
    let shared = row(&answer["locks"], "shared");
    assert_eq!((&shared["source"], &shared["kind"]), (&"ito".into(), &"mutex".into()));
    assert_eq!((&shared["holds"], &shared["threads"]), (&80.into(), &4.into()), "{shared}");
    let table = row(&answer["locks"], "table");
    assert_eq!((&table["kind"], &table["holds"]), (&"rwlock".into(), &120.into()), "{table}");
    let token = row(&answer["locks"], "token_lock");
    assert_eq!(token["kind"], "errorcheck mutex");
    // The sums are of the same acquisitions.
    assert_eq!(sum(&answer["locks"], "holds"), answer["total"]["holds"].as_i64().unwrap());
    let tasks = &answer["tasks"];
    assert_eq!(row(tasks, "writer")["tasks"], 4);
    assert_eq!(sum(tasks, "holds"), sum(&answer["locks"], "holds"));
}

/// What the program does. `hides`: the kernel does not report all switches.
fn times_are_the_programs(answer: &Value, workers: &str, hides: bool) {
    let shared = row(&answer["locks"], "shared");
    // 80 holds of 0.5 ms of CPU time each, whatever ran in between.
    let ns = |key: &str| shared[key].as_i64().unwrap();
    let (least, off) = match hides {
        true => (20_000_000, 0.2),
        false => (39_000_000, 0.05),
    };
    assert!((least..60_000_000).contains(&ns("hold_cpu_ns")), "{workers}: {shared}");
    // While the holder was not on its worker others ran there and came to wait.
    assert!(ns("hold_blocked_ns") > 0 && ns("contended") >= 20, "{workers}: {shared}");
    let ratio = row(&answer["tasks"], "writer")["lock_ratio"].as_f64().unwrap();
    assert!((ratio - 0.5).abs() < off, "{workers}: {ratio}");
    let edges = answer["waits_for"].as_array().unwrap();
    assert!(
        edges
            .iter()
            .any(|e| e["lock"] == "shared" && e["waiter"] == "writer" && e["holder"] == "writer"),
        "{edges:?}"
    );
    let waits = answer["waits"].as_array().unwrap();
    let of = |kind: &str| waits.iter().find(|w| w["kind"] == kind && w["place"] == "player");
    assert!(of("condition").is_some() && of("other").is_some(), "{waits:?}");
}

/// Without `--locks` they cost and say nothing.
#[test]
fn ito_is_silent_about_locks_when_nobody_asked() {
    let library = repository().join("build/threads/libito.a");
    if !library.exists() {
        return support::skip("ito is not built: make c");
    }
    let dir = scratch();
    let library = library.display().to_string();
    let program = compiled(dir.path(), "tests/locks/ito.c", &["-Ithreads/include", &library]);
    let out = run(kasuri(dir.path())
        .args(["record", "-q", "-o", "run.kasuri", "--"])
        .args([program.as_os_str(), "5".as_ref()]));
    assert!(out.status.success(), "{}", said(&out));
    let answer = json(&run(kasuri(dir.path()).args(["locks", "--json", "run.kasuri"])));
    assert_eq!(answer["locks"], Value::Array(vec![]));
}

#[test]
fn a_static_programs_lock_is_seen_by_its_functions() {
    if !can_trace() {
        return;
    }
    let dir = scratch();
    let program = compiled(dir.path(), "tests/locks/static.c", &["-static"]);
    let program = program.display().to_string();
    let functions = "turnstile_enter,turnstile_leave";
    let answer = locks(dir.path(), &["--lock-function", functions], &[&program, "40", "50"]);
    let lock = &answer["locks"][0];
    assert_eq!((&lock["source"], &lock["holds"]), (&"uprobe".into(), &100.into()), "{answer}");
    assert_eq!(lock["name"], "lock at turnstile_enter");
    assert_eq!(lock["threads"], 2);
    // Named by the file, the second function's argument said to be the first one.
    let spec = format!("{program}:turnstile_enter@1,turnstile_leave@1");
    let same = locks(dir.path(), &["--lock-function", &spec], &[&program, "40", "50"]);
    assert_eq!(same["locks"][0]["holds"], 100);
    // Only the function that takes it: waits without holds.
    let half = locks(dir.path(), &["--lock-function", "turnstile_enter"], &[&program, "80", "50"]);
    assert_eq!(half["total"]["holds"], 0, "{half}");
    assert_eq!(probes_left(dir.path()), "");
}

#[test]
fn a_lock_function_that_cannot_be_probed_is_an_error_that_says_why() {
    if !can_trace() {
        return;
    }
    let dir = scratch();
    let program = compiled(dir.path(), "tests/locks/static.c", &["-static"]);
    let record = |spec: &str, more: &[&str]| {
        let out = run(kasuri(dir.path())
            .args(["record", "-o", "run.kasuri", "--lock-function", spec])
            .args(more)
            .arg("--")
            .arg(&program)
            .args(["1", "1"]));
        assert_eq!(out.status.code(), Some(125), "{}", said(&out));
        said(&out)
    };
    for (spec, wanted) in [
        ("no_such,function", "no function `no_such`"),
        ("turnstile_,turnstile_leave", "did you mean: turnstile_enter, turnstile_leave"),
        ("/nonexistent:a,b", "No such file"),
        ("turnstile_enter@99", "not passed in a register"),
    ] {
        let said = record(spec, &[]);
        assert!(said.contains(wanted) && said.contains("--lock-function"), "{said}");
    }
    assert!(record("turnstile_enter", &["--no-kernel"]).contains("leave out --no-kernel"));
    assert!(!dir.path().join("run.kasuri").exists());
    assert_eq!(probes_left(dir.path()), "");
}

/// The probes of a recorder that was killed go with the next recording.
#[test]
fn probes_of_a_killed_recorder_are_removed() {
    if !can_trace() {
        return;
    }
    let dir = scratch();
    let program = compiled(dir.path(), "tests/locks/static.c", &["-static"]);
    let mut command = kasuri(dir.path());
    command
        .args(["record", "-q", "-o", "dead.kasuri"])
        .args(["--lock-function", "turnstile_enter,turnstile_leave", "--"])
        .arg(&program)
        .args(["10", "1000000"]);
    let mut child = support::start(&mut command);
    let program = support::program_of(&child, "static");
    support::wait_until("the probes are there", || !probes_left(dir.path()).is_empty());
    support::signal(child.id(), rustix::process::Signal::KILL);
    child.wait().unwrap();
    support::signal(program, rustix::process::Signal::KILL);
    let out = run(kasuri(dir.path()).args(["record", "-q", "-o", "next.kasuri", "--", "true"]));
    assert!(out.status.success(), "{}", said(&out));
    assert_eq!(probes_left(dir.path()), "");
    let out = run(kasuri(dir.path()).args(["recover", "dead.kasuri.d"]));
    assert!(out.status.success(), "{}", said(&out));
}

/// Claims about times, shares and races: each runs alone (`make test-measure`), on a quiet machine.
mod measured {
    use super::*;

    #[test]
    fn holds_of_ito_are_as_long_as_the_program_makes_them() {
        measure(|| with_own_locks(times_are_the_programs));
    }

    #[test]
    fn holds_of_a_static_program_are_as_long_as_it_makes_them() {
        if !can_trace() {
            return;
        }
        measure(|| {
            let dir = scratch();
            let program = compiled(dir.path(), "tests/locks/static.c", &["-static"]);
            let answer = locks(
                dir.path(),
                &["-o", "run.kasuri", "--lock-function", "turnstile_enter,turnstile_leave"],
                &[&program.display().to_string(), "40", "50"],
            );
            // 100 holds of 0.4 ms of CPU time. The waiter spins, so the ratio depends on what else runs.
            let held = answer["locks"][0]["hold_cpu_ns"].as_i64().unwrap();
            let least = match hides_switches(dir.path(), "run.kasuri") {
                true => 20_000_000,
                false => 40_000_000,
            };
            assert!((least..46_000_000).contains(&held), "{held}");
        });
    }
}
