//! Exports of profiles, read back by `kasuri`, show the same flame graphs, to the nanosecond, for each thread.
use crate::common::*;
use kasuri_analyze::call_paths::{Flame, FlameOptions, flame};
use kasuri_model::Trace;

type Write = fn(&Trace, &mut Vec<u8>) -> std::io::Result<kasuri_export::Exported>;

const PPROF: Write = |trace, out| kasuri_export::pprof::write(trace, out);
const FIREFOX: Write = |trace, out| kasuri_export::firefox::write(trace, out);

fn again(trace: &Trace, write: Write) -> Trace {
    let mut bytes = Vec::new();
    write(trace, &mut bytes).unwrap();
    let bytes = kasuri_import::unpack("run", &bytes).unwrap();
    let file = kasuri_import::File { name: "run", bytes: &bytes };
    kasuri_import::load(&[file], &kasuri_import::Options::default()).unwrap()
}

/// Of the program's threads, and of two of them.
fn flames(trace: &Trace) -> Vec<Flame> {
    let mut out = Vec::new();
    for (blocked, tid) in [(false, None), (true, None), (false, Some(100)), (true, Some(101))] {
        let options = FlameOptions { blocked, tid, ..FlameOptions::default() };
        out.push(flame(trace, &options));
    }
    out
}

fn comes_back(write: Write) {
    let trace = sampled();
    let read = again(&trace, write);
    let (before, after) = (flames(&trace), flames(&read));
    assert_eq!(before, after);
    assert_eq!([before[0].ns, before[1].ns], [1400, 200]);
    assert!(before[0].unsampled_ns > 0 && before[0].nodes.len() > 3);
    let names = |trace: &Trace| {
        let mut names: Vec<(i32, String, i32)> = (trace.threads.iter())
            .filter(|t| trace.processes[t.process.ix()].pid == 100)
            .map(|t| {
                let process = &trace.processes[t.process.ix()];
                let name = trace.strings.get(t.name).to_owned();
                (t.tid, name, process.pid)
            })
            .collect();
        names.sort_unstable();
        names
    };
    assert_eq!(names(&trace), names(&read));
    // And once more: nothing that the format holds is lost on the way.
    assert_eq!(flames(&again(&read, write)), after);
}

#[test]
fn pprof_export_read_back_has_the_same_times() {
    comes_back(PPROF);
}

#[test]
fn firefox_export_read_back_has_the_same_times() {
    comes_back(FIREFOX);
    // Moments are kept too: a part of the range is the same.
    let part = FlameOptions {
        options: kasuri_analyze::Options {
            range: Some(kasuri_model::Time(500)..kasuri_model::Time(1000)),
            ..kasuri_analyze::Options::default()
        },
        tid: Some(100),
        ..FlameOptions::default()
    };
    let trace = sampled();
    assert_eq!(flame(&trace, &part), flame(&again(&trace, FIREFOX), &part));
}
