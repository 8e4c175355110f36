//! Reads `trace.dat`, the file of trace-cmd and KernelShark (versions 6 and 7).
//!
//! The file holds the kernel's ring-buffer pages as they were, one list per CPU, and the format files that explain
//! them. [`TraceDat`] parses the sections. The submodules read the pages twice:
//!
//! - `survey` scans them before the passes run, to find the time span, the number of events of each type, and the texts
//!   that programs wrote to `trace_marker`. That costs a few ns for each event, and no memory for events.
//! - `pages` decodes them when the passes ask for events.
//!
//! A file may hold several buffers (instances of tracefs). Each event type is taken from the buffer that has most of
//! its events, so that a type recorded twice counts once. A CPU's events of several buffers are merged by stamp. A
//! buffer with another clock than the first is left out, because its stamps cannot be compared.
mod faults;
mod pages;
mod survey;

use crate::ahead::{Pool, lock};
use crate::raw_events::{RawEvents, RawSetup};
use crate::{Clock, Error, File, Kind, Opened, Options, Source as CpuSource};
use faults::{CPUS_MAX, Faults};
use kasuri_format::trace_dat::TraceDat;
use kasuri_format::tracefs::{EventFormat, PageLayout};
use kasuri_format::{Error as FormatError, Result as FormatResult};
use kasuri_model::input::CpuEvents;
use kasuri_model::{EventCost, Info, Loss, Strings, ThreadIx, Time, Trace};
use pages::{Gap, Met, Pages, Several, Stamps};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use survey::Survey;

const MIGRATE: &str = "sched/sched_migrate_task";
/// An event that Kasuri's own exports contain: it marks when the recording began and ended.
const RECORDING: &str = "kasuri/recording";

/// Whether it is a single file that begins with the magic number.
pub(crate) fn detect(files: &[File<'_>]) -> bool {
    matches!(files, [file] if TraceDat::is(file.bytes))
}

/// Reads the sections and format files, and scans all pages once.
///
/// # Errors
/// Damage, unless `options.salvage` passes over it.
pub(crate) fn open<'a>(
    files: &'a [File<'a>],
    options: &Options,
    strings: &mut Strings,
) -> Result<Opened<'a>, Error> {
    let file = files.first().copied().unwrap_or_default();
    let fail = |error| Error::format(file.name, error);
    let (dat, damage) = match options.salvage {
        true => TraceDat::salvage(file.bytes).map_err(fail)?,
        false => (TraceDat::parse(file.bytes).map_err(fail)?, Vec::new()),
    };
    let mut faults = Faults { salvage: options.salvage, errors: damage };
    let formats = formats(&dat, &mut faults).map_err(fail)?;
    let main_clock = main_clock(&dat);
    let mut survey = Survey::new(&formats);
    for buffer in &dat.buffers {
        let same_clock = dat.clock(buffer) == main_clock;
        survey.buffer(file.bytes, &dat, buffer, same_clock, &mut faults, strings).map_err(fail)?;
    }
    let source = Source { bytes: file.bytes, dat, formats, survey, faults };
    let mut opened = source.opened(strings).map_err(fail)?;
    opened.pool = Pool::new(options, file.bytes.len());
    Ok(opened)
}

/// The clock of the top buffer, or of the first that has pages. All times of the trace are in it.
fn main_clock(dat: &TraceDat<'_>) -> String {
    let with_pages = |b: &&kasuri_format::trace_dat::Buffer| b.cpus.iter().any(|c| c.bytes > 0);
    let buffer = dat.buffers.iter().find(with_pages);
    buffer.map_or(String::new(), |b| dat.clock(b).to_owned())
}

/// Parses all format files.
fn formats(dat: &TraceDat<'_>, faults: &mut Faults) -> FormatResult<Vec<EventFormat>> {
    let mut out = Vec::with_capacity(dat.formats.len());
    for (name, text) in &dat.formats {
        match EventFormat::parse(name, text) {
            Ok(format) => out.push(format),
            Err(error) => faults.keep(error)?,
        }
    }
    Ok(out)
}

/// A file whose headers were read and whose pages were scanned.
struct Source<'a> {
    bytes: &'a [u8],
    dat: TraceDat<'a>,
    formats: Vec<EventFormat>,
    survey: Survey,
    faults: Faults,
}

