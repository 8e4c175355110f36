//! Context switches without tracefs: perf_event_open(2).
//!
//! With privileges one event per CPU sees all threads. Without them the kernel shows a user the switches
//! of their own threads: one event per CPU on the program, inherited by all threads and processes it starts,
//! and opened before it runs anything. An inherited event can only be read through a ring per CPU,
//! hence (program, CPU) pairs and not one event for all CPUs.
use crate::error::{Error, Result};
use crate::guard::safefs::{Access, Held};
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

/// struct perf_event_attr as of PERF_ATTR_SIZE_VER5 (include/uapi/linux/perf_event.h); fields without a name here are
/// 0.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Attr {
    pub(crate) kind: u32,
    pub(crate) size: u32,
    pub(crate) config: u64,
    pub(crate) sample_period: u64,
    pub(crate) sample_type: u64,
    pub(crate) read_format: u64,
    pub(crate) flags: u64,
    pub(crate) wakeup: u32,
    pub(crate) bp_type: u32,
    pub(crate) config1: u64,
    pub(crate) config2: u64,
    pub(crate) branch_sample_type: u64,
    pub(crate) sample_regs_user: u64,
    pub(crate) sample_stack_user: u32,
    pub(crate) clockid: i32,
    pub(crate) sample_regs_intr: u64,
    pub(crate) aux_watermark: u32,
    pub(crate) sample_max_stack: u16,
    pub(crate) reserved: u16,
}
const _: () = assert!(size_of::<Attr>() == 112);

pub(crate) const TYPE_SOFTWARE: u32 = 1;
pub(crate) const COUNT_SW_DUMMY: u64 = 9;
pub(crate) const SAMPLE_TID: u64 = 1 << 1;
pub(crate) const SAMPLE_TIME: u64 = 1 << 2;
pub(crate) const SAMPLE_CPU: u64 = 1 << 7;
pub(crate) const INHERIT: u64 = 1 << 1;
pub(crate) const EXCLUDE_KERNEL: u64 = 1 << 5;
pub(crate) const COMM: u64 = 1 << 9;
pub(crate) const TASK: u64 = 1 << 13;
pub(crate) const SAMPLE_ID_ALL: u64 = 1 << 18;
pub(crate) const COMM_EXEC: u64 = 1 << 24;
pub(crate) const USE_CLOCKID: u64 = 1 << 25;
const CONTEXT_SWITCH: u64 = 1 << 26;
pub(crate) const IOC_SET_OUTPUT: libc::Ioctl = 0x2405;
const FD_CLOEXEC: libc::c_ulong = 8;

/// Offsets in the first page of a ring (struct perf_event_mmap_page).
const DATA_HEAD: usize = 1024;
const DATA_TAIL: usize = 1032;
const PAGE: usize = 4096;

/// The threads that perf events can observe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// All threads of the system.
    System,
    /// The given threads, and the threads and processes that they start.
    Own,
}

/// One ring, drained into one file.
#[derive(Debug)]
struct Ring {
    cpu: u32,
    map: memmap2::MmapRaw,
    page_bytes: usize,
    data_bytes: usize,
    file: File,
    path: PathBuf,
    bytes: u64,
}

/// Open events on all CPUs.
#[derive(Debug)]
pub struct Perf {
    /// The threads it observes.
    pub reach: Reach,
    /// Pages of each ring.
    pages: usize,
    rings: Vec<Ring>,
    _events: Vec<OwnedFd>,
}

fn open_event(tid: i32, cpu: u32, reach: Reach) -> io::Result<OwnedFd> {
    let own = if reach == Reach::Own { INHERIT | EXCLUDE_KERNEL } else { 0 };
    let attr = Attr {
        kind: TYPE_SOFTWARE,
        config: COUNT_SW_DUMMY,
        sample_type: SAMPLE_TID | SAMPLE_TIME | SAMPLE_CPU,
        flags: COMM | TASK | SAMPLE_ID_ALL | COMM_EXEC | USE_CLOCKID | CONTEXT_SWITCH | own,
        clockid: libc::CLOCK_MONOTONIC,
        ..Attr::default()
    };
    open_attr(attr, tid, cpu)
}

/// perf_event_open(2) for a thread (-1: all) on a CPU.
pub(crate) fn open_attr(attr: Attr, tid: i32, cpu: u32) -> io::Result<OwnedFd> {
    let attr = Attr { size: size_of::<Attr>() as u32, ..attr };
    // SAFETY: `attr` is a valid struct perf_event_attr of the size it states.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attr,
            tid,
            cpu as i32,
            -1i32,
            FD_CLOEXEC,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call returned a new descriptor that no other code owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// The widest reach that this user has; `None`: the kernel refuses perf events altogether.
pub fn reach() -> Option<Reach> {
    let cpu = *crate::host::cpu_list("online").first()?;
    if open_event(-1, cpu, Reach::System).is_ok() {
        return Some(Reach::System);
    }
    open_event(0, cpu, Reach::Own).is_ok().then_some(Reach::Own)
}

/// What the kernel's own trace has and perf events have not, as far as this user reaches.
pub(crate) fn unseen() -> &'static str {
    unseen_at(reach())
}

