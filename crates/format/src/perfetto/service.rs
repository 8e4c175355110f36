//! What the recorder counted of its own losses: `FtraceStats` at the begin and the end of a recording, `TraceStats` at its end.
use super::wire::Message;
use crate::Result;

/// The kernel's counts of one CPU's ring buffer. They rise from when the kernel made the buffer on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuBuffer {
    /// The CPU.
    pub cpu: u64,
    /// Events that newer ones overwrote.
    pub overrun: u64,
    /// Events that did not fit.
    pub dropped: u64,
}

/// Counts of the ring buffers at one moment.
#[derive(Clone, Debug, Default)]
pub struct FtraceStats {
    /// It is that of the end; else that of the begin.
    pub is_end: bool,
    /// By CPU.
    pub cpus: Vec<CpuBuffer>,
    /// Events that the recorder asked for, and the kernel does not have or did not give.
    pub refused: Vec<String>,
}

impl FtraceStats {
    /// From its message.
    ///
    /// # Errors
    /// Bytes that are no fields.
    pub fn parse(mut message: Message<'_>) -> Result<FtraceStats> {
        let mut stats = FtraceStats::default();
        while let Some(field) = message.next_field()? {
            match field.number {
                1 => stats.is_end = field.u64() == 2,
                2 => {
                    let (mut cpu, mut parts) = (CpuBuffer::default(), field.message());
                    while let Some(part) = parts.next_field()? {
                        match part.number {
                            1 => cpu.cpu = part.u64(),
                            3 | 4 => cpu.overrun = cpu.overrun.saturating_add(part.u64()),
                            8 => cpu.dropped = part.u64(),
                            _ => {}
                        }
                    }
                    stats.cpus.push(cpu);
                }
                6 | 7 => stats.refused.push(field.text().into_owned()),
                _ => {}
            }
        }
        Ok(stats)
    }
}

/// Counts of one of the recorder's own buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ServiceBuffer {
    /// Bytes of old packets that newer ones overwrote.
    pub overwritten_bytes: u64,
    /// Chunks with such packets.
    pub overwritten: u64,
    /// Chunks that did not fit.
    pub discarded: u64,
    /// Packets that their writers had no room for.
    pub lost_packets: u64,
    /// Packets that were never completed.
    pub unfinished: u64,
}

/// The buffers, in their order. Of several messages the last one counts.
///
/// # Errors
/// Bytes that are no fields.
pub fn service_buffers(mut message: Message<'_>) -> Result<Vec<ServiceBuffer>> {
    let mut buffers = Vec::new();
    while let Some(field) = message.next_field()? {
        if field.number != 1 {
            continue;
        }
        let (mut buffer, mut parts) = (ServiceBuffer::default(), field.message());
        while let Some(part) = parts.next_field()? {
            match part.number {
                3 => buffer.overwritten = part.u64(),
                6 => buffer.unfinished = part.u64(),
                13 => buffer.overwritten_bytes = part.u64(),
                18 => buffer.discarded = part.u64(),
                19 => buffer.lost_packets = part.u64(),
                _ => {}
            }
        }
        buffers.push(buffer);
    }
    Ok(buffers)
}
