//! Reads the text that ftrace prints: `trace`, `trace_pipe`, `trace-cmd report`, `perf script`, and systrace's HTML, which embeds it.
//!
//! A line is `COMM-TID [CPU] FLAGS TIME: EVENT: ...`, for example:
//!
//! ```text
//! sh-7 [001] d..2. 12.345678: sched_switch: prev_comm=sh prev_pid=7 ... ==> next_comm=swapper/1 ...
//! ```
//!
//! [`kasuri_format::ftrace_text`] parses a line, [`TextEvents`] the text after the event's name.
//!
//! [`open`] surveys all lines once. It notes the position of each CPU's lines, 8 bytes per line, and collects whatever
//! belongs to no CPU: texts of programs, losses, processes. [`CpuSource`] parses the lines again when the passes ask
//! for the events of its CPU.
//!
//! Lines that are not understood become a loss. If they outnumber the events, the file is refused, unless it is
//! salvaged. Lines of a CPU that are not in the order of time are sorted ([`order`]).
mod order;

use crate::marks::Marks;
use crate::text_events::{TextEvent, TextEvents, state_number};
use crate::{Clock, Error, File, Kind, Opened, Options, Source};
use base64::Engine;
use kasuri_format::ftrace_text::{self, Line};
use kasuri_format::{Error as FormatError, ErrorKind};
use kasuri_model::input::{CpuEvents, Event, KnownThread, Setup, What};
use kasuri_model::{EventCost, Info, Loss, Strings, ThreadIx, Time, Trace};
use order::{Order, Sorted};
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::io::Read;
use std::rc::Rc;

/// Events that one call of `fill` makes.
const BATCH: usize = 512;
/// Lines that [`detect`] looks at.
const LOOK_LINES: usize = 100;
/// Bytes that [`detect`] looks at.
const LOOK_BYTES: usize = 1 << 16;
/// No machine has more CPUs; a larger number is damage, and must not size a table.
const CPUS_MAX: u32 = 8192;
/// Attribute of the script elements that hold the trace in systrace's HTML.
const SCRIPT: &[u8] = b"class=\"trace-data\"";
/// Older versions of systrace have it as a literal of JavaScript.
const LITERAL: &[u8] = b"var linuxPerfData = \"";
/// Compressed text inside HTML may unpack to this many times its size, and to 64 MiB in any case.
const RATIO: u64 = 1000;

/// Whether a file is ftrace's text: HTML with a trace inside, the header `# tracer:`, or an event in the first lines.
/// A zero byte excludes text.
pub(crate) fn detect(files: &[File<'_>]) -> bool {
    let [file] = files else {
        return false;
    };
    if is_html(file.bytes) {
        return find(file.bytes, SCRIPT).is_some() || find(file.bytes, LITERAL).is_some();
    }
    let head = &file.bytes[..file.bytes.len().min(LOOK_BYTES)];
    if head.contains(&0) {
        return false;
    }
    let mut lines = head.split(|&b| b == b'\n').take(LOOK_LINES);
    head.starts_with(b"# tracer:")
        || lines.any(|line| matches!(ftrace_text::parse(line), ftrace_text::Kind::Event(_)))
}

/// Whether the content looks like HTML: its first visible character is `<`, and not that of a thread's name as ftrace
/// prints it, `<idle>-0`, `<...>-1234` or `<unknown>-200` (a `trace_pipe` has no head): no tag is followed by a number.
fn is_html(bytes: &[u8]) -> bool {
    let head = bytes[..bytes.len().min(1024)].trim_ascii_start();
    let mut after = head.splitn(2, |&b| b == b'>').skip(1);
    let is_thread = matches!(after.next(), Some([b'-', b'0'..=b'9', ..]));
    head.starts_with(b"<") && !is_thread
}

/// The first position of `wanted` in a text. The search looks for its first byte, which is quick for rare ones.
fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    let first = *wanted.first()?;
    let mut from = 0;
    while let Some(at) = text[from..].iter().position(|&b| b == first) {
        if text[from + at..].starts_with(wanted) {
            return Some(from + at);
        }
        from += at + 1;
    }
    None
}

/// A piece of text, and its offset in the file.
struct Part<'a> {
    text: Cow<'a, [u8]>,
    offset: u64,
}

