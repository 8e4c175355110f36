//! The replay against a simulation that shares nothing with it but the rules: random programs, 1 to 64 CPUs.
//!
//! The referee has no recorded steps, no event queue and no scripts: it looks at all threads, finds the next moment at
//! which one of them changes, and moves there. Both have the same times to play, to the last thread's end, so that a thread that
//! is left behind shows.
use kasuri_base::random::Rng;
use kasuri_predict::program::{Lock, Program, Script, Step};
use kasuri_predict::replay::{Setup, replay};
use kasuri_predict::{Class, Machine, load, models};

/// One random program: threads that compute, take one of some locks, and sometimes are away.
#[derive(Clone, Debug)]
struct Truth {
    threads: usize,
    locks: usize,
    compute: f64,
    hold: f64,
    delay: f64,
    /// Times are constant, or exponential.
    constant: bool,
}

impl Truth {
    fn random(rng: &mut Rng) -> Truth {
        let compute = 10f64.powf(3.0 + 2.0 * rng.uniform());
        Truth {
            threads: [2, 3, 4, 8, 16, 32, 64][rng.below(7)],
            locks: [1, 1, 2, 4, 8][rng.below(5)],
            compute,
            hold: compute * 10f64.powf(-2.0 + 2.0 * rng.uniform()),
            delay: if rng.below(3) == 0 { compute * rng.uniform() * 3.0 } else { 0.0 },
            constant: rng.below(4) == 0,
        }
    }

    fn draw(&self, mean: f64, rng: &mut Rng) -> f64 {
        if self.constant { mean * (0.9 + 0.2 * rng.uniform()) } else { rng.exponential(mean) }
    }

    /// The same times for both simulations: chance is not what is tested.
    fn rounds(&self, rounds: usize, rng: &mut Rng) -> Vec<Vec<Round>> {
        let round = |rng: &mut Rng| Round {
            compute: self.draw(self.compute, rng).floor() + 1.0,
            lock: rng.below(self.locks),
            hold: self.draw(self.hold, rng).floor() + 1.0,
            delay: if self.delay > 0.0 { self.draw(self.delay, rng).floor() + 1.0 } else { 0.0 },
        };
        let thread = |_| (0..rounds).map(|_| round(rng)).collect();
        (0..self.threads).map(thread).collect()
    }
}

/// What a thread does once: computes, holds a lock, is away.
#[derive(Clone, Copy, Debug)]
struct Round {
    compute: f64,
    lock: usize,
    hold: f64,
    delay: f64,
}

/// As a recording would give them.
fn program(threads: &[Vec<Round>], locks: usize) -> Program {
    let script = |(i, rounds): (usize, &Vec<Round>)| {
        let mut steps = Vec::new();
        for round in rounds {
            steps.push(Step::Compute(round.compute as u64));
            steps.push(Step::Acquire(round.lock as u32, false));
            steps.push(Step::Compute(round.hold as u64));
            steps.push(Step::Release(round.lock as u32));
            if round.delay > 0.0 {
                steps.push(Step::Delay(round.delay as u64));
            }
        }
        Script { name: format!("t{i}"), steps, ..Script::default() }
    };
    Program {
        scripts: threads.iter().enumerate().map(script).collect(),
        locks: vec![Lock::default(); locks],
        ..Program::default()
    }
}

/// What a thread of the referee is doing.
#[derive(Clone, Copy, PartialEq)]
enum Doing {
    Compute,
    /// Was woken: tries its lock as soon as it has a CPU.
    Try,
    Hold,
    Asleep,
    Away,
    Ended,
}

const SLICE: f64 = 3e6;

/// One thread of the referee.
struct Runner<'a> {
    rounds: &'a [Round],
    doing: Doing,
    left: f64,
    /// Neither on a CPU nor asleep.
    waits: bool,
    on: bool,
    /// CPU time, and what sleeping is charged.
    used: f64,
    turn: f64,
    slept: f64,
    came: u64,
}

/// How long the threads take on `n_cpus`, when waking and switching cost nothing and running threads may barge into mutexes.
struct Referee<'a> {
    n_cpus: usize,
    threads: Vec<Runner<'a>>,
    held: Vec<bool>,
    /// The lock's word is 2.
    wanted: Vec<bool>,
    sleepers: Vec<Vec<usize>>,
    came: u64,
    least: f64,
}

