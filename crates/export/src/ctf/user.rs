//! Annotations as events of a provider `kasuri`, one class for each kind, with the thread as LTTng-UST's contexts.
//!
//! Each thread's events are made in their order, then all are put in order of time; those of equal stamps stay as they
//! were made, so that what ends comes before what begins, and arguments follow what they belong to.
//!
//! A wait for a lock is `lock_request`, then `lock_acquired` by the hold that follows, or `lock_given_up`. An argument
//! is an event of its own right after the slice or instant that it belongs to, because the fields of a class are fixed
//! and the number of arguments is not.
use super::class::{Class, Ty};
use super::stream::{StreamWriter, text};
use super::{Directory, comm};
use crate::args::ArgCursor;
use kasuri_model::{ArgValue, InstantIx, SliceIx, SliceKind, ThreadIx, Time, Trace, open};
use kasuri_model::{arrow, label};
use std::io;
use std::ops::Range;

/// Context of every event.
pub(super) const CONTEXT: &[(&str, Ty)] =
    &[("vtid", Ty::I32), ("vpid", Ty::I32), ("procname", Ty::Comm)];

/// Fields of several classes.
const NAME: &[(&str, Ty)] = &[("name", Ty::Text)];
const WAIT: &[(&str, Ty)] = &[("name", Ty::Text), ("wait", Ty::U32), ("object", Ty::U64)];
const LOCK: &[(&str, Ty)] = &[("name", Ty::Text), ("lock", Ty::U64), ("shared", Ty::U32)];
const FLOW: &[(&str, Ty)] = &[("name", Ty::Text), ("flow", Ty::U64)];

/// Classes in the order of [`Kind`].
const CLASSES: &[(&str, &[(&str, Ty)])] = &[
    ("kasuri:slice_begin", NAME),
    ("kasuri:slice_end", NAME),
    ("kasuri:instant", NAME),
    ("kasuri:counter", &[("name", Ty::Text), ("value", Ty::F64)]),
    ("kasuri:wait_begin", WAIT),
    ("kasuri:wait_end", WAIT),
    ("kasuri:lock_request", LOCK),
    ("kasuri:lock_acquired", LOCK),
    ("kasuri:lock_released", LOCK),
    ("kasuri:lock_given_up", LOCK),
    ("kasuri:flow_out", FLOW),
    ("kasuri:flow_in", FLOW),
    ("kasuri:arg_int", &[("name", Ty::Text), ("value", Ty::I64)]),
    ("kasuri:arg_uint", &[("name", Ty::Text), ("value", Ty::U64)]),
    ("kasuri:arg_float", &[("name", Ty::Text), ("value", Ty::F64)]),
    ("kasuri:arg_text", &[("name", Ty::Text), ("value", Ty::Text)]),
    ("kasuri:thread_name", NAME),
];

/// The kinds of events; the number is the class's id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Begin,
    End,
    Instant,
    Counter,
    WaitBegin,
    WaitEnd,
    Request,
    Acquired,
    Released,
    GivenUp,
    FlowOut,
    FlowIn,
    ArgInt,
    ArgUint,
    ArgFloat,
    ArgText,
    ThreadName,
}

/// An event to be written. `row` is a row of slices, instants, arguments, counters or arrows, as the kind says; `place`
/// is the position in a counter's values.
struct Entry {
    time: Time,
    thread: ThreadIx,
    kind: Kind,
    row: u32,
    place: u32,
}

/// The classes as the metadata describes them.
pub(super) fn classes() -> Vec<Class> {
    let classes = CLASSES.iter().map(|(name, fields)| Class::new(name, fields));
    classes.collect()
}

/// The events while they are gathered.
struct Entries<'a> {
    trace: &'a Trace,
    out: Vec<Entry>,
}

