//! Turns track events into annotations of threads and tracks.
//!
//! [`Events::event`] dispatches on the type of an event, or, for events that Chrome converted, on the phase of its
//! `legacy_event`. The row comes from the event's track ([`TrackTable`]), from the default track of its writer, or from
//! the thread of an old writer. Names and arguments may be interned ([`Sequence`]).
//!
//! An end has no name: it ends the innermost open slice of its track. The stack of open slices per track gives it the
//! category, so that waits and critical sections end as what they began as ([`Category`]).
use super::sequence::Sequence;
use super::tracks::{Row, TrackTable};
use crate::annotation_log::AnnotationLog;
use crate::category::{Category, argument, event};
use crate::flow_ends::{FlowEnds, Role};
use crate::marks::Marks;
use crate::tracks::Tracks;
use kasuri_format::perfetto::wire::Message;
use kasuri_format::perfetto::{ArgValue, TrackEvent, each_arg};
use kasuri_format::{Error, ring};
use kasuri_model::{Places, StrIx, Strings, Time};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

// `TrackEvent.Type` (protos/perfetto/trace/track_event/track_event.proto).
const BEGIN: u64 = 1;
const END: u64 = 2;
const INSTANT: u64 = 3;
const COUNTER: u64 = 4;
const STATE: u64 = 5;

/// An open slice; `row` is the pid and tid of its stream, which for a critical section is not the track's own.
#[derive(Clone, Copy, Debug)]
struct Begun {
    category: Category,
    name: StrIx,
    object: u64,
    row: (i32, i32),
}

/// The track events read so far.
#[derive(Default)]
pub(super) struct Events {
    /// Annotations by pid and tid.
    pub logs: BTreeMap<(i32, i32), AnnotationLog>,
    /// Counters by process. They get a thread at the end, see [`crate::annotation_log::Carriers`].
    pub counters: BTreeMap<i32, AnnotationLog>,
    pub asynchronous: Tracks,
    /// Texts that programs wrote to `trace_marker`.
    pub marks: Marks,
    pub flows: FlowEnds,
    pub places: Places,
    pub span: Option<Range<i64>>,
    /// Open slices by track, outermost first.
    begun: HashMap<u64, Vec<Begun>>,
    /// Number of samples of threads' CPU time and instructions. They are not read: the kernel's events are better.
    pub n_thread_costs: u64,
}

impl Events {
    /// Takes in one event at time `ns` of the trace's clock.
    pub fn event(
        &mut self,
        ns: i64,
        e: &TrackEvent,
        sequence: &mut Sequence,
        tracks: &mut TrackTable,
        strings: &mut Strings,
    ) -> Result<(), Error> {
        let time = Time(ns);
        self.saw(ns);
        let (uuid, row) = row(e, sequence, tracks, strings);
        let name = self.name(e, sequence, strings);
        // Categories are written out or interned.
        let category = if e.category.is_empty() {
            let iid = &e.category_iid;
            sequence.categories.get(iid).copied().unwrap_or_default()
        } else {
            Category::of(&e.category)
        };
        // Values of counters may ride on any event; their tracks are named there, or once for all events of the writer.
        for (i, &(track, value)) in e.extra.iter().enumerate() {
            let track = track.or_else(|| sequence.extra_tracks.get(i).copied());
            if let Some(uuid) = track {
                self.counter(time, uuid, value, sequence, tracks, strings);
            }
        }
        let legacy = e.legacy.as_ref();
        match (e.kind, legacy.map_or(0, |l| l.phase)) {
            (BEGIN, _) | (0, b'B') => {
                self.begin(time, uuid, row, category, name, e, sequence, strings)?;
            }
            (END, _) | (0, b'E') => {
                self.args(time, row, category, e, sequence, strings)?;
                self.end(time, uuid, row);
            }
            (INSTANT | STATE, _) | (0, b'I' | b'i' | b'R') => {
                // Kasuri's export draws the ends of arrows as instants, too; the arrows suffice.
                let is_drawn = category != Category::Arrow;
                if is_drawn {
                    let instant = event(time, ring::Kind::Instant, 0, name, 0);
                    self.push(row, &instant);
                    self.args(time, row, category, e, sequence, strings)?;
                }
            }
            (COUNTER, _) => {
                if let Some(value) = e.value {
                    self.counter(time, uuid, value, sequence, tracks, strings);
                }
            }
            // Chrome's complete event: a slice with a duration, in microseconds.
            (0, b'X') => {
                self.begin(time, uuid, row, category, name, e, sequence, strings)?;
                let us = legacy.and_then(|l| l.duration_us).unwrap_or(0).max(0);
                let end = ns.saturating_add(us.saturating_mul(1000));
                self.saw(end);
                self.end(Time(end), uuid, row);
            }
            (0, phase) => self.asynchronous(time, phase, row, name, e),
            _ => {}
        }
        self.flows(time, row, category, name, e);
        Ok(())
    }

