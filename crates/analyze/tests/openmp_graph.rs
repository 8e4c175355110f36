//! The task graph of OpenMP programs: waits of code outside of tasks are edges. By hand, and random programs against the definition.
use crate::task_graph::heaviest;
use kasuri_analyze::task_graph::strands;
use kasuri_analyze::{Options, TaskGraph, summary};
use kasuri_base::random::Rng;
use kasuri_model::input::{Annotation, Setup};
use kasuri_model::{AnnotationVec, Input, Strings, Time, Trace};

/// `enum kasuri_kind`.
const BEGIN: u8 = 1;
const END: u8 = 2;
const WAIT_BEGIN: u8 = 5;
const WAIT_END: u8 = 6;
const CREATE: u8 = 10;
const START: u8 = 11;
const TASK_END: u8 = 14;
const DEPENDS: u8 = 27;
/// `enum kasuri_wait_kind`.
const BARRIER: u16 = 1;
const JOIN: u16 = 2;

/// What threads of one process wrote, as the probe does. Without kernel events: busy is what is no wait.
#[derive(Default)]
struct Story {
    strings: Strings,
    streams: Vec<AnnotationVec>,
    end: i64,
}

impl Story {
    fn put(&mut self, thread: usize, ns: i64, kind: u8, aux: u16, name: &str, (a, b): (u64, u64)) {
        while self.streams.len() <= thread {
            self.streams.push(AnnotationVec {
                pid: 1,
                tid: 1 + self.streams.len() as i32,
                ..AnnotationVec::default()
            });
        }
        let name = self.strings.intern(name);
        self.streams[thread].events.push(Annotation { time: Time(ns), kind, aux, name, a, b });
        self.end = self.end.max(ns);
    }

    fn begin(&mut self, thread: usize, ns: i64, name: &str) {
        self.put(thread, ns, BEGIN, 0, name, (0, 0));
    }

    fn end(&mut self, thread: usize, ns: i64) {
        self.put(thread, ns, END, 0, "", (0, 0));
    }

    fn waits(&mut self, thread: usize, ns: i64, kind: u16, name: &str, object: u64) {
        self.put(thread, ns, WAIT_BEGIN, kind, name, (object, 0));
    }

    fn waited(&mut self, thread: usize, ns: i64, kind: u16, object: u64) {
        self.put(thread, ns, WAIT_END, kind, "", (object, 0));
    }

    fn create(&mut self, thread: usize, ns: i64, name: &str, task: u64, parent: u64) {
        self.put(thread, ns, CREATE, 0, name, (task, parent));
    }

    fn start(&mut self, thread: usize, ns: i64, task: u64) {
        self.put(thread, ns, START, 0, "", (task, 0));
    }

    fn task_end(&mut self, thread: usize, ns: i64, task: u64) {
        self.put(thread, ns, TASK_END, 0, "", (task, 0));
    }

    fn trace(self) -> Trace {
        let setup = Setup {
            span: Time(0)..Time(self.end.max(1)),
            n_cpus: 2,
            root_pids: vec![1],
            ..Setup::default()
        };
        let trace = Input { setup, strings: self.strings, cpus: Vec::new(), streams: self.streams };
        let trace = trace.build().unwrap();
        assert_eq!(trace.broken_rules(), Vec::<String>::new());
        trace
    }

    fn graph(self) -> TaskGraph {
        let summary = summary(&self.trace(), &Options::default());
        summary.tasks.graph.unwrap()
    }
}

/// What the threads of thread `master`'s teams wait at.
fn barriers_of(master: usize) -> u64 {
    (master as u64 + 1) << 1
}

/// A region of a team of one, with a task that begins when the region's barrier does.
fn region_with_a_task(s: &mut Story, task: u64, from: i64, before: i64, task_ns: i64) -> i64 {
    s.begin(0, from, "parallel f:1");
    let mut now = from + before;
    s.create(0, now, "task f:2", task, 0);
    now += 1;
    s.end(0, now);
    s.waits(0, now, BARRIER, "barrier of parallel f:1", barriers_of(0) + 1);
    s.start(0, now + 2, task);
    s.task_end(0, now + 2 + task_ns, task);
    now += 2 + task_ns + 3;
    s.waited(0, now, BARRIER, barriers_of(0) + 1);
    now
}

