//! The model a newcomer reads first: one recording as columns.
//!
//! A table is a struct of equally long `Vec`s (columns); row `i` of the table is element `i` of each.
//! Rows refer to each other by typed indices. Nothing here knows bytes, files or screens.
use crate::{Column, Duration, Time};
use kasuri_base::parallel::ParallelCosts;
use std::ops::Range;

macro_rules! index {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(transparent)]
        pub struct $name(pub u32);
        impl $name {
            /// No row.
            pub const NONE: $name = $name(u32::MAX);
            /// The row number, to index a column with.
            pub const fn ix(self) -> usize {
                self.0 as usize
            }
            /// Whether this refers to a row.
            pub const fn is_some(self) -> bool {
                self.0 != u32::MAX
            }
        }
        impl Default for $name {
            fn default() -> $name {
                $name::NONE
            }
        }
    };
}

index!(/** Row of [`Trace::processes`]. */ ProcessIx);
index!(/** Row of [`Trace::threads`]. */ ThreadIx);
index!(/** Row of [`Trace::slices`]. */ SliceIx);
index!(/** Row of [`Trace::tasks`]. */ TaskIx);
index!(/** Row of [`Trace::instants`]. */ InstantIx);
index!(/** Row of [`Trace::locks`]. */ LockIx);
index!(/** Row of [`Trace::frames`]. */ FrameIx);
index!(/** Row of [`Trace::paths`]. */ PathIx);
index!(/** A string in [`Trace::strings`]. */ StrIx);

/// Interned strings: equal text has equal [`StrIx`].
#[derive(Clone, Debug, Default)]
pub struct Strings {
    pub(crate) text: Vec<Box<str>>,
    pub(crate) index: std::collections::HashMap<Box<str>, StrIx>,
}

impl Strings {
    /// The index of `text`, which is stored when new.
    pub fn intern(&mut self, text: &str) -> StrIx {
        if let Some(&ix) = self.index.get(text) {
            return ix;
        }
        let ix = StrIx(self.text.len() as u32);
        self.text.push(text.into());
        self.index.insert(text.into(), ix);
        ix
    }

    /// The text; "" for [`StrIx::NONE`].
    pub fn get(&self, ix: StrIx) -> &str {
        self.text.get(ix.ix()).map_or("", |s| s)
    }

    /// All, in the order of their indices.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        self.text.iter().map(|s| &**s)
    }

    /// Number of different strings.
    pub fn len(&self) -> usize {
        self.text.len()
    }

    /// Whether nothing was interned.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }
}

