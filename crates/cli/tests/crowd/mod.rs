//! Packed recordings with thousands of threads or locks: small files that a reader with a table of locks by threads, of
//! locks by events, or of locks held at once by acquisitions, could not read in any memory.
use kasuri_format::container::{
    EncodeOptions, Writer, encode_annotation_blocks, encode_perf_blocks,
};
use kasuri_format::meta::{Anchor, Host, KernelMeta, Meta, Proc};
use kasuri_format::ring::{Site, SiteTable, parse_chunks};

const PID: u32 = 4711;
const START_NS: u64 = 1_000_000_000;
const REQUEST: u32 = 7;
const ACQUIRED: u32 = 8;
const RELEASED: u32 = 9;

/// One lock event: ns after the start, kind, the lock's address.
pub type LockEvent = (u64, u32, u64);

/// What happens in the recording.
#[derive(Default)]
pub struct Crowd {
    /// Lock events of each thread; the first is the process.
    pub threads: Vec<Vec<LockEvent>>,
    /// Whether the recording says when threads ran: each of them from its first event to its last, on one of two CPUs.
    pub has_states: bool,
}

impl Crowd {
    /// `n` threads that all ask for one lock, get it one after the other, and give it back.
    pub fn threads_at_one_lock(n: usize) -> Crowd {
        let turn = |i: u64| {
            let at = 1_000 * (n as u64 + i);
            vec![(100 * i, REQUEST, 0x1000), (at, ACQUIRED, 0x1000), (at + 900, RELEASED, 0x1000)]
        };
        Crowd { threads: (0..n as u64).map(turn).collect(), ..Crowd::default() }
    }

    /// One thread takes `n` locks and gives none back.
    pub fn locks_held_at_once(n: usize) -> Crowd {
        let take = |i: u64| {
            let lock = 0x1000 + 16 * i;
            [(1_000 * i, REQUEST, lock), (1_000 * i + 500, ACQUIRED, lock)]
        };
        Crowd { threads: vec![(0..n as u64).flat_map(take).collect()], ..Crowd::default() }
    }

    /// One thread takes `n` locks one after the other, and another one does so in the other order.
    pub fn locks_one_after_the_other(n: usize) -> Crowd {
        let take = |at: u64, i: u64| {
            let lock = 0x1000 + 16 * i;
            [(at, ACQUIRED, lock), (at + 900, RELEASED, lock)]
        };
        let n = n as u64;
        Crowd {
            threads: vec![
                (0..n).flat_map(|i| take(1_000 * i, i)).collect(),
                (0..n).flat_map(|i| take(1_000 * (n + i), n - 1 - i)).collect(),
            ],
            ..Crowd::default()
        }
    }

    /// Two threads hold all of `n` locks at once, each in its order, as often as `times`.
    pub fn locks_held_in_both_orders(n: usize, times: usize) -> Crowd {
        let (n, times) = (n as u64, times as u64);
        let round = |round: u64, turned: bool| {
            let from = 4_000 * n * round + if turned { 2_000 * n } else { 0 };
            let lock = move |i: u64| 0x1000 + 16 * if turned { n - 1 - i } else { i };
            let take = (0..n).map(move |i| (from + 500 * i, ACQUIRED, lock(i)));
            let give = (0..n).map(move |i| (from + 500 * (n + i), RELEASED, lock(n - 1 - i)));
            take.chain(give)
        };
        Crowd {
            threads: [false, true]
                .map(|turned| (0..times).flat_map(|r| round(r, turned)).collect())
                .into(),
            ..Crowd::default()
        }
    }

    /// The same, with the scheduler's events of an unprivileged recording.
    pub fn with_states(self) -> Crowd {
        Crowd { has_states: true, ..self }
    }

    /// The file's bytes.
    pub fn recording(&self) -> Vec<u8> {
        let last = self.threads.iter().flatten().map(|e| e.0).max();
        let end_ns = START_NS + last.unwrap_or(0) + 10_000;
        let anchors = [anchor(START_NS - 10_000), anchor(end_ns)];
        let mut writer = Writer::new(Vec::new(), &self.meta(end_ns)).unwrap();
        writer.anchors(&anchors).unwrap();
        let tids = 0..self.threads.len() as u32;
        let procs: Vec<Proc> = tids.map(|i| proc(PID + i)).collect();
        writer.procs(&procs).unwrap();
        writer.sites(&sites()).unwrap();
        let options = EncodeOptions::default();
        for (i, events) in self.threads.iter().enumerate() {
            let bytes = chunks_of(i as u32, events);
            let (chunks, error) = parse_chunks(&bytes);
            assert!(error.is_none(), "{error:?}");
            let blocks = encode_annotation_blocks(PID, 0, &chunks, &options);
            writer.blocks(&blocks).unwrap();
        }
        if self.has_states {
            for cpu in 0..2 {
                let ring = self.perf_ring(cpu);
                let blocks = encode_perf_blocks(cpu, &ring, false, &options);
                assert!(blocks.errors.is_empty(), "{:?}", blocks.errors);
                writer.blocks(&blocks).unwrap();
            }
        }
        writer.finish().unwrap().0
    }

