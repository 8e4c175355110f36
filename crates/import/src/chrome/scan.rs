//! Finds the events of a file without parsing them.
//!
//! The scanner only counts brackets and skips strings. It needs no stack and no memory besides the file, however deeply
//! values are nested, and a damaged event does not hide those behind it: serde later sees one event at a time.
//!
//! It accepts what real writers produce: a list without its closing bracket (a crash), missing or extra commas, and
//! `null` among the events.
use kasuri_format::Error;

/// The subject of error messages.
const WHAT: &str = "Chrome JSON";

/// A part of the file.
#[derive(Clone, Copy, Debug)]
pub(super) enum Item<'a> {
    /// One event's object, and its offset in the file.
    Event(&'a [u8], u64),
    /// Another member of the outermost object: its name in quotes, its value.
    Member(&'a [u8], &'a [u8]),
}

/// The state of the scanner: what the next byte belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// Nothing was read: a list or an object must come.
    Start,
    /// Among the members of the outermost object.
    Object,
    /// Among the events; in the object form, members follow the list.
    Events { in_object: bool },
    /// What follows the end is not looked at.
    End,
}

/// Iterates over the parts of a file.
#[derive(Clone, Debug)]
pub(super) struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
    place: Place,
}

impl<'a> Scanner<'a> {
    /// A scanner at the start of the file, after a byte order mark.
    pub fn new(bytes: &'a [u8]) -> Scanner<'a> {
        let at = if bytes.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        Scanner { bytes, at, place: Place::Start }
    }

    /// The next part; none: the end. The list form may end after any event, as a writer that crashed leaves it; the
    /// object form must be complete.
    pub fn next_item(&mut self) -> Result<Option<Item<'a>>, Error> {
        loop {
            self.space();
            let next = self.bytes.get(self.at).copied();
            match (self.place, next) {
                (Place::Start, Some(b'[')) => self.enter(Place::Events { in_object: false }),
                (Place::Start, Some(b'{')) => self.enter(Place::Object),
                (Place::Start, _) => return Err(self.wrong("[ or {")),
                (Place::End, _) => return Ok(None),
                // Commas separate nothing here: one too few or too many changes no event.
                (Place::Events { .. } | Place::Object, Some(b',')) => self.at += 1,
                (Place::Events { in_object: false }, None | Some(b']')) => self.place = Place::End,
                (Place::Events { in_object: true }, Some(b']')) => self.enter(Place::Object),
                (Place::Events { .. }, Some(b'{')) => {
                    let start = self.at;
                    let event = self.value()?;
                    return Ok(Some(Item::Event(event, start as u64)));
                }
                // `null`, which some writers put among the events.
                (Place::Events { .. }, Some(b'n')) => drop(self.value()?),
                (Place::Object, Some(b'}')) => self.place = Place::End,
                (Place::Object, Some(b'"')) => {
                    if let Some(member) = self.member()? {
                        return Ok(Some(member));
                    }
                }
                (Place::Events { .. } | Place::Object, None) => return Err(self.cut()),
                (Place::Events { .. }, _) => return Err(self.wrong("{ of an event")),
                (Place::Object, _) => return Err(self.wrong("a name in quotes")),
            }
        }
    }

    /// Skips one byte and changes the state.
    fn enter(&mut self, place: Place) {
        self.at += 1;
        self.place = place;
    }

