//! The header of a file, and what stands in its place in a pipe: records of their own.
//!
//! A file says where its parts are: attributes, records, and behind those the features, one section for each bit of a
//! bitmap. A pipe cannot: attributes, format files and features come as records before those that need them.
use super::attr::{ATTR_BYTES_MAX, ATTR_BYTES_MIN, Attr};
use super::features::{self, EVENT_DESC, HOSTNAME, TRACING_DATA};
use super::record::{HEADER_BYTES, Header, Kind};
use super::{Keep, PerfData};
use crate::bytes::Words;
use crate::trace_dat::TracingData;
use crate::{Error, ErrorKind, Result};
use std::borrow::Cow;

pub(super) const MAGIC: &[u8; 8] = b"PERFILE2";
pub(super) const MAGIC_SWAPPED: &[u8; 8] = b"2ELIFREP";
const FEATURES_MAX: u32 = 256;
/// The remedy for files of a recording that did not end in order.
const NOT_ENDED: &str =
    "perf was killed before it could end the file; record again and end it with Ctrl-C or SIGTERM";
/// More events than a kernel has.
const EVENTS_MAX: usize = 65_536;

pub(super) fn read<'a>(bytes: &'a [u8], keep: &mut Keep<'_>) -> Result<PerfData<'a>> {
    let big_endian = match bytes.get(..8) {
        Some(magic) if magic == MAGIC => false,
        Some(magic) if magic == MAGIC_SWAPPED => true,
        found => {
            let found = found.unwrap_or(bytes);
            return Err(Error::new(
                ErrorKind::Foreign,
                "perf.data",
                0,
                format!("{:?}", String::from_utf8_lossy(found)),
                "\"PERFILE2\" or its reverse",
            ));
        }
    };
    let words = Words::new(bytes, big_endian);
    let truncated = |need| Error::truncated("perf.data header", 0, bytes.len() as u64, need);
    let size = words.u64(8).ok_or_else(|| truncated(16))?;
    let mut data = PerfData { big_endian, ..PerfData::default() };
    match size {
        16 => {
            data.pipe = true;
            data.base = 16;
            data.records = Cow::Borrowed(&bytes[16..]);
        }
        104 if bytes.len() >= 104 => sections(&mut data, bytes, words, keep)?,
        104 => return Err(truncated(104)),
        other => {
            return Err(Error::new(
                ErrorKind::Version,
                "perf.data header",
                8,
                format!("a header of {other} bytes"),
                "104, or 16 of a pipe",
            ));
        }
    }
    Ok(data)
}

/// A part of the file: offset and length at `at`.
fn section<'a>(words: Words<'a>, at: usize, what: &'static str) -> Result<(&'a [u8], u64)> {
    let (offset, size) = words.u64(at).zip(words.u64(at + 8)).ok_or_else(|| {
        let have = words.bytes.len().saturating_sub(at) as u64;
        Error::truncated(what, at as u64, have, 16)
    })?;
    let len = words.bytes.len() as u64;
    match offset.checked_add(size) {
        Some(end) if end <= len => Ok((&words.bytes[offset as usize..end as usize], offset)),
        _ => Err(Error::truncated(what, offset, len.saturating_sub(offset), size)),
    }
}

