//! One error for everything that reads bytes: what, where, found, needed, remedy.
//!
//! ```text
//! block header: byte 4096: found magic 0, needed "KBLK"; <remedy>
//! ```
//! The parts are separate fields, because callers add what they know: the path of the file, an offset counted from the start
//! of the file instead of the slice, a remedy. [`ErrorKind`] is for decisions (salvage a damaged file, try another
//! format), never for messages.
use std::borrow::Cow;

/// `Result` with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The way in which bytes were wrong; for callers that decide by it, not for messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Another kind of file altogether: wrong magic, empty.
    Foreign,
    /// Ours, but of a version this code does not know.
    Version,
    /// The bytes end too early.
    Truncated,
    /// A checksum, length or reference is wrong.
    Damaged,
    /// A claimed size is beyond what Kasuri writes; refused before memory is taken.
    Limit,
    /// The caller asked for what is not there: a block of another kind, an unknown column.
    Absent,
}

/// Why bytes could not be read. Callers that know the file's path put it in front.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{what}: byte {offset}: found {found}, needed {needed}{}{remedy}", if remedy.is_empty() { "" } else { "; " })]
pub struct Error {
    /// In which way.
    pub kind: ErrorKind,
    /// The thing that was being read.
    pub what: Cow<'static, str>,
    /// Offset of the error: bytes from the start of the file (of the slice given, where that is all that is known).
    pub offset: u64,
    /// The bytes or value found there.
    pub found: Cow<'static, str>,
    /// The bytes or value expected there.
    pub needed: Cow<'static, str>,
    /// The remedy for the user; empty when there is none.
    pub remedy: Cow<'static, str>,
}

impl Error {
    /// An error of that kind.
    pub fn new(
        kind: ErrorKind,
        what: impl Into<Cow<'static, str>>,
        offset: u64,
        found: impl Into<Cow<'static, str>>,
        needed: impl Into<Cow<'static, str>>,
    ) -> Error {
        Error {
            kind,
            what: what.into(),
            offset,
            found: found.into(),
            needed: needed.into(),
            remedy: Cow::Borrowed(""),
        }
    }

    /// A checksum, length or reference is wrong.
    pub fn damaged(
        what: impl Into<Cow<'static, str>>,
        offset: u64,
        found: impl Into<Cow<'static, str>>,
        needed: impl Into<Cow<'static, str>>,
    ) -> Error {
        Error::new(ErrorKind::Damaged, what, offset, found, needed)
    }

    /// `have` bytes are left where `need` are needed.
    pub fn truncated(
        what: impl Into<Cow<'static, str>>,
        offset: u64,
        have: u64,
        need: u64,
    ) -> Error {
        Error::new(
            ErrorKind::Truncated,
            what,
            offset,
            format!("{have} bytes"),
            format!("{need} bytes"),
        )
    }

    /// An error for something that was asked for and is absent.
    pub fn absent(
        what: impl Into<Cow<'static, str>>,
        found: impl Into<Cow<'static, str>>,
        needed: impl Into<Cow<'static, str>>,
    ) -> Error {
        Error::new(ErrorKind::Absent, what, 0, found, needed)
    }

    /// The same error with a remedy.
    pub fn remedy(mut self, remedy: impl Into<Cow<'static, str>>) -> Error {
        self.remedy = remedy.into();
        self
    }

    /// The same error with its offset counted from `base` bytes earlier.
    pub fn offset_by(mut self, base: u64) -> Error {
        self.offset = self.offset.saturating_add(base);
        self
    }
}
