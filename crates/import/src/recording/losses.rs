//! The table of losses of a recording.
//!
//! Counted losses have three sources:
//!
//! - Gaps in kernel blocks. A flagged ring-buffer page shows that events are missing, and where, but not how many; the
//!   kernel's counters (`per_cpu/cpuN/stats`), read about once a second, show how many. All gaps between two readings
//!   share the counter's increase. It is unknown which gap lost how many, so the first one gets the whole count and the
//!   others 0.
//! - Losses that a thread reports in its own stream of annotations, with their time.
//! - Counters in the header of a client's ring, of threads that have no stream.
//!
//! What the recorder knows to be uncounted has a row of its own.
use super::annotation::Clients;
use super::kernel::{GapCause, MetGap};
use kasuri_format::container::Recording;
use kasuri_format::hindrance::{self, Hindrance};
use kasuri_format::meta::KernelLoss;
use kasuri_format::ring::Lost;
use kasuri_model::{Loss, ThreadIx, Time, Trace};
use std::ops::Range;

/// The kernel overwrote events before the recorder read them.
const OVERRUN: &str = "kernel buffer overrun";

/// The table, ordered by time.
pub(super) fn losses(
    trace: &Trace,
    recording: &Recording<'_>,
    clients: &Clients<'_>,
    gaps: &[MetGap],
) -> Vec<Loss> {
    let mut out = Vec::new();
    kernel(trace, recording, gaps, &mut out);
    annotations(trace, recording, clients, &mut out);
    out.extend(recording.meta().uncounted.iter().map(|why| Loss {
        cause: why.clone(),
        cpu: None,
        thread: ThreadIx::NONE,
        when: trace.span.clone(),
        count: 0,
        remedy: String::new(),
    }));
    out.sort_by_key(|l| (l.when.start, l.cpu, l.thread));
    out
}

/// Adds the losses of kernel events. Readings are compared pairwise on each CPU; the counters only rise.
fn kernel(trace: &Trace, recording: &Recording<'_>, gaps: &[MetGap], out: &mut Vec<Loss>) {
    let buffer_kb = recording.meta().kernel.buffer_kb;
    let remedy =
        format!("record with a larger kernel buffer (it had {buffer_kb} KiB for each CPU)");
    let mut met: Vec<Counted> = gaps.iter().map(|g| (*g, g.count)).collect();
    met.sort_by_key(|(g, _)| (g.cpu, g.from));
    let mut readings: Vec<&KernelLoss> = recording.kernel_losses().iter().collect();
    readings.sort_by_key(|r| (r.cpu, r.monotonic_ns));
    for pair in readings.windows(2).filter(|p| p[0].cpu == p[1].cpu) {
        between(trace, recording, [pair[0], pair[1]], &mut met, &remedy, out);
    }
    out.extend(met.iter().map(|(gap, count)| gap_loss(gap, *count, &remedy)));
}

/// A gap, and how many events it lost, when that is known.
type Counted = (MetGap, Option<u64>);

/// Adds what was lost on a CPU between two readings of its counters, and gives the count of overwritten events to the first
/// gap between them.
fn between(
    trace: &Trace,
    recording: &Recording<'_>,
    [before, after]: [&KernelLoss; 2],
    met: &mut [Counted],
    remedy: &str,
    out: &mut Vec<Loss>,
) {
    let at = |ns: u64| Time((ns as i64).saturating_sub(trace.origin_monotonic_ns));
    let cpu = after.cpu as u16;
    let when = at(before.monotonic_ns)..at(after.monotonic_ns);
    let rise = |f: fn(&KernelLoss) -> u64| f(after).saturating_sub(f(before));
    let overrun = rise(|r| r.overrun);
    // Where events were overwritten but no page shows it, they were lost before the first page. A flight recorder is
    // meant to overwrite, so this is no loss there.
    let is_shown = overrun > 0 && share_out(overrun, cpu, &when, met);
    let is_meant = when.end <= trace.span.start || recording.meta().mode == "flight";
    let rows = [
        (rise(|r| r.unwritten), "disk full", "free disk space where the recording is written"),
        (if is_shown || is_meant { 0 } else { overrun }, OVERRUN, remedy),
        (rise(|r| r.dropped), "kernel buffer full", remedy),
        (
            rise(|r| r.commit_overrun),
            "kernel commit overrun",
            "none: interrupts nested too deep for the kernel's buffer",
        ),
    ];
    for (count, cause, remedy) in rows {
        if count > 0 {
            out.push(loss(cause, cpu, when.clone(), count, remedy));
        }
    }
}

/// Gives `overrun` to the first gap of the CPU in `when` that has no count yet, and 0 to the others: it is unknown which
/// lost how many. Returns whether there is one.
fn share_out(overrun: u64, cpu: u16, when: &Range<Time>, met: &mut [Counted]) -> bool {
    let inside = met.iter_mut().filter(|(g, count)| {
        g.cpu == cpu
            && g.cause == GapCause::Overrun
            && g.from < when.end
            && g.to > when.start
            && count.is_none()
    });
    let mut found = false;
    for (_, count) in inside {
        *count = Some(if found { 0 } else { overrun });
        found = true;
    }
    found
}

