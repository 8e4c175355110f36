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

/// A recording of the threads 10 and 11 of process 10 on one CPU, up to `until`.
fn two_threads(
    strings: Strings,
    until: i64,
    cpu: Vec<Event>,
    streams: Vec<AnnotationVec>,
) -> Trace {
    let known = |tid| KnownThread { time: Time(0), pid: 10, tid, ppid: 1, comm: "worker".into() };
    let setup = Setup {
        root_pids: vec![10],
        n_cpus: 1,
        recorded: vec![0],
        known: vec![known(10), known(11)],
        span: Time(0)..Time(until),
        ..Setup::default()
    };
    Input { setup, strings, cpus: vec![cpu], streams }.build().unwrap()
}

/// Two threads on one CPU: 10 computes 1000 and waits at the barrier, 11 computes 3000, comes to it and ends; 10 computes 2000 more.
/// `times`: how often each wait is said, one inside the other.
fn met(times: i64) -> Trace {
    let mut strings = Strings::default();
    strings.intern("worker");
    let name = strings.intern("barrier");
    let put =
        |ns: i64, kind: u8| Annotation { time: Time(ns), kind, aux: BARRIER, name, a: 0xb0, b: 0 };
    let nested = |from: i64, to: i64| {
        let begins = (0..times).map(|i| put(from + i, WAIT_BEGIN));
        let ends = (0..times).map(|i| put(to + i, WAIT_END));
        begins.chain(ends).collect::<Vec<_>>()
    };
    let stream = |tid, events| AnnotationVec { pid: 10, tid, events, at: 0 };
    let cpu = vec![
        switch(1_000, 10, Sleeping, 11),
        waking(3_900, 11, 10),
        switch(4_000, 11, Sleeping, 10),
        switch(6_000, 10, Sleeping, 0),
    ];
    let until = 6_000;
    let streams = vec![stream(10, nested(990, 4_010)), stream(11, nested(3_800, 3_950))];
    two_threads(strings, until, cpu, streams)
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
    let put =
        |ns: i64, kind: u8| Annotation { time: Time(ns), kind, aux: COND, name, a: 0xc0, b: 0 };
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
    let until = end + 1_000;
    let events = vec![
        put(900, WAIT_BEGIN),
        put(3_001, WAIT_END),
        put(again - 1, WAIT_BEGIN),
        put(end + 1, WAIT_END),
    ];
    let stream = AnnotationVec { pid: 10, tid: 10, events, at: 0 };
    two_threads(strings, until, cpu, vec![stream])
}

#[test]
fn a_timed_wait_begun_again_takes_as_long_as_what_it_is_for() {
    for (pause, delays) in [(10, 0), (2_000_000, 1)] {
        let found = extract(&polled(pause), 0.0).unwrap();
        let waiter = &found.program.scripts[0];
        let n = |is: fn(&Step) -> bool| waiter.steps.iter().filter(|s| is(s)).count();
        assert_eq!(n(|s| matches!(s, Step::Delay(_))), delays, "{pause}: {waiter:?}");
        assert_eq!(n(|s| matches!(s, Step::Wait(_))), 1, "{pause}: {waiter:?}");
    }
}

/// 10 computes 1000 and wakes 11, which `later` takes its CPU, computes 2000 and sleeps; 10 computes 3000 more. Whether it waited
/// for 11 is not known.
fn taken_over(later: i64) -> Trace {
    let took = 1_050 + later;
    let mut strings = Strings::default();
    strings.intern("worker");
    let cpu = vec![
        switch(100, 11, Sleeping, 10),
        waking(1_050, 10, 11),
        switch(took, 10, RunnablePreempted, 11),
        switch(took + 2_000, 11, Sleeping, 10),
        switch(took + 5_000, 10, Sleeping, 0),
    ];
    two_threads(strings, took + 5_100, cpu, Vec::new())
}

#[test]
fn a_wait_that_one_cpu_hides_is_in_the_range() {
    let found = extract(&taken_over(50), 0.0).unwrap();
    assert_eq!((found.hidden_ns, found.hand_overs), (2_000, 1));
    let machine = Machine::ideal();
    let wall = |program, cpus| replay(program, &How::new(&machine, cpus)).wall_ns.round();
    // Alone 1000 + 3000 beside 2000; with the wait one after the other.
    let near = |a: f64, b: f64| (a / b - 1.0).abs() < 0.02;
    assert!(near(wall(&found.program, 2), 4_000.0), "{:?}", found.program);
    let tied = found.tied.expect("a second program");
    assert!(near(wall(&tied, 2), 6_000.0), "{tied:?}");
    // A turn that ended long after is a turn that ended: the woken thread had to wait for that.
    let later = extract(&taken_over(60_000), 0.0).unwrap();
    assert!(later.hidden_ns == 0 && later.tied.is_none());
}

