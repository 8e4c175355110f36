//! Kernel events that come as text, mapped like all others by [`crate::kernel_events`].
//!
//! The kernel prints `prev_comm=sh prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=x next_pid=3 next_prio=120`;
//! `trace-cmd report` prints sched_switch and the wake-ups in its own way, `sh:7 [120] S ==> x:3 [120]`. Both are read, and what
//! `trace-cmd report -R` and old versions print: the fields alone, without `==>` and with a number for `prev_state`.
//!
//! Names of threads are the difficulty: they may hold spaces, `=`, and even ` prev_pid=`. A name is therefore taken
//! between its key and the *last* following key, and a number is taken from the last occurrence of its key. A text
//! that does not fit is skipped: the event is not one that a pass can use.
use crate::kernel_events::{Role, Values};
use crate::prev_state::PrevState;
use kasuri_model::input::Event;
use kasuri_model::{StrIx, Strings, Time};

/// One event as text, printed by the kernel or by a plugin of trace-cmd.
#[derive(Clone, Copy, Debug)]
pub struct TextEvent<'a> {
    /// The event's name without its system, such as `sched_switch`.
    pub name: &'a str,
    /// The text after the name and its colon.
    pub text: &'a str,
    /// The stamp.
    pub time: Time,
    /// The thread that was on the CPU.
    pub context: i32,
    /// `common_flags`, of which a line says only where it was raised.
    pub flags: u8,
}

/// Decodes such events.
#[derive(Clone, Debug)]
pub struct TextEvents {
    /// Letters are turned into the bits of the newest kernel, whatever kernel printed them.
    states: PrevState,
    /// Numbers for `prev_state` are those of a kernel before 4.14: the bit of a thread that was preempted; 0: of a newer one.
    old_preempted: i64,
    has_waking: bool,
    /// `uname -m`, for the names of system calls; "": unknown.
    machine: String,
}

/// The values of one event, parsed from its text.
struct Found {
    context: i32,
    ints: [Option<i64>; 3],
    names: [StrIx; 2],
}

impl Values for Found {
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

impl TextEvents {
    /// `has_waking`: sched_waking was recorded; otherwise sched_wakeup stands in for it. `machine`: `uname -m`; "":
    /// unknown.
    pub fn new(has_waking: bool, machine: &str) -> TextEvents {
        TextEvents {
            states: PrevState::newest(),
            old_preempted: 0,
            has_waking,
            machine: machine.to_owned(),
        }
    }

    /// `state`: all bits that numbers for `prev_state` have in the trace. Kernels before 4.14 have more of them, and the highest is that of a
    /// thread that was preempted.
    pub fn with_state_bits(mut self, states: i64) -> TextEvents {
        let highest = [4096, 2048, 1024].into_iter().find(|bit| states & bit != 0);
        self.old_preempted = highest.unwrap_or(0);
        self
    }

    /// Whether a pass uses events of this name; if so, one whose text is not understood is missing.
    pub fn is_used(&self, name: &str) -> bool {
        Role::of_printed(name, self.has_waking).is_used_as_text()
    }

    /// The event of the passes; none: no pass uses it, or its text is not understood.
    pub fn event(&self, event: &TextEvent<'_>, strings: &mut Strings) -> Option<Event> {
        let role = Role::of_printed(event.name, self.has_waking);
        let mut found = Found { context: event.context, ints: [None; 3], names: [StrIx::NONE; 2] };
        match role {
            _ if !role.is_used_as_text() => return None,
            _ if is_of_cpu(role) => self.fill_span(&mut found, role, event, strings)?,
            _ => {
                fill_thread(&mut found, role, event, strings)?;
                found.ints[0]?;
            }
        }
        if role == Role::Switch {
            // Without the thread that came nobody would be on the CPU.
            found.ints[2]?;
            if let Some(number) = state_number(event.text) {
                found.ints[1] = Some(newest_state(number, self.old_preempted));
            }
        }
        role.event(event.time, &found, &self.states)
    }

