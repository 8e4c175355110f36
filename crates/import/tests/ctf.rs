//! CTF goldens, made by LTTng, babeltrace2 and generators (tests/golden/ctf/make), against what babeltrace2 read in them;
//! and the same files cut and damaged.
use kasuri_import::{File, Options, load};
use kasuri_model::{ArgValue, InstantIx, SliceIx, SliceKind, ThreadState, Trace};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn goldens() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/ctf")
}

/// All files below a directory, with their paths from there.
fn files(dir: &Path, under: &str, out: &mut Vec<(String, Vec<u8>)>) {
    let mut entries: Vec<_> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap()).collect();
    entries.sort_by_key(|e| e.file_name());
    for entry in entries {
        let name = format!("{under}{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            files(&entry.path(), &format!("{name}/"), out);
        } else {
            out.push((name, std::fs::read(entry.path()).unwrap()));
        }
    }
}

fn golden(name: &str) -> Vec<(String, Vec<u8>)> {
    let mut out = Vec::new();
    files(&goldens().join(name), "", &mut out);
    assert!(!out.is_empty());
    out
}

fn read(files: &[(String, Vec<u8>)], salvage: bool) -> Result<Trace, kasuri_import::Error> {
    let files: Vec<File<'_>> = files.iter().map(|(name, bytes)| File { name, bytes }).collect();
    load(&files, &Options { salvage, ..Options::default() })
}

/// What babeltrace2 reads in a trace: the same in all that the same events were written as.
fn expected(name: &str) -> Value {
    let events = match name {
        "kernel-be" | "kernel-bt" | "kernel-ctf2" | "kernel-large" => "kernel",
        "ust-ctf2" => "ust",
        _ => name,
    };
    let path = goldens().join(format!("{events}.expected.json"));
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn check(trace: &Trace) {
    assert_eq!(trace.broken_rules(), Vec::<String>::new());
}

fn int(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("a number: {value}"))
}

/// A golden of kernel events: each thread's time, switches, moves and wake-ups, to the nanosecond.
fn kernel(name: &str) {
    let trace = read(&golden(name), false).unwrap();
    check(&trace);
    let want = expected(name);
    let epoch = trace.origin_realtime_ns;
    assert_eq!(epoch + trace.span.start.0, int(&want["span"][0]), "{name}: begin");
    assert_eq!(epoch + trace.span.end.0, int(&want["span"][1]), "{name}: end");
    let by_name: BTreeMap<&str, u64> =
        (trace.info.event_costs.iter()).map(|kind| (kind.name.as_str(), kind.n)).collect();
    let names = want["by_name"].as_object().unwrap();
    let names: BTreeMap<&str, u64> =
        (names.iter()).map(|(name, n)| (name.as_str(), int(n) as u64)).collect();
    assert_eq!(by_name, names, "{name}");
    assert_eq!(trace.n_kernel_events, int(&want["events"]) as u64, "{name}");
    let mut on_cpu: BTreeMap<i32, [i64; 4]> = BTreeMap::new();
    for thread in &trace.threads {
        let sums = on_cpu.entry(thread.tid).or_default();
        let rows = thread.states.start as usize..thread.states.end as usize;
        for row in rows.clone() {
            let end = match row + 1 < rows.end {
                true => trace.states.start[row + 1],
                false => thread.alive.end,
            };
            if trace.states.state[row] == ThreadState::Running {
                sums[0] += (end - trace.states.start[row]).ns();
            }
        }
        sums[1] += i64::from(thread.switches_in);
        sums[2] += i64::from(thread.switches_out);
        sums[3] += i64::from(thread.preemptions);
    }
    let threads = want["kernel"]["threads"].as_object().unwrap();
    assert!(threads.len() > 5);
    for (tid, want) in threads {
        let got = on_cpu[&tid.parse().unwrap()];
        let fields = ["on_cpu_ns", "switches_in", "switches_out", "preemptions"];
        assert_eq!(got, fields.map(|f| int(&want[f])), "{name}: thread {tid}");
    }
    let tid = |ix: kasuri_model::ThreadIx| i64::from(trace.threads[ix.ix()].tid);
    let moves = &trace.migrations;
    let got: Vec<[i64; 4]> = (0..moves.time.len())
        .map(|i| {
            let (from, to) = (i64::from(moves.from_cpu[i]), i64::from(moves.to_cpu[i]));
            [epoch + moves.time[i].0, tid(moves.thread[i]), from, to]
        })
        .collect();
    let rows = |name: &str| want["kernel"][name].as_array().unwrap().clone();
    let moved = rows("migrations");
    let moved: Vec<[i64; 4]> = moved.iter().map(|r| [0, 1, 2, 3].map(|c| int(&r[c]))).collect();
    assert_eq!(got, moved, "{name}: migrations");
    let wakes = &trace.wakeups;
    let got: Vec<[i64; 3]> = (0..wakes.time.len())
        .map(|i| [epoch + wakes.time[i].0, tid(wakes.wakee[i]), wakes.latency[i].ns().max(-1)])
        .collect();
    let woken = rows("wakeups");
    let woken: Vec<[i64; 3]> = woken.iter().map(|r| [0, 1, 2].map(|c| int(&r[c]))).collect();
    assert_eq!(got, woken, "{name}: wake-ups");
    for (tid, known) in want["kernel"]["known"].as_object().unwrap() {
        let tid: i32 = tid.parse().unwrap();
        let thread = trace.threads.iter().find(|t| t.tid == tid).unwrap();
        let process = &trace.processes[thread.process.ix()];
        assert_eq!(i64::from(process.pid), int(&known[0]), "{name}: process of {tid}");
        assert_eq!(trace.strings.get(thread.name), known[2].as_str().unwrap());
    }
    let calls = |prefix: &str| -> i64 {
        let names = want["by_name"].as_object().unwrap();
        let of = names.iter().filter(|(n, _)| n.starts_with(prefix));
        of.map(|(_, n)| int(n)).sum()
    };
    let spans = |kind| trace.kernel_spans.kind.iter().filter(|k| **k == kind).count() as i64;
    use kasuri_model::KernelSpanKind::*;
    assert_eq!(spans(Syscall), calls("syscall_entry_"), "{name}: system calls");
    assert_eq!(spans(Irq), calls("irq_handler_entry"), "{name}: interrupts");
    assert_eq!(spans(Softirq), calls("irq_softirq_entry"), "{name}: softirqs");
}

