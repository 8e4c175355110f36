//! Each sample's frames compared with the stack that the program itself says it had at that moment.
use crate::stacks::{functions, perf_allows, record};
use crate::support::*;
use kasuri_format::call_paths::{NONE, PathEnd, Sample, SampleKind, Tables};
use kasuri_format::container::{BlockKind, Recording};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// What tests/record/shadow.cpp writes: bytes of an event, and its kinds.
const EVENT_BYTES: usize = 32;
const ENTER: u32 = 0;
const LEAVE: u32 = 1;
const CUT: u32 = 2;

/// Frames up to which a stack must be complete: it fits into the first copy.
const SHORT: usize = 60;

struct Event {
    ns: u64,
    kind: u32,
    left: usize,
    name: String,
}

fn event(bytes: &[u8]) -> Event {
    let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
    let name = bytes[16..].split(|&b| b == 0).next().unwrap_or_default();
    Event {
        ns: u64::from_ne_bytes(bytes[..8].try_into().unwrap()),
        kind: word(8),
        left: word(12) as usize,
        name: String::from_utf8(name.to_vec()).unwrap(),
    }
}

/// The stacks, outermost first, that a thread may have had between two of its events: a function is there shortly before it
/// notes that it begins, and shortly after it has noted that it ends.
struct Replay<'b> {
    events: std::slice::ChunksExact<'b, u8>,
    last_ended: Option<String>,
    next: Option<Event>,
    stack: Vec<String>,
}

