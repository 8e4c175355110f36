//! The code behind each class of the account, worked out by hand.
use super::scene::Scene;
use crate::account::story::{BARRIER, Story};
use ThreadState::{RunnablePreempted, Sleeping};
use kasuri_analyze::account::{AccountSummary, CauseSummary, Class};
use kasuri_analyze::call_paths::{
    CallPathSummary, ClassPaths, FlameNode, FlameOptions, HotPath, PathShares, flame,
};
use kasuri_analyze::{Options, summary};
use kasuri_model::{SampleKind, ThreadIx, ThreadState, Time, Trace};
use std::ops::Range;

/// (function < its callers, ns, of which waited).
type Row = (String, i64, i64);

fn rows(shares: &PathShares) -> Vec<Row> {
    let text = |path: &kasuri_analyze::call_paths::HotPath| {
        let names: Vec<&str> = path.frames.iter().map(|f| f.function.as_str()).collect();
        names.join(" < ")
    };
    let rows = shares.paths.iter();
    rows.map(|p| (text(p), p.ns, p.waited_ns)).collect()
}

fn row(text: &str, ns: i64, waited: i64) -> Row {
    (text.into(), ns, waited)
}

fn thread(trace: &Trace, tid: i32) -> ThreadIx {
    let at = trace.threads.iter().position(|t| t.tid == tid);
    ThreadIx(at.expect("it is in the story") as u32)
}

/// The trace with samples (tid, time, kind, path), each thread's in order.
pub fn sampled(trace: Trace, samples: &[(i32, i64, SampleKind, &[&str])]) -> Trace {
    let mut scene = Scene { trace };
    scene.period(1_000);
    let mut samples = samples.to_vec();
    samples.sort_by_key(|s| (thread(&scene.trace, s.0), s.1));
    for (tid, time, kind, path) in samples {
        let thread = thread(&scene.trace, tid);
        scene.sample(thread, time, kind, path);
    }
    scene.done()
}

pub fn paths_of(trace: &Trace, range: Option<Range<Time>>) -> CallPathSummary {
    let options = Options { range, ..Options::default() };
    let s = summary(trace, &options);
    let paths = s.call_paths.expect("it has samples");
    for class in &paths.classes {
        let in_account = s.account.classes.iter().find(|c| c.class == class.class);
        let tracing = s.account.classes.iter().find(|c| c.class == "tracing");
        let tracing = tracing.filter(|_| class.class == "work").map_or(0, |c| c.ns);
        assert_eq!(in_account.map(|c| c.ns + tracing), Some(class.ns), "{}", class.class);
    }
    paths
}

pub fn class_of<'a>(paths: &'a CallPathSummary, key: &str) -> &'a ClassPaths {
    let class = paths.classes.iter().find(|c| c.class == key);
    class.unwrap_or_else(|| panic!("{key} in {:?}", paths.classes))
}

fn class<'a>(paths: &'a CallPathSummary, key: &str) -> (&'a PathShares, Option<&'a PathShares>) {
    let class = class_of(paths, key);
    (&class.paths, class.meanwhile.as_ref())
}

/// (depth, function, ns, own ns).
fn tree(trace: &Trace, options: &FlameOptions) -> Vec<(u32, String, i64, i64)> {
    let flame = flame(trace, options);
    let roots = flame.nodes.iter().filter(|node| node.depth == 0);
    let sampled: i64 = roots.map(|node| node.ns).sum();
    let own: i64 = flame.nodes.iter().map(|node| node.self_ns).sum();
    assert_eq!(sampled, own);
    let others = flame.unsampled_ns + flame.without_code_ns;
    assert_eq!(sampled + others, flame.ns);
    let row = |n: &FlameNode| (n.depth, n.frame.function.clone(), n.ns, n.self_ns);
    flame.nodes.iter().map(row).collect()
}

#[test]
fn a_tree_has_each_function_below_its_callers() {
    let trace = imbalance();
    let row = |depth, name: &str, ns, own| (depth, name.to_string(), ns, own);
    // 1800 on a CPU: 10 runs main < a for 600, 11 a for 500 and b for 700.
    assert_eq!(
        tree(&trace, &FlameOptions::default()),
        [
            row(0, "start_thread", 1200, 0),
            row(1, "worker", 1200, 0),
            row(2, "b", 700, 700),
            row(2, "a", 500, 500),
            row(0, "main", 600, 0),
            row(1, "a", 600, 600),
        ]
    );
    let inverted = FlameOptions { inverted: true, ..FlameOptions::default() };
    let first: Vec<_> = tree(&trace, &inverted).into_iter().take(2).collect();
    assert_eq!(first, [row(0, "a", 1100, 1100), row(1, "main", 600, 0)]);
    let thread = FlameOptions { tid: Some(10), ..FlameOptions::default() };
    assert_eq!(tree(&trace, &thread), [row(0, "main", 600, 0), row(1, "a", 600, 600)]);
    // The class's time in the account, and what explains it.
    let class = FlameOptions { class: Some(Class::LoadImbalance), ..FlameOptions::default() };
    assert_eq!(flame(&trace, &class).ns, 601);
    assert_eq!(tree(&trace, &class)[2], row(2, "b", 501, 501));
    // All of it is explained by the late thread, in each part of the range.
    let of = |tid, range: Option<std::ops::Range<i64>>| {
        let options =
            Options { range: range.map(|r| Time(r.start)..Time(r.end)), ..Options::default() };
        let options = FlameOptions { options, tid, ..class.clone() };
        flame(&trace, &options).ns
    };
    assert_eq!([of(Some(10), None), of(Some(11), None)], [0, 601]);
    let parts = [of(Some(11), Some(0..700)), of(Some(11), Some(700..1200))];
    assert_eq!((parts.iter().sum::<i64>(), of(Some(10), Some(0..700))), (601, 0));
    assert!(parts[0] > 0 && parts[1] > 0, "{parts:?}");
    // 10 was blocked for 600 at the barrier, and nobody knows in which call.
    let blocked = FlameOptions { blocked: true, tid: Some(10), ..FlameOptions::default() };
    let waited = flame(&trace, &blocked);
    assert_eq!((waited.ns, waited.blocked), (600, true));
}

