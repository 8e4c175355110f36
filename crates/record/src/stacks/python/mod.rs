//! What interpreters of Python run: functions, files and lines in the place of the frames of the interpreter's loop.
//!
//! Goal: the Python functions of a sample, though the sample is only a copy of the registers and of the native stack, which the
//! recorder sees 1 to 20 ms later. The program runs on meanwhile and is never stopped, so its memory then is not that of the sample.
//!
//! Method. *Which function a frame of the loop ran* is in the copy: one of its registers or words is the address of the next
//! instruction, and instructions lie in (since 3.11), or belong to, a code object, which lives on as a rule. So a sample's
//! function is the sample's own, and not what the thread runs later; reading only the frames later, and keeping what still
//! agrees, would favour functions that run long. *Who called it*: until 3.10 the next frame of the loop. Since 3.11 the callers that the same
//! frame of the loop runs are in memory only, in frames of Python, one where the other ends. They are read soon after, from the address of the sample's
//! frame outwards. A frame that runs yet has its callers. One that has returned lies there until another overwrites it, and says who called it. One
//! that was overwritten was called by the frame that ends where it began. Each caller must have been seen to call what it is said to have called, unless it runs
//! yet. So the function has another caller only if the one of the sample has returned, and one with an equal end was called in its
//! place. Where no caller is known, a gap is told.
//!
//! A thread that waits, and provably did not run meanwhile, is read as it is ([`Moment::Waits`]).
//!
//! Which registers and words hold what depends on the compiler. It is learned from the samples, for each file of an
//! interpreter ([`Votes`]).
//!
//! | module | contents |
//! |---|---|
//! | `layout` | offsets of each version |
//! | `memory` | the memory of a process |
//! | `code` | code objects |
//! | `process` | the interpreter in one process |
mod code;
mod layout;
mod memory;
mod process;

use crate::clock;
use crate::guard::reader::Readers;
use code::{Code, Types};
use kasuri_base::call_path::{CALLERS_NOT_KNOWN, IN_PYTHON, PYTHON};
use kasuri_format::call_paths::{Call, Frame, Module, ModuleKind, NONE};
use kasuri_unwind::{Cpu, DEPTH_MAX, EvalFrame, Inner, Interner, Interpreter, Python, Stack};
use layout::{Frames, Layout};
use memory::{PAGE, Page, Source};
use process::{PyFrame, Reader, Remains};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::rc::Rc;

/// Most processes whose code is remembered, and most files of interpreters; most processes whose memory is kept within a drain.
const PROCESSES_MAX: usize = 128;
const READ_MAX: usize = 64;
/// Most names, and most bytes of them.
const NAMES_MAX: usize = 1 << 18;
const NAMES_BYTES_MAX: usize = 64 << 20;
/// Votes for a place before it is taken for the one.
const VOTES_MIN: u32 = 3;

/// When the memory is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// While the thread waits, with the stack that is followed, since this time (CLOCK_MONOTONIC, ns): what was read of the process
    /// after that is as it was then.
    Waits(u64),
    /// Later than the stack was copied.
    Before,
}

/// A register (its number), or a word of the frame (its distance from the end, below 0).
type Slot = i64;

/// How often each place held what was looked for.
#[derive(Debug, Default)]
struct Votes(HashMap<Slot, u32>);

impl Votes {
    fn add(&mut self, place: Slot) {
        let votes = self.0.entry(place).or_default();
        *votes = votes.saturating_add(1);
    }

    /// The place with the most; of equal ones a register.
    fn best(&self) -> Option<Slot> {
        let best = self.0.iter().max_by_key(|&(&place, &n)| (n, place))?;
        (*best.1 >= VOTES_MIN).then_some(*best.0)
    }
}

/// What was learned of one file.
#[derive(Debug, Default)]
struct Learned {
    /// Where the frame's address is.
    frame: Votes,
    /// Where the address of the next instruction is.
    instruction: Votes,
}

/// All interpreters.
#[derive(Debug)]
pub(super) struct Pythons {
    cpu: Cpu,
    processes: HashMap<i32, Reader<Process>>,
    learned: HashMap<[u64; 6], Learned>,
    names: Names,
    /// Processes whose memory was read in this drain.
    read: HashSet<i32>,
    /// Whether memory was read that changes soon, since this was asked for last.
    is_late: bool,
    readers: Readers,
    /// When the memory of all processes was forgotten last, and of some again (CLOCK_MONOTONIC, ns).
    begun_ns: u64,
    forgot_ns: HashMap<i32, u64>,
    /// Whether memory of an interpreter was read.
    was_read: bool,
}

