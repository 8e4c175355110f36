//! The lock probe: finds libkasuri-lock.so and names the locks that it will not see. Design: docs/design/probe.md.
use super::preload::{self, Probe};
use crate::error::Result;
use crate::options::LockProbe;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The probe's library.
pub(super) const PROBE: Probe = Probe {
    file: "libkasuri-lock.so",
    variable: "KASURI_LOCK_LIBRARY",
    folder: "probes/lock",
    option: "record --locks",
};

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
    let mut variables = vec![("KASURI_LOCKS".into(), probe.name().into())];
    preload::add(&mut variables, library);
    Ok(variables)
}

/// The library, see [`Probe::library`].
///
/// # Errors
/// When it is nowhere.
pub fn library() -> Result<PathBuf> {
    PROBE.library()
}

pub(crate) fn find_program(name: &OsStr) -> Option<PathBuf> {
    if name.as_encoded_bytes().contains(&b'/') {
        return Some(PathBuf::from(name));
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
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
pub(super) fn is_dynamic(elf: &[u8]) -> bool {
    const PT_INTERP: u32 = 3;
    let word = |at: usize, n: usize| -> Option<u64> {
        let bytes = elf.get(at..at + n)?;
        Some(bytes.iter().rev().fold(0, |v, &b| v << 8 | u64::from(b)))
    };
    let header = || Some((word(32, 8)? as usize, word(54, 2)? as usize, word(56, 2)? as usize));
    let Some((first, size, n)) = header() else {
        return true;
    };
    (0..n).any(|ix| word(first + ix * size, 4) == Some(u64::from(PT_INTERP)))
}

#[cfg(test)]
mod tests {
    use super::*;

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
