//! The events that the passes read: one stream of scheduler events for each CPU, one stream of annotation events for each
//! thread and client. The readers of `kasuri_import` fill them from recordings and other tools' traces, tests from vectors
//! ([`crate::Input`]).
use crate::{Error, StrIx, Strings, ThreadState, Time};
use kasuri_base::annotation::ArgType;
use kasuri_base::usdt::Side;

/// One kernel event on one CPU.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// When.
    pub time: Time,
    /// Thread that ran on the CPU (`common_pid`); 0: the idle thread; negative: not known.
    pub context: i32,
    /// Whether it was raised inside a hardware interrupt: then `context` did not cause it.
    pub in_interrupt: bool,
    /// The event.
    pub what: What,
}

/// The content of a kernel event. Fields named `tid` and the like are thread ids.
#[derive(Clone, Copy, Debug)]
pub enum What {
    /// The CPU went from one thread to another (sched_switch).
    Switch {
        /// The thread that left; 0: the idle thread.
        prev: i32,
        /// Its name.
        prev_comm: StrIx,
        /// Its state from now on: `RunnablePreempted` when it could still run.
        left_as: ThreadState,
        /// The thread that came; 0: the idle thread.
        next: i32,
        /// Its name.
        next_comm: StrIx,
    },
    /// A thread came on the CPU (perf context switch).
    In {
        /// The thread.
        tid: i32,
    },
    /// A thread left the CPU (perf context switch); the thread that came is not known.
    Out {
        /// The thread.
        tid: i32,
        /// Its state from now on, as in `Switch`.
        left_as: ThreadState,
    },
    /// A thread was woken (sched_waking, sched_wakeup_new).
    Waking {
        /// The thread.
        tid: i32,
        /// Its name.
        comm: StrIx,
        /// CPU whose queue it was last in; negative: not known.
        cpu: i32,
        /// Raised in a softirq, which may have nothing to do with the thread that ran there.
        in_softirq: bool,
    },
    /// A thread that is not running was moved (sched_migrate_task).
    Migrate {
        /// The thread.
        tid: i32,
        /// From this CPU...
        from: u16,
        /// ...to this.
        to: u16,
    },
    /// A thread was made (task_newtask, sched_process_fork, perf's fork record). Two events may tell of one birth.
    Fork {
        /// Its maker; negative: the context.
        parent: i32,
        /// The new one.
        child: i32,
        /// Its name; none: its maker's.
        comm: StrIx,
        /// Process it belongs to, when the event says so.
        pid: Option<i32>,
        /// Whether it belongs to its maker's process (CLONE_THREAD), when the event says so.
        same_process: Option<bool>,
    },
    /// A process replaced its program (sched_process_exec).
    Exec {
        /// Thread id from now on.
        tid: i32,
        /// Thread id before: differs when not the main thread called.
        old_tid: i32,
    },
    /// A thread began to end (sched_process_exit).
    Exit {
        /// The thread.
        tid: i32,
        /// Nothing will follow: no last switch either (perf).
        at_once: bool,
    },
    /// A thread got another name (task_rename, perf's comm record).
    Rename {
        /// The thread.
        tid: i32,
        /// Its new name.
        comm: StrIx,
    },
    /// The kernel added to a thread's run time (sched_stat_runtime): it was on a CPU, and is or was until now.
    RunTime {
        /// The thread.
        tid: i32,
        /// For how long, since this was last told of it or since it came on; at most 4.29 s.
        ns: u32,
    },
    /// From here on, until this CPU's next event, events are missing.
    Lost,
    /// A hardware interrupt's handler began.
    IrqEntry {
        /// The handler's name.
        name: StrIx,
    },
    /// It ended.
    IrqExit,
    /// A softirq's handler began.
    SoftirqEntry {
        /// Its name.
        name: StrIx,
    },
    /// It ended.
    SoftirqExit,
    /// The context entered the kernel by a system call.
    SyscallEntry {
        /// The call's name.
        name: StrIx,
    },
    /// It went back.
    SyscallExit,
    /// The context began to wait for one of the kernel's locks.
    LockBegin {
        /// Kind of the lock, as the kernel names it.
        name: StrIx,
    },
    /// It got it.
    LockEnd,
    /// The context called a function that takes or gives a lock (uprobe).
    LockCall {
        /// The step of the call.
        step: LockStep,
        /// Number of the function in the recording.
        function: u16,
        /// The lock's address. When acquired it is not known.
        object: u64,
        /// The function's name.
        name: StrIx,
    },
    /// The context passed a probe that the program's author put there (USDT).
    Probe {
        /// Which end of a slice it is.
        side: Side,
        /// The same for both ends.
        pair: u16,
        /// The slice's name.
        name: StrIx,
        /// The probe's own name.
        probe: StrIx,
    },
    /// An argument of the probe that the context passed just before; with the same time.
    ProbeArg {
        /// How `value` is to be understood.
        kind: ArgType,
        /// The argument's name.
        name: StrIx,
        /// As [`Annotation::a`].
        value: u64,
    },
}

