//! Recordings made up by hand, and what they must load as: the answers were worked out from docs/format.md.
mod parts;

use kasuri_base::parallel::ParallelCosts;
use kasuri_format::call_paths::{
    Call, Frame, Log, Module, ModuleKind, NONE, Names, Path, PathEnd, Sample, SampleKind, Tables,
};
use kasuri_format::meta::{
    Anchor, BudgetChange, ClientLoss, HeldUp, KernelLoss, LimitRow, SamplingRow, TimedCalls,
};
use kasuri_format::ring::{Site, SiteTable};
use kasuri_import::{File, Options};
use kasuri_model::{ArgValue, KernelSpanKind, LockKind, LockSource, ThreadIx, Time, Trace};
use parts::Value::{Int, Text};
use parts::{
    PageBuilder, PageLayout, START, annotation, event, pages, pair, proc, program, put_chunk,
    switch,
};

fn tid(trace: &Trace, thread: ThreadIx) -> i32 {
    trace.threads.get(thread.0 as usize).map_or(-1, |thread| thread.tid)
}

/// Kind, start, end, thread and name of each kernel span, by time.
fn spans(trace: &Trace) -> Vec<(KernelSpanKind, i64, i64, i32, &str)> {
    let s = &trace.kernel_spans;
    let mut rows: Vec<_> = (0..s.kind.len())
        .map(|i| {
            (
                s.kind[i],
                s.start[i].0,
                s.end[i].0,
                tid(trace, s.thread[i]),
                trace.strings.get(s.name[i]),
            )
        })
        .collect();
    rows.sort_by_key(|row| (row.1, std::cmp::Reverse(row.2)));
    rows
}

#[test]
fn interrupts_calls_and_kernel_locks_have_their_names() {
    use KernelSpanKind::{Irq, LockContention, Softirq, Syscall};
    let mut events = vec![(100, switch(0, 0, 7))];
    let mut expected = Vec::new();
    // An exit without an entry says nothing.
    events.push((110, event("irq/softirq_exit", 7, 0, &[Int(3)])));
    events.push((120, event("raw_syscalls/sys_exit", 7, 0, &[Int(1)])));
    for (at, number, name) in [(200, 1, "write"), (300, 231, "exit_group"), (400, 60, "exit")] {
        events.push((at, event("raw_syscalls/sys_enter", 7, 0, &[Int(number)])));
        events.push((at + 50, event("raw_syscalls/sys_exit", 7, 0, &[Int(number)])));
        expected.push((Syscall, at as i64, at as i64 + 50, 7, name));
    }
    let softirqs = [
        "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER",
        "RCU",
    ];
    for (vec, name) in softirqs.into_iter().enumerate() {
        let at = 1000 + 10 * vec as u64;
        events.push((at, event("irq/softirq_entry", 7, 0, &[Int(vec as i64)])));
        events.push((at + 5, event("irq/softirq_exit", 7, 0, &[Int(vec as i64)])));
        expected.push((Softirq, at as i64, at as i64 + 5, 7, name));
    }
    // An interrupt in a softirq, each ended by an exit of its own kind.
    events.push((2000, event("irq/softirq_entry", 7, 0, &[Int(3)])));
    let irq = [Int(24), Text("eth0")];
    events.push((2010, event("irq/irq_handler_entry", 7, 0, &irq)));
    events.push((2020, event("irq/irq_handler_exit", 7, 0, &[Int(24)])));
    events.push((2030, event("irq/softirq_exit", 7, 0, &[Int(3)])));
    expected.push((Softirq, 2000, 2030, 7, "NET_RX"));
    expected.push((Irq, 2010, 2020, 7, "eth0"));
    // LCB_F_*: spin 1, read 2, write 4, real-time 8, per CPU 16, mutex 32; a mutex that spins says both.
    let locks = [
        (0, "semaphore"),
        (1, "spinlock"),
        (2, "rwsem read"),
        (3, "rwlock read"),
        (4, "rwsem write"),
        (5, "rwlock write"),
        (8, "rtmutex"),
        (8 | 2, "rtmutex"),
        (16, "percpu rwsem"),
        (16 | 2, "percpu rwsem"),
        (32, "mutex"),
        (32 | 1, "mutex"),
        (64, "semaphore"),
        (64 | 1, "spinlock"),
    ];
    for (i, (flags, name)) in locks.into_iter().enumerate() {
        let at = 3000 + 10 * i as u64;
        events.push((at, event("lock/contention_begin", 7, 0, &[Int(flags)])));
        events.push((at + 4, event("lock/contention_end", 7, 0, &[Int(0)])));
        expected.push((LockContention, at as i64, at as i64 + 4, 7, name));
    }
    // In an interrupt (0x08) or an NMI (0x40) it is not the thread that waits; other flags say something else.
    for (i, flags) in [0x08, 0x40, 0x01, 0x04, 0x10, 0x20].into_iter().enumerate() {
        let at = 4000 + 10 * i as u64;
        events.push((at, event("lock/contention_begin", 7, flags, &[Int(1)])));
        events.push((at + 4, event("lock/contention_end", 7, flags, &[Int(0)])));
        if flags & 0x48 == 0 {
            expected.push((LockContention, at as i64, at as i64 + 4, 7, "spinlock"));
        }
    }
    // Still inside when its recording ends.
    events.push((5000, event("raw_syscalls/sys_enter", 7, 0, &[Int(0)])));
    expected.push((Syscall, 5000, 100_000, 7, "read"));
    let mut parts = program();
    parts.pages = vec![(0, pages(&events))];
    let trace = parts.load();
    expected.sort_by_key(|row| (row.1, std::cmp::Reverse(row.2)));
    assert_eq!(spans(&trace), expected);
    assert_eq!(trace.kernel_spans.cpu, vec![0; expected.len()]);
}

