//! A small recording made by hand, with every kind of thing in it, and names that break careless writers.
//!
//! Two CPUs, 0..1000 ns. Process 100 has threads 100 (main) and 101; process 7 is a stranger.
//!
//! ```text
//! CPU 0   |idle 0..100|100: 100..400 |7: 400..500 |100: 500..1000              |
//! CPU 1   |unknown 0..200|101: 200..600      |idle 600..800   |101: 800..1000  |
//! ```
#![allow(dead_code, reason = "not every test uses every part")]
use kasuri_model::*;

pub const NASTY: &str = "a \"quoted\" \\ name\nwith\u{1} 絣 and \u{7f}</script>";
pub const ORIGIN: i64 = 5_000_000_000_123;

pub const MAIN: ThreadIx = ThreadIx(1);
pub const WORKER: ThreadIx = ThreadIx(2);
pub const STRANGER: ThreadIx = ThreadIx(0);

pub fn sample() -> Trace {
    let mut trace = Trace {
        origin_monotonic_ns: ORIGIN,
        origin_realtime_ns: 1_800_000_000_000_000_000,
        span: Time(0)..Time(1000),
        ..Trace::default()
    };
    trace.info = Info {
        command: vec!["./quake".into(), "--grid".into(), "8 8".into()],
        root_pid: 100,
        exit_status: Some(0),
        host: "loom".into(),
        kernel: "6.18.44".into(),
        machine: "x86_64".into(),
        cpu_model: "A CPU".into(),
        kernel_source: "tracefs".into(),
        kernel_clock: "mono".into(),
        recorder: "kasuri 0.1.0".into(),
        ..Info::default()
    };
    threads(&mut trace);
    scheduler(&mut trace);
    annotations(&mut trace);
    trace.losses.push(Loss {
        cause: "kernel buffer overrun".into(),
        cpu: Some(1),
        thread: ThreadIx::NONE,
        when: Time(0)..Time(200),
        count: 17,
        remedy: "record with --buffer-kb 65536".into(),
    });
    trace
}

/// The same with samples of both threads of the program, every 100 ns, and of a wait of the main thread.
///
/// The main thread runs `work` (work.c:7, called by main) and spins in libgomp; the worker runs the same `work`. The wait is a read.
pub fn sampled() -> Trace {
    let mut trace = sample();
    let mut frame = |function: &str, module: &str, file: &str, line, kind| {
        let mut text = |text: &str| match text {
            "" => StrIx::NONE,
            text => trace.strings.intern(text),
        };
        let (function, module, file) = (text(function), text(module), text(file));
        let f = &mut trace.frames;
        f.function.push(function);
        f.module.push(module);
        f.file.push(file);
        f.line.push(line);
        f.address.push(if function.is_some() { 0 } else { 0x1234 });
        f.kind.push(kind);
    };
    frame("main", "/bin/quake", "/src/main.c", 3, FrameKind::Native);
    frame("_ZN4work3runEv", "/bin/quake", "/src/work.c", 7, FrameKind::Inlined);
    frame("do_spin", "/usr/lib/libgomp.so.1", "", 0, FrameKind::Native);
    frame("", "/bin/quake", "", 0, FrameKind::Native);
    frame("read", "/usr/lib/libc.so.6", "", 0, FrameKind::Native);
    frame("vfs_read", "[kernel]", "", 0, FrameKind::Kernel);
    let none = PathIx::NONE;
    trace.paths.caller =
        [none, PathIx(0), PathIx(0), none, PathIx(3), PathIx(0), PathIx(5)].to_vec();
    trace.paths.frame = [0, 1, 2, 3, 1, 4, 5].map(FrameIx).to_vec();
    let on_cpu = SampleKind::OnCpu;
    for (time, thread, kind, path) in [
        (150, MAIN, on_cpu, PathIx(1)),
        (250, MAIN, on_cpu, PathIx(2)),
        (350, MAIN, on_cpu, PathIx(1)),
        (950, MAIN, on_cpu, none),
        (250, WORKER, on_cpu, PathIx(4)),
        (550, WORKER, on_cpu, PathIx(4)),
        (700, WORKER, SampleKind::BlockedRead, PathIx(6)),
        (850, WORKER, on_cpu, PathIx(3)),
    ] {
        let s = &mut trace.samples;
        s.time.push(Time(time));
        s.thread.push(thread);
        s.cpu.push(if kind == on_cpu { 0 } else { u16::MAX });
        s.kind.push(kind);
        s.is_complete.push(path.is_some());
        s.path.push(path);
    }
    trace.sampling.push(SamplingChange {
        source: "tick".into(),
        on: true,
        period_ns: 100,
        ..SamplingChange::default()
    });
    assert_eq!(trace.broken_rules(), Vec::<String>::new());
    trace
}

