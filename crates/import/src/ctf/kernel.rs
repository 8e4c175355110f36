//! Turns the kernel events of LTTng and perf into those of the passes.
//!
//! Names and fields are those of lttng-modules (include/instrumentation/events). Events of other tracers with the same
//! names are read alike, also with the kernel's own field names (`prev_pid` for `prev_tid`). `perf data convert --to-ctf` writes tracepoints
//! as `sched:sched_switch` with the fields of their format files, the common ones too.
//!
//! [`crate::kernel_events`] knows which events matter and what they mean; here are LTTng's names for their fields.
//!
//! A [`Plan`] per event type has the positions of its fields. If the body has a fixed size, numbers and names are read
//! at byte offsets; otherwise the body is decoded field by field. A CPU may write to several channels, which are files
//! of their own: [`KernelCpu`] merges them by time, and follows which thread runs and whether an interrupt is being
//! handled, since LTTng's events have this only as optional contexts.
use super::channel::{Channel, Next};
use super::files::Stream;
use crate::kernel_events::{self, Role, syscall_of_lttng};
use crate::prev_state::PrevState;
use kasuri_format::ctf::{EventLayout, Head, Layout, LeafKind, Program, Value};
use kasuri_model::input::{CpuEvents, Event, What};
use kasuri_model::{SOFTIRQS, StrIx, Strings, Time};
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// Events that one call of `fill` makes.
const BATCH: usize = 512;
/// No machine has more CPUs; a damaged number must not size a table.
pub(super) const CPUS_MAX: u16 = 8192;

