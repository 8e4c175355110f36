//! What the tests of all crates share: claims that are measured, skips, and things that are made once for all tests.
//!
//! | in | is |
//! |---|---|
//! | [`noise`] | whether this machine is quiet enough for a claim about time, and what becomes of the claim where it is not |
//! | [`skips`] | the one way to say that a test cannot run here |
//! | [`once`] | files that the first test process makes for all |
//! | [`schema`] | the published schemas of what commands print as JSON |
//!
//! Each test runs in a process of its own, so nothing in memory is shared: what must be counted goes to files.
pub mod noise;
pub mod once;
pub mod schema;
pub mod skips;

pub use noise::{Noise, measure, noise};
pub use once::made_once;
pub use skips::{Need, skip, skip_for};

use std::io::Write;

/// The running test, as the test program names it.
fn test_name() -> String {
    // The harness names a test's thread so.
    let thread = std::thread::current();
    thread.name().unwrap_or("a test").to_owned()
}

/// Prints the line, and appends it to the file that the variable names, if it names one.
fn say(line: &str, variable: &str) {
    eprintln!("{line}");
    let Some(path) = std::env::var_os(variable) else {
        return;
    };
    let file = std::fs::File::options().append(true).create(true).open(&path);
    // One write: other test processes append, too.
    let written = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
    written.unwrap_or_else(|e| panic!("{variable}={}: {e}", path.display()));
}
