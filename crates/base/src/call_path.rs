//! Names of frames that are no functions.

/// Begins the name of a frame that stands for a loop, not for a function: code that only waits for another thread. Its module
/// follows (docs/format.md, "Call paths").
pub const SPIN_LOOP: &str = "a spin loop in ";
