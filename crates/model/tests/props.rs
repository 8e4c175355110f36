//! Random schedules whose truth a small simulator knows, and random nonsense, which must keep the tables' rules.
//!
//! The simulator moves threads between CPUs, queues and sleep, and writes the events that a kernel would write; the model must
//! find the simulator's states again, also where some switches are hidden and only run times tell of them.
use ThreadState::*;
use kasuri_base::annotation::Kind;
use kasuri_model::input::{Annotation, Event, Setup, What};
use kasuri_model::{AnnotationVec, Input, StrIx, Strings, ThreadState, Time, Trace};
use proptest::prelude::*;

const END: i64 = 10_000;

/// What the simulator's choices are made of.
#[derive(Clone, Copy, Debug)]
struct Step {
    wait: i64,
    cpu: usize,
    thread: usize,
    action: u8,
}

/// A machine of CPUs and threads that does what the steps say and writes what Linux would write about it.
struct Machine {
    now: i64,
    on_cpu: Vec<Option<usize>>,
    state: Vec<ThreadState>,
    cpu_of: Vec<u16>,
    /// Truth: (start, state) of each thread.
    truth: Vec<Vec<(i64, ThreadState)>>,
    events: Vec<Vec<Event>>,
    wakeups: u64,
    switches: u64,
    /// Switches from idle are not written, and run times are.
    hides: bool,
    /// When the thread on each CPU came, or its run time was last written.
    counted_at: Vec<i64>,
}

impl Machine {
    /// The first threads run at the start, the others sleep.
    fn new(n_cpus: usize, n_threads: usize) -> Machine {
        let running = n_cpus.min(n_threads);
        Machine {
            now: 0,
            on_cpu: (0..n_cpus).map(|c| (c < running).then_some(c)).collect(),
            state: (0..n_threads).map(|t| if t < running { Running } else { Sleeping }).collect(),
            cpu_of: (0..n_threads).map(|t| (t % n_cpus) as u16).collect(),
            // Of a thread that has not been seen yet, nothing is known.
            truth: (0..n_threads)
                .map(|t| vec![(0, if t < running { Running } else { Unknown })])
                .collect(),
            events: vec![Vec::new(); n_cpus],
            wakeups: 0,
            switches: 0,
            hides: false,
            counted_at: vec![0; n_cpus],
        }
    }

    fn tid(thread: Option<usize>) -> i32 {
        thread.map_or(0, |t| t as i32 + 100)
    }

    fn become_(&mut self, thread: usize, state: ThreadState) {
        self.state[thread] = state;
        self.truth[thread].push((self.now, state));
    }

    fn emit(&mut self, cpu: usize, what: What) {
        let context = Machine::tid(self.on_cpu[cpu]);
        self.events[cpu].push(Event { time: Time(self.now), context, in_interrupt: false, what });
    }

    /// As the kernel does at each tick, and of who leaves; `at`: the CPU that writes it.
    fn count(&mut self, at: usize, cpu: usize) {
        if let (true, Some(thread)) = (self.hides, self.on_cpu[cpu]) {
            let ns = (self.now - self.counted_at[cpu]) as u32;
            let tid = Machine::tid(Some(thread));
            self.emit(at, What::RunTime { tid, ns });
        }
        self.counted_at[cpu] = self.now;
    }

    fn step(&mut self, step: Step) {
        self.now += step.wait;
        let (cpu, thread) = (step.cpu % self.on_cpu.len(), step.thread % self.state.len());
        match step.action {
            // The thread that runs on the CPU wakes the other one.
            0 | 1 if matches!(self.state[thread], Sleeping | DiskSleep) => {
                let name = StrIx::NONE;
                self.count(cpu, usize::from(self.cpu_of[thread]));
                self.emit(
                    cpu,
                    What::Waking {
                        tid: Machine::tid(Some(thread)),
                        comm: name,
                        cpu: i32::from(self.cpu_of[thread]),
                        in_softirq: false,
                    },
                );
                self.become_(thread, RunnableWoken);
                self.wakeups += 1;
            }
            // The CPU switches to the thread if that is ready, else to idle. The thread before it sleeps or is preempted.
            action => {
                let next = matches!(self.state[thread], RunnableWoken | RunnablePreempted)
                    .then_some(thread);
                let prev = self.on_cpu[cpu];
                if next == prev {
                    return;
                }
                let left_as = [Sleeping, DiskSleep, RunnablePreempted][usize::from(action % 3)];
                let (prev_tid, next_tid, name) =
                    (Machine::tid(prev), Machine::tid(next), StrIx::NONE);
                self.count(cpu, cpu);
                if !self.hides || prev.is_some() {
                    self.emit(
                        cpu,
                        What::Switch {
                            prev: prev_tid,
                            prev_comm: name,
                            left_as,
                            next: next_tid,
                            next_comm: name,
                        },
                    );
                }
                if let Some(prev) = prev {
                    self.become_(prev, left_as);
                    self.switches += 1;
                }
                if let Some(next) = next {
                    self.become_(next, Running);
                    self.cpu_of[next] = cpu as u16;
                }
                self.on_cpu[cpu] = next;
            }
        }
    }

