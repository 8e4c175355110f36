//! Chrome JSON, phase by phase: arrows, counters, asynchronous slices, ids, names and what the reader leaves out. Each file
//! is written here, and its meaning is that of Chrome's "Trace Event Format" document.
use kasuri_import::{File, Options, load};
use kasuri_model::{ArgValue, SliceKind, ThreadIx, Time, Trace};

fn try_read(text: &str, salvage: bool) -> Result<Trace, String> {
    let file = File { name: "t.json", bytes: text.as_bytes() };
    let options = Options { salvage, ..Options::default() };
    let trace = load(&[file], &options).map_err(|e| e.to_string())?;
    assert_eq!(trace.broken_rules(), Vec::<String>::new());
    Ok(trace)
}

/// A file that is a list of these events.
fn read(events: &[&str]) -> Trace {
    try_read(&format!("[{}]", events.join(",\n")), false).unwrap()
}

/// Microseconds of the file; the first event of each file is at 100.
fn us(trace: &Trace, time: Time) -> i64 {
    (trace.origin_monotonic_ns + time.ns()) / 1000
}

fn who(trace: &Trace, thread: ThreadIx) -> (i32, i32) {
    (trace.process_of(thread).pid, trace.threads[thread.ix()].tid)
}

/// (name, from: time and thread, to) of each arrow.
type Arrow<'a> = (&'a str, (i64, i32), (i64, i32));

fn arrows(trace: &Trace) -> Vec<Arrow<'_>> {
    let f = &trace.flows;
    let row = |i: usize| {
        let end = |time, thread| (us(trace, time), who(trace, thread).1);
        let from = end(f.from_time[i], f.from_thread[i]);
        let to = end(f.to_time[i], f.to_thread[i]);
        (trace.strings.get(f.name[i]), from, to)
    };
    (0..f.id.len()).map(row).collect()
}

