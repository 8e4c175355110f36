//! Reads `perf.data`, the file of `perf record`.
//!
//! [`PerfData`] parses the file and sorts its records by CPU. Two kinds of records matter here: raw samples of
//! tracepoints, which have the layout of the kernel's ring buffer and go through [`RawEvents`]; and the kernel's side
//! records (switches, forks, exits, names), which replace tracepoints that were not recorded. Samples with call chains
//! become samples of call paths ([`stacks`]); without any switch they weigh what the file says, and there are no states.
//!
//! Which switches are there depends on how perf was started:
//!
//! | recorded | sched_switch | switch records | used |
//! |---|---|---|---|
//! | all CPUs (`-a`, `perf sched record`) | each switch | maybe | sched_switch |
//! | a program, sched_switch alone | its threads leave a CPU | no | sched_switch; arrivals are seen late |
//! | a program, both (`--switch-events`) | its threads leave | they leave and arrive | sched_switch for departures, switch records for arrivals |
//! | either, switch records alone | no | each | switch records |
//!
//! The formats are described in tools/perf/Documentation/perf.data-file-format.txt and include/uapi/linux/perf_event.h.
mod stacks;

use crate::ahead::{Pool, lock};
use crate::raw_events::{RawEvents, RawSetup};
use crate::{Clock, Error, File, Kind, Opened, Options, Source};
use kasuri_format::perf::RecordKind;
use kasuri_format::perf_data::{CpuReader, PerfData, RecordWhat};
use kasuri_format::tracefs::EventFormat;
use kasuri_format::{Error as FormatError, ErrorKind};
use kasuri_model::input::{CpuEvents, Event, KnownThread, Setup, What};
use kasuri_model::{EventCost, Info, Loss, Strings, ThreadIx, ThreadState, Time, Trace};
use stacks::Stacks;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex};

/// Events that one call of `fill` makes.
const BATCH: usize = 512;
/// Most errors that are kept: a file of noise has one per record.
const ERRORS_MAX: usize = 100;

/// Whether it is a single file that begins as perf's.
pub(crate) fn detect(files: &[File<'_>]) -> bool {
    matches!(files, [file] if PerfData::is(file.bytes))
}

/// Reads the headers, and the positions of all records by CPU.
///
/// # Errors
/// Damage, unless `options.salvage` passes over it; records without a time or, with switches, without a CPU.
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
    let formats = formats(&data, options, &mut errors).map_err(wrong)?;
    let has = |name: &str| formats.iter().any(|f| f.name == name);
    let switches = Switches::of(&data, has("sched/sched_switch"));
    let raw = RawEvents::new(
        &formats,
        &RawSetup {
            big_endian: data.big_endian,
            machine: &data.features.arch,
            has_waking: has("sched/sched_waking"),
            switch_format: data.formats.get("sched/sched_switch").map_or("", String::as_str),
        },
    );
    let root = root(&data);
    let mut opened = Opened::new(Kind::PerfData, clock(&data));
    let switch = formats.iter().find(|f| f.name == "sched/sched_switch");
    let stacks = stacks::read(&data, switch.map(|f| f.id.into()));
    opened.setup = setup(&data, root, has("sched/sched_migrate_task"));
    let is_profile = switches == Switches::Records && !data.has_switches;
    let until = match is_profile {
        true => Time::MAX,
        false => opened.setup.span.start,
    };
    add_known(&data, &mut opened.setup, until);
    if is_profile {
        add_sampled(&stacks, &mut opened.setup);
        if opened.setup.root_pids.is_empty() {
            // Nothing else mentions threads, so of a whole system all processes are what was recorded.
            let pids: HashSet<i32> = opened.setup.known.iter().map(|known| known.pid).collect();
            opened.setup.root_pids = pids.into_iter().collect();
            opened.setup.whole_system = true;
        }
    }
    opened.realtime_offset_ns =
        (data.features.clock_data).map(|(real, own)| (real as i64).wrapping_sub(own as i64));
    opened.info = info(&data, root, switches, &formats);
    opened.info.missing.extend(missing_code(&stacks));
    let shared = Arc::new(Shared {
        data,
        switches,
        salvage: options.salvage,
        has_execs: has("sched/sched_process_exec"),
        start: opened.setup.span.start,
        seen: Mutex::new(Seen { errors, ..Seen::default() }),
    });
    // Without switches a fork or an exit would be all that is known of when a thread ran.
    for (cpu, _) in shared.data.cpus().filter(|_| !is_profile) {
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
        opened.cpus.push((cpu, Source::Apart(Box::new(source))));
    }
    opened.pool = Pool::new(options, file.bytes.len());
    let (start, name_code) = (shared.start, options.name_code);
    opened.finish = Box::new(move |trace| {
        shared.finish(trace, &formats);
        stacks.add_to(trace, start, is_profile, name_code);
    });
    Ok(opened)
}