/// One recording, whole.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// Every name.
    pub strings: Strings,
    /// Places of annotations by name: `file:line` of the first site of that name.
    pub places: Places,
    /// CLOCK_MONOTONIC at `Time(0)`, ns.
    pub origin_monotonic_ns: i64,
    /// CLOCK_REALTIME at `Time(0)`, ns since 1970; 0: unknown.
    pub origin_realtime_ns: i64,
    /// When recording began and ended; all states and occupancies are cut to it.
    pub span: Range<Time>,
    /// The recording: its command, machine and recorder.
    pub info: Info,
    /// Whose word it is which processes are the program.
    pub program_by: crate::ProgramBy,
    /// By thread: not of the program although its process is, because the user chose others ([`Trace::choose`]); empty: none.
    pub set_aside: Vec<bool>,
    /// One row for each CPU of the machine, `cpus[n]` is CPU n.
    pub cpus: Vec<Cpu>,
    /// Processes seen.
    pub processes: Vec<Process>,
    /// Threads seen, sorted by (process, start). A tid used twice has two rows. The idle threads have none.
    pub threads: Vec<Thread>,
    /// The kernel state of each thread.
    pub states: States,
    /// The threads that each CPU ran.
    pub occupancy: Occupancy,
    /// Wake-ups.
    pub wakeups: Wakeups,
    /// Moves of a thread to another CPU.
    pub migrations: Migrations,
    /// When threads replaced the program of their process.
    pub execs: Execs,
    /// The scheduler's events as they were recorded; none: not kept ([`crate::input::Setup::keeps_events`]).
    pub sched_events: Option<crate::SchedLog>,
    /// Annotated slices, waits and critical sections.
    pub slices: Slices,
    /// Arguments of slices and instants, values as text or number.
    pub args: Args,
    /// Points in time with a name.
    pub instants: Instants,
    /// Values over time.
    pub counters: Vec<Counter>,
    /// Annotated tasks.
    pub tasks: Vec<Task>,
    /// Edges of the task graph besides creations and first joins.
    pub task_edges: TaskEdges,
    /// Tasks that were counted and not recorded one by one.
    pub folded_tasks: FoldedTasks,
    /// Arrows drawn by the program.
    pub flows: Flows,
    /// Interrupts, softirqs and system calls, when recorded; spans of CPU time inside the kernel.
    pub kernel_spans: KernelSpans,
    /// Locks that the lock probe named, sorted by (process, object, since).
    pub locks: Vec<Lock>,
    /// Acquisitions that had to wait: more about LockWait slices.
    pub lock_waits: LockWaits,
    /// Light lock probe: how many acquisitions a recorded one stands for.
    pub lock_counts: LockCounts,
    /// The numbers that annotating threads have in pid name spaces of their own.
    pub inner_names: Vec<crate::InnerName>,
    /// Limits that kept the program from CPUs that the machine has.
    pub limits: Limits,
    /// What threads of the program did when the recording ended, where the recorder looked.
    pub ends: Vec<ThreadEnd>,
    /// Functions that [`Trace::paths`] name.
    pub frames: crate::CodeFrames,
    /// GNU build-ids of programs and libraries, by path ([`crate::CodeFrames::module`]); of two files of one path the first. Those without one are absent.
    pub build_ids: std::collections::HashMap<StrIx, Box<[u8]>>,
    /// Call paths.
    pub paths: crate::CallPaths,
    /// Where threads were, and when.
    pub samples: crate::Samples,
    /// How samples were taken, by time; empty: they were not.
    pub sampling: Vec<crate::SamplingChange>,
    /// Events that are missing.
    pub losses: Vec<Loss>,
    /// Number of events the recording holds: kernel and annotation.
    pub n_kernel_events: u64,
    /// Number of annotation events the recording holds.
    pub n_annotation_events: u64,
}

/// Facts about the recording.
#[derive(Clone, Debug, Default)]
pub struct Info {
    /// Format of the file it was read from: "kasuri", or as `kasuri_import` names it, with its version.
    pub format: String,
    /// The recorded command with its arguments; empty for `-a`.
    pub command: Vec<String>,
    /// pid of the recorded program; 0 for `-a`.
    pub root_pid: i32,
    /// Exit status of the program as a shell would show it.
    pub exit_status: Option<i32>,
    /// Host name, kernel release, machine (as `uname` prints them), CPU model.
    pub host: String,
    /// `uname -r`.
    pub kernel: String,
    /// `uname -m`.
    pub machine: String,
    /// CPU model name.
    pub cpu_model: String,
    /// Detail of the kernel events, by the name of the source that gives as much: "tracefs" (every switch and wake-up), "perf"
    /// (one program's switches), "none".
    pub kernel_source: String,
    /// Clock of the kernel's stamps, as tracefs names it.
    pub kernel_clock: String,
    /// Questions that this recording cannot answer, each with the command that would grant it, in plain words.
    pub missing: Vec<String>,
    /// Version of kasuri that recorded.
    pub recorder: String,
    /// The lock probe: "full", "light", or "" without.
    pub lock_probe: String,
    /// Events by kind, with what one costs; kinds of which there are none are absent.
    pub event_costs: Vec<EventCost>,
    /// Distance between kernel events on the same CPU: geometric mean, ns.
    pub events_apart_ns: Option<f64>,
    /// What parallel work cost on the machine that recorded.
    pub parallel_costs: Option<ParallelCosts>,
    /// CPU time of the program and its descendants as the kernel accounts it; a recording with gaps knows less itself.
    pub program_cpu: Option<Duration>,
    /// CPU time the recorder took while recording.
    pub recorder_cpu: Option<Duration>,
    /// What its calls took for which threads of programs may have had to wait: an upper bound of each wait, and of all.
    pub held_up: Option<HeldUp>,
    /// The recorder's process, where the recording tells it; see [`Trace::is_recorder`].
    pub recorder_pid: Option<i32>,
    /// Kernel buffers, all CPUs together, bytes.
    pub buffer_bytes: u64,
}