/// Names of fields. Each has a list of alternatives, and the first one that exists counts.
type Names = &'static [&'static [&'static str]];

/// The fields that a role needs, in the order of [`Role::fields`]: first numbers, then texts. A fork has two more: the
/// child's process and the parent's.
const fn fields(role: Role) -> (Names, Names) {
    const TID: &[&str] = &["tid", "pid"];
    // Only perf has them.
    const FLAGS: &[&str] = &["common_flags"];
    match role {
        Role::Switch => (
            &[&["prev_tid", "prev_pid"], &["prev_state"], &["next_tid", "next_pid"]],
            &[&["prev_comm"], &["next_comm"]],
        ),
        Role::Waking => (&[TID, &["target_cpu"], FLAGS], &[&["comm"]]),
        Role::Migrate => (&[TID, &["orig_cpu"], &["dest_cpu"]], &[]),
        Role::Fork => (
            &[
                &["parent_tid", "parent_pid"],
                &["child_tid", "child_pid"],
                &["child_pid"],
                &["parent_pid"],
            ],
            &[&["child_comm"]],
        ),
        Role::Exec => (&[TID, &["old_tid", "old_pid"]], &[]),
        Role::Exit => (&[TID], &[]),
        Role::Rename => (&[TID], &[&["newcomm"]]),
        Role::RunTime => (&[TID, &["runtime"]], &[]),
        Role::IrqEntry => (&[&["irq"]], &[&["name"]]),
        Role::SoftirqEntry => (&[&["vec"]], &[]),
        Role::SyscallEntry => (&[&["id"]], &[]),
        // LTTng has the lock's kind as text, perf as flags.
        Role::LockBegin => (&[&["flags"], FLAGS], &[&["name"]]),
        Role::LockEnd => (&[FLAGS], &[]),
        Role::NewTask => (&[TID, &["clone_flags"]], &[&["comm"]]),
        _ => (&[], &[]),
    }
}

/// The position of a field.
#[derive(Clone, Copy, Debug, Default)]
enum Place {
    /// The event has no such field.
    #[default]
    None,
    /// At byte `at` of a body of fixed size.
    Fixed { at: u32, bytes: u8, signed: bool, big_endian: bool },
    /// The leaf with this index, found by decoding the body.
    Leaf(u32),
}

/// Most numbers and texts that a role needs: the fork has four numbers.
const N_INTS: usize = 4;
const N_TEXTS: usize = 2;

/// How to read one event type.
#[derive(Clone, Debug)]
struct Plan {
    /// What the event means to the passes.
    role: Role,
    /// Length of the body in bytes, if all events of the type have the same; then places are byte offsets.
    fixed: Option<u32>,
    ints: [Place; N_INTS],
    texts: [Place; N_TEXTS],
    /// The context `tid`, or perf's `common_pid`: the thread that was running.
    tid: Place,
    /// perf's field for the CPU.
    cpu: Place,
    /// The name of the system call, which is part of the event's: its number is not recorded.
    name: StrIx,
}

/// The position of the first of these fields that exists.
fn place(program: &Program, names: &[&str]) -> Place {
    let leaf = names.iter().find_map(|name| program.leaf(name));
    leaf.map_or(Place::None, |leaf| place_of(program, leaf))
}

/// The position of a leaf. A text of fixed size reaches to the next leaf.
fn place_of(program: &Program, leaf: u32) -> Place {
    let field = &program.leaves[leaf as usize];
    match (field.offset, &field.kind) {
        (Some(at), LeafKind::Int { bits, signed, big_endian, .. }) => {
            Place::Fixed { at, bytes: bits / 8, signed: *signed, big_endian: *big_endian }
        }
        (Some(at), LeafKind::Text(1)) => {
            let next = program.leaves.iter().filter_map(|l| l.offset).filter(|&o| o > at).min();
            let end = next.or(program.fixed).unwrap_or(at);
            Place::Fixed { at, bytes: (end - at).min(255) as u8, signed: false, big_endian: false }
        }
        _ => Place::Leaf(leaf),
    }
}

impl Plan {
    fn new(event: &EventLayout, has_waking: bool, strings: &mut Strings) -> Plan {
        let role = Role::of_ctf(&event.name, has_waking);
        let program = &event.program;
        let (ints, texts) = fields(role);
        let mut plan = Plan {
            role,
            fixed: program.fixed,
            ints: Default::default(),
            texts: Default::default(),
            tid: Place::None,
            cpu: place(program, &["perf_cpu"]),
            name: StrIx::NONE,
        };
        for (to, names) in plan.ints.iter_mut().zip(ints) {
            *to = place(program, names);
        }
        for (to, names) in plan.texts.iter_mut().zip(texts) {
            *to = place(program, names);
        }
        // Without `child_tid`, `child_pid` is the thread, and the process is unknown.
        if role == Role::Fork && program.leaf("child_tid").is_none() {
            // Field 2 is the child's process; `child_pid` was found for it, but holds a thread here.
            plan.ints[2] = Place::None;
        }
        // LTTng's context, or perf's field.
        let tid = program.context_leaf("tid");
        if let Some(leaf) = tid.or_else(|| program.leaf("common_pid")) {
            plan.tid = place_of(program, leaf);
        }
        if let Some(name) = syscall_of_lttng(&event.name).filter(|_| role == Role::SyscallEntry) {
            plan.name = strings.intern(name);
        }
        plan
    }
}

/// The part that all CPUs of a trace share.
pub(super) struct Kernel {
    /// Plans by stream class and event.
    plans: Vec<Vec<Plan>>,
    /// Events that were read, as the plans lie.
    counts: Vec<Vec<Cell<u64>>>,
    states: PrevState,
    softirqs: [StrIx; 10],
    /// For the names of system calls.
    machine: String,
    /// Events do not say whether they were raised in an interrupt.
    follows_interrupts: bool,
    pub has_migrations: bool,
}

/// Whether the metadata describes scheduler events.
pub(super) fn is_kernel(layout: &Layout) -> bool {
    let mut events = layout.streams.iter().flat_map(|s| &s.events);
    layout.metadata.env_text("domain") == Some("kernel")
        || events.any(|e| {
            matches!(&*e.name, "sched_switch" | "sched:sched_switch")
                && (e.program.leaf("next_tid").is_some() || e.program.leaf("next_pid").is_some())
        })
}

impl Kernel {
    pub fn new(layout: &Layout, strings: &mut Strings) -> Kernel {
        let events = || layout.streams.iter().flat_map(|s| &s.events);
        let names = || events().map(|e| e.name.as_str());
        let env = |name| layout.metadata.env_text(name);
        // Of the whole trace: a channel may have sched_wakeup, and another one sched_waking.
        let has = |event: &str| names().any(|n| n.strip_prefix("sched:").unwrap_or(n) == event);
        let has_waking = has("sched_waking");
        let plans = layout.streams.iter().map(|stream| {
            let events = stream.events.iter();
            events.map(|e| Plan::new(e, has_waking, strings)).collect()
        });
        let kinds = layout.streams.iter().map(|stream| stream.events.len());
        Kernel {
            plans: plans.collect(),
            counts: kinds.map(|n| vec![Cell::new(0); n]).collect(),
            // LTTng's name for it, and perf's.
            states: states(env("kernel_release").or(env("release")).unwrap_or("")),
            softirqs: SOFTIRQS.map(|name| strings.intern(name)),
            machine: env("machine").unwrap_or("").to_owned(),
            follows_interrupts: !events().any(|e| e.program.leaf("common_flags").is_some()),
            has_migrations: has("sched_migrate_task"),
        }
    }
}

impl Kernel {
    /// Adds the numbers of events that were read, by name; those without a meaning here count, too.
    pub fn count(&self, layout: &Layout, into: &mut BTreeMap<String, u64>) {
        let counts = self.counts.iter().flatten();
        let events = layout.streams.iter().flat_map(|stream| &stream.events);
        for (event, n) in events.zip(counts).filter(|(_, n)| n.get() > 0) {
            *into.entry(event.name.clone()).or_default() += n.get();
        }
    }

    /// Whether packets do not say which CPU wrote them, but events do: older versions of perf wrote one stream.
    pub fn has_mixed_streams(&self, streams: &[Stream<'_>]) -> bool {
        let mut packets = streams.iter().flat_map(|s| &s.packets);
        let mut plans = self.plans.iter().flatten();
        packets.all(|p| p.cpu.is_none()) && plans.any(|p| !matches!(p.cpu, Place::None))
    }
}

/// The meaning of `prev_state` on a kernel release. LTTng writes the kernel's own bits, which changed in Linux 4.2 and
/// 4.14, and has no print format that explains them.
fn states(release: &str) -> PrevState {
    let mut numbers =
        release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let plus = match version {
        (0, _) => return PrevState::newest(),
        v if v >= (4, 14) => return PrevState::newest(),
        v if v >= (4, 2) => 2048,
        _ => 1024,
    };
    PrevState::from_format(&format!(
        "print fmt: REC->prev_state & ({plus}-1) ? __print_flags(REC->prev_state & ({plus}-1), \"|\", {{ 1, \"S\"}}, \
         {{ 2, \"D\" }}, {{ 4, \"T\" }}, {{ 8, \"t\" }}, {{ 16, \"Z\" }}, {{ 32, \"X\" }}, {{ 64, \"x\" }}, \
         {{ 128, \"K\"}}, {{ 256, \"W\" }}, {{ 512, \"P\" }}) : \"R\", REC->prev_state & {plus} ? \"+\" : \"\""
    ))
}

/// The field values of one event.
#[derive(Default)]
struct Values<'a> {
    ints: [Option<i64>; N_INTS],
    texts: [&'a [u8]; N_TEXTS],
    tid: Option<i64>,
    cpu: Option<i64>,
}

/// The same with names as strings, for [`Role::event`].
struct Found {
    context: i32,
    ints: [Option<i64>; N_INTS],
    names: [StrIx; N_TEXTS],
}

impl kernel_events::Values for Found {
    fn context(&self) -> Option<i32> {
        Some(self.context)
    }

    fn int(&self, field: usize) -> Option<i64> {
        self.ints[field]
    }

    fn name(&self, field: usize) -> StrIx {
        self.names[field]
    }
}

/// Reads a number of up to eight bytes from a body of fixed size.
#[inline]
fn fixed_int(body: &[u8], place: Place) -> Option<i64> {
    let Place::Fixed { at, bytes, signed, big_endian } = place else {
        return None;
    };
    let raw = body.get(at as usize..at as usize + usize::from(bytes))?;
    // CTF has integers of any number of bytes; those of more than eight are cut to the first eight.
    let mut word = [0; 8];
    let n = raw.len().min(8);
    let value = if big_endian {
        word[8 - n..].copy_from_slice(&raw[..n]);
        u64::from_be_bytes(word)
    } else {
        word[..n].copy_from_slice(&raw[..n]);
        u64::from_le_bytes(word)
    };
    // Moves the number's sign to the word's, and back.
    let shift = 64 - 8 * n as u32;
    Some(match signed {
        true if shift < 64 => ((value << shift) as i64) >> shift,
        _ => value as i64,
    })
}

/// The bytes of a text in a body of fixed size.
fn fixed_text(body: &[u8], place: Place) -> &[u8] {
    match place {
        Place::Fixed { at, bytes, .. } => {
            body.get(at as usize..at as usize + usize::from(bytes)).unwrap_or(&[])
        }
        _ => &[],
    }
}

/// The text up to its first zero.
pub(super) fn trim(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    &bytes[..end]
}

/// A cache of thread names. A map holds the names seen, and each use of a name (leaving, arriving) its last one.
#[derive(Default)]
struct Comms {
    seen: HashMap<[u8; 16], StrIx>,
    last: [([u8; 16], StrIx); 2],
}

impl Comms {
    /// The string of a name; `slot`: its use in the event.
    #[inline]
    fn get(&mut self, bytes: &[u8], slot: usize, strings: &mut Strings) -> StrIx {
        let Some(key) = bytes.first_chunk::<16>() else {
            return intern(trim(bytes), strings);
        };
        let last = &mut self.last[slot];
        // A CPU often switches between two threads, so that the same name comes again in the same place.
        if last.0 == *key && last.1.is_some() {
            return last.1;
        }
        let name = match self.seen.get(key) {
            Some(&name) => name,
            None => {
                let name = intern(trim(bytes), strings);
                self.seen.insert(*key, name);
                name
            }
        };
        *last = (*key, name);
        name
    }
}

/// A text as a string; an empty one is none.
pub(super) fn intern(text: &[u8], strings: &mut Strings) -> StrIx {
    match text {
        b"" => StrIx::NONE,
        text => strings.intern(&String::from_utf8_lossy(text)),
    }
}

/// A channel with its next item.
struct Ahead<'a> {
    channel: Channel<'a>,
    next: Option<Next>,
}

/// One CPU's events, merged from all channels that it wrote to.
pub(super) struct KernelCpu<'a> {
    kernel: Rc<Kernel>,
    channels: Vec<Ahead<'a>>,
    /// Each channel's first item was read.
    is_started: bool,
    comms: Comms,
    /// The running thread, according to the last switch; -1: unknown.
    /// Kept over batches: an event without the context `tid` is that of this thread.
    current: i32,
    /// Number of interrupts that are being handled, nested: above 0 what happens is not the running thread's doing.
    interrupts: u32,
    /// The same of softirqs.
    softirqs: u32,
    /// The CPU of the last event, where events have it.
    cpu: Option<u16>,
    /// perf's kinds of locks (true) and system calls by number.
    numbered: HashMap<(bool, i64), StrIx>,
}

