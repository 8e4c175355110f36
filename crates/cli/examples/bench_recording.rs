//! Makes up a recording for bench/load: two CPUs, eight threads of one process, a wake-up and a switch and a slice
//! in turn. The same bytes for the same numbers. With SAMPLES also so many samples of what the threads ran, where they began to wait
//! and who woke them, at times evenly apart; of a tree of 20,000 paths, up to 30 deep, in 5,000 functions.
//! usage: bench_recording OUT [EVENTS [SAMPLES]]
use anyhow::{Context, Result};
use kasuri_format::call_paths::{
    Call, Frame, Module, ModuleKind, NONE, Names, Path, Sample, SampleKind, Tables,
};
use kasuri_format::container::{
    EncodeOptions, Writer, encode_annotation_blocks, encode_kernel_blocks, encode_sample_blocks,
};
use kasuri_format::meta::{Anchor, Host, Meta, Proc, SamplingRow};
use kasuri_format::ring::{Site, SiteTable, parse_chunks};
use kasuri_format::tracefs::{EventTable, PageLayout};

const SWITCH: &str = include_str!("../../format/tests/data/formats/sched_switch");
const WAKING: &str = include_str!("../../format/tests/data/formats/sched_waking");
const PID: i32 = 1000;
const THREADS: i32 = 8;
const CPUS: usize = 2;
const START_NS: u64 = 1 << 40;
const FUNCTIONS: u32 = 5_000;
const PATHS: u32 = 20_000;
const DEPTH: u32 = 30;
/// Kinds of samples, as often as they stand here.
const KINDS: [SampleKind; 8] = {
    use SampleKind::{Blocked, OnCpu, Waker};
    [OnCpu, OnCpu, Blocked, OnCpu, OnCpu, Blocked, OnCpu, Waker]
};
const NAMES: [&str; 4] = ["solve", "exchange", "smooth", "restrict"];

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let path = args.next().context("usage: bench_recording OUT [EVENTS [SAMPLES]]")?;
    let events: u64 = args.next().map_or(Ok(10_000_000), |n| n.parse())?;
    let samples: u64 = args.next().map_or(Ok(0), |n| n.parse())?;
    let mut meta = meta();
    let table = EventTable::from_meta(&meta.kernel)?;
    let id = |name| {
        table.find(name).map(|ix| table.types()[usize::from(ix)].id).context("no such event")
    };
    let mut machine = Machine::new(id("sched/sched_switch")?, id("sched/sched_waking")?);
    // Each turn makes a waking, a switch, a beginning and an end.
    let turns = events / 4;
    for turn in 0..turns {
        let n = (turn + 1) * samples / turns - turn * samples / turns;
        machine.turn(n);
    }
    meta.end = Some(anchor(machine.now));
    write(&path, &meta, &table, machine)
}

fn anchor(ns: u64) -> Anchor {
    Anchor { native: ns, monotonic_ns: ns, realtime_ns: 1_800_000_000_000_000_000 + ns }
}

fn meta() -> Meta {
    let mut meta = Meta {
        version: 1,
        recorder: "kasuri bench".into(),
        complete: true,
        mode: "program".into(),
        command: vec!["made-up".into()],
        root_pids: vec![PID],
        exit_status: Some(0),
        start: anchor(START_NS),
        host: Host { n_cpus: CPUS as u32, online: vec![0, 1], ..Host::default() },
        ..Meta::default()
    };
    meta.kernel.source = "tracefs".into();
    meta.kernel.clock = "mono".into();
    meta.kernel.page_bytes = 4096;
    meta.kernel.formats = [("sched/sched_switch", SWITCH), ("sched/sched_waking", WAKING)]
        .map(|(n, t)| (n.into(), t.into()))
        .into();
    meta.annotations.clock = "monotonic".into();
    meta
}