/// Calls of the recorder for which threads of programs may have had to wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldUp {
    /// Those that read memory or mappings.
    pub memory: TimedCalls,
    /// Those that switched uprobes on or off.
    pub probes: TimedCalls,
}

/// Calls of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimedCalls {
    /// Their number.
    pub n: u64,
    /// The longest of them.
    pub longest: Duration,
    /// All together.
    pub sum: Duration,
}

/// Events of one kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventCost {
    /// `system/event`; "annotation".
    pub name: String,
    /// Number of events recorded.
    pub n: u64,
    /// Of `n`: how many were written in the time of threads of the program.
    pub n_program: u64,
    /// ns that one costs the thread that meets it: median, lower and upper end of the 95 % interval, as the recorder
    /// measured on that machine; none: not measured.
    pub ns: Option<[f64; 3]>,
    /// The same where other work lies between two events: ns from one to the next without tracing, then these three; rising.
    pub apart: Vec<[f64; 4]>,
}

/// One CPU.
#[derive(Clone, Debug, Default)]
pub struct Cpu {
    /// Whether kernel events of this CPU were recorded.
    pub recorded: bool,
    /// Its rows in [`Trace::occupancy`].
    pub occupancy: Range<u32>,
    /// Switches that the kernel did not report although it recorded this CPU: later events found a thread there that
    /// was not switched in. Their times are inferred (docs/design/states.md).
    pub hidden_switches: u64,
    /// Of these: how many began a run that was placed by the kernel's own count of run time, to the ns.
    pub placed_switches: u64,
}

/// One process (thread group).
#[derive(Clone, Debug, Default)]
pub struct Process {
    /// Thread group id.
    pub pid: i32,
    /// Last known name of the main thread.
    pub name: StrIx,
    /// Parent, when seen.
    pub parent: ProcessIx,
    /// Whether threads of it are the program: it was recorded or descends from what was (all with `-a`), or the user chose it.
    /// Of a thread ask [`Trace::is_target`].
    pub is_target: bool,
    /// Its rows in [`Trace::threads`].
    pub threads: Range<u32>,
}

/// One thread.
#[derive(Clone, Debug, Default)]
pub struct Thread {
    /// Its process.
    pub process: ProcessIx,
    /// Thread id.
    pub tid: i32,
    /// Last known name (kernel comm, or the name the program gave by annotation).
    pub name: StrIx,
    /// From when to when it is known to exist, cut to [`Trace::span`].
    pub alive: Range<Time>,
    /// Its rows in [`Trace::states`]; empty when the kernel's events do not mention it.
    pub states: Range<u32>,
    /// Its rows in [`Trace::slices`].
    pub slices: Range<u32>,
    /// Number of slice levels: max depth + 1, 0 without slices.
    pub slice_levels: u16,
    /// Switches away from this thread while it could still run; the rest of `switches_out` were its own wish.
    pub preemptions: u32,
    /// sched_switch events that took it off a CPU.
    pub switches_out: u32,
    /// sched_switch events that put it on a CPU.
    pub switches_in: u32,
    /// Its run time as the kernel counted it (sched_stat_runtime); none: not recorded, or some of it may be lost.
    pub counted: Option<Duration>,
}