/// Refuses a file whose records lack times or CPUs, and names the option that records them.
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
    let has_switches = data.has_switches || data.formats.contains_key("sched/sched_switch");
    if data.n_without_cpu > 0 && data.n_without_cpu == records && has_switches {
        return refuse(
            format!("{records} records without a CPU"),
            "PERF_SAMPLE_CPU",
            "`perf record --sample-cpu` records CPUs",
        );
    }
    Ok(())
}

/// The source of switches: which records give the thread on a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Switches {
    /// sched_switch.
    Tracepoint,
    /// sched_switch for departures, switch records for arrivals.
    Both,
    /// Switch records.
    Records,
}

impl Switches {
    /// The table in the head of this file.
    fn of(data: &PerfData<'_>, has_tracepoint: bool) -> Switches {
        match (has_tracepoint, is_system_wide(data), data.has_switches) {
            (false, _, _) => Switches::Records,
            (true, false, true) => Switches::Both,
            (true, _, _) => Switches::Tracepoint,
        }
    }
}

/// Whether perf recorded all programs. Files that do not say so are judged by `enable_on_exec`, which perf sets on the
/// events of a program that it starts.
fn is_system_wide(data: &PerfData<'_>) -> bool {
    let own = data.attrs.iter().any(|attr| attr.enable_on_exec);
    data.system_wide.unwrap_or(!own)
}

/// The clock of the stamps: `clockid` of the events (`perf record -k`), numbered as by clock_gettime(2).
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

/// The clock's name, as tracefs has it.
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

/// Pid and name of the program that perf started, if the recording is about it. `perf record -a sleep 10` is not about
/// sleep.
fn root<'d>(data: &'d PerfData<'_>) -> Option<(i32, &'d str)> {
    let waits_for_exec = |pid: i32| {
        (data.threads.iter()).any(|t| t.pid == pid && matches!(&*t.comm, "perf-exec" | "perf"))
    };
    // Between fork and exec a program that perf starts is called `perf-exec`, or `perf` by older versions.
    let (pid, comm) = (data.execs.iter()).find(|(pid, _)| {
        waits_for_exec(*pid) || (!is_system_wide(data) && data.asked_pids.contains(pid))
    })?;
    (comm != "sleep").then_some((*pid, comm))
}

