//! Kernel blocks of one CPU as events: columns are decoded block by block, only those that the passes use.
use super::payers::{Apart, Payers};
use crate::error::source;
use crate::kernel_events::{Role, Values};
use crate::prev_state::PrevState;
use kasuri_format::clock::ClockMap;
use kasuri_format::container::{Column, Group, Recording};
use kasuri_format::{ErrorKind, Result as FormatResult};
use kasuri_model::input::{BATCH, CpuEvents, Event, What};
use kasuri_model::{Error, StrIx, Strings, Time};
use std::ops::Range;
use std::rc::Rc;

/// What all CPUs share: the meaning of types and states.
#[derive(Debug)]
pub(super) struct Kernel {
    roles: Vec<Role>,
    states: PrevState,
    clock: ClockMap,
    origin_ns: i64,
    /// Stretches without kernel events, to keep a budget; by time.
    pauses: Vec<Range<Time>>,
    /// Names of probed lock functions.
    lock_functions: Vec<String>,
    /// Events met so far, by type.
    payers: std::cell::RefCell<Vec<Payers>>,
    apart: std::cell::RefCell<Apart>,
}

impl Kernel {
    pub fn new(recording: &Recording<'_>, clock: ClockMap, origin_ns: i64) -> Kernel {
        let types = recording.event_types();
        let has_waking = types.iter().any(|t| t.name == "sched/sched_waking");
        let switch = recording.meta().kernel.formats.get("sched/sched_switch");
        Kernel {
            roles: types
                .iter()
                .map(|t| Role::of(&t.name, has_waking))
                .collect(),
            states: switch.map_or_else(PrevState::newest, |text| PrevState::from_format(text)),
            clock,
            origin_ns,
            pauses: pauses(recording, origin_ns),
            lock_functions: recording.meta().lock_functions.clone(),
            payers: vec![Payers::default(); types.len()].into(),
            apart: Apart::default().into(),
        }
    }

    /// How many events of each type were read, and in whose time they were written.
    pub fn payers(&self) -> Vec<Payers> {
        self.payers.borrow().clone()
    }

    /// How far apart events were on their CPU, ns.
    pub fn apart_ns(&self) -> Option<f64> {
        self.apart.borrow().mean_ns()
    }

    /// Whether moves of threads are recorded.
    pub fn has_migrations(&self) -> bool {
        self.roles.contains(&Role::Migrate)
    }
}

/// From each pause to the change that ended it; the last may end with the recording.
fn pauses(recording: &Recording<'_>, origin_ns: i64) -> Vec<Range<Time>> {
    let changes = &recording.meta().budget;
    let at = |ns: u64| Time((ns as i64).saturating_sub(origin_ns));
    let end = recording
        .meta()
        .end
        .map_or(u64::MAX >> 1, |end| end.monotonic_ns);
    let ends = changes.iter().skip(1).map(|c| c.monotonic_ns).chain([end]);
    changes
        .iter()
        .zip(ends)
        .filter(|(change, end)| change.paused && change.monotonic_ns < *end)
        .map(|(change, end)| at(change.monotonic_ns)..at(end))
        .collect()
}

/// The decoded fields of one event type in the current block.
#[derive(Debug, Default)]
struct Columns {
    at: usize,
    context: Vec<i64>,
    ints: [Vec<i64>; 3],
    names: [Vec<StrIx>; 2],
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

/// A gap that was met, for the losses table.
#[derive(Clone, Copy, Debug)]
pub(super) struct MetGap {
    pub cpu: u16,
    pub from: Time,
    pub to: Time,
    pub count: Option<u64>,
    pub why: Why,
}

/// Why events are missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Why {
    /// They were overwritten.
    Overrun,
    /// The page is damaged.
    Damaged,
    /// Nothing was recorded, to keep a budget.
    Paused,
}

/// A gap before event `before` of the current block.
#[derive(Clone, Copy, Debug)]
struct Gap {
    before: usize,
    count: Option<u64>,
    why: Why,
    /// When it began, where that is known.
    from: Option<Time>,
}

/// One CPU's events.
pub(super) struct KernelCpu<'r> {
    recording: Rc<Recording<'r>>,
    kernel: Rc<Kernel>,
    gaps: Rc<std::cell::RefCell<Vec<MetGap>>>,
    cpu: u16,
    /// Blocks not read yet, last first.
    blocks: Vec<usize>,
    times: Vec<i64>,
    types: Vec<u16>,
    columns: Vec<Columns>,
    /// Gaps of the current block not met yet, last first.
    ahead: Vec<Gap>,
    /// Pauses met so far.
    n_pauses: usize,
    /// Index of the next event.
    next: usize,
    last: Time,
    /// Names by event type and number: system calls, softirqs, kinds of locks.
    numbered: std::collections::HashMap<(u16, i64), StrIx>,
}

