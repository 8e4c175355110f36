//! The deque of `threads/src/core/deque.c`: the owner pushes and pops without lock or fence; thieves take under the lock, by force
//! when nothing is public; the array grows. Property: each item is taken exactly once, by a thread that read it whole.
//!
//! Positions and items are small numbers in modelled memory: `BOTTOM` (the owner's end), `TOP` (the thieves' end), `SPLIT` (public
//! below, private above), `LIMIT` (from there on up the owner may pop without the lock), `LOCK`, `ASK` (a thief wants more to be
//! public). A forced steal raises `LIMIT` and runs a membarrier: the owner has then either lowered `BOTTOM` where the thief can
//! see it, or will see the new `LIMIT` and take the lock. The program counters in `push`, `pop`, `grow` and `thief` follow the
//! steps of the C.

use crate::machine::{DONE, Model, State, Step};

const BOTTOM: usize = 0;
const LIMIT: usize = 1;
const TOP: usize = 2;
const SPLIT: usize = 3;
const LOCK: usize = 4;
const ASK: usize = 5;
/// The current array: 0 or 1.
const ARRAY: usize = 6;
const SLOTS: usize = 7;
/// Slots of the first array; the second has twice as many.
const CAPACITY: i8 = 2;
const FREED: i8 = 99;

/// The owner's operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// Push the next item (1, 2, 3...), and answer if asked.
    Push,
    /// Pop.
    Pop,
}

/// Changes to the protocol, for the controls: with each but the last, the model must fail.
#[derive(Clone, Copy, Default)]
pub struct Broken {
    /// The push stores `bottom` relaxed.
    pub no_release: bool,
    /// A forced steal runs no membarrier.
    pub no_membarrier: bool,
    /// A forced steal raises `limit` after its membarrier.
    pub limit_late: bool,
    /// The pop looks at `limit` before it lowers `bottom`.
    pub look_first: bool,
    /// The slow pop does not take the lock.
    pub no_lock: bool,
    /// The array grows without the lock.
    pub grow_unlocked: bool,
    /// A forced steal does not put `limit` back when it fails: harmless, only slow; here to show the model tells.
    pub limit_stays: bool,
}

/// Owner is thread 0; each thief tries `attempts` times.
pub struct Deque {
    /// The owner's program.
    pub ops: Vec<Op>,
    /// Number of thieves.
    pub thieves: usize,
    /// Steals each thief tries.
    pub attempts: i8,
    /// Thieves use force (membarrier) when nothing is public; else they only ask.
    pub force: bool,
    /// The change under test.
    pub broken: Broken,
}

fn slot(array: i8, index: i8) -> usize {
    SLOTS + if array == 0 { 0 } else { CAPACITY as usize } + index as usize
}

impl Deque {
    fn take(s: &mut State, item: i8) {
        let at = s.books.len() - 1;
        if item <= 0 || item == FREED || item as usize > at {
            s.books[at] = 1; // read a slot that was not written, or freed
        } else {
            s.books[item as usize - 1] += 1;
        }
    }

    /// Registers of the owner: 0 next op, 1 bottom, 2 next item, 3 slot in hand, 4 scratch, 5 scratch.
    fn owner(&self, s: &mut State, t: usize) -> Step {
        let r = s.threads[t].r;
        let next = match s.threads[t].pc {
            0 => Some(match self.ops.get(r[0] as usize) {
                None => DONE,
                Some(Op::Push) if r[1] == CAPACITY && s.load(t, ARRAY) == 0 => 20,
                Some(Op::Push) => 1,
                Some(Op::Pop) => {
                    if r[1] == 0 {
                        19
                    } else {
                        10
                    }
                }
            }),
            pc @ 1..=4 => self.push(s, t, pc),
            pc @ 10..=16 => self.pop(s, t, pc),
            19 => {
                s.threads[t].r[0] += 1;
                Some(0)
            }
            pc @ 20..=23 => self.grow(s, t, pc),
            pc => unreachable!("owner pc {pc}"),
        };
        let Some(pc) = next else {
            return Step::Blocked;
        };
        s.threads[t].pc = pc;
        Step::Done
    }

    /// `ito__fork_push`, then `ito__answer` if asked. The owner's next pc; none: it waits for the lock.
    fn push(&self, s: &mut State, t: usize, pc: u8) -> Option<u8> {
        let r = s.threads[t].r;
        Some(match pc {
            1 => {
                let array = s.load(t, ARRAY);
                s.store(t, slot(array, r[1]), r[2] + 1);
                2
            }
            2 => {
                if self.broken.no_release {
                    s.store(t, BOTTOM, r[1] + 1);
                } else {
                    s.release(t, BOTTOM, r[1] + 1);
                }
                s.threads[t].r[1] += 1;
                s.threads[t].r[2] += 1;
                3
            }
            3 => {
                if s.load(t, ASK) == 1 {
                    4
                } else {
                    19
                }
            }
            _ => {
                if !s.try_lock(t, LOCK) {
                    return None;
                }
                s.store(t, ASK, 0);
                let split = s.load(t, SPLIT);
                let split = split + (r[1] - split + 1) / 2;
                s.store(t, SPLIT, split);
                s.store(t, LIMIT, split);
                s.release(t, LOCK, 0);
                19
            }
        })
    }

