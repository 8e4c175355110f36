//! Traces told in a few lines, for the tests beside this file: which thread runs on which CPU from when to when, which thread
//! wakes which, what is annotated. The story becomes events as the kernel and the program would write them.
use kasuri_analyze::account::{Account, Class, Sums};
use kasuri_model::input::{Annotation, Event, Setup, What};
use kasuri_model::{AnnotationVec, Input, StrIx, Strings, ThreadState, Time, Trace};

/// Annotation kinds, as kasuri.h numbers them.
pub const BEGIN: u8 = 1;
pub const END: u8 = 2;
pub const WAIT_BEGIN: u8 = 5;
pub const WAIT_END: u8 = 6;
pub const LOCK_REQUEST: u8 = 7;
pub const LOCK_ACQUIRED: u8 = 8;
pub const LOCK_RELEASED: u8 = 9;

/// Wait kinds.
pub const BARRIER: u16 = 1;

/// The thread that is the recorder.
pub const RECORDER: i32 = 99;
/// The thread of the kernel's that serves devices.
pub const KWORKER: i32 = 98;

/// What one trace is made of. Process 10 is the target with threads 10..19; 90 and above are strangers; times are shifted
/// by `shift`, ids by `rename`.
#[derive(Clone, Default)]
pub struct Story {
    pub cpus: Vec<Vec<Event>>,
    pub streams: Vec<AnnotationVec>,
    pub strings: Strings,
    pub shift: i64,
    pub rename: i32,
    pub idle_process: bool,
    pub known: Vec<i32>,
    /// Nothing says which process is the program.
    pub whole_system: bool,
}

impl Story {
    pub fn new(n_cpus: usize) -> Story {
        Story { cpus: vec![Vec::new(); n_cpus], ..Story::default() }
    }

    fn id(&self, tid: i32) -> i32 {
        if tid > 0 { tid + self.rename } else { tid }
    }

    fn event(&mut self, cpu: usize, ns: i64, context: i32, in_interrupt: bool, what: What) {
        let (time, context) = (Time(ns + self.shift), self.id(context));
        self.cpus[cpu].push(Event { time, context, in_interrupt, what });
    }

    /// The CPU goes from `prev` (0: idle), which is then in state `left_as`, to `next`.
    pub fn switch(&mut self, cpu: usize, ns: i64, prev: i32, left_as: ThreadState, next: i32) {
        let name = |strings: &mut Strings, tid: i32| {
            strings.intern(&match tid {
                RECORDER => "kasuri".to_owned(),
                KWORKER => "kworker/1:0".to_owned(),
                90.. => format!("other{tid}"),
                _ => format!("t{tid}"),
            })
        };
        let what = What::Switch {
            prev: self.id(prev),
            prev_comm: name(&mut self.strings, prev),
            left_as,
            next: self.id(next),
            next_comm: name(&mut self.strings, next),
        };
        self.event(cpu, ns, prev, false, what);
    }

    /// `by` (on `cpu`; 0: an interrupt) wakes `tid`, whose queue is that of `queue`.
    pub fn wake(&mut self, cpu: usize, ns: i64, by: i32, tid: i32, queue: i32) {
        let what =
            What::Waking { tid: self.id(tid), comm: StrIx::NONE, cpu: queue, in_softirq: false };
        self.event(cpu, ns, by, by == 0, what);
    }

    pub fn lost(&mut self, cpu: usize, ns: i64) {
        self.event(cpu, ns, -1, false, What::Lost);
    }

    pub fn other(&mut self, cpu: usize, ns: i64, context: i32, what: What) {
        self.event(cpu, ns, context, false, what);
    }

    pub fn note(&mut self, tid: i32, ns: i64, kind: u8, aux: u16, name: &str, object: u64) {
        let (tid, pid) = (self.id(tid), self.id(10));
        let name = match name {
            "" => StrIx::NONE,
            name => self.strings.intern(name),
        };
        let event = Annotation { time: Time(ns + self.shift), kind, aux, name, a: object, b: 0 };
        match self.streams.iter_mut().find(|s| s.tid == tid) {
            Some(stream) => stream.events.push(event),
            None => self.streams.push(AnnotationVec { pid, tid, events: vec![event], at: 0 }),
        }
    }

