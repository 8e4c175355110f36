//! A recording -> a [`Program`].
//!
//! For each thread: its time on a CPU, cut at every acquisition, release, sleep and wake-up of others. The reason why a
//! sleep ended decides its kind in the replay: threads compete anew for a lock; a wait at a barrier ends when all threads have come; a
//! sleep that a thread of the program ended waits for that thread's action; any other (interrupt, other programs) is a delay of its recorded length.
//!
//! CPU time inside a contended wait for a lock or in a barrier (spinning, going to sleep) is left out: the replay charges its own.
//! The cost of recording is subtracted: `annotation_ns` for each stamp.
mod hidden;
mod spins;

use crate::program::{Lock, Program, Script, Step};
use kasuri_base::quick::Numbers;
use kasuri_model::{
    LockKind, ProcessIx, SliceKind, StateRow, ThreadIx, ThreadState, Time, Trace, open,
};
use spins::Stretch;
use std::collections::{HashMap, HashSet};
use std::fmt;

/// Why a recording cannot be replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// The scheduler's events were not recorded.
    NoStates,
    /// No thread of the program ran.
    NothingRan,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unfit::NoStates => "the recording has no scheduler events; record as root (`kasuri doctor` shows what is missing)",
            Unfit::NothingRan => "no thread of the program ran in the recording",
        })
    }
}

impl std::error::Error for Unfit {}

/// Findings other than the scripts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Extract {
    /// The scripts.
    pub program: Program,
    /// From the first step to the last in the recording, ns.
    pub wall_ns: u64,
    /// CPUs that ran the program at least 1 % of its CPU time.
    pub n_cpus: usize,
    /// CPUs that it might have used for most of the time, by its affinity; 0: not known.
    pub allowed_cpus: usize,
    /// Share of the threads' time in which what they did is unknown.
    pub unknown: f64,
    /// Waits and holds that a suspended task took along: left out.
    pub suspended: usize,
    /// Time threads were ready and others than the program had the CPUs, ns: summed over threads.
    pub disturbed_ns: u64,
    /// Of `wall_ns`, what the program would not have taken without those others, ns: while k of its threads ran and m more could
    /// have, were it not for them, m/(k+m) of the time was lost.
    pub lost_ns: u64,
    /// CPU time in loops that only wait for another thread, as samples tell, ns: not in the scripts' work.
    pub spinning_ns: u64,
    /// ...of it, time of which no thread of the program can have been the end, ns: no wait stands for it.
    pub spinning_for_unknown_ns: u64,
    /// Threads that spin for another one, or that such a one waits for.
    pub spinners: usize,
    /// CPU time in libraries that run tasks, as samples tell, without spinning, ns.
    pub runtime_ns: u64,
    /// Tasks that were seen to run, and from the start to the end of each, summed, ns.
    pub tasks: (u64, u64),
    /// CPU time of threads that took the CPU of the one that had just woken them, ns: whether that thread would have waited for them is not known.
    pub hidden_ns: u64,
    /// How often that was.
    pub hand_overs: u64,
    /// The program in which it waits for them, where that is more than 1 % of the work.
    pub tied: Option<Program>,
    /// Median time that a thread ran before another one of the program took its CPU, ns; none: too few.
    pub slice_ns: Option<f64>,
}

impl Extract {
    /// The recorded time without what others took, ns.
    pub fn quiet_ns(&self) -> u64 {
        self.wall_ns.saturating_sub(self.lost_ns)
    }

    /// The CPUs that it had: those that it used; and where others left it one more, which it did not want, that one too.
    pub fn had_cpus(&self, least: usize) -> usize {
        let is_quiet = self.lost_ns * 20 < self.wall_ns;
        match self.n_cpus < least && is_quiet && self.allowed_cpus >= least {
            true => least,
            false => self.n_cpus,
        }
    }
}

/// A step on a thread's time line.
#[derive(Clone, Copy)]
struct TimedStep {
    time: Time,
    step: Step,
}

