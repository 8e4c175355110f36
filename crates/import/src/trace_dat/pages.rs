//! Decodes the ring-buffer pages of one CPU into events.
//!
//! A page of the kernel's ring buffer begins with a stamp and a length; each event in it has a delta to the previous
//! stamp. Two flags in the length say that events are missing before the page, and whether their number is stored at
//! its end. [`Page`] parses this; this module turns stamps into ns ([`Stamps`]), events into those of the passes
//! ([`RawEvents`]), and flags into losses ([`Met`]).
//!
//! Version 7 of the file may compress pages in chunks, so [`Pages`] goes from chunk to chunk and holds one of them.
//! [`Several`] merges the pages that one CPU has in several buffers.
use crate::ahead::lock;
use crate::raw_events::RawEvents;
use kasuri_format::Error as FormatError;
use kasuri_format::trace_dat::{Buffer, Chunk, Chunks, TimeShift, TraceDat, TscToNs};
use kasuri_format::tracefs::{Missed, Page, PageLayout};
use kasuri_model::input::{CpuEvents, Event, What};
use kasuri_model::{Error, Strings, Time};
use std::sync::{Arc, Mutex};

/// Events that one call of `fill` makes, at least: a page is not split. So many stay in the nearest cache.
const BATCH: usize = 384;

/// Converts stamps of one CPU's pages into ns.
///
/// There are three steps: a guest's stamps are shifted to its host's clock; ticks of the TSC are multiplied to ns; the
/// option `offset` is added.
#[derive(Clone)]
pub(super) struct Stamps {
    shift: Option<TimeShift>,
    factors: Option<TscToNs>,
    offset_ns: i64,
    cpu: u32,
    /// Stamps are ns already.
    as_is: bool,
}

impl Stamps {
    pub fn new(dat: &TraceDat<'_>, buffer: &Buffer, cpu: u32) -> Stamps {
        // trace-cmd names the clock tsc2nsec if it writes the factors into the file itself.
        let ticks = matches!(dat.clock(buffer), "x86-tsc" | "tsc2nsec");
        let options = &dat.options;
        let factors = options.tsc_to_ns.filter(|f| ticks && f.mult != 0);
        Stamps {
            as_is: options.time_shift.is_none() && factors.is_none() && options.offset_ns == 0,
            shift: options.time_shift.clone(),
            factors,
            offset_ns: options.offset_ns,
            cpu,
        }
    }

    /// A stamp on the trace's clock.
    #[inline]
    pub fn time(&self, stamp: u64) -> Time {
        if self.as_is {
            return Time(i64::try_from(stamp).unwrap_or(i64::MAX));
        }
        let mut ns = stamp;
        if let Some(shift) = &self.shift {
            ns = shift.apply(self.cpu, ns);
        }
        if let Some(factors) = &self.factors {
            ns = factors.ns(ns);
        }
        let ns = i64::try_from(ns).unwrap_or(i64::MAX);
        Time(ns.saturating_add(self.offset_ns))
    }
}

/// A gap: events are missing between two times. `count`: the kernel stored it on the page, where there was room.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gap {
    pub cpu: u16,
    pub from: Time,
    pub to: Time,
    pub count: Option<u64>,
    pub damaged: bool,
}

/// Gaps and damage found while pages were read, for the table of losses. All CPUs share it.
#[derive(Default, Debug)]
pub(super) struct Met {
    pub gaps: Vec<Gap>,
    pub errors: Vec<FormatError>,
}

/// Most errors that are kept: a file of noise has one per page.
const ERRORS_MAX: usize = 1000;

/// The pages of a chunk, each with its offset in the file. Pages of a compressed chunk all have the chunk's offset.
pub(super) fn pages<'c>(
    chunk: &'c Chunk<'_>,
    layout: &PageLayout,
) -> impl Iterator<Item = (u64, &'c [u8])> + use<'c> {
    let bytes = layout.page_bytes;
    let (offset, step) = (chunk.offset, if chunk.in_place { bytes } else { 0 });
    let pages = chunk.pages.chunks(bytes).enumerate();
    pages.map(move |(ix, page)| (offset + (ix * step) as u64, page))
}

/// The pages of one CPU in one buffer.
pub(super) struct Pages<'a> {
    cpu: u16,
    chunks: Chunks<'a>,
    chunk: Option<Chunk<'a>>,
    /// Index of the next page in the chunk.
    next: usize,
    layout: PageLayout,
    raw: RawEvents,
    stamps: Stamps,
    met: Arc<Mutex<Met>>,
    salvage: bool,
    /// The highest stamp so far, at which a gap begins.
    last: Time,
    /// A page was damaged: the next good one begins with a gap.
    damaged: bool,
}

