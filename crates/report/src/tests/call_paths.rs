//! Frames, paths and samples come out of the page as they went in.
use super::*;

/// Period of the samples: 4 ms, as of a timer of 250 Hz.
const TICK: i64 = 4_000_000;

/// Two threads. The first ran with a sample at each tick but for one wait in the middle; the second only waited.
fn sampled(n: u32) -> Trace {
    let mut trace = trace(10);
    let mut text = |name: &str| trace.strings.intern(name);
    let (main, work, libc) = (text("main"), text("_ZN4work3runEv"), text("libc.so.6"));
    trace.frames = CodeFrames {
        function: vec![main, work, StrIx::NONE],
        module: vec![StrIx::NONE, StrIx::NONE, libc],
        file: vec![StrIx::NONE, main, StrIx::NONE],
        line: vec![0, 4711, 0],
        address: vec![0, 0, 0x7f12_3456_789a],
        kind: vec![FrameKind::Native, FrameKind::Inlined, FrameKind::Kernel],
    };
    trace.paths = CallPaths {
        caller: vec![PathIx::NONE, PathIx(0), PathIx(1), PathIx(0)],
        frame: vec![FrameIx(0), FrameIx(1), FrameIx(2), FrameIx(2)],
    };
    let end = i64::from(n + 2) * TICK;
    trace.span = Time(0)..Time(end);
    trace.threads.push(trace.threads[0].clone());
    for (t, (thread, states)) in trace.threads.iter_mut().zip([0..3, 3..4]).enumerate() {
        (thread.slices, thread.states) = (0..0, states);
        thread.alive = Time(0)..Time(end);
        thread.tid = 1 + t as i32;
    }
    let half = i64::from(n / 2) * TICK;
    trace.states.start = [0, half + 10, half + TICK, 0].map(Time).to_vec();
    trace.states.state = vec![
        ThreadState::Running,
        ThreadState::Sleeping,
        ThreadState::Running,
        ThreadState::DiskSleep,
    ];
    trace.states.cpu = vec![0; 4];
    trace.states.by = vec![ThreadIx::NONE; 4];
    let sample = |samples: &mut Samples, thread: u32, time: i64, kind, path: u32| {
        samples.time.push(Time(time));
        samples.thread.push(ThreadIx(thread));
        samples.cpu.push(0);
        samples.kind.push(kind);
        samples.is_complete.push(path != 2);
        samples.path.push(PathIx(path));
    };
    for i in 0..n {
        // Not on the ticks exactly, as no sample of a real clock is.
        let jitter = i64::from(i.wrapping_mul(2_654_435_761) >> 20);
        let (kind, path) = match i == n / 2 {
            true => (SampleKind::Blocked, 3),
            false => (SampleKind::OnCpu, i % 3),
        };
        let time = i64::from(i) * TICK + if i == n / 2 { 3 } else { jitter };
        sample(&mut trace.samples, 0, time, kind, path);
    }
    sample(&mut trace.samples, 1, 7, SampleKind::BlockedRead, PathIx::NONE.0);
    trace
}

/// A sample of the page: thread, time, kind, complete, path + 1, begin and end of its stretch.
type Seen = (u64, u64, u64, bool, u64, u64, u64);

/// Signed numbers are stored as 0, -1, 1, -2, ...: small ones stay small.
fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

fn samples_of(packed: &Whole) -> Vec<Seen> {
    let mut seen = Vec::new();
    for (thread, unit) in &packed.samples {
        let block = inflate(&packed.blocks[unit.block as usize].text);
        let (mut at, n) = (offset(&block, unit), unit.items as usize);
        let columns: Vec<Vec<u64>> = (0..6).map(|_| cell(&block, &mut at, n)).collect();
        let mut now = unit.from;
        for row in (0..n).map(|row| [0, 1, 2, 3, 4, 5].map(|column: usize| columns[column][row])) {
            let value = |column: usize| row[column];
            now += value(0);
            // A wait's stretch is stored as distances from the sample, which may be on either side of its beginning.
            let begin = now as i64 - unzigzag(value(4));
            let length = value(3) as i64 + unzigzag(value(5));
            let moment = value(1) & 15;
            let end = if moment == 0 { now } else { (begin + length) as u64 };
            let is_complete = value(1) & 16 != 0;
            seen.push((u64::from(*thread), now, moment, is_complete, value(2), begin as u64, end));
        }
        assert_eq!(now, unit.to);
    }
    seen
}