/// Two regions, each 10 and then a task of 50, with 20 between them: nothing can run beside anything but 1 beside each task.
#[test]
fn a_chain_through_two_regions_is_one_chain() {
    let mut s = Story::default();
    let end = region_with_a_task(&mut s, 1, 5, 10, 50);
    region_with_a_task(&mut s, 2, end + 20, 10, 50);
    let g = s.graph();
    assert_eq!((g.work_ns, g.span_ns, g.waits_outside), (142, 140, 0));
    let path: Vec<_> = g.path.iter().map(|p| (p.name.as_str(), p.tasks, p.ns)).collect();
    let expected =
        [("task f:2", 2, 100), ("between parallel regions", 2, 20), ("parallel f:1", 2, 20)];
    assert_eq!(path, expected);
}

/// Thread 0's taskloop has two tasks of 30, one on each thread; libgomp creates them where they start. Then 10 of its own.
#[test]
fn a_taskloops_tasks_come_after_its_begin_and_before_its_end() {
    for (nogroup, span) in [(false, 5 + 30 + 10), (true, 5 + 30)] {
        let mut s = Story::default();
        for thread in 0..2 {
            s.begin(thread, 0, "parallel f:1");
        }
        s.end(1, 1);
        s.waits(1, 1, BARRIER, "barrier of parallel f:1", barriers_of(0) + 1);
        s.begin(0, 5, "taskloop f:3");
        let mut now = 5;
        if nogroup {
            s.end(0, 7);
            now = 17;
            s.end(0, now);
            s.waits(0, now, BARRIER, "barrier of parallel f:1", barriers_of(0) + 1);
        }
        for thread in [0, 1] {
            let task = thread as u64 + 1;
            s.create(thread, now + 1, "taskloop f:3", task, 0);
            s.start(thread, now + 2, task);
            s.task_end(thread, now + 32, task);
        }
        now += 35;
        if !nogroup {
            s.end(0, now);
            now += 10;
            s.end(0, now);
            s.waits(0, now, BARRIER, "barrier of parallel f:1", barriers_of(0) + 1);
        }
        for thread in [0, 1] {
            s.waited(thread, now + 5, BARRIER, barriers_of(0) + 1);
        }
        s.begin(1, now + 5, "omp: idle");
        s.end(1, now + 9);
        let g = s.graph();
        assert_eq!((g.work_ns, g.span_ns), (5 + 1 + 60 + 10, span), "nogroup: {nogroup}");
    }
}

/// Thread 0 creates two tasks and waits for the second alone (taskwait with `depend`); the first, of 80, runs on thread 1 meanwhile. What
/// thread 0 does after the wait does not come after it.
#[test]
fn a_taskwait_does_not_wait_for_what_has_not_ended() {
    let mut s = Story::default();
    for thread in 0..2 {
        s.begin(thread, 0, "parallel f:1");
    }
    s.create(0, 5, "task f:2", 1, 0);
    s.create(0, 6, "task f:3", 2, 0);
    s.waits(0, 7, JOIN, "taskwait f:4", barriers_of(0));
    s.start(0, 8, 2);
    s.task_end(0, 28, 2);
    s.waited(0, 30, JOIN, barriers_of(0));
    s.end(0, 50);
    s.waits(0, 50, BARRIER, "barrier of parallel f:1", barriers_of(0) + 1);
    s.end(1, 1);
    s.waits(1, 1, BARRIER, "barrier of parallel f:1", barriers_of(0) + 1);
    s.start(1, 10, 1);
    s.task_end(1, 90, 1);
    for thread in [0, 1] {
        s.waited(thread, 95, BARRIER, barriers_of(0) + 1);
    }
    s.begin(1, 95, "omp: idle");
    s.end(1, 96);
    let g = s.graph();
    // The first task: 5 + 80. The other chain: 6 + 20 + 20.
    assert_eq!((g.work_ns, g.span_ns), (7 + 20 + 20 + 1 + 80, 85));
}