impl<'a> KernelCpu<'a> {
    pub fn new(kernel: Rc<Kernel>, channels: Vec<Channel<'a>>) -> KernelCpu<'a> {
        let channels = channels.into_iter().map(|channel| Ahead { channel, next: None });
        KernelCpu {
            kernel,
            channels: channels.collect(),
            is_started: false,
            comms: Comms::default(),
            current: -1,
            interrupts: 0,
            softirqs: 0,
            cpu: None,
            numbered: HashMap::new(),
        }
    }

    /// The events of mixed streams by CPU. Each takes less memory than in the file.
    ///
    /// # Errors
    /// Damage.
    pub fn by_cpu(
        mut self,
        strings: &mut Strings,
    ) -> Result<BTreeMap<u16, Buffered>, kasuri_model::Error> {
        let mut out: BTreeMap<u16, Vec<Event>> = BTreeMap::new();
        self.start()?;
        let mut events = Vec::new();
        while let Some((ix, _)) = self.oldest() {
            self.take(ix, strings, &mut events).map_err(crate::error::source)?;
            for event in events.drain(..) {
                match self.cpu {
                    // Whose events are missing is not known.
                    _ if matches!(event.what, What::Lost) => {
                        out.values_mut().for_each(|of_cpu| of_cpu.push(event));
                    }
                    Some(cpu) if cpu < CPUS_MAX => out.entry(cpu).or_default().push(event),
                    _ => {}
                }
            }
        }
        Ok(out.into_iter().map(|(cpu, events)| (cpu, Buffered(events.into_iter()))).collect())
    }

    /// Reads each channel's first item.
    fn start(&mut self) -> Result<(), kasuri_model::Error> {
        if !std::mem::replace(&mut self.is_started, true) {
            for channel in &mut self.channels {
                channel.next = channel.channel.next().map_err(crate::error::source)?;
            }
        }
        Ok(())
    }

    /// The channel with the oldest next item, and the oldest time of the others.
    fn oldest(&self) -> Option<(usize, i64)> {
        let time = |a: &Ahead<'_>| match a.next {
            Some(Next::Event(time, _) | Next::Lost(time)) => Some(time),
            None => None,
        };
        // Few channels: looking at all is cheaper than a heap.
        let mut best: Option<(usize, i64)> = None;
        let mut second = i64::MAX;
        for (ix, channel) in self.channels.iter().enumerate() {
            let Some(time) = time(channel) else { continue };
            match best {
                Some((_, oldest)) if time >= oldest => second = second.min(time),
                _ => {
                    second = second.min(best.map_or(i64::MAX, |b| b.1));
                    best = Some((ix, time));
                }
            }
        }
        best.map(|(ix, _)| (ix, second))
    }

