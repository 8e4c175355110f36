//! What is known of a function by its name and module: whether the program wrote it, waits in it by spinning, or only
//! begins a thread with it.
use super::calls::{self, Call, Channel};
use super::turns::Turns;
use crate::demangled;
use crate::languages::Language;
use kasuri_base::call_path::{PYTHON, SPIN_LOOP};
use kasuri_base::quick::{QuickMap, QuickSet};
use kasuri_model::{FrameIx, FrameKind, PathIx, SampleKind, StrIx, Trace};

/// The kind of code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Layer {
    /// The program's, or a library's that it chose.
    Program,
    /// The kernel, the C library, the loader: what a call into them is named says more than where inside it is.
    System,
    /// The kernel, interrupted: says nothing of the code below.
    Interrupt,
    /// What begins a thread or a program.
    Start,
}

/// Time in a library that runs the program rather than being it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Runtime {
    /// GNU OpenMP.
    Libgomp,
    /// LLVM's or Intel's OpenMP.
    Libomp,
    /// Threading Building Blocks.
    Tbb,
    /// malloc and free, whichever library they are from.
    Allocator,
    /// Python, Ruby, Perl, a Java or JavaScript machine: not the code that it compiled.
    Interpreter,
    /// A language's collector of garbage.
    Collector(Language),
    /// None of these, but a thread spins there.
    Other,
}

impl Runtime {
    /// Its name in JSON and on screens.
    pub const fn key(self) -> &'static str {
        match self {
            Runtime::Libgomp => "libgomp",
            Runtime::Libomp => "libomp",
            Runtime::Tbb => "tbb",
            Runtime::Allocator => "allocator",
            Runtime::Interpreter => "interpreter",
            Runtime::Collector(_) => "collector",
            Runtime::Other => "other",
        }
    }

    /// Whether it hands out the program's work: time in it is not the program's.
    pub const fn has_tasks(self) -> bool {
        matches!(self, Runtime::Libgomp | Runtime::Libomp | Runtime::Tbb)
    }
}

/// What a thread did on a CPU, where that was not the program's work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotWork {
    /// It waited for another thread without giving up the CPU.
    Spin {
        /// The library's function that was called to wait; none: none was, or it has no name.
        at: Option<FrameIx>,
        /// The program's function that called it, or that spins itself.
        by: Option<FrameIx>,
    },
    /// It was in this library, which runs the program's tasks.
    Runtime(FrameIx),
}

/// What a function's name says of a thread that is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Doing {
    /// It spins, whatever it calls to do so.
    Spinning,
    /// It hands out tasks, in a function that waits for there being none left.
    Tasks,
    /// It does in the kernel what the program asked for, in a function that waits for such requests.
    Serving,
    Anything,
}

/// Functions of a trace, looked up once each.
pub struct Frames<'t> {
    trace: &'t Trace,
    layer: Vec<Layer>,
    doing: Vec<Doing>,
    runtime: Vec<Option<Runtime>>,
    is_go_runtime: Vec<bool>,
    /// A loop that waits, in the function whose frame follows.
    is_loop: Vec<bool>,
    /// What the function waits for, if its name says so.
    call: Vec<Option<Call>>,
    /// A part of a library's lock.
    is_inside_a_lock: Vec<bool>,
    /// Waits for a lock that is built of a condition.
    is_built_lock: Vec<bool>,
    /// Sleeps by a condition.
    is_built_sleep: Vec<bool>,
    /// Begins every system call.
    is_entry: Vec<bool>,
    /// Waits for CPython's global interpreter lock, which is one of these.
    is_gil: Vec<bool>,
    /// Of these frames the one that stands for the lock: it is one, whichever function waits for it.
    gil: Option<FrameIx>,
    /// The function that stands for all of an allocator's: `malloc`, where that was seen.
    allocator: Option<FrameIx>,
    /// Waits at a barrier.
    is_at_barrier: Vec<bool>,
    /// Waits for a lock that is made in Python, and a function that waits with one for something else.
    is_python_lock: Vec<bool>,
    is_python_wait: Vec<bool>,
    /// Takes a lock between processes.
    is_python_process_lock: Vec<bool>,
    /// Functions that post a semaphore, and that call one which does; the same of those that signal a condition.
    posts: QuickSet<u32>,
    signals: QuickSet<u32>,
    /// Of these only those that call the library themselves.
    signal_calls: QuickSet<u32>,
    /// What the threads that wait for them do then.
    turns: Turns,
    /// Of which language's collector of garbage.
    collector: Vec<Option<Language>>,
    /// A function in Python.
    is_python: Vec<bool>,
    /// Whether a task of OpenMP was seen anywhere.
    has_omp_tasks: bool,
    /// Of a library that programs are written with.
    is_library: Vec<bool>,
    /// One number for all lines of a function, and for all nameless places of a module.
    function: Vec<u32>,
    shown: QuickMap<PathIx, Shown>,
    /// A number for each function of the program's own with what it called.
    uses: QuickMap<(u32, u32), u32>,
}

/// A path as people want it.
#[derive(Clone, Debug)]
struct Shown {
    /// Innermost first, never empty.
    frames: Vec<FrameIx>,
    /// Whether the second frame is the program's own function that called the first, which is the kernel's or a library's.
    is_call: bool,
}

