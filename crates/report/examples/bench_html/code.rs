//! A made-up program that nobody annotated: threads that run and wait, and samples of the code that they were in.
use super::*;

/// From one sample of a running thread to the next, ns of its CPU time.
const PERIOD: i64 = 1_000_000;
const LONG: &str = "std::__detail::_Map_base<std::basic_string<char>, std::pair<std::basic_string<char> const, std::vector<mesh::Element<double, 3> > >, std::allocator<std::pair<std::basic_string<char> const, std::vector<mesh::Element<double, 3> > > >, std::__detail::_Select1st>::operator[](std::basic_string<char> const&)";

/// Frames by kind and name, and the tree that grows as paths are taken.
struct Code {
    rows: std::collections::HashMap<(u32, u32), PathIx>,
    /// Chains of frames, outermost first, that threads run, and those that they wait in.
    runs: Vec<Vec<u32>>,
    waits: Vec<Vec<u32>>,
}

/// `n` samples of threads that ran, and one for each wait.
pub fn make(n: u64, threads: u32) -> Trace {
    let mut trace = Trace::default();
    let mut random = Random(20_261_123);
    let mut code = Code::new(&mut trace, &mut random);
    let process = trace.strings.intern("solver");
    let mut end = 0;
    for thread in 0..threads {
        let name = trace.strings.intern(&format!("solver/{thread}"));
        let first = trace.states.start.len() as u32;
        let now = code.live(&mut trace, &mut random, thread, n / u64::from(threads));
        trace.threads.push(Thread {
            process: ProcessIx(0),
            tid: 1000 + thread as i32,
            name,
            alive: Time(0)..Time(now),
            states: first..trace.states.start.len() as u32,
            ..Thread::default()
        });
        end = end.max(now);
    }
    trace.processes.push(Process {
        pid: 1000,
        name: process,
        is_target: true,
        threads: 0..threads,
        ..Process::default()
    });
    trace.span = Time(0)..Time(end);
    trace.info.command = vec!["./solver".into(), "--mesh".into(), "large.msh".into()];
    trace.info.root_pid = 1000;
    trace
}

impl Code {
    fn new(trace: &mut Trace, random: &mut Random) -> Code {
        let mut frame = |name: &str, module: &str, line: u32, kind: FrameKind| {
            let file = match kind {
                FrameKind::Native | FrameKind::Inlined if !name.is_empty() => {
                    trace.strings.intern("/home/dev/solver/src/solve.cpp")
                }
                _ => StrIx::NONE,
            };
            let module = trace.strings.intern(module);
            let frames = &mut trace.frames;
            frames.function.push(match name {
                "" => StrIx::NONE,
                name => trace.strings.intern(name),
            });
            frames.module.push(module);
            frames.file.push(file);
            frames.line.push(if file.is_some() { line } else { 0 });
            frames.address.push(if name.is_empty() { 0x1_2340 + u64::from(line) } else { 0 });
            frames.kind.push(kind);
            frames.kind.len() as u32 - 1
        };
        use FrameKind::{Inlined, Interpreted, Jit, Kernel, Native};
        let start = frame("_start", "/usr/bin/solver", 0, Native);
        let main = frame("main", "/usr/bin/solver", 12, Native);
        let worker = frame("worker_loop(int)", "/usr/bin/solver", 40, Native);
        let chain: Vec<u32> = (0..24)
            .map(|i| frame(&format!("visit_{i:02}"), "/usr/lib/libmesh.so.3", 100 + i, Native))
            .collect();
        let leaves: Vec<u32> = (0..200)
            .map(|i| match i % 10 {
                0 => frame(LONG, "/usr/bin/solver", 300 + i, Inlined),
                1 => frame("", "/usr/lib/libfast.so.1", i, Native),
                2 => frame(&format!("jit_kernel_{i}"), "", i, Jit),
                3 => frame(&format!("step (solve.py:{i})"), "solve.py", i, Interpreted),
                4 => frame("clear_page_erms", "[kernel]", i, Kernel),
                5 | 6 => frame(
                    "dot(double const*, double const*)",
                    "/usr/bin/solver",
                    500 + i % 3,
                    Inlined,
                ),
                _ => frame(&format!("kernel_{i}"), "/usr/bin/solver", 600 + i, Native),
            })
            .collect();
        let lock = frame("pthread_mutex_lock", "/usr/lib/libc.so.6", 0, Native);
        let read = frame("read", "/usr/lib/libc.so.6", 0, Native);
        let futex = frame("futex_wait_queue", "[kernel]", 0, Kernel);
        let disk = frame("folio_wait_bit_common", "[kernel]", 0, Kernel);
        let mut pick = |most: usize| (random.unit() * random.unit() * most as f64) as usize;
        let runs = (0..3000)
            .map(|i| {
                let mut path = vec![start, main, if i % 3 == 0 { worker } else { chain[0] }];
                let from = pick(4);
                path.extend((0..pick(25)).map(|d| chain[(from + d) % chain.len()]));
                path.push(leaves[pick(leaves.len())]);
                path
            })
            .collect();
        let waits = vec![
            vec![start, main, worker, lock, futex],
            vec![start, main, chain[0], chain[1], read, disk],
            vec![start, main, worker, chain[3], lock, futex],
        ];
        Code { rows: Default::default(), runs, waits }
    }

