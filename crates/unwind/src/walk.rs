//! Follows a stack from its innermost frame to its outermost.
use crate::cpu::{Cpu, Registers, Stack};
use crate::elf::{Elf, ReadAt};
use crate::intern::Interner;
use crate::maps::{Backing, Code, Entry, Mapping, Processes};
use crate::prologue::{self, CALL_BYTES, FUNCTION_BYTES_MAX};
use crate::python::{EvalFrame, Inner, Interpreter, Python};
use crate::rules::{Information, Rule, Stop};
use gimli::UnwindContext;
use kasuri_base::quick::QuickMap;
use kasuri_format::call_paths::{Frame, Module, ModuleKind, NONE, PathEnd, Sample};
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

/// Most frames of a path.
pub const DEPTH_MAX: usize = 512;
/// Most rules that are remembered, some 200 bytes each; then all are forgotten.
const RULES_MAX: usize = 1 << 16;
/// Most bytes of unwind information of all files together.
const UNWIND_BYTES_MAX: u64 = 512 << 20;
/// Most files that are remembered.
const FILES_MAX: usize = 1 << 16;

/// Rows of a table that take as much memory as what is remembered of a file, without the unwind information, which is mapped.
const ROWS_OF_FILE: usize = 16;

/// Bytes of code at the entry of a file. The dynamic linker's has no rules, and takes 61 bytes in glibc for x86-64.
const ENTRY_BYTES: u64 = 64;
/// Least length of code without rules in which frame pointers may be followed: no function that was written by hand is so
/// long, while the built-in functions of V8 in an ELF file take 1 to 2 MB.
const FRAMED_BYTES: u64 = 64 << 10;
/// Most such ranges of a file, and most bytes of one, that are looked at.
const FRAMED_MAX: usize = 16;
const FRAMED_BYTES_MAX: u64 = 16 << 20;
/// Code has frame pointers if it sets one up at least once in so many bytes, on average.
const FRAMED_EACH: usize = 4 << 10;

/// A file that was opened for reading its unwind information.
pub struct File {
    /// Tells it from all other files, and from the same file with other contents: device, inode, size, times of change.
    pub key: [u64; 6],
    /// Its bytes.
    pub bytes: Box<dyn ReadAt>,
}

/// Opens the files that processes have mapped.
pub trait Files {
    /// The file behind a mapping of a process; `None`: it cannot be read.
    fn open(&mut self, pid: i32, mapping: &Mapping) -> Option<File>;

    /// The bytes of the vdso, which is the same in all processes of one kind.
    fn vdso(&mut self) -> Option<Vec<u8>>;

    /// CPU time so far, ns, for [`Counts::first_ns`]; a reader that is not asked for that has no clock.
    fn cpu_ns(&self) -> u64 {
        0
    }
}

/// One file.
#[derive(Debug)]
struct Image {
    elf: Elf,
    information: Option<Information>,
    /// Those that were looked at.
    gaps: Vec<Gap>,
    /// The interpreter that it holds.
    python: Option<Rc<Python>>,
}

/// A long range of a file without rules.
#[derive(Debug)]
struct Gap {
    range: Range<u64>,
    /// The code in it, if it has frame pointers.
    framed: Option<Range<u64>>,
}

/// What leads to the caller of a frame.
#[derive(Debug)]
enum Way {
    Rule(Rc<Rule>),
    /// The frame pointer, in code that always has it.
    Pointer,
    /// The frame pointer, in code of an ELF file without rules that seems to have it.
    Framed,
    /// The stack pointer was moved by so many bytes: code that Python makes to be seen by profilers.
    Moved(u64),
    /// It has no caller: the kernel begins there.
    Entry,
    Unknown,
}

impl Image {
    /// Whether the address lies in the first instructions that the kernel runs: nobody calls them.
    fn is_at_entry(&self, address: u64) -> bool {
        let entry = self.elf.entry;
        entry != 0 && address.checked_sub(entry).is_some_and(|past| past < ENTRY_BYTES)
    }
}

/// What has been met so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Stacks.
    pub stacks: u64,
    /// Frames of them.
    pub frames: u64,
    /// Files that could not be read.
    pub unreadable: u64,
    /// CPU time of what is done once for each file, when it is met: opening it, and reading where its tables are, ns.
    pub first_ns: u64,
}

