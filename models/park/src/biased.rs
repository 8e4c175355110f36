//! The biased lock of the ready queue, `threads/src/core/queue.c`. The owner of a queue goes in and out with plain stores; a thief
//! freezes it out. Property: never both inside, and each reads what the other wrote.
//!
//! The owner stores `BUSY` and then loads `FROZEN`; the thief, under the lock, stores `FROZEN`, runs a membarrier and waits until
//! `BUSY` is 0. Without the membarrier both stores may still be in buffers when both loads happen. An owner that finds the queue
//! frozen steps back and takes the lock like a thief.

use kasuri_model_deque::machine::{DONE, Model, State, Step};

const BUSY: usize = 0;
const FROZEN: usize = 1;
const LOCK: usize = 2;
const QUEUE: usize = 3;
const INSIDE: usize = 0; // books

/// Changes to the protocol, for the controls: with each, the model must fail.
#[derive(Clone, Copy, Default)]
pub struct Broken {
    /// The thief runs no membarrier.
    pub no_membarrier: bool,
    /// The thief does not wait for `rq_busy` to be 0.
    pub no_wait: bool,
    /// The owner leaves with a relaxed store.
    pub relaxed_leave: bool,
    /// The owner steps back without taking the lock.
    pub no_lock: bool,
}

/// Thread 0 owns, thread 1 steals.
pub struct Biased {
    /// Visits of each.
    pub visits: i8,
    /// The change under test.
    pub broken: Broken,
}

impl Biased {
    fn owner(&self, s: &mut State, t: usize) -> Step {
        let b = self.broken;
        let mut pc = s.threads[t].pc;
        match pc {
            0 => {
                if s.threads[t].r[0] == self.visits {
                    pc = DONE;
                } else {
                    s.store(t, BUSY, 1);
                    pc = 1;
                }
            }
            1 => pc = if s.load(t, FROZEN) == 0 { 2 } else { 5 },
            2 => {
                s.books[INSIDE] += 1;
                pc = 3;
            }
            3 => {
                let n = s.load(t, QUEUE);
                s.store(t, QUEUE, n + 1);
                pc = 4;
            }
            4 => {
                s.books[INSIDE] -= 1;
                if b.relaxed_leave {
                    s.store(t, BUSY, 0);
                } else {
                    s.release(t, BUSY, 0);
                }
                s.threads[t].r[0] += 1;
                pc = 0;
            }
            5 => {
                s.release(t, BUSY, 0);
                pc = 6;
            }
            6 => {
                if !b.no_lock && !s.try_lock(t, LOCK) {
                    return Step::Blocked;
                }
                s.books[INSIDE] += 1;
                pc = 7;
            }
            7 => {
                let n = s.load(t, QUEUE);
                s.store(t, QUEUE, n + 1);
                pc = 8;
            }
            8 => {
                s.books[INSIDE] -= 1;
                if !b.no_lock {
                    s.release(t, LOCK, 0);
                }
                s.threads[t].r[0] += 1;
                pc = 0;
            }
            _ => unreachable!("owner pc {pc}"),
        }
        s.threads[t].pc = pc;
        Step::Done
    }

    fn thief(&self, s: &mut State, t: usize) -> Step {
        let b = self.broken;
        let mut pc = s.threads[t].pc;
        match pc {
            0 => {
                if s.threads[t].r[0] == self.visits {
                    pc = DONE;
                } else if s.try_lock(t, LOCK) {
                    pc = 1;
                } else {
                    return Step::Blocked;
                }
            }
            1 => {
                s.store(t, FROZEN, 1);
                pc = 2;
            }
            2 => {
                let passed = s.drained(t) && s.drained(0);
                if !b.no_membarrier && !passed {
                    return Step::Blocked;
                }
                pc = 3;
            }
            3 => {
                if !b.no_wait && s.load(t, BUSY) != 0 {
                    return Step::Blocked;
                }
                s.books[INSIDE] += 1;
                pc = 4;
            }
            4 => {
                let n = s.load(t, QUEUE);
                s.store(t, QUEUE, n + 1);
                pc = 5;
            }
            5 => {
                s.books[INSIDE] -= 1;
                s.release(t, FROZEN, 0);
                pc = 6;
            }
            6 => {
                s.release(t, LOCK, 0);
                s.threads[t].r[0] += 1;
                pc = 0;
            }
            _ => unreachable!("thief pc {pc}"),
        }
        s.threads[t].pc = pc;
        Step::Done
    }
}

impl Model for Biased {
    fn start(&self) -> State {
        State::new(2, vec![0; 4], 1)
    }
    fn step(&self, s: &mut State, t: usize) -> Step {
        if t == 0 {
            self.owner(s, t)
        } else {
            self.thief(s, t)
        }
    }
    fn check(&self, s: &State) -> Option<&'static str> {
        (s.books[INSIDE] > 1).then_some("owner and thief are both inside")
    }
    fn check_end(&self, s: &State) -> Option<&'static str> {
        if s.threads.iter().any(|t| t.pc != DONE) {
            return Some("a thread waits for ever");
        }
        (s.memory[QUEUE] != 2 * self.visits).then_some("a change of the queue was lost")
    }
}