/// The state of a thread, as the kernel's scheduler sees it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
pub enum ThreadState {
    /// Not known: before its first event, or across a loss.
    #[default]
    Unknown = 0,
    /// On a CPU.
    Running = 1,
    /// Woken (or new) and waiting for a CPU.
    RunnableWoken = 2,
    /// Taken off a CPU while it could still run.
    RunnablePreempted = 3,
    /// Interruptible sleep (S).
    Sleeping = 4,
    /// Uninterruptible sleep (D), usually I/O.
    DiskSleep = 5,
    /// Stopped or traced (T, t).
    Stopped = 6,
    /// Idle kernel thread (I) or parked (P).
    Idle = 7,
    /// Exiting: zombie or dead (Z, X).
    Dead = 8,
}

impl ThreadState {
    /// The state that `state as u8` made this number of; of any other number [`ThreadState::Unknown`].
    pub const fn from_number(number: u8) -> ThreadState {
        use ThreadState::*;
        match number {
            1 => Running,
            2 => RunnableWoken,
            3 => RunnablePreempted,
            4 => Sleeping,
            5 => DiskSleep,
            6 => Stopped,
            7 => Idle,
            8 => Dead,
            _ => Unknown,
        }
    }

    /// Ready to run, without a CPU.
    pub const fn is_runnable(self) -> bool {
        matches!(self, ThreadState::RunnableWoken | ThreadState::RunnablePreempted)
    }

    /// Known to need no CPU: asleep, stopped, idle or dead.
    pub const fn is_blocked(self) -> bool {
        use ThreadState::*;
        matches!(self, Sleeping | DiskSleep | Stopped | Idle | Dead)
    }
}

/// Thread states, sorted by (thread, start). A row lasts until the thread's next row, the last until
/// the thread's `alive.end`: no gaps, no overlaps.
#[derive(Clone, Debug, Default)]
pub struct States {
    /// When the state began.
    pub start: Vec<Time>,
    /// The state.
    pub state: Vec<ThreadState>,
    /// Running: the CPU. Runnable: the CPU whose queue it is in. Else the CPU it last ran on. u16::MAX: unknown.
    pub cpu: Vec<u16>,
    /// RunnableWoken: the waker. RunnablePreempted: the preemptor. Else none. Idle (an interrupt out of idle) is none.
    pub by: Vec<ThreadIx>,
}

/// The threads that each CPU ran; sorted by (CPU, start). A row lasts until the CPU's next row, the last until `span.end`.
#[derive(Clone, Debug, Default)]
pub struct Occupancy {
    /// When this thread was switched in.
    pub start: Vec<Time>,
    /// The thread; none: idle or unknown, see `idle`.
    pub thread: Vec<ThreadIx>,
    /// True: the CPU was idle. False with no thread: unknown (before the first event, across a loss).
    pub idle: Vec<bool>,
}

/// Wake-ups in time order: sched_waking / sched_wakeup_new.
#[derive(Clone, Debug, Default)]
pub struct Wakeups {
    /// When.
    pub time: Vec<Time>,
    /// The waker; none: an interrupt, whichever thread it interrupted.
    pub waker: Vec<ThreadIx>,
    /// The thread that was woken.
    pub wakee: Vec<ThreadIx>,
    /// CPU on which the waker was.
    pub cpu: Vec<u16>,
    /// From waking to running; 0: was still running; negative: did not run before the end, or unknown across a loss.
    pub latency: Vec<Duration>,
}

/// Programs replaced (sched_process_exec), sorted by (thread, time). A recording without these events has none.
#[derive(Clone, Debug, Default)]
pub struct Execs {
    /// The thread that goes on, in the new program.
    pub thread: Vec<ThreadIx>,
    /// When.
    pub time: Vec<Time>,
}

