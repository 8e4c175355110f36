//! Each hint: a trace where it must appear, and those where it must not (docs/design/hints.md).
use super::story::{BARRIER, RECORDER, Story};
use kasuri_analyze::{Hint, Options, summary};
use kasuri_model::ThreadState::{Dead, RunnablePreempted as Preempted, Sleeping};
use kasuri_model::{SampleKind, ThreadMasks, Time};

const MS: i64 = 1_000_000;

fn hints(story: Story, end: i64) -> Vec<Hint> {
    summary(&story.load(end), &Options::default()).hints
}

fn kinds(story: Story, end: i64) -> Vec<&'static str> {
    hints(story, end).iter().map(|h| h.kind).collect()
}

/// Two CPUs, three threads in turns for 4 ms each; at the end CPU 1 is idle while thread 12 catches up and the others wait for it.
fn three_on_two(threads: [i32; 3]) -> Story {
    let [a, b, c] = threads;
    let mut s = Story::new(2);
    s.known = threads.iter().copied().filter(|t| *t < 70).collect();
    s.switch(0, 0, 0, Sleeping, a);
    s.switch(1, 0, 0, Sleeping, b);
    s.wake(0, MS / 10, a, c, 0);
    let turns = [(a, c), (c, a), (a, c), (c, a)];
    for (n, (from, to)) in turns.into_iter().enumerate() {
        s.switch(0, (n as i64 + 1) * 4 * MS, from, Preempted, to);
    }
    // CPU 0: c still has to catch up 8 ms; b and a are done and wait at the barrier.
    s.switch(0, 20 * MS, a, Sleeping, c);
    s.switch(1, 20 * MS, b, Sleeping, 0);
    s.wake(0, 28 * MS, c, a, 0);
    s.wake(0, 28 * MS, c, b, 1);
    s.switch(1, 28 * MS + 10_000, 0, Sleeping, b);
    s.switch(0, 28 * MS + 10_000, c, Sleeping, a);
    s
}

fn with_barrier(mut s: Story) -> Story {
    s.wait(11, 20 * MS, 28 * MS, BARRIER, "meet");
    s.wait(10, 20 * MS, 28 * MS, BARRIER, "meet");
    s
}

#[test]
fn threads_that_wait_for_each_other_on_few_cpus_are_oversubscribed() {
    let found = hints(with_barrier(three_on_two([10, 11, 12])), 30 * MS);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].kind, "oversubscription");
    assert!(found[0].text.contains("Try 2 threads"), "{found:?}");
    assert_eq!(found[0].command, None);
}

/// Each pool is named by the function that its threads began with, whichever of its lines calls the work.
#[test]
fn the_pools_that_share_few_cpus_are_named() {
    let trace = with_barrier(three_on_two([10, 11, 12])).load(30 * MS);
    let at = |begin| ["start_thread@libc.so.6", begin, "score"];
    let [even, odd] =
        [at("serve@/usr/bin/program@pool.c:10"), at("serve@/usr/bin/program@pool.c:20")];
    let team: &[&str] = &["start_thread@libc.so.6", "part@/usr/bin/program@team.c:7"];
    let samples = [(10, 2, &even[..]), (11, 2, &odd[..]), (12, 6, team)];
    let samples = samples.map(|(tid, ms, path)| (tid, ms * MS, SampleKind::OnCpu, path));
    let trace = crate::call_paths::join::sampled(trace, &samples);
    let found = summary(&trace, &Options::default()).hints;
    let hint = found.iter().find(|h| h.kind == "oversubscription").unwrap();
    assert!(hint.text.contains("3 threads (2 in serve, 1 in part) share 2 CPUs"), "{hint:?}");
}

/// As `make -j2` does: at any time two processes, over all its time many.
#[test]
fn processes_one_after_the_other_are_not() {
    let mut s = Story::new(2);
    s.known = vec![10];
    s.switch(0, 0, 0, Sleeping, 10);
    for n in 0..8 {
        let (cpu, from) = ((n % 2) as usize, (n / 2) * 8 * MS + MS);
        let child = 20 + n as i32;
        let fork = kasuri_model::input::What::Fork {
            parent: 10,
            child,
            comm: kasuri_model::StrIx::NONE,
            pid: Some(child),
            same_process: Some(false),
        };
        s.other(0, from - MS / 2, 10, fork);
        if cpu == 0 {
            s.switch(0, from, 10, Preempted, child);
            s.switch(0, from + 7 * MS, child, Sleeping, 10);
        } else {
            s.switch(1, from, 0, Sleeping, child);
            s.switch(1, from + 7 * MS, child, Sleeping, 0);
        }
    }
    assert_eq!(kinds(s, 40 * MS), Vec::<&str>::new());
}

