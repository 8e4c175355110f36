//! Files of `perf record`: the same answers as perf gives, and no bytes that do harm.
//! tests/golden/perf_data/make records them; expect.py there says what is compared, and how perf was asked.

use kasuri_import::{File, Options, load};
use kasuri_model::{ThreadIx, ThreadState, Time, Trace};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Read;
use std::path::{Path, PathBuf};

const FILES: [&str; 8] =
    ["sched", "big-endian", "compressed", "mixed", "per-thread", "pipe", "switches", "task"];

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/perf_data").join(name)
}

fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(golden(&format!("{name}.data"))).unwrap()
}

fn expected(name: &str) -> Value {
    let text = std::fs::read(golden(&format!("{name}.expected.json"))).unwrap();
    serde_json::from_slice(&text).unwrap()
}

fn read(name: &str, bytes: &[u8], salvage: bool) -> Result<Trace, kasuri_import::Error> {
    load(&[File { name, bytes }], &Options { salvage, ..Options::default() })
}

fn trace(name: &str) -> Trace {
    let trace = read(name, &bytes(name), false).unwrap();
    let problems = trace.broken_rules();
    assert!(problems.is_empty(), "{name}: {problems:?}");
    trace
}

fn stamp(trace: &Trace, time: Time) -> i64 {
    trace.origin_monotonic_ns + time.ns()
}

fn tid(trace: &Trace, thread: ThreadIx) -> i64 {
    if thread.is_some() { trace.threads[thread.ix()].tid.into() } else { -1 }
}

fn rows(value: &Value) -> Vec<Vec<i64>> {
    let rows = value.as_array().unwrap().iter();
    rows.map(|row| {
        let numbers = row.as_array().unwrap().iter();
        numbers.map(|n| n.as_i64().unwrap_or(-1)).collect()
    })
    .collect()
}

/// [CPU, ns, thread; 0 idle, -1 not known] for each change of who is on a CPU.
fn occupancy(trace: &Trace) -> Vec<Vec<i64>> {
    let mut out = Vec::new();
    for (number, cpu) in trace.cpus.iter().enumerate() {
        for ix in cpu.occupancy.start as usize..cpu.occupancy.end as usize {
            let on = &trace.occupancy;
            let who = match on.idle[ix] {
                true => 0,
                false => tid(trace, on.thread[ix]),
            };
            out.push(vec![number as i64, stamp(trace, on.start[ix]), who]);
        }
    }
    out
}

/// Those after it is known who is on the CPU. perf does not say it of anybody who was not switched in.
fn by_cpu(trace: &Trace, mut rows: Vec<Vec<i64>>) -> Vec<Vec<i64>> {
    let known: Vec<i64> = (trace.cpus.iter())
        .map(|cpu| {
            let mut ix = cpu.occupancy.clone().map(|ix| ix as usize);
            let ix =
                ix.find(|&ix| trace.occupancy.idle[ix] || trace.occupancy.thread[ix].is_some());
            stamp(trace, ix.map_or(trace.span.start, |ix| trace.occupancy.start[ix]))
        })
        .collect();
    rows.retain(|row| row[1] > known[row[0] as usize]);
    rows.sort();
    rows
}

#[test]
fn who_was_on_which_cpu_when_is_what_perf_script_says() {
    // One thread's switches away say nothing of when it came back.
    for name in FILES.into_iter().filter(|name| *name != "per-thread") {
        let trace = trace(name);
        let ours = by_cpu(&trace, occupancy(&trace));
        let theirs = by_cpu(&trace, rows(&expected(name)["occupancy"]));
        assert!(theirs.len() > 20, "{name}: only {} changes", theirs.len());
        let differ = ours.iter().zip(&theirs).find(|(a, b)| a != b);
        assert_eq!(differ, None, "{name}");
        assert_eq!(ours.len(), theirs.len(), "{name}");
    }
}

