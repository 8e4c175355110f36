//! Golden traces of the scheduler pass: the answers in the comments were worked out by hand.
//!
//! Each test is one rule of docs/design/states.md: wake-ups that come before the sleep, equal stamps on two CPUs, migrations,
//! losses, and switches that the kernel hid.
use ThreadState::*;
use kasuri_model::input::{Event, KnownThread, Setup, What};
use kasuri_model::{Input, StrIx, Strings, ThreadIx, ThreadState, Time, Trace};

fn event(ns: i64, context: i32, what: What) -> Event {
    Event { time: Time(ns), context, in_interrupt: false, what }
}

fn switch(ns: i64, prev: i32, left_as: ThreadState, next: i32) -> Event {
    event(
        ns,
        prev,
        What::Switch { prev, prev_comm: StrIx::NONE, left_as, next, next_comm: StrIx::NONE },
    )
}

fn waking(ns: i64, context: i32, tid: i32, cpu: i32) -> Event {
    event(ns, context, What::Waking { tid, comm: StrIx::NONE, cpu, in_softirq: false })
}

/// The kernel counts `run` more ns for the thread, on a CPU where `context` is.
fn run_time(ns: i64, context: i32, tid: i32, run: u32) -> Event {
    event(ns, context, What::RunTime { tid, ns: run })
}

fn counted(trace: &Trace, tid: i32) -> Option<i64> {
    let thread = trace.threads.iter().find(|t| t.tid == tid);
    thread.expect("thread").counted.map(|d| d.ns())
}

fn load(span: std::ops::Range<i64>, cpus: Vec<Vec<Event>>) -> Trace {
    let setup = Setup {
        span: Time(span.start)..Time(span.end),
        n_cpus: cpus.len(),
        has_migrations: true,
        ..Setup::default()
    };
    Input { setup, cpus, ..Input::default() }.build().unwrap()
}

/// (start, state, cpu, tid of `by`) of a thread's rows.
fn states(trace: &Trace, tid: i32) -> Vec<(i64, ThreadState, u16, i32)> {
    let thread = trace.threads.iter().rfind(|t| t.tid == tid).expect("thread");
    let s = &trace.states;
    let by = |row: usize| {
        if s.by[row].is_some() { trace.threads[s.by[row].ix()].tid } else { 0 }
    };
    thread
        .states
        .clone()
        .map(|r| r as usize)
        .map(|r| (s.start[r].0, s.state[r], s.cpu[r], by(r)))
        .collect()
}

fn occupancy(trace: &Trace, cpu: usize) -> Vec<(i64, i32)> {
    let o = &trace.occupancy;
    let who = |row: usize| match (o.thread[row].is_some(), o.idle[row]) {
        (true, _) => trace.threads[o.thread[row].ix()].tid,
        (false, true) => 0,
        (false, false) => -1,
    };
    trace.cpus[cpu].occupancy.clone().map(|r| r as usize).map(|r| (o.start[r].0, who(r))).collect()
}

const ANY: u16 = u16::MAX;

#[test]
fn sleep_wake_run_preempt() {
    // CPU 0: 10 runs from the start, sleeps at 100; idle; 10 comes back at 250, preempted by 20 at 400; 20 ends at 500.
    // CPU 1: 30 runs all the time and wakes 10 at 200.
    let trace = load(
        0..1000,
        vec![
            vec![
                switch(100, 10, Sleeping, 0),
                switch(250, 0, RunnablePreempted, 10),
                switch(400, 10, RunnablePreempted, 20),
                switch(500, 20, Dead, 10),
            ],
            vec![waking(200, 30, 10, 0)],
        ],
    );
    assert_eq!(
        states(&trace, 10),
        [
            (0, Running, 0, 0),
            (100, Sleeping, 0, 0),
            (200, RunnableWoken, 0, 30),
            (250, Running, 0, 0),
            (400, RunnablePreempted, 0, 20),
            (500, Running, 0, 0)
        ]
    );
    assert_eq!(states(&trace, 20), [(0, Unknown, ANY, 0), (400, Running, 0, 0)]);
    assert_eq!(
        states(&trace, 30),
        [(0, Running, 1, 0)],
        "known from the context of its first event"
    );
    assert_eq!(occupancy(&trace, 0), [(0, 10), (100, 0), (250, 10), (400, 20), (500, 10)]);
    assert_eq!(occupancy(&trace, 1), [(0, 30)]);
    assert_eq!(trace.wakeups.latency[0].0, 50);
    let ten = trace.threads.iter().find(|t| t.tid == 10).unwrap();
    assert_eq!((ten.switches_out, ten.switches_in, ten.preemptions), (2, 2, 1));
    let twenty = trace.threads.iter().find(|t| t.tid == 20).unwrap();
    assert_eq!(twenty.alive, Time(0)..Time(500), "ends with its last switch");
}

