//! What a process does by others that it begins: one at a time, each waited for before the next; or `sleep`, again and again.
use super::seconds;
use crate::account::CauseSummary;
use crate::cut::Cut;
use crate::{Hint, Summary};
use kasuri_model::ProcessIx;
use std::collections::HashMap;

/// So many make a loop.
const SOME: u64 = 4;
/// Shorter ones cost more to make than they do (`short_processes`).
const SHORT_NS: i64 = 5_000_000;
/// make starts a shell, that a compiler's driver, and that the compiler.
const DEPTH: usize = 4;
/// Where one has all but this part, the others beside it would save no more than that.
const PART: f64 = 0.1;

/// Given where one process began them, itself or by another one each.
///
/// Whether one needs what another one makes is not recorded, and it says so.
pub(super) fn processes_in_turn(cut: &Cut<'_>, summary: &Summary) -> Option<Hint> {
    let cause = summary.account.causes.iter().find(|c| {
        (c.class, c.note) == ("low_parallelism", "serial_phase") && c.processes >= SOME
    })?;
    let mean = cause.ns / i64::try_from(cause.processes).ok()?;
    if mean < SHORT_NS || cause.thread_share > 1.0 - PART {
        return None;
    }
    let trace = cut.trace;
    let began_by = begun_by(cut, &cause.thread)?;
    let parent = trace.strings.get(trace.processes[began_by.ix()].name);
    let remedy = match parent {
        "xargs" => format!("xargs -P {}", summary.n_cpus),
        "make" | "gmake" => format!("make -j {}", summary.n_cpus),
        _ => "in a shell `&` behind each and `wait` behind all, or xargs -P; elsewhere begin several before you wait for the first".into(),
    };
    Some(Hint {
        kind: "processes_in_turn",
        cost_ns: cause.ns,
        text: format!(
            "one after the other: {} processes {} ran one at a time, begun by {parent}, and {} of CPU time was lost meanwhile. Where none needs what another one makes, let as many run at once as there are CPUs ({remedy})",
            cause.processes,
            cause.thread,
            seconds(cause.ns),
        ),
        command: None,
    })
}

/// A script that sleeps by the program `sleep` again and again.
///
/// Whether it looks for something in between is not recorded, and it says so.
pub(super) fn naps(cut: &Cut<'_>, summary: &Summary) -> Option<Hint> {
    const SLEEP: &str = "sleep";
    let trace = cut.trace;
    let is_it = |c: &&CauseSummary| {
        (c.class, c.note) == ("external_wait", "chosen") && c.name.rsplit('/').next() == Some(SLEEP)
    };
    let cost_ns = summary.account.causes.iter().filter(is_it).map(|c| c.ns).sum();
    let began_by = begun_by(cut, SLEEP)?;
    let is_sleep =
        |p: &&kasuri_model::Process| p.parent == began_by && trace.strings.get(p.name) == SLEEP;
    let n = trace.processes.iter().filter(is_sleep).count() as u64;
    (n >= SOME && cost_ns > 0).then(|| Hint {
        kind: "naps",
        cost_ns,
        text: format!(
            "naps: {} ran the program sleep {n} times; {} of CPU time was lost meanwhile. If it looks for something after each, let it wait for that (in a shell `wait` for a program that it began; inotifywait for a file), or sleep for less time",
            trace.strings.get(trace.processes[began_by.ix()].name),
            seconds(cost_ns),
        ),
        command: None,
    })
}

/// The nearest process from which nearly all of this name descend.
fn begun_by(cut: &Cut<'_>, name: &str) -> Option<ProcessIx> {
    let processes = &cut.trace.processes;
    let of_name = |p: &&kasuri_model::Process| p.is_target && cut.trace.strings.get(p.name) == name;
    let mut at: Vec<ProcessIx> = processes.iter().filter(of_name).map(|p| p.parent).collect();
    let most = at.len() - at.len() / 4;
    for _ in 0..DEPTH {
        let mut counts: HashMap<ProcessIx, usize> = HashMap::new();
        at.iter().filter(|p| p.is_some()).for_each(|&p| *counts.entry(p).or_default() += 1);
        if let Some((&parent, _)) = counts.iter().find(|(_, n)| **n >= most) {
            return processes[parent.ix()].is_target.then_some(parent);
        }
        let up = |p: ProcessIx| processes.get(p.ix()).map_or(ProcessIx::NONE, |p| p.parent);
        at.iter_mut().for_each(|p| *p = up(*p));
    }
    None
}
