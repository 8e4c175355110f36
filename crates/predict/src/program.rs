//! A recorded program as scripts: the actions of each thread, for any number of CPUs. Invariant: every `Release` follows an
//! `Acquire` of the same lock by the same thread; every event that is waited for is posted once, or never (then no thread
//! waits for it in the replay either).

use std::collections::HashMap;

/// One action of a thread. Times are CPU time of the recording, ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Needs a CPU for so long.
    Compute(u64),
    /// Takes a lock alone, or with other sharers.
    Acquire(u32, bool),
    /// Gives it back.
    Release(u32),
    /// Is off the CPU for so long, for reasons outside the program: I/O, timers.
    Delay(u64),
    /// Wakes the threads that wait for this event.
    Post(u32),
    /// Goes on when the event has been posted.
    Wait(u32),
    /// The same, but stays on its CPU meanwhile: it spins.
    Spin(u32),
    /// Goes on when all participants of this round have come.
    Barrier(u32),
}

/// One thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// Its name.
    pub name: String,
    /// Process and thread id.
    pub pid: i32,
    /// Thread id.
    pub tid: i32,
    /// Its actions, in order.
    pub steps: Vec<Step>,
}

/// One lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lock {
    /// As the program calls it.
    pub name: String,
    /// Process.
    pub pid: i32,
    /// Address.
    pub object: u64,
    /// Waiters stay on their CPU.
    pub spins: bool,
}

/// All threads with what they share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// Threads.
    pub scripts: Vec<Script>,
    /// Locks.
    pub locks: Vec<Lock>,
    /// Number of events: `Post` and `Wait` say numbers below it.
    pub n_events: u32,
    /// Participants of each round of a barrier: all must come.
    pub rounds: Vec<u32>,
}

impl Program {
    /// CPU time of all threads, ns.
    pub fn work_ns(&self) -> u64 {
        self.scripts.iter().map(Script::work_ns).sum()
    }

    /// CPU time inside each lock, ns; a nested hold counts for every lock held.
    pub fn hold_ns(&self) -> Vec<u64> {
        let mut out = vec![0; self.locks.len()];
        for script in &self.scripts {
            // CPU time of the thread when it took what it holds: as many locks may be held at once as there are.
            let mut since: HashMap<u32, u64> = HashMap::new();
            let mut done = 0;
            for step in &script.steps {
                match *step {
                    Step::Acquire(lock, _) => {
                        since.entry(lock).or_insert(done);
                    }
                    Step::Release(lock) => {
                        if let Some(from) = since.remove(&lock) {
                            out[lock as usize] += done - from;
                        }
                    }
                    Step::Compute(ns) => done += ns,
                    _ => {}
                }
            }
            for (lock, from) in since {
                out[lock as usize] += done - from;
            }
        }
        out
    }

    /// For each lock, how long it is held alone: by all threads together, and by the one that holds it longest, ns. Delays inside
    /// count, as no other thread gets the lock meanwhile.
    pub fn serial_ns(&self) -> Vec<(u64, u64)> {
        let mut out = vec![(0, 0); self.locks.len()];
        for script in &self.scripts {
            let mut since: HashMap<u32, u64> = HashMap::new();
            let mut own: HashMap<u32, u64> = HashMap::new();
            let mut now = 0;
            for step in &script.steps {
                match *step {
                    Step::Acquire(lock, false) => {
                        since.entry(lock).or_insert(now);
                    }
                    Step::Release(lock) => {
                        if let Some(from) = since.remove(&lock) {
                            *own.entry(lock).or_default() += now - from;
                        }
                    }
                    Step::Compute(ns) | Step::Delay(ns) => now += ns,
                    _ => {}
                }
            }
            for (lock, from) in since {
                *own.entry(lock).or_default() += now - from;
            }
            for (lock, ns) in own {
                let of = &mut out[lock as usize];
                *of = (of.0 + ns, of.1.max(ns));
            }
        }
        out
    }

    /// CPU time inside any lock, ns.
    pub fn inside_ns(&self) -> u64 {
        let mut total = 0;
        for script in &self.scripts {
            let mut held = 0usize;
            for step in &script.steps {
                match *step {
                    Step::Acquire(..) => held += 1,
                    Step::Release(_) => held = held.saturating_sub(1),
                    Step::Compute(ns) if held > 0 => total += ns,
                    _ => {}
                }
            }
        }
        total
    }

    /// Time off the CPU for outside reasons, ns.
    pub fn delay_ns(&self) -> u64 {
        let delay = |step: &Step| if let Step::Delay(ns) = *step { ns } else { 0 };
        self.scripts.iter().flat_map(|s| &s.steps).map(delay).sum()
    }

    /// Acquisitions of each lock.
    pub fn acquisitions(&self) -> Vec<u64> {
        let mut out = vec![0; self.locks.len()];
        for step in self.scripts.iter().flat_map(|s| &s.steps) {
            if let Step::Acquire(lock, _) = *step {
                out[lock as usize] += 1;
            }
        }
        out
    }

    /// Threads that do a twentieth or more of an equal share of the work: the others only start and wait.
    pub fn workers(&self) -> usize {
        let work: Vec<u64> = self.scripts.iter().map(Script::work_ns).collect();
        let most = work.iter().copied().max().unwrap_or(0).max(1);
        work.iter()
            .filter(|&&ns| ns.saturating_mul(20) >= most)
            .count()
    }
}

impl Script {
    /// CPU time, ns.
    pub fn work_ns(&self) -> u64 {
        let work = |step: &Step| if let Step::Compute(ns) = *step { ns } else { 0 };
        self.steps.iter().map(work).sum()
    }
}
