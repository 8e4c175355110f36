//! The Firefox Profiler export against the types of a processed profile of version 70 (src/types/profile.ts and markers.ts
//! of the profiler): every key it must have and none it does not know, columns of one length, indices that exist.
use crate::common::*;
use kasuri_model::Trace;
use serde_json::Value;

fn exported(trace: &Trace) -> Value {
    let mut out = Vec::new();
    kasuri_export::firefox::write(trace, &mut out).unwrap();
    serde_json::from_slice(&out).expect("valid JSON whatever the names")
}

struct Check(Vec<String>);

impl Check {
    fn that(&mut self, ok: bool, what: impl FnOnce() -> String) {
        if !ok {
            self.0.push(what());
        }
    }

    /// Keys it must and may have.
    fn keys(&mut self, value: &Value, what: &str, must: &[&str], may: &[&str]) {
        let Some(object) = value.as_object() else {
            return self.0.push(format!("{what} is no object"));
        };
        for key in must {
            self.that(object.contains_key(*key), || format!("{what} lacks {key}"));
        }
        for key in object.keys() {
            let known = must.contains(&key.as_str()) || may.contains(&key.as_str());
            self.that(known, || format!("{what} has {key}"));
        }
    }

    /// A table: all columns as long as it says.
    fn table(&mut self, value: &Value, what: &str, columns: &[&str], other: &[&str]) -> usize {
        let mut must = vec!["length"];
        must.extend(columns);
        self.keys(value, what, &must, other);
        let n = value["length"].as_u64().unwrap_or(u64::MAX) as usize;
        for column in columns {
            let length = value[column].as_array().map(Vec::len);
            self.that(length == Some(n), || format!("{what}.{column}: {length:?}"));
        }
        n
    }

    /// A column of indices below `n`; null and -1 where allowed.
    fn indices(&mut self, column: &Value, what: &str, n: usize, or_none: bool) {
        for value in column.as_array().into_iter().flatten() {
            let is_none = value.is_null() || value.as_i64() == Some(-1);
            let ok = is_none && or_none || value.as_u64().is_some_and(|i| (i as usize) < n);
            self.that(ok, || format!("{what}: {value}"));
        }
    }

    fn ascending(&mut self, column: &Value, what: &str) {
        let numbers: Vec<f64> =
            column.as_array().unwrap().iter().filter_map(Value::as_f64).collect();
        self.that(numbers.len() == column.as_array().unwrap().len(), || {
            format!("{what}: no numbers")
        });
        self.that(numbers.is_sorted(), || format!("{what} goes back"));
    }
}

const COLORS: [&str; 13] = [
    "transparent",
    "purple",
    "green",
    "orange",
    "yellow",
    "lightblue",
    "blue",
    "brown",
    "magenta",
    "red",
    "lightred",
    "darkgrey",
    "grey",
];

fn violations(profile: &Value) -> Vec<String> {
    let mut c = Check(Vec::new());
    c.keys(profile, "profile", &["meta", "libs", "shared", "threads"], &["counters"]);
    let categories = meta(&mut c, &profile["meta"]);
    let (strings, stacks) = shared(&mut c, &profile["shared"], categories);
    let schemas = (profile["meta"]["markerSchema"].as_array().unwrap().iter())
        .map(|s| s["name"].as_str().unwrap())
        .collect();
    let of = Lengths { categories, strings, stacks, schemas };
    let threads = profile["threads"].as_array().unwrap();
    for one in threads {
        thread(&mut c, one, &of);
    }
    for counter in profile["counters"].as_array().into_iter().flatten() {
        c.keys(
            counter,
            "counter",
            &["name", "category", "description", "pid", "mainThreadIndex", "samples", "display"],
            &[],
        );
        c.table(&counter["samples"], "counter.samples", &["time", "count"], &[]);
        c.ascending(&counter["samples"]["time"], "counter.samples.time");
        let ix = counter["mainThreadIndex"].as_u64().unwrap() as usize;
        c.that(ix < threads.len(), || "mainThreadIndex".into());
    }
    c.0
}

/// What indices of a thread may point at.
struct Lengths<'a> {
    categories: usize,
    strings: usize,
    stacks: usize,
    schemas: Vec<&'a str>,
}

