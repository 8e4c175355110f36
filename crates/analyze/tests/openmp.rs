//! Regions and loops of OpenMP: counts and times by hand, and schedules against a simulation that takes one iteration at a time.
use kasuri_analyze::{Hint, OpenMp, OpenMpLoop, Options, summary};
use kasuri_base::random::Rng;
use kasuri_model::input::{Annotation, Event, Setup};
use kasuri_model::{AnnotationVec, Input, StrIx, Strings, ThreadState, Time};

/// `enum kasuri_kind`.
const BEGIN: u8 = 1;
const END: u8 = 2;
const WAIT_BEGIN: u8 = 5;
const WAIT_END: u8 = 6;
const CREATE: u8 = 10;
const START: u8 = 11;
const TASK_END: u8 = 14;
const ARG: u8 = 17;
/// `enum kasuri_wait_kind`, `enum kasuri_arg_type`.
const BARRIER: u16 = 1;
const SIGNED: u16 = 1;
const UNSIGNED: u16 = 2;
/// What the threads of the team wait at: its barriers, and the ends of its regions.
const BARRIERS: u64 = 2;
const ENDS: u64 = 3;

/// What threads of one process wrote, as the probe does. Without kernel events, so that busy is what is no wait.
#[derive(Default)]
struct Story {
    strings: Strings,
    streams: Vec<AnnotationVec>,
}

impl Story {
    fn put(&mut self, thread: usize, ns: i64, kind: u8, aux: u16, name: &str, a: u64) {
        while self.streams.len() <= thread {
            self.streams.push(AnnotationVec {
                pid: 1,
                tid: 1 + self.streams.len() as i32,
                ..AnnotationVec::default()
            });
        }
        let name = self.strings.intern(name);
        self.streams[thread].events.push(Annotation {
            time: Time(ns),
            kind,
            aux,
            name,
            a,
            ..Annotation::default()
        });
    }

    fn begin(&mut self, thread: usize, ns: i64, name: &str) {
        self.put(thread, ns, BEGIN, 0, name, 0);
    }

    fn end(&mut self, thread: usize, ns: i64) {
        self.put(thread, ns, END, 0, "", 0);
    }

    fn wait(&mut self, thread: usize, from: i64, to: i64, object: u64, name: &str) {
        self.put(thread, from, WAIT_BEGIN, BARRIER, name, object);
        self.put(thread, to, WAIT_END, BARRIER, "", object);
    }

    /// The thread's part is over, and it waits for the others.
    fn leave(&mut self, thread: usize, from: i64, to: i64, region: &str) {
        self.end(thread, from);
        self.wait(thread, from, to, ENDS, &format!("barrier of {region}"));
    }

    /// A chunk; when it ends.
    fn chunk(&mut self, thread: usize, ns: i64, first: i64, costs: &[i64]) -> i64 {
        self.begin(thread, ns, "chunk f:2");
        let n = costs.len() as u64;
        self.put(thread, ns, ARG, UNSIGNED, "iterations", n);
        self.put(thread, ns, ARG, SIGNED, "first", first as u64);
        let end = ns + costs.iter().sum::<i64>();
        self.end(thread, end);
        end
    }

    fn openmp(self) -> Option<OpenMp> {
        let setup =
            Setup { span: Time(0)..Time(1_000_000_000), root_pids: vec![1], ..Setup::default() };
        let trace = Input { setup, strings: self.strings, cpus: Vec::new(), streams: self.streams };
        let trace = trace.build().unwrap();
        assert_eq!(trace.broken_rules(), Vec::<String>::new());
        summary(&trace, &Options::default()).openmp
    }
}

/// A loop of two threads in a region: who has which iterations (first, number), in order of time.
fn a_loop(name: &str, costs: &[i64], shares: &[Vec<(usize, usize)>]) -> Story {
    let mut s = Story::default();
    let mut ends = Vec::new();
    for (thread, share) in shares.iter().enumerate() {
        s.begin(thread, 0, "parallel f:1");
        s.begin(thread, 0, name);
        let mut now = 0;
        for &(first, n) in share {
            now = s.chunk(thread, now, first as i64, &costs[first..first + n]);
        }
        let end = now.max(1);
        s.end(thread, end);
        ends.push(end);
    }
    let last = ends.iter().copied().max().unwrap_or(0) + 1;
    for (thread, &end) in ends.iter().enumerate() {
        s.leave(thread, end, last, "parallel f:1");
    }
    s
}

