//! Work and span: small graphs by hand, then random fork-join programs on a simulated scheduler whose truth is known.
use kasuri_analyze::{Options, PathPart, Summary, TaskGraph, summary};
use kasuri_model::input::{Annotation, Event, Setup, What};
use kasuri_model::{AnnotationVec, Input, StrIx, Strings, ThreadState, Time};
use proptest::prelude::*;

/// `enum kasuri_kind`.
const CREATE: u8 = 10;
const START: u8 = 11;
const SUSPEND: u8 = 12;
const RESUME: u8 = 13;
const END: u8 = 14;
const JOIN: u8 = 25;

/// What threads of one process wrote: (thread, time, kind, name, a, b) in any order of threads.
#[derive(Default)]
struct Story {
    strings: Strings,
    streams: Vec<AnnotationVec>,
}

impl Story {
    fn put(&mut self, thread: usize, ns: i64, kind: u8, name: &str, a: u64, b: u64) {
        while self.streams.len() <= thread {
            self.streams.push(AnnotationVec {
                pid: 1,
                tid: 1 + self.streams.len() as i32,
                ..AnnotationVec::default()
            });
        }
        let name = if name.is_empty() {
            StrIx::NONE
        } else {
            self.strings.intern(name)
        };
        self.streams[thread].events.push(Annotation {
            time: Time(ns),
            kind,
            name,
            a,
            b,
            ..Annotation::default()
        });
    }

    fn graph(self, cpus: Vec<Vec<Event>>, end: i64) -> Option<TaskGraph> {
        self.summary(cpus, end).tasks.graph
    }

    fn summary(self, cpus: Vec<Vec<Event>>, end: i64) -> Summary {
        let setup = Setup {
            span: Time(0)..Time(end),
            n_cpus: 2,
            root_pids: vec![1],
            recorded: (0..cpus.len() as u32).collect(),
            ..Setup::default()
        };
        let trace = Input {
            setup,
            strings: self.strings,
            cpus,
            streams: self.streams,
        }
        .build()
        .unwrap();
        assert_eq!(trace.broken_rules(), Vec::<String>::new());
        summary(&trace, &Options::default())
    }
}

fn part(name: &str, tasks: u64, ns: i64) -> PathPart {
    PathPart {
        name: name.into(),
        tasks,
        ns,
    }
}

/// Only a damaged recording says so; the walk back along the chain must end all the same.
#[test]
fn a_task_that_created_itself_has_an_end() {
    let mut s = Story::default();
    s.put(0, 0, CREATE, "a", 1, 1);
    s.put(0, 0, START, "", 1, 0);
    s.put(0, 60, END, "", 1, 0);
    assert_eq!(s.graph(Vec::new(), 100).map(|g| g.work_ns), Some(60));
}

/// main 0..100, in it child "a" 20..60 on the same thread; joined at 60. Nothing runs beside anything.
///
///     main 20 -> a 40 -> main 40: work 100. a could have run beside main from 20 to the join, where main had 0 to do:
///     span = 20 + max(40, 0) + 40 = 100.
#[test]
fn a_child_that_is_joined_at_once_is_serial() {
    let mut s = Story::default();
    s.put(0, 0, START, "main", 1, 0);
    s.put(0, 20, CREATE, "a", 2, 1);
    s.put(0, 20, START, "", 2, 0);
    s.put(0, 60, END, "", 2, 0);
    s.put(0, 60, JOIN, "", 1, 2);
    s.put(0, 100, END, "", 1, 0);
    let g = s.graph(Vec::new(), 100).unwrap();
    assert_eq!((g.work_ns, g.span_ns, g.unknown_ns), (100, 100, 100));
    assert_eq!(g.path, [part("main", 2, 60), part("a", 1, 40)]);
}

/// One thread does all, but a, b and what main does between need not wait for each other:
///
///     main 10 | a 30 | main 5 | b 20 | main 25 | join b, join a | main 10
///     work 100; from creation of a: a 30, or main 5 + max(b 20, main 25) = 30; span = 10 + 30 + 10 = 50.
#[test]
fn span_is_the_longest_of_what_could_run_beside_each_other() {
    let mut s = Story::default();
    s.put(0, 0, START, "main", 1, 0);
    s.put(0, 10, CREATE, "a", 2, 1);
    s.put(0, 10, START, "", 2, 0);
    s.put(0, 40, END, "", 2, 0);
    s.put(0, 45, CREATE, "b", 3, 1);
    s.put(0, 45, START, "", 3, 0);
    s.put(0, 65, END, "", 3, 0);
    s.put(0, 90, JOIN, "", 1, 3);
    s.put(0, 90, JOIN, "", 1, 2);
    s.put(0, 100, END, "", 1, 0);
    let g = s.graph(Vec::new(), 100).unwrap();
    assert_eq!((g.work_ns, g.span_ns), (100, 50));
    assert!((g.parallelism - 2.0).abs() < 1e-12);
    // A tie: the chain through main is kept, for the joins raise nothing.
    assert_eq!(g.path, [part("main", 1, 50)]);
}

