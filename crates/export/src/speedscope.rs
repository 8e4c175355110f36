//! speedscope's own format: one evented profile for each thread, in nanoseconds, and two sampled ones where it has samples.
//!
//! The schema is <https://www.speedscope.app/file-format-schema.json>. A profile is a list of frames that open and
//! close, in order of time, and frames must nest:
//!
//! ```text
//! {"type":"O","frame":12,"at":1000}     slice 12 begins
//! {"type":"O","frame":4,"at":1200}      the thread falls asleep inside it: frame [sleeping]
//! {"type":"C","frame":4,"at":1900}      it runs again
//! {"type":"C","frame":12,"at":2000}
//! {"type":"O","frame":1,"at":2000}      it runs on outside of all slices: frame [running]
//! ```
//!
//! A frame is a slice; while the thread does not run, the innermost frame is the kernel state in brackets, so the
//! flame graph separates work from waiting. Outside of slices running is a state like the others; inside one it is what the slice has for itself.
//! So the frames of a thread, `[unknown]` included, add up to its life. The sampled profiles of a thread are `(on CPU)` and `(waits)`: stacks in order of time, each with the
//! time that it stands for, to the nanosecond; what no sample stands for is `[no call path]`. Together they weigh as much as the thread ran and was blocked. Critical sections need not nest and are left out. Events are made and
//! written one by one; memory is that of the samples of one thread, and of the time that each sample stands for.
use crate::samples;
use crate::{Exported, exported, json};
use kasuri_analyze::call_paths::{Cover, TimeOf, Whereabouts, state_parts};
use kasuri_analyze::{Options, Session};
use kasuri_model::label;
use kasuri_model::{
    PathIx, SampleKind, SliceIx, SliceKind, StrIx, ThreadIx, ThreadState, Time, Trace,
};
use serde::ser::{Serialize, SerializeSeq, Serializer};
use std::cell::Cell;
use std::collections::HashMap;
use std::io::{self, Write};

/// The `$schema` by which speedscope recognizes the file.
const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

/// Writes the whole recording into `out`.
///
/// # Errors
/// Those of `out`.
pub fn write<W: Write>(trace: &Trace, out: W) -> io::Result<Exported> {
    let (records, n_holds) = (Cell::new(0), Cell::new(0));
    let frames = Frames::new(trace);
    let session = Session::new(trace, &Options::default());
    let file = File {
        schema: SCHEMA,
        exporter: "kasuri",
        name: kasuri_analyze::program(trace).title(&trace.info.command),
        shared: Shared { frames: &frames.all },
        profiles: Profiles {
            trace,
            frames: &frames,
            cover: session.cover(),
            records: &records,
            n_holds: &n_holds,
        },
    };
    // The document, its profiles, a profile, its events: an event has a line.
    json::write(&file, 4, out)?;
    Ok(Exported { records: records.get(), left_out: left_out(trace, n_holds.get()) })
}

/// The document.
#[derive(serde::Serialize)]
struct File<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    exporter: &'static str,
    name: String,
    shared: Shared<'a>,
    profiles: Profiles<'a>,
}

/// The table of frames, which all profiles share. Events have positions in it.
#[derive(serde::Serialize)]
struct Shared<'a> {
    frames: &'a [Frame],
}

/// The name of a box in the flame graph, and its place in the source.
#[derive(serde::Serialize)]
struct Frame {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

impl Frame {
    /// `place`: `FILE:LINE`.
    fn new(name: &str, place: Option<&str>) -> Frame {
        let place = place.and_then(|place| place.rsplit_once(':'));
        Frame {
            name: name.to_owned(),
            file: place.map(|(file, _)| file.to_owned()),
            line: place.map(|(_, line)| line.parse().unwrap_or(0)),
        }
    }
}

/// One thread; times in ns since the recording's start.
#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct Profile<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    name: String,
    unit: &'static str,
    start_value: i64,
    end_value: i64,
    events: Events<'a>,
}

/// The samples of a thread of one group. The weights of all samples are its length.
#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct Sampled<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    name: String,
    unit: &'static str,
    start_value: i64,
    end_value: i64,
    samples: Stacks<'a>,
    weights: Vec<i64>,
}

/// Stacks of samples, made while they are written: positions of frames, outermost first.
struct Stacks<'a> {
    of: &'a Profiles<'a>,
    /// None: no path is known.
    paths: Vec<PathIx>,
}

