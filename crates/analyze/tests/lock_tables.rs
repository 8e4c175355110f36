//! The tables of `kasuri locks` beside those of holds: who waits for whom through very many holds, whose order of locks can
//! deadlock, waits that are not for locks, and the kernel's side. Each trace is small enough to work its answer out by hand.
use ThreadState::*;
use kasuri_analyze::{LockRow, Locks, MANY, Options, Session, WaitsFor, locks};
use kasuri_model::input::{Annotation, Event, KnownThread, Setup, What};
use kasuri_model::{AnnotationVec, Input, StrIx, Strings, ThreadState, Time, Trace};

const WAIT_BEGIN: u8 = 5;
const WAIT_END: u8 = 6;
const REQUEST: u8 = 7;
const ACQUIRED: u8 = 8;
const RELEASED: u8 = 9;
const EXCLUSIVE: u16 = 0;
const SHARED: u16 = 1;

/// Process 10 with threads 10 and up, one stream each; process 90 is a stranger.
#[derive(Default)]
struct Program {
    strings: Strings,
    streams: Vec<AnnotationVec>,
    cpus: Vec<Vec<Event>>,
    /// More processes of one thread each: pid and name.
    others: Vec<(i32, &'static str)>,
}

impl Program {
    fn put(&mut self, tid: i32, ns: i64, kind: u8, aux: u16, name: &str, object: u64) {
        let name = self.strings.intern(name);
        let event = Annotation { time: Time(ns), kind, aux, name, a: object, b: 0 };
        match self.streams.iter_mut().find(|s| s.tid == tid) {
            Some(stream) => stream.events.push(event),
            None => self.streams.push(AnnotationVec { pid: 10, tid, events: vec![event], at: 0 }),
        }
    }

    fn hold(&mut self, tid: i32, from: i64, to: i64, lock: u64) {
        self.put(tid, from, ACQUIRED, EXCLUSIVE, "&lock", lock);
        self.put(tid, to, RELEASED, EXCLUSIVE, "&lock", lock);
    }

    fn wait(&mut self, tid: i32, kind: u16, (from, to): (i64, i64), name: &str, object: u64) {
        self.put(tid, from, WAIT_BEGIN, kind, name, object);
        self.put(tid, to, WAIT_END, kind, name, object);
    }

    fn load(mut self, end: i64) -> Trace {
        self.streams.iter_mut().for_each(|s| s.events.sort_by_key(|e| e.time));
        let known = |(pid, tid)| KnownThread {
            pid,
            tid,
            ppid: 1,
            comm: format!("t{tid}"),
            ..KnownThread::default()
        };
        let ours = self.streams.iter().map(|s| (10, s.tid));
        let others = self.others.iter().map(|&(pid, name)| KnownThread {
            ppid: 10,
            comm: name.to_owned(),
            ..known((pid, pid))
        });
        let setup = Setup {
            root_pids: vec![10],
            n_cpus: self.cpus.len(),
            recorded: (0..self.cpus.len() as u32).collect(),
            known: ours.chain([(10, 10), (90, 90)]).map(known).chain(others).collect(),
            span: Time(0)..Time(end),
            ..Setup::default()
        };
        let input = Input { setup, strings: self.strings, cpus: self.cpus, streams: self.streams };
        let trace = input.build().unwrap();
        assert_eq!(trace.broken_rules(), Vec::<String>::new());
        trace
    }

