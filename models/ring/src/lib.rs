//! The ring protocol of `annotate/include/kasuri.h`, small enough to check every schedule of it.
//!
//! Kinds of interleaving and their models:
//! - between threads (writer, recorder, second writer), under the C11 memory model: [`threads`], with loom;
//!   `RUSTFLAGS="--cfg loom" cargo test --release -p kasuri-model-ring --target-dir target/loom`
//! - between an emit and a reader that does not know how long its record is: [`lengths`], with loom;
//! - between an emit and the thread that gives its memory back: [`leaving`], with loom as well;
//! - between a thread and its own signal handlers, one instruction at a time: [`nested`], plain search; `cargo test`.
//!
//! Each order or line that the proof in docs/design/ring.md leans on can be broken by a flag; the tests show that the
//! model then fails.

#[cfg(loom)]
pub mod leaving;
#[cfg(loom)]
pub mod lengths;
pub mod nested;
#[cfg(loom)]
pub mod threads;
