//! The price of looking: `kasuri overhead`, `kasuri events`, and what a recording says of its own cost.
//!
//! Times differ from run to run, so tests check structure and order: estimates lie in their intervals, cells are filled, the
//! cost is remembered, nothing stays switched on. Tests that need to trace print `skipped: why` where they may not.
use crate::support;
use crate::support::{SpawnGuarded, copy_program, instances_of, measure, skip, wait_until};
use rustix::process::Signal;
use serde_json::Value;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn may_trace() -> bool {
    kasuri_record::tracefs::Tracefs::open().is_ok()
}

fn scratch(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

/// A cache of these tests' own, in which what events cost is known: measured once for each build of the command, by the first test
/// process that comes.
fn cache() -> PathBuf {
    let kasuri = env!("CARGO_BIN_EXE_kasuri");
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("price-cache");
    let done = dir.join("x.kasuri");
    let made = |path: &Path| std::fs::metadata(path).and_then(|m| m.modified()).ok();
    let is_made = || made(&done) > made(Path::new(kasuri));
    kasuri_testkit::made_once(&dir, is_made, || {
        scratch("price-cache");
        let measured = Command::new(kasuri)
            .args(["record", "-q", "--syscalls", "-o", "x.kasuri", "--", "true"])
            .current_dir(&dir)
            .env("XDG_CACHE_HOME", &dir)
            .status();
        assert!(measured.unwrap().success());
    });
    dir
}

/// Nothing of the user who runs the tests is read.
fn kasuri(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kasuri"));
    command.current_dir(dir).env("XDG_CACHE_HOME", cache()).env("XDG_CONFIG_HOME", dir);
    command
}

fn json(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {said}"))
}

fn ordered(estimate: &Value) {
    let [low, median, high] = ["low", "median", "high"].map(|k| estimate[k].as_f64().unwrap());
    assert!(low <= median && median <= high, "{estimate}");
}

#[test]
fn overhead_interrupted_prints_what_it_has_and_leaves_nothing_on() {
    if !may_trace() {
        return skip("needs tracefs");
    }
    let dir = scratch("interrupted");
    // After a while, as soon as it traces. Whether a round is done by then depends on who has the CPUs: none is said, and is waited for
    // longer. Any other failure is one.
    for (signal, pause_s) in [(Signal::INT, 1), (Signal::KILL, 0)] {
        let interrupted = |pause_s| {
            let child = kasuri(&dir)
                .env("KASURI_SHM_DIR", &dir)
                .args(["overhead", "--rounds", "1000", "--config", "sched"])
                .args(["--op", "null call", "--json"])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn_guarded();
            let pid = child.id();
            wait_until("it traces", || !instances_of(pid).is_empty());
            std::thread::sleep(std::time::Duration::from_secs(pause_s));
            support::signal(pid, signal);
            (pid, child.wait_with_output())
        };
        let (mut pid, mut out) = interrupted(pause_s);
        if signal == Signal::INT {
            for pause_s in [4, 16, 60] {
                let said = String::from_utf8_lossy(&out.stderr);
                if !out.status.success() && said.trim_end().ends_with(": interrupted") {
                    (pid, out) = interrupted(pause_s);
                }
            }
            let result = json(&out);
            let rounds = result["rounds"].as_u64().unwrap();
            assert!((1..1000).contains(&rounds), "{rounds}");
            assert!(String::from_utf8_lossy(&out.stderr).contains("interrupted"));
        } else {
            // Nobody could clean up; the next command that traces does.
            let next = kasuri(&dir)
                .args(["events", "--look", "10ms", "sched:sched_switch", "--json"])
                .output()
                .unwrap();
            json(&next);
        }
        // Where two remove it at once, one may still be at it.
        wait_until("it is gone", || instances_of(pid).is_empty());
    }
}

#[test]
fn overhead_without_privileges_measures_annotations_and_names_the_rest() {
    if !rustix::process::geteuid().is_root() {
        return skip("needs root to become somebody else");
    }
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(dir.path(), Some(65534), Some(65534)).unwrap();
    let binary = dir.path().join("kasuri");
    copy_program(env!("CARGO_BIN_EXE_kasuri"), &binary);
    let out = Command::new(&binary)
        .args(["overhead", "--rounds", "2", "--config", "annotations,sched"])
        .args(["--op", "null call", "--json"])
        .uid(65534)
        .gid(65534)
        .current_dir(dir.path())
        .env("XDG_CACHE_HOME", dir.path())
        .output()
        .unwrap();
    let result = json(&out);
    let cells = &result["operations"][0]["cells"];
    assert!(cells[0].is_object() && cells[1].is_null(), "{cells}");
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(said.contains("no kernel events") && said.contains("root"), "{said}");
}

/// Without a home directory that can be written, the measurement is not repeated for every recording.
#[test]
fn costs_are_remembered_without_a_home() {
    if !rustix::process::geteuid().is_root() {
        return skip("needs root to become somebody else");
    }
    // Nobody else's number: what another program of this user remembered in /tmp would be found.
    let user = 3_000_000_000 + std::process::id();
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(dir.path(), Some(user), Some(user)).unwrap();
    // Not `kasuri`: that is the name of the directory that remembers.
    let binary = dir.path().join("program");
    copy_program(env!("CARGO_BIN_EXE_kasuri"), &binary);
    let said = |runtime: &std::path::Path| {
        let out = Command::new(&binary)
            .args(["record", "-o", "run.kasuri", "--no-kernel", "--", "true"])
            .uid(user)
            .gid(user)
            .current_dir(dir.path())
            .env_remove("XDG_CACHE_HOME")
            .env("HOME", "/nonexistent")
            .env("XDG_RUNTIME_DIR", runtime)
            .output()
            .unwrap();
        assert!(out.status.success());
        String::from_utf8_lossy(&out.stderr).into_owned()
    };
    let first = said(dir.path());
    assert!(first.contains("measuring what tracing costs"), "{first}");
    assert!(!first.contains("cannot be remembered"), "{first}");
    let second = said(dir.path());
    assert!(!second.contains("measuring"), "{second}");
}

/// In a network of its own, whose loopback is down, there is no TCP connection: that row is missing, with its reason, and no other.
#[test]
fn an_operation_that_cannot_be_run_is_named_and_the_others_are_measured() {
    if !may_trace() || !rustix::process::geteuid().is_root() {
        return skip("needs tracefs, and root for a network namespace");
    }
    let dir = scratch("no-network");
    let run = |arguments: &[&str]| {
        let out = Command::new("unshare")
            .args(["--net", env!("CARGO_BIN_EXE_kasuri")])
            .args(arguments)
            .current_dir(&dir)
            .env("XDG_CACHE_HOME", cache())
            .output()
            .unwrap();
        (json(&out), String::from_utf8_lossy(&out.stderr).into_owned())
    };
    let (result, said) = run(&[
        "overhead",
        "--json",
        "--rounds",
        "2",
        "--config",
        "sched",
        "--op",
        "null call,select TCP,stat",
    ]);
    let rows = result["operations"].as_array().unwrap().iter();
    let names: Vec<_> = rows.map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["null call", "stat"]);
    assert!(said.contains("select TCP: cannot be run here: "), "{said}");
    let look = ["events", "--json", "--look", "10ms"];
    let (result, said) = run(&[&look[..], &["raw_syscalls:sys_enter"]].concat());
    let odd = kasuri_testkit::schema::violations("events", &result);
    assert_eq!(odd, Vec::<String>::new());
    assert!(result["events"][0]["on_ns"].is_object(), "{result}");
    assert!(said.contains("select TCP cannot be run here"), "{said}");
    assert_eq!(result["missing"].as_array().unwrap().len(), 1);
}