/// The text of a file: the whole file, or the scripts of class `trace-data` of an HTML page, or its literal.
fn parts(bytes: &[u8]) -> Result<Vec<Part<'_>>, FormatError> {
    if !is_html(bytes) {
        return Ok(vec![Part { text: Cow::Borrowed(bytes), offset: 0 }]);
    }
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(found) = find(&bytes[at..], SCRIPT) {
        let tag = at + found;
        let Some(open) = bytes[tag..].iter().position(|&b| b == b'>') else {
            break;
        };
        let from = tag + open + 1;
        let Some(len) = find(&bytes[from..], b"</script>") else {
            return Err(FormatError::truncated(
                "trace in HTML",
                from as u64,
                (bytes.len() - from) as u64,
                (bytes.len() - from) as u64 + 9,
            ));
        };
        out.push(Part {
            text: script(&bytes[from..from + len], from as u64)?,
            offset: from as u64,
        });
        at = from + len;
    }
    if let Some(found) = find(bytes, LITERAL).filter(|_| out.is_empty()) {
        let from = found + LITERAL.len();
        // Samples that were cut by hand have no closing quote.
        let end = find(&bytes[from..], b"</script>");
        let (text, is_closed) = literal(&bytes[from..end.map_or(bytes.len(), |end| from + end)]);
        if !is_closed && end.is_none() {
            let (found, needed) = ("text without an end".to_owned(), "`\"`");
            let what = "trace in HTML";
            return Err(FormatError::damaged(what, from as u64, found, needed));
        }
        out.push(Part { text: Cow::Owned(text), offset: from as u64 });
    }
    Ok(out)
}

/// The text of a literal of JavaScript, up to its closing quote; whether it has one.
fn literal(bytes: &[u8]) -> (Vec<u8>, bool) {
    let mut out = Vec::new();
    let mut rest = bytes.iter().copied();
    while let Some(byte) = rest.next() {
        match byte {
            b'"' => return (out, true),
            b'\\' => match rest.next() {
                Some(b'n') => out.push(b'\n'),
                Some(b't') => out.push(b'\t'),
                Some(b'r') => out.push(b'\r'),
                // A line feed that only the source has.
                Some(b'\n') | None => {}
                Some(other) => out.push(other),
            },
            byte => out.push(byte),
        }
    }
    (out, false)
}

/// The text of a script, which is plain or packed as base64 of zlib or gzip.
///
/// # Errors
/// Damaged base64 or compression, or a result beyond [`RATIO`].
fn script(content: &[u8], offset: u64) -> Result<Cow<'_, [u8]>, FormatError> {
    let packed: Vec<u8> = (content.iter().copied())
        .filter(|b| !b.is_ascii_whitespace())
        .take(content.len())
        .collect();
    let is_base64 = |b: &u8| b.is_ascii_alphanumeric() || b"+/=".contains(b);
    if packed.len() < 16 || !packed.iter().all(is_base64) {
        return Ok(Cow::Borrowed(content));
    }
    let bad = |found: String| {
        FormatError::damaged("compressed trace in HTML", offset, found, "base64 of zlib or gzip")
    };
    let packed = (base64::engine::general_purpose::STANDARD.decode(packed))
        .map_err(|e| bad(e.to_string()))?;
    let limit = (packed.len() as u64).saturating_mul(RATIO).max(64 << 20);
    let mut out = Vec::new();
    let unpacked = if packed.starts_with(&[0x1f, 0x8b]) {
        flate2::read::MultiGzDecoder::new(&packed[..]).take(limit + 1).read_to_end(&mut out)
    } else {
        flate2::read::ZlibDecoder::new(&packed[..]).take(limit + 1).read_to_end(&mut out)
    };
    unpacked.map_err(|e| bad(e.to_string()))?;
    if out.len() as u64 > limit {
        let found = format!("more than {limit} bytes");
        return Err(FormatError::new(
            ErrorKind::Limit,
            "compressed trace in HTML",
            offset,
            found,
            format!("at most {RATIO} times its size"),
        ));
    }
    Ok(Cow::Owned(out))
}