impl<'a> Source<'a> {
    /// Makes the streams, and the closure that adds losses and names to the finished trace.
    fn opened(mut self, strings: &mut Strings) -> FormatResult<Opened<'a>> {
        let options = &self.dat.options;
        let clock_name = main_clock(&self.dat);
        // With `--date` trace-cmd has added the offset to wall-clock time; with another offset the times are on no
        // clock of the machine.
        let clock = if options.is_date {
            Clock::Realtime
        } else if options.offset_ns != 0 {
            Clock::Other
        } else {
            clock_of(&clock_name)
        };
        let mut out = Opened::new(Kind::TraceDat, clock);
        let marks = std::mem::take(&mut self.survey.marks);
        out.realtime_offset_ns = match clock {
            Clock::Realtime => Some(0),
            _ => marks.realtime_offset_ns(),
        };
        let (start, end) = self.survey.extent.unwrap_or((Time(0), Time(0)));
        out.setup.span = start..end;
        // A damaged file may claim any number.
        out.setup.n_cpus = self.dat.n_cpus.min(CPUS_MAX) as usize;
        // Kasuri's export contains the format exactly if migrations were recorded, even if there was none.
        let has = |name: &str| self.formats.iter().any(|f| f.name == name);
        out.setup.has_migrations = self.count(MIGRATE) > 0 || (has(RECORDING) && has(MIGRATE));
        let met = Arc::new(Mutex::new(Met::default()));
        out.cpus = self.cpus(&met)?;
        out.setup.recorded = out.cpus.iter().map(|(n, _)| u32::from(*n)).collect();
        let streams = marks.streams(strings).into_iter();
        out.streams = streams.map(|s| Box::new(s) as _).collect();
        out.info = self.info(&clock_name);
        let n_events = self.survey.n_events() - self.count(RECORDING);
        // The closure outlives the file's sections, so it takes what it needs of them.
        let stats = self.dat.options.cpu_stats;
        let cmdlines = self.dat.cmdlines;
        let damage = self.faults.errors;
        out.finish = Box::new(move |trace| {
            trace.n_kernel_events = n_events;
            name_threads(trace, &cmdlines);
            let met = std::mem::take(&mut *lock(&met));
            losses(trace, &met.gaps, &stats);
            for error in damage.iter().chain(&met.errors) {
                trace.losses.push(file_damage(trace, error));
            }
            // Gaps, statistics and damage come from three places; readers want them by time.
            trace.losses.sort_by_key(|l| (l.when.start, l.cpu));
        });
        Ok(out)
    }

    /// Number of events of a type.
    fn count(&self, name: &str) -> u64 {
        let format = self.formats.iter().find(|f| f.name == name);
        format.map_or(0, |f| self.survey.count(f.id))
    }

    /// One stream per CPU, over all buffers that have pages of it.
    fn cpus(&self, met: &Arc<Mutex<Met>>) -> FormatResult<Vec<(u16, CpuSource<'a>)>> {
        let has_waking = self.count("sched/sched_waking") > 0;
        let mut by_cpu: BTreeMap<u16, Vec<Pages<'a>>> = BTreeMap::new();
        for (ix, buffer) in self.dat.buffers.iter().enumerate() {
            // Each instance has a ring buffer of its own, whose pages may be laid out and stamped in another way.
            let layout = PageLayout::from_meta(&self.dat.page_meta(buffer))?;
            let formats = self.survey.formats_of(ix, &self.formats);
            if formats.is_empty() {
                continue;
            }
            // Each CPU of a buffer has a decoder of its own, which caches names.
            let machine = self.machine();
            let setup = RawSetup {
                big_endian: self.dat.big_endian,
                machine: &machine,
                has_waking,
                switch_format: (self.dat.formats.get("sched/sched_switch"))
                    .map_or("", String::as_str),
            };
            for data in buffer.cpus.iter().filter(|c| c.bytes > 0) {
                if data.cpu >= CPUS_MAX {
                    continue;
                }
                by_cpu.entry(data.cpu as u16).or_default().push(Pages::new(
                    data.cpu as u16,
                    buffer.chunks(data, self.bytes, self.dat.big_endian),
                    layout,
                    RawEvents::new(&formats, &setup),
                    Stamps::new(&self.dat, buffer, data.cpu),
                    met.clone(),
                    self.faults.salvage,
                    self.survey.extent.map_or(Time(0), |(start, _)| start),
                ));
            }
        }
        let one = |(cpu, mut pages): (u16, Vec<Pages<'a>>)| {
            let events: Box<dyn CpuEvents + Send + 'a> = match pages.len() {
                // Nearly every file has one buffer, which needs no merge.
                1 => Box::new(pages.remove(0)),
                _ => Box::new(Several::new(pages)),
            };
            (cpu, CpuSource::Apart(events))
        };
        Ok(by_cpu.into_iter().map(one).collect())
    }

    /// The words after the first of the option `uname`, `Linux HOST RELEASE MACHINE`.
    fn uname(&self) -> [&str; 3] {
        let mut words = self.dat.options.uname.split_whitespace().skip(1);
        let mut next = || words.next().unwrap_or("");
        [next(), next(), next()]
    }

    /// The architecture; "": the file does not say.
    fn machine(&self) -> String {
        self.uname()[2].to_owned()
    }

    /// Facts for people.
    fn info(&self, clock: &str) -> Info {
        let [host, kernel, machine] = self.uname().map(str::to_owned);
        let version = self.dat.options.writer.split_whitespace().next();
        let mut counted: Vec<EventCost> = self
            .formats
            .iter()
            .map(|f| EventCost {
                name: f.name.clone(),
                n: self.survey.count(f.id),
                n_program: self.survey.count(f.id),
                ..EventCost::default()
            })
            .filter(|e| e.n > 0 && e.name != RECORDING)
            .collect();
        counted.sort_by(|a, b| a.name.cmp(&b.name));
        Info {
            format: format!("trace.dat version {}", self.dat.version),
            host,
            kernel,
            machine,
            kernel_source: "tracefs".into(),
            kernel_clock: clock.to_owned(),
            recorder: version.map_or("trace-cmd".into(), |v| format!("trace-cmd {v}")),
            event_costs: counted,
            missing: self.missing(clock),
            ..Info::default()
        }
    }

    /// Limitations: what the file cannot show, and which option of trace-cmd records it.
    fn missing(&self, clock: &str) -> Vec<String> {
        let mut out = Vec::new();
        let has = |name: &str| self.count(name) > 0;
        if !has("sched/sched_switch") {
            out.push("no sched_switch events: who ran when is not known; `trace-cmd record -e sched_switch` records them".into());
        }
        match (has("sched/sched_waking"), has("sched/sched_wakeup")) {
            (true, _) => {}
            (false, true) => out.push("no sched_waking events: wakers and latencies are those of sched_wakeup, which comes later and from the woken thread's CPU; `trace-cmd record -e sched_waking` records them".into()),
            (false, false) => out.push("no sched_waking events: who woke whom, and how long it waited for a CPU, is not known; `trace-cmd record -e sched_waking` records them".into()),
        }
        if matches!(clock, "x86-tsc" | "tsc2nsec") && self.dat.options.tsc_to_ns.is_none() {
            out.push("stamps count CPU ticks and the file does not say how long one is: all times are in ticks; `trace-cmd record -C mono` records ns".into());
        }
        // `counter` grows by one with each event, and `uptime` counts ticks since the boot (kernel,
        // Documentation/trace/ftrace.rst).
        if matches!(clock, "counter" | "uptime") {
            out.push(format!("stamps of the clock {clock} are no ns: durations mean nothing; `trace-cmd record -C mono` records ns"));
        }
        for name in &self.survey.other_clocks {
            out.push(format!("the buffer of instance {name:?} has another clock than the others and is left out; record all with -C mono"));
        }
        for text in &self.dat.texts {
            out.push(format!(
                "the buffer {:?} of a latency tracer is text and is left out",
                text.name
            ));
        }
        for guest in &self.dat.options.guests {
            out.push(format!("guest {:?} with {} CPUs was traced in a file of its own (session {:#x}); `kasuri merge` puts them together", guest.name, guest.cpus.len(), guest.trace_id));
        }
        if let Some(shift) = &self.dat.options.time_shift {
            out.push(format!("a guest's trace on its host's clock (session {:#x})", shift.peer));
        }
        if !self.survey.unknown.is_empty() {
            let n: u64 = self.survey.unknown.values().sum();
            out.push(format!(
                "{n} events of {} types have no format file and are left out",
                self.survey.unknown.len()
            ));
        }
        out
    }
}

