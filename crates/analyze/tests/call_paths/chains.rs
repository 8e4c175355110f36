//! Waits and the chain of those that ended them, worked out by hand.
use super::join::{class_of, paths_of, sampled};
use crate::account::story::Story;
use ThreadState::{RunnablePreempted, Sleeping};
use kasuri_analyze::call_paths::{ChainNode, WaitChains};
use kasuri_analyze::{Options, summary};
use kasuri_model::{SampleKind, ThreadState, Time, Trace};

fn names(frames: &[kasuri_analyze::call_paths::PathFrame]) -> String {
    let names: Vec<&str> = frames.iter().map(|f| f.function.as_str()).collect();
    names.join(" < ")
}

/// (depth, thread and code, where, ns).
type Row = (u32, String, String, i64);

fn row(depth: u32, did: &str, at: &str, ns: i64) -> Row {
    (depth, did.into(), at.into(), ns)
}

fn rows(chains: &WaitChains) -> Vec<Row> {
    adds_up(chains);
    let who = |n: &ChainNode| match n.thread.as_str() {
        "" if n.process.is_empty() => n.did.to_string(),
        "" => format!("{} {}", n.process, n.did),
        thread => format!("{thread} {}", n.did),
    };
    let nodes = chains.nodes.iter();
    nodes.map(|n| (n.depth, who(n), names(&n.frames), n.ns)).collect()
}

/// The times of the nodes behind a wait, and its rest, are its own.
fn adds_up(chains: &WaitChains) {
    let sum_behind = |from: usize, depth: u32| -> i64 {
        let rows = chains.nodes[from..].iter();
        let behind = rows.take_while(|n| n.depth >= depth);
        behind.filter(|n| n.depth == depth).map(|n| n.ns).sum()
    };
    assert_eq!(sum_behind(0, 0) + chains.rest_ns, chains.ns);
    for (at, node) in chains.nodes.iter().enumerate() {
        let expected = if node.did == "waited" { node.ns } else { 0 };
        assert_eq!(sum_behind(at + 1, node.depth + 1) + node.rest_ns, expected, "{node:?}");
    }
}

fn chains_of(trace: &Trace, class: &str) -> WaitChains {
    let paths = paths_of(trace, None);
    class_of(&paths, class).chains.clone().expect("waits were followed")
}

const READ: &[&str] = &["consume", "read@libc.so.6", "pipe_read@[kernel]"];
const READ_TOO: &[&str] = &["filter", "read@libc.so.6", "pipe_read@[kernel]"];

/// 13 computes for 12, which computes for 11; 10 computes beside them, and two CPUs have nothing to do.
fn pipeline() -> Story {
    let mut s = Story::new(4);
    s.known = vec![11, 12, 13];
    for cpu in [2, 3] {
        s.switch(cpu, 1, 90 + cpu as i32, Sleeping, 0);
    }
    s.switch(0, 999, 10, RunnablePreempted, 0);
    s.switch(0, 999, 0, RunnablePreempted, 10);
    s.switch(1, 10, 11, Sleeping, 12);
    s.switch(1, 20, 12, Sleeping, 13);
    s.wake(1, 600, 13, 12, 1);
    s.switch(1, 620, 13, Sleeping, 12);
    s.wake(1, 700, 12, 11, 1);
    s.switch(1, 720, 12, Sleeping, 11);
    s
}

#[test]
fn a_pipeline_is_followed_to_the_one_that_computes() {
    let trace = sampled(
        pipeline().load(1000),
        &[
            (10, 500, SampleKind::OnCpu, &["main", "work"]),
            (11, 300, SampleKind::BlockedRead, READ),
            (12, 300, SampleKind::BlockedRead, READ_TOO),
            (12, 700, SampleKind::Waker, &["filter", "write@libc.so.6"]),
            (13, 300, SampleKind::OnCpu, &["produce", "compress"]),
            (13, 600, SampleKind::Waker, &["produce", "write@libc.so.6"]),
        ],
    );
    let chains = chains_of(&trace, "waiting_for_own_threads");
    // Two free CPUs: 11 waits 10..600 and 620..700 (600..620 12 had no CPU: another class), 12 waits 20..600.
    assert_eq!(
        rows(&chains),
        [
            row(0, "t11 waited", "read < consume", 670),
            row(1, "t12 waited", "read < filter", 580),
            row(2, "t13 ran", "compress < produce", 580),
            row(1, "t12 ran", "", 90),
            row(0, "t12 waited", "read < filter", 580),
            row(1, "t13 ran", "compress < produce", 580),
        ]
    );
    let of = |at: usize| &chains.nodes[at];
    assert_eq!((of(0).call, of(0).channel), ("read", "pipe"));
    // One wait of 690 in which 670 are of the class.
    assert_eq!((of(0).waits, of(0).waits_ns), (1, 690));
    assert_eq!(names(&of(2).woke), "write < produce");
    assert_eq!(names(&of(1).woke), "write < filter");
    assert_eq!((of(2).tid, of(2).process.as_str()), (Some(13), "t10"));
}

