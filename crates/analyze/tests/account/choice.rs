//! Which threads are the program: two programs in one trace, each of which may be chosen. Answers by hand, and what a choice
//! must not change.
use super::props;
use super::story::*;
use ThreadState::{RunnablePreempted as Preempted, Sleeping};
use kasuri_analyze::account::Class;
use kasuri_analyze::critical_path::critical_path;
use kasuri_analyze::{Options, ProgramBy, locks, summary};
use kasuri_model::{AnnotationVec, Choice, NoSuch, ThreadIx, ThreadState, Time, Trace};
use proptest::prelude::*;

fn choice(processes: &[&str], threads: &[&str]) -> Choice {
    let words = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect();
    Choice { processes: words(processes), threads: words(threads) }
}

/// Process t10 has threads 10 and 11; other90 is a program of its own.
///
/// ```text
/// CPU 0   10 runs 0..40 |               90 runs 40..100      11 wakes 90 at 5, which takes the CPU from 10
/// CPU 1   11 runs 0..60          | idle 60..100              11 goes to sleep, and nothing wakes it
/// ```
fn two_programs(whole_system: bool) -> Trace {
    let mut s = Story::new(2);
    s.whole_system = whole_system;
    s.known = vec![11];
    s.switch(0, 0, 99, Sleeping, 10);
    s.switch(1, 0, 98, Sleeping, 11);
    s.wake(1, 5, 11, 90, 0);
    s.switch(0, 40, 10, Preempted, 90);
    s.switch(1, 60, 11, Sleeping, 0);
    s.load(100)
}

fn sums(trace: &Trace) -> Vec<(Class, i64)> {
    let a = account(trace);
    nonzero(&a.sums(a.from, a.to))
}

fn chosen(processes: &[&str], threads: &[&str]) -> Trace {
    let mut trace = two_programs(true);
    trace.choose(&choice(processes, threads)).unwrap();
    trace
}

#[test]
fn without_a_program_all_processes_are_one_and_the_busiest_are_named() {
    let trace = two_programs(true);
    // 10 is ready from 40 on, and CPU 1 is idle from 60 on.
    assert_eq!(sums(&trace), [(Class::Work, 160), (Class::SchedulingDelay, 40)]);
    let found = summary(&trace, &Options::default());
    assert_eq!(found.program.by, ProgramBy::Nobody);
    let names: Vec<_> = (found.program.candidates.iter())
        .map(|c| (&*c.name, c.on_cpu_ns, c.n_threads, &c.pids[..]))
        .collect();
    assert_eq!(names[0], ("t10", Some(100), 2, &[10][..]));
    assert_eq!(names[1], ("other90", Some(60), 1, &[90][..]));
    assert!(found.program.processes.is_empty());
    // The longer of the two waits for a CPU: 90, woken at 5, ran at 40 on CPU 0.
    let worst = found.worst_wakeup.unwrap();
    assert_eq!((worst.at_ns, worst.latency_ns, worst.tid, worst.cpu), (5, 35, 90, Some(0)));
}

#[test]
fn each_program_of_a_trace_has_an_account_of_its_own() {
    // 10 and 11 ran for 40 and 60. 10 was ready while 90 had its CPU, and from 60 on the only thread that could run.
    let first = [(Class::Work, 100), (Class::LowParallelism, 40), (Class::Interference, 60)];
    for word in ["t10", "10", "t1*"] {
        assert_eq!(sums(&chosen(&[word], &[])), first, "{word}");
    }
    // 90 ran for 60 and was ready for 35 while 10 had its CPU. Before 5 nothing of it, and so of both CPUs, is known; CPU 1 had
    // nothing to do for it.
    let second = [
        (Class::Work, 60),
        (Class::LowParallelism, 95),
        (Class::Interference, 35),
        (Class::Unknown, 10),
    ];
    assert_eq!(sums(&chosen(&["other90"], &[])), second);
    // Of both together, and of all, the answer is that of the whole system.
    let both = chosen(&["t10", "other90"], &[]);
    assert_eq!(sums(&both), sums(&two_programs(true)));
    assert_eq!(summary(&both, &Options::default()).program.n_processes, 2);
}

