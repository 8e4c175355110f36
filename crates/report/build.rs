//! Finds the built viewer, which the HTML report embeds.
use std::path::Path;

fn main() {
    // Asked now, not when this was compiled: builds of several trees may share one target folder.
    let here = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where the crate is");
    let template = Path::new(&here).join("../../viewer/dist/viewer.html");
    println!("cargo::rerun-if-changed={}", template.display());
    if !template.is_file() {
        println!(
            "cargo::error=the HTML viewer is not built: {} is missing; run `make viewer` first",
            template.display()
        );
        return;
    }
    println!("cargo::rustc-env=KASURI_VIEWER_HTML={}", template.display());
}