fn threads(trace: &mut Trace) {
    let (kworker, quake, nasty) = (
        trace.strings.intern("kworker/0:1"),
        trace.strings.intern("quake"),
        trace.strings.intern(NASTY),
    );
    trace.processes = vec![
        Process { pid: 7, name: kworker, threads: 0..1, ..Process::default() },
        Process { pid: 100, name: quake, is_target: true, threads: 1..3, ..Process::default() },
    ];
    let row = |process, tid, name| Thread {
        process: ProcessIx(process),
        tid,
        name,
        alive: Time(0)..Time(1000),
        ..Thread::default()
    };
    trace.threads = vec![
        Thread { states: 0..3, switches_in: 1, switches_out: 1, ..row(0, 7, kworker) },
        Thread {
            states: 3..7,
            switches_in: 2,
            switches_out: 1,
            preemptions: 1,
            slices: 0..4,
            slice_levels: 3,
            ..row(1, 100, quake)
        },
        Thread {
            states: 7..11,
            switches_in: 2,
            switches_out: 1,
            alive: Time(150)..Time(1000),
            slices: 4..6,
            slice_levels: 1,
            ..row(1, 101, nasty)
        },
    ];
}

fn scheduler(trace: &mut Trace) {
    use ThreadState::*;
    let none = ThreadIx::NONE;
    let mut state = |start: i64, state, cpu, by| {
        trace.states.start.push(Time(start));
        trace.states.state.push(state);
        trace.states.cpu.push(cpu);
        trace.states.by.push(by);
    };
    state(0, Sleeping, 0, none);
    state(400, Running, 0, none);
    state(500, Idle, 0, none);
    state(0, Unknown, u16::MAX, none);
    state(100, Running, 0, none);
    state(400, RunnablePreempted, 0, STRANGER);
    state(500, Running, 0, none);
    state(150, RunnableWoken, 1, MAIN);
    state(200, Running, 1, none);
    state(600, Sleeping, 1, none);
    state(800, Running, 1, none);
    let mut occupancy = |start: i64, thread, idle| {
        trace.occupancy.start.push(Time(start));
        trace.occupancy.thread.push(thread);
        trace.occupancy.idle.push(idle);
    };
    occupancy(0, none, true);
    occupancy(100, MAIN, false);
    occupancy(400, STRANGER, false);
    occupancy(500, MAIN, false);
    occupancy(0, none, false);
    occupancy(200, WORKER, false);
    occupancy(600, none, true);
    occupancy(800, WORKER, false);
    trace.cpus = vec![
        Cpu { recorded: true, occupancy: 0..4, ..Cpu::default() },
        Cpu { recorded: true, occupancy: 4..8, ..Cpu::default() },
    ];
    trace.wakeups = Wakeups {
        time: vec![Time(150), Time(400), Time(790)],
        waker: vec![MAIN, none, MAIN],
        wakee: vec![WORKER, STRANGER, WORKER],
        cpu: vec![0, 0, 0],
        latency: vec![Duration(50), Duration(0), Duration(10)],
    };
    trace.migrations = Migrations {
        time: vec![Time(160)],
        thread: vec![WORKER],
        from_cpu: vec![0],
        to_cpu: vec![1],
    };
    trace.kernel_spans = KernelSpans {
        kind: vec![KernelSpanKind::Irq, KernelSpanKind::Syscall],
        start: vec![Time(410), Time(120)],
        end: vec![Time(420), Time(140)],
        cpu: vec![0, 0],
        thread: vec![STRANGER, MAIN],
        name: vec![trace.strings.intern("virtio0"), trace.strings.intern("clone3")],
    };
    trace.sched_events = Some(events());
    trace.n_kernel_events = 10;
}

