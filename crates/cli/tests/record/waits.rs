//! Waits of programs whose answers are known: what ended them, who held the lock, what the others waited for.
use crate::support::*;
use kasuri_format::call_paths::SampleKind;
use kasuri_format::container::{BlockKind, Recording};
use serde_json::Value;
use std::path::Path;

/// The answer of `kasuri stat`, and what the program printed.
fn recorded(mode: &str, args: &[&str]) -> (Value, String) {
    let (dir, program) = (scratch(), program("waits"));
    let mut command = kasuri(dir.path());
    command.args(["record", "-q", "-o", "run.kasuri"]).args(args);
    let output = run(command.arg("--").arg(program).arg(mode));
    assert!(output.status.success(), "{}", said(&output));
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let stat = run(kasuri(dir.path()).args(["stat", "--json", "run.kasuri"]));
    assert!(stat.status.success(), "{}", said(&stat));
    (serde_json::from_slice(&stat.stdout).expect("JSON"), printed)
}

/// Whether wake-ups and samples of waits can be had here.
fn waits_are_known() -> bool {
    let can = kasuri_record::perf::reach() == Some(kasuri_record::perf::Reach::System);
    if !can || !Path::new("/sys/kernel/tracing/events/sched/sched_switch/id").exists() {
        skip("the scheduler's events cannot be sampled");
        return false;
    }
    true
}

fn rows<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], |rows| rows)
}

fn ns(value: &Value) -> f64 {
    value["ns"].as_f64().unwrap_or(0.0)
}

fn has_function(row: &Value, function: &str) -> bool {
    let mut frames = rows(row, "frames").iter();
    frames.any(|frame| frame["function"] == function)
}

/// Each chain of waits as (its threads and what the last one did, its last node, its time).
fn chains(stat: &Value) -> Vec<(String, Value, f64)> {
    let mut out = Vec::new();
    for class in rows(&stat["call_paths"], "classes") {
        let nodes = rows(&class["chains"], "nodes");
        let mut way: Vec<&str> = Vec::new();
        let mut sum = 0.0;
        for node in nodes {
            let depth = node["depth"].as_u64().expect("a depth") as usize;
            if depth == 0 {
                sum += ns(node);
            }
            way.truncate(depth);
            let thread = node["thread"].as_str().expect("a name");
            if node["did"] == "waited" {
                way.push(thread);
                continue;
            }
            let did = node["did"].as_str().expect("a word");
            let end = format!("{} {did} {thread}", way.join(" < "));
            out.push((end.trim_end().to_owned(), node.clone(), ns(node)));
        }
        let all = ns(&class["chains"]);
        let rest = class["chains"]["rest_ns"].as_f64().unwrap_or(0.0);
        assert_eq!(sum + rest, all, "chains add up to the waits");
    }
    out
}

/// Of the time of chains that begin with one of these threads, at least nine tenths end as `ends` says.
fn assert_ends(mode: &str, of: &[&str], ends: impl Fn(&str, &Value) -> bool) {
    measure(|| {
        let (stat, _) = recorded(mode, &[]);
        let chains = chains(&stat);
        let mine = chains.iter().filter(|(way, ..)| {
            let first = way.split(' ').next().unwrap_or("");
            // Time without a CPU is the machine's, not the program's.
            of.contains(&first) && !way.contains(" ready ")
        });
        let (mut all, mut good) = (0.0, 0.0);
        for (way, node, ns) in mine {
            all += ns;
            good += if ends(way, node) { *ns } else { 0.0 };
        }
        assert!(all >= 100e6, "{mode}: {all} ns in {chains:#?}");
        assert!(good >= 0.9 * all, "{mode}: {good} of {all} ns in {chains:#?}");
    });
}

/// The share of the first of two parts of the rows' time, each row's told by `first_ns` and `second_ns`; and what the program measured.
fn split(
    shares: &Value,
    printed: &str,
    first_ns: impl Fn(&Value) -> f64,
    second_ns: impl Fn(&Value) -> f64,
) -> (f64, f64) {
    let sum = |part_ns: &dyn Fn(&Value) -> f64| -> f64 {
        rows(shares, "paths").iter().map(part_ns).sum()
    };
    let (first, second) = (sum(&first_ns), sum(&second_ns));
    assert!(first + second >= 300e6, "{shares:#}");
    let parts = printed.lines().find_map(|line| line.strip_prefix("parts "));
    let parts: Vec<f64> = (parts.expect("it measures").split(' '))
        .map(|part| part.parse().expect("a number"))
        .collect();
    (first / (first + second), parts[0] / (parts[0] + parts[1]))
}

