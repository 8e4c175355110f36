//! Libraries that the loader puts in front of the program's own: the lock probe's, the OpenMP probe's, ito's.
use crate::error::{Error, Result};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The loader's variable.
const PRELOAD: &str = "LD_PRELOAD";

/// Where a probe's library is found.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    /// File name.
    pub file: &'static str,
    /// Environment variable that names the file.
    pub variable: &'static str,
    /// Its folder in the build tree, below `build`.
    pub folder: &'static str,
    /// The command and the option that load it.
    pub option: &'static str,
}

impl Probe {
    /// The library: named by its variable, beside the command, installed with it, or in the build tree around it.
    ///
    /// # Errors
    /// When it is in none of these places.
    pub fn library(&self) -> Result<PathBuf> {
        let not_found = |tried| Error::NoProbe {
            file: self.file,
            variable: self.variable,
            option: self.option,
            tried,
        };
        if let Some(named) = std::env::var_os(self.variable) {
            return usable(PathBuf::from(&named))
                .ok_or_else(|| not_found(named.to_string_lossy().into_owned()));
        }
        let command = std::env::current_exe()
            .and_then(|path| path.canonicalize())
            .map_err(|e| Error::system("find this command's own file", e))?;
        let mut tried = Vec::new();
        for place in self.places(&command) {
            tried.push(place.display().to_string());
            if let Some(found) = usable(place) {
                return Ok(found);
            }
        }
        Err(not_found(tried.join(", ")))
    }

    /// Candidates, the likeliest first. `command` is BIN/kasuri, or target/release/kasuri, or target/debug/deps/TEST.
    fn places(&self, command: &Path) -> Vec<PathBuf> {
        let folders = folders(command, Path::new(self.folder)).into_iter();
        folders.map(|folder| folder.join(self.file)).collect()
    }
}

/// Where `make install` and the build leave what belongs to `command`; `in_build`: below the build tree.
pub fn folders(command: &Path, in_build: &Path) -> Vec<PathBuf> {
    let Some(bin) = command.parent() else {
        return Vec::new();
    };
    let mut folders = vec![bin.to_owned()];
    if let Some(prefix) = bin.parent() {
        let multiarch = format!("lib/{}-linux-gnu", std::env::consts::ARCH);
        for lib in ["lib", "lib64", &multiarch] {
            folders.push(prefix.join(lib).join("kasuri"));
        }
    }
    let target = bin.ancestors().find(|p| p.file_name() == Some(OsStr::new("target")));
    if let Some(root) = target.and_then(Path::parent) {
        folders.push(root.join("build").join(in_build));
    }
    folders
}

/// Puts a library in front of those that the program's environment preloads already.
pub fn add(variables: &mut Vec<(OsString, OsString)>, library: PathBuf) {
    let mut preload = library.into_os_string();
    let ours = variables.iter().position(|(name, _)| name == PRELOAD);
    let others = match ours {
        Some(at) => Some(variables.remove(at).1),
        None => std::env::var_os(PRELOAD).filter(|text| !text.is_empty()),
    };
    if let Some(others) = others {
        preload.push(":");
        preload.push(others);
    }
    variables.push((PRELOAD.into(), preload));
}

/// LD_PRELOAD separates names by spaces and colons, so a path with one of these cannot be used.
fn usable(path: PathBuf) -> Option<PathBuf> {
    let path = path.canonicalize().ok()?;
    let text = path.as_os_str().as_encoded_bytes();
    (path.is_file() && !text.iter().any(|byte| b" :".contains(byte))).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROBE: Probe = Probe {
        file: "libprobe.so",
        variable: "KASURI_NO_SUCH_LIBRARY",
        folder: "probes/some",
        option: "--some",
    };

    #[test]
    fn the_library_is_looked_for_beside_the_command_installed_and_built() {
        let found = PROBE.places(Path::new("/opt/k/bin/kasuri"));
        assert_eq!(found[0], Path::new("/opt/k/bin/libprobe.so"));
        assert_eq!(found[1], Path::new("/opt/k/lib/kasuri/libprobe.so"));
        let built = Path::new("/src/k/build/probes/some/libprobe.so").to_path_buf();
        let found = PROBE.places(Path::new("/src/k/target/release/kasuri"));
        assert!(found.contains(&built));
        let found = PROBE.places(Path::new("/src/k/target/debug/deps/cli-123"));
        assert!(found.contains(&built));
    }

    #[test]
    fn what_is_added_later_comes_first() {
        let mut variables = vec![("LD_PRELOAD".into(), "/a.so".into())];
        add(&mut variables, PathBuf::from("/b.so"));
        assert_eq!(variables, [("LD_PRELOAD".into(), "/b.so:/a.so".into())]);
    }

    #[test]
    fn what_is_not_found_says_where_it_was_looked_for() {
        let error = PROBE.library().unwrap_err().to_string();
        assert!(error.contains("libprobe.so") && error.contains("--some"), "{error}");
    }
}
