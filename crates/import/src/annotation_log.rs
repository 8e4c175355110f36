//! A compact store for annotations that must be kept until the passes ask for them.
//!
//! Chrome JSON, Perfetto and CTF mix the events of all threads, while the passes want one stream per thread. Readers of
//! these formats therefore read all events first and keep each thread's in a [`AnnotationLog`]. A slice takes about 12 bytes
//! there, instead of the 64 bytes of two [`Annotation`]s.
//!
//! One event is stored as:
//!
//! | field | encoding | present |
//! |---|---|---|
//! | head | 1 byte: the kind in bits 0 to 4, the flags `HAS_AUX`, `HAS_NAME`, `HAS_NUMBERS` above | always |
//! | time | zigzag LEB128: difference to the previous event, ns | always |
//! | `aux` | LEB128 | if it is not 0 |
//! | name | LEB128: index of the string | if there is one |
//! | `a`, `b` | LEB128 each; `a` byte-swapped if it is a double | if one of them is not 0 |
//!
//! Time differences wrap around, so every pair of times can be stored, even `i64::MIN` followed by `i64::MAX`.
use kasuri_base::annotation::{ArgType, Kind};
use kasuri_model::input::{Annotation, AnnotationEvents};
use kasuri_model::{Error, StrIx, Strings, Time};
use std::collections::HashMap;

/// Events that one call of `fill` decodes.
const BATCH: usize = 512;

// Flags of the head byte. Kinds fit into the five bits below them.
const HAS_AUX: u8 = 1 << 5;
const HAS_NAME: u8 = 1 << 6;
const HAS_NUMBERS: u8 = 1 << 7;
const KIND: u8 = HAS_AUX - 1;

/// One thread's annotations. Events may be pushed in any order: [`AnnotationLog::seal`] sorts them by time, and keeps the order
/// of events with equal times.
#[derive(Clone, Debug, Default)]
pub(crate) struct AnnotationLog {
    pid: i32,
    tid: i32,
    /// The encoded events.
    bytes: Vec<u8>,
    /// The lowest time pushed; none: the log is empty.
    first: Option<i64>,
    /// The time of the event pushed last, from which the next one's difference counts.
    last: i64,
    /// An event was pushed that is older than its predecessor.
    is_unsorted: bool,
    /// A lock was acquired: `seal` has to look for ends of waits that the acquisition implies.
    has_holds: bool,
    /// The read position, and the time of the event before it.
    at: usize,
    now: i64,
}

impl AnnotationLog {
    /// An empty log of this thread.
    pub fn new(pid: i32, tid: i32) -> AnnotationLog {
        AnnotationLog { pid, tid, ..AnnotationLog::default() }
    }

    /// Gives the events to another thread. Counters use it: their thread is chosen last ([`Carriers`]).
    pub fn set_tid(&mut self, tid: i32) {
        self.tid = tid;
    }

    /// Whether nothing was pushed.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Appends an event.
    pub fn push(&mut self, e: &Annotation) {
        let time = e.time.0;
        self.is_unsorted |= self.first.is_some() && time < self.last;
        self.has_holds |= e.kind == Kind::LockAcquired as u8;
        let base = if self.first.is_some() { self.last } else { 0 };
        self.first = Some(self.first.map_or(time, |first| first.min(time)));
        self.last = time;
        let mut head = e.kind & KIND;
        head |= if e.aux != 0 { HAS_AUX } else { 0 };
        head |= if e.name.is_some() { HAS_NAME } else { 0 };
        head |= if e.a | e.b != 0 { HAS_NUMBERS } else { 0 };
        self.bytes.push(head);
        put(&mut self.bytes, zigzag(time.wrapping_sub(base)));
        if e.aux != 0 {
            put(&mut self.bytes, e.aux.into());
        }
        if e.name.is_some() {
            put(&mut self.bytes, e.name.0.into());
        }
        if e.a | e.b != 0 {
            put(&mut self.bytes, turned(e.kind, e.aux, e.a));
            put(&mut self.bytes, e.b);
        }
    }

