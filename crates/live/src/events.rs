//! Bytes of a kernel event -> what happened, by the offsets that the event's format file gives.
use kasuri_format::meta::KernelMeta;
use kasuri_format::tracefs::{EventFormat, EventTable, Field, FieldKind};
use kasuri_format::{Error, Result};
use kasuri_import::PrevState;
use kasuri_model::ThreadState;

/// CLONE_THREAD in `clone_flags` (include/uapi/linux/sched.h): the new task is a thread of the same process.
const CLONE_THREAD: i64 = 0x1_0000;

/// A thread's name as the kernel writes it.
pub(crate) type Comm = [u8; 16];

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Event {
    /// `prev` left the CPU in this state, and `next` runs.
    Switch { prev: i32, prev_state: ThreadState, next: i32, next_comm: Comm },
    /// A thread became able to run, on this CPU unless it is moved.
    Waking { tid: i32, cpu: i32 },
    /// A thread was moved to the queue of a CPU.
    Migrate { tid: i32, cpu: i32 },
    /// A thread was made, in the process of `parent` or as a new one.
    New { tid: i32, parent: i32, is_thread: bool, comm: Comm },
}

/// Where an event has a number of 4 bytes: numbers of threads and CPUs are `int` in all kernels. A hundred thousand of them come in a
/// second, so they are read without asking for their size each time.
#[derive(Clone, Copy, Debug)]
struct Int(usize);

impl Int {
    fn of(format: &EventFormat, name: &str) -> Option<Int> {
        let field = &format.fields[format.find(name)?];
        let is_int = field.kind == FieldKind::Int && field.size == 4;
        is_int.then_some(Int(field.offset as usize))
    }

    #[inline]
    fn get(self, data: &[u8], big_endian: bool) -> Option<i32> {
        let bytes = *data.get(self.0..)?.first_chunk::<4>()?;
        Some(match big_endian {
            true => i32::from_be_bytes(bytes),
            false => i32::from_le_bytes(bytes),
        })
    }
}

/// Where an event has a thread's name; `None`: it has none of 16 bytes.
#[derive(Clone, Copy, Debug)]
struct Name(Option<usize>);

impl Name {
    fn of(format: &EventFormat, name: &str) -> Name {
        let field = format.find(name).map(|ix| &format.fields[ix]);
        let fits = field.filter(|field| field.kind == FieldKind::Bytes && field.size == 16);
        Name(fits.map(|field| field.offset as usize))
    }

    #[inline]
    fn get(self, data: &[u8]) -> Comm {
        let bytes = self.0.and_then(|at| data.get(at..)?.first_chunk::<16>());
        bytes.copied().unwrap_or_default()
    }
}

#[derive(Clone, Debug)]
enum Kind {
    Switch { prev: Int, state: Field, next: Int, comm: Name, states: Box<PrevState> },
    Waking { tid: Int, cpu: Int },
    Migrate { tid: Int, cpu: Int },
    New { parent: Int, tid: Int, flags: Field, comm: Name },
}

/// Reads events of one kernel.
#[derive(Debug)]
pub(crate) struct Decoder {
    by_id: Vec<Option<Kind>>,
    big_endian: bool,
}

impl Decoder {
    /// From the format files of the events.
    ///
    /// # Errors
    /// When one is not understood, or sched_switch is missing.
    pub(crate) fn new(kernel: &KernelMeta) -> Result<Decoder> {
        let table = EventTable::from_meta(kernel)?;
        let mut by_id: Vec<Option<Kind>> = Vec::new();
        for format in table.types() {
            let text = kernel.formats.get(&format.name);
            let kind = Kind::of(format, text.map_or("", String::as_str));
            let id = usize::from(format.id);
            if kind.is_some() {
                by_id.resize(by_id.len().max(id + 1), None);
                by_id[id] = kind;
            }
        }
        if !by_id.iter().flatten().any(Kind::is_switch) {
            return Err(Error::damaged(
                "events of the kernel",
                0,
                "no sched_switch with prev_pid, prev_state and next_pid",
                "the format of sched/sched_switch",
            ));
        }
        Ok(Decoder { by_id, big_endian: kernel.big_endian })
    }

    /// The event, if it is one of those that matter and is not cut.
    #[inline]
    pub(crate) fn event(&self, data: &[u8]) -> Option<Event> {
        let id = *data.first_chunk::<2>()?;
        let id = match self.big_endian {
            true => u16::from_be_bytes(id),
            false => u16::from_le_bytes(id),
        };
        let int = |at: Int| at.get(data, self.big_endian);
        Some(match self.by_id.get(usize::from(id))?.as_ref()? {
            Kind::Switch { prev, state, next, comm, states } => Event::Switch {
                prev: int(*prev)?,
                prev_state: states.get(self.long(data, state)?),
                next: int(*next)?,
                next_comm: comm.get(data),
            },
            Kind::Waking { tid, cpu } => Event::Waking { tid: int(*tid)?, cpu: int(*cpu)? },
            Kind::Migrate { tid, cpu } => Event::Migrate { tid: int(*tid)?, cpu: int(*cpu)? },
            Kind::New { parent, tid, flags, comm } => Event::New {
                tid: int(*tid)?,
                parent: int(*parent)?,
                is_thread: self.long(data, flags)? & CLONE_THREAD != 0,
                comm: comm.get(data),
            },
        })
    }

    /// A number of the size of the kernel's `long`.
    #[inline]
    fn long(&self, data: &[u8], field: &Field) -> Option<i64> {
        match field.size {
            8 if !self.big_endian => {
                let bytes = data.get(field.offset as usize..)?.first_chunk::<8>()?;
                Some(i64::from_le_bytes(*bytes))
            }
            _ => field.int(data, 0, self.big_endian),
        }
    }
}

impl Kind {
    fn of(format: &EventFormat, text: &str) -> Option<Kind> {
        let int = |name: &str| Int::of(format, name);
        let long = |name: &str| {
            let field = &format.fields[format.find(name)?];
            (field.kind == FieldKind::Int).then(|| field.clone())
        };
        match format.name.as_str() {
            "sched/sched_switch" => Some(Kind::Switch {
                prev: int("prev_pid")?,
                state: long("prev_state")?,
                next: int("next_pid")?,
                comm: Name::of(format, "next_comm"),
                states: Box::new(PrevState::from_format(text)),
            }),
            "sched/sched_waking" | "sched/sched_wakeup_new" => {
                Some(Kind::Waking { tid: int("pid")?, cpu: int("target_cpu")? })
            }
            "sched/sched_migrate_task" => {
                Some(Kind::Migrate { tid: int("pid")?, cpu: int("dest_cpu")? })
            }
            "task/task_newtask" => Some(Kind::New {
                parent: int("common_pid")?,
                tid: int("pid")?,
                flags: long("clone_flags")?,
                comm: Name::of(format, "comm"),
            }),
            _ => None,
        }
    }

    fn is_switch(&self) -> bool {
        matches!(self, Kind::Switch { .. })
    }
}
