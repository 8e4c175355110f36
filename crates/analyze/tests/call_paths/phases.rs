//! Who is late in what several threads run at once, and who works alone; worked out by hand.
use super::join::sampled;
use crate::account::story::Story;
use ThreadState::{RunnablePreempted, Sleeping};
use kasuri_analyze::{Options, summary};
use kasuri_model::{SampleKind, ThreadState, Trace};

/// (class, note, code, tid, ns) of the causes with more than 20 ns, largest first.
fn causes(trace: &Trace) -> Vec<(&'static str, &'static str, String, i32, i64)> {
    let s = summary(trace, &Options::default());
    let found = s.account.causes.iter().filter(|c| c.ns > 20);
    let row = |c: &kasuri_analyze::account::CauseSummary| {
        (c.class, c.note, c.code.clone(), c.tid.unwrap_or(0), c.ns)
    };
    found.map(row).collect()
}

/// 10 and 11 run from 0; 11 waits from 400 until 10 wakes it at 900.
fn late() -> Story {
    let mut s = Story::new(2);
    s.known = vec![11];
    s.switch(1, 400, 11, Sleeping, 0);
    s.wake(0, 900, 10, 11, 1);
    s.switch(1, 900, 0, RunnablePreempted, 11);
    s.switch(0, 999, 10, RunnablePreempted, 0);
    s.switch(1, 999, 11, RunnablePreempted, 0);
    s
}

const START: &str = "start_thread@libc.so.6";
const WAIT: &[&str] = &[START, "worker", "pthread_cond_wait@libc.so.6"];

/// 10 runs `late` and 11 `early`, then waits at `wait`.
fn two(late_at: &[&str], early: &[&str], wait: &[&str]) -> Trace {
    let samples = [
        (10, 250, SampleKind::OnCpu, late_at),
        (10, 750, SampleKind::OnCpu, late_at),
        (11, 200, SampleKind::OnCpu, early),
        (11, 500, SampleKind::BlockedRead, wait),
    ];
    sampled(late().load(1000), &samples)
}

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

/// A runtime without names: where no task was ever seen, threads in it wait; where one was, it may hand out tasks.
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

/// 10 runs and 11 naps between its tries to have the lock; then 11 runs and 10 naps. Nobody is late.
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

/// A lock of Python's is a semaphore of libc's, or CPython's own; a condition is made of such a lock, but waits for something else.
#[test]
fn a_lock_of_python_is_a_lock_wait() {
    const PYTHON: &str = "libpython3.11.so.1.0";
    let acquire = format!("PyThread_acquire_lock_timed@{PYTHON}");
    for (caller, class) in
        [("py::Handler.acquire@[python]", "lock_wait"), ("py::wait@[python]", "low_parallelism")]
    {
        let eval = format!("_PyEval_EvalFrameDefault@{PYTHON}");
        let wait: &[&str] = &[START, caller, &eval, &acquire, "sem_wait@libc.so.6"];
        let mut trace = two(&["main", "emit"], &["worker", "multiply"], wait);
        let file = trace.strings.intern("/usr/lib/python3.11/threading.py");
        let name = trace.strings.intern("py::wait");
        for frame in 0..trace.frames.function.len() {
            if trace.frames.function[frame] == name {
                trace.frames.file[frame] = file;
            }
        }
        assert_eq!(causes(&trace)[0].0, class, "{caller}");
    }
}

/// Workers of a pool take turns at waiting for a task: those that wait for their turn have none.
#[test]
fn a_lock_of_a_queue_in_python_is_a_wait_for_something_to_take() {
    const ENTER: &str =
        "py::SemLock.__enter__@[python]@/usr/lib/python3.11/multiprocessing/synchronize.py";
    const GET: &str = "py::SimpleQueue.get@[python]@/usr/lib/python3.11/multiprocessing/queues.py";
    for (caller, class) in [(GET, "low_parallelism"), ("py::tally@[python]@/job.py", "lock_wait")] {
        let wait: &[&str] = &[START, caller, ENTER, "sem_wait@libc.so.6"];
        let trace = two(&["main", "emit"], &["worker", "multiply"], wait);
        assert_eq!(causes(&trace)[0].0, class, "{caller}");
    }
}

/// A semaphore is a lock where the code that waits for it posts it; where other code does, it is a wait for that.
#[test]
fn a_semaphore_that_its_waiter_posts_is_a_lock() {
    const WAIT: &[&str] = &[START, "worker", "__new_sem_wait_slow64@libc.so.6"];
    const WRAPPED: &[&str] = &[START, "worker", "enter", "__new_sem_wait_slow64@libc.so.6"];
    let part: &[&str] = &[START, "worker", "multiply"];
    const CPP: &[&str] =
        &[START, "worker", "std::counting_semaphore<1l>::acquire()", "syscall@libc.so.6"];
    let cpp_post: &[&str] =
        &[START, "worker", "std::counting_semaphore<1l>::release(long)", "syscall@libc.so.6"];
    for (wait, post, class) in [
        (CPP, cpp_post, "lock_wait"),
        (WAIT, &[START, "worker", "sem_post@libc.so.6"], "lock_wait"),
        (WRAPPED, &[START, "worker", "leave", "sem_post@libc.so.6"], "lock_wait"),
        (WAIT, &[START, "producer", "sem_post@libc.so.6"], "load_imbalance"),
        (WRAPPED, &[START, "producer", "leave", "sem_post@libc.so.6"], "load_imbalance"),
    ] {
        let samples = [
            (10, 250, SampleKind::OnCpu, part),
            (10, 750, SampleKind::OnCpu, part),
            (10, 900, SampleKind::Waker, post),
            (11, 200, SampleKind::OnCpu, part),
            (11, 500, SampleKind::BlockedRead, wait),
        ];
        let found = causes(&sampled(late().load(1000), &samples));
        assert_eq!((found[0].0, found[0].4), (class, 500), "{post:?}");
    }
}

