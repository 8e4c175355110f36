//! A recording as columns. Start reading at [`types`]; [`build`] fills them from streams of events, which the readers of
//! `kasuri_import` or vectors ([`Input`]) give. No file format is known here.
//!
//! | module | does |
//! |---|---|
//! | [`types`] | the columns |
//! | [`input`] | the events that the passes read |
//! | `merge`, `sched`, `spans`, `table`, `state_log` | kernel events -> threads, states, occupancy, wake-ups, spans |
//! | `sched_log` | the scheduler's events themselves, kept for exports |
//! | `annotate` | annotation events -> slices, tasks, flows, counters |
//! | `build` | runs the passes, puts rows in their final order |
//! | `choice` | which threads are the program, when the trace does not say so, or the user wants another |
//! | `call_paths` | columns of call paths and samples |
//! | [`label`] | what things are called when the recording gives them no name |
//! | [`arrow`] | arrows between threads: flows, and from a task's creation to its first run |
#![forbid(unsafe_code)]

mod annotate;
pub mod arrow;
mod build;
mod call_paths;
mod check;
mod choice;
mod column;
mod error;
mod hidden_run;
mod inner;
pub mod input;
pub mod label;
mod lock_calls;
mod merge;
mod probe_calls;
mod query;
mod sched;
mod sched_log;
mod spans;
mod state_log;
mod stray;
pub mod switched_off;
mod table;
mod time;
pub mod types;
mod vec_source;

pub use build::build;
pub use call_paths::{CallPaths, CodeFrames, FrameKind, SampleKind, Samples, SamplingChange};
pub use choice::{Candidate, Choice, NoSuch, ProgramBy};
pub use column::Column;
pub use error::Error;
pub use inner::InnerName;
pub use input::{AnnotationVec, CpuVec, InnerThread};
pub use query::{OccupancyRow, StateRow};
pub use sched_log::{OnCpu, SchedEvent, SchedLog, SchedWhat};
pub use stray::Stray;
pub use time::{Duration, Time};
pub use types::*;
pub use vec_source::Input;
