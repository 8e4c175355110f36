//! Samples of call paths as columns.
//!
//! Sections: time, CPU, pid, tid, kind and end in one number, path. Samples of all CPUs share blocks, in order of time:
//! there are few of them, and a row of the paths that are met again and again packs better in one.
use super::column::{decode_ints, encode_ints, no_earlier};
use super::frame::BlockInfo;
use super::pack::{Sections, join_sections};
use super::{BLOCK_EVENTS, BlockKind, EncodeOptions, EncodedBlocks};
use crate::call_paths::{NONE, PathEnd, Sample, SampleKind};
use crate::{Error, Result};

/// Encodes samples, which need not be sorted. [`EncodeOptions::keep`] is compared with their CLOCK_MONOTONIC.
pub fn encode_sample_blocks(samples: &[Sample], options: &EncodeOptions) -> EncodedBlocks {
    let mut out = EncodedBlocks::default();
    let mut kept: Vec<Sample> = samples.to_vec();
    kept.retain(|s| options.keeps(s.time_ns));
    out.n_cut = (samples.len() - kept.len()) as u64;
    kept.sort_by_key(|s| s.time_ns);
    for block in kept.chunks(BLOCK_EVENTS) {
        let column = |f: &dyn Fn(&Sample) -> u64| -> Vec<u64> { block.iter().map(f).collect() };
        let times = column(&|s| s.time_ns);
        let columns = [
            column(&|s| s.cpu.into()),
            column(&|s| u64::from(s.pid as u32)),
            column(&|s| u64::from(s.tid as u32)),
            column(&|s| u64::from(s.kind as u8) | u64::from(s.end as u8) << 4),
            column(&|s| u64::from(s.path.wrapping_add(1))),
        ];
        let mut sections = vec![encode_ints(&times, options.level)];
        sections.extend(columns.iter().map(|c| encode_ints(c, options.level)));
        out.push(BlockKind::Samples, [0; 4], &times, join_sections(&sections));
    }
    out
}

/// Decodes one block; paths must be rows of a table of `n_paths`.
pub(crate) fn parse_samples(info: &BlockInfo, file: &[u8], n_paths: usize) -> Result<Vec<Sample>> {
    let (payload, base) = info.payload(file)?;
    let sections = Sections::parse(payload, base)?;
    let n = info.n_events as usize;
    let column = |section: usize| {
        let (bytes, at) = sections.get(section)?;
        decode_ints(bytes, at, n, &no_earlier)
    };
    let (times, cpus, pids, tids) = (column(0)?, column(1)?, column(2)?, column(3)?);
    let (bits, paths) = (column(4)?, column(5)?);
    let damaged = |found: String, needed: &str| {
        Error::damaged("sample block", base, found, needed.to_owned())
    };
    (0..n)
        .map(|row| {
            let (kind, end) = (bits[row] as u8 & 15, bits[row] as u8 >> 4);
            let (Some(kind), Some(end)) =
                (SampleKind::from_number(kind), PathEnd::from_number(end))
            else {
                return Err(damaged(format!("bits {:#x}", bits[row]), "a kind and an end"));
            };
            let path = match paths[row] {
                0 => NONE,
                path if path <= n_paths as u64 => (path - 1) as u32,
                path => return Err(damaged(format!("path {path}"), "a path of the table")),
            };
            Ok(Sample {
                time_ns: times[row],
                pid: pids[row] as i32,
                tid: tids[row] as i32,
                cpu: cpus[row] as u32,
                kind,
                end,
                path,
            })
        })
        .collect()
}
