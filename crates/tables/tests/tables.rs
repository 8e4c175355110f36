//! Tables of planted runs, with the rows worked out by hand; files read back.
mod planted;

use ::parquet::file::reader::{FileReader, SerializedFileReader};
use ::parquet::record::Field;
use kasuri_tables::{Source, TABLES, Type, Values, dataset, parquet, queries, table};
use planted::planted;
use std::collections::BTreeMap;

/// A table's rows as text, NULL for what is missing.
fn rows(name: &str, source: &Source<'_>) -> Vec<BTreeMap<&'static str, String>> {
    let table = table(name).unwrap();
    let mut out = Vec::new();
    table
        .read(source, &mut |batch| {
            for row in 0..batch.n_rows() {
                let cell = |at: usize| {
                    let data = &batch.columns()[at];
                    if !data.is_valid(row) {
                        return "NULL".to_string();
                    }
                    match &data.values {
                        Values::BigInt(v) => v[row].to_string(),
                        Values::Integer(v) => v[row].to_string(),
                        Values::Double(v) => v[row].to_string(),
                        Values::Boolean(v) => v[row].to_string(),
                        Values::Varchar(v) => data.text(v[row]).to_string(),
                    }
                };
                let names = table.columns.iter().map(|c| c.name);
                out.push(names.enumerate().map(|(at, n)| (n, cell(at))).collect());
            }
            Ok(())
        })
        .unwrap();
    out
}

/// The named columns of each row.
fn picked(name: &str, columns: &[&str]) -> Vec<String> {
    let trace = planted();
    let source = Source::new(&trace, BTreeMap::new());
    let row = |row: BTreeMap<&str, String>| {
        let cells: Vec<&str> = columns.iter().map(|c| row[c].as_str()).collect();
        cells.join(" ")
    };
    rows(name, &source).into_iter().map(row).collect()
}

/// Thread 10 runs 0..3000, 5000..6000 and from 7000 on; a sample at 1000 and one at 8000 stand at 1000 and 5000 of its own time, so
/// that the first has all up to 3000 of it.
#[test]
fn samples_have_weights_paths_and_names() {
    use kasuri_model::*;
    let mut trace = planted();
    let (mangled, module) =
        (trace.strings.intern("_ZN4work3runEv"), trace.strings.intern("/bin/planted"));
    let none = StrIx::NONE;
    trace.frames = CodeFrames {
        function: vec![mangled, none],
        module: vec![module; 2],
        file: vec![module, none],
        line: vec![7, 0],
        address: vec![0, 0x12],
        kind: vec![FrameKind::Inlined, FrameKind::Native],
    };
    trace.paths.caller = vec![PathIx::NONE, PathIx(0), PathIx(0)];
    trace.paths.frame = vec![FrameIx(1), FrameIx(0), FrameIx(0)];
    let at = trace.threads.iter().position(|t| t.tid == 10).unwrap();
    let thread = ThreadIx(at as u32);
    // Short threads of one name share samples.
    trace.threads[at].name = trace.strings.intern("alone");
    trace.samples = Samples {
        time: vec![Time(1000), Time(8000)],
        thread: vec![thread; 2],
        cpu: vec![0, u16::MAX],
        kind: vec![SampleKind::OnCpu; 2],
        is_complete: vec![true, false],
        path: vec![PathIx(1), PathIx::NONE],
        weight: Vec::new(),
    };
    assert_eq!(trace.broken_rules(), Vec::<String>::new());
    let source = Source::new(&trace, BTreeMap::new());
    let of = |name: &str, columns: &[&str]| -> Vec<String> {
        let cells = |row: BTreeMap<&str, String>| {
            columns.iter().map(|c| row[c].clone()).collect::<Vec<_>>().join(" ")
        };
        rows(name, &source).into_iter().map(cells).collect()
    };
    let on_cpu: i64 = trace
        .states_of(thread)
        .filter(|r| r.state == ThreadState::Running)
        .map(|r| (r.end - r.start).ns())
        .sum();
    assert_eq!(
        of("sample", &["tid", "time_ns", "cpu", "kind", "weight_ns", "is_complete", "path_id"]),
        [
            "10 1000 0 on_cpu 3000 true 1".to_string(),
            format!("10 8000 NULL on_cpu {} false NULL", on_cpu - 3000),
        ]
    );
    // Path 2 is nobody's, and path 0 only a caller's.
    assert_eq!(of("stack_frame", &["path_id", "depth", "frame_id"]), ["1 0 0", "1 1 1"]);
    assert_eq!(
        of("frame", &["frame_id", "function", "readable", "module", "line", "address", "kind"]),
        [
            "0 _ZN4work3runEv work::run() /bin/planted 7 NULL inlined",
            "1 NULL NULL /bin/planted NULL 18 native",
        ]
    );
}

#[test]
fn slices_have_their_time_on_a_cpu() {
    // "step" 200..9500 of 10: off the CPU 3000..5000 and 6000..7000; of 11 1000..9000: off 2500..8100.
    let expected = ["10 step work 200 9500 9300 6300 0", "11 step work 1000 9000 8000 2400 0"];
    let columns = ["tid", "name", "kind", "start_ns", "end_ns", "dur_ns", "on_cpu_ns", "depth"];
    let got = picked("slice", &columns);
    let work: Vec<_> = got.iter().filter(|r| r.contains(" work ")).collect();
    assert_eq!(work, expected.iter().collect::<Vec<_>>());
}

#[test]
fn states_name_who_took_the_cpu() {
    let columns = ["tid", "state", "start_ns", "end_ns", "cpu", "by_thread_id"];
    let got = picked("thread_state", &columns);
    let preempted: Vec<_> = got.iter().filter(|r| r.contains("preempted")).collect();
    let by = picked("thread", &["thread_id", "tid"]);
    let hog = by.iter().find(|r| r.ends_with(" 99")).unwrap().split(' ').next().unwrap();
    // The other two are the last switch, at the end of the recording.
    assert_eq!(preempted.len(), 3);
    assert_eq!(*preempted[0], format!("10 preempted 3000 5000 0 {hog}"));
}

#[test]
fn locks_are_one_row_each_and_acquisitions_refer_to_them() {
    let columns = [
        "name",
        "object",
        "address",
        "source",
        "threads",
        "holds",
        "contended",
        "wait_ns",
        "hold_ns",
    ];
    // a: held by 10 1000..8000 and 9000..9300, by 11 8100..8600; 11 waited 2400..8100.
    assert_eq!(
        picked("lock", &columns),
        ["a 160 0xa0 annotation 2 3 1 5700 7800", "b 176 0xb0 annotation 1 1 0 0 100"]
    );
    let holds = picked(
        "lock_hold",
        &["lock_id", "tid", "start_ns", "dur_ns", "on_cpu_ns", "preempted_ns", "blocked_ns"],
    );
    assert_eq!(
        holds,
        [
            "0 10 1000 7000 4000 2000 1000",
            "0 10 9000 300 300 0 0",
            "1 10 9100 100 100 0 0",
            "0 11 8100 500 500 0 0",
        ]
    );
    let waits = picked("lock_wait", &["lock_id", "tid", "start_ns", "dur_ns", "acquired"]);
    assert_eq!(waits, ["0 10 900 100 true", "0 11 2400 5700 true"]);
}

#[test]
fn wakeups_have_their_latency() {
    let columns = ["time_ns", "tid", "latency_ns"];
    assert_eq!(picked("wakeup", &columns), ["7000 10 0", "8000 11 100"]);
}

#[test]
fn the_account_adds_up_to_the_capacity() {
    let trace = planted();
    let source = Source::new(&trace, BTreeMap::new());
    let sum: i64 = rows("account", &source).iter().map(|r| r["ns"].parse::<i64>().unwrap()).sum();
    let run = &rows("run", &source)[0];
    assert_eq!(run["capacity_ns"], "20000");
    assert_eq!(sum, 20_000);
}

#[test]
fn events_are_in_time_order_and_hold_every_table_that_has_them() {
    let trace = planted();
    let source = Source::new(&trace, BTreeMap::new());
    let events = rows("event", &source);
    let times: Vec<i64> = events.iter().map(|e| e["time_ns"].parse().unwrap()).collect();
    assert!(times.is_sorted());
    let count = |kind: &str| events.iter().filter(|e| e["kind"] == kind).count();
    assert_eq!(count("wakeup"), trace.wakeups.time.len());
    assert_eq!(count("begin"), trace.slices.start.len());
    assert_eq!(count("end"), trace.slices.start.len());
    let switches = trace.occupancy.start.len() - 2;
    assert_eq!(count("switch"), switches);
    assert_eq!(count("counter"), 2);
    let ids: Vec<&str> = events.iter().map(|e| e["event_id"].as_str()).collect();
    assert_eq!(ids[0], "0");
    assert_eq!(ids.len(), events.len());
}

#[test]
fn ids_that_are_referred_to_exist() {
    let trace = planted();
    let source = Source::new(&trace, BTreeMap::new());
    for t in TABLES {
        let own = format!("{}_id", t.name);
        let all = rows(t.name, &source);
        for (column, table) in [
            ("thread_id", "thread"),
            ("by_thread_id", "thread"),
            ("waker_thread_id", "thread"),
            ("process_id", "process"),
            ("lock_id", "lock"),
            ("slice_id", "slice"),
        ] {
            if column == own || !t.columns.iter().any(|c| c.name == column) {
                continue;
            }
            let n = rows(table, &source).len();
            for row in all.iter().filter(|r| r[column] != "NULL") {
                assert!(row[column].parse::<usize>().unwrap() < n, "{}.{column}", t.name);
            }
        }
    }
}

#[test]
fn parquet_files_hold_what_the_tables_do() {
    let trace = planted();
    let labels = BTreeMap::from([("commit".to_string(), "1a2b\"3c".to_string())]);
    let source = Source::new(&trace, labels);
    let dir = tempfile::tempdir().unwrap();
    let key = dataset::Key { machine: "host 1".into(), run: "night/7=x".into() };
    for packing in [parquet::Packing::Small, parquet::Packing::Fast] {
        dataset::write(dir.path(), &key, &source, TABLES, packing, 0o644).unwrap();
        assert_eq!(dataset::tables_in(dir.path()).len(), TABLES.len());
        for t in TABLES {
            let path = dir
                .path()
                .join(t.name)
                .join("machine=host%201/run=night%2F7%3Dx")
                .join(format!("{}.parquet", t.name));
            let reader = SerializedFileReader::new(std::fs::File::open(&path).unwrap()).unwrap();
            let expected = rows(t.name, &source);
            let mut n = 0;
            for (row, expected) in reader.get_row_iter(None).unwrap().zip(&expected) {
                for (name, field) in row.unwrap().get_column_iter() {
                    let text = match field {
                        Field::Null => "NULL".into(),
                        Field::Bool(v) => v.to_string(),
                        Field::Int(v) => v.to_string(),
                        Field::Long(v) => v.to_string(),
                        Field::Double(v) => v.to_string(),
                        Field::Str(v) => v.clone(),
                        other => panic!("{}.{name}: {other:?}", t.name),
                    };
                    assert_eq!(text, expected[name.as_str()], "{}.{name}", t.name);
                }
                n += 1;
            }
            assert_eq!(n, expected.len(), "{}", t.name);
            assert_eq!(reader.metadata().file_metadata().num_rows() as usize, n);
        }
    }
}

#[test]
fn csv_quotes_what_needs_it() {
    let trace = planted();
    let labels = BTreeMap::from([
        ("a,b".to_string(), "say \"so\"".to_string()),
        ("empty".to_string(), String::new()),
    ]);
    let source = Source::new(&trace, labels);
    let dir = tempfile::tempdir().unwrap();
    let written = dataset::write_csv(dir.path(), &source, TABLES, 0o644).unwrap();
    assert_eq!(written.files, TABLES.len() as u64);
    let text = std::fs::read_to_string(dir.path().join("label.csv")).unwrap();
    assert_eq!(text, "key,value\n\"a,b\",\"say \"\"so\"\"\"\nempty,\"\"\n");
    let waits = std::fs::read_to_string(dir.path().join("lock_wait.csv")).unwrap();
    assert_eq!(waits.lines().nth(1), Some("0,0,0,10,10,900,1000,100,100,true,&a,"));
}

#[test]
fn names_are_those_of_sql_and_documented() {
    let mut seen = std::collections::BTreeSet::new();
    for t in TABLES {
        assert!(seen.insert(t.name) && !t.doc().is_empty(), "{}", t.name);
        let mut columns = std::collections::BTreeSet::new();
        for c in t.columns {
            assert!(columns.insert(c.name) && !c.doc().is_empty(), "{}.{}", t.name, c.name);
            assert!(!["machine", "run"].contains(&c.name), "{}: the folders' names", t.name);
            let is_time = c.name.ends_with("_ns") || c.name == "ns";
            assert_eq!(is_time, c.unit == "ns", "{}.{}", t.name, c.name);
            assert!(!is_time || c.ty == Type::BigInt, "{}.{}", t.name, c.name);
        }
    }
    for q in queries::QUERIES {
        // What a query needs is found by the words of its text: none of them may be the name of another query.
        let words = q.sql().split(|c: char| !c.is_alphanumeric() && c != '_');
        let others = words.filter(|w| queries::query(w).is_some());
        assert_eq!(others.count(), 0, "{} mentions a query", q.name);
        assert!(seen.insert(q.name) && !q.doc().is_empty() && !q.sql().is_empty(), "{}", q.name);
    }
}

#[test]
fn symbols_have_both_names() {
    let mut trace = planted();
    trace.strings.intern("_ZN4work5queueE");
    let source = Source::new(&trace, BTreeMap::new());
    let rows = rows("symbol", &source);
    let names: Vec<_> = rows.iter().map(|r| (&r["name"][..], &r["demangled"][..])).collect();
    assert_eq!(names, [("_ZN4work5queueE", "work::queue")]);
}

#[test]
fn docs_sql_is_what_the_code_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/sql.md");
    let text = std::fs::read_to_string(path).unwrap();
    let reference = kasuri_tables::markdown();
    let head = text.split("## Tables\n").next().unwrap();
    if std::env::var_os("KASURI_BLESS").is_some() {
        std::fs::write(path, format!("{head}{reference}")).unwrap();
        return;
    }
    assert!(
        text == format!("{head}{reference}"),
        "docs/sql.md is old: KASURI_BLESS=1 cargo test -p kasuri-tables docs_sql"
    );
}
