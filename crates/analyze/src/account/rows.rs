//! The account as rows: what `kasuri stat` prints and its JSON holds.
//!
//! The segments' causes carry indices of threads, processes and names. Here they become text, and causes that a reader would
//! call the same become one row: threads are merged where a name tells the causes apart, and so are processes of one name, also those that
//! were waited for one after the other (a shell's children, a compiler's). The estimated cost of tracing is
//! moved from *work* to a class of its own, so that the classes still add up to the capacity exactly.
use super::class::{ClassSum, class_sums};
use super::regions::{self, RegionAccount};
use super::{Account, Bounds, Cause, Class, Note, Sums, allowed};
use crate::cut::Cut;
use crate::demangle::without_parameters;
use crate::interference::process_name;
use crate::summary_rows::TracingCost;
use crate::{AnnotationSummary, demangled};
use kasuri_model::{FrameIx, ProcessIx, StrIx, ThreadIx, Time, Trace};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::HashMap;

/// Cost of one annotation event to the program, where the recording does not have the cost on its machine.
const ANNOTATION_NS: f64 = 8.0;
/// The same of one scheduler event.
const SCHEDULER_EVENT_NS: f64 = 45.0;

/// A cause below this part of the capacity is no finding.
const SMALL: i64 = 100;

/// The use of the capacity. The `ns` of `classes` add up to `capacity_ns` exactly.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct AccountSummary {
    /// `n_cpus * wall_ns`.
    pub capacity_ns: i64,
    /// CPUs whose time is accounted for: those recorded that the program might use.
    pub n_cpus: u32,
    /// The bounds on the CPUs that it may use at once.
    pub bounds: Bounds,
    /// CPUs that did the program's own work, on average: work and system calls / wall time.
    pub got_cpus: f64,
    /// Of all that was lost, the share whose class is neither `unknown` nor `other`; 1 when nothing was lost.
    pub named_share: f64,
    /// Whether system calls were recorded: if not, system calls are inside work.
    pub knows_syscalls: bool,
    /// Whether interrupts were recorded: if not, they are inside what they interrupted.
    pub knows_interrupts: bool,
    /// Events that writing cost the program, and the sum of their unit costs is the class `tracing`.
    pub traced_events: u64,
    /// By class, in the order of the table; those without time are left out.
    pub classes: Vec<ClassSum>,
    /// Losses by cause, largest first.
    pub causes: Vec<CauseSummary>,
    /// By CPU; `tracing` is inside `work` here, and in the tables that follow.
    pub cpus: Vec<CpuAccount>,
    /// The program's threads: their own time while alive, most time first.
    pub threads: Vec<ThreadAccount>,
    /// While at least one thread was inside this annotation: what all CPUs did. Longest first.
    pub regions: Vec<RegionAccount>,
}

/// One cause of lost time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct CauseSummary {
    /// Its class.
    #[schemars(extend("enum" = Class::ALL.map(Class::key)))]
    pub class: &'static str,
    /// More about it; "" for nothing.
    #[schemars(extend("enum" = Note::ALL.map(Note::key)))]
    pub note: &'static str,
    /// Lock, barrier, wait, process, interrupt handler, system call; the function that asks for a lock or a sleep which samples tell, where it has no name its program or library; "" when it has no name.
    pub name: String,
    /// Place of that annotation, when known.
    pub place: Option<String>,
    /// Waits and locks: the object (address). Else 0.
    pub object: u64,
    /// Process that interfered or ended the wait; of several of one name, the one with the most time.
    pub pid: Option<i32>,
    /// Its name.
    pub process: String,
    /// What the thread that was waited for did meanwhile: an annotation, or the function of a phase that several threads ran; of a serial phase also what
    /// samples say that it ran most, with `<` and its caller; "" when nothing is known. Of an external wait, or one for a device, the call that waited and its caller, where at least half of it was there. Of a lock that samples tell what it is: `file` and a path, or a function of the allocator that it is in.
    pub code: String,
    /// Place of that code, when known.
    pub code_place: Option<String>,
    /// The thread that was waited for most of the time.
    pub tid: Option<i32>,
    /// Its name.
    pub thread: String,
    /// Share of `ns` in which it was that thread.
    pub thread_share: f64,
    /// Processes of this name whose first threads were waited for; 0: the row is not of several such processes.
    pub processes: u64,
    /// Time.
    pub ns: i64,
    /// Of `ns`: on a CPU (spinning); the rest of the time the CPU was idle, or others used it.
    pub on_cpu_ns: i64,
    /// `ns / wall_ns`.
    pub cpus: f64,
    /// The longest stretch of it on one CPU: from...
    pub longest_from_ns: i64,
    /// ...to.
    pub longest_to_ns: i64,
    /// The causes of [`Account::causes`] that are in it, for who adds up parts of the account.
    #[serde(skip)]
    pub of: CauseNumbers,
}

