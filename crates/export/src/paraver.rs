//! Paraver's three files: .prv (records), .pcf (what numbers mean), .row (names of rows).
//!
//! A process is an application with one task, and its threads are that task's threads. Kernel states are states;
//! slices are events, one type for each level of nesting, whose value is the name and 0 at the end; wake-ups and
//! arrows are communications. A .prv file is text, one record in a line, in order of time:
//!
//! ```text
//! #Paraver (15/01/27 at 08:00):2000000_ns:1(4):1:1(2:1)     date, length, CPUs of node 1, applications
//! 1:3:1:1:2:0:500:1                                         state: CPU 3, thread 1.1.2, from 0 to 500 ns, running
//! 2:3:1:1:2:120:90000001:7                                  event: at 120 ns slice 7 begins at the outermost level
//! 3:3:1:1:2:200:200:1:1:1:1:260:260:1:1                     communication: a wake-up, 60 ns until the thread ran
//! ```
//!
//! CPUs, applications, tasks and threads count from 1; CPU 0 means "not known". Values count from 1 too, and 0 ends
//! what another value began.
use crate::Exported;
use crate::exported::Counted;
use kasuri_model::{KernelSpanKind, ThreadIx, ThreadState, Time, Trace};
use kasuri_model::{arrow, label};
use std::io::{self, Write};

/// Event type of slices of the outermost level; deeper ones follow.
const SLICE: u64 = 90_000_001;
/// Instants; the value is 1 + the number of the name.
const INSTANT: u64 = 90_100_000;
/// The first counter; the others follow. The value is the counter's own.
const COUNTER: u64 = 90_200_000;
/// Interrupts, softirqs, system calls, waits for kernel locks: a type for each [`KernelSpanKind`], counted from here.
const KERNEL: u64 = 90_300_000;

/// Tags of communications, with which a user filters them in Paraver.
const WAKEUP_TAG: u32 = 1;
const ARROW_TAG: u32 = 2;

/// Number, state and RGB colour of each state. Paraver's stock configurations take 1 for "Running" and 2 for "Not
/// created", so these two numbers are fixed.
const STATES: [(u32, ThreadState, &str); 9] = [
    (0, ThreadState::Unknown, "117,195,255"),
    (1, ThreadState::Running, "0,0,255"),
    (3, ThreadState::RunnableWoken, "255,200,0"),
    (4, ThreadState::RunnablePreempted, "255,90,0"),
    (5, ThreadState::Sleeping, "200,200,200"),
    (6, ThreadState::DiskSleep, "255,0,174"),
    (7, ThreadState::Stopped, "120,120,120"),
    (8, ThreadState::Idle, "220,220,255"),
    (9, ThreadState::Dead, "60,60,60"),
];
const NOT_CREATED: u32 = 2;

/// The number of a state in [`STATES`].
fn state_number(state: ThreadState) -> u32 {
    let row = STATES.iter().find(|(_, s, _)| *s == state);
    row.map_or(0, |(number, ..)| *number)
}

/// The table of the model that a record comes from.
#[derive(Clone, Copy, Debug)]
enum Source {
    State,
    SliceBegin,
    SliceEnd,
    Instant,
    Counter(u32),
    KernelBegin,
    KernelEnd,
    Wakeup,
    Arrow,
}

/// Writes the .prv file.
///
/// # Errors
/// Those of `out`.
pub fn write<W: Write>(trace: &Trace, out: W) -> io::Result<Exported> {
    let mut prv = Prv {
        trace,
        objects: objects(trace),
        arrows: arrow::arrows(trace).collect(),
        sink: Counted { out, records: 0 },
    };
    prv.header()?;
    for (time, source, row) in prv.order() {
        prv.record(time, source, row as usize)?;
    }
    prv.sink.out.flush()?;
    let mut left_out = Vec::new();
    for (n, what) in [
        (trace.occupancy.start.len(), crate::exported::NO_EVENTS),
        (trace.args.name.len(), "arguments"),
        (trace.losses.len(), "losses"),
        (trace.migrations.time.len(), "migration events (a thread's CPU is shown)"),
    ] {
        if n > 0 {
            left_out.push(what.to_owned());
        }
    }
    let mut values = trace.counters.iter().flat_map(|c| &c.value);
    if values.any(|v| v.fract() != 0.0) {
        left_out.push("fractions of counters (values are whole numbers)".into());
    }
    if trace.kernel_spans.thread.iter().any(|t| !t.is_some()) {
        left_out.push("interrupts of idle CPUs".into());
    }
    Ok(Exported { records: prv.sink.records, left_out })
}

