//! The scheduler's events ([`crate::sched_events`]) and spans inside the kernel, under LTTng's names.
//!
//! Each recorded CPU is a stream. All events are first listed as [`Entry`] values of 24 bytes, sorted by CPU and time,
//! then written from the tables that the entries point to. A span's begin and end go to the CPU on which its thread was
//! at that time. Each event has LTTng's context `tid`, the thread that ran (`lttng add-context -k -t tid`): where a
//! kernel hides switches, the context shows more than the switch before.
//!
//! Names and fields are those of lttng-modules 2.13 (instrumentation/events), by which Trace Compass knows events. Four
//! classes are Kasuri's own: `kasuri_irq_vectors_entry`, `kasuri_softirq_entry`, and the exits.
use super::class::{Class, Ty};
use super::stream::{StreamWriter, comm, text};
use super::{Directory, File};
use crate::sched_events::{self, Record, Task, Told, recorded};
use kasuri_model::label;
use kasuri_model::{KernelSpanKind, SOFTIRQS, SchedLog, SchedWhat, StrIx, ThreadIx, Time, Trace};
use std::collections::{HashMap, HashSet};
use std::io;

/// LTTng counts priorities from 100 less than the kernel.
const PRIORITY: i32 = sched_events::PRIORITY - 100;
/// Context of every event: the thread that ran; 0 idle, -1 not known.
pub(super) const CONTEXT: &[(&str, Ty)] = &[("tid", Ty::I32)];
/// The number of an interrupt, which the model does not keep.
const IRQ: i32 = 0;

/// Fields of wake-ups.
const WAKE: &[(&str, Ty)] =
    &[("comm", Ty::Comm), ("tid", Ty::I32), ("prio", Ty::I32), ("target_cpu", Ty::I32)];
/// The classes that every trace has; a class's id is its position.
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
    ("sched_process_exec", &[("filename", Ty::Text), ("tid", Ty::I32), ("old_tid", Ty::I32)]),
    ("sched_process_exit", &[("comm", Ty::Comm), ("tid", Ty::I32), ("prio", Ty::I32)]),
    ("sched_stat_runtime", &[("comm", Ty::Comm), ("tid", Ty::I32), ("runtime", Ty::U64)]),
    (
        "task_rename",
        &[
            ("tid", Ty::I32),
            ("oldcomm", Ty::Comm),
            ("newcomm", Ty::Comm),
            ("oom_score_adj", Ty::I32),
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
    // The same of a softirq.
    ("kasuri_softirq_entry", &[("vector", Ty::I32)]),
    ("kasuri_softirq_exit", &[("vector", Ty::I32)]),
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

/// Not among the fixed classes: without recorded migrations there is no class for them, and a reader infers them.
const MIGRATE: &str = "sched_migrate_task";
const MIGRATE_FIELDS: &[(&str, Ty)] = &[
    ("comm", Ty::Comm),
    ("tid", Ty::I32),
    ("prio", Ty::I32),
    ("orig_cpu", Ty::I32),
    ("dest_cpu", Ty::I32),
];

/// Kinds of entries, in the order in which entries of equal stamps are written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum What {
    Dump,
    SpanEnd,
    /// The begin of a span that is the last event before a gap.
    LastBegin,
    /// The log's own order holds: a gap may begin between two of its events of one stamp.
    Sched,
    SpanBegin,
    /// The end of a span of no length: it comes after the begin.
    EmptyEnd,
}

/// An event that is to be written: its kind, and its row in the table of that kind.
type Entry = (u16, Time, What, u32);

/// All classes, and the ids of those that depend on the recording.
pub(super) struct Classes {
    pub all: Vec<Class>,
    /// The class of each system call's entry, by name; that of its exit is the next.
    calls: HashMap<StrIx, u16>,
    /// The class of migrations, when they were recorded.
    migrate: Option<u16>,
}

impl Classes {
    pub fn new(trace: &Trace) -> Classes {
        let fixed = FIXED.iter().map(|(name, fields)| Class::new(name, fields));
        let mut out = Classes { all: fixed.collect(), calls: HashMap::new(), migrate: None };
        if (trace.sched_events.as_ref()).is_some_and(|log| log.has_migrations) {
            out.migrate = Some(out.all.len() as u16);
            out.all.push(Class::new(MIGRATE, MIGRATE_FIELDS));
        }
        let spans = &trace.kernel_spans;
        for (kind, name) in spans.kind.iter().zip(&spans.name) {
            // A compact event header has 16 bits for the class; two classes a call, and some room.
            if *kind != KernelSpanKind::Syscall
                || out.calls.contains_key(name)
                || out.all.len() > 60_000
            {
                continue;
            }
            out.calls.insert(*name, out.all.len() as u16);
            let name = label::named(trace, *name, "unknown");
            out.all.push(Class::new(&format!("syscall_entry_{name}"), &[]));
            out.all.push(Class::new(&format!("syscall_exit_{name}"), &[("ret", Ty::I64)]));
        }
        out
    }
}

/// The id of a fixed class.
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
    let log = sched_events::log(trace)?;
    let mut entries = entries(trace, &log);
    entries.sort();
    let mut n = 0;
    for cpu in recorded(trace) {
        // The entries are sorted by CPU first.
        let first = entries.partition_point(|e| e.0 < cpu);
        let end = entries.partition_point(|e| e.0 <= cpu);
        let file = directory(&format!("kernel/channel0_{cpu}"))?;
        let (origin, begin) = (trace.origin_monotonic_ns, trace.span.start);
        let out = StreamWriter::new(file, uuid, cpu.into(), Some(cpu.into()), origin, begin);
        let mut writer = Writer { trace, log: &log, classes, cpu, out };
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
    let before = at.checked_sub(1).filter(|at| rows.contains(at)).unwrap_or(rows.start);
    let cpu = trace.states.cpu.get(before).copied().filter(|_| !rows.is_empty());
    cpu.filter(|&cpu| usize::from(cpu) < trace.cpus.len()).unwrap_or(0)
}

/// All events of all CPUs, unsorted.
fn entries(trace: &Trace, log: &SchedLog) -> Vec<Entry> {
    let mut out: Vec<Entry> = Vec::with_capacity(log.len());
    let mut gaps = HashSet::new();
    let first = recorded(trace).next().unwrap_or(0);
    out.push((first, trace.span.start, What::Dump, 0));
    for (i, event) in log.iter().enumerate() {
        if event.what == SchedWhat::Lost {
            gaps.insert((event.cpu, event.time));
        }
        out.push((event.cpu, event.time, What::Sched, i as u32));
    }
    let s = &trace.kernel_spans;
    for i in 0..s.start.len() {
        let begin = match gaps.contains(&(s.cpu[i], s.start[i])) {
            true => What::LastBegin,
            false => What::SpanBegin,
        };
        out.push((s.cpu[i], s.start[i], begin, i as u32));
        // A thread may leave the kernel on another CPU than it entered.
        let of_thread =
            matches!(s.kind[i], KernelSpanKind::Syscall | KernelSpanKind::LockContention);
        let cpu = match of_thread && s.thread[i].is_some() {
            true => cpu_of(trace, s.thread[i], s.end[i]),
            false => s.cpu[i],
        };
        let what = if s.end[i] > s.start[i] { What::SpanEnd } else { What::EmptyEnd };
        // What was open at the end of the recording ends there: another tool's may have its last event at that very time.
        if s.end[i] <= trace.span.end {
            out.push((cpu, s.end[i], what, i as u32));
        }
    }
    out
}

/// Writes the stream of one CPU.
struct Writer<'a> {
    trace: &'a Trace,
    log: &'a SchedLog,
    classes: &'a Classes,
    cpu: u16,
    out: StreamWriter<File>,
}

