//! The replay: the recorded threads run again, on any number of CPUs, in a discrete-event simulation.
//!
//! The replay keeps from the recording: each thread's CPU time between its steps, how long it was away for reasons outside the
//! program, which thread's action ended each of its other sleeps, and which threads met at which barrier. It decides anew which
//! thread gets which CPU and which lock, and when. An earlier tool of this kind (VPPB, trace replay from one processor) kept the
//! order of acquisitions; here threads compete for locks under the rules of the real mutex:
//!
//! - A free mutex goes to the running thread that asks first (it *barges*), not to the thread that has waited longest. The lock's
//!   word is 0 when free, 1 when held, 2 when held and a thread sleeps or is about to.
//! - A thread that finds the lock held writes 2 and asks the kernel to sleep. After `retry_ns` the kernel reads the word again: if
//!   the lock was released by then, the thread goes back and tries again. Otherwise it queues and leaves its CPU; a release within
//!   `fall_ns` turns it round cheaply. (With one long window instead of these two, equal threads that take turns were predicted
//!   30 % too slow.)
//! - A release that finds a 2 wakes the first sleeper with a call that costs the waker `wake_call_ns`, after the lock is free. The
//!   sleeper runs `wake_latency_ns` later if a CPU is idle, else when one becomes free, and then tries again, writing 2.
//! - A section whose last owner was on another CPU costs `transfer_ns` more: its data comes from there.
//! - Threads that wait for a spin lock stay on their CPUs; which of them gets it is random.
//! - Threads that take two locks in both orders can block each other for ever, here as in the program. A thread whose wait closes
//!   such a circle takes the lock from its holder, whose release then does nothing; the answer names the locks.
//! - CPUs are shared fairly, see `replay/cpus.rs`. A woken thread takes an idle CPU, preferably the one that it had last.
//!
//! Rejected: keeping the recorded order of acquisitions (on one CPU it is the order of time slices, and says nothing about
//! two); per-CPU run queues with a balancer (no gain while threads run long, and wrong in its own ways).
use crate::machine::Machine;
use crate::program::{Program, Step};
use kasuri_base::random::Rng;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap, VecDeque};

mod cpus;
mod locks;

/// Times and counts of one lock in a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LockUse {
    /// Time it was held, or on its way to a woken thread while no other thread wanted it, ns.
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

/// The result of a replay.
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
    /// Waits that had to be broken: circles of locks, or an order of events of the recording that does not fit this schedule.
    pub forced: u64,
    /// Of these, circles of locks: each thread held one and waited for the next one's.
    pub deadlocks: u64,
    /// The locks of such circles, each set once and in ascending order; the first [`DEADLOCKS`].
    pub deadlocked: Vec<Vec<u32>>,
}

/// Sets of locks that a replay remembers as deadlocked.
pub const DEADLOCKS: usize = 16;

impl Outcome {
    /// Of a program that does the same so many times.
    pub fn times(&self, times: f64) -> Outcome {
        let n = |n: u64| (n as f64 * times).round() as u64;
        let used = |l: &LockUse| LockUse {
            held_ns: l.held_ns * times,
            waited_ns: l.waited_ns * times,
            n: n(l.n),
            contended: n(l.contended),
            moved: n(l.moved),
        };
        Outcome {
            wall_ns: self.wall_ns * times,
            busy_ns: self.busy_ns * times,
            starved_ns: self.starved_ns * times,
            joined_ns: self.joined_ns * times,
            locks: self.locks.iter().map(used).collect(),
            ..self.clone()
        }
    }

    /// Time spent waiting for locks, ns.
    pub fn lock_wait_ns(&self) -> f64 {
        self.locks.iter().map(|l| l.waited_ns).sum()
    }
}

/// Settings of a replay.
#[derive(Clone, Debug)]
pub struct Setup<'a> {
    /// The costs of the machine.
    pub machine: &'a Machine,
    /// On how many CPUs.
    pub n_cpus: usize,
    /// The extra cost, ns, of a section whose last owner was on another CPU, by lock; locks beyond its end cost `transfer_ns`.
    pub transfer: &'a [f64],
    /// Random differences of all CPU times, as a share: keeps equal threads from marching in step.
    pub jitter: f64,
    /// Seed of the random numbers.
    pub seed: u64,
}

