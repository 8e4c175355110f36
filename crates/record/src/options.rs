//! The options of a recording. The command line and tests fill in an [`Options`]; sizes that are not given are
//! derived from free memory.
use crate::files::remote::Key;
pub use crate::program::collector::Annotated;
pub use crate::rings::slices::OnSlice;
use kasuri_base::parallel::ParallelCosts;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// The programs that are recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A program that is started, until it ends.
    Program(Vec<OsString>),
    /// A running process, until it ends.
    Process(i32),
    /// The whole system; with a program, while it runs.
    System(Vec<OsString>),
}

/// The flight recorder: keeps the last seconds, saves them on request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flight {
    /// The time that is kept.
    pub keep: Duration,
}

/// Another machine, on which `kasuri receive` waits.
#[derive(Clone, Debug)]
pub struct To {
    /// HOST:PORT.
    pub address: String,
    /// What both sides know.
    pub key: Key,
}

/// The extent of what the lock probe records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockProbe {
    /// Every acquisition.
    Full,
    /// Counts, one hold in about 64, and every acquisition that had to wait.
    Light,
}

impl LockProbe {
    /// The name in `meta.json` and KASURI_LOCKS.
    pub const fn name(self) -> &'static str {
        match self {
            LockProbe::Full => "full",
            LockProbe::Light => "light",
        }
    }
}

/// Samples of call paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stacks {
    /// None.
    Off,
    /// As many as cost little.
    #[default]
    On,
    /// The longest copies of stacks, and the waits and wake-ups that are too dear else.
    Deep,
}

/// Costs on this machine as the lab measured them. Of one event: ns, median and the ends of the 95 % interval, by `system/event`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UnitCosts {
    /// In a loop that does nothing else.
    pub warm: BTreeMap<String, [f64; 3]>,
    /// In a program that does other work between two events: ns from one to the next, then the same three; by rising
    /// distance.
    pub apart: BTreeMap<String, Vec<[f64; 4]>>,
    /// Of parallel work, for predictions.
    pub parallel: Option<ParallelCosts>,
}

/// Bytes that a recording leaves free on its disk by default, once it takes as many itself.
pub const KEEP_FREE: u64 = 256 << 20;

/// Hits of USDT probes per second that are allowed by default: about a tenth of a CPU's time.
pub const USDT_LIMIT: u64 = 100_000;

/// All options of a recording.
#[derive(Clone, Debug)]
pub struct Options {
    /// The programs that are recorded.
    pub target: Target,
    /// The packed file to make.
    pub output: PathBuf,
    /// Send it to another machine instead; `output` is then its address.
    pub to: Option<To>,
    /// Stop after this time.
    pub duration: Option<Duration>,
    /// Flight recorder instead of an ordinary recording.
    pub flight: Option<Flight>,
    /// The flight recorder saves when one of these slices takes too long.
    pub on_slices: Vec<OnSlice>,
    /// Record kernel events.
    pub kernel: bool,
    /// Bytes that the recording may take in memory, the recorder's own too, but without its program text: divided among what is not given
    /// otherwise. At the end, what the kernel's buffers (k) and the rings (r) hold goes to the directory, in memory too, to what waits there (w), what
    /// a tick may have added to that, and as much as waits that was sent a moment ago: 2 k + 3 r + 2 w, and the rest is for the recorder.
    pub memory: Option<u64>,
    /// Kernel buffer of each CPU, MiB; `None`: 16, less where memory is short.
    pub buffer_mb: Option<u64>,
    /// Ring memory that one process may take, MiB; `None`: a share of what is free.
    pub ring_mb: Option<u64>,
    /// Stop when fewer bytes are free on the recording's disk; `None`: [`KEEP_FREE`], once the recording takes as much itself.
    pub keep_free: Option<u64>,
    /// Programs drop annotations instead of taking more ring memory.
    pub discard: bool,
    /// Interrupts and softirqs too.
    pub irq: bool,
    /// System calls too.
    pub syscalls: bool,
    /// More kernel events: `system:name`, `system:*`, `*:*`.
    pub events: Vec<String>,
    /// Share of the CPU time used (by the program; with `-a` by all programs) that kernel events may cost, 0..1.
    pub budget: Option<f64>,
    /// Costs of events on this machine.
    pub costs: UnitCosts,
    /// Load the lock probe into the program, in front of its lock functions.
    pub locks: Option<LockProbe>,
    /// Load the OpenMP probe into the program, in front of its OpenMP runtime.
    pub openmp: bool,
    /// Let the program load the collector, if it is annotated with one of these.
    pub annotated: Vec<Annotated>,
    /// Functions that acquire and release a lock, recorded by uprobes:
    /// `[BINARY:]LOCK[@ARGUMENT][,UNLOCK[@ARGUMENT]]`.
    pub lock_functions: Vec<String>,
    /// Probes that authors put into programs and libraries (USDT): `[FILE:]PROVIDER[:PROBE][@ARGUMENT,...]`.
    pub usdt: Vec<String>,
    /// Hits of all of them per second above which the most frequent are switched off; 0: no limit.
    pub usdt_limit: u64,
    /// Call paths.
    pub stacks: Stacks,
    /// Pack into one file afterwards; else leave the directory.
    pub pack: bool,
    /// CPUs that the program may use; empty: the same as the recorder.
    pub cpus: Vec<usize>,
    /// Threads of the program that are woken do not take the CPU of the one that woke them (SCHED_BATCH).
    pub batch: bool,
    /// Directory in which ring sessions are made.
    pub shm_dir: PathBuf,
}