impl Execs {
    /// When a thread replaced its program, in order.
    pub fn of(&self, thread: ThreadIx) -> &[Time] {
        let first = self.thread.partition_point(|&t| t < thread);
        let end = first + self.thread[first..].partition_point(|&t| t == thread);
        &self.time[first..end]
    }
}

/// The time of one program of a thread: from its birth, or the exec that began it, to its end or the next exec.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Life {
    /// The thread.
    pub thread: ThreadIx,
    /// Without bounds at both ends of a thread's time.
    pub time: std::ops::Range<Time>,
    /// How many programs of the thread follow.
    pub follow: usize,
}

impl Trace {
    /// The lives of a thread, in order; at least one.
    pub fn lives_of(&self, thread: ThreadIx) -> impl Iterator<Item = Life> + '_ {
        let execs = self.execs.of(thread);
        let mut start = Time(i64::MIN);
        let ends = execs.iter().copied().chain([Time(i64::MAX)]);
        ends.enumerate().map(move |(nth, end)| {
            let time = std::mem::replace(&mut start, end)..end;
            Life { thread, time, follow: execs.len() - nth }
        })
    }
}

/// Migrations in time order (sched_migrate_task).
#[derive(Clone, Debug, Default)]
pub struct Migrations {
    /// When.
    pub time: Vec<Time>,
    /// The thread that was moved.
    pub thread: Vec<ThreadIx>,
    /// From this CPU...
    pub from_cpu: Vec<u16>,
    /// ...to this.
    pub to_cpu: Vec<u16>,
}

/// The kind of a slice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
pub enum SliceKind {
    /// A named piece of work: begin..end.
    #[default]
    Work = 0,
    /// Waiting at a barrier.
    Barrier = 1,
    /// Waiting for a thread or task to end.
    Join = 2,
    /// Waiting on a condition.
    Cond = 3,
    /// Waiting for I/O.
    Io = 4,
    /// Another wait.
    OtherWait = 5,
    /// From requesting a lock to acquiring it.
    LockWait = 6,
    /// From acquiring a lock to releasing it: the critical section. Holds may cross work slices, so they are not nested by depth: they have their own levels above the thread's work.
    LockHold = 7,
    /// A task's run on this thread: start or resume..suspend or end.
    TaskRun = 8,
}

/// Slices sorted by (thread, start, depth). Per thread and depth they do not overlap.
#[derive(Clone, Debug, Default)]
pub struct Slices {
    /// When it began; the trace's start when the beginning was not seen.
    pub start: Vec<Time>,
    /// When it ended; the thread's end when the end was not seen.
    pub end: Vec<Time>,
    /// Its thread.
    pub thread: Column<ThreadIx>,
    /// Its name.
    pub name: Vec<StrIx>,
    /// Nesting level in its thread, 0 outermost.
    pub depth: Vec<u16>,
    /// The slice that encloses it.
    pub parent: Column<SliceIx>,
    /// Its kind.
    pub kind: Vec<SliceKind>,
    /// The task that ran it, if any.
    pub task: Column<TaskIx>,
    /// Waits and locks: the object (address). Else 0.
    pub object: Column<u64>,
    /// [`open`] bits: what of it was not seen, and whether a task carries it on elsewhere.
    pub open: Column<u8>,
}

/// Bits of [`Slices::open`].
pub mod open {
    /// The beginning was not seen: it starts where the thread's known life does.
    pub const BEGIN_UNSEEN: u8 = 1;
    /// The end was not seen: it ends where the thread's known life, or what encloses it, does.
    pub const END_UNSEEN: u8 = 2;
    /// Its task was suspended here and carries it on in a later slice of the same name.
    pub const CONTINUES: u8 = 4;
    /// Carried on from an earlier slice by a task that was resumed here.
    pub const CONTINUED: u8 = 8;
    /// A hold, or a wait for one, that other sharers of the lock may have at the same time.
    pub const SHARED: u8 = 16;
}

