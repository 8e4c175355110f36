//! Groups the files of a directory into traces: each `metadata` with the stream files beside it.
//!
//! A stream file is a sequence of packets with a header each. All packets are found here; their events are read later.
//! Hidden and empty files are skipped; LTTng writes indexes into a subdirectory, which has no `metadata`. A session
//! with limited file sizes splits a stream into several files, which are sorted by time.
use crate::{Error, File, Options};
use kasuri_format::ctf::{Layout, Metadata, Packet, packets};
use std::rc::Rc;

/// A stream file and its packets, sorted by begin.
pub(super) struct Stream<'a> {
    pub name: &'a str,
    pub bytes: &'a [u8],
    pub packets: Vec<Packet>,
}

/// One trace of a directory.
pub(super) struct Source<'a> {
    /// Its directory, for messages.
    pub name: &'a str,
    pub layout: Rc<Layout>,
    pub streams: Vec<Stream<'a>>,
    /// Damage in stream files that was passed over. Packets before it were found.
    pub damage: Vec<kasuri_format::Error>,
}

/// Splits a name into the directory and the last part.
fn split(name: &str) -> (&str, &str) {
    name.rsplit_once('/').unwrap_or(("", name))
}

/// Whether a file is the metadata of a CTF trace.
pub(super) fn is_metadata(file: &File<'_>) -> bool {
    split(file.name).1 == "metadata" && kasuri_format::ctf::is_metadata(file.bytes)
}

/// Prepends the file's name to the subject of an error.
pub(super) fn named(file: &str, mut error: kasuri_format::Error) -> kasuri_format::Error {
    error.what = format!("{file}: {}", error.what).into();
    error
}

/// All traces of a directory.
///
/// # Errors
/// Damage that is not passed over; no trace with a stream file.
pub(super) fn sources<'a>(
    files: &'a [File<'a>],
    options: &Options,
) -> Result<Vec<Source<'a>>, Error> {
    let metadata = files.iter().filter(|f| is_metadata(f));
    let all: Result<Vec<_>, _> = metadata.map(|file| source(file, files, options)).collect();
    let all = all?;
    match all.first() {
        Some(first) if all.iter().all(|s| s.streams.is_empty()) => {
            let error = kasuri_format::Error::absent(
                "CTF trace",
                "metadata, which only describes the events, and beside it no file that is not empty",
                "the stream files (channel0_0, ...), which hold the events",
            );
            let remedy = "copy the whole directory of the trace, or record it again";
            Err(Error::format(first.name, error.remedy(remedy)))
        }
        _ => Ok(all),
    }
}

/// The trace of a `metadata`.
fn source<'a>(
    metadata: &'a File<'a>,
    files: &'a [File<'a>],
    options: &Options,
) -> Result<Source<'a>, Error> {
    let wrong = |error| Error::format(metadata.name, error);
    let parsed = Metadata::parse(metadata.bytes).map_err(wrong)?;
    let layout = Rc::new(Layout::new(parsed).map_err(wrong)?);
    let dir = split(metadata.name).0;
    let mut out = Source { name: dir, layout, streams: Vec::new(), damage: Vec::new() };
    for file in files {
        let (there, base) = split(file.name);
        if there != dir || base == "metadata" || base.starts_with('.') || file.bytes.is_empty() {
            continue;
        }
        let (mut found, error) = packets(&out.layout, file.bytes);
        match error {
            // A file that does not belong here, or one that is damaged or truncated.
            Some(error) if !options.salvage => return Err(Error::format(file.name, error)),
            Some(error) => out.damage.push(named(file.name, error)),
            None => {}
        }
        found.sort_by_key(|p| p.begin);
        out.streams.push(Stream { name: file.name, bytes: file.bytes, packets: found });
    }
    // The files of one rotated stream follow one another in time.
    out.streams.sort_by_key(|s| (s.packets.first().map(|p| (p.cpu, p.stream, p.begin)), s.name));
    Ok(out)
}
