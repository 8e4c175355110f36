//! Protection against hostile programs and users: the recorder often runs as root, beside programs that it must not trust.
//!
//! | module | does |
//! |---|---|
//! | [`safefs`] | files in directories that others may write |
//! | `sigbus` | mapped files that their owner may cut |
//! | `foreign` | removing directories in which others may have put files |
//! | `apart` | work that may never end |
//! | `bounds` | how much a session can make the recorder use |
pub(crate) mod apart;
pub(crate) mod bounds;
pub(crate) mod foreign;
pub mod safefs;
pub(crate) mod sigbus;
