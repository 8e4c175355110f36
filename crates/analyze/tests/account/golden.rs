//! Small traces, each with its account worked out by hand. Each test is one rule of docs/design/account.md; one of
//! them changes what must not matter (ids, the start of time, a process that never runs) and wants the same answer.
use super::story::*;
use ThreadState::*;
use kasuri_analyze::account::Class;
use kasuri_model::ThreadState;
use kasuri_model::input::What;

/// Two threads meet at a barrier. CPU 0: 10 works 0..400, waits asleep 400..1000 (woken by 11), works on to 1200.
/// CPU 1: 11 works 0..1000 in `loop48`, wakes 10, works on to 1200. Capacity 2 x 1200.
pub fn imbalance() -> Story {
    let mut s = Story::new(2);
    s.known = vec![11];
    s.switch(0, 400, 10, Sleeping, 0);
    s.switch(0, 1000, 0, RunnablePreempted, 10);
    s.wake(1, 1000, 11, 10, 0);
    s.switch(1, 1199, 11, RunnablePreempted, 0);
    s.switch(1, 1199, 0, RunnablePreempted, 11);
    s.slice(11, 100, 1000, "loop48");
    s.wait(10, 400, 1000, BARRIER, "sync");
    s.wait(11, 1000, 1001, BARRIER, "sync");
    s
}

#[test]
fn imbalance_is_charged_to_the_region_of_the_last_thread() {
    let trace = imbalance().load(1200);
    let a = account(&trace);
    // Idle: 400..1000 of CPU 0. On CPU 1, 11 is in the barrier 1000..1001.
    assert_eq!(
        nonzero(&a.sums(a.from, a.to)),
        [(Class::Work, 2400 - 601), (Class::LoadImbalance, 601)]
    );
    assert_eq!(
        causes(&trace, &a),
        [
            (Class::LoadImbalance, "sync".into(), "".into(), 1),
            (Class::LoadImbalance, "sync".into(), "loop48".into(), 600),
        ]
    );
    let cause = a.causes.iter().find(|c| c.code.is_some()).unwrap();
    assert_eq!(trace.threads[cause.thread.ix()].tid, 11);
    // Own time of each thread: 10 waits 600 of 1200.
    let own = |tid: i32| trace.threads.iter().position(|t| t.tid == tid).unwrap();
    assert_eq!(nonzero(&a.threads[own(10)]), [(Class::Work, 600), (Class::LoadImbalance, 600)]);
}

#[test]
fn a_range_is_a_part_of_the_whole() {
    let trace = imbalance().load(1200);
    let a = account(&trace);
    let at = |ns| kasuri_model::Time(ns);
    assert_eq!(
        nonzero(&a.sums(at(300), at(500))),
        [(Class::Work, 300), (Class::LoadImbalance, 100)]
    );
    assert_eq!(nonzero(&a.cpu_sums(0, at(400), at(1000))), [(Class::LoadImbalance, 600)]);
    let part = kasuri_analyze::account::Account::new(&trace, at(300)..at(500));
    assert_eq!(
        part.sums(at(300), at(500)),
        a.sums(at(300), at(500)),
        "the account of a part is that part of the account"
    );
}

/// 10 holds `queue` 100..700; 11 asks for it at 200, spins to 300, sleeps to 700.
#[test]
fn a_lock_is_charged_spinning_and_blocked() {
    let mut s = Story::new(2);
    s.known = vec![11];
    s.switch(1, 300, 11, Sleeping, 0);
    s.wake(0, 700, 10, 11, 1);
    s.switch(1, 710, 0, RunnablePreempted, 11);
    s.switch(0, 990, 10, Sleeping, 0);
    s.lock(10, 100, 100, 700, "queue");
    s.lock(11, 200, 720, 800, "queue");
    let trace = s.load(1000);
    let a = account(&trace);
    // 200..300 and 710..720 on the CPU, 300..700 asleep; 700..710 ready and its CPU idle; from 990 10 sleeps for good
    // while 11 runs alone.
    assert_eq!(
        causes(&trace, &a),
        [
            (Class::LockWait, "queue".into(), "".into(), 510),
            (Class::LowParallelism, "".into(), "".into(), 10),
            (Class::SchedulingDelay, "".into(), "".into(), 10),
        ]
    );
    let spins = a.causes.iter().zip(by_cause(&a));
    let spins = spins.filter(|(c, _)| c.class == Class::LockWait && c.on_cpu);
    assert_eq!(spins.map(|(_, ns)| ns).sum::<i64>(), 110);
}