#[test]
fn switches_of_each_thread_and_its_time_on_cpus() {
    for name in FILES.into_iter().filter(|name| *name != "per-thread") {
        let trace = trace(name);
        let all = expected(name);
        let threads = all["threads"].as_object().unwrap();
        let changes: HashSet<(i64, i64)> =
            rows(&all["occupancy"]).iter().map(|row| (row[0], row[1])).collect();
        let came: HashSet<Vec<i64>> = rows(&all["occupancy"]).into_iter().collect();
        let mut ours: BTreeMap<String, Vec<i64>> = BTreeMap::new();
        for thread in &trace.threads {
            let row = ours.entry(thread.tid.to_string()).or_insert(vec![0; 3]);
            row[0] += i64::from(thread.switches_in);
            row[1] += i64::from(thread.switches_out);
            let states = thread.states.start as usize..thread.states.end as usize;
            // Slices of which both ends were seen.
            for ix in states.clone() {
                let from = trace.states.start[ix];
                let to = match ix + 1 < states.end {
                    true => trace.states.start[ix + 1],
                    false => thread.alive.end,
                };
                let cpu = trace.states.cpu[ix].into();
                if trace.states.state[ix] == ThreadState::Running
                    && came.contains(&vec![cpu, stamp(&trace, from), thread.tid.into()])
                    && changes.contains(&(cpu, stamp(&trace, to)))
                {
                    row[2] += (to - from).ns();
                }
            }
        }
        for (tid, theirs) in threads {
            assert_eq!(
                ours[tid],
                rows(&Value::Array(vec![theirs.clone()]))[0],
                "{name}: thread {tid}"
            );
        }
    }
}

#[test]
fn wakeups_and_their_latencies() {
    for name in FILES {
        let trace = trace(name);
        let wakes = &trace.wakeups;
        let theirs = rows(&expected(name)["wakeups"]);
        assert_eq!(wakes.time.len(), theirs.len(), "{name}");
        let mut exact = 0;
        for (ix, theirs) in theirs.iter().enumerate() {
            let waker = tid(&trace, wakes.waker[ix]);
            let ours = [
                stamp(&trace, wakes.time[ix]),
                tid(&trace, wakes.wakee[ix]),
                wakes.latency[ix].ns(),
            ];
            assert_eq!(ours[..2], [theirs[0], theirs[2]], "{name}");
            // perf names whom an interrupt interrupted.
            assert!(waker == -1 || waker == theirs[1], "{name}: {ours:?}");
            if theirs[3] >= 0 && name != "per-thread" {
                assert_eq!(ours[2], theirs[3], "{name}: {ours:?}");
                exact += 1;
            }
        }
        assert!(
            exact > 10 || theirs.is_empty() || name == "per-thread",
            "{name}: {exact} latencies"
        );
    }
}

#[test]
fn migrations() {
    for name in FILES {
        let trace = trace(name);
        let moves = &trace.migrations;
        let theirs = rows(&expected(name)["migrations"]);
        if theirs.is_empty()
            && !expected(name)["events"]
                .as_object()
                .unwrap()
                .contains_key("sched:sched_migrate_task")
        {
            continue;
        }
        let ours: Vec<Vec<i64>> = (0..moves.time.len())
            .map(|ix| {
                let cpus = [moves.from_cpu[ix], moves.to_cpu[ix]].map(i64::from);
                vec![stamp(&trace, moves.time[ix]), tid(&trace, moves.thread[ix]), cpus[0], cpus[1]]
            })
            .collect();
        assert_eq!(ours, theirs, "{name}");
    }
}

/// Every row of `perf sched timehist` is a slice of ours, with its delay; what has no row there is told in expect.py.
#[test]
fn slices_and_delays_are_those_of_timehist() {
    let (trace, expected) = (trace("sched"), expected("sched"));
    let states = &trace.states;
    let wakes = &trace.wakeups;
    let delays: HashMap<(i64, Time), Time> = (0..wakes.time.len())
        .map(|ix| {
            let came = wakes.time[ix] + wakes.latency[ix];
            ((tid(&trace, wakes.wakee[ix]), came), wakes.time[ix])
        })
        .collect();
    // By CPU and end in us: thread, ns it ran, ns from its wake-up.
    let mut slices: HashMap<(i64, i64, i64), (i64, i64)> = HashMap::new();
    for thread in &trace.threads {
        let own = thread.states.start as usize..thread.states.end as usize;
        let mut left = Time::MIN;
        for ix in own.clone() {
            let end = match ix + 1 < own.end {
                true => states.start[ix + 1],
                false => thread.alive.end,
            };
            if states.state[ix] == ThreadState::Running {
                let key = (states.cpu[ix].into(), stamp(&trace, end) / 1000, thread.tid.into());
                let woken = delays.get(&(thread.tid.into(), states.start[ix]));
                let delay = woken.filter(|woken| **woken > left);
                let delay = delay.map_or(0, |woken| (states.start[ix] - *woken).ns());
                slices.insert(key, ((end - states.start[ix]).ns(), delay));
                left = end;
            }
        }
    }
    let (mut compared, mut first) = (0, 0);
    for row in rows(&expected["timehist"]) {
        let [us, cpu, tid, delay_us, ran_us] = row[..] else {
            panic!("{row:?}");
        };
        if ran_us == 0 {
            first += 1;
            continue;
        }
        let found = match tid {
            -1 => (slices.iter())
                .find(|((on, end, _), _)| (*on, *end) == (cpu, us))
                .map(|(_, slice)| slice),
            _ => slices.get(&(cpu, us, tid)),
        };
        let (ran, delay) = *found.unwrap_or_else(|| panic!("no slice for {row:?}"));
        assert_eq!(ran / 1000, ran_us, "{row:?}");
        assert!(tid == -1 || delay / 1000 == delay_us, "{row:?}: {delay}");
        compared += 1;
    }
    assert_eq!(first, expected["timehist_first"].as_i64().unwrap());
    assert!(compared > 100, "only {compared} slices");
}

