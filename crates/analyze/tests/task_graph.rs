//! Work and span: small graphs by hand, then random fork-join programs on a simulated scheduler whose truth is known.
use kasuri_analyze::task_graph::strands;
use kasuri_analyze::{Options, PathPart, Summary, TaskGraph, summary};
use kasuri_base::random::Rng;
use kasuri_model::input::{Annotation, Event, Setup, What};
use kasuri_model::{AnnotationVec, Input, StrIx, Strings, ThreadState, Time, Trace};
use proptest::prelude::*;

/// `enum kasuri_kind`.
const WAIT_BEGIN: u8 = 5;
const WAIT_END: u8 = 6;
const CREATE: u8 = 10;
const START: u8 = 11;
const SUSPEND: u8 = 12;
const RESUME: u8 = 13;
const END: u8 = 14;
const JOIN: u8 = 25;
const DEPENDS: u8 = 27;

/// Id of main's group of tasks.
const GROUP: u64 = 999;

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
        let name = if name.is_empty() { StrIx::NONE } else { self.strings.intern(name) };
        self.streams[thread].events.push(Annotation {
            time: Time(ns),
            kind,
            name,
            a,
            b,
            ..Annotation::default()
        });
    }

    /// A point of the task that runs on the thread.
    fn point(&mut self, thread: usize, ns: i64, id: u64) {
        const POINT: u16 = 1;
        self.put(thread, ns, CREATE, "point", id, 0);
        let event = self.streams[thread].events.last_mut();
        event.expect("just put").aux = POINT;
    }

    /// A wait for tasks, by the task `object` for its own or by code outside of any.
    fn wait(&mut self, thread: usize, from: i64, to: i64, object: u64) {
        const FOR_TASKS: u16 = 2;
        for (ns, kind) in [(from, WAIT_BEGIN), (to, WAIT_END)] {
            self.put(thread, ns, kind, "taskwait", object, 0);
            let event = self.streams[thread].events.last_mut();
            event.expect("just put").aux = FOR_TASKS;
        }
    }

    fn graph(self, cpus: Vec<Vec<Event>>, end: i64) -> Option<TaskGraph> {
        self.summary(cpus, end).tasks.graph
    }

    fn summary(self, cpus: Vec<Vec<Event>>, end: i64) -> Summary {
        summary(&self.trace(cpus, end), &Options::default())
    }

    fn trace(self, cpus: Vec<Vec<Event>>, end: i64) -> Trace {
        let setup = Setup {
            span: Time(0)..Time(end),
            n_cpus: 2,
            root_pids: vec![1],
            recorded: (0..cpus.len() as u32).collect(),
            ..Setup::default()
        };
        let trace =
            Input { setup, strings: self.strings, cpus, streams: self.streams }.build().unwrap();
        assert_eq!(trace.broken_rules(), Vec::<String>::new());
        trace
    }
}