impl<'a> Setup<'a> {
    /// The usual.
    pub fn new(machine: &'a Machine, n_cpus: usize) -> Setup<'a> {
        Setup { machine, n_cpus, transfer: &[], jitter: 0.01, seed: 1 }
    }
}

/// Runs the program.
pub fn replay(program: &Program, setup: &Setup<'_>) -> Outcome {
    let mut world = World::new(program, setup);
    world.run();
    world.finish()
}

/// The next action of a thread when its burst on a CPU is over.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Then {
    /// Finish the step, then take the next.
    Go,
    /// Puts itself into the lock's queue, unless the lock was released meanwhile.
    Queue(u32, bool),
    /// Is in the queue and on its way off the CPU.
    Fall,
    /// Tries the lock again: it was woken, or its spinning was interrupted.
    Retry(u32, bool),
    /// Looks again whether the event has been posted.
    Spin(u32),
}

struct Thread {
    pc: usize,
    /// CPU time left of the step, as recorded.
    todo: f64,
    /// CPU time left of an interrupted burst, as this machine counts.
    left: f64,
    then: Then,
    /// The lock it waits for, and whether to share it.
    wants: Option<(u32, bool)>,
    /// When the wait that goes on began: one for locks, one for other threads.
    lock_wait_since: Option<f64>,
    join_since: f64,
    last_cpu: usize,
    /// CPU time used, up to `runs_since` while it has a CPU (else NaN), and what its sleeps are charged.
    charged: f64,
    runs_since: f64,
    sleeps_since: f64,
    /// The charge at which its turn is over.
    turn_end: f64,
    /// Number of locks held.
    n_held: usize,
    /// Those held together with others: how often, and since which [`Lock::epoch`]. Of a lock that is held alone the lock knows.
    shares: HashMap<u32, (u32, u32)>,
}

struct Lock {
    /// The thread that holds it exclusively.
    owner: u32,
    sharers: u32,
    /// The word is 2: a release must wake a sleeper.
    wanted: bool,
    sleepers: VecDeque<(u32, bool)>,
    /// Threads that spin, with their CPU.
    spinners: Vec<(u32, bool, usize)>,
    owner_cpu: usize,
    /// Since when it has been held, or on its way to a sleeper. None: it is free.
    held_since: Option<f64>,
    /// Counts how often it was taken away from its holders, so that their releases of it are known for what they are.
    epoch: u32,
    used: LockUse,
}

#[derive(Clone, Copy)]
struct Cpu {
    thread: u32,
    until: f64,
    /// Its thread spins: no burst ends by itself.
    spins: bool,
    /// Its thread is still on its way.
    arriving: bool,
    idle_since: f64,
    /// When it came out of its last idleness.
    busy_since: f64,
}

const NOBODY: u32 = u32::MAX;
/// Work is done in pieces of this length: how many CPUs are busy changes meanwhile.
const PIECE_NS: f64 = 1_000_000.0;

/// What comes, beside the ends of bursts and the arrivals of woken threads, of which each CPU has one at most.
#[derive(Clone, Copy, PartialEq, Debug)]
enum What {
    /// Time to check whether another thread should have a CPU, unless a later check replaced this one.
    Look(u32),
    /// The thread's delay is over.
    Delay(u32),
}

/// The causes of waits other than locks.
#[derive(Clone, Copy)]
enum Join {
    Event(u32),
    Round(u32),
}

/// Counters that do not influence the order of events.
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

/// Times are not negative, so their bits order as they do; then an event's number.
type Key = (u64, u64);

/// Nothing is to come.
const NEVER: Key = (u64::MAX, u64::MAX);

