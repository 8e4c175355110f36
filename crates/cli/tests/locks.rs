//! `kasuri locks` and `kasuri predict` end to end: a program whose use of locks is known, under the lock probe.
use crate::support;
use crate::support::{can_trace, compile, kasuri, measure, repository, run, said, scratch};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn workers() -> String {
    compile("tests/locks/workers.c").display().to_string()
}

/// The probe's library, and the right to see threads run; else says why not.
fn can_probe() -> bool {
    let built = repository().join("build/probes/lock/libkasuri-lock.so");
    if !built.exists() {
        support::skip("the lock probe is not built: make c");
        return false;
    }
    can_trace()
}

fn two_cpus() -> bool {
    let enough = kasuri_record::host::allowed_cpus().len() > 1;
    if !enough {
        support::skip("needs two CPUs");
    }
    enough
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", said(output));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", said(output)))
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", said(output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn row<'v>(table: &'v Value, name: &str) -> &'v Value {
    let rows = table.as_array().expect("a table");
    let found = rows.iter().find(|row| row["name"] == name);
    found.unwrap_or_else(|| panic!("no `{name}` in {table}"))
}

fn locks(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = kasuri(dir);
    command.arg("locks").args(arguments);
    command
}

#[test]
fn locks_of_a_program_that_runs_now_are_all_counted() {
    if !can_probe() {
        return;
    }
    let (dir, workers) = (scratch(), workers());
    let out = run(locks(dir.path(), &["--json", "-o", "run.kasuri", "--"])
        .args([&workers, "ratio", "30", "100"]));
    assert!(said(&out).contains("done"), "the program's output: {}", said(&out));
    let answer = json(&out);
    assert_eq!(answer["schema"], "kasuri.locks/1");
    let shared = row(&answer["locks"], "shared");
    let ratio = shared["lock_ratio"].as_f64().unwrap();
    // What it is is measured (below).
    assert!(0.0 < ratio && ratio <= 1.0, "{ratio}");
    assert_eq!((&shared["holds"], &shared["threads"]), (&200.into(), &2.into()));
    // The table of the kept recording says the same.
    let table = text(&run(&mut locks(dir.path(), &["run.kasuri"])));
    assert!(table.contains("shared") && table.contains("LOCK RATIO"), "{table}");
    let again = json(&run(&mut locks(dir.path(), &["--json", "run.kasuri"])));
    assert_eq!(again["locks"], answer["locks"]);
    // Each is in one part of it, or cut in two.
    let holds = |range: &str| {
        let part = json(&run(&mut locks(dir.path(), &["--json", "--range", range, "run.kasuri"])));
        let rows = part["locks"].as_array().unwrap();
        rows.iter()
            .find(|row| row["name"] == "shared")
            .map_or(0, |row| row["holds"].as_u64().unwrap())
    };
    let (first, second) = (holds("..50%"), holds("50%.."));
    assert!((200..=202).contains(&(first + second)), "{first} and {second}");
    // The tabs of the report.
    let out = run(kasuri(dir.path()).args(["report", "run.kasuri", "-o", "run.html"]));
    assert!(out.status.success(), "{}", said(&out));
}

#[test]
fn futex_waits_that_no_probe_sees_are_said() {
    if !can_probe() {
        return;
    }
    let (dir, workers) = (scratch(), workers());
    // Without the probe, the nap is a sleep in a futex call. It takes 60 ms, however busy the machine is, or more.
    let out = run(kasuri(dir.path())
        .args(["record", "-q", "--syscalls", "-o", "run.kasuri", "--"])
        .args([&workers, "asleep"]));
    assert!(out.status.success(), "{}", said(&out));
    let answer = json(&run(&mut locks(dir.path(), &["--json", "run.kasuri"])));
    assert!(answer["unseen_futex_ns"].as_i64().unwrap() > 40_000_000, "{answer}");
    assert_eq!(answer["locks"], Value::Array(vec![]));
    let table = text(&run(&mut locks(dir.path(), &["run.kasuri"])));
    assert!(table.contains("unrecorded") && table.contains("futex"), "{table}");
}

#[test]
fn locks_say_which_orders_cross() {
    if !can_probe() {
        return;
    }
    let (dir, workers) = (scratch(), workers());
    let answer = json(&run(locks(dir.path(), &["--json", "--"]).args([&workers, "orders"])));
    let crossing = &answer["inversions"][0];
    let mut names = [&crossing["first"], &crossing["second"]].map(|n| n.as_str().unwrap());
    names.sort_unstable();
    assert_eq!(names, ["left", "right"]);
    assert_ne!(crossing["tid_a"], crossing["tid_b"]);
}

