#![no_main]
#[path = "../src/traces.rs"]
mod driver;
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    driver::traces(bytes);
});