    fn path(&mut self, trace: &mut Trace, chain: &[u32]) -> PathIx {
        let mut row = PathIx::NONE;
        for &frame in chain {
            let next = PathIx(trace.paths.frame.len() as u32);
            row = *self.rows.entry((row.0, frame)).or_insert_with(|| {
                trace.paths.caller.push(row);
                trace.paths.frame.push(FrameIx(frame));
                next
            });
        }
        row
    }

    /// One thread until it has `n` samples of running; gives its last instant.
    fn live(&mut self, trace: &mut Trace, random: &mut Random, thread: u32, n: u64) -> i64 {
        let (mut now, mut ran, mut taken) = (0, 0, 0);
        let state = |trace: &mut Trace, at: i64, state: ThreadState, by: u32| {
            trace.states.start.push(Time(at));
            trace.states.state.push(state);
            trace.states.cpu.push(thread as u16 % 2);
            trace.states.by.push(ThreadIx(by));
        };
        let sample = |trace: &mut Trace, at: i64, kind: SampleKind, path: PathIx| {
            let samples = &mut trace.samples;
            samples.time.push(Time(at));
            samples.thread.push(ThreadIx(thread));
            samples.cpu.push(thread as u16 % 2);
            samples.kind.push(kind);
            samples.is_complete.push(samples.time.len() % 45 != 7);
            samples.path.push(path);
        };
        while taken < n {
            state(trace, now, ThreadState::Running, u32::MAX);
            let length = random.ns(9_000_000.0, 0.9);
            let mut left = length;
            // The program goes from phase to phase: other code, another depth.
            while ran + left >= PERIOD && taken < n {
                left -= PERIOD - ran;
                ran = 0;
                let phase = (now / 200_000_000) as usize * 40;
                let at =
                    (phase + (random.unit() * random.unit() * 300.0) as usize) % self.runs.len();
                let chain = self.runs[at].clone();
                let path = self.path(trace, &chain);
                sample(trace, now + length - left, SampleKind::OnCpu, path);
                taken += 1;
            }
            ran += left;
            now += length;
            let chain = self.waits[(random.unit() * 3.0) as usize].clone();
            let disk = chain.len() == 6;
            let path = self.path(trace, &chain);
            sample(trace, now, SampleKind::Blocked, path);
            now += 1_000;
            let sleep = if disk { ThreadState::DiskSleep } else { ThreadState::Sleeping };
            state(trace, now, sleep, u32::MAX);
            now += random.ns(4_000_000.0, 1.0);
            let waker = if disk { u32::MAX } else { (thread + 1) % 2 };
            state(trace, now, ThreadState::RunnableWoken, waker);
            now += random.ns(20_000.0, 0.5);
        }
        now
    }
}
