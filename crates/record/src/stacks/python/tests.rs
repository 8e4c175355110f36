use super::code::{Code, Types};
use super::layout::{BYTES, Current, Frames, Layout, SHIM, SIZE, STRING_STATE, TYPE};
use super::memory::{Memory, Page, Source};
use super::process::Reader;
use super::{Functions, Learned, Moment, StackOf, VOTES_MIN};
use driver::{Found, RUNTIME, TID, TYPES, Words};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

#[path = "../../../../../fuzz/src/python.rs"]
mod driver;

impl Words {
    fn set(&mut self, address: u64, word: u64) {
        self.0.insert(address, word);
    }

    /// Sets a byte in a word of zeros.
    fn set_byte(&mut self, address: u64, byte: u8) {
        let word = self.0.entry(address & !7).or_default();
        *word |= u64::from(byte) << (address % 8 * 8);
    }
}

const THREAD: u64 = 0x21_0000;
const CODE: u64 = 0x40_0000;

fn layout(minor: u8) -> &'static Layout {
    Layout::of(minor).expect("a version that is known")
}

/// A runtime with one thread, whose innermost frame lies at `frame`.
fn runtime(words: &mut Words, layout: &Layout, frame: u64) {
    const INTERPRETER: u64 = 0x20_8000;
    let threads = &layout.threads;
    words.set(RUNTIME + threads.interpreters, INTERPRETER);
    words.set(INTERPRETER + threads.next_interpreter, 0);
    words.set(INTERPRETER + threads.threads, THREAD);
    words.set(THREAD + threads.next, 0);
    words.set(THREAD + threads.tid, TID as u64);
    match threads.current {
        Current::Stack => {}
        Current::Direct(offset) => words.set(THREAD + offset, frame),
        Current::CFrame(offset, inner) => {
            words.set(THREAD + offset, 0x22_0000);
            words.set(0x22_0000 + inner, frame);
        }
    }
}

fn frame(words: &mut Words, layout: &Layout, at: u64, caller: u64, mark: u8) {
    words.set(at + layout.frame_code, CODE);
    words.set(at + layout.frame_instruction, CODE + layout.instructions);
    words.set(at + layout.frame_caller, caller);
    let offset = match layout.frames {
        Frames::Objects => return,
        Frames::Marked(offset) | Frames::Shims(offset) => offset,
    };
    words.set_byte(at + offset, mark);
}

fn string(words: &mut Words, layout: &Layout, at: u64, text: &str) {
    words.set(at + TYPE, TYPES.string);
    words.set(at + SIZE, text.len() as u64);
    // One byte a character, compact, ASCII.
    words.set(at + STRING_STATE, 1 << 2 | 1 << 5 | 1 << 6);
    for (n, byte) in text.bytes().enumerate() {
        words.set_byte(at + layout.ascii + n as u64, byte);
    }
}

/// A code object of 3.11 or later with 8 instructions on its first line, 12.
fn code(words: &mut Words, layout: &Layout, function: &str) {
    code_at(words, layout, CODE);
    string(words, layout, 0x50_0000, "/srv/work.py");
    string(words, layout, 0x51_0000, function);
    words.set(0x52_0000 + TYPE, TYPES.bytes);
    words.set(0x52_0000 + SIZE, 2);
    // No columns, 8 units, the same line.
    words.set(0x52_0000 + BYTES, 0x00ef);
}

/// One that has the texts and lines of the first.
fn code_at(words: &mut Words, layout: &Layout, at: u64) {
    words.set(at + TYPE, TYPES.code);
    words.set(at + SIZE, 8);
    words.set(at + layout.file, 0x50_0000);
    words.set(at + layout.name, 0x51_0000);
    words.set(at + layout.lines, 0x52_0000);
    // Both are 32 bits, of one word.
    let (fields, _) = layout.frame_words;
    for offset in fields {
        words.set_byte(at + offset, 3);
    }
    words.set_byte(at + layout.first_line, 12);
}

#[test]
fn a_function_is_found_by_the_address_of_its_next_instruction() {
    for minor in 11..=13 {
        let layout = layout(minor);
        let mut words = Words::default();
        code(&mut words, layout, "work\u{1b}[31m");
        let mut reader = Reader::new(words);
        reader.is(layout, TYPES);
        let first = CODE + layout.instructions;
        assert!(reader.discover(first).is_none(), "none ran");
        let found = reader.discover(first + 16).expect("the last one ran");
        assert_eq!((&*found.function, &*found.file), ("work\u{fffd}[31m", "/srv/work.py"));
        assert_eq!(found.line_before(first + 2), 12);
        assert!(reader.discover(first + 18).is_none(), "beyond its end");
        assert!(reader.known_at(first + 4, &[]).is_some());
    }
}

