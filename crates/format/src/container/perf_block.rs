//! perf records of one CPU as columns.
//!
//! Sections 0 to 6 are numbers: code, time, pid, tid, CPU and two values `a` and `b` whose meaning depends on the code; section
//! 7 holds the names of the codes 8 and 9. Codes: 0 switch in; 2 switch out; 4 switch out, preempted; 1, 3, 5 the same with the
//! other thread as (a, b); 6 fork and 7 exit with the parent as (a, b); 8 name, 9 name by exec; 10 lost, `a` the count.
use super::column::{BytesEncoder, decode_bytes, decode_ints, encode_ints, no_earlier};
use super::frame::BlockInfo;
use super::pack::{Sections, join_sections};
use super::{BLOCK_EVENTS, BlockKind, EncodeOptions, EncodedBlocks};
use crate::perf::{Record, RecordKind, parse_records};
use crate::{Error, Result};

const CODES: usize = 0;
const TIMES: usize = 1;
const PIDS: usize = 2;
const TIDS: usize = 3;
const CPUS: usize = 4;
const A: usize = 5;
const B: usize = 6;
const COMMS: usize = 7;

/// perf records of one CPU, in the order of its ring.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PerfBlock {
    /// The CPU whose ring they were in.
    pub cpu: u32,
    /// The records.
    pub records: Vec<Record>,
}

/// Encodes the content of one CPU's perf ring (`perf<N>.raw`). Damage ends it and is listed in the result.
pub fn encode_perf_blocks(
    cpu: u32,
    bytes: &[u8],
    big_endian: bool,
    options: &EncodeOptions,
) -> EncodedBlocks {
    let mut out = EncodedBlocks::default();
    let mut pending = Vec::new();
    for record in parse_records(bytes, big_endian) {
        match record {
            Ok(record) if !options.keeps(record.time_ns) => out.n_cut += 1,
            Ok(record) => pending.push(record),
            Err(error) => {
                out.n_damaged += 1;
                out.errors.push(error);
            }
        }
        if pending.len() == BLOCK_EVENTS {
            push_block(&mut out, cpu, &pending, options.level);
            pending.clear();
        }
    }
    if !pending.is_empty() {
        push_block(&mut out, cpu, &pending, options.level);
    }
    out
}

/// (code, a, b) of a record.
fn split(kind: &RecordKind) -> (u64, u64, u64) {
    let pair = |code, pair: Option<(i32, i32)>| match pair {
        None => (code, 0, 0),
        Some((pid, tid)) => (code + 1, i64::from(pid) as u64, i64::from(tid) as u64),
    };
    let parent =
        |code, ppid: i32, ptid: i32| (code, i64::from(ppid) as u64, i64::from(ptid) as u64);
    match *kind {
        RecordKind::SwitchIn { previous } => pair(0, previous),
        RecordKind::SwitchOut { preempted: false, next } => pair(2, next),
        RecordKind::SwitchOut { preempted: true, next } => pair(4, next),
        RecordKind::Fork { ppid, ptid } => parent(6, ppid, ptid),
        RecordKind::Exit { ppid, ptid } => parent(7, ppid, ptid),
        RecordKind::Comm { exec, .. } => (8 + u64::from(exec), 0, 0),
        RecordKind::Lost { count } => (10, count, 0),
    }
}

fn join(code: u64, a: u64, b: u64, comm: impl FnOnce() -> String) -> Option<RecordKind> {
    let pair = (a as i32, b as i32);
    let other = (code & 1 != 0).then_some(pair);
    Some(match code {
        0 | 1 => RecordKind::SwitchIn { previous: other },
        2..=5 => RecordKind::SwitchOut { preempted: code >= 4, next: other },
        6 => RecordKind::Fork { ppid: pair.0, ptid: pair.1 },
        7 => RecordKind::Exit { ppid: pair.0, ptid: pair.1 },
        8 | 9 => RecordKind::Comm { exec: code == 9, comm: comm() },
        10 => RecordKind::Lost { count: a },
        _ => return None,
    })
}

fn push_block(out: &mut EncodedBlocks, cpu: u32, records: &[Record], level: i32) {
    let column = |f: &dyn Fn(&Record) -> u64| -> Vec<u64> { records.iter().map(f).collect() };
    let times = column(&|r| r.time_ns);
    let columns = [
        column(&|r| split(&r.kind).0),
        times.clone(),
        column(&|r| i64::from(r.pid) as u64),
        column(&|r| i64::from(r.tid) as u64),
        column(&|r| r.cpu.into()),
        column(&|r| split(&r.kind).1),
        column(&|r| split(&r.kind).2),
    ];
    let mut sections: Vec<Vec<u8>> = columns.iter().map(|c| encode_ints(c, level)).collect();
    let mut comms = BytesEncoder::default();
    for record in records {
        if let RecordKind::Comm { comm, .. } = &record.kind {
            comms.push(comm.as_bytes());
        }
    }
    sections.push(comms.encode(level));
    out.push(BlockKind::Perf, [cpu, 0, 0, 0], &times, join_sections(&sections));
}

impl PerfBlock {
    pub(crate) fn parse(info: &BlockInfo, file: &[u8]) -> Result<PerfBlock> {
        let (payload, base) = info.payload(file)?;
        let sections = Sections::parse(payload, base)?;
        let n = info.n_events as usize;
        let column = |section: usize| {
            let (bytes, at) = sections.get(section)?;
            decode_ints(bytes, at, n, &no_earlier)
        };
        let (codes, times, pids, tids) =
            (column(CODES)?, column(TIMES)?, column(PIDS)?, column(TIDS)?);
        let (cpus, a, b) = (column(CPUS)?, column(A)?, column(B)?);
        let (bytes, at) = sections.get(COMMS)?;
        let comms = decode_bytes(bytes, at, codes.iter().filter(|c| matches!(c, 8 | 9)).count())?;
        let mut comm = 0;
        let mut records = Vec::with_capacity(n);
        for row in 0..n {
            let kind = join(codes[row], a[row], b[row], || {
                comm += 1;
                comms.text(comm - 1).into_owned()
            });
            let Some(kind) = kind else {
                return Err(Error::damaged(
                    "perf block",
                    base,
                    format!("record code {}", codes[row]),
                    "0 to 10",
                ));
            };
            let (pid, tid) = (pids[row] as i32, tids[row] as i32);
            records.push(Record { time_ns: times[row], pid, tid, cpu: cpus[row] as u32, kind });
        }
        Ok(PerfBlock { cpu: info.ids[0], records })
    }
}
