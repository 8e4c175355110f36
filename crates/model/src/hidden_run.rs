//! Runs on a CPU that a hidden switch began, until the kernel's count of run time places them (`sched/run_time.rs`).
//!
//! A hidden switch is one that the kernel made and did not report: a later event on the CPU names a thread that was never
//! switched in. [`HiddenRun`] keeps the states of the thread and of the CPU as they were before, so that the beginning of the
//! run can be moved to a later time when a sched_stat_runtime event says how long the run has taken.
use crate::Time;
use crate::state_log::LoggedState;

/// A run whose beginning no event tells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HiddenRun {
    /// The thread's state until then.
    pub thread_before: LoggedState,
    /// The CPU's occupant until then, as `CpuLog::thread` has it.
    pub cpu_before: u32,
    /// The run did not begin earlier.
    pub earliest: Time,
    /// The wake-up that led to it; [`crate::state_log::NONE`]: not known.
    pub wakeup: u32,
    /// Its beginning is told by the run time.
    pub is_placed: bool,
}

/// Whether there are run times, and all of them.
#[derive(Debug, Default)]
pub(crate) struct RunTimes {
    /// There are some.
    pub are_recorded: bool,
    /// Some may be lost.
    pub are_cut: bool,
}