/// The events that the columns above come from.
fn events() -> SchedLog {
    use ThreadState::*;
    let mut log = SchedLog::default();
    log.has_migrations = true;
    let mut add = |cpu, ns, context, in_interrupt, what| {
        log.push(&SchedEvent { cpu, time: Time(ns), context, in_interrupt, what });
    };
    let switch = |prev, left_as, next| SchedWhat::Switch { prev, left_as, next };
    let waking = |wakee, target_cpu, is_new| SchedWhat::Waking {
        wakee,
        target_cpu,
        is_new,
        in_softirq: false,
    };
    let [main, worker, stranger] = [MAIN, WORKER, STRANGER].map(OnCpu::Thread);
    let idle = OnCpu::Idle;
    add(0, 100, 0, false, switch(idle, RunnablePreempted, main));
    let birth = SchedWhat::Fork { parent: MAIN, child: WORKER };
    add(0, 150, 100, false, birth);
    add(0, 150, 100, false, waking(WORKER, 1, true));
    let moved = SchedWhat::Migrate { thread: WORKER, from: 0, to: 1 };
    add(0, 160, 100, false, moved);
    add(1, 200, 0, false, switch(idle, RunnablePreempted, worker));
    add(0, 400, 100, true, waking(STRANGER, 0, false));
    add(0, 400, 100, false, switch(main, RunnablePreempted, stranger));
    add(0, 500, 7, false, switch(stranger, Idle, main));
    add(1, 600, 101, false, switch(worker, Sleeping, idle));
    add(0, 790, 100, false, waking(WORKER, 1, false));
    add(1, 800, 0, false, switch(idle, RunnablePreempted, worker));
    log
}

fn annotations(trace: &mut Trace) {
    let none = SliceIx::NONE;
    let (time, solve, nasty) =
        (trace.strings.intern("time"), trace.strings.intern("solve"), trace.strings.intern(NASTY));
    let task = trace.strings.intern("rows");
    let mut slice = |start: i64, end: i64, thread, name, depth, parent, kind, task, object| {
        trace.slices.start.push(Time(start));
        trace.slices.end.push(Time(end));
        trace.slices.thread.push(thread);
        trace.slices.name.push(name);
        trace.slices.depth.push(depth);
        trace.slices.parent.push(parent);
        trace.slices.kind.push(kind);
        trace.slices.task.push(task);
        trace.slices.object.push(object);
        trace.slices.open.push(0);
    };
    let no_task = TaskIx::NONE;
    slice(110, 900, MAIN, time, 0, none, SliceKind::Work, no_task, 0);
    slice(110, 300, MAIN, solve, 1, SliceIx(0), SliceKind::Work, no_task, 0);
    slice(
        200,
        350,
        MAIN,
        StrIx::NONE,
        2,
        none,
        SliceKind::LockHold,
        no_task,
        0xffff_8000_1234_5678,
    );
    slice(300, 300, MAIN, nasty, 1, SliceIx(0), SliceKind::Work, no_task, 0);
    slice(210, 590, WORKER, task, 0, none, SliceKind::TaskRun, TaskIx(0), 0);
    slice(590, 990, WORKER, StrIx::NONE, 0, none, SliceKind::Barrier, no_task, 64);
    trace.slices.open[5] = 2;
    let no_instant = InstantIx::NONE;
    trace.args = Args {
        slice: vec![SliceIx(1), SliceIx(1), SliceIx(3), none],
        instant: vec![no_instant, no_instant, no_instant, InstantIx(0)],
        name: vec![time, nasty, solve, time],
        value: vec![
            ArgValue::Int(-3),
            ArgValue::Str(nasty),
            ArgValue::Float(f64::NAN),
            ArgValue::Uint(u64::MAX),
        ],
    };
    trace.instants = Instants { time: vec![Time(333)], thread: vec![MAIN], name: vec![nasty] };
    trace.counters = vec![Counter {
        name: nasty,
        process: ProcessIx(1),
        time: vec![Time(120), Time(450)],
        value: vec![0.5, 7.0],
    }];
    trace.tasks = vec![Task {
        id: 42,
        process: ProcessIx(1),
        name: task,
        creator: MAIN,
        created: Time(130),
        started: Time(210),
        ended: Time(590),
        ..Task::default()
    }];
    trace.flows = Flows {
        id: vec![9],
        name: vec![solve],
        from_time: vec![Time(290)],
        from_thread: vec![MAIN],
        to_time: vec![Time(560)],
        to_thread: vec![WORKER],
    };
    trace.n_annotation_events = 16;
}