#[test]
fn waking_while_still_running_then_sleeping_is_waiting_for_a_cpu() {
    // 10 is woken at 95 on its way to sleep, leaves as S at 100, and comes back at 130 without another wake-up.
    let trace = load(
        0..200,
        vec![
            vec![switch(100, 10, Sleeping, 20), switch(130, 20, Sleeping, 10)],
            vec![waking(95, 30, 10, 0)],
        ],
    );
    assert_eq!(
        states(&trace, 10),
        [(0, Running, 0, 0), (100, RunnableWoken, 0, 30), (130, Running, 0, 0)]
    );
    assert_eq!(trace.wakeups.latency[0].0, 35);
}

#[test]
fn waking_while_still_running_does_not_excuse_a_later_sleep() {
    // The same, but a second wake-up at 120 shows that it did sleep: the first had kept it from an earlier sleep.
    let trace = load(
        0..200,
        vec![
            vec![switch(100, 10, Sleeping, 20), switch(130, 20, Sleeping, 10)],
            vec![waking(50, 30, 10, 0), waking(120, 30, 10, 0)],
        ],
    );
    assert_eq!(states(&trace, 10)[1..3], [(100, Sleeping, 0, 0), (120, RunnableWoken, 0, 30)]);
    assert_eq!(trace.wakeups.latency.iter().map(|l| l.0).collect::<Vec<_>>(), [0, 10]);
}

#[test]
fn equal_stamps_wake_before_switch() {
    // Woken on CPU 1 and put on CPU 0 at the same nanosecond: the latency is 0 and it never runs unwoken.
    let trace = load(
        0..200,
        vec![
            vec![switch(50, 10, Sleeping, 0), switch(100, 0, RunnablePreempted, 10)],
            vec![waking(100, 30, 10, 0)],
        ],
    );
    assert_eq!(
        states(&trace, 10),
        [(0, Running, 0, 0), (50, Sleeping, 0, 0), (100, Running, 0, 0)]
    );
    assert_eq!(trace.wakeups.latency[0].0, 0);
}

#[test]
fn equal_stamps_out_of_one_cpu_onto_another() {
    let trace = load(
        0..200,
        vec![
            vec![switch(100, 0, RunnablePreempted, 10)],
            vec![switch(100, 10, RunnablePreempted, 0)],
        ],
    );
    // CPU 0 comes first: 10 is on it already when CPU 1 says that it left there.
    assert_eq!(states(&trace, 10), [(0, Running, 1, 0), (100, Running, 0, 0)]);
    assert_eq!(occupancy(&trace, 1), [(0, 10), (100, 0)]);
}

#[test]
fn migration_by_the_waker_is_where_it_was_woken_to_a_later_one_is_a_new_wait() {
    let moved = |ns, context, from, to| event(ns, context, What::Migrate { tid: 10, from, to });
    let trace = load(
        0..300,
        vec![
            vec![switch(50, 10, Sleeping, 0)],
            vec![waking(100, 30, 10, 0), moved(101, 30, 0, 1), moved(150, 30, 1, 2)],
            vec![switch(200, 0, RunnablePreempted, 10)],
        ],
    );
    assert_eq!(
        states(&trace, 10),
        [
            (0, Running, 0, 0),
            (50, Sleeping, 0, 0),
            (100, RunnableWoken, 1, 30),
            (150, RunnableWoken, 2, 30),
            (200, Running, 2, 0)
        ]
    );
    assert_eq!(trace.migrations.to_cpu, [1, 2]);
    assert_eq!(trace.wakeups.latency[0].0, 100);
}

#[test]
fn loss_makes_unknown_until_the_next_event() {
    // CPU 0's events between 100 and 300 are missing. 10 slept there, 20 ran there; 30 is on CPU 1 and stays known.
    let trace = load(
        0..500,
        vec![
            vec![
                switch(50, 10, Sleeping, 20),
                event(100, -1, What::Lost),
                switch(300, 40, Sleeping, 10),
                switch(400, 10, Sleeping, 0),
            ],
            vec![waking(90, 30, 50, 0), waking(350, 30, 20, 0)],
        ],
    );
    assert_eq!(
        states(&trace, 10),
        [
            (0, Running, 0, 0),
            (50, Sleeping, 0, 0),
            (100, Unknown, 0, 0),
            (300, Running, 0, 0),
            (400, Sleeping, 0, 0)
        ]
    );
    assert_eq!(
        states(&trace, 20)[1..],
        [(50, Running, 0, 0), (100, Unknown, 0, 0), (350, RunnableWoken, 0, 30)]
    );
    assert_eq!(states(&trace, 30), [(0, Running, 1, 0)]);
    assert_eq!(
        occupancy(&trace, 0),
        [(0, 10), (50, 20), (100, -1), (300, 10), (400, 0)],
        "40's time is not known"
    );
    assert!(trace.wakeups.latency.iter().all(|l| l.0 < 0), "nothing is carried over a gap");
}

