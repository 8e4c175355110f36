//! One small trace with every answer worked out by hand, and the changes to it that must not change an answer.
use ThreadState::*;
use kasuri_analyze::{Latency, Options, Summary, summary};
use kasuri_model::input::{Annotation, Event, Setup, What};
use kasuri_model::{AnnotationVec, Input, StrIx, Strings, ThreadState, Time, Trace};

/// What the same story may be told with: other ids, other CPUs, another time.
#[derive(Clone, Copy)]
struct Story {
    shift: i64,
    tid: fn(i32) -> i32,
    swap_cpus: bool,
    idle_thread: bool,
}

const PLAIN: Story = Story { shift: 0, tid: |t| t, swap_cpus: false, idle_thread: false };

/// The kernel's name of all threads.
const T: StrIx = StrIx(0);

impl Story {
    fn switch(&self, ns: i64, prev: i32, left_as: ThreadState, next: i32) -> Event {
        let (prev, next) = ((self.tid)(prev), (self.tid)(next));
        let what = What::Switch { prev, prev_comm: T, left_as, next, next_comm: T };
        Event { time: Time(ns + self.shift), context: prev, in_interrupt: false, what }
    }

    fn waking(&self, ns: i64, context: i32, tid: i32, cpu: i32) -> Event {
        let what = What::Waking {
            tid: (self.tid)(tid),
            comm: T,
            cpu: if self.swap_cpus { 1 - cpu } else { cpu },
            in_softirq: false,
        };
        Event {
            time: Time(ns + self.shift),
            context: (self.tid)(context),
            in_interrupt: false,
            what,
        }
    }

    fn fork(&self, ns: i64, parent: i32, child: i32, same: bool) -> Event {
        let (parent, child) = ((self.tid)(parent), (self.tid)(child));
        let what = What::Fork { parent, child, comm: T, pid: None, same_process: Some(same) };
        Event { time: Time(ns + self.shift), context: parent, in_interrupt: false, what }
    }

    /// Process 10 (threads 10, 11) is the target; 99 is a stranger.
    ///
    /// CPU 0: 0 10 runs .. 600 preempted by 99 .. 700 10 again .. 1000.
    /// CPU 1: 0 idle .. 110 11 runs .. 500 sleeps, idle .. 820 11 .. 1000.
    /// 11 is made by 10 at 90 and first woken at 100 (latency 10); woken by 10 at 800 (latency 20).
    fn kernel(&self) -> Vec<Vec<Event>> {
        let cpu0 = vec![
            self.fork(90, 10, 11, true),
            self.waking(100, 10, 11, 1),
            self.switch(600, 10, RunnablePreempted, 99),
            self.switch(700, 99, Sleeping, 10),
            self.waking(800, 10, 11, 1),
        ];
        let cpu1 = vec![
            self.switch(110, 0, RunnablePreempted, 11),
            self.switch(500, 11, Sleeping, 0),
            self.switch(820, 0, RunnablePreempted, 11),
        ];
        if self.swap_cpus { vec![cpu1, cpu0] } else { vec![cpu0, cpu1] }
    }

    /// Two rounds of work between waits at barrier 0xb:
    /// 10: work 120..200, barrier 200..400; work 400..900, barrier 900..910.
    /// 11: work 120..400, barrier 400..405; work 405..500, barrier 500..910.
    fn annotations(&self, strings: &mut Strings) -> Vec<AnnotationVec> {
        let (work, barrier) = (strings.intern("work"), strings.intern("sync"));
        let rounds =
            [(10, [(120, 200, 400), (400, 900, 910)]), (11, [(120, 400, 405), (405, 500, 910)])];
        let stream = |(tid, rounds): (i32, [(i64, i64, i64); 2])| {
            let put = |ns: i64, kind: u8, name: StrIx, aux: u16, a: u64| Annotation {
                time: Time(ns + self.shift),
                kind,
                aux,
                name,
                a,
                b: 0,
            };
            let events = rounds.iter().flat_map(|&(begin, end, go)| {
                [
                    put(begin, 1, work, 0, 0),
                    put(end, 2, work, 0, 0),
                    put(end, 5, barrier, 1, 0xb),
                    put(go, 6, barrier, 1, 0xb),
                ]
            });
            AnnotationVec {
                pid: (self.tid)(10),
                tid: (self.tid)(tid),
                events: events.collect(),
                at: 0,
            }
        };
        rounds.into_iter().map(stream).collect()
    }

