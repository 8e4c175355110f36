//! Measures costs of parallel work on this machine: waking a thread on another CPU, falling asleep, moving a cache
//! line. A measurement takes a tenth of a second; [`crate::costs`] remembers several. It uses futexes as the C library's mutex does.
//!
//! Two threads, each pinned to a CPU, wake each other through one futex word, with pauses of several lengths in
//! between, because an idle CPU sleeps the more deeply the longer it is idle. Other programs can only lengthen a
//! time, so batches are spread over the whole measurement and the lower quartile of them counts.
use kasuri_base::parallel::ParallelCosts;
use kasuri_record::host::allowed_cpus;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Batches of each kind of wake-up.
const BATCHES: usize = 4;

/// Rounds of a batch before those that count. A hypervisor that polls for a while before it takes an idle CPU away,
/// and an idle loop of that kind, adapt that while to the last sleeps: after sleeps of 1 ms, the first four of 50 us
/// took 25 to 40 us to wake from, and the later ones 8. A program is in the state that its own sleeps cause.
const WARM: u32 = 16;
/// The same for long sleeps: each takes long, and the machine gives up polling after one of them.
const WARM_LONG: u32 = 2;

/// Measures on two CPUs; `None` where fewer may be used.
pub fn measure() -> Option<ParallelCosts> {
    let cpus = allowed_cpus();
    let (&a, &b) = (cpus.first()?, cpus.last()?);
    if a == b {
        return None;
    }
    // Other programs can only make a batch slower, so batches of one kind are spread over the whole time.
    let mut batches: [Vec<(f64, f64)>; 4] = Default::default();
    let mut relays = Vec::new();
    for _ in 0..BATCHES {
        batches[0].push(ping(a, b, 60, Gap::Ns(50_000)).means());
        batches[1].push(ping(a, b, 60, Gap::Ns(3_000)).means());
        batches[2].push(ping(a, b, 10, Gap::Ns(1_000_000)).means());
        batches[3].push(ping(a, a, 60, Gap::Ns(0)).means());
        relays.push((usual_mean(relay(a, b)), 0.0));
    }
    let (in_turns, _) = undisturbed(relays);
    let [middle, short, long, local] = batches.map(undisturbed);
    let (wake_latency_ns, wake_call_ns) = middle;
    let (one_way, wake_local_ns) = local;
    let retry_ns = retry();
    Some(ParallelCosts {
        wake_latency_ns,
        // A wake-up from a deeper sleep takes longer; a measurement that says the reverse is noise.
        wake_latency_short_ns: short.0.min(wake_latency_ns),
        wake_latency_long_ns: long.0.max(wake_latency_ns),
        // Each was idle for the other's 10 us and wake-up, about as long as in the middle measurement.
        relay_ns: (in_turns - wake_latency_ns).max(0.0),
        fall_ns: (cheap_window(a, b, short.1) - retry_ns).max(0.0),
        wake_call_ns,
        wake_call_short_ns: short.1.min(wake_call_ns),
        wake_call_long_ns: long.1.max(wake_call_ns),
        wake_local_ns,
        switch_ns: (one_way - wake_local_ns).max(0.0),
        retry_ns,
        transfer_ns: transfer(a, b),
        slowdown: slowdown(a, b),
    })
}

fn pin(cpu: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu);
    // Where pinning is not allowed, the measurement is of the CPUs that the scheduler chose.
    let _ = rustix::thread::sched_setaffinity(None, &set);
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

fn futex(word: &AtomicU32, operation: libc::c_int, value: u32) {
    // SAFETY: the word outlives the call; no timeout, no second word.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            operation | libc::FUTEX_PRIVATE_FLAG,
            value,
            std::ptr::null::<libc::timespec>(),
        );
    }
}

/// Time for which the sleeper may sleep before it is woken.
#[derive(Clone, Copy)]
enum Gap {
    Ns(u64),
    /// Evenly spread from 0 to this many ns.
    UpTo(u64),
}

