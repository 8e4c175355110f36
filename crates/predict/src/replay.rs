//! The replay: the recorded threads run again, on any number of CPUs, in a discrete-event simulation.
//!
//! What is kept of the recording: each thread's CPU time between its steps, how long it was away for reasons outside the program, which
//! thread's action ended each of its other sleeps, who met at which barrier. What is decided anew: who gets which CPU and
//! which lock when. An earlier tool of this kind (VPPB, trace replay from one processor) kept the order of acquisitions; here locks are
//! fought for, as the real mutex has them:
//!
//! - A free mutex goes to who comes first, a running thread (it *barges*), not to the one that waits longest. The word is 0 free,
//!   1 held, 2 held and somebody sleeps or is about to.
//! - Who finds it held writes 2 and asks the kernel to sleep. After `retry_ns` the kernel looks again: a release until then sends
//!   it back to try again. Else it queues and leaves its CPU, which takes `switch_ns`; a release in that time turns it round
//!   cheaply. (With one long window instead of these two, equal threads that take turns were predicted 30 % too slow.)
//! - Who releases a 2 wakes the first sleeper: a call that costs the waker `wake_call_ns`, after the lock is free. The
//!   sleeper runs `wake_latency_ns` later if a CPU is idle, else when one is free, and then tries again, writing 2.
//! - A section whose last owner was on another CPU costs `transfer_ns` more: its data comes from there.
//! - A spin lock's waiters stay on their CPUs; who of them gets it is drawn by lot.
//! - Threads are served in order of becoming ready, for `slice_ns` at a time. Who is woken takes an idle CPU, his last
//!   one by preference.
//!
//! Rejected: keeping the recorded order of acquisitions (on one CPU it is the order of time slices, and says nothing about
//! two); per-CPU run queues with a balancer (no gain while threads run long, and wrong in its own ways).
use crate::machine::Machine;
use crate::program::{Program, Step};
use crate::rng::Rng;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// What one lock went through.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LockUse {
    /// Time it was held, or on its way to a thread that was woken for it while nobody else wanted it, ns.
    pub held_ns: f64,
    /// Time that threads waited for it, summed, ns.
    pub waited_ns: f64,
    /// Acquisitions.
    pub n: u64,
    /// Acquisitions that found it taken.
    pub contended: u64,
    /// Acquisitions after one on another CPU.
    pub moved: u64,
}

/// What a replay came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// From the first step to the last, ns.
    pub wall_ns: f64,
    /// CPUs in use, summed, ns.
    pub busy_ns: f64,
    /// Time for which fewer threads wanted a CPU than there were CPUs, no lock keeping any of them, ns.
    pub starved_ns: f64,
    /// Each lock.
    pub locks: Vec<LockUse>,
    /// Time in waits for other threads: events and barriers, summed over threads, ns.
    pub joined_ns: f64,
    /// Circular waits that had to be broken: the order of events of the recording does not fit this schedule.
    pub forced: u64,
}

impl Outcome {
    /// Time spent waiting for locks, ns.
    pub fn lock_wait_ns(&self) -> f64 {
        self.locks.iter().map(|l| l.waited_ns).sum()
    }
}

/// How to replay.
#[derive(Clone, Debug)]
pub struct Setup<'a> {
    /// What it costs.
    pub machine: &'a Machine,
    /// On how many CPUs.
    pub n_cpus: usize,
    /// What a section costs more whose last owner was on another CPU, ns, for each lock; beyond its end: `transfer_ns`.
    pub transfer: &'a [f64],
    /// Random differences of all CPU times, as a share: keeps equal threads from marching in step.
    pub jitter: f64,
    /// Which random numbers.
    pub seed: u64,
}

impl<'a> Setup<'a> {
    /// The usual.
    pub fn new(machine: &'a Machine, n_cpus: usize) -> Setup<'a> {
        Setup {
            machine,
            n_cpus,
            transfer: &[],
            jitter: 0.01,
            seed: 1,
        }
    }
}

/// Runs the program.
pub fn replay(program: &Program, setup: &Setup<'_>) -> Outcome {
    let mut world = World::new(program, setup);
    world.run();
    world.finish()
}

/// What a thread does when its burst on a CPU is over.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Then {
    /// What is left of the step, then the next.
    Go,
    /// Puts itself into the lock's queue, unless the lock was released meanwhile.
    Queue(u32, bool),
    /// Is in the queue and on its way off the CPU.
    Fall,
    /// Tries the lock again: it was woken, or its spinning was interrupted.
    Retry(u32, bool),
}

