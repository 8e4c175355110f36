//! Weights of samples: each rule of docs/design/call-paths.md, "Weights", by hand; and sums of random traces.
use super::scene::Scene;
use ThreadState::{DiskSleep, RunnablePreempted, RunnableWoken, Running, Sleeping};
use kasuri_analyze::Session;
use kasuri_analyze::call_paths::{FlameOptions, Weights, flame, weigh};
use kasuri_model::{Duration, SampleKind, ThreadIx, ThreadState, Time, Trace};
use proptest::prelude::*;

const MS: i64 = 1_000_000;

/// Weights in ms.
/// The whole recording.
fn session(trace: &Trace) -> Session<'_> {
    Session::new(trace, &Default::default())
}

fn ms(weights: &Weights) -> Vec<f64> {
    weights.sample.iter().map(|w| w.ns() as f64 * 1e-6).collect()
}

#[test]
fn an_instant_on_a_cpu_belongs_to_the_nearest_sample_by_cpu_time() {
    let mut s = Scene::new(100 * MS);
    // Runs 0..10, sleeps 10..90, runs 90..100: 20 ms of CPU time. Samples at 4 ms and 94 ms stand at 4 and 14 of its own
    // time, so that the border is at 9: 9 ms for the first, 11 for the second. The sleep does not part them.
    s.period(10 * MS as u64);
    let t = s.thread(&[(0, Running), (10 * MS, Sleeping), (90 * MS, Running)]);
    s.sample(t, 4 * MS, SampleKind::OnCpu, &["main", "a"]);
    s.sample(t, 94 * MS, SampleKind::OnCpu, &["main", "b"]);
    let trace = s.done();
    let weights = weigh(&trace);
    assert_eq!(ms(&weights), [9.0, 11.0]);
    assert_eq!(weights.unsampled[0].on_cpu, Duration::ZERO);
    assert_eq!(weights.unsampled[0].blocked, Duration(80 * MS));
    assert_eq!(weights.misfits, 0);
    // Of 5..95 the border gives 5..9 and, but for the sleep, 9..95.
    let part = session(&trace).cover().weights(&trace, Time(5 * MS)..Time(95 * MS));
    assert_eq!(ms(&part), [4.0, 6.0]);
}

#[test]
fn a_sample_reaches_four_periods() {
    let mut s = Scene::new(100 * MS);
    s.period(MS as u64);
    let t = s.thread(&[(0, Running)]);
    s.sample(t, 50 * MS, SampleKind::OnCpu, &["main"]);
    let weights = weigh(&s.done());
    assert_eq!(ms(&weights), [8.0]);
    assert_eq!(weights.unsampled[0].on_cpu, Duration(92 * MS));
}

/// No period is known: samples 2, 2 and 20 ms apart have a median distance of 2 ms.
#[test]
fn without_a_period_the_median_distance_is_one() {
    let mut s = Scene::new(100 * MS);
    let t = s.thread(&[(0, Running)]);
    for at in [10, 12, 14, 34] {
        s.sample(t, at * MS, SampleKind::OnCpu, &["main"]);
    }
    let weights = weigh(&s.done());
    // 2..11, 11..13, 13..22 (14 reaches to 22), 26..42.
    assert_eq!(ms(&weights), [9.0, 2.0, 9.0, 16.0]);
    assert_eq!(weights.unsampled[0].on_cpu, Duration(64 * MS));
}

#[test]
fn a_sample_just_beside_a_run_is_of_it_and_another_is_counted() {
    let mut s = Scene::new(100 * MS);
    s.period(100 * MS as u64);
    let t = s.thread(&[
        (0, Running),
        (10 * MS, RunnablePreempted),
        (20 * MS, Running),
        (30 * MS, Sleeping),
    ]);
    // 40 us after the run's end: its end, 10 ms of its own time. 4 ms after: nowhere. 10 us before the second run: its start,
    // which is the same place of its own time.
    s.sample(t, 10 * MS + 40_000, SampleKind::OnCpu, &["main"]);
    s.sample(t, 14 * MS, SampleKind::OnCpu, &["main"]);
    s.sample(t, 20 * MS - 10_000, SampleKind::OnCpu, &["main"]);
    let weights = weigh(&s.done());
    assert_eq!(ms(&weights), [10.0, 0.0, 10.0]);
    assert_eq!(weights.misfits, 1);
}

