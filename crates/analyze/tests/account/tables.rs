//! Rows of `kasuri stat`, `critical` and `compare` that sums do not check: the longest stretch, losses in a range, verdicts, the
//! ends of the path, waits inside regions. Small traces, by hand.
use super::story::*;
use ThreadState::{RunnablePreempted as Preempted, Sleeping};
use kasuri_analyze::compare::compare;
use kasuri_analyze::critical_path::critical_path;
use kasuri_analyze::{Options, Summary, summary};
use kasuri_model::{Loss, ThreadIx, ThreadState, Time, Trace};

fn all(trace: &Trace) -> Summary {
    summary(trace, &Options::default())
}

fn part(from: i64, to: i64) -> Options {
    Options { range: Some(Time(from)..Time(to)), ..Options::default() }
}

#[test]
fn a_causes_longest_stretch_is_the_first_of_equal_ones() {
    // 11 waits for a lock: on a CPU 200..300 and 710..720, asleep 300..700.
    let mut s = Story::new(2);
    s.known = vec![11];
    s.switch(1, 300, 11, Sleeping, 0);
    s.wake(0, 700, 10, 11, 1);
    s.switch(1, 710, 0, Preempted, 11);
    s.lock(10, 100, 100, 700, "queue");
    s.lock(11, 200, 720, 800, "queue");
    let found = all(&s.load(1000));
    let wait = found.account.causes.iter().find(|c| c.class == "lock_wait").unwrap();
    assert_eq!((wait.ns, wait.on_cpu_ns), (510, 110));
    assert_eq!((wait.longest_from_ns, wait.longest_to_ns), (300, 700));
    // A stranger has CPU 0 from 600 to 700 and CPU 1 from 300 to 400, and shorter stretches around them.
    let mut s = Story::new(2);
    s.known = vec![11];
    for (cpu, from, to) in [(0, 100, 150), (1, 300, 400), (0, 600, 700), (1, 800, 850)] {
        let own = 10 + cpu as i32;
        s.switch(cpu, from, own, Preempted, 95);
        s.switch(cpu, to, 95, Sleeping, own);
    }
    let found = all(&s.load(1000));
    let other = found.account.causes.iter().find(|c| c.class == "interference").unwrap();
    assert_eq!(other.ns, 300);
    assert_eq!((other.longest_from_ns, other.longest_to_ns), (300, 400));
    assert_eq!((other.pid, &*other.process), (Some(95), "other95"));
}

#[test]
fn losses_of_one_cause_cpu_and_thread_are_one_row_and_a_range_has_its_own() {
    let mut s = Story::new(2);
    s.switch(0, 900, 10, Sleeping, 0);
    let mut trace = s.load(1000);
    let loss =
        |cause: &str, cpu: Option<u16>, thread: u32, when: std::ops::Range<i64>, count| Loss {
            cause: cause.into(),
            cpu,
            thread: ThreadIx(thread),
            when: Time(when.start)..Time(when.end),
            count,
            remedy: "more".into(),
        };
    const NONE: u32 = u32::MAX;
    let ten = trace.threads.iter().position(|t| t.tid == 10).unwrap() as u32;
    trace.losses = vec![
        loss("overrun", Some(0), NONE, 100..200, 5),
        loss("overrun", Some(0), NONE, 400..500, 7),
        loss("overrun", Some(1), NONE, 100..200, 1),
        loss("full", Some(0), NONE, 100..200, 2),
        loss("full", None, ten, 300..300, 4),
    ];
    let rows = |options: &Options| -> Vec<_> {
        let found = summary(&trace, options).losses;
        let row =
            |l: &kasuri_analyze::LossSummary| (l.cause.clone(), l.cpu, l.tid, l.count, l.gaps);
        found.iter().map(row).collect()
    };
    let row = |cause: &str, cpu, tid, count, gaps| (cause.to_owned(), cpu, tid, count, gaps);
    let mut whole = rows(&Options::default());
    whole.sort();
    assert_eq!(
        whole,
        [
            row("full", None, Some(10), 4, 1),
            row("full", Some(0), None, 2, 1),
            row("overrun", Some(0), None, 12, 2),
            row("overrun", Some(1), None, 1, 1),
        ]
    );
    assert_eq!(rows(&part(201, 399)), [row("full", None, Some(10), 4, 1)]);
    assert_eq!(rows(&part(450, 600)), [row("overrun", Some(0), None, 7, 1)]);
    assert_eq!(rows(&part(501, 600)), []);
}