/// The result of one pass over all lines.
#[derive(Default)]
struct Survey {
    /// By CPU: the part and the offset in it of each line of that CPU.
    cpus: Vec<Vec<(u32, u32)>>,
    /// First and last stamp, ns.
    span: Option<(i64, i64)>,
    /// What is known about the order of each CPU's lines.
    orders: Vec<Order>,
    /// Texts of `trace_marker`: stamp, part and offset of the line.
    marked: Vec<(i64, (u32, u32))>,
    /// What putting lines in order changed.
    sorted: Sorted,
    /// All bits of `prev_state` where it was printed as a number.
    state_bits: i64,
    /// Lines of perf.
    n_perf: u64,
    /// The process of each thread, in traces recorded with the option `record-tgid`.
    pids: HashMap<i32, i32>,
    /// The first name of each thread.
    comms: HashMap<i32, kasuri_model::StrIx>,
    /// Events by name.
    counts: HashMap<Box<[u8]>, u64>,
    /// Lines `CPU:N [LOST M EVENTS]`: CPU, the last stamp before it, events lost.
    lost: Vec<(u32, i64, u64)>,
    /// Events that the ring buffer overwrote, according to the header (`entries-in-buffer/entries-written`).
    overwritten: u64,
    /// Number of CPUs according to the header (`#P:N`); 0: there is none.
    header_cpus: u32,
    n_events: u64,
    /// Lines that were not understood.
    n_other: u64,
    /// The first of them: its offset, its number, its beginning.
    first_other: Option<(u64, u64, String)>,
}

// Callers check `cpu` against `CPUS_MAX`.
impl Survey {
    /// The lines of a CPU, and their order.
    fn cpu(&mut self, cpu: u32) -> (&mut Vec<(u32, u32)>, &mut Order) {
        let ix = cpu as usize;
        if ix >= self.cpus.len() {
            self.cpus.resize(ix + 1, Vec::new());
            self.orders.resize(ix + 1, Order::default());
        }
        (&mut self.cpus[ix], &mut self.orders[ix])
    }

    /// Takes in a line: an event, a comment of the header, a loss, or something else.
    fn line(&mut self, line: &[u8], at: &At<'_>, strings: &mut Strings) {
        match ftrace_text::parse(line) {
            ftrace_text::Kind::Event(event) if event.cpu < CPUS_MAX => {
                self.event(&event, line, at, strings)
            }
            ftrace_text::Kind::Lost { cpu, count } if cpu < CPUS_MAX => {
                // The line has no time; it was lost after what came before.
                let after = self.span.map_or(0, |(_, last)| last);
                self.lost.push((cpu, after, count));
                self.cpu(cpu).0.push(at.place);
            }
            ftrace_text::Kind::Header { kept, written, cpus } => {
                self.overwritten += written.saturating_sub(kept);
                self.header_cpus = self.header_cpus.max(cpus.min(CPUS_MAX));
            }
            ftrace_text::Kind::Comment => {}
            _ => {
                self.n_other += 1;
                if self.first_other.is_none() {
                    self.first_other = Some((at.offset, at.number, beginning(line)));
                }
            }
        }
    }

    /// Takes in an event, of which the passes read the text later.
    fn event(&mut self, event: &Line<'_>, line: &[u8], at: &At<'_>, strings: &mut Strings) {
        self.n_events += 1;
        self.n_perf += u64::from(event.is_perf);
        let (first, last) = self.span.unwrap_or((event.time, event.time));
        self.span = Some((first.min(event.time), last.max(event.time)));
        // Not `entry`, which would copy the name of each event.
        match self.counts.get_mut(event.event) {
            Some(count) => *count += 1,
            None => {
                self.counts.insert(event.event.into(), 1);
            }
        }
        if let Some(pid) = event.pid {
            self.pids.insert(event.tid, pid);
        }
        // `<...>`: the kernel had forgotten the name. perf can leave names out.
        let is_named = event.comm != b"<...>" && !event.comm.is_empty();
        if event.tid > 0 && !self.comms.contains_key(&event.tid) && is_named {
            let comm = strings.intern(&String::from_utf8_lossy(event.comm));
            self.comms.insert(event.tid, comm);
        }
        if mark(event).is_some() {
            self.marked.push((event.time, at.place));
            return;
        }
        let is_switch = event.event == b"sched_switch";
        if is_switch && let Ok(text) = std::str::from_utf8(event.text) {
            self.state_bits |= state_number(text).unwrap_or(0);
        }
        let (lines, order) = self.cpu(event.cpu);
        let is_again = || {
            let before = lines.last().filter(|before| before.0 == at.place.0);
            before.is_some_and(|&(_, before)| order::line(at.text, before) == line)
        };
        order.next(event.time, at.number, is_switch, is_again);
        lines.push(at.place);
    }
}

