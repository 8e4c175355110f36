//! Profiles of the Firefox Profiler in the forms that writers use, and what is refused. Kasuri's own export is read back in
//! `crates/export/tests/profile_round_trip.rs`.
use kasuri_import::{File, Kind, Options, detect, load};
use kasuri_model::{FrameKind, SampleKind, Trace};
use serde_json::{Value, json};

fn read(profile: &Value, salvage: bool) -> Result<Trace, String> {
    read_bytes(profile.to_string().as_bytes(), salvage)
}

fn read_bytes(bytes: &[u8], salvage: bool) -> Result<Trace, String> {
    let file = File {
        name: "profile.json",
        bytes,
    };
    let options = Options {
        salvage,
        ..Options::default()
    };
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
    let file = File {
        name: "a",
        bytes: bytes.as_bytes(),
    };
    assert_eq!(detect(&[file]), Some(Kind::Firefox));
    let trace = read(&profile, false).unwrap();
    let row = |path: &str, kind, ms: f64, weight_ms: i64| {
        (
            path.to_owned(),
            kind,
            (ms * 1e6) as i64,
            weight_ms * 1_000_000,
        )
    };
    let kernel = "vfs_read < run < main /src/main.c:3";
    assert_eq!(
        rows(&trace),
        [
            row("run < main /src/main.c:3", SampleKind::OnCpu, 1.0, 1),
            row(kernel, SampleKind::OnCpu, 2.0, 1),
            row(kernel, SampleKind::BlockedRead, 3.5, 80),
            row(
                "/bin/quake+0x1234 < main /src/main.c:3",
                SampleKind::OnCpu,
                90.0,
                2
            ),
        ]
    );
    let kinds: Vec<FrameKind> = trace
        .frames_of(trace.samples.path[1])
        .map(|f| trace.frames.kind[f.ix()])
        .collect();
    assert_eq!(
        kinds,
        [FrameKind::Kernel, FrameKind::Inlined, FrameKind::Native]
    );
    let thread = &trace.threads[trace.samples.thread[0].ix()];
    assert_eq!(
        (thread.tid, trace.processes[thread.process.ix()].pid),
        (101, 100)
    );
    assert_eq!(trace.strings.get(thread.name), "worker");
    assert_eq!(trace.origin_realtime_ns, 1_800_000_000_000_500_000);
    assert!(
        trace
            .info
            .missing
            .iter()
            .any(|m| m.contains("1 markers are not read"))
    );
}

#[test]
fn times_as_differences_weights_left_out_and_shared_tables_are_read() {
    let mut profile = samply();
    let mut thread = profile["threads"][0].take();
    for table in [
        "stackTable",
        "frameTable",
        "funcTable",
        "resourceTable",
        "stringArray",
    ] {
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
    for (pointer, value, needed, n_kept) in [
        (
            "/threads/0/samples/stack/0",
            json!(9),
            "found stack Some(9) with weight 1",
            3,
        ),
        (
            "/threads/0/samples/weight/1",
            json!(-2),
            "times of 0 and above",
            3,
        ),
        (
            "/threads/0/stackTable/prefix/1",
            json!(1),
            "found stack 1 with frame 1 and caller Some(1)",
            0,
        ),
        (
            "/threads/0/stackTable/frame/3",
            json!(4),
            "found stack 3 with frame 4",
            3,
        ),
        (
            "/threads/0/samples/time",
            json!([1.0]),
            "columns of one length",
            0,
        ),
    ] {
        let mut profile = samply();
        *profile.pointer_mut(pointer).unwrap() = value;
        let error = read(&profile, false).unwrap_err();
        assert!(error.contains(needed), "{error}");
        assert!(
            error.contains("profile.json: Firefox profile: byte "),
            "{error}"
        );
        let kept = read(&profile, true).unwrap();
        assert_eq!(kept.samples.time.len(), n_kept, "{pointer}");
        assert!(kept.losses[0].cause.contains("damaged"), "{pointer}");
    }
    let mut profile = samply();
    profile["threads"][0]["samples"]["stack"][0] = "one".into();
    let error = read(&profile, false).unwrap_err();
    let byte: usize = error
        .split("byte ")
        .nth(1)
        .unwrap()
        .split(':')
        .next()
        .unwrap()
        .parse()
        .unwrap();
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
fn samples_of_memory_are_refused() {
    let mut profile = samply();
    profile["threads"][0]["samples"]["weightType"] = "bytes".into();
    let error = read(&profile, false).unwrap_err();
    assert!(
        error.contains("found samples that weigh bytes, needed samples of time"),
        "{error}"
    );
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
