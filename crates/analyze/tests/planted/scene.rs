//! A machine whose truth is known because this code is the machine: P CPUs, a thread of the program on each, strangers.
//! It writes what Linux and the program would write about what happens, and adds up what that cost, by class and name.
use kasuri_model::input::{Annotation, Event, Setup, What};
use kasuri_model::{AnnotationVec, Input, StrIx, Strings, ThreadState, Time, Trace};
use std::collections::BTreeMap;

/// The program's process; its threads are PID, PID + 1, ...
pub const PID: i32 = 100;
/// Threads of other programs: STRANGER + CPU.
pub const STRANGER: i32 = 900;

/// Names of losses and their time: (class, name).
pub type Truth = BTreeMap<(&'static str, &'static str), i64>;

/// Event kinds of kasuri.h.
pub const BEGIN: u8 = 1;
pub const END: u8 = 2;
pub const WAIT_BEGIN: u8 = 5;
pub const WAIT_END: u8 = 6;
pub const LOCK_REQUEST: u8 = 7;
pub const LOCK_ACQUIRED: u8 = 8;
pub const LOCK_RELEASED: u8 = 9;
/// `aux` of waits.
pub const BARRIER: u16 = 1;
pub const JOIN: u16 = 2;
pub const COND: u16 = 3;
pub const IO: u16 = 4;

/// Numbers that look like chance (splitmix64).
pub struct Dice(pub u64);

impl Dice {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// from..to, without to.
    pub fn range(&mut self, from: i64, to: i64) -> i64 {
        from + (self.next() % (to - from).max(1) as u64) as i64
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.next().is_multiple_of(n)
    }
}

/// What wakes a thread.
#[derive(Clone, Copy)]
pub enum Waker {
    /// The program's thread of that CPU.
    Thread(usize),
    /// An interrupt on the wakee's idle CPU.
    Interrupt,
}

pub struct Scene {
    pub n: usize,
    /// From when on each thread of the program runs freely on its CPU.
    pub now: Vec<i64>,
    pub truth: Truth,
    /// How long strangers kept each thread off its CPU since its last barrier.
    pub delay: Vec<i64>,
    strings: Strings,
    cpus: Vec<Vec<Event>>,
    annotations: Vec<Vec<Annotation>>,
    /// Threads that were made for a while: (tid, annotations).
    extras: Vec<(i32, Vec<Annotation>)>,
}

impl Scene {
    pub fn new(n: usize) -> Scene {
        let mut strings = Strings::default();
        strings.intern("program");
        Scene {
            n,
            now: vec![0; n],
            truth: Truth::new(),
            delay: vec![0; n],
            strings,
            cpus: vec![Vec::new(); n],
            annotations: vec![Vec::new(); n],
            extras: Vec::new(),
        }
    }

    pub fn add(&mut self, class: &'static str, name: &'static str, ns: i64) {
        assert!(ns >= 0, "{class} {name} {ns}");
        if ns > 0 {
            *self.truth.entry((class, name)).or_default() += ns;
        }
    }

    pub fn tid(thread: usize) -> i32 {
        PID + thread as i32
    }

    fn comm(&mut self, tid: i32) -> StrIx {
        self.strings.intern(match tid {
            0 => "swapper",
            t if t >= STRANGER => "chrome",
            _ => "program",
        })
    }

    fn emit(&mut self, cpu: usize, ns: i64, context: i32, in_interrupt: bool, what: What) {
        self.cpus[cpu].push(Event { time: Time(ns), context, in_interrupt, what });
    }

    pub fn switch(&mut self, cpu: usize, ns: i64, prev: i32, left_as: ThreadState, next: i32) {
        let (prev_comm, next_comm) = (self.comm(prev), self.comm(next));
        let what = What::Switch { prev, prev_comm, left_as, next, next_comm };
        self.emit(cpu, ns, prev, false, what);
    }

    fn waking(&mut self, on_cpu: usize, ns: i64, context: i32, tid: i32, cpu: usize) {
        let comm = self.comm(tid);
        let what = What::Waking { tid, comm, cpu: cpu as i32, in_softirq: false };
        self.emit(on_cpu, ns, context, context == 0, what);
    }

    pub fn fork(&mut self, cpu: usize, ns: i64, child: i32) {
        let comm = self.comm(child);
        let what = What::Fork {
            parent: Scene::tid(cpu),
            child,
            comm,
            pid: None,
            same_process: Some(true),
        };
        self.emit(cpu, ns, Scene::tid(cpu), false, what);
    }

    /// The thread sleeps and its CPU idles. It is woken at `to`, and runs `latency` later: that is delay of scheduling.
    pub fn sleep(
        &mut self,
        thread: usize,
        from: i64,
        to: i64,
        state: ThreadState,
        waker: Waker,
        latency: i64,
    ) {
        let tid = Scene::tid(thread);
        self.switch(thread, from, tid, state, 0);
        match waker {
            Waker::Thread(by) => self.waking(by, to, Scene::tid(by), tid, thread),
            Waker::Interrupt => self.waking(thread, to, 0, tid, thread),
        }
        self.switch(thread, to + latency, 0, ThreadState::RunnablePreempted, tid);
        self.add("scheduling_delay", "", latency);
    }

