//! Planted locks with every answer worked out by hand: one trace for holds, waits and hand-overs, small ones for orders of
//! locks, and the kernel's side of waiting. What was not seen must be absent from the answer and not 0.
use ThreadState::*;
use kasuri_analyze::{Locks, Options, locks};
use kasuri_model::input::{Annotation, Event, KnownThread, Setup, What};
use kasuri_model::{AnnotationVec, Input, StrIx, Strings, ThreadState, Time, Trace};

/// The kernel's name of all threads.
const T: StrIx = StrIx(0);

fn known(tid: i32) -> KnownThread {
    KnownThread { time: Time(0), pid: 10, tid, ppid: 1, comm: "worker".into() }
}

const REQUEST: u8 = 7;
const ACQUIRED: u8 = 8;
const RELEASED: u8 = 9;
const A: u64 = 0xa0;
const B: u64 = 0xb0;

fn switch(ns: i64, prev: i32, left_as: ThreadState, next: i32) -> Event {
    Event::switch(ns, prev, left_as, next, T)
}

fn waking(ns: i64, context: i32, tid: i32) -> Event {
    Event::waking(ns, context, tid, T)
}

/// Thread 10 on CPU 0 all the time but for 3000..5000 (preempted by 99) and 6000..7000 (asleep, inside lock A); 11 on CPU 1 until it
/// waits for A: asleep 2500..8100, woken at 8000, running again at 8100.
fn planted() -> Trace {
    let mut strings = Strings::default();
    strings.intern("worker");
    let (a, b) = (strings.intern("&a"), strings.intern("&b"));
    let [futex, read, spin] = ["futex", "read", "spinlock"].map(|name| strings.intern(name));
    let put = |ns: i64, kind: u8, object: u64| Annotation {
        time: Time(ns),
        kind,
        aux: 0,
        name: if object == A { a } else { b },
        a: object,
        b: 0,
    };
    let streams = vec![
        AnnotationVec {
            pid: 10,
            tid: 10,
            events: vec![
                put(900, REQUEST, A),
                put(1_000, ACQUIRED, A),
                put(8_000, RELEASED, A),
                put(9_000, ACQUIRED, A),
                put(9_100, ACQUIRED, B),
                put(9_200, RELEASED, B),
                put(9_300, RELEASED, A),
            ],
            at: 0,
        },
        AnnotationVec {
            pid: 10,
            tid: 11,
            events: vec![
                put(2_000, REQUEST, A),
                put(8_200, ACQUIRED, A),
                put(8_700, RELEASED, A),
                put(9_400, ACQUIRED, B),
                put(9_500, ACQUIRED, A),
                put(9_600, RELEASED, A),
                put(9_700, RELEASED, B),
            ],
            at: 0,
        },
    ];
    // 11 waits in a futex call, 10 sleeps in a read and waits for a lock of the kernel in it.
    let call = |ns, context, what| Event { time: Time(ns), context, in_interrupt: false, what };
    let cpu0 = vec![
        switch(3_000, 10, RunnablePreempted, 99),
        switch(5_000, 99, Sleeping, 10),
        call(5_500, 10, What::SyscallEntry { name: read }),
        call(5_600, 10, What::LockBegin { name: spin }),
        call(5_700, 10, What::LockEnd),
        switch(6_000, 10, Sleeping, 0),
        waking(7_000, 0, 10),
        switch(7_000, 0, RunnablePreempted, 10),
        call(7_500, 10, What::SyscallExit),
        waking(8_000, 10, 11),
        switch(10_000, 10, RunnablePreempted, 0),
    ];
    let cpu1 = vec![
        call(2_400, 11, What::SyscallEntry { name: futex }),
        switch(2_500, 11, Sleeping, 0),
        switch(8_100, 0, RunnablePreempted, 11),
        call(8_150, 11, What::SyscallExit),
        call(9_800, 11, What::SyscallEntry { name: futex }),
        switch(9_850, 11, Sleeping, 0),
        switch(9_950, 0, RunnablePreempted, 11),
        call(9_960, 11, What::SyscallExit),
        switch(10_000, 11, RunnablePreempted, 0),
    ];
    let setup = Setup {
        root_pids: vec![10],
        n_cpus: 2,
        recorded: vec![0, 1],
        known: vec![known(10), known(11)],
        span: Time(0)..Time(10_000),
        ..Setup::default()
    };
    Input { setup, strings, cpus: vec![cpu0, cpu1], streams }.build().unwrap()
}