#[test]
fn a_block_belongs_to_the_sample_that_was_taken_in_it() {
    let mut s = Scene::new(100 * MS);
    let t = s.thread(&[
        (0, Running),
        (10 * MS, Sleeping),
        (40 * MS, RunnableWoken),
        (50 * MS, Running),
        (60 * MS, DiskSleep),
        (80 * MS, Running),
    ]);
    // Read in the middle of the first block; read while the thread was ready: no block's; taken at the switch to the second
    // block, as another clock has it.
    s.sample(t, 25 * MS, SampleKind::BlockedRead, &["main", "read"]);
    s.sample(t, 45 * MS, SampleKind::BlockedRead, &["main", "wrong"]);
    s.sample(t, 60 * MS - 3_000, SampleKind::Blocked, &["main", "write"]);
    let weights = weigh(&s.done());
    assert_eq!(ms(&weights), [30.0, 0.0, 20.0]);
    assert_eq!(weights.unsampled[0].blocked, Duration::ZERO);
    assert_eq!(weights.unsampled[0].on_cpu, Duration(40 * MS));
    assert_eq!((weights.misfits, weights.estimated), (1, Duration::ZERO));
}

#[test]
fn of_two_samples_of_one_block_the_complete_one_counts() {
    let mut s = Scene::new(100 * MS);
    let t = s.thread(&[(0, Running), (10 * MS, Sleeping)]);
    s.sample(t, 10 * MS, SampleKind::Blocked, &[]);
    s.sample(t, 20 * MS, SampleKind::BlockedRead, &["main", "read"]);
    s.sample(t, 30 * MS, SampleKind::BlockedRead, &["main", "read"]);
    assert_eq!(ms(&weigh(&s.done())), [0.0, 90.0, 0.0]);
}

#[test]
fn a_lock_wait_is_the_block_that_follows_at_once() {
    let mut s = Scene::new(100 * MS);
    let t = s.thread(&[(0, Running), (10 * MS, Sleeping), (20 * MS, Running), (40 * MS, Sleeping)]);
    // 0.5 ms of spinning before the first; before the second, 15 ms of other code.
    s.sample(t, 10 * MS - MS / 2, SampleKind::LockWait, &["main", "lock"]);
    s.sample(t, 25 * MS, SampleKind::LockWait, &["main", "lock"]);
    let weights = weigh(&s.done());
    assert_eq!(ms(&weights), [10.0, 0.0]);
    assert_eq!(weights.misfits, 1);
}

#[test]
fn a_short_block_without_a_sample_takes_the_path_of_one_like_it() {
    let mut s = Scene::new(10_000 * MS);
    let t = s.thread(&[
        (0, Running),
        (10 * MS, Sleeping), // sampled, 5 ms
        (15 * MS, Running),
        (20 * MS, Sleeping), // as long, to within a power of two: estimated
        (26 * MS, Running),
        (30 * MS, Sleeping), // twice as long and more: not known
        (45 * MS, Running),
        (50 * MS, DiskSleep), // another state: not known
        (55 * MS, Running),
        (5_000 * MS, Sleeping), // too late: not known
        (5_005 * MS, Running),
    ]);
    s.sample(t, 10 * MS, SampleKind::Blocked, &["main", "wait"]);
    let weights = weigh(&s.done());
    assert_eq!(ms(&weights), [5.0 + 6.0]);
    assert_eq!(weights.estimated, Duration(6 * MS));
    assert_eq!(weights.unsampled[0].blocked, Duration((15 + 5 + 5) * MS));
}

