//! Decodes the kernel blocks of one CPU into events.
//!
//! A block holds the events of one CPU in order, as columns: stamps and types of all events, and for each type a group
//! with a column per field. [`KernelCpu`] decodes one block at a time, and only the columns that the type's [`Role`]
//! needs. It then walks over the types and takes the next row from the group of each.
//!
//! Between events there may be gaps, from flagged pages or from pauses that kept the budget. A gap becomes the event
//! [`What::Lost`], which makes the passes forget the CPU's state, and an entry for the table of losses.
use super::payers::{Apart, Payers};
use crate::ahead::lock;
use crate::error::source;
use crate::kernel_events::{Role, Values};
use crate::prev_state::PrevState;
use crate::usdt::{self, Meaning};
use kasuri_base::annotation::ArgType;
use kasuri_format::clock::ClockMap;
use kasuri_format::container::{Column, Group, Recording};
use kasuri_format::tracefs::EventFormat;
use kasuri_format::{ErrorKind, Result as FormatResult};
use kasuri_model::input::{BATCH, CpuEvents, Event, What};
use kasuri_model::{Error, StrIx, Strings, Time};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// The part that all CPUs share: the meaning of types and states, and counts.
#[derive(Debug)]
pub(super) struct Kernel {
    roles: Vec<Role>,
    states: PrevState,
    clock: ClockMap,
    origin_ns: i64,
    /// Times without kernel events, which the recorder paused to keep a budget; in order.
    pauses: Vec<Range<Time>>,
    /// Names of the probed lock functions, by the number in [`Role::LockCall`].
    lock_functions: Vec<String>,
    /// What events of USDT probes mean, by type.
    probes: Vec<Option<Meaning>>,
    /// What was counted of each CPU that is read to its end. Sums do not depend on which came first.
    counts: Mutex<BTreeMap<u16, Counts>>,
}

/// Of the events of one CPU.
#[derive(Clone, Debug, Default)]
struct Counts {
    /// By type.
    payers: Vec<Payers>,
    /// Distances between them.
    apart: Apart,
}

impl Kernel {
    pub fn new(recording: &Recording<'_>, clock: ClockMap, origin_ns: i64) -> Kernel {
        let types = recording.event_types();
        let has_waking = types.iter().any(|t| t.name == "sched/sched_waking");
        let switch = recording.meta().kernel.formats.get("sched/sched_switch");
        let mut meanings = usdt::meanings(&recording.meta().usdt);
        let probes: Vec<_> = types.iter().map(|t| meanings.remove(&t.name)).collect();
        let role = |(t, probe): (&EventFormat, &Option<Meaning>)| match probe {
            None => Role::of(&t.name, has_waking),
            Some(Meaning { lock: Some((step, n)), .. }) => Role::LockCall(*step, *n),
            Some(_) => Role::Probe,
        };
        Kernel {
            roles: types.iter().zip(&probes).map(role).collect(),
            probes,
            states: switch.map_or_else(PrevState::newest, |text| PrevState::from_format(text)),
            clock,
            origin_ns,
            pauses: pauses(recording, origin_ns),
            lock_functions: recording.meta().lock_functions.clone(),
            counts: Mutex::default(),
        }
    }

    /// The number of events read of each type, with the threads that paid for them.
    pub fn payers(&self) -> Vec<Payers> {
        let mut all = vec![Payers::default(); self.roles.len()];
        for counts in lock(&self.counts).values() {
            for (all, own) in all.iter_mut().zip(&counts.payers) {
                all.join(own);
            }
        }
        all
    }

    /// Mean distance of the events of a CPU, ns.
    pub fn apart_ns(&self) -> Option<f64> {
        let mut all = Apart::default();
        for counts in lock(&self.counts).values() {
            all.join(&counts.apart);
        }
        all.mean_ns()
    }

    /// Whether migrations are recorded.
    pub fn has_migrations(&self) -> bool {
        self.roles.contains(&Role::Migrate)
    }
}

/// The times of pauses: from each pause to the next change of the budget, or to the end of the recording.
fn pauses(recording: &Recording<'_>, origin_ns: i64) -> Vec<Range<Time>> {
    let changes = &recording.meta().budget;
    let at = |ns: u64| Time((ns as i64).saturating_sub(origin_ns));
    let end = recording.meta().end.map_or(u64::MAX >> 1, |end| end.monotonic_ns);
    let ends = changes.iter().skip(1).map(|c| c.monotonic_ns).chain([end]);
    changes
        .iter()
        .zip(ends)
        .filter(|(change, end)| change.paused && change.monotonic_ns < *end)
        .map(|(change, end)| at(change.monotonic_ns)..at(end))
        .collect()
}