/// A machine's own threads wait so for work.
#[test]
fn a_semaphore_of_a_language_s_machine_is_no_lock() {
    let part: &[&str] = &[START, "worker", "multiply"];
    let wait = &[START, "GangWorker::loop@libjvm.so", "PosixSemaphore::wait@libjvm.so"];
    let wait = [wait, &["sem_wait@libc.so.6"][..]].concat();
    let post = &[START, "GangWorker::loop@libjvm.so", "sem_post@libc.so.6"];
    let samples = [
        (10, 250, SampleKind::OnCpu, part),
        (10, 900, SampleKind::Waker, post),
        (11, 200, SampleKind::OnCpu, part),
        (11, 500, SampleKind::BlockedRead, &wait),
    ];
    let found = causes(&sampled(late().load(1000), &samples));
    assert!(found.iter().all(|cause| cause.0 != "lock_wait"), "{found:?}");
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

/// Goroutines and functions in JavaScript go from thread to thread, or have no names: what others ran below the runtime's own functions is no
/// phase that all are in. And what they wait for meanwhile may be a lock: no advice.
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

/// A thread that asks for a lock of OpenMP's spins or sleeps for it: both are a lock wait.
#[test]
fn a_critical_section_is_a_lock() {
    let mut s = Story::new(2);
    s.known = vec![11];
    s.switch(0, 999, 10, RunnablePreempted, 0);
    s.switch(1, 999, 11, RunnablePreempted, 0);
    let inside: &[&str] = &["main", "add.omp_outlined", "sum"];
    let asks: &[&str] =
        &["main", "add.omp_outlined", "__kmpc_critical@libomp.so.5", "@libomp.so.5"];
    let samples = [
        (10, 250, SampleKind::OnCpu, inside),
        (10, 750, SampleKind::OnCpu, inside),
        (11, 250, SampleKind::OnCpu, inside),
        (11, 750, SampleKind::OnCpu, asks),
    ];
    let spins = causes(&sampled(s.load(1000), &samples));
    assert_eq!((spins[0].0, spins[0].1, spins[0].4), ("lock_wait", "by_samples", 499));
    let sleeps = causes(&two(inside, inside, asks));
    assert_eq!((sleeps[0].0, sleeps[0].1, sleeps[0].4), ("lock_wait", "by_samples", 500));
}

/// The kinds of hints of a trace, and what they say.
fn hints(trace: &Trace) -> Vec<(&'static str, String)> {
    let found = summary(trace, &Options::default()).hints;
    found.into_iter().map(|h| (h.kind, h.text)).collect()
}

fn kinds(trace: &Trace) -> Vec<&'static str> {
    hints(trace).iter().map(|hint| hint.0).collect()
}

#[test]
fn late_in_a_phase_has_a_hint() {
    let part: &[&str] = &[START, "worker", "multiply"];
    let of_threads = hints(&two(part, part, WAIT));
    assert_eq!(of_threads[0].0, "imbalance");
    assert!(of_threads[0].1.contains("more parts than threads"), "{of_threads:?}");
    let wait: &[&str] = &["gomp_thread_start@libgomp.so.1", "@libgomp.so.1"];
    let main: &[&str] = &["main", "solve", "GOMP_parallel@libgomp.so.1", "solve._omp_fn.0"];
    let worker: &[&str] = &["gomp_thread_start@libgomp.so.1", "solve._omp_fn.0"];
    let of_openmp = hints(&two(main, worker, wait));
    assert!(of_openmp[0].1.contains("schedule(dynamic"), "{of_openmp:?}");
    // It waits, or hands out parts.
    let wait: &[&str] = &["gomp_thread_start@libgomp.so.1", "solve._omp_fn.0", "@libgomp.so.1"];
    let of_openmp = hints(&two(main, worker, wait));
    assert!(of_openmp[0].1.contains("or it handed out parts"), "{of_openmp:?}");
    // No hint about a phase where there is none.
    let alone = kinds(&two(&["main", "assemble"], part, WAIT));
    assert_eq!(alone, ["serial_phase", "busy"]);
}

