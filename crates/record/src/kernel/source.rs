//! Chooses the source of kernel events: tracefs, else perf, else none; each step down is explained.
//!
//! [`open`] runs before the program exists, [`Source::start`] switches the kernel on. While recording,
//! [`Source::drain`] moves full pages to files at each tick, and [`Source::drain_waiting`] once a second moves those
//! that do not fill. At the end come [`Source::stop`], [`Source::finish`] for the last pages, and [`Source::losses`]
//! for the kernel's counts.
use crate::error::Result;
use crate::guard::safefs::Held;
use crate::kernel::perf::{self, Perf, Reach};
use crate::kernel::tracefs::{
    self, CpuStats, Drain, Hides, Instance, InstanceOptions, StatsFiles, Tracefs,
};
use crate::kernel::uprobes;
use crate::kernel::usdt::{self, Price, Watch};
use crate::options::{Options, Target};
use kasuri_format::meta::{KernelLoss, KernelMeta, UsdtProbe};
use kasuri_format::tracefs::{Page, PageLayout};
use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

/// An open source of kernel events.
#[derive(Debug)]
pub enum Source {
    /// A private tracing instance.
    Tracefs(Box<TracefsSource>),
    /// perf events, opened when the program exists.
    Perf {
        /// The threads that it observes.
        reach: Reach,
        /// The open events.
        perf: Option<Perf>,
        /// Records of each CPU that could not be written; known after they were counted.
        unwritten: Vec<(u32, u64)>,
    },
    /// No kernel events.
    None,
}

/// Unread bytes from which it is worth moving a sub-buffer that is not full.
const WAITING_BYTES: u64 = 4096;

/// An instance, its drain and its loss counts. Fields drop in this order: the open files first.
#[derive(Debug)]
pub struct TracefsSource {
    drain: Drain,
    stats: StatsFiles,
    last: HashMap<u32, CpuStats>,
    /// Bytes in each CPU's file a second ago.
    sizes_before: Vec<u64>,
    /// Events of each CPU that could not be written; known after they were counted.
    unwritten: HashMap<u32, u64>,
    /// The instance.
    pub instance: Instance,
    tracefs: Tracefs,
}

impl TracefsSource {
    /// Counts, after tracing ended, the events that no file took: in pages that left the kernel, and in its buffers.
    fn count_unwritten(&mut self, meta: &KernelMeta) {
        let mut counts = HashMap::new();
        self.stats.read(|cpu, stats| {
            counts.insert(cpu, stats.unread);
        });
        if let Ok(layout) = PageLayout::from_meta(meta) {
            let pages = self.drain.unwritten().zip(&self.instance.cpus);
            for (bytes, &cpu) in pages {
                for page in bytes.chunks_exact(layout.page_bytes) {
                    let page = Page::parse(page, &layout, 0);
                    let events = page.map_or(0, |p| p.events().filter(|e| e.is_ok()).count());
                    *counts.entry(cpu).or_default() += events as u64;
                }
            }
        }
        self.unwritten = counts;
    }

    /// Switches each event on or off.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn select(&mut self, on: impl Fn(&str) -> bool) -> Result<()> {
        self.instance
            .select(on)
            .map_err(|e| crate::error::Error::file("write", Path::new("events/*/enable"), e))
    }

    /// Looks at the hits of USDT probes. Switches off those that are hit too often, and returns what is to be said of it.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn watch(&mut self, watch: &mut Watch) -> Result<Vec<String>> {
        let mut said = Vec::new();
        for (events, why) in watch.look(|| self.tracefs.hits()) {
            let off = |event: &String| self.instance.drop_event(event);
            let all: std::io::Result<()> = events.iter().try_for_each(off);
            all.map_err(|e| crate::error::Error::file("write", Path::new("events/*/enable"), e))?;
            said.push(why);
        }
        Ok(said)
    }

    /// Bytes in each CPU's file.
    pub fn sizes(&self) -> Vec<u64> {
        self.drain.sizes()
    }

    /// Reads back a page that was written.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn read_back(&self, ix: usize, at: u64) -> Result<Vec<u8>> {
        self.drain.read_back(ix, at)
    }
}

/// The source that was opened, and the information that it lacks.
#[derive(Debug)]
pub struct Opened {
    /// The source.
    pub source: Source,
    /// For `meta.json`.
    pub missing: Vec<String>,
    /// Instances of dead recorders that were removed on the way.
    pub removed: Vec<String>,
    /// Names of the probed lock functions.
    pub lock_functions: Vec<String>,
    /// The probes of USDT.
    pub usdt: Vec<UsdtProbe>,
    /// What their hits cost.
    pub usdt_price: Option<Price>,
}