/// Facts about the profile, its categories and kinds of markers. Returns the number of categories.
fn meta(c: &mut Check, meta: &Value) -> usize {
    let must = [
        "interval",
        "startTime",
        "processType",
        "product",
        "stackwalk",
        "version",
        "preprocessedProfileVersion",
        "markerSchema",
    ];
    let may = [
        "startTimeAsClockMonotonicNanosecondsSinceBoot",
        "profilingStartTime",
        "profilingEndTime",
        "categories",
        "sampleUnits",
        "symbolicated",
        "symbolicationNotSupported",
        "usesOnlyOneStackType",
        "importedFrom",
        "initialVisibleThreads",
        "platform",
        "oscpu",
        "CPUName",
        "logicalCPUs",
    ];
    c.keys(meta, "meta", &must, &may);
    c.that(meta["preprocessedProfileVersion"] == 70, || "version".into());
    let categories = meta["categories"].as_array().unwrap();
    for category in categories {
        c.keys(category, "category", &["name", "color", "subcategories"], &[]);
        c.that(COLORS.contains(&category["color"].as_str().unwrap()), || format!("{category}"));
        c.that(category["subcategories"][0] == "Other", || format!("{category}"));
    }
    for schema in meta["markerSchema"].as_array().unwrap() {
        c.keys(
            schema,
            "markerSchema",
            &["name", "display", "fields"],
            &["tooltipLabel", "tableLabel", "chartLabel", "isStackBased"],
        );
        for field in schema["fields"].as_array().unwrap() {
            c.keys(field, "field", &["key", "format"], &["label"]);
        }
    }
    categories.len()
}

/// The tables that all threads share. Returns the numbers of strings and of stacks.
fn shared(c: &mut Check, shared: &Value, n_categories: usize) -> (usize, usize) {
    let n_strings = shared["stringArray"].as_array().unwrap().len();
    let n_funcs = c.table(
        &shared["funcTable"],
        "funcTable",
        &[
            "name",
            "isJS",
            "relevantForJS",
            "resource",
            "source",
            "lineNumber",
            "columnNumber",
            "originalLocation",
        ],
        &[],
    );
    c.indices(&shared["funcTable"]["name"], "funcTable.name", n_strings, false);
    let n_frames = c.table(
        &shared["frameTable"],
        "frameTable",
        &[
            "address",
            "lib",
            "inlineDepth",
            "category",
            "subcategory",
            "func",
            "nativeSymbol",
            "innerWindowID",
            "line",
            "column",
            "originalLocation",
        ],
        &[],
    );
    c.indices(&shared["frameTable"]["func"], "frameTable.func", n_funcs, false);
    c.indices(&shared["frameTable"]["category"], "frameTable.category", n_categories, false);
    let n_stacks = c.table(&shared["stackTable"], "stackTable", &["frame", "prefixOffset"], &[]);
    c.indices(&shared["stackTable"]["frame"], "stackTable.frame", n_frames, false);
    c.table(&shared["resourceTable"], "resourceTable", &["name", "host", "type"], &[]);
    c.table(
        &shared["nativeSymbols"],
        "nativeSymbols",
        &["libIndex", "address", "name", "functionSize"],
        &[],
    );
    c.table(
        &shared["sources"],
        "sources",
        &["id", "filename", "startLine", "startColumn", "sourceMapURL", "content"],
        &[],
    );
    c.table(
        &shared["sourceLocationTable"],
        "sourceLocationTable",
        &["source", "line", "column"],
        &[],
    );
    (n_strings, n_stacks)
}

/// A thread with its samples and markers.
fn thread(c: &mut Check, thread: &Value, of: &Lengths<'_>) {
    let must = [
        "processType",
        "processStartupTime",
        "processShutdownTime",
        "registerTime",
        "unregisterTime",
        "pausedRanges",
        "name",
        "isMainThread",
        "pid",
        "tid",
        "samples",
        "markers",
    ];
    c.keys(thread, "thread", &must, &["showMarkersInTimeline", "processName"]);
    c.that(thread["pid"].is_string() && thread["tid"].is_i64(), || "pid and tid".into());
    let samples = &thread["samples"];
    c.table(samples, "samples", &["stack", "time", "weight", "threadCPUDelta"], &["weightType"]);
    c.indices(&samples["stack"], "samples.stack", of.stacks, true);
    c.ascending(&samples["time"], "samples.time");
    let markers = &thread["markers"];
    c.table(
        markers,
        "markers",
        &["data", "name", "startTime", "endTime", "phase", "category"],
        &[],
    );
    c.indices(&markers["name"], "markers.name", of.strings, false);
    c.indices(&markers["category"], "markers.category", of.categories, false);
    c.ascending(&markers["startTime"], "markers.startTime");
    for (i, phase) in markers["phase"].as_array().unwrap().iter().enumerate() {
        let is_interval = phase == 1;
        c.that(markers["endTime"][i].is_number() == is_interval, || format!("phase {phase}"));
        let of_type = markers["data"][i]["type"].as_str().unwrap();
        c.that(of.schemas.contains(&of_type), || format!("no schema for {of_type}"));
    }
}

