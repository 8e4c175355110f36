//! speedscope's own format: one evented profile for each thread, in nanoseconds.
//!
//! A frame is a slice; inside it, while the thread does not run, the innermost frame is the kernel state in brackets:
//! the flame graph so tells work from waiting. Written event by event; memory does not grow with the recording.
use crate::Exported;
use crate::exported::Counted;
use kasuri_model::label;
use kasuri_model::{SliceIx, SliceKind, StrIx, ThreadIx, ThreadState, Time, Trace};
use std::collections::HashMap;
use std::io::{self, Write};

const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

/// Writes the whole recording into `out`.
///
/// # Errors
/// Those of `out`.
pub fn write<W: Write>(trace: &Trace, out: W) -> io::Result<Exported> {
    let mut profiles = Profiles {
        trace,
        frames: Frames::new(trace),
        sink: Counted { out, records: 0 },
        open: Vec::new(),
        leaf: None,
        is_first_event: true,
        last: trace.span.start,
        n_holds: 0,
    };
    profiles.head()?;
    let mut is_first = true;
    for i in 0..trace.threads.len() as u32 {
        if !trace.threads[i as usize].slices.is_empty() || profiles.has_states(ThreadIx(i)) {
            if !is_first {
                profiles.text(",")?;
            }
            is_first = false;
            profiles.thread(ThreadIx(i))?;
        }
    }
    let (start, end) = (trace.span.start.ns(), trace.span.end.ns());
    if is_first {
        // A file without a profile is an error to speedscope.
        profiles.text(&format!(
            "\n{{\"type\":\"evented\",\"name\":\"no thread\",\"unit\":\"nanoseconds\",\"startValue\":{start},\"endValue\":{end},\"events\":[]}}"
        ))?;
    }
    profiles.text("\n]}\n")?;
    profiles.sink.out.flush()?;
    Ok(Exported {
        records: profiles.sink.records,
        left_out: left_out(trace, profiles.n_holds),
    })
}

fn left_out(trace: &Trace, n_holds: u64) -> Vec<String> {
    let mut out = Vec::new();
    for (n, what) in [
        (trace.occupancy.start.len(), crate::exported::NO_EVENTS),
        (trace.cpus.len(), "which CPU ran a thread, and who woke it"),
        (n_holds as usize, "critical sections (they need not nest)"),
        (trace.instants.time.len(), "instants"),
        (trace.counters.len(), "counters"),
        (trace.flows.id.len() + trace.tasks.len(), "arrows"),
        (trace.args.name.len(), "arguments"),
        (
            trace.kernel_spans.start.len(),
            "interrupts and system calls",
        ),
        (trace.losses.len(), "losses"),
    ] {
        if n > 0 {
            out.push(what.to_owned());
        }
    }
    out
}

/// Names of frames by number; first those of states.
struct Frames {
    by_name: HashMap<StrIx, usize>,
    by_kind: [Option<usize>; label::KINDS.len()],
    names: Vec<(String, Option<String>)>,
}

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
        let states = STATES.map(|state| (format!("[{}]", label::state(state)), None));
        let mut frames = Frames {
            by_name: HashMap::new(),
            by_kind: Default::default(),
            names: states.into(),
        };
        for i in 0..trace.slices.start.len() {
            let (name, kind) = (trace.slices.name[i], trace.slices.kind[i]);
            let next = frames.names.len();
            if trace.strings.get(name).is_empty() {
                if frames.by_kind[kind as usize].is_none() {
                    frames.by_kind[kind as usize] = Some(next);
                    frames.names.push((label::kind(kind).to_owned(), None));
                }
            } else if kind != SliceKind::LockHold && !frames.by_name.contains_key(&name) {
                frames.by_name.insert(name, next);
                let text = label::slice(trace, SliceIx(i as u32)).to_owned();
                frames.names.push((text, trace.places.get(&name).cloned()));
            }
        }
        frames
    }

    fn of(&self, name: StrIx, kind: SliceKind) -> usize {
        let named = self.by_name.get(&name).copied();
        named.or(self.by_kind[kind as usize]).unwrap_or(0)
    }
}

struct Profiles<'a, W> {
    trace: &'a Trace,
    frames: Frames,
    sink: Counted<W>,
    /// Frames that are open, with when they end.
    open: Vec<(usize, Time)>,
    /// The state that is drawn.
    leaf: Option<usize>,
    is_first_event: bool,
    last: Time,
    n_holds: u64,
}