/// 10 works 0..400, waits at a barrier 400..1000 for 11, which works to 1000 and is in the barrier itself for 1 ns.
fn imbalance() -> Trace {
    let mut s = Story::new(2);
    s.known = vec![11];
    s.switch(0, 400, 10, Sleeping, 0);
    s.switch(0, 1000, 0, RunnablePreempted, 10);
    s.wake(1, 1000, 11, 10, 0);
    s.switch(1, 1199, 11, RunnablePreempted, 0);
    s.switch(1, 1199, 0, RunnablePreempted, 11);
    s.wait(10, 400, 1000, BARRIER, "sync");
    s.wait(11, 1000, 1001, BARRIER, "sync");
    // 11's own time is the clock's: the border between `a` and `b` is at 500.
    sampled(
        s.load(1200),
        &[
            (10, 100, SampleKind::OnCpu, &["main", "a"]),
            (10, 600, SampleKind::BlockedRead, &["main", "barrier", "futex@libc.so.6"]),
            (11, 200, SampleKind::OnCpu, &["start_thread@libc.so.6", "worker", "a"]),
            (11, 800, SampleKind::OnCpu, &["start_thread@libc.so.6", "worker", "b"]),
        ],
    )
}

#[test]
fn imbalance_is_what_the_late_thread_ran() {
    let paths = paths_of(&imbalance(), None);
    let (late, others) = class(&paths, "load_imbalance");
    // 400..500 `a`, 500..1000 and 1000..1001 `b`.
    assert_eq!(rows(late), [row("b < worker", 501, 0), row("a < worker", 100, 0)]);
    assert_eq!(
        rows(others.unwrap()),
        [row("futex < barrier < main", 600, 600), row("b < worker", 1, 0)]
    );
    // 10: 0..400 and 1000..1200. 11: 0..500, then 500..1000 and 1001..1200. Neither caller of `a` has nearly all of it.
    let (work, _) = class(&paths, "work");
    assert_eq!(rows(work), [row("a", 1100, 0), row("b < worker", 699, 0)]);
    let callers = work.paths[0].callers.iter();
    let callers: Vec<_> = callers.map(|c| (c.frame.function.as_str(), c.ns)).collect();
    assert_eq!(callers, [("main", 600), ("worker", 500)]);
    assert_eq!((paths.on_cpu.ns, paths.on_cpu.complete_ns), (1800, 1800));
    assert_eq!((paths.blocked.ns, paths.blocked.unsampled_ns), (600, 0));
}

#[test]
fn a_range_has_its_part() {
    let paths = paths_of(&imbalance(), Some(Time(450)..Time(600)));
    let (late, others) = class(&paths, "load_imbalance");
    assert_eq!(rows(late), [row("b < worker", 100, 0), row("a < worker", 50, 0)]);
    assert_eq!(rows(others.unwrap()), [row("futex < barrier < main", 150, 150)]);
}

/// 10 holds `queue` 100..700; 11 asks for it at 200, spins to 300, sleeps to 700, runs at 710, has it at 720.
fn lock_wait() -> Trace {
    let mut s = Story::new(2);
    s.known = vec![11];
    s.switch(1, 300, 11, Sleeping, 0);
    s.wake(0, 700, 10, 11, 1);
    s.switch(1, 710, 0, RunnablePreempted, 11);
    s.switch(0, 990, 10, Sleeping, 0);
    s.lock(10, 100, 100, 700, "queue");
    s.lock(11, 200, 720, 800, "queue");
    s.load(1000)
}

#[test]
fn a_lock_wait_is_where_it_asks_and_what_the_holder_does() {
    let trace = sampled(
        lock_wait(),
        &[
            (10, 150, SampleKind::OnCpu, &["main", "flush", "compress"]),
            (10, 550, SampleKind::OnCpu, &["main", "flush", "write@libc.so.6"]),
            (11, 250, SampleKind::OnCpu, &["worker", "push"]),
            (11, 500, SampleKind::BlockedRead, &["worker", "push", "lock@libc.so.6"]),
        ],
    );
    let paths = paths_of(&trace, None);
    let (asks, holder) = class(&paths, "lock_wait");
    // Asleep 300..700; spinning 200..300 and 710..720.
    assert_eq!(rows(asks), [row("lock < push < worker", 400, 400), row("push < worker", 110, 0)]);
    // 10 ran `compress` to 350 and `write` after; when 11 spins at 710, nobody holds the lock.
    let holder = holder.unwrap();
    assert_eq!(
        rows(holder),
        [row("write < flush < main", 350, 0), row("compress < flush < main", 150, 0)]
    );
    assert_eq!((holder.without_code_ns, holder.unsampled_ns), (10, 0));
}

