//! Names for the places of call paths, when a recording is packed and by `kasuri symbolize`.
//!
//! Symbol tables and debug information are written by the programs that were recorded, whoever owns them, and the libraries
//! that read them are large. So they are read in a process of its own ([`helper`]), which opens the files ([`finder`]), gives up
//! root, and has limits on its time and memory. What it cannot read costs the names of that file.
//!
//! ```text
//! parent: Naming::start ──fork──> helper: finder opens files -> gives up root -> kasuri_symbols::run
//!         Naming::finish <──pipe── names, file by file
//! ```
mod finder;
mod helper;
mod kernel;

pub use kasuri_symbols::{Numbering, unnamed};
pub(crate) use kernel::build_id;
pub use kernel::{kernel_build_id, kernel_start};

use crate::clock;
use kasuri_format::call_paths::{Log, Names, Tables, continue_log};
use kasuri_format::meta::Meta;
use kasuri_symbols::{Phase, Timed, Why};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Names asked for at once; more stay for `kasuri symbolize`.
const FRAMES_MAX: usize = 1 << 20;
/// Bytes of names that are kept.
const NAMES_BYTES_MAX: usize = 128 << 20;
/// Helpers that are started one after the other: each leaves out the file at which the one before it died.
const HELPERS_MAX: usize = 8;
/// Time that a helper has, beyond its limit, to tell what it has found.
const GRACE: Duration = Duration::from_millis(250);

/// What to name, and where to look.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Modules and frames.
    pub tables: Tables,
    /// Rows of frames to name.
    pub wanted: Vec<u32>,
    /// What the addresses of frames in files are.
    pub numbering: Numbering,
    /// Processes of the recording: those that live show the files of their mount name spaces.
    pub pids: Vec<i32>,
    /// When the recording began: CLOCK_REALTIME, ns.
    pub began_ns: u64,
    /// When it ended: CLOCK_MONOTONIC, ns; `None`: not known. A process that began later only has the number of a recorded one.
    pub ended_ns: Option<u64>,
    /// Whether this machine has made it since it was started: then its kernel's symbols and processes are those recorded.
    pub is_this_boot: bool,
    /// Directories of separate debug files, the first first.
    pub debug_dirs: Vec<PathBuf>,
    /// Most bytes of separate debug files that are read for lines and inlined calls, all together.
    pub debug_bytes: u64,
    /// Most bytes that compressed debug information in the programs themselves may unpack to, all together.
    pub unpacked_bytes: u64,
    /// Debug files by build-id.
    pub fetched: HashMap<Vec<u8>, PathBuf>,
    /// Time for all of it.
    pub limit: Duration,
    /// A file at which nothing happens for so long is left out, so that those after it have their turn.
    pub patience: Duration,
    /// Threads.
    pub n_threads: usize,
}

/// Directories of separate debug files that are always searched.
pub const DEBUG_DIRS: [&str; 1] = ["/usr/lib/debug"];

impl Request {
    /// All frames without names, with the limits of packing.
    pub fn of(tables: Tables, meta: &Meta, pids: impl IntoIterator<Item = i32>) -> Request {
        let began = &meta.start;
        let pids: BTreeSet<i32> = pids.into_iter().filter(|pid| *pid > 0).collect();
        Request {
            wanted: kasuri_symbols::unnamed(&tables),
            numbering: Numbering::Addresses,
            tables,
            pids: pids.into_iter().collect(),
            began_ns: began.realtime_ns,
            ended_ns: meta.end.as_ref().map(|end| end.monotonic_ns),
            is_this_boot: clock::same_boot(began, &clock::anchor()),
            debug_dirs: DEBUG_DIRS.map(PathBuf::from).to_vec(),
            debug_bytes: u64::MAX,
            unpacked_bytes: UNPACKED_BYTES,
            fetched: HashMap::new(),
            limit: PACKING_LIMIT,
            patience: PACKING_LIMIT / 2,
            n_threads: std::thread::available_parallelism().map_or(1, |n| n.get()),
        }
    }
}