impl Serialize for Stacks<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (trace, frames) = (self.of.trace, self.of.frames);
        serializer.collect_seq(self.paths.iter().map(|&path| {
            let code = samples::outermost_first(trace, path);
            let mut stack: Vec<usize> = code.iter().map(|row| frames.code + row).collect();
            if stack.is_empty() {
                stack.push(frames.no_path);
            }
            self.of.records.set(self.of.records.get() + 1);
            stack
        }))
    }
}

/// A frame opens (`O`) or closes (`C`).
#[derive(serde::Serialize)]
struct Event {
    #[serde(rename = "type")]
    kind: char,
    frame: usize,
    at: i64,
}

/// Lists what a reader of the file will not find.
fn left_out(trace: &Trace, n_holds: u64) -> Vec<String> {
    let mut out: Vec<String> = exported::threads_of_others(trace).into_iter().collect();
    for (n, what) in [
        (trace.occupancy.start.len(), exported::NO_EVENTS),
        (trace.cpus.len(), "which CPU ran a thread, and who woke it"),
        (n_holds as usize, "critical sections (they need not nest)"),
        (trace.instants.time.len(), "instants"),
        (trace.counters.len(), "counters"),
        (trace.flows.id.len() + trace.tasks.len() + trace.task_edges.kind.len(), "arrows"),
        (trace.args.name.len(), "arguments"),
        (trace.kernel_spans.start.len(), "interrupts and system calls"),
        (trace.losses.len(), "losses"),
        (
            usize::from(samples::has(trace, |kind| kind == SampleKind::Waker)),
            "call paths of wake-ups",
        ),
    ] {
        if n > 0 {
            out.push(what.to_owned());
        }
    }
    out
}

/// The table of frames, and where in it each name is. The first frames are the states, so that a state's number is
/// its frame.
struct Frames {
    by_name: HashMap<StrIx, usize>,
    by_kind: [Option<usize>; label::KINDS.len()],
    all: Vec<Frame>,
    /// Where the code's frames begin: in the order of the recording.
    code: usize,
    /// The frame of samples of which no call path is known.
    no_path: usize,
}

/// States in the order of their numbers.
const STATES: [ThreadState; 9] = [
    ThreadState::Unknown,
    ThreadState::Running,
    ThreadState::RunnableWoken,
    ThreadState::RunnablePreempted,
    ThreadState::Sleeping,
    ThreadState::DiskSleep,
    ThreadState::Stopped,
    ThreadState::Idle,
    ThreadState::Dead,
];

impl Frames {
    fn new(trace: &Trace) -> Frames {
        let states = STATES.map(|state| Frame::new(&format!("[{}]", label::state(state)), None));
        let mut frames = Frames {
            by_name: HashMap::new(),
            by_kind: Default::default(),
            all: states.into(),
            code: 0,
            no_path: 0,
        };
        for i in 0..trace.slices.start.len() {
            let (name, kind) = (trace.slices.name[i], trace.slices.kind[i]);
            let next = frames.all.len();
            if trace.strings.get(name).is_empty() {
                if frames.by_kind[kind as usize].is_none() {
                    frames.by_kind[kind as usize] = Some(next);
                    frames.all.push(Frame::new(label::kind(kind), None));
                }
            } else if kind != SliceKind::LockHold && !frames.by_name.contains_key(&name) {
                frames.by_name.insert(name, next);
                let place = trace.places.get(&name).map(String::as_str);
                let text = label::slice(trace, SliceIx(i as u32));
                frames.all.push(Frame::new(text, place));
            }
        }
        frames.add_code(trace);
        frames
    }

    /// Adds the functions of samples, where there are samples.
    fn add_code(&mut self, trace: &Trace) {
        if trace.samples.time.is_empty() {
            return;
        }
        self.code = self.all.len();
        let f = &trace.frames;
        for row in 0..f.function.len() {
            let file = trace.strings.get(f.file[row]);
            self.all.push(Frame {
                name: samples::frame_name(trace, row),
                file: (!file.is_empty()).then(|| file.to_owned()),
                line: (f.line[row] > 0).then_some(f.line[row]),
            });
        }
        self.no_path = self.all.len();
        self.all.push(Frame::new("[no call path]", None));
    }