fn assert_within_5_points((found, truth): (f64, f64)) {
    println!("found {found:.3}, measured by the program {truth:.3}");
    assert!((found - truth).abs() < 0.05, "{found} is not {truth}");
}

fn class<'a>(stat: &'a Value, key: &str) -> &'a Value {
    let mut classes = rows(&stat["call_paths"], "classes").iter();
    let class = classes.find(|class| class["class"] == key);
    class.unwrap_or_else(|| panic!("{key} in {:#}", stat["account"]["classes"]))
}

/// The functions on the paths of waits that were read from outside, innermost first.
fn waits_read(file: &Path) -> Vec<Vec<String>> {
    let bytes = std::fs::read(file).expect("a recording");
    let recording = Recording::parse(&bytes).expect("sound");
    let tables = recording.call_paths();
    let name = |frame: u32| {
        let of_frame = tables.names.iter().rev().find(|n| n.frame == frame);
        of_frame.map_or_else(String::new, |n| n.calls[0].function.clone())
    };
    let path = |mut path: u32| {
        let mut names = Vec::new();
        while let Some(row) = tables.paths.get(path as usize) {
            names.push(name(row.frame));
            path = row.caller;
        }
        names
    };
    let blocks = recording.blocks().iter().enumerate();
    let blocks = blocks.filter(|(_, block)| block.kind == BlockKind::Samples);
    blocks
        .flat_map(|(ix, _)| recording.sample_block(ix).expect("sound"))
        .filter(|s| s.kind == SampleKind::BlockedRead)
        .map(|s| path(s.path))
        .collect()
}

/// The nodes of all chains of a class.
fn nodes<'a>(stat: &'a Value, key: &str) -> Vec<&'a Value> {
    let classes = rows(&stat["call_paths"], "classes").iter();
    let mut of_class = classes.filter(|class| class["class"] == key);
    of_class.next().map_or(Vec::new(), |class| rows(&class["chains"], "nodes").iter().collect())
}

/// A parent in vfork is in state D, as one that waits for the disk is.
#[test]
fn a_wait_in_vfork_is_no_disk_wait() {
    if !waits_are_known() {
        return;
    }
    let (stat, _) = recorded("vfork", &[]);
    let mut threads = rows(&stat, "threads").iter();
    assert!(threads.any(|t| t["name"] == "parent" && t["disk_sleep_ns"].as_i64() > Some(0)));
    let io = nodes(&stat, "io_wait");
    assert!(!io.iter().any(|node| has_function(node, "vfork")), "{io:#?}");
}

/// Claims about times, shares and races: each runs alone (`make test-measure`), on a quiet machine.
mod measured {
    use super::*;

    /// What the recorder reads of a program holds a lock of that: no thread waits for it longer than 1 ms. Not meant is the time before
    /// the program is executed, when its process waits until the recording is on.
    #[test]
    fn the_recorder_keeps_no_thread_waiting() {
        if !waits_are_known() {
            return;
        }
        let script = "import threading,time\nend=time.time()+1\ndef f():\n while time.time()<end: a=bytearray(1<<20); time.sleep(.0005)\n\
                      ts=[threading.Thread(target=f) for _ in range(30)]\n[t.start() for t in ts]\n[t.join() for t in ts]";
        measure(|| {
            let dir = scratch();
            let output = run(kasuri(dir.path()).args([
                "record",
                "-q",
                "-o",
                "run.kasuri",
                "--",
                "python3",
                "-c",
                script,
            ]));
            assert!(output.status.success(), "{}", said(&output));
            let stat = run(kasuri(dir.path()).args(["stat", "--json", "run.kasuri"]));
            let stat: Value = serde_json::from_slice(&stat.stdout).expect("JSON");
            let of = |row: &Value| {
                let classes = rows(row, "classes").iter();
                classes.filter(|class| class["class"] == "tracing").map(ns).sum::<f64>()
            };
            // The first thread is the one that waits at the start.
            let waits: Vec<f64> =
                rows(&stat["account"], "threads").iter().skip(1).map(of).collect();
            assert!(waits.len() >= 30, "{waits:?}");
            assert!(waits.iter().all(|&ns| ns < 1e6), "{waits:?}");
            // By the recorder's own clock, which runs on while it has no CPU.
            let info = run(kasuri(dir.path()).args(["info", "--json", "run.kasuri"]));
            let info: Value = serde_json::from_slice(&info.stdout).expect("JSON");
            let read = &info["held_up"]["memory"];
            let longest_ns = read["longest_ns"].as_f64().expect("measured");
            assert!(read["n"].as_u64() > Some(0) && longest_ns < 1e7, "{read}");
        });
    }