    /// All events, in the order in which they were pushed.
    pub fn into_events(mut self) -> impl Iterator<Item = Annotation> {
        self.back_to_start();
        std::iter::from_fn(move || self.next())
    }

    /// Decodes the event at the read position; none: the end.
    fn next(&mut self) -> Option<Annotation> {
        let head = *self.bytes.get(self.at)?;
        self.at += 1;
        let delta = unzigzag(self.number());
        self.now = self.now.wrapping_add(delta);
        let mut e = Annotation {
            time: Time(self.now),
            kind: head & KIND,
            name: StrIx::NONE,
            ..Annotation::default()
        };
        if head & HAS_AUX != 0 {
            e.aux = self.number() as u16;
        }
        if head & HAS_NAME != 0 {
            e.name = StrIx(self.number() as u32);
        }
        if head & HAS_NUMBERS != 0 {
            e.a = turned(e.kind, e.aux, self.number());
            e.b = self.number();
        }
        Some(e)
    }

    /// Decodes an LEB128 number: seven bits per byte, lowest first; the top bit is set on all bytes but the last.
    fn number(&mut self) -> u64 {
        let (mut value, mut shift) = (0, 0);
        while let Some(&byte) = self.bytes.get(self.at) {
            self.at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 || shift > 63 {
                break;
            }
        }
        value
    }

    /// Puts the events in order of time. No event may be pushed afterwards.
    ///
    /// Sorting decodes all events of the thread once, so a thread whose events came in order skips it.
    pub fn seal(&mut self) {
        self.back_to_start();
        if self.is_unsorted || self.has_holds {
            let mut events: Vec<Annotation> = std::iter::from_fn(|| self.next()).collect();
            events.sort_by_key(|e| e.time);
            let mut sorted = AnnotationLog::new(self.pid, self.tid);
            for same in events.chunk_by(|a, b| a.time == b.time) {
                same.iter().filter(|e| !is_told_by_hold(e, same)).for_each(|e| sorted.push(e));
            }
            *self = sorted;
            self.back_to_start();
        }
        self.bytes.shrink_to_fit();
    }

    /// Reading begins anew.
    fn back_to_start(&mut self) {
        (self.at, self.now) = (0, 0);
    }
}

/// Whether an event is the end of a lock wait that succeeded. Other tools write a wait slice, which ends, and a hold
/// slice, which begins at the same time; the model wants the acquisition only.
fn is_told_by_hold(e: &Annotation, same: &[Annotation]) -> bool {
    e.kind == Kind::LockGivenUp as u8
        && same.iter().any(|other| other.kind == Kind::LockAcquired as u8 && other.a == e.a)
}

/// Swaps the bytes of doubles, in both directions. The low bytes of most doubles are zero, and LEB128 saves only high
/// zeros: 1.5 takes 3 bytes instead of 9.
fn turned(kind: u8, aux: u16, a: u64) -> u64 {
    let is_double =
        kind == Kind::Counter as u8 || kind == Kind::Arg as u8 && aux & 15 == ArgType::F64 as u16;
    if is_double { a.swap_bytes() } else { a }
}

/// Appends a number as LEB128.
fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Maps small numbers of either sign to small unsigned ones: 0, -1, 1, -2 become 0, 1, 2, 3.
fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// The inverse of [`zigzag`].
fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

impl AnnotationEvents for AnnotationLog {
    fn pid(&self) -> i32 {
        self.pid
    }

    fn tid(&self) -> i32 {
        self.tid
    }

    fn fill(&mut self, _strings: &mut Strings, out: &mut Vec<Annotation>) -> Result<(), Error> {
        out.extend(std::iter::from_fn(|| self.next()).take(BATCH));
        Ok(())
    }

    fn first_time(&self) -> Option<Time> {
        self.first.map(Time)
    }

    fn rewind(&mut self) {
        self.back_to_start();
    }
}