impl Writer<'_> {
    /// Writes one entry.
    fn entry(&mut self, &(_, time, what, row): &Entry) -> io::Result<()> {
        let ix = row as usize;
        match what {
            What::Dump => self.dump(),
            What::Sched => match self.log.get(ix) {
                Some(event) if event.what == SchedWhat::Lost => self.lost(time),
                Some(event) => self.sched(&sched_events::record(self.trace, &event)),
                None => Ok(()),
            },
            What::LastBegin | What::SpanBegin => self.span(ix, time, true),
            What::SpanEnd | What::EmptyEnd => self.span(ix, time, false),
        }
    }

    /// Events are missing from here on.
    fn lost(&mut self, time: Time) -> io::Result<()> {
        let mut losses = self.trace.losses.iter();
        let of_this =
            losses.find(|l| l.cpu == Some(self.cpu) && l.when.start <= time && time <= l.when.end);
        self.out.lost(of_this.map_or(1, |l| l.count))
    }

    /// An event of class `class` while `context` ran.
    fn event(
        &mut self,
        time: Time,
        class: u16,
        context: i32,
        body: impl FnOnce(&mut Vec<u8>),
    ) -> io::Result<()> {
        self.out.event(time, class, |out| {
            put(out, &[context]);
            body(out);
        })
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
            let (name, tid) = (label::thread(self.trace, ThreadIx(i as u32)), thread.tid);
            // Type, mode, submode, status (5: waits), namespace level, CPU, in LTTng's numbers. The context is unknown.
            self.event(start, id("lttng_statedump_process_state"), -1, |out| {
                put(out, &[tid, tid, pid, pid, parent, parent]);
                comm(out, &name);
                put(out, &[0, 0, 0, 5, 0, 0]);
            })?;
        }
        self.event(start, id("lttng_statedump_end"), -1, |_| ())
    }

    /// A scheduler's event; one that an interrupt or a softirq raised stands between its begin and end.
    fn sched(&mut self, record: &Record<'_>) -> io::Result<()> {
        let (time, context) = (record.time, record.context);
        if record.in_softirq() {
            let class = id("kasuri_softirq_entry");
            self.event(time, class, context, |out| put(out, &[0]))?;
        }
        if record.in_interrupt {
            let class = id("kasuri_irq_vectors_entry");
            self.event(time, class, context, |out| put(out, &[0]))?;
        }
        if let Some(class) = self.class(&record.what) {
            self.event(time, class, context, |out| fields(out, &record.what))?;
        }
        if record.in_interrupt {
            let class = id("kasuri_irq_vectors_exit");
            self.event(time, class, context, |out| put(out, &[0]))?;
        }
        if record.in_softirq() {
            let class = id("kasuri_softirq_exit");
            self.event(time, class, context, |out| put(out, &[0]))?;
        }
        Ok(())
    }

    /// The class of a scheduler event; none where events are missing.
    fn class(&self, what: &Told<'_>) -> Option<u16> {
        Some(id(match what {
            Told::Switch { .. } => "sched_switch",
            Told::Waking { is_new: true, .. } => "sched_wakeup_new",
            Told::Waking { .. } => "sched_waking",
            Told::Migrate { .. } => return self.classes.migrate,
            Told::NewTask { .. } => "sched_process_fork",
            Told::Exec { .. } => "sched_process_exec",
            Told::Exit { .. } => "sched_process_exit",
            Told::Rename { .. } => "task_rename",
            Told::RunTime { .. } => "sched_stat_runtime",
            Told::Lost => return None,
        }))
    }

    /// Writes the begin or end of a span in the kernel.
    fn span(&mut self, ix: usize, time: Time, begins: bool) -> io::Result<()> {
        let spans = &self.trace.kernel_spans;
        let name = self.trace.strings.get(spans.name[ix]);
        let thread = self.trace.threads.get(spans.thread[ix].ix());
        let is_of_thread =
            matches!(spans.kind[ix], KernelSpanKind::Syscall | KernelSpanKind::LockContention);
        // An interrupt may end on another thread than it began on: then it does not say who runs.
        let context = match thread {
            Some(thread) if begins || is_of_thread => thread.tid,
            _ => -1,
        };
        match (spans.kind[ix], begins) {
            (KernelSpanKind::Irq, true) => {
                self.event(time, id("irq_handler_entry"), context, |out| {
                    put(out, &[IRQ]);
                    text(out, name);
                })
            }
            (KernelSpanKind::Irq, false) => {
                let class = id("irq_handler_exit");
                self.event(time, class, context, |out| put(out, &[IRQ, 1]))
            }
            (KernelSpanKind::Softirq, begins) => {
                let class = id(match begins {
                    true => "irq_softirq_entry",
                    false => "irq_softirq_exit",
                });
                let vector = SOFTIRQS.iter().position(|n| *n == name);
                let vector = vector.unwrap_or(SOFTIRQS.len()) as i32;
                self.event(time, class, context, |out| put(out, &[vector]))
            }
            (KernelSpanKind::Syscall, begins) => {
                let Some(&class) = self.classes.calls.get(&spans.name[ix]) else {
                    return Ok(());
                };
                match begins {
                    true => self.event(time, class, context, |_| ()),
                    false => self.event(time, class + 1, context, |out| {
                        out.extend(0i64.to_le_bytes());
                    }),
                }
            }
            (KernelSpanKind::LockContention, true) => {
                let class = id("lock_contention_begin");
                self.event(time, class, context, |out| text(out, name))
            }
            (KernelSpanKind::LockContention, false) => {
                self.event(time, id("lock_contention_end"), context, |_| ())
            }
        }
    }
}

