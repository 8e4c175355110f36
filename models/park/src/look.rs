//! Cancellation of a wait, `threads/pthread/cancel.c`. A thread puts down what it waits for with plain stores, waits, and takes it
//! away; a canceller looks for it. Properties: a cancelled thread does not wait for ever, and what the canceller looks at is there.
//!
//! The thread's two looks (has it been cancelled? is it being looked at?) each follow a store that may still be in its buffer; the
//! canceller's membarrier empties that buffer.

use kasuri_model_deque::machine::{DONE, Model, State, Step};

const DOWN: usize = 0; // wait_word: the object is put down
const CANCELED: usize = 1;
const LOOKED_AT: usize = 2;
const BIT: usize = 3; // of light.word
const QUEUED: usize = 4; // in the object's queue; under the object's bit
const WAITS: usize = 5; // wait_kind
const GONE: usize = 0; // books: the object's memory may be anything
const TOUCHED: usize = 1; // books: after that

/// Changes to the protocol, for the controls: with each, the model must fail.
#[derive(Clone, Copy, Default)]
pub struct Broken {
    /// The canceller runs no membarrier.
    pub no_membarrier: bool,
    /// The thread leaves its wait without looking whether it is looked at.
    pub leaves_at_once: bool,
    /// The canceller does not say that it looks.
    pub looks_silently: bool,
    /// The canceller looks only once.
    pub looks_once: bool,
}

/// Thread 0 waits, thread 1 cancels, thread 2, if there is one, ends the wait as it should end.
pub struct Look {
    /// Somebody ends the wait.
    pub ended: bool,
    /// Waits of thread 0, each for an object of its own.
    pub waits: i8,
    /// The change under test.
    pub broken: Broken,
}

impl Look {
    fn waiter(&self, s: &mut State, t: usize) -> Step {
        let mut pc = s.threads[t].pc;
        match pc {
            0 => {
                s.books[GONE] = 0;
                s.release(t, DOWN, 1);
                pc = 1;
            }
            1 => pc = if s.load(t, CANCELED) == 1 { 4 } else { 2 },
            // the object's bit: read-modify-writes
            2 => {
                if !s.drained(t) {
                    return Step::Blocked;
                }
                s.memory[QUEUED] = 1;
                s.memory[WAITS] = 1;
                pc = 3;
            }
            3 => {
                if s.memory[QUEUED] == 1 {
                    return Step::Blocked;
                }
                s.store(t, WAITS, 0);
                pc = 4;
            }
            4 => {
                s.store(t, DOWN, 0);
                pc = 5;
            }
            5 => pc = if !self.broken.leaves_at_once && s.load(t, LOOKED_AT) == 1 { 6 } else { 7 },
            6 => {
                if !s.try_lock(t, BIT) {
                    return Step::Blocked;
                }
                s.release(t, BIT, 0);
                pc = 7;
            }
            7 => {
                s.books[GONE] = 1;
                s.threads[t].r[0] += 1;
                pc = if s.threads[t].r[0] == self.waits { DONE } else { 0 };
            }
            _ => unreachable!("waiter pc {pc}"),
        }
        s.threads[t].pc = pc;
        Step::Done
    }

    fn canceller(&self, s: &mut State, t: usize) -> Step {
        let b = self.broken;
        let mut pc = s.threads[t].pc;
        match pc {
            0 => {
                s.memory[CANCELED] = 1;
                pc = 1;
            }
            1 => {
                if !s.try_lock(t, BIT) {
                    return Step::Blocked;
                }
                if !b.looks_silently {
                    s.store(t, LOOKED_AT, 1);
                }
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
                s.threads[t].r[0] = 1; // done
                pc = if s.load(t, DOWN) == 1 { 4 } else { 5 };
            }
            4 => {
                s.books[TOUCHED] |= s.books[GONE];
                if s.memory[QUEUED] == 1 {
                    s.memory[QUEUED] = 0;
                } else if s.memory[WAITS] == 0 && !b.looks_once {
                    s.threads[t].r[0] = 0;
                }
                pc = 5;
            }
            5 => {
                s.store(t, LOOKED_AT, 0);
                pc = 6;
            }
            6 => {
                s.release(t, BIT, 0);
                pc = if s.threads[t].r[0] == 1 { DONE } else { 1 };
            }
            _ => unreachable!("canceller pc {pc}"),
        }
        s.threads[t].pc = pc;
        Step::Done
    }

    fn ender(&self, s: &mut State, t: usize) -> Step {
        if s.threads[0].pc == DONE {
            s.threads[t].pc = DONE;
        } else if s.memory[QUEUED] == 1 {
            s.memory[QUEUED] = 0;
        } else {
            return Step::Blocked;
        }
        Step::Done
    }
}

impl Model for Look {
    fn start(&self) -> State {
        State::new(if self.ended { 3 } else { 2 }, vec![0; 6], 2)
    }
    fn step(&self, s: &mut State, t: usize) -> Step {
        match t {
            0 => self.waiter(s, t),
            1 => self.canceller(s, t),
            _ => self.ender(s, t),
        }
    }
    fn check(&self, s: &State) -> Option<&'static str> {
        (s.books[TOUCHED] != 0).then_some("the canceller looks at an object that is gone")
    }
    fn check_end(&self, s: &State) -> Option<&'static str> {
        s.threads.iter().any(|t| t.pc != DONE).then_some("a cancelled thread waits for ever")
    }
}
