//! The wire format of protobuf messages: numbered fields, one after the other. Nothing is copied and no tree is made,
//! so a trace of any size is read in the memory of its bytes.
//!
//! A field is a varint key `number << 3 | type`, then by type: 0 a varint (7 bits in each byte, lowest first, the top bit set when
//! more follow), 1 eight bytes, 2 a varint length and that many bytes, 5 four bytes. Texts, nested messages and packed numbers
//! are all of type 2; only the reader of a message knows which. Types 3 and 4, groups, are long out of use.
use crate::{Error, Result};
use std::borrow::Cow;

/// A message's bytes, read field by field.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    bytes: &'a [u8],
    at: usize,
    base: u64,
}

/// One field.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    /// Its number.
    pub number: u32,
    /// Its value.
    pub value: Value<'a>,
    /// Offset of its value's bytes in the file.
    pub offset: u64,
}

/// A field's value as the wire has it.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// Integers, booleans, enums.
    Varint(u64),
    /// Doubles and fixed numbers.
    Fixed64(u64),
    /// Floats and fixed numbers.
    Fixed32(u32),
    /// Text, bytes, messages, packed numbers.
    Bytes(&'a [u8]),
}

impl<'a> Message<'a> {
    /// The message in `bytes`, which begin `base` bytes into the file.
    pub fn new(bytes: &'a [u8], base: u64) -> Message<'a> {
        Message { bytes, at: 0, base }
    }

    /// All its bytes.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Offset of the next field in the file.
    pub fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    /// The next field; none at the end.
    ///
    /// # Errors
    /// Bytes that are no field, with their offset. Nothing can be read behind them.
    #[inline]
    pub fn next_field(&mut self) -> Result<Option<Field<'a>>> {
        if self.at >= self.bytes.len() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = match u32::try_from(tag >> 3) {
            Ok(number) if number > 0 => number,
            _ => return Err(self.wrong(format!("field number {}", tag >> 3))),
        };
        let mut offset = self.offset();
        let value = match tag & 7 {
            0 => Value::Varint(self.varint()?),
            1 => Value::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length = self.varint()?;
                offset = self.offset();
                Value::Bytes(self.take(length)?)
            }
            5 => Value::Fixed32(u32::from_le_bytes(self.array()?)),
            wire => return Err(self.wrong(format!("wire type {wire}"))),
        };
        Ok(Some(Field { number, value, offset }))
    }

    #[inline]
    fn varint(&mut self) -> Result<u64> {
        let (value, length) = varint(&self.bytes[self.at..]).ok_or_else(|| self.cut(10))?;
        self.at += length;
        Ok(value)
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        match usize::try_from(length).ok().and_then(|length| rest.get(..length)) {
            Some(part) => {
                self.at += part.len();
                Ok(part)
            }
            None => Err(self.cut(length)),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N as u64)?);
        Ok(out)
    }

    #[cold]
    fn cut(&self, need: u64) -> Error {
        let have = (self.bytes.len() - self.at) as u64;
        Error::truncated("protobuf field", self.offset(), have, need)
    }

    #[cold]
    fn wrong(&self, found: String) -> Error {
        Error::damaged("protobuf field", self.offset(), found, "a field")
    }
}

/// The number at the front of `bytes` and its length; none when it is cut or longer than 10 bytes.
#[inline]
pub fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0;
    for (i, &byte) in bytes.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            return Some((value, i + 1));
        }
    }
    None
}

impl<'a> Field<'a> {
    /// As a number; 0 when it is none. (A field of another type than expected counts as not there, as protobuf has it.)
    #[inline]
    pub fn u64(&self) -> u64 {
        match self.value {
            Value::Varint(v) | Value::Fixed64(v) => v,
            Value::Fixed32(v) => v.into(),
            Value::Bytes(_) => 0,
        }
    }

    /// As a signed number.
    #[inline]
    pub fn i64(&self) -> i64 {
        self.u64() as i64
    }

