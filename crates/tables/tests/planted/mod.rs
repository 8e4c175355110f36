//! A run of two threads and two locks, 10 us long, of which everything is known.
use ThreadState::*;
use kasuri_model::input::{Annotation, Event, KnownThread, Setup};
use kasuri_model::{AnnotationVec, Input, StrIx, Strings, ThreadState, Time, Trace};

/// The kernel's name of all threads.
const T: StrIx = StrIx(0);

const BEGIN: u8 = 1;
const END: u8 = 2;
const COUNTER: u8 = 4;
const REQUEST: u8 = 7;
const ACQUIRED: u8 = 8;
const RELEASED: u8 = 9;
const A: u64 = 0xa0;
const B: u64 = 0xb0;

fn known(tid: i32) -> KnownThread {
    KnownThread { time: Time(0), pid: 10, tid, ppid: 1, comm: "worker".into() }
}

fn switch(ns: i64, prev: i32, left_as: ThreadState, next: i32) -> Event {
    Event::switch(ns, prev, left_as, next, T)
}

fn waking(ns: i64, context: i32, tid: i32) -> Event {
    Event::waking(ns, context, tid, T)
}

/// Thread 10 on CPU 0 all the time but for 3000..5000 (preempted by 99) and 6000..7000 (asleep, inside lock a); 11 on CPU 1 until
/// it waits for a: asleep 2500..8100, woken at 8000, running again at 8100.
pub fn planted() -> Trace {
    let mut strings = Strings::default();
    strings.intern("worker");
    let (a, b, step, load) = (
        strings.intern("&a"),
        strings.intern("&b"),
        strings.intern("step"),
        strings.intern("load"),
    );
    let put = |ns: i64, kind: u8, name: StrIx, a: u64| Annotation {
        time: Time(ns),
        kind,
        aux: 0,
        name,
        a,
        b: 0,
    };
    let stream = |tid: i32, events: Vec<Annotation>| AnnotationVec { pid: 10, tid, events, at: 0 };
    let streams = vec![
        stream(
            10,
            vec![
                put(200, BEGIN, step, 0),
                put(900, REQUEST, a, A),
                put(1_000, ACQUIRED, a, A),
                put(8_000, RELEASED, a, A),
                put(9_000, ACQUIRED, a, A),
                put(9_100, ACQUIRED, b, B),
                put(9_200, RELEASED, b, B),
                put(9_300, RELEASED, a, A),
                put(9_400, COUNTER, load, 2.5f64.to_bits()),
                put(9_450, COUNTER, load, 3f64.to_bits()),
                put(9_500, END, StrIx::NONE, 0),
            ],
        ),
        stream(
            11,
            vec![
                put(1_000, BEGIN, step, 0),
                put(2_400, REQUEST, a, A),
                put(8_100, ACQUIRED, a, A),
                put(8_600, RELEASED, a, A),
                put(9_000, END, StrIx::NONE, 0),
            ],
        ),
    ];
    let cpu0 = vec![
        switch(3_000, 10, RunnablePreempted, 99),
        switch(5_000, 99, Sleeping, 10),
        switch(6_000, 10, Sleeping, 0),
        waking(7_000, 0, 10),
        switch(7_000, 0, RunnablePreempted, 10),
        waking(8_000, 10, 11),
        switch(10_000, 10, RunnablePreempted, 0),
    ];
    let cpu1 = vec![
        switch(2_500, 11, Sleeping, 0),
        switch(8_100, 0, RunnablePreempted, 11),
        switch(10_000, 11, RunnablePreempted, 0),
    ];
    let setup = Setup {
        root_pids: vec![10],
        n_cpus: 2,
        recorded: vec![0, 1],
        known: vec![known(10), known(11)],
        span: Time(0)..Time(10_000),
        ..Setup::default()
    };
    Input { setup, strings, cpus: vec![cpu0, cpu1], streams }.build().unwrap()
}