impl<'a> Pages<'a> {
    #[expect(clippy::too_many_arguments, reason = "each is needed, none belongs to another")]
    pub fn new(
        cpu: u16,
        chunks: Chunks<'a>,
        layout: PageLayout,
        raw: RawEvents,
        stamps: Stamps,
        met: Arc<Mutex<Met>>,
        salvage: bool,
        start: Time,
    ) -> Pages<'a> {
        Pages {
            cpu,
            chunks,
            chunk: None,
            next: 0,
            layout,
            raw,
            stamps,
            met,
            salvage,
            last: start,
            damaged: false,
        }
    }

    /// Notes damage while the file is salvaged, or returns it as an error.
    fn fault(&mut self, error: FormatError) -> Result<(), Error> {
        if !self.salvage {
            return Err(crate::error::source(error));
        }
        self.damaged = true;
        let errors = &mut lock(&self.met).errors;
        if errors.len() < ERRORS_MAX {
            errors.push(error);
        }
        Ok(())
    }

    /// A gap from the last event to `to`. The event [`What::Lost`] makes the passes forget the state of the CPU.
    fn lost(&mut self, to: Time, count: Option<u64>, damaged: bool, out: &mut Vec<Event>) {
        lock(&self.met).gaps.push(Gap {
            cpu: self.cpu,
            from: self.last,
            to: to.max(self.last),
            count,
            damaged,
        });
        out.push(Event { time: self.last, context: -1, in_interrupt: false, what: What::Lost });
    }

    /// Decodes the next page, or goes to the next chunk. False: there is no more.
    fn page(&mut self, strings: &mut Strings, out: &mut Vec<Event>) -> Result<bool, Error> {
        // Taken out, so that its pages can be borrowed while `self` changes.
        let Some(chunk) = self.chunk.take() else {
            return match self.chunks.next() {
                None => Ok(false),
                Some(Ok(chunk)) => {
                    (self.chunk, self.next) = (Some(chunk), 0);
                    Ok(true)
                }
                Some(Err(error)) => {
                    self.fault(error)?;
                    Ok(true)
                }
            };
        };
        let at = self.next * self.layout.page_bytes;
        // The chunk is read: the next call takes another one.
        let Some(bytes) = chunk.pages.get(at..).filter(|b| !b.is_empty()) else {
            return Ok(true);
        };
        self.next += 1;
        let offset = chunk.offset + if chunk.in_place { at as u64 } else { 0 };
        let read = self.events(bytes, offset, strings, out);
        self.chunk = Some(chunk);
        if let Err(error) = read {
            self.fault(error)?;
        }
        Ok(true)
    }

    /// Decodes the events of one page. A gap becomes known with the stamp of the first event after it.
    #[inline]
    fn events(
        &mut self,
        bytes: &[u8],
        offset: u64,
        strings: &mut Strings,
        out: &mut Vec<Event>,
    ) -> Result<(), FormatError> {
        let page = Page::parse(bytes, &self.layout, offset)?;
        let big_endian = self.layout.big_endian;
        // The page before a damaged one ended well, so what the damage took lies before this page.
        let mut missed = match page.missed {
            Missed::None if self.damaged => Some((None, true)),
            Missed::None => None,
            Missed::Some => Some((None, false)),
            Missed::Count(n) => Some((Some(n), false)),
        };
        self.damaged = false;
        for event in page.events() {
            let event = event?;
            let time = self.stamps.time(event.stamp);
            if let Some((count, damaged)) = missed.take() {
                self.lost(time, count, damaged, out);
            }
            self.last = self.last.max(time);
            if let Some(id) = event.id(big_endian) {
                out.extend(self.raw.event(time, id, event.data, strings));
            }
        }
        Ok(())
    }
}

impl CpuEvents for Pages<'_> {
    fn fill(&mut self, strings: &mut Strings, out: &mut Vec<Event>) -> Result<(), Error> {
        let wanted = out.len() + BATCH;
        while out.len() < wanted && self.page(strings, out)? {}
        Ok(())
    }
}

/// One CPU's events of several buffers, merged by stamp. Buffers are few, so the oldest event is found by a linear
/// search.
pub(super) struct Several<'a> {
    buffers: Vec<Ahead<'a>>,
}

/// The pages of one buffer, with events decoded ahead; `at` is the index of the next one.
struct Ahead<'a> {
    pages: Pages<'a>,
    events: Vec<Event>,
    at: usize,
}

impl<'a> Several<'a> {
    pub fn new(buffers: Vec<Pages<'a>>) -> Several<'a> {
        let ahead = |pages| Ahead { pages, events: Vec::new(), at: 0 };
        Several { buffers: buffers.into_iter().map(ahead).collect() }
    }
}

impl CpuEvents for Several<'_> {
    fn fill(&mut self, strings: &mut Strings, out: &mut Vec<Event>) -> Result<(), Error> {
        // Each event is compared with one of each other buffer. Ties go to the first buffer.
        for _ in 0..BATCH {
            let mut first: Option<(Time, usize)> = None;
            for (ix, ahead) in self.buffers.iter_mut().enumerate() {
                if ahead.at == ahead.events.len() {
                    ahead.events.clear();
                    ahead.at = 0;
                    ahead.pages.fill(strings, &mut ahead.events)?;
                }
                if let Some(event) = ahead.events.get(ahead.at)
                    && first.is_none_or(|(time, _)| event.time < time)
                {
                    first = Some((event.time, ix));
                }
            }
            let Some((_, ix)) = first else { break };
            let ahead = &mut self.buffers[ix];
            out.push(ahead.events[ahead.at]);
            ahead.at += 1;
        }
        Ok(())
    }
}
