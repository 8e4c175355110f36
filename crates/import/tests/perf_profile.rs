//! Profiles of `perf record`: the same samples as `perf script` has. tests/golden/perf_profile/make records them.
use kasuri_import::{Code, File, Options, load};
use kasuri_model::{FrameKind, SampleKind, Trace};
use serde_json::Value;
use std::path::Path;

fn golden(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/perf_profile");
    std::fs::read(folder.join(name)).unwrap()
}

fn trace(name: &str, bytes: &[u8], name_code: Option<fn(&mut Code)>) -> Trace {
    let options = Options { name_code, ..Options::default() };
    let trace = load(&[File { name, bytes }], &options).unwrap();
    assert_eq!(trace.broken_rules(), Vec::<String>::new());
    trace
}

/// As `make` has them: [tid, ns, period, [module, ...]].
fn rows(trace: &Trace) -> Value {
    let samples = &trace.samples;
    let base = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let row = |row: usize| {
        let frames = trace.frames_of(samples.path[row]);
        let modules = frames.map(|f| base(trace.strings.get(trace.frames.module[f.ix()])));
        serde_json::json!([
            trace.threads[samples.thread[row].ix()].tid,
            samples.time[row].ns() + trace.origin_monotonic_ns,
            samples.weight[row].ns(),
            modules.collect::<Vec<_>>(),
        ])
    };
    (0..samples.time.len()).map(row).collect()
}

fn expected(name: &str) -> Value {
    serde_json::from_slice(&golden(name)).unwrap()
}

#[test]
fn samples_chains_and_periods_are_those_of_perf_script() {
    let trace = trace("clock.data", &golden("clock.data"), None);
    let expected = expected("clock.expected.json");
    assert!(expected.as_array().unwrap().len() > 10);
    assert_eq!(rows(&trace), expected);
    assert!(trace.samples.kind.iter().all(|kind| *kind == SampleKind::OnCpu));
    let process = &trace.processes[trace.threads[trace.samples.thread[0].ix()].process.ix()];
    assert_eq!(trace.strings.get(process.name), "profile");
    // Places are offsets in the file, which has no more than a few pages.
    let own = (0..trace.frames.module.len())
        .filter(|&f| trace.strings.get(trace.frames.module[f]).ends_with("/profile"));
    assert!(own.clone().count() > 2);
    assert!(
        own.clone()
            .all(|f| trace.frames.address[f] < 0x4000 && trace.frames.kind[f] == FrameKind::Native)
    );
}

#[test]
fn copies_of_stacks_give_one_function_and_that_is_said() {
    let trace = trace("copies.data", &golden("copies.data"), None);
    let (rows, expected) = (rows(&trace), expected("copies.expected.json"));
    let (rows, expected) = (rows.as_array().unwrap(), expected.as_array().unwrap());
    assert_eq!(rows.len(), expected.len());
    for (row, expected) in rows.iter().zip(expected) {
        assert_eq!(row[3].as_array().unwrap()[..], expected[3].as_array().unwrap()[..1]);
        assert_eq!((&row[0], &row[1], &row[2]), (&expected[0], &expected[1], &expected[2]));
    }
    assert!(trace.info.missing.iter().any(|m| m.contains("recorded as copies")));
}

#[test]
fn code_is_named_by_who_opens_files() {
    fn name(code: &mut Code) {
        use kasuri_format::call_paths::{Call, Names};
        let own = code.tables.modules.iter().position(|m| m.path.ends_with("/profile"));
        let own = own.unwrap() as u32;
        assert_eq!(code.tables.modules[own as usize].build_id.len(), 20);
        let frames = code.tables.frames.iter().enumerate().filter(|(_, f)| f.module == own);
        let names = frames.map(|(row, frame)| Names {
            frame: row as u32,
            calls: vec![Call { function: format!("at_{:x}", frame.address), ..Call::default() }],
        });
        code.tables.names = names.collect();
    }
    let trace = trace("clock.data", &golden("clock.data"), Some(name));
    let innermost = trace.frames_of(trace.samples.path[0]).next().unwrap();
    let function = trace.strings.get(trace.frames.function[innermost.ix()]);
    assert!(function.starts_with("at_"), "{function}");
}

/// Cut and flipped bytes, at sampled places: an error with its place, or columns that keep their rules.
#[test]
fn damaged_profiles_do_no_harm() {
    let whole = golden("clock.data");
    let read = |bytes: &[u8], salvage| {
        let options = Options { salvage, ..Options::default() };
        load(&[File { name: "clock.data", bytes }], &options)
    };
    for n in (0..whole.len()).step_by(13) {
        if let Ok(trace) = read(&whole[..n], true) {
            assert_eq!(trace.broken_rules(), Vec::<String>::new(), "cut at {n}");
        }
    }
    for at in (0..whole.len()).step_by(7) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        for salvage in [false, true] {
            if let Ok(trace) = read(&bytes, salvage) {
                assert_eq!(trace.broken_rules(), Vec::<String>::new(), "byte {at}");
            }
        }
    }
}

/// `perf record -a`: no process was asked for, and nothing but samples tells of threads. All are kept.
#[test]
fn samples_of_the_whole_system_are_kept() {
    let mut bytes = golden("clock.data");
    // PERF_RECORD_THREAD_MAP with one thread, which is -1 for the whole system: type, misc, size, number, thread.
    let head = [73, 0, 0, 0, 0, 0, 40, 0, 1, 0, 0, 0, 0, 0, 0, 0];
    let at = bytes.windows(head.len()).position(|part| part == head).unwrap() + head.len();
    bytes[at..at + 8].fill(0xff);
    // It is not about the program that was started meanwhile.
    let name = b"profile\0";
    let found: Vec<usize> =
        (0..bytes.len() - 8).filter(|&at| bytes[at..].starts_with(name)).collect();
    found.iter().for_each(|&at| bytes[at..at + 8].copy_from_slice(b"sleep\0\0\0"));
    let trace = trace("clock.data", &bytes, None);
    assert_eq!(trace.info.root_pid, 0);
    assert_eq!(trace.samples.time.len(), expected("clock.expected.json").as_array().unwrap().len());
    assert!(trace.processes.iter().all(|process| process.is_target));
}