/// Application and thread number of each thread, both from 1; the task between them is always 1.
fn objects(trace: &Trace) -> Vec<(u32, u32)> {
    let mut out = vec![(0, 0); trace.threads.len()];
    for (process, row) in trace.processes.iter().enumerate() {
        for (n, thread) in row.threads.clone().enumerate() {
            out[thread as usize] = (process as u32 + 1, n as u32 + 1);
        }
    }
    out
}

/// The .prv file while it is written.
struct Prv<'a, W> {
    trace: &'a Trace,
    objects: Vec<(u32, u32)>,
    arrows: Vec<arrow::Arrow>,
    sink: Counted<W>,
}

impl<W: Write> Prv<'_, W> {
    /// Date, length, one node with its CPUs, and the applications: processes, each a task with its threads.
    fn header(&mut self) -> io::Result<()> {
        let trace = self.trace;
        let (day, month, year, hour, minute) = date(trace.origin_realtime_ns);
        let length = (trace.span.end - trace.span.start).ns();
        let n_cpus = trace.cpus.len().max(1);
        write!(
            self.sink.out,
            "#Paraver ({day:02}/{month:02}/{:02} at {hour:02}:{minute:02}):{length}_ns:1({n_cpus}):{}",
            year % 100,
            trace.processes.len()
        )?;
        for process in &trace.processes {
            write!(self.sink.out, ":1({}:1)", process.threads.len().max(1))?;
        }
        writeln!(self.sink.out)
    }

    /// All records in order of time, as Paraver wants them; states come first among those of one time.
    ///
    /// Memory: 24 bytes a record. The model's columns are sorted by thread or kind, but the file is one list in order
    /// of time: unlike the other text formats, this one takes memory that grows with the recording.
    fn order(&self) -> Vec<(Time, Source, u32)> {
        let trace = self.trace;
        let mut order = Vec::new();
        let mut add = |source, times: &[Time]| {
            order.extend(times.iter().enumerate().map(|(i, &time)| (time, source, i as u32)));
        };
        add(Source::State, &trace.states.start);
        // Ends come before what begins at the same time.
        add(Source::SliceEnd, &trace.slices.end);
        add(Source::KernelEnd, &trace.kernel_spans.end);
        add(Source::SliceBegin, &trace.slices.start);
        add(Source::KernelBegin, &trace.kernel_spans.start);
        add(Source::Instant, &trace.instants.time);
        for (i, counter) in trace.counters.iter().enumerate() {
            add(Source::Counter(i as u32), &counter.time);
        }
        add(Source::Wakeup, &trace.wakeups.time);
        let arrows: Vec<Time> = self.arrows.iter().map(|a| a.from.0).collect();
        add(Source::Arrow, &arrows);
        order.sort_by_key(|&(time, ..)| time);
        order
    }

    /// ns since the beginning of the span; a record outside it would be an error to Paraver.
    fn at(&self, time: Time) -> i64 {
        let span = &self.trace.span;
        (time.clamp(span.start, span.end) - span.start).ns()
    }

    /// `cpu:application:task:thread` at a time; CPU 0: not known.
    fn object(&self, thread: ThreadIx, time: Time) -> String {
        let (application, number) = self.objects[thread.ix()];
        format!("{}:{application}:1:{number}", self.cpu(thread, time))
    }

    /// Numbered from 1; 0: not known. The thread's state at that time has the CPU.
    fn cpu(&self, thread: ThreadIx, time: Time) -> u32 {
        let rows = self.trace.threads[thread.ix()].states.clone();
        let rows = rows.start as usize..rows.end as usize;
        let after = self.trace.states.start[rows.clone()].partition_point(|&start| start <= time);
        match after.checked_sub(1).map(|i| self.trace.states.cpu[rows.start + i]) {
            None | Some(u16::MAX) => 0,
            Some(cpu) => u32::from(cpu) + 1,
        }
    }

    /// Writes one entry of [`Prv::order`].
    fn record(&mut self, time: Time, source: Source, row: usize) -> io::Result<()> {
        let trace = self.trace;
        match source {
            Source::State => self.state(row),
            Source::SliceBegin | Source::SliceEnd => {
                let slices = &trace.slices;
                let kind = SLICE + u64::from(slices.depth[row]);
                let value = match source {
                    Source::SliceBegin => slice_value(trace, row),
                    _ => 0,
                };
                self.event(slices.thread[row], time, kind, value)
            }
            Source::Instant => {
                let name = u64::from(trace.instants.name[row].0) + 1;
                self.event(trace.instants.thread[row], time, INSTANT, name)
            }
            Source::Counter(counter) => {
                let value = trace.counters[counter as usize].value[row];
                // A counter belongs to a process; Paraver wants a thread, so its first thread shows the values.
                let process = trace.processes.get(trace.counters[counter as usize].process.ix());
                let Some(thread) = process.map(|p| ThreadIx(p.threads.start)) else {
                    return Ok(());
                };
                self.event(thread, time, COUNTER + u64::from(counter), value.max(0.0) as u64)
            }
            Source::KernelBegin | Source::KernelEnd => {
                let spans = &trace.kernel_spans;
                let value = match source {
                    Source::KernelBegin => u64::from(spans.name[row].0) + 1,
                    _ => 0,
                };
                self.event(spans.thread[row], time, KERNEL + spans.kind[row] as u64, value)
            }
            Source::Wakeup => {
                let wakeups = &trace.wakeups;
                let ran = Time(time.ns().saturating_add(wakeups.latency[row].ns()));
                // The thread did not run before the recording ended: there is no other end of the arrow.
                if wakeups.latency[row].ns() < 0 {
                    return Ok(());
                }
                let (from, to) = (wakeups.waker[row], wakeups.wakee[row]);
                self.communication((time, from), (ran, to), WAKEUP_TAG)
            }
            Source::Arrow => {
                let arrow = self.arrows[row];
                self.communication(arrow.from, arrow.to, ARROW_TAG)
            }
        }
    }

    /// `1:OBJECT:BEGIN:END:STATE`.
    fn state(&mut self, row: usize) -> io::Result<()> {
        let trace = self.trace;
        // Rows of threads lie one after the other.
        let thread = trace.threads.partition_point(|t| t.states.end as usize <= row);
        let Some(owner) = trace.threads.get(thread).filter(|t| t.states.start as usize <= row)
        else {
            return Ok(());
        };
        let is_last = row + 1 == owner.states.end as usize;
        let end = if is_last { owner.alive.end } else { trace.states.start[row + 1] };
        let start = trace.states.start[row];
        if end <= start {
            return Ok(());
        }
        let object = self.object(ThreadIx(thread as u32), start);
        let (from, to) = (self.at(start), self.at(end));
        let state = state_number(trace.states.state[row]);
        self.line(format_args!("1:{object}:{from}:{to}:{state}"))
    }

    /// `2:OBJECT:TIME:TYPE:VALUE`; value 0 ends what another value began.
    fn event(&mut self, thread: ThreadIx, time: Time, kind: u64, value: u64) -> io::Result<()> {
        if !thread.is_some() {
            return Ok(());
        }
        let (object, at) = (self.object(thread, time), self.at(time));
        self.line(format_args!("2:{object}:{at}:{kind}:{value}"))
    }

    /// `3:OBJECT:SENT:SENT:OBJECT:RECEIVED:RECEIVED:SIZE:TAG`: an arrow. Paraver has a logical and a physical time for
    /// either end of a message; here both are the same. The size of 1 byte has no meaning.
    fn communication(
        &mut self,
        from: (Time, ThreadIx),
        to: (Time, ThreadIx),
        tag: u32,
    ) -> io::Result<()> {
        if !from.1.is_some() || !to.1.is_some() {
            return Ok(());
        }
        let (a, b) = (self.object(from.1, from.0), self.object(to.1, to.0));
        let (sent, received) = (self.at(from.0), self.at(to.0));
        self.line(format_args!("3:{a}:{sent}:{sent}:{b}:{received}:{received}:1:{tag}"))
    }

    /// Writes one record and counts it.
    fn line(&mut self, record: std::fmt::Arguments) -> io::Result<()> {
        self.sink.records += 1;
        writeln!(self.sink.out, "{record}")
    }
}

