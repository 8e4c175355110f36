//! Weights in exports: whatever was sampled, those of a thread add up to the time that it ran and was blocked, to the nanosecond, and those of
//! classes to the account.
use crate::wire;
use kasuri_analyze::account::Account;
use kasuri_analyze::call_paths::weigh;
use kasuri_model::input::{Event, Setup, What};
use kasuri_model::*;
use proptest::prelude::*;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read;

const END: i64 = 1000;

/// A trace of two CPUs on which threads 1 to 5 come and go as `events` say: (ns, CPU, who comes on, how the other left, who is woken).
fn trace(mut events: Vec<(i64, u16, i32, u8, i32)>, samples: Vec<(u32, i64, u8, u8)>) -> Trace {
    events.sort_unstable();
    let name = StrIx(0);
    let mut strings = Strings::default();
    strings.intern("thread");
    let (mut cpus, mut on) = (vec![Vec::new(); 2], [0; 2]);
    for (ns, cpu, next, left_as, woken) in events {
        let left = [ThreadState::Sleeping, ThreadState::DiskSleep, ThreadState::RunnablePreempted];
        let cpu = usize::from(cpu);
        cpus[cpu].push(Event::waking(ns, on[cpu], woken, name));
        // No thread is on two CPUs.
        if next != 0 && on.contains(&next) {
            continue;
        }
        let left_as = match on[cpu] {
            0 => ThreadState::RunnablePreempted,
            _ => left[usize::from(left_as) % left.len()],
        };
        let what = What::Switch { prev: on[cpu], prev_comm: name, left_as, next, next_comm: name };
        cpus[cpu].push(Event { time: Time(ns), context: on[cpu], in_interrupt: false, what });
        on[cpu] = next;
    }
    let setup = Setup {
        span: Time(0)..Time(END),
        n_cpus: 2,
        recorded: vec![0, 1],
        keeps_events: true,
        ..Setup::default()
    };
    let input = Input { setup, strings, cpus, streams: Vec::new() };
    let mut trace = input.build().unwrap();
    trace.info.kernel_source = "tracefs".into();
    add_samples(&mut trace, samples);
    assert_eq!(trace.broken_rules(), Vec::<String>::new());
    trace
}

/// Samples at (thread, ns, kind, path).
fn add_samples(trace: &mut Trace, mut samples: Vec<(u32, i64, u8, u8)>) {
    let n = trace.threads.len() as u32;
    if n == 0 {
        return;
    }
    let names = ["main", "work", "wait"].map(|name| trace.strings.intern(name));
    let f = &mut trace.frames;
    (f.function, f.module) = (names.to_vec(), vec![StrIx::NONE; 3]);
    (f.file, f.line, f.address) = (vec![StrIx::NONE; 3], vec![0; 3], vec![0; 3]);
    f.kind = vec![FrameKind::Native; 3];
    trace.paths.caller = vec![PathIx::NONE, PathIx(0), PathIx(0)];
    trace.paths.frame = vec![FrameIx(0), FrameIx(1), FrameIx(2)];
    samples.iter_mut().for_each(|s| s.0 %= n);
    samples.sort_unstable();
    for (thread, ns, kind, path) in samples {
        let kinds =
            [SampleKind::OnCpu, SampleKind::Blocked, SampleKind::BlockedRead, SampleKind::Waker];
        let path = match path % 4 {
            3 => PathIx::NONE,
            row => PathIx(row.into()),
        };
        let s = &mut trace.samples;
        s.time.push(Time(ns));
        s.thread.push(ThreadIx(thread));
        s.cpu.push(u16::from(kind) % 2);
        s.kind.push(kinds[usize::from(kind) % kinds.len()]);
        s.is_complete.push(path.is_some());
        s.path.push(path);
    }
}

fn json(write: impl Fn(&mut Vec<u8>) -> std::io::Result<kasuri_export::Exported>) -> Value {
    let mut out = Vec::new();
    write(&mut out).unwrap();
    serde_json::from_slice(&out).unwrap()
}

/// By tid: ns on a CPU and ns blocked.
type Times = BTreeMap<i32, [i64; 2]>;

fn of_states(trace: &Trace) -> Times {
    let mut out = Times::new();
    for thread in (0..trace.threads.len() as u32).map(ThreadIx) {
        let times = out.entry(trace.threads[thread.ix()].tid).or_default();
        for row in trace.states_of(thread) {
            let ns = (row.end - row.start).ns();
            times[0] += if row.state == ThreadState::Running { ns } else { 0 };
            times[1] += if row.state.is_blocked() { ns } else { 0 };
        }
    }
    out
}

