//! Turns track events into annotations of threads and tracks.
//!
//! [`Events::event`] dispatches on the type of an event, or, for events that Chrome converted, on the phase of its
//! `legacy_event`. The row comes from the event's track ([`TrackTable`]), from the default track of its writer, or from
//! the thread of an old writer. Names and arguments may be interned ([`Sequence`]).
//!
//! An end has no name: it ends the innermost open slice of its track. The stack of open slices per track gives it the
//! category, so that waits and critical sections end as what they began as ([`Category`]). Complete events (phase `X`), which bring
//! their length, take no part in that; they are put among the others when all are known ([`nest`]).
use super::kernel_marks::KernelMarks;
use super::sequence::Sequence;
use super::tracks::{Row, TrackTable};
use crate::annotation_log::AnnotationLog;
use crate::category::{Category, argument, event, series_name};
use crate::flow_ends::{FlowEnds, Role};
use crate::marks::Marks;
use crate::nesting::{Oddities, Row as Nested, Thread, What};
use crate::tracks::{Tracks, hash};
use kasuri_base::annotation::{ArgType, WaitKind};
use kasuri_format::perfetto::{ArgValue, LogEntry, MarkEvent, Number, TrackEvent, each_arg};
use kasuri_format::{Error, ring};
use kasuri_model::input::{Annotation, AnnotationEvents};
use kasuri_model::{ArgValue as Model, Places, StrIx, Strings, Time};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

// `TrackEvent.Type` (protos/perfetto/trace/track_event/track_event.proto).
const BEGIN: u64 = 1;
const END: u64 = 2;
const INSTANT: u64 = 3;
const COUNTER: u64 = 4;
const STATE: u64 = 5;

