//! One table as CSV (RFC 4180): a header, then a line for each row; a missing value is an empty field, a text that is empty is `""`.
//!
//! Spreadsheets run a cell that begins with `=`, `+`, `-`, `@`, a tab or a carriage return as a formula, and names come from the traced
//! program: such a text gets an apostrophe before it, which spreadsheets take for "text follows". Numbers are written as they are, and
//! Parquet and `kasuri sql` hold every text unchanged.
use crate::{Batch, Data, Result, Source, Table, Values};
use std::borrow::Cow;
use std::io::Write;

/// Writes all rows of a table. Returns how many.
///
/// # Errors
/// Those of `out`.
pub fn write(table: &Table, source: &Source<'_>, out: &mut dyn Write) -> Result<u64> {
    let names: Vec<&str> = table.columns.iter().map(|c| c.name).collect();
    writeln!(out, "{}", names.join(","))?;
    let mut n_rows = 0;
    let mut line = Vec::new();
    table.read(source, &mut |batch: &Batch<'_>| {
        for row in 0..batch.n_rows() {
            line.clear();
            for (at, column) in batch.columns().iter().enumerate() {
                if at > 0 {
                    line.push(b',');
                }
                if column.is_valid(row) {
                    field(column, row, &mut line)?;
                }
            }
            line.push(b'\n');
            out.write_all(&line)?;
        }
        n_rows += batch.n_rows() as u64;
        Ok(())
    })?;
    Ok(n_rows)
}

fn field(column: &Data<'_>, row: usize, line: &mut Vec<u8>) -> Result<()> {
    match &column.values {
        Values::BigInt(v) => write!(line, "{}", v[row])?,
        Values::Integer(v) => write!(line, "{}", v[row])?,
        Values::Double(v) => write!(line, "{}", v[row])?,
        Values::Boolean(v) => write!(line, "{}", v[row])?,
        Values::Varchar(v) => text(column.text(v[row]), line),
    }
    Ok(())
}

fn text(text: &str, line: &mut Vec<u8>) {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let text = match is_formula {
        true => Cow::Owned(format!("'{text}")),
        false => Cow::Borrowed(text),
    };
    let is_plain = !text.is_empty() && !text.contains([',', '"', '\n', '\r']);
    if is_plain {
        line.extend_from_slice(text.as_bytes());
        return;
    }
    line.push(b'"');
    line.extend_from_slice(text.replace('"', "\"\"").as_bytes());
    line.push(b'"');
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_text_is_never_a_formula() {
        for (text, wanted) in [
            ("=1+2", "'=1+2"),
            ("+1", "'+1"),
            ("-1", "'-1"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("\t=1", "'\t=1"),
            ("\r=1", "\"'\r=1\""),
            ("=a,\"b\"", "\"'=a,\"\"b\"\"\""),
            ("a=1", "a=1"),
            ("", "\"\""),
        ] {
            let mut line = Vec::new();
            super::text(text, &mut line);
            assert_eq!(String::from_utf8(line).unwrap(), wanted);
        }
    }
}