/// Half of the run, on one of two CPUs: on both it takes half of that.
#[test]
fn a_serial_phase_has_its_function_and_its_ceiling() {
    let found = hints(&two(&["main", "assemble"], &["worker", "multiply"], WAIT));
    assert_eq!(found[0].0, "serial_phase");
    assert!(found[0].1.contains("assemble called by main ran alone"), "{found:?}");
    assert!(found[0].1.contains("at most 1.33 times"), "{found:?}");
    // Nobody divides a wait, or what a module, a machine or a program begins with.
    let python = "py::<module>@[python]";
    let bootstrap = "py::_find_and_load@[python]@<frozen importlib._bootstrap>:1176";
    for path in [
        &["main", "collect", "wait4@libc.so.6"][..],
        &[python],
        &[bootstrap, "py::<module>@[python]@/home/me/words.py:3", "py::split@[python]"],
        &["py::<module>@[python]@<string>:1"],
        &["JavaMain@libjli.so", "Threads::create_vm@libjvm.so"],
        &[python, "py::load@[python]"],
        &["py::<module>@[python]@/home/me/job.py:3"],
    ] {
        let last = path.last().unwrap();
        let divided = last.contains("load@") || last.contains("job.py");
        let found = advice(&two(path, &["worker", "multiply"], WAIT), "serial_phase");
        assert_eq!(!found.is_empty(), divided, "{path:?}: {found}");
    }
    // Only one thread works at all: nothing is known of a part that could be divided.
    let mut s = Story::new(2);
    s.known = vec![11];
    s.switch(1, 1, 11, Sleeping, 0);
    s.wake(0, 990, 10, 11, 1);
    s.switch(1, 990, 0, RunnablePreempted, 11);
    s.switch(0, 999, 10, RunnablePreempted, 0);
    s.switch(1, 999, 11, RunnablePreempted, 0);
    let samples = [(10, 500, SampleKind::OnCpu, &["main", "assemble"][..])];
    assert_eq!(kinds(&sampled(s.load(1000), &samples)), [] as [&str; 0]);
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

/// A serial program that mostly waits is told by what it waits for; that no other thread could run meanwhile is no phase of its code.
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

/// 10 and 12 run, 11 waits and nobody ends that; the third CPU has nothing to run. Where 11 waits is no code that ran.
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

/// 10 and 12 run; 11 waits for a lock from 100 to `until`. All CPUs work meanwhile.
fn writer(until: i64, wait: &[&str]) -> Trace {
    let mut s = Story::new(2);
    s.known = vec![11, 12];
    s.switch(1, 100, 11, Sleeping, 12);
    if until < 999 {
        s.wake(0, until, 10, 11, 1);
        s.switch(1, until, 12, RunnablePreempted, 11);
    }
    s.switch(0, 999, 10, RunnablePreempted, 0);
    let query: &[&str] = &[START, "reader", "query"];
    let samples = [
        (10, 500, SampleKind::OnCpu, query),
        (11, 150, SampleKind::BlockedRead, wait),
        (12, 500, SampleKind::OnCpu, query),
    ];
    sampled(s.load(1000), &samples)
}

/// No CPU is idle, and no time lost: the thread gets nowhere all the same.
#[test]
fn a_thread_that_waits_for_a_lock_all_the_time_is_told() {
    let write: &[&str] = &[START, "update_table", "pthread_rwlock_wrlock@libc.so.6"];
    for until in [900, 2000] {
        let found = advice(&writer(until, write), "starved");
        assert!(found.contains("a lock that update_table asks for"), "{found}");
    }
    assert_eq!(advice(&writer(400, write), "starved"), "");
    assert_eq!(advice(&writer(2000, WAIT), "starved"), "");
    // Its waits are losses already: a CPU is idle meanwhile.
    let found = holder_in(&[START, "worker", "append", "fdatasync@libc.so.6"]);
    assert_eq!(advice(&found, "starved"), "");
}

/// A lock is somebody's, also where nobody knows the names of functions.
#[test]
fn who_asks_for_a_lock_without_a_name_is_a_program() {
    let write: &[&str] = &[START, "@/usr/bin/sqlite3", "pthread_mutex_lock@libc.so.6"];
    let found =
        summary(&held(&[START, "worker", "append"], write), &Options::default()).account.causes;
    let lock = found.iter().find(|c| c.class == "lock_wait").unwrap();
    assert_eq!(lock.name, "/usr/bin/sqlite3");
}

/// 11 waits for the lock that 10 holds; 10 sleeps in `call` meanwhile, until an interrupt.
fn holder_in(call: &[&str]) -> Trace {
    held(call, &[START, "worker", "pthread_mutex_lock@libc.so.6"])
}

fn held(call: &[&str], lock: &[&str]) -> Trace {
    let mut s = Story::new(2);
    s.known = vec![11];
    s.switch(1, 100, 11, Sleeping, 0);
    s.switch(0, 200, 10, Sleeping, 0);
    s.wake(0, 850, 0, 10, 0);
    s.switch(0, 850, 0, RunnablePreempted, 10);
    s.wake(0, 900, 10, 11, 1);
    s.switch(1, 900, 0, RunnablePreempted, 11);
    s.switch(0, 999, 10, RunnablePreempted, 0);
    s.switch(1, 999, 11, RunnablePreempted, 0);
    let samples = [
        (10, 150, SampleKind::OnCpu, &[START, "worker", "append"][..]),
        (10, 500, SampleKind::BlockedRead, call),
        (11, 500, SampleKind::BlockedRead, lock),
    ];
    sampled(s.load(1000), &samples)
}

#[test]
fn a_lock_that_is_held_over_io_has_a_hint() {
    let found = hints(&holder_in(&[START, "worker", "append", "fdatasync@libc.so.6"]));
    assert_eq!(found[0].0, "lock_io");
    assert!(found[0].1.contains("for 81 % of the time"), "{found:?}");
    assert!(found[0].1.contains("fdatasync called by append"), "{found:?}");
    // A holder that waits for a condition waits for the program.
    let inside = kinds(&holder_in(&[START, "worker", "append", "pthread_cond_wait@libc.so.6"]));
    assert!(!inside.contains(&"lock_io"), "{inside:?}");
}

/// Most of the holder's waits are over before they are read: what it waits for then is not counted
/// against what is known, or the advice would come and go with the disk's speed.
#[test]
fn a_lock_that_is_held_over_io_has_a_hint_where_few_of_its_waits_were_read() {
    let mut s = Story::new(2);
    s.known = vec![11];
    s.switch(1, 100, 11, Sleeping, 0);
    for (from, to) in [(200, 320), (330, 850)] {
        s.switch(0, from, 10, Sleeping, 0);
        s.wake(0, to, 0, 10, 0);
        s.switch(0, to, 0, RunnablePreempted, 10);
    }
    s.wake(0, 900, 10, 11, 1);
    s.switch(1, 900, 0, RunnablePreempted, 11);
    s.switch(0, 999, 10, RunnablePreempted, 0);
    s.switch(1, 999, 11, RunnablePreempted, 0);
    let samples = [
        (10, 150, SampleKind::OnCpu, &[START, "worker", "append"][..]),
        (10, 250, SampleKind::BlockedRead, &[START, "worker", "append", "fdatasync@libc.so.6"]),
        (11, 500, SampleKind::BlockedRead, &[START, "worker", "pthread_mutex_lock@libc.so.6"]),
    ];
    let found = kinds(&sampled(s.load(1000), &samples));
    assert!(found.contains(&"lock_io"), "{found:?}");
}

#[test]
fn waits_for_pythons_gil_have_a_hint() {
    let gil: &[&str] = &[
        START,
        "py::count@[python]",
        "take_gil@libpython3.11.so.1.0",
        "pthread_cond_timedwait@libc.so.6",
    ];
    let found = kinds(&two(&["main", "run"], &["worker", "multiply"], gil));
    assert_eq!(found, ["gil"]);
    let lock: &[&str] = &[START, "worker", "pthread_mutex_lock@libc.so.6"];
    let found = kinds(&two(&["main", "run"], &["worker", "multiply"], lock));
    assert_eq!(found, [] as [&str; 0]);
}

/// 90, of another program, runs beside the one that is late, on the CPU of the one that waits: it takes nothing from the program.
#[test]
fn who_uses_an_idle_cpu_does_not_hide_the_hint() {
    let mut s = Story::new(2);
    s.known = vec![11];
    s.switch(1, 400, 11, Sleeping, 90);
    s.wake(0, 900, 10, 11, 1);
    s.switch(1, 900, 90, RunnablePreempted, 11);
    s.switch(0, 999, 10, RunnablePreempted, 0);
    s.switch(1, 999, 11, RunnablePreempted, 0);
    let part: &[&str] = &[START, "worker", "multiply"];
    let samples = [
        (10, 250, SampleKind::OnCpu, part),
        (10, 750, SampleKind::OnCpu, part),
        (11, 200, SampleKind::OnCpu, part),
        (11, 500, SampleKind::BlockedRead, WAIT),
    ];
    assert_eq!(kinds(&sampled(s.load(1000), &samples)), ["imbalance", "busy"]);
}

/// Three threads get their turns of 1 ms from each other: one at a time, or where `together`, two at once from a third.
fn turns(together: bool, wait: &'static [&'static str], post: &'static [&'static str]) -> Trace {
    const US: i64 = 1_000;
    let mut s = Story::new(3);
    s.known = vec![11, 12];
    let mut samples: Vec<(i32, i64, SampleKind, &[&str])> = Vec::new();
    let cpu = |thread: i32| (thread - 10) as usize;
    for thread in [11, 12] {
        s.switch(cpu(thread), 10 * US, thread, Sleeping, 0);
        samples.push((thread, 500 * US, SampleKind::BlockedRead, wait));
    }
    for n in 0..12 {
        let (now, by) = ((n + 1) * 1_000 * US, 10 + (n % 3) as i32);
        let others: Vec<i32> = match together {
            true => vec![11, 12],
            false => vec![10 + ((n + 1) % 3) as i32],
        };
        let by = if together { 10 } else { by };
        samples.push((by, now - 500 * US, SampleKind::OnCpu, &[START, "worker"]));
        samples.push((by, now, SampleKind::Waker, post));
        for (after, &thread) in others.iter().enumerate() {
            s.wake(cpu(by), now + after as i64, by, thread, cpu(thread) as i32);
            s.switch(cpu(thread), now + 2, 0, RunnablePreempted, thread);
        }
        if !together {
            s.switch(cpu(by), now + 20 * US, by, Sleeping, 0);
            samples.push((by, now + 500 * US, SampleKind::BlockedRead, wait));
            continue;
        }
        // They wait for the first again, one earlier than the other.
        for (thread, after) in [(11, 400), (12, 900)] {
            s.switch(cpu(thread), now + after * US, thread, Sleeping, 0);
            samples.push((thread, now + (after + 50) * US, SampleKind::BlockedRead, wait));
        }
    }
    samples.sort_by_key(|sample| (sample.0, sample.1));
    sampled(s.load(13_500 * US), &samples)
}

