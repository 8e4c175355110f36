//! The perf events that take samples: their attributes, and the choice of a source.
use crate::kernel::perf::{
    Attr, COMM, COMM_EXEC, COUNT_SW_DUMMY, EXCLUDE_KERNEL, INHERIT, IOC_SET_OUTPUT, SAMPLE_CPU,
    SAMPLE_ID_ALL, SAMPLE_TID, SAMPLE_TIME, TASK, TYPE_SOFTWARE, USE_CLOCKID, open_attr,
};
use crate::kernel::tracefs::Tracefs;
use crate::stacks::registers::REGISTERS;
use rustix::fs::{Mode, OFlags};
use rustix::time::{ClockId, clock_getres};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};

const TYPE_TRACEPOINT: u32 = 2;
const COUNT_SW_CPU_CLOCK: u64 = 0;
const SAMPLE_CALLCHAIN: u64 = 1 << 5;
const SAMPLE_REGS_USER: u64 = 1 << 12;
const SAMPLE_STACK_USER: u64 = 1 << 13;
const SAMPLE_IDENTIFIER: u64 = 1 << 16;
const DISABLED: u64 = 1;
const MMAP: u64 = 1 << 8;
const EXCLUDE_IDLE: u64 = 1 << 7;
const EXCLUDE_CALLCHAIN_USER: u64 = 1 << 22;
const MMAP2: u64 = 1 << 23;
const IOC_ENABLE: libc::Ioctl = 0x2400;
const IOC_DISABLE: libc::Ioctl = 0x2401;
pub(crate) const IOC_REFRESH: libc::Ioctl = 0x2402;
pub(crate) const IOC_PERIOD: libc::Ioctl = 0x4008_2404;
pub(crate) const IOC_SET_FILTER: libc::Ioctl = 0x4008_2406;
const IOC_ID: libc::Ioctl = 0x8008_2407u32 as libc::Ioctl;

/// Most bytes of a stack: the kernel's limit is 64 KiB for the whole record.
pub(super) const STACK_BYTES_MAX: u32 = 63 << 10;

/// What takes on-CPU samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The timer interrupt that each busy CPU takes anyway. Sampling there costs the copy of the stack and nothing
    /// else; an interrupt of our own costs 20 us and more on a virtual machine. The number is the tracepoint's.
    Tick(u64),
    /// A timer of our own, so many ns of CPU time apart.
    CpuClock(u64),
}

impl Source {
    /// Its name in `sampling.jsonl`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Source::Tick(_) => "tick",
            Source::CpuClock(_) => "cpu-clock",
        }
    }

    /// ns of CPU time between two samples, at most; interrupts of timers that programs set make them denser.
    pub(crate) fn period_ns(self) -> u64 {
        match self {
            // What the coarse clocks are set forward by is the time between two ticks.
            Source::Tick(_) => {
                let tick = clock_getres(ClockId::MonotonicCoarse);
                tick.tv_sec as u64 * 1_000_000_000 + tick.tv_nsec as u64
            }
            Source::CpuClock(ns) => ns,
        }
    }
}

/// The threads whose samples are taken, and what of the kernel may be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct View {
    /// One event for each CPU sees all threads; else one for each thread and CPU, inherited by the threads that it starts.
    pub(crate) system: bool,
    /// Whether samples may be taken while the kernel works for a thread.
    pub(crate) kernel: bool,
}

/// The timer interrupt; `None`: this kernel has no tracepoint there, or we may not know.
pub(crate) fn tick() -> Option<Source> {
    tracepoint("irq_vectors/local_timer_entry").map(Source::Tick)
}

/// The number of a tracepoint; `None`: this kernel has none, or we may not know.
pub(crate) fn tracepoint(name: &str) -> Option<u64> {
    let tracefs = Tracefs::open().ok()?;
    let path = format!("events/{name}/id");
    let file = rustix::fs::openat(
        tracefs.root(),
        path,
        OFlags::RDONLY | OFlags::CLOEXEC,
        Mode::empty(),
    );
    let mut text = String::new();
    std::fs::File::from(file.ok()?)
        .take(32)
        .read_to_string(&mut text)
        .ok()?;
    text.trim().parse().ok()
}

fn common(view: View) -> Attr {
    let mut flags = SAMPLE_ID_ALL | USE_CLOCKID;
    if !view.system {
        flags |= INHERIT;
    }
    if !view.kernel {
        flags |= EXCLUDE_KERNEL;
    }
    Attr {
        sample_type: SAMPLE_IDENTIFIER | SAMPLE_TID | SAMPLE_TIME | SAMPLE_CPU,
        flags,
        clockid: libc::CLOCK_MONOTONIC,
        ..Attr::default()
    }
}