/// Reads damaged bytes both ways; strict reading says where, and salvage gives columns that keep their rules.
fn survive(name: &str, bytes: &[u8]) {
    if let Err(error) = read(name, bytes, false) {
        let text = error.to_string();
        assert!(text.contains("byte ") || text.contains(name), "{text}");
    }
    if let Ok(trace) = read(name, bytes, true) {
        assert_eq!(trace.broken_rules(), Vec::<String>::new(), "{name}");
    }
}

#[test]
fn a_file_cut_anywhere_is_an_error_with_its_place() {
    for name in ["task", "pipe", "compressed"] {
        let all = bytes(name);
        for n in (0..all.len()).rev().step_by(all.len() / 400 + 1).chain(0..300) {
            let cut = &all[..n];
            let at_record = n >= 16 && name == "pipe";
            if !at_record {
                assert!(read(name, cut, false).is_err(), "{name} cut to {n}");
            }
            survive(name, cut);
        }
    }
}

#[test]
fn flipped_bytes_never_panic() {
    let mut seed = 0x5eed_u64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    for name in FILES {
        let all = bytes(name);
        for _ in 0..40 {
            let mut bad = all.clone();
            for _ in 0..1 + random() % 4 {
                let at = random() as usize % bad.len();
                bad[at] = random() as u8;
            }
            survive(name, &bad);
        }
    }
}

#[test]
fn a_bomb_is_refused_before_memory_is_taken() {
    // The compressed record of the golden file, with a stream of zeros in its place.
    let all = bytes("compressed");
    let packed = zstd::encode_all(std::io::repeat(0).take(256 << 20), 19).unwrap();
    let mut pipe = all_up_to_records(&all);
    let mut record = 81u32.to_le_bytes().to_vec();
    record.extend_from_slice(&[0, 0]);
    record.extend_from_slice(&(packed.len() as u16 + 8).to_le_bytes());
    record.extend_from_slice(&packed);
    let size = record.len() as u64;
    pipe.extend_from_slice(&record);
    // The records' length in the header, and no features behind them.
    pipe[48..56].copy_from_slice(&size.to_le_bytes());
    pipe[72..104].fill(0);
    let error = read("bomb", &pipe, false).unwrap_err().to_string();
    assert!(error.contains("needed at most 1000 times"), "{error}");
}

/// The file up to where its records begin.
fn all_up_to_records(bytes: &[u8]) -> Vec<u8> {
    let at = u64::from_le_bytes(bytes[40..48].try_into().unwrap());
    bytes[..at as usize].to_vec()
}

/// A number at `at` of a little-endian file.
fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// Places of the records: offset, type, length.
fn records(bytes: &[u8]) -> Vec<(usize, u32, usize)> {
    let mut at = u64_at(bytes, 40) as usize;
    let end = at + u64_at(bytes, 48) as usize;
    let mut out = Vec::new();
    while at < end {
        let kind = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let size = usize::from(u16::from_le_bytes([bytes[at + 6], bytes[at + 7]]));
        out.push((at, kind, size));
        at += size;
    }
    out
}

/// The kernel marks names that came with another program; a tracepoint of execs tells it too, and both are one.
#[test]
fn each_exec_begins_another_life_once() {
    for name in ["switches", "per-thread", "mixed", "sched", "task"] {
        let (bytes, trace) = (bytes(name), trace(name));
        let marked = |at: usize, kind| kind == 3 && bytes[at + 5] & 1 << 5 != 0;
        let marked = records(&bytes).iter().filter(|(at, kind, _)| marked(*at, *kind)).count();
        assert!(marked > 0 && trace.execs.time.len() == marked, "{name}: {marked}");
    }
}

