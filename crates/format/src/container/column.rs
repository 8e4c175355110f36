//! Columns as bytes. Spec: docs/format.md, chapter "Columns".
//!
//! Numbers are first made small (minus the smallest, difference to the one before, index into the distinct ones),
//! then split into byte planes, lowest first, each plane compressed by itself: in stamps the lowest plane is
//! noise and the others nearly constant, and one entropy coder for both would do neither justice. Decoding a plane is
//! a copy or a zstd frame of known size, so no claimed length is ever trusted with memory.
use super::pack::{compress, decompress};
use crate::bytes::Cursor;
use crate::{Error, Result};
use kasuri_base::quick::QuickMap;
use std::collections::hash_map::Entry;

const CONST: u8 = 0;
const PLAIN: u8 = 1;
const DELTA: u8 = 2;
const DICT: u8 = 3;
const SAME: u8 = 4;
const LEAD: u8 = 5;

const PLANE_CONST: u8 = 0;
const PLANE_RAW: u8 = 1;
const PLANE_ZSTD: u8 = 2;

/// Most different numbers of a dictionary: its indices are one plane.
const DICT_MAX: usize = 256;
/// Most bytes of the dictionary of one bytes column.
pub(crate) const BLOB_BYTES_MAX: usize = 64 << 20;

/// Encodes numbers; signed ones as their two's complement.
pub(crate) fn encode_ints(values: &[u64], level: i32) -> Vec<u8> {
    let mut out = Vec::new();
    let Some(&first) = values.first() else {
        return vec![CONST, 0, 0, 0, 0, 0, 0, 0, 0];
    };
    let range = |v: &mut dyn Iterator<Item = u64>| {
        v.fold((i64::MAX, i64::MIN), |(lo, hi), v| (lo.min(v as i64), hi.max(v as i64)))
    };
    let (min, max) = range(&mut values.iter().copied());
    if min == max {
        out.push(CONST);
        out.extend_from_slice(&first.to_le_bytes());
        return out;
    }
    let deltas = || values.windows(2).map(|w| w[1].wrapping_sub(w[0]));
    let (delta_min, _) = range(&mut deltas());
    let bits = |v: u64| u64::from(64 - v.leading_zeros());
    let plain_bits: u64 = values.iter().map(|v| bits(v.wrapping_sub(min as u64))).sum();
    let delta_bits: u64 = deltas().map(|d| bits(d.wrapping_sub(delta_min as u64))).sum();
    let narrow = (max as u64).wrapping_sub(min as u64) < 256;
    let best_bits = plain_bits.min(delta_bits);
    if !narrow
        && best_bits > values.len() as u64
        && let Some((dict, ids)) = dictionary(values, best_bits)
    {
        out.push(DICT);
        out.push((dict.len() - 1) as u8);
        dict.iter().for_each(|v| out.extend_from_slice(&v.to_le_bytes()));
        put_planes(&mut out, &ids, level);
    } else if delta_bits < plain_bits {
        let mut rest = vec![0];
        rest.extend(deltas().map(|d| d.wrapping_sub(delta_min as u64)));
        out.push(DELTA);
        out.extend_from_slice(&first.to_le_bytes());
        out.extend_from_slice(&delta_min.to_le_bytes());
        put_planes(&mut out, &rest, level);
    } else {
        let rest: Vec<u64> = values.iter().map(|v| v.wrapping_sub(min as u64)).collect();
        out.push(PLAIN);
        out.extend_from_slice(&min.to_le_bytes());
        put_planes(&mut out, &rest, level);
    }
    out
}

