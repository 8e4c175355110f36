//! The result of a reader: streams of events on the file's own clock, and facts about the trace.
//!
//! [`Opened`] separates the formats from the model. A reader fills its fields; [`Opened::build`] hands the streams to
//! the passes, shifts all times so that the columns begin at `Time(0)`, and adds facts, losses and damage to the
//! finished trace. Streams are boxed and lazy: most readers decode a block only when the passes ask for it.
use crate::Kind;
use crate::ahead::{CpuAhead, Pool};
use kasuri_format::Error as FormatError;
use kasuri_model::input::{Annotation, AnnotationEvents, CpuEvents, Event, Setup};
use kasuri_model::{Error, Info, Loss, Places, Strings, ThreadIx, Time, Trace};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// The clock of a file's stamps. Two files of the same clock need no alignment when they are merged.
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
    /// Another clock, or an unknown one.
    Other,
}

/// One CPU's events.
pub enum Source<'a> {
    /// It shares something with others, and is read where they are.
    Here(Box<dyn CpuEvents + 'a>),
    /// It may be read on another thread: it numbers all its names while it fills, and what it shares with others does not
    /// depend on which of them fills first.
    Apart(Box<dyn CpuEvents + Send + 'a>),
}

impl CpuEvents for Source<'_> {
    fn fill(&mut self, strings: &mut Strings, out: &mut Vec<Event>) -> Result<(), Error> {
        match self {
            Source::Here(source) => source.fill(strings, out),
            Source::Apart(source) => source.fill(strings, out),
        }
    }
}

/// An opened trace.
pub struct Opened<'a> {
    /// Its format.
    pub kind: Kind,
    /// The clock of its stamps.
    pub clock: Clock,
    /// CLOCK_REALTIME at the clock's zero, ns since 1970; none: the file does not say.
    pub realtime_offset_ns: Option<i64>,
    /// The clock's reading at the columns' `Time(0)`. With it, all times already count from there, because the reader
    /// knew it before it decoded events. Without it, all times are readings of `clock` in ns, and [`Opened::build`]
    /// subtracts the start of the span.
    pub origin_ns: Option<i64>,
    /// Facts that the passes need before the first event; `span` reaches from the first stamp to the last.
    pub setup: Setup,
    /// The kernel's events of each CPU, in order of time.
    pub cpus: Vec<(u16, Source<'a>)>,
    /// Slices, instants, counters: one stream per thread.
    pub streams: Vec<Box<dyn AnnotationEvents + 'a>>,
    /// Facts for people; an empty [`Info::format`] is filled from `kind`.
    pub info: Info,
    /// The places in the source that annotations' names come from.
    pub places: Places,
    /// Damage in the headers that was passed over ([`crate::Options::salvage`]); each becomes a loss.
    pub damage: Vec<FormatError>,
    /// Runs on the finished trace and adds facts that are known only after all events were read: losses, damage,
    /// names, arrows. The trace's times are shifted by then; those that the closure holds are not.
    pub finish: Box<dyn FnOnce(&mut Trace) + 'a>,
    /// Threads that decode ahead; none: there are none.
    pub(crate) pool: Option<Arc<Pool<'a>>>,
}

impl<'a> Opened<'a> {
    /// An empty trace.
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
            pool: None,
        }
    }

    /// Reads all events and builds the columns.
    ///
    /// # Errors
    /// Damage found while events are read.
    pub fn build(mut self, strings: Strings) -> Result<Trace, Error> {
        match self.pool.take() {
            None => self.build_here(strings),
            Some(pool) => pool.clone().during(move || {
                self.read_ahead(&pool);
                self.build_here(strings)
            }),
        }
    }

    /// Has the CPUs' events decoded ahead.
    fn read_ahead(&mut self, pool: &Arc<Pool<'a>>) {
        let n = self.cpus.len();
        let cpus = std::mem::take(&mut self.cpus).into_iter();
        let cpus = cpus.map(|(cpu, source)| match source {
            Source::Apart(source) => {
                let ahead = CpuAhead::new(pool, source, n);
                ahead.begin();
                (cpu, Source::Here(Box::new(ahead) as _))
            }
            here => (cpu, here),
        });
        self.cpus = cpus.collect();
    }

    fn build_here(self, strings: Strings) -> Result<Trace, Error> {
        let shift = match self.origin_ns {
            Some(_) => 0,
            None => self.setup.span.start.0,
        };
        let mut setup = self.setup;
        // Kasuri's recorder takes switches with whatever else it takes from the kernel; others do as they are told.
        setup.may_lack_switches = self.kind != Kind::Kasuri;
        setup.span = back(setup.span.start, shift)..back(setup.span.end, shift);
        for known in &mut setup.known {
            known.time = back(known.time, shift);
        }
        for (_, until) in &mut setup.stops {
            *until = back(*until, shift);
        }
        let n_annotations = Rc::new(Cell::new(0));
        let cpus = self.cpus.into_iter();
        let cpus = cpus.map(|(n, source)| (n, Shifted { source, shift })).collect();
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
        trace.origin_realtime_ns =
            self.realtime_offset_ns.map_or(0, |offset| offset.saturating_add(origin));
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

/// Damage as a loss of the whole span, so that it shows in every answer like all other losses.
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

/// `time` counted from `shift`. The two extremes mean "before" and "after the trace", and stay.
fn back(time: Time, shift: i64) -> Time {
    match time {
        Time::MIN | Time::MAX => time,
        Time(ns) => Time(ns.saturating_sub(shift)),
    }
}

/// A source whose times are shifted to count from `shift`, in ns.
struct Shifted<S> {
    source: S,
    shift: i64,
}

impl CpuEvents for Shifted<Source<'_>> {
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

/// Annotations, shifted likewise and counted in `n`. The passes may read a stream twice; only the first time counts.
struct Counted<'a> {
    shifted: Shifted<Box<dyn AnnotationEvents + 'a>>,
    n: Rc<Cell<u64>>,
    /// The stream was read from since it was made.
    begun: bool,
    /// The stream was rewound after it was read.
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
        // The passes rewind before they read for the first time, which must not count as reading again.
        self.again |= self.begun;
        self.shifted.source.rewind();
    }
}
