//! Named points at which a test kills this process, to see what a crash leaves behind.
//!
//! `KASURI_TEST_KILL=free:3` sends SIGKILL at the third passing of the point `free`. Debug builds only:
//! a release build has no trace of it.

/// Dies here when the test says so.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub(crate) fn point(_name: &str) {}

/// Dies here when the test says so.
#[cfg(debug_assertions)]
pub(crate) fn point(name: &str) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};
    static WANTED: OnceLock<Option<(String, u64)>> = OnceLock::new();
    static PASSED: AtomicU64 = AtomicU64::new(0);
    let wanted = WANTED.get_or_init(|| {
        let text = std::env::var("KASURI_TEST_KILL").ok()?;
        let (name, count) = text.split_once(':').unwrap_or((&text, "1"));
        Some((name.to_owned(), count.parse().ok()?))
    });
    if let Some((at, count)) = wanted
        && at == name
        && PASSED.fetch_add(1, Ordering::Relaxed) + 1 == *count
    {
        let _ =
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}
