//! `kasuri record --itt` and `--nvtx` end to end: a program that is annotated for other tools, with known numbers of slices and marks.
use crate::support;
use crate::support::{compile, kasuri, repository, run, said, scratch};
use serde_json::Value;
use std::process::Output;

/// The collector's library; else says why not.
fn can_collect() -> bool {
    let built = repository().join("build/probes/collector/libkasuri-collector.so");
    if !built.exists() {
        support::skip("the collector is not built: make c");
    }
    built.exists()
}

/// Records the program with these options; what that printed, and the numbers of slices and instants in the recording.
fn recorded(options: &[&str], variable: Option<(&str, &str)>) -> (Output, [u64; 2]) {
    let dir = scratch();
    let mut record = kasuri(dir.path());
    record.args(["record", "-o", "run.kasuri"]).args(options);
    record.arg("--").arg(compile("tests/collector/annotated.c"));
    record.envs(variable);
    let output = run(&mut record);
    assert!(output.status.success(), "{}", said(&output));
    let info = run(kasuri(dir.path()).args(["info", "--json", "run.kasuri"]));
    let info: Value = serde_json::from_slice(&info.stdout).expect("JSON");
    let rows = info["rows"].as_array().expect("rows");
    let rows = |name: &str| {
        let row = rows.iter().find(|row| row["name"] == name);
        row.map_or(0, |row| row["count"].as_u64().expect("a count"))
    };
    (output, [rows("slices of work"), rows("instants")])
}

#[test]
fn annotations_for_other_tools_are_recorded_where_asked_for() {
    if !can_collect() {
        return;
    }
    let of = |options: &[&str]| {
        let (output, rows) = recorded(options, None);
        (String::from_utf8_lossy(&output.stdout).trim().to_owned(), rows)
    };
    assert_eq!(of(&["--itt", "--nvtx"]), ("2".into(), [20, 10]));
    assert_eq!(of(&["--itt"]), ("1".into(), [20, 0]));
    assert_eq!(of(&["--nvtx"]), ("1".into(), [0, 10]));
    assert_eq!(of(&[]), ("0".into(), [0, 0]));
}

#[test]
fn another_tool_is_left_alone() {
    if !can_collect() {
        return;
    }
    let other = ("INTEL_LIBITTNOTIFY64", "/nowhere/libother.so");
    let (output, rows) = recorded(&["--itt", "--nvtx"], Some(other));
    assert_eq!(rows, [0, 10]);
    let text = said(&output);
    assert!(text.contains("names another tool already") && text.contains("libother.so"), "{text}");
}
