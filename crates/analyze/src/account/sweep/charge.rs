//! Charges time of CPUs, and of threads that are ready, to causes.
//!
//! Nothing changes between two moments of the sweep, so a cause holds for a whole stretch; `charge` writes that stretch when
//! the CPU's cause is about to change. It cuts it first where something inside it changes that the sweep does not stop at:
//! the reason of a wait at a barrier, and the annotation of the thread that is waited for.
use super::{Occupant, Reason, Stretch, Sweep, THROTTLED};
use crate::account::class::{Cause, Class, Note};
use crate::account::track;
use crate::account::track::NONE;
use kasuri_model::{FrameIx, SliceKind, StrIx, ThreadIx, Time};

impl Sweep<'_> {
    /// Charges ready time to the threads that ran on the queue's CPU meanwhile.
    pub(super) fn charge_ready(&mut self, thread: usize, queue: u32, ns: i64, now: Time) {
        let mut rest = ns;
        if queue != NONE {
            self.advance_clock(queue as usize, now);
            let clocks = self.slots[queue as usize].clocks;
            let worker = &mut self.workers[thread];
            let classes = [
                (0, Class::Oversubscription),
                (1, Class::Interference),
                (THROTTLED, Class::ThrottledByCpuLimit),
            ];
            for (which, class) in classes {
                let part = (clocks[which] - worker.clocks[which]).min(rest);
                worker.sums[class as usize] += part;
                rest -= part;
            }
        }
        self.workers[thread].sums[Class::SchedulingDelay as usize] += rest;
    }

    /// Charges each pending CPU to one blocked thread; a thread that has one of them already keeps it.
    pub(super) fn charge_waiting(&mut self, now: Time) {
        let mut chosen = std::mem::take(&mut self.chosen);
        chosen.clear();
        chosen.extend(self.waiting.iter().take(self.pending.len()));
        for &thread in &chosen {
            self.workers[thread].chosen = self.evaluations;
        }
        let pending = std::mem::take(&mut self.pending);
        for &slot in &pending {
            let waiter = self.slots[slot as usize].waiter;
            let keeps = waiter != NONE && {
                let worker = &mut self.workers[waiter as usize];
                let keeps = worker.chosen == self.evaluations && worker.slot == slot;
                if keeps {
                    worker.chosen = 0;
                }
                keeps
            };
            if !keeps {
                self.slots[slot as usize].waiter = NONE;
            }
        }
        let mut next = chosen.iter().copied();
        for &slot in &pending {
            if self.slots[slot as usize].waiter == NONE {
                let evaluations = self.evaluations;
                let free = next.find(|&t| self.workers[t].chosen == evaluations);
                if let Some(thread) = free {
                    self.slots[slot as usize].waiter = thread as u32;
                    self.workers[thread].slot = slot;
                }
            }
            let reason = match self.slots[slot as usize].waiter {
                NONE => self.no_thread(now),
                thread => self.reason_of_wait(thread as usize, now),
            };
            self.set_reason(slot as usize, reason, now);
        }
        (self.pending, self.chosen) = (pending, chosen);
    }

    /// Charges the CPU's time up to now.
    pub(super) fn charge(&mut self, slot: usize, now: Time) {
        let from = std::mem::replace(&mut self.slots[slot].done, now);
        let (from, to) = (from.max(self.from), now.min(self.to));
        if to <= from {
            return;
        }
        match self.slots[slot].occupant {
            Occupant::Own(thread) => self.charge_run(slot, thread, from, to),
            _ => self.charge_free(slot, from, to),
        }
    }

    /// Charges time in which the CPU ran no thread of the program, or the machine none at all.
    fn charge_free(&mut self, slot: usize, from: Time, to: Time) {
        let reason = self.slots[slot].reason;
        let first = self.stood_still.partition_point(|still| still.end <= from);
        let mut at = from;
        for ix in first..self.stood_still.len() {
            let still = &self.stood_still[ix];
            let (begin, end) = (still.start.max(at), still.end.min(to));
            if begin >= to {
                break;
            }
            self.charge_reason(slot, reason, at, begin);
            let still = Reason::of(Class::Interference, Note::StoodStill);
            self.charge_reason(slot, still, begin, end);
            at = end;
        }
        self.charge_reason(slot, reason, at, to);
    }

    #[inline]
    fn put(&mut self, slot: usize, from: Time, to: Time, cause: Cause, threads: [ThreadIx; 3]) {
        if to > from {
            let number = self.causes.number(cause);
            self.slots[slot].column.push(from, number);
            if let Some(on_stretch) = &mut self.on_stretch {
                let [waiter, runner, head] = threads;
                on_stretch(&Stretch {
                    cpu: self.slots[slot].cpu,
                    from,
                    to,
                    cause,
                    waiter,
                    runner,
                    head,
                });
            }
        }
    }

    /// A cause, cut where the one at the barrier changes, and by what its runner does.
    fn charge_reason(&mut self, slot: usize, reason: Reason, from: Time, to: Time) {
        if reason.barrier == NONE {
            return self.charge_by_code(slot, reason, from, to);
        }
        let wait = self.barriers[reason.barrier as usize];
        let mut own = Reason::of(Class::Oversubscription, Note::LateThread);
        own.cause.thread = wait.late;
        let mut other = Reason::of(Class::Interference, Note::LateThread);
        if wait.other.is_some() {
            other.cause.process = wait.other;
            other.cause.name = self.trace.processes[wait.other.ix()].name;
        }
        let cuts = [
            (wait.own_from, reason),
            (wait.other_from, own),
            (wait.arrival, other),
            (Time::MAX, reason),
        ];
        let mut at = from;
        for (until, reason) in cuts {
            let end = until.min(to);
            if end > at {
                self.charge_by_code(slot, reason, at, end);
                at = end;
            }
        }
    }

    /// A cause, cut by what the thread that is waited for does meanwhile: its annotation names the cause; while it waits for
    /// a lock or the disk itself, asleep or spinning, that is the cause (docs/design/account.md, "From a blocked thread").
    fn charge_by_code(&mut self, slot: usize, reason: Reason, from: Time, to: Time) {
        let mut cause = reason.cause;
        if !reason.runner.is_some() {
            let threads = [reason.waiter, reason.instead, reason.head];
            return self.put(slot, from, to, cause, threads);
        }
        let runner = reason.runner.ix();
        let mut at = from;
        while at < to {
            let code =
                self.codes[runner].get_or_insert_with(|| track::code(self.trace, reason.runner));
            let (name, until) = code.get(at);
            let (row, waits_until) = self.specials[runner].get(at);
            let end = until.min(waits_until).min(to);
            cause.code = StrIx(name);
            let passed_on = match self.trace.slices.kind.get(row as usize) {
                // What samples say of a CPU that is busy stays in the class that they are added up in.
                _ if cause.class == Class::Spinning => None,
                Some(SliceKind::LockWait) => Some(Class::LockWait),
                Some(SliceKind::Io) => Some(Class::IoWait),
                _ => None,
            };
            let part = passed_on.map_or(cause, |class| Cause {
                on_cpu: cause.on_cpu,
                ..self.named(class, row).cause
            });
            // Then it is the wait of the runner.
            let threads = match passed_on {
                Some(_) if !cause.on_cpu => [reason.runner, ThreadIx::NONE, reason.head],
                _ => [reason.waiter, reason.runner, reason.head],
            };
            self.put(slot, at, end, part, threads);
            at = end;
        }
    }

    /// Charges time in which the CPU ran a thread of the program.
    fn charge_run(&mut self, slot: usize, thread: ThreadIx, from: Time, to: Time) {
        let t = thread.ix();
        let cpu = usize::from(self.slots[slot].cpu);
        let has_irq = self.kernel.irq.get(cpu).is_some_and(|k| !k.is_empty());
        let has_syscalls = self.kernel.syscall.get(t).is_some_and(|k| !k.is_empty());
        let base = match self.is_runtime_thread[t] {
            true => Class::TaskRuntime,
            false => Class::Work,
        };
        let is_sampled = !self.sampled.tracks[t].is_empty();
        if !has_irq && !has_syscalls && !is_sampled && self.specials[t].is_empty() {
            if base != Class::Work {
                self.workers[t].sums[Class::Work as usize] -= (to - from).ns();
                self.workers[t].sums[base as usize] += (to - from).ns();
            }
            let cause = Cause { class: base, on_cpu: true, ..Cause::default() };
            let none = ThreadIx::NONE;
            return self.put(slot, from, to, cause, [thread, none, none]);
        }
        let mut at = from;
        while at < to {
            let (mut reason, mut end) = (Reason::of(base, Note::None), to);
            reason.cause.on_cpu = true;
            if has_syscalls {
                let (row, until) = self.kernel.syscall[t].get(at);
                end = end.min(until);
                if row != NONE && base == Class::Work {
                    reason.cause.class = Class::SystemCalls;
                    reason.cause.name = self.trace.kernel_spans.name[row as usize];
                }
            }
            let (row, until) = self.specials[t].get(at);
            end = end.min(until);
            if row != NONE {
                self.on_cpu_in(row, &mut reason);
            }
            // Annotations are exact: samples say what they do not.
            if is_sampled {
                let (row, until) = self.sampled.tracks[t].get(at);
                end = end.min(until);
                if reason.cause.class.is_useful() && self.sampled.is_awake(row) {
                    self.not_working(row, &mut reason);
                }
            }
            end = end.min(self.while_one_works(&mut reason, at));
            if has_irq {
                let (row, until) = self.kernel.irq[cpu].get(at);
                end = end.min(until);
                if row != NONE {
                    reason = Reason::of(Class::Interrupts, Note::None);
                    reason.cause.on_cpu = true;
                    reason.cause.name = self.trace.kernel_spans.name[row as usize];
                }
            }
            if reason.cause.class != Class::Work {
                self.workers[t].sums[Class::Work as usize] -= (end - at).ns();
                self.workers[t].sums[reason.cause.class as usize] += (end - at).ns();
            }
            reason.waiter = thread;
            self.charge_reason(slot, reason, at, end);
            at = end;
        }
    }

    /// On a CPU, where the samples say that it did no work: at this row of [`Sampled::places`].
    fn not_working(&self, row: u32, reason: &mut Reason) {
        let place = self.sampled.places[row as usize];
        *reason = match place.class {
            Class::LockWait => Reason::of(place.class, Note::BySamples),
            class => Reason::of(class, Note::None),
        };
        reason.cause.on_cpu = true;
        (reason.cause.name, reason.cause.code) = (place.name, place.code);
    }

    /// Spinning while one thread works and nothing else can run is for that thread: the last one in a phase, or in a serial phase of its
    /// own. Until when that holds.
    fn while_one_works(&self, reason: &mut Reason, at: Time) -> Time {
        if reason.cause.class != Class::Spinning || !self.sole.is_some() {
            return Time::MAX;
        }
        let (phase, until) = self.sampled.phases.at(self.sole, at);
        (reason.cause.name, reason.cause.code) = (StrIx::NONE, StrIx::NONE);
        (reason.cause.thread, reason.runner) = (self.sole, self.sole);
        (reason.cause.note, reason.cause.phase) = match phase {
            Some(phase) => (Note::LateThread, phase),
            None => (Note::SerialPhase, FrameIx::NONE),
        };
        until
    }

    /// On a CPU, in the slice at `row`: a wait, a task runtime's, or work inside of one.
    fn on_cpu_in(&self, row: u32, reason: &mut Reason) {
        let class = match self.trace.slices.kind[row as usize] {
            SliceKind::LockWait => Class::LockWait,
            SliceKind::Barrier | SliceKind::Join => Class::LoadImbalance,
            SliceKind::Io => Class::IoWait,
            _ if self.is_dock(row) => Class::Spinning,
            _ if self.is_idle_worker(row) => Class::TaskRuntime,
            SliceKind::Cond | SliceKind::OtherWait => Class::WaitingForOwnThreads,
            SliceKind::Work | SliceKind::TaskRun | SliceKind::LockHold => {
                if reason.cause.class == Class::TaskRuntime {
                    reason.cause.class = Class::Work;
                }
                return;
            }
        };
        *reason = self.named(class, row);
        reason.cause.on_cpu = true;
        if class == Class::LoadImbalance {
            self.at_barrier(reason, row);
        }
    }
}