#[test]
fn lost_events_end_what_was_open_on_their_cpu() {
    let mut cpu0 = PageBuilder::new(PageLayout::LE64);
    cpu0.event(START + 100, &switch(0, 0, 7));
    cpu0.event(START + 200, &event("irq/softirq_entry", 7, 0, &[Int(1)]));
    cpu0.miss(Some(5));
    cpu0.event(START + 900, &event("irq/softirq_exit", 7, 0, &[Int(1)]));
    cpu0.event(START + 1000, &switch(7, 1, 0));
    let cpu1 = pages(&[
        (100, switch(0, 0, 8)),
        (300, event("irq/softirq_entry", 8, 0, &[Int(9)])),
        (950, event("irq/softirq_exit", 8, 0, &[Int(9)])),
    ]);
    let mut parts = program();
    parts.pages = vec![(0, cpu0.finish()), (1, cpu1)];
    let trace = parts.load();
    assert_eq!(spans(&trace), [(KernelSpanKind::Softirq, 300, 950, 8, "RCU")]);
    let losses: Vec<_> = trace.losses.iter().map(|l| (l.cpu, l.when.clone(), l.count)).collect();
    assert_eq!(losses, [(Some(0), Time(200)..Time(900), 5)]);
}

#[test]
fn each_loss_has_its_cause_time_and_count() {
    let mut parts = program();
    for cpu in 0..2 {
        let mut events = PageBuilder::new(PageLayout::LE64);
        events.event(START + 1000, &switch(0, 0, 7 + cpu));
        events.miss(None);
        events.event(START + 2000, &switch(7 + cpu, 0, 0));
        events.miss(None);
        events.event(START + 3000, &switch(0, 0, 7 + cpu));
        parts.pages.push((cpu as u32, events.finish()));
    }
    let reading = |at, cpu, overrun, dropped, commit_overrun, unwritten| KernelLoss {
        monotonic_ns: START + at,
        cpu,
        overrun,
        dropped,
        commit_overrun,
        unwritten,
    };
    // CPU 0 overran by 40 while both of its gaps were; CPU 1 by 3, after its gaps, where no gap tells of it.
    parts.kernel_losses = vec![
        reading(10_000, 1, 5, 0, 0, 0),
        reading(500, 0, 2, 1, 1, 1),
        reading(5000, 0, 42, 1, 1, 1),
        reading(6000, 0, 42, 8, 10, 12),
        reading(20_000, 1, 8, 0, 0, 0),
    ];
    let trace = parts.load();
    let kernel: Vec<_> = trace
        .losses
        .iter()
        .map(|l| (l.cpu.unwrap(), l.cause.as_str(), l.when.start.0, l.when.end.0, l.count))
        .collect();
    let mut expected = vec![
        (0, "kernel buffer overrun", 1000, 2000, 40),
        (0, "kernel buffer overrun", 2000, 3000, 0),
        (1, "kernel buffer overrun", 1000, 2000, 0),
        (1, "kernel buffer overrun", 2000, 3000, 0),
        (0, "kernel buffer full", 5000, 6000, 7),
        (0, "kernel commit overrun", 5000, 6000, 9),
        (0, "disk full", 5000, 6000, 11),
        (1, "kernel buffer overrun", 10_000, 20_000, 3),
    ];
    let sorted = |mut rows: Vec<_>| {
        rows.sort();
        rows
    };
    assert_eq!(sorted(kernel.clone()), sorted(expected.clone()));
    assert!(kernel.is_sorted_by_key(|row| (row.2, row.0)));
    assert!(trace.losses[0].remedy.contains("64 KiB"), "{:?}", trace.losses[0]);
    // What a flight recorder overwrote before anybody read it is no loss.
    parts.meta.mode = "flight".into();
    expected.pop();
    assert_eq!(parts.load().losses.len(), expected.len());
}

#[test]
fn what_nobody_counted_is_a_loss_of_unknown_size() {
    let mut parts = program();
    parts.meta.uncounted = vec!["2 annotated programs found no room".into()];
    let trace = parts.load();
    let [loss] = &trace.losses[..] else { panic!("{:?}", trace.losses) };
    assert_eq!((&*loss.cause, loss.count), (&*parts.meta.uncounted[0], 0));
    assert_eq!(loss.when, trace.span);
    // A stranger's file may name any number.
    parts.meta.uncounted = (0..100_000).map(|n| n.to_string()).collect();
    assert_eq!(parts.load().losses.len(), 16);
}

