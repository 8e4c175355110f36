//! The prediction: replays on many CPU counts, the models beside them, what limits, what if.
//!
//! Each CPU count is replayed with three seeds (long programs: with one), and the mean is the
//! prediction; the interval comes from replays with the machine's uncertain costs at their worst
//! and best (long programs: of a sample, see [`sample`]). Replays know nothing of each other, so
//! some run at once. Results are remembered by (CPU count, variant), because the limits, the
//! what-ifs and the lock class ask for the same ones. A second recording on more CPUs replaces
//! assumed costs of sharing by measured ones (`Costs::learn`).
use crate::answer::*;
use crate::costs::Variant;
use crate::extract::{Extract, Recording, Unfit, extract};
use crate::machine::Machine;
use crate::models::{self, Load};
use crate::program::{Program, Sums};
use crate::replay::{LockUse, Outcome};
use crate::replays::{Other, Replays, at_once, over};
use crate::second::{Replayed, SCATTER, SecondRun};
use crate::{doubt, profile, sample, whatif};
use std::collections::BTreeSet;

/// Options of a prediction.
#[derive(Clone, Debug)]
pub struct Options {
    /// The machine's costs.
    pub machine: Machine,
    /// For how many CPUs; ascending.
    pub cpus: Vec<usize>,
    /// Whether to replay changed programs too.
    pub what_if: bool,
    /// Speed-ups of further pairs of runs, on as many CPUs as both recordings: see
    /// [`crate::speedup_of`].
    pub again: Vec<f64>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            machine: Machine::default(),
            cpus: CPUS.to_vec(),
            what_if: true,
            again: Vec::new(),
        }
    }
}

/// The CPU counts of the table.
pub const CPUS: [usize; 15] = [2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256];

/// Predicts from a recording, and better with a second one of the same program on more CPUs.
///
/// # Errors
/// When the recording cannot be replayed.
pub fn predict<'a>(
    first: impl Into<Recording<'a>>,
    second: Option<Recording<'a>>,
    options: &Options,
) -> Result<Prediction, Unfit> {
    let recording = first.into();
    let first = extract(recording, options.machine.annotation_ns)?;
    let second = match second {
        Some(second) => Some(extract(second, options.machine.annotation_ns)?),
        None => None,
    };
    let mut out = from_extracts(&first, second.as_ref(), options);
    out.command = recording.trace.info.command.clone();
    Ok(out)
}

/// The same from what was extracted.
pub fn from_extracts(first: &Extract, second: Option<&Extract>, options: &Options) -> Prediction {
    let mut replays = Replays::new(first, options.machine);
    replays.sample = sample::draw(&first.program, replays.costs.machine.slice_ns);
    answer(Answering::new(replays), second, options)
}

