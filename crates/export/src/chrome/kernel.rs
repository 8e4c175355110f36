//! The scheduler's events as ftrace's text, in the member `systemTraceEvents` of the document.
//!
//! The Trace Event Format has this member for "Linux ftrace data": Perfetto and chrome://tracing read it and show scheduling beside the
//! events, and Kasuri's import reads it back, so that the file answers as its recording does. Text of ftrace is described in
//! Documentation/trace/ftrace.rst of the kernel:
//!
//! ```text
//! # tracer: nop
//! make-70 [001] .... 5.000000123: sched_switch: prev_comm=make prev_pid=70 prev_prio=120 prev_state=S ==> next_comm=...
//! CPU:1 [LOST 0 EVENTS]
//! ```
//!
//! Stamps have nine digits behind the point, so no nanosecond is lost. A thread that is not known is -1 as `perf script` prints it, which has
//! no dash before it and the system before the event's name.
use crate::sched_events::{PRIORITY, Record, Task, Told, record};
use kasuri_model::{SchedLog, Time, Trace};
use serde::ser::{Serialize, Serializer};
use std::fmt;

/// The text of all kept events; made while it is written.
pub(super) struct Text<'a> {
    pub trace: &'a Trace,
    pub log: &'a SchedLog,
}

impl Serialize for Text<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("# tracer: nop\n#\n")?;
        // chrome://tracing wants to be told that both parts of the file have one clock.
        let start = self.stamp(self.trace.span.start);
        writeln!(
            out,
            "kasuri-0 [000] .... {start}: tracing_mark_write: trace_event_clock_sync: parent_ts={start}"
        )?;
        self.log.iter().try_for_each(|kept| self.line(&record(self.trace, &kept), out))
    }
}

impl Text<'_> {
    /// Seconds.
    fn stamp(&self, time: Time) -> String {
        let origin_ns = self.trace.origin_monotonic_ns;
        let ns = origin_ns.saturating_add(time.ns()).max(0);
        format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
    }

    fn line(&self, record: &Record<'_>, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if matches!(record.what, Told::Lost) {
            return writeln!(out, "CPU:{} [LOST 0 EVENTS]", record.cpu);
        }
        let who = match record.context {
            0 => "<idle>-0".to_owned(),
            tid @ 1.. => format!("<...>-{tid}"),
            _ => ":-1 -1".to_owned(),
        };
        let flags = match (record.in_interrupt, record.in_softirq()) {
            (true, true) => "..H.",
            (true, false) => "..h.",
            (false, true) => "..s.",
            (false, false) => "....",
        };
        let system = if record.context < 0 { "sched:" } else { "" };
        let (cpu, stamp) = (record.cpu, self.stamp(record.time));
        writeln!(out, "{who} [{cpu:03}] {flags} {stamp}: {system}{}", Event(&record.what))
    }
}

/// An event's name and fields as the kernel prints them (include/trace/events/sched.h and task.h).
struct Event<'a>(&'a Told<'a>);

impl fmt::Display for Event<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Told::Switch { prev, prev_state, next } => write!(
                out,
                "sched_switch: prev_comm={} prev_pid={} prev_prio={PRIORITY} prev_state={} ==> next_comm={} next_pid={} next_prio={PRIORITY}",
                Name(prev),
                prev.tid,
                letters(*prev_state),
                Name(next),
                next.tid,
            ),
            Told::Waking { task, target_cpu, is_new, .. } => write!(
                out,
                "{}: comm={} pid={} prio={PRIORITY} target_cpu={target_cpu:03}",
                if *is_new { "sched_wakeup_new" } else { "sched_waking" },
                Name(task),
                task.tid,
            ),
            Told::Migrate { task, from, to } => write!(
                out,
                "sched_migrate_task: comm={} pid={} prio={PRIORITY} orig_cpu={from} dest_cpu={to}",
                Name(task),
                task.tid,
            ),
            Told::NewTask { task, clone_flags, .. } => write!(
                out,
                "task_newtask: pid={} comm={} clone_flags={clone_flags:x} oom_score_adj=0",
                task.tid,
                Name(task),
            ),
            Told::Exec { task, old_tid } => write!(
                out,
                "sched_process_exec: filename={} pid={} old_pid={old_tid}",
                Name(task),
                task.tid,
            ),
            Told::Exit { task } => write!(
                out,
                "sched_process_exit: comm={} pid={} prio={PRIORITY}",
                Name(task),
                task.tid,
            ),
            Told::Rename { task } => write!(
                out,
                "task_rename: pid={} oldcomm={} newcomm={} oom_score_adj=0",
                task.tid,
                Name(task),
                Name(task),
            ),
            Told::RunTime { task, ns } => write!(
                out,
                "sched_stat_runtime: comm={} pid={} runtime={ns} [ns]",
                Name(task),
                task.tid,
            ),
            Told::Lost => Ok(()),
        }
    }
}

/// A thread's name in a line: any text but an end of the line.
struct Name<'a>(&'a Task<'a>);

impl fmt::Display for Name<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.0.name;
        match name.contains(['\n', '\r']) {
            true => out.write_str(&name.replace(['\n', '\r'], " ")),
            false => out.write_str(name),
        }
    }
}

/// `prev_state` as the kernel prints those that [`record`] gives.
fn letters(prev_state: i64) -> &'static str {
    match prev_state {
        0x01 => "S",
        0x02 => "D",
        0x04 => "T",
        0x10 => "X",
        0x80 => "I",
        0x100 => "R+",
        _ => "R",
    }
}