    fn load(&self) -> Trace {
        let mut strings = Strings::default();
        assert_eq!(strings.intern("t"), T);
        let streams = self.annotations(&mut strings);
        let mut known = Vec::new();
        if self.idle_thread {
            let (pid, tid) = ((self.tid)(10), 5000);
            known.push(kasuri_model::input::KnownThread {
                time: Time(self.shift),
                pid,
                tid,
                ppid: 1,
                comm: "idler".into(),
            });
        }
        let setup = Setup {
            span: Time(self.shift)..Time(self.shift + 1000),
            n_cpus: 2,
            root_pids: vec![(self.tid)(10)],
            known,
            recorded: vec![0, 1],
            ..Setup::default()
        };
        let mut trace = Input { setup, strings, cpus: self.kernel(), streams }.build().unwrap();
        trace.info.kernel_source = "tracefs".into();
        assert_eq!(trace.broken_rules(), Vec::<String>::new());
        assert_eq!(trace.disagreements(), Vec::<String>::new());
        trace
    }

    fn summary(&self) -> Summary {
        summary(&self.load(), &Options::default())
    }
}

#[test]
fn totals() {
    let s = PLAIN.summary();
    assert_eq!((s.wall_ns, s.n_cpus, s.capacity_ns, s.cpus_used), (1000, 2, 2000, 2));
    // 10: 600 + 300; 11: 390 + 180.
    assert_eq!(s.on_cpu_ns, 900 + 570);
    assert_eq!(s.cpu_use, Some(1470.0 / 2000.0));
    // 10 left once, preempted; 11 left once. 11 was woken twice.
    assert_eq!((s.switches, s.preemptions, s.wakeups), (2, 1, 2));
    // Latencies 10, 20: the 50th percentile is the 1st of 2, the 99th the 2nd.
    assert_eq!(s.wake_latency_ns, Some(Latency { p50: 10, p99: 20, max: 20 }));
}

#[test]
fn threads_and_cpus_add_up() {
    let s = PLAIN.summary();
    let [ten, eleven] = &s.threads[..] else { panic!("{:?}", s.threads) };
    assert_eq!(
        (ten.tid, ten.on_cpu_ns, ten.preempted_ns, ten.blocked_ns, ten.alive_ns),
        (10, 900, 100, 0, 1000)
    );
    // 11 lives from 90: 20 until its first run, 20 after its wake-up, asleep 500..800.
    assert_eq!((eleven.tid, eleven.alive_ns, eleven.on_cpu_ns), (11, 910, 570));
    assert_eq!(
        (eleven.woken_ns, eleven.runnable_ns, eleven.blocked_ns, eleven.unknown_ns),
        (40, 40, 300, 0)
    );
    for t in &s.threads {
        assert_eq!(t.on_cpu_ns + t.runnable_ns + t.blocked_ns + t.unknown_ns, t.alive_ns);
    }
    let rows: Vec<(i64, i64, i64)> =
        s.cpus.iter().map(|c| (c.target_ns, c.other_ns, c.idle_ns)).collect();
    assert_eq!(rows, [(900, 100, 0), (570, 0, 430)]);
}

#[test]
fn annotations_by_name() {
    let s = PLAIN.summary();
    let work = s.annotations.iter().find(|a| a.name == "work").unwrap();
    // 80 + 500 + 280 + 95; on a CPU: 10 was off 600..700 within its second, 11 never within its work.
    assert_eq!((work.count, work.threads, work.total_ns, work.on_cpu_ns), (4, 2, 955, Some(855)));
    // Sorted 80 95 280 500.
    assert_eq!((work.p50_ns, work.p99_ns, work.max_ns, work.self_ns), (95, 500, 500, 955));
    let sync = s.waits.iter().find(|w| w.kind == "barrier").unwrap();
    // 200 + 10 + 5 + 410.
    assert_eq!((sync.object, sync.count, sync.threads, sync.total_ns), (0xb, 4, 2, 625));
}