/// Places of annotations, for messages: index by [`StrIx`] of the name; not every name has one.
pub type Places = std::collections::HashMap<StrIx, String>;

/// Arguments, sorted by slice; those of instants after those of slices, sorted by instant.
#[derive(Clone, Debug, Default)]
pub struct Args {
    /// The slice they belong to; none: see `instant`.
    pub slice: Vec<SliceIx>,
    /// The instant they belong to, when they belong to no slice.
    pub instant: Vec<InstantIx>,
    /// The argument's name.
    pub name: Vec<StrIx>,
    /// Its value.
    pub value: Vec<ArgValue>,
}

/// An argument's value.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ArgValue {
    /// Signed.
    Int(i64),
    /// Unsigned.
    Uint(u64),
    /// Floating point.
    Float(f64),
    /// Text.
    Str(StrIx),
}

/// Instants and messages in (thread, time) order.
#[derive(Clone, Debug, Default)]
pub struct Instants {
    /// When.
    pub time: Vec<Time>,
    /// The thread.
    pub thread: Vec<ThreadIx>,
    /// Name, or the message's text.
    pub name: Vec<StrIx>,
}

/// One counter: a step function.
#[derive(Clone, Debug, Default)]
pub struct Counter {
    /// Its name.
    pub name: StrIx,
    /// Its process.
    pub process: ProcessIx,
    /// Ascending.
    pub time: Vec<Time>,
    /// Value from `time[i]` on.
    pub value: Vec<f64>,
}

/// One annotated task.
#[derive(Clone, Debug, Default)]
pub struct Task {
    /// The program's id, unique in its process.
    pub id: u64,
    /// Its process.
    pub process: ProcessIx,
    /// Its name.
    pub name: StrIx,
    /// The task that created it, if any.
    pub parent: TaskIx,
    /// The thread that created it.
    pub creator: ThreadIx,
    /// When it was created; `Time::MIN` when not seen.
    pub created: Time,
    /// When it first ran; `Time::MAX`: never.
    pub started: Time,
    /// When it ended; `Time::MAX`: not seen.
    pub ended: Time,
    /// When another went on after its end, having waited or not; `Time::MAX`: not seen.
    pub joined: Time,
    /// The task that went on, if any.
    pub joiner: TaskIx,
    /// It never runs: a point of its parent, or of the tasks that it joins, that others join.
    pub is_point: bool,
}

/// What an edge of the task graph says.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
pub enum TaskEdgeKind {
    /// The task went on after the end of the other.
    #[default]
    Join = 0,
    /// The task cannot start before the end of the other.
    Depends = 1,
}

/// Edges of the task graph that [`Task`] does not hold: dependences, and joins of a task after its first. In the order of
/// processes, and in each as the program said them.
#[derive(Clone, Debug, Default)]
pub struct TaskEdges {
    /// Its kind.
    pub kind: Vec<TaskEdgeKind>,
    /// When the program said so; of a join: when the task went on.
    pub time: Vec<Time>,
    /// The task that goes on or starts; of a join none when a thread that runs no task went on.
    pub task: Vec<TaskIx>,
    /// The one whose end it needs.
    pub on: Vec<TaskIx>,
    /// Edges that are left out because no task has the id that they name.
    pub n_unknown: u64,
}

/// Small tasks that a runtime folds: it tells how many there were, and their time is that of the task that ran them. Sorted by
/// (task, name), one row each.
#[derive(Clone, Debug, Default)]
pub struct FoldedTasks {
    /// The task that they are a part of.
    pub task: Vec<TaskIx>,
    /// Their name.
    pub name: Vec<StrIx>,
    /// How many; above 0.
    pub count: Vec<u64>,
}

impl FoldedTasks {
    /// How many there are in all.
    pub fn total(&self) -> u64 {
        self.count.iter().fold(0, |sum, n| sum.saturating_add(*n))
    }
}