/// As [`encode_ints`], or in terms of one of `earlier` columns: equal to it, or to its next row (on one CPU, the thread that comes is
/// the one that the next switch takes away). `earlier` are the columns of the same rows, with their section numbers.
pub(crate) fn encode_ints_with(
    values: &[u64],
    earlier: &[(usize, Vec<u64>)],
    level: i32,
) -> Vec<u8> {
    let constant = values.windows(2).all(|w| w[0] == w[1]);
    if constant || values.len() < 8 {
        return encode_ints(values, level);
    }
    let mut out = Vec::new();
    if let Some((section, _)) = earlier.iter().find(|(_, column)| column == values) {
        out.push(SAME);
        out.extend_from_slice(&(*section as u16).to_le_bytes());
        return out;
    }
    let last = values[values.len() - 1];
    for (section, column) in earlier {
        let differs = |row: &usize| column[row + 1] != values[*row];
        let exceptions: Vec<usize> =
            (0..values.len() - 1).filter(differs).take(values.len() / 64 + 2).collect();
        if exceptions.len() <= values.len() / 64 + 1 {
            out.push(LEAD);
            out.extend_from_slice(&(*section as u16).to_le_bytes());
            out.extend_from_slice(&last.to_le_bytes());
            out.extend_from_slice(&(exceptions.len() as u32).to_le_bytes());
            for row in exceptions {
                out.extend_from_slice(&(row as u32).to_le_bytes());
                out.extend_from_slice(&values[row].to_le_bytes());
            }
            return out;
        }
    }
    encode_ints(values, level)
}

/// The distinct values in order of appearance and each value's index, if that takes fewer than `best_bits`.
fn dictionary(values: &[u64], best_bits: u64) -> Option<(Vec<u64>, Vec<u64>)> {
    let mut index: QuickMap<u64, u64> = QuickMap::default();
    let mut dict = Vec::new();
    let mut counts = Vec::new();
    let mut ids = Vec::with_capacity(values.len());
    for &value in values {
        let id = match index.entry(value) {
            Entry::Occupied(e) => *e.get(),
            Entry::Vacant(e) => {
                if dict.len() == DICT_MAX {
                    return None;
                }
                dict.push(value);
                counts.push(0u64);
                *e.insert(dict.len() as u64 - 1)
            }
        };
        counts[id as usize] += 1;
        ids.push(id);
    }
    let n = values.len() as f64;
    let entropy: f64 = counts.iter().map(|&c| c as f64 * (n / c as f64).log2()).sum();
    (entropy + 64.0 * dict.len() as f64 <= best_bits as f64).then_some((dict, ids))
}

fn put_planes(out: &mut Vec<u8>, values: &[u64], level: i32) {
    let all = values.iter().fold(0, |all, v| all | v);
    let width = (64 - all.leading_zeros()).div_ceil(8) as usize;
    out.push(width as u8);
    for plane in 0..width {
        let bytes: Vec<u8> = values.iter().map(|v| (v >> (8 * plane)) as u8).collect();
        let first = bytes[0];
        if bytes.iter().all(|&b| b == first) {
            out.extend_from_slice(&[PLANE_CONST, first]);
            continue;
        }
        match compress(&bytes, level) {
            Some(packed) => {
                out.push(PLANE_ZSTD);
                out.extend_from_slice(&(packed.len() as u32).to_le_bytes());
                out.extend_from_slice(&packed);
            }
            None => {
                out.push(PLANE_RAW);
                out.extend_from_slice(&bytes);
            }
        }
    }
}

/// Whether an encoded column is given in terms of another.
pub(crate) fn refers(column: &[u8]) -> bool {
    matches!(column.first(), Some(&(SAME | LEAD)))
}

/// Fetches an earlier column for [`SAME`] and [`LEAD`].
pub(crate) type Earlier<'a, T> = &'a dyn Fn(usize) -> Result<T>;

/// For columns that may not refer to others.
pub(crate) fn no_earlier<T>(_: usize) -> Result<T> {
    Err(Error::damaged("column", 0, "a reference to another column", "a column by itself"))
}

