//! The OpenMP probe: loads libkasuri-openmp.so into the program. Design: docs/design/openmp.md.
use super::locks::{find_program, is_dynamic};
use super::preload::{self, Probe};
use crate::error::Result;
use crate::guard::{safefs, sigbus::Guarded};
use std::ffi::OsString;
use std::path::Path;

pub(super) const PROBE: Probe = Probe {
    file: "libkasuri-openmp.so",
    variable: "KASURI_OPENMP_LIBRARY",
    folder: "probes/openmp",
    option: "record --openmp",
};

/// Adds the variables that the program's environment needs for the OpenMP probe; to `missing` what it cannot see.
///
/// # Errors
/// When the library is not found.
pub fn environment(
    command: &[OsString],
    variables: &mut Vec<(OsString, OsString)>,
    missing: &mut Vec<String>,
) -> Result<()> {
    if command.is_empty() {
        missing.push(
            "OpenMP: --openmp works only for a program that kasuri starts: `kasuri record --openmp -- PROGRAM`"
                .to_owned(),
        );
        return Ok(());
    }
    preload::add(variables, PROBE.library()?);
    variables.push(("KASURI_OPENMP".into(), "1".into()));
    if let Some(program) = find_program(&command[0])
        && is_static(&program)
    {
        missing.push(format!(
            "OpenMP of {}: it is statically linked, nothing can stand in front of its runtime; its call paths show where it spins",
            program.display()
        ));
    }
    Ok(())
}

/// Whether it is a program of this machine that names no loader. Scripts and what cannot be read are left to the loader.
fn is_static(program: &Path) -> bool {
    let file = safefs::open_regular(program).ok();
    let map = file.and_then(|file| Guarded::read_only(&file).ok());
    map.is_some_and(|map| {
        map.bytes().get(..6) == Some(b"\x7fELF\x02\x01") && !is_dynamic(map.bytes())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_running_process_cannot_be_given_the_probe() {
        let (mut variables, mut missing) = (Vec::new(), Vec::new());
        environment(&[], &mut variables, &mut missing).unwrap();
        assert!(variables.is_empty() && missing[0].contains("--openmp -- PROGRAM"));
        assert!(!is_static(&std::env::current_exe().unwrap()));
    }
}