/// What a thread did before it replaced its program has no sample of what came after, nor the other way round.
#[test]
fn no_sample_stands_for_another_program_of_its_thread() {
    let mut s = Scene::new(100 * MS);
    s.period(20 * MS as u64);
    let t = s.thread(&[
        (0, Running),
        (10 * MS, Sleeping), // not sampled, as long as the others
        (15 * MS, Running),  // replaces its program after 5 ms
        (30 * MS, Sleeping), // sampled
        (35 * MS, Running),  // sampled
        (50 * MS, Sleeping), // of the same program: estimated
        (55 * MS, Running),  // the last of its programs, from the first moment
    ]);
    s.sample(t, 30 * MS, SampleKind::Blocked, &["main", "wait"]);
    s.sample(t, 40 * MS, SampleKind::OnCpu, &["main", "work"]);
    let mut trace = s.done();
    let before = weigh(&trace);
    assert_eq!(ms(&before), [15.0, 85.0]);
    for at in [20, 55] {
        trace.execs.thread.push(t);
        trace.execs.time.push(Time(at * MS));
    }
    let weights = weigh(&trace);
    assert_eq!(ms(&weights), [5.0 + 5.0, 10.0 + 15.0]);
    assert_eq!(weights.estimated, Duration(5 * MS));
    assert_eq!(weights.unsampled[0].blocked, Duration(5 * MS));
    assert_eq!(weights.unsampled[0].on_cpu, Duration((10 + 5 + 45) * MS));
}

/// Two kinds of waits of 2 us by turns, 10 us apart. Samples are taken in short times in turn, and lengthen the blocks that they show.
#[test]
fn in_a_storm_of_waits_each_kind_has_its_share() {
    const EACH: i64 = 10_000;
    let (n, burst) = (60_000, 100);
    let is_sampled = |at: i64| at % 20_000 < burst;
    let mut states = vec![(0, Running)];
    for at in 0..n {
        let length = if is_sampled(at) { 5_000 } else { 2_000 };
        states.push((at * EACH + 1000, Sleeping));
        states.push((at * EACH + 1000 + length, Running));
    }
    let mut s = Scene::new(n * EACH);
    let t = s.thread(&states);
    for at in (0..n).filter(|&at| is_sampled(at)) {
        let path = ["main", if at % 3 == 0 { "read" } else { "write" }];
        s.sample(t, at * EACH + 1500, SampleKind::Blocked, &path);
    }
    let weights = weigh(&s.done());
    assert_eq!(weights.unsampled[0].blocked, Duration::ZERO);
    let sampled = 3 * burst * 5_000;
    assert_eq!(weights.estimated, Duration(n * 2_000 - 3 * burst * 2_000));
    let all = sampled + weights.estimated.ns();
    let nth = (0..n).filter(|&at| is_sampled(at)).zip(&weights.sample);
    let reads: i64 = nth.filter(|(at, _)| at % 3 == 0).map(|(_, w)| w.ns()).sum();
    let share = reads as f64 / all as f64;
    assert!((share - 1.0 / 3.0).abs() < 0.01, "{share}");
}

/// Readings from outside find long blocks, so they say nothing of blocks that they did not find.
#[test]
fn a_reading_is_of_its_own_block_only() {
    let mut s = Scene::new(100 * MS);
    let t = s.thread(&[
        (0, Running),
        (10 * MS, Sleeping),
        (20 * MS, Running),
        (30 * MS, Sleeping),
        (40 * MS, Running),
    ]);
    s.sample(t, 15 * MS, SampleKind::BlockedRead, &["main", "wait"]);
    let weights = weigh(&s.done());
    assert_eq!(ms(&weights), [10.0]);
    assert_eq!(weights.unsampled[0].blocked, Duration(10 * MS));
}

