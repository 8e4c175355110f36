//! Names of frames that are no functions.

/// Begins the name of a frame that stands for a loop, not for a function: code that only waits for another thread. Its module
/// follows (docs/format.md, "Call paths").
pub const SPIN_LOOP: &str = "a spin loop in ";

/// Begins the names of functions that a Python interpreter runs, as in the perf maps that Python writes.
pub const IN_PYTHON: &str = "py::";

/// Stands for functions of an interpreter that were not known when the path was followed: what its frame called was called by
/// them, and they by the frame's caller (docs/format.md, "Call paths").
pub const CALLERS_NOT_KNOWN: &str = "py::(callers not known)";

/// The module of functions that the recorder found in the memory of a Python interpreter.
pub const PYTHON: &str = "[python]";
