//! `kasuri try` from outside: what it finds, what it refuses to find, and what it leaves behind.
use kasuri_testkit::measure;
use kasuri_testkit::schema::violations;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use unicode_width::UnicodeWidthStr;

fn command(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kasuri"));
    command.arg("try").args(words).stdin(Stdio::null()).env("COLUMNS", "80");
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
    let words = [&TOLD[..], &["--check", "true"], &arms, &["--", "echo", "100"]].concat();
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
    assert_eq!(violations("try", &json), Vec::<String>::new());
    assert_eq!(json["best"], Value::Null);
    assert_eq!(json["arms"][2]["verdict"], "not_valid");
    assert!(json["arms"][2]["reason"].as_str().unwrap().contains("stdout differs"), "{json}");
    assert_eq!(json["results_compared"], true);
}

#[test]
fn what_cannot_be_tried_is_an_error_that_says_why() {
    for (words, code, needed) in [
        (&["-q", "--", "sh", "-c", "exit 5"][..], 1, "failed with status 5"),
        (&["-q", "--", "/nowhere/x"], 1, "cannot run /nowhere/x"),
        (&["-q", "--only", "--", "true"], 2, "--arm"),
        (&["-q", "--arm", "x", "--", "true"], 1, "needed NAME=CMD"),
        (&["-q", "--threads", "4", "--", "true"], 1, "no {} that stands for it"),
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
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("runs");
    // Each arm leaves a line before it becomes a sleep.
    let logged = |seconds: &str| format!("echo >> {}; exec sleep {seconds}", log.display());
    let fast = format!("fast=sh -c '{}'", logged("0.011"));
    let words = ["--only", "--blocks", "1000", "--arm", &fast, "--", "sh", "-c", &logged("0.0333")];
    let child = command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A block has three runs: when there were so many, at least one is whole, however many came before the first.
    let runs = || std::fs::read(&log).map_or(0, |lines| lines.len());
    wait_until("blocks are done", || runs() >= 24);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let told = child.wait_with_output().unwrap();
    let page = text(&told.stdout);
    assert_eq!(told.status.code(), Some(0), "{page}{}", text(&told.stderr));
    assert!(
        page.contains("baseline against itself") && page.contains("ended early, after"),
        "{page}"
    );
    let left = std::fs::read_dir("/proc").unwrap().flatten().filter(|process| {
        let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        line == b"sleep\x000.0333\x00" || line == b"sleep\x000.011\x00"
    });
    assert_eq!(left.count(), 0);
}

fn planted() -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/try/planted.c");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("try-planted");
    let built = Command::new("gcc").args(["-O2", "-fopenmp", "-o"]).arg(&out).arg(source).status();
    built.is_ok_and(|status| status.success()).then_some(out)
}

fn halved() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("try-whatif");
    let built = Command::new("gcc")
        .args(["-O2", "-g", "-pthread", "-I"])
        .arg(root.join("annotate/include"))
        .arg("-o")
        .arg(&out)
        .arg(root.join("tests/try/whatif.c"))
        .status();
    built.is_ok_and(|status| status.success()).then_some(out)
}

#[test]
fn what_ifs_need_something_to_change() {
    let told = run(&["-q", "--what-if", "--", "true"]);
    assert_eq!(told.status.code(), Some(1));
    let message = text(&told.stderr);
    assert!(message.contains("no annotated slice and no contended lock"), "{message}");
}

/// Processes whose command line is these words.
fn running(words: &[&str]) -> usize {
    let wanted: Vec<u8> = words.iter().flat_map(|word| [word.as_bytes(), b"\0"].concat()).collect();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let is_it = |process: std::fs::DirEntry| {
        std::fs::read(process.path().join("cmdline")).is_ok_and(|line| line == wanted)
    };
    processes.map(is_it).filter(|is_it| *is_it).count()
}

/// Recorders that were started by the process `parent`: their numbers.
fn recorders(parent: u32) -> Vec<u32> {
    let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
    let children = children.unwrap_or_default();
    let is_recorder = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).nth(1) == Some(b"record")
    };
    children.split(' ').filter_map(|pid| pid.parse().ok()).filter(is_recorder).collect()
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..600 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("not within a minute: {what}");
}

