//! Makes up a fleet: `fleet DIR RUNS` puts that many nightly runs below DIR, as `kasuri export --format parquet` would.
//!
//! Two machines run the same program of four threads every night. From the commit at 60 % on, its lock is held four times as long,
//! on the machine `build-2` only: what docs/guide/fleet.md goes looking for. Same numbers for the same arguments.
use kasuri_model::ThreadState::{RunnablePreempted, Sleeping};
use kasuri_model::input::{Annotation, Event, KnownThread, Setup, What};
use kasuri_model::{AnnotationVec, Input, StrIx, Strings, Time, Trace};
use kasuri_tables::{Source, TABLES, dataset, parquet};
use std::collections::BTreeMap;
use std::path::Path;

const THREADS: usize = 4;
const ROUNDS: usize = 12;
const LOCK: u64 = 0x5555_0000_10a0;
/// Kinds of `kasuri.h`.
const BEGIN: u8 = 1;
const END: u8 = 2;
const REQUEST: u8 = 7;
const ACQUIRED: u8 = 8;
const RELEASED: u8 = 9;
/// 1 January 2026, 02:00.
const FIRST_NIGHT_NS: i64 = 1_767_232_800_000_000_000;
const DAY_NS: i64 = 86_400_000_000_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, dir, runs] = &args[..] else {
        return Err("usage: fleet DIR RUNS".into());
    };
    let runs: u64 = runs.parse()?;
    for run in 0..runs {
        let machine = format!("build-{}", run % 2 + 1);
        let night = run / 2;
        let nights = runs.div_ceil(2);
        let is_slow = machine == "build-2" && night * 10 >= nights * 6;
        let mut trace = trace(run, if is_slow { 4 } else { 1 });
        trace.info.host = machine.clone();
        trace.origin_realtime_ns = FIRST_NIGHT_NS + night as i64 * DAY_NS;
        // A commit lives for three nights.
        let commit = format!("{:07x}", (night / 3 + 1).wrapping_mul(0x9E37_79B9) & 0xfff_ffff);
        let labels = BTreeMap::from([("commit".to_string(), commit)]);
        let key = dataset::Key { machine, run: format!("night-{night:04}") };
        let source = Source::new(&trace, labels);
        dataset::write(Path::new(dir), &key, &source, TABLES, parquet::Packing::Small, 0o644)?;
    }
    Ok(())
}

/// xorshift: fixed, so that everybody makes the same fleet.
struct Random(u64);

impl Random {
    fn below(&mut self, n: i64) -> i64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as i64 % n
    }
}

/// Each thread has a CPU of its own; it works, takes the lock, works inside, and sleeps while it waits for it.
fn trace(seed: u64, hold_factor: i64) -> Trace {
    let mut random = Random((seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let mut strings = Strings::default();
    let comm = strings.intern("solver");
    let (work, lock) = (strings.intern("solve"), strings.intern("&queue"));
    let mut cpus = vec![Vec::new(); THREADS];
    let mut streams: Vec<Vec<Annotation>> = vec![Vec::new(); THREADS];
    let mut now = [1_000i64; THREADS];
    let mut free_at = 0;
    let put = |ns: i64, kind: u8, name: StrIx, a: u64| Annotation {
        time: Time(ns),
        kind,
        aux: 0,
        name,
        a,
        b: 0,
    };
    for _ in 0..ROUNDS {
        // Whoever asks first gets the lock first.
        let mut asks: Vec<(i64, usize)> =
            (0..THREADS).map(|t| (now[t] + 20_000 + random.below(20_000), t)).collect();
        asks.sort_unstable();
        for (ask, t) in asks {
            let tid = 101 + t as i32;
            streams[t].push(put(now[t], BEGIN, work, 0));
            streams[t].push(put(ask, END, StrIx::NONE, 0));
            streams[t].push(put(ask, REQUEST, lock, LOCK));
            let mut got = ask + 100;
            if free_at > ask {
                let woken = free_at;
                got = woken + 2_000 + random.below(1_000);
                cpus[t].push(Event::switch(ask + 500, tid, Sleeping, 0, comm));
                cpus[t].push(waking(woken, tid, comm, t as u16));
                cpus[t].push(Event::switch(got - 100, 0, RunnablePreempted, tid, comm));
            }
            let hold = hold_factor * (1_000 + random.below(500));
            streams[t].push(put(got, ACQUIRED, lock, LOCK));
            streams[t].push(put(got + hold, RELEASED, lock, LOCK));
            free_at = got + hold;
            now[t] = got + hold + 10;
        }
    }
    let end = now.iter().max().copied().unwrap_or(0) + 1_000;
    for (t, cpu) in cpus.iter_mut().enumerate() {
        cpu.push(Event::switch(end, 101 + t as i32, RunnablePreempted, 0, comm));
    }
    let streams = streams.into_iter().zip(101..).map(|(events, tid)| AnnotationVec {
        pid: 101,
        tid,
        events,
        at: 0,
    });
    let input = Input { setup: setup(end), strings, cpus, streams: streams.collect() };
    let mut trace = input.build().expect("a small trace");
    trace.info.command = vec!["./solver".into()];
    trace.info.kernel_source = "tracefs".into();
    trace.info.recorder = "made up".into();
    trace
}

/// What is known before the first event: the threads, and the length of the run.
fn setup(end: i64) -> Setup {
    let known =
        |tid: i32| KnownThread { time: Time(0), pid: 101, tid, ppid: 1, comm: "solver".into() };
    Setup {
        root_pids: vec![101],
        n_cpus: THREADS,
        recorded: (0..THREADS as u32).collect(),
        known: (101..101 + THREADS as i32).map(known).collect(),
        span: Time(0)..Time(end),
        ..Setup::default()
    }
}

fn waking(ns: i64, tid: i32, comm: StrIx, cpu: u16) -> Event {
    Event {
        time: Time(ns),
        context: 0,
        in_interrupt: false,
        what: What::Waking { tid, comm, cpu: cpu.into(), in_softirq: false },
    }
}
