//! Profiles of the Firefox Profiler in the forms that writers use, and what is refused. Kasuri's own export is read back in
//! `crates/export/tests/profile_round_trip.rs`.
use kasuri_import::{File, Kind, Options, detect, load};
use kasuri_model::{FrameKind, SampleKind, Trace};
use serde_json::{Value, json};

fn read(profile: &Value, salvage: bool) -> Result<Trace, String> {
    read_bytes(profile.to_string().as_bytes(), salvage)
}

fn read_bytes(bytes: &[u8], salvage: bool) -> Result<Trace, String> {
    let file = File { name: "profile.json", bytes };
    let options = Options { salvage, ..Options::default() };
    let trace = load(&[file], &options).map_err(|error| error.to_string())?;
    assert_eq!(trace.broken_rules(), Vec::<String>::new());
    Ok(trace)
}

/// As samply writes it: each thread has tables of its own, stacks name their callers, functions have resources with libs; frames are inlined or
/// without a name; weights count intervals; CPU time in us, 0 while the thread slept.
fn samply() -> Value {
    json!({
        "meta": {
            "interval": 1.0, "startTime": 1_800_000_000_000.5, "preprocessedProfileVersion": 49, "product": "quake", "symbolicated": true,
            "categories": [{"name": "User", "color": "yellow"}, {"name": "Kernel", "color": "orange"}],
            "sampleUnits": {"time": "ms", "eventDelay": "ms", "threadCPUDelta": "µs"},
        },
        "libs": [{"name": "quake", "path": "/bin/quake", "debugName": "quake"}],
        "threads": [{
            "name": "worker", "processName": "quake", "pid": "100", "tid": 101, "isMainThread": false,
            "stackTable": {"length": 4, "prefix": [null, 0, 1, 0], "frame": [0, 1, 2, 3], "category": [0, 0, 1, 0]},
            "frameTable": {
                "length": 4, "address": [16, 32, -1, 4660], "inlineDepth": [0, 1, 0, 0], "category": [0, null, 1, 0],
                "func": [0, 1, 2, 3], "line": [3, 7, null, null],
            },
            "funcTable": {
                "length": 4, "name": [0, 1, 2, 3], "isJS": [false, false, false, false], "resource": [0, 0, -1, 0],
                "fileName": [4, null, null, null], "lineNumber": [null, null, null, null],
            },
            "resourceTable": {"length": 1, "lib": [0], "name": [5], "host": [null], "type": [1]},
            "stringArray": ["main", "run", "vfs_read", "0x1234", "/src/main.c", "quake"],
            "samples": {
                "length": 4, "stack": [1, 2, 2, 3], "time": [1.0, 2.0, 3.5, 90.0], "weight": [1, 1, 80, 2],
                "weightType": "samples", "threadCPUDelta": [1000, 12, 0, 900],
            },
            "markers": {"length": 1, "data": [null], "name": [0], "startTime": [1.0], "endTime": [null], "phase": [0], "category": [0]},
        }],
    })
}

/// `innermost < outermost` with files, kind, ns at, ns of weight.
fn rows(trace: &Trace) -> Vec<(String, SampleKind, i64, i64)> {
    let (s, f) = (&trace.samples, &trace.frames);
    let frame = |row: usize| {
        let text = |row| trace.strings.get(row);
        let name = match text(f.function[row]) {
            "" => format!("{}+{:#x}", text(f.module[row]), f.address[row]),
            name => name.to_owned(),
        };
        match text(f.file[row]) {
            "" => name,
            file => format!("{name} {file}:{}", f.line[row]),
        }
    };
    let path = |row: usize| {
        let frames = trace.frames_of(s.path[row]).map(|at| frame(at.ix()));
        frames.collect::<Vec<_>>().join(" < ")
    };
    (0..s.time.len())
        .map(|row| (path(row), s.kind[row], s.time[row].ns(), s.weight[row].ns()))
        .collect()
}

