//! The result of an export: how much was written, and what was left out.
//!
//! No format holds everything that a recording does. Each writer lists what a reader will miss, and `kasuri export`
//! prints the list, so that a missing arrow is not taken for an event that did not happen.

use kasuri_model::{ThreadIx, Trace};

/// The extent of an export, and the facts that its format has no room for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Exported {
    /// Records written: packets or JSON objects.
    pub records: u64,
    /// Facts that a reader of the export will not find in it, in plain words.
    pub left_out: Vec<String>,
}

/// In the notes of formats that hold states only: nothing that is read back can count switches then.
pub(crate) const NO_EVENTS: &str = "scheduler events (states are shown, as `kasuri` infers them)";
/// In the notes of formats that hold the scheduler's events.
pub(crate) const NO_TARGET: &str =
    "which processes are the recorded program (a reader takes all for it)";

/// The threads that formats hold which are about a program: its own. Where nobody says what the program is, all are.
pub(crate) fn of_program(trace: &Trace) -> Vec<ThreadIx> {
    let all = (0..trace.threads.len() as u32).map(ThreadIx);
    all.filter(|&ix| trace.is_target(ix)).collect()
}

/// What such formats leave out, where there are other threads.
pub(crate) fn threads_of_others(trace: &Trace) -> Option<String> {
    match trace.threads.len() - of_program(trace).len() {
        0 => None,
        1 => Some("1 thread of other programs".to_owned()),
        n => Some(format!("{n} threads of other programs")),
    }
}

/// A writer that knows how much went through it.
pub(crate) struct Counted<W> {
    pub out: W,
    pub records: u64,
}
