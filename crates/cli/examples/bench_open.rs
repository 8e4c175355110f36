//! Loads a recording again and again in one process: CPU seconds of one thread, one line for each time.
//! usage: bench_open FILE [TIMES]
use anyhow::{Context, Result};
use kasuri_import::{File, Options, load};

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let path = args.next().context("usage: bench_open FILE [TIMES]")?;
    let times: usize = args.next().map_or(Ok(5), |n| n.parse())?;
    let bytes = std::fs::read(&path).with_context(|| path.clone())?;
    for _ in 0..times {
        let (wall, cpu) = (std::time::Instant::now(), cpu_s());
        let trace = load(&[File { name: &path, bytes: &bytes }], &Options::default())?;
        let (cpu, wall) = (cpu_s() - cpu, wall.elapsed().as_secs_f64());
        println!("{cpu:.6} {wall:.6} {}", trace.n_kernel_events + trace.n_annotation_events);
    }
    Ok(())
}

/// CPU time of the whole process: loading may use threads, and they count.
fn cpu_s() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
