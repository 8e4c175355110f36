//! The compilers that `kasuri-annotate` has plugins for.
use super::preload;
use crate::guard::safefs::Held;
use std::path::Path;

/// "gcc 12", "clang 14": each plugin fits one version. Empty: none is installed.
pub fn annotating() -> Vec<String> {
    let command = std::env::current_exe().and_then(|path| path.canonicalize());
    let folders = command.map(|c| preload::folders(&c, Path::new("compilers")));
    let mut found = folders.unwrap_or_default().into_iter().map(|f| plugins(&f));
    found.find(|f| !f.is_empty()).unwrap_or_default()
}

/// Most files of a folder that are looked at.
const MOST_FILES: usize = 65_536;

fn plugins(folder: &Path) -> Vec<String> {
    let names = Held::open(folder).and_then(|held| held.names(MOST_FILES));
    let names = names.unwrap_or_default();
    let mut found: Vec<(&str, u32)> = names.iter().filter_map(|name| plugin(name)).collect();
    found.sort_unstable_by(|a, b| (b.0, a.1).cmp(&(a.0, b.1)));
    let text = |(compiler, version)| format!("{compiler} {version}");
    found.into_iter().map(text).collect()
}

/// `libkasuri-annotate-gcc-12.so` -> gcc, 12.
fn plugin(file: &str) -> Option<(&'static str, u32)> {
    let name = file.strip_prefix("libkasuri-annotate-")?;
    let (kind, version) = name.strip_suffix(".so")?.split_once('-')?;
    let compiler = match kind {
        "gcc" => "gcc",
        "llvm" => "clang",
        _ => return None,
    };
    Some((compiler, version.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins_are_known_by_their_names() {
        let dir = tempfile::tempdir().unwrap();
        assert!(plugins(dir.path()).is_empty());
        assert!(plugins(&dir.path().join("none")).is_empty());
        for version in ["llvm-9", "gcc-12", "llvm-14", "gcc-9", "rustc-1", "gcc-x", "gcc"] {
            let file = format!("libkasuri-annotate-{version}.so");
            std::fs::write(dir.path().join(file), "").unwrap();
        }
        std::fs::write(dir.path().join("libkasuri-auto.a"), "").unwrap();
        assert_eq!(plugins(dir.path()), ["gcc 9", "gcc 12", "clang 9", "clang 14"]);
    }
}