    /// A name and its value; none: the value is the list of events, and the scanner is now inside it.
    fn member(&mut self) -> Result<Option<Item<'a>>, Error> {
        let name = self.value()?;
        self.space();
        match self.bytes.get(self.at) {
            Some(b':') => self.at += 1,
            None => return Err(self.cut()),
            Some(_) => return Err(self.wrong(":")),
        }
        self.space();
        if name == b"\"traceEvents\"" && self.bytes.get(self.at) == Some(&b'[') {
            self.enter(Place::Events { in_object: true });
            return Ok(None);
        }
        let value = self.value()?;
        Ok(Some(Item::Member(name, value)))
    }

    /// The bytes of the value that begins here. Brackets of both kinds count alike; serde rejects a mismatch.
    fn value(&mut self) -> Result<&'a [u8], Error> {
        let start = self.at;
        let mut depth = 0usize;
        while let Some(&byte) = self.bytes.get(self.at) {
            self.at += 1;
            match byte {
                b'"' => self.string()?,
                b'{' | b'[' => depth += 1,
                b'}' | b']' if depth == 0 => {
                    // The bracket closes the surrounding value, and ends this number or word.
                    self.at -= 1;
                    return Ok(&self.bytes[start..self.at]);
                }
                b'}' | b']' => depth -= 1,
                b',' | b' ' | b'\n' | b'\r' | b'\t' if depth == 0 => {
                    self.at -= 1;
                    return Ok(&self.bytes[start..self.at]);
                }
                _ => continue,
            }
            if depth == 0 {
                return Ok(&self.bytes[start..self.at]);
            }
        }
        Err(self.cut())
    }

    /// Skips to the end of a string, whose opening quote is already consumed.
    fn string(&mut self) -> Result<(), Error> {
        while let Some(&byte) = self.bytes.get(self.at) {
            self.at += 1;
            match byte {
                b'"' => return Ok(()),
                // Whatever is escaped, even a quote, ends no string.
                b'\\' => self.at += 1,
                _ => {}
            }
        }
        self.at = self.bytes.len();
        Err(self.cut())
    }

    /// Skips white space.
    fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.bytes.get(self.at) {
            self.at += 1;
        }
    }

    /// The error for a file that ends too early.
    fn cut(&self) -> Error {
        Error::truncated(WHAT, self.bytes.len() as u64, 0, 1)
    }

    /// The error for an unexpected byte.
    fn wrong(&self, needed: &'static str) -> Error {
        let found = match self.bytes.get(self.at) {
            Some(byte @ b' '..=b'~') => format!("{}", *byte as char),
            Some(byte) => format!("byte {byte:#04x}"),
            None => "the end".to_owned(),
        };
        Error::damaged(WHAT, self.at as u64, found, needed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> Result<Vec<String>, Error> {
        let mut scanner = Scanner::new(text.as_bytes());
        let mut out = Vec::new();
        while let Some(item) = scanner.next_item()? {
            let text = |b| std::str::from_utf8(b).unwrap().to_owned();
            out.push(match item {
                Item::Event(bytes, at) => format!("{at}{}", text(bytes)),
                Item::Member(name, value) => format!("{}={}", text(name), text(value)),
            });
        }
        Ok(out)
    }

    #[test]
    fn both_forms_give_their_events() {
        let array = parts(" [ {\"a\":1},\n{\"b\":\"}]\\\"\"} , ] ").unwrap();
        assert_eq!(array, ["3{\"a\":1}", "12{\"b\":\"}]\\\"\"}"]);
        let object = parts("{\"x\":[1,{}],\"traceEvents\":[{\"a\":{}}],\"y\":3}").unwrap();
        assert_eq!(object, ["\"x\"=[1,{}]", "27{\"a\":{}}", "\"y\"=3"]);
    }

    #[test]
    fn array_form_may_end_behind_any_event() {
        for text in ["[", "[{}", "[{},", "[{}\n{}"] {
            assert!(parts(text).is_ok(), "{text}");
        }
        for text in ["[{", "[{\"a", "{\"traceEvents\":[{}", "{\"traceEvents\":[{}]", "{\"a\\"] {
            let error = parts(text).unwrap_err();
            assert_eq!(error.offset, text.len() as u64, "{text}");
            assert_eq!(error.kind, kasuri_format::ErrorKind::Truncated);
        }
    }

    #[test]
    fn what_is_no_json_is_an_error_with_its_offset() {
        for (text, offset) in [("x", 0), ("[1]", 1), ("{1:2}", 1), ("{\"a\";2}", 4)] {
            assert_eq!(parts(text).unwrap_err().offset, offset, "{text}");
        }
    }

    #[test]
    fn depth_costs_no_stack() {
        let deep = "[".repeat(1 << 20);
        assert!(parts(&format!("{{\"a\":{deep}")).is_err());
    }
}