#[test]
fn firefox_profile_follows_its_types() {
    assert_eq!(violations(&exported(&sample())), [""; 0]);
    assert_eq!(violations(&exported(&Trace::default())), [""; 0]);
}

#[test]
fn firefox_check_finds_wrong_profiles() {
    let mut profile = exported(&sample());
    profile["threads"][1]["markers"]["name"][0] = 10_000.into();
    profile["shared"]["stackTable"]["prefixOffset"].as_array_mut().unwrap().pop();
    assert_eq!(violations(&profile), ["stackTable.prefixOffset: Some(8)", "markers.name: 10000"]);
}

#[test]
fn firefox_profile_holds_the_chosen_program_and_says_who_is_left_out() {
    let tids = |profile: &Value| -> Vec<i64> {
        let threads = profile["threads"].as_array().unwrap().iter();
        threads.map(|t| t["tid"].as_i64().unwrap()).collect()
    };
    let mut trace = sample();
    assert_eq!(tids(&exported(&trace)), [100, 101]);
    assert_eq!(exported(&trace)["meta"]["initialVisibleThreads"], serde_json::json!([0, 1]));
    assert_eq!(exported(&trace)["counters"][0]["mainThreadIndex"], 0);
    let done = kasuri_export::firefox::write(&trace, &mut Vec::new()).unwrap();
    assert_eq!(done.left_out[0], "1 thread of other programs");

    trace.info.command.clear();
    assert_eq!(exported(&trace)["meta"]["product"], "process quake (100)");
    let choice = |process: &str| kasuri_model::Choice {
        processes: vec![process.into()],
        ..Default::default()
    };
    trace.choose(&choice("7")).unwrap();
    let profile = exported(&trace);
    assert_eq!(violations(&profile), [""; 0]);
    assert_eq!(tids(&profile), [7]);
    assert_eq!(profile["meta"]["product"], "process kworker/0:1 (7)");
    // The counter is the other process's.
    assert_eq!(profile["counters"], serde_json::json!([]));

    trace.program_by = kasuri_model::ProgramBy::Nobody;
    trace.set_aside.clear();
    trace.processes.iter_mut().for_each(|p| p.is_target = true);
    let profile = exported(&trace);
    assert_eq!(tids(&profile), [7, 100, 101]);
    assert_eq!(profile["meta"]["product"], "whole system");
    assert!(profile["meta"].get("initialVisibleThreads").is_none());
}

#[test]
fn firefox_samples_are_states_with_their_cpu_time() {
    let profile = exported(&sample());
    let samples = &profile["threads"][0]["samples"];
    // Unknown, running, preempted, running, end.
    assert_eq!(samples["stack"], serde_json::json!([0, 1, 3, 1, null]));
    assert_eq!(samples["threadCPUDelta"], serde_json::json!([null, 0, 300, 0, 500]));
    let time: Vec<f64> =
        samples["time"].as_array().unwrap().iter().map(|t| t.as_f64().unwrap()).collect();
    assert_eq!(time, [0.0, 0.0001, 0.0004, 0.0005, 0.001]);
}

