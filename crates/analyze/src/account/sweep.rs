//! One pass over the recording, in time order, that charges each instant of each CPU to a cause.
//!
//! It follows three sorted streams: what each CPU runs, wake-ups, migrations; and a short list of other moments
//! (births, ends, losses). Between two of them no thread of the program changes its state, so a CPU's cause holds.
//! Threads are looked up in their state rows when an event names them; each has a cursor there.
//!
//! The rules, and why: docs/design/account.md. In short: a CPU that runs the program is charged to what its thread does
//! there. Any other CPU is *free*. A thread that is ready claims a free CPU: the one in whose queue it is, else any.
//! The other free CPUs are charged, one for each, to blocked threads, in the order of [`Waiting`], and from there
//! to whatever it is that they wait for at that instant.
mod charge;
mod crowd;
mod reason;
mod tied;

use super::allowed;
use super::barrier::{self, BarrierWait};
use super::class::{Cause, Class, Note, Sums};
use super::segments::{Causes, Column, Segments};
use super::stood_still;
use super::throttle::Throttled;
use super::track::{self, KernelTracks, NONE, Track};
use super::waiting::Waiting;
use crate::call_paths::Sampled;
use crowd::{Activity, Crowd};
use kasuri_model::{FrameIx, SliceKind, StrIx, ThreadIx, ThreadState, Time, Trace};
use std::ops::Range;
use tied::Tied;

/// A wait is followed over at most so many threads; longer chains are deadlocks or damage.
const MAX_CHAIN: usize = 32;

/// One thread of the program.
#[derive(Clone, Debug)]
struct Worker {
    /// Current and last + 1 of its state rows.
    row: u32,
    end: u32,
    activity: Activity,
    /// Queue it is in when ready.
    cpu: u16,
    /// Blocked: the wait slice it is in.
    wait: u32,
    /// Blocked, in no annotated wait: row of [`Sampled::places`], if samples tell a lock, a barrier or a sleep.
    place: u32,
    /// Blocked: what its own time is charged to.
    class: Class,
    /// The free CPU that it is charged for, and the evaluation that decided so.
    slot: u32,
    chosen: u64,
    /// Since when it does what it does, and the clocks of its queue then.
    since: Time,
    clocks: [i64; 5],
    /// Its own time by class; `Work` is what it ran, all in all.
    sums: Sums,
}

/// The user of a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Occupant {
    Own(ThreadIx),
    /// A thread of another process; none: not known which.
    Other(ThreadIx),
    Idle,
    Unknown,
}

/// The cause to which a free CPU is charged, before its time is cut by the changes of `runner`.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Reason {
    cause: Cause,
    runner: ThreadIx,
    /// Wait at a barrier (index), which has causes of its own for its last part.
    barrier: u32,
    /// Only told to `on_stretch`: the thread whose wait it is, and the one that has the CPU which is wanted.
    waiter: ThreadIx,
    instead: ThreadIx,
    /// The same: the blocked thread that the CPU is charged to.
    head: ThreadIx,
}

impl Reason {
    fn of(class: Class, note: Note) -> Reason {
        let cause = Cause { class, note, ..Cause::default() };
        Reason {
            cause,
            runner: ThreadIx::NONE,
            barrier: NONE,
            waiter: ThreadIx::NONE,
            instead: ThreadIx::NONE,
            head: ThreadIx::NONE,
        }
    }
}

/// One CPU whose time is accounted for; others know it by its index in [`Sweep::slots`].
struct CpuSlot {
    cpu: u16,
    /// Next row of its occupancy.
    row: usize,
    end: usize,
    occupant: Occupant,
    reason: Reason,
    /// Charged up to here.
    done: Time,
    /// Ready threads in its queue.
    ready: u32,
    /// The blocked thread that it is charged to.
    waiter: u32,
    /// Time so far in which it ran the program, others, nothing, unknown, and in which a limit kept it from the program;
    /// up to `clock_at`.
    clocks: [i64; 5],
    clock_at: Time,
    column: Column,
}

