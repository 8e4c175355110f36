//! Parking, `threads/src/core/park.c`. A busy worker makes work once, answers if it was asked, and never looks again (a long task).
//! Other workers search, find nothing, and park. Property: when no thread can move any more, the work is done.
//!
//! The danger is a lost wake-up: the worker makes work just before the parker is in the list, and the parker looks just before
//! the work is there. So a parker enters the list, asks, runs a membarrier and looks once more, by force also at private work;
//! the worker publishes, fences and looks at the list. Whichever is second sees the other. Only the parker that brings the count
//! of searchers to 0 does so; another sleeps at once, as that one, or a searcher that finds something, cares for it.
//! Each field of [`Broken`] leaves out one of these steps.

use kasuri_model_deque::machine::{DONE, Model, State, Step};

/// Private work of the busy worker; a parker may take it by force.
const WORK: usize = 0;
const PUBLIC: usize = 1;
const ASK: usize = 2;
const SEARCHING: usize = 3;
const INBOX: usize = 4; // of the first parker: a thread that only it may run
const PARKED: usize = 5; // and one more for each parker: parked flag
const FOUND: usize = 0; // books

/// Changes to the protocol, for the controls.
#[derive(Clone, Copy, Default)]
pub struct Broken {
    /// No membarrier between asking and the last look.
    pub no_membarrier: bool,
    /// The parker asks before it is in the list.
    pub ask_first: bool,
    /// No fence between publishing and looking for parked workers.
    pub no_fence_in_notify: bool,
    /// No last look.
    pub no_last_look: bool,
    /// A searcher that finds work sends no successor. (Two parkers, two pieces of work.)
    pub no_successor: bool,
    /// A parker leaves the count before it is in the list. (Two parkers, two pieces.)
    pub count_before_list: bool,
    /// No parker is the last.
    pub no_last_searcher: bool,
    /// A worker that was woken and finds something in its inbox leaves the count without a successor.
    pub woken_leaves_silently: bool,
}

/// Thread 0 is busy, the others park.
pub struct Park {
    /// Number of parkers.
    pub parkers: usize,
    /// Pieces of work made at once: the successor rule matters with two.
    pub pieces: i8,
    /// The busy worker sends the first parker a thread before it makes work.
    pub sends: bool,
    /// The change under test.
    pub broken: Broken,
}

impl Park {
    /// Wakes one parked worker if no worker searches: one step, under park_lock.
    fn notify(&self, s: &mut State) {
        if s.memory[SEARCHING] > 0 {
            return;
        }
        if let Some(i) = (1..=self.parkers).find(|i| s.memory[PARKED + i] == 1) {
            self.unpark(s, i);
        }
    }

    /// Takes a parker off the list, and counts it as searching on its behalf.
    fn unpark(&self, s: &mut State, i: usize) {
        if s.memory[PARKED + i] == 1 {
            s.memory[PARKED + i] = 0;
            s.memory[PARKED] -= 1;
            s.memory[SEARCHING] += 1;
        }
    }

    fn busy(&self, s: &mut State, t: usize) -> Step {
        let mut pc = s.threads[t].pc;
        match pc {
            0 if self.sends && s.threads[t].r[0] == 0 => {
                s.threads[t].r[0] = 1;
                s.memory[INBOX] = 1; // under the inbox's lock, and the fence of ito__wake_worker
                if !s.drained(t) {
                    return Step::Blocked;
                }
                pc = 6;
            }
            6 => {
                self.unpark(s, 1);
                pc = 0;
            }
            0 => {
                s.store(t, WORK, self.pieces);
                pc = 1;
            }
            1 => pc = if s.load(t, ASK) == 1 { 2 } else { DONE },
            2 => {
                s.memory[ASK] = 0; // read-modify-write
                pc = 3;
            }
            3 => {
                // publish, under the deque's lock
                if !s.settled(t, WORK) {
                    return Step::Blocked;
                }
                if s.memory[WORK] > 0 {
                    s.store(t, PUBLIC, s.memory[WORK]);
                    s.memory[WORK] = 0;
                }
                pc = 4;
            }
            4 => {
                if !self.broken.no_fence_in_notify && !s.drained(t) {
                    return Step::Blocked;
                }
                pc = 5;
            }
            5 => {
                self.notify(s);
                pc = DONE;
            }
            _ => unreachable!("busy pc {pc}"),
        }
        s.threads[t].pc = pc;
        Step::Done
    }