/// A compiler's first thread sleeps while its others compile: nothing but /proc tells what the process is called.
#[test]
fn a_process_is_called_as_its_first_thread_which_sleeps_throughout() {
    let known =
        |tid, comm: &str| KnownThread { pid: 50, tid, comm: comm.into(), ..KnownThread::default() };
    let input = Input {
        setup: Setup {
            span: Time(0)..Time(1000),
            n_cpus: 1,
            known: vec![known(52, "opt cgu.01"), known(50, "rustc")],
            ..Setup::default()
        },
        cpus: vec![vec![switch(100, 0, RunnablePreempted, 52), switch(200, 52, Sleeping, 0)]],
        ..Input::default()
    };
    let trace = input.build().unwrap();
    assert_eq!(trace.broken_rules(), Vec::<String>::new());
    let process = &trace.processes[0];
    assert_eq!(process.pid, 50);
    assert_eq!(trace.strings.get(process.name), "rustc");
    let thread = &trace.threads[process.threads.start as usize];
    assert_eq!((thread.tid, trace.strings.get(thread.name)), (52, "opt cgu.01"));
}

#[test]
fn a_hidden_switch_from_idle_is_inferred_from_the_wake_up() {
    // CPU 1: 30 sleeps at 100; idle. CPU 0: 10 wakes it at 200. The switch from idle to 30 is not reported; at 500 30
    // switches itself off, so it had been there: since 200, as far as can be known. The wake-up's latency is not.
    let trace = load(
        0..1000,
        vec![
            vec![waking(200, 10, 30, 1), switch(900, 10, Sleeping, 0)],
            vec![switch(100, 30, Sleeping, 0), switch(500, 30, Sleeping, 0)],
        ],
    );
    assert_eq!(
        states(&trace, 30),
        [(0, Running, 1, 0), (100, Sleeping, 1, 0), (200, Running, 1, 0), (500, Sleeping, 1, 0)]
    );
    assert_eq!(occupancy(&trace, 1), [(0, 30), (100, 0), (200, 30), (500, 0)]);
    assert_eq!(trace.wakeups.latency, [kasuri_model::Duration(-1)]);
    assert_eq!((trace.cpus[0].hidden_switches, trace.cpus[1].hidden_switches), (0, 1));
}

#[test]
fn a_run_that_a_hidden_switch_began_is_as_long_as_the_kernel_counted() {
    // As above; but the kernel counts 15 ns at a tick, and 5 more just before 30 leaves: it came at 480.
    let trace = load(
        0..1000,
        vec![
            vec![waking(200, 10, 30, 1), switch(900, 10, Sleeping, 0)],
            vec![
                switch(100, 30, Sleeping, 0),
                run_time(496, 30, 30, 15),
                run_time(499, 30, 30, 5),
                switch(500, 30, Sleeping, 0),
            ],
        ],
    );
    assert_eq!(
        states(&trace, 30),
        [
            (0, Running, 1, 0),
            (100, Sleeping, 1, 0),
            (200, RunnableWoken, 1, 10),
            (480, Running, 1, 0),
            (500, Sleeping, 1, 0)
        ]
    );
    assert_eq!(occupancy(&trace, 1), [(0, 30), (100, 0), (480, 30), (500, 0)]);
    assert_eq!(trace.wakeups.latency, [kasuri_model::Duration(280)]);
    assert_eq!((trace.cpus[1].hidden_switches, trace.cpus[1].placed_switches), (1, 1));
    assert_eq!(counted(&trace, 30), Some(20));
    assert_eq!(trace.disagreements(), Vec::<String>::new());
}

#[test]
fn run_time_that_another_cpu_told_of_counts() {
    // 10 wakes 20 onto CPU 1, where 30 is: that brings the count of 30 up to date before CPU 1 says anything of it.
    let trace = load(
        0..1000,
        vec![
            vec![waking(200, 10, 30, 1), run_time(300, 10, 30, 60), waking(301, 10, 20, 1)],
            vec![
                switch(100, 30, Sleeping, 0),
                run_time(499, 30, 30, 200),
                switch(500, 30, Sleeping, 0),
            ],
        ],
    );
    assert!(states(&trace, 30).contains(&(240, Running, 1, 0)));
    assert_eq!(counted(&trace, 30), Some(260));
}

#[test]
fn a_placed_run_begins_neither_before_another_was_seen_there_nor_before_it_was_ready() {
    // CPU 0: 10 is there up to 150 at least; 20, woken at 110, is found there at 400. It counts more than fits.
    let trace = load(
        0..1000,
        vec![
            vec![
                waking(110, 10, 20, 0),
                waking(150, 10, 40, 0),
                run_time(399, 20, 20, 5000),
                switch(400, 20, Sleeping, 0),
            ],
            Vec::new(),
        ],
    );
    assert_eq!(
        states(&trace, 20)[1..],
        [(110, RunnableWoken, 0, 10), (150, Running, 0, 0), (400, Sleeping, 0, 0)]
    );
    // The count is less than the thread may have run: what ran between the two events is not known.
    let trace = load(
        0..1000,
        vec![vec![waking(110, 10, 20, 0), run_time(399, 20, 20, 40), switch(400, 20, Sleeping, 0)]],
    );
    assert_eq!(occupancy(&trace, 0), [(0, 10), (110, -1), (360, 20), (400, 0)]);
    assert_eq!(
        states(&trace, 20)[1..],
        [(110, RunnableWoken, 0, 10), (360, Running, 0, 0), (400, Sleeping, 0, 0)]
    );
    assert_eq!(trace.broken_rules(), Vec::<String>::new());
}

