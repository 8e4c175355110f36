//! A directory's files as traces: each `metadata`, and the streams beside it.
use crate::{Error, File, Options};
use kasuri_format::ctf::{Layout, Metadata, Packet, packets};
use std::rc::Rc;

/// A stream file with its packets found.
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
    /// Files whose end is damaged: what is wrong there.
    pub damage: Vec<kasuri_format::Error>,
}

/// Directory and last part of a name.
fn split(name: &str) -> (&str, &str) {
    name.rsplit_once('/').unwrap_or(("", name))
}

/// Whether a file is the metadata of a CTF trace.
pub(super) fn is_metadata(file: &File<'_>) -> bool {
    split(file.name).1 == "metadata" && kasuri_format::ctf::is_metadata(file.bytes)
}

/// The error with the file's name in front of what was read.
pub(super) fn named(file: &str, mut error: kasuri_format::Error) -> kasuri_format::Error {
    error.what = format!("{file}: {}", error.what).into();
    error
}

/// All traces.
pub(super) fn sources<'a>(
    files: &'a [File<'a>],
    options: &Options,
) -> Result<Vec<Source<'a>>, Error> {
    let metadata = files.iter().filter(|f| is_metadata(f));
    metadata.map(|file| source(file, files, options)).collect()
}

fn source<'a>(
    metadata: &'a File<'a>,
    files: &'a [File<'a>],
    options: &Options,
) -> Result<Source<'a>, Error> {
    let wrong = |error| Error::format(metadata.name, error);
    let parsed = Metadata::parse(metadata.bytes).map_err(wrong)?;
    let layout = Rc::new(Layout::new(parsed).map_err(wrong)?);
    let dir = split(metadata.name).0;
    let mut out = Source {
        name: dir,
        layout,
        streams: Vec::new(),
        damage: Vec::new(),
    };
    for file in files {
        let (there, base) = split(file.name);
        if there != dir || base == "metadata" || base.starts_with('.') || file.bytes.is_empty() {
            continue;
        }
        let (mut found, error) = packets(&out.layout, file.bytes);
        match error {
            // No packet at all: a file that does not belong here, or one cut in its first packet.
            Some(error) if !options.salvage => return Err(Error::format(file.name, error)),
            Some(error) => out.damage.push(named(file.name, error)),
            None => {}
        }
        found.sort_by_key(|p| p.begin);
        out.streams.push(Stream {
            name: file.name,
            bytes: file.bytes,
            packets: found,
        });
    }
    // Rotated files of one stream follow one another in time.
    out.streams.sort_by_key(|s| {
        (
            s.packets.first().map(|p| (p.cpu, p.stream, p.begin)),
            s.name,
        )
    });
    Ok(out)
}