impl TimedStep {
    /// In order of time; of equal ones releases, then posts, then waits, then acquisitions.
    fn order(&self) -> (Time, u8) {
        let rank = match self.step {
            Step::Release(_) => 0,
            Step::Post(_) => 1,
            Step::Compute(_)
            | Step::Delay(_)
            | Step::Wait(_)
            | Step::Spin(_)
            | Step::Barrier(_) => 2,
            Step::Acquire(..) => 3,
        };
        (self.time, rank)
    }
}

/// A sleep or a wait, and whether what happens in it is left to the replay.
#[derive(Clone, Copy, PartialEq)]
enum Gap {
    Lock,
    Barrier,
    /// At this object.
    Cond(u64),
    /// A worker of OpenMP, between two regions.
    Dock,
}

/// Slices of the OpenMP probe: a worker between two regions, and a region (`probes/openmp`).
const DOCK: &str = "omp: idle";
const REGION: &str = "parallel ";

/// A wait at a barrier around the current slice; `waits_from`: the end of the last task in it, or its start.
struct AtBarrier {
    row: usize,
    waits_from: Time,
    end: Time,
    has_tasks: bool,
}

impl AtBarrier {
    /// The thread runs a task meanwhile.
    fn runs(&mut self, gaps: &mut Vec<(Time, Time, Gap)>, start: Time, end: Time) {
        if self.waits_from < start {
            gaps.push((self.waits_from, start, Gap::Barrier));
        }
        self.waits_from = self.waits_from.max(end.min(self.end));
        self.has_tasks = true;
    }

    fn close(self, gaps: &mut Vec<(Time, Time, Gap)>, tasks_until: &mut HashMap<usize, Time>) {
        gaps.push((self.waits_from, self.end, Gap::Barrier));
        if self.has_tasks {
            tasks_until.insert(self.row, self.waits_from);
        }
    }
}

/// Between a wait that timed out and the same wait begun again.
const AGAIN_NS: i64 = 1_000_000;
/// Waits of the thread that may lie between those two.
const AGAIN_WAITS: usize = 64;

struct Reader<'a> {
    trace: &'a Trace,
    /// Script of each thread of the trace.
    script_of: Vec<u32>,
    timed_steps: Vec<Vec<TimedStep>>,
    program: Program,
    locks: Numbers<(ProcessIx, u64)>,
    /// By lock, who took it last, and until when: threads are gone through one after the other.
    open_until: Vec<(ThreadIx, Time)>,
    /// By lock, in whose script it is held.
    held_by: Vec<ThreadIx>,
    spins: HashSet<(ProcessIx, u64)>,
    /// Of waits at barriers in which tasks ran: when the last of these ended. The thread had come when its own work was done, but
    /// without them nobody goes on.
    tasks_until: HashMap<usize, Time>,
    suspended: usize,
}

/// What a recording says: its trace, and what of it takes samples of call paths to know.
#[derive(Clone, Copy, Debug)]
pub struct Recording<'a> {
    /// The trace.
    pub trace: &'a Trace,
    /// By row of [`Trace::threads`]: when the thread was in a loop that only waits for another thread, in order of time. Empty: not known.
    pub spinning: &'a [Vec<(Time, Time)>],
    /// The same: when it was in a library that runs tasks, and did not spin there.
    pub runtime: &'a [Vec<(Time, Time)>],
}

impl<'a> From<&'a Trace> for Recording<'a> {
    fn from(trace: &'a Trace) -> Recording<'a> {
        Recording { trace, spinning: &[], runtime: &[] }
    }
}

/// Reads the target's threads.
///
/// # Errors
/// When the recording says nothing about when threads ran.
pub fn extract<'a>(
    recording: impl Into<Recording<'a>>,
    annotation_ns: f64,
) -> Result<Extract, Unfit> {
    let recording = recording.into();
    let mut out = read(recording, annotation_ns, false)?;
    if out.hidden_ns * 100 > out.program.work_ns() {
        out.tied = Some(read(recording, annotation_ns, true)?.program);
    }
    Ok(out)
}