/// The clock that tracefs's `trace_clock` names.
fn clock_of(name: &str) -> Clock {
    match name {
        "mono" => Clock::Monotonic,
        "mono_raw" => Clock::MonotonicRaw,
        "boot" => Clock::Boottime,
        // All three are derived from sched_clock(); they differ in how CPUs are kept together.
        "local" | "global" | "perf" | "" => Clock::Sched,
        _ => Clock::Other,
    }
}

/// Names the threads that no event named, from `saved_cmdlines`, which trace-cmd copies at the end.
fn name_threads(trace: &mut Trace, cmdlines: &[(i32, String)]) {
    let names: HashMap<i32, &str> = cmdlines.iter().map(|(t, n)| (*t, n.as_str())).collect();
    for ix in 0..trace.threads.len() {
        let thread = &trace.threads[ix];
        let Some(name) = names.get(&thread.tid) else {
            continue;
        };
        // A name from an event is of the thread at that time; `saved_cmdlines` has the last one of a number that may
        // have been used again.
        if !trace.strings.get(thread.name).is_empty() {
            continue;
        }
        let process = thread.process.ix();
        let is_main = thread.tid == trace.processes[process].pid;
        let name = trace.strings.intern(name);
        trace.threads[ix].name = name;
        if is_main && trace.strings.get(trace.processes[process].name).is_empty() {
            trace.processes[process].name = name;
        }
    }
}

