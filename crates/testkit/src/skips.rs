//! The one way to say that a test cannot run here.
use crate::{say, test_name};

/// Who must have what a test lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Every machine that runs all tests: `make deps-test` installs it, `make c` builds it, or it is root's.
    Everywhere,
    /// A property of the machine, its kernel or its hypervisor, which a CI machine may lack as well.
    Machine,
}

/// Says why a test cannot run here, though it must where everything runs; [`skip_for`] with [`Need::Everywhere`].
///
/// # Panics
/// With `CI=true`: there it must run.
pub fn skip(why: &str) {
    skip_for(Need::Everywhere, why);
}

/// Says why a test cannot run here, on standard error and in the file that `KASURI_SKIPPED` names. The test then returns.
///
/// # Panics
/// With `CI=true`, if it must run everywhere; if that file cannot be written.
pub fn skip_for(need: Need, why: &str) {
    let is_ci = std::env::var("CI").as_deref() == Ok("true");
    assert!(!is_ci || need == Need::Machine, "cannot be skipped in CI: {why}");
    say(&format!("skipped: {}: {why}", test_name()), "KASURI_SKIPPED");
}
