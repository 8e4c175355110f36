//! Decodes the bundles of one CPU into events, when the passes ask for them.
//!
//! A bundle (protos/perfetto/trace/ftrace/ftrace_event_bundle.proto) has the events that Perfetto drained from a CPU's
//! ring buffer at once. Frequent events may be stored compactly, as columns of switches and wake-ups apart from the
//! other events; so the events of a bundle are sorted by time after decoding. Compact events leave out the running
//! thread, which follows from the previous switch.
use super::blocks::{Blocks, Place};
use super::clocks::{BOOTTIME, Clocks, MONOTONIC_RAW};
use crate::kernel_events::{IN_INTERRUPT, IN_SOFTIRQ};
use crate::prev_state::PrevState;
use kasuri_format::perfetto::wire::Message;
use kasuri_format::perfetto::{Bundle, Ftrace, FtraceEvent, Name};
use kasuri_model::input::{CpuEvents, Event, What};
use kasuri_model::{Error, SOFTIRQS, StrIx, Strings, ThreadState, Time};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

/// No machine has more CPUs; a damaged number must not size a table.
pub const MAX_CPUS: u32 = 8192;

/// CLONE_THREAD in `clone_flags`: the new task is a thread of the same process.
const CLONE_THREAD: u64 = 0x1_0000;
/// A value of `FtraceClock`: stamps are CLOCK_MONOTONIC_RAW.
const CLOCK_MONO_RAW: u64 = 4;

/// A gap: events were overwritten between two times. Bundles say that events are missing, never how many.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gap {
    pub cpu: u16,
    pub from: Time,
    pub to: Time,
}

/// The part that all CPUs share.
pub(super) struct Kernel<'a> {
    pub blocks: Rc<Blocks<'a>>,
    pub clocks: Rc<RefCell<Clocks>>,
    pub machine: String,
    pub states: PrevState,
    /// There are sched_waking events, so sched_wakeup is not needed.
    pub has_waking: bool,
    /// Damaged bundles are left out instead of ending the reading.
    pub salvage: bool,
    pub gaps: RefCell<Vec<Gap>>,
    /// Number of events whose clock no snapshot relates to the trace's.
    pub n_unread: RefCell<u64>,
    /// Number of events with numbers of CPUs that no machine has.
    pub n_odd: RefCell<u64>,
    /// Damage in bundles, found while their events were read from a salvaged file.
    pub damage: RefCell<Vec<kasuri_format::Error>>,
}

impl Kernel<'_> {
    /// Widens `span` to the events of a bundle. Damage is reported when the events are read.
    pub fn extend(&self, place: &Place, span: &mut Option<Range<i64>>) {
        let _ = self.bundle(place, &mut |bundle, event| {
            if let Some(ns) = time(&self.clocks.borrow(), bundle, event.time) {
                let span = span.get_or_insert(ns..ns);
                (span.start, span.end) = (span.start.min(ns), span.end.max(ns));
            }
        });
    }

    /// Notes damage. A file of noise must not fill the memory, so the list is limited.
    fn note(&self, error: kasuri_format::Error) {
        let mut damage = self.damage.borrow_mut();
        if damage.len() < 1000 {
            damage.push(error);
        }
    }

    /// Calls `each` for the events of a bundle. Returns whether events before it were lost.
    fn bundle(
        &self,
        place: &Place,
        each: &mut dyn FnMut(&Bundle, FtraceEvent),
    ) -> Result<bool, kasuri_format::Error> {
        let block = self.blocks.get(place.block)?;
        let bytes = block.get(place.start..place.end).unwrap_or_default();
        // Offsets of errors count from the block's begin; a packed block has only one place in the file.
        let mut read = || {
            let bundle = Bundle::parse(Message::new(bytes, place.start as u64))?;
            bundle.events(&mut |event| each(&bundle, event))?;
            Ok(bundle.lost)
        };
        read().map_err(|mut error: kasuri_format::Error| {
            if place.block > 0 {
                error.offset = self.blocks.offset(place);
            }
            error
        })
    }
}

/// A stamp of a bundle on the trace's clock, ns. Clock 0 is CLOCK_BOOTTIME; for any other, the bundle may have a pair
/// of readings that relates it to CLOCK_BOOTTIME.
pub(super) fn time(clocks: &Clocks, bundle: &Bundle, stamp: u64) -> Option<i64> {
    let stamp = stamp as i64;
    match (bundle.clock, bundle.ftrace_ns, bundle.boot_ns) {
        (0, ..) => clocks.convert((BOOTTIME, 0), stamp),
        (_, Some(ftrace), Some(boot)) => {
            let boottime = stamp.saturating_sub(ftrace).saturating_add(boot);
            clocks.convert((BOOTTIME, 0), boottime)
        }
        (CLOCK_MONO_RAW, ..) => clocks.convert((MONOTONIC_RAW, 0), stamp),
        _ => Some(stamp),
    }
}

