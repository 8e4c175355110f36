#![no_main]
#[path = "../src/symbols.rs"]
mod driver;
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    driver::symbols(bytes);
});
