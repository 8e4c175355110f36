//! A recording from vectors: for tests, and for importers that have decoded everything already.
use crate::input::{AnnotationVec, CpuVec, Event, Setup};
use crate::{Error, Strings, Trace};

/// A whole recording as vectors.
#[derive(Clone, Debug, Default)]
pub struct Input {
    /// Facts other than the events.
    pub setup: Setup,
    /// Names that the events refer to.
    pub strings: Strings,
    /// `cpus[n]`: the events of CPU n.
    pub cpus: Vec<Vec<Event>>,
    /// Annotation streams.
    pub streams: Vec<AnnotationVec>,
}

impl Input {
    /// The columns.
    ///
    /// # Errors
    /// [`Error::TooMany`] only.
    pub fn build(self) -> Result<Trace, Error> {
        let cpus = self
            .cpus
            .into_iter()
            .enumerate()
            .map(|(n, events)| (n as u16, CpuVec { events }))
            .collect();
        crate::build::build(self.setup, self.strings, cpus, self.streams)
    }
}