#[test]
fn imbalance_between_barriers() {
    let s = PLAIN.summary();
    let work = s.imbalance.iter().find(|i| i.by == "barrier").unwrap();
    // Round 1: 80 and 280, mean 180; round 2: 500 less 100 preempted and 95, mean 247.5.
    assert_eq!(
        (work.busy, work.instances, work.threads, work.max_busy_ns, work.mean_busy_ns),
        ("on_cpu", 2, 2, 680, 427.5)
    );
    assert_eq!(work.imbalance, (680.0 - 427.5) / 680.0);
    assert_eq!(work.cost_ns, 2.0 * 100.0 + 2.0 * 152.5);
    assert!(!work.is_static && work.worst_share == 0.5);
    // Of regions only the second is whole: 400..900 less 100 preempted and 405..500.
    let region = s.imbalance.iter().find(|i| i.by == "region").unwrap();
    assert_eq!(
        (region.name.as_str(), region.instances, region.max_busy_ns, region.worst_tid),
        ("sync", 1, 400, 10)
    );
}

#[test]
fn imbalance_without_the_scheduler_is_of_wall_time() {
    let mut trace = PLAIN.load();
    trace.info.kernel_source = "none".into();
    let s = summary(&trace, &Options::default());
    let work = s.imbalance.iter().find(|i| i.by == "barrier").unwrap();
    // Round 1: 80 and 280, mean 180; round 2: 500 and 95, mean 297.5.
    assert_eq!((work.busy, work.max_busy_ns, work.mean_busy_ns), ("wall", 780, 477.5));
    let region = s.imbalance.iter().find(|i| i.by == "region").unwrap();
    assert_eq!((region.busy, region.max_busy_ns), ("wall", 500));
}

#[test]
fn imbalance_is_none_when_another_program_made_a_thread_late() {
    // Both have 200 ns of work in each round; 10 is kept from its CPU by a stranger for 300 ns of the second.
    let mut strings = Strings::default();
    let (work, sync) = (strings.intern("work"), strings.intern("sync"));
    let stream = |tid, ends: [i64; 2]| {
        let event = |(ns, kind, name): (i64, u8, StrIx)| Annotation {
            time: Time(ns),
            kind,
            aux: u16::from(name == sync),
            name,
            a: if name == sync { 0xb } else { 0 },
            b: 0,
        };
        let [first, second] = ends;
        let events = [
            (0, 1, work),
            (first, 2, work),
            (first, 5, sync),
            (300, 6, sync),
            (300, 1, work),
            (second, 2, work),
            (second, 5, sync),
            (900, 6, sync),
        ];
        AnnotationVec { pid: 10, tid, events: events.into_iter().map(event).collect(), at: 0 }
    };
    let streams = vec![stream(10, [200, 800]), stream(11, [200, 500])];
    let cpus = vec![
        vec![PLAIN.switch(400, 10, RunnablePreempted, 99), PLAIN.switch(700, 99, Sleeping, 10)],
        vec![PLAIN.switch(950, 11, Sleeping, 0)],
    ];
    let setup =
        Setup { span: Time(0)..Time(1000), n_cpus: 2, recorded: vec![0, 1], ..Setup::default() };
    let mut trace = Input { setup, strings, cpus, streams }.build().unwrap();
    let cost = |trace: &Trace| -> Vec<f64> {
        let s = summary(trace, &Options::default());
        s.imbalance.iter().map(|i| i.cost_ns).collect()
    };
    trace.info.kernel_source = "tracefs".into();
    assert_eq!(cost(&trace), [0.0, 0.0], "a region and its work");
    // Negative control: by wall time it was 500 against 200, which cost 300.
    trace.info.kernel_source = "none".into();
    assert_eq!(cost(&trace), [300.0, 300.0]);
}

#[test]
fn a_range_that_cuts_threads_at_different_places_pairs_the_same_rounds() {
    // 10 leaves the first barrier at 205, 11 at 203; the range begins between. Round two: 10 works 205..305, 11 203..403,
    // of which 199 in the range: cost 99, in one round and not in two.
    let mut strings = Strings::default();
    let (work, sync) = (strings.intern("work"), strings.intern("sync"));
    let stream = |tid, at: [i64; 6]| {
        let kinds = [(1, work), (2, work), (5, sync), (6, sync)];
        let times = [at[0], at[1], at[1], at[2], at[3], at[4], at[4], at[5]];
        let events = times.iter().zip(kinds.iter().cycle());
        let event = |(&ns, &(kind, name)): (&i64, &(u8, StrIx))| Annotation {
            time: Time(ns),
            kind,
            aux: u16::from(name == sync),
            name,
            a: if name == sync { 0xb } else { 0 },
            b: 0,
        };
        AnnotationVec { pid: 10, tid, events: events.map(event).collect(), at: 0 }
    };
    let setup = Setup { span: Time(0)..Time(1000), ..Setup::default() };
    let trace = Input {
        setup,
        strings,
        cpus: Vec::new(),
        streams: vec![
            stream(10, [0, 100, 205, 205, 305, 410]),
            stream(11, [0, 200, 203, 203, 403, 408]),
        ],
    }
    .build()
    .unwrap();
    let options =
        Options { range: Some(Time(204)..Time(1000)), all_processes: true, ..Options::default() };
    let s = summary(&trace, &options);
    let found: Vec<_> = (s.imbalance.iter()).map(|i| (i.by, i.instances, i.cost_ns)).collect();
    assert_eq!(found, [("region", 1, 99.0), ("barrier", 1, 99.0)]);
}

