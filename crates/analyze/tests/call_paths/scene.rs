//! Traces of a few threads with samples, column by column.
use kasuri_model::{
    FrameIx, FrameKind, PathIx, Process, ProcessIx, SampleKind, SamplingChange, StrIx, Thread,
    ThreadIx, ThreadState, Time, Trace,
};

/// One process, whose threads are added one after the other.
pub struct Scene {
    pub trace: Trace,
}

impl Scene {
    /// From 0 to `end`.
    pub fn new(end: i64) -> Scene {
        let mut trace = Trace { span: Time(0)..Time(end), ..Trace::default() };
        let name = trace.strings.intern("program");
        trace.processes.push(Process { pid: 10, name, is_target: true, ..Process::default() });
        Scene { trace }
    }

    /// A thread with these states, each from its time to the next one's.
    pub fn thread(&mut self, states: &[(i64, ThreadState)]) -> ThreadIx {
        let t = &mut self.trace;
        let first = t.states.start.len() as u32;
        for &(start, state) in states {
            t.states.start.push(Time(start));
            t.states.state.push(state);
            t.states.cpu.push(0);
            t.states.by.push(ThreadIx::NONE);
        }
        let row = t.threads.len() as u32;
        t.threads.push(Thread {
            process: ProcessIx(0),
            tid: 10 + row as i32,
            alive: Time(states.first().map_or(0, |s| s.0))..t.span.end,
            states: first..t.states.start.len() as u32,
            ..Thread::default()
        });
        t.processes[0].threads = 0..row + 1;
        ThreadIx(row)
    }

    /// Names a thread.
    pub fn name(&mut self, thread: ThreadIx, name: &str) {
        let name = self.trace.strings.intern(name);
        self.trace.threads[thread.ix()].name = name;
    }

    /// A sample; those of a thread in order of time, threads in order.
    pub fn sample(&mut self, thread: ThreadIx, time: i64, kind: SampleKind, path: &[&str]) {
        let path = self.path(path);
        let s = &mut self.trace.samples;
        s.time.push(Time(time));
        s.thread.push(thread);
        s.cpu.push(0);
        s.kind.push(kind);
        s.is_complete.push(path.is_some());
        s.path.push(path);
    }

    /// Asked for one sample in so many ns of CPU time.
    pub fn period(&mut self, ns: u64) {
        self.trace.sampling.push(SamplingChange {
            source: "tick".into(),
            on: true,
            period_ns: ns,
            ..SamplingChange::default()
        });
    }

    /// The path with these functions, outermost first: `function@module`, `@module` without a name, or `function` of the program;
    /// `@file` or `@file:line` may follow a module.
    pub fn path(&mut self, functions: &[&str]) -> PathIx {
        let mut path = PathIx::NONE;
        for function in functions {
            let frame = self.frame(function);
            let paths = &self.trace.paths;
            let same = |&row: &usize| paths.caller[row] == path && paths.frame[row] == frame;
            path = match (0..paths.frame.len()).find(same) {
                Some(row) => PathIx(row as u32),
                None => {
                    self.trace.paths.caller.push(path);
                    self.trace.paths.frame.push(frame);
                    PathIx(self.trace.paths.frame.len() as u32 - 1)
                }
            };
        }
        path
    }

    fn frame(&mut self, text: &str) -> FrameIx {
        let (function, module) = text.split_once('@').unwrap_or((text, "/usr/bin/program"));
        let (module, file) = module.split_once('@').unwrap_or((module, ""));
        let (file, line) = file.split_once(':').unwrap_or((file, "0"));
        let line = line.parse().unwrap();
        let strings = &mut self.trace.strings;
        let module = strings.intern(module);
        let function = match function {
            "" => StrIx::NONE,
            name => strings.intern(name),
        };
        let file = match file {
            "" => StrIx::NONE,
            file => strings.intern(file),
        };
        let f = &mut self.trace.frames;
        let same = |&row: &usize| {
            f.function[row] == function && f.module[row] == module && f.line[row] == line
        };
        if let Some(row) = (0..f.function.len()).find(same) {
            return FrameIx(row as u32);
        }
        f.function.push(function);
        f.module.push(module);
        f.file.push(file);
        f.line.push(line);
        f.address.push(0);
        f.kind.push(match self.trace.strings.get(module) {
            "[kernel]" => FrameKind::Kernel,
            "[python]" => FrameKind::Jit,
            _ => FrameKind::Native,
        });
        FrameIx(self.trace.frames.function.len() as u32 - 1)
    }

    /// The trace, which keeps all rules.
    pub fn done(mut self) -> Trace {
        self.trace.info.kernel_source = "tracefs".into();
        assert_eq!(self.trace.broken_rules(), Vec::<String>::new());
        self.trace
    }
}
