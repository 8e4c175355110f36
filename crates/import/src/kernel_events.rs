//! Turns kernel events into the [`Event`]s of the passes.
//!
//! [`Role::of`] maps the name of a tracepoint to a [`Role`]; [`Role::fields`] lists the fields that the role needs;
//! [`Role::event`] makes the event from their values. The values come through the trait [`Values`], so that one mapping
//! serves three sources:
//!
//! | source | values |
//! |---|---|
//! | columns of a recording (`recording::kernel`) | decoded by block |
//! | raw bytes of trace.dat and perf.data ([`RawEvents`]) | read at offsets that the event's format file gives |
//! | printed events ([`crate::text_events`]) | parsed from text |
//!
//! CTF and Perfetto have names and fields of their own, and map their events themselves.
//!
//! Raw decoding is the hot path of large files: it looks up the type by id, reads at most three numbers at fixed
//! offsets, and resolves names through a small direct-mapped cache.
use crate::prev_state::PrevState;
use kasuri_format::tracefs::{EventFormat, Field, FieldKind};
use kasuri_model::input::{Event, LockStep, What};
use kasuri_model::{SOFTIRQS, StrIx, Strings, Time};
use std::collections::HashMap;

/// The use that the passes have for an event type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    Switch,
    Waking,
    Migrate,
    Fork,
    /// task_newtask: a fork with `clone_flags`, which distinguish a thread from a process.
    NewTask,
    Exec,
    Exit,
    Rename,
    /// sched_stat_runtime: CPU time of a thread since the previous such event.
    RunTime,
    IrqEntry,
    IrqExit,
    SoftirqEntry,
    SoftirqExit,
    SyscallEntry,
    SyscallExit,
    /// lock:contention_begin: a lock inside the kernel is waited for.
    LockBegin,
    LockEnd,
    /// A uprobe on a lock function, with the function's number in the recording's list.
    LockCall(LockStep, u16),
    /// None.
    Other,
}

/// Bits of `common_flags` (include/linux/trace_events.h): the event was raised in a hardware interrupt
/// (TRACE_FLAG_HARDIRQ) or in an NMI (TRACE_FLAG_NMI).
const IN_INTERRUPT: i64 = 0x08 | 0x40;
/// CLONE_THREAD in `clone_flags` (include/uapi/linux/sched.h): the new task is a thread of the same process.
const CLONE_THREAD: i64 = 0x1_0000;
impl Role {
    /// The role of the type with this name, `SYSTEM/EVENT`. `has_waking`: sched_waking was recorded too.
    pub fn of(name: &str, has_waking: bool) -> Role {
        match name {
            "sched/sched_switch" => Role::Switch,
            "sched/sched_waking" | "sched/sched_wakeup_new" => Role::Waking,
            // It comes later than sched_waking, and possibly from the CPU of the woken thread; better than nothing.
            "sched/sched_wakeup" if !has_waking => Role::Waking,
            "sched/sched_migrate_task" => Role::Migrate,
            "sched/sched_process_fork" => Role::Fork,
            "sched/sched_process_exec" => Role::Exec,
            "sched/sched_process_exit" => Role::Exit,
            "task/task_newtask" => Role::NewTask,
            "task/task_rename" => Role::Rename,
            "sched/sched_stat_runtime" => Role::RunTime,
            "irq/irq_handler_entry" => Role::IrqEntry,
            "irq/irq_handler_exit" => Role::IrqExit,
            "irq/softirq_entry" => Role::SoftirqEntry,
            "irq/softirq_exit" => Role::SoftirqExit,
            "raw_syscalls/sys_enter" => Role::SyscallEntry,
            "raw_syscalls/sys_exit" => Role::SyscallExit,
            "lock/contention_begin" => Role::LockBegin,
            "lock/contention_end" => Role::LockEnd,
            _ => Role::of_uprobe(name).unwrap_or(Role::Other),
        }
    }

    /// The role of a uprobe: `kasuri_PID_NUMBER/lock_STEP_FUNCTION`, as the recorder names its probes
    /// (crates/record/src/kernel/uprobes.rs).
    fn of_uprobe(name: &str) -> Option<Role> {
        let (group, event) = name.split_once('/')?;
        let (step, function) = event.strip_prefix("lock_")?.split_once('_')?;
        let step = match step {
            "request" => LockStep::Request,
            "acquired" => LockStep::Acquired,
            "released" => LockStep::Released,
            _ => return None,
        };
        group.strip_prefix("kasuri_")?;
        Some(Role::LockCall(step, function.parse().ok()?))
    }