fn predict(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = kasuri(dir);
    command.arg("predict").args(arguments);
    command
}

/// What parallel work costs is measured before a recording and lies in it: nothing is measured at a read, and the answers to one
/// file are one answer.
#[test]
fn answers_of_a_file_are_the_same_at_each_read() {
    if !can_probe() || !two_cpus() {
        return;
    }
    let (dir, workers) = (scratch(), workers());
    let made = json(&run(predict(dir.path(), &["--json", "-o", "one.kasuri", "--"])
        .args([&workers, "ratio", "60", "50"])));
    assert_eq!(made["machine"]["is_measured"], true, "{made}");
    for command in ["predict", "locks"] {
        let read = || run(kasuri(dir.path()).args([command, "--json", "one.kasuri"]));
        let (first, again) = (read(), read());
        let answer = json(&first);
        assert!(first.stdout == again.stdout, "{command}: {answer}\n{}", json(&again));
        if command == "predict" {
            assert_eq!(answer["machine"], made["machine"], "the recording's");
        }
    }
}

/// A recording of another machine that does not say what parallel work costs there: what it costs here says nothing.
#[test]
fn a_recording_of_another_machine_without_its_costs_gets_assumed_ones() {
    let dir = scratch();
    let file = repository().join("tests/golden/kasuri/locks.kasuri");
    let answer = json(&run(predict(dir.path(), &["--json"]).arg(file)));
    assert_eq!(answer["machine"]["is_measured"], false, "{answer}");
}

/// A prediction with a second run finds two CPUs, and sections as long on two as on one: they are as long as the CPU clock says. A busy
/// machine takes CPUs away, or time that its kernel does not report.
fn second_run_finds_equal_sections(dir: &Path, workers: &str) {
    let mut command = predict(dir, &["--json", "--cpus", "2,8"]);
    command.args(["--second-run", "-o", "one.kasuri", "--"]);
    let answer = json(&run(command.arg(workers).args(["ratio", "60", "150"])));
    assert_eq!(answer["measured"][0]["cpus"], 2, "{answer}");
    let inflation = row(&answer["locks"], "shared")["inflation"].as_f64();
    let inflation = inflation.unwrap();
    assert!((inflation - 1.0).abs() < 0.2, "{inflation}");
}

/// Claims about times, shares and races: each runs alone (`make test-measure`), on a quiet machine.
mod measured {
    use super::*;

    #[test]
    fn the_lock_ratio_is_that_of_the_program() {
        if !can_probe() {
            return;
        }
        measure(|| {
            let (dir, workers) = (scratch(), workers());
            let mut command = locks(dir.path(), &["--json", "--"]);
            let answer = json(&run(command.args([&workers, "ratio", "30", "100"])));
            let ratio = row(&answer["locks"], "shared")["lock_ratio"].as_f64();
            let ratio = ratio.unwrap();
            assert!((ratio - 0.3).abs() < 0.02, "{ratio}");
        });
    }

    #[test]
    fn locks_with_system_calls_cover_the_tree_of_processes() {
        if !can_probe() {
            return;
        }
        measure(|| {
            let (dir, workers) = (scratch(), workers());
            let script = format!("{workers} asleep; {workers} orders; true");
            let out =
                run(locks(dir.path(), &["--json", "--syscalls", "--", "sh", "-c"]).arg(&script));
            let answer = json(&out);
            let calls = answer["syscalls"].as_array().unwrap();
            let of = |name: &str| calls.iter().filter(|c| c["name"] == name).collect::<Vec<_>>();
            // Both children sleep on futexes, the shell waits for them.
            assert!(
                of("futex")
                    .iter()
                    .map(|c| &c["pid"])
                    .collect::<std::collections::HashSet<_>>()
                    .len()
                    >= 2,
                "{calls:?}"
            );
            let wait = of("wait4");
            assert!(
                wait.iter().any(|c| {
                    let [wall, cpu] = ["wall_ns", "cpu_ns"].map(|key| c[key].as_i64().unwrap());
                    wall > 40_000_000 && cpu < wall / 2
                }),
                "{calls:?}"
            );
            // All these futexes are of locks and joins that the probe saw.
            let unseen = answer["unseen_futex_ns"].as_i64().unwrap();
            assert!(unseen < 20_000_000, "{unseen}");
        });
    }

