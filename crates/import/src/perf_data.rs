//! `perf.data` -> events. Tracepoints are what the kernel's ring buffer would have held; switch records, where there is
//! no sched_switch, say who was on a CPU.
//!
//! What `perf record` saw of switches depends on how it was started:
//!
//! | recorded | sched_switch | switch records | used |
//! |---|---|---|---|
//! | all CPUs (`-a`, `perf sched record`) | each switch | maybe | sched_switch |
//! | a program, sched_switch alone | where its threads leave a CPU | no | sched_switch; who comes on is seen late |
//! | a program, both (`--switch-events`) | where they leave | where they leave and come | how they left of sched_switch, when they came of the record |
//! | either, switch records alone | no | each | the records |
use crate::kernel_events::{RawEvents, RawSetup};
use crate::{Clock, Error, File, Kind, Opened, Options};
use kasuri_format::perf::RecordKind;
use kasuri_format::perf_data::{CpuReader, PerfData, RecordWhat};
use kasuri_format::tracefs::EventFormat;
use kasuri_format::{Error as FormatError, ErrorKind};
use kasuri_model::input::{CpuEvents, Event, KnownThread, Setup, What};
use kasuri_model::{EventCost, Info, Loss, Strings, ThreadIx, ThreadState, Time, Trace};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// Events made at once.
const BATCH: usize = 512;
/// A file of noise has one error a record.
const ERRORS_MAX: usize = 100;

pub(crate) fn detect(files: &[File<'_>]) -> bool {
    matches!(files, [file] if PerfData::is(file.bytes))
}

pub(crate) fn open<'a>(
    files: &'a [File<'a>],
    options: &Options,
    _strings: &mut Strings,
) -> Result<Opened<'a>, Error> {
    let file = files.first().copied().unwrap_or_default();
    let wrong = |error| Error::format(file.name, error);
    let (data, mut errors) = if options.salvage {
        PerfData::salvage(file.bytes).map_err(wrong)?
    } else {
        (PerfData::parse(file.bytes).map_err(wrong)?, Vec::new())
    };
    usable(&data).map_err(wrong)?;
    let mut formats = Vec::new();
    for (name, text) in &data.formats {
        match EventFormat::parse(name, text) {
            Ok(format) => formats.push(format),
            Err(error) if options.salvage => errors.push(error),
            Err(error) => return Err(wrong(error)),
        }
    }
    let opened_ids: Vec<u64> = (data.attrs.iter().filter(|a| a.is_tracepoint()))
        .map(|a| a.config)
        .collect();
    formats.retain(|f| opened_ids.contains(&f.id.into()));
    let has = |name: &str| formats.iter().any(|f| f.name == name);
    let switches = Switches::of(&data, has("sched/sched_switch"));
    let raw = RawEvents::new(
        &formats,
        &RawSetup {
            big_endian: data.big_endian,
            machine: &data.features.arch,
            has_waking: has("sched/sched_waking"),
            switch_format: data
                .formats
                .get("sched/sched_switch")
                .map_or("", String::as_str),
        },
    );
    let root = root(&data);
    let mut opened = Opened::new(Kind::PerfData, clock(&data));
    opened.setup = setup(&data, root, has("sched/sched_migrate_task"));
    add_early(&data, &mut opened.setup);
    opened.realtime_offset_ns =
        (data.features.clock_data).map(|(real, own)| (real as i64).wrapping_sub(own as i64));
    opened.info = info(&data, root, switches, &formats);
    let shared = Rc::new(Shared {
        data,
        switches,
        salvage: options.salvage,
        start: opened.setup.span.start,
        seen: RefCell::new(Seen {
            errors,
            ..Seen::default()
        }),
    });
    for (cpu, _) in shared.data.cpus() {
        let source = CpuSource {
            shared: shared.clone(),
            raw: raw.clone(),
            reader: shared.data.reader(cpu),
            cpu,
            last: opened.setup.span.start,
            on: -1,
            counts: Vec::new(),
            records: BTreeMap::new(),
        };
        opened.cpus.push((cpu, Box::new(source)));
    }
    opened.finish = Box::new(move |trace| shared.finish(trace, &formats));
    Ok(opened)
}

