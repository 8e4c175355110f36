//! Scheduler events as ftrace bundles, one after the other for each CPU.
//!
//! A bundle holds up to [`BUNDLE_EVENTS`] events of one CPU, in order of time; the importer sorts the bundles of
//! different CPUs. Memory is one open bundle for each CPU. Three facts need an event or a bundle of their own, because
//! readers infer them otherwise: a gap at the end of a CPU's events, a CPU that was recorded and silent, and a
//! recording with migrations enabled in which no thread moved.
use super::packets::Packets;
use super::proto::*;
use crate::sched_events::{self, PRIORITY, Record, Task, Told, log, record, recorded};
use kasuri_model::Trace;
use std::io::{self, Write};

/// Events in one bundle.
const BUNDLE_EVENTS: usize = 512;

/// The open bundle of one CPU.
#[derive(Default)]
struct Stream {
    bundle: Vec<FtraceEvent>,
    /// Events before the bundle are missing.
    is_after_loss: bool,
    /// A bundle of this CPU was written.
    is_begun: bool,
}

/// Writes all bundles. Returns the number of gaps in which events were lost.
pub fn write<W: Write>(trace: &Trace, packets: &mut Packets<W>) -> io::Result<u64> {
    let mut cpus: Vec<Stream> = trace.cpus.iter().map(|_| Stream::default()).collect();
    let mut gaps = 0;
    let log = log(trace)?;
    for kept in log.iter() {
        let Some(stream) = cpus.get_mut(usize::from(kept.cpu)) else {
            continue;
        };
        let record = record(trace, &kept);
        match event(&record, packets.stamp(record.time)) {
            Some(event) => stream.bundle.push(event),
            None => {
                stream.flush(kept.cpu, packets)?;
                stream.is_after_loss = true;
                gaps += 1;
            }
        }
        if stream.bundle.len() >= BUNDLE_EVENTS {
            stream.flush(kept.cpu, packets)?;
        }
    }
    if log.has_migrations && trace.migrations.time.is_empty() {
        none_moved(trace, &mut cpus, packets);
    }
    for cpu in recorded(trace) {
        let stream = &mut cpus[usize::from(cpu)];
        if stream.is_after_loss && stream.bundle.is_empty() {
            // Readers learn of a gap from the bundle after it. Here none follows, so an event at the end is made up.
            let end = sched_events::nobody(trace, cpu, trace.span.end);
            stream.bundle.extend(event(&end, packets.stamp(end.time)));
        }
        // An empty bundle shows that a CPU was recorded although it has no events.
        if !stream.bundle.is_empty() || !stream.is_begun {
            stream.flush(cpu, packets)?;
        }
    }
    Ok(gaps)
}

/// Adds an event that shows that migrations were recorded although there were none: readers infer migrations where no
/// event shows one. It moves the idle thread to the CPU where it is, at the end, where it cannot be mistaken for the
/// thread that ran before.
fn none_moved<W: Write>(trace: &Trace, cpus: &mut [Stream], packets: &Packets<W>) {
    let Some(cpu) = recorded(trace).next() else {
        return;
    };
    let here = i32::from(cpu);
    cpus[usize::from(cpu)].bundle.push(FtraceEvent {
        timestamp: Some(packets.stamp(trace.span.end)),
        pid: Some(u32::MAX),
        common_flags: None,
        event: Some(Event::SchedMigrateTask(SchedMigrateTask {
            comm: Some(format!("swapper/{cpu}")),
            pid: Some(0),
            prio: Some(PRIORITY),
            orig_cpu: Some(here),
            dest_cpu: Some(here),
        })),
    });
}

impl Stream {
    /// Writes the open bundle; an empty one only if it is the CPU's first.
    fn flush<W: Write>(&mut self, cpu: u16, packets: &mut Packets<W>) -> io::Result<()> {
        let event = std::mem::take(&mut self.bundle);
        if event.is_empty() && self.is_begun {
            return Ok(());
        }
        let lost = std::mem::take(&mut self.is_after_loss);
        self.is_begun = true;
        packets.bundle(FtraceEventBundle {
            cpu: Some(cpu.into()),
            event,
            lost_events: lost.then_some(true),
        })
    }
}

/// A scheduler event as Perfetto's message; none where events are missing.
fn event(record: &Record<'_>, stamp: u64) -> Option<FtraceEvent> {
    let name = |task: &Task<'_>| Some(task.name.clone().into_owned());
    let event = match &record.what {
        Told::Switch { prev, prev_state, next } => Event::SchedSwitch(SchedSwitch {
            prev_comm: name(prev),
            prev_pid: Some(prev.tid),
            prev_prio: Some(PRIORITY),
            prev_state: Some(*prev_state),
            next_comm: name(next),
            next_pid: Some(next.tid),
            next_prio: Some(PRIORITY),
        }),
        Told::Waking { task, target_cpu, is_new, .. } => {
            let waking = SchedWaking {
                comm: name(task),
                pid: Some(task.tid),
                prio: Some(PRIORITY),
                success: Some(1),
                target_cpu: Some(*target_cpu),
            };
            match is_new {
                true => Event::SchedWakeupNew(waking),
                false => Event::SchedWaking(waking),
            }
        }
        Told::Migrate { task, from, to } => Event::SchedMigrateTask(SchedMigrateTask {
            comm: name(task),
            pid: Some(task.tid),
            prio: Some(PRIORITY),
            orig_cpu: Some((*from).into()),
            dest_cpu: Some((*to).into()),
        }),
        Told::NewTask { task, clone_flags, .. } => Event::TaskNewtask(TaskNewtask {
            pid: Some(task.tid),
            comm: name(task),
            clone_flags: Some(*clone_flags),
        }),
        Told::Exec { task, old_tid } => Event::SchedProcessExec(SchedProcessExec {
            filename: name(task),
            pid: Some(task.tid),
            old_pid: Some(*old_tid),
        }),
        Told::Exit { task } => {
            Event::SchedProcessExit(SchedProcessExit { comm: name(task), pid: Some(task.tid) })
        }
        Told::Rename { task } => Event::TaskRename(TaskRename {
            pid: Some(task.tid),
            oldcomm: name(task),
            newcomm: name(task),
        }),
        Told::RunTime { task, ns } => Event::Generic(run_time(task, *ns)),
        Told::Lost => return None,
    };
    Some(FtraceEvent {
        timestamp: Some(stamp),
        pid: Some(record.context as u32),
        common_flags: Some(record.flags().into()).filter(|&flags| flags != 0),
        event: Some(event),
    })
}

/// `sched_stat_runtime`, for which Perfetto has no message of its own.
fn run_time(task: &Task<'_>, ns: u32) -> Generic {
    let field =
        |name: &str, value| GenericField { name: Some(name.to_owned()), value: Some(value) };
    Generic {
        event_name: Some("sched_stat_runtime".to_owned()),
        field: vec![
            field("comm", GenericValue::Str(task.name.clone().into_owned())),
            field("pid", GenericValue::Int(task.tid.into())),
            field("runtime", GenericValue::Uint(ns.into())),
        ],
    }
}