/// A random program in OpenMP. While it runs it writes what the probe would, and the graph by the definition: weights of nodes
/// and edges between them.
struct Program<'r> {
    rng: &'r mut Rng,
    story: Story,
    weight: Vec<i64>,
    edges: Vec<(usize, usize)>,
    /// By the program's id - 1.
    tasks: Vec<Made>,
    n_threads: usize,
    most: usize,
}

/// A task: first and last of its nodes, and all of them; the tasks that it created.
#[derive(Default)]
struct Made {
    nodes: Vec<usize>,
    children: Vec<usize>,
    has_run: bool,
}

impl Program<'_> {
    fn node(&mut self, after: &[usize]) -> usize {
        self.weight.push(0);
        let node = self.weight.len() - 1;
        self.edges.extend(after.iter().map(|&from| (from, node)));
        node
    }

    fn work(&mut self, node: usize, now: &mut i64) {
        let ns = self.rng.below(self.most) as i64;
        self.weight[node] += ns;
        *now += ns;
    }

    /// A task with its first node; `parent`: the id of the task that creates it, or 0.
    fn create(&mut self, thread: usize, now: i64, node: &mut usize, parent: usize) -> usize {
        let first = self.node(&[*node]);
        self.tasks.push(Made { nodes: vec![first], ..Made::default() });
        let id = self.tasks.len();
        self.story.create(thread, now, "task f:2", id as u64, parent as u64);
        *node = self.node(&[*node]);
        id
    }

    fn last(&self, id: usize) -> usize {
        self.tasks[id - 1].nodes[self.tasks[id - 1].nodes.len() - 1]
    }

    /// Runs a task on a thread that waits: work, creations, sometimes a taskwait, work.
    fn run(&mut self, thread: usize, now: &mut i64, id: usize) {
        self.tasks[id - 1].has_run = true;
        self.story.start(thread, *now, id as u64);
        let mut node = self.last(id);
        self.work(node, now);
        if self.rng.below(3) == 0 {
            for _ in 0..1 + self.rng.below(3) {
                let child = self.create(thread, *now, &mut node, id);
                self.tasks[id - 1].children.push(child);
                self.tasks[id - 1].nodes.push(node);
                self.work(node, now);
            }
            if self.rng.below(2) == 0 {
                let children = self.tasks[id - 1].children.clone();
                self.story.waits(thread, *now, JOIN, "taskwait f:4", id as u64);
                *now += 1;
                children.iter().for_each(|&child| self.run(thread, now, child));
                *now += 1;
                self.story.waited(thread, *now, JOIN, id as u64);
                let ends = children.iter().map(|&child| self.last(child));
                let after: Vec<usize> = ends.chain([node]).collect();
                node = self.node(&after);
                self.tasks[id - 1].nodes.push(node);
                // So that what it creates next is not at the stamp of the wait's end.
                self.weight[node] += 1;
                *now += 1;
            }
            self.work(node, now);
        }
        self.story.task_end(thread, *now, id as u64);
        *now += 1;
    }

    /// All tasks from `first` on that have not run, and what they create.
    fn run_all(&mut self, threads: &[usize], now: &mut [i64], first: usize) {
        let mut id = first;
        while id <= self.tasks.len() {
            if !self.tasks[id - 1].has_run {
                let at = self.rng.below(threads.len());
                // After its creation, which may have been on a thread that is ahead.
                now[at] = now.iter().copied().max().unwrap_or(0);
                self.run(threads[at], &mut now[at], id);
            }
            id += 1;
        }
    }

    /// A region of `thread`, with as many others as there are in `team` beside it, which begins at `now`. Returns its last nodes.
    fn region(&mut self, team: &[usize], depth: usize, at: i64, from: usize) -> (i64, Vec<usize>) {
        let (master, name) = (team[0], ["parallel f:1", "parallel f:9"][depth]);
        let first = self.tasks.len() + 1;
        let mut nodes: Vec<usize> = team.iter().map(|_| self.node(&[from])).collect();
        let mut now: Vec<i64> = (0..team.len() as i64).map(|late| at + 2 * late).collect();
        for (&thread, &now) in team.iter().zip(&now) {
            self.story.begin(thread, now, name);
        }
        let mut open = first;
        let n_phases = 1 + self.rng.below(3);
        for phase in 1..=n_phases {
            for part in 0..team.len() {
                (nodes[part], now[part]) = self.phase(team[part], depth, nodes[part], now[part]);
            }
            let (is_last, mut object) = (phase == n_phases, barriers_of(master));
            for (part, &thread) in team.iter().enumerate() {
                if is_last {
                    self.story.end(thread, now[part]);
                    object = barriers_of(master) + 1;
                }
                let name = match is_last {
                    true => format!("barrier of {name}"),
                    false => "barrier f:5".to_string(),
                };
                self.story.waits(thread, now[part], BARRIER, &name, object);
                now[part] += 1;
            }
            self.run_all(team, &mut now, open);
            let ends = (open..=self.tasks.len()).map(|id| self.last(id));
            let after: Vec<usize> = ends.chain(nodes.iter().copied()).collect();
            open = self.tasks.len() + 1;
            let end = now.iter().copied().max().unwrap_or(at) + 1;
            if is_last {
                for (part, &thread) in team.iter().enumerate() {
                    self.story.waited(thread, end, BARRIER, object);
                    if part > 0 {
                        self.story.begin(thread, end, "omp: idle");
                        self.story.end(thread, end);
                    }
                }
                return (end, after);
            }
            let join = self.node(&after);
            for (part, &thread) in team.iter().enumerate() {
                now[part] = end + self.rng.below(3) as i64;
                self.story.waited(thread, now[part], BARRIER, object);
                nodes[part] = self.node(&[join]);
            }
        }
        unreachable!("there is a last phase")
    }

    /// What a thread does between two barriers: work, creations, `taskwait`, a taskgroup, a region within the region.
    fn phase(
        &mut self,
        thread: usize,
        depth: usize,
        mut node: usize,
        mut now: i64,
    ) -> (usize, i64) {
        let mut children: Vec<usize> = Vec::new();
        if self.rng.below(4) == 0 {
            // The group waits for what its tasks create, too.
            let first = self.tasks.len() + 1;
            for _ in 0..self.rng.below(3) {
                self.create(thread, now, &mut node, 0);
            }
            (node, now) = self.wait("taskgroup f:6", thread, node, now, first);
        }
        for _ in 0..self.rng.below(5) {
            self.work(node, &mut now);
            match self.rng.below(6) {
                0..=2 => children.push(self.create(thread, now, &mut node, 0)),
                3 => {
                    self.story.waits(thread, now, JOIN, "taskwait f:7", barriers_of(0));
                    now += 1;
                    for &child in &children {
                        self.run(thread, &mut now, child);
                    }
                    now += 1;
                    self.story.waited(thread, now, JOIN, barriers_of(0));
                    let ends = children.drain(..).map(|child| self.last(child));
                    let after: Vec<usize> = ends.chain([node]).collect();
                    node = self.node(&after);
                }
                4 if depth == 0 => {
                    // So that the region does not begin at the stamp of a creation.
                    self.weight[node] += 1;
                    now += 1;
                    let team = [thread, self.n_threads];
                    self.n_threads += 1;
                    let (end, after) = self.region(&team, 1, now, node);
                    now = end;
                    node = self.node(&after);
                }
                _ => {}
            }
        }
        self.work(node, &mut now);
        (node, now)
    }

    fn wait(
        &mut self,
        name: &str,
        thread: usize,
        node: usize,
        at: i64,
        first: usize,
    ) -> (usize, i64) {
        let mut now = [at + 1];
        self.story.waits(thread, at, JOIN, name, barriers_of(0));
        self.run_all(&[thread], &mut now, first);
        let end = now[0] + 1;
        self.story.waited(thread, end, JOIN, barriers_of(0));
        let ends = (first..=self.tasks.len()).map(|id| self.last(id));
        let after: Vec<usize> = ends.chain([node]).collect();
        (self.node(&after), end)
    }
}

