#![no_main]
#[path = "../src/unwind.rs"]
mod driver;
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    driver::unwind(bytes);
});
