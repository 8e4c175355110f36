//! Turns user-space events into annotations of their threads.
//!
//! A stream holds the events of all threads that ran on one CPU, while the passes want those of one thread. So all
//! events are read once, and each thread's are kept packed in a [`AnnotationLog`].
//!
//! The contexts `vtid` and `vpid` name the thread. Without them an event belongs to its stream, which becomes a track.
//! The stream of a CPU gets no slices then, because begins and ends of several threads would mix.
//!
//! For each event: [`uses`] has assigned a [`Use`] to each field beforehand; [`Current::value`] collects the fields of
//! one event; [`Thread::add`] appends the annotation that its [`Meaning`] asks for, and its arguments.
use super::channel::{Channel, Next};
use super::kernel::{intern, trim};
use super::pairs::{LockStep, Meaning, Named, meanings};
use crate::annotation_log::AnnotationLog;
use kasuri_base::annotation::{ArgType, Kind};
use kasuri_format::ctf::{Layout, Leaf, LeafKind, Program, Value, types::Scope};
use kasuri_model::input::{Annotation, AnnotationEvents, KnownThread};
use kasuri_model::{StrIx, Strings, Time};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::rc::Rc;

/// Length of an array argument's text beyond which elements are dropped.
const MAX_ARRAY: usize = 1024;

/// The use of a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Use {
    /// The thread's id.
    Tid,
    /// The process's id.
    Pid,
    /// The thread's name.
    Name,
    /// An argument of this name.
    Arg(StrIx),
    /// An element of an argument.
    Element(StrIx),
    /// The length of a sequence, which LTTng stores as a field of its own. The sequence's text shows it.
    Hidden,
}

/// How to read one type of event.
#[derive(Debug)]
struct Plan {
    named: Named,
    /// The use of each leaf field.
    uses: Vec<Use>,
}

/// An owned value, which outlives the packet.
#[derive(Clone, Debug)]
enum Held {
    Int(i64),
    Uint(u64),
    Float(f64),
    Text(StrIx),
}

impl Held {
    /// The type and payload of an argument.
    fn words(&self) -> (ArgType, u64) {
        match self {
            Held::Int(n) => (ArgType::I64, *n as u64),
            Held::Uint(n) => (ArgType::U64, *n),
            Held::Float(x) => (ArgType::F64, x.to_bits()),
            Held::Text(text) => (ArgType::Str, u64::from(text.0)),
        }
    }
}

/// The fields of the event that is being read. One instance is reused for all events of a stream.
#[derive(Default)]
struct Current {
    tid: Option<i64>,
    pid: Option<i64>,
    name: StrIx,
    args: Vec<(StrIx, Held)>,
    /// Array arguments, and their texts so far: `[1, 2`.
    arrays: Vec<(StrIx, String)>,
    /// The number that the meaning needs: the address of a lock or function.
    first: u64,
    status: Option<i64>,
    text: StrIx,
    /// The value of a counter or argument of Kasuri's export.
    value: Option<Held>,
}

/// A thread's annotations so far.
struct Thread {
    log: AnnotationLog,
    /// Its name, as of the last event.
    name: StrIx,
}

/// The threads of all user-space traces of a directory.
#[derive(Default)]
pub(super) struct User {
    threads: HashMap<(i32, i32), Thread>,
    pub known: Vec<KnownThread>,
    /// Names of processes that have a trace of their own.
    pub processes: Vec<(i32, StrIx)>,
    /// First and last stamp, ns.
    pub extent: Option<(i64, i64)>,
    /// Number of events without a thread.
    pub without_thread: u64,
    /// The last thread id that a track of each process got.
    tracks: HashMap<i32, i32>,
}

/// The use of a field. Contexts have a lower scope than the payload, so that a field `vtid` that the program declared stays
/// an argument.
fn uses(program: &Program, leaf: &Leaf, strings: &mut Strings) -> Use {
    let is_context = leaf.scope < Scope::Payload;
    match leaf.name.as_str() {
        "vtid" if is_context => Use::Tid,
        "vpid" if is_context => Use::Pid,
        // barectf and other tracers without namespaces.
        "tid" if is_context => Use::Tid,
        "pid" if is_context => Use::Pid,
        "procname" if is_context => Use::Name,
        name => {
            let hidden = name.strip_prefix('_').and_then(|n| n.strip_suffix("_length"));
            if hidden.is_some_and(|base| program.leaf(base).is_some()) {
                return Use::Hidden;
            }
            let name = strings.intern(name);
            if leaf.repeated { Use::Element(name) } else { Use::Arg(name) }
        }
    }
}