    #[test]
    fn prediction_knows_the_class_of_known_programs() {
        if !can_probe() {
            return;
        }
        measure(|| {
            let (dir, workers) = (scratch(), workers());
            for (percent, class) in [("1", "low"), ("85", "high")] {
                let mut command = predict(dir.path(), &["--json", "-o", "one.kasuri", "--"]);
                let answer = json(&run(command.args([&workers, "ratio", percent, "150"])));
                assert_eq!(answer["class"], class, "{percent} %: {answer}");
                assert_eq!(answer["recorded_cpus"], 1);
                let ratio = answer["lock_ratio"].as_f64().unwrap();
                let want = percent.parse::<f64>().unwrap() / 100.0;
                assert!((ratio - want).abs() < 0.03, "{ratio}, not {want}");
                let points = answer["points"].as_array().unwrap();
                for point in points {
                    let [low, speedup, high] =
                        ["low", "speedup", "high"].map(|key| point[key].as_f64().unwrap());
                    assert!(low <= speedup && speedup <= high.max(speedup), "{point}");
                    // One section at a time: that bounds any number of CPUs.
                    assert!(speedup < 1.05 / want.max(0.5), "{percent} %: {point}");
                }
                // The same from the file, and `locks` has the same class.
                let said = json(&run(&mut locks(dir.path(), &["--json", "one.kasuri"])));
                assert_eq!(said["class"], class);
            }
            let answer =
                json(&run(&mut predict(dir.path(), &["--json", "--cpus", "4,2", "one.kasuri"])));
            let cpus: Vec<_> =
                answer["points"].as_array().unwrap().iter().map(|p| &p["cpus"]).collect();
            assert_eq!(cpus, [&Value::from(2), &Value::from(4)]);
            let changes = answer["what_if"].as_array().unwrap();
            let of = |what: &str| {
                let found = changes.iter().find(|c| c["change"].as_str().unwrap().contains(what));
                found.unwrap_or_else(|| panic!("no {what}: {changes:?}"))["speedup"][0]
                    .as_f64()
                    .unwrap()
            };
            // Without the lock that is held 85 % of the time two threads are nearly twice as fast.
            assert!(
                of("removed") > 1.3 * answer["points"][0]["speedup"].as_f64().unwrap(),
                "{changes:?}"
            );
            assert!(of("half as long") > 1.2, "{changes:?}");

            let out = run(&mut predict(dir.path(), &["--svg", "curve.svg", "one.kasuri"]));
            let table = text(&out);
            assert!(table.contains("SPEED-UP") && table.contains("shared"), "{table}");
            let svg = std::fs::read_to_string(dir.path().join("curve.svg")).unwrap();
            assert!(svg.starts_with("<svg") && svg.contains("ideal"), "{svg}");
            // The costs of another machine, as that machine's answer has them.
            std::fs::write(dir.path().join("there.json"), answer.to_string()).unwrap();
            let there = json(&run(&mut predict(
                dir.path(),
                &["--json", "--machine", "there.json", "one.kasuri"],
            )));
            assert_eq!(there["machine"], answer["machine"]);
            let out = run(&mut predict(dir.path(), &["--machine", "curve.svg", "one.kasuri"]));
            assert!(
                !out.status.success() && said(&out).contains("kasuri predict --json"),
                "{}",
                said(&out)
            );
        });
    }

    #[test]
    fn prediction_learns_from_a_second_run() {
        if !can_probe() || !two_cpus() {
            return;
        }
        measure(|| {
            let (dir, workers) = (scratch(), workers());
            second_run_finds_equal_sections(dir.path(), &workers);
            // The first run is the one that is kept; it is still one of one CPU.
            let kept =
                json(&run(&mut predict(dir.path(), &["--json", "--cpus", "2", "one.kasuri"])));
            assert_eq!(kept["recorded_cpus"], 1);
            assert_eq!(kept["measured"], Value::Array(vec![]));
            // A recording of two CPUs that exists.
            let out = run(kasuri(dir.path())
                .args(["record", "-q", "--locks", "-o", "two.kasuri", "--"])
                .args([&workers, "ratio", "60", "150"]));
            assert!(out.status.success(), "{}", said(&out));
            let arguments = ["--json", "--second", "two.kasuri", "one.kasuri"];
            let measured = &json(&run(&mut predict(dir.path(), &arguments)))["measured"][0];
            assert!(measured["speedup"].as_f64() > Some(0.5), "{measured}");
            let out = run(&mut predict(dir.path(), &["--second-run", "one.kasuri"]));
            assert!(!out.status.success() && said(&out).contains("PROGRAM"), "{}", said(&out));
        });
    }