    /// The same, and another program uses the idle CPU in the middle of it, which delays no thread of the program.
    pub fn sleep_while_a_stranger_runs(&mut self, thread: usize, from: i64, to: i64) {
        let (tid, stranger) = (Scene::tid(thread), STRANGER + thread as i32);
        let third = (to - from) / 3;
        self.switch(thread, from, tid, ThreadState::Sleeping, 0);
        self.waking(thread, from + third, 0, stranger, thread);
        self.switch(thread, from + third, 0, ThreadState::RunnablePreempted, stranger);
        self.switch(thread, to - third, stranger, ThreadState::Sleeping, 0);
        self.waking(thread, to, 0, tid, thread);
        self.switch(thread, to, 0, ThreadState::RunnablePreempted, tid);
    }

    /// The thread `context`, which runs on `on_cpu`, wakes a thread of the program.
    pub fn wake_from(&mut self, on_cpu: usize, context: i32, ns: i64, thread: usize) {
        self.waking(on_cpu, ns, context, Scene::tid(thread), thread);
    }

    /// A stranger takes the CPU from the thread.
    pub fn preempt(&mut self, thread: usize, from: i64, to: i64) {
        let (tid, stranger) = (Scene::tid(thread), STRANGER + thread as i32);
        self.switch(thread, from, tid, ThreadState::RunnablePreempted, stranger);
        self.switch(thread, to, stranger, ThreadState::Sleeping, tid);
        self.delay[thread] += to - from;
        self.add("interference", "chrome", to - from);
    }

    fn annotation(&mut self, ns: i64, kind: u8, aux: u16, name: &str, object: u64) -> Annotation {
        Annotation { time: Time(ns), kind, aux, name: self.strings.intern(name), a: object, b: 0 }
    }

    pub fn annotate(
        &mut self,
        thread: usize,
        ns: i64,
        kind: u8,
        aux: u16,
        name: &str,
        object: u64,
    ) {
        let event = self.annotation(ns, kind, aux, name, object);
        self.annotations[thread].push(event);
    }

    /// A wait that is annotated.
    pub fn wait(
        &mut self,
        thread: usize,
        from: i64,
        to: i64,
        kind: u16,
        name: &'static str,
        object: u64,
    ) {
        self.annotate(thread, from, WAIT_BEGIN, kind, name, object);
        self.annotate(thread, to, WAIT_END, kind, name, object);
    }

    /// What a thread that lived for a while said, with its thread id.
    pub fn extra(&mut self, tid: i32, waits: &[(i64, i64, &'static str, u64)]) {
        let mut events = Vec::new();
        for &(from, to, name, object) in waits {
            events.push(self.annotation(from, WAIT_BEGIN, BARRIER, name, object));
            events.push(self.annotation(to, WAIT_END, BARRIER, name, object));
        }
        self.extras.push((tid, events));
    }

    pub fn latest(&self) -> i64 {
        self.now.iter().copied().max().unwrap_or(0)
    }

    /// All work until `end`; the recording ends there. What is not a loss was work.
    pub fn finish(mut self, end: i64) -> (Trace, Truth) {
        // Each CPU's first event says who was on it from the start on.
        for cpu in 0..self.n {
            self.cpus[cpu].sort_by_key(|e| e.time);
            let comm = self.comm(Scene::tid(cpu));
            let tid = Scene::tid(cpu);
            let rename = Event {
                time: Time(0),
                context: tid,
                in_interrupt: false,
                what: What::Rename { tid, comm },
            };
            self.cpus[cpu].insert(0, rename);
        }
        let lost: i64 = self.truth.values().sum();
        let work = end * self.n as i64 - lost;
        self.add("work", "", work);
        let streams = (self.annotations.into_iter().enumerate())
            .map(|(thread, events)| (Scene::tid(thread), events))
            .chain(self.extras)
            .map(|(tid, mut events)| {
                events.sort_by_key(|e| e.time);
                AnnotationVec { pid: PID, tid, events, at: 0 }
            })
            .collect();
        let known = (0..self.n)
            .map(|thread| kasuri_model::input::KnownThread {
                time: Time(0),
                pid: PID,
                tid: Scene::tid(thread),
                ppid: 1,
                comm: "program".into(),
            })
            .collect();
        let setup = Setup {
            span: Time(0)..Time(end),
            n_cpus: self.n,
            root_pids: vec![PID],
            recorded: (0..self.n as u32).collect(),
            known,
            has_migrations: true,
            ..Setup::default()
        };
        let input = Input { setup, strings: self.strings, cpus: self.cpus, streams };
        let mut trace = input.build().unwrap();
        trace.info.kernel_source = "tracefs".into();
        (trace, self.truth)
    }
}
