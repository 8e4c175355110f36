//! Reads Chrome's Trace Event Format (JSON), which chrome://tracing, node, viztracer, TensorFlow, ninja and many others
//! write.
//!
//! A file is a list of events, or an object with such a list and more members:
//!
//! ```json
//! {"traceEvents": [
//!   {"ph": "X", "name": "parse", "cat": "io", "pid": 1, "tid": 2, "ts": 12.345, "dur": 3, "args": {"n": 4}}
//! ]}
//! ```
//!
//! `ph` is the phase: `B` and `E` begin and end a slice, `X` is a complete one, `i` an instant, `C` a counter, `M`
//! metadata; `b`, `n`, `e` are asynchronous, `s`, `t`, `f` the ends of arrows. Times are microseconds with fractions.
//! They are parsed as text, so ns are exact.
//!
//! A writer may write a complete event at its end, and a thread's events in any order. So the whole file is read before
//! the passes get the first event; meanwhile the events are kept packed ([`crate::annotation_log`]).
//!
//! | module | content |
//! |---|---|
//! | `scan` | finds the events in the file |
//! | `event` | members of one event, numbers and arguments |
//! | `ids` | process and thread ids |
//! | `reader` | sorts events into threads, tracks, counters, arrows |
//! | `own` | the scheduler's events of Kasuri's own export |
mod event;
mod ids;
mod own;
mod reader;
mod scan;

use crate::{Error, File, Opened, Options};
use kasuri_model::Strings;
use reader::Reader;
use scan::{Item, Scanner};

/// Bytes in which `"traceEvents"` must occur.
const DETECT_BYTES: usize = 1 << 20;

/// Whether it is a file of this format: an object with the list of events, or a list whose first event has a phase. A
/// byte order mark may precede it. Only where the beginning does not tell, because a text in it is long, more is looked at.
pub(crate) fn detect(files: &[File<'_>]) -> bool {
    let [file] = files else {
        return false;
    };
    let head = &file.bytes[..file.bytes.len().min(DETECT_BYTES)];
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    let head = head.trim_ascii_start();
    match head.first() {
        Some(b'{') => contains(head, b"\"traceEvents\"") || first_event(file.bytes).is_some(),
        Some(b'[') => {
            let inside = head[1..].trim_ascii_start();
            let is_event = |event: &[u8]| contains(event, b"\"ph\"");
            inside.is_empty()
                || inside[0] == b'{'
                    && (is_event(&inside[..inside.len().min(4096)])
                        || first_event(file.bytes).is_some_and(is_event))
        }
        _ => false,
    }
}

/// The first event of a file that may be of this format.
fn first_event(bytes: &[u8]) -> Option<&[u8]> {
    let mut scanner = Scanner::new(bytes);
    while let Ok(Some(item)) = scanner.next_item() {
        if let Item::Event(event, _) = item {
            return Some(event);
        }
    }
    None
}

/// The names of the first `most` members of a file that is an object of JSON, and whether it is cut or broken among them.
pub(crate) fn members(bytes: &[u8], most: usize) -> (Vec<String>, bool) {
    let mut scanner = Scanner::new(bytes);
    let mut names = Vec::new();
    while names.len() < most {
        match scanner.next_item() {
            Ok(Some(Item::Member(name, _))) => {
                let name = String::from_utf8_lossy(name);
                names.push(name.trim_matches('"').to_owned());
            }
            Ok(Some(Item::Event(..))) => {}
            Ok(None) => break,
            Err(_) => return (names, true),
        }
    }
    (names, false)
}

/// Whether `wanted` occurs in the bytes.
fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

/// Reads the whole file. A salvaged file is read up to damage in its structure; damaged events are always left out and counted.
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
            Item::Event(bytes, offset) => reader.event(bytes, offset),
            // A list is given event by event.
            Item::Member(b"\"traceEvents\"", value) => {
                let value = String::from_utf8_lossy(&value[..value.len().min(60)]);
                let value = value.escape_debug();
                let looks = format!("is JSON whose `traceEvents` is no list of events: {value}");
                return Err(Error::Unknown { file: file.name.to_owned(), looks });
            }
            Item::Member(name, value) => reader.member(name, value),
        }
    }
    Ok(reader.finish())
}
