//! The columns that every golden file loads as, compared with those of the last version: a line for each table, with its number of rows and a
//! checksum of each column.
//!
//! Answers ([`answers.rs`](answers.rs)) read only some columns, and sums hide much; here no row changes unseen. A change that is meant is taken over
//! with `INSTA_UPDATE=always cargo test -p kasuri-cli --test it columns::`; which column it is says where to look.
use crate::fold::fold;
use kasuri_import as import;
use kasuri_model::Trace;
use std::fmt::{Debug, Write};
use std::path::{Path, PathBuf};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden")
}

/// All files at or below a path, with their names below it.
fn files(path: &Path, name: &str, out: &mut Vec<(String, Vec<u8>)>) {
    if !path.is_dir() {
        out.push((name.to_owned(), std::fs::read(path).expect("read")));
        return;
    }
    let mut entries: Vec<_> = std::fs::read_dir(path)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    entries.sort();
    for entry in entries {
        let below = entry.file_name().expect("a name").to_string_lossy();
        files(&entry, &format!("{name}/{below}"), out);
    }
}

fn load(path: &Path) -> Trace {
    // Kasuri's own golden recordings are whole, and must load without it.
    let salvages = path.extension().is_none_or(|e| e != "kasuri");
    load_on(path, salvages, 1).expect("columns")
}

/// The same, read by so many threads.
fn load_on(path: &Path, salvage: bool, threads: usize) -> Result<Trace, import::Error> {
    let mut all = Vec::new();
    files(path, "trace", &mut all);
    let unpacked: Vec<_> =
        all.iter().map(|(name, bytes)| import::unpack(name, bytes).expect("unpacked")).collect();
    let parts: Vec<_> = (all.iter().zip(&unpacked))
        .map(|((name, _), bytes)| import::File { name, bytes })
        .collect();
    let options = import::Options { salvage, keeps_events: true, threads, name_code: None };
    import::load(&parts, &options)
}

/// The checksum of a value's text.
fn sum(value: &impl Debug) -> u32 {
    crc32fast::hash(format!("{value:?}").as_bytes())
}

/// A line for a table: columns of the same length. Empty tables have none.
fn table(out: &mut String, name: &str, columns: &[(&str, usize, u32)]) {
    let n = columns[0].1;
    if n == 0 {
        return;
    }
    write!(out, "{name}: {n} rows").expect("written");
    for &(column, rows, sum) in columns {
        assert_eq!(rows, n, "{name}.{column}");
        write!(out, ", {column} {sum:08x}").expect("written");
    }
    out.push('\n');
}

/// A column of rows, by its text.
fn column<T: Debug>(name: &str, rows: impl IntoIterator<Item = T>) -> (&str, usize, u32) {
    let rows: Vec<T> = rows.into_iter().collect();
    (name, rows.len(), sum(&rows))
}

macro_rules! columns {
    ($out:ident, $trace:ident . $table:ident: $($column:ident)*) => {
        table(&mut $out, stringify!($table), &[$(column(stringify!($column), &$trace.$table.$column)),*]);
    };
}

/// The same of a table of structs.
macro_rules! rows {
    ($out:ident, $trace:ident . $table:ident: $($field:ident)*) => {
        let name = $trace.$table.iter().map(|row| $trace.strings.get(row.name));
        let fields = [column("name", name), $(column(stringify!($field), $trace.$table.iter().map(|row| &row.$field))),*];
        table(&mut $out, stringify!($table), &fields);
    };
}

