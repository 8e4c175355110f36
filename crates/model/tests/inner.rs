//! Threads of pid name spaces: annotations bear inner numbers, the kernel's events outer ones, and the same number means
//! another thread on each side. Each test is one way to find the thread, or one reason to leave the question open.
//!
//! Outside, the program is process 500 with threads 500, 501, 502 ...; inside it is process 1 with threads 1, 2, 3 ... A
//! stranger outside also has the numbers 1, 2, 3.
use ThreadState::Sleeping;
use kasuri_base::annotation::Kind;
use kasuri_model::input::{Annotation, Event, InnerThread, KnownThread, Setup, What};
use kasuri_model::{AnnotationVec, Input, StrIx, ThreadIx, ThreadState, Time, Trace};

const CLIENT: (i32, u32) = (1, 0);

/// A CPU's events: (from, to, thread) in order of time, idle in between.
fn cpu(runs: &[(i64, i64, i32)]) -> Vec<Event> {
    let mut out = Vec::new();
    let switch = |ns, prev, next| Event::switch(ns, prev, Sleeping, next, StrIx::NONE);
    let mut on = (0, 0);
    for &(from, to, tid) in runs {
        if on.1 != 0 && on.0 < from {
            out.push(switch(on.0, on.1, 0));
            on.1 = 0;
        }
        out.push(switch(from, on.1, tid));
        on = (to, tid);
    }
    if on.1 != 0 {
        out.push(switch(on.0, on.1, 0));
    }
    out
}

fn fork(ns: i64, parent: i32, child: i32) -> Event {
    let what = What::Fork { parent, child, comm: StrIx::NONE, pid: None, same_process: Some(true) };
    Event { time: Time(ns), context: parent, in_interrupt: false, what }
}

/// What thread `tid` of process 1 says of itself: an instant at each stamp.
fn stream(tid: i32, stamps: &[i64]) -> AnnotationVec {
    let events = stamps.iter().map(|&ns| Annotation {
        time: Time(ns),
        kind: Kind::Instant as u8,
        aux: 0,
        name: StrIx::NONE,
        a: 0,
        b: 0,
    });
    AnnotationVec { pid: 1, tid, events: events.collect(), ..AnnotationVec::default() }
}

/// /proc at the start: (process, thread).
fn known(threads: &[(i32, i32)]) -> Vec<KnownThread> {
    let one = |&(pid, tid): &(i32, i32)| KnownThread { pid, tid, ..KnownThread::default() };
    threads.iter().map(one).collect()
}

fn translated(ns: i64, tid: i32, ns_tid: i32) -> InnerThread {
    InnerThread { time: Time(ns), pid: 500, tid, client: CLIENT, ns_tid }
}

fn load(setup: Setup, cpus: Vec<Vec<Event>>, streams: Vec<AnnotationVec>) -> Trace {
    let setup = Setup { span: Time(0)..Time(1000), n_cpus: cpus.len(), ..setup };
    let input = Input { setup, cpus, streams, ..Input::default() };
    let trace = input.build().unwrap();
    assert_eq!(trace.broken_rules(), Vec::<String>::new());
    trace
}

/// The thread that the program's stamp fell on: (process, thread).
fn who(trace: &Trace, ns: i64) -> (i32, i32) {
    let at = trace.instants.time.iter().position(|&t| t == Time(ns));
    numbers(trace, trace.instants.thread[at.expect("an instant")])
}

fn numbers(trace: &Trace, thread: ThreadIx) -> (i32, i32) {
    (trace.process_of(thread).pid, trace.threads[thread.ix()].tid)
}

/// The stranger with the inner numbers runs all the time on CPU 1.
const STRANGER: (i64, i64, i32) = (0, 1000, 2);

#[test]
fn a_thread_that_the_recorder_translated_is_that_one_whatever_runs() {
    let setup = Setup {
        inner: vec![translated(5, 501, 2)],
        known: known(&[(500, 500), (500, 501), (2, 2)]),
        ..Setup::default()
    };
    // 501's switches are lost: only 500 and the stranger are seen on a CPU.
    let cpus = vec![cpu(&[(0, 1000, 500)]), cpu(&[STRANGER])];
    let trace = load(setup, cpus, vec![stream(2, &[100, 200])]);
    assert_eq!(who(&trace, 100), (500, 501));
    let names = &trace.inner_names;
    assert_eq!((names.len(), names[0].client, names[0].tid), (1, CLIENT, 2));
    assert_eq!(numbers(&trace, names[0].thread), (500, 501));
}