    fn locks(self, end: i64) -> Locks {
        locks(&self.load(end), &Options::default())
    }
}

fn switch(ns: i64, prev: i32, left_as: ThreadState, next: i32) -> Event {
    Event::switch(ns, prev, left_as, next, StrIx::NONE)
}

fn kernel(ns: i64, context: i32, what: What) -> Event {
    Event { time: Time(ns), context, in_interrupt: false, what }
}

const A: u64 = 0xa0;

/// (holder, all, running, preempted, blocked) of what thread 10 waited for.
fn waited_for(l: &Locks) -> Vec<(i32, i64, i64, i64, i64)> {
    let row = |w: &WaitsFor| {
        assert_eq!(w.waiter_tid, 10);
        (w.holder_tid, w.ns, w.running_ns, w.preempted_ns, w.blocked_ns)
    };
    l.waits_for.iter().map(row).collect()
}

/// Thread 10 waits for A from 100 to 100 000. 11 and 12 take turns: 600 holds of 100 ns, every 150 ns from 200 on, the first of
/// them from 50 to 300. 13 has it once, 14 three times. All but 10 are on a CPU of their own; 12 sleeps from 30 000 to 60 000.
#[test]
fn a_wait_through_hundreds_of_holds_is_split_by_holder_and_state() {
    let mut p = Program::default();
    p.put(10, 100, REQUEST, EXCLUSIVE, "&lock", A);
    p.hold(10, 100_000, 100_100, A);
    p.hold(11, 50, 300, A);
    for i in 1..600 {
        let from = 200 + i * 150;
        p.hold(11 + (i % 2) as i32, from, from + 100, A);
    }
    p.hold(13, 95_000, 95_100, A);
    p.hold(14, 96_000, 96_010, A);
    p.hold(14, 96_020, 96_040, A);
    p.hold(14, 96_050, 96_080, A);
    p.cpus = vec![
        vec![switch(101_000, 11, Sleeping, 0)],
        vec![switch(30_000, 12, Sleeping, 0), switch(60_000, 0, RunnablePreempted, 12)],
        vec![switch(101_000, 13, Sleeping, 0)],
        vec![switch(101_000, 14, Sleeping, 0)],
    ];
    let l = p.locks(101_000);
    // 11: 100..300 of its first hold, and 299 more. 12: 300 holds, those from 30 050 to 59 850 asleep: 100 of them.
    // Nobody: 99 900 less 30 100, 30 000, 100 and 60.
    assert_eq!(
        waited_for(&l),
        [
            (0, 39_640, 0, 0, 0),
            (11, 30_100, 30_100, 0, 0),
            (12, 30_000, 20_000, 0, 10_000),
            (13, 100, 100, 0, 0),
            (14, 60, 60, 0, 0),
        ]
    );
    let lock = &l.locks[0];
    assert_eq!(
        (lock.holder_ns, lock.holder_running_ns, lock.holder_blocked_ns),
        (60_260, 50_260, 10_000)
    );
}

/// Of 256 threads that have the lock while 10 waits each is told; of 257 only the sum.
#[test]
fn a_crowd_of_holders_is_told_as_one() {
    for (n, edges) in [(256, 256), (257, 1)] {
        let mut p = Program::default();
        p.put(10, 100, REQUEST, EXCLUSIVE, "&lock", A);
        p.hold(10, 100_000, 100_100, A);
        for i in 0..n {
            p.hold(11 + i as i32, 200 + i * 150, 300 + i * 150, A);
        }
        let l = p.locks(101_000);
        let (nobody, holders): (Vec<_>, Vec<_>) =
            waited_for(&l).into_iter().partition(|w| w.0 == 0);
        assert_eq!(nobody, [(0, 99_900 - n * 100, 0, 0, 0)]);
        assert_eq!(holders.len(), edges);
        assert_eq!(holders.iter().map(|h| h.1).sum::<i64>(), n * 100);
        let crowd = l.waits_for.iter().filter(|w| w.holder == MANY).count();
        assert_eq!(crowd, usize::from(n == 257));
    }
}

/// A thread takes the first lock, and the second inside it, each in a mode.
type Step = (i32, (u64, u16), (u64, u16));

/// One step after the other, all locks exclusive.
fn orders(steps: &[(i32, u64, u64)]) -> Locks {
    let step =
        |&(tid, outer, inner): &(i32, u64, u64)| (tid, (outer, EXCLUSIVE), (inner, EXCLUSIVE));
    shared_orders(&steps.iter().map(step).collect::<Vec<Step>>())
}

fn shared_orders(steps: &[Step]) -> Locks {
    let mut p = Program::default();
    for (i, &(tid, outer, inner)) in steps.iter().enumerate() {
        let from = 1000 * i as i64 + 100;
        for (ns, kind, (lock, mode)) in [
            (from, ACQUIRED, outer),
            (from + 100, ACQUIRED, inner),
            (from + 200, RELEASED, inner),
            (from + 300, RELEASED, outer),
        ] {
            p.put(tid, ns, kind, mode, &format!("&{lock:x}"), lock);
        }
    }
    p.locks(1000 * steps.len() as i64 + 1000)
}

#[test]
fn one_thread_alone_cannot_deadlock_and_two_are_named() {
    // (first then second, second then first, thread of each order, whether it can deadlock)
    let told = |steps: &[(i32, u64, u64)]| {
        let l = orders(steps);
        assert_eq!(l.inversions.len(), 1, "{steps:?}");
        let i = &l.inversions[0];
        assert_eq!((&*i.first, &*i.second), ("a", "b"));
        let times = (i.first_then_second, i.second_then_first);
        (times, (i.tid_a, i.tid_b), i.can_deadlock)
    };
    assert_eq!(told(&[(10, 0xa, 0xb), (10, 0xb, 0xa), (10, 0xa, 0xb)]), ((2, 1), (10, 10), false));
    assert_eq!(told(&[(10, 0xa, 0xb), (11, 0xb, 0xa)]), ((1, 1), (10, 11), true));
    // 10 goes both ways; the other thread is the one that makes it a danger, whichever way it goes, and the first such.
    let both = [(10, 0xa, 0xb), (10, 0xb, 0xa)];
    let with = |more: &[(i32, u64, u64)]| told(&[&both[..], more].concat());
    assert_eq!(with(&[(11, 0xb, 0xa), (12, 0xb, 0xa)]), ((1, 3), (10, 11), true));
    assert_eq!(with(&[(11, 0xa, 0xb), (12, 0xa, 0xb)]), ((3, 1), (11, 10), true));
}

#[test]
fn an_order_has_the_place_of_its_first_request() {
    let mut p = Program::default();
    let mut take = |tid: i32, from: i64, outer: u64, inner: u64, place: Option<&str>| {
        p.put(tid, from, ACQUIRED, EXCLUSIVE, &format!("&{outer:x}"), outer);
        if let Some(place) = place {
            p.put(tid, from + 50, REQUEST, EXCLUSIVE, place, inner);
        }
        p.put(tid, from + 100, ACQUIRED, EXCLUSIVE, &format!("&{inner:x}"), inner);
        p.put(tid, from + 200, RELEASED, EXCLUSIVE, &format!("&{inner:x}"), inner);
        p.put(tid, from + 300, RELEASED, EXCLUSIVE, &format!("&{outer:x}"), outer);
    };
    take(10, 1000, 0xa, 0xb, None);
    take(10, 2000, 0xa, 0xb, Some("file.c:7"));
    take(11, 3000, 0xb, 0xa, Some("file.c:9"));
    take(11, 4000, 0xb, 0xa, Some("file.c:10"));
    let l = p.locks(6000);
    let places: Vec<_> = l.inversions.iter().map(|i| (&*i.place_a, &*i.place_b)).collect();
    assert_eq!(places, [("file.c:7", "file.c:9")]);
}

#[test]
fn readers_do_not_stop_each_other() {
    let (read, write) = (|lock| (lock, SHARED), |lock| (lock, EXCLUSIVE));
    let (a, b) = (0xa, 0xb);
    let n = |steps: &[_]| {
        let l = shared_orders(steps);
        assert_eq!(l.order_cycles, [], "two locks are a pair, or nothing");
        l.inversions.len()
    };
    // Readers of both, whoever comes first: neither waits.
    assert_eq!(n(&[(10, read(a), read(b)), (11, read(b), read(a))]), 0);
    // Whoever wants b waits for the other, who wants a and gets it: only readers have that.
    assert_eq!(n(&[(10, read(a), write(b)), (11, write(b), read(a))]), 0);
    // 11 holds b alone and wants a alone: 10 waits for b, 11 for a.
    assert_eq!(n(&[(10, read(a), write(b)), (11, write(b), write(a))]), 1);
    // Each wants alone what the other reads.
    assert_eq!(n(&[(10, read(a), write(b)), (11, read(b), write(a))]), 1);
    // Each has alone what the other wants to read.
    assert_eq!(n(&[(10, write(a), read(b)), (11, write(b), read(a))]), 1);
    // One time of many is enough.
    assert_eq!(
        n(&[
            (10, read(a), read(b)),
            (10, read(a), write(b)),
            (11, read(b), read(a)),
            (11, read(b), write(a)),
        ]),
        1
    );
}

#[test]
fn a_circle_of_four_is_one_unless_one_thread_goes_all_of_it() {
    let circle = |tids: [i32; 4]| {
        let locks = [0xa, 0xb, 0xc, 0xd, 0xa];
        let step = |i: usize| (tids[i], locks[i], locks[i + 1]);
        let l = orders(&[step(0), step(1), step(2), step(3)]);
        assert_eq!(l.inversions, []);
        let steps = l.order_cycles.iter().map(|c| &c.steps).next();
        steps.map(|steps| {
            let step = |s: &kasuri_analyze::OrderStep| (s.held.clone(), s.taken.clone(), s.tid);
            steps.iter().map(step).collect::<Vec<_>>()
        })
    };
    let step = |held: &str, taken: &str, tid| (held.to_owned(), taken.to_owned(), tid);
    assert_eq!(
        circle([10, 11, 10, 11]),
        Some(vec![step("a", "b", 10), step("b", "c", 11), step("c", "d", 10), step("d", "a", 11)])
    );
    assert_eq!(circle([10; 4]), None);
}

#[test]
fn waits_that_are_not_for_locks_are_summed_by_kind_place_and_object() {
    let mut p = Program::default();
    // At the barrier 10 waits twice and 11 once.
    p.wait(10, 1, (100, 400), "&meet", 0xb1);
    p.wait(11, 1, (200, 400), "&meet", 0xb1);
    p.wait(10, 1, (1000, 1100), "&meet", 0xb1);
    // Same place, another barrier; and other kinds of waits.
    p.wait(11, 1, (1000, 1050), "&meet", 0xb2);
    p.wait(10, 2, (2000, 2500), "main", 12);
    p.wait(11, 3, (2000, 2400), "&ready", 0xc1);
    p.wait(11, 4, (3000, 3300), "read", 0);
    p.wait(10, 0, (3000, 3200), "poll", 0);
    let l = p.locks(5000);
    let rows: Vec<_> = (l.waits.iter())
        .map(|w| {
            assert_eq!(w.pid, 10);
            let times = (w.count, w.threads, w.wait_ns, w.wait_max_ns);
            (w.kind, &*w.place, w.object, times)
        })
        .collect();
    assert_eq!(
        rows,
        [
            ("barrier", "meet", 0xb1, (3, 2, 600, 300)),
            ("join", "main", 12, (1, 1, 500, 500)),
            ("condition", "ready", 0xc1, (1, 1, 400, 400)),
            ("I/O", "read", 0, (1, 1, 300, 300)),
            ("other", "poll", 0, (1, 1, 200, 200)),
            ("barrier", "meet", 0xb2, (1, 1, 50, 50)),
        ]
    );
}

/// Thread 10 is on CPU 0 until 1000 but for 300..600, in a call 100..900, in which it waits 200..700 for a lock of the kernel:
/// asleep 300..600, so it runs 200 of that. The stranger 90 is in a call all the time, with a wait for a lock in it.
fn in_the_kernel() -> Program {
    let mut p = Program::default();
    let [call, other, lock] = ["write", "read", "rwsem write"].map(|n| p.strings.intern(n));
    p.cpus = vec![
        vec![
            kernel(100, 10, What::SyscallEntry { name: call }),
            kernel(200, 10, What::LockBegin { name: lock }),
            switch(300, 10, DiskSleep, 0),
            switch(600, 0, RunnablePreempted, 10),
            kernel(700, 10, What::LockEnd),
            kernel(900, 10, What::SyscallExit),
            switch(1000, 10, Sleeping, 0),
        ],
        vec![
            kernel(50, 90, What::SyscallEntry { name: other }),
            kernel(60, 90, What::LockBegin { name: lock }),
            kernel(950, 90, What::LockEnd),
            kernel(960, 90, What::SyscallExit),
            switch(1000, 90, Sleeping, 0),
        ],
    ];
    p
}

#[test]
fn the_kernels_share_counts_calls_on_a_cpu_and_waits_in_them() {
    let l = in_the_kernel().locks(1000);
    assert_eq!(l.cpu_ns, 700);
    // In the call on a CPU: 100..300 and 600..900.
    assert_eq!(l.syscall_ratio, Some(500.0 / 700.0));
    // It waited 500 of 700 on a CPU and 300 asleep.
    assert_eq!(l.kernel_contention_ratio, Some(500.0 / 1000.0));
    let calls: Vec<_> = (l.syscalls.iter())
        .map(|s| (s.pid, &*s.name, s.count, s.wall_ns, s.cpu_ns, s.max_ns))
        .collect();
    assert_eq!(calls, [(10, "write", 1, 800, 500, 800)]);
    let waits: Vec<_> = (l.kernel_locks.iter())
        .map(|k| (&*k.kind, &*k.caller, k.count, k.wait_ns, k.max_ns))
        .collect();
    assert_eq!(waits, [("rwsem write", "write", 1, 500, 500)]);
    // No call at all: not known, and not 0.
    let l = Program::default().locks(1000);
    assert_eq!((l.syscall_ratio, l.kernel_contention_ratio), (None, None));
    assert_eq!(l.unseen_futex_ns, None);
}

#[test]
fn a_range_cuts_calls_and_leaves_out_those_beside_it() {
    let trace = in_the_kernel().load(1000);
    let part =
        |from: i64, to: i64| Options { range: Some(Time(from)..Time(to)), ..Options::default() };
    // 650..1000: the call until 900, the wait until 700.
    let l = locks(&trace, &part(650, 1000));
    assert_eq!((l.syscalls[0].wall_ns, l.syscalls[0].cpu_ns), (250, 250));
    assert_eq!(l.kernel_locks[0].wait_ns, 50);
    assert_eq!(l.syscall_ratio, Some(250.0 / 350.0));
    // Nobody ran in this part: a share of no time is not known.
    let l = locks(&trace, &part(320, 580));
    assert_eq!((l.cpu_ns, l.syscalls[0].wall_ns), (0, 260));
    assert_eq!((l.syscall_ratio, l.kernel_contention_ratio), (None, None));
    let l = locks(&trace, &part(920, 1000));
    assert_eq!((l.syscalls.len(), l.kernel_locks.len()), (0, 0));
    // Everybody's: the stranger's calls have their rows, too.
    let all = Options { all_processes: true, ..Options::default() };
    let l = locks(&trace, &all);
    let calls: Vec<_> = l.syscalls.iter().map(|s| (s.pid, s.cpu_ns)).collect();
    assert_eq!(calls, [(90, 910), (10, 500)]);
    let waits: Vec<_> = l.kernel_locks.iter().map(|k| (&*k.caller, k.wait_ns)).collect();
    assert_eq!(waits, [("read", 890), ("write", 500)]);
}

/// CPU 0: 10 from 0 to 1000, with the lock from 100 to 300. CPU 1: `cc1` (20) to 400, in a call from 100 to 200; `cc1` (30) to 700; `as`.
#[test]
fn processes_of_one_name_are_a_program() {
    let mut p =
        Program { others: vec![(20, "cc1"), (30, "cc1"), (40, "as")], ..Program::default() };
    p.hold(10, 100, 300, A);
    let write = p.strings.intern("write");
    p.cpus = vec![
        vec![switch(0, 0, Sleeping, 10), switch(1000, 10, Sleeping, 0)],
        vec![
            switch(0, 0, Sleeping, 20),
            kernel(100, 20, What::SyscallEntry { name: write }),
            kernel(200, 20, What::SyscallExit),
            switch(400, 20, Sleeping, 30),
            switch(700, 30, Sleeping, 40),
            switch(1000, 40, Sleeping, 0),
        ],
    ];
    let all = Options { all_processes: true, ..Options::default() };
    let l = locks(&p.load(1000), &all);
    let rows: Vec<_> =
        (l.programs.iter()).map(|p| (&*p.name, p.processes, p.cpu_ns, p.syscall_ratio)).collect();
    let expected = [
        ("t10", 1, 1000, Some(0.0)),
        ("cc1", 2, 700, Some(100.0 / 700.0)),
        ("as", 1, 300, Some(0.0)),
    ];
    assert_eq!(rows, expected);
    // Locks of which none was seen are not known; the kernel's own were not recorded.
    let ratios: Vec<_> = l.programs.iter().map(|p| p.used.lock_ratio).collect();
    assert_eq!(ratios, [Some(0.2), None, None]);
    assert!(l.programs.iter().all(|p| p.kernel_contention_ratio.is_none()));
    // All that there is of one process is in the first lines.
    assert!(in_the_kernel().locks(1000).programs.is_empty());
}

#[test]
fn a_futex_call_is_explained_by_a_wait_that_overlaps_it() {
    let mut p = Program::default();
    let futex = p.strings.intern("futex");
    let call = |from: i64, to: i64| {
        [
            kernel(from, 10, What::SyscallEntry { name: futex }),
            switch(from + 10, 10, Sleeping, 0),
            switch(to - 10, 0, RunnablePreempted, 10),
            kernel(to, 10, What::SyscallExit),
        ]
    };
    // Beside a barrier wait 100..200; within a hold, which explains no waiting; after all of them.
    p.cpus = vec![[call(110, 190), call(310, 390), call(510, 590)].concat()];
    p.wait(10, 1, (100, 200), "&meet", 0xb1);
    p.hold(10, 300, 400, A);
    p.wait(10, 1, (500, 511), "&meet", 0xb1);
    let l = p.locks(1000);
    // Asleep 320..380; the last one began in a wait.
    assert_eq!(l.unseen_futex_ns, Some(60));
}

#[test]
fn a_lock_taken_again_by_its_holder_is_held_once() {
    let mut p = Program::default();
    for (ns, kind) in [(100, ACQUIRED), (200, ACQUIRED), (300, RELEASED), (400, RELEASED)] {
        p.put(10, ns, kind, EXCLUSIVE, "&lock", A);
    }
    p.hold(10, 600, 700, A);
    let l = p.locks(1000);
    let u = &l.locks[0].used;
    assert_eq!((u.holds, u.hold_wall_ns, u.hold_max_ns), (2, 400, 300));
}

/// What a prediction asks first, without the tables.
#[test]
fn a_lock_that_was_waited_for_and_never_held_is_told_without_tables() {
    let waits = |holds: &[u64]| {
        let mut p = Program::default();
        for (at, lock) in [(100, A), (300, A + 64)] {
            p.put(11, at, REQUEST, EXCLUSIVE, "&lock", lock);
            p.put(11, at + 100, ACQUIRED, EXCLUSIVE, "&lock", lock);
            p.put(11, at + 150, RELEASED, EXCLUSIVE, "&lock", lock);
        }
        p.put(12, 500, REQUEST, EXCLUSIVE, "&lock", A + 128);
        (holds.iter()).for_each(|&lock| p.hold(10, 600, 700, lock));
        let trace = p.load(1000);
        let options = Options::default();
        let session = Session::new(&trace, &options);
        let unheld = |l: &LockRow| l.used.requests > 0 && l.used.holds == 0;
        let told = session.waits_for_unheld();
        assert_eq!(told, session.locks().locks.iter().any(unheld));
        told
    };
    assert!(waits(&[]));
    assert!(waits(&[A]));
    assert!(!waits(&[A + 128]));
}

const TASK_CREATE: u8 = 10;
const TASK_START: u8 = 11;
const TASK_SUSPEND: u8 = 12;
const TASK_RESUME: u8 = 13;
const TASK_END: u8 = 14;

/// Thread 10 runs the task `outer` 100..900, which holds A 100..500 and in which the task `inner` runs 500..700 and holds B
/// 500..600. The thread is off its CPU 200..300. Thread 11 asks for A at 200 and has it from 500 on.
#[test]
fn tasks_own_locks_and_their_cpu_time_is_without_the_tasks_inside() {
    let mut p = Program::default();
    for (ns, kind, name, task) in [
        (50, TASK_CREATE, "outer", 1),
        (60, TASK_CREATE, "inner", 2),
        (100, TASK_START, "outer", 1),
        (500, TASK_START, "inner", 2),
        (700, TASK_END, "", 2),
        (900, TASK_END, "", 1),
    ] {
        p.put(10, ns, kind, 0, name, task);
    }
    p.hold(10, 100, 500, A);
    p.hold(10, 500, 600, 0xb0);
    p.streams[0].events.sort_by_key(|e| (e.time, e.kind == ACQUIRED));
    p.put(11, 200, REQUEST, EXCLUSIVE, "&lock", A);
    p.hold(11, 500, 550, A);
    p.cpus = vec![
        vec![
            switch(200, 10, Sleeping, 0),
            switch(300, 0, RunnablePreempted, 10),
            switch(1000, 10, Sleeping, 0),
        ],
        vec![switch(1000, 11, Sleeping, 0)],
    ];
    let l = p.locks(1000);
    let rows: Vec<_> = (l.tasks.iter())
        .map(|t| {
            let u = &t.used;
            (&*t.name, t.tasks, u.holds, u.hold_wall_ns, u.hold_cpu_ns, u.lock_ratio)
        })
        .collect();
    // On a CPU: 100..200 and 300..900, without 500..700 of the inner one.
    assert_eq!(
        rows,
        [
            ("outer", 1, 1, 400, 300, Some(300.0 / 500.0)),
            ("inner", 1, 1, 100, 100, Some(100.0 / 200.0)),
        ]
    );
    // 11 waited through 300 of the 400 for which the task had the lock: three quarters of what the task did meanwhile.
    let edge = &l.waits_for[0];
    assert_eq!((edge.waiter_tid, &*edge.holder, edge.holder_tid), (11, "outer", 0));
    assert_eq!((edge.ns, edge.running_ns, edge.preempted_ns, edge.blocked_ns), (300, 225, 0, 75));
}

#[test]
fn a_hold_that_a_task_takes_along_is_one() {
    // Taken on thread 10, suspended 300..600, given back on thread 11: the recording has no other lock.
    let mut p = Program::default();
    p.put(10, 50, TASK_CREATE, 0, "t", 1);
    p.put(10, 100, TASK_START, 0, "t", 1);
    p.put(10, 200, ACQUIRED, EXCLUSIVE, "&lock", A);
    p.put(10, 300, TASK_SUSPEND, 0, "", 1);
    p.put(11, 600, TASK_RESUME, 0, "", 1);
    p.put(11, 700, RELEASED, EXCLUSIVE, "&lock", A);
    p.put(11, 800, TASK_END, 0, "", 1);
    let l = p.locks(1000);
    let u = &l.locks[0].used;
    assert_eq!((u.holds, u.hold_wall_ns), (1, 500));
    assert_eq!((l.tasks.len(), l.tasks[0].tasks), (1, 1));
}
