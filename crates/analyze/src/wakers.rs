//! What ended a wait.
use kasuri_model::{ThreadIx, ThreadState, Time, Trace};

/// A thread that wakes another and ends within this time woke it by ending.
pub(crate) const DYING_NS: i64 = 1_000_000;

/// What ended a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// This thread woke the one that waited.
    Thread(ThreadIx),
    /// The disk or another device, which was waited for without interruption.
    Device,
    /// An interrupt.
    Interrupt,
    /// It was not recorded.
    Unknown,
}

/// What brought the thread into the state of this row of [`Trace::states`], which follows a wait. State D alone does not tell the disk:
/// a thread is in it also while it waits for its child in vfork, for another thread's change of the memory map, for a server of FUSE.
pub(crate) fn end(trace: &Trace, thread: ThreadIx, row: usize) -> End {
    let states = &trace.states;
    let by = match states.state[row] {
        ThreadState::RunnableWoken => Some(states.by[row]),
        _ => woken_at(trace, thread, states.start[row]),
    };
    let before = row.checked_sub(1).map(|before| states.state[before]);
    let was_uninterruptible = before == Some(ThreadState::DiskSleep);
    match by {
        None => End::Unknown,
        Some(by) if was_uninterruptible && (!by.is_some() || serves_devices(trace, by)) => {
            End::Device
        }
        // It does what interrupts left over: a timer, a packet.
        Some(by) if by.is_some() && name(trace, by).starts_with("ksoftirqd/") => End::Interrupt,
        Some(by) if by.is_some() => End::Thread(by),
        Some(_) => End::Interrupt,
    }
}

/// Whether it is a thread of the kernel's that finishes what devices were asked for. Others of the kernel's end waits of other kinds.
fn serves_devices(trace: &Trace, thread: ThreadIx) -> bool {
    const BEGINS: [&str; 12] = [
        "kworker/",
        "ksoftirqd/",
        "irq/",
        "jbd2/",
        "xfs",
        "btrfs-",
        "z_rd_",
        "z_wr_",
        "txg_sync",
        "dmcrypt_write",
        "scsi_eh_",
        "usb-storage",
    ];
    let name = name(trace, thread);
    BEGINS.iter().any(|start| name.starts_with(start))
}

fn name(trace: &Trace, thread: ThreadIx) -> &str {
    trace.strings.get(trace.threads[thread.ix()].name)
}

/// The waker; none: an interrupt, or it is not known.
pub(crate) fn waker(trace: &Trace, thread: ThreadIx, row: usize) -> ThreadIx {
    match end(trace, thread, row) {
        End::Thread(by) => by,
        _ => ThreadIx::NONE,
    }
}

/// The waker of a thread that ran the instant it was woken, which has no state that names it.
#[cold]
fn woken_at(trace: &Trace, thread: ThreadIx, time: Time) -> Option<ThreadIx> {
    let wakes = &trace.wakeups;
    let first = wakes.time.partition_point(|&t| t < time);
    let same = (first..wakes.time.len()).take_while(|&at| wakes.time[at] == time);
    let mut own = same.filter(|&at| wakes.wakee[at] == thread);
    own.next().map(|at| wakes.waker[at])
}
