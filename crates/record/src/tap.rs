//! A tap on the scheduler's events of the whole system: raw pages for whoever follows them live (`kasuri top`), the last seconds of
//! them kept in memory, and saved as a recording on request.
//!
//! It is a recorder without files: the same private instance, the same events, pages by read(2) instead of splice(2). What it keeps is
//! bounded by time and by bytes, and a CPU that writes more keeps less time.
use crate::clock;
use crate::error::{Error, Result};
use crate::files::directory::{self, Directory};
use crate::files::pack;
use crate::guard::safefs::Access;
use crate::kernel::tracefs::{
    self, CpuStats, DEFAULT_EVENTS, Instance, InstanceOptions, StatsFiles, Tracefs, open_file,
};
use crate::notice::Notify;
use crate::program::limits::{Cgroups, Throttling};
use crate::program::namespaces;
use crate::program::procs::Snapshots;
use kasuri_format::meta::{Anchor, KernelLoss, KernelMeta, META_VERSION, Meta, Proc};
use kasuri_format::tracefs::{Page, PageLayout};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::collections::{HashMap, VecDeque};
use std::io::{Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Kernel buffer of each CPU, KiB: what the worst scheduler load measured (100 MB/s on one CPU) writes in 40 ms, and usual ones in
/// seconds.
const BUFFER_KB: u64 = 4096;
/// Threads whose system call one look reads: a thread takes 9 us.
pub const MAX_ASKED: usize = 64;

/// What a tap keeps for [`Tap::save`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// This much time, and a page more.
    pub time: Duration,
    /// At most so many bytes, of all CPUs together.
    pub bytes: usize,
}

/// A page of one CPU's buffer; one that is less than half full without its unused end.
#[derive(Debug)]
struct Kept {
    read_ns: u64,
    page: Arc<[u8]>,
}

/// The pages of the last seconds.
#[derive(Debug)]
struct Keeper {
    keep: Keep,
    layout: PageLayout,
    /// By CPU.
    pages: Vec<VecDeque<Kept>>,
    bytes: usize,
}

impl Keeper {
    fn new(keep: Keep, layout: PageLayout, n_cpus: usize) -> Keeper {
        let pages = (0..n_cpus).map(|_| VecDeque::new()).collect();
        Keeper { keep, layout, pages, bytes: 0 }
    }

    /// The beginning of the kept time.
    fn oldest_ns(&self, now: u64) -> u64 {
        now.saturating_sub(u64::try_from(self.keep.time.as_nanos()).unwrap_or(u64::MAX))
    }

    fn add(&mut self, cpu: usize, page: Arc<[u8]>, read_ns: u64) {
        let used = self.used(&page);
        let page = match used > page.len() / 2 {
            true => page,
            false => Arc::from(&page[..used]),
        };
        self.bytes += page.len();
        self.pages[cpu].push_back(Kept { read_ns, page });
    }

    /// Bytes up to the end of a page's events, and of the count of lost ones that may stand behind them.
    fn used(&self, page: &[u8]) -> usize {
        let parsed = Page::parse(page, &self.layout, 0);
        parsed.map_or(page.len(), |parsed| {
            let end = self.layout.data_offset + parsed.event_bytes();
            page.len().min(end + self.layout.commit_bytes)
        })
    }

    /// Forgets pages that are older than what is kept, and the oldest of the CPU that has most while there are too many. Those
    /// that can be read into again go to `free`.
    fn forget(&mut self, now: u64, free: &mut Pages) {
        let oldest = self.oldest_ns(now);
        for cpu in 0..self.pages.len() {
            // A page that was read at a time began before it: the last one before the kept time has its first events.
            let is_old = |next: &Kept| next.read_ns < oldest;
            while self.pages[cpu].get(1).is_some_and(is_old) {
                self.forget_first(cpu, free);
            }
        }
        while self.bytes > self.keep.bytes {
            let most = (0..self.pages.len()).max_by_key(|&cpu| self.pages[cpu].len());
            self.forget_first(most.expect("bytes of some CPU"), free);
        }
    }

    fn forget_first(&mut self, cpu: usize, free: &mut Pages) {
        let first = self.pages[cpu].pop_front().expect("a page of this CPU");
        self.bytes -= first.page.len();
        free.give_back(first.page);
    }
}

/// Pages to read into. One that was read is shared by whoever looks at it and what is kept, so it is not copied; it is read into
/// again once neither needs it.
#[derive(Debug)]
struct Pages {
    bytes: usize,
    /// Given back; those who looked at them may still do.
    free: VecDeque<Arc<[u8]>>,
}

impl Pages {
    /// Pages that wait to be read into, at most: those of a tick of a busy machine.
    const MOST: usize = 1024;