/// A stretch of a CPU's time with its cause, and the threads whose code explains it. Neighbours may be alike.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch {
    /// Number of the CPU.
    pub cpu: u16,
    pub from: Time,
    pub to: Time,
    pub cause: Cause,
    /// The thread of the program that ran (`cause.on_cpu`), or the one whose wait it is; none: nobody waits.
    pub waiter: ThreadIx,
    /// The thread that is waited for meanwhile, or has the CPU that is wanted.
    pub runner: ThreadIx,
    /// The blocked thread with which the chain of waits begins; none: no thread is blocked.
    pub head: ThreadIx,
}

/// Is told each stretch.
pub(crate) type OnStretch<'t> = Box<dyn FnMut(&Stretch) + 't>;

/// The pass.
pub(crate) struct Sweep<'t> {
    trace: &'t Trace,
    from: Time,
    to: Time,
    is_target: Vec<bool>,
    workers: Vec<Worker>,
    slots: Vec<CpuSlot>,
    slot_of_cpu: Vec<u32>,
    /// Rows of `slots`: CPUs that do not run the program and whose state is known, ascending.
    free: Vec<u32>,
    waiting: Waiting,
    crowd: Crowd,
    tied: Tied<'t>,
    /// The only one that could run, as of the last moment, while others spin.
    sole: ThreadIx,
    evaluations: u64,
    chosen: Vec<usize>,
    pending: Vec<u32>,
    barriers: Vec<BarrierWait>,
    /// When no CPU of the machine ran.
    stood_still: Vec<Range<Time>>,
    specials: Vec<Track>,
    sampled: &'t Sampled,
    codes: Vec<Option<Track>>,
    is_runtime_thread: Vec<bool>,
    kernel: KernelTracks,
    causes: Causes,
    is_perf: bool,
    throttled: Throttled,
    on_stretch: Option<OnStretch<'t>>,
}

/// The result of the pass.
pub(crate) struct SweepResult {
    pub segments: Segments,
    pub causes: Vec<Cause>,
    /// Of each thread: its own time by class.
    pub threads: Vec<Sums>,
    pub region_of: Vec<(FrameIx, FrameIx)>,
}

/// Whether a slice of this name belongs to a task runtime.
pub(crate) fn is_runtime_name(name: &str) -> bool {
    name.starts_with("ito:") || name.starts_with("omp:")
}

/// Whether a slice of this name is a worker's time between two regions of OpenMP (probes/openmp). What it does there on a CPU is
/// to look for the next one.
pub(crate) fn is_dock_name(name: &str) -> bool {
    name == "omp: idle"
}