/// What is to come. Nearly all of it are the CPUs' bursts: of these a tree has the first, each node that of its two children.
struct Events {
    /// By CPU: when its burst ends, or its thread arrives.
    of_cpu: Vec<Key>,
    /// From the root, at 1, on: the CPU whose event comes first below the node. The leaves are the CPUs.
    first: Vec<u32>,
    others: BinaryHeap<Reverse<(Key, Entry)>>,
}

/// The next event.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Next {
    Cpu(usize),
    Other(What),
}

impl Events {
    fn new(n_cpus: usize) -> Events {
        let size = n_cpus.next_power_of_two();
        let mut first: Vec<u32> = (0..2 * size as u32).collect();
        for node in (1..2 * size).rev() {
            first[node] = match node >= size {
                true => (node - size) as u32,
                false => first[2 * node],
            };
        }
        Events { of_cpu: vec![NEVER; size], first, others: BinaryHeap::new() }
    }

    /// The CPU's event; one that it had is no longer to come.
    fn set(&mut self, cpu: usize, key: Key) {
        self.of_cpu[cpu] = key;
        let mut node = (self.of_cpu.len() + cpu) / 2;
        while node > 0 {
            let (a, b) = (self.first[2 * node], self.first[2 * node + 1]);
            let is_first = self.of_cpu[a as usize] <= self.of_cpu[b as usize];
            self.first[node] = if is_first { a } else { b };
            node /= 2;
        }
    }

    fn push(&mut self, key: Key, what: What) {
        self.others.push(Reverse((key, Entry(what))));
    }

    /// The next event and its time. A CPU's is there until another one is set.
    fn next(&mut self) -> Option<(u64, Next)> {
        let cpu = self.first[1] as usize;
        let key = self.of_cpu[cpu];
        if let Some(Reverse((other, Entry(what)))) = self.others.peek()
            && *other < key
        {
            let next = (other.0, Next::Other(*what));
            self.others.pop();
            return Some(next);
        }
        (key != NEVER).then_some((key.0, Next::Cpu(cpu)))
    }
}

/// A thread that waits for a CPU; in order of what it is charged, then of coming.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Ready {
    /// Charges are not negative, so their bits order as they do.
    charged: u64,
    order: u64,
    thread: u32,
}

impl Ready {
    fn new(charged: f64, order: u64, thread: u32) -> Ready {
        Ready { charged: charged.to_bits(), order, thread }
    }

    fn charged(&self) -> f64 {
        f64::from_bits(self.charged)
    }
}

