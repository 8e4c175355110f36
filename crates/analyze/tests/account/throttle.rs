//! A CPU limit that keeps the program off: gaps in which it is ready and does not run are charged to the limit as far as the
//! kernel's counter rose, and only those of processes in the limited group. One CPU, times in milliseconds, by hand.
use super::story::*;
use ThreadState::{RunnablePreempted as Preempted, Sleeping};
use kasuri_analyze::account::{Account, Class};
use kasuri_analyze::{Options, summary};
use kasuri_model::{GroupLimit, LimitReading, ThreadState, Time, Trace};

const MS: i64 = 1_000_000;

/// 10 runs 0..40, 100..140 and 200..210, and is ready meanwhile; CPU 0 is idle then.
fn held_twice() -> Story {
    let mut s = Story::new(1);
    for (ms, prev, next) in [(40, 10, 0), (100, 0, 10), (140, 10, 0), (200, 0, 10)] {
        s.switch(0, ms * MS, prev, Preempted, next);
    }
    s
}

/// The trace of 210 ms, in which `/job` is limited and its counter rose by so many ms until these times; (when, process, group).
fn limited(story: Story, rises: &[(i64, u64)], members: &[(i64, i32, &str)]) -> Trace {
    let mut trace = story.load(210 * MS);
    let mut readings = vec![LimitReading::default()];
    for &(at, ms) in rises {
        let last = readings[readings.len() - 1];
        // Read shortly before the rise, and after it.
        let before = LimitReading { time: Time((at - 2) * MS), ..last };
        readings.extend([
            before,
            LimitReading {
                time: Time(at * MS),
                n_throttled: last.n_throttled + 1,
                throttled_ns: last.throttled_ns + ms * MS as u64,
            },
        ]);
    }
    let text = trace.strings.intern("cpu.max 40000 100000");
    trace.limits.groups.push(GroupLimit { group: "/job".into(), text, cpus: 0.4, readings });
    let row = |&(ms, pid, group): &(i64, i32, &str)| (Time(ms * MS), pid, group.to_owned());
    trace.limits.members = members.iter().map(row).collect();
    trace
}

const WHOLE: [(i64, u64); 2] = [(101, 60), (201, 60)];

/// Stretches charged to the limit, ms.
fn throttled(trace: &Trace) -> Vec<(i64, i64)> {
    let a = account(trace);
    let is_it = |cause: u32| a.causes[cause as usize].class == Class::ThrottledByCpuLimit;
    let all = a.segments.between(0, a.from, a.to);
    let mut out: Vec<(i64, i64)> = Vec::new();
    for (_, part) in all.filter(|(cause, _)| is_it(*cause)) {
        let (from, to) = (part.start.ns() / MS, part.end.ns() / MS);
        match out.last_mut() {
            Some(last) if last.1 == from => last.1 = to,
            _ => out.push((from, to)),
        }
    }
    out
}

#[test]
fn ready_threads_of_the_group_are_held_as_long_as_the_counter_rose() {
    let trace = limited(held_twice(), &WHOLE, &[(0, 10, "/job")]);
    let a = account(&trace);
    let sums = a.sums(a.from, a.to);
    assert_eq!(nonzero(&sums), [(Class::Work, 90 * MS), (Class::ThrottledByCpuLimit, 120 * MS)]);
    assert_eq!(throttled(&trace), [(40, 100), (140, 200)]);
    // The limit's own text names it, and it is the thread's own time, too.
    let named: Vec<_> = causes(&trace, &a).into_iter().map(|c| (c.0, c.1, c.3)).collect();
    let text = "cpu.max 40000 100000".to_owned();
    assert_eq!(named, [(Class::ThrottledByCpuLimit, text, 120 * MS)]);
    let ten = trace.threads.iter().position(|t| t.tid == 10).unwrap();
    assert_eq!(nonzero(&a.threads[ten]), nonzero(&sums));
    // A range has its part of it.
    let part = Account::new(&trace, Time(90 * MS)..Time(110 * MS));
    assert_eq!(
        nonzero(&part.sums(part.from, part.to)),
        [(Class::Work, 10 * MS), (Class::ThrottledByCpuLimit, 10 * MS)]
    );
}