/// Follows stacks.
#[derive(Debug)]
pub struct Unwinder {
    cpu: Cpu,
    processes: Processes,
    images: Vec<Image>,
    /// Row of `images` by the key of a file; `None`: no ELF file of this CPU.
    files: HashMap<[u64; 6], Option<usize>>,
    /// What the file of a mapping was found to be: for processes that ended before their file could be opened.
    met: HashMap<Backing, Option<usize>>,
    unwind_bytes: u64,
    rules: QuickMap<(usize, u64), Option<Rc<Rule>>>,
    /// By place in the code, how far the frame pointer lies above the stack pointer.
    frame_bytes: QuickMap<(usize, u64), Option<u64>>,
    /// By place in the code, whether a call is in front of it.
    after_call: QuickMap<(usize, u64), bool>,
    context: Box<UnwindContext<usize>>,
    chain: Vec<(u32, u64)>,
    /// Frames of it that run Python.
    evals: Vec<EvalFrame>,
    /// The tables.
    pub interner: Interner,
    /// What has been met.
    pub counts: Counts,
}

impl Unwinder {
    /// An unwinder for programs of this CPU.
    pub fn new(cpu: Cpu) -> Unwinder {
        Unwinder {
            cpu,
            processes: Processes::default(),
            images: Vec::new(),
            files: HashMap::new(),
            met: HashMap::new(),
            unwind_bytes: 0,
            rules: QuickMap::default(),
            frame_bytes: QuickMap::default(),
            after_call: QuickMap::default(),
            context: Box::new(UnwindContext::new()),
            chain: Vec::with_capacity(DEPTH_MAX),
            evals: Vec::new(),
            interner: Interner::default(),
            counts: Counts::default(),
        }
    }

    /// A process mapped code.
    pub fn map(&mut self, pid: i32, mapping: Mapping) {
        self.processes.map(pid, mapping);
    }

    /// The mappings of a process were read anew.
    pub fn set_maps(&mut self, pid: i32, mappings: Vec<Mapping>) {
        self.processes.set(pid, mappings);
    }

    /// A process was forked: it has the mappings of its parent.
    pub fn fork(&mut self, parent: i32, child: i32) {
        self.processes.fork(parent, child);
    }

    /// A process ended, or began another program: its mappings are gone.
    pub fn forget(&mut self, pid: i32) {
        self.processes.clear(pid);
    }

    /// What is remembered, in rows of about 100 bytes: the tables, and what was learned of files.
    pub fn n_remembered(&self) -> usize {
        self.interner.n_rows() + ROWS_OF_FILE * (self.files.len() + self.met.len())
    }

    /// Forgets what neither these samples nor the mappings of the processes that are known need: rows of the tables, files, rules. The
    /// paths of the samples get new rows.
    pub fn keep(&mut self, samples: &mut [Sample]) {
        let old = self.interner.keep(samples);
        let mut before: Vec<Option<Image>> =
            std::mem::take(&mut self.images).into_iter().map(Some).collect();
        let mut rows = vec![None; before.len()];
        for entry in self.processes.entries() {
            let Some(mut code) = entry.code.get() else {
                continue;
            };
            code.module = self.interner.keep_module(&old, code.module);
            code.image = code.image.and_then(|image| {
                if let Some(used) = before[image].take() {
                    rows[image] = Some(self.images.len());
                    self.images.push(used);
                }
                rows[image]
            });
            entry.code.set(Some(code));
        }
        let is_used = |image: &mut Option<usize>| {
            *image = image.and_then(|row| rows[row]);
            image.is_some()
        };
        self.files.retain(|_, image| is_used(image));
        self.files.shrink_to_fit();
        self.met.retain(|_, image| is_used(image));
        self.met.shrink_to_fit();
        let len = |image: &Image| image.information.as_ref().map_or(0, Information::len);
        self.unwind_bytes = self.images.iter().map(len).sum();
        self.rules = QuickMap::default();
        self.frame_bytes = QuickMap::default();
        self.after_call = QuickMap::default();
    }

    /// Whether mappings of the process are known.
    pub fn knows(&self, pid: i32) -> bool {
        self.processes.get(pid).is_some()
    }

    /// Whether the address lies in a known mapping of the process.
    pub fn has_code_at(&self, pid: i32, address: u64) -> bool {
        self.processes.get(pid).is_some_and(|maps| maps.find(address).is_some())
    }

    /// Processes whose mappings are known.
    pub fn pids(&self) -> Vec<i32> {
        self.processes.pids().collect()
    }