impl Gap {
    /// Number of rounds that do not count.
    fn warm(self) -> u32 {
        match self {
            Gap::Ns(ns) if ns >= 1_000_000 => WARM_LONG,
            _ => WARM,
        }
    }

    /// The time in round `round` of `rounds`, counted from 1; 0 stands for each round that does not count.
    fn ns(self, round: u32, rounds: u32) -> u64 {
        match self {
            Gap::UpTo(ns) if round > 0 => ns * u64::from(round) / u64::from(rounds),
            Gap::Ns(ns) | Gap::UpTo(ns) => ns,
        }
    }
}

/// Times of each round: from waking to running, and of the call that wakes.
struct Pings {
    latencies: Vec<f64>,
    calls: Vec<f64>,
}

impl Pings {
    fn means(self) -> (f64, f64) {
        (usual_mean(self.latencies), usual_mean(self.calls))
    }
}

/// The time between falling asleep and the moment from which a wake-up costs as much as usual. Wake-ups at even
/// distances are spread over [0, `SPREAD_NS`]: the window is the share of cheap calls among them.
fn cheap_window(a: usize, b: usize, usual_ns: f64) -> f64 {
    const SPREAD_NS: u64 = 3_000;
    let one = |_| {
        let calls = ping(a, b, 100, Gap::UpTo(SPREAD_NS)).calls;
        let cheap = calls.iter().filter(|&&ns| ns < 0.5 * usual_ns).count();
        SPREAD_NS as f64 * cheap as f64 / calls.len().max(1) as f64
    };
    median((0..5).map(one).collect())
}

fn ping(waker_cpu: usize, sleeper_cpu: usize, rounds: u32, gap: Gap) -> Pings {
    let word = AtomicU32::new(0);
    let done = AtomicU32::new(0);
    // Times since `origin`, written by the waker before it wakes.
    let (origin, called) = (Instant::now(), AtomicU64::new(0));
    let start = Barrier::new(2);
    let since = || origin.elapsed().as_nanos() as u64;
    let warm = gap.warm();
    let mut calls = Vec::new();
    let mut latencies = std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            pin(sleeper_cpu);
            start.wait();
            let mut latencies = Vec::new();
            for round in 1..=warm + rounds {
                // ORDER acquire; pairs with the waker's release store of `word`: `called` is of this round.
                while word.load(Ordering::Acquire) != round {
                    futex(&word, libc::FUTEX_WAIT, round - 1);
                }
                latencies.push(since().saturating_sub(called.load(Ordering::Relaxed)) as f64);
                // ORDER release; pairs with the waker's acquire load: `called` was read before the waker overwrites
                // it.
                done.store(round, Ordering::Release);
            }
            latencies
        });
        // A separate thread: pinning the caller would also pin the threads that it starts later.
        let waker = scope.spawn(|| {
            pin(waker_cpu);
            start.wait();
            let mut calls = Vec::new();
            for round in 1..=warm + rounds {
                let begin = Instant::now();
                let gap = gap.ns(round.saturating_sub(warm), rounds);
                while waker_cpu != sleeper_cpu && begin.elapsed() < Duration::from_nanos(gap) {
                    std::hint::spin_loop();
                }
                if waker_cpu == sleeper_cpu {
                    std::thread::yield_now();
                }
                let before = since();
                called.store(before, Ordering::Relaxed);
                // ORDER release; see the sleeper.
                word.store(round, Ordering::Release);
                futex(&word, libc::FUTEX_WAKE, 1);
                calls.push((since() - before) as f64);
                while done.load(Ordering::Acquire) != round {
                    if waker_cpu == sleeper_cpu {
                        std::thread::yield_now();
                    }
                }
            }
            calls
        });
        calls = waker.join().unwrap_or_default();
        sleeper.join().unwrap_or_default()
    });
    // Threads that did not start have measured nothing.
    latencies.drain(..latencies.len().min(warm as usize));
    calls.drain(..calls.len().min(warm as usize));
    Pings { latencies, calls }
}