/// Thread 2 steals main at 25 while thread 1 runs a (20..80), and is preempted there 30..40 by a stranger.
///
///     main 20 | a 60 on thread 1, beside it main 25..50 on thread 2 without the 10 it had no CPU: 15
///     main waits for a from 50 to 80, goes on 80..90: work 20 + 60 + 15 + 10 = 105, span 20 + 60 + 10 = 90.
#[test]
fn time_without_a_cpu_is_not_work() {
    let mut s = Story::default();
    s.put(0, 0, START, "main", 1, 0);
    s.put(0, 20, CREATE, "a", 2, 1);
    s.put(0, 20, START, "", 2, 0);
    s.put(0, 80, END, "", 2, 0);
    s.put(1, 25, RESUME, "steal", 1, 0);
    s.put(1, 50, SUSPEND, "join", 1, 2);
    s.put(0, 80, RESUME, "", 1, 0);
    s.put(0, 80, JOIN, "", 1, 2);
    s.put(0, 90, END, "", 1, 0);
    let comm = s.strings.intern("t");
    let switch = |ns: i64, prev: i32, left_as: ThreadState, next: i32| Event {
        time: Time(ns),
        context: prev,
        in_interrupt: false,
        what: What::Switch {
            prev,
            prev_comm: comm,
            left_as,
            next,
            next_comm: comm,
        },
    };
    use ThreadState::{RunnablePreempted, Sleeping};
    let cpus = vec![
        vec![
            switch(0, 0, RunnablePreempted, 1),
            switch(95, 1, Sleeping, 0),
        ],
        vec![
            switch(22, 0, RunnablePreempted, 2),
            switch(30, 2, RunnablePreempted, 99),
            switch(40, 99, Sleeping, 2),
            switch(55, 2, Sleeping, 0),
        ],
    ];
    let g = s.graph(cpus, 100).unwrap();
    assert_eq!((g.work_ns, g.span_ns, g.unknown_ns), (105, 90, 0));
    assert_eq!(g.path, [part("a", 1, 60), part("main", 2, 30)]);
}

#[test]
fn no_tasks_no_graph() {
    let mut s = Story::default();
    s.put(0, 0, 1, "work", 0, 0);
    s.put(0, 10, 2, "work", 0, 0);
    assert_eq!(s.graph(Vec::new(), 10), None);
}

/// What a task of a random program does.
#[derive(Clone, Debug)]
enum Op {
    Work(i64),
    Fork(usize),
    Join(usize),
}

/// tasks[0] is the root; children have larger numbers. Each is joined by its parent, last first.
#[derive(Clone, Debug)]
struct Program {
    tasks: Vec<Vec<Op>>,
}

impl Program {
    /// `shape`: for each task in turn how many children it has and its weights.
    fn new(shape: &[(usize, i64)]) -> Program {
        let mut tasks: Vec<Vec<Op>> = vec![Vec::new()];
        for (at, &(children, weight)) in shape.iter().enumerate() {
            if at >= tasks.len() {
                break;
            }
            let mut ops = vec![Op::Work(weight)];
            let first = tasks.len();
            for child in first..first + children {
                tasks.push(vec![Op::Work(1 + weight / 2)]);
                ops.extend([Op::Fork(child), Op::Work(1 + weight / 3)]);
            }
            for child in (first..first + children).rev() {
                ops.extend([Op::Join(child), Op::Work(1)]);
            }
            tasks[at] = ops;
        }
        Program { tasks }
    }

    fn work(&self) -> i64 {
        let weight = |op: &Op| if let Op::Work(ns) = op { *ns } else { 0 };
        self.tasks.iter().flatten().map(weight).sum()
    }

    /// By the definition, not by the sweep: when the task ends if it starts at `start` and no task waits for a CPU.
    fn ends(&self, task: usize, start: i64) -> i64 {
        let mut now = start;
        let mut end_of = std::collections::HashMap::new();
        for op in &self.tasks[task] {
            match op {
                Op::Work(ns) => now += ns,
                Op::Fork(child) => {
                    end_of.insert(*child, self.ends(*child, now));
                }
                Op::Join(child) => now = now.max(end_of[child]),
            }
        }
        now
    }
}

