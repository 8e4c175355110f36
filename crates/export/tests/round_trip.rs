//! Recordings -> our exports -> our imports: what both sides hold comes back, to the nanosecond.
//!
//! The recordings are those of a small machine whose threads are born, work, wait, wake each other and die, on random CPUs.
use kasuri_base::annotation::{ArgType, Kind, WaitKind};
use kasuri_import::{File, Options, load};
use kasuri_model::input::{Annotation, Event, KnownThread, Setup, What};
use kasuri_model::{
    AnnotationVec, ArgValue, Input, SliceKind, StrIx, Strings, ThreadIx, ThreadState, Time, Trace,
};
use proptest::prelude::*;

const PID: i32 = 100;
const END: i64 = 100_000;

#[derive(Clone, Copy, Debug)]
struct Step {
    wait: i64,
    cpu: usize,
    thread: usize,
    action: u8,
}

struct Machine {
    now: i64,
    strings: Strings,
    on_cpu: Vec<Option<usize>>,
    state: Vec<ThreadState>,
    cpu_of: Vec<u16>,
    events: Vec<Vec<Event>>,
    streams: Vec<AnnotationVec>,
    /// Depth of open slices, and locks held, of each thread.
    depth: Vec<usize>,
    held: Vec<Option<u64>>,
    flows: u64,
}

fn tid(thread: usize) -> i32 {
    PID + thread as i32
}

impl Machine {
    /// The first threads run from the start; the machine's others are born later.
    fn new(n_cpus: usize) -> Machine {
        let mut machine = Machine {
            now: 0,
            strings: Strings::default(),
            on_cpu: (0..n_cpus).map(Some).collect(),
            state: vec![ThreadState::Running; n_cpus],
            cpu_of: (0..n_cpus as u16).collect(),
            events: vec![Vec::new(); n_cpus],
            streams: Vec::new(),
            depth: Vec::new(),
            held: Vec::new(),
            flows: 0,
        };
        (0..n_cpus).for_each(|thread| machine.add_stream(thread));
        // A first event on each CPU says which thread is on it: a wake-up of a thread that runs.
        for cpu in 0..n_cpus {
            machine.wake(cpu, cpu, false);
        }
        machine
    }

    fn add_stream(&mut self, thread: usize) {
        self.streams.push(AnnotationVec { pid: PID, tid: tid(thread), ..AnnotationVec::default() });
        self.depth.push(0);
        self.held.push(None);
    }

    fn name(&mut self, thread: usize) -> StrIx {
        self.strings.intern(&format!("worker {thread}"))
    }

    fn emit(&mut self, cpu: usize, in_interrupt: bool, what: What) {
        let context = self.on_cpu[cpu].map_or(0, tid);
        self.events[cpu].push(Event { time: Time(self.now), context, in_interrupt, what });
    }

    fn wake(&mut self, cpu: usize, thread: usize, in_interrupt: bool) {
        let (tid, comm) = (tid(thread), self.name(thread));
        let queue = i32::from(self.cpu_of[thread]);
        let what = What::Waking { tid, comm, cpu: queue, in_softirq: false };
        self.emit(cpu, in_interrupt, what);
    }

    fn annotate(&mut self, thread: usize, kind: Kind, aux: u16, name: &str, a: u64) {
        let name = match name {
            "" => StrIx::NONE,
            name => self.strings.intern(name),
        };
        self.streams[thread].events.push(Annotation {
            time: Time(self.now),
            kind: kind as u8,
            aux,
            name,
            a,
            b: 0,
        });
    }

    fn step(&mut self, step: Step) {
        self.now += step.wait;
        let cpu = step.cpu % self.on_cpu.len();
        let thread = step.thread % self.state.len();
        match step.action {
            0..=2
                if matches!(self.state[thread], ThreadState::Sleeping | ThreadState::DiskSleep) =>
            {
                // Idle CPUs wake by interrupts only.
                let in_interrupt = step.action == 2 || self.on_cpu[cpu].is_none();
                self.wake(cpu, thread, in_interrupt);
                self.state[thread] = ThreadState::RunnableWoken;
            }
            3 if self.state.len() < 12 => self.fork(cpu),
            4..=9 => {
                if let Some(thread) = self.on_cpu[cpu] {
                    self.work(thread, step);
                }
            }
            action => self.switch(cpu, thread, action),
        }
    }

