//! Writes reports of made-up recordings: `bench_html OUT.html [SLICES] [demo|flat|pair|plan|code|code60|codepair] [LEVEL]` prints what that took, as JSON.
//!
//! `code` and `code60` have SLICES samples of call paths of 2 or 60 threads that nobody annotated, `codepair` is one with 2 threads and one with 4 in one page.
//! `flat` (the default) is the load of the viewer's benchmark: 64 threads, log-normal lengths, 200 names of Zipf
//! frequency. `pair` is two demos in one page. `plan` is the demo with a plan of two workers. `demo` is a small parallel program with everything that the viewer can show; its end-to-end tests use it.
use kasuri_analyze::account::Account;
use kasuri_model::*;
use kasuri_report::{self as html, Options};
use std::io::BufWriter;
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let path = args
        .get(1)
        .ok_or("usage: bench_html OUT.html [SLICES] [demo|flat|pair|plan|code|code60|codepair]")?;
    let slices: u64 = args.get(2).map_or(Ok(10_000_000), |n| n.replace('_', "").parse())?;
    if args.get(3).is_some_and(|kind| kind == "pair") {
        return pair(path, demo::make(slices), demo::make(slices * 2 / 3));
    }
    if args.get(3).is_some_and(|kind| kind == "codepair") {
        let made = |threads| (code::make(slices, threads), Options::default());
        return pair(path, made(2), made(4));
    }
    let mut made = match args.get(3).map(String::as_str) {
        Some("demo") => demo::make(slices),
        Some("plan") => plan(slices),
        Some("code") => (code::make(slices, 2), Options::default()),
        Some("code60") => (code::make(slices, 60), Options::default()),
        _ => (flat::make(slices), Options::default()),
    };
    let mut seconds = Vec::new();
    let mut stats = html::Stats::default();
    if let Some(level) = args.get(4) {
        made.1.level = level.parse()?;
    }
    let (trace, options) = made;
    let account = Account::new(&trace, trace.span.clone());
    let options = Options { account: Some(&account), ..options };
    let runs = if slices > 1_000_000 { 3 } else { 1 };
    for _ in 0..runs {
        let began = Instant::now();
        stats = html::write(&trace, &options, &mut BufWriter::new(std::fs::File::create(path)?))?;
        seconds.push(began.elapsed().as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    let json = serde_json::json!({
        "file": path, "slices": stats.slices, "items": stats.items, "lines": stats.lines, "bytes": stats.bytes,
        "clamped": stats.clamped, "write_s": seconds,
        "bytes_per_slice": stats.bytes as f64 / stats.slices.max(1) as f64,
    });
    println!("{json}");
    Ok(())
}

type Made<'a> = (Trace, Options<'a>);

/// The demo, and a plan under it: on the first worker four tasks, as late as tasks can be, a quarter of the time each; on the second
/// none.
fn plan(slices: u64) -> Made<'static> {
    let (mut trace, options) = demo::make(slices);
    let name = trace.strings.intern("tile");
    let quarter = (trace.span.end - trace.span.start).ns() / 4;
    let from = trace.span.start.0;
    let stretches = (0..4).map(|i| {
        trace.tasks.push(Task {
            id: i as u64 + 1,
            name,
            parent: TaskIx::NONE,
            creator: ThreadIx::NONE,
            created: Time::MIN,
            started: Time::MAX,
            ended: Time::MAX,
            joined: Time::MAX,
            joiner: TaskIx::NONE,
            ..Task::default()
        });
        html::planned::Stretch {
            worker: 0,
            task: TaskIx(trace.tasks.len() as u32 - 1),
            start: Time(from + i * quarter),
            end: Time(from + (i + 1) * quarter),
            lateness: html::planned::Lateness::of([-2, 0, 5, 20][i as usize], 100),
        }
    });
    let stretches = stretches.collect();
    let lateness = html::planned::add(&mut trace, "plan: cp on 2 workers", 2, stretches);
    let options = Options { lateness, ..options };
    (trace, options)
}

