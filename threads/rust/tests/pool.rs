//! What the crate promises: results, panics, borrows, drops, and that a closure stays on its kernel thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// Four workers, however many CPUs: so that things are stolen.
fn pool() {
    let _ = ito::start(4, 0);
    assert_eq!(ito::workers(), 4);
}

fn fib(n: u32) -> u64 {
    if n < 2 {
        return n.into();
    }
    let (a, b) = ito::join(|| fib(n - 1), || fib(n - 2));
    a + b
}

fn panics_with<R>(f: impl FnOnce() -> R) -> String {
    let panic = catch_unwind(AssertUnwindSafe(|| {
        f();
    }))
    .expect_err("a panic");
    panic
        .downcast_ref::<&str>()
        .map(ToString::to_string)
        .or(panic.downcast_ref().cloned())
        .expect("a text")
}

/// Returns when somebody else runs what sets it: proves that the other side was taken.
fn wait_for(flag: &AtomicBool) {
    while !flag.load(SeqCst) {
        std::thread::yield_now();
    }
}

#[test]
fn joins_compute() {
    pool();
    assert_eq!(fib(22), 17711);
    let text = String::from("borrowed");
    let (a, b) = ito::join(|| text.len(), || text.chars().rev().collect::<String>());
    assert_eq!((a, b.as_str()), (8, "deworrob"));
}

#[test]
fn a_task_that_was_taken_runs_beside() {
    pool();
    for _ in 0..50 {
        let (begun, ended) = (AtomicBool::new(false), AtomicBool::new(false));
        let (here, there) = ito::join(
            || {
                wait_for(&begun);
                ended.store(true, SeqCst);
                std::thread::current().id()
            },
            || {
                begun.store(true, SeqCst);
                wait_for(&ended);
                std::thread::current().id()
            },
        );
        assert_ne!(here, there);
    }
}

#[test]
fn panics_come_out() {
    pool();
    assert_eq!(panics_with(|| ito::join(|| panic!("a"), || 1)), "a");
    assert_eq!(panics_with(|| ito::join(|| 1, || panic!("b"))), "b");
    assert_eq!(panics_with(|| ito::join(|| panic!("a"), || panic!("b"))), "a");
    // Taken, and panics elsewhere.
    let begun = AtomicBool::new(false);
    let taken = || {
        begun.store(true, SeqCst);
        panic!("far {}", 1);
    };
    assert_eq!(panics_with(|| ito::join(|| wait_for(&begun), taken)), "far 1");
    // The first panics while the second runs elsewhere: it is waited for.
    let (begun, ended) = (AtomicBool::new(false), AtomicBool::new(false));
    let first = || {
        wait_for(&begun);
        panic!("near")
    };
    let second = || {
        begun.store(true, SeqCst);
        std::thread::sleep(Duration::from_millis(2));
        ended.store(true, SeqCst);
    };
    assert_eq!(panics_with(|| ito::join(first, second)), "near");
    assert!(ended.load(SeqCst));
    assert_eq!(panics_with(|| ito::scope(|s| s.spawn(|_| panic!("in a scope")))), "in a scope");
    assert_eq!(panics_with(|| ito::for_each(0..1000, |i| assert!(i != 777, "index"))), "index");
    let ended = ito::spawn(|| -> u32 { panic!("alone") }).join();
    assert_eq!(ended.expect_err("a panic").downcast_ref::<&str>(), Some(&"alone"));
}

#[test]
fn everything_is_dropped_once() {
    struct Counted<'a>(&'a AtomicUsize);
    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    pool();
    let dropped = AtomicUsize::new(0);
    for _ in 0..100 {
        let (x, y) = (Counted(&dropped), Counted(&dropped));
        let _ = catch_unwind(AssertUnwindSafe(|| {
            ito::join(
                || {
                    let _x = x;
                    panic!("a")
                },
                move || {
                    let _y = y;
                },
            )
        }));
    }
    assert_eq!(dropped.load(SeqCst), 200);
    ito::scope(|s| {
        for _ in 0..100 {
            let z = Counted(&dropped);
            s.spawn(move |_| drop(z));
        }
    });
    assert_eq!(dropped.load(SeqCst), 300);
}

