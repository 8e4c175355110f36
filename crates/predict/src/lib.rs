//! From a recording to the speed-up on more CPUs. [`predict`] is what `kasuri predict` shows; [`Prediction`] is its JSON.
//!
//! | module | does |
//! |---|---|
//! | `extract` | a recording -> a [`program::Program`]: what each thread would do on any number of CPUs |
//! | [`replay`] | runs a program on P CPUs: the predictor |
//! | `replays`, `costs` | the replays of one program, remembered, and what waking and sharing cost in them |
//! | [`models`] | closed-form and numerical models: its cross-checks |
//! | `doubt` | what the replay does not know, and when there is no number |
//! | `second` | what a recording on more CPUs says of all that |
//! | `predict`, `profile`, [`whatif`] | puts them side by side, says what limits, what changes would bring |
//! | [`plan`] | schedules of a task graph, and their bounds: `kasuri plan` |
//! | [`machine`] | what waking, handing over and sharing data cost |
#![forbid(unsafe_code)]
mod answer;
mod costs;
mod doubt;
mod extract;
pub mod machine;
pub mod models;
pub mod plan;
mod predict;
mod profile;
pub mod program;
pub mod replay;
mod replays;
mod sample;
mod second;
pub mod whatif;

pub use answer::*;
pub use extract::{Extract, Recording, Unfit, extract, speedup_of};
pub use machine::Machine;
pub use predict::{CPUS, Options, from_extracts, predict};
pub use profile::{graph, load};
pub use second::SecondRun;
