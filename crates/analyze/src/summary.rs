//! The answer of `kasuri stat`: what `--json` prints, field for field. The types of its parts are in `summary_rows`, and
//! of the account's in `account`.
//!
//! The schema is versioned by [`SCHEMA`]: fields may be added under the same version; a field that changes its
//! meaning or goes away raises it. All times are nanoseconds; points in time count from the recording's origin.
use crate::account::AccountSummary;
use crate::summary_rows::{
    AnnotationSummary, CpuSummary, CpuTime, Hint, Imbalance, Interference, Known, Latency,
    LossSummary, Migration, MigrationGroup, TaskSummary, ThreadSummary, TracingCost, WaitSummary,
};
use schemars::JsonSchema;
use serde::Serialize;

/// Name and version of the JSON that [`Summary`] serialises to.
pub const SCHEMA: &str = "kasuri.stat/1";

/// One recording, or a time range of it, in numbers.
/// See docs/design/states.md for how states come about.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Summary {
    /// The name and version of this schema.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: &'static str,
    /// The recorded command; empty for a system-wide recording.
    pub command: Vec<String>,
    /// Which processes are the program, and whose word that is.
    pub program: crate::Program,
    /// Exit status of the program as a shell would show it.
    pub exit_status: Option<i32>,
    /// Host name.
    pub host: String,
    /// Kernel release.
    pub kernel: String,
    /// Machine (architecture).
    pub machine: String,
    /// CPU model.
    pub cpu_model: String,
    /// "tracefs", "perf" or "none": without it, all numbers from kernel events are 0; see `known`.
    #[schemars(extend("enum" = ["tracefs", "perf", "none", ""]))]
    pub kernel_source: String,
    /// The numbers below that the recording could know at all.
    pub known: Known,
    /// Start of the range that was analysed.
    pub from_ns: i64,
    /// End of the range that was analysed.
    pub to_ns: i64,
    /// Length of the range.
    pub wall_ns: i64,
    /// CPUs whose scheduling was recorded; the machine's CPUs when none was.
    pub n_cpus: u32,
    /// CPUs on which a target thread ran.
    pub cpus_used: u32,
    /// `wall_ns * n_cpus`: the CPU time there was.
    pub capacity_ns: i64,
    /// CPU time that the target's threads used.
    pub on_cpu_ns: i64,
    /// `on_cpu_ns / capacity_ns`; none when the kernel's events were not recorded.
    pub cpu_use: Option<f64>,
    /// The program's CPU time as the kernel accounts it, beside `on_cpu_ns`; none where it is not known, and of a part of the recording.
    pub cpu_time: Option<CpuTime>,
    /// Times a target thread was taken off a CPU.
    pub switches: u64,
    /// Of these, while it could still run.
    pub preemptions: u64,
    /// Times a target thread was moved to another CPU.
    pub migrations: u64,
    /// Times a target thread was woken.
    pub wakeups: u64,
    /// From being woken to running, over the target's wake-ups; none when there were none.
    pub wake_latency_ns: Option<Latency>,
    /// The wake-up that took longest; none when there were none.
    pub worst_wakeup: Option<crate::WorstWakeup>,
    /// Number of events read: kernel.
    pub n_kernel_events: u64,
    /// Number of events read: annotations.
    pub n_annotation_events: u64,
    /// The use of `capacity_ns`.
    pub account: AccountSummary,
    /// The code behind the account; absent without samples of the program's call paths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_paths: Option<crate::call_paths::CallPathSummary>,
    /// Threads, longest on a CPU first.
    pub threads: Vec<ThreadSummary>,
    /// CPUs in order of their number.
    pub cpus: Vec<CpuSummary>,
    /// Annotated slices by name and kind, most total time first.
    pub annotations: Vec<AnnotationSummary>,
    /// Functions and loops that `kasuri-annotate` annotated until they were seen to be too short, most slices first.
    pub switched_off: Vec<crate::SwitchedOffSummary>,
    /// Annotated instants, counters and flows by name, most first; absent where there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<crate::PointSummary>,
    /// Load imbalance of annotations that several threads execute, most CPU time lost first.
    pub imbalance: Vec<Imbalance>,
    /// Regions and loops of OpenMP; absent where none is recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub openmp: Option<crate::OpenMp>,
    /// Annotated waits and critical sections by kind and object, most time first.
    pub waits: Vec<WaitSummary>,
    /// Annotated tasks.
    pub tasks: TaskSummary,
    /// Programs that ran while target threads were ready on that CPU, most time first.
    pub interference: Vec<Interference>,
    /// Moves to another CPU by thread and cause, most time off a CPU first.
    pub migration_groups: Vec<MigrationGroup>,
    /// Each move to another CPU, in time order.
    pub migration_list: Vec<Migration>,
    /// Hints, largest gain first.
    pub hints: Vec<Hint>,
    /// The cost of recording; of the whole recording, for any range.
    pub tracing: TracingCost,
    /// Events that were lost, by cause.
    pub losses: Vec<LossSummary>,
    /// Things that the recording cannot show, and the command that would grant them.
    pub missing: Vec<String>,
    /// Where almost all time stamps are, ns since the recording's start; absent where none stand apart, and for a part of the
    /// recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without_stray_ns: Option<[i64; 2]>,
}
