//! Profiles of other tools, from their bytes to columns: pprof's and the Firefox Profiler's.
use kasuri_import::{File, Options, load};
use kasuri_model::Trace;

/// A profile by its content: an error, or columns that keep their rules. What is read without damage is the same with salvaging.
pub fn profiles(bytes: &[u8]) {
    let file = File { name: "profile", bytes };
    let is_profile = matches!(
        kasuri_import::detect(&[file]),
        Some(kasuri_import::Kind::Pprof | kasuri_import::Kind::Firefox)
    );
    if !is_profile {
        return;
    }
    let read = |salvage| {
        let options = Options { salvage, ..Options::default() };
        load(&[file], &options)
    };
    let rows = |trace: &Trace| {
        assert_eq!(trace.broken_rules(), Vec::<String>::new());
        let weights = trace.samples.weight.iter().map(|weight| weight.ns());
        let sum = weights.fold(0i64, |sum, ns| sum.checked_add(ns).expect("weights that add up"));
        (trace.samples.time.len(), trace.paths.frame.len(), sum)
    };
    let kept = read(true).map(|trace| rows(&trace));
    if let Ok(whole) = read(false) {
        assert_eq!(kept.ok(), Some(rows(&whole)));
    }
}
