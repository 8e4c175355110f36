//! Threads that spin for each other, by hand: on one CPU a turn is burnt, on two the wait is as long as the other's work.
use kasuri_predict::program::{Program, Script, Step};
use kasuri_predict::replay::{Outcome, Setup, replay};
use kasuri_predict::{Extract, Machine, Options, from_extracts};

fn program(steps: [Vec<Step>; 2]) -> Program {
    let script = |steps| Script { steps, ..Script::default() };
    Program { scripts: steps.into_iter().map(script).collect(), n_events: 2, ..Program::default() }
}

fn run(program: &Program, cpus: usize) -> Outcome {
    let machine = Machine { slice_ns: 1_000_000.0, ..Machine::ideal() };
    let mut setup = Setup::new(&machine, cpus);
    setup.jitter = 0.0;
    replay(program, &setup)
}

/// The first waits for the second, which works for 100 us before it lets it go on, and 100 us afterwards.
fn waits() -> Program {
    program([
        vec![Step::Spin(0), Step::Compute(100_000)],
        vec![Step::Compute(100_000), Step::Post(0), Step::Compute(100_000)],
    ])
}

#[test]
fn on_two_cpus_the_wait_is_the_others_work_and_on_one_a_turn() {
    let two = run(&waits(), 2);
    assert_eq!(two.wall_ns, 200_000.0);
    assert_eq!(two.forced, 0);
    // It spins for its turn of 1 ms; then 200 us and 100 us of work.
    let one = run(&waits(), 1);
    assert_eq!(one.wall_ns, 1_300_000.0);
    assert_eq!(one.busy_ns, 1_300_000.0);
}

#[test]
fn what_was_let_go_before_does_not_spin() {
    let order = program([
        vec![Step::Post(0), Step::Compute(100_000)],
        vec![Step::Compute(10_000), Step::Spin(0), Step::Compute(100_000)],
    ]);
    assert_eq!(run(&order, 2).wall_ns, 110_000.0);
}

#[test]
fn threads_that_spin_for_ever_are_broken_up_and_counted() {
    for cpus in [1, 2, 4] {
        let stuck = program([
            vec![Step::Spin(0), Step::Post(1), Step::Compute(1_000)],
            vec![Step::Spin(1), Step::Post(0), Step::Compute(1_000)],
        ]);
        let out = run(&stuck, cpus);
        assert!(out.forced >= 1 && out.wall_ns.is_finite(), "{cpus} CPUs: {out:?}");
    }
}

/// 7.37 s on one CPU and 0.2 s on two, of the program's own 0.4 s of work: the answer for two CPUs is what was measured.
#[test]
fn a_second_run_is_believed_over_the_replay() {
    let recorded = |n_cpus, wall_ns| Extract {
        program: program([vec![Step::Compute(200_000_000)], vec![Step::Compute(200_000_000)]]),
        wall_ns,
        n_cpus,
        ..Extract::default()
    };
    let first = recorded(1, 7_370_000_000);
    let options = Options { cpus: vec![2, 4], ..Options::default() };
    let p = from_extracts(&first, Some(&recorded(2, 200_000_000)), &options);
    let two = p.at(2).unwrap();
    assert!((two.speedup - 36.85).abs() < 1e-6, "{}", two.speedup);
    assert!(two.low < 36.85 && 36.85 < two.high && two.low > 29.0);
    // More CPUs than threads change nothing.
    assert_eq!(p.at(4).unwrap().speedup, two.speedup);
    assert!(p.second.unwrap().replayed <= 2.0);
    // The other way: measured slower than on one CPU.
    let slow = recorded(2, 8_000_000_000);
    let p = from_extracts(&first, Some(&slow), &options);
    assert!((p.at(2).unwrap().speedup - 0.92125).abs() < 1e-6);
    // Without it the replay is all there is, and it says that it does not reproduce the recording.
    let alone = from_extracts(&first, None, &options);
    assert!(alone.second.is_none() && !alone.is_reliable());
}
