//! Numbers of any size at any bit of a packet.
//!
//! Bits are counted as CTF counts them: in little-endian numbers from the least significant bit of the first byte, in
//! big-endian ones from the most significant.
use crate::{Error, Result};

/// A place in a packet.
#[derive(Clone, Debug)]
pub(crate) struct Bits<'a> {
    pub bytes: &'a [u8],
    /// Bits from the packet's begin.
    pub at: u64,
    /// Bits that may be read.
    pub end: u64,
    /// Bytes from the file's begin to the packet's.
    pub base: u64,
    /// Operations that may still be spent on this packet.
    pub fuel: u64,
}

/// Operations for each bit of a packet; usual are fewer than one for eight bits.
const FUEL_PER_BIT: u64 = 16;

impl<'a> Bits<'a> {
    /// The bits from `at` to `end` of a packet that begins `base` bytes into the file.
    pub fn new(bytes: &'a [u8], at: u64, end: u64, base: u64) -> Bits<'a> {
        let end = end.min(bytes.len() as u64 * 8);
        let fuel = end * FUEL_PER_BIT + (1 << 16);
        Bits { bytes, at: at.min(end), end, base, fuel }
    }

    /// Counts one operation. Arrays of nothing, which cost no bits, could go on for ages otherwise.
    #[inline]
    pub fn spend(&mut self) -> Result<()> {
        if self.fuel == 0 {
            return Err(Error::damaged(
                "CTF packet",
                self.offset(),
                "fields without content, again and again",
                "fields that have some",
            ));
        }
        self.fuel -= 1;
        Ok(())
    }

    #[cold]
    pub fn short(&self, need: u64) -> Error {
        let have = self.end.saturating_sub(self.at);
        let ceil = |bits: u64| bits.div_ceil(8);
        Error::truncated("CTF packet", self.offset(), ceil(have), ceil(need))
    }

    /// Offset in the file, bytes.
    pub fn offset(&self) -> u64 {
        self.base + self.at / 8
    }

    /// Goes to the next multiple of `align` bits, a power of two.
    #[inline]
    pub fn align(&mut self, align: u64) -> Result<()> {
        let to = self.at.checked_next_multiple_of(align.max(1));
        match to {
            Some(to) if to <= self.end => {
                self.at = to;
                Ok(())
            }
            // Nothing follows: no padding either.
            _ => Err(self.short(align)),
        }
    }

    /// `n` bytes; the place must be at a byte's begin.
    #[inline]
    pub fn take(&mut self, n: u64) -> Result<&'a [u8]> {
        let start = (self.at / 8) as usize;
        let room = self.end.saturating_sub(self.at) / 8;
        if n > room {
            return Err(self.short(n.saturating_mul(8)));
        }
        self.at += n * 8;
        Ok(&self.bytes[start..start + n as usize])
    }

    /// A number of `bits` bits, 1..=64, not sign-extended.
    #[inline]
    pub fn uint(&mut self, bits: u8, big_endian: bool) -> Result<u64> {
        let n = u64::from(bits);
        if n > self.end.saturating_sub(self.at) {
            return Err(self.short(n));
        }
        let (start, shift) = ((self.at / 8) as usize, (self.at % 8) as u32);
        self.at += n;
        let mut window = [0; 16];
        let rest = &self.bytes[start..];
        match rest.first_chunk::<16>() {
            Some(chunk) => window = *chunk,
            None => window[..rest.len()].copy_from_slice(rest),
        }
        let value = if big_endian {
            (u128::from_be_bytes(window) << shift) >> (128 - u32::from(bits))
        } else {
            (u128::from_le_bytes(window) >> shift) & ((1 << bits) - 1)
        };
        Ok(value as u64)
    }

    /// A LEB128 number of at most 64 bits.
    pub fn leb(&mut self, signed: bool) -> Result<u64> {
        let (mut value, mut shift) = (0u64, 0u32);
        loop {
            let byte = self.take(1)?[0];
            let part = u64::from(byte & 0x7f);
            if shift >= 64 {
                return Err(Error::damaged(
                    "CTF packet",
                    self.offset() - 1,
                    "a variable-length number of more than 64 bits",
                    "at most 64",
                ));
            }
            value |= part << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                if signed && byte & 0x40 != 0 && shift < 64 {
                    value |= u64::MAX << shift;
                }
                return Ok(value);
            }
        }
    }
}

/// The lowest `bits` of `value` with their sign.
#[inline]
pub(crate) fn sign(value: u64, bits: u8) -> i64 {
    let shift = 64 - u32::from(bits);
    ((value << shift) as i64) >> shift
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(bytes: &[u8]) -> Bits<'_> {
        Bits::new(bytes, 0, u64::MAX, 0)
    }

    #[test]
    fn little_endian_fields_begin_at_the_low_bit() {
        let word: u32 = 7 << 5 | 3;
        let bytes = word.to_le_bytes();
        let mut b = bits(&bytes);
        assert_eq!((b.uint(5, false), b.uint(27, false)), (Ok(3), Ok(7)));
        assert!(b.uint(1, false).is_err());
    }

    #[test]
    fn big_endian_fields_begin_at_the_high_bit() {
        let word: u32 = 3 << 27 | 7;
        let bytes = word.to_be_bytes();
        let mut b = bits(&bytes);
        assert_eq!((b.uint(5, true), b.uint(27, true)), (Ok(3), Ok(7)));
    }

    #[test]
    fn every_size_at_every_bit_comes_back() {
        for size in 1..=64u8 {
            for shift in 0..8u8 {
                let value = 0x9e37_79b9_7f4a_7c15u64 >> (64 - u32::from(size));
                let le = (u128::from(value) << shift).to_le_bytes();
                let be =
                    (u128::from(value) << (128 - u32::from(size) - u32::from(shift))).to_be_bytes();
                for (bytes, big) in [(le, false), (be, true)] {
                    let mut b = bits(&bytes[..9]);
                    b.at = shift.into();
                    assert_eq!(b.uint(size, big), Ok(value), "{size} bits at {shift}");
                }
            }
        }
    }

    #[test]
    fn leb_numbers_as_dwarf_has_them() {
        let leb = |bytes: &[u8], signed| bits(bytes).leb(signed);
        assert_eq!(leb(&[0xe5, 0x8e, 0x26], false), Ok(624_485));
        assert_eq!(leb(&[0xc0, 0xbb, 0x78], true), Ok(-123_456i64 as u64));
        assert!(leb(&[0xff; 11], false).is_err());
        assert!(leb(&[0x80], false).is_err());
    }

    #[test]
    fn signs_are_extended() {
        assert_eq!((sign(0b111, 3), sign(0b011, 3), sign(u64::MAX, 64)), (-1, 3, -1));
    }
}