fn answer() -> Locks {
    locks(&planted(), &Options::default())
}

#[test]
fn locks_planted_holds_are_split_by_what_the_holder_did() {
    let l = answer();
    let a = l.locks.iter().find(|l| l.name == "a").unwrap();
    // Holds of a: 1000..8000, 9000..9300, 8200..8700, 9500..9600: 7900 by the wall clock; 2000 of them preempted, 1000 asleep.
    let u = &a.used;
    assert_eq!((u.holds, u.hold_wall_ns), (4, 7_900));
    assert_eq!(
        (u.hold_cpu_ns, u.hold_preempted_ns, u.hold_blocked_ns, u.hold_unknown_ns),
        (4_900, 2_000, 1_000, 0)
    );
    assert_eq!((u.hold_p50_ns, u.hold_max_ns), (300, 7_000));
    // Waits: 900..1000 is the price of a free lock; 2000..8200 is a wait, 500 + 100 of it on a CPU.
    assert_eq!((u.requests, u.contended, u.wait_ns, u.wait_spin_ns), (2, 1, 6_200, 600));
    // CPU time: 10 has 10000 - 2000 - 1000 = 7000; 11 has 2500 + 1900 - 100 = 4300.
    assert_eq!(l.cpu_ns, 11_300);
    assert!((u.lock_ratio.unwrap() - 4_900.0 / 11_300.0).abs() < 1e-12);
    assert!((u.wait_ratio.unwrap() - 6_200.0 / (11_300.0 + 5_600.0)).abs() < 1e-12);
    // While 11 waited, 10 ran 2000..3000, 5000..6000, 7000..8000, was preempted 2000 and asleep 1000.
    assert_eq!(
        (a.holder_running_ns, a.holder_preempted_ns, a.holder_blocked_ns),
        (3_000, 2_000, 1_000)
    );
}

#[test]
fn locks_sum_to_the_total_over_locks_and_over_threads() {
    let l = answer();
    let sum = |f: fn(&kasuri_analyze::Use) -> i64| {
        let locks: i64 = l.locks.iter().map(|r| f(&r.used)).sum();
        let threads: i64 = l.threads.iter().map(|r| f(&r.used)).sum();
        assert_eq!(locks, threads);
        locks
    };
    assert_eq!(sum(|u| u.hold_cpu_ns), l.total.hold_cpu_ns);
    assert_eq!(sum(|u| u.hold_wall_ns), l.total.hold_wall_ns);
    assert_eq!(sum(|u| u.wait_ns), l.total.wait_ns);
}

#[test]
fn locks_waits_for_names_holder_and_hand_over() {
    let l = answer();
    let edge = &l.waits_for[0];
    assert_eq!((edge.waiter_tid, edge.holder_tid, edge.ns), (11, 10, 6_000));
    assert_eq!((edge.running_ns, edge.preempted_ns, edge.blocked_ns), (3_000, 2_000, 1_000));
    // 8000..8200: the lock was free.
    let nobody = &l.waits_for[1];
    assert_eq!((nobody.waiter_tid, nobody.holder_tid, nobody.ns), (11, 0, 200));
}

#[test]
fn locks_taken_in_both_orders_are_found() {
    let l = answer();
    assert_eq!(l.inversions.len(), 1);
    let i = &l.inversions[0];
    assert_eq!((i.first.as_str(), i.second.as_str()), ("a", "b"));
    assert_eq!((i.first_then_second, i.second_then_first, i.tid_a, i.tid_b), (1, 1, 10, 11));
    assert!(i.can_deadlock && i.guard.is_none());
    assert_eq!(l.order_cycles, []);
}

/// Threads from 10 on: each takes its locks one inside the other, and gives them back.
fn nested(threads: &[&[u64]]) -> Locks {
    nested_at(threads, &vec![100; threads.len()])
}