fn referee(rounds: &[Vec<Round>], locks: usize, n_cpus: usize) -> f64 {
    let mut threads = Vec::new();
    for (i, rounds) in rounds.iter().enumerate() {
        threads.push(Runner {
            rounds,
            doing: Doing::Compute,
            left: rounds[0].compute,
            waits: true,
            on: false,
            used: 0.0,
            turn: 0.0,
            slept: 0.0,
            came: i as u64,
        });
    }
    let mut all = Referee {
        n_cpus,
        threads,
        held: vec![false; locks],
        wanted: vec![false; locks],
        sleepers: vec![Vec::new(); locks],
        came: rounds.len() as u64,
        least: 0.0,
    };
    all.wall()
}

impl Referee<'_> {
    fn wall(&mut self) -> f64 {
        let mut now = 0.0;
        while self.threads.iter().any(|t| t.doing != Doing::Ended) {
            while self.give_a_cpu() {}
            let step = self.step();
            assert!(step.is_finite(), "the referee is stuck");
            now += step;
            for t in &mut self.threads {
                if t.on || t.doing == Doing::Away {
                    t.left -= step;
                }
                if t.on {
                    t.used += step;
                    t.turn += step;
                } else if !t.waits {
                    t.slept += step;
                }
            }
            for t in 0..self.threads.len() {
                let thread = &self.threads[t];
                if (thread.on || thread.doing == Doing::Away) && thread.left <= 1e-6 {
                    self.go_on(t);
                }
            }
            // The thread that is owed most may preempt another: of those that have had their share, the one most beyond it.
            while let Some(hungry) = self.hungriest()
                && let Some(full) = (0..self.threads.len())
                    .filter(|&t| self.threads[t].on && self.may_run(t, hungry) <= 1e-6)
                    .min_by(|&a, &b| self.may_run(a, hungry).total_cmp(&self.may_run(b, hungry)))
            {
                self.threads[full].on = false;
                self.give_a_cpu();
                self.queue(full);
            }
        }
        now
    }

    /// Until something happens.
    fn step(&self) -> f64 {
        let hungry = self.hungriest();
        let mut step = f64::INFINITY;
        for (ix, t) in self.threads.iter().enumerate() {
            if t.on || t.doing == Doing::Away {
                step = step.min(t.left.max(0.0));
            }
            if t.on
                && let Some(hungry) = hungry
            {
                step = step.min(self.may_run(ix, hungry).max(0.0));
            }
        }
        step
    }

    fn hungriest(&self) -> Option<usize> {
        (0..self.threads.len()).filter(|&t| self.threads[t].waits).min_by(|&a, &b| {
            let (a, b) = (&self.threads[a], &self.threads[b]);
            a.used.total_cmp(&b.used).then(a.came.cmp(&b.came))
        })
    }

    /// A turn is a slice of CPU time, whatever sleeps are in between. It may be longer for one who is behind, and
    /// shorter for one who is a slice ahead.
    fn may_run(&self, t: usize, hungry: usize) -> f64 {
        let ahead = self.threads[t].used - self.threads[hungry].used;
        (SLICE - self.threads[t].turn).max(-ahead).min(SLICE - ahead)
    }

    fn give_a_cpu(&mut self) -> bool {
        if self.threads.iter().filter(|t| t.on).count() >= self.n_cpus {
            return false;
        }
        let Some(t) = self.hungriest() else {
            return false;
        };
        let thread = &mut self.threads[t];
        (thread.on, thread.waits) = (true, false);
        if thread.turn >= SLICE - 2e-6 {
            thread.turn = 0.0;
        }
        if thread.doing == Doing::Try {
            self.try_lock(t, true);
        }
        true
    }

    fn queue(&mut self, t: usize) {
        self.came += 1;
        self.threads[t].waits = true;
        self.threads[t].came = self.came;
    }

    fn note_least(&mut self) -> f64 {
        let competes = |t: &&Runner<'_>| t.on || t.waits;
        let least = self.threads.iter().filter(competes).map(|t| t.used);
        let least = least.fold(f64::INFINITY, f64::min);
        if least.is_finite() { least } else { self.least }
    }

    /// Sleeping is charged like running, but half a slice short of the least of the others.
    fn wake(&mut self, t: usize) {
        let most = self.note_least() - SLICE / 2.0;
        let thread = &mut self.threads[t];
        let charge = (most - thread.used).min(thread.slept).max(0.0);
        thread.used += charge;
        thread.turn += charge;
        self.queue(t);
    }

    fn off(&mut self, t: usize) {
        self.least = self.least.max(self.note_least());
        self.threads[t].on = false;
        self.threads[t].slept = 0.0;
    }

    fn try_lock(&mut self, t: usize, was_asleep: bool) {
        let round = self.threads[t].rounds[0];
        if self.held[round.lock] {
            self.wanted[round.lock] = true;
            self.sleepers[round.lock].push(t);
            self.threads[t].doing = Doing::Asleep;
            self.off(t);
        } else {
            self.held[round.lock] = true;
            self.wanted[round.lock] |= was_asleep;
            self.threads[t].doing = Doing::Hold;
            self.threads[t].left = round.hold;
        }
    }

    fn next_round(&mut self, t: usize) {
        let thread = &mut self.threads[t];
        thread.rounds = &thread.rounds[1..];
        match thread.rounds.first() {
            Some(round) => {
                thread.doing = Doing::Compute;
                thread.left = round.compute;
                if !thread.on {
                    self.wake(t);
                }
            }
            None => {
                thread.doing = Doing::Ended;
                if thread.on {
                    self.off(t);
                }
            }
        }
    }

    fn go_on(&mut self, t: usize) {
        let round = self.threads[t].rounds[0];
        match self.threads[t].doing {
            Doing::Compute => self.try_lock(t, false),
            Doing::Hold => {
                self.held[round.lock] = false;
                // The value 2 says that threads may wait: the release wakes one of them, which sees to the next.
                if std::mem::take(&mut self.wanted[round.lock])
                    && !self.sleepers[round.lock].is_empty()
                {
                    let next = self.sleepers[round.lock].remove(0);
                    self.threads[next].doing = Doing::Try;
                    self.wake(next);
                }
                if round.delay > 0.0 {
                    self.threads[t].doing = Doing::Away;
                    self.threads[t].left = round.delay;
                    self.off(t);
                } else {
                    self.next_round(t);
                }
            }
            Doing::Away => self.next_round(t),
            Doing::Try | Doing::Asleep | Doing::Ended => {}
        }
    }
}

