//! Threads with store buffers, and every schedule of them.
//!
//! A store waits in its thread's buffer. A relaxed one may reach memory before older ones to other addresses; a release one
//! only after all older ones. Loads look into the own buffer, then memory, in program order: reordered loads are not
//! modelled (the acquire orders in the code are for them). Read-modify-writes act on memory at once and do not wait for the
//! buffer, unless it holds a store to the same address: weaker than x86, where they empty it.
//! A membarrier is, for one other thread after another, a moment at which that thread's buffer is empty.
//!
//! A model implements [`Model`]: a first state, one step of a thread, a check of every state and of those in which no thread can
//! move. [`search`] visits every state once, depth first: from each, every thread may take its next step, and every buffer may
//! write any store that may go next. Time and memory grow with the number of states, which is why
//! arrays have two slots and scripts a handful of operations.

use std::collections::HashSet;

/// A pending store.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Pending {
    at: usize,
    value: i8,
    release: bool,
}

/// One thread's registers.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Thread {
    /// Program counter, in the program's own numbering. `DONE` when over.
    pub pc: u8,
    /// Locals, for the program's use.
    pub r: [i8; 8],
    buffer: Vec<Pending>,
}

/// A thread at `DONE` takes no more steps.
pub const DONE: u8 = 255;

/// Everything there is, at one moment.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct State {
    /// Memory, as far as stores have reached it.
    pub memory: Vec<i8>,
    /// All threads.
    pub threads: Vec<Thread>,
    /// Books of the property, outside the modelled memory.
    pub books: Vec<i8>,
}

impl State {
    /// `n` threads at pc 0, memory as given.
    pub fn new(n: usize, memory: Vec<i8>, books: usize) -> State {
        State { memory, threads: vec![Thread::default(); n], books: vec![0; books] }
    }
    /// Load by thread `t`.
    pub fn load(&self, t: usize, at: usize) -> i8 {
        let pending = self.threads[t].buffer.iter().rev().find(|p| p.at == at);
        pending.map_or(self.memory[at], |p| p.value)
    }
    /// Relaxed store by thread `t`.
    pub fn store(&mut self, t: usize, at: usize, value: i8) {
        self.push(t, at, value, false);
    }
    /// Release store by thread `t`.
    pub fn release(&mut self, t: usize, at: usize, value: i8) {
        self.push(t, at, value, true);
    }
    fn push(&mut self, t: usize, at: usize, value: i8, release: bool) {
        self.threads[t].buffer.push(Pending { at, value, release });
    }
    /// Has thread `t` no store pending? A fence is a step that waits for this.
    pub fn drained(&self, t: usize) -> bool {
        self.threads[t].buffer.is_empty()
    }
    /// May thread `t` read-modify-write `at` now?
    pub fn settled(&self, t: usize, at: usize) -> bool {
        self.threads[t].buffer.iter().all(|p| p.at != at)
    }
    /// Take the lock at `at` if it is free.
    pub fn try_lock(&mut self, t: usize, at: usize) -> bool {
        let free = self.settled(t, at) && self.memory[at] == 0;
        if free {
            self.memory[at] = 1;
        }
        free
    }
    fn can_flush(&self, t: usize, i: usize) -> bool {
        let buffer = &self.threads[t].buffer;
        let older = &buffer[..i];
        if buffer[i].release {
            older.is_empty()
        } else {
            older.iter().all(|p| p.at != buffer[i].at)
        }
    }
}

/// The outcome of asking a program for its next step.
#[derive(PartialEq, Eq)]
pub enum Step {
    /// One step; the state is changed.
    Done,
    /// It waits for others; the state must be as before.
    Blocked,
}

/// A set of programs and what must hold.
pub trait Model {
    /// The first state.
    fn start(&self) -> State;
    /// One step of thread `t`.
    fn step(&self, s: &mut State, t: usize) -> Step;
    /// Is something wrong already?
    fn check(&self, s: &State) -> Option<&'static str>;
    /// Is something wrong where nothing moves any more?
    fn check_end(&self, s: &State) -> Option<&'static str>;
}

/// Follows every schedule. Returns the number of states, or the first violation found.
pub fn search(model: &impl Model) -> Result<usize, &'static str> {
    let mut seen = HashSet::new();
    let mut todo = vec![model.start()];
    seen.insert(todo[0].clone());
    while let Some(state) = todo.pop() {
        if let Some(wrong) = model.check(&state) {
            return Err(wrong);
        }
        let mut moved = false;
        let mut visit = |next: State| {
            moved = true;
            if seen.insert(next.clone()) {
                todo.push(next);
            }
        };
        for t in 0..state.threads.len() {
            if state.threads[t].pc != DONE {
                let mut next = state.clone();
                if model.step(&mut next, t) == Step::Done {
                    visit(next);
                }
            }
            for i in 0..state.threads[t].buffer.len() {
                if state.can_flush(t, i) {
                    let mut next = state.clone();
                    let p = next.threads[t].buffer.remove(i);
                    next.memory[p.at] = p.value;
                    visit(next);
                }
            }
        }
        if !moved && let Some(wrong) = model.check_end(&state) {
            return Err(wrong);
        }
    }
    Ok(seen.len())
}
