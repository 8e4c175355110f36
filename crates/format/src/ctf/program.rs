//! Types as straight code: what to read, one operation after the other.
//!
//! A type tree is walked once ([`super::compile`]); decoding an event runs over a flat list without looking up a name.
//! Numbers that other fields depend on are kept in slots. Where all fields have a fixed place, there is nothing to run:
//! `fixed` says how many bytes to take, and each leaf where in them it lies.
use super::bits::{Bits, sign};
use super::types::{Mapping, Role, Scope, Span};
use crate::{Error, Result};
use std::rc::Rc;

/// No slot.
pub(crate) const NONE: u32 = u32::MAX;

/// A field that holds a value.
#[derive(Clone, Debug)]
pub struct Leaf {
    /// Its name; those of the structures around it before, with dots.
    pub name: String,
    /// Its scope.
    pub scope: Scope,
    /// Its meaning.
    pub role: Role,
    /// Its content.
    pub kind: LeafKind,
    /// Whether one event may have several: it is inside an array.
    pub repeated: bool,
    /// Its place in a fixed layout, bytes from the begin.
    pub offset: Option<u32>,
}

/// Value type of a leaf.
#[derive(Clone, Debug)]
pub enum LeafKind {
    /// A whole number.
    Int {
        /// Bits; 64 for those of variable length.
        bits: u8,
        /// Two's complement.
        signed: bool,
        /// Byte order.
        big_endian: bool,
        /// Names of values.
        mappings: Option<Rc<Vec<Mapping>>>,
    },
    /// A floating-point number.
    Float,
    /// Text: up to the first zero, in so many bytes a code unit.
    Text(u8),
    /// Bytes.
    Bytes,
}

/// A decoded value.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value<'a> {
    /// Signed.
    Int(i64),
    /// Unsigned.
    Uint(u64),
    /// Floating point.
    Float(f64),
    /// Text or bytes, as they lie there.
    Bytes(&'a [u8]),
}

impl Value<'_> {
    /// The number, when it is whole.
    pub fn int(self) -> Option<i64> {
        match self {
            Value::Int(n) => Some(n),
            Value::Uint(n) => Some(n as i64),
            _ => None,
        }
    }
}

impl Leaf {
    /// The only name of a value.
    pub fn label(&self, value: Value<'_>) -> Option<&str> {
        let LeafKind::Int { mappings, .. } = &self.kind else {
            return None;
        };
        let n = match value {
            Value::Int(n) => i128::from(n),
            Value::Uint(n) => i128::from(n),
            _ => return None,
        };
        let mut fit = mappings.as_ref()?.iter().filter(|m| within(&m.spans, n));
        let first = fit.next()?;
        fit.next().is_none().then_some(first.label.as_str())
    }
}

pub(crate) fn within(spans: &[Span], n: i128) -> bool {
    spans.iter().any(|&(from, to)| (from..=to).contains(&n))
}

/// Number of rounds of a loop, or of bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Count {
    Fixed(u64),
    Slot(u32),
}

/// A choice of a variant: the selectors that choose it, and its operations, from the first to before the last.
type Choice = (Vec<Span>, u32, u32);

/// One operation. Ranges of operations are indices into [`Program::ops`].
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Align(u64),
    /// A number at a byte's begin, of 1, 2, 4 or 8 bytes.
    Whole {
        bytes: u8,
        signed: bool,
        big_endian: bool,
        leaf: u32,
        save: u32,
    },
    /// A number anywhere, of any size.
    Bits {
        bits: u8,
        signed: bool,
        big_endian: bool,
        reversed: bool,
        leaf: u32,
        save: u32,
    },
    Leb {
        signed: bool,
        leaf: u32,
        save: u32,
    },
    Float {
        bits: u8,
        big_endian: bool,
        leaf: u32,
    },
    Str {
        unit: u8,
        leaf: u32,
    },
    Bytes {
        count: Count,
        leaf: u32,
    },
    /// The operations up to `end`, so often.
    Loop {
        count: Count,
        end: u32,
    },
    /// Those of the choice that the slot's value chooses; then on at `end`.
    Switch {
        slot: u32,
        signed: bool,
        choices: Box<[Choice]>,
        /// Whether a value that selects no option is allowed; if not, it is damage.
        optional: bool,
        end: u32,
    },
}

