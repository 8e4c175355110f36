//! perf records of one CPU's ring as events: what an unprivileged recording knows of the scheduler.
use super::kernel::MetGap;
use crate::input::{CpuEvents, Event, What};
use crate::{Error, Strings, ThreadState, Time};
use kasuri_format::container::Recording;
use kasuri_format::perf::{Record, RecordKind};
use std::cell::RefCell;
use std::rc::Rc;

/// One CPU's events.
pub(super) struct PerfCpu<'r> {
    recording: &'r Recording<'r>,
    gaps: Rc<RefCell<Vec<MetGap>>>,
    cpu: u16,
    origin_ns: i64,
    /// Blocks not read yet, last first.
    blocks: Vec<usize>,
    records: Vec<Record>,
    next: usize,
    last: Time,
    head: Option<Event>,
}

impl<'r> PerfCpu<'r> {
    /// `blocks`: in order. `start`: what a gap before the first record begins with.
    pub fn new(
        recording: &'r Recording<'r>,
        gaps: Rc<RefCell<Vec<MetGap>>>,
        cpu: u16,
        blocks: &[usize],
        origin_ns: i64,
        start: Time,
        strings: &mut Strings,
    ) -> Result<PerfCpu<'r>, Error> {
        let blocks = blocks.iter().rev().copied().collect();
        let mut out = PerfCpu {
            recording,
            gaps,
            cpu,
            origin_ns,
            blocks,
            records: Vec::new(),
            next: 0,
            last: start,
            head: None,
        };
        out.advance(strings)?;
        Ok(out)
    }

    fn event(&mut self, record: &Record) -> Event {
        let mut time = Time(
            i64::try_from(record.time_ns)
                .unwrap_or(i64::MAX)
                .saturating_sub(self.origin_ns),
        );
        let tid = record.tid;
        let what = match &record.kind {
            RecordKind::SwitchIn { .. } => What::In { tid },
            RecordKind::SwitchOut {
                preempted: true, ..
            } => What::Out {
                tid,
                left_as: ThreadState::RunnablePreempted,
            },
            // The record does not say how it sleeps.
            RecordKind::SwitchOut { .. } => What::Out {
                tid,
                left_as: ThreadState::Sleeping,
            },
            RecordKind::Fork { ppid, ptid } => What::Fork {
                parent: *ptid,
                child: tid,
                comm: [0; 16],
                pid: Some(record.pid),
                same_process: Some(record.pid == *ppid),
            },
            RecordKind::Exit { .. } => What::Exit { tid, at_once: true },
            RecordKind::Comm { comm, .. } => What::Rename {
                tid,
                comm: crate::input::comm(comm),
            },
            RecordKind::Lost { count } => {
                let gap = MetGap {
                    cpu: self.cpu,
                    from: self.last,
                    to: time.max(self.last),
                    count: Some(*count),
                    damaged: false,
                };
                self.gaps.borrow_mut().push(gap);
                time = self.last;
                What::Lost
            }
        };
        self.last = self.last.max(time);
        Event {
            time,
            context: -1,
            in_interrupt: false,
            what,
        }
    }
}

impl CpuEvents for PerfCpu<'_> {
    fn head(&self) -> Option<&Event> {
        self.head.as_ref()
    }

    fn advance(&mut self, _strings: &mut Strings) -> Result<(), Error> {
        while self.next >= self.records.len() {
            let Some(ix) = self.blocks.pop() else {
                self.head = None;
                return Ok(());
            };
            self.records = self.recording.perf_block(ix)?.records;
            self.next = 0;
        }
        let record = self.records[self.next].clone();
        self.next += 1;
        self.head = Some(self.event(&record));
        Ok(())
    }
}