/// One with perf's records: names of CPU 0 at these times, and whether by exec.
fn named(names: &[(u64, i32, bool)]) -> parts::Parts {
    let mut parts = program();
    parts.meta.kernel.source = "perf".into();
    let mut records = Vec::new();
    for &(at, tid, exec) in names {
        records.extend_from_slice(&3u32.to_ne_bytes());
        records.extend_from_slice(&(u16::from(exec) << 13).to_ne_bytes());
        records.extend_from_slice(&48u16.to_ne_bytes());
        for number in [tid, tid] {
            records.extend_from_slice(&number.to_ne_bytes());
        }
        records.extend_from_slice(b"worker\0\0");
        for number in [tid, tid] {
            records.extend_from_slice(&number.to_ne_bytes());
        }
        records.extend_from_slice(&(START + at).to_ne_bytes());
        records.extend_from_slice(&[0; 8]);
    }
    parts.perf = vec![(0, records)];
    parts
}

/// Without tracefs the kernel says in a name's record that it came with another program.
#[test]
fn a_name_that_came_by_exec_begins_another_life() {
    let trace = named(&[(100, 7, true), (200, 7, false), (300, 7, true)]).load();
    assert_eq!(trace.broken_rules(), Vec::<String>::new());
    let at: Vec<(i32, i64)> = (trace.execs.thread.iter().zip(&trace.execs.time))
        .map(|(t, at)| (tid(&trace, *t), at.0))
        .collect();
    assert_eq!(at, [(7, 100), (7, 300)]);
}

#[test]
fn lost_annotations_name_their_thread_and_program() {
    let mut parts = program();
    // Thread number 1001 was given out twice: the losses are those of the first.
    parts.procs.extend([proc(0, 7, 1001), proc(0, 9, 9)]);
    let mut chunks = Vec::new();
    let emitted = [annotation(10, 3, 0, 1, &[])];
    put_chunk(&mut chunks, 1, 0, 4, &emitted);
    parts.chunks = vec![(7, 0, chunks)];
    let counts = |pid, lost| ClientLoss { pid, generation: 0, lost };
    parts.client_losses = vec![
        counts(7, [1, 2, 0, 0, 0, 0, 0, 0]),
        counts(0, [3, 0, 0, 0, 0, 0, 0, 0]),
        counts(9, [0, 0, 4, 5, 6, 0, 0, 7]),
    ];
    let trace = parts.load();
    let rows: Vec<_> =
        trace.losses.iter().map(|l| (tid(&trace, l.thread), l.cause.as_str(), l.count)).collect();
    let never = "threads of process 9 that never had a chunk";
    let expected = [
        (1001, "ring full".to_owned(), 4),
        (-1, "ring full (threads of process 7 that never had a chunk)".into(), 1),
        (-1, "overwritten (threads of process 7)".into(), 2),
        (-1, "ring full (programs that had no memory for a single chunk)".into(), 3),
        (-1, format!("too big ({never})"), 4),
        (-1, format!("no site ({never})"), 5),
        (-1, format!("frozen ({never})"), 6),
        (-1, format!("unknown cause ({never})"), 7),
    ];
    for (tid, cause, count) in &expected {
        assert!(rows.contains(&(*tid, cause.as_str(), *count)), "{cause}: {rows:?}");
    }
    assert_eq!(rows.len(), expected.len());
    let remedies: std::collections::HashSet<_> = trace.losses.iter().map(|l| &l.remedy).collect();
    assert_eq!(remedies.len(), 6, "one for each cause: {remedies:?}");
}

#[test]
fn time_begins_with_the_recording_or_with_its_first_event() {
    let mut parts = program();
    let events = [(2000, switch(0, 0, 7)), (3000, switch(7, 1, 0))];
    parts.pages = vec![(0, pages(&events))];
    let trace = parts.load();
    assert_eq!(trace.span, Time(0)..Time(100_000));
    assert_eq!(trace.origin_monotonic_ns, START as i64);
    assert_eq!(trace.origin_realtime_ns, 5_000_000);

    // A flight recorder begins with what it kept, and ends as any other.
    parts.meta.mode = "flight".into();
    assert_eq!(parts.load().span, Time(2000)..Time(100_000));
    parts.meta.keep_ns = Some(97_500);
    assert_eq!(parts.load().span, Time(2500)..Time(100_000));
    parts.meta.mode = "program".into();
    assert_eq!(parts.load().span, Time(2500)..Time(100_000));
    parts.meta.keep_ns = Some(u64::MAX);
    assert_eq!(parts.load().span, Time(2000)..Time(100_000));

    // The end was lost: the last event. The start too: the first one, whatever its source.
    parts.meta.keep_ns = None;
    parts.meta.end = None;
    assert_eq!(parts.load().span, Time(0)..Time(3000));
    parts.meta.start.monotonic_ns = 0;
    let mut chunks = Vec::new();
    put_chunk(&mut chunks, 1, 0, 0, &[annotation(1500, 3, 0, 1, &[])]);
    parts.chunks = vec![(7, 0, chunks)];
    let trace = parts.load();
    assert_eq!(trace.span, Time(0)..Time(1500));
    assert_eq!(trace.origin_monotonic_ns, START as i64 + 1500);
    assert_eq!(trace.instants.time, [Time(0)]);
}

