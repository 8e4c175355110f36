//! Reads the Common Trace Format, versions 1.8 and 2: LTTng's kernel and user-space traces, and those of other tracers
//! (barectf, babeltrace, Kasuri's own export). The specifications are at <https://diamon.org/ctf/>.
//!
//! A recording is a directory with one or several traces below it. A trace consists of a file `metadata`, which
//! describes the events, and stream files beside it:
//!
//! ```text
//! session/kernel/metadata             session/ust/uid/1000/64-bit/metadata
//! session/kernel/channel0_0           session/ust/uid/1000/64-bit/channel0_0
//! session/kernel/channel0_1           ...
//! ```
//!
//! A trace with scheduler events gives the CPUs, and is decoded when the passes ask for events. All other traces give
//! annotations, and are read at once, because their streams mix the events of all threads.
//!
//! | module | content |
//! |---|---|
//! | `files` | finds traces and packets |
//! | `clocks` | the clock that all traces share |
//! | `channel` | the events of one stream file, with its losses |
//! | `kernel` | scheduler events of a CPU, by LTTng or perf |
//! | `pairs` | meaning of user-space events by their names |
//! | `user` | annotations of user-space threads |
mod channel;
mod clocks;
mod files;
mod kernel;
mod pairs;
mod user;

use crate::{Error, File, Kind, Opened, Options};
use channel::{Channel, FoundLoss, Losses, Next};
use clocks::{Clocks, ToNs};
use files::{Source, sources};
use kasuri_format::ctf::{Layout, Packet, Reader, Value};
use kasuri_model::input::{CpuEvents, KnownThread};
use kasuri_model::{EventCost, Info, Strings, Time, Trace};
use kernel::{CPUS_MAX, Kernel, KernelCpu};
use std::collections::BTreeMap;
use std::rc::Rc;
use user::User;

/// Whether there is CTF metadata among the files.
pub(crate) fn detect(files: &[File<'_>]) -> bool {
    files.iter().any(files::is_metadata)
}

/// Opens all traces of a directory.
///
/// # Errors
/// Damaged metadata or packets, and damage in user-space streams, which are read at once.
pub(crate) fn open<'a>(
    files: &'a [File<'a>],
    options: &Options,
    strings: &mut Strings,
) -> Result<Opened<'a>, Error> {
    let sources = sources(files, options)?;
    let layouts: Vec<Rc<Layout>> = sources.iter().map(|s| s.layout.clone()).collect();
    let clocks = Clocks::of(&layouts);
    let mut opened = Opened::new(Kind::Ctf, clocks.domain);
    opened.realtime_offset_ns = clocks.realtime_offset_ns;
    opened.info = info(&sources);
    let losses = Losses::default();
    let mut user = User::default();
    let mut extent: Option<(i64, i64)> = None;
    let mut packets: Option<(i64, i64)> = None;
    let mut kernels: Vec<(Rc<Kernel>, Rc<Layout>)> = Vec::new();
    for source in &sources {
        let layout = &source.layout;
        let to_ns: Vec<ToNs> = (0..layout.streams.len()).map(|s| clocks.to_ns(layout, s)).collect();
        let to_ns = Rc::new(to_ns);
        let of_packets = packet_extent(source, &to_ns);
        packets = joined(packets, of_packets);
        let exporter = layout.metadata.env_text("exporter");
        // Our own export's packets are as long as the recording.
        if exporter.is_some_and(|name| name.starts_with("kasuri ")) {
            extent = joined(extent, of_packets);
        }
        let channel = |stream| Channel::new(layout, stream, to_ns.clone(), losses.clone(), options);
        if kernel::is_kernel(layout) {
            extent = joined(extent, event_extent(source, &to_ns));
            let kernel = open_kernel(source, &channel, &mut opened, strings)?;
            kernels.push((kernel, source.layout.clone()));
        } else {
            let channels = source.streams.iter().map(channel).collect();
            let name = layout.metadata.env_text("trace_name");
            let read = user.read(layout, name.unwrap_or(source.name), channels, strings);
            read.map_err(crate::error::source)?;
        }
    }
    // Packets may begin long before and end long after their events: LTTng writes out the last ones when a session is destroyed, not when
    // it is stopped. Only losses of a trace without any event lie between its packets.
    let extent = joined(extent, user.extent).or(packets);
    let (start, end) = extent.unwrap_or((0, 0));
    opened.setup.span = Time(start)..Time(end);
    opened.setup.known.append(&mut user.known);
    opened.setup.known.sort_by_key(|known| known.time);
    if user.without_thread > 0 {
        opened.info.missing.push(format!(
            "{} events do not say which thread made them: they stand on tracks of their streams (lttng add-context -u -t vtid -t vpid)",
            user.without_thread
        ));
    }
    for source in sources {
        let damage = source.damage.iter();
        losses.borrow_mut().extend(damage.map(|error| file_loss(error, start, end)));
    }
    let processes = std::mem::take(&mut user.processes);
    opened.streams = user.streams();
    opened.finish = Box::new(move |trace| {
        for process in &mut trace.processes {
            let named = processes.iter().find(|(pid, _)| *pid == process.pid);
            process.name = named.map_or(process.name, |(_, name)| *name);
        }
        channel::publish(&losses, trace);
        publish_counts(&kernels, trace);
    });
    Ok(opened)
}

