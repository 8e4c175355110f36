//! pprof's profile: profile.proto, packed with gzip, as `go tool pprof` and many services read it.
//!
//! A sample is a stack with a value of each sample type and labels. Here a sample is not one moment but all time of one thread at one call
//! path, as the analysis divides it ([`thread_times`]), so that each sample type adds up to the nanosecond:
//!
//! | sample type | adds up to | labels |
//! |---|---|---|
//! | `samples`, count | the samples that were taken, but for those of wake-ups | thread, tid, process, pid |
//! | `on_cpu`, ns | the time that the program's threads ran | the same |
//! | `blocked`, ns | the time that they were blocked | the same |
//! | `account`, ns | the account: CPUs times the recording's length | also class; without a thread where none is known |
//!
//! Time that no sample stands for is in the stack `[no call path]`, time in which there was no code to sample in `[no code]`. What was inlined
//! is in one location with the function that holds it. Code has names already, so locations have an address only where a name is missing: in the numbering of its file,
//! which pprof takes for granted where a mapping has no range.
mod proto;

use crate::{Exported, samples};
use flate2::{Compression, write::GzEncoder};
use kasuri_analyze::call_paths::{ThreadTime, TimeOf, Whereabouts, thread_times};
use kasuri_analyze::demangled;
use kasuri_model::{FrameKind, PathIx, SampleKind, StrIx, ThreadIx, Trace, label};
use prost::Message;
use proto::*;
use std::collections::HashMap;
use std::io::{self, Write};

/// Sample types with their units, in the order of a sample's values.
const TYPES: [(&str, &str); 4] = [
    ("samples", "count"),
    ("on_cpu", "nanoseconds"),
    ("blocked", "nanoseconds"),
    ("account", "nanoseconds"),
];

/// Writes the whole recording into `out`.
///
/// # Errors
/// Those of `out`.
pub fn write<W: Write>(trace: &Trace, out: W) -> io::Result<Exported> {
    let mut maker = Maker::new(trace);
    // A profile with weights of its own has no account.
    let n_types = TYPES.len() - usize::from(trace.is_weighed());
    for row in thread_times(trace) {
        maker.sample(&row, n_types);
    }
    let profile = maker.done(n_types);
    let mut out = GzEncoder::new(out, Compression::default());
    out.write_all(&profile.encode_to_vec())?;
    out.finish()?.flush()?;
    Ok(Exported { records: profile.sample.len() as u64, left_out: left_out(trace) })
}

/// Lists what a reader of the file will not find.
fn left_out(trace: &Trace) -> Vec<String> {
    let s = &trace.samples;
    let waker = s.kind.contains(&SampleKind::Waker);
    let rows = [
        (!trace.states.start.is_empty() || !s.time.is_empty(), "when anything happened"),
        (!trace.slices.start.is_empty(), "slices, locks and other annotations"),
        (!trace.counters.is_empty(), "counters"),
        (waker, "call paths of wake-ups"),
        (!trace.losses.is_empty(), "losses"),
    ];
    let kept = rows.iter().filter(|(is_there, _)| *is_there);
    let strangers = crate::exported::threads_of_others(trace);
    (strangers.into_iter()).chain(kept.map(|(_, what)| (*what).to_owned())).collect()
}

/// What a location stands for.
#[derive(PartialEq, Eq, Hash)]
enum Place {
    /// Rows of [`Trace::frames`], innermost first: what was inlined, then the function that holds it.
    Code(Vec<u32>),
    /// A name in brackets.
    Note(&'static str),
}

/// The profile while it is made. Rows of pprof's tables have ids from 1 on; 0 is none.
struct Maker<'t> {
    trace: &'t Trace,
    profile: Profile,
    texts: HashMap<String, i64>,
    functions: HashMap<(String, String, String), u64>,
    mappings: HashMap<StrIx, u64>,
    locations: HashMap<Place, u64>,
    /// Locations of a path, innermost first.
    stacks: HashMap<PathIx, Vec<u64>>,
}