#[test]
fn code_that_was_replaced_is_not_taken_for_what_it_was() {
    let layout = layout(12);
    let mut words = Words::default();
    code(&mut words, layout, "old");
    let mut memory = Memory::new(words);
    let old = Code::read(&mut memory, layout, &TYPES, CODE).expect("a code object");
    let mut words = Words::default();
    code(&mut words, layout, "new");
    words.set(CODE + layout.name, 0x53_0000);
    string(&mut words, layout, 0x53_0000, "new");
    assert!(!old.is_there(&mut Memory::new(words), layout));
}

#[test]
fn frames_of_each_run_of_the_loop_are_told_apart() {
    for (minor, marks) in [(11, [0, 1, 1]), (12, [0, 0, 0]), (13, [0, 0, 0])] {
        let layout = layout(minor);
        let mut words = Words::default();
        runtime(&mut words, layout, 0x30_0000);
        let shims = matches!(layout.frames, Frames::Shims(_));
        // Two functions in one run of the loop, called from one in another.
        let next = if shims { 0x30_4000 } else { 0x30_2000 };
        frame(&mut words, layout, 0x30_0000, 0x30_1000, marks[0]);
        frame(&mut words, layout, 0x30_1000, next, marks[1]);
        frame(&mut words, layout, 0x30_4000, 0x30_2000, SHIM);
        frame(&mut words, layout, 0x30_2000, if shims { 0x30_5000 } else { 0 }, marks[2]);
        frame(&mut words, layout, 0x30_5000, 0, SHIM);
        let mut reader = Reader::new(words);
        reader.is(layout, TYPES);
        let chain = reader.chain(RUNTIME, TID);
        let found: Vec<_> = chain.iter().map(|f| (f.address, f.group)).collect();
        assert_eq!(found, [(0x30_0000, 0), (0x30_1000, 0), (0x30_2000, 1)], "3.{minor}");
    }
}

#[test]
fn a_chain_without_end_has_no_frames() {
    for minor in 11..=13 {
        let layout = layout(minor);
        let mut words = Words::default();
        runtime(&mut words, layout, 0x30_0000);
        frame(&mut words, layout, 0x30_0000, 0x30_1000, 0);
        frame(&mut words, layout, 0x30_1000, 0x30_0000, 0);
        // The threads and interpreters are circles, too: no thread of this number is found.
        words.set(THREAD + layout.threads.next, THREAD);
        let mut reader = Reader::new(words);
        reader.is(layout, TYPES);
        assert!(reader.chain(RUNTIME, TID).is_empty());
        assert!(reader.chain(RUNTIME, TID + 1).is_empty());
    }
}

fn stack_of<'a>(
    reader: &'a mut Reader<Words>,
    learned: &'a mut Learned,
    moment: Moment,
) -> StackOf<'a, Words> {
    StackOf {
        reader,
        learned,
        moment,
        runtime: RUNTIME,
        tid: TID,
        is_complete: true,
        is_innermost: false,
    }
}

#[test]
fn callers_beyond_one_that_cannot_be_read_are_not_its_callees() {
    for (unreadable, expected) in [(None, 3), (Some(1), 1), (Some(0), 0)] {
        let layout = layout(12);
        let mut words = Words::default();
        runtime(&mut words, layout, 0x30_0000);
        code(&mut words, layout, "work");
        for (n, caller) in [(0, 0x30_1000), (1, 0x30_2000), (2, 0)] {
            let at = 0x30_0000 + n * 0x1000;
            frame(&mut words, layout, at, caller, 0);
            if unreadable == Some(n) {
                words.set(at + layout.frame_code, 0x70_0000);
            }
        }
        let mut reader = Reader::new(words);
        reader.is(layout, TYPES);
        let mut learned = Learned::default();
        let mut stack_of = stack_of(&mut reader, &mut learned, Moment::Waits(0));
        let found = stack_of.chain(&[Vec::new()], std::slice::from_ref(&(0..0)));
        let found: Vec<(usize, bool)> = found.iter().map(|f| (f.0.len(), f.1)).collect();
        assert_eq!(found, [(expected, unreadable.is_none())]);
    }
}

