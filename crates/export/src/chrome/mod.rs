//! Chrome's Trace Event Format, object form: what chrome://tracing, Perfetto, speedscope and many scripts read.
//!
//! The format is described in Google's document "Trace Event Format". A file looks like this, one event in a line:
//!
//! ```text
//! {"traceEvents":[
//! {"ph":"M","name":"thread_name","pid":70,"tid":71,"args":{"name":"worker"}},
//! {"ph":"X","cat":"work","name":"tile","pid":70,"tid":71,"ts":123.456,"dur":7.000}],"displayTimeUnit":"ns",...}
//! ```
//!
//! | phase `ph` | used for |
//! |---|---|
//! | `M` | names and order of processes and rows |
//! | `B`, `E` | begin and end of slices, kernel states, and what ran on each CPU |
//! | `X` | slices without length, time in the kernel, losses |
//! | `b`, `e` | critical sections, which need not nest in their thread |
//! | `i` | instants |
//! | `C` | values of counters |
//! | `s`, `f` | tail and head of an arrow |
//!
//! A member of the document, `systemTraceEvents`, holds the scheduler's events themselves as ftrace's text ([`kernel`]): rows are derived from
//! them, and who reads the file back derives them again.
//!
//! Times are microseconds with three decimals, so no nanosecond is lost. Where one span of a row ends in the moment in which another ends
//! or begins, both stamps are written, as `B` and `E`: of an `X`, readers add `ts` and `dur` as doubles, and 0.1 + 0.2 is more than 0.3. speedscope
//! took such spans for crossing ones and dropped them. Its `E` wants the name; our own reader tells a state's row by the category. A thread has two rows: its slices, and
//! above them its kernel states (its tid plus [`STATE_ROW`]). CPUs are the rows of a process of their own, pid 0,
//! which no real process has. Events are made and written one by one; memory does not grow with the recording.
mod event;
mod kernel;

use crate::Exported;
use crate::args::ArgCursor;
use crate::json::{self, Decimal, Micros};
use crate::sched_events;
use event::{Arg, Event};
use kasuri_model::{
    ArgValue, InstantIx, KernelSpanKind, ProgramBy, SchedLog, SliceIx, SliceKind, ThreadIx,
    ThreadState, Time, Trace,
};
use kasuri_model::{arrow, label};
use serde::ser::{Serialize, SerializeSeq, Serializer};
use std::borrow::Cow;
use std::cell::Cell;
use std::io::{self, Write};

/// A thread's states are drawn in the row with its tid plus this: above every tid Linux gives (4,194,304), and
/// small enough for readers that keep 32 bits.
pub const STATE_ROW: i64 = 1 << 23;

/// The pseudo process whose rows are the CPUs.
pub const CPUS_PID: i32 = 0;

/// Rows of interrupts and softirqs in the pseudo process, plus the CPU's number.
const IRQ_ROW: i64 = STATE_ROW;
const SOFTIRQ_ROW: i64 = STATE_ROW * 2;

/// Writes the whole recording into `out`.
///
/// # Errors
/// Those of `out`.
pub fn write<W: Write>(trace: &Trace, out: W) -> io::Result<Exported> {
    let records = Cell::new(0);
    let file = File {
        trace_events: Events { trace, records: &records },
        display_time_unit: "ns",
        other_data: other_data(trace),
        system_trace_events: kept(trace).map(|log| kernel::Text { trace, log }),
    };
    // The document and its events: an event has a line.
    json::write(&file, 2, out)?;
    Ok(Exported { records: records.get(), left_out: left_out(trace) })
}

/// The document. Events come first, so that a file cut short still holds most of them.
#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct File<'a> {
    trace_events: Events<'a>,
    display_time_unit: &'static str,
    other_data: serde_json::Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_trace_events: Option<kernel::Text<'a>>,
}

/// The scheduler's events, where they were kept and there are any.
fn kept(trace: &Trace) -> Option<&SchedLog> {
    let log = trace.sched_events.as_ref();
    log.filter(|log| log.iter().next().is_some())
}

/// All events, made while they are written.
struct Events<'a> {
    trace: &'a Trace,
    /// Number of events written so far.
    records: &'a Cell<u64>,
}

impl Serialize for Events<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut events =
            Writer { trace: self.trace, seq: serializer.serialize_seq(None)?, records: 0 };
        events.metadata()?;
        events.cpus()?;
        events.states()?;
        events.slices_and_instants()?;
        events.counters()?;
        events.arrows()?;
        events.kernel_spans()?;
        events.losses()?;
        self.records.set(events.records);
        events.seq.end()
    }
}

