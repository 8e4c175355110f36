//! Phases of a program, each of which loses time in a way of its own. All threads enter and leave a phase running.
//!
//! What each costs is not read off the trace: it follows from what the phase does, and is written beside it.
use super::scene::*;
use kasuri_model::ThreadState::{Dead, DiskSleep, RunnablePreempted, Sleeping};

/// From being woken to running, at most.
const LATENCY: i64 = 5_000;
pub const BARRIERS: [&str; 3] = ["loop48", "sweep", "exchange"];
pub const LOCKS: [&str; 2] = ["queue", "table"];

/// The last thread lets the others go at `end`. They have been asleep since `began`, in waits of that kind.
fn let_go(
    s: &mut Scene,
    dice: &mut Dice,
    last: usize,
    began: &[i64],
    end: i64,
    wait: (u16, &'static str, u64),
) {
    let (kind, name, object) = wait;
    for (thread, &began) in began.iter().enumerate() {
        let latency = dice.range(0, LATENCY);
        if thread == last {
            if kind == BARRIER {
                s.wait(thread, end, end, kind, name, object);
            }
            s.now[thread] = end;
            continue;
        }
        s.sleep(thread, began, end, Sleeping, Waker::Thread(last), latency);
        s.now[thread] = end + latency;
        s.wait(thread, began, s.now[thread], kind, name, object);
    }
}

/// The last thread would have come earlier by as much as strangers kept it off its CPU, and so would the others: what it
/// was kept longer is interference, the rest of each wait is the last thread's work.
fn charge_waits(s: &mut Scene, last: usize, came: &[i64], end: i64, name: &'static str) {
    for thread in (0..s.n).filter(|&t| t != last) {
        let waited = end - came[thread];
        let kept = (s.delay[last] - s.delay[thread]).clamp(0, waited);
        s.add("interference", "chrome", kept);
        s.add("load_imbalance", name, waited - kept);
    }
    s.delay.fill(0);
}

/// Everybody works for about the same time.
pub fn work(s: &mut Scene, dice: &mut Dice) {
    for thread in 0..s.n {
        let from = s.now[thread];
        let to = from + dice.range(50_000, 2_000_000);
        s.annotate(thread, from, BEGIN, 0, "compute", 0);
        s.annotate(thread, to, END, 0, "compute", 0);
        s.now[thread] = to;
    }
}

/// Unequal work between barriers: who comes before the last waits.
pub fn imbalance(s: &mut Scene, dice: &mut Dice) {
    let barrier = dice.range(0, BARRIERS.len() as i64) as usize;
    let start = s.latest();
    let end = start + dice.range(100_000, 3_000_000);
    let last = dice.range(0, s.n as i64) as usize;
    let came: Vec<i64> = (0..s.n).map(|_| dice.range(start + 1, end)).collect();
    charge_waits(s, last, &came, end, BARRIERS[barrier]);
    let_go(s, dice, last, &came, end, (BARRIER, BARRIERS[barrier], 0xb0 + barrier as u64));
}

/// The last thread at a barrier comes so late because a stranger took its CPU: that much is not imbalance.
pub fn late_by_interference(s: &mut Scene, dice: &mut Dice) {
    let start = s.latest();
    let end = start + dice.range(200_000, 3_000_000);
    let last = dice.range(0, s.n as i64) as usize;
    let came: Vec<i64> = (0..s.n).map(|_| dice.range(start + 1, end)).collect();
    let from = start + dice.range(10_000, (end - start) / 2);
    let delay = dice.range(1_000, end - from);
    s.preempt(last, from, from + delay);
    charge_waits(s, last, &came, end, BARRIERS[0]);
    let_go(s, dice, last, &came, end, (BARRIER, BARRIERS[0], 0xb0));
}

/// One thread works, the others wait for it on a condition. As long as others still run, that is waiting for each
/// other; when one is left, it is a serial phase.
pub fn serial(s: &mut Scene, dice: &mut Dice) {
    let start = s.latest();
    let end = start + dice.range(100_000, 3_000_000);
    let alone = dice.range(0, s.n as i64) as usize;
    let came: Vec<i64> =
        (0..s.n).map(|_| dice.range(start + 1, start + 1 + (end - start) / 3)).collect();
    let others = || (0..s.n).filter(|&t| t != alone);
    let last = others().map(|t| came[t]).max().unwrap_or(end);
    let is_join = dice.one_in(2);
    let (kind, class) = match is_join {
        true => (JOIN, "load_imbalance"),
        false => (COND, "waiting_for_own_threads"),
    };
    let waits: Vec<i64> = others().map(|t| last - came[t]).collect();
    for waited in waits {
        s.add(class, "ready", waited);
        s.add("low_parallelism", "", end - last);
    }
    s.annotate(alone, start, BEGIN, 0, "merge", 0);
    s.annotate(alone, end, END, 0, "merge", 0);
    let_go(s, dice, alone, &came, end, (kind, "ready", 0xc0));
}

/// Each thread does something of its own until all have done: computes, waits for a disk, shares a lock with others, or
/// loses its CPU to a stranger.
pub fn mixture(s: &mut Scene, dice: &mut Dice) {
    let start = s.latest();
    let end = start + dice.range(300_000, 4_000_000);
    let mut queues: [Vec<usize>; 2] = [Vec::new(), Vec::new()];
    for thread in 0..s.n {
        let from = dice.range(start + 1, start + (end - start) / 4);
        let to = dice.range(from + 3, start + (end - start) / 2);
        match dice.range(0, 7) {
            0 => {
                let latency = dice.range(0, LATENCY);
                s.sleep(thread, from, to, DiskSleep, Waker::Interrupt, latency);
                s.wait(thread, from, to + latency, IO, "read", 0xd0);
                s.add("io_wait", "read", to - from);
            }
            1 => {
                s.sleep_while_a_stranger_runs(thread, from, to);
                s.wait(thread, from, to, IO, "read", 0xd0);
                s.add("io_wait", "read", to - from);
            }
            2 => {
                s.preempt(thread, from, to);
            }
            3 => queues[0].push(thread),
            4 => queues[1].push(thread),
            _ => {}
        }
    }
    let mut done = end;
    for (lock, queue) in queues.iter().enumerate() {
        done = done.max(locked(s, dice, lock, queue, start, end));
    }
    for thread in 0..s.n {
        s.now[thread] = done;
    }
}

/// Threads take a lock one after the other; who waits sleeps, or spins. Returns when the last has left it.
fn locked(
    s: &mut Scene,
    dice: &mut Dice,
    lock: usize,
    queue: &[usize],
    start: i64,
    end: i64,
) -> i64 {
    let (name, object) = (LOCKS[lock], 0xa0 + lock as u64);
    let hold = (end - start) / 2 / queue.len().max(1) as i64;
    let mut free = start;
    let mut owner = None;
    for &thread in queue {
        // It asks while the owner before it is inside.
        let asked = match owner {
            None => start + 1,
            Some(_) => dice.range(start + 1, free),
        };
        let spins = dice.one_in(3);
        let got = match owner {
            None => asked,
            Some(_) if spins => free,
            Some(by) => {
                let latency = dice.range(0, LATENCY);
                s.sleep(thread, asked, free, Sleeping, Waker::Thread(by), latency);
                free + latency
            }
        };
        if owner.is_some() {
            s.add("lock_wait", name, free - asked);
        }
        s.annotate(thread, asked, LOCK_REQUEST, 0, name, object);
        s.annotate(thread, got, LOCK_ACQUIRED, 0, name, object);
        free = got + dice.range(hold / 2, hold) + 2;
        s.annotate(thread, free, LOCK_RELEASED, 0, name, object);
        owner = Some(thread);
    }
    free + 1
}

/// One thread more than CPUs: it shares CPU 0 with thread 0, and the others wait at a barrier for both.
///
/// The extra thread is the last to come. While thread 0 had the CPU it could not run: by so much it is late. But as
/// long as one of the two is ready, a CPU that idles could have run it: that much is the scheduler's delay.
pub fn too_many_threads(s: &mut Scene, dice: &mut Dice, serial_number: i32) {
    let (name, object) = (BARRIERS[1], 0xb9);
    let extra = PID + 50 + serial_number;
    let start = s.latest();
    let slice = dice.range(100_000, 400_000);
    let turns = dice.range(1, 5);
    // They take turns of `slice`; thread 0 begins and comes to the barrier at the end of its last turn.
    s.fork(0, start, extra);
    let (first, mut at) = (Scene::tid(0), start);
    for turn in 0..turns {
        at += slice;
        let is_done = turn + 1 == turns;
        let left_as = if is_done { Sleeping } else { RunnablePreempted };
        s.switch(0, at, first, left_as, extra);
        if !is_done {
            at += slice;
            s.switch(0, at, extra, RunnablePreempted, first);
        }
    }
    let came_0 = at;
    let rest = dice.range(50_000, slice * 2);
    let end = at + rest;
    // Thread 0 worked `turns` slices, in all of which the extra thread was ready; between them thread 0 was.
    let delay = slice * turns;
    let came: Vec<i64> = (0..s.n).map(|_| dice.range(start + 1, end)).collect();
    let delays = (delay, slice * (turns - 1));
    charge_the_wait(s, &came, came_0, end, delays, name);
    s.delay.fill(0);
    s.wait(0, came_0, end, BARRIER, name, object);
    s.extra(extra, &[(end, end, name, object)]);
    for (thread, &came) in came.iter().enumerate() {
        let latency = match thread {
            0 => 0,
            _ => dice.range(0, LATENCY),
        };
        s.now[thread] = end + latency;
        if thread > 0 {
            s.switch(thread, came, Scene::tid(thread), Sleeping, 0);
            s.wait(thread, came, end + latency, BARRIER, name, object);
        }
        s.wake_from(0, extra, end, thread);
        if thread > 0 {
            s.switch(thread, end + latency, 0, RunnablePreempted, Scene::tid(thread));
            s.add("scheduling_delay", "", latency);
        }
    }
    s.switch(0, end, extra, Dead, first);
}

/// At each moment the CPUs of the threads that have arrived are idle. One of them could run the thread that is ready,
/// until `came_0`. The rest is charged to the waiting threads, the last arrival first; thread 0 is one of them although
/// its CPU is busy. In the last moments before `end` each waits for as long as the extra thread was kept off a CPU
/// longer than it was itself; before that, for the extra thread's work.
fn charge_the_wait(
    s: &mut Scene,
    came: &[i64],
    came_0: i64,
    end: i64,
    (delay, delay_0): (i64, i64),
    name: &'static str,
) {
    let mut moments: Vec<i64> = came[1..].to_vec();
    moments.extend([came_0, end - delay, end - (delay - delay_0), end]);
    moments.sort_unstable();
    for pair in moments.windows(2) {
        let (from, to) = (pair[0], pair[1]);
        let idle = came[1..].iter().filter(|&&c| c <= from).count() as i64;
        let misplaced = idle.min(i64::from(from < came_0));
        s.add("scheduling_delay", "", misplaced * (to - from));
        // Without the one who came first, if that is not thread 0.
        let by_0 = from >= came_0 && came[1..].iter().any(|&c| c < came_0);
        for (waits, late) in
            [(idle - misplaced - i64::from(by_0), delay), (i64::from(by_0), delay - delay_0)]
        {
            match from >= end - late {
                true => s.add("oversubscription", "", waits * (to - from)),
                false => s.add("load_imbalance", name, waits * (to - from)),
            }
        }
    }
}