/// The value of a slice's event: 1 + the number of its name. A slice without a name gets a number after all names,
/// which stands for its kind.
fn slice_value(trace: &Trace, row: usize) -> u64 {
    match trace.strings.get(trace.slices.name[row]) {
        "" => trace.strings.len() as u64 + 1 + trace.slices.kind[row] as u64,
        _ => u64::from(trace.slices.name[row].0) + 1,
    }
}

/// Writes the .pcf file: what states, event types and values mean.
///
/// # Errors
/// Those of `out`.
pub fn write_pcf<W: Write>(trace: &Trace, mut out: W) -> io::Result<()> {
    writeln!(
        out,
        "DEFAULT_OPTIONS\n\nLEVEL               THREAD\nUNITS               NANOSEC\nLOOK_BACK           100\nSPEED               1\nFLAG_ICONS          ENABLED\nNUM_OF_STATE_COLORS 1000\nYMAX_SCALE          37\n\n\nDEFAULT_SEMANTIC\n\nTHREAD_FUNC         State As Is\n\n\nSTATES"
    )?;
    for (number, state, _) in STATES {
        writeln!(out, "{number}    {}", capital(label::state(state)))?;
    }
    writeln!(out, "{NOT_CREATED}    Not created\n\n\nSTATES_COLOR")?;
    for (number, _, colour) in STATES {
        writeln!(out, "{number}    {{{colour}}}")?;
    }
    writeln!(out, "{NOT_CREATED}    {{255,255,255}}\n\n")?;
    let slices = &trace.slices;
    let n_levels = slices.depth.iter().map(|&d| u64::from(d) + 1).max();
    let names = slices.name.iter().map(|&name| u64::from(name.0) + 1);
    let mut names: Vec<u64> = (names.zip(0..).map(|(_, row)| slice_value(trace, row))).collect();
    tidy(&mut names);
    let levels: Vec<(u64, String)> = (0..n_levels.unwrap_or(0))
        .map(|level| (SLICE + level, format!("Annotation, level {}", level + 1)))
        .collect();
    // Types with the same values share a block.
    event_type(&mut out, trace, &levels, names)?;
    let instants = trace.instants.name.iter().map(|name| u64::from(name.0) + 1);
    event_type(&mut out, trace, &[(INSTANT, "Instant".into())], instants.collect())?;
    for (i, counter) in trace.counters.iter().enumerate() {
        let name = line(label::named(trace, counter.name, "counter"));
        writeln!(out, "EVENT_TYPE\n0    {}    {name}\n\n", COUNTER + i as u64)?;
    }
    for (kind, name) in [
        (KernelSpanKind::Irq, "Interrupt"),
        (KernelSpanKind::Softirq, "Softirq"),
        (KernelSpanKind::Syscall, "System call"),
        (KernelSpanKind::LockContention, "Wait for a lock of the kernel"),
    ] {
        let spans = &trace.kernel_spans;
        let of_kind = (0..spans.kind.len()).filter(|&i| spans.kind[i] == kind);
        let values = of_kind.map(|i| u64::from(spans.name[i].0) + 1).collect();
        event_type(&mut out, trace, &[(KERNEL + kind as u64, name.into())], values)?;
    }
    out.flush()
}

