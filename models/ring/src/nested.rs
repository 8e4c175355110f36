//! A thread against its own signal handlers: an annotation may be interrupted between any two instructions by a handler
//! that annotates too, which may be interrupted in turn.
//!
//! The machine below is the emit path of kasuri.h, one step an instruction that touches the ring. The recorder is as
//! hostile as it may be: it drains and frees every FULL chunk at once. [`run`] follows one schedule, given as the
//! sequence of answers to "does a handler start here?"; [`search`] tries them all.

/// Slots of a model chunk.
pub const SLOTS: usize = 2;

/// Changes to the protocol, for the controls: with each, the model must fail.
#[derive(Clone, Copy, Default)]
pub struct Broken {
    /// `pos` and `end` as two words: an emit may compare its position with the end of another chunk.
    pub separate_end: bool,
    /// Chunks are handed over though an interrupted emit has a slot open in them.
    pub ignore_open: bool,
    /// Reserve by load and store instead of one instruction.
    pub split_reserve: bool,
    /// A position fits when its offset does, though it may lie in no chunk.
    pub offset_alone: bool,
}

/// Why a schedule is wrong.
#[derive(Debug, PartialEq, Eq)]
pub enum Wrong {
    /// A commit hit a slot outside its chunk, or a chunk no longer this thread's, or a slot that was taken.
    Corrupt,
    /// emitted != kept at the end.
    Books {
        /// Committed events.
        emitted: usize,
        /// Found by the recorder.
        kept: usize,
    },
}

struct Ring {
    broken: Broken,
    /// [chunk][slot]: committed.
    slots: Vec<[bool; SLOTS]>,
    /// Chunks not yet handed over, with the end of their events once known.
    held: Vec<(usize, Option<usize>)>,
    /// The thread's chunk; at first, and in a child of fork, none.
    now: Option<usize>,
    /// Position in `now`; chunk and offset are one word.
    pos: (Option<usize>, usize),
    /// End of the positions that fit: 0 as long as there is no chunk.
    limit: usize,
    kept: usize,
    emitted: usize,
    wrong: Option<Wrong>,
}

/// Answers "does a handler start here?" from a bit string, until it is used up.
struct Schedule<'a> {
    answers: &'a [bool],
    asked: usize,
    depth: usize,
}

impl Schedule<'_> {
    fn handler_here(&mut self) -> bool {
        if self.depth == 0 {
            return false;
        }
        let answer = self.answers.get(self.asked).copied().unwrap_or(false);
        self.asked += 1;
        answer
    }
}

impl Ring {
    fn new(broken: Broken) -> Ring {
        Ring {
            broken,
            slots: Vec::new(),
            held: Vec::new(),
            now: None,
            pos: (None, 0),
            limit: 0,
            kept: 0,
            emitted: 0,
            wrong: None,
        }
    }

    fn interrupt(&mut self, s: &mut Schedule, events: usize) {
        if s.handler_here() {
            s.depth -= 1;
            for _ in 0..events {
                self.emit(s, events);
            }
            s.depth += 1;
        }
    }

    fn reserve(&mut self, s: &mut Schedule, events: usize) -> (Option<usize>, usize) {
        let p = self.pos;
        if self.broken.split_reserve {
            self.interrupt(s, events);
            self.pos = (p.0, p.1 + 1);
        } else {
            self.pos.1 += 1;
        }
        p
    }

    /// One annotation; handlers that come emit `events` each.
    fn emit(&mut self, s: &mut Schedule, events: usize) {
        self.interrupt(s, events);
        let p = self.reserve(s, events);
        self.interrupt(s, events);
        // kasuri.h: whether it fits is in p itself, and in a limit that is the same for all chunks. Broken: p as an
        // address against the end of the chunk of now; or the limit, which a handler may just have set, without a look
        // at whether p lies in any chunk.
        let fits = if self.broken.separate_end {
            p.0.zip(self.now).is_some_and(|(chunk, now)| chunk * SLOTS + p.1 < (now + 1) * SLOTS)
        } else {
            p.1 < self.limit && (p.0.is_some() || self.broken.offset_alone)
        };
        let p = if fits { p } else { self.slow(p) };
        self.interrupt(s, events);
        match p.0 {
            Some(chunk) => self.commit((chunk, p.1)),
            None => self.wrong = Some(Wrong::Corrupt),
        }
    }