/// The result of one round of draining.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moved {
    /// The fill level of the fullest buffer, 0..1.
    pub fill: f64,
}

/// Opens the best source this user may have.
///
/// # Errors
/// When a file of the recording cannot be made.
pub fn open(options: &Options, dir: &Held) -> Result<Opened> {
    let mut opened = Opened {
        source: Source::None,
        missing: Vec::new(),
        removed: Vec::new(),
        lock_functions: Vec::new(),
        usdt: Vec::new(),
        usdt_price: None,
    };
    if !options.kernel {
        refuse_uprobes(options, || "uprobes are kernel events; leave out --no-kernel".into())?;
        opened.missing.push("kernel events were not recorded (--no-kernel)".to_owned());
        return Ok(opened);
    }
    let tracefs = match crate::program::namespaces::is_initial() {
        true => open_tracefs(options, dir, &mut opened)?,
        false => {
            let why =
                "kasuri runs in its own PID namespace, and tracefs has the host's process ids";
            refuse_uprobes(options, || format!("{why}; run kasuri on the host"))?;
            let lost = perf::unseen();
            let remedy = "`kasuri record` on the host, or the container with `--pid=host`";
            opened.missing.push(format!("{why}: without {lost}; {remedy}"));
            None
        }
    };
    match tracefs {
        Some(source) => opened.source = Source::Tracefs(Box::new(source)),
        None => {
            open_perf(options, &mut opened);
            if options.flight.is_some() {
                only_overwriting(&mut opened.source, &mut opened.missing);
            }
        }
    }
    Ok(opened)
}

fn open_tracefs(
    options: &Options,
    dir: &Held,
    opened: &mut Opened,
) -> Result<Option<TracefsSource>> {
    let tracefs = match Tracefs::open() {
        Ok(tracefs) => tracefs,
        Err(unavailable) => {
            refuse_uprobes(options, || format!("{}; {}", unavailable.why, unavailable.remedy))?;
            let lost = perf::unseen();
            opened
                .missing
                .push(format!("{}: without {lost}; {}", unavailable.why, unavailable.remedy));
            return Ok(None);
        }
    };
    opened.removed = tracefs::reap_dead(&tracefs);
    let tsc = crate::clock::StampClock::choose() == crate::clock::StampClock::Native;
    let n_cpus = crate::host::cpu_list("possible").len();
    let functions = uprobes::find(&options.lock_functions, options.command())?;
    opened.lock_functions = functions.iter().map(|f| f.name.clone()).collect();
    let probes = usdt::find(options)?;
    let of_probes = usdt::definitions(&probes);
    let mut all = uprobes::definitions(&functions);
    all.extend_from_slice(&of_probes);
    let wanted = InstanceOptions {
        buffer_kb: options.buffer_kb(n_cpus),
        tsc,
        events: options.kernel_events(),
        uprobes: all,
    };
    let instance = match Instance::create(&tracefs, &wanted) {
        Ok(mut instance) => {
            opened.usdt = usdt::meanings(&probes, &of_probes, &instance.group());
            if !opened.usdt.is_empty() {
                opened.usdt_price = usdt::Price::measured(&tracefs, &instance).ok();
            }
            add_run_times(&mut instance);
            instance
        }
        Err(e) => {
            refuse_uprobes(options, || uprobes::unavailable(&e))?;
            opened.missing.push(format!(
                "cannot create a tracing instance ({e}): no kernel events; see `kasuri doctor`"
            ));
            return Ok(None);
        }
    };
    opened.missing.extend(instance.missing.iter().cloned());
    let drain = Drain::open(instance.dir(), &instance.cpus, instance.page_bytes, dir)?;
    let stats = StatsFiles::open(instance.dir(), &instance.cpus)
        .map_err(|e| crate::error::Error::file("open", Path::new("per_cpu/*/stats"), e))?;
    Ok(Some(TracefsSource {
        drain,
        stats,
        last: HashMap::new(),
        sizes_before: Vec::new(),
        unwritten: HashMap::new(),
        instance,
        tracefs,
    }))
}

/// Adds the kernel's count of run time where switches are hidden. A machine that is too busy to show it is taken to
/// hide them if it is virtual: all machines known to hide switches are.
fn add_run_times(instance: &mut Instance) {
    let has_them = |event: &str| instance.formats.contains_key(event);
    if tracefs::RUN_TIME_EVENTS.iter().all(|(name, _)| has_them(name)) {
        return;
    }
    let hides = match tracefs::hides_switches(instance) {
        Ok(Hides::Yes) => true,
        Ok(Hides::NotKnown) => crate::host::is_virtual(),
        Ok(Hides::No) => false,
        // Recording run times that add nothing is the smaller mistake.
        Err(_) => true,
    };
    if hides {
        for (event, use_of_it) in tracefs::RUN_TIME_EVENTS {
            instance.add_event(event, use_of_it);
        }
    }
}

