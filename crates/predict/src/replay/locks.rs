//! Locks of the replay: the C library's mutex, reader-writer and spin locks; its parent has the rules.
use super::{NOBODY, Then, World};

impl World<'_> {
    pub(super) fn is_free(&self, lock: u32, shared: bool) -> bool {
        let l = &self.locks[lock as usize];
        l.owner == NOBODY && (shared || l.sharers == 0)
    }

    /// True: the thread is busy, or gone.
    pub(super) fn acquire(&mut self, cpu: usize, lock: u32, shared: bool) -> bool {
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

    pub(super) fn wait(&mut self, cpu: usize, lock: u32, shared: bool) {
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

    pub(super) fn stop_spinning(&mut self, cpu: usize) {
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
    pub(super) fn enter(&mut self, lock: u32, thread: u32, cpu: usize, shared: bool) -> bool {
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
    pub(super) fn release(&mut self, lock: u32, cpu: usize) -> bool {
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
            // Free, or on its way to somebody who is just falling asleep and will notice: then the kernel is asked for nothing.
            let was_wanted = std::mem::replace(&mut l.wanted, false);
            l.used.held_ns += self.now - l.held_since;
            l.held_since = f64::NAN;
            if was_wanted {
                self.burst(cpu, self.setup.machine.retry_ns);
            }
            return was_wanted;
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
            cost += self.make_ready(sleeper, Some(cpu));
        }
        if cost > 0.0 {
            self.burst(cpu, cost);
        }
        cost > 0.0
    }
}