/// Bytes of separate debug files that packing reads for each sample of a running thread. A byte took 10 ns, so this is 0.25 %
/// of the 4 ms between two samples (1 % where the kernel's tick comes each ms). Such files are of libraries, and large; `kasuri symbolize` reads all.
pub const DEBUG_BYTES_PER_SAMPLE: u64 = 1 << 10;

/// Bytes that programs' own compressed debug information unpacks to at packing. A byte takes 1 to 2 ns and a byte of memory.
const UNPACKED_BYTES: u64 = 256 << 20;

/// Time for names at packing; `kasuri symbolize` takes more.
const PACKING_LIMIT: Duration = Duration::from_secs(2);

/// Names that were found, and the reasons for those that were not.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Sorted by frame.
    pub names: Vec<Names>,
    /// Of frames that had several functions in turn, sorted by frame and time; these have no `names`.
    pub timed: Vec<Timed>,
    /// Frames that were asked for.
    pub n_asked: u64,
    /// Frames for which there are no names, and the reasons.
    pub unnamed: BTreeMap<u32, Why>,
    /// Files with debug information of their own that was not read to its end: the time was over, it is too much, or
    /// cannot be read. Lines and inlined calls may be missing.
    pub without_lines: Vec<String>,
}

impl Found {
    /// Frames whose naming ended because the time was over, or at a file that cannot be read: another attempt may name them.
    pub fn n_not_reached(&self) -> u64 {
        let late = self.unnamed.values().filter(|why| **why == Why::NotReached);
        late.count() as u64
    }
}

/// Names being found, beside other work.
#[derive(Debug)]
pub struct Naming {
    thread: Option<std::thread::JoinHandle<Found>>,
}

impl Naming {
    /// Begins. The first helper is forked before this returns; call it before other threads are made.
    pub fn start(request: Request) -> Naming {
        if request.wanted.is_empty() {
            return Naming { thread: None };
        }
        let state = State::new(request);
        let first = state.fork();
        let collect = move || state.collect(first);
        // Without a thread there are no names: `kasuri symbolize` adds them.
        let thread = std::thread::Builder::new().name("names".to_owned()).spawn(collect);
        Naming { thread: thread.ok() }
    }

    /// Waits for the names, at most until the limit.
    pub fn finish(self) -> Found {
        let joined = self.thread.map(|thread| thread.join());
        joined.and_then(Result::ok).unwrap_or_default()
    }
}

/// What a helper is at work on, as it told.
#[derive(Debug, Default)]
struct Progress {
    /// By task: its module, and the phases that are done.
    modules: HashMap<u32, u32>,
    in_flight: Vec<(u32, Phase)>,
    ended: Vec<(u32, Phase)>,
    nameless: HashMap<u32, Why>,
    /// Tasks whose files have debug information of their own.
    own_lines: HashSet<u32>,
}

#[derive(Debug)]
struct State {
    request: Request,
    deadline: Instant,
    /// Left out: helpers died, or stood still, at it. By task.
    skip: Vec<(usize, Phase)>,
    found: HashMap<u32, Names>,
    timed: BTreeMap<(u32, u64), Names>,
    /// Decodes what helpers tell: it has the frames that their names refer to.
    log: Log,
    bytes: usize,
    progress: Progress,
}

impl State {
    fn new(mut request: Request) -> State {
        request.wanted.truncate(FRAMES_MAX);
        State {
            deadline: Instant::now() + request.limit,
            log: Log {
                tables: Tables { frames: request.tables.frames.clone(), ..Tables::default() },
                samples: Vec::new(),
            },
            request,
            skip: Vec::new(),
            found: HashMap::new(),
            timed: BTreeMap::new(),
            bytes: 0,
            progress: Progress::default(),
        }
    }

    fn fork(&self) -> Option<helper::Helper> {
        helper::Helper::fork(&self.request, &self.skip, self.deadline)
    }

