//! Errors of the lab.
use std::io;
use std::path::PathBuf;

/// Result with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;

/// An error, with the remedy where there is one.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The worker cannot be started.
    #[error("cannot start {0}: {1}")]
    Start(PathBuf, #[source] io::Error),
    /// The worker's pipe broke.
    #[error("the measuring process ended: {0}")]
    Worker(#[source] io::Error),
    /// An operation failed.
    #[error("{0}: {1}")]
    Operation(&'static str, String),
    /// No operation can be run.
    #[error("nothing to measure: {0}")]
    Nothing(String),
    /// No such configuration.
    #[error(
        "no configuration {name:?}: {known}, or a subsystem of the kernel's events such as irq"
    )]
    NoConfig {
        /// The name that was given.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// No LMbench there.
    #[error(
        "no LMbench in {0}: neither it nor its bin/ nor bin/OS/ has lat_syscall; name the directory in which LMbench 3 was built"
    )]
    NoLmbench(PathBuf),
    /// The kernel refused something of tracefs.
    #[error("tracefs: {what}: {source}")]
    Tracefs {
        /// The action that failed.
        what: String,
        /// Why not.
        source: io::Error,
    },
    /// tracefs is not there.
    #[error("{why}; {remedy}")]
    Unavailable {
        /// Why.
        why: String,
        /// The remedy.
        remedy: String,
    },
    /// Another tracer could not be run.
    #[error("{name}: {why}")]
    Command {
        /// The configuration's name.
        name: String,
        /// The system's error.
        why: String,
    },
    /// The recorder refused.
    #[error(transparent)]
    Record(#[from] kasuri_record::Error),
    /// A file.
    #[error("{0}: {1}")]
    File(PathBuf, #[source] io::Error),
    /// Interrupted by the user.
    #[error("interrupted")]
    Interrupted,
}