#[test]
fn interference_names_who_ran_instead() {
    let s = PLAIN.summary();
    assert_eq!(s.interference.len(), 1, "idle CPUs delay nobody");
    let stranger = &s.interference[0];
    assert_eq!(
        (stranger.pid, stranger.preemptions, stranger.delayed_ns, stranger.threads_delayed),
        (99, 1, 100, 1)
    );
    assert!(!stranger.is_target);
}

#[test]
fn a_range_is_a_part_of_the_whole() {
    let trace = PLAIN.load();
    let part = |from, to| {
        summary(&trace, &Options { range: Some(Time(from)..Time(to)), ..Options::default() })
    };
    let (whole, halves) = (PLAIN.summary(), [part(0, 450), part(450, 1000)]);
    let sum = |f: fn(&Summary) -> i64| halves.iter().map(f).sum::<i64>();
    assert_eq!(sum(|s| s.on_cpu_ns), whole.on_cpu_ns);
    assert_eq!(sum(|s| s.switches as i64), whole.switches as i64);
    assert_eq!(sum(|s| s.wakeups as i64), whole.wakeups as i64);
    assert_eq!(sum(|s| s.capacity_ns), whole.capacity_ns);
    assert_eq!(sum(|s| s.interference.iter().map(|i| i.delayed_ns).sum()), 100);
    let work =
        |s: &Summary| s.annotations.iter().find(|a| a.name == "work").map_or(0, |a| a.total_ns);
    assert_eq!(halves.iter().map(work).sum::<i64>(), work(&whole));
}

/// The answer without ids and points in time.
fn anonymous(mut s: Summary) -> Summary {
    (s.from_ns, s.to_ns) = (0, 0);
    let start = s.account.causes.iter().map(|c| c.longest_from_ns).min();
    for c in &mut s.account.causes {
        c.pid = c.pid.map(|_| 0);
        c.tid = c.tid.map(|_| 0);
        c.longest_from_ns -= start.unwrap_or(0);
        c.longest_to_ns -= start.unwrap_or(0);
    }
    s.account.cpus.iter_mut().for_each(|c| c.cpu = 0);
    s.account.cpus.sort_by_key(|c| c.classes.len());
    s.account.threads.iter_mut().for_each(|t| (t.pid, t.tid) = (0, 0));
    s.cpus.sort_by_key(|c| c.target_ns);
    s.cpus.iter_mut().for_each(|c| c.cpu = 0);
    s.threads.iter_mut().for_each(|t| (t.pid, t.tid) = (0, 0));
    for i in &mut s.imbalance {
        (i.pid, i.worst_tid, i.rounds.worst_at_ns) = (0, 0, 0);
        i.by_thread.iter_mut().for_each(|t| t.tid = 0);
    }
    s.waits.iter_mut().for_each(|w| w.pid = 0);
    s.program.processes.iter_mut().for_each(|p| p.pid = 0);
    if let Some(worst) = &mut s.worst_wakeup {
        (worst.at_ns, worst.pid, worst.tid, worst.cpu) = (0, 0, 0, None);
    }
    for i in &mut s.interference {
        (i.pid, i.cpus) = (0, Vec::new());
    }
    s.hints.iter_mut().for_each(|h| (h.text, h.command) = (String::new(), None));
    s
}

#[test]
fn other_ids_cpus_and_times_change_no_answer() {
    let plain = anonymous(PLAIN.summary());
    assert_eq!(plain, anonymous(Story { shift: 123_456_789, ..PLAIN }.summary()));
    assert_eq!(plain, anonymous(Story { swap_cpus: true, ..PLAIN }.summary()));
    let renamed = Story { tid: |t| if t == 0 { 0 } else { 4_000_000 - 7 * t }, ..PLAIN };
    assert_eq!(plain, anonymous(renamed.summary()));
}

