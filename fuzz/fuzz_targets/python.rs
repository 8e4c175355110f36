#![no_main]
#![allow(dead_code, reason = "the reader's modules are the recorder's, which uses all of them")]
#[path = "../../crates/record/src/stacks/python/code.rs"]
mod code;
#[path = "../../crates/record/src/stacks/python/layout.rs"]
mod layout;
#[path = "../../crates/record/src/stacks/python/memory.rs"]
mod memory;
#[path = "../../crates/record/src/stacks/python/process.rs"]
mod process;

#[path = "../src/python.rs"]
mod driver;

use code::Types;
use layout::Layout;
use memory::{Page, Source};
use process::Reader;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    driver::read(bytes);
});
