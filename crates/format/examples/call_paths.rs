//! Counts the samples of a packed recording by how their paths end, and prints the paths met most: one frame a line,
//! innermost first, as MODULE+ADDRESS. For measuring the sampler (bench/call-paths); `kasuri flame` has the names.
//!
//!     cargo run -p kasuri-format --example call_paths -- FILE [PATHS]
use kasuri_format::call_paths::{PathEnd, SampleKind, Tables};
use kasuri_format::container::{BlockKind, Recording};
use std::collections::BTreeMap;

fn main() {
    let mut args = std::env::args().skip(1);
    let path = args.next().expect("a file");
    let n_paths: usize = args.next().map_or(0, |n| n.parse().expect("a number"));
    let bytes = std::fs::read(path).expect("readable");
    let recording = Recording::parse(&bytes).expect("a recording");
    let tables = recording.call_paths();
    let mut ends: BTreeMap<(SampleKind, PathEnd), u64> = BTreeMap::new();
    let mut counts: BTreeMap<(SampleKind, PathEnd, u32), u64> = BTreeMap::new();
    let (mut packed, mut frames) = (0, 0);
    for (ix, block) in recording.blocks().iter().enumerate() {
        match block.kind {
            BlockKind::CallPaths => packed += block.payload_bytes,
            BlockKind::Samples => {
                packed += block.payload_bytes;
                for s in recording.sample_block(ix).expect("sound") {
                    *ends.entry((s.kind, s.end)).or_default() += 1;
                    *counts.entry((s.kind, s.end, s.path)).or_default() += 1;
                    frames += chain(tables, s.path).len();
                }
            }
            _ => {}
        }
    }
    let n: u64 = ends.values().sum();
    println!(
        "{n} samples, {:.1} bytes and {:.1} frames each; {} modules, {} frames, {} paths",
        packed as f64 / n.max(1) as f64,
        frames as f64 / n.max(1) as f64,
        tables.modules.len(),
        tables.frames.len(),
        tables.paths.len()
    );
    for ((kind, end), n) in ends {
        println!("{n:>8} {kind:?} {end:?}");
    }
    for row in recording.sampling() {
        println!("{row:?}");
    }
    let mut most: Vec<_> = counts.into_iter().collect();
    most.sort_by_key(|&(_, n)| std::cmp::Reverse(n));
    for ((kind, end, path), n) in most.into_iter().take(n_paths) {
        println!("{n} x {kind:?} {end:?}");
        for frame in chain(tables, path) {
            println!("    {frame}");
        }
    }
}

fn chain(tables: &Tables, mut path: u32) -> Vec<String> {
    let mut frames = Vec::new();
    while let Some(row) = tables.paths.get(path as usize) {
        let frame = tables.frames[row.frame as usize];
        let module = tables.modules.get(frame.module as usize);
        let name = module.map_or("?".to_owned(), |m| format!("{:?} {}", m.kind, m.path));
        frames.push(format!("{name}+{:#x}", frame.address));
        path = row.caller;
    }
    frames
}