#[test]
fn samples_with_weights_are_read_as_samply_writes_them() {
    let profile = samply();
    let bytes = profile.to_string();
    let file = File { name: "a", bytes: bytes.as_bytes() };
    assert_eq!(detect(&[file]), Some(Kind::Firefox));
    let trace = read(&profile, false).unwrap();
    let row = |path: &str, kind, ms: f64, weight_us: i64| {
        (path.to_owned(), kind, (ms * 1e6) as i64, weight_us * 1000)
    };
    let nameless = "/bin/quake+0x1234 < main /src/main.c:3";
    let kernel = "vfs_read < run < main /src/main.c:3";
    assert_eq!(
        rows(&trace),
        [
            row("run < main /src/main.c:3", SampleKind::OnCpu, 1.0, 1000),
            row(kernel, SampleKind::OnCpu, 2.0, 12),
            row(kernel, SampleKind::BlockedRead, 2.0, 988),
            row(kernel, SampleKind::BlockedRead, 3.5, 80_000),
            row(nameless, SampleKind::OnCpu, 90.0, 900),
            row(nameless, SampleKind::BlockedRead, 90.0, 1100),
        ]
    );
    let kinds: Vec<FrameKind> =
        trace.frames_of(trace.samples.path[1]).map(|f| trace.frames.kind[f.ix()]).collect();
    assert_eq!(kinds, [FrameKind::Kernel, FrameKind::Inlined, FrameKind::Native]);
    let thread = &trace.threads[trace.samples.thread[0].ix()];
    assert_eq!((thread.tid, trace.processes[thread.process.ix()].pid), (101, 100));
    assert_eq!(trace.strings.get(thread.name), "worker");
    assert_eq!(trace.origin_realtime_ns, 1_800_000_000_000_500_000);
    assert!(trace.info.missing.iter().any(|m| m.contains("1 markers are not read")));
}

#[test]
fn times_as_differences_weights_left_out_and_shared_tables_are_read() {
    let mut profile = samply();
    let mut thread = profile["threads"][0].take();
    for table in ["stackTable", "frameTable", "funcTable", "resourceTable", "stringArray"] {
        profile["shared"][table] = thread[table].take();
        thread.as_object_mut().unwrap().remove(table);
    }
    thread["samples"] = json!({"length": 2, "stack": [1, 3], "timeDeltas": [5.0, 2.0], "weight": null, "weightType": "samples"});
    thread["tid"] = "7.1".into();
    profile["threads"] = json!([thread]);
    let trace = read(&profile, false).unwrap();
    let times: Vec<(i64, i64)> = rows(&trace).iter().map(|row| (row.2, row.3)).collect();
    assert_eq!(times, [(5_000_000, 1_000_000), (7_000_000, 1_000_000)]);
    assert_eq!(trace.threads[trace.samples.thread[0].ix()].tid, 7);
}

#[test]
fn what_is_wrong_is_told_with_its_place_and_the_rest_kept() {
    let text = samply().to_string();
    let at_thread = text.find("\"threads\":[").unwrap() + "\"threads\":[".len();
    for (pointer, value, said, n_kept) in [
        (
            "/threads/0/samples/stack/0",
            json!(9),
            "threads[0].samples.stack[0]: byte BYTE: found 9, needed a stack below 4",
            5,
        ),
        (
            "/threads/0/samples/weight/1",
            json!(-2),
            "threads[0].samples.weight[1]: byte BYTE: found -2, needed times of 0 and above",
            4,
        ),
        (
            "/threads/0/stackTable/prefix/1",
            json!(1),
            "threads[0].stackTable[1]: byte BYTE: found frame 1 and caller 1, needed an earlier stack, and a frame below 4",
            0,
        ),
        (
            "/threads/0/stackTable/frame/3",
            json!(4),
            "threads[0].stackTable[3]: byte BYTE: found frame 4 and caller 0",
            4,
        ),
        (
            "/threads/0/samples/time",
            json!([1.0]),
            "threads[0].samples.time: byte BYTE: found 1 values for 4 stacks, needed columns of one length",
            0,
        ),
        (
            "/threads/0/samples/stack/0",
            json!("one"),
            "threads[0].samples.stack[0]: byte BYTE: found invalid type: string \"one\", expected u32, needed a processed profile in JSON",
            0,
        ),
    ] {
        let said = said.replace("BYTE", &at_thread.to_string());
        let mut profile = samply();
        *profile.pointer_mut(pointer).unwrap() = value;
        let error = read(&profile, false).unwrap_err();
        let (place, said) = said.split_once(&at_thread.to_string()).unwrap();
        assert!(error.contains(place) && error.contains(said), "{error}");
        assert!(error.starts_with("profile.json: Firefox profile, "), "{error}");
        let remedy = "; load it in profiler.firefox.com and save it again";
        assert!(error.ends_with(remedy), "{error}");
        let kept = read(&profile, true).unwrap();
        assert_eq!(kept.samples.time.len(), n_kept, "{pointer}");
        assert!(kept.losses[0].cause.contains("damaged"), "{pointer}");
    }
    let mut profile = samply();
    profile["threads"][0]["samples"]["stack"][0] = "one".into();
    let error = read(&profile, false).unwrap_err();
    let byte: usize =
        error.split("byte ").nth(1).unwrap().split(':').next().unwrap().parse().unwrap();
    assert!(
        (at_thread..text.len()).contains(&byte)
            && profile.to_string()[..byte + 1].ends_with("\"one\""),
        "{byte}: {error}"
    );
    // Cut anywhere: an error, with its place.
    for n in (300..text.len()).step_by(7) {
        let error = read_bytes(&text.as_bytes()[..n], false).unwrap_err();
        assert!(error.contains("byte "), "cut at {n}: {error}");
    }
}

