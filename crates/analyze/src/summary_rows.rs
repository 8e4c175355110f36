//! The parts of the answer of `kasuri stat`: the rows of its tables, and groups of numbers.
//!
//! They know nothing of how they come about, so that each analysis can use them. [`crate::SCHEMA`] covers them too.
use crate::HeldUp;
use kasuri_base::usdt::COUNTED;
use schemars::JsonSchema;
use serde::Serialize;

/// The program's CPU time as the events show it and as the kernel counted it. The two differ where a kernel hides switches, where
/// events were lost or paused, by what ran before the first event, and because the kernel counts from the wake-up where one thread
/// takes the CPU from another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct CpuTime {
    /// User and system time of the program and of all its descendants that were waited for (getrusage).
    pub kernel_ns: i64,
    /// `on_cpu_ns` of the whole recording.
    pub seen_ns: i64,
    /// `kernel_ns - seen_ns`: negative where more was inferred than ran.
    pub unseen_ns: i64,
    /// `unseen_ns / kernel_ns`.
    pub unseen_share: f64,
    /// Sum of the threads' `counted_ns`; none: run times were not recorded, or some of them may be lost.
    pub counted_ns: Option<i64>,
    /// Switches that the kernel did not report, on all CPUs, as later events show.
    pub hidden_switches: u64,
    /// Of these: those whose time the kernel's run times tell. Of the others it is inferred.
    pub placed_switches: u64,
}

/// The kinds of data in the recording. False: the numbers concerned are 0 or none because they were not recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Known {
    /// On-CPU times, switches, preemptions and migrations.
    pub switches: bool,
    /// Wake-ups, their latency, and blocked time apart from time in the run queue.
    pub wakeups: bool,
    /// Other processes.
    pub other_processes: bool,
}

/// Percentiles by nearest rank: `pN` is the smallest value such that at least N % of all values are <= it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Latency {
    /// Median.
    pub p50: i64,
    /// 99th percentile.
    pub p99: i64,
    /// The largest.
    pub max: i64,
}

/// The wake-up of a thread of the program that took longest, of equal ones the first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct WorstWakeup {
    /// When the thread was woken.
    pub at_ns: i64,
    /// From then to when it ran.
    pub latency_ns: i64,
    /// Process id.
    pub pid: i32,
    /// Thread id.
    pub tid: i32,
    /// The thread's name.
    pub thread: String,
    /// The CPU on which it ran then; none: not known.
    pub cpu: Option<u16>,
}

/// One thread. `on_cpu_ns + runnable_ns + blocked_ns + unknown_ns == alive_ns`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct ThreadSummary {
    /// Process id.
    pub pid: i32,
    /// Thread id.
    pub tid: i32,
    /// The process's name.
    pub process: String,
    /// The thread's name.
    pub name: String,
    /// Whether it belongs to what was recorded.
    pub is_target: bool,
    /// Times it was taken off a CPU.
    pub switches: u64,
    /// Of these, while it could still run.
    pub preemptions: u64,
    /// Times it was moved to another CPU.
    pub migrations: u64,
    /// Times it was woken.
    pub wakeups: u64,
    /// Time for which it existed within the range.
    pub alive_ns: i64,
    /// Time on a CPU.
    pub on_cpu_ns: i64,
    /// The same as the kernel counts it for getrusage (sched_stat_runtime); none: not recorded, some of it may be lost, or a part of the
    /// recording is asked for.
    pub counted_ns: Option<i64>,
    /// Time ready to run without a CPU: `woken_ns + preempted_ns`.
    pub runnable_ns: i64,
    /// Of `runnable_ns`: after being woken or created.
    pub woken_ns: i64,
    /// Of `runnable_ns`: after being taken off a CPU.
    pub preempted_ns: i64,
    /// Time asleep, stopped or idle.
    pub blocked_ns: i64,
    /// Of `blocked_ns`: uninterruptible (D).
    pub disk_sleep_ns: i64,
    /// Time about which nothing is known: before its first event, or across a loss.
    pub unknown_ns: i64,
    /// From being woken to running; none when it never was.
    pub wake_latency_ns: Option<Latency>,
}

