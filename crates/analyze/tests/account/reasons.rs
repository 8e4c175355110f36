//! What a thread's time is charged to by the wait that it is in and by what ends that: each kind of wait on a CPU, waits ended
//! from outside, and the names of code where slices are short. Small traces, by hand.
use super::story::*;
use ThreadState::{RunnablePreempted as Preempted, Sleeping};
use kasuri_analyze::account::Class;
use kasuri_analyze::{Options, summary};
use kasuri_model::input::What;
use kasuri_model::{StrIx, ThreadState, Trace};

const OTHER: u16 = 0;
const JOIN: u16 = 2;
const COND: u16 = 3;
const IO: u16 = 4;
const US: i64 = 1000;

/// (class, on a CPU) of what is charged to `CPU 0` beside work.
fn lost(trace: &Trace) -> Vec<(Class, i64)> {
    let a = account(trace);
    let mut all = nonzero(&a.cpu_sums(0, a.from, a.to));
    all.retain(|(class, _)| *class != Class::Work);
    all
}

/// Both threads run all the time; 10 waits on its CPU from 100 to 500, and does something else in it from 200 to 300.
#[test]
fn a_wait_on_a_cpu_is_charged_by_its_kind_but_for_work_in_it() {
    for (kind, class) in [
        (OTHER, Class::WaitingForOwnThreads),
        (COND, Class::WaitingForOwnThreads),
        (BARRIER, Class::LoadImbalance),
        (JOIN, Class::LoadImbalance),
        (IO, Class::IoWait),
    ] {
        let mut s = Story::new(2);
        s.known = vec![11];
        s.switch(0, 999, 10, Preempted, 10);
        s.switch(1, 999, 11, Preempted, 11);
        s.note(10, 100, WAIT_BEGIN, kind, "wait", 0xb);
        s.slice(10, 200, 300, "inside");
        s.note(10, 500, WAIT_END, kind, "wait", 0xb);
        let trace = s.load(1000);
        assert_eq!(lost(&trace), [(class, 300)], "{kind}");
        let found = summary(&trace, &Options::default());
        let cause = found.account.causes.iter().find(|c| c.ns == 300).unwrap();
        assert_eq!((&*cause.name, cause.object, cause.on_cpu_ns), ("wait", 0xb, 300));
    }
}

/// 10 and 11 are ready, and a stranger and the recorder have their CPUs, for 950 ms without an
/// event: no scheduler does that. What wakes threads meanwhile, or that nobody is ready, says that
/// the machine ran.
#[test]
fn a_pause_of_the_machine_is_no_ones() {
    const MS: i64 = 1_000_000;
    let told = |woken: &[i64], ready: bool| {
        let mut s = Story::new(2);
        s.known = vec![11];
        s.wake(0, MS, 10, 80, 0);
        let left_as = if ready { Preempted } else { Sleeping };
        s.switch(0, 10 * MS, 10, left_as, RECORDER);
        s.switch(1, 10 * MS, 11, left_as, 91);
        for at in woken {
            s.wake(0, at * MS, RECORDER, 80, 0);
        }
        s.switch(1, 960 * MS, 91, Sleeping, 11);
        s.switch(0, 960 * MS, RECORDER, Sleeping, 10);
        let found = summary(&s.load(1000 * MS), &Options::default());
        let still = found.account.causes.into_iter().filter(|c| c.note == "stood_still");
        still.map(|c| (c.class, c.ns / MS)).collect::<Vec<_>>()
    };
    assert_eq!(told(&[], true), [("interference", 1900)]);
    assert_eq!(told(&[950, 955], true), [("interference", 1880)], "then timers fire at once");
    assert_eq!(told(&[100, 250, 400, 550, 700, 850], true), [], "timers fired all the time");
    assert_eq!(told(&[], false), [], "nobody wanted a CPU");
}