impl<'r> KernelCpu<'r> {
    /// `blocks`: in order. `start`: what a gap before the first event begins with.
    pub fn new(
        recording: Rc<Recording<'r>>,
        kernel: Rc<Kernel>,
        gaps: Rc<std::cell::RefCell<Vec<MetGap>>>,
        cpu: u16,
        blocks: &[usize],
        start: Time,
    ) -> KernelCpu<'r> {
        KernelCpu {
            recording,
            columns: kernel.roles.iter().map(|_| Columns::default()).collect(),
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

    /// Decodes the next block. False: there is none.
    fn read_block(&mut self, strings: &mut Strings) -> Result<bool, Error> {
        let Some(ix) = self.blocks.pop() else {
            return Ok(false);
        };
        let recording = self.recording.clone();
        let block = recording.kernel_block(ix).map_err(source)?;
        self.times.clear();
        self.kernel.clock.convert(&block.stamps, &mut self.times);
        let origin = self.kernel.origin_ns;
        self.times
            .iter_mut()
            .for_each(|t| *t = t.saturating_sub(origin));
        self.types.clear();
        self.types.extend_from_slice(&block.types);
        self.ahead = block
            .gaps
            .iter()
            .rev()
            .map(|g| Gap {
                before: g.before as usize,
                count: g.count,
                why: if g.damaged {
                    Why::Damaged
                } else {
                    Why::Overrun
                },
                from: None,
            })
            .collect();
        self.add_pauses();
        self.kernel.apart.borrow_mut().add(&self.times);
        self.next = 0;
        for group in block.groups() {
            let ix = usize::from(group.event_type);
            let role = self.kernel.roles[ix];
            self.columns[ix] = self.read_columns(&group, role, strings)?;
            let columns = &self.columns[ix];
            let tids = match role {
                Role::Switch => &columns.ints[2],
                Role::Other => &read_ints(&group, "common_pid")?,
                _ => &columns.context,
            };
            self.kernel.payers.borrow_mut()[ix].add(group.len, tids);
        }
        Ok(true)
    }

    /// Pauses before or in this block: each stands before the first event after it began. An event that was being written
    /// meanwhile may lie inside; the pause begins after it then.
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
                why: Why::Paused,
                from: Some(pause.start),
            });
        }
        self.ahead.sort_by_key(|gap| std::cmp::Reverse(gap.before));
    }

    /// Pauses after the last event.
    fn last_pauses(&mut self, out: &mut Vec<Event>) {
        let kernel = self.kernel.clone();
        for pause in &kernel.pauses[self.n_pauses..] {
            self.n_pauses += 1;
            let gap = Gap {
                before: 0,
                count: None,
                why: Why::Paused,
                from: Some(pause.start),
            };
            out.push(self.lost(gap, pause.end));
        }
    }

    fn read_columns(
        &mut self,
        group: &Group<'_>,
        role: Role,
        strings: &mut Strings,
    ) -> Result<Columns, Error> {
        let mut out = Columns::default();
        let (ints, names) = role.fields();
        if let Role::LockCall(_, function) = role {
            let name = self.kernel.lock_functions.get(usize::from(function));
            let name = name.map_or(StrIx::NONE, |name| strings.intern(name));
            out.names[0] = vec![name; group.len];
        }
        // Of a switch, the context is who left.
        if role != Role::Switch && role != Role::Other {
            out.context = read_ints(group, "common_pid")?;
        }
        for (column, field) in out.ints.iter_mut().zip(ints) {
            *column = read_ints(group, field)?;
        }
        for (column, field) in out.names.iter_mut().zip(names) {
            *column = read_names(group, field, strings)?;
        }
        if matches!(
            role,
            Role::SoftirqEntry | Role::SyscallEntry | Role::LockBegin
        ) {
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

    fn lost(&mut self, gap: Gap, to: Time) -> Event {
        self.last = gap.from.map_or(self.last, |from| from.max(self.last));
        let gap = MetGap {
            cpu: self.cpu,
            from: self.last,
            to: to.max(self.last),
            count: gap.count,
            why: gap.why,
        };
        self.gaps.borrow_mut().push(gap);
        Event {
            time: self.last,
            context: -1,
            in_interrupt: false,
            what: What::Lost,
        }
    }

    /// The event at `self.next`, which is of a type that matters; none: it is not.
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
                    break;
                }
                continue;
            }
            let stop = gap.map_or(self.types.len(), |gap| gap.before.min(self.types.len()));
            while self.next < stop && out.len() < BATCH {
                if let Some(event) = self.event() {
                    out.push(event);
                }
            }
        }
        Ok(())
    }
}

/// A column that the kernel's format may lack.
fn optional(column: FormatResult<Column>) -> Result<Option<Column>, Error> {
    match column {
        Ok(column) => Ok(Some(column)),
        Err(e) if e.kind == ErrorKind::Absent => Ok(None),
        Err(e) => Err(source(e)),
    }
}

fn read_ints(group: &Group<'_>, field: &str) -> Result<Vec<i64>, Error> {
    match optional(group.column_by_name(field))? {
        Some(Column::Ints(ints)) if ints.width == 1 => Ok(ints.values),
        _ => Ok(Vec::new()),
    }
}

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
