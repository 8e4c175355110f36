//! trace-cmd's `trace.dat`, version 6: scheduler events, and annotations as texts written to `trace_marker`.
//!
//! `trace-cmd report` and KernelShark open it. Version 6, because every trace-cmd reads it; newer ones convert it. The
//! layout is that of the manual page trace-cmd.dat.v6(5); all numbers are little-endian:
//!
//! | part | contents |
//! |---|---|
//! | magic | `17 08 44 "tracing"`, the version `"6"`, byte order (0: little), bytes of a long (8), bytes of a page |
//! | formats | the page header, the event header, then a format file for each event |
//! | names | kernel symbols and printk formats (both empty), then `tid name` lines |
//! | options | the clock, the kernel, the program that wrote it, the number of CPUs |
//! | `flyrecord` | offset and size of each CPU's pages |
//! | pages | ring-buffer pages as the kernel writes them, see `pages.rs` |
//!
//! `events.rs` has the events' formats and bytes; `marks.rs` turns annotations into texts. Stamps are CLOCK_MONOTONIC,
//! whatever clock the recording had. All pages are made before the first is written, because the header at the front
//! says where each CPU's are; memory thus grows with the recording.
mod events;
mod marks;
mod pages;

use crate::Exported;
use crate::sched_events::{Record, Told, log, record, recorded};
use events::Bytes;
use kasuri_model::{SliceKind, ThreadIx, Time, Trace};
use marks::Mark;
use pages::{PAGE, Pages};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Ids of options: `TRACECMD_OPTION_*` in trace-cmd's sources.
const TRACECLOCK: u16 = 4;
const UNAME: u16 = 5;
const CPUCOUNT: u16 = 8;
const VERSION: u16 = 9;
/// The clock as `trace_clock` shows the selected one.
const CLOCK: &str = "[mono]";
/// The text of `events/header_page` in tracefs on a 64-bit kernel with pages of 4 KiB.
const HEADER_PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";

/// Writes the whole recording.
///
/// # Errors
/// Those of `out`.
pub fn write<W: Write>(trace: &Trace, mut out: W) -> io::Result<Exported> {
    let mut cpus = Cpus::new(trace, true);
    cpus.bound(trace.span.start, false);
    let log = log(trace)?;
    for event in log.iter() {
        cpus.event(&record(trace, &event));
    }
    cpus.bound(trace.span.end, true);
    let (cpus, gaps) = cpus.finish();
    let records = cpus.iter().map(|c| c.n_events).sum();
    let header = header(trace, &cpus, log.has_migrations);
    out.write_all(&header)?;
    for cpu in &cpus {
        out.write_all(&cpu.bytes)?;
    }
    out.flush()?;
    Ok(Exported { records, left_out: left_out(trace, gaps) })
}

/// Scheduler events alone, as the kernel's ring buffers would have held them: for files that keep raw pages.
#[derive(Clone, Debug, Default)]
pub struct KernelPages {
    /// Text of `events/header_page`.
    pub header_page: &'static str,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Text of each event's format file, by `system/event`.
    pub formats: Vec<(String, String)>,
    /// `cpus[n]`: pages of CPU n.
    pub cpus: Vec<Vec<u8>>,
}

/// The pages of a trace's scheduler events; stamps are CLOCK_MONOTONIC.
///
/// # Errors
/// The trace was loaded without its events.
pub fn kernel_pages(trace: &Trace) -> io::Result<KernelPages> {
    let mut cpus = Cpus::new(trace, false);
    let log = log(trace)?;
    for event in log.iter() {
        cpus.event(&record(trace, &event));
    }
    let (pages, _) = cpus.finish();
    let formats = events::formats(log.has_migrations).into_iter();
    Ok(KernelPages {
        header_page: HEADER_PAGE,
        page_bytes: PAGE as u32,
        formats: formats.map(|(n, text)| (n.to_owned(), text)).collect(),
        cpus: pages.into_iter().map(|p| p.bytes).collect(),
    })
}

/// The CPUs' pages while they are made.
struct Cpus<'t> {
    trace: &'t Trace,
    pages: Vec<Pages>,
    /// Marks of each CPU that are not written yet, first last.
    marks: Vec<Vec<Mark>>,
    /// The thread that each CPU runs, according to the events: at equal times its marks come before the switch that
    /// takes it off the CPU.
    running: Vec<ThreadIx>,
    bytes: Bytes,
    gaps: u64,
}

