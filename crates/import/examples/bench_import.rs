//! Reads one trace of another tool and says how long that took and what memory: for bench/import/run.
//! usage: bench_import FILE [ROUNDS]; a line each: events, CPU seconds, wall seconds, peak bytes beside the file's.
use kasuri_import::{File, Options, load};
use std::time::{Duration, Instant};

/// As in the command.
#[path = "../../cli/src/memory/mod.rs"]
mod memory;
#[global_allocator]
static MEMORY: memory::Memory = memory::Memory;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let name = args.next().ok_or("usage: bench_import FILE [ROUNDS]")?;
    let rounds: u32 = args.next().map_or(Ok(1), |n| n.parse())?;
    memory::bound()?;
    for _ in 0..rounds {
        let (wall, cpu) = (Instant::now(), cpu_time()?);
        // SAFETY: nobody changes the file meanwhile. Mapped as the command maps it.
        let bytes = unsafe { memmap2::Mmap::map(&std::fs::File::open(&name)?) }?;
        let file = File { name: &name, bytes: &bytes };
        let trace = load(&[file], &Options::default())?;
        let n = trace.n_kernel_events + trace.n_annotation_events;
        let (wall, cpu) = (wall.elapsed(), cpu_time()? - cpu);
        let peak = status("VmHWM:")?.saturating_sub(bytes.len() as u64);
        println!("{n} {} {} {peak}", cpu.as_secs_f64(), wall.as_secs_f64());
    }
    Ok(())
}

/// Bytes of a line of /proc/self/status.
fn status(key: &str) -> Result<u64, Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find_map(|l| l.strip_prefix(key));
    let kib = line.and_then(|l| l.split_whitespace().next());
    Ok(kib.ok_or("no such line in /proc/self/status")?.parse::<u64>()? << 10)
}

/// CPU time of this thread so far: the first number of its schedstat, ns.
fn cpu_time() -> Result<Duration, Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let ns = text.split_whitespace().next().ok_or("empty schedstat")?;
    Ok(Duration::from_nanos(ns.parse()?))
}
