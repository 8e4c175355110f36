//! Events of the kernel's scheduler: states and wake-ups.
use super::{cpu, id};
use crate::batch::Text;
use crate::schema::{Out, table};
use crate::{Result, Source};
use kasuri_model::{ThreadIx, ThreadState};

fn state(state: ThreadState) -> &'static str {
    match state {
        ThreadState::Unknown => "unknown",
        ThreadState::Running => "running",
        ThreadState::RunnableWoken => "woken",
        ThreadState::RunnablePreempted => "preempted",
        ThreadState::Sleeping => "sleeping",
        ThreadState::DiskSleep => "disk_sleep",
        ThreadState::Stopped => "stopped",
        ThreadState::Idle => "idle",
        ThreadState::Dead => "dead",
    }
}

table! {
    /// States of threads, without gaps, by thread and time.
    pub(crate) static THREAD_STATE = "thread_state", StateRow from states;
    /// Id, unique in the run.
    state_id: i64, "id";
    /// The thread.
    thread_id: i64, "id";
    /// Process id.
    pid: i32;
    /// Thread id.
    tid: i32;
    /// `running`, `woken` (ready, waits for a CPU), `preempted` (ready, taken off its CPU), `sleeping`, `disk_sleep`, `stopped`, `idle`, `dead` or `unknown`.
    state: Text;
    /// From...
    start_ns: i64, "ns";
    /// ...to.
    end_ns: i64, "ns";
    /// `end_ns - start_ns`.
    dur_ns: i64, "ns";
    /// `running`: the CPU. `woken`, `preempted`: the CPU whose queue it is in. Else where it last ran.
    cpu: Option<i32>;
    /// `woken`: the waker. `preempted`: the thread that took the CPU. Missing: an interrupt, or not known.
    by_thread_id: Option<i64>, "id";
}

fn states(source: &Source<'_>, out: &mut Out<'_>) -> Result<()> {
    let trace = source.trace();
    for (ix, thread) in trace.threads.iter().enumerate() {
        let ix = ThreadIx(ix as u32);
        let (pid, tid) = source.pid_tid(ix);
        for (at, row) in trace.states_of(ix).enumerate() {
            out.push(StateRow {
                state_id: i64::from(thread.states.start) + at as i64,
                thread_id: ix.0.into(),
                pid,
                tid,
                state: state(row.state).into(),
                start_ns: row.start.ns(),
                end_ns: row.end.ns(),
                dur_ns: (row.end - row.start).ns(),
                cpu: cpu(row.cpu),
                by_thread_id: id(row.by.0),
            })?;
        }
    }
    Ok(())
}

table! {
    /// Wake-ups, in time order.
    pub(crate) static WAKEUP = "wakeup", WakeupRow from wakeups;
    /// Id, unique in the run.
    wakeup_id: i64, "id";
    /// When.
    time_ns: i64, "ns";
    /// The woken thread.
    thread_id: i64, "id";
    /// Process id of the woken thread.
    pid: i32;
    /// Thread id of the woken thread.
    tid: i32;
    /// The thread that woke it; missing: an interrupt.
    waker_thread_id: Option<i64>, "id";
    /// CPU on which the waker was.
    cpu: Option<i32>;
    /// From waking to running; 0: it was still running; missing: it did not run before the end, or not known.
    latency_ns: Option<i64>, "ns";
}

fn wakeups(source: &Source<'_>, out: &mut Out<'_>) -> Result<()> {
    let w = &source.trace().wakeups;
    for row in 0..w.time.len() {
        let (pid, tid) = source.pid_tid(w.wakee[row]);
        out.push(WakeupRow {
            wakeup_id: row as i64,
            time_ns: w.time[row].ns(),
            thread_id: id(w.wakee[row].0).unwrap_or(-1),
            pid,
            tid,
            waker_thread_id: id(w.waker[row].0),
            cpu: cpu(w.cpu[row]),
            latency_ns: Some(w.latency[row].ns()).filter(|&ns| ns >= 0),
        })?;
    }
    Ok(())
}
