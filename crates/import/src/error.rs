//! Errors of reading a trace.
//!
//! A reader reports damaged bytes as [`kasuri_format::Error`], which has the byte offset, what was found, what was
//! needed, and a remedy. This crate adds the file's name. Damage that appears only while the passes pull events
//! travels through `kasuri_model::Error`; [`Error::kind`] looks through both wrappings.

/// Why a trace could not be turned into columns.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Damaged, or of a version that is not read.
    #[error("{file}: {error}")]
    Format {
        /// The file's name.
        file: String,
        /// The kind of damage, its offset, and a remedy.
        error: Box<kasuri_format::Error>,
    },
    /// The columns could not be built. Damage found while events were read is here too.
    #[error(transparent)]
    Model(#[from] kasuri_model::Error),
    /// No reader knows the content.
    #[error("{file}: {looks}")]
    Unknown {
        /// The file's name.
        file: String,
        /// What it looks like, and what was needed: the rest of a sentence.
        looks: String,
    },
    /// A compressed file grows beyond what is sensible.
    #[error("{file}: unpacks to more than {}; unpack it by hand if it is no bomb", size(*.limit))]
    TooLarge {
        /// The file's name.
        file: String,
        /// Bytes.
        limit: u64,
    },
    /// A compressed file that cannot be unpacked.
    #[error("{file}: cannot be unpacked: {error}")]
    Unpack {
        /// The file's name.
        file: String,
        /// Why not.
        error: std::io::Error,
    },
}

/// Wraps damage for a source of events, whose errors are the model's.
pub(crate) fn source(error: kasuri_format::Error) -> kasuri_model::Error {
    kasuri_model::Error::source(error)
}

/// A limit in words.
fn size(bytes: u64) -> String {
    match bytes {
        0..10_000_000 => format!("{bytes} bytes"),
        _ => format!("{} MB", bytes / 1_000_000),
    }
}

impl Error {
    /// An error in the bytes of `file`.
    pub fn format(file: &str, error: kasuri_format::Error) -> Error {
        Error::Format { file: file.to_owned(), error: Box::new(error) }
    }

    /// No reader knows these files. The message says what the first one looks like.
    pub fn unknown(files: &[crate::File<'_>]) -> Error {
        let first = files.first().copied().unwrap_or_default();
        let mut looks = crate::looks(&first);
        // A question is an answer.
        if !looks.ends_with('?') {
            let known = crate::known().join(", ");
            looks += &format!("; needed a kasuri recording or a trace of one of: {known}");
        }
        Error::Unknown { file: first.name.to_owned(), looks }
    }

    /// The kind of damage, if the bytes are at fault.
    pub fn kind(&self) -> Option<kasuri_format::ErrorKind> {
        match self {
            Error::Format { error, .. } => Some(error.kind),
            Error::Model(kasuri_model::Error::Source(error)) => {
                let error = error.downcast_ref::<kasuri_format::Error>();
                error.map(|error| error.kind)
            }
            _ => None,
        }
    }
}
