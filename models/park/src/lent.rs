//! A worker that is taken from a thread which waits in the kernel without having said so: `threads/pthread/look.c`,
//! `adopt()` of `threads/src/core/carrier.c`, `ito__come_home()` of `call.c` there, `ito__be_home()` of `threads/pthread/own_tls.h`. Properties: only
//! one kernel thread at a time runs on the worker, it finds the worker as the thread left it, the thread does not go on
//! inside ito without a worker, and a wait that only another thread of the worker can end is ended.
//!
//! The kernel's file says in what call the thread sleeps, and to read that the kernel waits until the thread is off its CPU,
//! which empties its store buffer. Modelled are one light thread, its worker, the watcher and one spare carrier; when the
//! thread comes back it runs on that carrier, and the one it left is the spare. Not modelled: calls that were told of
//! (`ito_blocking_begin`), `moves` (with one light thread it cannot matter), reordered loads.
//!
//! A thread that computes instead of waiting is interrupted by the watcher's signal, and its handler takes the worker from itself
//! (`look_leave_worker()`), where it has interrupted the program and not ito.

use kasuri_model_deque::machine::{DONE, Model, State, Step};

const LENT: usize = 0; // turn * 4 + one of the next
const HOME: i8 = 0;
const ADOPTED: i8 = 2;
const TAKEN: i8 = 3;
const TLS: usize = 1; // ito__tls_worker: 0 the worker, 1 nobody
const OUT: usize = 2; // ito__tls_out.carrier is set
const FILE: usize = 3; // what the thread sleeps in
const NOTHING: i8 = 0;
const THEIRS: i8 = 1; // a call of the program's
const OURS: i8 = 2; // one that ito makes while it has the worker
const CARRIER: usize = 4; // of the worker: 0 the thread's, 1 another
const WORKER: usize = 5; // what the worker's fields are
const REST: usize = 6; // the spare carrier waits for a job
const JOB: usize = 7; // `lent` as offered
const READY: usize = 8; // the thread is in the worker's queue
const RUNS: usize = 9; // and was taken out of it
const WANTED: usize = 10; // `lent` as the watcher would have it
const SIGNAL: usize = 11; // it has been sent, or its handler runs
const IN_ITO: usize = 0; // books: the thread has the worker
const ADOPTS: usize = 1; // books: the spare carrier has it
const WROTE: usize = 2; // books: the last that the thread wrote into WORKER
const WITHOUT: usize = 3; // books: the thread goes on without a worker
const STALE: usize = 4; // books: the spare found an older worker
const RAN: usize = 5; // books: the spare has run the worker's other threads

/// Changes to the protocol, for the controls: with each, the model must fail.
#[derive(Clone, Copy, Default)]
pub struct Broken {
    /// The watcher takes the worker without a look afterwards.
    pub looks_before_only: bool,
    /// The watcher takes the worker from calls that ito makes, too.
    pub takes_from_ours: bool,
    /// A thread that finds its worker taken goes on.
    pub enters_anyway: bool,
    /// A thread that takes its worker back does not count the turn.
    pub no_turn: bool,
    /// An entry reads `ito__tls_worker` before `lent` only.
    pub reads_once: bool,
    /// `ito__tls_worker` is written with a plain store.
    pub plain_nobody: bool,
    /// `lent` = HOME is a plain store.
    pub plain_home: bool,
    /// The kernel's file tells of a thread that is still on its CPU.
    pub file_of_running: bool,
    /// The watcher runs no membarrier.
    pub no_membarrier: bool,
    /// A worker that no spare could take is not offered again.
    pub offers_once: bool,
    /// The handler takes the worker wherever it has interrupted the thread.
    pub interrupts_ito: bool,
    /// The handler's compare-and-swap has no release order.
    pub relaxed_taken: bool,
    /// The watcher takes the worker of a thread that computes itself.
    pub takes_from_running: bool,
    /// The watcher sends no signal.
    pub no_signal: bool,
}

/// Thread 0 computes, waits and enters ito in turns, thread 1 is the watcher, thread 2 the spare carrier, thread 3 the handler of
/// the watcher's signal in thread 0, which stands still meanwhile.
pub struct Lent {
    /// Waits of thread 0.
    pub waits: i8,
    /// They end only when the worker has run others.
    pub needs_worker: bool,
    /// Entries into ito sleep in a call of ito's own.
    pub sleeps: bool,
    /// It computes until others have run, and does not wait.
    pub computes: bool,
    /// The change under test.
    pub broken: Broken,
}

