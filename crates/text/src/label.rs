//! The names of limits, the same in every output: `kasuri predict`, its chart, and the report's tab of the prediction.
/// A limit as a phrase that follows "limited by".
pub fn limit(limit: &kasuri_predict::Limit) -> String {
    use kasuri_predict::Limit;
    match limit {
        Limit::Cpus => "the number of CPUs".into(),
        Limit::Lock { name, busy } => {
            format!("lock `{name}`, held {:.0} % of the time", 100.0 * busy)
        }
        Limit::LockWaits { name, share } => format!(
            "waits for lock `{name}` ({:.0} % of the threads' time)",
            100.0 * share
        ),
        Limit::Threads { n: 1 } => "1 busy thread".into(),
        Limit::Threads { n } => format!("{n} busy threads"),
        Limit::Dependencies { running } => {
            format!("threads that wait for each other ({running:.1} run on average)")
        }
        Limit::Delays => "sleep and I/O".into(),
        Limit::Memory => "memory: code runs slower while other CPUs are busy".into(),
        Limit::Unseen { lack } => format!(
            "what only the second run shows: {:.0} % slower than its events explain",
            100.0 * (lack - 1.0)
        ),
    }
}
