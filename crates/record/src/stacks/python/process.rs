//! The interpreter in one process: its code objects, and the frames of its threads.
use super::code::{Code, Types};
use super::layout::{Current, Frames, Layout, SHIM, TYPE};
use super::memory::{Memory, Source};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

/// Most code objects of a process that are remembered, and most bytes of them.
const CODES_MAX: usize = 1 << 15;
const CODES_BYTES_MAX: usize = 4 << 20;
/// Most code objects with the same instructions that are told apart.
const SHARERS_MAX: usize = 64;
/// Most frames of a thread, and most threads of a process, that are looked at.
const FRAMES_MAX: usize = 4096;
const THREADS_MAX: usize = 4096;
/// Frames whose addresses are compared in one step.
const FRAMES_IN_STEP: usize = 32;
/// Most pairs of a caller and its callee that are remembered.
const CALLS_MAX: usize = 1 << 16;
/// Pages before an address in which the code object that holds it is looked for.
const PAGES_BEFORE: u64 = 4;
/// Most such searches in a drain.
const SEARCHES_MAX: usize = 4096;

/// A frame of a thread in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PyFrame {
    pub(super) address: u64,
    pub(super) code: u64,
    pub(super) instruction: u64,
    /// Which frame of the native loop runs it, from the innermost.
    pub(super) group: usize,
}

/// A frame in memory, of which nobody says that it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Remains {
    pub(super) code: u64,
    pub(super) instruction: u64,
    pub(super) caller: u64,
    /// Whether a frame of the native loop began with it (3.11).
    pub(super) is_marked: bool,
}

/// Reads an interpreter.
#[derive(Debug)]
pub(super) struct Reader<S> {
    memory: Memory<S>,
    layout: Option<&'static Layout>,
    types: Types,
    /// By the address of the object.
    codes: HashMap<u64, Rc<Code>>,
    codes_bytes: usize,
    /// By the first instruction, addresses of objects. In 3.10 several may share one string of instructions.
    starts: BTreeMap<u64, Vec<u64>>,
    /// Objects that were found unchanged in this drain.
    checked: HashSet<u64>,
    /// Chains that were read in this drain.
    chains: HashMap<i32, Rc<Vec<PyFrame>>>,
    /// Structures of threads, by the kernel's numbers.
    threads: HashMap<i32, u64>,
    searches: usize,
    /// Code objects that were seen to call each other: caller, callee.
    calls: HashSet<(u64, u64)>,
    /// Code objects that a frame of the native loop was seen to begin with.
    first: HashSet<u64>,
}

impl<S: Source> Reader<S> {
    pub(super) fn new(source: S) -> Reader<S> {
        Reader {
            memory: Memory::new(source),
            layout: None,
            types: Types::default(),
            codes: HashMap::new(),
            codes_bytes: 0,
            starts: BTreeMap::new(),
            checked: HashSet::new(),
            chains: HashMap::new(),
            threads: HashMap::new(),
            searches: 0,
            calls: HashSet::new(),
            first: HashSet::new(),
        }
    }

    /// Which interpreter it is.
    pub(super) fn is(&mut self, layout: &'static Layout, types: Types) {
        if self.layout != Some(layout) || self.types.code != types.code {
            self.clear_codes();
            self.threads.clear();
            self.calls.clear();
            self.first.clear();
            self.forget();
        }
        (self.layout, self.types) = (Some(layout), types);
    }

    /// Forgets what may have changed.
    pub(super) fn forget(&mut self) {
        self.memory.forget();
        self.checked.clear();
        self.chains.clear();
        self.searches = 0;
    }

    fn clear_codes(&mut self) {
        self.codes.clear();
        self.starts.clear();
        self.checked.clear();
        self.codes_bytes = 0;
    }

    /// Counts the look at so many frames of a chain; `None`: it was too much.
    pub(super) fn look_through(&mut self, n_frames: usize) -> Option<()> {
        self.memory.step(n_frames / FRAMES_IN_STEP)
    }

    /// The line of the instruction at an address; 0: not known.
    pub(super) fn line_at(&mut self, code: &Code, address: u64) -> u32 {
        let counted = self.memory.step(code.line_steps());
        counted.map_or(0, |()| code.line_at(address))
    }

    /// The line of the instruction before an address; 0: not known.
    pub(super) fn line_before(&mut self, code: &Code, next: u64) -> u32 {
        let counted = self.memory.step(code.line_steps());
        counted.map_or(0, |()| code.line_before(next))
    }