/// The replay's speed-up, of a recording long enough that its ends do not matter.
fn predicted(program: &Program, n_cpus: usize) -> f64 {
    let machine = Machine { slice_ns: 3e6, ..Machine::ideal() };
    let wall = |p: usize| replay(program, &Setup::new(&machine, p)).wall_ns;
    wall(1) / wall(n_cpus)
}

#[test]
fn replay_agrees_with_the_referee_on_200_random_programs() {
    let seed = 7_2024;
    let mut rng = Rng::new(seed);
    let mut errors: Vec<(f64, String)> = Vec::new();
    for case in 0..200 {
        let truth = Truth::random(&mut rng);
        let rounds = truth.rounds((20_000 / truth.threads).max(400), &mut rng);
        let n_cpus = [2, 4, 8, 16, 32, 64][rng.below(6)];
        let want = referee(&rounds, truth.locks, 1) / referee(&rounds, truth.locks, n_cpus);
        let got = predicted(&program(&rounds, truth.locks), n_cpus);
        errors.push((
            (got / want - 1.0).abs(),
            format!("case {case}: {truth:?} on {n_cpus}: {got:.3}, referee {want:.3}"),
        ));
    }
    errors.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (median, p90, worst) = (errors[100].0, errors[180].0, &errors[199]);
    println!(
        "median {:.2} %, 90th {:.2} %, worst {:.2} %: {}",
        100.0 * median,
        100.0 * p90,
        100.0 * worst.0,
        worst.1
    );
    assert!(median < 0.01, "seed {seed}: median {median}");
    assert!(worst.0 < 0.05, "seed {seed}: {worst:?}");
}