/// The hint is for a limit that took something, not for one that is there.
#[test]
fn a_limit_that_held_the_program_back_has_a_hint() {
    let hint = |rises: &[(i64, u64)]| {
        let trace = limited(held_twice(), rises, &[(0, 10, "/job")]);
        let hints = summary(&trace, &Options::default()).hints;
        hints.into_iter().find(|hint| hint.kind == "cpu_limit")
    };
    let found = hint(&WHOLE).expect("it was held for 120 ms");
    assert_eq!(found.cost_ns, 120 * MS);
    let says = "the cgroup /job may use 0.40 CPUs (cpu.max 40000 100000), and 0.120 s";
    assert!(found.text.contains(says), "{}", found.text);
    assert!(hint(&[]).is_none());
}

/// What the counter does not explain of a limit's gaps is no sign of an affinity mask.
#[test]
fn a_limit_is_not_taken_for_a_mask() {
    let kinds = |rises: &[(i64, u64)]| -> Vec<&str> {
        let mut story = held_twice();
        story.cpus.push(Vec::new());
        story.switch(1, 0, 99, Sleeping, 0);
        let trace = limited(story, rises, &[(0, 10, "/job")]);
        let hints = summary(&trace, &Options::default()).hints;
        hints.into_iter().map(|hint| hint.kind).collect()
    };
    assert_eq!(kinds(&[]), ["misplaced"]);
    assert_eq!(kinds(&[(101, 45), (201, 45)]), ["cpu_limit"]);
}

#[test]
fn what_the_counter_does_not_explain_is_another_loss() {
    let trace = limited(held_twice(), &[(101, 25)], &[(0, 10, "/job")]);
    assert_eq!(throttled(&trace), [(40, 65)]);
    let trace = limited(held_twice(), &[], &[(0, 10, "/job")]);
    assert_eq!(throttled(&trace), []);
}

#[test]
fn only_the_groups_processes_are_held_and_only_while_they_are_in_it() {
    let of = |members: &[(i64, i32, &str)]| throttled(&limited(held_twice(), &WHOLE, members));
    let (first, second) = ((40, 100), (140, 200));
    assert_eq!(of(&[(0, 10, "/job/part")]), [first, second], "a group below it");
    assert_eq!(of(&[(0, 10, "/jobs")]), []);
    assert_eq!(of(&[]), [], "its group is not known");
    assert_eq!(of(&[(0, 99, "/job")]), [], "another process");
    // It joined, or left, between the two.
    assert_eq!(of(&[(0, 10, "/"), (120, 10, "/job")]), [second]);
    assert_eq!(of(&[(0, 10, "/job"), (120, 10, "/")]), [first]);
    // Before the first look nothing is known; here that is in the middle of the first gap.
    assert_eq!(of(&[(70, 10, "/job")]), [(70, 100), second]);
}

#[test]
fn a_child_is_in_its_parents_group_until_it_was_seen_in_another() {
    let child = |members: &[(i64, i32, &str)]| {
        let mut s = Story::new(1);
        let fork = kasuri_model::input::What::Fork {
            parent: 10,
            child: 20,
            comm: kasuri_model::StrIx::NONE,
            pid: Some(20),
            same_process: Some(false),
        };
        s.other(0, 10 * MS, 10, fork);
        s.switch(0, 20 * MS, 10, Sleeping, 20);
        s.switch(0, 40 * MS, 20, Preempted, 0);
        s.switch(0, 100 * MS, 0, Preempted, 20);
        throttled(&limited(s, &WHOLE[..1], members))
    };
    assert_eq!(child(&[(0, 10, "/job")]), [(40, 100)]);
    assert_eq!(child(&[(0, 10, "/job"), (0, 20, "/other")]), []);
    assert_eq!(child(&[(0, 10, "/other"), (0, 20, "/job")]), [(40, 100)]);
}