/// A condition or a semaphore that is waited for and posted by the same code is a lock where one thread at a time goes on; a barrier is where several do.
#[test]
fn where_threads_take_turns_is_a_lock_and_where_they_go_on_together_is_none() {
    const ENTER: &[&str] = &[START, "worker", "enter", "pthread_cond_wait@libc.so.6"];
    const LEAVE: &[&str] = &[START, "worker", "leave", "pthread_cond_broadcast@libc.so.6"];
    const MEET: &[&str] = &[START, "worker", "meet", "__new_sem_wait_slow64@libc.so.6"];
    const POST: &[&str] = &[START, "worker", "meet", "sem_post@libc.so.6"];
    const PRODUCER: &[&str] = &[START, "produce", "push", "pthread_cond_signal@libc.so.6"];
    let has_lock = |trace| causes(&trace).iter().any(|cause| cause.0 == "lock_wait");
    assert!(has_lock(turns(false, ENTER, LEAVE)));
    assert!(has_lock(turns(false, MEET, POST)));
    assert!(!has_lock(turns(true, ENTER, LEAVE)));
    assert!(!has_lock(turns(true, MEET, POST)));
    // What other code signals is waited for as such.
    assert!(!has_lock(turns(false, ENTER, PRODUCER)));
}

/// 11 wakes 10 when it is done, and gets no CPU to end on while 12, which 10 then makes, runs the same: one ran after the other.
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

/// Of the functions that most of the phase is in, the innermost and its caller stand for it; parameters say nothing.
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

fn advice(trace: &Trace, kind: &str) -> String {
    let hints = summary(trace, &Options::default()).hints;
    let hint = hints.into_iter().find(|hint| hint.kind == kind);
    hint.map_or(String::new(), |hint| hint.text)
}

#[test]
fn page_faults_have_a_hint_where_the_programs_function_makes_them() {
    let fault = "asm_exc_page_fault@[kernel]";
    for fills in [&[START, "fill", fault][..], &[START, "fill", "memset@libc.so.6", fault]] {
        assert!(advice(&two(fills, fills, WAIT), "page_faults").contains("fill"));
    }
    let loads: &[&str] = &[fault];
    let tells: &[&str] = &[START, "fill", fault, "force_sig_fault@[kernel]"];
    let machine: &[&str] = &[START, "ObjArrayAllocator::initialize@libjvm.so", fault];
    for path in [loads, tells, machine] {
        assert_eq!(advice(&two(path, path, WAIT), "page_faults"), "");
    }
}

/// Nobody calls a page fault.
#[test]
fn a_serial_phase_of_page_faults_is_that_of_who_touches_the_memory() {
    let fills: &[&str] = &["_start", "main", "fill", "asm_exc_page_fault@[kernel]"];
    let found = advice(&two(fills, &[START, "worker", "multiply"], WAIT), "serial_phase");
    assert!(found.starts_with("serial phase: fill"), "{found}");
    assert!(!found.contains("page_fault"), "{found}");
}

