//! `kasuri bench` from outside: programs that are slower by plan, or not at all, and what becomes of it.
use kasuri_testkit::measure;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use unicode_width::UnicodeWidthStr;

fn bench(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kasuri"));
    command.arg("bench").args(words).stdin(Stdio::null()).env("COLUMNS", "80");
    command
}

fn run(words: &[&str]) -> Output {
    bench(words).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Each prints a number that is not measured but told, so that the answer does not depend on the machine.
#[test]
fn a_gate_fails_with_status_3_and_only_by_more_than_its_share() {
    let told = run(&["--against", "echo 100", "--metric", "[0-9]+", "--", "echo", "104"]);
    assert_eq!(told.status.code(), Some(3), "{}", text(&told.stderr));
    let page = text(&told.stdout);
    assert!(page.starts_with("1.04x worse (1.04..1.04, 20 pairs, p <0.0001)\n"), "{page}");
    assert!(page.contains("failed: metric > 1% (+4.0 %, p <0.0001)"), "{page}");
    assert!(page.lines().all(|line| line.width() <= 80), "{page}");
    let passes = |words: &[&str]| {
        let all = [&["--against", "echo 100", "--metric", "[0-9]+"], words].concat();
        run(&all).status.code()
    };
    assert_eq!(passes(&["--fail-if", "metric > 5%", "--", "echo", "104"]), Some(0));
    assert_eq!(passes(&["--", "echo", "100"]), Some(0), "the same");
    assert_eq!(passes(&["--higher", "--", "echo", "104"]), Some(0), "more is better");
    assert_eq!(passes(&["--higher", "--", "echo", "96"]), Some(3));
    assert_eq!(
        passes(&["--fail-if", "wall > 100000%", "--fail-if", "metric > 1%", "--", "echo", "104"]),
        Some(3)
    );
}

#[test]
fn reports_are_written_and_names_do_no_harm_there() {
    let told = run(&[
        "-q",
        "-n",
        "6",
        "--against",
        "echo 1",
        "--metric",
        "[0-9]+",
        "--junit",
        "-",
        "--markdown",
        "-",
        "--",
        "echo",
        "<a|b>`\u{1b}[31m&\"",
        "2",
    ]);
    let page = text(&told.stdout);
    assert_eq!(told.status.code(), Some(3), "{page}");
    assert!(!page.contains('\u{1b}'), "{page:?}");
    assert!(page.contains("&lt;a|b&gt;") && page.contains("tests=\"1\" failures=\"1\""), "{page}");
    assert!(page.contains("<a\\|b>'") && page.contains("| metric | 1 | 2 | +100.0 % |"), "{page}");
}

#[test]
fn what_cannot_be_compared_is_an_error_that_says_why() {
    for (words, code, needed) in [
        (
            &["--against", "true", "--", "sh", "-c", "echo oh dear >&2; exit 7"][..],
            1,
            "failed with status 7: oh dear",
        ),
        (&["--against", "/nowhere/x", "--", "true"], 1, "cannot run /nowhere/x"),
        (&["--against", "'", "--", "true"], 1, "without its end"),
        (&["--against", "true", "--fail-if", "speed > 1%", "--", "true"], 1, "no such measure"),
        (&["--against", "true", "--fail-if", "wall", "--", "true"], 2, "needed MEASURE > PERCENT%"),
        (&["--against", "true", "--metric", "[", "--", "true"], 1, "--metric"),
        (
            &["--against", "echo 1", "--metric", "x", "--", "echo", "1"],
            1,
            "nothing that --metric matches",
        ),
        (&["--against", "echo 1", "--check", "grep -q 1", "--", "echo", "2"], 1, "--check says so"),
        (&["--against", "sleep 0.3", "--time", "500ms", "--", "true"], 1, "needed 6"),
    ] {
        let told = run(words);
        let message = text(&told.stderr);
        assert_eq!(told.status.code(), Some(code), "{words:?}: {message}");
        assert!(message.contains(needed), "{words:?}: {message}");
        assert!(told.stdout.is_empty());
    }
}

#[test]
fn ctrl_c_leaves_the_answer_so_far() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("runs");
    let script = |n: u32| format!("echo >> {}; sleep 0.01; echo {n}", log.display());
    let against = format!("sh -c '{}'", script(1));
    let words =
        ["-n", "1000", "--metric", "[0-9]+", "--against", &against, "--", "sh", "-c", &script(2)];
    let child = bench(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // As soon as a dozen pairs are done, and the numbers are told: the answer does not depend on the machine.
    let begun = Instant::now();
    let runs = || std::fs::read(&log).map_or(0, |lines| lines.len());
    while runs() < 30 {
        assert!(begun.elapsed() < Duration::from_secs(120), "no pairs");
        std::thread::sleep(Duration::from_millis(10));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let told = child.wait_with_output().unwrap();
    let (page, message) = (text(&told.stdout), text(&told.stderr));
    assert_eq!(told.status.code(), Some(3), "{page}{message}");
    assert!(page.contains("2.00x worse") && message.contains("of 1000 pairs"), "{page}{message}");
}

/// Told numbers again: a baseline that is stored, and what it is compared with later.
#[test]
fn a_stored_baseline_is_compared_with_on_its_machine_alone() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("main.json");
    let file = file.to_str().unwrap();
    let told = ["--metric", "[0-9]+", "-n", "8"];
    let saved = run(&[&told[..], &["--save", file, "--", "echo", "100"]].concat());
    assert_eq!(saved.status.code(), Some(0), "{}", text(&saved.stderr));
    assert_eq!(text(&saved.stdout), "");
    assert!(text(&saved.stderr).contains("8 runs stored, with this machine"));
    let compare = |words: &[&str]| run(&[&told[..], &["--baseline", file], words].concat());
    let slower = compare(&["--github", "--", "echo", "107"]);
    let page = text(&slower.stdout);
    assert_eq!(slower.status.code(), Some(3), "{}", text(&slower.stderr));
    assert!(
        page.starts_with("1.07x worse (1.07..1.07, 8 runs, p 0.0002)\n  against  echo 100\n"),
        "{page}"
    );
    assert!(
        page.contains(
            "::error title=kasuri bench::failed: metric > 5%25 (+7.0 %25, p 0.0002): echo 107\n"
        ),
        "{page}"
    );
    assert_eq!(compare(&["--", "echo", "104"]).status.code(), Some(0), "5 % unless told otherwise");
    assert_eq!(compare(&["--fail-if", "metric > 3%", "--", "echo", "104"]).status.code(), Some(3));
    // The default, 5 % of wall time, would ask what the machine did meanwhile.
    let wall = ["--fail-if", "wall > 100000%"];
    let without = run(&[&["--baseline", file], &wall[..], &["--", "true"]].concat());
    assert_eq!(
        without.status.code(),
        Some(0),
        "other measures are there: {}",
        text(&without.stderr)
    );

    let mut other: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    other["command"] = "".into();
    std::fs::write(file, other.to_string()).unwrap();
    let nameless = compare(&["--", "echo", "107"]);
    assert_eq!(nameless.status.code(), Some(3), "compared all the same");

    other["machine"]["cpus"] = 1000.into();
    std::fs::write(file, other.to_string()).unwrap();
    let refused = compare(&["--", "echo", "100"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        text(&refused.stderr).contains("times of another machine say nothing"),
        "{}",
        text(&refused.stderr)
    );
}

/// Claims about times, shares and races: each runs alone (`make test-measure`), on a quiet machine.
mod measured {
    use super::*;

    #[test]
    fn a_planted_slow_down_is_found_by_the_clock() {
        measure(|| {
            let told =
                run(&["-n", "10", "--json", "--against", "sleep 0.02", "--", "sleep", "0.2"]);
            let json: Value = serde_json::from_slice(&told.stdout).unwrap();
            assert_eq!(told.status.code(), Some(3), "{json}");
            let odd = kasuri_testkit::schema::violations("bench", &json);
            assert_eq!(odd, Vec::<String>::new());
            assert_eq!((&json["compared"], &json["pairs"]), (&"wall".into(), &10.into()));
            let wall = &json["measures"][0];
            assert_eq!(wall["against"].as_array().unwrap().len(), 10);
            assert!(
                wall["low"].as_f64().unwrap() > 1.2 && wall["p_value"].as_f64().unwrap() < 0.05,
                "{json}"
            );
            assert_eq!(json["failed"], true);
        });
    }
}