impl<'t> Sweep<'t> {
    pub fn new(trace: &'t Trace, from: Time, to: Time, sampled: &'t Sampled) -> Sweep<'t> {
        let threads = (0..trace.threads.len() as u32).map(ThreadIx);
        let is_target: Vec<bool> = threads.map(|t| trace.is_target(t)).collect();
        let runtime_names: Vec<bool> = trace.strings.iter().map(is_runtime_name).collect();
        let is_runtime = |name: StrIx| runtime_names.get(name.ix()).copied().unwrap_or(false);
        let is_runtime_thread: Vec<bool> = trace
            .threads
            .iter()
            .map(|t| trace.strings.get(t.name).starts_with("ito worker"))
            .collect();
        let specials = (0..trace.threads.len())
            .map(|t| match is_target[t] {
                true => {
                    track::specials(trace, ThreadIx(t as u32), is_runtime_thread[t], is_runtime)
                }
                false => Track::default(),
            })
            .collect();
        let is_perf = trace.info.kernel_source == "perf";
        let throttled = Throttled::new(trace);
        let mut sweep = Sweep {
            trace,
            from,
            to,
            slots: Vec::new(),
            slot_of_cpu: vec![NONE; trace.cpus.len()],
            free: Vec::new(),
            waiting: Waiting::new(trace.threads.len()),
            workers: trace
                .threads
                .iter()
                .map(|t| Worker {
                    row: t.states.start,
                    end: t.states.end,
                    activity: Activity::NotAlive,
                    cpu: u16::MAX,
                    wait: NONE,
                    place: NONE,
                    class: Class::Other,
                    slot: NONE,
                    chosen: 0,
                    since: from,
                    clocks: [0; 5],
                    sums: Sums::default(),
                })
                .collect(),
            crowd: Crowd::default(),
            tied: Tied::new(trace),
            sole: ThreadIx::NONE,
            evaluations: 0,
            chosen: Vec::new(),
            pending: Vec::new(),
            barriers: barrier::waits(trace, &is_target, &throttled),
            stood_still: stood_still::times(trace, &is_target),
            is_target,
            specials,
            sampled,
            codes: vec![None; trace.threads.len()],
            is_runtime_thread,
            kernel: KernelTracks::new(trace),
            causes: Causes::default(),
            is_perf,
            throttled,
            on_stretch: None,
        };
        sweep.make_slots();
        sweep
    }

    /// Tells each stretch that it charges, in time order on each CPU.
    pub fn tell(mut self, on_stretch: Option<OnStretch<'t>>) -> Sweep<'t> {
        self.on_stretch = on_stretch;
        self
    }

    /// CPUs whose events were recorded, all of the machine's when none were; but for those that are closed to the program.
    fn make_slots(&mut self) {
        let any = self.trace.cpus.iter().any(|c| c.recorded);
        let closed = allowed::closed(self.trace);
        for (number, cpu) in self.trace.cpus.iter().enumerate() {
            if (cpu.recorded || !any) && !closed[number] {
                self.slot_of_cpu[number] = self.slots.len() as u32;
                self.slots.push(CpuSlot {
                    cpu: number as u16,
                    row: cpu.occupancy.start as usize,
                    end: cpu.occupancy.end as usize,
                    occupant: Occupant::Unknown,
                    reason: Reason::of(Class::Unknown, Note::Lost),
                    done: self.trace.span.start,
                    ready: 0,
                    waiter: NONE,
                    clocks: [0; 5],
                    clock_at: self.trace.span.start,
                    column: Column::default(),
                });
            }
        }
    }

    /// Births, ends and unknown states of the program's threads, and where samples say that they begin or end to spin: changes that
    /// no other stream announces.
    fn unannounced_changes(&self) -> Vec<(Time, u32)> {
        let mut changes = Vec::new();
        for (t, info) in self.trace.threads.iter().enumerate() {
            if !self.is_target[t] {
                continue;
            }
            changes.push((info.alive.start, t as u32));
            changes.push((info.alive.end, t as u32));
            let rows = info.states.start as usize..info.states.end as usize;
            let unknown = rows.filter(|&r| self.trace.states.state[r] == ThreadState::Unknown);
            changes.extend(unknown.map(|r| (self.trace.states.start[r], t as u32)));
            let spins = self.sampled.tracks[t].changes();
            changes.extend(spins.map(|time| (time, t as u32)));
        }
        changes.sort_unstable();
        changes
    }

    pub fn run(mut self) -> SweepResult {
        let trace = self.trace;
        let changes = self.unannounced_changes();
        // Moments at which no thread changes its state, but a reason may.
        let mut edges = self.throttled.edges();
        edges.extend(self.sampled.phases.changes());
        edges.sort_unstable();
        let mut edge = 0;
        let (wakes, moves) = (&trace.wakeups, &trace.migrations);
        let (mut change, mut wake, mut moved) = (0, 0, 0);
        let mut heads: Vec<Time> = self.slots.iter().map(|slot| self.head(slot)).collect();
        let at = |times: &[Time], ix: usize| times.get(ix).copied().unwrap_or(Time::MAX);
        let change_at = |ix: usize| changes.get(ix).map_or(Time::MAX, |m| m.0);
        loop {
            // Few CPUs: looking at all is cheaper than a heap.
            let mut first = Time::MAX;
            for &head in &heads {
                first = first.min(head);
            }
            let now = first
                .min(at(&wakes.time, wake))
                .min(at(&moves.time, moved))
                .min(change_at(change))
                .min(at(&edges, edge));
            if now >= self.to {
                break;
            }
            while at(&edges, edge) <= now {
                edge += 1;
            }
            while change_at(change) <= now {
                self.touch(changes[change].1 as usize, now);
                change += 1;
            }
            while at(&wakes.time, wake) <= now {
                self.touch(wakes.wakee[wake].ix(), now);
                wake += 1;
            }
            while at(&moves.time, moved) <= now {
                self.touch(moves.thread[moved].ix(), now);
                moved += 1;
            }
            if first <= now {
                for (slot, head) in heads.iter_mut().enumerate() {
                    while *head <= now {
                        self.switch(slot, now);
                        *head = self.head(&self.slots[slot]);
                    }
                }
            }
            if self.crowd.spinning > 0 || self.sole.is_some() {
                self.find_sole(now);
            }
            if !self.free.is_empty() {
                self.evaluate(now);
            }
        }
        self.finish()
    }

    /// Time of the CPU's next change of occupant.
    fn head(&self, slot: &CpuSlot) -> Time {
        match slot.row < slot.end {
            true => self.trace.occupancy.start[slot.row],
            false => Time::MAX,
        }
    }

    /// Takes the CPU's next change of occupant.
    fn switch(&mut self, slot: usize, now: Time) {
        let o = &self.trace.occupancy;
        let row = self.slots[slot].row;
        self.slots[slot].row += 1;
        let occupant = match (o.thread[row], o.idle[row]) {
            (thread, _) if thread.is_some() && self.is_target[thread.ix()] => Occupant::Own(thread),
            (thread, _) if thread.is_some() => Occupant::Other(thread),
            (_, true) => Occupant::Idle,
            (_, false) if self.is_perf && !self.is_lost(slot, now) => {
                Occupant::Other(ThreadIx::NONE)
            }
            (_, false) => Occupant::Unknown,
        };
        let before = self.slots[slot].occupant;
        if occupant == before {
            return;
        }
        self.charge(slot, now);
        self.advance_clock(slot, now);
        self.slots[slot].occupant = occupant;
        let was_free = matches!(before, Occupant::Other(_) | Occupant::Idle);
        let is_free = matches!(occupant, Occupant::Other(_) | Occupant::Idle);
        let at = self.free.partition_point(|&l| (l as usize) < slot);
        match (was_free, is_free) {
            (false, true) => self.free.insert(at, slot as u32),
            (true, false) => drop(self.free.remove(at)),
            _ => {}
        }
        self.slots[slot].waiter = NONE;
        self.slots[slot].reason = Reason::of(Class::Unknown, Note::Lost);
        for thread in [before, occupant] {
            if let Occupant::Own(thread) = thread {
                self.touch(thread.ix(), now);
            }
        }
    }

    /// While threads spin, the only one that could do anything else is why they do.
    fn find_sole(&mut self, now: Time) {
        let sole = match self.crowd.spinning {
            0 => ThreadIx::NONE,
            _ => self.crowd.alone(),
        };
        if sole == self.sole {
            return;
        }
        for slot in 0..self.slots.len() {
            if matches!(self.slots[slot].occupant, Occupant::Own(_)) {
                self.charge(slot, now);
            }
        }
        self.sole = sole;
    }

    /// perf says "not ours" and "lost" in the same way.
    fn is_lost(&self, slot: usize, now: Time) -> bool {
        let cpu = self.slots[slot].cpu;
        let mut losses = self.trace.losses.iter();
        losses.any(|l| l.cpu == Some(cpu) && l.when.start <= now && now < l.when.end)
    }

    fn advance_clock(&mut self, slot: usize, now: Time) {
        let info = &mut self.slots[slot];
        let (from, to) = (info.clock_at.max(self.from), now.min(self.to));
        let ns = (to.0 - from.0).max(0);
        let kept = match self.throttled.is_empty() {
            true => 0,
            false => self.throttled.overlap(info.cpu, from, to.max(from)).min(ns),
        };
        let which = match info.occupant {
            Occupant::Own(_) => 0,
            Occupant::Other(_) => 1,
            Occupant::Idle => 2,
            Occupant::Unknown => 3,
        };
        info.clocks[which] += ns - kept;
        info.clocks[THROTTLED] += kept;
        info.clock_at = now;
    }

    /// Something may have happened to the thread: looks.
    fn touch(&mut self, thread: usize, now: Time) {
        if !self.is_target.get(thread).copied().unwrap_or(false) {
            return;
        }
        let states = &self.trace.states;
        let is_spinning = self.sampled.is_spinning(thread, now);
        let worker = &mut self.workers[thread];
        let before = worker.row;
        while worker.row + 1 < worker.end && states.start[worker.row as usize + 1] <= now {
            worker.row += 1;
        }
        let row = worker.row as usize;
        let alive = &self.trace.threads[thread].alive;
        let is_alive = alive.start <= now && (now < alive.end || alive.end >= self.trace.span.end);
        let activity = match is_alive {
            false => Activity::NotAlive,
            true if worker.row >= worker.end || states.start[row] > now => Activity::Unknown,
            true => match states.state[row] {
                ThreadState::Unknown => Activity::Unknown,
                ThreadState::Running if is_spinning => Activity::Spinning,
                ThreadState::Running => Activity::Running,
                state if state.is_runnable() => Activity::Ready,
                _ => Activity::Blocked,
            },
        };
        if activity != worker.activity || worker.row != before {
            self.leave(thread, now);
            self.enter(thread, activity, now);
        }
    }

    /// Charges the thread's own time up to now, and takes it out of where it is.
    fn leave(&mut self, thread: usize, now: Time) {
        let worker = &self.workers[thread];
        let ns = overlap(self.from, self.to, worker.since, now);
        self.crowd.leave(thread, worker.activity);
        match worker.activity {
            Activity::NotAlive => {}
            Activity::Unknown => self.workers[thread].sums[Class::Unknown as usize] += ns,
            Activity::Running | Activity::Spinning => {
                self.workers[thread].sums[Class::Work as usize] += ns;
            }
            Activity::Ready => {
                let queue = self.slot_of(worker.cpu);
                if queue != NONE {
                    self.slots[queue as usize].ready -= 1;
                }
                self.tied.leave(thread);
                self.charge_ready(thread, queue, ns, now);
            }
            Activity::Blocked => {
                let class = worker.class;
                self.waiting.remove(thread);
                self.workers[thread].sums[class as usize] += ns;
            }
        }
    }

    fn slot_of(&self, cpu: u16) -> u32 {
        self.slot_of_cpu.get(usize::from(cpu)).copied().unwrap_or(NONE)
    }

    fn enter(&mut self, thread: usize, activity: Activity, now: Time) {
        self.workers[thread].since = now;
        self.workers[thread].activity = activity;
        self.crowd.enter(thread, activity);
        match activity {
            Activity::NotAlive | Activity::Unknown | Activity::Running | Activity::Spinning => {}
            Activity::Ready => {
                let cpu = self.trace.states.cpu[self.workers[thread].row as usize];
                self.workers[thread].cpu = cpu;
                let queue = self.slot_of(cpu);
                if queue != NONE {
                    self.advance_clock(queue as usize, now);
                    self.workers[thread].clocks = self.slots[queue as usize].clocks;
                    self.slots[queue as usize].ready += 1;
                }
                self.tied.enter(self.trace, thread, now);
            }
            Activity::Blocked => {
                let (wait, class, rank) = self.blocked(thread, now);
                (self.workers[thread].wait, self.workers[thread].class) = (wait, class);
                let is_part = self.sampled.rearmed.is_part(self.workers[thread].row as usize);
                self.waiting.push(thread, rank, is_part);
            }
        }
    }

    /// The annotated wait that a thread has blocked in, the class of its own time, and its rank among the waiting:
    /// 0 says itself, or by its samples, that it waits for a lock, a barrier, another thread's end, or input; 1 waits for a thread of the
    /// program; 2 is in uninterruptible sleep that a device ends; 3 is ended from outside; 4 does not end, or is a parent's wait for a child,
    /// or a runtime's own thread has nothing to do.
    fn blocked(&mut self, thread: usize, now: Time) -> (u32, Class, u8) {
        let s = &self.trace.slices;
        let wait = self.specials[thread].get(now).0;
        self.workers[thread].wait = wait;
        if wait != NONE {
            let (class, rank) = match s.kind[wait as usize] {
                SliceKind::LockWait => (Class::LockWait, 0),
                SliceKind::Barrier | SliceKind::Join => (Class::LoadImbalance, 0),
                SliceKind::Io => (Class::IoWait, 0),
                _ => (Class::WaitingForOwnThreads, 1),
            };
            if rank == 0 {
                return (wait, class, rank);
            }
        }
        // An annotated wait for another thread may be one for a lock that is built with it, which samples tell.
        let place = match self.sampled.asks_to_look(self.workers[thread].row as usize) {
            true => NONE,
            false => self.sampled.wait(thread, now),
        };
        self.workers[thread].place = match wait {
            NONE => place,
            _ if self.sampled.class(place) == Some(Class::LockWait)
                && !self.is_idle_worker(wait) =>
            {
                place
            }
            _ => NONE,
        };
        let worker = &self.workers[thread];
        if let Some(class @ (Class::LockWait | Class::LoadImbalance)) =
            self.sampled.class(worker.place)
        {
            return (wait, class, 0);
        }
        let state = self.trace.states.state[worker.row as usize];
        let (class, rank) = match self.wake_up(thread) {
            _ if matches!(state, ThreadState::Stopped | ThreadState::Idle) => {
                (Class::ExternalWait, 3)
            }
            Wake::Own(waker, _) if self.is_child_end(thread, waker) => {
                (Class::WaitingForOwnThreads, 4)
            }
            Wake::Own(..) => (Class::WaitingForOwnThreads, 1),
            Wake::Device => (Class::IoWait, 2),
            Wake::Unknown if state == ThreadState::DiskSleep => (Class::Unknown, 2),
            Wake::Interrupt if self.sampled.polls.is_part(worker.row as usize) => {
                (Class::WaitingForOwnThreads, 1)
            }
            Wake::Recorder => (Class::Tracing, 3),
            Wake::Process(_) | Wake::Interrupt | Wake::Unknown => (Class::ExternalWait, 3),
            Wake::Never => (Class::ExternalWait, 4),
        };
        let rank = match self.sampled.class(worker.place) {
            Some(Class::LowParallelism) => 4,
            _ => rank,
        };
        match wait {
            NONE => (NONE, class, rank),
            _ if class == Class::IoWait => (wait, class, rank),
            _ => (wait, Class::WaitingForOwnThreads, rank),
        }
    }

    /// Decides anew what each free CPU is charged to.
    fn evaluate(&mut self, now: Time) {
        self.evaluations += 1;
        let mut claims = self.crowd.ready;
        self.pending.clear();
        for at in 0..self.free.len() {
            let slot = self.free[at] as usize;
            if self.slots[slot].ready == 0 {
                self.pending.push(slot as u32);
                continue;
            }
            claims -= 1;
            let limit = self.throttled.at(self.slots[slot].cpu, now);
            let reason = match self.slots[slot].occupant {
                _ if limit.is_some() => throttling(limit),
                Occupant::Other(thread) => self.interference(thread),
                _ => Reason::of(Class::SchedulingDelay, Note::WakeUp),
            };
            self.slots[slot].waiter = NONE;
            self.set_reason(slot, reason, now);
        }
        if claims > 0 {
            self.claim(claims, now);
        }
        if !self.pending.is_empty() {
            self.charge_waiting(now);
        }
    }

    /// Threads that are ready elsewhere could have used free CPUs: idle ones first.
    fn claim(&mut self, claims: u32, now: Time) {
        let pending = std::mem::take(&mut self.pending);
        let mut left = claims;
        // They are kept off wherever they wait: another CPU would not have helped.
        let limit = self.limit_of_all(now);
        for want_idle in [true, false] {
            for &slot in &pending {
                let slot = slot as usize;
                let occupant = self.slots[slot].occupant;
                if left == 0 || (occupant == Occupant::Idle) != want_idle {
                    continue;
                }
                left -= 1;
                // Without the others they would not have run there either.
                let are_kept_off = self.tied.keep_all_off(self.slots[slot].cpu, self.crowd.ready);
                let reason = match occupant {
                    _ if limit.is_some() => throttling(limit),
                    Occupant::Other(thread) if !are_kept_off => self.interference(thread),
                    _ => Reason::of(Class::SchedulingDelay, Note::Placement),
                };
                self.slots[slot].waiter = u32::MAX - 1;
                self.set_reason(slot, reason, now);
            }
        }
        self.pending = pending;
        let slots = &mut self.slots;
        self.pending.retain(|&slot| {
            let info = &mut slots[slot as usize];
            let is_claimed = info.waiter == u32::MAX - 1;
            if is_claimed {
                info.waiter = NONE;
            }
            !is_claimed
        });
    }

    /// The limit that holds in each queue with ready threads.
    fn limit_of_all(&self, now: Time) -> Option<StrIx> {
        if self.throttled.is_empty() {
            return None;
        }
        let queues = self.slots.iter().filter(|slot| slot.ready > 0);
        let mut limits = queues.map(|slot| self.throttled.at(slot.cpu, now));
        let first = limits.next()??;
        limits.all(|limit| limit.is_some()).then_some(first)
    }

    #[inline]
    fn set_reason(&mut self, slot: usize, reason: Reason, now: Time) {
        if self.slots[slot].reason != reason {
            self.charge(slot, now);
            self.slots[slot].reason = reason;
        }
    }

    fn finish(mut self) -> SweepResult {
        let to = self.to;
        for slot in 0..self.slots.len() {
            self.charge(slot, to);
        }
        for thread in 0..self.workers.len() {
            if self.is_target[thread] {
                self.touch(thread, to);
                let activity = self.workers[thread].activity;
                self.leave(thread, to);
                self.enter(thread, activity, to);
            }
        }
        let mut segments = Segments { end: to, ..Segments::default() };
        for slot in self.slots {
            let first = segments.start.len() as u32;
            if segments.start.is_empty() {
                (segments.start, segments.cause) = (slot.column.start, slot.column.cause);
            } else {
                segments.start.extend(slot.column.start);
                segments.cause.extend(slot.column.cause);
            }
            let rows: Range<u32> = first..segments.start.len() as u32;
            segments.cpus.push((slot.cpu, rows));
        }
        SweepResult {
            segments,
            causes: self.causes.rows,
            threads: self.workers.into_iter().map(|w| w.sums).collect(),
            region_of: self.sampled.phases.region_of.clone(),
        }
    }
}

/// The end of a thread's wait.
enum Wake {
    /// A thread of the program, and when.
    Own(ThreadIx, Time),
    /// A thread of another process.
    Process(ThreadIx),
    /// The recorder, which had stopped it or held what it wanted.
    Recorder,
    /// A device, for which it slept without interruption.
    Device,
    Interrupt,
    /// It was not recorded.
    Unknown,
    Never,
}

/// Index into [`CpuSlot::clocks`].
const THROTTLED: usize = 4;

fn throttling(limit: Option<StrIx>) -> Reason {
    let mut reason = Reason::of(Class::ThrottledByCpuLimit, Note::None);
    reason.cause.name = limit.unwrap_or(StrIx::NONE);
    reason
}

fn overlap(from: Time, to: Time, start: Time, end: Time) -> i64 {
    (end.min(to).0 - start.max(from).0).max(0)
}
