//! Errors of a recording whose bytes were understood.

/// Why a recording could not be turned into columns.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A source of events met damage; the error that it reported, which names the place.
    #[error(transparent)]
    Source(Box<dyn std::error::Error + Send + Sync>),
    /// More rows than a 32-bit index can name.
    #[error("more than {max} {what} in one recording")]
    TooMany {
        /// The rows of which there are too many.
        what: &'static str,
        /// The most one recording can hold.
        max: u32,
    },
}

impl Error {
    /// Of a source of events.
    pub fn source(error: impl std::error::Error + Send + Sync + 'static) -> Error {
        Error::Source(Box::new(error))
    }
}