/// Where the section of a header feature is described.
fn feature_at(bytes: &[u8], feature: u32) -> usize {
    let bits = u64_at(bytes, 72);
    assert!(bits >> feature & 1 != 0, "the file has feature {feature}");
    let before = (bits & ((1 << feature) - 1)).count_ones() as usize;
    (u64_at(bytes, 40) + u64_at(bytes, 48)) as usize + before * 16
}

#[test]
fn broken_features_that_the_records_do_not_need_are_said_and_left_out() {
    const HOSTNAME: u32 = 3;
    const TRACING_DATA: u32 = 1;
    let good = trace("sched");
    let mut bad = bytes("sched");
    let section = feature_at(&bad, HOSTNAME);
    let text = u64_at(&bad, section) as usize;
    bad[text..text + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    let read_bad = read("sched", &bad, false).unwrap();
    assert_eq!(read_bad.info.host, "");
    assert_eq!(read_bad.n_kernel_events, good.n_kernel_events);
    let said = read_bad.missing();
    let said: Vec<_> = said.iter().filter(|s| s.contains("feature")).collect();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].starts_with("1 of the header's features"), "{}", said[0]);
    assert!(said[0].contains("perf header feature 3: byte"), "{}", said[0]);
    assert!(!good.missing().iter().any(|s| s.contains("feature")));
    // Without the format files of tracepoints nothing can be read.
    let mut bad = bytes("sched");
    let formats = u64_at(&bad, feature_at(&bad, TRACING_DATA)) as usize;
    bad[formats] ^= 0xff;
    assert!(read("sched", &bad, false).is_err());
}

/// Events with a layout of their own each, as beside Intel PT: the id in a record says which it is.
#[test]
fn records_of_events_that_the_file_does_not_describe_are_counted() {
    const SAMPLE: u32 = 9;
    let good = trace("mixed");
    let mut bad = bytes("mixed");
    let samples: Vec<_> =
        (records(&bad).into_iter()).filter(|(_, kind, _)| *kind == SAMPLE).collect();
    let last = &samples[samples.len() - 3..];
    for &(at, _, _) in last {
        // PERF_SAMPLE_IDENTIFIER comes first.
        bad[at + 8..at + 16].copy_from_slice(&0x1234_5678_9abc_u64.to_le_bytes());
    }
    let read_bad = read("mixed", &bad, false).unwrap();
    assert_eq!(read_bad.broken_rules(), Vec::<String>::new());
    assert!(read_bad.n_kernel_events < good.n_kernel_events);
    let said = read_bad.missing();
    assert!(
        said.iter().any(
            |s| s.starts_with("3 of the records are of events that the file does not describe")
        ),
        "{said:?}"
    );
    assert!(!good.missing().iter().any(|s| s.contains("does not describe")));
}

/// The file as recorded without PERF_SAMPLE_CPU: where the CPU was is a number that means nothing.
fn without_cpus(name: &str) -> Vec<u8> {
    const CPU: u64 = 1 << 7;
    const STREAM_ID: u64 = 1 << 9;
    let mut bytes = bytes(name);
    let each = u64_at(&bytes, 16) as usize;
    let (from, size) = (u64_at(&bytes, 24) as usize, u64_at(&bytes, 32) as usize);
    for attr in (from..from + size).step_by(each) {
        let kind = u64_at(&bytes, attr + 24);
        assert_eq!(kind & (CPU | STREAM_ID), CPU, "{name}");
        bytes[attr + 24..attr + 32].copy_from_slice(&(kind ^ CPU ^ STREAM_ID).to_le_bytes());
    }
    bytes
}

#[test]
fn switches_without_their_cpus_are_refused_with_the_way_to_them() {
    const ID_INDEX: u32 = 69;
    for name in ["sched", "mixed", "switches"] {
        let mut bad = without_cpus(name);
        for (at, kind, _) in records(&bad) {
            if kind == ID_INDEX {
                // It says the CPU of each id: a record that Kasuri has no use for stands there instead.
                bad[at..at + 4].copy_from_slice(&68u32.to_le_bytes());
            }
        }
        let error = read(name, &bad, false).unwrap_err().to_string();
        assert!(error.contains("records without a CPU"), "{name}: {error}");
        assert!(error.contains("perf record --sample-cpu"), "{name}: {error}");
    }
}
