//! Programs in Python: their functions in the place of the interpreter's frames, without `-X perf`.
use crate::support::*;
use kasuri_format::call_paths::{Call, PathEnd, Sample, SampleKind, Tables};
use kasuri_format::container::{BlockKind, Recording};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The name of the frame that stands for callers which are not known (docs/format.md).
const CALLERS_NOT_KNOWN: &str = "py::(callers not known)";

/// The interpreters on this machine whose frames can be read.
fn interpreters() -> Vec<(PathBuf, u32)> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let root = std::env::var_os("PYENV_ROOT").map(PathBuf::from);
    let root = root.unwrap_or(home.unwrap_or_default().join(".pyenv"));
    let versions = std::fs::read_dir(root.join("versions"));
    let versions = versions.into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = versions.map(|v| v.path().join("bin/python3")).collect();
    found.push("/usr/bin/python3".into());
    let version = |python: PathBuf| {
        let said = Command::new(&python).arg("-V").output().ok()?;
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let minor = said.strip_prefix("Python 3.")?.split('.').next()?;
        Some((python, minor.parse().ok()?))
    };
    let found = found.into_iter().filter_map(version);
    found.filter(|(_, minor)| (8..=13).contains(minor)).collect()
}

/// The samples of a kind, each with the Python functions of its path, innermost first.
fn taken(file: &Path, kind: SampleKind) -> Vec<(Sample, Vec<Call>)> {
    let bytes = std::fs::read(file).expect("a recording");
    let recording = Recording::parse(&bytes).expect("sound");
    let tables = recording.call_paths();
    let names: BTreeMap<u32, &Call> =
        (tables.names.iter()).filter_map(|n| Some((n.frame, n.calls.first()?))).collect();
    let mut samples = Vec::new();
    for (ix, block) in recording.blocks().iter().enumerate() {
        if block.kind == BlockKind::Samples {
            let block = recording.sample_block(ix).expect("sound");
            let of_kind = block.into_iter().filter(|s| s.kind == kind);
            samples.extend(of_kind.map(|s| (s, functions(tables, &names, s.path))));
        }
    }
    samples
}

fn functions(tables: &Tables, names: &BTreeMap<u32, &Call>, mut path: u32) -> Vec<Call> {
    let mut found = Vec::new();
    while let Some(row) = tables.paths.get(path as usize) {
        let call = names.get(&row.frame);
        let call = call.filter(|call| call.function.starts_with("py::"));
        found.extend(call.map(|call| (*call).clone()));
        path = row.caller;
    }
    found
}

fn plain(calls: &[Call]) -> Vec<&str> {
    calls.iter().map(|c| &c.function[4..]).collect()
}

/// The outermost frame of a path.
fn root(tables: &Tables, mut path: u32) -> Option<u32> {
    let mut root = None;
    while let Some(row) = tables.paths.get(path as usize) {
        (root, path) = (Some(row.frame), row.caller);
    }
    root
}

/// Callers in Python that are not known hide neither that, nor the callers in C beyond them.
fn assert_gaps(file: &Path, what: &str) {
    let bytes = std::fs::read(file).expect("a recording");
    let recording = Recording::parse(&bytes).expect("sound");
    let tables = recording.call_paths();
    let samples = taken(file, SampleKind::OnCpu);
    let ends = |end| samples.iter().filter(move |(s, _)| s.end == end);
    let roots: BTreeSet<_> = ends(PathEnd::Complete).map(|(s, _)| root(tables, s.path)).collect();
    for (sample, calls) in &samples {
        let has_marker = calls.iter().any(|c| c.function == CALLERS_NOT_KNOWN);
        match sample.end {
            PathEnd::Gap => {
                assert!(has_marker, "{what}: {calls:?}");
                let root = root(tables, sample.path);
                assert!(roots.contains(&root), "{what}: {calls:?} has no root");
            }
            PathEnd::Complete => assert!(!has_marker, "{what}: {calls:?}"),
            _ => {}
        }
    }
}

/// Whether `caller` calls `function` in tests/record/planted.py.
fn is_call(caller: &str, function: &str) -> bool {
    match function {
        _ if caller == &CALLERS_NOT_KNOWN[4..] => true,
        "grind" => matches!(caller, "heavy" | "middle" | "light"),
        "heavy" | "middle" | "light" | "nap" => caller == "main",
        _ => true,
    }
}

