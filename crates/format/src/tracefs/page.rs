//! Ring-buffer pages as read or spliced from `trace_pipe_raw`.
//!
//! A page: u64 stamp of its first instant, `commit` (a `long`: bytes of events, with flags above), events.
//! An event: a 32-bit word of 5 bits `type_len` and 27 bits `delta` (bit-fields, so the order follows the
//! machine's), then by `type_len`:
//! 1..=28 data of 4 x `type_len` bytes; 0 a length word (which counts itself), then data; 29 padding: the page
//! ends here when delta is 0, else skip as a length word says; 30 one more word: the delta's upper bits;
//! 31 one more word: an absolute stamp of 59 bits.
//!
//! Trap: `commit` is sign-extended by the kernel. A page after a loss reads 0xffffffff80000ff0, so the
//! length is masked, never compared whole.
use crate::bytes::uint;
use crate::meta::KernelMeta;
use crate::{Error, Result};

const MISSED_EVENTS: u64 = 1 << 31;
const MISSED_STORED: u64 = 1 << 30;
const COMMIT_MASK: u64 = (1 << 20) - 1;
/// Bits of a stamp that an absolute time stamp (59 bits) cannot hold.
const STAMP_TOP: u64 = 0xf8 << 56;

/// Layout of the pages of one recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageLayout {
    /// Bytes of a page: a power of two, 4 KiB..1 MiB.
    pub page_bytes: usize,
    /// Offset of `commit`.
    pub commit_offset: usize,
    /// Bytes of `commit`: those of the kernel's `long`.
    pub commit_bytes: usize,
    /// Offset of the first event.
    pub data_offset: usize,
    /// The machine stores numbers big-endian.
    pub big_endian: bool,
}

impl PageLayout {
    /// The layout of 64-bit kernels, for 4 KiB pages.
    pub const LE64: PageLayout = PageLayout {
        page_bytes: 4096,
        commit_offset: 8,
        commit_bytes: 8,
        data_offset: 16,
        big_endian: false,
    };

    /// From `page_bytes` and the text of `events/header_page`; without that text, that of 64-bit kernels.
    ///
    /// # Errors
    /// When the text is not understood or the page size is none.
    pub fn from_meta(kernel: &KernelMeta) -> Result<PageLayout> {
        let mut layout = PageLayout::LE64;
        layout.big_endian = kernel.big_endian;
        if kernel.page_bytes != 0 {
            layout.page_bytes = kernel.page_bytes as usize;
        }
        for line in kernel.header_page.lines() {
            if let Some((name, offset, size)) = header_field(line) {
                match name {
                    "commit" => (layout.commit_offset, layout.commit_bytes) = (offset, size),
                    "data" => layout.data_offset = offset,
                    _ => {}
                }
            }
        }
        layout.check()?;
        Ok(layout)
    }

    fn check(&self) -> Result<()> {
        let bad = |found: String, needed: &'static str| {
            Err(Error::damaged("page layout", 0, found, needed))
        };
        if !self.page_bytes.is_power_of_two() || !(4096..=1 << 20).contains(&self.page_bytes) {
            return bad(
                format!("page_bytes = {}", self.page_bytes),
                "a power of two from 4096 to 1048576",
            );
        }
        if !matches!(self.commit_bytes, 4 | 8) || self.commit_offset < 8 {
            return bad(
                format!("commit at {}, {} bytes", self.commit_offset, self.commit_bytes),
                "4 or 8 bytes after the stamp",
            );
        }
        if self.data_offset < self.commit_offset + self.commit_bytes || self.data_offset > 64 {
            return bad(format!("data at {}", self.data_offset), "after commit, at most at 64");
        }
        Ok(())
    }
}

/// `field: local_t commit; offset:8; size:8; signed:1;`
fn header_field(line: &str) -> Option<(&str, usize, usize)> {
    let mut parts = line.trim().strip_prefix("field:")?.split(';').map(str::trim);
    let name = parts.next()?.rsplit(' ').next()?;
    let (mut offset, mut size) = (None, None);
    for part in parts {
        match part.split_once(':') {
            Some(("offset", value)) => offset = value.parse().ok(),
            Some(("size", value)) => size = value.parse().ok(),
            _ => {}
        }
    }
    Some((name, offset.filter(|&o| o < 4096)?, size.filter(|&s| s <= 1 << 20)?))
}

/// Count of events lost before a page, as the page gives it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Missed {
    /// None.
    #[default]
    None,
    /// Some; a full page has no room for the number.
    Some,
    /// So many.
    Count(u64),
}

/// One page.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    /// Stamp at its start, on the recording's kernel clock.
    pub stamp: u64,
    /// Events lost before it.
    pub missed: Missed,
    /// Its events.
    data: &'a [u8],
    /// Offset of `data` in the file.
    data_at: u64,
    big_endian: bool,
}

