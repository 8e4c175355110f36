//! Kernel events -> each export that holds events -> its import: the same threads, states, occupancy, wake-ups and counts, to the ns.
//!
//! The recordings are nonsense on purpose: any event may follow any, contexts contradict the switches (as where a kernel hides
//! some), events are lost in between, threads are born, die, and come back with the ids of others. What the passes make of it
//! need not be true; it must be the same on both sides.
use kasuri_export::{chrome, ctf, perfetto, trace_dat};
use kasuri_import::{File, Options, load};
use kasuri_model::input::{Event, LockStep, Setup, What};
use kasuri_model::{Input, StrIx, Strings, ThreadIx, ThreadState, Time, Trace};
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Write;
use std::rc::Rc;

/// What a random event is made of: CPU, time since the last, kind, two threads, a number, and who is said to run (0-2: who does).
type Draw = (u16, i64, u8, i32, i32, u8, i32);

const STATES: [ThreadState; 6] = [
    ThreadState::RunnablePreempted,
    ThreadState::Sleeping,
    ThreadState::DiskSleep,
    ThreadState::Stopped,
    ThreadState::Idle,
    ThreadState::Dead,
];

fn what(draw: &Draw, on_cpu: i32, context: i32, comm: StrIx, softirqs: bool) -> What {
    let &(cpu, _, kind, a, b, number, _) = draw;
    let left_as = STATES[usize::from(number) % STATES.len()];
    match kind {
        0..=9 => What::Switch {
            prev: if kind < 8 { on_cpu } else { a },
            prev_comm: comm,
            left_as,
            next: b,
            next_comm: comm,
        },
        10..=14 if a > 0 => What::Waking {
            tid: a,
            comm,
            cpu: i32::from(number % 3) - 1,
            in_softirq: softirqs && number % 7 == 0,
        },
        15 if a > 0 => What::Migrate { tid: a, from: cpu, to: u16::from(number % 2) },
        16 if a > 0 && a != b => What::Fork {
            parent: -1,
            child: a,
            comm,
            pid: None,
            same_process: Some(number % 2 == 0),
        },
        17 if a > 0 => What::Exit { tid: a, at_once: false },
        18 if a > 0 => {
            What::Exec { tid: a, old_tid: if number.is_multiple_of(2) { a } else { b.max(1) } }
        }
        19 if a > 0 => What::Rename { tid: a, comm },
        // The run time of the thread on this CPU, or of another.
        22 | 23 => {
            What::RunTime { tid: if a == 0 { context } else { a }, ns: u32::from(number) * 40 }
        }
        _ => What::LockCall { step: LockStep::Request, function: 0, object: 64, name: comm },
    }
}

fn recording(draws: &[Draw], n_cpus: u16, starts_late: bool) -> Trace {
    let mut strings = Strings::default();
    let comm = strings.intern("worker");
    let mut cpus: Vec<Vec<Event>> = vec![Vec::new(); usize::from(n_cpus)];
    let mut on_cpu = vec![0; usize::from(n_cpus)];
    let mut now = 10;
    let mut has_migrations = false;
    // Whether who was interrupted in a softirq is a waker is a matter of processes. Of threads whose ids were those of others before, formats
    // keep them in different ways: births (16) and execs (18).
    let softirqs = draws.iter().all(|draw| !matches!(draw.2, 16 | 18));
    for draw in draws {
        let cpu = draw.0 % n_cpus;
        let (at, events) = (usize::from(cpu), &mut cpus[usize::from(cpu)]);
        if draw.2 == 20 && draw.5 < 2 {
            // A gap begins with the event before it.
            if let Some(last) = events.last().copied() {
                let what = What::Lost;
                events.push(Event { what, ..last });
            }
            continue;
        }
        now += draw.1;
        let context = match draw.6 {
            0..3 => on_cpu[at],
            other => other - 4,
        };
        let what = what(draw, on_cpu[at], context, comm, softirqs);
        has_migrations |= matches!(what, What::Migrate { .. });
        let context = match what {
            What::Switch { prev, next, .. } => {
                on_cpu[at] = next;
                prev
            }
            _ => context,
        };
        events.push(Event {
            time: Time(now),
            context,
            in_interrupt: draw.5 == 7 && matches!(what, What::Waking { .. }),
            what,
        });
    }
    let setup = Setup {
        span: Time(0)..Time(now + 50),
        n_cpus: n_cpus.into(),
        recorded: (0..u32::from(n_cpus)).collect(),
        starts_late,
        has_migrations,
        keeps_events: true,
        ..Setup::default()
    };
    let input = Input { setup, strings, cpus, streams: Vec::new() };
    let mut trace = input.build().unwrap();
    trace.origin_monotonic_ns = 7_000_000_000_123;
    trace.info.recorder = "kasuri test".into();
    trace.info.kernel = "6.18.0".into();
    trace
}

