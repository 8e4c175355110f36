//! A forked task whose parent moves: the sync compares the slot that the task's state names with the bottom of the deque
//! of the worker it is on. Property: the task runs once, and its parent goes on after that, with its result.
//!
//! Worker A forks the task and takes it back at once, or suspends the parent and does other things first; B steals by
//! force, or resumes the parent. Addresses are numbers: a slot's, so that an array that was freed and is used again can
//! be told from the new one.
//!
//! The task's state is the address of its slot while it is in the deque, then SHARED (taken), WAITER (the parent sleeps
//! until it ends), ENDED. The parent may sync on another worker than the one that forked, so "is the task still mine" is
//! answered by comparing addresses, and a stale address must never compare equal.

use crate::machine::{DONE, Model, State, Step};

const BOTTOM: usize = 0;
const LIMIT: usize = 1;
const TOP: usize = 2;
const SPLIT: usize = 3;
const LOCK: usize = 4;
/// Content of the only slot of A's deque: nothing, the task, something else.
const SLOT: usize = 5;
const STATE: usize = 6;
const RESULT: usize = 7;
/// Place of the parent: on A, suspended, on B.
const PARENT: usize = 8;
/// The first array was freed.
const FREED: usize = 9;
/// The parent, asleep, was made ready.
const WOKEN: usize = 10;
const CELLS: usize = 11;

const TASK: i8 = 1;
const OTHER: i8 = 2;
const SUSPENDED: i8 = 1;
const ON_B: i8 = 2;
const BACK_ON_A: i8 = 3;

const SHARED: i8 = 1;
const WAITER: i8 = 2;
const ENDED: i8 = 3;
/// Addresses of slots.
const FIRST_ARRAY: i8 = 10;
const SECOND_ARRAY: i8 = 20;
const ELSEWHERE: i8 = 30;

/// A's actions between the fork and the sync.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Between {
    /// Nothing: the parent goes on.
    Nothing,
    /// Suspends the parent, takes the task, pushes something else where it was, resumes the parent if B has not.
    Others,
    /// Suspends the parent; the array grows and B's deque gets the old one.
    Growth,
}

/// Changes to the protocol, for the controls: with each, the model must fail.
#[derive(Clone, Copy, Default)]
pub struct Broken {
    /// The thread that takes the task leaves its state alone.
    pub not_marked: bool,
    /// The growing array leaves the state alone.
    pub not_moved: bool,
    /// The end stores the state before the result may be seen.
    pub end_relaxed: bool,
    /// The thread that takes it overwrites the parent that waits already.
    pub mark_overwrites: bool,
    /// A forced steal runs no membarrier.
    pub no_membarrier: bool,
}

/// A is thread 0, B thread 1.
pub struct Fork {
    /// A's program.
    pub between: Between,
    /// B resumes the parent, if it is suspended; else it steals.
    pub b_resumes: bool,
    /// The change under test.
    pub broken: Broken,
}

/// Books: runs of the task; runs of the other thing; syncs that are over; wrongs.
const RUNS: usize = 0;
const OTHERS: usize = 1;
const SYNCED: usize = 2;
const WRONG: usize = 3;

/// Registers: 0 the state as it was read, 1 what was popped, 2 the slot in hand, 3 the bottom of B's deque.
impl Fork {
    fn other(s: &mut State, what: i8) {
        match what {
            TASK => s.books[RUNS] += 1,
            OTHER => s.books[OTHERS] += 1,
            _ => s.books[WRONG] += 1,
        }
    }

    /// Read-modify-writes of the state are acquire and release: nothing of ours may still wait.
    fn settled(&self, s: &State, t: usize) -> bool {
        s.drained(t)
    }

    fn mark(&self, s: &mut State) {
        let state = s.memory[STATE];
        if !self.broken.not_marked && (state >= FIRST_ARRAY || self.broken.mark_overwrites) {
            s.memory[STATE] = SHARED;
        }
    }

    /// Run the task as a thread: pcs 100..=102, then `then`.
    fn run(&self, s: &mut State, t: usize, pc: u8, then: u8) -> Option<u8> {
        match pc {
            100 => {
                Self::other(s, TASK);
                s.store(t, RESULT, 1);
                Some(101)
            }
            101 => {
                if !self.broken.end_relaxed && !self.settled(s, t) {
                    return None;
                }
                match s.memory[STATE] {
                    WAITER => s.memory[WOKEN] = 1,
                    SHARED => {}
                    _ => s.books[WRONG] += 1, // it takes a slot's address for a thread that waits
                }
                s.memory[STATE] = ENDED;
                Some(then)
            }
            _ => unreachable!("run pc {pc}"),
        }
    }