/// The class is what locks leave of the speed on two CPUs, and how far the busiest lets it grow.
#[test]
fn class_is_the_referees() {
    let seed = 99;
    let mut rng = Rng::new(seed);
    let machine = Machine { slice_ns: SLICE, ..Machine::ideal() };
    let options =
        kasuri_predict::Options { machine, cpus: vec![2], what_if: false, ..Default::default() };
    let mut seen = [0; 3];
    for case in 0..40 {
        let mut truth = Truth::random(&mut rng);
        // Many threads or long delays hide any lock from two CPUs: those would all be low.
        truth.threads = 2 + rng.below(3);
        truth.locks = 1 + rng.below(2);
        truth.hold = truth.compute * 10f64.powf(-1.5 + 2.0 * rng.uniform());
        truth.delay = 0.0;
        let rounds = truth.rounds(16_000 / truth.threads, &mut rng);
        // A lock of one's own is as good as none.
        let mut free = rounds.clone();
        for (t, rounds) in free.iter_mut().enumerate() {
            rounds.iter_mut().for_each(|r| r.lock = t);
        }
        let with = referee(&rounds, truth.locks, 2);
        let efficiency = (referee(&free, truth.threads, 2) / with).min(1.0);
        let extract = kasuri_predict::Extract {
            program: program(&rounds, truth.locks),
            n_cpus: 1,
            ..Default::default()
        };
        let got = kasuri_predict::from_extracts(&extract, None, &options);
        assert!(
            (got.lock_efficiency.unwrap() - efficiency).abs() < 0.03,
            "seed {seed}, case {case}: {truth:?}: {:?} {efficiency}",
            got.lock_efficiency
        );
        // What is inside the busiest lock bounds any number of CPUs.
        let work: f64 = rounds.iter().flatten().map(|r| r.compute + r.hold).sum();
        let inside = |lock| {
            let of = rounds.iter().flatten().filter(|r| r.lock == lock);
            of.map(|r| r.hold).sum::<f64>()
        };
        let cap = work / (0..truth.locks).map(inside).fold(0.0, f64::max);
        let said = got.cap.as_ref().unwrap().speedup;
        assert!((said / cap - 1.0).abs() < 0.02, "{said}, not {cap}");
        // At the very border either is right.
        let near = |value: f64, borders: [f64; 2], by: f64| {
            borders.iter().any(|b| (value / b - 1.0).abs() < by)
        };
        if near(efficiency, [0.95, 0.75], 0.01) || near(cap, [10.0, 2.5], 0.02) {
            continue;
        }
        let class = Class::of(efficiency, Some(cap));
        assert_eq!(got.class, Some(class), "seed {seed}, case {case}: {truth:?}");
        seen[class as usize] += 1;
    }
    assert!(seen.iter().all(|&n| n >= 3), "{seen:?}");
}

/// Found in the field: two of three threads kept the CPUs, the third came last and alone.
#[test]
fn replay_leaves_no_thread_behind() {
    let truth =
        Truth { threads: 3, locks: 8, compute: 1_591.0, hold: 104.0, delay: 0.0, constant: true };
    let rounds = truth.rounds(20_000, &mut Rng::new(1));
    let got = predicted(&program(&rounds, truth.locks), 2);
    assert!(got > 1.95, "{got}");
}

/// Negative control: without locks in the script the agreement is lost.
#[test]
fn referee_notices_missing_locks() {
    let truth =
        Truth { threads: 4, locks: 1, compute: 4e3, hold: 4e3, delay: 0.0, constant: false };
    let rounds = truth.rounds(4_000, &mut Rng::new(3));
    let program = program(&rounds, truth.locks);
    let want = referee(&rounds, truth.locks, 1) / referee(&rounds, truth.locks, 4);
    let with = predicted(&program, 4) / want - 1.0;
    let without = predicted(&kasuri_predict::whatif::without_lock(&program, None), 4) / want - 1.0;
    assert!(with.abs() < 0.05 && without > 0.3, "{with} {without}");
}

/// The analytical models against the same referee.
#[test]
fn models_stay_near_the_referee() {
    for (threads, n_cpus, hold) in
        [(2, 2, 500.0), (4, 2, 500.0), (4, 4, 2_000.0), (8, 4, 300.0), (16, 8, 1_000.0)]
    {
        let truth = Truth { threads, locks: 1, compute: 4e3, hold, delay: 0.0, constant: false };
        let rounds = truth.rounds(8_000, &mut Rng::new(11));
        let want = referee(&rounds, truth.locks, 1) / referee(&rounds, truth.locks, n_cpus);
        let load = load(&program(&rounds, truth.locks).sums());
        let queueing = models::ctmc::throughput(&load, n_cpus).unwrap() / load.one_cpu_rate();
        let error = queueing / want - 1.0;
        assert!(
            error.abs() < 0.04,
            "{threads} threads, {n_cpus} CPUs, hold {hold}: {queueing} {want}"
        );
        let bound = models::bounds::speedup(&load, n_cpus);
        assert!(want < 1.02 * bound);
    }
}