#[test]
fn an_inner_number_given_out_again_is_the_thread_of_that_time() {
    let setup = Setup {
        inner: vec![translated(10, 501, 2), translated(600, 601, 2)],
        known: known(&[(500, 500)]),
        ..Setup::default()
    };
    let streams = vec![stream(2, &[20, 30]), stream(2, &[590, 610])];
    let trace = load(setup, Vec::new(), streams);
    assert_eq!((who(&trace, 30), who(&trace, 590)), ((500, 501), (500, 601)));
}

#[test]
fn a_thread_that_was_on_a_cpu_at_its_stamps_is_found() {
    // 501 and 502 both run at 100; only 502 also at 300. The recorder translated nobody but the process's main thread.
    let setup = Setup {
        inner: vec![translated(5, 500, 1)],
        known: known(&[(500, 500), (500, 501), (500, 502)]),
        root_pids: vec![500],
        ..Setup::default()
    };
    let cpus =
        vec![cpu(&[(50, 200, 501), (250, 400, 500)]), cpu(&[(50, 400, 502)]), cpu(&[STRANGER])];
    let streams = vec![stream(1, &[260]), stream(3, &[100, 300])];
    let trace = load(setup, cpus, streams);
    assert_eq!(who(&trace, 260), (500, 500));
    assert_eq!(who(&trace, 300), (500, 502));
}

/// Threads that run at the same time at every stamp: `tids` of process 500, each on its CPU.
fn all_run(tids: &[i32]) -> Vec<Vec<Event>> {
    tids.iter().map(|&tid| cpu(&[(10, 900, tid)])).collect()
}

fn of_500(tids: &[i32]) -> Setup {
    let threads: Vec<_> = tids.iter().map(|&tid| (500, tid)).collect();
    Setup {
        inner: vec![translated(5, 500, 1)],
        known: known(&threads),
        root_pids: vec![500],
        ..Setup::default()
    }
}

#[test]
fn as_many_threads_as_streams_are_matched_in_the_order_of_their_numbers() {
    let tids = [500, 501, 502, 503];
    let streams = vec![
        stream(4, &[104, 304]),
        stream(2, &[102, 302]),
        stream(3, &[103, 303]),
        stream(1, &[101]),
    ];
    let trace = load(of_500(&tids), all_run(&tids), streams);
    let found = [102, 103, 104].map(|ns| who(&trace, ns).1);
    assert_eq!(found, [501, 502, 503]);
}

#[test]
fn a_stream_with_one_candidate_takes_it_from_the_others() {
    // Thread 2's last stamp is at a time when only 502 runs, so the two others are left with 501 and 503, in order.
    let tids = [500, 501, 502, 503];
    let mut cpus = all_run(&tids);
    cpus[2] = cpu(&[(10, 990, 502)]);
    let streams = vec![
        stream(1, &[101]),
        stream(3, &[103, 303]),
        stream(4, &[104, 304]),
        stream(2, &[102, 950]),
    ];
    let trace = load(of_500(&tids), cpus, streams);
    let found = [102, 103, 104].map(|ns| who(&trace, ns).1);
    assert_eq!(found, [502, 501, 503]);
}

#[test]
fn more_candidates_than_streams_leave_the_question_open() {
    // Either of 502 and 503 may be the thread: it is nobody's, without states, never a guess.
    let tids = [500, 501, 502, 503];
    let streams = vec![stream(1, &[101]), stream(3, &[103]), stream(3, &[503])];
    let trace = load(of_500(&tids), all_run(&tids), streams);
    assert_eq!(who(&trace, 103), (500, -3), "a number that no thread has");
    assert_eq!(who(&trace, 503), (500, -3));
    let unseen: Vec<_> = trace.threads.iter().filter(|t| t.tid == -3).collect();
    assert_eq!(unseen.len(), 1, "two streams of a thread are one thread");
    assert_eq!(trace.strings.get(unseen[0].name), "thread 3 of 1 (name space)");
    assert!(unseen[0].states.is_empty());
}

#[test]
fn a_thread_born_before_a_lower_number_is_not_it() {
    // 501 (inner 2) was born at 100 and 502 (inner 4) at 300. Thread 3 came between the two, so of those that run at
    // its stamps it is 503, born at 200, neither 504 (born at 50) nor 505 (born at 400).
    let setup = Setup {
        inner: vec![translated(5, 500, 1), translated(150, 501, 2), translated(350, 502, 4)],
        known: known(&[(500, 500)]),
        root_pids: vec![500],
        ..Setup::default()
    };
    let births = [(50, 504), (100, 501), (200, 503), (300, 502), (400, 505)];
    let mut cpus = vec![Vec::new()];
    for (born, tid) in births {
        cpus[0].push(fork(born, 500, tid));
        cpus.push(cpu(&[(born + 10, 900, tid)]));
    }
    let streams =
        vec![stream(1, &[61]), stream(2, &[162]), stream(4, &[364]), stream(3, &[600, 700, 800])];
    let trace = load(setup, cpus, streams);
    assert_eq!(who(&trace, 700), (500, 503));
}