#[test]
fn every_sample_is_in_the_page_with_its_path_and_stretch() {
    for n in [2, 100, UNIT_ITEMS as u32 + 1] {
        let trace = sampled(n);
        let plan = lines::plan(&trace);
        let packed = pack(&trace, &plan, &Options::default());
        let seen = samples_of(&packed);
        assert_eq!(seen.len(), n as usize + 1);
        let at = |t: i64| (t - plan.base) as u64;
        let half = i64::from(n / 2) * TICK;
        for (row, &(thread, time, kind, complete, path, begin, end)) in seen.iter().enumerate() {
            let samples = &trace.samples;
            assert_eq!(thread, u64::from(samples.thread[row].0));
            assert_eq!(time, at(samples.time[row].0));
            assert_eq!(kind, samples.kind[row] as u64);
            assert_eq!(complete, samples.is_complete[row]);
            assert_eq!(path, u64::from(samples.path[row].0.wrapping_add(1)));
            // The switch was sampled 7 ns before the wait began.
            let stretch = match samples.kind[row] {
                SampleKind::Blocked => (at(half + 10), at(half + TICK)),
                SampleKind::BlockedRead => (at(0), at(trace.span.end.0)),
                _ => (time, time),
            };
            assert_eq!((begin, end), stretch, "sample {row} of {n}");
        }
    }
}

/// ns of each thread on a CPU and blocked that no sample stands for.
fn unsampled(packed: &Whole, threads: usize) -> Vec<[u64; 2]> {
    let mut sums = vec![[0; 2]; threads];
    for unit in &packed.unsampled {
        let block = inflate(&packed.blocks[unit.block as usize].text);
        let (mut at, n) = (offset(&block, unit), unit.items as usize);
        let columns: Vec<Vec<u64>> = (0..3).map(|_| cell(&block, &mut at, n)).collect();
        let mut now = 0;
        for ((gap, on_cpu), blocked) in columns[0].iter().zip(&columns[1]).zip(&columns[2]) {
            now += *gap as usize;
            let sum = &mut sums[now / packed.cells];
            sum[0] += on_cpu;
            sum[1] += blocked;
        }
    }
    sums
}

#[test]
fn samples_and_unsampled_time_add_up_to_the_states() {
    let mut trace = sampled(1000);
    // Half of the first thread's samples are gone, and the wait's.
    let kept: Vec<usize> = (0..1001).filter(|i| !(300..=500).contains(i)).collect();
    let samples = std::mem::take(&mut trace.samples);
    for row in kept {
        trace.samples.time.push(samples.time[row]);
        trace.samples.thread.push(samples.thread[row]);
        trace.samples.cpu.push(samples.cpu[row]);
        trace.samples.kind.push(samples.kind[row]);
        trace.samples.is_complete.push(samples.is_complete[row]);
        trace.samples.path.push(samples.path[row]);
    }
    let packed = pack(&trace, &lines::plan(&trace), &Options::default());
    let mut sums = unsampled(&packed, 2);
    assert!(sums[0][0] > 190 * TICK as u64 && sums[0][1] > TICK as u64 / 2);
    for (thread, unit) in &packed.samples {
        let block = inflate(&packed.blocks[unit.block as usize].text);
        let (mut at, n) = (offset(&block, unit), unit.items as usize);
        let columns: Vec<Vec<u64>> = (0..4).map(|_| cell(&block, &mut at, n)).collect();
        for (moment, weight) in columns[1].iter().zip(&columns[3]) {
            let waits = usize::from(moment & 15 != 0);
            sums[*thread as usize][waits] += weight;
        }
    }
    let end = trace.span.end.0 as u64;
    let wait = TICK as u64 - 10;
    assert_eq!(sums, [[end - wait, wait], [0, end]]);
}