/// As pigz does: more threads than CPUs, and both CPUs always busy.
#[test]
fn threads_that_wait_for_nobody_are_not() {
    let mut s = Story::new(2);
    s.known = vec![10, 11, 12];
    s.switch(0, 0, 0, Sleeping, 10);
    s.switch(1, 0, 0, Sleeping, 11);
    s.wake(0, MS / 10, 10, 12, 0);
    for n in 1..7 {
        let (from, to) = if n % 2 == 1 { (10, 12) } else { (12, 10) };
        s.switch(0, n * 4 * MS, from, Preempted, to);
    }
    assert_eq!(kinds(s, 28 * MS), Vec::<&str>::new());
}

/// Three threads on two CPUs that wait for each other, but never more than two of them want to run.
#[test]
fn threads_of_which_few_want_to_run_are_not() {
    let mut s = Story::new(2);
    s.known = vec![10, 11, 12];
    s.switch(0, 0, 0, Sleeping, 10);
    s.switch(1, 0, 0, Sleeping, 11);
    s.wake(0, 10 * MS, 10, 12, 0);
    s.switch(0, 10 * MS, 10, Sleeping, 12);
    s.switch(1, 10 * MS, 11, Sleeping, 0);
    s.wake(0, 28 * MS, 12, 10, 0);
    s.wake(0, 28 * MS, 12, 11, 1);
    s.switch(1, 28 * MS + 10_000, 0, Sleeping, 11);
    s.switch(0, 28 * MS + 10_000, 12, Sleeping, 10);
    s.wait(10, 10 * MS, 28 * MS, BARRIER, "meet");
    s.wait(11, 10 * MS, 28 * MS, BARRIER, "meet");
    assert_eq!(kinds(s, 30 * MS), Vec::<&str>::new());
}

/// The waits are for a device: more threads hide them.
#[test]
fn threads_that_wait_for_input_are_not() {
    let mut s = three_on_two([10, 11, 12]);
    s.wait(11, 20 * MS, 28 * MS, 4, "read");
    s.wait(10, 20 * MS, 28 * MS, 4, "read");
    assert_eq!(kinds(s, 30 * MS), Vec::<&str>::new());
}

/// Others have the machine: with fewer threads the program would get less of it. And many others, each a little, are not one
/// whom to renice.
#[test]
fn nothing_is_advised_where_many_others_run() {
    let mut s = Story::new(2);
    s.known = vec![10, 11, 12];
    s.switch(0, 0, 0, Sleeping, 10);
    s.switch(1, 0, 0, Sleeping, 11);
    for n in 0..6 {
        let (from, other) = (n * 4 * MS + 2 * MS, 90 + n as i32);
        s.switch(0, from, 10, Preempted, other);
        s.switch(0, from + 2 * MS, other, Sleeping, 10);
    }
    assert_eq!(kinds(s, 26 * MS), Vec::<&str>::new());
}

/// One other takes CPU 1 half of the time: never a taskset to CPU 0, where both threads would share one CPU.
fn disturbed(other: i32, until: i64) -> Story {
    let mut s = Story::new(2);
    s.known = vec![10, 11];
    s.switch(0, 0, 0, Sleeping, 10);
    s.switch(1, 0, 0, Sleeping, 11);
    for n in 0..5 {
        let from = n * 4 * MS + 2 * MS;
        s.switch(1, from, 11, Preempted, other);
        s.switch(1, from + 2 * MS, other, Sleeping, 11);
    }
    if until < 30 * MS {
        let exit = kasuri_model::input::What::Exit { tid: other, at_once: true };
        s.other(1, until, other, exit);
    }
    s
}

#[test]
fn one_other_program_may_be_reniced_and_nothing_is_pinned() {
    let found = hints(disturbed(90, 30 * MS), 30 * MS);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].kind, "interference");
    assert_eq!(
        found[0].command.as_deref(),
        Some("sudo renice -n 19 -p 90; echo 19 | sudo tee /proc/90/autogroup")
    );
    assert!(!found[0].text.contains("taskset"), "{found:?}");
}

/// The recorder took the CPU: to end it, or to give it no CPU, is no advice.
#[test]
fn the_recorder_is_not_reniced() {
    let found = hints(disturbed(RECORDER, 30 * MS), 30 * MS);
    assert!(found.iter().all(|h| h.kind != "interference"), "{found:?}");
}

