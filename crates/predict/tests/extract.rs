//! Recordings -> scripts, by hand: which waits become which steps. Barriers that are reported twice are one round, and a wait
//! with a time limit that is begun again and again takes as long as what it waits for.
use ThreadState::*;
use kasuri_model::input::{Annotation, Event, KnownThread, Setup};
use kasuri_model::{AnnotationVec, Input, StrIx, Strings, ThreadState, Time, Trace};
use kasuri_predict::program::Step;
use kasuri_predict::replay::{Setup as How, replay};
use kasuri_predict::{Machine, extract};

const WAIT_BEGIN: u8 = 5;
const WAIT_END: u8 = 6;
const BARRIER: u16 = 1;
const COND: u16 = 3;
const T: StrIx = StrIx(0);

fn switch(ns: i64, prev: i32, left_as: ThreadState, next: i32) -> Event {
    Event::switch(ns, prev, left_as, next, T)
}

fn waking(ns: i64, context: i32, tid: i32) -> Event {
    Event::waking(ns, context, tid, T)
}

/// Two threads on one CPU: 10 computes 1000 and waits at the barrier, 11 computes 3000, comes to it and ends; 10 computes 2000 more.
/// `times`: how often each wait is said, one inside the other.
fn met(times: i64) -> Trace {
    let mut strings = Strings::default();
    strings.intern("worker");
    let name = strings.intern("barrier");
    let put = |ns: i64, kind: u8| Annotation {
        time: Time(ns),
        kind,
        aux: BARRIER,
        name,
        a: 0xb0,
        b: 0,
    };
    let nested = |from: i64, to: i64| {
        let begins = (0..times).map(|i| put(from + i, WAIT_BEGIN));
        let ends = (0..times).map(|i| put(to + i, WAIT_END));
        begins.chain(ends).collect::<Vec<_>>()
    };
    let stream = |tid, events| AnnotationVec {
        pid: 10,
        tid,
        events,
        at: 0,
    };
    let known = |tid| KnownThread {
        time: Time(0),
        pid: 10,
        tid,
        ppid: 1,
        comm: "worker".into(),
    };
    let cpu = vec![
        switch(1_000, 10, Sleeping, 11),
        waking(3_900, 11, 10),
        switch(4_000, 11, Sleeping, 10),
        switch(6_000, 10, Sleeping, 0),
    ];
    let setup = Setup {
        root_pids: vec![10],
        n_cpus: 1,
        recorded: vec![0],
        known: vec![known(10), known(11)],
        span: Time(0)..Time(6_000),
        ..Setup::default()
    };
    let streams = vec![
        stream(10, nested(990, 4_010)),
        stream(11, nested(3_800, 3_950)),
    ];
    Input {
        setup,
        strings,
        cpus: vec![cpu],
        streams,
    }
    .build()
    .unwrap()
}

#[test]
fn a_barrier_is_one_round_however_often_it_is_said() {
    for times in [1, 2, 3] {
        let found = extract(&met(times), 0.0).unwrap();
        assert_eq!(found.program.rounds, [2], "said {times} times");
        let barriers = |s: &kasuri_predict::program::Script| {
            let at = |s: &&Step| matches!(s, Step::Barrier(_));
            s.steps.iter().filter(at).count()
        };
        assert!(found.program.scripts.iter().all(|s| barriers(s) == 1));
        let machine = Machine::ideal();
        let outcome = replay(&found.program, &How::new(&machine, 2));
        assert_eq!(outcome.forced, 0, "said {times} times");
    }
}