/// What an interpreter does for a function of its language is that function's; what that one calls in another library, or in the C
/// library, is not, nor is a wait for Python's GIL, which is of the function that asks for it.
#[test]
fn an_interpreter_s_own_functions_are_those_that_it_runs() {
    let shown = |inner: &[&str]| {
        let mut s = Story::new(2);
        s.known = vec![11];
        s.switch(0, 400, 10, Sleeping, 0);
        s.wake(1, 800, 11, 10, 0);
        s.switch(0, 800, 0, RunnablePreempted, 10);
        let begin = ["run_mod@libpython3.so", "py::work@[python]", "py::count@[python]"];
        let path = [&begin, inner].concat();
        let kind = match inner.last() {
            Some(name) if name.starts_with("pthread") => SampleKind::BlockedRead,
            _ => SampleKind::OnCpu,
        };
        let time = if kind.is_wait() { 600 } else { 200 };
        let class = if kind.is_wait() { "lock_wait" } else { "work" };
        let paths = paths_of(&sampled(s.load(1000), &[(10, time, kind, &path)]), None);
        rows(&class_of(&paths, class).paths)[0].0.clone()
    };
    let own = "long_rem@libpython3.so";
    let wait = "pthread_cond_timedwait@libc.so.6";
    let gil = [own, "take_gil@libpython3.so", "PyCOND_TIMEDWAIT@libpython3.so", wait];
    for (inner, path) in [
        (&[][..], "py::count < py::work"),
        (&[own], "py::count < py::work"),
        (&[own, "memcpy@libc.so.6"], "memcpy < py::count < py::work"),
        (&[own, "sort@fast.so"], "sort < long_rem < py::count < py::work"),
        (&["sort@fast.so", own], "sort < py::count < py::work"),
        (&gil, "take_gil < py::count < py::work"),
    ] {
        assert_eq!(shown(inner), path);
    }
}