impl<'t> Frames<'t> {
    /// Reads the names.
    pub fn new(trace: &'t Trace) -> Frames<'t> {
        let f = &trace.frames;
        let mut numbers = QuickMap::default();
        let mut out = Frames {
            trace,
            layer: Vec::with_capacity(f.function.len()),
            doing: Vec::with_capacity(f.function.len()),
            runtime: Vec::with_capacity(f.function.len()),
            is_go_runtime: Vec::with_capacity(f.function.len()),
            is_loop: Vec::with_capacity(f.function.len()),
            call: Vec::with_capacity(f.function.len()),
            is_inside_a_lock: Vec::with_capacity(f.function.len()),
            is_built_lock: Vec::with_capacity(f.function.len()),
            is_built_sleep: Vec::with_capacity(f.function.len()),
            is_entry: Vec::with_capacity(f.function.len()),
            is_gil: Vec::with_capacity(f.function.len()),
            gil: None,
            allocator: None,
            is_at_barrier: Vec::with_capacity(f.function.len()),
            is_python_lock: Vec::with_capacity(f.function.len()),
            is_python_wait: Vec::with_capacity(f.function.len()),
            is_python_process_lock: Vec::with_capacity(f.function.len()),
            posts: QuickSet::default(),
            signals: QuickSet::default(),
            signal_calls: QuickSet::default(),
            turns: Turns::default(),
            collector: Vec::with_capacity(f.function.len()),
            is_python: Vec::with_capacity(f.function.len()),
            has_omp_tasks: false,
            is_library: Vec::with_capacity(f.function.len()),
            function: Vec::with_capacity(f.function.len()),
            shown: QuickMap::default(),
            uses: QuickMap::default(),
        };
        for row in 0..f.function.len() {
            let name = demangled(trace.strings.get(f.function[row]));
            let module = module_name(trace.strings.get(f.module[row]));
            out.layer.push(layer(f.kind[row], &name, module));
            out.doing.push(match f.kind[row] {
                FrameKind::Kernel => doing_in_kernel(&name),
                _ => doing(&name, module),
            });
            out.call.push(calls::call(&name));
            let path = trace.strings.get(f.module[row]);
            let runtime = match path.contains("/lib-dynload/") {
                // A part of Python's interpreter in a file of its own.
                true => Some(Runtime::Interpreter),
                false => runtime(&name, module),
            };
            let is_omp = matches!(runtime, Some(Runtime::Libgomp | Runtime::Libomp));
            let is_inside = is_omp || module.starts_with("libsqlite3");
            (out.is_inside_a_lock).push(is_inside || calls::is_inside_a_lock(&name));
            out.runtime.push(runtime);
            out.is_built_lock.push(calls::is_built_lock(&name));
            out.is_built_sleep.push(calls::is_built_sleep(&name));
            out.is_entry.push(is_entry(&name));
            out.is_gil.push(calls::is_gil(&name));
            out.is_at_barrier.push(calls::is_barrier(&name));
            out.has_omp_tasks |= is_omp_task(&name);
            out.collector.push(calls::collector(&name, module));
            out.is_python.push(module == PYTHON);
            let file = trace.strings.get(f.file[row]);
            let is_lock =
                out.runtime[row] == Some(Runtime::Interpreter) && calls::is_python_lock(&name);
            out.is_python_lock.push(is_lock);
            let is_wait = module == PYTHON && calls::is_python_wait(&name, file);
            (out.is_python_wait).push(is_wait || calls::is_python_queue(&name, module));
            let is_lock = module == PYTHON && calls::is_python_process_lock(&name, file);
            out.is_python_process_lock.push(is_lock);
            out.is_library.push(is_of_a_library(&name, module, file));
            out.is_loop.push(name.starts_with(SPIN_LOOP));
            out.is_go_runtime.push(name.starts_with("runtime."));
            let next = numbers.len() as u32;
            let key = (f.function[row], f.module[row]);
            out.function.push(*numbers.entry(key).or_insert(next));
        }
        out.look_for_locks();
        out.look_at_wakers();
        out
    }

    /// The frames that stand for locks with many functions.
    fn look_for_locks(&mut self) {
        let f = &self.trace.frames;
        let name = |frame: &FrameIx| self.trace.strings.get(f.function[frame.ix()]);
        let all = || (0..f.function.len() as u32).map(FrameIx);
        let gils = all().filter(|frame| self.is_gil[frame.ix()]);
        let gil = gils.min_by_key(|frame| calls::gil_order(name(frame)));
        let is_allocator = |frame: &FrameIx| self.runtime[frame.ix()] == Some(Runtime::Allocator);
        let is_malloc = |frame: &FrameIx| calls::public_name(name(frame)) == "malloc";
        let mut allocators = all().filter(is_allocator);
        let malloc = allocators.clone().find(is_malloc).or(allocators.next());
        (self.gil, self.allocator) = (gil, malloc);
    }

    /// Who posts and signals, and what those do that wait for it.
    fn look_at_wakers(&mut self) {
        let trace = self.trace;
        let rows = (0..trace.samples.kind.len())
            .filter(|&row| trace.samples.kind[row] == SampleKind::Waker);
        let wakers: QuickSet<PathIx> = rows.map(|row| trace.samples.path[row]).collect();
        let of = |is_it: fn(&str) -> bool, n: usize| -> QuickSet<u32> {
            let paths = wakers.iter().filter(|path| path.is_some());
            let callers = paths.flat_map(|&path| self.callers_of(path, is_it).take(n));
            callers.map(|frame| self.function(frame)).collect()
        };
        let posts = of(calls::is_semaphore_post, 2);
        let (signals, calls) = (of(calls::is_signal, 2), of(calls::is_signal, 1));
        (self.posts, self.signals, self.signal_calls) = (posts, signals, calls);
        self.turns = Turns::new(trace, |path| self.asks_by_post(path));
    }

    /// Whether two frames are of one function; nameless places of one module are not told apart.
    pub fn function(&self, frame: FrameIx) -> u32 {
        self.function[frame.ix()]
    }

    /// A number for the program's own function at a path with what it called there, if it called something.
    pub fn use_shown(&mut self, path: PathIx) -> u32 {
        let shown = self.look_up(path);
        let (innermost, own) = (shown.frames[0], shown.is_call.then(|| shown.frames[1]));
        let own = own.map_or(u32::MAX, |f| self.function(f));
        let (next, key) = (self.uses.len() as u32, (self.function(innermost), own));
        *self.uses.entry(key).or_insert(next)
    }

    /// A path as people want it, innermost first and never empty: a call of the program's own code into the kernel or into libraries is one
    /// frame, the outermost that has a name; a wait for Python's GIL or a Java machine's monitor is the function that asks for it; what Python's interpreter did for a
    /// function is that function's; and what begins every thread is left out.
    pub fn shown(&mut self, path: PathIx) -> &[FrameIx] {
        &self.look_up(path).frames
    }

    /// Whether the innermost of what is shown is a call of the program's own function next to it.
    pub fn is_call(&mut self, path: PathIx) -> bool {
        self.look_up(path).is_call
    }

    fn look_up(&mut self, path: PathIx) -> &Shown {
        if !self.shown.contains_key(&path) {
            let shown = self.shorten(path);
            self.shown.insert(path, shown);
        }
        &self.shown[&path]
    }

    fn shorten(&self, path: PathIx) -> Shown {
        let all: Vec<FrameIx> = self.trace.frames_of(path).collect();
        let layer = |frame: &FrameIx| self.layer[frame.ix()];
        // An interrupt: the code below it did not call it.
        let interrupt = all.iter().rposition(|f| layer(f) == Layer::Interrupt);
        let all = &all[interrupt.map_or(0, |at| at + 1)..];
        let gil = self.waits_for_gil(path).or_else(|| self.waits_for_monitor(path));
        let (call, rest) = match gil.and_then(|gil| all.iter().position(|f| *f == gil)) {
            Some(at) => (Some(all[at]), &all[at + 1..]),
            None => {
                let (called, rest) = all.split_at(self.n_called(all));
                let mut named = called.iter().filter(|f| !self.is_entry[f.ix()]);
                // Nobody called a page fault: it is what touching memory led to.
                let fault = called.iter().find(|f| self.is_page_fault(**f));
                let named = fault.or_else(|| named.rfind(|f| self.is_named(**f)));
                (named.or(called.first()).copied(), rest)
            }
        };
        let mut frames: Vec<FrameIx> = call.into_iter().collect();
        let rest = self.without_interpreter(rest);
        // Below a function in Python the interpreter only runs it.
        let n_inner = rest.iter().take_while(|f| !self.is_python[f.ix()]).count();
        let (inner, outer) = rest.split_at(n_inner);
        let runs_them = |f: &&FrameIx| {
            !self.is_python[f.ix()] && self.runtime[f.ix()] == Some(Runtime::Interpreter)
        };
        frames.extend(inner);
        frames.extend(outer.iter().filter(|f| !runs_them(f)));
        while frames.len() > 1 && frames.last().is_some_and(|f| layer(f) == Layer::Start) {
            frames.pop();
        }
        // Nothing but an interrupt.
        if frames.is_empty() {
            frames.push(self.trace.paths.frame[path.ix()]);
        }
        let is_call = call.is_some() && frames.get(1).is_some_and(|f| !self.is_library[f.ix()]);
        Shown { frames, is_call }
    }

    /// How many of the innermost frames are what the program's own code called: the kernel, libraries. Where there is no such code: the
    /// kernel and the C library.
    fn n_called(&self, frames: &[FrameIx]) -> usize {
        let is_called = |f: &&FrameIx| {
            let is_start = self.layer[f.ix()] == Layer::Start;
            !is_start && (self.layer[f.ix()] == Layer::System || self.is_library[f.ix()])
        };
        let n = frames.iter().take_while(is_called).count();
        match frames.get(n) {
            Some(own) if self.layer[own.ix()] != Layer::Start => n,
            _ => {
                let is_system = |f: &&FrameIx| self.layer[f.ix()] == Layer::System;
                frames.iter().take_while(is_system).count()
            }
        }
    }

    /// Without the functions of Python's interpreter in what a function in Python, or a library that it called, made the interpreter do: who
    /// made it says more.
    fn without_interpreter<'f>(&self, frames: &'f [FrameIx]) -> &'f [FrameIx] {
        let is_own = |f: &&FrameIx| self.runtime[f.ix()] == Some(Runtime::Interpreter);
        let outer = &frames[frames.iter().take_while(is_own).count()..];
        match outer.iter().any(|f| self.is_python[f.ix()]) {
            true => outer,
            false => frames,
        }
    }

    fn is_page_fault(&self, frame: FrameIx) -> bool {
        let f = &self.trace.frames;
        f.kind[frame.ix()] == FrameKind::Kernel
            && calls::is_page_fault(self.trace.strings.get(f.function[frame.ix()]))
    }

    fn is_named(&self, frame: FrameIx) -> bool {
        self.trace.frames.function[frame.ix()].is_some()
    }

    /// Nothing: the thread worked, or what it did is not known.
    pub fn not_work(&self, path: PathIx) -> Option<NotWork> {
        let user = self.user_frames(path);
        if user.is_empty() {
            return self.polls_in_kernel(path);
        }
        let (library, rest) = user.split_at(self.n_library(&user));
        let program = self.programs(rest);
        // The innermost that says anything: a task that a thread runs inside of a barrier is in the program again.
        let says = |frame: &&FrameIx| self.doing[frame.ix()] != Doing::Anything;
        let is_spin = |frame: FrameIx| self.doing[frame.ix()] == Doing::Spinning;
        let is_loop = |frame: FrameIx| self.is_loop[frame.ix()];
        let spins = user.first().copied().is_some_and(is_loop)
            || library.iter().find(says).copied().is_some_and(is_spin)
            || (library.is_empty() && program.is_some_and(is_spin));
        if spins {
            let is_programs = |frame: FrameIx| {
                let module = |frame: FrameIx| self.trace.frames.module[frame.ix()];
                program.is_some_and(|program| module(program) == module(frame))
            };
            let named = |frame: &&FrameIx| {
                self.is_named(**frame)
                    && self.layer[frame.ix()] != Layer::Start
                    && !is_programs(**frame)
            };
            return Some(NotWork::Spin { at: library.iter().rfind(named).copied(), by: program });
        }
        let in_runtime =
            |frame: &&FrameIx| self.runtime[frame.ix()].is_some_and(Runtime::has_tasks);
        let runtime = library.iter().find(in_runtime).copied()?;
        let is_omp = |frame: FrameIx| {
            let runtime = self.runtime[frame.ix()];
            matches!(runtime, Some(Runtime::Libgomp | Runtime::Libomp))
        };
        // Without names inside of it, what called it tells: where the program has no tasks, threads only wait in it between two
        // regions, and at the end of one.
        let called = library.iter().rfind(|f| is_omp(**f) && self.is_named(**f));
        let is_lock = called.is_some_and(|f| self.call[f.ix()] == Some(Call::Lock));
        let is_wait = called.is_none_or(|f| self.is_at_barrier[f.ix()]);
        match is_lock || (is_omp(runtime) && is_wait && !self.has_omp_tasks) {
            true => Some(NotWork::Spin { at: called.copied(), by: program }),
            false => Some(NotWork::Runtime(runtime)),
        }
    }

    /// Whether a path's innermost function is called by a runtime of tasks, and the program's function that called that.
    pub fn region_caller(&self, path: PathIx) -> Option<FrameIx> {
        let is_runtime = |frame: &FrameIx| self.runtime[frame.ix()].is_some_and(Runtime::has_tasks);
        let mut outer = self.trace.frames_of(path).skip_while(|frame| !is_runtime(frame));
        let mut outer = outer.by_ref().skip_while(is_runtime);
        outer
            .next()
            .filter(|&frame| self.layer[frame.ix()] == Layer::Program && self.is_named(frame))
    }

    /// Whether a thread that runs at this path only waits.
    pub fn spins(&self, path: PathIx) -> bool {
        matches!(self.not_work(path), Some(NotWork::Spin { .. }))
    }

    /// A thread of the kernel's in the program's process that looks for requests in a loop.
    fn polls_in_kernel(&self, path: PathIx) -> Option<NotWork> {
        let doing = |frame: &FrameIx| self.doing[frame.ix()];
        let mut said = (self.trace.frames_of(path)).filter(|frame| doing(frame) != Doing::Anything);
        let at = said.next().filter(|frame| doing(frame) == Doing::Spinning)?;
        Some(NotWork::Spin { at: Some(at), by: None })
    }

    /// What a thread at this path waits for.
    pub fn call(&self, path: PathIx) -> Call {
        let said = |frame: FrameIx| {
            let call = self.call[frame.ix()];
            match self.layer[frame.ix()] {
                // Any program may have a function `read`.
                Layer::System => call,
                _ => call.filter(|&call| call == Call::Lock && self.is_inside(frame)),
            }
        };
        let inner = (self.trace.frames_of(path))
            .take_while(|frame| self.layer[frame.ix()] == Layer::System || self.is_inside(*frame));
        let inner: Vec<FrameIx> = inner.collect();
        match inner.iter().any(|frame| self.is_built_lock[frame.ix()]) {
            // Not the condition by which it is built.
            true => Call::Lock,
            false if inner.iter().any(|frame| self.is_built_sleep[frame.ix()]) => Call::Sleep,
            false if self.waits_for_python_lock(path) => Call::Lock,
            false if self.waits_for_own_post(path) => Call::Lock,
            false => inner.into_iter().find_map(said).unwrap_or_default(),
        }
    }

    /// Whether a semaphore or a condition is used as a lock: the code that waits for it ends such waits, and threads do not go on together then, as at a barrier.
    /// Two threads seem to take turns also at a barrier, where one function waits and signals; at a lock one enters and another leaves.
    fn waits_for_own_post(&self, path: PathIx) -> bool {
        let mut semaphore = self.callers_of(path, calls::is_semaphore_wait);
        let is_semaphore = semaphore.next().is_some();
        self.asks_by_post(path).is_some_and(|at| match is_semaphore {
            true => !self.turns.are_together(at),
            false => {
                let least = if self.signal_calls.contains(&at) { 3 } else { 2 };
                self.turns.one_by_one(at) >= least
            }
        })
    }

    /// The function that waits at this path for a semaphore or a condition which the same code posts: the functions that called both are
    /// one, or are called by one. Who waits for what another posts has it in other code.
    fn asks_by_post(&self, path: PathIx) -> Option<u32> {
        let numbers = |is_it| {
            let callers = self.callers_of(path, is_it);
            callers.map(|frame| self.function(frame)).collect::<Vec<u32>>()
        };
        let waits = numbers(calls::is_semaphore_wait);
        if let Some(&at) = waits.first() {
            let posts = waits.iter().any(|function| self.posts.contains(function));
            return posts.then_some(at);
        }
        let waits = numbers(calls::is_condition_wait);
        let at = *waits.first()?;
        let signals = waits.iter().any(|function| self.signals.contains(function));
        signals.then_some(at)
    }

    /// The named functions around a call of a library: the program's that made it, and that one's caller.
    fn callers_of(
        &self,
        path: PathIx,
        is_it: fn(&str) -> bool,
    ) -> impl Iterator<Item = FrameIx> + '_ {
        let is_called = |frame: &FrameIx| {
            self.layer[frame.ix()] == Layer::System || self.is_library[frame.ix()]
        };
        let name = |frame: FrameIx| self.trace.strings.get(self.trace.frames.function[frame.ix()]);
        let mut calls = self.trace.frames_of(path).take_while(is_called);
        let is_one = calls.any(|frame| is_it(&demangled(name(frame))));
        let outer = self.trace.frames_of(path).skip_while(is_called);
        // What a machine's threads wait for and post is its own: who has work, not who may go on.
        let is_own = |frame: &FrameIx| {
            self.layer[frame.ix()] == Layer::Program
                && self.runtime[frame.ix()] != Some(Runtime::Interpreter)
                && self.is_named(*frame)
        };
        outer.take(if is_one { 2 } else { 0 }).filter(is_own)
    }

    /// Whether a function in Python waits for a lock that it has asked for itself.
    fn waits_for_python_lock(&self, path: PathIx) -> bool {
        let inner = (self.trace.frames_of(path)).take_while(|frame| {
            let runtime = self.runtime[frame.ix()];
            self.layer[frame.ix()] == Layer::System || runtime == Some(Runtime::Interpreter)
        });
        let inner: Vec<FrameIx> = inner.collect();
        let is_lock = inner.iter().any(|frame| self.is_python_lock[frame.ix()])
            && !inner.iter().any(|frame| self.is_python_wait[frame.ix()]);
        let mut python = (self.trace.frames_of(path)).filter(|frame| self.is_python[frame.ix()]);
        let (Some(first), caller) = (python.next(), python.next()) else {
            return false;
        };
        // A thread that takes something out of a queue waits for its turn to wait for it.
        let takes = caller.is_some_and(|frame| self.is_python_wait[frame.ix()]);
        (is_lock && !self.is_python_wait[first.ix()])
            || (self.is_python_process_lock[first.ix()] && !takes)
    }

    /// Whether a thread at this path is a runtime's own, which waits for something to do: all of it
    /// is a Java machine's, or it has no goroutine, or watches over those that have.
    pub fn is_idle(&self, path: PathIx) -> bool {
        let f = &self.trace.frames;
        let text = |text| self.trace.strings.get(text);
        let (mut is_all, mut has_start, mut n) = (true, false, 0);
        for frame in self.user_frames(path) {
            let at = frame.ix();
            if ["runtime.sysmon", "runtime.findRunnable"].contains(&text(f.function[at])) {
                return true;
            }
            match self.layer[at] {
                Layer::Start => has_start = true,
                Layer::System => {}
                _ => {
                    is_all &= module_name(text(f.module[at])) == "libjvm.so";
                    n += 1;
                }
            }
        }
        is_all && has_start && n > 0
    }

    /// Whether a Java machine's function is on this path.
    pub fn is_in_java(&self, path: PathIx) -> bool {
        let module = |frame: FrameIx| self.trace.strings.get(self.trace.frames.module[frame.ix()]);
        self.trace.frames_of(path).any(|frame| module_name(module(frame)) == "libjvm.so")
    }

    /// The function that stands for CPython's global interpreter lock, if that is waited for at this path.
    pub fn gil(&self, path: PathIx) -> Option<FrameIx> {
        self.waits_for_gil(path).and(self.gil)
    }

    /// The function that waits for it at this path.
    fn waits_for_gil(&self, path: PathIx) -> Option<FrameIx> {
        let mut inner = (self.trace.frames_of(path))
            .take_while(|frame| self.layer[frame.ix()] == Layer::System || self.is_inside(*frame));
        inner.find(|frame| self.is_gil[frame.ix()])
    }

    /// The outermost function of a Java machine's with which a thread at this path asks for a
    /// monitor, or to sleep.
    fn waits_for_monitor(&self, path: PathIx) -> Option<FrameIx> {
        let inner = (self.trace.frames_of(path))
            .take_while(|frame| self.layer[frame.ix()] == Layer::System || self.is_inside(*frame));
        let asks = |frame: &FrameIx| {
            let is_built = self.is_built_lock[frame.ix()] || self.is_built_sleep[frame.ix()];
            is_built && self.runtime[frame.ix()] == Some(Runtime::Interpreter)
        };
        inner.filter(asks).last().filter(|frame| !self.is_gil[frame.ix()])
    }

    /// The program's function that called what a thread at this path waits in; none: it has no name.
    pub fn caller(&self, path: PathIx) -> Option<FrameIx> {
        self.named_or_not(path).filter(|&caller| self.is_named(caller))
    }

    /// The same, with or without a name.
    fn named_or_not(&self, path: PathIx) -> Option<FrameIx> {
        let outer = (self.trace.frames_of(path))
            .skip_while(|frame| self.layer[frame.ix()] == Layer::System || self.is_inside(*frame));
        let outer: Vec<FrameIx> = outer.collect();
        // What Python's interpreter does is for a function in Python.
        self.programs(self.without_interpreter(&outer))
    }

    /// The function that asks for what is waited for at this path; where it has no name, its program or library.
    pub fn asker(&self, path: PathIx) -> StrIx {
        let f = &self.trace.frames;
        // Everything in Python asks for its global lock: the lock itself says more.
        match self.gil(path).or_else(|| self.named_or_not(path)) {
            Some(frame) if self.is_named(frame) => f.function[frame.ix()],
            Some(frame) => f.module[frame.ix()],
            None => StrIx::NONE,
        }
    }

    /// The program's function that asks for what is waited for at this path, and the next one of its own that called it.
    pub fn asker_and_caller(&self, path: PathIx) -> Option<(FrameIx, FrameIx)> {
        let asker = self.caller(path)?;
        let outer = self.trace.frames_of(path).skip_while(|&frame| frame != asker).skip(1);
        let caller = self.programs(&outer.collect::<Vec<_>>())?;
        self.is_named(caller).then_some((asker, caller))
    }

    /// Of the callers of the system or of a runtime the first that is the program's own: libraries that pass a call on say less. Without one, the
    /// first of all; none: it only began the thread.
    fn programs(&self, callers: &[FrameIx]) -> Option<FrameIx> {
        let is_start = |frame: FrameIx| self.layer[frame.ix()] == Layer::Start;
        let is_own = |frame: FrameIx| {
            self.layer[frame.ix()] == Layer::Program
                && !self.is_library[frame.ix()]
                && !self.is_python_process_lock[frame.ix()]
                && self.runtime[frame.ix()] != Some(Runtime::Interpreter)
                && self.is_named(frame)
        };
        let mut inner = callers.iter().copied().take_while(|&frame| !is_start(frame));
        let first = callers.first().copied().filter(|&frame| !is_start(frame));
        inner.find(|&frame| is_own(frame)).or(first)
    }

    fn is_inside(&self, frame: FrameIx) -> bool {
        self.is_inside_a_lock[frame.ix()]
    }

    /// The kind of file at which a thread waits, as the kernel's functions say; without root they are not seen.
    pub fn channel(&self, path: PathIx) -> Channel {
        let f = &self.trace.frames;
        let kernel = (self.trace.frames_of(path))
            .take_while(|frame| f.kind[frame.ix()] == FrameKind::Kernel)
            .map(|frame| calls::channel(self.trace.strings.get(f.function[frame.ix()])));
        let mut known = kernel.filter(|&channel| channel != Channel::Unknown);
        known.next().unwrap_or_default()
    }

    /// Whether a thread at this path waits for what another thread does: at a futex, as the functions of the kernel or of a library say, or in such a call.
    pub fn waits_for_threads(&self, path: PathIx) -> bool {
        let is_called = |frame: &FrameIx| {
            self.layer[frame.ix()] == Layer::System || self.is_library[frame.ix()]
        };
        let name = |frame: FrameIx| self.trace.frames.function[frame.ix()];
        let mut called = self.trace.frames_of(path).take_while(is_called);
        let call = self.call(path);
        let at_futex = called.any(|frame| self.trace.strings.get(name(frame)).contains("futex"));
        (at_futex && call != Call::Sleep) || matches!(call, Call::Lock | Call::Condition)
    }

    /// What is the lock for which a thread waits at this path, where that is known: the name of a
    /// file, or the function of an allocator's that stands for all of its functions.
    pub fn lock(&self, path: PathIx) -> StrIx {
        let is_called = |frame: &FrameIx| {
            self.layer[frame.ix()] == Layer::System || self.is_library[frame.ix()]
        };
        let is_allocator = |frame: FrameIx| self.runtime[frame.ix()] == Some(Runtime::Allocator);
        let mut called = self.trace.frames_of(path).take_while(is_called);
        match self.file_name(path) {
            StrIx::NONE if called.any(is_allocator) => {
                self.allocator.map_or(StrIx::NONE, |frame| self.trace.frames.function[frame.ix()])
            }
            file => file,
        }
    }

    /// The path of the file at which a thread waits; "" where it is no file with a name.
    pub fn file(&self, path: PathIx) -> &str {
        let name = self.trace.strings.get(self.file_name(path));
        name.strip_prefix(calls::FILE).unwrap_or_default()
    }

    /// The same, with the word before it.
    pub fn file_name(&self, path: PathIx) -> StrIx {
        let f = &self.trace.frames;
        let innermost = self.trace.frames_of(path).next().map(|frame| frame.ix());
        let innermost = innermost.filter(|&frame| f.kind[frame] == FrameKind::Kernel);
        let name = innermost.map_or(StrIx::NONE, |frame| f.function[frame]);
        match self.trace.strings.get(name).starts_with(calls::FILE) {
            true => name,
            false => StrIx::NONE,
        }
    }

    /// The program's own functions with names, innermost first, from the one that a thread began with, or that a runtime of tasks
    /// called: so of a region of OpenMP its part of it.
    /// And whether a runtime did. Go's threads have none: they go from one goroutine to the next.
    pub fn region(&self, path: PathIx) -> (Vec<FrameIx>, bool) {
        let (mut all, mut python, mut has_called) = (Vec::new(), Vec::new(), false);
        for frame in self.trace.frames_of(path) {
            let at = frame.ix();
            if self.is_go_runtime[at] {
                return (Vec::new(), false);
            }
            if self.runtime[at].is_some_and(Runtime::has_tasks) {
                has_called |= !all.is_empty();
            }
            if has_called {
                break;
            }
            let is_own = self.layer[at] == Layer::Program
                && !self.is_library[at]
                && self.runtime[at] != Some(Runtime::Interpreter);
            if is_own && !self.is_loop[at] && self.is_named(frame) {
                all.push(frame);
                python.extend(self.is_python[at].then_some(frame));
            }
        }
        // clang puts a region with debug information into a function of its own, which its part calls.
        let name = |frame: &FrameIx| self.trace.strings.get(self.trace.frames.function[frame.ix()]);
        if let [.., inner, _] = all[..]
            && name(&inner).ends_with(".omp_outlined._debug__")
        {
            all.pop();
        }
        match python.is_empty() {
            true => (all, has_called),
            false => (python, has_called),
        }
    }

    /// All functions with names but those that begin a thread or stand for code without names (V8's of an
    /// interpreted function), innermost first: of a path that is
    /// all a runtime's these are all that is known. Go's threads go from one goroutine to the next.
    /// Nor those that only run the program's code, and what led to them.
    pub fn named(&self, path: PathIx) -> Vec<FrameIx> {
        let name = |frame: FrameIx| self.trace.strings.get(self.trace.frames.function[frame.ix()]);
        let is_it = |frame: &FrameIx| {
            self.layer[frame.ix()] == Layer::Program
                && !self.is_go_runtime[frame.ix()]
                && self.is_named(*frame)
                && !name(*frame).starts_with("Builtins_")
        };
        let called = self.trace.frames_of(path).take_while(|&frame| !self.runs_code(frame));
        called.filter(is_it).collect()
    }

    /// Whether a function of a machine's for some language only runs the program's code.
    pub fn runs_code(&self, frame: FrameIx) -> bool {
        let name = self.trace.strings.get(self.trace.frames.function[frame.ix()]);
        self.runtime[frame.ix()] == Some(Runtime::Interpreter) && calls::runs_code(&demangled(name))
    }

    /// The program's own functions with names, innermost first; where there are some in Python, only these, and of these the user's.
    pub fn own(&self, path: PathIx) -> Vec<FrameIx> {
        let is_own = |frame: &FrameIx| {
            let at = frame.ix();
            self.layer[at] == Layer::Program
                && !self.is_library[at]
                && !self.is_loop[at]
                && self.runtime[at].is_none()
                && self.is_named(*frame)
        };
        let own: Vec<FrameIx> = self.trace.frames_of(path).filter(is_own).collect();
        let file = |frame: FrameIx| self.trace.strings.get(self.trace.frames.file[frame.ix()]);
        let is_python = |frame: &FrameIx| self.is_python[frame.ix()];
        // Not what comes with Python, if there is anything else.
        let is_users = |frame: &FrameIx| is_python(frame) && !is_pythons_own(file(*frame));
        for is_it in [&is_users as &dyn Fn(&FrameIx) -> bool, &is_python] {
            if own.iter().any(is_it) {
                return own.into_iter().filter(is_it).collect();
            }
        }
        own
    }

    /// Whether a function of OpenMP's asks for a lock.
    pub fn asks_for_lock(&self, frame: FrameIx) -> bool {
        let runtime = self.runtime[frame.ix()];
        runtime.is_some_and(Runtime::has_tasks) && self.call[frame.ix()] == Some(Call::Lock)
    }

    /// Whether a thread waits at a barrier at this path.
    pub fn is_barrier(&self, path: PathIx) -> bool {
        let called = (self.trace.frames_of(path)).take_while(|frame| {
            self.layer[frame.ix()] == Layer::System || self.is_library[frame.ix()]
        });
        let mut called = called;
        called.any(|frame| self.is_at_barrier[frame.ix()])
    }

    /// Whether a thread at this path is in a system call that reads or writes bytes,
    /// whichever function asked for that.
    pub fn moves_bytes(&self, path: PathIx) -> bool {
        let f = &self.trace.frames;
        let name = |frame: FrameIx| self.trace.strings.get(f.function[frame.ix()]);
        for frame in self.trace.frames_of(path) {
            match f.kind[frame.ix()] {
                FrameKind::Kernel if calls::moves_bytes_in_kernel(name(frame)) => return true,
                FrameKind::Kernel => {}
                // Go makes its system calls itself, through several functions.
                _ if calls::is_gos_system_call(name(frame)) => {}
                _ => {
                    let is_system = self.layer[frame.ix()] == Layer::System;
                    let call = name(frame).strip_prefix("syscall.");
                    return match call {
                        Some(call) => calls::moves_bytes(call),
                        None => is_system && calls::moves_bytes(name(frame)),
                    };
                }
            }
        }
        false
    }

    /// Whether the kernel sends the thread a signal at this path, or begins a handler.
    pub fn signals(&self, path: PathIx) -> bool {
        let f = &self.trace.frames;
        let kernel = (self.trace.frames_of(path))
            .take_while(|frame| f.kind[frame.ix()] == FrameKind::Kernel)
            .map(|frame| self.trace.strings.get(f.function[frame.ix()]));
        kernel.into_iter().any(calls::sends_signal)
    }

    /// The frames of a path that are not the kernel's, innermost first.
    fn user_frames(&self, path: PathIx) -> Vec<FrameIx> {
        let is_kernel = |frame: &FrameIx| self.trace.frames.kind[frame.ix()] == FrameKind::Kernel;
        self.trace.frames_of(path).skip_while(is_kernel).collect()
    }

    /// How many of the innermost frames are of libraries that the program has called.
    fn n_library(&self, user: &[FrameIx]) -> usize {
        let is_library = |frame: &&FrameIx| {
            let runtime = self.runtime[frame.ix()];
            self.layer[frame.ix()] == Layer::System
                || runtime.is_some_and(|r| r.has_tasks() || r == Runtime::Interpreter)
                || self.is_go_runtime[frame.ix()]
                || self.is_loop[frame.ix()]
        };
        user.iter().take_while(is_library).count()
    }

    /// The runtime that a thread ran in at this path, the module's frame, and the function in which it spins.
    pub fn overhead(&self, path: PathIx) -> Option<(Runtime, FrameIx, Option<FrameIx>)> {
        let user = self.user_frames(path);
        let first = *user.first()?;
        let library = &user[..self.n_library(&user)];
        // A call into the C library is the runtime's that made it.
        let with_tasks =
            |frame: &&FrameIx| self.runtime[frame.ix()].is_some_and(Runtime::has_tasks);
        let module = self.trace.frames.module[first.ix()];
        let same = (user.iter()).take_while(|frame| self.trace.frames.module[frame.ix()] == module);
        // In an allocator's own functions, whichever of them is the innermost.
        let own = || same.clone().find_map(|frame| self.runtime[frame.ix()]);
        let (runtime, frame) = match library.iter().find(with_tasks) {
            Some(&frame) => (self.runtime[frame.ix()], frame),
            None => (own(), first),
        };
        // Whatever it calls.
        let collector = user
            .iter()
            .find_map(|&frame| Some((Runtime::Collector(self.collector[frame.ix()]?), frame)));
        let (runtime, frame) = match collector {
            Some((collector, frame)) => (Some(collector), frame),
            None => (runtime, frame),
        };
        let spin = match self.not_work(path) {
            Some(NotWork::Spin { at, by }) => at.or(by).or(Some(first)),
            _ => None,
        };
        match (runtime, spin) {
            (None, None) => None,
            (runtime, spin) => Some((runtime.unwrap_or(Runtime::Other), frame, spin)),
        }
    }
}

