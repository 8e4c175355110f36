//! Annotations that must be kept until the passes ask for them: a quarter of the bytes that a vector takes.
//!
//! An event is a byte of kind and flags, the time since the one before, and what it has of site, numbers and name; all
//! as variable-length numbers. A slice of another tool takes about 12 bytes instead of 64.
use kasuri_base::annotation::{ArgType, Kind};
use kasuri_model::input::{Annotation, AnnotationEvents};
use kasuri_model::{Error, StrIx, Strings, Time};
use std::collections::HashMap;

/// Events that are decoded at once.
const BATCH: usize = 512;

const HAS_AUX: u8 = 1 << 5;
const HAS_NAME: u8 = 1 << 6;
const HAS_NUMBERS: u8 = 1 << 7;
const KIND: u8 = HAS_AUX - 1;

/// One thread's annotations. Events may be pushed in any order: the tape sorts itself by time when it is sealed; those
/// of equal time stay as they came.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tape {
    pid: i32,
    tid: i32,
    bytes: Vec<u8>,
    first: Option<i64>,
    last: i64,
    is_unsorted: bool,
    has_holds: bool,
    /// Where reading goes on, and the time of the event before.
    at: usize,
    now: i64,
}

impl Tape {
    /// An empty tape of this thread.
    pub fn new(pid: i32, tid: i32) -> Tape {
        Tape {
            pid,
            tid,
            ..Tape::default()
        }
    }

    /// Makes it another thread's.
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

    /// No more events come: puts them in order of time.
    pub fn seal(&mut self) {
        self.back_to_start();
        if self.is_unsorted || self.has_holds {
            let mut events: Vec<Annotation> = std::iter::from_fn(|| self.next()).collect();
            events.sort_by_key(|e| e.time);
            let mut sorted = Tape::new(self.pid, self.tid);
            for same in events.chunk_by(|a, b| a.time == b.time) {
                same.iter()
                    .filter(|e| !is_told_by_hold(e, same))
                    .for_each(|e| sorted.push(e));
            }
            *self = sorted;
            self.back_to_start();
        }
        self.bytes.shrink_to_fit();
    }

    fn back_to_start(&mut self) {
        (self.at, self.now) = (0, 0);
    }
}

/// Other tools say that a wait for a lock ended and, elsewhere, that the hold began: the model wants the latter only.
fn is_told_by_hold(e: &Annotation, same: &[Annotation]) -> bool {
    e.kind == Kind::LockGivenUp as u8
        && same
            .iter()
            .any(|other| other.kind == Kind::LockAcquired as u8 && other.a == e.a)
}

/// Doubles end in zeros, which a variable-length number stores only when they come first.
fn turned(kind: u8, aux: u16, a: u64) -> u64 {
    let is_double =
        kind == Kind::Counter as u8 || kind == Kind::Arg as u8 && aux & 15 == ArgType::F64 as u16;
    if is_double { a.swap_bytes() } else { a }
}

fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

impl AnnotationEvents for Tape {
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

/// Counters belong to processes, and streams to threads: whose stream carries them.
#[derive(Debug, Default)]
pub(crate) struct Carriers(HashMap<i32, (bool, Option<Time>, i32)>);

impl Carriers {
    /// `known`: (process, thread) that live from the start.
    pub fn new(known: impl Iterator<Item = (i32, i32)>) -> Carriers {
        let mains = known.filter(|(pid, tid)| pid == tid);
        Carriers(mains.map(|(pid, tid)| (pid, (false, None, tid))).collect())
    }

    /// A thread, and its first event.
    pub fn add(&mut self, pid: i32, tid: i32, first: Option<Time>) {
        // The main thread, else the first to say something; rows of tracks come last.
        let key = (tid != pid, first, tid);
        let best = self.0.entry(pid).or_insert(key);
        if (tid < 0, key) < (best.2 < 0, *best) {
            *best = key;
        }
    }

    /// The thread that carries the counters of a process.
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
            e(
                i64::MAX,
                Kind::TaskJoin,
                u16::MAX,
                StrIx(u32::MAX - 1),
                0,
                1,
            ),
        ]
    }

    fn read(tape: &mut Tape) -> Vec<Annotation> {
        let mut out = Vec::new();
        tape.rewind();
        tape.fill(&mut Strings::default(), &mut out).unwrap();
        out
    }

    fn text(events: &[Annotation]) -> String {
        format!("{events:?}")
    }

    #[test]
    fn tape_gives_back_what_was_pushed() {
        let mut tape = Tape::new(1, 2);
        events().iter().for_each(|e| tape.push(e));
        tape.seal();
        assert_eq!(text(&read(&mut tape)), text(&events()));
        assert_eq!(text(&read(&mut tape)), text(&events()), "again");
        assert_eq!(tape.first_time(), Some(Time(i64::MIN)));
    }

    #[test]
    fn tape_sorts_by_time_and_keeps_ties_as_they_came() {
        let mut tape = Tape::new(1, 2);
        events().iter().rev().for_each(|e| tape.push(e));
        tape.seal();
        let mut wanted = events();
        wanted.swap(1, 2);
        assert_eq!(text(&read(&mut tape)), text(&wanted));
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
        let mut tape = Tape::new(1, 2);
        for event in [
            e(1, Kind::LockRequest, 8),
            e(5, Kind::LockAcquired, 8),
            e(5, Kind::LockGivenUp, 8),
            e(6, Kind::LockGivenUp, 9),
        ] {
            tape.push(&event);
        }
        tape.seal();
        let kinds: Vec<u8> = read(&mut tape).iter().map(|e| e.kind).collect();
        let wanted = [Kind::LockRequest, Kind::LockAcquired, Kind::LockGivenUp];
        assert_eq!(kinds, wanted.map(|k| k as u8));
    }
}
