//! Decodes kernel events in the layout of the kernel's ring buffer: those of `trace.dat`, and raw samples of `perf.data`.
//!
//! This is the hot path of large files: it looks up the type by id, reads at most three numbers at the offsets that the
//! event's format file gives, and resolves names through a small direct-mapped cache. [`crate::kernel_events`] gives the
//! values their meaning.
use crate::kernel_events::{Role, Values};
use crate::prev_state::PrevState;
use kasuri_format::tracefs::{EventFormat, Field, FieldKind};
use kasuri_model::input::Event;
use kasuri_model::{StrIx, Strings, Time};
use std::collections::HashMap;

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

/// The decoder. Each CPU has one of its own, as it caches names.
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
