//! CPU time: what a recording says of each thread, against what the kernel tells the thread itself and the process that
//! waits for it.
use crate::support::{can_trace, kasuri, measure, program, run, said, scratch};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Records the program with run times; what it printed, and what `stat` says.
fn recorded(dir: &Path, name: &str, args: &[&str]) -> (String, Value) {
    let out = run(kasuri(dir)
        .args(["record", "-q", "--events", "run-time", "-o", "c.kasuri", "--"])
        .arg(program(name))
        .args(args));
    assert!(out.status.success(), "{}", said(&out));
    let printed = String::from_utf8_lossy(&out.stdout).into_owned();
    let stat = run(kasuri(dir).args(["stat", "--json", "c.kasuri"]));
    assert!(stat.status.success(), "{}", said(&stat));
    let stat = serde_json::from_slice(&stat.stdout).expect("JSON");
    (printed, stat)
}

fn ns(of: &Value, key: &str) -> i64 {
    of[key].as_i64().unwrap_or_else(|| panic!("{key}: {of}"))
}

/// What the kernel does for a thread after its last run time was told: the last steps of its end.
const END_NS: i64 = 300_000;

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
    let its_own = printed.lines().find_map(|line| line.strip_prefix("cpu_ns "));
    let its_own: i64 = its_own.expect("cpu_ns").parse().expect("a number");
    let stat = run(kasuri(dir).args(["stat", "--json", "b.kasuri"]));
    let stat: Value = serde_json::from_slice(&stat.stdout).expect("JSON");
    let ns = |key: &str| ns(&stat["cpu_time"], key);
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

/// Claims about times, shares and races: each runs alone (`make test-measure`), on a quiet machine.
mod measured {
    use super::*;

    #[test]
    fn run_times_of_a_program_add_up_to_what_the_kernel_accounts_for_it() {
        if !can_trace() {
            return;
        }
        measure(|| {
            let dir = scratch();
            for (name, args) in [("barriers", ["4", "1500"]), ("naps", ["4", "500"])] {
                let (_, stat) = recorded(dir.path(), name, &args);
                assert_eq!(stat["losses"], serde_json::json!([]), "{name}");
                let cpu_time = &stat["cpu_time"];
                let (kernel, counted) = (ns(cpu_time, "kernel_ns"), ns(cpu_time, "counted_ns"));
                let off = (kernel - counted).abs();
                assert!(off < kernel / 1000 + END_NS, "{name}: {cpu_time}");
                let (hidden, placed) =
                    (ns(cpu_time, "hidden_switches"), ns(cpu_time, "placed_switches"));
                assert!(placed <= hidden, "{name}: {cpu_time}");
            }
        });
    }

    #[test]
    fn run_times_of_a_thread_are_what_the_kernel_tells_it() {
        if !can_trace() {
            return;
        }
        measure(|| {
            let dir = scratch();
            let (printed, stat) = recorded(dir.path(), "naps", &["4", "500"]);
            let words = printed.lines().map(|line| line.split(' ').collect());
            let own: BTreeMap<i64, i64> = words
                .map(|words: Vec<&str>| {
                    (words[1].parse().expect("tid"), words[2].parse().expect("ns"))
                })
                .collect();
            assert_eq!(own.len(), 4);
            let threads = stat["threads"].as_array().expect("threads");
            for thread in threads {
                let tid = ns(thread, "tid");
                let Some(own) = own.get(&tid) else { continue };
                let counted = ns(thread, "counted_ns");
                // It asks before it prints and ends.
                assert!(counted >= own - own / 1000, "{tid}: {own} {counted}");
                let end = own / 1000 + END_NS + 2_000_000;
                assert!(counted < own + end, "{tid}: {own} {counted}");
            }
        });
    }

    #[test]
    fn run_times_are_recorded_unasked_where_the_kernel_hides_switches() {
        if !can_trace() {
            return;
        }
        measure(|| {
            let dir = scratch();
            let dir = dir.path();
            let record = ["record", "-q", "-o", "u.kasuri", "--"];
            let out = run(kasuri(dir).args(record).arg(program("naps")).args(["4", "300"]));
            assert!(out.status.success(), "{}", said(&out));
            let stat = run(kasuri(dir).args(["stat", "--json", "u.kasuri"]));
            let stat: Value = serde_json::from_slice(&stat.stdout).expect("JSON");
            let cpu_time = &stat["cpu_time"];
            // A kernel that hides one now and then may hide none in the trial.
            if ns(cpu_time, "hidden_switches") > 100 {
                assert!(cpu_time["counted_ns"].is_i64(), "{cpu_time}");
                let placed = ns(cpu_time, "placed_switches") * 10;
                assert!(placed >= ns(cpu_time, "hidden_switches") * 9, "{cpu_time}");
            } else {
                println!("this kernel hid next to no switches");
            }
        });
    }
}
