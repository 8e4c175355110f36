//! Packs and loads a recording made up in memory, on one core: events per second of CPU time, bytes/event.
//! `cargo run --release -p kasuri-format --example bench_blocks [MILLIONS]`
use kasuri_format::clock::ClockMap;
use kasuri_format::container::{
    EncodeOptions, EncodedBlocks, Recording, Writer, encode_annotation_blocks, encode_kernel_blocks,
};
use kasuri_format::meta::{Anchor, Meta};
use kasuri_format::ring::{ChunkHeader, parse_chunks};
use kasuri_format::tracefs::{EventTable, PageLayout};
use std::hint::black_box;
use std::time::Duration;
use zerocopy::{FromZeros, IntoBytes};

const SWITCH: &str = include_str!("../tests/data/formats/sched_switch");
const WAKING: &str = include_str!("../tests/data/formats/sched_waking");

/// CPU time of this thread: other programs on the machine do not count.
struct CpuTime(Duration);

impl CpuTime {
    fn now() -> CpuTime {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        CpuTime(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
    }

    fn elapsed(&self) -> Duration {
        CpuTime::now().0 - self.0
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// One thread: nested slices of three names, a lock now and then, stamps a microsecond or so apart.
fn annotations(n: usize) -> Vec<u8> {
    let mut random = Random(42);
    let mut out = Vec::new();
    let (mut stamp, mut made, mut seq) = (1u64 << 50, 0, 0);
    while made < n {
        let start = out.len();
        let mut header = ChunkHeader::new_zeroed();
        (header.seq, header.stream, header.tid) = (seq, 1, 1000);
        out.extend_from_slice(header.as_bytes());
        while made < n && out.len() - start + 32 <= 32768 {
            stamp += 800 + random.below(4000);
            let (kind, site) = match made % 10 {
                0 => (1, 1),
                1 | 3 | 5 => (1, 2 + random.below(3)),
                2 | 4 | 6 => (2, 0),
                7 => (8, 5),
                8 => (9, 5),
                _ => (2, 0),
            };
            let slots = if kind >= 8 { 2u64 } else { 1 };
            out.extend_from_slice(&stamp.to_le_bytes());
            out.extend_from_slice(&(kind | slots << 8 | site << 32).to_le_bytes());
            if slots == 2 {
                out.extend_from_slice(&(0x7fff_0000 + 64 * random.below(8)).to_le_bytes());
                out.extend_from_slice(&[0; 8]);
            }
            made += 1;
        }
        let used = (out.len() - start) as u32;
        out[start + 16..start + 20].copy_from_slice(&used.to_le_bytes());
        seq += 1;
    }
    out
}

/// One CPU: wake-ups and switches among 24 threads and idle.
fn pages(n: usize, switch: u16, waking: u16) -> Vec<u8> {
    let mut random = Random(7);
    let comm = |pid: u64| {
        let mut name = [0u8; 16];
        let text = if pid == 0 {
            "swapper/0".into()
        } else {
            format!("worker-{}", pid % 6)
        };
        name[..text.len()].copy_from_slice(text.as_bytes());
        name
    };
    let mut out: Vec<u8> = Vec::new();
    let (mut stamp, mut running, mut made) = (1u64 << 50, 0u64, 0);
    while made < n {
        let mut page = Vec::from(stamp.to_le_bytes());
        page.extend_from_slice(&[0; 8]);
        let mut first = true;
        while made < n && page.len() + 72 <= 4096 {
            let delta = if first {
                0
            } else {
                1000 + random.below(20_000)
            };
            first = false;
            stamp += delta;
            let next = if running != 0 && random.below(3) == 0 {
                0
            } else {
                1000 + random.below(24)
            };
            let mut data = Vec::new();
            let id = if made % 2 == 0 { waking } else { switch };
            data.extend_from_slice(&id.to_le_bytes());
            data.extend_from_slice(&[if made % 2 == 0 { 1 } else { 0 }, 0]);
            data.extend_from_slice(&(running as u32).to_le_bytes());
            if made % 2 == 0 {
                data.extend_from_slice(&comm(next));
                data.extend_from_slice(&(next as u32).to_le_bytes());
                data.extend_from_slice(&120u32.to_le_bytes());
                data.extend_from_slice(&(random.below(2) as u32).to_le_bytes());
            } else {
                data.extend_from_slice(&comm(running));
                data.extend_from_slice(&(running as u32).to_le_bytes());
                data.extend_from_slice(&120u32.to_le_bytes());
                data.extend_from_slice(&random.below(2).to_le_bytes());
                data.extend_from_slice(&comm(next));
                data.extend_from_slice(&(next as u32).to_le_bytes());
                data.extend_from_slice(&120u32.to_le_bytes());
                running = next;
            }
            page.extend_from_slice(&((data.len() / 4) as u32 | (delta as u32) << 5).to_le_bytes());
            page.extend_from_slice(&data);
            made += 1;
        }
        let commit = page.len() as u64 - 16;
        page[8..16].copy_from_slice(&commit.to_le_bytes());
        page.resize(4096, 0);
        out.extend_from_slice(&page);
    }
    out
}

fn report(what: &str, n: u64, raw: usize, encode: Duration, decode: Duration, packed: u64) {
    println!(
        "{what:<22} {n:>9} events  raw {:>6.2} B/event  packed {:>5.2} B/event  encode {:>6.1} M/s  decode {:>6.1} M/s",
        raw as f64 / n as f64,
        packed as f64 / n as f64,
        n as f64 / encode.as_secs_f64() / 1e6,
        n as f64 / decode.as_secs_f64() / 1e6,
    );
}

fn pack(meta: &Meta, blocks: &EncodedBlocks) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), meta).expect("writing to memory");
    writer.blocks(blocks).expect("writing to memory");
    writer.finish().expect("writing to memory").0
}

