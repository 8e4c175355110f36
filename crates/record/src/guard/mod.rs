//! Protection against hostile programs and users: the recorder often runs as root, beside programs that it must not trust.
//!
//! | module | does |
//! |---|---|
//! | [`safefs`] | files in directories that others may write |
//! | `sigbus` | mapped files that their owner may cut |
//! | `foreign` | removing directories in which others may have put files |
//! | `apart` | work that may never end |
//! | `reader` | other processes' memory, mappings and files, read by a process that may hang |
//! | `held` | how long programs may have been held up by that |
//! | `place` | where a thread waits |
//! | `bounds` | how much a session can make the recorder use |
pub(crate) mod apart;
pub(crate) mod bounds;
pub(crate) mod foreign;
pub(crate) mod held;
pub(crate) mod place;
pub(crate) mod reader;
pub mod safefs;
pub(crate) mod sigbus;
