//! Loads a recording, and says how long that took and whether its columns keep their rules.
//! `cargo run --release -p kasuri-import --example check -- run.kasuri`
use kasuri_import::{File, Options, load};
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: check FILE.kasuri")?;
    let bytes = std::fs::read(&path)?;
    let start = Instant::now();
    let trace = load(
        &[File {
            name: &path,
            bytes: &bytes,
        }],
        &Options::default(),
    )?;
    let (events, s) = (
        trace.n_kernel_events + trace.n_annotation_events,
        start.elapsed().as_secs_f64(),
    );
    println!(
        "{events} events in {s:.3} s: {:.1} M events/s",
        events as f64 / s / 1e6
    );
    println!(
        "{} threads, {} states, {} slices",
        trace.threads.len(),
        trace.states.start.len(),
        trace.slices.start.len()
    );
    trace
        .disagreements()
        .iter()
        .for_each(|d| println!("events contradict each other: {d}"));
    let broken = trace.broken_rules();
    broken.iter().for_each(|rule| println!("broken: {rule}"));
    if broken.is_empty() {
        Ok(())
    } else {
        Err("rules are broken".into())
    }
}
