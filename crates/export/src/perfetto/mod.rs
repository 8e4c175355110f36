//! Perfetto's protobuf trace: scheduler events as ftrace bundles, annotations as track events.
//!
//! A trace is a sequence of packets, each a protobuf message with its length in front. They are written in this
//! order: clocks and machine, processes and threads, the bundles of each CPU (`sched.rs`), tracks with their events
//! (`tracks.rs`), on-CPU samples (`samples.rs`), and a last snapshot of the clocks. `packets.rs` frames packets and interns strings; `proto.rs` has
//! the messages.
//!
//! Clock: every stamp is CLOCK_MONOTONIC, but is written as the format's default clock (BOOTTIME), and one
//! snapshot equates the two. Both kinds of event thereby take the same path through any importer; naming
//! MONOTONIC in each packet was rejected, because the clock of an ftrace bundle cannot be MONOTONIC. The
//! error is the time the machine was suspended since boot, the same for all events of a recording.
mod packets;
pub mod proto;
mod samples;
mod sched;
mod tracks;

use crate::Exported;
use kasuri_model::{ProcessIx, SampleKind, ThreadIx, Time, Trace};
use packets::Packets;
use proto::*;
use std::io::{self, Write};

/// Writes the whole recording into `out`, packet by packet.
///
/// # Errors
/// Those of `out`.
pub fn write<W: Write>(trace: &Trace, out: W) -> io::Result<Exported> {
    let mut packets = Packets::new(trace, out);
    header(trace, &mut packets)?;
    process_tree(trace, &mut packets)?;
    let gaps = sched::write(trace, &mut packets)?;
    tracks::write(trace, &mut packets)?;
    samples::write(trace, &mut packets)?;
    // Importers take the last snapshot for the end of the recording.
    snapshot(trace, &mut packets, trace.span.end)?;
    let mut left_out = vec!["thread priorities (shown as 120)".to_string()];
    if gaps > 0 {
        left_out.push(format!(
            "how many scheduler events were lost in {gaps} gaps (that there were some is kept)"
        ));
    }
    if crate::samples::has(trace, |kind| kind != SampleKind::OnCpu) {
        left_out.push("call paths of waits and wake-ups".to_owned());
    }
    left_out.extend(crate::sched_events::notes(trace));
    Ok(Exported { records: packets.finish()?, left_out })
}

/// Writes what the clocks showed at `time`.
fn snapshot<W: Write>(trace: &Trace, packets: &mut Packets<W>, time: Time) -> io::Result<()> {
    let now = packets.stamp(time);
    let clock = |id, timestamp| Clock { clock_id: Some(id), timestamp: Some(timestamp) };
    let mut clocks = vec![clock(CLOCK_BOOTTIME, now), clock(CLOCK_MONOTONIC, now)];
    if trace.origin_realtime_ns != 0 {
        let realtime = trace.origin_realtime_ns.saturating_add(time.ns());
        clocks.push(clock(CLOCK_REALTIME, realtime.max(0) as u64));
    }
    packets.describe(Data::ClockSnapshot(ClockSnapshot {
        clocks,
        primary_trace_clock: Some(CLOCK_BOOTTIME),
    }))
}

/// Writes what holds for the whole recording: the clocks at its start, the kernel and the machine.
fn header<W: Write>(trace: &Trace, packets: &mut Packets<W>) -> io::Result<()> {
    snapshot(trace, packets, trace.span.start)?;
    let utsname = Utsname {
        sysname: Some("Linux".into()),
        // The importer reads the meaning of prev_state off the kernel's version.
        release: Some(trace.info.kernel.clone()),
        machine: Some(trace.info.machine.clone()),
    };
    packets.describe(Data::SystemInfo(SystemInfo {
        utsname: Some(utsname),
        tracing_service_version: Some(trace.info.recorder.clone()),
        num_cpus: Some(trace.cpus.len() as u32),
    }))
}

/// Writes the processes, each with its threads. The main thread comes with the process, so it is not listed again.
fn process_tree<W: Write>(trace: &Trace, packets: &mut Packets<W>) -> io::Result<()> {
    // One packet for each process: the tree of a big machine is long.
    for (i, process) in trace.processes.iter().enumerate() {
        let ix = ProcessIx(i as u32);
        let parent = trace.processes.get(process.parent.ix()).map(|p| p.pid);
        let threads = process.threads.clone().map(|t| {
            let thread = &trace.threads[t as usize];
            let name = kasuri_model::label::thread(trace, ThreadIx(t)).into_owned();
            TreeThread { tid: Some(thread.tid), name: Some(name), tgid: Some(process.pid) }
        });
        let tree = ProcessTree {
            processes: vec![TreeProcess {
                pid: Some(process.pid),
                ppid: parent,
                cmdline: vec![process_name(trace, ix)],
                cmdline_is_comm: Some(true),
            }],
            threads: threads.filter(|t| t.tid != Some(process.pid)).collect(),
        };
        packets.packet(&TracePacket {
            timestamp: Some(packets.stamp(trace.span.start)),
            data: Some(Data::ProcessTree(tree)),
            ..Default::default()
        })?;
    }
    Ok(())
}

/// The name of a process; never empty.
fn process_name(trace: &Trace, ix: ProcessIx) -> String {
    match trace.strings.get(trace.processes[ix.ix()].name) {
        "" => format!("process {}", trace.processes[ix.ix()].pid),
        name => name.to_string(),
    }
}
