//! `kasuri record --openmp` end to end: a program whose regions, chunks and tasks are known, unmodified.
use crate::support;
use crate::support::{can_trace, kasuri, measure, repository, run, said, scratch};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The probe's library, and a compiler with OpenMP; else says why not.
fn can_probe() -> bool {
    let built = repository().join("build/probes/openmp/libkasuri-openmp.so");
    if !built.exists() {
        support::skip("the OpenMP probe is not built: make c");
    }
    built.exists() && can_trace()
}

/// tests/openmp/parts.c, compiled by gcc with these options.
fn parts(dir: &Path, options: &[&str]) -> PathBuf {
    let program = dir.join("parts");
    let compiled = Command::new("gcc")
        .args(["-std=gnu11", "-O2", "-fopenmp"])
        .args(options)
        .arg(repository().join("tests/openmp/parts.c"))
        .arg("-o")
        .arg(&program)
        .status()
        .expect("gcc runs");
    assert!(compiled.success());
    program
}

/// The line that a comment in parts.c marks.
fn line(mark: &str) -> usize {
    let source = std::fs::read_to_string(repository().join("tests/openmp/parts.c")).unwrap();
    let mark = format!("/* line: {mark} */");
    1 + source.lines().position(|l| l.contains(&mark)).expect(&mark)
}

/// Records the program; what it printed, and what `command --json` says of the recording.
fn recorded(dir: &Path, program: &Path, commands: &[&str]) -> (String, Vec<Value>) {
    let mut record = kasuri(dir);
    record.args(["record", "-q", "--openmp", "-o", "run.kasuri", "--"]);
    let output = run(record.arg(program));
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    let answers = commands.iter().map(|command| {
        let output = run(kasuri(dir).args([command, "--json", "--top", "0", "run.kasuri"]));
        assert!(output.status.success(), "{}", said(&output));
        serde_json::from_slice(&output.stdout).expect("JSON")
    });
    let answers = answers.collect();
    (String::from_utf8_lossy(&output.stdout).into_owned(), answers)
}

fn row<'v>(table: &'v Value, name: &str) -> &'v Value {
    let rows = table.as_array().expect("a table");
    let found = rows.iter().find(|row| row["name"] == name);
    found.unwrap_or_else(|| {
        let names: Vec<&Value> = rows.iter().map(|row| &row["name"]).collect();
        panic!("no `{name}` in {names:?}")
    })
}

#[test]
fn constructs_of_an_unmodified_program_have_function_and_line() {
    if !can_probe() {
        return;
    }
    let dir = scratch();
    let program = parts(dir.path(), &["-g"]);
    let alone = Command::new(&program).output().unwrap();
    let (said, answers) = recorded(dir.path(), &program, &["stat", "locks"]);
    assert_eq!(said, String::from_utf8_lossy(&alone.stdout));
    let [stat, locks] = &answers[..] else { panic!() };
    let count = |what: &str, n: u64| {
        let found = row(&stat["annotations"], what);
        assert_eq!(found["count"], n, "{what}");
        assert_eq!(found["threads"].as_u64().map(|n| n <= 2), Some(true));
    };
    count(&format!("parallel uneven:{}", line("region")), 20);
    count(&format!("barrier of parallel uneven:{}", line("region")), 20);
    count(&format!("for dynamic uneven:{}", line("loop")), 20);
    count(&format!("chunk uneven:{}", line("loop")), 80);
    count(&format!("barrier uneven:{}", line("barrier")), 20);
    count(&format!("parallel main:{}", line("tasks")), 2);
    count(&format!("task main:{}", line("task")), 8);

    let region = row(&stat["openmp"]["regions"], &format!("parallel uneven:{}", line("region")));
    assert_eq!((&region["count"], &region["threads"]), (&10.into(), &2.into()));
    let dynamic = row(&stat["openmp"]["loops"], &format!("for dynamic uneven:{}", line("loop")));
    assert_eq!(dynamic["region"], region["name"]);
    assert_eq!((&dynamic["count"], &dynamic["chunks"]), (&10.into(), &80.into()));

    let place = row(&stat["annotations"], &format!("parallel uneven:{}", line("region")));
    let place = place["place"].as_str().unwrap();
    let expected = format!("tests/openmp/parts.c:{}", line("region"));
    assert!(place.ends_with(&expected), "{place}");
    let total = row(&locks["locks"], "critical total");
    assert_eq!(total["holds"], 20);
}