    fn fork(&mut self, cpu: usize) {
        if self.on_cpu[cpu].is_none() {
            return;
        }
        let child = self.state.len();
        self.state.push(ThreadState::RunnableWoken);
        self.cpu_of.push(cpu as u16);
        self.add_stream(child);
        let comm = self.name(child);
        let what =
            What::Fork { parent: -1, child: tid(child), comm, pid: None, same_process: Some(true) };
        self.emit(cpu, false, what);
        self.wake(cpu, child, false);
    }

    fn switch(&mut self, cpu: usize, thread: usize, action: u8) {
        use ThreadState::*;
        let ready = matches!(self.state[thread], RunnableWoken | RunnablePreempted);
        let (prev, next) = (self.on_cpu[cpu], ready.then_some(thread));
        if prev == next {
            return;
        }
        let mut left_as = [Sleeping, DiskSleep, RunnablePreempted][usize::from(action % 3)];
        if let Some(prev) = prev
            && action == 15
            && self.depth[prev] == 0
            && self.held[prev].is_none()
        {
            left_as = Dead;
        }
        let prev_comm = prev.map_or(StrIx::NONE, |t| self.name(t));
        let next_comm = next.map_or(StrIx::NONE, |t| self.name(t));
        let what = What::Switch {
            prev: prev.map_or(0, tid),
            prev_comm,
            left_as,
            next: next.map_or(0, tid),
            next_comm,
        };
        self.emit(cpu, false, what);
        if let Some(prev) = prev {
            self.state[prev] = left_as;
        }
        if let Some(next) = next {
            self.state[next] = Running;
            self.cpu_of[next] = cpu as u16;
        }
        self.on_cpu[cpu] = next;
    }

    fn work(&mut self, thread: usize, step: Step) {
        let lock = 0x7000 + step.cpu as u64 * 64;
        match step.action {
            4 => {
                self.annotate(
                    thread,
                    Kind::Begin,
                    0,
                    ["solve", "time \"q\"\n", "絣"][step.cpu % 3],
                    0,
                );
                self.depth[thread] += 1;
                self.annotate(thread, Kind::Arg, ArgType::I64 as u16, "row", -5i64 as u64);
                self.annotate(thread, Kind::Arg, ArgType::F64 as u16, "x", 1.25f64.to_bits());
            }
            5 if self.depth[thread] > 0 => {
                self.annotate(thread, Kind::End, 0, "", 0);
                self.depth[thread] -= 1;
            }
            6 => {
                let kind =
                    [WaitKind::Barrier, WaitKind::Join, WaitKind::Cond, WaitKind::Io][step.cpu % 4];
                self.annotate(thread, Kind::WaitBegin, kind as u16, "sync", lock);
                self.now += 3;
                self.annotate(thread, Kind::WaitEnd, kind as u16, "sync", lock);
            }
            7 => match self.held[thread].take() {
                Some(lock) => self.annotate(thread, Kind::LockReleased, 0, "mutex", lock),
                None => {
                    self.annotate(thread, Kind::LockRequest, 0, "mutex", lock);
                    self.now += 2;
                    self.annotate(thread, Kind::LockAcquired, 0, "mutex", lock);
                    self.held[thread] = Some(lock);
                }
            },
            8 => {
                self.annotate(thread, Kind::Instant, 0, "point", 0);
                self.annotate(thread, Kind::Counter, 0, "queue", (step.cpu as f64 + 0.5).to_bits());
            }
            _ => {
                let kind = if step.cpu.is_multiple_of(2) { Kind::FlowOut } else { Kind::FlowIn };
                self.flows += u64::from(kind == Kind::FlowOut);
                self.annotate(thread, kind, 0, "message", self.flows);
            }
        }
    }

