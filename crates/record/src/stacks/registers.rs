//! The user's registers in a sample: perf's order, and DWARF's numbers for them.
use kasuri_unwind::Registers;

/// perf's mask of the registers that are asked for. x86: the general ones and the instruction pointer (bits 0-8, 16-23 of
/// arch/x86/include/uapi/asm/perf_regs.h). Arm: x0-x30, sp, pc.
#[cfg(target_arch = "x86_64")]
pub(crate) const REGISTERS: u64 = 0xff01ff;
#[cfg(target_arch = "aarch64")]
pub(crate) const REGISTERS: u64 = (1 << 33) - 1;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) const REGISTERS: u64 = 0;

/// DWARF's numbers in perf's order; the instruction pointer has [`IP`].
#[cfg(target_arch = "x86_64")]
const ORDER: &[usize] = &[0, 3, 2, 1, 4, 5, 6, 7, IP, 8, 9, 10, 11, 12, 13, 14, 15];
#[cfg(not(target_arch = "x86_64"))]
const ORDER: &[usize] = &[
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25,
    26, 27, 28, 29, 30, 31, IP,
];
const IP: usize = usize::MAX;

/// Registers in a sample: their number.
pub(crate) const N: usize = REGISTERS.count_ones() as usize;

/// The registers of a sample from perf's words.
pub(crate) fn from_perf(words: &[u64]) -> Registers {
    let mut registers = Registers::new(0);
    for (&register, &word) in ORDER.iter().zip(words) {
        match register {
            IP => registers.ip = word,
            register => registers.set(register, word),
        }
    }
    registers
}