    pub fn slice(&mut self, tid: i32, from: i64, to: i64, name: &str) {
        self.note(tid, from, BEGIN, 0, name, 0);
        self.note(tid, to, END, 0, name, 0);
    }

    pub fn wait(&mut self, tid: i32, from: i64, to: i64, kind: u16, name: &str) {
        self.note(tid, from, WAIT_BEGIN, kind, name, 0xb);
        self.note(tid, to, WAIT_END, kind, name, 0xb);
    }

    pub fn lock(&mut self, tid: i32, request: i64, acquired: i64, released: i64, name: &str) {
        self.note(tid, request, LOCK_REQUEST, 0, name, 0x10);
        self.note(tid, acquired, LOCK_ACQUIRED, 0, name, 0x10);
        self.note(tid, released, LOCK_RELEASED, 0, name, 0x10);
    }

    /// The trace from 0 to `end`. Threads of the target are those of `known` and 10.
    pub fn load(mut self, end: i64) -> Trace {
        self.streams.iter_mut().for_each(|s| s.events.sort_by_key(|e| e.time));
        let mut tids: Vec<(i32, i32)> = self.known.iter().map(|&t| (10, t)).collect();
        tids.push((10, 10));
        if self.idle_process {
            tids.push((70, 70));
        }
        let known = tids.into_iter().map(|(pid, tid)| kasuri_model::input::KnownThread {
            time: Time(self.shift),
            pid: self.id(pid),
            tid: self.id(tid),
            ppid: 1,
            comm: format!("t{tid}"),
        });
        let setup = Setup {
            span: Time(self.shift)..Time(self.shift + end),
            n_cpus: self.cpus.len(),
            root_pids: match self.whole_system {
                true => Vec::new(),
                false => vec![self.id(10)],
            },
            known: known.collect(),
            recorded: (0..self.cpus.len() as u32).collect(),
            ..Setup::default()
        };
        let mut trace =
            Input { setup, strings: self.strings, cpus: self.cpus, streams: self.streams }
                .build()
                .unwrap();
        trace.info.kernel_source = "tracefs".into();
        assert_eq!(trace.broken_rules(), Vec::<String>::new());
        trace
    }
}

/// The classes that are not 0.
pub fn nonzero(sums: &Sums) -> Vec<(Class, i64)> {
    let all = Class::ALL.iter().map(|&c| (c, sums[c as usize]));
    all.filter(|&(_, ns)| ns != 0).collect()
}

/// The account of all of it, checked for the rule that always holds.
pub fn account(trace: &Trace) -> Account {
    let account = Account::new(trace, trace.span.clone());
    let capacity = account.n_cpus() as i64 * (trace.span.end - trace.span.start).ns();
    let sums = account.sums(account.from, account.to);
    assert_eq!(sums.iter().sum::<i64>(), capacity, "{:?}", nonzero(&sums));
    account
}

/// ns of each cause, over all CPUs.
pub fn by_cause(account: &Account) -> Vec<i64> {
    let mut ns = vec![0; account.causes.len()];
    for cpu in 0..account.n_cpus() {
        for (cause, part) in account.segments.between(cpu, account.from, account.to) {
            ns[cause as usize] += (part.end - part.start).ns();
        }
    }
    ns
}

/// (class, name, code, ns) of each cause that is no work, by class and name.
pub fn causes(trace: &Trace, account: &Account) -> Vec<(Class, String, String, i64)> {
    let ns = by_cause(account);
    let text = |ix: StrIx| trace.strings.get(ix).to_string();
    let mut out: Vec<(Class, String, String, i64)> = Vec::new();
    for (cause, ns) in account.causes.iter().zip(ns) {
        let row = (cause.class, text(cause.name), text(cause.code));
        if cause.class == Class::Work || ns == 0 {
            continue;
        }
        match out.iter_mut().find(|r| (r.0, &r.1, &r.2) == (row.0, &row.1, &row.2)) {
            Some(same) => same.3 += ns,
            None => out.push((row.0, row.1, row.2, ns)),
        }
    }
    out.sort();
    out
}