/// 10 sleeps from 100 to 500 in a wait while 11 runs: woken by a stranger, by an interrupt, or never.
#[test]
fn a_wait_that_ends_from_outside_says_who_ended_it() {
    for (by, note, process) in
        [(95, "process", "other95"), (0, "interrupt", ""), (-1, "endless", "")]
    {
        for kind in [None, Some(OTHER), Some(BARRIER), Some(JOIN)] {
            let mut s = Story::new(3);
            s.known = vec![11, 12];
            s.switch(0, 100, 10, Sleeping, 0);
            s.switch(1, 999, 11, Preempted, 11);
            s.switch(2, 50, 12, Sleeping, 95);
            if by >= 0 {
                let cpu = if by == 95 { 2 } else { 0 };
                s.wake(cpu, 500, by, 10, 0);
                s.switch(0, 500, 0, Preempted, 10);
            }
            if let Some(kind) = kind {
                s.note(10, 100, WAIT_BEGIN, kind, "wait", 0xb);
                if by >= 0 {
                    s.note(10, 500, WAIT_END, kind, "wait", 0xb);
                }
            }
            let trace = s.load(1000);
            let found = summary(&trace, &Options::default());
            let class = match kind {
                Some(BARRIER | JOIN) => "load_imbalance",
                _ => "external_wait",
            };
            let rows = found.account.causes.iter();
            let said: Vec<_> = rows
                .filter(|c| c.class == class)
                .map(|c| (c.note, &*c.process, &*c.name))
                .collect();
            let name = if kind.is_some() { "wait" } else { "" };
            // A thread that nobody wakes while others run is no loss of a wait's: there are too few threads.
            match by {
                -1 => assert!(said.is_empty(), "{kind:?}: {said:?}"),
                _ => assert!(said.contains(&(note, process, name)), "{by} {kind:?}: {said:?}"),
            }
        }
    }
}

/// 10 is in state D from 100 to 500. What that is depends on who ends it: an interrupt or the kernel's worker for a device, 11, which runs
/// alone meanwhile, a stranger, nobody in this recording; and where wake-ups were not recorded nobody knows.
#[test]
fn an_uninterruptible_sleep_is_the_disk_only_if_a_device_ends_it() {
    for (by, expected) in [
        (Some(0), ("io_wait", "", "")),
        (Some(KWORKER), ("io_wait", "", "")),
        (Some(11), ("low_parallelism", "serial_phase", "")),
        (Some(95), ("external_wait", "process", "other95")),
        (Some(-1), ("low_parallelism", "serial_phase", "")),
        (None, ("unknown", "uninterruptible", "")),
    ] {
        let mut s = Story::new(3);
        s.known = vec![11];
        s.switch(0, 100, 10, ThreadState::DiskSleep, 0);
        s.switch(1, 999, 11, Preempted, 11);
        s.switch(2, 50, KWORKER, Sleeping, 95);
        s.switch(2, 300, 95, Sleeping, KWORKER);
        s.switch(2, 400, KWORKER, Sleeping, 95);
        match by {
            None => s.switch(0, 500, 0, Preempted, 10),
            Some(-1) => {}
            Some(by) => {
                let (cpu, at) = match by {
                    KWORKER => (2, 350),
                    95 => (2, 500),
                    11 => (1, 500),
                    _ => (0, 500),
                };
                s.wake(cpu, at, by, 10, 0);
                s.switch(0, 500, 0, Preempted, 10);
            }
        }
        let trace = s.load(1000);
        let found = summary(&trace, &Options::default()).account;
        // One of the two free CPUs is charged to 10; the other has no thread.
        let rows: Vec<_> = found.causes.iter().map(|c| (c.class, c.note, &*c.process)).collect();
        assert!(rows.contains(&expected), "{by:?}: {rows:?}");
        let io = rows.iter().any(|row| row.0 == "io_wait");
        assert_eq!(io, expected.0 == "io_wait", "{by:?}: {rows:?}");
    }
}

/// 10 is in vfork until its child 20, which computes, ends or becomes another program.
#[test]
fn a_parent_in_vfork_waits_for_its_child() {
    for ends in [true, false] {
        let mut s = Story::new(2);
        s.other(
            0,
            50,
            10,
            What::Fork {
                parent: 10,
                child: 20,
                comm: StrIx::NONE,
                pid: Some(20),
                same_process: Some(false),
            },
        );
        s.wake(0, 60, 10, 20, 1);
        s.switch(1, 70, 0, Preempted, 20);
        s.switch(0, 100, 10, ThreadState::DiskSleep, 0);
        s.wake(1, 900, 20, 10, 0);
        s.switch(0, 900, 0, Preempted, 10);
        if ends {
            s.switch(1, 950, 20, ThreadState::Dead, 0);
        }
        let trace = s.load(1000);
        let found = summary(&trace, &Options::default()).account;
        let worst = &found.causes[0];
        assert_eq!((worst.class, worst.note, worst.ns), ("low_parallelism", "serial_phase", 800));
        assert!(found.causes.iter().all(|c| c.class != "io_wait"));
    }
}

