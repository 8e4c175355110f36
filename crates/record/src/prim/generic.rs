//! Any other CPU: no counter that user code may read; stamps are CLOCK_MONOTONIC.

/// Whether user code can read a counter with one instruction.
pub const HAS_COUNTER: bool = false;

/// Kernel clock sources that are this counter.
pub const CLOCKSOURCES: &[&str] = &[];

/// CLOCK_MONOTONIC in ns, so that anchors still name one instant.
#[inline]
pub fn counter() -> u64 {
    crate::clock::monotonic_ns()
}