    fn collect(mut self, first: Option<helper::Helper>) -> Found {
        let mut helper = first;
        for _ in 0..HELPERS_MAX {
            let Some(running) = helper.take() else { break };
            let whole = self.listen(running);
            if whole || self.skip_what_failed() == 0 || Instant::now() >= self.deadline {
                break;
            }
            helper = self.fork();
        }
        self.into_found()
    }

    /// Takes in what a helper tells. Returns whether it came to its end.
    fn listen(&mut self, mut helper: helper::Helper) -> bool {
        self.progress = Progress::default();
        let end = self.deadline + GRACE;
        while let Some(message) = helper.next(self.request.patience, end) {
            match message {
                helper::Message::Task(task, module) => {
                    self.progress.modules.insert(task, module);
                }
                helper::Message::Began(task, phase) => self.progress.in_flight.push((task, phase)),
                helper::Message::Ended(task, phase) => {
                    self.progress.in_flight.retain(|p| *p != (task, phase));
                    self.progress.ended.push((task, phase));
                }
                helper::Message::Nameless(task, why) => {
                    self.progress.nameless.insert(task, why);
                }
                helper::Message::OwnLines(task) => {
                    self.progress.own_lines.insert(task);
                }
                helper::Message::Names(bytes) => self.take_in(&bytes, None),
                helper::Message::Timed(from_ns, bytes) => self.take_in(&bytes, Some(from_ns)),
            }
            if self.bytes > NAMES_BYTES_MAX {
                return true;
            }
        }
        helper.ended_well()
    }

    /// `from_ns`: the time from which they hold.
    fn take_in(&mut self, bytes: &[u8], from_ns: Option<u64>) {
        self.bytes += bytes.len();
        // What is damaged was written by a helper that a file has led astray.
        let _ = continue_log(&mut self.log, bytes, 0);
        for names in self.log.tables.names.drain(..) {
            if let Some(from_ns) = from_ns {
                self.timed.insert((names.frame, from_ns), names);
            } else if !names.calls.is_empty() {
                self.found.insert(names.frame, names);
            }
        }
    }

    /// Leaves out what the helper was at work on when it died. Returns how much that is.
    fn skip_what_failed(&mut self) -> usize {
        let failed = self.progress.in_flight.iter();
        let failed: Vec<_> = failed.map(|(task, phase)| (*task as usize, *phase)).collect();
        self.skip.extend(&failed);
        failed.len()
    }

    fn into_found(self) -> Found {
        let task_of: HashMap<u32, u32> =
            self.progress.modules.iter().map(|(task, module)| (*module, *task)).collect();
        let mut found = Found { n_asked: self.request.wanted.len() as u64, ..Found::default() };
        let reused: BTreeSet<u32> = self.timed.keys().map(|(frame, _)| *frame).collect();
        for frame in &self.request.wanted {
            if self.found.contains_key(frame) {
                continue;
            }
            let module = self.request.tables.frames[*frame as usize].module;
            let task = task_of.get(&module);
            let ended = |task: &u32| self.progress.ended.contains(&(*task, Phase::Symbols));
            let why = match task {
                _ if reused.contains(frame) => Why::Reused,
                Some(task) if self.progress.nameless.contains_key(task) => {
                    self.progress.nameless[task]
                }
                Some(task) if ended(task) => Why::NoSymbol,
                _ => Why::NotReached,
            };
            found.unnamed.insert(*frame, why);
        }
        let lines_ended = |task: &u32| self.progress.ended.contains(&(*task, Phase::Lines));
        let late = (task_of.iter())
            .filter(|(_, task)| self.progress.own_lines.contains(task) && !lines_ended(task));
        let modules = &self.request.tables.modules;
        let path = |(module, _): (&u32, _)| Some(modules.get(*module as usize)?.path.clone());
        found.without_lines = late.filter_map(path).collect();
        found.without_lines.sort_unstable();
        let timed = self.timed.into_iter();
        found.timed = timed.map(|((_, from_ns), names)| Timed { names, from_ns }).collect();
        found.names = self.found.into_values().collect();
        found.names.sort_unstable_by_key(|n| n.frame);
        found
    }
}

#[cfg(test)]
mod tests;
