//! Scans all pages once, before the passes read the events.
//!
//! The passes need the time span first, the choice of buffers needs the number of events of each type, and the texts of
//! `trace_marker` belong to threads, not to CPUs. Hence this scan: it parses only the headers of events, except for
//! `ftrace/print`, whose text it copies.
use super::faults::{CPUS_MAX, Faults};
use super::pages::{Stamps, pages};
use crate::marks::Marks;
use kasuri_format::trace_dat::{Buffer, CpuData, TraceDat};
use kasuri_format::tracefs::{EventFormat, Page, PageLayout};
use kasuri_format::{Error as FormatError, Result as FormatResult};
use kasuri_model::{Strings, Time};
use std::collections::BTreeMap;

/// The result of the scan.
#[derive(Default)]
pub(super) struct Survey {
    /// First and last stamp.
    pub extent: Option<(Time, Time)>,
    /// Texts that programs wrote to `trace_marker`.
    pub marks: Marks,
    /// Number of events by id, of ids without a format file.
    pub unknown: BTreeMap<u16, u64>,
    /// Names of the instances that are left out because of their clock.
    pub other_clocks: Vec<String>,
    /// Number of events by buffer and id.
    counts: Vec<Vec<u64>>,
    /// Whether an id has a format file.
    known: Vec<bool>,
    print: Option<Print>,
}

/// Offsets of the thread and the text in ftrace/print.
#[derive(Clone, Copy)]
struct Print {
    id: u16,
    tid: usize,
    text: usize,
}

impl Print {
    /// None: the file has no such event type.
    fn of(formats: &[EventFormat]) -> Option<Print> {
        let format = formats.iter().find(|f| f.name == "ftrace/print")?;
        let at = |name: &str| format.find(name).map(|ix| format.fields[ix].offset as usize);
        Some(Print { id: format.id, tid: at("common_pid")?, text: at("buf")? })
    }

    /// The thread and the text of an event.
    fn read<'d>(&self, data: &'d [u8], big_endian: bool) -> Option<(i32, &'d [u8])> {
        let tid = *data.get(self.tid..)?.first_chunk::<4>()?;
        let tid = match big_endian {
            true => i32::from_be_bytes(tid),
            false => i32::from_le_bytes(tid),
        };
        Some((tid, data.get(self.text..)?))
    }
}

impl Survey {
    /// An empty survey of events with these formats.
    pub fn new(formats: &[EventFormat]) -> Survey {
        let n = formats.iter().map(|f| usize::from(f.id) + 1).max();
        let mut known = vec![false; n.unwrap_or(0)];
        for format in formats {
            known[usize::from(format.id)] = true;
        }
        Survey { known, print: Print::of(formats), ..Survey::default() }
    }

    /// Number of events of a type, in the buffer that has most of them.
    pub fn count(&self, id: u16) -> u64 {
        let of = |counts: &Vec<u64>| counts.get(usize::from(id)).copied().unwrap_or(0);
        self.counts.iter().map(of).max().unwrap_or(0)
    }

    /// Number of events in the file, without those of buffers that are left out.
    pub fn n_events(&self) -> u64 {
        self.counts.iter().flatten().sum::<u64>() + self.unknown.values().sum::<u64>()
    }

    /// The types whose events are taken from buffer `ix`, because it has most of them. Ties go to the first buffer.
    pub fn formats_of(&self, ix: usize, formats: &[EventFormat]) -> Vec<EventFormat> {
        let most = |id: u16| {
            let of = |b: usize| self.counts[b].get(usize::from(id)).copied().unwrap_or(0);
            (0..self.counts.len()).max_by_key(|&b| (of(b), std::cmp::Reverse(b)))
        };
        let count = |id: u16| self.counts[ix].get(usize::from(id)).copied().unwrap_or(0);
        let taken = |f: &&EventFormat| count(f.id) > 0 && most(f.id) == Some(ix);
        formats.iter().filter(taken).cloned().collect()
    }

    /// Scans one buffer. A buffer with another clock counts as empty.
    pub fn buffer(
        &mut self,
        file: &[u8],
        dat: &TraceDat<'_>,
        buffer: &Buffer,
        same_clock: bool,
        faults: &mut Faults,
        strings: &mut Strings,
    ) -> FormatResult<()> {
        self.counts.push(vec![0; self.known.len()]);
        let layout = PageLayout::from_meta(&dat.page_meta(buffer))?;
        for data in buffer.cpus.iter().filter(|c| c.bytes > 0) {
            if !same_clock {
                self.other_clocks.push(buffer.name.clone());
                return Ok(());
            }
            if data.cpu >= CPUS_MAX {
                faults.keep(too_many_cpus(data))?;
                continue;
            }
            let stamps = Stamps::new(dat, buffer, data.cpu);
            for chunk in buffer.chunks(data, file, dat.big_endian) {
                let chunk = match chunk {
                    Ok(chunk) => chunk,
                    Err(error) => {
                        faults.keep(error)?;
                        break;
                    }
                };
                for (at, bytes) in pages(&chunk, &layout) {
                    // A salvaged file's damage is reported when the events are read.
                    let read = self.page(bytes, &layout, at, &stamps, strings);
                    if !faults.salvage {
                        read?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Scans one page. Stamps are compared before the conversion to ns, which preserves their order.
    fn page(
        &mut self,
        bytes: &[u8],
        layout: &PageLayout,
        at: u64,
        stamps: &Stamps,
        strings: &mut Strings,
    ) -> FormatResult<()> {
        let page = Page::parse(bytes, layout, at)?;
        let counts = self.counts.last_mut();
        let counts = counts.map_or(&mut [][..], |c| c);
        let (mut low, mut high) = (u64::MAX, 0);
        for event in page.events() {
            let event = event?;
            low = low.min(event.stamp);
            high = high.max(event.stamp);
            let Some(id) = event.id(layout.big_endian) else {
                continue;
            };
            match counts.get_mut(usize::from(id)) {
                Some(count) if self.known[usize::from(id)] => *count += 1,
                _ => *self.unknown.entry(id).or_default() += 1,
            }
            if let Some(print) = self.print.filter(|p| p.id == id)
                && let Some((tid, text)) = print.read(event.data, layout.big_endian)
            {
                let time = stamps.time(event.stamp);
                self.marks.add(time, tid, 0, text, strings);
            }
        }
        if low <= high {
            let (first, last) = (stamps.time(low), stamps.time(high));
            let (low, high) = self.extent.unwrap_or((first, last));
            self.extent = Some((low.min(first), high.max(last)));
        }
        Ok(())
    }
}

/// The error for a CPU number that no machine has.
fn too_many_cpus(data: &CpuData) -> FormatError {
    FormatError::damaged(
        "trace.dat buffer",
        data.offset,
        format!("CPU {}", data.cpu),
        format!("a number below {CPUS_MAX}"),
    )
}
