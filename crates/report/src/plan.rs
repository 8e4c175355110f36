//! Which rows the chart has, and which rows of the model each of them shows.
//!
//! A *line* is a sequence of items in time order that do not overlap: one depth of one thread's slices, one thread's
//! states, one CPU's occupancy. Everything the viewer draws is a line.
use super::account::Segments;
use super::locks::{self, Lock};
use kasuri_model::{KernelSpanKind, Time, Trace};
use std::ops::Range;

/// What a line shows. The number is part of the file format.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Kind {
    /// Which thread a CPU ran; value: thread + 1, 0 unknown. Idle is a gap.
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
    /// What a CPU's time is charged to; value: the class.
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
    /// What it shows.
    pub kind: Kind,
    /// Row of the owner: CPU number, thread, counter or lock, as `kind` says.
    pub owner: u32,
    /// Slices: the depth. Locks: the lane. Else 0.
    pub depth: u32,
    /// What is in it.
    pub rows: Rows,
}

/// One item of a line, times in ns after [`Plan::base`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Item {
    /// When it begins.
    pub start: u64,
    /// When it ends, `>= start`.
    pub end: u64,
    /// What colours it, see [`Kind`].
    pub value: u32,
}

/// Every line, and the time axis they share.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// What is 0 in the file, ns from the recording's origin.
    pub base: i64,
    /// Length of the axis, ns: no item ends later. At least 1.
    pub length: u64,
    /// The lines: CPUs first, then threads, counters, locks, the account.
    pub lines: Vec<Line>,
    /// Owners of the lines of locks.
    pub locks: Vec<Lock>,
    /// What the lines of the account show.
    pub segments: Segments,
    /// Locks beyond those.
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
                (
                    s.start[row],
                    s.end[row],
                    s.name[row].0.wrapping_shl(4) | s.kind[row] as u32,
                )
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
        Item {
            start,
            end: self.at(end).max(start),
            value,
        }
    }

    fn occupancy(&self, trace: &Trace, line: &Line, row: usize) -> (Time, Time, u32) {
        let occupancy = &trace.occupancy;
        let last = trace.cpus[line.owner as usize].occupancy.end as usize;
        let end = if row + 1 < last {
            occupancy.start[row + 1]
        } else {
            trace.span.end
        };
        (
            occupancy.start[row],
            end,
            occupancy.thread[row].0.wrapping_add(1),
        )
    }

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

/// Lays out the lines of `trace`.
pub fn plan(trace: &Trace) -> Plan {
    let (base, length) = axis(trace);
    let mut plan = Plan {
        base,
        length,
        name_count: names(trace),
        ..Plan::default()
    };
    let spans = kernel_lines(trace);
    for (cpu, row) in trace.cpus.iter().enumerate() {
        let busy: Vec<u32> = row
            .occupancy
            .clone()
            .filter(|&i| !trace.occupancy.idle[i as usize])
            .collect();
        push(&mut plan, Kind::Cpu, cpu, 0, Rows::List(busy));
    }
    for (kind, owner, rows) in spans {
        push(&mut plan, kind, owner, 0, Rows::List(rows));
    }
    let mut instants = 0;
    for (ix, thread) in trace.threads.iter().enumerate() {
        push(
            &mut plan,
            Kind::State,
            ix,
            0,
            Rows::Range(thread.states.clone()),
        );
        for (depth, rows) in by_depth(trace, thread.slices.clone())
            .into_iter()
            .enumerate()
        {
            push(&mut plan, Kind::Slice, ix, depth, Rows::List(rows));
        }
        let of_thread = trace.instants.thread[instants..].partition_point(|t| t.ix() <= ix);
        push(
            &mut plan,
            Kind::Instant,
            ix,
            0,
            Rows::Range(instants as u32..(instants + of_thread) as u32),
        );
        instants += of_thread;
    }
    for (ix, counter) in trace.counters.iter().enumerate() {
        push(
            &mut plan,
            Kind::Counter,
            ix,
            0,
            Rows::Range(0..counter.time.len() as u32),
        );
    }
    (plan.locks, plan.locks_without_row) = locks::plan(trace, &mut plan.lines);
    plan
}

fn push(plan: &mut Plan, kind: Kind, owner: usize, depth: usize, rows: Rows) {
    if rows.len() > 0 {
        plan.lines.push(Line {
            kind,
            owner: owner as u32,
            depth: depth as u32,
            rows,
        });
    }
}

/// First instant and length of the time axis: the recording's span, widened to slices known from before it.
fn axis(trace: &Trace) -> (i64, u64) {
    let known = |t: &Time| *t != Time::MIN && *t != Time::MAX;
    let slices = &trace.slices;
    let first = slices
        .start
        .iter()
        .chain(&trace.instants.time)
        .copied()
        .filter(known)
        .min();
    let last = slices
        .end
        .iter()
        .chain(&trace.instants.time)
        .copied()
        .filter(known)
        .max();
    let base = first
        .map_or(trace.span.start, |t| t.min(trace.span.start))
        .0;
    let end = last.map_or(trace.span.end, |t| t.max(trace.span.end)).0;
    // JavaScript counts exactly to 2^53 ns, which is 104 days.
    (base, end.saturating_sub(base).clamp(1, 1 << 53) as u64)
}

fn by_depth(trace: &Trace, slices: Range<u32>) -> Vec<Vec<u32>> {
    let depth = &trace.slices.depth;
    let mut count: Vec<usize> = Vec::new();
    for i in slices.clone() {
        let d = depth[i as usize] as usize;
        if d >= count.len() {
            count.resize(d + 1, 0);
        }
        count[d] += 1;
    }
    let mut rows: Vec<Vec<u32>> = count.into_iter().map(Vec::with_capacity).collect();
    for i in slices {
        rows[depth[i as usize] as usize].push(i);
    }
    rows
}

/// System calls by thread, interrupts by CPU.
fn kernel_lines(trace: &Trace) -> Vec<(Kind, usize, Vec<u32>)> {
    let spans = &trace.kernel_spans;
    let mut lines: std::collections::BTreeMap<(Kind, usize), Vec<u32>> = Default::default();
    for (i, kind) in spans.kind.iter().enumerate() {
        let key = match kind {
            KernelSpanKind::Irq => (Kind::Irq, spans.cpu[i] as usize),
            KernelSpanKind::Softirq => (Kind::Softirq, spans.cpu[i] as usize),
            KernelSpanKind::Syscall if spans.thread[i].ix() < trace.threads.len() => {
                (Kind::Syscall, spans.thread[i].ix())
            }
            KernelSpanKind::Syscall => continue,
            // Inside system calls and on the same line of the chart: `kasuri locks` has them.
            KernelSpanKind::LockContention => continue,
        };
        lines.entry(key).or_default().push(i as u32);
    }
    lines
        .into_iter()
        .map(|((kind, owner), rows)| (kind, owner, rows))
        .collect()
}

fn names(trace: &Trace) -> Vec<u32> {
    let mut count = vec![0u32; trace.strings.len()];
    for name in &trace.slices.name {
        if let Some(n) = count.get_mut(name.ix()) {
            *n += 1;
        }
    }
    count
}