#[test]
fn stamps_of_a_counter_become_nanoseconds() {
    let mut parts = program();
    // Two ticks a nanosecond.
    let anchor = |at| Anchor { native: 2 * at, monotonic_ns: at, realtime_ns: at };
    parts.meta.start = anchor(START);
    parts.meta.end = Some(anchor(START + 100_000));
    parts.anchors = vec![anchor(START + 50_000)];
    parts.meta.kernel.clock = "x86-tsc".into();
    parts.meta.annotations.clock = "native".into();
    let mut events = PageBuilder::new(PageLayout::LE64);
    events.event(2 * (START + 400), &switch(0, 0, 7));
    parts.pages = vec![(0, events.finish())];
    let mut chunks = Vec::new();
    let mut stamped = annotation(0, 3, 0, 1, &[]);
    stamped.stamp = 2 * (START + 700);
    put_chunk(&mut chunks, 1, 0, 0, &[stamped]);
    parts.chunks = vec![(7, 0, chunks)];
    let trace = parts.load();
    let seven = trace.threads.iter().find(|t| t.tid == 7).unwrap();
    let running = seven.states.start as usize + 1;
    assert_eq!(trace.states.start[running], Time(400));
    assert_eq!(trace.instants.time, [Time(700)]);
    // Without anchors the times cannot be converted, which matters only where there are stamps.
    parts.anchors.clear();
    parts.meta.end = None;
    parts.meta.start.native = 0;
    let bytes = parts.write();
    let file = File { name: "run.kasuri", bytes: &bytes };
    assert!(kasuri_import::load(&[file], &Options::default()).is_err());
    (parts.pages, parts.chunks) = (Vec::new(), Vec::new());
    assert_eq!(parts.load().n_annotation_events, 0);
}

#[test]
fn a_budget_says_what_it_left_out() {
    let mut parts = program();
    let change = |at, paused, off: &[&str]| BudgetChange {
        monotonic_ns: START + at,
        paused,
        off: off.iter().map(|&name| name.to_owned()).collect(),
        cost: 0.1,
        budget: 0.02,
    };
    parts.meta.budget = vec![
        change(0, false, &[]),
        change(10_000, false, &["raw_syscalls/sys_enter"]),
        change(40_000, true, &["raw_syscalls/sys_enter"]),
        change(60_000, false, &["irq/softirq_entry"]),
        change(65_000, true, &[]),
    ];
    let events = [(1000, switch(0, 0, 7)), (61_000, switch(7, 1, 0)), (62_000, switch(0, 0, 7))];
    parts.pages = vec![(0, pages(&events))];
    let trace = parts.load();
    let said = |text: &str| trace.info.missing.iter().any(|m| m.contains(text));
    assert!(
        said("paused for 55 % of the time to keep the budget of 2 %"),
        "{:?}",
        trace.info.missing
    );
    assert!(said("raw_syscalls/sys_enter was off for 30 % of the time to keep the budget of 2 %"));
    assert!(said("irq/softirq_entry was off for 5 % of the time"));
    let paused: Vec<_> = trace
        .losses
        .iter()
        .map(|l| (l.cause.as_str(), l.when.start.0, l.when.end.0, l.count))
        .collect();
    assert_eq!(
        paused,
        [
            ("paused to keep the budget", 40_000, 61_000, 0),
            ("paused to keep the budget", 65_000, 100_000, 0)
        ]
    );
    // Of the threads nothing is known meanwhile.
    let seven = trace.threads.iter().find(|t| t.tid == 7).unwrap();
    let states: Vec<_> = seven
        .states
        .clone()
        .map(|r| (trace.states.start[r as usize].0, trace.states.state[r as usize]))
        .collect();
    use kasuri_model::ThreadState::{Running, Sleeping, Unknown};
    assert_eq!(
        states,
        [
            (0, Unknown),
            (1000, Running),
            (40_000, Unknown),
            (61_000, Sleeping),
            (62_000, Running),
            (65_000, Unknown)
        ]
    );
}

#[test]
fn costs_of_parallel_work_are_those_of_the_file_or_none() {
    let names: Vec<&str> = ParallelCosts::from_named(|_| Some(7.0))
        .iter()
        .flat_map(ParallelCosts::named)
        .map(|(name, _)| name)
        .collect();
    let costs = |of: &[&str], ns: f64| {
        let mut parts = program();
        parts.meta.parallel_costs = of.iter().map(|&name| (name.into(), ns)).collect();
        parts.load().info.parallel_costs
    };
    assert_eq!(costs(&names, 7.5), ParallelCosts::from_named(|_| Some(7.5)));
    assert_eq!(costs(&[], 7.5), None, "a recording of before");
    assert_eq!(costs(&names[1..], 7.5), None, "one is missing");
    assert_eq!(costs(&names, -7.5), None, "no machine has it");
}