/// Lists what a reader of the file will not find.
fn left_out(trace: &Trace) -> Vec<String> {
    let mut left_out = Vec::new();
    if !trace.occupancy.start.is_empty() && kept(trace).is_none() {
        left_out.push(crate::exported::NO_EVENTS.to_owned());
    }
    if !trace.wakeups.time.is_empty() && kept(trace).is_none() {
        left_out.push("wake-up arrows (the waker's name is in the runnable state)".to_string());
    }
    if !trace.migrations.time.is_empty() && kept(trace).is_none() {
        left_out.push("migration events (a thread's CPU is shown)".to_string());
    }
    left_out
}

/// Writes events into the sequence, kind by kind.
struct Writer<'a, Q> {
    trace: &'a Trace,
    seq: Q,
    records: u64,
}

impl<'a, Q: SerializeSeq> Writer<'a, Q> {
    /// Writes an event and counts it.
    fn emit(&mut self, event: &Event) -> Result<(), Q::Error> {
        self.records += 1;
        self.seq.serialize_element(event)
    }

    /// CLOCK_MONOTONIC.
    fn ts(&self, time: Time) -> Option<Micros> {
        let origin_ns = self.trace.origin_monotonic_ns;
        Some(Decimal(origin_ns.saturating_add(time.ns())))
    }

