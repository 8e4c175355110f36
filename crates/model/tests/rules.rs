//! The rules that every trace keeps: one that keeps them all, and each way to break one.
use kasuri_model::ThreadState::{Running, Sleeping};
use kasuri_model::label::not_seen;
use kasuri_model::{
    Counter, Cpu, FrameIx, FrameKind, KernelSpanKind, PathIx, Process, ProcessIx, SampleKind,
    SamplingChange, SliceIx, SliceKind, StrIx, Thread, ThreadIx, Time, Trace, open,
};

fn times(ns: &[i64]) -> Vec<Time> {
    ns.iter().map(|&ns| Time(ns)).collect()
}

fn thread(tid: i32, states: std::ops::Range<u32>, slices: std::ops::Range<u32>) -> Thread {
    Thread {
        process: ProcessIx(tid as u32 - 1),
        tid,
        alive: Time(0)..Time(100),
        states,
        slices,
        slice_levels: 2,
        ..Thread::default()
    }
}

/// Two processes of a thread each on two CPUs, with rows that touch each other, begin together and are as long as their parents.
fn sound() -> Trace {
    let process = |parent, threads| Process { parent, threads, ..Process::default() };
    let cpu = |occupancy| Cpu { occupancy, ..Cpu::default() };
    let mut t = Trace {
        span: Time(0)..Time(100),
        processes: vec![process(ProcessIx::NONE, 0..1), process(ProcessIx(0), 1..2)],
        threads: vec![thread(1, 0..2, 0..4), thread(2, 2..4, 4..6)],
        cpus: vec![cpu(0..2), cpu(2..4)],
        ..Trace::default()
    };
    t.states.start = times(&[0, 40, 0, 60]);
    t.states.state = vec![Running, Sleeping, Sleeping, Running];
    t.states.cpu = vec![0; 4];
    t.states.by = vec![ThreadIx::NONE, ThreadIx(1), ThreadIx(0), ThreadIx::NONE];
    t.occupancy.start = times(&[0, 40, 0, 60]);
    t.occupancy.thread = vec![ThreadIx(0), ThreadIx::NONE, ThreadIx::NONE, ThreadIx(1)];
    t.occupancy.idle = vec![false, true, true, false];
    let s = &mut t.slices;
    // A slice as long as its parent, one that begins where that ends, a lock that is held for longer than its slice; two alone.
    s.start = times(&[0, 0, 50, 60, 0, 50]);
    s.end = times(&[50, 50, 90, 99, 50, 50]);
    s.thread = [0, 0, 0, 0, 1, 1].map(ThreadIx).into_iter().collect();
    s.depth = vec![0, 1, 0, 1, 0, 0];
    s.parent = vec![SliceIx::NONE; 6].into();
    (s.parent[1], s.parent[3]) = (SliceIx(0), SliceIx(2));
    s.kind = vec![SliceKind::Work; 6];
    s.kind[3] = SliceKind::LockHold;
    s.name = vec![StrIx::NONE; 6];
    s.task = vec![kasuri_model::TaskIx::NONE; 6].into();
    s.object = vec![0; 6].into();
    s.open = vec![0; 6].into();
    t.wakeups.time = times(&[5, 5]);
    t.wakeups.waker = vec![ThreadIx(0); 2];
    t.wakeups.wakee = vec![ThreadIx(1); 2];
    t.wakeups.cpu = vec![0; 2];
    t.wakeups.latency = vec![kasuri_model::Duration(0); 2];
    t.migrations.time = times(&[5, 5]);
    t.migrations.thread = vec![ThreadIx(0); 2];
    (t.migrations.from_cpu, t.migrations.to_cpu) = (vec![0; 2], vec![1; 2]);
    t.flows.id = vec![1; 2];
    t.flows.name = vec![StrIx::NONE; 2];
    (t.flows.from_time, t.flows.to_time) = (times(&[5, 5]), times(&[9, 8]));
    (t.flows.from_thread, t.flows.to_thread) = (vec![ThreadIx(0); 2], vec![ThreadIx(1); 2]);
    t.counters = vec![Counter { time: times(&[5, 5]), value: vec![1.0; 2], ..Counter::default() }];
    let k = &mut t.kernel_spans;
    k.kind = vec![KernelSpanKind::Irq, KernelSpanKind::Irq, KernelSpanKind::Softirq];
    (k.start, k.end) = (times(&[7, 8, 1]), times(&[8, 9, 2]));
    (k.cpu, k.thread) = (vec![0; 3], vec![ThreadIx(0); 3]);
    k.name = vec![StrIx::NONE; 3];
    add_call_paths(&mut t);
    t
}