fn assert_samples(samples: &[(Sample, Vec<Call>)], minor: u32, what: &str) {
    let mut by_caller: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut inner, mut n) = (0, 0);
    let is_grind = |(_, calls): &&(Sample, Vec<Call>)| plain(calls).first() == Some(&"grind");
    let first = samples.iter().filter(is_grind).map(|(s, _)| s.time_ns).min();
    for (sample, calls) in samples {
        for call in calls.iter().filter(|c| c.function == "py::grind") {
            assert!(call.file.ends_with("planted.py"), "{what}: {}", call.file);
            assert!((6..=10).contains(&call.line), "{what}: line {}", call.line);
        }
        let names = plain(calls);
        for pair in names.windows(2) {
            assert!(is_call(pair[1], pair[0]), "{what}: {names:?}");
        }
        // Before, the interpreter starts.
        n += usize::from(Some(sample.time_ns) >= first);
        if names.first() == Some(&"grind") {
            inner += 1;
            let caller = calls.get(1);
            if let Some(caller) = caller.filter(|c| c.function != CALLERS_NOT_KNOWN) {
                *by_caller.entry(&caller.function[4..]).or_default() += 1;
            }
        }
    }
    assert!(inner >= 50 && inner * 10 >= n * 8, "{what}: {inner} of {n} samples in grind");
    let with_caller: usize = by_caller.values().sum();
    // Until 3.10 callers are in the sample. Since 3.11 they are read later, on a loaded machine too late for some, and come in bunches;
    // root's recorder waits for no CPU.
    let is_root = kasuri_record::perf::reach() == Some(kasuri_record::perf::Reach::System);
    let (least, tolerance) = match minor {
        ..=10 => (0.98, 0.15),
        _ if is_root => (0.9, 0.2),
        _ => (0.4, 0.3),
    };
    assert!(with_caller as f64 >= inner as f64 * least, "{what}: {with_caller} of {inner}");
    for (caller, share) in [("heavy", 0.6), ("middle", 0.3), ("light", 0.1)] {
        let found = by_caller.get(caller).copied().unwrap_or(0) as f64 / with_caller as f64;
        assert!((found - share).abs() < tolerance, "{what}: {caller} {found:.2}");
    }
}

/// A program that is no interpreter, and says that it is one.
#[test]
fn lies_in_the_memory_of_an_interpreter_harm_nobody() {
    if kasuri_record::perf::reach().is_none() {
        return skip("perf_event_open is refused");
    }
    for minor in [8, 10, 11, 12, 13] {
        let dir = scratch();
        let program = dir.path().join(format!("python3.{minor}"));
        let built = Command::new("cc")
            .args(["-std=gnu11", "-O1", "-rdynamic", "-pthread"])
            .arg(format!("-DMINOR={minor}"))
            .arg("-o")
            .args([&program, &repository().join("tests/record/hostile_python.c")])
            .status();
        assert!(built.expect("a C compiler").success());
        let output = run(kasuri(dir.path())
            .args(["record", "-q", "-o", "run.kasuri", "--"])
            .arg(&program)
            .arg("1"));
        assert!(output.status.success(), "3.{minor}: {}", said(&output));
        let samples = taken(&dir.path().join("run.kasuri"), SampleKind::OnCpu);
        assert!(!samples.is_empty(), "3.{minor}");
        for (_, calls) in samples {
            for call in calls {
                let text = [call.function, call.file].concat();
                assert!(!text.contains(char::is_control), "3.{minor}: {text:?}");
            }
        }
    }
}

/// Claims about times, shares and races: each runs alone (`make test-measure`), on a quiet machine.
mod measured {
    use super::*;

    #[test]
    fn functions_of_python_stand_in_the_place_of_the_interpreters_frames() {
        if kasuri_record::perf::reach().is_none() {
            return skip("perf_event_open is refused");
        }
        let pythons = interpreters();
        if pythons.is_empty() {
            return skip("no Python 3.8 to 3.13");
        }
        let planted = repository().join("tests/record/planted.py");
        for (python, minor) in pythons {
            measure(|| {
                let dir = scratch();
                let output = run(kasuri(dir.path())
                    .args(["record", "-q", "-o", "run.kasuri", "--"])
                    .arg(&python)
                    .arg(&planted)
                    .arg("1"));
                assert!(output.status.success(), "{}", said(&output));
                let file = dir.path().join("run.kasuri");
                let what = python.display().to_string();
                assert_samples(&taken(&file, SampleKind::OnCpu), minor, &what);
                assert_gaps(&file, &what);
                let waits = taken(&file, SampleKind::BlockedRead);
                let naps = waits.iter().filter(|(sample, calls)| {
                    let whole = plain(calls) == ["nap", "main", "<module>"];
                    whole && calls[0].line == 26 && sample.end == PathEnd::Complete
                });
                assert!(naps.count() >= 3, "{what}: {waits:?}");
            });
        }
    }

    /// Threads that wait for the global interpreter lock wait for a lock, which has its name without the lock probe.
    #[test]
    fn waits_for_pythons_global_lock_are_lock_waits() {
        const TWO: &str = "import threading\n\
        def work():\n    for i in range(6000000): i * i\n\
        threads = [threading.Thread(target=work) for _ in range(2)]\n\
        [t.start() for t in threads]; [t.join() for t in threads]";
        if kasuri_record::perf::reach() != Some(kasuri_record::perf::Reach::System) {
            return skip("waits are sampled as root only");
        }
        let pythons = interpreters();
        // Debian's has no name for the function that waits, without its debug information.
        let named = pythons.iter().find(|(p, _)| !p.starts_with("/usr"));
        let Some((python, _)) = named else {
            return skip("no Python with symbols");
        };
        measure(|| {
            let dir = scratch();
            let output = run(kasuri(dir.path())
                .args(["record", "-q", "-o", "run.kasuri", "--"])
                .arg(python)
                .args(["-c", TWO]));
            assert!(output.status.success(), "{}", said(&output));
            let output = run(kasuri(dir.path()).args(["stat", "--json", "run.kasuri"]));
            let stat: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
            let causes = stat["account"]["causes"].as_array().expect("causes");
            let gil = causes.iter().find(|c| {
                let names = ["take_gil", "drop_gil"];
                c["class"] == "lock_wait" && names.iter().any(|n| c["name"] == *n)
            });
            assert!(gil.is_some_and(|c| c["note"] == "by_samples"), "{causes:#?}");
        });
    }
}
