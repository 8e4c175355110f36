//! Columns -> answers. [`summary`] is what `kasuri stat` shows; [`Summary`] is its JSON.
//!
//! | module | answers |
//! |---|---|
//! | [`account`] | where every CPU-second went |
//! | [`contents`](contents()) | what is in a recording, and which questions it can answer |
//! | [`critical_path`] | what to shorten, and by how much the run would shrink |
//! | `threads` | what each thread and CPU did, wake-up latency |
//! | [`call_paths`] | the code behind each CPU-second: samples with exact weights |
//! | `annotations` | time by annotation, by waited-for object, tasks |
//! | `imbalance`, `rounds`, `busy` | how unevenly repeated work is split, and whether always in the same way |
//! | `openmp` | regions and loops of OpenMP, and what other schedules would do |
//! | [`task_graph`] | work, span, slack and parallelism of the task graph |
//! | `tracing` | what recording cost |
//! | `interference` | the programs that ran while the target wanted to |
//! | `locks` | locks: ratios, holds, waits, which thread kept which waiting |
//! | [`OnCpu`] | how long a thread was on a CPU within an interval |
//! | `migrations` | which thread moved where, and why |
//! | `hints` | what to try next |
//! | [`demangled`] | C++ and Rust names as written |
//! | [`compare`], `permute` | what changed between runs, and whether by more than noise |
#![forbid(unsafe_code)]

pub mod account;
mod annotations;
mod busy;
pub mod call_paths;
pub mod compare;
mod contents;
pub mod critical_path;
mod cut;
mod demangle;
mod hints;
mod imbalance;
mod interference;
mod locks;
mod migrations;
mod on_cpu;
mod openmp;
mod permute;
mod quick_map;
mod rounds;
mod summary;
mod summary_rows;
pub mod task_graph;
mod threads;
mod tracing;
mod wakers;

pub use annotations::{handed_over_in, kind_name};
pub use contents::*;
pub use cut::Options;
pub use demangle::demangled;
pub use locks::*;
pub use on_cpu::OnCpu;
pub use openmp::rows::*;
pub use summary::*;
pub use summary_rows::*;

use account::Account;
use call_paths::{Cover, Piece, Sampled};
use cut::Cut;
use kasuri_model::{Loss, Trace};

/// A summary, and what it was made of.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// See [`summary`](summary()).
    pub summary: Summary,
    /// The account, of the same range.
    pub account: Account,
    /// Its time in pieces: by CPU, those of each in order of time. None without samples.
    pub pieces: Vec<Piece>,
    /// The samples that instants belong to.
    pub cover: Cover,
}

/// The recording in numbers: every table, unabridged. Never fails: what is not known is 0 or none, see [`Known`].
pub fn summary(trace: &Trace, options: &Options) -> Summary {
    answer(trace, options, false).summary
}

/// The same, with what a report shows at each instant: both in one pass over the recording, which may have a million samples.
pub fn answers(trace: &Trace, options: &Options) -> Answers {
    answer(trace, options, true)
}

fn answer(trace: &Trace, options: &Options, with_pieces: bool) -> Answers {
    let cut = Cut::new(trace, options);
    let known = known(trace);
    let mut rows = threads::threads(&cut);
    let wake_latency_ns = threads::wakeups(&cut, &mut rows);
    let cpus = threads::cpus(&cut);
    let moves = migrations::migrations(&cut);
    let mut out = Summary {
        schema: SCHEMA,
        command: trace.info.command.clone(),
        exit_status: trace.info.exit_status,
        host: trace.info.host.clone(),
        kernel: trace.info.kernel.clone(),
        machine: trace.info.machine.clone(),
        cpu_model: trace.info.cpu_model.clone(),
        kernel_source: trace.info.kernel_source.clone(),
        known,
        from_ns: cut.from.ns(),
        to_ns: cut.to.ns(),
        wall_ns: (cut.to - cut.from).ns(),
        n_cpus: if cpus.is_empty() {
            trace.cpus.len()
        } else {
            cpus.len()
        } as u32,
        cpus_used: cpus.iter().filter(|c| c.target_ns > 0).count() as u32,
        wake_latency_ns,
        n_kernel_events: trace.n_kernel_events,
        n_annotation_events: trace.n_annotation_events,
        annotations: annotations::annotations(&cut, known.switches),
        switched_off: annotations::switched_off(&cut),
        imbalance: imbalance::imbalance(&cut),
        waits: annotations::waits(&cut),
        tasks: annotations::tasks(&cut),
        interference: interference::interference(&cut),
        migration_groups: migrations::groups(&moves),
        migration_list: moves,
        losses: losses(&cut),
        missing: trace.missing(),
        without_stray_ns: trace
            .stray()
            .filter(|_| cut.whole)
            .map(|stray| [stray.rest.start, stray.rest.end].map(|t| (t - cut.from).ns())),
        cpus,
        ..Summary::default()
    };
    for row in rows.iter().filter(|row| row.is_target) {
        out.on_cpu_ns += row.on_cpu_ns;
        out.switches += row.switches;
        out.preemptions += row.preemptions;
        out.migrations += row.migrations;
        out.wakeups += row.wakeups;
    }
    let targets = rows.iter().filter(|row| row.is_target);
    let counted_ns = targets.map(|row| row.counted_ns).sum();
    out.cpu_time = cpu_time(trace, out.on_cpu_ns, counted_ns, &known).filter(|_| cut.whole);
    out.tracing = tracing::tracing(trace, if cut.whole { out.on_cpu_ns } else { 0 });
    let scheduler_events = out.switches + out.wakeups + out.migrations;
    let (account, pieces, cover) = account_with_code(&cut, scheduler_events, &mut out, with_pieces);
    out.capacity_ns = out.wall_ns.saturating_mul(i64::from(out.n_cpus));
    out.cpu_use = (known.switches && out.capacity_ns > 0)
        .then(|| out.on_cpu_ns as f64 / out.capacity_ns as f64);
    rows.retain(|row| (row.is_target || options.all_processes) && (cut.whole || row.alive_ns > 0));
    rows.sort_by_key(|row| (std::cmp::Reverse(row.on_cpu_ns), row.pid, row.tid));
    out.threads = rows;
    let event_ns = tracing::annotation_ns(&out.tracing);
    out.openmp = openmp::openmp(&cut, event_ns);
    out.hints = hints::hints(&cut, &out);
    Answers {
        summary: out,
        account,
        pieces,
        cover,
    }
}

