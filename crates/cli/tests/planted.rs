//! The account of real runs against what the program measured inside (tests/planted/check): small, for every `make test-measure`.
use crate::support::{can_trace, measure, repository, run, skip};
use std::process::Command;

/// Whether the check passes for the cause; else what it said.
fn passes(arguments: &[&str]) -> Result<(), String> {
    let mut check = Command::new(repository().join("tests/planted/check"));
    check.env("KASURI", env!("CARGO_BIN_EXE_kasuri"));
    let out = run(check.args(["--rounds", "25"]).args(arguments));
    let said = [&out.stdout, &out.stderr].map(|text| String::from_utf8_lossy(text));
    out.status.success().then_some(()).ok_or(said.concat())
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

/// Claims about times, shares and races: each runs alone (`make test-measure`), on a quiet machine.
mod measured {
    use super::*;

    /// Waits at a barrier for a thread that waits for the disk or a lock itself are that wait's, in the account and in the truth.
    #[test]
    fn the_account_agrees_with_what_programs_measured() {
        if !can_check() {
            return;
        }
        measure(|| {
            for cause in ["io", "lock", "imbalance"] {
                if let Err(said) = passes(&[cause]) {
                    panic!("{said}");
                }
            }
        });
    }

    /// The control: with lock waits taken for barrier waits the same check fails.
    #[test]
    fn a_wrong_account_does_not_agree() {
        if can_check() {
            measure(|| assert!(passes(&["--control", "lock"]).is_err()));
        }
    }
}