/// Converts stamps of two minutes with an anchor a second.
fn clock() {
    let anchor = |s: u64| Anchor {
        native: 2_600_000_155 * s,
        monotonic_ns: 1_000_000_000 * s + s % 3,
        realtime_ns: 0,
    };
    let map =
        ClockMap::from_anchors(&(0..120).map(anchor).collect::<Vec<_>>()).expect("120 anchors");
    let stamps: Vec<u64> = (0..4_000_000).map(|i| 78_000 * i).collect();
    let mut out = Vec::new();
    // Into memory that is already there, as a reader of many blocks does.
    map.convert(&stamps, &mut out);
    out.clear();
    let start = CpuTime::now();
    map.convert(&stamps, &mut out);
    let ns = start.elapsed().as_nanos() as f64 / stamps.len() as f64;
    println!(
        "{:<22} {:>9} stamps  {ns:.2} ns/stamp",
        "clock",
        black_box(out).len()
    );
}

fn main() {
    let millions = std::env::args()
        .nth(1)
        .and_then(|a| a.parse().ok())
        .unwrap_or(10.0f64);
    let n = (millions * 1e6) as usize;
    let mut meta = Meta {
        version: 1,
        ..Meta::default()
    };
    meta.kernel
        .formats
        .insert("sched/sched_switch".into(), SWITCH.into());
    meta.kernel
        .formats
        .insert("sched/sched_waking".into(), WAKING.into());
    bench_annotations(&meta, n);
    clock();
    bench_kernel(&meta, n);
}

fn bench_annotations(meta: &Meta, n: usize) {
    let options = EncodeOptions::default();
    let raw = annotations(n);
    let start = CpuTime::now();
    let (chunks, _) = parse_chunks(&raw);
    let blocks = encode_annotation_blocks(1000, 0, &chunks, &options);
    let encode = start.elapsed();
    let file = pack(meta, &blocks);
    let start = CpuTime::now();
    let recording = Recording::parse(&file).expect("what was just packed");
    let mut sum = 0u64;
    for ix in 0..recording.blocks().len() {
        let block = recording
            .annotation_block(ix)
            .expect("what was just packed");
        for event in block.events() {
            sum = sum.wrapping_add(
                event.stamp ^ u64::from(event.kind) ^ u64::from(event.site) ^ event.a,
            );
        }
    }
    black_box(sum);
    report(
        "annotations",
        blocks.n_events,
        raw.len(),
        encode,
        start.elapsed(),
        file.len() as u64,
    );
}

/// The scheduler's events, read with the fields that the model needs, and with all.
fn bench_kernel(meta: &Meta, n: usize) {
    let options = EncodeOptions::default();
    let table = EventTable::from_meta(&meta.kernel).expect("good formats");
    let types =
        ["sched/sched_switch", "sched/sched_waking"].map(|t| table.find(t).expect("present"));
    let [switch, waking] = types.map(|t| table.types()[usize::from(t)].id);
    let raw = pages(n, switch, waking);
    let start = CpuTime::now();
    let blocks = encode_kernel_blocks(&table, &PageLayout::LE64, 0, &raw, &options);
    let encode = start.elapsed();
    let file = pack(meta, &blocks);
    for all in [false, true] {
        let start = CpuTime::now();
        let recording = Recording::parse(&file).expect("what was just packed");
        let mut sum = 0i64;
        for ix in 0..recording.blocks().len() {
            let block = recording.kernel_block(ix).expect("what was just packed");
            sum = block
                .stamps
                .iter()
                .zip(&block.types)
                .fold(sum, |s, (t, k)| s.wrapping_add(*t as i64 ^ i64::from(*k)));
            for group in block.groups() {
                let wanted = [
                    "prev_pid",
                    "prev_state",
                    "next_pid",
                    "next_comm",
                    "common_pid",
                    "pid",
                    "target_cpu",
                ];
                for (ix, field) in group.format.fields.iter().enumerate() {
                    if all || wanted.contains(&field.name.as_str()) {
                        let column = group.column(ix).expect("what was just packed");
                        sum = sum.wrapping_add(column.i64s().map_or(0, |c| c.iter().sum()));
                    }
                }
            }
        }
        black_box(sum);
        let what = if all {
            "sched, all fields"
        } else {
            "sched, model's fields"
        };
        report(
            what,
            blocks.n_events,
            raw.len(),
            encode,
            start.elapsed(),
            file.len() as u64,
        );
    }
}