/// The loss for a gap; 0 events: unknown.
fn gap_loss(gap: &MetGap, count: Option<u64>, overrun_remedy: &str) -> Loss {
    let (cause, remedy) = match gap.cause {
        GapCause::Damaged => (
            "page damaged",
            "record again: the file was changed or truncated after it was recorded",
        ),
        GapCause::Overrun => (OVERRUN, overrun_remedy),
        GapCause::Paused => ("paused to keep the budget", "a larger --budget, or fewer --events"),
    };
    loss(cause, gap.cpu, gap.from..gap.to, count.unwrap_or(0), remedy)
}

/// A loss of kernel events on a CPU.
fn loss(cause: &str, cpu: u16, when: Range<Time>, count: u64, remedy: &str) -> Loss {
    Loss {
        cause: cause.into(),
        cpu: Some(cpu),
        thread: ThreadIx::NONE,
        when,
        count,
        remedy: remedy.into(),
    }
}

/// Adds the losses of annotations.
fn annotations(
    trace: &Trace,
    recording: &Recording<'_>,
    clients: &Clients<'_>,
    out: &mut Vec<Loss>,
) {
    let hindrances = &recording.meta().annotations.hindrances;
    for met in clients.losses.borrow().iter() {
        let when = match (met.loss.first, met.loss.last) {
            (0, _) | (_, 0) => trace.span.clone(),
            (first, last) => clients.time(first)..clients.time(last),
        };
        let thread = inner_thread(trace, met)
            .unwrap_or_else(|| thread_at(trace, met.pid, met.tid, when.start));
        let (cause, remedy) = cause(Lost::from_number(met.loss.cause), hindrances);
        out.push(Loss {
            cause: cause.into(),
            cpu: None,
            thread,
            when,
            count: met.loss.count,
            remedy,
        });
    }
    for client in recording.client_losses() {
        for (number, &count) in client.lost.iter().enumerate().filter(|(_, count)| **count > 0) {
            let (cause, remedy) = cause(Lost::from_number(number as u8), hindrances);
            // An overwritten event that is in no chunk of the copy: its chunk was being emptied at that moment.
            let is_overwritten = number == Lost::Overwritten as usize;
            let cause = match client.pid {
                0 => format!("{cause} (programs that had no memory for a single chunk)"),
                pid if is_overwritten => format!("{cause} (threads of process {pid})"),
                pid => format!("{cause} (threads of process {pid} that never had a chunk)"),
            };
            out.push(Loss {
                cause,
                cpu: None,
                thread: ThreadIx::NONE,
                when: trace.span.clone(),
                count,
                remedy,
            });
        }
    }
}

/// The thread, if its client is in a pid namespace of its own, where thread ids differ.
fn inner_thread(trace: &Trace, met: &super::annotation::MetLoss) -> Option<ThreadIx> {
    let client = (met.pid, met.generation);
    let mut names = trace.inner_names.iter();
    names.find(|name| name.client == client && name.tid == met.tid).map(|name| name.thread)
}

/// The thread with these ids that was alive at `time`, or else closest to it. Ids may be reused.
fn thread_at(trace: &Trace, pid: i32, tid: i32, time: Time) -> ThreadIx {
    let same = |ix: &usize| {
        let thread = &trace.threads[*ix];
        thread.tid == tid && trace.processes[thread.process.ix()].pid == pid
    };
    let distance = |ix: &usize| {
        let alive = &trace.threads[*ix].alive;
        alive.start.0.saturating_sub(time.0).max(time.0.saturating_sub(alive.end.0)).max(0)
    };
    (0..trace.threads.len())
        .filter(same)
        .min_by_key(distance)
        .map_or(ThreadIx::NONE, |ix| ThreadIx(ix as u32))
}

/// Cause and remedy of a loss.
fn cause(lost: Option<Lost>, hindrances: &[Hindrance]) -> (&'static str, String) {
    let remedy = match lost {
        Some(Lost::Full) => "record with more ring memory, or with the policy grow",
        Some(Lost::Overwritten) => {
            "none needed: a flight recorder keeps the newest events of each thread, 2 MiB of them"
        }
        Some(Lost::Big) => "shorten the message or argument to 2032 bytes",
        Some(Lost::Site) => "free space in the session directory (usually /dev/shm)",
        Some(Lost::Frozen) => "none: a snapshot was being copied; trigger fewer of them",
        Some(Lost::Space) => {
            "make the file system of the rings larger, /dev/shm as a rule, in a container by --shm-size"
        }
        Some(Lost::Limit) => "raise the program's limits of files, memory and mappings",
        None => "read it with a newer kasuri",
    };
    let met = lost.and_then(|lost| hindrance::words(hindrances, Some(lost)));
    let remedy = met.map_or_else(|| remedy.to_owned(), |met| format!("{remedy}: {met}"));
    (lost.map_or("unknown cause", Lost::as_str), remedy)
}