    /// The frame of a slice with this name and kind.
    fn of(&self, name: StrIx, kind: SliceKind) -> usize {
        let named = self.by_name.get(&name).copied();
        named.or(self.by_kind[kind as usize]).unwrap_or(0)
    }
}

/// A profile for each thread of the program that has something to show.
struct Profiles<'a> {
    trace: &'a Trace,
    frames: &'a Frames,
    cover: &'a Cover,
    /// Events and samples written so far.
    records: &'a Cell<u64>,
    /// Critical sections left out so far.
    n_holds: &'a Cell<u64>,
}

impl Serialize for Profiles<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(None)?;
        let mut is_empty = true;
        for ix in exported::of_program(self.trace) {
            let row = &self.trace.threads[ix.ix()];
            if !row.slices.is_empty() || !row.states.is_empty() {
                let name = format!("{} {}", label::thread(self.trace, ix), row.tid);
                seq.serialize_element(&self.profile(name, Some(ix)))?;
                is_empty = false;
            }
            for of in [TimeOf::OnCpu, TimeOf::Blocked] {
                let rows = self.samples(ix, of);
                if !rows.is_empty() {
                    seq.serialize_element(&self.sampled(ix, of, rows))?;
                    is_empty = false;
                }
            }
        }
        if is_empty {
            // A file without a profile is an error to speedscope.
            seq.serialize_element(&self.profile("no thread".to_owned(), None))?;
        }
        seq.end()
    }
}

impl Profiles<'_> {
    /// Where a thread ran or was blocked and for how long, ns, in order of time. Nothing in a recording without samples.
    fn samples(&self, ix: ThreadIx, of: TimeOf) -> Vec<(PathIx, i64)> {
        let (trace, s) = (self.trace, &self.trace.samples);
        let own = trace.samples_of(ix);
        if trace.is_weighed() {
            let is_meant = |&row: &usize| match of {
                TimeOf::OnCpu => s.kind[row] == SampleKind::OnCpu,
                _ => s.kind[row].is_wait(),
            };
            let row = |row: usize| (s.path[row], s.weight[row].ns());
            return own.filter(is_meant).map(row).collect();
        }
        if s.time.is_empty() {
            return Vec::new();
        }
        let mut out: Vec<(PathIx, i64)> = Vec::new();
        for part in state_parts(trace, self.cover, ix).filter(|part| part.of() == Some(of)) {
            let path = match part.at {
                Whereabouts::At(path) => path,
                _ => PathIx::NONE,
            };
            let ns = part.length().ns();
            match out.last_mut() {
                Some(last) if last.0 == path => last.1 += ns,
                _ => out.push((path, ns)),
            }
        }
        out
    }

    /// The profile of a thread's samples.
    fn sampled(&self, ix: ThreadIx, of: TimeOf, rows: Vec<(PathIx, i64)>) -> Sampled<'_> {
        let of = if of == TimeOf::OnCpu { "on CPU" } else { "waits" };
        let (paths, weights): (Vec<PathIx>, Vec<i64>) = rows.into_iter().unzip();
        let tid = self.trace.threads[ix.ix()].tid;
        Sampled {
            kind: "sampled",
            name: format!("{} {tid} ({of})", label::thread(self.trace, ix)),
            unit: "nanoseconds",
            start_value: 0,
            end_value: weights.iter().sum(),
            samples: Stacks { of: self, paths },
            weights,
        }
    }

    /// The profile of a thread; an empty one without.
    fn profile(&self, name: String, thread: Option<ThreadIx>) -> Profile<'_> {
        Profile {
            kind: "evented",
            name,
            unit: "nanoseconds",
            start_value: self.trace.span.start.ns(),
            end_value: self.trace.span.end.ns(),
            events: Events { of: self, thread },
        }
    }
}

/// The events of one thread, made while they are written.
struct Events<'a> {
    of: &'a Profiles<'a>,
    thread: Option<ThreadIx>,
}

impl Serialize for Events<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let seq = serializer.serialize_seq(None)?;
        let Some(thread) = self.thread else {
            return seq.end();
        };
        let mut walk = Walk {
            of: self.of,
            trace: self.of.trace,
            seq,
            open: Vec::new(),
            state: None,
            leaf: None,
            last: self.of.trace.span.start,
        };
        walk.thread(thread)?;
        walk.seq.end()
    }
}