fn pair(path: &str, first: Made, second: Made) -> Result<(), Box<dyn std::error::Error>> {
    let ((before, mut a), (after, mut b)) = (first, second);
    (a.label, b.label) = ("before".into(), "after".into());
    let accounts = [&before, &after].map(|t| Account::new(t, t.span.clone()));
    (a.account, b.account) = (Some(&accounts[0]), Some(&accounts[1]));
    let mut out = BufWriter::new(std::fs::File::create(path)?);
    html::write_pair((&before, &a), (&after, &b), &mut out)?;
    Ok(())
}

/// xorshift64*: the same recording on every run and machine.
struct Random(u64);

impl Random {
    fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// In [0, 1).
    fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        let (u, v) = (self.unit().max(1e-12), self.unit());
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }

    /// Log-normal with this median, ns.
    fn ns(&mut self, median: f64, sigma: f64) -> i64 {
        (median * (sigma * self.normal()).exp()) as i64 + 1
    }
}

fn slice(
    slices: &mut Slices,
    thread: u32,
    depth: u16,
    name: StrIx,
    kind: SliceKind,
    span: std::ops::Range<i64>,
) {
    slices.start.push(Time(span.start));
    slices.end.push(Time(span.end));
    slices.thread.push(ThreadIx(thread));
    slices.name.push(name);
    slices.depth.push(depth);
    slices.parent.push(SliceIx::NONE);
    slices.kind.push(kind);
    slices.task.push(TaskIx::NONE);
    slices.object.push(0);
    slices.open.push(0);
}

mod flat {
    use super::*;

    const THREADS: u32 = 64;
    const NAMES: usize = 200;

    /// `n` slices, one level, on [`THREADS`] threads of one process.
    pub fn make(n: u64) -> Trace {
        let mut trace = Trace::default();
        let mut random = Random(20_261_120);
        let names: Vec<StrIx> =
            (0..NAMES).map(|i| trace.strings.intern(&format!("region_{i:03}"))).collect();
        let process = trace.strings.intern("flat");
        // One short slice each: what no level of detail may hide.
        let once: Vec<StrIx> = (0..4).map(|i| trace.strings.intern(&format!("once_{i}"))).collect();
        let mut end = 0;
        for thread in 0..THREADS {
            let name = trace.strings.intern(&format!("worker/{thread}"));
            let first = trace.slices.start.len() as u32;
            let mut now = 0;
            let each = n / THREADS as u64;
            for i in 0..each {
                now += random.ns(400.0, 1.0);
                let rare = thread % 16 == 3 && i == each / 2;
                let length = if rare { 900 } else { random.ns(6_000.0, 1.2) };
                // Zipf: rank r with a frequency of about 1 / r.
                let rank = (NAMES as f64).powf(random.unit()) as usize - 1;
                slice(
                    &mut trace.slices,
                    thread,
                    0,
                    if rare { once[thread as usize / 16] } else { names[rank.min(NAMES - 1)] },
                    SliceKind::Work,
                    now..now + length,
                );
                now += length;
            }
            end = end.max(now);
            let slices = first..trace.slices.start.len() as u32;
            trace.threads.push(Thread {
                process: ProcessIx(0),
                tid: 1000 + thread as i32,
                name,
                slices,
                slice_levels: 1,
                ..Thread::default()
            });
        }
        trace.threads.iter_mut().for_each(|t| t.alive = Time(0)..Time(end));
        trace.processes.push(Process {
            pid: 1000,
            name: process,
            is_target: true,
            threads: 0..THREADS,
            ..Process::default()
        });
        trace.span = Time(0)..Time(end);
        trace.info.command = vec!["./flat".into()];
        trace.info.root_pid = 1000;
        trace.n_annotation_events = 2 * n;
        trace
    }
}

#[path = "bench_html/code.rs"]
mod code;
#[path = "bench_html/demo.rs"]
mod demo;