/// Every column of a trace. Indices of strings are replaced by what they stand for where that is what is meant to stay.
fn text(trace: &Trace) -> String {
    let mut out = String::new();
    writeln!(out, "{}", fold(&format!("{:#?}", trace.info))).expect("written");
    writeln!(
        out,
        "from {:?} to {:?}, origin {} and {}, {} kernel events, {} annotations",
        trace.span.start,
        trace.span.end,
        trace.origin_monotonic_ns,
        trace.origin_realtime_ns,
        trace.n_kernel_events,
        trace.n_annotation_events
    )
    .expect("written");
    for cpu in &trace.cpus {
        writeln!(out, "{cpu:?}").expect("written");
    }
    rows!(out, trace.processes: pid parent is_target threads);
    rows!(out, trace.threads: process tid alive states slices slice_levels preemptions switches_out switches_in counted);
    let mut whole = |name: &str, rows: (&str, usize, u32)| table(&mut out, name, &[rows]);
    whole("strings", column("text", trace.strings.iter()));
    whole("tasks", column("all", &trace.tasks));
    whole("locks", column("all", &trace.locks));
    whole("inner_names", column("all", &trace.inner_names));
    let mut places: Vec<_> = trace.places.iter().collect();
    places.sort();
    whole("places", column("all", &places));
    columns!(out, trace.states: start state cpu by);
    columns!(out, trace.occupancy: start thread idle);
    columns!(out, trace.wakeups: time waker wakee cpu latency);
    columns!(out, trace.migrations: time thread from_cpu to_cpu);
    columns!(out, trace.slices: start end thread name depth parent kind task object open);
    columns!(out, trace.args: slice instant name value);
    columns!(out, trace.instants: time thread name);
    columns!(out, trace.flows: id name from_time from_thread to_time to_thread);
    columns!(out, trace.kernel_spans: kind start end cpu thread name);
    columns!(out, trace.lock_waits: thread start object site holder);
    columns!(out, trace.lock_counts: thread time object n);
    if !trace.task_edges.kind.is_empty() {
        columns!(out, trace.task_edges: kind time task on);
    }
    for counter in &trace.counters {
        let name = format!("counter {:?}", trace.strings.get(counter.name));
        let columns = [column("value", &counter.value), column("time", &counter.time)];
        table(&mut out, &name, &columns);
    }
    writeln!(out, "{:?}", trace.limits).expect("written");
    writeln!(out, "{}", fold(&format!("{:#?}", trace.losses))).expect("written");
    if let Some(log) = &trace.sched_events {
        writeln!(out, "sched_events: {:08x}", sum(log)).expect("written");
    }
    out
}

fn check(group: &str, name: &str) {
    let text = text(&load(&golden().join(group).join(name)));
    let mut settings = insta::Settings::new();
    settings.set_snapshot_path(golden().join("columns"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(format!("{group}-{name}"), text));
}

/// Also those that are damaged: the error is the same, and so is what was read before it.
#[test]
fn any_number_of_threads_reads_the_same() {
    let mut n_whole = 0;
    for group in ["kasuri", "perf_data", "trace-dat"] {
        for entry in std::fs::read_dir(golden().join(group)).expect("a directory") {
            let path = entry.expect("an entry").path();
            if !["kasuri", "data", "dat"]
                .map(|e| path.extension() == Some(e.as_ref()))
                .contains(&true)
            {
                continue;
            }
            let read = |threads| load_on(&path, false, threads).map(|trace| text(&trace));
            let read = |threads| read(threads).map_err(|error| error.to_string());
            let alone = read(1);
            n_whole += usize::from(alone.is_ok());
            for threads in [2, 3, 8] {
                assert_eq!(read(threads), alone, "{threads} threads, {path:?}");
            }
        }
    }
    assert!(n_whole > 15, "{n_whole}");
}

/// By another tool's writer, in another version of the format, in another order of bytes.
#[test]
fn the_same_trace_written_otherwise_has_the_same_columns() {
    let text = |name| text(&load(&golden().join("ctf").join(name))).replace("CTF 2", "CTF 1.8");
    for [one, other] in
        [["kernel", "kernel-bt"], ["kernel", "kernel-ctf2"], ["kernel-large", "kernel-be"]]
    {
        assert_eq!(text(one), text(other), "{one} and {other}");
    }
}

macro_rules! golden {
    ($($test:ident: $group:literal $($name:literal)*;)*) => {
        $(#[test]
        fn $test() {
            $(check($group, $name);)*
        })*
    };
}

golden! {
    recordings: "kasuri" "calls.kasuri" "locks.kasuri" "loops.kasuri" "mix.kasuri" "processes.kasuri" "tasks.kasuri";
    chrome: "chrome" "chromium.json.gz" "node.json" "viztracer.json.gz";
    ctf: "ctf" "kernel" "kernel-be" "types-ctf2" "ust" "ust-ctf2" "ust-lossy" "ust-pid" "ust-rotated";
    ftrace_text: "ftrace_text" "trace.txt";
    perf_data: "perf_data" "big-endian.data" "compressed.data" "mixed.data" "per-thread.data" "pipe.data" "sched.data" "switches.data" "task.data";
    perfetto: "perfetto" "chromium.pftrace" "sched.pftrace";
    pprof: "pprof" "cpu.pb.gz" "mutex.pb.gz";
    trace_dat: "trace-dat" "instances.dat" "lost.dat" "offset.dat" "tsc.dat" "v6.dat" "v7-none.dat";
}