/// Arrows: the program's own, joined by flow id, and steals, from where a thread left a task to where another took it
/// up; in order of `from_time`.
#[derive(Clone, Debug, Default)]
pub struct Flows {
    /// The program's id; steals: the task's.
    pub id: Vec<u64>,
    /// Name; steals: "steal".
    pub name: Vec<StrIx>,
    /// Tail of the arrow.
    pub from_time: Vec<Time>,
    /// Its thread.
    pub from_thread: Vec<ThreadIx>,
    /// Head of the arrow.
    pub to_time: Vec<Time>,
    /// Its thread.
    pub to_thread: Vec<ThreadIx>,
}

/// The kind of a kernel span.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
pub enum KernelSpanKind {
    /// Hard interrupt handler.
    #[default]
    Irq = 0,
    /// Softirq.
    Softirq = 1,
    /// System call (includes blocked time).
    Syscall = 2,
    /// Wait for one of the kernel's own locks (lock:contention_begin..end).
    LockContention = 3,
}

/// Names of softirqs, as the kernel numbers them.
pub const SOFTIRQS: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];

/// Spans inside the kernel, sorted by (kind, start).
#[derive(Clone, Debug, Default)]
pub struct KernelSpans {
    /// Its kind.
    pub kind: Vec<KernelSpanKind>,
    /// Entry.
    pub start: Vec<Time>,
    /// Exit.
    pub end: Vec<Time>,
    /// CPU at entry.
    pub cpu: Vec<u16>,
    /// Thread that was running (irq: that was interrupted).
    pub thread: Vec<ThreadIx>,
    /// Name of the handler, softirq or system call; kind of the kernel lock: "spin", "mutex", "rwsem read"...
    pub name: Vec<StrIx>,
}

/// The kind of a lock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
pub enum LockKind {
    /// Not said.
    #[default]
    Other = 0,
    /// Mutex.
    Mutex = 1,
    /// Mutex that its holder may take again.
    Recursive = 2,
    /// Mutex that finds errors.
    ErrorCheck = 3,
    /// Mutex that spins for a while before it sleeps.
    Adaptive = 4,
    /// Readers and writers.
    RwLock = 5,
    /// Spin lock.
    Spin = 6,
}

/// The source of what is known of a lock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
pub enum LockSource {
    /// The lock probe, in front of the C library's functions.
    #[default]
    Probe = 0,
    /// ito itself.
    Ito = 1,
    /// Uprobes on functions that the user named.
    Uprobe = 2,
}

impl LockSource {
    /// For tables.
    pub fn word(self) -> &'static str {
        match self {
            LockSource::Probe => "probe",
            LockSource::Ito => "ito",
            LockSource::Uprobe => "uprobe",
        }
    }
}

/// One life of a lock: from its initialisation, or from its first use, to the next at the same address.
#[derive(Clone, Debug, Default)]
pub struct Lock {
    /// Its process.
    pub process: ProcessIx,
    /// Its address.
    pub object: u64,
    /// When this life began.
    pub since: Time,
    /// Its kind.
    pub kind: LockKind,
    /// The source of this.
    pub source: LockSource,
    /// Survives its holder's death.
    pub robust: bool,
    /// Its holder inherits priority, or runs at its ceiling.
    pub inherits: bool,
    /// Processes share it.
    pub shared: bool,
    /// Its symbol, when it is a variable of a module; else kind and first site: "mutex at main".
    pub name: StrIx,
    /// Place that initialised it, or first used it; none: not known.
    pub first_site: StrIx,
}

/// Details of LockWait slices, in (thread, start) order.
#[derive(Clone, Debug, Default)]
pub struct LockWaits {
    /// The waiting thread.
    pub thread: Vec<ThreadIx>,
    /// When it asked: the slice's start.
    pub start: Vec<Time>,
    /// The lock that it waited for (address).
    pub object: Vec<u64>,
    /// The place in the program that asked.
    pub site: Vec<StrIx>,
    /// Thread id of the holder then, as the lock itself says; 0: it does not.
    pub holder: Vec<i32>,
}

