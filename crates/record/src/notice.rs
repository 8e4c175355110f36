//! What a recording says: notices while it runs, a summary at its end. Whoever calls this crate decides how to show them.
use crate::error::Error;
use crate::losses::Losses;
use std::path::PathBuf;

/// What the recorder has to say while it runs.
#[derive(Debug)]
#[non_exhaustive]
pub enum Notice<'a> {
    /// Recording has begun; what it cannot show.
    Started {
        /// As `meta.json` lists it.
        missing: &'a [String],
    },
    /// Something the user should know now.
    Warning(String),
    /// Something good to know.
    Note(String),
    /// The recording ends; what follows is packing.
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

/// What came of a recording.
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
    /// What was lost.
    pub losses: Losses,
    /// What the files do not have because it was damaged.
    pub damage: Vec<String>,
    /// What programs had written and no file took: kept in shared memory for `kasuri recover`.
    pub left: Option<LeftInRings>,
    /// Bytes of the packed files; of the directory when it was not packed.
    pub bytes: u64,
    /// Bytes recorded, before packing.
    pub raw_bytes: u64,
    /// CPU time of this process while recording, ns.
    pub recorder_cpu_ns: u64,
    /// With a budget: what kernel events cost as a share of the CPU time used, and how often some were switched.
    pub budget: Option<(f64, usize)>,
    /// What the recording cannot show.
    pub missing: Vec<String>,
    /// Why the recording is not all it should be; what was kept is readable.
    pub failure: Option<Error>,
}

/// Annotations that could be written nowhere, and wait for room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftInRings {
    /// The session's directory.
    pub session: PathBuf,
    /// How much there is.
    pub bytes: u64,
}
