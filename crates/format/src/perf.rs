//! Records of a perf ring, as recorded without privileges: switches, forks, exits, names, losses.
//!
//! The events are opened with `sample_type = TID | TIME | CPU`, `sample_id_all`, `context_switch`, `comm`,
//! `task` and the clock CLOCK_MONOTONIC; then every record ends with 24 bytes: u32 pid, u32 tid, u64 time,
//! u32 cpu, u32 reserved. Records are a multiple of 8 bytes; all numbers are in the machine's byte order.
use crate::bytes::{Words, uint};
use crate::{Error, Result};

const LOST: u32 = 2;
const COMM: u32 = 3;
const EXIT: u32 = 4;
const FORK: u32 = 7;
const LOST_SAMPLES: u32 = 13;
const SWITCH: u32 = 14;
const SWITCH_CPU_WIDE: u32 = 15;
const MISC_COMM_EXEC: u16 = 1 << 13;
const MISC_SWITCH_OUT: u16 = 1 << 13;
const MISC_SWITCH_OUT_PREEMPT: u16 = 1 << 14;
const HEADER_BYTES: usize = 8;
const SAMPLE_ID_BYTES: usize = 24;

/// One record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// CLOCK_MONOTONIC, ns.
    pub time_ns: u64,
    /// Process that the record is about (switch: the one switched).
    pub pid: i32,
    /// Its thread.
    pub tid: i32,
    /// CPU on which it was written.
    pub cpu: u32,
    /// The kind of event.
    pub kind: RecordKind,
}

/// Content of a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RecordKind {
    /// The thread was put on the CPU.
    SwitchIn {
        /// CPU-wide events: pid and tid of the thread that left.
        previous: Option<(i32, i32)>,
    },
    /// The thread was taken off the CPU.
    SwitchOut {
        /// It could still run.
        preempted: bool,
        /// CPU-wide events: pid and tid of the thread that comes.
        next: Option<(i32, i32)>,
    },
    /// A thread or process was made.
    Fork {
        /// Parent's process.
        ppid: i32,
        /// Parent's thread.
        ptid: i32,
    },
    /// It ended.
    Exit {
        /// Parent's process.
        ppid: i32,
        /// Parent's thread.
        ptid: i32,
    },
    /// It has a new name.
    Comm {
        /// By exec.
        exec: bool,
        /// The name.
        comm: String,
    },
    /// Records were lost here.
    Lost {
        /// Number of records lost.
        count: u64,
    },
}

/// Splits the content of a perf ring, written back to back. Types of records that say nothing about threads are
/// skipped. An error ends it.
pub fn parse_records(bytes: &[u8], big_endian: bool) -> Records<'_> {
    Records { bytes, at: 0, big_endian }
}

/// Iterator of [`parse_records`].
#[derive(Clone, Debug)]
pub struct Records<'a> {
    bytes: &'a [u8],
    at: usize,
    big_endian: bool,
}

impl Records<'_> {
    fn record(&self, kind: u32, misc: u16, bytes: &[u8]) -> Option<Option<Record>> {
        if !says_something(kind) {
            return Some(None);
        }
        let split = bytes.len().checked_sub(SAMPLE_ID_BYTES)?;
        let (body, id) = bytes.split_at(split);
        let id = Words::new(id, self.big_endian);
        let said = decode(kind, misc, Words::new(body, self.big_endian))?;
        let (pid, tid) = said.about.unwrap_or((id.i32(0)?, id.i32(4)?));
        Some(Some(Record { time_ns: id.u64(8)?, pid, tid, cpu: id.u32(16)?, kind: said.kind }))
    }
}

/// Whether records of this type are about threads.
pub(crate) fn says_something(kind: u32) -> bool {
    matches!(kind, LOST | COMM | EXIT | FORK | LOST_SAMPLES | SWITCH | SWITCH_CPU_WIDE)
}

/// Content of the body of such a record.
pub(crate) struct Said {
    /// pid and tid that it is about; none: those of its sample_id.
    pub about: Option<(i32, i32)>,
    pub kind: RecordKind,
}

/// `body`: without header and sample_id. None: too short for its type.
pub(crate) fn decode(kind: u32, misc: u16, body: Words<'_>) -> Option<Said> {
    let other = if kind == SWITCH_CPU_WIDE { Some((body.i32(0)?, body.i32(4)?)) } else { None };
    let mut about = None;
    let kind = match kind {
        SWITCH | SWITCH_CPU_WIDE if misc & MISC_SWITCH_OUT != 0 => {
            RecordKind::SwitchOut { preempted: misc & MISC_SWITCH_OUT_PREEMPT != 0, next: other }
        }
        SWITCH | SWITCH_CPU_WIDE => RecordKind::SwitchIn { previous: other },
        FORK | EXIT => {
            about = Some((body.i32(0)?, body.i32(8)?));
            let (ppid, ptid) = (body.i32(4)?, body.i32(12)?);
            if kind == FORK {
                RecordKind::Fork { ppid, ptid }
            } else {
                RecordKind::Exit { ppid, ptid }
            }
        }
        COMM => {
            about = Some((body.i32(0)?, body.i32(4)?));
            RecordKind::Comm { exec: misc & MISC_COMM_EXEC != 0, comm: body.text(8)? }
        }
        LOST_SAMPLES => RecordKind::Lost { count: body.u64(0)? },
        _ => RecordKind::Lost { count: body.u64(8)? },
    };
    Some(Said { about, kind })
}

