//! Damage done to a file on purpose: it may be an error, it must not be a panic, and what is read keeps its rules.
use kasuri_import::{File, Options, load};

fn survives(name: &str, bytes: &[u8], what: &str) {
    for salvage in [false, true] {
        let file = File { name, bytes };
        match load(&[file], &Options { salvage, ..Options::default() }) {
            Ok(trace) => {
                let problems = trace.broken_rules();
                assert!(problems.is_empty(), "{what}: {problems:?}");
            }
            // The command adds the file's name to errors that are met while events are read.
            Err(error) => assert!(!error.to_string().is_empty(), "{what}"),
        }
    }
}

/// The file cut behind every `step`th byte.
pub fn cut_everywhere(name: &str, bytes: &[u8], step: usize) {
    for at in (0..bytes.len()).step_by(step) {
        survives(name, &bytes[..at], &format!("{name} cut at {at}"));
    }
}

/// The file with every `step`th byte turned over, or with its highest or lowest bit.
pub fn flip_everywhere(name: &str, bytes: &[u8], step: usize) {
    let mut bytes = bytes.to_vec();
    for at in (0..bytes.len()).step_by(step) {
        for mask in [0xff, 0x80, 0x01] {
            bytes[at] ^= mask;
            survives(name, &bytes, &format!("{name} with {mask:#x} at {at}"));
            bytes[at] ^= mask;
        }
    }
}