/// A range has its part of each chain.
#[test]
fn a_range_has_its_part_of_a_chain() {
    let samples: &[(i32, i64, SampleKind, &[&str])] = &[
        (11, 300, SampleKind::BlockedRead, READ),
        (13, 300, SampleKind::OnCpu, &["produce", "compress"]),
    ];
    let trace = sampled(pipeline().load(1000), samples);
    let paths = paths_of(&trace, Some(Time(100)..Time(200)));
    let chains = class_of(&paths, "waiting_for_own_threads").chains.clone();
    assert_eq!(
        rows(&chains.expect("waits were followed")),
        [
            row(0, "t11 waited", "read < consume", 100),
            row(1, "t12 waited", "", 100),
            row(2, "t13 ran", "compress < produce", 100),
            row(0, "t12 waited", "", 100),
            row(1, "t13 ran", "compress < produce", 100),
        ]
    );
}

/// 11 waits three times: for a time that it chose, for a packet, for another process. 10 waits for 11 all the time.
fn outside() -> Trace {
    let mut s = Story::new(2);
    s.known = vec![11];
    s.switch(0, 50, 10, Sleeping, 0);
    s.switch(1, 100, 11, Sleeping, 0);
    s.wake(1, 400, 0, 11, 1);
    s.switch(1, 400, 0, RunnablePreempted, 11);
    s.switch(1, 410, 11, Sleeping, 0);
    s.wake(1, 600, 0, 11, 1);
    s.switch(1, 600, 0, RunnablePreempted, 11);
    s.switch(1, 610, 11, Sleeping, 90);
    s.wake(1, 700, 90, 11, 1);
    s.switch(1, 700, 90, Sleeping, 11);
    s.wake(1, 990, 11, 10, 0);
    s.switch(0, 990, 0, RunnablePreempted, 10);
    let sleep: &[&str] = &["worker", "nap", "clock_nanosleep@libc.so.6"];
    let poll: &[&str] = &["worker", "serve", "epoll_wait@libc.so.6"];
    let receive: &[&str] =
        &["worker", "ask", "recv@libc.so.6", "unix_stream_read_generic@[kernel]"];
    sampled(
        s.load(1000),
        &[
            (10, 500, SampleKind::BlockedRead, &["main", "pthread_join@libc.so.6"]),
            (11, 200, SampleKind::BlockedRead, sleep),
            (11, 500, SampleKind::BlockedRead, poll),
            (11, 650, SampleKind::BlockedRead, receive),
        ],
    )
}

#[test]
fn sleep_by_choice_is_told_from_other_waits() {
    let trace = outside();
    let chains = chains_of(&trace, "external_wait");
    // Each CPU is charged to one of the two: CPU 0 to 11 while it waits, CPU 1 to 10.
    assert_eq!(
        rows(&chains),
        [
            row(0, "t10 waited", "pthread_join < main", 580),
            row(1, "t11 waited", "clock_nanosleep < nap < worker", 300),
            row(2, "timer", "", 300),
            row(1, "t11 waited", "epoll_wait < serve < worker", 190),
            row(2, "interrupt", "", 190),
            row(1, "t11 waited", "recv < ask < worker", 90),
            row(2, "other90 process", "", 90),
            row(0, "t11 waited", "clock_nanosleep < nap < worker", 300),
            row(1, "timer", "", 300),
            row(0, "t11 waited", "epoll_wait < serve < worker", 190),
            row(1, "interrupt", "", 190),
            row(0, "t11 waited", "recv < ask < worker", 90),
            row(1, "other90 process", "", 90),
        ]
    );
    let polls = &chains.nodes[3];
    assert_eq!((polls.call, polls.waits, polls.waits_ns), ("poll", 1, 190));
    let sleeps = &chains.nodes[1];
    assert_eq!((sleeps.call, sleeps.waits, sleeps.waits_ns), ("sleep", 1, 300));
}

