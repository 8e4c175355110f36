//! The table of losses of a recording.
//!
//! Losses have three sources:
//!
//! - Gaps in kernel blocks. A flagged ring-buffer page shows that events are missing, and where, but not how many; the
//!   kernel's counters (`per_cpu/cpuN/stats`), read about once a second, show how many. All gaps between two readings
//!   share the counter's increase. It is unknown which gap lost how many, so the first one gets the whole count and the
//!   others 0.
//! - Losses that a thread reports in its own stream of annotations, with their time.
//! - Counters in the header of a client's ring, of threads that have no stream.
use super::annotation::Clients;
use super::kernel::{MetGap, Why};
use kasuri_format::container::Recording;
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
    out.sort_by_key(|l| (l.when.start, l.cpu, l.thread));
    out
}

/// Adds the losses of kernel events. Readings are compared pairwise on each CPU; the counters only rise.
fn kernel(trace: &Trace, recording: &Recording<'_>, gaps: &[MetGap], out: &mut Vec<Loss>) {
    let buffer_kb = recording.meta().kernel.buffer_kb;
    let remedy =
        format!("record with a larger kernel buffer (it had {buffer_kb} KiB for each CPU)");
    let loss = |cause: &str, cpu: u16, when: Range<Time>, count: u64, remedy: &str| Loss {
        cause: cause.into(),
        cpu: Some(cpu),
        thread: ThreadIx::NONE,
        when,
        count,
        remedy: remedy.into(),
    };
    let mut met: Vec<(MetGap, Option<u64>)> = gaps.iter().map(|g| (*g, g.count)).collect();
    met.sort_by_key(|(g, _)| (g.cpu, g.from));
    let at = |ns: u64| Time((ns as i64).saturating_sub(trace.origin_monotonic_ns));
    let mut readings: Vec<&KernelLoss> = recording.kernel_losses().iter().collect();
    readings.sort_by_key(|r| (r.cpu, r.monotonic_ns));
    for pair in readings.windows(2).filter(|p| p[0].cpu == p[1].cpu) {
        let (cpu, when) = (
            pair[1].cpu as u16,
            at(pair[0].monotonic_ns)..at(pair[1].monotonic_ns),
        );
        let rise = |f: fn(&KernelLoss) -> u64| f(pair[1]).saturating_sub(f(pair[0]));
        let (overrun, dropped, nested) = (
            rise(|r| r.overrun),
            rise(|r| r.dropped),
            rise(|r| r.commit_overrun),
        );
        let unwritten = rise(|r| r.unwritten);
        if unwritten > 0 {
            let remedy = "free disk space where the recording is written";
            out.push(loss("disk full", cpu, when.clone(), unwritten, remedy));
        }
        if overrun > 0 {
            let inside = met.iter_mut().filter(|(g, _)| {
                g.cpu == cpu && g.why == Why::Overrun && g.from < when.end && g.to > when.start
            });
            let mut found = false;
            for (ix, (_, count)) in inside.filter(|(_, count)| count.is_none()).enumerate() {
                *count = Some(if ix == 0 { overrun } else { 0 });
                found = true;
            }
            // Events were overwritten, but no page shows it: they were lost before the first page. A flight
            // recorder is meant to overwrite, so this is no loss there.
            if !found && when.end > trace.span.start && recording.meta().mode != "flight" {
                out.push(loss(OVERRUN, cpu, when.clone(), overrun, &remedy));
            }
        }
        if dropped > 0 {
            out.push(loss(
                "kernel buffer full",
                cpu,
                when.clone(),
                dropped,
                &remedy,
            ));
        }
        if nested > 0 {
            out.push(loss(
                "kernel commit overrun",
                cpu,
                when,
                nested,
                "none: interrupts nested too deep for the kernel's buffer",
            ));
        }
    }
    for (gap, count) in met {
        let (cause, remedy) = match gap.why {
            Why::Damaged => (
                "page damaged",
                "record again: the file was changed or truncated after it was recorded",
            ),
            Why::Overrun => (OVERRUN, remedy.as_str()),
            Why::Paused => (
                "paused to keep the budget",
                "a larger --budget, or fewer --events",
            ),
        };
        out.push(loss(
            cause,
            gap.cpu,
            gap.from..gap.to,
            count.unwrap_or(0),
            remedy,
        ));
    }
}

/// Adds the losses of annotations.
fn annotations(
    trace: &Trace,
    recording: &Recording<'_>,
    clients: &Clients<'_>,
    out: &mut Vec<Loss>,
) {
    for met in clients.losses.borrow().iter() {
        let when = match (met.loss.first, met.loss.last) {
            (0, _) | (_, 0) => trace.span.clone(),
            (first, last) => clients.time(first)..clients.time(last),
        };
        let thread = inner_thread(trace, met)
            .unwrap_or_else(|| thread_at(trace, met.pid, met.tid, when.start));
        let (cause, remedy) = cause(Lost::from_number(met.loss.cause));
        out.push(Loss {
            cause: cause.into(),
            cpu: None,
            thread,
            when,
            count: met.loss.count,
            remedy: remedy.into(),
        });
    }
    for client in recording.client_losses() {
        for (number, &count) in client
            .lost
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
        {
            let (cause, remedy) = cause(Lost::from_number(number as u8));
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
                remedy: remedy.into(),
            });
        }
    }
}

/// The thread, if its client is in a pid namespace of its own, where thread ids differ.
fn inner_thread(trace: &Trace, met: &super::annotation::MetLoss) -> Option<ThreadIx> {
    let client = (met.pid, met.generation);
    let mut names = trace.inner_names.iter();
    names
        .find(|name| name.client == client && name.tid == met.tid)
        .map(|name| name.thread)
}

/// The thread with these ids that was alive at `time`, or else closest to it. Ids may be reused.
fn thread_at(trace: &Trace, pid: i32, tid: i32, time: Time) -> ThreadIx {
    let same = |ix: &usize| {
        let thread = &trace.threads[*ix];
        thread.tid == tid && trace.processes[thread.process.ix()].pid == pid
    };
    let distance = |ix: &usize| {
        let alive = &trace.threads[*ix].alive;
        alive
            .start
            .0
            .saturating_sub(time.0)
            .max(time.0.saturating_sub(alive.end.0))
            .max(0)
    };
    (0..trace.threads.len())
        .filter(same)
        .min_by_key(distance)
        .map_or(ThreadIx::NONE, |ix| ThreadIx(ix as u32))
}

/// Cause and remedy of a loss.
fn cause(lost: Option<Lost>) -> (&'static str, &'static str) {
    let remedy = match lost {
        Some(Lost::Full) => "record with more ring memory, or with the policy grow",
        Some(Lost::Overwritten) => {
            "none needed: a flight recorder keeps the newest events; give it more chunks to keep more"
        }
        Some(Lost::Big) => "shorten the message or argument to 2032 bytes",
        Some(Lost::Site) => "free space in the session directory (usually /dev/shm)",
        Some(Lost::Frozen) => "none: a snapshot was being copied; trigger fewer of them",
        None => "read it with a newer kasuri",
    };
    (lost.map_or("unknown cause", Lost::as_str), remedy)
}
