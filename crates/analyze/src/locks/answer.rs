//! The answer's tables. Field names are the keys of `kasuri locks --json`.
use schemars::JsonSchema;
use serde::Serialize;

/// Format of the JSON.
pub const LOCKS_SCHEMA: &str = "kasuri.locks/1";
/// A shorter wait was the price of taking a free lock, not a wait.
pub const CONTENDED_NS: i64 = 300;

/// The holder's name in [`WaitsFor`] where too many threads held the lock during a wait to list them.
pub const MANY: &str = "(many)";
/// Rows of [`Locks::inversions`] and [`Locks::order_cycles`] at most.
pub const MAX_INVERSIONS: usize = 256;

/// The use of locks. Times in ns; ratios are shares of 1, `None` when it is not known when threads ran, or nothing was seen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Use {
    /// `inside_cpu_ns` / CPU time of the process (of the thread, in rows of threads).
    pub lock_ratio: Option<f64>,
    /// Waiting / execution time: CPU time and the time blocked in such waits.
    pub wait_ratio: Option<f64>,
    /// Critical sections.
    pub holds: u64,
    /// From acquired to released, by the wall clock: what others wait for.
    pub hold_wall_ns: i64,
    /// Of that: on a CPU...
    pub hold_cpu_ns: i64,
    /// ...ready but without a CPU...
    pub hold_preempted_ns: i64,
    /// ...asleep: I/O, another lock...
    pub hold_blocked_ns: i64,
    /// ...not known.
    pub hold_unknown_ns: i64,
    /// On a CPU inside any lock: of nested holds each moment counts once. In rows of one lock: as `hold_cpu_ns`.
    pub inside_cpu_ns: i64,
    /// By the wall clock.
    pub hold_p50_ns: i64,
    /// By the wall clock.
    pub hold_p99_ns: i64,
    /// By the wall clock.
    pub hold_max_ns: i64,
    /// Acquisitions of which the request was seen.
    pub requests: u64,
    /// Those that waited for [`CONTENDED_NS`] or more.
    pub contended: u64,
    /// contended / acquisitions; none: holds are a sample.
    pub contended_share: Option<f64>,
    /// Time of those waits...
    pub wait_ns: i64,
    /// ...of it on a CPU: spinning, going to sleep, waking up.
    pub wait_spin_ns: i64,
    /// The longest.
    pub wait_max_ns: i64,
}

/// One lock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct LockRow {
    /// As the program calls it.
    pub name: String,
    /// Process.
    pub pid: i32,
    /// Address.
    pub object: u64,
    /// `mutex`, `rwlock`, `spin lock`...
    pub kind: &'static str,
    /// Source of its events: `probe`, `ito`, `uprobe`, or `annotation` (KASURI_LOCK_* of kasuri.h).
    pub source: &'static str,
    /// Threads, or tasks of a runtime, that took it.
    pub threads: u32,
    /// Part of the waiting during which the lock was held; for the rest it was free, and the waiter on its way to a CPU.
    pub holder_ns: i64,
    /// Of that, the holder was on a CPU...
    pub holder_running_ns: i64,
    /// ...ready without one...
    pub holder_preempted_ns: i64,
    /// ...asleep.
    pub holder_blocked_ns: i64,
    /// Of the critical path: with the lock held, or asked for, by the thread that the path goes through; none: no path of what was looked at.
    pub path_share: Option<f64>,
    /// The longest queue that passed the lock from one to the next without a break.
    pub convoy: Option<Convoy>,
    /// Its use.
    #[serde(flatten)]
    pub used: Use,
}

/// Threads that queue at a lock and go on queueing: everyone waits for everyone once per round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Convoy {
    /// Acquisitions in a row that each waited for the one before.
    pub length: u32,
    /// Different threads among them.
    pub threads: u32,
    /// When it began, ns from the recording's origin.
    pub from_ns: i64,
    /// When it ended.
    pub to_ns: i64,
}

/// One thread or process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct OwnerRow {
    /// Its name.
    pub name: String,
    /// Process.
    pub pid: i32,
    /// Thread; the pid for a process.
    pub tid: i32,
    /// Its use of locks.
    #[serde(flatten)]
    pub used: Use,
}

/// All processes of one name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct ProgramRow {
    /// Their name: of what was executed last.
    pub name: String,
    /// Number of processes.
    pub processes: u32,
    /// Their CPU time, ns.
    pub cpu_ns: i64,
    /// CPU time in system calls / CPU time; none: not recorded, or no CPU time.
    pub syscall_ratio: Option<f64>,
    /// Waiting for the kernel's own locks / CPU time and the time blocked in that; none: not recorded or never by any program, or no CPU time.
    pub kernel_contention_ratio: Option<f64>,
    /// Their use of locks; ratios are shares of their own CPU time.
    #[serde(flatten)]
    pub used: Use,
}

/// All tasks of one name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct TaskRow {
    /// Their name: what a runtime calls them, mostly the function's.
    pub name: String,
    /// Process.
    pub pid: i32,
    /// Number of tasks that took locks.
    pub tasks: u32,
    /// Their use of locks; ratios are shares of their own CPU time.
    #[serde(flatten)]
    pub used: Use,
}

/// Waits that are for no lock: conditions, semaphores, barriers, ends of threads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct WaitRow {
    /// `condition`, `barrier`, `join`, `I/O`, `other`.
    pub kind: &'static str,
    /// Place in the program, or its name there.
    pub place: String,
    /// Process.
    pub pid: i32,
    /// Address of what was waited on; 0: not known.
    pub object: u64,
    /// Waits.
    pub count: u64,
    /// Threads, or tasks of a runtime, that waited.
    pub threads: u32,
    /// Their time.
    pub wait_ns: i64,
    /// The longest.
    pub wait_max_ns: i64,
}

