//! Closed-form and numerical models: the cross-checks of the replay. Each file says its source, what it assumes and
//! where it holds; docs/design/predict.md compares them.
//!
//! All of them see a program as [`Load`]: N equal threads that compute, wait elsewhere, and hold locks, over and over.
pub mod bounds;
pub mod ctmc;
pub mod mva;
pub mod surrogate;
pub mod workspan;

/// One round of an average thread, in any unit of time (all the same).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Load {
    /// Threads.
    pub n_threads: usize,
    /// On a CPU, outside locks.
    pub compute: f64,
    /// Off the CPU for other reasons than locks and CPUs: I/O, timers.
    pub delay: f64,
    /// On a CPU, holding each lock: one number for each lock.
    pub holds: Vec<f64>,
}

impl Load {
    /// CPU time of a round.
    pub fn cpu(&self) -> f64 {
        self.compute + self.hold()
    }

    /// Time inside locks of a round.
    pub fn hold(&self) -> f64 {
        self.holds.iter().sum()
    }

    /// Time inside the busiest lock.
    pub fn worst_hold(&self) -> f64 {
        self.holds.iter().copied().fold(0.0, f64::max)
    }

    /// Rounds per unit of time on one CPU: the CPU is the only place to queue at, since a holder needs it too. The
    /// delays of some threads overlap the CPU time of others.
    pub fn one_cpu_rate(&self) -> f64 {
        mva::throughput(
            &mva::Network { delay: self.delay, stations: vec![mva::Station::new(self.cpu(), 1)] },
            self.n_threads,
        )
    }
}

/// A machine repairman (C. Palm, 1943), in closed form: as many CPUs as threads, so that computing is a delay and each
/// lock a station. What the numerical models must agree with there.
#[cfg(test)]
fn with_cpus_for_all(load: &Load) -> f64 {
    mva::throughput(
        &mva::Network {
            delay: load.compute + load.delay,
            stations: (load.holds.iter()).map(|&hold| mva::Station::new(hold, 1)).collect(),
        },
        load.n_threads,
    )
}
