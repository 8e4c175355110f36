//! What the recorder lost, as it counted itself.
use kasuri_format::perfetto::{CpuBuffer, FtraceStats, ServiceBuffer};
use kasuri_model::{Loss, ThreadIx, Trace};
use std::collections::{BTreeMap, BTreeSet};

/// Most CPUs, and most names, that are kept.
const MAX: usize = 8192;

/// The last word of the recorder about each of its buffers.
#[derive(Debug, Default)]
pub(super) struct Service {
    /// By CPU: at the begin, and at the end.
    cpus: BTreeMap<u64, (CpuBuffer, Option<CpuBuffer>)>,
    refused: BTreeSet<String>,
    pub buffers: Vec<ServiceBuffer>,
}

impl Service {
    /// Takes in counts of the kernel's buffers.
    pub fn ftrace(&mut self, stats: FtraceStats) {
        for cpu in stats.cpus {
            if self.cpus.len() >= MAX && !self.cpus.contains_key(&cpu.cpu) {
                continue;
            }
            let of = self.cpus.entry(cpu.cpu).or_default();
            match stats.is_end {
                true => of.1 = Some(cpu),
                false => of.0 = cpu,
            }
        }
        let room = MAX.saturating_sub(self.refused.len());
        self.refused.extend(stats.refused.into_iter().take(room));
    }

    /// What is no loss, in sentences.
    pub fn told(&self) -> Vec<String> {
        let wrapped = self.buffers.iter().enumerate();
        let wrapped = wrapped.filter(|(_, b)| b.overwritten_bytes > 0 || b.overwritten > 0);
        let mut told: Vec<String> = wrapped
            .map(|(n, b)| {
                format!(
                    "buffer {n} of the recorder was too small for all: newer packets overwrote the oldest, {} chunks with {} bytes",
                    b.overwritten, b.overwritten_bytes
                )
            })
            .collect();
        if !self.refused.is_empty() {
            let names: Vec<String> = self.refused.iter().take(8).cloned().collect();
            told.push(format!(
                "{} events that the recorder asked for, and the kernel does not have: {}",
                self.refused.len(),
                names.join(", ").escape_debug()
            ));
        }
        told
    }

    /// Adds the losses to the finished trace. A gap in a CPU's events stands there already, without a number.
    pub fn publish(&self, trace: &mut Trace) {
        for (&cpu, &(begin, end)) in &self.cpus {
            let Some(end) = end else { continue };
            let overrun = end.overrun.saturating_sub(begin.overrun);
            let dropped = end.dropped.saturating_sub(begin.dropped);
            let number = u16::try_from(cpu).ok();
            for (count, cause) in [
                (overrun, "kernel buffer overrun, counted by the kernel"),
                (dropped, "kernel buffer full, counted by the kernel"),
            ] {
                let remedy = "record with a larger buffer_size_kb in ftrace_config";
                add(trace, number, count, cause.into(), remedy);
            }
        }
        for (n, buffer) in self.buffers.iter().enumerate() {
            let remedy = "record with a larger size_kb of this buffer";
            for (count, what) in [
                (buffer.lost_packets, "packets that found no room"),
                (buffer.discarded, "chunks of packets that found no room"),
                (buffer.unfinished, "packets that were never completed"),
            ] {
                let cause = format!("buffer {n} of the recorder: {what}");
                add(trace, None, count, cause, remedy);
            }
        }
    }
}

fn add(trace: &mut Trace, cpu: Option<u16>, count: u64, cause: String, remedy: &str) {
    if count > 0 {
        let when = trace.span.clone();
        trace.losses.push(Loss {
            cause,
            cpu,
            thread: ThreadIx::NONE,
            when,
            count,
            remedy: remedy.into(),
        });
    }
}
