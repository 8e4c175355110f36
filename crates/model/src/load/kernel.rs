//! Kernel blocks of one CPU as events: columns are decoded block by block, only those that the passes use.
use crate::input::{BATCH, CpuEvents, Event, What};
use crate::{Error, PrevState, StrIx, Strings, Time};
use kasuri_format::clock::ClockMap;
use kasuri_format::container::{Column, Group, Recording};
use kasuri_format::tracefs::EventFormat;
use kasuri_format::{ErrorKind, Result as FormatResult};
use std::ops::Range;
use std::rc::Rc;

/// What the passes do with an event type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    Switch,
    Waking,
    Migrate,
    Fork,
    NewTask,
    Exec,
    Exit,
    Rename,
    IrqEntry,
    IrqExit,
    SoftirqEntry,
    SoftirqExit,
    SyscallEntry,
    SyscallExit,
    LockBegin,
    LockEnd,
    /// Nothing.
    Other,
}

/// The fields that a role needs: numbers, then names (comms, or an interrupt handler's).
const fn fields(role: Role) -> (&'static [&'static str], &'static [&'static str]) {
    match role {
        Role::Switch => (
            &["prev_pid", "prev_state", "next_pid"],
            &["prev_comm", "next_comm"],
        ),
        Role::Waking => (&["pid", "target_cpu", "common_flags"], &["comm"]),
        Role::Migrate => (&["pid", "orig_cpu", "dest_cpu"], &[]),
        Role::Fork => (&["parent_pid", "child_pid"], &["child_comm"]),
        Role::NewTask => (&["pid", "clone_flags"], &["comm"]),
        Role::Exec => (&["pid", "old_pid"], &[]),
        Role::Exit => (&["pid"], &[]),
        Role::Rename => (&["pid"], &["newcomm"]),
        Role::IrqEntry => (&["irq"], &["name"]),
        Role::SoftirqEntry => (&["vec"], &[]),
        Role::SyscallEntry => (&["id"], &[]),
        Role::LockBegin => (&["flags", "common_flags"], &[]),
        Role::LockEnd => (&["common_flags"], &[]),
        Role::IrqExit | Role::SoftirqExit | Role::SyscallExit | Role::Other => (&[], &[]),
    }
}

/// `common_flags`: raised in a hardware interrupt (TRACE_FLAG_HARDIRQ), or in an NMI (TRACE_FLAG_NMI).
const IN_INTERRUPT: i64 = 0x08 | 0x40;
/// `clone_flags`: CLONE_THREAD.
const CLONE_THREAD: i64 = 0x1_0000;
/// As the kernel numbers them.
const SOFTIRQS: [&str; 10] = [
    "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU",
];

/// What all CPUs share: the meaning of types and states.
#[derive(Debug)]
pub(super) struct Kernel {
    roles: Vec<Role>,
    states: PrevState,
    clock: ClockMap,
    origin_ns: i64,
    /// Stretches without kernel events, to keep a budget; by time.
    pauses: Vec<Range<Time>>,
    /// Events met so far, by type.
    counts: std::cell::RefCell<Vec<u64>>,
}

impl Kernel {
    pub fn new(recording: &Recording<'_>, clock: ClockMap, origin_ns: i64) -> Kernel {
        let types = recording.event_types();
        let has_waking = types.iter().any(|t| t.name == "sched/sched_waking");
        let switch = recording.meta().kernel.formats.get("sched/sched_switch");
        Kernel {
            roles: types.iter().map(|t| role(t, has_waking)).collect(),
            states: switch.map_or_else(PrevState::newest, |text| PrevState::from_format(text)),
            clock,
            origin_ns,
            pauses: pauses(recording, origin_ns),
            counts: vec![0; types.len()].into(),
        }
    }