/// Chooses the thread whose stream carries a process's counters: counters belong to processes, streams to threads.
///
/// The map holds the best candidate of each process: whether it is another thread than the main one, the time of its
/// first event, and its id. The smallest wins.
#[derive(Debug, Default)]
pub(crate) struct Carriers(HashMap<i32, (bool, Option<Time>, i32)>);

impl Carriers {
    /// `known`: process and thread ids of the threads that exist from the start.
    pub fn new(known: impl Iterator<Item = (i32, i32)>) -> Carriers {
        let mains = known.filter(|(pid, tid)| pid == tid);
        Carriers(mains.map(|(pid, tid)| (pid, (false, None, tid))).collect())
    }

    /// Adds a thread, with the time of its first event.
    pub fn add(&mut self, pid: i32, tid: i32, first: Option<Time>) {
        // The main thread, else the thread with the earliest event; rows of tracks (negative ids) come last.
        let key = (tid != pid, first, tid);
        let best = self.0.entry(pid).or_insert(key);
        if (tid < 0, key) < (best.2 < 0, *best) {
            *best = key;
        }
    }

    /// The thread that carries the counters of a process; the main thread if no other is known.
    pub fn of(&self, pid: i32) -> i32 {
        self.0.get(&pid).map_or(pid, |(_, _, tid)| *tid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events() -> Vec<Annotation> {
        let e = |time, kind: Kind, aux, name, a, b| Annotation {
            time: Time(time),
            kind: kind as u8,
            aux,
            name,
            a,
            b,
        };
        vec![
            e(i64::MIN, Kind::Begin, 0, StrIx(7), 0, 0),
            e(-5, Kind::Arg, 3, StrIx(0), 1.5f64.to_bits(), 0),
            e(-5, Kind::Arg, 2, StrIx(1), u64::MAX, u64::MAX),
            e(10, Kind::Counter, 0, StrIx::NONE, f64::NAN.to_bits(), 0),
            e(i64::MAX, Kind::TaskJoin, u16::MAX, StrIx(u32::MAX - 1), 0, 1),
        ]
    }

    fn read(log: &mut AnnotationLog) -> Vec<Annotation> {
        let mut out = Vec::new();
        log.rewind();
        log.fill(&mut Strings::default(), &mut out).unwrap();
        out
    }

    fn text(events: &[Annotation]) -> String {
        format!("{events:?}")
    }

    #[test]
    fn tape_gives_back_what_was_pushed() {
        let mut log = AnnotationLog::new(1, 2);
        events().iter().for_each(|e| log.push(e));
        log.seal();
        assert_eq!(text(&read(&mut log)), text(&events()));
        assert_eq!(text(&read(&mut log)), text(&events()), "again");
        assert_eq!(log.first_time(), Some(Time(i64::MIN)));
    }

    #[test]
    fn tape_sorts_by_time_and_keeps_ties_as_they_came() {
        let mut log = AnnotationLog::new(1, 2);
        events().iter().rev().for_each(|e| log.push(e));
        log.seal();
        let mut wanted = events();
        wanted.swap(1, 2);
        assert_eq!(text(&read(&mut log)), text(&wanted));
    }

    #[test]
    fn tape_leaves_a_wait_to_the_hold_that_ends_it() {
        let e = |time, kind: Kind, a| Annotation {
            time: Time(time),
            kind: kind as u8,
            name: StrIx::NONE,
            a,
            ..Annotation::default()
        };
        let mut log = AnnotationLog::new(1, 2);
        for event in [
            e(1, Kind::LockRequest, 8),
            e(5, Kind::LockAcquired, 8),
            e(5, Kind::LockGivenUp, 8),
            e(6, Kind::LockGivenUp, 9),
        ] {
            log.push(&event);
        }
        log.seal();
        let kinds: Vec<u8> = read(&mut log).iter().map(|e| e.kind).collect();
        let wanted = [Kind::LockRequest, Kind::LockAcquired, Kind::LockGivenUp];
        assert_eq!(kinds, wanted.map(|k| k as u8));
    }
}
