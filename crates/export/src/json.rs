//! JSON that is written while it is made: nothing of a recording is held as a tree of values.
//!
//! Each format describes its document as structs with `serde::Serialize`; the long arrays are types whose `serialize`
//! walks the model and makes one element at a time. serde_json places quotes, escapes and commas. Two things that it
//! cannot express are here: decimal numbers that a double cannot hold ([`Decimal`]), and a line for each record
//! ([`Lines`]).
use serde::ser::{Error, Serialize, Serializer};
use serde_json::ser::Formatter;
use serde_json::value::RawValue;
use std::io::{self, Write};

/// Nanoseconds in a larger unit with all `DIGITS` decimals: 3 for microseconds, 6 for milliseconds. A double has 53
/// bits, so it loses single nanoseconds after 104 days of uptime.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Decimal<const DIGITS: u32>(pub i64);

/// Microseconds with every nanosecond.
pub(crate) type Micros = Decimal<3>;
/// Milliseconds with every nanosecond.
pub(crate) type Millis = Decimal<6>;

impl<const DIGITS: u32> Serialize for Decimal<DIGITS> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (unit, ns) = (10u64.pow(DIGITS), self.0.unsigned_abs());
        let sign = if self.0 < 0 { "-" } else { "" };
        let text = format!("{sign}{}.{:02$}", ns / unit, ns % unit, DIGITS as usize);
        // RawValue passes the text through as it is; a number would be rounded to a double first.
        let number: &RawValue = serde_json::from_str(&text).map_err(Error::custom)?;
        number.serialize(serializer)
    }
}

/// Puts each element of the outer arrays on a line of its own, so that `grep` and `head` work on a file with one record
/// in each element. Everything else is compact.
pub(crate) struct Lines {
    /// Arrays and objects that are open.
    depth: usize,
    /// Elements of arrays that lie deeper stay on their line.
    deepest: usize,
}

impl Formatter for Lines {
    fn begin_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth += 1;
        out.write_all(b"[")
    }

    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth -= 1;
        out.write_all(b"]")
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        out.write_all(match (first, self.depth <= self.deepest) {
            (true, true) => b"\n",
            (true, false) => b"",
            (false, true) => b",\n",
            (false, false) => b",",
        })
    }

    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth += 1;
        out.write_all(b"{")
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth -= 1;
        out.write_all(b"}")
    }
}

/// Writes a document with a line feed at its end. `deepest`: how many arrays and objects may be open around an element
/// that gets a line of its own.
///
/// # Errors
/// Those of `out`.
pub(crate) fn write<W: Write>(
    value: &impl Serialize,
    deepest: usize,
    mut out: W,
) -> io::Result<()> {
    let lines = Lines { depth: 0, deepest };
    let mut serializer = serde_json::Serializer::with_formatter(&mut out, lines);
    value.serialize(&mut serializer)?;
    out.write_all(b"\n")?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: impl Serialize, deepest: usize) -> String {
        let mut out = Vec::new();
        write(&value, deepest, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn decimals_keep_every_nanosecond() {
        for (ns, wanted) in [
            (0, "0.000\n"),
            (-1, "-0.001\n"),
            (1_234_567, "1234.567\n"),
            (i64::MAX, "9223372036854775.807\n"),
            (i64::MIN, "-9223372036854775.808\n"),
        ] {
            assert_eq!(text(Decimal::<3>(ns), 0), wanted);
        }
        assert_eq!(text(Decimal::<6>(1_500_000), 0), "1.500000\n");
    }

    #[test]
    fn elements_of_outer_arrays_have_lines() {
        let value = serde_json::json!({"a": [[1, 2], [3]], "b": []});
        assert_eq!(text(&value, 2), "{\"a\":[\n[1,2],\n[3]],\"b\":[]}\n");
    }
}
