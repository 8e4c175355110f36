//! The answer of `kasuri predict`. Field names are the keys of `--json`; times in ns, shares of 1.
use crate::machine::Machine;
use crate::second::SecondRun;
use schemars::JsonSchema;
use serde::Serialize;

/// Format of the JSON.
pub const SCHEMA: &str = "kasuri.predict/1";

/// How much a program's locks cost it: the worse of what they leave of the speed on two CPUs and how far they let it grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Efficiency 0.95 and more, and no lock caps the speed-up below 10.
    Low,
    /// 0.75 and more, and no cap below 2.5.
    Medium,
    /// The rest.
    High,
}

impl Class {
    /// The class of an efficiency on two CPUs and of the lowest cap of a lock; none: no lock caps it.
    pub fn of(efficiency: f64, cap: Option<f64>) -> Class {
        let cap = cap.unwrap_or(f64::INFINITY);
        if efficiency >= 0.95 && cap >= 10.0 {
            Class::Low
        } else if efficiency >= 0.75 && cap >= 2.5 {
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
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
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
    /// The reason why it is not faster.
    pub limit: Limit,
}

/// Reasons why a program is not faster.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
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
        /// Threads that work.
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
    /// What the second run shows, and no event of the first says.
    Unseen {
        /// The replay's speed-up over the measured one.
        lack: f64,
    },
}

/// The prediction of one model.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ModelAnswer {
    /// Its name.
    pub name: String,
    /// Speed-up for each of [`Prediction::points`]; none: it does not apply there.
    pub speedup: Vec<Option<f64>>,
    /// The assumption that matters most here.
    pub note: String,
}

/// The program after a change.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct WhatIf {
    /// The change.
    pub change: String,
    /// Speed-up over today's program on one CPU, for each of [`Prediction::points`].
    pub speedup: Vec<f64>,
}

/// A speed-up that was measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Measured {
    /// CPUs.
    pub cpus: usize,
    /// Speed-up over the one-CPU recording.
    pub speedup: f64,
}

/// A lock that bounds the speed-up on any number of CPUs: only one thread at a time is inside.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Cap {
    /// Its name.
    pub lock: String,
    /// The program on one CPU / the time that the lock is held: no number of CPUs makes it faster, unless the lock is held for less.
    pub speedup: f64,
}

/// Locks that the replay found taken in a circle, each held by a thread that waited for the next.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Deadlock {
    /// Their names.
    pub locks: Vec<String>,
}

impl Deadlock {
    /// As people read it.
    pub fn text(&self) -> String {
        match &self.locks[..] {
            [one] => format!("takes `{one}` while it holds it"),
            [one, two] => format!("takes `{one}` and `{two}` in both orders"),
            locks => {
                let names: Vec<String> = locks.iter().map(|l| format!("`{l}`")).collect();
                format!("takes {} in a circle", names.join(", "))
            }
        }
    }
}

/// One lock of the recorded program.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
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

/// The speed-up on other numbers of CPUs, and what it follows from.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Prediction {
    /// The name and version of this schema.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: &'static str,
    /// The recorded command.
    pub command: Vec<String>,
    /// CPUs it was recorded on.
    pub recorded_cpus: usize,
    /// Wall time of the recording, ns.
    pub recorded_wall_ns: u64,
    /// ...of it, time that other programs took, ns.
    pub lost_wall_ns: u64,
    /// The replay's wall time on the same number of CPUs, ns: the nearer, the better the replay reproduces the program.
    pub replayed_wall_ns: u64,
    /// Threads.
    pub threads: usize,
    /// Those of them that do real work.
    pub workers: usize,
    /// CPU time of the program, ns.
    pub work_ns: u64,
    /// Longest chain of work that depends on itself, ns; locks not counted.
    pub span_ns: u64,
    /// CPU time inside locks / CPU time; none: no lock was seen.
    pub lock_ratio: Option<f64>,
    /// Speed-up on two CPUs / what it would be without locks; none: no lock was seen.
    pub lock_efficiency: Option<f64>,
    /// Speed-up on two CPUs without locks, over today's program on one CPU.
    pub without_locks: f64,
    /// The lock that lets the speed-up grow least; none: no lock is shared by threads.
    pub cap: Option<Cap>,
    /// From efficiency and cap; none: no lock was seen.
    pub class: Option<Class>,
    /// Locks that can stop the program for ever, as found on the way; empty: the replay met none.
    pub deadlocks: Vec<Deadlock>,
    /// Costs of the machine that the prediction is for.
    pub machine: Machine,
    /// Why there are no speed-ups, or with a second run only those of its number of CPUs; empty: there are.
    pub refused: Vec<String>,
    /// Predicted.
    pub points: Vec<Point>,
    /// What the second recording says; none: there is none, or it used no more CPUs.
    pub second: Option<SecondRun>,
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
    /// Reasons why the answer is uncertain.
    pub notes: Vec<String>,
}

/// A replay that is farther off the recorded time than this share does not reproduce the program.
const RELIABLE: f64 = 0.1;
/// The share of the recorded time that others have to leave for the replay to be compared with it.
const LEFT: f64 = 0.05;

impl Prediction {
    /// The replay's time on the recorded CPUs against the recorded time without what others took: 0.05 is 5 % too long. None: others
    /// left too little to compare with.
    pub fn replay_error(&self) -> Option<f64> {
        let recorded = self.recorded_wall_ns.saturating_sub(self.lost_wall_ns);
        let enough = recorded as f64 >= LEFT * self.recorded_wall_ns.max(1) as f64;
        enough.then(|| self.replayed_wall_ns as f64 / recorded as f64 - 1.0)
    }

    /// The same as a clause about the replay.
    pub(crate) fn replay_check(&self) -> String {
        match self.replay_error() {
            Some(error) => format!("is {:+.1} % off the recorded time", 100.0 * error),
            None => "cannot be checked, as other programs had the CPUs nearly all the time".into(),
        }
    }

    /// Whether the replay reproduces the recording well enough for its speed-ups to say something.
    pub fn is_reliable(&self) -> bool {
        self.replay_error().is_some_and(|error| error.abs() <= RELIABLE)
    }

    /// The prediction for so many CPUs.
    pub fn at(&self, cpus: usize) -> Option<&Point> {
        self.points.iter().find(|p| p.cpus == cpus)
    }
}