/// `is_tied`: a thread that lost its CPU to one that it had just woken waits for that thread.
fn read(recording: Recording<'_>, annotation_ns: f64, is_tied: bool) -> Result<Extract, Unfit> {
    let Recording { trace, spinning, runtime } = recording;
    if trace.states.start.is_empty() {
        return Err(Unfit::NoStates);
    }
    let mut reader = Reader {
        trace,
        script_of: vec![u32::MAX; trace.threads.len()],
        timed_steps: Vec::new(),
        program: Program::default(),
        locks: Numbers::default(),
        open_until: Vec::new(),
        held_by: Vec::new(),
        spins: (trace.locks.iter())
            .filter(|l| l.kind == LockKind::Spin)
            .map(|l| (l.process, l.object))
            .collect(),
        tasks_until: HashMap::new(),
        suspended: 0,
    };
    reader.find_threads();
    if reader.program.scripts.is_empty() {
        return Err(Unfit::NothingRan);
    }
    let gaps: Vec<Vec<(Time, Time, Gap)>> =
        reader.threads().iter().map(|&t| reader.locks_and_gaps(t)).collect();
    reader.barriers();
    for (thread, gaps) in reader.threads().into_iter().zip(&gaps) {
        reader.sleeps(thread, gaps);
    }
    let (hidden_ns, hand_overs) = reader.hidden_waits(is_tied);
    reader.docks(&gaps);
    let tracks = reader.tracks(&gaps, spinning);
    let (unknown_ns, spinners) = reader.spins(&tracks);
    for ((thread, gaps), track) in reader.threads().into_iter().zip(&gaps).zip(&tracks) {
        let running = spins::without(&track.running, &track.spinning);
        reader.write(thread, gaps, running, annotation_ns);
    }
    let mut out = facts(trace, &reader.threads());
    let spun = tracks.iter().flat_map(|track| &track.spinning);
    out.spinning_ns = spun.map(|s| (s.1 - s.0).ns().max(0) as u64).sum();
    out.spinning_for_unknown_ns = unknown_ns;
    out.spinners = spinners;
    (out.hidden_ns, out.hand_overs) = (hidden_ns, hand_overs);
    let length = |s: &Stretch| (s.1 - s.0).ns().max(0) as u64;
    out.runtime_ns = (reader.threads().into_iter().zip(&tracks))
        .filter_map(|(thread, track)| Some((runtime.get(thread.ix())?, track)))
        .flat_map(|(runtime, track)| spins::inside(&track.running, runtime))
        .map(|stretch| length(&stretch))
        .sum();
    out.tasks = tasks(trace);
    out.program = reader.program;
    out.suspended = reader.suspended;
    Ok(out)
}

fn is_target(trace: &Trace, thread: ThreadIx) -> bool {
    trace.is_target(thread)
}

/// Whether it is a thread of the program that had a CPU.
fn ran(trace: &Trace, thread: ThreadIx) -> bool {
    let runs = |r: StateRow| r.state == ThreadState::Running && r.end > r.start;
    is_target(trace, thread) && trace.states_of(thread).any(runs)
}

/// The speed-up that two more runs of a program measured, without what others took: the time on one CPU over the time on more. None: the
/// second run used no more CPUs.
pub fn speedup_of(one: &Trace, more: &Trace) -> Option<f64> {
    let of = |trace: &Trace| {
        let all = (0..trace.threads.len()).map(|ix| ThreadIx(ix as u32));
        let threads: Vec<ThreadIx> = all.filter(|&thread| ran(trace, thread)).collect();
        facts(trace, &threads)
    };
    let (one, more) = (of(one), of(more));
    let is_more = more.had_cpus(one.n_cpus + 1) > one.n_cpus;
    (is_more && one.quiet_ns() > 0).then(|| one.quiet_ns() as f64 / more.quiet_ns().max(1) as f64)
}