/// Whether a function is of a library that programs are written with, so that who called it says more: a language's standard library, an
/// allocator, a runtime that hands out tasks, a package that was fetched. `function`: demangled; `module`: without its folders.
pub fn is_of_a_library(function: &str, module: &str, file: &str) -> bool {
    /// Where compilers and package managers keep sources that are not the program's.
    const FOLDERS: [&str; 7] = [
        "/rustc/",
        "/lib/rustlib/src/",
        "/.cargo/registry/",
        "/.cargo/git/",
        "/include/c++/",
        "-linux-gnu/c++/",
        "/go/pkg/mod/",
    ];
    const BEGINS: [&str; 12] = [
        "std::",
        "core::",
        "alloc::",
        "hashbrown::",
        "__gnu_cxx::",
        "<std::",
        "<core::",
        "<alloc::",
        "<hashbrown::",
        "runtime.",
        "internal/",
        "sync.",
    ];
    // What a C++ template returns stands before its name.
    let name = function.split(['<', '(']).next().unwrap_or_default();
    let name = name.rsplit(' ').next().unwrap_or_default();
    // A stub that calls a library.
    function.ends_with("@plt")
        || runtime(function, module).is_some_and(|r| r != Runtime::Interpreter)
        || begins(function, &BEGINS)
        || begins(name, &["std::", "__gnu_cxx::"])
        || FOLDERS.iter().any(|folder| file.contains(folder))
        || is_of_gos_library(function, file)
}