/// The kernel's events by name.
fn publish_counts(kernels: &[(Rc<Kernel>, Rc<Layout>)], trace: &mut Trace) {
    let mut counts = BTreeMap::new();
    for (kernel, layout) in kernels {
        kernel.count(layout, &mut counts);
    }
    let kinds = counts.into_iter().map(|(name, n)| EventCost {
        name,
        n,
        n_program: n,
        ..EventCost::default()
    });
    trace.info.event_costs = kinds.collect();
    trace.n_kernel_events = trace.info.event_costs.iter().map(|kind| kind.n).sum();
}

/// Adds the CPUs of a trace with scheduler events; gives what they share.
fn open_kernel<'s, 'a>(
    source: &'s Source<'a>,
    channel: &impl Fn(&'s files::Stream<'a>) -> Channel<'a>,
    opened: &mut Opened<'a>,
    strings: &mut Strings,
) -> Result<Rc<Kernel>, Error> {
    opened.setup.known.extend(statedump(source, channel)?);
    let kernel = Rc::new(Kernel::new(&source.layout, strings));
    opened.setup.has_migrations |= kernel.has_migrations;
    let mut by_cpu: BTreeMap<u16, Vec<Channel<'a>>> = BTreeMap::new();
    // A packet has all events up to its end, or says how many were discarded. After the end of the last one nothing is known.
    let mut complete: BTreeMap<u16, Time> = BTreeMap::new();
    for stream in &source.streams {
        let channel = channel(stream);
        let cpu = channel.cpu.unwrap_or(by_cpu.len() as u16);
        if cpu < CPUS_MAX {
            let until = complete.entry(cpu).or_insert(Time::MIN);
            let ends = stream.packets.iter().filter_map(|p| p.end);
            *until = ends.fold(*until, |until, end| until.max(Time(channel.ns(end))));
            by_cpu.entry(cpu).or_default().push(channel);
        }
    }
    // A stream whose first packet has a number above 0 lost the packets before it.
    let late = |p: &Packet| p.sequence.is_some_and(|n| n > 0);
    let mut firsts = source.streams.iter().filter_map(|s| s.packets.first());
    opened.setup.starts_late |= firsts.any(late);
    let is_mixed = kernel.has_mixed_streams(&source.streams);
    if !is_mixed {
        opened.setup.stops.extend(complete);
    }
    let mut add = |cpu: u16, events: Box<dyn CpuEvents + 'a>| {
        opened.setup.recorded.push(cpu.into());
        opened.setup.n_cpus = opened.setup.n_cpus.max(usize::from(cpu) + 1);
        opened.cpus.push((cpu, crate::Source::Here(events)));
    };
    if is_mixed {
        let channels = by_cpu.into_values().flatten().collect();
        let mixed = KernelCpu::new(kernel.clone(), channels).by_cpu(strings);
        for (cpu, events) in mixed? {
            add(cpu, Box::new(events));
        }
        return Ok(kernel);
    }
    for (cpu, channels) in by_cpu {
        add(cpu, Box::new(KernelCpu::new(kernel.clone(), channels)));
    }
    Ok(kernel)
}

/// The loss for a damaged stream file: somewhere in the trace.
fn file_loss(error: &kasuri_format::Error, from: i64, to: i64) -> FoundLoss {
    FoundLoss { cause: error.to_string(), cpu: None, from, to, count: 0, remedy: "" }
}

