//! Divides the work among threads, keeps to the time, and survives what panics.
//!
//! Symbol tables come first, for all files: they are cheap, so that each frame has at least its function when the time is over.
//! Then debug information, files with little of it first. A large file is divided: its addresses are sorted, so that each
//! thread reads other units of it.
use crate::dwarf::{self, Debug};
use crate::elf::{Lookup, Place};
use crate::source::{Source, Task};
use crate::{Bytes, Timed, Why, jitdump, minidebug, spin, stubs, text};
use kasuri_base::call_path::SPIN_LOOP;
use kasuri_format::call_paths::{Call, Names};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Addresses of one file for which a second thread is worth reading the headers of its units again.
const PIECE_MIN: usize = 64;
/// Addresses between two messages.
const BATCH: usize = 256;

/// What is read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Phase {
    /// Symbol tables: functions.
    Symbols,
    /// Debug information: inlined calls, files and lines.
    Lines,
}

/// What happens, as it happens. Tasks are told by their place in the list.
#[derive(Debug)]
pub enum Event {
    /// A thread begins with a file...
    Began(usize, Phase),
    /// ...and is done with all of it.
    Ended(usize, Phase),
    /// Names; of two for one frame the later holds.
    Names(Vec<Names>),
    /// Names that hold for a time: of each frame all, in order.
    Timed(Vec<Timed>),
    /// Nothing of the task can be named.
    Nameless(usize, Why),
}

/// The files of separate debug information, smallest first, that are beyond so many bytes together, as what [`run`] should leave out: of
/// these only the symbol tables are read.
pub fn costly(tasks: &[Task], bytes: u64) -> Vec<(usize, Phase)> {
    let size = |task: &Task| match &task.source {
        Source::Elf { debug: Some(debug), .. } => Some((**debug).as_ref().len() as u64),
        _ => None,
    };
    beyond(tasks, size, bytes)
}

/// The same of files with compressed debug information of their own, by the bytes to which they say that it unpacks. What is not compressed is
/// read where it lies, as far as the addresses asked for need it.
pub fn costly_to_unpack(tasks: &[Task], bytes: u64) -> Vec<(usize, Phase)> {
    let size = |task: &Task| {
        let own = task.own_debug()?;
        let look = || dwarf::unpacked_bytes((**own).as_ref());
        Some(catch_unwind(AssertUnwindSafe(look)).unwrap_or(0))
    };
    beyond(tasks, size, bytes)
}

/// What to leave out, so that the sizes of the others, smallest first, are together no more than `bytes`.
fn beyond(tasks: &[Task], size: impl Fn(&Task) -> Option<u64>, bytes: u64) -> Vec<(usize, Phase)> {
    let sizes = tasks.iter().zip(0..).filter_map(|(t, ix)| Some((size(t)?, ix)));
    let mut sizes: Vec<(u64, usize)> = sizes.collect();
    sizes.sort_unstable();
    let mut sum = 0u64;
    let beyond = sizes.into_iter().filter(|(size, _)| {
        sum = sum.saturating_add(*size);
        sum > bytes
    });
    beyond.map(|(_, ix)| (ix, Phase::Lines)).collect()
}

struct Run<'a> {
    tasks: &'a [Task],
    skip: &'a [(usize, Phase)],
    stop: &'a (dyn Fn() -> bool + Sync),
    tell: &'a (dyn Fn(Event) + Sync),
}

/// Names what can be named, in `n_threads` threads, until `stop` returns true. `skip` leaves out what has failed before.
///
/// `tell` is called from all threads.
pub fn run(
    tasks: &[Task],
    n_threads: usize,
    skip: &[(usize, Phase)],
    stop: &(dyn Fn() -> bool + Sync),
    tell: &(dyn Fn(Event) + Sync),
) {
    let run = Run { tasks, skip, stop, tell };
    let places: Vec<Mutex<Places>> = tasks.iter().map(|_| Mutex::default()).collect();
    parallel(n_threads, tasks.len(), &|task| {
        if run.may(task, Phase::Symbols) {
            let found = run.symbols(task);
            *lock(&places[task]) = found;
        }
    });
    let places: Vec<Places> = places.into_iter().map(into_inner).collect();
    run.lines(n_threads, &places);
}

/// Of each address of a task, what the symbol tables and the instructions there say.
#[derive(Default)]
struct Places {
    places: Vec<Place>,
    /// Whether it is in a loop that only waits.
    spins: Vec<bool>,
    /// What is called there, of functions that the stack may not show.
    called: Vec<Option<String>>,
}

