//! x86-64: the time stamp counter.

/// Whether user code can read a counter with one instruction.
pub const HAS_COUNTER: bool = true;

/// Kernel clock sources that are this counter: while one of them is current the kernel has found
/// the counter to run at one rate and in step on all CPUs.
pub const CLOCKSOURCES: &[&str] = &["tsc"];

/// The counter, ordered after all earlier loads and before all later ones.
#[inline]
pub fn counter() -> u64 {
    use core::arch::x86_64::{_mm_lfence, _rdtsc};
    // SAFETY: both instructions exist on every x86-64 CPU; Linux lets user code use rdtsc unless a
    // process forbids it for itself (PR_SET_TSC), which this one does not.
    unsafe {
        _mm_lfence();
        let count = _rdtsc();
        _mm_lfence();
        count
    }
}