/// Work, span, and slack of the tasks of 300 random programs, to the ns.
#[test]
fn random_programs_are_what_the_definition_says() {
    let seed: u64 = 20_261_124;
    let mut rng = Rng::new(seed);
    let mut n_tasks = 0;
    for case in 0..300 {
        let what = format!("seed {seed} case {case}");
        let n_threads = 1 + rng.below(4);
        let most = [3, 60][rng.below(2)];
        let mut p = Program {
            rng: &mut rng,
            story: Story::default(),
            weight: Vec::new(),
            edges: Vec::new(),
            tasks: Vec::new(),
            n_threads,
            most,
        };
        let team: Vec<usize> = (0..n_threads).collect();
        let (mut now, mut node) = (7, p.node(&[]));
        for region in 0..1 + p.rng.below(3) {
            if region > 0 {
                p.work(node, &mut now);
            }
            let after;
            (now, after) = p.region(&team, 0, now, node);
            node = p.node(&after);
        }
        let Program { story, weight, edges, tasks, .. } = p;
        let trace = story.trace();
        let (work, span) = (weight.iter().sum::<i64>(), heaviest(&weight, &edges));
        let Some(g) = summary(&trace, &Options::default()).tasks.graph else {
            assert!(tasks.is_empty() || work == 0, "{what}");
            continue;
        };
        n_tasks += tasks.len();
        assert_eq!((g.work_ns, g.span_ns), (work, span), "{what}");
        assert_eq!((g.circular, g.waits_outside), (0, 0), "{what}");
        assert_eq!(g.path.iter().map(|p| p.ns).sum::<i64>(), span, "{what}");
        // By the definition it takes long.
        if tasks.len() > 60 {
            continue;
        }
        let slack = strands(&trace).unwrap().slack_ns(trace.tasks.len());
        for (row, task) in trace.tasks.iter().enumerate() {
            let slack = slack[row].expect("it ran");
            let grown = |part: usize, by: i64| {
                let mut weight = weight.clone();
                weight[part] += by;
                heaviest(&weight, &edges)
            };
            let parts = &tasks[task.id as usize - 1].nodes;
            assert!(parts.iter().all(|&p| grown(p, slack) == span), "{what}");
            assert!(parts.iter().any(|&p| grown(p, slack + 1) > span), "{what}");
        }
    }
    assert!(n_tasks > 2000, "only {n_tasks} tasks");
}

