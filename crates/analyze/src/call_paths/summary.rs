//! Call paths as rows: what `kasuri stat` prints under each class, and its JSON holds.
use super::calls::waits_without_limit;
use super::certainty::Independent;
use super::chains::{ChainNode, WaitChains};
use super::cover::Cover;
use super::explained::Explained;
use super::frames::{Frames, Runtime};
use super::hot::{HotPath, PathFrame, frame_name, hot_paths, path_frame, trunk};
use super::join::{Join, Question};
use super::pieces::Piece;
use super::sampled::Sampled;
use crate::account::{CauseSummary, Class, Note};
use crate::cut::Cut;
use crate::demangle::without_parameters;
use kasuri_base::call_path::CALLERS_NOT_KNOWN;
use kasuri_model::{SampleKind, ThreadIx, ThreadState, Trace};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// A phase is named after what its thread ran if that is known for one in so many parts of it.
const KNOWN_PART: i64 = 10;
/// Most functions of a class in JSON.
const MOST: usize = 100;

/// The code behind the account.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct CallPathSummary {
    /// Samples of the program's threads in the range.
    pub samples: u64,
    /// Of these: taken while they ran.
    pub samples_on_cpu: u64,
    /// So many samples of equal weight n would tell shares of the time on a CPU as certainly: 95 of 100 shares s are within 2 * sqrt(s *
    /// (1 - s) / n), a little more where s is near 0 or 1 (Wilson's interval). Null where samples may be in step with the program.
    pub independent_samples: Option<u64>,
    /// Samples that the recorder says were lost.
    pub lost: u64,
    /// Samples of all threads, at all times, that agree with no state of their thread; they have no weight.
    pub misfits: u64,
    /// Time of the program's threads on a CPU.
    pub on_cpu: Coverage,
    /// Time for which they were blocked.
    pub blocked: Coverage,
    /// By class, in the order of the account; `tracing` is inside `work` here. Those without time are left out.
    pub classes: Vec<ClassPaths>,
    /// Of the classes `work`, `task_runtime` and `spinning`: time in libraries that run the program rather than being it, most first.
    pub runtimes: Vec<RuntimeUse>,
    /// How much of it all is explained by code with a name, and why the rest is not.
    pub explained: Explained,
}

/// How much of a time has a call path. `complete_ns + incomplete_ns + unsampled_ns == ns`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Coverage {
    /// The time.
    pub ns: i64,
    /// Its call path reaches the thread's outermost function.
    pub complete_ns: i64,
    /// Its call path ends early or has a gap, or nothing of it is known.
    pub incomplete_ns: i64,
    /// No sample stands for it.
    pub unsampled_ns: i64,
    /// Of the first two: the sample was taken in another, similar block, or in another short thread of its name.
    pub estimated_ns: i64,
    /// Of `incomplete_ns`: its call path lacks callers within an interpreter; the function `py::(callers not known)` stands for them.
    pub gap_ns: i64,
}

/// The code behind a class of CPU time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct ClassPaths {
    /// Its key.
    #[schemars(extend("enum" = Class::ALL.map(Class::key)))]
    pub class: &'static str,
    /// Its time.
    pub ns: i64,
    /// What explains it best. Work: what ran. Serial phase, load imbalance: what the thread did that the others waited for. Interference, oversubscription: what ran
    /// instead. Other waits: the call that waited.
    pub paths: PathShares,
    /// The other side. Serial phase, load imbalance: where the others waited. Lock wait: what the lock's holder did meanwhile. Waiting for own threads: what the thread
    /// did that ended the wait. Null for other classes, and where nothing is known.
    pub meanwhile: Option<PathShares>,
    /// Lock wait: time for which nothing says who held the lock but the wake-ups: `meanwhile` is then what the thread did that ended the wait.
    pub likely_holders_ns: i64,
    /// Waiting for own threads, I/O wait, external wait, serial phase, lock waits told by samples: the waits and what ended them. Null for other classes, and where no thread is known to wait.
    pub chains: Option<WaitChains>,
}

/// A class's time by call path: the `ns` of `paths`, `other_ns`, `unsampled_ns` and `without_code_ns` add up to its time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct PathShares {
    /// By innermost function; what the kernel or a library did also by the program's function that called it, if one of them led to at least half
    /// of it. Most first.
    pub paths: Vec<HotPath>,
    /// Time of the functions that are left out of `paths`.
    pub other_ns: i64,
    /// A thread ran or was blocked, and no sample with a call path stands for it.
    pub unsampled_ns: i64,
    /// No code was there to sample: no thread is known, or it waited for a CPU.
    pub without_code_ns: i64,
}