/// Decodes `n` numbers.
pub(crate) fn decode_ints(
    bytes: &[u8],
    base: u64,
    n: usize,
    earlier: Earlier<'_, Vec<u64>>,
) -> Result<Vec<u64>> {
    let mut cursor = Cursor::new(bytes, base, "column of numbers");
    let mut out = Vec::new();
    match cursor.u8()? {
        CONST => out.resize(n, cursor.u64()?),
        PLAIN => {
            let min = cursor.u64()?;
            take_planes(&mut cursor, n, &mut out, |v| min.wrapping_add(v))?;
        }
        DELTA => {
            let mut last = cursor.u64()?;
            let step = cursor.u64()?;
            // The first plane value is 0: it stands for `first` itself.
            last = last.wrapping_sub(step);
            take_planes(&mut cursor, n, &mut out, |v| {
                last = last.wrapping_add(step).wrapping_add(v);
                last
            })?;
        }
        DICT => {
            // 256 entries, so that any byte is an index.
            let mut dict = [0; DICT_MAX];
            let n_dict = usize::from(cursor.u8()?) + 1;
            for entry in &mut dict[..n_dict] {
                *entry = cursor.u64()?;
            }
            take_planes(&mut cursor, n, &mut out, |id| dict[usize::from(id as u8)])?;
        }
        // `earlier` gives columns of `n` rows, and none that refer to others.
        SAME => return earlier(usize::from(cursor.u16()?)),
        LEAD => {
            out = earlier(usize::from(cursor.u16()?))?;
            debug_assert_eq!(out.len(), n);
            let last = cursor.u64()?;
            if !out.is_empty() {
                out.rotate_left(1);
                out[n - 1] = last;
            }
            for _ in 0..cursor.count(n)? {
                let (at, value) = (cursor.u32()? as usize, cursor.u64()?);
                let Some(slot) = out.get_mut(at) else {
                    return Err(cursor.damaged(format!("row {at}"), format!("a row below {n}")));
                };
                *slot = value;
            }
        }
        method => return Err(cursor.damaged(format!("method {method}"), "a method from 0 to 5")),
    }
    Ok(out)
}

fn take_planes(
    cursor: &mut Cursor<'_>,
    n: usize,
    out: &mut Vec<u64>,
    mut f: impl FnMut(u64) -> u64,
) -> Result<()> {
    let width = usize::from(cursor.u8()?);
    if width > 8 {
        return Err(cursor.damaged(format!("{width} planes"), "at most 8 planes"));
    }
    let mut scratch: [std::borrow::Cow<'_, [u8]>; 8] = Default::default();
    for plane in &mut scratch[..width] {
        *plane = match cursor.u8()? {
            PLANE_CONST => vec![cursor.u8()?; n].into(),
            PLANE_RAW => cursor.take(n)?.into(),
            PLANE_ZSTD => {
                let length = cursor.u32()? as usize;
                let at = cursor.offset();
                decompress(cursor.take(length)?, at, n)?.into()
            }
            codec => {
                return Err(cursor.damaged(format!("plane codec {codec}"), "a codec from 0 to 2"));
            }
        };
    }
    let p = |ix: usize| scratch[ix].iter().map(move |&b| u64::from(b) << (8 * ix));
    out.reserve_exact(n);
    match width {
        0 => out.extend(std::iter::repeat_n(0, n).map(f)),
        1 => out.extend(p(0).map(f)),
        2 => out.extend(p(0).zip(p(1)).map(|(a, b)| f(a | b))),
        3 => out.extend(p(0).zip(p(1)).zip(p(2)).map(|((a, b), c)| f(a | b | c))),
        4 => {
            out.extend(p(0).zip(p(1)).zip(p(2)).zip(p(3)).map(|(((a, b), c), d)| f(a | b | c | d)))
        }
        _ => {
            let mut values: Vec<u64> = p(0).collect();
            for ix in 1..width {
                values.iter_mut().zip(p(ix)).for_each(|(v, b)| *v |= b);
            }
            out.extend(values.into_iter().map(f));
        }
    }
    Ok(())
}

/// Strings of bytes: a dictionary, and each row's index into it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BytesColumn {
    /// Row -> dictionary index; every index is inside the dictionary.
    pub ids: Vec<u32>,
    /// End of each dictionary entry in `bytes`.
    ends: Vec<u32>,
    bytes: Vec<u8>,
}