    /// The row of the path that these registers and this stack show, and how it ends. `None` for registers: only kernel
    /// frames are known. `kernel`: addresses in the kernel, innermost first. Where the tables are full and lack a row for one of the
    /// frames, there is no path ([`NONE`], [`PathEnd::NoStack`]): the rest of it would be another one.
    pub fn unwind(
        &mut self,
        pid: i32,
        user: Option<(&Registers, Stack<'_>)>,
        kernel: &[u64],
        files: &mut dyn Files,
        interpreter: &mut dyn Interpreter,
    ) -> (u32, PathEnd) {
        self.counts.stacks += 1;
        self.chain.clear();
        self.evals.clear();
        let end = match user {
            Some((registers, stack)) => {
                let end = self.walk(pid, registers, &stack, files);
                self.interpret(pid, &stack, end, interpreter)
            }
            None => PathEnd::NoStack,
        };
        self.counts.frames += (self.chain.len() + kernel.len()) as u64;
        let mut path = NONE;
        for &(module, address) in self.chain.iter().rev() {
            path = next(&mut self.interner, path, module, address);
            if path == NONE {
                return (NONE, PathEnd::NoStack);
            }
        }
        if !kernel.is_empty() {
            let module = self.interner.module(Module {
                kind: ModuleKind::Kernel,
                path: "[kernel]".to_owned(),
                ..Module::default()
            });
            for &address in kernel.iter().take(DEPTH_MAX).rev() {
                path = next(&mut self.interner, path, module, address);
                if path == NONE {
                    return (NONE, PathEnd::NoStack);
                }
            }
        }
        (path, end)
    }

    /// Puts what interpreters run in the place of their own frames.
    fn interpret(
        &mut self,
        pid: i32,
        stack: &Stack<'_>,
        end: PathEnd,
        interpreter: &mut dyn Interpreter,
    ) -> PathEnd {
        if self.evals.is_empty() {
            return end;
        }
        let is_complete = end == PathEnd::Complete;
        let inner = interpreter.inner(pid, &self.evals, stack, is_complete, &mut self.interner);
        let mut next = 0;
        let mut has_gap = false;
        let mut chain = Vec::with_capacity(DEPTH_MAX);
        for (eval, Inner { functions, gap }) in self.evals.iter().zip(&inner) {
            // Without a function the interpreter's own frame stays.
            let own = eval.ix + usize::from(functions.is_empty());
            chain.extend_from_slice(&self.chain[next..own]);
            chain.extend_from_slice(functions);
            chain.extend(gap);
            has_gap |= gap.is_some();
            next = eval.ix + 1;
            if !functions.is_empty() {
                next += usize::from(eval.has_trampoline);
            }
            if chain.len() >= DEPTH_MAX {
                break;
            }
        }
        // The callers in C of what is not known are known all the same.
        chain.extend_from_slice(&self.chain[next..]);
        let is_deep = chain.len() > DEPTH_MAX;
        chain.truncate(DEPTH_MAX);
        self.chain = chain;
        match end {
            _ if is_deep => PathEnd::TooDeep,
            PathEnd::Complete if has_gap => PathEnd::Gap,
            end => end,
        }
    }

    /// The interpreter of this frame, if it is one of its loop.
    fn python(&self, code: Code, address: u64) -> Option<&Rc<Python>> {
        let python = self.images.get(code.image?)?.python.as_ref()?;
        python.eval.contains(&address).then_some(python)
    }

    /// Fills `chain` and `evals`, innermost first.
    fn walk(
        &mut self,
        pid: i32,
        first: &Registers,
        stack: &Stack<'_>,
        files: &mut dyn Files,
    ) -> PathEnd {
        let mut registers = *first;
        // The address inside of the frame's call: the instruction itself, or the one before the return address.
        let mut inside = registers.ip;
        let maps = self.processes.get(pid).cloned().unwrap_or_default();
        let mut last: Option<&Rc<Entry>> = None;
        loop {
            // Most callers lie in the same mapping.
            last = last.filter(|e| e.has(inside)).or_else(|| maps.find(inside));
            let Some(entry) = last else {
                // Where it stands is known even when nobody knows what is there. A return address to nowhere is none.
                if self.chain.is_empty() {
                    self.chain.push((NONE, inside));
                }
                return PathEnd::NoRule;
            };
            let code = self.code(pid, entry, files);
            let address = inside.wrapping_sub(code.bias);
            self.chain.push((code.module, address));
            if self.chain.len() >= DEPTH_MAX {
                return PathEnd::TooDeep;
            }
            let way = match self.after_eval(code) {
                Some(eval) => {
                    eval.has_trampoline = true;
                    Way::Moved(eval.python.trampoline_bytes.unwrap_or_default())
                }
                None => self.way(pid, entry, address, files),
            };
            let pointer = self.lost_pointer(pid, entry, &way, address, &registers, files);
            if let Some(pointer) = pointer {
                registers.set(self.cpu.fp(), pointer);
            }
            let caller = match self.caller(&way, code, &registers, stack) {
                Ok(next) if matches!(way, Way::Framed) => {
                    self.check_framed(pid, &registers, next, files)
                }
                Ok(next) if pointer.is_some() && !self.is_after_call(pid, next.ip, files) => {
                    Err(Stop::Unknown)
                }
                caller => caller,
            };
            let next = match caller {
                Ok(next) => next,
                Err(Stop::Outermost) => return PathEnd::Complete,
                Err(Stop::Cut) => return PathEnd::StackCut,
                Err(Stop::Unknown) => return PathEnd::NoRule,
            };
            let sp = self.cpu.sp();
            if let Some(python) = self.python(code, address)
                && let Some((start, end)) = registers.get(sp).zip(next.get(sp))
            {
                let ix = self.chain.len() - 1;
                let eval = EvalFrame::new(python.clone(), code.bias, registers, start..end, ix);
                self.evals.extend(eval);
            }
            if next.ip == registers.ip && next.get(sp) == registers.get(sp) {
                return PathEnd::NoRule;
            }
            inside = if matches!(way, Way::Rule(rule) if rule.is_resumed) {
                next.ip
            } else {
                next.ip.wrapping_sub(1)
            };
            registers = next;
        }
    }

    /// The frame of the interpreter that the innermost code made at run time has called, if that is the code that `-X perf` makes
    /// for each function, without a frame pointer.
    fn after_eval(&mut self, code: Code) -> Option<&mut EvalFrame> {
        let eval = self.evals.last_mut()?;
        let is_it = code.image.is_none()
            && eval.ix + 2 == self.chain.len()
            && eval.python.trampoline_bytes.is_some();
        is_it.then_some(eval)
    }

    /// How to find the caller of code at an address of its file.
    fn way(&mut self, pid: i32, entry: &Entry, address: u64, files: &mut dyn Files) -> Way {
        let code = self.code(pid, entry, files);
        if let Some(image) = code.image {
            if let Some(rule) = self.rule(image, address) {
                return Way::Rule(rule);
            }
            if self.images[image].is_at_entry(address) {
                return Way::Entry;
            }
            if self.is_framed(image, address, &mut || files.open(pid, &entry.mapping)) {
                return Way::Framed;
            }
        }
        match code.has_frame_pointers {
            true => Way::Pointer,
            false => Way::Unknown,
        }
    }

    /// The frame pointer of a frame whose rule wants it and of which only the stack pointer is
    /// known, if its code tells it.
    fn lost_pointer(
        &mut self,
        pid: i32,
        entry: &Entry,
        way: &Way,
        address: u64,
        registers: &Registers,
        files: &mut dyn Files,
    ) -> Option<u64> {
        let (Way::Rule(rule), fp) = (way, self.cpu.fp()) else {
            return None;
        };
        let saved = rule.below(fp).filter(|_| registers.get(fp).is_none())?;
        let sp = registers.get(self.cpu.sp())?;
        let image = entry.code.get()?.image?;
        let bytes = match self.frame_bytes.get(&(image, address)) {
            Some(&bytes) => bytes,
            None => {
                if self.frame_bytes.len() >= RULES_MAX {
                    self.frame_bytes.clear();
                }
                let mut read = || {
                    let Image { elf, information, .. } = &self.images[image];
                    let function = information.as_ref()?.range(address)?;
                    let file = files.open(pid, &entry.mapping)?;
                    let is_it = self.files.get(&file.key) == Some(&Some(image));
                    let (start, end) = (function.start, function.end);
                    let code = elf.code(&*file.bytes, start, end, FUNCTION_BYTES_MAX);
                    prologue::frame_bytes(self.cpu, &code.filter(|_| is_it)?.bytes, saved)
                };
                let bytes = read();
                self.frame_bytes.insert((image, address), bytes);
                bytes
            }
        };
        bytes.map(|bytes| sp.wrapping_add(bytes))
    }

    /// Whether the instruction before an address is a call, as far as the file of its mapping tells.
    fn is_after_call(&mut self, pid: i32, address: u64, files: &mut dyn Files) -> bool {
        let maps = self.processes.get(pid).cloned().unwrap_or_default();
        let Some(entry) = maps.find(address.wrapping_sub(1)) else {
            return false;
        };
        let code = self.code(pid, entry, files);
        let (Some(image), end) = (code.image, address.wrapping_sub(code.bias)) else {
            return false;
        };
        if let Some(&is_it) = self.after_call.get(&(image, end)) {
            return is_it;
        }
        let mut read = || {
            let file = files.open(pid, &entry.mapping)?;
            let is_it = self.files.get(&file.key) == Some(&Some(image));
            let (elf, from) = (&self.images[image].elf, end.checked_sub(CALL_BYTES)?);
            elf.bytes_at(&*file.bytes, from, CALL_BYTES).filter(|_| is_it)
        };
        let Some(bytes) = read() else {
            return false;
        };
        let is_it = prologue::ends_with_call(&bytes);
        if self.after_call.len() >= RULES_MAX {
            self.after_call.clear();
        }
        self.after_call.insert((image, end), is_it);
        is_it
    }

    fn caller(
        &self,
        way: &Way,
        code: Code,
        registers: &Registers,
        stack: &Stack<'_>,
    ) -> Result<Registers, Stop> {
        match way {
            Way::Rule(rule) => {
                let image = code.image.and_then(|image| self.images.get(image));
                let information = image.and_then(|i| i.information.as_ref());
                let information = information.ok_or(Stop::Unknown)?;
                information.caller(rule, self.cpu, registers, stack)
            }
            Way::Entry => Err(Stop::Outermost),
            Way::Moved(bytes) => by_moved_stack(self.cpu, registers, stack, *bytes),
            Way::Pointer => by_frame_pointer(self.cpu, registers, stack),
            Way::Framed => match by_frame_pointer(self.cpu, registers, stack) {
                // What is read as 0 there need not be the mark of an outermost frame.
                Err(Stop::Outermost) => Err(Stop::Unknown),
                caller => caller,
            },
            Way::Unknown => Err(Stop::Unknown),
        }
    }

    /// Whether the address lies in code of an ELF file that has frame pointers and no rules. The file is read when the first
    /// address of a range without rules is asked for.
    fn is_framed(
        &mut self,
        image: usize,
        address: u64,
        open: &mut dyn FnMut() -> Option<File>,
    ) -> bool {
        let Image { elf, information, gaps, python: _ } = &self.images[image];
        let has = |range: &Range<u64>| range.contains(&address);
        if let Some(gap) = gaps.iter().find(|gap| has(&gap.range)) {
            return gap.framed.as_ref().is_some_and(has);
        }
        let range = information.as_ref().and_then(|i| i.gap(address));
        let Some(range) = range.filter(|r| r.end.saturating_sub(r.start) >= FRAMED_BYTES) else {
            return false;
        };
        if gaps.len() >= FRAMED_MAX {
            return false;
        }
        let is_it = |file: &File| self.files.get(&file.key) == Some(&Some(image));
        let Some(file) = open().filter(is_it) else {
            return false;
        };
        let framed = framed(elf, &range, &*file.bytes, self.cpu);
        let is_framed = framed.as_ref().is_some_and(has);
        self.images[image].gaps.push(Gap { range, framed });
        is_framed
    }

    /// A caller that was found by a frame pointer in an ELF file. The pointer that it hands on must lie above, unless its
    /// code has a rule: then it may use the register for something else.
    fn check_framed(
        &mut self,
        pid: i32,
        registers: &Registers,
        caller: Registers,
        files: &mut dyn Files,
    ) -> Result<Registers, Stop> {
        let fp = self.cpu.fp();
        if caller.get(fp) > registers.get(fp) {
            return Ok(caller);
        }
        let inside = caller.ip.wrapping_sub(1);
        let maps = self.processes.get(pid).cloned();
        let entry = maps.as_ref().and_then(|maps| maps.find(inside));
        let code = self.code(pid, entry.ok_or(Stop::Unknown)?, files);
        let image = code.image.ok_or(Stop::Unknown)?;
        let rule = self.rule(image, inside.wrapping_sub(code.bias));
        rule.map(|_| caller).ok_or(Stop::Unknown)
    }

    fn rule(&mut self, image: usize, address: u64) -> Option<Rc<Rule>> {
        if let Some(rule) = self.rules.get(&(image, address)) {
            return rule.clone();
        }
        if self.rules.len() >= RULES_MAX {
            self.rules.clear();
        }
        let information = self.images[image].information.as_ref()?;
        let rule = information.rule(address, self.cpu, &mut self.context);
        self.rules.insert((image, address), rule.clone());
        rule
    }

    /// Looks at the file of a mapping when it is met for the first time.
    fn code(&mut self, pid: i32, entry: &Entry, files: &mut dyn Files) -> Code {
        if let Some(code) = entry.code.get() {
            return code;
        }
        let code = self.look_at(pid, &entry.mapping, files);
        entry.code.set(Some(code));
        code
    }

    fn look_at(&mut self, pid: i32, mapping: &Mapping, files: &mut dyn Files) -> Code {
        let (kind, path, image) = match &mapping.backing {
            Backing::Anonymous => {
                let maps = self.processes.get(pid);
                let module = Module {
                    kind: ModuleKind::Jit,
                    path: maps.map_or("", |maps| maps.jitdump()).to_owned(),
                    pid,
                    ..Module::default()
                };
                return Code {
                    module: self.interner.module(module),
                    image: None,
                    bias: 0,
                    has_frame_pointers: true,
                };
            }
            Backing::Vdso => (ModuleKind::Vdso, "[vdso]", self.vdso(files)),
            Backing::File { path, .. } => {
                (ModuleKind::Elf, &**path, self.file(pid, mapping, files))
            }
        };
        let path = path.strip_suffix(" (deleted)").unwrap_or(path).to_owned();
        let bias = image.and_then(|ix| self.images[ix].elf.bias(mapping.start, mapping.offset));
        let Some((image, bias)) = image.zip(bias) else {
            self.counts.unreadable += 1;
            let module = Module { kind: ModuleKind::Unreadable, path, ..Module::default() };
            return Code {
                module: self.interner.module(module),
                image: None,
                // An address in the file at least.
                bias: mapping.start.wrapping_sub(mapping.offset),
                has_frame_pointers: false,
            };
        };
        let build_id = self.images[image].elf.build_id.clone();
        let module = Module { kind, path, build_id, pid: 0 };
        Code {
            module: self.interner.module(module),
            image: Some(image),
            bias,
            has_frame_pointers: self.images[image].elf.is_go,
        }
    }

    fn vdso(&mut self, files: &mut dyn Files) -> Option<usize> {
        const KEY: [u64; 6] = [u64::MAX; 6];
        if let Some(&image) = self.files.get(&KEY) {
            return image;
        }
        let began_ns = files.cpu_ns();
        let bytes = files.vdso().unwrap_or_default();
        let image = self.add_image(&bytes);
        self.files.insert(KEY, image);
        self.counts.first_ns += files.cpu_ns().saturating_sub(began_ns);
        image
    }

    fn file(&mut self, pid: i32, mapping: &Mapping, files: &mut dyn Files) -> Option<usize> {
        let began_ns = files.cpu_ns();
        let Some(file) = files.open(pid, mapping) else {
            return self.met.get(&mapping.backing).copied().flatten();
        };
        let image = match self.files.get(&file.key) {
            Some(&image) => image,
            None if self.files.len() >= FILES_MAX => None,
            None => {
                let image = self.add_image(&*file.bytes);
                if let (Some(ix), Backing::File { path, .. }) = (image, &mapping.backing) {
                    let elf = &self.images[ix].elf;
                    let python = Python::find(elf, &*file.bytes, path, file.key);
                    self.images[ix].python = python.map(Rc::new);
                }
                self.files.insert(file.key, image);
                self.counts.first_ns += files.cpu_ns().saturating_sub(began_ns);
                image
            }
        };
        if self.met.len() < FILES_MAX {
            self.met.insert(mapping.backing.clone(), image);
        }
        image
    }

    fn add_image(&mut self, bytes: &dyn ReadAt) -> Option<usize> {
        let mut elf = Elf::read(bytes, self.cpu)?;
        let information = Information::of(&mut elf);
        let len = information.as_ref().map_or(0, Information::len);
        if self.unwind_bytes + len > UNWIND_BYTES_MAX {
            return None;
        }
        self.unwind_bytes += len;
        self.images.push(Image { elf, information, gaps: Vec::new(), python: None });
        Some(self.images.len() - 1)
    }
}

/// The code in a range of a file without rules, if it sets up frame pointers. Code that was compiled without unwind information
/// and without frame pointers has long ranges too, and uses the register for anything.
fn framed(elf: &Elf, range: &Range<u64>, file: &dyn ReadAt, cpu: Cpu) -> Option<Range<u64>> {
    let code = elf.code(file, range.start, range.end, FRAMED_BYTES_MAX)?;
    let len = code.bytes.len();
    let is_framed =
        len as u64 >= FRAMED_BYTES && cpu.frames_set_up(&code.bytes) >= len / FRAMED_EACH;
    is_framed.then_some(code.address..code.address + len as u64)
}

fn next(interner: &mut Interner, caller: u32, module: u32, address: u64) -> u32 {
    let frame = interner.frame(Frame { module, address });
    interner.path(caller, frame)
}

/// The caller by the chain of frame pointers, on both CPUs: the caller's, then the return address.
fn by_frame_pointer(cpu: Cpu, registers: &Registers, stack: &Stack<'_>) -> Result<Registers, Stop> {
    let fp = registers.get(cpu.fp()).ok_or(Stop::Unknown)?;
    if fp == 0 {
        return Err(Stop::Outermost);
    }
    let is_above = registers.get(cpu.sp()).is_some_and(|sp| fp >= sp);
    if !is_above || fp % 8 != 0 {
        return Err(Stop::Unknown);
    }
    let mut caller = *registers;
    caller.set(cpu.fp(), stack.word(fp)?);
    caller.ip = cpu.code_address(stack.word(fp.wrapping_add(8))?);
    caller.set(cpu.sp(), fp.wrapping_add(16));
    match caller.ip {
        0 => Err(Stop::Outermost),
        _ => Ok(caller),
    }
}

/// The caller of code that has moved the stack pointer and saved nothing.
fn by_moved_stack(
    cpu: Cpu,
    registers: &Registers,
    stack: &Stack<'_>,
    bytes: u64,
) -> Result<Registers, Stop> {
    let sp = registers.get(cpu.sp()).ok_or(Stop::Unknown)?;
    let at = sp.wrapping_add(bytes);
    let mut caller = *registers;
    caller.ip = stack.word(at)?;
    caller.set(cpu.sp(), at.wrapping_add(8));
    Ok(caller)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intern::ROWS_MAX;
    use crate::maps::JITDUMPS_MAX;
    use crate::python::NoInterpreter;

    struct Nothing;

    impl Files for Nothing {
        fn open(&mut self, _: i32, _: &Mapping) -> Option<File> {
            None
        }

        fn vdso(&mut self) -> Option<Vec<u8>> {
            None
        }
    }

    /// Follows a stack whose frame pointers lead from `inner` to `outer`.
    fn follow(unwinder: &mut Unwinder, inner: u64, outer: u64, kernel: &[u64]) -> (u32, PathEnd) {
        let cpu = unwinder.cpu;
        let mut registers = Registers::new(inner);
        registers.set(cpu.sp(), 0x1000);
        registers.set(cpu.fp(), 0x1000);
        let words = [0, outer, 0, 0];
        let bytes: Vec<u8> = words.iter().flat_map(|w: &u64| w.to_le_bytes()).collect();
        let stack = Stack { base: 0x1000, bytes: &bytes, is_cut: false };
        unwinder.unwind(1, Some((&registers, stack)), kernel, &mut Nothing, &mut NoInterpreter)
    }

    fn unwinder() -> Unwinder {
        let mut unwinder = Unwinder::new(Cpu::X86_64);
        let mapping =
            Mapping { start: 0x10_0000, end: 0x20_0000, offset: 0, backing: Backing::Anonymous };
        unwinder.map(1, mapping);
        unwinder
    }

    /// Opening a file takes so long here, ns.
    const OPENING_NS: u64 = 1000;

    struct Slow {
        ns: u64,
        key: u64,
    }

    impl Files for Slow {
        fn open(&mut self, _: i32, _: &Mapping) -> Option<File> {
            self.ns += OPENING_NS;
            Some(File { key: [self.key; 6], bytes: Box::new(vec![0; 64]) })
        }

        fn vdso(&mut self) -> Option<Vec<u8>> {
            None
        }

        fn cpu_ns(&self) -> u64 {
            self.ns
        }
    }

    /// Who pays for samples must know what of their cost will not come again.
    #[test]
    fn what_is_done_once_for_a_file_is_counted_once_whatever_processes_map_it() {
        let mut unwinder = unwinder();
        let backing = Backing::File { path: "/a".into(), inode: (1, 0), device: (1, 0) };
        let mapping = Mapping { start: 0x10_0000, end: 0x20_0000, offset: 0, backing };
        let mut files = Slow { ns: 0, key: 1 };
        for (pid, key, first, all) in [(1, 1, 1, 1), (1, 1, 1, 1), (2, 1, 1, 2), (3, 2, 2, 3)] {
            files.key = key;
            if !unwinder.knows(pid) || unwinder.counts.stacks == 0 {
                unwinder.set_maps(pid, vec![mapping.clone()]);
            }
            let registers = Registers::new(0x10_0000);
            let stack = Stack { base: 0, bytes: &[], is_cut: false };
            let user = Some((&registers, stack));
            unwinder.unwind(pid, user, &[], &mut files, &mut NoInterpreter);
            let counted = (unwinder.counts.first_ns, files.ns);
            assert_eq!(counted, (first * OPENING_NS, all * OPENING_NS), "process {pid}");
        }
    }

    #[test]
    fn a_path_that_the_full_tables_have_no_row_for_is_no_other_path() {
        let mut unwinder = unwinder();
        let known = follow(&mut unwinder, 0x10_0010, 0x10_0020, &[0xff00]);
        assert_eq!(known.1, PathEnd::Complete);
        for n in 0..ROWS_MAX as u64 {
            follow(&mut unwinder, 0x11_0000 + n, 0x10_0020, &[]);
        }
        assert!(unwinder.interner.is_full());
        // The innermost frame, the outermost, one of the kernel.
        let none = (NONE, PathEnd::NoStack);
        assert_eq!(follow(&mut unwinder, 0x12_0000, 0x10_0020, &[]), none);
        assert_eq!(follow(&mut unwinder, 0x10_0010, 0x12_0000, &[]), none);
        let kernel = [0xff00, 0xff10];
        assert_eq!(follow(&mut unwinder, 0x10_0010, 0x10_0020, &kernel), none);
        let again = follow(&mut unwinder, 0x10_0010, 0x10_0020, &[0xff00]);
        assert_eq!(again, known, "what has a row keeps it");
    }

    /// However many programs came and went: what is remembered is what the kept samples and the running processes need.
    #[test]
    fn what_nobody_needs_is_forgotten_and_paths_stay_what_they_were() {
        let mut unwinder = unwinder();
        unwinder.fork(1, 2);
        let module = |unwinder: &Unwinder, path: u32| {
            let tables = unwinder.interner.tables();
            let frame = tables.frames[tables.paths[path as usize].frame as usize];
            (tables.modules[frame.module as usize].clone(), frame.address)
        };
        let mut samples = Vec::new();
        for n in 0..20 {
            let (path, _) = follow(&mut unwinder, 0x10_0010 + n, 0x10_0020, &[]);
            samples.push(Sample { path, ..Sample::default() });
        }
        let last = module(&unwinder, samples[19].path);
        let before = unwinder.n_remembered();
        unwinder.keep(&mut samples[19..]);
        assert!(unwinder.n_remembered() * 4 < before, "{before}");
        assert_eq!(module(&unwinder, samples[19].path), last);
        // The process runs on, in code whose module has another row now.
        let again = follow(&mut unwinder, 0x10_0010 + 19, 0x10_0020, &[]);
        assert_eq!(again.0, samples[19].path);
        let other = follow(&mut unwinder, 0x10_0500, 0x10_0020, &[]);
        assert_eq!(module(&unwinder, other.0), (last.0, 0x10_0500));
    }

    #[test]
    fn code_made_at_run_time_is_of_the_jitdump_that_was_mapped_last() {
        let mapping = |path: &str| Mapping {
            start: 0x50_0000,
            end: 0x50_1000,
            offset: 0,
            backing: Backing::File { path: path.to_owned(), inode: (7, 0), device: (8, 1) },
        };
        let mut unwinder = unwinder();
        let module = |unwinder: &mut Unwinder| {
            let (path, _) = follow(unwinder, 0x10_0010, 0x10_0020, &[]);
            let tables = unwinder.interner.tables();
            let frame = tables.frames[tables.paths[path as usize].frame as usize];
            tables.modules[frame.module as usize].path.clone()
        };
        for other in ["/tmp/jit-.dump", "/tmp/jit-7.dump.old", "/tmp/ajit-7.dump"] {
            unwinder.map(1, mapping(other));
            assert_eq!(module(&mut unwinder), "", "{other}");
        }
        // The memory was met before.
        unwinder.map(1, mapping("/tmp/jit-7.dump"));
        assert_eq!(module(&mut unwinder), "/tmp/jit-7.dump");
        let code =
            Mapping { start: 0x10_0000, end: 0x20_0000, offset: 0, backing: Backing::Anonymous };
        // Read anew, when it was unmapped: nothing tells of that.
        unwinder.set_maps(1, vec![code.clone()]);
        assert_eq!(module(&mut unwinder), "/tmp/jit-7.dump");
        // Another program.
        unwinder.set_maps(1, Vec::new());
        unwinder.set_maps(1, vec![code.clone()]);
        assert_eq!(module(&mut unwinder), "");
        for n in 1..=2 * JITDUMPS_MAX {
            unwinder.map(1, mapping(&format!("/tmp/jit-{n}.dump")));
            unwinder.set_maps(1, vec![code.clone()]);
        }
        let last = format!("/tmp/jit-{JITDUMPS_MAX}.dump");
        assert_eq!(module(&mut unwinder), last, "others cost too much");
    }
}