/// An event that takes no samples: it tells of mappings, new programs, new threads and their ends.
pub(crate) fn open_changes(view: View, tid: i32, cpu: u32) -> io::Result<OwnedFd> {
    let attr = common(view);
    let attr = Attr {
        kind: TYPE_SOFTWARE,
        config: COUNT_SW_DUMMY,
        flags: attr.flags | COMM | COMM_EXEC | TASK | MMAP | MMAP2,
        ..attr
    };
    open_attr(attr, tid, cpu)
}

/// An event that takes samples, `stack_bytes` of the stack each, once [`enable`]d.
pub(crate) fn open_samples(
    source: Source,
    view: View,
    stack_bytes: u32,
    tid: i32,
    cpu: u32,
) -> io::Result<OwnedFd> {
    let attr = common(view);
    let (kind, config, sample_period) = match source {
        Source::Tick(id) => (TYPE_TRACEPOINT, id, 1),
        Source::CpuClock(ns) => (TYPE_SOFTWARE, COUNT_SW_CPU_CLOCK, ns),
    };
    let kernel = match view.kernel {
        true => SAMPLE_CALLCHAIN,
        false => 0,
    };
    let attr = Attr {
        kind,
        config,
        sample_period,
        sample_type: attr.sample_type | SAMPLE_REGS_USER | SAMPLE_STACK_USER | kernel,
        flags: attr.flags | DISABLED | EXCLUDE_IDLE | EXCLUDE_CALLCHAIN_USER,
        sample_regs_user: REGISTERS,
        sample_stack_user: stack_bytes,
        // Each sample wakes who polls the ring: nobody, unless samples are wanted soon (`Sampler::wakers`).
        wakeup: 1,
        ..attr
    };
    open_attr(attr, tid, cpu)
}

/// An event on a tracepoint, of all threads on a CPU: registers and `stack_bytes` of the stack.
pub(crate) fn open_tracepoint(id: u64, stack_bytes: u32, cpu: u32) -> io::Result<OwnedFd> {
    let view = View {
        system: true,
        kernel: true,
    };
    let attr = common(view);
    let attr = Attr {
        kind: TYPE_TRACEPOINT,
        config: id,
        sample_period: 1,
        sample_type: attr.sample_type | SAMPLE_REGS_USER | SAMPLE_STACK_USER,
        flags: attr.flags | DISABLED,
        sample_regs_user: REGISTERS,
        sample_stack_user: stack_bytes,
        ..attr
    };
    open_attr(attr, -1, cpu)
}

/// Lets an event, and those that were inherited from it, take samples.
pub(crate) fn enable(event: &OwnedFd) -> io::Result<()> {
    // SAFETY: an open perf event; the argument is no pointer.
    match unsafe { libc::ioctl(event.as_raw_fd(), IOC_ENABLE, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Keeps an event, and those that were inherited from it, from taking samples. It cannot fail on an event that was enabled.
pub(crate) fn disable(event: &OwnedFd) {
    // SAFETY: an open perf event; the argument is no pointer.
    unsafe { libc::ioctl(event.as_raw_fd(), IOC_DISABLE, 0) };
}

/// Takes one sample in so many occurrences from now on.
pub(crate) fn set_period(event: &OwnedFd, every: u64) -> io::Result<()> {
    // SAFETY: an open perf event; the kernel reads eight bytes of `every`.
    match unsafe { libc::ioctl(event.as_raw_fd(), IOC_PERIOD, &raw const every) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sends the records of `event` to the ring of `to`.
pub(crate) fn set_output(event: &OwnedFd, to: &OwnedFd) -> io::Result<()> {
    // SAFETY: both are open perf events.
    match unsafe { libc::ioctl(event.as_raw_fd(), IOC_SET_OUTPUT, to.as_raw_fd()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The number that the records of an event carry.
pub(crate) fn id(event: &OwnedFd) -> io::Result<u64> {
    let mut id = 0u64;
    // SAFETY: an open perf event; the kernel writes eight bytes to `id`.
    match unsafe { libc::ioctl(event.as_raw_fd(), IOC_ID, &raw mut id) } {
        0 => Ok(id),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The thread ended, or the CPU went offline, since they were listed.
pub(super) fn is_gone(e: &io::Error) -> bool {
    matches!(e.raw_os_error(), Some(libc::ESRCH | libc::ENODEV))
}
