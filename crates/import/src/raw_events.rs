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

/// Position and type of a number in a raw event, as the event's format file declares it: `offset:8; size:4; signed:1;`.
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
                let v = if big_endian { u32::from_be_bytes(b) } else { u32::from_le_bytes(b) };
                if self.signed { i64::from(v as i32) } else { i64::from(v) }
            }
            8 => {
                let b = *rest.first_chunk()?;
                if big_endian { i64::from_be_bytes(b) } else { i64::from_le_bytes(b) }
            }
            2 => {
                let b = *rest.first_chunk()?;
                let v = if big_endian { u16::from_be_bytes(b) } else { u16::from_le_bytes(b) };
                if self.signed { i64::from(v as i16) } else { i64::from(v) }
            }
            _ => {
                let v = *rest.first()?;
                if self.signed { i64::from(v as i8) } else { i64::from(v) }
            }
        })
    }
}

/// One event type, prepared for decoding.
#[derive(Clone, Debug)]
struct RawType {
    /// What the event means; decides which numbers and names are read.
    role: Role,
    /// Length of the fixed part; a shorter event is damaged.
    bytes: u32,
    /// `common_pid`: the thread that was running when the event was written.
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

/// Slots of the cache, 32 KiB for each CPU.
const RECENT: usize = 1024;

impl RecentNames {
    fn new() -> RecentNames {
        RecentNames { slots: vec![(0, StrIx::NONE); RECENT] }
    }