impl Entries<'_> {
    fn push(&mut self, time: Time, thread: ThreadIx, kind: Kind, row: usize, place: usize) {
        let (row, place) = (row as u32, place as u32);
        self.out.push(Entry { time, thread, kind, row, place });
    }

    /// The arguments in `rows`, each as an event at `time`.
    fn args(&mut self, time: Time, thread: ThreadIx, rows: Range<usize>) {
        for row in rows {
            let kind = match self.trace.args.value[row] {
                ArgValue::Int(_) => Kind::ArgInt,
                ArgValue::Uint(_) => Kind::ArgUint,
                ArgValue::Float(_) => Kind::ArgFloat,
                ArgValue::Str(_) => Kind::ArgText,
            };
            self.push(time, thread, kind, row, 0);
        }
    }

    /// Begins and ends of all slices, thread by thread.
    fn slices(&mut self, cursor: &mut ArgCursor) {
        let s = &self.trace.slices;
        let mut stack: Vec<usize> = Vec::new();
        let mut current = ThreadIx::NONE;
        for i in 0..s.start.len() {
            let (thread, start) = (s.thread[i], s.start[i]);
            if thread != current {
                self.close(&mut stack, Time::MAX, 0);
                current = thread;
            }
            let rows = cursor.of_slice(&self.trace.args, SliceIx(i as u32));
            // A begin or end that was not recorded is not invented: a reader infers it, as from the recording itself.
            let unseen = |bit| s.open[i] & bit != 0;
            if s.kind[i] == SliceKind::LockHold {
                if !unseen(open::BEGIN_UNSEEN) {
                    self.push(start, thread, Kind::Acquired, i, 0);
                    self.args(start, thread, rows);
                }
                if !unseen(open::END_UNSEEN) {
                    self.push(s.end[i], thread, Kind::Released, i, 0);
                }
                continue;
            }
            self.close(&mut stack, start, s.depth[i]);
            let kind = match s.kind[i] {
                SliceKind::LockWait => Kind::Request,
                SliceKind::Work | SliceKind::TaskRun => Kind::Begin,
                _ => Kind::WaitBegin,
            };
            if !unseen(open::BEGIN_UNSEEN) {
                self.push(start, thread, kind, i, 0);
                self.args(start, thread, rows);
            }
            stack.push(i);
        }
        self.close(&mut stack, Time::MAX, 0);
    }

    /// Ends the slices that ended by `now` or are not outside `depth`.
    fn close(&mut self, stack: &mut Vec<usize>, now: Time, depth: u16) {
        let s = &self.trace.slices;
        while let Some(i) = stack.pop_if(|i| s.depth[*i] >= depth || s.end[*i] <= now) {
            let kind = match s.kind[i] {
                SliceKind::LockWait => Kind::GivenUp,
                SliceKind::Work | SliceKind::TaskRun => Kind::End,
                _ => Kind::WaitEnd,
            };
            if s.open[i] & open::END_UNSEEN == 0 {
                self.push(s.end[i], s.thread[i], kind, i, 0);
            }
        }
    }

    /// Instants with their arguments, counters, arrows, and names of tracks.
    fn rest(&mut self, cursor: &mut ArgCursor) {
        let n = &self.trace.instants;
        for i in 0..n.time.len() {
            self.push(n.time[i], n.thread[i], Kind::Instant, i, 0);
            let rows = cursor.of_instant(&self.trace.args, InstantIx(i as u32));
            self.args(n.time[i], n.thread[i], rows);
        }
        for (i, counter) in self.trace.counters.iter().enumerate() {
            let process = self.trace.processes.get(counter.process.ix());
            let thread = process.map_or(ThreadIx::NONE, |p| ThreadIx(p.threads.start));
            for (place, &time) in counter.time.iter().enumerate() {
                self.push(time, thread, Kind::Counter, i, place);
            }
        }
        for (i, arrow) in arrow::arrows(self.trace).enumerate() {
            self.push(arrow.from.0, arrow.from.1, Kind::FlowOut, i, 0);
            self.push(arrow.to.0, arrow.to.1, Kind::FlowIn, i, 0);
        }
        // Tracks are no threads that the kernel could name.
        for (i, thread) in self.trace.threads.iter().enumerate() {
            if thread.tid <= 0 {
                self.push(self.trace.span.start, ThreadIx(i as u32), Kind::ThreadName, i, 0);
            }
        }
    }
}