impl Places {
    fn function(&self, at: usize) -> Option<&str> {
        self.places.get(at).and_then(Place::function)
    }

    /// Puts what is called there, and the loop, before what it is in.
    fn add_inner(&self, at: usize, module: &str, calls: &mut Vec<Call>) {
        // Where nothing else is known names are asked for again.
        if let Some(name) =
            self.called.get(at).and_then(Option::as_ref).filter(|_| !calls.is_empty())
        {
            calls.insert(0, call(name.clone()));
        }
        if self.spins.get(at) == Some(&true) {
            calls.insert(0, call(format!("{SPIN_LOOP}{module}")));
        }
    }
}

impl Run<'_> {
    fn may(&self, task: usize, phase: Phase) -> bool {
        !(self.stop)() && !self.skip.contains(&(task, phase))
    }

    fn symbols(&self, ix: usize) -> Places {
        (self.tell)(Event::Began(ix, Phase::Symbols));
        let task = &self.tasks[ix];
        let mut places = Places::default();
        match &task.source {
            Source::Nothing(why) => (self.tell)(Event::Nameless(ix, *why)),
            Source::Elf { code, debug, shared: _ } => {
                places = self.elf(task, code.as_ref(), debug.as_ref());
                let calls_at = |at| {
                    let function = places.function(at).map(|name| call(name.to_owned()));
                    let mut calls = Vec::from_iter(function);
                    places.add_inner(at, &task.name, &mut calls);
                    calls
                };
                self.tell_calls(task, (0..task.addresses.len()).map(calls_at));
            }
            Source::Kernel(list) => match text::kernel(&mut *lock(list), &task.addresses) {
                Ok(calls) => self.tell_calls(task, calls.into_iter().map(Vec::from_iter)),
                Err(()) => (self.tell)(Event::Nameless(ix, Why::KernelHidden)),
            },
            Source::Jit { map, dump } => self.jit(task, map.as_ref(), dump.as_ref()),
        }
        if !(self.stop)() {
            (self.tell)(Event::Ended(ix, Phase::Symbols));
        }
        places
    }

    fn elf(&self, task: &Task, code: Option<&Bytes>, debug: Option<&Bytes>) -> Places {
        let look = || {
            // Debug files have no code. The vdso's loop ends at once, and a system call behind it is no waiting.
            let code_of_files = code.filter(|_| task.name != "[vdso]");
            let spins = code_of_files.map(|bytes| spin::loops((**bytes).as_ref(), &task.addresses));
            // A separate debug file has all that the small table has.
            let small = code.filter(|_| debug.is_none());
            let small = small.and_then(|bytes| minidebug::table((**bytes).as_ref(), self.stop));
            let mut lookup = Lookup::new(&task.addresses);
            let files = code.into_iter().chain(debug).map(|bytes| (**bytes).as_ref());
            for bytes in files.chain(small.as_deref()) {
                lookup.read(bytes, &|| (self.stop)());
            }
            let called = code.map(|bytes| stubs::called((**bytes).as_ref(), &task.addresses));
            Places {
                places: lookup.places(),
                spins: spins.unwrap_or_default(),
                called: called.unwrap_or_default(),
            }
        };
        catch_unwind(AssertUnwindSafe(look)).unwrap_or_default()
    }

    /// Of code that was made at run time: by the jitdump where that knows the address, else by the map.
    fn jit(&self, task: &Task, map: Option<&Bytes>, dump: Option<&Bytes>) {
        let map: &[u8] = map.map_or(&[], |map| (**map).as_ref());
        let mut calls = text::jit(map, &task.addresses);
        let stop = &|| (self.stop)();
        let dumped =
            dump.and_then(|dump| jitdump::functions((**dump).as_ref(), &task.addresses, stop));
        let mut timed = Vec::new();
        let frames = task.addresses.iter().map(|(_, frame)| *frame);
        let functions = dumped.into_iter().flatten();
        for ((functions, frame), calls) in functions.zip(frames).zip(&mut calls) {
            match functions.len() {
                0 => {}
                1 => *calls = functions.into_iter().next().and_then(|(_, call)| call),
                _ => {
                    *calls = None;
                    timed.extend(functions.into_iter().enumerate().map(|(n, (from_ns, call))| {
                        Timed {
                            names: Names { frame, calls: Vec::from_iter(call) },
                            from_ns: if n == 0 { 0 } else { from_ns },
                        }
                    }));
                }
            }
        }
        self.tell_calls(task, calls.into_iter().map(Vec::from_iter));
        (self.tell)(Event::Timed(timed));
    }

    fn tell_calls(&self, task: &Task, calls: impl Iterator<Item = Vec<Call>>) {
        let frames = task.addresses.iter().map(|(_, frame)| *frame);
        let mut batch = Vec::new();
        for (frame, calls) in frames.zip(calls) {
            if !calls.is_empty() {
                batch.push(Names { frame, calls });
            }
            if batch.len() == BATCH {
                (self.tell)(Event::Names(std::mem::take(&mut batch)));
            }
        }
        (self.tell)(Event::Names(batch));
    }

    fn lines(&self, n_threads: usize, places: &[Places]) {
        let mut with_debug: Vec<(usize, &Bytes, Option<&Bytes>)> = Vec::new();
        for (ix, task) in self.tasks.iter().enumerate() {
            if let Source::Elf { code, debug, shared } = &task.source
                && let Some(bytes) = debug.as_ref().or(code.as_ref())
            {
                with_debug.push((ix, bytes, shared.as_ref()));
            }
        }
        with_debug.sort_by_key(|(_, bytes, _)| (***bytes).as_ref().len());
        for (ix, bytes, shared) in with_debug {
            if !self.may(ix, Phase::Lines) {
                continue;
            }
            (self.tell)(Event::Began(ix, Phase::Lines));
            let shared = shared.map(|s| (**s).as_ref());
            let read = || Debug::read((**bytes).as_ref(), shared);
            if let Some(debug) = catch_unwind(AssertUnwindSafe(read)).unwrap_or_default() {
                self.lines_of(ix, &debug, n_threads, &places[ix]);
            }
            if !(self.stop)() {
                (self.tell)(Event::Ended(ix, Phase::Lines));
            }
        }
    }

    fn lines_of(&self, ix: usize, debug: &Debug<'_>, n_threads: usize, places: &Places) {
        let task = &self.tasks[ix];
        let n = task.addresses.len();
        let n_pieces = (n / PIECE_MIN).clamp(1, n_threads.max(1));
        let piece = n.div_ceil(n_pieces).max(1);
        parallel(n_threads, n_pieces, &|at| {
            let from = (at * piece).min(n);
            let to = (from + piece).min(n);
            let named = || self.piece(task, debug, from..to, places);
            // What was told before a panic stays.
            let _ = catch_unwind(AssertUnwindSafe(named));
        });
    }

    fn piece(
        &self,
        task: &Task,
        debug: &Debug<'_>,
        range: std::ops::Range<usize>,
        places: &Places,
    ) {
        let Some(lines) = debug.lines() else { return };
        let mut batch = Vec::new();
        for at in range {
            if (self.stop)() {
                break;
            }
            let (address, frame) = task.addresses[at];
            if places.places.get(at) == Some(&Place::Outside) {
                continue;
            }
            let mut calls = lines.at(address);
            if calls.is_empty() {
                continue;
            }
            complete(&mut calls, places.function(at));
            places.add_inner(at, &task.name, &mut calls);
            batch.push(Names { frame, calls });
            if batch.len() == BATCH {
                (self.tell)(Event::Names(std::mem::take(&mut batch)));
            }
        }
        (self.tell)(Event::Names(batch));
    }
}

