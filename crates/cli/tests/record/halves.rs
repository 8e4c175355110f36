//! `kasuri critical` of a program that nobody annotated: functions and waits, and what half of each would bring.
use crate::support::*;
use serde_json::Value;
use std::process::Command;
use std::time::{Duration, Instant};

fn critical() -> Option<Value> {
    if kasuri_record::perf::reach() != Some(kasuri_record::perf::Reach::System) {
        skip("the scheduler's events cannot be sampled");
        return None;
    }
    let (dir, program) = (scratch(), compile("tests/record/halves.c"));
    let record = ["record", "-q", "-o", "run.kasuri", "--"];
    let output = run(kasuri(dir.path()).args(record).arg(program));
    assert!(output.status.success(), "{}", said(&output));
    let critical = run(kasuri(dir.path()).args(["critical", "--json", "run.kasuri"]));
    assert!(critical.status.success(), "{}", said(&critical));
    Some(serde_json::from_slice(&critical.stdout).expect("JSON"))
}

/// Length of the run over that with a change, as the replay has it.
fn factor(told: &Value, change: &str, begins: &str) -> Option<f64> {
    let is_it = |w: &&Value| {
        w["change"] == change && w["name"].as_str().is_some_and(|name| name.ends_with(begins))
    };
    let what_if = told["what_if"].as_array()?.iter().find(is_it)?;
    Some(told["replayed_ns"].as_f64()? / what_if["length_ns"].as_f64()?)
}

mod measured {
    use super::*;

    /// How many times faster the program is with one part halved: medians of runs in turns, as a machine's speed drifts.
    fn really(halved: &str) -> f64 {
        const RUNS: usize = 5;
        let program = compile("tests/record/halves.c");
        let took = |halved: &str| {
            let begun = Instant::now();
            assert!(Command::new(&program).arg(halved).status().unwrap().success());
            begun.elapsed()
        };
        let median = |mut all: Vec<Duration>| {
            all.sort_unstable();
            all[RUNS / 2].as_secs_f64()
        };
        let (whole, half) = (0..RUNS).map(|_| (took("none"), took(halved))).unzip();
        median(whole) / median(half)
    }

    /// The function is really made twice as fast, the wait half as long.
    #[test]
    fn what_half_of_a_function_or_wait_brings_is_what_it_brings() {
        measure(|| {
            let Some(told) = critical() else {
                return;
            };
            for (change, name, halved) in [
                ("half_function", "compute", "compute"),
                ("half_function", "serial", "serial"),
                ("half_wait", "< nap", "nap"),
            ] {
                let replayed =
                    factor(&told, change, name).unwrap_or_else(|| panic!("{halved}: {told}"));
                let real = really(halved);
                assert!(
                    (replayed / real - 1.0).abs() < 0.05,
                    "{halved}: {replayed:.3}, really {real:.3}"
                );
            }
        });
    }
}
