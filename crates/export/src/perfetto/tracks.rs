//! Annotations as track events.
//!
//! Perfetto draws a track for each descriptor; the slices of one track must nest. The tracks are:
//!
//! | first argument of [`uuid`] | track |
//! |---|---|
//! | 1, 2 | a process, a thread |
//! | 3 | the held locks of a thread at one level: critical sections may cross the work around them |
//! | 4 | a counter |
//! | 5, 6 | interrupts and softirqs of a CPU |
//! | 7, 17 | system calls of a thread, and its waits for kernel locks |
//! | 8 | a loss |
//!
//! A track is described once, before its first event; threads with slices are described first, in the model's order.
use super::packets::{Category, OwnArg, Packets};
use super::proto::*;
use crate::args::ArgCursor;
use kasuri_model::arrow;
use kasuri_model::{
    ArgValue, InstantIx, KernelSpanKind, ProcessIx, SliceIx, SliceKind, ThreadIx, Time, Trace,
};
use std::collections::HashSet;
use std::io::{self, Write};

/// The id of a track: its kind in the high byte, its number below.
fn uuid(what: u64, which: u64) -> u64 {
    what << 56 | which
}
/// The id of a process's track.
fn process_track(ix: ProcessIx) -> u64 {
    uuid(1, ix.0.into())
}
/// The id of a thread's track.
fn thread_track(ix: ThreadIx) -> u64 {
    uuid(2, ix.0.into())
}

/// An event without length in a thread's track.
fn instant(thread: ThreadIx, category: Category) -> TrackEvent {
    TrackEvent {
        category_iids: vec![category.iid()],
        r#type: Some(INSTANT),
        track_uuid: Some(thread_track(thread)),
        ..Default::default()
    }
}

/// Writes all tracks and their events.
pub fn write<'a, W: Write>(trace: &'a Trace, packets: &mut Packets<'a, W>) -> io::Result<()> {
    packets.begin_sequence()?;
    let mut tracks = Tracks { trace, packets, described: HashSet::new() };
    tracks.describe_threads()?;
    tracks.slices_and_instants()?;
    tracks.counters()?;
    tracks.arrows()?;
    tracks.kernel_spans()?;
    tracks.losses()
}

/// Writes tracks and events, and keeps the ids of the tracks described so far.
struct Tracks<'a, 'b, W> {
    trace: &'a Trace,
    packets: &'b mut Packets<'a, W>,
    described: HashSet<u64>,
}

impl<W: Write> Tracks<'_, '_, W> {
    /// Writes a descriptor unless it was written before.
    fn describe(&mut self, track: TrackDescriptor) -> io::Result<()> {
        if self.described.insert(track.uuid.unwrap_or(0)) {
            self.packets.describe(Data::TrackDescriptor(track))?;
        }
        Ok(())
    }

    fn describe_process(&mut self, ix: ProcessIx) -> io::Result<()> {
        let Some(row) = self.trace.processes.get(ix.ix()) else {
            return Ok(());
        };
        self.describe(TrackDescriptor {
            uuid: Some(process_track(ix)),
            process: Some(ProcessDescriptor {
                pid: Some(row.pid),
                process_name: Some(super::process_name(self.trace, ix)),
            }),
            ..Default::default()
        })
    }

    /// Describes a thread, and before it the process that it belongs to.
    fn describe_thread(&mut self, ix: ThreadIx) -> io::Result<()> {
        let Some(row) = self.trace.threads.get(ix.ix()) else {
            return Ok(());
        };
        self.describe_process(row.process)?;
        self.describe(TrackDescriptor {
            uuid: Some(thread_track(ix)),
            parent_uuid: row.process.is_some().then(|| process_track(row.process)),
            thread: Some(ThreadDescriptor {
                pid: self.trace.processes.get(row.process.ix()).map(|p| p.pid),
                tid: Some(row.tid.into()),
                thread_name: Some(kasuri_model::label::thread(self.trace, ix).into_owned()),
            }),
            ..Default::default()
        })
    }

    fn describe_threads(&mut self) -> io::Result<()> {
        let annotated = |i: &usize| !self.trace.threads[*i].slices.is_empty();
        for i in (0..self.trace.threads.len()).filter(annotated).collect::<Vec<_>>() {
            self.describe_thread(ThreadIx(i as u32))?;
        }
        Ok(())
    }

    /// Describes a track below another one, or at the top without `parent`. Returns its id.
    fn describe_child(&mut self, id: u64, parent: Option<u64>, name: String) -> io::Result<u64> {
        self.describe(TrackDescriptor {
            uuid: Some(id),
            parent_uuid: parent,
            name: Some(name),
            ..Default::default()
        })?;
        Ok(id)
    }

