//! Call paths: the code that threads ran and waited in.
//!
//! A [`CodeFrames`] row is a function as the source has it: what was inlined has rows of its own, so a path has as many steps as the
//! source has calls. [`CallPaths`] is the tree of all stacks; [`Samples`] say which thread was at which path, and when.
//! Where the scheduler's events are known, samples carry no weight: `kasuri_analyze` divides exact times among them. Other tools' profiles have
//! no such events, and only what their samples weigh.
use crate::{Duration, StrIx, ThreadIx, Time, Trace};
use std::ops::Range;

/// The kind of code that a frame is in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
pub enum FrameKind {
    /// A function of a program or library.
    #[default]
    Native = 0,
    /// One that the compiler inlined into its caller.
    Inlined = 1,
    /// The kernel's.
    Kernel = 2,
    /// Made while the program ran: JIT compilers.
    Jit = 3,
    /// A function of an interpreted language.
    Interpreted = 4,
}

/// Functions, or places in code that no name is known for. Equal ones are one row.
#[derive(Clone, Debug, Default)]
pub struct CodeFrames {
    /// Its name, mangled where it came mangled; none: not known.
    pub function: Vec<StrIx>,
    /// Name of the program or library (its path); `[kernel]`, `[vdso]`; none: not known.
    pub module: Vec<StrIx>,
    /// Source file; none: not known.
    pub file: Vec<StrIx>,
    /// Line in it, of the place inside the function; 0: not known.
    pub line: Vec<u32>,
    /// Without a name: the address in the module's own numbering, or in memory without a module. Else 0.
    pub address: Vec<u64>,
    /// The kind.
    pub kind: Vec<FrameKind>,
}

/// The tree of stacks: a row is a frame and the path of its caller. Callers stand before what they call.
#[derive(Clone, Debug, Default)]
pub struct CallPaths {
    /// The path of the caller; none: outermost.
    pub caller: Vec<crate::PathIx>,
    /// The innermost frame of this path.
    pub frame: Vec<crate::FrameIx>,
}

/// The moment at which a sample was taken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
pub enum SampleKind {
    /// While the thread ran, by a clock.
    #[default]
    OnCpu = 0,
    /// When it left its CPU to wait.
    Blocked = 1,
    /// While it waited, read from outside.
    BlockedRead = 2,
    /// When it woke another thread.
    Waker = 3,
    /// When it began to wait for a lock.
    LockWait = 4,
}

impl SampleKind {
    /// Whether it shows the call that a thread waited in.
    pub const fn is_wait(self) -> bool {
        matches!(self, SampleKind::Blocked | SampleKind::BlockedRead | SampleKind::LockWait)
    }
}

/// Samples, sorted by (thread, time).
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// When.
    pub time: Vec<Time>,
    /// The thread.
    pub thread: Vec<ThreadIx>,
    /// Its CPU; u16::MAX: not known.
    pub cpu: Vec<u16>,
    /// The moment.
    pub kind: Vec<SampleKind>,
    /// Whether the path reaches the thread's outermost frame, and lacks none between.
    pub is_complete: Vec<bool>,
    /// Where it was; none: nothing is known.
    pub path: Vec<crate::PathIx>,
    /// CPU time that each stands for, as the file says. Empty: the scheduler's events say it, exactly.
    pub weight: Vec<Duration>,
}

/// A change of how call paths were sampled, or samples that were lost.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SamplingChange {
    /// When.
    pub time: Time,
    /// `cpu-clock`, of older recordings `tick` (on-CPU samples), `switch`, `read` (waits), `wake`, `lock`.
    pub source: String,
    /// Whether it samples from now on.
    pub on: bool,
    /// A CPU; none: all.
    pub cpu: Option<u16>,
    /// CPU time from one sample to the next as asked for, on average, ns; 0: each event is one.
    pub period_ns: u64,
    /// Samples lost since the row before of this source and CPU.
    pub lost: u64,
    /// The reason, in words.
    pub reason: String,
}

impl Trace {
    /// Whether the samples' own weights are all that is known of times: there are no scheduler's events.
    pub fn is_weighed(&self) -> bool {
        !self.samples.weight.is_empty()
    }

    /// The samples of a thread, as rows of [`Trace::samples`]: in order of time.
    pub fn samples_of(&self, thread: ThreadIx) -> Range<usize> {
        let threads = &self.samples.thread;
        threads.partition_point(|&t| t < thread)..threads.partition_point(|&t| t <= thread)
    }

    /// The frames of a path, innermost first.
    pub fn frames_of(&self, path: crate::PathIx) -> impl Iterator<Item = crate::FrameIx> + '_ {
        let mut next = path;
        std::iter::from_fn(move || {
            if !next.is_some() {
                return None;
            }
            let row = next.ix();
            next = self.paths.caller[row];
            Some(self.paths.frame[row])
        })
    }
}
