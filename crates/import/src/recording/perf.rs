//! Turns the perf records of one CPU's ring into events.
//!
//! Without privileges the recorder cannot read tracefs, so it asks perf_event_open(2) for the switches of its own
//! program. Such a recording has arrivals on a CPU, departures from it, forks, exits and names, but no wake-ups and no
//! other programs. Stamps are CLOCK_MONOTONIC. A record of a departure distinguishes only preemption and sleep.
use super::kernel::{GapCause, MetGap};
use crate::ahead::lock;
use crate::error::source;
use kasuri_format::container::Recording;
use kasuri_format::perf::{Record, RecordKind};
use kasuri_model::input::{CpuEvents, Event, What};
use kasuri_model::{Error, StrIx, Strings, ThreadState, Time};
use std::sync::{Arc, Mutex};

/// One CPU's events.
pub(super) struct PerfCpu<'r> {
    recording: Arc<Recording<'r>>,
    gaps: Arc<Mutex<Vec<MetGap>>>,
    cpu: u16,
    origin_ns: i64,
    /// Indices of the blocks that were not read yet, the last one first.
    blocks: Vec<usize>,
    /// The highest time so far, at which a gap begins.
    last: Time,
}

impl<'r> PerfCpu<'r> {
    /// `blocks`: indices of the CPU's blocks, in order. `start`: where a gap before the first record begins.
    pub fn new(
        recording: Arc<Recording<'r>>,
        gaps: Arc<Mutex<Vec<MetGap>>>,
        cpu: u16,
        blocks: &[usize],
        origin_ns: i64,
        start: Time,
    ) -> PerfCpu<'r> {
        PerfCpu {
            recording,
            gaps,
            cpu,
            origin_ns,
            blocks: blocks.iter().rev().copied().collect(),
            last: start,
        }
    }

    /// The event of a record. A record of lost events becomes a gap from the last event to its own stamp.
    fn event(&mut self, record: &Record, strings: &mut Strings) -> Event {
        let mut time =
            Time(i64::try_from(record.time_ns).unwrap_or(i64::MAX).saturating_sub(self.origin_ns));
        let tid = record.tid;
        let what = match &record.kind {
            RecordKind::SwitchIn { .. } => What::In { tid },
            RecordKind::SwitchOut { preempted: true, .. } => {
                What::Out { tid, left_as: ThreadState::RunnablePreempted }
            }
            // The record does not say how the thread sleeps.
            RecordKind::SwitchOut { .. } => What::Out { tid, left_as: ThreadState::Sleeping },
            // perf has both processes, so it is known whether the new task is a thread.
            RecordKind::Fork { ppid, ptid } => What::Fork {
                parent: *ptid,
                child: tid,
                comm: StrIx::NONE,
                pid: Some(record.pid),
                same_process: Some(record.pid == *ppid),
            },
            // No departure follows: the counter of a thread ends before its last switch.
            RecordKind::Exit { .. } => What::Exit { tid, at_once: true },
            RecordKind::Comm { comm, .. } => What::Rename { tid, comm: strings.intern(comm) },
            RecordKind::Lost { count } => {
                let gap = MetGap {
                    cpu: self.cpu,
                    from: self.last,
                    to: time.max(self.last),
                    count: Some(*count),
                    cause: GapCause::Overrun,
                };
                lock(&self.gaps).push(gap);
                time = self.last;
                What::Lost
            }
        };
        self.last = self.last.max(time);
        Event { time, context: -1, in_interrupt: false, what }
    }
}

impl CpuEvents for PerfCpu<'_> {
    fn fill(&mut self, strings: &mut Strings, out: &mut Vec<Event>) -> Result<(), Error> {
        while out.is_empty() {
            let Some(ix) = self.blocks.pop() else {
                break;
            };
            let records = self.recording.perf_block(ix).map_err(source)?.records;
            for record in &records {
                let event = self.event(record, strings);
                let exec = matches!(record.kind, RecordKind::Comm { exec: true, .. });
                out.push(event);
                if exec {
                    let what = What::Exec { tid: record.tid, old_tid: record.tid };
                    out.push(Event { what, ..event });
                }
            }
        }
        Ok(())
    }
}
