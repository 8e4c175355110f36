//! The lock probe: finds libkasuri-lock.so and names the locks that it will not see. Design: docs/design/probe.md.
use crate::error::{Error, Result};
use crate::options::LockProbe;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// File name of the probe's library.
pub const LIBRARY: &str = "libkasuri-lock.so";

/// Variables that the program's environment needs for the lock probe. Adds to `missing` the locks that the probe cannot see.
///
/// # Errors
/// When the library is not found.
pub fn environment(
    probe: LockProbe,
    command: &[OsString],
    missing: &mut Vec<String>,
) -> Result<Vec<(OsString, OsString)>> {
    if command.is_empty() {
        missing.push(
            "locks: --locks works only for a program that kasuri starts: `kasuri record --locks -- PROGRAM`"
                .to_owned(),
        );
        return Ok(Vec::new());
    }
    let library = library()?;
    if let Some(program) = find_program(&command[0])
        && let Some(why) = why_not(&program)
    {
        missing.push(why);
    }
    let mut preload = library.into_os_string();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|text| !text.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    Ok(vec![
        ("LD_PRELOAD".into(), preload),
        ("KASURI_LOCKS".into(), probe.name().into()),
    ])
}

/// The library: named by KASURI_LOCK_LIBRARY, beside the command, installed with it, or in the build tree around it.
///
/// # Errors
/// When it is in none of these places.
pub fn library() -> Result<PathBuf> {
    if let Some(named) = std::env::var_os("KASURI_LOCK_LIBRARY") {
        return usable(PathBuf::from(&named)).ok_or_else(|| Error::NoLockLibrary {
            tried: named.to_string_lossy().into_owned(),
        });
    }
    let command = std::env::current_exe()
        .and_then(|path| path.canonicalize())
        .map_err(|e| Error::system("find this command's own file", e))?;
    let mut tried = Vec::new();
    for place in places(&command) {
        tried.push(place.display().to_string());
        if let Some(found) = usable(place) {
            return Ok(found);
        }
    }
    Err(Error::NoLockLibrary {
        tried: tried.join(", "),
    })
}

/// Candidates, the likeliest first. `command` is BIN/kasuri, or target/release/kasuri, or target/debug/deps/TEST.
fn places(command: &Path) -> Vec<PathBuf> {
    let mut places = Vec::new();
    let Some(bin) = command.parent() else {
        return places;
    };
    places.push(bin.join(LIBRARY));
    if let Some(prefix) = bin.parent() {
        for lib in ["lib", "lib64"] {
            places.push(prefix.join(lib).join("kasuri").join(LIBRARY));
        }
        places.push(
            prefix
                .join("lib")
                .join(multiarch())
                .join("kasuri")
                .join(LIBRARY),
        );
    }
    let target = bin
        .ancestors()
        .find(|p| p.file_name() == Some(OsStr::new("target")));
    if let Some(root) = target.and_then(Path::parent) {
        places.push(root.join("build/probes/lock").join(LIBRARY));
    }
    places
}

fn multiarch() -> String {
    format!("{}-linux-gnu", std::env::consts::ARCH)
}

/// LD_PRELOAD separates names by spaces and colons, so a path with one of these cannot be used.
fn usable(path: PathBuf) -> Option<PathBuf> {
    let path = path.canonicalize().ok()?;
    let text = path.as_os_str().as_encoded_bytes();
    (path.is_file() && !text.iter().any(|byte| b" :".contains(byte))).then_some(path)
}

pub(crate) fn find_program(name: &OsStr) -> Option<PathBuf> {
    if name.as_encoded_bytes().contains(&b'/') {
        return Some(PathBuf::from(name));
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|dir| dir.join(name))
        .find(|file| file.is_file())
}

/// The reason why the loader will not put the probe in front of this program's locks; `None`: it will, or the file
/// does not show it.
fn why_not(program: &Path) -> Option<String> {
    let shown = program.display();
    let file = crate::guard::safefs::open_regular(program).ok()?;
    let mode = file.metadata().ok()?.permissions().mode();
    let map = crate::guard::sigbus::Guarded::read_only(&file).ok()?;
    let bytes = map.bytes();
    // Scripts, and formats of other machines, are left to the loader: this reads 64-bit little-endian ELF only.
    if bytes.get(..6) != Some(b"\x7fELF\x02\x01") {
        return None;
    }
    if !is_dynamic(bytes) {
        return Some(format!(
            "locks of {shown}: it is statically linked, nothing can stand in front of its locks; name its functions with \
             --lock-function LOCK,UNLOCK; --syscalls shows its futex calls"
        ));
    }
    let changes_user = mode & 0o6000 != 0 && rustix::process::geteuid().as_raw() != 0;
    changes_user.then(|| {
        format!(
            "locks of {shown}: it runs as another user (set-user-id), for which the loader ignores the probe; \
             run it as that user, under `sudo kasuri record --locks`"
        )
    })
}

/// Whether the program names a loader (PT_INTERP).
fn is_dynamic(elf: &[u8]) -> bool {
    const PT_INTERP: u32 = 3;
    let word = |at: usize, n: usize| -> Option<u64> {
        let bytes = elf.get(at..at + n)?;
        Some(bytes.iter().rev().fold(0, |v, &b| v << 8 | u64::from(b)))
    };
    let header = || {
        Some((
            word(32, 8)? as usize,
            word(54, 2)? as usize,
            word(56, 2)? as usize,
        ))
    };
    let Some((first, size, n)) = header() else {
        return true;
    };
    (0..n).any(|ix| word(first + ix * size, 4) == Some(u64::from(PT_INTERP)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_looked_for_beside_the_command_installed_and_built() {
        let found = places(Path::new("/opt/k/bin/kasuri"));
        assert_eq!(found[0], Path::new("/opt/k/bin").join(LIBRARY));
        assert_eq!(found[1], Path::new("/opt/k/lib/kasuri").join(LIBRARY));
        let found = places(Path::new("/src/k/target/release/kasuri"));
        assert!(found.contains(&Path::new("/src/k/build/probes/lock").join(LIBRARY)));
        let found = places(Path::new("/src/k/target/debug/deps/cli-123"));
        assert!(found.contains(&Path::new("/src/k/build/probes/lock").join(LIBRARY)));
    }

    #[test]
    fn a_running_process_cannot_be_given_the_probe() {
        let mut missing = Vec::new();
        let environment = environment(LockProbe::Full, &[], &mut missing).unwrap();
        assert!(environment.is_empty() && missing[0].contains("--locks -- PROGRAM"));
    }

    #[test]
    fn this_test_is_dynamic_and_scripts_are_not_judged() {
        assert_eq!(why_not(&std::env::current_exe().unwrap()), None);
        let script = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(script.path(), "#!/bin/sh\n").unwrap();
        assert_eq!(why_not(script.path()), None);
    }
}
