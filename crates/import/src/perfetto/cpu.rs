//! One CPU's bundles as events, decoded when they are asked for.
use super::blocks::{Blocks, Place};
use super::clocks::{BOOTTIME, Clocks, MONOTONIC_RAW};
use crate::prev_state::PrevState;
use kasuri_format::perfetto::wire::Message;
use kasuri_format::perfetto::{Bundle, Ftrace, FtraceEvent, Name};
use kasuri_model::input::{CpuEvents, Event, What};
use kasuri_model::{Error, SOFTIRQS, StrIx, Strings, ThreadState, Time};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

/// `common_flags`: raised in a hardware interrupt (TRACE_FLAG_HARDIRQ), or in an NMI (TRACE_FLAG_NMI).
const IN_INTERRUPT: u32 = 0x08 | 0x40;
/// `clone_flags`: CLONE_THREAD.
const CLONE_THREAD: u64 = 0x1_0000;
/// `FtraceClock`.
const CLOCK_MONO_RAW: u64 = 4;

/// Events that were overwritten.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gap {
    pub cpu: u16,
    pub from: Time,
    pub to: Time,
}

/// What all CPUs share.
pub(super) struct Kernel<'a> {
    pub blocks: Rc<Blocks<'a>>,
    pub clocks: Rc<RefCell<Clocks>>,
    pub machine: String,
    pub states: PrevState,
    /// There are sched_waking events: sched_wakeup says nothing more.
    pub has_waking: bool,
    /// Damaged bundles are left out.
    pub salvage: bool,
    pub gaps: RefCell<Vec<Gap>>,
    pub n_unread: RefCell<u64>,
}

impl Kernel<'_> {
    /// Widens `span` to a bundle's events; damage is met when they are read.
    pub fn extend(&self, place: &Place, span: &mut Option<Range<i64>>) {
        let _ = self.bundle(place, &mut |bundle, event| {
            if let Some(ns) = time(&self.clocks.borrow(), bundle, event.time) {
                let span = span.get_or_insert(ns..ns);
                (span.start, span.end) = (span.start.min(ns), span.end.max(ns));
            }
        });
    }

    /// Calls `each` for a bundle's events. Returns whether events before it are lost.
    fn bundle(
        &self,
        place: &Place,
        each: &mut dyn FnMut(&Bundle, FtraceEvent),
    ) -> Result<bool, kasuri_format::Error> {
        let block = self.blocks.get(place.block)?;
        let bytes = block.get(place.start..place.end).unwrap_or_default();
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

/// A bundle's stamp in the trace's time.
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

/// One CPU.
pub(super) struct Cpu<'a> {
    kernel: Rc<Kernel<'a>>,
    number: u16,
    /// Bundles not read yet, last first.
    bundles: Vec<Place>,
    names: HashMap<Vec<u8>, StrIx>,
    syscalls: HashMap<i64, StrIx>,
    /// Who runs, as far as switches told; negative: not known.
    current: i32,
    last: Option<Time>,
}

/// In [`Event::context`]: who runs then.
const CURRENT: i32 = i32::MIN;

