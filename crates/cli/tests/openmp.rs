//! `kasuri record --openmp` end to end: a program whose regions, chunks and tasks are known, unmodified.
#[path = "record/support.rs"]
#[allow(dead_code, unused_imports)]
mod support;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{can_trace, kasuri, repository, run, said, scratch};

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
    (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        answers,
    )
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
    let [stat, locks] = &answers[..] else {
        panic!()
    };
    let count = |what: &str, n: u64| {
        let found = row(&stat["annotations"], what);
        assert_eq!(found["count"], n, "{what}");
        assert_eq!(found["threads"].as_u64().map(|n| n <= 2), Some(true));
    };
    count(&format!("parallel uneven:{}", line("region")), 20);
    count(
        &format!("barrier of parallel uneven:{}", line("region")),
        20,
    );
    count(&format!("for dynamic uneven:{}", line("loop")), 20);
    count(&format!("chunk uneven:{}", line("loop")), 80);
    count(&format!("barrier uneven:{}", line("barrier")), 20);
    count(&format!("parallel main:{}", line("tasks")), 2);
    count(&format!("task main:{}", line("task")), 8);

    let place = row(
        &stat["annotations"],
        &format!("parallel uneven:{}", line("region")),
    );
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
        assert_eq!(
            regions.count(),
            1,
            "{option}: {}",
            answers[0]["annotations"]
        );
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
