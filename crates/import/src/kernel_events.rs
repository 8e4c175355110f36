//! Turns kernel events into the [`Event`]s of the passes.
//!
//! [`Role::of`] maps the name of a tracepoint to a [`Role`]; [`Role::fields`] lists the fields that the role needs;
//! [`Role::event`] makes the event from their values. The values come through the trait [`Values`], so that one mapping
//! serves four sources:
//!
//! | source | values |
//! |---|---|
//! | columns of a recording (`recording::kernel`) | decoded by block |
//! | raw bytes of trace.dat and perf.data ([`crate::raw_events`]) | read at offsets that the event's format file gives |
//! | printed events ([`crate::text_events`]) | parsed from text |
//! | events in CTF (`ctf::kernel`): LTTng's, whose fields have other names, and perf's | read by the trace's metadata |
//!
//! Perfetto's events are typed messages; `perfetto::cpu` maps them itself.
use crate::prev_state::PrevState;
use kasuri_format::ftrace_text;
use kasuri_model::input::{Event, LockStep, What};
use kasuri_model::{SOFTIRQS, StrIx, Strings, Time};

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
    /// Entry into an interrupt without a registered handler: timer, reschedule. No pass uses it; a reader that has to
    /// follow by itself whether an interrupt is being handled does (`ctf::kernel`).
    VectorEntry,
    VectorExit,
    /// The same of a softirq.
    SoftVectorEntry,
    SoftVectorExit,
    SoftirqEntry,
    SoftirqExit,
    SyscallEntry,
    SyscallExit,
    /// lock:contention_begin: a lock inside the kernel is waited for.
    LockBegin,
    LockEnd,
    /// A uprobe on a lock function, with the function's number in the recording's list.
    LockCall(LockStep, u16),
    /// A USDT probe. What it means is in the recording's list; `recording::kernel` makes its events.
    Probe,
    /// None.
    Other,
}

/// Bits of `common_flags`: the event was raised in an interrupt, in a softirq.
pub(crate) const IN_INTERRUPT: u8 = ftrace_text::HARDIRQ | ftrace_text::NMI;
pub(crate) const IN_SOFTIRQ: u8 = ftrace_text::SOFTIRQ;
/// CLONE_THREAD in `clone_flags` (include/uapi/linux/sched.h): the new task is a thread of the same process.
const CLONE_THREAD: i64 = 0x1_0000;

/// A kernel event that the passes use.
struct Named {
    /// Its name in tracefs, `SYSTEM/EVENT`.
    tracefs: &'static str,
    /// Its name in LTTng (lttng-modules, include/instrumentation/events); "": LTTng has no such event.
    lttng: &'static str,
    role: Role,
}

/// A row of [`NAMES`].
const fn named(tracefs: &'static str, lttng: &'static str, role: Role) -> Named {
    Named { tracefs, lttng, role }
}

/// sched_wakeup: it comes later than sched_waking, and possibly from the CPU of the woken thread; better than nothing.
const LATE_WAKING: &str = "sched/sched_wakeup";

/// The events, the most frequent first: printed events look their names up one by one.
const NAMES: [Named; 19] = [
    named("sched/sched_switch", "sched_switch", Role::Switch),
    named("sched/sched_waking", "sched_waking", Role::Waking),
    named("sched/sched_stat_runtime", "sched_stat_runtime", Role::RunTime),
    named("raw_syscalls/sys_enter", "", Role::SyscallEntry),
    named("raw_syscalls/sys_exit", "", Role::SyscallExit),
    named("sched/sched_migrate_task", "sched_migrate_task", Role::Migrate),
    named("irq/softirq_entry", "irq_softirq_entry", Role::SoftirqEntry),
    named("irq/softirq_exit", "irq_softirq_exit", Role::SoftirqExit),
    named("irq/irq_handler_entry", "irq_handler_entry", Role::IrqEntry),
    named("irq/irq_handler_exit", "irq_handler_exit", Role::IrqExit),
    named("lock/contention_begin", "lock_contention_begin", Role::LockBegin),
    named("lock/contention_end", "lock_contention_end", Role::LockEnd),
    named(LATE_WAKING, "sched_wakeup", Role::Waking),
    named("sched/sched_wakeup_new", "sched_wakeup_new", Role::Waking),
    named("sched/sched_process_fork", "sched_process_fork", Role::Fork),
    named("sched/sched_process_exec", "sched_process_exec", Role::Exec),
    named("sched/sched_process_exit", "sched_process_exit", Role::Exit),
    named("task/task_newtask", "", Role::NewTask),
    named("task/task_rename", "task_rename", Role::Rename),
];

