//! Call paths of perf's samples.
//!
//! perf.data has records of many CPUs, each in order of time. All that say something about code are put in order, and one pass over them keeps the
//! mappings of each process as they were at that moment; so each address of a call chain becomes a place in a file.
//!
//! | samples of | become |
//! |---|---|
//! | the best clock: cpu-clock, task-clock, cycles, another event of the processor | on-CPU samples |
//! | sched:sched_switch, where the thread then waits | wait samples |
//! | other events | nothing |
use crate::Code;
use crate::paths::{self, Lives, Sample};
use kasuri_format::call_paths::{Frame, Module, ModuleKind, NONE, Path, Tables};
use kasuri_format::perf_data::{CodeSample, CodeWhat, Mapping, PerfData};
use kasuri_model::{Duration, SampleKind, SamplingChange, ThreadIx, Time, Trace};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

/// Most mappings that are copied when a process that has its parent's maps a file of its own. A file may say that each of a million processes does.
const COPIED_MAX: usize = 8 << 20;
const NS_PER_S: u64 = 1_000_000_000;

/// Samples with paths of addresses.
#[derive(Default)]
pub(super) struct Stacks {
    tables: Tables,
    rows: Vec<Row>,
    kernel_start: Option<u64>,
    kernel_build_id: Vec<u8>,
    /// CPU time between two samples, as asked for; 0: not known.
    period_ns: u64,
    /// The event's name.
    pub event: String,
    /// The program's stacks are copies, which are not followed.
    pub has_copies: bool,
}

/// A sample.
#[derive(Clone, Copy)]
struct Row {
    time: u64,
    pid: i32,
    tid: i32,
    cpu: u16,
    kind: SampleKind,
    path: u32,
    /// ns; 0: not known.
    weight: u64,
}

/// What an event's samples are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Clock,
    Switch,
    Other,
}

/// A mapped file's piece.
#[derive(Clone, Copy)]
struct Piece {
    end: u64,
    /// To be added to an address, modulo 2^64, for the place in the module's own numbering.
    shift: u64,
    module: u32,
}

/// The mappings of a process.
#[derive(Default)]
struct Space {
    pieces: Rc<BTreeMap<u64, Piece>>,
    /// Rows of frames by address.
    known: HashMap<u64, u32>,
}

/// What the pass keeps.
#[derive(Default)]
struct Pass {
    out: Stacks,
    spaces: HashMap<i32, Space>,
    modules: HashMap<Module, u32>,
    frames: HashMap<(u32, u64), u32>,
    paths: HashMap<(u32, u32), u32>,
    kernel: HashMap<u64, u32>,
    build_ids: HashMap<String, Vec<u8>>,
    copied: usize,
}

/// Reads all call chains; `switch_id`: the id of sched_switch, if it was recorded.
pub(super) fn read(data: &PerfData<'_>, switch_id: Option<u64>) -> Stacks {
    let uses = uses(data, switch_id);
    let mut pass =
        Pass { build_ids: data.features.build_ids.iter().cloned().collect(), ..Pass::default() };
    let clock = uses.iter().position(|of| *of == Use::Clock);
    if let Some(attr) = clock.map(|row| &data.attrs[row]) {
        pass.out.event = attr.name.clone();
        pass.out.period_ns = match (attr.freq, attr.is_clock()) {
            (true, _) => NS_PER_S / attr.period.clamp(1, NS_PER_S),
            (false, true) => attr.period,
            (false, false) => 0,
        };
    }
    let mut ids = data.features.build_ids.iter();
    let of_kernel = ids.find(|(path, _)| path.starts_with("[kernel"));
    pass.out.kernel_build_id = of_kernel.map(|(_, id)| id.clone()).unwrap_or_default();
    pass.out.has_copies = data.attrs.iter().any(|attr| attr.copies_stacks());
    let wants = |event: usize| matches!(uses.get(event), Some(Use::Clock | Use::Switch));
    let mut records: Vec<_> = data.code(wants).collect();
    // Stable: records of one moment stay in the order of the file.
    records.sort_by_key(|record| record.time);
    for record in records {
        match record.what {
            CodeWhat::Mapping(mapping) => pass.map(record.pid, &mapping),
            CodeWhat::Fork { parent } => pass.fork(parent, record.pid),
            CodeWhat::Exec => _ = pass.spaces.remove(&record.pid),
            CodeWhat::Sample { at } => {
                let sample = data.code_sample(at);
                let of = sample.as_ref().map(|sample| uses.get(sample.event));
                match (sample, of) {
                    (Some(sample), Some(Some(Use::Clock))) => {
                        let attr = &data.attrs[sample.event];
                        let weight = match attr.is_clock() && sample.period > 0 {
                            true => sample.period,
                            false => pass.out.period_ns,
                        };
                        pass.sample(record.time, &sample, SampleKind::OnCpu, weight);
                    }
                    (Some(sample), Some(Some(Use::Switch))) if !sample.chain.is_empty() => {
                        pass.sample(record.time, &sample, SampleKind::Blocked, 0);
                    }
                    _ => {}
                }
            }
        }
    }
    pass.out
}