/// Thread id of the row for messages that no thread logged; above the rows of tracks, below the lanes of asynchronous slices.
const LOG_ROW: i32 = -1001;

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
    /// What such texts and the kernel's counters need to know of threads.
    pub kernel: KernelMarks,
    pub flows: FlowEnds,
    pub places: Places,
    pub span: Option<Range<i64>>,
    /// Open slices by track, outermost first.
    begun: HashMap<u64, Vec<Begun>>,
    /// The process that owns the track of an asynchronous id, by process (0: the whole trace) and key.
    async_pid: HashMap<(i32, u64), i32>,
    /// Rows that have complete events.
    complete: BTreeSet<(i32, i32)>,
    /// What is wrong with slices on these.
    odd: Oddities,
    /// Number of samples of threads' CPU time and instructions. They are not read: the kernel's events are better.
    pub n_thread_costs: u64,
    /// Numbers of events that are left out: with a stamp before the clock's zero; of a phase that is not read.
    pub n_early: u64,
    pub unread_phases: BTreeMap<u8, u64>,
    /// Number of complete events with a length below 0.
    pub n_negative: u64,
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
        if ns < 0 {
            self.n_early += 1;
            return Ok(());
        }
        let time = Time(ns);
        self.saw(ns);
        let name = self.name(e, sequence, strings);
        let (uuid, row) = row(e, name, sequence, tracks, strings);
        // Categories are written out or interned.
        let (category, group) = match &*e.category {
            "" => (sequence.categories.get(&e.category_iid).copied()).unwrap_or_default(),
            text => (Category::of(text), strings.intern(text)),
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
                self.args(time, row, category, true, e, sequence, strings)?;
                self.end(time, uuid, row);
            }
            // A state lasts to the next one on its track; an event without a name only ends it.
            (STATE, _) if row.is_state => {
                if self.begun.get(&uuid).is_some_and(|open| !open.is_empty()) {
                    self.end(time, uuid, row);
                }
                if name.is_some() {
                    self.begin(time, uuid, row, category, name, e, sequence, strings)?;
                }
            }
            (INSTANT | STATE, _) | (0, b'I' | b'i' | b'R' | b'P') => {
                // Kasuri's export draws the ends of arrows as instants, too; the arrows suffice.
                let is_drawn = category != Category::Arrow;
                if is_drawn {
                    let instant = event(time, ring::Kind::Instant, 0, name, 0);
                    self.push(row, &instant);
                    self.args(time, row, category, false, e, sequence, strings)?;
                }
            }
            (COUNTER, _) => {
                if let Some(value) = e.value {
                    self.counter(time, uuid, value, sequence, tracks, strings);
                }
            }
            (0, b'X') => {
                self.complete_event(time, row, category, name, e, sequence, strings)?;
            }
            (0, b'C') => self.series(time, row.pid, name, e, sequence, strings)?,
            (0, phase) => {
                self.asynchronous(time, phase, row, (group, name), e, sequence, strings)?;
            }
            _ => {}
        }
        self.flows(time, row, category, name, e);
        Ok(())
    }

    /// Adds a complete event: a slice with a length in microseconds.
    #[expect(clippy::too_many_arguments)]
    fn complete_event(
        &mut self,
        time: Time,
        row: Row,
        category: Category,
        name: StrIx,
        e: &TrackEvent,
        sequence: &Sequence,
        strings: &mut Strings,
    ) -> Result<(), Error> {
        let us = e.legacy.as_ref().and_then(|l| l.duration_us).unwrap_or(0);
        self.n_negative += u64::from(us < 0);
        let end = time.0.saturating_add(us.max(0).saturating_mul(1000));
        self.saw(end);
        let object = object(category, e, sequence, strings)?;
        self.complete.insert((row.pid, row.tid));
        let begin = category.begin(time, name, object);
        self.push(row, &with_end(begin, end));
        self.args(time, row, category, false, e, sequence, strings)
    }

    /// All annotations by thread and track, in order of time, and what is to be said about them.
    pub fn sealed(&mut self) -> (BTreeMap<(i32, i32), AnnotationLog>, Vec<String>) {
        let mut odd = std::mem::take(&mut self.odd);
        let logs = std::mem::take(&mut self.logs).into_iter();
        let logs = logs.map(|(id, mut log)| {
            // A thread's own slices may stand in `trace_marker`, too.
            let marked = self.marks.take_slices(id.1);
            if self.complete.contains(&id) || !marked.is_empty() {
                log = nest(log, &marked, id, &mut odd);
            } else {
                log.seal();
            }
            (id, log)
        });
        let logs = logs.collect();
        (logs, odd.told().collect())
    }

    /// Names a thread that has events.
    pub fn name_thread(&mut self, id: (i32, i32), name: StrIx) {
        if let Some(log) = self.logs.get_mut(&id)
            && let Some(time) = log.first_time()
        {
            log.push(&event(time, ring::Kind::ThreadName, 0, name, 0));
        }
    }

    /// A message that a thread logged, with the part of the program that did.
    pub fn message(&mut self, ns: i64, entry: &LogEntry, strings: &mut Strings) {
        if ns < 0 {
            self.n_early += 1;
            return;
        }
        self.saw(ns);
        let text = match &*entry.tag {
            "" => entry.text.trim_end().to_owned(),
            tag => format!("{tag}: {}", entry.text.trim_end()),
        };
        // The kernel's messages have no thread, the journal's often a process only.
        let tid = if entry.tid > 0 { entry.tid } else { entry.pid };
        let name = (tid <= 0).then(|| strings.intern("log"));
        let row = Row {
            pid: entry.pid.max(0),
            tid: if tid > 0 { tid } else { LOG_ROW },
            name,
            thread: None,
            counter: None,
            is_state: false,
        };
        let message = event(Time(ns), ring::Kind::Message, 0, strings.intern(&text), 0);
        self.push(row, &message);
    }

    /// Widens the span to a time, ns.
    pub fn saw(&mut self, ns: i64) {
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
        self.logs.entry((row.pid, row.tid)).or_insert_with(|| AnnotationLog::new(row.pid, row.tid))
    }

    /// Appends an annotation. A new stream of a track begins with the track's name.
    fn push(&mut self, row: Row, annotation: &Annotation) {
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
        let object = object(category, e, sequence, strings)?;
        // Critical sections may cross slices, so an export puts them on a track below the thread's. Here they belong to
        // the thread again.
        let row = match (category, row.thread) {
            (Category::LockHold, Some((pid, tid))) => Row { pid, tid, name: None, ..row },
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
        self.args(time, row, category, false, e, sequence, strings)
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
            Row { pid, tid, name: None, ..row }
        };
        self.push(row, &category.end(time, name, object));
    }

    /// Appends the arguments of the slice or instant before them; with `is_end`, of the slice that ends next.
    #[expect(clippy::too_many_arguments)]
    fn args(
        &mut self,
        time: Time,
        row: Row,
        category: Category,
        is_end: bool,
        e: &TrackEvent,
        sequence: &Sequence,
        strings: &mut Strings,
    ) -> Result<(), Error> {
        for (name, value) in own_args(e, sequence, strings)? {
            // The address of a lock is part of the event itself, see `object`.
            if category.has_object() && strings.get(name) == "object" {
                continue;
            }
            let mut argument = argument(time, name, value);
            argument.b = u64::from(is_end);
            self.push(row, &argument);
        }
        Ok(())
    }

    /// Adds a value of a counter, whose track has the unit and tells whether values are differences.
    fn counter(
        &mut self,
        time: Time,
        uuid: u64,
        value: Number,
        sequence: &mut Sequence,
        tracks: &mut TrackTable,
        strings: &mut Strings,
    ) {
        let row = tracks.row(uuid, StrIx::NONE, strings);
        let Some(counter) = row.counter else {
            return;
        };
        if counter.is_thread_cost {
            self.n_thread_costs += 1;
            return;
        }
        // A difference counts from the last value of the same writer.
        let (mut whole, mut rest) = match value {
            Number::Int(v) => (v, 0.0),
            Number::Double(v) => (0, v),
        };
        if counter.is_incremental {
            let sum = sequence.sums.entry(uuid).or_default();
            *sum = (sum.0.saturating_add(whole), sum.1 + rest);
            (whole, rest) = *sum;
        }
        let whole = i128::from(whole) * i128::from(counter.multiplier);
        let value = whole as f64 + rest * counter.multiplier as f64;
        self.count(row.pid, time, row.name.unwrap_or_default(), value);
    }

    /// A kernel event that is an annotation.
    pub fn mark(
        &mut self,
        time: Time,
        event: &MarkEvent,
        sequence: &Sequence,
        strings: &mut Strings,
    ) {
        let counted = (self.kernel).add(time, event, sequence, &mut self.marks, strings);
        if let Some((pid, name, value)) = counted {
            self.value(pid, time, name, value);
        }
    }

    /// A counter's value, which may be the first or the last thing that happened.
    pub fn value(&mut self, pid: i32, time: Time, name: StrIx, value: f64) {
        self.saw(time.0);
        self.count(pid, time, name, value);
    }

    /// A counter's value.
    pub fn count(&mut self, pid: i32, time: Time, name: StrIx, value: f64) {
        let log = (self.counters.entry(pid)).or_insert_with(|| AnnotationLog::new(pid, pid));
        log.push(&event(time, ring::Kind::Counter, 0, name, value.to_bits()));
    }

    /// Adds a counter of Chrome (phase `C`): each argument is a series of its own, named `counter[id]: series`.
    fn series(
        &mut self,
        time: Time,
        pid: i32,
        name: StrIx,
        e: &TrackEvent,
        sequence: &Sequence,
        strings: &mut Strings,
    ) -> Result<(), Error> {
        let id = e.legacy.as_ref().and_then(|legacy| legacy.id);
        let id = id.map(|id| format!("[{id:#x}]")).unwrap_or_default();
        for (series, value) in own_args(e, sequence, strings)? {
            let value = match value {
                Model::Int(v) => v as f64,
                Model::Uint(v) => v as f64,
                Model::Float(v) => v,
                Model::Str(text) => strings.get(text).parse().unwrap_or(f64::NAN),
            };
            if !value.is_finite() {
                continue;
            }
            let name = series_name(strings.get(name), &id, strings.get(series));
            let name = strings.intern(&name);
            self.count(pid, time, name, value);
        }
        Ok(())
    }

    /// Adds the ends of arrows that an event has: `flow_ids` pass through, `terminating_flow_ids` end. Chrome's ids are
    /// another space, so their highest bit is flipped.
    fn flows(&mut self, time: Time, row: Row, category: Category, name: StrIx, e: &TrackEvent) {
        // Arrows do not inherit the name of a slice.
        let name = if category == Category::Arrow { name } else { StrIx::NONE };
        let end = (row.pid, row.tid);
        if !e.flows.is_empty() || !e.ending_flows.is_empty() || e.legacy.is_some() {
            // A thread that only has ends of arrows needs a stream, too.
            if !self.logs.contains_key(&end) {
                self.push(
                    row,
                    &event(time, ring::Kind::ThreadName, 0, row.name.unwrap_or_default(), 0),
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
        let bound = legacy.bind_id.map(|id| {
            let role = match legacy.direction {
                1 => Role::Arrival,
                2 => Role::Begin,
                _ => Role::Step,
            };
            (id, role)
        });
        let phased = match legacy.phase {
            b's' => legacy.id.map(|id| (id, Role::Begin)),
            b't' => legacy.id.map(|id| (id, Role::Step)),
            b'f' => legacy.id.map(|id| (id, Role::End)),
            _ => None,
        };
        for (id, role) in bound.into_iter().chain(phased) {
            self.flows.add(id ^ (1 << 63), time, end, role, StrIx::NONE);
        }
    }

    /// Adds an asynchronous event of Chrome. Begin and end are joined by category, id and the id's scope; those of the older phases
    /// (S, T, p, F) by their names, too. A local id counts in its process only. All of one category share a track.
    #[expect(clippy::too_many_arguments)]
    fn asynchronous(
        &mut self,
        time: Time,
        phase: u8,
        row: Row,
        (group, name): (StrIx, StrIx),
        e: &TrackEvent,
        sequence: &Sequence,
        strings: &mut Strings,
    ) -> Result<(), Error> {
        let is_old = matches!(phase, b'S' | b'T' | b'p' | b'F');
        if !is_old && !matches!(phase, b'b' | b'e' | b'n') {
            // An event without type and phase only carries counters or ends of arrows.
            let is_arrow = matches!(phase, 0 | b's' | b't' | b'f');
            if !is_arrow {
                *self.unread_phases.entry(phase).or_default() += 1;
            }
            return Ok(());
        }
        let Some((id, legacy)) = (e.legacy.as_ref()).and_then(|l| Some((l.id?, l))) else {
            *self.unread_phases.entry(phase).or_default() += 1;
            return Ok(());
        };
        let track = match group.is_some() {
            true => group,
            false => strings.intern("asynchronous"),
        };
        let key = hash((group, id, &*legacy.scope, is_old.then_some(name)));
        let space = if legacy.is_local { row.pid } else { 0 };
        // The first process that uses an id that is not local owns its track.
        let pid = *self.async_pid.entry((space, key)).or_insert(row.pid);
        match phase {
            b'b' | b'S' => self.asynchronous.begin(time, pid, track, key, name),
            b'e' | b'F' => self.asynchronous.end(time, pid, track, key),
            _ => self.asynchronous.instant(time, pid, track, name),
        }
        for (name, value) in own_args(e, sequence, strings)? {
            self.asynchronous.arg(name, value);
        }
        Ok(())
    }
}

/// A begin that knows its end.
fn with_end(begin: Annotation, end: i64) -> Annotation {
    // 0 is that of a begin which does not know it.
    let b = end.max(1) as u64;
    Annotation { b, ..begin }
}

/// Puts complete events, and slices of another writer (`marked`), among the begins and ends of a row.
fn nest(
    log: AnnotationLog,
    marked: &[Annotation],
    (pid, tid): (i32, i32),
    odd: &mut Oddities,
) -> AnnotationLog {
    let mut thread = Thread::default();
    // Arguments of an end come before it.
    let mut before = 0u16;
    for e in log.into_events() {
        let (what, category) = match kind_of(&e) {
            Some(known) => known,
            None if e.kind == ring::Kind::ThreadName as u8 => {
                thread.name = e.name;
                continue;
            }
            None => {
                let argument = (e.name, value_of(&e));
                match (e.b, thread.rows.last_mut()) {
                    (0, Some(row)) => {
                        row.args.1 = row.args.1.saturating_add(1);
                    }
                    _ => before = before.saturating_add(1),
                }
                thread.args.push(argument);
                continue;
            }
        };
        let first = thread.args.len() - usize::from(before);
        thread.rows.push(Nested {
            time: e.time.0,
            what,
            category,
            name: e.name,
            object: e.a,
            args: (first as u32, std::mem::take(&mut before)),
        });
    }
    thread.add_slices(marked, odd);
    thread.into_log(pid, tid, odd)
}

/// What an annotation of [`Category::begin`] or [`Category::end`] says.
fn kind_of(e: &Annotation) -> Option<(What, Category)> {
    use ring::Kind;
    let wait = || WaitKind::from_number(e.aux).map(Category::Wait);
    let begin = match e.b {
        0 => What::Begin,
        end => What::Complete(end as i64),
    };
    Some(match Kind::from_number(e.kind)? {
        Kind::Begin => (begin, Category::Work),
        Kind::End => (What::End, Category::Work),
        Kind::WaitBegin => (begin, wait()?),
        Kind::WaitEnd => (What::End, wait()?),
        Kind::LockRequest => (begin, Category::LockWait),
        Kind::LockGivenUp => (What::End, Category::LockWait),
        Kind::LockAcquired if e.b != 0 => (begin, Category::LockHold),
        Kind::LockAcquired => (What::HoldBegin, Category::LockHold),
        Kind::LockReleased => (What::HoldEnd, Category::LockHold),
        Kind::Instant | Kind::Message => (What::Instant, Category::Work),
        _ => return None,
    })
}

/// The value of an argument.
fn value_of(e: &Annotation) -> Model {
    match ArgType::from_number(e.aux) {
        Some(ArgType::I64) => Model::Int(e.a as i64),
        Some(ArgType::F64) => Model::Float(f64::from_bits(e.a)),
        Some(ArgType::Str) => Model::Str(StrIx(e.a as u32)),
        _ => Model::Uint(e.a),
    }
}

/// The track of an event, and its row. A thread without a track gets a track number of its own.
fn row(
    e: &TrackEvent,
    name: StrIx,
    sequence: &Sequence,
    tracks: &mut TrackTable,
    strings: &mut Strings,
) -> (u64, Row) {
    let thread = |pid, tid| {
        let row =
            Row { pid, tid, name: None, thread: Some((pid, tid)), counter: None, is_state: false };
        // Random ids of real tracks do not collide with this pattern, except by chance.
        let uuid = 0x7468_7264_0000_0000 ^ ((pid as u64) << 40) ^ u64::from(tid as u32);
        (uuid, row)
    };
    if let Some((Some(pid), Some(tid))) = e.legacy.as_ref().map(|l| (l.pid, l.tid))
        && tid > 0
    {
        return thread(pid, tid);
    }
    // Converted events say 0 where they mean the writer's thread.
    let own = e.track.filter(|&uuid| uuid != 0 || e.legacy.is_none());
    match (own.or(sequence.track), sequence.thread) {
        (None, Some((pid, tid))) => thread(pid, tid),
        (uuid, _) => {
            let uuid = uuid.unwrap_or(0);
            (uuid, tracks.row(uuid, name, strings))
        }
    }
}

/// The arguments of an event.
fn own_args(
    e: &TrackEvent,
    sequence: &Sequence,
    strings: &mut Strings,
) -> Result<Vec<(StrIx, Model)>, Error> {
    let (Some(message), true) = (e.message, e.has_args) else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    {
        let names = arg_names(sequence, strings);
        let mut each = |name: &str, iid, value: ArgValue<'_>| {
            found.push((name.to_owned(), iid, owned(value)));
        };
        each_arg(message, &names, &mut each)?;
    }
    let found = found.into_iter().filter_map(|(name, iid, value)| {
        let name = match &*name {
            "" => sequence.arg_names.get(&iid).copied().unwrap_or_default(),
            text => strings.intern(text),
        };
        let value = match value {
            Owned::Number(value) => value,
            Owned::Text(text) => Model::Str(strings.intern(&text)),
            Owned::TextIid(iid) => Model::Str(*sequence.arg_texts.get(&iid)?),
        };
        Some((name, value))
    });
    Ok(found.collect())
}

/// An owned value of an argument, which outlives the lookup of names: that one borrows the strings.
enum Owned {
    Number(Model),
    Text(String),
    TextIid(u64),
}

fn owned(value: ArgValue<'_>) -> Owned {
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
fn object(
    category: Category,
    e: &TrackEvent,
    sequence: &Sequence,
    strings: &Strings,
) -> Result<u64, Error> {
    let (Some(message), true) = (e.message, category.has_object()) else {
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
