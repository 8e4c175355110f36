//! Where the replay has no model, there is no number, and the reason is said; just below each bound there is one.
use kasuri_predict::program::{Lock, Program, Script, Step};
use kasuri_predict::{Extract, Options, Prediction, from_extracts};

const WORK: u64 = 10_000_000;

/// Two threads that work for 5 ms each, recorded on one CPU.
fn recorded() -> Extract {
    let script = Script { steps: vec![Step::Compute(WORK / 2)], ..Script::default() };
    Extract {
        wall_ns: WORK,
        n_cpus: 1,
        program: Program { scripts: vec![script; 2], ..Program::default() },
        ..Extract::default()
    }
}

fn answer(first: &Extract, second: Option<&Extract>) -> Prediction {
    let options = Options { cpus: vec![2, 3], ..Options::default() };
    from_extracts(first, second, &options)
}

/// Each thing that is not known, a little below its bound and a little above, and a word of the reason.
fn doubts() -> Vec<(Extract, Extract, &'static str)> {
    let with = |change: &dyn Fn(&mut Extract)| {
        let mut out = recorded();
        change(&mut out);
        out
    };
    vec![
        (
            with(&|e| e.wall_ns = WORK * 100 / 121),
            with(&|e| e.wall_ns = WORK * 2),
            "off the recorded time",
        ),
        (
            with(&|e| e.spinning_for_unknown_ns = WORK * 4 / 100),
            with(&|e| e.spinning_for_unknown_ns = WORK * 6 / 100),
            "spinning",
        ),
        (
            with(&|e| e.runtime_ns = WORK * 9 / 100),
            with(&|e| e.runtime_ns = WORK * 11 / 100),
            "library that hands out tasks",
        ),
        (
            with(&|e| e.tasks = (100, WORK * 19 / 100)),
            with(&|e| e.tasks = (100, WORK * 21 / 100)),
            "100 tasks of 21.0 us",
        ),
        // Two threads of 5 ms each: with the first 20 % of one after the other 1.67 times as fast, with 50 % 1.33 times.
        (hidden(20), hidden(50), "hand over 0.2 times a ms"),
        // In turns of 1 ms what a wake-up takes is little, in turns of 100 us it decides.
        (
            in_turns(1_000_000),
            in_turns(100_000),
            "threads wait for each other 10.0 times a ms; the speed-up",
        ),
        // A lock that is held half of the time: handed over each ms, and each us.
        (
            in_a_lock(1_000_000),
            in_a_lock(1_000),
            "decides (not measured here): locks are taken 500.0 times a ms; the speed-up",
        ),
    ]
}

/// Two threads work for so many ns inside a lock, as long outside, and so on.
fn in_a_lock(ns: u64) -> Extract {
    let mut out = recorded();
    out.program.locks = vec![Lock::default()];
    let round = [Step::Compute(ns), Step::Acquire(0, false), Step::Compute(ns), Step::Release(0)];
    let rounds = (WORK / 4 / ns) as usize;
    for script in &mut out.program.scripts {
        script.steps = round.repeat(rounds);
    }
    out
}

/// Two threads work in turns of so many ns, each asleep meanwhile.
fn in_turns(ns: u64) -> Extract {
    let mut out = recorded();
    let turns = (WORK / ns) as u32;
    let mut steps = [Vec::new(), Vec::new()];
    for turn in 0..turns {
        let [mine, other] = if turn % 2 == 0 { [0, 1] } else { [1, 0] };
        steps[mine].extend([Step::Compute(ns), Step::Post(turn)]);
        steps[other].push(Step::Wait(turn));
    }
    for (script, steps) in out.program.scripts.iter_mut().zip(steps) {
        script.steps = steps;
    }
    out.program.n_events = turns;
    out
}

/// One of the threads may have waited for this share of the other's work, %.
fn hidden(percent: u64) -> Extract {
    let mut out = recorded();
    let mut tied = out.program.clone();
    tied.n_events = 1;
    let part = WORK / 2 * percent / 100;
    tied.scripts[0].steps =
        vec![Step::Compute(part), Step::Post(0), Step::Compute(WORK / 2 - part)];
    tied.scripts[1].steps.insert(0, Step::Wait(0));
    (out.tied, out.hidden_ns, out.hand_overs) = (Some(tied), part, 2);
    out
}

