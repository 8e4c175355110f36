//! A made-up recording of a solver with a barrier, a lock and an unbalanced loop, on four CPUs beside other programs.
//!
//! A small scheduler simulation, so that states, occupancy, wake-ups and slices agree with each other.
use super::*;
use kasuri_analyze::{OpenMp, OpenMpLoop, OpenMpRegion, OpenMpTimes, Replayed, Summary};
use kasuri_answers::document::Document;
use kasuri_model::SliceKind as K;

const CPUS: usize = 4;
const WORKERS: usize = 6;
const QUANTUM: i64 = 3_000_000;
/// Names of threads that are not the program's, with their processes' pid.
const OTHERS: [(&str, i32); 5] =
    [("kworker/1:2", 71), ("rcu_preempt", 17), ("sshd", 612), ("journald", 233), ("cc1plus", 4410)];

#[derive(Clone)]
enum Op {
    Begin(&'static str, K, u64, u16),
    End,
    Compute(i64),
    Sleep(i64),
    Disk(i64),
    Acquire,
    Release,
    Barrier,
    Instant(&'static str),
}

#[derive(Default)]
struct Actor {
    ops: std::collections::VecDeque<Op>,
    left: i64,
    wake_at: Option<i64>,
    cpu: usize,
    since: i64,
    open: Vec<(usize, u16)>,
    states: Vec<(i64, ThreadState, u16, ThreadIx)>,
    slices: Vec<(i64, i64, u16, &'static str, K, u64)>,
    instants: Vec<(i64, &'static str)>,
    done: bool,
}

struct Sim {
    now: i64,
    actors: Vec<Actor>,
    on: [Option<usize>; CPUS],
    queue: std::collections::VecDeque<usize>,
    occupancy: Vec<Vec<(i64, Option<usize>)>>,
    lock: Option<usize>,
    lock_queue: std::collections::VecDeque<usize>,
    arrived: Vec<usize>,
    wakeups: Vec<(i64, u32, u32)>,
}

/// About `n` slices; with options that show every panel.
pub fn make(n: u64) -> (Trace, Options<'static>) {
    let iterations = (n as usize / (WORKERS * 14)).max(3);
    let mut random = Random(7);
    let mut actors: Vec<Actor> = (0..WORKERS).map(|w| worker(w, iterations, &mut random)).collect();
    actors.extend((0..OTHERS.len()).map(|i| other(i, iterations, &mut random)));
    let n = actors.len();
    let mut sim = Sim {
        now: 0,
        actors,
        on: [None; CPUS],
        queue: Default::default(),
        occupancy: vec![vec![(0, None)]; CPUS],
        lock: None,
        lock_queue: Default::default(),
        arrived: Vec::new(),
        wakeups: Vec::new(),
    };
    (0..n).for_each(|a| sim.wake(a, None));
    while sim.actors[..WORKERS].iter().any(|a| !a.done) {
        sim.step();
    }
    (trace(sim), options())
}

fn worker(w: usize, iterations: usize, random: &mut Random) -> Actor {
    let mut ops = vec![Op::Begin("solve", K::Work, 0, 0)];
    if w == 0 {
        ops.extend([Op::Begin("read mesh", K::Io, 0x3, 1), Op::Disk(2_400_000), Op::End]);
    }
    for i in 0..iterations {
        ops.push(Op::Begin("time step", K::Work, 0, 1));
        ops.push(Op::Begin("assemble", K::Work, 0, 2));
        for _ in 0..3 {
            ops.extend([
                Op::Begin("element block", K::Work, 0, 3),
                Op::Compute(random.ns(90_000.0, 0.4)),
                Op::End,
            ]);
        }
        ops.push(Op::End);
        ops.push(Op::Begin("conjugate gradient", K::Work, 0, 2));
        for _ in 0..2 + (w * 2 + i) % 5 {
            ops.extend([
                Op::Begin("spmv", K::Work, 0, 3),
                Op::Compute(random.ns(160_000.0, 0.5)),
                Op::End,
            ]);
        }
        if i == iterations / 2 && w == 3 {
            ops.extend([
                Op::Begin("recover from divergence", K::Work, 0, 3),
                Op::Compute(700),
                Op::End,
            ]);
        }
        ops.push(Op::End);
        ops.extend([
            Op::Begin("residual lock", K::LockWait, 0x55d0_c0de_1040, 2),
            Op::Acquire,
            Op::End,
        ]);
        ops.push(Op::Begin("residual lock", K::LockHold, 0x55d0_c0de_1040, 4));
        ops.extend([Op::Compute(random.ns(40_000.0, 0.3)), Op::Release, Op::End]);
        ops.extend([Op::Begin("barrier", K::Barrier, 0x55d0_c0de_2080, 2), Op::Barrier, Op::End]);
        if w == 0 {
            ops.push(Op::Instant("step done"));
        }
        ops.push(Op::End);
    }
    ops.push(Op::End);
    Actor { ops: ops.into(), ..Actor::default() }
}

fn other(i: usize, iterations: usize, random: &mut Random) -> Actor {
    let (sleep, work) = if i == 4 { (9e6, 6e6) } else { (1.5e6, 6e4) };
    let ops = (0..iterations * 4)
        .flat_map(|_| [Op::Sleep(random.ns(sleep, 0.8)), Op::Compute(random.ns(work, 0.7))]);
    Actor { ops: ops.collect(), ..Actor::default() }
}

impl Sim {
    fn state(&mut self, a: usize, state: ThreadState, by: Option<usize>) {
        let by = by.map_or(ThreadIx::NONE, |b| ThreadIx(b as u32));
        let actor = &mut self.actors[a];
        actor.states.push((self.now, state, actor.cpu as u16, by));
    }

    fn wake(&mut self, a: usize, by: Option<usize>) {
        self.actors[a].wake_at = None;
        self.state(a, ThreadState::RunnableWoken, by);
        self.wakeups.push((self.now, by.map_or(u32::MAX, |b| b as u32), a as u32));
        self.queue.push_back(a);
    }

    fn off(&mut self, a: usize) {
        if let Some(cpu) = self.on.iter().position(|&on| on == Some(a)) {
            self.on[cpu] = None;
            self.occupancy[cpu].push((self.now, None));
        }
    }

    fn fill(&mut self) {
        while let (Some(cpu), Some(&a)) =
            (self.on.iter().position(Option::is_none), self.queue.front())
        {
            self.queue.pop_front();
            let own = self.actors[a].cpu;
            let cpu = if self.on[own].is_none() { own } else { cpu };
            self.on[cpu] = Some(a);
            (self.actors[a].cpu, self.actors[a].since) = (cpu, self.now);
            self.occupancy[cpu].push((self.now, Some(a)));
            self.state(a, ThreadState::Running, None);
        }
    }

    fn step(&mut self) {
        self.fill();
        let running: Vec<usize> = self.on.iter().flatten().copied().collect();
        for a in running {
            if self.actors[a].left == 0 {
                self.advance(a);
            }
        }
        self.fill();
        let ready = self.on.iter().flatten().any(|&a| self.actors[a].left == 0);
        if ready {
            return;
        }
        let mut next = i64::MAX;
        for &a in self.on.iter().flatten() {
            let actor = &self.actors[a];
            next = next.min(self.now + actor.left);
            if !self.queue.is_empty() {
                next = next.min((actor.since + QUANTUM).max(self.now));
            }
        }
        next = self.actors.iter().filter_map(|a| a.wake_at).fold(next, i64::min);
        let passed = next - self.now;
        self.now = next;
        for cpu in 0..CPUS {
            let Some(a) = self.on[cpu] else { continue };
            self.actors[a].left -= passed;
            if self.actors[a].left > 0
                && !self.queue.is_empty()
                && self.now - self.actors[a].since >= QUANTUM
            {
                let by = self.queue.front().copied();
                self.off(a);
                self.state(a, ThreadState::RunnablePreempted, by);
                self.queue.push_back(a);
            }
        }
        for a in 0..self.actors.len() {
            if self.actors[a].wake_at.is_some_and(|t| t <= self.now) {
                self.wake(a, None);
            }
        }
    }

    /// Lets `a` go on to its next operation that takes time.
    fn advance(&mut self, a: usize) {
        while let Some(op) = self.actors[a].ops.pop_front() {
            let now = self.now;
            match op {
                Op::Begin(name, kind, object, depth) => {
                    let actor = &mut self.actors[a];
                    actor.open.push((actor.slices.len(), depth));
                    actor.slices.push((now, now, depth, name, kind, object));
                }
                Op::End => {
                    let actor = &mut self.actors[a];
                    if let Some((slice, _)) = actor.open.pop() {
                        actor.slices[slice].1 = now;
                    }
                    // An annotation takes a little time, so slices of one depth never share an instant.
                    actor.left = 120;
                    return;
                }
                Op::Instant(name) => self.actors[a].instants.push((now, name)),
                Op::Compute(ns) => return self.actors[a].left = ns,
                Op::Sleep(ns) => return self.block(a, ThreadState::Sleeping, Some(ns)),
                Op::Disk(ns) => return self.block(a, ThreadState::DiskSleep, Some(ns)),
                Op::Acquire if self.lock.is_none() => self.lock = Some(a),
                Op::Acquire => {
                    self.lock_queue.push_back(a);
                    return self.block(a, ThreadState::Sleeping, None);
                }
                Op::Release => {
                    self.lock = self.lock_queue.pop_front();
                    if let Some(next) = self.lock {
                        self.wake(next, Some(a));
                    }
                }
                Op::Barrier if self.arrived.len() + 1 < WORKERS => {
                    self.arrived.push(a);
                    return self.block(a, ThreadState::Sleeping, None);
                }
                Op::Barrier => {
                    for other in std::mem::take(&mut self.arrived) {
                        self.wake(other, Some(a));
                    }
                }
            }
        }
        self.actors[a].done = true;
        self.block(a, ThreadState::Dead, None);
    }

    fn block(&mut self, a: usize, state: ThreadState, ns: Option<i64>) {
        self.off(a);
        self.state(a, state, None);
        self.actors[a].wake_at = ns.map(|ns| self.now + ns);
    }
}

fn trace(sim: Sim) -> Trace {
    let mut trace = Trace { span: Time(0)..Time(sim.now), ..Trace::default() };
    for (ix, actor) in sim.actors.iter().enumerate() {
        let first = trace.states.start.len() as u32;
        for &(t, state, cpu, by) in &actor.states {
            trace.states.start.push(Time(t));
            trace.states.state.push(state);
            trace.states.cpu.push(cpu);
            trace.states.by.push(by);
        }
        let states = first..trace.states.start.len() as u32;
        let slices = slices(&mut trace, ix as u32, &actor.slices, sim.now);
        for &(t, name) in &actor.instants {
            trace.instants.time.push(Time(t));
            trace.instants.thread.push(ThreadIx(ix as u32));
            let name = trace.strings.intern(name);
            trace.instants.name.push(name);
        }
        let name =
            if ix < WORKERS { format!("quake/{ix}") } else { OTHERS[ix - WORKERS].0.to_owned() };
        let (process, tid) = if ix < WORKERS {
            (0, 5000 + ix as i32)
        } else {
            (ix - WORKERS + 1, OTHERS[ix - WORKERS].1)
        };
        let count = |s: ThreadState| actor.states.iter().filter(|x| x.1 == s).count() as u32;
        let name = trace.strings.intern(&name);
        trace.threads.push(Thread {
            process: ProcessIx(process as u32),
            tid,
            name,
            alive: Time(0)..Time(sim.now),
            states,
            slice_levels: 5,
            slices,
            preemptions: count(ThreadState::RunnablePreempted),
            switches_out: count(ThreadState::Running),
            switches_in: count(ThreadState::Running),
            counted: None,
        });
    }
    processes(&mut trace);
    occupancy(&mut trace, &sim);
    extras(&mut trace, &sim);
    trace
}

fn slices(
    trace: &mut Trace,
    thread: u32,
    made: &[(i64, i64, u16, &'static str, K, u64)],
    end: i64,
) -> std::ops::Range<u32> {
    let mut sorted = made.to_vec();
    sorted.sort_by_key(|s| (s.0, s.2));
    let first = trace.slices.start.len() as u32;
    for (i, &(from, to, depth, name, kind, object)) in sorted.iter().enumerate() {
        let name = trace.strings.intern(name);
        let to = if to == from && kind != K::LockWait { end.min(from + 1) } else { to };
        super::slice(&mut trace.slices, thread, depth, name, kind, from..to.max(from));
        if let Some(last) = trace.slices.object.last_mut() {
            *last = object;
        }
        if i % 5 == 0 && depth == 1 {
            let key = trace.strings.intern("step");
            trace.args.slice.push(SliceIx(first + i as u32));
            trace.args.instant.push(InstantIx::NONE);
            trace.args.name.push(key);
            trace.args.value.push(ArgValue::Int(i as i64));
        }
    }
    first..trace.slices.start.len() as u32
}

fn processes(trace: &mut Trace) {
    let name = trace.strings.intern("quake");
    trace.processes.push(Process {
        pid: 5000,
        name,
        is_target: true,
        threads: 0..WORKERS as u32,
        ..Process::default()
    });
    for (i, (name, pid)) in OTHERS.iter().enumerate() {
        let name = trace.strings.intern(name);
        let threads = (WORKERS + i) as u32..(WORKERS + i + 1) as u32;
        trace.processes.push(Process { pid: *pid, name, threads, ..Process::default() });
    }
}

fn occupancy(trace: &mut Trace, sim: &Sim) {
    for rows in &sim.occupancy {
        let first = trace.occupancy.start.len() as u32;
        for (i, &(t, a)) in rows.iter().enumerate() {
            if rows.get(i + 1).is_some_and(|next| next.0 == t) {
                continue;
            }
            trace.occupancy.start.push(Time(t));
            trace.occupancy.thread.push(a.map_or(ThreadIx::NONE, |a| ThreadIx(a as u32)));
            trace.occupancy.idle.push(a.is_none());
        }
        trace.cpus.push(Cpu {
            recorded: true,
            occupancy: first..trace.occupancy.start.len() as u32,
            ..Cpu::default()
        });
    }
}

fn extras(trace: &mut Trace, sim: &Sim) {
    for &(t, waker, wakee) in &sim.wakeups {
        trace.wakeups.time.push(Time(t));
        trace.wakeups.waker.push(ThreadIx(waker));
        trace.wakeups.wakee.push(ThreadIx(wakee));
        trace.wakeups.cpu.push(0);
        trace.wakeups.latency.push(Duration(0));
    }
    let mut counter = Counter {
        name: trace.strings.intern("residual"),
        process: ProcessIx(0),
        ..Counter::default()
    };
    let steps: Vec<Time> = trace.instants.time.clone();
    for (i, t) in steps.iter().enumerate() {
        counter.time.push(*t);
        counter.value.push(100.0 * (-0.05 * i as f64).exp() + (i % 7) as f64);
    }
    trace.counters.push(counter);
    let flow = trace.strings.intern("halo exchange");
    for (i, t) in steps.iter().enumerate().step_by(4) {
        trace.flows.id.push(i as u64);
        trace.flows.name.push(flow);
        trace.flows.from_time.push(*t);
        trace.flows.from_thread.push(ThreadIx(0));
        trace.flows.to_time.push(Time((t.0 + 300_000).min(sim.now)));
        trace.flows.to_thread.push(ThreadIx(1 + (i % 5) as u32));
    }
    let at = |part: i64| Time(sim.now / 100 * part);
    trace.losses.push(Loss {
        cause: "kernel buffer overrun".into(),
        cpu: Some(2),
        thread: ThreadIx::NONE,
        when: at(62)..at(64),
        count: 1234,
        remedy: "record with --buffer-mb 32".into(),
    });
    trace.losses.push(Loss {
        cause: "ring full".into(),
        cpu: None,
        thread: ThreadIx(4),
        when: at(30)..at(31),
        count: 17,
        remedy: "record with --policy grow".into(),
    });
    trace.info = Info {
        command: ["./quake", "--steps", "40"].map(String::from).to_vec(),
        root_pid: 5000,
        exit_status: Some(0),
        host: "example".into(),
        kernel: "6.18.0".into(),
        machine: "x86_64".into(),
        cpu_model: "made-up CPU".into(),
        kernel_source: "tracefs".into(),
        kernel_clock: "x86-tsc".into(),
        missing: vec!["interrupts were not recorded: add --irq to see them".into()],
        recorder: "kasuri 0.1.0".into(),
        ..Info::default()
    };
    trace.origin_realtime_ns = 1_795_000_000_000_000_000;
    (trace.n_kernel_events, trace.n_annotation_events) =
        (sim.wakeups.len() as u64 * 3, trace.slices.start.len() as u64 * 2);
}

fn options() -> Options<'static> {
    let summary = serde_json::json!({
        "wall_ns": 123_456_789, "n_cpus": 4, "cpus_used": 4, "cpu_use": 0.87,
        "known": {"switches": true, "wakeups": true, "other_processes": true},
        "switches": 1200, "preemptions": 30, "migrations": 12,
        "hints": [{"kind": "imbalance", "cost_ns": 9_000_000, "text": "imbalance in spmv: thread 3 has the most work", "command": "kasuri stat --section imbalance quake.kasuri"}],
        "imbalance": [{
            "name": "spmv", "threads": 4, "instances": 120, "imbalance": 0.31, "cost_ns": 9_000_000.0,
            "worst_tid": 5003, "worst_thread": "quake/3",
        }],
        "tracing": {"cost_ns": 120_000, "share": 0.002, "recorder_cpu_ns": 4_000_000, "unpriced": 0},
    });
    Options {
        headline: "you got 3.48 of 4 CPUs: 0.31 lost to imbalance in spmv".into(),
        summary: Some(summary),
        panels: vec![openmp()],
        ..Options::default()
    }
}

/// The tab of a region whose barriers are uneven, and of a loop that another schedule makes shorter.
fn openmp() -> Document {
    let region = |line: u32, name: &str, times| OpenMpRegion {
        name: format!("parallel {name}:{line}"),
        place: Some(format!("solver.c:{line}")),
        pid: 5000,
        times,
    };
    let main = OpenMpTimes {
        count: 3,
        threads: 4,
        wall_ns: 1_300_000_000,
        work_ns: 3_480_000_000,
        barrier_ns: 1_712_000_000,
        imbalance: 0.332,
        busiest_ns: 1_300_000_000,
        even_saves_ns: 433_000_000,
    };
    let spmv = OpenMpTimes {
        count: 120,
        threads: 4,
        wall_ns: 880_000_000,
        work_ns: 3_000_000_000,
        barrier_ns: 400_000_000,
        imbalance: 0.31,
        busiest_ns: 880_000_000,
        even_saves_ns: 270_000_000,
    };
    let guided =
        Replayed { schedule: "guided".into(), wall_ns: 640_000_000, saves_ns: 240_000_000 };
    let spmv_loop = OpenMpLoop {
        name: "for dynamic spmv:22".into(),
        place: Some("solver.c:22".into()),
        region: "parallel spmv:21".into(),
        pid: 5000,
        times: spmv.clone(),
        chunks: 4800,
        iterations: 480_000,
        schedules: vec![guided],
        refused: None,
    };
    let regions = vec![region(8, "main", main), region(21, "spmv", spmv)];
    let openmp = Some(OpenMp { regions, loops: vec![spmv_loop] });
    kasuri_answers::openmp::openmp(&Summary { openmp, ..Summary::default() }, 30)
}