/// One place in the program that takes a lock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct SiteRow {
    /// The lock.
    pub lock: String,
    /// `file:line`.
    pub place: String,
    /// Its use from there.
    #[serde(flatten)]
    pub used: Use,
}

/// One thread that kept another waiting.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct WaitsFor {
    /// The thread, or the tasks of this name, that waited.
    pub waiter: String,
    /// Its tid; 0: tasks.
    pub waiter_tid: i32,
    /// The thread, or the tasks of this name, that held the lock meanwhile; "" when none did: it was on its way to the waiter; [`MANY`]: too many to list.
    pub holder: String,
    /// Its tid; 0: none, or tasks; -1: many.
    pub holder_tid: i32,
    /// The lock.
    pub lock: String,
    /// Time.
    pub ns: i64,
    /// Of it the holder was on a CPU...
    pub running_ns: i64,
    /// ...ready without one...
    pub preempted_ns: i64,
    /// ...asleep.
    pub blocked_ns: i64,
}

/// Two locks taken in both orders: two threads can stop each other for ever.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Inversion {
    /// One lock.
    pub first: String,
    /// The other.
    pub second: String,
    /// Times `second` was taken while `first` was held...
    pub first_then_second: u64,
    /// ...and the other way round.
    pub second_then_first: u64,
    /// A thread that did the former...
    pub tid_a: i32,
    /// ...and one that did the latter; the same: no other thread was seen to do either.
    pub tid_b: i32,
    /// Place where `second` was taken in the first order; "": not known.
    pub place_a: String,
    /// Place where `first` was taken in the other order.
    pub place_b: String,
    /// A lock that was held each time, in both orders: it keeps them from colliding. None: there is none.
    pub guard: Option<String>,
    /// Two threads can stop each other for ever: there are two of them, and no guard.
    pub can_deadlock: bool,
}

/// One step of a circle of locks: `taken` while `held` is held.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct OrderStep {
    /// The lock that is held.
    pub held: String,
    /// The lock that is taken.
    pub taken: String,
    /// Times.
    pub times: u64,
    /// A thread that did it.
    pub tid: i32,
    /// Where, as far as known; "": not known.
    pub place: String,
}

/// Three or more locks that are taken in a circle; no two of them in both orders.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct OrderCycle {
    /// Each lock held while the next is taken; the last one's `taken` is the first one's `held`.
    pub steps: Vec<OrderStep>,
}

/// A system call of one process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct SyscallRow {
    /// The process.
    pub process: String,
    /// Its pid.
    pub pid: i32,
    /// The call.
    pub name: String,
    /// Calls.
    pub count: u64,
    /// From entry to return.
    pub wall_ns: i64,
    /// Of it on a CPU.
    pub cpu_ns: i64,
    /// The longest.
    pub max_ns: i64,
}

/// Waits for the kernel's own locks of one type from one caller.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct KernelLockRow {
    /// `spinlock`, `mutex`, `rwsem read`...
    pub kind: String,
    /// The system call that the thread was in; "": none, or system calls were not recorded.
    pub caller: String,
    /// Waits.
    pub count: u64,
    /// Their time.
    pub wait_ns: i64,
    /// The longest.
    pub max_ns: i64,
}

/// Everything about a recording's locks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Locks {
    /// The name and version of this schema.
    #[schemars(extend("const" = LOCKS_SCHEMA))]
    pub schema: &'static str,
    /// The recorded command.
    pub command: Vec<String>,
    /// Whether it is known when threads ran.
    pub knows_states: bool,
    /// Length of what was looked at, ns.
    pub wall_ns: i64,
    /// CPU time of the program, ns.
    pub cpu_ns: i64,
    /// All locks together.
    pub total: Use,
    /// CPU time in system calls / CPU time; none: not recorded.
    pub syscall_ratio: Option<f64>,
    /// Waiting for the kernel's own locks / CPU time and the time blocked in that; none: not recorded, or never.
    pub kernel_contention_ratio: Option<f64>,
    /// System calls by process and call, most CPU time first; empty: not recorded.
    pub syscalls: Vec<SyscallRow>,
    /// Waits for the kernel's own locks.
    pub kernel_locks: Vec<KernelLockRow>,
    /// Asleep in futex calls outside every recorded wait: locks that no probe sees; none: system calls were not recorded.
    pub unseen_futex_ns: Option<i64>,
    /// Why no acquisition is in the recording; none: there are some. Not seen does not mean 0.
    pub not_seen: Option<String>,
    /// The lock probe that was asked for: `full`, `light`; "": none.
    pub lock_probe: String,
    /// The light probe recorded a sample of the holds: holds and lock ratios are of that sample, waits are complete.
    pub sampled: bool,
    /// Each lock, most waited for first.
    pub locks: Vec<LockRow>,
    /// Each thread.
    pub threads: Vec<OwnerRow>,
    /// Tasks of a runtime by name; empty: there are none.
    pub tasks: Vec<TaskRow>,
    /// Each process.
    pub processes: Vec<OwnerRow>,
    /// Processes by name, most CPU time first, also those without locks; empty: there was but one process.
    pub programs: Vec<ProgramRow>,
    /// Each place that takes a lock.
    pub sites: Vec<SiteRow>,
    /// Waits for what is no lock, most time first.
    pub waits: Vec<WaitRow>,
    /// Pairs of a waiting thread and the holder it waited for, most time first.
    pub waits_for: Vec<WaitsFor>,
    /// Locks taken in both orders, most often first; at most [`MAX_INVERSIONS`].
    pub inversions: Vec<Inversion>,
    /// Longer circles of the lock order, where no two locks of it were taken in both orders.
    pub order_cycles: Vec<OrderCycle>,
}
