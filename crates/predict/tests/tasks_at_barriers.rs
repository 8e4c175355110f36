//! Tasks that a thread runs while it waits at a barrier, as OpenMP's do, are work; the rest of the wait is left to the replay.
use kasuri_model::input::{Annotation, Event, KnownThread, Setup};
use kasuri_model::{AnnotationVec, Input, StrIx, Strings, ThreadState, Time, Trace};
use kasuri_predict::program::Step;
use kasuri_predict::{Options, extract, from_extracts};

const WAIT_BEGIN: u8 = 5;
const WAIT_END: u8 = 6;
const CREATE: u8 = 10;
const START: u8 = 11;
const TASK_END: u8 = 14;
const BARRIER: u16 = 1;
const MS: i64 = 1_000_000;

/// Two threads on a CPU each: both come to a barrier after 1 ms, and there thread 2 runs a task of `task` ms, thread 1 one of half as
/// much, both from 2 ms on. Then 1 ms each.
fn recorded(task: i64) -> Trace {
    let end = 2 + task;
    let mut strings = Strings::default();
    let (at_barrier, name) = (strings.intern("barrier"), strings.intern("task"));
    let stream = |tid: i32, ns: i64| {
        let event = |ms: i64, kind, aux, name, a| Annotation {
            time: Time(ms * MS),
            kind,
            aux,
            name,
            a,
            ..Annotation::default()
        };
        let id = tid as u64;
        AnnotationVec {
            pid: 1,
            tid,
            events: vec![
                event(0, CREATE, 0, name, id),
                event(1, WAIT_BEGIN, BARRIER, at_barrier, 2),
                event(2, START, 0, StrIx::NONE, id),
                event(2 + ns, TASK_END, 0, StrIx::NONE, id),
                event(end, WAIT_END, BARRIER, StrIx::NONE, 2),
            ],
            ..AnnotationVec::default()
        }
    };
    let switch =
        |ms: i64, prev, state, next| Event::switch(ms * MS, prev, state, next, StrIx::NONE);
    let cpu = |tid| {
        vec![
            switch(0, 0, ThreadState::Sleeping, tid),
            switch(end + 1, tid, ThreadState::Sleeping, 0),
        ]
    };
    let known = |tid| KnownThread { tid, pid: 1, ..KnownThread::default() };
    let setup = Setup {
        span: Time(0)..Time((end + 2) * MS),
        n_cpus: 2,
        root_pids: vec![1],
        recorded: vec![0, 1],
        known: vec![known(1), known(2)],
        ..Setup::default()
    };
    let input = Input {
        setup,
        strings,
        cpus: vec![cpu(1), cpu(2)],
        streams: vec![stream(1, task / 2), stream(2, task)],
    };
    input.build().unwrap()
}

#[test]
fn a_task_in_a_barrier_is_work_and_comes_before_the_round() {
    let out = extract(&recorded(20), 0.0).unwrap();
    let work = |steps: &[Step]| -> Vec<u64> {
        let at = steps.iter().position(|s| matches!(s, Step::Barrier(_)));
        let sum = |steps: &[Step]| {
            let of = steps.iter().map(|s| match s {
                Step::Compute(ns) => *ns,
                _ => 0,
            });
            of.sum::<u64>() / MS as u64
        };
        let (before, after) = steps.split_at(at.expect("both come to it"));
        vec![sum(before), sum(after)]
    };
    let scripts = &out.program.scripts;
    assert_eq!(out.program.rounds, [2]);
    assert_eq!(work(&scripts[0].steps), [1 + 10, 1]);
    assert_eq!(work(&scripts[1].steps), [1 + 20, 1]);
}

#[test]
fn the_replay_is_as_long_as_the_recording_and_not_refused() {
    let first = extract(&recorded(20), 0.0).unwrap();
    let p = from_extracts(&first, None, &Options::default());
    assert!(p.refused.is_empty(), "{:?}", p.refused);
    let error = p.replay_error().unwrap();
    assert!(error.abs() < 0.06, "{error}");
}