/// What is known of all that the program's code can explain: (named, [(module, ns)], [(reason, threads, ns)]).
type Known = (i64, Vec<(String, i64)>, Vec<(&'static str, u64, i64)>);

fn known(trace: &Trace) -> Known {
    let known = paths_of(trace, None).explained;
    let nameless = known.nameless.into_iter().map(|n| (n.module, n.ns));
    let unsampled = known.unsampled.into_iter();
    (known.named_ns, nameless.collect(), unsampled.map(|u| (u.reason, u.threads, u.ns)).collect())
}

/// 10 runs to the end; 11 runs 0..100 and sleeps until 10 wakes it, then runs `rest` ns; nothing of it is sampled.
fn unsampled(wait: i64, rest: i64) -> Trace {
    let mut s = Story::new(2);
    s.known = vec![11];
    s.switch(1, 100, 11, Sleeping, 0);
    s.wake(0, 100 + wait, 10, 11, 1);
    s.switch(1, 100 + wait, 0, RunnablePreempted, 11);
    let end = 100 + wait + rest;
    s.switch(1, end, 11, Sleeping, 0);
    // A period of 1,000 ns reaches over 4,000 on either side of a sample.
    let ns = |n: i64| (n, SampleKind::OnCpu);
    let times = (0..end).step_by(4_000).map(ns);
    let rows: Vec<(i32, i64, SampleKind, &[&str])> =
        times.map(|(time, kind)| (10, time, kind, &["main", "work"][..])).collect();
    sampled(s.load(end), &rows)
}

#[test]
fn time_without_a_sample_has_a_reason() {
    // 10 is sampled throughout. 11 ran for less than two periods.
    let (_, nameless, reasons) = known(&unsampled(10_000, 800));
    assert_eq!((nameless, reasons.len()), (Vec::new(), 1), "{reasons:?}");
    assert_eq!(reasons[0].0, "short_thread");
    // It ran for longer, and nobody knows why there is no sample.
    let (_, _, reasons) = known(&unsampled(10_000, 9_000));
    assert!(reasons.contains(&("other", 1, 9_100)), "{reasons:?}");
}

#[test]
fn a_function_without_a_name_is_told_by_its_module() {
    let trace = sampled(
        imbalance_alone(),
        &[
            (10, 100, SampleKind::OnCpu, &["main", "@/usr/lib/libz.so.1"]),
            (10, 900, SampleKind::OnCpu, &["main", "work"]),
        ],
    );
    let (named, nameless, reasons) = known(&trace);
    assert_eq!((named, reasons), (500, Vec::new()));
    assert_eq!(nameless, [("libz.so.1".to_owned(), 500)]);
}

/// 10 alone on one CPU, 0..1000.
fn imbalance_alone() -> Trace {
    let mut s = Story::new(1);
    s.switch(0, 1000, 10, Sleeping, 0);
    s.load(1000)
}

/// 11 sleeps 100..900, until 10 wakes it; 10 alone runs: a serial phase.
#[test]
fn a_serial_phase_is_what_the_one_thread_ran_and_where_the_others_waited() {
    let mut s = Story::new(2);
    s.known = vec![11];
    s.switch(1, 100, 11, Sleeping, 0);
    s.wake(0, 900, 10, 11, 1);
    s.switch(1, 900, 0, RunnablePreempted, 11);
    s.switch(0, 999, 10, Sleeping, 0);
    let trace = sampled(
        s.load(1000),
        &[
            (10, 500, SampleKind::OnCpu, &["main", "assemble"]),
            (11, 500, SampleKind::BlockedRead, &["worker", "pool_wait", "cond@libc.so.6"]),
        ],
    );
    let (serial, others) = {
        let paths = paths_of(&trace, None);
        let (a, b) = class(&paths, "low_parallelism");
        (rows(a), rows(b.unwrap()))
    };
    // 100..900 on CPU 1; the last ns, in which 10 sleeps for good while 11 runs alone: 11 has no on-CPU sample, 10 none there.
    assert_eq!(serial, [row("assemble < main", 800, 0)]);
    assert_eq!(others, [row("cond < pool_wait < worker", 800, 800)]);
}

/// The same, with a short wait: only the wake-up at its end was sampled. A moment does not stand for what was long before it.
#[test]
fn a_short_wait_for_an_own_thread_shows_where_it_was_ended() {
    for (ns, is_known) in [(900, true), (2_000_000, false)] {
        let mut s = Story::new(3);
        s.known = vec![11, 12];
        s.switch(1, 100, 11, Sleeping, 0);
        s.wake(0, ns, 10, 11, 1);
        s.switch(1, ns, 0, RunnablePreempted, 11);
        s.switch(0, ns + 99, 10, RunnablePreempted, 0);
        s.switch(0, ns + 99, 0, RunnablePreempted, 10);
        s.switch(2, ns + 99, 12, RunnablePreempted, 0);
        s.switch(2, ns + 99, 0, RunnablePreempted, 12);
        let pop: &[&str] = &["worker", "pop", "cond@libc.so.6"];
        let samples = [
            (10, ns, SampleKind::Waker, &["main", "post"][..]),
            (11, 100, SampleKind::Blocked, pop),
        ];
        let paths = paths_of(&sampled(s.load(ns + 100), &samples), None);
        let (call, awaited) = class(&paths, "waiting_for_own_threads");
        assert_eq!(rows(call), [row("cond < pop < worker", ns - 100, ns - 100)]);
        let awaited = awaited.expect("10 was awaited");
        match is_known {
            true => assert_eq!(rows(awaited), [row("post < main", ns - 100, 0)]),
            false => assert_eq!((rows(awaited), awaited.unsampled_ns), (vec![], ns - 100)),
        }
    }
}

/// 11 waits for 10 while 12 runs too: no serial phase.
#[test]
fn a_wait_for_an_own_thread_is_the_call_and_what_that_thread_ran() {
    let mut s = Story::new(3);
    s.known = vec![11, 12];
    s.switch(1, 100, 11, Sleeping, 0);
    s.wake(0, 900, 10, 11, 1);
    s.switch(1, 900, 0, RunnablePreempted, 11);
    s.switch(0, 999, 10, RunnablePreempted, 0);
    s.switch(0, 999, 0, RunnablePreempted, 10);
    s.switch(2, 999, 12, RunnablePreempted, 0);
    s.switch(2, 999, 0, RunnablePreempted, 12);
    let trace = sampled(
        s.load(1000),
        &[
            (10, 300, SampleKind::OnCpu, &["main", "fill"]),
            (10, 700, SampleKind::OnCpu, &["main", "sort"]),
            (11, 500, SampleKind::BlockedRead, &["worker", "pop", "cond@libc.so.6"]),
        ],
    );
    let paths = paths_of(&trace, None);
    let (call, awaited) = class(&paths, "waiting_for_own_threads");
    assert_eq!(rows(call), [row("cond < pop < worker", 800, 800)]);
    assert_eq!(rows(awaited.unwrap()), [row("fill < main", 400, 0), row("sort < main", 400, 0)]);
    // 12 and 11 have no on-CPU sample.
    let (work, _) = class(&paths, "work");
    assert_eq!(work.unsampled_ns, 1000 + 200);
}

#[test]
fn a_stranger_that_was_sampled_is_named() {
    let mut s = Story::new(1);
    s.switch(0, 100, 10, RunnablePreempted, 90);
    s.switch(0, 400, 90, Sleeping, 10);
    s.switch(0, 999, 10, Sleeping, 0);
    let trace = sampled(
        s.load(1000),
        &[
            (10, 50, SampleKind::OnCpu, &["main"]),
            (90, 200, SampleKind::OnCpu, &["rustc", "codegen"]),
        ],
    );
    let paths = paths_of(&trace, None);
    let (other, meanwhile) = class(&paths, "interference");
    assert_eq!(rows(other), [row("codegen < rustc", 300, 0)]);
    assert_eq!(meanwhile, None);
    assert_eq!((paths.samples, paths.on_cpu.ns), (1, 699));
}

const DO_SPIN: &[&str] =
    &["worker", "GOMP_barrier@/usr/lib/libgomp.so.1.0.0", "do_spin@/usr/lib/libgomp.so.1.0.0"];

/// Work, and what tracing took of it.
fn useful(account: &AccountSummary) -> i64 {
    let is_useful = |class: &str| ["work", "tracing"].contains(&class);
    let classes = account.classes.iter().filter(|c| is_useful(c.class));
    classes.map(|c| c.ns).sum()
}

/// 11 works 0..500 and spins 500..1000; 10 works all the time.
#[test]
fn who_spins_while_one_thread_runs_lost_its_cpu_to_a_serial_phase() {
    let mut s = Story::new(2);
    s.known = vec![11];
    s.switch(0, 999, 10, RunnablePreempted, 0);
    s.switch(1, 999, 11, RunnablePreempted, 0);
    let trace = sampled(
        s.load(1000),
        &[
            (10, 250, SampleKind::OnCpu, &["main", "assemble"]),
            (10, 750, SampleKind::OnCpu, &["main", "assemble"]),
            (11, 250, SampleKind::OnCpu, &["worker", "work"]),
            (11, 750, SampleKind::OnCpu, DO_SPIN),
        ],
    );
    let s = summary(&trace, &Options::default());
    assert_eq!(useful(&s.account), 999 + 500);
    let cause = s.account.causes.iter().find(|c| c.class == "spinning").unwrap();
    assert_eq!((cause.note, cause.tid, cause.on_cpu_ns), ("serial_phase", Some(10), 499));
    let paths = paths_of(&trace, None);
    let (at, meanwhile) = class(&paths, "spinning");
    assert_eq!(rows(at), [row("GOMP_barrier < worker", 499, 0)]);
    assert_eq!(rows(meanwhile.unwrap()), [row("assemble < main", 499, 0)]);
    // The same without samples is all work.
    let mut bare = trace.clone();
    bare.samples = kasuri_model::Samples::default();
    assert_eq!(useful(&summary(&bare, &Options::default()).account), 999 * 2);
}

/// 10 and 12 work, 11 spins: for either of them, in a barrier that the cause names.
#[test]
fn who_spins_beside_several_others_is_told_by_what_was_called_to_wait() {
    let mut s = Story::new(3);
    s.known = vec![11, 12];
    for (cpu, tid) in [(0, 10), (1, 11), (2, 12)] {
        s.switch(cpu, 999, tid, RunnablePreempted, 0);
    }
    let trace = sampled(
        s.load(1000),
        &[
            (10, 500, SampleKind::OnCpu, &["main", "work"]),
            (11, 500, SampleKind::OnCpu, DO_SPIN),
            (12, 500, SampleKind::OnCpu, &["worker", "work"]),
        ],
    );
    let account = summary(&trace, &Options::default()).account;
    let spinning: Vec<_> = account.causes.iter().filter(|c| c.class == "spinning").collect();
    assert_eq!(spinning.len(), 1, "{spinning:?}");
    let cause = spinning[0];
    assert_eq!((cause.name.as_str(), cause.code.as_str()), ("GOMP_barrier", "worker"));
    assert_eq!((cause.note, cause.tid, cause.ns), ("", None, 999));
}

/// A lock wait that an annotation tells stays one, whatever its samples say.
#[test]
fn an_annotated_wait_that_spins_keeps_its_class() {
    let trace = sampled(lock_wait(), &[(11, 250, SampleKind::OnCpu, DO_SPIN)]);
    let account = summary(&trace, &Options::default()).account;
    let spun: i64 =
        account.causes.iter().filter(|c| c.class == "lock_wait").map(|c| c.on_cpu_ns).sum();
    assert_eq!(spun, 110, "{account:?}");
}

#[test]
fn spinning_and_runtimes_are_told_apart_from_work() {
    let mut s = Story::new(1);
    s.switch(0, 999, 10, Sleeping, 0);
    let gomp = "gomp_team_barrier_wait_end@/usr/lib/libgomp.so.1.0.0";
    let trace = sampled(
        s.load(1000),
        &[
            (10, 100, SampleKind::OnCpu, &["main", "work"]),
            (10, 300, SampleKind::OnCpu, &["main", gomp, "do_spin@/usr/lib/libgomp.so.1.0.0"]),
            (10, 500, SampleKind::OnCpu, &["main", "GOMP_task@/usr/lib/libgomp.so.1.0.0"]),
            (
                10,
                700,
                SampleKind::OnCpu,
                &["main", "work", "malloc@libc.so.6", "_int_malloc@libc.so.6"],
            ),
            // The task that a thread runs while it is in the barrier is work.
            (10, 900, SampleKind::OnCpu, &["main", gomp, "task"]),
        ],
    );
    let critical = kasuri_analyze::critical_path::critical_path(&trace);
    let spun = "spinning in gomp_team_barrier_wait_end < main";
    assert!(critical.entries.iter().any(|e| e.code == spun), "{critical:?}");
    let what_if = critical.what_if.iter();
    let what_if: Vec<&str> = what_if.map(|w| w.name.as_str()).collect();
    assert!(what_if.contains(&"work") && !what_if.join(" ").contains("spin"), "{what_if:?}");
    let paths = paths_of(&trace, None);
    let ns = |key: &str| paths.classes.iter().find(|c| c.class == key).map(|c| c.ns);
    assert_eq!(ns("work"), Some(200 + 200 + 199));
    assert_eq!((ns("spinning"), ns("task_runtime")), (Some(200), Some(200)));
    let runtimes = &paths.runtimes;
    let rows: Vec<_> = runtimes
        .iter()
        .map(|r| {
            (r.runtime, r.module.as_str(), r.ns, r.work_ns, r.spinning_ns, r.spins_in.as_str())
        })
        .collect();
    assert_eq!(
        rows,
        [
            ("libgomp", "libgomp.so.1.0.0", 400, 0, 200, "gomp_team_barrier_wait_end"),
            ("allocator", "libc.so.6", 200, 200, 0, ""),
        ]
    );
}

/// A tick's interrupt did not come from the code below it.
#[test]
fn the_interrupt_that_took_a_sample_is_no_part_of_its_path() {
    let mut s = Story::new(1);
    s.switch(0, 999, 10, Sleeping, 0);
    let tick: &[&str] =
        &["main", "work", "asm_sysvec_apic_timer_interrupt@[kernel]", "tick@[kernel]"];
    let write: &[&str] = &["main", "write@libc.so.6", "entry@[kernel]", "copy@[kernel]"];
    let trace = sampled(
        s.load(1000),
        &[(10, 250, SampleKind::OnCpu, tick), (10, 750, SampleKind::OnCpu, write)],
    );
    let paths = paths_of(&trace, None);
    assert_eq!(
        rows(class(&paths, "work").0),
        [row("work < main", 500, 0), row("write < main", 499, 0)]
    );
}

#[test]
fn a_recording_without_samples_has_no_call_paths() {
    let mut s = Story::new(1);
    s.switch(0, 999, 10, Sleeping, 0);
    assert_eq!(summary(&s.load(1000), &Options::default()).call_paths, None);
}

/// 11 holds a lock that nobody annotated 0..600, computes to 400 and sleeps to 600; 12 asks for it at 100, 10 at 200. 11 wakes 12 at 610,
/// who wakes 10 at 700.
pub fn lock_without_annotations() -> Trace {
    let mut s = Story::new(2);
    s.known = vec![11, 12];
    s.switch(1, 100, 12, Sleeping, 10);
    s.switch(1, 200, 10, Sleeping, 0);
    s.switch(0, 400, 11, Sleeping, 0);
    s.wake(0, 600, 0, 11, 0);
    s.switch(0, 600, 0, RunnablePreempted, 11);
    s.wake(0, 610, 11, 12, 1);
    s.switch(1, 610, 0, RunnablePreempted, 12);
    s.wake(1, 700, 12, 10, 1);
    s.switch(0, 710, 11, Sleeping, 0);
    s.switch(1, 710, 12, Sleeping, 10);
    s.load(800)
}

const LOCK: [&str; 4] =
    ["look_up", "pthread_mutex_lock@libc.so.6", "__lll_lock_wait@libc.so.6", "futex_wait@[kernel]"];

fn lock_samples() -> Vec<(i32, i64, SampleKind, &'static [&'static str])> {
    vec![
        (10, 300, SampleKind::BlockedRead, &LOCK),
        (11, 200, SampleKind::OnCpu, &["store", "fill"]),
        (11, 500, SampleKind::BlockedRead, &["store", "nanosleep@libc.so.6"]),
        (12, 300, SampleKind::BlockedRead, &LOCK),
        (12, 650, SampleKind::OnCpu, &["look_up", "find"]),
    ]
}

#[test]
fn a_lock_that_only_call_paths_tell_is_held_by_who_gives_it_on() {
    let trace = sampled(lock_without_annotations(), &lock_samples());
    let s = summary(&trace, &Options::default());
    let locks: Vec<_> = (s.account.causes.iter())
        .filter(|c| c.class == "lock_wait")
        .map(|c| (c.note, c.name.as_str(), c.ns))
        .collect();
    // CPU 1: from 200 to 610 10 and 12 wait, and CPU 1 is charged to 10, which came last; CPU 0 to 12 from 400 to 600, while 11 sleeps;
    // from 610 to 700 CPUs 0 and 1 run 11 and 12.
    assert_eq!(locks, [("by_samples", "look_up", 410 + 200)]);
    let paths = paths_of(&trace, None);
    let class = class_of(&paths, "lock_wait");
    assert_eq!(class.likely_holders_ns, 610);
    let asks: Vec<_> = rows(&class.paths);
    assert_eq!(asks, [row("pthread_mutex_lock < look_up", 610, 610)]);
    // 10 waits for 12, which waits for 11, which holds it: to 400 and from 600 it runs, between it sleeps.
    let holder = class.meanwhile.as_ref().expect("there is a holder");
    assert_eq!(rows(holder), [row("nanosleep < store", 400, 400), row("fill < store", 210, 0)]);
}

/// Mutexes that are not plain ones wait in functions of their own, which programs do not call; files can be locks, too.
#[test]
fn locks_of_every_kind_are_lock_waits() {
    const FULL: [&str; 2] = ["look_up", "__pthread_mutex_lock_full@libc.so.6"];
    const TIMED: [&str; 2] = ["look_up", "__pthread_mutex_clocklock_common@libc.so.6"];
    const PI: [&str; 2] = ["look_up", "__futex_lock_pi64@libc.so.6"];
    const FCNTL: [&str; 2] = ["look_up", "__libc_fcntl64@libc.so.6"];
    const FLOCK: [&str; 3] = ["look_up", "flock@libc.so.6", "file /tmp/x.lck@[kernel]"];
    // Who called a library that asks for the lock is named, not the library.
    const RUST: [&str; 3] = [
        "look_up",
        "std::sync::poison::mutex::Mutex<T>::lock",
        "std::sys::sync::mutex::futex::Mutex::lock_contended",
    ];
    const CPP: [&str; 3] = [
        "look_up",
        "std::condition_variable::wait(std::unique_lock<std::mutex>&)@libstdc++.so.6",
        "___pthread_mutex_lock@libc.so.6",
    ];
    const STRIPPED: [&str; 3] = ["look_up", "@libqueue.so", "___pthread_mutex_lock@libc.so.6"];
    const MONITOR: [&str; 5] = [
        "look_up",
        "ObjectSynchronizer::enter(Handle, BasicLock*, JavaThread*)@libjvm.so",
        "ObjectMonitor::EnterI(JavaThread*)@libjvm.so",
        "os::PlatformEvent::park()@libjvm.so",
        "pthread_cond_wait@libc.so.6",
    ];
    for (path, file) in [
        (&FULL[..], ""),
        (&TIMED, ""),
        (&PI, ""),
        (&FCNTL, ""),
        (&FLOCK, "file /tmp/x.lck"),
        (&RUST, ""),
        (&CPP, ""),
        (&STRIPPED, ""),
        (&MONITOR, ""),
    ] {
        let mut samples = lock_samples();
        (samples[0].3, samples[3].3) = (path, path);
        let trace = sampled(lock_without_annotations(), &samples);
        let s = summary(&trace, &Options::default());
        let locks: Vec<_> = (s.account.causes.iter())
            .filter(|c| c.class == "lock_wait")
            .map(|c| (c.name.as_str(), c.code.as_str(), c.ns))
            .collect();
        assert_eq!(locks, [("look_up", file, 410 + 200)]);
    }
}

/// A function that several call is the place to know as long as who asks in it is given the lock; one where each waits for ever only asks.
#[test]
fn who_asks_for_a_lock_through_one_function_is_named_where_none_is_given_on() {
    let names = |by: i32| {
        let mut s = Story::new(2);
        s.known = vec![11, 12];
        s.switch(0, 100, 11, Sleeping, 0);
        s.switch(1, 100, 12, Sleeping, 10);
        if by == 11 {
            // Its time limit.
            s.wake(0, 790, 0, 11, 0);
            s.switch(0, 790, 0, RunnablePreempted, 11);
            s.wake(0, 800, 11, 12, 1);
        } else {
            s.wake(1, 800, by, 12, 1);
        }
        s.switch(1, 810, 10, RunnablePreempted, 12);
        const OUT: [&str; 3] = ["send", "lock_it", "pthread_mutex_timedlock@libc.so.6"];
        const IN: [&str; 3] = ["receive", "lock_it", "pthread_mutex_timedlock@libc.so.6"];
        let samples =
            [(11, 300, SampleKind::BlockedRead, &OUT[..]), (12, 300, SampleKind::BlockedRead, &IN)];
        let s = summary(&sampled(s.load(1000), &samples), &Options::default());
        let locks = s.account.causes.iter().filter(|c| c.class == "lock_wait");
        let mut names: Vec<String> = locks.map(|c| c.name.clone()).collect();
        names.sort();
        names
    };
    assert_eq!(names(10), ["lock_it"]);
    // An interrupt ends that, or one that waited as long itself.
    assert_eq!(names(0), ["receive", "send"]);
    assert_eq!(names(11), ["receive"]);
}

/// A thread that waits for a lock is killed: whoever did that had no lock.
#[test]
fn who_kills_a_thread_that_waits_for_a_lock_does_not_hold_it() {
    for (killer, expected) in [(90, "endless"), (10, "ran")] {
        let mut s = Story::new(2);
        s.known = vec![11];
        s.switch(1, 400, 11, Sleeping, 0);
        s.wake(0, 900, killer, 11, 1);
        s.switch(1, 900, 0, RunnablePreempted, 11);
        s.switch(1, 910, 11, ThreadState::Dead, 0);
        s.switch(0, 999, killer, RunnablePreempted, 0);
        let samples = [(11, 500, SampleKind::BlockedRead, &LOCK[..])];
        let trace = sampled(s.load(1000), &samples);
        let paths = paths_of(&trace, None);
        let class = class_of(&paths, "lock_wait");
        let chains = class.chains.as_ref().expect("there is a wait");
        assert_eq!(chains.nodes[1].did, expected);
    }
}

/// io_uring's thread looks for requests 0..500 and does one 500..1000; it is the kernel's, in the program's process.
#[test]
fn a_thread_of_the_kernels_that_polls_is_spinning() {
    let mut s = Story::new(2);
    s.known = vec![11];
    s.switch(0, 999, 10, RunnablePreempted, 10);
    s.switch(1, 999, 11, RunnablePreempted, 11);
    let polls: &[&str] =
        &["ret_from_fork_asm@[kernel]", "ret_from_fork@[kernel]", "io_sq_thread@[kernel]"];
    let serves: &[&str] =
        &[polls[0], polls[1], polls[2], "io_submit_sqes@[kernel]", "io_read@[kernel]"];
    let trace = sampled(
        s.load(1000),
        &[
            (10, 500, SampleKind::OnCpu, &["main", "work"]),
            (11, 250, SampleKind::OnCpu, polls),
            (11, 750, SampleKind::OnCpu, serves),
        ],
    );
    let account = summary(&trace, &Options::default()).account;
    let spins: Vec<_> = account.causes.iter().filter(|c| c.class == "spinning").collect();
    assert_eq!(
        (spins.len(), spins[0].note, spins[0].ns),
        // For the only thread that works.
        (1, "serial_phase", 500)
    );
    let paths = paths_of(&trace, None);
    let work = rows(&class_of(&paths, "work").paths);
    assert_eq!(work, [row("work < main", 1000, 0), row("io_sq_thread", 500, 0)]);
}

/// CPython waits for its lock in two functions, and compilers add to their names.
#[test]
fn pythons_lock_is_one_lock() {
    const TAKE: [&str; 4] = [
        "loop@python3",
        "take_gil.lto_priv.0@python3",
        "pthread_cond_timedwait@libc.so.6",
        "futex_wait@[kernel]",
    ];
    const DROP: [&str; 4] = [TAKE[0], "drop_gil@python3", TAKE[2], TAKE[3]];
    for (one, other) in [(&TAKE, &DROP), (&DROP, &TAKE)] {
        let mut samples = lock_samples();
        (samples[0].3, samples[3].3) = (one, other);
        let trace = sampled(lock_without_annotations(), &samples);
        let s = summary(&trace, &Options::default());
        let locks: Vec<_> = (s.account.causes.iter())
            .filter(|c| c.class == "lock_wait")
            .map(|c| (c.note, c.name.as_str(), c.ns))
            .collect();
        assert_eq!(locks, [("by_samples", "take_gil.lto_priv.0", 410 + 200)]);
    }
}

/// What annotations say of a wait comes first: the lock probe's lock is not one told by samples.
#[test]
fn an_annotated_lock_is_not_told_by_samples() {
    let samples = [(11, 500, SampleKind::BlockedRead, &LOCK[..])];
    let trace = sampled(lock_wait(), &samples);
    let s = summary(&trace, &Options::default());
    let locks = s.account.causes.iter().filter(|c| c.class == "lock_wait");
    assert!(locks.clone().all(|c| c.note.is_empty()) && locks.count() > 0);
    let paths = paths_of(&trace, None);
    let class = class_of(&paths, "lock_wait");
    assert_eq!((class.likely_holders_ns, &class.chains), (0, &None));
}

#[test]
fn a_sleep_by_choice_is_a_cause_of_its_own() {
    let mut s = Story::new(1);
    s.switch(0, 100, 10, Sleeping, 0);
    s.wake(0, 900, 0, 10, 0);
    s.switch(0, 900, 0, RunnablePreempted, 10);
    // Code in Java without a name sleeps, not the machine's function that began the thread, nor the one that Java sleeps by.
    let java = [
        "JavaMain@libjli.so",
        "@",
        "JVM_Sleep@libjvm.so",
        "JavaThread::sleep@libjvm.so",
        "PlatformEvent::park@libjvm.so",
        "pthread_cond_timedwait@libc.so.6",
    ];
    for (path, expected) in [
        (&["main", "nap", "clock_nanosleep@libc.so.6"][..], ("chosen", "nap")),
        (&["main", "nap", "poll@libc.so.6"], ("interrupt", "")),
        (&java, ("chosen", "")),
    ] {
        let samples = [(10, 500, SampleKind::BlockedRead, path)];
        let trace = sampled(s.clone().load(1000), &samples);
        let account = summary(&trace, &Options::default()).account;
        let cause = account.causes.iter().find(|c| c.class == "external_wait");
        let cause = cause.expect("it sleeps");
        assert_eq!((cause.note, cause.name.as_str()), expected);
        assert_eq!(cause.ns, 800);
    }
}

/// What a Java machine's own threads wait for is nothing that the program waits for.
#[test]
fn a_java_machines_own_thread_has_nothing_to_do() {
    const PARK: [&str; 4] = [
        "@",
        "Unsafe_Park@libjvm.so",
        "Parker::park@libjvm.so",
        "pthread_cond_timedwait@libc.so.6",
    ];
    const MONITOR: [&str; 3] =
        ["@", "ObjectMonitor::enter@libjvm.so", "pthread_cond_wait@libc.so.6"];
    for (name, path, expected) in [
        ("worker", &PARK[..], Some("external_wait")),
        ("Common-Cleaner", &PARK, None),
        ("Finalizer", &PARK, None),
        ("Finalizer", &MONITOR, Some("lock_wait")),
    ] {
        let mut s = Story::new(2);
        s.known = vec![11];
        s.switch(1, 100, 11, Sleeping, 0);
        s.wake(1, 900, 0, 11, 1);
        s.switch(1, 900, 0, RunnablePreempted, 11);
        s.switch(0, 999, 10, RunnablePreempted, 0);
        s.switch(1, 999, 11, RunnablePreempted, 0);
        let mut trace = sampled(s.load(1000), &[(11, 500, SampleKind::BlockedRead, path)]);
        let name = trace.strings.intern(name);
        let own = thread(&trace, 11);
        trace.threads[own.ix()].name = name;
        let account = summary(&trace, &Options::default()).account;
        let waits = |c: &&CauseSummary| ["external_wait", "lock_wait"].contains(&c.class);
        let found = account.causes.iter().find(waits).map(|c| c.class);
        assert_eq!(found, expected, "{path:?}");
    }
}

/// A thread that runs throughout, at these paths for so many samples each, and the rows of its work.
fn work_at(paths: &[(usize, &[&str])]) -> Vec<HotPath> {
    let n: usize = paths.iter().map(|(n, _)| n).sum();
    let mut story = Story::new(1);
    story.switch(0, n as i64 * 100, 10, RunnablePreempted, 0);
    let each = paths.iter().flat_map(|&(n, path)| std::iter::repeat_n(path, n));
    let samples: Vec<_> = (each.enumerate())
        .map(|(at, path)| (10, at as i64 * 100 + 50, SampleKind::OnCpu, path))
        .collect();
    let trace = sampled(story.load(n as i64 * 100), &samples);
    let paths = paths_of(&trace, None);
    class_of(&paths, "work").paths.paths.clone()
}

/// `share function < callers`, and where those part.
fn shown(path: &HotPath) -> String {
    let names = path.frames.iter().map(|f| f.function.as_str());
    let mut text = format!("{:.0} ", path.share * 100.0);
    text += &names.collect::<Vec<_>>().join(" < ");
    for caller in &path.callers {
        let name = &caller.frame.function;
        text += &format!(" | {:.0} {name}", caller.share * 100.0);
    }
    text
}

fn shown_of(paths: &[(usize, &[&str])]) -> Vec<String> {
    work_at(paths).iter().map(shown).collect()
}

#[test]
fn a_share_is_that_of_the_whole_path_beside_it() {
    // One caller leads to three quarters of it only.
    let two: &[(usize, &[&str])] =
        &[(75, &["main", "path_a", "kernel_fn"]), (25, &["main", "path_b", "kernel_fn"])];
    assert_eq!(shown_of(two), ["100 kernel_fn | 75 path_a | 25 path_b"]);
    // Stacks that end early say nothing of callers.
    let cut: &[(usize, &[&str])] = &[(90, &["main", "worker", "compress"]), (10, &["compress"])];
    assert_eq!(shown_of(cut), ["100 compress < worker < main"]);
    // Nor do a few among many.
    let few: &[(usize, &[&str])] = &[(97, &["main", "a", "f"]), (3, &["main", "b", "f"])];
    assert_eq!(shown_of(few), ["100 f < a < main"]);
}

#[test]
fn a_library_is_shown_with_the_programs_function_that_called_it() {
    let find = "hashbrown::raw::RawTable<T,A>::find";
    let get = "std::collections::hash::map::HashMap<K,V,S>::get";
    let rust: &[(usize, &[&str])] = &[
        (30, &["main", "update_table", get, find, "core::intrinsics::likely"]),
        (28, &["main", "update_table", get, find]),
        (42, &["main", "render"]),
    ];
    let name = "HashMap";
    let rows = shown_of(rust);
    assert!(rows[0].starts_with("58 ") && rows[0].contains(name), "{rows:?}");
    assert!(rows[0].ends_with("< update_table < main"), "{rows:?}");
    let go: &[(usize, &[&str])] = &[
        (
            65,
            &[
                "runtime.goexit",
                "main.store",
                "runtime.mapassign",
                "internal/runtime/maps.ctrlGroup.matchH2",
            ],
        ),
        (35, &["runtime.goexit", "runtime.gcBgMarkWorker", "runtime.scanobject"]),
    ];
    assert_eq!(
        shown_of(go),
        [
            "65 runtime.mapassign < main.store < runtime.goexit",
            // Nothing of the program is there.
            "35 runtime.scanobject < runtime.gcBgMarkWorker < runtime.goexit",
        ]
    );
    // What the kernel does for two functions of the program is two things, what it does for many one.
    let libc = "/usr/lib/libc.so.6";
    let write = format!("write@{libc}");
    let two: &[(usize, &[&str])] =
        &[(60, &["main", "log", &write]), (40, &["main", "send", &write])];
    assert_eq!(shown_of(two), ["60 write < log < main", "40 write < send < main"]);
    let many: &[(usize, &[&str])] =
        &[(40, &["main", "a", &write]), (30, &["main", "b", &write]), (30, &["main", "c", &write])];
    assert_eq!(shown_of(many), ["100 write | 40 a | 30 b | 30 c"]);
}

#[test]
fn inverted_the_innermost_function_alone_has_time_of_its_own() {
    let inverted = FlameOptions { inverted: true, ..FlameOptions::default() };
    let rows = tree(&imbalance(), &inverted);
    assert!(
        rows.iter().all(|&(depth, _, ns, own)| own == if depth == 0 { ns } else { 0 }),
        "{rows:?}"
    );
}
