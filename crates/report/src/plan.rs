//! The plan of a report: its lines, and which rows of the model each of them shows. Types only; [`super::lines`] lays a
//! plan out, [`super::account`] and [`super::locks`] add theirs, and everything after that reads it.
//!
//! A *line* is a sequence of items in time order that do not overlap: one depth of one thread's slices, one thread's
//! states, one CPU's occupancy. Everything the viewer draws is a line.
use kasuri_model::{ProcessIx, StrIx, Time, Trace};
use std::ops::Range;

/// The kinds of lines. The number is part of the file format.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Kind {
    /// The threads that a CPU ran; value: thread + 1, 0 unknown. Idle time is a gap.
    Cpu = 0,
    /// A thread's states; value: the state.
    State = 1,
    /// One depth of a thread's slices; value: name << 4 | kind.
    Slice = 2,
    /// A thread's system calls; value: name << 4.
    Syscall = 3,
    /// A CPU's hard interrupts; value: name << 4.
    Irq = 4,
    /// A CPU's softirqs; value: name << 4.
    Softirq = 5,
    /// A thread's instants; value: name << 4.
    Instant = 6,
    /// A counter; the value is a number of its own column, see [`super::columns`].
    Counter = 7,
    /// One lane of a lock's holders or waiters; value: thread + 1.
    Lock = 8,
    /// The classes that a CPU's time is charged to; value: the class.
    Account = 9,
}

/// The model's rows behind a line, in time order.
#[derive(Clone, Debug)]
pub enum Rows {
    /// Neighbours in the table.
    Range(Range<u32>),
    /// Picked out of the table.
    List(Vec<u32>),
}

impl Rows {
    /// Number of items.
    pub fn len(&self) -> usize {
        match self {
            Rows::Range(range) => range.len(),
            Rows::List(list) => list.len(),
        }
    }

    /// The model's row of item `i`.
    pub fn get(&self, i: usize) -> usize {
        match self {
            Rows::Range(range) => range.start as usize + i,
            Rows::List(list) => list[i] as usize,
        }
    }
}

/// One line of the chart.
#[derive(Clone, Debug)]
pub struct Line {
    /// The kind of its items.
    pub kind: Kind,
    /// Row of the owner: CPU number, thread, counter or lock, as `kind` says.
    pub owner: u32,
    /// Slices: the depth. Locks: the lane. Else 0.
    pub depth: u32,
    /// Its items.
    pub rows: Rows,
}

/// One item of a line, times in ns after [`Plan::base`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Item {
    /// Begin.
    pub start: u64,
    /// End, `>= start`.
    pub end: u64,
    /// The value that gives it its colour, see [`Kind`].
    pub value: u32,
}

/// Every line, and the time axis they share.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The time that is 0 in the file, ns from the recording's origin.
    pub base: i64,
    /// Length of the axis, ns: no item ends later. At least 1.
    pub length: u64,
    /// The lines: CPUs first, then threads, counters, locks, the account.
    pub lines: Vec<Line>,
    /// Owners of the lines of locks.
    pub locks: Vec<Lock>,
    /// The segments behind the lines of the account.
    pub segments: Segments,
    /// Number of locks that have no lines.
    pub locks_without_row: usize,
    /// For each name: number of slices.
    pub name_count: Vec<u32>,
}

impl Plan {
    /// `time` on the file's axis; what lies outside is moved to its edge.
    pub fn at(&self, time: Time) -> u64 {
        (time.0.saturating_sub(self.base)).clamp(0, self.length as i64) as u64
    }