    /// The sync, on either worker: pcs 60..=70, then `then`.
    fn sync(&self, s: &mut State, t: usize, pc: u8, then: u8) -> Option<u8> {
        let r = s.threads[t].r;
        let on_a = t == 0;
        Some(match pc {
            60 => {
                s.threads[t].r[0] = s.load(t, STATE);
                61
            }
            61 => {
                let bottom = if on_a { s.load(t, BOTTOM) } else { r[3] };
                if r[0] + 1 == bottom { 62 } else { 66 }
            }
            // B has popped a slot of its own: whatever is there is not the task
            62 if !on_a => {
                Self::other(s, TASK);
                68
            }
            62 => {
                s.store(t, BOTTOM, r[0]);
                63
            }
            63 => {
                if r[0] >= s.load(t, LIMIT) {
                    s.threads[t].r[1] = s.load(t, SLOT);
                    64
                } else {
                    65
                }
            }
            // a plain call
            64 => {
                Self::other(s, TASK);
                if r[1] != TASK {
                    s.books[WRONG] += 1;
                }
                68
            }
            // the slow pop, with the lock: here it is still there, or it is gone
            65 => {
                if !s.try_lock(t, LOCK) {
                    return None;
                }
                let there = s.load(t, SPLIT) <= r[0];
                s.release(t, LOCK, 0);
                s.threads[t].r[1] = TASK;
                if there { 64 } else { 67 }
            }
            66 => {
                // not at the bottom here
                67
            }
            67 => {
                if !self.settled(s, t) {
                    return None;
                }
                if s.memory[STATE] == ENDED {
                    69
                } else {
                    s.memory[STATE] = WAITER;
                    70
                }
            }
            70 => {
                if s.memory[WOKEN] == 0 {
                    return None;
                }
                69
            }
            69 => {
                if s.load(t, RESULT) != 1 {
                    s.books[WRONG] += 1;
                }
                68
            }
            68 => {
                s.books[SYNCED] += 1;
                then
            }
            _ => unreachable!("sync pc {pc}"),
        })
    }

    /// A's array grows, under the lock: `move_fork` in `threads/src/core/deque.c`.
    fn grow(&self, s: &mut State, t: usize, pc: u8) -> Option<u8> {
        Some(match pc {
            4 => {
                if !s.try_lock(t, LOCK) {
                    return None;
                }
                5
            }
            5 => {
                if !self.settled(s, t) {
                    return None;
                }
                if s.load(t, BOTTOM) > s.load(t, TOP) && s.load(t, TOP) == FIRST_ARRAY {
                    if s.memory[STATE] == FIRST_ARRAY && !self.broken.not_moved {
                        s.memory[STATE] = SECOND_ARRAY;
                    }
                    for at in [TOP, SPLIT, LIMIT] {
                        s.store(t, at, SECOND_ARRAY);
                    }
                    s.store(t, BOTTOM, SECOND_ARRAY + 1);
                    s.threads[t].r[2] = SECOND_ARRAY;
                    s.release(t, FREED, 1);
                }
                s.release(t, LOCK, 0);
                6
            }
            _ => unreachable!("grow pc {pc}"),
        })
    }

    /// A has nothing else to run: it pops the task, while its parent is suspended.
    fn pop(&self, s: &mut State, t: usize, pc: u8) -> Option<u8> {
        let r = s.threads[t].r;
        Some(match pc {
            6 => {
                if s.load(t, TOP) > r[2] {
                    12 // stolen, and seen
                } else {
                    s.store(t, BOTTOM, r[2]);
                    7
                }
            }
            7 => {
                if r[2] >= s.load(t, LIMIT) {
                    10
                } else {
                    8
                }
            }
            8 => {
                if !s.try_lock(t, LOCK) {
                    return None;
                }
                let there = s.load(t, SPLIT) <= r[2];
                s.release(t, LOCK, 0);
                if there { 10 } else { 12 }
            }
            10 => {
                if !self.settled(s, t) {
                    return None;
                }
                self.mark(s);
                100
            }
            _ => unreachable!("pop pc {pc}"),
        })
    }

