//! trace.dat there and back: what `kasuri export --format trace-dat` writes is read as the same trace.
use kasuri_export::trace_dat;
use kasuri_import::{File, Options, load};
use kasuri_model::{ThreadIx, Trace};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

fn read(bytes: &[u8]) -> Trace {
    let file = File { name: "trace.dat", bytes };
    let options = Options { keeps_events: true, ..Options::default() };
    load(&[file], &options).unwrap()
}

fn golden(name: &str) -> Trace {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/trace-dat");
    read(&std::fs::read(path.join(name)).unwrap())
}

fn exported(trace: &Trace) -> Vec<u8> {
    let mut bytes = Vec::new();
    let done = trace_dat::write(trace, &mut bytes).unwrap();
    assert!(done.records > 0);
    bytes
}

fn tid(trace: &Trace, thread: ThreadIx) -> i32 {
    trace.threads.get(thread.ix()).map_or(0, |t| t.tid)
}

/// When each thread was switched to on each CPU (ns of the clock), without the threads that were there at the start.
fn switches(trace: &Trace) -> Vec<(usize, i64, i32)> {
    let mut out = Vec::new();
    for (cpu, row) in trace.cpus.iter().enumerate() {
        for ix in (row.occupancy.start as usize..row.occupancy.end as usize).skip(1) {
            let o = &trace.occupancy;
            let at = o.start[ix].ns() + trace.origin_monotonic_ns;
            out.push((cpu, at, tid(trace, o.thread[ix])));
        }
    }
    out
}

fn wakeups(trace: &Trace) -> Vec<(i64, i32, i32, u16, i64)> {
    let w = &trace.wakeups;
    let row = |i: usize| {
        (
            w.time[i].ns() + trace.origin_monotonic_ns,
            tid(trace, w.waker[i]),
            tid(trace, w.wakee[i]),
            w.cpu[i],
            w.latency[i].ns(),
        )
    };
    (0..w.time.len()).map(row).collect()
}

/// (begin, end, thread or, of tracks, process, name)
fn slices(trace: &Trace) -> Vec<(i64, i64, i32, String)> {
    let s = &trace.slices;
    let origin = trace.origin_monotonic_ns;
    let mut out: Vec<_> = (0..s.start.len())
        .map(|i| {
            let thread = &trace.threads[s.thread[i].ix()];
            let whose = match thread.tid {
                ..=0 => -trace.processes[thread.process.ix()].pid,
                tid => tid,
            };
            let name = trace.strings.get(s.name[i]).to_owned();
            (s.start[i].ns() + origin, s.end[i].ns() + origin, whose, name)
        })
        .collect();
    out.sort();
    out
}

fn counters(trace: &Trace) -> BTreeMap<String, Vec<(i64, f64)>> {
    let origin = trace.origin_monotonic_ns;
    let values = |c: &kasuri_model::Counter| {
        let points = c.time.iter().zip(&c.value);
        points.map(|(t, v)| (t.ns() + origin, *v)).collect()
    };
    (trace.counters.iter()).map(|c| (trace.strings.get(c.name).to_owned(), values(c))).collect()
}

fn preemptions(trace: &Trace) -> BTreeMap<i32, u32> {
    let mut out = BTreeMap::new();
    for thread in &trace.threads {
        *out.entry(thread.tid).or_default() += thread.preemptions;
    }
    out.retain(|_, n| *n != 0);
    out
}

/// Row by row, so that a failure shows the row.
fn same<T: PartialEq + std::fmt::Debug>(name: &str, again: &[T], first: &[T]) {
    for (ix, (a, b)) in again.iter().zip(first).enumerate() {
        assert_eq!(a, b, "{name}: row {ix}");
    }
    assert_eq!(again.len(), first.len(), "{name}");
}

#[test]
fn there_and_back_nothing_changes() {
    for name in ["v6.dat", "instances.dat", "tsc.dat"] {
        let trace = golden(name);
        let again = read(&exported(&trace));
        assert!(!switches(&trace).is_empty() && !wakeups(&trace).is_empty());
        assert!(!slices(&trace).is_empty() && !counters(&trace).is_empty());
        same(name, &switches(&again), &switches(&trace));
        same(name, &wakeups(&again), &wakeups(&trace));
        same(name, &slices(&again), &slices(&trace));
        assert_eq!(counters(&again), counters(&trace), "{name}");
        assert_eq!(preemptions(&again), preemptions(&trace), "{name}");
        assert_eq!(again.migrations.time.len(), trace.migrations.time.len());
        assert_eq!(again.broken_rules(), [""; 0], "{name}");
        // And once more: the same bytes.
        assert!(exported(&again) == exported(&read(&exported(&again))), "{name}");
    }
}

#[test]
fn losses_stay_losses() {
    let trace = golden("lost.dat");
    let gaps = |t: &Trace| t.losses.iter().filter(|l| l.cause.contains("overrun")).count();
    let again = gaps(&read(&exported(&trace)));
    assert!(again > 0, "also those before the first event");
    assert_eq!(again, gaps(&trace));
    assert_eq!(switches(&read(&exported(&trace))), switches(&trace));
}

/// trace-cmd's own text of the exported file has the same switches, and it warns of nothing.
#[test]
fn trace_cmd_reads_it() {
    let trace = golden("v6.dat");
    let dir = std::env::temp_dir().join(format!("kasuri-trace-dat-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join("exported.dat");
    std::fs::write(&path, exported(&trace)).unwrap();
    let run = Command::new("trace-cmd")
        .args(["report", "-t", "-R", "-F", "sched_switch", "-i"])
        .arg(&path)
        .output();
    let run = match run {
        Ok(run) => run,
        Err(error) => {
            return kasuri_testkit::skip(&format!("trace-cmd cannot be run here: {error}"));
        }
    };
    std::fs::remove_dir_all(&dir).unwrap();
    let (out, err) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{err}");
    let warned = err.lines().filter(|l| !l.trim().is_empty());
    assert_eq!(warned.count(), 0, "{err}");
    let mut said: Vec<(usize, i64, i32)> = Vec::new();
    for line in out.lines().filter(|l| l.contains("sched_switch:")) {
        let between = |from: &str, to: &str| {
            let rest = line.split_once(from).unwrap().1;
            rest.split(to).next().unwrap().trim().to_owned()
        };
        let cpu: usize = between("[", "]").parse().unwrap();
        let stamp = between("]", ":").replace('.', "").parse().unwrap();
        let next: i32 = between("next_pid=", " ").parse().unwrap();
        said.push((cpu, stamp, next));
    }
    said.sort();
    let mut ours = switches(&trace);
    ours.sort();
    assert_eq!(said, ours);
}