#[test]
fn a_run_after_a_hidden_wake_up_is_unknown_until_it_begins() {
    // 30 sleeps at 100. Neither its wake-up nor its coming is seen; the event at 450 finds it, and it has run since 420.
    let trace = load(
        0..1000,
        vec![vec![
            run_time(99, 30, 30, 99),
            switch(100, 30, Sleeping, 0),
            waking(450, 30, 10, 0),
            run_time(499, 30, 30, 80),
            switch(500, 30, Sleeping, 0),
        ]],
    );
    assert_eq!(
        states(&trace, 30),
        [(0, Running, 0, 0), (100, Unknown, 0, 0), (420, Running, 0, 0), (500, Sleeping, 0, 0)]
    );
}

#[test]
fn run_times_with_a_gap_place_nothing() {
    // Events of CPU 0 are lost after 250: some of what 30 ran may have been told there.
    let lost = event(250, -1, What::Lost);
    let trace = load(
        0..1000,
        vec![
            vec![waking(200, 10, 30, 1), lost, switch(900, 10, Sleeping, 0)],
            vec![
                switch(100, 30, Sleeping, 0),
                run_time(499, 30, 30, 5),
                switch(500, 30, Sleeping, 0),
            ],
        ],
    );
    assert!(states(&trace, 30).contains(&(200, Running, 1, 0)));
    assert_eq!(trace.cpus[1].placed_switches, 0);
    assert_eq!(counted(&trace, 30), None);
}

#[test]
fn a_thread_woken_while_leaving_is_ready_for_a_hidden_switch() {
    // 30 is woken at 90 and leaves at 100, as asleep; its coming back is hidden, and it leaves again at 500.
    let trace = load(
        0..1000,
        vec![
            vec![waking(90, 10, 30, 1)],
            vec![switch(100, 30, Sleeping, 0), switch(500, 30, Sleeping, 0)],
        ],
    );
    assert_eq!(
        states(&trace, 30),
        [(0, Running, 1, 0), (100, Running, 1, 0), (500, Sleeping, 1, 0)]
    );
}

#[test]
fn a_preempted_thread_that_an_idle_cpu_did_not_take_was_held_back() {
    // A CPU limit takes 30 off at 100, and the CPU goes idle; 20 comes and goes. 30's coming back is hidden, and it leaves at 500.
    let trace = load(
        0..1000,
        vec![vec![
            switch(100, 30, RunnablePreempted, 0),
            switch(300, 0, RunnablePreempted, 20),
            switch(310, 20, Sleeping, 0),
            switch(500, 30, RunnablePreempted, 0),
            switch(600, 30, Sleeping, 0),
        ]],
    );
    assert_eq!(
        states(&trace, 30),
        [
            (0, Running, 0, 0),
            (100, RunnablePreempted, 0, 0),
            (500, RunnablePreempted, 0, 0),
            (600, Sleeping, 0, 0)
        ],
        "not running from 310"
    );
    assert_eq!(trace.cpus[0].hidden_switches, 2);
}

#[test]
fn what_was_on_the_cpu_before_a_hidden_switch_is_unknown_from_its_last_event() {
    // 20 comes at 100. The next event, at 400, finds the CPU idle: when 20 left is not known. 30 comes then.
    let trace = load(
        0..1000,
        vec![vec![
            switch(100, 10, Sleeping, 20),
            switch(400, 0, RunnablePreempted, 30),
            switch(600, 30, Sleeping, 0),
        ]],
    );
    assert_eq!(states(&trace, 20), [(0, Unknown, ANY, 0), (100, Unknown, 0, 0)]);
    assert_eq!(occupancy(&trace, 0), [(0, 10), (100, -1), (400, 30), (600, 0)]);
    assert_eq!(trace.cpus[0].hidden_switches, 1);
}

#[test]
fn fork_exec_exit_and_a_tid_used_again() {
    let fork = |ns, parent, child, same| {
        let what =
            What::Fork { parent, child, comm: StrIx::NONE, pid: None, same_process: Some(same) };
        event(ns, parent, what)
    };
    let trace = load(
        0..900,
        vec![vec![
            fork(10, 1, 10, false),
            waking(12, 1, 10, 0),
            switch(20, 1, Sleeping, 10),
            fork(30, 10, 11, true),
            waking(32, 10, 11, 0),
            switch(40, 10, Sleeping, 11),
            switch(60, 11, Dead, 0),
            switch(70, 0, RunnablePreempted, 1),
            fork(80, 1, 11, false),
            waking(81, 1, 11, 0),
            switch(90, 1, Sleeping, 11),
        ]],
    );
    let rows: Vec<(i32, i32, i64, i64)> = trace
        .threads
        .iter()
        .map(|t| (trace.processes[t.process.ix()].pid, t.tid, t.alive.start.0, t.alive.end.0))
        .collect();
    assert_eq!(rows, [(1, 1, 0, 900), (10, 10, 10, 900), (10, 11, 30, 60), (11, 11, 80, 900)]);
    let parents: Vec<i32> = trace
        .processes
        .iter()
        .map(|p| if p.parent.is_some() { trace.processes[p.parent.ix()].pid } else { 0 })
        .collect();
    assert_eq!(parents, [0, 1, 1]);
    assert_eq!(states(&trace, 11), [(80, RunnableWoken, 0, 1), (90, Running, 0, 0)]);
    assert_eq!(trace.wakeups.latency.iter().map(|l| l.0).collect::<Vec<_>>(), [8, 8, 9]);
}

