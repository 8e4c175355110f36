//! The parts that depend on the CPU: its counter, and the kernel clock sources that vouch for it.
//!
//! Each module has `HAS_COUNTER`, `CLOCKSOURCES`, and `counter()`. The counter is the one that
//! `kasuri.h` reads as KASURI_CLOCK_NATIVE: both must use the same instruction.

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub use x86_64::*;

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "aarch64")]
pub use aarch64::*;

#[cfg(target_arch = "riscv64")]
mod riscv64;
#[cfg(target_arch = "riscv64")]
pub use riscv64::*;

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
mod generic;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
pub use generic::*;
