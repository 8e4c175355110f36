//! Makes a recording up, loads it in a process of its own, on one core: events per second of CPU time, peak memory.
//! `cargo run --release -p kasuri-import --example bench_load [MILLIONS]`
use kasuri_format::container::{EncodeOptions, EncodedBlocks, Writer};
use kasuri_format::container::{encode_annotation_blocks, encode_kernel_blocks};
use kasuri_format::meta::{Anchor, Host, Meta};
use kasuri_format::ring::parse_chunks;
use kasuri_format::tracefs::{EventTable, PageLayout};
use kasuri_import::{File, Options};
use std::error::Error;

const COMMON: &str = "format:\n\
    \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
    \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n";
const SWITCH: &str = "\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
    \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\tfield:int prev_prio;\toffset:28;\tsize:4;\tsigned:1;\n\
    \tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n\tfield:char next_comm[16];\toffset:40;\tsize:16;\tsigned:0;\n\
    \tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;\n\tfield:int next_prio;\toffset:60;\tsize:4;\tsigned:1;\n";
const WAKING: &str = "\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
    \tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n\tfield:int prio;\toffset:28;\tsize:4;\tsigned:1;\n\
    \tfield:int target_cpu;\toffset:32;\tsize:4;\tsigned:1;\n";

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// One thread's chunks: nested slices of three names, a critical section now and then.
fn chunks(tid: u32, n: usize) -> Vec<u8> {
    let mut random = Random(42 + u64::from(tid));
    let mut out = Vec::new();
    let (mut stamp, mut made, mut seq) = (1u64 << 40, 0, 0u64);
    while made < n {
        let start = out.len();
        out.extend_from_slice(&seq.to_le_bytes());
        out.extend_from_slice(&1u32.to_le_bytes());
        out.extend_from_slice(&tid.to_le_bytes());
        out.resize(start + 128, 0);
        while made < n && out.len() - start + 32 <= 32768 {
            stamp += 300 + random.below(1500);
            let (kind, site) = match made % 10 {
                0 => (1, 1),
                1 | 3 | 5 => (1, 2 + random.below(3)),
                7 => (8, 5),
                8 => (9, 5),
                _ => (2, 0),
            };
            let slots = if kind >= 8 { 2u64 } else { 1 };
            out.extend_from_slice(&stamp.to_le_bytes());
            out.extend_from_slice(&(kind | slots << 8 | site << 32).to_le_bytes());
            if slots == 2 {
                out.extend_from_slice(&(0x7fff_0000 + 64 * (made / 10 % 8) as u64).to_le_bytes());
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

/// One CPU's pages: its 12 threads (tids `first`..) wake each other and sleep.
fn pages(n: usize, cpu: u64, seed: u64, first: u64) -> Vec<u8> {
    let mut random = Random(seed);
    let comm = |tid: u64| {
        let mut name = [0u8; 16];
        let text = if tid == 0 {
            "swapper".into()
        } else {
            format!("worker-{}", tid % 6)
        };
        name[..text.len()].copy_from_slice(text.as_bytes());
        name
    };
    let mut out: Vec<u8> = Vec::new();
    let (mut stamp, mut running, mut next, mut made) = (1u64 << 40, first, first + 1, 0);
    while made < n {
        let mut page = Vec::from(stamp.to_le_bytes());
        page.extend_from_slice(&[0; 8]);
        let mut is_first = true;
        while made < n && page.len() + 72 <= 4096 {
            let delta = if is_first {
                0
            } else {
                400 + random.below(8000)
            };
            is_first = false;
            stamp += delta;
            let mut data = Vec::new();
            data.extend_from_slice(&(2 - (made % 2) as u16).to_le_bytes());
            data.extend_from_slice(&[0, 0]);
            data.extend_from_slice(&(running as u32).to_le_bytes());
            let number = |data: &mut Vec<u8>, value: u64| {
                data.extend_from_slice(&(value as u32).to_le_bytes())
            };
            if made % 2 == 0 {
                next = first + (running + 1 + random.below(10) - first) % 12;
                data.extend_from_slice(&comm(next));
                number(&mut data, next);
                number(&mut data, 120);
                number(&mut data, cpu);
            } else {
                data.extend_from_slice(&comm(running));
                number(&mut data, running);
                number(&mut data, 120);
                data.extend_from_slice(&1u64.to_le_bytes());
                data.extend_from_slice(&comm(next));
                number(&mut data, next);
                number(&mut data, 120);
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

fn meta() -> Meta {
    let mut meta = Meta {
        version: 1,
        complete: true,
        mode: "system".into(),
        ..Meta::default()
    };
    meta.host = Host {
        n_cpus: 2,
        online: vec![0, 1],
        ..Host::default()
    };
    meta.start = Anchor {
        native: 1 << 40,
        monotonic_ns: 1 << 40,
        realtime_ns: 0,
    };
    meta.kernel.source = "tracefs".into();
    meta.kernel.clock = "x86-tsc".into();
    meta.annotations.clock = "native".into();
    let format = |name: &str, id: u32, fields: &str| {
        format!("name: {name}\nID: {id}\n{COMMON}{fields}\nprint fmt: \"\"\n")
    };
    meta.kernel.formats.insert(
        "sched/sched_switch".into(),
        format("sched_switch", 1, SWITCH),
    );
    meta.kernel.formats.insert(
        "sched/sched_waking".into(),
        format("sched_waking", 2, WAKING),
    );
    meta
}

fn pack(path: &std::path::Path, blocks: &[EncodedBlocks]) -> Result<(), Box<dyn Error>> {
    let mut writer = Writer::new(
        std::io::BufWriter::new(std::fs::File::create(path)?),
        &meta(),
    )?;
    let anchor = |s: u64| Anchor {
        native: (1 << 40) + 2_600_000_155 * s,
        monotonic_ns: (1 << 40) + 1_000_000_000 * s,
        realtime_ns: 0,
    };
    writer.anchors(&(0..60).map(anchor).collect::<Vec<_>>())?;
    for blocks in blocks {
        writer.blocks(blocks)?;
    }
    writer.finish()?;
    Ok(())
}

/// CPU time of this thread so far: other programs on the machine do not count.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ')
        .next()
        .and_then(|ns| ns.parse().ok())
        .map_or(0.0, |ns: f64| ns * 1e-9)
}

fn peak_mb() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text
        .lines()
        .find(|l| l.starts_with("VmHWM"))
        .unwrap_or_default();
    line.split_whitespace()
        .nth(1)
        .and_then(|kb| kb.parse::<u64>().ok())
        .unwrap_or(0)
        / 1024
}

/// The measured part, in a process of its own.
fn load(what: &str, path: &str) -> Result<(), Box<dyn Error>> {
    let bytes = std::fs::read(path)?;
    let before = peak_mb();
    let start = cpu_seconds();
    let file = File {
        name: path,
        bytes: &bytes,
    };
    let trace = kasuri_import::load(&[file], &Options::default())?;
    let s = cpu_seconds() - start;
    let n = (trace.n_kernel_events + trace.n_annotation_events) as f64;
    let size = bytes.len() as f64 / n;
    println!(
        "{what:<12} {n:>9} events  {size:>5.2} B/event  load {:>5.1} M events/s  peak {:>5} MB over {before} MB of file",
        n / s / 1e6,
        peak_mb() - before
    );
    assert_eq!(trace.broken_rules(), Vec::<String>::new());
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().collect();
    if let [_, what, path] = &args[..] {
        return load(what, path);
    }
    let n = (args.get(1).and_then(|a| a.parse().ok()).unwrap_or(10.0f64) * 1e6) as usize;
    let options = EncodeOptions::default();
    let path = std::env::temp_dir().join(format!("bench_load-{}.kasuri", std::process::id()));
    let annotations: Vec<EncodedBlocks> = (0..2u32)
        .map(|tid| {
            let raw = chunks(1000 + tid, n / 2);
            encode_annotation_blocks(1000, tid, &parse_chunks(&raw).0, &options)
        })
        .collect();
    let table = EventTable::from_meta(&meta().kernel)?;
    let kernel: Vec<EncodedBlocks> = (0..2u64)
        .map(|cpu| {
            let raw = pages(n / 2, cpu, 7 + cpu, 1000 + 12 * cpu);
            encode_kernel_blocks(&table, &PageLayout::LE64, cpu as u32, &raw, &options)
        })
        .collect();
    for (what, blocks) in [("annotations", annotations), ("sched", kernel)] {
        pack(&path, &blocks)?;
        if let Some(keep) = std::env::var_os("KEEP") {
            std::fs::copy(
                &path,
                std::path::Path::new(&keep).join(format!("{what}.kasuri")),
            )?;
        }
        drop(blocks);
        for _ in 0..3 {
            let status = std::process::Command::new(std::env::current_exe()?)
                .arg(what)
                .arg(&path)
                .status()?;
            assert!(status.success());
        }
    }
    if std::env::var_os("KEEP").is_none() {
        std::fs::remove_file(&path)?;
    }
    Ok(())
}
