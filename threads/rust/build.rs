//! Compiles libito into this crate: no library to install. The list of sources is that of threads/CMakeLists.txt.
use std::path::Path;

fn main() {
    let list = std::fs::read_to_string("../CMakeLists.txt").expect("threads/CMakeLists.txt");
    let (_, sources) =
        list.split_once("set(ito_sources").expect("ito_sources in threads/CMakeLists.txt");
    let (sources, _) = sources.split_once(')').expect("the end of ito_sources");
    let mut build = cc::Build::new();
    for source in sources.split_whitespace() {
        build.file(Path::new("..").join(source));
    }
    build
        .file("src/shim.c")
        .include("../include")
        .include("../src")
        .include("../../annotate/include")
        .include("../../probes/common")
        .std("gnu11")
        .opt_level(2)
        .define("NDEBUG", None)
        .warnings(false);
    if std::env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "x86_64") {
        build.flag("-mno-red-zone");
    }
    build.compile("ito");
    println!("cargo::rustc-link-lib=pthread");
    for folder in [
        "../src",
        "../include",
        "src/shim.c",
        "../CMakeLists.txt",
        "../../annotate/include/kasuri.h",
    ] {
        println!("cargo::rerun-if-changed={folder}");
    }
}