impl User {
    /// Reads all events of a trace.
    ///
    /// # Errors
    /// Damage, unless the channels salvage.
    pub fn read(
        &mut self,
        layout: &Rc<Layout>,
        trace_name: &str,
        channels: Vec<Channel<'_>>,
        strings: &mut Strings,
    ) -> Result<(), kasuri_format::Error> {
        let mut named = meanings(layout, strings).into_iter();
        let mut plans: Vec<Vec<Plan>> = Vec::new();
        for stream in &layout.streams {
            let mut meanings = named.next().unwrap_or_default().into_iter();
            let mut of_stream = Vec::new();
            for event in &stream.events {
                let leaves = event.program.leaves.iter();
                let none =
                    Named { meaning: Meaning::Instant, name: StrIx::NONE, plain: StrIx::NONE };
                of_stream.push(Plan {
                    named: meanings.next().unwrap_or(none),
                    uses: leaves.map(|leaf| uses(&event.program, leaf, strings)).collect(),
                });
            }
            plans.push(of_stream);
        }
        let of_process = layout.metadata.env_int("vpid").and_then(|pid| i32::try_from(pid).ok());
        // With buffers per process, the trace itself has the process's name.
        if let (Some(pid), Some(name)) = (of_process, layout.metadata.env_text("procname")) {
            self.processes.push((pid, strings.intern(name)));
        }
        for channel in channels {
            let track = self.track_of(of_process.unwrap_or(0), trace_name, &channel);
            self.read_channel(layout, channel, &plans, (of_process, track), strings)?;
        }
        Ok(())
    }

    /// The track for a stream's events that belong to no thread: a negative thread id.
    fn track_of(&mut self, pid: i32, trace_name: &str, channel: &Channel<'_>) -> Track {
        let next = self.tracks.entry(pid).or_default();
        *next -= 1;
        let stream = match channel.cpu {
            Some(cpu) => format!("CPU {cpu}"),
            None => channel.file_name().to_owned(),
        };
        Track {
            pid,
            tid: *next,
            name: match trace_name {
                "" => stream,
                trace => format!("{trace} {stream}"),
            },
        }
    }

    /// Reads all events of a stream file. `process` is the owner of the buffers, if they belong to one; `track` takes
    /// events without a thread.
    fn read_channel(
        &mut self,
        layout: &Rc<Layout>,
        mut channel: Channel<'_>,
        plans: &[Vec<Plan>],
        (process, track): (Option<i32>, Track),
        strings: &mut Strings,
    ) -> Result<(), kasuri_format::Error> {
        let mut current = Current::default();
        while let Some(next) = channel.next()? {
            let Next::Event(time, head) = next else {
                continue;
            };
            let plan = &plans[channel.stream][head.class as usize];
            let leaves = &layout.streams[channel.stream].events[head.class as usize].program.leaves;
            current.args.clear();
            current.arrays.clear();
            (current.tid, current.pid, current.status) = (None, None, None);
            (current.name, current.text) = (StrIx::NONE, StrIx::NONE);
            (current.first, current.value) = (0, None);
            let read = channel.body(head, |leaf, value| {
                current.value(leaf, value, plan, &leaves[leaf as usize], strings);
            });
            if let Err(error) = read {
                channel.damaged(error)?;
                continue;
            }
            current.end_arrays(strings);
            self.extent = Some(match self.extent {
                Some((first, last)) => (first.min(time), last.max(time)),
                None => (time, time),
            });
            // A stream that belongs to no CPU has one writer, so its pairs are slices.
            let one_writer = channel.cpu.is_none();
            self.add(time, plan, &current, (process, &track), one_writer, strings);
        }
        Ok(())
    }

    /// Adds an event to its thread, or to a track where the event does not say which thread that is. `one_writer`: the
    /// events of the stream are one after the other in the program, too.
    fn add(
        &mut self,
        time: i64,
        plan: &Plan,
        current: &Current,
        (process, track): (Option<i32>, &Track),
        one_writer: bool,
        strings: &mut Strings,
    ) {
        let number = |id: Option<i64>| id.and_then(|id| i32::try_from(id).ok());
        let tid = number(current.tid).filter(|&tid| tid != 0);
        let pid = number(current.pid).or(process);
        if let Some(tid) = tid {
            // A thread of an unknown process counts as a process of its own.
            let thread = self.thread(pid.unwrap_or(tid), tid, time, current, strings);
            return thread.add(time, plan.named, current, true, strings);
        }
        self.without_thread += 1;
        match pid.filter(|_| current.pid.is_some()) {
            Some(pid) => {
                let track = Track { pid, ..track.clone() };
                let thread = self.on_track(&track, time, strings);
                thread.add(time, plan.named, current, false, strings);
            }
            None => {
                let thread = self.on_track(track, time, strings);
                thread.add(time, plan.named, current, one_writer, strings);
            }
        }
    }