fn answer<'a>(
    mut runs: Answering<'a>,
    second: Option<&'a Extract>,
    options: &Options,
) -> Prediction {
    let first = runs.replays.first;
    // Threads that found one CPU only, because others took the rest, tell nothing of two.
    match second {
        Some(second) if second.had_cpus(first.n_cpus + 1) > first.n_cpus => {
            runs.replays.costs.learn(first, second);
            runs.compare(second, &options.again);
        }
        Some(_) => runs.second_is_useless = true,
        None => (),
    }
    let program = &first.program;
    let load = profile::load(&runs.sums);
    let graph = profile::graph(program);
    runs.replays.ahead(&options.cpus);
    let points: Vec<Point> = options.cpus.iter().map(|&cpus| runs.point(cpus)).collect();
    let apart = doubt::Apart {
        hidden: runs.hidden.unwrap_or(1.0),
        costs: runs.costs.unwrap_or((1.0, 1.0)),
    };
    let (efficiency, without_locks) = runs.lock_efficiency(&points);
    let cap = runs.cap(&points);
    let has_locks = !program.locks.is_empty();
    let mut out = Prediction {
        schema: SCHEMA,
        command: Vec::new(),
        recorded_cpus: first.n_cpus,
        recorded_wall_ns: first.wall_ns,
        lost_wall_ns: first.lost_ns,
        replayed_wall_ns: runs.replays.replayed_wall(first.n_cpus.max(1)) as u64,
        threads: program.scripts.len(),
        workers: runs.sums.workers,
        work_ns: runs.sums.work_ns,
        span_ns: graph.span() as u64,
        lock_ratio: has_locks.then(|| ratio(runs.sums.inside_ns, runs.sums.work_ns)),
        lock_efficiency: has_locks.then_some(efficiency),
        without_locks,
        class: has_locks.then(|| Class::of(efficiency, cap.as_ref().map(|c| c.speedup))),
        cap,
        deadlocks: runs.deadlocks(),
        machine: runs.replays.costs.machine,
        locks: runs.lock_profiles(&points),
        points,
        refused: Vec::new(),
        measured: runs.measured(),
        second: runs.fitted.as_ref().map(|f| f.run.clone()),
        believed: String::new(),
        models: Vec::new(),
        what_if: Vec::new(),
        notes: runs.notes(),
    };
    if !out.is_reliable() {
        let check = out.replay_check();
        let note =
            format!("the replay on the recorded CPUs {check}: the speed-ups are not reliable");
        out.notes.insert(0, note);
    }
    let replayed: Vec<f64> =
        (options.cpus.iter()).map(|&cpus| runs.replays.speedup(cpus, Variant::Expected)).collect();
    out.models = models_beside(&out, &replayed, &load, &graph);
    out.believed = believed(&out, &runs);
    let reasons = doubt::reasons(&out, first, &apart);
    // Of a changed program nothing is said where nothing is said of the recorded one.
    if reasons.is_empty() || out.second.is_some() {
        let replayed: Vec<f64> = (options.cpus.iter())
            .map(|&cpus| runs.replays.speedup(cpus, Variant::Sampled))
            .collect();
        let more = runs.more_threads(&options.cpus);
        for ((point, more), replayed) in out.points.iter_mut().zip(more).zip(&replayed) {
            // What the measurement makes of these threads it makes of more.
            point.more_threads = more.map(|more| more * point.speedup / replayed.max(1e-9));
        }
        if options.what_if {
            out.what_if = changes(&mut runs, &out, &replayed);
        }
    }
    out.refuse(reasons, first);
    if !out.points.is_empty() {
        out.notes.extend(runs.range_notes());
    }
    out
}

/// A measured speed-up that the replay exceeds by this factor has a reason that the replay does not
/// know.
const LACKS: f64 = 1.15;

fn ratio(part: u64, whole: u64) -> f64 {
    if whole > 0 { part as f64 / whole as f64 } else { 0.0 }
}

/// Whether threads wait for the lock: a lock that its only user never releases limits no thread.
fn is_wanted(lock: &LockUse, wall: f64) -> bool {
    lock.waited_ns > 0.02 * wall
}

/// The second recording, with what it says of the replay.
struct Fitted<'a> {
    second: &'a Extract,
    run: SecondRun,
    /// Both replays on its number of CPUs.
    here: Replayed,
}

/// An answer on its way.
struct Answering<'a> {
    replays: Replays<'a>,
    sums: Sums,
    fitted: Option<Fitted<'a>>,
    second_is_useless: bool,
    /// Of the speed-ups with and without hidden waits on the first number of CPUs, the greater over
    /// the lesser.
    hidden: Option<f64>,
    /// The speed-ups there with the machine's costs at their worst, and at their best.
    costs: Option<(f64, f64)>,
}