    /// A's program, then its sync.
    fn a(&self, s: &mut State, t: usize) -> Step {
        let r = s.threads[t].r;
        let pc = s.threads[t].pc;
        let next = match pc {
            0 => {
                s.store(t, STATE, FIRST_ARRAY);
                1
            }
            1 => {
                s.store(t, SLOT, TASK);
                2
            }
            2 => {
                s.release(t, BOTTOM, FIRST_ARRAY + 1);
                match self.between {
                    Between::Nothing => 60,
                    _ => 3,
                }
            }
            3 => {
                s.release(t, PARENT, SUSPENDED);
                s.threads[t].r[2] = FIRST_ARRAY;
                if self.between == Between::Growth { 4 } else { 6 }
            }
            4..=5 => match self.grow(s, t, pc) {
                Some(next) => next,
                None => return Step::Blocked,
            },
            6..=10 => match self.pop(s, t, pc) {
                Some(next) => next,
                None => return Step::Blocked,
            },
            100..=101 => match self.run(s, t, pc, 12) {
                Some(next) => next,
                None => return Step::Blocked,
            },
            // something else comes to where the task was; all was stolen or popped, so the slots begin anew
            12 => {
                if !s.try_lock(t, LOCK) {
                    return Step::Blocked;
                }
                for at in [TOP, SPLIT, LIMIT] {
                    s.store(t, at, r[2]);
                }
                s.release(t, LOCK, 0);
                s.store(t, SLOT, OTHER);
                13
            }
            13 => {
                s.release(t, BOTTOM, r[2] + 1);
                14
            }
            14 => {
                if !self.settled(s, t) {
                    return Step::Blocked;
                }
                if self.b_resumes || s.memory[PARENT] != SUSPENDED {
                    DONE
                } else {
                    s.memory[PARENT] = BACK_ON_A;
                    60
                }
            }
            60..=70 => match self.sync(s, t, pc, DONE) {
                Some(next) => next,
                None => return Step::Blocked,
            },
            _ => unreachable!("a pc {pc}"),
        };
        s.threads[t].pc = next;
        Step::Done
    }

    fn b(&self, s: &mut State, t: usize) -> Step {
        let r = s.threads[t].r;
        let pc = s.threads[t].pc;
        let next = match pc {
            0 => {
                if self.b_resumes {
                    if s.memory[PARENT] != SUSPENDED {
                        return Step::Blocked;
                    }
                    s.memory[PARENT] = ON_B;
                    // its own deque may have got A's old array by now
                    let freed = s.load(t, FREED) == 1;
                    s.threads[t].r[3] = 1 + if freed { FIRST_ARRAY } else { ELSEWHERE };
                    60
                } else {
                    1
                }
            }
            60..=70 => match self.sync(s, t, pc, DONE) {
                Some(next) => next,
                None => return Step::Blocked,
            },
            // one forced steal
            1 => {
                if s.try_lock(t, LOCK) {
                    2
                } else {
                    DONE
                }
            }
            2 => {
                s.threads[t].r[2] = s.load(t, SPLIT);
                if s.load(t, BOTTOM) > s.load(t, SPLIT) { 3 } else { 7 }
            }
            3 => {
                s.store(t, LIMIT, r[2] + 1);
                4
            }
            4 => {
                let passed = s.drained(t) && s.drained(0);
                if !self.broken.no_membarrier && !passed {
                    return Step::Blocked;
                }
                if s.load(t, BOTTOM) > r[2] { 5 } else { 6 }
            }
            5 => {
                if !self.settled(s, t) && !self.broken.no_membarrier {
                    return Step::Blocked;
                }
                let what = s.load(t, SLOT);
                if what == TASK {
                    self.mark(s);
                } else {
                    Self::other(s, what);
                }
                s.store(t, TOP, r[2] + 1);
                s.store(t, SPLIT, r[2] + 1);
                s.release(t, LOCK, 0);
                if what == TASK { 100 } else { DONE }
            }
            6 => {
                s.store(t, LIMIT, r[2]);
                7
            }
            7 => {
                s.release(t, LOCK, 0);
                DONE
            }
            100..=101 => match self.run(s, t, pc, DONE) {
                Some(next) => next,
                None => return Step::Blocked,
            },
            _ => unreachable!("b pc {pc}"),
        };
        s.threads[t].pc = next;
        Step::Done
    }
}

impl Model for Fork {
    fn start(&self) -> State {
        let mut memory = vec![0; CELLS];
        for at in [BOTTOM, LIMIT, TOP, SPLIT] {
            memory[at] = FIRST_ARRAY;
        }
        State::new(2, memory, 4)
    }
    fn step(&self, s: &mut State, t: usize) -> Step {
        if t == 0 { self.a(s, t) } else { self.b(s, t) }
    }
    fn check(&self, s: &State) -> Option<&'static str> {
        if s.books[RUNS] > 1 {
            return Some("the task ran twice");
        }
        (s.books[WRONG] != 0)
            .then_some("something else was taken for the task, or its result was missing")
    }
    fn check_end(&self, s: &State) -> Option<&'static str> {
        if s.threads.iter().any(|t| t.pc != DONE) {
            return Some("a thread waits for ever");
        }
        (s.books[RUNS] != 1 || s.books[SYNCED] != 1).then_some("the task or its parent was lost")
    }
}