/// kthreadd is process 2, and made the others of the kernel.
#[test]
fn the_kernels_own_threads_are_not_reniced() {
    let mut child = disturbed(91, 30 * MS);
    let fork = kasuri_model::input::What::Fork {
        parent: 2,
        child: 91,
        comm: kasuri_model::StrIx::NONE,
        pid: Some(91),
        same_process: Some(false),
    };
    child.other(0, MS, 10, fork);
    child.cpus[0].sort_by_key(|e| e.time);
    for story in [disturbed(2, 30 * MS), child] {
        let found = hints(story, 30 * MS);
        assert!(found.iter().all(|h| h.kind != "interference"), "{found:?}");
    }
}

/// A client takes CPU 1 from the server, and each answer that thread 10 waits for is a request of the client's.
#[test]
fn a_process_that_the_program_waits_for_is_not_reniced() {
    let mut client = disturbed(90, 30 * MS);
    for n in 0..5 {
        let from = n * 4 * MS + 3 * MS;
        client.switch(0, from, 10, Sleeping, 0);
        client.wake(1, from + MS / 2, 90, 10, 0);
        client.switch(0, from + MS / 2 + 1_000, 0, Preempted, 10);
    }
    client.cpus.iter_mut().for_each(|cpu| cpu.sort_by_key(|e| e.time));
    let found = hints(client, 30 * MS);
    assert!(found.iter().all(|h| h.kind != "interference"), "{found:?}");
}

#[test]
fn a_program_that_has_ended_is_not_reniced() {
    let found = hints(disturbed(90, 25 * MS), 30 * MS);
    assert!(found.iter().all(|h| h.kind != "interference"), "{found:?}");
}

/// Threads 10 and 11 take turns on CPU 0, 4 ms each, while CPU 1 is idle; `once`: 11 was once on CPU 1.
fn pinned_together(once: bool) -> Story {
    let mut s = Story::new(2);
    s.known = vec![10, 11];
    s.switch(0, 0, 0, Sleeping, 10);
    if once {
        s.switch(1, 0, 0, Sleeping, 11);
        s.switch(1, MS, 11, Sleeping, 0);
        s.wake(0, 2 * MS, 10, 11, 0);
    } else {
        s.switch(1, 0, 99, Sleeping, 0);
        s.wake(0, MS / 10, 10, 11, 0);
    }
    for n in 1..40 {
        let (from, to) = if n % 2 == 1 { (10, 11) } else { (11, 10) };
        s.switch(0, n * 4 * MS, from, Preempted, to);
    }
    s
}

#[test]
fn threads_kept_to_one_cpu_beside_an_idle_one() {
    let found = hints(pinned_together(false), 160 * MS);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].kind, "misplaced");
    assert!(found[0].text.contains("let it run on all 2 CPUs"));
}

/// It sets its mask itself, first of all.
#[test]
fn where_a_thread_began_says_nothing_of_its_mask() {
    let mut s = pinned_together(false);
    s.cpus[1].clear();
    s.cpus[0].retain(|e| e.time.0 == 0 || e.time.0 >= 4 * MS);
    s.switch(1, 0, 0, Sleeping, 11);
    s.switch(1, MS / 10, 11, Sleeping, 0);
    s.wake(0, MS / 5, 10, 11, 0);
    s.cpus[0].sort_by_key(|e| e.time);
    assert_eq!(kinds(s, 160 * MS), ["misplaced"]);
}

/// A thread that has run on the idle CPU may use it; and 20 ms are too short to prove that another may not.
#[test]
fn late_balancing_is_no_pinning() {
    assert_eq!(
        hints(pinned_together(true), 160 * MS)
            .iter()
            .filter(|h| h.text.contains("thread t11"))
            .count(),
        0
    );
    let mut s = pinned_together(false);
    s.cpus[0].retain(|e| e.time.0 <= 20 * MS);
    assert_eq!(kinds(s, 22 * MS), Vec::<&str>::new());
}

/// Of threads whose masks were read these tell, not where a thread was seen.
#[test]
fn masks_that_were_read_tell_who_is_pinned() {
    let placement = |once: bool, masks: &[(i64, &[u32], i32)]| {
        let mut trace = pinned_together(once).load(160 * MS);
        let row = |(since, cpus, tid): &(i64, &[u32], i32)| ThreadMasks {
            since: Time(since * MS),
            cpus: cpus.to_vec(),
            tids: vec![*tid],
        };
        trace.limits.masks = masks.iter().map(row).collect();
        let found = summary(&trace, &Options::default()).hints;
        let found = found.into_iter().filter(|h| h.kind == "misplaced");
        found.map(|h| h.text).next()
    };
    // It was there once, before its mask was set.
    let late = placement(true, &[(1, &[0, 1], 11), (3, &[0], 11), (3, &[0], 10)]);
    let late = late.expect("a hint");
    assert!(late.contains("pinned to CPU 0, waited for CPU 0"), "{late}");
    assert!(late.contains("Let it run on all 2 CPUs"), "{late}");
    let free = placement(false, &[(1, &[0, 1], 10), (1, &[0, 1], 11)]);
    assert_eq!(free, None, "never seen on the idle CPU, but free to go there");
    let another = placement(false, &[(1, &[0, 1], 10), (1, &[0, 1], 11), (2, &[0], 12)]);
    assert_eq!(another, None, "the mask of another thread");
}

