//! pprof's profiles: the same samples as `go tool pprof -raw` has (tests/golden/pprof/make), and what is refused. Kasuri's own export is read back in
//! `crates/export/tests/profile_round_trip.rs`.
use kasuri_import::{File, Kind, Options, detect, load, unpack};
use kasuri_model::{FrameKind, SampleKind, Trace};
use serde_json::{Value, json};
use std::path::Path;

fn golden(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/pprof");
    std::fs::read(folder.join(name)).unwrap()
}

fn read(bytes: &[u8], salvage: bool) -> Result<Trace, String> {
    let options = Options { salvage, ..Options::default() };
    let name = "run.pb";
    let bytes = unpack(name, bytes).map_err(|error| error.to_string())?;
    let file = File { name, bytes: &bytes };
    let trace = load(&[file], &options).map_err(|error| error.to_string())?;
    assert_eq!(trace.broken_rules(), Vec::<String>::new());
    Ok(trace)
}

/// As `make` has them: [ns, [function:line, ...], thread].
fn rows(trace: &Trace) -> Vec<Value> {
    let s = &trace.samples;
    let row = |row: usize| {
        let frames = trace.frames_of(s.path[row]).map(|frame| frame.ix());
        let f = &trace.frames;
        let calls =
            frames.map(|row| format!("{}:{}", trace.strings.get(f.function[row]), f.line[row]));
        let thread = &trace.threads[s.thread[row].ix()];
        json!([s.weight[row].ns(), calls.collect::<Vec<_>>(), trace.strings.get(thread.name)])
    };
    (0..s.time.len()).map(row).collect()
}

/// The rows of `go tool pprof -raw`; those without a label are of the program.
fn expected(name: &str) -> Vec<Value> {
    let rows: Value = serde_json::from_slice(&golden(name)).unwrap();
    let row = |row: &Value| {
        let thread = row[2].get("thread").cloned().unwrap_or("profile".into());
        json!([row[0][1], row[1], thread])
    };
    rows.as_array().unwrap().iter().map(row).collect()
}

fn sorted(mut rows: Vec<Value>) -> Vec<String> {
    rows.sort_by_key(Value::to_string);
    rows.iter().map(Value::to_string).collect()
}

#[test]
fn cpu_time_stacks_and_labels_are_those_of_pprof() {
    let trace = read(&golden("cpu.pb.gz"), false).unwrap();
    let expected = expected("cpu.expected.json");
    assert!(expected.len() > 4);
    assert_eq!(sorted(rows(&trace)), sorted(expected));
    assert!(trace.samples.kind.iter().all(|&kind| kind == SampleKind::OnCpu));
    assert_eq!(trace.threads.len(), 2);
    assert_eq!((trace.sampling.len(), trace.sampling[0].period_ns), (1, 10_000_000));
    assert_eq!(trace.info.format, "pprof");
    assert!(trace.info.command[0].ends_with("/profile"));
    assert!((trace.span.end - trace.span.start).ns() > 100_000_000);
    let program = trace.strings.iter().position(|text| text.ends_with("/profile")).unwrap();
    assert_eq!(trace.build_ids[&kasuri_model::StrIx(program as u32)].len(), 20);
}

#[test]
fn contended_mutexes_are_waits_and_what_was_inlined_is_told() {
    let trace = read(&golden("mutex.pb.gz"), false).unwrap();
    assert_eq!(sorted(rows(&trace)), sorted(expected("mutex.expected.json")));
    assert_eq!(trace.samples.kind, [SampleKind::BlockedRead]);
    let innermost = trace.frames_of(trace.samples.path[0]).next().unwrap();
    assert_eq!(trace.frames.kind[innermost.ix()], FrameKind::Inlined);
}

#[test]
fn memory_is_refused_with_what_would_do() {
    let error = read(&golden("heap.pb.gz"), false).unwrap_err();
    assert_eq!(
        error,
        "run.pb: pprof profile: byte 0: found sample types alloc_objects/count, alloc_space/bytes, inuse_objects/count, inuse_space/bytes, needed \
         time on a CPU or in waits; Go's /debug/pprof/profile and /debug/pprof/block have it; `go tool pprof` shows profiles of memory"
    );
}

/// A field with bytes.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    assert!(content.len() < 0x80);
    [&[number << 3 | 2, content.len() as u8], content].concat()
}