/// `apart`: ns between two acquisitions of each thread.
fn nested_at(threads: &[&[u64]], apart: &[i64]) -> Locks {
    let mut strings = Strings::default();
    strings.intern("worker");
    let streams = threads.iter().enumerate().map(|(i, locks)| {
        let from = 1_000 * i as i64;
        let mut put = |at: usize, kind: u8, object: u64| Annotation {
            time: Time(from + if kind == ACQUIRED { apart[i] } else { 100 } * at as i64),
            kind,
            aux: 0,
            name: strings.intern(&format!("&{object:x}")),
            a: object,
            b: 0,
        };
        let mut events: Vec<Annotation> =
            (locks.iter().enumerate()).map(|(at, &lock)| put(at + 1, ACQUIRED, lock)).collect();
        let n = locks.len();
        events
            .extend((locks.iter().rev().enumerate()).map(|(at, &l)| put(n + at + 1, RELEASED, l)));
        AnnotationVec { pid: 10, tid: 10 + i as i32, events, at: 0 }
    });
    let streams = streams.collect();
    let tids = 10..10 + threads.len() as i32;
    let setup = Setup {
        root_pids: vec![10],
        n_cpus: 1,
        recorded: vec![0],
        known: tids.map(known).collect(),
        span: Time(0)..Time(1_000 * threads.len() as i64),
        ..Setup::default()
    };
    let cpus = vec![Vec::new()];
    let input = Input { setup, strings, cpus, streams };
    locks(&input.build().unwrap(), &Options::default())
}

#[test]
fn locks_in_a_circle_are_found_and_those_guarded_are_told() {
    let steps = |l: &Locks| -> Vec<(String, String, i32)> {
        let of = l.order_cycles.iter().flat_map(|c| &c.steps);
        of.map(|s| (s.held.clone(), s.taken.clone(), s.tid)).collect()
    };
    let step = |held: &str, taken: &str, tid| (held.to_string(), taken.to_string(), tid);
    // a inside which b, b inside which c, c inside which a.
    let l = nested(&[&[0xa, 0xb], &[0xb, 0xc], &[0xc, 0xa]]);
    assert_eq!(l.inversions, []);
    let circle = [step("a", "b", 10), step("b", "c", 11), step("c", "a", 12)];
    assert_eq!(steps(&l), circle);
    // Through what was given back meanwhile as well: a is still held when c is taken, and only b was innermost.
    let l = nested(&[&[0xa, 0xb, 0xc], &[0xc, 0xa]]);
    assert_eq!(l.inversions.len(), 1);
    assert_eq!((&*l.inversions[0].first, &*l.inversions[0].second), ("a", "c"));
    assert!(l.inversions[0].can_deadlock);
    assert_eq!(l.order_cycles, [], "the pair says it");
    // No circle.
    let l = nested(&[&[0xa, 0xb], &[0xb, 0xc], &[0xa, 0xc]]);
    assert_eq!((l.inversions.len(), l.order_cycles.len()), (0, 0));
    // A guard around both orders, and around a circle.
    let l = nested(&[&[0x1, 0xa, 0xb], &[0x1, 0xb, 0xa]]);
    assert_eq!(l.inversions.len(), 1);
    assert_eq!(l.inversions[0].guard.as_deref(), Some("1"));
    assert!(!l.inversions[0].can_deadlock);
    let l = nested(&[&[0x1, 0xa, 0xb], &[0x1, 0xb, 0xc], &[0x1, 0xc, 0xa]]);
    assert_eq!((l.inversions.len(), l.order_cycles.len()), (0, 0));
    // Around one of them only it is none.
    let l = nested(&[&[0x1, 0xa, 0xb], &[0xb, 0xa]]);
    assert!(l.inversions[0].can_deadlock);
}

/// Both taken within one tick of the clock, and given back inner first: no order, and none that crosses another's.
#[test]
fn locks_taken_at_one_stamp_have_no_order() {
    let mut l = nested(&[&[0xa, 0xb], &[0xa, 0xb]]);
    assert_eq!(l.inversions, []);
    for (first, second) in [(0xa, 0xb), (0xb, 0xa)] {
        l = nested_at(&[&[0xa, 0xb], &[first, second]], &[100, 0]);
        assert_eq!(l.inversions, [], "{first:x} {second:x}");
    }
    l = nested_at(&[&[0xa, 0xb], &[0xb, 0xa]], &[100, 1]);
    assert_eq!(l.inversions.len(), 1);
}

#[test]
fn locks_not_seen_are_not_zero() {
    let l = nested(&[&[]]);
    assert_eq!((l.total.lock_ratio, l.total.wait_ratio), (None, None));
    assert_eq!(l.total.contended_share, None);
    assert!(l.not_seen.unwrap().contains("without --locks"));
    // Locks were recorded, but not when threads ran: shares of an unknown time are unknown, neither 0 nor 1.
    let l = nested(&[&[0xa]]);
    assert_eq!(l.not_seen, None);
    for u in [&l.total, &l.locks[0].used, &l.threads[0].used, &l.processes[0].used] {
        assert_eq!((u.lock_ratio, u.wait_ratio), (None, None));
        assert_eq!(u.contended_share, Some(0.0));
    }
}