impl Role {
    /// The role of the first event of [`NAMES`] that is meant. `has_waking`: sched_waking was recorded too.
    fn of_named(has_waking: bool, is_meant: impl Fn(&Named) -> bool) -> Option<Role> {
        let event = NAMES.iter().find(|event| is_meant(event))?;
        let is_needed = event.tracefs != LATE_WAKING || !has_waking;
        is_needed.then_some(event.role)
    }

    /// The role of the type with this name, `SYSTEM/EVENT`. `has_waking`: sched_waking was recorded too.
    pub fn of(name: &str, has_waking: bool) -> Role {
        Role::of_named(has_waking, |event| event.tracefs == name)
            .or_else(|| Role::of_uprobe(name))
            .unwrap_or(Role::Other)
    }

    /// The role of a type of which only the event's name is known, without its system, as the kernel prints it.
    pub fn of_printed(name: &str, has_waking: bool) -> Role {
        let is_meant = |event: &Named| event.tracefs.rsplit_once('/').is_some_and(|e| e.1 == name);
        Role::of_named(has_waking, is_meant).unwrap_or(Role::Other)
    }

    /// The role of an event in CTF: LTTng's names, and perf's (`perf data convert --to-ctf`), which are tracefs's with a colon.
    pub fn of_ctf(name: &str, has_waking: bool) -> Role {
        match name.split_once(':') {
            Some((system, event)) => Role::of(&format!("{system}/{event}"), has_waking),
            None => Role::of_lttng(name, has_waking),
        }
    }