    fn commit(&mut self, (chunk, offset): (usize, usize)) {
        let mine = self.held.iter().any(|h| h.0 == chunk);
        match self.slots[chunk].get_mut(offset) {
            Some(slot) if mine && !*slot => *slot = true,
            _ => self.wrong = Some(Wrong::Corrupt),
        }
        self.emitted += 1;
    }

    /// Signals are blocked here: no interrupt.
    fn slow(&mut self, failed: (Option<usize>, usize)) -> (Option<usize>, usize) {
        if failed.1 <= SLOTS {
            // The first reservation to fail in its chunk knows where the events end.
            if let Some(h) = self.held.iter_mut().find(|h| Some(h.0) == failed.0) {
                h.1.get_or_insert(failed.1);
            }
        }
        if self.now.is_none() || self.pos.1 >= SLOTS {
            let new = self.slots.len();
            self.slots.push([false; SLOTS]);
            self.now = Some(new);
            self.pos = (self.now, 0);
            self.limit = SLOTS;
            self.held.push((new, None));
            self.hand_over();
        }
        let p = self.pos;
        self.pos.1 += 1;
        p
    }

    /// Everything but the present chunk that has no open slot; the recorder takes it at once.
    fn hand_over(&mut self) {
        let (now, ignore) = (self.now, self.broken.ignore_open);
        let slots = &self.slots;
        let ready = |h: &(usize, Option<usize>)| {
            Some(h.0) != now
                && h.1.is_some_and(|end| ignore || slots[h.0][..end.min(SLOTS)].iter().all(|c| *c))
        };
        let (go, stay) = self.held.iter().partition(|h| ready(h));
        self.held = stay;
        let go: Vec<(usize, Option<usize>)> = go;
        for (chunk, _) in go {
            self.kept += self.slots[chunk].iter().filter(|c| **c).count();
        }
    }

    /// The end of the recording: what is still held is scanned.
    fn finish(mut self) -> Result<(), Wrong> {
        for &(chunk, _) in &self.held {
            self.kept += self.slots[chunk].iter().filter(|c| **c).count();
        }
        match self.wrong.take() {
            Some(wrong) => Err(wrong),
            None if self.kept != self.emitted => {
                Err(Wrong::Books { emitted: self.emitted, kept: self.kept })
            }
            None => Ok(()),
        }
    }
}

/// Follow one schedule. Returns the verdict and how many questions were asked.
fn run(
    broken: Broken,
    answers: &[bool],
    depth: usize,
    events: usize,
) -> (Result<(), Wrong>, usize) {
    let mut ring = Ring::new(broken);
    let mut schedule = Schedule { answers, asked: 0, depth };
    for _ in 0..3 {
        ring.emit(&mut schedule, events);
    }
    let asked = schedule.asked;
    (ring.finish(), asked)
}

/// Every schedule with at most `handlers` handlers, nested at most `depth` deep, of `events` annotations each.
/// Returns how many schedules there were.
///
/// # Errors
/// The first wrong one: its answers and what went wrong.
pub fn search(
    broken: Broken,
    handlers: usize,
    depth: usize,
    events: usize,
) -> Result<usize, (Vec<bool>, Wrong)> {
    let mut todo = vec![Vec::new()];
    let mut n = 0;
    while let Some(answers) = todo.pop() {
        let (verdict, asked) = run(broken, &answers, depth, events);
        n += 1;
        if let Err(wrong) = verdict {
            return Err((answers, wrong));
        }
        if answers.iter().filter(|a| **a).count() < handlers {
            // Extend by one more handler, at each later question.
            for at in answers.len()..asked {
                let mut longer = answers.clone();
                longer.resize(at, false);
                longer.push(true);
                todo.push(longer);
            }
        }
    }
    Ok(n)
}
