//! The scheduler's events under LTTng's names, rebuilt from the model's columns.
//!
//! Each boundary of two rows of a CPU's occupancy was one sched_switch, each wake-up one sched_waking. Births, moves and
//! spans inside the kernel go to the CPU on which the thread was. Events are ordered in one list of 16 bytes each.
use super::class::{Class, Ty};
use super::stream::{StreamWriter, comm, text};
use super::{Directory, File};
use crate::label;
use kasuri_model::{KernelSpanKind, SOFTIRQS, StrIx, ThreadIx, ThreadState, Time, Trace};
use std::collections::HashMap;
use std::io;

/// The model does not keep priorities; this is the kernel's number for a normal thread, less 100 as LTTng has it.
const PRIORITY: i32 = 20;
/// A handler's number is not kept either.
const IRQ: i32 = 0;

const WAKE: &[(&str, Ty)] = &[
    ("comm", Ty::Comm),
    ("tid", Ty::I32),
    ("prio", Ty::I32),
    ("target_cpu", Ty::I32),
];
const FIXED: &[(&str, &[(&str, Ty)])] = &[
    (
        "sched_switch",
        &[
            ("prev_comm", Ty::Comm),
            ("prev_tid", Ty::I32),
            ("prev_prio", Ty::I32),
            ("prev_state", Ty::I64),
            ("next_comm", Ty::Comm),
            ("next_tid", Ty::I32),
            ("next_prio", Ty::I32),
        ],
    ),
    ("sched_waking", WAKE),
    ("sched_wakeup_new", WAKE),
    (
        "sched_migrate_task",
        &[
            ("comm", Ty::Comm),
            ("tid", Ty::I32),
            ("prio", Ty::I32),
            ("orig_cpu", Ty::I32),
            ("dest_cpu", Ty::I32),
        ],
    ),
    (
        "sched_process_fork",
        &[
            ("parent_comm", Ty::Comm),
            ("parent_tid", Ty::I32),
            ("parent_pid", Ty::I32),
            ("child_comm", Ty::Comm),
            ("child_tid", Ty::I32),
            ("child_pid", Ty::I32),
        ],
    ),
    ("irq_handler_entry", &[("irq", Ty::I32), ("name", Ty::Text)]),
    ("irq_handler_exit", &[("irq", Ty::I32), ("ret", Ty::I32)]),
    ("irq_softirq_entry", &[("vec", Ty::U32)]),
    ("irq_softirq_exit", &[("vec", Ty::U32)]),
    // An interrupt without a handler of its own, around the wake-up that it made.
    ("kasuri_irq_vectors_entry", &[("vector", Ty::I32)]),
    ("kasuri_irq_vectors_exit", &[("vector", Ty::I32)]),
    ("lock_contention_begin", &[("name", Ty::Text)]),
    ("lock_contention_end", &[]),
    (
        "lttng_statedump_process_state",
        &[
            ("tid", Ty::I32),
            ("vtid", Ty::I32),
            ("pid", Ty::I32),
            ("vpid", Ty::I32),
            ("ppid", Ty::I32),
            ("vppid", Ty::I32),
            ("name", Ty::Comm),
            ("type", Ty::I32),
            ("mode", Ty::I32),
            ("submode", Ty::I32),
            ("status", Ty::I32),
            ("ns_level", Ty::I32),
            ("cpu", Ty::U32),
        ],
    ),
    ("lttng_statedump_end", &[]),
];

/// Kinds of events before names make several of them; the order is that of equal stamps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum What {
    Dump,
    Lost,
    SpanEnd,
    Migrate,
    Fork,
    Waking,
    Switch,
    SpanBegin,
    /// Of a span of no length: after its begin.
    EmptyEnd,
}

/// An event that is to be written: its kind, and its row in the table of that kind.
type Entry = (u16, Time, What, u32);

/// Classes, and what finds them.
pub(super) struct Classes {
    pub all: Vec<Class>,
    /// System calls: entry's class; the exit's is the next.
    calls: HashMap<StrIx, u16>,
}

impl Classes {
    pub fn new(trace: &Trace) -> Classes {
        let fixed = FIXED.iter().map(|(name, fields)| Class::new(name, fields));
        let mut out = Classes {
            all: fixed.collect(),
            calls: HashMap::new(),
        };
        let spans = &trace.kernel_spans;
        for (kind, name) in spans.kind.iter().zip(&spans.name) {
            // The head holds 65535 kinds.
            if *kind != KernelSpanKind::Syscall
                || out.calls.contains_key(name)
                || out.all.len() > 60_000
            {
                continue;
            }
            out.calls.insert(*name, out.all.len() as u16);
            let name = label::named(trace, *name, "unknown");
            out.all
                .push(Class::new(&format!("syscall_entry_{name}"), &[]));
            out.all.push(Class::new(
                &format!("syscall_exit_{name}"),
                &[("ret", Ty::I64)],
            ));
        }
        out
    }
}