/// Two functions, one of which calls the other; a thread is in both at one time, and in the outer one at another.
fn add_call_paths(t: &mut Trace) {
    let f = &mut t.frames;
    (f.function, f.module) = (vec![StrIx::NONE; 2], vec![StrIx::NONE; 2]);
    (f.file, f.line) = (vec![StrIx::NONE; 2], vec![0; 2]);
    (f.address, f.kind) = (vec![1, 2], vec![FrameKind::Native; 2]);
    t.paths.caller = vec![PathIx::NONE, PathIx(0)];
    t.paths.frame = vec![FrameIx(0), FrameIx(1)];
    let s = &mut t.samples;
    s.time = times(&[5, 5, 1]);
    s.thread = vec![ThreadIx(0), ThreadIx(0), ThreadIx(1)];
    s.cpu = vec![0; 3];
    s.kind = vec![SampleKind::OnCpu; 3];
    s.is_complete = vec![true; 3];
    s.path = vec![PathIx(0), PathIx(1), PathIx::NONE];
    t.sampling = vec![SamplingChange::default(); 2];
}

#[test]
fn a_sound_trace_breaks_no_rule() {
    assert_eq!(sound().broken_rules(), Vec::<String>::new());
    assert_eq!(sound().disagreements(), Vec::<String>::new());
    assert_eq!(Trace::default().broken_rules(), Vec::<String>::new());
}

/// What is broken, how, and what is said of it.
type Case = (&'static str, fn(&mut Trace), &'static str);