/// What 10 does between its waits with a limit.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Between {
    Nothing,
    /// It waits somewhere else every other time.
    AnotherPlace,
    Work,
    /// It wakes 12, which goes to sleep again.
    WakesAnother,
    /// It asks for a sleep, not for a wait with a limit.
    Sleep,
    /// It works, and the path of its waits is that of one without a limit.
    NoLimit,
}

/// 10 waits with a limit of 1 ms, ten times, until 11 signals, which computes all the time.
fn limits(between: Between) -> Trace {
    const US: i64 = 1000;
    let mut s = Story::new(3);
    s.known = vec![11, 12];
    s.switch(1, 9_000 * US, 11, RunnablePreempted, 11);
    s.switch(2, 1, 12, Sleeping, 0);
    let works = matches!(between, Between::Work | Between::NoLimit);
    let runs = if works { 100 } else { 10 };
    let timed: &[&str] = &["main", "pthread_cond_timedwait@libc.so.6"];
    let other: &[&str] = &["main", "poll@libc.so.6"];
    let sleep: &[&str] = &["main", "clock_nanosleep@libc.so.6"];
    let mut samples = vec![(11, 500 * US, SampleKind::OnCpu, &["compress"][..])];
    for n in 0..10 {
        let (from, to) = ((n * 1000 + runs) * US, (n + 1) * 1000 * US);
        s.switch(0, from, 10, Sleeping, 0);
        let by = if n == 9 { 11 } else { 0 };
        s.wake(usize::from(n == 9), to, by, 10, 0);
        s.switch(0, to, 0, RunnablePreempted, 10);
        let path = match between {
            Between::AnotherPlace if n % 2 == 1 => other,
            Between::Sleep => sleep,
            Between::NoLimit => &["main", "sem_wait@libc.so.6"],
            _ => timed,
        };
        samples.push((10, (from + to) / 2, SampleKind::BlockedRead, path));
        if between == Between::WakesAnother {
            s.wake(0, to + US, 10, 12, 2);
            s.switch(2, to + 2 * US, 0, RunnablePreempted, 12);
            s.switch(2, to + 3 * US, 12, Sleeping, 0);
        }
    }
    samples.sort_by_key(|sample| (sample.0, sample.1));
    sampled(s.load(10_000 * US), &samples)
}

/// A timer cannot have ended a wait without a limit, whatever its path is taken to be.
#[test]
fn a_call_without_a_limit_has_no_time_limit() {
    let told = |between| {
        let s = summary(&limits(between), &Options::default());
        let causes = s.account.causes.into_iter();
        let timers = causes.filter(|c| ["time_limit", "interrupt"].contains(&c.note));
        timers.map(|c| (c.note, c.code)).collect::<Vec<_>>()
    };
    let limit = "pthread_cond_timedwait < main".to_owned();
    assert_eq!(told(Between::Work), [("time_limit", limit)]);
    assert_eq!(told(Between::NoLimit), [("interrupt", String::new())]);
}

/// Until it is signalled, 10 waits for 11, whatever the limit is; but where it does anything when its limit comes, that is what it
/// waited for.
#[test]
fn a_limit_that_is_armed_again_is_a_wait_for_whoever_signals() {
    let external = |between| {
        let trace = limits(between);
        let paths = paths_of(&trace, None);
        let classes = paths.classes.iter();
        classes.filter(|c| c.class == "external_wait").map(|c| c.ns).sum::<i64>()
    };
    assert_eq!(external(Between::Nothing), 0);
    // Naps after which it only looked are a wait, too: while 11 runs alone, for that.
    assert_eq!(external(Between::Sleep), 0);
    for between in [Between::AnotherPlace, Between::Work, Between::WakesAnother] {
        assert!(external(between) >= 7_000_000, "{between:?}");
    }
    let chains = chains_of(&limits(Between::Nothing), "low_parallelism");
    let of_main: Vec<&ChainNode> =
        (chains.nodes.iter()).filter(|node| node.thread == "t10" && node.depth == 0).collect();
    // 10 us before each of its ten waits it ran.
    let [main] = of_main[..] else { panic!("{chains:#?}") };
    assert_eq!((main.waits, main.waits_ns), (1, 9_990_000));
    let of_11 = |node: &&ChainNode| node.thread == "t11" && node.did == "ran";
    let signaller: i64 = chains.nodes.iter().filter(of_11).map(|node| node.ns).sum();
    assert!(signaller >= main.ns - main.rest_ns, "{chains:#?}");
}

