//! trace.dat: the golden files' answers are those that `trace-cmd report`'s text gives (tests/golden/trace-dat/make).
use kasuri_import::{Error, File, Options, load};
use kasuri_model::{ThreadIx, Time, Trace};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

mod craft;

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/trace-dat").join(name)
}

fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(golden(name)).unwrap()
}

fn read(bytes: &[u8]) -> Trace {
    try_read(bytes, false).unwrap()
}

fn try_read(bytes: &[u8], salvage: bool) -> Result<Trace, Error> {
    let file = File { name: "trace.dat", bytes };
    load(&[file], &Options { salvage, ..Options::default() })
}

type PerThread = BTreeMap<i32, i64>;

fn per_thread(value: &Value) -> PerThread {
    let rows = value.as_object().unwrap().iter();
    rows.map(|(tid, n)| (tid.parse().unwrap(), n.as_i64().unwrap())).collect()
}

/// Sums over threads, by tid; threads with nothing are left out.
fn sums(trace: &Trace, of: impl Fn(usize) -> i64) -> PerThread {
    let mut out = PerThread::new();
    for (ix, thread) in trace.threads.iter().enumerate() {
        *out.entry(thread.tid).or_default() += of(ix);
    }
    out.retain(|_, n| *n != 0);
    out
}

/// Time on CPUs between two switches that were both seen: not before a CPU's first and not after its last.
fn on_cpu(trace: &Trace) -> PerThread {
    let mut ns = vec![0; trace.threads.len()];
    for cpu in &trace.cpus {
        let rows = cpu.occupancy.start as usize..cpu.occupancy.end as usize;
        let o = &trace.occupancy;
        // The first row holds who was there before the first switch.
        for row in rows.clone().skip(1) {
            if row + 1 < rows.end && o.thread[row].is_some() {
                ns[o.thread[row].ix()] += (o.start[row + 1] - o.start[row]).ns();
            }
        }
    }
    sums(trace, |ix| ns[ix])
}

fn tid(trace: &Trace, thread: ThreadIx) -> i64 {
    trace.threads[thread.ix()].tid.into()
}

/// Compares a trace with what trace-cmd's text says.
fn compare(name: &str, trace: &Trace) {
    let text = std::fs::read_to_string(golden(&format!("{name}.expected.json"))).unwrap();
    let wanted: Value = serde_json::from_str(&text).unwrap();
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for kind in &trace.info.event_costs {
        let (_, event) = kind.name.split_once('/').unwrap();
        counts.insert(event.into(), kind.n);
    }
    let n: BTreeMap<String, u64> = serde_json::from_value(wanted["events"].clone()).unwrap();
    assert_eq!(counts, n, "{name}: events");
    let origin = trace.origin_monotonic_ns;
    let times = |key: &str| per_thread(&wanted[key]);
    let t = &trace.threads;
    assert_eq!(sums(trace, |ix| t[ix].switches_in.into()), times("switches_in"), "{name}");
    assert_eq!(sums(trace, |ix| t[ix].switches_out.into()), times("switches_out"), "{name}");
    assert_eq!(on_cpu(trace), times("on_cpu_ns"), "{name}: time on CPUs");
    let moved = |ix: usize| {
        let by = |thread: &&ThreadIx| thread.ix() == ix;
        trace.migrations.thread.iter().filter(by).count() as i64
    };
    assert_eq!(sums(trace, moved), times("migrations"), "{name}");
    let w = &trace.wakeups;
    let mut wakeups: Vec<(i64, i64, Option<i64>)> = (0..w.time.len())
        .map(|row| {
            let latency = Some(w.latency[row].ns()).filter(|&ns| ns >= 0);
            (w.time[row].0 + origin, tid(trace, w.wakee[row]), latency)
        })
        .collect();
    wakeups.sort();
    let mut said: Vec<(i64, i64, Option<i64>)> =
        serde_json::from_value(wanted["wakeups"].clone()).unwrap();
    said.sort();
    assert_eq!(wakeups.len(), said.len(), "{name}: wake-ups");
    for (ours, theirs) in wakeups.iter().zip(&said) {
        assert_eq!(ours, theirs, "{name}: stamp, thread and latency of a wake-up");
    }
    let marks = wanted["marks"].as_array().unwrap();
    compare_marks(name, trace, marks);
    assert_eq!(trace.broken_rules(), [""; 0], "{name}");
    assert_eq!(trace.disagreements(), [""; 0], "{name}");
}