    #[test]
    fn a_pipe_of_three_stages_waits_for_the_one_that_computes() {
        if !waits_are_known() {
            return;
        }
        let of = ["consumer", "filter"];
        assert_ends("pipe", &of, |way, node| {
            let is_known = ["consumer < filter ran producer", "filter ran producer"].contains(&way);
            is_known && has_function(node, "compress")
        });
    }

    #[test]
    fn a_limit_that_is_begun_again_is_a_wait_for_whoever_signals() {
        if !waits_are_known() {
            return;
        }
        for args in [&["--locks"][..], &[]] {
            measure(|| {
                let (stat, _) = recorded("limits", args);
                let capacity = stat["account"]["capacity_ns"].as_f64().expect("ns");
                let classes = rows(&stat["account"], "classes").iter();
                let external: f64 = classes.filter(|c| c["class"] == "external_wait").map(ns).sum();
                assert!(external < 0.02 * capacity, "{external} of {capacity}");
            });
        }
        // Of threads that wait at once the account takes one, and the main thread waits for the waiter.
        assert_ends("limits", &["waits", "waiter", "idler"], |way, node| {
            way.ends_with("ran worker") && has_function(node, "compute_long")
        });
    }

    fn share(stat: &Value, key: &str) -> f64 {
        let capacity = stat["account"]["capacity_ns"].as_f64().expect("ns");
        let classes = rows(&stat["account"], "classes").iter();
        classes.filter(|c| c["class"] == key).map(ns).sum::<f64>() / capacity
    }

    /// On two CPUs one is lost to the lock, as far as other programs leave any.
    #[test]
    fn locks_of_every_kind_are_lock_waits_without_the_probe() {
        if !waits_are_known() {
            return;
        }
        for kind in ["pi", "robust", "timed", "rdwr", "flock", "fcntl"] {
            measure(|| {
                let (stat, _) = recorded(kind, &[]);
                let others = share(&stat, "low_parallelism") + share(&stat, "external_wait");
                let lock = share(&stat, "lock_wait");
                assert!(lock > 4.0 * others, "{kind}: {lock}, {others}");
                let locks = class(&stat, "lock_wait");
                let likely = locks["likely_holders_ns"].as_f64().expect("ns");
                assert!(likely >= 0.9 * ns(locks), "{kind}: {likely} of {}", ns(locks));
                let inside: f64 = rows(&locks["meanwhile"], "paths")
                    .iter()
                    .filter(|row| has_function(row, "inside"))
                    .map(ns)
                    .sum();
                assert!(inside > 0.2 * likely, "{kind}: {inside} of {likely}");
            });
        }
    }

    #[test]
    fn a_parent_in_vfork_waits_for_its_child() {
        if !waits_are_known() {
            return;
        }
        // The main thread waits for the parent.
        assert_ends("vfork", &["waits", "parent"], |way, node| {
            way.contains("parent ran") && has_function(node, "compute_in_child")
        });
        measure(|| {
            let (stat, _) = recorded("vfork", &[]);
            let capacity = stat["account"]["capacity_ns"].as_f64().expect("ns");
            let classes = rows(&stat["account"], "classes").iter();
            let io: f64 = classes.filter(|c| c["class"] == "io_wait").map(ns).sum();
            assert!(io < 0.01 * capacity, "{io} of {capacity}");
        });
    }

    #[test]
    fn a_client_waits_for_its_server() {
        if !waits_are_known() {
            return;
        }
        assert_ends("socket", &["client"], |way, node| {
            way == "client ran server" && has_function(node, "compress")
        });
    }

    #[test]
    fn a_chain_of_turns_waits_for_its_first_thread() {
        if !waits_are_known() {
            return;
        }
        let of = ["last", "third", "second"];
        assert_ends("handoff", &of, |way, _| {
            ["last < third < second ran first", "third < second ran first", "second ran first"]
                .contains(&way)
        });
    }

