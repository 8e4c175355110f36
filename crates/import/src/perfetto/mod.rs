//! Reads Perfetto's protobuf traces: the kernel's events (ftrace bundles, compact or not), track events, processes.
//!
//! A trace is a sequence of packets (protos/perfetto/trace/trace_packet.proto), possibly packed in groups. The file is
//! walked twice:
//!
//! 1. [`Reader::describe`] takes in descriptions: clocks, tracks, processes, and the positions of bundles. A
//!    description may come after the events that need it, hence a walk of its own.
//! 2. [`Reader::track_events`] reads the track events, converts their stamps, and keeps them packed ([`crate::annotation_log`]).
//!
//! Bundles, the bulk of a system trace, are decoded when the passes ask for the events of their CPU.
//!
//! | module | content |
//! |---|---|
//! | `blocks` | the bytes of the file and of compressed packets |
//! | `clocks` | conversion of stamps between clocks |
//! | `sequence` | interned names and defaults of a writer |
//! | `tracks` | the row that a track's events belong to |
//! | `events` | annotations from track events |
//! | `counts` | how many packets and kernel events of each kind there are |
//! | `cpu` | kernel events of a CPU from its bundles |
//! | `kernel_marks` | annotations and counters from its bundles |
//! | `generic_kernel` | threads' states on kernels other than Linux |
//! | `service` | what the recorder lost |
mod blocks;
mod clocks;
mod counts;
mod cpu;
mod events;
mod generic_kernel;
mod kernel_marks;
mod sequence;
mod service;
mod tracks;

use crate::annotation_log::Carriers;
use crate::prev_state::PrevState;
use crate::{Clock, Error, File, Kind, Opened, Options, Source};
use blocks::{Blocks, Place};
use clocks::{BOOTTIME, Clocks, MONOTONIC, REALTIME};
use counts::{Counts, SCHED_MIGRATE_TASK, SCHED_WAKING};
use cpu::{Cpu, Kernel, MAX_CPUS};
use events::Events;
use generic_kernel::GenericKernel;
use kasuri_format::Error as Damage;
use kasuri_format::perfetto::wire::Message;
use kasuri_format::perfetto::{
    Bundle, ClockSnapshot, Data, FtraceStats, Packet, Packets, SystemInfo, TaskState,
    TrackDescriptor, TrackEvent, android_log, cpu_frequency, is_trace, journal_entry,
    process_stats, processes, service_buffers, sys_stats, task_rename, tasks,
};
use kasuri_model::input::{AnnotationEvents, CpuVec, KnownThread};
use kasuri_model::{Loss, Strings, ThreadIx, Time, Trace};
use sequence::Sequence;
use service::Service;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use tracks::TrackTable;

/// Limits of all compressed packets together: the bytes that any trace may unpack to, and how many times its size a
/// larger one may.
const ALWAYS: u64 = 1 << 30;
const RATIO: u64 = 100;

/// Whether it is a single file that begins with a packet of Perfetto.
pub(crate) fn detect(files: &[File<'_>]) -> bool {
    matches!(files, [file] if is_trace(file.bytes))
}

/// The findings of the first walk.
struct Reader<'a> {
    blocks: Blocks<'a>,
    clocks: Clocks,
    tracks: TrackTable,
    known: Vec<KnownThread>,
    process_names: HashMap<i32, String>,
    system: SystemInfo,
    /// The positions of the bundles of each CPU, in the order of the file.
    bundles: BTreeMap<u16, Vec<Place>>,
    counts: Counts,
    service: Service,
    generic: GenericKernel,
    damage: Vec<Damage>,
    /// Numbers of track events that are left out: those whose names were in a lost packet, and those without a known
    /// time.
    n_incomplete: u64,
    n_timeless: u64,
    /// Damage is noted instead of ending the reading.
    salvage: bool,
}