/// 30 times 10 computes 100, wakes 11, which does not take its CPU, computes `after` more and sleeps until 11 worked 2000; then it loses the CPU to 11.
fn habitual(after: i64, by: i32) -> Trace {
    let mut strings = Strings::default();
    strings.intern("worker");
    let mut cpu = vec![switch(100, 11, Sleeping, 10)];
    let mut now = 100;
    for _ in 0..30 {
        let slept = now + 100 + after;
        cpu.extend([
            waking(now + 100, 10, 11),
            switch(slept, 10, Sleeping, 11),
            waking(slept + 1_900, by, 10),
            switch(slept + 2_000, 11, Sleeping, 10),
        ]);
        now = slept + 2_000;
    }
    cpu.extend([
        waking(now + 100, 10, 11),
        switch(now + 150, 10, RunnablePreempted, 11),
        switch(now + 2_150, 11, Sleeping, 10),
        switch(now + 5_150, 10, Sleeping, 0),
    ]);
    two_threads(strings, now + 5_200, cpu, Vec::new())
}

#[test]
fn what_a_thread_does_where_it_keeps_its_cpu_tells_whether_it_waits() {
    let waits = |program: &kasuri_predict::program::Program| {
        let steps = &program.scripts[0].steps;
        steps.iter().filter(|s| matches!(s, Step::Wait(_))).count()
    };
    // It sleeps soon after the call, until the other one wakes it: so it waits the last time too.
    let soon = extract(&habitual(20, 11), 0.0).unwrap();
    assert_eq!((soon.hidden_ns, soon.hand_overs), (0, 0));
    assert!(soon.tied.is_none() && waits(&soon.program) == 31);
    // It works on.
    let late = extract(&habitual(300, 11), 0.0).unwrap();
    assert_eq!((late.hidden_ns, late.hand_overs), (0, 0));
    assert!(late.tied.is_none() && waits(&late.program) == 30);
    // It sleeps soon, and something else wakes it.
    let other = extract(&habitual(20, 99), 0.0).unwrap();
    assert_eq!((other.hidden_ns, waits(&other.program)), (0, 0));
    // Nothing is known of it: both are possible.
    let found = extract(&taken_over(50), 0.0).unwrap();
    assert!(found.hidden_ns > 0 && found.tied.is_some());
}

#[test]
fn two_idle_cpus_in_turns_wake_later_than_a_busy_one() {
    const TURNS: u32 = 100;
    // 10 us in turns; or the first works on, for longer than the other, and nobody waits for the second.
    let program = |in_turns: bool| {
        let mut steps = [Vec::new(), Vec::new()];
        for turn in 0..TURNS {
            let work = if in_turns || turn % 2 == 1 { 10_000 } else { 40_000 };
            let [mine, other] = if turn % 2 == 0 { [0, 1] } else { [1, 0] };
            steps[mine].extend([Step::Compute(work), Step::Post(turn)]);
            if in_turns || other == 1 {
                steps[other].push(Step::Wait(turn));
            }
        }
        let script = |steps| kasuri_predict::program::Script { steps, ..Default::default() };
        kasuri_predict::program::Program {
            scripts: steps.map(script).to_vec(),
            n_events: TURNS,
            ..Default::default()
        }
    };
    let wall = |in_turns: bool, relay_ns: f64| {
        let machine = Machine {
            relay_ns,
            wake_latency_ns: 5_000.0,
            wake_latency_short_ns: 5_000.0,
            wake_latency_long_ns: 5_000.0,
            ..Machine::ideal()
        };
        let mut how = How::new(&machine, 2);
        how.jitter = 0.0;
        replay(&program(in_turns), &how).wall_ns
    };
    let near = |a: f64, b: f64| (a / b - 1.0).abs() < 0.02;
    assert!(near(wall(true, 0.0), 1_500_000.0), "{}", wall(true, 0.0));
    // Each hand-over but the first ones costs more.
    assert!(near(wall(true, 8_000.0), 2_300_000.0), "{}", wall(true, 8_000.0));
    assert_eq!(wall(false, 8_000.0), wall(false, 0.0));
}
