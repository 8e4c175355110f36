//! `kasuri merge` from outside: the merged file gives the same answers as its inputs, on one clock. Inputs are golden files.
use crate::sample;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn golden(name: &str) -> String {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/trace-dat");
    dir.join(name).to_str().unwrap().to_owned()
}

fn kasuri(args: &[&str]) -> Output {
    let command = Command::new(env!("CARGO_BIN_EXE_kasuri")).args(args).output();
    command.unwrap()
}

fn scratch(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("merge").join(name);
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn stat(file: &str) -> serde_json::Value {
    let output = kasuri(&["stat", "--json", file]);
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn one_trace_is_converted_and_answers_the_same() {
    for name in ["v6.dat", "v7-zstd.dat", "instances.dat"] {
        let out = scratch(name).join("out.kasuri");
        let out = out.to_str().unwrap();
        let merged = kasuri(&["merge", "-o", out, &golden(name)]);
        assert!(merged.status.success(), "{}", stderr(&merged));
        let (there, here) = (stat(&golden(name)), stat(out));
        for key in [
            "wall_ns",
            "n_cpus",
            "on_cpu_ns",
            "switches",
            "preemptions",
            "migrations",
            "wakeups",
            "wake_latency_ns",
            "n_annotation_events",
            "kernel",
        ] {
            assert!(!there[key].is_null(), "{key}");
            assert_eq!(here[key], there[key], "{name}: {key}");
        }
    }
}

#[test]
fn two_traces_share_one_clock() {
    let out = scratch("two").join("out.kasuri");
    let out = out.to_str().unwrap();
    let (first, second) = (golden("v6.dat"), golden("instances.dat"));
    let merged = kasuri(&["merge", "-o", out, &first, &second]);
    let said = stderr(&merged);
    assert!(merged.status.success(), "{said}");
    assert!(said.contains("kernel events of CPU 0, 1 are left out"), "{said}");
    let n = |file: &str| stat(file)["n_annotation_events"].as_u64().unwrap();
    assert_eq!(n(out), n(&first) + n(&second), "the marks of both");
}

/// What a part lost is not known any more, which is not "no events lost".
#[test]
fn losses_of_parts_are_losses_of_the_whole() {
    let dir = scratch("losses");
    let (cut, out) = (dir.join("cut.data"), dir.join("out.kasuri"));
    let (cut, out) = (cut.to_str().unwrap(), out.to_str().unwrap());
    let whole = std::fs::read(golden("../perf_data/switches.data")).unwrap();
    // The last bytes are the header's features: the records before end in the middle of one.
    std::fs::write(cut, &whole[..whole.len() / 2]).unwrap();
    let merged = kasuri(&["merge", "--salvage", "-o", out, cut]);
    assert!(merged.status.success(), "{}", stderr(&merged));
    let losses = &stat(out)["losses"];
    assert!(!losses.as_array().unwrap().is_empty(), "{losses}");
}

#[test]
fn clocks_that_cannot_be_aligned_are_said_and_an_offset_helps() {
    let dir = scratch("clocks");
    let out = dir.join("out.kasuri");
    let out = out.to_str().unwrap();
    let (first, second) = (golden("v6.dat"), golden("offset.dat"));
    let refused = kasuri(&["merge", "-o", out, &first, &second]);
    assert_eq!(refused.status.code(), Some(1));
    let said = stderr(&refused);
    assert!(said.contains("--offset") && said.contains("offset.dat"), "{said}");
    assert!(!Path::new(out).exists(), "nothing is left of it");
    let offset = format!("{second}=-1000000");
    let merged = kasuri(&["merge", "-o", out, &first, &second, "--offset", &offset]);
    assert!(merged.status.success(), "{}", stderr(&merged));
    assert!(stderr(&merged).contains("-1000000 ns added"));
}

#[test]
fn a_recording_keeps_all_it_has_and_gets_what_others_saw() {
    let dir = scratch("recording");
    let (base, out) = (dir.join("base.kasuri"), dir.join("out.kasuri"));
    let (base, out) = (base.to_str().unwrap(), out.to_str().unwrap());
    let trace = golden("v6.dat");
    assert!(kasuri(&["merge", "-o", base, &trace]).status.success());
    let merged = kasuri(&["merge", "-o", out, base, &trace]);
    let said = stderr(&merged);
    assert!(merged.status.success(), "{said}");
    assert!(said.contains("its kernel events are left out"), "{said}");
    let (there, here) = (stat(base), stat(out));
    for key in ["wall_ns", "on_cpu_ns", "switches", "wakeups", "threads"] {
        assert_eq!(here[key], there[key], "{key}");
    }
    let n = |stat: &serde_json::Value| stat["n_annotation_events"].as_u64().unwrap();
    assert_eq!(n(&here), 2 * n(&there), "its marks, and those of the trace");

    let refused = kasuri(&["merge", "-o", out, base, base]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("kasuri export --format trace-dat"));
}

#[test]
fn what_is_added_is_on_the_recordings_clock_and_within_it() {
    let dir = scratch("ticks");
    let (base, json, out) = (dir.join("a.kasuri"), dir.join("b.json"), dir.join("out"));
    std::fs::write(&base, sample::recording()).unwrap();
    // 50 us after the recording's start, for 100 us; and a second later.
    let events = r#"[{"name":"other","ph":"X","ts":1000050.001,"dur":100.002,"pid":4711,"tid":4712},
        {"name":"late","ph":"X","ts":2000000,"dur":1,"pid":4711,"tid":4712}]"#;
    std::fs::write(&json, events).unwrap();
    let [base, json, out] = [&base, &json, &out].map(|path| path.to_str().unwrap());
    let merged = kasuri(&["merge", "-o", out, base, json, "--offset", &format!("{json}=0")]);
    assert!(merged.status.success(), "{}", stderr(&merged));
    let here = stat(out);
    assert_eq!(here["wall_ns"], stat(base)["wall_ns"]);
    let rows = here["annotations"].as_array().unwrap();
    let names: Vec<_> = rows.iter().map(|r| r["name"].clone()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    let other = rows.iter().find(|r| r["name"] == "other").unwrap();
    let total = other["total_ns"].as_i64().unwrap();
    assert!((100_000..=100_004).contains(&total), "to the tick: {total}");
}