impl Reader<'_> {
    fn find_threads(&mut self) {
        for ix in 0..self.trace.threads.len() {
            let thread = ThreadIx(ix as u32);
            if !ran(self.trace, thread) {
                continue;
            }
            self.script_of[ix] = self.program.scripts.len() as u32;
            let info = &self.trace.threads[ix];
            self.program.scripts.push(Script {
                name: self.trace.strings.get(info.name).into(),
                pid: self.trace.process_of(thread).pid,
                tid: info.tid,
                steps: Vec::new(),
            });
            self.timed_steps.push(Vec::new());
        }
    }

    fn threads(&self) -> Vec<ThreadIx> {
        (0..self.script_of.len())
            .filter(|&ix| self.script_of[ix] != u32::MAX)
            .map(|ix| ThreadIx(ix as u32))
            .collect()
    }

    fn add_step(&mut self, thread: ThreadIx, time: Time, step: Step) {
        self.timed_steps[self.script_of[thread.ix()] as usize].push(TimedStep { time, step });
    }

    fn lock(&mut self, row: usize) -> u32 {
        let s = &self.trace.slices;
        let process = self.trace.threads[s.thread[row].ix()].process;
        let key = (process, s.object[row]);
        let lock = self.locks.number(key);
        if lock as usize == self.program.locks.len() {
            let name = self.trace.strings.get(s.name[row]).trim_start_matches('&');
            self.program.locks.push(Lock {
                name: name.into(),
                pid: self.trace.processes[process.ix()].pid,
                object: s.object[row],
                spins: self.spins.contains(&key),
            });
            self.open_until.push((ThreadIx::NONE, Time::MIN));
            self.held_by.push(ThreadIx::NONE);
        }
        lock
    }

    /// Marks the thread's acquisitions and releases; returns its waits in order. A task that it runs while it waits at a barrier is in none.
    fn locks_and_gaps(&mut self, thread: ThreadIx) -> Vec<(Time, Time, Gap)> {
        let trace = self.trace;
        let s = &trace.slices;
        let rows = trace.threads[thread.ix()].slices.clone();
        let kinds = &s.kind[rows.start as usize..rows.end as usize];
        let n_holds = kinds.iter().filter(|&&kind| kind == SliceKind::LockHold);
        self.timed_steps[self.script_of[thread.ix()] as usize].reserve(2 * n_holds.count());
        let mut gaps = Vec::new();
        let mut barriers: Vec<AtBarrier> = Vec::new();
        for row in rows.start as usize..rows.end as usize {
            let (start, end) = (s.start[row], s.end[row]);
            while let Some(over) = barriers.pop_if(|b| b.end <= start) {
                over.close(&mut gaps, &mut self.tasks_until);
            }
            if s.kind[row] == SliceKind::TaskRun {
                let around = barriers.iter_mut();
                around.for_each(|b| b.runs(&mut gaps, start, end));
            }
            // A task that sleeps takes these along, and its worker runs others meanwhile: no wait of this thread.
            if s.open[row] & (open::CONTINUES | open::CONTINUED) != 0 {
                let is_lock = matches!(s.kind[row], SliceKind::LockWait | SliceKind::LockHold);
                self.suspended += usize::from(is_lock && s.open[row] & open::CONTINUED == 0);
                continue;
            }
            match s.kind[row] {
                SliceKind::LockHold if end > start && s.open[row] & open::BEGIN_UNSEEN == 0 => {
                    let lock = self.lock(row);
                    // A recursive lock's inner holds change nothing.
                    let open_until = &mut self.open_until[lock as usize];
                    if open_until.0 == thread && start < open_until.1 {
                        continue;
                    }
                    *open_until = (thread, end);
                    let shared = s.open[row] & open::SHARED != 0;
                    self.add_step(thread, start, Step::Acquire(lock, shared));
                    self.add_step(thread, end, Step::Release(lock));
                }
                SliceKind::LockWait => gaps.push((start, end, Gap::Lock)),
                SliceKind::Barrier => {
                    barriers.push(AtBarrier { row, waits_from: start, end, has_tasks: false })
                }
                SliceKind::Cond => gaps.push((start, end, Gap::Cond(s.object[row]))),
                SliceKind::Work if trace.strings.get(s.name[row]) == DOCK => {
                    gaps.push((start, end, Gap::Dock));
                }
                _ => {}
            }
        }
        for over in barriers {
            over.close(&mut gaps, &mut self.tasks_until);
        }
        gaps.sort_by_key(|g| g.0);
        gaps
    }

    /// Groups waits at barriers into rounds. A round is the largest set of waits at one barrier that were all begun before the first of them ended.
    fn barriers(&mut self) {
        let s = &self.trace.slices;
        let mut waits: HashMap<(ProcessIx, u64), Vec<usize>> = HashMap::new();
        for row in 0..s.start.len() {
            let thread = s.thread[row];
            if s.kind[row] == SliceKind::Barrier
                && s.open[row] == 0
                && self.script_of[thread.ix()] != u32::MAX
            {
                let process = self.trace.threads[thread.ix()].process;
                waits.entry((process, s.object[row])).or_default().push(row);
            }
        }
        let mut all: Vec<_> = waits.into_iter().collect();
        all.sort_by_key(|(key, _)| *key);
        for (_, mut rows) in all {
            rows.sort_by_key(|&row| (s.start[row], row));
            let mut round: Vec<usize> = Vec::new();
            let mut first_end = Time::MAX;
            // A barrier that is annotated and seen by the probe is one wait inside another.
            let mut inside: HashMap<ThreadIx, Time> = HashMap::new();
            for row in rows {
                let until = inside.entry(s.thread[row]).or_insert(Time::MIN);
                if s.start[row] < *until {
                    continue;
                }
                *until = s.end[row];
                if s.start[row] > first_end {
                    self.round(&round);
                    round.clear();
                    first_end = Time::MAX;
                }
                first_end = first_end.min(s.end[row]);
                round.push(row);
            }
            self.round(&round);
        }
    }

    fn round(&mut self, rows: &[usize]) {
        if rows.is_empty() {
            return;
        }
        let round = self.program.rounds.len() as u32;
        self.program.rounds.push(rows.len() as u32);
        for &row in rows {
            let s = &self.trace.slices;
            let came = self.tasks_until.get(&row).copied();
            let came = came.unwrap_or(s.start[row]);
            self.add_step(s.thread[row], came, Step::Barrier(round));
        }
    }

    /// Marks the thread's sleeps, and at their wakers what ended them.
    fn sleeps(&mut self, thread: ThreadIx, gaps: &[(Time, Time, Gap)]) {
        let rows: Vec<StateRow> = self.trace.states_of(thread).collect();
        let mut last_cond: Option<Time> = None;
        for (i, row) in rows.iter().enumerate() {
            let next = rows.get(i + 1);
            let woken_by =
                next.filter(|n| n.state == ThreadState::RunnableWoken).map(|n| (n.by, n.start));
            if i == 0 && row.state == ThreadState::RunnableWoken {
                // Made and started by its parent.
                self.wake_edge(thread, row.start, row.by, row.start);
                continue;
            }
            let is_sleep = matches!(
                row.state,
                ThreadState::Sleeping
                    | ThreadState::DiskSleep
                    | ThreadState::Stopped
                    | ThreadState::Idle
            );
            if !is_sleep || next.is_none() {
                continue;
            }
            match gap_at(gaps, row.start) {
                Some((_, _, Gap::Lock | Gap::Barrier)) => continue,
                Some((start, _, Gap::Cond(_))) => {
                    // A second sleep in one wait is for the mutex that the first one gave away.
                    if last_cond == Some(start) {
                        continue;
                    }
                    last_cond = Some(start);
                }
                Some((_, _, Gap::Dock)) | None => {}
            }
            let until = woken_by.map_or(row.end, |(_, time)| time);
            match woken_by {
                Some((by, time)) if self.is_script(by) && by != thread => {
                    self.wake_edge(thread, row.start, by, time);
                }
                // A wait with a timeout, looked at again and again: how long it takes is not the timeout's.
                _ if begins_again(gaps, row.start) => {}
                _ => {
                    let ns = (until - row.start).ns().max(0) as u64;
                    self.add_step(thread, row.start, Step::Delay(ns));
                }
            }
        }
    }

    fn is_script(&self, thread: ThreadIx) -> bool {
        thread.is_some() && self.script_of[thread.ix()] != u32::MAX
    }

    fn wake_edge(&mut self, sleeper: ThreadIx, slept: Time, waker: ThreadIx, woke: Time) {
        if !self.is_script(waker) || waker == sleeper {
            return;
        }
        let event = self.program.n_events;
        self.program.n_events += 1;
        self.add_step(sleeper, slept, Step::Wait(event));
        self.add_step(waker, woke, Step::Post(event));
    }

    /// When the threads ran, spun and went to sleep. A wait that an event tells of is that event's.
    fn tracks(
        &self,
        gaps: &[Vec<(Time, Time, Gap)>],
        spinning: &[Vec<Stretch>],
    ) -> Vec<spins::Track> {
        let track = |(thread, gaps): (ThreadIx, &Vec<(Time, Time, Gap)>)| {
            let rows = || self.trace.states_of(thread);
            let runs = rows().filter(|r| r.state == ThreadState::Running);
            let running: Vec<Stretch> = runs.map(|r| (r.start, r.end)).collect();
            let told: Vec<Stretch> = gaps.iter().map(|g| (g.0, g.1)).collect();
            let spun = spinning.get(thread.ix()).map_or(&[][..], Vec::as_slice);
            let asleep = rows().filter(|r| r.state.is_blocked());
            spins::Track {
                process: self.trace.threads[thread.ix()].process.0,
                spinning: spins::without(&spins::inside(&running, spun), &told),
                running,
                slept: asleep.map(|r| r.start).collect(),
            }
        };
        self.threads().into_iter().zip(gaps).map(track).collect()
    }

    /// Marks the waits of threads that spun, and what ended them. Returns the time of those that nothing can have ended, ns.
    /// And how many threads wait so or are waited for.
    fn spins(&mut self, tracks: &[spins::Track]) -> (u64, usize) {
        let (waits, unknown_ns) = spins::waits(tracks);
        let threads = self.threads();
        let both = waits.iter().flat_map(|wait| [wait.thread, wait.by]);
        let spinners = both.collect::<HashSet<usize>>().len();
        for wait in waits {
            self.spin_edge((threads[wait.thread], wait.from), (threads[wait.by], wait.at));
        }
        (unknown_ns, spinners)
    }

    /// A worker that did not sleep between two regions goes on when another thread begins the next one.
    fn docks(&mut self, gaps: &[Vec<(Time, Time, Gap)>]) {
        let s = &self.trace.slices;
        let mut begins: HashMap<ProcessIx, Vec<(Time, ThreadIx)>> = HashMap::new();
        for row in 0..s.start.len() {
            if s.kind[row] == SliceKind::Work
                && self.trace.strings.get(s.name[row]).starts_with(REGION)
            {
                let thread = s.thread[row];
                let process = self.trace.threads[thread.ix()].process;
                begins.entry(process).or_default().push((s.start[row], thread));
            }
        }
        begins.values_mut().for_each(|all| all.sort_unstable_by_key(|b| b.0));
        for (thread, gaps) in self.threads().into_iter().zip(gaps) {
            let process = self.trace.threads[thread.ix()].process;
            let Some(begins) = begins.get(&process) else {
                continue;
            };
            let asleep = |r: &StateRow| r.state.is_blocked();
            let slept: Vec<Time> =
                (self.trace.states_of(thread).filter(asleep)).map(|r| r.start).collect();
            for &(from, until, _) in gaps.iter().filter(|g| g.2 == Gap::Dock) {
                let sleep = slept.partition_point(|&t| t < from);
                if slept.get(sleep).is_some_and(|&t| t < until) {
                    continue;
                }
                let next = begins.partition_point(|b| b.0 < from);
                let others = begins[next..].iter().take_while(|b| b.0 <= until);
                let first = others.copied().find(|b| b.1 != thread && self.is_script(b.1));
                if let Some((at, by)) = first {
                    self.spin_edge((thread, from), (by, at));
                }
            }
        }
    }

    fn spin_edge(&mut self, (thread, from): (ThreadIx, Time), (by, at): (ThreadIx, Time)) {
        let event = self.program.n_events;
        self.program.n_events += 1;
        self.add_step(thread, from, Step::Spin(event));
        self.add_step(by, at, Step::Post(event));
    }

    /// The script: CPU time between the timed_steps, then each timed's step.
    fn write(
        &mut self,
        thread: ThreadIx,
        gaps: &[(Time, Time, Gap)],
        running: Vec<Stretch>,
        annotation_ns: f64,
    ) {
        let ix = self.script_of[thread.ix()] as usize;
        let mut timed_steps = std::mem::take(&mut self.timed_steps[ix]);
        timed_steps.sort_by_key(TimedStep::order);
        let mut running = running;
        cut_out(&mut running, gaps);
        let mut steps: Vec<Step> = Vec::with_capacity(2 * timed_steps.len() + 1);
        let mut at = 0;
        let mut done = Time::MIN;
        let mut stamps = 0.0;
        for timed in &timed_steps {
            let mut ns = 0;
            while let Some(&(start, end)) = running.get(at)
                && start < timed.time
            {
                ns += (end.min(timed.time) - start.max(done)).ns().max(0);
                if end > timed.time {
                    break;
                }
                at += 1;
            }
            done = timed.time;
            // The debt of stamps is paid by the next time there is: sections may be shorter than a stamp.
            let paid = (ns as f64).min(stamps);
            stamps -= paid;
            push_compute(&mut steps, ns as f64 - paid);
            match timed.step {
                Step::Acquire(lock, _) => {
                    stamps += annotation_ns;
                    self.held_by[lock as usize] = thread;
                }
                Step::Release(lock) => {
                    stamps += annotation_ns;
                    let held_by = &mut self.held_by[lock as usize];
                    if std::mem::replace(held_by, ThreadIx::NONE) != thread {
                        continue;
                    }
                }
                _ => {}
            }
            steps.push(timed.step);
        }
        let rest: i64 = running[at.min(running.len())..]
            .iter()
            .map(|&(start, end)| (end - start.max(done)).ns().max(0))
            .sum();
        push_compute(&mut steps, rest as f64);
        self.program.scripts[ix].steps = steps;
    }
}