/// Goes through a thread's slices and states side by side.
///
/// speedscope wants frames that nest and events in order of time. Slices nest, but states change anywhere: the
/// state's frame, here called the leaf, is closed before each change of slices and opened again after it. While it is open nothing else
/// happens, so it is written when it closes, and not at all where no time passed.
struct Walk<'a, Q> {
    of: &'a Profiles<'a>,
    trace: &'a Trace,
    seq: Q,
    /// Frames that are open, with when they end.
    open: Vec<(usize, Time)>,
    /// The state that the thread is in.
    state: Option<ThreadState>,
    /// Its frame where it is drawn, with when it opened.
    leaf: Option<(usize, Time)>,
    last: Time,
}

impl<Q: SerializeSeq> Walk<'_, Q> {
    /// Writes all events of a thread.
    fn thread(&mut self, ix: ThreadIx) -> Result<(), Q::Error> {
        let (trace, row) = (self.trace, &self.trace.threads[ix.ix()]);
        let mut states = row.states.clone().map(|i| i as usize).peekable();
        for i in row.slices.clone().map(|i| i as usize) {
            if trace.slices.kind[i] == SliceKind::LockHold {
                self.of.n_holds.set(self.of.n_holds.get() + 1);
                continue;
            }
            let start = trace.slices.start[i];
            self.run_to(start, &mut states)?;
            let depth = usize::from(trace.slices.depth[i]);
            while self.open.len() > depth {
                self.close_frame(start)?;
            }
            self.hide_leaf(start)?;
            let frame = (self.of.frames).of(trace.slices.name[i], trace.slices.kind[i]);
            self.event('O', frame, start)?;
            // A slice must not end after the one around it.
            let within = self.open.last().map_or(trace.span.end, |&(_, end)| end);
            self.open.push((frame, trace.slices.end[i].min(within)));
            self.show_leaf(start);
        }
        let end = if row.states.is_empty() { Time::MIN } else { row.alive.end };
        self.run_to(trace.span.end, &mut states)?;
        while !self.open.is_empty() {
            self.close_frame(trace.span.end)?;
        }
        self.hide_leaf(end.min(trace.span.end))?;
        Ok(())
    }

    /// States that begin and frames that end up to `time`, in order.
    fn run_to(
        &mut self,
        time: Time,
        states: &mut std::iter::Peekable<impl Iterator<Item = usize>>,
    ) -> Result<(), Q::Error> {
        loop {
            let state = states.peek().map(|&i| self.trace.states.start[i]);
            let end = self.open.last().map(|&(_, end)| end);
            match (state, end) {
                // A frame that ends when a state begins is closed first.
                (Some(at), end) if at <= time && end.is_none_or(|end| at < end) => {
                    self.hide_leaf(at)?;
                    self.state = states.next().map(|i| self.trace.states.state[i]);
                    self.show_leaf(at);
                }
                (_, Some(end)) if end <= time => self.close_frame(end)?,
                _ => return Ok(()),
            }
        }
    }

    /// Ends the innermost frame; the state goes on in the one around it.
    fn close_frame(&mut self, at: Time) -> Result<(), Q::Error> {
        self.hide_leaf(at)?;
        if let Some((frame, end)) = self.open.pop() {
            self.event('C', frame, at.min(end))?;
        }
        self.show_leaf(at);
        Ok(())
    }

    /// Ends the state's frame.
    fn hide_leaf(&mut self, at: Time) -> Result<(), Q::Error> {
        match self.leaf.take() {
            Some((frame, since)) if since < at => {
                self.event('O', frame, since)?;
                self.event('C', frame, at)
            }
            _ => Ok(()),
        }
    }

    /// Begins the frame of the state, if it is to be drawn.
    fn show_leaf(&mut self, at: Time) {
        let is_inside = !self.open.is_empty();
        let is_drawn = |state: &ThreadState| *state != ThreadState::Running || !is_inside;
        let frame = self.state.filter(is_drawn).map(|state| state as usize);
        self.leaf = frame.map(|frame| (frame, at));
    }

    fn event(&mut self, kind: char, frame: usize, at: Time) -> Result<(), Q::Error> {
        self.of.records.set(self.of.records.get() + 1);
        // Events of a profile must not go back.
        self.last = self.last.max(at);
        let at = self.last.ns();
        self.seq.serialize_element(&Event { kind, frame, at })
    }
}