    /// The values of an event about an interrupt, a system call or a kernel lock.
    fn fill_span(
        &self,
        found: &mut Found,
        role: Role,
        event: &TextEvent<'_>,
        strings: &mut Strings,
    ) -> Option<()> {
        let text = event.text;
        let mut numbered = |number| role.name_of(number, &self.machine, strings);
        match role {
            Role::IrqEntry => {
                found.names[0] = name(text.split_once("name=")?.1.trim_end(), strings);
            }
            Role::SoftirqEntry => found.names[0] = numbered(int(text, "vec")?)?,
            Role::SyscallEntry => {
                let number = text.strip_prefix("NR ")?.split(' ').next()?;
                found.names[0] = numbered(number.parse().ok()?)?;
            }
            Role::LockBegin => {
                found.ints[1] = Some(event.flags.into());
                found.names[0] = numbered(lock_flags(between(text, "flags=", ")")?))?;
            }
            Role::LockEnd => found.ints[0] = Some(event.flags.into()),
            _ => {}
        }
        Some(())
    }
}

/// Whether the role's first value is no thread.
fn is_of_cpu(role: Role) -> bool {
    matches!(
        role,
        Role::IrqEntry
            | Role::IrqExit
            | Role::SoftirqEntry
            | Role::SoftirqExit
            | Role::SyscallEntry
            | Role::SyscallExit
            | Role::LockBegin
            | Role::LockEnd
    )
}

/// The values of an event about a thread: first its number.
fn fill_thread(
    found: &mut Found,
    role: Role,
    event: &TextEvent<'_>,
    strings: &mut Strings,
) -> Option<()> {
    let text = event.text;
    let int = |key| int(text, key);
    let (ints, names) = (&mut found.ints, &mut found.names);
    match role {
        Role::Switch => {
            let (prev, next) = switch(text)?;
            *ints = [Some(prev.tid), Some(prev.state), Some(next.tid)];
            *names = [prev.comm, next.comm].map(|comm| name(comm, strings));
        }
        Role::Waking => {
            let (comm, tid, cpu) = waking(text)?;
            *ints = [Some(tid), cpu, Some(event.flags.into())];
            names[0] = name(comm, strings);
        }
        Role::Migrate => *ints = [int("pid"), int("orig_cpu"), int("dest_cpu")],
        Role::Fork => {
            *ints = [int("pid"), int("child_pid"), None];
            names[0] = name(between(text, "child_comm=", " child_pid=")?, strings);
        }
        Role::NewTask => {
            let clone_flags = value(text, "clone_flags")?;
            let clone_flags = i64::from_str_radix(clone_flags.trim_start_matches("0x"), 16);
            *ints = [int("pid"), clone_flags.ok(), None];
            names[0] = name(between(text, "comm=", " clone_flags=")?, strings);
        }
        Role::Exec => *ints = [int("pid"), int("old_pid"), None],
        Role::Rename => {
            ints[0] = int("pid");
            names[0] = name(between(text, "newcomm=", " oom_score_adj=")?, strings);
        }
        Role::RunTime => *ints = [int("pid"), Some(int("runtime")?), None],
        _ => ints[0] = int("pid"),
    }
    Some(())
}

/// A name as a string; an empty one is none.
fn name(text: &str, strings: &mut Strings) -> StrIx {
    match text {
        "" => StrIx::NONE,
        text => strings.intern(text),
    }
}

/// The value of the last ` key=value`: a name before it may hold anything. It ends at a space or a parenthesis.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let mut end = text.len();
    while let Some(at) = text[..end].rfind(key) {
        let before = text[..at].chars().next_back().is_none_or(|c| c == ' ');
        if let Some(rest) = text[at + key.len()..].strip_prefix('=')
            && before
        {
            return rest.split([' ', ')']).next();
        }
        end = at;
    }
    None
}

/// The value of a key as a number.
fn int(text: &str, key: &str) -> Option<i64> {
    number(value(text, key)?)
}