/// 10 alone in `setup` until 500; it makes 11 at 500.
#[test]
fn a_serial_phase_names_the_code_that_ran() {
    let mut s = Story::new(2);
    s.switch(1, 1, 90, Sleeping, 0);
    s.other(
        0,
        500,
        10,
        What::Fork {
            parent: 10,
            child: 11,
            comm: kasuri_model::StrIx::NONE,
            pid: None,
            same_process: Some(true),
        },
    );
    s.wake(0, 500, 10, 11, 1);
    s.switch(1, 520, 0, RunnablePreempted, 11);
    s.switch(0, 990, 10, RunnablePreempted, 10);
    s.slice(10, 0, 400, "setup");
    let trace = s.load(1000);
    let a = account(&trace);
    assert_eq!(
        causes(&trace, &a),
        [
            (Class::LowParallelism, "".into(), "".into(), 100),
            (Class::LowParallelism, "".into(), "setup".into(), 400),
            (Class::SchedulingDelay, "".into(), "".into(), 20),
        ]
    );
}

/// CPU 1: a stranger takes the CPU from 11, 300..600; both are to meet at a barrier: 10 comes at 700, 11 at 900, with
/// a delay of 300. Of 10's 200 of waiting, all is the stranger's doing.
#[test]
fn interference_also_bears_the_wait_for_whom_it_delayed() {
    let mut s = Story::new(2);
    s.known = vec![11];
    s.switch(1, 300, 11, RunnablePreempted, 95);
    s.switch(1, 600, 95, Sleeping, 11);
    s.switch(0, 700, 10, Sleeping, 0);
    s.wake(1, 900, 11, 10, 0);
    s.switch(0, 900, 0, RunnablePreempted, 10);
    s.wait(10, 700, 900, BARRIER, "sync");
    s.wait(11, 900, 900, BARRIER, "sync");
    s.slice(11, 0, 899, "loop");
    let trace = s.load(1000);
    let a = account(&trace);
    assert_eq!(causes(&trace, &a), [(Class::Interference, "other95".into(), "".into(), 300 + 200)]);
}

/// Three threads on two CPUs: 12 waits in CPU 0's queue until 10 sleeps at the barrier (400), then works 400..800
/// while 10 and 11 (from 400) wait for it.
#[test]
fn too_many_threads_bear_the_wait_for_whom_they_kept_away() {
    let mut s = Story::new(2);
    s.known = vec![11, 12];
    s.wake(0, 0, 10, 12, 0);
    s.switch(0, 400, 10, Sleeping, 12);
    s.switch(1, 400, 11, Sleeping, 0);
    s.wake(0, 800, 12, 11, 1);
    s.switch(1, 800, 0, RunnablePreempted, 11);
    s.wake(0, 800, 12, 10, 0);
    for (tid, from, to) in [(10, 400, 900), (11, 400, 800), (12, 800, 801)] {
        s.wait(tid, from, to, BARRIER, "sync");
    }
    s.switch(0, 900, 12, Sleeping, 10);
    let trace = s.load(1000);
    let a = account(&trace);
    // 12 was kept away for 400: all 400 that CPU 1 was idle. 800..801 12 is in the barrier itself.
    assert_eq!(
        nonzero(&a.sums(a.from, a.to)),
        [(Class::Work, 2000 - 401), (Class::LoadImbalance, 1), (Class::Oversubscription, 400),]
    );
}

/// 11 waits for 10, which waits for the disk: 10 blocks 200..600 in state D; woken by an interrupt.
#[test]
fn who_waits_for_a_reader_waits_for_the_disk() {
    let mut s = Story::new(2);
    s.known = vec![11];
    s.switch(1, 100, 11, Sleeping, 0);
    s.switch(0, 200, 10, DiskSleep, 0);
    s.wake(0, 600, 0, 10, 0);
    s.switch(0, 600, 0, RunnablePreempted, 10);
    s.wake(0, 800, 10, 11, 1);
    s.switch(1, 800, 0, RunnablePreempted, 11);
    let trace = s.load(1000);
    let a = account(&trace);
    // 100..200 and 600..800 10 runs alone.
    assert_eq!(
        nonzero(&a.sums(a.from, a.to)),
        [(Class::Work, 2000 - 400 - 400 - 300), (Class::IoWait, 800), (Class::LowParallelism, 300),]
    );
}

