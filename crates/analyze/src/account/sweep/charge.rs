//! Charges time of CPUs, and of threads that are ready, to causes.
//!
//! Nothing changes between two moments of the sweep, so a cause holds for a whole stretch; `charge` writes that stretch when
//! the CPU's cause is about to change. It cuts it first where something inside it changes that the sweep does not stop at:
//! the reason of a wait at a barrier, and the annotation of the thread that is waited for.
use super::{On, Sweep, THROTTLED, Why};
use crate::account::class::{Cause, Class, Note};
use crate::account::track;
use crate::account::track::NONE;
use kasuri_model::{SliceKind, StrIx, ThreadIx, Time};

impl Sweep<'_> {
    /// Charges ready time to the threads that ran on the queue's CPU meanwhile.
    pub(super) fn charge_ready(&mut self, thread: usize, queue: u32, ns: i64, now: Time) {
        let mut rest = ns;
        if queue != NONE {
            self.advance_clock(queue as usize, now);
            let clocks = self.lanes[queue as usize].clocks;
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
        for &lane in &pending {
            let waiter = self.lanes[lane as usize].waiter;
            let keeps = waiter != NONE && {
                let worker = &mut self.workers[waiter as usize];
                let keeps = worker.chosen == self.evaluations && worker.lane == lane;
                if keeps {
                    worker.chosen = 0;
                }
                keeps
            };
            if !keeps {
                self.lanes[lane as usize].waiter = NONE;
            }
        }
        let mut next = chosen.iter().copied();
        for &lane in &pending {
            if self.lanes[lane as usize].waiter == NONE {
                let evaluations = self.evaluations;
                let free = next.find(|&t| self.workers[t].chosen == evaluations);
                if let Some(thread) = free {
                    self.lanes[lane as usize].waiter = thread as u32;
                    self.workers[thread].lane = lane;
                }
            }
            let why = match self.lanes[lane as usize].waiter {
                NONE => self.no_thread(),
                thread => self.why(thread as usize, now),
            };
            self.say(lane as usize, why, now);
        }
        (self.pending, self.chosen) = (pending, chosen);
    }

    /// Charges the CPU's time up to now.
    pub(super) fn charge(&mut self, lane: usize, now: Time) {
        let from = std::mem::replace(&mut self.lanes[lane].done, now);
        let (from, to) = (from.max(self.from), now.min(self.to));
        if to <= from {
            return;
        }
        match self.lanes[lane].on {
            On::Own(thread) => self.charge_run(lane, thread, from, to),
            _ => self.charge_why(lane, self.lanes[lane].why, from, to),
        }
    }

    #[inline]
    fn put(&mut self, lane: usize, from: Time, to: Time, cause: Cause) {
        if to > from {
            let number = self.causes.number(cause);
            self.lanes[lane].column.push(from, number);
        }
    }

    /// A cause, cut where the one at the barrier changes, and by what its runner does.
    fn charge_why(&mut self, lane: usize, why: Why, from: Time, to: Time) {
        if why.barrier == NONE {
            return self.charge_code(lane, why, from, to);
        }
        let wait = self.barriers[why.barrier as usize];
        let mut own = Why::of(Class::Oversubscription, Note::LateThread);
        own.cause.thread = wait.late;
        let mut other = Why::of(Class::Interference, Note::LateThread);
        if wait.other.is_some() {
            other.cause.process = wait.other;
            other.cause.name = self.trace.processes[wait.other.ix()].name;
        }
        let cuts = [
            (wait.own_from, why),
            (wait.other_from, own),
            (wait.arrival, other),
            (Time::MAX, why),
        ];
        let mut at = from;
        for (until, why) in cuts {
            let end = until.min(to);
            if end > at {
                self.charge_code(lane, why, at, end);
                at = end;
            }
        }
    }

    /// A cause, cut by what the thread that is waited for does meanwhile: its annotation names the cause; while it waits for
    /// a lock or the disk itself, asleep or spinning, that is the cause (docs/design/account.md, "From a blocked thread").
    fn charge_code(&mut self, lane: usize, why: Why, from: Time, to: Time) {
        let mut cause = why.cause;
        if !why.runner.is_some() {
            return self.put(lane, from, to, cause);
        }
        let runner = why.runner.ix();
        let mut at = from;
        while at < to {
            let code =
                self.codes[runner].get_or_insert_with(|| track::code(self.trace, why.runner));
            let (name, until) = code.get(at);
            let (row, waits_until) = self.specials[runner].get(at);
            let end = until.min(waits_until).min(to);
            cause.code = StrIx(name);
            let passed_on = match self.trace.slices.kind.get(row as usize) {
                Some(SliceKind::LockWait) => Some(Class::LockWait),
                Some(SliceKind::Io) => Some(Class::IoWait),
                _ => None,
            };
            let part = passed_on.map_or(cause, |class| Cause {
                on_cpu: cause.on_cpu,
                ..self.named(class, row).cause
            });
            self.put(lane, at, end, part);
            at = end;
        }
    }

    /// Charges time in which the CPU ran a thread of the program.
    fn charge_run(&mut self, lane: usize, thread: ThreadIx, from: Time, to: Time) {
        let t = thread.ix();
        let cpu = usize::from(self.lanes[lane].cpu);
        let has_irq = self.kernel.irq.get(cpu).is_some_and(|k| !k.is_empty());
        let has_syscalls = self.kernel.syscall.get(t).is_some_and(|k| !k.is_empty());
        let base = match self.is_runtime_thread[t] {
            true => Class::TaskRuntime,
            false => Class::Work,
        };
        if !has_irq && !has_syscalls && self.specials[t].is_empty() {
            if base != Class::Work {
                self.workers[t].sums[Class::Work as usize] -= (to - from).ns();
                self.workers[t].sums[base as usize] += (to - from).ns();
            }
            let cause = Cause {
                class: base,
                on_cpu: true,
                ..Cause::default()
            };
            return self.put(lane, from, to, cause);
        }
        let mut at = from;
        while at < to {
            let (mut why, mut end) = (Why::of(base, Note::None), to);
            why.cause.on_cpu = true;
            if has_syscalls {
                let (row, until) = self.kernel.syscall[t].get(at);
                end = end.min(until);
                if row != NONE && base == Class::Work {
                    why.cause.class = Class::SystemCalls;
                    why.cause.name = self.trace.kernel_spans.name[row as usize];
                }
            }
            let (row, until) = self.specials[t].get(at);
            end = end.min(until);
            if row != NONE {
                self.on_cpu_in(row, &mut why);
            }
            if has_irq {
                let (row, until) = self.kernel.irq[cpu].get(at);
                end = end.min(until);
                if row != NONE {
                    why = Why::of(Class::Interrupts, Note::None);
                    why.cause.on_cpu = true;
                    why.cause.name = self.trace.kernel_spans.name[row as usize];
                }
            }
            if why.cause.class != Class::Work {
                self.workers[t].sums[Class::Work as usize] -= (end - at).ns();
                self.workers[t].sums[why.cause.class as usize] += (end - at).ns();
            }
            self.charge_why(lane, why, at, end);
            at = end;
        }
    }

    /// On a CPU, in the slice at `row`: a wait, a task runtime's, or work inside of one.
    fn on_cpu_in(&self, row: u32, why: &mut Why) {
        let class = match self.trace.slices.kind[row as usize] {
            SliceKind::LockWait => Class::LockWait,
            SliceKind::Barrier | SliceKind::Join => Class::LoadImbalance,
            SliceKind::Io => Class::IoWait,
            _ if self.is_idle_worker(row) => Class::TaskRuntime,
            SliceKind::Cond | SliceKind::OtherWait => Class::WaitingForOwnThreads,
            SliceKind::Work | SliceKind::TaskRun | SliceKind::LockHold => {
                if why.cause.class == Class::TaskRuntime {
                    why.cause.class = Class::Work;
                }
                return;
            }
        };
        *why = self.named(class, row);
        why.cause.on_cpu = true;
        if class == Class::LoadImbalance {
            self.at_barrier(why, row);
        }
    }
}