    fn trace(mut self) -> Trace {
        let known = (0..self.on_cpu.len()).map(|thread| KnownThread {
            time: Time(0),
            pid: PID,
            tid: tid(thread),
            ppid: 1,
            comm: format!("worker {thread}"),
        });
        let known = known.collect();
        let setup = Setup {
            span: Time(0)..Time(self.now.max(END)),
            n_cpus: self.on_cpu.len(),
            known,
            keeps_events: true,
            ..Setup::default()
        };
        self.streams.retain(|s| !s.events.is_empty());
        let input =
            Input { setup, strings: self.strings, cpus: self.events, streams: self.streams };
        let mut trace = input.build().unwrap();
        trace.origin_monotonic_ns = 7_000_000_000_123;
        trace.info.recorder = "kasuri test".into();
        trace.info.kernel = "6.18.0".into();
        trace
    }
}

fn machine() -> impl Strategy<Value = (usize, Vec<Step>)> {
    let step = (1i64..90, 0usize..4, 0usize..12, 0u8..16)
        .prop_map(|(wait, cpu, thread, action)| Step { wait, cpu, thread, action });
    (1usize..4, prop::collection::vec(step, 1..300))
}

fn recorded((n_cpus, steps): (usize, Vec<Step>)) -> Trace {
    let mut machine = Machine::new(n_cpus);
    steps.into_iter().for_each(|step| machine.step(step));
    machine.trace()
}

fn imported(bytes: &[u8]) -> Trace {
    let file = File { name: "round trip", bytes };
    let trace = load(&[file], &Options::default()).unwrap();
    let problems = trace.broken_rules();
    assert!(problems.is_empty(), "{problems:?}");
    trace
}

fn through_perfetto(trace: &Trace) -> Trace {
    let mut out = Vec::new();
    kasuri_export::perfetto::write(trace, &mut out).unwrap();
    imported(&out)
}

fn through_chrome(trace: &Trace) -> Trace {
    let mut out = Vec::new();
    kasuri_export::chrome::write(trace, &mut out).unwrap();
    imported(&out)
}

fn who(trace: &Trace, thread: ThreadIx) -> i32 {
    trace.threads.get(thread.ix()).map_or(-1, |t| t.tid)
}

/// Every state: thread, start, state, CPU, by whom.
fn states(trace: &Trace) -> Vec<(i32, i64, ThreadState, u16, i32)> {
    let mut rows = Vec::new();
    for thread in &trace.threads {
        for i in thread.states.clone().map(|i| i as usize) {
            let s = &trace.states;
            rows.push((thread.tid, s.start[i].0, s.state[i], s.cpu[i], who(trace, s.by[i])));
        }
    }
    rows
}

fn lives(trace: &Trace) -> Vec<(i32, i32, i64, i64)> {
    let pid = |t: &kasuri_model::Thread| trace.processes[t.process.ix()].pid;
    (trace.threads.iter()).map(|t| (pid(t), t.tid, t.alive.start.0, t.alive.end.0)).collect()
}

fn occupancy(trace: &Trace) -> Vec<(usize, i64, i32, bool)> {
    let mut rows = Vec::new();
    for (cpu, row) in trace.cpus.iter().enumerate() {
        for i in row.occupancy.clone().map(|i| i as usize) {
            let o = &trace.occupancy;
            rows.push((cpu, o.start[i].0, who(trace, o.thread[i]), o.idle[i]));
        }
    }
    rows
}

fn wakeups(trace: &Trace) -> Vec<(i64, i32, i32, u16, i64)> {
    let w = &trace.wakeups;
    let row = |i: usize| {
        (w.time[i].0, who(trace, w.waker[i]), who(trace, w.wakee[i]), w.cpu[i], w.latency[i].0)
    };
    (0..w.time.len()).map(row).collect()
}

type Slice = (i32, i64, i64, String, u16, SliceKind, u64, Vec<String>);

/// Every slice with its arguments.
fn slices(trace: &Trace) -> Vec<Slice> {
    let s = &trace.slices;
    let row = |i: usize| {
        let a = &trace.args;
        let args = (0..a.name.len()).filter(|&n| a.slice[n].ix() == i && a.slice[n].is_some());
        let args = args.map(|n| {
            let value = match a.value[n] {
                ArgValue::Int(v) => v.to_string(),
                ArgValue::Uint(v) => v.to_string(),
                ArgValue::Float(v) => v.to_string(),
                ArgValue::Str(v) => trace.strings.get(v).to_owned(),
            };
            format!("{}={value}", trace.strings.get(a.name[n]))
        });
        // That an end was not seen is told as an argument.
        let args = args.filter(|a| !a.starts_with("not seen=")).collect();
        let name = trace.strings.get(s.name[i]).to_owned();
        (
            who(trace, s.thread[i]),
            s.start[i].0,
            s.end[i].0,
            name,
            s.depth[i],
            s.kind[i],
            s.object[i],
            args,
        )
    };
    let mut rows: Vec<Slice> = (0..s.start.len()).map(row).collect();
    // Threads may stand in another order: some exports do not say when they were born.
    rows.sort_by_key(|r| r.0);
    rows
}