fn id(name: &str) -> u16 {
    FIXED.iter().position(|(n, _)| *n == name).unwrap_or(0) as u16
}

/// Writes a stream for each recorded CPU. Returns the number of events.
pub(super) fn write(
    trace: &Trace,
    classes: &Classes,
    uuid: [u8; 16],
    directory: &mut Directory<'_>,
) -> io::Result<u64> {
    let mut entries = entries(trace);
    entries.sort();
    let mut n = 0;
    for (cpu, row) in trace
        .cpus
        .iter()
        .enumerate()
        .filter(|(_, cpu)| cpu.recorded)
    {
        let cpu = cpu as u16;
        let first = entries.partition_point(|e| e.0 < cpu);
        let end = entries.partition_point(|e| e.0 <= cpu);
        let file = directory(&format!("kernel/channel0_{cpu}"))?;
        let (origin, begin) = (trace.origin_monotonic_ns, trace.span.start);
        let out = StreamWriter::new(file, uuid, cpu.into(), Some(cpu.into()), origin, begin);
        let mut writer = Writer {
            trace,
            classes,
            first_row: row.occupancy.start,
            cpu,
            out,
        };
        for entry in &entries[first..end] {
            writer.entry(entry)?;
        }
        n += writer.out.finish(trace.span.end)?;
    }
    Ok(n)
}

/// The CPU a thread was on, or whose queue it was in, at a time.
fn cpu_of(trace: &Trace, thread: ThreadIx, time: Time) -> u16 {
    let Some(row) = trace.threads.get(thread.ix()) else {
        return 0;
    };
    let rows = row.states.start as usize..row.states.end as usize;
    let at = rows.start + trace.states.start[rows.clone()].partition_point(|&start| start <= time);
    let before = at
        .checked_sub(1)
        .filter(|at| rows.contains(at))
        .unwrap_or(rows.start);
    let cpu = trace
        .states
        .cpu
        .get(before)
        .copied()
        .filter(|_| !rows.is_empty());
    cpu.filter(|&cpu| usize::from(cpu) < trace.cpus.len())
        .unwrap_or(0)
}

fn entries(trace: &Trace) -> Vec<Entry> {
    let mut out: Vec<Entry> = Vec::with_capacity(trace.n_kernel_events as usize);
    let start = trace.span.start;
    let first = trace.cpus.iter().position(|cpu| cpu.recorded).unwrap_or(0) as u16;
    out.push((first, start, What::Dump, 0));
    for (cpu, row) in trace.cpus.iter().enumerate() {
        for at in row.occupancy.clone() {
            let ix = at as usize;
            let known = trace.occupancy.thread[ix].is_some() || trace.occupancy.idle[ix];
            let is_first = at == row.occupancy.start;
            // What is not known at first needs no event; what stops being known does.
            if !known && !is_first {
                out.push((cpu as u16, trace.occupancy.start[ix], What::Lost, at));
            } else if known && !is_first {
                out.push((cpu as u16, trace.occupancy.start[ix], What::Switch, at));
            }
        }
    }
    let w = &trace.wakeups;
    let rows = |n: usize| 0..n as u32;
    out.extend(
        rows(w.time.len()).map(|i| (w.cpu[i as usize], w.time[i as usize], What::Waking, i)),
    );
    let m = &trace.migrations;
    let moves = rows(m.time.len());
    out.extend(moves.map(|i| (m.from_cpu[i as usize], m.time[i as usize], What::Migrate, i)));
    for (i, thread) in trace.threads.iter().enumerate() {
        if thread.alive.start > start && !thread.states.is_empty() {
            let cpu = cpu_of(trace, ThreadIx(i as u32), thread.alive.start);
            out.push((cpu, thread.alive.start, What::Fork, i as u32));
        }
    }
    let s = &trace.kernel_spans;
    for i in 0..s.start.len() {
        out.push((s.cpu[i], s.start[i], What::SpanBegin, i as u32));
        // A thread may leave the kernel on another CPU than it entered.
        let of_thread = matches!(
            s.kind[i],
            KernelSpanKind::Syscall | KernelSpanKind::LockContention
        );
        let cpu = match of_thread && s.thread[i].is_some() {
            true => cpu_of(trace, s.thread[i], s.end[i]),
            false => s.cpu[i],
        };
        let what = if s.end[i] > s.start[i] {
            What::SpanEnd
        } else {
            What::EmptyEnd
        };
        if s.end[i] < trace.span.end {
            out.push((cpu, s.end[i], what, i as u32));
        }
    }
    out
}