fn only_loop(story: Story) -> OpenMpLoop {
    let openmp = story.openmp().unwrap();
    assert_eq!(openmp.loops.len(), 1);
    openmp.loops[0].clone()
}

/// What is to be tried of a recording in which each thread has a CPU of its own until `end`.
fn hints(story: Story, end: i64) -> Vec<Hint> {
    let switch = |ns, prev, state, next| Event::switch(ns, prev, state, next, StrIx::NONE);
    let cpu = |tid| {
        vec![switch(0, 0, ThreadState::Sleeping, tid), switch(end, tid, ThreadState::Sleeping, 0)]
    };
    let setup = Setup {
        span: Time(0)..Time(end),
        n_cpus: 2,
        root_pids: vec![1],
        recorded: vec![0, 1],
        ..Setup::default()
    };
    let trace =
        Input { setup, strings: story.strings, cpus: vec![cpu(1), cpu(2)], streams: story.streams };
    summary(&trace.build().unwrap(), &Options::default()).hints
}

/// Iterations handed out to two threads by whoever is free, `next` of what is left at a time.
fn simulated(costs: &[i64], next: impl Fn(usize) -> usize) -> i64 {
    let (mut free, mut from) = ([0i64; 2], 0);
    while from < costs.len() {
        let to = (from + next(costs.len() - from)).min(costs.len());
        let who = usize::from(free[1] < free[0]);
        free[who] += costs[from..to].iter().sum::<i64>();
        from = to;
    }
    free[0].max(free[1])
}

/// Thread 1 works 0..60 and 100..110 with a barrier 60..100 in between; thread 2 works 0..100 and 100..150; all leave at 150.
#[test]
fn a_region_has_its_work_waits_and_imbalance_between_barriers() {
    let mut s = Story::default();
    let name = "parallel main:5";
    s.begin(0, 0, name);
    s.wait(0, 60, 100, BARRIERS, "barrier main:8");
    s.leave(0, 110, 150, name);
    s.begin(1, 0, name);
    s.wait(1, 100, 100, BARRIERS, "barrier main:8");
    s.leave(1, 150, 150, name);
    let openmp = s.openmp().unwrap();
    assert!(openmp.loops.is_empty());
    let [r] = &openmp.regions[..] else { panic!("{openmp:?}") };
    assert_eq!((r.times.count, r.times.threads, r.times.wall_ns), (1, 2, 150));
    assert_eq!((r.times.work_ns, r.times.barrier_ns), (220, 80));
    // 100 of 60 and 100; 50 of 10 and 50: max 150, mean 80 + 30.
    assert_eq!((r.times.busiest_ns, r.times.even_saves_ns), (150, 40));
    assert!((r.times.imbalance - 40.0 / 150.0).abs() < 1e-9);
}

/// A task that a thread runs while it waits is work: 30 of the 90 at the barrier.
#[test]
fn a_task_at_a_barrier_is_work() {
    let mut s = Story::default();
    let name = "parallel main:5";
    s.begin(0, 0, name);
    s.put(0, 5, CREATE, 0, "task main:7", 9);
    s.end(0, 100);
    s.wait(0, 100, 100, ENDS, "barrier of parallel main:5");
    s.begin(1, 0, name);
    s.end(1, 10);
    s.put(1, 10, WAIT_BEGIN, BARRIER, "barrier of parallel main:5", ENDS);
    s.put(1, 20, START, 0, "", 9);
    s.put(1, 50, TASK_END, 0, "", 9);
    s.put(1, 100, WAIT_END, BARRIER, "", ENDS);
    let openmp = s.openmp().unwrap();
    let r = &openmp.regions[0];
    assert_eq!((r.times.count, r.times.work_ns, r.times.barrier_ns), (1, 140, 60));
    assert_eq!((r.times.busiest_ns, r.times.even_saves_ns), (100, 30));
}

/// The worker's second region comes so late that the end of its first is forgotten: its wait has no length then. That is no
/// execution of its own. A region that was left by exit is none either.
#[test]
fn what_is_no_execution_is_not_counted() {
    let mut s = Story::default();
    let name = "parallel main:5";
    s.begin(0, 0, name);
    s.leave(0, 100, 100, name);
    s.begin(1, 0, name);
    s.leave(1, 40, 40, name);
    s.begin(1, 40, "omp: idle");
    s.end(1, 500);
    for thread in 0..2 {
        s.begin(thread, 500, name);
        s.leave(thread, 600, 600, name);
        s.begin(thread, 700, "parallel main:9");
    }
    let openmp = s.openmp().unwrap();
    let counts: Vec<_> = openmp.regions.iter().map(|r| (r.times.count, r.times.threads)).collect();
    assert_eq!(counts, [(2, 2)]);
    assert!(Story::default().openmp().is_none());
}