    /// Widens the span to a time, ns.
    fn saw(&mut self, ns: i64) {
        let span = self.span.get_or_insert(ns..ns);
        (span.start, span.end) = (span.start.min(ns), span.end.max(ns));
    }

    /// The name of an event: written, interned, or else the text of its log message. Notes the place in the source,
    /// too.
    fn name(&mut self, e: &TrackEvent, sequence: &Sequence, strings: &mut Strings) -> StrIx {
        // Number 0 is none: interned names count from 1.
        let iid = match (e.name_iid, &e.legacy) {
            (0, Some(legacy)) => legacy.name_iid,
            (iid, _) => iid,
        };
        let name = match &*e.name {
            "" => sequence.event_names.get(&iid).copied().unwrap_or_default(),
            text => strings.intern(text),
        };
        if let Some(place) = sequence.locations.get(&e.location_iid) {
            self.places.entry(name).or_insert_with(|| place.clone());
        }
        match sequence.log_texts.get(&e.log_iid) {
            Some(&text) if !name.is_some() => text,
            _ => name,
        }
    }

    /// The annotations of a row's stream.
    fn log(&mut self, row: Row) -> &mut AnnotationLog {
        self.logs
            .entry((row.pid, row.tid))
            .or_insert_with(|| AnnotationLog::new(row.pid, row.tid))
    }

    /// Appends an annotation. A new stream of a track begins with the track's name.
    fn push(&mut self, row: Row, annotation: &kasuri_model::input::Annotation) {
        let is_new = !self.logs.contains_key(&(row.pid, row.tid));
        let log = self.log(row);
        if let (true, Some(name)) = (is_new, row.name) {
            log.push(&event(annotation.time, ring::Kind::ThreadName, 0, name, 0));
        }
        log.push(annotation);
    }

    /// Begins a slice, with its arguments.
    #[expect(clippy::too_many_arguments)]
    fn begin(
        &mut self,
        time: Time,
        uuid: u64,
        row: Row,
        category: Category,
        name: StrIx,
        e: &TrackEvent,
        sequence: &Sequence,
        strings: &mut Strings,
    ) -> Result<(), Error> {
        let object = match category.has_object() {
            true => object(e, sequence, strings)?,
            false => 0,
        };
        // Critical sections may cross slices, so an export puts them on a track below the thread's. Here they belong to
        // the thread again.
        let row = match (category, row.thread) {
            (Category::LockHold, Some((pid, tid))) => Row {
                pid,
                tid,
                name: None,
                ..row
            },
            _ => row,
        };
        self.begun.entry(uuid).or_default().push(Begun {
            category,
            name,
            object,
            row: (row.pid, row.tid),
        });
        self.push(row, &category.begin(time, name, object));
        if category == Category::LockHold {
            return Ok(());
        }
        self.args(time, row, category, e, sequence, strings)
    }

    /// Ends the innermost open slice of a track.
    fn end(&mut self, time: Time, uuid: u64, row: Row) {
        let begun = self.begun.get_mut(&uuid).and_then(Vec::pop);
        let (category, name, object, (pid, tid)) = match begun {
            Some(b) => (b.category, b.name, b.object, b.row),
            None => (Category::Work, StrIx::NONE, 0, (row.pid, row.tid)),
        };
        let name = match category {
            Category::Work => StrIx::NONE,
            _ => name,
        };
        let row = if (pid, tid) == (row.pid, row.tid) {
            row
        } else {
            Row {
                pid,
                tid,
                name: None,
                ..row
            }
        };
        self.push(row, &category.end(time, name, object));
    }