    /// The fields that the role needs: first numbers, then names (of threads, or of an interrupt handler).
    pub const fn fields(self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
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
            Role::RunTime => (&["pid", "runtime"], &[]),
            Role::IrqEntry => (&["irq"], &["name"]),
            Role::SoftirqEntry => (&["vec"], &[]),
            Role::SyscallEntry => (&["id"], &[]),
            Role::LockBegin => (&["flags", "common_flags"], &[]),
            Role::LockEnd => (&["common_flags"], &[]),
            Role::LockCall(..) => (&["lock"], &[]),
            Role::IrqExit | Role::SoftirqExit | Role::SyscallExit | Role::Other => (&[], &[]),
        }
    }

    /// The name for the first number, if the role has one: of a softirq, a kind of lock, a system call.
    pub fn name_of(self, number: i64, machine: &str, strings: &mut Strings) -> Option<StrIx> {
        match self {
            Role::SoftirqEntry => {
                let name = usize::try_from(number).ok().and_then(|n| SOFTIRQS.get(n));
                Some(name.map_or(StrIx::NONE, |name| strings.intern(name)))
            }
            Role::LockBegin => Some(strings.intern(lock_name(number))),
            Role::SyscallEntry => Some(strings.intern(&crate::syscalls::name(machine, number))),
            _ => None,
        }
    }
}

/// The kind of lock for `flags` of lock:contention_begin (LCB_F_* in include/trace/events/lock.h): spin 1, read 2,
/// write 4, real-time 8, per CPU 16, mutex 32. A semaphore has none of them.
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

/// The field values of one event, in the order of [`Role::fields`].
pub(crate) trait Values {
    /// `common_pid`, if it is known. A switch does not need it: its context is the thread that leaves.
    fn context(&self) -> Option<i32>;
    /// A number; none: the kernel's format lacks the field.
    fn int(&self, field: usize) -> Option<i64>;
    /// A name, or the one of [`Role::name_of`].
    fn name(&self, field: usize) -> StrIx;
}

impl Role {
    /// The event of the passes; none: no pass uses it.
    #[inline(always)]
    pub fn event<V: Values>(self, time: Time, values: &V, states: &PrevState) -> Option<Event> {
        let int = |field| values.int(field).unwrap_or(-1);
        let flagged = |field| values.int(field).is_some_and(|f| f & IN_INTERRUPT != 0);
        let mut in_interrupt = false;
        let mut context = None;
        let what = match self {
            Role::Switch => {
                let prev = int(0) as i32;
                context = Some(prev);
                What::Switch {
                    prev,
                    prev_comm: values.name(0),
                    left_as: states.get(int(1)),
                    next: int(2) as i32,
                    next_comm: values.name(1),
                }
            }
            Role::Waking => {
                in_interrupt = flagged(2);
                What::Waking {
                    tid: int(0) as i32,
                    comm: values.name(0),
                    cpu: int(1) as i32,
                }
            }
            Role::Migrate => What::Migrate {
                tid: int(0) as i32,
                from: int(1) as u16,
                to: int(2) as u16,
            },
            Role::Fork => What::Fork {
                parent: int(0) as i32,
                child: int(1) as i32,
                comm: values.name(0),
                pid: None,
                same_process: None,
            },
            Role::NewTask => What::Fork {
                parent: -1,
                child: int(0) as i32,
                comm: values.name(0),
                pid: None,
                same_process: values.int(1).map(|flags| flags & CLONE_THREAD != 0),
            },
            Role::Exec => What::Exec {
                tid: int(0) as i32,
                old_tid: int(1) as i32,
            },
            Role::Exit => What::Exit {
                tid: int(0) as i32,
                at_once: false,
            },
            Role::Rename => What::Rename {
                tid: int(0) as i32,
                comm: values.name(0),
            },
            Role::RunTime => What::RunTime {
                tid: int(0) as i32,
                ns: values
                    .int(1)
                    .map_or(0, |ns| ns.clamp(0, i64::from(u32::MAX)) as u32),
            },
            Role::IrqEntry => What::IrqEntry {
                name: values.name(0),
            },
            Role::IrqExit => What::IrqExit,
            Role::SoftirqEntry => What::SoftirqEntry {
                name: values.name(0),
            },
            Role::SoftirqExit => What::SoftirqExit,
            Role::SyscallEntry => What::SyscallEntry {
                name: values.name(0),
            },
            Role::SyscallExit => What::SyscallExit,
            Role::LockBegin => {
                in_interrupt = flagged(1);
                What::LockBegin {
                    name: values.name(0),
                }
            }
            Role::LockEnd => {
                in_interrupt = flagged(0);
                What::LockEnd
            }
            Role::LockCall(step, function) => What::LockCall {
                step,
                function,
                // A function without a lock argument stands for one lock.
                object: values
                    .int(0)
                    .map_or(u64::from(function) + 1, |lock| lock as u64),
                name: values.name(0),
            },
            Role::Other => return None,
        };
        Some(Event {
            time,
            context: context.or_else(|| values.context()).unwrap_or(-1),
            in_interrupt,
            what,
        })
    }
}

