//! A pprof export read back by `kasuri` shows the same flame graphs, to the nanosecond, for each thread.
mod common;
use common::*;
use kasuri_analyze::call_paths::{Flame, FlameOptions, flame};
use kasuri_model::Trace;

fn again(trace: &Trace) -> Trace {
    let mut bytes = Vec::new();
    kasuri_export::pprof::write(trace, &mut bytes).unwrap();
    let bytes = kasuri_import::unpack("run.pb.gz", &bytes).unwrap();
    let file = kasuri_import::File {
        name: "run.pb.gz",
        bytes: &bytes,
    };
    kasuri_import::load(&[file], &kasuri_import::Options::default()).unwrap()
}

fn flames(trace: &Trace) -> Vec<Flame> {
    let mut out = Vec::new();
    for (blocked, tid) in [
        (false, None),
        (true, None),
        (false, Some(100)),
        (true, Some(101)),
    ] {
        let options = FlameOptions {
            blocked,
            tid,
            ..FlameOptions::default()
        };
        out.push(flame(trace, &options));
    }
    out
}

#[test]
fn pprof_export_read_back_has_the_same_times() {
    let trace = sampled();
    let read = again(&trace);
    let (before, after) = (flames(&trace), flames(&read));
    assert_eq!(before, after);
    assert_eq!([before[0].ns, before[1].ns], [1400, 200]);
    assert!(before[0].unsampled_ns > 0 && before[0].nodes.len() > 3);
    let names = |trace: &Trace| {
        let mut names: Vec<(i32, String, i32, String)> = (trace.threads.iter())
            .filter(|t| trace.processes[t.process.ix()].is_target)
            .map(|t| {
                let process = &trace.processes[t.process.ix()];
                let name = |row| trace.strings.get(row).to_owned();
                (t.tid, name(t.name), process.pid, name(process.name))
            })
            .collect();
        names.sort_unstable();
        names
    };
    assert_eq!(names(&trace), names(&read));
    // And once more: nothing that the format holds is lost on the way.
    assert_eq!(flames(&again(&read)), after);
}