impl Lent {
    /// ito__be_home() is pc 0 to 2, ito__come_home() 3 to 9.
    fn enters(&self, s: &mut State, t: usize) -> Step {
        let b = self.broken;
        let lent = s.threads[t].r[0];
        let mut pc = s.threads[t].pc;
        match pc {
            0 => pc = if s.load(t, TLS) == 1 { 7 } else { 1 },
            1 => {
                let home = s.load(t, LENT) % 4 == HOME;
                pc = match (home || b.enters_anyway, b.reads_once) {
                    (true, true) => 10,
                    (true, false) => 2,
                    (false, _) => 3,
                };
            }
            2 => pc = if s.load(t, TLS) == 1 { 3 } else { 10 },
            3 => pc = if s.load(t, TLS) == 1 { 7 } else { 4 },
            4 => {
                let lent = s.load(t, LENT);
                s.threads[t].r[0] = lent;
                pc = match lent % 4 {
                    ADOPTED => return Step::Blocked,
                    TAKEN => 5,
                    _ => 6,
                };
            }
            5 => {
                if s.memory[LENT] == lent {
                    s.memory[LENT] = lent - TAKEN + if b.no_turn { 0 } else { 4 };
                    pc = 10;
                } else {
                    pc = 3;
                }
            }
            6 => pc = if s.load(t, TLS) == 1 { 3 } else { 10 },
            7 => {
                s.books[WITHOUT] |= i8::from(s.load(t, OUT) == 0);
                s.store(t, OUT, 0);
                pc = 8;
            }
            // The carrier's loop puts the thread into the queue when its context is saved.
            8 => {
                if !s.drained(t) {
                    return Step::Blocked;
                }
                s.memory[READY] = 1;
                pc = 9;
            }
            9 => {
                if s.memory[RUNS] == 0 {
                    return Step::Blocked;
                }
                s.memory[RUNS] = 0;
                pc = 10;
            }
            _ => return self.goes_on(s, t),
        }
        s.threads[t].pc = pc;
        Step::Done
    }

    /// Inside ito 10 to 13, in the program 20 and 21.
    fn goes_on(&self, s: &mut State, t: usize) -> Step {
        let mut pc = s.threads[t].pc;
        match pc {
            10 => {
                s.books[IN_ITO] = 1;
                s.books[WROTE] += 1;
                s.store(t, WORKER, s.books[WROTE]);
                pc = if self.sleeps { 11 } else { 13 };
            }
            11 => {
                s.memory[FILE] = OURS;
                pc = 12;
            }
            12 => {
                s.memory[FILE] = NOTHING;
                pc = 13;
            }
            13 => {
                s.books[IN_ITO] = 0;
                s.threads[t].r[1] += 1;
                pc = if s.threads[t].r[1] > self.waits { DONE } else { 20 };
            }
            20 => {
                s.memory[FILE] = if self.computes { NOTHING } else { THEIRS };
                s.books[RAN] = 0;
                pc = 21;
            }
            21 => {
                if self.needs_worker && s.books[RAN] == 0 {
                    return Step::Blocked;
                }
                s.memory[FILE] = NOTHING;
                pc = 0;
            }
            _ => unreachable!("thread pc {pc}"),
        }
        s.threads[t].pc = pc;
        Step::Done
    }

    /// Does the thread sleep in a call from which its worker may be taken? None: not known before it is off its CPU.
    fn waits(&self, s: &State, t: usize) -> Option<bool> {
        let file = s.memory[FILE];
        if s.load(t, CARRIER) == 1 || file == NOTHING {
            return Some(false);
        }
        let known = s.drained(0) || self.broken.file_of_running;
        known.then_some(file == THEIRS || self.broken.takes_from_ours)
    }

    fn watcher(&self, s: &mut State, t: usize) -> Step {
        let b = self.broken;
        let [lent, offered, ..] = s.threads[t].r;
        let mut pc = s.threads[t].pc;
        match pc {
            0 => {
                let now = s.load(t, LENT);
                s.threads[t].r[0] = now;
                if self.computes && now % 4 == HOME {
                    return self.interrupts(s, now);
                }
                pc = match now % 4 {
                    HOME => 1,
                    TAKEN if now != offered => 6,
                    _ => return Step::Blocked,
                };
            }
            // Two looks see the same.
            1 | 2 => match self.waits(s, t) {
                Some(true) => pc += 1,
                Some(false) if pc == 2 => pc = 1,
                _ => return Step::Blocked,
            },
            3 => {
                pc = 0;
                if s.memory[LENT] == lent {
                    s.memory[LENT] = lent + TAKEN;
                    s.threads[t].r[0] = lent + TAKEN;
                    pc = if b.looks_before_only { 6 } else { 4 };
                }
            }
            4 => {
                if !b.no_membarrier && !s.drained(0) {
                    return Step::Blocked;
                }
                pc = 5;
            }
            5 => match self.waits(s, t) {
                Some(true) => pc = 6,
                Some(false) => {
                    if s.memory[LENT] == lent {
                        s.memory[LENT] = lent - TAKEN;
                    }
                    pc = 0;
                }
                None => return Step::Blocked,
            },
            6 => {
                if s.memory[REST] == 1 {
                    s.memory[REST] = 0;
                    s.memory[JOB] = lent;
                    s.threads[t].r[1] = lent;
                } else if b.offers_once {
                    s.threads[t].r[1] = lent;
                } else if s.memory[LENT] == lent {
                    return Step::Blocked;
                }
                pc = 0;
            }
            _ => unreachable!("watcher pc {pc}"),
        }
        s.threads[t].pc = pc;
        Step::Done
    }

