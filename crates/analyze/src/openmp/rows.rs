//! The rows that `kasuri stat` and its JSON show of OpenMP.
use schemars::JsonSchema;
use serde::Serialize;

/// Regions and loops of OpenMP that were recorded with their calls (`kasuri record --openmp`).
///
/// An execution counts, whole, where it begins in the range. Busy time is as in [`crate::Imbalance`]: on a CPU, outside of
/// annotated waits; a task that runs while its thread waits is busy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct OpenMp {
    /// Parallel regions by place, longest first.
    pub regions: Vec<OpenMpRegion>,
    /// Loops and sections by place and schedule, longest first.
    pub loops: Vec<OpenMpLoop>,
}

/// The executions of a region or a loop.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct OpenMpTimes {
    /// Executions.
    pub count: u64,
    /// Most threads of one execution.
    pub threads: u32,
    /// From the first thread's start, summed over the executions: of a region to the end of the wait of all, of a loop to the last
    /// thread's end.
    pub wall_ns: i64,
    /// Busy time of all threads.
    pub work_ns: i64,
    /// Time of all threads at the region's barriers, or at the one that follows the loop at once, without the tasks that they ran there.
    pub barrier_ns: i64,
    /// (max - mean) / max of the threads' busy times, summed over the executions; of a region over their parts between two barriers.
    pub imbalance: f64,
    /// The sum of max: the executions if nothing but its slowest thread's work took time.
    pub busiest_ns: i64,
    /// The sum of max - mean: an even split would make the executions shorter by this and no more.
    pub even_saves_ns: i64,
}

/// A parallel region.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct OpenMpRegion {
    /// `parallel`, and where it is.
    pub name: String,
    /// File and line; none where they are not known.
    pub place: Option<String>,
    /// Process id.
    pub pid: i32,
    /// Its executions. An even split is one between two barriers.
    #[serde(flatten)]
    pub times: OpenMpTimes,
}

/// A loop or a sections construct.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct OpenMpLoop {
    /// `for`, its schedule, and where it is; `sections` and where.
    pub name: String,
    /// File and line; none where they are not known.
    pub place: Option<String>,
    /// The region that it runs in, most often.
    pub region: String,
    /// Process id.
    pub pid: i32,
    /// Its executions by a team.
    #[serde(flatten)]
    pub times: OpenMpTimes,
    /// Chunks or sections whose times were seen.
    pub chunks: u64,
    /// Iterations in them; 0 for sections.
    pub iterations: u64,
    /// What other schedules would do, replayed from the times of the chunks, shortest first; empty where `refused` says why.
    pub schedules: Vec<Replayed>,
    /// Why nothing was replayed; none where it was.
    pub refused: Option<&'static str>,
}

/// A loop under another schedule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Replayed {
    /// As OMP_SCHEDULE has it: `static`, `dynamic,8`, `guided,1`.
    pub schedule: String,
    /// Sum over the executions of the time until its last thread is done.
    pub wall_ns: i64,
    /// How much shorter that is than the recorded schedule in the same replay; negative: longer.
    pub saves_ns: i64,
}

/// What saves less than this share of the time is not worth a line: another run differs by more.
const WORTH: f64 = 0.05;

impl OpenMpLoop {
    /// The reason in `refused` for which an even split is no bound: handing out fewer chunks saves more.
    pub const TOO_SHORT: &'static str = "its chunks are too short to be measured";

    /// The schedule to try; none where none is shorter by enough, or nothing was replayed.
    pub fn advice(&self) -> Option<&Replayed> {
        let first = self.schedules.first()?;
        let recorded = first.wall_ns.saturating_add(first.saves_ns);
        (first.saves_ns as f64 > WORTH * recorded as f64).then_some(first)
    }
}

impl OpenMpTimes {
    /// Whether it would gain from an even split.
    pub fn is_uneven(&self) -> bool {
        self.imbalance > WORTH
    }
}
