//! Who is late in what several threads run at once, and who works alone; worked out by hand.
use super::join::sampled;
use super::said::{START, WAIT, advice, causes, kinds, late, two};
use crate::account::story::Story;
use ThreadState::{RunnablePreempted, Sleeping};
use kasuri_analyze::{Options, summary};
use kasuri_model::{SampleKind, ThreadState, Trace};

#[test]
fn the_last_in_what_others_ran_too_is_late() {
    let part: &[&str] = &[START, "worker", "multiply"];
    for late in [part, &["_start", "main", "worker", "multiply"]] {
        let found = causes(&two(late, part, WAIT));
        let expected = ("load_imbalance", "by_samples", "worker".into(), 10, 500);
        assert_eq!(found, [expected], "{late:?}");
    }
}

#[test]
fn the_part_of_a_region_of_openmp_has_the_name_of_its_function() {
    let wait: &[&str] = &["gomp_thread_start@libgomp.so.1", "@libgomp.so.1"];
    for (part, region) in [("solve._omp_fn.0", "solve"), (".omp_outlined.", "relax")] {
        let main: &[&str] = &["_start", "main", region, "GOMP_parallel@libgomp.so.1", part];
        let worker: &[&str] = &["gomp_thread_start@libgomp.so.1", part];
        let found = causes(&two(main, worker, wait));
        let expected = ("load_imbalance", "by_samples", region.into(), 10, 500);
        assert_eq!(found, [expected]);
    }
}

#[test]
fn who_runs_something_else_works_alone() {
    let early: &[&str] = &[START, "worker", "multiply"];
    for (late, own) in [
        (&["_start", "main", "assemble"][..], "assemble"),
        // A function that both call is no phase that both are in.
        (&["_start", "main", "assemble", "multiply"], "multiply < assemble"),
        (&["_start", "main", "multiply"], "multiply"),
    ] {
        let found = causes(&two(late, early, WAIT));
        let expected = ("low_parallelism", "serial_phase", own.into(), 10, 500);
        assert_eq!(found, [expected], "{late:?}");
    }
}

/// Of code that is all a runtime's its functions are named; not those with which it begins.
#[test]
fn a_phase_within_a_runtime_has_its_functions_name() {
    let begins = ["_start", "main@node", "node::Start@node", "uv_run@node"];
    let early: &[&str] = &[START, "worker", "multiply"];
    for (inner, name) in [
        (
            &["v8::Serializer::WriteObject@node", "v8::Serializer::WriteString@node"][..],
            "v8::Serializer::WriteString < v8::Serializer::WriteObject",
        ),
        (&[], "uv_run"),
    ] {
        let late = [&begins, inner].concat();
        let found = causes(&two(&late, early, WAIT));
        let expected = ("low_parallelism", "serial_phase", name.into(), 10, 500);
        assert_eq!(found, [expected], "{late:?}");
    }
}

/// Ten samples and more show that each stage is one thread's alone.
#[test]
fn stages_below_one_function_are_no_phase() {
    let stage = |name: &'static str| vec![START, "stage", name];
    let (read, pack) = (stage("read_block"), stage("pack_block"));
    let mut samples: Vec<(i32, i64, SampleKind, &[&str])> = Vec::new();
    samples.extend((0..18).map(|n| (10, 20 + n * 50, SampleKind::OnCpu, &pack[..])));
    samples.extend((0..12).map(|n| (11, 20 + n * 30, SampleKind::OnCpu, &read[..])));
    samples.push((11, 500, SampleKind::BlockedRead, WAIT));
    let found = causes(&sampled(late().load(1000), &samples));
    let expected = ("low_parallelism", "serial_phase", "pack_block".into(), 10, 500);
    assert_eq!(found, [expected]);
}