    fn take(&mut self) -> Arc<[u8]> {
        if let Some(mut page) = self.free.pop_front() {
            if Arc::get_mut(&mut page).is_some() {
                return page;
            }
            self.free.push_back(page);
        }
        std::iter::repeat_n(0, self.bytes).collect()
    }

    fn give_back(&mut self, page: Arc<[u8]>) {
        if page.len() == self.bytes && self.free.len() < Pages::MOST {
            self.free.push_back(page);
        }
    }
}

/// An open tap. Dropping it removes the instance.
#[derive(Debug)]
pub struct Tap {
    sources: Vec<OwnedFd>,
    stats: StatsFiles,
    losses: HashMap<u32, CpuStats>,
    cgroups: Cgroups,
    pages: Pages,
    kept: Keeper,
    anchors: VecDeque<Anchor>,
    /// Instances of killed recorders that were removed on the way.
    pub removed: Vec<String>,
    instance: Instance,
}

impl Tap {
    /// Opens the tap and starts the kernel.
    ///
    /// # Errors
    /// When this user, or this name space, gets no scheduler events, with the remedy.
    pub fn open(keep: Keep) -> Result<Tap> {
        Tap::open_on(keep, DEFAULT_EVENTS, None)
    }

    /// A tap on calls of the system alone, by their numbers.
    ///
    /// # Errors
    /// As [`Tap::open`].
    pub fn open_on_calls(calls: &[i64]) -> Result<Tap> {
        let keep = Keep { time: Duration::ZERO, bytes: 0 };
        let calls: Vec<String> = calls.iter().map(|call| format!("id == {call}")).collect();
        let events = ["raw_syscalls/sys_enter", "raw_syscalls/sys_exit"];
        let events = events.map(|event| (event, "system calls"));
        Tap::open_on(keep, &events, Some(&calls.join(" || ")))
    }

    /// `filter`: what must hold of the fields of each event.
    fn open_on(keep: Keep, events: &[(&str, &str)], filter: Option<&str>) -> Result<Tap> {
        let nothing = |why: String| Error::Nothing { why };
        if !namespaces::proc_is_ours() {
            return Err(Error::ForeignProc);
        }
        if !namespaces::is_initial() {
            return Err(nothing(
                "kasuri runs in its own PID namespace, and tracefs has the host's process ids; run it on the host, or in a \
                 container with `--pid=host`"
                    .to_owned(),
            ));
        }
        let tracefs = Tracefs::open().map_err(|unavailable| {
            let remedy = unavailable.remedy.replace("kasuri record", "kasuri top");
            nothing(format!("{}; {remedy}", unavailable.why))
        })?;
        let removed = tracefs::reap_dead(&tracefs);
        let own = |&(event, lost): &(&str, &str)| (event.to_owned(), lost.to_owned());
        let wanted = InstanceOptions {
            buffer_kb: BUFFER_KB,
            // The stamps are compared with the time now, once a window: ns need no anchors.
            tsc: false,
            events: events.iter().map(own).collect(),
            uprobes: Vec::new(),
        };
        let instance = Instance::create(&tracefs, &wanted)
            .map_err(|e| nothing(format!("cannot create a tracing instance ({e})")))?;
        for (event, _) in events {
            let set = filter.map_or(Ok(()), |filter| instance.set_filter(event, filter));
            set.map_err(|e| nothing(format!("{event}: the kernel takes no filter ({e})")))?;
        }
        let sources = instance.cpus.iter().map(|cpu| {
            let name = format!("per_cpu/cpu{cpu}/trace_pipe_raw");
            open_file(instance.dir(), &name, OFlags::NONBLOCK)
                .map_err(|e| Error::file("open", Path::new(&name), e))
        });
        let sources = sources.collect::<Result<Vec<OwnedFd>>>()?;
        let stats = StatsFiles::open(instance.dir(), &instance.cpus)
            .map_err(|e| Error::file("open", Path::new("per_cpu/*/stats"), e))?;
        let meta = meta(&instance);
        let layout = PageLayout::from_meta(&meta)
            .map_err(|e| nothing(format!("pages of this kernel are not understood: {e}")))?;
        let tap = Tap {
            sources,
            stats,
            losses: HashMap::new(),
            cgroups: Cgroups::find(),
            pages: Pages { bytes: instance.page_bytes as usize, free: VecDeque::new() },
            kept: Keeper::new(keep, layout, instance.cpus.len()),
            anchors: VecDeque::from([clock::anchor()]),
            removed,
            instance,
        };
        let started = tap.instance.set_tracing(true);
        started.map_err(|e| Error::file("write", Path::new("tracing_on"), e))?;
        Ok(tap)
    }