impl<'a> Page<'a> {
    /// Reads the page at the start of `bytes`, which begin `offset` bytes into the file.
    ///
    /// # Errors
    /// When `bytes` is shorter than a page, or its length of events is beyond its end.
    pub fn parse(bytes: &'a [u8], layout: &PageLayout, offset: u64) -> Result<Page<'a>> {
        let what = "ring-buffer page";
        let Some(page) = bytes.get(..layout.page_bytes) else {
            return Err(Error::truncated(
                what,
                offset,
                bytes.len() as u64,
                layout.page_bytes as u64,
            ));
        };
        let commit_end = layout.commit_offset + layout.commit_bytes;
        let (Some(commit), Some(data), Some(stamp)) = (
            page.get(layout.commit_offset..commit_end),
            page.get(layout.data_offset..),
            page.first_chunk::<8>(),
        ) else {
            return Err(Error::truncated(
                what,
                offset,
                page.len() as u64,
                layout.data_offset as u64,
            ));
        };
        let commit = uint(commit, layout.big_endian);
        let length = (commit & COMMIT_MASK) as usize;
        let Some(events) = data.get(..length) else {
            return Err(Error::damaged(
                what,
                offset + layout.commit_offset as u64,
                format!("{length} bytes of events"),
                format!("at most {}", data.len()),
            ));
        };
        let missed = if commit & MISSED_EVENTS == 0 {
            Missed::None
        } else {
            match data.get(length..length + layout.commit_bytes) {
                Some(count) if commit & MISSED_STORED != 0 => {
                    Missed::Count(uint(count, layout.big_endian))
                }
                _ => Missed::Some,
            }
        };
        Ok(Page {
            stamp: uint(stamp, layout.big_endian),
            missed,
            data: events,
            data_at: offset + layout.data_offset as u64,
            big_endian: layout.big_endian,
        })
    }

    /// Bytes of its events, their headers among them.
    pub fn event_bytes(&self) -> usize {
        self.data.len()
    }

    /// The page's events; an error ends it.
    pub fn events(&self) -> PageEvents<'a> {
        PageEvents {
            data: self.data,
            at: 0,
            data_at: self.data_at,
            stamp: self.stamp,
            big_endian: self.big_endian,
        }
    }

    /// The events from a place on that [`PageEvents::place`] of this page gave.
    pub fn events_from(&self, place: Place) -> PageEvents<'a> {
        PageEvents { at: place.at, stamp: place.stamp, ..self.events() }
    }
}

/// How far the events of a page were read, for a reader that goes on with the page later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    at: usize,
    stamp: u64,
}

/// One event of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawEvent<'a> {
    /// On the recording's kernel clock.
    pub stamp: u64,
    /// Its bytes as the format file describes them.
    pub data: &'a [u8],
    /// Offset of `data`, bytes from the start of the file.
    pub offset: u64,
}

impl RawEvent<'_> {
    /// The event id: the first field.
    pub fn id(&self, big_endian: bool) -> Option<u16> {
        Some(uint(self.data.get(..2)?, big_endian) as u16)
    }
}

/// Iterator over the events of a page.
#[derive(Clone, Debug)]
pub struct PageEvents<'a> {
    data: &'a [u8],
    at: usize,
    data_at: u64,
    stamp: u64,
    big_endian: bool,
}

impl<'a> PageEvents<'a> {
    /// Where the next event is looked for.
    #[inline]
    pub fn place(&self) -> Place {
        Place { at: self.at, stamp: self.stamp }
    }

    #[inline]
    fn word(&self, at: usize) -> Option<u32> {
        let word = *self.data.get(at..)?.first_chunk::<4>()?;
        Some(if self.big_endian { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) })
    }

    /// Steps to the next data event: `None` at the end, `Err` with the place where sense ends.
    #[inline]
    fn step(&mut self) -> Option<std::result::Result<RawEvent<'a>, usize>> {
        while self.at < self.data.len() {
            let at = self.at;
            let Some(word) = self.word(at) else {
                return Some(Err(at));
            };
            let (type_len, delta) = if self.big_endian {
                (word >> 27, word & 0x07ff_ffff)
            } else {
                (word & 31, word >> 5)
            };
            let (from, length) = match type_len {
                1..=28 => (at + 4, type_len as usize * 4),
                29 if delta == 0 => {
                    self.at = self.data.len();
                    return None;
                }
                _ => {
                    let Some(next) = self.word(at + 4) else {
                        return Some(Err(at));
                    };
                    match type_len {
                        30 => {
                            self.stamp =
                                self.stamp.wrapping_add((u64::from(next) << 27) + u64::from(delta));
                            self.at = at + 8;
                            continue;
                        }
                        31 => {
                            self.stamp =
                                absolute((u64::from(next) << 27) + u64::from(delta), self.stamp);
                            self.at = at + 8;
                            continue;
                        }
                        // The length word counts itself and what follows. Padding: a discarded event.
                        // Its delta counts: the next one is relative to it.
                        29 => {
                            if next < 4 {
                                return Some(Err(at));
                            }
                            self.stamp = self.stamp.wrapping_add(u64::from(delta));
                            self.at = at.saturating_add(4).saturating_add(next as usize);
                            continue;
                        }
                        _ => {
                            if next < 4 {
                                return Some(Err(at));
                            }
                            (at + 8, next as usize - 4)
                        }
                    }
                }
            };
            let Some(data) = self.data.get(from..).and_then(|d| d.get(..length)) else {
                return Some(Err(at));
            };
            self.stamp = self.stamp.wrapping_add(u64::from(delta));
            // Records are aligned to 4; a length word need not be.
            self.at = (from + length).next_multiple_of(4);
            return Some(Ok(RawEvent {
                stamp: self.stamp,
                data,
                offset: self.data_at + from as u64,
            }));
        }
        None
    }
}

/// The kernel stores 59 bits; the top 5 are those of the clock so far, one more if that went backwards.
fn absolute(stamp: u64, clock: u64) -> u64 {
    let top = clock & STAMP_TOP;
    let full = stamp | top;
    if top != 0 && full < clock { full.wrapping_add(1 << 59) } else { full }
}

impl<'a> Iterator for PageEvents<'a> {
    type Item = Result<RawEvent<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Result<RawEvent<'a>>> {
        match self.step()? {
            Ok(event) => Some(Ok(event)),
            Err(at) => {
                let word = self.word(at).unwrap_or(0);
                self.at = self.data.len();
                Some(Err(Error::damaged(
                    "ring-buffer event",
                    self.data_at + at as u64,
                    format!("header {word:#010x} with {} bytes left", self.data.len() - at),
                    "an event that ends inside its page",
                )))
            }
        }
    }
}