/// One CPU. `target_ns + other_ns + idle_ns + unknown_ns == wall_ns`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct CpuSummary {
    /// Its number.
    pub cpu: u32,
    /// Time it ran the target's threads.
    pub target_ns: i64,
    /// Time it ran other threads.
    pub other_ns: i64,
    /// Time it ran none.
    pub idle_ns: i64,
    /// Time about which nothing is known.
    pub unknown_ns: i64,
    /// Time in interrupt and softirq handlers (inside the times above); none when they were not recorded.
    pub irq_ns: Option<i64>,
    /// Switches to another thread.
    pub switches: u64,
}

/// All slices of one name and kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct AnnotationSummary {
    /// Its name.
    pub name: String,
    /// `file:line` of the first site of that name, when known.
    pub place: Option<String>,
    /// `work`, `barrier`, `join`, `cond`, `io`, `wait`, `lock_wait`, `lock_hold` or `task`.
    #[schemars(extend("enum" = ["work", "barrier", "join", "cond", "io", "wait", "lock_wait", "lock_hold", "task"]))]
    pub kind: &'static str,
    /// Number of slices.
    pub count: u64,
    /// Number of threads that executed it.
    pub threads: u32,
    /// Sum of their lengths; one that encloses its like counts twice.
    pub total_ns: i64,
    /// The same without the slices directly inside.
    pub self_ns: i64,
    /// Of `total_ns`: the thread was on a CPU; none when the kernel's events were not recorded.
    pub on_cpu_ns: Option<i64>,
    /// Mean length.
    pub mean_ns: f64,
    /// Median length.
    pub p50_ns: i64,
    /// 99th percentile.
    pub p99_ns: i64,
    /// The longest.
    pub max_ns: i64,
    /// Slices whose beginning or end was not seen; they are in the numbers above, cut to what was seen.
    pub open: u64,
}

/// All points in time of one name and kind: what was annotated and has no length.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct PointSummary {
    /// Its name; a message's is its text.
    pub name: String,
    /// `file:line` of the first site of that name, when known.
    pub place: Option<String>,
    /// `instant` (a message too), `counter` or `flow`.
    #[schemars(extend("enum" = ["instant", "counter", "flow"]))]
    pub kind: &'static str,
    /// Number of instants, values or arrows.
    pub count: u64,
    /// Number of threads (flows: that an arrow leaves); counters: of processes.
    pub threads: u32,
    /// The first.
    pub first_ns: i64,
    /// The last.
    pub last_ns: i64,
    /// Counters: the least value...
    pub min: Option<f64>,
    /// ...the greatest...
    pub max: Option<f64>,
    /// ...and the last.
    pub last: Option<f64>,
}

/// A function or loop of a process that switched its annotation off; since then its time is in what called it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct SwitchedOffSummary {
    /// Its name.
    pub name: String,
    /// `file:line`, when known.
    pub place: Option<String>,
    /// Process id.
    pub pid: i32,
    /// Number of its slices in the range, before it was switched off. How often it ran since then is not known.
    pub count: u64,
    /// The mean that was too short.
    pub mean_ns: u64,
    /// When it was switched off; none: before the recording.
    pub off_ns: Option<i64>,
}

