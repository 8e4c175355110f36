//! The words in the kernel's text of events, each alone: letters of states, flags of locks, names of threads; what they mean is what
//! the kernel's `TRACE_EVENT` definitions print.
use kasuri_import::{File, Options, load};
use kasuri_model::ThreadState::*;
use kasuri_model::{KernelSpanKind, ThreadState, Trace};

/// A trace of CPU 0, each event in thread 7's time with these flags, a microsecond after the one before.
fn trace(events: &[(&str, &str)]) -> Trace {
    let mut text = String::from("# tracer: nop\n#\n");
    for (i, (flags, event)) in events.iter().enumerate() {
        text += &format!("          worker-7     [000] {flags} 100.{:06}: {event}\n", i + 1);
    }
    let file = File { name: "trace.txt", bytes: text.as_bytes() };
    let trace = load(&[file], &Options::default()).unwrap();
    assert_eq!(trace.broken_rules(), Vec::<String>::new());
    trace
}

const PLAIN: &str = ".....";

fn switch(from: &str, tid: i32, state: &str, to: &str, next: i32) -> String {
    format!(
        "sched_switch: prev_comm={from} prev_pid={tid} prev_prio=120 prev_state={state} ==> next_comm={to} next_pid={next} next_prio=120"
    )
}

/// The states of a thread in order.
fn states(trace: &Trace, tid: i32) -> Vec<ThreadState> {
    let thread = trace.threads.iter().find(|t| t.tid == tid).expect("there");
    let rows = thread.states.start as usize..thread.states.end as usize;
    trace.states.state[rows].to_vec()
}

fn name(trace: &Trace, tid: i32) -> &str {
    let thread = trace.threads.iter().find(|t| t.tid == tid).expect("there");
    trace.strings.get(thread.name)
}

#[test]
fn each_letter_of_a_state() {
    for (letters, expected) in [
        ("R", RunnablePreempted),
        ("R+", RunnablePreempted),
        ("S+", RunnablePreempted),
        ("S", Sleeping),
        ("D", DiskSleep),
        ("T", Stopped),
        ("t", Stopped),
        ("X", Dead),
        ("x", Dead),
        ("Z", Dead),
        ("P", Idle),
        ("I", Idle),
        ("D|T", Stopped),
        ("S|D", DiskSleep),
    ] {
        for text in [
            switch("worker", 7, letters, "swapper/0", 0),
            format!("sched_switch: worker:7 [120] {letters} ==> swapper/0:0 [120]"),
        ] {
            let back = switch("swapper/0", 0, "R", "worker", 7);
            let later = switch("swapper/0", 0, "R", "x", 9);
            let trace = trace(&[(PLAIN, &back), (PLAIN, &text), (PLAIN, &later)]);
            if expected == Dead {
                let thread = trace.threads.iter().find(|t| t.tid == 7).expect("there");
                assert!(thread.alive.end < trace.span.end, "{letters}: {text}");
                continue;
            }
            assert_eq!(states(&trace, 7).last(), Some(&expected), "{letters}: {text}");
        }
    }
}

#[test]
fn each_flag_of_a_lock() {
    for (flags, expected) in [
        ("SPIN", "spinlock"),
        ("SPIN|READ", "rwlock read"),
        ("SPIN|WRITE", "rwlock write"),
        ("READ", "rwsem read"),
        ("WRITE", "rwsem write"),
        ("RT", "rtmutex"),
        ("RT|SPIN", "rtmutex"),
        ("PERCPU|READ", "percpu rwsem"),
        ("MUTEX", "mutex"),
        ("MUTEX|SPIN", "mutex"),
        ("0x21", "mutex"),
        ("", "semaphore"),
    ] {
        let begin = format!("contention_begin: 00000000deadbeef (flags={flags})");
        let end = "contention_end: 00000000deadbeef (ret=0)";
        let trace = trace(&[
            (PLAIN, &switch("swapper/0", 0, "R", "worker", 7)),
            (PLAIN, &begin),
            (PLAIN, end),
            // In an interrupt it is not the thread that waits.
            ("..h..", &begin),
            ("..h..", end),
        ]);
        let spans = &trace.kernel_spans;
        assert_eq!(spans.kind, [KernelSpanKind::LockContention], "{flags}");
        assert_eq!(trace.strings.get(spans.name[0]), expected, "{flags}");
        assert_eq!((spans.end[0] - spans.start[0]).ns(), 1000, "{flags}");
    }
}

