//! Locks of the replay: the C library's mutex, reader-writer and spin locks. The rules of the mutex are at the head of
//! [`super`]; this file applies them to one lock.
//!
//! `acquire` either enters the lock at once or leaves the thread spinning or falling asleep; `release` frees the lock, hands
//! nothing over, and wakes the first sleeper if the word was 2. Readers sleep on one word and are woken together. A circle of
//! waits is looked for when a wait begins, and again when all threads stand still; `take_away` breaks it.
use super::{DEADLOCKS, NOBODY, Then, World};

/// Holders that are asked who holds what they wait for, when a wait begins; longer circles are found when all stands still.
const CHAIN: usize = 64;

impl World<'_> {
    pub(super) fn is_free(&self, lock: u32, shared: bool) -> bool {
        let l = &self.locks[lock as usize];
        l.owner == NOBODY && (shared || l.sharers == 0)
    }

    /// True: the thread is busy, or gone.
    pub(super) fn acquire(&mut self, cpu: usize, lock: u32, shared: bool) -> bool {
        let thread = self.cpus[cpu].thread;
        self.locks[lock as usize].used.n += 1;
        if self.is_free(lock, shared) {
            return self.enter(lock, thread, cpu, shared);
        }
        self.locks[lock as usize].used.contended += 1;
        self.n_lock_waiting += 1;
        self.threads[thread as usize].lock_wait_since = Some(self.now);
        self.threads[thread as usize].wants = Some((lock, shared));
        if self.closes_circle(thread, CHAIN) {
            self.note_circle(thread);
            self.take_away(lock);
            return self.enter(lock, thread, cpu, shared);
        }
        self.wait(cpu, lock, shared);
        true
    }

    pub(super) fn wait(&mut self, cpu: usize, lock: u32, shared: bool) {
        let thread = self.cpus[cpu].thread;
        if self.program.locks[lock as usize].spins {
            self.locks[lock as usize].spinners.push((thread, shared, cpu));
            return self.spin(cpu);
        }
        self.locks[lock as usize].wanted = true;
        self.threads[thread as usize].then = Then::Queue(lock, shared);
        self.burst(cpu, self.setup.machine.retry_ns);
    }

    pub(super) fn stop_spinning(&mut self, cpu: usize) {
        let thread = self.cpus[cpu].thread;
        if let Some((lock, shared)) = self.threads[thread as usize].wants {
            self.leave_spinners(lock, thread);
            self.threads[thread as usize].then = Then::Retry(lock, shared);
        }
        self.spinning.retain(|s| s.1 != cpu);
        self.cpus[cpu].spins = false;
    }

    fn leave_spinners(&mut self, lock: u32, thread: u32) {
        let spinners = &mut self.locks[lock as usize].spinners;
        if let Some(at) = spinners.iter().position(|s| s.0 == thread) {
            spinners.swap_remove(at);
        }
    }

    /// The lock is the thread's. True: getting its data takes a burst.
    pub(super) fn enter(&mut self, lock: u32, thread: u32, cpu: usize, shared: bool) -> bool {
        let t = &mut self.threads[thread as usize];
        t.wants = None;
        t.n_held += 1;
        let since = t.lock_wait_since.take();
        let l = &mut self.locks[lock as usize];
        if let Some(since) = since {
            l.used.waited_ns += self.now - since;
            self.n_lock_waiting -= 1;
        }
        self.stuck = 0;
        l.held_since.get_or_insert(self.now);
        if shared {
            l.sharers += 1;
            let share = t.shares.entry(lock).or_insert((0, l.epoch));
            // Left from before it was taken away: those releases are to do nothing.
            if share.1 != l.epoch {
                t.n_held -= (share.0 as usize).min(t.n_held);
                *share = (0, l.epoch);
            }
            share.0 += 1;
        } else {
            l.owner = thread;
        }
        let moved = l.owner_cpu != cpu && l.owner_cpu != usize::MAX;
        l.used.moved += u64::from(moved);
        l.owner_cpu = cpu;
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
        if !self.gives_back(lock, thread) {
            return false;
        }
        let l = &mut self.locks[lock as usize];
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
            // Free, or on its way to a thread that is just falling asleep and will notice: no system call is needed.
            let was_wanted = std::mem::replace(&mut l.wanted, false);
            let since = l.held_since.take().unwrap_or(self.now);
            l.used.held_ns += self.now - since;
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
        // Held time continues until a thread enters: a lock on its way to a sleeper is of use to no thread.
        let m = self.setup.machine;
        let mut cost = 0.0;
        for (sleeper, shared) in woken {
            let was = std::mem::replace(
                &mut self.threads[sleeper as usize].then,
                Then::Retry(lock, shared),
            );
            if was == Then::Fall {
                // Not yet off its CPU: it turns round by itself.
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

    /// Whether the thread still had the lock: else it was taken away, and its release changes nothing.
    fn gives_back(&mut self, lock: u32, thread: u32) -> bool {
        let t = &mut self.threads[thread as usize];
        let l = &mut self.locks[lock as usize];
        if l.owner == thread {
            l.owner = NOBODY;
            t.n_held -= 1;
            return true;
        }
        let Some((times, epoch)) = t.shares.get_mut(&lock) else {
            return false;
        };
        *times -= 1;
        let is_current = *epoch == l.epoch;
        if *times == 0 {
            t.shares.remove(&lock);
        }
        t.n_held = t.n_held.saturating_sub(1);
        if is_current {
            l.sharers -= 1;
        }
        is_current
    }

    /// Takes the lock from its holder, which does not notice.
    fn take_away(&mut self, lock: u32) {
        let l = &mut self.locks[lock as usize];
        if l.owner != NOBODY {
            self.threads[l.owner as usize].n_held -= 1;
        }
        l.owner = NOBODY;
        l.sharers = 0;
        l.epoch += 1;
    }

    /// The thread that this one waits for: it holds the lock alone.
    fn holder_for(&self, thread: u32) -> Option<u32> {
        let (lock, _) = self.threads[thread as usize].wants?;
        let owner = self.locks[lock as usize].owner;
        (owner != NOBODY).then_some(owner)
    }

    /// Whether the threads that the thread waits for, one behind the other, lead back to it.
    fn closes_circle(&self, thread: u32, most: usize) -> bool {
        let mut at = thread;
        for _ in 0..most {
            match self.holder_for(at) {
                Some(next) if next == thread => return true,
                Some(next) => at = next,
                None => return false,
            }
        }
        false
    }

    /// A thread in a circle of waits for locks.
    pub(super) fn find_circle(&self) -> Option<u32> {
        // Each thread is gone through once: what was seen on an earlier way and led nowhere is no circle.
        let mut seen = vec![NOBODY; self.threads.len()];
        for first in 0..self.threads.len() as u32 {
            let mut at = first;
            while seen[at as usize] == NOBODY {
                seen[at as usize] = first;
                match self.holder_for(at) {
                    Some(next) => at = next,
                    None => break,
                }
            }
            let waits = self.holder_for(at).is_some();
            if waits && seen[at as usize] == first && self.closes_circle(at, self.threads.len()) {
                return Some(at);
            }
        }
        None
    }

    fn note_circle(&mut self, thread: u32) {
        let mut locks = Vec::new();
        let mut at = thread;
        while let (Some((lock, _)), Some(next)) =
            (self.threads[at as usize].wants, self.holder_for(at))
        {
            locks.push(lock);
            at = next;
            if at == thread {
                break;
            }
        }
        locks.sort_unstable();
        self.out.forced += 1;
        self.out.deadlocks += 1;
        let known = &mut self.out.deadlocked;
        if known.len() < DEADLOCKS && !known.contains(&locks) {
            known.push(locks);
        }
    }

    /// The thread, which waits for a lock while all stands still, gets it.
    pub(super) fn break_in(&mut self, thread: u32) {
        let Some((lock, shared)) = self.threads[thread as usize].wants else {
            return;
        };
        if self.closes_circle(thread, self.threads.len()) {
            self.note_circle(thread);
        }
        self.take_away(lock);
        let spins = |c: &super::Cpu| c.thread == thread && c.spins;
        if let Some(cpu) = self.cpus.iter().position(spins) {
            self.leave_spinners(lock, thread);
            if !self.enter(lock, thread, cpu, shared) {
                self.burst(cpu, 0.0);
            }
            return;
        }
        let sleepers = &mut self.locks[lock as usize].sleepers;
        if let Some(at) = sleepers.iter().position(|s| s.0 == thread) {
            sleepers.remove(at);
            self.threads[thread as usize].then = Then::Retry(lock, shared);
            self.make_ready(thread, None);
        }
    }
}
