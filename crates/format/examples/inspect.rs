//! Prints what a packed recording is made of: `cargo run -p kasuri-format --example inspect -- FILE.kasuri`
use kasuri_format::container::{BlockKind, Recording};
use std::collections::BTreeMap;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args()
        .nth(1)
        .ok_or("usage: inspect FILE.kasuri")?;
    let file = std::fs::read(&path)?;
    let (recording, errors) = match Recording::parse(&file) {
        Ok(recording) => (recording, Vec::new()),
        Err(error) => {
            println!("{path}: {error}");
            Recording::salvage(&file)
        }
    };
    errors.iter().for_each(|e| println!("{path}: {e}"));
    let mut kinds: BTreeMap<BlockKind, [u64; 3]> = BTreeMap::new();
    for (ix, info) in recording.blocks().iter().enumerate() {
        let sums = kinds.entry(info.kind).or_default();
        for (sum, value) in sums
            .iter_mut()
            .zip([1, info.n_events, info.payload_bytes + 64])
        {
            *sum += value;
        }
        if info.kind == BlockKind::Kernel {
            let block = recording.kernel_block(ix)?;
            println!(
                "block {ix}: CPU {}, {} events, {} bytes",
                block.cpu, info.n_events, info.payload_bytes
            );
            for group in block.groups() {
                println!(
                    "  {} x {}: {} bytes",
                    group.len,
                    group.format.name,
                    group.packed_bytes()?.iter().map(|c| c.1).sum::<u64>()
                );
                for (field, bytes) in group.packed_bytes()?.iter().filter(|c| c.1 > 20) {
                    println!("    {field} {bytes}");
                }
            }
        }
    }
    let events: u64 = kinds.values().map(|s| s[2]).sum();
    for (kind, [blocks, n, bytes]) in &kinds {
        println!(
            "{kind:?}: {blocks} blocks, {n} events, {bytes} bytes, {:.2} bytes/event",
            *bytes as f64 / (*n).max(1) as f64
        );
    }
    println!(
        "tables and index: {} bytes of {}",
        file.len() as u64 - events,
        file.len()
    );
    Ok(())
}
