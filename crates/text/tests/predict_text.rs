//! What `kasuri predict` says in words: with its threads or with one for each CPU, a range where a number would say too much, and
//! why there is none.
use kasuri_answers::Answer;
use kasuri_answers::document::Part;
use kasuri_predict::program::{Program, Script, Step};
use kasuri_predict::{Extract, Options, Prediction, from_extracts};
use kasuri_text::table::{self, Layout};

/// The scripts of two threads, recorded on one CPU in the time that they take.
fn recorded(scripts: [Vec<Step>; 2], wall_ns: u64) -> Extract {
    let script = |steps| Script { steps, ..Script::default() };
    Extract {
        wall_ns,
        n_cpus: 1,
        program: Program {
            scripts: scripts.into_iter().map(script).collect(),
            n_events: 2,
            ..Program::default()
        },
        ..Extract::default()
    }
}

fn predicted(first: &Extract, second: Option<&Extract>) -> Prediction {
    let options = Options { cpus: vec![2, 4], ..Options::default() };
    from_extracts(first, second, &options)
}

/// On a screen of 80 columns, in one line.
fn said(p: &Prediction) -> String {
    let layout = Layout { width: 80, ..Layout::default() };
    let text = table::document(&p.document(layout.rows()), &layout);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

const MS: u64 = 1_000_000;

fn apart() -> Extract {
    recorded([vec![Step::Compute(20 * MS)], vec![Step::Compute(20 * MS)]], 40 * MS)
}

#[test]
fn with_these_threads_and_with_one_for_each_cpu() {
    let text = said(&predicted(&apart(), None));
    assert!(text.contains("SPEED-UP: with its 2 busy threads; MORE THREADS:"), "{text}");
    // Each waits for the other in the middle: the same work of four threads would be another program.
    let first = vec![Step::Compute(10 * MS), Step::Post(0), Step::Wait(1), Step::Compute(10 * MS)];
    let other = vec![Step::Compute(10 * MS), Step::Post(1), Step::Wait(0), Step::Compute(10 * MS)];
    let text = said(&predicted(&recorded([first, other], 40 * MS), None));
    let not_known = "with its 2 busy threads; what one thread for each CPU would gain is not known";
    assert!(text.contains(not_known), "{text}");
}

#[test]
fn a_wide_range_is_the_verdict() {
    let mut first = apart();
    // The same program, where one begins after a part of the other.
    let partly_in_turns = recorded(
        [
            vec![Step::Compute(8 * MS), Step::Post(0), Step::Compute(12 * MS)],
            vec![Step::Wait(0), Step::Compute(20 * MS)],
        ],
        40 * MS,
    );
    (first.tied, first.hidden_ns) = (Some(partly_in_turns.program), 8 * MS);
    let p = predicted(&first, None);
    let two = p.at(2).expect("a number");
    assert!(two.low <= 1.4 && two.high > 2.0, "{two:?}");
    let text = said(&p);
    assert!(text.contains("verdict between 1.3") && text.contains("see uncertainties"), "{text}");
    assert!(
        text.contains("for 20 % of the CPU time a thread that was woken took the CPU"),
        "{text}"
    );
}

#[test]
fn no_number_says_why_and_a_second_run_leaves_its_own() {
    let mut first = apart();
    first.runtime_ns = 20 * MS;
    let text = said(&predicted(&first, None));
    assert!(!text.contains("the range has"), "{text}");
    assert!(text.contains("verdict no number: 50 % of the CPU time is in the library"), "{text}");
    assert!(text.contains("kasuri predict --second-run -- PROGRAM measures it"), "{text}");
    assert!(!text.contains("EFFICIENCY") && !text.contains("CHANGE"), "{text}");
    // On every screen: a refusal, and neither an empty table nor a curve.
    let document = predicted(&first, None).document(usize::MAX);
    let of = |is: fn(&Part) -> bool| document.parts.iter().filter(|part| is(part)).count();
    assert_eq!(of(|part| matches!(part, Part::Refusal("verdict", _))), 1);
    assert_eq!(of(|part| matches!(part, Part::Table(_) | Part::Chart(_))), 0);
    let mut second = apart();
    (second.n_cpus, second.wall_ns) = (2, 32 * MS);
    let text = said(&predicted(&first, Some(&second)));
    assert!(text.contains("verdict 1.25x on 2 CPUs, as measured; no number for others"), "{text}");
    assert!(text.contains("second run 32.0 ms on 2 CPUs: 1.25x"), "{text}");
}

#[test]
fn threads_that_spin_have_numbers_where_each_has_a_cpu() {
    let mut first = recorded([vec![Step::Compute(20 * MS)], vec![Step::Compute(20 * MS)]], 40 * MS);
    first.program.scripts.extend(first.program.scripts.clone());
    first.wall_ns *= 2;
    (first.spinning_ns, first.spinners) = (8 * MS, 4);
    let mut p = predicted(&first, None);
    assert!(p.at(2).is_none() && p.at(4).is_some());
    p.machine.slowdown = 0.97;
    let text = said(&p);
    assert!(
        text.contains("x on 4 CPUs, no number for fewer: 4 threads spin for each other"),
        "{text}"
    );
    assert!(text.contains("other busy CPUs do not slow code"), "{text}");
    p.machine.slowdown = 1.1;
    assert!(said(&p).contains("other busy CPUs slow code by 10.0 %"));
}
