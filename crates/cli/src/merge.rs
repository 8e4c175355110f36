//! Several traces of one run as one recording: `kasuri merge`.
//!
//! Each input becomes what a recording is made of: scheduler events as ring-buffer pages, annotations as chunks with
//! their sites. So a merged file is like any other, and every reader of recordings reads it. When the first input is a
//! recording, its blocks are copied as they are and the others' blocks are put behind them, on its clocks.
mod base;
mod rings;

use crate::open::Base;
use anyhow::{Context, bail};
use kasuri_export::trace_dat::{KernelPages, kernel_pages};
use kasuri_format::clock::ClockMap;
use kasuri_format::container::{
    EncodeOptions, EncodedBlocks, Writer, encode_annotation_blocks, encode_kernel_blocks,
};
use kasuri_format::meta::{Anchor, AnnotationsMeta, Host, KernelLoss, KernelMeta, Meta, Proc};
use kasuri_format::ring::parse_chunks;
use kasuri_format::tracefs::{EventTable, PageLayout};
use kasuri_import::{Clock, Opened, Source};
use kasuri_model::input::{CpuEvents, Event, Setup};
use kasuri_model::{AnnotationVec, Strings, Time, Trace};
use rings::Sites;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::Write;

/// One input, opened.
pub struct Part<'a> {
    /// Its name, for messages.
    pub name: String,
    /// Its streams.
    pub opened: Opened<'a>,
    /// Added to its stamps, when the user says so.
    pub offset_ns: Option<i64>,
}

/// Parts that were merged, and parts that could not be.
#[derive(Default)]
pub struct Merged {
    /// Kernel and annotation events written.
    pub n_events: u64,
    /// In plain words.
    pub notes: Vec<String>,
}

/// All parts read, on the first one's clock, ready to be written.
pub struct Prepared<'a> {
    base: Option<Base<'a>>,
    trace: Trace,
    meta: Meta,
    annotations: Annotations,
    merged: Merged,
}

impl<'a> Prepared<'a> {
    /// Reads all parts.
    ///
    /// # Errors
    /// Clocks that cannot be aligned, or damage.
    pub fn new(
        base: Option<Base<'a>>,
        mut parts: Vec<Part<'_>>,
        mut strings: Strings,
    ) -> anyhow::Result<Prepared<'a>> {
        let mut merged = Merged::default();
        let frame = Frame::new(base.as_ref(), &parts)?;
        let shifts = shifts(&parts, &frame, &mut merged)?;
        let annotations = annotations(&mut parts, &frame, &shifts, &mut strings)?;
        let span = match &frame.span {
            Some(span) => span.clone(),
            None => span(&parts, &shifts),
        };
        let mut meta = match &base {
            Some(base) => base.meta(&parts),
            None => meta(&parts, &span),
        };
        if base.as_ref().is_some_and(Base::has_kernel) {
            leave_kernel_events(&mut parts, &frame, &mut merged);
        }
        let trace = kernel(parts, &shifts, span, strings, &mut merged)?;
        meta.uncounted.extend(lost_annotations(&trace));
        Ok(Prepared { base, trace, meta, annotations, merged })
    }

    /// Writes the recording.
    ///
    /// # Errors
    /// Errors of `out`.
    pub fn write<W: Write>(mut self, out: W) -> anyhow::Result<Merged> {
        write(self.base.as_ref(), &self.trace, self.meta, self.annotations, out, &mut self.merged)?;
        Ok(self.merged)
    }
}

/// The frame into which the parts are put: the first input's clock, and a recording's extent.
struct Frame {
    name: String,
    clock: Clock,
    realtime_offset_ns: Option<i64>,
    /// Only a recording has it: what is outside is left out.
    span: Option<std::ops::Range<Time>>,
    /// Stamps of annotations.
    stamps: ClockMap,
    /// Clients of the parts have these generations and later ones.
    generation: u32,
}

impl Frame {
    fn new(base: Option<&Base<'_>>, parts: &[Part<'_>]) -> anyhow::Result<Frame> {
        match base {
            Some(base) => base.frame(),
            None => Ok(Frame {
                name: parts[0].name.clone(),
                clock: parts[0].opened.clock,
                realtime_offset_ns: parts[0].opened.realtime_offset_ns,
                span: None,
                stamps: ClockMap::identity(),
                generation: 0,
            }),
        }
    }

    /// The stamp of an annotation; none: it is left out.
    fn stamp(&self, time: Time) -> Option<u64> {
        if self.span.as_ref().is_some_and(|s| !s.contains(&time)) {
            return None;
        }
        Some(self.stamps.stamp_at(time.ns().max(0) as u64))
    }
}