/// The smallest span that contains both.
fn joined(a: Option<(i64, i64)>, b: Option<(i64, i64)>) -> Option<(i64, i64)> {
    match (a, b) {
        (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
        (a, b) => a.or(b),
    }
}

/// The span from the begin of the first packet to the end of the last, if packets have these fields.
fn packet_extent(source: &Source<'_>, clocks: &[ToNs]) -> Option<(i64, i64)> {
    let packets = source.streams.iter().flat_map(|s| &s.packets);
    let spans = packets.filter_map(|p| {
        let clock = clocks.get(p.stream)?;
        Some((clock.ns(p.begin?), clock.ns(p.end?)))
    });
    spans.fold(None, |all, one| joined(all, Some(one)))
}

/// The span of the events: from the first of each stream to the last. Damage is passed over; it is reported when the events are read.
fn event_extent(source: &Source<'_>, clocks: &[ToNs]) -> Option<(i64, i64)> {
    let mut extent = None;
    for stream in &source.streams {
        let mut reader = Reader::new(source.layout.clone(), stream.bytes);
        let mut first_and_last = |packet: &Packet| {
            let clock = clocks.get(packet.stream)?;
            reader.enter(packet).ok()?;
            let (mut first, mut last) = (None, None);
            while let Ok(Some(head)) = reader.head() {
                last = Some(clock.ns(head.cycles));
                first = first.or(last);
                if reader.skip(head).is_err() {
                    break;
                }
            }
            reader.leave();
            Some((first?, last?))
        };
        // The first and the last packet that have events; packets between them need no look.
        let from = stream.packets.iter().find_map(&mut first_and_last);
        let to = stream.packets.iter().rev().find_map(&mut first_and_last);
        extent = joined(extent, joined(from, to));
    }
    extent
}

/// The threads that existed before the recording: LTTng lists them when it begins (`lttng_statedump_*`). Reading stops
/// at the end of the list. Losses are not reported, because the streams will be read again.
fn statedump<'a, 's>(
    source: &'s Source<'a>,
    channel: &impl Fn(&'s files::Stream<'a>) -> Channel<'a>,
) -> Result<Vec<KnownThread>, Error> {
    let mut out = Vec::new();
    let mut end = i64::MAX;
    let streams = &source.layout.streams;
    let has = |stream: usize, name: &str| streams[stream].events.iter().any(|e| e.name == name);
    for stream in &source.streams {
        let mut channel = channel(stream).quiet();
        if stream.packets.is_empty() || !has(channel.stream, "lttng_statedump_process_state") {
            continue;
        }
        while let Some(next) = channel.next().map_err(crate::error::source)? {
            let Next::Event(time, head) = next else {
                continue;
            };
            if time > end {
                break;
            }
            let event = &streams[channel.stream].events[head.class as usize];
            let read = match event.name.as_str() {
                "lttng_statedump_process_state" => {
                    let leaves = &event.program.leaves;
                    let mut known = KnownThread::default();
                    let read = channel.body(head, |leaf, value| {
                        take_known(&mut known, &leaves[leaf as usize].name, value);
                    });
                    if read.is_ok() && known.tid > 0 {
                        known.time = Time(time);
                        out.push(known);
                    }
                    read
                }
                "lttng_statedump_end" => {
                    end = end.min(time);
                    break;
                }
                _ => channel.reader.skip(head),
            };
            if let Err(error) = read {
                channel.damaged(error).map_err(crate::error::source)?;
            }
        }
    }
    Ok(out)
}

/// Takes in a field of `lttng_statedump_process_state`.
fn take_known(known: &mut KnownThread, field: &str, value: Value<'_>) {
    let id = value.int().map_or(0, |n| n as i32);
    match (field, value) {
        ("tid", _) => known.tid = id,
        ("pid", _) => known.pid = id,
        ("ppid", _) => known.ppid = id,
        ("name", Value::Bytes(text)) => {
            known.comm = String::from_utf8_lossy(kernel::trim(text)).into_owned();
        }
        _ => {}
    }
}

/// Facts for people, from the environments of the traces (`env` in the metadata).
fn info(sources: &[Source<'_>]) -> Info {
    let mut info = Info::default();
    let mut tracers: Vec<String> = Vec::new();
    let mut major = 1;
    for source in sources {
        let metadata = &source.layout.metadata;
        major = major.max(metadata.major);
        let text = |name: &str| metadata.env_text(name).unwrap_or("").to_owned();
        let set = |to: &mut String, value: String| {
            if to.is_empty() {
                *to = value;
            }
        };
        // LTTng's names, and perf's.
        for (host, kernel) in [("hostname", "kernel_release"), ("host", "release")] {
            set(&mut info.host, text(host));
            set(&mut info.kernel, text(kernel));
        }
        set(&mut info.machine, text("machine"));
        if kernel::is_kernel(&source.layout) {
            info.kernel_source = "tracefs".into();
            let clocks = &metadata.clocks;
            info.kernel_clock = clocks.first().map_or(String::new(), |c| c.name.clone());
        }
        let version = |name| metadata.env_int(name).map_or(String::new(), |n| format!(".{n}"));
        let numbers =
            version("tracer_major") + &version("tracer_minor") + &version("tracer_patchlevel");
        let tracer = text("tracer_name");
        if !tracer.is_empty() {
            let tracer = format!("{tracer} {}", numbers.trim_start_matches('.'));
            let tracer = tracer.trim_end().to_owned();
            if !tracers.contains(&tracer) {
                tracers.push(tracer);
            }
        }
    }
    if info.kernel_source.is_empty() {
        info.kernel_source = "none".into();
    }
    info.recorder = tracers.join(", ");
    info.format = if major == 1 { "CTF 1.8" } else { "CTF 2" }.into();
    info
}
