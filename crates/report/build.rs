//! Finds the built viewer, which the HTML report embeds.
use std::path::Path;

fn main() {
    let template = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../viewer/dist/viewer.html");
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