/// Position and type of a number in a raw event.
#[derive(Clone, Copy, Debug)]
struct Number {
    offset: u32,
    size: u8,
    signed: bool,
}

impl Number {
    /// The field with this name; none: there is none, or it is no number.
    fn of(format: &EventFormat, name: &str) -> Option<Number> {
        let field = &format.fields[format.find(name)?];
        (field.kind == FieldKind::Int).then_some(Number {
            offset: field.offset,
            size: field.size as u8,
            signed: field.signed,
        })
    }

    /// Reads the number. Sizes other than 2, 4 and 8 are read as one byte.
    #[inline(always)]
    fn read(self, data: &[u8], big_endian: bool) -> Option<i64> {
        let rest = data.get(self.offset as usize..)?;
        Some(match self.size {
            4 => {
                let b = *rest.first_chunk()?;
                let v = if big_endian {
                    u32::from_be_bytes(b)
                } else {
                    u32::from_le_bytes(b)
                };
                if self.signed {
                    i64::from(v as i32)
                } else {
                    i64::from(v)
                }
            }
            8 => {
                let b = *rest.first_chunk()?;
                if big_endian {
                    i64::from_be_bytes(b)
                } else {
                    i64::from_le_bytes(b)
                }
            }
            2 => {
                let b = *rest.first_chunk()?;
                let v = if big_endian {
                    u16::from_be_bytes(b)
                } else {
                    u16::from_le_bytes(b)
                };
                if self.signed {
                    i64::from(v as i16)
                } else {
                    i64::from(v)
                }
            }
            _ => {
                let v = *rest.first()?;
                if self.signed {
                    i64::from(v as i8)
                } else {
                    i64::from(v)
                }
            }
        })
    }
}

/// One event type, prepared for decoding.
#[derive(Clone, Debug)]
struct RawType {
    role: Role,
    /// Length of the fixed part; a shorter event is damaged.
    bytes: u32,
    context: Option<Number>,
    ints: [Option<Number>; 3],
    names: [Option<Field>; 2],
}

impl RawType {
    fn new(format: &EventFormat, role: Role) -> RawType {
        let (ints, names) = role.fields();
        let mut out = RawType {
            role,
            bytes: format.fixed_bytes,
            context: Number::of(format, "common_pid"),
            ints: [None; 3],
            names: [None, None],
        };
        for (to, name) in out.ints.iter_mut().zip(ints) {
            *to = Number::of(format, name);
        }
        for (to, name) in out.names.iter_mut().zip(names) {
            *to = format.find(name).map(|ix| format.fields[ix].clone());
        }
        out
    }
}

/// A direct-mapped cache from the 16 bytes of a name (TASK_COMM_LEN), as events hold it, to its string. Looking up each
/// name among all strings would cost more than the rest of decoding.
///
/// The slot is chosen by a multiplicative hash of the folded bytes; a collision replaces the slot. The initial slots
/// are valid, too: 16 zero bytes are the empty name.
#[derive(Clone, Debug)]
struct RecentNames {
    slots: Vec<(u128, StrIx)>,
}

const RECENT: usize = 1024;

impl RecentNames {
    fn new() -> RecentNames {
        RecentNames {
            slots: vec![(0, StrIx::NONE); RECENT],
        }
    }

