//! Turns Kasuri's recordings and other tools' traces into the columns of [`kasuri_model`]. This crate does no I/O:
//! callers bring the bytes.
//!
//! A trace passes through three steps:
//!
//! 1. [`unpack`] undoes gzip, zstd or zip around a whole file;
//! 2. [`open`] recognizes the format by its content, never by a file's name, and reads the headers into an [`Opened`];
//! 3. [`Opened::build`] runs the passes of `kasuri_model`, which pull the events out of the opened streams.
//!
//! Each format has a row in [`READERS`] and a module of its own. The modules only give events their meaning; the
//! parsing of binary formats lives in `kasuri_format`.
//!
//! | module | used by | content |
//! |---|---|---|
//! | `kernel_events` | recordings, trace.dat, perf.data, ftrace text, CTF | which kernel events matter, and their fields |
//! | `raw_events` | trace.dat, perf.data | decodes their bytes |
//! | `text_events` | ftrace text | the same from printed events |
//! | `prev_state`, `syscalls` | all kernel traces | meaning of state bits and system call numbers |
//! | `marks` | trace.dat, ftrace text, Perfetto | texts that programs write to `trace_marker` |
//! | `profile` | pprof, Firefox Profiler | threads that are told by names |
//! | `ahead` | recordings, trace.dat, perf.data | decodes on other threads |
//! | `nesting` | Chrome JSON, Perfetto | complete events among begins and ends |
//! | `category`, `annotation_log`, `tracks`, `flow_ends` | CTF, Perfetto, Chrome JSON | slices, counters and arrows |
#![forbid(unsafe_code)]

mod ahead;
mod annotation_log;
mod category;
mod chrome;
mod ctf;
mod error;
mod firefox;
mod flow_ends;
mod ftrace_text;
mod json_path;
mod kernel_events;
mod marks;
mod nesting;
mod opened;
mod paths;
mod perf_data;
mod perfetto;
mod pprof;
mod prev_state;
mod profile;
mod raw_events;
mod recording;
mod syscalls;
mod text_events;
mod trace_dat;
mod tracks;
mod unknown;
mod unpack;
mod usdt;
mod zip;

pub use error::Error;
pub use opened::{Clock, Opened, Source};
pub use prev_state::PrevState;
pub use recording::parse as recording;
pub use syscalls::{name as syscall_name, number as syscall_number};
pub use unpack::unpack;

use kasuri_model::{Strings, Trace};

/// A file's bytes, after [`unpack`]. A trace that is a directory (CTF) consists of several.
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
    /// Keep the readable part of a damaged file, and report the rest as a loss. Without it damage is an error.
    pub salvage: bool,
    /// Keep the scheduler's events beside the columns. Exports need them; analyses do not.
    pub keeps_events: bool,
    /// Threads that may read, the caller's among them; 0: as many as there are CPUs, where it pays. What is read is the same for any number.
    pub threads: usize,
    /// Names code in files of this machine, which this crate does not open; none: code stays without names that the trace has none for.
    pub name_code: Option<fn(&mut Code)>,
}

/// Code without names, as [`Options::name_code`] gets it.
#[derive(Clone, Debug, Default)]
pub struct Code {
    /// To be named. Addresses in ELF files are offsets in the file; where the file is here, they are to be replaced by its own addresses.
    pub tables: kasuri_format::call_paths::Tables,
    /// Where the kernel's code began in memory; none: not known.
    pub kernel_start: Option<u64>,
    /// The kernel's build-id; empty: not known.
    pub kernel_build_id: Vec<u8>,
    /// Processes in the trace.
    pub pids: Vec<i32>,
}

/// A file format that Kasuri reads.
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
    /// pprof's profile.
    Pprof,
    /// Firefox Profiler's processed profile.
    Firefox,
    /// Perfetto's protobuf.
    Perfetto,
    /// Trace Event Format: chrome://tracing and many others.
    ChromeJson,
    /// The text that tracefs prints in `trace` and `trace_pipe`; systrace embeds it in HTML.
    FtraceText,
}