#[test]
fn an_idle_thread_adds_its_row_and_nothing_else() {
    let mut more = Story { idle_thread: true, ..PLAIN }.summary();
    let idle = more.threads.pop().unwrap();
    assert_eq!((idle.name.as_str(), idle.on_cpu_ns, idle.unknown_ns), ("idler", 0, 1000));
    let account = &mut more.account.threads;
    let idler = account.iter().position(|t| t.name == "idler").unwrap();
    assert_eq!(account.remove(idler).alive_ns, 1000);
    more.program.n_threads -= 1;
    assert_eq!(more, PLAIN.summary());
}

#[test]
fn an_empty_trace_has_an_answer() {
    let s = summary(&Trace::default(), &Options::default());
    assert_eq!((s.wall_ns, s.cpu_use, s.wake_latency_ns), (0, None, None));
    assert_eq!(s.schema, "kasuri.stat/1");
}

#[test]
fn migrations_have_their_cause_and_the_time_around_them() {
    // 10 runs on CPU 0, 11 on CPU 1; 18 is the stopper migration/0.
    let mut strings = Strings::default();
    assert_eq!(strings.intern("t"), T);
    let stopper = strings.intern("migration/0");
    let moved = |ns, context, tid, from, to| Event {
        time: Time(ns),
        context,
        in_interrupt: false,
        what: What::Migrate { tid, from, to },
    };
    let by_stopper = |ns, prev, left_as, next| {
        let mut event = PLAIN.switch(ns, prev, left_as, next);
        if let What::Switch { prev_comm, next_comm, .. } = &mut event.what {
            *(if prev == 18 { prev_comm } else { next_comm }) = stopper;
        }
        event
    };
    let wake_stopper = |ns, context| {
        let mut event = PLAIN.waking(ns, context, 18, 0);
        if let What::Waking { comm, .. } = &mut event.what {
            *comm = stopper;
        }
        event
    };
    let cpu0 = vec![
        // Wake-up: 10 sleeps at 100; 11 wakes it at 150 and puts it on CPU 1, where it runs from 200.
        PLAIN.switch(100, 10, Sleeping, 0),
        // Balance: CPU 0 takes 11 at 300 out of CPU 1's queue, where it has been since 200.
        moved(300, 0, 11, 1, 0),
        PLAIN.switch(310, 0, RunnablePreempted, 11),
        // Affinity: 11 asks for CPU 1; the stopper it wakes takes the CPU from it, and moves it.
        wake_stopper(400, 11),
        by_stopper(405, 11, RunnablePreempted, 18),
        moved(410, 18, 11, 0, 1),
        by_stopper(415, 18, Sleeping, 0),
    ];
    let cpu1 = vec![
        PLAIN.waking(150, 11, 10, 0),
        moved(155, 11, 10, 0, 1),
        PLAIN.switch(200, 11, RunnablePreempted, 10),
        PLAIN.switch(450, 10, Sleeping, 11),
        PLAIN.switch(900, 11, Sleeping, 0),
    ];
    let setup = Setup {
        span: Time(0)..Time(1000),
        n_cpus: 2,
        recorded: vec![0, 1],
        has_migrations: true,
        ..Setup::default()
    };
    let mut trace =
        Input { setup, strings, cpus: vec![cpu0, cpu1], streams: Vec::new() }.build().unwrap();
    trace.info.kernel_source = "tracefs".into();
    let all = Options { all_processes: true, ..Options::default() };
    let found: Vec<_> = (summary(&trace, &all).migration_list.iter())
        .map(|m| (m.tid, m.from_cpu, m.to_cpu, m.why, m.off_cpu_ns))
        .collect();
    let expected = [
        (10, 0, 1, "wake-up", Some(100)),
        (11, 1, 0, "balance", Some(110)),
        (11, 0, 1, "affinity", Some(45)),
    ];
    assert_eq!(found, expected);
    // The same, where moves are only seen by where threads come on.
    trace.info.kernel_source = "perf".into();
    let whys = summary(&trace, &all).migration_list;
    assert!(whys.iter().all(|m| m.why == "unknown"));
}