/// Whether a function of this name is an allocator's. `module`: without its folders.
pub fn allocates(function: &str, module: &str) -> bool {
    runtime(function, module) == Some(Runtime::Allocator)
}

/// Whether a function of this name is a language's machine's own, which its programs cannot change. `module`: without its folders.
pub fn is_of_machine(function: &str, module: &str) -> bool {
    runtime(function, module) == Some(Runtime::Interpreter)
}

/// Whether a file comes with Python.
pub fn is_pythons_own(file: &str) -> bool {
    (file.contains("/lib/python3") && !file.contains("-packages/")) || file.starts_with("<frozen ")
}

/// Go's own packages lie in `src/PACKAGE` of its installation, and their names have no dot before the first slash.
fn is_of_gos_library(function: &str, file: &str) -> bool {
    let last = function.rfind('/').map_or(0, |at| at + 1);
    let Some(dot) = function[last..].find('.') else {
        return false;
    };
    let package = &function[..last + dot];
    let first = package.split('/').next().unwrap_or_default();
    file.ends_with(".go")
        && !first.contains('.')
        && package != "main"
        && file.contains(&format!("/src/{package}/"))
}

/// The name without its folders.
pub fn module_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn begins(text: &str, with: &[&str]) -> bool {
    with.iter().any(|start| text.starts_with(start))
}