    /// A complete event: `row` is its process and thread.
    fn span(&self, name: Cow<'a, str>, row: (i32, i64), from: Time, to: Time) -> Event<'a> {
        Event {
            ph: "X",
            name,
            pid: row.0,
            tid: row.1,
            ts: self.ts(from),
            dur: Some(Decimal((to - from).ns())),
            ..Event::default()
        }
    }

    /// The end of a span.
    fn end_of(&self, span: &Event<'a>, to: Time) -> Event<'a> {
        Event {
            ph: "E",
            cat: span.cat,
            name: span.name.clone(),
            pid: span.pid,
            tid: span.tid,
            ts: self.ts(to),
            ..Event::default()
        }
    }

    /// Writes a span that no other one of its row lies in, up to `to`.
    fn emit_alone(&mut self, span: Event<'a>, to: Time) -> Result<(), Q::Error> {
        if span.ts == self.ts(to) {
            return self.emit(&span);
        }
        let end = self.end_of(&span, to);
        self.emit(&begin_of(span))?;
        self.emit(&end)
    }

    /// The row of a thread; row -1 of the CPUs' process for none.
    fn pid_tid(&self, thread: ThreadIx) -> (i32, i64) {
        let Some(row) = self.trace.threads.get(thread.ix()) else {
            return (CPUS_PID, -1);
        };
        let pid = self.trace.processes.get(row.process.ix()).map_or(row.tid, |p| p.pid);
        (pid, row.tid.into())
    }

    /// Names a process or a row; `what` is `process_name` or `thread_name`.
    fn name_row(
        &mut self,
        what: &'static str,
        row: (i32, i64),
        name: &str,
    ) -> Result<(), Q::Error> {
        self.name_row_since(what, row, name, None)
    }

    /// Names a row that exists since `ts`.
    fn name_row_since(
        &mut self,
        what: &'static str,
        (pid, tid): (i32, i64),
        name: &str,
        ts: Option<Micros>,
    ) -> Result<(), Q::Error> {
        let args = vec![("name".into(), Arg::Text(name.into()))];
        self.emit(&Event { ph: "M", name: what.into(), pid, tid, ts, args, ..Event::default() })
    }

    /// Places a process or a row; lower numbers are drawn further up.
    fn sort_row(
        &mut self,
        what: &'static str,
        (pid, tid): (i32, i64),
        index: i64,
    ) -> Result<(), Q::Error> {
        let args = vec![("sort_index".into(), Arg::Int(index))];
        self.emit(&Event { ph: "M", name: what.into(), pid, tid, args, ..Event::default() })
    }

    /// Names all rows, and orders them: the CPUs first, and each thread's states above its slices.
    fn metadata(&mut self) -> Result<(), Q::Error> {
        self.name_row("process_name", (CPUS_PID, 0), "CPUs")?;
        self.sort_row("process_sort_index", (CPUS_PID, 0), -1)?;
        for cpu in 0..self.trace.cpus.len() {
            self.name_row("thread_name", (CPUS_PID, cpu as i64), &format!("CPU {cpu}"))?;
        }
        for process in &self.trace.processes {
            let name = self.trace.strings.get(process.name);
            self.name_row("process_name", (process.pid, 0), name)?;
        }
        for i in 0..self.trace.threads.len() {
            let (pid, tid) = self.pid_tid(ThreadIx(i as u32));
            let name = label::thread(self.trace, ThreadIx(i as u32));
            let has_states = !self.trace.threads[i].states.is_empty();
            // Since when there is this thread, for a reader of the scheduler's events.
            let since = has_states.then(|| self.ts(self.trace.threads[i].alive.start));
            self.name_row_since("thread_name", (pid, tid), &name, since.flatten())?;
            self.sort_row("thread_sort_index", (pid, tid), 2 * i as i64 + 1)?;
            if has_states {
                self.name_row("thread_name", (pid, tid + STATE_ROW), &format!("{name}: state"))?;
                self.sort_row("thread_sort_index", (pid, tid + STATE_ROW), 2 * i as i64)?;
            }
        }
        Ok(())
    }

    /// Which thread each CPU ran. An entry of the occupancy lasts until the next one of its CPU.
    fn cpus(&mut self) -> Result<(), Q::Error> {
        let occupancy = &self.trace.occupancy;
        for (cpu, row) in self.trace.cpus.iter().enumerate() {
            for i in row.occupancy.clone().map(|i| i as usize) {
                let thread = occupancy.thread[i];
                if !thread.is_some() {
                    continue;
                }
                let is_last = i + 1 == row.occupancy.end as usize;
                let end = if is_last { self.trace.span.end } else { occupancy.start[i + 1] };
                let name = label::thread(self.trace, thread);
                let mut event = self.span(name, (CPUS_PID, cpu as i64), occupancy.start[i], end);
                let (pid, tid) = self.pid_tid(thread);
                event.args =
                    vec![("pid".into(), Arg::Int(pid.into())), ("tid".into(), Arg::Int(tid))];
                self.emit_alone(event, end)?;
            }
        }
        Ok(())
    }

    /// The kernel states of each thread. A state lasts until the next one of its thread; `by` is the thread that woke
    /// or preempted it.
    fn states(&mut self) -> Result<(), Q::Error> {
        let states = &self.trace.states;
        for (t, row) in self.trace.threads.iter().enumerate() {
            let (pid, tid) = self.pid_tid(ThreadIx(t as u32));
            for i in row.states.clone().map(|i| i as usize) {
                if states.state[i] == ThreadState::Unknown {
                    continue;
                }
                let is_last = i + 1 == row.states.end as usize;
                let end = if is_last { row.alive.end } else { states.start[i + 1] };
                let name = label::state(states.state[i]).into();
                let mut event = self.span(name, (pid, tid + STATE_ROW), states.start[i], end);
                event.cat = Some("state");
                if states.cpu[i] != u16::MAX {
                    event.args.push(("cpu".into(), Arg::Uint(states.cpu[i].into())));
                }
                if states.by[i].is_some() {
                    event.args.push(("by".into(), Arg::Text(self.by(states.by[i]).into())));
                }
                self.emit_alone(event, end)?;
            }
        }
        Ok(())
    }

    /// Name and id of another thread.
    fn by(&self, thread: ThreadIx) -> String {
        format!("{} {}", label::thread(self.trace, thread), self.pid_tid(thread).1)
    }

    /// Slices and then instants, in the model's order, which [`ArgCursor`] needs: an end stands after all that lies in the slice.
    fn slices_and_instants(&mut self) -> Result<(), Q::Error> {
        let mut cursor = ArgCursor::default();
        let slices = &self.trace.slices;
        // The open slices of the thread: their depth and how they end.
        let mut open: Vec<(u16, Event<'a>)> = Vec::new();
        for i in 0..slices.start.len() {
            let is_hold = slices.kind[i] == SliceKind::LockHold;
            if i > 0 && slices.thread[i] != slices.thread[i - 1] {
                self.end_from(&mut open, 0)?;
            } else if !is_hold {
                self.end_from(&mut open, slices.depth[i])?;
            }
            let row = self.pid_tid(slices.thread[i]);
            let name = Cow::Borrowed(label::slice(self.trace, SliceIx(i as u32)));
            let mut event = self.span(name, row, slices.start[i], slices.end[i]);
            event.cat = Some(label::kind(slices.kind[i]));
            event.args = self.args(i, &mut cursor);
            if is_hold {
                self.hold(event, i)?;
            } else if slices.start[i] == slices.end[i] {
                self.emit(&event)?;
            } else {
                open.push((slices.depth[i], self.end_of(&event, slices.end[i])));
                self.emit(&begin_of(event))?;
            }
        }
        self.end_from(&mut open, 0)?;
        self.instants(cursor)
    }

    /// Ends the slices that lie at `depth` or deeper, the innermost first.
    fn end_from(&mut self, open: &mut Vec<(u16, Event<'a>)>, depth: u16) -> Result<(), Q::Error> {
        while let Some((_, end)) = open.pop_if(|(open, _)| *open >= depth) {
            self.emit(&end)?;
        }
        Ok(())
    }

    /// Critical sections may cross the work around them: asynchronous slices need not nest.
    fn hold(&mut self, event: Event<'a>, i: usize) -> Result<(), Q::Error> {
        let begin = Event { ph: "b", dur: None, id: Some(i as u64 + 1), ..event };
        self.emit(&begin)?;
        let ts = self.ts(self.trace.slices.end[i]);
        self.emit(&Event { ph: "e", ts, args: Vec::new(), ..begin })
    }

    /// The arguments of slice `i`: its own and what the model knows.
    fn args(&self, i: usize, cursor: &mut ArgCursor) -> Vec<(Cow<'a, str>, Arg<'a>)> {
        let slices = &self.trace.slices;
        let mut args = self.own_args(cursor.of_slice(&self.trace.args, SliceIx(i as u32)));
        if slices.object[i] != 0 {
            args.push(("object".into(), Arg::Text(format!("{:#x}", slices.object[i]).into())));
        }
        if let Some(task) = self.trace.tasks.get(slices.task[i].ix()) {
            args.push(("task".into(), Arg::Uint(task.id)));
        }
        if !label::not_seen(slices.open[i]).is_empty() {
            args.push(("not seen".into(), Arg::Text(label::not_seen(slices.open[i]).into())));
        }
        // An object's names are unique: the later one holds.
        for i in (0..args.len()).rev() {
            if args[i + 1..].iter().any(|(name, _)| *name == args[i].0) {
                args.remove(i);
            }
        }
        args
    }

    /// The arguments that the program gave.
    fn own_args(&self, rows: std::ops::Range<usize>) -> Vec<(Cow<'a, str>, Arg<'a>)> {
        let (table, strings) = (&self.trace.args, &self.trace.strings);
        let value = |value| match value {
            ArgValue::Int(v) => Arg::Int(v),
            ArgValue::Uint(v) => Arg::Uint(v),
            ArgValue::Float(v) => Arg::Float(v),
            ArgValue::Str(s) => Arg::Text(strings.get(s).into()),
        };
        rows.map(|row| (strings.get(table.name[row]).into(), value(table.value[row]))).collect()
    }

    fn instants(&mut self, mut cursor: ArgCursor) -> Result<(), Q::Error> {
        for i in 0..self.trace.instants.time.len() {
            let (pid, tid) = self.pid_tid(self.trace.instants.thread[i]);
            let name = label::named(self.trace, self.trace.instants.name[i], "instant").into();
            let ts = self.ts(self.trace.instants.time[i]);
            let args = self.own_args(cursor.of_instant(&self.trace.args, InstantIx(i as u32)));
            self.emit(&Event {
                ph: "i",
                s: Some("t"),
                name,
                pid,
                tid,
                ts,
                args,
                ..Event::default()
            })?;
        }
        Ok(())
    }

    fn counters(&mut self) -> Result<(), Q::Error> {
        for counter in &self.trace.counters {
            let pid = self.trace.processes.get(counter.process.ix()).map_or(CPUS_PID, |p| p.pid);
            let name = label::named(self.trace, counter.name, "counter");
            // A counter's value must be a number, and JSON has no NaN and no infinity.
            let values = counter.time.iter().zip(&counter.value);
            for (&time, &value) in values.filter(|(_, value)| value.is_finite()) {
                let args = vec![("value".into(), Arg::Float(value))];
                let ts = self.ts(time);
                self.emit(&Event {
                    ph: "C",
                    name: name.into(),
                    pid,
                    ts,
                    args,
                    ..Event::default()
                })?;
            }
        }
        Ok(())
    }

    /// An arrow is two events with one id. `bp: e` binds the head to the slice around it, not to the next one.
    fn arrows(&mut self) -> Result<(), Q::Error> {
        let trace = self.trace;
        for arrow in arrow::arrows(trace) {
            for (ph, bp, (time, thread)) in [("s", None, arrow.from), ("f", Some("e"), arrow.to)] {
                let (pid, tid) = self.pid_tid(thread);
                let name = label::named(trace, arrow.name, "arrow").into();
                let (cat, ts, id) = (Some("arrow"), self.ts(time), Some(arrow.id));
                self.emit(&Event { ph, bp, cat, name, pid, tid, ts, id, ..Event::default() })?;
            }
        }
        Ok(())
    }

    /// Interrupts and softirqs have rows of the CPUs' process; system calls and waits for kernel locks are in the
    /// thread's row.
    fn kernel_spans(&mut self) -> Result<(), Q::Error> {
        let spans = &self.trace.kernel_spans;
        for i in 0..spans.start.len() {
            let (row, cat) = match spans.kind[i] {
                KernelSpanKind::Irq => ((CPUS_PID, IRQ_ROW + i64::from(spans.cpu[i])), "irq"),
                KernelSpanKind::Softirq => {
                    ((CPUS_PID, SOFTIRQ_ROW + i64::from(spans.cpu[i])), "softirq")
                }
                KernelSpanKind::Syscall => (self.pid_tid(spans.thread[i]), "system call"),
                KernelSpanKind::LockContention => (self.pid_tid(spans.thread[i]), "kernel lock"),
            };
            let name = Cow::Borrowed(label::named(self.trace, spans.name[i], cat));
            let mut event = self.span(name, row, spans.start[i], spans.end[i]);
            event.cat = Some(cat);
            self.emit(&event)?;
        }
        Ok(())
    }

    /// A loss is a span over the time in which events are missing, in the row of its CPU or thread.
    fn losses(&mut self) -> Result<(), Q::Error> {
        let whole = &self.trace.span;
        for loss in &self.trace.losses {
            let row = match loss.cpu {
                Some(cpu) => (CPUS_PID, i64::from(cpu)),
                None => self.pid_tid(loss.thread),
            };
            let name = format!("lost events: {}", loss.cause).into();
            let from = loss.when.start.max(whole.start);
            let mut event = self.span(name, row, from, loss.when.end.min(whole.end).max(from));
            event.cat = Some("lost events");
            event.args = vec![
                ("count".into(), Arg::Uint(loss.count)),
                ("remedy".into(), Arg::Text(loss.remedy.as_str().into())),
            ];
            self.emit(&event)?;
        }
        Ok(())
    }
}

/// The begin of a span.
fn begin_of(span: Event<'_>) -> Event<'_> {
    Event { ph: "B", dur: None, ..span }
}

/// Facts that the format has no place for: about the machine, the recording and its clocks.
fn other_data(trace: &Trace) -> serde_json::Value {
    let (info, origin_ns) = (&trace.info, trace.origin_monotonic_ns);
    // An imported recording may not know the wall-clock time.
    let is_known = trace.origin_realtime_ns != 0;
    let realtime = is_known.then(|| trace.origin_realtime_ns.saturating_sub(origin_ns));
    serde_json::json!({
        "command": info.command,
        "host": info.host,
        "kernel": info.kernel,
        "machine": info.machine,
        "cpu_model": info.cpu_model,
        "recorder": info.recorder,
        "clock": "CLOCK_MONOTONIC",
        "start_monotonic_ns": origin_ns.saturating_add(trace.span.start.ns()),
        "end_monotonic_ns": origin_ns.saturating_add(trace.span.end.ns()),
        "realtime_minus_monotonic_ns": realtime,
        "kernel_events": kept(trace).map(|log| kernel_events(trace, log)),
    })
}

/// What their text does not say: which CPUs were recorded, whether migrations were, and which processes are the program.
fn kernel_events(trace: &Trace, log: &SchedLog) -> serde_json::Value {
    let own = trace.processes.iter().filter(|p| p.is_target);
    let program: Vec<i32> = match trace.program_by {
        ProgramBy::Nobody => Vec::new(),
        ProgramBy::Recording | ProgramBy::Choice => own.map(|p| p.pid).collect(),
    };
    serde_json::json!({
        "source": trace.info.kernel_source,
        "n_cpus": trace.cpus.len(),
        "recorded_cpus": sched_events::recorded(trace).collect::<Vec<u16>>(),
        "has_migrations": log.has_migrations,
        "program_pids": program,
    })
}
