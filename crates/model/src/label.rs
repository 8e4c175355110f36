//! Names for things that the recording gives none; the same words in every output.
use crate::{SliceIx, SliceKind, StrIx, ThreadIx, ThreadState, Trace};
use std::borrow::Cow;

/// A kind's name, for rows and categories.
pub fn kind(kind: SliceKind) -> &'static str {
    match kind {
        SliceKind::Work => "work",
        SliceKind::Barrier => "barrier wait",
        SliceKind::Join => "join wait",
        SliceKind::Cond => "condition wait",
        SliceKind::Io => "I/O wait",
        SliceKind::OtherWait => "wait",
        SliceKind::LockWait => "lock wait",
        SliceKind::LockHold => "lock held",
        SliceKind::TaskRun => "task",
    }
}

/// Every kind, in the order of its number.
pub const KINDS: [SliceKind; 9] = [
    SliceKind::Work,
    SliceKind::Barrier,
    SliceKind::Join,
    SliceKind::Cond,
    SliceKind::Io,
    SliceKind::OtherWait,
    SliceKind::LockWait,
    SliceKind::LockHold,
    SliceKind::TaskRun,
];

/// A state's name, as the legend has it.
pub fn state(state: ThreadState) -> &'static str {
    match state {
        ThreadState::Unknown => "unknown",
        ThreadState::Running => "running",
        ThreadState::RunnableWoken => "runnable",
        ThreadState::RunnablePreempted => "preempted",
        ThreadState::Sleeping => "sleeping",
        ThreadState::DiskSleep => "disk sleep",
        ThreadState::Stopped => "stopped",
        ThreadState::Idle => "idle",
        ThreadState::Dead => "dead",
    }
}

/// A thread's name, or `thread TID`.
pub fn thread(trace: &Trace, ix: ThreadIx) -> Cow<'_, str> {
    let row = &trace.threads[ix.ix()];
    match trace.strings.get(row.name) {
        "" => Cow::Owned(format!("thread {}", row.tid)),
        name => Cow::Borrowed(name),
    }
}

/// A slice's name, or that of its kind.
pub fn slice(trace: &Trace, ix: SliceIx) -> &str {
    named(trace, trace.slices.name[ix.ix()], kind(trace.slices.kind[ix.ix()]))
}

/// The interned text, or `otherwise` when there is none.
pub fn named<'a>(trace: &'a Trace, name: StrIx, otherwise: &'static str) -> &'a str {
    match trace.strings.get(name) {
        "" => otherwise,
        text => text,
    }
}

/// The parts of a slice that the recording does not hold, from its [`crate::open`] bits; "" when it holds it all.
pub fn not_seen(open: u8) -> &'static str {
    use crate::open::{BEGIN_UNSEEN, END_UNSEEN};
    match open & (BEGIN_UNSEEN | END_UNSEEN) {
        0 => "",
        BEGIN_UNSEEN => "begin",
        END_UNSEEN => "end",
        _ => "begin and end",
    }
}
