//! The perf events that take samples: their attributes.
use crate::kernel::perf::{
    Attr, COMM, COMM_EXEC, COUNT_SW_DUMMY, EXCLUDE_KERNEL, INHERIT, IOC_SET_OUTPUT, Reach,
    SAMPLE_CPU, SAMPLE_ID_ALL, SAMPLE_TID, SAMPLE_TIME, TASK, TYPE_SOFTWARE, USE_CLOCKID,
    open_attr,
};
use crate::kernel::tracefs::Tracefs;
use crate::stacks::registers::REGISTERS;
use rustix::fs::{Mode, OFlags};
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

/// What takes on-CPU samples, in `sampling.jsonl`: a timer of our own. The timer interrupt that comes anyway would cost less, but it
/// also comes when a timer of the program expires, and in step with whatever begins at a tick.
pub(super) const CLOCK: &str = "cpu-clock";

/// The number of a tracepoint; `None`: this kernel has none, or we may not know.
pub(crate) fn tracepoint(name: &str) -> Option<u64> {
    let tracefs = Tracefs::open().ok()?;
    let path = format!("events/{name}/id");
    let file =
        rustix::fs::openat(tracefs.root(), path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    let mut text = String::new();
    std::fs::File::from(file.ok()?).take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn common(reach: Reach) -> Attr {
    let mut flags = SAMPLE_ID_ALL | USE_CLOCKID;
    // One event for each CPU sees all threads; else one for each thread and CPU, inherited by the threads that it starts, and
    // no samples while the kernel works for them.
    if reach == Reach::Own {
        flags |= INHERIT | EXCLUDE_KERNEL;
    }
    Attr {
        sample_type: SAMPLE_IDENTIFIER | SAMPLE_TID | SAMPLE_TIME | SAMPLE_CPU,
        flags,
        clockid: libc::CLOCK_MONOTONIC,
        ..Attr::default()
    }
}

/// An event that takes no samples: it tells of mappings, new programs, new threads and their ends.
pub(crate) fn open_changes(reach: Reach, tid: i32, cpu: u32) -> io::Result<OwnedFd> {
    let attr = common(reach);
    let attr = Attr {
        kind: TYPE_SOFTWARE,
        config: COUNT_SW_DUMMY,
        flags: attr.flags | COMM | COMM_EXEC | TASK | MMAP | MMAP2,
        ..attr
    };
    open_attr(attr, tid, cpu)
}

/// An event that takes samples `period_ns` apart, `stack_bytes` of the stack each, once [`enable`]d.
pub(crate) fn open_samples(
    period_ns: u64,
    reach: Reach,
    stack_bytes: u32,
    tid: i32,
    cpu: u32,
) -> io::Result<OwnedFd> {
    let attr = common(reach);
    let kernel = match reach {
        Reach::System => SAMPLE_CALLCHAIN,
        Reach::Own => 0,
    };
    let attr = Attr {
        kind: TYPE_SOFTWARE,
        config: COUNT_SW_CPU_CLOCK,
        sample_period: period_ns,
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
    let attr = common(Reach::System);
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

/// Takes samples `period_ns` apart from now on, the first when so much has passed.
pub(crate) fn set_period(event: &OwnedFd, period_ns: u64) -> io::Result<()> {
    // SAFETY: an open perf event; the kernel reads eight bytes of `period_ns`.
    match unsafe { libc::ioctl(event.as_raw_fd(), IOC_PERIOD, &raw const period_ns) } {
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