/// One end of an arrow of process 1, with more members.
fn end(phase: &str, ts: i64, tid: i32, more: &str) -> String {
    format!(r#"{{"ph":"{phase}","pid":1,"tid":{tid},"ts":{ts},"name":"f","cat":"c",{more}}}"#)
}

#[test]
fn begin_step_and_end_of_one_id_make_arrows_in_order_of_time() {
    // The steps stand before the begin in the file; the second arrow uses the id again.
    let events = [
        end("t", 120, 2, r#""id":7"#),
        end("s", 100, 1, r#""id":7"#),
        end("f", 140, 3, r#""id":7"#),
        end("s", 150, 3, r#""id":"0x7""#),
        end("f", 160, 1, r#""id":7"#),
        // An end without a begin, and a begin without an end.
        end("f", 170, 2, r#""id":7"#),
        end("s", 180, 2, r#""id":8"#),
    ];
    let trace = read(&events.each_ref().map(|e| e.as_str()));
    assert_eq!(
        arrows(&trace),
        [("f", (100, 1), (120, 2)), ("f", (120, 2), (140, 3)), ("f", (150, 3), (160, 1))]
    );
}

#[test]
fn an_arrows_id_is_one_with_its_category_and_name() {
    let other = |ts, tid, key: &str, value: &str| {
        end("f", ts, tid, r#""id":7"#).replace(
            &format!(r#""{key}":"{}""#, if key == "name" { "f" } else { "c" }),
            &format!(r#""{key}":"{value}""#),
        )
    };
    let trace = read(&[
        &end("s", 100, 1, r#""id":7"#),
        &other(110, 2, "name", "g"),
        &other(120, 2, "cat", "d"),
        &end("f", 130, 3, r#""id":7"#),
    ]);
    assert_eq!(arrows(&trace), [("f", (100, 1), (130, 3))]);
}

#[test]
fn arrows_cross_processes_unless_their_id_is_local() {
    let of_2 = |event: String| event.replace(r#""pid":1"#, r#""pid":2"#);
    for (id, n) in [
        (r#""id":7"#, 1),
        (r#""id2":{"global":"0x7"}"#, 1),
        (r#""id2":{"global":7}"#, 1),
        (r#""id2":{"local":"0x7"}"#, 0),
        (r#""id":"a text""#, 1),
    ] {
        let trace = read(&[&end("s", 100, 1, id), &of_2(end("f", 110, 2, id))]);
        assert_eq!(trace.flows.id.len(), n, "{id}");
        let trace = read(&[&end("s", 100, 1, id), &end("f", 110, 2, id)]);
        assert_eq!(trace.flows.id.len(), 1, "{id}, one process");
    }
}

#[test]
fn a_slice_may_have_the_end_of_an_arrow() {
    let slice = |ts, tid, more: &str| {
        format!(
            r#"{{"ph":"X","pid":1,"tid":{tid},"ts":{ts},"dur":5,"name":"x","bind_id":"0x9"{more}}}"#
        )
    };
    let trace = read(&[
        &slice(100, 1, r#","flow_out":true"#),
        &slice(110, 2, r#","flow_in":true,"flow_out":true"#),
        &slice(115, 4, ""),
        &slice(120, 3, r#","flow_in":true"#),
        &slice(130, 1, r#","flow_in":true"#),
    ]);
    // Such an arrow has no name of its own.
    assert_eq!(
        arrows(&trace),
        [
            ("", (100, 1), (110, 2)),
            ("", (110, 2), (120, 3)),
            // What only receives leaves the arrow for others.
            ("", (110, 2), (130, 1))
        ]
    );
    assert_eq!(trace.slices.start.len(), 5);
}

#[test]
fn a_counter_has_one_series_for_each_argument() {
    let count = |ts, more: &str, args: &str| {
        format!(r#"{{"ph":"C","pid":1,"tid":1,"ts":{ts},"name":"mem"{more},"args":{args}}}"#)
    };
    let trace = read(&[
        &count(100, "", r#"{"value":1,"used":2.5,"mem":"7"}"#),
        &count(110, "", r#"{"value":-3,"used":18446744073709551615,"mem":"none"}"#),
        &count(120, r#","id":"0x10""#, r#"{"value":4}"#),
        &count(130, r#","id":"0x10""#, r#"{"free":5}"#),
    ]);
    let mut found: Vec<_> = (trace.counters.iter())
        .map(|c| {
            let times: Vec<i64> = c.time.iter().map(|&t| us(&trace, t)).collect();
            (trace.strings.get(c.name), times, c.value.clone())
        })
        .collect();
    found.sort_by_key(|c| c.0);
    // A series `value`, or with the counter's name, is the counter itself: here two of them, in the order of the file.
    assert_eq!(
        found,
        [
            ("mem", vec![100, 100, 110], vec![1.0, 7.0, -3.0]),
            ("mem: used", vec![100, 110], vec![2.5, u64::MAX as f64]),
            ("mem[0x10]", vec![120], vec![4.0]),
            ("mem[0x10]: free", vec![130], vec![5.0]),
        ]
    );
}

/// (row's name, slice's name, start, end, open) of the slices of tracks, which have negative thread ids.
fn on_tracks(trace: &Trace) -> Vec<(&str, &str, i64, i64, u8)> {
    let s = &trace.slices;
    let rows = (0..s.start.len()).filter(|&i| who(trace, s.thread[i]).1 < 0);
    let row = |i: usize| {
        let thread = &trace.threads[s.thread[i].ix()];
        let name = trace.strings.get(s.name[i]);
        let (start, end) = (us(trace, s.start[i]), us(trace, s.end[i]));
        (trace.strings.get(thread.name), name, start, end, s.open[i])
    };
    rows.map(row).collect()
}

/// An asynchronous event of process `pid`.
fn asynchronous(phase: &str, ts: i64, pid: i32, name: &str, more: &str) -> String {
    format!(
        r#"{{"ph":"{phase}","pid":{pid},"tid":1,"ts":{ts},"name":"{name}","cat":"net",{more}}}"#
    )
}

#[test]
fn asynchronous_slices_are_joined_by_category_and_id() {
    let (seven, eight) = (r#""id":"0x7""#, r#""id":"0x8""#);
    let trace = read(&[
        &asynchronous("b", 100, 1, "get", seven),
        &asynchronous("b", 110, 1, "put", eight),
        &asynchronous("n", 115, 1, "half", seven),
        // The end's name does not count, and another scope is another slice.
        &asynchronous("e", 120, 1, "whatever", seven),
        &asynchronous("e", 125, 1, "put", r#""id":"0x8","scope":"s""#),
        &asynchronous("e", 130, 1, "put", eight),
    ]);
    let found = on_tracks(&trace);
    assert!(found.contains(&("net", "get", 100, 120, 0)), "{found:?}");
    assert!(found.contains(&("net #2", "put", 110, 130, 0)), "{found:?}");
    assert_eq!(found.len(), 3, "and the end in scope s, alone: {found:?}");
    let half = (0..trace.instants.time.len()).find(|&i| {
        trace.strings.get(trace.instants.name[i]) == "half"
            && us(&trace, trace.instants.time[i]) == 115
    });
    let thread = trace.instants.thread[half.expect("the instant")];
    assert!(who(&trace, thread).1 < 0, "on the track, not on the thread");
}

#[test]
fn the_older_phases_are_joined_by_name_too() {
    let id = r#""id":"0x7""#;
    let trace = read(&[
        &asynchronous("S", 100, 1, "a", id),
        &asynchronous("S", 110, 1, "b", id),
        &asynchronous("T", 112, 1, "a", id),
        &asynchronous("p", 114, 1, "a", id),
        &asynchronous("F", 120, 1, "a", id),
        &asynchronous("F", 130, 1, "b", id),
    ]);
    let mut found = on_tracks(&trace);
    found.sort();
    assert_eq!(found, [("net", "a", 100, 120, 0), ("net #2", "b", 110, 130, 0)]);
    assert_eq!(trace.instants.time.len(), 2);
}

#[test]
fn a_global_id_joins_processes_and_a_local_one_does_not() {
    for (id, ends) in [
        (r#""id2":{"global":"0x7"}"#, vec![("net", "a", 100, 120, 0)]),
        // The track of process 2 begins with the end that it has.
        (r#""id2":{"local":"0x7"}"#, vec![("net", "a", 100, 120, 2), ("net", "net", 120, 120, 1)]),
    ] {
        let trace =
            read(&[&asynchronous("b", 100, 1, "a", id), &asynchronous("e", 120, 2, "a", id)]);
        let mut found = on_tracks(&trace);
        found.sort();
        assert_eq!(found, ends, "{id}");
    }
}

#[test]
fn ids_that_are_no_numbers_of_the_kernel_keep_their_text_as_name() {
    let slice = |ts, pid: &str, tid: &str| {
        format!(r#"{{"ph":"X","pid":{pid},"tid":{tid},"ts":{ts},"dur":1,"name":"x"}}"#)
    };
    let trace = read(&[
        &slice(100, "1", r#""0x7f0012345678""#),
        &slice(110, "1", r#""worker""#),
        &slice(120, "1", r#""0x7f0012345678""#),
        &slice(130, "1", r#""12""#),
        &slice(140, r#""gpu""#, "12"),
        r#"{"ph":"X","ts":150,"dur":1,"name":"x"}"#,
    ]);
    let names = |i: usize| {
        let thread = trace.slices.thread[i];
        let process = trace.strings.get(trace.process_of(thread).name);
        (process, trace.strings.get(trace.threads[thread.ix()].name))
    };
    let mut order: Vec<usize> = (0..trace.slices.start.len()).collect();
    order.sort_by_key(|&i| trace.slices.start[i]);
    let [first, second, third, fourth, fifth, last] = order[..] else {
        panic!("{order:?}");
    };
    assert_eq!(names(first).1, "thread 0x7f0012345678");
    assert_eq!(names(second).1, "thread worker");
    let s = &trace.slices;
    assert_eq!(s.thread[first], s.thread[third]);
    assert_eq!(who(&trace, s.thread[fourth]), (1, 12));
    assert_eq!(names(fifth).0, "process gpu");
    assert_eq!(who(&trace, s.thread[fifth]).1, 12);
    assert_eq!(who(&trace, s.thread[last]), (0, 0), "an absent id is 0");
}

#[test]
fn metadata_names_threads_and_processes_and_tells_of_an_overflow() {
    let meta = |name: &str, args: &str| {
        format!(r#"{{"ph":"M","pid":1,"tid":2,"name":"{name}","args":{args}}}"#)
    };
    let slice = r#"{"ph":"X","pid":1,"tid":2,"ts":100,"dur":1,"name":"x"}"#;
    let trace = read(&[
        &meta("process_name", r#"{"name":"server"}"#),
        &meta("thread_name", r#"{"name":"io"}"#),
        &meta("process_name", r#"{"name":""}"#),
        &meta("thread_name", r#"{"name":""}"#),
        &meta("trace_buffer_overflowed", r#"{"overflowed_at_ts":5}"#),
        &meta("trace_buffer_overflowed", r#"{"other":5}"#),
        slice,
    ]);
    assert_eq!(trace.strings.get(trace.threads[0].name), "io");
    assert_eq!(trace.strings.get(trace.processes[0].name), "server");
    let losses: Vec<&str> = trace.losses.iter().map(|l| &*l.cause).collect();
    assert_eq!(losses, ["trace buffer overflowed"]);
    assert_eq!(trace.losses[0].when, trace.span);
}

#[test]
fn arguments_are_those_of_their_slice_and_an_ends_come_too() {
    let trace = read(&[
        r#"{"ph":"B","pid":1,"tid":1,"ts":100,"name":"a","args":{"object":"0x10","n":1}}"#,
        r#"{"ph":"B","pid":1,"tid":1,"ts":110,"name":"b"}"#,
        r#"{"ph":"E","pid":1,"tid":1,"ts":120,"args":{"rest":2.5}}"#,
        r#"{"ph":"i","pid":1,"tid":1,"ts":130,"name":"tick","args":{"m":"x"}}"#,
        r#"{"ph":"E","pid":1,"tid":1,"ts":140}"#,
    ]);
    let a = &trace.args;
    let rows: Vec<_> = (0..a.value.len())
        .map(|i| {
            let value = match a.value[i] {
                ArgValue::Str(s) => trace.strings.get(s).to_owned(),
                other => format!("{other:?}"),
            };
            (trace.strings.get(a.name[i]), a.slice[i].0, value)
        })
        .collect();
    // Only a lock and a wait have an object.
    assert_eq!(
        rows,
        [
            ("object", 0, "0x10".to_owned()),
            ("n", 0, "Int(1)".to_owned()),
            ("rest", 1, "Float(2.5)".to_owned()),
            ("m", u32::MAX, "x".to_owned()),
        ]
    );
}

#[test]
fn slices_that_overlap_are_cut_and_counted() {
    let slice = |name: &str, ts: i64, dur: i64| {
        format!(r#"{{"ph":"X","pid":1,"tid":1,"ts":{ts},"dur":{dur},"name":"{name}"}}"#)
    };
    let trace = read(&[&slice("a", 100, 20), &slice("b", 110, 30), &slice("c", 150, 5)]);
    let s = &trace.slices;
    let ends: Vec<i64> = s.end.iter().map(|&t| us(&trace, t)).collect();
    assert_eq!(ends, [120, 120, 155]);
    assert!(
        trace.info.missing.iter().any(|m| m.starts_with("1 slices overlapped")),
        "{:?}",
        trace.info.missing
    );
    // What ends together is nested.
    let trace = read(&[&slice("a", 100, 20), &slice("b", 110, 10)]);
    assert_eq!(trace.info.missing, Vec::<String>::new());
}

#[test]
fn waits_and_critical_sections_come_back_from_kasuris_own_export() {
    let own = r#"{"ph":"M","pid":0,"name":"process_name","args":{"name":"CPUs"}}"#;
    let event = |phase: &str, ts: i64, tid: i32, cat: &str, more: &str| {
        format!(
            r#"{{"ph":"{phase}","pid":5,"tid":{tid},"ts":{ts},"name":"m","cat":"{cat}"{more}}}"#
        )
    };
    let state_row = 6 + (1 << 23);
    let trace = read(&[
        own,
        r#"{"ph":"X","pid":0,"tid":1,"ts":101,"dur":1,"name":"on CPU 1"}"#,
        &event("X", 100, state_row, "state", r#","dur":50"#),
        &event("X", 100, 6, "lost events", r#","dur":30,"args":{"count":12}"#)
            .replace(r#""m""#, r#""lost events: ring full""#),
        &event("X", 105, 6, "lock wait", r#","dur":5,"args":{"object":"0xa0"}"#),
        &event("b", 110, 6, "lock held", r#","id":"0x1","args":{"object":"0xa0"}"#),
        &event("e", 120, 6, "lock held", r#","id":"0x1""#),
        &event("B", 130, 6, "barrier wait", r#","args":{"object":"0xb0"}"#),
        &event("E", 140, 6, "barrier wait", ""),
        &event("i", 145, 6, "arrow", ""),
    ]);
    let s = &trace.slices;
    let rows: Vec<_> = (0..s.start.len())
        .map(|i| (s.kind[i], us(&trace, s.start[i]), us(&trace, s.end[i]), s.object[i]))
        .collect();
    assert_eq!(
        rows,
        [
            (SliceKind::LockWait, 105, 110, 0xa0),
            (SliceKind::LockHold, 110, 120, 0xa0),
            (SliceKind::Barrier, 130, 140, 0xb0),
        ]
    );
    assert!(trace.instants.time.is_empty(), "the ends of arrows suffice");
    let loss = &trace.losses[0];
    let when = us(&trace, loss.when.start)..us(&trace, loss.when.end);
    assert_eq!((&*loss.cause, loss.count, when), ("ring full", 12, 100..130));
    assert!(
        trace
            .info
            .missing
            .iter()
            .any(|m| m.contains("this export of Kasuri holds no scheduler events"))
    );
    // Without the row of CPUs, process 0 is a process, and a category is a plain text.
    let trace = read(&[r#"{"ph":"X","pid":0,"tid":1,"ts":101,"dur":1,"name":"x","cat":"state"}"#]);
    assert_eq!(trace.slices.start.len(), 1);
}

#[test]
fn what_is_not_read_is_listed() {
    let text = r#"{"systemTraceEvents":"lines of ftrace","traceEvents":[
        {"ph":"X","pid":1,"tid":1,"ts":100,"dur":1,"name":"x"},
        {"ph":"N","pid":1,"tid":1,"ts":101,"name":"x"},
        {"ph":"N","pid":1,"tid":1,"ts":102,"name":"x"},
        {"ph":"v","pid":1,"tid":1,"ts":103,"name":"x"}]}"#;
    let trace = try_read(text, false).unwrap();
    assert_eq!(
        trace.info.missing,
        [
            "events that are not read: 2 of phase N, 1 of phase v",
            "kernel events that are embedded as text (systemTraceEvents) are not read",
        ]
    );
    let empty = text.replace("lines of ftrace", "");
    let trace = try_read(&empty, false).unwrap();
    assert_eq!(trace.info.missing.len(), 1, "an empty text has no events");
}

/// An export of Kasuri with this text of ftrace, and this about it.
fn own_export(text: &str, about: &str) -> kasuri_model::Trace {
    let text = serde_json::Value::from(text);
    let file = format!(
        r#"{{"traceEvents":[
        {{"ph":"M","name":"process_name","pid":0,"tid":0,"args":{{"name":"CPUs"}}}},
        {{"ph":"M","name":"thread_name","pid":7,"tid":7,"ts":100.000,"args":{{"name":"app"}}}},
        {{"ph":"X","cat":"work","pid":7,"tid":7,"ts":101.000,"dur":5.000,"name":"solve"}}],
        "otherData":{{"start_monotonic_ns":100000,"end_monotonic_ns":200000,"kernel_events":{about}}},
        "systemTraceEvents":{text}}}"#
    );
    try_read(&file, false).unwrap()
}

const SWITCH: &str = "<idle>-0 [000] .... 0.000100500: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=app next_pid=7 next_prio=120";

#[test]
fn scheduler_events_of_an_own_export_are_read() {
    let about = r#"{"n_cpus":2,"recorded_cpus":[0,1],"has_migrations":true,"program_pids":[7]}"#;
    let trace = own_export(SWITCH, about);
    assert_eq!(trace.info.missing, [""; 0]);
    assert_eq!((trace.cpus.len(), trace.n_kernel_events), (2, 1));
    assert!(trace.cpus[1].recorded, "a silent CPU");
    let thread = trace.threads.iter().position(|t| t.tid == 7).unwrap();
    let runs = trace.states_of(kasuri_model::ThreadIx(thread as u32));
    let runs: Vec<_> = runs.filter(|s| s.state == kasuri_model::ThreadState::Running).collect();
    assert_eq!((runs.len(), runs[0].start.0, runs[0].end.0), (1, 500, 100_000));
}

#[test]
fn scheduler_events_of_a_damaged_export_are_left_out_or_bounded() {
    let said = |text: &str, about: &str| own_export(text, about).info.missing.join("; ");
    for text in ["lines of nothing", "# tracer: nop\n", "CPU:4000000000 [LOST 1 EVENTS]\n"] {
        assert!(
            said(text, "{}").contains("the scheduler's events of this export are not read"),
            "{text}"
        );
    }
    let huge = r#"{"n_cpus":18446744073709551615,"recorded_cpus":[4294967295,-1,"x",{}],"program_pids":[4294967295,1e99]}"#;
    let trace = own_export(SWITCH, huge);
    assert!(trace.cpus.len() <= 8192, "{}", trace.cpus.len());
    let wrong = own_export(SWITCH, r#"[1, "two"]"#);
    assert_eq!(wrong.slices.start.len(), 1);
}

#[test]
fn events_without_a_time_are_left_out_and_the_first_is_named() {
    let good = |ts: i64| format!(r#"{{"ph":"i","pid":1,"tid":1,"ts":{ts},"name":"x"}}"#);
    for (bad, shown) in [
        ("{}", "no ts"),
        (r#"{"ph":"i","pid":1}"#, "no ts"),
        (r#"{"ph":"X","ts":null,"dur":3}"#, "no ts"),
        (r#"{"ph":"X","ts":"soon"}"#, r#"ts "soon""#),
        (r#"{"ph":"X","ts":NaN}"#, r#"ts "NaN""#),
        (r#"{"ph":"X","ts":1e300}"#, "ts 1e300"),
    ] {
        let text = format!("[{},\n{bad},\n{},{{}},{},{{}}]", good(100), good(110), good(120));
        let at = text.find(bad).unwrap();
        let trace = try_read(&text, false).unwrap();
        assert_eq!(trace.instants.time.len(), 3, "{bad}");
        assert_eq!(
            trace.info.missing,
            [format!(
                "3 events have no time in microseconds (ts) and are left out: the first, at byte {at}, has {shown}"
            )]
        );
        assert!(trace.losses.is_empty());
    }
}

#[test]
fn a_duration_below_0_or_none_is_said() {
    let complete =
        |ts: i64, dur: &str| format!(r#"{{"ph":"X","pid":1,"tid":1,"ts":{ts},"name":"x"{dur}}}"#);
    let text = format!(
        "[{},{},{},{},{}]",
        complete(100, r#","dur":5"#),
        complete(110, ""),
        complete(120, r#","dur":-5"#),
        complete(130, r#","dur":-0"#),
        complete(140, r#","dur":Infinity"#),
    );
    let at = text.find(&complete(120, r#","dur":-5"#)).unwrap();
    let trace = try_read(&text, false).unwrap();
    let lengths: Vec<_> = (0..trace.slices.start.len())
        .map(|i| us(&trace, trace.slices.end[i]) - us(&trace, trace.slices.start[i]))
        .collect();
    assert_eq!(lengths, [5, 0, 0, 0, 0]);
    assert_eq!(
        trace.info.missing,
        [format!(
            "2 complete events have no duration of 0 or more (dur) and are drawn as points in time: the first, at byte \
             {at}, has dur -5"
        )]
    );
}

#[test]
fn words_that_python_writes_for_numbers_are_read() {
    let trace = read(&[
        r#"{"ph":"C","pid":1,"tid":1,"ts":100,"name":"loss","args":{"value":1.5}}"#,
        r#"{"ph":"C","pid":1,"tid":1,"ts":101,"name":"loss","args":{"value":NaN}}"#,
        r#"{"ph":"C","pid":1,"tid":1,"ts":102,"name":"loss","args":{"value":-Infinity}}"#,
        r#"{"ph":"i","pid":1,"tid":1,"ts":103,"name":"NaN \"NaN\"","args":{"v":[NaN]}}"#,
    ]);
    assert_eq!(trace.counters.len(), 1);
    let name = trace.strings.get(trace.instants.name[0]);
    assert_eq!(name, "NaN \"NaN\"");
}

#[test]
fn events_that_are_no_json_are_left_out_counted_and_the_first_is_said() {
    let good = |ts: i64| format!(r#"{{"ph":"i","pid":1,"tid":1,"ts":{ts},"name":"x"}}"#);
    let text = format!(
        "[{},{{\"ph\":\"i\",\n\"flow_in\":7}}, {}, {{\"ph\":}}, {{\"ts\" 4}}, {}]",
        good(100),
        good(120),
        good(130)
    );
    // It is found where the wrong value ends, in the event's second line.
    let at = text.find("7}, ").unwrap();
    for salvage in [false, true] {
        let trace = try_read(&text, salvage).unwrap();
        assert_eq!(trace.instants.time.len(), 3);
        let [said] = &trace.info.missing[..] else {
            panic!("{:?}", trace.info.missing);
        };
        let wanted =
            format!("3 events are not understood and are left out: the first, at byte {at}, has ");
        assert!(said.starts_with(&wanted), "{said}");
        assert!(trace.losses.is_empty());
    }
}

#[test]
fn complete_events_keep_their_place_among_others_of_their_time() {
    // `a` ends at 110, and only then `b` begins.
    let trace = read(&[
        r#"{"ph":"B","pid":1,"tid":1,"ts":100,"name":"a"}"#,
        r#"{"ph":"E","pid":1,"tid":1,"ts":110}"#,
        r#"{"ph":"X","pid":1,"tid":1,"ts":110,"dur":5,"name":"b"}"#,
        r#"{"ph":"X","pid":1,"tid":1,"ts":120,"dur":5,"name":"c"}"#,
    ]);
    let s = &trace.slices;
    let rows: Vec<_> = (0..s.start.len())
        .map(|i| {
            (trace.strings.get(s.name[i]), us(&trace, s.start[i]), us(&trace, s.end[i]), s.depth[i])
        })
        .collect();
    assert_eq!(rows, [("a", 100, 110, 0), ("b", 110, 115, 0), ("c", 120, 125, 0)]);
}

#[test]
fn counters_make_no_thread() {
    // They belong to process 1, whose main thread has no event: they ride on one that has.
    let trace = read(&[
        r#"{"ph":"C","pid":1,"tid":9,"ts":100,"name":"n","args":{"value":1}}"#,
        r#"{"ph":"X","pid":1,"tid":5,"ts":120,"dur":5,"name":"a"}"#,
        r#"{"ph":"X","pid":1,"tid":3,"ts":110,"dur":5,"name":"b"}"#,
    ]);
    let mut threads: Vec<_> = trace.threads.iter().map(|t| t.tid).collect();
    threads.sort_unstable();
    assert_eq!((threads, trace.counters.len()), (vec![3, 5], 1));
}

#[test]
fn a_name_of_20_mb_is_read() {
    let name = "n".repeat(20 << 20);
    let event =
        |more: &str| format!(r#"{{"name":"{name}",{more}"ph":"i","pid":1,"tid":1,"ts":100}}"#);
    for text in [
        format!(r#"{{"traceEvents":[{}]}}"#, event("")),
        // Beyond where the format is told by.
        format!(r#"{{"otherData":{{"n":"{name}"}},"traceEvents":[{}]}}"#, event("")),
        format!("[{}]", event(r#""args":{"n":1},"#)),
    ] {
        let trace = try_read(&text, false).unwrap();
        let found = trace.strings.get(trace.instants.name[0]);
        assert_eq!((found.len(), trace.instants.time.len()), (name.len(), 1));
    }
}
