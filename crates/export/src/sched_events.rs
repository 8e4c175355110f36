//! The scheduler's events as every export writes them: the recorded ones, as the kernel would write them.
//!
//! Exports that hold events (trace-dat, Perfetto, CTF) share these rules and differ only in bytes. Read back, each must
//! answer as the recording does, to the ns. So nothing is rebuilt from the columns here: the model keeps what was
//! recorded ([`kasuri_model::SchedLog`]), [`log`] finds it, and [`record`] turns each event into a [`Record`].
//!
//! Rules:
//! - A switch, wake-up, migration, birth, exec, end, rename or run time is written as it was, with the thread that ran
//!   then, and with whether an interrupt raised it.
//! - An event of a kind that moves no thread is kept because it shows which thread was on its CPU. It is written as a
//!   `task_rename` of the idle thread to the name it has, in the context of the thread that ran: every tool and format
//!   knows that event, and it changes nothing.
//! - A side of a switch that perf's records do not name is thread -1.
//! - Lost events are a gap where the recording has one, and nowhere else.
//! - prev_state is that of Linux 4.14 and later, whatever kernel recorded; of the idle thread it is 0, as the kernel
//!   has it.
//! - Priorities are not kept: [`PRIORITY`].
use kasuri_model::label;
use kasuri_model::{OnCpu, SchedEvent, SchedLog, SchedWhat, ThreadIx, ThreadState, Time, Trace};
use std::borrow::Cow;
use std::io;

/// The model does not keep priorities; this is the kernel's number for a normal thread.
pub(crate) const PRIORITY: i32 = 120;
/// `common_flags`: raised in a hardware interrupt (TRACE_FLAG_HARDIRQ), in a softirq (TRACE_FLAG_SOFTIRQ).
const IN_INTERRUPT: u8 = 8;
const IN_SOFTIRQ: u8 = 16;
/// `clone_flags`: CLONE_THREAD of include/uapi/linux/sched.h; the other flags are not kept.
const CLONE_THREAD: u64 = 0x1_0000;

/// A thread as the kernel names it.
#[derive(Clone, Debug)]
pub(crate) struct Task<'t> {
    /// 0: idle; -1: not known.
    pub tid: i32,
    pub name: Cow<'t, str>,
    pub thread: ThreadIx,
}

impl<'t> Task<'t> {
    /// The thread that `who` names; the idle thread is called as on CPU `cpu`.
    pub fn of(trace: &'t Trace, who: OnCpu, cpu: u16) -> Task<'t> {
        let thread = who.thread();
        match (who, trace.threads.get(thread.ix())) {
            (OnCpu::Thread(_), Some(row)) => {
                Task { tid: row.tid, name: label::thread(trace, thread), thread }
            }
            (OnCpu::Idle, _) => Task { tid: 0, name: format!("swapper/{cpu}").into(), thread },
            _ => Task { tid: -1, name: "unknown".into(), thread },
        }
    }
}

/// An event to be written.
#[derive(Clone, Debug)]
pub(crate) struct Record<'t> {
    pub cpu: u16,
    pub time: Time,
    /// Thread id that ran; 0: idle, negative: not known.
    pub context: i32,
    pub in_interrupt: bool,
    pub what: Told<'t>,
}

impl Record<'_> {
    /// Raised in a softirq, as far as it is kept: of wake-ups.
    pub fn in_softirq(&self) -> bool {
        matches!(self.what, Told::Waking { in_softirq: true, .. })
    }

    /// `common_flags`.
    pub fn flags(&self) -> u8 {
        let hard = if self.in_interrupt { IN_INTERRUPT } else { 0 };
        hard | if self.in_softirq() { IN_SOFTIRQ } else { 0 }
    }
}

/// The kind of event, with its fields.
#[derive(Clone, Debug)]
pub(crate) enum Told<'t> {
    Switch {
        prev: Task<'t>,
        prev_state: i64,
        next: Task<'t>,
    },
    Waking {
        task: Task<'t>,
        target_cpu: i32,
        is_new: bool,
        in_softirq: bool,
    },
    Migrate {
        task: Task<'t>,
        from: u16,
        to: u16,
    },
    NewTask {
        parent: Task<'t>,
        task: Task<'t>,
        /// Process ids of the two.
        pids: [i32; 2],
        clone_flags: u64,
    },
    Exec {
        task: Task<'t>,
        old_tid: i32,
    },
    Exit {
        task: Task<'t>,
    },
    /// To the name that the thread has now: the model keeps one name for each thread.
    Rename {
        task: Task<'t>,
    },
    RunTime {
        task: Task<'t>,
        ns: u32,
    },
    /// Events are missing from here to this CPU's next.
    Lost,
}

