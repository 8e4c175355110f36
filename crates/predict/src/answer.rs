//! What `kasuri predict` answers. Field names are the keys of `--json`; times in ns, shares of 1.
use crate::machine::Machine;
use serde::Serialize;

/// Format of the JSON.
pub const SCHEMA: &str = "kasuri.predict/1";

/// How much a program's locks cost it on two CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Efficiency 0.95 and more.
    Low,
    /// 0.75 to 0.95.
    Medium,
    /// Below.
    High,
}

impl Class {
    /// The class of an efficiency on two CPUs.
    pub fn of(efficiency: f64) -> Class {
        if efficiency >= 0.95 {
            Class::Low
        } else if efficiency >= 0.75 {
            Class::Medium
        } else {
            Class::High
        }
    }

    /// As people read it.
    pub fn word(self) -> &'static str {
        match self {
            Class::Low => "low",
            Class::Medium => "medium",
            Class::High => "high",
        }
    }
}

/// The speed-up on one number of CPUs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// CPUs.
    pub cpus: usize,
    /// Expected.
    pub speedup: f64,
    /// With what is uncertain at its worst...
    pub low: f64,
    /// ...and at its best.
    pub high: f64,
    /// If the program made as many threads as there are CPUs and dealt them the same work; none: not that kind of program.
    pub more_threads: Option<f64>,
    /// Share of the CPUs that is in use.
    pub cpu_use: f64,
    /// Share of the threads' time spent waiting for locks.
    pub wait_ratio: f64,
    /// What keeps it from being faster.
    pub limit: Limit,
}

/// What keeps a program from being faster.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Limit {
    /// The CPUs are in use: more of them would help.
    Cpus,
    /// A lock is held, or on its way to a waiter, nearly always.
    Lock {
        /// Its name.
        name: String,
        /// Share of the time.
        busy: f64,
    },
    /// Waiting for a lock that is not saturated, and waking up again.
    LockWaits {
        /// The lock waited for most.
        name: String,
        /// Share of the threads' time.
        share: f64,
    },
    /// There are fewer threads than CPUs.
    Threads {
        /// How many work.
        n: usize,
    },
    /// Threads wait for each other: serial phases, barriers, pipelines.
    Dependencies {
        /// CPUs in use on average.
        running: f64,
    },
    /// Sleeps and I/O.
    Delays,
    /// Code runs slower when other CPUs are busy.
    Memory,
}

/// What a model says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelAnswer {
    /// Its name.
    pub name: String,
    /// Speed-up for each of [`Prediction::points`]; none: it does not apply there.
    pub speedup: Vec<Option<f64>>,
    /// What it assumes that matters here.
    pub note: String,
}

/// The program after a change.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WhatIf {
    /// The change.
    pub change: String,
    /// Speed-up over today's program on one CPU, for each of [`Prediction::points`].
    pub speedup: Vec<f64>,
}

/// A speed-up that was measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// CPUs.
    pub cpus: usize,
    /// Speed-up over the one-CPU recording.
    pub speedup: f64,
}

/// One lock of the recorded program.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LockProfile {
    /// Its name.
    pub name: String,
    /// Process.
    pub pid: i32,
    /// Address.
    pub object: u64,
    /// CPU time inside / CPU time of the program.
    pub ratio: f64,
    /// Mean CPU time of a hold, ns.
    pub hold_ns: f64,
    /// Acquisitions.
    pub n: u64,
    /// Holds took so many times longer in the second run; none: no second run.
    pub inflation: Option<f64>,
    /// CPUs from which on it is nearly always held; none: never.
    pub saturates_at: Option<usize>,
}

/// Everything.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The recorded command.
    pub command: Vec<String>,
    /// CPUs it was recorded on.
    pub recorded_cpus: usize,
    /// Wall time of the recording, ns.
    pub recorded_wall_ns: u64,
    /// What the replay makes of that on as many CPUs, ns: the nearer, the better the replay knows the program.
    pub replayed_wall_ns: u64,
    /// Threads.
    pub threads: usize,
    /// Those of them that do real work.
    pub workers: usize,
    /// CPU time of the program, ns.
    pub work_ns: u64,
    /// Longest chain of work that depends on itself, ns; locks not counted.
    pub span_ns: u64,
    /// CPU time inside locks / CPU time.
    pub lock_ratio: f64,
    /// Speed-up on two CPUs / what it would be without locks.
    pub lock_efficiency: f64,
    /// From that.
    pub class: Class,
    /// Costs of the machine that the prediction is for.
    pub machine: Machine,
    /// Predicted.
    pub points: Vec<Point>,
    /// Measured.
    pub measured: Vec<Measured>,
    /// Locks, the one inside which most time is spent first.
    pub locks: Vec<LockProfile>,
    /// Which model is believed, and why.
    pub believed: String,
    /// All models, the believed one first.
    pub models: Vec<ModelAnswer>,
    /// Changes, with what they would bring.
    pub what_if: Vec<WhatIf>,
    /// What makes the answer uncertain.
    pub notes: Vec<String>,
}

impl Prediction {
    /// The prediction for so many CPUs.
    pub fn at(&self, cpus: usize) -> Option<&Point> {
        self.points.iter().find(|p| p.cpus == cpus)
    }
}
