//! `kasuri try` from outside: what it finds, what it refuses to find, and what it leaves behind.
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use unicode_width::UnicodeWidthStr;

fn command(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kasuri"));
    command
        .arg("try")
        .args(words)
        .stdin(Stdio::null())
        .env("COLUMNS", "80");
    command
}

fn run(words: &[&str]) -> Output {
    command(words).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Numbers that are told instead of measured do not depend on the machine.
const TOLD: [&str; 4] = ["-q", "--only", "--metric", "[0-9]+"];

#[test]
fn the_best_arm_is_claimed_with_the_line_to_paste() {
    let arms = [
        "--arm",
        "half=echo 50",
        "--arm",
        "third=echo 66 # a shell's comment",
        "--arm",
        "twice=echo 200",
        "--arm",
        "same=echo 100",
        "--arm",
        "broken=sh -c 'echo 1; echo why >&2; exit 4'",
    ];
    // Each prints another number: --check true says that all are right.
    let words = [
        &TOLD[..],
        &["--check", "true"],
        &arms,
        &["--", "echo", "100"],
    ]
    .concat();
    let told = run(&words);
    let page = text(&told.stdout);
    assert_eq!(told.status.code(), Some(0), "{}", text(&told.stderr));
    assert!(
        page.starts_with("half: 2.00x better (2.00..2.00, 12 blocks, p 0.002)\n\n  echo 50\n\n"),
        "{page}"
    );
    for needed in [
        "others: 1 behind the best, 2 with no speed-up shown, 1 not valid",
        "baseline against itself: 1.00x (1.00..1.00)",
        "failed with status 4",
    ] {
        assert!(page.contains(needed), "{needed}: {page}");
    }
    assert!(page.lines().all(|line| line.width() <= 80), "{page}");
}

#[test]
fn an_arm_with_another_result_is_no_remedy() {
    // Far faster, and wrong.
    let told = run(&[
        "-q",
        "--json",
        "--only",
        "--blocks",
        "12",
        "--arm",
        "wrong=echo no",
        "--",
        "sh",
        "-c",
        "sleep 0.02; echo yes",
    ]);
    let json: Value = serde_json::from_slice(&told.stdout).unwrap();
    assert_eq!(
        (&json["schema"], &json["best"]),
        (&"kasuri.try/1".into(), &Value::Null)
    );
    assert_eq!(json["arms"][2]["verdict"], "not_valid");
    assert!(
        json["arms"][2]["reason"]
            .as_str()
            .unwrap()
            .contains("stdout differs"),
        "{json}"
    );
    assert_eq!(json["results_compared"], true);
}

#[test]
fn what_cannot_be_tried_is_an_error_that_says_why() {
    for (words, code, needed) in [
        (
            &["-q", "--", "sh", "-c", "exit 5"][..],
            1,
            "failed with status 5",
        ),
        (&["-q", "--", "/nowhere/x"], 1, "cannot run /nowhere/x"),
        (&["-q", "--only", "--", "true"], 2, "--arm"),
        (&["-q", "--arm", "x", "--", "true"], 1, "needed NAME=CMD"),
        (
            &["-q", "--threads", "4", "--", "true"],
            1,
            "no {} that stands for it",
        ),
        (&["-q"], 2, "PROGRAM"),
    ] {
        let told = run(words);
        let message = text(&told.stderr);
        assert_eq!(told.status.code(), Some(code), "{words:?}: {message}");
        assert!(message.contains(needed), "{words:?}: {message}");
    }
}

#[test]
fn ctrl_c_leaves_the_answer_so_far_and_no_process() {
    let words = [
        "--only",
        "--blocks",
        "1000",
        "--arm",
        "fast=sleep 0.011",
        "--",
        "sleep",
        "0.0333",
    ];
    let child = command(&words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_secs(5));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let told = child.wait_with_output().unwrap();
    let page = text(&told.stdout);
    assert_eq!(told.status.code(), Some(0), "{page}{}", text(&told.stderr));
    assert!(
        page.contains("baseline against itself") && page.contains("ended early, after"),
        "{page}"
    );
    let left = std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter(|process| {
            let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
            line == b"sleep\x000.0333\x00" || line == b"sleep\x000.011\x00"
        });
    assert_eq!(left.count(), 0);
}

fn planted() -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/try/planted.c");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("try-planted");
    let built = Command::new("gcc")
        .args(["-O2", "-fopenmp", "-o"])
        .arg(&out)
        .arg(source)
        .status();
    built.is_ok_and(|status| status.success()).then_some(out)
}

/// From the recording to the claim: memory that malloc gives back and takes again. tests/try/check has the other faults.
#[test]
fn a_planted_fault_is_recorded_and_its_cure_found() {
    let Some(planted) = planted() else {
        assert!(std::env::var_os("CI").is_none(), "no gcc with OpenMP");
        println!("skipped: no gcc with OpenMP");
        return;
    };
    let told = run(&["-q", "--json", "--", planted.to_str().unwrap(), "faults"]);
    let json: Value = serde_json::from_slice(&told.stdout).unwrap();
    let best = json["best"].as_u64().unwrap_or_else(|| panic!("{json:#}")) as usize;
    let best = &json["arms"][best];
    let cures = [
        "malloc keeps memory",
        "huge pages",
        "jemalloc",
        "mimalloc",
        "tcmalloc",
    ];
    assert!(cures.contains(&best["name"].as_str().unwrap()), "{best}");
    assert!(
        best["low"].as_f64().unwrap() > 1.05 && best["p_value"].as_f64().unwrap() <= 0.05,
        "{best}"
    );
    assert!(
        !json["account"].is_null() && !json["account_with_best"].is_null(),
        "{json}"
    );
}