/// Time in a runtime library.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct RuntimeUse {
    /// `libgomp`, `libomp`, `tbb`, `allocator`, `interpreter`, `collector` (of garbage); `other`: a thread spun there.
    #[schemars(extend("enum" = ["libgomp", "libomp", "tbb", "allocator", "interpreter", "collector", "other"]))]
    pub runtime: &'static str,
    /// Of a collector the language that it is of: `go`, `java`, `javascript`, `python`; else "".
    pub language: &'static str,
    /// Program or library, without its folders.
    pub module: String,
    /// Time.
    pub ns: i64,
    /// Of this: in the class `work`.
    pub work_ns: i64,
    /// Of this: spinning, which is waiting on a CPU.
    pub spinning_ns: i64,
    /// The function in which it spun most.
    pub spins_in: String,
}

/// None without samples.
pub(crate) struct Collector<'t> {
    cover: &'t Cover,
    join: std::cell::RefCell<Join<'t>>,
}

impl<'t> Collector<'t> {
    /// `with_pieces`: for [`Collector::into_pieces`].
    pub fn new(
        cut: &Cut<'t>,
        cover: &'t Cover,
        sampled: &'t Sampled,
        with_pieces: bool,
    ) -> Collector<'t> {
        let join = Join::new(cut.trace, cover).with_chains(sampled);
        let join = match with_pieces {
            true => join.with_pieces(),
            false => join,
        };
        Collector { cover, join: std::cell::RefCell::new(join) }
    }

    /// To be told the stretches of the account.
    pub fn listener(&self) -> crate::account::OnStretch<'_> {
        Box::new(|stretch| self.join.borrow_mut().add(stretch))
    }

    /// The account's time in pieces: by CPU, those of each in order of time.
    pub fn into_pieces(self) -> Vec<Piece> {
        self.join.into_inner().into_pieces().into_all()
    }

    /// The answer, once all stretches were told. It names causes, too.
    pub fn summary(&self, cut: &Cut<'_>, causes: &mut Vec<CauseSummary>) -> CallPathSummary {
        let (trace, mut join) = (cut.trace, self.join.borrow_mut());
        let mut frames = Frames::new(trace);
        let s = &trace.samples;
        let samples = (0..s.time.len())
            .filter(|&row| cut.contains(s.time[row]) && cut.is_target(s.thread[row]));
        let on_cpu = (samples.clone()).filter(|&row| s.kind[row] == SampleKind::OnCpu);
        let gaps = gaps(trace);
        let mut by_sample = vec![0; s.time.len()];
        let of_cpu =
            coverage(cut, self.cover, &gaps, &mut by_sample, |state| state == ThreadState::Running);
        let mut independent = Independent::default();
        by_sample.iter().for_each(|&ns| independent.add(ns));
        let mut out = CallPathSummary {
            samples: samples.clone().count() as u64,
            samples_on_cpu: on_cpu.count() as u64,
            lost: trace.sampling.iter().fold(0, |sum: u64, row| sum.saturating_add(row.lost)),
            misfits: self.cover.misfits(),
            independent_samples: independent.number(trace),
            on_cpu: of_cpu,
            blocked: coverage(cut, self.cover, &gaps, &mut by_sample, ThreadState::is_blocked),
            runtimes: runtimes(cut, &frames, &join),
            explained: join.explained(&mut frames),
            ..CallPathSummary::default()
        };
        name_phases(trace, &mut frames, &join, causes);
        for class in Class::ALL {
            let first = shares(cut, &mut frames, &join, class, Question::First);
            let Some((ns, paths)) = first else { continue };
            let meanwhile = shares(cut, &mut frames, &join, class, Question::Meanwhile);
            let meanwhile = meanwhile.map(|(_, shares)| shares);
            out.classes.push(ClassPaths {
                class: class.key(),
                ns,
                paths,
                meanwhile: meanwhile.filter(|m| !m.paths.is_empty() || m.unsampled_ns > 0),
                likely_holders_ns: match class {
                    Class::LockWait => join.likely_holders_ns,
                    _ => 0,
                },
                chains: join.chains_of(class),
            });
        }
        name_outside(&out.classes, causes);
        out
    }
}