/// A decimal number, or one with `0x` in front.
fn number(text: &str) -> Option<i64> {
    match text.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// `prev_state` of a switch, where it was printed as a number.
pub(crate) fn state_number(text: &str) -> Option<i64> {
    let prev = text.split(" next_comm=").next()?;
    number(value(prev, "prev_state")?)
}

/// The bits of the newest kernel for a number of `prev_state`. `old_preempted` as in [`TextEvents`].
fn newest_state(state: i64, old_preempted: i64) -> i64 {
    if old_preempted == 0 {
        return state;
    }
    // Until 4.13 (include/linux/sched.h): EXIT_DEAD 16, EXIT_ZOMBIE 32, TASK_DEAD 64, TASK_PARKED 512.
    let is = |bits: i64, new: i64| if state & bits != 0 { new } else { 0 };
    is(old_preempted, 0x100) | (state & 0xf) | is(16 | 64, 0x10) | is(32, 0x20) | is(512, 0x40)
}

/// The text from the first `from` to the last `to` after it.
fn between<'a>(text: &'a str, from: &str, to: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(from)?;
    Some(&rest[..rest.rfind(to)?])
}

/// One of the two threads of a switch; `state` is that of the thread that leaves.
struct Side<'a> {
    comm: &'a str,
    tid: i64,
    state: i64,
}

/// Parses a switch: `prev_comm=sh prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=x next_pid=3 next_prio=120`, or
/// trace-cmd's `sh:7 [120] S ==> x:3 [120]`.
fn switch(text: &str) -> Option<(Side<'_>, Side<'_>)> {
    let side = |text, comm: &str, tid: &str, state: &str| -> Option<Side<'_>> {
        Some(Side {
            comm: between(text, &format!("{comm}="), &format!(" {tid}="))?,
            tid: int(text, tid)?,
            state: match state {
                "" => 0,
                state => state_bits(value(text, state)?),
            },
        })
    };
    if text.starts_with("prev_comm=") {
        let arrow = text.rfind(" ==> next_comm=");
        let (prev, next) = text.split_at(arrow.or_else(|| text.rfind(" next_comm="))?);
        let prev = side(prev, "prev_comm", "prev_pid", "prev_state")?;
        return Some((prev, side(next, "next_comm", "next_pid", "")?));
    }
    let (prev, next) = text.rsplit_once(" ==> ")?;
    let (comm, tid, state) = plugin(prev)?;
    let prev = Side { comm, tid, state: state_bits(state) };
    let (comm, tid, _) = plugin(next)?;
    Some((prev, Side { comm, tid, state: 0 }))
}

/// Parses `sh:7 [120] S` into the name, the thread id and the rest.
fn plugin(text: &str) -> Option<(&str, i64, &str)> {
    // From the end: a thread's name may hold brackets and colons.
    let (who, rest) = text.rsplit_once(" [")?;
    let (comm, tid) = who.rsplit_once(':')?;
    let (_, rest) = rest.split_once(']')?;
    Some((comm, tid.parse().ok()?, rest.trim()))
}

/// Parses `comm=sh pid=7 prio=120 target_cpu=001`, or trace-cmd's `sh:7 [120] CPU:001`, into name, thread id and CPU.
fn waking(text: &str) -> Option<(&str, i64, Option<i64>)> {
    if text.starts_with("comm=") {
        let comm = between(text, "comm=", " pid=")?;
        return Some((comm, int(text, "pid")?, int(text, "target_cpu")));
    }
    let (comm, tid, rest) = plugin(text)?;
    let cpu = rest.rsplit_once("CPU:").and_then(|(_, cpu)| cpu.trim().parse().ok());
    Some((comm, tid, cpu))
}