#[test]
fn events_are_counted_for_who_paid_for_them() {
    let mut parts = program();
    let costs = [("raw_syscalls/sys_enter", [1.0, 2.0, 3.0]), ("annotation", [4.0, 5.0, 6.0])];
    for (name, ns) in costs {
        parts.meta.event_costs.insert(name.into(), ns);
    }
    let apart = vec![[10.0, 1.0, 2.0, 3.0]];
    parts.meta.event_costs_apart.insert("annotation".into(), apart.clone());
    let call = |tid| event("raw_syscalls/sys_enter", tid, 0, &[Int(1)]);
    // Thread 9 is not the program's: of the three calls two are. The cost of a switch is charged to the thread that comes.
    parts.pages = vec![(
        0,
        pages(&[
            (100, switch(0, 0, 7)),
            (200, call(7)),
            (300, call(8)),
            (400, call(9)),
            (500, switch(7, 1, 9)),
        ]),
    )];
    let mut chunks = Vec::new();
    let instants = [annotation(150, 3, 0, 1, &[]), annotation(160, 3, 0, 1, &[])];
    put_chunk(&mut chunks, 1, 0, 0, &instants);
    parts.chunks = vec![(7, 0, chunks)];
    let trace = parts.load();
    let rows: Vec<_> = trace
        .info
        .event_costs
        .iter()
        .map(|c| (c.name.as_str(), c.n, c.n_program, c.ns, c.apart.clone()))
        .collect();
    assert_eq!(rows.len(), 3);
    for row in [
        ("raw_syscalls/sys_enter", 3, 2, Some([1.0, 2.0, 3.0]), vec![]),
        ("sched/sched_switch", 2, 1, None, vec![]),
        ("annotation", 2, 2, Some([4.0, 5.0, 6.0]), apart),
    ] {
        assert!(rows.contains(&row), "{row:?} in {rows:?}");
    }
    assert_eq!((trace.n_kernel_events, trace.n_annotation_events), (5, 2));
    let apart = trace.info.events_apart_ns.unwrap();
    assert!((apart - 100.0).abs() < 1e-9, "{apart}");
}

#[test]
fn limits_are_sorted_by_what_they_limit() {
    let mut parts = program();
    let row = |at: u64| LimitRow { monotonic_ns: START + at, ..LimitRow::default() };
    let group = |at, n_throttled| LimitRow {
        group: "/b".into(),
        text: "150000 100000".into(),
        quota_us: 150_000,
        period_us: 100_000,
        n_throttled,
        throttled_ns: 10 * n_throttled,
        ..row(at)
    };
    parts.limits = vec![
        group(900, 3),
        group(100, 1),
        LimitRow { group: "/a".into(), text: "50000".into(), quota_us: 50_000, ..row(200) },
        LimitRow { pid: 7, group: "/b".into(), ..row(300) },
        LimitRow { cpus: "0-1,4".into(), cpuset: "0-4".into(), ..row(400) },
        LimitRow { mask: "0,4".into(), tids: vec![7, 8], ..row(450) },
        // No quota: it limits nothing.
        LimitRow { group: "/c".into(), ..row(500) },
    ];
    let trace = parts.load();
    let limits = &trace.limits;
    let groups: Vec<_> = limits
        .groups
        .iter()
        .map(|g| (g.group.as_str(), trace.strings.get(g.text), g.cpus))
        .collect();
    assert_eq!(groups, [("/a", "50000", 50_000.0), ("/b", "150000 100000", 1.5)]);
    let readings: Vec<_> = limits.groups[1]
        .readings
        .iter()
        .map(|r| (r.time.0, r.n_throttled, r.throttled_ns))
        .collect();
    assert_eq!(readings, [(100, 1, 10), (900, 3, 30)]);
    assert_eq!(limits.members, [(Time(300), 7, "/b".to_owned())]);
    let [allowed] = &limits.allowed[..] else { panic!("{:?}", limits.allowed) };
    assert_eq!(allowed.since, Time(400));
    assert_eq!(allowed.cpus, [0, 1, 4]);
    assert_eq!(allowed.cpuset, [0, 1, 2, 3, 4]);
    let [masks] = &limits.masks[..] else { panic!("{:?}", limits.masks) };
    assert_eq!(
        (masks.since, &masks.cpus[..], &masks.tids[..]),
        (Time(450), &[0, 4][..], &[7, 8][..])
    );
}

/// A few bytes may name thousands of CPUs, and thousands of rows the same again.
#[test]
fn lists_of_cpus_and_groups_cost_no_more_than_a_machine_may_have() {
    assert_eq!(LimitRow::cpu_list("2-3,0,3-4,2-1,x,4294967295"), [0, 2, 3, 4]);
    let all = "0-4294967295,".repeat(1000);
    assert_eq!(LimitRow::cpu_list(&all).len(), 8192);
    let mut parts = program();
    let row = |at: u64| LimitRow { monotonic_ns: START + at, ..LimitRow::default() };
    let cpus = |at: u64| LimitRow { cpus: format!("0-9999,{at}"), cpuset: all.clone(), ..row(at) };
    parts.limits = (1..=300).map(cpus).collect();
    // What is as it was is no change.
    parts.limits.extend((301..400).map(|at| LimitRow { monotonic_ns: START + at, ..cpus(300) }));
    let group = |at: u64| LimitRow { group: format!("/{at}"), quota_us: u64::MAX, ..row(at) };
    parts.limits.extend((1..100_000).map(group));
    let trace = parts.load();
    assert_eq!((trace.limits.allowed.len(), trace.limits.groups.len()), (256, 99_999));
    let said = "the CPUs that the program might use changed 44 times more than are read";
    assert!(trace.info.missing.iter().any(|line| line == said), "{:?}", trace.info.missing);
}