fn push_compute(steps: &mut Vec<Step>, ns: f64) {
    let ns = ns.max(0.0).round() as u64;
    if ns > 0 {
        match steps.last_mut() {
            Some(Step::Compute(last)) => *last += ns,
            _ => steps.push(Step::Compute(ns)),
        }
    }
}

/// Whether the wait for a condition at `time` was soon after its end begun again.
fn begins_again(gaps: &[(Time, Time, Gap)], time: Time) -> bool {
    let Some((_, end, Gap::Cond(object))) = gap_at(gaps, time) else {
        return false;
    };
    let after = gaps.partition_point(|g| g.0 < end);
    // The same wait follows at once: not behind very many others.
    gaps[after..]
        .iter()
        .take(AGAIN_WAITS)
        .take_while(|g| (g.0 - end).ns() < AGAIN_NS)
        .any(|g| g.2 == Gap::Cond(object))
}

fn gap_at(gaps: &[(Time, Time, Gap)], time: Time) -> Option<(Time, Time, Gap)> {
    let after = gaps.partition_point(|g| g.0 <= time);
    gaps[..after].iter().rev().take(4).find(|g| time < g.1).copied()
}

/// Takes the waits for locks and barriers out of the running time; a wait shorter than it takes to fall asleep was the
/// price of taking a free lock, and stays.
fn cut_out(running: &mut Vec<(Time, Time)>, gaps: &[(Time, Time, Gap)]) {
    const PRICE_NS: i64 = 1_000;
    // In order of their starts; one inside or across another is one with it.
    let mut away: Vec<(Time, Time)> = Vec::new();
    for &(from, to, kind) in gaps {
        if matches!(kind, Gap::Cond(_)) || (to - from).ns() < PRICE_NS {
            continue;
        }
        match away.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => away.push((from, to)),
        }
    }
    *running = spins::without(running, &away);
}