/// The step that a probe on a lock function reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockStep {
    /// The lock function was called.
    Request,
    /// It returned.
    Acquired,
    /// The unlock function was called.
    Released,
}

impl What {
    /// Order among events of different CPUs with equal stamps: what makes a thread runnable, or makes it, comes
    /// before what puts threads on and off CPUs (docs/design/states.md, "Ties").
    pub(crate) fn rank(&self) -> u8 {
        matches!(self, What::Switch { .. } | What::In { .. } | What::Out { .. }) as u8
    }
}

/// Events that a source makes at once: as many as stay in the nearest cache.
pub const BATCH: usize = 512;

/// The events of one CPU, in recorded order.
pub trait CpuEvents {
    /// Appends the next events to `out`, as many as are at hand and at least one; none at the end. May intern names.
    ///
    /// # Errors
    /// When the bytes that follow are damaged.
    fn fill(&mut self, strings: &mut Strings, out: &mut Vec<Event>) -> Result<(), Error>;
}

/// One annotation event.
#[derive(Clone, Copy, Debug, Default)]
pub struct Annotation {
    /// When.
    pub time: Time,
    /// `enum kasuri_kind`.
    pub kind: u8,
    /// As kasuri.h says for each kind.
    pub aux: u16,
    /// The site's name, or none. Messages and thread names: the text.
    pub name: StrIx,
    /// First word of the payload. Arguments of type STR: the text's index.
    pub a: u64,
    /// Second word. Arguments: not 0 means the innermost slice's, also after an instant in it.
    pub b: u64,
}

/// The annotations of one thread in one client, in order of their stamps.
pub trait AnnotationEvents {
    /// Process id.
    fn pid(&self) -> i32;
    /// Thread id.
    fn tid(&self) -> i32;
    /// Number of the client among those of that process id.
    fn generation(&self) -> u32 {
        0
    }
    /// Stamps of at most `n` of its events, from its beginning on, ascending or nearly so; the stream is rewound.
    fn sample(&mut self, strings: &mut Strings, n: usize) -> Vec<Time> {
        let mut out = Vec::new();
        self.rewind();
        for _ in 0..n {
            let before = out.len();
            // Damage shows when the stream is read for good.
            let mut batch = Vec::new();
            let whole = self.fill(strings, &mut batch).is_ok();
            out.append(&mut batch);
            if !whole || out.len() == before {
                break;
            }
        }
        self.rewind();
        let step = out.len().div_ceil(n.max(1)).max(1);
        out.iter().step_by(step).map(|e| e.time).collect()
    }
    /// Appends the next events to `out`, as many as are at hand and at least one; none at the end. May intern text.
    ///
    /// # Errors
    /// When the bytes that follow are damaged.
    fn fill(&mut self, strings: &mut Strings, out: &mut Vec<Annotation>) -> Result<(), Error>;
    /// Stamp of the first event; none when there is none.
    fn first_time(&self) -> Option<Time>;
    /// Goes back to the first event.
    fn rewind(&mut self);
}

/// A thread that /proc showed.
#[derive(Clone, Debug, Default)]
pub struct KnownThread {
    /// When it was seen.
    pub time: Time,
    /// Its process.
    pub pid: i32,
    /// Its id.
    pub tid: i32,
    /// The process's parent.
    pub ppid: i32,
    /// Its name.
    pub comm: String,
}

/// Facts that the passes know besides the events.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// When recording began and ended.
    pub span: std::ops::Range<Time>,
    /// CPUs of the machine.
    pub n_cpus: usize,
    /// The recorded processes; empty: all are target.
    pub root_pids: Vec<i32>,
    /// `root_pids` are all processes there were, and none of them more than another is the program.
    pub whole_system: bool,
    /// Threads that /proc showed, oldest first.
    pub known: Vec<KnownThread>,
    /// What threads (tids) did at a time, as /proc had it, where the events that they raise from then on are recorded.
    pub did: Vec<(i32, Time, ThreadState)>,
    /// Threads whose annotations bear numbers of a pid name space of their own.
    pub inner: Vec<InnerThread>,
    /// Clients (number, generation) that were gone before it was known whether their numbers are such.
    pub in_doubt: Vec<(i32, u32)>,
    /// The CPUs' streams start some time after `span.start`: what was before is unknown (flight recorder).
    pub starts_late: bool,
    /// CPUs whose streams may stop before `span.end`, and the time up to which each is known to be complete ([`Time::MIN`]: not known).
    /// What ran there after that time, or after the CPU's last event where that is later, is unknown.
    pub stops: Vec<(u16, Time)>,
    /// Switches may not have been recorded at all. If there is none, the states of threads are not known: that an event names the thread
    /// in whose context it was raised does not say how long that thread ran.
    pub may_lack_switches: bool,
    /// CPUs whose events were recorded, also those that had none.
    pub recorded: Vec<u32>,
    /// Migrations are recorded as events; else they are told by where threads come on.
    pub has_migrations: bool,
    /// Keep the scheduler's events beside the columns, for exports ([`crate::SchedLog`]).
    pub keeps_events: bool,
}

