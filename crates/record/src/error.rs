//! Errors of a recording. Each message names the action and its object, then the system's error or a remedy.
use kasuri_base::words::shell_word;
use std::io;
use std::path::{Path, PathBuf};

/// Result with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why a recording could not be made or finished.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A system call on a file failed.
    #[error("cannot {what} {path}: {cause}")]
    File {
        /// The verb: "open", "write", ...
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        cause: io::Error,
    },
    /// A system call without a file failed.
    #[error("cannot {what}: {cause}")]
    System {
        /// The verb and its object: "make a pipe".
        what: &'static str,
        /// The system's error.
        cause: io::Error,
    },
    /// No program has this name.
    #[error("program not found: {program}")]
    ProgramNotFound {
        /// As it was typed.
        program: String,
    },
    /// The program exists but the system does not run it.
    #[error("cannot run {program}: {cause}")]
    ProgramNotRunnable {
        /// As it was typed.
        program: String,
        /// The error of execve.
        cause: io::Error,
    },
    /// /proc belongs to another pid name space.
    #[error(
        "/proc shows this process under another number: it is that of an outer pid name space; \
         `mount -t proc proc /proc` in this one (`unshare -pf --mount-proc`), or run kasuri outside"
    )]
    ForeignProc,
    /// The process to attach to does not exist.
    #[error("no process {pid}: find one with `pgrep NAME`")]
    NoProcess {
        /// The pid that was asked for.
        pid: i32,
    },
    /// The process to attach to is another user's.
    #[error(
        "process {pid} belongs to user {owner}, and you are not root: run as root: `sudo kasuri record -p {pid} ...`"
    )]
    NotYours {
        /// The pid that was asked for.
        pid: i32,
        /// Its user's number.
        owner: u32,
    },
    /// Another recorder is attached to a process of the same number.
    #[error(
        "another recorder, whose session is {session}, is attached to it or to a process that has its number in another \
         container (both find their recorder by {link}): wait until that has ended"
    )]
    AlreadyAttached {
        /// The pid that was asked for.
        pid: i32,
        /// The link by which a program finds its recorder.
        link: PathBuf,
        /// The other recorder's session.
        session: PathBuf,
    },
    /// Another recorder is writing to the directory that this one needs.
    #[error("{path} is being written by another recorder: choose another name with -o")]
    Busy {
        /// The recording directory.
        path: PathBuf,
    },
    /// An earlier recording that was never packed has the name that this one needs.
    #[error(
        "{path} was left by a killed recorder: save it with `kasuri recover {path}`, or remove it"
    )]
    LeftOver {
        /// The recording directory.
        path: PathBuf,
    },
    /// A recovery would replace a recording that is whole.
    #[error(
        "{} is a whole recording, of another run: it is not replaced; `kasuri recover {} -o OTHER.kasuri` saves beside it",
        output.display(), shell_word(dir)
    )]
    Whole {
        /// The recording that is there.
        output: PathBuf,
        /// The directory that was to be recovered.
        dir: PathBuf,
    },
    /// Nothing at all could be recorded in this mode.
    #[error("cannot record anything: {why}")]
    Nothing {
        /// The capability that is missing and the command that grants it.
        why: String,
    },
    /// A probe is not installed.
    #[error(
        "cannot find {file} for {option} (looked for {tried}); build it with `make c`, or name it with {variable}"
    )]
    NoProbe {
        /// File name of its library.
        file: &'static str,
        /// The option that needs it.
        option: &'static str,
        /// Environment variable that names it.
        variable: &'static str,
        /// The places that were searched.
        tried: String,
    },
    /// A lock function cannot be probed.
    #[error("--lock-function {wanted}: {why}")]
    LockFunction {
        /// As it was typed.
        wanted: String,
        /// The reason, and a remedy.
        why: String,
    },
    /// Probes cannot be recorded.
    #[error("--usdt {wanted}: {why}")]
    Usdt {
        /// As it was typed.
        wanted: String,
        /// The reason, and a remedy.
        why: String,
    },
    /// A directory is no recording, or its metadata cannot be read.
    #[error("{path} is not a recording directory: {why}")]
    NotARecording {
        /// The directory.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The disk has no more space than a recording must leave free.
    #[error(
        "only {} MB are free on the disk of {path}, and {} are to stay free (--keep-free)", free >> 20, least >> 20
    )]
    DiskNearlyFull {
        /// The recording directory.
        path: PathBuf,
        /// Bytes free.
        free: u64,
        /// Bytes that are to stay free.
        least: u64,
    },
    /// Packing failed; the directory is still there.
    #[error(
        "cannot pack {dir}: {why}; the recording remains there, pack it with `kasuri recover {dir}`"
    )]
    Pack {
        /// The recording directory.
        dir: PathBuf,
        /// The error, with file and offset where there is one.
        why: String,
    },
    /// Nobody takes the recording.
    #[error(
        "cannot send a recording to {address}: {cause}; there, `kasuri receive` must wait, with the same key"
    )]
    NoReceiver {
        /// HOST:PORT.
        address: String,
        /// The error.
        cause: io::Error,
    },
    /// A recording could not be sent while it was made.
    #[error(
        "cannot send the recording: {why}; what was not sent remains in {dir}: `kasuri recover {dir}`"
    )]
    Unsent {
        /// The recording directory.
        dir: PathBuf,
        /// The error.
        why: String,
    },
}

impl Error {
    /// A failed call on `path`.
    pub(crate) fn file(what: &'static str, path: &Path, cause: impl Into<io::Error>) -> Error {
        Error::File { what, path: path.to_owned(), cause: cause.into() }
    }

    /// A failed call without a file.
    pub(crate) fn system(what: &'static str, cause: impl Into<io::Error>) -> Error {
        Error::System { what, cause: cause.into() }
    }
}
