//! How often what is to be made once was made: for tests.
use std::cell::Cell;

/// What is made once.
#[derive(Clone, Copy)]
pub(crate) enum Built {
    /// [`crate::call_paths::Cover`].
    Cover,
    /// What samples say of threads.
    Sampled,
    /// [`crate::account::Account`].
    Account,
    /// Acquisitions of locks.
    Acquisitions,
}

thread_local! {
    static BUILT: Cell<[u32; 4]> = const { Cell::new([0; 4]) };
}

/// Counts one that this thread makes.
pub(crate) fn count(what: Built) {
    let mut built = BUILT.get();
    built[what as usize] += 1;
    BUILT.set(built);
}

/// How often this thread made a cover, what samples say of it, an account, and acquisitions: for tests.
#[doc(hidden)]
pub fn built() -> [u32; 4] {
    BUILT.get()
}
