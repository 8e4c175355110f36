//! The queue in front of a mutex, `probes/mutex/mutex.c`: tickets, a futex on the one that is served, and the mutex itself. Properties:
//! nobody sleeps for ever, and the mutex is given in the order of tickets.
//!
//! The first waiter stores `serving` and then reads whether anybody sleeps; a sleeper counts itself and then reads `serving`. So the
//! store must have left the buffer before the read.

use kasuri_model_deque::machine::{DONE, Model, State, Step};

const NEXT: usize = 0;
const SERVING: usize = 1;
const SLEEPING: usize = 2;
const MUTEX: usize = 3;
const ASLEEP: usize = 4; // in the kernel's queue, one of each thread
const GIVEN: usize = 0; // books: tickets that got the mutex
const OVERTAKEN: usize = 1; // books

/// Changes to the protocol, for the controls: with each, the model must fail.
#[derive(Clone, Copy, Default)]
pub struct Broken {
    /// The store of `serving` may be in the buffer while the sleepers are read.
    pub relaxed_serving: bool,
    /// The kernel does not compare `serving` before the sleep.
    pub sleeps_blindly: bool,
    /// The next one is served before the mutex is held.
    pub serves_early: bool,
}

/// Threads that each lock and unlock once.
pub struct Ticket {
    /// How many.
    pub threads: usize,
    /// The change under test.
    pub broken: Broken,
}

const TICKET: usize = 0; // registers
const SEEN: usize = 1;
const LEFT: usize = 2;

impl Ticket {
    fn waiter(&self, s: &mut State, t: usize) -> Step {
        let b = self.broken;
        let ticket = s.threads[t].r[TICKET];
        let mut pc = s.threads[t].pc;
        match pc {
            0 => {
                s.threads[t].r[TICKET] = s.memory[NEXT];
                s.memory[NEXT] += 1;
                pc = 1;
            }
            1 => pc = if s.load(t, SERVING) == ticket { 6 } else { 2 },
            2 => {
                s.memory[SLEEPING] += 1;
                pc = 3;
            }
            3 => {
                s.threads[t].r[SEEN] = s.load(t, SERVING);
                pc = if s.threads[t].r[SEEN] == ticket { 5 } else { 4 };
            }
            // FUTEX_WAIT: the kernel compares and queues in one step.
            4 => {
                if b.sleeps_blindly || s.memory[SERVING] == s.threads[t].r[SEEN] {
                    s.memory[ASLEEP + t] = 1;
                    pc = 10;
                } else {
                    pc = 3;
                }
            }
            10 => {
                if s.memory[ASLEEP + t] == 1 {
                    return Step::Blocked;
                }
                pc = 3;
            }
            5 => {
                s.memory[SLEEPING] -= 1;
                pc = 6;
            }
            6 => {
                if !b.serves_early {
                    if !s.try_lock(t, MUTEX) {
                        return Step::Blocked;
                    }
                    self.got(s, ticket);
                }
                s.release(t, SERVING, ticket + 1);
                pc = 7;
            }
            7 => {
                if !b.relaxed_serving && !s.drained(t) {
                    return Step::Blocked;
                }
                pc = if s.load(t, SLEEPING) > 0 { 8 } else { 9 };
            }
            // FUTEX_WAKE of those with the next ticket.
            8 => {
                for other in 0..self.threads {
                    if s.threads[other].pc == 10 && s.threads[other].r[TICKET] == ticket + 1 {
                        s.memory[ASLEEP + other] = 0;
                    }
                }
                pc = 9;
            }
            9 => {
                if b.serves_early && s.threads[t].r[LEFT] == 0 {
                    if !s.try_lock(t, MUTEX) {
                        return Step::Blocked;
                    }
                    self.got(s, ticket);
                    s.threads[t].r[LEFT] = 1;
                } else {
                    s.release(t, MUTEX, 0);
                    pc = DONE;
                }
            }
            _ => unreachable!("waiter pc {pc}"),
        }
        s.threads[t].pc = pc;
        Step::Done
    }

    fn got(&self, s: &mut State, ticket: i8) {
        if s.books[GIVEN] != ticket {
            s.books[OVERTAKEN] = 1;
        }
        s.books[GIVEN] += 1;
    }
}

impl Model for Ticket {
    fn start(&self) -> State {
        State::new(self.threads, vec![0; ASLEEP + self.threads], 2)
    }
    fn step(&self, s: &mut State, t: usize) -> Step {
        self.waiter(s, t)
    }
    fn check(&self, s: &State) -> Option<&'static str> {
        (s.books[OVERTAKEN] != 0).then_some("a waiter was overtaken")
    }
    fn check_end(&self, s: &State) -> Option<&'static str> {
        (s.threads.iter().any(|t| t.pc != DONE)).then_some("a waiter sleeps for ever")
    }
}