fn points(trace: &Trace) -> Vec<(i64, i32, String)> {
    let p = &trace.instants;
    let row =
        |i: usize| (p.time[i].0, who(trace, p.thread[i]), trace.strings.get(p.name[i]).to_owned());
    let mut rows: Vec<_> = (0..p.time.len()).map(row).collect();
    rows.sort_by_key(|r| (r.1, r.0));
    rows
}

fn counters(trace: &Trace) -> Vec<(String, Vec<i64>, Vec<f64>)> {
    let row = |c: &kasuri_model::Counter| {
        let name = trace.strings.get(c.name).to_owned();
        (name, c.time.iter().map(|t| t.0).collect(), c.value.clone())
    };
    trace.counters.iter().map(row).collect()
}

fn arrows(trace: &Trace) -> Vec<(i64, i32, i64, i32, String)> {
    let f = &trace.flows;
    let row = |i: usize| {
        let name = trace.strings.get(f.name[i]).to_owned();
        (
            f.from_time[i].0,
            who(trace, f.from_thread[i]),
            f.to_time[i].0,
            who(trace, f.to_thread[i]),
            name,
        )
    };
    let mut rows: Vec<_> = (0..f.id.len()).map(row).collect();
    rows.sort();
    rows
}

fn annotations_agree(was: &Trace, is: &Trace) {
    assert_eq!(slices(was), slices(is));
    assert_eq!(points(was), points(is));
    assert_eq!(counters(was), counters(is));
    assert_eq!(arrows(was), arrows(is));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn perfetto_export_comes_back(machine in machine()) {
        let was = recorded(machine);
        let is = through_perfetto(&was);
        assert_eq!(was.span, is.span);
        assert_eq!(was.origin_monotonic_ns, is.origin_monotonic_ns);
        assert_eq!(lives(&was), lives(&is));
        assert_eq!(occupancy(&was), occupancy(&is));
        assert_eq!(wakeups(&was), wakeups(&is));
        assert_eq!(states(&was), states(&is));
        annotations_agree(&was, &is);
    }

    #[test]
    fn chrome_export_comes_back(machine in machine()) {
        let was = recorded(machine);
        let is = through_chrome(&was);
        assert_eq!(was.span, is.span);
        assert_eq!(was.origin_monotonic_ns, is.origin_monotonic_ns);
        assert_eq!(lives(&was), lives(&is));
        assert_eq!(occupancy(&was), occupancy(&is));
        assert_eq!(wakeups(&was), wakeups(&is));
        assert_eq!(states(&was), states(&is));
        annotations_agree(&was, &is);
    }
}

#[test]
fn machine_makes_what_is_compared() {
    // Deterministic: the property tests above compare columns that are not empty.
    let steps = (0..280usize).map(|i| Step {
        wait: 10 + (i as i64 * 7) % 40,
        cpu: i * 5 % 7 % 4,
        thread: i * 11 % 12,
        action: (i * 7 % 16) as u8,
    });
    let was = recorded((2, steps.collect()));
    for (n, what) in [
        (was.slices.start.len(), "slices"),
        (was.wakeups.time.len(), "wake-ups"),
        (was.instants.time.len(), "points"),
        (was.counters.len(), "counters"),
        (was.flows.id.len(), "arrows"),
        (was.args.name.len(), "arguments"),
    ] {
        assert!(n > 0, "no {what}");
    }
    let kinds = |kind| was.slices.kind.contains(&kind);
    assert!(kinds(SliceKind::LockHold) && kinds(SliceKind::LockWait) && kinds(SliceKind::Barrier));
    assert!(was.threads.iter().any(|t| t.alive.start.0 > 0));
    assert!(was.threads.iter().any(|t| t.alive.end < was.span.end));
}