impl Kind {
    /// The format's name for messages.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Kasuri => "kasuri",
            Kind::TraceDat => "trace.dat",
            Kind::PerfData => "perf.data",
            Kind::Ctf => "CTF",
            Kind::Pprof => "pprof",
            Kind::Firefox => "Firefox Profiler",
            Kind::Perfetto => "Perfetto",
            Kind::ChromeJson => "Chrome JSON",
            Kind::FtraceText => "ftrace text",
        }
    }
}

/// One format's reader.
struct Reader {
    kind: Kind,
    /// Whether the content is of this format. It looks only at the beginnings of files.
    detect: fn(&[File<'_>]) -> bool,
    /// Reads the headers. Most readers decode events later, when the passes ask for them.
    open: for<'a> fn(&'a [File<'a>], &Options, &mut Strings) -> Result<Opened<'a>, Error>,
}

/// All readers. [`detect`] takes the first that matches, so formats with a magic number come before those that are
/// recognized by their look (JSON, text).
const READERS: &[Reader] = &[
    Reader { kind: Kind::Kasuri, detect: recording::detect, open: recording::open },
    Reader { kind: Kind::TraceDat, detect: trace_dat::detect, open: trace_dat::open },
    Reader { kind: Kind::Ctf, detect: ctf::detect, open: ctf::open },
    Reader { kind: Kind::PerfData, detect: perf_data::detect, open: perf_data::open },
    // Before Perfetto, whose packets begin with the same tag.
    Reader { kind: Kind::Pprof, detect: pprof::detect, open: pprof::open },
    Reader { kind: Kind::Perfetto, detect: perfetto::detect, open: perfetto::open },
    Reader { kind: Kind::Firefox, detect: firefox::detect, open: firefox::open },
    Reader { kind: Kind::ChromeJson, detect: chrome::detect, open: chrome::open },
    Reader { kind: Kind::FtraceText, detect: ftrace_text::detect, open: ftrace_text::open },
];

/// The format of a trace; none: no reader knows it.
pub fn detect(files: &[File<'_>]) -> Option<Kind> {
    reader(files).map(|r| r.kind)
}

/// Whether a file with this beginning may be a trace: a reader knows it, or it is compressed.
pub fn may_be_one(beginning: &File<'_>) -> bool {
    unpack::is_packed(beginning.bytes) || detect(&[*beginning]).is_some()
}

/// The first reader that recognizes the files.
fn reader(files: &[File<'_>]) -> Option<&'static Reader> {
    READERS.iter().find(|r| (r.detect)(files))
}

/// Names of the foreign formats, for the message about an unknown file.
fn known() -> Vec<&'static str> {
    let foreign = READERS.iter().filter(|r| r.kind != Kind::Kasuri);
    foreign.map(|r| r.kind.name()).collect()
}

/// What a file that no reader knows looks like.
fn looks(file: &File<'_>) -> String {
    unknown::looks(file)
}

/// Opens a trace and interns its names into `strings`, which [`Opened::build`] takes over.
///
/// # Errors
/// Unknown content, or damaged headers.
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

/// Reads a whole trace: [`open`], then [`Opened::build`].
///
/// # Errors
/// As [`open`], and damage among the events.
pub fn load(files: &[File<'_>], options: &Options) -> Result<Trace, Error> {
    let mut strings = Strings::default();
    Ok(open(files, options, &mut strings)?.build(strings)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_content_is_named() {
        for (bytes, looks) in [
            (&b"not a trace"[..], "is text, but of no trace: it begins with \"not a trace\";"),
            (b"\x00\x01", "begins with the bytes [00, 01], which no format has;"),
        ] {
            let file = File { name: "some/file", bytes };
            let error = load(&[file], &Options::default()).unwrap_err().to_string();
            assert!(error.starts_with(&format!("some/file: {looks}")), "{error}");
        }
    }
}