/// The fields of a scheduler's event, in the order of its class.
fn fields(out: &mut Vec<u8>, what: &Told<'_>) {
    let task = |out: &mut Vec<u8>, task: &Task<'_>| {
        comm(out, &task.name);
        put(out, &[task.tid, PRIORITY]);
    };
    match what {
        Told::Switch { prev, prev_state, next } => {
            task(out, prev);
            out.extend(prev_state.to_le_bytes());
            task(out, next);
        }
        Told::Waking { task: wakee, target_cpu, .. } => {
            task(out, wakee);
            put(out, &[*target_cpu]);
        }
        Told::Migrate { task: moved, from, to } => {
            task(out, moved);
            put(out, &[(*from).into(), (*to).into()]);
        }
        Told::NewTask { parent, task: child, pids, .. } => {
            comm(out, &parent.name);
            put(out, &[parent.tid, pids[0]]);
            comm(out, &child.name);
            put(out, &[child.tid, pids[1]]);
        }
        Told::Exec { task: thread, old_tid } => {
            text(out, &thread.name);
            put(out, &[thread.tid, *old_tid]);
        }
        Told::Exit { task: thread } => task(out, thread),
        Told::Rename { task: thread } => {
            put(out, &[thread.tid]);
            comm(out, &thread.name);
            comm(out, &thread.name);
            put(out, &[0]);
        }
        Told::RunTime { task: thread, ns } => {
            comm(out, &thread.name);
            put(out, &[thread.tid]);
            out.extend(u64::from(*ns).to_le_bytes());
        }
        Told::Lost => {}
    }
}

/// Appends 32-bit fields.
fn put(out: &mut Vec<u8>, numbers: &[i32]) {
    out.extend(numbers.iter().flat_map(|n| n.to_le_bytes()));
}