struct Thread {
    pc: usize,
    /// CPU time left of the step, as recorded.
    todo: f64,
    /// CPU time left of an interrupted burst, as this machine counts.
    left: f64,
    then: Then,
    /// When the wait that goes on began: one for locks, one for other threads.
    lock_wait_since: f64,
    join_since: f64,
    last_cpu: usize,
    /// Locks held, outermost first.
    held: Vec<u32>,
}

struct Lock {
    /// Who has it alone.
    owner: u32,
    sharers: u32,
    /// The word is 2: a release must wake somebody.
    wanted: bool,
    sleepers: VecDeque<(u32, bool)>,
    /// Threads that spin, with their CPU.
    spinners: Vec<(u32, bool, usize)>,
    owner_cpu: usize,
    /// Since when it is held, or was released to somebody who sleeps.
    held_since: f64,
    used: LockUse,
}

#[derive(Clone, Copy)]
struct Cpu {
    thread: u32,
    until: f64,
    /// Counts bursts, so that events of earlier ones are known.
    epoch: u32,
    slice_end: f64,
    /// Its thread spins: no burst ends by itself.
    spins: bool,
    /// Its thread is still on its way.
    arriving: bool,
}

const NOBODY: u32 = u32::MAX;
/// Work is done in pieces of this length: how many CPUs are busy changes meanwhile.
const PIECE_NS: f64 = 1_000_000.0;

#[derive(Clone, Copy, PartialEq, Debug)]
enum What {
    /// The CPU's burst ends, if it is still this one.
    Burst(u32, u32),
    /// The CPU's thread arrives: it was woken.
    Arrive(u32),
    /// Time to look whether somebody else should have the CPU.
    Slice(u32, u32),
    /// The thread's delay is over.
    Delay(u32),
}

