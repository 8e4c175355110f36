//! Random numbers for names of files and directories.
use rustix::rand::{GetRandomFlags, getrandom};

/// An unpredictable number.
///
/// Where the kernel has no random numbers yet (early at boot, or a filter refuses the call) the clock must serve.
/// That is enough: a name that is taken is always an error, never followed or reused.
pub(crate) fn random_u32() -> u32 {
    let mut bytes = [0u8; 4];
    match getrandom(&mut bytes, GetRandomFlags::NONBLOCK) {
        Ok(4) => u32::from_ne_bytes(bytes),
        _ => (crate::clock::monotonic_ns() as u32).wrapping_mul(0x9e37_79b1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_differ() {
        let numbers: std::collections::BTreeSet<u32> = (0..64).map(|_| random_u32()).collect();
        // Two equal ones among 64 come once in two million runs, three once in 10^15.
        assert!(numbers.len() >= 62, "{numbers:?}");
    }
}
