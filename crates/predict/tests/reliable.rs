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
        assert!(p.is_reliable(), "{near}: {}", p.replay_error());
        assert!(!p.notes.iter().any(|note| note.contains("not reliable")));
    }
    // A server that answered for 10 ms of 32, its waits not understood; and a time that cannot be.
    for (far, error) in [(32_000_000, "-69 %"), (5_000_000, "+100 %")] {
        let p = answer(far);
        assert!(!p.is_reliable(), "{far}: {}", p.replay_error());
        let first = p.notes.first().expect("a note");
        assert!(first.contains("not reliable") && first.contains(error), "{first}");
    }
}
