//! Schedules with answers computed by hand, and nonsense.
use super::*;
use proptest::prelude::*;

const SLEEP: ThreadState = ThreadState::Sleeping;
const READY: ThreadState = ThreadState::RunnablePreempted;

fn switch(prev: i32, prev_state: ThreadState, next: i32) -> Event {
    Event::Switch { prev, prev_state, next, next_comm: *b"name\0\0\0\0\0\0\0\0\0\0\0\0" }
}

fn waking(tid: i32, cpu: i32) -> Event {
    Event::Waking { tid, cpu }
}

/// Process 10 with threads 10 and 11, process 20 with one.
fn state(cpus: &[u32]) -> State {
    let mut state = State::new(cpus, 0);
    for (pid, tid, name) in [(10, 10, "ten"), (10, 11, "eleven"), (20, 20, "twenty")] {
        state.learn(pid, tid, name);
    }
    state
}

fn thread(window: &Window, tid: i32) -> &ThreadRow {
    window.threads.iter().find(|row| row.tid == tid).unwrap()
}

fn wait(own_ns: u64, others_ns: u64, idle_ns: u64) -> Wait {
    Wait { own_ns, others_ns, idle_ns }
}

/// The first switch of a CPU says what it did before, also where wake-ups came in between.
#[test]
fn a_cpu_without_a_switch_yet_is_known_from_the_start_of_the_window() {
    let mut state = state(&[0, 1]);
    state.apply(1, 90, &waking(11, 0));
    state.apply(0, 100, &switch(10, SLEEP, 11));
    let window = state.close(150, 0);
    assert_eq!((window.busy_ns, window.idle_ns, window.unknown_ns), (150, 0, 150));
    assert_eq!(thread(&window, 10).run_ns, 100);
    assert_eq!(thread(&window, 11).wait, wait(10, 0, 0));
    // The second CPU was idle since then, or a switch would have said otherwise. What was reported stays as it was.
    state.apply(0, 160, &waking(20, 1));
    state.apply(1, 180, &switch(0, READY, 20));
    let window = state.close(250, 0);
    assert_eq!((window.busy_ns, window.idle_ns, window.unknown_ns), (170, 30, 0));
    assert_eq!(thread(&window, 20).wait, wait(0, 0, 20));
}

#[test]
fn waits_are_divided_by_who_had_the_cpu() {
    let mut state = state(&[0]);
    for (at, event) in [
        (100, switch(10, SLEEP, 20)),
        (150, waking(11, 0)),
        (200, waking(10, 0)),
        (300, switch(20, SLEEP, 10)),
        (400, switch(10, READY, 11)),
        (500, switch(11, SLEEP, 10)),
    ] {
        state.apply(0, at, &event);
    }
    let window = state.close(600, 0);
    let ten = thread(&window, 10);
    assert_eq!((ten.run_ns, ten.wait, ten.asleep_ns), (300, wait(100, 100, 0), 100));
    assert_eq!((ten.blocked, ten.preempted), (1, 1));
    let eleven = thread(&window, 11);
    assert_eq!((eleven.run_ns, eleven.wait), (100, wait(100, 150, 0)));
    assert_eq!((eleven.unknown_ns, eleven.asleep_ns), (150, 100));
    let twenty = thread(&window, 20);
    assert_eq!((twenty.unknown_ns, twenty.run_ns, twenty.asleep_ns), (100, 200, 300));
    assert_eq!((window.busy_ns, window.idle_ns, window.unknown_ns), (600, 0, 0));
    assert_eq!(window.latencies.count(), 2, "preempted threads were not woken");
    let worst = window.worst.clone().unwrap();
    assert_eq!((worst.ns, worst.at_ns, worst.tid), (250, 400, 11));
    let process = &window.processes[0];
    assert_eq!((process.pid, process.n_threads, process.run_ns), (10, 2, 400));
    // 300 and 100: (300 - 200) / 300.
    assert!((process.imbalance.unwrap() - 1.0 / 3.0).abs() < 1e-9);
}

#[test]
fn a_cpu_that_takes_time_to_begin_is_nobodys_fault_and_a_move_counts_both_queues() {
    let mut state = state(&[0, 4]);
    for (cpu, at, event) in [
        (0, 100, switch(10, SLEEP, 0)),
        (1, 100, switch(20, READY, 20)),
        (1, 200, waking(10, 0)),
        (0, 230, switch(0, READY, 10)),
        (0, 300, switch(10, SLEEP, 0)),
        // Woken onto the busy CPU, moved to the idle one, which begins at once.
        (1, 400, waking(11, 4)),
        (1, 450, Event::Migrate { tid: 11, cpu: 0 }),
        (0, 460, switch(0, READY, 11)),
    ] {
        state.apply(cpu, at, &event);
    }
    let window = state.close(500, 0);
    assert_eq!(thread(&window, 10).wait, wait(0, 0, 30));
    assert_eq!(thread(&window, 11).wait, wait(0, 50, 10));
    assert_eq!(window.busy_ns, 100 + 70 + 40 + 500);
    assert_eq!(window.idle_ns, 130 + 160);
}