#[test]
fn pieces_of_cpus_are_in_the_page_by_cpu() {
    use kasuri_analyze::account::Class;
    use kasuri_analyze::call_paths::{Piece, Whereabouts};
    let trace = sampled(10);
    let plan = lines::plan(&trace);
    // More pieces of the first CPU than a unit holds; the second CPU's begin later and have a gap.
    let n = UNIT_ITEMS + 10;
    let mut pieces: Vec<Piece> = (0..n)
        .map(|i| Piece {
            cpu: 0,
            from: Time(plan.base + i as i64 * 3),
            to: Time(plan.base + i as i64 * 3 + 3),
            class: [Class::Work, Class::LockWait][i % 2],
            at: [
                Whereabouts::WithoutCode,
                Whereabouts::Unsampled,
                Whereabouts::At(PathIx(i as u32 % 4)),
            ][i % 3],
            is_complete: i % 6 == 2,
        })
        .collect();
    for (from, to) in [(40, 50), (70, 75)] {
        pieces.push(Piece {
            cpu: 3,
            from: Time(plan.base + from),
            to: Time(plan.base + to),
            class: Class::Interference,
            at: Whereabouts::At(PathIx(1)),
            is_complete: true,
        });
    }
    let options = Options { pieces: &pieces, ..Options::default() };
    let packed = pack(&trace, &plan, &options);
    let cpus: Vec<u32> = packed.pieces.iter().map(|unit| unit.0).collect();
    assert_eq!(cpus, [0, 0, 3]);
    let mut row = 0;
    for (cpu, unit) in &packed.pieces {
        let block = inflate(&packed.blocks[unit.block as usize].text);
        let (mut at, n) = (offset(&block, unit), unit.items as usize);
        let columns: Vec<Vec<u64>> = (0..4).map(|_| cell(&block, &mut at, n)).collect();
        let mut now = unit.from;
        for (i, piece) in pieces[row..row + n].iter().enumerate() {
            let code = match piece.at {
                Whereabouts::WithoutCode => 0,
                Whereabouts::Unsampled => 1,
                Whereabouts::At(path) => 2 + u64::from(path.0) * 2 + u64::from(piece.is_complete),
            };
            let value = |column: usize| columns[column][i];
            now += value(0);
            let begin = (piece.from.0 - plan.base) as u64;
            assert_eq!((*cpu, now), (u32::from(piece.cpu), begin));
            now += value(1);
            assert_eq!(now, (piece.to.0 - plan.base) as u64);
            assert_eq!((value(2), value(3)), (piece.class as u64, code));
        }
        row += n;
        assert_eq!(now, unit.to);
    }
    assert_eq!(row, pieces.len());
}

#[test]
fn frames_and_paths_are_in_the_page() {
    let trace = sampled(10);
    let packed = pack(&trace, &lines::plan(&trace), &Options::default());
    let read = |unit: &columns::Unit, columns: usize| -> Vec<Vec<u64>> {
        let block = inflate(&packed.blocks[unit.block as usize].text);
        let mut at = offset(&block, unit);
        (0..columns).map(|_| cell(&block, &mut at, unit.items as usize)).collect()
    };
    let mut strings = trace.strings.clone();
    let mut name = |text: &str| u64::from(strings.intern(text).0) + 1;
    let frames = read(&packed.frames[0], 6);
    assert_eq!(frames[0], [name("main"), name("_ZN4work3runEv"), 0]);
    assert_eq!(frames[1], [0, 0, name("libc.so.6")]);
    assert_eq!(frames[2], [0, name("main"), 0]);
    assert_eq!(frames[3], [0, 4711, 0]);
    assert_eq!(frames[4], [0, 0, 0x7f12_3456_789a]);
    assert_eq!(frames[5], [0, 1, 2]);
    assert_eq!(read(&packed.paths[0], 2), [vec![0, 1, 1, 3], vec![0, 1, 2, 2]]);
}

#[test]
fn a_sample_takes_a_few_bytes() {
    let n = 100_000;
    let trace = sampled(n);
    let packed = pack(&trace, &lines::plan(&trace), &Options::default());
    let blocks: std::collections::BTreeSet<u32> =
        packed.samples.iter().map(|(_, unit)| unit.block).collect();
    let bytes: usize = blocks.iter().map(|&block| packed.blocks[block as usize].text.len()).sum();
    assert!(bytes < 6 * n as usize, "{} bytes a sample", bytes as f64 / f64::from(n));
}

#[test]
fn a_recording_without_samples_says_nothing_about_call_paths() {
    let page = |trace: &Trace| {
        let served = Served::new(trace, &Options::default()).unwrap();
        let blocks = (0..).take_while(|&b| served.block(b).is_some()).count();
        (serde_json::from_slice::<serde_json::Value>(served.index()).unwrap(), blocks)
    };
    let with = sampled(10);
    let mut without = sampled(10);
    without.samples = Samples::default();
    assert_eq!(page(&with).0["call_paths"]["n_samples"], 11);
    assert!(page(&without).0.get("call_paths").is_none());
    assert!(page(&without).1 < page(&with).1);
}