fn facts(trace: &Trace, threads: &[ThreadIx]) -> Extract {
    let mut out = Extract::default();
    let (mut first, mut last) = (Time::MAX, Time::MIN);
    let mut on_cpu: HashMap<u16, i64> = HashMap::new();
    let (mut unknown, mut total) = (0, 0);
    let mut runs: Vec<i64> = Vec::new();
    for &thread in threads {
        let mut run_from: Option<Time> = None;
        for row in trace.states_of(thread) {
            let ns = (row.end - row.start).ns();
            total += ns;
            match row.state {
                ThreadState::Running => {
                    first = first.min(row.start);
                    last = last.max(row.end);
                    *on_cpu.entry(row.cpu).or_default() += ns;
                    run_from = Some(row.start);
                }
                ThreadState::Unknown => unknown += ns,
                ThreadState::RunnablePreempted => {
                    if is_target(trace, row.by) {
                        if let Some(from) = run_from {
                            runs.push((row.start - from).ns());
                        }
                    } else {
                        out.disturbed_ns += ns.max(0) as u64;
                    }
                }
                _ => {}
            }
        }
    }
    let all: i64 = on_cpu.values().sum();
    out.allowed_cpus = allowed_cpus(trace);
    out.n_cpus = on_cpu.values().filter(|&&ns| ns > all / 100).count();
    out.wall_ns = (last - first).ns().max(0) as u64;
    on_cpu.retain(|_, ns| *ns > all / 100);
    out.lost_ns = lost(trace, threads, &on_cpu).min(out.wall_ns as f64) as u64;
    out.unknown = if total > 0 { unknown as f64 / total as f64 } else { 0.0 };
    if runs.len() >= 20 {
        runs.sort_unstable();
        out.slice_ns = Some(runs[runs.len() / 2] as f64);
    }
    out
}