/// Rows of functions with a line. They do not depend on the process.
#[derive(Debug, Default)]
struct Names {
    rows: HashMap<(Rc<str>, Rc<str>, u32), u64>,
    bytes: usize,
    /// The last row that was given.
    last: u64,
}

fn module() -> Module {
    Module { kind: ModuleKind::Jit, path: PYTHON.to_owned(), ..Module::default() }
}

fn bytes_of((function, file, _): &(Rc<str>, Rc<str>, u32)) -> usize {
    64 + function.len() + file.len()
}

impl Names {
    /// Module and address of a line in a function.
    fn row(&mut self, code: &Code, line: u32, interner: &mut Interner) -> Option<(u32, u64)> {
        self.row_of((code.function.clone(), code.file.clone(), line), interner)
    }

    /// Module and address of the callers that are not known.
    fn gap(&mut self, interner: &mut Interner) -> Option<(u32, u64)> {
        let name = CALLERS_NOT_KNOWN.trim_start_matches(IN_PYTHON);
        self.row_of((name.into(), "".into(), 0), interner)
    }

    fn row_of(
        &mut self,
        key: (Rc<str>, Rc<str>, u32),
        interner: &mut Interner,
    ) -> Option<(u32, u64)> {
        let module = interner.module(module());
        if let Some(&row) = self.rows.get(&key) {
            return Some((module, row));
        }
        let (function, file, line) = &key;
        let bytes = bytes_of(&key);
        if self.rows.len() >= NAMES_MAX || self.bytes + bytes > NAMES_BYTES_MAX {
            return None;
        }
        // Number 0 is no address.
        let row = self.last + 1;
        let frame = Frame { module, address: row };
        let call = Call {
            function: format!("{IN_PYTHON}{function}"),
            file: file.to_string(),
            line: *line,
        };
        if interner.named(frame, call) == NONE {
            return None;
        }
        self.bytes += bytes;
        self.last = row;
        self.rows.insert(key, row);
        Some((module, row))
    }

    /// Forgets those that have no row in the tables any more.
    fn keep(&mut self, interner: &mut Interner) {
        let module = interner.module(module());
        self.rows.retain(|_, &mut address| interner.has(Frame { module, address }));
        self.bytes = self.rows.keys().map(bytes_of).sum();
    }
}

impl Pythons {
    pub(super) fn new(cpu: Cpu, readers: Readers) -> Pythons {
        Pythons {
            cpu,
            processes: HashMap::new(),
            learned: HashMap::new(),
            names: Names::default(),
            read: HashSet::new(),
            is_late: false,
            readers,
            begun_ns: 0,
            forgot_ns: HashMap::new(),
            was_read: false,
        }
    }

    /// Whether callers of functions were read later than their samples were taken, since this was asked last: the sooner, the fewer
    /// of them have returned meanwhile.
    pub(super) fn take_late(&mut self) -> bool {
        std::mem::take(&mut self.is_late)
    }

    /// Whether the memory of an interpreter was read for a stack, since this was asked last.
    pub(super) fn take_read(&mut self) -> bool {
        std::mem::take(&mut self.was_read)
    }

    /// A drain begins: memory that was read has changed.
    pub(super) fn begin(&mut self) {
        self.read.clear();
        self.begun_ns = clock::monotonic_ns();
        self.forgot_ns.clear();
        self.processes.values_mut().for_each(Reader::forget);
    }

    /// Names that have no row in the tables any more are forgotten.
    pub(super) fn keep(&mut self, interner: &mut Interner) {
        self.names.keep(interner);
    }

    /// A process ended, or runs another program.
    pub(super) fn forget(&mut self, pid: i32) {
        self.processes.remove(&pid);
    }

    /// For one stack of a thread.
    pub(super) fn look(&mut self, tid: i32, moment: Moment) -> Look<'_> {
        Look { pythons: self, tid, moment }
    }
}

/// A process.
#[derive(Debug)]
struct Process {
    pid: i32,
    readers: Readers,
}

