//! The live sums against the model's columns, on traces that trace-cmd made (tests/golden/trace-dat): the same events, two readings.
use kasuri_format::trace_dat::TraceDat;
use kasuri_import::{File, Options, load};
use kasuri_live::{Live, Window};
use kasuri_model::{ThreadState, Trace};
use std::collections::HashMap;
use std::path::Path;

fn bytes(name: &str) -> Vec<u8> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/trace-dat");
    std::fs::read(dir.join(name)).unwrap()
}

/// Follows the main buffer, closing a window every `window_ns`.
fn follow(bytes: &[u8], window_ns: u64) -> Vec<Window> {
    let trace = TraceDat::parse(bytes).unwrap();
    let buffer = trace.buffers.iter().find(|b| b.name.is_empty()).unwrap();
    let mut meta = trace.page_meta(buffer);
    meta.formats = trace.formats.clone();
    let layout = kasuri_format::tracefs::PageLayout::from_meta(&meta).unwrap();
    let cpus: Vec<u32> = buffer.cpus.iter().map(|cpu| cpu.cpu).collect();
    let mut pages = Vec::new();
    let (mut first, mut last) = (u64::MAX, 0);
    for (ix, cpu) in buffer.cpus.iter().enumerate() {
        for chunk in buffer.chunks(cpu, bytes, meta.big_endian) {
            for page in chunk.unwrap().pages.chunks_exact(layout.page_bytes) {
                let parsed = kasuri_format::tracefs::Page::parse(page, &layout, 0).unwrap();
                for event in parsed.events() {
                    let stamp = event.unwrap().stamp;
                    (first, last) = (first.min(stamp), last.max(stamp));
                }
                pages.push((ix, page.to_vec()));
            }
        }
    }
    let mut live = Live::new(&meta, &cpus, first).unwrap();
    for (cpu, page) in pages {
        live.push(cpu, page.into());
    }
    let mut windows = Vec::new();
    let mut end = first;
    while end < last {
        end = (end + window_ns).min(last);
        live.advance(end);
        windows.push(live.close(end));
    }
    windows
}

/// ns in some states, by tid; what the two call unknown is left out.
fn of_model(trace: &Trace, states: &[ThreadState]) -> HashMap<i32, u64> {
    let mut sums = HashMap::new();
    for (ix, thread) in trace.threads.iter().enumerate() {
        let rows = trace.states_of(kasuri_model::ThreadIx(ix as u32));
        for row in rows.filter(|row: &kasuri_model::StateRow| states.contains(&row.state)) {
            *sums.entry(thread.tid).or_default() += (row.end.0 - row.start.0) as u64;
        }
    }
    sums
}

fn of_live(windows: &[Window], ns: impl Fn(&kasuri_live::ThreadRow) -> u64) -> HashMap<i32, u64> {
    let mut sums = HashMap::new();
    for row in windows.iter().flat_map(|window| &window.threads) {
        *sums.entry(row.tid).or_default() += ns(row);
    }
    sums
}

fn check(name: &str, window_ns: u64) {
    let bytes = bytes(name);
    let trace = load(&[File { name, bytes: &bytes }], &Options::default()).unwrap();
    let windows = follow(&bytes, window_ns);
    let span = (trace.span.end.0 - trace.span.start.0) as u64;
    let close = |what: &str, model: HashMap<i32, u64>, live: HashMap<i32, u64>| {
        let all: u64 = model.values().sum();
        assert!(all > 0, "{name}: {what}: the trace has none");
        let mut apart = 0;
        for (tid, ns) in &model {
            apart += ns.abs_diff(live.get(tid).copied().unwrap_or(0));
        }
        // Threads that began before the trace, and hidden switches, are guessed with less care than the model takes.
        assert!(apart * 100 <= all, "{name}: {what}: {apart} ns of {all} apart, span {span}");
    };
    close(
        "running",
        of_model(&trace, &[ThreadState::Running]),
        of_live(&windows, |row| row.run_ns),
    );
    close(
        "ready",
        of_model(&trace, &[ThreadState::RunnableWoken, ThreadState::RunnablePreempted]),
        of_live(&windows, |row| row.wait.sum_ns()),
    );
}

#[test]
fn running_and_ready_are_those_of_the_model_whatever_the_windows() {
    for name in ["v7-none.dat", "v7-zstd.dat", "v6.dat"] {
        for window_ns in [u64::MAX / 2, 10_000_000] {
            check(name, window_ns);
        }
    }
}