/// Names serial phases after the functions that their threads ran most. Phases of one name are one, also of several threads.
fn name_phases(
    trace: &Trace,
    frames: &mut Frames<'_>,
    join: &Join<'_>,
    causes: &mut Vec<CauseSummary>,
) {
    let is_alone = |c: &CauseSummary| {
        (c.class, c.note) == (Class::LowParallelism.key(), Note::SerialPhase.key())
            && c.processes == 0
    };
    let mut named: Vec<CauseSummary> = Vec::new();
    for mut cause in std::mem::take(causes) {
        if let Some(tid) = cause.tid
            && is_alone(&cause)
            && cause.code.is_empty()
        {
            let is_its =
                |thread: ThreadIx| thread.is_some() && trace.threads[thread.ix()].tid == tid;
            let (times, _) = join.of_threads(Class::LowParallelism, Question::First, is_its);
            // While it was ready and had no CPU it was where it ran before and after.
            let ran: i64 = times.iter().map(|time| time.ns).sum();
            let is_known = ran.saturating_mul(KNOWN_PART) >= cause.ns;
            let found = trunk(trace, frames, times, ran).filter(|_| is_known);
            if let Some((frame, caller)) = found {
                cause.code_place =
                    (frame.line > 0).then(|| format!("{}:{}", frame.file, frame.line));
                let (name, caller) =
                    (without_parameters(&frame.function), without_parameters(&caller));
                cause.code = match caller.as_str() {
                    "" => name,
                    caller => format!("{name} < {caller}"),
                };
            }
        }
        let same =
            |c: &&mut CauseSummary| is_alone(c) && !c.code.is_empty() && c.code == cause.code;
        match named.iter_mut().find(same).filter(|_| is_alone(&cause)) {
            Some(first) => first.add(cause),
            None => named.push(cause),
        }
    }
    named.sort_by_key(|cause| std::cmp::Reverse(cause.ns));
    *causes = named;
}

/// Names the waits that nothing of the program ended after the call that waited, and its caller,
/// if at least half of them were there.
fn name_outside(classes: &[ClassPaths], causes: &mut [CauseSummary]) {
    let ends = [
        (Class::ExternalWait, Note::Interrupt, "interrupt"),
        (Class::ExternalWait, Note::Process, "process"),
        (Class::IoWait, Note::None, "device"),
    ];
    for (class, note, did) in ends {
        let chains = classes.iter().find(|c| c.class == class.key());
        let Some(chains) = chains.and_then(|c| c.chains.as_ref()) else {
            continue;
        };
        let is_it = |c: &&mut CauseSummary| {
            (c.class, c.note) == (class.key(), note.key()) && c.name.is_empty()
        };
        for cause in causes.iter_mut().filter(is_it) {
            let is_end = |n: &ChainNode| {
                n.did == did && (note != Note::Process || n.process == cause.process)
            };
            if let Some(wait) = most_waited(chains, is_end) {
                name_wait(cause, wait);
            }
        }
    }
}

/// The wait that such an end ended for half of their time or more, by the call and its caller.
fn most_waited(
    chains: &WaitChains,
    is_end: impl Fn(&ChainNode) -> bool,
) -> Option<(String, &ChainNode)> {
    let name = |frame: &PathFrame| without_parameters(&frame_name(frame));
    let mut found: Vec<(Vec<String>, &ChainNode, i64)> = Vec::new();
    let (mut before, mut all_ns): (Vec<&ChainNode>, i64) = (Vec::new(), 0);
    for node in &chains.nodes {
        before.truncate(node.depth as usize);
        if let Some(&wait) = before.last().filter(|_| is_end(node)) {
            let known = wait.frames.iter().take_while(|frame| !frame.function.is_empty());
            let names: Vec<String> = known.take(2).map(name).collect();
            all_ns += node.ns;
            match found.iter_mut().find(|row| row.0 == names) {
                Some(row) => row.2 += node.ns,
                None => found.push((names, wait, node.ns)),
            }
        }
        before.push(node);
    }
    let most = found.into_iter().max_by_key(|row| row.2);
    let most = most.filter(|(names, _, ns)| !names.is_empty() && ns * 2 >= all_ns);
    most.map(|(names, wait, _)| (names.join(" < "), wait))
}

fn name_wait(cause: &mut CauseSummary, (code, wait): (String, &ChainNode)) {
    let is_interrupt = cause.note == Note::Interrupt.key();
    // A path may be that of a like wait nearby; a timer cannot have ended a call without a limit.
    let is_endless = |frame: &PathFrame| waits_without_limit(&frame.function);
    if is_interrupt && wait.frames.first().is_some_and(is_endless) {
        return;
    }
    cause.code = code;
    let caller = wait.frames.get(1).filter(|caller| caller.line > 0);
    cause.code_place = caller.map(|caller| format!("{}:{}", caller.file, caller.line));
    if is_interrupt && matches!(wait.call, "condition" | "lock" | "join") {
        cause.note = Note::TimeLimit.key();
    }
}