#[test]
fn without_cpu_times_only_the_category_says_that_a_thread_waited() {
    let mut profile = samply();
    profile["meta"]["categories"][1]["name"] = "Idle".into();
    let kinds = |profile: &Value| {
        let trace = read(profile, false).unwrap();
        rows(&trace).iter().map(|row| (row.1, row.3 / 1000)).collect::<Vec<_>>()
    };
    use SampleKind::{BlockedRead, OnCpu};
    let by_category = [(OnCpu, 1000), (BlockedRead, 1000), (BlockedRead, 80_000), (OnCpu, 2000)];
    profile["threads"][0]["samples"]["threadCPUDelta"] = json!([null, null, null, null]);
    assert_eq!(kinds(&profile), by_category);
    profile["threads"][0]["stackTable"]["category"] = Value::Null;
    profile["threads"][0]["stackTable"].as_object_mut().unwrap().remove("category");
    assert_eq!(kinds(&profile), by_category, "of frames");
    // Cycles: how many is not known to be much or little.
    profile["threads"][0]["samples"]["threadCPUDelta"] = json!([1, 1, 0, 0]);
    profile["meta"]["sampleUnits"]["threadCPUDelta"] = "variable CPU cycles".into();
    let by_cycles = [(OnCpu, 1000), (OnCpu, 1000), (BlockedRead, 80_000), (BlockedRead, 2000)];
    assert_eq!(kinds(&profile), by_cycles);
    profile["meta"]["sampleUnits"]["threadCPUDelta"] = "ns".into();
    profile["threads"][0]["samples"]["threadCPUDelta"] = json!([400_000, 9_000_000, 0, 0]);
    assert_eq!(
        kinds(&profile),
        [
            (OnCpu, 400),
            (BlockedRead, 600),
            (OnCpu, 1000),
            (BlockedRead, 80_000),
            (BlockedRead, 2000)
        ],
        "a sample is never longer than it says"
    );
}

#[test]
fn without_an_interval_samples_weigh_their_median_distance() {
    let mut profile = samply();
    profile["meta"]["interval"] = 0.into();
    profile["threads"][0]["samples"] = json!({
        "length": 4, "stack": [1, 1, 1, 1], "time": [1.0, 3.0, 5.0, 50.0], "weight": null, "weightType": "samples",
    });
    let trace = read(&profile, false).unwrap();
    assert!(rows(&trace).iter().all(|row| row.3 == 2_000_000), "{:?}", rows(&trace));
    let said = "does not say its interval: samples weigh 2.000 ms";
    assert!(trace.info.missing.iter().any(|m| m.contains(said)));
}