    #[test]
    fn a_sleep_by_choice_is_counted_and_measured() {
        if !waits_are_known() {
            return;
        }
        measure(|| {
            let (stat, _) = recorded("nap", &[]);
            let classes = rows(&stat["call_paths"], "classes");
            let naps: Vec<&Value> = (classes.iter())
                .flat_map(|class| rows(&class["chains"], "nodes"))
                .filter(|node| node["thread"] == "napper" && node["call"] == "sleep")
                .collect();
            let most = naps.iter().max_by_key(|node| node["waits"].as_u64());
            let most = most.expect("naps");
            assert_eq!(most["waits"], 25);
            let each = most["waits_ns"].as_f64().expect("ns") / 25.0;
            // As long as it asked for, and what the kernel adds on a busy machine.
            assert!((40e6..60e6).contains(&each), "{each}");
            let causes = rows(&stat["account"], "causes").iter();
            let mut chosen = causes.filter(|c| c["note"] == "chosen" && c["name"] == "nap");
            assert!(chosen.next().is_some_and(|c| ns(c) >= 0.8e9), "{}", stat["account"]["causes"]);
        });
    }

    /// The holder computes for 70 % of its holds and sleeps for 30 %: found with the lock probe, and without, where only the wake-ups
    /// tell who it is.
    #[test]
    fn what_a_lock_holder_does_is_split_right_with_the_probe_and_without() {
        if !waits_are_known() {
            return;
        }
        for args in [&["--locks"][..], &[]] {
            measure(|| {
                let (stat, printed) = recorded("lock", args);
                let locks = class(&stat, "lock_wait");
                // A function that sleeps also runs, for a few microseconds in which a sample may fall.
                let sleeps = |row: &Value| row["waited_ns"].as_f64().expect("ns");
                let runs = |row: &Value| ns(row) - sleeps(row);
                let (found, truth) = split(&locks["meanwhile"], &printed, runs, sleeps);
                // CPU-seconds: two threads wait for the lock, the asker and who joins it, and while the holder sleeps one more CPU is free.
                let n = stat["account"]["n_cpus"].as_f64().expect("CPUs");
                let (running, asleep) = (truth * (n - 1.0).min(2.0), (1.0 - truth) * n.min(2.0));
                assert_within_5_points((found, running / (running + asleep)));
                let likely = locks["likely_holders_ns"].as_f64().expect("ns");
                match args.is_empty() {
                    true => assert!(likely >= 0.9 * ns(locks), "{likely} of {}", ns(locks)),
                    false => assert!(likely <= 0.1 * ns(locks), "{likely} of {}", ns(locks)),
                }
            });
        }
    }

    /// A thread that runs alone while another waits for it, and one that comes late to a barrier, in two functions each.
    #[test]
    fn what_a_serial_phase_and_a_late_thread_run_is_split_right() {
        if !waits_are_known() {
            return;
        }
        for (mode, loss) in [("serial", "low_parallelism"), ("late", "load_imbalance")] {
            measure(|| {
                let (stat, printed) = recorded(mode, &[]);
                let lost = &class(&stat, loss)["paths"];
                let is_in = |name: &'static str| {
                    move |row: &Value| {
                        if has_function(row, name) { ns(row) } else { 0.0 }
                    }
                };
                let parts = split(lost, &printed, is_in("assemble"), is_in("smooth"));
                assert_within_5_points(parts);
            });
        }
    }

    /// In each of five runs the recorder may get no CPU while one of the threads waits.
    #[test]
    fn waits_in_read_and_write_are_told_by_the_kind_of_file() {
        if kasuri_record::perf::reach().is_none() {
            return skip("perf_event_open is refused");
        }
        let program = program("descriptors");
        measure(|| {
            let dir = scratch();
            let mut command = kasuri(dir.path());
            command.args(["record", "-q", "-o", "run.kasuri", "--"]);
            let output = run(command.arg(&program));
            assert!(output.status.success(), "{}", said(&output));
            let waits = waits_read(&dir.path().join("run.kasuri"));
            let fifo = format!("file {}", dir.path().join("fifo").display());
            for (function, kind) in [
                ("at_pipe", "pipe"),
                ("at_full_pipe", "pipe"),
                ("at_socket", "socket"),
                ("at_eventfd", "eventfd"),
                ("at_timer", "timer"),
                ("at_fifo", &fifo),
            ] {
                let there: Vec<&Vec<String>> = (waits.iter())
                    .filter(|names| names.iter().any(|name| name == function))
                    .collect();
                assert!(!there.is_empty(), "{function}: {waits:?}");
                assert!(there.iter().all(|names| names[0] == kind), "{there:?}");
            }
            // Sleep has no descriptor.
            let sleeps = waits.iter().filter(|names| names.contains(&"main".to_owned()));
            let kinds = ["pipe", "socket", "eventfd", "timer", &fifo];
            for names in sleeps {
                assert!(!kinds.contains(&&*names[0]), "{names:?}");
            }
        });
    }
}
