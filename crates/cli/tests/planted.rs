//! The account of real runs against what the program measured inside (tests/planted/check): small, for every `make test`.
#[path = "record/support.rs"]
#[allow(dead_code, unused_imports)]
mod support;

use std::process::Command;
use support::{can_trace, repository, run, skip};

/// Whether the check passes for the cause; a run that others disturbed so that it fails is repeated.
fn passes(arguments: &[&str], attempts: u32) -> Result<(), String> {
    let mut said = String::new();
    for seed in 1..=attempts {
        let mut check = Command::new(repository().join("tests/planted/check"));
        check.env("KASURI", env!("CARGO_BIN_EXE_kasuri"));
        let out = run(check.args(["--rounds", "25"]).args(arguments));
        said += &format!("attempt {seed}: {}", String::from_utf8_lossy(&out.stdout));
        said += &String::from_utf8_lossy(&out.stderr);
        if out.status.success() {
            return Ok(());
        }
    }
    Err(said)
}

fn can_check() -> bool {
    if !repository().join("build/examples/planted").exists() {
        skip("examples are not built: make c");
        return false;
    }
    if kasuri_record::host::allowed_cpus().len() < 2 {
        skip("needs two CPUs");
        return false;
    }
    can_trace()
}

/// Waits at a barrier for a thread that waits for the disk or a lock itself are that wait's, in the account and in the truth.
#[test]
fn the_account_agrees_with_what_programs_measured() {
    if !can_check() {
        return;
    }
    for cause in ["io", "lock", "imbalance"] {
        if let Err(said) = passes(&[cause], 4) {
            panic!("{said}");
        }
    }
}

/// The control: with lock waits taken for barrier waits the same check fails.
#[test]
fn a_wrong_account_does_not_agree() {
    if can_check() {
        assert!(passes(&["--control", "lock"], 2).is_err());
    }
}