/// What the samples of each event are: of those that show CPU time the best, and sched_switch.
fn uses(data: &PerfData<'_>, switch_id: Option<u64>) -> Vec<Use> {
    let best = (data.attrs.iter())
        .filter_map(|attr| Some((attr.clock_rank()?, attr)))
        .min_by_key(|(rank, _)| *rank);
    let is_clock = |attr: &kasuri_format::perf_data::Attr| {
        best.is_some_and(|(rank, clock)| match rank {
            // Cycles of several kinds of cores are events of their own.
            0 | 1 => attr.clock_rank() == Some(rank),
            _ => (attr.kind, attr.config) == (clock.kind, clock.config),
        })
    };
    let of = |attr: &kasuri_format::perf_data::Attr| match attr.is_tracepoint() {
        true if Some(attr.config) == switch_id => Use::Switch,
        false if is_clock(attr) => Use::Clock,
        _ => Use::Other,
    };
    data.attrs.iter().map(of).collect()
}

impl Pass {
    fn fork(&mut self, parent: i32, child: i32) {
        // A thread shares its process's.
        if parent != child
            && let Some(space) = self.spaces.get(&parent)
        {
            // Pieces are shared until one of the two maps another; frames are looked up anew, so that a fork copies nothing.
            let pieces = Rc::clone(&space.pieces);
            let known = HashMap::new();
            self.spaces.insert(child, Space { pieces, known });
        }
    }

    fn map(&mut self, pid: i32, mapping: &Mapping) {
        if mapping.is_kernel {
            // perf puts the address of the kernel's first symbol where files have their offset.
            if mapping.path.starts_with("[kernel") {
                self.out.kernel_start.get_or_insert(mapping.offset);
            }
            return;
        }
        let Some(end) = mapping.start.checked_add(mapping.len) else {
            return;
        };
        let (module, in_memory) = self.module(pid, mapping);
        let shift = match in_memory {
            true => 0,
            false => mapping.offset.wrapping_sub(mapping.start),
        };
        let space = self.spaces.entry(pid).or_default();
        space.known.clear();
        if Rc::strong_count(&space.pieces) > 1 {
            self.copied += space.pieces.len();
            if self.copied > COPIED_MAX {
                space.pieces = Rc::default();
            }
        }
        insert(Rc::make_mut(&mut space.pieces), mapping.start, Piece { end, shift, module });
    }

    /// The module of a mapping, and whether its code is numbered by addresses in memory.
    fn module(&mut self, pid: i32, mapping: &Mapping) -> (u32, bool) {
        let path = mapping.path.as_str();
        let is_file = path.starts_with('/')
            && !["//", "/memfd:", "/dev/", "/SYSV"].iter().any(|p| path.starts_with(p));
        let kind = match path {
            "[vdso]" => ModuleKind::Vdso,
            _ if is_file => ModuleKind::Elf,
            _ => ModuleKind::Jit,
        };
        let build_id = match (kind, mapping.build_id.is_empty()) {
            (ModuleKind::Jit, _) => Vec::new(),
            (_, false) => mapping.build_id.clone(),
            _ => self.build_ids.get(path).cloned().unwrap_or_default(),
        };
        let is_jit = kind == ModuleKind::Jit;
        let module = Module {
            kind,
            path: if is_jit { String::new() } else { path.to_owned() },
            build_id,
            pid: if is_jit { pid } else { 0 },
        };
        (self.module_row(module), is_jit)
    }

    fn module_row(&mut self, module: Module) -> u32 {
        let modules = &mut self.out.tables.modules;
        *self.modules.entry(module).or_insert_with_key(|module| {
            modules.push(module.clone());
            modules.len() as u32 - 1
        })
    }

    /// The frame of an address.
    fn frame(&mut self, pid: i32, address: u64, is_kernel: bool) -> u32 {
        let known = match is_kernel {
            true => self.kernel.get(&address),
            false => self.spaces.entry(pid).or_default().known.get(&address),
        };
        if let Some(&row) = known {
            return row;
        }
        let (module, place) = if is_kernel {
            let kernel = Module {
                kind: ModuleKind::Kernel,
                path: "[kernel]".to_owned(),
                ..Module::default()
            };
            (self.module_row(kernel), address)
        } else {
            let pieces = &self.spaces[&pid].pieces;
            match pieces.range(..=address).next_back() {
                Some((_, piece)) if address < piece.end => {
                    (piece.module, address.wrapping_add(piece.shift))
                }
                _ => (NONE, address),
            }
        };
        let frames = &mut self.out.tables.frames;
        let row = *self.frames.entry((module, place)).or_insert_with(|| {
            frames.push(Frame { module, address: place });
            frames.len() as u32 - 1
        });
        let known = match is_kernel {
            true => &mut self.kernel,
            false => &mut self.spaces.entry(pid).or_default().known,
        };
        known.insert(address, row);
        row
    }

