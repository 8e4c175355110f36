//! The scheduler's events of Kasuri's own export, which holds them as ftrace's text (`systemTraceEvents`).
//!
//! The text has the clock of the events beside it, and `otherData` says what no text of ftrace does: which CPUs were recorded from the first
//! moment to the last, whether migrations were, and which processes are the program. Files of others have such text on a clock that they
//! need not name, and it is not read.
use crate::{Opened, ftrace_text};
use kasuri_model::input::{KnownThread, Setup};
use kasuri_model::{Strings, Time};
use std::collections::HashSet;

/// A thread that the export names: since when there was one, on the trace's clock, process, id, name.
pub(super) type Named = (i64, i32, i32, String);

/// Adds the events of `text` to what was read of the file; `about`: `kernel_events` of `otherData`.
///
/// # Errors
/// Why they are not read, in words.
pub(super) fn add<'a>(
    opened: &mut Opened<'a>,
    text: &[u8],
    about: &serde_json::Value,
    threads: &[Named],
    strings: &mut Strings,
) -> Result<(), String> {
    let text: String = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    let born = born(&text);
    let kernel = ftrace_text::embedded(text.into_bytes(), strings).map_err(|e| e.to_string())?;
    let numbers = |key: &str| {
        let list = about[key].as_array().into_iter().flatten();
        list.filter_map(|n| n.as_u64().and_then(|n| u32::try_from(n).ok()))
    };
    let n_cpus = about["n_cpus"].as_u64().unwrap_or(0);
    let is_cpu = |cpu: &u32| u64::from(*cpu) < n_cpus.min(CPUS_MAX);
    let known = threads.iter().filter(|t| t.2 > 0 && !born.contains(&(t.0, t.2)));
    let known = known.map(|(time, pid, tid, comm)| KnownThread {
        time: Time(*time),
        pid: *pid,
        tid: *tid,
        ppid: 0,
        comm: comm.clone(),
    });
    let mut known: Vec<KnownThread> = known.collect();
    known.sort_by_key(|known| known.time);
    opened.setup = Setup {
        span: opened.setup.span.clone(),
        n_cpus: n_cpus.min(CPUS_MAX) as usize,
        root_pids: numbers("program_pids").map(|pid| pid as i32).collect(),
        known,
        recorded: numbers("recorded_cpus").filter(is_cpu).collect(),
        has_migrations: about["has_migrations"].as_bool().unwrap_or(false),
        ..Setup::default()
    };
    opened.cpus = kernel.cpus;
    opened.info.kernel_source = match about["source"].as_str() {
        Some(source) if !source.is_empty() => source.to_owned(),
        _ => kernel.info.kernel_source,
    };
    opened.info.event_costs = kernel.info.event_costs;
    // The line that joins the clocks is no event.
    let is_event = |name: &str| name != "tracing_mark_write";
    (opened.info.event_costs).retain(|kind| is_event(&kind.name));
    Ok(())
}

/// As for text of ftrace: no machine has more CPUs.
const CPUS_MAX: u64 = 8192;

/// Births in the text: when, and the new thread. The events tell their processes.
fn born(text: &str) -> HashSet<(i64, i32)> {
    let births = text
        .lines()
        .filter(|line| line.contains(": task_newtask: ") || line.contains(":task_newtask: "));
    let birth = |line: &str| match kasuri_format::ftrace_text::parse(line.as_bytes()) {
        kasuri_format::ftrace_text::Kind::Event(event) => {
            let text = std::str::from_utf8(event.text).ok()?.strip_prefix("pid=")?;
            Some((event.time, text.split(' ').next()?.parse().ok()?))
        }
        _ => None,
    };
    births.filter_map(birth).collect()
}
