//! What can be wrong with a recording once its bytes were understood.

/// Why a recording could not be turned into columns.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes are damaged: the file and offset are in the message.
    #[error(transparent)]
    Format(#[from] kasuri_format::Error),
    /// More rows than a 32-bit index can name.
    #[error("more than {max} {what} in one recording")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// The most one recording can hold.
        max: u32,
    },
}