/// Positions in [`Account::causes`]. Which ones they are says nothing of a cause, so all of them are equal.
#[derive(Clone, Debug, Default)]
pub struct CauseNumbers(pub Vec<u32>);

impl PartialEq for CauseNumbers {
    fn eq(&self, _: &CauseNumbers) -> bool {
        true
    }
}

impl CauseSummary {
    /// Adds another row of the same, which has less time.
    pub(crate) fn add(&mut self, other: CauseSummary) {
        let of_thread = self.thread_share * self.ns as f64;
        self.ns = self.ns.saturating_add(other.ns);
        self.on_cpu_ns = self.on_cpu_ns.saturating_add(other.on_cpu_ns);
        self.cpus += other.cpus;
        self.of.0.extend_from_slice(&other.of.0);
        self.thread_share = of_thread / self.ns.max(1) as f64;
        let length = |c: &CauseSummary| c.longest_to_ns - c.longest_from_ns;
        if length(&other) > length(self) {
            self.longest_from_ns = other.longest_from_ns;
            self.longest_to_ns = other.longest_to_ns;
        }
    }
}

/// Of a serial phase that goes from thread to thread each part may be too small for a row: these are one.
pub(crate) fn join_small_phases(account: &mut AccountSummary) {
    let small = account.capacity_ns / SMALL;
    let is_small = |c: &CauseSummary| {
        let is_alone = (c.class, c.note) == (Class::LowParallelism.key(), Note::SerialPhase.key());
        is_alone && c.code.is_empty() && c.processes == 0 && c.ns < small
    };
    if account.causes.iter().filter(|c| is_small(c)).count() < 2 {
        return;
    }
    let (parts, mut rows): (Vec<_>, Vec<_>) =
        std::mem::take(&mut account.causes).into_iter().partition(is_small);
    let mut parts = parts.into_iter();
    if let Some(mut all) = parts.next() {
        parts.for_each(|part| all.add(part));
        rows.push(all);
        rows.sort_by_key(|cause| std::cmp::Reverse(cause.ns));
    }
    account.causes = rows;
}

/// One CPU's time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct CpuAccount {
    /// Its number.
    pub cpu: u32,
    /// By class.
    pub classes: Vec<ClassSum>,
}

/// One thread's own time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct ThreadAccount {
    /// Process id.
    pub pid: i32,
    /// Thread id.
    pub tid: i32,
    /// Its name.
    pub name: String,
    /// Time for which it was alive in the range: the sum of `classes`.
    pub alive_ns: i64,
    /// By class. Ready without a CPU: `oversubscription` while threads of the program ran there, `interference` while others did.
    pub classes: Vec<ClassSum>,
}

