//! Chrome JSON of several writers: the answers of a reader that knows decimal numbers, and no bytes that do harm.
//! tests/golden/chrome/make records them.
use crate::harm;
use kasuri_import::{File, Options, load, unpack};
use kasuri_model::{Time, Trace};
use serde_json::Value;

fn golden(name: &str) -> Vec<u8> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/chrome");
    let bytes = std::fs::read(format!("{folder}/{name}")).unwrap();
    unpack(name, &bytes).unwrap().into_owned()
}

fn read(bytes: &[u8]) -> Trace {
    let file = File { name: "t.json", bytes };
    let trace = load(&[file], &Options::default()).unwrap();
    let problems = trace.broken_rules();
    assert!(problems.is_empty(), "{problems:?}");
    trace
}

type Row = (i32, i32, String, i64, i64);
/// Process, thread, name, when.
type InstantRow = (i32, i32, String, i64);

fn rows(trace: &Trace) -> (Vec<Row>, Vec<InstantRow>) {
    let who = |thread: kasuri_model::ThreadIx| {
        let row = &trace.threads[thread.ix()];
        (trace.processes[row.process.ix()].pid, row.tid)
    };
    let at = |time: Time| trace.origin_monotonic_ns + time.ns();
    let s = &trace.slices;
    let slice = |i: usize| {
        let (pid, tid) = who(s.thread[i]);
        let name = trace.strings.get(s.name[i]).to_owned();
        (pid, tid, name, at(s.start[i]), (s.end[i] - s.start[i]).ns())
    };
    let whole = (0..s.start.len()).filter(|&i| s.open[i] == 0).map(slice);
    // Rows of tracks are asynchronous slices.
    let mut slices: Vec<_> = whole.filter(|r| r.1 >= 0).collect();
    let p = &trace.instants;
    let point = |i: usize| {
        let (pid, tid) = who(p.thread[i]);
        (pid, tid, trace.strings.get(p.name[i]).to_owned(), at(p.time[i]))
    };
    let mut points: Vec<_> = (0..p.time.len()).map(point).filter(|r| r.1 >= 0).collect();
    slices.sort();
    points.sort();
    (slices, points)
}

fn compare(name: &str, file: &str) {
    let (slices, points) = rows(&read(&golden(file)));
    let wanted: Value = serde_json::from_slice(&golden(&format!("{name}.expected.json"))).unwrap();
    let mut theirs: Vec<Row> = serde_json::from_value(wanted["slices"].clone()).unwrap();
    theirs.sort();
    let differ = slices.iter().zip(&theirs).find(|(a, b)| a != b);
    assert_eq!(differ, None, "{name}");
    assert_eq!(slices.len(), theirs.len(), "{name}");
    let mut theirs: Vec<(i32, i32, String, i64)> =
        serde_json::from_value(wanted["instants"].clone()).unwrap();
    theirs.sort();
    assert_eq!(points, theirs, "{name}");
}

#[test]
fn slices_of_viztracer_to_the_nanosecond() {
    compare("viztracer", "viztracer.json.gz");
}

#[test]
fn slices_of_node() {
    compare("node", "node.json");
}

#[test]
fn slices_of_chromium_in_an_array_that_does_not_end() {
    compare("chromium", "chromium.json.gz");
}

#[test]
fn cut_and_flipped_files_do_no_harm() {
    let node = golden("node.json");
    harm::cut_everywhere("node.json", &node[..2000], 1);
    harm::flip_everywhere("node.json", &node[..2000], 1);
    harm::cut_everywhere("node.json", &node, 499);
    harm::flip_everywhere("node.json", &node, 499);
}

#[test]
fn of_events_that_begin_together_the_longest_is_outside() {
    let event = |name: &str, ts: u32, dur: u32| {
        format!(r#"{{"ph":"X","pid":1,"tid":1,"name":"{name}","ts":{ts},"dur":{dur}}}"#)
    };
    let events = [
        event("inner", 10, 5),
        event("outer", 10, 20),
        event("middle", 10, 9),
        event("later", 40, 5),
    ];
    let text = format!("[{}]", events.join(","));
    let file = File { name: "trace.json", bytes: text.as_bytes() };
    let trace = load(&[file], &Options::default()).unwrap();
    assert_eq!(trace.broken_rules(), Vec::<String>::new());
    let s = &trace.slices;
    let rows: Vec<_> = (0..s.start.len())
        .map(|i| (trace.strings.get(s.name[i]), s.depth[i], (s.end[i] - s.start[i]).ns()))
        .collect();
    assert_eq!(
        rows,
        [("outer", 0, 20_000), ("middle", 1, 9000), ("inner", 2, 5000), ("later", 0, 5000)]
    );
}

#[test]
fn events_that_are_no_list_are_refused() {
    for (value, told) in [("5", "5"), ("null", "null"), ("\"\u{1b}[2J\"", r"\u{1b}")] {
        let text = format!("{{\"traceEvents\": {value}}}");
        let file = kasuri_import::File { name: "x.json", bytes: text.as_bytes() };
        let error = kasuri_import::load(&[file], &kasuri_import::Options::default());
        let error = error.unwrap_err().to_string();
        let wanted = "x.json: is JSON whose `traceEvents` is no list of events: ";
        assert!(error.starts_with(wanted) && error.contains(told), "{error}");
    }
}
