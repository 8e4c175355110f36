//! What a reader of one format gives: streams of events on the file's own clock, and what is known besides.
use crate::Kind;
use kasuri_format::Error as FormatError;
use kasuri_model::input::{Annotation, AnnotationEvents, CpuEvents, Event, Setup};
use kasuri_model::{Error, Info, Loss, Places, Strings, ThreadIx, Time, Trace};
use std::cell::Cell;
use std::rc::Rc;

/// What a file's stamps count; two files of one clock need no alignment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clock {
    /// CLOCK_MONOTONIC.
    Monotonic,
    /// CLOCK_MONOTONIC_RAW.
    MonotonicRaw,
    /// CLOCK_BOOTTIME.
    Boottime,
    /// ns since 1970.
    Realtime,
    /// The kernel's scheduler clock: ftrace's "local" and "global", perf's default. Near CLOCK_MONOTONIC, not equal.
    Sched,
    /// Another, or not known.
    Other,
}

/// A trace, opened.
pub struct Opened<'a> {
    /// What it is.
    pub kind: Kind,
    /// What the stamps count.
    pub clock: Clock,
    /// ns since 1970 where the clock is 0, when the file says it.
    pub realtime_offset_ns: Option<i64>,
    /// Where the columns' `Time(0)` is. None: at the start of the span, and all times are absolute, in ns of `clock`. Else
    /// all times count from here already: the reader knew it before it read.
    pub origin_ns: Option<i64>,
    /// What the passes must know; `span` from the first stamp to the last.
    pub setup: Setup,
    /// CPUs' events.
    pub cpus: Vec<(u16, Box<dyn CpuEvents + 'a>)>,
    /// Slices, instants, counters.
    pub streams: Vec<Box<dyn AnnotationEvents + 'a>>,
    /// Facts; [`Info::format`] is filled from `kind` when empty.
    pub info: Info,
    /// Where names were annotated.
    pub places: Places,
    /// Damage that was passed over ([`crate::Options::salvage`]); each becomes a loss.
    pub damage: Vec<FormatError>,
    /// Adds what is only known when all events were read: losses, damage. Times are shifted by then.
    pub finish: Box<dyn FnOnce(&mut Trace) + 'a>,
}

impl<'a> Opened<'a> {
    /// With nothing in it.
    pub fn new(kind: Kind, clock: Clock) -> Opened<'a> {
        Opened {
            kind,
            clock,
            realtime_offset_ns: None,
            origin_ns: None,
            setup: Setup::default(),
            cpus: Vec::new(),
            streams: Vec::new(),
            info: Info::default(),
            places: Places::default(),
            damage: Vec::new(),
            finish: Box::new(|_| ()),
        }
    }

    /// The columns.
    ///
    /// # Errors
    /// Damage met while events are read.
    pub fn build(self, strings: Strings) -> Result<Trace, Error> {
        let shift = match self.origin_ns {
            Some(_) => 0,
            None => self.setup.span.start.0,
        };
        let mut setup = self.setup;
        setup.span = back(setup.span.start, shift)..back(setup.span.end, shift);
        for known in &mut setup.known {
            known.time = back(known.time, shift);
        }
        let n_annotations = Rc::new(Cell::new(0));
        let cpus = self.cpus.into_iter();
        let cpus = cpus
            .map(|(n, source)| (n, Shifted { source, shift }))
            .collect();
        let streams = self.streams.into_iter();
        let streams = streams
            .map(|source| Counted {
                shifted: Shifted { source, shift },
                n: n_annotations.clone(),
                begun: false,
                again: false,
            })
            .collect();
        let mut trace = kasuri_model::build(setup, strings, cpus, streams)?;
        let origin = self.origin_ns.unwrap_or(shift);
        trace.origin_monotonic_ns = origin;
        trace.origin_realtime_ns = self
            .realtime_offset_ns
            .map_or(0, |offset| offset.saturating_add(origin));
        trace.info = self.info;
        if trace.info.format.is_empty() {
            self.kind.name().clone_into(&mut trace.info.format);
        }
        trace.info.missing.extend(trace.hidden_switches());
        trace.places = self.places;
        trace.n_annotation_events = n_annotations.get();
        (self.finish)(&mut trace);
        for error in self.damage {
            trace.losses.push(file_damage(&trace, &error));
        }
        Ok(trace)
    }
}

/// What is missing of a damaged file shows in every answer, like every other loss.
fn file_damage(trace: &Trace, error: &FormatError) -> Loss {
    Loss {
        cause: format!("file damaged at byte {}", error.offset),
        cpu: None,
        thread: ThreadIx::NONE,
        when: trace.span.clone(),
        count: 0,
        remedy: String::new(),
    }
}

fn back(time: Time, shift: i64) -> Time {
    match time {
        Time::MIN | Time::MAX => time,
        Time(ns) => Time(ns.saturating_sub(shift)),
    }
}

/// Events with their stamps counted from `shift`, ns.
struct Shifted<S> {
    source: S,
    shift: i64,
}

impl CpuEvents for Shifted<Box<dyn CpuEvents + '_>> {
    fn fill(&mut self, strings: &mut Strings, out: &mut Vec<Event>) -> Result<(), Error> {
        let first = out.len();
        self.source.fill(strings, out)?;
        if self.shift != 0 {
            for event in &mut out[first..] {
                event.time = back(event.time, self.shift);
            }
        }
        Ok(())
    }
}

/// Annotations likewise; counts them. The passes may read a stream twice: only the first time counts.
struct Counted<'a> {
    shifted: Shifted<Box<dyn AnnotationEvents + 'a>>,
    n: Rc<Cell<u64>>,
    begun: bool,
    again: bool,
}

impl AnnotationEvents for Counted<'_> {
    fn pid(&self) -> i32 {
        self.shifted.source.pid()
    }

    fn tid(&self) -> i32 {
        self.shifted.source.tid()
    }

    fn generation(&self) -> u32 {
        self.shifted.source.generation()
    }

    fn fill(&mut self, strings: &mut Strings, out: &mut Vec<Annotation>) -> Result<(), Error> {
        let first = out.len();
        self.shifted.source.fill(strings, out)?;
        if self.shifted.shift != 0 {
            for event in &mut out[first..] {
                event.time = back(event.time, self.shifted.shift);
            }
        }
        self.begun = true;
        if !self.again {
            self.n.set(self.n.get() + (out.len() - first) as u64);
        }
        Ok(())
    }

    fn first_time(&self) -> Option<Time> {
        let time = self.shifted.source.first_time()?;
        Some(back(time, self.shifted.shift))
    }

    fn rewind(&mut self) {
        // The passes begin with a rewind.
        self.again |= self.begun;
        self.shifted.source.rewind();
    }
}