/// Puts the account into the summary, and where there are samples the code behind it.
fn account_with_code(
    cut: &Cut<'_>,
    scheduler_events: u64,
    out: &mut Summary,
    with_pieces: bool,
) -> (Account, Vec<Piece>, Cover) {
    let summarise = |sampled, on_stretch| {
        let (tracing, annotations) = (&out.tracing, &out.annotations);
        account::summarise(
            cut,
            scheduler_events,
            tracing,
            annotations,
            sampled,
            on_stretch,
        )
    };
    if cut.trace.samples.time.is_empty() {
        let (rows, account) = summarise(Sampled::none(cut.trace), None);
        out.account = rows;
        return (account, Vec::new(), Cover::default());
    }
    let cover = Cover::new(cut.trace);
    let collector = call_paths::Collector::new(cut, &cover, with_pieces);
    let sampled = Sampled::new(cut.trace, &cover);
    let (rows, account) = summarise(sampled, Some(collector.listener()));
    out.account = rows;
    // Samples of others say what ran instead, and may stand for short threads of the program that have their name.
    out.call_paths = call_paths::has_samples(cut).then(|| collector.summary(cut));
    let pieces = collector.into_pieces();
    (account, pieces, cover)
}

/// None without a number to compare with on either side.
fn cpu_time(
    trace: &Trace,
    seen_ns: i64,
    counted_ns: Option<i64>,
    known: &Known,
) -> Option<CpuTime> {
    let kernel_ns = trace.info.program_cpu?.ns();
    let unseen_ns = kernel_ns.saturating_sub(seen_ns);
    (known.switches && kernel_ns > 0).then(|| CpuTime {
        kernel_ns,
        seen_ns,
        unseen_ns,
        unseen_share: unseen_ns as f64 / kernel_ns as f64,
        counted_ns,
        hidden_switches: trace.cpus.iter().map(|cpu| cpu.hidden_switches).sum(),
        placed_switches: trace.cpus.iter().map(|cpu| cpu.placed_switches).sum(),
    })
}

fn known(trace: &Trace) -> Known {
    let kernel = trace.info.kernel_source.as_str();
    let switches = !trace.states.start.is_empty();
    Known {
        switches,
        wakeups: switches && kernel != "perf",
        other_processes: switches && kernel != "perf",
    }
}

/// The trace's losses that touch the range, by cause, CPU and thread; most first. With the whole recording all of them: where the
/// recorder was killed, what programs lost after the last event that is kept lies behind the end of what can be shown.
fn losses(cut: &Cut<'_>) -> Vec<LossSummary> {
    let mut out: Vec<LossSummary> = Vec::new();
    let tid = |loss: &Loss| {
        loss.thread
            .is_some()
            .then(|| cut.trace.threads[loss.thread.ix()].tid)
    };
    let touches =
        |loss: &&Loss| cut.whole || (loss.when.start <= cut.to && loss.when.end >= cut.from);
    for loss in cut.trace.losses.iter().filter(touches) {
        let same = |row: &&mut LossSummary| {
            row.cause == loss.cause && row.cpu == loss.cpu && row.tid == tid(loss)
        };
        match out.iter_mut().find(same) {
            Some(row) => {
                row.count = row.count.saturating_add(loss.count);
                row.gaps += 1;
                row.from_ns = row.from_ns.min(loss.when.start.ns());
                row.to_ns = row.to_ns.max(loss.when.end.ns());
            }
            None => out.push(LossSummary {
                cause: loss.cause.clone(),
                count: loss.count,
                gaps: 1,
                cpu: loss.cpu,
                tid: tid(loss),
                from_ns: loss.when.start.ns(),
                to_ns: loss.when.end.ns(),
                remedy: loss.remedy.clone(),
            }),
        }
    }
    out.sort_by_key(|row| (std::cmp::Reverse(row.count), row.from_ns, row.cpu, row.tid));
    out
}