#[test]
fn kernel_traces_answer_as_babeltrace2_reads_them() {
    for name in ["kernel", "kernel-be", "kernel-large", "kernel-bt", "kernel-ctf2"] {
        kernel(name);
    }
}

/// Arguments by name.
type Args = BTreeMap<String, Value>;

/// Time, kind of fact, name.
type Key = (i64, &'static str, String);

/// What the model has at one instant of one thread.
struct Facts {
    /// Arguments, by thread.
    rows: BTreeMap<Key, Vec<(i32, Args)>>,
}

fn args(trace: &Trace, wanted: impl Fn(usize) -> bool) -> Args {
    let rows = (0..trace.args.name.len()).filter(|&row| wanted(row));
    rows.map(|row| {
        let value = match trace.args.value[row] {
            ArgValue::Int(n) => Value::from(n),
            ArgValue::Uint(n) => Value::from(n),
            ArgValue::Float(x) => Value::from(x),
            ArgValue::Str(text) => Value::from(trace.strings.get(text)),
        };
        (trace.strings.get(trace.args.name[row]).to_owned(), value)
    })
    .collect()
}

fn facts(trace: &Trace) -> Facts {
    let mut out = Facts { rows: BTreeMap::new() };
    let mut add =
        |time: kasuri_model::Time, what, name: &str, thread: kasuri_model::ThreadIx, args| {
            let key = (trace.origin_realtime_ns + time.0, what, name.to_owned());
            let tid = trace.threads[thread.ix()].tid;
            out.rows.entry(key).or_default().push((tid, args));
        };
    for i in 0..trace.instants.time.len() {
        let own = args(trace, |row| trace.args.instant[row] == InstantIx(i as u32));
        let name = trace.strings.get(trace.instants.name[i]);
        add(trace.instants.time[i], "instant", name, trace.instants.thread[i], own);
    }
    let s = &trace.slices;
    for i in 0..s.start.len() {
        let own = args(trace, |row| trace.args.slice[row] == SliceIx(i as u32));
        let (what_begin, what_end, name) = match s.kind[i] {
            SliceKind::LockWait => ("request", "got", format!("{:#x}", s.object[i])),
            SliceKind::LockHold => ("acquired", "released", format!("{:#x}", s.object[i])),
            _ => ("begin", "end", trace.strings.get(s.name[i]).to_owned()),
        };
        add(s.start[i], what_begin, &name, s.thread[i], own.clone());
        add(s.end[i], what_end, &name, s.thread[i], own.clone());
        if what_end == "end" {
            add(s.end[i], "any end", "", s.thread[i], own);
        }
    }
    out
}

/// What an event of that name must have become; the rest of its fields are arguments.
fn fact_of(
    name: &str,
    fields: &mut BTreeMap<String, Value>,
    has_thread: bool,
) -> (&'static str, String) {
    let address = |fields: &mut BTreeMap<String, Value>, field: &str| {
        format!("{:#x}", fields.remove(field).unwrap().as_u64().unwrap())
    };
    match name {
        "lttng_ust_tracef:event" => ("instant", take_text(fields, "msg")),
        _ if name.starts_with("lttng_ust_tracelog:") => ("instant", take_text(fields, "msg")),
        _ if !has_thread => ("instant", name.to_owned()),
        "golden:work_begin" => ("begin", "golden:work".into()),
        "golden:work_end" => ("end", "golden:work".into()),
        "lttng_ust_cyg_profile_fast:func_entry" => ("begin", address(fields, "addr")),
        "lttng_ust_cyg_profile_fast:func_exit" => ("any end", String::new()),
        "lttng_ust_pthread:pthread_mutex_lock_req" => ("request", address(fields, "mutex")),
        "lttng_ust_pthread:pthread_mutex_lock_acq" => ("acquired", address(fields, "mutex")),
        "lttng_ust_pthread:pthread_mutex_unlock" => ("released", address(fields, "mutex")),
        _ => ("instant", name.to_owned()),
    }
}

fn take_text(fields: &mut BTreeMap<String, Value>, name: &str) -> String {
    fields.remove(name).unwrap().as_str().unwrap().to_owned()
}

/// Whether every field is there with its value. Numbers are compared as numbers.
fn has_all(got: &BTreeMap<String, Value>, want: &BTreeMap<String, Value>) -> bool {
    let same = |a: &Value, b: &Value| {
        a == b || (a.is_number() && b.is_number() && a.as_f64() == b.as_f64())
    };
    want.iter().all(|(name, value)| got.get(name).is_some_and(|v| same(v, value)))
}

/// A golden of user-space events: each event's stamp, thread and fields.
fn user(name: &str) -> Trace {
    let trace = read(&golden(name), false).unwrap();
    check(&trace);
    let want = expected(name);
    let facts = facts(&trace);
    let events = want["user"].as_array().unwrap();
    assert_eq!(events.len() as i64, int(&want["events"]));
    for event in events {
        let (time, tid) = (int(&event[0]), event[2].as_i64());
        let fields = event[4].as_object().unwrap().clone();
        let mut fields: BTreeMap<String, Value> = fields.into_iter().collect();
        let (what, fact) = fact_of(event[1].as_str().unwrap(), &mut fields, tid.is_some());
        if matches!(what, "request" | "acquired" | "released") {
            // The status says that it went well, which the fact says too.
            fields.remove("status");
        }
        // An end whose beginning was lost has no slice that could have arguments.
        if what == "end" && int(&want["discarded_events"]) > 0 {
            fields.clear();
        }
        let found = facts.rows.get(&(time, what, fact.clone()));
        let found = found.is_some_and(|all| {
            all.iter().any(|(thread, args)| {
                tid.is_none_or(|tid| tid == i64::from(*thread)) && has_all(args, &fields)
            })
        });
        assert!(
            found,
            "{name}: {what} {fact} of {event}, found {:?}",
            facts.rows.get(&(time, what, fact.clone()))
        );
    }
    let lost: u64 = trace.losses.iter().map(|l| l.count).sum();
    assert_eq!(lost as i64, int(&want["discarded_events"]), "{name}: discarded");
    trace
}

#[test]
fn user_space_events_have_their_stamps_and_fields() {
    for name in ["ust", "ust-ctf2", "ust-rotated"] {
        let trace = user(name);
        let process = trace.processes.iter().find(|p| trace.strings.get(p.name) == "golden");
        assert!(process.is_some(), "{name}: the process has its name");
    }
    let lossy = user("ust-lossy");
    assert!(lossy.losses.iter().any(|l| l.cause == "ring buffer full" && l.count > 0));
}

#[test]
fn events_without_a_thread_stand_on_a_track_of_their_stream() {
    let trace = user("ust-pid");
    assert!(trace.threads.iter().any(|t| t.tid < 0));
    assert_eq!(trace.slices.start.len(), 0, "no slices of mixed threads");
    assert!(trace.info.missing.iter().any(|m| m.contains("vtid")), "{:?}", trace.info.missing);
    let names: Vec<&str> = trace.processes.iter().map(|p| trace.strings.get(p.name)).collect();
    assert!(names.contains(&"golden"), "{names:?}");
}

#[test]
fn every_type_of_ctf_2_at_odd_places() {
    user("types-ctf2");
}

/// Traces whose every cut is tried: small, and of all kinds of heads.
const CUT: [&str; 3] = ["kernel-be", "ust-pid", "types-ctf2"];

fn survives(files: &[(String, Vec<u8>)], what: &str) {
    for salvage in [false, true] {
        match read(files, salvage) {
            Ok(trace) => {
                if salvage {
                    check(&trace);
                }
            }
            Err(error) => {
                let text = error.to_string();
                // Where nothing says that it is CTF, the whole file is the place.
                let has_place =
                    text.contains("byte ") || text.contains("needed a kasuri recording");
                assert!(has_place, "{what}: a place: {text}");
            }
        }
    }
}

/// Each file cut at many places: all of the first 512 bytes and of the last 64, others by steps.
#[test]
fn cut_files_are_errors_with_a_place_or_keep_what_is_whole() {
    for name in CUT {
        let whole = golden(name);
        for ix in 0..whole.len() {
            let len = whole[ix].1.len();
            let step = if std::env::var_os("KASURI_ALL_CUTS").is_some() { 1 } else { 499 };
            for at in (0..len).filter(|at| *at < 100 || at % step == 0 || len - at < 16) {
                let mut files = whole.clone();
                files[ix].1.truncate(at);
                survives(&files, &format!("{name}/{} cut at {at}", files[ix].0));
            }
        }
    }
}

#[test]
fn flipped_bits_never_panic_or_hang() {
    let step = if std::env::var_os("KASURI_ALL_CUTS").is_some() { 1 } else { 251 };
    for name in CUT {
        let whole = golden(name);
        for ix in 0..whole.len() {
            let len = whole[ix].1.len();
            for at in (0..len).filter(|at| *at < 100 || at % step == 0) {
                let mut files = whole.clone();
                files[ix].1[at] ^= 1 << (at % 8);
                survives(&files, &format!("{name}/{} flipped at {at}", files[ix].0));
            }
        }
    }
}

#[test]
fn salvage_keeps_what_lies_before_the_damage() {
    let mut files = golden("kernel-large");
    let stream = files.iter_mut().find(|f| f.0 == "channel0_0").unwrap();
    let n = stream.1.len();
    stream.1.truncate(n - 100);
    assert!(read(&files, false).is_err());
    let trace = read(&files, true).unwrap();
    check(&trace);
    assert!(trace.losses.iter().any(|l| l.cause.contains("channel0_0")), "{:?}", trace.losses);
    assert!(trace.wakeups.time.len() > 50);
}

/// The packets of a stream file of the golden `kernel`: a head of 32 bytes, then begin, end, bits of content, bits with padding.
fn packets(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut at = 0;
    let mut out = Vec::new();
    while at < bytes.len() {
        let bits = u64::from_le_bytes(bytes[at + 56..at + 64].try_into().unwrap());
        assert!(bits > 0);
        out.push(at..at + bits as usize / 8);
        at += bits as usize / 8;
    }
    out
}

/// LTTng writes out the last packets when the session is destroyed: what ran last did not run until then.
#[test]
fn the_span_is_that_of_the_events_however_late_packets_are_written_out() {
    let whole = golden("kernel");
    let mut late = whole.clone();
    let mut n = 0;
    for (_, bytes) in late.iter_mut().filter(|f| f.0.starts_with("channel")) {
        let last = packets(bytes).last().unwrap().start;
        let end = &mut bytes[last + 40..last + 48];
        let later = u64::from_le_bytes((&*end).try_into().unwrap()) + 20_000_000_000;
        end.copy_from_slice(&later.to_le_bytes());
        n += 1;
    }
    assert!(n > 1);
    let (whole, late) = (read(&whole, false).unwrap(), read(&late, false).unwrap());
    assert_eq!(late.span, whole.span);
    assert_eq!(late.states.start, whole.states.start);
    assert_eq!(late.states.state, whole.states.state);
}

/// LTTng of 2013 read the clock for a packet's end after it had begun the next: some microseconds of both. babeltrace2 2.0
/// takes the begin for a step back and stops there (a sample of Trace Compass, `synctraces`); the events are all in order.
#[test]
fn packets_that_begin_before_the_one_before_ends_are_read_whole() {
    let whole = golden("kernel-large");
    let mut overlapping = whole.clone();
    let mut n = 0;
    for (_, bytes) in overlapping.iter_mut().filter(|f| f.0.starts_with("channel")) {
        for pair in packets(bytes).windows(2) {
            let begin = &bytes[pair[1].start + 32..pair[1].start + 40];
            let end = u64::from_le_bytes(begin.try_into().unwrap()) + 1_500;
            bytes[pair[0].start + 40..pair[0].start + 48].copy_from_slice(&end.to_le_bytes());
            n += 1;
        }
    }
    assert!(n > 1);
    let (whole, overlapping) = (read(&whole, false).unwrap(), read(&overlapping, false).unwrap());
    assert_eq!(overlapping.span, whole.span);
    assert_eq!(overlapping.states.start, whole.states.start);
    assert_eq!(overlapping.states.state, whole.states.state);
    assert_eq!(overlapping.losses.len(), whole.losses.len());
}

/// A CPU whose last packets are missing (a crash, a full disk) ran something after them, and nobody knows what.
#[test]
fn a_cpu_whose_packets_end_early_is_unknown_until_the_end() {
    let mut files = golden("kernel");
    let whole = read(&files, false).unwrap();
    files.retain(|f| f.0 != "channel1_1");
    let (_, bytes) = files.iter_mut().find(|f| f.0 == "channel0_1").unwrap();
    let of_file = packets(bytes);
    assert!(of_file.len() > 1);
    bytes.truncate(of_file[of_file.len() / 2].start);
    let cut = read(&files, false).unwrap();
    check(&cut);
    assert_eq!(cut.span, whole.span);
    let last = |trace: &Trace, cpu: usize| {
        let row = trace.cpus[cpu].occupancy.end as usize - 1;
        let on = &trace.occupancy;
        (on.start[row], on.thread[row].is_some() || on.idle[row])
    };
    assert_eq!(last(&cut, 0), last(&whole, 0));
    assert!(last(&whole, 1).1);
    let (since, is_known) = last(&cut, 1);
    assert!(!is_known && since < last(&whole, 1).0, "{since:?}");
}

#[test]
fn metadata_without_stream_files_is_refused_and_says_what_lacks() {
    for name in ["kernel", "ust", "ust-ctf2"] {
        let whole = golden(name);
        let is_metadata = |path: &str| path.rsplit('/').next() == Some("metadata");
        let alone: Vec<_> = whole.iter().filter(|(path, _)| is_metadata(path)).cloned().collect();
        assert!(alone.len() < whole.len());
        let emptied: Vec<_> = (whole.iter().cloned())
            .map(|(path, bytes)| match is_metadata(&path) {
                true => (path, bytes),
                false => (path, Vec::new()),
            })
            .collect();
        for files in [&alone, &emptied] {
            for salvage in [false, true] {
                let error = read(files, salvage).unwrap_err().to_string();
                assert!(error.contains("beside it no file that is not empty"), "{name}: {error}");
                assert!(error.contains("copy the whole directory"), "{name}: {error}");
            }
        }
    }
}