    fn parker(&self, s: &mut State, t: usize) -> Step {
        let pc = s.threads[t].pc;
        let next = match pc {
            1..=8 | 10..=12 => self.park(s, t, pc),
            _ => Some(self.search(s, t, pc)),
        };
        let Some(pc) = next else {
            return Step::Blocked;
        };
        s.threads[t].pc = pc;
        Step::Done
    }

    /// `search`: what is public, and after the last look (9) by force also what is private.
    fn search(&self, s: &mut State, t: usize, pc: u8) -> u8 {
        match pc {
            // its own inbox first, then a long task
            0 if t == 1 && s.memory[INBOX] == 1 => {
                s.memory[INBOX] = 0;
                s.memory[SEARCHING] -= 1;
                if !self.broken.woken_leaves_silently && s.memory[SEARCHING] == 0 {
                    self.notify(s);
                }
                DONE
            }
            0 => {
                if s.memory[PUBLIC] > 0 {
                    20
                } else {
                    1
                }
            }
            9 => {
                if s.memory[WORK] > 0 {
                    s.memory[WORK] -= 1;
                    21
                } else {
                    0
                }
            }
            20 => {
                if s.memory[PUBLIC] > 0 {
                    s.memory[PUBLIC] -= 1;
                    21
                } else {
                    0
                }
            }
            // has work: the last searcher sends a successor, then a long task
            21 => {
                s.books[FOUND] += 1;
                s.memory[SEARCHING] -= 1;
                if !self.broken.no_successor && s.memory[SEARCHING] == 0 {
                    self.notify(s);
                }
                DONE
            }
            _ => unreachable!("parker pc {pc}"),
        }
    }

    /// `ito__park`. The next pc; none: it waits, for the membarrier (6) or asleep (10).
    fn park(&self, s: &mut State, t: usize, pc: u8) -> Option<u8> {
        let b = self.broken;
        Some(match pc {
            1 if b.ask_first => 4,
            1 if b.count_before_list => 3,
            1 => 2,
            2 => {
                s.memory[PARKED + t] = 1;
                s.memory[PARKED] += 1;
                match (b.count_before_list, s.threads[t].r[0] == 1) {
                    (false, _) => 3,
                    (true, true) => 4,
                    (true, false) => 11,
                }
            }
            // r[0]: it was the last to search
            3 => {
                s.memory[SEARCHING] -= 1;
                let last = s.memory[SEARCHING] == 0 && !b.no_last_searcher;
                s.threads[t].r[0] = last.into();
                match (b.count_before_list, last, b.ask_first) {
                    (true, _, _) => 2,
                    (_, true, true) => 6,
                    (_, true, false) => 4,
                    (_, false, _) => 11,
                }
            }
            4 => {
                s.memory[ASK] = 1;
                if b.ask_first { 2 } else { 6 }
            }
            6 => {
                if !b.no_membarrier && !(0..s.threads.len()).all(|i| s.drained(i)) {
                    return None;
                }
                7
            }
            7 if !b.no_last_look && (s.memory[WORK] > 0 || s.memory[PUBLIC] > 0) => 8,
            7 => 11,
            // found at the last look: off the list (unless another took it off and counted it), search again
            8 | 12 => {
                self.unpark(s, t);
                if pc == 8 { 9 } else { 0 }
            }
            // the look into the inbox
            11 if t == 1 && s.memory[INBOX] == 1 => 12,
            11 => 10,
            _ => {
                if s.memory[PARKED + t] == 1 {
                    return None;
                }
                0
            }
        })
    }
}

impl Model for Park {
    fn start(&self) -> State {
        let mut s = State::new(1 + self.parkers, vec![0; PARKED + 1 + self.parkers], 1);
        s.memory[SEARCHING] = self.parkers as i8;
        s
    }
    fn step(&self, s: &mut State, t: usize) -> Step {
        if t == 0 { self.busy(s, t) } else { self.parker(s, t) }
    }
    fn check(&self, s: &State) -> Option<&'static str> {
        (s.memory[SEARCHING] < 0).then_some("more searchers ended than began")
    }
    fn check_end(&self, s: &State) -> Option<&'static str> {
        let free = self.parkers as i8 - i8::from(self.sends); // the first may be at what it was sent
        let want = self.pieces.min(free);
        (s.books[FOUND] < want).then_some("work waits while a worker sleeps")
    }
}