#[test]
fn threads_that_were_not_chosen_are_another_program() {
    let trace = chosen(&["t10"], &["11"]);
    // 11 ran for 60, and slept while both CPUs were free.
    assert_eq!(
        sums(&trace),
        [(Class::Work, 60), (Class::ExternalWait, 40), (Class::LowParallelism, 100)]
    );
    let found = summary(&trace, &Options::default());
    assert!(found.program.is_part && found.program.n_threads == 1);
    let tids: Vec<i32> = found.threads.iter().map(|t| t.tid).collect();
    assert_eq!(tids, [11]);
    // The other way round: 10 was ready while 90 ran, and not delayed by 11.
    let found = summary(&chosen(&[], &["t10"]), &Options::default());
    let by: Vec<_> = found.interference.iter().map(|i| (i.pid, i.is_target)).collect();
    assert_eq!(by, [(90, false)]);
}

#[test]
fn words_that_nothing_is_called_change_nothing() {
    let mut trace = two_programs(true);
    let none = trace.choose(&choice(&["t10", "t9"], &[])).unwrap_err();
    assert_eq!(none, NoSuch::Process("t9".into()));
    // A thread of another process than the chosen one.
    let none = trace.choose(&choice(&["t10"], &["90"])).unwrap_err();
    assert_eq!(none, NoSuch::Thread("90".into()));
    assert_eq!(sums(&trace), sums(&two_programs(true)));
    assert_eq!(summary(&trace, &Options::default()).program.by, ProgramBy::Nobody);
}

#[test]
fn what_the_recorder_knew_of_its_program_is_not_said_of_another() {
    let mut own = two_programs(false);
    own.info.exit_status = Some(3);
    own.limits.allowed.push(kasuri_model::AllowedCpus {
        since: Time(0),
        cpus: vec![0],
        cpuset: vec![0],
    });
    let mut other = own.clone();
    other.choose(&choice(&["90"], &[])).unwrap();
    assert!(other.info.exit_status.is_none() && other.limits.allowed.is_empty());
    // A part of it has the limits of the whole, and no exit status; the whole has both.
    let mut part = own.clone();
    part.choose(&choice(&[], &["11"])).unwrap();
    assert!(part.info.exit_status.is_none() && !part.limits.allowed.is_empty());
    own.choose(&choice(&["10"], &[])).unwrap();
    assert!(own.info.exit_status == Some(3) && !own.limits.allowed.is_empty());
}

/// All answers, without whose word it is.
fn answers(trace: &Trace) -> [String; 3] {
    let mut found = summary(trace, &Options::default());
    found.program = kasuri_analyze::Program::default();
    [
        format!("{found:?}"),
        format!("{:?}", critical_path(trace)),
        format!("{:?}", locks(trace, &Options::default())),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// A process chosen in a trace of the whole system has the answers of the trace that names it.
    #[test]
    fn a_choice_is_as_good_as_the_recordings_own_word(
        cpus in props::cpus(0i64..200), streams in props::streams(0i64..220, 1..16), pid in 1i32..6, perf in any::<bool>()
    ) {
        let build = |targets: Vec<i32>| {
            let streams: Vec<AnnotationVec> = streams.clone();
            props::trace(cpus.clone(), streams, targets, perf, Time(10)..Time(150))
        };
        let mut trace = build(Vec::new());
        let before = answers(&trace);
        trace.choose(&Choice::default()).unwrap();
        prop_assert_eq!(&answers(&trace), &before);
        match trace.choose(&choice(&[&pid.to_string()], &[])) {
            Ok(()) => {
                let recorded = build(vec![pid]);
                let own = |t: &Trace| (0..t.threads.len()).map(|ix| t.is_target(ThreadIx(ix as u32))).collect::<Vec<_>>();
                // Nonsense gives an id to several processes, of which the trace's own word may mean one that left no thread.
                prop_assume!(own(&trace) == own(&recorded));
                prop_assert_eq!(answers(&trace), answers(&recorded));
            }
            Err(none) => {
                prop_assert_eq!(none, NoSuch::Process(pid.to_string()));
                prop_assert!(trace.processes.iter().all(|p| p.pid != pid));
            }
        }
        // All of them, by whatever name.
        if !trace.processes.is_empty() {
            trace.choose(&choice(&["*"], &[])).unwrap();
            prop_assert_eq!(answers(&trace), before);
        }
    }
}