/// Whether its records say when and where.
fn usable(data: &PerfData<'_>) -> Result<(), FormatError> {
    let refuse = |found: String, needed: &'static str, remedy: &'static str| {
        Err(FormatError::new(ErrorKind::Absent, "perf records", 0, found, needed).remedy(remedy))
    };
    let records: u64 = data.cpus().map(|(_, n)| n).sum();
    if data.n_without_time > 0 && records == 0 {
        return refuse(
            format!("{} records without a time", data.n_without_time),
            "PERF_SAMPLE_TIME",
            "`perf record --timestamp` records times",
        );
    }
    if data.n_without_cpu > 0 && data.n_without_cpu == records && data.has_switches {
        return refuse(
            format!("{records} records without a CPU"),
            "PERF_SAMPLE_CPU",
            "`perf record --sample-cpu` records CPUs",
        );
    }
    Ok(())
}

/// Which events say who was on a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Switches {
    /// sched_switch.
    Tracepoint,
    /// sched_switch how threads leave, records when they come.
    Both,
    /// Records.
    Records,
}

impl Switches {
    fn of(data: &PerfData<'_>, has_tracepoint: bool) -> Switches {
        match (has_tracepoint, is_system_wide(data), data.has_switches) {
            (false, _, _) => Switches::Records,
            (true, false, true) => Switches::Both,
            (true, _, _) => Switches::Tracepoint,
        }
    }
}

fn is_system_wide(data: &PerfData<'_>) -> bool {
    let own = data.attrs.iter().any(|attr| attr.enable_on_exec);
    data.system_wide.unwrap_or(!own)
}

fn clock(data: &PerfData<'_>) -> Clock {
    match data.attrs.iter().find_map(|attr| attr.clockid) {
        Some(0) => Clock::Realtime,
        Some(1) => Clock::Monotonic,
        Some(4) => Clock::MonotonicRaw,
        Some(7) => Clock::Boottime,
        Some(_) => Clock::Other,
        None => Clock::Sched,
    }
}

fn clock_name(clock: Clock) -> &'static str {
    match clock {
        Clock::Realtime => "realtime",
        Clock::Monotonic => "mono",
        Clock::MonotonicRaw => "mono_raw",
        Clock::Boottime => "boot",
        Clock::Sched => "perf",
        Clock::Other => "other",
    }
}

/// The program that perf started, when it is what the recording is about: pid and name. `perf record -a sleep 10` is
/// not about sleep.
fn root<'d>(data: &'d PerfData<'_>) -> Option<(i32, &'d str)> {
    let waits_for_exec = |pid: i32| {
        (data.threads.iter()).any(|t| t.pid == pid && matches!(&*t.comm, "perf-exec" | "perf"))
    };
    let (pid, comm) = (data.execs.iter()).find(|(pid, _)| {
        waits_for_exec(*pid) || (!is_system_wide(data) && data.asked_pids.contains(pid))
    })?;
    (comm != "sleep").then_some((*pid, comm))
}

/// perf's command line from the program's name on; all of it when the name is not found there.
fn command(data: &PerfData<'_>, root: Option<(i32, &str)>) -> Vec<String> {
    let all = &data.features.cmdline;
    let is_name = |arg: &String| {
        let base = arg.rsplit('/').next().unwrap_or(arg);
        // The kernel cuts names after 15 bytes.
        root.is_some_and(|(_, comm)| {
            base.as_bytes().get(..15).unwrap_or(base.as_bytes()) == comm.as_bytes()
        })
    };
    let from = all.iter().skip(1).position(is_name).map_or(0, |at| at + 1);
    match root {
        Some(_) => all[from..].to_vec(),
        None => Vec::new(),
    }
}

fn setup(data: &PerfData<'_>, root: Option<(i32, &str)>, has_migrations: bool) -> Setup {
    let (first, last) = data.span.unwrap_or_default();
    let known = data.threads.iter().filter(|t| t.tid > 0);
    let known = known.map(|t| KnownThread {
        time: Time::MIN,
        pid: t.pid,
        tid: t.tid,
        ppid: t.ppid,
        comm: t.comm.clone(),
    });
    let (_, online) = data.features.n_cpus.unwrap_or_default();
    let online = online.min(8192);
    Setup {
        span: time(first)..time(last),
        n_cpus: online as usize,
        root_pids: match root {
            Some((pid, _)) => vec![pid],
            None => data.asked_pids.clone(),
        },
        known: known.collect(),
        recorded: (0..online).collect(),
        // Event by event and CPU by CPU, but for a program that perf starts: there the exec begins all of them.
        starts_late: !data.attrs.iter().any(|attr| attr.enable_on_exec),
        has_migrations,
        ..Setup::default()
    }
}