#[test]
fn faster_slower_and_noise() {
    let runs = |walls: &[i64]| -> Vec<Summary> {
        let run = |&wall_ns: &i64| Summary { wall_ns, ..Summary::default() };
        walls.iter().map(run).collect()
    };
    let verdict = |before: &[i64], after: &[i64]| {
        let found = compare(&runs(before), &runs(after));
        (found.verdict, found.speed_up.map(|x| (x * 100.0).round()))
    };
    let (slow, fast) = ([2000, 2010, 1990, 2005, 1995], [1000, 1010, 990, 1005, 995]);
    assert_eq!(verdict(&slow, &fast), ("faster", Some(200.0)));
    assert_eq!(verdict(&fast, &slow), ("slower", Some(50.0)));
    assert_eq!(verdict(&fast, &fast), ("may_be_noise", Some(100.0)));
    assert_eq!(verdict(&fast[..1], &slow[..1]).0, "not_known");
}

#[test]
fn the_path_has_the_programs_ends_and_goes_to_who_holds_the_lock_that_is_spun_for() {
    // The program begins at 100 and ends at 1600, a stranger runs before and after. 11 is on its CPU all the time, and spins
    // from 400 on for the lock that 10 gives back at 1000.
    let mut s = Story::new(2);
    s.known = vec![11];
    s.switch(0, 100, 95, Sleeping, 10);
    s.switch(1, 100, 96, Sleeping, 11);
    s.switch(0, 1100, 10, ThreadState::Dead, 95);
    s.switch(1, 1600, 11, ThreadState::Dead, 96);
    s.lock(10, 200, 200, 1000, "queue");
    s.lock(11, 400, 1000, 1200, "queue");
    let trace = s.load(2000);
    let path = critical_path(&trace);
    let of = |tid: i32| path.entries.iter().filter(|e| e.tid == tid).map(|e| e.ns).sum::<i64>();
    assert_eq!(path.to_ns, 1600);
    assert_eq!(path.length_ns, path.to_ns - path.from_ns);
    assert_eq!((of(11), path.hops), (600, 1));
    assert_eq!(of(10), 1000 - path.from_ns);
}

#[test]
fn waits_inside_a_region_are_not_its_work() {
    // Each thread runs `step` 0..1000 with `inner` in it and a wait for input in that: 10 waits 300 of it, 11 100.
    let mut s = Story::new(2);
    s.known = vec![11];
    const IO: u16 = 4;
    for (tid, until) in [(10, 600), (11, 400)] {
        s.note(tid, 0, BEGIN, 0, "step", 0);
        s.note(tid, 200, BEGIN, 0, "inner", 0);
        s.wait(tid, 300, until, IO, "read");
        s.note(tid, 700, END, 0, "inner", 0);
        s.note(tid, 1000, END, 0, "step", 0);
    }
    let found = all(&s.load(1000));
    let busy = |name: &str| {
        let row = found.imbalance.iter().find(|i| i.name == name).unwrap();
        let mut busy: Vec<_> = row.by_thread.iter().map(|t| (t.tid, t.busy_ns)).collect();
        busy.sort();
        busy
    };
    assert_eq!(busy("step"), [(10, 700), (11, 900)]);
    assert_eq!(busy("inner"), [(10, 200), (11, 400)]);
}

#[test]
fn the_path_goes_to_the_last_thread_at_a_barrier_also_from_one_that_spins() {
    // 10 comes at 400 and stays on its CPU until 11 comes at 1000; it is the last to end.
    let mut s = Story::new(2);
    s.known = vec![11];
    s.switch(1, 1100, 11, ThreadState::Dead, 0);
    s.switch(0, 1300, 10, ThreadState::Dead, 0);
    s.wait(10, 400, 1000, BARRIER, "sync");
    s.wait(11, 1000, 1001, BARRIER, "sync");
    let path = critical_path(&s.load(1300));
    let of = |tid: i32| path.entries.iter().filter(|e| e.tid == tid).map(|e| e.ns).sum::<i64>();
    assert_eq!((of(11), of(10), path.hops), (1000, 300, 1));
    assert_eq!((path.from_ns, path.to_ns, path.replayed_ns), (0, 1300, 1300));
}