/// Two threads that work for 10 us in turns, each asleep meanwhile: times from the call that wakes the other until it runs.
fn relay(a: usize, b: usize) -> Vec<f64> {
    const TURNS: u32 = 60;
    let (turn, called, origin) = (AtomicU32::new(0), AtomicU64::new(0), Instant::now());
    let start = Barrier::new(2);
    let since = || origin.elapsed().as_nanos() as u64;
    let play = |cpu: usize, odd: u32| {
        pin(cpu);
        start.wait();
        let mut latencies = Vec::new();
        for mine in (0..WARM + TURNS).map(|round| 2 * round + odd) {
            // ORDER acquire; pairs with the other's release store: `called` is of its last turn.
            let mut now = turn.load(Ordering::Acquire);
            while now != mine {
                futex(&turn, libc::FUTEX_WAIT, now);
                now = turn.load(Ordering::Acquire);
            }
            if mine >= 2 * WARM {
                latencies.push(since().saturating_sub(called.load(Ordering::Relaxed)) as f64);
            }
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_micros(10) {
                std::hint::spin_loop();
            }
            called.store(since(), Ordering::Relaxed);
            // ORDER release; see above.
            turn.store(mine + 1, Ordering::Release);
            futex(&turn, libc::FUTEX_WAKE, 1);
        }
        latencies
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| play(b, 1));
        let own = scope.spawn(|| play(a, 0));
        let mut latencies = own.join().unwrap_or_default();
        latencies.extend(other.join().unwrap_or_default());
        latencies
    })
}

/// The lower quartile of the batches, of each of the two parts.
fn undisturbed(batches: Vec<(f64, f64)>) -> (f64, f64) {
    let (mut latencies, mut calls): (Vec<f64>, Vec<f64>) = batches.into_iter().unzip();
    latencies.sort_by(f64::total_cmp);
    calls.sort_by(f64::total_cmp);
    let quartile = |sorted: &[f64]| sorted.get(sorted.len() / 4).copied().unwrap_or(0.0);
    (quartile(&latencies), quartile(&calls))
}

/// No CPU takes so long to wake: another program had it. Of ten long sleeps one such is most of the mean, and under load each batch has one.
const TAKEN_NS: f64 = 500_000.0;

/// The mean without the largest fiftieth, and without those in which another program had the CPU. Not the median: where waking is
/// sometimes cheap and sometimes expensive, a program pays the mean.
fn usual_mean(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.truncate(values.len() - values.len() / 50);
    let own = values.partition_point(|&ns| ns < TAKEN_NS);
    if own > 0 {
        values.truncate(own);
    }
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn retry() -> f64 {
    let word = AtomicU32::new(1);
    let one = |_| {
        let begin = Instant::now();
        (0..16).for_each(|_| futex(&word, libc::FUTEX_WAIT, 0));
        begin.elapsed().as_nanos() as f64 / 16.0
    };
    median((0..50).map(one).collect())
}

/// Two threads pass a cache line to each other. A preemption takes a thousand times longer than a trial, so it spoils one of the
/// many, and the median is that of trials in which both had their CPU: of a few long trials each had a preemption on a busy
/// machine, and the best of them was 8 us for 0.1.
fn transfer(a: usize, b: usize) -> f64 {
    const TRIALS: usize = 200;
    const ROUNDS: u32 = 64;
    let word = AtomicU32::new(0);
    let play = |cpu: usize, odd: u32| {
        pin(cpu);
        let mut next = odd;
        let mut trials = Vec::with_capacity(TRIALS);
        for _ in 0..TRIALS {
            let begin = Instant::now();
            for _ in 0..ROUNDS {
                // ORDER acquire/release: the line must move; no other data does.
                while word.load(Ordering::Acquire) != next {
                    std::hint::spin_loop();
                }
                word.store(next + 1, Ordering::Release);
                next += 2;
            }
            trials.push(begin.elapsed().as_nanos() as f64 / f64::from(2 * ROUNDS));
        }
        trials
    };
    median(std::thread::scope(|scope| {
        let other = scope.spawn(|| play(b, 1));
        let own = scope.spawn(|| play(a, 0));
        let _ = other.join();
        own.join().unwrap_or_default()
    }))
}

/// CPU time of this thread, ns.
fn cpu_ns() -> f64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    t.tv_sec as f64 * 1e9 + t.tv_nsec as f64
}