/// A region within a region, of the same master: its loops and its waits are its own.
#[test]
fn a_nested_region_keeps_its_loops_and_waits() {
    let mut s = Story::default();
    s.begin(0, 0, "parallel outer:1");
    s.begin(0, 10, "parallel inner:2");
    s.begin(0, 10, "for dynamic inner:3");
    let end = s.chunk(0, 10, 0, &[20]);
    s.end(0, end);
    s.leave(0, 30, 50, "parallel inner:2");
    s.leave(0, 60, 60, "parallel outer:1");
    let openmp = s.openmp().unwrap();
    let of = |name: &str| openmp.regions.iter().find(|r| r.name == name).unwrap();
    let (outer, inner) = (of("parallel outer:1"), of("parallel inner:2"));
    assert_eq!((outer.times.work_ns, outer.times.barrier_ns), (40, 0));
    assert_eq!((inner.times.work_ns, inner.times.barrier_ns), (20, 20));
    assert_eq!(openmp.loops[0].region, "parallel inner:2");
    assert_eq!(openmp.loops[0].refused, Some("one thread runs it"));
}

/// Every other of 64 iterations takes 100, the others 10, and each thread has every other one: 3200 and 320. In halves each
/// thread would have 1760.
#[test]
fn every_other_iteration_is_heavy() {
    let costs: Vec<i64> = (0..64).map(|i| if i % 2 == 0 { 100 } else { 10 }).collect();
    let of = |thread: usize| (0..32).map(|i| (2 * i + thread, 1)).collect();
    let l = only_loop(a_loop("for runtime f:2", &costs, &[of(0), of(1)]));
    assert_eq!((l.times.count, l.chunks, l.iterations), (1, 64, 64));
    assert_eq!((l.times.busiest_ns, l.times.even_saves_ns), (3200, 1440));
    let best = l.advice().unwrap();
    assert_eq!((best.schedule.as_str(), best.wall_ns, best.saves_ns), ("static", 1760, 1440));
    assert_eq!(l.refused, None);
}

/// The same chunks of a loop that was dynamic: that each thread had every other one is chance. Whoever is free takes the next.
#[test]
fn a_dynamic_loop_whose_chunks_went_round_is_replayed_as_dynamic() {
    let costs: Vec<i64> = (0..64).map(|i| if i % 2 == 0 { 100 } else { 10 }).collect();
    let of = |thread: usize| (0..32).map(|i| (2 * i + thread, 1)).collect();
    for (name, is_dynamic) in [
        ("for dynamic f:2", true),
        ("for runtime dynamic f:2", true),
        ("for runtime guided f:2", true),
        ("for runtime static f:2", false),
        ("for static f:2", false),
    ] {
        let l = only_loop(a_loop(name, &costs, &[of(0), of(1)]));
        let recorded = l.schedules[0].wall_ns + l.schedules[0].saves_ns;
        let expected = if is_dynamic { 1810 } else { 3200 };
        assert!((recorded - expected).abs() < 60, "{name}: {recorded}");
    }
}

/// The hint on it: where the schedule is the environment's, with the command; not where each has as much, or it is nothing beside the
/// rest of the run.
#[test]
fn the_hint_names_the_schedule_where_it_is_worth_it() {
    let every_other = |name: &str, light: i64| {
        let costs: Vec<i64> = (0..64).map(|i| if i % 2 == 0 { 100_000 } else { light }).collect();
        let of = |thread: usize| (0..32).map(|i| (2 * i + thread, 1)).collect();
        a_loop(name, &costs, &[of(0), of(1)])
    };
    let found = hints(every_other("for runtime f:2", 10_000), 3_300_000);
    let [hint] = &found[..] else { panic!("{found:?}") };
    assert_eq!((hint.kind, hint.cost_ns), ("schedule", 2 * 1_440_000));
    let said = "for runtime f:2: schedule(static) would save 0.001 s of its 0.003 s; replayed from 64 chunks";
    assert!(hint.text.contains(said), "{}", hint.text);
    let command = Some("export OMP_SCHEDULE=static".to_owned());
    assert_eq!(hint.command, command);
    let fixed = hints(every_other("for static f:2", 10_000), 3_300_000);
    assert_eq!((fixed.len(), &fixed[0].command), (1, &None));
    assert!(hints(every_other("for runtime f:2", 99_000), 3_300_000).is_empty());
    assert!(hints(every_other("for runtime f:2", 10_000), 330_000_000).is_empty());
}