/// Rows of the account of a range. `scheduler_events`: those that threads of the program caused in it; `tracing`: of the whole
/// recording.
pub(crate) fn rows(
    cut: &Cut<'_>,
    account: &Account,
    scheduler_events: u64,
    tracing: &TracingCost,
    annotations: &[AnnotationSummary],
) -> AccountSummary {
    let wall_ns = (cut.to - cut.from).ns();
    let capacity_ns = wall_ns.saturating_mul(account.n_cpus() as i64);
    let mut sums = account.sums(cut.from, cut.to);
    let (traced_events, tracing) = traced(cut, scheduler_events, tracing);
    let tracing = tracing.min(sums[Class::Work as usize]).max(0);
    sums[Class::Work as usize] -= tracing;
    sums[Class::Tracing as usize] += tracing;
    let useful = sums[Class::Work as usize] + sums[Class::SystemCalls as usize];
    let lost = capacity_ns - useful;
    let unnamed = sums[Class::Unknown as usize] + sums[Class::Other as usize];
    let per_wall = |ns: i64| ns as f64 / wall_ns.max(1) as f64;
    let spans = &cut.trace.kernel_spans.kind;
    AccountSummary {
        capacity_ns,
        n_cpus: account.n_cpus() as u32,
        bounds: allowed::bounds(cut.trace, account.n_cpus()),
        got_cpus: per_wall(useful),
        named_share: 1.0 - unnamed as f64 / lost.max(1) as f64,
        knows_syscalls: spans.contains(&kasuri_model::KernelSpanKind::Syscall),
        knows_interrupts: spans.iter().any(|k| *k != kasuri_model::KernelSpanKind::Syscall),
        traced_events,
        classes: class_sums(&sums, wall_ns),
        causes: causes(cut.trace, account, wall_ns),
        cpus: (0..account.n_cpus())
            .map(|at| CpuAccount {
                cpu: account.segments.cpus[at].0.into(),
                classes: class_sums(&account.cpu_sums(at, cut.from, cut.to), wall_ns),
            })
            .collect(),
        threads: threads(cut, account, wall_ns),
        regions: regions::regions(cut, account, annotations),
    }
}

/// Events that were written in the time of the program's threads, and what that cost.
fn traced(cut: &Cut<'_>, scheduler_events: u64, tracing: &TracingCost) -> (u64, i64) {
    let is_priced = tracing.unpriced == 0 && !tracing.events.is_empty();
    if cut.whole && is_priced {
        let events = tracing.events.iter().map(|e| e.program).sum();
        // An estimate of more than all CPU time that was used is no knowledge: nothing is taken from the work for it.
        let is_possible = tracing.program_cpu_ns.is_none_or(|used| tracing.cost_ns <= used);
        return (events, if is_possible { tracing.cost_ns } else { 0 });
    }
    let cost_ns = |name: &str, otherwise: f64| {
        let mut costs = cut.trace.info.event_costs.iter();
        let ns = costs.find(|c| c.name == name).and_then(|c| c.ns);
        ns.map_or(otherwise, |[median, ..]| median)
    };
    let annotations = annotation_events(cut);
    let ns = annotations as f64 * cost_ns("annotation", ANNOTATION_NS)
        + scheduler_events as f64 * cost_ns("sched/sched_switch", SCHEDULER_EVENT_NS);
    (annotations + scheduler_events, ns as i64)
}

/// Annotation events that the program wrote in the range: slices' ends, where not all of the recording is looked at.
fn annotation_events(cut: &Cut<'_>) -> u64 {
    if cut.whole {
        return cut.trace.n_annotation_events;
    }
    let s = &cut.trace.slices;
    let inside = |times: &[Time]| times.iter().filter(|&&t| cut.contains(t)).count() as u64;
    inside(&s.start) + inside(&s.end)
}

/// The key by which causes are merged into one row: threads are merged, spinning and blocked are kept apart inside.
#[derive(PartialEq, Eq, Hash, Clone, Copy)]
struct Key {
    class: Class,
    note: Note,
    name: StrIx,
    object: u64,
    process: ProcessIx,
    code: StrIx,
    phase: FrameIx,
    /// Only where nothing else distinguishes them.
    thread: ThreadIx,
    /// In its place: the name of processes whose first threads these are.
    processes: StrIx,
}

impl Key {
    fn of(trace: &Trace, cause: &Cause) -> Key {
        let is_named = cause.name.is_some() || cause.code.is_some() || cause.phase.is_some();
        let processes = match is_named {
            true => None,
            false => first_thread_of(trace, cause.thread),
        };
        // All processes of a name interfere together, also by making a thread late that others wait for.
        let interferes = cause.class == Class::Interference && cause.name.is_some();
        Key {
            class: cause.class,
            note: if interferes { Note::None } else { cause.note },
            name: cause.name,
            object: cause.object,
            process: match interferes || processes.is_some() {
                true => ProcessIx::NONE,
                false => cause.process,
            },
            code: cause.code,
            phase: match cause.code.is_some() {
                true => FrameIx::NONE,
                false => cause.phase,
            },
            thread: match is_named || processes.is_some() {
                true => ThreadIx::NONE,
                false => cause.thread,
            },
            processes: processes.unwrap_or(StrIx::NONE),
        }
    }
}

