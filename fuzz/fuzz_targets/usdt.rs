#![no_main]
#[path = "../src/usdt.rs"]
mod driver;
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    driver::usdt(bytes);
});