    /// The code object at an address.
    pub(super) fn code(&mut self, address: u64) -> Option<Rc<Code>> {
        let layout = self.layout?;
        self.memory.step(1)?;
        if let Some(code) = self.checked(address) {
            return Some(code);
        }
        let code = Code::read(&mut self.memory, layout, &self.types, address)?;
        let code = Rc::new(code);
        if self.codes.len() >= CODES_MAX || self.codes_bytes + code.bytes() > CODES_BYTES_MAX {
            self.clear_codes();
        }
        self.codes_bytes += code.bytes();
        self.checked.insert(address);
        let start = code.instructions.start;
        self.starts.entry(start).or_default().push(address);
        self.codes.insert(address, code.clone());
        Some(code)
    }

    /// The code at an address that was met before, if it is still there.
    fn checked(&mut self, address: u64) -> Option<Rc<Code>> {
        let layout = self.layout?;
        let code = self.codes.get(&address)?.clone();
        if self.checked.contains(&address) {
            return Some(code);
        }
        if code.is_there(&mut self.memory, layout) {
            self.checked.insert(address);
            return Some(code);
        }
        self.codes.remove(&address);
        self.codes_bytes = self.codes_bytes.saturating_sub(code.bytes());
        let start = code.instructions.start;
        if let Some(addresses) = self.starts.get_mut(&start) {
            addresses.retain(|a| *a != address);
            if addresses.is_empty() {
                self.starts.remove(&start);
            }
        }
        None
    }

    /// Whether other code has the same instructions.
    pub(super) fn shares(&self, code: &Code) -> bool {
        let addresses = self.starts.get(&code.instructions.start);
        addresses.is_some_and(|a| a.len() > 1)
    }

    /// Code that was met before, and has the address before this one. Of several with the same instructions the one whose
    /// object, or whose constants, `words` of the same frame have.
    pub(super) fn known_at(&mut self, next: u64, words: &[(i64, u64)]) -> Option<Rc<Code>> {
        let (_, addresses) = self.starts.range(..next).next_back()?;
        let addresses: Vec<u64> = addresses.iter().copied().take(SHARERS_MAX).collect();
        let holds = |code: &Rc<Code>| code.holds(next);
        if let [address] = addresses[..] {
            return self.codes.get(&address).is_some_and(holds).then(|| self.checked(address))?;
        }
        let mut found = None;
        for address in addresses {
            let Some(code) = self.checked(address).filter(holds) else {
                continue;
            };
            if words.iter().any(|(_, w)| *w == code.address || *w == code.constants) {
                if found.is_some() {
                    return None;
                }
                found = Some(code);
            }
        }
        found
    }

    /// Code that has the address before this one, and was not met before. Since 3.11 instructions lie in the object.
    pub(super) fn discover(&mut self, next: u64) -> Option<Rc<Code>> {
        let layout = self.layout?;
        let is_there = layout.frames != Frames::Objects;
        if !is_there || !next.is_multiple_of(2) || self.searches >= SEARCHES_MAX {
            return None;
        }
        self.searches += 1;
        let mut end = next & !7;
        for _ in 0..PAGES_BEFORE {
            let page_at = end.checked_sub(8)? & !4095;
            let page = self.memory.page(page_at)?;
            let words = page.as_chunks::<8>().0;
            let n = ((end - page_at) / 8) as usize;
            let is_type = |word: &[u8; 8]| u64::from_le_bytes(*word) == self.types.code;
            if let Some(at) = words.get(..n)?.iter().rposition(is_type) {
                let address = (page_at + at as u64 * 8).checked_sub(TYPE)?;
                return self.code(address).filter(|code| code.holds(next));
            }
            end = page_at;
        }
        None
    }

    /// Until 3.10: whether a frame object lies at an address.
    pub(super) fn is_frame_object(&mut self, address: u64) -> bool {
        address.is_multiple_of(8)
            && address < 1 << 56
            && self.memory.word(address + TYPE) == Some(self.types.frame)
    }

    /// The code of a frame object.
    pub(super) fn code_of_frame(&mut self, frame: u64) -> Option<Rc<Code>> {
        let layout = self.layout?;
        let code = self.memory.word(frame + layout.frame_code)?;
        self.code(code)
    }

    /// The line that a frame object is at.
    pub(super) fn at_frame_object(&mut self, frame: u64, code: Rc<Code>) -> (Rc<Code>, u32) {
        let layout = self.layout.filter(|l| l.frames == Frames::Objects);
        let at = layout.and_then(|l| Some((l, self.memory.u32(frame + l.frame_instruction)?)));
        let at = at.filter(|_| self.memory.step(code.line_steps()).is_some());
        let line = match at {
            // Units of two bytes; before, bytes.
            Some((layout, at)) if layout.minor == 10 => code.line(u64::from(at) * 2),
            Some((_, at)) => code.line(at.into()),
            None => 0,
        };
        (code, line)
    }