/// Each `B`, `C` and message is there at its stamp.
fn compare_marks(name: &str, trace: &Trace, marks: &[Value]) {
    let origin = trace.origin_monotonic_ns;
    for mark in marks {
        let (ns, text) = (mark[0].as_i64().unwrap(), mark[1].as_str().unwrap());
        let at = Time(ns - origin);
        let parts: Vec<&str> = text.split('|').collect();
        let found = match parts[..] {
            ["B", _, wanted] => {
                let s = &trace.slices;
                (0..s.start.len())
                    .any(|ix| s.start[ix] == at && trace.strings.get(s.name[ix]) == wanted)
            }
            ["E", ..] => trace.slices.end.contains(&at),
            ["S", _, wanted, _] => {
                let s = &trace.slices;
                (0..s.start.len()).any(|ix| {
                    let is_track = tid(trace, s.thread[ix]) < 0;
                    is_track && s.start[ix] == at && trace.strings.get(s.name[ix]) == wanted
                })
            }
            ["F", ..] => trace.slices.end.contains(&at),
            ["C", _, wanted, value] => {
                let counter = |c: &&kasuri_model::Counter| trace.strings.get(c.name) == wanted;
                let counter = trace.counters.iter().find(counter).unwrap();
                let row = counter.time.iter().position(|&t| t == at).unwrap();
                counter.value[row] == value.parse::<f64>().unwrap()
            }
            ["I", _, wanted] | [wanted] => {
                let i = &trace.instants;
                (0..i.time.len())
                    .any(|ix| i.time[ix] == at && trace.strings.get(i.name[ix]) == wanted)
            }
            _ => panic!("{name}: no rule for {text:?}"),
        };
        assert!(found || text == "E", "{name}: {text:?} at {ns}");
    }
}

#[test]
fn same_answers_as_trace_cmds_text() {
    for name in ["v6", "instances", "tsc", "offset"] {
        compare(name, &read(&bytes(&format!("{name}.dat"))));
    }
}

#[test]
fn versions_and_compressions_are_the_same_trace() {
    for file in ["v7-none.dat", "v7-zstd.dat"] {
        compare("v6", &read(&bytes(file)));
    }
    let v7 = bytes("v7-none.dat");
    compare("v6", &read(&craft::compressed(&v7, "zlib")));
    compare("v6", &read(&craft::compressed(&v7, "zstd")));
}

#[test]
fn other_byte_orders_and_words_are_the_same_trace() {
    let v6 = bytes("v6.dat");
    for (big_endian, long_bytes) in [(false, 8), (false, 4), (true, 8), (true, 4)] {
        let crafted = craft::for_machine(&v6, big_endian, long_bytes);
        let dat = kasuri_format::trace_dat::TraceDat::parse(&crafted).unwrap();
        assert_eq!(dat.big_endian, big_endian);
        assert_eq!(usize::from(dat.long_bytes), long_bytes);
        compare("v6", &read(&crafted));
    }
}

