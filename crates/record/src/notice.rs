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
        /// As `meta.json` lists it.
        missing: &'a [String],
    },
    /// Something the user should know now.
    Warning(String),
    /// Something that may help the user.
    Note(String),
    /// The recording has ended and packing begins.
    Stopped,
    /// Packing: bytes done of bytes in all.
    Packing {
        /// Done.
        done: u64,
        /// In all.
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
    /// The recording directory, when it is still there.
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
    /// Bytes of the packed files; of the directory when it was not packed.
    pub bytes: u64,
    /// Bytes recorded, before packing.
    pub raw_bytes: u64,
    /// CPU time of this process while recording, ns.
    pub recorder_cpu_ns: u64,
    /// With a budget: what kernel events cost as a share of the CPU time used, and how often some were switched.
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
    /// How much there is.
    pub bytes: u64,
}
