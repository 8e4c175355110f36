//! Which waits are for a lock, where only the functions tell; worked out by hand.
use super::join::sampled;
use super::said::{START, causes, held, late, two};
use crate::account::story::Story;
use ThreadState::{RunnablePreempted, Sleeping};
use kasuri_analyze::{Options, summary};
use kasuri_model::{SampleKind, ThreadState, Trace};

/// A lock of Python's is a semaphore of libc's, or CPython's own; a condition is made of such a
/// lock, but waits for something else.
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

/// Neither `with condition:` of Python's own code nor a Java machine's mutex says who wants it.
#[test]
fn who_asks_for_a_lock_is_who_has_it_asked_for() {
    let python: &[&str] = &[
        START,
        "py::Queue.get@[python]@/usr/lib/python3.11/queue.py",
        "py::Condition.__enter__@[python]@/usr/lib/python3.11/threading.py",
        "PyThread_acquire_lock_timed@libpython3.11.so.1.0",
        "sem_wait@libc.so.6",
    ];
    let java: &[&str] = &[
        START,
        "Heap::expand@libjvm.so",
        "Mutex::lock_without_safepoint_check@libjvm.so",
        "Mutex::lock_contended@libjvm.so",
        "pthread_mutex_lock@libc.so.6",
    ];
    for (wait, asks) in [(python, "py::Queue.get"), (java, "Heap::expand")] {
        let trace = two(&["main", "emit"], &["worker", "multiply"], wait);
        let found = summary(&trace, &Options::default()).account.causes;
        assert!(found.iter().any(|c| c.class == "lock_wait" && c.name == asks), "{found:?}");
    }
}

/// A semaphore is a lock where the code that waits for it posts it; where other code does, it is a
/// wait for that.
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

/// A lock is somebody's, also where nobody knows the names of functions.
#[test]
fn who_asks_for_a_lock_without_a_name_is_a_program() {
    let write: &[&str] = &[START, "@/usr/bin/sqlite3", "pthread_mutex_lock@libc.so.6"];
    let found =
        summary(&held(&[START, "worker", "append"], write), &Options::default()).account.causes;
    let lock = found.iter().find(|c| c.class == "lock_wait").unwrap();
    assert_eq!(lock.name, "/usr/bin/sqlite3");
}

/// Three threads get their turns of 1 ms from each other: one at a time, or where `together`, two
/// at once from a third.
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

/// A condition or a semaphore that is waited for and posted by the same code is a lock where one
/// thread at a time goes on; a barrier is where several do.
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

/// A database of SQLite that another connection writes to is asked for again and again: a lock, of
/// the function that writes.
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