/// A thread that replaces its program lives once more; one of another number takes over the first one's.
#[test]
fn each_program_of_a_thread_is_a_life() {
    let exec = |ns, tid, old_tid| event(ns, tid, What::Exec { tid, old_tid });
    let trace = load(
        0..1000,
        vec![vec![
            switch(100, 0, Running, 20),
            exec(150, 20, 20),
            exec(300, 20, 20),
            switch(400, 20, Sleeping, 11),
            exec(450, 10, 11), // 11 becomes 10, the first thread of its process
            switch(500, 10, Sleeping, 0),
        ]],
    );
    assert_eq!(trace.broken_rules(), Vec::<String>::new());
    let thread = |tid| {
        let at = trace.threads.iter().position(|t| t.tid == tid).expect("thread");
        ThreadIx(at as u32)
    };
    let execs = |tid| trace.execs.of(thread(tid)).iter().map(|t| t.0).collect::<Vec<i64>>();
    assert_eq!((execs(20), execs(10), execs(11)), (vec![150, 300], vec![450], vec![]));
    let lives: Vec<(i64, i64, usize)> = trace
        .lives_of(thread(20))
        .map(|life| (life.time.start.0, life.time.end.0, life.follow))
        .collect();
    assert_eq!(lives, [(i64::MIN, 150, 2), (150, 300, 1), (300, i64::MAX, 0)]);
    let parts = |time: std::ops::Range<i64>| {
        let time = Time(time.start)..Time(time.end);
        trace.states_in(thread(20), &time).map(|row| row.start.0).collect::<Vec<i64>>()
    };
    let all: Vec<i64> = trace.states_of(thread(20)).map(|row| row.start.0).collect();
    assert_eq!(parts(i64::MIN..i64::MAX), all);
    assert_eq!(parts(100..400), [100]);
    assert_eq!(parts(100..401), [100, 400]);
    assert_eq!(parts(400..400), [] as [i64; 0]);
}

#[test]
fn a_thread_found_on_a_cpu_was_not_there_before_its_birth() {
    // CPU 1's first event finds 20 there, whose switch from idle was hidden; but it was born at 300 only.
    let child = What::Fork {
        parent: -1,
        child: 20,
        comm: StrIx::NONE,
        pid: None,
        same_process: Some(false),
    };
    let trace = load(
        0..1000,
        vec![
            vec![event(300, 10, child), waking(310, 10, 20, 1)],
            vec![switch(500, 20, Sleeping, 0)],
        ],
    );
    assert_eq!(trace.threads.iter().filter(|t| t.tid == 20).count(), 1);
    let thread = trace.threads.iter().find(|t| t.tid == 20).unwrap();
    assert_eq!(thread.alive.start, Time(300));
    assert_eq!(occupancy(&trace, 1), [(0, -1), (500, 0)]);
}

#[test]
fn a_zombie_that_sleeps_once_more_is_the_same_thread() {
    // 10 leaves as dead at 300, because a zombie's sleep reads so, is woken at 400 and ends at 500.
    let trace = load(
        0..1000,
        vec![
            vec![
                switch(100, 0, RunnablePreempted, 10),
                switch(300, 10, Dead, 0),
                switch(420, 0, RunnablePreempted, 10),
                switch(500, 10, Dead, 0),
            ],
            vec![waking(400, 20, 10, 0)],
        ],
    );
    assert_eq!(trace.threads.iter().filter(|t| t.tid == 10).count(), 1);
    assert_eq!(
        states(&trace, 10),
        [
            (0, Unknown, ANY, 0),
            (100, Running, 0, 0),
            (300, Dead, 0, 0),
            (400, RunnableWoken, 0, 20),
            (420, Running, 0, 0)
        ]
    );
    let thread = trace.threads.iter().find(|t| t.tid == 10).unwrap();
    assert_eq!(thread.alive.end, Time(500));
}

