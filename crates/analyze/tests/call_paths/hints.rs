//! Hints that name code; their figures worked out by hand.
use super::join::{lock_without_annotations, sampled};
use super::said::{START, WAIT, advice, held, hints, kinds, late, two};
use crate::account::story::Story;
use ThreadState::{RunnablePreempted, Sleeping};
use kasuri_analyze::{Options, summary};
use kasuri_model::{SampleKind, ThreadState, Trace};

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
        assert_eq!(found.contains("among processes"), divided, "{found}");
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

/// 11 waits for the lock that 10 holds; 10 sleeps in `call` meanwhile, until an interrupt.
fn holder_in(call: &[&str]) -> Trace {
    held(call, &[START, "worker", "pthread_mutex_lock@libc.so.6"])
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

/// One function of the C library waits for its stream's lock, and its holder in the same function for whoever reads: two waits.
#[test]
fn a_function_that_locks_and_writes_has_both_waits() {
    let lock: &[&str] =
        &[START, "handle", "fprintf@libc.so.6", "__lll_lock_wait_private@libc.so.6"];
    let write: &[&str] = &[START, "handle", "fprintf@libc.so.6", "write@libc.so.6"];
    let found = advice(&held(write, lock), "lock_io");
    assert!(found.contains("its holder was in fprintf called by handle"), "{found}");
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
    // Processes have the work already.
    let hands_out =
        "py::_ExecutorManagerThread.run@[python]@/lib/python3.11/concurrent/futures/process.py:9";
    let handing = [&gil[..1], &[hands_out], &gil[1..]].concat();
    let texts = [gil, &handing].map(|wait| advice(&two(&["main"], &["worker"], wait), "gil"));
    assert_eq!(texts.map(|text| text.contains("chunksize")), [false, true]);
    let lock: &[&str] = &[START, "worker", "pthread_mutex_lock@libc.so.6"];
    let found = kinds(&two(&["main", "run"], &["worker", "multiply"], lock));
    assert_eq!(found, [] as [&str; 0]);
}

/// 10 computes; 11 looks, and waits for the GIL from 400 to 900.
#[test]
fn who_only_looks_takes_the_gil_from_the_one_that_computes() {
    let drain = "py::drain@[python]@/home/me/job.py:31";
    let look = "py::Queue.get_nowait@[python]@/usr/lib/python3.11/queue.py:199";
    let gil: &[&str] =
        &[START, drain, "take_gil@libpython3.11.so.1.0", "pthread_cond_timedwait@libc.so.6"];
    let told = |looker: &[&str], other: &[&str]| {
        let mut samples = vec![(11, 500, SampleKind::BlockedRead, gil)];
        samples.extend((0..9).map(|n| (10, 450 + n * 50, SampleKind::OnCpu, other)));
        samples.extend((0..4).map(|n| (11, 50 + n * 50, SampleKind::OnCpu, looker)));
        advice(&sampled(late().load(1000), &samples), "gil")
    };
    let compute: &[&str] = &[START, "py::compute@[python]"];
    let found = told(&[START, drain, look], compute);
    assert!(found.contains("Queue.get_nowait"), "{found}");
    assert!(found.contains("called by py::drain (job.py:31)"), "{found}");
    assert!(!found.contains("ProcessPoolExecutor"), "{found}");
    // Who waits for something to take, and a function of that name of the program's own, do not look.
    let waits = "py::Queue.get@[python]@/usr/lib/python3.11/queue.py:171";
    let own = "py::get_nowait@[python]@/home/me/queue_of_mine.py:3";
    for inner in [waits, own] {
        let found = told(&[START, drain, inner], compute);
        assert!(found.contains("ProcessPoolExecutor"), "{inner}: {found}");
    }
}

/// 90, of another program, runs beside the one that is late, on the CPU of the one that waits: it
/// takes nothing from the program.
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

#[test]
fn page_faults_have_a_hint_where_the_programs_function_makes_them() {
    let fault = "asm_exc_page_fault@[kernel]";
    for fills in [&[START, "fill", fault][..], &[START, "fill", "memset@libc.so.6", fault]] {
        assert!(advice(&two(fills, fills, WAIT), "page_faults").contains("fill"));
    }
    // Memory that another process has, too, is none that was given back.
    let shares: &[&str] = &[START, "py::total@[python]", fault, "do_wp_page@[kernel]"];
    let found = advice(&two(shares, shares, WAIT), "page_faults");
    assert!(found.contains("py::total wrote to memory") && found.contains("references"), "{found}");
    assert!(!found.contains("malloc"), "{found}");
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
    // Python ends so, whatever it made.
    let ends: &[&str] = &["_start", "Py_FinalizeEx@python3", "gc_collect_main@python3"];
    for path in [own, ends, &[START, "GangWorker::loop()@prog"]] {
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
    // Each wakes the next, and is woken again at once.
    let mut s = Story::new(2);
    s.known = (11..14).collect();
    let take: &[&str] = &[START, "take", wait];
    let mut samples: Vec<(i32, i64, SampleKind, &[&str])> = Vec::new();
    for n in 0..30i64 {
        let (thread, before) = (11 + (n % 3) as i32, 11 + ((n + 2) % 3) as i32);
        let from = 1_000 * US + n * 20 * US;
        s.wake(1, from, before, thread, 1);
        s.switch(1, from + US, if n == 0 { 0 } else { before }, Sleeping, thread);
        samples.extend((1..10).map(|k| (thread, from + US + k * 2 * US, SampleKind::OnCpu, take)));
    }
    assert_eq!(advice(&sampled(s.load(3_000 * US), &samples), "herd"), "");
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

/// Who sleeps in one function and gives something back in another does not look for something to
/// do.
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

/// 10 starts `n` processes `name`, each of which sleeps for a time that it was told.
fn script(n: i32, name: &str) -> Trace {
    const MS: i64 = 1_000_000;
    let mut s = Story::new(2);
    let sleep: &[&str] = &["@/usr/bin/sleep", "nanosleep@libc.so.6"];
    let mut samples: Vec<(i32, i64, SampleKind, &[&str])> = Vec::new();
    for i in 0..n {
        let (child, from) = (1000 + i, 10 * MS * i64::from(i));
        let fork = kasuri_model::input::What::Fork {
            parent: 10,
            child,
            comm: kasuri_model::StrIx::NONE,
            pid: Some(child),
            same_process: Some(false),
        };
        s.switch(0, from, 0, Sleeping, 10);
        s.other(0, from + 10, 10, fork);
        s.switch(1, from + 20, 0, Sleeping, child);
        s.switch(0, from + 30, 10, Sleeping, 0);
        s.switch(1, from + MS, child, Sleeping, 0);
        samples.push((child, from + 2 * MS, SampleKind::BlockedRead, sleep));
        s.wake(1, from + 8 * MS, 0, child, 1);
        s.switch(1, from + 8 * MS + 10, 0, Sleeping, child);
        s.wake(1, from + 9 * MS, child, 10, 0);
        s.switch(1, from + 9 * MS, child, ThreadState::Dead, 0);
    }
    let mut trace = sampled(s.load(10 * MS * i64::from(n)), &samples);
    let names = [name, "sh"].map(|name| trace.strings.intern(name));
    for process in &mut trace.processes {
        process.name = names[usize::from(process.pid == 10)];
    }
    trace
}

#[test]
fn a_script_that_sleeps_again_and_again_has_a_hint() {
    let found = advice(&script(6, "sleep"), "naps");
    assert!(found.contains("sh ran the program sleep 6 times"), "{found}");
    assert_eq!(advice(&script(2, "sleep"), "naps"), "", "once, and once more");
    assert_eq!(advice(&script(6, "daemon"), "naps"), "", "another program");
}

/// 10 waits `n` times for a disk, at `wait`, as long as it runs in between.
fn waits_for_disk(n: i64, wait: &'static [&'static str]) -> Trace {
    const MS: i64 = 1_000_000;
    let mut s = Story::new(2);
    let mut samples = Vec::new();
    for k in 0..n {
        let (from, to) = ((2 * k + 1) * MS, (2 * k + 2) * MS);
        s.switch(0, from, 10, ThreadState::DiskSleep, 0);
        s.wake(0, to, 0, 10, 0);
        s.switch(0, to, 0, RunnablePreempted, 10);
        samples.push((10, from + MS / 2, SampleKind::BlockedRead, wait));
    }
    sampled(s.load((2 * n + 1) * MS), &samples)
}

#[test]
fn many_waits_until_a_disk_has_what_was_written_have_a_hint() {
    let sync: &[&str] = &[START, "commit", "fdatasync@libc.so.6", "do_fsync@[kernel]"];
    let found = advice(&waits_for_disk(60, sync), "small_syncs");
    assert!(found.contains("60 times, 0.060 s in all"), "{found}");
    assert!(found.contains("fdatasync called by commit"), "{found}");
    let go: &[&str] =
        &[START, "main.commit", "os.(*File).Sync", "syscall.Fsync", "syscall.Syscall"];
    assert!(advice(&waits_for_disk(60, go), "small_syncs").contains("60 times"));
    assert_eq!(advice(&waits_for_disk(12, sync), "small_syncs"), "", "few");
    let read: &[&str] = &[START, "look_up", "pread64@libc.so.6"];
    assert_eq!(advice(&waits_for_disk(60, read), "small_syncs"), "", "nothing is written");
    let own: &[&str] = &[START, "sync@prog", "pread64@libc.so.6"];
    assert_eq!(advice(&waits_for_disk(60, own), "small_syncs"), "", "their own name");
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
    // Not where a third was lost.
    assert_ne!(advice(&two(count, count, WAIT), "busy"), "");
    assert_eq!(advice(&first_of_hundred(100, count, 250), "busy"), "");
    // Not where one of them waits.
    let lock: &[&str] = &[START, "worker", "pthread_mutex_lock@libc.so.6"];
    assert_eq!(advice(&two(count, count, lock), "busy"), "");
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

/// 11 was given something to do, and does not have the lock of its pool again until 10 lets go of it.
#[test]
fn who_waits_for_something_to_do_in_a_pool_asks_for_no_lock() {
    let lock = ["__pthread_mutex_cond_lock@libc.so.6", "__lll_lock_wait@libc.so.6"];
    let uv = ["worker@node", "uv_cond_wait@node", "pthread_cond_wait@libc.so.6"];
    let rayon = [
        "rayon_core::registry::WorkerThread::wait_until_cold",
        "rayon_core::sleep::Sleep::sleep",
        "std::sync::condvar::Condvar::wait",
    ];
    let own = ["take", "wait", "pthread_cond_wait@libc.so.6"];
    for (wait, is_lock) in [(uv, false), (rayon, false), (own, true)] {
        let path = [&[START][..], &wait, &lock].concat();
        let samples = [(11, 500, SampleKind::BlockedRead, &path[..])];
        let s = summary(&sampled(lock_without_annotations(), &samples), &Options::default());
        let found = s.account.causes.iter().any(|c| c.class == "lock_wait");
        assert_eq!(found, is_lock, "{wait:?}");
    }
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

/// Of six threads each lets the next one in: 11 to 16, in turns.
#[test]
fn threads_that_a_java_machine_lets_in_to_wait_again_have_a_hint() {
    const US: i64 = 1_000;
    let trace = |threads: i32, call: &'static str, wakes: &'static str| {
        let mut s = Story::new(2);
        s.known = (11..11 + threads).collect();
        let ran: &'static [&'static str] =
            Box::leak(Box::new([START, call, "pthread_cond_wait@libc.so.6"]));
        let woke: &'static [&'static str] =
            Box::leak(Box::new([START, wakes, "ObjectMonitor::ExitEpilog@libjvm.so"]));
        let mut samples: Vec<(i32, i64, SampleKind, &[&str])> = Vec::new();
        for n in 0..12i32 {
            let (thread, before) = (11 + n % threads, 11 + (n + threads - 1) % threads);
            let from = 1_000 * US + i64::from(n) * 200 * US;
            s.wake(1, from, before, thread, 1);
            s.switch(1, from + US, if n == 0 { 0 } else { before }, Sleeping, thread);
            samples.push((before, from, SampleKind::Waker, woke));
            let each = (1..25).map(|k| (thread, from + k * 8 * US, SampleKind::OnCpu, ran));
            samples.extend(each);
        }
        sampled(s.load(4_000 * US), &samples)
    };
    let wait = "ObjectMonitor::wait@libjvm.so";
    let found = advice(&trace(6, wait, wait), "herd");
    assert!(found.contains("100 % of 12 sampled wake-ups by monitors"), "{found}");
    assert!(found.contains("notifyAll()"), "{found}");
    // Who leaves a monitor wakes the one that it has notified; two that take turns; who works then.
    let leaves = "ObjectMonitor::exit@libjvm.so";
    assert_eq!(advice(&trace(6, wait, leaves), "herd"), "");
    assert_eq!(advice(&trace(2, wait, wait), "herd"), "");
    assert_eq!(advice(&trace(6, "compress", wait), "herd"), "");
}