/// Which thread had a chunk of a dynamic loop is chance: one that got no CPU has fewer. The schedule is not to blame.
#[test]
fn a_dynamic_loop_whose_thread_was_held_up_needs_no_other_schedule() {
    let costs = vec![100; 64];
    let shares = [(0..60).map(|i| (i, 1)).collect(), (60..64).map(|i| (i, 1)).collect()];
    let l = only_loop(a_loop("for dynamic f:2", &costs, &shares));
    assert!(!l.schedules.is_empty());
    assert_eq!(l.advice(), None, "{:?}", l.schedules);
}

#[test]
fn schedules_are_as_one_iteration_at_a_time_has_them() {
    let mut rng = Rng::new(16);
    let mut differ = 0;
    for _ in 0..200 {
        let n = 40 + rng.below(400);
        let costs: Vec<i64> = (0..n).map(|_| 1 + rng.below(1000) as i64).collect();
        // Chunks of a few iterations, to whichever thread; at most as many as are compared below.
        let mut shares = vec![Vec::new(), Vec::new()];
        let (mut from, most) = (0, 1 + rng.below(3));
        while from < n {
            let length = (1 + rng.below(most)).min(n - from);
            shares[rng.below(2)].push((from, length));
            from += length;
        }
        let whole = most == 1;
        let l = only_loop(a_loop("for dynamic f:2", &costs, &shares));
        for said in &l.schedules {
            let (kind, size) = said.schedule.split_once(',').unwrap_or((&said.schedule, "1"));
            let size: usize = size.parse().unwrap();
            let truth = match kind {
                "static" => {
                    let half = costs[..n / 2].iter().sum::<i64>();
                    half.max(costs[n / 2..].iter().sum())
                }
                "guided" => simulated(&costs, |left| left.div_ceil(2).max(size)),
                _ => simulated(&costs, |_| size),
            };
            let error = (said.wall_ns - truth).abs();
            // Within a chunk of several iterations the time is taken to grow evenly.
            let allowed = if whole { n as i64 } else { 3000 };
            assert!(error <= allowed, "{said:?}, not {truth}, of {costs:?}");
            differ += usize::from(truth != l.schedules[0].wall_ns);
        }
    }
    assert!(differ > 100, "{differ}: the schedules are all alike");
}

#[test]
fn what_cannot_be_told_says_why() {
    let costs = vec![100; 64];
    let halves = || [vec![(0, 32)], vec![(32, 32)]];
    let fine = || [0, 32].map(|from| (from..from + 32).map(|i| (i, 1)).collect());
    let why = |name: &str, shares: &[Vec<(usize, usize)>]| {
        let l = only_loop(a_loop(name, &costs, shares));
        assert_eq!(l.advice(), None);
        l.refused
    };
    assert_eq!(why("for dynamic f:2", &fine()), None);
    for (name, shares, expected) in [
        ("for runtime f:2", halves(), "its chunks are too long to tell what is in them"),
        ("for static f:2", [vec![], vec![]], "its chunks are not seen"),
        ("for ordered dynamic f:2", fine(), "its iterations wait for each other"),
        ("for doacross f:2", fine(), "its iterations wait for each other"),
        ("sections f:2", fine(), "sections are not divided further"),
    ] {
        assert_eq!(why(name, &shares), Some(expected), "{name}");
    }
    // More work follows the loop at once: another thread's saving may be lost there.
    let mut s = Story::default();
    for thread in 0..2 {
        s.begin(thread, 0, "parallel f:1");
        s.begin(thread, 0, "for dynamic f:2");
        let mut now = 0;
        for i in 0..32 {
            now = s.chunk(thread, now, 32 * thread as i64 + i, &[100]);
        }
        s.end(thread, now);
        s.leave(thread, now + 50_000, now + 50_000, "parallel f:1");
    }
    assert_eq!(only_loop(s).refused, Some("no barrier follows"));
}