/// Names the outermost call by the symbol table where that says more: debug information of assembly has lines only, and C++
/// functions that no other file sees may have their bare names there.
fn complete(calls: &mut [Call], symbol: Option<&str>) {
    let (Some(outermost), Some(symbol)) = (calls.last_mut(), symbol) else {
        return;
    };
    let is_mangled = |name: &str| name.starts_with("_Z") || name.starts_with("_R");
    if outermost.function.is_empty() || is_mangled(symbol) && !is_mangled(&outermost.function) {
        symbol.clone_into(&mut outermost.function);
    }
}

fn call(function: String) -> Call {
    Call { function, ..Call::default() }
}

/// Runs jobs 0 to `n` in at most `n_threads` threads.
fn parallel(n_threads: usize, n: usize, job: &(dyn Fn(usize) + Sync)) {
    let next = AtomicUsize::new(0);
    let worker = || {
        loop {
            // ORDER relaxed: the counter only hands out numbers; results travel through locks and join().
            let ix = next.fetch_add(1, Ordering::Relaxed);
            if ix >= n {
                return;
            }
            job(ix);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..n_threads.min(n) {
            // Without another thread this one does all.
            let _ = std::thread::Builder::new().spawn_scoped(scope, worker);
        }
        worker();
    });
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

fn into_inner<T>(mutex: Mutex<T>) -> T {
    mutex.into_inner().unwrap_or_else(|e| e.into_inner())
}
