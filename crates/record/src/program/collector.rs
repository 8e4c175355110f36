//! The collector: programs that are annotated with ITT or NVTX load libkasuri-collector.so, whose name is in their environment.
use super::preload::Probe;
use crate::error::Result;
use std::ffi::OsString;

/// The library that takes annotations of both kinds.
pub(super) const LIBRARY: Probe = Probe {
    file: "libkasuri-collector.so",
    variable: "KASURI_COLLECTOR_LIBRARY",
    folder: "probes/collector",
    option: "record --itt, --nvtx",
};

/// What a program may be annotated with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Annotated {
    /// Intel's Instrumentation and Tracing Technology.
    Itt,
    /// NVIDIA's Tools Extension.
    Nvtx,
}

impl Annotated {
    fn name(self) -> &'static str {
        match self {
            Annotated::Itt => "ITT",
            Annotated::Nvtx => "NVTX",
        }
    }

    /// The variable in which a program looks for the library that wants its annotations.
    fn variable(self) -> &'static str {
        match self {
            Annotated::Itt => "INTEL_LIBITTNOTIFY64",
            Annotated::Nvtx => "NVTX_INJECTION64_PATH",
        }
    }

    fn option(self) -> &'static str {
        match self {
            Annotated::Itt => "--itt",
            Annotated::Nvtx => "--nvtx",
        }
    }
}

/// Adds the variable that the program's environment needs. Adds to `missing` why its annotations will not be seen.
///
/// # Errors
/// When the library is not found.
pub fn environment(
    with: Annotated,
    command: &[OsString],
    variables: &mut Vec<(OsString, OsString)>,
    missing: &mut Vec<String>,
) -> Result<()> {
    let (name, option, variable) = (with.name(), with.option(), with.variable());
    if command.is_empty() {
        missing.push(format!(
            "{name}: {option} works only for a program that kasuri starts: `kasuri record {option} -- PROGRAM`"
        ));
        return Ok(());
    }
    if let Some(other) = std::env::var_os(variable).filter(|text| !text.is_empty()) {
        missing.push(format!(
            "{name}: {variable} names another tool already, which is left alone: {}; `env -u {variable} kasuri record ...`",
            other.display()
        ));
        return Ok(());
    }
    variables.push((variable.into(), LIBRARY.library()?.into_os_string()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_running_process_cannot_be_given_the_collector() {
        for with in [Annotated::Itt, Annotated::Nvtx] {
            let (mut variables, mut missing) = (Vec::new(), Vec::new());
            environment(with, &[], &mut variables, &mut missing).unwrap();
            assert!(variables.is_empty());
            assert!(missing[0].contains(&format!("{} -- PROGRAM", with.option())));
        }
    }
}