#[test]
fn firefox_markers_are_slices_points_and_wakeups() {
    let profile = exported(&sample());
    let strings = profile["shared"]["stringArray"].as_array().unwrap();
    let rows = |thread: usize| {
        let m = &profile["threads"][thread]["markers"];
        let n = m["length"].as_u64().unwrap() as usize;
        let ns = |v: &Value| v.as_f64().map(|ms| (ms * 1e6).round() as i64);
        let row = |i: usize| {
            let name = strings[m["name"][i].as_u64().unwrap() as usize].as_str().unwrap();
            (name, ns(&m["startTime"][i]), ns(&m["endTime"][i]))
        };
        (0..n).map(row).collect::<Vec<_>>()
    };
    let main = [
        ("time", Some(110), Some(900)),
        ("solve", Some(110), Some(300)),
        ("clone3", Some(120), Some(140)),
        ("lock held", Some(200), Some(350)),
        (NASTY, Some(300), Some(300)),
        (NASTY, Some(333), None),
    ];
    assert_eq!(rows(0), main);
    let worker = [
        ("wake-up", Some(150), None),
        ("rows", Some(210), Some(590)),
        ("barrier wait", Some(590), Some(990)),
        ("wake-up", Some(790), None),
    ];
    assert_eq!(rows(1), worker);
    let data = &profile["threads"][1]["markers"]["data"];
    assert_eq!(data[0]["by"], "quake 100");
    assert_eq!(data[2]["notSeen"], "end");
    assert_eq!(profile["counters"][0]["samples"]["count"], serde_json::json!([0.5, 6.5]));
}

/// The rows of a thread's samples: ns, `outermost;innermost`, ns of weight, ns of CPU time before.
fn stacks(profile: &Value, thread: usize) -> Vec<(i64, String, i64, Option<i64>)> {
    let shared = &profile["shared"];
    let at = |column: &Value, i: usize| column[i].as_u64().unwrap() as usize;
    let name = |stack: usize| {
        let func = at(&shared["frameTable"]["func"], at(&shared["stackTable"]["frame"], stack));
        let name = at(&shared["funcTable"]["name"], func);
        shared["stringArray"][name].as_str().unwrap()
    };
    let path = |stack: &Value| {
        let Some(mut stack) = stack.as_u64().map(|i| i as usize) else {
            return String::new();
        };
        let mut names = vec![name(stack)];
        while let offset @ 1.. = at(&shared["stackTable"]["prefixOffset"], stack) {
            stack -= offset;
            names.insert(0, name(stack));
        }
        names.join(";")
    };
    let samples = &profile["threads"][thread]["samples"];
    let ns = |v: &Value| (v.as_f64().unwrap() * 1e6).round() as i64;
    let row = |i: usize| {
        (
            ns(&samples["time"][i]),
            path(&samples["stack"][i]),
            ns(&samples["weight"][i]),
            samples["threadCPUDelta"][i].as_i64(),
        )
    };
    (0..samples["length"].as_u64().unwrap() as usize).map(row).collect()
}

#[test]
fn firefox_samples_stand_for_exact_times_inside_the_states() {
    let profile = exported(&sampled());
    assert_eq!(violations(&profile), [""; 0]);
    let row = |time, stack: &str, weight, cpu| (time, stack.to_owned(), weight, cpu);
    assert_eq!(
        stacks(&profile, 0),
        [
            row(0, "unknown", 100, None),
            row(100, "main;_ZN4work3runEv", 100, Some(0)),
            row(200, "main;do_spin", 100, Some(100)),
            row(300, "main;_ZN4work3runEv", 100, Some(100)),
            row(400, "preempted", 100, Some(100)),
            row(500, "main;_ZN4work3runEv", 200, Some(0)),
            row(700, "running", 300, Some(200)),
            row(1000, "", 0, Some(300)),
        ]
    );
    let worker: Vec<String> = stacks(&profile, 1).into_iter().map(|row| row.1).collect();
    let n = |path: &str| worker.iter().filter(|w| *w == path).count();
    assert_eq!(n("quake+0x1234;_ZN4work3runEv"), 2, "{worker:?}");
    assert_eq!(n("quake+0x1234"), 1, "{worker:?}");
    assert_eq!(n("main;read;vfs_read"), 1, "{worker:?}");
}

#[test]
fn firefox_path_of_a_wait_begins_with_the_wait() {
    let mut trace = sampled();
    // The worker falls asleep at 600; the sample on the way there has the path of `read`.
    trace.samples.kind[5] = kasuri_model::SampleKind::Blocked;
    trace.samples.path[5] = kasuri_model::PathIx(6);
    let rows = stacks(&exported(&trace), 1);
    assert!(!rows.iter().any(|row| row.0 == 550), "{rows:?}");
    let at: Vec<_> = rows.iter().filter(|row| row.0 == 600).collect();
    assert_eq!(at.len(), 1, "{rows:?}");
    assert_eq!(at[0].1, "main;read;vfs_read");
}