/// Load imbalance of one repeated annotation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Imbalance {
    /// The annotation's name; of `region`, the barrier's.
    pub name: String,
    /// Process id.
    pub pid: i32,
    /// How instances were told apart: `region` (all that a thread does between two barrier waits), `barrier` (slices of this name between
    /// two barrier waits), `occurrence` (the k-th slice of this name on each thread) or `total` (all of them).
    #[schemars(extend("enum" = ["region", "barrier", "occurrence", "total"]))]
    pub by: &'static str,
    /// The definition of busy time: `on_cpu` (time on a CPU, outside annotated waits) or, where the kernel's scheduler was not
    /// recorded, `wall` (all time outside annotated waits).
    #[schemars(extend("enum" = ["on_cpu", "wall"]))]
    pub busy: &'static str,
    /// Parallel regions: one execution by all threads together.
    pub instances: u64,
    /// Most threads that executed one instance.
    pub threads: u32,
    /// Sum over instances of the largest busy time.
    pub max_busy_ns: i64,
    /// Sum over instances of the mean busy time.
    pub mean_busy_ns: f64,
    /// (max - mean) / max of the two sums above: 0 is balanced.
    pub imbalance: f64,
    /// Sum over instances of `threads * (max - mean)`: CPU time others waited for the slowest.
    pub cost_ns: f64,
    /// Thread that was the slowest most often.
    pub worst_tid: i32,
    /// Its name.
    pub worst_thread: String,
    /// Share of the instances in which it was the slowest: near 1 says that the split itself is uneven.
    pub worst_share: f64,
    /// The same thread was the slowest in at least 80 % of at least 3 instances.
    pub is_static: bool,
    /// Who is late: `static` (the same threads each time: at least half of the cost stays when the threads' times are added up over all
    /// instances), `mixed` (a tenth), `changing` (another each time), or `unknown` (fewer than 8 instances).
    #[schemars(extend("enum" = ["static", "mixed", "changing", "unknown"]))]
    pub cause: &'static str,
    /// Friedman's test over the instances: how often chance alone makes threads differ as much; below 0.01 they differ.
    /// None when there are too few instances, or no difference in any.
    pub p_value: Option<f64>,
    /// Of `cost_ns`: what a better constant split would save.
    pub static_cost_ns: f64,
    /// Its threads, busiest first.
    pub by_thread: Vec<ImbalanceThread>,
    /// Imbalance of the single instances.
    pub rounds: Rounds,
}

/// One thread's part in a repeated annotation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct ImbalanceThread {
    /// Thread id.
    pub tid: i32,
    /// Its name.
    pub name: String,
    /// Sum of its busy times.
    pub busy_ns: i64,
    /// Instances in which it was the slowest.
    pub slowest: u64,
}

/// How (max - mean) / max is distributed over the instances; percentiles by nearest rank.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Rounds {
    /// 10th percentile.
    pub p10: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// That of the worst instance.
    pub max: f64,
    /// When the worst instance began.
    pub worst_at_ns: i64,
    /// Instances with an imbalance of 0 to 10 %, 10 to 20 % ... 90 to 100 %.
    pub histogram: Vec<u64>,
}

/// Waits, or critical sections, of one kind at one object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct WaitSummary {
    /// `barrier`, `join`, `cond`, `io`, `wait`, `lock_wait` or `lock_hold`.
    #[schemars(extend("enum" = ["barrier", "join", "cond", "io", "wait", "lock_wait", "lock_hold"]))]
    pub kind: &'static str,
    /// The name the first of them has.
    pub name: String,
    /// Process id.
    pub pid: i32,
    /// The object (address), as the program gave it.
    pub object: u64,
    /// Number of waits or holds.
    pub count: u64,
    /// Number of threads concerned.
    pub threads: u32,
    /// Sum.
    pub total_ns: i64,
    /// Median.
    pub p50_ns: i64,
    /// 99th percentile.
    pub p99_ns: i64,
    /// The longest.
    pub max_ns: i64,
}

/// Annotated tasks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct TaskSummary {
    /// Tasks seen, with those that were folded.
    pub count: u64,
    /// Of these, seen to end.
    pub ended: u64,
    /// Of `count`: small tasks that the runtime counted, and whose time is that of the tasks which ran them.
    pub folded: u64,
    /// Runs (start or resume..suspend or end).
    pub runs: u64,
    /// Runs that went on on another thread than the task's run before.
    pub moved: u64,
    /// Sum of all runs, nested ones once.
    pub run_ns: i64,
    /// Sum over tasks of creation..first run, where both were seen.
    pub queued_ns: i64,
    /// Work and span; none when no task ran.
    pub graph: Option<TaskGraph>,
}