/// A stranger on a CPU that the program cannot use takes nothing from it; a loss is unknown, whatever was before.
#[test]
fn strangers_nobody_minds_and_lost_events() {
    let mut s = Story::new(2);
    s.switch(1, 100, 90, Sleeping, 0);
    s.switch(1, 200, 0, RunnablePreempted, 90);
    s.lost(1, 600);
    s.switch(1, 700, 90, Sleeping, 0);
    s.slice(10, 0, 1000, "alone");
    s.switch(0, 999, 10, RunnablePreempted, 10);
    let trace = s.load(1000);
    let a = account(&trace);
    assert_eq!(
        nonzero(&a.sums(a.from, a.to)),
        [(Class::Work, 1000), (Class::LowParallelism, 900), (Class::Unknown, 100)]
    );
}

/// Shifted, renamed, or with a process that never runs: the same answer.
#[test]
fn what_does_not_matter_changes_nothing() {
    let plain = account(&imbalance().load(1200));
    let expected = nonzero(&plain.sums(plain.from, plain.to));
    let build = |shift, rename, idle_process| {
        // Shift and names go into every event, so the story is told again.
        let mut s = Story::new(2);
        (s.shift, s.rename, s.idle_process) = (shift, rename, idle_process);
        s.known = vec![11];
        s.switch(0, 400, 10, Sleeping, 0);
        s.switch(0, 1000, 0, RunnablePreempted, 10);
        s.wake(1, 1000, 11, 10, 0);
        s.switch(1, 1199, 11, RunnablePreempted, 0);
        s.switch(1, 1199, 0, RunnablePreempted, 11);
        s.slice(11, 100, 1000, "loop48");
        s.wait(10, 400, 1000, BARRIER, "sync");
        s.wait(11, 1000, 1001, BARRIER, "sync");
        let a = account(&s.load(1200));
        nonzero(&a.sums(a.from, a.to))
    };
    assert_eq!(build(0, 0, false), expected);
    assert_eq!(build(1_000_000_007, 0, false), expected);
    assert_eq!(build(-5_000, 3_000, false), expected);
    assert_eq!(build(0, 0, true), expected);
}

/// 10 waits for a condition 100..1000 and looks at it by the clock: a timer wakes it at 400 and at 700, 11's signal at 1000. All of
/// the wait is for 11, which runs meanwhile (beside 12: no serial phase); the timer is no cause.
#[test]
fn a_wait_that_looks_by_the_clock_is_for_who_ends_it() {
    let mut s = Story::new(3);
    s.known = vec![11, 12];
    s.switch(0, 100, 10, Sleeping, 0);
    for tick in [400, 700] {
        s.wake(0, tick, 0, 10, 0);
        s.switch(0, tick, 0, RunnablePreempted, 10);
        s.switch(0, tick + 10, 10, Sleeping, 0);
    }
    s.wake(1, 1000, 11, 10, 0);
    s.switch(0, 1000, 0, RunnablePreempted, 10);
    for cpu in [1, 2] {
        s.switch(cpu, 1199, 10 + cpu as i32, RunnablePreempted, 0);
        s.switch(cpu, 1199, 0, RunnablePreempted, 10 + cpu as i32);
    }
    s.wait(10, 90, 1000, 3, "full");
    let trace = s.load(1200);
    let a = account(&trace);
    let sums = nonzero(&a.sums(a.from, a.to));
    assert!(!sums.iter().any(|(class, _)| *class == Class::ExternalWait), "{sums:?}");
    // 90..1000 of CPU 0.
    assert!(sums.contains(&(Class::WaitingForOwnThreads, 910)), "{sums:?}");
}

/// As [`imbalance`], but the last thread is in I/O 400..700, in the kernel and on its CPU: it waits for the disk all the same, and so
/// does who waits for it.
#[test]
fn a_wait_for_a_thread_in_the_kernel_for_io_is_io() {
    let mut s = imbalance();
    s.wait(11, 400, 700, 4, "write");
    let trace = s.load(1200);
    let a = account(&trace);
    // CPU 1: 11 itself in I/O, 300. CPU 0: 10 waits for it, 300; then for its work, 300 (and 1 of 11 at the barrier).
    assert_eq!(
        nonzero(&a.sums(a.from, a.to)),
        [(Class::Work, 2400 - 901), (Class::LoadImbalance, 301), (Class::IoWait, 600)]
    );
}