/// Sorts values and removes repetitions.
fn tidy(values: &mut Vec<u64>) {
    values.sort_unstable();
    values.dedup();
}

/// A block of types and the names of their values; nothing when there are none.
fn event_type<W: Write>(
    out: &mut W,
    trace: &Trace,
    types: &[(u64, String)],
    values: Vec<u64>,
) -> io::Result<()> {
    let mut values = values;
    tidy(&mut values);
    if types.is_empty() || values.is_empty() {
        return Ok(());
    }
    writeln!(out, "EVENT_TYPE")?;
    for (number, name) in types {
        writeln!(out, "0    {number}    {name}")?;
    }
    writeln!(out, "VALUES\n0      End")?;
    for value in values {
        let kind = value.checked_sub(trace.strings.len() as u64 + 1);
        let name = match kind.and_then(|k| label::KINDS.get(k as usize)) {
            Some(&kind) => label::kind(kind).to_owned(),
            None => line(trace.strings.get(kasuri_model::StrIx(value as u32 - 1))),
        };
        writeln!(out, "{value}      {name}")?;
    }
    writeln!(out, "\n")
}

/// Writes the .row file: names of CPUs, the machine, and threads.
///
/// # Errors
/// Those of `out`.
pub fn write_row<W: Write>(trace: &Trace, mut out: W) -> io::Result<()> {
    let n_cpus = trace.cpus.len().max(1);
    writeln!(out, "LEVEL CPU SIZE {n_cpus}")?;
    for cpu in 0..n_cpus {
        writeln!(out, "CPU {cpu}")?;
    }
    let host = match line(&trace.info.host) {
        host if host.is_empty() => "machine".to_owned(),
        host => host,
    };
    writeln!(out, "\nLEVEL NODE SIZE 1\n{host}\n")?;
    writeln!(out, "LEVEL APPL SIZE {}", trace.processes.len())?;
    for process in &trace.processes {
        let name = line(trace.strings.get(process.name));
        writeln!(out, "{name} {}", process.pid)?;
    }
    writeln!(out, "\nLEVEL THREAD SIZE {}", trace.threads.len())?;
    // In the order of applications, which is that of rows.
    for process in &trace.processes {
        for thread in process.threads.clone() {
            let name = line(&label::thread(trace, ThreadIx(thread)));
            writeln!(out, "{name} {}", trace.threads[thread as usize].tid)?;
        }
    }
    out.flush()
}

/// Text that stays in its line.
fn line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The text with an upper-case first letter.
fn capital(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_ascii_uppercase());
    first.into_iter().chain(chars).collect()
}

/// Day, month, year, hour, minute of a time since 1970, UTC.
fn date(ns: i64) -> (i64, i64, i64, i64, i64) {
    let minutes = ns.div_euclid(60_000_000_000);
    let days = minutes.div_euclid(1440);
    // Years that begin in March have their odd day at their end (H. Hinnant's days_from_civil, backwards).
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (day, month, year, minutes.rem_euclid(1440) / 60, minutes.rem_euclid(60))
}

#[cfg(test)]
mod tests {
    use super::date;

    #[test]
    fn dates_of_seconds_since_1970() {
        const SECOND: i64 = 1_000_000_000;
        assert_eq!(date(0), (1, 1, 1970, 0, 0));
        assert_eq!(date(951_782_399 * SECOND), (28, 2, 2000, 23, 59));
        assert_eq!(date(951_782_400 * SECOND), (29, 2, 2000, 0, 0));
        assert_eq!(date(1_800_000_000 * SECOND), (15, 1, 2027, 8, 0));
    }
}
