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

/// What `stat` says of each thread id: switches, preemptions, wake-ups, migrations, and the time in each state.
fn threads(stat: &Value) -> BTreeMap<i64, BTreeMap<String, i64>> {
    let mut out: BTreeMap<i64, BTreeMap<String, i64>> = BTreeMap::new();
    for thread in stat["threads"].as_array().expect("threads") {
        let sums = out.entry(thread["tid"].as_i64().expect("a tid")).or_default();
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
    stat["cpus"].as_array().expect("CPUs").iter().map(row).collect()
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
    // Nothing here makes a preemption happen; crates/export/tests/sched_round_trip.rs plants some.
    assert!(sum("switches") > 400 && sum("wakeups") > 100);
    for format in ["trace-dat", "perfetto", "ctf", "ctf1.8", "chrome-json"] {
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
    for format in ["firefox", "speedscope", "paraver"] {
        let file = format!("{format}.prv");
        let out = run(kasuri(dir).args(["export", "--format", format, "-o", &file, "b.kasuri"]));
        assert!(out.status.success(), "{}", said(&out));
        let says = "scheduler events (states are shown, as `kasuri` infers them)";
        assert!(said(&out).contains(says), "{format}: {}", said(&out));
    }
}