    /// The role of LTTng's event with this name. It names system calls, and interrupts without a handler, one by one; before LTTng 2.6
    /// the entry of a system call was `sys_NAME` and the exit of any `exit_syscall`.
    fn of_lttng(name: &str, has_waking: bool) -> Role {
        match name {
            _ if syscall_of_lttng(name).is_some() => Role::SyscallEntry,
            _ if without_compat(name).starts_with("syscall_exit_") => Role::SyscallExit,
            "exit_syscall" => Role::SyscallExit,
            "softirq_entry" => Role::SoftirqEntry,
            "softirq_exit" => Role::SoftirqExit,
            "kasuri_softirq_entry" => Role::SoftVectorEntry,
            "kasuri_softirq_exit" => Role::SoftVectorExit,
            _ if name.contains("irq_vectors_") && name.ends_with("_entry") => Role::VectorEntry,
            _ if name.contains("irq_vectors_") && name.ends_with("_exit") => Role::VectorExit,
            "" => Role::Other,
            _ => Role::of_named(has_waking, |event| event.lttng == name).unwrap_or(Role::Other),
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

    /// Whether an event of this role that comes as text is one of a pass's. The others are found in
    /// recordings alone, or only by readers that follow interrupts themselves.
    pub const fn is_used_as_text(self) -> bool {
        !matches!(
            self,
            Role::VectorEntry
                | Role::VectorExit
                | Role::SoftVectorEntry
                | Role::SoftVectorExit
                | Role::LockCall(..)
                | Role::Probe
                | Role::Other
        )
    }

    /// The fields that the role needs: first numbers, then names (of threads, or of an interrupt handler).
    pub const fn fields(self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            Role::Switch => (&["prev_pid", "prev_state", "next_pid"], &["prev_comm", "next_comm"]),
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
            Role::IrqExit | Role::SoftirqExit | Role::SyscallExit => (&[], &[]),
            Role::VectorEntry
            | Role::VectorExit
            | Role::SoftVectorEntry
            | Role::SoftVectorExit
            | Role::Probe
            | Role::Other => (&[], &[]),
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

/// An event's name in LTTng without the word that says that a program of 32 bits made the call.
fn without_compat(name: &str) -> &str {
    name.strip_prefix("compat_").unwrap_or(name)
}

/// The name of the system call that LTTng's event is the entry of.
pub(crate) fn syscall_of_lttng(name: &str) -> Option<&str> {
    let name = without_compat(name);
    name.strip_prefix("syscall_entry_").or_else(|| name.strip_prefix("sys_"))
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
        let thread_event = self.thread_event(values, states);
        let what = thread_event.or_else(|| self.span_event(values))?;
        let context = match what {
            What::Switch { prev, .. } => Some(prev),
            _ => values.context(),
        };
        Some(Event {
            time,
            context: context.unwrap_or(-1),
            in_interrupt: self.in_interrupt(values),
            what,
        })
    }

    /// Whether the event was raised in an interrupt. Only asked where the interrupted thread must not be taken for the
    /// one that acts: it neither woke the other thread nor waits for the lock.
    #[inline(always)]
    fn in_interrupt<V: Values>(self, values: &V) -> bool {
        let flags = match self {
            Role::Waking => values.int(2),
            Role::LockBegin => values.int(1),
            Role::LockEnd => values.int(0),
            _ => None,
        };
        flags.is_some_and(|flags| flags & i64::from(IN_INTERRUPT) != 0)
    }

    /// What happened to a thread: it ran, was woken, moved, began, changed its name, ended.
    #[inline(always)]
    fn thread_event<V: Values>(self, values: &V, states: &PrevState) -> Option<What> {
        let int = |field| values.int(field).unwrap_or(-1);
        let tid = int(0) as i32;
        Some(match self {
            Role::Switch => What::Switch {
                prev: tid,
                prev_comm: values.name(0),
                left_as: states.get(int(1)),
                next: int(2) as i32,
                next_comm: values.name(1),
            },
            Role::Waking => What::Waking {
                tid,
                comm: values.name(0),
                cpu: int(1) as i32,
                in_softirq: values.int(2).is_some_and(|flags| flags & i64::from(IN_SOFTIRQ) != 0),
            },
            Role::Migrate => What::Migrate { tid, from: int(1) as u16, to: int(2) as u16 },
            Role::Fork => What::Fork {
                parent: tid,
                child: int(1) as i32,
                comm: values.name(0),
                pid: None,
                same_process: None,
            },
            Role::NewTask => What::Fork {
                parent: -1,
                child: tid,
                comm: values.name(0),
                pid: None,
                same_process: values.int(1).map(|flags| flags & CLONE_THREAD != 0),
            },
            Role::Exec => What::Exec { tid, old_tid: int(1) as i32 },
            Role::Exit => What::Exit { tid, at_once: false },
            Role::Rename => What::Rename { tid, comm: values.name(0) },
            Role::RunTime => What::RunTime { tid, ns: int(1).clamp(0, i64::from(u32::MAX)) as u32 },
            _ => return None,
        })
    }

    /// What a thread or its CPU began or ended meanwhile: an interrupt, a system call, a wait or a hold of a lock.
    #[inline(always)]
    fn span_event<V: Values>(self, values: &V) -> Option<What> {
        let name = || values.name(0);
        Some(match self {
            Role::IrqEntry => What::IrqEntry { name: name() },
            Role::IrqExit => What::IrqExit,
            Role::SoftirqEntry => What::SoftirqEntry { name: name() },
            Role::SoftirqExit => What::SoftirqExit,
            Role::SyscallEntry => What::SyscallEntry { name: name() },
            Role::SyscallExit => What::SyscallExit,
            Role::LockBegin => What::LockBegin { name: name() },
            Role::LockEnd => What::LockEnd,
            Role::LockCall(step, function) => What::LockCall {
                step,
                function,
                // A function without a lock argument stands for one lock.
                object: (values.int(0)).map_or(u64::from(function) + 1, |lock| lock as u64),
                name: name(),
            },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lttng_named_system_calls_and_softirqs_otherwise_before() {
        for (now, before) in [
            ("syscall_entry_futex", "sys_futex"),
            ("compat_syscall_entry_futex", "compat_sys_futex"),
            ("compat_syscall_exit_futex", "exit_syscall"),
            ("irq_softirq_entry", "softirq_entry"),
            ("irq_softirq_exit", "softirq_exit"),
        ] {
            let role = Role::of_lttng(now, true);
            assert_ne!(role, Role::Other, "{now}");
            assert_eq!(Role::of_lttng(before, true), role, "{before}");
            assert_eq!(syscall_of_lttng(before), syscall_of_lttng(now));
        }
        assert_eq!(Role::of_lttng("irq_softirq_raise", true), Role::Other);
    }
}