/// SIGKILL, which nobody can act on: while the program runs, and while it is recorded.
#[test]
fn a_kill_leaves_no_program_and_no_recorder() {
    let sleep = ["sleep", "97.531"];
    let mut child =
        command(&["-q", "--only", "--arm", "x=true", "--", sleep[0], sleep[1]]).spawn().unwrap();
    wait_until("it runs", || running(&sleep) == 1);
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("it is gone", || running(&sleep) == 0);

    // Two runs before the recording, which is the third.
    let scratch = tempfile::tempdir().unwrap();
    let mut child =
        command(&["-q", "--", "sleep", "1.0123"]).env("TMPDIR", scratch.path()).spawn().unwrap();
    wait_until("it is recorded", || !recorders(child.id()).is_empty());
    let recorder = recorders(child.id())[0];
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("the recorder has ended", || !Path::new(&format!("/proc/{recorder}")).exists());
    let traced = ["/sys/kernel/tracing/instances", "/sys/kernel/debug/tracing/instances"];
    let left = traced.iter().filter_map(|dir| std::fs::read_dir(dir).ok()).flatten().flatten();
    let of_it = format!("kasuri-{recorder}-");
    let left: Vec<_> =
        left.filter(|dir| dir.file_name().to_string_lossy().starts_with(&of_it)).collect();
    assert!(left.is_empty(), "{left:?}");
    // What it had written goes when the next one begins.
    let names = || std::fs::read_dir(scratch.path()).unwrap().count();
    assert_eq!(names(), 1);
    let next = command(&["-q", "--only", "--arm", "x=true", "--", "true"])
        .env("TMPDIR", scratch.path())
        .output()
        .unwrap();
    assert_eq!((next.status.code(), names()), (Some(0), 0), "{}", text(&next.stderr));
}

/// Claims about times, shares and races: each runs alone (`make test-measure`), on a quiet machine.
mod measured {
    use super::*;

    /// From the recording to the claim: memory that malloc gives back and takes again. tests/try/check has the other faults.
    #[test]
    fn a_planted_fault_is_recorded_and_its_cure_found() {
        let Some(planted) = planted() else {
            return kasuri_testkit::skip("no gcc with OpenMP");
        };
        measure(|| {
            let told = run(&["-q", "--json", "--", planted.to_str().unwrap(), "faults"]);
            let json: Value = serde_json::from_slice(&told.stdout).unwrap();
            let best = json["best"].as_u64().unwrap_or_else(|| panic!("{json:#}")) as usize;
            let best = &json["arms"][best];
            let cures = ["malloc keeps memory", "huge pages", "jemalloc", "mimalloc", "tcmalloc"];
            assert!(cures.contains(&best["name"].as_str().unwrap()), "{best}");
            assert!(
                best["low"].as_f64().unwrap() > 1.05 && best["p_value"].as_f64().unwrap() <= 0.05,
                "{best}"
            );
            assert!(!json["account"].is_null() && !json["account_with_best"].is_null(), "{json}");
        });
    }

    /// The books are checked, not the time: probes/whatif/tests and tests/try/what-if do the rest.
    #[test]
    fn what_ifs_are_replayed_and_tried() {
        let Some(program) = halved() else {
            return kasuri_testkit::skip("no gcc");
        };
        measure(|| {
            let program = program.to_str().unwrap();
            // So many that the lock is waited for, also where the threads run one after the other for a while.
            let rounds = 16;
            let (held, outside) = {
                let n = rounds.to_string();
                let words = ["-q", "--json", "--what-if", "--blocks", "12", "--"];
                let told = run(&[&words[..], &[program, "lock", "none", &n]].concat());
                assert_eq!(told.status.code(), Some(0), "{}", text(&told.stderr));
                let json: Value = serde_json::from_slice(&told.stdout).unwrap();
                assert_eq!(violations("what_if", &json), Vec::<String>::new());
                assert_eq!(json["blocks"], 12);
                let of = |change: &str, name: &str| {
                    let mut rows = json["what_ifs"].as_array().unwrap().iter();
                    rows.find(|row| row["change"] == change && row["name"] == name).cloned()
                };
                let (held, outside) = (of("half_held", "table"), of("half", "outside"));
                let both = held.zip(outside);
                both.unwrap_or_else(|| panic!("{json:#}"))
            };
            for row in [outside, held] {
                assert_eq!(row["entries"], 2 * rounds, "{row}");
                assert!(row["region_ns"].as_u64().unwrap() > 1_000_000, "{row}");
                assert!(
                    row["experiment"].as_f64().unwrap() > 0.0 && row["agrees"].is_boolean(),
                    "{row}"
                );
                assert!(row["replay"].as_f64().unwrap() >= 1.0, "{row}");
            }
            let page = text(
                &run(&["-q", "--what-if", "--time", "3s", "--", program, "serial", "none", "4"])
                    .stdout,
            );
            assert!(
                page.contains("FASTER BY THIS FACTOR IF") && page.contains("took half its time"),
                "{page}"
            );
            assert!(page.lines().all(|line| line.width() <= 80), "{page}");
        });
    }
}