#[test]
fn no_gap_while_another_thread_of_the_program_runs_there() {
    // 11 has the CPU 60..80.
    let mut s = Story::new(1);
    s.known = vec![11];
    s.switch(0, 40 * MS, 10, Preempted, 0);
    s.switch(0, 60 * MS, 0, Preempted, 11);
    s.switch(0, 80 * MS, 11, Sleeping, 0);
    s.switch(0, 100 * MS, 0, Preempted, 10);
    let trace = limited(s, &[(101, 60)], &[(0, 10, "/job")]);
    assert_eq!(throttled(&trace), [(40, 60), (80, 100)]);
    // A stranger has it: the limit holds all the same, since the counter rose.
    let mut s = Story::new(1);
    s.switch(0, 40 * MS, 10, Preempted, 0);
    s.switch(0, 60 * MS, 0, Preempted, 95);
    s.switch(0, 80 * MS, 95, Sleeping, 0);
    s.switch(0, 100 * MS, 0, Preempted, 10);
    let trace = limited(s, &[(101, 60)], &[(0, 10, "/job")]);
    assert_eq!(throttled(&trace), [(40, 100)]);
}

#[test]
fn gaps_of_microseconds_are_wake_ups() {
    // Ready for 19 us, and for 21 us, before a rise that could explain both.
    for (us, expected) in [(19, 0), (21, 21_000)] {
        let mut s = Story::new(1);
        s.switch(0, 40 * MS, 10, Preempted, 0);
        s.switch(0, 40 * MS + us * 1000, 0, Preempted, 10);
        let trace = limited(s, &[(42, 60)], &[(0, 10, "/job")]);
        let a = account(&trace);
        let sums = a.sums(a.from, a.to);
        assert_eq!(sums[Class::ThrottledByCpuLimit as usize], expected, "{us}");
    }
}

#[test]
fn two_limits_do_not_charge_one_gap_twice() {
    // The group and the one above it both ran out; each counted its own part of the first gap.
    let mut trace = limited(held_twice(), &[(101, 20)], &[(0, 10, "/job")]);
    let mut above = trace.limits.groups[0].clone();
    above.group = "/".into();
    above.text = trace.strings.intern("cpu.max 90000 100000");
    for reading in above.readings.iter_mut().filter(|r| r.throttled_ns > 0) {
        reading.throttled_ns = 30 * MS as u64;
    }
    trace.limits.groups.push(above);
    assert_eq!(throttled(&trace), [(40, 90)]);
    let a = account(&trace);
    let named: Vec<_> = causes(&trace, &a)
        .into_iter()
        .filter(|c| c.0 == Class::ThrottledByCpuLimit)
        .map(|c| (c.1, c.3 / MS))
        .collect();
    assert_eq!(
        named,
        [("cpu.max 40000 100000".to_owned(), 20), ("cpu.max 90000 100000".to_owned(), 30)]
    );
}

/// 10 waits at a barrier from 20 on for 11, which a stranger or the limit keeps off CPU 1 from 30 to 90 and which comes at 120.
/// The stranger answers for both CPUs' time. What the limit takes is charged on 11's CPU only: 10 waits for 11 as for a
/// thread that runs, only longer.
#[test]
fn a_late_thread_that_was_held_was_not_delayed_by_others() {
    let mut s = Story::new(2);
    s.known = vec![11];
    s.switch(0, 20 * MS, 10, Sleeping, 0);
    s.switch(1, 30 * MS, 11, Preempted, 95);
    s.switch(1, 90 * MS, 95, Sleeping, 11);
    s.wake(1, 120 * MS, 11, 10, 0);
    s.switch(0, 120 * MS, 0, Preempted, 10);
    s.wait(10, 20 * MS, 120 * MS, BARRIER, "sync");
    s.wait(11, 120 * MS, 120 * MS + 1000, BARRIER, "sync");
    let lost = |rises: &[(i64, u64)]| {
        let trace = limited(s.clone(), rises, &[(0, 10, "/job")]);
        let a = account(&trace);
        let mut lost = nonzero(&a.sums(a.from, a.to));
        lost.retain(|(class, _)| *class != Class::Work);
        lost
    };
    assert_eq!(
        lost(&[]),
        [(Class::LoadImbalance, 40 * MS + 1000), (Class::Interference, 120 * MS)]
    );
    assert_eq!(
        lost(&[(91, 60)]),
        [(Class::LoadImbalance, 100 * MS + 1000), (Class::ThrottledByCpuLimit, 60 * MS)]
    );
}