#[test]
fn a_period_changes_and_a_source_ends() {
    let mut s = Scene::new(1_000 * MS);
    s.period(MS as u64);
    let mut row = s.trace.sampling[0].clone();
    (row.time, row.period_ns) = (Time(500 * MS), 10 * MS as u64);
    s.trace.sampling.push(row);
    let t = s.thread(&[(0, Running)]);
    s.sample(t, 100 * MS, SampleKind::OnCpu, &["main"]);
    s.sample(t, 600 * MS, SampleKind::OnCpu, &["main"]);
    assert_eq!(ms(&weigh(&s.done())), [8.0, 80.0]);
}

/// Ten threads one after the other, 1 ms each, as a server starts one for each request; a sample comes each 4 ms of CPU time.
#[test]
fn short_threads_of_one_name_are_sampled_together() {
    let mut s = Scene::new(5_000 * MS);
    s.period(4 * MS as u64);
    let mut worker = |at: i64, length: i64, name: &str| {
        let t = s.thread(&[(at, Running), (at + length, Sleeping)]);
        s.name(t, name);
        t
    };
    let workers: Vec<ThreadIx> = (0..10).map(|nth| worker(nth * 2 * MS, MS, "worker")).collect();
    let other = worker(3 * MS, MS, "other");
    let long = worker(100 * MS, 200 * MS, "worker");
    let late = worker(1_500 * MS, MS, "worker");
    // In the middle of the third and of the ninth worker: places 2.5 and 8.5 of 10 ms, so that the border is at 5.5.
    s.sample(workers[2], 4 * MS + MS / 2, SampleKind::OnCpu, &["main", "a"]);
    s.sample(workers[8], 16 * MS + MS / 2, SampleKind::OnCpu, &["main", "b"]);
    let trace = s.done();
    let session = session(&trace);
    let cover = session.cover();
    let weights = weigh(&trace);
    assert_eq!(ms(&weights), [5.5, 4.5]);
    // 8 of the 10 ms were taken from other threads.
    assert_eq!(weights.estimated, Duration(8 * MS));
    let sixth: Vec<_> = cover.between(workers[5], Time(10 * MS), Time(11 * MS)).collect();
    assert_eq!(
        sixth.iter().map(|(owner, _)| owner.sample()).collect::<Vec<_>>(),
        [Some(0), Some(1)]
    );
    for (thread, ms) in [(workers[0], 0), (other, 1), (long, 200), (late, 1)] {
        assert_eq!(weights.unsampled[thread.ix()].on_cpu, Duration(ms * MS), "{thread:?}");
    }
}

/// Threads of 2.5 periods that begin and end with functions of 0.3 periods each: these have 12 % of the time, and of the samples.
#[test]
fn what_short_threads_begin_and_end_with_has_its_share() {
    let mut s = Scene::new(5_000 * MS);
    s.period(MS as u64);
    for nth in 0..1_000 {
        let begin = nth * 4 * MS;
        let t = s.thread(&[(begin, Running), (begin + 2_500_000, Sleeping)]);
        // A clock that is in step with nothing.
        let mut at = nth * 618_034 % MS;
        while at < 2_500_000 {
            let function = match at {
                ..300_000 => "begin",
                2_200_000.. => "end",
                _ => "middle",
            };
            s.sample(t, begin + at, SampleKind::OnCpu, &["main", function]);
            at += MS;
        }
    }
    let flame = flame(&s.done(), &FlameOptions::default());
    for (function, share) in [("begin", 0.12), ("middle", 0.76), ("end", 0.12)] {
        let nodes = flame.nodes.iter();
        let node = nodes.filter(|node| node.frame.function == function);
        let found = node.map(|node| node.ns).sum::<i64>() as f64 / flame.ns as f64;
        assert!((found - share).abs() < 0.005, "{function}: {found}");
    }
}

/// A random thread: states of random lengths, and samples at random times.
type Life = (Vec<(i64, ThreadState)>, Vec<(i64, SampleKind, bool)>);

