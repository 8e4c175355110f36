//! The Trace Event export, read back with an independent JSON reader: times to the ns (the format has microseconds with
//! decimals), escaped names, rows of CPUs and threads, arrows with both ends, and an empty recording.
use crate::common::*;
use serde_json::Value;
use std::collections::HashMap;

fn exported() -> Value {
    let mut out = Vec::new();
    kasuri_export::chrome::write(&sample(), &mut out).unwrap();
    serde_json::from_slice(&out).expect("valid JSON whatever the names")
}

fn events(json: &Value, ph: &str) -> Vec<Value> {
    let all = json["traceEvents"].as_array().unwrap();
    all.iter().filter(|e| e["ph"] == ph).cloned().collect()
}

/// Spans, of whichever phase: begins with the length up to their ends, which nest in file order in each row.
fn spans(json: &Value) -> Vec<Value> {
    let mut spans = events(json, "X");
    let mut open: HashMap<(i64, i64), Vec<Value>> = HashMap::new();
    for e in json["traceEvents"].as_array().unwrap() {
        let row = (e["pid"].as_i64(), e["tid"].as_i64());
        let (Some(pid), Some(tid)) = row else {
            continue;
        };
        match e["ph"].as_str() {
            Some("B") => open.entry((pid, tid)).or_default().push(e.clone()),
            Some("E") => {
                let row = open.get_mut(&(pid, tid)).expect("no end without a begin");
                let mut span = row.pop().expect("no end without a begin");
                assert_eq!(span["name"], e["name"], "an end ends the innermost");
                let us = e["ts"].as_f64().unwrap() - span["ts"].as_f64().unwrap();
                span["dur"] = ((us * 1000.0).round() / 1000.0).into();
                spans.push(span);
            }
            _ => {}
        }
    }
    assert!(open.values().all(Vec::is_empty), "{open:?}");
    spans
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
        text.contains(
            "{\"ph\":\"E\",\"cat\":\"work\",\"name\":\"time\",\"pid\":100,\"tid\":100,\"ts\":5000000001.023}"
        ),
        "{text}"
    );
    let spans = spans(&serde_json::from_str(&text).unwrap());
    assert_eq!(named(&spans, "time")[0]["dur"], 0.79);
}

#[test]
fn chrome_names_are_escaped() {
    let json = exported();
    let slices = spans(&json);
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
    let rows: Vec<(i64, i64, f64)> = spans(&json)
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
    assert_eq!(rows, [(0, 100, 0.3), (0, 7, 0.1), (0, 100, 0.5), (1, 101, 0.4), (1, 101, 0.2)]);
}

/// Readers add `ts` and `dur` of an X as doubles: a span that ends where another ends or begins then crosses it by some picoseconds.
#[test]
fn chrome_spans_that_touch_are_not_sums_of_doubles() {
    let json = exported();
    let spans: Vec<((Value, Value), i64, i64, bool)> = (spans(&json).iter())
        .map(|e| {
            let ns = |key: &str| (e[key].as_f64().unwrap() * 1000.0).round() as i64;
            // A loss crosses what it will.
            let is_sum = e["ph"] == "X" && ns("dur") > 0 && e["cat"] != "lost events";
            let row = (e["pid"].clone(), e["tid"].clone());
            (row, ns("ts"), ns("ts") + ns("dur"), is_sum)
        })
        .collect();
    let touches = |i: usize| {
        let (row, _, end, _) = &spans[i];
        (spans.iter().enumerate())
            .any(|(k, other)| k != i && other.0 == *row && (other.1 == *end || other.2 == *end))
    };
    let touching: Vec<usize> = (0..spans.len()).filter(|i| touches(*i)).collect();
    assert!(touching.len() > 5, "the sample has some");
    assert!(touching.iter().all(|i| !spans[*i].3), "{spans:?}");
}

#[test]
fn chrome_states_name_the_waker_and_the_preemptor() {
    let json = exported();
    let all = spans(&json);
    assert_eq!(named(&all, "runnable")[0]["args"]["by"], "quake 100");
    assert_eq!(named(&all, "preempted")[0]["args"]["by"], "kworker/0:1 7");
    let states: Vec<_> = all.iter().filter(|e| e["cat"] == "state").collect();
    assert_eq!(states.len(), 10, "all but the unknown one");
    assert!(states.iter().all(|e| e["tid"].as_i64().unwrap() > kasuri_export::chrome::STATE_ROW));
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
    let ids = |e: &[Value]| e.iter().map(|e| e["id"].as_u64().unwrap()).collect::<Vec<_>>();
    assert_eq!(ids(&tails), [1, 2], "the program's flow and the task's creation");
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
        counters.iter().map(|c| c["args"]["value"].as_f64().unwrap()).collect::<Vec<_>>(),
        [0.5, 7.0]
    );
    let all = events(&json, "X");
    assert_eq!(named(&all, "lost events: kernel buffer overrun")[0]["args"]["count"], 17);
    assert_eq!(json["otherData"]["command"][2], "8 8");
    assert_eq!(json["displayTimeUnit"], "ns");
}

#[test]
fn chrome_scheduler_events_are_lines_of_ftrace() {
    let json = exported();
    let text = json["systemTraceEvents"].as_str().unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "# tracer: nop");
    assert_eq!(
        lines[2],
        "kasuri-0 [000] .... 5000.000000123: tracing_mark_write: trace_event_clock_sync: parent_ts=5000.000000123"
    );
    assert_eq!(
        lines[3],
        "<idle>-0 [000] .... 5000.000000223: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=quake next_pid=100 next_prio=120"
    );
    // A name may hold anything but the end of a line.
    let name = NASTY.replace('\n', " ");
    assert!(
        lines[4].ends_with(&format!(
            "task_newtask: pid=101 comm={name} clone_flags=10000 oom_score_adj=0"
        )),
        "{}",
        lines[4]
    );
    let woken = "<...>-100 [000] ..h. 5000.000000523: sched_waking: comm=kworker/0:1 pid=7 prio=120 target_cpu=000";
    assert!(lines.contains(&woken), "{text}");
    assert_eq!(lines.len(), 3 + 11);
    assert_eq!(json["otherData"]["kernel_events"]["program_pids"], serde_json::json!([100]));

    let mut trace = sample();
    trace.sched_events = None;
    let mut out = Vec::new();
    let done = kasuri_export::chrome::write(&trace, &mut out).unwrap();
    let json: Value = serde_json::from_slice(&out).unwrap();
    assert!(json.get("systemTraceEvents").is_none());
    assert!(done.left_out[0].starts_with("scheduler events"), "{done:?}");
}

#[test]
fn chrome_empty_recording_is_valid() {
    let mut out = Vec::new();
    kasuri_export::chrome::write(&kasuri_model::Trace::default(), &mut out).unwrap();
    assert!(serde_json::from_slice::<Value>(&out).is_ok());
}
