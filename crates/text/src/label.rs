//! What the answers' limits are called; the same words in every output.
/// What keeps a program from being faster, as people read it.
pub fn limit(limit: &kasuri_predict::Limit) -> String {
    use kasuri_predict::Limit;
    match limit {
        Limit::Cpus => "CPUs: more of them help".into(),
        Limit::Lock { name, busy } => format!(
            "lock `{name}` is saturated (taken {:.0} % of the time)",
            100.0 * busy
        ),
        Limit::LockWaits { name, share } => {
            format!(
                "waits for lock `{name}` and waking up again ({:.0} % of the threads' time)",
                100.0 * share
            )
        }
        Limit::Threads { n: 1 } => "there is only 1 busy thread".into(),
        Limit::Threads { n } => format!("there are only {n} busy threads"),
        Limit::Dependencies { running } => {
            format!("threads wait for each other: {running:.1} run on average")
        }
        Limit::Delays => "sleeps and I/O".into(),
        Limit::Memory => "code runs slower beside busy CPUs".into(),
    }
}