/// 10 runs alone in slices; CPU 1, which is idle, is charged to the code that it runs.
#[test]
fn short_slices_are_one_stretch_of_code_named_after_its_first() {
    let mut s = Story::new(2);
    s.switch(1, 1, 90, Sleeping, 0);
    s.switch(0, 999 * US, 10, Preempted, 10);
    // Ten in turns, 10 us each: after 50 us the next one that differs gives a new name.
    for n in 0..15 {
        let name = if n % 2 == 0 { "a" } else { "b" };
        s.slice(10, n * 10 * US, (n + 1) * 10 * US, name);
    }
    // 55 us apart they are two stretches, 45 us apart they are one; of one name it may last.
    for (from, name) in
        [(200, "c"), (265, "c"), (400, "d"), (455, "d"), (600, "e"), (650, "e"), (700, "e")]
    {
        s.slice(10, from * US, (from + 10) * US, name);
    }
    // One that lasts has the name also around shorter ones.
    s.note(10, 800 * US, BEGIN, 0, "long", 0);
    s.slice(10, 820 * US, 830 * US, "short");
    s.note(10, 900 * US, END, 0, "long", 0);
    let trace = s.load(1000 * US);
    let a = account(&trace);
    let of = |code: &str| {
        let rows = causes(&trace, &a).into_iter().filter(|c| c.2 == code);
        rows.map(|c| c.3).sum::<i64>() / US
    };
    let found = ["a", "b", "c", "d", "e", "long", "short"].map(of);
    assert_eq!(found, [100, 50, 20, 65, 110, 100, 0]);
}

/// `step` is open on 10 from 100 to 500 and on 11 from 300 to 700 us; 10 sleeps 200..400, and CPU 0 is idle then.
#[test]
fn a_region_is_the_time_in_which_any_thread_is_inside() {
    let mut s = Story::new(2);
    s.known = vec![11];
    s.switch(0, 200 * US, 10, Sleeping, 0);
    s.wake(1, 400 * US, 11, 10, 0);
    s.switch(0, 400 * US, 0, Preempted, 10);
    s.switch(1, 999 * US, 11, Preempted, 11);
    s.slice(10, 100 * US, 500 * US, "step");
    s.slice(11, 300 * US, 700 * US, "step");
    // Short on average: no region.
    for n in 0..4 {
        s.slice(11, (800 + n * 10) * US, (809 + n * 10) * US, "tick");
    }
    let trace = s.load(1000 * US);
    let found = summary(&trace, &Options::default());
    let rows: Vec<_> = (found.account.regions.iter())
        .map(|r| {
            let all: i64 = r.classes.iter().map(|c| c.ns).sum();
            let work = r.classes.iter().find(|c| c.class == "work").unwrap().ns;
            (&*r.name, r.wall_ns / US, all / US, work / US, r.got_cpus)
        })
        .collect();
    // 600 us on two CPUs, less 200 of CPU 0.
    assert_eq!(rows, [("step", 600, 1200, 1000, 1000.0 / 600.0)]);
}

/// 10 runs a task runtime's loop, and in it a task from 200 to 400; 11 waits in the runtime for something to run, on its CPU
/// from 100 to 300 and asleep until 800, while 12 works too.
#[test]
fn a_runtimes_own_time_is_no_work_and_its_idle_workers_lack_parallelism() {
    let idle = |alone: bool| {
        let mut s = Story::new(3);
        s.known = vec![11, 12];
        s.switch(1, 300, 11, Sleeping, 0);
        s.wake(0, 800, 10, 11, 1);
        s.switch(1, 800, 0, Preempted, 11);
        if alone {
            s.switch(2, 300, 12, Sleeping, 0);
            s.wake(0, 800, 10, 12, 2);
            s.switch(2, 800, 0, Preempted, 12);
            s.note(12, 299, WAIT_BEGIN, OTHER, "ito:idle", 0);
            s.note(12, 801, WAIT_END, OTHER, "ito:idle", 0);
        } else {
            s.switch(2, 999, 12, Preempted, 12);
        }
        s.switch(0, 999, 10, Preempted, 10);
        s.note(10, 100, BEGIN, 0, "omp:parallel", 0);
        s.slice(10, 200, 400, "task");
        s.note(10, 900, END, 0, "omp:parallel", 0);
        s.note(11, 100, WAIT_BEGIN, OTHER, "ito:idle", 0);
        s.note(11, 800, WAIT_END, OTHER, "ito:idle", 0);
        let trace = s.load(1000);
        let a = account(&trace);
        let of = |cpu| {
            let mut all = nonzero(&a.cpu_sums(cpu, a.from, a.to));
            all.retain(|(class, _)| *class != Class::Work);
            all
        };
        let found = summary(&trace, &Options::default());
        let rows = found.account.causes.iter().filter(|c| c.class == "low_parallelism");
        let mut notes: Vec<_> = rows.map(|c| (c.note, c.ns)).collect();
        notes.sort_unstable();
        notes.dedup();
        (of(0), of(1), notes)
    };
    // CPU 0: 100..900 in the runtime, less the task's 200. CPU 1: on it 100..300; idle 300..800.
    let (first, second, notes) = idle(false);
    assert_eq!(first, [(Class::TaskRuntime, 600)]);
    assert_eq!(second, [(Class::TaskRuntime, 200), (Class::LowParallelism, 500)]);
    assert_eq!(notes, [("idle_worker", 500)]);
    // While 10 runs alone it is a serial phase of its code.
    let (_, second, notes) = idle(true);
    assert_eq!(second, [(Class::TaskRuntime, 200), (Class::LowParallelism, 500)]);
    assert_eq!(notes, [("serial_phase", 1000)]);
}