    fn load(self) -> (Trace, Machine) {
        let setup =
            Setup { span: Time(0)..Time(END), n_cpus: self.on_cpu.len(), ..Setup::default() };
        let trace = Input { setup, cpus: self.events.clone(), ..Input::default() }.build().unwrap();
        (trace, self)
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (1i64..20, 0usize..4, 0usize..7, 0u8..6)
        .prop_map(|(wait, cpu, thread, action)| Step { wait, cpu, thread, action });
    prop::collection::vec(step, 1..400)
}

fn states_of(trace: &Trace, tid: i32) -> Vec<(i64, ThreadState)> {
    let Some(ix) = trace.threads.iter().position(|t| t.tid == tid) else {
        return Vec::new();
    };
    trace.states_of(kasuri_model::ThreadIx(ix as u32)).map(|r| (r.start.0, r.state)).collect()
}

fn what() -> impl Strategy<Value = What> {
    let tid = prop_oneof![0i32..6, Just(-1), Just(i32::MAX)];
    let state = prop_oneof![Just(Sleeping), Just(RunnablePreempted), Just(Dead), Just(DiskSleep)];
    let name = StrIx::NONE;
    prop_oneof![
        4 => (tid.clone(), state.clone(), tid.clone()).prop_map(move |(prev, left_as, next)| What::Switch { prev, prev_comm: name, left_as, next, next_comm: name }),
        3 => (tid.clone(), -1i32..4).prop_map(move |(tid, cpu)| What::Waking { tid, comm: name, cpu, in_softirq: cpu == 1 }),
        1 => (tid.clone(), 0u16..9, 0u16..9).prop_map(|(tid, from, to)| What::Migrate { tid, from, to }),
        1 => (tid.clone(), tid.clone(), any::<Option<bool>>(), prop::option::of(0i32..4)).prop_map(move |(parent, child, same_process, pid)| What::Fork { parent, child, comm: name, pid, same_process }),
        1 => (tid.clone(), tid.clone()).prop_map(|(tid, old_tid)| What::Exec { tid, old_tid }),
        1 => (tid.clone(), any::<bool>()).prop_map(|(tid, at_once)| What::Exit { tid, at_once }),
        1 => Just(What::Lost),
        2 => (tid.clone(), prop_oneof![0u32..99, Just(u32::MAX)]).prop_map(|(tid, ns)| What::RunTime { tid, ns }),
        1 => tid.clone().prop_map(|tid| What::In { tid }),
        1 => (tid, state).prop_map(|(tid, left_as)| What::Out { tid, left_as }),
        1 => prop_oneof![Just(What::IrqEntry { name: StrIx::NONE }), Just(What::IrqExit), Just(What::SyscallEntry { name: StrIx::NONE }), Just(What::SyscallExit)],
    ]
}

fn nonsense() -> impl Strategy<Value = Vec<Vec<Event>>> {
    let time = prop_oneof![20 => 0i64..200, 1 => Just(i64::MIN), 1 => Just(i64::MAX)];
    let event =
        (time, -1i32..6, any::<bool>(), what()).prop_map(|(ns, context, in_interrupt, what)| {
            Event { time: Time(ns), context, in_interrupt, what }
        });
    prop::collection::vec(prop::collection::vec(event, 0..60), 1..4)
}

fn streams() -> impl Strategy<Value = Vec<AnnotationVec>> {
    let event = (0i64..300, 0u8..24, 0u16..6, prop::option::of(0u32..4), 0u64..4, 0u64..4)
        .prop_map(|(ns, kind, aux, name, a, b)| Annotation {
            time: Time(ns),
            kind,
            aux,
            name: name.map_or(StrIx::NONE, StrIx),
            a,
            b,
        });
    let stream = (0i32..3, 0i32..5, prop::collection::vec(event, 0..120)).prop_map(
        |(pid, tid, mut events)| {
            events.sort_by_key(|e: &Annotation| e.time);
            AnnotationVec { pid, tid, events, at: 0 }
        },
    );
    prop::collection::vec(stream, 0..5)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn schedules_are_read_as_they_were_made(steps in steps(), n_cpus in 1usize..4, n_threads in 1usize..7) {
        let mut machine = Machine::new(n_cpus, n_threads);
        steps.iter().for_each(|&step| machine.step(step));
        let (trace, machine) = machine.load();
        prop_assert_eq!(trace.broken_rules(), Vec::<String>::new());
        prop_assert_eq!(trace.disagreements(), Vec::<String>::new());
        for (thread, truth) in machine.truth.iter().enumerate() {
            let got = states_of(&trace, Machine::tid(Some(thread)));
            // A thread that no event names is not in the tables.
            let mentioned = !got.is_empty();
            prop_assert!(mentioned || truth.len() == 1, "tid {} is missing", Machine::tid(Some(thread)));
            if mentioned {
                prop_assert_eq!(&got, truth, "tid {}", Machine::tid(Some(thread)));
            }
        }
        prop_assert_eq!(trace.wakeups.time.len() as u64, machine.wakeups);
        let switches: u64 = trace.threads.iter().map(|t| u64::from(t.switches_out)).sum();
        prop_assert_eq!(switches, machine.switches);
    }

    #[test]
    fn hidden_switches_are_placed_by_run_times(steps in steps(), n_cpus in 1usize..4, n_threads in 1usize..7) {
        let mut machine = Machine::new(n_cpus, n_threads);
        machine.hides = true;
        // An event on each CPU says which thread is there at the start.
        (0..n_cpus).for_each(|cpu| machine.emit(cpu, What::IrqExit));
        steps.iter().for_each(|&step| machine.step(step));
        // A thread without an event of its own cannot be found: so each that runs has one.
        for cpu in 0..n_cpus {
            if let Some(thread) = machine.on_cpu[cpu] {
                machine.step(Step { wait: 5, cpu, thread, action: 3 });
            }
        }
        let (trace, machine) = machine.load();
        prop_assert_eq!(trace.broken_rules(), Vec::<String>::new());
        prop_assert_eq!(trace.disagreements(), Vec::<String>::new());
        for (thread, truth) in machine.truth.iter().enumerate() {
            let tid = Machine::tid(Some(thread));
            let got = states_of(&trace, tid);
            let mentioned = !got.is_empty();
            prop_assert!(mentioned || truth.len() == 1, "tid {tid} is missing");
            if !mentioned {
                continue;
            }
            prop_assert_eq!(&got, truth, "tid {}", tid);
            let ends = truth.iter().skip(1).map(|(start, _)| *start).chain([END]);
            let runs = truth.iter().zip(ends).filter(|((_, state), _)| *state == Running);
            let ran: i64 = runs.map(|((start, _), end)| end - start).sum();
            let row = trace.threads.iter().find(|t| t.tid == tid).expect("it is there");
            prop_assert_eq!(row.counted.map_or(0, |d| d.ns()), ran, "tid {}", tid);
        }
    }

    #[test]
    fn nonsense_keeps_the_rules(cpus in nonsense(), streams in streams(), starts_late in any::<bool>()) {
        let mut strings = Strings::default();
        ["a", "b", "c", "d"].iter().for_each(|name| { strings.intern(name); });
        let setup = Setup { span: Time(10)..Time(150), n_cpus: 2, starts_late, ..Setup::default() };
        let trace = Input { setup, strings, cpus, streams }.build().unwrap();
        prop_assert_eq!(trace.broken_rules(), Vec::<String>::new());
    }
}

#[test]
fn the_rules_can_be_broken() {
    // Negative control: a checker that never complains would pass everything above.
    let mut machine = Machine::new(2, 3);
    for (n, action) in [2u8, 0, 2, 1, 4, 2, 0, 5].into_iter().enumerate() {
        machine.step(Step { wait: 5, cpu: n, thread: n, action });
    }
    let (trace, _) = machine.load();
    assert_eq!(trace.broken_rules(), Vec::<String>::new());
    let mut gap = trace.clone();
    gap.threads[0].alive.start = Time(-1);
    assert!(!gap.broken_rules().is_empty());
    let mut longer = trace.clone();
    longer.states.start.pop();
    assert!(!longer.broken_rules().is_empty());
    let mut other = trace;
    other.occupancy.thread.iter_mut().for_each(|t| *t = kasuri_model::ThreadIx::NONE);
    assert!(!other.disagreements().is_empty());
    assert_eq!(Kind::Begin as u8, 1, "the kinds above are those of kasuri.h");
}