#[test]
fn numbers_in_doubt_are_believed_when_that_thread_was_on_a_cpu() {
    // The client was gone before the recorder could look. Outside there is a process 1 with a thread 2 of the program.
    let setup = Setup {
        in_doubt: vec![CLIENT],
        known: known(&[(1, 1), (1, 2)]),
        root_pids: vec![1],
        ..Setup::default()
    };
    let cpus = vec![cpu(&[(10, 900, 1)]), cpu(&[(10, 900, 2)])];
    let trace = load(setup, cpus, vec![stream(1, &[101]), stream(2, &[102])]);
    assert_eq!((who(&trace, 101), who(&trace, 102)), ((1, 1), (1, 2)));
    assert!(trace.inner_names.is_empty(), "no name space at all");
}

#[test]
fn numbers_in_doubt_of_a_thread_that_slept_are_inner_ones() {
    // The program has a thread 2 of process 1 outside, but it sleeps at the stamps; 501 is on a CPU at each.
    let setup = Setup {
        in_doubt: vec![CLIENT],
        known: known(&[(1, 1), (1, 2), (500, 500), (500, 501)]),
        root_pids: vec![1, 500],
        ..Setup::default()
    };
    let cpus = vec![cpu(&[(10, 20, 2), (30, 900, 501)]), cpu(&[(10, 20, 1), (30, 40, 500)])];
    let trace = load(setup, cpus, vec![stream(2, &[102, 202])]);
    assert_eq!(who(&trace, 102), (500, 501));
    assert_eq!(trace.inner_names.len(), 1);
}

#[test]
fn numbers_in_doubt_that_two_processes_could_have_are_a_process_of_their_own() {
    // 501 and 601 are threads of two processes, and both run at the stamp.
    let setup = Setup {
        in_doubt: vec![CLIENT],
        known: known(&[(500, 501), (600, 601), (2, 2)]),
        root_pids: vec![500, 600],
        ..Setup::default()
    };
    let cpus = vec![cpu(&[(10, 900, 501)]), cpu(&[(10, 900, 601)]), cpu(&[STRANGER])];
    let trace = load(setup, cpus, vec![stream(2, &[102, 202])]);
    assert_eq!(who(&trace, 102), (-1, -2));
    assert!(trace.processes.iter().any(|p| p.pid == -1 && p.is_target));
}

#[test]
fn the_main_thread_bears_the_number_of_the_process_on_both_sides() {
    // Both run at each stamp; the stream is that of thread 1 of process 1, so it is 500 and not 501.
    let setup = Setup {
        in_doubt: vec![CLIENT],
        known: known(&[(500, 500), (500, 501)]),
        root_pids: vec![500],
        ..Setup::default()
    };
    let trace = load(setup, all_run(&[500, 501]), vec![stream(1, &[101, 201])]);
    assert_eq!(who(&trace, 101), (500, 500));
}

#[test]
fn a_thread_that_ran_at_nine_of_ten_stamps_is_found_at_eight_it_is_not() {
    // A stamp next to a switch may fall on its wrong side, one in five does not.
    let stamps: Vec<i64> = (1..=10).map(|n| n * 50).collect();
    let found = |end| {
        let cpus = vec![cpu(&[(10, end, 501)]), cpu(&[(600, 900, 500)])];
        let streams = vec![stream(1, &[650]), stream(2, &stamps)];
        who(&load(of_500(&[500, 501]), cpus, streams), 50)
    };
    assert_eq!((found(460), found(410)), ((500, 501), (500, -2)));
}

#[test]
fn the_holder_that_a_lock_names_is_an_inner_number() {
    // Thread 2 waits for a lock that says: held by 1; later by 7, who never annotated. Outside, 1 and 7 are strangers.
    let ask = |ns, holder| Annotation {
        time: Time(ns),
        kind: Kind::LockRequest as u8,
        aux: 0,
        name: StrIx::NONE,
        a: 0xa0,
        b: holder,
    };
    let got = |ns| Annotation { kind: Kind::LockAcquired as u8, ..ask(ns, 0) };
    let left = |ns| Annotation { kind: Kind::LockLeft as u8, ..ask(ns, 0) };
    let setup = Setup {
        inner: vec![translated(5, 500, 1), translated(5, 501, 2)],
        known: known(&[(500, 500), (500, 501), (1, 1), (7, 7)]),
        ..Setup::default()
    };
    let mut waiter = stream(2, &[]);
    waiter.events = vec![ask(10, 1), got(20), left(30), ask(40, 7), got(50), left(60)];
    let trace = load(setup, Vec::new(), vec![stream(1, &[5]), waiter]);
    assert_eq!(trace.lock_waits.holder, [500, 0]);
}