    /// Takes the next item of a channel, and advances it.
    #[inline]
    fn take(
        &mut self,
        ix: usize,
        strings: &mut Strings,
        out: &mut Vec<Event>,
    ) -> Result<(), kasuri_format::Error> {
        let channel = &mut self.channels[ix];
        let next = channel.next.take();
        match next {
            Some(Next::Event(time, head)) => {
                match self.event(ix, time, head, strings) {
                    Ok(event) => {
                        let n = &self.kernel.counts[self.channels[ix].channel.stream]
                            [head.class as usize];
                        n.set(n.get() + 1);
                        out.extend(event);
                    }
                    Err(error) => {
                        let lost = self.channels[ix].channel.damaged(error)?;
                        self.lost(lost, out);
                    }
                };
            }
            Some(lost) => self.lost(lost, out),
            None => {}
        }
        let channel = &mut self.channels[ix];
        channel.next = channel.channel.next()?;
        Ok(())
    }

    /// Makes the event for a loss. The running thread and interrupts are unknown afterwards.
    fn lost(&mut self, next: Next, out: &mut Vec<Event>) {
        let (Next::Lost(time) | Next::Event(time, _)) = next;
        (self.current, self.interrupts, self.softirqs) = (-1, 0, 0);
        out.push(Event { time: Time(time), context: -1, in_interrupt: false, what: What::Lost });
    }