#[test]
fn main_threads_of_firefox_have_the_names_of_their_processes() {
    let mut profile = samply();
    let thread = profile["threads"][0].clone();
    let of = |pid: &str, tid: i32, name: &str, process: &str| {
        let mut thread = thread.clone();
        thread["pid"] = pid.into();
        thread["tid"] = tid.into();
        thread["name"] = name.into();
        thread["processName"] = process.into();
        thread
    };
    profile["threads"] = json!([
        of("10", 10, "GeckoMain", "Parent Process"),
        of("10", 11, "Compositor", "Parent Process"),
        of("20", 20, "GeckoMain", "Web Content"),
    ]);
    let trace = read(&profile, false).unwrap();
    let name = |row: usize| {
        let thread = &trace.threads[trace.samples.thread[row].ix()];
        (trace.processes[thread.process.ix()].pid, trace.strings.get(thread.name))
    };
    let mut names: Vec<_> = (0..trace.samples.time.len()).map(name).collect();
    names.dedup();
    assert_eq!(names, [(10, "Parent Process"), (10, "Compositor"), (20, "Web Content")]);
    assert_eq!(trace.samples.time.len(), 18, "each has its own samples");
}

#[test]
fn a_thread_that_cannot_be_read_does_not_cost_the_others() {
    let mut profile = samply();
    let mut broken = profile["threads"][0].clone();
    broken["frameTable"]["func"][0] = "x".into();
    profile["threads"] = json!([broken, profile["threads"][0]]);
    let error = read(&profile, false).unwrap_err();
    assert!(error.contains("Firefox profile, threads[0].frameTable.func[0]: byte"), "{error}");
    let kept = read(&profile, true).unwrap();
    assert_eq!(rows(&kept), rows(&read(&samply(), false).unwrap()));
}

/// The place is the same in lines that end as Windows has it; a text of a megabyte is not said whole.
#[test]
fn what_is_wrong_in_many_lines_is_told_with_its_place() {
    let mut profile = samply();
    let long = "x".repeat(1 << 20);
    profile["threads"][0]["samples"]["stack"][0] = long.clone().into();
    let text = serde_json::to_string_pretty(&profile).unwrap();
    let text = text.replace('\n', "\r\n");
    let error = read_bytes(text.as_bytes(), false).unwrap_err();
    let byte = text.find(&long).unwrap() + long.len();
    let place = format!("threads[0].samples.stack[0]: byte {byte}:");
    assert!(error.contains(&place), "{place}: {error:.500}");
    assert!(error.len() < 500, "{}", error.len());
}

/// The first hundred are told, each with its place. To look for the places of all took minutes.
#[test]
fn a_hundred_thousand_broken_threads_are_passed_over() {
    let mut profile = samply();
    let mut threads = vec![json!({"samples": 1}); 100_000];
    threads.push(profile["threads"][0].clone());
    profile["threads"] = threads.into();
    let kept = read(&profile, true).unwrap();
    assert_eq!(rows(&kept), rows(&read(&samply(), false).unwrap()));
    assert!(kept.losses[0].cause.contains("damaged"));
}

#[test]
fn what_firefox_itself_writes_is_told_from_what_is_read() {
    let raw = r#"{ "meta": {"version": 29, "interval": 1}, "libs": [], "threads": [{"samples": {"schema": {}}}]}"#;
    let file = File { name: "a", bytes: raw.as_bytes() };
    assert_eq!(detect(&[file]), Some(Kind::Firefox));
    let error = read_bytes(raw.as_bytes(), false).unwrap_err();
    assert!(error.contains("found a profile as Firefox itself writes it"), "{error}");
}

#[test]
fn samples_of_memory_are_refused() {
    let mut profile = samply();
    profile["threads"][0]["samples"]["weightType"] = "bytes".into();
    let error = read(&profile, false).unwrap_err();
    assert!(error.contains("found samples that weigh bytes, needed samples of time"), "{error}");
}

/// Flipped bits: an error, or columns that keep their rules.
#[test]
fn damaged_profiles_do_no_harm() {
    let whole = samply().to_string().into_bytes();
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 7);
        _ = read_bytes(&bytes, false);
        _ = read_bytes(&bytes, true);
    }
}