/// The task graph: creations, joins and dependences of tasks. `span_ns <= work_ns`. A scheduler that leaves no CPU idle while a task
/// is ready needs on P CPUs at least `max(work_ns / P, span_ns)` and at most `work_ns / P + span_ns`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct TaskGraph {
    /// Work (T1): time that tasks were on a CPU, without annotated waits; with parallel regions of OpenMP also that of code outside of tasks,
    /// from a master's first region to the end of its last.
    pub work_ns: i64,
    /// Span (Tinf): the same along the heaviest chain of tasks that had to follow one another. Where tasks are folded, at most
    /// this: the tasks in one could have run at the same time.
    pub span_ns: i64,
    /// `work_ns / span_ns`: on more CPUs than this, the program cannot use them. Where tasks are folded, at least this.
    pub parallelism: f64,
    /// Tasks that are folded in others.
    pub folded: u64,
    /// Of `work_ns`: a task ran, but whether its thread was on a CPU was not seen.
    pub unknown_ns: i64,
    /// The heaviest chain by name of its tasks, or of the region that code outside of tasks is in, most time first; sums to `span_ns`.
    pub path: Vec<PathPart>,
    /// Parallelism over time: how many tasks run at once if each runs as soon as it can; mean in each twentieth of the span.
    pub profile: Vec<f64>,
    /// Of the tasks' `queued_ns`: until the last task that each depends on had ended.
    pub waiting_ns: i64,
    /// Of the tasks' `queued_ns`: ready, and no worker ran it.
    pub ready_ns: i64,
    /// Dependences.
    pub depends: u64,
    /// Of these: the task started before the one that it depends on had ended.
    pub early: u64,
    /// Edges that are left out because they close a circle.
    pub circular: u64,
    /// Joins and dependences that are left out because no task has the id that they name.
    pub unknown_edges: u64,
    /// Waits of code outside of tasks and of parallel regions, between creations of tasks on its thread. What it creates after them needs what it waited for, which the
    /// graph does not have: with such waits its span is too short.
    pub waits_outside: u64,
}

/// Tasks of one name on the heaviest chain.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct PathPart {
    /// Their name.
    pub name: String,
    /// Number of stays on the chain one after the other.
    pub tasks: u64,
    /// Tasks of any name that are folded in them.
    pub folded: u64,
    /// Their time on it.
    pub ns: i64,
}

/// The interference of one process with target threads that were ready to run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Interference {
    /// Process id of who ran instead.
    pub pid: i32,
    /// Its name.
    pub process: String,
    /// Whether it is part of the target: the program competes with itself (more threads than CPUs).
    pub is_target: bool,
    /// Times one of its threads took the CPU from a target thread that could still run.
    pub preemptions: u64,
    /// Sum over target threads of the time they were ready in a CPU's queue while this process ran on that CPU.
    pub delayed_ns: i64,
    /// Target threads it delayed.
    pub threads_delayed: u32,
    /// CPUs on which it did, most delay first.
    pub cpus: Vec<u32>,
}

/// One move of a thread to another CPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Migration {
    /// When.
    pub time_ns: i64,
    /// Thread id.
    pub tid: i32,
    /// Its name.
    pub thread: String,
    /// From this CPU...
    pub from_cpu: u16,
    /// ...to this.
    pub to_cpu: u16,
    /// `wake-up` (its waker chose another CPU), `balance` (another CPU took it out of the queue, or from its CPU), `affinity`
    /// (the program asked for it; also at exec) or `unknown`.
    #[schemars(extend("enum" = ["wake-up", "balance", "affinity", "unknown"]))]
    pub why: &'static str,
    /// From when it last ran to when it next does; none when one of them was not seen.
    pub off_cpu_ns: Option<i64>,
}

/// Moves of one thread for one cause.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct MigrationGroup {
    /// Thread id.
    pub tid: i32,
    /// Its name.
    pub thread: String,
    /// As in `Migration`.
    pub why: &'static str,
    /// Number of moves.
    pub count: u64,
    /// Sum of the times off a CPU around them.
    pub off_cpu_ns: i64,
    /// The longest of them.
    pub longest_ns: i64,
    /// The most frequent way: from this CPU...
    pub from_cpu: u16,
    /// ...to this...
    pub to_cpu: u16,
    /// ...so many times.
    pub way_count: u64,
}