    #[inline]
    fn get(&mut self, bytes: [u8; 16], strings: &mut Strings) -> StrIx {
        let key = u128::from_ne_bytes(bytes);
        let folded = (key as u64 ^ (key >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let slot = &mut self.slots[(folded >> 54) as usize % RECENT];
        if slot.0 != key {
            *slot = (key, intern(&bytes, strings));
        }
        slot.1
    }
}

/// The text up to the first zero.
fn intern(bytes: &[u8], strings: &mut Strings) -> StrIx {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    match String::from_utf8_lossy(&bytes[..end]).as_ref() {
        "" => StrIx::NONE,
        text => strings.intern(text),
    }
}

/// Decodes events in the layout of the kernel's ring buffer: those of `trace.dat`, and raw samples of `perf.data`. Each
/// CPU has a decoder of its own, as it caches names.
#[derive(Clone, Debug)]
pub struct RawEvents {
    types: Vec<RawType>,
    /// The index in `types` by event id; `u16::MAX`: the type is not used.
    by_id: Vec<u16>,
    states: PrevState,
    big_endian: bool,
    machine: String,
    recent: RecentNames,
    /// Names by type index and number: system calls, softirqs, kinds of locks.
    numbered: HashMap<(u16, i64), StrIx>,
}

/// Facts that a [`RawEvents`] needs besides the formats.
#[derive(Clone, Debug, Default)]
pub struct RawSetup<'a> {
    /// Numbers are stored big-endian.
    pub big_endian: bool,
    /// `uname -m`, which selects the table of system calls; "": unknown.
    pub machine: &'a str,
    /// sched_waking was recorded; otherwise sched_wakeup stands in for it.
    pub has_waking: bool,
    /// Text of sched_switch's format file, which defines `prev_state`; "": unknown.
    pub switch_format: &'a str,
}

impl RawEvents {
    /// A decoder for events of these types. Events of other types are skipped.
    pub fn new(formats: &[EventFormat], setup: &RawSetup<'_>) -> RawEvents {
        let mut out = RawEvents {
            types: Vec::new(),
            by_id: Vec::new(),
            states: PrevState::from_format(setup.switch_format),
            big_endian: setup.big_endian,
            machine: setup.machine.to_owned(),
            recent: RecentNames::new(),
            numbered: HashMap::new(),
        };
        for format in formats {
            let role = Role::of(&format.name, setup.has_waking);
            if role == Role::Other {
                continue;
            }
            let id = usize::from(format.id);
            if out.by_id.len() <= id {
                out.by_id.resize(id + 1, u16::MAX);
            }
            out.by_id[id] = out.types.len() as u16;
            out.types.push(RawType::new(format, role));
        }
        out
    }

    /// The event of the passes for a raw event of type `id`; none: no pass uses it, or it is shorter than its type.
    #[inline]
    pub fn event(
        &mut self,
        time: Time,
        id: u16,
        data: &[u8],
        strings: &mut Strings,
    ) -> Option<Event> {
        let ix = *self.by_id.get(usize::from(id))?;
        let kind = self.types.get(usize::from(ix))?;
        if data.len() < kind.bytes as usize {
            return None;
        }
        let mut names = [StrIx::NONE; 2];
        for (out, field) in names.iter_mut().zip(&kind.names) {
            let Some(field) = field else { break };
            let bytes = field.bytes(data, self.big_endian)?;
            *out = match bytes.first_chunk::<16>() {
                Some(name) if bytes.len() == 16 => self.recent.get(*name, strings),
                _ => intern(bytes, strings),
            };
        }
        if matches!(
            kind.role,
            Role::SoftirqEntry | Role::SyscallEntry | Role::LockBegin
        ) {
            let number = kind.ints[0].and_then(|n| n.read(data, self.big_endian));
            let number = number.unwrap_or(-1);
            let (role, machine) = (kind.role, &self.machine);
            names[0] = *self.numbered.entry((ix, number)).or_insert_with(|| {
                role.name_of(number, machine, strings)
                    .unwrap_or(StrIx::NONE)
            });
        }
        let values = RawValues {
            kind,
            data,
            names,
            big_endian: self.big_endian,
        };
        kind.role.event(time, &values, &self.states)
    }
}

/// The values of one raw event: numbers are read on demand, names are resolved beforehand.
struct RawValues<'a> {
    kind: &'a RawType,
    data: &'a [u8],
    names: [StrIx; 2],
    big_endian: bool,
}

impl Values for RawValues<'_> {
    #[inline(always)]
    fn context(&self) -> Option<i32> {
        let context = self.kind.context?.read(self.data, self.big_endian)?;
        Some(context as i32)
    }

    #[inline(always)]
    fn int(&self, field: usize) -> Option<i64> {
        self.kind.ints[field]?.read(self.data, self.big_endian)
    }

    #[inline(always)]
    fn name(&self, field: usize) -> StrIx {
        self.names[field]
    }
}