#[test]
fn without_debug_information_there_are_functions_and_without_symbols_offsets() {
    if !can_probe() {
        return;
    }
    for (option, begins) in [("-g0", "parallel uneven"), ("-s", "parallel parts+0x")] {
        let dir = scratch();
        let program = parts(dir.path(), &[option]);
        let (_, answers) = recorded(dir.path(), &program, &["stat"]);
        let rows = answers[0]["annotations"].as_array().unwrap().iter();
        let regions = rows.filter(|row| {
            let name = row["name"].as_str().unwrap();
            name.starts_with(begins) && !name.contains(':') && row["count"] == 20
        });
        assert_eq!(regions.count(), 1, "{option}: {}", answers[0]["annotations"]);
    }
}

#[test]
fn a_static_program_says_that_its_runtime_cannot_be_seen() {
    if !can_probe() {
        return;
    }
    let dir = scratch();
    let program = parts(dir.path(), &["-static"]);
    let (_, answers) = recorded(dir.path(), &program, &["stat"]);
    let missing = answers[0]["missing"].to_string();
    assert!(missing.contains("statically linked"), "{missing}");
}

/// Claims about times, shares and races: each runs alone (`make test-measure`), on a quiet machine.
mod measured {
    use super::*;

    /// Every other iteration is 99 times as long, and one thread has them all: half of each is half of the time.
    #[test]
    fn a_loop_that_another_schedule_halves_says_so() {
        if !can_probe() {
            return;
        }
        if std::thread::available_parallelism().is_ok_and(|n| n.get() < 2) {
            return kasuri_testkit::skip_for(kasuri_testkit::Need::Machine, "needs two CPUs");
        }
        measure(|| {
            for compiler in ["gcc", "clang"] {
                let dir = scratch();
                let program = dir.path().join("schedules");
                let compiled = Command::new(compiler)
                    .args(["-O2", "-g", "-fopenmp"])
                    .arg(repository().join("bench/openmp/schedules.c"))
                    .arg("-o")
                    .arg(&program)
                    .status();
                if !compiled.is_ok_and(|status| status.success()) {
                    support::skip(&format!("{compiler} has no OpenMP"));
                    continue;
                }
                let recorded = || {
                    let mut record = kasuri(dir.path());
                    record.args(["record", "-q", "--openmp", "-o", "run.kasuri", "--"]);
                    record.arg(&program).args(["every-other", "20"]);
                    record.env("OMP_SCHEDULE", "static,1").env("OMP_NUM_THREADS", "2");
                    let output = run(&mut record);
                    assert!(output.status.success(), "{}", said(&output));
                    let output = run(kasuri(dir.path()).args(["stat", "--json", "run.kasuri"]));
                    let stat: Value = serde_json::from_slice(&output.stdout).expect("JSON");
                    stat["openmp"]["loops"][0].clone()
                };
                // A host that takes a CPU away between a loop and its barrier, three times of twenty, looks like work there.
                let row = recorded();
                assert_ne!(row["refused"], "no barrier follows");
                assert_eq!((&row["count"], &row["iterations"]), (&20.into(), &40960.into()));
                let best = &row["schedules"][0];
                let ns = |key: &str| best[key].as_f64().unwrap_or(0.0);
                let saves = ns("saves_ns") / (ns("saves_ns") + ns("wall_ns"));
                // What recording adds to the short iterations makes the saving look smaller.
                assert!((0.3..0.55).contains(&saves), "{compiler}: {row}");
                let text =
                    run(kasuri(dir.path()).args(["stat", "--section", "openmp", "run.kasuri"]));
                let text = String::from_utf8_lossy(&text.stdout).into_owned();
                assert!(text.contains("would save"), "{text}");
                assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
            }
        });
    }
}