/// Numbers that no machine has: what was not measured is none, and no time is below 0.
#[test]
fn costs_and_times_beyond_all_bounds_are_none_or_the_longest() {
    let load = |ns: f64, apart_ns: f64| {
        let mut parts = program();
        parts.meta.event_costs.insert("annotation".into(), [1.0, ns, 3.0]);
        parts.meta.event_costs_apart =
            [("annotation".into(), vec![[5.0, 1.0, 1.0, 1.0], [apart_ns, 1.0, 1.0, ns]])].into();
        (parts.meta.program_cpu_ns, parts.meta.recorder_cpu_ns) = (Some(u64::MAX), Some(1 << 63));
        let calls = TimedCalls { n: u64::MAX, longest_ns: u64::MAX, sum_ns: u64::MAX };
        parts.meta.held_up = Some(HeldUp { memory: calls, probes: calls });
        parts.meta.kernel.buffer_kb = u32::MAX;
        let off =
            BudgetChange { off: vec!["sched/sched_switch".into()], ..BudgetChange::default() };
        let paused = BudgetChange { paused: true, ..BudgetChange::default() };
        parts.meta.budget = vec![off.clone(), off, paused.clone(), paused];
        parts.meta.end = Some(Anchor { monotonic_ns: u64::MAX, ..Anchor::default() });
        let mut chunks = Vec::new();
        put_chunk(&mut chunks, 1, 0, 0, &[annotation(150, 3, 0, 1, &[])]);
        parts.chunks = vec![(7, 0, chunks)];
        parts.load().info
    };
    for (ns, apart_ns, has) in [
        (2.0, 6.0, (true, true)),
        (-1.0, 6.0, (false, false)),
        (1e300, 6.0, (false, false)),
        (2.0, 4.0, (true, false)),
        (2.0, -1.0, (true, false)),
        (2.0, 0.0, (true, false)),
    ] {
        let info = load(ns, apart_ns);
        let [cost] = &info.event_costs[..] else { panic!("{:?}", info.event_costs) };
        assert_eq!((cost.ns.is_some(), !cost.apart.is_empty()), has, "{ns} {apart_ns}");
        let times = [info.program_cpu, info.recorder_cpu, info.held_up.map(|of| of.probes.longest)];
        assert_eq!(times, [Some(kasuri_model::Duration(i64::MAX)); 3]);
    }
}

#[test]
fn annotations_bear_names_places_and_texts() {
    let mut parts = program();
    let site = |id, name: &str, line| Site {
        id,
        name: name.into(),
        file: if line > 0 { "a.c".into() } else { String::new() },
        function: "main".into(),
        line,
    };
    parts.sites = vec![SiteTable {
        pid: 7,
        generation: 0,
        parent: None,
        parent_next_id: 0,
        sites: vec![site(1, "solve", 10), site(3, "solve", 30), site(4, "size", 0)],
    }];
    let mut chunks = Vec::new();
    let address = 0x7f01_2345_6780u64;
    let short = annotation(60, 21, address as u16, (address >> 16) as u32, &[]);
    let events = [
        annotation(10, 1, 0, 1, &[]),
        annotation(20, 17, 4 | 5 << 4, 4, b"large"),
        annotation(30, 17, 2, 4, &pair(12, 0)),
        annotation(40, 18, 5, 0, b"hello"),
        annotation(50, 19, 11, 0, b"the painter"),
        short,
        annotation(70, 22, address as u16, (address >> 16) as u32, &[]),
        annotation(80, 2, 0, 3, &[]),
        // A site that no table has: without a name.
        annotation(90, 3, 0, 99, &[]),
    ];
    put_chunk(&mut chunks, 1, 0, 0, &events);
    parts.chunks = vec![(7, 0, chunks)];
    let trace = parts.load();
    let text = |ix| trace.strings.get(ix);
    let solve = trace.slices.name.iter().position(|&n| text(n) == "solve").unwrap();
    assert_eq!((trace.slices.start[solve], trace.slices.end[solve]), (Time(10), Time(80)));
    assert_eq!(trace.places[&trace.slices.name[solve]], "a.c:10");
    let args: Vec<_> = (0..trace.args.name.len())
        .map(|i| (text(trace.args.name[i]), trace.args.value[i]))
        .collect();
    let ArgValue::Str(large) = args[0].1 else { panic!("{args:?}") };
    assert_eq!((args[0].0, text(large)), ("size", "large"));
    assert_eq!(args[1], ("size", ArgValue::Uint(12)));
    let names: Vec<_> = trace.instants.name.iter().map(|&n| text(n)).collect();
    assert_eq!(names, ["hello", "(no name)"]);
    let thread = trace.threads.iter().find(|t| t.tid == 1001).unwrap();
    assert_eq!(text(thread.name), "the painter");
    let hold = trace.slices.object.iter().position(|&o| o == address).unwrap();
    assert_eq!((trace.slices.start[hold], trace.slices.end[hold]), (Time(60), Time(70)));
    assert_eq!(trace.slices.parent[hold].ix(), solve);
}

