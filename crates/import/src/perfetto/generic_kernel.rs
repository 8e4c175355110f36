//! Threads' states on kernels other than Linux, as events of the CPUs that told them.
//!
//! An event says what state a thread is in from now on, not who ran before. A CPU's running thread is the last one that it told to
//! run; when another runs without a word about it, its state is unknown from then on. Of a thread that does not run, a birth, a wake-up
//! and a death are told; the model has no other change of it.
use super::cpu::MAX_CPUS;
use kasuri_format::perfetto::{Task, TaskState};
use kasuri_model::input::{Event, KnownThread, What};
use kasuri_model::{StrIx, Strings, ThreadState, Time};
use std::collections::{BTreeMap, HashMap};

/// One event.
#[derive(Clone, Copy, Debug)]
struct Told {
    time: Time,
    /// The CPU that told it; none: not said.
    cpu: Option<u16>,
    tid: i32,
    comm: StrIx,
    /// `TaskStateEnum`; 0 with a name: a rename.
    state: u64,
}

/// Numbers of `TaskStateEnum`.
const CREATED: u64 = 1;
const RUNNABLE: u64 = 2;
const RUNNING: u64 = 3;
const DEAD: u64 = 7;
const DESTROYED: u64 = 8;

/// All events, in the order of the file.
#[derive(Debug, Default)]
pub(super) struct GenericKernel {
    told: Vec<Told>,
    /// Events of threads or CPUs with numbers that do not fit.
    n_odd: u64,
    /// Changes of threads that do not run, between states in which they do not.
    n_hidden: u64,
}

impl GenericKernel {
    /// Takes in a thread's new state.
    pub fn state(&mut self, time: i64, task: &TaskState, strings: &mut Strings) {
        let cpu = match u16::try_from(task.cpu) {
            Ok(cpu) if u32::from(cpu) < MAX_CPUS => Some(cpu),
            _ => None,
        };
        // Only a thread that begins to run needs a CPU.
        match i32::try_from(task.tid) {
            Ok(tid) if tid > 0 && (cpu.is_some() || task.state != RUNNING) => {
                self.told.push(Told {
                    time: Time(time),
                    cpu,
                    tid,
                    comm: strings.intern(&task.comm),
                    state: task.state,
                })
            }
            _ => self.n_odd += 1,
        }
    }

    /// Takes in a thread's new name.
    pub fn rename(&mut self, time: i64, tid: i64, comm: &str, strings: &mut Strings) {
        let Ok(tid) = i32::try_from(tid) else {
            self.n_odd += 1;
            return;
        };
        self.told.push(Told {
            time: Time(time),
            cpu: None,
            tid,
            comm: strings.intern(comm),
            state: 0,
        });
    }

    /// The stamps of the first and the last event, ns.
    pub fn span(&self) -> Option<(i64, i64)> {
        let times = || self.told.iter().map(|told| told.time.0);
        Some((times().min()?, times().max()?))
    }

    /// The events of each CPU, in order of time. What no CPU told is the first's, or that of the CPU that runs the thread.
    pub fn events(&mut self) -> BTreeMap<u16, Vec<Event>> {
        let mut told = std::mem::take(&mut self.told);
        told.sort_by_key(|told| told.time);
        let mut cpus = Cpus::default();
        for e in &told {
            if !cpus.take(e) {
                self.n_hidden += 1;
            }
        }
        cpus.events
    }

    /// What is to be said about them; call after [`GenericKernel::events`].
    pub fn told(&self) -> Vec<String> {
        [
            (
                self.n_odd,
                "states of threads with an id above 2^31, or that run on an impossible CPU: they are left out",
            ),
            (
                self.n_hidden,
                "changes between states in which a thread does not run: they are left out",
            ),
        ]
        .into_iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, what)| format!("{n} {what}"))
        .collect()
    }
}

/// What the CPUs run.
#[derive(Debug, Default)]
struct Cpus {
    events: BTreeMap<u16, Vec<Event>>,
    /// The running thread of each CPU, and the CPU of each running thread.
    running: HashMap<u16, i32>,
    on: HashMap<i32, u16>,
    names: HashMap<i32, StrIx>,
}