/// Adds losses: the gaps that flagged pages report, with the counts of the kernel's statistics (`per_cpu/cpuN/stats`).
///
/// The statistics count a CPU's whole recording, so the first gap without a count of its own gets the total, and the
/// others 0. A count without any gap covers the whole span.
fn losses(trace: &mut Trace, gaps: &[Gap], stats: &[kasuri_format::trace_dat::CpuStat]) {
    let mut sums: BTreeMap<u32, [u64; 3]> = BTreeMap::new();
    for stat in stats {
        let sum = sums.entry(stat.cpu).or_default();
        sum[0] += stat.overrun;
        sum[1] += stat.dropped;
        sum[2] += stat.commit_overrun;
    }
    gap_losses(trace, gaps, &sums);
    for (cpu, [overrun, dropped, nested]) in sums {
        let Ok(cpu) = u16::try_from(cpu) else {
            continue;
        };
        let known = gaps.iter().any(|g| g.cpu == cpu && !g.damaged);
        let rows = [
            (if known { 0 } else { overrun }, OVERRUN, LARGER_BUFFER),
            (dropped, "kernel buffer full", LARGER_BUFFER),
            (
                nested,
                "kernel commit overrun",
                "none: interrupts nested too deep for the kernel's buffer",
            ),
        ];
        for (count, cause, remedy) in rows {
            if count > 0 {
                trace.losses.push(Loss {
                    cause: cause.into(),
                    cpu: Some(cpu),
                    thread: ThreadIx::NONE,
                    when: trace.span.clone(),
                    count,
                    remedy: remedy.into(),
                });
            }
        }
    }
}

/// The kernel overwrote events before trace-cmd read them.
const OVERRUN: &str = "kernel buffer overrun";
const LARGER_BUFFER: &str = "record with a larger buffer: `trace-cmd record -b KB`";

/// Adds the gaps. `sums`: by CPU, events overwritten, dropped, and lost to nesting.
fn gap_losses(trace: &mut Trace, gaps: &[Gap], sums: &BTreeMap<u32, [u64; 3]>) {
    let origin = trace.origin_monotonic_ns;
    let at = |time: Time| Time(time.0.saturating_sub(origin));
    let mut counted: Vec<u16> = Vec::new();
    for gap in gaps {
        let mut count = gap.count;
        if count.is_none() && !gap.damaged && !counted.contains(&gap.cpu) {
            counted.push(gap.cpu);
            count = sums.get(&u32::from(gap.cpu)).map(|sum| sum[0]);
        }
        let (cause, remedy) = match gap.damaged {
            true => ("page damaged", "record again"),
            false => (OVERRUN, LARGER_BUFFER),
        };
        trace.losses.push(Loss {
            cause: cause.into(),
            cpu: Some(gap.cpu),
            thread: ThreadIx::NONE,
            when: at(gap.from)..at(gap.to),
            count: count.unwrap_or(0),
            remedy: remedy.into(),
        });
    }
}