/// Without privileges nobody knows who woke whom: a sleep is one by choice all the same, the rest is not known.
#[test]
fn without_wake_ups_only_a_sleep_has_a_reason() {
    let mut trace = outside();
    trace.info.kernel_source = "perf".into();
    trace.wakeups = kasuri_model::Wakeups::default();
    for state in &mut trace.states.state {
        if *state == ThreadState::RunnableWoken {
            *state = RunnablePreempted;
        }
    }
    let chains = chains_of(&trace, "external_wait");
    let ends: Vec<Row> = rows(&chains).into_iter().filter(|r| r.2.is_empty()).collect();
    assert!(ends.contains(&row(1, "timer", "", 300)), "{ends:?}");
    assert!(ends.iter().all(|r| ["timer", "unknown"].contains(&r.1.as_str())), "{ends:?}");
    assert!(ends.iter().any(|r| r.1 == "unknown"), "{ends:?}");
}

/// 11..=22 wait for the next one each, and 22 computes: eight waits are told, then `more`.
#[test]
fn long_chains_end_after_eight_waits() {
    let last = 22;
    // All of those who wait have a free CPU to be charged to.
    let mut s = Story::new(14);
    s.known = (11..=last).collect();
    for cpu in 2..14 {
        s.switch(cpu, 1, 90 + cpu as i32, Sleeping, 0);
    }
    s.switch(0, 999, 10, RunnablePreempted, 0);
    s.switch(0, 999, 0, RunnablePreempted, 10);
    for tid in 11..last {
        s.switch(1, i64::from(tid), tid, Sleeping, tid + 1);
    }
    for tid in (12..=last).rev() {
        let at = 500 + 10 * i64::from(last - tid);
        s.wake(1, at, tid, tid - 1, 1);
        s.switch(1, at, tid, Sleeping, tid - 1);
    }
    let mut samples: Vec<(i32, i64, SampleKind, &[&str])> = Vec::new();
    for tid in 11..last {
        samples.push((tid, 300, SampleKind::BlockedRead, READ));
    }
    samples.push((last, 300, SampleKind::OnCpu, &["compress"]));
    let chains = chains_of(&sampled(s.load(1000), &samples), "waiting_for_own_threads");
    let rows = rows(&chains);
    assert!(rows.iter().all(|r| r.0 <= 8), "{rows:?}");
    // From 22 (the last to begin) to 500, in which 22 computes.
    let ns = 500 - i64::from(last) + 1;
    for (depth, who) in [(0, "t11 waited"), (1, "t12 waited"), (7, "t18 waited"), (8, "more")] {
        let there = rows.iter().find(|r| (r.0, r.1.as_str()) == (depth, who));
        assert!(there.is_some_and(|r| r.3 >= ns), "{depth} {who}: {rows:?}");
    }
    // 14 is the first from whom eight waits lead to the end.
    assert!(rows.iter().any(|r| (r.0, r.1.as_str()) == (8, "t22 ran")), "{rows:?}");
}

/// One function reads from a pipe here and from a socket there: its node is said to wait at neither.
#[test]
fn a_node_that_waited_at_files_of_two_kinds_is_at_none() {
    let at = |kernel: &'static [&'static str]| -> &'static str {
        let mut s = Story::new(2);
        s.known = vec![11];
        s.switch(0, 50, 10, Sleeping, 0);
        s.switch(1, 60, 0, RunnablePreempted, 11);
        s.wake(1, 500, 11, 10, 0);
        s.switch(0, 500, 0, RunnablePreempted, 10);
        s.switch(0, 510, 10, Sleeping, 0);
        s.wake(1, 900, 11, 10, 0);
        s.switch(0, 900, 0, RunnablePreempted, 10);
        let paths: Vec<Vec<&str>> =
            kernel.iter().map(|inner| vec!["main", "take", "read@libc.so.6", inner]).collect();
        let samples = [
            (10, 300, SampleKind::BlockedRead, &*paths[0]),
            (10, 700, SampleKind::BlockedRead, &*paths[1]),
        ];
        let trace = sampled(s.load(1000), &samples);
        let chains = chains_of(&trace, "low_parallelism");
        let of_main = chains.nodes.iter().find(|n| n.depth == 0 && n.thread == "t10");
        of_main.map_or("no node", |node| node.channel)
    };
    assert_eq!(at(&["pipe_read@[kernel]", "pipe_read@[kernel]"]), "pipe");
    assert_eq!(at(&["pipe_read@[kernel]", "unix_stream_read_generic@[kernel]"]), "");
}