impl<'a> Answering<'a> {
    fn new(replays: Replays<'a>) -> Answering<'a> {
        Answering {
            sums: replays.first.program.sums(),
            replays,
            fitted: None,
            second_is_useless: false,
            hidden: None,
            costs: None,
        }
    }

    /// Where threads may have waited for those that took their CPU, both are possible: the range
    /// has both, and the middle is expected.
    fn with_hidden_waits(&mut self, cpus: usize, ends: (f64, f64, f64)) -> (f64, f64, f64) {
        let Some(tied) = &self.replays.first.tied else {
            return ends;
        };
        let one = self.replays.wall_of(Other::Tied, tied, 1);
        let other = over(one, self.replays.wall_of(Other::Tied, tied, cpus), cpus);
        let (expected, low, high) = ends;
        let middle = (expected * other).sqrt();
        (self.hidden).get_or_insert((expected / other).max(other / expected));
        (middle, low.min(other * (1.0 - SCATTER)), high.max(other * (1.0 + SCATTER)))
    }

    /// The second run's measurement against both replays.
    fn compare(&mut self, second: &'a Extract, again: &[f64]) {
        let here = self.replayed(second, second.had_cpus(self.replays.first.n_cpus + 1));
        let run = SecondRun::new(self.replays.first, second, here.first, again);
        self.fitted = Some(Fitted { second, run, here });
    }

    fn measured(&self) -> Vec<Measured> {
        let measured = |f: &Fitted<'_>| Measured { cpus: f.run.cpus, speedup: f.run.speedup };
        self.fitted.iter().map(measured).collect()
    }

    fn replayed(&mut self, second: &Extract, cpus: usize) -> Replayed {
        let one = self.replays.wall_of(Other::Second, &second.program, 1);
        let many = self.replays.wall_of(Other::Second, &second.program, cpus);
        Replayed {
            first: self.replays.speedup(cpus, Variant::Expected),
            second: over(one, many, cpus),
        }
    }

    /// What the second run makes of a replayed speed-up: the expected, the lowest and the highest.
    fn fit(&mut self, cpus: usize, (speedup, low, high): (f64, f64, f64)) -> (f64, f64, f64) {
        let Some(Fitted { second, run, here }) = self.fitted.take() else {
            return (speedup, low, high);
        };
        let there = self.replayed(second, cpus);
        let fitted = run.extend(cpus, here, there);
        self.fitted = Some(Fitted { second, run, here });
        fitted
    }

    /// The expected, the lowest and the highest speed-up.
    fn range(&mut self, cpus: usize) -> (f64, f64, f64) {
        let speedup = self.replays.speedup(cpus, Variant::Expected);
        let (a, b) = (
            self.replays.speedup_at(cpus, Variant::Cheap),
            self.replays.speedup_at(cpus, Variant::Dear),
        );
        (self.costs).get_or_insert((a.min(b).min(speedup), a.max(b).max(speedup)));
        // A replay's own scatter and what runs scatter. A range of less would not hold what is
        // measured again.
        let (low, high) =
            (a.min(b).min(speedup) * (1.0 - SCATTER), a.max(b).max(speedup) * (1.0 + SCATTER));
        let ends = self.with_hidden_waits(cpus, (speedup, low, high));
        self.fit(cpus, ends)
    }

    fn point(&mut self, cpus: usize) -> Point {
        let speedup = self.replays.speedup(cpus, Variant::Expected);
        let (fitted, low, high) = self.range(cpus);
        let run = self.replays.get(cpus, Variant::Expected);
        let (wall, outcome) = (run.0, &run.1);
        let busy = outcome.busy_ns / (outcome.wall_ns.max(1.0) * cpus as f64);
        let lock_wait = outcome.lock_wait_ns();
        Point {
            cpus,
            speedup: fitted,
            low,
            high,
            more_threads: None,
            cpu_use: busy.min(1.0),
            wait_ratio: lock_wait / (lock_wait + self.sums.work_ns as f64).max(1.0),
            limit: match &self.fitted {
                Some(f) if f.run.lack > LACKS => Limit::Unseen { lack: f.run.lack },
                _ => self.limit(cpus, speedup, wall, outcome),
            },
        }
    }

    /// As many threads as CPUs, with the same work in all: the speed-ups.
    fn more_threads(&mut self, cpus: &[usize]) -> Vec<Option<f64>> {
        let one = self.replays.get(1, Variant::Sampled).0;
        at_once(cpus, |&cpus| {
            let k = cpus.div_ceil(self.sums.workers.max(1));
            if k < 2 {
                return None;
            }
            let program = whatif::more_threads(self.replays.changeable(), k)?;
            let many = self.replays.run(&program, cpus, Variant::Expected, 1);
            Some(over(one, many.wall_ns, cpus))
        })
    }

    fn limit(&self, cpus: usize, speedup: f64, wall: f64, outcome: &Outcome) -> Limit {
        let workers = self.sums.workers;
        if speedup > 0.93 * cpus as f64 {
            return Limit::Cpus;
        }
        let program = &self.replays.first.program;
        let worst = (0..outcome.locks.len())
            .max_by(|&a, &b| outcome.locks[a].held_ns.total_cmp(&outcome.locks[b].held_ns));
        if let Some(lock) = worst {
            let busy = outcome.locks[lock].held_ns / wall.max(1.0);
            if busy > 0.85 && is_wanted(&outcome.locks[lock], wall) {
                return Limit::Lock { name: program.locks[lock].name.clone(), busy: busy.min(1.0) };
            }
        }
        let lost =
            (wall * cpus.min(program.scripts.len()) as f64 - self.sums.work_ns as f64).max(1.0);
        if workers < cpus && speedup > 0.85 * workers as f64 {
            return Limit::Threads { n: workers };
        }
        let most = (0..outcome.locks.len())
            .max_by(|&a, &b| outcome.locks[a].waited_ns.total_cmp(&outcome.locks[b].waited_ns));
        let lock_wait = outcome.lock_wait_ns();
        // A thread that only starts the others waits for them all the time, and keeps no other from
        // running.
        let starters = program.scripts.len().saturating_sub(workers) as f64;
        let joined = (outcome.joined_ns - wall * starters).max(0.0);
        let delay = self.sums.delay_ns as f64;
        if let Some(lock) = most
            && lock_wait > 0.4 * lost
            && lock_wait > joined.min(lost)
        {
            let share = lock_wait / (lock_wait + self.sums.work_ns as f64);
            return Limit::LockWaits { name: program.locks[lock].name.clone(), share };
        }
        if outcome.busy_ns > 0.93 * wall * cpus as f64 && self.replays.costs.machine.slowdown > 1.04
        {
            return Limit::Memory;
        }
        if workers < cpus && speedup > 0.7 * workers as f64 {
            return Limit::Threads { n: workers };
        }
        if outcome.joined_ns < delay && delay > 0.5 * lost {
            return Limit::Delays;
        }
        Limit::Dependencies { running: outcome.busy_ns / wall.max(1.0) }
    }

    /// The share of the speed that locks leave on two CPUs, and the speed-up there without them.
    fn lock_efficiency(&mut self, points: &[Point]) -> (f64, f64) {
        let known = points.iter().find(|p| p.cpus == 2);
        let expected = known.map_or_else(|| self.range(2).0, |p| p.speedup);
        if self.replays.first.program.locks.is_empty() {
            return (1.0, expected);
        }
        let free = whatif::without_lock(self.replays.changeable(), None);
        let without = self.replays.mean(&free, 2).0;
        let with = self.replays.get(2, Variant::Sampled).0;
        // A program that is as fast with its locks as without loses nothing by them, whatever the
        // replay's scatter says.
        let efficiency = over(without, with, 1).min(1.0);
        // More than two only where a second run measured that.
        (efficiency, (expected / efficiency.max(1e-9)).min(expected.max(2.0)))
    }

    /// The lock that threads take in turns for longest.
    fn cap(&mut self, points: &[Point]) -> Option<Cap> {
        let one = self.replays.get(1, Variant::Expected).0;
        // Where one thread holds it nearly always the program waits for that thread, lock or no
        // lock.
        let shared = |&(_, &(all, most)): &(usize, &(u64, u64))| (all - most) * 20 >= all.max(1);
        let (lock, &(ns, _)) = self
            .sums
            .serial_ns
            .iter()
            .enumerate()
            .filter(shared)
            .max_by_key(|&(ix, &(all, _))| (all, std::cmp::Reverse(ix)))?;
        // A bound may not lie below the replay's result: replayed times scatter by a per cent.
        let reached = self.replays.reached(one);
        let reached = points.iter().map(|p| p.speedup).fold(reached, f64::max);
        Some(Cap {
            lock: self.replays.first.program.locks[lock].name.clone(),
            speedup: (one / ns.max(1) as f64).max(reached),
        })
    }

    fn deadlocks(&self) -> Vec<Deadlock> {
        let name = |&lock: &u32| self.replays.first.program.locks[lock as usize].name.clone();
        let names = |locks: &Vec<u32>| Deadlock { locks: locks.iter().map(name).collect() };
        self.replays.deadlocked().into_iter().map(names).collect()
    }

    fn lock_profiles(&mut self, points: &[Point]) -> Vec<LockProfile> {
        let program = &self.replays.first.program;
        let Sums { hold_ns: holds, acquisitions: n, .. } = &self.sums;
        let work = self.sums.work_ns;
        let mut out: Vec<(usize, LockProfile)> = program
            .locks
            .iter()
            .enumerate()
            .map(|(i, lock)| {
                let profile = LockProfile {
                    name: lock.name.clone(),
                    pid: lock.pid,
                    object: lock.object,
                    ratio: ratio(holds[i], work),
                    hold_ns: holds[i] as f64 / n[i].max(1) as f64,
                    n: n[i],
                    inflation: self.replays.costs.inflation[i],
                    saturates_at: None,
                };
                (i, profile)
            })
            .collect();
        for point in points {
            let run = self.replays.get(point.cpus, Variant::Expected);
            let (wall, used) = (run.0, &run.1.locks);
            for (i, profile) in &mut out {
                let is_full = used[*i].held_ns > 0.85 * wall && is_wanted(&used[*i], wall);
                if is_full && profile.saturates_at.is_none() {
                    profile.saturates_at = Some(point.cpus);
                }
            }
        }
        out.sort_by(|a, b| b.1.ratio.total_cmp(&a.1.ratio));
        out.into_iter().map(|(_, profile)| profile).collect()
    }

    fn notes(&self) -> Vec<String> {
        let mut out = Vec::new();
        let first = self.replays.first;
        if first.n_cpus > 1 {
            out.push(format!(
                "recorded on {} CPUs: waits and holds have the lengths they had there; a recording on one CPU (kasuri predict -- PROGRAM) predicts better",
                first.n_cpus
            ));
        }
        if first.unknown > 0.02 {
            out.push(format!(
                "{:.0} % of the threads' time is unknown (events lost, or hidden by the kernel): the prediction is too high by as much",
                100.0 * first.unknown
            ));
        }
        if let Some(second) = &self.fitted
            && (second.run.lack - 1.0).abs() > LACKS - 1.0
        {
            out.push(format!(
                "on {} CPUs the program was {:.2} times as fast as the replay says: on others it is somewhere between that loss or gain as it is and one that grows with each CPU",
                second.run.cpus,
                1.0 / second.run.lack
            ));
        }
        if first.disturbed_ns * 20 > first.wall_ns {
            out.push("other programs used this CPU while it was recorded".into());
        }
        for deadlock in self.deadlocks() {
            out.push(format!(
                "{}: can deadlock; in the replay one of the threads continues",
                deadlock.text()
            ));
        }
        if self.replays.forced() > 0 {
            out.push(format!(
                "{} waits of the recording do not fit the replayed order of events and were shortened",
                self.replays.forced()
            ));
        }
        if first.program.locks.is_empty() {
            out.push("no locks were recorded: waits for locks count as waits for the thread that ended them (record with --locks to replay them)".into());
        }
        if first.suspended > 0 {
            out.push(format!(
                "{} waits and holds of tasks that were suspended meanwhile are left out: the replay is of threads, which continued with other tasks",
                first.suspended
            ));
        }
        if let Some(sample) = &self.replays.sample {
            let steps = |p: &Program| p.scripts.iter().map(|s| s.steps.len()).sum::<usize>();
            out.push(format!(
                "a long recording: the whole program was replayed on fewest and on most CPUs only; all else is of one in {:.0} of its rounds, in proportion",
                steps(&first.program) as f64 / steps(sample).max(1) as f64
            ));
        }
        if self.second_is_useless {
            out.push("the second run used no more CPUs than the first: it adds nothing; other programs may have used them".into());
        }
        out
    }

    /// What the range of a speed-up has in it.
    fn range_notes(&self) -> Vec<String> {
        let (mut out, first) = (Vec::new(), self.replays.first);
        if first.tied.is_some() && self.fitted.is_none() {
            out.push(format!(
                "for {:.0} % of the CPU time a thread that was woken took the CPU of the one that woke it; whether that one waits for it on more CPUs is not known, and the range has both (--second-run tells)",
                100.0 * ratio(first.hidden_ns, self.sums.work_ns)
            ));
        }
        if !self.replays.costs.machine.is_measured {
            out.push("costs of waking and handing over are assumed, not measured on this machine: the range is three times as wide".into());
        }
        if !self.replays.costs.slowdown_is_seen {
            out.push("by how much this program's code slows down when other CPUs are busy is not known: the range has a quarter; threads that write the same memory, or wait for it, can lose more (--second-run measures it)".into());
        }
        out
    }
}

/// The analytical models, for the same CPU counts.
fn models_beside(
    p: &Prediction,
    replayed: &[f64],
    load: &Load,
    graph: &models::workspan::Graph,
) -> Vec<ModelAnswer> {
    let cpus: Vec<usize> = p.points.iter().map(|p| p.cpus).collect();
    let mut out = Vec::new();
    if p.second.is_some() {
        out.push(ModelAnswer {
            name: "second run".into(),
            speedup: p.points.iter().map(|p| Some(p.speedup)).collect(),
            note: "what was measured there, extended to other numbers of CPUs by the replay".into(),
        });
    }
    out.push(ModelAnswer {
        name: "replay".into(),
        speedup: replayed.iter().map(|&s| Some(s)).collect(),
        note: "replays the recorded threads with this machine's costs of waking and handing over"
            .into(),
    });
    if !load.holds.is_empty() {
        let (one, n) = (load.one_cpu_rate(), load.n_threads);
        let slowed = Load { compute: load.compute * p.machine.slowdown, ..load.clone() };
        out.push(model(
            "queueing",
            "closed queueing network: the holder needs a CPU, threads are equal, hand-over is free",
            &cpus,
            |c| {
                let c = c.min(n);
                let rate = models::ctmc::throughput(&slowed, c)
                    .unwrap_or_else(|| models::surrogate::throughput(&slowed, c));
                Some(rate / one)
            },
        ));
    }
    let t1 = graph.work();
    out.push(model(
        "work/span",
        "greedy schedule of the recorded dependencies, without locks",
        &cpus,
        |c| Some(t1 / graph.greedy(c, p.machine.wake_latency_ns).max(1.0)),
    ));
    out.push(model(
        "upper bound",
        "limit of any schedule: CPUs, the busiest lock, the longest chain",
        &cpus,
        |c| {
            let bound = models::bounds::speedup(load, c);
            Some(bound.min(t1 / graph.span().max(1.0)).min(c as f64))
        },
    ));
    out
}

/// A model's answer for each number of CPUs; none: the model does not apply there.
fn model(
    name: &str,
    note: &str,
    cpus: &[usize],
    speedup: impl Fn(usize) -> Option<f64>,
) -> ModelAnswer {
    ModelAnswer {
        name: name.into(),
        speedup: cpus.iter().map(|&c| speedup(c)).collect(),
        note: note.into(),
    }
}

fn believed(p: &Prediction, runs: &Answering<'_>) -> String {
    let Some(two) = p.points.first() else {
        return "nothing was asked for".into();
    };
    let of = |name: &str| p.models.iter().find(|m| m.name == name).and_then(|m| m.speedup[0]);
    let check = format!("on the recorded CPUs it {}", p.replay_check());
    if let Some(second) = &p.second {
        return format!(
            "what the second run measured ({:.2} on {} CPUs); the replay alone says {:.2} there, and {check}",
            second.speedup, second.cpus, second.replayed
        );
    }
    match of("queueing") {
        None if p.locks.is_empty() => {
            format!("the replay, because it has the waits between threads; {check}")
        }
        None => format!("the replay; {check}"),
        Some(queueing) if (queueing / two.speedup - 1.0).abs() < 0.03 => {
            format!(
                "the replay; {check}, and the queueing model, which has no machine costs, agrees within {:.1} %",
                100.0 * (queueing / two.speedup - 1.0).abs()
            )
        }
        Some(queueing) => {
            let hold = p.locks.first().map_or(0.0, |l| l.hold_ns);
            let why = if runs.replays.costs.machine.wake_latency_ns > hold && queueing > two.speedup
            {
                format!(
                    "a hand-over takes {:.1} us here and the worst lock is held {:.1} us at a time, which models with free hand-over ignore",
                    runs.replays.costs.machine.wake_latency_ns / 1e3,
                    hold / 1e3
                )
            } else {
                "threads are not equal, or wait for more than locks, which models of equal threads ignore".into()
            };
            format!(
                "the replay ({:.2}), not the queueing model ({queueing:.2}): {why}; {check}",
                two.speedup
            )
        }
    }
}

fn changes(runs: &mut Answering<'_>, p: &Prediction, replayed: &[f64]) -> Vec<WhatIf> {
    let one = runs.replays.get(1, Variant::Sampled).0;
    let program = runs.replays.changeable();
    let cpus: Vec<usize> = p.points.iter().map(|p| p.cpus).collect();
    let n = program.scripts.len();
    let mut out = Vec::new();
    let counts: BTreeSet<usize> = cpus.iter().map(|&c| c.min(n).max(1)).collect();
    let counts: Vec<usize> = counts.into_iter().collect();
    let mut add = |change: String, program: Program| {
        let walls =
            at_once(&counts, |&c| runs.replays.run(&program, c, Variant::Expected, 1).wall_ns);
        let changed = |c: usize| {
            let c = c.min(n).max(1);
            let at = counts.partition_point(|&count| count < c);
            over(one, walls[at], c)
        };
        // What a second run makes of the program it makes of the changed one.
        let speedup = (cpus.iter().enumerate())
            .map(|(i, &c)| changed(c) * p.points[i].speedup / replayed[i].max(1e-9))
            .collect();
        out.push(WhatIf { change, speedup });
    };
    if let Some(worst) = p.locks.first().filter(|l| l.ratio > 0.001) {
        let ix = program
            .locks
            .iter()
            .position(|l| l.object == worst.object && l.pid == worst.pid)
            .unwrap_or(0) as u32;
        let name = &worst.name;
        add(format!("`{name}` split in 4"), whatif::split(program, ix, 4));
        add(format!("`{name}` held half as long"), whatif::scale_holds(program, ix, 0.5));
        add(format!("`{name}` removed, its work kept"), whatif::without_lock(program, Some(ix)));
        if p.locks.len() > 1 {
            add("no locks at all".into(), whatif::without_lock(program, None));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tests::rounds;

    /// What is said of a long program: ends of ranges and changes are of a sample of it.
    #[test]
    fn a_sample_of_rounds_gives_the_ranges_and_changes_of_all() {
        let program = rounds(4, 300_000, |_, _| ());
        let work_ns = program.work_ns();
        let first = Extract {
            program,
            n_cpus: 1,
            wall_ns: work_ns,
            slice_ns: Some(3_000_000.0),
            ..Extract::default()
        };
        let options = Options { cpus: vec![2, 3, 4, 8], ..Options::default() };
        let whole = answer(Answering::new(Replays::new(&first, options.machine)), None, &options);
        let sampled = from_extracts(&first, None, &options);
        let said = |p: &Prediction| p.notes.iter().any(|note| note.contains("in proportion"));
        assert!(said(&sampled) && !said(&whole));
        let near = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 0.02, "{a} {b}");
        for (a, b) in whole.points.iter().zip(&sampled.points) {
            near(a.speedup, b.speedup);
            near(a.low, b.low);
            near(a.high, b.high);
            near(a.more_threads.unwrap_or(1.0), b.more_threads.unwrap_or(1.0));
        }
        near(whole.without_locks, sampled.without_locks);
        for (a, b) in whole.what_if.iter().zip(&sampled.what_if) {
            (a.speedup.iter().zip(&b.speedup)).for_each(|(&a, &b)| near(a, b));
        }
        assert_eq!(whole.what_if.len(), 4);
    }
}
