//! What a thread at a path waits for, and who asks for it.
use super::Frames;
use super::kinds::{Layer, Runtime, module_name};
use crate::call_paths::calls::{self, Call, Channel};
use kasuri_model::{FrameIx, FrameKind, PathIx, StrIx};

impl Frames<'_> {
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
        if self.waits_for_tasks(path) {
            // Also until the thread that woke it has let go of the pool's lock.
            return Call::Condition;
        }
        let inner: Vec<FrameIx> = self.asked(path).collect();
        match inner.iter().any(|frame| self.is_built_lock[frame.ix()]) {
            // Not the condition by which it is built.
            true => Call::Lock,
            false if inner.iter().any(|frame| self.is_built_sleep[frame.ix()]) => Call::Sleep,
            false if self.waits_for_python_lock(path) => Call::Lock,
            false if self.waits_for_own_post(path) => Call::Lock,
            false => inner.into_iter().find_map(said).unwrap_or_default(),
        }
    }

    /// Whether a semaphore or a condition is used as a lock: the code that waits for it ends such
    /// waits, and threads do not go on together then, as at a barrier. Two threads seem to take
    /// turns also at a barrier, where one function waits and signals; at a lock one enters and
    /// another leaves.
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

    /// The function that waits at this path for a semaphore or a condition which the same code
    /// posts: the functions that called both are one, or are called by one. Who waits for what
    /// another posts has it in other code.
    pub(super) fn asks_by_post(&self, path: PathIx) -> Option<u32> {
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

    /// The named functions around a call of a library: the program's that made it, and that one's
    /// caller.
    pub(super) fn callers_of(
        &self,
        path: PathIx,
        is_it: fn(&str) -> bool,
    ) -> impl Iterator<Item = FrameIx> + '_ {
        let mut calls = self.called(path);
        let is_one = calls.any(|frame| is_it(&self.name[frame.ix()]));
        let outer = self.trace.frames_of(path).skip_while(|frame| self.is_called(*frame));
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
            || (self.takes_python_lock[first.ix()] && !takes)
    }

    /// Whether a thread at this path is of a library's pool and waits for something to do.
    fn waits_for_tasks(&self, path: PathIx) -> bool {
        let outer = self.trace.frames_of(path).skip_while(|frame| self.is_asked(*frame));
        let outer = outer.map(|frame| &*self.name[frame.ix()]);
        calls::waits_for_tasks(outer.skip_while(|name| name.starts_with("std::")))
    }

    /// Whether a thread at this path is a runtime's own, which waits for something to do: it is of
    /// a library's pool, or all of it is a Java machine's, or it has no goroutine, or watches over
    /// those that have.
    pub fn is_idle(&self, path: PathIx) -> bool {
        if self.waits_for_tasks(path) {
            return true;
        }
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

    /// The function that stands for CPython's global interpreter lock, if that is waited for at
    /// this path.
    pub fn gil(&self, path: PathIx) -> Option<FrameIx> {
        self.waits_for_gil(path).and(self.gil)
    }

    /// The function that waits for it at this path.
    pub(super) fn waits_for_gil(&self, path: PathIx) -> Option<FrameIx> {
        self.asked(path).find(|frame| self.is_gil[frame.ix()])
    }

    /// The outermost function of a Java machine's with which a thread at this path asks for a
    /// monitor, or to sleep.
    pub(super) fn waits_for_monitor(&self, path: PathIx) -> Option<FrameIx> {
        let asks = |frame: &FrameIx| {
            let is_built = self.is_built_lock[frame.ix()] || self.is_built_sleep[frame.ix()];
            is_built && self.runtime[frame.ix()] == Some(Runtime::Interpreter)
        };
        self.asked(path).filter(asks).last().filter(|frame| !self.is_gil[frame.ix()])
    }

    /// The function that asks for what is waited for at this path; where it has no name, its
    /// program or library.
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

    /// The kind of file at which a thread waits, as the kernel's functions say; without root they
    /// are not seen.
    pub fn channel(&self, path: PathIx) -> Channel {
        let f = &self.trace.frames;
        let kernel = (self.trace.frames_of(path))
            .take_while(|frame| f.kind[frame.ix()] == FrameKind::Kernel)
            .map(|frame| calls::channel(self.trace.strings.get(f.function[frame.ix()])));
        let mut known = kernel.filter(|&channel| channel != Channel::Unknown);
        known.next().unwrap_or_default()
    }

    /// Whether a thread at this path waits for what another thread does: at a futex, as the
    /// functions of the kernel or of a library say, or in such a call.
    pub fn waits_for_threads(&self, path: PathIx) -> bool {
        let name = |frame: FrameIx| self.trace.frames.function[frame.ix()];
        let mut called = self.called(path);
        let call = self.call(path);
        let at_futex = called.any(|frame| self.trace.strings.get(name(frame)).contains("futex"));
        (at_futex && call != Call::Sleep) || matches!(call, Call::Lock | Call::Condition)
    }

    /// What is the lock for which a thread waits at this path, where that is known: the name of a
    /// file, or the function of an allocator's that stands for all of its functions.
    pub fn lock(&self, path: PathIx) -> StrIx {
        let is_allocator = |frame: FrameIx| self.runtime[frame.ix()] == Some(Runtime::Allocator);
        let mut called = self.called(path);
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

    /// Whether a library's function asks for a lock.
    pub fn asks_for_lock(&self, frame: FrameIx) -> bool {
        self.call[frame.ix()] == Some(Call::Lock)
    }

    /// Whether a thread waits at a barrier at this path.
    pub fn is_barrier(&self, path: PathIx) -> bool {
        self.called(path).any(|frame| self.is_at_barrier[frame.ix()])
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
        self.is_in_kernel(path, calls::sends_signal)
    }

    /// Whether it copies a page for the thread there, which the thread writes and processes share.
    pub fn copies_page(&self, path: PathIx) -> bool {
        self.is_in_kernel(path, calls::copies_page)
    }

    fn is_in_kernel(&self, path: PathIx, is_it: fn(&str) -> bool) -> bool {
        let f = &self.trace.frames;
        let mut kernel = (self.trace.frames_of(path))
            .take_while(|frame| f.kind[frame.ix()] == FrameKind::Kernel)
            .map(|frame| self.trace.strings.get(f.function[frame.ix()]));
        kernel.any(is_it)
    }

    /// What was asked of the system at a path, and the parts of a library's lock in which it was,
    /// innermost first.
    fn asked(&self, path: PathIx) -> impl Iterator<Item = FrameIx> + '_ {
        self.trace.frames_of(path).take_while(|frame| self.is_asked(*frame))
    }

    pub(super) fn is_asked(&self, frame: FrameIx) -> bool {
        self.layer[frame.ix()] == Layer::System || self.is_inside(frame)
    }

    /// What the program's own code called at a path: the system and libraries, innermost first.
    fn called(&self, path: PathIx) -> impl Iterator<Item = FrameIx> + '_ {
        self.trace.frames_of(path).take_while(|frame| self.is_called(*frame))
    }

    pub(super) fn is_called(&self, frame: FrameIx) -> bool {
        self.layer[frame.ix()] == Layer::System || self.is_library[frame.ix()]
    }

    fn is_inside(&self, frame: FrameIx) -> bool {
        self.is_inside_a_lock[frame.ix()]
    }
}
