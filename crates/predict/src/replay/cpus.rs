//! Sharing of CPUs, by the rule of a fair scheduler (CFS, EEVDF) without per-CPU queues:
//!
//! - Each thread is charged the CPU time it uses. A free CPU takes the ready thread with the least.
//! - A *turn* is `slice_ns` of CPU time, over several visits to a CPU: a sleep of 100 ns on a lock does not begin a new one.
//!   A running thread makes way for the ready thread with the least charge when its turn is over and it has been charged no
//!   less than that thread, or when it is a whole slice ahead.
//! - A sleeping thread is charged as if it ran, but only up to half a slice behind the least charge of the competing threads: a
//!   short sleep costs a thread nothing of its share, a long one earns it half a slice.
//!
//! Rejected: a whole new slice at each visit to a CPU, and first come, first served. Of three threads on two CPUs two then
//! kept theirs for ever, as their short sleeps renewed their slices, and the third had a CPU only at moments in which the lock it
//! wanted was held: 1.50 for a true 2.00.
use super::{NEVER, NOBODY, Ready, What, World};

/// Less than this is rounding.
const NOW_NS: f64 = 1e-3;

impl World<'_> {
    /// CPU time the thread is charged, now.
    fn charged(&self, thread: u32) -> f64 {
        let t = &self.threads[thread as usize];
        t.charged + if t.runs_since.is_nan() { 0.0 } else { self.now - t.runs_since }
    }

    /// The least charge of the threads that have a CPU or want one; without any: what it was last.
    fn least(&self) -> f64 {
        let running = self.cpus.iter().filter(|c| c.thread != NOBODY);
        let least = running.map(|c| self.charged(c.thread)).fold(f64::INFINITY, f64::min);
        let least = self.ready.first().map_or(least, |r| least.min(r.charged()));
        if least.is_finite() { least } else { self.least_before }
    }

    /// The thread wants a CPU. Returns what that costs the waker: most when it was sent to another, idle one.
    pub(super) fn make_ready(&mut self, thread: u32, waker_cpu: Option<usize>) -> f64 {
        let slept = self.now - self.threads[thread as usize].sleeps_since;
        let most = (self.least() - 0.5 * self.setup.machine.slice_ns)
            .min(self.threads[thread as usize].charged + slept);
        let t = &mut self.threads[thread as usize];
        t.charged = t.charged.max(most);
        let last = t.last_cpu;
        let is_idle = |cpu: &super::Cpu| cpu.thread == NOBODY;
        let idle = if is_idle(&self.cpus[last]) {
            Some(last)
        } else if self.n_busy < self.cpus.len() {
            self.cpus.iter().position(is_idle)
        } else {
            None
        };
        let machine = self.setup.machine;
        let Some(cpu) = idle else {
            self.queue(thread);
            return machine.wake_local_ns;
        };
        self.cpus[cpu].thread = thread;
        self.cpus[cpu].arriving = true;
        self.n_busy += 1;
        let idle_ns = self.now - self.cpus[cpu].idle_since;
        let (latency, cost) = match waker_cpu.filter(|&waker| waker != cpu) {
            Some(waker) => {
                // Both were idle at once: the threads work in turns.
                let is_relay = self.cpus[waker].busy_since > self.cpus[cpu].idle_since;
                let more = if is_relay { machine.relay_ns } else { 0.0 };
                (machine.latency(idle_ns) + more, machine.call(idle_ns))
            }
            None => (machine.switch_ns, machine.wake_local_ns),
        };
        self.cpus[cpu].busy_since = self.now + latency;
        self.at_cpu(cpu, self.now + latency);
        cost
    }

    pub(super) fn queue(&mut self, thread: u32) {
        self.order += 1;
        let entry = Ready::new(self.threads[thread as usize].charged, self.order, thread);
        self.ready.insert(entry);
        if self.ready.first() == Some(&entry) {
            let first = (0..self.cpus.len())
                .filter_map(|cpu| self.until_due(cpu))
                .fold(f64::INFINITY, f64::min);
            self.look_in(first);
        }
    }

    /// Time for which the CPU's thread may continue while the least charged ready thread waits; `None`: no thread is ready, or none runs.
    fn until_due(&self, cpu: usize) -> Option<f64> {
        let next = self.ready.first()?.charged();
        let c = &self.cpus[cpu];
        if c.thread == NOBODY || c.arriving {
            return None;
        }
        let turn_end = self.threads[c.thread as usize].turn_end;
        let due = turn_end.max(next).min(next + self.setup.machine.slice_ns);
        Some(due - self.charged(c.thread))
    }

    fn look_in(&mut self, ns: f64) {
        let time = self.now + ns.max(0.0);
        if time < self.next_look {
            self.next_look = time;
            self.look += 1;
            self.at(time, What::Look(self.look));
        }
    }

    /// Checks whether another thread should have a CPU.
    pub(super) fn look(&mut self, which: u32) {
        if which != self.look {
            return;
        }
        self.next_look = f64::INFINITY;
        loop {
            let due = (0..self.cpus.len()).filter_map(|cpu| Some((self.until_due(cpu)?, cpu)));
            let Some((ns, cpu)) = due.min_by(|a, b| a.0.total_cmp(&b.0)) else {
                return;
            };
            let c = self.cpus[cpu];
            if ns > NOW_NS {
                return self.look_in(ns);
            }
            if !c.spins && c.until <= self.now {
                // Its burst is over at this very moment: it may leave by itself.
                return self.look_in(1.0);
            }
            self.preempt(cpu);
        }
    }

    fn preempt(&mut self, cpu: usize) {
        let c = self.cpus[cpu];
        if c.spins {
            self.stuck += 1;
            self.stop_spinning(cpu);
        } else {
            self.threads[c.thread as usize].left = c.until - self.now;
        }
        self.events.set(cpu, NEVER);
        self.cpus[cpu].thread = NOBODY;
        self.n_busy -= 1;
        self.stop_charging(c.thread);
        // The other thread first: of equally charged threads, it is the one whose turn it is.
        self.take_next(cpu);
        self.queue(c.thread);
    }

    fn stop_charging(&mut self, thread: u32) {
        let charged = self.charged(thread);
        let t = &mut self.threads[thread as usize];
        t.charged = charged;
        t.runs_since = f64::NAN;
    }

    pub(super) fn take_next(&mut self, cpu: usize) {
        if let Some(next) = self.ready.pop_first() {
            self.cpus[cpu].thread = next.thread;
            self.n_busy += 1;
            self.start(cpu);
        }
    }

    /// The CPU's thread begins, or goes on with what was left of its burst.
    pub(super) fn start(&mut self, cpu: usize) {
        let slice = self.setup.machine.slice_ns;
        let t = &mut self.threads[self.cpus[cpu].thread as usize];
        t.last_cpu = cpu;
        t.runs_since = self.now;
        if t.turn_end <= t.charged + 2.0 * NOW_NS {
            t.turn_end = t.charged + slice;
        }
        let left = std::mem::replace(&mut t.left, 0.0);
        if let Some(ns) = self.until_due(cpu) {
            self.look_in(ns);
        }
        // Through the queue even when nothing is left: threads that start each other must not nest here.
        self.burst(cpu, left);
    }

    pub(super) fn burst(&mut self, cpu: usize, ns: f64) {
        let c = &mut self.cpus[cpu];
        c.until = self.now + ns;
        c.spins = false;
        let until = c.until;
        self.at_cpu(cpu, until);
    }

    /// No burst of its ends the thread's turn.
    pub(super) fn spin(&mut self, cpu: usize) {
        self.events.set(cpu, NEVER);
        self.cpus[cpu].spins = true;
    }

    /// The CPU's thread leaves it; another one may have it.
    pub(super) fn leave(&mut self, cpu: usize) {
        self.least_before = self.least_before.max(self.least());
        let thread = self.cpus[cpu].thread;
        self.stop_charging(thread);
        self.threads[thread as usize].sleeps_since = self.now;
        self.cpus[cpu].thread = NOBODY;
        self.events.set(cpu, NEVER);
        self.cpus[cpu].spins = false;
        self.cpus[cpu].idle_since = self.now;
        self.n_busy -= 1;
        self.take_next(cpu);
    }
}