#[test]
fn locks_inside_one_another_count_once() {
    // 10 is on a CPU but for 3000..5000 and 6000..7000. It holds A 1000..8000 and 9000..9300, B 9100..9200 within.
    let l = answer();
    let of = |tid: i32| &l.threads.iter().find(|t| t.tid == tid).unwrap().used;
    assert_eq!(of(10).hold_cpu_ns, 4_000 + 300 + 100);
    assert_eq!(of(10).inside_cpu_ns, 4_000 + 300);
    let all: i64 = l.threads.iter().map(|t| t.used.inside_cpu_ns).sum();
    assert_eq!(l.total.inside_cpu_ns, all);
    for lock in &l.locks {
        assert_eq!(lock.used.inside_cpu_ns, lock.used.hold_cpu_ns);
    }
}

#[test]
fn locks_kernel_side_is_by_process_call_and_caller() {
    let l = answer();
    let calls: Vec<_> = l
        .syscalls
        .iter()
        .map(|s| (s.pid, s.name.as_str(), s.count, s.wall_ns, s.cpu_ns, s.max_ns))
        .collect();
    // read: 5500..7500, asleep 6000..7000. futex: 2400..8150, asleep 2500..8100, and 9800..9960, asleep 9850..9950.
    assert_eq!(calls, [(10, "read", 1, 2_000, 1_000, 2_000), (10, "futex", 2, 5_910, 210, 5_750)]);
    let kernel: Vec<_> = l
        .kernel_locks
        .iter()
        .map(|k| (k.kind.as_str(), k.caller.as_str(), k.count, k.wait_ns))
        .collect();
    assert_eq!(kernel, [("spinlock", "read", 1, 100)]);
    // The first futex call is the wait for a; nothing explains the second.
    assert_eq!(l.unseen_futex_ns, Some(100));
}

/// From the end: 10 ends with 11, both at 10000.
#[test]
fn locks_share_of_the_critical_path() {
    let l = answer();
    let share = |name: &str| l.locks.iter().find(|l| l.name == name).unwrap().path_share;
    let path = kasuri_analyze::critical_path::critical_path(&planted());
    assert_eq!(path.length_ns, 10_000);
    // The path is thread 10's whole time: a held 1000..8000, 9000..9300 and asked for 900..1000; b 9100..9200.
    assert_eq!(path.hops, 0);
    assert!((share("a").unwrap() - 0.74).abs() < 1e-12, "{:?}", share("a"));
    assert!((share("b").unwrap() - 0.01).abs() < 1e-12);
    let part = Options { range: Some(Time(0)..Time(5_000)), ..Options::default() };
    assert_eq!(locks(&planted(), &part).locks[0].path_share, None);
}

/// Threads that take turns, each asking while the other holds.
#[test]
fn locks_convoy_is_the_longest_chain() {
    let mut strings = Strings::default();
    strings.intern("worker");
    let name = strings.intern("q");
    let stream = |tid: i32, first: i64| {
        let put = |ns: i64, kind: u8| Annotation { time: Time(ns), kind, aux: 0, name, a: A, b: 0 };
        let events = (0..5)
            .flat_map(|i| {
                let from = first + i * 2_000;
                [put(from - 900, REQUEST), put(from, ACQUIRED), put(from + 1_000, RELEASED)]
            })
            .collect();
        AnnotationVec { pid: 10, tid, events, at: 0 }
    };
    let setup = Setup {
        root_pids: vec![10],
        n_cpus: 2,
        recorded: vec![0, 1],
        known: vec![known(10), known(11)],
        span: Time(0)..Time(20_000),
        ..Setup::default()
    };
    let streams = vec![stream(10, 1_000), stream(11, 2_000)];
    let trace = Input { setup, strings, cpus: vec![Vec::new()], streams }.build().unwrap();
    let l = locks(&trace, &Options::default());
    let convoy = l.locks[0].convoy.unwrap();
    assert_eq!(
        (convoy.length, convoy.threads, convoy.from_ns, convoy.to_ns),
        (10, 2, 1_000, 11_000)
    );
    assert_eq!(l.locks[0].used.lock_ratio, None, "nobody knows when threads ran");
}