    /// Appends the arguments of the slice or instant before them.
    fn args(
        &mut self,
        time: Time,
        row: Row,
        category: Category,
        e: &TrackEvent,
        sequence: &Sequence,
        strings: &mut Strings,
    ) -> Result<(), Error> {
        let (Some(message), true) = (e.message, e.has_args) else {
            return Ok(());
        };
        let found = owned_args(message, sequence, strings)?;
        for (name, iid, value) in found {
            let name = match &*name {
                "" => sequence.arg_names.get(&iid).copied().unwrap_or_default(),
                text => strings.intern(text),
            };
            // The address of a lock is part of the event itself, see `object`.
            if category.has_object() && strings.get(name) == "object" {
                continue;
            }
            use kasuri_model::ArgValue as Model;
            let value = match value {
                Owned::Number(value) => value,
                Owned::Text(text) => Model::Str(strings.intern(&text)),
                Owned::TextIid(iid) => match sequence.arg_texts.get(&iid) {
                    Some(&text) => Model::Str(text),
                    None => continue,
                },
            };
            self.push(row, &argument(time, name, value));
        }
        Ok(())
    }

    /// Adds a value of a counter, whose track has the unit and tells whether values are differences.
    fn counter(
        &mut self,
        time: Time,
        uuid: u64,
        value: f64,
        sequence: &mut Sequence,
        tracks: &mut TrackTable,
        strings: &mut Strings,
    ) {
        let row = tracks.row(uuid, strings);
        let Some(counter) = row.counter else {
            return;
        };
        if counter.is_thread_cost {
            self.n_thread_costs += 1;
            return;
        }
        let mut value = value * counter.multiplier;
        // A difference counts from the last value of the same writer.
        if counter.is_incremental {
            let sum = sequence.sums.entry(uuid).or_default();
            *sum += value;
            value = *sum;
        }
        let name = row.name.unwrap_or_default();
        let log =
            (self.counters.entry(row.pid)).or_insert_with(|| AnnotationLog::new(row.pid, row.pid));
        log.push(&event(time, ring::Kind::Counter, 0, name, value.to_bits()));
    }

    /// Adds the ends of arrows that an event has: `flow_ids` pass through, `terminating_flow_ids` end. Chrome's ids are
    /// another space, so their highest bit is flipped.
    fn flows(&mut self, time: Time, row: Row, category: Category, name: StrIx, e: &TrackEvent) {
        // Arrows do not inherit the name of a slice.
        let name = if category == Category::Arrow {
            name
        } else {
            StrIx::NONE
        };
        let end = (row.pid, row.tid);
        if !e.flows.is_empty() || !e.ending_flows.is_empty() || e.legacy.is_some() {
            // A thread that only has ends of arrows needs a stream, too.
            if !self.logs.contains_key(&end) {
                self.push(
                    row,
                    &event(
                        time,
                        ring::Kind::ThreadName,
                        0,
                        row.name.unwrap_or_default(),
                        0,
                    ),
                );
            }
        }
        for &id in &e.flows {
            self.flows.add(id, time, end, Role::Step, name);
        }
        for &id in &e.ending_flows {
            self.flows.add(id, time, end, Role::End, name);
        }
        let Some(legacy) = &e.legacy else {
            return;
        };
        // Numbers of `FlowDirection`: 1 in, 2 out, 3 both.
        let bound = legacy.bind_id.map(|id| (id, legacy.direction));
        let phased = match legacy.phase {
            b's' => legacy.id.map(|id| (id, 2)),
            b't' => legacy.id.map(|id| (id, 3)),
            b'f' => legacy.id.map(|id| (id, 1)),
            _ => None,
        };
        for (id, direction) in bound.into_iter().chain(phased) {
            let role = match direction {
                1 => Role::End,
                2 => Role::Begin,
                _ => Role::Step,
            };
            self.flows.add(id ^ (1 << 63), time, end, role, StrIx::NONE);
        }
    }