/// Tasks that ran to their ends, and their times, ns.
fn tasks(trace: &Trace) -> (u64, u64) {
    let is_target = |process: ProcessIx| trace.processes[process.ix()].is_target;
    let ran = trace.tasks.iter().filter(|t| is_target(t.process));
    let ran = ran.filter(|t| t.started < t.ended && t.ended != Time::MAX);
    ran.fold((0, 0), |(n, ns), t| (n + 1, ns + (t.ended - t.started).ns().max(0) as u64))
}

/// CPUs that affinity leaves to the program for more than half of the recording.
fn allowed_cpus(trace: &Trace) -> usize {
    let rows = &trace.limits.allowed;
    let mut open: HashMap<u32, i64> = HashMap::new();
    for (at, row) in rows.iter().enumerate() {
        // What was read first held before, too.
        let from = if at == 0 { trace.span.start } else { row.since };
        let until = rows.get(at + 1).map_or(trace.span.end, |next| next.since);
        for &cpu in &row.cpus {
            *open.entry(cpu).or_default() += (until - from).ns().max(0);
        }
    }
    let half = (trace.span.end - trace.span.start).ns() / 2;
    open.values().filter(|&&ns| ns > half).count()
}

/// Wall time that other programs took on these CPUs, see [`Extract::lost_ns`].
fn lost(trace: &Trace, threads: &[ThreadIx], on_cpu: &HashMap<u16, i64>) -> f64 {
    // Changes of the number of the program's threads that run, that are ready, and of others that run.
    let mut changes: Vec<(Time, [i32; 3])> = Vec::new();
    let mut is_own = vec![false; trace.threads.len()];
    threads.iter().for_each(|thread| is_own[thread.ix()] = true);
    for (ix, &is_own) in is_own.iter().enumerate() {
        for row in trace.states_of(ThreadIx(ix as u32)) {
            let runs = row.state == ThreadState::Running;
            let ready =
                matches!(row.state, ThreadState::RunnablePreempted | ThreadState::RunnableWoken);
            let change = match (is_own, runs, ready) {
                (true, true, _) => [1, 0, 0],
                (true, _, true) => [0, 1, 0],
                (false, true, _) if on_cpu.contains_key(&row.cpu) => [0, 0, 1],
                _ => continue,
            };
            changes.push((row.start, change));
            changes.push((row.end, change.map(|n| -n)));
        }
    }
    changes.sort_unstable();
    let (mut now, mut lost) = ([0; 3], 0.0);
    for pair in changes.windows(2) {
        now.iter_mut().zip(pair[0].1).for_each(|(n, by)| *n += by);
        let [running, ready, others] = now;
        let missing = ready.min(others);
        if missing > 0 {
            let ns = (pair[1].0 - pair[0].0).ns() as f64;
            lost += ns * f64::from(missing) / f64::from(missing + running.max(0));
        }
    }
    lost
}