/// Most ring memory of one process where none is asked for.
const RINGS_MAX: u64 = 4 << 30;

impl Options {
    /// The defaults for a target.
    pub fn new(target: Target, output: PathBuf) -> Options {
        Options {
            target,
            output,
            to: None,
            duration: None,
            flight: None,
            on_slices: Vec::new(),
            kernel: true,
            memory: None,
            buffer_mb: None,
            ring_mb: None,
            keep_free: None,
            discard: false,
            irq: false,
            syscalls: false,
            events: Vec::new(),
            budget: None,
            costs: UnitCosts::default(),
            locks: None,
            openmp: false,
            annotated: Vec::new(),
            lock_functions: Vec::new(),
            usdt: Vec::new(),
            usdt_limit: USDT_LIMIT,
            stacks: Stacks::default(),
            pack: true,
            cpus: Vec::new(),
            batch: false,
            shm_dir: PathBuf::from("/dev/shm"),
        }
    }

    /// The command to run; empty when there is none.
    pub fn command(&self) -> &[OsString] {
        match &self.target {
            Target::Program(command) | Target::System(command) => command,
            Target::Process(_) => &[],
        }
    }

    /// The mode, as `meta.json` writes it.
    pub fn mode(&self) -> &'static str {
        match (&self.flight, &self.target) {
            (Some(_), _) => "flight",
            (None, Target::Program(_)) => "program",
            (None, Target::Process(_)) => "pid",
            (None, Target::System(_)) => "system",
        }
    }

    /// Kernel events wanted, with the information that is lost without each.
    pub fn kernel_events(&self) -> Vec<(String, String)> {
        use crate::kernel::tracefs::{DEFAULT_EVENTS, IRQ_EVENTS, LOCK_EVENTS, SYSCALL_EVENTS};
        let groups = [
            (true, DEFAULT_EVENTS),
            (self.irq, IRQ_EVENTS),
            (self.syscalls, SYSCALL_EVENTS),
            (self.locks.is_some(), LOCK_EVENTS),
        ];
        let mut events: Vec<(String, String)> = groups
            .into_iter()
            .filter(|(wanted, _)| *wanted)
            .flat_map(|(_, group)| {
                group.iter().map(|(name, lost)| (name.to_string(), lost.to_string()))
            })
            .collect();
        for event in &self.events {
            let name = event.replacen(':', "/", 1);
            if !events.iter().any(|(known, _)| *known == name) {
                let lost = match crate::kernel::selection::purpose(&name) {
                    "" => format!("{event}, which was asked for"),
                    purpose => purpose.to_owned(),
                };
                events.push((name, lost));
            }
        }
        events
    }

    /// Bytes that must stay free on the disk of a recording of `recorded` bytes.
    pub fn least_free(&self, recorded: u64) -> u64 {
        match self.keep_free {
            Some(bytes) => bytes,
            None if recorded > KEEP_FREE => KEEP_FREE,
            None => 0,
        }
    }

    /// Bytes of events that may wait for the other side of a stream.
    pub fn most_waiting(&self) -> u64 {
        if let Some(memory) = self.memory {
            return memory / 16;
        }
        let room = crate::host::free_bytes(&self.shm_dir).unwrap_or(1 << 30) / 4;
        (crate::host::available_memory() / 8).min(room).clamp(1 << 20, 64 << 20)
    }

    /// Kernel buffer of each CPU, KiB: the size requested, or 16 MiB but never more than an eighth of the free memory
    /// for all CPUs together; an eighth of the memory that the recording may take.
    pub fn buffer_kb(&self, n_cpus: usize) -> u64 {
        let n_cpus = n_cpus.max(1) as u64;
        match (self.buffer_mb, self.memory) {
            (Some(mb), _) => mb.max(1) * 1024,
            (None, Some(memory)) => (memory / 8 / 1024 / n_cpus).clamp(64, 16384),
            (None, None) => (crate::host::available_memory() / 8 / 1024 / n_cpus).clamp(512, 16384),
        }
    }

    /// Whether shared memory has less room than rings would get otherwise.
    pub fn rings_are_small(&self) -> bool {
        self.ring_mb.is_none() && self.room_for_rings() < self.share_of_rings()
    }

    /// Part of shared memory that rings may take.
    fn room_for_rings(&self) -> u64 {
        crate::host::free_bytes(&self.shm_dir).unwrap_or(1 << 30) / 2
    }

    /// Part of the memory that rings may take.
    fn share_of_rings(&self) -> u64 {
        match self.memory {
            Some(memory) => memory / 32 * 3,
            None => (crate::host::available_memory() / 4).min(RINGS_MAX),
        }
    }

    /// Ring memory of one process, bytes: the size requested, or a quarter of the free memory and half of the room in
    /// shared memory, 4 GiB at most; three parts in 32 of the memory that the recording may take.
    pub fn ring_bytes(&self) -> u64 {
        let least = if self.memory.is_some() { 768 << 10 } else { 1 << 20 };
        match self.ring_mb {
            Some(mb) => mb.max(1) << 20,
            None => self.share_of_rings().min(self.room_for_rings()).max(least),
        }
    }
}