#[test]
fn interrupts_and_calls_by_name() {
    let trace = trace(&[
        (PLAIN, &switch("swapper/0", 0, "R", "worker", 7)),
        (PLAIN, "irq_handler_entry: irq=24 name=virtio0 input"),
        (PLAIN, "irq_handler_exit: irq=24 ret=handled"),
        (PLAIN, "softirq_entry: vec=9 [action=RCU]"),
        (PLAIN, "softirq_exit: vec=9 [action=RCU]"),
        (PLAIN, "sys_enter: NR 7777 (1, 2, 3)"),
        (PLAIN, "sys_exit: NR 7777 = 3"),
    ]);
    let spans = &trace.kernel_spans;
    let rows: Vec<_> =
        (0..spans.kind.len()).map(|i| (spans.kind[i], trace.strings.get(spans.name[i]))).collect();
    assert_eq!(rows.len(), 3);
    assert_eq!(rows[0], (KernelSpanKind::Irq, "virtio0 input"));
    assert_eq!(rows[1], (KernelSpanKind::Softirq, "RCU"));
    assert!(rows[2].1.contains("7777"), "{rows:?}");
}

#[test]
fn names_may_hold_what_looks_like_a_field() {
    let odd = "a pid=3 b ==> c";
    let trace = trace(&[
        (PLAIN, &switch("swapper/0", 0, "R", odd, 7)),
        (PLAIN, &format!("sched_waking: comm={odd} pid=8 prio=120 target_cpu=000")),
        (PLAIN, "sched_waking: comm=x pid=9 prio=120 target_cpu=000"),
        (PLAIN, &switch(odd, 7, "S", "x", 9)),
        (PLAIN, "task_rename: pid=9 oldcomm=x newcomm=y oldcomm=z oom_score_adj=0"),
        (PLAIN, &switch("y oldcomm=z", 9, "S", odd, 8)),
    ]);
    for (tid, expected) in [(7, odd), (8, odd), (9, "y oldcomm=z")] {
        assert_eq!(name(&trace, tid), expected);
    }
    assert_eq!(states(&trace, 8), [Unknown, RunnableWoken, Running]);
    assert_eq!(states(&trace, 9), [Unknown, RunnableWoken, Running, Sleeping]);
    assert_eq!(states(&trace, 7), [Running, Sleeping]);
}

#[test]
fn births_moves_and_ends() {
    let born = |pid, flags| {
        format!("task_newtask: pid={pid} comm=child clone_flags={flags} oom_score_adj=0")
    };
    let fork =
        |pid| format!("sched_process_fork: comm=worker pid=7 child_comm=child child_pid={pid}");
    let wake = |pid| format!("sched_wakeup_new: comm=child pid={pid} prio=120 target_cpu=000");
    let trace = trace(&[
        (PLAIN, &switch("swapper/0", 0, "R", "worker", 7)),
        // CLONE_THREAD (0x10000) makes a thread of the same process, without it a process is born.
        (PLAIN, &born(20, "0x3d0f00")),
        (PLAIN, &fork(20)),
        (PLAIN, &wake(20)),
        (PLAIN, &born(30, "1200011")),
        (PLAIN, &fork(30)),
        (PLAIN, &wake(30)),
        (PLAIN, "sched_migrate_task: comm=child pid=30 prio=120 orig_cpu=0 dest_cpu=1"),
        (PLAIN, &switch("worker", 7, "S", "child", 20)),
        (PLAIN, "sched_process_exit: comm=child pid=20 prio=120"),
        (PLAIN, &switch("child", 20, "X", "swapper/0", 0)),
        (PLAIN, &switch("swapper/0", 0, "R", "worker", 7)),
    ]);
    let process = |tid| {
        let thread = trace.threads.iter().find(|t| t.tid == tid).expect("there");
        &trace.processes[thread.process.ix()]
    };
    assert_eq!(process(20).pid, process(7).pid);
    assert_eq!(process(30).pid, 30);
    assert_eq!(trace.processes[process(30).parent.ix()].pid, process(7).pid);
    let twenty = trace.threads.iter().find(|t| t.tid == 20).expect("there");
    assert_eq!((trace.span.end - twenty.alive.end).ns(), 1000);
    let moves = &trace.migrations;
    let rows: Vec<_> = (0..moves.time.len())
        .map(|i| (trace.threads[moves.thread[i].ix()].tid, moves.from_cpu[i], moves.to_cpu[i]))
        .collect();
    assert_eq!(rows, [(30, 0, 1)]);
}
