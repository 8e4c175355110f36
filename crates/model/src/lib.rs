//! A recording as columns. Start reading at [`types`]; [`Trace::load`] fills them.
//!
//! | module | does |
//! |---|---|
//! | [`types`] | the columns |
//! | [`input`] | the events that the passes read, from a recording or from vectors ([`Input`]) |
//! | `load` | a recording's blocks as such events |
//! | `kernel_events` | kernel event types and their fields -> such events |
//! | `merge`, `sched`, `spans`, `table`, `tape` | kernel events -> threads, states, occupancy, wake-ups, spans |
//! | `sched_log` | the scheduler's events themselves, kept for exports |
//! | `annotate` | annotation events -> slices, tasks, flows, counters |
//! | `build` | runs the passes, puts rows in their final order |
//! | [`label`] | what things are called when the recording gives them no name |
//! | [`arrow`] | arrows between threads: flows, and from a task's creation to its first run |
#![forbid(unsafe_code)]

mod annotate;
pub mod arrow;
mod build;
mod check;
mod error;
mod inner;
pub mod input;
mod kernel_events;
pub mod label;
mod load;
mod lock_calls;
mod merge;
mod prev_state;
mod query;
mod sched;
mod sched_log;
mod spans;
mod syscalls;
mod table;
mod tape;
mod text_events;
mod time;
pub mod types;
mod vec_source;

pub use build::build;
pub use error::Error;
pub use inner::{InnerName, InnerThread};
pub use kasuri_format::meta::cost_at;
pub use kernel_events::{RawEvents, RawSetup, SOFTIRQS};
pub use prev_state::PrevState;
pub use query::{OccupancyRow, StateRow};
pub use sched_log::{OnCpu, SchedEvent, SchedLog, SchedWhat};
pub use syscalls::name as syscall_name;
pub use text_events::{TextEvent, TextEvents};
pub use time::{Duration, Time};
pub use types::*;
pub use vec_source::{AnnotationVec, CpuVec, Input};