/// Light lock probe: acquisitions without a wait, counted, in (thread, time) order.
#[derive(Clone, Debug, Default)]
pub struct LockCounts {
    /// The thread.
    pub thread: Vec<ThreadIx>,
    /// When counted. The LockHold slice that starts then, if one does, was recorded for all of these.
    pub time: Vec<Time>,
    /// The lock (address).
    pub object: Vec<u64>,
    /// Acquisitions since the thread's row before for this lock.
    pub n: Vec<u64>,
}

/// What a thread did when the recording ended.
#[derive(Clone, Debug, Default)]
pub struct ThreadEnd {
    /// The thread.
    pub thread: ThreadIx,
    /// Its state.
    pub state: ThreadState,
    /// When it last had a CPU, which may be before the recording; none: it has one, or it is not known.
    pub since: Option<Time>,
    /// What it waits for, where its system call tells: `mutex`, `rwlock`, `thread` (its end), `child`, `file lock`, `pipe`, `socket`; else empty.
    pub on: String,
    /// The threads and processes that have it or its other end; those of a process have the process's number.
    pub by: Vec<Peer>,
}

/// A thread or process that a thread waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// Process.
    pub pid: i32,
    /// Thread.
    pub tid: i32,
    /// Name.
    pub name: String,
}

/// Limits that kept the program from CPUs that the machine has, as the recorder read them.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// Cgroups with a CPU limit, on the way from the program's to the root; by path.
    pub groups: Vec<GroupLimit>,
    /// In which cgroup a process was since when: (when, process id, path), by time.
    pub members: Vec<(Time, i32, String)>,
    /// The CPUs that threads of the program might use, since when; by time. Empty: not known.
    pub allowed: Vec<AllowedCpus>,
    /// The affinity masks of threads, by time. A thread that is in none: not known.
    pub masks: Vec<ThreadMasks>,
}

/// One cgroup's CPU limit.
#[derive(Clone, Debug, Default)]
pub struct GroupLimit {
    /// Path.
    pub group: String,
    /// The limit as its files had it last: `cpu.max 30000 100000`.
    pub text: StrIx,
    /// The limit in CPUs.
    pub cpus: f64,
    /// Readings of its counters, by time: between two of them they rose, or not.
    pub readings: Vec<LimitReading>,
}

/// One reading of a cgroup's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitReading {
    /// When.
    pub time: Time,
    /// Periods so far in which it ran out.
    pub n_throttled: u64,
    /// Time for which its queues were kept from their CPUs so far, all CPUs together, ns.
    pub throttled_ns: u64,
}

/// CPUs that threads of the program might use.
#[derive(Clone, Debug, Default)]
pub struct AllowedCpus {
    /// From then on.
    pub since: Time,
    /// By the affinity mask of at least one thread.
    pub cpus: Vec<u32>,
    /// By the cpuset of its cgroup; empty: not known.
    pub cpuset: Vec<u32>,
}

/// Threads with one affinity mask.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadMasks {
    /// From then on, until another reading or the thread's end.
    pub since: Time,
    /// CPUs that they may use, in order.
    pub cpus: Vec<u32>,
    /// The threads' numbers.
    pub tids: Vec<i32>,
}

/// Events that are missing.
#[derive(Clone, Debug)]
pub struct Loss {
    /// Why: "kernel buffer overrun", "ring full", "overwritten", "too big", "no site", "frozen", "page damaged"...
    pub cause: String,
    /// CPU whose kernel events are missing.
    pub cpu: Option<u16>,
    /// Thread whose annotations are missing.
    pub thread: ThreadIx,
    /// Between these.
    pub when: Range<Time>,
    /// Number of events; 0: unknown.
    pub count: u64,
    /// The option or setting that prevents it.
    pub remedy: String,
}