/// Damage of a salvaged file: where in time the lost bytes were is not known, so the whole span is concerned.
fn file_damage(trace: &Trace, error: &FormatError) -> Loss {
    Loss {
        cause: format!("file damaged: {error}"),
        cpu: None,
        thread: ThreadIx::NONE,
        when: trace.span.clone(),
        count: 0,
        remedy: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kasuri_format::trace_dat::CpuStat;
    use kasuri_model::{Process, Thread};

    fn gap(cpu: u16, from: i64, count: Option<u64>, damaged: bool) -> Gap {
        Gap { cpu, from: Time(from), to: Time(from + 10), count, damaged }
    }

    fn stat(cpu: u32, overrun: u64, dropped: u64, commit_overrun: u64) -> CpuStat {
        CpuStat { cpu, overrun, dropped, commit_overrun }
    }

    /// (cause, CPU, from, to, count) of each loss; the trace's origin is 1000, and it lasts for 500.
    fn lost(gaps: &[Gap], stats: &[CpuStat]) -> Vec<(String, u16, i64, i64, u64)> {
        let mut trace =
            Trace { span: Time(0)..Time(500), origin_monotonic_ns: 1000, ..Trace::default() };
        losses(&mut trace, gaps, stats);
        let row = |l: &Loss| {
            let (from, to) = (l.when.start.0, l.when.end.0);
            (l.cause.to_string(), l.cpu.unwrap(), from, to, l.count)
        };
        trace.losses.iter().map(row).collect()
    }

    #[test]
    fn gaps_have_the_kernels_counts_once_and_counts_without_a_gap_are_of_the_whole() {
        let (overrun, full) = ("kernel buffer overrun", "kernel buffer full");
        let gaps = [
            gap(0, 1010, None, false),
            gap(0, 1040, None, false),
            gap(0, 1070, Some(7), false),
            gap(1, 1100, None, true),
        ];
        // CPU 0 has two buffers, CPU 2 lost nothing, and a number of 70 000 is damage.
        let stats = [
            stat(0, 100, 5, 0),
            stat(0, 20, 0, 0),
            stat(1, 9, 0, 2),
            stat(2, 0, 0, 0),
            stat(70_000, 1, 1, 1),
        ];
        let row = |cause: &str, cpu, from, to, n| (cause.to_owned(), cpu, from, to, n);
        assert_eq!(
            lost(&gaps, &stats),
            [
                row(overrun, 0, 10, 20, 120),
                row(overrun, 0, 40, 50, 0),
                row(overrun, 0, 70, 80, 7),
                row("page damaged", 1, 100, 110, 0),
                row(full, 0, 0, 500, 5),
                row(overrun, 1, 0, 500, 9),
                row("kernel commit overrun", 1, 0, 500, 2),
            ]
        );
        assert_eq!(lost(&[gap(0, 1010, None, false)], &[]), [row(overrun, 0, 10, 20, 0)]);
    }

    #[test]
    fn names_of_the_end_are_for_threads_that_no_event_named() {
        let mut trace = Trace::default();
        let known = trace.strings.intern("known");
        let process = |pid, threads| Process { pid, threads, ..Process::default() };
        trace.processes = vec![process(10, 0..2), process(20, 2..3)];
        let thread = |process, tid, name| Thread {
            process: kasuri_model::ProcessIx(process),
            tid,
            name,
            ..Thread::default()
        };
        let none = kasuri_model::StrIx::NONE;
        trace.threads = vec![thread(0, 10, none), thread(0, 11, known), thread(1, 21, none)];
        let names = [(10, "main"), (11, "other"), (21, "worker")];
        let cmdlines: Vec<_> = names.iter().map(|&(t, n)| (t, n.to_owned())).collect();
        name_threads(&mut trace, &cmdlines);
        let text = |name| trace.strings.get(name);
        let threads: Vec<_> = trace.threads.iter().map(|t| text(t.name)).collect();
        assert_eq!(threads, ["main", "known", "worker"]);
        // A process bears its main thread's name only.
        let processes: Vec<_> = trace.processes.iter().map(|p| text(p.name)).collect();
        assert_eq!(processes, ["main", ""]);
    }

    #[test]
    fn each_clock_of_tracefs() {
        for (name, clock) in [
            ("mono", Clock::Monotonic),
            ("mono_raw", Clock::MonotonicRaw),
            ("boot", Clock::Boottime),
            ("local", Clock::Sched),
            ("global", Clock::Sched),
            ("perf", Clock::Sched),
            ("", Clock::Sched),
            ("x86-tsc", Clock::Other),
            ("counter", Clock::Other),
        ] {
            assert_eq!(clock_of(name), clock, "{name}");
        }
    }
}