/// 10 runs `work` alone 0..500, while 11 waits; then both do.
#[test]
fn what_runs_alone_first_is_alone_though_many_run_it_later() {
    let mut s = Story::new(2);
    s.known = vec![11];
    s.switch(1, 1, 11, Sleeping, 0);
    s.wake(0, 500, 10, 11, 1);
    s.switch(0, 500, 10, Sleeping, 0);
    s.switch(1, 501, 0, RunnablePreempted, 11);
    s.wake(1, 502, 11, 10, 0);
    s.switch(0, 503, 0, RunnablePreempted, 10);
    s.switch(0, 999, 10, RunnablePreempted, 0);
    s.switch(1, 999, 11, RunnablePreempted, 0);
    let work: &[&str] = &[START, "work"];
    let samples = [
        (10, 250, SampleKind::OnCpu, work),
        (10, 750, SampleKind::OnCpu, work),
        (11, 750, SampleKind::OnCpu, work),
    ];
    let found = causes(&sampled(s.load(1000), &samples));
    let (class, note, _, tid, ns) = &found[0];
    assert_eq!((*class, *note, *tid), ("low_parallelism", "serial_phase", 10));
    assert!((490..=510).contains(ns), "{found:?}");
}

/// At a barrier it does not matter what the last one runs.
#[test]
fn a_barrier_that_only_samples_tell_is_load_imbalance() {
    let barriers: [&[&str]; 3] = [
        &[START, "worker", "pthread_barrier_wait@libc.so.6"],
        &[START, "worker", "std::barrier<>::arrive_and_wait()"],
        &["main", "solve", "GOMP_barrier@libgomp.so.1", "@libgomp.so.1"],
    ];
    for wait in barriers {
        let found = causes(&two(&["main", "assemble"], &["worker", "multiply"], wait));
        let expected = ("load_imbalance", "by_samples", String::new(), 10, 500);
        assert_eq!(found, [expected], "{wait:?}");
    }
}

/// 10 and 11 run a part each; 11 spins from 500 on.
#[test]
fn spinning_is_for_the_last_in_the_phase() {
    let mut s = Story::new(2);
    s.known = vec![11];
    s.switch(0, 999, 10, RunnablePreempted, 0);
    s.switch(1, 999, 11, RunnablePreempted, 0);
    let main: &[&str] = &["main", "solve", "GOMP_parallel@libgomp.so.1", "solve._omp_fn.0"];
    let worker: &[&str] = &["gomp_thread_start@libgomp.so.1", "solve._omp_fn.0"];
    let spin: &[&str] = &["gomp_thread_start@libgomp.so.1", "do_spin@libgomp.so.1"];
    let samples = [
        (10, 250, SampleKind::OnCpu, main),
        (10, 750, SampleKind::OnCpu, main),
        (11, 250, SampleKind::OnCpu, worker),
        (11, 750, SampleKind::OnCpu, spin),
    ];
    let found = causes(&sampled(s.load(1000), &samples));
    assert_eq!(found, [("spinning", "late_thread", "solve".into(), 10, 499)]);
}

/// The runtime's functions have no names, but the call into it has: what a thread in it does is
/// what was called.
#[test]
fn the_call_tells_what_a_nameless_runtime_does() {
    let mut s = Story::new(2);
    s.known = vec![11];
    s.switch(0, 999, 10, RunnablePreempted, 0);
    s.switch(1, 999, 11, RunnablePreempted, 0);
    let trace = s.load(1000);
    let main: &[&str] = &["main", "solve", "GOMP_parallel@libgomp.so.1", "solve._omp_fn.0"];
    let spin = "a spin loop in libgomp.so.1@libgomp.so.1";
    for (call, inside, expected) in [
        ("GOMP_critical_start", spin, ("lock_wait", "by_samples", "")),
        ("GOMP_ordered_start", spin, ("lock_wait", "by_samples", "")),
        ("omp_set_lock", "@libgomp.so.1", ("lock_wait", "by_samples", "")),
        ("GOMP_barrier", spin, ("spinning", "late_thread", "")),
        ("GOMP_barrier", "@libgomp.so.1", ("spinning", "late_thread", "")),
        ("GOMP_loop_dynamic_next", "@libgomp.so.1", ("task_runtime", "", "small_parts")),
    ] {
        let waits: &[&str] = &["gomp_thread_start@libgomp.so.1", "solve._omp_fn.0", call, inside];
        let worker: &[&str] = &["gomp_thread_start@libgomp.so.1", "solve._omp_fn.0"];
        let samples = [
            (10, 250, SampleKind::OnCpu, main),
            (10, 750, SampleKind::OnCpu, main),
            (11, 250, SampleKind::OnCpu, worker),
            (11, 750, SampleKind::OnCpu, waits),
        ];
        let trace = sampled(trace.clone(), &samples);
        let found = causes(&trace);
        assert_eq!((found[0].0, found[0].1), (expected.0, expected.1), "{call} {found:?}");
        let parts = kinds(&trace).into_iter().find(|kind| *kind == "small_parts");
        assert_eq!(parts.unwrap_or_default(), expected.2, "{call}");
    }
}