/// Forks and names are recorded for a while before switches are: those threads are known, no more.
fn add_early(data: &PerfData<'_>, setup: &mut Setup) {
    let start = setup.span.start;
    for (cpu, _) in data.cpus() {
        let mut reader = data.reader(cpu);
        // Damage is met again, and reported, when events are read.
        while let Some(Ok(record)) = reader.next(data) {
            let time = time(record.time);
            if time >= start {
                break;
            }
            let RecordWhat::Record { pid, tid, kind, .. } = record.what else {
                continue;
            };
            let known = KnownThread {
                time,
                pid,
                tid,
                ..KnownThread::default()
            };
            match kind {
                RecordKind::Comm { comm, .. } => setup.known.push(KnownThread { comm, ..known }),
                RecordKind::Fork { ppid, .. } => setup.known.push(KnownThread { ppid, ..known }),
                RecordKind::Exit { .. } => setup.known.retain(|k| k.tid != tid),
                _ => {}
            }
        }
    }
    setup.known.sort_by_key(|k| k.time);
    // One row for each thread: the last name that is known, the first parent.
    let mut rows: Vec<KnownThread> = Vec::new();
    let mut of_tid: HashMap<i32, usize> = HashMap::new();
    for known in std::mem::take(&mut setup.known) {
        let ix = *of_tid.entry(known.tid).or_insert(rows.len());
        match rows.get_mut(ix) {
            None => rows.push(known),
            Some(row) => {
                if !known.comm.is_empty() {
                    row.comm = known.comm;
                }
                if row.ppid == 0 {
                    row.ppid = known.ppid;
                }
            }
        }
    }
    rows.iter_mut().for_each(|row| row.time = start);
    setup.known = rows;
}

fn time(ns: u64) -> Time {
    Time(i64::try_from(ns).unwrap_or(i64::MAX))
}

fn info(
    data: &PerfData<'_>,
    root: Option<(i32, &str)>,
    switches: Switches,
    formats: &[EventFormat],
) -> Info {
    let features = &data.features;
    let mut kind = "perf.data".to_owned();
    let marks = [
        (data.pipe, "pipe"),
        (data.compressed, "compressed"),
        (data.big_endian, "big-endian"),
    ];
    let marks: Vec<&str> = marks.iter().filter(|m| m.0).map(|m| m.1).collect();
    if !marks.is_empty() {
        kind = format!("{kind} ({})", marks.join(", "));
    }
    Info {
        format: kind,
        command: command(data, root),
        root_pid: root.map_or(0, |(pid, _)| pid),
        host: features.hostname.clone(),
        kernel: features.osrelease.clone(),
        machine: features.arch.clone(),
        cpu_model: features.cpudesc.clone(),
        kernel_source: source(data, switches, formats).into(),
        kernel_clock: clock_name(clock(data)).into(),
        recorder: match features.version.as_str() {
            "" => "perf".into(),
            version => format!("perf {version}"),
        },
        missing: missing(data, switches, formats),
        ..Info::default()
    }
}

