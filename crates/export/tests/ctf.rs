//! CTF out and in again: what both sides hold is the same; and babeltrace2 reads it without a word of complaint.
use kasuri_export::ctf::{Version, write};
use kasuri_import::{File, Options, load};
use kasuri_model::Trace;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

type Files = Rc<RefCell<BTreeMap<String, Vec<u8>>>>;

/// A file that is kept in memory.
struct Memory(Files, String);

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut files = self.0.borrow_mut();
        files.entry(self.1.clone()).or_default().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn golden(name: &str) -> Trace {
    fn collect(dir: &Path, out: &mut Vec<(String, Vec<u8>)>) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => collect(&path, out),
                false => out.push((path.display().to_string(), std::fs::read(path).unwrap())),
            }
        }
    }
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/ctf");
    let mut files = Vec::new();
    collect(&dir.join(name), &mut files);
    read(&files.into_iter().collect())
}

fn read(files: &BTreeMap<String, Vec<u8>>) -> Trace {
    let files: Vec<File<'_>> = files.iter().map(|(name, bytes)| File { name, bytes }).collect();
    let options = Options { keeps_events: true, ..Options::default() };
    load(&files, &options).unwrap()
}

fn export(trace: &Trace, version: Version) -> BTreeMap<String, Vec<u8>> {
    let files = Files::default();
    let to = files.clone();
    let done = write(trace, version, &mut |name| Ok(Box::new(Memory(to.clone(), name.to_owned()))));
    assert!(done.unwrap().records > 10);
    files.take()
}

fn tids(trace: &Trace, column: &[kasuri_model::ThreadIx]) -> Vec<i32> {
    column.iter().map(|t| trace.threads.get(t.ix()).map_or(0, |t| t.tid)).collect()
}

fn names<'a>(trace: &'a Trace, column: &[kasuri_model::StrIx]) -> Vec<&'a str> {
    column.iter().map(|&n| trace.strings.get(n)).collect()
}

fn same(name: &str, a: &Trace, b: &Trace) {
    assert_eq!(a.span, b.span, "{name}");
    assert_eq!(a.origin_realtime_ns, b.origin_realtime_ns, "{name}");
    assert_eq!(a.occupancy.start, b.occupancy.start, "{name}: switches");
    assert_eq!(tids(a, &a.occupancy.thread), tids(b, &b.occupancy.thread), "{name}");
    assert_eq!(a.wakeups.time, b.wakeups.time, "{name}: wake-ups");
    assert_eq!(a.wakeups.latency, b.wakeups.latency, "{name}: wake-ups");
    assert_eq!(tids(a, &a.wakeups.waker), tids(b, &b.wakeups.waker), "{name}: wakers");
    assert_eq!(tids(a, &a.wakeups.wakee), tids(b, &b.wakeups.wakee), "{name}: wakees");
    assert_eq!(a.migrations.time, b.migrations.time, "{name}: migrations");
    assert_eq!(tids(a, &a.migrations.thread), tids(b, &b.migrations.thread), "{name}");
    let threads = |t: &Trace| -> Vec<(i32, u32, u32, u32)> {
        let row = |t: &kasuri_model::Thread| (t.tid, t.switches_in, t.switches_out, t.preemptions);
        let mut rows: Vec<_> = t.threads.iter().map(row).collect();
        rows.sort();
        rows
    };
    assert_eq!(threads(a), threads(b), "{name}: threads");
    let spans = |t: &Trace| (t.kernel_spans.start.clone(), t.kernel_spans.end.clone());
    assert_eq!(spans(a), spans(b), "{name}: spans in the kernel");
    assert_eq!(names(a, &a.kernel_spans.name), names(b, &b.kernel_spans.name), "{name}");
    let slices = |t: &Trace| -> Vec<_> {
        let s = &t.slices;
        let row = |i: usize| (s.start[i], s.end[i], s.depth[i], s.kind[i], s.object[i], s.open[i]);
        (0..s.start.len()).map(row).collect()
    };
    for (a, b) in slices(a).into_iter().zip(slices(b)) {
        assert_eq!(a, b, "{name}: a slice");
    }
    assert_eq!(a.slices.start.len(), b.slices.start.len(), "{name}: slices");
    assert_eq!(names(a, &a.slices.name), names(b, &b.slices.name), "{name}: slices");
    assert_eq!(a.instants.time, b.instants.time, "{name}: instants");
    assert_eq!(names(a, &a.instants.name), names(b, &b.instants.name), "{name}: instants");
    assert_eq!(names(a, &a.args.name), names(b, &b.args.name), "{name}: arguments");
}

#[test]
fn what_both_sides_hold_comes_back() {
    for name in ["kernel", "kernel-large", "ust", "ust-pid", "types-ctf2"] {
        let first = golden(name);
        for version in [Version::V1_8, Version::V2] {
            let again = read(&export(&first, version));
            assert_eq!(again.broken_rules(), Vec::<String>::new());
            same(name, &first, &again);
        }
    }
}

fn scratch(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("kasuri-ctf-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    dir
}

#[test]
fn babeltrace2_reads_all_and_complains_of_nothing() {
    if Command::new("babeltrace2").arg("--version").output().is_err() {
        return kasuri_testkit::skip("babeltrace2 is not installed");
    }
    for name in ["kernel", "ust"] {
        let trace = golden(name);
        let dir = scratch(name);
        for (file, bytes) in export(&trace, Version::V1_8) {
            let path = dir.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
        let out = Command::new("babeltrace2").arg(&dir).output().unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
        assert!(out.status.success());
        assert_eq!(String::from_utf8_lossy(&out.stderr), "", "{name}");
        let text = String::from_utf8(out.stdout).unwrap();
        let count = |event: &str| text.lines().filter(|l| l.contains(event)).count();
        match name {
            "kernel" => assert_eq!(
                count(" sched_waking:") + count(" sched_wakeup_new:"),
                trace.wakeups.time.len()
            ),
            _ => assert_eq!(count(" kasuri:instant:"), trace.instants.time.len()),
        }
    }
}