    /// The frames of a thread, innermost first; none: not known.
    pub(super) fn chain(&mut self, runtime: u64, tid: i32) -> Rc<Vec<PyFrame>> {
        if let Some(chain) = self.chains.get(&tid) {
            return chain.clone();
        }
        let chain = Rc::new(self.read_chain(runtime, tid).unwrap_or_default());
        self.learn(&chain);
        self.chains.insert(tid, chain.clone());
        chain
    }

    /// Learns who calls whom.
    fn learn(&mut self, chain: &[PyFrame]) {
        if self.calls.len() > CALLS_MAX || self.first.len() > CALLS_MAX {
            self.calls.clear();
            self.first.clear();
        }
        for (n, frame) in chain.iter().enumerate() {
            match chain.get(n + 1).filter(|next| next.group == frame.group) {
                Some(caller) => self.calls.insert((caller.code, frame.code)),
                None => self.first.insert(frame.code),
            };
        }
    }

    /// Whether one code object was seen to call another.
    pub(super) fn calls(&self, caller: u64, callee: u64) -> bool {
        self.calls.contains(&(caller, callee))
    }

    /// Whether a frame of the native loop was seen to begin with this code.
    pub(super) fn is_first(&self, code: u64) -> bool {
        self.first.contains(&code)
    }

    /// What lies at the address of a frame: one that runs, or one that has returned and was not overwritten yet.
    pub(super) fn remains(&mut self, address: u64) -> Option<Remains> {
        let layout = self.layout?;
        if !address.is_multiple_of(8) || address >= 1 << 56 {
            return None;
        }
        Some(Remains {
            code: self.memory.word(address + layout.frame_code)?,
            instruction: self.memory.word(address + layout.frame_instruction)?,
            caller: self.memory.word(address + layout.frame_caller)?,
            is_marked: match layout.frames {
                Frames::Marked(offset) => self.memory.u8(address + offset)? != 0,
                _ => false,
            },
        })
    }

    fn read_chain(&mut self, runtime: u64, tid: i32) -> Option<Vec<PyFrame>> {
        let layout = self.layout?;
        let thread = self.thread(layout, runtime, tid)?;
        let mut at = match layout.threads.current {
            Current::Stack => return None,
            Current::Direct(offset) => self.memory.word(thread.checked_add(offset)?)?,
            Current::CFrame(offset, inner) => {
                let place = self.memory.word(thread.checked_add(offset)?)?;
                self.memory.word(place.checked_add(inner)?)?
            }
        };
        let mut frames = Vec::new();
        let mut group = 0;
        // A damaged chain may be a circle.
        for _ in 0..FRAMES_MAX {
            if at == 0 {
                return Some(frames);
            }
            if at >= 1 << 56 {
                return None;
            }
            let caller = self.memory.word(at + layout.frame_caller)?;
            let is_last = match layout.frames {
                Frames::Objects => true,
                Frames::Marked(offset) => self.memory.u8(at + offset)? != 0,
                Frames::Shims(offset) => self.memory.u8(at + offset)? == SHIM,
            };
            if !(is_last && matches!(layout.frames, Frames::Shims(_))) {
                frames.push(PyFrame {
                    address: at,
                    code: self.memory.word(at + layout.frame_code)?,
                    instruction: self.memory.word(at + layout.frame_instruction)?,
                    group,
                });
            }
            group += usize::from(is_last);
            at = caller;
        }
        None
    }

    /// The structure of a thread.
    fn thread(&mut self, layout: &Layout, runtime: u64, tid: i32) -> Option<u64> {
        let tid_at = layout.threads.tid;
        if let Some(&thread) = self.threads.get(&tid)
            && self.memory.word(thread.checked_add(tid_at)?) == Some(tid as u64)
        {
            return Some(thread);
        }
        // A damaged list, or one that changes, has those before the damage.
        self.threads.clear();
        let _ = self.list_threads(layout, runtime);
        self.threads.get(&tid).copied()
    }

    /// Notes the structures of all threads; `None`: not all of the list can be read.
    fn list_threads(&mut self, layout: &Layout, runtime: u64) -> Option<()> {
        let offsets = &layout.threads;
        let mut interpreter = self.memory.word(runtime.checked_add(offsets.interpreters)?)?;
        let mut left = THREADS_MAX;
        while interpreter != 0 && left > 0 {
            let mut thread = self.memory.word(interpreter.checked_add(offsets.threads)?)?;
            while thread != 0 && left > 0 {
                left -= 1;
                let found = self.memory.word(thread.checked_add(offsets.tid)?)?;
                self.threads.insert(found as i32, thread);
                thread = self.memory.word(thread.checked_add(offsets.next)?)?;
            }
            left = left.saturating_sub(1);
            interpreter = self.memory.word(interpreter.checked_add(offsets.next_interpreter)?)?;
        }
        Some(())
    }
}
