//! Columns -> answers. [`summary`] is what `kasuri stat` shows; [`Summary`] is its JSON.
//!
//! | module | answers |
//! |---|---|
//! | [`account`] | where every CPU-second went |
//! | `at_end` | where threads wait when the recording ends, and for whom |
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
//! | `languages` | what cannot be shown of programs in Go, Java, JavaScript |
//! | `locks` | locks: ratios, holds, waits, which thread kept which waiting |
//! | [`OnCpu`] | how long a thread was on a CPU within an interval |
//! | `migrations` | which thread moved where, and why |
//! | `hints` | what to try next |
//! | [`demangled`] | C++ and Rust names as written |
//! | [`program`](program()) | which processes are the program, or might be |
//! | [`Session`] | several of these about one recording, each made once |
//! | [`compare`], `permute` | what changed between runs, and whether by more than noise |
#![forbid(unsafe_code)]

pub mod account;
mod annotations;
mod at_end;
mod built;
mod busy;
pub mod call_paths;
pub mod compare;
mod contents;
pub mod critical_path;
mod cut;
mod demangle;
mod held_up;
mod hints;
mod imbalance;
mod interference;
mod languages;
mod locks;
mod migrations;
mod on_cpu;
mod openmp;
mod permute;
mod points;
mod program;
mod rounds;
mod session;
mod summary;
mod summary_rows;
pub mod task_graph;
mod threads;
mod tracing;
mod wakers;

pub use annotations::{handed_over_in, kind_name, no_light_threads, pinned_for};
pub use at_end::{AT_END_SCHEMA, AtEnd, HeldBy, ThreadAtEnd};
pub use built::built;
pub use contents::*;
pub use cut::Options;
pub use demangle::{demangled, short_name};
pub use held_up::{HeldUp, TimedCalls};
pub use interference::THIS_RECORDER;
pub use languages::{goroutines_by, names_by};
pub use locks::*;
pub use on_cpu::OnCpu;
pub use openmp::rows::*;
pub use program::{Candidate, Program, ProgramBy, ProgramProcess, program, program_title};
pub use session::{Answers, Session, locks, summary};
pub use summary::*;
pub use summary_rows::*;

use account::Account;
use call_paths::{Cover, Piece, Sampled};
use cut::Cut;
use kasuri_model::{Loss, Trace};

/// What one pass over the recording makes together, which may have a million samples.
#[derive(Default)]
pub(crate) struct Stat {
    pub summary: Summary,
    pub account: Account,
    pub pieces: Vec<Piece>,
}