fn clock_name(clock: Clock) -> &'static str {
    match clock {
        Clock::Monotonic => "CLOCK_MONOTONIC",
        Clock::MonotonicRaw => "CLOCK_MONOTONIC_RAW",
        Clock::Boottime => "CLOCK_BOOTTIME",
        Clock::Realtime => "the time of day",
        Clock::Sched => "the kernel's scheduler clock",
        Clock::Other => "a clock of its own",
    }
}

/// Offsets for each part's stamps that put all on the frame's clock.
fn shifts(parts: &[Part<'_>], frame: &Frame, merged: &mut Merged) -> anyhow::Result<Vec<i64>> {
    let mut out = Vec::with_capacity(parts.len());
    for (ix, part) in parts.iter().enumerate() {
        let clock = part.opened.clock;
        let is_first = ix == 0 && frame.span.is_none();
        let aligned = match (part.opened.realtime_offset_ns, frame.realtime_offset_ns) {
            _ if is_first => Some(0),
            _ if clock == frame.clock && clock != Clock::Other => Some(0),
            (Some(ours), Some(theirs)) => Some(ours.saturating_sub(theirs)),
            _ => None,
        };
        let Some(shift) = part.offset_ns.or(aligned) else {
            bail!(
                "{}: its stamps count {}, those of {} {}, and not both files say the time of day; \
                 --offset {}=NS says what to add to its stamps",
                part.name,
                clock_name(clock),
                frame.name,
                clock_name(frame.clock),
                part.name,
            );
        };
        if shift != 0 {
            merged.notes.push(format!("{}: {shift} ns added to its stamps", part.name));
        }
        out.push(shift);
    }
    Ok(out)
}

fn moved(time: Time, shift: i64) -> Time {
    match time {
        Time::MIN | Time::MAX => time,
        Time(ns) => Time(ns.saturating_add(shift)),
    }
}

fn span(parts: &[Part<'_>], shifts: &[i64]) -> std::ops::Range<Time> {
    let spans = parts.iter().zip(shifts).map(|(part, &shift)| {
        let span = &part.opened.setup.span;
        (moved(span.start, shift), moved(span.end, shift))
    });
    let all = spans.reduce(|(a, b), (c, d)| (a.min(c), b.max(d)));
    let (start, end) = all.unwrap_or((Time(0), Time(0)));
    // Recordings count CLOCK_MONOTONIC from the start of the machine.
    start.max(Time(0))..end.max(Time(0))
}

/// Annotation blocks and the sites that they refer to.
struct Annotations {
    blocks: Vec<EncodedBlocks>,
    tables: Vec<kasuri_format::ring::SiteTable>,
}

fn annotations(
    parts: &mut [Part<'_>],
    frame: &Frame,
    shifts: &[i64],
    strings: &mut Strings,
) -> anyhow::Result<Annotations> {
    let mut out = Annotations { blocks: Vec::new(), tables: Vec::new() };
    for (number, (part, &shift)) in parts.iter_mut().zip(shifts).enumerate() {
        // Each part is a client of its own in every process.
        let generation = frame.generation + number as u32;
        let mut sites: BTreeMap<i32, Sites> = BTreeMap::new();
        for (ix, stream) in part.opened.streams.iter_mut().enumerate() {
            let pid = stream.pid();
            let own = sites.entry(pid).or_default();
            let stamp = |time| frame.stamp(moved(time, shift));
            let bytes = rings::chunks(&mut **stream, ix as u32 + 1, &stamp, own, strings)
                .with_context(|| part.name.clone())?;
            let (chunks, error) = parse_chunks(&bytes);
            if let Some(error) = error {
                bail!("{}: {error}", part.name);
            }
            let options = EncodeOptions::default();
            let blocks = encode_annotation_blocks(pid as u32, generation, &chunks, &options);
            out.blocks.push(blocks);
        }
        let tables = sites.iter();
        let tables = tables.map(|(pid, s)| s.table(*pid as u32, generation, strings));
        out.tables.extend(tables);
    }
    Ok(out)
}

/// A part's kernel events on the common clock.
struct Moved<'a> {
    events: Source<'a>,
    shift: i64,
}

impl CpuEvents for Moved<'_> {
    fn fill(
        &mut self,
        strings: &mut Strings,
        out: &mut Vec<Event>,
    ) -> Result<(), kasuri_model::Error> {
        let first = out.len();
        self.events.fill(strings, out)?;
        for event in &mut out[first..] {
            event.time = moved(event.time, self.shift);
        }
        Ok(())
    }
}

/// The recording has kernel events: those of the parts are not wanted.
fn leave_kernel_events(parts: &mut [Part<'_>], frame: &Frame, merged: &mut Merged) {
    for part in parts {
        if !part.opened.cpus.is_empty() {
            part.opened.cpus.clear();
            merged.notes.push(format!(
                "{}: its kernel events are left out: {} has them",
                part.name, frame.name
            ));
        }
    }
}

/// The columns of all kernel events; of a CPU that several parts have, those of the first.
fn kernel(
    parts: Vec<Part<'_>>,
    shifts: &[i64],
    span: std::ops::Range<Time>,
    strings: Strings,
    merged: &mut Merged,
) -> anyhow::Result<Trace> {
    let mut setup = Setup { span, keeps_events: true, ..Setup::default() };
    let mut cpus: BTreeMap<u16, Moved<'_>> = BTreeMap::new();
    let mut finish = Vec::new();
    for (part, &shift) in parts.into_iter().zip(shifts) {
        let own = part.opened.setup;
        setup.n_cpus = setup.n_cpus.max(own.n_cpus);
        setup.has_migrations |= own.has_migrations;
        setup.known.extend(own.known.into_iter().map(|mut known| {
            known.time = moved(known.time, shift);
            known
        }));
        let mut twice = Vec::new();
        for (cpu, events) in part.opened.cpus {
            match cpus.entry(cpu) {
                Entry::Occupied(_) => twice.push(cpu.to_string()),
                Entry::Vacant(free) => {
                    free.insert(Moved { events, shift });
                    setup.recorded.push(cpu.into());
                }
            }
        }
        if !twice.is_empty() {
            merged.notes.push(format!(
                "{}: kernel events of CPU {} are left out: an input before it has them",
                part.name,
                twice.join(", ")
            ));
        }
        finish.push((part.opened.finish, shift));
    }
    setup.known.sort_by_key(|k| k.time);
    let cpus: Vec<(u16, Moved<'_>)> = cpus.into_iter().collect();
    let mut trace = kasuri_model::build(setup, strings, cpus, Vec::<AnnotationVec>::new())?;
    for (finish, shift) in finish {
        let n = trace.losses.len();
        finish(&mut trace);
        // They count from the start of all, but their times are on the part's clock.
        for loss in &mut trace.losses[n..] {
            loss.when = moved(loss.when.start, shift)..moved(loss.when.end, shift);
        }
    }
    Ok(trace)
}

fn meta(parts: &[Part<'_>], span: &std::ops::Range<Time>) -> Meta {
    let anchor = |time: Time| {
        let ns = time.ns().max(0) as u64;
        let realtime = parts[0].opened.realtime_offset_ns.unwrap_or(0);
        let realtime = match realtime {
            0 => 0,
            offset => u64::try_from(offset.saturating_add(time.ns())).unwrap_or(0),
        };
        Anchor { native: 0, monotonic_ns: ns.max(1), realtime_ns: realtime }
    };
    let with_kernel = parts.iter().find(|p| !p.opened.cpus.is_empty());
    let info = &with_kernel.unwrap_or(&parts[0]).opened.info;
    Meta {
        version: 1,
        recorder: recorder(None, parts),
        complete: true,
        mode: "system".into(),
        start: anchor(span.start),
        end: Some(anchor(span.end)),
        host: Host {
            hostname: info.host.clone(),
            kernel: info.kernel.clone(),
            machine: info.machine.clone(),
            cpu_model: info.cpu_model.clone(),
            ..Host::default()
        },
        annotations: AnnotationsMeta { clock: "monotonic".into(), ..AnnotationsMeta::default() },
        missing: missing(parts).collect(),
        ..Meta::default()
    }
}

/// The recorder's name in the result: the merging command and its inputs.
fn recorder(base: Option<&Base<'_>>, parts: &[Part<'_>]) -> String {
    let base = base.map(|b| format!("{} ({})", b.name, b.recording.meta().recorder));
    let parts = (parts.iter()).map(|p| format!("{} ({})", p.name, p.opened.kind.name()));
    let names: Vec<String> = base.into_iter().chain(parts).collect();
    format!("kasuri {}, merged from {}", env!("CARGO_PKG_VERSION"), names.join(", "))
}

fn missing(parts: &[Part<'_>]) -> impl Iterator<Item = String> {
    parts.iter().flat_map(|part| {
        let own = part.opened.info.missing.iter();
        own.map(|text| format!("{}: {text}", part.name))
    })
}

/// Losses that have no place in a recording's tables, in words: their sum is known to nobody who reads it.
fn lost_annotations(trace: &Trace) -> impl Iterator<Item = String> {
    let others = trace.losses.iter().filter(|l| l.cpu.is_none());
    others.map(|l| match l.count {
        0 => l.cause.clone(),
        n => format!("{n} events lost: {}", l.cause),
    })
}

fn write<W: Write>(
    base: Option<&Base<'_>>,
    trace: &Trace,
    mut meta: Meta,
    annotations: Annotations,
    out: W,
    merged: &mut Merged,
) -> anyhow::Result<()> {
    let KernelPages { header_page, page_bytes, formats, cpus } = kernel_pages(trace)?;
    let recorded = trace.cpus.iter().enumerate().filter(|(_, c)| c.recorded);
    let recorded: Vec<u32> = recorded.map(|(n, _)| n as u32).collect();
    let made = KernelMeta {
        source: if recorded.is_empty() { "none" } else { "tracefs" }.into(),
        clock: "mono".into(),
        page_bytes,
        header_page: header_page.into(),
        formats: formats.into_iter().collect(),
        ..KernelMeta::default()
    };
    let table = EventTable::from_meta(&made)?;
    let layout = PageLayout::from_meta(&made)?;
    if !base.is_some_and(Base::has_kernel) {
        meta.host.n_cpus = meta.host.n_cpus.max(trace.cpus.len() as u32);
        meta.host.online = recorded;
        meta.kernel = made;
    }
    let mut writer = Writer::new(out, &meta)?;
    match base {
        Some(base) => merged.n_events += base.copy(&mut writer)?,
        None => writer.procs(&procs(trace))?,
    }
    writer.kernel_losses(&losses(trace))?;
    for table in &annotations.tables {
        writer.sites(table)?;
    }
    for (cpu, pages) in cpus.iter().enumerate() {
        let options = EncodeOptions::default();
        let blocks = encode_kernel_blocks(&table, &layout, cpu as u32, pages, &options);
        merged.n_events += blocks.n_events;
        writer.blocks(&blocks)?;
    }
    for blocks in &annotations.blocks {
        merged.n_events += blocks.n_events;
        writer.blocks(blocks)?;
    }
    let (mut out, _) = writer.finish()?;
    out.flush()?;
    let spans = trace.kernel_spans.start.len();
    if spans > 0 {
        merged.notes.push(format!(
            "{spans} interrupts, system calls and waits for kernel locks are left out"
        ));
    }
    Ok(())
}

/// Which process each thread belongs to, since when.
fn procs(trace: &Trace) -> Vec<Proc> {
    let row = |thread: &kasuri_model::Thread| {
        let process = trace.processes.get(thread.process.ix());
        let parent = process.and_then(|p| trace.processes.get(p.parent.ix()));
        Proc {
            monotonic_ns: thread.alive.start.ns().max(0) as u64,
            pid: process.map_or(thread.tid, |p| p.pid),
            tid: thread.tid,
            ppid: parent.map_or(0, |p| p.pid),
            comm: trace.strings.get(thread.name).to_owned(),
            ..Proc::default()
        }
    };
    trace.threads.iter().map(row).collect()
}

/// Two readings of each CPU's counters: none lost at the start, all at the end.
fn losses(trace: &Trace) -> Vec<KernelLoss> {
    let mut sums: BTreeMap<u32, [u64; 4]> = BTreeMap::new();
    for loss in &trace.losses {
        if let Some(cpu) = loss.cpu {
            let sum = sums.entry(cpu.into()).or_default();
            match loss.cause.as_str() {
                "kernel buffer overrun" => sum[0] += loss.count,
                "kernel buffer full" => sum[1] += loss.count,
                "kernel commit overrun" => sum[2] += loss.count,
                "disk full" => sum[3] += loss.count,
                _ => {}
            }
        }
    }
    let ns = |time: Time| time.ns().max(0) as u64;
    let readings = sums.into_iter().filter(|(_, sum)| *sum != [0; 4]);
    readings
        .flat_map(|(cpu, [overrun, dropped, nested, unwritten])| {
            let at = |monotonic_ns, share: u64| KernelLoss {
                monotonic_ns,
                cpu,
                overrun: overrun * share,
                dropped: dropped * share,
                commit_overrun: nested * share,
                unwritten: unwritten * share,
            };
            [at(ns(trace.span.start), 0), at(ns(trace.span.end), 1)]
        })
        .collect()
}