/// The bits of the letters of `prev_state`, as [`PrevState::newest`] numbers them. "R" has no bit.
fn state_bits(text: &str) -> i64 {
    // task_state_array of fs/proc/array.c, and `+` for a thread that was preempted.
    let bit = |letter| match letter {
        'S' => 1,
        'D' => 2,
        'T' => 4,
        't' => 8,
        'X' | 'x' => 0x10,
        'Z' => 0x20,
        'P' => 0x40,
        'I' => 0x80,
        '+' => 0x100,
        _ => 0,
    };
    text.chars().map(bit).fold(0, |all, bit| all | bit)
}

/// The bits of `SPIN|READ`, as LCB_F_* numbers them. The kernel prints bits without a name in hexadecimal.
fn lock_flags(text: &str) -> i64 {
    let bit = |word: &str| match word.trim() {
        "SPIN" => 1,
        "READ" => 2,
        "WRITE" => 4,
        "RT" => 8,
        "PERCPU" => 16,
        "MUTEX" => 32,
        word => {
            word.strip_prefix("0x").and_then(|hex| i64::from_str_radix(hex, 16).ok()).unwrap_or(0)
        }
    };
    text.split('|').map(bit).fold(0, |all, bit| all | bit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kasuri_model::ThreadState;
    use kasuri_model::input::What;

    fn what(name: &str, text: &str) -> Option<(What, Strings)> {
        let mut strings = Strings::default();
        let event = TextEvent { name, text, time: Time(5), context: 9, flags: 0 };
        let event = TextEvents::new(true, "x86_64").event(&event, &mut strings)?;
        Some((event.what, strings))
    }

    #[test]
    fn switches_in_both_ways_and_with_odd_names() {
        for text in [
            "prev_comm=a prev_pid=1 prev_pid=7 prev_prio=120 prev_state=R+ ==> next_comm=x ==> y next_pid=3 next_prio=120",
            "a prev_pid=1:7 [120] R+ ==> x:3 [120]",
        ] {
            let (what, strings) = what("sched_switch", text).unwrap();
            let What::Switch { prev, prev_comm, left_as, next, .. } = what else {
                panic!("{what:?}");
            };
            assert_eq!((prev, next, left_as), (7, 3, ThreadState::RunnablePreempted), "{text}");
            assert!(strings.get(prev_comm).starts_with("a prev_pid=1"), "{text}");
        }
    }

    #[test]
    fn every_kind_that_matters_is_read_and_damage_is_left_out() {
        let good = [
            ("sched_waking", "comm=a pid=3 prio=120 target_cpu=001"),
            ("sched_waking", "a b:3 [120] CPU:001"),
            ("sched_migrate_task", "comm=a pid=3 prio=120 orig_cpu=0 dest_cpu=1"),
            ("sched_process_fork", "comm=a pid=3 child_comm=b child_pid=4"),
            ("sched_process_exec", "filename=/bin/sh pid=3 old_pid=3"),
            ("sched_process_exit", "comm=a pid=3 prio=120"),
            ("task_newtask", "pid=4 comm=a clone_flags=3d0f00 oom_score_adj=0"),
            ("task_rename", "pid=3 oldcomm=a newcomm=b oom_score_adj=0"),
            ("sched_stat_runtime", "comm=a pid=3 runtime=17106 [ns]"),
            ("irq_handler_entry", "irq=24 name=virtio0"),
            ("irq_handler_exit", "irq=24 ret=handled"),
            ("softirq_entry", "vec=1 [action=TIMER]"),
            ("sys_enter", "NR 1 (1, 2, 3)"),
            ("sys_exit", "NR 1 = 3"),
            ("contention_begin", "00000000deadbeef (flags=SPIN|READ)"),
            ("contention_end", "00000000deadbeef (ret=0)"),
        ];
        for (name, text) in good {
            assert!(what(name, text).is_some(), "{name}: {text}");
        }
        for (name, text) in [
            ("sched_switch", "prev_comm= ==> "),
            ("sched_waking", "comm=a pid=x"),
            ("sched_stat_runtime", "comm=a pid=3"),
            ("softirq_entry", "vec="),
        ] {
            assert!(what(name, text).is_none(), "{name}: {text}");
        }
    }
}