/// Few pages that say much: long tables of lines, and for each of many frames of the loop a caller that is the last of many.
#[test]
fn a_memory_that_leads_to_endless_work_is_given_up() {
    const FRAMES: u64 = 0x60_0000;
    const N_FRAMES: u64 = 4000;
    const N_CODES: u64 = 64;
    const N_LOOPS: usize = 512;
    let layout = layout(12);
    let mut words = Words::default();
    runtime(&mut words, layout, FRAMES);
    code(&mut words, layout, "work");
    words.set(0x52_0000 + SIZE, 32 << 10);
    for at in (BYTES..BYTES + (32 << 10)).step_by(8) {
        words.set(0x52_0000 + at, 0xe8e8_e8e8_e8e8_e8e8);
    }
    let code_of = |n: u64| CODE + n % N_CODES * 0x200;
    for n in 0..N_CODES {
        code_at(&mut words, layout, code_of(n));
    }
    for n in 0..N_FRAMES {
        let at = FRAMES + n * 0x60;
        frame(&mut words, layout, at, at + 0x60, 0);
        words.set(at + layout.frame_code, code_of(n));
    }
    let last = FRAMES + (N_FRAMES - 1) * 0x60;
    words.set(last + layout.frame_caller, 0);
    // It ends where a frame begins that is not of the chain, and was called by it.
    let (fields, more) = layout.frame_words;
    let callee = last + (3 * fields.len() as u64 + more) * 8;
    let callee_code = code_of(N_FRAMES - 2);
    words.set(callee + layout.frame_code, callee_code);
    let mut reader = Reader::new(words);
    reader.is(layout, TYPES);

    let mut learned = Learned::default();
    for _ in 0..VOTES_MIN {
        learned.instruction.add(0);
        learned.frame.add(1);
    }
    let mut stack_of = stack_of(&mut reader, &mut learned, Moment::Before);
    let next = callee_code + layout.instructions + 2;
    let one: Vec<(i64, u64)> = vec![(0, next), (1, callee)];
    let mut stack = |n: usize| {
        let found = stack_of.chain(&vec![one.clone(); n], &vec![0..0; n]);
        stack_of.reader.forget();
        found
    };
    let is_whole = |(functions, is_whole): &(Functions, bool)| *is_whole && functions.len() == 2;
    assert!(is_whole(&stack(1)[0]), "one is no work");
    let many = stack(N_LOOPS);
    let n_whole = many.iter().filter(|found| is_whole(found)).count();
    assert!(n_whole < N_LOOPS / 8, "{n_whole} were looked at");
    assert!(!many[N_LOOPS - 1].1, "and says so");
    assert!(is_whole(&stack(1)[0]), "in the next drain it is looked at again");
}

proptest! {
    #[test]
    fn any_memory_is_read(
        minor in 8u8..=13,
        words in prop::collection::vec((0u64..64, any::<u64>()), 0..200),
        pointers in prop::collection::vec((0u64..512, 0u64..512), 0..200),
        asked in prop::collection::vec(0u64..4096, 1..20),
    ) {
        let layout = layout(minor);
        let mut memory = Words::default();
        runtime(&mut memory, layout, CODE);
        if minor > 10 {
            code(&mut memory, layout, "work");
        }
        for (at, word) in words {
            memory.set(CODE + at * 8, word);
        }
        for (at, to) in pointers {
            memory.set(CODE + at * 8, CODE + to * 8);
        }
        let mut reader = Reader::new(memory);
        reader.is(layout, TYPES);
        let chain = reader.chain(RUNTIME, TID);
        prop_assert!(chain.len() <= 4096);
        for offset in asked {
            let address = CODE + offset;
            if let Some(code) = reader.code(address) {
                prop_assert!(code.function.chars().count() <= 1024);
                let _ = code.line_before(address);
                let _ = code.line_at(u64::MAX);
            }
            let _ = reader.discover(address);
            let _ = reader.known_at(address, &[(0, address)]);
            if reader.is_frame_object(address) {
                let _ = reader.code_of_frame(address);
            }
        }
    }
}

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus/python")
}

/// A memory in which one thread runs a function, which a run of the loop began with, as an input of the fuzz target.
fn seed(minor: u8) -> Vec<u8> {
    let layout = layout(minor);
    let mut words = Words::default();
    runtime(&mut words, layout, 0x30_0000);
    frame(&mut words, layout, 0x30_0000, 0x30_1000, 0);
    frame(&mut words, layout, 0x30_1000, 0x30_2000, 1);
    frame(&mut words, layout, 0x30_2000, 0, SHIM);
    if layout.frames == Frames::Objects {
        words.set(0x30_0000 + TYPE, TYPES.frame);
    }
    code(&mut words, layout, "work");
    let mut bytes = vec![minor - 8];
    for (at, word) in words.0 {
        bytes.extend((at as u32).to_le_bytes());
        bytes.extend(word.to_le_bytes());
    }
    bytes
}

