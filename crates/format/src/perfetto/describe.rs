//! Messages that describe: clocks, processes, the machine, tracks, names.
//!
//! A track event names its track by `uuid`. A `TrackDescriptor` gives that uuid a name, a parent, and the process or thread it
//! belongs to; old writers give a sequence of packets one thread (`ThreadDescriptor`) instead. A `ClockSnapshot` holds readings
//! of several clocks at one moment, from which stamps of one clock become stamps of another.
use super::wire::Message;
use crate::Result;
use std::borrow::Cow;

/// Readings of several clocks at one moment.
#[derive(Clone, Debug, Default)]
pub struct ClockSnapshot {
    /// Each clock's reading.
    pub clocks: Vec<ClockReading>,
    /// The clock of the trace's own time.
    pub primary: Option<u32>,
}

/// The reading of one clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClockReading {
    /// `BuiltinClock`, or from 64 on one of the writer's own.
    pub id: u32,
    /// In units of the clock.
    pub timestamp: u64,
    /// Stamps of this clock count from the writer's one before.
    pub is_incremental: bool,
    /// ns of a unit; 0: 1.
    pub unit_ns: u64,
}

impl ClockSnapshot {
    /// From its message.
    ///
    /// # Errors
    /// Bytes that are no fields.
    pub fn parse(mut message: Message<'_>) -> Result<ClockSnapshot> {
        let mut snapshot = ClockSnapshot::default();
        while let Some(field) = message.next_field()? {
            match field.number {
                1 => {
                    let mut clock = ClockReading::default();
                    let mut reading = field.message();
                    while let Some(field) = reading.next_field()? {
                        match field.number {
                            1 => clock.id = field.u32(),
                            2 => clock.timestamp = field.u64(),
                            3 => clock.is_incremental = field.bool(),
                            4 => clock.unit_ns = field.u64(),
                            _ => {}
                        }
                    }
                    snapshot.clocks.push(clock);
                }
                2 => snapshot.primary = Some(field.u32()),
                _ => {}
            }
        }
        Ok(snapshot)
    }
}

/// The machine and the tool.
#[derive(Clone, Debug, Default)]
pub struct SystemInfo {
    /// `uname -r`.
    pub release: String,
    /// `uname -m`.
    pub machine: String,
    /// The tool that wrote the trace.
    pub tool: String,
    /// CPUs.
    pub n_cpus: u32,
}

impl SystemInfo {
    /// From its message.
    ///
    /// # Errors
    /// Bytes that are no fields.
    pub fn parse(mut message: Message<'_>) -> Result<SystemInfo> {
        let mut info = SystemInfo::default();
        while let Some(field) = message.next_field()? {
            match field.number {
                1 => {
                    let mut name = field.message();
                    while let Some(field) = name.next_field()? {
                        match field.number {
                            3 => info.release = field.text().into_owned(),
                            4 => info.machine = field.text().into_owned(),
                            _ => {}
                        }
                    }
                }
                4 => info.tool = field.text().into_owned(),
                8 => info.n_cpus = field.u32(),
                _ => {}
            }
        }
        Ok(info)
    }
}

/// A process or thread that the tool found in /proc.
#[derive(Clone, Debug, Default)]
pub struct KnownProcess<'a> {
    /// Process.
    pub pid: i32,
    /// Thread; a process's main one has its pid.
    pub tid: i32,
    /// The process's parent; 0: not known.
    pub ppid: i32,
    /// Name, or the program's path.
    pub name: Cow<'a, str>,
}

/// Calls `each` for the entries of a `ProcessTree`.
///
/// # Errors
/// Bytes that are no fields.
pub fn processes<'a>(mut tree: Message<'a>, mut each: impl FnMut(KnownProcess<'a>)) -> Result<()> {
    while let Some(field) = tree.next_field()? {
        let mut entry = KnownProcess::default();
        let mut message = field.message();
        match field.number {
            1 => {
                while let Some(field) = message.next_field()? {
                    match field.number {
                        1 => entry.pid = field.i32(),
                        2 => entry.ppid = field.i32(),
                        3 if entry.name.is_empty() => entry.name = field.text(),
                        _ => {}
                    }
                }
                entry.tid = entry.pid;
            }
            2 => {
                while let Some(field) = message.next_field()? {
                    match field.number {
                        1 => entry.tid = field.i32(),
                        2 => entry.name = field.text(),
                        3 => entry.pid = field.i32(),
                        _ => {}
                    }
                }
            }
            _ => continue,
        }
        each(entry);
    }
    Ok(())
}