    /// CPython waits for its global lock with a time limit of 5 ms, again and again. Under the probe that is a lock with a
    /// name. Without it the wait looks like a sleep, and the account says no more.
    #[test]
    fn pythons_gil_has_a_name_under_the_probe() {
        if !can_probe() || !two_cpus() {
            return;
        }
        let python = "/usr/bin/python3";
        let dynamic = Command::new("nm").args(["-D", python]).output();
        let has_symbol =
            |out: &Output| String::from_utf8_lossy(&out.stdout).contains(" _PyRuntime\n");
        if !dynamic.as_ref().is_ok_and(has_symbol) {
            return support::skip("no python3 with the symbol _PyRuntime");
        }
        measure(|| {
            let dir = scratch();
            let code = "import threading\n\
                def work():\n\
                \x20   x = 0\n\
                \x20   for i in range(1500000): x += i * i\n\
                ts = [threading.Thread(target=work) for _ in range(2)]\n\
                [t.start() for t in ts]; [t.join() for t in ts]\n";
            let record = |name: &str, options: &[&str]| {
                let path = dir.path().join(name);
                let mut command = kasuri(dir.path());
                command.args(["record", "-q"]).args(options).arg("-o").arg(&path);
                let done = run(command.args(["--", python, "-c", code]));
                assert!(done.status.success(), "{}", said(&done));
                path
            };
            let with = record("with.kasuri", &["--locks"]);
            let summary = json(&run(kasuri(dir.path()).args(["stat", "--json"]).arg(&with)));
            let waits = summary["waits"].as_array().expect("waits");
            let gil: Vec<&Value> =
                (waits.iter()).filter(|w| w["name"] == "GIL (_PyRuntime)").collect();
            assert_eq!(gil.len(), 1, "{waits:?}");
            assert_eq!(gil[0]["kind"], "lock_wait");
            assert!(gil[0]["threads"].as_i64() >= Some(2), "{gil:?}");
            // Each worker's own time: it waited for a lock, and slept for nothing else.
            let workers = summary["account"]["threads"].as_array().expect("threads");
            let of = |t: &Value, class: &str| {
                let classes = t["classes"].as_array().expect("classes");
                (classes.iter().find(|c| c["class"] == class))
                    .map_or(0, |c| c["ns"].as_i64().unwrap_or(0))
            };
            let waited: i64 = workers.iter().map(|t| of(t, "lock_wait")).sum();
            assert!(waited > 10_000_000, "{workers:?}");
            // The holder is not recorded, so nothing can be predicted for more CPUs.
            let answer = json(&run(kasuri(dir.path()).args(["locks", "--json"]).arg(&with)));
            assert!(answer["class"].is_null() && answer["cap"].is_null(), "{answer}");
            let page = text(&run(kasuri(dir.path()).arg("locks").arg(&with)));
            assert!(page.contains("not known: threads wait for `GIL (_PyRuntime)`"), "{page}");
            let refused = run(kasuri(dir.path()).arg("predict").arg(&with));
            let reason = String::from_utf8_lossy(&refused.stderr).into_owned();
            assert!(!refused.status.success(), "{reason}");
            assert!(
                reason.contains("cannot predict: threads wait for `GIL (_PyRuntime)`"),
                "{reason}"
            );
            let without = record("without.kasuri", &[]);
            let page =
                text(&run(kasuri(dir.path()).arg("stat").arg(&without).env("COLUMNS", "250")));
            assert!(!page.contains("to a timer, a device or the network"), "{page}");
        });
    }

    #[test]
    fn locks_say_what_the_holder_did() {
        if !can_probe() {
            return;
        }
        measure(|| {
            let (dir, workers) = (scratch(), workers());
            let answer =
                json(&run(locks(dir.path(), &["--json", "--"]).args([&workers, "asleep"])));
            let napping = row(&answer["locks"], "napping");
            let [waited, blocked] =
                ["wait_ns", "holder_blocked_ns"].map(|key| napping[key].as_i64().unwrap());
            assert!(waited > 40_000_000 && blocked * 10 > waited * 8, "{napping}");
            let path = napping["path_share"].as_f64().unwrap();
            assert!(path > 0.3, "the nap is what the run waits for: {path}");
            let edge = &answer["waits_for"][0];
            assert_eq!(edge["lock"], "napping");
            assert_ne!(edge["waiter_tid"], edge["holder_tid"]);
            let table = text(&run(locks(dir.path(), &["--"]).args([&workers, "asleep"])));
            assert!(table.contains("its holders sleep while others wait"), "{table}");
        });
    }
}
