//! What a recording of a real program says, and what its exports say when they are read back: the same, to the ns.
use crate::support::{can_trace, kasuri, program, run, said, scratch};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

fn stat(dir: &Path, file: &str) -> Value {
    let out = run(kasuri(dir).args(["stat", "--all", "--json", file]));
    assert!(out.status.success(), "{file}: {}", said(&out));
    serde_json::from_slice(&out.stdout).expect("JSON")
}

#[test]
fn stat_has_the_kernels_own_account_of_the_cpu_time_beside_its_own() {
    if !can_trace() {
        return;
    }
    let dir = scratch();
    let dir = dir.path();
    let out = run(kasuri(dir)
        .args(["record", "-q", "-o", "b.kasuri", "--"])
        .arg(program("barriers"))
        .args(["4", "200"]));
    assert!(out.status.success(), "{}", said(&out));
    let printed = String::from_utf8_lossy(&out.stdout).into_owned();
    let its_own = printed
        .lines()
        .find_map(|line| line.strip_prefix("cpu_ns "));
    let its_own: i64 = its_own.expect("cpu_ns").parse().expect("a number");
    let stat = stat(dir, "b.kasuri");
    let ns = |key: &str| stat["cpu_time"][key].as_i64().expect("ns");
    // The program asks shortly before it ends: the kernel goes on counting.
    assert!(ns("kernel_ns") >= its_own, "{} {its_own}", ns("kernel_ns"));
    assert_eq!(ns("seen_ns"), stat["on_cpu_ns"].as_i64().expect("ns"));
    assert_eq!(ns("seen_ns") + ns("unseen_ns"), ns("kernel_ns"));
    // Of a part of the recording the kernel gave no account.
    let part = ["stat", "--json", "--range", "0ms..1ms", "b.kasuri"];
    let part = run(kasuri(dir).args(part));
    assert!(part.status.success(), "{}", said(&part));
    let part: Value = serde_json::from_slice(&part.stdout).expect("JSON");
    assert!(part["cpu_time"].is_null());
}

/// What `stat` says of each thread id: switches, preemptions, wake-ups, migrations, and the time in each state.
fn threads(stat: &Value) -> BTreeMap<i64, BTreeMap<String, i64>> {
    let mut out: BTreeMap<i64, BTreeMap<String, i64>> = BTreeMap::new();
    for thread in stat["threads"].as_array().expect("threads") {
        let sums = out
            .entry(thread["tid"].as_i64().expect("a tid"))
            .or_default();
        for (key, value) in thread.as_object().expect("an object") {
            if let (Some(n), false) = (value.as_i64(), key == "pid" || key == "tid") {
                *sums.entry(key.clone()).or_default() += n;
            }
        }
    }
    out
}

/// What each CPU did; which of the threads are the program's no export says.
fn cpus(stat: &Value) -> Vec<[i64; 4]> {
    let row = |cpu: &Value| {
        let n = |key: &str| cpu[key].as_i64().expect("ns");
        let busy = n("target_ns") + n("other_ns");
        [busy, n("idle_ns"), n("unknown_ns"), n("switches")]
    };
    stat["cpus"]
        .as_array()
        .expect("CPUs")
        .iter()
        .map(row)
        .collect()
}

#[test]
fn every_export_of_a_real_recording_answers_as_it_does() {
    if !can_trace() {
        return;
    }
    let dir = scratch();
    let dir = dir.path();
    let out = run(kasuri(dir)
        .args(["record", "-q", "-o", "b.kasuri", "--"])
        .arg(program("barriers"))
        .args(["4", "400"]));
    assert!(out.status.success(), "{}", said(&out));
    let native = stat(dir, "b.kasuri");
    let sum = |key: &str| -> i64 { threads(&native).values().map(|t| t[key]).sum() };
    assert!(sum("switches") > 400 && sum("preemptions") > 0 && sum("wakeups") > 100);
    for format in ["trace-dat", "perfetto", "ctf", "ctf1.8"] {
        let out = run(kasuri(dir).args(["export", "--format", format, "-o", format, "b.kasuri"]));
        assert!(out.status.success(), "{}", said(&out));
        let lost = native["losses"].as_array().map_or(0, Vec::len);
        assert_eq!(said(&out).contains("gaps"), lost > 0, "{}", said(&out));
        let read = stat(dir, format);
        assert_eq!(threads(&read), threads(&native), "{format}");
        assert_eq!(cpus(&read), cpus(&native), "{format}");
        for key in ["from_ns", "to_ns", "n_cpus", "losses", "known"] {
            assert_eq!(read[key], native[key], "{format}: {key}");
        }
        let hid = |stat: &Value| stat["missing"].to_string().contains("hid switches");
        assert_eq!(hid(&read), hid(&native), "{format}");
    }
    // The others hold states and no events, and say so.
    for format in ["chrome-json", "firefox", "speedscope", "paraver"] {
        let file = format!("{format}.prv");
        let out = run(kasuri(dir).args(["export", "--format", format, "-o", &file, "b.kasuri"]));
        assert!(out.status.success(), "{}", said(&out));
        let says = "scheduler events (states are shown, as `kasuri` infers them)";
        assert!(said(&out).contains(says), "{format}: {}", said(&out));
    }
}