/// The decoded fields of one event type in the current block. A column is empty if the kernel's format lacks the field.
#[derive(Debug, Default)]
struct Columns {
    /// The row of the next event of this type.
    at: usize,
    context: Vec<i64>,
    ints: [Vec<i64>; 3],
    names: [Vec<StrIx>; 2],
    /// Of a USDT probe.
    probe: Option<Box<ProbeColumns>>,
}

/// The columns of a USDT probe.
#[derive(Debug, Default)]
struct ProbeColumns {
    /// Its own name.
    probe: StrIx,
    /// Its slice's, where no text names it.
    name: StrIx,
    /// Its arguments, in order: name, and values as annotations have them.
    args: Vec<(ArgType, StrIx, Vec<u64>)>,
}

impl Values for Columns {
    #[inline(always)]
    fn context(&self) -> Option<i32> {
        self.context.get(self.at).map(|&tid| tid as i32)
    }

    #[inline(always)]
    fn int(&self, column: usize) -> Option<i64> {
        self.ints[column].get(self.at).copied()
    }

    #[inline(always)]
    fn name(&self, column: usize) -> StrIx {
        self.names[column].get(self.at).copied().unwrap_or_default()
    }
}

/// A gap found while reading, for the table of losses.
#[derive(Clone, Copy, Debug)]
pub(super) struct MetGap {
    pub cpu: u16,
    pub from: Time,
    pub to: Time,
    pub count: Option<u64>,
    pub cause: GapCause,
}

/// The cause of a gap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum GapCause {
    /// Events were overwritten.
    Overrun,
    /// The page is damaged.
    Damaged,
    /// The recorder paused, to keep a budget.
    Paused,
}

/// A gap before event `before` of the current block.
#[derive(Clone, Copy, Debug)]
struct Gap {
    before: usize,
    count: Option<u64>,
    cause: GapCause,
    /// Its begin; none: the event before it.
    from: Option<Time>,
}

/// One CPU's events.
pub(super) struct KernelCpu<'r> {
    recording: Arc<Recording<'r>>,
    kernel: Arc<Kernel>,
    gaps: Arc<Mutex<Vec<MetGap>>>,
    counts: Counts,
    cpu: u16,
    /// Indices of the blocks that were not read yet, the last one first.
    blocks: Vec<usize>,
    times: Vec<i64>,
    types: Vec<u16>,
    columns: Vec<Columns>,
    /// Gaps of the current block that are still ahead, the last one first.
    ahead: Vec<Gap>,
    /// Number of pauses passed so far.
    n_pauses: usize,
    /// Index of the next event.
    next: usize,
    /// The highest time so far, at which a gap begins.
    last: Time,
    /// Whether there are USDT probes among the types.
    has_probes: bool,
    /// Names by event type and number: system calls, softirqs, kinds of locks.
    numbered: std::collections::HashMap<(u16, i64), StrIx>,
}