/// What the CPUs do meanwhile is not time of the faults: 10 makes them alone.
#[test]
fn page_faults_cost_what_they_ran_and_nothing_that_was_idle() {
    let fault = "asm_exc_page_fault@[kernel]";
    let fills: &[&str] = &[START, "fill", fault];
    let trace = two(fills, &[START, "other"], WAIT);
    let found = summary(&trace, &Options::default()).hints;
    let faults = found.iter().find(|hint| hint.kind == "page_faults");
    let work = summary(&trace, &Options::default()).account.classes;
    let work = work.iter().find(|c| c.class == "work").unwrap().ns;
    assert!(faults.unwrap().cost_ns <= work, "{found:?}");
    // Who made them has no name.
    let nameless: &[&str] = &[START, "@prog", fault];
    assert_eq!(advice(&two(nameless, nameless, WAIT), "page_faults"), "");
    // Go asks the kernel itself: no setting of malloc's helps.
    let go: &[&str] = &["main.build@prog@/src/main.go", fault];
    let found = advice(&two(go, go, WAIT), "page_faults");
    assert!(found.contains("main.build") && !found.contains("malloc"), "{found}");
}

/// The collector is told whatever it calls; code that only has its names is not.
#[test]
fn a_collector_of_garbage_has_a_hint() {
    let collects: [(&[&str], &str); 5] = [
        (&["runtime.systemstack@prog", "runtime.gcDrain@prog", "runtime.add@prog"], "GOGC"),
        (&[START, "GangWorker::loop()@libjvm.so", "memcpy@libc.so.6"], "-Xmx"),
        (&["_start", "gc_collect_main@libpython3.11.so.1.0"], "gc.freeze"),
        // V8 is also in programs that are not called node.
        (&[START, "v8::internal::Scavenger::Process(v8::JobDelegate*)@deno"], "--v8-flags"),
        (&[START, "v8::internal::Sweeper::RawSweep()@browser"], "--js-flags"),
    ];
    let own: &[&str] = &[START, "worker", "render"];
    for (path, setting) in collects {
        let found = advice(&two(path, own, WAIT), "collector");
        assert!(found.contains(setting), "{path:?}: {found}");
    }
    for path in [own, &[START, "GangWorker::loop()@prog"]] {
        assert_eq!(advice(&two(path, own, WAIT), "collector"), "");
    }
}

#[test]
fn a_generator_of_random_numbers_that_threads_share_has_a_hint() {
    let rand: &[&str] = &[START, "sample", "random@libc.so.6"];
    let found = advice(&two(rand, rand, WAIT), "shared_generator");
    assert!(found.contains("random called by sample"), "{found}");
    let own: &[&str] = &[START, "sample", "random@prog"];
    assert_eq!(advice(&two(own, own, WAIT), "shared_generator"), "");
}

/// 10 wakes 11 to 16 at once, or one by one, and they run in the call that waits.
#[test]
fn threads_that_are_woken_at_once_to_wait_again_have_a_hint() {
    const US: i64 = 1_000;
    let trace = |at_once: usize, call: &'static str| {
        let mut s = Story::new(2);
        s.known = (11..20).collect();
        let mut samples: Vec<(i32, i64, SampleKind, &[&str])> = Vec::new();
        let take: &'static [&'static str] = Box::leak(Box::new([START, "take", call]));
        for (n, thread) in (11..20).enumerate() {
            let is_one_of_many = n < at_once;
            let n = n as i64;
            let from = 1_000 * US + n * 200 * US;
            let woken = if is_one_of_many { 1_000 * US + n } else { from };
            s.wake(0, woken, 10, thread, 1);
            let before = if n == 0 { 0 } else { thread - 1 };
            s.switch(1, from + US, before, Sleeping, thread);
            let each = (0..25).map(|k| (thread, from + k * 8 * US + US, SampleKind::OnCpu, take));
            samples.extend(each);
        }
        sampled(s.load(3_000 * US), &samples)
    };
    let wait = "pthread_cond_wait@libc.so.6";
    let found = advice(&trace(9, wait), "herd");
    assert!(found.contains("pthread_cond_wait called by take"), "{found}");
    assert!(found.contains("100 % of 9 wake-ups"), "{found}");
    for (at_once, said) in [(4, "44 % of 9"), (5, "56 % of 9")] {
        let found = advice(&trace(at_once, wait), "herd");
        assert!(found.contains(said), "{found}");
    }
    let cpp = "void std::condition_variable::wait<take()::{lambda()#1}>(int)@libstdc++.so.6";
    let found = advice(&trace(9, cpp), "herd");
    assert!(found.contains("condition_variable::wait called by take"), "{found}");
    assert_eq!(advice(&trace(0, wait), "herd"), "");
    // They were woken to work.
    assert_eq!(advice(&trace(9, "compress"), "herd"), "");
}

/// At the recording's end, and in no circle. With one that runs it is no hang.
#[test]
fn a_process_whose_threads_all_wait_for_each_other_hangs() {
    let trace = |others: ThreadState| {
        let mut s = Story::new(2);
        s.known = vec![11];
        s.switch(0, 100, 10, Sleeping, 0);
        s.switch(1, 100, 11, Sleeping, 0);
        let wait: &[&str] = &[START, "result", "pthread_cond_wait@libc.so.6"];
        let samples =
            [(10, 500, SampleKind::BlockedRead, wait), (11, 500, SampleKind::BlockedRead, wait)];
        let mut trace = sampled(s.load(1000), &samples);
        for (tid, state) in [(10, Sleeping), (11, others)] {
            let at = trace.threads.iter().position(|t| t.tid == tid).unwrap();
            trace.ends.push(kasuri_model::ThreadEnd {
                thread: kasuri_model::ThreadIx(at as u32),
                state,
                ..kasuri_model::ThreadEnd::default()
            });
        }
        trace
    };
    let found = advice(&trace(Sleeping), "hang");
    assert!(found.contains("in pthread_cond_wait called by result"), "{found}");
    assert_eq!(advice(&trace(ThreadState::Running), "hang"), "");
}

