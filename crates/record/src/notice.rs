//! The output of a recording: notices while it runs, a summary when it ends. The caller decides how to show them.
use crate::error::Error;
use crate::losses::Losses;
use std::path::PathBuf;

/// A message of the recorder while it runs.
#[derive(Debug)]
#[non_exhaustive]
pub enum Notice<'a> {
    /// Recording has begun.
    Started {
        /// The information that the recording will lack, as in `meta.json`.
        missing: &'a [String],
    },
    /// A message that the user should see now.
    Warning(String),
    /// A message that may help the user.
    Note(String),
    /// The recording has ended and packing begins.
    Stopped,
    /// Progress of packing.
    Packing {
        /// Bytes done.
        done: u64,
        /// Bytes in all.
        total: u64,
    },
    /// The flight recorder saved a file.
    Saved(&'a std::path::Path),
}

/// Receives notices.
pub type Notify<'a> = &'a mut dyn FnMut(Notice<'_>);

/// The result of a recording.
#[derive(Debug, Default)]
pub struct Summary {
    /// The program's exit status, as a shell shows it.
    pub exit_status: Option<i32>,
    /// Packed files, in order; more than one from a flight recorder.
    pub files: Vec<PathBuf>,
    /// The recording directory, if it still exists.
    pub dir: Option<PathBuf>,
    /// Kernel events kept (known once packed).
    pub kernel_events: u64,
    /// Annotations kept (known once packed).
    pub annotation_events: u64,
    /// Events that were emitted and not kept.
    pub losses: Losses,
    /// Damaged parts that were left out of the files.
    pub damage: Vec<String>,
    /// Annotations that could not be written to a file: they stay in shared memory for `kasuri recover`.
    pub left: Option<LeftInRings>,
    /// Bytes of the packed files, or of the directory when it was not packed.
    pub bytes: u64,
    /// Bytes recorded, before packing.
    pub raw_bytes: u64,
    /// CPU time of this process while recording, ns.
    pub recorder_cpu_ns: u64,
    /// With a budget: the cost of kernel events as a share of the CPU time used, and the number of times that events
    /// were switched.
    pub budget: Option<(f64, usize)>,
    /// Information that the recording lacks, and why.
    pub missing: Vec<String>,
    /// The first error, if there was one. Everything written before it is readable.
    pub failure: Option<Error>,
}

/// Annotations that could not be written because the disk is full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftInRings {
    /// The session's directory.
    pub session: PathBuf,
    /// Bytes that wait in the rings.
    pub bytes: u64,
}