#[test]
fn replay_on_more_cpus_is_not_slower_where_waking_is_free() {
    let mut rng = Rng::new(5);
    for _ in 0..20 {
        let truth = Truth::random(&mut rng);
        let program = program(&truth.rounds(400, &mut rng), truth.locks);
        let mut last = 0.0;
        for n_cpus in [1, 2, 4, 8, 16] {
            let now = predicted(&program, n_cpus);
            assert!(now > 0.97 * last, "{truth:?} on {n_cpus}: {now} after {last}");
            last = now;
        }
    }
}

#[test]
fn replay_knows_events_barriers_and_delays() {
    // One makes two others, which meet at a barrier; it waits for both. By hand: 10 + max(30, 50) + 20 + 5 on 3 CPUs.
    let script = |steps: Vec<Step>| Script { steps, ..Script::default() };
    let us = |n: u64| Step::Compute(n * 1000);
    let program = Program {
        scripts: vec![
            script(vec![us(10), Step::Post(0), Step::Post(1), Step::Wait(2), Step::Wait(3), us(5)]),
            script(vec![Step::Wait(0), us(30), Step::Barrier(0), us(20), Step::Post(2)]),
            script(vec![
                Step::Wait(1),
                us(50),
                Step::Barrier(0),
                Step::Delay(12_000),
                Step::Post(3),
            ]),
        ],
        n_events: 4,
        rounds: vec![2],
        ..Program::default()
    };
    let machine = Machine::ideal();
    let wall = |p| {
        let mut setup = Setup::new(&machine, p);
        setup.jitter = 0.0;
        let outcome = replay(&program, &setup);
        assert_eq!(outcome.forced, 0);
        outcome.wall_ns
    };
    assert_eq!((wall(1), wall(3)), (115_000.0, 85_000.0));
    let graph = kasuri_predict::graph(&program);
    assert_eq!(graph.work(), 127_000.0);
    assert_eq!(graph.span(), 85_000.0);
}

/// A mutex with hand-over costs, by hand: two threads, one round each, the second finds the lock taken.
#[test]
fn replay_charges_sleeping_and_waking() {
    let round = |think: u64| Script {
        steps: vec![
            Step::Compute(think),
            Step::Acquire(0, false),
            Step::Compute(100_000),
            Step::Release(0),
        ],
        ..Script::default()
    };
    let program = Program {
        scripts: vec![round(1_000), round(2_000)],
        locks: vec![Lock::default()],
        ..Program::default()
    };
    let machine = Machine {
        wake_latency_short_ns: 30_000.0,
        wake_latency_ns: 30_000.0,
        wake_latency_long_ns: 30_000.0,
        wake_call_ns: 8_000.0,
        wake_call_short_ns: 8_000.0,
        wake_call_long_ns: 8_000.0,
        retry_ns: 300.0,
        switch_ns: 1_000.0,
        ..Machine::ideal()
    };
    let mut setup = Setup::new(&machine, 2);
    setup.jitter = 0.0;
    let outcome = replay(&program, &setup);
    // 1 us + 100 us, then 30 us until the second runs, then 100 us; who slept for it asks the kernel to wake more: 0.3 us.
    assert_eq!(outcome.wall_ns, 231_300.0);
    assert_eq!(outcome.locks[0].contended, 1);
    // It waits from 2 us to 131 us.
    assert_eq!(outcome.locks[0].waited_ns, 129_000.0);
}

/// It sleeps deeper with time: 10 us after 3 us, 20 after 50, 40 after a millisecond.
#[test]
fn waking_costs_more_with_idleness() {
    let machine = Machine {
        wake_call_short_ns: 1_000.0,
        wake_call_ns: 2_000.0,
        wake_call_long_ns: 4_000.0,
        wake_latency_short_ns: 10_000.0,
        wake_latency_ns: 20_000.0,
        wake_latency_long_ns: 40_000.0,
        ..Machine::ideal()
    };
    for (idle, want) in
        [(0.0, 10_000.0), (3e3, 10_000.0), (50e3, 20_000.0), (1e6, 40_000.0), (1e9, 40_000.0)]
    {
        assert!((machine.latency(idle) - want).abs() < 1e-6, "{idle}");
        assert!((machine.call(idle) - want / 10.0).abs() < 1e-6, "{idle}");
    }
    // Half way by the logarithm.
    let middle = machine.latency((50e3f64 * 1e6).sqrt());
    assert!((middle - 30_000.0).abs() < 1e-6, "{middle}");
    assert_eq!(Machine::ideal().latency(1e5), 0.0);
}