struct Writer<'a> {
    trace: &'a Trace,
    classes: &'a Classes,
    first_row: u32,
    cpu: u16,
    out: StreamWriter<File>,
}

impl Writer<'_> {
    fn entry(&mut self, &(_, time, what, row): &Entry) -> io::Result<()> {
        let ix = row as usize;
        match what {
            What::Dump => self.dump(),
            What::Lost => {
                let lost = self.trace.losses.iter().find(|l| {
                    l.cpu == Some(self.cpu) && l.when.start <= time && time <= l.when.end
                });
                self.out.lost(lost.map_or(1, |l| l.count))
            }
            What::Switch => self.switch(ix, time),
            What::Waking => self.waking(ix, time),
            What::Migrate => {
                let m = &self.trace.migrations;
                let (name, tid) = self.comm(m.thread[ix]);
                let (from, to) = (i32::from(m.from_cpu[ix]), i32::from(m.to_cpu[ix]));
                self.out.event(time, id("sched_migrate_task"), |out| {
                    comm(out, &name);
                    put(out, &[tid, PRIORITY, from, to]);
                })
            }
            What::Fork => self.fork(ix, time),
            What::SpanBegin => self.span(ix, time, true),
            What::SpanEnd | What::EmptyEnd => self.span(ix, time, false),
        }
    }

    fn comm(&self, thread: ThreadIx) -> (String, i32) {
        match self.trace.threads.get(thread.ix()) {
            Some(row) => (label::thread(self.trace, thread).into_owned(), row.tid),
            None => (format!("swapper/{}", self.cpu), 0),
        }
    }

    /// Threads that were there before: as LTTng lists them.
    fn dump(&mut self) -> io::Result<()> {
        let start = self.trace.span.start;
        for (i, thread) in self.trace.threads.iter().enumerate() {
            if thread.alive.start > start || thread.tid <= 0 {
                continue;
            }
            let process = self.trace.processes.get(thread.process.ix());
            let pid = process.map_or(thread.tid, |p| p.pid);
            let parent = process.and_then(|p| self.trace.processes.get(p.parent.ix()));
            let parent = parent.map_or(0, |p| p.pid);
            let (name, tid) = self.comm(ThreadIx(i as u32));
            // Status 5: waits. LTTng's numbers.
            self.out
                .event(start, id("lttng_statedump_process_state"), |out| {
                    put(out, &[tid, tid, pid, pid, parent, parent]);
                    comm(out, &name);
                    put(out, &[0, 0, 0, 5, 0, 0]);
                })?;
        }
        self.out.event(start, id("lttng_statedump_end"), |_| ())
    }

    fn switch(&mut self, ix: usize, time: Time) -> io::Result<()> {
        let occupancy = &self.trace.occupancy;
        let prev = match ix as u32 > self.first_row {
            true => occupancy.thread[ix - 1],
            false => ThreadIx::NONE,
        };
        // After a gap it is not known who left: the idle thread then, whose states nobody counts.
        let next = occupancy.thread[ix];
        let (prev_comm, prev_tid) = self.comm(prev);
        let (next_comm, next_tid) = self.comm(next);
        let state = self.prev_state(prev, time);
        self.out.event(time, id("sched_switch"), |out| {
            comm(out, &prev_comm);
            put(out, &[prev_tid, PRIORITY]);
            out.extend(state.to_le_bytes());
            comm(out, &next_comm);
            put(out, &[next_tid, PRIORITY]);
        })
    }

    /// The first state that the thread took at `time`.
    fn state_at(&self, thread: ThreadIx, time: Time) -> Option<ThreadState> {
        let rows = self.trace.threads.get(thread.ix())?.states.clone();
        let starts = &self.trace.states.start[rows.start as usize..rows.end as usize];
        let at = starts.partition_point(|&start| start < time);
        (starts.get(at) == Some(&time)).then(|| self.trace.states.state[rows.start as usize + at])
    }

    /// What the kernel (4.14 and later) writes into prev_state.
    fn prev_state(&self, thread: ThreadIx, time: Time) -> i64 {
        match self.state_at(thread, time) {
            Some(ThreadState::RunnablePreempted | ThreadState::RunnableWoken) => 0x100,
            Some(ThreadState::Sleeping) => 0x01,
            Some(ThreadState::DiskSleep) => 0x02,
            Some(ThreadState::Stopped) => 0x04,
            Some(ThreadState::Dead) => 0x10,
            Some(ThreadState::Idle) => 0x80,
            // A thread that has no later state has ended.
            None if self
                .trace
                .threads
                .get(thread.ix())
                .is_some_and(|t| t.alive.end == time) =>
            {
                0x10
            }
            Some(ThreadState::Running | ThreadState::Unknown) | None => 0,
        }
    }

    fn waking(&mut self, ix: usize, time: Time) -> io::Result<()> {
        let w = &self.trace.wakeups;
        let wakee = w.wakee[ix];
        let Some(thread) = self.trace.threads.get(wakee.ix()) else {
            return Ok(());
        };
        let is_new = thread.alive.start == time && time > self.trace.span.start;
        let class = if is_new {
            "sched_wakeup_new"
        } else {
            "sched_waking"
        };
        // The CPU that it was last on: where it goes may be decided after this.
        let before = Time(time.ns() - i64::from(!is_new));
        let target = i32::from(cpu_of(self.trace, wakee, before));
        let (name, tid) = self.comm(wakee);
        let interrupt = !w.waker[ix].is_some();
        if interrupt {
            self.out
                .event(time, id("kasuri_irq_vectors_entry"), |out| put(out, &[0]))?;
        }
        self.out.event(time, id(class), |out| {
            comm(out, &name);
            put(out, &[tid, PRIORITY, target]);
        })?;
        if interrupt {
            self.out
                .event(time, id("kasuri_irq_vectors_exit"), |out| put(out, &[0]))?;
        }
        Ok(())
    }

    fn fork(&mut self, ix: usize, time: Time) -> io::Result<()> {
        let child = &self.trace.threads[ix];
        let process = self.trace.processes.get(child.process.ix());
        let pid = process.map_or(child.tid, |p| p.pid);
        let parent = match pid == child.tid {
            true => process
                .and_then(|p| self.trace.processes.get(p.parent.ix()))
                .map_or(0, |p| p.pid),
            false => pid,
        };
        let maker = self.trace.processes.iter().find(|p| p.pid == parent);
        let maker = maker.map_or(String::new(), |p| self.trace.strings.get(p.name).to_owned());
        let (name, tid) = self.comm(ThreadIx(ix as u32));
        self.out.event(time, id("sched_process_fork"), |out| {
            comm(out, &maker);
            put(out, &[parent, parent]);
            comm(out, &name);
            put(out, &[tid, pid]);
        })
    }

    fn span(&mut self, ix: usize, time: Time, begins: bool) -> io::Result<()> {
        let spans = &self.trace.kernel_spans;
        let name = self.trace.strings.get(spans.name[ix]);
        match (spans.kind[ix], begins) {
            (KernelSpanKind::Irq, true) => self.out.event(time, id("irq_handler_entry"), |out| {
                put(out, &[IRQ]);
                text(out, name);
            }),
            (KernelSpanKind::Irq, false) => self
                .out
                .event(time, id("irq_handler_exit"), |out| put(out, &[IRQ, 1])),
            (KernelSpanKind::Softirq, begins) => {
                let class = if begins {
                    "irq_softirq_entry"
                } else {
                    "irq_softirq_exit"
                };
                let vector = SOFTIRQS
                    .iter()
                    .position(|n| *n == name)
                    .unwrap_or(SOFTIRQS.len());
                self.out
                    .event(time, id(class), |out| put(out, &[vector as i32]))
            }
            (KernelSpanKind::Syscall, begins) => {
                let Some(&class) = self.classes.calls.get(&spans.name[ix]) else {
                    return Ok(());
                };
                match begins {
                    true => self.out.event(time, class, |_| ()),
                    false => self
                        .out
                        .event(time, class + 1, |out| out.extend(0i64.to_le_bytes())),
                }
            }
            (KernelSpanKind::LockContention, true) => {
                self.out
                    .event(time, id("lock_contention_begin"), |out| text(out, name))
            }
            (KernelSpanKind::LockContention, false) => {
                self.out.event(time, id("lock_contention_end"), |_| ())
            }
        }
    }
}

fn put(out: &mut Vec<u8>, numbers: &[i32]) {
    out.extend(numbers.iter().flat_map(|n| n.to_le_bytes()));
}