impl<'r> KernelCpu<'r> {
    /// `blocks`: indices of the CPU's blocks, in order. `start`: where a gap before the first event begins.
    pub fn new(
        recording: Arc<Recording<'r>>,
        kernel: Arc<Kernel>,
        gaps: Arc<Mutex<Vec<MetGap>>>,
        cpu: u16,
        blocks: &[usize],
        start: Time,
    ) -> KernelCpu<'r> {
        KernelCpu {
            recording,
            columns: kernel.roles.iter().map(|_| Columns::default()).collect(),
            has_probes: kernel.roles.contains(&Role::Probe),
            counts: Counts {
                payers: vec![Payers::default(); kernel.roles.len()],
                apart: Apart::default(),
            },
            kernel,
            gaps,
            cpu,
            blocks: blocks.iter().rev().copied().collect(),
            times: Vec::new(),
            types: Vec::new(),
            ahead: Vec::new(),
            n_pauses: 0,
            next: 0,
            last: start,
            numbered: std::collections::HashMap::new(),
        }
    }

    /// Decodes the stamps, types, gaps and needed columns of the next block. False: there is none.
    fn read_block(&mut self, strings: &mut Strings) -> Result<bool, Error> {
        let Some(ix) = self.blocks.pop() else {
            return Ok(false);
        };
        let recording = self.recording.clone();
        let block = recording.kernel_block(ix).map_err(source)?;
        self.times.clear();
        self.kernel.clock.convert(&block.stamps, &mut self.times);
        let origin = self.kernel.origin_ns;
        self.times.iter_mut().for_each(|t| *t = t.saturating_sub(origin));
        self.types.clear();
        self.types.extend_from_slice(&block.types);
        self.ahead = block
            .gaps
            .iter()
            .rev()
            .map(|g| Gap {
                before: g.before as usize,
                count: g.count,
                cause: if g.damaged { GapCause::Damaged } else { GapCause::Overrun },
                from: None,
            })
            .collect();
        self.add_pauses();
        // Counted here, where each event passes once: how far apart events are decides what one costs.
        self.counts.apart.add(&self.times);
        self.next = 0;
        for group in block.groups() {
            let ix = usize::from(group.event_type);
            let role = self.kernel.roles[ix];
            self.columns[ix] = self.read_columns(&group, role, strings)?;
            let columns = &self.columns[ix];
            // In whose time the event was written: a switch's in that of the thread that comes.
            let tids = match role {
                Role::Switch => &columns.ints[2],
                Role::Other => &read_ints(&group, "common_pid")?,
                _ => &columns.context,
            };
            self.counts.payers[ix].add(group.len, tids);
        }
        Ok(true)
    }

    /// Adds the pauses before and in this block as gaps before the first event after their begin. An event that was
    /// being written meanwhile may lie inside a pause; the pause then begins after it.
    fn add_pauses(&mut self) {
        let kernel = self.kernel.clone();
        for pause in &kernel.pauses[self.n_pauses..] {
            let before = self.times.partition_point(|&t| Time(t) < pause.start);
            if before == self.times.len() {
                break;
            }
            self.n_pauses += 1;
            self.ahead.push(Gap {
                before,
                count: None,
                cause: GapCause::Paused,
                from: Some(pause.start),
            });
        }
        self.ahead.sort_by_key(|gap| std::cmp::Reverse(gap.before));
    }

    /// Adds the pauses after the last event, which have no event behind them to come before.
    fn last_pauses(&mut self, out: &mut Vec<Event>) {
        let kernel = self.kernel.clone();
        for pause in &kernel.pauses[self.n_pauses..] {
            self.n_pauses += 1;
            let gap =
                Gap { before: 0, count: None, cause: GapCause::Paused, from: Some(pause.start) };
            out.push(self.lost(gap, pause.end));
        }
    }

    /// Decodes the columns of a group that its role needs.
    fn read_columns(
        &mut self,
        group: &Group<'_>,
        role: Role,
        strings: &mut Strings,
    ) -> Result<Columns, Error> {
        let mut out = Columns::default();
        let (ints, names) = role.fields();
        if let Role::LockCall(_, function) = role {
            let kernel = &self.kernel;
            let probe = kernel.probes[usize::from(group.event_type)].is_some();
            let name = match kernel.lock_functions.get(usize::from(function)) {
                _ if probe => strings.intern("mutex"),
                Some(name) => strings.intern(name),
                None => StrIx::NONE,
            };
            out.names[0] = vec![name; group.len];
        }
        if role == Role::Probe {
            let kernel = self.kernel.clone();
            let meaning = kernel.probes[usize::from(group.event_type)].as_ref();
            out.probe = meaning
                .map(|meaning| read_probe(group, meaning, strings).map(Box::new))
                .transpose()?;
        }
        // The context of a switch is the thread that leaves, which is a field already.
        if role != Role::Switch && role != Role::Other {
            out.context = read_ints(group, "common_pid")?;
        }
        for (column, field) in out.ints.iter_mut().zip(ints) {
            *column = match role {
                // The first argument is the mutex.
                Role::LockCall(_, n) if n >= usdt::FIRST_LOCK => read_ints(group, "a1")?,
                _ => read_ints(group, field)?,
            };
        }
        for (column, field) in out.names.iter_mut().zip(names) {
            *column = read_names(group, field, strings)?;
        }
        if matches!(role, Role::SoftirqEntry | Role::SyscallEntry | Role::LockBegin) {
            let machine = &self.recording.meta().host.machine;
            for &number in &out.ints[0] {
                let name = self.numbered.entry((group.event_type, number));
                out.names[0].push(
                    *name.or_insert_with(|| {
                        role.name_of(number, machine, strings).unwrap_or_default()
                    }),
                );
            }
        }
        Ok(out)
    }

    /// Notes a gap that ends at `to`, and makes the event for it.
    fn lost(&mut self, gap: Gap, to: Time) -> Event {
        // A gap begins where the last event was, unless it is known to begin later.
        self.last = gap.from.map_or(self.last, |from| from.max(self.last));
        let gap = MetGap {
            cpu: self.cpu,
            from: self.last,
            to: to.max(self.last),
            count: gap.count,
            cause: gap.cause,
        };
        lock(&self.gaps).push(gap);
        Event { time: self.last, context: -1, in_interrupt: false, what: What::Lost }
    }

    /// Takes the next event; none: its type is not used.
    #[inline]
    fn event(&mut self) -> Option<Event> {
        let ix = self.next;
        self.next += 1;
        let kind = usize::from(self.types[ix]);
        let role = self.kernel.roles[kind];
        self.last = self.last.max(Time(self.times[ix]));
        let c = &mut self.columns[kind];
        let event = role.event(Time(self.times[ix]), c, &self.kernel.states);
        c.at += 1;
        event
    }

    /// The probe whose event was just taken, and its arguments.
    #[cold]
    fn probe(&self, out: &mut Vec<Event>) {
        let ix = self.next - 1;
        let kind = usize::from(self.types[ix]);
        let columns = &self.columns[kind];
        let (Some(meaning), Some(probe)) = (&self.kernel.probes[kind], &columns.probe) else {
            return;
        };
        let at = columns.at - 1;
        let value = |values: &[u64]| values.get(at).copied();
        let name = meaning
            .named_by
            .and_then(|n| value(&probe.args.get(n)?.2))
            .map(|text| StrIx(text as u32))
            .filter(|name| name.is_some());
        let event = |what| Event {
            time: Time(self.times[ix]),
            context: columns.context.get(at).map_or(-1, |&tid| tid as i32),
            in_interrupt: false,
            what,
        };
        out.push(event(What::Probe {
            side: meaning.side,
            pair: meaning.pair,
            name: name.unwrap_or(probe.name),
            probe: probe.probe,
        }));
        for (kind, name, values) in &probe.args {
            let (kind, name) = (*kind, *name);
            let arg = value(values).map(|value| What::ProbeArg { kind, name, value });
            out.extend(arg.map(event));
        }
    }
}