    /// An event without name or arguments: the end of a slice.
    fn bare_event(&mut self, time: Time, track: u64, kind: u32) -> io::Result<()> {
        self.packets.event(
            time,
            TrackEvent { r#type: Some(kind), track_uuid: Some(track), ..Default::default() },
        )
    }

    /// Begins and ends of slices, thread by thread, then instants: the order that [`ArgCursor`] needs.
    fn slices_and_instants(&mut self) -> io::Result<()> {
        let mut cursor = ArgCursor::default();
        // Ends of the open slices of the current thread, by depth.
        let mut open: Vec<(u16, Time)> = Vec::new();
        let mut current = ThreadIx::NONE;
        for i in 0..self.trace.slices.start.len() {
            let (thread, start) = (self.trace.slices.thread[i], self.trace.slices.start[i]);
            if thread != current {
                self.close(current, &mut open, Time::MAX, 0)?;
                current = thread;
            }
            let args = self.args(i, &mut cursor);
            if self.trace.slices.kind[i] == SliceKind::LockHold {
                self.hold(i, args)?;
                continue;
            }
            let depth = self.trace.slices.depth[i];
            self.close(thread, &mut open, start, depth)?;
            self.begin(i, thread_track(thread), args)?;
            open.push((depth, self.trace.slices.end[i]));
        }
        self.close(current, &mut open, Time::MAX, 0)?;
        self.instants(cursor)
    }

    /// Ends the slices that ended by `now` or are not outside `depth`.
    fn close(
        &mut self,
        thread: ThreadIx,
        open: &mut Vec<(u16, Time)>,
        now: Time,
        depth: u16,
    ) -> io::Result<()> {
        while let Some((_, end)) = open.pop_if(|(d, end)| *d >= depth || *end <= now) {
            self.bare_event(end, thread_track(thread), SLICE_END)?;
        }
        Ok(())
    }

    /// A critical section, in a track below its thread's.
    fn hold(&mut self, i: usize, args: Vec<DebugAnnotation>) -> io::Result<()> {
        let (thread, depth) = (self.trace.slices.thread[i], self.trace.slices.depth[i]);
        let id = uuid(3, u64::from(thread.0) << 16 | u64::from(depth));
        let track = self.describe_child(id, Some(thread_track(thread)), "locks held".into())?;
        self.begin(i, track, args)?;
        self.bare_event(self.trace.slices.end[i], track, SLICE_END)
    }

    /// The begin of slice `i`.
    fn begin(&mut self, i: usize, track: u64, args: Vec<DebugAnnotation>) -> io::Result<()> {
        let category = Category::of(self.trace.slices.kind[i]);
        let event = TrackEvent {
            category_iids: vec![category.iid()],
            debug_annotations: args,
            r#type: Some(SLICE_BEGIN),
            name_iid: Some(self.packets.name(self.trace.slices.name[i], category)),
            track_uuid: Some(track),
            ..Default::default()
        };
        self.packets.event(self.trace.slices.start[i], event)
    }

    /// The arguments of slice `i`: its own and what the model knows.
    fn args(&mut self, i: usize, cursor: &mut ArgCursor) -> Vec<DebugAnnotation> {
        let mut args = self.own_args(cursor.of_slice(&self.trace.args, SliceIx(i as u32)));
        let slices = &self.trace.slices;
        if slices.object[i] != 0 {
            args.push(OwnArg::Object.with(Value::Pointer(slices.object[i])));
        }
        if let Some(task) = self.trace.tasks.get(slices.task[i].ix()) {
            args.push(OwnArg::Task.with(Value::Uint(task.id)));
        }
        if !kasuri_model::label::not_seen(slices.open[i]).is_empty() {
            let text = kasuri_model::label::not_seen(slices.open[i]).to_string();
            args.push(OwnArg::NotSeen.with(Value::Str(text)));
        }
        args
    }

    /// The arguments that the program gave.
    fn own_args(&mut self, rows: std::ops::Range<usize>) -> Vec<DebugAnnotation> {
        let table = &self.trace.args;
        let mut args = Vec::with_capacity(rows.len());
        for row in rows {
            let name_iid = Some(self.packets.arg_name(table.name[row]));
            let value = match table.value[row] {
                ArgValue::Int(v) => Value::Int(v),
                ArgValue::Uint(v) => Value::Uint(v),
                ArgValue::Float(v) => Value::Double(v),
                ArgValue::Str(s) => Value::StrIid(self.packets.arg_value(s)),
            };
            args.push(DebugAnnotation { name_iid, value: Some(value) });
        }
        args
    }

    fn instants(&mut self, mut cursor: ArgCursor) -> io::Result<()> {
        for i in 0..self.trace.instants.time.len() {
            let thread = self.trace.instants.thread[i];
            self.describe_thread(thread)?;
            let event = TrackEvent {
                debug_annotations: self
                    .own_args(cursor.of_instant(&self.trace.args, InstantIx(i as u32))),
                name_iid: Some(self.packets.name(self.trace.instants.name[i], Category::INSTANT)),
                ..instant(thread, Category::INSTANT)
            };
            self.packets.event(self.trace.instants.time[i], event)?;
        }
        Ok(())
    }

    /// A track for each counter, and its values.
    fn counters(&mut self) -> io::Result<()> {
        for (i, counter) in self.trace.counters.iter().enumerate() {
            self.describe_process(counter.process)?;
            let track = uuid(4, i as u64);
            self.describe(TrackDescriptor {
                uuid: Some(track),
                parent_uuid: counter.process.is_some().then(|| process_track(counter.process)),
                name: Some(
                    kasuri_model::label::named(self.trace, counter.name, "counter").to_string(),
                ),
                counter: Some(CounterDescriptor {}),
                ..Default::default()
            })?;
            for (&time, &value) in counter.time.iter().zip(&counter.value) {
                let event = TrackEvent {
                    r#type: Some(COUNTER),
                    track_uuid: Some(track),
                    double_counter_value: Some(value),
                    ..Default::default()
                };
                self.packets.event(time, event)?;
            }
        }
        Ok(())
    }

    /// An arrow is two instants that share a flow id; the head ends the flow.
    fn arrows(&mut self) -> io::Result<()> {
        for arrow in arrow::arrows(self.trace) {
            self.describe_thread(arrow.from.1)?;
            self.describe_thread(arrow.to.1)?;
            let name_iid = Some(self.packets.name(arrow.name, Category::ARROW));
            let tail = TrackEvent {
                name_iid,
                flow_ids: vec![arrow.id],
                ..instant(arrow.from.1, Category::ARROW)
            };
            self.packets.event(arrow.from.0, tail)?;
            let head = TrackEvent {
                name_iid,
                terminating_flow_ids: vec![arrow.id],
                ..instant(arrow.to.1, Category::ARROW)
            };
            self.packets.event(arrow.to.0, head)?;
        }
        Ok(())
    }

    /// Time inside the kernel. Spans of a thread that is not known are left out.
    fn kernel_spans(&mut self) -> io::Result<()> {
        let spans = &self.trace.kernel_spans;
        for i in 0..spans.start.len() {
            let (cpu, thread) = (spans.cpu[i], spans.thread[i]);
            let track = match spans.kind[i] {
                KernelSpanKind::Irq => {
                    self.describe_child(uuid(5, cpu.into()), None, format!("irq CPU {cpu}"))?
                }
                KernelSpanKind::Softirq => {
                    self.describe_child(uuid(6, cpu.into()), None, format!("softirq CPU {cpu}"))?
                }
                KernelSpanKind::Syscall if thread.is_some() => {
                    self.describe_thread(thread)?;
                    let id = uuid(7, thread.0.into());
                    self.describe_child(id, Some(thread_track(thread)), "system calls".into())?
                }
                KernelSpanKind::LockContention if thread.is_some() => {
                    self.describe_thread(thread)?;
                    let id = uuid(17, thread.0.into());
                    self.describe_child(id, Some(thread_track(thread)), "kernel locks".into())?
                }
                KernelSpanKind::Syscall | KernelSpanKind::LockContention => continue,
            };
            let event = TrackEvent {
                category_iids: vec![Category::KERNEL.iid()],
                r#type: Some(SLICE_BEGIN),
                name_iid: Some(self.packets.name(spans.name[i], Category::KERNEL)),
                track_uuid: Some(track),
                ..Default::default()
            };
            self.packets.event(spans.start[i], event)?;
            self.bare_event(spans.end[i], track, SLICE_END)?;
        }
        Ok(())
    }

    fn losses(&mut self) -> io::Result<()> {
        for (i, loss) in self.trace.losses.iter().enumerate() {
            let name = match (loss.cpu, self.trace.threads.get(loss.thread.ix())) {
                (Some(cpu), _) => format!("{} (CPU {cpu})", loss.cause),
                (None, Some(thread)) => format!("{} (thread {})", loss.cause, thread.tid),
                (None, None) => loss.cause.clone(),
            };
            // A track for each: losses of different CPUs overlap.
            let track =
                self.describe_child(uuid(8, i as u64), None, format!("lost events: {name}"))?;
            let event = TrackEvent {
                category_iids: vec![Category::LOSS.iid()],
                debug_annotations: vec![OwnArg::Count.with(Value::Uint(loss.count))],
                r#type: Some(SLICE_BEGIN),
                name_iid: Some(Category::LOSS.iid()),
                track_uuid: Some(track),
                ..Default::default()
            };
            let from = loss.when.start.max(self.trace.span.start);
            self.packets.event(from, event)?;
            self.bare_event(loss.when.end.min(self.trace.span.end).max(from), track, SLICE_END)?;
        }
        Ok(())
    }
}
