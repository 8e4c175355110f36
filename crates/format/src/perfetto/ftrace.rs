//! Bundles: a stretch of one CPU's kernel events. Switches and wake-ups may be in columns (compact), the others are
//! messages one by one.
//!
//! Compact columns hold stamps as differences, and names as indices into the bundle's table. A compact switch has no
//! previous thread: it is the next thread of the CPU's switch before, so events must be read in order. The numbers of events'
//! messages in `FtraceEvent` and of their fields are in the function `what`.
use super::wire::{Field, Message, Numbers};
use crate::Result;

/// A bundle, to be read event by event.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bundle<'a> {
    /// The CPU.
    pub cpu: u32,
    /// Events before this bundle were overwritten.
    pub lost: bool,
    /// `FtraceClock`; 0: BOOTTIME.
    pub clock: u64,
    /// The reading of the kernel's clock...
    pub ftrace_ns: Option<i64>,
    /// ...when BOOTTIME read this.
    pub boot_ns: Option<i64>,
    /// The bundle's fields.
    message: Option<Message<'a>>,
}

/// A kernel event.
#[derive(Clone, Copy, Debug)]
pub struct FtraceEvent<'a> {
    /// ns of the bundle's clock.
    pub time: u64,
    /// Thread that ran then; none: not recorded (compact events).
    pub pid: Option<i32>,
    /// `common_flags`.
    pub flags: u32,
    /// The kind of event.
    pub what: Ftrace<'a>,
}

/// A name: in the event, or in the bundle's table.
#[derive(Clone, Copy, Debug, Default)]
pub struct Name<'a>(pub &'a [u8]);

/// The kind of event.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs, reason = "the kernel's own names")]
pub enum Ftrace<'a> {
    /// Nothing that is read.
    #[default]
    Other,
    /// prev: none when compact; it is the thread that the CPU's switch before brought.
    Switch {
        prev: Option<(i32, Name<'a>)>,
        prev_state: i64,
        next: i32,
        next_comm: Name<'a>,
    },
    Waking {
        pid: i32,
        comm: Name<'a>,
        target_cpu: i32,
    },
    Wakeup {
        pid: i32,
        comm: Name<'a>,
        target_cpu: i32,
    },
    WakeupNew {
        pid: i32,
        comm: Name<'a>,
        target_cpu: i32,
    },
    Migrate {
        pid: i32,
        orig_cpu: i32,
        dest_cpu: i32,
    },
    NewTask {
        pid: i32,
        comm: Name<'a>,
        clone_flags: u64,
    },
    Fork {
        parent: i32,
        child: i32,
        comm: Name<'a>,
    },
    Rename {
        pid: i32,
        comm: Name<'a>,
    },
    Exec {
        pid: i32,
        old_pid: i32,
    },
    Exit {
        pid: i32,
    },
    /// sched_stat_runtime, which has no message of its own.
    RunTime {
        pid: i32,
        ns: u64,
    },
    IrqEntry {
        name: Name<'a>,
    },
    IrqExit,
    SoftirqEntry {
        vec: u32,
    },
    SoftirqExit,
    SysEnter {
        id: i64,
    },
    SysExit,
}