fn sections<'a>(
    data: &mut PerfData<'a>,
    bytes: &'a [u8],
    words: Words<'a>,
    keep: &mut Keep<'_>,
) -> Result<()> {
    let attr_bytes = words.u64(16).unwrap_or(0) as usize;
    attrs(data, words, attr_bytes)?;
    let offset = words.u64(40).unwrap_or(0);
    let ended = words.u64(48).is_some_and(|size| size > 0);
    let records = if ended {
        section(words, 40, "perf.data records")
    } else {
        let have = bytes.len() as u64;
        Err(Error::truncated("perf.data records", 48, 0, have.saturating_sub(offset))
            .remedy(NOT_ENDED))
    };
    match records {
        Ok((records, base)) => (data.records, data.base) = (Cow::Borrowed(records), base),
        Err(error) => {
            keep(error)?;
            let rest = bytes.get(usize::try_from(offset).unwrap_or(usize::MAX)..);
            (data.records, data.base) = (Cow::Borrowed(rest.unwrap_or_default()), offset);
            // Everything after the records is cut off with them.
            return Ok(());
        }
    }
    let mut at = data.base as usize + data.records.len();
    for feature in feature_bits(words) {
        let part = section(words, at, "perf.data header feature");
        at += 16;
        let done = part.and_then(|(part, offset)| take_feature(data, feature, part, offset));
        match done {
            Ok(()) => {}
            // What is cut off is damage. A feature that is whole and wrong was written so.
            Err(error) if feature == TRACING_DATA || error.kind == ErrorKind::Truncated => {
                keep(error)?;
            }
            Err(error) => unread(data, error),
        }
    }
    Ok(())
}

fn attrs(data: &mut PerfData<'_>, words: Words<'_>, attr_bytes: usize) -> Result<()> {
    // An attribute, and where its ids are.
    if !(ATTR_BYTES_MIN + 16..=ATTR_BYTES_MAX + 16).contains(&attr_bytes) {
        return Err(Error::damaged(
            "perf.data header",
            16,
            format!("attributes of {attr_bytes} bytes"),
            "80 to 4112",
        ));
    }
    let (part, offset) = section(words, 24, "perf.data attributes")?;
    for (ix, entry) in part.chunks_exact(attr_bytes).take(EVENTS_MAX).enumerate() {
        let at = offset + (ix * attr_bytes) as u64;
        let (attr, ids) = entry.split_at(attr_bytes - 16);
        let mut attr = Attr::parse(attr, data.big_endian, at)?;
        let ids = Words::new(ids, data.big_endian);
        let (from, size) = ids.u64(0).zip(ids.u64(8)).unwrap_or_default();
        let ids = usize::try_from(from)
            .ok()
            .and_then(|from| words.bytes.get(from..)?.get(..usize::try_from(size).ok()?));
        let Some(ids) = ids else {
            let len = words.bytes.len() as u64;
            let have = len.saturating_sub(from);
            return Err(Error::truncated("ids of a perf event", from, have, size));
        };
        attr.ids = u64s(ids, data.big_endian);
        data.attrs.push(attr);
    }
    Ok(())
}

fn u64s(bytes: &[u8], big_endian: bool) -> Vec<u64> {
    let all = bytes.chunks_exact(8);
    all.filter_map(|id| Words::new(id, big_endian).u64(0)).collect()
}

/// The bitmap is an array of the recording machine's `long`. Its size is not in the file, but every perf sets the bit
/// of the host name: on a big-endian machine of 32 bits that is in another place.
fn feature_bits(words: Words<'_>) -> Vec<u32> {
    let longs: Vec<u64> = (0..4).filter_map(|n| words.u64(72 + 8 * n)).collect();
    let swapped: Vec<u64> = longs.iter().map(|l| l.rotate_left(32)).collect();
    let bits = |longs: &[u64]| -> Vec<u32> {
        let is_set = |bit: &u32| {
            let long = longs.get((bit / 64) as usize);
            long.is_some_and(|long| long >> (bit % 64) & 1 != 0)
        };
        (0..FEATURES_MAX).filter(is_set).collect()
    };
    let as_64 = bits(&longs);
    if words.big_endian && !as_64.contains(&HOSTNAME) && bits(&swapped).contains(&HOSTNAME) {
        return bits(&swapped);
    }
    as_64
}

fn take_feature(data: &mut PerfData<'_>, feature: u32, part: &[u8], offset: u64) -> Result<()> {
    let words = Words::new(part, data.big_endian);
    match feature {
        TRACING_DATA => tracing_data(data, part, offset),
        EVENT_DESC => {
            let names = features::event_names(words)
                .ok_or_else(|| features::too_short(feature, words, offset))?;
            for (name, ids) in names {
                let has = |attr: &&mut Attr| ids.first().is_some_and(|id| attr.ids.contains(id));
                if let Some(attr) = data.attrs.iter_mut().find(has) {
                    attr.name = name;
                }
            }
            Ok(())
        }
        _ => data.features.read(feature, words, offset).map(|_| ()),
    }
}