    /// The watcher, of a thread that seems to compute.
    fn interrupts(&self, s: &mut State, now: i8) -> Step {
        if self.broken.takes_from_running {
            s.memory[LENT] = now + TAKEN;
        } else if s.memory[SIGNAL] == 1 || self.broken.no_signal {
            return Step::Blocked;
        } else {
            s.memory[WANTED] = now + TAKEN;
            s.memory[SIGNAL] = 1;
        }
        Step::Done
    }

    /// look_leave_worker(), in thread 0: with its loads and stores, between two of its steps. A signal that comes in ito, or when the thread
    /// has no worker, is spent.
    fn handler(&self, s: &mut State, t: usize) -> Step {
        let b = self.broken;
        let lent = s.threads[t].r[0];
        let mut pc = s.threads[t].pc;
        match pc {
            0 => {
                let program = (20..DONE).contains(&s.threads[0].pc) || b.interrupts_ito;
                if s.memory[SIGNAL] == 0 {
                    return Step::Blocked;
                }
                pc = if program && s.load(0, TLS) == 0 { 1 } else { 3 };
                s.threads[t].r[1] = 1;
            }
            1 => {
                let now = s.load(0, LENT);
                s.threads[t].r[0] = now;
                pc = if now % 4 == HOME && s.load(0, WANTED) == now + TAKEN { 2 } else { 3 };
            }
            2 => {
                let may = if b.relaxed_taken { s.settled(0, LENT) } else { s.drained(0) };
                if !may {
                    return Step::Blocked;
                }
                if s.memory[LENT] == lent {
                    s.memory[LENT] = lent + TAKEN;
                }
                pc = 3;
            }
            3 => {
                s.memory[SIGNAL] = 0;
                s.threads[t].r[1] = 0;
                pc = 0;
            }
            _ => unreachable!("handler pc {pc}"),
        }
        s.threads[t].pc = pc;
        Step::Done
    }

    fn spare(&self, s: &mut State, t: usize) -> Step {
        let b = self.broken;
        let turn = s.threads[t].r[0] / 4 * 4;
        let put = |s: &mut State, plain: bool, at, value| {
            if plain {
                s.store(t, at, value);
            } else {
                s.release(t, at, value);
            }
        };
        let mut pc = s.threads[t].pc;
        match pc {
            // It is being made, or back from its last job.
            0 => {
                if !s.drained(t) {
                    return Step::Blocked;
                }
                s.memory[REST] = 1;
                pc = 1;
            }
            1 => {
                if s.memory[JOB] == 0 {
                    return Step::Blocked;
                }
                s.threads[t].r[0] = s.memory[JOB];
                s.memory[JOB] = 0;
                pc = 2;
            }
            2 => {
                pc = 0;
                if s.memory[LENT] == s.threads[t].r[0] {
                    s.memory[LENT] = turn + ADOPTED;
                    s.books[ADOPTS] = 1;
                    pc = 3;
                }
            }
            3 => {
                s.books[STALE] |= i8::from(s.load(t, WORKER) != s.books[WROTE]);
                s.store(t, CARRIER, 1);
                s.store(t, OUT, 1);
                pc = 4;
            }
            4 => {
                put(s, b.plain_nobody, TLS, 1);
                pc = 5;
            }
            5 => {
                put(s, b.plain_home, LENT, turn + 4);
                pc = 6;
            }
            6 => {
                s.books[RAN] = 1;
                pc = 7;
            }
            7 => {
                if s.memory[READY] == 0 {
                    return Step::Blocked;
                }
                s.memory[READY] = 0;
                s.store(t, TLS, 0);
                s.store(t, CARRIER, 0);
                pc = 8;
            }
            // From here on the thread runs on this carrier, so behind its stores.
            8 => {
                if !s.drained(t) {
                    return Step::Blocked;
                }
                s.books[ADOPTS] = 0;
                s.memory[RUNS] = 1;
                pc = 0;
            }
            _ => unreachable!("spare pc {pc}"),
        }
        s.threads[t].pc = pc;
        Step::Done
    }
}

impl Model for Lent {
    fn start(&self) -> State {
        State::new(4, vec![0; 12], 6)
    }
    fn step(&self, s: &mut State, t: usize) -> Step {
        match t {
            0 if s.threads[3].r[1] == 1 => Step::Blocked,
            0 => self.enters(s, t),
            1 => self.watcher(s, t),
            2 => self.spare(s, t),
            _ => self.handler(s, t),
        }
    }
    fn check(&self, s: &State) -> Option<&'static str> {
        let wrong = [
            (s.books[WITHOUT], "a thread goes on without a worker"),
            (s.books[STALE], "the worker is not as its thread left it"),
            (s.books[IN_ITO] & s.books[ADOPTS], "two kernel threads have the worker"),
        ];
        wrong.iter().find(|w| w.0 != 0).map(|w| w.1)
    }
    fn check_end(&self, s: &State) -> Option<&'static str> {
        (s.threads[0].pc != DONE).then_some("a thread waits for ever")
    }
}
