//! RISC-V: the `time` counter.

/// Whether user code can read a counter with one instruction.
pub const HAS_COUNTER: bool = true;

/// Kernel clock sources that are this counter.
pub const CLOCKSOURCES: &[&str] = &["riscv_clocksource"];

/// The counter, ordered with loads and stores around it.
#[inline]
pub fn counter() -> u64 {
    let count: u64;
    // SAFETY: Linux lets user code read the time counter.
    unsafe {
        core::arch::asm!("fence", "rdtime {}", "fence", out(reg) count, options(nostack));
    }
    count
}