impl Cpus {
    fn push(&mut self, cpu: u16, time: Time, what: What) {
        let context = self.running.get(&cpu).copied().unwrap_or(-1);
        self.events.entry(cpu).or_default().push(Event {
            time,
            context,
            in_interrupt: false,
            what,
        });
    }

    /// Takes in the next event. False: the model has no word for it.
    fn take(&mut self, e: &Told) -> bool {
        let (tid, comm) = (e.tid, e.comm);
        let at = self.on.get(&tid).copied();
        let cpu = at.or(e.cpu).unwrap_or(0);
        let is_new_name = comm.is_some() && self.names.insert(tid, comm) != Some(comm);
        if is_new_name && e.state != CREATED {
            self.push(cpu, e.time, What::Rename { tid, comm });
        }
        match (e.state, at) {
            (0, _) => {}
            (CREATED, _) => {
                let birth =
                    What::Fork { parent: -1, child: tid, comm, pid: None, same_process: None };
                self.push(cpu, e.time, birth);
            }
            (RUNNING, _) => self.run(e, at),
            (state, Some(cpu)) => {
                if matches!(state, DEAD | DESTROYED) {
                    let at_once = false;
                    self.push(cpu, e.time, What::Exit { tid, at_once });
                }
                self.leave(cpu, e.time, tid, left_as(state));
            }
            (RUNNABLE, None) => {
                let queue = e.cpu.map_or(-1, i32::from);
                self.push(cpu, e.time, What::Waking { tid, comm, cpu: queue, in_softirq: false });
            }
            (DEAD | DESTROYED, None) => {
                self.push(cpu, e.time, What::Exit { tid, at_once: true });
            }
            _ => return false,
        }
        true
    }

    /// A thread runs from now on.
    fn run(&mut self, e: &Told, at: Option<u16>) {
        let Some(cpu) = e.cpu.filter(|&cpu| at != Some(cpu)) else {
            return;
        };
        if let Some(before) = at {
            self.leave(before, e.time, e.tid, ThreadState::Unknown);
        }
        let what = match self.running.get(&cpu).copied() {
            None => What::In { tid: e.tid },
            Some(prev) => {
                self.on.remove(&prev);
                What::Switch {
                    prev,
                    prev_comm: StrIx::NONE,
                    left_as: ThreadState::Unknown,
                    next: e.tid,
                    next_comm: e.comm,
                }
            }
        };
        self.push(cpu, e.time, what);
        self.running.insert(cpu, e.tid);
        self.on.insert(e.tid, cpu);
    }

    /// A thread leaves its CPU.
    fn leave(&mut self, cpu: u16, time: Time, tid: i32, left_as: ThreadState) {
        self.push(cpu, time, What::Out { tid, left_as });
        self.running.remove(&cpu);
        self.on.remove(&tid);
    }
}

/// The state of a thread that left its CPU.
fn left_as(state: u64) -> ThreadState {
    match state {
        RUNNABLE => ThreadState::RunnablePreempted,
        4 => ThreadState::Sleeping,
        5 => ThreadState::DiskSleep,
        6 => ThreadState::Stopped,
        DEAD | DESTROYED => ThreadState::Dead,
        _ => ThreadState::Unknown,
    }
}

/// A process or thread that is known; none: its id does not fit, or it is the idle thread.
pub(super) fn known(time: Time, task: &Task) -> Option<KnownThread> {
    let number = |n: i64| i32::try_from(n).ok();
    let pid = number(task.pid)?;
    let tid = if task.tid == 0 { pid } else { number(task.tid)? };
    (tid > 0 && !task.is_idle).then(|| KnownThread {
        time,
        pid: if pid > 0 { pid } else { tid },
        tid,
        ppid: number(task.ppid).unwrap_or(0),
        comm: task.name.rsplit('/').next().unwrap_or_default().to_owned(),
    })
}