/// The program's command line: perf's from the program's name on, or all of it if the name is not there.
fn command(data: &PerfData<'_>, root: Option<(i32, &str)>) -> Vec<String> {
    let all = &data.features.cmdline;
    let is_name = |arg: &String| {
        let base = arg.rsplit('/').next().unwrap_or(arg);
        // The kernel truncates names to 15 bytes.
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

/// The facts that the passes need before the first event.
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
    // The header has CPUs that could be there and CPUs that are online. No machine has more than 8192.
    let (_, online) = data.features.n_cpus.unwrap_or_default();
    let online = online.min(8192);
    Setup {
        span: Time::from_ns(first)..Time::from_ns(last),
        n_cpus: online as usize,
        root_pids: match root {
            Some((pid, _)) => vec![pid],
            None => data.asked_pids.clone(),
        },
        known: known.collect(),
        recorded: (0..online).collect(),
        // perf enables the events one by one, on one CPU after another. Only for a program that it starts, the exec
        // enables all of them at once.
        starts_late: !data.attrs.iter().any(|attr| attr.enable_on_exec),
        has_migrations,
        ..Setup::default()
    }
}

/// The layouts of the tracepoints that were recorded.
fn formats(
    data: &PerfData<'_>,
    options: &Options,
    errors: &mut Vec<FormatError>,
) -> Result<Vec<EventFormat>, FormatError> {
    let mut formats = Vec::new();
    for (name, text) in &data.formats {
        match EventFormat::parse(name, text) {
            Ok(format) => formats.push(format),
            Err(error) if options.salvage => errors.push(error),
            Err(error) => return Err(error),
        }
    }
    // A format alone does not mean that the event was recorded.
    let opened_ids: Vec<u64> =
        (data.attrs.iter().filter(|a| a.is_tracepoint())).map(|a| a.config).collect();
    formats.retain(|f| opened_ids.contains(&f.id.into()));
    Ok(formats)
}

/// Adds the threads that forks and names before `until` report. perf records these for a while before it records switches.
fn add_known(data: &PerfData<'_>, setup: &mut Setup, until: Time) {
    let start = setup.span.start;
    for (cpu, _) in data.cpus() {
        let mut reader = data.reader(cpu);
        // Damage ends this scan silently; it is reported when the events are read.
        while let Some(Ok(record)) = reader.next(data) {
            let time = Time::from_ns(record.time);
            if time >= until {
                break;
            }
            let RecordWhat::Record { pid, tid, kind, .. } = record.what else {
                continue;
            };
            let known = KnownThread { time, pid, tid, ..KnownThread::default() };
            match kind {
                RecordKind::Comm { comm, .. } => setup.known.push(KnownThread { comm, ..known }),
                RecordKind::Fork { ppid, .. } => setup.known.push(KnownThread { ppid, ..known }),
                // Its number may be another's at the start.
                RecordKind::Exit { .. } if time < start => setup.known.retain(|k| k.tid != tid),
                _ => {}
            }
        }
    }
    setup.known.sort_by_key(|k| k.time);
    // One row per thread, with the last known name and the first known parent.
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

/// Adds the threads that samples alone show. A thread without a name has its process's.
fn add_sampled(stacks: &Stacks, setup: &mut Setup) {
    let has: HashSet<i32> = setup.known.iter().map(|known| known.tid).collect();
    let sampled = stacks.threads().filter(|(_, tid)| !has.contains(tid));
    let rows = sampled.map(|(pid, tid)| KnownThread {
        time: setup.span.start,
        pid,
        tid,
        ..KnownThread::default()
    });
    setup.known.extend(rows);
    let named = setup.known.iter().filter(|known| known.tid == known.pid);
    let names: HashMap<i32, String> = named.map(|known| (known.pid, known.comm.clone())).collect();
    for known in setup.known.iter_mut().filter(|known| known.comm.is_empty()) {
        known.comm = names.get(&known.pid).cloned().unwrap_or_default();
    }
}

/// Limitations of the call paths.
fn missing_code(stacks: &Stacks) -> Vec<String> {
    let mut out = Vec::new();
    if stacks.has_copies && !stacks.is_empty() {
        out.push(
            "the program's stacks were recorded as copies, which are not followed: one function of the program for each sample; \
             `perf record --call-graph fp` or `kasuri record` record call paths"
                .into(),
        );
    }
    out
}

/// Facts for people.
fn info(
    data: &PerfData<'_>,
    root: Option<(i32, &str)>,
    switches: Switches,
    formats: &[EventFormat],
) -> Info {
    let features = &data.features;
    let mut kind = "perf.data".to_owned();
    let marks =
        [(data.pipe, "pipe"), (data.compressed, "compressed"), (data.big_endian, "big-endian")];
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

/// The completeness of the events, as a value of [`Info::kernel_source`]: "tracefs" for all switches and wake-ups,
/// "perf" for the switches of one program, as in an unprivileged recording, "none" for no switches. Analyses rely on
/// it.
fn source(data: &PerfData<'_>, switches: Switches, formats: &[EventFormat]) -> &'static str {
    let has = |name: &str| formats.iter().any(|f| f.name == name);
    match switches {
        Switches::Records if !data.has_switches => "none",
        Switches::Tracepoint if is_system_wide(data) => "tracefs",
        Switches::Both if has("sched/sched_waking") => "tracefs",
        _ => "perf",
    }
}

/// Limitations: what was not recorded, and which option of perf records it.
fn missing(data: &PerfData<'_>, switches: Switches, formats: &[EventFormat]) -> Vec<String> {
    let has = |name: &str| formats.iter().any(|f| f.name == name);
    let mut out = Vec::new();
    let nobody = switches == Switches::Records && !data.has_switches;
    if nobody {
        out.push(
            "no switches were recorded: who ran where and when is unknown, and there is no account; `perf sched record`, \
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
    if !nobody && data.n_without_cpu > 0 {
        out.push(format!(
            "{} of the records do not say on which CPU they were written, and stand on CPU 0; `perf record --sample-cpu` records CPUs",
            data.n_without_cpu
        ));
    }
    if data.n_foreign > 0 {
        out.push(format!(
            "{} of the records are of events that the file does not describe, and are left out",
            data.n_foreign
        ));
    }
    if let Some(first) = data.unread.first() {
        out.push(format!(
            "{} of the header's features (facts about the machine, names) could not be read, and are left out; the first: {first}",
            data.unread.len()
        ));
    }
    out
}

/// The part that all CPUs share.
struct Shared<'a> {
    data: PerfData<'a>,
    switches: Switches,
    salvage: bool,
    /// Execs are recorded as tracepoints.
    has_execs: bool,
    /// The start of the span. Threads of earlier records are in [`Setup::known`].
    start: Time,
    seen: Mutex<Seen>,
}

/// Damage, losses and counts, collected while events were read.
#[derive(Default)]
struct Seen {
    errors: Vec<FormatError>,
    /// Lost events: CPU, from, to, number.
    losses: Vec<(u16, Time, Time, u64)>,
    /// Number of tracepoint events by id.
    counts: Vec<u64>,
    /// Number of other records by kind.
    records: BTreeMap<&'static str, u64>,
}

impl Shared<'_> {
    /// Adds the counts, losses and damage to the finished trace.
    fn finish(&self, trace: &mut Trace, formats: &[EventFormat]) {
        let back = |time: Time| Time(time.0.saturating_sub(self.start.0));
        let seen = lock(&self.seen);
        // Each count goes to one name, also where a damaged file has two formats of one id.
        let mut left = seen.counts.clone();
        let mut kinds = Vec::new();
        for format in formats {
            if let Some(n) = left.get_mut(usize::from(format.id)) {
                kinds.push((format.name.clone(), std::mem::take(n)));
            }
        }
        let unknown = left.iter().sum();
        let records = seen.records.iter().map(|(name, n)| ((*name).to_owned(), *n));
        let all = (kinds.into_iter()).chain([("perf/unknown".to_owned(), unknown)]).chain(records);
        trace.info.event_costs = all
            .filter(|(_, n)| *n > 0)
            .map(|(name, n)| EventCost { name, n, n_program: n, ..EventCost::default() })
            .collect();
        trace.n_kernel_events = trace.info.event_costs.iter().map(|kind| kind.n).sum();
        // PERF_RECORD_LOST has the number of events, and comes where the next one found room.
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
        trace.losses.sort_by_key(|l| (l.when.start, l.cpu, l.thread));
    }
}

/// One CPU's events.
struct CpuSource<'a> {
    shared: Arc<Shared<'a>>,
    raw: RawEvents,
    reader: CpuReader,
    cpu: u16,
    last: Time,
    /// The thread that arrived last, according to the switch records; -1: unknown. It stands in where a record of the
    /// departure has no thread id.
    on: i32,
    counts: Vec<u64>,
    records: BTreeMap<&'static str, u64>,
}

impl CpuSource<'_> {
    /// Counts a tracepoint event.
    fn count(&mut self, id: u16) {
        let id = usize::from(id);
        if id >= self.counts.len() {
            self.counts.resize(id + 1, 0);
        }
        self.counts[id] += 1;
    }

    /// The event of a raw sample, whose first two bytes are the event's id (`common_type`).
    fn tracepoint(&mut self, time: Time, data: &[u8], strings: &mut Strings) -> Option<Event> {
        let id = *data.first_chunk::<2>()?;
        let id = match self.shared.data.big_endian {
            true => u16::from_be_bytes(id),
            false => u16::from_le_bytes(id),
        };
        self.count(id);
        let mut event = self.raw.event(time, id, data, strings)?;
        // It shows departures only, and switch records the arrivals: see the table above.
        if self.shared.switches == Switches::Both
            && let What::Switch { prev, left_as, .. } = event.what
        {
            event.what = What::Out { tid: prev, left_as };
        }
        Some(event)
    }

    /// The event of a side record.
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
                ("perf/switch", (switches != Switches::Tracepoint).then_some(What::In { tid }))
            }
            RecordKind::SwitchOut { preempted, .. } => {
                // An exiting thread has no id any more at its last switch, and the record says -1.
                let tid = if tid < 0 { self.on } else { tid };
                // A record without the flag of preemption does not say how the thread sleeps.
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
                    // In a recording of all CPUs, the thread's last switch follows.
                    at_once: !is_system_wide(&self.shared.data),
                }),
            ),
            RecordKind::Comm { comm, .. } => {
                ("perf/comm", Some(What::Rename { tid, comm: strings.intern(&comm) }))
            }
            RecordKind::Lost { count } => {
                let loss = (self.cpu, self.last, time.max(self.last), count);
                lock(&self.shared.seen).losses.push(loss);
                return Some(Event {
                    time: self.last,
                    context: -1,
                    in_interrupt: false,
                    what: What::Lost,
                });
            }
        };
        *self.records.entry(name).or_default() += 1;
        Some(Event { time, context, in_interrupt: false, what: what? })
    }

    /// Adds this CPU's counts to those of all CPUs. They are kept apart until then, so that no event costs a borrow.
    fn end(&mut self) {
        let mut seen = lock(&self.shared.seen);
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
                    let errors = &mut lock(&shared.seen).errors;
                    if errors.len() < ERRORS_MAX {
                        errors.push(error);
                    }
                    continue;
                }
                Err(error) => return Err(crate::error::source(error)),
            };
            let time = Time::from_ns(record.time);
            if time < shared.start {
                continue;
            }
            let begun = match record.what {
                RecordWhat::Record { tid, kind: RecordKind::Comm { exec: true, .. }, .. } => {
                    (!shared.has_execs).then_some(tid)
                }
                _ => None,
            };
            let event = match record.what {
                RecordWhat::Tracepoint(data) => self.tracepoint(time, data, strings),
                RecordWhat::Sample => {
                    *self.records.entry("perf/sample").or_default() += 1;
                    None
                }
                RecordWhat::Record { pid, tid, context, kind } => {
                    self.record(time, (pid, tid), context, kind, strings)
                }
            };
            self.last = self.last.max(time);
            out.extend(event);
            if let (Some(tid), Some(event)) = (begun, event) {
                out.push(Event { what: What::Exec { tid, old_tid: tid }, ..event });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kasuri_format::perf_data::{Attr, FoundThread};

    /// What `perf record ARGS` leaves: `found` in /proc, `execs` meanwhile.
    fn recorded(args: &str, found: &[(i32, &str)], execs: &[(i32, &str)]) -> PerfData<'static> {
        let mut data = PerfData::default();
        data.features.cmdline = args.split(' ').map(str::to_owned).collect();
        let thread = |&(pid, comm): &(i32, &str)| FoundThread {
            pid,
            tid: pid,
            ppid: 1,
            comm: comm.to_owned(),
        };
        data.threads = found.iter().map(thread).collect();
        data.execs = execs.iter().map(|&(p, c)| (p, c.to_owned())).collect();
        data
    }

    #[test]
    fn the_program_is_the_first_exec_of_the_process_that_perf_forked() {
        let shell = [(5, "bash"), (7, "perf-exec")];
        let execs = [(9, "cron"), (7, "make"), (8, "cc1")];
        let data = recorded("perf record make -j2", &shell, &execs);
        assert_eq!(root(&data), Some((7, "make")));
        assert_eq!(command(&data, root(&data)), ["make", "-j2"]);
        // Older versions of perf keep their own name until the exec.
        let data = recorded("perf record make -j2", &[(7, "perf")], &execs);
        assert_eq!(root(&data), Some((7, "make")));
        // `-a sleep 10` is about the machine.
        let data = recorded("perf record -a sleep 10", &shell, &[(7, "sleep")]);
        assert_eq!(root(&data), None);
        assert_eq!(command(&data, None), Vec::<String>::new());
        assert_eq!(root(&recorded("perf record -a", &shell, &[])), None);
    }

    #[test]
    fn a_process_that_was_asked_for_is_the_program_unless_all_were_recorded() {
        let mut data = recorded("perf record -p 5", &[(5, "bash")], &[(9, "cron"), (5, "ls")]);
        data.asked_pids = vec![5];
        data.system_wide = Some(false);
        assert_eq!(root(&data), Some((5, "ls")));
        data.system_wide = Some(true);
        assert_eq!(root(&data), None);
        // Where the file does not say, events that the exec enables are those of one program.
        data.system_wide = None;
        assert_eq!(root(&data), None);
        data.attrs = vec![Attr { enable_on_exec: true, ..Attr::default() }];
        assert_eq!(root(&data), Some((5, "ls")));
    }

    #[test]
    fn the_command_is_found_by_a_name_that_the_kernel_cut() {
        let name = "a-very-long-program-name";
        let line = format!("perf record -o a-very-long.data ./bin/{name} --{name}");
        let data = recorded(&line, &[(7, "perf-exec")], &[(7, &name[..15])]);
        let found = command(&data, root(&data));
        assert_eq!(found, [format!("./bin/{name}"), format!("--{name}")]);
        // perf itself may be recorded by perf: the first word is not the program's.
        let data = recorded("perf record perf list", &[(7, "perf-exec")], &[(7, "perf")]);
        assert_eq!(command(&data, root(&data)), ["perf", "list"]);
        let data = recorded("perf record ./run", &[(7, "perf-exec")], &[(7, "python3")]);
        assert_eq!(command(&data, root(&data)), ["perf", "record", "./run"]);
    }

    #[test]
    fn each_clock_that_perf_can_use() {
        for (clockid, expected) in [
            (Some(0), Clock::Realtime),
            (Some(1), Clock::Monotonic),
            (Some(4), Clock::MonotonicRaw),
            (Some(7), Clock::Boottime),
            (Some(11), Clock::Other),
            (None, Clock::Sched),
        ] {
            let mut data = PerfData::default();
            data.attrs = vec![Attr { clockid, ..Attr::default() }];
            assert_eq!(clock(&data), expected);
            assert!(!clock_name(expected).is_empty());
        }
    }
}