#[test]
fn targets_are_the_root_and_its_descendants() {
    let fork = |ns, parent, child| {
        event(
            ns,
            parent,
            What::Fork { parent, child, comm: StrIx::NONE, pid: None, same_process: Some(false) },
        )
    };
    let build = |root_pids| {
        let setup = Setup { span: Time(0)..Time(100), n_cpus: 1, root_pids, ..Setup::default() };
        let cpus = vec![vec![fork(10, 1, 20), fork(20, 20, 30), fork(30, 30, 40), fork(40, 1, 50)]];
        let input = Input { setup, cpus, ..Input::default() };
        input.build().unwrap()
    };
    let targets = |trace: &Trace| {
        let own = trace.processes.iter().filter(|p| p.is_target);
        let mut pids: Vec<i32> = own.map(|p| p.pid).collect();
        pids.sort_unstable();
        pids
    };
    assert_eq!(targets(&build(vec![20])), [20, 30, 40]);
    // A choice takes descendants along as well.
    let mut chosen = build(Vec::new());
    assert_eq!(targets(&chosen), [1, 20, 30, 40, 50]);
    let choice = kasuri_model::Choice { processes: vec!["20".into()], ..Default::default() };
    chosen.choose(&choice).unwrap();
    assert_eq!(targets(&chosen), [20, 30, 40]);
}

#[test]
fn proc_tells_which_threads_slept_through_and_whose_they_are() {
    // No event at all. 10 made 20, which made 30; 40 is a stranger's; 50 and 51 are each other's parents: damage.
    let known =
        |pid, ppid| kasuri_model::input::KnownThread { pid, tid: pid, ppid, ..Default::default() };
    let setup = Setup {
        span: Time(0)..Time(100),
        n_cpus: 1,
        root_pids: vec![10],
        known: vec![known(20, 10), known(30, 20), known(40, 1), known(50, 51), known(51, 50)],
        ..Setup::default()
    };
    let input = Input { setup, ..Input::default() };
    let trace = input.build().unwrap();
    let mut threads: Vec<i32> = trace.threads.iter().map(|t| t.tid).collect();
    threads.sort_unstable();
    assert_eq!(threads, [20, 30]);
    assert!(trace.processes.iter().all(|p| p.is_target));
}

/// A thread that raised no event before /proc was asked did so all the time; one that did is known from its events.
#[test]
fn proc_tells_what_threads_did_before_their_first_event() {
    let known = |tid| kasuri_model::input::KnownThread { pid: 10, tid, ..Default::default() };
    let did = |tid, state| (tid, Time(20), state);
    let setup = Setup {
        span: Time(0)..Time(100),
        n_cpus: 1,
        root_pids: vec![10],
        known: [10, 11, 12, 13].map(known).into(),
        did: vec![
            did(10, ThreadState::Sleeping),
            did(11, ThreadState::DiskSleep),
            did(12, ThreadState::Sleeping),
            did(13, ThreadState::Running),
        ],
        ..Setup::default()
    };
    let wakes = |ns, tid| {
        let what = What::Waking { tid, comm: StrIx::NONE, cpu: 0, in_softirq: false };
        event(ns, 99, what)
    };
    // 12 was woken before it was looked at: what it did before is not known.
    let events: Vec<Event> = vec![wakes(10, 12), wakes(50, 11)];
    let input = Input { setup, cpus: vec![events], ..Input::default() };
    let trace = input.build().unwrap();
    let first = |tid: i32| {
        let thread = trace.threads.iter().position(|t| t.tid == tid).unwrap();
        let row = trace.states_of(ThreadIx(thread as u32)).next().unwrap();
        (row.state, row.end.0)
    };
    assert_eq!(first(10), (ThreadState::Sleeping, 100));
    assert_eq!(first(11), (ThreadState::DiskSleep, 50));
    assert_eq!(first(12), (ThreadState::Unknown, 10));
    let silent = trace.threads.iter().position(|t| t.tid == 13);
    assert_eq!(trace.states_of(ThreadIx(silent.unwrap() as u32)).len(), 0);
}

#[test]
fn a_lock_in_an_interrupt_neither_begins_nor_ends_the_threads_wait() {
    let lock = |ns, in_interrupt, what| Event { in_interrupt, ..event(ns, 10, what) };
    let begin = || What::LockBegin { name: StrIx::NONE };
    let trace = load(
        0..100,
        vec![vec![
            lock(5, true, begin()),
            lock(8, true, What::LockEnd),
            lock(10, false, begin()),
            lock(20, true, begin()),
            lock(25, true, What::LockEnd),
            lock(30, false, What::LockEnd),
        ]],
    );
    let k = &trace.kernel_spans;
    assert_eq!((k.start.len(), k.start[0].0, k.end[0].0), (1, 10, 30));
}

#[test]
fn interrupts_nest_to_a_limit() {
    // Twenty entries, as damage could have them, and twenty exits: sixteen are kept, the innermost first out.
    let entry = |n: i64| event(10 + n, 10, What::IrqEntry { name: StrIx::NONE });
    let exit = |n: i64| event(50 + n, 10, What::IrqExit);
    let trace = load(0..100, vec![(0..20).map(entry).chain((0..20).map(exit)).collect()]);
    let k = &trace.kernel_spans;
    let mut spans: Vec<_> = (0..k.start.len()).map(|i| (k.start[i].0, k.end[i].0)).collect();
    spans.sort_unstable();
    let expected: Vec<_> = (0..16).map(|n| (10 + n, 65 - n)).collect();
    assert_eq!(spans, expected);
}