    /// Item `i` of `line`.
    pub fn item(&self, trace: &Trace, line: &Line, i: usize) -> Item {
        let row = line.rows.get(i);
        let (start, end, value) = match line.kind {
            Kind::Account => return self.segments.item(row),
            Kind::Cpu => self.occupancy(trace, line, row),
            Kind::State => self.state(trace, line, row),
            Kind::Slice => {
                let s = &trace.slices;
                (s.start[row], s.end[row], s.name[row].0.wrapping_shl(4) | s.kind[row] as u32)
            }
            Kind::Syscall | Kind::Irq | Kind::Softirq => {
                let s = &trace.kernel_spans;
                (s.start[row], s.end[row], s.name[row].0.wrapping_shl(4))
            }
            Kind::Instant => {
                let s = &trace.instants;
                (s.time[row], s.time[row], s.name[row].0.wrapping_shl(4))
            }
            Kind::Counter => {
                let s = &trace.counters[line.owner as usize];
                (s.time[row], s.time[row], 0)
            }
            Kind::Lock => {
                let s = &trace.slices;
                (s.start[row], s.end[row], s.thread[row].0.wrapping_add(1))
            }
        };
        let start = self.at(start);
        Item { start, end: self.at(end).max(start), value }
    }

    /// An entry of a CPU's occupancy: it lasts until the next one.
    fn occupancy(&self, trace: &Trace, line: &Line, row: usize) -> (Time, Time, u32) {
        let occupancy = &trace.occupancy;
        let last = trace.cpus[line.owner as usize].occupancy.end as usize;
        let end = if row + 1 < last { occupancy.start[row + 1] } else { trace.span.end };
        (occupancy.start[row], end, occupancy.thread[row].0.wrapping_add(1))
    }

    /// A state of a thread: it lasts until the next one.
    fn state(&self, trace: &Trace, line: &Line, row: usize) -> (Time, Time, u32) {
        let thread = &trace.threads[line.owner as usize];
        let states = &trace.states;
        let end = if row + 1 < thread.states.end as usize {
            states.start[row + 1]
        } else {
            thread.alive.end
        };
        (states.start[row], end, states.state[row] as u32)
    }
}

/// Segments of all CPUs, times on the file's axis.
#[derive(Clone, Debug, Default)]
pub struct Segments {
    /// Begin and end of each segment.
    pub start: Vec<u64>,
    /// See `start`.
    pub end: Vec<u64>,
    /// Row of `causes`.
    pub cause: Vec<u32>,
    /// The cause's class.
    pub class: Vec<u8>,
    /// What segments are charged to.
    pub causes: Vec<CauseRow>,
    /// Buckets of the mix; 0: there is no account.
    pub buckets: usize,
}

impl Segments {
    /// Segment `row` as an item.
    pub fn item(&self, row: usize) -> Item {
        Item { start: self.start[row], end: self.end[row], value: self.class[row] as u32 }
    }
}

/// A cause, as the account's table calls it.
#[derive(Clone, Debug, serde::Serialize)]
pub struct CauseRow {
    /// Number of its class.
    pub class: u8,
    /// Its name.
    pub text: String,
    /// Address of the lock; "" for none.
    pub object: String,
    /// Row of the thread that was waited for; -1 for none.
    pub thread: i64,
}

/// One lock's row.
#[derive(Clone, Debug)]
pub struct Lock {
    /// Its address, in the memory of `process`: after a fork a lock has the same address in both processes.
    pub object: u64,
    /// See `object`.
    pub process: ProcessIx,
    /// The most frequent name of its slices.
    pub name: StrIx,
    /// Lanes of holds; those of waits follow.
    pub hold_lanes: u32,
    /// Number of holds and waits, and their time: those of the slices, or the analysis' ([`super::locks::tell`]).
    pub holds: u64,
    /// See `holds`.
    pub waits: u64,
    /// See `holds`.
    pub hold_ns: u64,
    /// See `holds`.
    pub wait_ns: u64,
    /// Slices that found no free lane.
    pub unshown: u64,
}

/// First `i` in `0..n` for which `less` is false; `less` must be true before it and false from there on.
pub fn partition(n: usize, less: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, n);
    while low < high {
        let middle = (low + high) / 2;
        if less(middle) { low = middle + 1 } else { high = middle }
    }
    low
}