#[test]
fn overwritten_events_are_a_loss_with_their_number() {
    let trace = read(&bytes("lost.dat"));
    let text = std::fs::read_to_string(golden("lost.expected.json")).unwrap();
    let wanted: Value = serde_json::from_str(&text).unwrap();
    let said: u64 =
        wanted["events"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
    assert_eq!(trace.n_kernel_events, said);
    let lost: Vec<(&str, Option<u16>, u64)> =
        (trace.losses.iter()).map(|l| (l.cause.as_str(), l.cpu, l.count)).collect();
    // `trace-cmd report` on CPU 0 and 1 of this file: the numbers of its lines [N EVENTS DROPPED].
    let dropped = wanted["dropped"].as_object().unwrap();
    for (cpu, n) in dropped {
        let row = ("kernel buffer overrun", cpu.parse().ok(), n.as_u64().unwrap());
        assert!(lost.contains(&row), "{row:?} in {lost:?}");
    }
    assert_eq!(lost.len(), dropped.len(), "{lost:?}");
    assert_eq!(trace.broken_rules(), [""; 0]);
}

/// Reads damaged bytes both ways: an error that says where, or a trace that keeps the rules. Never a panic.
fn survives(bytes: &[u8]) {
    if let Err(error) = try_read(bytes, false) {
        let text = error.to_string();
        assert!(
            text.contains("byte ")
                || text.contains("more than")
                || text.contains("needed a kasuri recording"),
            "{text}"
        );
    }
    if let Ok(trace) = try_read(bytes, true) {
        assert_eq!(trace.broken_rules(), [""; 0]);
    }
}

/// Every place, with KASURI_EVERY_BYTE; else, as that takes minutes, one in `step`, which is prime.
fn places(n: usize, step: usize) -> impl Iterator<Item = usize> {
    let all = std::env::var_os("KASURI_EVERY_BYTE").is_some();
    (0..n).step_by(if all { 1 } else { step })
}

#[test]
fn cut_anywhere() {
    for (name, step) in [("v6.dat", 47), ("v7-zstd.dat", 13)] {
        let whole = bytes(name);
        places(whole.len(), step).for_each(|n| survives(&whole[..n]));
    }
}

#[test]
fn a_cut_file_keeps_the_pages_that_are_there() {
    let whole = bytes("v6.dat");
    let cut = &whole[..whole.len() - 5000];
    let error = try_read(cut, false).unwrap_err().to_string();
    assert!(error.starts_with("trace.dat: pages of a CPU: byte "), "{error}");
    let (all, some) = (read(&whole), try_read(cut, true).unwrap());
    assert!(some.n_kernel_events > 0 && some.n_kernel_events < all.n_kernel_events);
    assert!(some.losses.iter().any(|l| l.cause.starts_with("file damaged")));
}

#[test]
fn any_byte_changed() {
    for (name, step) in [("v6.dat", 71), ("v7-zstd.dat", 19)] {
        let mut bytes = bytes(name);
        for at in places(bytes.len(), step) {
            let old = bytes[at];
            bytes[at] ^= [0x01, 0x80, 0xff, 0x10][at % 4];
            survives(&bytes);
            bytes[at] = old;
        }
    }
}

#[test]
fn claims_of_absurd_lengths_are_refused_at_once() {
    let v7 = craft::compressed(&bytes("v7-none.dat"), "zstd");
    let dat = kasuri_format::trace_dat::TraceDat::parse(&v7).unwrap();
    let cpu = dat.buffers[0].cpus[0];
    // The first chunk of a CPU claims 4 GiB.
    let mut bomb = v7.clone();
    let at = cpu.offset as usize + 8;
    bomb[at..at + 4].copy_from_slice(&[0xff; 4]);
    let error = try_read(&bomb, false).unwrap_err().to_string();
    assert!(error.contains("4294967295 bytes from"), "{error}");
    survives(&bomb);
    // A number of CPUs for which there is no room, in version 6.
    let v6 = bytes("v6.dat");
    let at = v6.windows(10).position(|w| w == b"options  \0").unwrap() - 4;
    let mut many = v6.clone();
    many[at..at + 4].copy_from_slice(&8000u32.to_le_bytes());
    let error = try_read(&many, false).unwrap_err().to_string();
    assert!(error.contains("8000 CPUs"), "{error}");
    survives(&many);
}