    /// The string of a name.
    #[inline]
    fn get(&mut self, bytes: [u8; 16], strings: &mut Strings) -> StrIx {
        let key = u128::from_ne_bytes(bytes);
        // The multiplier is 2^64 divided by the golden ratio (Knuth, The Art of Computer Programming 3, 6.4); the top
        // ten bits choose among 1,024 slots.
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
        // Then no offset of a number lies outside; of a text, the event itself says where it lies.
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
        if matches!(kind.role, Role::SoftirqEntry | Role::SyscallEntry | Role::LockBegin) {
            let number = kind.ints[0].and_then(|n| n.read(data, self.big_endian));
            let number = number.unwrap_or(-1);
            let (role, machine) = (kind.role, &self.machine);
            names[0] = *self
                .numbered
                .entry((ix, number))
                .or_insert_with(|| role.name_of(number, machine, strings).unwrap_or(StrIx::NONE));
        }
        let values = RawValues { kind, data, names, big_endian: self.big_endian };
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

#[cfg(test)]
mod tests {
    use super::*;
    use kasuri_model::input::What;

    /// A field's declaration, offset and size, and whether it is signed.
    type FieldOf = (&'static str, u32, u32, bool);

    const COMMON: [FieldOf; 4] = [
        ("unsigned short common_type", 0, 2, false),
        ("unsigned char common_flags", 2, 1, false),
        ("unsigned char common_preempt_count", 3, 1, false),
        ("int common_pid", 4, 4, true),
    ];

    /// A decoder of one event type, whose id is 300.
    fn decoder(name: &str, fields: &[FieldOf], big_endian: bool) -> RawEvents {
        let line = |&(declared, offset, size, signed): &FieldOf| {
            let signed = u8::from(signed);
            format!("\tfield:{declared};\toffset:{offset};\tsize:{size};\tsigned:{signed};\n")
        };
        let (_, event) = name.split_once('/').unwrap();
        let lines: String = COMMON.iter().chain(fields).map(line).collect();
        let text = format!("name: {event}\nID: 300\nformat:\n{lines}\nprint fmt: \"\"\n");
        let format = EventFormat::parse(name, &text).unwrap();
        let setup = RawSetup { big_endian, ..RawSetup::default() };
        RawEvents::new(&[format], &setup)
    }

    fn decode(events: &mut RawEvents, data: &[u8], strings: &mut Strings) -> Option<Event> {
        events.event(Time(5), 300, data, strings)
    }

    /// The run time that is read from these bytes as a number; 0 stands for a negative one.
    fn run_time(bytes: &[u8], signed: bool, big_endian: bool) -> u32 {
        let size = bytes.len() as u32;
        let fields = [("int pid", 8, 4, true), ("x runtime", 16, size, signed)];
        let mut events = decoder("sched/sched_stat_runtime", &fields, big_endian);
        let mut data = vec![0; 16];
        data.extend(bytes);
        match decode(&mut events, &data, &mut Strings::default()).unwrap().what {
            What::RunTime { ns, .. } => ns,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn numbers_of_each_size_order_and_sign() {
        let bytes = [1, 2, 3, 4];
        for (size, little, big) in
            [(1, 0x01, 0x01), (2, 0x0201, 0x0102), (4, 0x0403_0201, 0x0102_0304)]
        {
            for signed in [false, true] {
                assert_eq!(run_time(&bytes[..size], signed, false), little, "{size}");
                assert_eq!(run_time(&bytes[..size], signed, true), big, "{size}");
            }
        }
        assert_eq!(run_time(&[1, 2, 0, 0, 0, 0, 0, 0], false, false), 0x0201);
        assert_eq!(run_time(&[0, 0, 0, 0, 0, 0, 1, 2], false, true), 0x0102);
        // All bits but the lowest: -2 where the field is signed.
        for (size, unsigned) in [(1, 0xfe), (2, 0xfffe), (4, 0xffff_fffe)] {
            let mut bytes = [0xff; 4];
            bytes[size - 1] = 0xfe;
            assert_eq!(run_time(&bytes[..size], false, true), unsigned, "{size}");
            assert_eq!(run_time(&bytes[..size], true, true), 0, "{size}");
            let mut bytes = [0xff; 4];
            bytes[0] = 0xfe;
            assert_eq!(run_time(&bytes[..size], false, false), unsigned, "{size}");
            assert_eq!(run_time(&bytes[..size], true, false), 0, "{size}");
        }
    }

    const WAKING: [FieldOf; 3] = [
        ("char comm[16]", 8, 16, false),
        ("pid_t pid", 24, 4, true),
        ("int target_cpu", 28, 4, true),
    ];

    fn waking(flags: u8, context: i32, comm: &[u8], pid: i32) -> Vec<u8> {
        let mut data = vec![0x2c, 0x01, flags, 0];
        data.extend(context.to_le_bytes());
        data.extend(comm);
        data.resize(24, 0);
        data.extend(pid.to_le_bytes());
        data.extend(3i32.to_le_bytes());
        data
    }

    #[test]
    fn an_event_has_its_thread_its_names_and_whether_it_interrupted() {
        let (mut events, mut strings) =
            (decoder("sched/sched_waking", &WAKING, false), Strings::default());
        // Hardware interrupt and NMI are interrupts; softirq (0x10) and need-resched (0x04) are not.
        for (flags, in_interrupt) in
            [(0, false), (0x08, true), (0x40, true), (0x10, false), (0x04, false)]
        {
            // Different names with equal beginnings, and again the first: the cache is keyed by all bytes.
            for comm in ["worker", "worker2", "", "worker"] {
                let data = waking(flags, 77, comm.as_bytes(), 88);
                let event = decode(&mut events, &data, &mut strings).unwrap();
                assert_eq!((event.time, event.context), (Time(5), 77));
                assert_eq!(event.in_interrupt, in_interrupt, "{flags:#x}");
                let What::Waking { tid, comm: name, cpu, in_softirq } = event.what else {
                    panic!("{:?}", event.what);
                };
                assert_eq!((tid, cpu, strings.get(name)), (88, 3, comm));
                assert_eq!(in_softirq, flags == 0x10);
            }
        }
    }

    #[test]
    fn a_function_without_an_argument_is_one_lock_and_no_thread_is_not_thread_1() {
        let format = "name: lock_request_6\nID: 300\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\nprint fmt: \"\"\n";
        let format = EventFormat::parse("kasuri_9_1/lock_request_6", format).unwrap();
        let mut events = RawEvents::new(&[format], &RawSetup::default());
        let event = decode(&mut events, &[0x2c, 0x01, 0, 0], &mut Strings::default()).unwrap();
        assert_eq!(event.context, -1, "the format has no common_pid");
        let What::LockCall { object, function, .. } = event.what else {
            panic!("{:?}", event.what);
        };
        assert_eq!((object, function), (7, 6));
    }

    #[test]
    fn short_events_and_other_types_are_none() {
        let (mut events, mut strings) =
            (decoder("sched/sched_waking", &WAKING, false), Strings::default());
        let data = waking(0, 77, b"x", 88);
        assert!(decode(&mut events, &data, &mut strings).is_some());
        assert!(decode(&mut events, &data[..31], &mut strings).is_none());
        assert!(events.event(Time(5), 299, &data, &mut strings).is_none());
        assert!(events.event(Time(5), 301, &data, &mut strings).is_none());
        let mut other = decoder("sched/sched_pi_setprio", &WAKING, false);
        assert!(decode(&mut other, &data, &mut strings).is_none());
    }
}