    /// The thread with these ids. Its first known name makes it known to the passes.
    fn thread(
        &mut self,
        pid: i32,
        tid: i32,
        time: i64,
        current: &Current,
        strings: &Strings,
    ) -> &mut Thread {
        let thread = match self.threads.entry((pid, tid)) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(Thread::new(pid, tid)),
        };
        if current.name.is_some() && thread.name != current.name {
            if !thread.name.is_some() {
                self.known.push(KnownThread {
                    time: Time(time),
                    pid,
                    tid,
                    ppid: 0,
                    comm: strings.get(current.name).to_owned(),
                });
            }
            thread.name = current.name;
        }
        thread
    }

    /// The thread that stands for a track.
    fn on_track(&mut self, track: &Track, time: i64, strings: &mut Strings) -> &mut Thread {
        match self.threads.entry((track.pid, track.tid)) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let thread = entry.insert(Thread::new(track.pid, track.tid));
                let name = strings.intern(&track.name);
                thread.push(time, Kind::ThreadName, 0, name, 0);
                thread
            }
        }
    }

    /// All streams, by process and thread.
    pub fn streams<'a>(self) -> Vec<Box<dyn AnnotationEvents + 'a>> {
        let mut threads: Vec<((i32, i32), Thread)> = self.threads.into_iter().collect();
        threads.sort_by_key(|(ids, _)| *ids);
        let logs = threads.into_iter().map(|(_, mut thread)| {
            thread.log.seal();
            Box::new(thread.log) as Box<dyn AnnotationEvents + 'a>
        });
        logs.collect()
    }
}

/// A track for events without a thread.
#[derive(Clone)]
struct Track {
    pid: i32,
    tid: i32,
    name: String,
}

impl Current {
    /// Takes in one field. Fields that the meaning consumes are no arguments, except those of locks.
    #[inline]
    fn value(
        &mut self,
        leaf: u32,
        value: Value<'_>,
        plan: &Plan,
        field: &Leaf,
        strings: &mut Strings,
    ) {
        match plan.named.meaning {
            Meaning::Message(msg) if msg == leaf => {
                if let Value::Bytes(bytes) = value {
                    self.text = intern(trim(bytes), strings);
                }
                return;
            }
            Meaning::Call(addr) if addr == leaf => {
                self.first = value.int().unwrap_or(0) as u64;
                return;
            }
            Meaning::Own(_) if field.scope == Scope::Payload => {
                match (field.name.as_str(), value) {
                    ("name", Value::Bytes(bytes)) => self.text = intern(bytes, strings),
                    ("object" | "lock" | "flow", value) => {
                        self.first = value.int().unwrap_or(0) as u64;
                    }
                    ("wait" | "shared", value) => self.status = value.int(),
                    (_, value) => self.value = Some(held(field, value, strings)),
                }
                return;
            }
            Meaning::Lock(_, lock, status) => {
                if lock == leaf {
                    self.first = value.int().unwrap_or(0) as u64;
                }
                if status == Some(leaf) {
                    self.status = value.int();
                }
            }
            _ => {}
        }
        match plan.uses[leaf as usize] {
            Use::Tid => self.tid = value.int(),
            Use::Pid => self.pid = value.int(),
            Use::Name => {
                if let Value::Bytes(bytes) = value {
                    self.name = intern(trim(bytes), strings);
                }
            }
            Use::Arg(name) => {
                let held = held(field, value, strings);
                self.args.push((name, held));
            }
            Use::Element(name) => self.element(name, field, value),
            Use::Hidden => {}
        }
    }

    /// Appends an element to an array argument.
    fn element(&mut self, name: StrIx, field: &Leaf, value: Value<'_>) {
        let at = match self.arrays.iter().position(|(n, _)| *n == name) {
            Some(at) => at,
            None => {
                self.arrays.push((name, String::from("[")));
                self.arrays.len() - 1
            }
        };
        let text = &mut self.arrays[at].1;
        if text.len() > MAX_ARRAY {
            return;
        }
        if text.len() > 1 {
            text.push_str(", ");
        }
        let shown = match (value, field.label(value)) {
            (_, Some(label)) => label.to_owned(),
            (Value::Int(n), _) => n.to_string(),
            (Value::Uint(n), _) => n.to_string(),
            (Value::Float(x), _) => x.to_string(),
            (Value::Bytes(bytes), _) => String::from_utf8_lossy(trim(bytes)).into_owned(),
        };
        text.push_str(&shown);
        if text.len() > MAX_ARRAY {
            text.push_str(", ...");
        }
    }

    /// Completes the texts of array arguments.
    fn end_arrays(&mut self, strings: &mut Strings) {
        for (name, mut text) in self.arrays.drain(..) {
            text.push(']');
            let text = strings.intern(&text);
            self.args.push((name, Held::Text(text)));
        }
    }
}

