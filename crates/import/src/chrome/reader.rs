//! Sorts events, one after the other, into threads, tracks, counters and arrows.
//!
//! [`Reader::event`] dispatches on the phase. Slices and instants become rows of a [`Thread`]; counters go to one
//! [`AnnotationLog`] per process; asynchronous slices go to [`Tracks`]; ends of arrows go to [`FlowEnds`]. [`Reader::finish`]
//! turns all of them into streams.
//!
//! Kasuri's own export is recognized by its process 0 named `CPUs`. Its rows of CPUs and thread states are derived data
//! and are not read back, but the scheduler's events that they come from are ([`own`]); its categories restore waits and critical sections ([`Category`]), and its losses are kept.
use super::event::{Event, Value, each_arg, integer, nanoseconds, quoted_words, text};
use super::ids::Ids;
use super::own::{self, Named};
use crate::annotation_log::{AnnotationLog, Carriers};
use crate::category::{Category, event, series_name};
use crate::flow_ends::{FlowEnds, Role};
use crate::nesting::{Oddities, Row, Thread, What};
use crate::tracks::{Tracks, hash};
use crate::{Clock, Kind, Opened};
use kasuri_format::{Error, ring};
use kasuri_model::input::AnnotationEvents;
use kasuri_model::{ArgValue, Loss, StrIx, Strings, ThreadIx, Time, Trace};
use serde_json::value::RawValue;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// Rows of thread states in Kasuri's own export have the thread's id plus this.
const STATE_ROW: i32 = 1 << 23;

/// The counters of each process.
type Counters = BTreeMap<i32, AnnotationLog>;

/// The events read so far.
pub(super) struct Reader<'s> {
    strings: &'s mut Strings,
    ids: Ids,
    threads: BTreeMap<(i32, i32), Thread>,
    process_names: HashMap<i32, StrIx>,
    counters: Counters,
    tracks: Tracks,
    flows: FlowEnds,
    /// Objects of open critical sections of Kasuri's own export, by process and id.
    holds: HashMap<(i32, u64), u64>,
    categories: HashMap<String, Category>,
    span: Option<Range<i64>>,
    /// Number of events that are not read, by phase.
    unread: BTreeMap<String, u64>,
    /// Events that are no JSON, or whose members have other types than they must.
    broken: Faulty,
    /// Events whose time is none.
    timeless: Faulty,
    /// Complete events whose duration is below 0 or no number.
    wrong_durations: Faulty,
    /// Causes of losses that have no time of their own: damage, and buffers that overflowed.
    losses: Vec<String>,
    /// The file is Kasuri's own export.
    is_own: bool,
    n_own_rows: u64,
    /// Losses that the export lists, on the file's clock.
    own_losses: Vec<(Loss, Range<i64>)>,
    /// Threads that the export knows since a time.
    own_threads: Vec<Named>,
    /// `systemTraceEvents` of the outermost object: a text of JSON.
    kernel_text: Option<Vec<u8>>,
    missing: Vec<String>,
    /// `otherData` of the outermost object: facts about the recording.
    other: Option<serde_json::Value>,
}

/// Events with one fault: how many, and the first.
#[derive(Debug, Default)]
struct Faulty {
    n: u64,
    /// Where the first begins in the file, and its wrong member.
    first: (u64, String),
}

impl Faulty {
    /// Counts the event at `offset`, whose member `name` is wrong.
    fn add(&mut self, offset: u64, name: &str, value: Option<&RawValue>) {
        self.count(offset, || match value {
            Some(value) => format!("{name} {}", shown(value.get())),
            None => format!("no {name}"),
        });
    }

    /// Counts the event at `offset`, about which there is this to say.
    fn count(&mut self, offset: u64, what: impl FnOnce() -> String) {
        if self.n == 0 {
            self.first = (offset, what());
        }
        self.n += 1;
    }

    /// What is to be said about them; none: there are none.
    fn told(&self, what: &str) -> Option<String> {
        let (at, shown) = &self.first;
        (self.n > 0).then(|| format!("{} {what}: the first, at byte {at}, has {shown}", self.n))
    }
}

/// Characters of a wrong value in a message.
const SHOWN: usize = 80;

