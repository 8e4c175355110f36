//! Recordings and other tools' traces -> the columns of [`kasuri_model`]. No I/O: callers bring the bytes.
//!
//! Formats are told by their content, never by a file's name. A reader is a row of [`READERS`] and a module of its own;
//! parsing of binary formats lives in `kasuri_format`.
#![forbid(unsafe_code)]

mod category;
mod chrome;
mod ctf;
mod error;
mod flow_ends;
mod ftrace_text;
mod kernel_events;
mod marks;
mod opened;
mod perf_data;
mod perfetto;
mod prev_state;
mod recording;
mod syscalls;
mod tape;
mod text_events;
mod trace_dat;
mod tracks;
mod unpack;

pub use error::Error;
pub use opened::{Clock, Opened};
pub use recording::parse as recording;
pub use unpack::unpack;

use kasuri_model::{Strings, Trace};

/// A file's bytes, unpacked ([`unpack`]). A trace that is a directory has several.
#[derive(Clone, Copy, Default, Debug)]
pub struct File<'a> {
    /// Path for messages; in a directory, the path below it.
    pub name: &'a str,
    /// Its content.
    pub bytes: &'a [u8],
}

/// How to read.
#[derive(Clone, Copy, Default, Debug)]
pub struct Options {
    /// Keep what can be read of a damaged file; what cannot becomes a loss.
    pub salvage: bool,
    /// Keep the scheduler's events beside the columns, for exports.
    pub keeps_events: bool,
}

/// A format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Kasuri's own recording.
    Kasuri,
    /// trace-cmd's and KernelShark's file.
    TraceDat,
    /// perf's file.
    PerfData,
    /// Common Trace Format 1.8 or 2: LTTng, barectf, babeltrace.
    Ctf,
    /// Perfetto's protobuf.
    Perfetto,
    /// Trace Event Format: chrome://tracing and many others.
    ChromeJson,
    /// What tracefs's `trace` and `trace_pipe` print; also inside systrace's HTML.
    FtraceText,
}

impl Kind {
    /// For people.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Kasuri => "kasuri",
            Kind::TraceDat => "trace.dat",
            Kind::PerfData => "perf.data",
            Kind::Ctf => "CTF",
            Kind::Perfetto => "Perfetto",
            Kind::ChromeJson => "Chrome JSON",
            Kind::FtraceText => "ftrace text",
        }
    }
}

/// One format's reader.
struct Reader {
    kind: Kind,
    /// Whether the content is of this format; looks at beginnings only.
    detect: fn(&[File<'_>]) -> bool,
    /// Reads headers; events follow when they are asked for.
    open: for<'a> fn(&'a [File<'a>], &Options, &mut Strings) -> Result<Opened<'a>, Error>,
}

/// All, the surest signs first.
const READERS: &[Reader] = &[
    Reader {
        kind: Kind::Kasuri,
        detect: recording::detect,
        open: recording::open,
    },
    Reader {
        kind: Kind::TraceDat,
        detect: trace_dat::detect,
        open: trace_dat::open,
    },
    Reader {
        kind: Kind::Ctf,
        detect: ctf::detect,
        open: ctf::open,
    },
    Reader {
        kind: Kind::PerfData,
        detect: perf_data::detect,
        open: perf_data::open,
    },
    Reader {
        kind: Kind::Perfetto,
        detect: perfetto::detect,
        open: perfetto::open,
    },
    Reader {
        kind: Kind::ChromeJson,
        detect: chrome::detect,
        open: chrome::open,
    },
    Reader {
        kind: Kind::FtraceText,
        detect: ftrace_text::detect,
        open: ftrace_text::open,
    },
];

/// The format of a trace, when it is known.
pub fn detect(files: &[File<'_>]) -> Option<Kind> {
    reader(files).map(|r| r.kind)
}

/// Whether a file that begins like this may be of a known format: it is, or it is packed.
pub fn may_be_one(beginning: &File<'_>) -> bool {
    unpack::is_packed(beginning.bytes) || detect(&[*beginning]).is_some()
}

fn reader(files: &[File<'_>]) -> Option<&'static Reader> {
    READERS.iter().find(|r| (r.detect)(files))
}

fn known() -> Vec<&'static str> {
    let foreign = READERS.iter().filter(|r| r.kind != Kind::Kasuri);
    foreign.map(|r| r.kind.name()).collect()
}

/// Opens a trace; `strings` are those to build it with.
///
/// # Errors
/// Unknown content, or headers that are damaged.
pub fn open<'a>(
    files: &'a [File<'a>],
    options: &Options,
    strings: &mut Strings,
) -> Result<Opened<'a>, Error> {
    let reader = reader(files).ok_or_else(|| Error::unknown(files))?;
    let mut opened = (reader.open)(files, options, strings)?;
    opened.setup.keeps_events = options.keeps_events;
    Ok(opened)
}

/// Reads a whole trace.
///
/// # Errors
/// As [`open`], and damage met later.
pub fn load(files: &[File<'_>], options: &Options) -> Result<Trace, Error> {
    let mut strings = Strings::default();
    Ok(open(files, options, &mut strings)?.build(strings)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_content_is_named() {
        for bytes in [&b"not a trace"[..], b"\x00\x00\x00\x00"] {
            let file = File {
                name: "some/file",
                bytes,
            };
            let error = load(&[file], &Options::default()).unwrap_err().to_string();
            assert!(error.starts_with("some/file: byte 0: found ["), "{error}");
        }
    }
}