fn shares(
    cut: &Cut<'_>,
    frames: &mut Frames<'_>,
    join: &Join<'_>,
    class: Class,
    question: Question,
) -> Option<(i64, PathShares)> {
    let (times, rest) = join.of(class, question);
    let sampled: i64 = times.iter().map(|time| time.ns).sum();
    let ns = sampled + rest.unsampled + rest.without_code;
    let (paths, other_ns) = hot_paths(cut.trace, frames, &times, ns, MOST);
    (ns > 0).then_some((
        ns,
        PathShares {
            paths,
            other_ns,
            unsampled_ns: rest.unsampled,
            without_code_ns: rest.without_code,
        },
    ))
}

/// How much of the time of the program's threads in such a state has a call path. `gaps`: by path, whether callers within an interpreter
/// are missing. `by_sample`: the time that each stands for is added.
fn coverage(
    cut: &Cut<'_>,
    cover: &Cover,
    gaps: &[bool],
    by_sample: &mut [i64],
    is_state: impl Fn(ThreadState) -> bool,
) -> Coverage {
    let (trace, mut out) = (cut.trace, Coverage::default());
    let samples = &trace.samples;
    for thread in cut.threads().filter(|&thread| cut.is_target(thread)) {
        let mut begun = 0;
        for row in trace.states_of(thread).filter(|row| is_state(row.state)) {
            let (from, to) = (row.start.max(cut.from), row.end.min(cut.to));
            for (owner, length) in cover.between_from(&mut begun, thread, from, to) {
                out.ns += length.ns();
                *match owner.sample() {
                    Some(row) if samples.is_complete[row] => &mut out.complete_ns,
                    Some(_) => &mut out.incomplete_ns,
                    None => &mut out.unsampled_ns,
                } += length.ns();
                if let Some(row) = owner.sample() {
                    by_sample[row] += length.ns();
                }
                let path = owner.sample().map(|row| samples.path[row]);
                if path.is_some_and(|path| path.is_some() && gaps[path.ix()]) {
                    out.gap_ns += length.ns();
                }
                if owner.is_estimated() {
                    out.estimated_ns += length.ns();
                }
            }
        }
    }
    out
}

/// For each path: whether a frame of it stands for callers that are not known.
fn gaps(trace: &Trace) -> Vec<bool> {
    let names = trace.frames.function.iter();
    let is_gap: Vec<bool> =
        names.map(|&name| trace.strings.get(name) == CALLERS_NOT_KNOWN).collect();
    let paths = &trace.paths;
    let mut gaps: Vec<bool> = Vec::with_capacity(paths.frame.len());
    for (caller, frame) in paths.caller.iter().zip(&paths.frame) {
        let of_caller = caller.is_some() && gaps[caller.ix()];
        gaps.push(of_caller || is_gap[frame.ix()]);
    }
    gaps
}

fn runtimes(cut: &Cut<'_>, frames: &Frames<'_>, join: &Join<'_>) -> Vec<RuntimeUse> {
    // By runtime and module; and the time by function that spins.
    let mut uses: BTreeMap<(Runtime, String), RuntimeUse> = BTreeMap::new();
    let mut spins: BTreeMap<(Runtime, String), BTreeMap<String, i64>> = BTreeMap::new();
    for class in [Class::Work, Class::TaskRuntime, Class::Spinning] {
        let (times, _) = join.of(class, Question::First);
        for time in times.iter().filter(|time| !time.is_wait) {
            let Some((runtime, innermost, spin)) = frames.overhead(time.path) else {
                continue;
            };
            let key = (runtime, path_frame(cut.trace, innermost).module);
            let row = uses.entry(key.clone()).or_default();
            (row.runtime, row.module) = (runtime.key(), key.1.clone());
            if let Runtime::Collector(language) = runtime {
                row.language = language.key();
            }
            row.ns += time.ns;
            row.work_ns += if class == Class::Work { time.ns } else { 0 };
            if let Some(function) = spin {
                row.spinning_ns += time.ns;
                let function = path_frame(cut.trace, function).function;
                *spins.entry(key).or_default().entry(function).or_default() += time.ns;
            }
        }
    }
    for (key, functions) in spins {
        let most = functions.into_iter().max_by_key(|&(_, ns)| ns);
        if let (Some(row), Some((function, _))) = (uses.get_mut(&key), most) {
            row.spins_in = function;
        }
    }
    let mut out: Vec<RuntimeUse> = uses.into_values().collect();
    out.sort_by_key(|row| std::cmp::Reverse(row.ns));
    out
}

/// Whether anything of the recording was sampled with a weight.
pub(crate) fn has_samples(cut: &Cut<'_>) -> bool {
    let waker = SampleKind::Waker;
    let mut rows = 0..cut.trace.samples.time.len();
    rows.any(|row| cut.trace.samples.kind[row] != waker && cut.is_target(thread_of(cut, row)))
}

fn thread_of(cut: &Cut<'_>, row: usize) -> ThreadIx {
    cut.trace.samples.thread[row]
}
