// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two threads that lose their CPUs to the cause that is the argument (bench/causes/run).
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{mpsc, Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const ROUNDS: usize = 25;

/// So many ms of work on a quiet machine.
#[inline(never)]
fn grind(ms: f64) -> u64 {
    let mut x = 88172645463325252u64;
    for _ in 0..(ms * unit()) as u64 {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    std::hint::black_box(x)
}

fn unit() -> f64 {
    static UNIT: std::sync::OnceLock<f64> = std::sync::OnceLock::new();
    *UNIT.get_or_init(|| {
        let best = |_| {
            let start = Instant::now();
            let mut x = std::hint::black_box(1u64);
            for _ in 0..1_000_000 {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
            }
            std::hint::black_box(x);
            start.elapsed().as_secs_f64()
        };
        1_000.0 / (0..5).map(best).fold(f64::MAX, f64::min)
    })
}

fn both(work: impl Fn(usize) + Sync) {
    thread::scope(|scope| {
        for id in 0..2 {
            let work = &work;
            scope.spawn(move || work(id));
        }
    });
}

#[inline(never)]
fn relax(id: usize) {
    grind(if id == 0 { 6.0 } else { 24.0 });
}

#[inline(never)]
fn load_input() {
    grind(24.0);
}

fn main() {
    unit();
    let cause = std::env::args().nth(1).unwrap_or_default();
    match cause.as_str() {
        "imbalance" => {
            let gate = Barrier::new(2);
            both(|id| {
                for _ in 0..ROUNDS {
                    relax(id);
                    gate.wait();
                }
            });
        }
        "join" => (0..ROUNDS).for_each(|_| both(relax)),
        "lock" => {
            let total = Mutex::new(0);
            both(|_| {
                for _ in 0..ROUNDS {
                    let mut sum = total.lock().unwrap();
                    *sum += grind(12.0) & 1;
                    drop(sum);
                    grind(1.0);
                }
            });
        }
        "nap" => both(|_| {
            for _ in 0..ROUNDS {
                thread::sleep(Duration::from_millis(20));
                grind(1.0);
            }
        }),
        "serial" => (0..ROUNDS).for_each(|_| {
            load_input();
            both(|_| {
                grind(4.0);
            });
        }),
        "stage" => {
            let (send, receive) = mpsc::sync_channel(2);
            thread::scope(|scope| {
                scope.spawn(move || {
                    for i in 0..ROUNDS {
                        grind(3.0);
                        send.send(i).unwrap();
                    }
                });
                scope.spawn(move || {
                    for _ in receive {
                        grind(24.0);
                    }
                });
            });
        }
        "poll" => {
            let done = AtomicUsize::new(0);
            both(|id| {
                for i in 0..ROUNDS {
                    if id == 0 {
                        while done.load(Ordering::Acquire) <= i {
                            thread::sleep(Duration::from_micros(500));
                        }
                        grind(1.0);
                    } else {
                        load_input();
                        done.store(i + 1, Ordering::Release);
                    }
                }
            });
        }
        _ => std::process::exit(2),
    }
}