/// See [`Session::summary`].
fn stat(cut: &Cut<'_>, cover: &Cover, sampled: &Sampled) -> Stat {
    let trace = cut.trace;
    let known = known(trace);
    let stray = trace.stray();
    let ((swept, mut rows), account) = match trace.samples.time.is_empty() {
        // Samples are followed while the account is made, by the thread that made them.
        false => (sweeps(cut, &known), None),
        true => beside(
            trace,
            2,
            || sweeps(cut, &known),
            || {
                let range = cut.from..cut.to;
                Some(Account::telling(trace, range, sampled, None))
            },
        ),
    };
    let mut out = Summary {
        schema: SCHEMA,
        command: trace.info.command.clone(),
        program: program::program(trace),
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
        n_cpus: match swept.cpus.len() {
            0 => trace.cpus.len(),
            n => n,
        } as u32,
        cpus_used: swept.cpus.iter().filter(|c| c.target_ns > 0).count() as u32,
        worst_wakeup: threads::worst_wakeup(cut),
        n_kernel_events: trace.n_kernel_events,
        n_annotation_events: trace.n_annotation_events,
        losses: losses(cut),
        missing: languages::missing(trace, trace.missing_given(stray.as_ref())),
        without_stray_ns: stray
            .filter(|_| cut.whole)
            .map(|stray| [stray.rest.start, stray.rest.end].map(|t| (t - cut.from).ns())),
        ..swept
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
    let (account, pieces) = match account {
        Some(account) => {
            let (tracing, annotations) = (&out.tracing, &out.annotations);
            let rows = account::rows(cut, &account, scheduler_events, tracing, annotations);
            out.account = rows;
            (account, Vec::new())
        }
        None => account_with_code(cut, scheduler_events, &mut out, (cover, sampled)),
    };
    account::join_small_phases(&mut out.account);
    out.capacity_ns = out.wall_ns.saturating_mul(i64::from(out.n_cpus));
    out.cpu_use = (known.switches && out.capacity_ns > 0)
        .then(|| out.on_cpu_ns as f64 / out.capacity_ns as f64);
    rows.retain(|row| (row.is_target || cut.all_processes) && (cut.whole || row.alive_ns > 0));
    rows.sort_by_key(|row| (std::cmp::Reverse(row.on_cpu_ns), row.pid, row.tid));
    out.threads = rows;
    let event_ns = tracing::annotation_ns(&out.tracing);
    out.openmp = openmp::openmp(cut, event_ns);
    out.hints = hints::hints(cut, &out, (cover, sampled));
    Stat { summary: out, account, pieces }
}

/// The parts of the summary that sweeps over the recording find, each for itself; and every thread's row.
fn sweeps(cut: &Cut<'_>, known: &Known) -> (Summary, Vec<ThreadSummary>) {
    let of_slices =
        || (imbalance::imbalance(cut), annotations::waits(cut), annotations::tasks(cut));
    let of_states = || {
        let mut rows = threads::threads(cut);
        let moves = migrations::migrations(cut);
        let summary = Summary {
            wake_latency_ns: threads::wakeups(cut, &mut rows),
            cpus: threads::cpus(cut),
            annotations: annotations::annotations(cut, known.switches),
            switched_off: annotations::switched_off(cut),
            points: points::points(cut),
            interference: interference::interference(cut),
            migration_groups: moves.groups(),
            migration_list: match cut.omits_moves {
                true => Vec::new(),
                false => moves.list(),
            },
            ..Summary::default()
        };
        (summary, rows)
    };
    let ((imbalance, waits, tasks), (summary, rows)) = beside(cut.trace, 3, of_slices, of_states);
    let summary = Summary { imbalance, waits, tasks, ..summary };
    (summary, rows)
}

/// Rows of states and slices from which on a second thread pays.
const LARGE: usize = 1 << 18;

/// Does both: `aside` on a thread of its own, where the recording is large and there are so many CPUs. What two of them need at once is
/// more memory, so none goes beside others without a CPU of its own.
fn beside<A: Send, B>(
    trace: &Trace,
    cpus: usize,
    aside: impl FnOnce() -> A + Send,
    here: impl FnOnce() -> B,
) -> (A, B) {
    let is_large = trace.states.start.len() + trace.slices.start.len() >= LARGE;
    let n_cpus = || std::thread::available_parallelism().map_or(1, usize::from);
    if !is_large || n_cpus() < cpus {
        return (aside(), here());
    }
    std::thread::scope(|scope| {
        let aside = scope.spawn(aside);
        let here = here();
        match aside.join() {
            Ok(aside) => (aside, here),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Puts the account and the code behind it into the summary of a recording with samples.
fn account_with_code(
    cut: &Cut<'_>,
    scheduler_events: u64,
    out: &mut Summary,
    (cover, sampled): (&Cover, &Sampled),
) -> (Account, Vec<Piece>) {
    let collector = call_paths::Collector::new(cut, cover, sampled, cut.pieces);
    let listener = Some(collector.listener());
    let account = Account::telling(cut.trace, cut.from..cut.to, sampled, listener);
    let (tracing, annotations) = (&out.tracing, &out.annotations);
    out.account = account::rows(cut, &account, scheduler_events, tracing, annotations);
    // Samples of others say what ran instead, and may stand for short threads of the program that have their name.
    let causes = &mut out.account.causes;
    out.call_paths = call_paths::has_samples(cut).then(|| collector.summary(cut, causes));
    (account, collector.into_pieces())
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
    let tid = |loss: &Loss| loss.thread.is_some().then(|| cut.trace.threads[loss.thread.ix()].tid);
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

#[cfg(test)]
mod tests {
    use super::*;
    use kasuri_model::Time;

    #[test]
    fn only_a_large_recording_gets_a_second_thread_and_its_panic_is_passed_on() {
        let here = std::thread::current().id();
        let aside = |trace: &Trace| beside(trace, 2, || std::thread::current().id(), || 7);
        assert_eq!(aside(&Trace::default()), (here, 7));
        let mut large = Trace::default();
        large.states.start = vec![Time(0); LARGE];
        let n_cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let (id, seven) = aside(&large);
        assert_eq!((id != here, seven), (n_cpus > 1, 7));
        let panics = || beside(&large, 2, || -> u8 { panic!("aside") }, || 7);
        assert!(std::panic::catch_unwind(panics).is_err());
        let without_a_cpu = || std::thread::current().id();
        assert_eq!(beside(&large, n_cpus + 1, without_a_cpu, || 7), (here, 7));
    }
}