fn slowdown(a: usize, b: usize) -> f64 {
    let work = || {
        // Arithmetic and a table that stays in the nearest caches.
        let mut table = [0u64; 2048];
        let mut x = 88_172_645_463_325_252_u64;
        // CPU time, so that other programs on this machine do not count.
        let begin = cpu_ns();
        for i in 0..1_500_000_usize {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            table[(x as usize) & 2047] = table[i & 2047].wrapping_add(x);
        }
        std::hint::black_box(&table);
        cpu_ns() - begin
    };
    // The best of each, because other work of the machine can only slow one of them down.
    let (mut alone, mut both) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..2 {
        let stop = AtomicBool::new(false);
        let go = Barrier::new(2);
        let (one, two) = std::thread::scope(|scope| {
            scope.spawn(|| {
                pin(b);
                go.wait();
                while !stop.load(Ordering::Relaxed) {
                    work();
                }
            });
            let own = scope.spawn(|| {
                pin(a);
                let alone = work().min(work());
                go.wait();
                work();
                let both = work().min(work());
                // ORDER relaxed: only the time at which the other thread stops matters; no data depends on it.
                stop.store(true, Ordering::Relaxed);
                (alone, both)
            });
            own.join().unwrap_or((f64::INFINITY, f64::INFINITY))
        });
        alone = alone.min(one);
        both = both.min(two);
    }
    let ratio = both / alone;
    if ratio.is_finite() { ratio.clamp(1.0, 3.0) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kasuri_testkit::{Need, skip_for};

    #[test]
    fn costs_are_plausible_and_pin_nobody_else() {
        let before = allowed_cpus();
        let Some(costs) = measure() else {
            assert!(before.len() < 2, "two CPUs, but nothing measured");
            return skip_for(Need::Machine, "one CPU");
        };
        assert!(costs.wake_latency_ns > 100.0 && costs.wake_latency_ns < 1e8, "{costs:?}");
        assert!(costs.wake_call_short_ns > 50.0 && costs.transfer_ns > 1.0, "{costs:?}");
        assert!(costs.slowdown >= 1.0, "{costs:?}");
        assert!(costs.relay_ns >= 0.0 && costs.relay_ns < 1e8, "{costs:?}");
        println!("{costs:?}");
        assert_eq!(allowed_cpus(), before);
    }

    #[test]
    fn what_disturbs_some_batches_does_not_count() {
        let batches = [(9.0, 90.0), (1.0, 10.0), (2.0, 1000.0), (500.0, 20.0)];
        assert_eq!(undisturbed(batches.to_vec()), (2.0, 20.0), "the lower quartile of each part");
        assert_eq!(undisturbed(Vec::new()), (0.0, 0.0));
        // Of fifty the largest is left out, of fewer none.
        let mut values = vec![10.0; 49];
        values.push(1e9);
        assert_eq!(usual_mean(values), 10.0);
        assert_eq!(usual_mean(vec![1.0, 3.0]), 2.0);
        // What another program took is no cost of waking; unless nothing else is known.
        assert_eq!(usual_mean(vec![1.0, 4e6, 3.0]), 2.0);
        assert_eq!(usual_mean(vec![2e6, 4e6]), 3e6);
        assert_eq!(usual_mean(Vec::new()), 0.0);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
    }

    #[test]
    fn sleeps_are_of_one_length_or_spread_evenly() {
        let gap = Gap::UpTo(3_000);
        let spread: Vec<u64> = (1..=3).map(|round| gap.ns(round, 3)).collect();
        assert_eq!(spread, [1_000, 2_000, 3_000]);
        assert_eq!(Gap::Ns(50_000).ns(2, 3), 50_000);
        assert!(Gap::Ns(1_000_000).warm() < Gap::Ns(50_000).warm(), "long ones are few");
    }
}