impl<'t> Maker<'t> {
    fn new(trace: &'t Trace) -> Maker<'t> {
        let mut maker = Maker {
            trace,
            profile: Profile::default(),
            texts: HashMap::new(),
            functions: HashMap::new(),
            mappings: HashMap::new(),
            locations: HashMap::new(),
            stacks: HashMap::new(),
        };
        maker.text("");
        // Readers take the first mapping for the program's own.
        let root = trace.info.command.first();
        let modules = || trace.frames.module.iter().filter(|m| m.is_some());
        let is_own = |module: &&StrIx| {
            let base = |path: &'t str| path.rsplit('/').next();
            root.is_some_and(|root| base(trace.strings.get(**module)) == base(root))
        };
        if let Some(&module) = modules().find(is_own) {
            maker.mapping(module);
        }
        maker
    }

    /// The row of a text.
    fn text(&mut self, text: &str) -> i64 {
        if let Some(&row) = self.texts.get(text) {
            return row;
        }
        let row = self.profile.string_table.len() as i64;
        self.profile.string_table.push(text.to_owned());
        self.texts.insert(text.to_owned(), row);
        row
    }

    fn sample(&mut self, row: &ThreadTime, n_types: usize) {
        let location_id = match row.at {
            Whereabouts::At(path) => self.stack(path),
            Whereabouts::Unsampled => vec![self.location(Place::Note("[no call path]"))],
            Whereabouts::WithoutCode => vec![self.location(Place::Note("[no code]"))],
        };
        let mut value = vec![0; n_types];
        value[0] = i64::try_from(row.samples).unwrap_or(i64::MAX);
        let mut label = self.labels_of(row.thread);
        match row.of {
            TimeOf::OnCpu => value[1] = row.ns,
            TimeOf::Blocked => value[2] = row.ns,
            TimeOf::Class(class) => {
                value[3] = row.ns;
                label.push(self.label("class", class.key()));
            }
        }
        self.profile.sample.push(Sample { location_id, value, label });
    }

    fn label(&mut self, key: &str, text: &str) -> Label {
        Label { key: self.text(key), text: self.text(text), num: 0 }
    }

    fn labels_of(&mut self, thread: ThreadIx) -> Vec<Label> {
        if !thread.is_some() {
            return Vec::new();
        }
        let trace = self.trace;
        let (tid, process) = (trace.threads[thread.ix()].tid, trace.process_of(thread));
        let mut out = vec![self.label("thread", &label::thread(trace, thread))];
        let process_name = trace.strings.get(process.name);
        if !process_name.is_empty() {
            out.push(self.label("process", process_name));
        }
        for (key, num) in [("tid", tid), ("pid", process.pid)] {
            out.push(Label { key: self.text(key), text: 0, num: num.into() });
        }
        out
    }

    /// The locations of a path, innermost first.
    fn stack(&mut self, path: PathIx) -> Vec<u64> {
        if let Some(stack) = self.stacks.get(&path) {
            return stack.clone();
        }
        let (mut stack, mut inlined) = (Vec::new(), Vec::new());
        for frame in self.trace.frames_of(path) {
            inlined.push(frame.0);
            // A function that was inlined belongs to what follows it outwards.
            if self.trace.frames.kind[frame.ix()] != FrameKind::Inlined {
                stack.push(self.location(Place::Code(std::mem::take(&mut inlined))));
            }
        }
        if !inlined.is_empty() {
            stack.push(self.location(Place::Code(inlined)));
        }
        self.stacks.insert(path, stack.clone());
        stack
    }

    fn location(&mut self, place: Place) -> u64 {
        if let Some(&id) = self.locations.get(&place) {
            return id;
        }
        let id = self.profile.location.len() as u64 + 1;
        let mut location = Location { id, ..Location::default() };
        match &place {
            Place::Note(note) => {
                location.line.push(Line { function_id: self.function(note, note, ""), line: 0 })
            }
            Place::Code(rows) => {
                let f = &self.trace.frames;
                let outermost = rows.last().map_or(0, |&row| row as usize);
                location.mapping_id = self.mapping(f.module[outermost]);
                location.address = f.address[outermost];
                location.line = rows.iter().map(|&row| self.line(row as usize)).collect();
            }
        }
        self.profile.location.push(location);
        self.locations.insert(place, id);
        id
    }

    fn line(&mut self, row: usize) -> Line {
        let f = &self.trace.frames;
        let system_name = samples::frame_name(self.trace, row);
        let file = self.trace.strings.get(f.file[row]);
        Line {
            function_id: self.function(&demangled(&system_name), &system_name, file),
            line: f.line[row].into(),
        }
    }

    fn function(&mut self, name: &str, system_name: &str, file: &str) -> u64 {
        let key = (name.to_owned(), system_name.to_owned(), file.to_owned());
        if let Some(&id) = self.functions.get(&key) {
            return id;
        }
        let id = self.profile.function.len() as u64 + 1;
        let function = Function {
            id,
            name: self.text(name),
            system_name: self.text(system_name),
            filename: self.text(file),
        };
        self.profile.function.push(function);
        self.functions.insert(key, id);
        id
    }

    /// The mapping of a program or library; 0 without one.
    fn mapping(&mut self, module: StrIx) -> u64 {
        if !module.is_some() {
            return 0;
        }
        if let Some(&id) = self.mappings.get(&module) {
            return id;
        }
        let id = self.profile.mapping.len() as u64 + 1;
        let trace = self.trace;
        let bytes = trace.build_ids.get(&module).map_or(&[][..], |id| id);
        let build_id: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let mapping = Mapping {
            id,
            filename: self.text(trace.strings.get(module)),
            build_id: self.text(&build_id),
            // There is nothing that a reader could add: names that are missing here are not in the file.
            has_functions: true,
            has_filenames: true,
            has_line_numbers: true,
            has_inline_frames: true,
        };
        self.profile.mapping.push(mapping);
        self.mappings.insert(module, id);
        id
    }

    fn done(mut self, n_types: usize) -> Profile {
        for (of, unit) in &TYPES[..n_types] {
            let of = self.value_type(of, unit);
            self.profile.sample_type.push(of);
        }
        let trace = self.trace;
        self.profile.default_sample_type = self.text("on_cpu");
        let period = samples::Period::new(trace);
        if !period.is_unknown() {
            self.profile.period_type = Some(self.value_type("on_cpu", "nanoseconds"));
            self.profile.period = period.at(trace.span.start, u16::MAX);
        }
        let start = trace.span.start.ns();
        self.profile.time_nanos = match trace.origin_realtime_ns {
            0 => 0,
            ns => ns.saturating_add(start),
        };
        self.profile.duration_nanos = (trace.span.end - trace.span.start).ns();
        let title = kasuri_analyze::program(trace).title(&trace.info.command);
        let comment = self.text(&format!("kasuri: {title}"));
        self.profile.comment.push(comment);
        self.profile
    }

    fn value_type(&mut self, of: &str, unit: &str) -> ValueType {
        ValueType { of: self.text(of), unit: self.text(unit) }
    }
}