    /// Reads the body of an event; none: no pass uses it.
    #[inline]
    fn event(
        &mut self,
        ix: usize,
        time: i64,
        head: Head,
        strings: &mut Strings,
    ) -> Result<Option<Event>, kasuri_format::Error> {
        let channel = &mut self.channels[ix].channel;
        let plan = &self.kernel.plans[channel.stream][head.class as usize];
        if plan.role == Role::Other {
            channel.reader.skip(head)?;
            return Ok(None);
        }
        let mut values = Values::default();
        if let Some(bytes) = plan.fixed {
            let body = channel.fixed(bytes)?;
            for (to, &place) in values.ints.iter_mut().zip(&plan.ints) {
                *to = fixed_int(body, place);
            }
            for (to, &place) in values.texts.iter_mut().zip(&plan.texts) {
                *to = fixed_text(body, place);
            }
            values.tid = fixed_int(body, plan.tid);
            values.cpu = fixed_int(body, plan.cpu);
        } else {
            channel.body(head, |leaf, value| {
                let is = |place: Place| matches!(place, Place::Leaf(l) if l == leaf);
                match value {
                    Value::Bytes(text) => {
                        for (to, &place) in values.texts.iter_mut().zip(&plan.texts) {
                            if is(place) {
                                *to = text;
                            }
                        }
                    }
                    value => {
                        for (to, &place) in values.ints.iter_mut().zip(&plan.ints) {
                            if is(place) {
                                *to = value.int();
                            }
                        }
                        if is(plan.tid) {
                            values.tid = value.int();
                        }
                        if is(plan.cpu) {
                            values.cpu = value.int();
                        }
                    }
                }
            })?;
        }
        let (role, name) = (plan.role, plan.name);
        self.cpu = values.cpu.and_then(|cpu| u16::try_from(cpu).ok());
        Ok(self.mapped(role, name, time, &values, strings))
    }