#[test]
fn a_birth_ends_the_thread_that_had_the_number() {
    // 10 ran and slept; its exit was lost, and at 300 another thread is born with its number.
    let fork = What::Fork {
        parent: 20,
        child: 10,
        comm: StrIx::NONE,
        pid: None,
        same_process: Some(true),
    };
    let cpu = vec![
        switch(100, 10, Sleeping, 20),
        switch(150, 20, RunnablePreempted, 10),
        switch(200, 10, Sleeping, 20),
        event(300, 20, fork),
    ];
    let trace = load(0..1000, vec![cpu]);
    let mut lives: Vec<_> = (trace.threads.iter().filter(|t| t.tid == 10))
        .map(|t| (t.alive.start.0, t.alive.end.0))
        .collect();
    lives.sort_unstable();
    assert_eq!(lives, [(0, 300), (300, 1000)]);
}

#[test]
fn perf_switches_without_wakers() {
    // Unprivileged: only our threads' comings and goings. 10 runs at the start, is preempted, returns on CPU 1.
    let setup = Setup { span: Time(0)..Time(100), n_cpus: 2, ..Setup::default() };
    let come = |ns, tid| event(ns, -1, What::In { tid });
    let go = |ns, tid, left_as| event(ns, -1, What::Out { tid, left_as });
    let cpus = vec![vec![go(20, 10, RunnablePreempted)], vec![come(50, 10), go(80, 10, Sleeping)]];
    let trace = Input { setup, cpus, ..Input::default() }.build().unwrap();
    assert_eq!(
        states(&trace, 10),
        [
            (0, Running, 0, 0),
            (20, RunnablePreempted, 0, 0),
            (50, Running, 1, 0),
            (80, Sleeping, 1, 0)
        ]
    );
    assert_eq!(occupancy(&trace, 0), [(0, 10), (20, -1)]);
    assert_eq!(occupancy(&trace, 1), [(0, -1), (50, 10), (80, -1)]);
    assert_eq!(trace.migrations.to_cpu, [1]);
}

/// The softirq runs on top of 20. What a sleep that can be interrupted waits for may be what 20 sent, if they work with each other: 10 woke 20, too. The
/// disk's or a timer's softirq runs on top of anyone.
#[test]
fn a_softirq_on_top_of_a_stranger_has_no_waker() {
    for (left_as, works_with, has_waker) in
        [(ThreadState::DiskSleep, true, false), (Sleeping, true, true), (Sleeping, false, false)]
    {
        let mut wake = waking(50, 20, 10, 0);
        if let What::Waking { in_softirq, .. } = &mut wake.what {
            *in_softirq = true;
        }
        let mut events = vec![switch(10, 10, left_as, 20), wake, switch(60, 20, Sleeping, 10)];
        if works_with {
            events.insert(0, waking(5, 10, 20, 0));
        }
        let trace = load(0..100, vec![events]);
        let by = if has_waker { 20 } else { 0 };
        assert_eq!(states(&trace, 10)[2], (50, RunnableWoken, 0, by));
        let last = trace.wakeups.waker.last().unwrap();
        assert_eq!(last.is_some(), has_waker);
    }
}

#[test]
fn interrupt_wakes_without_a_waker() {
    let mut irq = waking(50, 30, 10, 0);
    irq.in_interrupt = true;
    let trace = load(0..100, vec![vec![switch(10, 10, Sleeping, 30), irq, waking(60, 30, 20, 0)]]);
    assert!(!trace.wakeups.waker[0].is_some());
    assert_eq!(trace.threads[trace.wakeups.waker[1].ix()].tid, 30);
}

#[test]
fn the_idle_thread_wakes_nobody() {
    // A timer's interrupt on an idle CPU: the event names the idle thread, and not all kernels say that it is an interrupt.
    let trace = load(0..100, vec![vec![waking(50, 0, 10, 0)]]);
    assert!(!trace.wakeups.waker[0].is_some());
    assert_eq!(trace.threads.iter().filter(|t| t.tid == 0).count(), 0);
}

#[test]
fn a_thread_whose_leaving_was_not_reported_is_unknown_unless_it_was_seen_elsewhere() {
    // On CPU 0 another thread comes on three times, and the one before it never left by an event. 10 is nowhere else;
    // 20 is on CPU 1 by then; 30 was on CPU 1 and sleeps there.
    let come = |ns, tid| event(ns, -1, What::In { tid });
    let cpus = vec![
        vec![come(10, 10), come(50, 20), come(150, 30), come(250, 40)],
        vec![
            come(120, 20),
            event(190, -1, What::Out { tid: 20, left_as: Sleeping }),
            come(200, 30),
            event(220, -1, What::Out { tid: 30, left_as: Sleeping }),
        ],
    ];
    let trace = load(0..500, cpus);
    let last = |tid| *states(&trace, tid).last().unwrap();
    assert_eq!(last(10), (50, Unknown, 0, 0));
    assert_eq!(
        states(&trace, 20)[1..],
        [(50, Running, 0, 0), (120, Running, 1, 0), (190, Sleeping, 1, 0)]
    );
    assert_eq!(last(30), (220, Sleeping, 1, 0));
}

