//! What both sides of a recording need and neither may get from the other: the recorder and the byte formats on one
//! side, the model and the analyses on the other. It holds no bytes, no I/O and no columns.
//!
//! | module | holds |
//! |---|---|
//! | [`annotation`] | kinds of annotations, waits, locks and arguments, as kasuri.h numbers them |
//! | [`call_path`] | names of frames that are no functions |
//! | [`cost`] | what an event costs at a distance from the one before |
//! | [`parallel`] | what parallel work costs on a machine: waking threads, moving data |
//! | [`quick`] | keys that are looked up millions of times |
//! | [`random`] | random numbers that repeat |
//! | [`usdt`] | which probes are the two ends of one thing |
//! | [`words`] | text of strangers, for a screen and for a shell |
//! | `numbered` | the macro for enums that are numbers elsewhere |
#![forbid(unsafe_code)]

pub mod annotation;
pub mod call_path;
pub mod cost;
mod numbered;
pub mod parallel;
pub mod quick;
pub mod random;
pub mod usdt;
pub mod words;