/// Rust's mutex spins for a moment before it sleeps, in code that lies in the program's file.
#[test]
fn a_spin_inside_of_a_lock_is_for_that_lock() {
    let mut s = Story::new(2);
    s.known = vec![11];
    s.switch(0, 999, 10, RunnablePreempted, 0);
    s.switch(1, 999, 11, RunnablePreempted, 0);
    let trace = s.load(1000);
    let lock = "std::sys::sync::mutex::futex::Mutex::lock_contended";
    let spin = "a spin loop in prog";
    let load = "core::sync::atomic::atomic_load";
    for (path, class) in [
        (&[START, "worker", "append", lock, load, spin][..], "lock_wait"),
        (&[START, "worker", "wait_for_flag", load, spin], "spinning"),
        // What is called with the lock held is not for it.
        (&[START, "worker", lock, "append", spin], "spinning"),
    ] {
        let samples = [
            (10, 250, SampleKind::OnCpu, &["main", "assemble"][..]),
            (10, 750, SampleKind::OnCpu, &["main", "assemble"]),
            (11, 250, SampleKind::OnCpu, &[START, "worker", "append"]),
            (11, 750, SampleKind::OnCpu, path),
        ];
        let found = causes(&sampled(trace.clone(), &samples));
        assert_eq!(found[0].0, class, "{path:?} {found:?}");
    }
}

/// A runtime without names: where no task was ever seen, threads in it wait; where one was, it may
/// hand out tasks.
#[test]
fn without_tasks_a_runtime_of_openmp_only_waits() {
    let mut s = Story::new(2);
    s.known = vec![11];
    s.switch(0, 999, 10, RunnablePreempted, 0);
    s.switch(1, 999, 11, RunnablePreempted, 0);
    let trace = s.load(1000);
    let main: &[&str] = &["main", "solve", "__kmpc_fork_call@libomp.so.5", ".omp_outlined."];
    let idle: &[&str] = &[START, "@libomp.so.5"];
    for (task, class) in [("sum", "spinning"), (".omp_task_entry.", "task_runtime")] {
        let samples = [
            (10, 250, SampleKind::OnCpu, &[main, &[task][..]].concat()[..]),
            (10, 750, SampleKind::OnCpu, main),
            (11, 250, SampleKind::OnCpu, idle),
        ];
        let found = causes(&sampled(trace.clone(), &samples));
        assert_eq!((found[0].0, found[0].4), (class, 999), "{task}");
    }
}