fn unseen_at(reach: Option<Reach>) -> &'static str {
    match reach {
        Some(Reach::System) => "wake-ups, run-queue waits, interrupts",
        _ => "wake-ups, run-queue waits, other programs, interrupts",
    }
}

/// What lets perf_event_open through, where [`reach`] finds it refused.
pub(crate) fn remedy() -> &'static str {
    use rustix::thread::{CapabilitySet, capabilities};
    let enough = CapabilitySet::PERFMON | CapabilitySet::SYS_ADMIN;
    remedy_for(paranoid(), capabilities(None).is_ok_and(|has| has.effective.intersects(enough)))
}

/// A setting above 2 refuses it to those without a capability; where that is not so, a filter of system calls does.
fn remedy_for(paranoid: Option<i32>, is_privileged: bool) -> &'static str {
    match paranoid {
        Some(level) if level > 2 && !is_privileged => "`sudo sysctl kernel.perf_event_paranoid=2`",
        _ => {
            "a filter of system calls holds it off, as a container's does: allow perf_event_open there"
        }
    }
}

/// kernel.perf_event_paranoid.
pub(crate) fn paranoid() -> Option<i32> {
    std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").ok()?.trim().parse().ok()
}

/// Whether rings may be larger than what each user may lock: 129 pages for each CPU, and `ulimit -l` of all together. A user with
/// CAP_PERFMON alone may watch all, and lock no more than others: a ring that took it all left none for the next.
pub(crate) fn may_lock_more() -> bool {
    use rustix::thread::{CapabilitySet, capabilities};
    paranoid().is_some_and(|level| level < 0)
        || capabilities(None).is_ok_and(|has| has.effective.contains(CapabilitySet::IPC_LOCK))
}

impl Perf {
    /// Opens events on `tids` (all threads when the reach is the system), with a ring and `perf<N>.raw` in `dir` for each CPU.
    ///
    /// # Errors
    /// When the kernel refuses or a file cannot be made.
    pub fn open(reach: Reach, tids: &[i32], cpus: &[u32], dir: &Held) -> Result<Perf> {
        let mut perf = Perf {
            reach,
            // Half of what a user may lock is left for samples of stacks.
            pages: if may_lock_more() { 128 } else { 64 },
            rings: Vec::new(),
            _events: Vec::new(),
        };
        let tids = if reach == Reach::System { &[-1][..] } else { tids };
        for &cpu in cpus {
            perf.open_cpu(cpu, tids, dir)?;
        }
        Ok(perf)
    }

    fn open_cpu(&mut self, cpu: u32, tids: &[i32], dir: &Held) -> Result<()> {
        let refused = |cause| Error::System { what: "open a perf event", cause };
        let mut leader: Option<i32> = None;
        for &tid in tids {
            let event = match open_event(tid, cpu, self.reach) {
                Ok(event) => event,
                // The thread ended, or the CPU went offline, since they were listed.
                Err(e) if matches!(e.raw_os_error(), Some(libc::ESRCH | libc::ENODEV)) => continue,
                Err(e) => return Err(refused(e)),
            };
            match leader {
                None => {
                    let name = format!("perf{cpu}.raw");
                    let path = dir.named(&name);
                    let file = dir.file(&name, Access::New);
                    let file = file.map_err(|e| Error::file("make", &path, e))?;
                    let locked = |cause| Error::System {
                        what: "lock memory for a ring (`ulimit -l unlimited`, or the capability CAP_IPC_LOCK)",
                        cause,
                    };
                    let (map, page_bytes) = map_ring(&event, self.pages).map_err(locked)?;
                    let data_bytes = map.len() - page_bytes;
                    self.rings.push(Ring {
                        cpu,
                        map,
                        page_bytes,
                        data_bytes,
                        file,
                        path,
                        bytes: 0,
                    });
                    leader = Some(event.as_raw_fd());
                }
                Some(leader) => {
                    // SAFETY: both descriptors are open perf events.
                    if unsafe { libc::ioctl(event.as_raw_fd(), IOC_SET_OUTPUT, leader) } < 0 {
                        return Err(refused(io::Error::last_os_error()));
                    }
                }
            }
            self._events.push(event);
        }
        Ok(())
    }

    /// Writes the content of the rings to the files. Returns the bytes written.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn drain(&mut self) -> Result<u64> {
        let mut sum = 0;
        for ring in &mut self.rings {
            sum += ring.drain()?;
        }
        Ok(sum)
    }

    /// Records that wait in each CPU's ring: they are lost when no file takes them.
    pub fn unwritten(&self) -> Vec<(u32, u64)> {
        let count = |ring: &Ring| {
            let mut n = 0;
            each_record(&ring.waiting().1.concat(), |_, _| n += 1);
            (ring.cpu, n)
        };
        self.rings.iter().map(count).collect()
    }

    /// Each file, and the bytes in it.
    pub fn written(&self) -> Vec<(String, u64)> {
        let of = |ring: &Ring| (format!("perf{}.raw", ring.cpu), ring.bytes);
        self.rings.iter().map(of).collect()
    }

    /// Bytes written so far.
    pub fn bytes(&self) -> u64 {
        self.rings.iter().map(|ring| ring.bytes).sum()
    }
}

