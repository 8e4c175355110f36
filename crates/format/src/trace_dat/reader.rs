//! Numbers and texts in the file's byte order.
//!
//! A [`Reader`] is a place in the file, or in an unpacked section of it, and the name of the part being read, which goes into
//! errors with the offset. [`Reader::at`] makes another one at a given offset of the same bytes: version 7 and the tables of
//! CPUs point around in the file.
use crate::bytes::{Cursor, uint};
use crate::{Error, Result};

/// A place in a file, or in an unpacked section of it.
#[derive(Clone)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    cursor: Cursor<'a>,
    pub big_endian: bool,
    what: &'static str,
}

impl<'a> Reader<'a> {
    /// Reads `bytes` from `at` on.
    pub fn new(bytes: &'a [u8], at: u64, big_endian: bool, what: &'static str) -> Reader<'a> {
        Reader::based(bytes, at, 0, big_endian, what)
    }

    /// The same of bytes that begin `base` bytes into the file; a packed section: where it begins.
    pub fn based(
        bytes: &'a [u8],
        at: u64,
        base: u64,
        big_endian: bool,
        what: &'static str,
    ) -> Reader<'a> {
        let at = at.min(bytes.len() as u64);
        Reader {
            bytes,
            cursor: Cursor::new(&bytes[at as usize..], base + at, what),
            big_endian,
            what,
        }
    }

    /// The same bytes from elsewhere on; an offset beyond their end is an error.
    pub fn at(&self, offset: u64, what: &'static str) -> Result<Reader<'a>> {
        if offset > self.bytes.len() as u64 {
            return Err(Error::damaged(
                what,
                self.offset(),
                format!("offset {offset}"),
                format!("one inside the file of {} bytes", self.bytes.len()),
            ));
        }
        Ok(Reader::new(self.bytes, offset, self.big_endian, what))
    }

    pub fn rename(&mut self, what: &'static str) {
        let offset = self.offset();
        self.cursor = Cursor::new(self.rest(), offset, what);
        self.what = what;
    }

    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.bytes.len() - self.cursor.left()..]
    }

    pub fn offset(&self) -> u64 {
        self.cursor.offset()
    }

    pub fn left(&self) -> usize {
        self.cursor.left()
    }

    pub fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        self.cursor.take(n)
    }

    /// `n` bytes, where `n` is what the file claims.
    pub fn take64(&mut self, n: u64) -> Result<&'a [u8]> {
        self.take(usize::try_from(n).unwrap_or(usize::MAX))
    }

    pub fn u8(&mut self) -> Result<u8> {
        self.cursor.u8()
    }

    pub fn u16(&mut self) -> Result<u16> {
        Ok(uint(self.take(2)?, self.big_endian) as u16)
    }

    pub fn u32(&mut self) -> Result<u32> {
        Ok(uint(self.take(4)?, self.big_endian) as u32)
    }

    pub fn u64(&mut self) -> Result<u64> {
        Ok(uint(self.take(8)?, self.big_endian))
    }

    /// A count of things of at least `each` bytes: no more than are left.
    pub fn count(&mut self, each: usize) -> Result<usize> {
        let n = self.u32()? as usize;
        let max = self.left() / each.max(1);
        if n > max {
            return Err(self.damaged(format!("a count of {n}"), format!("at most {max}")));
        }
        Ok(n)
    }

    /// Text that ends with a NUL.
    pub fn text(&mut self) -> Result<String> {
        let rest = self.rest();
        let Some(end) = rest.iter().position(|&b| b == 0) else {
            return Err(self.damaged("text without an end", "a NUL"));
        };
        let out = String::from_utf8_lossy(&rest[..end]).into_owned();
        self.take(end + 1)?;
        Ok(out)
    }

    pub fn expect(&mut self, wanted: &'static [u8]) -> Result<()> {
        let offset = self.offset();
        let found = self.take(wanted.len())?;
        if found != wanted {
            return Err(Error::damaged(
                self.what,
                offset,
                format!("{:?}", String::from_utf8_lossy(found)),
                format!("{:?}", String::from_utf8_lossy(wanted)),
            ));
        }
        Ok(())
    }

    pub fn damaged(&self, found: impl Into<String>, needed: impl Into<String>) -> Error {
        self.cursor.damaged(found, needed)
    }
}