/// Code for one structure or several in a row.
#[derive(Clone, Debug, Default)]
pub struct Program {
    pub(crate) ops: Vec<Op>,
    /// The fields.
    pub leaves: Vec<Leaf>,
    /// Bytes of all fields, when each has a fixed place from a byte's begin.
    pub fixed: Option<u32>,
}

impl Program {
    /// The leaf of that name; the event's own fields come before those of contexts.
    pub fn leaf(&self, name: &str) -> Option<u32> {
        let named = self.leaves.iter().enumerate().filter(|(_, l)| l.name == name);
        named.max_by_key(|(_, l)| l.scope).map(|(ix, _)| ix as u32)
    }

    /// The leaf of that name in a context: an event's own field of that name may be about another thread.
    pub fn context_leaf(&self, name: &str) -> Option<u32> {
        let mut named = self.leaves.iter().enumerate();
        let found = named.find(|(_, l)| l.name == name && l.scope != Scope::Payload);
        found.map(|(ix, _)| ix as u32)
    }

    /// Whether it depends on slots of that range.
    pub(crate) fn uses(&self, slots: std::ops::Range<u32>) -> bool {
        self.ops.iter().any(|op| match op {
            Op::Bytes { count: Count::Slot(slot), .. }
            | Op::Loop { count: Count::Slot(slot), .. }
            | Op::Switch { slot, .. } => slots.contains(slot),
            _ => false,
        })
    }

    /// Decodes; `each` gets every value with its leaf.
    pub(crate) fn run<'a>(
        &self,
        bits: &mut Bits<'a>,
        slots: &mut [u64],
        each: &mut impl FnMut(u32, Value<'a>),
    ) -> Result<()> {
        self.exec(0, self.ops.len(), bits, slots, each)
    }

    fn exec<'a>(
        &self,
        from: usize,
        to: usize,
        bits: &mut Bits<'a>,
        slots: &mut [u64],
        each: &mut impl FnMut(u32, Value<'a>),
    ) -> Result<()> {
        let mut at = from;
        while at < to {
            let op = &self.ops[at];
            at += 1;
            bits.spend()?;
            match op {
                Op::Align(align) => bits.align(*align)?,
                Op::Whole { bytes, signed, big_endian, leaf, save } => {
                    let raw = whole(bits.take(u64::from(*bytes))?, *big_endian);
                    give(raw, bytes * 8, *signed, *leaf, *save, slots, each);
                }
                Op::Bits { bits: n, signed, big_endian, reversed, leaf, save } => {
                    let raw = bits.uint(*n, *big_endian)?;
                    let raw = in_order(raw, *n, *reversed);
                    give(raw, *n, *signed, *leaf, *save, slots, each);
                }
                Op::Leb { signed, leaf, save } => {
                    let raw = bits.leb(*signed)?;
                    give(raw, 64, *signed, *leaf, *save, slots, each);
                }
                Op::Float { bits: n, big_endian, leaf } => {
                    let raw = bits.uint(*n, *big_endian)?;
                    each(*leaf, Value::Float(float(raw, *n)));
                }
                Op::Str { unit, leaf } => {
                    each(*leaf, Value::Bytes(text(bits, usize::from(*unit))?));
                }
                Op::Bytes { count, leaf } => {
                    let n = number(*count, slots);
                    each(*leaf, Value::Bytes(bits.take(n)?));
                }
                Op::Loop { count, end } => {
                    let n = number(*count, slots);
                    self.rounds(n, at, *end as usize, bits, slots, each)?;
                    at = *end as usize;
                }
                Op::Switch { slot, signed, choices, optional, end } => {
                    let selector = slots[*slot as usize];
                    match chosen(choices, selector, *signed) {
                        Some((from, to)) => self.exec(from, to, bits, slots, each)?,
                        None if *optional => {}
                        None => return Err(no_choice(selector, *signed, bits.offset())),
                    }
                    at = *end as usize;
                }
            }
        }
        Ok(())
    }