/// Between two regions a worker of OpenMP looks for the next one; what it does on a CPU there is no work. While another thread
/// works that is nothing but spinning; a task that it runs meanwhile is work.
#[test]
fn a_worker_of_openmp_spins_between_regions() {
    let mut s = Story::new(2);
    s.switch(0, 999, 10, Preempted, 10);
    s.switch(1, 999, 11, Preempted, 11);
    s.note(11, 100, BEGIN, 0, "omp: idle", 0);
    s.slice(11, 200, 250, "task");
    s.note(11, 400, END, 0, "omp: idle", 0);
    let a = account(&s.load(1000));
    let all = nonzero(&a.cpu_sums(1, a.from, a.to));
    assert!(all.contains(&(Class::Spinning, 250)), "{all:?}");
    let all = nonzero(&a.cpu_sums(0, a.from, a.to));
    assert!(all.iter().all(|(class, _)| *class != Class::Spinning));
}

/// A shell's children, a compiler's: each is a process of its own, and nothing else tells them apart.
#[test]
fn children_of_one_name_that_are_waited_for_in_turn_are_one_cause() {
    let mut s = Story::new(2);
    s.switch(0, 0, 0, Sleeping, 10);
    for (n, child) in [20, 21, 22].into_iter().enumerate() {
        let from = n as i64 * 1_000 + 100;
        s.other(
            0,
            from - 50,
            10,
            What::Fork {
                parent: 10,
                child,
                comm: StrIx::NONE,
                pid: Some(child),
                same_process: Some(false),
            },
        );
        s.wake(0, from - 40, 10, child, 1);
        s.switch(1, from - 30, 0, Preempted, child);
        s.switch(0, from, 10, Sleeping, 0);
        s.wake(1, from + 800, child, 10, 0);
        s.switch(0, from + 810, 0, Preempted, 10);
        s.switch(1, from + 820, child, Sleeping, 0);
    }
    let mut trace = s.load(3_000);
    let name = trace.strings.intern("cc1");
    let children = trace.threads.iter_mut().filter(|t| t.tid >= 20);
    children.for_each(|t| t.name = name);
    let found = summary(&trace, &Options::default()).account;
    let serial = found.causes.iter().filter(|c| c.note == "serial_phase");
    let rows: Vec<_> = serial.map(|c| (c.processes, c.ns)).collect();
    // That of the program's first process, between them, is a row of its own.
    assert!(rows.contains(&(3, 3 * 800)), "{rows:?}");
    assert!(rows.iter().all(|&(n, ns)| n == 3 || (n == 0 && ns < 800)), "{rows:?}");
}