    /// How many events of each type were read.
    pub fn counts(&self) -> Vec<u64> {
        self.counts.borrow().clone()
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

fn role(format: &EventFormat, has_waking: bool) -> Role {
    match format.name.as_str() {
        "sched/sched_switch" => Role::Switch,
        "sched/sched_waking" | "sched/sched_wakeup_new" => Role::Waking,
        // Later than sched_waking and on the wakee's CPU; better than nothing.
        "sched/sched_wakeup" if !has_waking => Role::Waking,
        "sched/sched_migrate_task" => Role::Migrate,
        "sched/sched_process_fork" => Role::Fork,
        "sched/sched_process_exec" => Role::Exec,
        "sched/sched_process_exit" => Role::Exit,
        "task/task_newtask" => Role::NewTask,
        "task/task_rename" => Role::Rename,
        "irq/irq_handler_entry" => Role::IrqEntry,
        "irq/irq_handler_exit" => Role::IrqExit,
        "irq/softirq_entry" => Role::SoftirqEntry,
        "irq/softirq_exit" => Role::SoftirqExit,
        "raw_syscalls/sys_enter" => Role::SyscallEntry,
        "raw_syscalls/sys_exit" => Role::SyscallExit,
        "lock/contention_begin" => Role::LockBegin,
        "lock/contention_end" => Role::LockEnd,
        _ => Role::Other,
    }
}

/// The decoded fields of one event type in the current block.
#[derive(Debug, Default)]
struct Columns {
    at: usize,
    context: Vec<i64>,
    ints: [Vec<i64>; 3],
    names: [Vec<StrIx>; 2],
}

impl Columns {
    fn int(&self, column: usize) -> i64 {
        self.ints[column].get(self.at).copied().unwrap_or(-1)
    }

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
    recording: &'r Recording<'r>,
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
    syscalls: std::collections::HashMap<i64, StrIx>,
}

impl<'r> KernelCpu<'r> {
    /// `blocks`: in order. `start`: what a gap before the first event begins with.
    pub fn new(
        recording: &'r Recording<'r>,
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
            syscalls: std::collections::HashMap::new(),
        }
    }

    /// Decodes the next block. False: there is none.
    fn read_block(&mut self, strings: &mut Strings) -> Result<bool, Error> {
        let Some(ix) = self.blocks.pop() else {
            return Ok(false);
        };
        let block = self.recording.kernel_block(ix)?;
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
        self.next = 0;
        for group in block.groups() {
            let ix = usize::from(group.event_type);
            self.kernel.counts.borrow_mut()[ix] += group.len as u64;
            self.columns[ix] = read_columns(&group, self.kernel.roles[ix], strings)?;
        }
        let machine = self.recording.meta().host.machine.clone();
        for id in self.syscall_ids() {
            self.syscalls
                .entry(id)
                .or_insert_with(|| strings.intern(&crate::syscalls::name(&machine, id)));
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

    fn syscall_ids(&self) -> Vec<i64> {
        let ix = self
            .kernel
            .roles
            .iter()
            .position(|r| *r == Role::SyscallEntry);
        let mut ids = ix.map_or(Vec::new(), |ix| self.columns[ix].ints[0].clone());
        ids.sort_unstable();
        ids.dedup();
        ids
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
        if role == Role::Other {
            return None;
        }
        let c = &mut self.columns[kind];
        let mut context = c.context.get(c.at).map_or(-1, |&tid| tid as i32);
        let mut in_interrupt = false;
        let tid = c.int(0) as i32;
        let what = match role {
            Role::Switch => {
                context = tid;
                What::Switch {
                    prev: tid,
                    prev_comm: c.name(0),
                    left_as: self.kernel.states.get(c.int(1)),
                    next: c.int(2) as i32,
                    next_comm: c.name(1),
                }
            }
            Role::Waking => {
                in_interrupt = c.int(2) & IN_INTERRUPT != 0 && !c.ints[2].is_empty();
                What::Waking {
                    tid,
                    comm: c.name(0),
                    cpu: c.int(1) as i32,
                }
            }
            Role::Migrate => What::Migrate {
                tid,
                from: c.int(1) as u16,
                to: c.int(2) as u16,
            },
            Role::Fork => What::Fork {
                parent: tid,
                child: c.int(1) as i32,
                comm: c.name(0),
                pid: None,
                same_process: None,
            },
            Role::NewTask => {
                let same = (!c.ints[1].is_empty()).then(|| c.int(1) & CLONE_THREAD != 0);
                What::Fork {
                    parent: -1,
                    child: tid,
                    comm: c.name(0),
                    pid: None,
                    same_process: same,
                }
            }
            Role::Exec => What::Exec {
                tid,
                old_tid: c.int(1) as i32,
            },
            Role::Exit => What::Exit {
                tid,
                at_once: false,
            },
            Role::Rename => What::Rename {
                tid,
                comm: c.name(0),
            },
            Role::IrqEntry => What::IrqEntry { name: c.name(0) },
            Role::IrqExit => What::IrqExit,
            Role::SoftirqEntry => What::SoftirqEntry { name: c.name(0) },
            Role::SoftirqExit => What::SoftirqExit,
            Role::SyscallEntry => What::SyscallEntry {
                name: self.syscalls.get(&c.int(0)).copied().unwrap_or(StrIx::NONE),
            },
            Role::LockBegin => {
                in_interrupt = c.int(1) & IN_INTERRUPT != 0;
                What::LockBegin { name: c.name(0) }
            }
            Role::LockEnd => {
                in_interrupt = tid & IN_INTERRUPT as i32 != 0;
                What::LockEnd
            }
            Role::SyscallExit | Role::Other => What::SyscallExit,
        };
        c.at += 1;
        Some(Event {
            time: Time(self.times[ix]),
            context,
            in_interrupt,
            what,
        })
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

/// `flags` of lock:contention_begin (LCB_F_*): spin 1, read 2, write 4, real-time 8, per CPU 16, mutex 32.
fn lock_name(flags: i64) -> &'static str {
    match flags {
        f if f & 32 != 0 => "mutex",
        f if f & 16 != 0 => "percpu rwsem",
        f if f & 8 != 0 => "rtmutex",
        3 => "rwlock read",
        5 => "rwlock write",
        f if f & 1 != 0 => "spinlock",
        2 => "rwsem read",
        4 => "rwsem write",
        _ => "semaphore",
    }
}

/// A column that the kernel's format may lack.
fn optional(column: FormatResult<Column>) -> Result<Option<Column>, Error> {
    match column {
        Ok(column) => Ok(Some(column)),
        Err(e) if e.kind == ErrorKind::Absent => Ok(None),
        Err(e) => Err(e.into()),
    }
}

fn read_columns(group: &Group<'_>, role: Role, strings: &mut Strings) -> Result<Columns, Error> {
    let mut out = Columns::default();
    let (ints, names) = fields(role);
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
    if role == Role::LockBegin {
        let name = |&flags: &i64| strings.intern(lock_name(flags));
        out.names[0] = out.ints[0].iter().map(name).collect();
    }
    if role == Role::SoftirqEntry {
        let vectors = SOFTIRQS.map(|name| strings.intern(name));
        let name = |&v: &i64| vectors.get(v as usize).copied().unwrap_or_default();
        out.names[0] = out.ints[0].iter().map(name).collect();
    }
    Ok(out)
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