/// The rules for hints, each with its paragraph in docs/design/hints.md.
pub const HINT_KINDS: [&str; 30] = [
    "oversubscription",
    "interference",
    "misplaced",
    "schedule",
    "cpu_limit",
    "dead_lock",
    "hang",
    "gil",
    "lock_io",
    "starved",
    "imbalance",
    "small_parts",
    "serial_phase",
    "goroutines",
    "uv_pool",
    "one_after_another",
    "processes_in_turn",
    "page_faults",
    "naps",
    "taken_in_turns",
    "short_threads",
    "short_processes",
    "small_calls",
    "small_syncs",
    "allocator_lock",
    "crowd",
    "herd",
    "shared_generator",
    "collector",
    "busy",
];

/// A hint on what to try next.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Hint {
    /// A rule of docs/design/hints.md.
    #[schemars(extend("enum" = HINT_KINDS))]
    pub kind: &'static str,
    /// CPU time that it concerns, at most what can be gained.
    pub cost_ns: i64,
    /// The finding and the remedy, in plain words.
    pub text: String,
    /// A command that does it, or that shows more.
    pub command: Option<String>,
}

/// The cost of recording to the recorded program: events x measured cost of one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct TracingCost {
    /// Sum over all priced events that were written in the time of the program's threads.
    pub cost_ns: i64,
    /// The same with the lower ends of the measured intervals.
    pub low_ns: i64,
    /// The same with the upper ends.
    pub high_ns: i64,
    /// The sum over all priced events of the system, whoever met them.
    pub system_ns: i64,
    /// CPU time of the program, as the kernel accounts it.
    pub program_cpu_ns: Option<i64>,
    /// `cost_ns` as a share of the program's CPU time; none: nothing was measured, the range is not the whole recording, or the estimate
    /// is more than all of that time.
    pub share: Option<f64>,
    /// By kind, dearest first.
    pub events: Vec<EventKind>,
    /// Events whose cost is not known.
    pub unpriced: u64,
    /// CPU time the recorder took meanwhile, beside the program.
    pub recorder_cpu_ns: Option<i64>,
    /// How long calls of the recorder took for which threads of programs may have had to wait;
    /// none: not measured.
    pub held_up: Option<HeldUp>,
    /// Kernel buffers of all CPUs.
    pub buffer_bytes: u64,
}

/// Events of one kind and their cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct EventKind {
    /// `system/event`; "annotation".
    pub name: String,
    /// Number of events.
    pub count: u64,
    /// Of these: how many were written in the time of the program's threads.
    pub program: u64,
    /// Cost of one.
    pub each_ns: f64,
    /// Whether that is the middle of the other kernel events because this kind could not be measured.
    pub guessed: bool,
    /// `program * each_ns`.
    pub cost_ns: i64,
}

impl EventKind {
    /// The USDT probe whose hits these are, `PROVIDER:PROBE`.
    pub fn probe(&self) -> Option<&str> {
        self.name.strip_prefix(COUNTED)
    }
}

/// Lost events of one cause.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct LossSummary {
    /// Why they were lost.
    pub cause: String,
    /// Number of events; 0: unknown.
    pub count: u64,
    /// Number of separate gaps.
    pub gaps: u64,
    /// CPU, when one CPU's kernel events are concerned.
    pub cpu: Option<u16>,
    /// Thread, when one thread's annotations are concerned.
    pub tid: Option<i32>,
    /// First moment concerned.
    pub from_ns: i64,
    /// Last moment concerned.
    pub to_ns: i64,
    /// The remedy.
    pub remedy: String,
}

impl LossSummary {
    /// Whether it is what a flight recorder drops because it keeps the newest events only.
    pub fn is_by_design(&self) -> bool {
        self.cause == "overwritten"
    }
}