    /// How to read the pages.
    pub fn meta(&self) -> KernelMeta {
        meta(&self.instance)
    }

    /// The CPUs that have buffers, in the order of the numbers that [`Tap::read`] gives.
    pub fn cpus(&self) -> &[u32] {
        &self.instance.cpus
    }

    /// Events that were wanted and that this kernel does not have, with what is lost.
    pub fn missing(&self) -> &[String] {
        &self.instance.missing
    }

    /// Reads all that the kernel has written: `each` gets the position of the CPU in [`Tap::cpus`] and a page.
    ///
    /// # Errors
    /// When a buffer cannot be read.
    pub fn read(&mut self, mut each: impl FnMut(usize, Arc<[u8]>)) -> Result<()> {
        let now = clock::monotonic_ns();
        for ix in 0..self.sources.len() {
            // So many pages at most: a CPU that writes as fast as we read must not hold up the others.
            let most = BUFFER_KB * 1024 / self.pages.bytes as u64 + 1;
            for _ in 0..most {
                let mut shared = self.pages.take();
                let page = Arc::get_mut(&mut shared).expect("nobody else has it");
                let read = rustix::io::read(&self.sources[ix], &mut *page);
                match read {
                    Ok(0) | Err(Errno::AGAIN | Errno::NODEV) => {
                        self.pages.give_back(shared);
                        break;
                    }
                    Err(Errno::INTR) => continue,
                    Err(e) => {
                        let name = format!("per_cpu/cpu{}/trace_pipe_raw", self.instance.cpus[ix]);
                        return Err(Error::file("read", Path::new(&name), e));
                    }
                    Ok(n) => {
                        // A page is handed over whole, but what lies behind its events is zero.
                        page[n..].fill(0);
                        each(ix, Arc::clone(&shared));
                        self.kept.add(ix, shared, now);
                    }
                }
            }
        }
        self.kept.forget(now, &mut self.pages);
        let oldest = self.kept.oldest_ns(now);
        while self.anchors.get(1).is_some_and(|a| a.monotonic_ns < oldest) {
            self.anchors.pop_front();
        }
        Ok(())
    }

    /// Once a second: events that the kernel lost since the last call.
    pub fn second(&mut self) -> u64 {
        self.anchors.push_back(clock::anchor());
        let mut lost = 0;
        let before = &mut self.losses;
        self.stats.read(|cpu, stats| {
            let was = before.insert(cpu, stats).map_or(0, |before| before.lost());
            lost += stats.lost().saturating_sub(was);
        });
        lost
    }

    /// The CPU limits that hold for a process, with how long its cgroups were throttled so far.
    pub fn throttling(&self, pid: i32) -> Option<Throttling> {
        self.cgroups.throttling(pid)
    }

    /// Saves what is kept as a recording. The tap goes on; what happens meanwhile stays in the kernel's buffers.
    ///
    /// # Errors
    /// When the recording cannot be made; nothing is left of it then.
    pub fn save(&self, output: &Path, notify: Notify<'_>) -> Result<pack::Packed> {
        let mut dir = Directory::create(&directory::place_for(output)?)?;
        let written = self.write(&mut dir);
        let packed = written.and_then(|()| pack::pack(dir.path(), output, notify));
        dir.discard();
        packed
    }

    fn write(&self, dir: &mut Directory) -> Result<()> {
        for (pages, number) in self.kept.pages.iter().zip(&self.instance.cpus) {
            let name = format!("cpu{number}.raw");
            let path = dir.held().named(&name);
            let failed = |e| Error::file("write", &path, e);
            let mut file = dir.held().file(&name, Access::New).map_err(failed)?;
            for (page, kept) in pages.iter().enumerate() {
                let at = (page * self.pages.bytes) as u64;
                file.seek(SeekFrom::Start(at)).map_err(failed)?;
                file.write_all(&kept.page).map_err(failed)?;
            }
            let end = (pages.len() * self.pages.bytes) as u64;
            file.set_len(end).map_err(failed)?;
        }
        let end = clock::anchor();
        let anchors: Vec<Anchor> = self.anchors.iter().copied().chain([end]).collect();
        dir.add_anchors(&anchors)?;
        dir.add_procs(&Snapshots::default().everything())?;
        let losses: Vec<KernelLoss> = self
            .losses
            .iter()
            .map(|(&cpu, stats)| KernelLoss {
                monotonic_ns: end.monotonic_ns,
                cpu,
                overrun: stats.overrun,
                dropped: stats.dropped,
                commit_overrun: stats.commit_overrun,
                ..KernelLoss::default()
            })
            .collect();
        dir.add_losses(&losses)?;
        let mut meta = Meta {
            version: META_VERSION,
            recorder: concat!("kasuri ", env!("CARGO_PKG_VERSION")).to_owned(),
            mode: "flight".to_owned(),
            host: crate::host::host(),
            kernel: self.meta(),
            missing: self.instance.missing.clone(),
            start: anchors[0],
            end: Some(end),
            complete: true,
            keep_ns: u64::try_from(self.kept.keep.time.as_nanos()).ok(),
            ..Meta::default()
        };
        meta.missing.push(
            "annotations and call paths were not recorded (kasuri top); `kasuri record --flight -a` keeps them".to_owned(),
        );
        dir.write_meta(&meta)
    }
}