impl BytesColumn {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Number of dictionary entries.
    pub fn dict_len(&self) -> usize {
        self.ends.len()
    }

    /// One dictionary entry; empty beyond the end.
    pub fn entry(&self, id: u32) -> &[u8] {
        let id = id as usize;
        let from = if id == 0 { 0 } else { self.ends.get(id - 1).copied().unwrap_or(0) as usize };
        self.ends.get(id).and_then(|&end| self.bytes.get(from..end as usize)).unwrap_or_default()
    }

    /// One dictionary entry as text: up to its first NUL, bad UTF-8 replaced.
    pub fn entry_text(&self, id: u32) -> std::borrow::Cow<'_, str> {
        let bytes = self.entry(id);
        let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..end])
    }

    /// The bytes of one row; empty beyond the end.
    pub fn row(&self, row: usize) -> &[u8] {
        self.ids.get(row).map_or(&[], |&id| self.entry(id))
    }

    /// The text of one row.
    pub fn text(&self, row: usize) -> std::borrow::Cow<'_, str> {
        self.ids.get(row).map_or("".into(), |&id| self.entry_text(id))
    }
}

/// Builds the bytes of a [`BytesColumn`] row by row.
#[derive(Default)]
pub(crate) struct BytesEncoder<'a> {
    index: QuickMap<&'a [u8], u32>,
    dict: Vec<&'a [u8]>,
    ids: Vec<u64>,
}

impl<'a> BytesEncoder<'a> {
    pub(crate) fn push(&mut self, value: &'a [u8]) {
        let next = self.dict.len() as u32;
        let id = *self.index.entry(value).or_insert(next);
        if id == next {
            self.dict.push(value);
        }
        self.ids.push(id.into());
    }

    pub(crate) fn encode(&self, level: i32) -> Vec<u8> {
        let lengths: Vec<u64> = self.dict.iter().map(|d| d.len() as u64).collect();
        let bytes = self.dict.concat();
        let mut out = (self.dict.len() as u32).to_le_bytes().to_vec();
        out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        for part in [encode_ints(&lengths, level), encode_ints(&self.ids, level)] {
            out.extend_from_slice(&(part.len() as u32).to_le_bytes());
            out.extend_from_slice(&part);
        }
        super::pack::put(&mut out, &bytes, level);
        out
    }
}