/// Walks the file twice and makes the streams.
pub(crate) fn open<'a>(
    files: &'a [File<'a>],
    options: &Options,
    strings: &mut Strings,
) -> Result<Opened<'a>, Error> {
    let file = files.first().copied().unwrap_or_default();
    let mut reader = Reader {
        blocks: Blocks::new(file.bytes),
        clocks: Clocks::default(),
        tracks: TrackTable::default(),
        known: Vec::new(),
        process_names: HashMap::new(),
        system: SystemInfo::default(),
        bundles: BTreeMap::new(),
        counts: Counts::default(),
        service: Service::default(),
        generic: GenericKernel::default(),
        damage: Vec::new(),
        n_incomplete: 0,
        n_timeless: 0,
        salvage: options.salvage,
    };
    let format = |error| Error::format(file.name, error);
    reader.describe(file.bytes).map_err(format)?;
    reader.clocks.sort();
    let events = reader.track_events(file.bytes, strings).map_err(format)?;
    reader.finish(events, strings).map_err(format)
}

impl<'a> Reader<'a> {
    /// Passes an error on, or notes it while the file is salvaged. A file of noise must not fill the memory, so the
    /// list is limited.
    fn note(&mut self, result: Result<(), Damage>) -> Result<(), Damage> {
        match result {
            Err(error) if self.salvage => {
                if self.damage.len() < 1000 {
                    self.damage.push(error);
                }
                Ok(())
            }
            other => other,
        }
    }

    /// First walk: all packets but track events.
    fn describe(&mut self, file: &'a [u8]) -> Result<(), Damage> {
        let mut packets = Packets::new(file, 0);
        // A small file that unpacks to more is built to exhaust memory, not recorded.
        let (mut unpacked, limit) = (0u64, ALWAYS.max((file.len() as u64).saturating_mul(RATIO)));
        while let Some(packet) = self.next(&mut packets)? {
            let result = match self.blocks.add(&packet) {
                Ok(None) => self.packet(&packet, 0),
                Ok(Some((block, bytes))) => {
                    unpacked += bytes.len() as u64;
                    if unpacked > limit {
                        let found = format!("more than {limit} bytes");
                        return Err(kasuri_format::perfetto::unpack_error(packet.offset, found));
                    }
                    self.describe_block(block, &bytes, packet.offset)
                }
                Err(error) => Err(error),
            };
            self.note(result)?;
        }
        Ok(())
    }

    /// Takes in the packets of a compressed packet. Errors get the offset of the compressed packet in the file.
    fn describe_block(&mut self, block: u32, bytes: &[u8], offset: u64) -> Result<(), Damage> {
        let mut packets = Packets::new(bytes, 0);
        loop {
            let here = |mut error: Damage| {
                error.offset = offset;
                error
            };
            match packets.next_packet().map_err(here)? {
                Some(packet) => self.packet(&packet, block).map_err(here)?,
                None => return Ok(()),
            }
        }
    }