/// Notes a feature that the records can be read without.
fn unread(data: &mut PerfData<'_>, error: Error) {
    // A pipe of noise has many.
    if data.unread.len() < FEATURES_MAX as usize {
        data.unread.push(error);
    }
}

fn tracing_data(data: &mut PerfData<'_>, part: &[u8], offset: u64) -> Result<()> {
    let tracing = TracingData::parse(part, offset)?;
    data.formats.extend(tracing.formats);
    data.cmdlines = tracing.cmdlines;
    Ok(())
}

/// A record that perf wrote, not the kernel. Those that Kasuri has no use for are left out.
pub(super) fn user_record(
    data: &mut PerfData<'_>,
    header: Header,
    body: Words<'_>,
    offset: u64,
) -> Result<()> {
    let short = || {
        Error::damaged(
            "perf record",
            offset,
            format!("a record of type {} with {} bytes", header.kind, header.size),
            "room for its fields",
        )
    };
    let base = offset + HEADER_BYTES as u64;
    match header.kind {
        Kind::ATTR if data.attrs.len() < EVENTS_MAX => {
            // The attribute says how long it is; ids fill the rest.
            let size = body.u32(4).ok_or_else(short)? as usize;
            let own = body.bytes.get(..header.size - HEADER_BYTES);
            let (attr, ids) = own.and_then(|own| own.split_at_checked(size)).ok_or_else(short)?;
            let mut attr = Attr::parse(attr, data.big_endian, base)?;
            attr.ids = u64s(ids, data.big_endian);
            data.attrs.push(attr);
            data.set_layouts()
        }
        Kind::TRACING_DATA => {
            let n = body.u32(0).ok_or_else(short)? as usize;
            let from = header.size - HEADER_BYTES;
            let part = body.bytes.get(from..).and_then(|rest| rest.get(..n));
            tracing_data(data, part.ok_or_else(short)?, offset + header.size as u64)
        }
        Kind::FEATURE => {
            let feature = body.u64(0).ok_or_else(short)?;
            let part = body.bytes.get(8..).ok_or_else(short)?;
            let feature = u32::try_from(feature).unwrap_or(FEATURES_MAX);
            match take_feature(data, feature, part, base + 8) {
                Err(error) if feature != TRACING_DATA => unread(data, error),
                done => return done,
            }
            Ok(())
        }
        Kind::EVENT_UPDATE => {
            // u64 type, u64 id, then what it is about; 2: the name.
            const NAME: u64 = 2;
            let (kind, id) = body.u64(0).zip(body.u64(8)).ok_or_else(short)?;
            if kind == NAME
                && let Some(attr) = data.attrs.iter_mut().find(|a| a.ids.contains(&id))
            {
                attr.name = body.text(16).unwrap_or_default();
            }
            Ok(())
        }
        Kind::ID_INDEX => {
            let entries = body.bytes.get(8..).ok_or_else(short)?;
            for entry in entries.chunks_exact(32) {
                // id, index, CPU, thread.
                let entry = Words::new(entry, data.big_endian);
                let (id, cpu) = entry.u64(0).zip(entry.u64(16)).ok_or_else(short)?;
                if let Ok(cpu) = u32::try_from(cpu) {
                    data.cpu_of_id.insert(id, cpu);
                }
            }
            Ok(())
        }
        Kind::THREAD_MAP => {
            let entries = body.bytes.get(8..).ok_or_else(short)?;
            let pids = entries.chunks_exact(24);
            let pids = pids.filter_map(|entry| Words::new(entry, data.big_endian).u64(0));
            data.asked_pids = pids.map(|pid| pid as i32).filter(|&pid| pid != -1).collect();
            data.system_wide = Some(data.asked_pids.is_empty());
            Ok(())
        }
        _ => Ok(()),
    }
}
