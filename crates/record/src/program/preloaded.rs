//! Libraries of Kasuri that `kasuri try` puts in front of a program, and that record nothing.
use super::preload::{self, Probe};
use crate::error::Result;
use std::ffi::OsString;
use std::path::PathBuf;

pub(super) const WHATIF: Probe = Probe {
    file: "libkasuri-whatif.so",
    variable: "KASURI_WHATIF_LIBRARY",
    folder: "probes/whatif",
    option: "try --what-if",
};

pub(super) const MUTEX: Probe = Probe {
    file: "libkasuri-mutex.so",
    variable: "KASURI_MUTEX_LIBRARY",
    folder: "probes/mutex",
    option: "try",
};

/// The library with other ways to wait for a mutex.
///
/// # Errors
/// When it is nowhere.
pub fn mutex() -> Result<PathBuf> {
    MUTEX.library()
}

/// The variable that puts the library of virtual speed-up in front of a program, and of what its environment preloads already.
///
/// # Errors
/// When the library is nowhere.
pub fn whatif() -> Result<(OsString, OsString)> {
    let mut variables = Vec::new();
    preload::add(&mut variables, WHATIF.library()?);
    Ok(variables.pop().expect("one was added"))
}