/// Writes all annotations into one stream. Returns the number of events.
pub(super) fn write(
    trace: &Trace,
    uuid: [u8; 16],
    directory: &mut Directory<'_>,
) -> io::Result<u64> {
    let out = Vec::new();
    let mut entries = Entries { trace, out };
    let mut cursor = ArgCursor::default();
    entries.slices(&mut cursor);
    entries.rest(&mut cursor);
    let mut entries = entries.out;
    entries.sort_by_key(|e| e.time);
    let file = directory("ust/annotations")?;
    let begin = trace.span.start;
    let mut out = StreamWriter::new(file, uuid, 0, None, trace.origin_monotonic_ns, begin);
    let arrows: Vec<_> = arrow::arrows(trace).collect();
    for e in &entries {
        let Some(thread) = trace.threads.get(e.thread.ix()) else {
            continue;
        };
        let pid = trace.processes.get(thread.process.ix()).map_or(thread.tid, |p| p.pid);
        out.event(e.time, e.kind as u16, |out| {
            out.extend(thread.tid.to_le_bytes());
            out.extend(pid.to_le_bytes());
            comm(out, &label::thread(trace, e.thread));
            body(trace, e, &arrows, out);
        })?;
    }
    out.finish(trace.span.end)
}

/// Appends the fields of an event, in the order of its class.
fn body(trace: &Trace, e: &Entry, arrows: &[arrow::Arrow], out: &mut Vec<u8>) {
    let (ix, s) = (e.row as usize, &trace.slices);
    let name = |out: &mut Vec<u8>, name| text(out, trace.strings.get(name));
    match e.kind {
        Kind::Begin | Kind::End => name(out, s.name[ix]),
        Kind::Instant => name(out, trace.instants.name[ix]),
        Kind::Counter => {
            name(out, trace.counters[ix].name);
            out.extend(trace.counters[ix].value[e.place as usize].to_le_bytes());
        }
        Kind::WaitBegin | Kind::WaitEnd => {
            name(out, s.name[ix]);
            // As enum kasuri_wait_kind.
            let wait: u32 = match s.kind[ix] {
                SliceKind::Barrier => 1,
                SliceKind::Join => 2,
                SliceKind::Cond => 3,
                SliceKind::Io => 4,
                _ => 0,
            };
            out.extend(wait.to_le_bytes());
            out.extend(s.object[ix].to_le_bytes());
        }
        Kind::Request | Kind::Acquired | Kind::Released | Kind::GivenUp => {
            name(out, s.name[ix]);
            out.extend(s.object[ix].to_le_bytes());
            out.extend(u32::from(s.open[ix] & open::SHARED != 0).to_le_bytes());
        }
        Kind::FlowOut | Kind::FlowIn => {
            name(out, arrows[ix].name);
            // Ids may come again; places do not.
            out.extend((u64::from(e.row) + 1).to_le_bytes());
        }
        Kind::ArgInt | Kind::ArgUint | Kind::ArgFloat | Kind::ArgText => {
            name(out, trace.args.name[ix]);
            match trace.args.value[ix] {
                ArgValue::Int(n) => out.extend(n.to_le_bytes()),
                ArgValue::Uint(n) => out.extend(n.to_le_bytes()),
                ArgValue::Float(x) => out.extend(x.to_le_bytes()),
                ArgValue::Str(value) => name(out, value),
            }
        }
        Kind::ThreadName => text(out, &label::thread(trace, ThreadIx(e.row))),
    }
}