/// As much of a text as a message shows.
fn shown(text: &str) -> &str {
    let end = text.char_indices().nth(SHOWN);
    end.map_or(text, |(at, _)| &text[..at])
}

/// The members that most phases need.
struct Head {
    time: i64,
    pid: i32,
    tid: i32,
    name: StrIx,
    category: Category,
}

impl<'s> Reader<'s> {
    pub fn new(strings: &'s mut Strings) -> Reader<'s> {
        Reader {
            strings,
            ids: Ids::default(),
            threads: BTreeMap::new(),
            process_names: HashMap::new(),
            counters: BTreeMap::new(),
            tracks: Tracks::default(),
            flows: FlowEnds::default(),
            holds: HashMap::new(),
            categories: HashMap::new(),
            span: None,
            unread: BTreeMap::new(),
            broken: Faulty::default(),
            timeless: Faulty::default(),
            wrong_durations: Faulty::default(),
            losses: Vec::new(),
            is_own: false,
            n_own_rows: 0,
            own_losses: Vec::new(),
            own_threads: Vec::new(),
            kernel_text: None,
            missing: Vec::new(),
            other: None,
        }
    }

    /// Notes damage as a loss. A file of noise must not fill the memory, so the list is limited.
    pub fn damage(&mut self, error: Error) {
        if self.losses.len() < 1000 {
            self.losses.push(format!("file damaged at byte {}", error.offset));
        }
    }

    /// Takes in a member of the outermost object.
    pub fn member(&mut self, name: &[u8], value: &[u8]) {
        match name {
            b"\"otherData\"" if value.len() < 1 << 26 => {
                self.other = serde_json::from_slice(value).ok();
            }
            b"\"systemTraceEvents\"" if value.len() > 2 => {
                // Of other programs' files it is only said that it is there.
                let is_read = self.is_own;
                self.kernel_text = Some(if is_read { value.to_vec() } else { Vec::new() });
            }
            _ => {}
        }
    }

    /// Takes in one event, whose object begins at `offset`. One that is no JSON, or has no time, is left out and counted: what the
    /// other events say does not depend on it.
    pub fn event(&mut self, bytes: &[u8], offset: u64) {
        let error = match serde_json::from_slice(bytes) {
            Ok(event) => return self.parsed(&event, offset),
            Err(error) => error,
        };
        if let Some(quoted) = quoted_words(bytes)
            && let Ok(event) = serde_json::from_slice(&quoted)
        {
            return self.parsed(&event, offset);
        }
        let lines = bytes.split_inclusive(|&b| b == b'\n').take(error.line().saturating_sub(1));
        let at = lines.map(<[u8]>::len).sum::<usize>() + error.column().saturating_sub(1);
        // Its position is in lines and columns of the event; the byte in the file is said instead.
        let why = error.to_string();
        let why = why.split(" at line ").next().unwrap_or(&why);
        self.broken.count(offset + at as u64, || shown(why).to_owned());
    }

    /// Takes in an event, whose object begins at `offset`.
    fn parsed(&mut self, e: &Event, offset: u64) {
        // Metadata has no time, and may come after the events that it names.
        let phase = text(e.ph);
        if phase == "M" {
            self.metadata(e);
            return;
        }
        let Some(time) = nanoseconds(&text(e.ts)) else {
            self.timeless.add(offset, "ts", e.ts);
            return;
        };
        let pid = self.ids.pid(e.pid, self.strings, &mut self.process_names);
        if self.is_own && self.own_row(pid, time, e) {
            return;
        }
        let tid = self.tid(pid, e.tid);
        let head = Head {
            time,
            pid,
            tid,
            name: self.strings.intern(&text(e.name)),
            category: self.category(&text(e.cat)),
        };
        self.saw(time);
        match &*phase {
            "B" => self.row(&head, What::Begin, e),
            "E" => self.row(&head, What::End, e),
            "X" => {
                let duration = e.dur.map_or(Some(0), |dur| nanoseconds(&text(Some(dur))));
                let duration = duration.filter(|&ns| ns >= 0).unwrap_or_else(|| {
                    self.wrong_durations.add(offset, "dur", e.dur);
                    0
                });
                let end = time.saturating_add(duration);
                self.saw(end);
                self.row(&head, What::Complete(end), e);
            }
            "i" | "I" | "R" | "P" => self.row(&head, What::Instant, e),
            "C" => self.counter(&head, e),
            "b" | "e" | "n" | "S" | "F" | "T" | "p" => self.asynchronous(&head, &phase, e),
            "s" | "t" | "f" => self.flow(&head, &phase, e),
            _ => *self.unread.entry(phase.into_owned()).or_default() += 1,
        }
        self.bound_flow(&head, e);
    }

    /// Takes in a row that Kasuri's own export draws beside the program's events: threads on CPUs, states, losses.
    /// False: it is none of these.
    fn own_row(&mut self, pid: i32, time: i64, e: &Event) -> bool {
        let category = text(e.cat);
        if category == "lost events" {
            let (mut count, mut remedy) = (0, String::new());
            each_arg(e.args, &mut |name, value| match (name, value) {
                ("count", value) => count = address(&value),
                ("remedy", Value::Text(text)) => remedy = text.into_owned(),
                _ => {}
            });
            let end = time.saturating_add(nanoseconds(&text(e.dur)).unwrap_or(0));
            let name = text(e.name);
            let cause = name.strip_prefix("lost events: ").unwrap_or(&name);
            let loss = Loss {
                cause: cause.to_owned(),
                cpu: integer(&text(e.tid))
                    .filter(|_| pid == 0)
                    .and_then(|cpu| u16::try_from(cpu).ok()),
                thread: ThreadIx::NONE,
                when: Time(0)..Time(0),
                count,
                remedy,
            };
            self.own_losses.push((loss, time..end));
            return true;
        }
        let is_own = pid == 0 || category == "state";
        self.n_own_rows += u64::from(is_own);
        is_own
    }

    /// Widens the span to `time`.
    fn saw(&mut self, time: i64) {
        let span = self.span.get_or_insert(time..time);
        (span.start, span.end) = (span.start.min(time), span.end.max(time));
    }

    /// The category with this name. The cache is limited: a file may have a new name in each event.
    fn category(&mut self, name: &str) -> Category {
        // Chrome joins several categories with commas; those that Kasuri knows stand alone.
        if let Some(&category) = self.categories.get(name) {
            return category;
        }
        let category = Category::of(name);
        if self.categories.len() < 10_000 {
            self.categories.insert(name.to_owned(), category);
        }
        category
    }

    /// The thread id; a new foreign one gets a name.
    fn tid(&mut self, pid: i32, raw: Option<&RawValue>) -> i32 {
        let (tid, name) = self.ids.tid(pid, raw);
        if let Some(name) = name {
            let name = self.strings.intern(&name);
            self.threads.entry((pid, tid)).or_default().name = name;
        }
        tid
    }

    /// Adds an event to a thread, with its arguments.
    fn row(&mut self, head: &Head, what: What, e: &Event) {
        // Kasuri's export draws the ends of arrows as instants, too; the arrows suffice.
        if what == What::Instant && head.category == Category::Arrow {
            return;
        }
        let thread = self.threads.entry((head.pid, head.tid)).or_default();
        let (first, mut object) = (thread.args.len(), 0);
        let strings = &mut *self.strings;
        each_arg(e.args, &mut |name, value| {
            if name == "object" && head.category.has_object() {
                object = address(&value);
                return;
            }
            thread.args.push((strings.intern(name), own_value(value, strings)));
        });
        // An end need not repeat the name.
        let name = match e.name {
            None => StrIx::NONE,
            Some(_) => head.name,
        };
        thread.rows.push(Row {
            time: head.time,
            what,
            category: head.category,
            name,
            object,
            args: (first as u32, (thread.args.len() - first) as u16),
        });
    }

    /// Adds the values of a counter. Each argument is a series of its own, named `counter[id]: series`; a series
    /// `value`, or with the counter's name, has no suffix.
    fn counter(&mut self, head: &Head, e: &Event) {
        let mut values: Vec<(String, f64)> = Vec::new();
        each_arg(e.args, &mut |series, value| {
            let value = match value {
                Value::Int(v) => v as f64,
                Value::Uint(v) => v as f64,
                Value::Float(v) => v,
                Value::Text(v) => v.parse().unwrap_or(f64::NAN),
            };
            if !value.is_finite() {
                return;
            }
            values.push((series.to_owned(), value));
        });
        let own = text(e.name);
        let id = e.id.map(|id| format!("[{}]", text(Some(id)))).unwrap_or_default();
        let log = (self.counters.entry(head.pid))
            .or_insert_with(|| AnnotationLog::new(head.pid, head.pid));
        for (series, value) in values {
            let name = self.strings.intern(&series_name(own.as_ref(), &id, &series));
            log.push(&event(Time(head.time), ring::Kind::Counter, 0, name, value.to_bits()));
        }
    }

    /// Adds an asynchronous event. Begin and end are joined by category and id, in a process unless the id is global.
    fn asynchronous(&mut self, head: &Head, phase: &str, e: &Event) {
        let (id, is_global) = ids(e);
        if head.category == Category::LockHold {
            return self.hold(head, phase, id, e);
        }
        let category = text(e.cat);
        let track = match &*category {
            "" => "asynchronous",
            category => category,
        };
        let track = self.strings.intern(track);
        // The older phases (S, T, p, F) are joined by their names, too.
        let is_old = phase.starts_with(|c: char| c.is_ascii_uppercase() || c == 'p');
        let key = hash((id, text(e.scope), is_old.then_some(head.name)));
        let pid = if is_global { 0 } else { head.pid };
        // The first process that uses a global id owns its track.
        let pid = *self.ids.async_pid.entry((pid, key)).or_insert(head.pid);
        let time = Time(head.time);
        match phase {
            "b" | "S" => self.tracks.begin(time, pid, track, key, head.name),
            "e" | "F" => self.tracks.end(time, pid, track, key),
            _ => self.tracks.instant(time, pid, track, head.name),
        }
        let (tracks, strings) = (&mut self.tracks, &mut *self.strings);
        each_arg(e.args, &mut |name, value| {
            tracks.arg(strings.intern(name), own_value(value, strings));
        });
    }

    /// Adds the begin or the end of a critical section of Kasuri's own export. Only the begin has the lock's address.
    fn hold(&mut self, head: &Head, phase: &str, id: u64, e: &Event) {
        let mut object = 0;
        each_arg(e.args, &mut |name, value| {
            if name == "object" {
                object = address(&value);
            }
        });
        let what = if phase == "b" {
            self.holds.insert((head.pid, id), object);
            What::HoldBegin
        } else {
            object = self.holds.remove(&(head.pid, id)).unwrap_or_default();
            What::HoldEnd
        };
        let thread = self.threads.entry((head.pid, head.tid)).or_default();
        thread.rows.push(Row {
            time: head.time,
            what,
            category: Category::LockHold,
            name: head.name,
            object,
            args: (0, 0),
        });
    }

    /// Adds an end of an arrow. Its id is unique together with the category and the name.
    fn flow(&mut self, head: &Head, phase: &str, e: &Event) {
        // The format joins arrows by id, category and name; the three become one number.
        let (id, is_global) = ids(e);
        let scope = (text(e.cat), text(e.name), (!is_global).then_some(head.pid));
        // Arrows may cross processes: an id counts for the whole trace, unless `id2` makes it local.
        let scope = if e.id2.is_some() { scope } else { (scope.0, scope.1, None) };
        let role = match phase {
            "s" => Role::Begin,
            "t" => Role::Step,
            _ => Role::End,
        };
        self.flow_end(head, hash((id, scope)), role, head.name);
    }

    /// Adds an end of an arrow at an event's thread and time.
    fn flow_end(&mut self, head: &Head, id: u64, role: Role, name: StrIx) {
        let end = (head.pid, head.tid);
        let thread = self.threads.entry(end).or_default();
        // A thread with nothing but ends of arrows needs a stream, which begins here.
        let first = thread.first_arrow.get_or_insert(head.time);
        *first = head.time.min(*first);
        self.flows.add(id, Time(head.time), end, role, name);
    }

    /// Adds the end of an arrow that a slice or instant has as a member (`bind_id`, `flow_in`, `flow_out`).
    fn bound_flow(&mut self, head: &Head, e: &Event) {
        let Some(id) = e.bind_id else {
            return;
        };
        let role = match (e.flow_in, e.flow_out) {
            (true, true) => Role::Step,
            (true, false) => Role::Arrival,
            (false, true) => Role::Begin,
            (false, false) => return,
        };
        // An id space of its own, apart from that of `s`, `t` and `f`.
        let id = hash(("bind_id", text(Some(id))));
        self.flow_end(head, id, role, StrIx::NONE);
    }

    /// Takes in an event of phase `M`: names of processes and threads, overflow of the writer's buffer.
    fn metadata(&mut self, e: &Event) {
        let pid = self.ids.pid(e.pid, self.strings, &mut self.process_names);
        let mut named = None;
        let mut overflowed = false;
        each_arg(e.args, &mut |name, value| match (name, value) {
            ("name", Value::Text(text)) => named = Some(text.into_owned()),
            ("overflowed_at_ts", _) => overflowed = true,
            _ => {}
        });
        match (&*text(e.name), named) {
            ("process_name", Some(name)) if pid == 0 && name == "CPUs" => self.is_own = true,
            ("process_name", Some(name)) if !name.is_empty() => {
                let name = self.strings.intern(&name);
                self.process_names.insert(pid, name);
            }
            ("thread_name", Some(name)) if !name.is_empty() => {
                let tid = self.tid(pid, e.tid);
                if self.is_own
                    && let Some(since) = nanoseconds(&text(e.ts))
                {
                    self.own_threads.push((since, pid, tid, name.clone()));
                }
                let name = self.strings.intern(&name);
                if !self.is_own || (pid, tid) != (0, 0) && tid < STATE_ROW {
                    self.threads.entry((pid, tid)).or_default().name = name;
                }
            }
            ("trace_buffer_overflowed", _) if overflowed => {
                self.losses.push("trace buffer overflowed".into());
            }
            _ => {}
        }
    }

    /// Makes the streams. No event may follow.
    pub fn finish<'a>(mut self) -> Opened<'a> {
        let mut opened = Opened::new(Kind::ChromeJson, Clock::Other);
        let mut odd = Oddities::default();
        let mut carriers = Carriers::new([].into_iter());
        for ((pid, tid), thread) in std::mem::take(&mut self.threads) {
            let log = thread.into_log(pid, tid, &mut odd);
            if !log.is_empty() {
                carriers.add(pid, tid, log.first_time());
                opened.streams.push(Box::new(log));
            }
        }
        for (pid, mut log) in std::mem::take(&mut self.counters) {
            log.set_tid(carriers.of(pid));
            log.seal();
            opened.streams.push(Box::new(log));
        }
        for stream in std::mem::take(&mut self.tracks).streams(self.strings) {
            opened.streams.push(Box::new(stream));
        }
        // The model lets a thread begin with the first event of its first stream.
        opened.streams.sort_by_key(|stream| stream.first_time());
        let span = self.span.clone().unwrap_or(0..0);
        opened.setup.span = Time(span.start)..Time(span.end);
        self.facts(&mut opened, &odd);
        let n_kernel_events = opened.info.event_costs.iter().map(|kind| kind.n).sum();
        let (names, flows, losses) = (self.process_names, self.flows, self.losses);
        let own_losses = self.own_losses;
        opened.finish = Box::new(move |trace| {
            name_processes(trace, &names);
            flows.publish(trace);
            let whole = trace.span.clone();
            let origin = trace.origin_monotonic_ns;
            let at = |ns: i64| Time(ns.saturating_sub(origin));
            let own = own_losses
                .into_iter()
                .map(|(loss, when)| Loss { when: at(when.start)..at(when.end), ..loss });
            trace.losses.extend(own);
            if n_kernel_events > 0 {
                trace.n_kernel_events = n_kernel_events;
            }
            trace.losses.extend(losses.into_iter().map(|cause| Loss {
                cause,
                cpu: None,
                thread: ThreadIx::NONE,
                when: whole.clone(),
                count: 0,
                remedy: String::new(),
            }));
        });
        opened
    }

    /// Adds facts for people, from `otherData`. Kasuri's own export has the host, the clock and the span there.
    fn facts(&mut self, opened: &mut Opened, odd: &Oddities) {
        let info = &mut opened.info;
        info.kernel_source = "none".into();
        info.missing = std::mem::take(&mut self.missing);
        info.missing.extend(odd.told());
        (info.missing).extend((self.broken).told("events are not understood and are left out"));
        info.missing.extend(
            (self.timeless).told("events have no time in microseconds (ts) and are left out"),
        );
        info.missing.extend((self.wrong_durations).told(
            "complete events have no duration of 0 or more (dur) and are drawn as points in time",
        ));
        if !self.unread.is_empty() {
            let list: Vec<String> =
                (self.unread.iter()).map(|(ph, n)| format!("{n} of phase {ph}")).collect();
            info.missing.push(format!("events that are not read: {}", list.join(", ")));
        }
        let other = self.other.take().unwrap_or_default();
        let kernel_text = self.kernel_text.take();
        if self.n_own_rows > 0 && kernel_text.is_none() {
            info.missing.push(
                "this export of Kasuri holds no scheduler events: its rows of CPUs and thread states are not read back; \
                 the recording itself, or its Perfetto export, holds them"
                    .into(),
            );
        }
        let text = |key: &str| other[key].as_str().unwrap_or_default().to_owned();
        info.recorder = text("recorder");
        // What was recorded by another tool may have been exported by Kasuri.
        let is_own = self.is_own && other["start_monotonic_ns"].is_i64();
        if !is_own && !info.recorder.starts_with("kasuri") {
            if kernel_text.is_some() {
                info.missing.push(
                    "kernel events that are embedded as text (systemTraceEvents) are not read"
                        .into(),
                );
            }
            return;
        }
        // From here on, it is Kasuri's own export.
        (info.host, info.kernel, info.machine) = (text("host"), text("kernel"), text("machine"));
        info.cpu_model = text("cpu_model");
        let words = other["command"].as_array().into_iter().flatten();
        info.command = words.filter_map(|w| w.as_str()).map(str::to_owned).collect();
        opened.clock = Clock::Monotonic;
        opened.realtime_offset_ns = other["realtime_minus_monotonic_ns"].as_i64();
        let at = |key: &str| other[key].as_i64();
        if let (Some(start), Some(end)) = (at("start_monotonic_ns"), at("end_monotonic_ns")) {
            let seen = self.span.clone().unwrap_or(start..end);
            opened.setup.span = Time(start.min(seen.start))..Time(end.max(seen.end));
        }
        let added = kernel_text.map(|text| {
            let (about, threads) = (&other["kernel_events"], &self.own_threads);
            own::add(opened, &text, about, threads, self.strings)
        });
        match added {
            Some(Ok(())) => {}
            Some(Err(why)) => (opened.info.missing)
                .push(format!("the scheduler's events of this export are not read: {why}")),
            None => {}
        }
    }
}

/// Names the processes of the finished trace.
fn name_processes(trace: &mut Trace, names: &HashMap<i32, StrIx>) {
    for process in &mut trace.processes {
        if let Some(&name) = names.get(&process.pid) {
            process.name = name;
        }
    }
}

/// An argument's value with its text among the strings.
fn own_value(value: Value, strings: &mut Strings) -> ArgValue {
    match value {
        Value::Int(v) => ArgValue::Int(v),
        Value::Uint(v) => ArgValue::Uint(v),
        Value::Float(v) => ArgValue::Float(v),
        Value::Text(v) => ArgValue::Str(strings.intern(&v)),
    }
}

/// An argument as an address or a count; 0: it is none.
fn address(value: &Value) -> u64 {
    match value {
        Value::Int(v) => *v as u64,
        Value::Uint(v) => *v,
        Value::Text(v) => integer(v).unwrap_or(0),
        Value::Float(_) => 0,
    }
}

/// An event's id, and whether it counts for the whole trace (`id2.global`).
fn ids(e: &Event) -> (u64, bool) {
    if let Some(id) = e.id {
        return (id_number(&text(Some(id))), false);
    }
    let (mut number, mut is_global) = (0, false);
    each_arg(e.id2, &mut |name, value| {
        is_global = name == "global";
        number = match value {
            Value::Text(text) => id_number(&text),
            value => address(&value),
        };
    });
    (number, is_global)
}

/// The id as a number; a text is hashed.
fn id_number(text: &str) -> u64 {
    integer(text).unwrap_or_else(|| hash(text))
}