#[test]
fn the_corpus_is_read() {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(corpus()).unwrap() {
        let entry = entry.unwrap();
        let bytes = std::fs::read(entry.path()).unwrap();
        found.insert(entry.file_name(), driver::read(&bytes));
        // Cut anywhere, and with one byte changed.
        for ix in 0..bytes.len() {
            driver::read(&bytes[..ix]);
            let mut changed = bytes.clone();
            changed[ix] ^= 0x41;
            driver::read(&changed);
        }
    }
    for minor in 11..=13 {
        let name = std::ffi::OsString::from(format!("3.{minor}"));
        let Found { frames, functions } = found[&name];
        assert!(frames >= 2 && functions >= 2, "3.{minor}: {:?}", found[&name]);
    }
}

/// Writes the seeds: `cargo test -p kasuri-record --lib writes_the_python_corpus -- --ignored`.
#[test]
#[ignore = "writes the corpus"]
fn writes_the_python_corpus() {
    std::fs::create_dir_all(corpus()).unwrap();
    for minor in 8..=13 {
        std::fs::write(corpus().join(format!("3.{minor}")), seed(minor)).unwrap();
    }
}

/// Folders with the headers of a version that is known.
fn headers() -> Vec<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let root = std::env::var_os("PYENV_ROOT").map_or(home.join(".pyenv"), PathBuf::from);
    let versions = std::fs::read_dir(root.join("versions")).into_iter().flatten().flatten();
    let roots = versions.map(|v| v.path()).chain([PathBuf::from("/usr")]);
    let folders = roots.flat_map(|root| {
        let name = |minor| root.join(format!("include/python3.{minor}"));
        (8..=13).map(name).collect::<Vec<_>>()
    });
    folders.filter(|folder| folder.join("Python.h").exists()).collect()
}

/// What the headers of one version say; `None`: they cannot be compiled.
fn said_by(headers: &Path, scratch: &Path) -> Option<BTreeMap<String, u64>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let program = scratch.join("layout");
    let built = Command::new("cc")
        .arg("-I")
        .arg(headers)
        .arg("-I")
        .arg(headers.join("internal"))
        .arg("-o")
        .args([&program, &root.join("tests/record/python_layout.c")])
        .output();
    if !built.is_ok_and(|b| b.status.success()) {
        return None;
    }
    let said = Command::new(program).output().ok()?;
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    let row = |line: &str| {
        let (name, value) = line.split_once(' ')?;
        Some((name.to_owned(), value.parse().ok()?))
    };
    Some(text.lines().filter_map(row).collect())
}

/// What the table says, by the same names.
fn said_here(layout: &Layout) -> BTreeMap<&'static str, u64> {
    let mut said = BTreeMap::from([
        ("minor", layout.minor.into()),
        ("first_line", layout.first_line),
        ("file", layout.file),
        ("name", layout.name),
        ("lines", layout.lines),
        ("instructions", layout.instructions),
        ("constants", layout.constants),
        ("ascii", layout.ascii),
        ("other", layout.other),
        ("bytes", BYTES),
        ("string_state", STRING_STATE),
        ("type", TYPE),
        ("size", SIZE),
        ("frame_code", layout.frame_code),
        ("frame_caller", layout.frame_caller),
        ("frame_instruction", layout.frame_instruction),
    ]);
    match layout.frames {
        Frames::Objects => return said,
        Frames::Marked(offset) => said.extend([("mark", offset)]),
        Frames::Shims(offset) => said.extend([("shim", offset), ("shim_mark", SHIM.into())]),
    }
    let (fields, more) = layout.frame_words;
    said.extend([("frame_words_more", more)]);
    said.extend(["frame_words_0", "frame_words_1"].into_iter().zip(fields.iter().copied()));
    let threads = &layout.threads;
    said.extend([
        ("interpreters", threads.interpreters),
        ("next_interpreter", threads.next_interpreter),
        ("threads", threads.threads),
        ("next", threads.next),
        ("tid", threads.tid),
    ]);
    match threads.current {
        Current::Stack => {}
        Current::Direct(offset) => said.extend([("current", offset)]),
        Current::CFrame(offset, inner) => {
            said.extend([("current", offset), ("current_inner", inner)]);
        }
    }
    said
}

#[test]
fn the_table_says_what_the_headers_of_each_version_say() {
    let scratch = tempfile::tempdir().expect("a scratch directory");
    let mut compared = Vec::new();
    for headers in headers() {
        let Some(said) = said_by(&headers, scratch.path()) else {
            continue;
        };
        let minor = said["minor"] as u8;
        let here = said_here(layout(minor));
        let said: BTreeMap<&str, u64> = said.iter().map(|(name, v)| (&**name, *v)).collect();
        assert_eq!(here, said, "{}", headers.display());
        compared.push(minor);
    }
    if compared.is_empty() {
        let need = kasuri_testkit::Need::Machine;
        kasuri_testkit::skip_for(need, "no headers of Python 3.8 to 3.13 are installed");
    }
}
