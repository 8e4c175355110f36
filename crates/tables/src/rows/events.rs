//! Everything that happened, in one table in time order.
use super::{cpu, id, name};
use crate::batch::Text;
use crate::schema::{Out, table};
use crate::{Result, Source};
use kasuri_model::{KernelSpanKind, ThreadIx, Time, open};

table! {
    /// Each event that the recording holds, of the kernel and of the program, in time order.
    pub(crate) static EVENT = "event", EventRow from events;
    /// Id, unique in the run, ascending with time.
    event_id: i64, "id";
    /// When.
    time_ns: i64, "ns";
    /// `switch`, `wakeup`, `migration`, `irq`, `softirq`, `syscall`, `kernel_lock`, `begin`, `end`, `instant`, `counter`, `task_created`, `flow`.
    kind: Text;
    /// CPU; of a migration the new one.
    cpu: Option<i32>;
    /// The thread: of a `switch` the next one (missing: idle), of a `wakeup` the woken one, of a `flow` the one that it leaves.
    thread_id: Option<i64>, "id";
    /// The other thread: of a `switch` the previous one, of a `wakeup` the waker, of a `flow` the one at which it arrives.
    other_thread_id: Option<i64>, "id";
    /// Annotation, handler, system call, counter, task.
    name: Option<Text>;
    /// How long it lasted, for those that are spans: `irq`, `softirq`, `syscall`, `kernel_lock`, `flow`.
    dur_ns: Option<i64>, "ns";
    /// `counter` the value, `migration` the CPU it left.
    value: Option<f64>;
    /// `begin`, `end`: the slice.
    slice_id: Option<i64>, "id";
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    // At the same moment: what ends, what leads to a switch, the switch, what begins.
    End,
    Wakeup,
    Migration,
    KernelSpan,
    Switch,
    Instant,
    TaskCreated,
    Flow,
    Counter,
    Begin,
}

/// Where an event stands in the model: its table and row.
type Place = (Time, Kind, u32);

fn events(source: &Source<'_>, out: &mut Out<'_>) -> Result<()> {
    let cpus = cpus_of_occupancy(source);
    let counters = first_rows(source);
    for (event_id, (time, kind, row)) in in_order(source).into_iter().enumerate() {
        let event = match kind {
            Kind::Begin | Kind::End => slice(source, row as usize, kind),
            Kind::Wakeup => wakeup(source, row as usize),
            Kind::Migration => migration(source, row as usize),
            Kind::KernelSpan => kernel_span(source, row as usize),
            Kind::Switch => switch(source, row as usize, cpus[row as usize]),
            Kind::Instant => instant(source, row as usize),
            Kind::TaskCreated => task_created(source, row as usize),
            Kind::Flow => flow(source, row as usize),
            Kind::Counter => counter(source, row as usize, &counters),
        };
        out.push(EventRow { event_id: event_id as i64, time_ns: time.ns(), ..event })?;
    }
    Ok(())
}

fn in_order(source: &Source<'_>) -> Vec<Place> {
    let trace = source.trace();
    let mut all: Vec<Place> = Vec::new();
    for cpu in &trace.cpus {
        // The first row is the state at the start, not an event.
        for row in cpu.occupancy.clone().skip(1) {
            let (thread, idle) =
                (trace.occupancy.thread[row as usize], trace.occupancy.idle[row as usize]);
            if thread.is_some() || idle {
                all.push((trace.occupancy.start[row as usize], Kind::Switch, row));
            }
        }
    }
    let mut add = |times: &[Time], kind| {
        all.extend((0..).zip(times).map(|(row, &time)| (time, kind, row)));
    };
    add(&trace.wakeups.time, Kind::Wakeup);
    add(&trace.migrations.time, Kind::Migration);
    add(&trace.kernel_spans.start, Kind::KernelSpan);
    add(&trace.instants.time, Kind::Instant);
    add(&trace.flows.from_time, Kind::Flow);
    let s = &trace.slices;
    for (row, bits) in (0..).zip(&s.open) {
        if bits & (open::BEGIN_UNSEEN | open::CONTINUED) == 0 {
            all.push((s.start[row as usize], Kind::Begin, row));
        }
        if bits & (open::END_UNSEEN | open::CONTINUES) == 0 {
            all.push((s.end[row as usize], Kind::End, row));
        }
    }
    let created = (0..).zip(&trace.tasks).filter(|(_, t)| t.created != Time::MIN);
    all.extend(created.map(|(row, t)| (t.created, Kind::TaskCreated, row)));
    let mut row = 0;
    for counter in &trace.counters {
        for &time in &counter.time {
            all.push((time, Kind::Counter, row));
            row += 1;
        }
    }
    all.sort_unstable();
    all
}

