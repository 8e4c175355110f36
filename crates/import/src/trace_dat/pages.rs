//! Raw pages of one CPU as events.
use crate::kernel_events::RawEvents;
use kasuri_format::Error as FormatError;
use kasuri_format::trace_dat::{Buffer, Chunk, Chunks, TimeShift, TraceDat, TscToNs};
use kasuri_format::tracefs::{Missed, Page, PageLayout};
use kasuri_model::input::{CpuEvents, Event, What};
use kasuri_model::{Error, Strings, Time};
use std::cell::RefCell;
use std::rc::Rc;

/// As many events as stay in the nearest cache are handed over at once; pages are not split.
const BATCH: usize = 384;

/// How stamps of one CPU's pages become ns.
#[derive(Clone)]
pub(super) struct Stamps {
    shift: Option<TimeShift>,
    factors: Option<TscToNs>,
    offset_ns: i64,
    cpu: u32,
    /// Nothing to do.
    as_is: bool,
}

impl Stamps {
    pub fn new(dat: &TraceDat<'_>, buffer: &Buffer, cpu: u32) -> Stamps {
        // trace-cmd calls it tsc2nsec when it writes down the factors itself.
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

/// Events are missing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gap {
    pub cpu: u16,
    pub from: Time,
    pub to: Time,
    pub count: Option<u64>,
    pub damaged: bool,
}

/// What was met on the way, for the table of losses.
#[derive(Default, Debug)]
pub(super) struct Met {
    pub gaps: Vec<Gap>,
    pub errors: Vec<FormatError>,
}

const ERRORS_MAX: usize = 1000;

/// The pages of a chunk, each with its place in the file.
pub(super) fn pages<'c>(
    chunk: &'c Chunk<'_>,
    layout: &PageLayout,
) -> impl Iterator<Item = (u64, &'c [u8])> + use<'c> {
    let bytes = layout.page_bytes;
    let (offset, step) = (chunk.offset, if chunk.in_place { bytes } else { 0 });
    let pages = chunk.pages.chunks(bytes).enumerate();
    pages.map(move |(ix, page)| (offset + (ix * step) as u64, page))
}

/// One CPU's pages in one buffer.
pub(super) struct Pages<'a> {
    cpu: u16,
    chunks: Chunks<'a>,
    chunk: Option<Chunk<'a>>,
    /// The next page of the chunk.
    next: usize,
    layout: PageLayout,
    raw: RawEvents,
    stamps: Stamps,
    met: Rc<RefCell<Met>>,
    salvage: bool,
    last: Time,
    /// Set when a page was damaged: what follows begins with a gap.
    damaged: bool,
}

impl<'a> Pages<'a> {
    #[expect(
        clippy::too_many_arguments,
        reason = "each is needed, none belongs to another"
    )]
    pub fn new(
        cpu: u16,
        chunks: Chunks<'a>,
        layout: PageLayout,
        raw: RawEvents,
        stamps: Stamps,
        met: Rc<RefCell<Met>>,
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

    /// Notes damage, or gives it back as what ends the reading.
    fn fault(&mut self, error: FormatError) -> Result<(), Error> {
        if !self.salvage {
            return Err(crate::error::source(error));
        }
        self.damaged = true;
        let errors = &mut self.met.borrow_mut().errors;
        if errors.len() < ERRORS_MAX {
            errors.push(error);
        }
        Ok(())
    }

    fn lost(&mut self, to: Time, count: Option<u64>, damaged: bool, out: &mut Vec<Event>) {
        self.met.borrow_mut().gaps.push(Gap {
            cpu: self.cpu,
            from: self.last,
            to: to.max(self.last),
            count,
            damaged,
        });
        out.push(Event {
            time: self.last,
            context: -1,
            in_interrupt: false,
            what: What::Lost,
        });
    }

    /// Decodes the next page. False: there is none.
    fn page(&mut self, strings: &mut Strings, out: &mut Vec<Event>) -> Result<bool, Error> {
        // Taken out so that its pages can be read while the rest of this changes.
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

/// One CPU's events of several buffers, by stamp.
pub(super) struct Several<'a> {
    buffers: Vec<Ahead<'a>>,
}

struct Ahead<'a> {
    pages: Pages<'a>,
    events: Vec<Event>,
    at: usize,
}

impl<'a> Several<'a> {
    pub fn new(buffers: Vec<Pages<'a>>) -> Several<'a> {
        let ahead = |pages| Ahead {
            pages,
            events: Vec::new(),
            at: 0,
        };
        Several {
            buffers: buffers.into_iter().map(ahead).collect(),
        }
    }
}

impl CpuEvents for Several<'_> {
    fn fill(&mut self, strings: &mut Strings, out: &mut Vec<Event>) -> Result<(), Error> {
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
