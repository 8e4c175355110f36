//! Perfetto traces: the answers of a reader that uses Perfetto's own messages, and no bytes that do harm.
//! tests/golden/perfetto/make writes them.
use crate::harm;
use kasuri_import::{File, Options, load};
use kasuri_model::{SliceKind, ThreadIx, Time, Trace};
use serde_json::{Value, json};

fn golden(name: &str) -> Vec<u8> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/perfetto");
    std::fs::read(format!("{folder}/{name}")).unwrap()
}

fn expected(name: &str) -> Value {
    serde_json::from_slice(&golden(&format!("{name}.expected.json"))).unwrap()
}

fn trace(name: &str) -> Trace {
    let bytes = golden(&format!("{name}.pftrace"));
    let file = File { name, bytes: &bytes };
    let trace = load(&[file], &Options::default()).unwrap();
    let problems = trace.broken_rules();
    assert!(problems.is_empty(), "{name}: {problems:?}");
    trace
}

fn stamp(trace: &Trace, time: Time) -> i64 {
    trace.origin_monotonic_ns + time.ns()
}

fn tid(trace: &Trace, thread: ThreadIx) -> i32 {
    trace.threads.get(thread.ix()).map_or(-1, |t| t.tid)
}

type Slice = (i32, i32, String, i64, i64);

/// [process, thread, name, start, length] of the slices of threads of which both ends were seen.
fn slices(trace: &Trace) -> Vec<Slice> {
    let s = &trace.slices;
    let whole = (0..s.start.len()).filter(|&i| s.open[i] == 0 && s.kind[i] == SliceKind::Work);
    let row = |i: usize| {
        let thread = &trace.threads[s.thread[i].ix()];
        let pid = trace.processes[thread.process.ix()].pid;
        let name = match trace.strings.get(s.name[i]) {
            "(no name)" => String::new(),
            name => name.to_owned(),
        };
        (pid, thread.tid, name, stamp(trace, s.start[i]), (s.end[i] - s.start[i]).ns())
    };
    let mut rows: Vec<_> = whole.map(row).filter(|r| r.1 > 0).collect();
    rows.sort();
    rows
}

fn expected_slices(value: &Value) -> Vec<Slice> {
    let mut rows: Vec<Slice> = serde_json::from_value(value["slices"].clone()).unwrap();
    rows.sort();
    rows
}

#[test]
fn chromium_slices_are_those_of_the_official_messages() {
    let (ours, theirs) = (slices(&trace("chromium")), expected_slices(&expected("chromium")));
    assert!(theirs.len() > 1000);
    assert_eq!(ours.len(), theirs.len());
    let differ = ours.iter().zip(&theirs).find(|(a, b)| a != b);
    assert_eq!(differ, None);
}

#[test]
fn compact_events_marks_losses_and_compressed_packets() {
    let (trace, wanted) = (trace("sched"), expected("sched"));
    let at = |time| stamp(&trace, time);
    assert_eq!(json!([at(trace.span.start), at(trace.span.end)]), wanted["span"]);
    let mut occupancy = Vec::new();
    for (cpu, row) in trace.cpus.iter().enumerate() {
        for i in row.occupancy.clone().map(|i| i as usize) {
            let o = &trace.occupancy;
            let who = if o.idle[i] { 0 } else { tid(&trace, o.thread[i]) };
            occupancy.push(json!([cpu, at(o.start[i]), who]));
        }
    }
    assert_eq!(Value::from(occupancy), wanted["occupancy"]);
    let w = &trace.wakeups;
    let wakeups = (0..w.time.len()).map(|i| {
        let (waker, wakee) = (tid(&trace, w.waker[i]), tid(&trace, w.wakee[i]));
        json!([at(w.time[i]), waker, wakee, w.cpu[i], w.latency[i].ns()])
    });
    assert_eq!(Value::from(wakeups.collect::<Vec<_>>()), wanted["wakeups"]);
    assert_eq!(slices(&trace), expected_slices(&wanted));
    let losses = trace.losses.iter().map(|l| json!([l.cpu, at(l.when.start), at(l.when.end)]));
    assert_eq!(Value::from(losses.collect::<Vec<_>>()), wanted["lost"]);
    for process in &trace.processes {
        let name = &wanted["processes"][process.pid.to_string()];
        assert_eq!(trace.strings.get(process.name), name.as_str().unwrap());
    }
}

#[test]
fn cut_and_flipped_files_do_no_harm() {
    harm::cut_everywhere("sched.pftrace", &golden("sched.pftrace"), 1);
    harm::flip_everywhere("sched.pftrace", &golden("sched.pftrace"), 1);
    let real = golden("chromium.pftrace");
    harm::cut_everywhere("chromium.pftrace", &real, 2999);
    harm::flip_everywhere("chromium.pftrace", &real, 2999);
}

#[test]
fn a_cut_file_says_where_and_salvage_keeps_the_rest() {
    let bytes = golden("chromium.pftrace");
    let cut = &bytes[..bytes.len() - 1];
    let file = File { name: "t.pftrace", bytes: cut };
    let error = load(&[file], &Options::default()).unwrap_err().to_string();
    assert!(error.starts_with("t.pftrace: protobuf field: byte 119"), "{error}");
    let kept = load(&[file], &Options { salvage: true, ..Options::default() }).unwrap();
    let whole = trace("chromium");
    assert!(kept.slices.start.len() + 2 >= whole.slices.start.len());
    assert!(kept.losses.iter().any(|l| l.cause.starts_with("file damaged at byte")));
}
