//! The sources, metadata and summary of a recording: the parts that an ordinary recording and the flight recorder
//! share.
use crate::kernel::source::Source;
use crate::notice::{LeftInRings, Summary};
use crate::options::Options;
use crate::program::limits::Limits;
use crate::rings::collector::Collector;
use crate::rings::session::Session;
use crate::stacks::Sampler;
use kasuri_format::meta::{LimitRow, Meta};
use kasuri_format::ring::LOST_CAUSES;

/// The sources of a recording that is being made.
#[derive(Debug)]
pub(crate) struct Live<'a> {
    pub(crate) options: &'a Options,
    /// The shared memory through which programs hand over annotations.
    pub(crate) session: Session,
    /// Copies annotations out of the session.
    pub(crate) collector: Collector,
    /// Kernel events.
    pub(crate) source: Source,
    /// Samples of call paths.
    pub(crate) stacks: Option<Sampler>,
    /// Bytes of them written so far.
    pub(crate) stack_bytes: u64,
    /// CPU limits of the program.
    pub(crate) limits: Limits,
    pub(crate) meta: Meta,
    pub(crate) summary: Summary,
}

impl Live<'_> {
    /// Bytes recorded so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.source.bytes() + self.collector.bytes() + self.stack_bytes
    }

    /// Each file of events, and the bytes in it.
    pub(crate) fn written(&self) -> Vec<(String, u64)> {
        let mut files = self.source.written();
        files.extend(self.collector.written());
        files
    }

    /// CPU limits that are new or changed; with `all`, every counter is read once more.
    pub(crate) fn read_limits(&mut self, all: bool) -> Vec<LimitRow> {
        self.limits.look(&self.meta.root_pids, all)
    }

    /// Annotations lost for want of room: by clients that have no ring of their own, or whose ring this recorder had
    /// no room for.
    pub(crate) fn unplaced(&self) -> [u64; LOST_CAUSES] {
        self.collector.unplaced(self.session.lost())
    }

    /// Notes that the rings hold annotations that no file took: the session has to stay for `kasuri recover`.
    pub(crate) fn leave_rings(&mut self) {
        self.summary.left = Some(LeftInRings {
            session: self.session.path().to_owned(),
            bytes: self.collector.waiting(),
        });
    }

    /// Processes whose threads are read from /proc: those that were started or attached to, and those that annotate.
    pub(crate) fn pids(&self) -> Vec<i32> {
        let annotating = self.collector.pids().map(|pid| pid as i32);
        self.meta.root_pids.iter().copied().chain(annotating).collect()
    }
}