#[test]
fn a_thread_bears_the_last_name_seen() {
    let mut strings = Strings::default();
    let (old, new) = (strings.intern("old"), strings.intern("new"));
    let waking = |ns, comm| {
        let what = What::Waking { tid: 10, comm, cpu: 0, in_softirq: false };
        event(ns, 20, what)
    };
    let trace = Input {
        strings,
        cpus: vec![vec![waking(1, old), waking(2, new), waking(3, StrIx::NONE)]],
        ..Input::default()
    }
    .build()
    .unwrap();
    let thread = trace.threads.iter().find(|t| t.tid == 10).unwrap();
    assert_eq!(trace.strings.get(thread.name), "new");
}

/// A stream that ends early says nothing of what ran on its CPU afterwards, as little as one that begins late of what ran before.
#[test]
fn after_the_end_of_a_cpus_stream_nothing_is_known_of_who_ran_there() {
    let switch = |ns, prev, next| switch(ns, prev, ThreadState::Sleeping, next);
    let cpus = || {
        vec![
            // 11 sleeps, 10 runs at the end, and 12 was woken for this CPU.
            vec![switch(10, 0, 11), switch(20, 11, 10)],
            vec![switch(15, 0, 20), waking(30, 20, 12, 0), switch(90, 20, 21)],
        ]
    };
    let build = |stops: Vec<(u16, Time)>| {
        let setup = Setup {
            span: Time(0)..Time(100),
            n_cpus: 2,
            has_migrations: true,
            stops,
            ..Setup::default()
        };
        let input = Input { setup, cpus: cpus(), ..Input::default() };
        let trace = input.build().unwrap();
        assert_eq!(trace.broken_rules(), Vec::<String>::new());
        trace
    };
    let last = |trace: &Trace, tid| states(trace, tid).last().copied().unwrap();
    let occupied = |trace: &Trace, cpu: usize| {
        let rows = trace.cpus[cpu].occupancy.clone();
        let row = rows.end as usize - 1;
        let on = &trace.occupancy;
        (on.start[row].0, on.thread[row].is_some() || on.idle[row])
    };
    let whole = build(vec![]);
    assert_eq!(last(&whole, 10), (20, ThreadState::Running, 0, 0));
    assert_eq!(last(&whole, 12), (30, ThreadState::RunnableWoken, 0, 20));
    assert_eq!(occupied(&whole, 0), (20, true));
    // From the last event on, or from where it is known to be complete to; a wake-up after that leads nowhere.
    for (complete, from) in [(Time::MIN, 20), (Time(5), 20), (Time(60), 60)] {
        let cut = build(vec![(0, complete), (7, Time(1))]);
        assert_eq!(last(&cut, 10).0, from);
        assert_eq!(last(&cut, 10).1, ThreadState::Unknown);
        assert_eq!(last(&cut, 12).1, ThreadState::Unknown);
        assert_eq!(last(&cut, 12).0, from.max(30));
        assert_eq!(last(&cut, 11).1, ThreadState::Sleeping);
        assert_eq!(last(&cut, 21), last(&whole, 21), "the other CPU");
        assert_eq!(occupied(&cut, 0), (from, false));
        assert_eq!(occupied(&cut, 1), (90, true));
    }
    let complete = build(vec![(0, Time(100)), (1, Time::MAX)]);
    assert_eq!(last(&complete, 10), last(&whole, 10));
}

/// Events name the thread in whose context they were raised: that it ran then does not say from when to when.
#[test]
fn without_any_switch_no_state_is_known() {
    let call = |ns, tid| event(ns, tid, What::SyscallEntry { name: StrIx::NONE });
    let end = |ns, tid| event(ns, tid, What::SyscallExit);
    let build = |may_lack_switches, more: Vec<Event>| {
        let setup =
            Setup { span: Time(0)..Time(100), n_cpus: 1, may_lack_switches, ..Setup::default() };
        let mut events = vec![call(10, 5), end(40, 5), waking(50, 5, 6, 0), call(60, 5)];
        events.extend(more);
        let cpus = vec![events];
        let trace = Input { setup, cpus, ..Input::default() }.build().unwrap();
        assert_eq!(trace.broken_rules(), Vec::<String>::new());
        assert_eq!(trace.kernel_spans.start, [Time(10), Time(60)]);
        assert_eq!(trace.wakeups.time, [Time(50)]);
        let on = &trace.occupancy;
        let n_known = (0..on.start.len()).filter(|&row| on.thread[row].is_some() || on.idle[row]);
        (trace.states.start.len(), n_known.count())
    };
    assert_eq!(build(true, vec![]), (0, 0));
    // The recorder always takes switches: where there is none, the thread ran on.
    assert!(build(false, vec![]).0 > 0);
    let left = switch(70, 5, ThreadState::Sleeping, 0);
    assert!(build(true, vec![left]).0 > 0);
}