/// 10 takes eight naps of 900 with looks of `look` between them; 11 runs. Then 10 works.
fn naps(look: i64, n_running: usize) -> Trace {
    const US: i64 = 1_000;
    let mut s = Story::new(3);
    s.known = vec![11, 12];
    s.switch(1, 9_999 * US, 11, RunnablePreempted, 0);
    match n_running {
        1 => s.switch(2, 1, 12, Sleeping, 0),
        _ => s.switch(2, 9_999 * US, 12, RunnablePreempted, 0),
    }
    let mut samples: Vec<(i32, i64, SampleKind, &[&str])> = vec![
        (11, 5_000 * US, SampleKind::OnCpu, &["main", "compress"]),
        (12, 5_000 * US, SampleKind::OnCpu, &["main", "expand"]),
    ];
    for n in 0..8 {
        let from = n * 1_000 * US + look;
        s.switch(0, from, 10, Sleeping, 0);
        s.wake(0, (n + 1) * 1_000 * US, 0, 10, 0);
        s.switch(0, (n + 1) * 1_000 * US, 0, RunnablePreempted, 10);
        samples.push((
            10,
            from + 100 * US,
            SampleKind::BlockedRead,
            &["main", "until_done", "usleep@libc.so.6"],
        ));
    }
    s.switch(0, 9_999 * US, 10, RunnablePreempted, 0);
    samples.sort_by_key(|sample| (sample.0, sample.1));
    sampled(s.load(10_000 * US), &samples)
}

#[test]
fn naps_between_tries_are_for_those_who_run_meanwhile() {
    let first = |trace| {
        let (class, note, _, tid, _) = causes(&trace).remove(0);
        (class, note, tid)
    };
    assert_eq!(first(naps(5_000, 1)), ("low_parallelism", "serial_phase", 11));
    assert_eq!(first(naps(5_000, 2)), ("waiting_for_own_threads", "polled", 0));
    // Where it does something each time, it naps by its own choice.
    assert_eq!(first(naps(300_000, 2)), ("external_wait", "chosen", 0));
}

/// 10 looks eight times whether 11 is done: it waits so, with a limit, and asks for Python's lock, which 11 gives it and gets
/// back. Then 10 works.
fn looks_in_python(wait: &[&str], look: i64) -> Trace {
    const US: i64 = 1_000;
    let mut s = Story::new(2);
    s.known = vec![11];
    let lock: &[&str] =
        &["main", "py::look@[python]", "take_gil@python3", "pthread_cond_timedwait@libc.so.6"];
    let count: &[&str] = &["main", "py::count@[python]"];
    let mut samples = vec![(11, 300 * US, SampleKind::OnCpu, count)];
    for n in 0..8 {
        let at = |us: i64| (n * 1_000 + us) * US;
        s.switch(0, at(look), 10, Sleeping, 0);
        s.wake(0, at(500), 0, 10, 0);
        s.switch(0, at(500), 0, RunnablePreempted, 10);
        s.switch(0, at(502), 10, Sleeping, 0);
        s.wake(1, at(990), 11, 10, 0);
        s.switch(0, at(990), 0, RunnablePreempted, 10);
        s.switch(1, at(991), 11, Sleeping, 0);
        s.wake(0, at(995), 10, 11, 1);
        s.switch(1, at(996), 0, RunnablePreempted, 11);
        samples.push((10, at(250), SampleKind::BlockedRead, wait));
        samples.push((10, at(750), SampleKind::BlockedRead, lock));
        samples.push((11, at(800), SampleKind::OnCpu, count));
    }
    s.switch(1, 8_100 * US, 11, Sleeping, 0);
    s.switch(0, 9_999 * US, 10, RunnablePreempted, 0);
    samples.sort_by_key(|sample| (sample.0, sample.1));
    sampled(s.load(10_000 * US), &samples)
}

#[test]
fn who_asks_for_pythons_lock_only_to_look_waits_for_what_it_looks_for() {
    let first = |trace| {
        let (class, note, ..) = causes(&trace).remove(0);
        (class, note)
    };
    let timed = ["main", "py::look@[python]", "sem_clockwait@libc.so.6"];
    let sleeps = ["main", "py::look@[python]", "clock_nanosleep@libc.so.6"];
    for wait in [timed, sleeps] {
        let found = first(looks_in_python(&wait, 10));
        assert_eq!(found, ("low_parallelism", "serial_phase"), "{wait:?}");
        // Who works in between has missed the lock.
        assert_eq!(first(looks_in_python(&wait, 200)), ("lock_wait", "by_samples"), "{wait:?}");
    }
}