    /// The event of the passes for the values of a role. LTTng's events do not say whether they were raised in an
    /// interrupt, and only on demand which thread ran: both follow from the events before.
    #[inline]
    fn mapped(
        &mut self,
        role: Role,
        name: StrIx,
        time: i64,
        v: &Values<'_>,
        strings: &mut Strings,
    ) -> Option<Event> {
        let (in_interrupt, is_soft) = (self.interrupts > 0, self.softirqs > 0);
        match role {
            Role::IrqEntry | Role::VectorEntry => self.interrupts += 1,
            Role::IrqExit | Role::VectorExit => {
                self.interrupts = self.interrupts.saturating_sub(1);
            }
            Role::SoftirqEntry | Role::SoftVectorEntry => self.softirqs += 1,
            Role::SoftirqExit | Role::SoftVectorExit => {
                self.softirqs = self.softirqs.saturating_sub(1);
            }
            _ => {}
        }
        let found = self.found(role, name, v, strings);
        let mut event = role.event(Time(time), &found, &self.kernel.states)?;
        if self.kernel.follows_interrupts {
            event.in_interrupt = in_interrupt;
            if let What::Waking { in_softirq, .. } = &mut event.what {
                *in_softirq = is_soft;
            }
        }
        match &mut event.what {
            What::Switch { next, .. } => self.current = *next,
            What::Fork { pid, same_process, .. } if role == Role::Fork => {
                *pid = v.ints[2].map(|pid| pid as i32);
                *same_process = pid.map(|pid| Some(i64::from(pid)) == v.ints[3]);
            }
            _ => {}
        }
        Some(event)
    }

    /// The values as [`Role::event`] takes them.
    #[inline]
    fn found(&mut self, role: Role, name: StrIx, v: &Values<'_>, strings: &mut Strings) -> Found {
        let mut found = Found {
            context: v.tid.map_or(self.current, |tid| tid as i32),
            ints: v.ints,
            names: [StrIx::NONE; N_TEXTS],
        };
        let names = &mut found.names;
        match role {
            Role::Switch => {
                names[0] = self.comms.get(v.texts[0], 0, strings);
                names[1] = self.comms.get(v.texts[1], 1, strings);
                // Without the field, it is not known that the thread did not go to sleep by itself.
                found.ints[1] = v.ints[1].or(Some(0));
            }
            Role::Waking | Role::Fork | Role::NewTask | Role::Rename => {
                names[0] = self.comms.get(v.texts[0], 0, strings);
            }
            Role::LockBegin | Role::SyscallEntry if !name.is_some() && v.texts[0].is_empty() => {
                let number = v.ints[0].unwrap_or(-1);
                let machine = &self.kernel.machine;
                names[0] =
                    *self.numbered.entry((role == Role::LockBegin, number)).or_insert_with(|| {
                        role.name_of(number, machine, strings).unwrap_or(StrIx::NONE)
                    });
            }
            Role::IrqEntry | Role::LockBegin => names[0] = intern(trim(v.texts[0]), strings),
            Role::SoftirqEntry => {
                let number = v.ints[0].and_then(|n| usize::try_from(n).ok());
                let known = number.and_then(|n| self.kernel.softirqs.get(n));
                names[0] = known.copied().unwrap_or_default();
            }
            Role::SyscallEntry => names[0] = name,
            _ => {}
        }
        found
    }
}