/// A thread in a pid name space of its own, as the recorder saw it while it lived.
#[derive(Clone, Copy, Debug, Default)]
pub struct InnerThread {
    /// When it was seen.
    pub time: Time,
    /// Its process and itself, as the kernel's events number them.
    pub pid: i32,
    /// See `pid`.
    pub tid: i32,
    /// Its client: the process's inner number, and which of that number it is.
    pub client: (i32, u32),
    /// Its own inner number.
    pub ns_tid: i32,
}

/// One call of a lock function that has a uprobe.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LockCall {
    /// Row of the thread table while it is made.
    pub thread: u32,
    pub time: Time,
    pub step: LockStep,
    pub function: u16,
    pub object: u64,
    pub name: StrIx,
}

impl Event {
    /// Calls `f` for each name that it has: for sources that number names in a table of their own.
    #[inline]
    pub fn each_name(&mut self, mut f: impl FnMut(&mut StrIx)) {
        match &mut self.what {
            What::Switch { prev_comm, next_comm, .. } => {
                f(prev_comm);
                f(next_comm);
            }
            What::Waking { comm, .. } | What::Fork { comm, .. } | What::Rename { comm, .. } => {
                f(comm)
            }
            What::IrqEntry { name }
            | What::SoftirqEntry { name }
            | What::SyscallEntry { name }
            | What::LockBegin { name }
            | What::LockCall { name, .. } => f(name),
            What::Probe { name, probe, .. } => {
                f(name);
                f(probe);
            }
            What::ProbeArg { kind, name, value } => {
                f(name);
                if *kind == ArgType::Str {
                    let mut text = StrIx(*value as u32);
                    f(&mut text);
                    *value = u64::from(text.0);
                }
            }
            What::In { .. }
            | What::Out { .. }
            | What::Migrate { .. }
            | What::Exec { .. }
            | What::Exit { .. }
            | What::RunTime { .. }
            | What::Lost
            | What::IrqExit
            | What::SoftirqExit
            | What::SyscallExit
            | What::LockEnd => {}
        }
    }

    /// A switch that the thread which left reports; both have the same name.
    pub fn switch(ns: i64, prev: i32, left_as: ThreadState, next: i32, comm: StrIx) -> Event {
        let what = What::Switch { prev, prev_comm: comm, left_as, next, next_comm: comm };
        Event { time: Time(ns), context: prev, in_interrupt: false, what }
    }

    /// `context` wakes `tid`, which is in the queue of CPU 0.
    pub fn waking(ns: i64, context: i32, tid: i32, comm: StrIx) -> Event {
        let cpu = 0;
        Event {
            time: Time(ns),
            context,
            in_interrupt: false,
            what: What::Waking { tid, comm, cpu, in_softirq: false },
        }
    }
}

/// One CPU's events from a vector.
#[derive(Clone, Debug, Default)]
pub struct CpuVec {
    /// In recorded order.
    pub events: Vec<Event>,
}

impl CpuEvents for CpuVec {
    fn fill(&mut self, _strings: &mut Strings, out: &mut Vec<Event>) -> Result<(), Error> {
        out.append(&mut self.events);
        Ok(())
    }
}

/// One annotation stream from a vector.
#[derive(Clone, Debug, Default)]
pub struct AnnotationVec {
    /// Process id.
    pub pid: i32,
    /// Thread id.
    pub tid: i32,
    /// In order of their stamps.
    pub events: Vec<Annotation>,
    /// The next one.
    pub at: usize,
}

impl AnnotationEvents for AnnotationVec {
    fn pid(&self) -> i32 {
        self.pid
    }

    fn tid(&self) -> i32 {
        self.tid
    }

    fn fill(&mut self, _strings: &mut Strings, out: &mut Vec<Annotation>) -> Result<(), Error> {
        out.extend_from_slice(&self.events[self.at..]);
        self.at = self.events.len();
        Ok(())
    }

    fn first_time(&self) -> Option<Time> {
        self.events.first().map(|e| e.time)
    }

    fn rewind(&mut self) {
        self.at = 0;
    }
}