/// The events of one CPU.
pub(super) struct Cpu<'a> {
    kernel: Rc<Kernel<'a>>,
    number: u16,
    /// Bundles that were not read yet, the last one first.
    bundles: Vec<Place>,
    names: HashMap<Vec<u8>, StrIx>,
    syscalls: HashMap<i64, StrIx>,
    /// The running thread, according to the last switch; negative: unknown.
    current: i32,
    last: Option<Time>,
    /// Events are missing before the next one.
    is_cut: bool,
}

/// A placeholder in [`Event::context`]: the running thread, which [`Cpu::fill_contexts`] inserts.
const CURRENT: i32 = i32::MIN;

impl<'a> Cpu<'a> {
    /// `bundles`: the CPU's bundles in the order of the file.
    pub fn new(kernel: Rc<Kernel<'a>>, number: u16, bundles: Vec<Place>) -> Cpu<'a> {
        // They are taken from the end.
        let mut bundles = bundles;
        bundles.reverse();
        Cpu {
            kernel,
            number,
            bundles,
            names: HashMap::new(),
            syscalls: HashMap::new(),
            current: -1,
            last: None,
            is_cut: false,
        }
    }

    /// Decodes a bundle, sorts its events, and inserts gaps and running threads.
    fn bundle(
        &mut self,
        place: Place,
        strings: &mut Strings,
        out: &mut Vec<Event>,
    ) -> Result<(), Error> {
        let kernel = self.kernel.clone();
        let first = out.len();
        let mut n_unread = 0;
        let read = kernel.bundle(&place, &mut |bundle, event| {
            let Some(ns) = time(&kernel.clocks.borrow(), bundle, event.time) else {
                n_unread += 1;
                return;
            };
            if let Some(what) = self.decoded(&event, strings) {
                out.push(Event {
                    time: Time(ns),
                    context: event.pid.unwrap_or(CURRENT),
                    in_interrupt: event.flags & u32::from(IN_INTERRUPT) != 0,
                    what,
                });
            }
        });
        *kernel.n_unread.borrow_mut() += n_unread;
        let damage = match read {
            Err(error) if kernel.salvage => Some(error),
            other => {
                self.is_cut |= other.map_err(crate::error::source)?;
                None
            }
        };
        // At equal stamps a wake-up comes before the switch, as it makes the thread ready.
        out[first..].sort_by_key(|e| (e.time, matches!(e.what, What::Switch { .. })));
        if out.len() > first && std::mem::take(&mut self.is_cut) {
            self.lost(out, first);
        }
        self.fill_contexts(&mut out[first..]);
        self.last = out.last().map(|e| e.time).or(self.last);
        if let Some(error) = damage {
            // The events before the damage were read; those behind it are missing.
            self.is_cut = true;
            kernel.note(error);
        }
        Ok(())
    }

    /// Inserts a gap before the event at `first`.
    fn lost(&mut self, out: &mut Vec<Event>, first: usize) {
        let (Some(from), Some(next)) = (self.last, out.get(first).map(|e| e.time)) else {
            return;
        };
        self.kernel.gaps.borrow_mut().push(Gap { cpu: self.number, from, to: next });
        let lost =
            Event { time: from.min(next), context: -1, in_interrupt: false, what: What::Lost };
        out.insert(first, lost);
    }

    /// Inserts the running thread into compact events, which leave it out: the previous switch has it.
    fn fill_contexts(&mut self, events: &mut [Event]) {
        for event in events {
            if let What::Lost = event.what {
                self.current = -1;
                continue;
            }
            if event.context == CURRENT {
                event.context = self.current;
            }
            if let What::Switch { prev, next, .. } = &mut event.what {
                if *prev == CURRENT {
                    *prev = event.context;
                }
                self.current = *next;
            }
        }
    }

    /// A name up to its first zero, as a string. The cache avoids conversion and hashing of all strings.
    fn name(&mut self, name: Name, strings: &mut Strings) -> StrIx {
        let text = name.0.split(|&b| b == 0).next().unwrap_or_default();
        if text.is_empty() {
            return StrIx::NONE;
        }
        if let Some(&ix) = self.names.get(text) {
            return ix;
        }
        let ix = strings.intern(&String::from_utf8_lossy(text));
        self.names.insert(text.to_vec(), ix);
        ix
    }

    /// The name of a system call.
    fn syscall(&mut self, id: i64, strings: &mut Strings) -> StrIx {
        let machine = &self.kernel.machine;
        *(self.syscalls.entry(id))
            .or_insert_with(|| strings.intern(&crate::syscalls::name(machine, id)))
    }

    /// The event of the passes; none: no pass uses it.
    fn decoded(&mut self, event: &FtraceEvent, strings: &mut Strings) -> Option<What> {
        match event.what {
            Ftrace::Other => None,
            Ftrace::Wakeup { .. } if self.kernel.has_waking => None,
            _ => {
                self.thread_event(event, strings).or_else(|| self.span_event(&event.what, strings))
            }
        }
    }

    /// What happened to a thread: it ran, was woken, moved, began, changed its name, ended.
    fn thread_event(&mut self, event: &FtraceEvent, strings: &mut Strings) -> Option<What> {
        Some(match event.what {
            Ftrace::Switch { prev, prev_state, next, next_comm } => {
                let (prev, comm) = prev.unwrap_or((CURRENT, Name::default()));
                What::Switch {
                    prev,
                    prev_comm: self.name(comm, strings),
                    left_as: self.state(prev_state),
                    next,
                    next_comm: self.name(next_comm, strings),
                }
            }
            Ftrace::Waking { pid, comm, target_cpu }
            | Ftrace::Wakeup { pid, comm, target_cpu }
            | Ftrace::WakeupNew { pid, comm, target_cpu } => What::Waking {
                tid: pid,
                comm: self.name(comm, strings),
                cpu: target_cpu,
                in_softirq: event.flags & u32::from(IN_SOFTIRQ) != 0,
            },
            Ftrace::Migrate { pid, orig_cpu, dest_cpu } => {
                // A number that does not fit is damage, and the event is left out.
                let cpu =
                    |cpu: i32| u16::try_from(cpu).ok().filter(|&cpu| u32::from(cpu) < MAX_CPUS);
                let (Some(from), Some(to)) = (cpu(orig_cpu), cpu(dest_cpu)) else {
                    *self.kernel.n_odd.borrow_mut() += 1;
                    return None;
                };
                What::Migrate { tid: pid, from, to }
            }
            Ftrace::Rename { pid, comm } => {
                What::Rename { tid: pid, comm: self.name(comm, strings) }
            }
            Ftrace::Exec { pid, old_pid } => What::Exec { tid: pid, old_tid: old_pid },
            Ftrace::Exit { pid } => What::Exit { tid: pid, at_once: false },
            Ftrace::RunTime { pid, ns } => {
                What::RunTime { tid: pid, ns: u32::try_from(ns).unwrap_or(u32::MAX) }
            }
            _ => return self.fork(&event.what, strings),
        })
    }

    /// A thread or process began.
    fn fork(&mut self, event: &Ftrace, strings: &mut Strings) -> Option<What> {
        let (parent, child, comm, same_process) = match *event {
            Ftrace::NewTask { pid, comm, clone_flags } => {
                (-1, pid, comm, Some(clone_flags & CLONE_THREAD != 0))
            }
            Ftrace::Fork { parent, child, comm } => (parent, child, comm, None),
            _ => return None,
        };
        Some(What::Fork { parent, child, comm: self.name(comm, strings), pid: None, same_process })
    }

    /// What a thread or its CPU began or ended meanwhile: an interrupt or a system call.
    fn span_event(&mut self, event: &Ftrace, strings: &mut Strings) -> Option<What> {
        Some(match *event {
            Ftrace::IrqEntry { name } => What::IrqEntry { name: self.name(name, strings) },
            Ftrace::IrqExit => What::IrqExit,
            Ftrace::SoftirqEntry { vec } => {
                let name = SOFTIRQS.get(vec as usize).copied().unwrap_or("softirq");
                What::SoftirqEntry { name: strings.intern(name) }
            }
            Ftrace::SoftirqExit => What::SoftirqExit,
            Ftrace::SysEnter { id } => What::SyscallEntry { name: self.syscall(id, strings) },
            Ftrace::SysExit => What::SyscallExit,
            _ => return None,
        })
    }

    /// The state of a thread that left a CPU; a negative value says nothing else than that it slept.
    fn state(&self, value: i64) -> ThreadState {
        match value {
            0.. => self.kernel.states.get(value),
            _ => ThreadState::Sleeping,
        }
    }
}

impl CpuEvents for Cpu<'_> {
    fn fill(&mut self, strings: &mut Strings, out: &mut Vec<Event>) -> Result<(), Error> {
        let before = out.len();
        while out.len() == before {
            let Some(place) = self.bundles.pop() else {
                return Ok(());
            };
            self.bundle(place, strings, out)?;
        }
        Ok(())
    }
}
