//! Columns -> files that other tools read. Knows the model, and of the analyses only how call paths divide times. A format is a row of [`EXPORTS`] and a
//! module.
//!
//! | module | writes |
//! |---|---|
//! | [`perfetto`] | Perfetto's protobuf |
//! | [`chrome`] | Trace Event Format, JSON |
//! | [`firefox`] | Firefox Profiler's processed profile, JSON |
//! | [`speedscope`] | speedscope's evented profiles, JSON |
//! | [`pprof`] | pprof's profile.proto: times by call path |
//! | [`paraver`] | Paraver's .prv, .pcf and .row |
//! | [`ctf`] | Common Trace Format 1.8 and 2, a directory |
//! | [`trace_dat`] | trace-cmd's trace.dat |
//! | `sched_events` | the scheduler's events, as formats with kernel events want them |
//! | `json` | JSON that is written while it is made |
//! | `args` | the arguments of each slice and instant |
//! | `exports` | the table of formats |
//! | `samples` | what formats with call paths share |
//! | `exported` | what each export reports back |
#![forbid(unsafe_code)]

mod args;
pub mod chrome;
pub mod ctf;
mod exported;
mod exports;
pub mod firefox;
mod json;
pub mod paraver;
pub mod perfetto;
pub mod pprof;
mod samples;
mod sched_events;
pub mod speedscope;
pub mod trace_dat;

pub use exported::Exported;
pub use exports::{EXPORTS, Export, Shape, WriteDirectory, WriteFile};