impl Source for Process {
    fn page(&mut self, address: u64) -> Option<Box<Page>> {
        let mut found = None;
        self.pages(&[address], &mut |_, page| found = Some(page));
        found
    }

    fn pages(&mut self, addresses: &[u64], take: &mut dyn FnMut(u64, Box<Page>)) {
        self.readers.memory(self.pid, addresses, PAGE, |ix, bytes| {
            if let Ok(page) = <Page>::try_from(bytes) {
                take(addresses[ix], Box::new(page));
            }
        });
    }
}

/// Finds what one stack of a thread runs.
#[derive(Debug)]
pub(super) struct Look<'p> {
    pythons: &'p mut Pythons,
    tid: i32,
    moment: Moment,
}

impl Interpreter for Look<'_> {
    fn inner(
        &mut self,
        pid: i32,
        frames: &[EvalFrame],
        stack: &Stack<'_>,
        is_complete: bool,
        interner: &mut Interner,
    ) -> Vec<Inner> {
        let Pythons {
            cpu,
            processes,
            learned,
            names,
            read,
            is_late,
            readers,
            begun_ns,
            forgot_ns,
            was_read,
        } = &mut *self.pythons;
        let Some(first) = frames.first() else {
            return Vec::new();
        };
        let Some(layout) = Layout::of(first.python.minor) else {
            return Vec::new();
        };
        // Two interpreters in one process, of different files: the first is understood.
        let same = frames.iter().take_while(|f| f.python.key == first.python.key);
        let frames = &frames[..same.count()];
        if processes.len() >= PROCESSES_MAX && !processes.contains_key(&pid) {
            processes.clear();
        }
        if learned.len() >= PROCESSES_MAX && !learned.contains_key(&first.python.key) {
            learned.clear();
        }
        if read.len() >= READ_MAX && !read.contains(&pid) {
            read.clear();
            processes.values_mut().for_each(Reader::forget);
        }
        read.insert(pid);
        *was_read = true;
        *is_late |= self.moment == Moment::Before && layout.frames != Frames::Objects;
        let reader = processes
            .entry(pid)
            .or_insert_with(|| Reader::new(Process { pid, readers: readers.clone() }));
        reader.is(layout, types(&first.python, first.bias));
        if let Moment::Waits(since_ns) = self.moment
            && *forgot_ns.get(&pid).unwrap_or(begun_ns) < since_ns
        {
            reader.forget();
            forgot_ns.insert(pid, clock::monotonic_ns());
        }
        let mut stack_of = StackOf {
            reader,
            learned: learned.entry(first.python.key).or_default(),
            moment: self.moment,
            runtime: first.python.runtime.wrapping_add(first.bias),
            tid: self.tid,
            is_complete,
            is_innermost: first.is_innermost,
        };
        let words: Vec<Words> = frames.iter().map(|f| words(*cpu, f, stack)).collect();
        let inner = match layout.frames {
            Frames::Objects => stack_of.objects(&words),
            Frames::Marked(_) | Frames::Shims(_) => {
                let stacks: Vec<_> = frames.iter().map(|f| f.stack.clone()).collect();
                stack_of.chain(&words, &stacks)
            }
        };
        let to_rows = |(functions, is_whole): (Functions, bool)| {
            let rows = functions.iter();
            let rows = rows.map(|(code, line)| names.row(code, *line, interner));
            let rows: Option<Vec<_>> = rows.collect();
            let is_whole = is_whole && rows.is_some();
            Inner {
                functions: rows.unwrap_or_default(),
                gap: match is_whole {
                    true => None,
                    false => names.gap(interner),
                },
            }
        };
        inner.into_iter().map(to_rows).collect()
    }
}

fn types(python: &Python, bias: u64) -> Types {
    Types {
        code: python.code_type.wrapping_add(bias),
        frame: python.frame_type.wrapping_add(bias),
        string: python.unicode_type.wrapping_add(bias),
        bytes: python.bytes_type.wrapping_add(bias),
    }
}

/// The registers and words of one frame of the loop.
type Words = Vec<(Slot, u64)>;
/// Functions with their lines, innermost first.
type Functions = Vec<(Rc<Code>, u32)>;

/// The registers that a function hands back as it found them: what is known of them further out.
const fn saved(cpu: Cpu) -> &'static [usize] {
    match cpu {
        Cpu::X86_64 => &[3, 6, 12, 13, 14, 15],
        Cpu::Aarch64 => &[19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29],
    }
}