/// Where a line stands.
struct At<'t> {
    /// The text of its part.
    text: &'t [u8],
    /// Part, and offset in it.
    place: (u32, u32),
    /// Offset in the file.
    offset: u64,
    /// Number in its part, from 1.
    number: u64,
}

/// The beginning of a line, for messages.
fn beginning(line: &[u8]) -> String {
    let line = line.trim_ascii();
    String::from_utf8_lossy(&line[..line.len().min(60)]).into_owned()
}

/// The text that a program wrote to `trace_marker`; none: another event.
fn mark<'l>(event: &Line<'l>) -> Option<&'l [u8]> {
    match event.event {
        b"tracing_mark_write" => Some(event.text),
        // trace-cmd prints the kernel's event `print`.
        b"print" => find(event.text, b"tracing_mark_write: ").map(|at| &event.text[at + 20..]),
        _ => None,
    }
}

/// Surveys all lines, and makes a source for each CPU.
///
/// # Errors
/// The text is not ftrace's, unless `options.salvage` takes what there is of it.
pub(crate) fn open<'a>(
    files: &'a [File<'a>],
    options: &Options,
    strings: &mut Strings,
) -> Result<Opened<'a>, Error> {
    let file = files.first().copied().unwrap_or_default();
    let opened = parts(file.bytes).and_then(|parts| {
        let salvage = options.salvage;
        read(parts, is_html(file.bytes), salvage, strings)
    });
    opened.map_err(|error| Error::format(file.name, error))
}

/// The scheduler's events that a file of another format holds as such text.
///
/// # Errors
/// The text is not ftrace's.
pub(crate) fn embedded<'a>(
    text: Vec<u8>,
    strings: &mut Strings,
) -> Result<Opened<'a>, FormatError> {
    let part = Part { text: Cow::Owned(text), offset: 0 };
    read(vec![part], false, false, strings)
}

/// Reads the parts of one trace.
fn read<'a>(
    parts: Vec<Part<'a>>,
    is_html: bool,
    salvage: bool,
    strings: &mut Strings,
) -> Result<Opened<'a>, FormatError> {
    let mut survey = Survey::default();
    for (ix, part) in parts.iter().enumerate() {
        survey.part(ix as u32, part, strings)?;
    }
    survey.judge(salvage)?;
    survey.sort(&parts);
    let mut opened = Opened::new(Kind::FtraceText, Clock::Sched);
    opened.setup = setup(&survey, strings);
    opened.info = info(&survey, is_html);
    let marks = survey.marks(&parts, strings);
    opened.realtime_offset_ns = marks.realtime_offset_ns();
    if !survey.marked.is_empty() {
        for stream in marks.streams(strings) {
            opened.streams.push(Box::new(stream));
        }
    }
    let has_waking = survey.counts.contains_key(&b"sched_waking"[..]);
    let parts: Rc<Vec<Part<'a>>> = Rc::new(parts);
    let dropped: Rc<RefCell<Dropped>> = Rc::default();
    for (cpu, lines) in std::mem::take(&mut survey.cpus).into_iter().enumerate() {
        if !lines.is_empty() {
            let source = CpuSource {
                parts: parts.clone(),
                lines,
                next: 0,
                events: TextEvents::new(has_waking, "").with_state_bits(survey.state_bits),
                dropped: dropped.clone(),
                last: opened.setup.span.start,
            };
            opened.cpus.push((cpu as u16, Source::Here(Box::new(source))));
        }
    }
    opened.finish = Box::new(move |trace| finish(&survey, &dropped.borrow(), trace));
    Ok(opened)
}

impl Survey {
    /// Takes in all lines of a part.
    fn part(&mut self, ix: u32, part: &Part<'_>, strings: &mut Strings) -> Result<(), FormatError> {
        let mut at = 0;
        for (number, line) in part.text.split(|&b| b == b'\n').enumerate() {
            let place = u32::try_from(at).map_err(|_| too_long(part))?;
            let of_line = At {
                text: &part.text,
                place: (ix, place),
                offset: part.offset + at as u64,
                number: number as u64 + 1,
            };
            self.line(line, &of_line, strings);
            at += line.len() + 1;
        }
        Ok(())
    }