impl<W: Write> Profiles<'_, W> {
    fn text(&mut self, text: &str) -> io::Result<()> {
        self.sink.out.write_all(text.as_bytes())
    }

    fn head(&mut self) -> io::Result<()> {
        let info = &self.trace.info;
        let name = match info.command.is_empty() {
            true => "whole system".to_owned(),
            false => info.command.join(" "),
        };
        let frames = self.frames.names.iter().map(|(name, place)| {
            let mut frame = serde_json::json!({ "name": name });
            if let Some((file, line)) = place.as_deref().and_then(|p| p.rsplit_once(':')) {
                frame["file"] = file.into();
                frame["line"] = line.parse::<u32>().unwrap_or(0).into();
            }
            frame
        });
        let frames: Vec<_> = frames.collect();
        write!(
            self.sink.out,
            "{{\"$schema\":\"{SCHEMA}\",\"exporter\":\"kasuri\",\"name\":{},\n\"shared\":{{\"frames\":{}}},\n\"profiles\":[",
            serde_json::Value::from(name),
            serde_json::Value::from(frames)
        )
    }

    fn has_states(&self, ix: ThreadIx) -> bool {
        let thread = &self.trace.threads[ix.ix()];
        let is_target =
            (self.trace.processes.get(thread.process.ix())).is_some_and(|p| p.is_target);
        is_target && !thread.states.is_empty()
    }

    fn thread(&mut self, ix: ThreadIx) -> io::Result<()> {
        let (trace, row) = (self.trace, &self.trace.threads[ix.ix()]);
        let name = format!("{} {}", label::thread(trace, ix), row.tid);
        let (start, end) = (trace.span.start.ns(), trace.span.end.ns());
        write!(
            self.sink.out,
            "\n{{\"type\":\"evented\",\"name\":{},\"unit\":\"nanoseconds\",\"startValue\":{start},\"endValue\":{end},\"events\":[",
            serde_json::Value::from(name)
        )?;
        (self.is_first_event, self.last) = (true, trace.span.start);
        let mut states = row.states.clone().map(|i| i as usize).peekable();
        for i in row.slices.clone().map(|i| i as usize) {
            if trace.slices.kind[i] == SliceKind::LockHold {
                self.n_holds += 1;
                continue;
            }
            let start = trace.slices.start[i];
            self.run_to(start, &mut states)?;
            let depth = usize::from(trace.slices.depth[i]);
            while self.open.len() > depth {
                self.close_frame(start)?;
            }
            let leaf = self.hide_leaf(start)?;
            let frame = self.frames.of(trace.slices.name[i], trace.slices.kind[i]);
            self.event('O', frame, start)?;
            self.show_leaf(leaf, start)?;
            let within = self.open.last().map_or(trace.span.end, |&(_, end)| end);
            self.open.push((frame, trace.slices.end[i].min(within)));
        }
        let end = if row.states.is_empty() {
            Time::MIN
        } else {
            row.alive.end
        };
        self.run_to(trace.span.end, &mut states)?;
        while !self.open.is_empty() {
            self.close_frame(trace.span.end)?;
        }
        self.hide_leaf(end.min(trace.span.end))?;
        self.text("]}")
    }

    /// States that begin and frames that end up to `time`, in order.
    fn run_to(
        &mut self,
        time: Time,
        states: &mut std::iter::Peekable<impl Iterator<Item = usize>>,
    ) -> io::Result<()> {
        loop {
            let state = states.peek().map(|&i| self.trace.states.start[i]);
            let end = self.open.last().map(|&(_, end)| end);
            match (state, end) {
                (Some(at), end) if at <= time && end.is_none_or(|end| at < end) => {
                    let state = self.trace.states.state[states.next().unwrap_or(0)];
                    self.hide_leaf(at)?;
                    let is_drawn = !matches!(state, ThreadState::Running | ThreadState::Unknown);
                    self.show_leaf(is_drawn.then_some(state as usize), at)?;
                }
                (_, Some(end)) if end <= time => self.close_frame(end)?,
                _ => return Ok(()),
            }
        }
    }

    /// Ends the innermost frame; the state goes on in the one around it.
    fn close_frame(&mut self, at: Time) -> io::Result<()> {
        let leaf = self.hide_leaf(at)?;
        if let Some((frame, end)) = self.open.pop() {
            self.event('C', frame, at.min(end))?;
        }
        self.show_leaf(leaf, at)
    }

    /// Ends the state's frame; which it was.
    fn hide_leaf(&mut self, at: Time) -> io::Result<Option<usize>> {
        let leaf = self.leaf.take();
        if let Some(leaf) = leaf {
            self.event('C', leaf, at)?;
        }
        Ok(leaf)
    }

    fn show_leaf(&mut self, leaf: Option<usize>, at: Time) -> io::Result<()> {
        self.leaf = leaf;
        match leaf {
            Some(leaf) => self.event('O', leaf, at),
            None => Ok(()),
        }
    }

    fn event(&mut self, kind: char, frame: usize, at: Time) -> io::Result<()> {
        let comma = if self.is_first_event { "" } else { "," };
        self.is_first_event = false;
        self.sink.records += 1;
        // Events of a profile must not go back.
        self.last = self.last.max(at);
        let at = self.last.ns();
        write!(
            self.sink.out,
            "{comma}\n{{\"type\":\"{kind}\",\"frame\":{frame},\"at\":{at}}}"
        )
    }
}
