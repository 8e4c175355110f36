//! Reading numbers out of bytes that may be anything.
//!
//! [`Cursor`] reads front to back and fails at the end with the offset in the file and the name of the thing that was being
//! read, so that parsers need no checks of their own. [`Words`] reads at given places of one record and returns `None` beyond
//! its end, for formats such as perf's, where fields are optional. Neither can panic or read outside the slice.
use crate::{Error, Result};

/// A place in a byte slice; every read checks what is left.
#[derive(Clone)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    base: u64,
    what: &'static str,
}

impl<'a> Cursor<'a> {
    /// Reads `bytes`, which begin `base` bytes into the file; `what` goes into errors.
    pub(crate) fn new(bytes: &'a [u8], base: u64, what: &'static str) -> Cursor<'a> {
        Cursor { bytes, at: 0, base, what }
    }

    /// Offset in the file.
    pub(crate) fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    pub(crate) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    pub(crate) fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        let Some(part) = rest.get(..n) else {
            return Err(Error::truncated(self.what, self.offset(), rest.len() as u64, n as u64));
        };
        self.at += n;
        Ok(part)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    pub(crate) fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A count that must not exceed `max`, checked before memory is allocated for it.
    pub(crate) fn count(&mut self, max: usize) -> Result<usize> {
        let at = self.offset();
        let n = self.u32()? as usize;
        if n > max {
            return Err(Error::damaged(
                self.what,
                at,
                format!("a count of {n}"),
                format!("at most {max}"),
            ));
        }
        Ok(n)
    }

    pub(crate) fn damaged(&self, found: impl Into<String>, needed: impl Into<String>) -> Error {
        Error::damaged(self.what, self.offset(), found.into(), needed.into())
    }
}

/// An unsigned number of 1..=8 bytes in the given byte order. Longer slices: their first 8 bytes.
pub(crate) fn uint(bytes: &[u8], big_endian: bool) -> u64 {
    let n = bytes.len().min(8);
    let mut value = 0u64;
    for i in 0..n {
        let byte = if big_endian { bytes[i] } else { bytes[n - 1 - i] };
        value = value << 8 | u64::from(byte);
    }
    value
}

/// Numbers at given places of a record, in the file's byte order; none beyond its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words<'a> {
    pub bytes: &'a [u8],
    pub big_endian: bool,
}

impl<'a> Words<'a> {
    pub(crate) fn new(bytes: &'a [u8], big_endian: bool) -> Words<'a> {
        Words { bytes, big_endian }
    }

    #[inline]
    fn array<const N: usize>(self, at: usize) -> Option<[u8; N]> {
        self.bytes.get(at..)?.first_chunk().copied()
    }

    #[inline]
    pub(crate) fn u16(self, at: usize) -> Option<u16> {
        let bytes = self.array(at)?;
        Some(if self.big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) })
    }

    #[inline]
    pub(crate) fn u32(self, at: usize) -> Option<u32> {
        let bytes = self.array(at)?;
        Some(if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }

    #[inline]
    pub(crate) fn i32(self, at: usize) -> Option<i32> {
        self.u32(at).map(|v| v as i32)
    }

    #[inline]
    pub(crate) fn u64(self, at: usize) -> Option<u64> {
        let bytes = self.array(at)?;
        Some(if self.big_endian { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) })
    }

    /// Text from `at` to its first NUL, or to the end.
    pub(crate) fn text(self, at: usize) -> Option<String> {
        let text = self.bytes.get(at..)?.split(|&b| b == 0).next()?;
        Some(String::from_utf8_lossy(text).into_owned())
    }
}