/// A profile of `cpu` in ns with a function `f` at location 1, and these samples.
fn small(samples: &[&[u8]]) -> Vec<u8> {
    let mut out = field(1, &[0x08, 1, 0x10, 2]);
    samples.iter().for_each(|sample| out.extend(field(2, sample)));
    out.extend(field(4, &[0x08, 1, 0x22, 2, 0x08, 7]));
    out.extend(field(5, &[0x08, 7, 0x10, 3]));
    for text in ["", "cpu", "nanoseconds", "f", "thread_id", "12"] {
        out.extend(field(6, text.as_bytes()));
    }
    out
}

#[test]
fn numbers_that_are_not_packed_and_threads_as_text_are_read() {
    // Location 1, value 5, label thread_id = "12"; the same without a label, packed.
    let trace = read(
        &small(&[&[0x08, 1, 0x10, 5, 0x1a, 4, 0x08, 4, 0x10, 5], &[0x0a, 1, 1, 0x12, 1, 6]]),
        false,
    )
    .unwrap();
    let mut tids: Vec<(i32, i64)> = (0..2)
        .map(|row| {
            (trace.threads[trace.samples.thread[row].ix()].tid, trace.samples.weight[row].ns())
        })
        .collect();
    tids.sort_unstable();
    assert_eq!(tids, [(1, 6), (12, 5)]);
    let frame = trace.frames_of(trace.samples.path[0]).next().unwrap();
    assert_eq!(trace.strings.get(trace.frames.function[frame.ix()]), "f");
    assert!(trace.info.missing.iter().any(|m| m.contains("label with their thread")));
}

#[test]
fn what_is_wrong_is_told_with_its_place_and_the_rest_kept() {
    let good: &[u8] = &[0x08, 1, 0x10, 5];
    for (bad, needed) in [
        (&[0x08, 9, 0x10, 5][..], "byte 9: found location id 9, needed one that is in the profile"),
        (&[0x08, 1], "byte 8: found 0 values of a sample, needed 1, one for each sample type"),
        (&[0x08, 1, 0x10, 5, 0x1a, 2, 0x08, 77], "byte 15: found text 77, needed one of 6 texts"),
        (&[0x08, 1, 0x12, 2, 5, 0x85], "byte 12: found a number that is cut or too long"),
    ] {
        let bytes = small(&[bad, good]);
        assert_eq!(detect(&[File { name: "a", bytes: &bytes }]), Some(Kind::Pprof));
        let error = read(&bytes, false).unwrap_err();
        assert!(error.contains(needed), "{error}, not {needed}");
        let kept = read(&bytes, true).unwrap();
        assert_eq!(kept.samples.weight, [kasuri_model::Duration(5)]);
        assert!(kept.losses[0].cause.contains("damaged"), "{:?}", kept.losses);
    }
    // A value below 0, as the difference of two profiles has.
    let below: &[u8] = &[0x08, 1, 0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    let error = read(&small(&[below]), false).unwrap_err();
    assert!(error.contains("found -1 as the time of a sample"), "{error}");
}

/// No weights leave the range of times, whatever a file claims.
#[test]
fn weights_that_no_machine_could_have_are_cut() {
    let huge: &[u8] = &[0x08, 1, 0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
    let trace = read(&small(&[huge, huge, huge]), false).unwrap();
    let sum =
        trace.samples.weight.iter().try_fold(0i64, |sum, weight| sum.checked_add(weight.ns()));
    assert!(sum.is_some());
    assert!(trace.info.missing.iter().any(|m| m.contains("left out")), "{:?}", trace.info.missing);
    let options = kasuri_model::Duration::ZERO;
    assert!(trace.samples.weight.contains(&options));
}

/// Cut and flipped bytes: an error with its place, or columns that keep their rules.
#[test]
fn damaged_profiles_do_no_harm() {
    let whole = unpack("a", &golden("cpu.pb.gz")).unwrap().into_owned();
    let mut refused = 0;
    for n in 0..whole.len() {
        for salvage in [false, true] {
            if let Err(error) = read(&whole[..n], salvage) {
                refused += 1;
                // Where nothing says that it is a profile, the whole file is the place.
                let has_place =
                    error.contains("byte ") || error.contains("needed a kasuri recording");
                assert!(has_place, "cut at {n}: {error}");
            }
        }
    }
    assert!(refused > whole.len());
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        _ = read(&bytes, false);
        _ = read(&bytes, true);
    }
}
