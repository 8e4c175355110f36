//! The functions of a trace's call paths: which of them are the program's own, what people want to
//! see of a path, and whether a thread that runs there works.
//!
//! `kinds` tells functions apart by their names; `awaited` says what a thread at a path waits for.
mod awaited;
mod kinds;

pub use kinds::{Runtime, allocates, is_of_a_library, is_of_machine, is_pythons_own, module_name};

use super::calls::{self, Call};
use super::turns::Turns;
use crate::demangled;
use crate::languages::Language;
use kasuri_base::call_path::{PYTHON, SPIN_LOOP};
use kasuri_base::quick::{QuickMap, QuickSet};
use kasuri_model::{FrameIx, FrameKind, PathIx, SampleKind, Trace};
use kinds::{Doing, Layer, doing, doing_in_kernel, is_entry, is_omp_task, layer, runtime};
use std::borrow::Cow;

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
/// Functions of a trace, looked up once each.
pub struct Frames<'t> {
    trace: &'t Trace,
    /// As people read it.
    name: Vec<Cow<'t, str>>,
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
    /// Of these frames the one that stands for the lock: it is one, whichever function waits for
    /// it.
    gil: Option<FrameIx>,
    /// The function that stands for all of an allocator's: `malloc`, where that was seen.
    allocator: Option<FrameIx>,
    /// Waits at a barrier.
    is_at_barrier: Vec<bool>,
    /// Waits for a lock that is made in Python, and a function that waits with one for something
    /// else.
    is_python_lock: Vec<bool>,
    is_python_wait: Vec<bool>,
    /// Takes such a lock, or one between processes, for who called it.
    takes_python_lock: Vec<bool>,
    /// Functions that post a semaphore, and that call one which does; the same of those that signal
    /// a condition.
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
    /// Whether the second frame is the program's own function that called the first, which is the
    /// kernel's or a library's.
    is_call: bool,
}

impl<'t> Frames<'t> {
    /// Reads the names.
    pub fn new(trace: &'t Trace) -> Frames<'t> {
        let f = &trace.frames;
        let mut numbers = QuickMap::default();
        let mut out = Frames {
            trace,
            name: Vec::with_capacity(f.function.len()),
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
            takes_python_lock: Vec::with_capacity(f.function.len()),
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
            let is_inside = is_omp || calls::is_inside_librarys_lock(&name, module);
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
            let is_lock = module == PYTHON && calls::takes_python_lock(&name, file);
            out.takes_python_lock.push(is_lock);
            out.is_library.push(is_of_a_library(&name, module, file));
            out.is_loop.push(name.starts_with(SPIN_LOOP));
            out.is_go_runtime.push(name.starts_with("runtime."));
            let next = numbers.len() as u32;
            let key = (f.function[row], f.module[row]);
            out.name.push(name);
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

    /// A number for the program's own function at a path with what it called there, if it called
    /// something.
    pub fn use_shown(&mut self, path: PathIx) -> u32 {
        let shown = self.look_up(path);
        let (innermost, own) = (shown.frames[0], shown.is_call.then(|| shown.frames[1]));
        let own = own.map_or(u32::MAX, |f| self.function(f));
        let (next, key) = (self.uses.len() as u32, (self.function(innermost), own));
        *self.uses.entry(key).or_insert(next)
    }

    /// A path as people want it, innermost first and never empty: a call of the program's own code
    /// into the kernel or into libraries is one frame, the outermost that has a name; a wait for
    /// Python's GIL or a Java machine's monitor is the function that asks for it; what Python's
    /// interpreter did for a function is that function's; and what begins every thread is left out.
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

    /// How many of the innermost frames are what the program's own code called: the kernel,
    /// libraries. Where there is no such code: the kernel and the C library.
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

    /// Without the functions of Python's interpreter in what a function in Python, or a library
    /// that it called, made the interpreter do: who made it says more.
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
        // The innermost that says anything: a task that a thread runs inside of a barrier is in the
        // program again.
        let says = |frame: &&FrameIx| self.doing[frame.ix()] != Doing::Anything;
        let is_spin = |frame: FrameIx| self.doing[frame.ix()] == Doing::Spinning;
        let in_runtime =
            |frame: &&FrameIx| self.runtime[frame.ix()].is_some_and(Runtime::has_tasks);
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
                    && (!is_programs(**frame) || in_runtime(frame))
            };
            // A language's own lock is in the program's file.
            let mut called = user.iter().take_while(|f| is_loop(**f) || self.is_called(**f));
            let lock = called.find(|f| self.call[f.ix()] == Some(Call::Lock));
            let at = lock.or(library.iter().rfind(named)).copied();
            return Some(NotWork::Spin { at, by: program });
        }
        let runtime = library.iter().find(in_runtime).copied()?;
        let is_omp = |frame: FrameIx| {
            let runtime = self.runtime[frame.ix()];
            matches!(runtime, Some(Runtime::Libgomp | Runtime::Libomp))
        };
        // Without names inside of it, what called it tells: where the program has no tasks, threads
        // only wait in it between two regions, and at the end of one.
        let called = library.iter().rfind(|f| is_omp(**f) && self.is_named(**f));
        let is_lock = called.is_some_and(|f| self.call[f.ix()] == Some(Call::Lock));
        let is_wait = called.is_none_or(|f| self.is_at_barrier[f.ix()]);
        match is_lock || (is_omp(runtime) && is_wait && !self.has_omp_tasks) {
            true => Some(NotWork::Spin { at: called.copied(), by: program }),
            false => Some(NotWork::Runtime(runtime)),
        }
    }

