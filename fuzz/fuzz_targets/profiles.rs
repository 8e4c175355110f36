#![no_main]
#[path = "../src/profiles.rs"]
mod driver;
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    driver::profiles(bytes);
});