#[test]
fn locks_say_what_they_are() {
    let mut parts = program();
    // LockDefine: the type in `aux`, the lock in the payload.
    let kinds = [
        (1, LockKind::Mutex),
        (2, LockKind::Recursive),
        (3, LockKind::ErrorCheck),
        (4, LockKind::Adaptive),
        (5, LockKind::RwLock),
        (6, LockKind::Spin),
        (9, LockKind::Other),
    ];
    let mut events = Vec::new();
    for (number, _) in kinds {
        let object = 0x1000 + u64::from(number);
        events.push(annotation(u64::from(number) * 10, 23, number, 0, &pair(object, 0)));
    }
    let flags = [
        (0x100, 0x2001),
        (0x200, 0x2002),
        (0x400, 0x2003),
        (0x800, 0x2004),
        (0x1000, 0x2005),
        (0x2000, 0x2006),
    ];
    for (i, (flag, object)) in flags.into_iter().enumerate() {
        events.push(annotation(500 + i as u64, 23, 1 | flag, 0, &pair(object, 0)));
    }
    let mut chunks = Vec::new();
    put_chunk(&mut chunks, 1, 0, 0, &events);
    parts.chunks = vec![(7, 0, chunks)];
    let trace = parts.load();
    let lock = |object| trace.locks.iter().find(|l| l.object == object).unwrap();
    for (number, kind) in kinds {
        assert_eq!(lock(0x1000 + u64::from(number)).kind, kind);
    }
    let told: Vec<_> = flags
        .iter()
        .map(|&(_, object)| {
            let l = lock(object);
            (l.robust, l.inherits, l.shared, l.source)
        })
        .collect();
    assert_eq!(
        told,
        [
            (true, false, false, LockSource::Probe),
            (false, true, false, LockSource::Probe),
            (false, true, false, LockSource::Probe),
            (false, false, true, LockSource::Probe),
            (false, false, false, LockSource::Ito),
            (false, false, false, LockSource::Uprobe),
        ]
    );
}

#[test]
fn damage_that_is_met_late_is_told_as_what_it_is() {
    let mut parts = program();
    parts.pages = vec![(0, pages(&[(100, switch(0, 0, 7)), (200, switch(7, 1, 0))]))];
    let whole = parts.write();
    let told = (0..whole.len()).filter(|&at| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        let file = File { name: "run.kasuri", bytes: &bytes };
        match kasuri_import::load(&[file], &Options::default()) {
            Ok(_) => false,
            Err(error @ kasuri_import::Error::Model(_)) => {
                assert!(error.kind().is_some(), "byte {at}: {error}");
                true
            }
            Err(_) => false,
        }
    });
    assert!(told.count() > 20, "a block's bytes are read when its events are");
}

/// A call path as text, outermost first.
fn path_text(trace: &Trace, path: kasuri_model::PathIx) -> String {
    let frames: Vec<_> = trace.frames_of(path).collect();
    let text = |row: &kasuri_model::FrameIx| {
        let (frames, row) = (&trace.frames, row.ix());
        let name = trace.strings.get(frames.function[row]);
        let place = trace.strings.get(frames.file[row]);
        match name {
            "" => format!("{:#x}", frames.address[row]),
            name => format!("{name} {:?} {place}:{}", frames.kind[row], frames.line[row]),
        }
    };
    let texts: Vec<_> = frames.iter().rev().map(text).collect();
    texts.join(" > ")
}