fn layer(kind: FrameKind, name: &str, module: &str) -> Layer {
    const SYSTEM: [&str; 12] = [
        "libc.so",
        "libc-",
        "libpthread",
        "ld-linux",
        "ld-musl",
        "ld-2",
        "libm.so",
        "libm-",
        "librt.",
        "libstdc++.so",
        "[vdso]",
        "linux-vdso",
    ];
    const START: [&str; 13] = [
        "_start",
        "__libc_start_main",
        "__libc_start_call_main",
        "start_thread",
        "__clone",
        "clone",
        "execute_native_thread_routine",
        "std::rt::lang_start",
        "std::sys::backtrace::__rust_begin_short_backtrace",
        "__rust_begin_short_backtrace",
        "std::sys::pal::unix::thread::Thread::new::thread_start",
        "core::ops::function::FnOnce::call_once",
        "gomp_thread_start",
    ];
    if kind == FrameKind::Kernel {
        return match name {
            _ if begins(name, &["asm_sysvec_", "asm_common_interrupt", "sysvec_"]) => {
                Layer::Interrupt
            }
            // What begins a thread of the kernel's: io_uring's are in the program's process.
            "ret_from_fork" | "ret_from_fork_asm" => Layer::Start,
            _ => Layer::System,
        };
    }
    if START.contains(&name) || begins(name, &["__libc_start", "clone3", "std::rt::lang_start"]) {
        return Layer::Start;
    }
    match begins(module, &SYSTEM) || module == "libc.so" {
        true => Layer::System,
        false => Layer::Program,
    }
}