impl CpuEvents for KernelCpu<'_> {
    fn fill(
        &mut self,
        strings: &mut Strings,
        out: &mut Vec<Event>,
    ) -> Result<(), kasuri_model::Error> {
        self.start()?;
        while out.len() < BATCH {
            let Some((ix, limit)) = self.oldest() else {
                break;
            };
            // Consecutive events of one channel need no comparison with the others.
            while out.len() < BATCH {
                self.take(ix, strings, out).map_err(crate::error::source)?;
                match self.channels[ix].next {
                    Some(Next::Event(time, _) | Next::Lost(time)) if time < limit => {}
                    _ => break,
                }
            }
        }
        Ok(())
    }
}

/// The events of one CPU that were read at once.
pub(super) struct Buffered(std::vec::IntoIter<Event>);

impl CpuEvents for Buffered {
    fn fill(&mut self, _: &mut Strings, out: &mut Vec<Event>) -> Result<(), kasuri_model::Error> {
        out.extend(self.0.by_ref().take(BATCH));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kasuri_model::ThreadState::{self, *};

    #[test]
    fn numbers_of_each_size_order_and_sign() {
        let body = [0x11, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x80];
        let read = |at, bytes, signed, big_endian| {
            let place = Place::Fixed { at, bytes, signed, big_endian };
            fixed_int(&body, place)
        };
        assert_eq!(read(1, 1, false, false), Some(0xfe));
        assert_eq!(read(1, 1, true, false), Some(-2));
        assert_eq!(read(0, 2, false, false), Some(0xfe11));
        assert_eq!(read(0, 2, false, true), Some(0x11fe));
        assert_eq!(read(1, 2, true, true), Some(-257));
        assert_eq!(read(0, 4, false, true), Some(0x11fe_ffff));
        assert_eq!(read(1, 4, true, false), Some(-2));
        assert_eq!(read(1, 8, false, false), Some(0x80ff_ffff_ffff_fffe_u64 as i64));
        assert_eq!(read(1, 8, true, true), Some(-0x0100_0000_0000_0080));
        assert_eq!(read(8, 2, false, false), None, "beyond the body");
        assert_eq!(fixed_int(&body, Place::None), None);
    }

    /// What `prev_state` says in the kernel's headers of each time.
    #[test]
    fn states_of_kernels_before_and_after_their_bits_changed() {
        let state = |release: &str, value| -> ThreadState { states(release).get(value) };
        for release in ["6.1.0-13-amd64", "4.14.0", "5.2", "unknown", ""] {
            assert_eq!(state(release, 0x100), RunnablePreempted, "{release}");
            assert_eq!(state(release, 0x80), Idle, "{release}");
            assert_eq!(state(release, 0x10), Dead, "{release}");
        }
        for (release, plus, other) in [
            ("4.13.9", 2048, 1024),
            ("4.2", 2048, 1024),
            ("4.1.52", 1024, 2048),
            ("3.10.0-1160", 1024, 2048),
        ] {
            assert_eq!(state(release, plus), RunnablePreempted, "{release}");
            assert_ne!(state(release, other), RunnablePreempted, "{release}");
            for (value, expected) in [
                (1, Sleeping),
                (2, DiskSleep),
                (4, Stopped),
                (16, Dead),
                (512, Idle),
                (0, RunnablePreempted),
            ] {
                assert_eq!(state(release, value), expected, "{release} {value}");
            }
        }
    }

    #[test]
    fn a_name_is_the_last_one_of_its_bytes() {
        let mut strings = Strings::default();
        let mut comms = Comms::default();
        let name = |text: &str| {
            let mut bytes = [0u8; 16];
            bytes[..text.len()].copy_from_slice(text.as_bytes());
            bytes
        };
        for (text, slot) in
            [("make", 0), ("cc1", 1), ("make", 0), ("cc1", 0), ("make", 1), ("", 0), ("make", 0)]
        {
            let found = comms.get(&name(text), slot, &mut strings);
            assert_eq!(strings.get(found), text);
        }
        let short = comms.get(b"as\0", 0, &mut strings);
        assert_eq!(strings.get(short), "as");
    }
}