fn speedscope(trace: &Trace) -> Times {
    let file = json(|out| kasuri_export::speedscope::write(trace, out));
    let mut out = Times::new();
    for profile in file["profiles"].as_array().unwrap().iter().filter(|p| p["type"] == "sampled") {
        let words: Vec<&str> = profile["name"].as_str().unwrap().splitn(3, ' ').collect();
        let sum =
            profile["weights"].as_array().unwrap().iter().map(|w| w.as_i64().unwrap()).sum::<i64>();
        out.entry(words[1].parse().unwrap()).or_default()[usize::from(words[2] == "(waits)")] +=
            sum;
    }
    out
}

fn firefox(trace: &Trace) -> Times {
    let file = json(|out| kasuri_export::firefox::write(trace, out));
    let shared = &file["shared"];
    let row = |column: &Value, row: usize| column[row].as_u64().unwrap() as usize;
    let mut out = Times::new();
    for thread in file["threads"].as_array().unwrap() {
        let times = out.entry(thread["tid"].as_i64().unwrap() as i32).or_default();
        let samples = &thread["samples"];
        let n = samples["length"].as_u64().unwrap() as usize;
        for at in 0..n.saturating_sub(1) {
            let ns = (samples["weight"][at].as_f64().unwrap() * 1e6).round() as i64;
            let on_cpu = samples["threadCPUDelta"][at + 1].as_i64().unwrap();
            assert!(on_cpu == 0 || on_cpu == ns);
            // A thread that waits for a CPU has the stack of its state, which no sample's path hides.
            let frame = row(&shared["stackTable"]["frame"], row(&samples["stack"], at));
            let name = row(&shared["funcTable"]["name"], row(&shared["frameTable"]["func"], frame));
            let name = shared["stringArray"][name].as_str().unwrap();
            let has_no_cpu = matches!(name, "runnable" | "preempted" | "unknown");
            times[0] += on_cpu;
            times[1] += if on_cpu == 0 && !has_no_cpu { ns } else { 0 };
        }
    }
    out
}

/// Of all threads: on a CPU, blocked, and the account.
fn pprof(trace: &Trace) -> [i64; 3] {
    let mut bytes = Vec::new();
    kasuri_export::pprof::write(trace, &mut bytes).unwrap();
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut plain).unwrap();
    let profile = wire::Message::parse(&plain).unwrap();
    let mut sums = [0; 3];
    for sample in profile.messages(2) {
        let wire::Field::Bytes(values) =
            sample.fields.iter().find(|(n, _)| *n == 2).map(|(_, f)| f.clone()).unwrap()
        else {
            panic!("values are packed")
        };
        // As a message whose fields are the values: each after a key.
        let (mut at, mut column) = (0, 0);
        while at < values.len() {
            let length = values[at..].iter().position(|byte| byte & 0x80 == 0).unwrap() + 1;
            let value = values[at..at + length]
                .iter()
                .rev()
                .fold(0i64, |sum, byte| sum << 7 | i64::from(byte & 0x7f));
            if column > 0 {
                sums[column - 1] += value;
            }
            (at, column) = (at + length, column + 1);
        }
        assert_eq!(column, 4);
    }
    sums
}

/// The end of each CPU's counter, all together.
fn perfetto(trace: &Trace) -> u64 {
    let mut bytes = Vec::new();
    kasuri_export::perfetto::write(trace, &mut bytes).unwrap();
    let mut last: BTreeMap<u64, u64> = BTreeMap::new();
    for packet in wire::Message::parse(&bytes).unwrap().messages(1) {
        for sample in packet.messages(66) {
            let count = last.entry(sample.number(1).unwrap()).or_default();
            *count = (*count).max(sample.number(6).unwrap());
        }
    }
    last.values().sum()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn weights_of_every_export_add_up(
        events in prop::collection::vec((1i64..END, 0u16..2, 0i32..6, any::<u8>(), 1i32..6), 1..60),
        samples in prop::collection::vec((any::<u32>(), 0i64..END, any::<u8>(), any::<u8>()), 1..60),
    ) {
        let trace = trace(events, samples);
        let expected = of_states(&trace);
        if trace.samples.time.is_empty() {
            return Ok(());
        }
        let has_time = |times: Times| -> Times { times.into_iter().filter(|(_, ns)| *ns != [0, 0]).collect() };
        prop_assert_eq!(has_time(speedscope(&trace)), has_time(expected.clone()));
        prop_assert_eq!(has_time(firefox(&trace)), has_time(expected.clone()));
        let sum = |at: usize| expected.values().map(|ns| ns[at]).sum::<i64>();
        let account = Account::new(&trace, trace.span.clone());
        let capacity: i64 = account.sums(account.from, account.to).iter().sum();
        prop_assert_eq!(pprof(&trace), [sum(0), sum(1), capacity]);
        let weights = weigh(&trace);
        let s = &trace.samples;
        let sampled: i64 = (0..s.time.len()).filter(|&row| s.kind[row] == SampleKind::OnCpu).map(|row| weights.sample[row].ns()).sum();
        prop_assert_eq!(perfetto(&trace), sampled as u64);
    }
}
