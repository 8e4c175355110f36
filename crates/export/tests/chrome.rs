//! The Trace Event export, read back with an independent JSON reader: times to the ns (the format has microseconds with
//! decimals), escaped names, rows of CPUs and threads, arrows with both ends, and an empty recording.
mod common;
use common::*;
use serde_json::Value;

fn exported() -> Value {
    let mut out = Vec::new();
    kasuri_export::chrome::write(&sample(), &mut out).unwrap();
    serde_json::from_slice(&out).expect("valid JSON whatever the names")
}

fn events(json: &Value, ph: &str) -> Vec<Value> {
    let all = json["traceEvents"].as_array().unwrap();
    all.iter().filter(|e| e["ph"] == ph).cloned().collect()
}

fn named<'a>(events: &'a [Value], name: &str) -> Vec<&'a Value> {
    events.iter().filter(|e| e["name"] == name).collect()
}

#[test]
fn chrome_times_keep_every_nanosecond() {
    let mut out = Vec::new();
    kasuri_export::chrome::write(&sample(), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    // 5,000,000,000,123 + 110 ns, 790 ns long.
    assert!(
        text.contains("\"ts\":5000000000.233,\"dur\":0.790"),
        "{text}"
    );
}

#[test]
fn chrome_names_are_escaped() {
    let json = exported();
    let slices = events(&json, "X");
    assert_eq!(
        named(&slices, NASTY).len(),
        3,
        "one slice and the worker's two stretches on its CPU"
    );
    let solve = named(&slices, "solve");
    assert_eq!(solve[0]["args"][NASTY], NASTY);
    assert_eq!(solve[0]["args"]["time"], -3);
}

#[test]
fn chrome_cpu_rows_hold_who_ran() {
    let json = exported();
    let rows: Vec<(i64, i64, f64)> = events(&json, "X")
        .iter()
        .filter(|e| e["pid"] == 0 && e["tid"].as_i64() < Some(8) && e["cat"].is_null())
        .map(|e| {
            (
                e["tid"].as_i64().unwrap(),
                e["args"]["tid"].as_i64().unwrap(),
                e["dur"].as_f64().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        rows,
        [
            (0, 100, 0.3),
            (0, 7, 0.1),
            (0, 100, 0.5),
            (1, 101, 0.4),
            (1, 101, 0.2)
        ]
    );
}

#[test]
fn chrome_states_name_the_waker_and_the_preemptor() {
    let json = exported();
    let all = events(&json, "X");
    assert_eq!(named(&all, "runnable")[0]["args"]["by"], "quake 100");
    assert_eq!(named(&all, "preempted")[0]["args"]["by"], "kworker/0:1 7");
    let states: Vec<_> = all.iter().filter(|e| e["cat"] == "state").collect();
    assert_eq!(states.len(), 10, "all but the unknown one");
    assert!(
        states
            .iter()
            .all(|e| e["tid"].as_i64().unwrap() > kasuri_export::chrome::STATE_ROW)
    );
}

#[test]
fn chrome_held_locks_cross_work_as_async_slices() {
    let json = exported();
    let (begin, end) = (events(&json, "b"), events(&json, "e"));
    assert_eq!((begin.len(), end.len()), (1, 1));
    assert_eq!(begin[0]["id"], end[0]["id"]);
    assert_eq!(begin[0]["args"]["object"], "0xffff800012345678");
    let length = end[0]["ts"].as_f64().unwrap() - begin[0]["ts"].as_f64().unwrap();
    assert!((length - 0.15).abs() < 1e-5, "{length}");
}

#[test]
fn chrome_arrows_have_both_ends() {
    let json = exported();
    let (tails, heads) = (events(&json, "s"), events(&json, "f"));
    let ids = |e: &[Value]| {
        e.iter()
            .map(|e| e["id"].as_u64().unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        ids(&tails),
        [1, 2],
        "the program's flow and the task's creation"
    );
    assert_eq!(ids(&tails), ids(&heads));
    assert_eq!(heads[1]["tid"], 101);
}

#[test]
fn chrome_instants_counters_losses_and_facts() {
    let json = exported();
    let instants = events(&json, "i");
    assert_eq!(named(&instants, NASTY)[0]["args"]["time"], u64::MAX);
    let counters = events(&json, "C");
    assert_eq!(
        counters
            .iter()
            .map(|c| c["args"]["value"].as_f64().unwrap())
            .collect::<Vec<_>>(),
        [0.5, 7.0]
    );
    let all = events(&json, "X");
    assert_eq!(
        named(&all, "lost events: kernel buffer overrun")[0]["args"]["count"],
        17
    );
    assert_eq!(json["otherData"]["command"][2], "8 8");
    assert_eq!(json["displayTimeUnit"], "ns");
}

#[test]
fn chrome_empty_recording_is_valid() {
    let mut out = Vec::new();
    kasuri_export::chrome::write(&kasuri_model::Trace::default(), &mut out).unwrap();
    assert!(serde_json::from_slice::<Value>(&out).is_ok());
}