/// Events that make no sense, in regions: the graph has no circle all the same, and its numbers hold.
#[test]
fn nonsense_in_regions_has_a_graph_without_circles() {
    let seed: u64 = 28;
    let mut rng = Rng::new(seed);
    let mut n_graphs = 0;
    for case in 0..1000 {
        let what = format!("seed {seed} case {case}");
        let mut s = Story::default();
        let n_threads = 1 + rng.below(3);
        let mut now = vec![0; n_threads];
        for _ in 0..rng.below(60) {
            let thread = rng.below(n_threads);
            now[thread] += rng.below(4) as i64;
            let (t, ns, id) = (thread, now[thread], 1 + rng.below(6) as u64);
            match rng.below(10) {
                0 => s.begin(t, ns, "parallel f:1"),
                1 => s.begin(t, ns, "taskloop f:3"),
                2 => s.end(t, ns),
                3 => {
                    s.end(t, ns);
                    s.waits(t, ns, BARRIER, "barrier of parallel f:1", 3);
                }
                4 => s.waits(t, ns, BARRIER, "barrier f:2", 2),
                5 => s.waited(t, ns, BARRIER, 2 + rng.below(2) as u64),
                6 => s.waits(t, ns, JOIN, ["taskwait f:4", "taskgroup f:5"][rng.below(2)], 2),
                7 => s.waited(t, ns, JOIN, 2),
                8 => {
                    s.create(t, ns, ["task f:1", "taskloop f:3"][rng.below(2)], id, 0);
                    s.put(t, ns, DEPENDS, 0, "", (id, 1 + rng.below(6) as u64));
                }
                _ if rng.below(2) == 0 => s.start(t, ns, id),
                _ => s.task_end(t, ns, id),
            }
        }
        let trace = s.trace();
        let (Some(g), Some(s)) =
            (summary(&trace, &Options::default()).tasks.graph, strands(&trace))
        else {
            continue;
        };
        n_graphs += usize::from(!s.implicit.is_empty());
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
    }
    assert!(n_graphs > 50, "only {n_graphs} had a region");
}