    fn rounds<'a>(
        &self,
        n: u64,
        from: usize,
        to: usize,
        bits: &mut Bits<'a>,
        slots: &mut [u64],
        each: &mut impl FnMut(u32, Value<'a>),
    ) -> Result<()> {
        if from == to {
            return Ok(());
        }
        for _ in 0..n {
            self.exec(from, to, bits, slots, each)?;
        }
        Ok(())
    }
}

/// A number of `n` bits, whose highest bit may have come first.
fn in_order(raw: u64, n: u8, reversed: bool) -> u64 {
    match reversed {
        true => raw.reverse_bits() >> (64 - u32::from(n)),
        false => raw,
    }
}

/// A selector as a number.
fn selected(raw: u64, signed: bool) -> i128 {
    match signed {
        true => i128::from(raw as i64),
        false => i128::from(raw),
    }
}

/// The operations of the choice whose ranges contain the selector.
fn chosen(choices: &[Choice], raw: u64, signed: bool) -> Option<(usize, usize)> {
    let n = selected(raw, signed);
    let found = choices.iter().find(|(spans, ..)| within(spans, n));
    found.map(|&(_, from, to)| (from as usize, to as usize))
}

fn no_choice(raw: u64, signed: bool, offset: u64) -> Error {
    let n = selected(raw, signed);
    Error::damaged(
        "CTF event",
        offset,
        format!("{n} as a variant's selector"),
        "one of its choices",
    )
}

fn number(count: Count, slots: &[u64]) -> u64 {
    match count {
        Count::Fixed(n) => n,
        Count::Slot(slot) => slots[slot as usize],
    }
}

#[inline]
pub(crate) fn whole(bytes: &[u8], big_endian: bool) -> u64 {
    match (bytes, big_endian) {
        (&[a], _) => a.into(),
        (&[a, b], false) => u16::from_le_bytes([a, b]).into(),
        (&[a, b, c, d], false) => u32::from_le_bytes([a, b, c, d]).into(),
        _ => crate::bytes::uint(bytes, big_endian),
    }
}

#[inline]
fn give<'a>(
    raw: u64,
    bits: u8,
    signed: bool,
    leaf: u32,
    save: u32,
    slots: &mut [u64],
    each: &mut impl FnMut(u32, Value<'a>),
) {
    let value = match signed {
        true => Value::Int(sign(raw, bits)),
        false => Value::Uint(raw),
    };
    if save != NONE {
        slots[save as usize] = match value {
            Value::Int(n) => n as u64,
            _ => raw,
        };
    }
    each(leaf, value);
}

fn float(raw: u64, bits: u8) -> f64 {
    match bits {
        64 => f64::from_bits(raw),
        32 => f64::from(f32::from_bits(raw as u32)),
        _ => half(raw as u16),
    }
}

/// IEEE 754 binary16.
fn half(raw: u16) -> f64 {
    let sign = if raw >> 15 == 0 { 1.0 } else { -1.0 };
    let (exponent, fraction) = (i32::from(raw >> 10 & 31), f64::from(raw & 1023));
    sign * match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        e => (1.0 + fraction / 1024.0) * 2f64.powi(e - 15),
    }
}

/// Text up to its zero, which is taken too.
fn text<'a>(bits: &mut Bits<'a>, unit: usize) -> Result<&'a [u8]> {
    let start = (bits.at / 8) as usize;
    let end = (bits.end / 8) as usize;
    let rest = &bits.bytes[start..end.max(start)];
    let n = match unit {
        1 => rest.iter().position(|&b| b == 0),
        _ => rest.chunks_exact(unit).position(|c| c.iter().all(|&b| b == 0)).map(|n| n * unit),
    };
    match n {
        Some(n) => {
            bits.at += (n + unit) as u64 * 8;
            Ok(&rest[..n])
        }
        None => Err(bits.short((rest.len() as u64 + 1) * 8)),
    }
}

#[cfg(test)]
mod tests {
    use super::half;

    #[test]
    fn half_floats() {
        for (raw, value) in [
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x7bff, 65_504.0),
            (0x0001, 2f64.powi(-24)),
            (0x7c00, f64::INFINITY),
        ] {
            assert_eq!(half(raw), value);
        }
    }
}
