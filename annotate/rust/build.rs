//! Compiles the C client into this crate: no library to install.
fn main() {
    println!("cargo::rerun-if-changed=../src/kasuri.c");
    println!("cargo::rerun-if-changed=../include/kasuri.h");
    cc::Build::new()
        .file("../src/kasuri.c")
        .include("../include")
        .std("gnu11")
        .opt_level(2)
        .compile("kasuri");
}