/// Description of a track.
#[derive(Clone, Debug, Default)]
pub struct TrackDescriptor<'a> {
    /// Its id.
    pub uuid: u64,
    /// The track it is below.
    pub parent: Option<u64>,
    /// Its name.
    pub name: Cow<'a, str>,
    /// The process it is of, with its name.
    pub process: Option<(i32, Cow<'a, str>)>,
    /// The thread it is of (process, thread, name).
    pub thread: Option<(i32, i64, Cow<'a, str>)>,
    /// It is a counter.
    pub counter: Option<CounterDescriptor>,
    /// It has a state at each moment, which an event changes.
    pub is_state: bool,
}

/// The way in which a counter counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct CounterDescriptor {
    /// It is the thread's CPU time or instructions, sampled at each event.
    pub is_thread_cost: bool,
    /// Factor for its values; 0 means 1.
    pub multiplier: i64,
    /// Values are differences.
    pub is_incremental: bool,
}

impl<'a> TrackDescriptor<'a> {
    /// From its message.
    ///
    /// # Errors
    /// Bytes that are no fields.
    pub fn parse(mut message: Message<'a>) -> Result<TrackDescriptor<'a>> {
        let mut track = TrackDescriptor::default();
        while let Some(field) = message.next_field()? {
            match field.number {
                1 => track.uuid = field.u64(),
                2 | 10 | 13 => track.name = field.text(),
                3 => track.process = Some(process(field.message())?),
                4 => track.thread = Some(thread(field.message())?),
                5 => track.parent = Some(field.u64()),
                8 => track.counter = Some(counter(field.message())?),
                18 => track.is_state = true,
                _ => {}
            }
        }
        Ok(track)
    }
}

/// A `ProcessDescriptor`: pid, name.
fn process(mut message: Message<'_>) -> Result<(i32, Cow<'_, str>)> {
    let (mut pid, mut name, mut command) = (0, Cow::Borrowed(""), Cow::Borrowed(""));
    while let Some(field) = message.next_field()? {
        match field.number {
            1 => pid = field.i32(),
            2 if command.is_empty() => command = field.text(),
            6 => name = field.text(),
            _ => {}
        }
    }
    Ok((pid, if name.is_empty() { command } else { name }))
}

/// A `ThreadDescriptor`: pid, tid, name.
fn thread(mut message: Message<'_>) -> Result<(i32, i64, Cow<'_, str>)> {
    let (mut pid, mut tid, mut name) = (0, 0, Cow::default());
    while let Some(field) = message.next_field()? {
        match field.number {
            1 => pid = field.i32(),
            2 => tid = field.i64(),
            5 => name = field.text(),
            _ => {}
        }
    }
    Ok((pid, tid, name))
}

fn counter(mut message: Message<'_>) -> Result<CounterDescriptor> {
    let mut counter = CounterDescriptor::default();
    while let Some(field) = message.next_field()? {
        match field.number {
            1 => counter.is_thread_cost = matches!(field.u64(), 1 | 2),
            4 => counter.multiplier = field.i64(),
            5 => counter.is_incremental = field.bool(),
            _ => {}
        }
    }
    Ok(counter)
}

/// A `ProcessDescriptor` packet of an old writer.
impl<'a> TrackDescriptor<'a> {
    /// The process of a sequence.
    ///
    /// # Errors
    /// Bytes that are no fields.
    pub fn of_process(message: Message<'a>) -> Result<TrackDescriptor<'a>> {
        let process = Some(process(message)?);
        Ok(TrackDescriptor { process, ..TrackDescriptor::default() })
    }

    /// The thread of a sequence, and its reference stamp in us.
    ///
    /// # Errors
    /// Bytes that are no fields.
    pub fn of_thread(message: Message<'a>) -> Result<(TrackDescriptor<'a>, i64)> {
        let thread = Some(thread(message)?);
        let (mut fields, mut reference_us) = (message, 0);
        while let Some(field) = fields.next_field()? {
            if field.number == 6 {
                reference_us = field.i64();
            }
        }
        let track = TrackDescriptor { thread, ..TrackDescriptor::default() };
        Ok((track, reference_us))
    }
}

/// Calls `each` for the entries of an `InternedData`: field number, id, text. Those of source locations have file and line.
///
/// # Errors
/// Bytes that are no fields.
pub fn interned<'a>(
    mut data: Message<'a>,
    mut each: impl FnMut(u32, u64, Cow<'a, str>, u32),
) -> Result<()> {
    while let Some(field) = data.next_field()? {
        if !matches!(field.number, 1 | 2 | 3 | 4 | 20 | 26 | 29) {
            continue;
        }
        let mut entry = field.message();
        let (mut iid, mut text, mut line) = (0, Cow::default(), 0);
        while let Some(part) = entry.next_field()? {
            match part.number {
                1 => iid = part.u64(),
                2 => text = part.text(),
                4 => line = part.u32(),
                _ => {}
            }
        }
        each(field.number, iid, text, line);
    }
    Ok(())
}