/// How to read an instance's pages.
fn meta(instance: &Instance) -> KernelMeta {
    KernelMeta {
        source: "tracefs".to_owned(),
        clock: instance.clock.clone(),
        page_bytes: instance.page_bytes,
        header_page: instance.header_page.clone(),
        formats: instance.formats.clone(),
        buffer_kb: instance.buffer_kb as u32,
        big_endian: cfg!(target_endian = "big"),
    }
}

/// All threads of the system, once.
pub fn threads() -> Vec<Proc> {
    Snapshots::default().everything()
}

/// The process and the name of a thread that exists.
pub fn thread(tid: i32) -> Option<(i32, String)> {
    let status = std::fs::read(format!("/proc/{tid}/status")).ok()?;
    let status = String::from_utf8_lossy(&status);
    let value = |key: &str| {
        let mut lines = status.lines();
        lines.find_map(|line| Some(line.strip_prefix(key)?.trim().to_owned()))
    };
    Some((value("Tgid:")?.parse().ok()?, value("Name:")?))
}

/// The system call in which a thread waits; `None`: it runs, has ended, is a kernel thread, or may not be asked.
pub fn waits_in(pid: i32, tid: i32) -> Option<i64> {
    let text = std::fs::read(format!("/proc/{pid}/task/{tid}/syscall")).ok()?;
    let text = std::str::from_utf8(&text).ok()?;
    let call: i64 = text.split_ascii_whitespace().next()?.parse().ok()?;
    (call >= 0).then_some(call)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page of which so many bytes are used, those of its head and of the count behind its events among them.
    fn page(used: usize) -> Arc<[u8]> {
        let mut page = vec![1; used];
        page.resize(4096, 0);
        page[8..16].copy_from_slice(&(used as u64 - 24).to_le_bytes());
        page.into()
    }

    fn pages() -> Pages {
        Pages { bytes: 4096, free: VecDeque::new() }
    }

    #[test]
    fn a_page_is_read_into_again_once_nobody_looks_at_it() {
        let mut free = pages();
        let mut kept =
            Keeper::new(Keep { time: Duration::from_secs(1), bytes: 4096 }, PageLayout::LE64, 1);
        let (first, looked_at) = (page(4000), page(4000));
        let address = first.as_ptr();
        kept.add(0, Arc::clone(&looked_at), 1);
        kept.add(0, first, 2);
        kept.add(0, page(4000), 3);
        kept.forget(3, &mut free);
        assert_eq!((kept.bytes, free.free.len()), (4096, 2));
        assert_eq!(free.take()[0], 0, "a new one: the other is looked at");
        assert_eq!(free.take().as_ptr(), address);
        drop(looked_at);
        assert_eq!(free.take()[0], 1);
        assert_eq!(free.take()[0], 0);
    }

    #[test]
    fn what_is_kept_is_bounded_by_time_and_by_bytes() {
        let keep = Keep { time: Duration::from_secs(5), bytes: 10_000 };
        let mut kept = Keeper::new(keep, PageLayout::LE64, 2);
        let mut free = pages();
        for second in 1..=20 {
            let now = second * 1_000_000_000;
            kept.add(0, page(100), now);
            kept.forget(now, &mut free);
            // Five seconds, and the page in which they begin.
            assert!(kept.pages[0].len() <= 7, "{}", kept.pages[0].len());
        }
        assert_eq!(kept.pages[0][0].read_ns, 14_000_000_000);
        assert_eq!(kept.bytes, 700);
        for _ in 0..100 {
            kept.add(1, page(1000), 20_000_000_000);
            kept.forget(20_000_000_000, &mut free);
            assert!(kept.bytes <= 10_000);
        }
        let bytes: usize = kept.pages.iter().flatten().map(|kept| kept.page.len()).sum();
        assert_eq!(bytes, kept.bytes);
        assert!(kept.pages[1].len() >= 9, "the newest stay");
    }
}