impl Iterator for Records<'_> {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Result<Record>> {
        while self.at < self.bytes.len() {
            let (at, rest) = (self.at, &self.bytes[self.at..]);
            let end = self.bytes.len();
            let Some(header) = rest.get(..HEADER_BYTES) else {
                self.at = end;
                return Some(Err(Error::truncated(
                    "perf record header",
                    at as u64,
                    rest.len() as u64,
                    8,
                )));
            };
            let kind = uint(&header[..4], self.big_endian) as u32;
            let misc = uint(&header[4..6], self.big_endian) as u16;
            let size = uint(&header[6..], self.big_endian) as usize;
            if size < HEADER_BYTES || !size.is_multiple_of(8) {
                self.at = end;
                let needed = "a multiple of 8 from 8";
                return Some(Err(Error::damaged(
                    "perf record header",
                    at as u64 + 6,
                    format!("size {size}"),
                    needed,
                )));
            }
            let Some(record) = rest.get(HEADER_BYTES..size) else {
                self.at = end;
                return Some(Err(Error::truncated(
                    "perf record",
                    at as u64,
                    rest.len() as u64,
                    size as u64,
                )));
            };
            self.at += size;
            match self.record(kind, misc, record) {
                Some(None) => {}
                Some(Some(record)) => return Some(Ok(record)),
                None => {
                    self.at = end;
                    let found = format!("a record of type {kind} with {size} bytes");
                    return Some(Err(Error::damaged(
                        "perf record",
                        at as u64,
                        found,
                        "room for its fields and sample_id",
                    )));
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, misc: u16, body: &[u8], big_endian: bool) -> Vec<u8> {
        let put = |v: u64, n: usize| {
            if big_endian {
                v.to_be_bytes()[8 - n..].to_vec()
            } else {
                v.to_le_bytes()[..n].to_vec()
            }
        };
        let size = 8 + body.len() + 24;
        let ids = [put(10, 4), put(11, 4), put(1_000, 8), put(3, 4), put(0, 4)].concat();
        [put(kind.into(), 4), put(misc.into(), 2), put(size as u64, 2), body.to_vec(), ids].concat()
    }

    #[test]
    fn every_kind_of_record() {
        let words = |w: [u32; 4]| w.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
        let mut bytes = record(SWITCH, MISC_SWITCH_OUT | MISC_SWITCH_OUT_PREEMPT, &[], false);
        bytes.extend(record(SWITCH, 0, &[], false));
        bytes.extend(record(SWITCH_CPU_WIDE, MISC_SWITCH_OUT, &words([7, 8, 0, 0])[..8], false));
        bytes.extend(record(FORK, 0, &[words([20, 10, 21, 11]), vec![0; 8]].concat(), false));
        bytes.extend(record(99, 0, &[0; 8], false));
        bytes.extend(record(
            COMM,
            MISC_COMM_EXEC,
            &[&words([20, 21, 0, 0])[..8], b"worker\0\0"].concat(),
            false,
        ));
        bytes.extend(record(LOST, 0, &[words([1, 0, 5, 0])].concat(), false));
        let got: Vec<Record> = parse_records(&bytes, false).collect::<Result<_>>().unwrap();
        let kinds: Vec<RecordKind> = got.iter().map(|r| r.kind.clone()).collect();
        assert_eq!(
            kinds,
            [
                RecordKind::SwitchOut { preempted: true, next: None },
                RecordKind::SwitchIn { previous: None },
                RecordKind::SwitchOut { preempted: false, next: Some((7, 8)) },
                RecordKind::Fork { ppid: 10, ptid: 11 },
                RecordKind::Comm { exec: true, comm: "worker".into() },
                RecordKind::Lost { count: 5 },
            ]
        );
        assert_eq!((got[0].pid, got[0].tid, got[0].time_ns, got[0].cpu), (10, 11, 1_000, 3));
        assert_eq!((got[3].pid, got[3].tid), (20, 21));
    }

    #[test]
    fn byte_order_follows_the_machine() {
        let bytes = record(SWITCH, 0, &[], true);
        let got = parse_records(&bytes, true).next().unwrap().unwrap();
        assert_eq!((got.tid, got.time_ns), (11, 1_000));
    }

    #[test]
    fn a_record_cut_short_ends_the_reading_with_its_offset() {
        let one = record(SWITCH, 0, &[], false);
        let two = [one.clone(), one].concat();
        for cut in 33..64 {
            let got: Vec<_> = parse_records(&two[..cut], false).collect();
            assert_eq!(got.len(), 2);
            assert_eq!(got[1].as_ref().unwrap_err().offset, 32);
        }
    }
}