/// 10 makes so many, one after the other, and each runs for so long.
fn made(n: i32, runs: i64, same_process: bool) -> Vec<Hint> {
    let mut s = Story::new(2);
    for i in 0..n {
        let (child, from) = (1000 + i, 2 * runs * i64::from(i));
        let fork = kasuri_model::input::What::Fork {
            parent: 10,
            child,
            comm: kasuri_model::StrIx::NONE,
            pid: Some(if same_process { 10 } else { child }),
            same_process: Some(same_process),
        };
        s.other(0, from + 10, 10, fork);
        s.switch(1, from + 20, 0, Sleeping, child);
        s.switch(1, from + runs + 20, child, Dead, 0);
    }
    hints(s, 2 * runs * i64::from(n))
}

fn advice(hints: &[Hint], kind: &str) -> String {
    hints.iter().find(|h| h.kind == kind).map_or(String::new(), |h| h.text.clone())
}

#[test]
fn many_short_processes_have_a_hint() {
    let many = advice(&made(150, MS, false), "short_processes");
    assert!(many.contains("150 processes ran for 1.0 ms each"), "{many}");
    assert_eq!(advice(&made(10, MS, false), "short_processes"), "");
    // They do something.
    assert_eq!(advice(&made(150, 100 * MS, false), "short_processes"), "");
}

/// A tenth more or less changes a number, not what is said.
#[test]
fn short_processes_and_threads_are_so_by_degree() {
    for n in [90, 100, 110] {
        let found = advice(&made(n, MS, false), "short_processes");
        assert!(found.contains(&format!("{n} processes")), "{found}");
    }
    for (ms, part) in [(4, "50 %"), (5, "40 %"), (6, "33 %")] {
        let found = advice(&made(150, ms * MS, false), "short_processes");
        assert!(found.contains(&format!("is about {part}")), "{found}");
    }
    for n in [1350, 1500, 1650] {
        let found = advice(&made(n, MS / 20, true), "short_threads");
        assert!(found.contains(&format!("{n} threads")), "{found}");
    }
}

/// 10 begins a process gzip for each of these times, for which it runs, and waits for each before the next; `behind`: each is the child of the one before.
fn in_turn(runs: &[i64], behind: bool) -> String {
    let mut s = Story::new(2);
    let mut from = 0;
    for (i, &runs) in (0..).zip(runs) {
        let child = 1000 + i;
        let parent = if behind && i > 0 { child - 1 } else { 10 };
        let fork = kasuri_model::input::What::Fork {
            parent,
            child,
            comm: kasuri_model::StrIx::NONE,
            pid: Some(child),
            same_process: Some(false),
        };
        s.switch(0, from, 0, Sleeping, 10);
        s.other(0, from + 10, 10, fork);
        s.switch(1, from + 20, 0, Sleeping, child);
        s.switch(0, from + 30, 10, Sleeping, 0);
        s.wake(1, from + runs, child, 10, 0);
        s.switch(1, from + runs + 20, child, Dead, 0);
        from += runs + MS;
    }
    let mut trace = s.load(from);
    let names = ["gzip", "xargs"].map(|name| trace.strings.intern(name));
    for process in &mut trace.processes {
        process.name = names[usize::from(process.pid == 10)];
    }
    for thread in &mut trace.threads {
        thread.name = names[usize::from(thread.tid == 10)];
    }
    let found = summary(&trace, &Options::default()).hints;
    found.into_iter().find(|h| h.kind == "processes_in_turn").map_or(String::new(), |h| h.text)
}

#[test]
fn processes_that_one_process_begins_one_after_the_other() {
    let found = in_turn(&[20 * MS; 8], false);
    assert!(
        found.contains("8 processes gzip ran one at a time, begun by xargs, and 0.16"),
        "{found}"
    );
    assert!(found.contains("(xargs -P 2)"), "{found}");
    assert_eq!(in_turn(&[20 * MS; 3], false), "", "no loop");
    assert_eq!(in_turn(&[2 * MS; 40], false), "", "to make them is what they cost");
    assert_eq!(in_turn(&[20 * MS; 8], true), "", "each begins the next");
    let long = |others: i64| in_turn(&[400 * MS, others, others, others, others], false);
    assert_eq!(long(10 * MS), "", "one of them has nearly all");
    assert!(long(20 * MS).contains("5 processes gzip"), "those beside it would save a sixth");
}