    /// As a small signed number.
    #[inline]
    pub fn i32(&self) -> i32 {
        self.u64() as i32
    }

    /// As a small number.
    #[inline]
    pub fn u32(&self) -> u32 {
        self.u64() as u32
    }

    /// As a truth.
    pub fn bool(&self) -> bool {
        self.u64() != 0
    }

    /// As a double.
    pub fn f64(&self) -> f64 {
        match self.value {
            Value::Fixed32(v) => f32::from_bits(v).into(),
            _ => f64::from_bits(self.u64()),
        }
    }

    /// Its bytes; none when it is a number.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        match self.value {
            Value::Bytes(bytes) => bytes,
            _ => &[],
        }
    }

    /// As text; what is not UTF-8 is replaced.
    pub fn text(&self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.bytes())
    }

    /// As a message.
    #[inline]
    pub fn message(&self) -> Message<'a> {
        Message::new(self.bytes(), self.offset)
    }

    /// The numbers of a repeated field, packed or not.
    pub fn numbers(&self) -> Numbers<'a> {
        match self.value {
            Value::Bytes(bytes) => Numbers { one: None, bytes },
            _ => Numbers { one: Some(self.u64()), bytes: &[] },
        }
    }

    /// The fixed 64-bit numbers of a repeated field, packed or not.
    pub fn fixed64s(&self) -> impl Iterator<Item = u64> + use<'a> {
        let one = match self.value {
            Value::Bytes(_) => None,
            _ => Some(self.u64()),
        };
        let packed = self.bytes().chunks_exact(8);
        one.into_iter().chain(
            packed.map(|c| u64::from_le_bytes([c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7]])),
        )
    }
}

/// Numbers of a repeated field; ends at the first that is damaged.
#[derive(Clone, Debug)]
pub struct Numbers<'a> {
    one: Option<u64>,
    bytes: &'a [u8],
}

impl Numbers<'_> {
    /// No numbers.
    pub const NONE: Numbers<'static> = Numbers { one: None, bytes: &[] };
}

impl Iterator for Numbers<'_> {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        if let Some(one) = self.one.take() {
            return Some(one);
        }
        let (value, length) = varint(self.bytes)?;
        self.bytes = &self.bytes[length..];
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_every_wire_type() {
        let bytes =
            [0x08, 0xac, 0x02, 0x11, 1, 0, 0, 0, 0, 0, 0, 0, 0x1a, 2, b'h', b'i', 0x25, 7, 0, 0, 0];
        let mut message = Message::new(&bytes, 100);
        let first = message.next_field().unwrap().unwrap();
        assert_eq!((first.number, first.u64(), first.offset), (1, 300, 101));
        assert_eq!(message.next_field().unwrap().unwrap().u64(), 1);
        let text = message.next_field().unwrap().unwrap();
        assert_eq!((text.number, &*text.text(), text.offset), (3, "hi", 114));
        assert_eq!(message.next_field().unwrap().unwrap().u32(), 7);
        assert!(message.next_field().unwrap().is_none());
    }

    #[test]
    fn damage_is_an_error_with_its_offset() {
        for (bytes, offset) in [
            (&[0x08][..], 51),
            (&[0x0b, 0], 51),
            (&[0x00], 51),
            (&[0x1a, 5, 1], 52),
            (&[0xff; 11], 50),
        ] {
            let error = Message::new(bytes, 50).next_field().unwrap_err();
            assert_eq!(error.offset, offset, "{error}");
        }
    }

    #[test]
    fn numbers_packed_and_not() {
        let packed = Field { number: 1, value: Value::Bytes(&[1, 0xac, 0x02, 3, 0x80]), offset: 0 };
        assert_eq!(packed.numbers().collect::<Vec<_>>(), [1, 300, 3]);
        let single = Field { number: 1, value: Value::Varint(9), offset: 0 };
        assert_eq!(single.numbers().collect::<Vec<_>>(), [9]);
    }
}
