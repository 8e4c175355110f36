//! The code that explains each instant of each CPU, for those who add it up themselves: a report adds up any part of a recording.
//!
//! Pieces are cut where the class or the code changes. Those of a CPU follow each other without a gap, so the pieces of a class add up to
//! the class's time in the account, and those of a path to what [`super::flame`] says of it.
use crate::account::Class;
use kasuri_model::{Duration, PathIx, Time};

/// What is known of where the thread was.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Whereabouts {
    /// The call path of the sample that stands for it.
    At(PathIx),
    /// No sample with a call path stands for it.
    Unsampled,
    /// There was no code to sample: no thread is known, or it waited for a CPU.
    WithoutCode,
}

/// A part of a CPU's time of one class and one code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Number of the CPU.
    pub cpu: u16,
    /// Begin and end.
    pub from: Time,
    /// See `from`.
    pub to: Time,
    /// The class that it is charged to.
    pub class: Class,
    /// What explains it best: the answer to the first question of its class (docs/design/call-paths.md).
    pub at: Whereabouts,
    /// Whether the path reaches its thread's outermost function.
    pub is_complete: bool,
}

/// Pieces while the account's sweep tells its stretches, CPUs in turn.
#[derive(Default)]
pub(super) struct Pieces {
    /// By CPU, in order of time.
    of_cpu: Vec<Vec<Piece>>,
    cpu: u16,
    class: Option<Class>,
    now: Time,
}

impl Pieces {
    /// What is added from now on is of this CPU and class, and begins at `from`.
    pub fn begin(&mut self, cpu: u16, class: Class, from: Time) {
        (self.cpu, self.class, self.now) = (cpu, Some(class), from);
        if self.of_cpu.len() <= cpu.into() {
            self.of_cpu.resize(usize::from(cpu) + 1, Vec::new());
        }
    }

    pub fn add(&mut self, length: Duration, at: Whereabouts, is_complete: bool) {
        let (cpu, from) = (self.cpu, self.now);
        let Some(class) = self.class.filter(|_| length.ns() > 0) else {
            return;
        };
        self.now = from + length;
        let pieces = &mut self.of_cpu[usize::from(cpu)];
        if let Some(last) = pieces.last_mut()
            && (last.to, last.class, last.at, last.is_complete) == (from, class, at, is_complete)
        {
            last.to = self.now;
            return;
        }
        pieces.push(Piece { cpu, from, to: self.now, class, at, is_complete });
    }

    /// All of them, CPU by CPU.
    pub fn into_all(self) -> Vec<Piece> {
        self.of_cpu.concat()
    }
}