    fn sample(&mut self, time: u64, sample: &CodeSample, kind: SampleKind, weight: u64) {
        let mut path = NONE;
        for (n, &(address, is_kernel)) in sample.chain.iter().enumerate().rev() {
            // The innermost instruction of the kernel and of the program are exact; others are behind the call that they are inside of.
            let is_exact = n == 0 || sample.chain[n - 1].1 != is_kernel;
            let address = address.wrapping_sub(u64::from(!is_exact));
            let frame = self.frame(sample.pid, address, is_kernel);
            let paths = &mut self.out.tables.paths;
            path = *self.paths.entry((path, frame)).or_insert_with_key(|&(caller, frame)| {
                paths.push(Path { caller, frame });
                paths.len() as u32 - 1
            });
        }
        self.out.rows.push(Row {
            time,
            pid: sample.pid,
            tid: sample.tid,
            cpu: sample.cpu.and_then(|cpu| u16::try_from(cpu).ok()).unwrap_or(u16::MAX),
            kind,
            path,
            weight,
        });
    }
}

/// Puts a piece over what was there before.
fn insert(pieces: &mut BTreeMap<u64, Piece>, start: u64, piece: Piece) {
    if start >= piece.end {
        return;
    }
    let before = pieces.range_mut(..start).next_back();
    if let Some((_, old)) = before
        && old.end > start
    {
        let tail = *old;
        old.end = start;
        if tail.end > piece.end {
            pieces.insert(piece.end, tail);
        }
    }
    let covered: Vec<u64> = pieces.range(start..piece.end).map(|(&at, _)| at).collect();
    for at in covered {
        if let Some(old) = pieces.remove(&at)
            && old.end > piece.end
        {
            pieces.insert(piece.end, old);
        }
    }
    pieces.insert(start, piece);
}

impl Stacks {
    /// Whether there is a sample.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Process and thread of each sample, once; not the idle threads.
    pub fn threads(&self) -> impl Iterator<Item = (i32, i32)> {
        let mut seen = HashSet::new();
        let all = self.rows.iter().map(|row| (row.pid, row.tid));
        all.filter(move |of| of.1 > 0 && seen.insert(*of))
    }

    /// Adds the samples to the finished trace, whose times count from `start`.
    pub fn add_to(
        self,
        trace: &mut Trace,
        start: Time,
        is_weighed: bool,
        name_code: Option<fn(&mut Code)>,
    ) {
        let mut pids: Vec<i32> = self.threads().map(|(pid, _)| pid).collect();
        pids.sort_unstable();
        pids.dedup();
        let mut code = Code {
            tables: self.tables,
            kernel_start: self.kernel_start,
            kernel_build_id: self.kernel_build_id,
            pids,
        };
        if let Some(name_code) = name_code {
            name_code(&mut code);
        }
        let path_of = paths::expand(&code.tables, trace);
        let lives = Lives::new(trace);
        let mut rows = Vec::with_capacity(self.rows.len());
        for row in self.rows {
            let time = Time(Time::from_ns(row.time).0.saturating_sub(start.0));
            let Some(thread) = lives.of(trace, row.tid, time) else {
                continue;
            };
            if row.kind == SampleKind::Blocked && !begins_to_wait(trace, thread, time) {
                continue;
            }
            rows.push(Sample {
                thread,
                time,
                cpu: row.cpu,
                kind: row.kind,
                // The kernel does not say why a chain of frame pointers ended.
                is_complete: false,
                path: path_of.get(row.path as usize).copied().unwrap_or_default(),
                weight: Duration(i64::try_from(row.weight).unwrap_or(i64::MAX)),
            });
        }
        if is_weighed {
            weigh_unknown(&mut rows);
        }
        if self.period_ns > 0 {
            trace.sampling.push(SamplingChange {
                time: trace.span.start,
                source: "cpu-clock".into(),
                on: true,
                period_ns: self.period_ns,
                reason: format!("perf record, event {}", self.event),
                ..SamplingChange::default()
            });
        }
        paths::add_samples(trace, rows, is_weighed);
    }
}

/// Whether a wait of the thread begins then.
fn begins_to_wait(trace: &Trace, thread: ThreadIx, time: Time) -> bool {
    let rows = trace.threads[thread.ix()].states.clone();
    let starts = &trace.states.start[rows.start as usize..rows.end as usize];
    let found = starts.binary_search(&time).ok();
    found.is_some_and(|at| trace.states.state[rows.start as usize + at].is_blocked())
}

/// Samples that have no weight get the median distance of two samples of a thread.
fn weigh_unknown(rows: &mut [Sample]) {
    if rows.iter().all(|row| row.weight != Duration::ZERO) {
        return;
    }
    rows.sort_by_key(|row| (row.thread, row.time));
    let of_thread = rows.windows(2).filter(|pair| pair[0].thread == pair[1].thread);
    let mut apart: Vec<i64> = of_thread.map(|pair| (pair[1].time - pair[0].time).ns()).collect();
    let weight = match apart.len() {
        0 => 1,
        n => *apart.select_nth_unstable(n / 2).1,
    };
    for row in rows.iter_mut().filter(|row| row.weight == Duration::ZERO) {
        row.weight = Duration(weight.max(1));
    }
}