/// A page with a dot for each cell, in the order of the table.
#[test]
fn overhead_draws_a_page_that_needs_nothing_else() {
    let dir = scratch("page");
    let out = kasuri(&dir)
        .args(["overhead", "--rounds", "3", "--config", "present,annotations"])
        .args(["--op", "null call,stat", "--html", "price.html"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success(), "{said}");
    let page = std::fs::read_to_string(dir.join("price.html")).unwrap();
    // `present` needs tracefs, annotations do not.
    let columns = if may_trace() { 2 } else { 1 };
    assert_eq!(page.matches("<circle").count(), 2 * columns, "{page}");
    assert!(!page.contains("<script") && !page.contains("src="));
}

/// A stand-in prints what LMbench prints; it also shows where it ran.
#[test]
fn overhead_runs_an_lmbench_and_names_what_that_lacks() {
    use std::os::unix::fs::PermissionsExt;
    let dir = scratch("lmbench");
    let bin = dir.join("lm/bin/any-os");
    std::fs::create_dir_all(&bin).unwrap();
    let program = bin.join("lat_syscall");
    let text = "#!/bin/sh\necho \"Simple syscall: 0.2500 microseconds\" >&2\n";
    std::fs::write(&program, text).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let run = |dir_of: &str, config: &str| {
        kasuri(&dir)
            .args(["overhead", "--rounds", "2", "--json", "--with-lmbench", dir_of])
            .args(["--op", "null call,pipe", "--also", "nothing=sleep 9"])
            .args(["--settle", "1", "--config", config])
            .output()
            .unwrap()
    };
    let result = json(&run("lm", "annotations"));
    assert_eq!(result["operations_of"], "lmbench");
    let rows = result["operations"].as_array().unwrap();
    assert_eq!((rows.len(), &rows[0]["name"]), (1, &Value::from("null call")));
    assert_eq!(rows[0]["untraced_ns"]["median"], 250.0);
    assert!(rows[0]["cells"][0].is_null());
    assert_eq!(rows[0]["cells"][1]["ratio"]["median"], 1.0);
    let missing = result["missing"].to_string();
    assert!(missing.contains("no lat_pipe") && missing.contains("annotate nothing"), "{missing}");
    let out = run("nowhere", "annotations");
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(!out.status.success() && said.contains("lat_syscall"), "{said}");
}

#[test]
fn one_cpu_is_enough_to_measure_on() {
    let dir = scratch("one-cpu");
    let allowed = kasuri_record::host::allowed_cpus()[0];
    let out = Command::new("taskset")
        .args(["-c", &allowed.to_string(), env!("CARGO_BIN_EXE_kasuri")])
        .args(["overhead", "--json", "--rounds", "2"])
        .args(["--config", "annotations", "--op", "null call,2p/0K"])
        .current_dir(&dir)
        .output()
        .unwrap();
    let result = json(&out);
    assert_eq!(result["cpu"], allowed);
    assert_eq!(result["operations"].as_array().unwrap().len(), 2);
}

#[test]
fn own_selections_are_recorded_and_mistakes_in_them_are_named() {
    let dir = scratch("selections");
    std::fs::create_dir_all(dir.join("kasuri")).unwrap();
    let file = dir.join("kasuri/selections");
    std::fs::write(&file, "# mine\nmine = irq, net:nonsense\nbroken\n").unwrap();
    let record = |events: &str| {
        let mut command = kasuri(&dir);
        command.args(["record", "-o", "run.kasuri", "--events", events, "--", "true"]);
        command.output().unwrap()
    };
    let out = record("mine");
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(said.contains("selections:3") && said.contains("broken"), "{said}");
    std::fs::write(&file, "mine = irq, net:nonsense\n").unwrap();
    if !may_trace() {
        return skip("needs tracefs");
    }
    let out = record("mine");
    assert!(out.status.success());
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(said.contains("no event net/nonsense"), "{said}");
}

#[test]
fn check_overhead_compares_pairs_of_runs() {
    let dir = scratch("pairs");
    let out = kasuri(&dir)
        .args(["record", "-q", "--check-overhead", "--repeat", "3", "-o", "run.kasuri", "--"])
        .args(["dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=200000", "status=none"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success(), "{said}");
    assert!(said.contains("slow-down in CPU time") && said.contains("median of 3 pairs"), "{said}");
    let failing = kasuri(&dir)
        .args(["record", "-q", "--check-overhead", "-o", "run.kasuri", "--", "false"])
        .output()
        .unwrap();
    assert_eq!(failing.status.code(), Some(1));
}

/// Claims about times, shares and races: each runs alone (`make test-measure`), on a quiet machine.
mod measured {
    use super::*;

    #[test]
    fn overhead_fills_every_cell_and_finds_what_a_system_call_event_costs() {
        if !may_trace() {
            return skip("needs tracefs");
        }
        measure(|| {
            let dir = scratch("overhead");
            let out = kasuri(&dir)
                .args(["overhead", "--json", "--rounds", "9"])
                .args(["--config", "present,annotations,syscalls"])
                .args(["--op", "null call,2p/0K,page fault"])
                .output()
                .unwrap();
            let result = json(&out);
            let odd = kasuri_testkit::schema::violations("overhead", &result);
            assert_eq!(odd, Vec::<String>::new());
            assert_eq!(result["missing"].as_array().unwrap().len(), 0);
            let rows = result["operations"].as_array().unwrap();
            assert_eq!(rows.len(), 3);
            for row in rows {
                let cells = row["cells"].as_array().unwrap();
                assert_eq!(cells.len(), 3);
                for cell in cells {
                    ordered(&cell["ratio"]);
                    ordered(&cell["added_ns"]);
                }
            }
            // Two events of some 100 ns each on a call of some 100 ns: three times the call on a quiet machine. Never nothing.
            let cost = &rows[0]["cells"][2]["added_ns"]["median"];
            assert!(cost.as_f64().unwrap() > 20.0, "{cost}");
        });
    }

    /// dd makes at least two system calls for each byte: so many events come, of so many bytes.
    #[test]
    fn volume_counts_what_each_selection_writes_while_a_program_runs() {
        if !may_trace() {
            return skip("needs tracefs");
        }
        const BYTES: u64 = 100_000;
        measure(|| {
            let dir = scratch("volume");
            let out = kasuri(&dir)
                .args([
                    "overhead",
                    "--volume",
                    "20s",
                    "--selection",
                    "timeline,syscalls",
                    "--json",
                    "--",
                ])
                .args(["dd", "if=/dev/zero", "of=/dev/null", "bs=1", "status=none"])
                .arg(format!("count={BYTES}"))
                .output()
                .unwrap();
            let result = json(&out);
            let odd = kasuri_testkit::schema::violations("volume", &result);
            assert_eq!(odd, Vec::<String>::new());
            let [timeline, syscalls] = &result["selections"].as_array().unwrap()[..] else {
                panic!("{result}");
            };
            let kind = |of: &Value, name: &str| {
                let kinds = of["kinds"].as_array().unwrap();
                kinds.iter().find(|k| k["name"] == name).cloned()
            };
            assert!(kind(timeline, "sched/sched_switch").is_some());
            assert!(kind(timeline, "raw_syscalls/sys_enter").is_none());
            let enter = kind(syscalls, "raw_syscalls/sys_enter").unwrap();
            assert!(enter["events"].as_u64().unwrap() >= 2 * BYTES, "{enter}");
            let cpus: u64 =
                (enter["cpu_bytes"].as_array().unwrap().iter()).map(|b| b.as_u64().unwrap()).sum();
            assert_eq!(enter["bytes"], cpus);
            for of in [timeline, syscalls] {
                assert!(of["seconds"].as_f64().unwrap() > 0.0, "{of}");
                assert_eq!(of["lost"], 0);
            }
            // A few dozen switches are less than a block's own table; a storm of system calls is not.
            let bytes = |key: &str| syscalls[key].as_u64().unwrap();
            assert!(10 * bytes("packed_bytes") < bytes("page_bytes"), "{syscalls}");
            let stale = std::fs::read_dir(&dir).unwrap().count();
            assert_eq!(stale, 0, "recordings are left");
        });
    }

    /// dd makes exactly two system calls for each byte it copies.
    #[test]
    fn events_finds_a_storm_of_system_calls() {
        if !may_trace() {
            return skip("needs tracefs");
        }
        measure(|| {
            let dir = scratch("storm");
            let out = kasuri(&dir)
                .args(["events", "raw_syscalls:sys_enter", "--json", "--look", "500ms", "--"])
                .args(["dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=1000000000"])
                .output()
                .unwrap();
            let result = json(&out);
            let event = &result["events"][0];
            assert_eq!(event["name"], "raw_syscalls/sys_enter");
            let rate = event["per_second"].as_f64().unwrap();
            assert!(
                rate > 2_000.0,
                "a system call of dd takes some microsecond, and others have most of the CPUs' time; not {rate} a second"
            );
            ordered(&event["on_ns"]);
            ordered(&event["filtered_ns"]);
            assert!(event["hits_per_operation"].as_f64().unwrap() >= 1.0, "{event}");
        });
    }

    #[test]
    fn a_recording_counts_its_own_events_and_prices_them() {
        if !may_trace() {
            return skip("needs tracefs");
        }
        const BYTES: u64 = 20_000;
        measure(|| {
            let dir = scratch("self-accounting");
            let status = kasuri(&dir)
                .args(["record", "-q", "--syscalls", "-o", "run.kasuri", "--"])
                .args(["dd", "if=/dev/zero", "of=/dev/null", "bs=1"])
                .arg(format!("count={BYTES}"))
                .stderr(Stdio::null())
                .status()
                .unwrap();
            assert!(status.success());
            let summary =
                json(&kasuri(&dir).args(["stat", "--json", "run.kasuri"]).output().unwrap());
            let tracing = &summary["tracing"];
            let kind = |name: &str| {
                let events = tracing["events"].as_array().unwrap();
                events.iter().find(|e| e["name"] == name).unwrap().clone()
            };
            for name in ["raw_syscalls/sys_enter", "raw_syscalls/sys_exit"] {
                let n = kind(name)["count"].as_u64().unwrap();
                assert!(n >= 2 * BYTES, "{name}: {n}");
                assert_eq!(kind(name)["guessed"], false);
            }
            let sum: i64 = tracing["events"]
                .as_array()
                .unwrap()
                .iter()
                .map(|e| e["cost_ns"].as_i64().unwrap())
                .sum();
            let total = tracing["cost_ns"].as_i64().unwrap();
            assert!((sum - total).abs() <= 20, "{sum} {total}");
            assert!(tracing["share"].as_f64().unwrap() > 0.0);
        });
    }

    /// dd makes millions of system calls in a second; tracing each would more than double its time.
    #[test]
    fn a_budget_switches_off_what_costs_most_and_says_so() {
        if !may_trace() {
            return skip("needs tracefs");
        }
        measure(|| {
            let dir = scratch("budget");
            let out = kasuri(&dir)
                .args(["record", "--budget", "2%", "--syscalls", "-o", "run.kasuri", "--"])
                .args(["dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=4000000"])
                .output()
                .unwrap();
            assert!(out.status.success());
            let said = String::from_utf8_lossy(&out.stderr).into_owned();
            assert!(said.contains("to keep the budget"), "{said}");
            let summary =
                json(&kasuri(&dir).args(["stat", "--json", "run.kasuri"]).output().unwrap());
            let missing = summary["missing"].to_string();
            assert!(missing.contains("raw_syscalls/sys_enter was off"), "{missing}");
            // Without a budget more than half of its time. What a busy machine adds until the first look is allowed for.
            let share = summary["tracing"]["share"].as_f64().unwrap();
            assert!(share < 0.05, "{share}");
            let text = kasuri(&dir).args(["stat", "-v", "run.kasuri"]).output().unwrap();
            let text = String::from_utf8_lossy(&text.stdout).into_owned();
            assert!(text.contains("keep the budget of 2 %"), "{text}");
        });
    }
}