struct World<'a> {
    program: &'a Program,
    setup: &'a Setup<'a>,
    now: f64,
    order: u64,
    events: Events,
    threads: Vec<Thread>,
    cpus: Vec<Cpu>,
    n_busy: usize,
    /// How much longer work takes outside locks, by how many CPUs are busy.
    slowdowns: Vec<f64>,
    ready: BTreeSet<Ready>,
    /// The look that counts, and when it is.
    look: u32,
    next_look: f64,
    /// The least charge at the last time that any thread had a CPU.
    least_before: f64,
    locks: Vec<Lock>,
    posted: Vec<bool>,
    waiter: Vec<u32>,
    /// The CPUs whose threads spin for an event, with the event.
    spinning: Vec<(u32, usize)>,
    arrived: Vec<Vec<u32>>,
    /// Waits for events and rounds in the order of their beginnings; many are over.
    waits: VecDeque<Join>,
    /// Delays that go on.
    n_away: usize,
    /// Spinning threads that made way to others since last anything moved.
    stuck: usize,
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
            wants: None,
            lock_wait_since: None,
            join_since: 0.0,
            last_cpu: i % n_cpus,
            charged: 0.0,
            runs_since: f64::NAN,
            sleeps_since: 0.0,
            turn_end: 0.0,
            n_held: 0,
            shares: HashMap::new(),
        };
        let lock = |_| Lock {
            owner: NOBODY,
            sharers: 0,
            wanted: false,
            sleepers: VecDeque::new(),
            spinners: Vec::new(),
            owner_cpu: usize::MAX,
            held_since: None,
            epoch: 0,
            used: LockUse::default(),
        };
        let cpu = Cpu {
            thread: NOBODY,
            until: 0.0,
            spins: false,
            arriving: false,
            idle_since: 0.0,
            busy_since: 0.0,
        };
        let others = (n_cpus.min(program.scripts.len()).saturating_sub(1)).max(1);
        let slowdown = |n_busy: usize| {
            let share = (n_busy.saturating_sub(1) as f64 / others as f64).min(1.0);
            1.0 + (setup.machine.slowdown - 1.0) * share
        };
        let mut world = World {
            program,
            setup,
            now: 0.0,
            order: 0,
            events: Events::new(n_cpus),
            threads: (0..program.scripts.len()).map(thread).collect(),
            cpus: vec![cpu; n_cpus],
            n_busy: 0,
            slowdowns: (0..=n_cpus).map(slowdown).collect(),
            ready: BTreeSet::new(),
            look: 0,
            next_look: f64::INFINITY,
            least_before: 0.0,
            locks: program.locks.iter().map(lock).collect(),
            posted: vec![false; program.n_events as usize],
            waiter: vec![NOBODY; program.n_events as usize],
            spinning: Vec::new(),
            arrived: vec![Vec::new(); program.rounds.len()],
            waits: VecDeque::new(),
            n_away: 0,
            stuck: 0,
            out: Outcome::default(),
            n_lock_waiting: 0,
            n_done: 0,
            last_end: 0.0,
            rng: Rng::new(setup.seed),
        };
        for thread in 0..program.scripts.len() as u32 {
            if !world.begins_asleep(thread) {
                world.queue(thread);
            }
        }
        for cpu in 0..n_cpus {
            world.take_next(cpu);
        }
        world
    }

    /// A thread whose script begins with a wait (it has not been created yet) takes no CPU until the wait is over.
    fn begins_asleep(&mut self, thread: u32) -> bool {
        match self.program.scripts[thread as usize].steps.first() {
            Some(&Step::Wait(event)) => {
                self.waiter[event as usize] = thread;
                self.waits.push_back(Join::Event(event));
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

    fn key(&mut self, time: f64) -> Key {
        self.order += 1;
        (time.to_bits(), self.order)
    }

    fn at(&mut self, time: f64, what: What) {
        let key = self.key(time);
        self.events.push(key, what);
    }

    /// The CPU's burst ends then, or its thread arrives.
    fn at_cpu(&mut self, cpu: usize, time: f64) {
        let key = self.key(time);
        self.events.set(cpu, key);
    }

    fn run(&mut self) {
        while self.n_done < self.threads.len() {
            let Some((time, next)) = self.events.next() else {
                if self.force() {
                    continue;
                }
                // Nothing to break either: the rest of the program is left out, and that is said.
                self.out.forced += (self.threads.len() - self.n_done) as u64;
                self.last_end = self.now;
                return;
            };
            self.account(f64::from_bits(time));
            match next {
                Next::Cpu(cpu) => match std::mem::take(&mut self.cpus[cpu].arriving) {
                    true => self.start(cpu),
                    false => self.step(cpu),
                },
                Next::Other(What::Look(which)) => {
                    self.look(which);
                    // All that run spin for ever: each had its turns, and nothing else will come.
                    if self.stuck > 2 * self.threads.len() + 64 && self.n_away == 0 {
                        self.stuck = 0;
                        self.force();
                    }
                }
                Next::Other(What::Delay(thread)) => {
                    self.n_away -= 1;
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

    /// Time that a piece of recorded work takes on this machine with as many CPUs busy as now.
    fn scaled(&mut self, ix: usize, ns: f64) -> f64 {
        let mut factor = 1.0 + self.setup.jitter * (2.0 * self.rng.uniform() - 1.0);
        if self.threads[ix].n_held == 0 && self.n_busy > 1 {
            factor *= self.slowdowns[self.n_busy];
        }
        ns * factor
    }

    /// Does what takes no time, until a burst, a wait or the end.
    fn step(&mut self, cpu: usize) {
        let thread = self.cpus[cpu].thread;
        let ix = thread as usize;
        loop {
            if self.threads[ix].todo > 0.0 {
                let piece = self.threads[ix].todo.min(PIECE_NS);
                self.threads[ix].todo -= piece;
                self.stuck = 0;
                let ns = self.scaled(ix, piece);
                return self.burst(cpu, ns);
            }
            match std::mem::replace(&mut self.threads[ix].then, Then::Go) {
                Then::Go => {}
                Then::Queue(lock, shared) | Then::Retry(lock, shared)
                    if self.is_free(lock, shared) =>
                {
                    // A thread that slept cannot know whether others still sleep, so it writes 2.
                    self.locks[lock as usize].wanted = true;
                    if self.enter(lock, thread, cpu, shared) {
                        return;
                    }
                    continue;
                }
                Then::Queue(lock, shared) if self.locks[lock as usize].wanted => {
                    self.locks[lock as usize].sleepers.push_back((thread, shared));
                    self.threads[ix].then = Then::Fall;
                    return self.burst(cpu, self.setup.machine.fall_ns);
                }
                Then::Queue(lock, shared) | Then::Retry(lock, shared) => {
                    return self.wait(cpu, lock, shared);
                }
                Then::Spin(event) if self.spins_for(event, cpu) => return,
                Then::Spin(_) => {}
                Then::Fall => {
                    // The next thread starts later, by the rest of the switch.
                    if let Some(next) = self.ready.first() {
                        let m = self.setup.machine;
                        self.threads[next.thread as usize].left +=
                            (m.switch_ns - m.fall_ns).max(0.0);
                    }
                    return self.leave(cpu);
                }
            }
            let Some(&step) = self.program.scripts[ix].steps.get(self.threads[ix].pc) else {
                self.n_done += 1;
                self.last_end = self.now;
                return self.leave(cpu);
            };
            self.threads[ix].pc += 1;
            self.stuck = 0;
            let is_over = match step {
                Step::Compute(ns) => {
                    self.threads[ix].todo = ns as f64;
                    false
                }
                Step::Acquire(lock, shared) => self.acquire(cpu, lock, shared),
                Step::Release(lock) => self.release(lock, cpu),
                Step::Delay(ns) => {
                    self.at(self.now + ns as f64, What::Delay(thread));
                    self.n_away += 1;
                    self.leave(cpu);
                    true
                }
                Step::Post(event) => self.post(event, cpu),
                Step::Wait(event) => self.wait_for(event, cpu),
                Step::Spin(event) => {
                    self.waits.push_back(Join::Event(event));
                    self.spins_for(event, cpu)
                }
                Step::Barrier(round) => self.barrier(round, cpu),
            };
            if is_over {
                return;
            }
        }
    }

    fn post(&mut self, event: u32, cpu: usize) -> bool {
        self.posted[event as usize] = true;
        self.release_spinning(event);
        let waiter = std::mem::replace(&mut self.waiter[event as usize], NOBODY);
        if waiter == NOBODY {
            return false;
        }
        self.out.joined_ns += self.now - self.threads[waiter as usize].join_since;
        // The recording has the price of waking on one CPU in the waker's time already.
        let more = self.make_ready(waiter, Some(cpu)) - self.setup.machine.wake_local_ns;
        if more > 0.0 {
            self.burst(cpu, more);
        }
        more > 0.0
    }

    /// Stays on the CPU until the event is posted, unless it has been.
    fn spins_for(&mut self, event: u32, cpu: usize) -> bool {
        if self.posted[event as usize] {
            return false;
        }
        let thread = self.cpus[cpu].thread;
        self.threads[thread as usize].then = Then::Spin(event);
        self.spinning.push((event, cpu));
        self.spin(cpu);
        true
    }

    /// Those that spin for the event go on when its line has come to their CPUs.
    fn release_spinning(&mut self, event: u32) -> bool {
        let before = self.spinning.len();
        while let Some(at) = self.spinning.iter().position(|s| s.0 == event) {
            let (_, cpu) = self.spinning.swap_remove(at);
            self.burst(cpu, self.setup.machine.transfer_ns);
        }
        self.spinning.len() < before
    }

    fn wait_for(&mut self, event: u32, cpu: usize) -> bool {
        if self.posted[event as usize] {
            return false;
        }
        let thread = self.cpus[cpu].thread;
        self.waiter[event as usize] = thread;
        self.waits.push_back(Join::Event(event));
        self.threads[thread as usize].join_since = self.now;
        self.leave(cpu);
        true
    }

    fn barrier(&mut self, round: u32, cpu: usize) -> bool {
        let thread = self.cpus[cpu].thread;
        let here = &mut self.arrived[round as usize];
        if here.len() + 1 < self.program.rounds[round as usize] as usize {
            if here.is_empty() {
                self.waits.push_back(Join::Round(round));
            }
            here.push(thread);
            self.threads[thread as usize].join_since = self.now;
            self.leave(cpu);
            return true;
        }
        let mut cost = 0.0;
        for other in std::mem::take(&mut self.arrived[round as usize]) {
            self.out.joined_ns += self.now - self.threads[other as usize].join_since;
            cost += self.make_ready(other, Some(cpu));
        }
        if cost > 0.0 {
            self.burst(cpu, cost);
        }
        cost > 0.0
    }

    /// No thread can continue: locks are waited for in a circle, or the recording's order of events does not fit this
    /// schedule. Lets one thread continue; returns false if no thread waits.
    fn force(&mut self) -> bool {
        if let Some(thread) = self.find_circle() {
            self.break_in(thread);
            return true;
        }
        while let Some(join) = self.waits.pop_front() {
            let moved = match join {
                Join::Event(event) => self.force_event(event),
                Join::Round(round) => self.force_round(round),
            };
            if moved {
                self.out.forced += 1;
                return true;
            }
        }
        let waits = |t: &Thread| t.wants.is_some();
        let Some(thread) = self.threads.iter().position(waits) else {
            return false;
        };
        self.out.forced += 1;
        self.break_in(thread as u32);
        true
    }

    fn force_event(&mut self, event: u32) -> bool {
        if !self.posted[event as usize] && self.spins_anywhere(event) {
            self.posted[event as usize] = true;
            self.release_spinning(event);
            return true;
        }
        let thread = std::mem::replace(&mut self.waiter[event as usize], NOBODY);
        if thread == NOBODY {
            return false;
        }
        self.posted[event as usize] = true;
        self.make_ready(thread, None);
        true
    }

    /// Whether a thread spins for the event, on a CPU or in between.
    fn spins_anywhere(&self, event: u32) -> bool {
        self.threads.iter().any(|t| t.then == Then::Spin(event))
    }

    fn force_round(&mut self, round: u32) -> bool {
        let here = std::mem::take(&mut self.arrived[round as usize]);
        for &thread in &here {
            self.make_ready(thread, None);
        }
        !here.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_the_order_of_time_and_of_equal_ones_the_first_first() {
        for n_cpus in [1, 2, 3, 8, 13] {
            let mut rng = Rng::new(3);
            let mut events = Events::new(n_cpus);
            let mut all: Vec<(Key, Next)> = Vec::new();
            for order in 0..20_000 {
                let key = (rng.below(50) as u64, order);
                let cpu = rng.below(n_cpus);
                match rng.below(5) {
                    0 if all.len() < 200 => {
                        events.push(key, What::Look(order as u32));
                        all.push((key, Next::Other(What::Look(order as u32))));
                    }
                    1 | 2 => {
                        events.set(cpu, key);
                        all.retain(|e| e.1 != Next::Cpu(cpu));
                        all.push((key, Next::Cpu(cpu)));
                    }
                    3 => {
                        events.set(cpu, NEVER);
                        all.retain(|e| e.1 != Next::Cpu(cpu));
                    }
                    _ => {
                        let expected = all.iter().copied().min_by_key(|e| e.0);
                        let next = events.next();
                        assert_eq!(next, expected.map(|(key, next)| (key.0, next)));
                        // A CPU's stays.
                        all.retain(|e| Some(*e) != expected || matches!(e.1, Next::Cpu(_)));
                    }
                }
            }
        }
    }
}
