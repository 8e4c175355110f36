//! The run itself: one row; its labels; what is missing.
use super::{cpu, id, made};
use crate::batch::Text;
use crate::schema::{Out, table};
use crate::{Result, Source};
use kasuri_model::StrIx;
use std::borrow::Cow;

table! {
    /// The recording: one row.
    pub(crate) static RUN = "run", RunRow from run;
    /// The recorded command with its arguments; empty when the whole system was recorded.
    command: Text;
    /// Exit status of the program as a shell would show it.
    exit_status: Option<i32>;
    /// Host name.
    host: Text;
    /// Kernel release.
    kernel: Text;
    /// Architecture.
    arch: Text;
    /// CPU model.
    cpu_model: Text;
    /// CPUs whose time the account is about.
    n_cpus: i32, "count";
    /// The first moment of the recording on CLOCK_REALTIME, since 1970: add `time_ns - start_ns` of any row. 0: not known.
    start_realtime_ns: i64, "ns";
    /// The same on CLOCK_MONOTONIC.
    start_monotonic_ns: i64, "ns";
    /// First moment, on the clock of all other tables.
    start_ns: i64, "ns";
    /// Last moment.
    end_ns: i64, "ns";
    /// How long it lasted: `end_ns - start_ns`.
    wall_ns: i64, "ns";
    /// The CPU time there was: `n_cpus * wall_ns`; `account.ns` adds up to it.
    capacity_ns: i64, "ns";
    /// CPU time that the recorded program used.
    on_cpu_ns: i64, "ns";
    /// CPUs that did the program's own work, on average.
    got_cpus: f64, "CPUs";
    /// Where kernel events came from: `tracefs`, `perf`, the importer's name, or `none`.
    kernel_source: Text;
    /// Whether switches were recorded: if not, on-CPU times are not known and stand as 0.
    knows_switches: bool;
    /// Whether wake-ups were recorded.
    knows_wakeups: bool;
    /// Whether other processes were recorded.
    knows_other_processes: bool;
    /// The lock probe: `full`, `light` (holds are a sample, waits are complete), or missing without.
    lock_probe: Option<Text>;
    /// Kernel events in the recording.
    n_kernel_events: i64, "count";
    /// Annotation events in the recording.
    n_annotation_events: i64, "count";
    /// Events that are missing; see `loss`.
    n_lost: i64, "count";
    /// Name and version of the recorder.
    recorder: Text;
}

fn run(source: &Source<'_>, out: &mut Out<'_>) -> Result<()> {
    let (trace, summary) = (source.trace(), source.summary());
    let start = trace.span.start.ns();
    let lost: u64 = trace.losses.iter().map(|loss| loss.count).sum();
    out.push(RunRow {
        command: trace.info.command.join(" ").into(),
        exit_status: trace.info.exit_status,
        host: trace.info.host.clone().into(),
        kernel: trace.info.kernel.clone().into(),
        arch: trace.info.machine.clone().into(),
        cpu_model: trace.info.cpu_model.clone().into(),
        n_cpus: summary.account.n_cpus as i32,
        start_realtime_ns: match trace.origin_realtime_ns {
            0 => 0,
            origin => origin.saturating_add(start),
        },
        start_monotonic_ns: trace.origin_monotonic_ns.saturating_add(start),
        start_ns: start,
        end_ns: trace.span.end.ns(),
        wall_ns: summary.wall_ns,
        capacity_ns: summary.account.capacity_ns,
        on_cpu_ns: summary.on_cpu_ns,
        got_cpus: summary.account.got_cpus,
        kernel_source: trace.info.kernel_source.clone().into(),
        knows_switches: summary.known.switches,
        knows_wakeups: summary.known.wakeups,
        knows_other_processes: summary.known.other_processes,
        lock_probe: made(&trace.info.lock_probe),
        n_kernel_events: trace.n_kernel_events.cast_signed(),
        n_annotation_events: trace.n_annotation_events.cast_signed(),
        n_lost: lost.cast_signed(),
        recorder: trace.info.recorder.clone().into(),
    })
}

table! {
    /// Labels of the run, such as the commit: `kasuri export --label KEY=VALUE`.
    pub(crate) static LABEL = "label", LabelRow from labels;
    /// Its name.
    key: Text;
    /// Its value.
    value: Text;
}

fn labels(source: &Source<'_>, out: &mut Out<'_>) -> Result<()> {
    for (key, value) in source.labels() {
        out.push(LabelRow { key: key.clone().into(), value: value.clone().into() })?;
    }
    Ok(())
}

table! {
    /// Events that are missing. No rows: none are.
    pub(crate) static LOSS = "loss", LossRow from losses;
    /// Cause: `kernel buffer overrun`, `ring full`, `overwritten`...
    cause: Text;
    /// CPU whose kernel events are missing.
    cpu: Option<i32>;
    /// Thread whose annotations are missing.
    thread_id: Option<i64>, "id";
    /// Between this moment...
    start_ns: i64, "ns";
    /// ...and this.
    end_ns: i64, "ns";
    /// How many; 0: not known.
    count: i64, "count";
    /// The remedy.
    remedy: Option<Text>;
}

fn losses(source: &Source<'_>, out: &mut Out<'_>) -> Result<()> {
    for loss in &source.trace().losses {
        out.push(LossRow {
            cause: loss.cause.clone().into(),
            cpu: loss.cpu.and_then(cpu),
            thread_id: id(loss.thread.0),
            start_ns: loss.when.start.ns(),
            end_ns: loss.when.end.ns(),
            count: loss.count.cast_signed(),
            remedy: made(&loss.remedy),
        })?;
    }
    Ok(())
}

table! {
    /// Names of C++ and Rust functions and variables: other tables have them as the linker does.
    pub(crate) static SYMBOL = "symbol", SymbolRow from symbols;
    /// The name in other tables.
    name: Text;
    /// The same as its programmer wrote it.
    demangled: Text;
}

fn symbols(source: &Source<'_>, out: &mut Out<'_>) -> Result<()> {
    let strings = &source.trace().strings;
    for i in 0..strings.len() {
        let name = StrIx(i as u32);
        if let Cow::Owned(demangled) = kasuri_analyze::demangled(strings.get(name)) {
            out.push(SymbolRow { name: name.into(), demangled: Text::Made(demangled) })?;
        }
    }
    Ok(())
}