/// Decodes a column of `n` byte strings.
pub(crate) fn decode_bytes(bytes: &[u8], base: u64, n: usize) -> Result<BytesColumn> {
    let mut cursor = Cursor::new(bytes, base, "column of strings");
    // Every entry is some row's.
    let n_dict = cursor.count(n)?;
    let total = cursor.count(BLOB_BYTES_MAX)?;
    let mut part = |n: usize| {
        let length = cursor.u32()? as usize;
        let at = cursor.offset();
        decode_ints(cursor.take(length)?, at, n, &no_earlier)
    };
    let (lengths, rows) = (part(n_dict)?, part(n)?);
    let bytes = super::pack::take(&mut cursor, total)?;
    let mut end = 0u64;
    let mut ends = Vec::with_capacity(n_dict);
    for length in lengths {
        end = end.saturating_add(length);
        if end > total as u64 {
            return Err(cursor
                .damaged("entries longer than their bytes", format!("{total} bytes together")));
        }
        ends.push(end as u32);
    }
    let highest = rows.iter().copied().max().unwrap_or(0);
    if n > 0 && highest >= n_dict as u64 {
        return Err(cursor.damaged(format!("entry {highest}"), format!("an entry below {n_dict}")));
    }
    Ok(BytesColumn { ids: rows.into_iter().map(|id| id as u32).collect(), ends, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(values: &[u64]) -> (u8, usize) {
        let bytes = encode_ints(values, 1);
        assert_eq!(decode_ints(&bytes, 0, values.len(), &no_earlier).as_deref(), Ok(values));
        (bytes[0], bytes.len())
    }

    #[test]
    fn each_method_is_chosen_where_it_pays() {
        // A multiplication alone has steady differences, and DELTA would see it.
        let noise = |i: u64| {
            let x = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            ((x ^ x >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9)) >> 40
        };
        let n = 10_000u64;
        assert_eq!(round_trip(&vec![7; n as usize]), (CONST, 9));
        assert_eq!(round_trip(&[]), (CONST, 9));
        assert_eq!(round_trip(&(0..n).map(|i| 5 + noise(i) % 200).collect::<Vec<_>>()).0, PLAIN);
        assert_eq!(round_trip(&(0..n).map(|i| noise(i) << 30).collect::<Vec<_>>()).0, PLAIN);
        let (method, bytes) =
            round_trip(&(0..n).map(|i| (1 << 60) + 3000 * i + noise(i) % 1000).collect::<Vec<_>>());
        assert_eq!(method, DELTA);
        assert!(bytes < 2 * n as usize);
        assert_eq!(
            round_trip(&(0..n).map(|i| 1_000_003 * (1 + noise(i) % 20)).collect::<Vec<_>>()).0,
            DICT
        );
        // Wraps around 2^64 both ways.
        round_trip(&[u64::MAX, 0, 1, u64::MAX - 1, 1 << 63, (1 << 63) - 1]);
    }

    #[test]
    fn references_equal_or_lead_an_earlier_column() {
        let prev: Vec<u64> = (0..1000u64).map(|i| i * 7919 % 263).collect();
        let mut next: Vec<u64> = prev[1..].iter().copied().chain([42]).collect();
        next[500] = 77_777;
        let earlier = [(3usize, prev.clone())];
        let fetch = |section: usize| {
            if section == 3 { Ok(prev.clone()) } else { no_earlier(section) }
        };
        for (values, method) in [(&prev, SAME), (&next, LEAD)] {
            let bytes = encode_ints_with(values, &earlier, 1);
            assert_eq!(bytes[0], method);
            assert!(bytes.len() < 40);
            assert_eq!(decode_ints(&bytes, 0, 1000, &fetch).as_ref(), Ok(values));
            assert!(decode_ints(&bytes, 0, 1000, &no_earlier).is_err());
        }
    }

    #[test]
    fn strings_round_trip_and_repeat_for_free() {
        let rows: Vec<Vec<u8>> =
            (0..5000).map(|i| format!("thread-{}\0junk", i % 9).into_bytes()).collect();
        let mut encoder = BytesEncoder::default();
        rows.iter().for_each(|r| encoder.push(r));
        let bytes = encoder.encode(1);
        assert!(bytes.len() < 500, "{} bytes", bytes.len());
        let column = decode_bytes(&bytes, 0, rows.len()).unwrap();
        assert!(rows.iter().enumerate().all(|(ix, r)| column.row(ix) == r));
        assert_eq!((column.dict_len(), column.text(4).as_ref()), (9, "thread-4"));
        assert_eq!((column.row(5000), column.entry(9)), (&[][..], &[][..]));
    }

    #[test]
    fn bad_columns_are_errors_at_their_place() {
        let good = encode_ints(&(0..100u64).map(|i| i * i * i).collect::<Vec<_>>(), 1);
        for cut in 0..good.len() {
            assert!(decode_ints(&good[..cut], 1000, 100, &no_earlier).unwrap_err().offset >= 1000);
        }
        assert!(decode_ints(&[9], 0, 1, &no_earlier).is_err(), "method");
        assert!(
            decode_ints(&[PLAIN, 0, 0, 0, 0, 0, 0, 0, 0, 9], 0, 1, &no_earlier).is_err(),
            "planes"
        );
    }
}