/// A recorded program has Kasuri's libraries and its header in it. Whatever they call, it was the program's function that asked for it.
#[test]
fn kasuris_own_code_is_no_part_of_a_call_path() {
    let module =
        |path: &str| Module { kind: ModuleKind::Elf, path: path.into(), ..Module::default() };
    let names = |frame, functions: &[(&str, &str)]| Names {
        frame,
        calls: (functions.iter())
            .map(|&(function, file)| Call { function: function.into(), file: file.into(), line: 1 })
            .collect(),
    };
    let mut parts = program();
    parts.pages = vec![(0, pages(&[(100, switch(0, 0, 7))]))];
    parts.call_paths = Log {
        tables: Tables {
            modules: ["/bin/p", "/opt/lib/libkasuri-locks.so", "/lib/libc.so.6"]
                .map(module)
                .to_vec(),
            frames: [(0, 1), (1, 2), (1, 3), (2, 4), (0, 5)]
                .map(|(module, address)| Frame { module, address })
                .to_vec(),
            // worker > two of the probe > libc; worker > inlined from the header.
            paths: [(NONE, 0), (0, 1), (1, 2), (2, 3), (0, 4)]
                .map(|(caller, frame)| Path { caller, frame })
                .to_vec(),
            names: vec![
                names(0, &[("worker", "p.c")]),
                names(1, &[("pthread_mutex_lock", "mutex.c")]),
                names(3, &[("pthread_mutex_lock", "")]),
                names(4, &[("kasuri__stamp", "include/kasuri.h"), ("step", "p.c")]),
            ],
        },
        samples: [3, 4]
            .map(|path| Sample {
                time_ns: START + 200 + u64::from(path),
                pid: 7,
                tid: 7,
                cpu: 0,
                kind: SampleKind::OnCpu,
                end: PathEnd::Complete,
                path,
            })
            .to_vec(),
    };
    let trace = parts.load();
    let rows = trace.samples.path.iter().map(|&path| path_text(&trace, path));
    let rows: Vec<String> = rows.collect();
    assert_eq!(
        rows,
        [
            "worker Native p.c:1 > pthread_mutex_lock Native :1",
            "worker Native p.c:1 > step Native p.c:1",
        ]
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "a recording as a list, and its rows")]
fn addresses_become_the_functions_that_were_inlined_there() {
    let module = |kind, path: &str| Module { kind, path: path.into(), ..Module::default() };
    let call = |function: &str, file: &str, line| Call {
        function: function.into(),
        file: file.into(),
        line,
    };
    let sample =
        |time_ns, tid, kind, end, path| Sample { time_ns, pid: 7, tid, cpu: 1, kind, end, path };
    let mut parts = program();
    parts.pages = vec![(0, pages(&[(100, switch(0, 0, 7))]))];
    parts.call_paths = Log {
        tables: Tables {
            modules: vec![
                module(ModuleKind::Elf, "/bin/solve"),
                module(ModuleKind::Kernel, "[kernel]"),
                module(ModuleKind::Jit, "[python]"),
            ],
            frames: [(0, 0x10), (0, 0x20), (0, 0x24), (1, 0xfff0), (NONE, 0x77), (2, 1), (2, 2)]
                .map(|(module, address)| Frame { module, address })
                .to_vec(),
            // main > 0x20, main > 0x24, main > 0x24 > kernel, an address of nobody, main > Python's > JavaScript's.
            paths: [(NONE, 0), (0, 1), (0, 2), (2, 3), (NONE, 4), (0, 5), (5, 6)]
                .map(|(caller, frame)| Path { caller, frame })
                .to_vec(),
            names: vec![
                Names { frame: 0, calls: vec![call("main", "solve.c", 90)] },
                // Both addresses are in the same line of `step`, inlined into `run`.
                Names {
                    frame: 1,
                    calls: vec![call("step", "solve.c", 10), call("run", "solve.c", 40)],
                },
                Names {
                    frame: 2,
                    calls: vec![call("step", "solve.c", 10), call("run", "solve.c", 40)],
                },
                Names { frame: 3, calls: vec![call("do_futex", "", 0)] },
                Names { frame: 5, calls: vec![call("py::work", "x.py", 3)] },
                Names { frame: 6, calls: vec![call("JS:*work", "x.js", 4)] },
            ],
        },
        samples: vec![
            sample(START + 300, 8, SampleKind::OnCpu, PathEnd::Complete, 1),
            sample(START + 200, 8, SampleKind::OnCpu, PathEnd::StackCut, 2),
            sample(START + 400, 7, SampleKind::Blocked, PathEnd::Complete, 3),
            sample(START + 500, 7, SampleKind::BlockedRead, PathEnd::NoRule, 4),
            sample(START + 600, 7, SampleKind::OnCpu, PathEnd::NoStack, NONE),
            sample(START + 650, 7, SampleKind::OnCpu, PathEnd::Complete, 6),
            sample(START + 700, 99, SampleKind::OnCpu, PathEnd::Complete, 0),
        ],
    };
    parts.sampling = vec![SamplingRow {
        monotonic_ns: START + 50,
        source: "tick".into(),
        on: true,
        period_ns: 4_000_000,
        ..SamplingRow::default()
    }];
    let trace = parts.load();
    let samples = &trace.samples;
    let rows: Vec<_> = (0..samples.time.len())
        .map(|row| {
            (
                tid(&trace, samples.thread[row]),
                samples.time[row].0,
                samples.kind[row],
                samples.is_complete[row],
                path_text(&trace, samples.path[row]),
            )
        })
        .collect();
    use kasuri_model::SampleKind as Kind;
    let run = "main Native solve.c:90 > run Native solve.c:40 > step Inlined solve.c:10";
    // An interpreter runs Python's functions; what a JIT compiler made runs by itself.
    let run_by_others =
        "main Native solve.c:90 > py::work Interpreted x.py:3 > JS:*work Jit x.js:4";
    let in_kernel = format!("{run} > do_futex Kernel :0");
    assert_eq!(
        rows,
        [
            (7, 400, Kind::Blocked, true, in_kernel),
            (7, 500, Kind::BlockedRead, false, "0x77".into()),
            (7, 600, Kind::OnCpu, false, String::new()),
            (7, 650, Kind::OnCpu, true, run_by_others.into()),
            (8, 200, Kind::OnCpu, false, run.into()),
            (8, 300, Kind::OnCpu, true, run.into()),
        ]
    );
    assert_eq!(samples.path[4], samples.path[5], "one path in the source");
    assert_eq!(samples.cpu, [1, u16::MAX, 1, 1, 1, 1]);
    assert_eq!(trace.samples_of(samples.thread[4]), 4..6);
    assert_eq!(trace.sampling[0].time, Time(50));
    assert_eq!(
        trace.info.missing,
        ["samples of call paths whose threads are not in the recording: 1"]
    );
}