/// The name of the process whose first thread this is, where another process of the program started it: one of several, perhaps.
fn first_thread_of(trace: &Trace, thread: ThreadIx) -> Option<StrIx> {
    let info = trace.threads.get(thread.ix()).filter(|_| thread.is_some())?;
    let process = &trace.processes[info.process.ix()];
    let parent = trace.processes.get(process.parent.ix());
    let is_child = process.is_target && parent.is_some_and(|parent| parent.is_target);
    (is_child && info.tid == process.pid).then_some(info.name)
}

#[derive(Default)]
struct Tally {
    ns: i64,
    on_cpu_ns: i64,
    by_thread: HashMap<ThreadIx, i64>,
    by_process: HashMap<ProcessIx, i64>,
    longest: (i64, Time),
    of: Vec<u32>,
}

fn causes(trace: &Trace, account: &Account, wall_ns: i64) -> Vec<CauseSummary> {
    let mut number: HashMap<Key, usize> = HashMap::new();
    let mut keys: Vec<Key> = Vec::new();
    let of_cause: Vec<usize> = account
        .causes
        .iter()
        .map(|cause| {
            let key = Key::of(trace, cause);
            *number.entry(key).or_insert_with(|| {
                keys.push(key);
                keys.len() - 1
            })
        })
        .collect();
    // Time and longest stretch of each cause first: causes are few, segments are many.
    let mut of_row = vec![(0i64, 0i64, Time(0)); account.causes.len()];
    for cpu in 0..account.n_cpus() {
        for (cause, part) in account.segments.between(cpu, account.from, account.to) {
            let ns = (part.end - part.start).ns();
            let row = &mut of_row[cause as usize];
            row.0 += ns;
            if ns > row.1 || (ns == row.1 && part.start < row.2) {
                (row.1, row.2) = (ns, part.start);
            }
        }
    }
    let mut tallies: Vec<Tally> = keys.iter().map(|_| Tally::default()).collect();
    let all = account.causes.iter().zip(&of_cause).zip(&of_row);
    for (number, ((cause, &at), &(ns, longest, since))) in (0..).zip(all) {
        let tally = &mut tallies[at];
        tally.of.push(number);
        tally.ns += ns;
        tally.on_cpu_ns += if cause.on_cpu { ns } else { 0 };
        if cause.thread.is_some() {
            *tally.by_thread.entry(cause.thread).or_default() += ns;
        }
        if cause.process.is_some() {
            *tally.by_process.entry(cause.process).or_default() += ns;
        }
        if longest > tally.longest.0 {
            tally.longest = (longest, since);
        }
    }
    let mut out: Vec<CauseSummary> = keys
        .iter()
        .zip(&tallies)
        .filter(|(key, tally)| key.class != Class::Work && tally.ns > 0)
        .map(|(key, tally)| cause_row(trace, account, key, tally, wall_ns))
        .collect();
    out.sort_by(|a, b| {
        (b.ns, a.class, &a.name, &a.code, a.object)
            .cmp(&(a.ns, b.class, &b.name, &b.code, b.object))
    });
    out
}