/// Across every wait: joins whose other side is elsewhere, scopes, sleeps, yields.
#[test]
fn closures_stay_where_they_begin() {
    fn work(depth: u32, moved: &AtomicUsize) {
        let id = std::thread::current().id();
        let check = || {
            if std::thread::current().id() != id {
                moved.fetch_add(1, SeqCst);
            }
        };
        if depth == 0 {
            ito::yield_now();
            ito::sleep(Duration::from_micros(20));
            check();
            return;
        }
        ito::join(|| work(depth - 1, moved), || work(depth - 1, moved));
        check();
        ito::scope(|s| {
            s.spawn(|_| work(depth - 1, moved));
            s.spawn(|_| ito::sleep(Duration::from_micros(5)));
        });
        check();
        ito::spawn(ito::yield_now).join().expect("no panic");
        check();
    }
    pool();
    let moved = AtomicUsize::new(0);
    ito::scope(|s| {
        for _ in 0..8 {
            s.spawn(|_| work(3, &moved));
        }
    });
    assert_eq!(moved.load(SeqCst), 0);
}

#[test]
fn scopes_wait_for_what_is_spawned_in_what_was_spawned() {
    fn tree<'scope>(s: &ito::Scope<'scope>, depth: u32, count: &'scope AtomicUsize) {
        count.fetch_add(1, SeqCst);
        if depth > 0 {
            s.spawn(move |s| tree(s, depth - 1, count));
            s.spawn(move |s| tree(s, depth - 1, count));
        }
    }
    pool();
    let count = AtomicUsize::new(0);
    assert_eq!(ito::scope(|s| tree(s, 9, &count)), ());
    assert_eq!(count.load(SeqCst), 1023);
    let mut parts = [0; 8];
    ito::scope(|s| {
        for (i, part) in parts.iter_mut().enumerate() {
            s.spawn(move |_| *part = i * i);
        }
    });
    assert_eq!(parts, [0, 1, 4, 9, 16, 25, 36, 49]);
}

#[test]
fn loops_cover_once() {
    pool();
    for n in [0, 1, 2, 1023, 1024, 1025, 10000] {
        let seen: Vec<AtomicUsize> = (0..n).map(|_| AtomicUsize::new(0)).collect();
        ito::for_each(0..n, |i| {
            seen[i].fetch_add(1, SeqCst);
        });
        ito::for_each_ref(&seen, |i, x| assert_eq!((x.load(SeqCst), i < n), (1, true)));
        let mut v = vec![0; n];
        ito::for_each_mut(&mut v, |i, x| *x += i + 1);
        assert!(v.iter().enumerate().all(|(i, x)| *x == i + 1));
        let joined = ito::map_reduce(0..n, String::new, |i| format!("{i},"), |a, b| a + &b);
        assert_eq!(joined, (0..n).map(|i| format!("{i},")).collect::<String>()); // in order
    }
    let sum = || ito::map_reduce(0..100_000, || 0.0, |i| 1.0 / (i as f64 + 0.3), |a, b| a + b);
    let first: f64 = sum();
    assert!((0..20).all(|_| sum().to_bits() == first.to_bits()));
}

#[test]
fn kernel_threads_take_part() {
    pool();
    let sum = AtomicUsize::new(0);
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| sum.fetch_add(usize::try_from(fib(12)).expect("144"), SeqCst));
        }
    });
    assert_eq!(sum.load(SeqCst), 4 * 144);
    let handles: Vec<_> = (0..100).map(|i| ito::spawn(move || i * 2)).collect();
    let doubled: u32 = handles.into_iter().map(|h| h.join().expect("no panic")).sum();
    assert_eq!(doubled, 9900);
}