/// What analyses may rely on, in the words of [`Info::kernel_source`]: all switches and wake-ups, as of tracefs; one
/// program's switches, as of an unprivileged recording; nothing.
fn source(data: &PerfData<'_>, switches: Switches, formats: &[EventFormat]) -> &'static str {
    let has = |name: &str| formats.iter().any(|f| f.name == name);
    match switches {
        Switches::Records if !data.has_switches => "none",
        Switches::Tracepoint if is_system_wide(data) => "tracefs",
        Switches::Both if has("sched/sched_waking") => "tracefs",
        _ => "perf",
    }
}

/// What was not recorded, and how to get it.
fn missing(data: &PerfData<'_>, switches: Switches, formats: &[EventFormat]) -> Vec<String> {
    let has = |name: &str| formats.iter().any(|f| f.name == name);
    let mut out = Vec::new();
    let nobody = switches == Switches::Records && !data.has_switches;
    if nobody {
        out.push(
            "no switches were recorded: who ran where and when is unknown; `perf sched record`, \
             `perf record -a -e 'sched:*'` or `perf record --switch-events --sample-cpu` record them"
                .into(),
        );
    } else if !is_system_wide(data) {
        out.push(
            if switches == Switches::Tracepoint {
                "only this program's events were recorded, and sched_switch without switch records: when its threads came \
                 onto a CPU is known late; `perf sched record` or `perf record -a -e 'sched:*'` records all"
            } else {
                "only this program's events were recorded: who else used the CPUs is unknown; `perf sched record` or \
                 `perf record -a -e 'sched:*'` records all"
            }
            .into(),
        );
    }
    if !nobody && !has("sched/sched_waking") && !has("sched/sched_wakeup") {
        out.push(
            "no wake-ups were recorded: who woke whom, and how long threads waited for a CPU after it, is unknown; \
             `-e sched:sched_waking` records them"
                .into(),
        );
    }
    out
}

/// What all CPUs share.
struct Shared<'a> {
    data: PerfData<'a>,
    switches: Switches,
    salvage: bool,
    /// What was before is in [`Setup::known`].
    start: Time,
    seen: RefCell<Seen>,
}

/// What was met while events were read.
#[derive(Default)]
struct Seen {
    errors: Vec<FormatError>,
    /// CPU, between which times, how many.
    losses: Vec<(u16, Time, Time, u64)>,
    /// Tracepoints by event id.
    counts: Vec<u64>,
    /// Other records by what they are.
    records: BTreeMap<&'static str, u64>,
}

impl Shared<'_> {
    fn finish(&self, trace: &mut Trace, formats: &[EventFormat]) {
        let back = |time: Time| Time(time.0.saturating_sub(self.start.0));
        let seen = self.seen.borrow();
        let kinds = formats.iter().filter_map(|format| {
            let n = *seen.counts.get(usize::from(format.id))?;
            Some((format.name.clone(), n))
        });
        let known: u64 = kinds.clone().map(|(_, n)| n).sum();
        let unknown = seen.counts.iter().sum::<u64>() - known;
        let records = seen
            .records
            .iter()
            .map(|(name, n)| ((*name).to_owned(), *n));
        let all = kinds
            .chain([("perf/unknown".to_owned(), unknown)])
            .chain(records);
        trace.info.event_costs = all
            .filter(|(_, n)| *n > 0)
            .map(|(name, n)| EventCost {
                name,
                n,
                n_program: n,
                ..EventCost::default()
            })
            .collect();
        trace.n_kernel_events = trace.info.event_costs.iter().map(|kind| kind.n).sum();
        for &(cpu, from, to, count) in &seen.losses {
            trace.losses.push(Loss {
                cause: "kernel buffer overrun".into(),
                cpu: Some(cpu),
                thread: ThreadIx::NONE,
                when: back(from)..back(to),
                count,
                remedy: "record with larger rings: `perf record -m 16M`".into(),
            });
        }
        for error in &seen.errors {
            trace.losses.push(Loss {
                cause: format!("file damaged: {error}"),
                cpu: None,
                thread: ThreadIx::NONE,
                when: trace.span.clone(),
                count: 0,
                remedy: String::new(),
            });
        }
        trace
            .losses
            .sort_by_key(|l| (l.when.start, l.cpu, l.thread));
    }
}

/// One CPU's events.
struct CpuSource<'a> {
    shared: Rc<Shared<'a>>,
    raw: RawEvents,
    reader: CpuReader,
    cpu: u16,
    last: Time,
    /// Who came on by the last record of a switch.
    on: i32,
    counts: Vec<u64>,
    records: BTreeMap<&'static str, u64>,
}