/// The user named what uprobes are to see, so a recording without them is refused.
fn refuse_uprobes(options: &Options, why: impl FnOnce() -> String) -> Result<()> {
    use crate::error::Error;
    match (options.lock_functions.first(), options.usdt.first()) {
        (Some(wanted), _) => Err(Error::LockFunction { wanted: wanted.clone(), why: why() }),
        (None, Some(wanted)) => Err(Error::Usdt { wanted: wanted.clone(), why: why() }),
        (None, None) => Ok(()),
    }
}

fn perf_source(reach: Reach) -> Source {
    Source::Perf { reach, perf: None, unwritten: Vec::new() }
}

fn open_perf(options: &Options, opened: &mut Opened) {
    let Some(reach) = perf::reach() else {
        let remedy = perf::remedy();
        opened.missing.push(format!("perf_event_open is refused: no context switches; {remedy}"));
        return;
    };
    if reach == Reach::Own && matches!(options.target, Target::System(_)) {
        opened.missing.push(
            "this user may not see other users' threads: no kernel events with -a; `sudo kasuri record -a ...` \
             or `sudo sysctl kernel.perf_event_paranoid=-1`"
                .to_owned(),
        );
        return;
    }
    if !(options.irq || options.syscalls || !options.events.is_empty()) {
        opened.source = perf_source(reach);
        return;
    }
    opened.missing.push(
        "interrupts, system calls and --events need tracefs; `sudo kasuri record ...`".to_owned(),
    );
    opened.source = perf_source(reach);
}

/// A flight recorder needs kernel buffers that overwrite, and only tracefs has them.
fn only_overwriting(source: &mut Source, missing: &mut Vec<String>) {
    if matches!(source, Source::Perf { .. }) {
        *source = Source::None;
        missing.push("the flight recorder needs tracefs for kernel events; `sudo kasuri record --flight ...`".to_owned());
    }
}

/// Two rows for each CPU that lost something: a count of zero at first, and the present one.
fn rises(unwritten: &[(u32, u64)]) -> Vec<KernelLoss> {
    let now = crate::clock::monotonic_ns();
    let lossy = unwritten.iter().filter(|(_, n)| *n > 0);
    let row = |monotonic_ns, cpu, unwritten| KernelLoss {
        monotonic_ns,
        cpu,
        unwritten,
        ..KernelLoss::default()
    };
    lossy.flat_map(|&(cpu, n)| [row(now.saturating_sub(1), cpu, 0), row(now, cpu, n)]).collect()
}

impl Source {
    /// For `meta.json`.
    pub fn meta(&self) -> KernelMeta {
        let big_endian = cfg!(target_endian = "big");
        match self {
            Source::Tracefs(source) => KernelMeta {
                source: "tracefs".to_owned(),
                clock: source.instance.clock.clone(),
                page_bytes: source.instance.page_bytes,
                header_page: source.instance.header_page.clone(),
                formats: source.instance.formats.clone(),
                buffer_kb: source.instance.buffer_kb as u32,
                big_endian,
            },
            Source::Perf { .. } => KernelMeta {
                source: "perf".to_owned(),
                clock: "mono".to_owned(),
                big_endian,
                ..KernelMeta::default()
            },
            Source::None => {
                KernelMeta { source: "none".to_owned(), big_endian, ..KernelMeta::default() }
            }
        }
    }

    /// Time for which the buffers hold all events in any case: a quarter of the time in which the worst scheduler
    /// load measured, 100 MB/s on one CPU, fills them.
    pub fn patience(&self) -> Duration {
        const WORST_BYTES_PER_MS: u64 = 100_000;
        match self {
            Source::Tracefs(source) => {
                Duration::from_millis(source.instance.buffer_kb * 1024 / WORST_BYTES_PER_MS / 4)
            }
            Source::Perf { .. } => Duration::from_millis(5),
            Source::None => Duration::MAX,
        }
    }