fn read(files: &BTreeMap<String, Vec<u8>>) -> Trace {
    let files: Vec<File<'_>> = (files.iter()).map(|(name, bytes)| File { name, bytes }).collect();
    load(&files, &Options::default()).unwrap()
}

struct Memory(Rc<RefCell<BTreeMap<String, Vec<u8>>>>, String);

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut files = self.0.borrow_mut();
        files.entry(self.1.clone()).or_default().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The exports that hold events.
const FORMATS: [&str; 4] = ["trace-dat", "perfetto", "ctf", "chrome-json"];

fn through(format: &str, trace: &Trace) -> Trace {
    let mut bytes = Vec::new();
    let files = Rc::new(RefCell::new(BTreeMap::new()));
    match format {
        "perfetto" => drop(perfetto::write(trace, &mut bytes).unwrap()),
        "chrome-json" => drop(chrome::write(trace, &mut bytes).unwrap()),
        "trace-dat" => drop(trace_dat::write(trace, &mut bytes).unwrap()),
        _ => {
            let to = files.clone();
            let mut file = |name: &str| -> std::io::Result<ctf::File> {
                Ok(Box::new(Memory(to.clone(), name.to_owned())))
            };
            ctf::write(trace, ctf::Version::V1_8, &mut file).unwrap();
        }
    }
    let mut files = files.take();
    if files.is_empty() {
        files.insert(format.to_owned(), bytes);
    }
    read(&files)
}

fn tid(trace: &Trace, thread: ThreadIx) -> i32 {
    trace.threads.get(thread.ix()).map_or(0, |t| t.tid)
}

type Row = (i32, i64, i64, [u32; 3], Vec<(i64, ThreadState, u16, i32)>);

/// Each thread's life, counts and states.
fn threads(trace: &Trace) -> Vec<Row> {
    let row = |t: &kasuri_model::Thread| {
        let s = &trace.states;
        let state = |i: u32| {
            let i = i as usize;
            (s.start[i].0, s.state[i], s.cpu[i], tid(trace, s.by[i]))
        };
        let counts = [t.switches_in, t.switches_out, t.preemptions];
        let (start, end) = (t.alive.start.0, t.alive.end.0);
        (t.tid, start, end, counts, t.states.clone().map(state).collect())
    };
    let mut rows: Vec<Row> =
        (trace.threads.iter()).filter(|t| !t.states.is_empty()).map(row).collect();
    rows.sort();
    rows
}

fn occupancy(trace: &Trace) -> Vec<(usize, i64, i32, bool, u64)> {
    let o = &trace.occupancy;
    let row = |n: usize, i: u32, hidden| {
        let i = i as usize;
        (n, o.start[i].0, tid(trace, o.thread[i]), o.idle[i], hidden)
    };
    let cpus = trace.cpus.iter().enumerate();
    cpus.flat_map(|(n, c)| c.occupancy.clone().map(move |i| row(n, i, c.hidden_switches))).collect()
}

fn wakeups(trace: &Trace) -> Vec<(i64, i32, i32, u16, i64)> {
    let w = &trace.wakeups;
    let row = |i: usize| {
        let (waker, wakee) = (tid(trace, w.waker[i]), tid(trace, w.wakee[i]));
        (w.time[i].0, waker, wakee, w.cpu[i], w.latency[i].0)
    };
    (0..w.time.len()).map(row).collect()
}

fn migrations(trace: &Trace) -> Vec<(i64, i32, u16, u16)> {
    let m = &trace.migrations;
    let row = |i: usize| (m.time[i].0, tid(trace, m.thread[i]), m.from_cpu[i], m.to_cpu[i]);
    (0..m.time.len()).map(row).collect()
}

fn counted(trace: &Trace) -> Vec<(i32, i64, Option<i64>)> {
    let known = trace.threads.iter().filter(|t| !t.states.is_empty());
    let row = |t: &kasuri_model::Thread| (t.tid, t.alive.start.0, t.counted.map(|d| d.ns()));
    let mut rows: Vec<_> = known.map(row).collect();
    rows.sort();
    rows
}

fn same(format: &str, was: &Trace, is: &Trace) {
    assert_eq!(counted(was), counted(is), "{format}");
    assert_eq!(was.span, is.span, "{format}");
    assert_eq!(threads(was), threads(is), "{format}");
    assert_eq!(occupancy(was), occupancy(is), "{format}");
    assert_eq!(wakeups(was), wakeups(is), "{format}");
    assert_eq!(migrations(was), migrations(is), "{format}");
}