#[test]
fn what_began_before_the_window_goes_on_in_the_next() {
    let mut state = state(&[0]);
    state.apply(0, 100, &switch(10, READY, 20));
    let first = state.close(200, 0);
    assert_eq!(thread(&first, 10).wait, wait(0, 100, 0));
    let second = state.close(300, 0);
    assert_eq!(thread(&second, 10).wait, wait(0, 100, 0));
    assert_eq!((second.start_ns, second.busy_ns, second.switches), (200, 100, 0));
}

#[test]
fn threads_are_born_into_the_process_of_their_parent_and_end() {
    let mut state = state(&[0]);
    let born = |tid, is_thread| Event::New {
        tid,
        parent: 11,
        is_thread,
        comm: *b"child\0\0\0\0\0\0\0\0\0\0\0",
    };
    state.apply(0, 10, &born(12, true));
    state.apply(0, 20, &born(13, false));
    state.apply(0, 30, &waking(13, 0));
    state.apply(0, 40, &switch(11, SLEEP, 13));
    state.apply(0, 60, &switch(13, ThreadState::Dead, 0));
    let window = state.close(100, 0);
    assert_eq!(thread(&window, 12).pid, 10);
    let ended = thread(&window, 13);
    assert_eq!((ended.pid, ended.run_ns, ended.has_ended), (13, 20, true));
    assert_eq!(ended.asleep_ns + ended.wait.sum_ns() + ended.run_ns, 40);
    let next = state.close(200, 0);
    assert!(next.threads.iter().all(|row| row.tid != 13), "reported once");
    assert!(next.processes.iter().all(|row| row.pid != 13));
    // Its number is given again.
    state.apply(0, 210, &born(13, true));
    assert_eq!(thread(&state.close(300, 0), 13).pid, 10);
}

#[test]
fn after_a_gap_and_a_hidden_switch_it_is_not_known() {
    let mut state = state(&[0]);
    state.apply(0, 100, &switch(10, SLEEP, 20));
    state.gap(0, 200);
    state.apply(0, 300, &switch(10, SLEEP, 20));
    let window = state.close(400, 0);
    // Known: 10 until 100, then again 20 from 300 on.
    assert_eq!((window.gaps, window.busy_ns, window.unknown_ns), (1, 200, 200));
    // 20 is on the CPU; the event says that 11 left it.
    state.apply(0, 450, &switch(11, SLEEP, 20));
    let window = state.close(500, 0);
    assert_eq!((window.unknown_ns, window.busy_ns), (50, 50));
    assert_eq!(thread(&window, 11).run_ns, 0);
}

fn any_event() -> impl Strategy<Value = (usize, u64, Event)> {
    let tid = 0..6i32;
    let states = prop_oneof![
        Just(SLEEP),
        Just(READY),
        Just(ThreadState::DiskSleep),
        Just(ThreadState::Dead),
        Just(ThreadState::Stopped)
    ];
    let event = prop_oneof![
        (tid.clone(), states, tid.clone())
            .prop_map(|(prev, state, next)| switch(prev, state, next)),
        (tid.clone(), -1..4i32).prop_map(|(tid, cpu)| waking(tid, cpu)),
        (tid.clone(), -1..4i32).prop_map(|(tid, cpu)| Event::Migrate { tid, cpu }),
        (tid.clone(), tid, any::<bool>()).prop_map(|(tid, parent, is_thread)| Event::New {
            tid,
            parent,
            is_thread,
            comm: [b'x'; 16]
        }),
    ];
    (0..2usize, 0..50u64, event)
}

proptest! {
    /// Whatever the events say: the sums of CPUs are the time there was, no thread has more than that, and threads ran while CPUs
    /// were busy.
    #[test]
    fn sums_are_the_time_there_was(
        events in proptest::collection::vec(any_event(), 0..200),
        gaps in proptest::collection::vec(0..200usize, 0..3),
    ) {
        let mut state = State::new(&[0, 2], 1000);
        let (mut now, mut start) = (1000, 1000);
        for (ix, (cpu, step, event)) in events.iter().enumerate() {
            now += step;
            if gaps.contains(&ix) {
                state.gap(*cpu, now);
            }
            state.apply(*cpu, now, event);
            if ix % 37 == 36 {
                let window = state.close(now, 0);
                let sum = window.busy_ns + window.idle_ns + window.unknown_ns;
                prop_assert_eq!(sum, 2 * (now - start));
                let ran = window.threads.iter().map(|row| row.run_ns).sum::<u64>();
                prop_assert_eq!(ran, window.busy_ns);
                for row in &window.threads {
                    let sum = row.run_ns + row.wait.sum_ns() + row.asleep_ns + row.disk_ns + row.unknown_ns;
                    prop_assert!(sum <= now - start, "{:?}", row);
                }
                start = now;
            }
        }
        prop_assert!(state.threads.len() <= 5 + events.len());
    }
}