#[test]
fn threads_that_spin_for_each_other_need_a_cpu_each() {
    let mut first = recorded();
    first.program.scripts = vec![first.program.scripts[0].clone(); 3];
    (first.wall_ns, first.spinners) = (WORK * 3 / 2, 3);
    for (spins, two) in [(WORK * 7 / 100, true), (WORK * 9 / 100, false)] {
        first.spinning_ns = spins;
        let p = answer(&first, None);
        assert_eq!((p.at(2).is_some(), p.at(3).is_some()), (two, true));
        assert_eq!(p.refused.is_empty(), two);
        assert!(p.models.iter().all(|m| m.speedup.len() == p.points.len()));
    }
    assert!(answer(&first, None).refused[0].starts_with("3 threads spin"));
}

#[test]
fn what_widens_a_range_is_not_said_where_there_is_none() {
    let widens = |p: &Prediction| p.notes.iter().any(|n| n.contains("the range "));
    assert!(widens(&answer(&recorded(), None)));
    let (_, above, _) = doubts().remove(1);
    assert!(!widens(&answer(&above, None)));
}

#[test]
fn what_the_replay_does_not_know_has_no_number() {
    assert!(answer(&recorded(), None).refused.is_empty());
    for (below, above, word) in doubts() {
        let p = answer(&below, None);
        assert!(p.refused.is_empty() && p.points.len() == 2, "{word}: {:?}", p.refused);
        let p = answer(&above, None);
        assert_eq!(p.refused.len(), 1, "{word}");
        assert!(p.refused[0].contains(word), "{}", p.refused[0]);
        assert!(p.points.is_empty() && p.models.is_empty() && p.what_if.is_empty());
    }
}

#[test]
fn measured_costs_are_doubted_less_than_assumed_ones() {
    let first = in_turns(100_000);
    assert!(answer(&first, None).points.is_empty());
    let mut options = Options::default();
    options.machine.is_measured = true;
    let p = from_extracts(&first, None, &options);
    let two = p.at(2).expect("a number");
    // Where they were measured while others kept the CPUs awake, a hand-over between two that sleep may take a wake-up more.
    options.machine.relay_ns = 0.0;
    let p = from_extracts(&first, None, &options);
    let busy = p.at(2).expect("a number");
    assert!(busy.speedup > two.speedup && busy.low < two.low * 1.001);
}

#[test]
fn a_second_run_leaves_the_number_that_it_measured() {
    let mut second = recorded();
    (second.n_cpus, second.wall_ns) = (2, WORK * 8 / 10);
    for (_, above, word) in doubts() {
        let p = answer(&above, Some(&second));
        let expected = above.wall_ns as f64 / second.wall_ns as f64;
        assert!((p.at(2).expect(word).speedup - expected).abs() < 1e-9, "{word}");
        // Two threads have no use for a third CPU: that is known as well.
        assert_eq!(p.at(3).expect(word).speedup, p.at(2).unwrap().speedup);
        assert!(p.models.iter().all(|m| m.speedup.len() == p.points.len()));
    }
    // Four threads: on three CPUs nothing was measured.
    let mut more = doubts().remove(1).1;
    more.program.scripts = vec![more.program.scripts[0].clone(); 4];
    (more.wall_ns, more.spinning_for_unknown_ns) = (2 * WORK, WORK);
    let p = answer(&more, Some(&second));
    assert!(p.at(2).is_some() && p.at(3).is_none() && !p.refused.is_empty());
}

#[test]
fn a_program_that_leaves_a_free_cpu_alone_was_measured_all_the_same() {
    let mut second = recorded();
    second.allowed_cpus = 2;
    let p = answer(&recorded(), Some(&second));
    assert!((p.at(2).unwrap().speedup - 1.0).abs() < 1e-9);
    // Others had it, or it is not known whether it was allowed: nothing was measured.
    for (allowed_cpus, lost_ns) in [(2, WORK / 10), (0, 0)] {
        (second.allowed_cpus, second.lost_ns) = (allowed_cpus, lost_ns);
        assert!(answer(&recorded(), Some(&second)).second.is_none());
    }
}
