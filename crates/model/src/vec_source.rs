//! Streams from vectors: for tests, and for importers that have decoded everything already.
use crate::input::{Annotation, AnnotationEvents, CpuEvents, Event, Setup, What};
use crate::{Error, StrIx, Strings, ThreadState, Time, Trace};

impl Event {
    /// A switch that the thread which left reports; both have the same name.
    pub fn switch(ns: i64, prev: i32, left_as: ThreadState, next: i32, comm: StrIx) -> Event {
        let what = What::Switch {
            prev,
            prev_comm: comm,
            left_as,
            next,
            next_comm: comm,
        };
        Event {
            time: Time(ns),
            context: prev,
            in_interrupt: false,
            what,
        }
    }

    /// `context` wakes `tid`, which is in the queue of CPU 0.
    pub fn waking(ns: i64, context: i32, tid: i32, comm: StrIx) -> Event {
        let cpu = 0;
        Event {
            time: Time(ns),
            context,
            in_interrupt: false,
            what: What::Waking { tid, comm, cpu },
        }
    }
}

/// One CPU's events from a vector.
#[derive(Clone, Debug, Default)]
pub struct CpuVec {
    /// In recorded order.
    pub events: Vec<Event>,
}

impl CpuEvents for CpuVec {
    fn fill(&mut self, _strings: &mut Strings, out: &mut Vec<Event>) -> Result<(), Error> {
        out.append(&mut self.events);
        Ok(())
    }
}

/// One annotation stream from a vector.
#[derive(Clone, Debug, Default)]
pub struct AnnotationVec {
    /// Process id.
    pub pid: i32,
    /// Thread id.
    pub tid: i32,
    /// In order of their stamps.
    pub events: Vec<Annotation>,
    /// The next one.
    pub at: usize,
}

impl AnnotationEvents for AnnotationVec {
    fn pid(&self) -> i32 {
        self.pid
    }

    fn tid(&self) -> i32 {
        self.tid
    }

    fn fill(&mut self, _strings: &mut Strings, out: &mut Vec<Annotation>) -> Result<(), Error> {
        out.extend_from_slice(&self.events[self.at..]);
        self.at = self.events.len();
        Ok(())
    }

    fn first_time(&self) -> Option<Time> {
        self.events.first().map(|e| e.time)
    }

    fn rewind(&mut self) {
        self.at = 0;
    }
}

/// A whole recording as vectors.
#[derive(Clone, Debug, Default)]
pub struct Input {
    /// What is known besides the events.
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