const CASES: &[Case] = &[
    ("a column is short", |t| _ = t.states.cpu.pop(), "columns of states"),
    ("a column is short", |t| _ = t.occupancy.idle.pop(), "columns of occupancy"),
    ("a column is short", |t| _ = t.wakeups.latency.pop(), "columns of wakeups"),
    ("a column is short", |t| _ = t.migrations.to_cpu.pop(), "columns of migrations"),
    ("a column is short", |t| _ = t.slices.depth.pop(), "columns of slices"),
    ("a column is short", |t| _ = t.slices.open.pop(), "columns of slices"),
    ("a column is short", |t| t.args.name.push(StrIx(0)), "columns of args"),
    ("a column is short", |t| t.instants.name.push(StrIx(0)), "columns of instants"),
    ("a column is short", |t| _ = t.kernel_spans.name.pop(), "columns of kernel spans"),
    ("a column is short", |t| _ = t.flows.to_thread.pop(), "columns of flows"),
    ("threads twice", |t| t.processes[1].threads = 0..2, "process 1: threads"),
    ("a parent beyond", |t| t.processes[1].parent = ProcessIx(2), "process 1: parent"),
    ("a thread of nobody", |t| t.processes[1].threads = 1..1, "threads without a process"),
    ("states twice", |t| t.threads[1].states = 1..4, "tid 2: states"),
    ("slices twice", |t| t.threads[1].slices = 3..6, "tid 2: slices"),
    ("dead before born", |t| t.threads[0].alive = Time(1)..Time(0), "tid 1: alive"),
    ("a late first state", |t| t.states.start[0] = Time(1), "tid 1: state 0"),
    ("a state of no time", |t| t.states.start[1] = Time(0), "tid 1: state 1"),
    ("states beyond", |t| t.states.start[1] = Time(101), "tid 1: state"),
    ("states of nobody", |t| t.threads[1].states = 2..3, "states without a thread"),
    ("slices of nobody", |t| t.threads[1].slices = 4..5, "slices without a thread"),
    ("by nobody", |t| t.states.by[1] = ThreadIx(2), "states: by"),
    ("rows twice", |t| t.cpus[1].occupancy = 1..4, "CPU 1: rows"),
    ("a late first row", |t| t.occupancy.start[0] = Time(1), "CPU 0: row 0"),
    ("a row of no time", |t| t.occupancy.start[1] = Time(0), "CPU 0: row 1"),
    ("idle and not", |t| t.occupancy.idle[0] = true, "CPU 0: row 0 idle"),
    ("rows of nobody", |t| t.cpus[1].occupancy = 2..3, "occupancy without a CPU"),
    ("another's slice", |t| t.slices.thread[0] = ThreadIx(1), "another thread's"),
    ("a slice goes back", |t| t.slices.start[3] = Time(49), "after"),
    ("the inner one first", |t| t.slices.depth.swap(0, 1), "after"),
    ("ends before", |t| t.slices.end[5] = Time(49), "ends before it begins"),
    ("one over another", |t| t.slices.end[0] = Time(51), "overlaps"),
    ("too deep", |t| t.threads[1].slice_levels = 0, "0 levels"),
    (
        "its own parent",
        |t| t.slices.parent[1] = SliceIx(1),
        "slice 1 (Time(0)..Time(50), depth 1) of tid 1: parent 1",
    ),
    ("a stranger's child", |t| t.slices.parent[5] = SliceIx(0), "of tid 2: parent 0"),
    ("longer than its parent", |t| t.slices.end[1] = Time(51), "of tid 1: parent 0"),
    ("before its parent", |t| t.slices.start[2] = Time(61), "parent 2"),
    (
        "as deep as its parent",
        |t| {
            t.slices.parent[5] = SliceIx(4);
        },
        "of tid 2: parent 4",
    ),
    ("wake-ups go back", |t| t.wakeups.time[1] = Time(4), "wake-ups out of order"),
    ("migrations go back", |t| t.migrations.time[1] = Time(4), "migrations out of order"),
    ("flows go back", |t| t.flows.from_time[1] = Time(4), "flows out of order"),
    ("a counter goes back", |t| t.counters[0].time[1] = Time(4), "a counter goes back"),
    ("spans go back", |t| t.kernel_spans.start[1] = Time(6), "kernel spans out of order"),
    ("a column is short", |t| _ = t.frames.line.pop(), "columns of frames"),
    ("a column is short", |t| _ = t.paths.frame.pop(), "columns of paths"),
    ("a column is short", |t| _ = t.samples.path.pop(), "columns of samples"),
    ("calls itself", |t| t.paths.caller[1] = PathIx(1), "path 1: caller"),
    ("no such frame", |t| t.paths.frame[1] = FrameIx(2), "path 1: frame"),
    ("no such path", |t| t.samples.path[2] = PathIx(2), "sample 2: path"),
    ("a sample of nobody", |t| t.samples.thread[2] = ThreadIx(2), "sample 2: thread"),
    ("samples go back", |t| t.samples.time[1] = Time(4), "sample 1: after"),
    ("sampling goes back", |t| t.sampling[0].time = Time(1), "changes of sampling out of order"),
    ("kinds go back", |t| t.kernel_spans.kind.swap(0, 2), "kernel spans out of order"),
];

#[test]
fn each_broken_rule_is_named() {
    for (what, change, message) in CASES {
        let mut trace = sound();
        change(&mut trace);
        let broken = trace.broken_rules();
        assert!(broken.iter().any(|b| b.contains(message)), "{what}: {message:?} in {broken:?}");
    }
}

#[test]
fn much_that_is_broken_is_named_in_part() {
    let mut trace = sound();
    trace.processes =
        (0..100).map(|i| Process { threads: 2 * i..2 * i + 1, ..Process::default() }).collect();
    assert_eq!(trace.broken_rules().len(), 20);
}

#[test]
fn cpus_and_threads_that_disagree() {
    let mut trace = sound();
    trace.occupancy.start[1] = Time(30);
    assert_eq!(trace.disagreements(), ["tid 1 ran 40 ns, its CPUs say 30"]);
}

#[test]
fn what_was_not_seen_of_a_slice() {
    for (bits, said) in [
        (0, ""),
        (open::BEGIN_UNSEEN, "begin"),
        (open::END_UNSEEN, "end"),
        (open::BEGIN_UNSEEN | open::END_UNSEEN, "begin and end"),
        (open::CONTINUES | open::CONTINUED | open::SHARED, ""),
        (open::SHARED | open::END_UNSEEN, "end"),
    ] {
        assert_eq!(not_seen(bits), said, "{bits}");
    }
}