    fn meta(&self, end_ns: u64) -> Meta {
        let source = if self.has_states { "perf" } else { "none" };
        let mut meta = Meta {
            version: 1,
            recorder: "kasuri 0.1.0".into(),
            complete: true,
            mode: "program".into(),
            command: vec!["./crowd".into()],
            root_pids: vec![PID as i32],
            exit_status: Some(0),
            start: anchor(START_NS - 10_000),
            end: Some(anchor(end_ns)),
            lock_probe: "full".into(),
            host: Host {
                hostname: "loom".into(),
                n_cpus: 2,
                online: vec![0, 1],
                ..Host::default()
            },
            kernel: KernelMeta {
                source: source.into(),
                clock: "mono".into(),
                ..KernelMeta::default()
            },
            ..Meta::default()
        };
        meta.annotations.clock = "monotonic".into();
        meta
    }

    /// Threads with even numbers on CPU 0, odd ones on CPU 1: each runs at its events, a wait apart, in the order of time.
    fn perf_ring(&self, cpu: u32) -> Vec<u8> {
        let mut runs: Vec<(u64, u64, u32)> = Vec::new();
        for (i, events) in self.threads.iter().enumerate() {
            if i as u32 % 2 == cpu {
                let on = events.iter().filter(|e| e.1 != REQUEST).map(|e| e.0);
                let (from, to) = (on.clone().min(), on.max());
                if let (Some(from), Some(to)) = (from, to) {
                    runs.push((from.saturating_sub(40), to + 40, PID + i as u32));
                }
            }
        }
        runs.sort_unstable();
        let mut out = Vec::new();
        for (from, to, tid) in runs {
            put_switch(&mut out, cpu, tid, START_NS + from, false);
            put_switch(&mut out, cpu, tid, START_NS + to, true);
        }
        out
    }
}

fn anchor(ns: u64) -> Anchor {
    Anchor { native: ns, monotonic_ns: ns, realtime_ns: 1_800_000_000_000_000_000 + ns }
}

fn proc(tid: u32) -> Proc {
    Proc {
        monotonic_ns: START_NS - 10_000,
        pid: PID as i32,
        tid: tid as i32,
        ppid: 1,
        comm: "crowd".into(),
        ..Proc::default()
    }
}

fn sites() -> SiteTable {
    let site = Site {
        id: 1,
        name: "lock".into(),
        file: "crowd.c".into(),
        function: "work".into(),
        line: 7,
    };
    SiteTable { pid: PID, sites: vec![site], ..SiteTable::default() }
}

/// A thread's events as chunks of the ring format: a 128-byte header, then 16-byte slots, two for each event.
fn chunks_of(thread: u32, events: &[LockEvent]) -> Vec<u8> {
    let mut out = Vec::new();
    for (seq, part) in events.chunks(1_000).enumerate() {
        let mut header = vec![0u8; 128];
        let used = 128 + 32 * part.len() as u32;
        header[..8].copy_from_slice(&(seq as u64).to_le_bytes());
        header[8..12].copy_from_slice(&(thread + 1).to_le_bytes());
        header[12..16].copy_from_slice(&(PID + thread).to_le_bytes());
        header[16..20].copy_from_slice(&used.to_le_bytes());
        out.extend_from_slice(&header);
        for &(ns, kind, lock) in part {
            let word = u64::from(kind) | 2 << 8 | 1 << 32;
            for word in [START_NS + ns, word, lock, 0] {
                out.extend_from_slice(&word.to_le_bytes());
            }
        }
    }
    out
}

/// A PERF_RECORD_SWITCH: header, then the sample_id.
fn put_switch(out: &mut Vec<u8>, cpu: u32, tid: u32, ns: u64, is_out: bool) {
    let misc = if is_out { 1u16 << 13 } else { 0 };
    out.extend_from_slice(&14u32.to_le_bytes());
    out.extend_from_slice(&misc.to_le_bytes());
    out.extend_from_slice(&32u16.to_le_bytes());
    for word in [PID, tid] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.extend_from_slice(&ns.to_le_bytes());
    for word in [cpu, 0] {
        out.extend_from_slice(&word.to_le_bytes());
    }
}