/// Functions of the kernel's through which every system call goes: what they call says which it is.
fn is_entry(name: &str) -> bool {
    const ENTRIES: [&str; 8] = [
        "entry_SYSCALL_64",
        "entry_SYSCALL_64_after_hwframe",
        "do_syscall_64",
        "x64_sys_call",
        "el0t_64_sync",
        "el0t_64_sync_handler",
        "el0_svc",
        "invoke_syscall",
    ];
    ENTRIES.contains(&name) || name.starts_with("do_el0_svc")
}

/// Spinning: functions that do nothing but wait for another thread without giving up the CPU, or by asking for it again and again.
fn doing(name: &str, module: &str) -> Doing {
    const SPIN: [&str; 20] = [
        "gomp_barrier_wait",
        "gomp_barrier_wait_end",
        "gomp_barrier_wait_last",
        "gomp_team_barrier_wait",
        "gomp_team_barrier_wait_end",
        "gomp_team_barrier_wait_final",
        "gomp_team_barrier_wait_cancel_end",
        "pthread_spin_lock",
        "__pthread_spin_lock",
        "sched_yield",
        "__sched_yield",
        "__GI_sched_yield",
        "runtime.procyield",
        "runtime.osyield",
        "runtime.findRunnable",
        "runtime.selectnbrecv",
        "runtime.selectnbsend",
        "SpinPause",
        "prolonged_pause",
        "machine_pause",
    ];
    const SPIN_BEGINS: [&str; 9] = [
        "__kmp_wait_",
        "__kmp_hyper_barrier",
        "__kmp_flag_",
        "__kmp_barrier_",
        "__kmp_fork_barrier",
        "__kmp_acquire_",
        "__lll_lock_spin",
        "ObjectMonitor::TrySpin",
        "tbb::detail::r1::prolonged_pause",
    ];
    const TASKS_BEGIN: [&str; 5] = [
        "gomp_barrier_handle_tasks",
        "__kmp_execute_tasks",
        "__kmp_invoke_task",
        "__kmp_task_",
        "__kmp_steal_task",
    ];
    match name {
        // Words that any program may use.
        "do_spin" | "do_wait" if module.starts_with("libgomp.so") => Doing::Spinning,
        _ if SPIN.contains(&name) || begins(name, &SPIN_BEGINS) => Doing::Spinning,
        _ if begins(name, &TASKS_BEGIN) => Doing::Tasks,
        _ => Doing::Anything,
    }
}

