//! The critical path: worked out by hand, and the replay that must find the run as it was.
use super::story::*;
use ThreadState::*;
use kasuri_analyze::critical_path::{CriticalPath, critical_path};
use kasuri_model::{ThreadState, Trace};
use proptest::prelude::*;

fn checked(trace: &Trace) -> CriticalPath {
    let path = critical_path(trace);
    let sum: i64 = path.entries.iter().map(|e| e.ns).sum();
    assert_eq!(sum, path.length_ns, "{path:?}");
    path
}

fn gain(path: &CriticalPath, change: &str, name: &str) -> i64 {
    let mut all = path.what_if.iter();
    let found = all.find(|w| (w.change, w.name.as_str()) == (change, name));
    found.unwrap_or_else(|| panic!("{change} {name}: {:?}", path.what_if)).gain_ns
}

#[test]
fn the_path_goes_through_the_last_thread_at_the_barrier() {
    let path = checked(&super::golden::imbalance().load(1200));
    // Back from the end: one thread 1000..1200, then 11: `loop48` 100..1000, and 0..100 before it.
    let entry =
        |code: &str| path.entries.iter().filter(|e| e.code == code).map(|e| e.ns).sum::<i64>();
    assert_eq!((path.length_ns, entry("loop48"), entry("")), (1200, 900, 300));
    assert_eq!(path.hops, 1);
    assert_eq!(path.replayed_ns, 1200);
    // 11 comes at 550, later than 10 at 400: 450 saved.
    assert_eq!(gain(&path, "half", "loop48"), 450);
    // 10 ran 400 and 11 1000 before the barrier: both come at 700.
    assert_eq!(gain(&path, "balance", ""), 300);
}

#[test]
fn without_its_lock_a_thread_neither_waits_nor_sleeps() {
    let mut s = Story::new(2);
    s.known = vec![11];
    s.switch(1, 300, 11, Sleeping, 0);
    s.wake(0, 700, 10, 11, 1);
    s.switch(1, 710, 0, RunnablePreempted, 11);
    s.switch(0, 750, 10, Sleeping, 0);
    s.lock(10, 100, 100, 700, "queue");
    s.lock(11, 200, 720, 800, "queue");
    let path = checked(&s.load(1000));
    assert_eq!((path.length_ns, path.replayed_ns), (1000, 1000));
    // 11 goes on at 200 with what it did from 710 on: it ends at 490, and the run with 10's sleep at 750.
    assert_eq!(gain(&path, "no_lock", "queue"), 250);
    // 10 holds it for 300 less, so 11 goes on at 400, for 10 + 290 - 40.
    assert_eq!(gain(&path, "half_held", "queue"), 340);
    // The path: 11 from 710, ready from 700, 10 before that.
    let ready = path.entries.iter().find(|e| e.kind == "ready").unwrap();
    assert_eq!((ready.ns, path.hops), (10, 1));
}

#[test]
fn nothing_known_is_no_path() {
    assert_eq!(critical_path(&Trace::default()), CriticalPath::default());
}

/// A random schedule as Linux would write it: threads 10.. on CPUs, who sleep and wake each other.
fn schedule(n_cpus: usize, n_threads: usize, steps: &[(i64, usize, usize, u8)]) -> Story {
    let mut s = Story::new(n_cpus);
    s.known = (11..10 + n_threads as i32).collect();
    let mut on: Vec<i32> =
        (0..n_cpus).map(|c| if c < n_threads { 10 + c as i32 } else { 0 }).collect();
    let mut ready: Vec<i32> = Vec::new();
    let mut asleep: Vec<i32> = (10 + n_cpus.min(n_threads) as i32..10 + n_threads as i32).collect();
    let mut now = 0;
    for &(wait, cpu, which, action) in steps {
        now += wait;
        let (cpu, prev) = (cpu % n_cpus, on[cpu % n_cpus]);
        let pick =
            |list: &mut Vec<i32>| (!list.is_empty()).then(|| list.remove(which % list.len()));
        match action {
            0..=2 if prev != 0 => {
                if let Some(thread) = pick(&mut asleep) {
                    s.wake(cpu, now, prev, thread, cpu as i32);
                    ready.push(thread);
                }
            }
            3 if prev == 0 => {
                if let Some(thread) = pick(&mut asleep) {
                    s.wake(cpu, now, 0, thread, cpu as i32);
                    ready.push(thread);
                }
            }
            _ => {
                let next = pick(&mut ready).unwrap_or(0);
                if next == prev {
                    continue;
                }
                let left_as = if action % 2 == 0 { Sleeping } else { RunnablePreempted };
                s.switch(cpu, now, prev, left_as, next);
                match (prev, left_as) {
                    (0, _) => {}
                    (_, Sleeping) => asleep.push(prev),
                    _ => ready.push(prev),
                }
                on[cpu] = next;
            }
        }
    }
    s
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_replay_of_nothing_is_the_run(n_cpus in 1usize..4, n_threads in 1usize..7,
                                      steps in prop::collection::vec((1i64..50, 0usize..4, 0usize..6, 0u8..9), 0..120)) {
        let end = steps.iter().map(|s| s.0).sum::<i64>() + 10;
        let trace = schedule(n_cpus, n_threads, &steps).load(end);
        let path = checked(&trace);
        prop_assert_eq!(path.replayed_ns, path.length_ns);
        prop_assert!(path.what_if.iter().all(|w| w.length_ns >= 0));
    }
}