fn life() -> impl Strategy<Value = Life> {
    let state = prop::sample::select(vec![
        Running,
        Running,
        RunnablePreempted,
        RunnableWoken,
        Sleeping,
        Sleeping,
        DiskSleep,
        ThreadState::Unknown,
    ]);
    let length = prop_oneof![0i64..3, 1_000i64..100_000, 1i64..50 * MS];
    let kind = prop::sample::select(vec![
        SampleKind::OnCpu,
        SampleKind::OnCpu,
        SampleKind::Blocked,
        SampleKind::BlockedRead,
        SampleKind::LockWait,
        SampleKind::Waker,
    ]);
    let time = prop_oneof![8 => -MS..400 * MS, 1 => any::<i64>().prop_map(|ns| ns % (1 << 56))];
    (
        prop::collection::vec((length, state), 1..40),
        prop::collection::vec((time, kind, any::<bool>()), 0..60),
    )
        .prop_map(|(states, mut samples)| {
            let mut at = 0;
            let mut rows: Vec<(i64, ThreadState)> = Vec::new();
            for (length, state) in states {
                if rows.last().is_none_or(|row| at > row.0) {
                    rows.push((at, state));
                }
                at += length;
            }
            samples.sort_by_key(|s| s.0);
            (rows, samples)
        })
}

/// `is_one_name`: all threads have one name, else each its own.
fn random(lives: &[Life], period: Option<u64>, is_one_name: bool) -> Trace {
    let mut s = Scene::new(2_500 * MS);
    if let Some(ns) = period {
        s.period(ns);
    }
    let threads: Vec<ThreadIx> = lives.iter().map(|(states, _)| s.thread(states)).collect();
    for thread in threads.iter().filter(|_| !is_one_name) {
        s.name(*thread, &thread.ix().to_string());
    }
    for (&thread, (_, samples)) in threads.iter().zip(lives) {
        for &(time, kind, has_path) in samples {
            let path: &[&str] = if has_path { &["main", "f"] } else { &[] };
            s.sample(thread, time, kind, path);
        }
    }
    s.done()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn weights_add_up_to_the_time_that_the_scheduler_tells(
        lives in prop::collection::vec(life(), 1..4), period in any::<Option<u32>>(), cut in 0i64..2_500 * MS,
        is_one_name in any::<bool>(),
    ) {
        let trace = random(&lives, period.map(u64::from), is_one_name);
        let session = session(&trace);
        let cover = session.cover();
        let whole = weigh(&trace);
        let parts = [Time(0)..Time(cut), Time(cut)..trace.span.end].map(|range| cover.weights(&trace, range));
        for row in 0..trace.samples.time.len() {
            prop_assert_eq!(parts[0].sample[row] + parts[1].sample[row], whole.sample[row]);
            prop_assert!(whole.sample[row] >= Duration::ZERO);
        }
        // On a CPU, short threads of one name answer together.
        let mut over = 0;
        for thread in 0..trace.threads.len() {
            let thread = ThreadIx(thread as u32);
            let time = |is: fn(ThreadState) -> bool| -> i64 {
                trace.states_of(thread).filter(|r| is(r.state)).map(|r| (r.end - r.start).ns()).sum()
            };
            let weight = |is: fn(SampleKind) -> bool| -> i64 {
                trace.samples_of(thread).filter(|&row| is(trace.samples.kind[row])).map(|row| whole.sample[row].ns()).sum()
            };
            let unsampled = whole.unsampled[thread.ix()];
            over += weight(|k| k == SampleKind::OnCpu) + unsampled.on_cpu.ns() - time(|s| s == Running);
            prop_assert!(is_one_name || over == 0);
            prop_assert_eq!(weight(SampleKind::is_wait) + unsampled.blocked.ns(), time(ThreadState::is_blocked));
            prop_assert_eq!(weight(|k| k == SampleKind::Waker), 0);
        }
        prop_assert_eq!(over, 0);
    }
}