    /// Adds an asynchronous event of Chrome. Begin and end are joined by name and id in a process.
    fn asynchronous(&mut self, time: Time, phase: u8, row: Row, name: StrIx, e: &TrackEvent) {
        let Some(id) = e.legacy.as_ref().and_then(|l| l.id) else {
            return;
        };
        match phase {
            b'b' | b'S' => self.asynchronous.begin(time, row.pid, name, id, name),
            b'e' | b'F' => self.asynchronous.end(time, row.pid, name, id),
            b'n' | b'T' | b'p' => self.asynchronous.instant(time, row.pid, name, name),
            _ => {}
        }
    }
}

/// The track of an event, and its row. A thread without a track gets a track number of its own.
fn row(
    e: &TrackEvent,
    sequence: &Sequence,
    tracks: &mut TrackTable,
    strings: &mut Strings,
) -> (u64, Row) {
    let thread = |pid, tid| {
        let row = Row {
            pid,
            tid,
            name: None,
            thread: Some((pid, tid)),
            counter: None,
        };
        // Random ids of real tracks do not collide with this pattern, except by chance.
        let uuid = 0x7468_7264_0000_0000 ^ ((pid as u64) << 40) ^ u64::from(tid as u32);
        (uuid, row)
    };
    if let Some((Some(pid), Some(tid))) = e.legacy.as_ref().map(|l| (l.pid, l.tid))
        && tid > 0
    {
        return thread(pid, tid);
    }
    match (e.track.or(sequence.track), sequence.thread) {
        (None, Some((pid, tid))) => thread(pid, tid),
        (uuid, _) => {
            let uuid = uuid.unwrap_or(0);
            (uuid, tracks.row(uuid, strings))
        }
    }
}

/// The arguments of an event: name, number of an interned name, value.
fn owned_args(
    message: Message<'_>,
    sequence: &Sequence,
    strings: &Strings,
) -> Result<Vec<(String, u64, Owned)>, Error> {
    let mut found = Vec::new();
    let names = arg_names(sequence, strings);
    let mut each = |name: &str, iid, value: ArgValue<'_>| {
        found.push((name.to_owned(), iid, owned(value)));
    };
    each_arg(message, &names, &mut each)?;
    Ok(found)
}

/// An owned value of an argument, which outlives the lookup of names: that one borrows the strings.
enum Owned {
    Number(kasuri_model::ArgValue),
    Text(String),
    TextIid(u64),
}

fn owned(value: ArgValue<'_>) -> Owned {
    use kasuri_model::ArgValue as Model;
    match value {
        ArgValue::Bool(v) => Owned::Text(v.to_string()),
        ArgValue::Uint(v) | ArgValue::Pointer(v) => Owned::Number(Model::Uint(v)),
        ArgValue::Int(v) => Owned::Number(Model::Int(v)),
        ArgValue::Double(v) => Owned::Number(Model::Float(v)),
        ArgValue::Text(text) => Owned::Text(text.into_owned()),
        ArgValue::TextIid(iid) => Owned::TextIid(iid),
    }
}

/// Looks up interned names of arguments; "" if one is missing.
fn arg_names<'a>(sequence: &'a Sequence, strings: &'a Strings) -> impl Fn(u64) -> String + 'a {
    |iid| match sequence.arg_names.get(&iid) {
        Some(&name) => strings.get(name).to_owned(),
        None => String::new(),
    }
}

/// The argument `object` of a wait or a critical section; 0: there is none.
fn object(e: &TrackEvent, sequence: &Sequence, strings: &Strings) -> Result<u64, Error> {
    let Some(message) = e.message else {
        return Ok(0);
    };
    let mut object = 0;
    let names = arg_names(sequence, strings);
    let mut each = |name: &str, iid, value: ArgValue<'_>| {
        if name == "object" || name.is_empty() && names(iid) == "object" {
            object = match value {
                ArgValue::Uint(v) | ArgValue::Pointer(v) => v,
                ArgValue::Int(v) => v as u64,
                _ => 0,
            };
        }
    };
    each_arg(message, &names, &mut each)?;
    Ok(object)
}