impl<'a> Bundle<'a> {
    /// From its message.
    ///
    /// # Errors
    /// Bytes that are no fields.
    pub fn parse(message: Message<'a>) -> Result<Bundle<'a>> {
        let mut bundle = Bundle { message: Some(message), ..Bundle::default() };
        let mut fields = message;
        while let Some(field) = fields.next_field()? {
            match field.number {
                1 => bundle.cpu = field.u32(),
                3 => bundle.lost = field.bool(),
                5 => bundle.clock = field.u64(),
                6 => bundle.ftrace_ns = Some(field.i64()),
                7 => bundle.boot_ns = Some(field.i64()),
                _ => {}
            }
        }
        Ok(bundle)
    }

    /// Calls `each` for all events: first the compact switches, then the compact wake-ups, then the others; each of the
    /// three in order of time.
    ///
    /// # Errors
    /// Bytes that are no fields.
    pub fn events(&self, each: &mut dyn FnMut(FtraceEvent<'a>)) -> Result<()> {
        let Some(message) = self.message else {
            return Ok(());
        };
        let mut fields = message;
        while let Some(field) = fields.next_field()? {
            if field.number == COMPACT {
                compact(field.message(), each)?;
            }
        }
        let mut fields = message;
        while let Some(field) = fields.next_field()? {
            if field.number == EVENT {
                each(FtraceEvent::parse(field.message())?);
            }
        }
        Ok(())
    }

    /// The bundle's fields.
    pub(super) fn fields(&self) -> Message<'a> {
        self.message.unwrap_or(Message::new(&[], 0))
    }
}

/// Fields of a bundle.
pub(super) const EVENT: u32 = 2;
pub(super) const COMPACT: u32 = 4;
pub(super) const DESCRIPTOR: u32 = 11;

// Fields of an event: the event's own message is one of those behind them.
const TIME: u32 = 1;
const PID: u32 = 2;
const FLAGS: u32 = 5;
/// An event that has no message of its own.
pub(super) const GENERIC: u32 = 327;

/// Numbers of the events that [`Bundle::events`] tells apart.
pub const READ_EVENTS: &[u32] =
    &[4, 17, 20, 24, 25, 36, 37, 114, 235, 236, 237, 238, 239, 329, 330, 491];

/// Whether the field of an event is its message.
pub(super) fn is_kind(number: u32) -> bool {
    !matches!(number, TIME | PID | FLAGS)
}

/// The columns of a `CompactSched`.
fn compact<'a>(message: Message<'a>, each: &mut dyn FnMut(FtraceEvent<'a>)) -> Result<()> {
    const NONE: Numbers<'static> = Numbers::NONE;
    let mut names: Vec<&'a [u8]> = Vec::new();
    let mut columns: [Numbers<'a>; 13] = [NONE; 13];
    let mut fields = message;
    while let Some(field) = fields.next_field()? {
        match field.number {
            5 => names.push(field.bytes()),
            number @ 1..=12 => columns[number as usize] = field.numbers(),
            _ => {}
        }
    }
    let [
        _,
        time,
        prev_state,
        next_pid,
        _,
        _,
        next_comm,
        wake_time,
        wake_pid,
        target,
        _,
        wake_comm,
        flags,
    ] = columns;
    let name = |ix: u64| {
        Name(usize::try_from(ix).ok().and_then(|ix| names.get(ix)).copied().unwrap_or_default())
    };
    let mut now = 0u64;
    let switches = time.zip(prev_state).zip(next_pid.zip(next_comm));
    for ((delta, prev_state), (next, comm)) in switches {
        now = now.wrapping_add(delta);
        each(FtraceEvent {
            time: now,
            pid: None,
            flags: 0,
            what: Ftrace::Switch {
                prev: None,
                prev_state: prev_state as i64,
                next: next as i32,
                next_comm: name(comm),
            },
        });
    }
    let mut now = 0u64;
    let mut flags = flags;
    let wakings = wake_time.zip(wake_pid).zip(target.zip(wake_comm));
    for ((delta, pid), (target, comm)) in wakings {
        now = now.wrapping_add(delta);
        each(FtraceEvent {
            time: now,
            pid: None,
            flags: flags.next().unwrap_or(0) as u32,
            what: Ftrace::Waking { pid: pid as i32, comm: name(comm), target_cpu: target as i32 },
        });
    }
    Ok(())
}

impl<'a> FtraceEvent<'a> {
    fn parse(mut message: Message<'a>) -> Result<FtraceEvent<'a>> {
        let mut event = FtraceEvent { time: 0, pid: Some(0), flags: 0, what: Ftrace::Other };
        while let Some(field) = message.next_field()? {
            match field.number {
                TIME => event.time = field.u64(),
                PID => event.pid = Some(field.i32()),
                FLAGS => event.flags = field.u32(),
                _ => event.what = decoded(field)?.unwrap_or(event.what),
            }
        }
        Ok(event)
    }
}

/// The fields of an event's own message that have these numbers: numbers first, then texts.
pub(super) fn pick<'a, const N: usize, const T: usize>(
    field: Field<'a>,
    numbers: [u32; N],
    texts: [u32; T],
) -> Result<([i64; N], [Name<'a>; T])> {
    let (mut out, mut names) = ([0; N], [Name::default(); T]);
    let mut message = field.message();
    while let Some(part) = message.next_field()? {
        if let Some(i) = numbers.iter().position(|&n| n == part.number) {
            out[i] = part.i64();
        } else if let Some(i) = texts.iter().position(|&n| n == part.number) {
            names[i] = Name(part.bytes());
        }
    }
    Ok((out, names))
}

/// The event in the field, if it is one that is read. The numbers are those of the field `event` in
/// protos/perfetto/trace/ftrace/ftrace_event.proto.
fn decoded(field: Field<'_>) -> Result<Option<Ftrace<'_>>> {
    Ok(Some(match field.number {
        24 => {
            let ([vec], []) = pick(field, [1], [])?;
            Ftrace::SoftirqEntry { vec: vec as u32 }
        }
        25 => Ftrace::SoftirqExit,
        36 => {
            let (_, [name]) = pick(field, [], [2])?;
            Ftrace::IrqEntry { name }
        }
        37 => Ftrace::IrqExit,
        GENERIC => generic(field)?,
        329 => {
            let ([id], []) = pick(field, [1], [])?;
            Ftrace::SysEnter { id }
        }
        330 => Ftrace::SysExit,
        _ => return thread_event(field),
    }))
}

/// An event about a thread: it ran, was woken, moved, began, changed its name, ended.
fn thread_event(field: Field<'_>) -> Result<Option<Ftrace<'_>>> {
    Ok(Some(match field.number {
        4 => {
            let ([prev, prev_state, next], [prev_comm, next_comm]) =
                pick(field, [2, 4, 6], [1, 5])?;
            Ftrace::Switch {
                prev: Some((prev as i32, prev_comm)),
                prev_state,
                next: next as i32,
                next_comm,
            }
        }
        17 | 20 | 114 => waking(field)?,
        235 => {
            let ([pid, flags], [comm]) = pick(field, [1, 3], [2])?;
            let (pid, clone_flags) = (pid as i32, flags as u64);
            Ftrace::NewTask { pid, comm, clone_flags }
        }
        236 => {
            let ([pid], [comm]) = pick(field, [1], [3])?;
            let pid = pid as i32;
            Ftrace::Rename { pid, comm }
        }
        237 => {
            let ([pid, old], []) = pick(field, [2, 3], [])?;
            let (pid, old_pid) = (pid as i32, old as i32);
            Ftrace::Exec { pid, old_pid }
        }
        238 => {
            let ([pid], []) = pick(field, [2], [])?;
            Ftrace::Exit { pid: pid as i32 }
        }
        239 => {
            let ([parent, child], [comm]) = pick(field, [2, 4], [3])?;
            Ftrace::Fork { parent: parent as i32, child: child as i32, comm }
        }
        491 => {
            let ([pid, orig, dest], []) = pick(field, [2, 4, 5], [])?;
            Ftrace::Migrate { pid: pid as i32, orig_cpu: orig as i32, dest_cpu: dest as i32 }
        }
        _ => return Ok(None),
    }))
}

/// The three events of a wake-up, whose messages are alike.
fn waking(field: Field<'_>) -> Result<Ftrace<'_>> {
    let ([pid, target_cpu], [comm]) = pick(field, [2, 5], [1])?;
    let (pid, target_cpu) = (pid as i32, target_cpu as i32);
    Ok(match field.number {
        17 => Ftrace::Wakeup { pid, comm, target_cpu },
        20 => Ftrace::Waking { pid, comm, target_cpu },
        _ => Ftrace::WakeupNew { pid, comm, target_cpu },
    })
}

/// An event without a message of its own: its name, and fields with name and value.
fn generic(field: Field<'_>) -> Result<Ftrace<'_>> {
    let (mut name, mut pid, mut runtime): (&[u8], _, _) = (&[], None, None);
    let mut message = field.message();
    while let Some(part) = message.next_field()? {
        match part.number {
            1 => name = part.bytes(),
            2 => {
                let ([int, uint], [key]) = pick(part, [4, 5], [1])?;
                match key.0 {
                    b"pid" => pid = Some(int as i32),
                    b"runtime" => runtime = Some(if uint != 0 { uint } else { int } as u64),
                    _ => {}
                }
            }
            _ => {}
        }
    }
    Ok(match (name, pid, runtime) {
        (b"sched_stat_runtime", Some(pid), Some(ns)) => Ftrace::RunTime { pid, ns },
        _ => Ftrace::Other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perfetto::wire::Value;

    #[test]
    fn the_list_of_what_is_read_is_what_is_read() {
        let read = (3..2000).filter(|&number| {
            let value = Value::Bytes(&[]);
            let field = Field { number, value, offset: 0 };
            is_kind(number) && number != GENERIC && decoded(field).unwrap().is_some()
        });
        assert_eq!(read.collect::<Vec<_>>(), READ_EVENTS);
    }
}