/// Two threads, rounds of work ended by a barrier; `work(round, thread)` is the time each is busy.
fn rounds(n: i64, work: impl Fn(i64, i64) -> i64) -> Trace {
    let mut strings = Strings::default();
    let (name, sync) = (strings.intern("loop"), strings.intern("sync"));
    let stream = |thread: i64| {
        let mut at = 0;
        let mut events = Vec::new();
        for round in 0..n {
            let end = at + work(round, thread);
            let go = at + work(round, 0).max(work(round, 1)) + 10;
            let kinds = [(at, 1, name), (end, 2, name), (end, 5, sync), (go, 6, sync)];
            events.extend(kinds.map(|(ns, kind, name)| Annotation {
                time: Time(ns),
                kind,
                aux: u16::from(name == sync),
                name,
                a: if name == sync { 0xb } else { 0 },
                b: 0,
            }));
            at = go;
        }
        AnnotationVec { pid: 10, tid: 10 + thread as i32, events, at: 0 }
    };
    let setup = Setup { span: Time(0)..Time(1_000_000), ..Setup::default() };
    Input { setup, strings, cpus: Vec::new(), streams: vec![stream(0), stream(1)] }.build().unwrap()
}

#[test]
fn imbalance_tells_a_static_split_from_a_changing_one() {
    let all = Options { all_processes: true, ..Options::default() };
    let of = |trace: &Trace| {
        let s = summary(trace, &all);
        s.imbalance.into_iter().find(|i| i.by == "barrier").unwrap()
    };
    // Thread 1 always has twice the work: cost 100 a round, all of it static.
    let uneven = of(&rounds(20, |_, thread| 100 + 100 * thread));
    assert_eq!((uneven.cause, uneven.worst_tid), ("static", 11));
    assert_eq!((uneven.cost_ns, uneven.static_cost_ns), (2000.0, 2000.0));
    assert_eq!(uneven.rounds.histogram, [0, 0, 20, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(uneven.by_thread[0].busy_ns, 4000);
    // They take turns: the same cost, none of it static.
    let turns = of(&rounds(20, |round, thread| 100 + 100 * ((round + thread) % 2)));
    assert_eq!((turns.cause, turns.cost_ns), ("changing", 2000.0));
    assert_eq!(turns.static_cost_ns, 0.0);
    // One round is worse than the others, and is named.
    let once = of(&rounds(20, |round, thread| if round == 7 { 300 * (thread + 1) } else { 100 }));
    assert_eq!((once.cause, once.rounds.max), ("changing", 0.25));
    assert_eq!(once.rounds.worst_at_ns, 7 * 110);
    // Too few to tell.
    assert_eq!(of(&rounds(4, |_, thread| 100 + 100 * thread)).cause, "unknown");
}

#[test]
fn a_region_of_openmp_begins_with_its_team() {
    // Between two regions 10 runs alone, 300..500, and 11 spins in its dock. In the second region, 500 on, they work 300 and 200 ns.
    let mut strings = Strings::default();
    let names = ["parallel main:9", "barrier of parallel main:9", "omp: idle"];
    let [work, sync, idle] = names.map(|name| strings.intern(name));
    let stream = |tid, end: i64, is_worker: bool| {
        let mut events = vec![(0, 1, work), (200, 2, work), (200, 5, sync), (300, 6, sync)];
        if is_worker {
            events.extend([(300, 1, idle), (500, 2, idle)]);
        }
        events.extend([(500, 1, work), (end, 2, work), (end, 5, sync), (800, 6, sync)]);
        let event = |(ns, kind, name): (i64, u8, StrIx)| Annotation {
            time: Time(ns),
            kind,
            aux: u16::from(name == sync),
            name,
            a: if name == sync { 0xb } else { 0 },
            b: 0,
        };
        AnnotationVec { pid: 10, tid, events: events.into_iter().map(event).collect(), at: 0 }
    };
    let setup = Setup { span: Time(0)..Time(1000), ..Setup::default() };
    let mut trace = Input {
        setup,
        strings,
        cpus: Vec::new(),
        streams: vec![stream(10, 800, false), stream(11, 700, true)],
    }
    .build()
    .unwrap();
    trace.info.kernel_source = "none".into();
    let s = summary(&trace, &Options::default());
    let region = s.imbalance.iter().find(|i| i.by == "region").unwrap();
    assert_eq!((region.instances, region.max_busy_ns, region.mean_busy_ns), (1, 300, 250.0));
}