impl<'a> Cpu<'a> {
    /// `bundles`: in the file's order.
    pub fn new(kernel: Rc<Kernel<'a>>, number: u16, bundles: Vec<Place>) -> Cpu<'a> {
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
        }
    }

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
            if let Some(what) = self.what(&event, strings) {
                out.push(Event {
                    time: Time(ns),
                    context: event.pid.unwrap_or(CURRENT),
                    in_interrupt: event.flags & IN_INTERRUPT != 0,
                    what,
                });
            }
        });
        *kernel.n_unread.borrow_mut() += n_unread;
        let lost = match read {
            Err(_) if kernel.salvage => true,
            other => other.map_err(crate::error::source)?,
        };
        // Wake-ups stand before switches of the same stamp: it is they that make a thread ready.
        out[first..].sort_by_key(|e| (e.time, matches!(e.what, What::Switch { .. })));
        if lost {
            self.lost(out, first);
        }
        self.fill_contexts(&mut out[first..]);
        self.last = out.last().map(|e| e.time).or(self.last);
        Ok(())
    }

    /// Events before those at `first` are missing.
    fn lost(&mut self, out: &mut Vec<Event>, first: usize) {
        let (Some(from), Some(next)) = (self.last, out.get(first).map(|e| e.time)) else {
            return;
        };
        self.kernel.gaps.borrow_mut().push(Gap {
            cpu: self.number,
            from,
            to: next,
        });
        let lost = Event {
            time: from.min(next),
            context: -1,
            in_interrupt: false,
            what: What::Lost,
        };
        out.insert(first, lost);
    }

    /// Compact events leave out who ran: the switch before says it.
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

    fn syscall(&mut self, id: i64, strings: &mut Strings) -> StrIx {
        let machine = &self.kernel.machine;
        *(self.syscalls.entry(id))
            .or_insert_with(|| strings.intern(&crate::syscalls::name(machine, id)))
    }

    fn what(&mut self, event: &FtraceEvent, strings: &mut Strings) -> Option<What> {
        let states = |value| match value {
            0.. => self.kernel.states.get(value),
            _ => ThreadState::Sleeping,
        };
        Some(match event.what {
            Ftrace::Other | Ftrace::Print { .. } => return None,
            Ftrace::Switch {
                prev,
                prev_state,
                next,
                next_comm,
            } => {
                let left_as = states(prev_state);
                let (prev, comm) = prev.unwrap_or((CURRENT, Name::default()));
                What::Switch {
                    prev,
                    prev_comm: self.name(comm, strings),
                    left_as,
                    next,
                    next_comm: self.name(next_comm, strings),
                }
            }
            Ftrace::Wakeup { .. } if self.kernel.has_waking => return None,
            Ftrace::Waking {
                pid,
                comm,
                target_cpu,
            }
            | Ftrace::Wakeup {
                pid,
                comm,
                target_cpu,
            }
            | Ftrace::WakeupNew {
                pid,
                comm,
                target_cpu,
            } => What::Waking {
                tid: pid,
                comm: self.name(comm, strings),
                cpu: target_cpu,
            },
            Ftrace::Migrate {
                pid,
                orig_cpu,
                dest_cpu,
            } => What::Migrate {
                tid: pid,
                from: u16::try_from(orig_cpu).ok()?,
                to: u16::try_from(dest_cpu).ok()?,
            },
            Ftrace::NewTask {
                pid,
                comm,
                clone_flags,
            } => What::Fork {
                parent: -1,
                child: pid,
                comm: self.name(comm, strings),
                pid: None,
                same_process: Some(clone_flags & CLONE_THREAD != 0),
            },
            Ftrace::Fork {
                parent,
                child,
                comm,
            } => What::Fork {
                parent,
                child,
                comm: self.name(comm, strings),
                pid: None,
                same_process: None,
            },
            Ftrace::Rename { pid, comm } => What::Rename {
                tid: pid,
                comm: self.name(comm, strings),
            },
            Ftrace::Exec { pid, old_pid } => What::Exec {
                tid: pid,
                old_tid: old_pid,
            },
            Ftrace::Exit { pid } => What::Exit {
                tid: pid,
                at_once: false,
            },
            Ftrace::RunTime { pid, ns } => What::RunTime {
                tid: pid,
                ns: u32::try_from(ns).unwrap_or(u32::MAX),
            },
            Ftrace::IrqEntry { name } => What::IrqEntry {
                name: self.name(name, strings),
            },
            Ftrace::IrqExit => What::IrqExit,
            Ftrace::SoftirqEntry { vec } => {
                let name = SOFTIRQS.get(vec as usize).copied().unwrap_or("softirq");
                What::SoftirqEntry {
                    name: strings.intern(name),
                }
            }
            Ftrace::SoftirqExit => What::SoftirqExit,
            Ftrace::SysEnter { id } => What::SyscallEntry {
                name: self.syscall(id, strings),
            },
            Ftrace::SysExit => What::SyscallExit,
        })
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