/// Records for which the ring had no room. The kernel counts them in records of type PERF_RECORD_LOST.
pub(crate) fn lost(bytes: &[u8]) -> u64 {
    const RECORD_LOST: u32 = 2;
    let mut sum = 0u64;
    each_record(bytes, |kind, record| {
        // Layout: header (8 bytes), the event's id, the count.
        if let (RECORD_LOST, Some(n)) = (kind, record.get(16..24)) {
            sum = sum.saturating_add(u64::from_ne_bytes(n.try_into().expect("eight bytes")));
        }
    });
    sum
}

/// The records of a ring, back to back, each with its kind.
fn each_record(bytes: &[u8], mut each: impl FnMut(u32, &[u8])) {
    let mut rest = bytes;
    while let Some(header) = rest.get(..8) {
        let kind = u32::from_ne_bytes(header[..4].try_into().expect("four bytes"));
        let size = usize::from(u16::from_ne_bytes([header[6], header[7]]));
        let (record, after) = rest.split_at(size.clamp(8, rest.len()));
        each(kind, record);
        rest = after;
    }
}

/// A ring of `most_pages` (a power of 2), or the largest that the user's share of locked memory allows: the kernel's
/// default share is 516 KiB for each CPU, which is 128 pages and the header.
pub(crate) fn map_ring(
    event: &OwnedFd,
    most_pages: usize,
) -> io::Result<(memmap2::MmapRaw, usize)> {
    // SAFETY: asks for a constant of the system.
    let page =
        usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(PAGE).max(PAGE);
    let mut pages = most_pages;
    loop {
        match memmap2::MmapOptions::new().len((pages + 1) * page).map_raw(event) {
            Ok(map) => return Ok((map, page)),
            Err(_) if pages > 8 => pages /= 2,
            Err(e) => return Err(e),
        }
    }
}

impl Ring {
    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: both offsets used lie in the first page, aligned; the kernel updates them atomically.
        unsafe { AtomicU64::from_ptr(self.map.as_mut_ptr().add(offset).cast()) }
    }

    /// The unread part of the ring, and its start. It has two pieces because it may wrap around the end.
    fn waiting(&self) -> (u64, [&[u8]; 2]) {
        // ORDER acquire; pairs with the kernel's barrier before it moves data_head: the records up to head are
        // visible.
        let head = self.word(DATA_HEAD).load(Ordering::Acquire);
        let tail = self.word(DATA_TAIL).load(Ordering::Relaxed);
        let length = (head - tail).min(self.data_bytes as u64) as usize;
        let start = (tail % self.data_bytes as u64) as usize;
        let first = length.min(self.data_bytes - start);
        let parts = [(start, first), (0, length - first)].map(|(at, n)| {
            // SAFETY: the range lies in the data pages; the kernel does not write between tail and head.
            unsafe { std::slice::from_raw_parts(self.map.as_ptr().add(self.page_bytes + at), n) }
        });
        (tail, parts)
    }

    fn drain(&mut self) -> Result<u64> {
        let (tail, parts) = self.waiting();
        let length = parts.iter().map(|part| part.len()).sum::<usize>();
        for part in parts {
            if let Err(e) = (&self.file).write_all(part) {
                // Whole or not at all: a part that stayed in the file would be written a second time.
                let _ = self.file.set_len(self.bytes);
                let _ = (&self.file).seek(SeekFrom::Start(self.bytes));
                return Err(Error::file("write", &self.path, e));
            }
        }
        // ORDER release; pairs with the kernel's read of data_tail: our copy is done before it overwrites.
        self.word(DATA_TAIL).store(tail + length as u64, Ordering::Release);
        self.bytes += length as u64;
        Ok(length as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::{Reach, remedy_for, unseen_at};

    #[test]
    fn what_is_seen_is_not_called_lost() {
        assert!(!unseen_at(Some(Reach::System)).contains("other programs"));
        assert!(unseen_at(Some(Reach::Own)).contains("other programs"));
        assert!(unseen_at(None).contains("other programs"));
    }

    #[test]
    fn a_setting_that_refuses_nobody_is_not_to_be_changed() {
        let advises_setting = |level, privileged| remedy_for(level, privileged).contains("sysctl");
        assert!(advises_setting(Some(3), false));
        assert!(!advises_setting(Some(4), true), "CAP_PERFMON stands above it");
        assert!(!advises_setting(Some(2), false));
        assert!(!advises_setting(None, false));
    }
}