fn cause_row(
    trace: &Trace,
    account: &Account,
    key: &Key,
    tally: &Tally,
    wall_ns: i64,
) -> CauseSummary {
    let worst =
        tally.by_thread.iter().max_by_key(|&(thread, ns)| (*ns, std::cmp::Reverse(*thread)));
    let thread = worst.map(|(t, _)| &trace.threads[t.ix()]);
    let process = tally
        .by_process
        .iter()
        .max_by_key(|&(process, ns)| (*ns, std::cmp::Reverse(*process)))
        .map(|(p, _)| *p);
    let text = |name: StrIx| match (key.class, trace.strings.get(name)) {
        // Functions.
        (Class::Spinning, name) => demangled(name).into_owned(),
        (_, name) if matches!(key.note, Note::BySamples | Note::Chosen | Note::Polled) => {
            demangled(name).into_owned()
        }
        (_, name) => name.to_string(),
    };
    CauseSummary {
        class: key.class.key(),
        note: key.note.key(),
        name: text(key.name),
        place: trace.places.get(&key.name).cloned(),
        object: key.object,
        pid: process.map(|p| trace.processes[p.ix()].pid),
        process: process.map_or(String::new(), |p| process_name(trace, p)),
        code: match key.phase.is_some() {
            true => phase_name(trace, account, key.phase),
            // Without a thread that was waited for it is a function.
            false if key.class == Class::Spinning && thread.is_none() => {
                without_parameters(&text(key.code))
            }
            false => text(key.code),
        },
        code_place: match key.phase.is_some() {
            true => phase_place(trace, key.phase),
            false => trace.places.get(&key.code).cloned(),
        },
        tid: thread.map(|t| t.tid),
        thread: thread.map_or(String::new(), |t| text(t.name)),
        thread_share: worst.map_or(0.0, |(_, &ns)| ns as f64 / tally.ns.max(1) as f64),
        processes: match tally.by_thread.len() {
            n if n > 1 && key.processes.is_some() => n as u64,
            _ => 0,
        },
        ns: tally.ns,
        on_cpu_ns: tally.on_cpu_ns,
        cpus: tally.ns as f64 / wall_ns.max(1) as f64,
        longest_from_ns: tally.longest.1.ns(),
        longest_to_ns: tally.longest.1.ns() + tally.longest.0,
        of: CauseNumbers(tally.of.clone()),
    }
}

/// The function that the phase is in. Compilers make a function of its own of a region of OpenMP; where it was called from was not
/// always seen.
fn phase_name(trace: &Trace, account: &Account, phase: FrameIx) -> String {
    let name = |frame: FrameIx| trace.strings.get(trace.frames.function[frame.ix()]);
    let own = name(phase);
    let ends = ["._omp_fn", ".omp_outlined"];
    let part = ends.iter().find_map(|end| own.split_once(end));
    let regions = &account.region_of;
    let region = regions.binary_search_by_key(&phase, |region| region.0);
    let region = region.map(|at| name(regions[at].1));
    match (part, region) {
        (None, _) => without_parameters(&demangled(own)),
        (Some(("", _)), Err(_)) => "a region of OpenMP".into(),
        (Some(("", _)), Ok(function)) | (Some((function, _)), _) => {
            without_parameters(&demangled(function))
        }
    }
}

fn phase_place(trace: &Trace, phase: FrameIx) -> Option<String> {
    let (file, line) = (trace.frames.file[phase.ix()], trace.frames.line[phase.ix()]);
    (file.is_some() && line > 0).then(|| format!("{}:{line}", trace.strings.get(file)))
}

fn threads(cut: &Cut<'_>, account: &Account, wall_ns: i64) -> Vec<ThreadAccount> {
    let trace = cut.trace;
    let mut out: Vec<ThreadAccount> = cut
        .threads()
        .filter(|&t| cut.is_target(t))
        .map(|t| {
            let info = &trace.threads[t.ix()];
            let sums = balanced(account.threads[t.ix()]);
            ThreadAccount {
                pid: trace.process_of(t).pid,
                tid: info.tid,
                name: trace.strings.get(info.name).into(),
                alive_ns: sums.iter().sum(),
                classes: class_sums(&sums, wall_ns),
            }
        })
        .filter(|row| row.alive_ns > 0)
        .collect();
    out.sort_by_key(|row| (std::cmp::Reverse(row.alive_ns), row.pid, row.tid));
    out
}

/// Where events contradict each other, the CPUs' rows may show more run time of a thread than its states do: then its
/// other classes give way, the largest first, and the sum stays.
fn balanced(mut sums: Sums) -> Sums {
    let work = Class::Work as usize;
    while sums[work] < 0 {
        let largest = (0..sums.len()).max_by_key(|&c| sums[c]).unwrap_or(work);
        let part = sums[largest].min(-sums[work]).max(0);
        if part == 0 {
            break;
        }
        sums[largest] -= part;
        sums[work] += part;
    }
    sums
}