/// The kept events.
///
/// # Errors
/// They were not kept although there were some: the trace was not loaded for an export.
pub(crate) fn log(trace: &Trace) -> io::Result<Cow<'_, SchedLog>> {
    match &trace.sched_events {
        Some(log) => Ok(Cow::Borrowed(log)),
        None if trace.occupancy.start.is_empty() => Ok(Cow::Owned(SchedLog::default())),
        None => Err(io::Error::other(
            "the scheduler's events were not kept when the trace was loaded, needed for this format",
        )),
    }
}

/// The event to write for a kept event.
pub(crate) fn record<'t>(trace: &'t Trace, event: &SchedEvent) -> Record<'t> {
    let cpu = event.cpu;
    let of = |thread| Task::of(trace, OnCpu::Thread(thread), cpu);
    let what = match event.what {
        SchedWhat::Switch { prev, left_as, next } => Told::Switch {
            prev: Task::of(trace, prev, cpu),
            prev_state: prev_state(prev, left_as),
            next: Task::of(trace, next, cpu),
        },
        SchedWhat::Waking { wakee, target_cpu, is_new, in_softirq } => {
            Told::Waking { task: of(wakee), target_cpu, is_new, in_softirq }
        }
        SchedWhat::Migrate { thread, from, to } => Told::Migrate { task: of(thread), from, to },
        SchedWhat::Fork { parent, child } => new_task(trace, of(parent), of(child)),
        SchedWhat::Exec { thread, old_tid } => Told::Exec { task: of(thread), old_tid },
        SchedWhat::Exit { thread } => Told::Exit { task: of(thread) },
        SchedWhat::Rename { thread } => Told::Rename { task: of(thread) },
        SchedWhat::RunTime { thread, ns } => Told::RunTime { task: of(thread), ns },
        SchedWhat::Sight => Told::Rename { task: Task::of(trace, OnCpu::Idle, cpu) },
        SchedWhat::Lost => Told::Lost,
    };
    Record { cpu, time: event.time, context: event.context, in_interrupt: event.in_interrupt, what }
}

/// An event without content in an unknown context: shows that there was something, but not which thread ran.
pub(crate) fn nobody(trace: &Trace, cpu: u16, time: Time) -> Record<'_> {
    Record {
        cpu,
        time,
        context: -1,
        in_interrupt: false,
        what: Told::Rename { task: Task::of(trace, OnCpu::Idle, cpu) },
    }
}

/// A new thread or process: a new thread when the model has both in one process.
fn new_task<'t>(trace: &Trace, parent: Task<'t>, task: Task<'t>) -> Told<'t> {
    let process = |task: &Task<'_>| trace.threads.get(task.thread.ix()).map(|t| t.process);
    let is_thread = process(&parent).is_some() && process(&parent) == process(&task);
    let pid = |task: &Task<'_>| {
        let process = process(task).and_then(|p| trace.processes.get(p.ix()));
        process.map_or(task.tid, |p| p.pid)
    };
    Told::NewTask {
        pids: [pid(&parent), pid(&task)],
        parent,
        task,
        clone_flags: if is_thread { CLONE_THREAD } else { 0 },
    }
}

/// The value that the kernel (4.14 and later) writes into prev_state of a thread that leaves a CPU: the bits of
/// TASK_REPORT in include/linux/sched.h, and TASK_REPORT_MAX for a thread that was preempted.
fn prev_state(prev: OnCpu, left_as: ThreadState) -> i64 {
    match (prev, left_as) {
        (OnCpu::Idle | OnCpu::Unknown, _) => 0,
        (_, ThreadState::RunnablePreempted | ThreadState::RunnableWoken) => 0x100,
        (_, ThreadState::Sleeping) => 0x01,
        (_, ThreadState::DiskSleep) => 0x02,
        (_, ThreadState::Stopped) => 0x04,
        (_, ThreadState::Dead) => 0x10,
        (_, ThreadState::Idle) => 0x80,
        (_, ThreadState::Running | ThreadState::Unknown) => 0,
    }
}

/// Lists what formats that hold events leave out.
pub(crate) fn notes(trace: &Trace) -> Vec<String> {
    let mut notes = Vec::new();
    if trace.processes.iter().any(|process| !process.is_target) {
        notes.push(crate::exported::NO_TARGET.to_owned());
    }
    if trace.cpus.iter().any(|cpu| cpu.hidden_switches > 0) {
        notes.push(
            "what is inferred where the kernel hid switches (its events are kept as they were; `kasuri` infers the same of them again)"
                .to_owned(),
        );
    }
    notes
}

/// The CPUs with events, or whose silence is known.
pub(crate) fn recorded(trace: &Trace) -> impl Iterator<Item = u16> + '_ {
    let cpus = trace.cpus.iter().enumerate();
    cpus.filter(|(_, cpu)| cpu.recorded).map(|(n, _)| n as u16)
}
