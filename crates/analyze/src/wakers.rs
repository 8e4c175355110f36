//! What ended a wait.
use kasuri_model::{ThreadIx, ThreadState, Time, Trace};

/// The waker that brought the thread into the state of this row of [`Trace::states`], which follows a wait; none: an interrupt,
/// or it is not known.
pub(crate) fn waker(trace: &Trace, thread: ThreadIx, row: usize) -> ThreadIx {
    let states = &trace.states;
    match states.state[row] {
        ThreadState::RunnableWoken => states.by[row],
        _ => woken_at(trace, thread, states.start[row]),
    }
}

/// A thread that ran the instant it was woken has no state that names its waker.
#[cold]
fn woken_at(trace: &Trace, thread: ThreadIx, time: Time) -> ThreadIx {
    let wakes = &trace.wakeups;
    let first = wakes.time.partition_point(|&t| t < time);
    let same = (first..wakes.time.len()).take_while(|&at| wakes.time[at] == time);
    let mut own = same.filter(|&at| wakes.wakee[at] == thread);
    own.next().map_or(ThreadIx::NONE, |at| wakes.waker[at])
}