/// 10 and 11 wait at futexes; 90, of another program, wakes both, and they end at once, or run on.
#[test]
fn a_process_that_hung_until_it_was_killed_has_a_hint() {
    const US: i64 = 1_000;
    let wait: [&[&str]; 2] = [&[START, "result", "pthread_cond_wait@libc.so.6"]; 2];
    let waiting = |runs_on: i64, wait: [&'static [&'static str]; 2]| {
        let mut s = Story::new(2);
        s.known = vec![11];
        s.switch(1, 100 * US, 11, Sleeping, 90);
        s.switch(0, 100 * US, 10, Sleeping, 0);
        for (cpu, tid) in [(0, 10), (1, 11)] {
            let (at, before) = (90_000 * US + i64::from(tid), if cpu == 1 { 90 } else { 0 });
            s.wake(1, at, 90, tid, cpu as i32);
            s.switch(cpu, at + 10 * US, before, RunnablePreempted, tid);
            s.switch(cpu, at + 20 * US + runs_on, tid, ThreadState::Dead, 0);
        }
        s.cpus.iter_mut().for_each(|cpu| cpu.sort_by_key(|e| e.time));
        let samples = [
            (10, 500 * US, SampleKind::BlockedRead, wait[0]),
            (11, 500 * US, SampleKind::BlockedRead, wait[1]),
        ];
        sampled(s.load(200_000 * US), &samples)
    };
    let trace = |runs_on| waiting(runs_on, wait);
    let found = advice(&trace(0), "hang");
    assert!(
        found.contains("until the process was killed, in pthread_cond_wait called by result"),
        "{found}"
    );
    assert!(found.contains("A task that waits"), "{found}");
    let account = summary(&trace(0), &Options::default()).account;
    let worst = account.causes.iter().find(|c| c.class == "external_wait").unwrap();
    assert_eq!(worst.note, "endless");
    // Who runs on was given what it waited for.
    assert_eq!(advice(&trace(50_000 * US), "hang"), "");

    // Both locks are taken through one function: its callers tell.
    const OUT: [&str; 4] = [START, "send", "lock_it", "pthread_mutex_lock@libc.so.6"];
    const IN: [&str; 4] = [START, "receive", "lock_it", "pthread_mutex_lock@libc.so.6"];
    let trace = waiting(0, [&OUT, &IN]);
    let found = advice(&trace, "hang");
    for part in ["called by lock_it called by send;", "called by receive.", "in one order"] {
        assert!(found.contains(part), "{found}");
    }
    let account = summary(&trace, &Options::default()).account;
    let locks = account.causes.iter().filter(|c| c.class == "lock_wait");
    let mut names: Vec<&str> = locks.map(|c| c.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["receive", "send"]);
}

/// Stacks that end early have no outermost functions; what ran is known.
#[test]
fn a_phase_of_short_stacks_has_the_name_of_what_ran() {
    let early: &[&str] = &[START, "worker", "multiply"];
    let late: &[&str] = &["sha512_block@libcrypto.so.3"];
    let expected = ("low_parallelism", "serial_phase", "sha512_block".into(), 10, 500);
    assert_eq!(causes(&two(late, early, WAIT)), [expected]);
}

/// 11 waits for 10, which naps so many times, and then wakes it, each time in `wakes`.
fn sleeper(naps: i64, wakes: &'static [&'static str]) -> Trace {
    sleeper_at(naps, wakes, &[START, "client", "pthread_cond_wait@libc.so.6"])
}

/// The same, and 11 waits at `wait`.
fn sleeper_at(naps: i64, wakes: &'static [&'static str], wait: &'static [&'static str]) -> Trace {
    const US: i64 = 1_000;
    let mut s = Story::new(2);
    s.known = vec![11];
    let nap: &[&str] = &[START, "serve", "usleep@libc.so.6"];
    let mut samples: Vec<(i32, i64, SampleKind, &[&str])> = Vec::new();
    for n in 0..naps {
        let (from, to) = (n * 1_000 * US + 200 * US, (n + 1) * 1_000 * US);
        s.switch(1, from - 100 * US, 11, Sleeping, 0);
        s.switch(0, from, 10, Sleeping, 0);
        s.wake(0, to, 0, 10, 0);
        s.switch(0, to + 1, 0, RunnablePreempted, 10);
        s.wake(0, to + 50 * US, 10, 11, 1);
        s.switch(1, to + 51 * US, 0, RunnablePreempted, 11);
        samples.push((10, from + 100 * US, SampleKind::BlockedRead, nap));
        samples.push((11, from + 100 * US, SampleKind::BlockedRead, wait));
        samples.push((10, to + 50 * US, SampleKind::Waker, wakes));
    }
    samples.sort_by_key(|sample| (sample.0, sample.1));
    sampled(s.load((naps + 1) * 1_000 * US), &samples)
}

#[test]
fn who_waits_for_one_that_naps_has_a_hint() {
    let wakes: &[&str] = &[START, "serve", "pthread_cond_signal@libc.so.6"];
    let found = advice(&sleeper(12, wakes), "naps");
    assert!(found.contains("usleep called by serve, 12 times 0.8 ms"), "{found}");
    for naps in [9, 10, 11] {
        let found = advice(&sleeper(naps, wakes), "naps");
        assert!(found.contains(&format!(", {naps} times")), "{found}");
    }
    // Once is a choice.
    assert_eq!(advice(&sleeper(1, wakes), "naps"), "");
}

/// Who sleeps in one function and gives something back in another does not look for something to do.
#[test]
fn a_thing_that_is_taken_in_turns_is_no_nap() {
    let wakes: &[&str] = &[START, "handle", "release", "pthread_cond_signal@libc.so.6"];
    let found = advice(&sleeper(12, wakes), "taken_in_turns");
    assert!(found.contains("in usleep called by serve, 12 times 0.8 ms"), "{found}");
    assert!(found.contains("pthread_cond_signal called by release"), "{found}");
    assert_eq!(advice(&sleeper(12, wakes), "naps"), "");
}