    /// `deque_pop` (10 to 12) and `ito__deque_pop_slow` (13 to 16).
    fn pop(&self, s: &mut State, t: usize, pc: u8) -> Option<u8> {
        let b = self.broken;
        let r = s.threads[t].r;
        Some(match pc {
            10 if b.look_first => {
                s.threads[t].r[4] = s.load(t, LIMIT);
                11
            }
            10 => {
                s.store(t, BOTTOM, r[1] - 1);
                s.threads[t].r[1] -= 1;
                11
            }
            11 if b.look_first => {
                s.store(t, BOTTOM, r[1] - 1);
                s.threads[t].r[1] -= 1;
                if r[1] > r[4] { 12 } else { 13 }
            }
            11 => {
                if r[1] >= s.load(t, LIMIT) {
                    12
                } else {
                    13
                }
            }
            12 => {
                let array = s.load(t, ARRAY);
                let item = s.load(t, slot(array, r[1]));
                Self::take(s, item);
                19
            }
            13 => {
                if !b.no_lock && !s.try_lock(t, LOCK) {
                    return None;
                }
                14
            }
            14 => {
                let (top, split, mine) = (s.load(t, TOP), s.load(t, SPLIT), r[1]);
                if mine >= split {
                    15 // private after all
                } else if mine >= top {
                    let split = top + (mine - top) / 2;
                    s.store(t, SPLIT, split);
                    s.store(t, LIMIT, split);
                    15
                } else {
                    for at in [TOP, SPLIT, LIMIT, BOTTOM] {
                        s.store(t, at, 0);
                    }
                    s.threads[t].r[1] = 0;
                    16
                }
            }
            _ => {
                if !b.no_lock {
                    s.release(t, LOCK, 0);
                }
                if pc == 15 { 12 } else { 19 }
            }
        })
    }

    /// `ito__deque_grow`: copies slot by slot, then frees the old array.
    fn grow(&self, s: &mut State, t: usize, pc: u8) -> Option<u8> {
        let r = s.threads[t].r;
        Some(match pc {
            20 => {
                if !self.broken.grow_unlocked && !s.try_lock(t, LOCK) {
                    return None;
                }
                s.threads[t].r[5] = 0;
                21
            }
            21 => {
                let item = s.load(t, slot(0, r[5]));
                s.store(t, slot(1, r[5]), item);
                s.threads[t].r[5] += 1;
                if r[5] + 1 == CAPACITY { 22 } else { 21 }
            }
            22 => {
                s.store(t, ARRAY, 1);
                23
            }
            _ => {
                for i in 0..CAPACITY {
                    s.store(t, slot(0, i), FREED);
                }
                if !self.broken.grow_unlocked {
                    s.release(t, LOCK, 0);
                }
                1
            }
        })
    }

    /// Registers of a thief: 0 attempts made, 1 slot, 2 array.
    fn thief(&self, s: &mut State, t: usize) -> Step {
        let b = self.broken;
        let r = s.threads[t].r;
        let mut pc = s.threads[t].pc;
        match pc {
            0 => {
                if r[0] == self.attempts {
                    pc = DONE;
                } else if !self.force && s.load(t, TOP) >= s.load(t, SPLIT) {
                    s.store(t, ASK, 1);
                    s.threads[t].r[0] += 1;
                } else {
                    pc = if s.try_lock(t, LOCK) { 1 } else { 9 };
                }
            }
            1 => {
                let (top, split) = (s.load(t, TOP), s.load(t, SPLIT));
                s.threads[t].r[1] = top;
                pc = if top < split {
                    2
                } else if self.force && s.load(t, BOTTOM) > split {
                    s.threads[t].r[1] = split;
                    if b.limit_late { 5 } else { 4 }
                } else {
                    8
                };
            }
            2 => {
                let array = s.load(t, ARRAY);
                s.threads[t].r[2] = array;
                pc = 3;
            }
            3 => {
                let item = s.load(t, slot(r[2], r[1]));
                Self::take(s, item);
                s.store(t, TOP, r[1] + 1);
                if s.load(t, SPLIT) <= r[1] {
                    s.store(t, SPLIT, r[1] + 1);
                }
                pc = 8;
            }
            4 => {
                s.store(t, LIMIT, r[1] + 1);
                pc = if b.limit_late { 6 } else { 5 };
            }
            5 => {
                // membarrier: our own buffer and the owner's have been empty
                let passed = s.drained(t) && s.drained(0);
                if !b.no_membarrier && !passed {
                    return Step::Blocked;
                }
                pc = if b.limit_late { 4 } else { 6 };
            }
            6 => {
                pc = if s.load(t, BOTTOM) > r[1] { 2 } else { 7 };
            }
            7 => {
                if !b.limit_stays {
                    s.store(t, LIMIT, r[1]);
                }
                pc = 8;
            }
            8 => {
                s.release(t, LOCK, 0);
                pc = 9;
            }
            9 => {
                s.threads[t].r[0] += 1;
                pc = 0;
            }
            _ => unreachable!("thief pc {pc}"),
        }
        s.threads[t].pc = pc;
        Step::Done
    }

    fn n_items(&self) -> usize {
        self.ops.iter().filter(|&&op| op == Op::Push).count()
    }
}

impl Model for Deque {
    fn start(&self) -> State {
        State::new(1 + self.thieves, vec![0; SLOTS + 3 * CAPACITY as usize], self.n_items() + 1)
    }
    fn step(&self, s: &mut State, t: usize) -> Step {
        if t == 0 { self.owner(s, t) } else { self.thief(s, t) }
    }
    fn check(&self, s: &State) -> Option<&'static str> {
        let n = self.n_items();
        if s.books[n] != 0 {
            return Some("a slot was read that holds no item");
        }
        s.books[..n].iter().any(|&n| n > 1).then_some("an item was taken twice")
    }
    fn check_end(&self, s: &State) -> Option<&'static str> {
        if s.threads.iter().any(|t| t.pc != DONE) {
            return Some("a thread waits for ever");
        }
        let left = (s.memory[BOTTOM] - s.memory[TOP]).max(0) as usize;
        let n = self.n_items();
        let taken = s.books[..n].iter().filter(|&&n| n == 1).count();
        (taken + left != n).then_some("an item was lost")
    }
}