/// A thread that looks every 2000 ns whether the other is done: 10 waits with a timeout at 1000 and again at 3010, and is woken by 11
/// at 4000. `pause`: between the two waits.
fn polled(pause: i64) -> Trace {
    let mut strings = Strings::default();
    let name = strings.intern("changed");
    let put = |ns: i64, kind: u8| Annotation {
        time: Time(ns),
        kind,
        aux: COND,
        name,
        a: 0xc0,
        b: 0,
    };
    let again = 3_000 + pause;
    let end = again + 1_000;
    let cpu = vec![
        switch(1_000, 10, Sleeping, 11),
        waking(2_900, 0, 10),
        switch(3_000, 11, RunnablePreempted, 10),
        switch(again, 10, Sleeping, 11),
        waking(end - 100, 11, 10),
        switch(end, 11, Sleeping, 10),
        switch(end + 1_000, 10, Sleeping, 0),
    ];
    let known = |tid| KnownThread {
        time: Time(0),
        pid: 10,
        tid,
        ppid: 1,
        comm: "worker".into(),
    };
    let setup = Setup {
        root_pids: vec![10],
        n_cpus: 1,
        recorded: vec![0],
        known: vec![known(10), known(11)],
        span: Time(0)..Time(end + 1_000),
        ..Setup::default()
    };
    let events = vec![
        put(900, WAIT_BEGIN),
        put(3_001, WAIT_END),
        put(again - 1, WAIT_BEGIN),
        put(end + 1, WAIT_END),
    ];
    let stream = AnnotationVec {
        pid: 10,
        tid: 10,
        events,
        at: 0,
    };
    Input {
        setup,
        strings,
        cpus: vec![cpu],
        streams: vec![stream],
    }
    .build()
    .unwrap()
}

#[test]
fn a_timed_wait_begun_again_takes_as_long_as_what_it_is_for() {
    for (pause, delays) in [(10, 0), (2_000_000, 1)] {
        let found = extract(&polled(pause), 0.0).unwrap();
        let waiter = &found.program.scripts[0];
        let n = |is: fn(&Step) -> bool| waiter.steps.iter().filter(|s| is(s)).count();
        assert_eq!(
            n(|s| matches!(s, Step::Delay(_))),
            delays,
            "{pause}: {waiter:?}"
        );
        assert_eq!(n(|s| matches!(s, Step::Wait(_))), 1, "{pause}: {waiter:?}");
    }
}

/// 10 computes 1000 and wakes 11, which takes its CPU, computes 2000 and sleeps; 10 computes 3000 more. Whether it waited for 11 is not known.
fn taken_over() -> Trace {
    let mut strings = Strings::default();
    strings.intern("worker");
    let known = |tid| KnownThread {
        time: Time(0),
        pid: 10,
        tid,
        ppid: 1,
        comm: "worker".into(),
    };
    let cpu = vec![
        switch(100, 11, Sleeping, 10),
        waking(1_050, 10, 11),
        switch(1_100, 10, RunnablePreempted, 11),
        switch(3_100, 11, Sleeping, 10),
        switch(6_100, 10, Sleeping, 0),
    ];
    let setup = Setup {
        root_pids: vec![10],
        n_cpus: 1,
        recorded: vec![0],
        known: vec![known(10), known(11)],
        span: Time(0)..Time(6_200),
        ..Setup::default()
    };
    Input {
        setup,
        strings,
        cpus: vec![cpu],
        streams: Vec::new(),
    }
    .build()
    .unwrap()
}

#[test]
fn a_wait_that_one_cpu_hides_is_in_the_range() {
    let found = extract(&taken_over(), 0.0).unwrap();
    assert_eq!(found.hidden_ns, 2_000);
    let machine = Machine::ideal();
    let wall = |program, cpus| replay(program, &How::new(&machine, cpus)).wall_ns.round();
    // Alone 1000 + 3000 beside 2000; with the wait one after the other.
    let near = |a: f64, b: f64| (a / b - 1.0).abs() < 0.02;
    assert!(
        near(wall(&found.program, 2), 4_000.0),
        "{:?}",
        found.program
    );
    let tied = found.tied.expect("a second program");
    assert!(near(wall(&tied, 2), 6_000.0), "{tied:?}");
}