impl CpuSource<'_> {
    fn count(&mut self, id: u16) {
        let id = usize::from(id);
        if id >= self.counts.len() {
            self.counts.resize(id + 1, 0);
        }
        self.counts[id] += 1;
    }

    fn tracepoint(&mut self, time: Time, data: &[u8], strings: &mut Strings) -> Option<Event> {
        let id = *data.first_chunk::<2>()?;
        let id = match self.shared.data.big_endian {
            true => u16::from_be_bytes(id),
            false => u16::from_le_bytes(id),
        };
        self.count(id);
        let mut event = self.raw.event(time, id, data, strings)?;
        if self.shared.switches == Switches::Both
            && let What::Switch { prev, left_as, .. } = event.what
        {
            event.what = What::Out { tid: prev, left_as };
        }
        Some(event)
    }

    fn record(
        &mut self,
        time: Time,
        (pid, tid): (i32, i32),
        context: i32,
        kind: RecordKind,
        strings: &mut Strings,
    ) -> Option<Event> {
        let switches = self.shared.switches;
        let (name, what) = match kind {
            RecordKind::SwitchIn { .. } => {
                self.on = tid;
                (
                    "perf/switch",
                    (switches != Switches::Tracepoint).then_some(What::In { tid }),
                )
            }
            RecordKind::SwitchOut { preempted, .. } => {
                // The kernel takes a thread's number from it before its last switch.
                let tid = if tid < 0 { self.on } else { tid };
                // Without preemption the record does not say how it sleeps.
                let left_as = match preempted {
                    true => ThreadState::RunnablePreempted,
                    false => ThreadState::Sleeping,
                };
                (
                    "perf/switch",
                    (switches == Switches::Records).then_some(What::Out { tid, left_as }),
                )
            }
            RecordKind::Fork { ppid, ptid } => (
                "perf/fork",
                Some(What::Fork {
                    parent: ptid,
                    child: tid,
                    comm: kasuri_model::StrIx::NONE,
                    pid: Some(pid),
                    same_process: Some(pid == ppid),
                }),
            ),
            RecordKind::Exit { .. } => (
                "perf/exit",
                Some(What::Exit {
                    tid,
                    // Of all CPUs, its last switch follows.
                    at_once: !is_system_wide(&self.shared.data),
                }),
            ),
            RecordKind::Comm { comm, .. } => (
                "perf/comm",
                Some(What::Rename {
                    tid,
                    comm: strings.intern(&comm),
                }),
            ),
            RecordKind::Lost { count } => {
                let loss = (self.cpu, self.last, time.max(self.last), count);
                self.shared.seen.borrow_mut().losses.push(loss);
                return Some(Event {
                    time: self.last,
                    context: -1,
                    in_interrupt: false,
                    what: What::Lost,
                });
            }
        };
        *self.records.entry(name).or_default() += 1;
        Some(Event {
            time,
            context,
            in_interrupt: false,
            what: what?,
        })
    }

    /// Hands over what was counted.
    fn end(&mut self) {
        let mut seen = self.shared.seen.borrow_mut();
        if seen.counts.len() < self.counts.len() {
            seen.counts.resize(self.counts.len(), 0);
        }
        for (id, n) in std::mem::take(&mut self.counts).into_iter().enumerate() {
            seen.counts[id] += n;
        }
        for (name, n) in std::mem::take(&mut self.records) {
            *seen.records.entry(name).or_default() += n;
        }
    }
}

impl CpuEvents for CpuSource<'_> {
    fn fill(
        &mut self,
        strings: &mut Strings,
        out: &mut Vec<Event>,
    ) -> Result<(), kasuri_model::Error> {
        let shared = self.shared.clone();
        while out.len() < BATCH {
            let Some(record) = self.reader.next(&shared.data) else {
                self.end();
                break;
            };
            let record = match record {
                Ok(record) => record,
                Err(error) if shared.salvage => {
                    let errors = &mut shared.seen.borrow_mut().errors;
                    if errors.len() < ERRORS_MAX {
                        errors.push(error);
                    }
                    continue;
                }
                Err(error) => return Err(crate::error::source(error)),
            };
            let time = time(record.time);
            if time < shared.start {
                continue;
            }
            let event = match record.what {
                RecordWhat::Tracepoint(data) => self.tracepoint(time, data, strings),
                RecordWhat::Sample => {
                    *self.records.entry("perf/sample").or_default() += 1;
                    None
                }
                RecordWhat::Record {
                    pid,
                    tid,
                    context,
                    kind,
                } => self.record(time, (pid, tid), context, kind, strings),
            };
            self.last = self.last.max(time);
            out.extend(event);
        }
        Ok(())
    }
}