impl<'t> Cpus<'t> {
    fn new(trace: &'t Trace, with_marks: bool) -> Cpus<'t> {
        let mut marks = marks::marks(trace);
        marks.iter_mut().for_each(|m| m.reverse());
        if !with_marks {
            marks.iter_mut().for_each(Vec::clear);
        }
        let n = marks.len();
        Cpus {
            trace,
            pages: (0..n).map(|_| Pages::default()).collect(),
            marks,
            running: vec![ThreadIx::NONE; n],
            bytes: Bytes::default(),
            gaps: 0,
        }
    }

    /// CLOCK_MONOTONIC in ns.
    fn stamp(&self, time: Time) -> u64 {
        let ns = self.trace.origin_monotonic_ns.saturating_add(time.ns());
        u64::try_from(ns).unwrap_or(0)
    }

    /// Marks the begin or the end of recording, on each CPU that was recorded.
    fn bound(&mut self, time: Time, ends: bool) {
        let stamp = self.stamp(time);
        for cpu in recorded(self.trace).map(usize::from) {
            if ends {
                // Marks at the end of the recording come before the event that ends it.
                while let Some(mark) = self.marks[cpu].pop() {
                    self.write_mark(mark);
                }
            }
            self.pages[cpu].push(stamp, self.bytes.recording(ends));
        }
    }

    /// Appends a scheduler event to the pages of its CPU, after the marks that come before it.
    fn event(&mut self, record: &Record<'_>) {
        let at = usize::from(record.cpu);
        if at >= self.pages.len() {
            return;
        }
        self.marks_before(record);
        let stamp = self.stamp(record.time);
        match self.bytes.event(record) {
            Some(bytes) => self.pages[at].push(stamp, bytes),
            None => {
                self.gaps += 1;
                self.pages[at].gap();
            }
        }
        match &record.what {
            Told::Switch { next, .. } => self.running[at] = next.thread,
            Told::Lost => self.running[at] = ThreadIx::NONE,
            _ => {}
        }
    }

    /// Marks that come before an event: older ones, and of the same stamp those of a thread that a switch takes away.
    fn marks_before(&mut self, record: &Record<'_>) {
        let (cpu, time) = (record.cpu, record.time);
        let at = usize::from(cpu);
        let leaves = match &record.what {
            Told::Switch { prev, .. } => prev.thread,
            Told::Lost => self.running[at],
            _ => ThreadIx::NONE,
        };
        while let Some(mark) = self.marks[at].pop_if(|m| {
            m.time < time || (m.time == time && m.thread.is_some() && m.thread == leaves)
        }) {
            self.write_mark(mark);
        }
    }

    /// Appends one text, as if its thread had written it to `trace_marker`.
    fn write_mark(&mut self, mark: Mark) {
        let text = mark.text(self.trace);
        let (at, stamp) = (usize::from(mark.cpu), self.stamp(mark.time));
        // A track is no thread: its events are written in the name of the process's main thread.
        let tid = match self.trace.threads.get(mark.thread.ix()) {
            Some(row) if row.tid <= 0 => {
                (self.trace.processes.get(row.process.ix())).map_or(0, |p| p.pid)
            }
            row => row.map_or(0, |row| row.tid),
        };
        self.pages[at].push(stamp, self.bytes.print(tid, &text));
    }

    /// Writes the remaining marks and closes all pages. Returns them and the number of gaps.
    fn finish(mut self) -> (Vec<Pages>, u64) {
        for at in 0..self.pages.len() {
            while let Some(mark) = self.marks[at].pop() {
                self.write_mark(mark);
            }
            self.pages[at].close();
        }
        (self.pages, self.gaps)
    }
}

/// Everything before the first page; the table in the module's head lists the parts in this order.
fn header(trace: &Trace, cpus: &[Pages], has_migrations: bool) -> Vec<u8> {
    let mut out = b"\x17\x08\x44tracing6\0\0\x08".to_vec();
    out.extend_from_slice(&(PAGE as u32).to_le_bytes());
    // A text with its length, 64 bits, in front.
    let blob = |out: &mut Vec<u8>, text: &str| {
        out.extend_from_slice(&(text.len() as u64).to_le_bytes());
        out.extend_from_slice(text.as_bytes());
    };
    out.extend_from_slice(b"header_page\0");
    blob(&mut out, HEADER_PAGE);
    out.extend_from_slice(b"header_event\0");
    blob(
        &mut out,
        "# compressed entry header\n\ttype_len    :    5 bits\n\ttime_delta  :   27 bits\n\tarray       :   32 bits\n\n\
         \tpadding     : type == 29\n\ttime_extend : type == 30\n\ttime_stamp : type == 31\n\tdata max type_len  == 28\n",
    );
    out.extend_from_slice(&1u32.to_le_bytes());
    blob(&mut out, &events::print_format());
    let mut systems: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (path, text) in events::formats(has_migrations) {
        let system = path.split_once('/').map_or(path, |(system, _)| system);
        systems.entry(system).or_default().push(text);
    }
    out.extend_from_slice(&(systems.len() as u32).to_le_bytes());
    for (system, formats) in systems {
        out.extend_from_slice(system.as_bytes());
        out.push(0);
        out.extend_from_slice(&(formats.len() as u32).to_le_bytes());
        formats.iter().for_each(|text| blob(&mut out, text));
    }
    // No symbols, no formats of trace_printk.
    out.extend_from_slice(&[0; 8]);
    blob(&mut out, &cmdlines(trace));
    out.extend_from_slice(&(cpus.len() as u32).to_le_bytes());
    out.extend_from_slice(b"options  \0");
    let info = &trace.info;
    let host = if info.host.is_empty() { "-" } else { &info.host };
    let uname = format!("Linux {host} {} {}", info.kernel, info.machine);
    let version = format!("kasuri {}", env!("CARGO_PKG_VERSION"));
    for (id, text) in [(TRACECLOCK, CLOCK), (UNAME, &uname), (VERSION, &version)] {
        out.extend_from_slice(&id.to_le_bytes());
        out.extend_from_slice(&(text.len() as u32 + 1).to_le_bytes());
        out.extend_from_slice(text.as_bytes());
        out.push(0);
    }
    out.extend_from_slice(&CPUCOUNT.to_le_bytes());
    out.extend_from_slice(&4u32.to_le_bytes());
    out.extend_from_slice(&(cpus.len() as u32).to_le_bytes());
    out.extend_from_slice(&[0; 2]);
    out.extend_from_slice(b"flyrecord\0");
    let clock_bytes = 8 + CLOCK.len() + 1;
    // Pages begin at a multiple of their size, so that readers can map them. Sixteen bytes for each CPU and the clock's
    // name stand between here and there.
    let mut at = (out.len() + 16 * cpus.len() + clock_bytes).next_multiple_of(PAGE);
    let end = at;
    for cpu in cpus {
        out.extend_from_slice(&(at as u64).to_le_bytes());
        out.extend_from_slice(&(cpu.bytes.len() as u64).to_le_bytes());
        at += cpu.bytes.len();
    }
    out.extend_from_slice(&(CLOCK.len() as u64 + 1).to_le_bytes());
    out.extend_from_slice(CLOCK.as_bytes());
    out.resize(end, 0);
    out
}

/// Names of threads as tracefs' `saved_cmdlines` has them: `tid name`, a line each.
fn cmdlines(trace: &Trace) -> String {
    let mut out = String::new();
    for ix in 0..trace.threads.len() {
        let (tid, name) =
            (trace.threads[ix].tid, kasuri_model::label::thread(trace, ThreadIx(ix as u32)));
        if tid > 0 {
            out.push_str(&format!("{tid} {}\n", name.replace('\n', " ")));
        }
    }
    out
}

/// Lists what a reader of the file will not find.
fn left_out(trace: &Trace, gaps: u64) -> Vec<String> {
    let mut out = vec![
        "thread priorities (shown as 120)".to_owned(),
        "which process a thread belongs to, but for those with annotations".to_owned(),
    ];
    out.extend(crate::sched_events::notes(trace));
    let mut some = |n: usize, what: &str| {
        if n > 0 {
            out.push(format!("{n} {what}"));
        }
    };
    some(trace.args.name.len(), "arguments of annotations");
    some(trace.flows.id.len(), "arrows");
    some(trace.tasks.len(), "tasks (their runs are slices)");
    let is_wait = |k: &&SliceKind| !matches!(k, SliceKind::Work | SliceKind::TaskRun);
    let n_waits = trace.slices.kind.iter().filter(is_wait).count();
    some(n_waits, "times: that a slice is a wait or a held lock");
    some(trace.kernel_spans.start.len(), "interrupts, system calls and waits for kernel locks");
    if gaps > 0 {
        out.push(format!(
            "how many events were lost in {gaps} gaps (that there were some is kept)"
        ));
    }
    out
}