/// malloc and free of one allocator wait for the same lock.
#[test]
fn a_lock_of_an_allocator_has_a_hint() {
    let wait: &[&str] = &[START, "parse", "malloc@libc.so.6", "__lll_lock_wait_private@libc.so.6"];
    let part: &[&str] = &[START, "worker", "multiply"];
    let found = advice(&two(part, part, wait), "allocator_lock");
    assert!(found.contains("malloc called by parse"), "{found}");
    let own: &[&str] = &[START, "parse", "pthread_mutex_lock@libc.so.6"];
    assert_eq!(advice(&two(part, part, own), "allocator_lock"), "");
    let account = summary(&two(part, part, wait), &Options::default()).account;
    let lock = account.causes.iter().find(|c| c.class == "lock_wait").unwrap();
    assert_eq!((lock.name.as_str(), lock.code.as_str()), ("parse", "malloc"));
}

#[test]
fn reads_and_writes_have_a_hint_where_they_are_a_good_part_of_the_work() {
    let write: &[&str] = &[START, "emit", "write@libc.so.6", "pipe_write@[kernel]"];
    let found = advice(&two(write, write, WAIT), "small_calls");
    assert!(found.contains("write called by emit"), "{found}");
    let own: &[&str] = &[START, "emit", "write@prog"];
    assert_eq!(advice(&two(own, own, WAIT), "small_calls"), "");
}

/// 10 and 11 run from 0, 11 until `until`; of 100 samples of each the first `n` are at `path`,
/// the others in `compute`.
fn first_of_hundred(n: i64, path: &'static [&'static str], until: i64) -> Trace {
    const OTHER: &[&str] = &[START, "compute"];
    let mut s = Story::new(2);
    s.known = vec![11];
    s.switch(0, 999, 10, RunnablePreempted, 0);
    s.switch(1, until, 11, ThreadState::Dead, 0);
    let at = |k: i64| if k < n { path } else { OTHER };
    let of = |tid: i32, end: i64| {
        let times = (0..100).map(|k| (k, 10 * k + 5)).filter(move |&(_, time)| time < end);
        times.map(move |(k, time)| (tid, time, SampleKind::OnCpu, at(k)))
    };
    let samples: Vec<_> = of(10, 999).chain(of(11, until)).collect();
    sampled(s.load(1000), &samples)
}

/// Without a buffer the C library's own functions call the kernel; with one they do not.
#[test]
fn a_write_without_a_buffer_is_one_of_whoever_asked_for_it() {
    let unbuffered: &[&str] = &[
        START,
        "emit",
        "fprintf@libc.so.6",
        "_IO_new_file_write@libc.so.6",
        "__GI___libc_write@libc.so.6",
    ];
    let found = advice(&first_of_hundred(60, unbuffered, 999), "small_calls");
    assert!(found.contains("fprintf called by emit"), "{found}");
    let raw: &[&str] = &[START, "main.emit", "syscall.Syscall6", "__x64_sys_write@[kernel]"];
    let found = advice(&first_of_hundred(60, raw, 999), "small_calls");
    assert!(found.contains("60 % of the work"), "{found}");
    let kernel = "do_syscall_64@[kernel]";
    let go: &[&str] = &[START, "main.emit", "os.(*File).Write", "syscall.write", "syscall.Syscall"];
    for inner in
        [&["runtime.exitsyscall"][..], &["internal/runtime/syscall/linux.Syscall6", kernel]]
    {
        let path: &'static [&'static str] = [go, inner].concat().leak();
        let found = advice(&first_of_hundred(60, path, 999), "small_calls");
        assert!(found.contains("60 % of the work"), "{path:?}: {found}");
    }
    let buffered: &[&str] = &[START, "emit", "fwrite@libc.so.6", "__memmove_avx@libc.so.6"];
    assert_eq!(advice(&first_of_hundred(60, buffered, 999), "small_calls"), "");
}

/// Calls that wait for a disk cost more than the bytes that they move.
#[test]
fn reads_that_wait_for_a_disk_have_no_hint_about_their_size() {
    let read: &[&str] = &[START, "look_up", "pread64@libc.so.6", "__x64_sys_pread64@[kernel]"];
    for (state, has_hint) in [(Sleeping, true), (ThreadState::DiskSleep, false)] {
        let mut s = Story::new(2);
        s.known = vec![11];
        s.switch(1, 10, 11, state, 0);
        s.wake(1, 990, 0, 11, 1);
        s.switch(1, 990, 0, RunnablePreempted, 11);
        s.switch(0, 999, 10, RunnablePreempted, 0);
        s.switch(1, 999, 11, RunnablePreempted, 0);
        let at = |k: i64| if k % 2 == 0 { read } else { &[START, "compute"][..] };
        let samples: Vec<_> =
            (0..100).map(|k| (10, 10 * k + 5, SampleKind::OnCpu, at(k))).collect();
        let found = advice(&sampled(s.load(1000), &samples), "small_calls");
        assert_eq!(!found.is_empty(), has_hint, "{found}");
    }
}

/// Neighbours are told alike: a tenth more or less changes a number, not what is said.
#[test]
fn advice_does_not_turn_over_at_a_share() {
    let write: &[&str] = &[START, "emit", "write@libc.so.6"];
    for share in [27, 30, 33] {
        let found = advice(&first_of_hundred(share, write, 999), "small_calls");
        assert!(found.contains(&format!("{share} % of the work")), "{found}");
    }
    let count: &[&str] = &[START, "count"];
    for (until, used) in [(440, 72), (600, 80), (760, 88)] {
        let found = advice(&first_of_hundred(100, count, until), "busy");
        assert!(found.contains(&format!("used {used} %")), "{until}: {found}");
    }
    for share in [45, 50, 55] {
        let found = advice(&first_of_hundred(share, count, 999), "busy");
        assert!(found.contains("busy: "), "{share}: {found}");
    }
}

