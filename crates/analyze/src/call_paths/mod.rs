//! Call paths joined with exact times: the code behind each CPU-second.
//!
//! Goal: each nanosecond that a thread ran or was blocked has the call path of the sample that stands for it, or is said to be
//! unsampled. Method: a [`Cover`] names, for each instant of a thread, the sample that it belongs to; weights and the paths of a
//! loss are sums over parts of that cover, so they add up to the exact times that the scheduler's events give.
//! Rejected: a sample's weight as its period. It adds up to nothing, and the bias of a clock's ticks stays in it.
//!
//! | module | does |
//! |---|---|
//! | `cover` | the sample that each instant of a thread belongs to |
//! | `cursor` | searches by those who ask in order of time |
//! | `axes` | CPU time of a thread, or of short threads together, with the samples on it |
//! | `period` | the distance of on-CPU samples |
//! | `waits` | which block of a thread a wait's sample shows |
//! | `chains` | waits, and what ended them, and whose waits those ended |
//! | `calls` | what a call waits for, by its name |
//! | `join` | the account's classes with the paths that explain them |
//! | `sampled` | what samples say of running threads: spinning, or in a task runtime |
//! | `polls` | naps between tries |
//! | `phases` | code that several threads run at once |
//! | `turns` | whether threads that wait at one place take turns, or go on together |
//! | `wrappers` | functions that ask for locks for several others |
//! | `frames` | what is shown of a path, and whether a thread works there |
//! | `frames::kinds` | functions told apart by name: system, start of a thread, spinning, runtime library |
//! | `frames::awaited` | what a thread at a path waits for, and who asks for it |
//! | `hot` | the few paths that stand for many |
//! | `certainty` | how far shares may be from the true ones |
//! | `explained` | the time that has a named path, and why the rest has none |
//! | `summary` | the result as rows |
//! | `pieces` | the same at each instant of each CPU |
//! | `flame` | the tree of functions |
//! | `times` | all of it by thread and path, for other tools' formats |
//!
//! The rules: docs/design/call-paths.md, "Weights".
mod axes;
mod calls;
mod certainty;
mod chains;
mod cover;
mod cursor;
mod explained;
mod flame;
mod frames;
mod hot;
mod join;
mod killed;
mod period;
mod phases;
mod pieces;
mod polls;
mod rearmed;
mod sampled;
mod summary;
mod times;
mod turns;
mod waits;
mod wrappers;

pub(crate) use calls::{
    Call, UV_POOL, asks_for_lock, is_of_monitor, is_page_fault, is_python_look,
    is_shared_generator, makes_durable, waits_for_end, waits_for_event, waits_for_notify,
    waits_outside,
};
pub use calls::{is_gil, public_name};
pub use certainty::points_off;
pub use chains::{ChainNode, WaitChains};
pub use cover::{Cover, Owner, Unsampled, Weights};
pub use explained::{Explained, NamelessTime, UnsampledTime};
pub use flame::{FLAME_SCHEMA, Flame, FlameNode, FlameOptions, flame};
pub use frames::{allocates, is_of_a_library, is_pythons_own};
pub use hot::{Caller, HotPath, PathFrame, frame_name, is_libc};
pub use pieces::{Piece, Whereabouts};
pub use summary::{CallPathSummary, ClassPaths, Coverage, PathShares, RuntimeUse};
pub use times::{StatePart, ThreadTime, TimeOf, state_parts, thread_times};

pub(crate) use frames::{Frames, is_of_machine};
pub(crate) use hot::path_frame;
pub(crate) use sampled::Sampled;
pub(crate) use summary::{Collector, has_samples};

use crate::account::Class;
use kasuri_model::{Time, Trace};

/// The time that each sample stands for, over the whole recording.
pub fn weigh(trace: &Trace) -> Weights {
    Cover::new(trace).weights(trace, trace.span.clone())
}

/// When threads ran without doing the program's work, as samples tell; each by row of [`Trace::threads`], in order of time. Of
/// each stretch only the time on a CPU counts. Without samples nothing is known.
#[derive(Clone, Debug, Default)]
pub struct OffWork {
    /// In a loop that only waits for another thread.
    pub spinning: Vec<Vec<(Time, Time)>>,
    /// In a library that runs tasks, and not spinning there.
    pub runtime: Vec<Vec<(Time, Time)>>,
}

impl OffWork {
    pub(crate) fn new(trace: &Trace, sampled: &Sampled) -> OffWork {
        let of = |class: Class| {
            let tracks = sampled.tracks.iter().zip(&trace.threads);
            tracks
                .map(|(track, thread)| {
                    let stretches = track.stretches(thread.alive.end);
                    stretches
                        .filter(|&(_, _, row)| sampled.class(row) == Some(class))
                        .map(|(start, end, _)| (start, end))
                        .collect()
                })
                .collect()
        };
        OffWork { spinning: of(Class::Spinning), runtime: of(Class::TaskRuntime) }
    }
}
