//! A recording as columns. Start reading at [`types`].
mod time;
pub mod types;

pub use time::{Duration, Time};
pub use types::*;
