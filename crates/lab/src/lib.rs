//! Measures what tracing costs on this machine.
//!
//! | module | does |
//! |---|---|
//! | [`ops`] | the operations of LMbench |
//! | [`worker`] | the process that runs them |
//! | [`config`], [`tracer`] | what is switched on meanwhile |
//! | [`events`] | `kasuri events`: what each tracepoint costs |
//! | [`costs`], `cache` | costs that were measured; the files that keep them between runs |
//! | [`machine`], [`parallel`] | what waking, sleeping and sharing data cost on this machine: one pass, and what is remembered of several |
//! | [`overhead`] | `kasuri overhead`: operations x configurations |
//! | [`lmbench`] | LMbench's own programs in place of our operations |
//! | [`volume`] | `kasuri overhead --volume`: MB/s by selection, event kind and CPU |
//! | [`pages`] | events in the kernel's raw pages |
//! | [`stats`] | medians with intervals |
//!
//! Like `kasuri-record` it touches the kernel; nothing here prints or exits.
mod cache;
pub mod config;
pub mod costs;
mod error;
pub mod events;
pub mod lmbench;
pub mod machine;
pub mod ops;
pub mod overhead;
pub mod pages;
pub mod parallel;
pub mod stats;
pub mod tracer;
pub mod volume;
pub mod worker;

pub use error::{Error, Result};