    /// Starts recording. perf events are opened on `tids`, which exist by now.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn start(&mut self, tids: &[i32], dir: &Held) -> Result<()> {
        match self {
            Source::Tracefs(source) => source
                .instance
                .set_tracing(true)
                .map_err(|e| crate::error::Error::file("write", Path::new("tracing_on"), e)),
            Source::Perf { reach, perf, .. } => {
                *perf = Some(Perf::open(*reach, tids, &crate::host::cpu_list("online"), dir)?);
                Ok(())
            }
            Source::None => Ok(()),
        }
    }

    /// Moves the full pages or records to the files.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn drain(&mut self) -> Result<Moved> {
        match self {
            Source::Tracefs(source) => {
                let drained = source.drain.full_pages()?;
                let buffer = source.instance.buffer_kb as f64 * 1024.0;
                Ok(Moved { fill: drained.most as f64 / buffer })
            }
            Source::Perf { perf: Some(perf), .. } => {
                let bytes = perf.drain()?;
                Ok(Moved { fill: bytes as f64 / (512.0 * 1024.0) })
            }
            _ => Ok(Moved::default()),
        }
    }

    /// Moves events that wait in sub-buffers that do not fill, as the last [`Source::losses`] found them. Called each
    /// second, so that a recorder that is killed loses at most the events of the last two seconds, or less than
    /// [`WAITING_BYTES`] of a quiet CPU.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn drain_waiting(&mut self) -> Result<()> {
        let Source::Tracefs(source) = self else {
            return Ok(());
        };
        let sizes = source.drain.sizes();
        for (ix, cpu) in source.instance.cpus.iter().enumerate() {
            let unread = source.last.get(cpu).map_or(0, |stats| stats.unread_bytes);
            if unread >= WAITING_BYTES && sizes.get(ix) == source.sizes_before.get(ix) {
                source.drain.read_page(ix)?;
            }
        }
        source.sizes_before = sizes;
        Ok(())
    }

    /// Stops the kernel from writing; the content of the buffers stays.
    pub fn stop(&mut self) {
        if let Source::Tracefs(source) = self {
            let _ = source.instance.set_tracing(false);
        }
    }

    /// Starts again after [`Source::stop`].
    pub fn resume(&mut self) {
        if let Source::Tracefs(source) = self {
            let _ = source.instance.set_tracing(true);
        }
    }

    /// Moves the rest to the files, after [`Source::stop`].
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn finish(&mut self) -> Result<()> {
        match self {
            Source::Tracefs(source) => source.drain.rest(),
            Source::Perf { perf: Some(perf), .. } => perf.drain().map(|_| ()),
            _ => Ok(()),
        }
    }

    /// Sends further events to files in another directory.
    ///
    /// # Errors
    /// When they cannot be made.
    pub fn redirect(&mut self, dir: &Held) -> Result<()> {
        if let Source::Tracefs(source) = self {
            let instance = &source.instance;
            source.drain = Drain::open(instance.dir(), &instance.cpus, instance.page_bytes, dir)?;
        }
        Ok(())
    }

    /// Loss counts that changed since the last call; the first call gives all.
    pub fn losses(&mut self, all: bool) -> Vec<KernelLoss> {
        let source = match self {
            Source::Tracefs(source) => source,
            Source::Perf { unwritten, .. } => return rises(unwritten),
            Source::None => return Vec::new(),
        };
        let monotonic_ns = crate::clock::monotonic_ns();
        let mut rows = Vec::new();
        let (last, unwritten) = (&mut source.last, &source.unwritten);
        source.stats.read(|cpu, stats| {
            let CpuStats { overrun, dropped, commit_overrun, .. } = stats;
            let before = last.insert(cpu, stats);
            let unwritten = unwritten.get(&cpu).copied().unwrap_or(0);
            if before.is_none_or(|b| b.lost() != stats.lost()) || all {
                rows.push(KernelLoss {
                    monotonic_ns,
                    cpu,
                    overrun,
                    dropped,
                    commit_overrun,
                    unwritten,
                });
            }
        });
        rows
    }

    /// Counts the events that could not be written, for the next [`Source::losses`]. Called after [`Source::finish`]
    /// failed.
    pub fn count_unwritten(&mut self) {
        let meta = self.meta();
        match self {
            Source::Tracefs(source) => source.count_unwritten(&meta),
            Source::Perf { perf: Some(perf), unwritten, .. } => *unwritten = perf.unwritten(),
            _ => {}
        }
    }

    /// Each file of events, and the bytes in it.
    pub fn written(&self) -> Vec<(String, u64)> {
        match self {
            Source::Tracefs(source) => {
                let cpus = source.instance.cpus.iter().zip(source.drain.sizes());
                cpus.map(|(cpu, bytes)| (format!("cpu{cpu}.raw"), bytes)).collect()
            }
            Source::Perf { perf: Some(perf), .. } => perf.written(),
            _ => Vec::new(),
        }
    }

    /// Bytes written so far.
    pub fn bytes(&self) -> u64 {
        match self {
            Source::Tracefs(source) => source.drain.bytes(),
            Source::Perf { perf: Some(perf), .. } => perf.bytes(),
            _ => 0,
        }
    }
}