fn words(cpu: Cpu, frame: &EvalFrame, stack: &Stack<'_>) -> Words {
    let is_known = |r: &usize| frame.is_innermost || saved(cpu).contains(r);
    let registers = (0..kasuri_unwind::N_REGISTERS).filter(is_known);
    let registers = registers.filter_map(|r| Some((r as Slot, frame.registers.get(r)?)));
    let (start, end) = (frame.stack.start, frame.stack.end);
    let inside = (start.next_multiple_of(8)..end.saturating_sub(7)).step_by(8);
    let words = inside.filter_map(|address| {
        let at = usize::try_from(address.checked_sub(stack.base)?).ok()?;
        let word = u64::from_le_bytes(*stack.bytes.get(at..)?.first_chunk()?);
        Some((-((end - address) as Slot), word))
    });
    registers.chain(words).collect()
}

/// The innermost function of a frame of the loop, in the copy.
struct Top {
    /// `None`: not known.
    function: Option<(Rc<Code>, u32)>,
    /// The address of its frame; `None`: not known.
    frame: Option<u64>,
}

impl Top {
    /// Where its frame ends.
    fn end(&self) -> Option<u64> {
        let (code, _) = self.function.as_ref()?;
        Some(self.frame?.wrapping_add(code.frame_bytes))
    }
}

/// The frames that called the one at `at` of a chain in the same frame of the loop.
fn rest(chain: &[PyFrame], at: usize) -> &[PyFrame] {
    let group = chain[at].group;
    let rest = &chain[at + 1..];
    let n = rest.iter().take_while(|f| f.group == group).count();
    &rest[..n]
}

/// One stack, and what it needs.
struct StackOf<'a, S> {
    reader: &'a mut Reader<S>,
    learned: &'a mut Learned,
    moment: Moment,
    runtime: u64,
    tid: i32,
    is_complete: bool,
    /// Whether the first frame of the loop was interrupted in its own code.
    is_innermost: bool,
}