/// The CPU of each row of the occupancy.
fn cpus_of_occupancy(source: &Source<'_>) -> Vec<u16> {
    let trace = source.trace();
    let mut out = vec![u16::MAX; trace.occupancy.start.len()];
    for (number, cpu) in (0..).zip(&trace.cpus) {
        out[cpu.occupancy.start as usize..cpu.occupancy.end as usize].fill(number);
    }
    out
}

/// Number of each counter's first value, when the values of all counters are numbered one after the other.
fn first_rows(source: &Source<'_>) -> Vec<usize> {
    let mut sum = 0;
    let counters = source.trace().counters.iter();
    counters
        .map(|c| {
            sum += c.time.len();
            sum - c.time.len()
        })
        .collect()
}

fn slice(source: &Source<'_>, row: usize, kind: Kind) -> EventRow {
    let s = &source.trace().slices;
    EventRow {
        kind: if kind == Kind::Begin { "begin" } else { "end" }.into(),
        thread_id: id(s.thread[row].0),
        name: name(s.name[row]),
        slice_id: Some(row as i64),
        ..EventRow::default()
    }
}

fn wakeup(source: &Source<'_>, row: usize) -> EventRow {
    let w = &source.trace().wakeups;
    EventRow {
        kind: "wakeup".into(),
        cpu: cpu(w.cpu[row]),
        thread_id: id(w.wakee[row].0),
        other_thread_id: id(w.waker[row].0),
        ..EventRow::default()
    }
}

fn migration(source: &Source<'_>, row: usize) -> EventRow {
    let m = &source.trace().migrations;
    EventRow {
        kind: "migration".into(),
        cpu: cpu(m.to_cpu[row]),
        thread_id: id(m.thread[row].0),
        value: cpu(m.from_cpu[row]).map(f64::from),
        ..EventRow::default()
    }
}

fn kernel_span(source: &Source<'_>, row: usize) -> EventRow {
    let k = &source.trace().kernel_spans;
    let kind = match k.kind[row] {
        KernelSpanKind::Irq => "irq",
        KernelSpanKind::Softirq => "softirq",
        KernelSpanKind::Syscall => "syscall",
        KernelSpanKind::LockContention => "kernel_lock",
    };
    EventRow {
        kind: kind.into(),
        cpu: cpu(k.cpu[row]),
        thread_id: id(k.thread[row].0),
        name: name(k.name[row]),
        dur_ns: Some((k.end[row] - k.start[row]).ns()),
        ..EventRow::default()
    }
}

fn switch(source: &Source<'_>, row: usize, on: u16) -> EventRow {
    let occupancy = &source.trace().occupancy;
    let left = row.checked_sub(1).map(|row| occupancy.thread[row]);
    EventRow {
        kind: "switch".into(),
        cpu: cpu(on),
        thread_id: id(occupancy.thread[row].0),
        other_thread_id: id(left.unwrap_or(ThreadIx::NONE).0),
        ..EventRow::default()
    }
}

fn instant(source: &Source<'_>, row: usize) -> EventRow {
    let i = &source.trace().instants;
    EventRow {
        kind: "instant".into(),
        thread_id: id(i.thread[row].0),
        name: name(i.name[row]),
        ..EventRow::default()
    }
}

fn task_created(source: &Source<'_>, row: usize) -> EventRow {
    let task = &source.trace().tasks[row];
    EventRow {
        kind: "task_created".into(),
        thread_id: id(task.creator.0),
        name: name(task.name),
        ..EventRow::default()
    }
}

fn flow(source: &Source<'_>, row: usize) -> EventRow {
    let f = &source.trace().flows;
    EventRow {
        kind: "flow".into(),
        thread_id: id(f.from_thread[row].0),
        other_thread_id: id(f.to_thread[row].0),
        name: name(f.name[row]),
        dur_ns: Some((f.to_time[row] - f.from_time[row]).ns()),
        ..EventRow::default()
    }
}

fn counter(source: &Source<'_>, row: usize, first: &[usize]) -> EventRow {
    // Of several that begin here, all but the last are empty.
    let at = first.partition_point(|&f| f <= row) - 1;
    let counter = &source.trace().counters[at];
    EventRow {
        kind: "counter".into(),
        name: name(counter.name),
        value: counter.value.get(row - first[at]).copied(),
        ..EventRow::default()
    }
}
