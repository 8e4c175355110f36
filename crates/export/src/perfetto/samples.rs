//! On-CPU samples as `PerfSample` packets, a sequence of their own.
//!
//! A packet names a call stack by number; a stack is a list of frames, outermost first; a frame names a function and a mapping. A
//! number is the row of the model's table + 1, and a row is sent with the first sample that uses it. Mappings are numbered by their
//! path; they have no addresses, since frames have names. Samples carry no weight in this format: importers count them. But each says how far its CPU's
//! counter had come (`timebase_count`): that counter adds up the exact times that samples stand for, so a sample's time is the difference from the one before
//! on its CPU.
use super::packets::Packets;
use super::proto::*;
use crate::samples;
use kasuri_model::{FrameKind, PathIx, SampleKind, StrIx, Trace};
use std::collections::HashSet;
use std::io::{self, Write};

/// The mapping of frames without a module.
const NO_MODULE: u64 = 1;

/// Writes the samples, by thread and time.
pub fn write<W: Write>(trace: &Trace, packets: &mut Packets<W>) -> io::Result<()> {
    let mut table = Table { trace, sent: HashSet::new(), pending: InternedData::default() };
    let mut is_first = true;
    let s = &trace.samples;
    let counts = counts(trace);
    for row in (0..s.time.len()).filter(|&row| s.kind[row] == SampleKind::OnCpu) {
        let stack = table.stack(s.path[row]);
        let thread = &trace.threads[s.thread[row].ix()];
        let process = trace.processes.get(thread.process.ix());
        let sample = PerfSample {
            cpu: (s.cpu[row] != u16::MAX).then_some(u32::from(s.cpu[row])),
            pid: Some(process.map_or(thread.tid, |p| p.pid) as u32),
            tid: Some(thread.tid as u32),
            cpu_mode: Some(cpu_mode(trace, s.path[row])),
            callstack_iid: stack,
            timebase_count: Some(counts[row]),
        };
        let pending = std::mem::take(&mut table.pending);
        packets.sample(s.time[row], sample, pending, is_first)?;
        is_first = false;
    }
    Ok(())
}

/// The time that on-CPU samples stand for, ns, added up by CPU in order of time; by row of the samples.
fn counts(trace: &Trace) -> Vec<u64> {
    let s = &trace.samples;
    let weights = kasuri_analyze::call_paths::weigh(trace).sample;
    let mut rows: Vec<usize> =
        (0..s.time.len()).filter(|&row| s.kind[row] == SampleKind::OnCpu).collect();
    rows.sort_by_key(|&row| (s.cpu[row], s.time[row]));
    let (mut counts, mut last) = (vec![0; s.time.len()], (0, 0));
    for row in rows {
        let before = if last.0 == s.cpu[row] { last.1 } else { 0 };
        let count = before + weights[row].ns().unsigned_abs();
        counts[row] = count;
        last = (s.cpu[row], count);
    }
    counts
}

/// Whether the innermost frame is the kernel's or the program's.
fn cpu_mode(trace: &Trace, path: PathIx) -> u32 {
    match trace.frames_of(path).next() {
        Some(frame) if trace.frames.kind[frame.ix()] == FrameKind::Kernel => MODE_KERNEL,
        Some(_) => MODE_USER,
        None => MODE_UNKNOWN,
    }
}

/// What was sent already.
struct Table<'a> {
    trace: &'a Trace,
    /// Kind of row and number.
    sent: HashSet<(Row, u64)>,
    pending: InternedData,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Row {
    Mapping,
    Frame,
    Stack,
}

impl Table<'_> {
    /// The number of a path; none: no path is known.
    fn stack(&mut self, path: PathIx) -> Option<u64> {
        if !path.is_some() {
            return None;
        }
        let iid = u64::from(path.0) + 1;
        if self.sent.insert((Row::Stack, iid)) {
            let frames = samples::outermost_first(self.trace, path);
            let frame_ids = frames.iter().map(|&row| self.frame(row)).collect();
            self.pending.callstacks.push(Callstack { iid: Some(iid), frame_ids });
        }
        Some(iid)
    }

    /// The number of a frame; its name has the same.
    fn frame(&mut self, row: usize) -> u64 {
        let iid = row as u64 + 1;
        if self.sent.insert((Row::Frame, iid)) {
            let f = &self.trace.frames;
            let mapping_id = Some(self.mapping(f.module[row]));
            self.pending.function_names.push(Interned {
                iid: Some(iid),
                text: Some(samples::frame_name(self.trace, row)),
            });
            self.pending.frames.push(StackFrame {
                iid: Some(iid),
                function_name_id: Some(iid),
                mapping_id,
                rel_pc: Some(f.address[row]),
            });
        }
        iid
    }

    /// The number of a module; its path has the same.
    fn mapping(&mut self, module: StrIx) -> u64 {
        let text = self.trace.strings.get(module);
        let iid = match text {
            "" => NO_MODULE,
            _ => u64::from(module.0) + NO_MODULE + 1,
        };
        if self.sent.insert((Row::Mapping, iid)) {
            let path = if text.is_empty() { "[unknown]" } else { text };
            self.pending.mapping_paths.push(Interned { iid: Some(iid), text: Some(path.into()) });
            self.pending.mappings.push(Mapping { iid: Some(iid), path_string_ids: vec![iid] });
        }
        iid
    }
}