fn write(path: &str, meta: &Meta, table: &EventTable, machine: Machine) -> Result<()> {
    let options = EncodeOptions::default();
    let file =
        std::io::BufWriter::new(std::fs::File::create(path).with_context(|| path.to_string())?);
    let mut writer = Writer::new(file, meta)?;
    writer.anchors(&[anchor(START_NS), anchor(machine.now)])?;
    let proc = |tid| Proc {
        monotonic_ns: START_NS,
        pid: PID,
        tid,
        ppid: 1,
        comm: comm(tid),
        ..Proc::default()
    };
    writer.procs(&(0..THREADS).map(|t| proc(PID + t)).collect::<Vec<_>>())?;
    let site = |(i, name): (usize, &&str)| Site {
        id: i as u32 + 1,
        name: name.to_string(),
        ..Site::default()
    };
    let sites = NAMES.iter().enumerate().map(site).collect();
    writer.sites(&SiteTable { pid: PID as u32, sites, ..SiteTable::default() })?;
    if !machine.samples.is_empty() {
        write_samples(&mut writer, &machine.samples)?;
    }
    let layout = PageLayout::from_meta(&meta.kernel)?;
    let mut events = 0;
    for (cpu, pages) in machine.cpus.into_iter().enumerate() {
        let blocks = encode_kernel_blocks(table, &layout, cpu as u32, &pages.finish(), &options);
        events += blocks.n_events;
        writer.blocks(&blocks)?;
    }
    for ring in machine.threads {
        let bytes = ring.finish();
        let (chunks, error) = parse_chunks(&bytes);
        anyhow::ensure!(error.is_none(), "{error:?}");
        let blocks = encode_annotation_blocks(PID as u32, 0, &chunks, &options);
        events += blocks.n_events;
        writer.blocks(&blocks)?;
    }
    let (_, bytes) = writer.finish()?;
    println!("{events} events, {bytes} bytes");
    Ok(())
}

fn write_samples(writer: &mut Writer<impl std::io::Write>, samples: &[Sample]) -> Result<()> {
    let function = |row: u32| format!("function_{row}");
    let tables = Tables {
        modules: vec![Module {
            kind: ModuleKind::Elf,
            path: "/made/up".to_owned(),
            ..Module::default()
        }],
        frames: (0..FUNCTIONS)
            .map(|row| Frame { module: 0, address: 0x1000 + 64 * u64::from(row) })
            .collect(),
        paths: (0..PATHS)
            .map(|row| Path {
                caller: if row % DEPTH == 0 { NONE } else { row - 1 },
                frame: row * 7_919 % FUNCTIONS,
            })
            .collect(),
        names: (0..FUNCTIONS)
            .map(|frame| Names {
                frame,
                calls: vec![Call {
                    function: function(frame),
                    file: format!("file_{}.c", frame / 20),
                    line: frame % 20 * 50 + 7,
                }],
            })
            .collect(),
    };
    let row = |source: &str| SamplingRow {
        monotonic_ns: START_NS,
        source: source.to_owned(),
        on: true,
        ..SamplingRow::default()
    };
    writer.sampling(&["tick", "switch", "wake"].map(row))?;
    writer.call_paths(&tables)?;
    writer.names(&tables.names)?;
    let blocks = encode_sample_blocks(samples, &EncodeOptions::default());
    Ok(writer.blocks(&blocks)?)
}

fn comm(tid: i32) -> String {
    if tid == 0 { "swapper".into() } else { format!("worker-{}", tid - PID) }
}

/// The machine that makes the events.
struct Machine {
    switch: u16,
    waking: u16,
    random: u64,
    now: u64,
    turn: usize,
    cpus: [Pages; CPUS],
    /// TID of the thread on each CPU; 0: idle.
    running: [i32; CPUS],
    asleep: Vec<i32>,
    threads: Vec<Ring>,
    samples: Vec<Sample>,
}

impl Machine {
    fn new(switch: u16, waking: u16) -> Machine {
        Machine {
            switch,
            waking,
            random: 0x2545_f491_4f6c_dd1d,
            now: START_NS,
            turn: 0,
            cpus: Default::default(),
            running: [0; CPUS],
            asleep: (PID..PID + THREADS).collect(),
            threads: (0..THREADS).map(|t| Ring::new(PID + t)).collect(),
            samples: Vec::new(),
        }
    }

    fn below(&mut self, n: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % n
    }

    /// A sample of a thread; the kinds in turn.
    fn sample(&mut self, cpu: usize, prev: i32, next: i32, (woke, switched): (u64, u64)) {
        let kind = KINDS[self.samples.len() % KINDS.len()];
        let (tid, time_ns) = match kind {
            SampleKind::Blocked => (prev, switched),
            SampleKind::Waker => (prev, woke),
            _ => (next, self.now),
        };
        if tid != 0 {
            let path = self.below(u64::from(PATHS)) as u32;
            self.samples.push(Sample {
                time_ns,
                pid: PID,
                tid,
                cpu: cpu as u32,
                kind,
                path,
                ..Sample::default()
            });
        }
    }