/// 10 runs and 11 naps between its tries to have the lock; then 11 runs and 10 naps. Nobody is
/// late.
#[test]
fn who_naps_until_it_has_its_turn_waits_for_no_slow_part() {
    const US: i64 = 1_000;
    let mut s = Story::new(2);
    s.known = vec![11];
    let update: &[&str] = &[START, "run", "update"];
    let nap: &[&str] = &[START, "run", "take", "usleep@libc.so.6"];
    let mut samples: Vec<(i32, i64, SampleKind, &[&str])> = Vec::new();
    for (cpu, tid, first) in [(0, 10, 4_000), (1, 11, 0)] {
        for n in 0..4 {
            let (from, to) =
                (first * US + n * 1_000 * US + 5_000, first * US + (n + 1) * 1_000 * US);
            s.switch(cpu, from, tid, Sleeping, 0);
            s.wake(cpu, to, 0, tid, cpu as i32);
            s.switch(cpu, to, 0, RunnablePreempted, tid);
            samples.push((tid, from + 100 * US, SampleKind::BlockedRead, nap));
        }
        let (runs, end) = match tid {
            10 => ([500, 2_000, 3_500, 9_000], 9_999),
            _ => ([4_500, 6_000, 7_000, 7_500], 8_000),
        };
        samples.extend(runs.map(|at| (tid, at * US, SampleKind::OnCpu, update)));
        s.switch(cpu, end * US, tid, Sleeping, 0);
    }
    let trace = sampled(s.load(10_000 * US), &samples);
    assert_eq!(advice(&trace, "one_after_another"), "");
    let found = causes(&trace);
    assert!(found.iter().all(|c| c.0 != "load_imbalance"), "{found:?}");
    assert_eq!((found[0].0, found[0].1), ("low_parallelism", "serial_phase"));
}

/// 12 sleeps and looks, and finds at 900 that 11, which has nothing to run, may be of use: until
/// then 10 runs alone, and nobody waits for a time.
#[test]
fn nobody_waits_for_who_watches_over_the_others() {
    let mut s = Story::new(2);
    s.known = vec![11, 12];
    s.switch(1, 100, 12, Sleeping, 11);
    s.switch(1, 400, 11, Sleeping, 0);
    s.wake(1, 890, 0, 12, 1);
    s.switch(1, 891, 0, RunnablePreempted, 12);
    s.wake(1, 900, 12, 11, 1);
    s.switch(1, 901, 12, Sleeping, 11);
    s.switch(0, 999, 10, RunnablePreempted, 0);
    s.switch(1, 999, 11, RunnablePreempted, 0);
    let idle: &[&str] = &["runtime.mstart", "runtime.findRunnable", "runtime.futex"];
    let watches: &[&str] = &["runtime.mstart", "runtime.sysmon", "runtime.usleep"];
    let samples = [
        (10, 500, SampleKind::OnCpu, &["runtime.goexit", "main.main"][..]),
        (11, 500, SampleKind::BlockedRead, idle),
        (12, 500, SampleKind::BlockedRead, watches),
    ];
    let found = causes(&sampled(s.load(1000), &samples));
    assert_eq!((found[0].0, found[0].4), ("low_parallelism", 490), "{found:?}");
}