    /// Whether a path's innermost function is called by a runtime of tasks, and the program's
    /// function that called that.
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

    /// The program's function that called what a thread at this path waits in; none: it has no
    /// name.
    pub fn caller(&self, path: PathIx) -> Option<FrameIx> {
        self.named_or_not(path).filter(|&caller| self.is_named(caller))
    }

    /// The same, with or without a name.
    fn named_or_not(&self, path: PathIx) -> Option<FrameIx> {
        let outer = (self.trace.frames_of(path)).skip_while(|frame| self.is_asked(*frame));
        let outer: Vec<FrameIx> = outer.collect();
        // What Python's interpreter does is for a function in Python.
        self.programs(self.without_interpreter(&outer))
    }

    /// Of the callers of the system or of a runtime the first that is the program's own: libraries
    /// that pass a call on say less. Without one, the first of all; none: it only began the thread.
    fn programs(&self, callers: &[FrameIx]) -> Option<FrameIx> {
        let is_start = |frame: FrameIx| self.layer[frame.ix()] == Layer::Start;
        let is_own = |frame: FrameIx| {
            self.layer[frame.ix()] == Layer::Program
                && !self.is_library[frame.ix()]
                && !self.takes_python_lock[frame.ix()]
                && self.runtime[frame.ix()] != Some(Runtime::Interpreter)
                && self.is_named(frame)
        };
        let mut inner = callers.iter().copied().take_while(|&frame| !is_start(frame));
        let first = callers.first().copied().filter(|&frame| !is_start(frame));
        inner.find(|&frame| is_own(frame)).or(first)
    }

    /// The program's own functions with names, innermost first, from the one that a thread began
    /// with, or that a runtime of tasks called: so of a region of OpenMP its part of it. And
    /// whether a runtime did. Go's threads have none: they go from one goroutine to the next.
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
        // clang puts a region with debug information into a function of its own, which its part
        // calls.
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

    /// All functions with names but those that begin a thread or stand for code without names (V8's
    /// of an interpreted function), innermost first: of a path that is all a runtime's these are
    /// all that is known. Go's threads go from one goroutine to the next. Nor those that only run
    /// the program's code, and what led to them.
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
        self.runtime[frame.ix()] == Some(Runtime::Interpreter)
            && calls::runs_code(&self.name[frame.ix()])
    }

    /// The program's own functions with names, innermost first; where there are some in Python,
    /// only these, and of these the user's.
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

    /// The runtime that a thread ran in at this path, the module's frame, and the function in which
    /// it spins.
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
        let is_end = |frame: &FrameIx| {
            calls::ends_python(self.trace.strings.get(self.trace.frames.function[frame.ix()]))
        };
        let mut collectors = (user.iter())
            .filter_map(|&frame| Some((Runtime::Collector(self.collector[frame.ix()]?), frame)));
        let collector = collectors.next().filter(|_| !user.iter().any(is_end));
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
