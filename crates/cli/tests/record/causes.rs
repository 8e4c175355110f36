//! Programs that each lose their CPUs to one planted cause: a small sample of bench/causes/run.
use crate::support::*;
use serde_json::Value;

/// The class that the program itself lost most to, and the note of its largest cause: what other programs took is the machine's.
fn largest(source: &str, mode: &str, args: &[&str]) -> (String, String) {
    let (dir, program) = (scratch(), compile(source));
    let mut command = kasuri(dir.path());
    command.args(["record", "-q", "-o", "run.kasuri"]).args(args);
    let output = run(command.arg("--").arg(program).arg(mode));
    assert!(output.status.success(), "{}", said(&output));
    let stat = run(kasuri(dir.path()).args(["stat", "--json", "run.kasuri"]));
    assert!(stat.status.success(), "{}", said(&stat));
    let stat: Value = serde_json::from_slice(&stat.stdout).expect("JSON");
    let others =
        ["work", "tracing", "interference", "oversubscription", "scheduling_delay", "unknown"];
    let causes = stat["account"]["causes"].as_array().expect("causes");
    let own = |cause: &&Value| !others.contains(&cause["class"].as_str().expect("a class"));
    let worst = causes.iter().find(own).expect("a loss");
    let word = |key: &str| worst[key].as_str().expect("a word").to_owned();
    (word("class"), word("note"))
}

mod measured {
    use super::*;

    /// As a user would record it, and with more recorded: more data is no worse an answer.
    fn is_named_first(mode: &str, is_right: impl Fn(&str, &str) -> bool) {
        is_named("bench/causes/threads.c", mode, &[&[], &["--locks"]], is_right);
    }

    /// Plainly recorded, of those that public reports have.
    fn scene(mode: &str, is_right: impl Fn(&str, &str) -> bool) {
        is_named("bench/causes/scenes.c", mode, &[&[]], is_right);
    }

    fn is_named(source: &str, mode: &str, ways: &[&[&str]], is_right: impl Fn(&str, &str) -> bool) {
        let can = kasuri_record::perf::reach() == Some(kasuri_record::perf::Reach::System);
        if !can {
            skip("the scheduler's events cannot be sampled");
            return;
        }
        for args in ways {
            measure(|| {
                let (class, note) = largest(source, mode, args);
                assert!(is_right(&class, &note), "{mode} {args:?}: {class} {note}");
            });
        }
    }

    #[test]
    fn unequal_parts_before_a_barrier_are_load_imbalance() {
        is_named_first("imbalance", |class, _| class == "load_imbalance");
    }

    #[test]
    fn unequal_parts_before_a_join_are_load_imbalance() {
        is_named_first("join", |class, _| class == "load_imbalance");
    }

    #[test]
    fn what_runs_alone_is_a_serial_phase() {
        is_named_first("serial", |class, note| {
            (class, note) == ("low_parallelism", "serial_phase")
        });
    }

    #[test]
    fn naps_between_tries_are_for_the_one_that_runs() {
        is_named_first("poll", |class, note| (class, note) == ("low_parallelism", "serial_phase"));
    }

    #[test]
    fn naps_that_nobody_ends_are_by_choice() {
        is_named_first("nap", |class, note| (class, note) == ("external_wait", "chosen"));
    }

    #[test]
    fn a_lock_is_a_lock_wait() {
        is_named_first("lock", |class, _| class == "lock_wait");
    }
    #[test]
    fn a_semaphore_that_is_a_lock_is_a_lock_wait() {
        scene("semaphore", |class, _| class == "lock_wait");
    }

    #[test]
    fn a_barrier_that_is_built_of_semaphores_is_load_imbalance() {
        scene("meet", |class, _| class == "load_imbalance");
    }

    #[test]
    fn a_loop_that_looks_at_a_flag_spins_for_the_one_that_runs() {
        scene("flag", |class, note| (class, note) == ("spinning", "serial_phase"));
    }
}