fn draw() -> impl Strategy<Value = Draw> {
    (0u16..2, 1i64..200, 0u8..24, 0i32..8, 0i32..8, 0u8..8, 0i32..12)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_events_come_back_through_every_export(
        draws in prop::collection::vec(draw(), 1..120),
        n_cpus in 1u16..3,
        starts_late: bool,
    ) {
        // Another tool's trace without one switch tells no states: its switches may not have been recorded.
        prop_assume!(draws.iter().any(|draw| draw.2 <= 9));
        let was = recording(&draws, n_cpus, starts_late);
        for format in FORMATS {
            same(format, &was, &through(format, &was));
        }
    }
}

/// By hand: a hidden switch, a gap, a birth and a death at the gap's borders, a tid that is used again.
#[test]
fn hidden_switches_gaps_births_and_deaths_come_back() {
    let sleeps = 1;
    let dies = 5;
    let draws: Vec<Draw> = vec![
        (0, 10, 0, 0, 1, 0, 0),      // CPU 0: 1 runs
        (1, 10, 0, 0, 2, 0, 0),      // CPU 1: 2 runs
        (0, 10, 16, 3, 0, 0, 0),     // 1 makes 3
        (0, 10, 10, 3, 0, 1, 0),     // and wakes it
        (1, 10, 20, 0, 0, 0, 0),     // CPU 1 loses events
        (1, 90, 10, 1, 0, 2, 3 + 4), // 3 is found on CPU 1: a hidden switch
        (1, 10, 8, 3, 4, dies, 0),   // 3 dies
        (0, 10, 0, 0, 0, sleeps, 0), // 1 sleeps, CPU 0 idle
        (0, 10, 10, 2, 0, 1, 0),     // an interrupt
        (0, 10, 21, 0, 0, 0, 1 + 4), // and 1 is found there: not woken
        (0, 10, 16, 3, 0, 1, 0),     // a new 3
        (0, 10, 20, 0, 0, 0, 0),     // CPU 0 loses events
        (0, 10, 0, 0, 3, 0, 0),
    ];
    let was = recording(&draws, 2, false);
    assert!(was.cpus.iter().any(|cpu| cpu.hidden_switches > 0));
    let of_three = was.threads.iter().filter(|t| t.tid == 3).count();
    assert_eq!(of_three, 2);
    assert!(was.states.state.contains(&ThreadState::Unknown));
    for format in FORMATS {
        same(format, &was, &through(format, &was));
    }
}

#[test]
fn runs_that_run_times_placed_come_back() {
    let draws: Vec<Draw> = vec![
        (0, 10, 0, 0, 1, 0, 0),  // CPU 0: 1 runs
        (1, 10, 0, 0, 2, 0, 0),  // CPU 1: 2 runs
        (1, 10, 0, 0, 0, 1, 0),  // 2 sleeps, CPU 1 idle
        (0, 10, 10, 2, 0, 2, 0), // 1 wakes it
        (0, 90, 22, 2, 0, 1, 0), // and counts 40 ns of it
        (1, 50, 22, 0, 0, 1, 6), // 2 is found on CPU 1, and counts 40 ns more
        (1, 10, 8, 2, 0, 1, 0),  // it sleeps
    ];
    let was = recording(&draws, 2, false);
    assert_eq!(was.cpus[1].placed_switches, 1);
    let of_two = threads(&was).into_iter().find(|row| row.0 == 2).unwrap();
    let run = (200 - 80, ThreadState::Running, 1, 0);
    assert!(of_two.4.contains(&run), "{of_two:?}");
    for format in FORMATS {
        same(format, &was, &through(format, &was));
    }
}

/// Files of other tools: gaps before the first event, also of no length, several buffers, other clocks.
#[test]
fn traces_of_trace_cmd_come_back() {
    for name in ["lost.dat", "instances.dat", "tsc.dat", "offset.dat"] {
        let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/trace-dat/");
        let bytes = std::fs::read(format!("{golden}{name}")).unwrap();
        let options = Options { keeps_events: true, ..Options::default() };
        let file = File { name, bytes: &bytes };
        let was = load(&[file], &options).unwrap();
        for format in FORMATS {
            same(format, &was, &through(format, &was));
        }
    }
}

#[test]
fn a_trace_without_its_events_is_refused() {
    let mut trace = recording(&[(0, 10, 0, 0, 1, 0, 0)], 1, false);
    trace.sched_events = None;
    let error = perfetto::write(&trace, &mut Vec::new()).unwrap_err();
    assert!(error.to_string().contains("not kept"), "{error}");
}