/// Threads wait for the recorder where it stops them, or holds what they want: without a recording they would not.
#[test]
fn a_wait_that_the_recorder_ends_is_tracing() {
    for state in [Sleeping, ThreadState::DiskSleep] {
        for is_told in [true, false] {
            let mut s = Story::new(2);
            s.switch(0, 100, 10, state, 0);
            s.switch(1, 50, RECORDER, Sleeping, 95);
            s.switch(1, 400, 95, Preempted, RECORDER);
            s.wake(1, 500, RECORDER, 10, 0);
            s.switch(0, 500, 0, Preempted, 10);
            let mut trace = s.load(1000);
            trace.info.recorder_pid = is_told.then_some(RECORDER);
            let found = summary(&trace, &Options::default());
            let sum = |class: &str| {
                let classes = found.account.classes.iter();
                classes.filter(|c| c.class == class).map(|c| c.ns).sum::<i64>()
            };
            // And two events of the scheduler, 45 ns each.
            let expected = if is_told { (490, 0) } else { (90, 400) };
            assert_eq!((sum("tracing"), sum("external_wait")), expected, "{state:?} {is_told}");
            // What it took of the CPU has its name.
            let rows = found.account.causes.iter();
            let names: Vec<_> =
                rows.map(|c| &*c.process).filter(|name| name.starts_with("kasuri")).collect();
            let name = if is_told { "kasuri (this recorder)" } else { "kasuri" };
            assert!(names.iter().all(|found| *found == name), "{names:?}");
        }
    }
}

/// A hundred threads run one after the other, each made to by 10, which waits for it: each part is small, the loss is not.
#[test]
fn small_parts_of_a_serial_phase_are_one_cause() {
    let mut s = Story::new(2);
    s.switch(1, 1, 90, Sleeping, 0);
    for (n, thread) in (200..300).enumerate() {
        let from = n as i64 * 100;
        let fork = What::Fork {
            parent: 10,
            child: thread,
            comm: StrIx::NONE,
            pid: Some(10),
            same_process: Some(true),
        };
        s.other(0, from, 10, fork);
        s.wake(0, from + 1, 10, thread, 0);
        s.switch(0, from + 2, 10, Sleeping, thread);
        s.wake(0, from + 98, thread, 10, 0);
        s.switch(0, from + 99, thread, ThreadState::Dead, 10);
    }
    let found = summary(&s.load(10_000), &Options::default());
    let causes = found.account.causes.iter();
    let serial: Vec<_> = causes.filter(|c| c.note == "serial_phase").collect();
    assert_eq!(serial.len(), 1, "{serial:?}");
    assert!(serial[0].ns > 9_000 && serial[0].thread_share < 0.05, "{serial:?}");
}

/// 10 and 11 take turns on CPU 0, and a stranger has CPU 1: where both masks have CPU 0 alone, it takes nothing from them.
#[test]
fn a_cpu_that_the_masks_close_to_all_who_are_ready_is_not_lost_to_other_programs() {
    const MS: i64 = 1_000_000;
    let told = |masks: &[(&'static [u32], &'static [i32])]| {
        let mut s = Story::new(2);
        s.known = vec![10, 11];
        s.switch(0, 0, 0, Sleeping, 10);
        s.switch(1, 0, 0, Sleeping, 80);
        s.wake(0, MS / 10, 10, 11, 0);
        for n in 1..40 {
            let (from, to) = if n % 2 == 1 { (10, 11) } else { (11, 10) };
            s.switch(0, n * 4 * MS, from, Preempted, to);
        }
        let mut trace = s.load(160 * MS);
        let row = |(cpus, tids): &(&[u32], &[i32])| kasuri_model::ThreadMasks {
            since: kasuri_model::Time(MS),
            cpus: cpus.to_vec(),
            tids: tids.to_vec(),
        };
        trace.limits.masks = masks.iter().map(row).collect();
        let found = summary(&trace, &Options::default());
        let lost = ["interference", "scheduling_delay"].map(|class| {
            let of_class = found.account.causes.iter().filter(|c| c.class == class);
            of_class.map(|c| c.ns).sum::<i64>() / MS
        });
        (lost, found.hints.iter().find(|h| h.kind == "misplaced").map(|h| h.text.clone()))
    };
    let (lost, advice) = told(&[(&[0], &[10, 11])]);
    assert_eq!(lost, [0, 159]);
    let advice = advice.expect("a hint");
    assert!(advice.contains("of CPU time went to other programs while ready"), "{advice}");
    assert!(advice.contains("pinned to CPU 0, waited for CPU 0"), "{advice}");
    // 11 may be free, or is: only what 10 waits for is its mask's.
    assert_eq!(told(&[]), ([159, 0], None));
    for masks in [&[(&[0][..], &[10][..])][..], &[(&[0], &[10]), (&[0, 1], &[11])]] {
        let (lost, advice) = told(masks);
        assert_eq!(lost, [79, 80]);
        assert!(advice.expect("a hint").contains("0.080 s of CPU time went to other programs"));
    }
}