fn part(name: &str, tasks: u64, ns: i64) -> PathPart {
    PathPart { name: name.into(), tasks, folded: 0, ns }
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

/// As above, with OpenMP's wait: main 0..100 on thread 1, a 20..60 on thread 2, a taskwait 20..60. Without the join that it is the span would be
/// 20 + 40.
#[test]
fn a_tasks_wait_for_its_children_is_a_join_of_each() {
    let mut s = Story::default();
    s.put(0, 0, START, "main", 1, 0);
    s.put(0, 20, CREATE, "a", 2, 1);
    s.wait(0, 20, 60, 1);
    s.put(1, 20, START, "", 2, 0);
    s.put(1, 60, END, "", 2, 0);
    s.put(0, 100, END, "", 1, 0);
    let switch = |ns, prev, state, next| Event::switch(ns, prev, state, next, StrIx::NONE);
    use ThreadState::*;
    let cpus = vec![
        vec![
            switch(0, 0, Sleeping, 1),
            switch(20, 1, Sleeping, 0),
            switch(60, 0, Sleeping, 1),
            switch(100, 1, Sleeping, 0),
        ],
        vec![switch(20, 0, Sleeping, 2), switch(60, 2, Sleeping, 0)],
    ];
    let g = s.graph(cpus, 100).unwrap();
    assert_eq!((g.work_ns, g.span_ns, g.waits_outside), (100, 100, 0));
}

/// Two steps of one task each, with a wait of code outside of tasks between them, and one after all: the first makes the span too short.
#[test]
fn waits_outside_of_tasks_between_creations_are_counted() {
    let mut s = Story::default();
    for (ns, task) in [(0, 1), (50, 2)] {
        s.put(0, ns, CREATE, "step", task, 0);
        s.put(1, ns + 10, START, "", task, 0);
        s.put(1, ns + 20, END, "", task, 0);
        s.wait(0, ns + 5, ns + 30, 77);
    }
    // Inside of a task: its own.
    s.put(1, 85, START, "last", 3, 0);
    s.wait(1, 86, 88, 77);
    s.put(1, 90, END, "", 3, 0);
    let g = s.graph(Vec::new(), 100).unwrap();
    assert_eq!((g.span_ns, g.waits_outside), (10, 1));
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
        what: What::Switch { prev, prev_comm: comm, left_as, next, next_comm: comm },
    };
    use ThreadState::{RunnablePreempted, Sleeping};
    let cpus = vec![
        vec![switch(0, 0, RunnablePreempted, 1), switch(95, 1, Sleeping, 0)],
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
        let next = (0..n).filter_map(|w| busy[w].map(|(_, until)| (until, w))).min();
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

/// Steps of a factor and three updates: a factor needs the updates before it, an update its factor, all said as joins at the
/// start, so that each factor is joined three times. Only the first of them counted before: parallelism 38 instead of 1.5.
#[test]
fn every_join_of_a_task_counts() {
    let mut s = Story::default();
    let (factor, update, steps) = (273, 811, 20);
    let mut now = 0;
    for step in 0..steps {
        let id = |n: u64| step * 4 + n + 1;
        s.put(0, now, CREATE, "factor", id(0), 0);
        for n in (1..4).filter(|_| step > 0) {
            s.put(0, now, JOIN, "", id(0), id(0) - n);
        }
        s.put(0, now, START, "", id(0), 0);
        now += factor;
        s.put(0, now, END, "", id(0), 0);
        for n in 1..4 {
            s.put(0, now, CREATE, "update", id(n), 0);
            s.put(0, now, JOIN, "", id(n), id(0));
            s.put(0, now, START, "", id(n), 0);
            now += update;
            s.put(0, now, END, "", id(n), 0);
        }
    }
    let g = s.graph(Vec::new(), now).unwrap();
    let steps = steps as i64;
    assert_eq!((g.work_ns, g.span_ns), (steps * (factor + 3 * update), steps * (factor + update)));
    assert_eq!(g.path, [part("update", 20, steps * update), part("factor", 20, steps * factor)]);
}

/// a and b need each other; c needs b. The graph is that without one of the two; nothing is lost but the edge.
#[test]
fn a_circle_is_cut_and_counted() {
    let mut s = Story::default();
    for (id, name) in [(1, "a"), (2, "b"), (3, "c")] {
        s.put(0, 0, CREATE, name, id, 0);
    }
    for (task, on) in [(1, 2), (2, 1), (3, 2), (3, 3)] {
        s.put(0, 0, DEPENDS, "", task, on);
    }
    for (id, from, to) in [(1, 10, 20), (2, 20, 40), (3, 40, 70)] {
        s.put(0, from, START, "", id, 0);
        s.put(0, to, END, "", id, 0);
    }
    let g = s.graph(Vec::new(), 100).unwrap();
    assert_eq!((g.work_ns, g.span_ns), (60, 60));
    // a on b, against the order in which they ran, and c on itself; both tasks started before their ends.
    assert_eq!((g.depends, g.circular, g.early), (4, 2, 2));
}

/// Task 2 needs 1, which never ran and itself needs 3: so 2 needs 3 as well.
#[test]
fn a_dependence_goes_through_a_task_that_was_not_seen_to_run() {
    let mut s = Story::default();
    for (id, name) in [(1, "unseen"), (2, "last"), (3, "first")] {
        s.put(0, 0, CREATE, name, id, 0);
    }
    s.put(0, 0, DEPENDS, "", 2, 1);
    s.put(0, 0, DEPENDS, "", 1, 3);
    s.put(0, 0, DEPENDS, "", 2, 99);
    for (id, from, to) in [(3, 10, 20), (2, 20, 45)] {
        s.put(0, from, START, "", id, 0);
        s.put(0, to, END, "", id, 0);
    }
    let g = s.graph(Vec::new(), 100).unwrap();
    assert_eq!((g.work_ns, g.span_ns, g.circular), (35, 35, 0));
    assert_eq!(g.unknown_edges, 1, "no task has the id 99");
}

/// a 0..30 and b 0..50 on two threads; c, created at 0, needs both, and starts at 60: waits 50 for them and 10 for a worker.
#[test]
fn queued_is_waiting_for_predecessors_and_then_for_a_worker() {
    let mut s = Story::default();
    for (id, name) in [(1, "a"), (2, "b"), (3, "c")] {
        s.put(0, 0, CREATE, name, id, 0);
    }
    s.put(0, 0, DEPENDS, "", 3, 1);
    s.put(0, 0, DEPENDS, "", 3, 2);
    s.put(0, 0, START, "", 1, 0);
    s.put(0, 30, END, "", 1, 0);
    s.put(1, 0, START, "", 2, 0);
    s.put(1, 50, END, "", 2, 0);
    s.put(1, 60, START, "", 3, 0);
    s.put(1, 100, END, "", 3, 0);
    let t = s.summary(Vec::new(), 100).tasks;
    let g = t.graph.unwrap();
    assert_eq!((t.queued_ns, g.waiting_ns, g.ready_ns), (60, 50, 10));
    assert_eq!((g.work_ns, g.span_ns, g.early), (120, 90, 0));
    // Two at once for 30 of 90, then one: in twentieths of 4.5.
    let (two, one) = (&g.profile[..6], &g.profile[7..]);
    assert!(two.iter().all(|p| (p - 2.0).abs() < 1e-9), "{:?}", g.profile);
    assert!(one.iter().all(|p| (p - 1.0).abs() < 1e-9), "{:?}", g.profile);
}

/// A random program: main creates all tasks, with work between, and joins them, one by one or as a group. Each needs some
/// earlier ones; some join an earlier one in their middle; some wait there for what an earlier one promised in its middle.
struct Dag {
    /// Work of main before each creation, and after the joins.
    main: Vec<i64>,
    /// Work of each task, before and after its join.
    work: Vec<(i64, i64)>,
    needs: Vec<Vec<usize>>,
    joins: Vec<Option<usize>>,
    gets: Vec<Option<usize>>,
    is_group: bool,
}

impl Dag {
    fn random(rng: &mut Rng) -> Dag {
        let n = 1 + rng.below(25);
        // Also work of no time, and equal weights: several heaviest chains, equal stamps.
        let most = [3, 60][rng.below(2)];
        let work = |rng: &mut Rng| rng.below(most) as i64;
        let some = |rng: &mut Rng, i: usize| -> Vec<usize> {
            let mut of: Vec<usize> = (0..rng.below(4.min(i + 1))).map(|_| rng.below(i)).collect();
            of.sort_unstable();
            of.dedup();
            of
        };
        Dag {
            main: (0..=n).map(|_| work(rng)).collect(),
            work: (0..n).map(|_| (work(rng), work(rng))).collect(),
            needs: (0..n).map(|i| some(rng, i)).collect(),
            joins: (0..n).map(|i| (i > 0 && rng.below(3) == 0).then(|| rng.below(i))).collect(),
            gets: (0..n).map(|i| (i > 0 && rng.below(3) == 0).then(|| rng.below(i))).collect(),
            is_group: rng.below(2) == 0,
        }
    }

    /// Weights and edges by the definition: main's parts are 0..=n, the halves of task i are n + 1 + 2 i and the next.
    fn nodes(&self) -> (Vec<i64>, Vec<(usize, usize)>) {
        let n = self.work.len();
        let half = |i: usize, which: usize| n + 1 + 2 * i + which;
        let mut weight = self.main.clone();
        let mut edges: Vec<(usize, usize)> = (0..n).map(|k| (k, k + 1)).collect();
        for (i, &(first, second)) in self.work.iter().enumerate() {
            weight.extend([first, second]);
            edges.extend([(i, half(i, 0)), (half(i, 0), half(i, 1)), (half(i, 1), n)]);
            edges.extend(self.needs[i].iter().map(|&on| (half(on, 1), half(i, 0))));
            edges.extend(self.joins[i].map(|on| (half(on, 1), half(i, 1))));
            edges.extend(self.gets[i].map(|on| (half(on, 0), half(i, 1))));
        }
        (weight, edges)
    }

    /// Runs it on `n_workers` threads beside main's; writes what a runtime would. Returns the end, and how long the tasks
    /// waited for others and, ready, for a worker.
    fn run(&self, n_workers: usize, rng: &mut Rng, story: &mut Story) -> (i64, i64, i64) {
        let n = self.work.len();
        let id = |i: usize| i as u64 + 2;
        let promise = |i: usize| i as u64 + 1000;
        story.put(0, 0, START, "main", 1, 0);
        story.point(0, 0, GROUP);
        let mut created = Vec::new();
        let mut now = 0;
        for (i, ns) in self.main[..n].iter().enumerate() {
            now += ns;
            story.put(0, now, CREATE, &format!("t{}", i % 5), id(i), 1);
            for &on in &self.needs[i] {
                story.put(0, now, DEPENDS, "", id(i), id(on));
            }
            created.push(now);
        }
        let main_waits = now;
        story.put(0, now, SUSPEND, "join", 1, 0);
        let mut ended: Vec<Option<i64>> = vec![None; n];
        // Ready halves that nobody has taken: task and half, from when on.
        let mut taken = vec![[false; 2]; n];
        let mut half_done: Vec<Option<i64>> = vec![None; n];
        let mut free = vec![0i64; n_workers];
        let (mut waited, mut was_ready) = (0, 0);
        for _ in 0..2 * n {
            let ready_at = |i: usize, half: usize| -> Option<i64> {
                if taken[i][half] {
                    return None;
                }
                if half == 0 {
                    let ends: Option<Vec<i64>> =
                        self.needs[i].iter().map(|&on| ended[on]).collect();
                    return Some(ends?.into_iter().fold(created[i], i64::max));
                }
                let join = self.joins[i].map_or(Some(0), |on| ended[on]);
                // Not at the stamp of its suspension: the order of these two on two threads would not be known.
                let promised = self.gets[i].map_or(Some(0), |on| half_done[on]);
                Some((half_done[i]? + 1).max(join?).max(promised?))
            };
            let ready: Vec<(usize, usize)> = (0..2 * n)
                .map(|k| (k / 2, k % 2))
                .filter(|&(i, half)| ready_at(i, half).is_some())
                .collect();
            let (i, half) = ready[rng.below(ready.len())];
            let worker = rng.below(n_workers);
            let since = ready_at(i, half).unwrap();
            let start = since.max(free[worker]);
            let ns = [self.work[i].0, self.work[i].1][half];
            let thread = worker + 1;
            if half == 0 {
                waited += since - created[i];
                was_ready += start - since;
                story.put(thread, start, START, "", id(i), 0);
                story.point(thread, start + ns, promise(i));
                story.put(thread, start + ns, SUSPEND, "join", id(i), 0);
                half_done[i] = Some(start + ns);
            } else {
                story.put(thread, start, RESUME, "", id(i), 0);
                let (joined, got) = (self.joins[i].map(id), self.gets[i].map(promise));
                for on in joined.into_iter().chain(got) {
                    story.put(thread, start, JOIN, "", id(i), on);
                }
                if self.is_group {
                    story.put(thread, start + ns, JOIN, "", GROUP, id(i));
                }
                story.put(thread, start + ns, END, "", id(i), 0);
                ended[i] = Some(start + ns);
            }
            taken[i][half] = true;
            free[worker] = start + ns;
        }
        let last = ended.iter().flatten().copied().fold(main_waits, i64::max);
        story.put(0, last, RESUME, "", 1, 0);
        if self.is_group {
            story.put(0, last, JOIN, "", 1, GROUP);
        } else {
            (0..n).for_each(|i| story.put(0, last, JOIN, "", 1, id(i)));
        }
        let end = last + self.main[n];
        story.put(0, end, END, "", 1, 0);
        (end, waited, was_ready)
    }
}

/// By the definition, as slow as it is: the heaviest chain of every number of nodes, until it grows no more.
pub fn heaviest(weight: &[i64], edges: &[(usize, usize)]) -> i64 {
    let mut end = weight.to_vec();
    loop {
        let mut grew = false;
        for &(from, to) in edges {
            if end[to] < end[from] + weight[to] {
                end[to] = end[from] + weight[to];
                grew = true;
            }
        }
        if !grew {
            return end.into_iter().max().unwrap();
        }
    }
}

/// Work, span, slack, the heaviest chain and the times in the queue of 300 random graphs, to the ns.
#[test]
fn random_graphs_are_what_the_definition_says() {
    let seed: u64 = 20_261_123;
    let mut rng = Rng::new(seed);
    for case in 0..300 {
        let dag = Dag::random(&mut rng);
        let (weight, edges) = dag.nodes();
        let (work, span) = (weight.iter().sum::<i64>(), heaviest(&weight, &edges));
        let mut story = Story::default();
        let n_workers = 1 + rng.below(5);
        let (end, waited, was_ready) = dag.run(n_workers, &mut rng, &mut story);
        let trace = story.trace(Vec::new(), end.max(1));
        let t = summary(&trace, &Options::default()).tasks;
        let what = format!("seed {seed} case {case}");
        assert_eq!(t.queued_ns, waited + was_ready, "{what}");
        let Some(g) = t.graph else {
            assert_eq!(work, 0, "{what}");
            continue;
        };
        assert_eq!((g.work_ns, g.span_ns), (work, span), "{what}");
        assert_eq!((g.waiting_ns, g.ready_ns), (waited, was_ready), "{what}");
        assert_eq!((g.early, g.circular, g.unknown_edges), (0, 0, 0), "{what}");
        assert_eq!(g.path.iter().map(|p| p.ns).sum::<i64>(), span, "{what}");
        let mean = g.profile.iter().sum::<f64>() / g.profile.len() as f64;
        assert!((mean - work as f64 / span as f64).abs() < 1e-3, "{what}");
        let s = strands(&trace).unwrap();
        let tops = s.tops();
        let chain = s.heaviest(&tops);
        let strand_ns = |at: usize| s.ns[at];
        assert_eq!(chain.iter().map(|&s| strand_ns(s)).sum::<i64>(), span, "{what}");
        for two in chain.windows(2) {
            assert!(s.after.of(two[1]).contains(&(two[0] as u32)), "{what}");
        }
        // Slack of a task: the least by which one of its parts may grow and the span does not.
        let slack = s.slack_ns(trace.tasks.len());
        let n = dag.work.len();
        assert_eq!(t.count, n as u64 + 1, "{what}");
        for (row, task) in trace.tasks.iter().enumerate() {
            if task.is_point {
                continue;
            }
            let parts: Vec<usize> = match task.id as usize {
                1 => (0..=n).collect(),
                id => (0..2).map(|half| n + 1 + 2 * (id - 2) + half).collect(),
            };
            let slack = slack[row].expect("it ran");
            let grown = |part: usize, by: i64| {
                let mut weight = weight.clone();
                weight[part] += by;
                heaviest(&weight, &edges)
            };
            assert!(parts.iter().all(|&p| grown(p, slack) == span), "{what}");
            assert!(parts.iter().any(|&p| grown(p, slack + 1) > span), "{what}");
        }
    }
}

/// Events that make no sense: any kinds, ids, orders, equal stamps. The graph has no circle all the same, and its numbers hold.
#[test]
fn nonsense_has_a_graph_without_circles() {
    let seed: u64 = 27;
    let mut rng = Rng::new(seed);
    let mut n_circular = 0;
    for case in 0..1000 {
        let what = format!("seed {seed} case {case}");
        let mut story = Story::default();
        let (n_threads, n_ids) = (1 + rng.below(3), 1 + rng.below(6));
        let mut now = vec![0; n_threads];
        for _ in 0..rng.below(60) {
            let thread = rng.below(n_threads);
            now[thread] += rng.below(4) as i64;
            let kind = [CREATE, START, SUSPEND, RESUME, END, JOIN, DEPENDS][rng.below(7)];
            let (a, b) = (rng.below(n_ids) as u64, rng.below(n_ids) as u64);
            story.put(thread, now[thread], kind, "t", a, b);
        }
        let trace = story.trace(Vec::new(), 200);
        let t = summary(&trace, &Options::default()).tasks;
        let (Some(g), Some(s)) = (t.graph, strands(&trace)) else {
            continue;
        };
        n_circular += s.n_circular;
        let mut at = vec![usize::MAX; s.ns.len()];
        for (place, strand) in s.in_order().enumerate() {
            at[strand] = place;
        }
        for strand in 0..s.ns.len() {
            let needs = s.after.of(strand);
            assert!(needs.iter().all(|&p| at[p as usize] < at[strand]), "{what}");
        }
        assert_eq!(s.ns.iter().sum::<i64>(), g.work_ns, "{what}");
        assert!(g.span_ns <= g.work_ns, "{what}");
        assert_eq!(g.path.iter().map(|p| p.ns).sum::<i64>(), g.span_ns, "{what}");
        assert_eq!(g.waiting_ns + g.ready_ns, t.queued_ns, "{what}");
        let slack = s.slack_ns(trace.tasks.len());
        assert!(slack.into_iter().flatten().all(|ns| ns >= 0), "{what}");
    }
    assert!(n_circular > 100, "only {n_circular} edges closed a circle");
}