/// A value as an argument. A value of an enumeration is shown by its label; bytes that are no text, in hexadecimal.
fn held(field: &Leaf, value: Value<'_>, strings: &mut Strings) -> Held {
    if let Some(label) = field.label(value) {
        return Held::Text(strings.intern(label));
    }
    match value {
        Value::Int(n) => Held::Int(n),
        Value::Uint(n) => Held::Uint(n),
        Value::Float(x) => Held::Float(x),
        Value::Bytes(bytes) => Held::Text(match field.kind {
            LeafKind::Text(1) => strings.intern(&String::from_utf8_lossy(trim(bytes))),
            LeafKind::Text(_) => strings.intern(&String::from_utf8_lossy(bytes).replace('\0', "")),
            _ => strings.intern(&hex(bytes)),
        }),
    }
}

/// Bytes that are no text, as digits.
fn hex(bytes: &[u8]) -> String {
    let shown = bytes.iter().take(MAX_ARRAY / 2);
    shown.map(|b| format!("{b:02x}")).collect()
}

impl Thread {
    fn new(pid: i32, tid: i32) -> Thread {
        Thread { log: AnnotationLog::new(pid, tid), name: StrIx::NONE }
    }

    /// Appends an annotation.
    fn push(&mut self, time: i64, kind: Kind, aux: u16, name: StrIx, a: u64) {
        self.log.push(&Annotation { time: Time(time), kind: kind as u8, aux, name, a, b: 0 });
    }

    /// Appends the arguments of the annotation before them.
    fn args(&mut self, time: i64, current: &Current) {
        self.args_of(time, current, 0);
    }

    /// Appends arguments. `b`: 1 for arguments of the innermost slice, even after instants in it; else 0.
    fn args_of(&mut self, time: i64, current: &Current, b: u64) {
        for (name, held) in &current.args {
            let (ty, a) = held.words();
            self.log.push(&Annotation {
                time: Time(time),
                kind: Kind::Arg as u8,
                aux: ty as u16,
                name: *name,
                a,
                b,
            });
        }
    }

    /// Appends one event. `slices`: begins and ends belong to one thread here; otherwise they become instants.
    fn add(
        &mut self,
        time: i64,
        named: Named,
        current: &Current,
        slices: bool,
        strings: &mut Strings,
    ) {
        let Named { meaning, name, plain } = named;
        match meaning {
            Meaning::Own(kind) => {
                let (aux, a) = own_payload(kind, current);
                self.push(time, kind, aux, current.text, a);
            }
            Meaning::Message(_) => {
                self.push(time, Kind::Message, 0, current.text, 0);
                self.args(time, current);
            }
            Meaning::Begin if slices => {
                self.push(time, Kind::Begin, 0, name, 0);
                self.args(time, current);
            }
            Meaning::End if slices => {
                // Arguments of the end belong to the slice, too.
                self.args_of(time, current, 1);
                self.push(time, Kind::End, 0, name, 0);
            }
            Meaning::Call(_) if slices => {
                let function = strings.intern(&format!("{:#x}", current.first));
                self.push(time, Kind::Begin, 0, function, 0);
                self.args(time, current);
            }
            Meaning::Return if slices => {
                self.push(time, Kind::End, 0, StrIx::NONE, 0);
            }
            Meaning::Lock(step, ..) if slices => {
                let failed = current.status.is_some_and(|status| status != 0);
                if let Some(kind) = lock_kind(step, failed) {
                    self.push(time, kind, 0, StrIx::NONE, current.first);
                }
            }
            Meaning::Instant
            | Meaning::Begin
            | Meaning::End
            | Meaning::Call(_)
            | Meaning::Return
            | Meaning::Lock(..) => {
                self.push(time, Kind::Instant, 0, plain, 0);
                self.args(time, current);
            }
        }
    }
}

/// The payload of an event of Kasuri's export: of an argument its type and value, of a counter its value.
fn own_payload(kind: Kind, current: &Current) -> (u16, u64) {
    match (kind, current.value.as_ref().map(Held::words)) {
        (Kind::Arg, Some((ty, a))) => (ty as u16, a),
        (Kind::Counter, Some((_, a))) => (0, a),
        _ => (current.status.unwrap_or(0) as u16, current.first),
    }
}

/// What a call of a lock function did; none: nothing that lasts. A call that waited and failed gave the wait up, one that
/// only tried did not wait.
fn lock_kind(step: LockStep, failed: bool) -> Option<Kind> {
    match (step, failed) {
        (LockStep::Request, _) => Some(Kind::LockRequest),
        (LockStep::Acquired | LockStep::Tried, false) => Some(Kind::LockAcquired),
        (LockStep::Acquired, true) => Some(Kind::LockGivenUp),
        (LockStep::Released, false) => Some(Kind::LockReleased),
        (LockStep::Tried | LockStep::Released, true) => None,
    }
}
