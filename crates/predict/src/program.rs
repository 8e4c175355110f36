//! A recorded program as scripts: the actions of each thread, for any number of CPUs. Invariant: every `Release` follows an
//! `Acquire` of the same lock by the same thread; every event that is waited for is posted once, or never (then no thread
//! waits for it in the replay either).

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

    /// All sums over the scripts, in one pass.
    pub fn sums(&self) -> Sums {
        let n = self.locks.len();
        let mut out = Sums {
            hold_ns: vec![0; n],
            serial_ns: vec![(0, 0); n],
            acquisitions: vec![0; n],
            ..Sums::default()
        };
        let mut held = vec![Held::default(); n];
        let mut touched = Vec::new();
        let mut works = Vec::with_capacity(self.scripts.len());
        for script in &self.scripts {
            // Its CPU time, and that with its delays, so far.
            let (mut done, mut now, mut n_held) = (0, 0, 0usize);
            for step in &script.steps {
                match *step {
                    Step::Acquire(lock, shared) => {
                        n_held += 1;
                        out.acquisitions[lock as usize] += 1;
                        let held = &mut held[lock as usize];
                        if !std::mem::replace(&mut held.is_touched, true) {
                            touched.push(lock);
                        }
                        held.since.get_or_insert(done);
                        if !shared {
                            held.alone_since.get_or_insert(now);
                        }
                    }
                    Step::Release(lock) => {
                        n_held = n_held.saturating_sub(1);
                        let held = &mut held[lock as usize];
                        held.release(done, now, &mut out.hold_ns[lock as usize]);
                    }
                    Step::Compute(ns) => {
                        done += ns;
                        now += ns;
                        out.inside_ns += if n_held > 0 { ns } else { 0 };
                    }
                    Step::Delay(ns) => {
                        now += ns;
                        out.delay_ns += ns;
                    }
                    _ => {}
                }
            }
            for lock in touched.drain(..) {
                let mut held = std::mem::take(&mut held[lock as usize]);
                held.release(done, now, &mut out.hold_ns[lock as usize]);
                let of = &mut out.serial_ns[lock as usize];
                *of = (of.0 + held.alone_ns, of.1.max(held.alone_ns));
            }
            works.push(done);
        }
        out.work_ns = works.iter().sum();
        let most = works.iter().copied().max().unwrap_or(0).max(1);
        let works = works.iter().filter(|&&ns| ns.saturating_mul(20) >= most);
        out.workers = works.count();
        out
    }
}

/// What a program does in all. Of its passes over millions of steps this is one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// CPU time of all threads, ns.
    pub work_ns: u64,
    /// Of it, inside any lock.
    pub inside_ns: u64,
    /// Time off the CPU for outside reasons, ns.
    pub delay_ns: u64,
    /// CPU time inside each lock, ns; a nested hold counts for every lock held.
    pub hold_ns: Vec<u64>,
    /// For each lock, how long it is held alone: by all threads together, and by the one that holds it longest, ns. Delays inside
    /// count, as no other thread gets the lock meanwhile.
    pub serial_ns: Vec<(u64, u64)>,
    /// Acquisitions of each lock.
    pub acquisitions: Vec<u64>,
    /// Threads that do a twentieth or more of an equal share of the work: the others only start and wait.
    pub workers: usize,
}

/// A lock as one thread holds it: since which moment of its CPU time, and, alone, of its time.
#[derive(Clone, Default)]
struct Held {
    is_touched: bool,
    since: Option<u64>,
    alone_since: Option<u64>,
    alone_ns: u64,
}

impl Held {
    fn release(&mut self, done: u64, now: u64, hold_ns: &mut u64) {
        *hold_ns += self.since.take().map_or(0, |since| done - since);
        self.alone_ns += self.alone_since.take().map_or(0, |since| now - since);
    }
}

impl Script {
    /// CPU time, ns.
    pub fn work_ns(&self) -> u64 {
        let work = |step: &Step| if let Step::Compute(ns) = *step { ns } else { 0 };
        self.steps.iter().map(work).sum()
    }
}