/// What takes no part in the order of events.
#[derive(Clone, Copy, Debug)]
struct Entry(What);
impl PartialEq for Entry {
    fn eq(&self, _: &Entry) -> bool {
        true
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    fn cmp(&self, _: &Entry) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

struct World<'a> {
    program: &'a Program,
    setup: &'a Setup<'a>,
    now: f64,
    order: u64,
    /// Times are not negative, so their bits order as they do.
    events: BinaryHeap<Reverse<(u64, u64, Entry)>>,
    threads: Vec<Thread>,
    cpus: Vec<Cpu>,
    n_busy: usize,
    ready: VecDeque<u32>,
    slices_armed: bool,
    /// Which arming: looks of earlier ones are void.
    arming: u32,
    locks: Vec<Lock>,
    posted: Vec<bool>,
    waiter: Vec<u32>,
    arrived: Vec<Vec<u32>>,
    out: Outcome,
    n_lock_waiting: usize,
    n_done: usize,
    /// When the last thread ended.
    last_end: f64,
    rng: Rng,
}

impl<'a> World<'a> {
    fn new(program: &'a Program, setup: &'a Setup<'a>) -> World<'a> {
        let n_cpus = setup.n_cpus.max(1);
        let thread = |i: usize| Thread {
            pc: 0,
            todo: 0.0,
            left: 0.0,
            then: Then::Go,
            lock_wait_since: 0.0,
            join_since: 0.0,
            last_cpu: i % n_cpus,
            held: Vec::new(),
        };
        let lock = |_| Lock {
            owner: NOBODY,
            sharers: 0,
            wanted: false,
            sleepers: VecDeque::new(),
            spinners: Vec::new(),
            owner_cpu: usize::MAX,
            held_since: f64::NAN,
            used: LockUse::default(),
        };
        let cpu = Cpu {
            thread: NOBODY,
            until: 0.0,
            epoch: 0,
            slice_end: 0.0,
            spins: false,
            arriving: false,
        };
        let mut world = World {
            program,
            setup,
            now: 0.0,
            order: 0,
            events: BinaryHeap::new(),
            threads: (0..program.scripts.len()).map(thread).collect(),
            cpus: vec![cpu; n_cpus],
            n_busy: 0,
            ready: VecDeque::new(),
            slices_armed: false,
            arming: 0,
            locks: program.locks.iter().map(lock).collect(),
            posted: vec![false; program.n_events as usize],
            waiter: vec![NOBODY; program.n_events as usize],
            arrived: vec![Vec::new(); program.rounds.len()],
            out: Outcome::default(),
            n_lock_waiting: 0,
            n_done: 0,
            last_end: 0.0,
            rng: Rng::new(setup.seed),
        };
        for thread in 0..program.scripts.len() as u32 {
            if !world.begins_asleep(thread) {
                world.ready.push_back(thread);
            }
        }
        for cpu in 0..n_cpus {
            world.take_next(cpu);
        }
        if !world.ready.is_empty() {
            world.arm_slices();
        }
        world
    }

    /// Who begins with a wait (a thread that is not made yet) takes no CPU before it is over.
    fn begins_asleep(&mut self, thread: u32) -> bool {
        match self.program.scripts[thread as usize].steps.first() {
            Some(&Step::Wait(event)) => {
                self.waiter[event as usize] = thread;
                self.threads[thread as usize].pc = 1;
                true
            }
            Some(_) => false,
            None => {
                self.n_done += 1;
                true
            }
        }
    }

    fn at(&mut self, time: f64, what: What) {
        self.order += 1;
        self.events
            .push(Reverse((time.to_bits(), self.order, Entry(what))));
    }

    fn run(&mut self) {
        while self.n_done < self.threads.len() {
            let Some(Reverse((time, _, Entry(what)))) = self.events.pop() else {
                if self.force() {
                    continue;
                }
                return;
            };
            if let What::Burst(cpu, epoch) = what
                && self.cpus[cpu as usize].epoch != epoch
            {
                continue;
            }
            self.account(f64::from_bits(time));
            match what {
                What::Burst(cpu, _) => self.step(cpu as usize),
                What::Arrive(cpu) => {
                    self.cpus[cpu as usize].arriving = false;
                    self.start(cpu as usize);
                }
                What::Slice(cpu, armed) => self.slice(cpu as usize, armed),
                What::Delay(thread) => {
                    self.make_ready(thread, None);
                }
            }
        }
    }

    fn finish(mut self) -> Outcome {
        self.out.wall_ns = self.last_end;
        self.out.locks = self.locks.into_iter().map(|l| l.used).collect();
        self.out
    }

    fn account(&mut self, time: f64) {
        let passed = time - self.now;
        self.out.busy_ns += passed * self.n_busy as f64;
        if self.n_busy < self.cpus.len() && self.n_lock_waiting == 0 {
            self.out.starved_ns += passed;
        }
        self.now = time;
    }

    /// How long a piece of recorded work takes here and now.
    fn scaled(&mut self, ix: usize, ns: f64) -> f64 {
        let mut factor = 1.0 + self.setup.jitter * (2.0 * self.rng.uniform() - 1.0);
        if self.threads[ix].held.is_empty() && self.n_busy > 1 {
            let others = (self.cpus.len().min(self.threads.len()) - 1).max(1);
            let share = ((self.n_busy - 1) as f64 / others as f64).min(1.0);
            factor *= 1.0 + (self.setup.machine.slowdown - 1.0) * share;
        }
        ns * factor
    }

    // ---- CPUs ---------------------------------------------------------------------------------------------------

    /// The thread wants a CPU. True: it was sent to another, idle one than the waker's.
    fn make_ready(&mut self, thread: u32, waker_cpu: Option<usize>) -> bool {
        let last = self.threads[thread as usize].last_cpu;
        let is_idle = |c: &Cpu| c.thread == NOBODY;
        let idle = if is_idle(&self.cpus[last]) {
            Some(last)
        } else if self.n_busy < self.cpus.len() {
            self.cpus.iter().position(is_idle)
        } else {
            None
        };
        let Some(cpu) = idle else {
            self.ready.push_back(thread);
            self.arm_slices();
            return false;
        };
        let machine = self.setup.machine;
        self.cpus[cpu].thread = thread;
        self.cpus[cpu].arriving = true;
        self.n_busy += 1;
        let is_remote = waker_cpu.is_some_and(|waker| waker != cpu);
        let latency = if is_remote {
            machine.wake_latency_ns
        } else {
            machine.switch_ns
        };
        self.at(self.now + latency, What::Arrive(cpu as u32));
        is_remote
    }

    /// Somebody is ready and no CPU idle: who runs must leave at the end of the slice.
    fn arm_slices(&mut self) {
        if self.slices_armed {
            return;
        }
        self.slices_armed = true;
        self.arming += 1;
        for cpu in 0..self.cpus.len() {
            let end = self.cpus[cpu].slice_end.max(self.now);
            self.at(end, What::Slice(cpu as u32, self.arming));
        }
    }

    fn slice(&mut self, cpu: usize, arming: u32) {
        if arming != self.arming || !self.slices_armed {
            return;
        }
        if self.ready.is_empty() {
            self.slices_armed = false;
            return;
        }
        let c = self.cpus[cpu];
        let is_over = c.slice_end <= self.now;
        if c.thread != NOBODY && !c.arriving && is_over && (c.spins || c.until > self.now) {
            let ix = c.thread as usize;
            if c.spins {
                self.stop_spinning(cpu);
            } else {
                self.threads[ix].left = c.until - self.now;
            }
            self.cpus[cpu].epoch += 1;
            self.cpus[cpu].thread = NOBODY;
            self.n_busy -= 1;
            self.ready.push_back(c.thread);
            self.take_next(cpu);
        }
        let next = self.cpus[cpu].slice_end.max(self.now + 1_000.0);
        self.at(next, What::Slice(cpu as u32, self.arming));
    }

    fn take_next(&mut self, cpu: usize) {
        if let Some(thread) = self.ready.pop_front() {
            self.cpus[cpu].thread = thread;
            self.n_busy += 1;
            self.start(cpu);
        }
    }

    /// The CPU's thread begins, or goes on with what was left of its burst.
    fn start(&mut self, cpu: usize) {
        self.cpus[cpu].slice_end = self.now + self.setup.machine.slice_ns;
        let ix = self.cpus[cpu].thread as usize;
        self.threads[ix].last_cpu = cpu;
        let left = std::mem::replace(&mut self.threads[ix].left, 0.0);
        // Through the queue even when nothing is left: threads that start each other must not nest here.
        self.burst(cpu, left);
    }

    fn burst(&mut self, cpu: usize, ns: f64) {
        let c = &mut self.cpus[cpu];
        c.epoch = c.epoch.wrapping_add(1);
        c.until = self.now + ns;
        c.spins = false;
        let (until, epoch) = (c.until, c.epoch);
        self.at(until, What::Burst(cpu as u32, epoch));
    }

    /// The CPU's thread leaves it; another one may have it.
    fn leave(&mut self, cpu: usize) {
        self.cpus[cpu].thread = NOBODY;
        self.cpus[cpu].epoch = self.cpus[cpu].epoch.wrapping_add(1);
        self.cpus[cpu].spins = false;
        self.n_busy -= 1;
        self.take_next(cpu);
    }

    // ---- steps --------------------------------------------------------------------------------------------------

    /// Does what takes no time, until a burst, a wait or the end.
    fn step(&mut self, cpu: usize) {
        let thread = self.cpus[cpu].thread;
        let ix = thread as usize;
        loop {
            if self.threads[ix].todo > 0.0 {
                let piece = self.threads[ix].todo.min(PIECE_NS);
                self.threads[ix].todo -= piece;
                let ns = self.scaled(ix, piece);
                return self.burst(cpu, ns);
            }
            match std::mem::replace(&mut self.threads[ix].then, Then::Go) {
                Then::Go => {}
                Then::Queue(lock, shared) | Then::Retry(lock, shared)
                    if self.is_free(lock, shared) =>
                {
                    // Who slept cannot know that nobody else does: the word becomes 2.
                    self.locks[lock as usize].wanted = true;
                    if self.enter(lock, thread, cpu, shared) {
                        return;
                    }
                    continue;
                }
                Then::Queue(lock, shared) if self.locks[lock as usize].wanted => {
                    self.locks[lock as usize]
                        .sleepers
                        .push_back((thread, shared));
                    self.threads[ix].then = Then::Fall;
                    return self.burst(cpu, self.setup.machine.switch_ns);
                }
                Then::Queue(lock, shared) | Then::Retry(lock, shared) => {
                    return self.wait(cpu, lock, shared);
                }
                Then::Fall => return self.leave(cpu),
            }
            let Some(&step) = self.program.scripts[ix].steps.get(self.threads[ix].pc) else {
                self.n_done += 1;
                self.last_end = self.now;
                return self.leave(cpu);
            };
            self.threads[ix].pc += 1;
            let is_over = match step {
                Step::Compute(ns) => {
                    self.threads[ix].todo = ns as f64;
                    false
                }
                Step::Acquire(lock, shared) => self.acquire(cpu, lock, shared),
                Step::Release(lock) => self.release(lock, cpu),
                Step::Delay(ns) => {
                    self.at(self.now + ns as f64, What::Delay(thread));
                    self.leave(cpu);
                    true
                }
                Step::Post(event) => self.post(event, cpu),
                Step::Wait(event) => self.wait_for(event, cpu),
                Step::Barrier(round) => self.barrier(round, cpu),
            };
            if is_over {
                return;
            }
        }
    }

    fn post(&mut self, event: u32, cpu: usize) -> bool {
        self.posted[event as usize] = true;
        let waiter = std::mem::replace(&mut self.waiter[event as usize], NOBODY);
        if waiter == NOBODY {
            return false;
        }
        self.out.joined_ns += self.now - self.threads[waiter as usize].join_since;
        // The recording has the price of waking on one CPU in the waker's time already.
        let m = self.setup.machine;
        let more = if self.make_ready(waiter, Some(cpu)) {
            m.wake_call_ns - m.wake_local_ns
        } else {
            0.0
        };
        if more > 0.0 {
            self.burst(cpu, more);
        }
        more > 0.0
    }

    fn wait_for(&mut self, event: u32, cpu: usize) -> bool {
        if self.posted[event as usize] {
            return false;
        }
        let thread = self.cpus[cpu].thread;
        self.waiter[event as usize] = thread;
        self.threads[thread as usize].join_since = self.now;
        self.leave(cpu);
        true
    }

    fn barrier(&mut self, round: u32, cpu: usize) -> bool {
        let thread = self.cpus[cpu].thread;
        let here = &mut self.arrived[round as usize];
        if here.len() + 1 < self.program.rounds[round as usize] as usize {
            here.push(thread);
            self.threads[thread as usize].join_since = self.now;
            self.leave(cpu);
            return true;
        }
        let m = self.setup.machine;
        let mut cost = 0.0;
        for other in std::mem::take(&mut self.arrived[round as usize]) {
            self.out.joined_ns += self.now - self.threads[other as usize].join_since;
            cost += if self.make_ready(other, Some(cpu)) {
                m.wake_call_ns
            } else {
                m.wake_local_ns
            };
        }
        if cost > 0.0 {
            self.burst(cpu, cost);
        }
        cost > 0.0
    }

    // ---- locks --------------------------------------------------------------------------------------------------

    fn is_free(&self, lock: u32, shared: bool) -> bool {
        let l = &self.locks[lock as usize];
        l.owner == NOBODY && (shared || l.sharers == 0)
    }

    /// True: the thread is busy, or gone.
    fn acquire(&mut self, cpu: usize, lock: u32, shared: bool) -> bool {
        let thread = self.cpus[cpu].thread;
        self.locks[lock as usize].used.n += 1;
        self.threads[thread as usize].lock_wait_since = f64::NAN;
        if self.is_free(lock, shared) {
            return self.enter(lock, thread, cpu, shared);
        }
        self.locks[lock as usize].used.contended += 1;
        self.n_lock_waiting += 1;
        self.threads[thread as usize].lock_wait_since = self.now;
        self.wait(cpu, lock, shared);
        true
    }

    fn wait(&mut self, cpu: usize, lock: u32, shared: bool) {
        let thread = self.cpus[cpu].thread;
        if self.program.locks[lock as usize].spins {
            self.locks[lock as usize]
                .spinners
                .push((thread, shared, cpu));
            let c = &mut self.cpus[cpu];
            c.epoch = c.epoch.wrapping_add(1);
            c.spins = true;
            return;
        }
        self.locks[lock as usize].wanted = true;
        self.threads[thread as usize].then = Then::Queue(lock, shared);
        self.burst(cpu, self.setup.machine.retry_ns);
    }

    fn stop_spinning(&mut self, cpu: usize) {
        let thread = self.cpus[cpu].thread;
        for (ix, lock) in self.locks.iter_mut().enumerate() {
            if let Some(at) = lock.spinners.iter().position(|s| s.0 == thread) {
                let (_, shared, _) = lock.spinners.swap_remove(at);
                self.threads[thread as usize].then = Then::Retry(ix as u32, shared);
            }
        }
        self.cpus[cpu].spins = false;
    }

    /// The lock is the thread's. True: getting its data takes a burst.
    fn enter(&mut self, lock: u32, thread: u32, cpu: usize, shared: bool) -> bool {
        let since = self.threads[thread as usize].lock_wait_since;
        let l = &mut self.locks[lock as usize];
        if !since.is_nan() {
            l.used.waited_ns += self.now - since;
            self.n_lock_waiting -= 1;
        }
        if l.held_since.is_nan() {
            l.held_since = self.now;
        }
        if shared {
            l.sharers += 1;
        } else {
            l.owner = thread;
        }
        let moved = l.owner_cpu != cpu && l.owner_cpu != usize::MAX;
        l.used.moved += u64::from(moved);
        l.owner_cpu = cpu;
        self.threads[thread as usize].held.push(lock);
        let cost = self
            .setup
            .transfer
            .get(lock as usize)
            .copied()
            .unwrap_or(self.setup.machine.transfer_ns);
        if moved && cost > 0.0 {
            self.burst(cpu, cost);
        }
        moved && cost > 0.0
    }

    /// True: waking takes a burst.
    fn release(&mut self, lock: u32, cpu: usize) -> bool {
        let thread = self.cpus[cpu].thread;
        self.threads[thread as usize].held.retain(|&h| h != lock);
        let l = &mut self.locks[lock as usize];
        if l.owner == thread {
            l.owner = NOBODY;
        } else {
            l.sharers = l.sharers.saturating_sub(1);
        }
        if l.sharers > 0 {
            return false;
        }
        if !l.spinners.is_empty() {
            let at = (self.rng.uniform() * l.spinners.len() as f64) as usize;
            let (spinner, shared, its_cpu) = l.spinners.swap_remove(at);
            if !self.enter(lock, spinner, its_cpu, shared) {
                self.burst(its_cpu, 0.0);
            }
            return false;
        }
        if !l.wanted || l.sleepers.is_empty() {
            // Free, or on its way to somebody who is just falling asleep and will notice.
            l.wanted = false;
            l.used.held_ns += self.now - l.held_since;
            l.held_since = f64::NAN;
            return false;
        }
        l.wanted = false;
        let mut woken = Vec::new();
        if let Some(first) = l.sleepers.pop_front() {
            woken.push(first);
            // Readers sleep on one word and are woken together.
            while first.1 && l.sleepers.front().is_some_and(|s| s.1) {
                woken.extend(l.sleepers.pop_front());
            }
        }
        // Held time goes on until somebody enters: a lock on its way to a sleeper serves nobody.
        let m = self.setup.machine;
        let mut cost = 0.0;
        for (sleeper, shared) in woken {
            let was = std::mem::replace(
                &mut self.threads[sleeper as usize].then,
                Then::Retry(lock, shared),
            );
            if was == Then::Fall {
                // Not yet off its CPU: it turns round, nobody has to be fetched.
                cost += m.wake_local_ns;
                continue;
            }
            cost += if self.make_ready(sleeper, Some(cpu)) {
                m.wake_call_ns
            } else {
                m.wake_local_ns
            };
        }
        if cost > 0.0 {
            self.burst(cpu, cost);
        }
        cost > 0.0
    }

    /// Nothing moves any more: the recording's order of events does not fit this schedule. Lets the first waiter go on.
    fn force(&mut self) -> bool {
        self.out.forced += 1;
        if let Some(event) = self.waiter.iter().position(|&w| w != NOBODY) {
            let thread = std::mem::replace(&mut self.waiter[event], NOBODY);
            self.posted[event] = true;
            self.make_ready(thread, None);
            return true;
        }
        if let Some(round) = self.arrived.iter().position(|a| !a.is_empty()) {
            for thread in std::mem::take(&mut self.arrived[round]) {
                self.make_ready(thread, None);
            }
            return true;
        }
        for lock in 0..self.locks.len() {
            if let Some((thread, shared)) = self.locks[lock].sleepers.pop_front() {
                self.locks[lock].owner = NOBODY;
                self.locks[lock].sharers = 0;
                self.threads[thread as usize].then = Then::Retry(lock as u32, shared);
                self.make_ready(thread, None);
                return true;
            }
        }
        false
    }
}
