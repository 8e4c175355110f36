//! Traces of other tools, from their bytes to columns: trace.dat, perf.data, CTF, Perfetto, Chrome JSON, ftrace text.
use kasuri_import::{File, Kind, Options, load};
use kasuri_model::Trace;

/// Before each file of a trace that is a directory: this, the file's name, [`NAMED`].
const MARK: &[u8] = b"\n==> ";
/// After a file's name.
const NAMED: &[u8] = b" <==\n";

/// A directory that was written into one file, as `tail -c +1 *` prints it; none: the bytes are one file.
fn directory(bytes: &[u8]) -> Option<Vec<(String, &[u8])>> {
    let mut rest = bytes.strip_prefix(&MARK[1..])?;
    let find = |hay: &[u8], what: &[u8]| hay.windows(what.len()).position(|w| w == what);
    let mut files = Vec::new();
    while let Some(at) = find(rest, NAMED) {
        let name = String::from_utf8_lossy(&rest[..at]).into_owned();
        let content = &rest[at + NAMED.len()..];
        let end = find(content, MARK).unwrap_or(content.len());
        files.push((name, &content[..end]));
        rest = content.get(end + MARK.len()..).unwrap_or(&[]);
    }
    Some(files)
}

/// A trace by its content: an error, or columns that keep their rules. What is read without damage is the same with salvaging.
pub fn traces(bytes: &[u8]) {
    let parts = directory(bytes).unwrap_or_else(|| vec![("trace".to_string(), bytes)]);
    let files: Vec<File<'_>> = parts.iter().map(|(name, bytes)| File { name, bytes }).collect();
    let elsewhere = [Kind::Kasuri, Kind::Pprof, Kind::Firefox];
    match kasuri_import::detect(&files) {
        Some(kind) if !elsewhere.contains(&kind) => {}
        _ => return,
    }
    let read = |salvage| {
        let options = Options { salvage, threads: 1, ..Options::default() };
        load(&files, &options)
    };
    let rows = |trace: &Trace| {
        assert_eq!(trace.broken_rules(), Vec::<String>::new());
        let values: usize = trace.counters.iter().map(|c| c.time.len()).sum();
        (trace.states.start.len(), trace.slices.start.len(), trace.instants.time.len(), values)
    };
    let kept = read(true).map(|trace| rows(&trace));
    if let Ok(whole) = read(false) {
        assert_eq!(kept.ok(), Some(rows(&whole)));
    }
}
