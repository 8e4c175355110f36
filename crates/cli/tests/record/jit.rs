//! Code that was made at run time, named by a jitdump.
use crate::stacks::perf_allows;
use crate::support::*;
use kasuri_format::call_paths::{Call, ModuleKind, PathEnd, Sample, SampleKind, Tables};
use kasuri_format::container::{BlockKind, Recording};
use std::collections::HashMap;
use std::path::Path;
use std::process::{Command, Output};

/// Samples of running threads whose innermost frame is code made at run time, with its function if it has a name.
fn taken(file: &Path) -> Vec<(Sample, Option<Call>)> {
    let bytes = std::fs::read(file).expect("a recording");
    let recording = Recording::parse(&bytes).expect("sound");
    let tables = recording.call_paths();
    let names = tables.names.iter();
    let names: HashMap<u32, &Call> =
        names.filter_map(|n| Some((n.frame, n.calls.first()?))).collect();
    let mut samples = Vec::new();
    for (ix, block) in recording.blocks().iter().enumerate() {
        if block.kind == BlockKind::Samples {
            let block = recording.sample_block(ix).expect("sound");
            let made = block
                .into_iter()
                .filter(|s| s.kind == SampleKind::OnCpu)
                .filter_map(|s| Some((s, made_at_run_time(tables, s.path)?)));
            samples.extend(made.map(|(s, frame)| (s, names.get(&frame).map(|&c| c.clone()))));
        }
    }
    samples
}

fn made_at_run_time(tables: &Tables, path: u32) -> Option<u32> {
    let frame = tables.paths.get(path as usize)?.frame;
    let module = tables.frames[frame as usize].module;
    let kind = tables.modules.get(module as usize)?.kind;
    (kind == ModuleKind::Jit).then_some(frame)
}

fn record(dir: &Path, program: &[&str]) -> Output {
    let mut command = kasuri(dir);
    command.args(["record", "-q", "-o", "run.kasuri", "--"]);
    let output = run(command.args(program));
    assert!(output.status.success(), "{}", said(&output));
    output
}

/// What a command prints of the recording.
fn printed(dir: &Path, command: &str) -> String {
    let output = run(kasuri(dir).args([command, "run.kasuri"]));
    assert!(output.status.success(), "{}", said(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn lists_that_are_to_do_harm_do_none() {
    if !perf_allows() {
        return;
    }
    let program = program("jit");
    for how in ["sparse", "claims", "cut", "link", "other"] {
        let dir = scratch();
        record(dir.path(), &[program.to_str().unwrap(), how]);
        let samples = taken(&dir.path().join("run.kasuri"));
        assert!(samples.len() >= 5, "{how}: {} samples", samples.len());
        for (_, call) in samples {
            let name = call.map(|call| call.function);
            match how {
                // What comes before the part without anything is whole.
                "sparse" => assert_eq!(name.as_deref(), Some("one")),
                "claims" => assert!(name.is_none_or(|name| name.starts_with("\x1b[2J"))),
                _ => assert_eq!(name, None, "{how}"),
            }
        }
        let stat = printed(dir.path(), "stat");
        assert!(!stat.contains('\x1b'), "{how}: {stat}");
    }
}

/// Claims about times, shares and races: each runs alone (`make test-measure`), on a quiet machine.
mod measured {
    use super::*;

    #[test]
    fn functions_at_one_address_are_told_apart_by_time() {
        if !perf_allows() {
            return;
        }
        let program = program("jit");
        measure(|| {
            let dir = scratch();
            let output = record(dir.path(), &[program.to_str().unwrap(), "good"]);
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            let times: Vec<u64> = said.split_whitespace().flat_map(str::parse).collect();
            let [loaded, moved, end] = times[..] else {
                panic!("{said:?}");
            };
            let samples = taken(&dir.path().join("run.kasuri"));
            let mut n = [0; 3];
            for (sample, call) in &samples {
                let phase = [loaded, moved, end].partition_point(|t| *t <= sample.time_ns);
                let call = call.as_ref().expect("a name");
                let (name, line) = [("one", 10), ("two", 20), ("two", 20)][phase];
                assert_eq!((&*call.function, &*call.file), (name, "/made/up"));
                assert!((line - 1..=line).contains(&call.line), "{call:?}");
                n[phase] += 1;
            }
            assert!(n.iter().all(|n| *n >= 10), "{n:?} samples");
            let complete = samples.iter().filter(|(s, _)| s.end == PathEnd::Complete);
            assert!(complete.count() * 10 >= samples.len() * 8);
            let flame = printed(dir.path(), "flame");
            assert!(flame.contains("one") && flame.contains("two"), "{flame}");
        });
    }

    #[test]
    fn functions_of_node_are_named_by_its_jitdump() {
        if !perf_allows() {
            return;
        }
        if Command::new("node").arg("--version").output().is_err() {
            return skip("no node");
        }
        let script = repository().join("tests/record/hot.js");
        measure(|| {
            let dir = scratch();
            let node = [
                "node",
                "--perf-prof",
                "--interpreted-frames-native-stack",
                script.to_str().unwrap(),
            ];
            record(dir.path(), &node);
            let samples = taken(&dir.path().join("run.kasuri"));
            let named = samples.iter().filter_map(|(_, call)| call.as_ref());
            let grind: Vec<&Call> = named.filter(|c| c.function.ends_with("grind")).collect();
            assert!(samples.len() >= 50, "{} samples", samples.len());
            assert!(
                grind.len() * 10 >= samples.len() * 9,
                "{} of {} samples in grind",
                grind.len(),
                samples.len()
            );
            for call in grind {
                assert!(call.file.ends_with("tests/record/hot.js"), "{call:?}");
                assert!((2..=5).contains(&call.line), "{call:?}");
            }
        });
    }
}