/// Goroutines and functions in JavaScript go from thread to thread, or have no names: what others
/// ran below the runtime's own functions is no phase that all are in. And what they wait for
/// meanwhile may be a lock: no advice.
#[test]
fn threads_of_a_language_that_share_its_runtime_are_in_no_phase() {
    let go: &[&str] = &["runtime.goexit", "main.main.func1", "main.score"];
    let idle: &[&str] = &["runtime.mcall", "runtime.findRunnable", "runtime.futex"];
    assert_eq!(summary(&two(&["main", "f"], &["g"], WAIT), &Options::default()).missing, [""; 0]);
    let node: &[&str] = &[
        START,
        "node::worker::Worker::StartThread()@node",
        "v8::internal::Execution::Call@node",
        "@",
    ];
    let java: &[&str] = &[START, "JavaCalls::call_helper@/jvm/libjvm.so", "@"];
    for (part, wait, missing) in [
        (go, idle, "which lock or channel a goroutine waits"),
        (node, WAIT, "functions in JavaScript: record with node --perf-basic-prof"),
        (java, WAIT, "functions in Java: record with java -XX:"),
    ] {
        let trace = two(part, part, wait);
        let said = summary(&trace, &Options::default()).missing;
        assert!(said.len() == 1 && said[0].contains(missing), "{said:?}");
        let (class, note, _, tid, ns) = causes(&trace).remove(0);
        assert_eq!((class, note, tid, ns), ("low_parallelism", "serial_phase", 10, 500));
        let found = kinds(&trace).into_iter().filter(|kind| !["busy", "goroutines"].contains(kind));
        assert_eq!(found.collect::<Vec<_>>(), [] as [&str; 0]);
    }
}

/// 10, the only thread, sleeps from 100 to 900, is ready until 950, and runs before and after.
fn alone_at(call: &[&str], state: ThreadState, by: i32) -> Trace {
    let mut s = Story::new(2);
    s.switch(0, 100, 10, state, 90);
    s.wake(usize::from(by == 0), 900, by, 10, 0);
    s.switch(0, 950, 90, RunnablePreempted, 10);
    s.switch(0, 999, 10, RunnablePreempted, 0);
    s.switch(1, 999, 0, RunnablePreempted, 91);
    let samples = [
        (10, 50, SampleKind::OnCpu, &["main", "append_record"][..]),
        (10, 500, SampleKind::BlockedRead, call),
        (10, 970, SampleKind::OnCpu, &["main", "append_record"]),
    ];
    sampled(s.load(1000), &samples)
}

/// A serial program that mostly waits is told by what it waits for; that no other thread could run
/// meanwhile is no phase of its code.
#[test]
fn a_serial_thread_that_waits_is_no_serial_phase_meanwhile() {
    let sync: &[&str] = &["main", "append_record", "fsync@libc.so.6"];
    let ask: &[&str] = &["main", "append_record", "read@libc.so.6"];
    for (call, state, by, wait) in [
        (sync, ThreadState::DiskSleep, 0, ("io_wait", "", "fsync < append_record")),
        (ask, Sleeping, 90, ("external_wait", "process", "read < append_record")),
        (ask, Sleeping, 0, ("external_wait", "interrupt", "read < append_record")),
    ] {
        let trace = alone_at(call, state, by);
        let found = summary(&trace, &Options::default()).account.causes;
        let ns = |class: &str, note: &str, code: &str| -> i64 {
            let is_it = |c: &&kasuri_analyze::account::CauseSummary| {
                (c.class, c.note, c.code.as_str()) == (class, note, code)
            };
            found.iter().filter(is_it).map(|c| c.ns).sum()
        };
        assert_eq!(ns(wait.0, wait.1, wait.2), 800, "{found:?}");
        // It had no CPU from 900 to 950, nor at the end: nothing ran alone then, either.
        assert_eq!(ns("low_parallelism", "none_ran", ""), 851, "{found:?}");
        let phase = ns("low_parallelism", "serial_phase", "append_record");
        assert_eq!(phase, 149, "{found:?}");
    }
}

/// 10 and 12 run, 11 waits and nobody ends that; the third CPU has nothing to run. Where 11 waits
/// is no code that ran.
#[test]
fn a_wait_is_not_what_ran_while_there_were_few_threads() {
    let mut s = Story::new(3);
    s.known = vec![11, 12];
    s.switch(1, 100, 11, Sleeping, 0);
    s.switch(0, 999, 10, RunnablePreempted, 0);
    s.switch(2, 999, 12, RunnablePreempted, 0);
    let read: &[&str] = &[START, "listen", "read@libc.so.6"];
    let samples = [(11, 500, SampleKind::BlockedRead, read)];
    let found = summary(&sampled(s.load(1000), &samples), &Options::default());
    let classes = found.call_paths.unwrap().classes;
    let few = classes.iter().find(|c| c.class == "low_parallelism").unwrap();
    assert_eq!(few.paths.paths, []);
    let others = &few.meanwhile.as_ref().unwrap().paths;
    assert_eq!(others[0].frames[0].function, "read");
}