    /// The thread that runs wakes a sleeping one and leaves the CPU to it; that one works for a while. `n_samples` are taken.
    fn turn(&mut self, n_samples: u64) {
        let cpu = self.turn % CPUS;
        self.turn += 1;
        let chosen = self.below(self.asleep.len() as u64) as usize;
        let next = self.asleep.swap_remove(chosen);
        let prev = std::mem::replace(&mut self.running[cpu], next);
        self.now += 200 + self.below(300);
        let waking = Machine::named(self.waking, prev, next, &[120, cpu as i32]);
        self.cpus[cpu].event(self.now, &waking);
        let woke = self.now;
        self.now += 500 + self.below(1500);
        let mut switch = Machine::named(self.switch, prev, prev, &[120]);
        switch.extend_from_slice(&1i64.to_le_bytes());
        switch.extend_from_slice(&Machine::named(self.switch, prev, next, &[120])[8..]);
        self.cpus[cpu].event(self.now, &switch);
        let switched = self.now;
        let site = 1 + self.below(NAMES.len() as u64);
        let ring = &mut self.threads[(next - PID) as usize];
        ring.event(self.now + 50, 1, site);
        self.now += 400 + self.below(2000);
        self.threads[(next - PID) as usize].event(self.now, 2, site);
        for _ in 0..n_samples {
            self.sample(cpu, prev, next, (woke, switched));
        }
        if prev != 0 {
            self.asleep.push(prev);
        }
    }

    /// Common fields, then a name and a pid, then `rest`.
    fn named(id: u16, context: i32, pid: i32, rest: &[i32]) -> Vec<u8> {
        let mut data = id.to_le_bytes().to_vec();
        data.extend_from_slice(&[0, 1]);
        data.extend_from_slice(&context.to_le_bytes());
        let mut name = [0u8; 16];
        name[..comm(pid).len()].copy_from_slice(comm(pid).as_bytes());
        data.extend_from_slice(&name);
        data.extend_from_slice(&pid.to_le_bytes());
        rest.iter().for_each(|n| data.extend_from_slice(&n.to_le_bytes()));
        data
    }
}

/// Ring-buffer pages of one CPU: stamp, length, then events that count from the one before.
#[derive(Default)]
struct Pages {
    done: Vec<u8>,
    page: Vec<u8>,
    stamp: u64,
}

impl Pages {
    fn event(&mut self, stamp: u64, data: &[u8]) {
        if self.page.len() + data.len() + 4 > 4096 {
            self.end_page();
        }
        if self.page.is_empty() {
            self.page.extend_from_slice(&stamp.to_le_bytes());
            self.page.extend_from_slice(&[0; 8]);
            self.stamp = stamp;
        }
        let header = (data.len() as u32 / 4) | ((stamp - self.stamp) as u32) << 5;
        self.page.extend_from_slice(&header.to_le_bytes());
        self.page.extend_from_slice(data);
        self.stamp = stamp;
    }

    fn end_page(&mut self) {
        let length = (self.page.len() - 16) as u64;
        self.page[8..16].copy_from_slice(&length.to_le_bytes());
        self.page.resize(4096, 0);
        self.done.append(&mut self.page);
    }

    fn finish(mut self) -> Vec<u8> {
        if !self.page.is_empty() {
            self.end_page();
        }
        self.done
    }
}

/// One thread's chunks.
struct Ring {
    tid: i32,
    seq: u64,
    start: usize,
    bytes: Vec<u8>,
}

impl Ring {
    fn new(tid: i32) -> Ring {
        let mut ring = Ring { tid, seq: 0, start: 0, bytes: Vec::new() };
        ring.begin_chunk();
        ring
    }

    fn begin_chunk(&mut self) {
        self.start = self.bytes.len();
        self.bytes.resize(self.start + 128, 0);
        let header = &mut self.bytes[self.start..];
        header[0..8].copy_from_slice(&self.seq.to_le_bytes());
        header[8..12].copy_from_slice(&((self.tid - PID) as u32 + 1).to_le_bytes());
        header[12..16].copy_from_slice(&self.tid.to_le_bytes());
    }

    fn end_chunk(&mut self) {
        let used = (self.bytes.len() - self.start) as u32;
        self.bytes[self.start + 16..self.start + 20].copy_from_slice(&used.to_le_bytes());
    }

    fn event(&mut self, stamp: u64, kind: u64, site: u64) {
        if self.bytes.len() - self.start + 16 > 32768 {
            self.end_chunk();
            self.seq += 1;
            self.begin_chunk();
        }
        self.bytes.extend_from_slice(&stamp.to_le_bytes());
        self.bytes.extend_from_slice(&(kind | 1 << 8 | site << 32).to_le_bytes());
    }

    fn finish(mut self) -> Vec<u8> {
        self.end_chunk();
        self.bytes
    }
}