/// Nothing waits: a cache line that two threads write is not seen, and that is said.
#[test]
fn where_all_cpus_are_busy_it_is_said_what_is_not_recorded() {
    let mut s = Story::new(2);
    s.known = vec![11];
    s.switch(0, 999, 10, RunnablePreempted, 0);
    s.switch(1, 999, 11, RunnablePreempted, 0);
    let count: &[&str] = &[START, "count"];
    let samples = [(10, 500, SampleKind::OnCpu, count), (11, 500, SampleKind::OnCpu, count)];
    let found = advice(&sampled(s.load(1000), &samples), "busy");
    assert!(found.contains("100 % of that in count"), "{found}");
    // Not where one of them waits.
    let lock: &[&str] = &[START, "worker", "pthread_mutex_lock@libc.so.6"];
    assert_eq!(advice(&two(count, count, lock), "busy"), "");
}

/// A database of SQLite that another connection writes to is asked for again and again: a lock, of the function that writes.
#[test]
fn a_busy_database_is_a_lock() {
    let sqlite = "@libsqlite3.so.0";
    let wait: &[&str] = &[
        START,
        "save",
        "sqlite3_step@libsqlite3.so.0",
        "sqlite3InvokeBusyHandler@libsqlite3.so.0",
        sqlite,
        "usleep@libc.so.6",
    ];
    let mut s = Story::new(2);
    s.known = vec![11];
    s.switch(1, 400, 11, Sleeping, 0);
    s.wake(1, 900, 0, 11, 1);
    s.switch(1, 900, 0, RunnablePreempted, 11);
    s.switch(0, 999, 10, RunnablePreempted, 0);
    s.switch(1, 999, 11, RunnablePreempted, 0);
    let part: &[&str] = &[START, "save", "serialize"];
    let samples = [
        (10, 500, SampleKind::OnCpu, part),
        (11, 200, SampleKind::OnCpu, part),
        (11, 500, SampleKind::BlockedRead, wait),
    ];
    let trace = sampled(s.load(1000), &samples);
    let found = summary(&trace, &Options::default()).account.causes;
    assert_eq!((found[0].class, found[0].name.as_str()), ("lock_wait", "save"));
}

/// 11, of libuv's pool, works from 0 to 900 of 1000 while 10 waits; then it has nothing to do.
#[test]
fn a_pool_of_libuv_without_a_free_thread_has_a_hint() {
    let trace = |until: i64| {
        let mut s = Story::new(2);
        s.known = vec![11];
        s.switch(0, 5, 10, Sleeping, 0);
        s.switch(1, until, 11, Sleeping, 0);
        s.wake(0, 990, 0, 11, 1);
        s.switch(1, 991, 0, RunnablePreempted, 11);
        let idle: &[&str] =
            &[START, "worker@node", "uv_cond_wait@node", "pthread_cond_wait@libc.so.6"];
        let hash: &[&str] = &[START, "worker@node", "sha512@node"];
        let poll: &[&str] = &["main@node", "uv__io_poll@node", "epoll_pwait@libc.so.6"];
        let samples = [
            (10, 500, SampleKind::BlockedRead, poll),
            (11, until / 2, SampleKind::OnCpu, hash),
            (11, (until + 990) / 2, SampleKind::BlockedRead, idle),
        ];
        sampled(s.load(1000), &samples)
    };
    let found = advice(&trace(800), "uv_pool");
    assert!(found.contains("none of its threads (1) was free"), "{found}");
    assert_eq!(advice(&trace(50), "uv_pool"), "");
}

/// A thread of a Java machine that has nothing to compile waits for nobody's naps.
#[test]
fn an_idle_thread_of_a_machine_is_not_kept_waiting() {
    let wakes: &[&str] = &[START, "serve", "pthread_cond_signal@libc.so.6"];
    let wait: &[&str] = &[START, "PlatformMonitor::wait@libjvm.so", "pthread_cond_wait@libc.so.6"];
    assert_eq!(advice(&sleeper_at(12, wakes, wait), "naps"), "");
}

/// What one thread of Go runs alone is said as far as it is known.
#[test]
fn one_goroutine_at_a_time_is_no_serial_code() {
    let hash: &[&str] = &["main.begin.func1@prog@/src/a.go:20", "main.hash@prog@/src/a.go:9"];
    let found = hints(&first_of_hundred(100, hash, 20));
    let found = found.iter().find(|hint| hint.0 == "goroutines");
    assert!(found.is_some_and(|hint| hint.1.contains("main.hash (a.go:9)")), "{found:?}");
}

/// 10 and 11 wait for locks until 12, of their process, ends it: nobody held the locks, however
/// late they get a CPU to end. With one that goes
/// on it is who gave the lock.
#[test]
fn who_ends_its_process_held_no_lock() {
    const US: i64 = 1_000;
    let trace = |runs_on: i64| {
        let mut s = Story::new(2);
        s.known = vec![11, 12];
        s.switch(0, 100 * US, 10, Sleeping, 12);
        s.switch(1, 100 * US, 11, Sleeping, 0);
        for (n, tid) in [10, 11].into_iter().enumerate() {
            let n = n as i64;
            s.wake(0, 50_000 * US + n, 12, tid, 1);
            s.switch(1, (60_000 + 5_000 * n) * US, 0, RunnablePreempted, tid);
            let ends = if tid == 11 { runs_on } else { 0 };
            s.switch(1, (60_000 + 5_000 * n + 20) * US + ends, tid, ThreadState::Dead, 0);
        }
        s.switch(0, 51_000 * US, 12, ThreadState::Dead, 0);
        let wait: &[&str] = &[START, "audit", "pthread_mutex_lock@libc.so.6"];
        let samples = [
            (10, 20_000 * US, SampleKind::BlockedRead, wait),
            (11, 20_000 * US, SampleKind::BlockedRead, wait),
        ];
        sampled(s.load(200_000 * US), &samples)
    };
    let ends = |trace: &Trace| {
        let paths = summary(trace, &Options::default()).call_paths.unwrap();
        let nodes = paths.classes.into_iter().filter_map(|c| c.chains).flat_map(|c| c.nodes);
        let behind = nodes.filter(|node| node.depth == 1);
        behind.map(|node| node.did).collect::<Vec<_>>()
    };
    let killed = ends(&trace(0));
    assert!(killed.iter().all(|did| *did == "endless"), "{killed:?}");
    let given = ends(&trace(9_000 * US));
    assert!(given.contains(&"ran"), "{given:?}");
}
