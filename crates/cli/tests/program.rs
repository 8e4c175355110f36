//! `--process` and `--thread` at the command line: a trace that names no program, and one that lost its own.
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::{Command, Output};

fn golden(name: &str) -> String {
    format!("{}/../../tests/golden/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn kasuri(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kasuri"));
    command.env("COLUMNS", "80").args(args).output().unwrap()
}

fn text(args: &[&str]) -> String {
    let out = kasuri(args);
    assert!(out.status.success(), "{args:?}: {out:?}");
    String::from_utf8(out.stdout).unwrap()
}

fn stat(args: &[&str]) -> Value {
    serde_json::from_str(&text(&[&["stat", "--json"], args].concat())).unwrap()
}

fn page_of(file: &str) -> String {
    text(&["stat", file])
}

/// What scheduler events alone tell of the program.
fn facts(found: &Value) -> Value {
    let threads = found["threads"].as_array().unwrap().iter();
    let threads: Vec<Value> = threads
        .filter(|t| t["switches"] != 0)
        .map(|t| json!([t["tid"], t["on_cpu_ns"], t["runnable_ns"], t["switches"], t["wakeups"]]))
        .collect();
    let cpus = found["cpus"].as_array().unwrap().iter();
    let cpus: Vec<&Value> = cpus.map(|cpu| &cpu["target_ns"]).collect();
    let keys = [
        "on_cpu_ns",
        "switches",
        "preemptions",
        "migrations",
        "wakeups",
        "wake_latency_ns",
        "worst_wakeup",
    ];
    let plain: Vec<&Value> = keys.iter().map(|key| &found[key]).collect();
    // The export calls the process what its main thread is called.
    let others = found["interference"].as_array().unwrap().iter();
    let others: Vec<Value> =
        others.map(|i| json!([i["pid"], i["delayed_ns"], i["preemptions"]])).collect();
    json!([plain, threads, cpus, others])
}

/// trace.dat does not say which process was recorded: all are its program, until one is chosen. Then what is known is what the
/// recording itself knows.
#[test]
fn a_program_chosen_in_a_trace_has_the_numbers_of_its_recording() {
    let dir = tempfile::tempdir().unwrap();
    let dat: PathBuf = dir.path().join("mix.dat");
    let (dat, mix) = (dat.to_str().unwrap(), golden("kasuri/mix.kasuri"));
    assert!(kasuri(&["export", "-f", "trace-dat", "-o", dat, &mix]).status.success());
    let recorded = facts(&stat(&[&mix]));
    assert_eq!(facts(&stat(&["--process", "planted", &mix])), recorded);
    assert_ne!(facts(&stat(&[dat])), recorded);
    assert_eq!(facts(&stat(&["--process", "planted*", dat])), recorded);
    // The export names the main thread after itself, so its id serves as well.
    assert_eq!(facts(&stat(&["--process", "28761", dat])), recorded);
}

#[test]
fn a_trace_without_a_program_says_so_and_how_to_choose() {
    let file = golden("ftrace_text/trace.txt");
    let page = text(&["stat", &file]);
    assert!(page.contains("the trace names none: all 39 processes count as one"), "{page}");
    assert!(!page.contains("you got"), "{page}");
    assert!(page.contains("kasuri stat --process rustc"), "{page}");
    let found = stat(&[&file]);
    assert_eq!(found["program"]["by"], "nobody");
    assert_eq!(found["program"]["candidates"][0]["name"], "rustc");
    for command in ["locks", "report"] {
        let mut args = vec![command, &file];
        if command == "report" {
            args.extend(["-o", "-"]);
        }
        let said = String::from_utf8(kasuri(&args).stderr).unwrap();
        let wanted = format!("kasuri {command} --process rustc {file}");
        assert!(said.contains(&wanted), "{command}: {said}");
    }
    // A path through all processes would be nobody's.
    let refused = kasuri(&["critical", &file]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!((refused.status.code(), refused.stdout.len()), (Some(1), 0));
    assert!(
        said.contains(
            "which of its 39 processes that is; the busiest are rustc (37.6 ms of CPU time), "
        ) && said.contains(&format!("kasuri critical --process rustc {file}")),
        "{said}"
    );
    assert!(text(&["critical", "--process", "pingpong", &file]).starts_with("critical path"));
    assert!(page_of(&file).contains("what to shorten  kasuri critical --process rustc"));
    let both = kasuri(&["compare", &file, &file]);
    let said = String::from_utf8(both.stderr).unwrap();
    assert!(said.contains(&format!("kasuri compare --process rustc {file} {file}")), "{said}");
    assert_eq!(said.matches("names no program").count(), 1, "{said}");
    // What was proposed works, and names no candidates any more.
    let page = text(&["stat", "--process", "rustc", &file]);
    assert!(page.starts_with("processes rustc ("), "{page}");
    assert!(page.contains("you got") && !page.contains("which program"), "{page}");
}

#[test]
fn a_name_that_is_not_there_is_an_error_with_those_that_are() {
    let file = golden("ftrace_text/trace.txt");
    for (args, wanted) in [
        (
            ["--process", "rustd"],
            "no process is called `rustd`; the busiest processes are `rustc`, ",
        ),
        (
            ["--thread", "rustd"],
            "no thread of the program is called `rustd`; its threads are called `",
        ),
    ] {
        let out = kasuri(&[&["stat"], &args[..], &[&file]].concat());
        let said = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(1), "{said}");
        assert!(said.contains(wanted), "{said}");
    }
}
