//! Chrome's Trace Event Format, both forms: what chrome://tracing, node, viztracer, TensorFlow, ninja and many others write.
//!
//! A complete event may be written at its end and a thread's events in any order, so all are read before the first is
//! given; they are kept packed ([`crate::tape`]). Times are microseconds with fractions, read as text: to the ns.
mod event;
mod ids;
mod reader;
mod scan;
mod thread;

use crate::{Error, File, Opened, Options};
use kasuri_model::Strings;
use reader::Reader;
use scan::{Item, Scanner};

/// Where the first event, or the name of their list, must be found.
const DETECT_BYTES: usize = 1 << 20;

/// Whether it is a Trace Event Format file.
pub(crate) fn detect(files: &[File<'_>]) -> bool {
    let [file] = files else {
        return false;
    };
    let head = &file.bytes[..file.bytes.len().min(DETECT_BYTES)];
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    let head = head.trim_ascii_start();
    match head.first() {
        Some(b'{') => contains(head, b"\"traceEvents\""),
        Some(b'[') => {
            let inside = head[1..].trim_ascii_start();
            inside.is_empty()
                || inside[0] == b'{' && contains(&inside[..inside.len().min(4096)], b"\"ph\"")
        }
        _ => false,
    }
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

/// Reads the whole file.
pub(crate) fn open<'a>(
    files: &'a [File<'a>],
    options: &Options,
    strings: &mut Strings,
) -> Result<Opened<'a>, Error> {
    let file = files.first().copied().unwrap_or_default();
    let mut reader = Reader::new(strings);
    let mut scanner = Scanner::new(file.bytes);
    loop {
        let item = match scanner.next_item() {
            Ok(Some(item)) => item,
            Ok(None) => break,
            Err(error) if options.salvage => {
                reader.damage(error);
                break;
            }
            Err(error) => return Err(Error::format(file.name, error)),
        };
        match item {
            Item::Event(bytes, offset) => match reader.event(bytes, offset) {
                Err(error) if options.salvage => reader.damage(error),
                Err(error) => return Err(Error::format(file.name, error)),
                Ok(()) => {}
            },
            Item::Member(name, value) => reader.member(name, value),
        }
    }
    Ok(reader.finish())
}
