//! A replay that does not reproduce the recording says so first.
use kasuri_predict::program::{Program, Script, Step};
use kasuri_predict::{Extract, Options, from_extracts};

/// A thread that works for 10 ms, recorded in `wall_ns`.
fn recorded_in(wall_ns: u64) -> Extract {
    let program = Program {
        scripts: vec![Script { steps: vec![Step::Compute(10_000_000)], ..Script::default() }],
        ..Program::default()
    };
    Extract { wall_ns, program, n_cpus: 1, ..Extract::default() }
}

#[test]
fn a_replay_that_misses_the_recorded_time_is_not_reliable() {
    let answer = |wall_ns| from_extracts(&recorded_in(wall_ns), None, &Options::default());
    for near in [9_500_000, 10_000_000, 10_900_000] {
        let p = answer(near);
        assert!(p.is_reliable(), "{near}: {}", p.replay_error().unwrap());
        assert!(!p.notes.iter().any(|note| note.contains("not reliable")));
    }
    // A server that answered for 10 ms of 40, its waits not understood; and a time that cannot be.
    for (far, error) in [(40_000_000, "-7"), (5_000_000, "+10")] {
        let p = answer(far);
        assert!(!p.is_reliable(), "{far}: {}", p.replay_error().unwrap());
        let first = p.notes.first().expect("a note");
        assert!(first.contains("not reliable") && first.contains(error), "{first}");
    }
}

#[test]
fn beside_programs_that_took_all_the_time_there_is_nothing_to_compare_with() {
    let extract = Extract { lost_ns: 10_000_000, ..recorded_in(10_000_000) };
    let p = from_extracts(&extract, None, &Options::default());
    assert!(p.replay_error().is_none() && !p.is_reliable());
    for says in [p.notes.first(), p.refused.first(), Some(&p.believed)] {
        let says = says.expect("a sentence");
        assert!(says.contains("cannot be checked") && !says.contains('%'), "{says}");
    }
}