    /// The next packet of the file. While the file is salvaged, a packet with damaged content is left out; if the
    /// packets cannot be told apart any more, the walk ends.
    fn next<'p>(&mut self, packets: &mut Packets<'p>) -> Result<Option<Packet<'p>>, Damage> {
        loop {
            let before = packets.offset();
            match packets.next_packet() {
                Err(error) => {
                    self.note(Err(error))?;
                    if packets.offset() == before {
                        return Ok(None);
                    }
                }
                ok => return ok,
            }
        }
    }

    /// Takes in a description. `block`: 0 for the file, else the number of the compressed packet.
    fn packet(&mut self, packet: &Packet, block: u32) -> Result<(), Damage> {
        self.counts.packet(packet);
        match packet.data {
            Data::Ftrace(message) => {
                let start = message.offset() as usize;
                let bundle = Bundle::parse(message)?;
                if bundle.cpu < MAX_CPUS {
                    // The events themselves are read when the passes ask for them.
                    self.counts.events.add(&bundle)?;
                    let end = start + message.bytes().len();
                    let bundles = self.bundles.entry(bundle.cpu as u16).or_default();
                    bundles.push(Place { block, start, end });
                } else {
                    self.counts.no_cpu.add(&bundle)?;
                }
            }
            Data::ClockSnapshot(message) => {
                self.clocks.add(&ClockSnapshot::parse(message)?, packet.sequence);
            }
            Data::ProcessTree(message) => {
                let time = Time(packet.timestamp.unwrap_or(0) as i64);
                processes(message, |p| {
                    // A path, of which the kernel's names have only the last part.
                    let comm = p.name.rsplit('/').next().unwrap_or(&p.name);
                    if p.tid == p.pid && !p.name.is_empty() {
                        self.process_names.insert(p.pid, comm.to_owned());
                    }
                    self.known.push(KnownThread {
                        time,
                        pid: p.pid,
                        tid: p.tid,
                        ppid: p.ppid,
                        comm: comm.to_owned(),
                    });
                })?;
            }
            Data::TrackDescriptor(message) => {
                let described = self.tracks.describe(&TrackDescriptor::parse(message)?);
                if let Some(thread) = described.filter(|t| t.tid > 0) {
                    self.known.push(KnownThread {
                        time: Time(i64::MIN),
                        pid: thread.pid,
                        tid: thread.tid,
                        ppid: 0,
                        comm: thread.name,
                    });
                }
            }
            Data::SystemInfo(message) => self.system = SystemInfo::parse(message)?,
            Data::FtraceStats(message) => self.service.ftrace(FtraceStats::parse(message)?),
            Data::TraceStats(message) => self.service.buffers = service_buffers(message)?,
            Data::GenericTree(message) => self.generic_tree(packet, message)?,
            _ => {}
        }
        Ok(())
    }

    /// Takes in the processes of a kernel other than Linux.
    fn generic_tree(&mut self, packet: &Packet, message: Message<'_>) -> Result<(), Damage> {
        let time = Time(packet.timestamp.unwrap_or(0) as i64);
        tasks(message, |task| {
            if let Some(known) = generic_kernel::known(time, &task) {
                if known.tid == known.pid && !known.comm.is_empty() {
                    (self.process_names).insert(known.pid, known.comm.clone());
                }
                self.known.push(known);
            }
        })
    }

    /// Second walk: track events, and the texts of `trace_marker` in bundles.
    fn track_events(&mut self, file: &'a [u8], strings: &mut Strings) -> Result<Events, Damage> {
        let mut events = Events::default();
        let mut sequences = HashMap::new();
        events.kernel.processes = self.known.iter().map(|k| (k.tid, k.pid)).collect();
        let mut packets = Packets::new(file, 0);
        let mut block = 0;
        // The first walk noted the damage already; the second would note it again.
        let noted = std::mem::take(&mut self.damage);
        while let Some(packet) = self.next(&mut packets)? {
            if !matches!(packet.data, Data::Deflated(_) | Data::Zstd(_)) {
                let result = self.track_event(&packet, &mut sequences, &mut events, strings);
                self.note(result)?;
                continue;
            }
            block += 1;
            if block > self.blocks.n_packed() {
                break;
            }
            // The first walk unpacked it already, and noted where that failed.
            let Ok(bytes) = self.blocks.get(block) else {
                continue;
            };
            let mut inner = Packets::new(bytes.all(), 0);
            while let Ok(Some(inner)) = inner.next_packet() {
                let result = self.track_event(&inner, &mut sequences, &mut events, strings);
                let result = result.map_err(|mut error| {
                    error.offset = packet.offset;
                    error
                });
                self.note(result)?;
            }
        }
        if !noted.is_empty() {
            self.damage = noted;
        }
        for (pid, tid, name) in self.tracks.alike() {
            events.name_thread((pid, tid), strings.intern(name));
        }
        Ok(events)
    }

    /// Takes in a packet of the second walk. Each writer has its own interned names, and clocks that count differences,
    /// so its packets must come in the order of the file.
    fn track_event(
        &mut self,
        packet: &Packet,
        sequences: &mut HashMap<u32, Sequence>,
        events: &mut Events,
        strings: &mut Strings,
    ) -> Result<(), Damage> {
        let sequence = sequences.entry(packet.sequence).or_default();
        let is_whole = sequence.enter(packet, strings)?;
        match packet.data {
            Data::ClockSnapshot(message) => {
                self.clocks.pass(&ClockSnapshot::parse(message)?, packet.sequence);
            }
            Data::ProcessDescriptor(message) => {
                let track = TrackDescriptor::of_process(message)?;
                if let Some((pid, name)) = track.process {
                    sequence.pid = Some(pid);
                    self.process_names.entry(pid).or_insert(name.into_owned());
                }
            }
            Data::ThreadDescriptor(message) => {
                let (track, reference_us) = TrackDescriptor::of_thread(message)?;
                if let Some((pid, tid, name)) = track.thread {
                    let tid = i32::try_from(tid).unwrap_or(0);
                    sequence.thread = Some((pid, tid));
                    sequence.last_us = reference_us;
                    self.known.push(KnownThread {
                        time: Time(i64::MIN),
                        pid,
                        tid,
                        ppid: 0,
                        comm: name.into_owned(),
                    });
                }
            }
            Data::Ftrace(message) => {
                let (bundle, clocks) = (Bundle::parse(message)?, &self.clocks);
                bundle.marks(&mut |event| {
                    if let Some(ns) = cpu::time(clocks, &bundle, event.time) {
                        events.mark(Time(ns), &event, sequence, strings);
                    }
                })?;
            }
            Data::ProcessStats(_) | Data::AndroidLog(_) | Data::Journal(_) => {
                self.of_processes(packet, sequence, events, strings)?;
            }
            Data::SysStats(_)
            | Data::TaskState(_)
            | Data::TaskRename(_)
            | Data::CpuFrequency(_) => {
                self.of_machine(packet, sequence, events, strings)?;
            }
            Data::TrackEvent(message) => {
                // Its names stand in a packet that was lost.
                if !is_whole {
                    self.n_incomplete += 1;
                    return Ok(());
                }
                let e = TrackEvent::parse(message)?;
                match self.time(packet, &e, sequence) {
                    Some(ns) => events.event(ns, &e, sequence, &mut self.tracks, strings)?,
                    None => self.n_timeless += 1,
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The time of a packet; none: it is not known, or before the trace's clock began, and the packet counts as left out.
    fn time_of(
        &mut self,
        packet: &Packet,
        sequence: &Sequence,
        events: &mut Events,
    ) -> Option<i64> {
        let time = self.stamp(packet, sequence);
        match time {
            None => self.n_timeless += 1,
            Some(time) if time < 0 => events.n_early += 1,
            Some(_) => {}
        }
        time.filter(|&time| time >= 0)
    }

    /// Takes in quantities of the machine, and what a kernel other than Linux told of threads.
    fn of_machine(
        &mut self,
        packet: &Packet,
        sequence: &Sequence,
        events: &mut Events,
        strings: &mut Strings,
    ) -> Result<(), Damage> {
        let Some(time) = self.time_of(packet, sequence, events) else {
            return Ok(());
        };
        let mut count = |name: &str, value| {
            events.value(0, Time(time), strings.intern(name), value);
        };
        match packet.data {
            Data::SysStats(message) => sys_stats(message, count)?,
            Data::CpuFrequency(message) => {
                let (cpu, hz) = cpu_frequency(message)?;
                count(&format!("cpufreq_khz [CPU {cpu}]"), hz as f64 / 1000.0);
            }
            Data::TaskState(message) => {
                self.generic.state(time, &TaskState::parse(message)?, strings);
            }
            Data::TaskRename(message) => {
                let (tid, comm) = task_rename(message)?;
                self.generic.rename(time, tid, &comm, strings);
            }
            _ => {}
        }
        Ok(())
    }

    /// Takes in what processes used or logged.
    fn of_processes(
        &mut self,
        packet: &Packet,
        sequence: &Sequence,
        events: &mut Events,
        strings: &mut Strings,
    ) -> Result<(), Damage> {
        match packet.data {
            Data::ProcessStats(message) => {
                let Some(time) = self.time_of(packet, sequence, events) else {
                    return Ok(());
                };
                events.saw(time);
                process_stats(message, |pid, name, value| {
                    events.count(pid, Time(time), strings.intern(name), value as f64);
                })?;
            }
            Data::AndroidLog(message) => {
                let at_packet = self.stamp(packet, sequence);
                let (clocks, n_timeless) = (&self.clocks, &mut self.n_timeless);
                android_log(message, |entry| {
                    let at_entry = entry.realtime_ns;
                    let time = match at_entry {
                        Some(ns) => clocks.convert((REALTIME, 0), ns),
                        None => at_packet,
                    };
                    match time {
                        Some(time) => events.message(time, &entry, strings),
                        None => *n_timeless += 1,
                    }
                })?;
            }
            Data::Journal(message) => {
                if let Some(entry) = journal_entry(message)? {
                    match self.stamp(packet, sequence) {
                        Some(time) => events.message(time, &entry, strings),
                        None => self.n_timeless += 1,
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The time of a track event on the trace's clock; none: unknown. Old writers put microseconds into the event,
    /// absolute or as a difference, instead of a stamp on the packet.
    fn time(&mut self, packet: &Packet, e: &TrackEvent, sequence: &mut Sequence) -> Option<i64> {
        if packet.timestamp.is_some() {
            return self.stamp(packet, sequence);
        }
        let us = match (e.absolute_us, e.delta_us) {
            (Some(us), _) => us,
            (None, Some(delta)) => {
                sequence.last_us = sequence.last_us.saturating_add(delta);
                sequence.last_us
            }
            (None, None) => return None,
        };
        // Old writers use CLOCK_MONOTONIC, and may have no snapshot.
        let ns = us.saturating_mul(1000);
        self.clocks.convert((MONOTONIC, 0), ns).or(Some(ns))
    }

    /// The time of a packet on the trace's clock; none: unknown.
    fn stamp(&mut self, packet: &Packet, sequence: &Sequence) -> Option<i64> {
        let stamp = packet.timestamp?;
        let clock = packet.clock.or(sequence.clock).filter(|&clock| clock != 0);
        match clock {
            Some(clock) => self.clocks.time(clock, packet.sequence, stamp),
            None => i64::try_from(stamp).ok(),
        }
    }

    /// Makes the streams, and the closure that adds names, arrows and losses to the finished trace.
    fn finish(mut self, mut events: Events, strings: &mut Strings) -> Result<Opened<'a>, Damage> {
        let clocks = std::mem::take(&mut self.clocks);
        let clock = match clocks.trace {
            BOOTTIME if clocks.offset(BOOTTIME, MONOTONIC) == Some(0) => Clock::Monotonic,
            BOOTTIME => Clock::Boottime,
            MONOTONIC => Clock::Monotonic,
            REALTIME => Clock::Realtime,
            _ => Clock::Other,
        };
        let mut opened = Opened::new(Kind::Perfetto, clock);
        opened.realtime_offset_ns = clocks.offset(clocks.trace, REALTIME);
        let kernel = Rc::new(Kernel {
            blocks: Rc::new(std::mem::replace(&mut self.blocks, Blocks::new(&[]))),
            clocks: Rc::new(RefCell::new(clocks)),
            machine: self.system.machine.clone(),
            states: PrevState::newest(),
            has_waking: self.counts.events.of(SCHED_WAKING) > 0,
            salvage: self.salvage,
            gaps: RefCell::default(),
            n_unread: RefCell::default(),
            n_odd: RefCell::default(),
            damage: RefCell::default(),
        });
        let mut span = events.span.clone();
        for (&cpu, bundles) in &self.bundles {
            opened.setup.recorded.push(cpu.into());
            // Bundles of a CPU are in order of time, so the first and the last bound its events.
            for place in bundles.first().into_iter().chain(bundles.last()) {
                kernel.extend(place, &mut span);
            }
        }
        if let Some((first, last)) = self.generic.span() {
            let span = span.get_or_insert(first..last);
            (span.start, span.end) = (span.start.min(first), span.end.max(last));
        }
        if self.system.tool.starts_with("kasuri") {
            // The first and last snapshot of Kasuri's own export are the recording's start and end.
            for ns in kernel.clocks.borrow().extent() {
                let span = span.get_or_insert(ns..ns);
                (span.start, span.end) = (span.start.min(ns), span.end.max(ns));
            }
        }
        let span = span.unwrap_or(0..0);
        opened.setup.span = Time(span.start)..Time(span.end);
        opened.setup.n_cpus = (self.system.n_cpus.min(MAX_CPUS)) as usize;
        opened.setup.has_migrations = self.counts.events.of(SCHED_MIGRATE_TASK) > 0;
        // What was known before the recording is known from its first moment on.
        for known in &mut self.known {
            known.time = known.time.max(opened.setup.span.start);
        }
        opened.setup.known = std::mem::take(&mut self.known);
        opened.setup.known.sort_by_key(|known| known.time);
        for (cpu, bundles) in std::mem::take(&mut self.bundles) {
            let events = Cpu::new(kernel.clone(), cpu, bundles);
            opened.cpus.push((cpu, Source::Here(Box::new(events))));
        }
        self.generic_cpus(&mut opened);
        self.streams(&mut events, &mut opened, strings);
        self.facts(&events, &mut opened);
        opened.places = std::mem::take(&mut events.places);
        let names = self.names();
        opened.finish = Box::new(move |trace| {
            name_processes(trace, &names);
            events.flows.publish(trace);
            losses(trace, &kernel, &self.damage);
            self.service.publish(trace);
        });
        Ok(opened)
    }

    /// The CPUs of a kernel other than Linux. Where Linux's own events are, they know more.
    fn generic_cpus(&mut self, opened: &mut Opened<'a>) {
        for (cpu, events) in self.generic.events() {
            if opened.cpus.iter().all(|(number, _)| *number != cpu) {
                opened.setup.recorded.push(cpu.into());
                (opened.cpus).push((cpu, Source::Here(Box::new(CpuVec { events }))));
            }
        }
        opened.info.missing.extend(self.generic.told());
    }

    /// Names of processes; those of track descriptors take precedence.
    fn names(&self) -> HashMap<i32, String> {
        let mut names = self.process_names.clone();
        for (pid, name) in self.tracks.process_names() {
            names.insert(pid, name.to_owned());
        }
        names
    }

    /// Seals all annotations and adds them as streams.
    fn streams(&self, events: &mut Events, opened: &mut Opened<'a>, strings: &mut Strings) {
        let known = opened.setup.known.iter().map(|k| (k.pid, k.tid));
        let mut carriers = Carriers::new(known);
        let (logs, odd) = events.sealed();
        opened.info.missing.extend(odd);
        for ((pid, tid), log) in logs {
            carriers.add(pid, tid, log.first_time());
            opened.streams.push(Box::new(log));
        }
        for (pid, mut log) in std::mem::take(&mut events.counters) {
            log.set_tid(carriers.of(pid));
            log.seal();
            opened.streams.push(Box::new(log));
        }
        for stream in std::mem::take(&mut events.marks).streams(strings) {
            opened.streams.push(Box::new(stream));
        }
        for stream in std::mem::take(&mut events.asynchronous).streams(strings) {
            opened.streams.push(Box::new(stream));
        }
        // The model lets a thread begin with the first event of its first stream.
        opened.streams.sort_by_key(|stream| stream.first_time());
    }

    /// Adds facts for people, and limitations.
    fn facts(&self, events: &Events, opened: &mut Opened<'a>) {
        let info = &mut opened.info;
        info.kernel = self.system.release.clone();
        info.machine = self.system.machine.clone();
        info.recorder = self.system.tool.clone();
        let has_kernel = !opened.cpus.is_empty();
        info.kernel_source = if has_kernel { "tracefs" } else { "none" }.into();
        info.kernel_clock = if has_kernel { "boot" } else { "" }.into();
        info.event_costs = self.counts.kinds();
        info.missing.extend(self.counts.unread());
        info.missing.extend(self.service.told());
        for (n, what) in [
            (
                self.n_incomplete,
                "track events whose names were lost with earlier packets: they are left out",
            ),
            (
                self.n_timeless,
                "track events, counters and messages of clocks that no snapshot relates to the trace's: they are left out",
            ),
            (
                self.tracks.n_reused_pids,
                "processes have the pid of another: they share its row, which has the name of the last one",
            ),
            (
                events.n_early,
                "track events, counters and messages with stamps before their clock's zero: they are left out",
            ),
            (
                events.n_negative,
                "complete events with a duration below 0: they are drawn as points in time",
            ),
            (
                events.kernel.n_foreign_memory,
                "changes of a process's memory by another, of which the trace does not say whose it is: left out",
            ),
            (events.n_thread_costs, "samples of threads' CPU time or instructions: not read"),
        ] {
            if n > 0 {
                info.missing.push(format!("{n} {what}"));
            }
        }
        for (phase, n) in &events.unread_phases {
            let phase = phase.escape_ascii();
            info.missing.push(format!(
                "{n} converted events of phase {phase} are not read: the phase is unknown, or needs an id that they lack"
            ));
        }
    }
}

/// Names the processes of the finished trace.
fn name_processes(trace: &mut Trace, names: &HashMap<i32, String>) {
    for i in 0..trace.processes.len() {
        if let Some(name) = names.get(&trace.processes[i].pid) {
            trace.processes[i].name = trace.strings.intern(name);
        }
    }
}

/// Adds gaps, damage and unread events to the finished trace. Perfetto does not count the events of a gap.
fn losses(trace: &mut Trace, kernel: &Kernel, damage: &[Damage]) {
    let origin = trace.origin_monotonic_ns;
    let at = |time: Time| Time(time.0.saturating_sub(origin));
    for gap in kernel.gaps.borrow().iter() {
        trace.losses.push(Loss {
            cause: "kernel buffer overrun".into(),
            cpu: Some(gap.cpu),
            thread: ThreadIx::NONE,
            when: at(gap.from)..at(gap.to),
            count: 0,
            remedy: "record with a larger buffer_size_kb in ftrace_config".into(),
        });
    }
    let in_bundles = kernel.damage.borrow();
    let damage = damage
        .iter()
        .chain(in_bundles.iter())
        .map(|error| (0, format!("file damaged at byte {}", error.offset)));
    let unread = [
        (*kernel.n_unread.borrow(), "kernel events of an unknown clock"),
        (*kernel.n_odd.borrow(), "migrations to or from CPUs that no machine has"),
    ];
    let unread = unread.into_iter().filter(|(n, _)| *n > 0);
    let unread = unread.map(|(n, cause)| (n, cause.to_owned()));
    for (count, cause) in damage.chain(unread) {
        trace.losses.push(Loss {
            cause,
            cpu: None,
            thread: ThreadIx::NONE,
            when: trace.span.clone(),
            count,
            remedy: String::new(),
        });
    }
}
