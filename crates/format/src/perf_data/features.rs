//! Facts about the machine and the recording in the header's features, as far as Kasuri uses them.
//!
//! Feature numbers are those of perf's tools/perf/util/header.h (HEADER_HOSTNAME = 3...). A text is u32 length with padding, then
//! bytes padded with NULs to that length. In a file they are written when perf ends, so a recording that was killed has none.
use crate::bytes::Words;
use crate::{Error, Result};

pub(super) const TRACING_DATA: u32 = 1;
const BUILD_ID: u32 = 2;
pub(super) const HOSTNAME: u32 = 3;
const OSRELEASE: u32 = 4;
const VERSION: u32 = 5;
const ARCH: u32 = 6;
const NRCPUS: u32 = 7;
const CPUDESC: u32 = 8;
const CMDLINE: u32 = 11;
pub(super) const EVENT_DESC: u32 = 12;
const SAMPLE_TIME: u32 = 21;
const CLOCK_DATA: u32 = 29;
/// A command line longer than the kernel allows is none.
const ARGS_MAX: usize = 1 << 16;

/// Facts; empty or none where the file does not say.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Features {
    /// Host name.
    pub hostname: String,
    /// `uname -r`.
    pub osrelease: String,
    /// Version of perf.
    pub version: String,
    /// `uname -m`.
    pub arch: String,
    /// CPU model.
    pub cpudesc: String,
    /// CPUs of the machine: those that can be plugged, those that were on.
    pub n_cpus: Option<(u32, u32)>,
    /// Build-ids of files that samples were in, by path.
    pub build_ids: Vec<(String, Vec<u8>)>,
    /// perf's own command line.
    pub cmdline: Vec<String>,
    /// Stamps of the first and last sample.
    pub sample_time: Option<(u64, u64)>,
    /// One instant on both clocks: CLOCK_REALTIME ns, and ns of the clock of the stamps.
    pub clock_data: Option<(u64, u64)>,
}

impl Features {
    /// Takes in the content of one feature; `false`: it is not one that is read here.
    pub(super) fn read(&mut self, feature: u32, part: Words<'_>, offset: u64) -> Result<bool> {
        let text = |into: &mut String| -> Option<()> {
            *into = string(part, &mut 0)?;
            Some(())
        };
        let done = match feature {
            HOSTNAME => text(&mut self.hostname),
            OSRELEASE => text(&mut self.osrelease),
            VERSION => text(&mut self.version),
            ARCH => text(&mut self.arch),
            CPUDESC => text(&mut self.cpudesc),
            NRCPUS => part.u32(0).zip(part.u32(4)).map(|n| self.n_cpus = Some(n)),
            BUILD_ID => build_ids(part).map(|ids| self.build_ids = ids),
            CMDLINE => command(part).map(|args| self.cmdline = args),
            SAMPLE_TIME => part.u64(0).zip(part.u64(8)).map(|times| self.sample_time = Some(times)),
            // u32 version, u32 clock, u64 wall clock, u64 clock.
            CLOCK_DATA => part.u64(8).zip(part.u64(16)).map(|both| self.clock_data = Some(both)),
            _ => return Ok(false),
        };
        match done {
            Some(()) => Ok(true),
            None => Err(too_short(feature, part, offset)),
        }
    }
}

pub(super) fn too_short(feature: u32, part: Words<'_>, offset: u64) -> Error {
    Error::damaged(
        format!("perf header feature {feature}"),
        offset,
        format!("{} bytes", part.bytes.len()),
        "room for what it claims to hold",
    )
}

/// Records back to back: a header whose size includes all of it, i32 pid, 20 bytes of build-id, u8 its length (0: 20) and 3 unused, the path.
fn build_ids(part: Words<'_>) -> Option<Vec<(String, Vec<u8>)>> {
    let mut out = Vec::new();
    let mut rest = part.bytes;
    while !rest.is_empty() {
        let words = Words::new(rest, part.big_endian);
        let size = usize::from(words.u16(6)?);
        let path = Words::new(rest.get(36..size)?, part.big_endian).text(0)?;
        let n = match usize::from(rest[32]) {
            0 => 20,
            n => n.min(20),
        };
        out.push((path, rest[12..12 + n].to_vec()));
        rest = &rest[size..];
    }
    Some(out)
}

/// u32 length, then text padded with NULs to it.
fn string(part: Words<'_>, at: &mut usize) -> Option<String> {
    let n = part.u32(*at)? as usize;
    let from = at.checked_add(4)?;
    let end = from.checked_add(n)?;
    let bytes = part.bytes.get(from..end)?;
    *at = end;
    Words::new(bytes, part.big_endian).text(0)
}

fn command(part: Words<'_>) -> Option<Vec<String>> {
    let n = part.u32(0)? as usize;
    let mut at = 4;
    let mut out = Vec::new();
    for _ in 0..n.min(ARGS_MAX) {
        out.push(string(part, &mut at)?);
    }
    Some(out)
}

/// Names of events with the ids of each: u32 how many, u32 bytes of an attribute; for each the attribute, u32 number
/// of ids, the name, the ids.
pub(super) fn event_names(part: Words<'_>) -> Option<Vec<(String, Vec<u64>)>> {
    let (n, attr_bytes) = (part.u32(0)?, part.u32(4)? as usize);
    let mut at = 8usize;
    let mut out = Vec::new();
    for _ in 0..n {
        at = at.checked_add(attr_bytes)?;
        let n_ids = part.u32(at)? as usize;
        at += 4;
        let name = string(part, &mut at)?;
        let end = n_ids.checked_mul(8)?.checked_add(at)?;
        let ids = part.bytes.get(at..end)?.chunks_exact(8);
        let ids = ids.filter_map(|id| Words::new(id, part.big_endian).u64(0));
        out.push((name, ids.collect()));
        at = end;
    }
    Some(out)
}