/// 11 wakes 10 when it is done, and gets no CPU to end on while 12, which 10 then makes, runs the
/// same: one ran after the other.
#[test]
fn who_only_has_to_end_is_in_no_phase_with_the_next() {
    let mut s = Story::new(3);
    s.known = vec![11];
    s.switch(0, 10, 10, Sleeping, 0);
    s.wake(1, 400, 11, 10, 0);
    s.switch(1, 401, 11, RunnablePreempted, 90);
    s.switch(0, 402, 0, RunnablePreempted, 10);
    let fork = kasuri_model::input::What::Fork {
        parent: 10,
        child: 12,
        comm: kasuri_model::StrIx::NONE,
        pid: Some(10),
        same_process: Some(true),
    };
    s.other(0, 410, 10, fork);
    s.wake(0, 411, 10, 12, 2);
    s.switch(2, 412, 0, RunnablePreempted, 12);
    s.switch(0, 420, 10, Sleeping, 0);
    s.switch(1, 700, 90, Sleeping, 11);
    s.switch(1, 705, 11, ThreadState::Dead, 0);
    s.wake(2, 900, 12, 10, 0);
    s.switch(0, 901, 0, RunnablePreempted, 10);
    s.switch(2, 905, 12, ThreadState::Dead, 0);
    let task: &[&str] = &[START, "resize"];
    let wait: &[&str] = &["_start", "main", "pthread_cond_wait@libc.so.6"];
    let samples = [
        (10, 200, SampleKind::BlockedRead, wait),
        (10, 600, SampleKind::BlockedRead, wait),
        (11, 200, SampleKind::OnCpu, task),
        (12, 600, SampleKind::OnCpu, task),
    ];
    let found = causes(&sampled(s.load(1000), &samples));
    let (class, note, code, ..) = &found[0];
    assert_eq!(
        (*class, *note, code.as_str()),
        ("low_parallelism", "serial_phase", "resize"),
        "{found:?}"
    );
}

/// Of the functions that most of the phase is in, the innermost and its caller stand for it;
/// parameters say nothing.
#[test]
fn a_serial_phase_has_the_name_of_what_ran_most() {
    let named = |late: &[&str]| {
        let early: &[&str] = &[START, "worker", "multiply"];
        causes(&two(late, early, WAIT)).remove(0).2
    };
    assert_eq!(named(&["_start", "main", "merge(int)", "sort"]), "sort < merge");
    assert_eq!(named(&["_start", "main", "merge(int)"]), "merge");
    assert_eq!(named(&["_start", "main"]), "main");
    let thread = "py::Thread.run@[python]@/usr/lib/python3.11/threading.py";
    assert_eq!(named(&[thread, "py::consume@[python]@/home/me/job.py"]), "py::consume");
    // Where a function in Python is not known, what runs it is no name for it.
    let begin = ["_start", "main@libpython3.11.so.1.0", "pymain_main@libpython3.11.so.1.0"];
    let runs = ["Py_RunMain@libpython3.11.so.1.0", "_PyEval_EvalFrame@libpython3.11.so.1.0"];
    assert_eq!(named(&[&begin[..], &runs].concat()), "");
}

/// Stacks that end early have no outermost functions; what ran is known.
#[test]
fn a_phase_of_short_stacks_has_the_name_of_what_ran() {
    let early: &[&str] = &[START, "worker", "multiply"];
    let late: &[&str] = &["sha512_block@libcrypto.so.3"];
    let expected = ("low_parallelism", "serial_phase", "sha512_block".into(), 10, 500);
    assert_eq!(causes(&two(late, early, WAIT)), [expected]);
}