impl CpuEvents for KernelCpu<'_> {
    fn fill(&mut self, strings: &mut Strings, out: &mut Vec<Event>) -> Result<(), Error> {
        while out.len() < BATCH {
            let gap = self.ahead.last().copied();
            if let Some(gap) = gap
                && gap.before <= self.next
            {
                self.ahead.pop();
                let to = self.times.get(self.next).map_or(self.last, |&t| Time(t));
                out.push(self.lost(gap, to));
                continue;
            }
            if self.next >= self.types.len() {
                if !self.read_block(strings)? {
                    self.last_pauses(out);
                    let counts = std::mem::take(&mut self.counts);
                    let all = &mut lock(&self.kernel.counts);
                    all.entry(self.cpu).or_insert(counts);
                    break;
                }
                continue;
            }
            // Up to the next gap no event needs a look at the gaps.
            let stop = gap.map_or(self.types.len(), |gap| gap.before.min(self.types.len()));
            while self.next < stop && out.len() < BATCH {
                match self.event() {
                    Some(event) => out.push(event),
                    None if self.has_probes => self.probe(out),
                    None => {}
                }
            }
        }
        Ok(())
    }
}

/// Decodes the arguments of a probe. Those whose field the event lacks are left out.
fn read_probe(
    group: &Group<'_>,
    meaning: &Meaning,
    strings: &mut Strings,
) -> Result<ProbeColumns, Error> {
    let mut args = Vec::with_capacity(meaning.args.len());
    for arg in &meaning.args {
        let values: Vec<u64> = match (&arg.from, arg.kind) {
            (usdt::From::Constant(n), _) => vec![*n as u64; group.len],
            (usdt::From::Field(field), ArgType::Str) => read_names(group, field, strings)?
                .into_iter()
                .map(|text| u64::from(text.0))
                .collect(),
            (usdt::From::Field(field), _) => {
                read_ints(group, field)?.into_iter().map(|n| n as u64).collect()
            }
        };
        args.push((arg.kind, strings.intern(&arg.name), values));
    }
    Ok(ProbeColumns {
        probe: strings.intern(&meaning.probe),
        name: strings.intern(&meaning.name),
        args,
    })
}

/// A column; none: the kernel's format lacks the field.
fn optional(column: FormatResult<Column>) -> Result<Option<Column>, Error> {
    match column {
        Ok(column) => Ok(Some(column)),
        Err(e) if e.kind == ErrorKind::Absent => Ok(None),
        Err(e) => Err(source(e)),
    }
}

/// A column of numbers; empty: there is none, or it holds arrays.
fn read_ints(group: &Group<'_>, field: &str) -> Result<Vec<i64>, Error> {
    match optional(group.column_by_name(field))? {
        Some(Column::Ints(ints)) if ints.width == 1 => Ok(ints.values),
        _ => Ok(Vec::new()),
    }
}

/// A column of names; empty: there is none. Each entry of its dictionary is interned once.
fn read_names(group: &Group<'_>, field: &str, strings: &mut Strings) -> Result<Vec<StrIx>, Error> {
    let Some(Column::Bytes(column)) = optional(group.column_by_name(field))? else {
        return Ok(Vec::new());
    };
    let name = |id| match column.entry_text(id).as_ref() {
        "" => StrIx::NONE,
        text => strings.intern(text),
    };
    let names: Vec<StrIx> = (0..column.dict_len() as u32).map(name).collect();
    let name = |id: u32| names.get(id as usize).copied().unwrap_or_default();
    Ok(column.ids.into_iter().map(name).collect())
}
