//! The answer: where CPU time went in one window, for the machine, each process and each thread.
use crate::latency::Latencies;
use schemars::JsonSchema;
use serde::Serialize;

/// Time that threads were able to run and did not, by what had the CPU that they waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Wait {
    /// Another thread of the same process, ns.
    pub own_ns: u64,
    /// A thread of another process, ns.
    pub others_ns: u64,
    /// No thread: it took so long until the CPU took it up; or it is not known who, ns.
    pub idle_ns: u64,
}

impl Wait {
    /// All of it, ns.
    pub fn sum_ns(&self) -> u64 {
        self.own_ns + self.others_ns + self.idle_ns
    }

    /// Adds another.
    pub fn add(&mut self, other: &Wait) {
        self.own_ns += other.own_ns;
        self.others_ns += other.others_ns;
        self.idle_ns += other.idle_ns;
    }
}

/// The longest wait for a CPU that ended in the window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Worst {
    /// Its length, ns.
    pub ns: u64,
    /// When it ended, CLOCK_MONOTONIC ns.
    pub at_ns: u64,
    /// The thread.
    pub tid: i32,
    /// Its name.
    pub name: String,
    /// The CPU that took it up.
    pub cpu: u32,
}

/// One thread that existed in the window. The times below sum to the part of the window in which it existed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ThreadRow {
    /// Its process; 0: not known.
    pub pid: i32,
    /// Its number.
    pub tid: i32,
    /// Its name.
    pub name: String,
    /// On a CPU, ns.
    pub run_ns: u64,
    /// Able to run, and not on a CPU.
    pub wait: Wait,
    /// Asleep, ns.
    pub asleep_ns: u64,
    /// In an uninterruptible sleep, usually I/O, ns.
    pub disk_ns: u64,
    /// In a state that no event has shown yet, ns.
    pub unknown_ns: u64,
    /// Times it left a CPU to wait for something.
    pub blocked: u64,
    /// Times it was taken off a CPU.
    pub preempted: u64,
    /// Whether it does not run and is not in a queue as the window ends, as far as events have shown.
    pub is_blocked: bool,
    /// It ended in the window.
    pub has_ended: bool,
}

/// One process that had a thread in the window: sums of its threads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct ProcessRow {
    /// Its number; 0: threads whose process is not known.
    pub pid: i32,
    /// The name of its main thread.
    pub name: String,
    /// Threads that existed in the window.
    pub n_threads: usize,
    /// On CPUs, ns.
    pub run_ns: u64,
    /// Able to run, and not on a CPU.
    pub wait: Wait,
    /// Asleep, ns of all threads together.
    pub asleep_ns: u64,
    /// In uninterruptible sleeps, ns of all threads together.
    pub disk_ns: u64,
    /// In states that no event has shown yet, ns.
    pub unknown_ns: u64,
    /// Times its threads left a CPU to wait for something.
    pub blocked: u64,
    /// Times they were taken off one.
    pub preempted: u64,
    /// (longest - mean) / longest of the CPU times of its threads that ran for 1 % of the window or more; `None`: fewer than two
    /// did.
    pub imbalance: Option<f64>,
    /// Waits for a CPU after a wake-up.
    #[serde(skip)]
    pub latencies: Latencies,
}

/// One window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Window {
    /// CLOCK_MONOTONIC, ns.
    pub start_ns: u64,
    /// CLOCK_MONOTONIC, ns.
    pub end_ns: u64,
    /// CPUs that have buffers.
    pub n_cpus: usize,
    /// CPUs ran threads, ns of all together.
    pub busy_ns: u64,
    /// CPUs were idle, ns.
    pub idle_ns: u64,
    /// It is not known what CPUs did: no event has shown it yet, ns. busy + idle + unknown is `n_cpus` times the window.
    pub unknown_ns: u64,
    /// Events applied.
    pub events: u64,
    /// Times CPUs went from one thread to another.
    pub switches: u64,
    /// Wake-ups.
    pub wakeups: u64,
    /// Places where a CPU's events have a gap, or make no sense: what was known of that CPU was forgotten there.
    pub gaps: u64,
    /// Waits for a CPU after a wake-up, of all threads.
    #[serde(skip)]
    pub latencies: Latencies,
    /// The longest of them; `None`: there was none.
    pub worst: Option<Worst>,
    /// Those with most CPU time first.
    pub processes: Vec<ProcessRow>,
    /// The same.
    pub threads: Vec<ThreadRow>,
}

impl Window {
    /// Its length, ns; at least 1.
    pub fn length_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns).max(1)
    }

    /// A time of all threads or CPUs together as a number of CPUs.
    pub fn cpus(&self, ns: u64) -> f64 {
        ns as f64 / self.length_ns() as f64
    }
}