    /// Puts the lines in the order of time.
    fn sort(&mut self, parts: &[Part<'_>]) {
        let of = |(part, at): order::Place| order::line(&parts[part as usize].text, at);
        let (sorted, again) = order::sort(&self.orders, &mut self.cpus, &mut self.marked, of);
        self.sorted = sorted;
        for place in again {
            if let ftrace_text::Kind::Event(event) = ftrace_text::parse(of(place))
                && let Some(count) = self.counts.get_mut(event.event)
            {
                *count -= 1;
                self.n_events -= 1;
            }
        }
    }

    /// The texts of `trace_marker`.
    fn marks(&self, parts: &[Part<'_>], strings: &mut Strings) -> Marks {
        let mut marks = Marks::default();
        for &(time, (part, at)) in &self.marked {
            let line = order::line(&parts[part as usize].text, at);
            if let ftrace_text::Kind::Event(event) = ftrace_text::parse(line)
                && let Some(text) = mark(&event)
            {
                let pid = event.pid.unwrap_or(0);
                marks.add(Time(time), event.tid, pid, text, strings);
            }
        }
        marks
    }

    /// An error where this is not ftrace's text: most lines are something else, or none is an event.
    fn judge(&self, salvage: bool) -> Result<(), FormatError> {
        if let Some((offset, number, head)) = &self.first_other
            && !salvage
            && self.n_other > self.n_events
        {
            let more = self.n_other - 1;
            return Err(FormatError::damaged(
                "ftrace text",
                *offset,
                format!("{head:?} in line {number}, and {more} more like it"),
                "\"COMM-TID [CPU] TIME: EVENT: ...\" in most lines",
            ));
        }
        if self.n_events == 0 {
            let (found, wanted) = ("no event", "one at least");
            let kind = ErrorKind::Truncated;
            return Err(FormatError::new(kind, "ftrace text", 0, found, wanted));
        }
        Ok(())
    }
}

/// The error for a part whose offsets do not fit in 32 bits.
fn too_long(part: &Part<'_>) -> FormatError {
    let found = format!("{} bytes", part.text.len());
    let wanted = "at most 4 GiB";
    FormatError::new(ErrorKind::Limit, "ftrace text", part.offset, found, wanted)
        .remedy("record with trace-cmd")
}

/// The facts that the passes need before the first event.
fn setup(survey: &Survey, strings: &Strings) -> Setup {
    let (first, last) = survey.span.unwrap_or_default();
    let known = survey.pids.iter().map(|(&tid, &pid)| KnownThread {
        time: Time(first),
        pid,
        tid,
        ppid: 0,
        comm: survey.comms.get(&tid).map_or("", |&comm| strings.get(comm)).to_owned(),
    });
    let mut known: Vec<KnownThread> = known.filter(|k| k.tid > 0).collect();
    known.sort_by_key(|k| k.tid);
    Setup {
        span: Time(first)..Time(last),
        n_cpus: survey.header_cpus as usize,
        known,
        // Each CPU's buffer begins with the oldest event that was not overwritten.
        starts_late: true,
        stops: stops(survey),
        has_migrations: survey.counts.contains_key(&b"sched_migrate_task"[..]),
        ..Setup::default()
    }
}

/// The CPUs whose events may end early: a buffer that does not overwrite takes nothing more once it is full, and the text does not say so.
/// One that overwrites has the newest events.
fn stops(survey: &Survey) -> Vec<(u16, Time)> {
    if survey.overwritten > 0 {
        return Vec::new();
    }
    (0..survey.cpus.len()).map(|cpu| (cpu as u16, Time::MIN)).collect()
}

/// Facts for people, among them what the trace cannot show.
fn info(survey: &Survey, is_html: bool) -> Info {
    let has = |name: &str| survey.counts.contains_key(name.as_bytes());
    let mut missing = Vec::new();
    if !has("sched_switch") {
        missing.push("no switches were recorded: who ran where and when is unknown; `trace-cmd record -e sched` records them".to_owned());
    } else if !has("sched_waking") && !has("sched_wakeup") {
        missing.push("no wake-ups were recorded: who woke whom is unknown; `trace-cmd record -e sched` records them".to_owned());
    }
    missing.push("times are cut to what the text prints, mostly microseconds: what is shorter is 0; trace.dat has them whole".to_owned());
    missing.extend(survey.sorted.messages());
    let mut counts: Vec<_> = survey.counts.iter().filter(|(_, n)| **n > 0).collect();
    counts.sort();
    Info {
        format: match (is_html, survey.n_perf > 0) {
            (true, _) => "ftrace text in HTML",
            (_, true) => "perf script text",
            _ => "ftrace text",
        }
        .into(),
        kernel_source: if has("sched_switch") { "tracefs" } else { "none" }.into(),
        event_costs: (counts.iter())
            .map(|(name, n)| EventCost {
                name: String::from_utf8_lossy(name).into_owned(),
                n: **n,
                n_program: **n,
                ..EventCost::default()
            })
            .collect(),
        missing,
        ..Info::default()
    }
}

/// Adds the losses to the finished trace.
fn finish(survey: &Survey, dropped: &Dropped, trace: &mut Trace) {
    let start = survey.span.map_or(0, |(first, _)| first);
    trace.n_kernel_events = survey.n_events;
    let whole = trace.span.clone();
    let loss = |cause: String, cpu, count, when, remedy: &str| Loss {
        cause,
        cpu,
        thread: ThreadIx::NONE,
        when,
        count,
        remedy: remedy.to_owned(),
    };
    for &(cpu, at, count) in &survey.lost {
        let at = Time(at.saturating_sub(start));
        let remedy = "record with larger buffers (buffer_size_kb)";
        trace.losses.push(loss(
            "kernel buffer overrun".into(),
            Some(cpu as u16),
            count,
            at..at,
            remedy,
        ));
    }
    // The header counts what the ring buffer overwrote, of all CPUs together: it lies before the lines that were kept.
    if survey.overwritten > 0 {
        let remedy = "record with larger buffers (buffer_size_kb), or with trace-cmd";
        trace.losses.push(loss(
            "overwritten before it was read".into(),
            None,
            survey.overwritten,
            whole.start..whole.start,
            remedy,
        ));
    }
    if let Some((offset, number, head)) = &survey.first_other {
        let cause =
            format!("lines not understood, the first at byte {offset}, line {number}: {head:?}");
        trace.losses.push(loss(cause, None, survey.n_other, whole, ""));
    }
    if let Some((offset, head)) = &dropped.first {
        let cause = format!("events not understood, the first at byte {offset}: {head:?}");
        let whole = trace.span.clone();
        trace.losses.push(loss(cause, None, dropped.n, whole, ""));
    }
    trace.losses.sort_by_key(|l| (l.when.start, l.cpu, l.thread));
}

/// Events that the passes use and whose text is not understood: a number that is none, a name that is missing.
#[derive(Default)]
struct Dropped {
    n: u64,
    /// The first: its line's offset and beginning.
    first: Option<(u64, String)>,
}

/// One CPU's events.
struct CpuSource<'a> {
    parts: Rc<Vec<Part<'a>>>,
    /// Part and offset of each line.
    lines: Vec<(u32, u32)>,
    next: usize,
    events: TextEvents,
    dropped: Rc<RefCell<Dropped>>,
    /// The highest stamp so far, at which a loss begins.
    last: Time,
}

impl CpuEvents for CpuSource<'_> {
    fn fill(
        &mut self,
        strings: &mut Strings,
        out: &mut Vec<Event>,
    ) -> Result<(), kasuri_model::Error> {
        while out.len() < BATCH {
            let Some(&(part, at)) = self.lines.get(self.next) else {
                break;
            };
            self.next += 1;
            let whole = order::line(&self.parts[part as usize].text, at);
            let line = match ftrace_text::parse(whole) {
                ftrace_text::Kind::Event(line) => line,
                _ => {
                    out.push(Event {
                        time: self.last,
                        context: -1,
                        in_interrupt: false,
                        what: What::Lost,
                    });
                    continue;
                }
            };
            self.last = self.last.max(Time(line.time));
            let (name, text) =
                (String::from_utf8_lossy(line.event), String::from_utf8_lossy(line.text));
            let event = TextEvent {
                name: &name,
                text: &text,
                time: Time(line.time),
                context: line.tid,
                flags: line.flags,
            };
            match self.events.event(&event, strings) {
                Some(event) => out.push(event),
                None if self.events.is_used(&name) => {
                    let offset = self.parts[part as usize].offset + u64::from(at);
                    let mut dropped = self.dropped.borrow_mut();
                    dropped.n += 1;
                    dropped.first.get_or_insert_with(|| (offset, beginning(whole)));
                }
                None => {}
            }
        }
        Ok(())
    }
}