impl<S: memory::Source> StackOf<'_, S> {
    /// Until 3.10: each frame of the loop has the address of its frame object.
    fn objects(&mut self, frames: &[Words]) -> Vec<(Functions, bool)> {
        let mut found = Vec::with_capacity(frames.len());
        for (n, words) in frames.iter().enumerate() {
            let known = self.learned.frame.best();
            let known = words.iter().find(|(place, _)| Some(*place) == known);
            let mut frame = known.filter(|(_, w)| self.reader.is_frame_object(*w)).copied();
            if frame.is_none() {
                for &(place, word) in words {
                    if self.reader.is_frame_object(word) {
                        self.learned.frame.add(place);
                        frame = frame.or(Some((place, word)));
                    }
                }
            }
            let code = frame.and_then(|(_, word)| self.reader.code_of_frame(word));
            let mut function = self.instruction(words, code.as_ref(), self.entered(frames, n));
            if matches!(self.moment, Moment::Waits(_))
                && let (Some((_, word)), Some(code)) = (frame, code)
            {
                function = Some(self.reader.at_frame_object(word, code));
            }
            found.push((function.into_iter().collect(), true));
        }
        found
    }

    /// The words of the frame that called frame `n`, if that one was interrupted in its own code: when it was entered just before, its
    /// registers are still its caller's.
    fn entered<'w>(&self, frames: &'w [Words], n: usize) -> &'w [(Slot, u64)] {
        let caller = frames.get(1).filter(|_| n == 0 && self.is_innermost);
        caller.map_or(&[], |words| words)
    }

    /// The code that holds the next instruction, whose address the frame has in the place where it was found most often, and the line of
    /// the instruction before. `now`: what the frame runs by now, often the same; places that agree with it are learned from. `caller`: words that
    /// may not be its own yet.
    fn instruction(
        &mut self,
        words: &[(Slot, u64)],
        now: Option<&Rc<Code>>,
        caller: &[(Slot, u64)],
    ) -> Option<(Rc<Code>, u32)> {
        for (place, word) in words {
            if now.is_some_and(|code| code.holds(*word)) {
                self.learned.instruction.add(*place);
            }
        }
        let place = self.learned.instruction.best()?;
        let found = words.iter().find(|(p, _)| *p == place)?;
        if place >= 0 && caller.contains(found) {
            return None;
        }
        let next = found.1;
        let code = match now {
            Some(code) if code.holds(next) && !self.reader.shares(code) => Some(code.clone()),
            _ => self.reader.known_at(next, words),
        };
        let code = code.or_else(|| self.reader.discover(next))?;
        let line = self.reader.line_before(&code, next);
        Some((code, line))
    }

    /// Since 3.11: a frame of the loop runs a function and those that it called before, of which only the first is in the copy.
    fn chain(&mut self, frames: &[Words], stacks: &[Range<u64>]) -> Vec<(Functions, bool)> {
        let chain = self.reader.chain(self.runtime, self.tid);
        let n_groups = chain.last().map_or(0, |f| f.group + 1);
        if matches!(self.moment, Moment::Waits(_)) && self.is_complete && n_groups == frames.len() {
            let group = |n: usize| chain.iter().filter(move |f| f.group == n).copied();
            let groups: Vec<Vec<PyFrame>> = (0..n_groups).map(|n| group(n).collect()).collect();
            self.learn(frames, &groups);
            return groups.iter().map(|g| self.functions(g)).collect();
        }
        let mut tops = self.tops(frames, &chain);
        // From the outermost on: where a frame ends, the next one may begin.
        for n in (0..tops.len()).rev() {
            let base = tops.get(n + 1).and_then(Top::end);
            if let Some(function) = self.runs_instead(&tops[n], &chain, base) {
                tops[n].function = Some(function);
            }
        }
        let mut found = Vec::with_capacity(frames.len());
        for (n, top) in tops.iter().enumerate() {
            let Some(function) = &top.function else {
                found.push((Vec::new(), false));
                continue;
            };
            let base = tops.get(n + 1).and_then(Top::end);
            let callers = top
                .frame
                .and_then(|frame| self.callers(frame, &function.0, &chain, base, &stacks[n]));
            let is_whole = callers.is_some();
            let mut functions = vec![function.clone()];
            functions.extend(callers.unwrap_or_default());
            found.push((functions, is_whole));
        }
        found
    }

    /// What the copy has of each frame of the loop.
    fn tops(&mut self, frames: &[Words], chain: &[PyFrame]) -> Vec<Top> {
        let n_groups = chain.last().map_or(0, |f| f.group + 1);
        let mut tops = Vec::with_capacity(frames.len());
        for (n, words) in frames.iter().enumerate() {
            // Counted from the outermost, which both have.
            let from_outermost = frames.len() - 1 - n;
            let group = n_groups.checked_sub(from_outermost + 1);
            let first = chain.iter().find(|f| Some(f.group) == group);
            let now = first.and_then(|first| self.reader.code(first.code));
            for (place, word) in words {
                if first.is_some_and(|first| first.address == *word) {
                    self.learned.frame.add(*place);
                }
            }
            let function = self.instruction(words, now.as_ref(), self.entered(frames, n));
            let place = self.learned.frame.best();
            let frame = words.iter().find(|(p, _)| Some(*p) == place);
            tops.push(Top { function, frame: frame.map(|(_, word)| *word) });
        }
        tops
    }

    /// Learns from a thread that waits, of which all is known.
    fn learn(&mut self, frames: &[Words], groups: &[Vec<PyFrame>]) {
        for (words, group) in frames.iter().zip(groups) {
            let Some(first) = group.first() else { continue };
            for &(place, word) in words {
                if word == first.address {
                    self.learned.frame.add(place);
                }
            }
        }
    }

    /// The functions of these frames up to the first that is not known, and whether they are all.
    fn functions(&mut self, frames: &[PyFrame]) -> (Functions, bool) {
        let mut functions = Vec::new();
        for frame in frames.iter().take(DEPTH_MAX) {
            let Some(code) = self.reader.code(frame.code) else {
                return (functions, false);
            };
            let line = self.reader.line_at(&code, frame.instruction);
            functions.push((code, line));
        }
        (functions, true)
    }

    /// Who called the function `code`, whose frame is at `address`, in the same frame of the loop. `None`: not known.
    /// `chain`: the frames as they are by now. `base`: where the frames of the next loop end. `stack`: of this frame of the loop.
    fn callers(
        &mut self,
        address: u64,
        code: &Rc<Code>,
        chain: &[PyFrame],
        base: Option<u64>,
        stack: &Range<u64>,
    ) -> Option<Functions> {
        let mut callers = Functions::new();
        let (mut address, mut code) = (address, code.clone());
        if let Some((caller, line)) = self.returning(address, &code, chain) {
            code = caller.clone();
            callers.push((caller, line));
        }
        for _ in 0..DEPTH_MAX {
            let runs = |f: &PyFrame| f.address == address && f.code == code.address;
            self.reader.look_through(chain.len())?;
            if let Some(at) = chain.iter().position(runs) {
                // It runs yet: so do its callers.
                let (outer, is_whole) = self.functions(rest(chain, at));
                callers.extend(outer);
                return is_whole.then_some(callers);
            }
            let remains = self.reader.remains(address);
            let remains = remains.filter(|remains| remains.code == code.address);
            // Since 3.12 the frame of no function, beyond the first, lies in the loop's own.
            if remains.is_some_and(|r| r.is_marked || stack.contains(&r.caller)) {
                return Some(callers);
            }
            if let Some((caller, line)) = remains.and_then(|r| self.returned(&r, address, &code)) {
                (address, code) = (remains?.caller, caller.clone());
                callers.push((caller, line));
                continue;
            }
            if base == Some(address) {
                return self.reader.is_first(code.address).then_some(callers);
            }
            let at = chain.iter().position(|f| self.ends_at(f, address))?;
            if !self.reader.calls(chain[at].code, code.address) {
                return None;
            }
            let outer = &chain[at..=at + rest(chain, at).len()];
            let (outer, is_whole) = self.functions(outer);
            callers.extend(outer);
            return is_whole.then_some(callers);
        }
        None
    }

    /// What runs in the frame of Python that the copy has, by now, where the function whose instruction the copy has cannot be there:
    /// compilers do not keep the address of the next instruction in one place during each call, and an old one is left in that place.
    fn runs_instead(
        &mut self,
        top: &Top,
        chain: &[PyFrame],
        base: Option<u64>,
    ) -> Option<(Rc<Code>, u32)> {
        let (code, address) = (top.function.as_ref()?.0.address, top.frame?);
        self.reader.look_through(chain.len())?;
        let now = chain.iter().position(|f| f.address == address)?;
        let parent = chain.iter().find(|f| self.ends_at(f, address));
        let may_be = base == Some(address) && self.reader.is_first(code)
            || chain[now].code == code
            || self.reader.calls(chain[now].code, code)
            || parent.is_some_and(|p| self.reader.calls(p.code, code));
        match may_be {
            true => None,
            false => self.functions(&chain[now..=now]).0.pop(),
        }
    }

    /// While a function returns, its objects are freed, which may take long: the place that should have the address of its frame has
    /// its caller's already, and that of the next instruction still its own. The caller and its line, if it is so.
    fn returning(
        &mut self,
        address: u64,
        code: &Code,
        chain: &[PyFrame],
    ) -> Option<(Rc<Code>, u32)> {
        let remains = self.reader.remains(address)?;
        if remains.code == code.address || !self.reader.calls(remains.code, code.address) {
            return None;
        }
        // Or the function has returned, and what lies there now was called by the same caller.
        let parent = chain.iter().find(|f| self.ends_at(f, address));
        if parent.is_some_and(|p| self.reader.calls(p.code, code.address)) {
            return None;
        }
        let caller = self.reader.code(remains.code)?;
        let line = self.reader.line_at(&caller, remains.instruction);
        Some((caller, line))
    }

    /// The caller of a frame of `code` at an address that has returned, and where that was, if it is what it seems.
    fn returned(
        &mut self,
        remains: &Remains,
        address: u64,
        code: &Code,
    ) -> Option<(Rc<Code>, u32)> {
        let caller_remains = self.reader.remains(remains.caller)?;
        let caller = self.reader.code(caller_remains.code)?;
        let is_it = remains.caller.wrapping_add(caller.frame_bytes) == address
            && self.reader.calls(caller.address, code.address);
        let line = self.reader.line_at(&caller, caller_remains.instruction);
        is_it.then_some((caller, line))
    }

    /// Whether another frame begins where this one ends.
    fn ends_at(&mut self, frame: &PyFrame, address: u64) -> bool {
        let code = self.reader.code(frame.code);
        code.is_some_and(|code| frame.address.wrapping_add(code.frame_bytes) == address)
    }
}

#[cfg(test)]
mod tests;
