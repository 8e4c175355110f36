//! Errors between rows and files.
use std::path::{Path, PathBuf};

/// A table could not be written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The destination.
    #[error("{}: {source}", path.display())]
    File {
        /// Which file or folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The destination, which has no name.
    #[error(transparent)]
    Write(#[from] std::io::Error),
    /// The Parquet encoder.
    #[error("parquet: {0}")]
    Parquet(#[from] ::parquet::errors::ParquetError),
}

/// Or why not.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn file(path: &Path) -> impl FnOnce(std::io::Error) -> Error + '_ {
        move |source| Error::File { path: path.to_path_buf(), source }
    }
}