/// A task on its way: its next op, and who waits for it.
#[derive(Clone, Default)]
struct Going {
    at: usize,
    done: bool,
    waiter: Option<usize>,
}

/// Runs the program child first on `n` workers that steal at once; writes what ito would. Returns the time it took.
fn run(program: &Program, n: usize, story: &mut Story) -> i64 {
    let id = |task: usize| task as u64 + 1;
    let mut going = vec![Going::default(); program.tasks.len()];
    let mut deques: Vec<std::collections::VecDeque<usize>> = vec![Default::default(); n];
    // What each worker runs and until when.
    let mut busy: Vec<Option<(usize, i64)>> = vec![None; n];
    story.put(0, 0, START, "root", id(0), 0);
    busy[0] = Some((0, 0));
    let mut now = 0;
    loop {
        let next = (0..n)
            .filter_map(|w| busy[w].map(|(_, until)| (until, w)))
            .min();
        let Some((time, worker)) = next else {
            return now;
        };
        now = time;
        let mut task = busy[worker].take().map(|(task, _)| task);
        while let Some(t) = task {
            let Some(op) = program.tasks[t].get(going[t].at).cloned() else {
                going[t].done = true;
                story.put(worker, now, END, "", id(t), 0);
                task = going[t].waiter.inspect(|&waiter| {
                    story.put(worker, now, RESUME, "", id(waiter), 0);
                    story.put(worker, now, JOIN, "", id(waiter), id(t));
                });
                // Back to the parent, whose run this one's lies inside: no event.
                task = task.or_else(|| deques[worker].pop_back());
                continue;
            };
            going[t].at += 1;
            match op {
                Op::Work(ns) => {
                    busy[worker] = Some((t, now + ns));
                    break;
                }
                Op::Fork(child) => {
                    story.put(worker, now, CREATE, "task", id(child), id(t));
                    story.put(worker, now, START, "", id(child), 0);
                    deques[worker].push_back(t);
                    task = Some(child);
                }
                Op::Join(child) if going[child].done => {
                    story.put(worker, now, JOIN, "", id(t), id(child));
                }
                Op::Join(child) => {
                    story.put(worker, now, SUSPEND, "join", id(t), id(child));
                    going[child].waiter = Some(t);
                    task = deques[worker].pop_back();
                }
            }
        }
        for (thief, runs) in busy.iter_mut().enumerate() {
            if runs.is_some() {
                continue;
            }
            let victim = (0..n).find(|&v| !deques[v].is_empty());
            if let Some(t) = victim.and_then(|v| deques[v].pop_front()) {
                story.put(thief, now, RESUME, "steal", id(t), 0);
                // Its next op is work: every fork is followed by some.
                let Some(Op::Work(ns)) = program.tasks[t].get(going[t].at) else {
                    panic!("a continuation that does not begin with work")
                };
                going[t].at += 1;
                *runs = Some((t, now + ns));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Work and span are the program's, whoever ran it; the time it took lies between Brent's bounds.
    #[test]
    fn any_number_of_workers_shows_the_same_graph(
        shape in prop::collection::vec((0usize..4, 1i64..50), 1..40),
        workers in 1usize..6,
    ) {
        let program = Program::new(&shape);
        let (work, span) = (program.work(), program.ends(0, 0));
        let mut story = Story::default();
        let took = run(&program, workers, &mut story);
        let g = story.graph(Vec::new(), took.max(1)).unwrap();
        prop_assert_eq!((g.work_ns, g.span_ns), (work, span));
        prop_assert_eq!(g.path.iter().map(|p| p.ns).sum::<i64>(), span);
        let p = workers as i64;
        prop_assert!(took * p >= work && took >= span, "{took} is less than work {work} / {p} or span {span}");
        prop_assert!(took * p <= work + span * p, "{took} is more than work {work} / {p} + span {span}");
        prop_assert!(span <= work);
    }
}

/// Two workers: one has all the tasks, the other looks for work. That is the task runtime's time, not an uneven split.
#[test]
fn tasks_and_their_runtime_are_no_load_imbalance() {
    let mut s = Story::default();
    s.put(0, 0, START, "main", 1, 0);
    s.put(0, 90, END, "", 1, 0);
    s.put(1, 0, 1, "ito: find work", 0, 0);
    s.put(1, 100, 2, "ito: find work", 0, 0);
    s.put(0, 90, 1, "ito: find work", 0, 0);
    s.put(0, 100, 2, "ito: find work", 0, 0);
    assert_eq!(s.summary(Vec::new(), 100).imbalance, []);
}