impl<'b> Replay<'b> {
    fn new(bytes: &'b [u8]) -> Replay<'b> {
        let mut events = bytes.chunks_exact(EVENT_BYTES);
        let next = events.next().map(event);
        Replay { events, last_ended: None, next, stack: Vec::new() }
    }

    fn until(&mut self, ns: u64) -> Vec<Vec<String>> {
        while let Some(next) = self.next.take_if(|next| next.ns != 0 && next.ns <= ns) {
            self.last_ended = None;
            match next.kind {
                ENTER => self.stack.push(next.name),
                LEAVE => self.last_ended = self.stack.pop(),
                _ => self.stack.truncate(next.left),
            }
            self.next = self.events.next().map(event);
        }
        let mut possible = vec![self.stack.clone()];
        if let Some(ended) = &self.last_ended {
            possible.push([&self.stack[..], std::slice::from_ref(ended)].concat());
        }
        match &self.next {
            Some(next) if next.kind == ENTER && next.ns != 0 => {
                possible.push([&self.stack[..], std::slice::from_ref(&next.name)].concat());
            }
            Some(next) if next.kind == CUT => {
                possible.push(self.stack[..next.left.min(self.stack.len())].to_vec());
            }
            _ => {}
        }
        possible
    }
}

/// Functions of each file by its name.
type Symbols = BTreeMap<String, BTreeMap<u64, String>>;

/// Files and addresses of the innermost frames of a path.
fn raw(tables: &Tables, mut path: u32) -> Vec<String> {
    let mut out = Vec::new();
    while let Some(row) = tables.paths.get(path as usize).filter(|_| out.len() < 12) {
        let frame = tables.frames[row.frame as usize];
        let module = tables.modules.get(frame.module as usize);
        let file = module.and_then(|m| m.path.rsplit('/').next());
        out.push(format!("{}+{:#x}", file.unwrap_or("?"), frame.address));
        path = row.caller;
    }
    out
}

/// The functions of a path that keep the shadow stack, innermost first.
fn shown(tables: &Tables, mut path: u32, symbols: &Symbols) -> Vec<String> {
    let mut names = Vec::new();
    while let Some(row) = tables.paths.get(path as usize) {
        let frame = tables.frames[row.frame as usize];
        let module = tables.modules.get(frame.module as usize);
        let file = module.and_then(|m| Path::new(&m.path).file_name()?.to_str());
        let found = file
            .and_then(|file| symbols.get(file)?.range(..=frame.address).next_back())
            .map(|(_, name)| name.clone());
        names.extend(found.filter(|name| name.starts_with("f_")));
        path = row.caller;
    }
    names
}

#[derive(Default, Debug)]
struct Compared {
    samples: usize,
    frames: usize,
    /// Short ones of running threads, and those of them that are complete.
    short: usize,
    complete: usize,
    /// By how they end.
    ends: BTreeMap<String, usize>,
    wrong: Vec<String>,
}

impl Compared {
    /// Whether it is one of these.
    fn add(&mut self, sample: &Sample, found: &[String], possible: &[Vec<String>]) -> bool {
        self.samples += 1;
        self.frames += found.len();
        *self.ends.entry(format!("{:?}", sample.end)).or_default() += 1;
        let is_right = possible.iter().any(|stack| {
            let same = stack.iter().rev().zip(found).all(|(a, b)| a == b);
            let all = stack.len() == found.len();
            same && (all || sample.end != PathEnd::Complete && found.len() < stack.len())
        });
        let stack = &possible[0];
        // Less is copied where threads begin to wait.
        let is_short = sample.kind == SampleKind::OnCpu && stack.len() <= SHORT;
        if is_short && !stack.iter().any(|name| name == "f_stack") {
            self.short += 1;
            self.complete += usize::from(sample.end == PathEnd::Complete);
        }
        is_right
    }
}

fn compile(out: &Path, options: &[&str]) {
    let source = repository().join("tests/record/shadow.cpp");
    let built = Command::new("c++")
        .args(["-std=c++17", "-O2", "-fomit-frame-pointer", "-pthread"])
        .args(options)
        .arg("-o")
        .args([out, &source])
        .arg("-ldl")
        .status();
    assert!(built.expect("a C++ compiler").success());
}

/// Records the program once, and compares all samples.
fn compare(compared: &mut Compared, seconds: &str) {
    let dir = scratch();
    let program = dir.path().join("shadow");
    compile(&program, &[]);
    let mut symbols = Symbols::new();
    symbols.insert("shadow".to_owned(), functions(&program));
    for plugin in ["a", "b"] {
        let file = dir.path().join(format!("{plugin}.so"));
        compile(&file, &["-shared", "-fPIC", &format!("-DPLUGIN={plugin}")]);
        symbols.insert(format!("{plugin}.so"), functions(&file));
    }
    let here = dir.path().to_str().unwrap();
    let file = record(dir.path(), &[], &program, &[here, seconds, "1000"]);
    let bytes = std::fs::read(file).unwrap();
    let recording = Recording::parse(&bytes).unwrap();
    let mut samples: Vec<Sample> = Vec::new();
    for (ix, block) in recording.blocks().iter().enumerate() {
        if block.kind == BlockKind::Samples {
            samples.extend(recording.sample_block(ix).unwrap());
        }
    }
    samples.sort_by_key(|sample| (sample.tid, sample.time_ns));
    for of_thread in samples.chunk_by(|a, b| a.tid == b.tid) {
        // The first thread keeps no shadow stack.
        let Ok(events) = std::fs::read(dir.path().join(of_thread[0].tid.to_string())) else {
            continue;
        };
        let mut replay = Replay::new(&events);
        for sample in of_thread.iter().filter(|sample| sample.path != NONE) {
            let possible = replay.until(sample.time_ns);
            let found = shown(recording.call_paths(), sample.path, &symbols);
            if !compared.add(sample, &found, &possible) {
                let inner = raw(recording.call_paths(), sample.path);
                let text = format!(
                    "{sample:?}: {found:?}\n  at {inner:?}\n  instead of one of {possible:?}"
                );
                compared.wrong.push(text);
            }
        }
    }
}

/// `KASURI_SHADOW_SAMPLES=10000` compares so many (tests/trial/shadow-stacks).
#[cfg(target_arch = "x86_64")]
#[test]
fn no_sample_has_a_wrong_caller() {
    if !perf_allows() {
        return;
    }
    let asked = std::env::var("KASURI_SHADOW_SAMPLES");
    let least: usize = asked.map_or(600, |n| n.parse().expect("a number"));
    let seconds = if least > 1000 { "15" } else { "3" };
    let mut compared = Compared::default();
    for _ in 0..100 {
        compare(&mut compared, seconds);
        if compared.samples >= least {
            break;
        }
    }
    let wrong = compared.wrong.len();
    eprintln!(
        "{wrong} of {} samples with {} frames have a wrong caller; {} of {} with at most {SHORT} frames on one stack are complete; ends: {:?}",
        compared.samples, compared.frames, compared.complete, compared.short, compared.ends
    );
    assert!(compared.samples >= least, "{} samples", compared.samples);
    let first = compared.wrong.iter().take(3);
    assert_eq!(wrong, 0, "{}", first.cloned().collect::<Vec<_>>().join("\n"));
}

/// Claims about shares: each runs alone (`make test-measure`), on a quiet machine.
#[cfg(target_arch = "x86_64")]
mod measured {
    use super::*;

    #[test]
    fn nearly_all_samples_are_complete() {
        if !perf_allows() {
            return;
        }
        measure(|| {
            let mut compared = Compared::default();
            compare(&mut compared, "3");
            let (complete, short) = (compared.complete, compared.short);
            assert!(short >= 100, "{short} samples");
            assert!(complete * 100 >= short * 97, "{complete} of {short}");
        });
    }
}
