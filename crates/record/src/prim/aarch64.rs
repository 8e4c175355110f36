//! AArch64: the virtual counter of the generic timer.

/// Whether user code can read a counter with one instruction.
pub const HAS_COUNTER: bool = true;

/// Kernel clock sources that are this counter.
pub const CLOCKSOURCES: &[&str] = &["arch_sys_counter"];

/// The counter, ordered after all earlier instructions.
#[inline]
pub fn counter() -> u64 {
    let count: u64;
    // SAFETY: Linux makes cntvct_el0 readable for user code; isb has no operands.
    unsafe {
        core::arch::asm!("isb", "mrs {}, cntvct_el0", "isb", out(reg) count, options(nostack, nomem));
    }
    count
}