/// The same of the kernel's functions, for threads that it adds to a program: io_uring's that looks for requests itself (SQPOLL).
fn doing_in_kernel(name: &str) -> Doing {
    match name {
        "io_sq_thread" => Doing::Spinning,
        "io_submit_sqes" => Doing::Serving,
        _ => Doing::Anything,
    }
}

/// Whether only a program that has tasks of OpenMP has a function of this name, or calls it.
fn is_omp_task(name: &str) -> bool {
    const PARTS: [&str; 4] = ["omp_task", "GOMP_task", "kmpc_taskloop", "kmp_invoke_task"];
    PARTS.iter().any(|part| name.contains(part))
}

fn runtime(name: &str, module: &str) -> Option<Runtime> {
    const ALLOCATORS: [&str; 4] = ["libjemalloc", "libtcmalloc", "libmimalloc", "libtbbmalloc"];
    const INTERPRETERS: [&str; 8] =
        ["libpython", "python", "libruby", "libperl", "perl", "libjli", "libjvm", "libnode"];
    const MALLOC: [&str; 12] = [
        "malloc",
        "free",
        "calloc",
        "realloc",
        "cfree",
        "_int_malloc",
        "_int_free",
        "_int_realloc",
        "malloc_consolidate",
        "unlink_chunk",
        "sysmalloc",
        "tcache_init",
    ];
    let in_libc = begins(module, &["libc.so", "libc-", "ld-musl"]);
    match module {
        m if begins(m, &["libgomp.so"]) => Some(Runtime::Libgomp),
        m if begins(m, &["libomp.so", "libomp5", "libiomp"]) => Some(Runtime::Libomp),
        m if begins(m, &ALLOCATORS) => Some(Runtime::Allocator),
        m if begins(m, &["libtbb.so", "libtbb-"]) => Some(Runtime::Tbb),
        m if m == "node" || begins(m, &INTERPRETERS) => Some(Runtime::Interpreter),
        _ if in_libc && (MALLOC.contains(&name) || name.starts_with("__libc_malloc")) => {
            Some(Runtime::Allocator)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spinning_is_told_by_the_name() {
        for name in
            ["do_spin", "gomp_team_barrier_wait_end", "__kmp_wait_template", "runtime.selectnbrecv"]
        {
            assert_eq!(doing(name, "libgomp.so.1"), Doing::Spinning, "{name}");
        }
        assert_eq!(doing("do_wait", "program"), Doing::Anything);
        assert_eq!(doing_in_kernel("io_sq_thread"), Doing::Spinning);
        assert_eq!(doing("io_sq_thread", "program"), Doing::Anything);
        for name in ["GOMP_parallel", "do_work", "gomp_iter_dynamic_next", "pthread_mutex_lock", ""]
        {
            assert_eq!(doing(name, "libgomp.so.1"), Doing::Anything, "{name}");
        }
    }

    #[test]
    fn runtimes_are_told_by_the_module_and_allocators_by_both() {
        assert_eq!(runtime("", "libgomp.so.1.0.0"), Some(Runtime::Libgomp));
        assert_eq!(runtime("f", "libtbbmalloc.so.2"), Some(Runtime::Allocator));
        assert_eq!(runtime("_int_malloc", "libc.so.6"), Some(Runtime::Allocator));
        assert_eq!(runtime("memcpy", "libc.so.6"), None);
        assert_eq!(runtime("free", "program"), None);
    }

    #[test]
    fn the_kernel_and_the_c_library_are_the_system() {
        assert_eq!(layer(FrameKind::Kernel, "futex_wait", "[kernel]"), Layer::System);
        assert_eq!(
            layer(FrameKind::Kernel, "asm_sysvec_apic_timer_interrupt", "[kernel]"),
            Layer::Interrupt
        );
        assert_eq!(layer(FrameKind::Native, "write", "libc.so.6"), Layer::System);
        assert_eq!(layer(FrameKind::Native, "start_thread", "libc.so.6"), Layer::Start);
        assert_eq!(layer(FrameKind::Native, "start", "libcurl.so.4"), Layer::Program);
        assert_eq!(layer(FrameKind::Native, "main", "a.out"), Layer::Program);
    }
}
